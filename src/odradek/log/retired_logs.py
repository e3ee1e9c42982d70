"""Logs taken out of use: their directory gets another name at once, and goes later or never.

| name | what becomes of it |
|---|---|
| `<topic>-<partition>.<32 hex digits>-delete` | removed after `file.delete.delay.ms`, or at the next start |
| `<topic>-<partition>.<32 hex digits>-stray` | stays until a person removes it: nobody knows that it is not needed |
"""

import re
from collections.abc import Callable
from typing import NamedTuple

from odradek.log.duplicate_logs import DuplicateLog
from odradek.log.errors import StorageError
from odradek.log.files import Directory
from odradek.log.log_directory import LogDirectory
from odradek.model.ids import TopicPartition

DELETE_SUFFIX = "-delete"
STRAY_SUFFIX = "-stray"
LONGEST_NAME = 255
_UNIQUE = re.compile(r".+\.[0-9a-f]{32}")


def unique_name(directory: Directory, topic_partition: TopicPartition, suffix: str, now_ms: int) -> str:
    """`topic-partition.<32 hex digits>-delete`, as Apache's; the name must fit into 255 bytes."""
    number = now_ms << 16
    while True:
        unique = f".{number:032x}{suffix}"
        name = f"{str(topic_partition)[: LONGEST_NAME - len(unique)]}{unique}"
        if not directory.exists(name):
            return name
        number += 1


def is_unique_name(name: str, suffix: str) -> bool:
    """One that `unique_name` or Apache's broker has made. A person's directory, `before-the-delete`, may end like that as well."""
    return name.endswith(suffix) and _UNIQUE.fullmatch(name[: -len(suffix)]) is not None


class _Removal(NamedTuple):
    directory: Directory
    name: str
    due_ms: int


class RetiredLogs:
    """Those of one broker, as far as they are to be removed."""

    def __init__(self, delete_delay_ms: Callable[[str], int]) -> None:
        """`delete_delay_ms`: of a topic, `file.delete.delay.ms`."""
        self._delete_delay_ms = delete_delay_ms
        self._removals: list[_Removal] = []

    def found(self, directory: LogDirectory, name: str, now_ms: int) -> None:
        """At the start: retired by a broker that stopped before it was removed."""
        self._removals.append(_Removal(directory.root, name, now_ms))

    def retire(
        self,
        topic_partition: TopicPartition,
        taken: DuplicateLog,
        suffix: str,
        now_ms: int,
        *,
        name: str,
        keeps_checkpoints: bool,
    ) -> str:
        """Renames the directory, called `name`, of a log that was taken out; a line that says where it lies. A power cut may
        bring it back until the directory above is synced. `keeps_checkpoints`: what they say is of another log of that partition there.
        """
        home, _, log = taken
        if not keeps_checkpoints:
            home.leave_out(topic_partition)
        if not isinstance(log, StorageError):
            log.fail(StorageError(f"{topic_partition}: the log was deleted"))
            log.segments.close_handles()  # somebody may know it for long, and its disk would stay as full
        if name == str(topic_partition):  # a copy on its way is in nobody's way
            home.may_come_back.add(topic_partition)
        if not home.is_online:
            return f"{topic_partition}: what lies of another topic in {home.path} stays there: it is offline"
        retired = unique_name(home.root, topic_partition, suffix, now_ms)
        if not home.root.rename(name, retired):
            if name == str(topic_partition):
                home.may_come_back.discard(topic_partition)
            return f"{topic_partition}: there was nothing left of it to set aside in {home.path}"
        home.unsynced_deletions.append(topic_partition)
        if suffix == DELETE_SUFFIX:
            due_ms = now_ms + self._delete_delay_ms(topic_partition.topic)
            self._removals.append(_Removal(home.root, retired, due_ms))
        return f"{topic_partition}: set aside as {home.path}/{retired}"

    def purge(self, now_ms: int) -> int:
        """Removes those whose time has come; returns how many. Blocks: for a thread."""
        count = 0
        for removal in [removal for removal in self._removals if removal.due_ms <= now_ms]:
            if removal.directory.health.failure is None:
                removal.directory.remove(removal.name)
                count += 1
            self._removals.remove(removal)
        return count
