"""What a large event is made of, many partitions in one loop: the same moves as one by one, at a third of the cost.

A broker that leaves takes a replica out of the ISR of 100,000 partitions. By the tables of `partition_states` and
`replica_states` each of them costs a dozen calls, and these are most of the event. Here the usual partition (nothing of
it failed, is new, or is being deleted) is moved by a loop that writes the same on the plan, in the same order. Which
moves are legal, the tables say here too; and whatever is not usual is moved by them.

tests/controller/test_bulk_moves.py plans the same events both ways and compares everything on the plan.
"""

from collections.abc import Mapping, Sequence

from odradek.controller.effects import StateChange
from odradek.controller.election import Election
from odradek.controller.leadership import Brokers, departed, elected, is_enough, returned
from odradek.controller.partition_states import TRANSITIONS as PARTITION_MOVES
from odradek.controller.partition_states import (
    LeaderSelector,
    WriteLeaderAndIsr,
    plan_partition_move,
    select_offline,
)
from odradek.controller.plan import NO_REPLICAS, Plan
from odradek.controller.replica_states import TRANSITIONS as REPLICA_MOVES
from odradek.controller.replica_states import LeaveIsr, Return, plan_replica_move
from odradek.controller.states import DELETED, PartitionState, ReplicaState
from odradek.model.ids import NO_LEADER, BrokerId, TopicPartition

# Fewer are moved one by one: what is small should be read, and stepped through, where the rules stand.
WORTH_IT = 32

OFFLINE, ONLINE = ReplicaState.OFFLINE, ReplicaState.ONLINE
LEAVING = frozenset(state for state, moves in REPLICA_MOVES.items() if moves.get(OFFLINE) is LeaveIsr)
RETURNING = frozenset(state for state, moves in REPLICA_MOVES.items() if moves.get(ONLINE) is Return)
ELECTABLE = frozenset(
    state for state, moves in PARTITION_MOVES.items() if moves.get(PartitionState.ONLINE) is WriteLeaderAndIsr
)

# What LeaderAndIsr may say to such a replica is the same whatever else happens to it.
ORDINARY = frozenset(ReplicaState) - {ReplicaState.NEW} - DELETED
NONE: Mapping[BrokerId, ReplicaState] = {}
NOBODY: tuple[Brokers, Brokers] = ((), ())

_change = tuple.__new__  # StateChange without its constructor, which costs as much again


def plan_departures(plan: Plan, broker: BrokerId, partitions: Sequence[TopicPartition]) -> None:
    """The replicas of `broker` -> Offline (`replica_states.LeaveIsr`)."""
    if len(partitions) < WORTH_IT:
        for topic_partition in partitions:
            plan_replica_move(plan, topic_partition, broker, OFFLINE)
        return
    context, reason, changes = plan.context, plan.reason, plan.changes
    planned_states, unusual = plan.replica_states, context.replica_state_overrides
    assignments, new_assignments = context.assignments, plan.assignments
    leaderships, drafts = context.leaderships, plan.leaderships
    metadata, told = plan.telling.metadata, plan.telling.leader_and_isr
    deleting = context.topics_to_delete
    stops = plan.telling.stops.setdefault(broker, {}) if broker in context.brokers else None
    offline = {broker: OFFLINE}
    # Leader and ISR -> what stays of them
    without: dict[tuple[BrokerId, Brokers], tuple[BrokerId, Brokers]] = {}
    to_tell: dict[Brokers, list[dict[TopicPartition, bool]]] = {}  # replicas -> what the other ones are told
    topic, minimum, is_deleted = "", 0, False
    for topic_partition in partitions:
        if topic_partition[0] != topic:
            topic = topic_partition[0]
            minimum, is_deleted = plan.minimum_of(topic), topic in deleting
        states = unusual.get(topic_partition)
        source = ONLINE if states is None else states.get(broker, ONLINE)
        replicas = assignments.get(topic_partition, NO_REPLICAS).replicas
        draft = drafts.get(topic_partition)
        stored = leaderships.get(topic_partition)
        current = draft if draft is not None else None if stored is None else stored.leader_and_isr
        is_usual = (
            topic_partition not in planned_states
            and topic_partition not in new_assignments
            and broker in replicas
            and source in LEAVING
            and not is_deleted
            and current is not None
            and (states is None or states.keys() == offline.keys())  # of the others nothing is unusual
        )
        if not is_usual:
            plan_replica_move(plan, topic_partition, broker, OFFLINE)
            continue
        assert current is not None
        before = current.leader, current.isr
        remaining = without.get(before)
        if remaining is None:
            remaining = without[before] = departed(current, broker)
        if remaining != before:
            if draft is not None or stored is None:  # drafts fold: one by one
                plan_replica_move(plan, topic_partition, broker, OFFLINE)
                continue
            leader, isr = remaining
            elr, known = NOBODY
            if current.last_known_elr or not is_enough(isr, replicas=replicas, minimum=minimum):
                elr, known = plan.eligible_outside(topic_partition, current, isr, is_led=leader != NO_LEADER)
            after = drafts[topic_partition] = elected(
                current, current, leader, isr, elr=elr, last_known_elr=known
            )
            changes.append(
                _change(
                    StateChange,
                    (
                        *("leadership", "in the ISR", "left", reason, topic_partition, broker),
                        *(after, current, None, ""),
                    ),
                )
            )
            others = to_tell.get(replicas)
            if others is None:
                others = to_tell[replicas] = [
                    told.setdefault(other, {})
                    for other in replicas
                    if other != broker and other in context.brokers
                ]
            for partitions_told in others:
                partitions_told.setdefault(topic_partition, False)
        if stops is not None:
            stops.setdefault(topic_partition, False)
        planned_states[topic_partition] = offline
        changes.append(
            _change(
                StateChange,
                ("replica", source, OFFLINE, reason, topic_partition, broker, None, None, None, ""),
            )
        )
        metadata[topic_partition] = None


def plan_returns(plan: Plan, broker: BrokerId, partitions: Sequence[TopicPartition]) -> None:
    """The replicas of `broker` -> Online (`replica_states.Return`)."""
    if len(partitions) < WORTH_IT or broker not in plan.context.brokers:
        for topic_partition in partitions:
            plan_replica_move(plan, topic_partition, broker, ONLINE)
        return
    context, reason, changes = plan.context, plan.reason, plan.changes
    planned_states, unusual = plan.replica_states, context.replica_state_overrides
    assignments, new_assignments = context.assignments, plan.assignments
    leaderships, drafts = context.leaderships, plan.leaderships
    metadata = plan.telling.metadata
    told = plan.telling.leader_and_isr.setdefault(broker, {})
    online = {broker: ONLINE}
    for topic_partition in partitions:
        states = unusual.get(topic_partition)
        source = ONLINE if states is None else states.get(broker, ONLINE)
        if (
            topic_partition in planned_states
            or topic_partition in new_assignments
            or source not in RETURNING
            or broker not in assignments.get(topic_partition, NO_REPLICAS).replicas
        ):
            plan_replica_move(plan, topic_partition, broker, ONLINE)
            continue
        planned_states[topic_partition] = online
        changes.append(
            _change(
                StateChange,
                ("replica", source, ONLINE, reason, topic_partition, broker, None, None, None, ""),
            )
        )
        draft, stored = drafts.get(topic_partition), leaderships.get(topic_partition)
        if returned(draft if draft is not None else None if stored is None else stored.leader_and_isr):
            told.setdefault(topic_partition, False)
            metadata[topic_partition] = None


def plan_elections(
    plan: Plan, partitions: Sequence[TopicPartition], select: LeaderSelector = select_offline
) -> list[bool]:
    """Partitions -> Online (`partition_states.WriteLeaderAndIsr`); for each, whether somebody leads it now.

    `select` is asked once for partitions with the same replicas and ISR. So it must choose by these alone, as long as
    no disk has failed, nobody is eligible outside the ISR, and the topic does not allow unclean elections.
    """
    context = plan.context
    if len(partitions) < WORTH_IT or not context.all_log_dirs_online():
        return [plan_partition_move(plan, tp, PartitionState.ONLINE, select) for tp in partitions]
    changes, planned_states, states = plan.changes, plan.partition_states, context.partition_states
    planned_replicas, unusual = plan.replica_states, context.replica_state_overrides
    assignments, new_assignments = context.assignments, plan.assignments
    leaderships, drafts = context.leaderships, plan.leaderships
    metadata, told = plan.telling.metadata, plan.telling.leader_and_isr
    # (replicas, ISR) -> who leads then, why as a sentence, what those are told that hear of it
    chosen: dict[tuple[Brokers, Brokers], tuple[Election, str, list[dict[TopicPartition, bool]]] | None] = {}
    led: list[bool] = []
    topic, minimum, is_unclean = "", 0, False
    for topic_partition in partitions:
        if topic_partition[0] != topic:
            topic = topic_partition[0]
            minimum, is_unclean = plan.minimum_of(topic), plan.is_unclean_election_allowed(topic)
        source = planned_states.get(topic_partition)
        if source is None:
            source = states.get(topic_partition, PartitionState.NON_EXISTENT)
        stored = leaderships.get(topic_partition)
        if (
            stored is None
            or is_unclean
            or source not in ELECTABLE
            or topic_partition in new_assignments
            or not ORDINARY.issuperset(planned_replicas.get(topic_partition, NONE).values())
            or not ORDINARY.issuperset(unusual.get(topic_partition, NONE).values())
        ):
            led.append(plan_partition_move(plan, topic_partition, PartitionState.ONLINE, select))
            continue
        draft = drafts.get(topic_partition)
        before = stored.leader_and_isr
        current = before if draft is None else draft
        if current.last_known_elr:  # of which some may be in the ISR, and in doubt
            led.append(plan_partition_move(plan, topic_partition, PartitionState.ONLINE, select))
            continue
        replicas = assignments[topic_partition].replicas
        key = replicas, current.isr
        if key not in chosen:
            election = None if current.elr else select(plan, topic_partition, current)
            chosen[key] = None if election is None or election.unclean else _heard(plan, election, told)
        found = chosen[key]
        if found is None:
            led.append(plan_partition_move(plan, topic_partition, PartitionState.ONLINE, select))
            continue
        election, reason, hearers = found
        isr = election.isr
        elr, known = NOBODY
        if not is_enough(isr, replicas=replicas, minimum=minimum):
            elr, known = plan.eligible_outside(topic_partition, current, isr, is_led=True)
        if draft is not None:
            plan.redrafted.add(topic_partition)
        after = drafts[topic_partition] = elected(
            before, current, election.leader, isr, elr=elr, last_known_elr=known
        )
        planned_states[topic_partition] = PartitionState.ONLINE
        changes.append(
            _change(
                StateChange,
                (
                    *("partition", source, PartitionState.ONLINE, reason, topic_partition, None),
                    *(after, None, None, ""),
                ),
            )
        )
        for partitions_told in hearers:
            partitions_told.setdefault(topic_partition, False)
        metadata[topic_partition] = None
        led.append(True)
    return led


def _heard(
    plan: Plan, election: Election, told: dict[BrokerId, dict[TopicPartition, bool]]
) -> tuple[Election, str, list[dict[TopicPartition, bool]]]:
    hearers = [told.setdefault(broker, {}) for broker in election.tell if broker in plan.context.brokers]
    return election, plan.reason_with(election.why), hearers
