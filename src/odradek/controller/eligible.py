"""Eligible leader replicas (KIP-966): who may lead without loss although it is not in the ISR.

The high watermark does not move while the ISR is smaller than min.insync.replicas. So a replica that leaves the
ISR and thereby makes it too small holds every committed record, and goes on to do so as long as the ISR stays too
small: it is *eligible*. It ceases to be when the ISR is large enough again (then records are committed without
it), or when its broker stops without having flushed (then it may have lost what it acknowledged): from there it
is only *last known*, a hint for an unclean election.

Election order: ISR, eligible, and only then, if allowed, anybody. With this the last member of the ISR that loses
its page cache is not the only choice any more (hole H2 of Apache in ZooKeeper mode).
"""

from collections.abc import Collection, Iterable

from odradek.controller.context import ControllerContext
from odradek.controller.plan import Plan
from odradek.model.cluster import BrokerRegistration
from odradek.model.ids import NO_LEADER, UNKNOWN_BROKER_EPOCH, BrokerId, TopicPartition


def has_stopped_cleanly(context: ControllerContext, registration: BrokerRegistration) -> bool:
    """Its clean-shutdown file names the incarnation we knew last. The file is removed at every start, so one that is
    there speaks of the last incarnation even if we, a new controller, never knew that one."""
    if registration.clean_epoch == UNKNOWN_BROKER_EPOCH:
        return False
    known = context.last_epochs.get(registration.broker_id)
    return known is None or known == registration.clean_epoch


def plan_unclean_return(
    plan: Plan, broker: BrokerId, partitions: Iterable[TopicPartition], together: Collection[BrokerId] = ()
) -> None:
    """A broker came back that may have lost what it had acknowledged: nothing is eligible there any more.

    If it was the last member of an ISR without a leader, an eligible replica takes that place: it has every
    committed record, which of the one that came back nobody knows. `together`: who came back like that in the same
    event. None of them is eligible any more, whosever turn it is: else the smallest id would decide who leads.
    """
    for topic_partition in partitions:
        current = plan.leadership(topic_partition)
        if current is None or topic_partition.topic in plan.context.topics_to_delete:
            continue  # of a topic that goes nobody is told anything: who has deleted its copy would make it again
        assigned = plan.assignment(topic_partition).replicas
        eligible = tuple(b for b in current.elr if b != broker and b in assigned and b not in together)
        alone = current.isr == (broker,) and current.leader in (NO_LEADER, broker)
        if alone and eligible:
            plan.lead(topic_partition, leader=NO_LEADER, isr=eligible[:1])
            plan.mark_unclean(topic_partition, broker)
        elif broker in current.elr:
            plan.lead(topic_partition, leader=current.leader, isr=current.isr)
            plan.mark_unclean(topic_partition, broker)
            # The epoch was raised: a leader that does not hear of it refuses its followers for ever.
            plan.tell_leader_and_isr_to(assigned, topic_partition)
