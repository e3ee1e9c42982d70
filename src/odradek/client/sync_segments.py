"""Segment files of a leader on this host, read where they lie: the broker does not send what can be read beside it.

A piece of a file is believed once the leader has proved it (`sync_fetch`): it is asked for the last batch of the piece, by a
Fetch that is fenced by topic id and leader epoch, and what it sends must be what stands in the file, byte by byte. Offset and leader
epoch name a batch, and two logs of a topic that have one batch in common have all before it in common; so nothing in the
piece is of another log, of a history that was cut off, or beyond the high watermark. That no offset is left out is looked at here:
each batch begins where the one before it ends.

Everything else is a `Doubt`, and the rest of the range is fetched: a gap in the offsets, a file that is missing, that may not be read or that ends
too early, another batch than the leader's.
"""

import os
import time
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from odradek.client.sync import SyncClient
from odradek.client.sync_connection import SyncConnection
from odradek.model.errors import OdradekError
from odradek.model.ids import NO_TOPIC_ID, TopicId, TopicPartition, topic_id_to_text
from odradek.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from odradek.records.batch import BATCH_OVERHEAD, CONTROL, LOG_OVERHEAD, MAGIC, TRANSACTIONAL

# What is found out about where logs lie is asked again after so long: a replica may move to another directory.
PLACES_LAST_S = 60.0
# So many offsets are passed over, for each that is read, to find the first in a segment whose index is not written yet. Passing a batch over costs
# a tenth of reading it.
PASSED_FOR_EACH = 4
_SMALL_FILE_BYTES = 4096
_WINDOW_BYTES = 4096
_HEAD = Struct(">qiibIhi")  # base offset, length, leader epoch, magic, CRC, attributes, last offset delta
_INDEX_ENTRY = Struct(">ii")  # relative offset of a batch's last record, position of the batch
_NAME_DIGITS = 20


class Doubt(OdradekError):
    """What lies in the files cannot be shown to be what the leader would send; the message says why."""


class Piece(NamedTuple):
    """Whole batches, one behind the other, as they lie in a segment."""

    records: memoryview
    next_offset: int
    last_offset: int  # where the last batch begins: what the leader is asked for
    last: memoryview  # that batch
    has_transactions: bool


class LogPlaces:
    """In which directories of this host the brokers of a cluster keep their logs, as far as they were asked."""

    def __init__(self, client: SyncClient, *, anywhere: bool = False) -> None:
        """`anywhere`: at any address a broker may turn out to be on this host, as where it has a network of its own."""
        self._client = client
        self._anywhere = anywhere
        self._found: dict[tuple[int, TopicPartition], tuple[float, Path | None]] = {}

    def may_be_beside(self, connection: SyncConnection) -> bool:
        return _can_be_read() and (self._anywhere or connection.is_within_a_host)

    def directory_of(self, broker: int, partition: TopicPartition, topic_id: bytes) -> Path:
        """Where this broker's log of the partition lies; Doubt, OSError, or what the client raises."""
        if topic_id == NO_TOPIC_ID or "/" in partition.topic:
            raise Doubt(f"{partition}: nothing tells its files from those of another topic of this name")
        now = time.monotonic()
        until, directory = self._found.get((broker, partition), (0.0, None))
        if until <= now:
            directory = self._asked(broker, partition)
            self._found = {place: known for place, known in self._found.items() if known[0] > now}
            self._found[broker, partition] = now + PLACES_LAST_S, directory
        if directory is None:
            raise Doubt(f"{partition}: the log of broker {broker} is not on this host")
        told = _fields(directory / "partition.metadata", ":")
        if told.get("topic_id") != topic_id_to_text(TopicId(topic_id)):
            raise Doubt(f"{directory} is of another topic id")
        return directory

    def _asked(self, broker: int, partition: TopicPartition) -> Path | None:
        topics = [DescribableLogDirTopic(topic=partition.topic, partitions=[partition.partition])]
        answer = self._client.call(broker, DescribeLogDirsRequest(topics=topics))
        places = [
            Path(result.log_dir)
            for result in answer.results
            for topic in result.topics
            for found in topic.partitions
            if (topic.name, found.partition_index) == partition and not found.is_future_key
        ]
        if len(places) != 1 or not places[0].is_absolute():
            return None
        try:
            whose = _fields(places[0] / "meta.properties", "=")
        except OSError:
            return None
        cluster_id = self._client.cluster([]).cluster_id
        if cluster_id is None or (whose.get("cluster.id"), whose.get("broker.id")) != (
            cluster_id,
            str(broker),
        ):
            return None
        return places[0] / str(partition)


class SegmentReader:
    """One log's files from an offset on, in order."""

    def __init__(self, directory: Path, position: int, end: int) -> None:
        """Doubt or OSError where `position` is not found to be where a batch begins. `end` is how far will be read."""
        self._directory = directory
        names = [name for name in os.listdir(directory) if _base_of(name) is not None]
        bases = sorted(base for name in names if (base := _base_of(name)) is not None and base <= position)
        if not bases:
            raise Doubt(f"{directory}: no segment holds offset {position}")
        self._file = _opened(directory / _name(bases[-1], ".log"))
        try:
            self._at = self._found(bases[-1], position, PASSED_FOR_EACH * (end - position))
        except BaseException:
            self.close()
            raise
        self._position = position
        self._epoch = 0

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def read(self, end: int, into: memoryview) -> Piece:
        """What comes next, as much as `into` holds and no batch that begins at `end` or behind it."""
        filled = self._filled(into)
        if not filled:
            self._next_segment()
            filled = self._filled(into)
        return self._whole(into[:filled], end)

    def _filled(self, into: memoryview) -> int:
        filled = 0
        while filled < len(into):
            count = os.preadv(self._file, [into[filled:]], self._at + filled)
            if not count:
                break
            filled += count
        return filled

    def _next_segment(self) -> None:
        """The file has ended, and another one begins with the very next offset."""
        file = _opened(self._directory / _name(self._position, ".log"))
        os.close(self._file)
        self._file, self._at = file, 0

    def _whole(self, data: memoryview, end: int) -> Piece:
        unpack_from, size = _HEAD.unpack_from, len(data)
        position, epoch = self._position, self._epoch
        at = last = attributes_seen = 0
        last_offset = -1
        while position < end and at + BATCH_OVERHEAD <= size:
            base, length, of_batch, magic, _, attributes, delta = unpack_from(data, at)
            after = at + LOG_OVERHEAD + length
            if after > size:
                break
            if (
                base != position
                or magic != MAGIC
                or length < BATCH_OVERHEAD - LOG_OVERHEAD
                or delta < 0
                or of_batch < epoch
            ):
                raise Doubt(f"{self._directory}: no batch of offset {position} where the one before it ends")
            last, last_offset, position, epoch = at, base, base + delta + 1, of_batch
            attributes_seen |= attributes
            at = after
        if last_offset < 0:
            raise Doubt(f"{self._directory}: offset {position} is not there as a whole batch")
        self._at += at
        self._position, self._epoch = position, epoch
        return Piece(
            data[:at], position, last_offset, data[last:at], bool(attributes_seen & (TRANSACTIONAL | CONTROL))
        )

    def _found(self, base: int, position: int, most_passed: int) -> int:
        """Where the batch that begins with `position` lies in the file."""
        if position == base:
            return 0
        indexed, at = self._indexed(base, position)
        if position - indexed > most_passed:
            raise Doubt(f"{self._directory}: the way to offset {position} is too long without an index")
        window, begin = b"", at
        while True:
            if at + _HEAD.size > begin + len(window):
                window, begin = os.pread(self._file, _WINDOW_BYTES, at), at
                if len(window) < _HEAD.size:
                    raise Doubt(f"{self._directory}: offset {position} is not there")
            found, length, _, magic, _, _, _ = _HEAD.unpack_from(window, at - begin)
            if found == position and magic == MAGIC:
                return at
            if found >= position or magic != MAGIC or length < BATCH_OVERHEAD - LOG_OVERHEAD:
                raise Doubt(f"{self._directory}: no batch begins with offset {position}")
            at += LOG_OVERHEAD + length

    def _indexed(self, base: int, position: int) -> tuple[int, int]:
        """The last entry of the segment's index that is not behind `position`, as offset and position of its batch: a hint, as
        the contents prove themselves. The beginning of the segment where there is none that can be used."""
        beginning = base, 0
        try:
            index = _opened(self._directory / _name(base, ".index"))
        except OSError:
            return beginning  # of the segment that is written to
        try:
            count = os.fstat(index).st_size // _INDEX_ENTRY.size
            low, high = 0, count  # entries below `low` are not behind it, from `high` on they are
            found = beginning
            while low < high:
                middle = (low + high) // 2
                entry = os.pread(index, _INDEX_ENTRY.size, middle * _INDEX_ENTRY.size)
                if len(entry) < _INDEX_ENTRY.size:
                    return beginning  # cut meanwhile, as where its segment has just been closed
                # Zeros, where an entry is made in advance and not written yet (Apache): the beginning.
                relative, at = _INDEX_ENTRY.unpack(entry)
                if base + relative <= position:
                    found, low = (base + relative, at), middle + 1
                else:
                    high = middle
            return found
        finally:
            os.close(index)


def _can_be_read() -> bool:
    """Windows has neither of these."""
    return hasattr(os, "preadv") and hasattr(os, "O_NONBLOCK")


def _opened(path: Path) -> int:
    # A name that is no file (a pipe, say) must not be waited for; reading at a position then fails.
    return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)


def _fields(path: Path, sign: str) -> dict[str, str]:
    file = _opened(path)
    try:
        lines = os.pread(file, _SMALL_FILE_BYTES, 0).decode("utf-8", "replace").splitlines()
    finally:
        os.close(file)
    pairs = (line.partition(sign) for line in lines)
    return {name.strip(): value.strip() for name, _, value in pairs}


def _name(base: int, suffix: str) -> str:
    return f"{base:0{_NAME_DIGITS}d}{suffix}"


def _base_of(name: str) -> int | None:
    number, dot, suffix = name.partition(".")
    return (
        int(number)
        if (dot, suffix) == (".", "log") and len(number) == _NAME_DIGITS and number.isdecimal()
        else None
    )
