"""From the log of a partition to the memory of its coordinator, a piece at a time.

The last value of a key wins, a null value removes; records of an open transaction wait for its marker. A record that
cannot be read, or of a kind that a later version writes, is left out and counted: one bad record must not cost all
that stands beside it.
"""

from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from odradek.coordinator.offsets import NO_PRODUCER
from odradek.model.errors import ProtocolError
from odradek.records.batch import BatchHeader, Buffer
from odradek.records.control import end_marker_of
from odradek.records.opened import opened_records
from odradek.records.reader import decode_records

# Names of what was left out, for one line of the log.
MOST_NAMED = 5
# Records of a batch, from which on it is looked whether they can be read at once.
FEWEST_TOGETHER = 4


class Memory(Protocol):
    """What the records of one partition say, all of them together."""

    def replay(self, record: Any, position: int, producer_id: int) -> None: ...

    def replay_together(self, header: BatchHeader, data: bytes) -> bool: ...

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None: ...


M = TypeVar("M", bound=Memory)
# Key and value as a record; None: of a kind that is not known here. ProtocolError: no record.
Decode = Callable[[bytes | None, bytes | None], Any]


class Loaded(Generic[M]):
    def __init__(self, stored: M, decode: Decode) -> None:
        self.stored = stored
        self._decode = decode
        self.records = 0
        self.left_out = 0
        self.problems: list[str] = []

    def batch(self, header: BatchHeader, block: Buffer) -> None:
        """`block` is what stands behind the header, as it is in the log."""
        if header.is_control:
            marker = end_marker_of(header, block)
            if marker is not None:
                self.stored.end_transaction(header.producer_id, is_commit=marker.is_commit)
            return
        producer_id = header.producer_id if header.is_transactional else NO_PRODUCER
        try:
            data = bytes(opened_records(header, block))
            is_plain = producer_id == NO_PRODUCER and header.record_count >= FEWEST_TOGETHER
            if is_plain and self.stored.replay_together(header, data):
                self.records += header.record_count
                return None
            records = decode_records(header, data)
        except ProtocolError as problem:
            return self._leave_out(f"batch at offset {header.base_offset}: {problem}", header.record_count)
        for record in records:
            self.record(record.key, record.value, record.offset, producer_id)
        return None

    def record(self, key: bytes | None, value: bytes | None, position: int, producer_id: int) -> None:
        self.records += 1
        try:
            found = self._decode(key, value)
        except ProtocolError as problem:
            return self._leave_out(f"offset {position}: {problem}", 1)
        if found is None:
            return self._leave_out(f"offset {position}: of a kind that is not known here", 1)
        self.stored.replay(found, position, producer_id)
        return None

    def _leave_out(self, problem: str, records: int) -> None:
        self.left_out += records
        if len(self.problems) < MOST_NAMED:
            self.problems.append(problem)
