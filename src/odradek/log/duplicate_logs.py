"""Logs of one name in several directories: at most one is of the topic that the cluster means by that name.

A topic is deleted while one of a broker's log directories is away, and another of the same name is made: when the
directory is back, both are here (KAFKA-16157). Which one is meant is not in their names, but in `partition.metadata`
and in LeaderAndIsr, which says the topic id from version 5 on. So they wait, none of them served, until the controller
has said it; the others are strays then, as Apache calls them since KIP-858: renamed to `-stray`, so that they are in
nobody's way, and never deleted. Whoever is sure of it deletes them by hand.

Two logs of the *same* topic are another matter: either may have what the other lacks, and no rule can tell. Neither is
served while this replica leads, is in the ISR or has no leader. One that is out of the ISR follows its leader with one of
them, as it would with any older log, and the other is a stray. So is, as soon as it is found, one that was never used: it
was begun on a disk that failed, say, before it was made on another.
"""

from typing import TYPE_CHECKING, NamedTuple

from odradek.log.checkpoints import (
    LEADER_EPOCHS,
    PARTITION_METADATA,
    MalformedCheckpoint,
    epochs_to_bytes,
    read_partition_metadata,
)
from odradek.log.errors import StorageError
from odradek.log.files import Directory
from odradek.log.segment import LOG_SUFFIX, file_name
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


def was_never_used(directory: Directory) -> bool:
    """Of a log's own directory: it holds no batch, not even under a name of a compaction that was cut short, no offset at
    which to go on, and no leader epoch.
    """
    return directory.read(LEADER_EPOCHS) in (None, epochs_to_bytes([])) and all(
        name.startswith(file_name(0, LOG_SUFFIX)) and not directory.size(name)
        for name in directory.names()
        if LOG_SUFFIX in name
    )


def pick(
    topic_partition: TopicPartition, duplicates: list[DuplicateLog], topic_id: TopicId, *, is_counted_on: bool
) -> tuple[DuplicateLog | None, list[DuplicateLog]]:
    """(the one of that topic, the others). Where none says that it is, the one that says nothing, if there is one: its
    `partition.metadata` was never synced before the power went. StorageError if there are two of those, or two of that
    topic and somebody counts on what this replica holds; else it follows, and the one that holds more has less to fetch.
    """
    by_id = {duplicate.topic_id: duplicate for duplicate in duplicates}
    found = by_id.get(topic_id) or by_id.get(NO_TOPIC_ID)
    if found is not None:
        meant = [duplicate for duplicate in duplicates if duplicate.topic_id == found.topic_id]
        if len(meant) > 1 and (is_counted_on or found.topic_id == NO_TOPIC_ID):
            raise StorageError(_why_neither(topic_partition, meant, found.topic_id))
        found = max(meant, key=_holds)
    return found, [duplicate for duplicate in duplicates if duplicate is not found]


def _holds(duplicate: DuplicateLog) -> tuple[int, int]:
    log = duplicate.log
    if isinstance(log, StorageError) or not duplicate.directory.is_online:
        return -1, -1
    return log.latest_epoch, log.log_end_offset


def _why_neither(topic_partition: TopicPartition, meant: list[DuplicateLog], topic_id: TopicId) -> str:
    paths = " and in ".join(duplicate.directory.path for duplicate in meant)
    if topic_id == NO_TOPIC_ID:
        whose = "neither says of which topic it is"
    else:
        whose = f"they are of the same topic, {topic_id_to_text(topic_id)}"
    return (
        f"{topic_partition} is in {paths}, and {whose}: either may hold what the other lacks; move all but "
        "one of them away and start the broker again"
    )
