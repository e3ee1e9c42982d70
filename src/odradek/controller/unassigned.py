"""State nodes somebody else wrote while we lead: one whose leader has no copy is not believed, and members of an ISR who have none
are left out of it.

What is read at an election, and with a new topic, has been looked at by whoever read it (`store.consistency`). What comes
back from a write that met a conflict, or in the notification of a leader, only we can hold against the assignment.
"""

from odradek.controller.context import ControllerContext
from odradek.model.cluster import why_no_leader
from odradek.model.facts import StoredPartitionState, UnreadableNode
from odradek.model.ids import TopicPartition
from odradek.model.values import replace


def as_assigned(
    context: ControllerContext, topic_partition: TopicPartition, found: StoredPartitionState
) -> StoredPartitionState | UnreadableNode:
    """Held against the topic node: memory is ahead of it while a reassignment ends, and a removed replica may lead until then."""
    if topic_partition not in context.assignments:
        return found
    stored = context.stored_assignment(topic_partition)
    reason = why_no_leader(found.leader_and_isr.leader, stored)
    isr, replicas = found.leader_and_isr.isr, stored.replicas
    if reason is None and set(isr) <= set(replicas):
        return found
    assigned = tuple(member for member in isr if member in replicas)
    if reason is None and not assigned:
        unassigned = [member for member in isr if member not in replicas]
        reason = f"the ISR names {unassigned}, who are not among the assigned replicas {list(replicas)}"
    if reason is not None:
        topic, partition = topic_partition
        return UnreadableNode(f"/brokers/topics/{topic}/partitions/{partition}/state", reason, topic)
    epochs = zip(isr, found.isr_broker_epochs, strict=False)  # none, or one for each
    return replace(
        found,
        leader_and_isr=replace(found.leader_and_isr, isr=assigned),
        isr_broker_epochs=tuple(epoch for member, epoch in epochs if member in replicas),
    )
