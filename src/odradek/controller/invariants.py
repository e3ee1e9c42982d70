"""What must hold whenever the controller rests between two events, by name.

Evaluated after every step in tests and in the simulator, and as an alarm in production. Names as in
hachikuji/kafka-specification where it has one. Each check is a generator of sentences; nothing found: it holds.
"""

from collections.abc import Callable, Iterable, Iterator

from odradek.controller.context import ControllerContext
from odradek.controller.states import PartitionState, ReplicaState
from odradek.model.ids import NO_LEADER, TopicPartition

DELETING = frozenset(
    {
        ReplicaState.DELETION_STARTED,
        ReplicaState.DELETION_SUCCESSFUL,
        ReplicaState.DELETION_INELIGIBLE,
    }
)

Invariant = Callable[[ControllerContext, TopicPartition], Iterator[str]]


def leader_in_isr(context: ControllerContext, topic_partition: TopicPartition) -> Iterator[str]:
    """The stored leader, if there is one, is in the stored ISR."""
    state = context.leadership(topic_partition)
    if state is not None and state.leader != NO_LEADER and state.leader not in state.isr:
        yield f"leader {state.leader} is not in the ISR {state.isr}"


def isr_is_never_empty(context: ControllerContext, topic_partition: TopicPartition) -> Iterator[str]:
    """C13: the last member stays, with leader -1: else nobody knows who has the records."""
    state = context.leadership(topic_partition)
    if state is not None and not state.isr:
        yield "the ISR is empty"


def isr_is_assigned(context: ControllerContext, topic_partition: TopicPartition) -> Iterator[str]:
    state = context.leadership(topic_partition)
    assignment = context.assignments.get(topic_partition)
    if state is not None and assignment is not None:
        # Between steps 6 and 8 of a reassignment the removed replicas are still in the ISR.
        replicas = {*assignment.replicas, *context.stored_assignment(topic_partition).replicas}
        unassigned = [b for b in state.isr if b not in replicas]
        if unassigned:
            yield f"ISR members {unassigned} are not among the replicas {assignment.replicas}"


def type_ok(context: ControllerContext, topic_partition: TopicPartition) -> Iterator[str]:
    """Every value is in its range."""
    state = context.leadership(topic_partition)
    if state is None:
        return
    if state.leader < NO_LEADER or state.leader_epoch < 0 or state.partition_epoch < 0:
        yield f"out of range: {state}"
    if len(set(state.isr)) != len(state.isr):
        yield f"a broker stands twice in the ISR {state.isr}"
    if state.leader_recovery_state not in (0, 1):
        yield f"leader recovery state {state.leader_recovery_state}"


def new_has_no_leader(context: ControllerContext, topic_partition: TopicPartition) -> Iterator[str]:
    """NewPartition promises: replicas assigned, no leader and ISR yet."""
    if context.partition_state(topic_partition) is PartitionState.NEW:
        if context.leadership(topic_partition) is not None:
            yield "NewPartition with a leader and ISR"
        if topic_partition not in context.assignments:
            yield "NewPartition without replicas"


def online_has_a_live_leader(context: ControllerContext, topic_partition: TopicPartition) -> Iterator[str]:
    """OnlinePartition promises a leader that is registered. (A leader that is shutting down still leads.)"""
    if context.partition_state(topic_partition) is PartitionState.ONLINE:
        state = context.leadership(topic_partition)
        if state is None or state.leader not in context.brokers:
            yield f"OnlinePartition without a live leader: {state}"


def offline_has_no_live_leader(context: ControllerContext, topic_partition: TopicPartition) -> Iterator[str]:
    """OfflinePartition promises that nobody leads who could."""
    if context.partition_state(topic_partition) is PartitionState.OFFLINE:
        state = context.leadership(topic_partition)
        if state is not None and context.is_online(state.leader, topic_partition):
            yield f"OfflinePartition with the live leader {state.leader}"


def offline_replicas_are_not_in_sync(
    context: ControllerContext, topic_partition: TopicPartition
) -> Iterator[str]:
    """OfflineReplica promises: out of the ISR, unless it is its last member."""
    state = context.leadership(topic_partition)
    if state is None or len(state.isr) == 1:
        return
    for broker in state.isr:
        if context.replica_state(topic_partition, broker) is ReplicaState.OFFLINE:
            yield f"OfflineReplica {broker} is in the ISR {state.isr}"


def deletion_is_under_way(context: ControllerContext, topic_partition: TopicPartition) -> Iterator[str]:
    """Of a topic that is being deleted each replica on a live broker has been told so, or waits as Ineligible until it is told again:
    one in another state would be told by nobody, and the deletion would never end."""
    assignment = context.assignments.get(topic_partition)
    if assignment is None or topic_partition.topic not in context.topics_to_delete:
        return
    for broker in assignment.replicas:
        state = context.replica_state(topic_partition, broker)
        if broker in context.brokers and state not in DELETING:
            yield f"{state} {broker} of a topic that is being deleted"


def eligible_are_outside_the_isr(
    context: ControllerContext, topic_partition: TopicPartition
) -> Iterator[str]:
    """KIP-966: eligible and last known are no members of the ISR, nor of each other; but for members of an ISR without a leader that
    may have lost what they held."""
    state = context.leadership(topic_partition)
    if state is None:
        return
    for first, second in (
        (state.isr, state.elr),
        (state.isr if state.leader != NO_LEADER else (), state.last_known_elr),
        (state.elr, state.last_known_elr),
    ):
        both = sorted(set(first) & set(second))
        if both:
            yield f"brokers {both} twice: ISR {state.isr}, eligible {state.elr}, last known {state.last_known_elr}"


def controller_epoch_is_not_above_ours(
    context: ControllerContext, topic_partition: TopicPartition
) -> Iterator[str]:
    stored = context.leaderships.get(topic_partition)
    if stored is not None and stored.controller_epoch > context.controller_epoch:
        yield f"written by controller epoch {stored.controller_epoch}, ours is {context.controller_epoch}"


def indexes_agree(context: ControllerContext, topic_partition: TopicPartition) -> Iterator[str]:
    """The indexes by broker and of leaderless partitions say what the states say."""
    assignment = context.assignments.get(topic_partition)
    for broker in assignment.replicas if assignment is not None else ():
        if topic_partition not in context.partitions_on.get(broker, ()):
            yield f"broker {broker} does not list it"
    waits = context.partition_state(topic_partition) in (PartitionState.NEW, PartitionState.OFFLINE)
    if waits != (topic_partition in context.leaderless):
        yield f"state {context.partition_state(topic_partition)}, listed as leaderless: {not waits}"


INVARIANTS: dict[str, Invariant] = {
    "LeaderInIsr": leader_in_isr,
    "IsrIsNeverEmpty": isr_is_never_empty,
    "IsrIsAssigned": isr_is_assigned,
    "TypeOk": type_ok,
    "NewHasNoLeader": new_has_no_leader,
    "OnlineHasALiveLeader": online_has_a_live_leader,
    "OfflineHasNoLiveLeader": offline_has_no_live_leader,
    "OfflineReplicasAreNotInSync": offline_replicas_are_not_in_sync,
    "DeletionIsUnderWay": deletion_is_under_way,
    "EligibleAreOutsideTheIsr": eligible_are_outside_the_isr,
    "ControllerEpochIsNotAboveOurs": controller_epoch_is_not_above_ours,
    "IndexesAgree": indexes_agree,
}


def violations(
    context: ControllerContext, partitions: Iterable[TopicPartition] | None = None
) -> list[tuple[str, TopicPartition, str]]:
    """(invariant, partition, what is wrong); all partitions, or only those an event touched."""
    found: list[tuple[str, TopicPartition, str]] = []
    for topic_partition in sorted(context.assignments if partitions is None else set(partitions)):
        for name, check in INVARIANTS.items():
            for sentence in check(context, topic_partition):
                found.append((name, topic_partition, sentence))
    return found
