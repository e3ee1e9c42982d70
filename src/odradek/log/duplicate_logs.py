"""Logs of one name and of different topics: at most one is of the topic that the cluster means by that name.

A topic is deleted while one of a broker's log directories is away, and another of the same name is made: when the
directory is back, both are here (KAFKA-16157). Which one is meant is not in their names, but in `partition.metadata`
and in LeaderAndIsr, which says the topic id from version 5 on. So they wait, none of them served, until the controller
has said it; the others are strays then, as Apache calls them since KIP-858: renamed to `-stray`, so that they are in
nobody's way, and never deleted. Whoever is sure of it deletes them by hand.

Two logs of the *same* topic are another matter: either may have what the other lacks, and no rule can tell.
"""

from typing import TYPE_CHECKING, NamedTuple

from odradek.log.checkpoints import PARTITION_METADATA, MalformedCheckpoint, read_partition_metadata
from odradek.log.errors import StorageError
from odradek.log.files import Directory
from odradek.model.ids import NO_TOPIC_ID, TopicId, TopicPartition, topic_id_to_text

if TYPE_CHECKING:
    from odradek.log.log_directory import LogDirectory
    from odradek.log.partition_log import PartitionLog


class DuplicateLog(NamedTuple):
    """A log taken out of service, or why it cannot be opened. Where it is, and whose it says it is."""

    directory: "LogDirectory"
    topic_id: TopicId
    log: "PartitionLog | StorageError"


def topic_id_in(root: Directory, topic_partition: TopicPartition) -> TopicId:
    """As `partition.metadata` says; NO_TOPIC_ID where there is none, or none that can be read."""
    data = root.child(str(topic_partition)).read(PARTITION_METADATA)
    try:
        return NO_TOPIC_ID if data is None else read_partition_metadata(data)
    except MalformedCheckpoint:
        return NO_TOPIC_ID


def why_both_cannot_be(
    topic_partition: TopicPartition, here: str, topic_id: TopicId, there: str, other_id: TopicId
) -> str | None:
    """None if they are not of the same topic, as far as they say: then it will be told which one is meant."""
    if topic_id != other_id:
        return None
    if topic_id == NO_TOPIC_ID:
        whose = "neither says of which topic it is"
    else:
        whose = f"they are of the same topic, {topic_id_to_text(topic_id)}"
    return (
        f"{topic_partition} is in {here} and in {there}, and {whose}: either may hold what the other lacks; move one of "
        "them away and start the broker again"
    )


def pick(duplicates: list[DuplicateLog], topic_id: TopicId) -> tuple[DuplicateLog | None, list[DuplicateLog]]:
    """(the one of that topic, the others). Where none says that it is, the one that says nothing, if there is one: its
    `partition.metadata` was never synced before the power went.
    """
    by_id = {duplicate.topic_id: duplicate for duplicate in duplicates}
    found = by_id.get(topic_id) or by_id.get(NO_TOPIC_ID)
    return found, [duplicate for duplicate in duplicates if duplicate is not found]
