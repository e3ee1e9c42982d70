"""One of the files of a log directory that has an offset for each log in it: what it is to say, and what it may say now.

A thread writes it from time to time, and waits for the disk. The loop may have to write it at once, before it cuts a log or begins
a new one, and must not wait for that thread: so the thread syncs what it writes under another name, and puts it in place only where
the loop has written nothing meanwhile.
"""

from collections.abc import Mapping
from contextlib import suppress
from threading import Lock

from odradek.log import checkpoints
from odradek.log.checkpoints import MalformedCheckpoint
from odradek.log.errors import MissingFile, StorageError
from odradek.log.files import Directory, Mark
from odradek.log.prepared_files import PreparedFiles
from odradek.model.ids import TopicPartition

# Not that of `Directory.replace`, by which the loop may write the same file in this moment.
PREPARED_SUFFIX = ".prepared"


class OffsetCheckpoint:
    """All but `write_beside` and `lower_beside` with the directory's lock (`LogDirectory.checkpointing`) held, which is never held for long."""

    __slots__ = ("_may_say", "_one_at_a_time", "_root", "_writes", "name", "offsets")

    def __init__(self, root: Directory, name: str) -> None:
        self.name = name
        self.offsets: dict[TopicPartition, int] = {}  # for the next time that it is written
        self._root = root
        # The most that a start may find, now or soon: of several files, while one that is being written is not surely on the disk.
        self._may_say: Mapping[TopicPartition, int] = {}
        self._writes = 0
        self._one_at_a_time = Lock()

    def read(self, notes: list[str]) -> None:
        data = self._root.read(self.name)
        self.offsets = {}
        try:
            self.offsets = {} if data is None else checkpoints.read_offsets(data, self.name)
        except MalformedCheckpoint as error:
            # As with Apache: more is scanned, high watermarks are learnt from the leader, and what was deleted of a log's first segment
            # is back.
            notes.append(f"{self._root.path}: {error}; taken as empty")
        self._may_say = dict(self.offsets)

    def may_say(self, topic_partition: TopicPartition) -> bool:
        """Of a log of that name: now, or when it is written next."""
        return topic_partition in self.offsets or topic_partition in self._may_say

    def speaks_of_others(self) -> bool:
        """Of logs that are spoken of no more, until it is written next."""
        return not self._may_say.keys() <= self.offsets.keys()

    def write(self, offsets: dict[TopicPartition, int]) -> None:
        """At once, and durable. Blocks. Where it fails, nothing has changed."""
        self._root.replace(self.name, checkpoints.offsets_to_bytes(offsets))
        self.offsets, self._may_say = offsets, dict(offsets)
        self._writes += 1
        with suppress(StorageError):  # for want of a descriptor
            self._mark()

    def _mark(self) -> None:
        """Whoever writes it and does not know marks takes that away."""
        self._root.apart().open(self.name, read_only=True).set_mark(Mark.LAST)

    def be_marked(self) -> None:
        """As `write`, where there is none."""
        try:
            self._mark()
        except MissingFile:
            self.write(self.offsets)

    def is_marked(self) -> bool:
        """A broker of ours wrote it last, and the kernel has had it since."""
        try:
            return self._root.apart().open(self.name, read_only=True).mark is Mark.LAST
        except StorageError:
            return False

    def set(self, topic_partition: TopicPartition, offset: int) -> None:
        """As `write`, of one."""
        self.write({**self.offsets, topic_partition: offset})

    def lower(self, topic_partition: TopicPartition, limit: int) -> None:
        """As `write`: nothing above `limit` is said of this one. What is known to be less stays, and nothing is written where
        nothing says more.
        """
        if self.says_more(topic_partition, limit):
            known = self.offsets.get(topic_partition, 0)
            self.write({**self.offsets, topic_partition: min(known, limit)})

    def says_more(self, topic_partition: TopicPartition, limit: int) -> bool:
        """Now, or when it is written next."""
        return max(self.offsets.get(topic_partition, 0), self._may_say.get(topic_partition, 0)) > limit

    def forget(self, topic_partition: TopicPartition) -> None:
        """As `write`, without this one; nothing is written where nothing can say anything of it."""
        if self.may_say(topic_partition):
            self.write({key: offset for key, offset in self.offsets.items() if key != topic_partition})

    def lower_beside(self, topic_partition: TopicPartition, limit: int, lock: Lock) -> None:
        """As `lower`, by a thread: see `write_beside`."""
        with lock:
            self.offsets[topic_partition] = min(self.offsets.get(topic_partition, 0), limit)
        self.write_beside(lock)

    def write_beside(self, lock: Lock) -> None:
        """`offsets`, as they are or come to be meanwhile. Blocks, and holds `lock` for nothing that waits for the disk."""
        with self._one_at_a_time:
            files = PreparedFiles(self._root, PREPARED_SUFFIX)
            while True:
                with lock:
                    offsets, before, writes = dict(self.offsets), self._may_say, self._writes
                    self._may_say = {
                        **before,
                        **{key: max(offset, before.get(key, 0)) for key, offset in offsets.items()},
                    }
                file = files.write(self.name, checkpoints.offsets_to_bytes(offsets))
                files.sync()
                file.set_mark(Mark.LAST)
                with lock:
                    if self._writes == writes:
                        files.put()
                        break
            self._root.sync()
            with lock:
                if self._writes == writes:
                    self._may_say = offsets
