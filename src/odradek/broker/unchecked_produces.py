"""Producers' batches that are appended later, because to check them now would hold up everybody else.

Where batches are opened (`odradek.log.record.validation=full`, compacted topics, compression.type), a large one is
checked by a thread; so are the partitions of a request that has very many. What follows for the same partition waits
behind it, so offsets are given in the order of the requests.
"""

from collections import deque
from typing import NamedTuple, Protocol

from odradek.log.config import LogConfig
from odradek.log.validation import Checked, checked
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError
from odradek.model.ids import TopicPartition
from odradek.records.batch import ATTRIBUTES_OFFSET, BATCH_OVERHEAD, CODEC_MASK, RECORD_COUNT_OFFSET
from odradek.records.compression import most_opened_bytes

# What is checked at once, without a thread: about a millisecond a batch, and so many of them in one request.
QUICK_RECORDS = 1000
QUICK_BYTES = 1 << 20
QUICK_COMPRESSED_BYTES = 4096
MOST_OPENED_AT_ONCE = 8
# Partitions of one request that are appended at once; and of one piece of work.
MOST_AT_ONCE = 1000
# What may come out of the batches of one piece of work: a kilobyte opens to a megabyte, and the topic may want that stored.
MOST_OUTPUT_BYTES = 8 << 20
# Copies of what waits. One batch may always wait, however large.
MOST_WAITING_BYTES = 32 << 20

Result = Checked | ProtocolError


class AppendsLater(Protocol):
    """The request: `append` is called once for each of its slots, `result` None where the check itself failed."""

    def append(self, slot: int, result: Result | None, now_ms: int) -> None: ...


class Unchecked(NamedTuple):
    """One partition of a request, with records of its own; `slot` is its place in `wait`."""

    topic_partition: TopicPartition
    records: memoryview
    config: LogConfig
    wait: AppendsLater
    slot: int
    is_transactional: bool = False

    @property
    def output_bytes(self) -> int:
        """What may come out of it at most."""
        size = len(self.records)
        return most_opened_bytes(size) if self.config.opens_batches and _codec(self.records) else size


class Check(NamedTuple):
    """Work for a thread: the outcome for each, in order."""

    batches: list[Unchecked]
    now_ms: int

    def run(self) -> list[Result]:
        return [_outcome(batch, self.now_ms) for batch in self.batches]


def _outcome(batch: Unchecked, now_ms: int) -> Result:
    try:
        return checked(batch.records, batch.config, now_ms=now_ms, is_transactional=batch.is_transactional)
    except ProtocolError as refusal:
        return refusal


def is_laborious(records: memoryview, config: LogConfig) -> bool:
    """Whether to open this, as `config` demands, may take more than a moment, whatever is in it."""
    size = len(records)
    if size < BATCH_OVERHEAD:
        return False
    is_compressed = _codec(records) or config.compression_type is not None
    if size > (QUICK_COMPRESSED_BYTES if is_compressed else QUICK_BYTES):
        return True
    count = int.from_bytes(records[RECORD_COUNT_OFFSET:BATCH_OVERHEAD], "big", signed=True)
    return count > QUICK_RECORDS


def _codec(records: memoryview) -> int:
    return records[ATTRIBUTES_OFFSET + 1] & CODEC_MASK if len(records) >= BATCH_OVERHEAD else 0


class UncheckedProduces:
    """First in, first out. `partitions` counts what waits, or is being checked, for each."""

    def __init__(self) -> None:
        self.partitions: dict[TopicPartition, int] = {}
        self._waiting: deque[Unchecked] = deque()
        self._bytes = 0

    def add(self, batch: Unchecked) -> None:
        self._waiting.append(batch)
        self._bytes += len(batch.records)
        self.partitions[batch.topic_partition] = self.partitions.get(batch.topic_partition, 0) + 1

    def check_room(self, size_bytes: int) -> None:
        if self._bytes and self._bytes + size_bytes > MOST_WAITING_BYTES:
            raise ProtocolError(
                ErrorCode.REQUEST_TIMED_OUT, f"{self._bytes} bytes of other batches wait to be opened"
            )

    def next_check(self, now_ms: int) -> Check | None:
        """A piece of what waits longest: one that takes long, or several that do not."""
        batches: list[Unchecked] = []
        size = output = 0
        while (
            self._waiting
            and len(batches) < MOST_AT_ONCE
            and size < QUICK_BYTES
            and output < MOST_OUTPUT_BYTES
        ):
            batch = self._waiting.popleft()
            batches.append(batch)
            size += len(batch.records)
            output += batch.output_bytes
        return Check(batches, now_ms) if batches else None

    def ended(self, check: Check) -> None:
        """These wait no longer: appended or refused."""
        for batch in check.batches:
            self._bytes -= len(batch.records)
            left = self.partitions[batch.topic_partition] - 1
            if left:
                self.partitions[batch.topic_partition] = left
            else:
                del self.partitions[batch.topic_partition]
