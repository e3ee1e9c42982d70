"""Which incarnations of brokers the store means, and what a takeover makes of those that ended while nobody led the cluster.

A broker that was restarted counts as live, and may have come back with less than it had: its high watermark, what was
not flushed, its whole disk. A controller that saw it go and come treats that as failure and start-up. One that
takes over sees only that it is there. So a state node says in which incarnation each member of the ISR, and each replica that
is eligible (KIP-966), was meant; Apache leaves this open in ZooKeeper mode.
"""

from collections.abc import Collection, Iterable

from odradek.controller.context import ControllerContext
from odradek.controller.election import Election
from odradek.controller.eligible import is_in_doubt
from odradek.controller.partition_states import plan_partition_move
from odradek.controller.plan import Plan
from odradek.controller.states import PartitionState
from odradek.model.facts import StoredPartitionState
from odradek.model.ids import UNKNOWN_BROKER_EPOCH, BrokerEpoch, BrokerId, TopicPartition

Lost = dict[TopicPartition, tuple[BrokerId, ...]]

RESTARTED = "was restarted while there was no controller, and not after a clean shutdown"


def commit_last_epochs(context: ControllerContext) -> None:
    """The newest incarnation that the store knows of each broker that is not registered now. Older ones were judged by whoever
    wrote that."""
    brokers, last = context.brokers, context.last_epochs
    if all(broker in brokers for broker in context.partitions_on):
        return
    seen: set[tuple[tuple[BrokerId, ...], tuple[BrokerEpoch, ...]]] = set()
    for stored in context.leaderships.values():
        state = stored.leader_and_isr
        seen.add((state.isr, stored.isr_broker_epochs))
        if state.elr:
            seen.add((state.elr, stored.elr_broker_epochs))
    for members, epochs in seen:
        for member, epoch in zip(members, epochs, strict=False):  # none, or one for each
            if member not in brokers and epoch > last.get(member, UNKNOWN_BROKER_EPOCH):
                last[member] = epoch


def plan_restarted_members(plan: Plan, partitions: Iterable[TopicPartition]) -> Lost:
    """Members that were restarted leave the ISR, or at least its epoch. The brokers that may have lost what the ISR or
    the eligible of a partition held are returned, for `eligible.plan_lost`; nearly always there are none, and most partitions
    have the same members: those are looked at once."""
    leaderships = plan.context.leaderships
    lost: Lost = {}
    judged: dict[
        object, tuple[tuple[BrokerId, ...], bool]
    ] = {}  # incarnations -> (lost, nobody was restarted)
    is_whole = plan.context.all_log_dirs_online()
    for topic_partition in partitions:
        stored = leaderships.get(topic_partition)
        if stored is None:
            continue
        state = stored.leader_and_isr
        key = state.isr, stored.isr_broker_epochs, state.elr, stored.elr_broker_epochs
        known = judged.get(key)
        if known is None:
            gone = _lost(plan.context, stored)
            is_unbroken = not _restarted(plan.context, topic_partition, stored)
            if is_whole and stored.isr_broker_epochs:
                judged[key] = gone, is_unbroken
        else:
            gone, is_unbroken = known
        if gone:
            lost[topic_partition] = gone
        if not is_unbroken and not is_in_doubt(plan, topic_partition, gone):
            _plan_restarted(plan, topic_partition, stored, gone)
    return lost


def _plan_restarted(
    plan: Plan, topic_partition: TopicPartition, stored: StoredPartitionState, lost: Collection[BrokerId]
) -> None:
    """Failure and start-up at once for members of the ISR.

    Led on in the same epoch, that epoch would hold two histories that no truncation can tell apart. So the restarted
    leave the ISR as long as somebody is in it who was not restarted and has everything, and the leader epoch rises. If
    all were restarted, those stay that have stopped cleanly, and if none has, all that are live. (All may have lost records:
    they are asked, see `eligible.plan_lost`.)
    """
    context = plan.context
    current = stored.leader_and_isr
    live = [member for member in current.isr if context.is_online(member, topic_partition)]
    restarted = _restarted(context, topic_partition, stored)
    unbroken = tuple(member for member in live if member not in restarted)
    whole = tuple(member for member in live if member not in lost)
    isr = unbroken or whole or tuple(live)
    replicas = plan.assignment(topic_partition).replicas
    first = next((broker for broker in replicas if broker in isr), None)
    leader = current.leader if current.leader in isr else first
    if leader is None:
        return  # members that are not assigned: nobody to choose from; the usual election says why
    reachable = context.online_of(replicas, topic_partition)
    who = ", ".join(map(str, restarted))
    election = Election(leader, isr, False, reachable, f"{who} restarted while there was no controller")
    plan_partition_move(
        plan, topic_partition, PartitionState.ONLINE, lambda _plan, _partition, _current: election
    )


def _restarted(
    context: ControllerContext, topic_partition: TopicPartition, stored: StoredPartitionState
) -> list[BrokerId]:
    """Members of the ISR that are live, in another incarnation than the node means."""
    isr = stored.leader_and_isr.isr
    return [b for b in isr if context.is_online(b, topic_partition) and _was_restarted(context, stored, b)]


def _was_restarted(context: ControllerContext, stored: StoredPartitionState, member: BrokerId) -> bool:
    epoch = context.brokers[member].epoch
    if stored.isr_broker_epochs:
        return stored.isr_broker_epochs[stored.leader_and_isr.isr.index(member)] != epoch
    # An Apache controller wrote the node. Who registered after that was not the one it meant.
    return stored.written_zxid >= 0 and epoch > stored.written_zxid


def _lost(context: ControllerContext, stored: StoredPartitionState) -> tuple[BrokerId, ...]:
    """Of the ISR and the eligible, those that may hold less by now than when the node was written."""
    state = stored.leader_and_isr
    if not stored.isr_broker_epochs:
        # Apache's, or of another store; or a model of a cluster in which nobody restarts.
        if stored.written_zxid < 0:
            return ()
        others = [b for b in state.isr if _may_be_another(context, b, stored.written_zxid)]
        return (*others, *state.elr)
    lost = [
        b
        for b, incarnation in zip(state.isr, stored.isr_broker_epochs, strict=True)
        if _is_over(context, b, incarnation)
    ]
    incarnations = stored.elr_broker_epochs or (UNKNOWN_BROKER_EPOCH,) * len(state.elr)
    lost += [
        b for b, incarnation in zip(state.elr, incarnations, strict=True) if _is_over(context, b, incarnation)
    ]
    return tuple(lost)


def _is_over(context: ControllerContext, broker: BrokerId, incarnation: BrokerEpoch) -> bool:
    """It is not that incarnation any more, and not the next one after a clean stop. `incarnation` -1: nobody knows which was meant."""
    registration = context.brokers.get(broker)
    if incarnation == UNKNOWN_BROKER_EPOCH:
        return True
    if registration is None:
        return incarnation != context.last_epochs.get(broker)
    return incarnation not in (registration.epoch, registration.clean_epoch)


def _may_be_another(context: ControllerContext, broker: BrokerId, written_zxid: int) -> bool:
    registration = context.brokers.get(broker)
    if registration is None or registration.epoch <= written_zxid:
        return registration is None
    return not UNKNOWN_BROKER_EPOCH < registration.clean_epoch <= written_zxid
