"""Topic nodes as a reassignment writes them: whole, over the version that was read last."""

from collections.abc import Mapping

from odradek.controller.context import ControllerContext
from odradek.controller.effects import Write, WritePendingDeletions, WriteTopicAssignment
from odradek.controller.events import Conflict, Stored, WriteAnswer
from odradek.controller.pending_deletions import commit_kept
from odradek.model.cluster import ReplicaAssignment
from odradek.model.errors import OdradekError
from odradek.model.facts import TopicAssignment
from odradek.model.ids import TopicPartition


def topic_write(
    context: ControllerContext, topic: str, requested: Mapping[TopicPartition, ReplicaAssignment]
) -> WriteTopicAssignment:
    """The whole topic node, with these partitions changed."""
    known = context.topics[topic]
    partitions = {}
    for partition in known.partitions:
        topic_partition = TopicPartition(topic, partition)
        stored = requested.get(topic_partition) or context.stored_assignment(topic_partition)
        partitions[partition] = stored
    return WriteTopicAssignment(topic, known.topic_id, partitions, known.version)


class TopicNodeDiffers(OdradekError):
    """A topic node is gone, or cannot be read, under our write: what we remember of it cannot be trusted."""


def commit_topic_answer(context: ControllerContext, write: Write, answer: WriteAnswer) -> bool:
    """Remember the node's version; True: write again, over the version found."""
    if isinstance(write, WritePendingDeletions):
        commit_kept(context, write)
    if not isinstance(write, WriteTopicAssignment):
        return False
    if isinstance(answer, Stored):
        context.commit_topic_version(write.topic, answer.version)
        return False
    assert isinstance(answer, Conflict)
    found = answer.current
    if not isinstance(found, TopicAssignment):
        raise TopicNodeDiffers(f"/brokers/topics/{write.topic}: expected our own value, found {found}")
    context.commit_growth(found)
    return dict(found.partitions) != dict(write.partitions)  # equal: our own write, its answer was lost
