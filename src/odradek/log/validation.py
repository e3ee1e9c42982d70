"""What a leader checks before it appends, in one pass over batch headers; records are opened only when asked.

`odradek.log.record.validation=header` (the default) trusts the CRC for what is inside a batch: the producer made
both. `full` decodes every record, and so does a compacted topic, where a record without a key is refused (KIP-135).
"""

from odradek.log.config import LogConfig
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError
from odradek.records.batch import (
    ATTRIBUTES_OFFSET,
    BATCH_OVERHEAD,
    CODEC_MASK,
    CONTROL,
    HEADER,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_OFFSET,
    TRANSACTIONAL,
    BatchHeader,
    read_header,
)
from odradek.records.builder import rebuild_batch
from odradek.records.checksum import crc32c
from odradek.records.compression import ZSTD, unknown_codec
from odradek.records.errors import CorruptBatch, InvalidRecord
from odradek.records.reader import decode_batch

_new = tuple.__new__  # a NamedTuple's own constructor costs twice as much


def leader_batches(
    view: memoryview, config: LogConfig, *, now_ms: int, from_coordinator: bool
) -> list[BatchHeader]:
    """The headers of a produce request's batches for one partition; ProtocolError for the first broken rule."""
    headers: list[BatchHeader] = []
    position = 0
    end = len(view)
    if end == 0:
        raise InvalidRecord("a produce request must hold at least one record batch per partition")
    max_bytes = config.max_message_bytes
    needs_records = config.full_validation or config.is_compacted
    needs_timestamps = config.timestamps_limited and not config.log_append_time
    while position < end:
        left = end - position
        if left < BATCH_OVERHEAD or view[position + MAGIC_OFFSET] != MAGIC:
            read_header(view, position)  # raises what fits: old format, or nonsense
            raise CorruptBatch(f"{left} bytes left over behind the last batch")
        (
            base_offset,
            length,
            leader_epoch,
            _,
            crc,
            attributes,
            last_offset_delta,
            base_timestamp,
            max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
            record_count,
        ) = HEADER.unpack_from(view, position)
        size_bytes = length + LOG_OVERHEAD
        if not BATCH_OVERHEAD <= size_bytes <= left:
            raise CorruptBatch(f"batch of {size_bytes} bytes where {left} are left")
        if size_bytes > max_bytes:
            raise ProtocolError(
                ErrorCode.MESSAGE_TOO_LARGE, f"batch of {size_bytes} bytes; max.message.bytes is {max_bytes}"
            )
        if crc32c(view[position + ATTRIBUTES_OFFSET : position + size_bytes]) != crc:
            raise CorruptBatch(f"batch at position {position}: its CRC is not {crc}")
        header = _new(
            BatchHeader,
            (
                base_offset,
                size_bytes,
                leader_epoch,
                MAGIC,
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
        # What nearly every batch is; any other is looked at rule by rule.
        if (
            last_offset_delta + 1 != record_count
            or record_count <= 0
            or attributes > ZSTD
            or attributes < 0
            or base_offset
            or size_bytes == BATCH_OVERHEAD
            or (base_sequence if producer_id >= 0 else 0) < 0
            or (producer_epoch if producer_id >= 0 else 0) < 0
        ):
            check_header(header, is_first=position == 0, from_coordinator=from_coordinator)
        if needs_timestamps:
            _check_timestamps(header, config, now_ms)
        if needs_records:
            _check_records(view, position, header, config, now_ms)
        headers.append(header)
        position += size_bytes
    if len(headers) > 1 and any(header.producer_id >= 0 for header in headers):
        # A retry must find or miss all of it, so one request is one batch (KIP-98).
        raise InvalidRecord(
            f"{len(headers)} batches in one request of an idempotent producer; one is allowed"
        )
    return headers


def check_header(header: BatchHeader, *, is_first: bool, from_coordinator: bool) -> None:
    """The rules a client's batch keeps, as far as its header tells."""
    count = header.record_count
    if header.last_offset_delta + 1 != count or count <= 0:
        raise InvalidRecord(f"batch of {count} records whose last offset delta is {header.last_offset_delta}")
    attributes = header.attributes
    if attributes & CODEC_MASK > ZSTD:
        raise unknown_codec(attributes & CODEC_MASK)
    if header.size_bytes == BATCH_OVERHEAD:
        raise InvalidRecord(f"batch of {count} records without a body")
    if from_coordinator:
        return
    if header.producer_id >= 0:
        if header.base_sequence < 0 or header.producer_epoch < 0:
            raise InvalidRecord(
                f"producer {header.producer_id}: sequence {header.base_sequence}, epoch {header.producer_epoch}; "
                "both must be there"
            )
    elif attributes & TRANSACTIONAL:
        raise InvalidRecord("a transactional batch without a producer id")
    if attributes & CONTROL:
        raise InvalidRecord("clients do not write control records")
    if is_first and header.base_offset != 0:
        raise InvalidRecord(f"base offset {header.base_offset}; a producer's batch begins at 0")
    if attributes & LOG_APPEND_TIME:
        raise ProtocolError(
            ErrorCode.INVALID_TIMESTAMP, "a producer does not set LogAppendTime; the broker does"
        )


def _check_timestamps(header: BatchHeader, config: LogConfig, now_ms: int) -> None:
    """KIP-937. By header: the first timestamp for how old, the largest for how new."""
    if header.base_timestamp >= 0 and now_ms - header.base_timestamp > config.timestamp_before_max_ms:
        raise _refused_timestamp(header.base_timestamp, config, now_ms)
    if header.max_timestamp >= 0 and header.max_timestamp - now_ms > config.timestamp_after_max_ms:
        raise _refused_timestamp(header.max_timestamp, config, now_ms)


def _refused_timestamp(timestamp: int, config: LogConfig, now_ms: int) -> ProtocolError:
    return ProtocolError(
        ErrorCode.INVALID_TIMESTAMP,
        f"timestamp {timestamp} is not between {now_ms} - {config.timestamp_before_max_ms} and "
        f"{now_ms} + {config.timestamp_after_max_ms}",
    )


def _check_records(
    view: memoryview, position: int, header: BatchHeader, config: LogConfig, now_ms: int
) -> None:
    """Every record: that it decodes, its offset, its timestamp, and in a compacted topic its key."""
    batch = view[position : position + header.size_bytes]
    records = decode_batch(batch, verify_crc=False, created=True)
    largest = -1
    for index, record in enumerate(records):
        if record.offset - header.base_offset != index:
            raise InvalidRecord(
                f"record {index} has offset delta {record.offset - header.base_offset}", record_index=index
            )
        if config.is_compacted and record.key is None and not header.is_control:
            raise InvalidRecord(f"record {index} has no key; the topic is compacted", record_index=index)
        largest = max(largest, record.timestamp)
        if config.timestamps_limited and not config.log_append_time and record.timestamp >= 0:
            too_old = now_ms - record.timestamp > config.timestamp_before_max_ms
            if too_old or record.timestamp - now_ms > config.timestamp_after_max_ms:
                raise _refused_timestamp(record.timestamp, config, now_ms)
    if config.full_validation and largest != header.max_timestamp and not header.is_log_append_time:
        raise InvalidRecord(f"max timestamp {header.max_timestamp} in the header, {largest} in the records")


def recompressed(view: memoryview, headers: list[BatchHeader], codec: str, level: int | None) -> memoryview:
    """The same batches in the codec the topic demands (compression.type)."""
    parts = []
    position = 0
    for header in headers:
        batch = view[position : position + header.size_bytes]
        records = decode_batch(batch, verify_crc=False, created=True)
        parts.append(rebuild_batch(header, records, codec=codec, level=level))
        position += header.size_bytes
    return memoryview(bytearray().join(parts))
