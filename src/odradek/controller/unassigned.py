"""State nodes somebody else wrote while we lead: one whose leader has no copy is not believed.

What is read at an election, and with a new topic, has been looked at by whoever read it (`store.consistency`). What comes
back from a write that met a conflict, or in the notification of a leader, only we can hold against the assignment.
"""

from collections.abc import Mapping

from odradek.controller.context import ControllerContext
from odradek.model.cluster import why_no_leader
from odradek.model.facts import StoredPartitionState, UnreadableNode
from odradek.model.ids import TopicPartition


def unassigned_leader(
    context: ControllerContext, topic_partition: TopicPartition, found: StoredPartitionState
) -> UnreadableNode | None:
    """Held against the topic node: memory is ahead of it while a reassignment ends, and a removed replica may lead until then."""
    if topic_partition not in context.assignments:
        return None
    reason = why_no_leader(found.leader_and_isr.leader, context.stored_assignment(topic_partition))
    if reason is None:
        return None
    topic, partition = topic_partition
    return UnreadableNode(f"/brokers/topics/{topic}/partitions/{partition}/state", reason, topic)


def led_by_unassigned(
    context: ControllerContext, states: Mapping[TopicPartition, StoredPartitionState]
) -> dict[TopicPartition, UnreadableNode]:
    found = {tp: unassigned_leader(context, tp, states[tp]) for tp in sorted(states)}
    return {tp: node for tp, node in found.items() if node is not None}
