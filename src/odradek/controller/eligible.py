"""Eligible leader replicas (KIP-966): who may lead without loss although it is not in the ISR.

The high watermark does not move while the ISR is smaller than min.insync.replicas. So a replica that leaves the
ISR and thereby makes it too small holds every committed record, and goes on to do so as long as the ISR stays too
small: it is *eligible*. It ceases to be when the ISR is large enough again (then records are committed without
it), or when its broker stops without having flushed (then it may have lost what it acknowledged): from there it
is only *last known*, a hint for an unclean election.

Election order: ISR, eligible, and only then, if allowed, anybody. With this the last member of the ISR that loses
its page cache is not the only choice any more (hole H2 of Apache in ZooKeeper mode): it stays in the ISR, is last known as
well, and does not lead as long as somebody is eligible. Where whoever was eligible may have lost what it held as well, whichever
returned first, all of them are asked what they hold once a member of the ISR is live, and who has the most leads (`unclean`).
"""

from collections.abc import Collection, Mapping

from odradek.controller.context import ControllerContext
from odradek.controller.election import is_doubted
from odradek.controller.partition_states import plan_partition_move
from odradek.controller.plan import Plan
from odradek.controller.states import PartitionState
from odradek.model.cluster import BrokerRegistration
from odradek.model.ids import NO_LEADER, UNKNOWN_BROKER_EPOCH, BrokerId, TopicPartition


def has_stopped_cleanly(context: ControllerContext, registration: BrokerRegistration) -> bool:
    """Its clean-shutdown file, or what the kernel has kept, names the incarnation we knew last. Either is removed at every start, so
    one that is there speaks of the last incarnation even if we, a new controller, never knew that one."""
    if registration.clean_epoch == UNKNOWN_BROKER_EPOCH:
        return False
    known = context.last_epochs.get(registration.broker_id)
    return known is None or known == registration.clean_epoch


def plan_lost(plan: Plan, lost: Mapping[TopicPartition, Collection[BrokerId]], why: str) -> None:
    """Who may have lost what it held is not eligible any more. If all of an ISR may have, beside somebody who is or was eligible, they
    do not lead as long as one is eligible: that one has every committed record, of the others nobody knows.

    `lost`: of each partition, those that came back like that, all of the same event together: judged one by one, the
    smallest id would decide who leads. A controller that takes over asks after the dead have left their ISRs, for a
    member that leaves may become eligible by that.
    """
    for topic_partition, brokers in lost.items():
        current = plan.leadership(topic_partition)
        if current is None or topic_partition.topic in plan.context.topics_to_delete:
            continue  # of a topic that goes nobody is told anything: who has deleted its copy would make it again
        if not current.elr and not current.last_known_elr and len(current.isr) == 1:
            continue  # the usual one
        gone = [broker for broker in brokers if broker in current.elr]
        leader = current.leader
        if is_in_doubt(plan, topic_partition, brokers):
            gone += [broker for broker in current.isr if broker not in current.last_known_elr]
            leader = NO_LEADER
        if not gone:
            continue
        if leader != current.leader and plan.partition_state(topic_partition) is PartitionState.ONLINE:
            plan_partition_move(plan, topic_partition, PartitionState.OFFLINE)
        if leader != current.leader or topic_partition not in plan.leaderships:
            plan.lead(topic_partition, leader=leader, isr=current.isr)
        for broker in gone:
            plan.mark_unclean(topic_partition, broker, why)
        # The epoch was raised: a leader that does not hear of it refuses its followers for ever.
        plan.notify_leader_and_isr_to(plan.assignment(topic_partition).replicas, topic_partition)
        plan.notify_metadata(topic_partition)


def is_in_doubt(plan: Plan, topic_partition: TopicPartition, lost: Collection[BrokerId]) -> bool:
    """Whether all of the ISR may have lost what they held, and there were others that had every committed record as well."""
    current = plan.leadership(topic_partition)
    if current is None or not all(b in lost or b in current.last_known_elr for b in current.isr):
        return False
    if is_doubted(current) or len(current.isr) > 1:
        return True
    if plan.is_enough(topic_partition, current.isr):
        return False
    return any(b not in current.isr for b in (*current.elr, *current.last_known_elr))
