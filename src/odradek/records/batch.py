"""The header of a record batch, magic 2, as a view over bytes that stay where they are (KIP-98).

      0  base_offset          i64  ┐ written by the leader;
      8  batch_length         i32  │ before the CRC, so stamping
     12  partition_leader_epoch i32┘ offset and epoch needs no new checksum
     16  magic                i8
     17  crc                  u32    CRC-32C of everything from 21 to the end
     21  attributes           i16    0-2 codec, 3 LogAppendTime, 4 transactional, 5 control, 6 delete horizon
     23  last_offset_delta    i32
     27  base_timestamp       i64    the delete horizon when bit 6 is set (KIP-534)
     35  max_timestamp        i64
     43  producer_id          i64
     51  producer_epoch       i16
     53  base_sequence        i32
     57  record_count         i32
     61  records, compressed as one block if there is a codec

`batch_length` counts from byte 12. Magic 0 and 1 keep their magic byte at 16 too, so it can be read first.
"""

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from odradek.model.errors import ProtocolError
from odradek.records.checksum import crc32c, crc32c_of_changed
from odradek.records.errors import CorruptBatch, OldMessageFormat

Buffer = bytes | bytearray | memoryview

BATCH_OVERHEAD = 61
LENGTH_OFFSET = 8
LOG_OVERHEAD = 12  # base offset and length: what `batch_length` does not count
EPOCH_OFFSET = 12
MAGIC_OFFSET = 16
CRC_OFFSET = 17
ATTRIBUTES_OFFSET = 21  # the CRC begins here
MAX_TIMESTAMP_OFFSET = 35
PRODUCER_ID_OFFSET = 43
RECORD_COUNT_OFFSET = 57
MAGIC = 2
SMALLEST_OLD_MESSAGE = 14  # of magic 0, without key and value

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_TIMESTAMP = -1
MAX_SEQUENCE = 2**31 - 1

# The whole header but the CRC's own neighbours in one call; the hot paths use it directly.
HEADER = Struct(">qiibIhiqqqhii")
_PREFIX = Struct(">qiib")
_OFFSET = Struct(">q")
_LENGTH = _EPOCH = Struct(">i")
_PRODUCER = Struct(">qhi")
_CRC = Struct(">I")
_ATTRIBUTES = Struct(">h")
_MAX_TIMESTAMP = Struct(">q")
assert HEADER.size == BATCH_OVERHEAD
_unpack = HEADER.unpack_from
_new = tuple.__new__  # a NamedTuple's own constructor costs twice as much


class BatchHeader(NamedTuple):
    """`size_bytes` is the whole batch, `batch_length` and its 12 bytes of overhead together."""

    base_offset: int
    size_bytes: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def is_log_append_time(self) -> bool:
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def largest_timestamp(self) -> int:
        """Of its records; -1 if it has none: a batch that compaction emptied keeps the timestamp they had."""
        return self.max_timestamp if self.record_count else NO_TIMESTAMP

    @property
    def delete_horizon_ms(self) -> int | None:
        return self.base_timestamp if self.attributes & DELETE_HORIZON else None

    @property
    def last_sequence(self) -> int:
        """Sequences wrap from 2^31 - 1 to 0; a batch without one (control, not idempotent) has -1."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & MAX_SEQUENCE


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header at `position`; CorruptBatch if it cannot be one, OldMessageFormat for magic 0 and 1.

    Says nothing about the body: the batch may reach beyond the buffer (`size_bytes` tells).
    """
    left = len(buffer) - position
    if left >= BATCH_OVERHEAD:
        # Every field by a name of its own: half the price of a slice of them.
        (
            base_offset,
            length,
            leader_epoch,
            magic,
            crc,
            attributes,
            last_offset_delta,
            base_timestamp,
            max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
            record_count,
        ) = _unpack(buffer, position)
        if magic == MAGIC and length >= BATCH_OVERHEAD - LOG_OVERHEAD:
            return _new(
                BatchHeader,
                (
                    base_offset,
                    length + LOG_OVERHEAD,
                    leader_epoch,
                    magic,
                    crc,
                    attributes,
                    last_offset_delta,
                    base_timestamp,
                    max_timestamp,
                    producer_id,
                    producer_epoch,
                    base_sequence,
                    record_count,
                ),
            )
    raise _no_header(buffer, position, left)


def _no_header(buffer: Buffer, position: int, left: int) -> ProtocolError:
    """Why there is none."""
    if left < MAGIC_OFFSET + 1:
        return CorruptBatch(
            f"{left} bytes where a record batch should begin; its header has {BATCH_OVERHEAD}"
        )
    _, length, _, magic = _PREFIX.unpack_from(buffer, position)
    if magic != MAGIC:
        if magic in (0, 1) and length >= SMALLEST_OLD_MESSAGE:  # zeros are no message of magic 0
            return OldMessageFormat(magic)
        return CorruptBatch(f"magic {magic} at position {position}; 2 is the newest there is")
    if length < BATCH_OVERHEAD - LOG_OVERHEAD:
        return CorruptBatch(
            f"batch length {length} at position {position}; the smallest is {BATCH_OVERHEAD - LOG_OVERHEAD}"
        )
    return CorruptBatch(f"{left} bytes at position {position}; a batch header has {BATCH_OVERHEAD}")


def header_bytes(header: BatchHeader) -> bytes:
    """As `read_header` reads it. The CRC is the header's own if it can be one, else 0."""
    crc = max(header.crc, 0)
    return HEADER.pack(header.base_offset, header.size_bytes - LOG_OVERHEAD, *header[2:4], crc, *header[5:])


def iter_batches(buffer: Buffer, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each batch. A last batch that is cut short raises CorruptBatch."""
    end = len(buffer)
    while position < end:
        header = read_header(buffer, position)
        size_bytes = header.size_bytes
        if size_bytes > end - position:
            raise CorruptBatch(
                f"batch at position {position} has {size_bytes} bytes, {end - position} are there"
            )
        yield position, header
        position += size_bytes


def iter_whole_batches(buffer: Buffer, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """As `iter_batches`, but ends before a last batch that is cut short: a fetch answer may end anywhere."""
    end = len(buffer)
    while end - position >= BATCH_OVERHEAD:
        header = read_header(buffer, position)
        size_bytes = header.size_bytes
        if size_bytes > end - position:
            return
        yield position, header
        position += size_bytes


def first_batches(buffer: Buffer, most: int) -> tuple[int, int]:
    """How many bytes the first batches have, `most` of them at most, and how many they are. Where there are no more, or what follows
    is none, all bytes: whoever reads them sees. Only lengths are looked at."""
    position = count = 0
    end = len(buffer)
    while count < most and end - position >= BATCH_OVERHEAD:
        (length,) = _LENGTH.unpack_from(buffer, position + LENGTH_OFFSET)
        behind = position + LOG_OVERHEAD + length
        if length < BATCH_OVERHEAD - LOG_OVERHEAD or behind > end:
            return end, count
        position = behind
        count += 1
    return (position if count == most else end), count


def check_crc(buffer: Buffer, position: int, header: BatchHeader) -> bool:
    """Whether the batch is as it was when its checksum was made."""
    view = memoryview(buffer)[position + ATTRIBUTES_OFFSET : position + header.size_bytes]
    return crc32c(view) == header.crc


def stamp(buffer: bytearray | memoryview, position: int, base_offset: int, leader_epoch: int) -> None:
    """Writes offset and leader epoch in place. Both lie before the CRC (KIP-98), which stays right."""
    _OFFSET.pack_into(buffer, position, base_offset)
    _EPOCH.pack_into(buffer, position + EPOCH_OFFSET, leader_epoch)


def stamp_max_timestamp(
    buffer: bytearray | memoryview,
    position: int,
    size_bytes: int,
    *,
    max_timestamp: int,
    log_append_time: bool,
) -> None:
    """Sets the max timestamp and its kind in place, and a new CRC, because these lie behind it.

    With LogAppendTime the max timestamp is the timestamp of every record in the batch (KIP-32).
    """
    (attributes,) = _ATTRIBUTES.unpack_from(buffer, position + ATTRIBUTES_OFFSET)
    attributes = attributes | LOG_APPEND_TIME if log_append_time else attributes & ~LOG_APPEND_TIME
    _ATTRIBUTES.pack_into(buffer, position + ATTRIBUTES_OFFSET, attributes)
    _MAX_TIMESTAMP.pack_into(buffer, position + MAX_TIMESTAMP_OFFSET, max_timestamp)
    checksum = crc32c(memoryview(buffer)[position + ATTRIBUTES_OFFSET : position + size_bytes])
    _CRC.pack_into(buffer, position + CRC_OFFSET, checksum)


def stamp_producer(header: bytearray, *, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
    """Writes into the header of a batch who sends it, and as which of theirs, and a new CRC, because these lie behind it.

    The records are not needed; if they are not what the CRC was made of, it is wrong afterwards as well.
    """
    before = bytes(header[ATTRIBUTES_OFFSET:BATCH_OVERHEAD])
    _PRODUCER.pack_into(header, PRODUCER_ID_OFFSET, producer_id, producer_epoch, base_sequence)
    after = bytes(header[ATTRIBUTES_OFFSET:BATCH_OVERHEAD])
    (length,) = _LENGTH.unpack_from(header, LENGTH_OFFSET)
    (crc,) = _CRC.unpack_from(header, CRC_OFFSET)
    crc = crc32c_of_changed(crc, before, after, length + LOG_OVERHEAD - BATCH_OVERHEAD)
    _CRC.pack_into(header, CRC_OFFSET, crc)
