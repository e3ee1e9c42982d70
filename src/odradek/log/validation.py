"""What a leader checks before it appends, in one pass over batch headers; large batches are opened only when asked.

`odradek.log.record.validation=header` (the default) looks at what costs the same for every batch: the header, whether
so many records fit into so many bytes, and the first record, which often is the only one.
`full` reads every record of every batch, and so does a compacted topic, where a record without a key is refused
(KIP-135). What that may cost, and who pays for it, stands in `opening` and decisions/0016.
"""

from typing import NamedTuple

from odradek.log.config import LogConfig
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError
from odradek.records.batch import (
    ATTRIBUTES_OFFSET,
    BATCH_OVERHEAD,
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    HEADER,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_OFFSET,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    BatchHeader,
    Buffer,
    header_bytes,
    read_header,
)
from odradek.records.checksum import crc32c
from odradek.records.compression import (
    CODEC_NAMES,
    ZSTD,
    begins_as,
    compress,
    most_opened_bytes,
    unknown_codec,
)
from odradek.records.errors import CorruptBatch, InvalidRecord
from odradek.records.opened import opened_records
from odradek.records.survey import SMALLEST_RECORD_BYTES, Survey, is_plain, survey, survey_first

LARGEST_TIMESTAMP = 2**63 - 1
# In place of the CRC of a header that is not as the producer wrote it: the batch is stamped anew when it is appended.
STALE_CRC = -1
# What is read at once of a batch of which all records are read, and of one of which only the first is: there may be a
# thousand of these in a request.
HEADERS_AT_ONCE = 1000
FEW_HEADERS = 10

_new = tuple.__new__  # a NamedTuple's own constructor costs twice as much


class Checked(NamedTuple):
    """Batches that may be appended, in the codec of their topic, and their headers."""

    records: memoryview
    headers: list[BatchHeader]


def checked(
    view: memoryview,
    config: LogConfig,
    *,
    now_ms: int,
    is_transactional: bool = False,
    at_once: bool = False,
) -> Checked:
    """All that is looked at, and changed, of what a client sent before the log itself is asked. May take long unless it
    has to be `at_once`; touches nothing else, so a thread may do it. ProtocolError for the first broken rule, TakesLong
    as `leader_batches`.
    """
    headers = leader_batches(
        view,
        config,
        now_ms=now_ms,
        from_coordinator=False,
        from_client=True,
        is_transactional=is_transactional,
        at_once=at_once,
    )
    if config.compression_type is not None:
        view, headers = recompressed(view, headers, config.compression_type, config, at_once=at_once)
    return Checked(view, headers)


def leader_batches(
    view: memoryview,
    config: LogConfig,
    *,
    now_ms: int,
    from_coordinator: bool,
    from_client: bool = False,
    is_transactional: bool = False,
    at_once: bool = False,
) -> list[BatchHeader]:
    """The headers of what is appended to one partition; ProtocolError for the first broken rule. `from_client`: it came
    in a Produce request, which holds one batch a partition, of magic 2; of a transaction only with `is_transactional`.
    `at_once`: TakesLong where more than a moment is needed for what came in.
    """
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
            if from_client and (left < BATCH_OVERHEAD or view[position + MAGIC_OFFSET] in (0, 1)):
                raise _not_one_batch(view, position)
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
        if size_bytes != left:
            if not BATCH_OVERHEAD <= size_bytes <= left:
                if from_client and size_bytes > left:
                    raise InvalidRecord(f"batch of {size_bytes} bytes where {left} are left")
                raise CorruptBatch(f"batch of {size_bytes} bytes where {left} are left")
            if from_client:
                # Before anything is opened, or a second batch read: there may be a million.
                raise _not_one_batch(view, size_bytes)
        if size_bytes > max_bytes:
            raise _too_large(size_bytes, max_bytes)
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
            if from_client and attributes & TRANSACTIONAL and not is_transactional:
                # It would open a transaction that nobody can end, and hold readers up for ever.
                raise ProtocolError(
                    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                    "a transactional batch without a transactional id",
                )
            check_header(header, is_first=position == 0, from_coordinator=from_coordinator)
            if attributes & LOG_APPEND_TIME:
                # What a time means the topic says, and not the producer.
                header = header._replace(attributes=attributes & ~LOG_APPEND_TIME, crc=STALE_CRC)
        if needs_timestamps:
            _check_timestamps(header, config, now_ms)
        if needs_records:
            header = _as_its_records_say(
                header, _check_records(view, position, header, config, now_ms, at_once)
            )
        elif (
            attributes & CODEC_MASK
            or base_timestamp != max_timestamp
            or size_bytes < BATCH_OVERHEAD + SMALLEST_RECORD_BYTES * record_count
            or not is_plain(view, position + BATCH_OVERHEAD, position + size_bytes, record_count)
        ):
            header = _check_beginning(
                view[position + BATCH_OVERHEAD : position + size_bytes], header, at_once
            )
            if needs_timestamps and header.max_timestamp != max_timestamp:
                _check_timestamp(header.max_timestamp, config, now_ms)  # that of its only record
        headers.append(header)
        position += size_bytes
    if len(headers) > 1 and any(header.producer_id >= 0 for header in headers):
        # A retry must find or miss all of it, so one request is one batch (KIP-98).
        raise InvalidRecord(
            f"{len(headers)} batches in one request of an idempotent producer; one is allowed"
        )
    return headers


def _not_one_batch(view: memoryview, position: int) -> InvalidRecord:
    """What Apache's brokers refuse before they ask a log (`ProduceRequest.validateRecords`)."""
    if position:
        what = f"{len(view) - position} bytes behind the first batch"
    elif len(view) < BATCH_OVERHEAD:
        what = f"{len(view)} bytes, which are no batch"
    else:
        what = f"message format {view[MAGIC_OFFSET]}"
    return InvalidRecord(f"{what}: a request has one batch a partition, of magic 2")


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


def _check_beginning(block: memoryview, header: BatchHeader, at_once: bool) -> BatchHeader:
    """What can be told of the records without reading on: costs the same however many there are, but for headers."""
    count = header.record_count
    codec = header.attributes & CODEC_MASK
    few = FEW_HEADERS if at_once else None
    if count * SMALLEST_RECORD_BYTES > (most_opened_bytes(len(block)) if codec else len(block)):
        raise InvalidRecord(f"batch of {count} records in {len(block)} bytes")
    if codec:
        if not begins_as(codec, block):
            raise InvalidRecord(f"what is in this batch was not compressed by {CODEC_NAMES[codec]}")
    elif count == 1:
        header = _as_its_records_say(header, survey(block, 1, headers_at_once=few))
    elif not is_plain(block, 0, len(block), count):
        survey_first(block, count, headers_at_once=few)
    return header


def _as_its_records_say(header: BatchHeader, found: Survey) -> BatchHeader:
    """The header with the largest timestamp of its records, as Apache's brokers write it; lookups go by it."""
    base = header.base_timestamp
    if (
        base + found.largest_timestamp_delta > LARGEST_TIMESTAMP
        or base + found.smallest_timestamp_delta < -LARGEST_TIMESTAMP - 1
    ):
        raise InvalidRecord(f"base timestamp {base}: those of the records do not fit into 64 bits")
    if header.attributes & (CONTROL | DELETE_HORIZON):
        return header
    largest = base + found.largest_timestamp_delta
    if largest == header.max_timestamp:
        return header
    return header._replace(max_timestamp=largest, crc=STALE_CRC)


def _check_timestamps(header: BatchHeader, config: LogConfig, now_ms: int) -> None:
    """KIP-937. By header: the first timestamp for how old, the largest for how new."""
    if (
        header.base_timestamp != NO_TIMESTAMP
        and now_ms - header.base_timestamp > config.timestamp_before_max_ms
    ):
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
    view: memoryview, position: int, header: BatchHeader, config: LogConfig, now_ms: int, at_once: bool
) -> Survey:
    """Every record: that it is one, its offset, its timestamp, and in a compacted topic its key."""
    block = view[position + BATCH_OVERHEAD : position + header.size_bytes]
    opened = opened_records(header, block, at_once=at_once)
    found = survey(opened, header.record_count, headers_at_once=HEADERS_AT_ONCE if at_once else None)
    keyless = found.first_without_key
    if config.is_compacted and keyless >= 0 and not header.attributes & CONTROL:
        raise InvalidRecord(f"record {keyless} has no key; the topic is compacted", record_index=keyless)
    if config.timestamps_limited and not config.log_append_time:
        for delta in (found.smallest_timestamp_delta, found.largest_timestamp_delta):
            _check_timestamp(header.base_timestamp + delta, config, now_ms)
    return found


def _check_timestamp(timestamp: int, config: LogConfig, now_ms: int) -> None:
    too_old = now_ms - timestamp > config.timestamp_before_max_ms
    if timestamp != NO_TIMESTAMP and (too_old or timestamp - now_ms > config.timestamp_after_max_ms):
        raise _refused_timestamp(timestamp, config, now_ms)


def _too_large(size_bytes: int, max_bytes: int) -> ProtocolError:
    return ProtocolError(
        ErrorCode.MESSAGE_TOO_LARGE, f"batch of {size_bytes} bytes; max.message.bytes is {max_bytes}"
    )


def recompressed(
    view: memoryview, headers: list[BatchHeader], codec: int, config: LogConfig, *, at_once: bool = False
) -> tuple[memoryview, list[BatchHeader]]:
    """The same records in the codec the topic demands (compression.type): their bytes, not opened further. MESSAGE_TOO_LARGE
    where they are more in it than a batch may have, however few came; a client that hears so sends fewer records in one.
    TakesLong as `opened_records`.
    """
    if all(header.codec == codec for header in headers):
        return view, headers
    parts: list[Buffer] = []
    changed: list[BatchHeader] = []
    position = 0
    for header in headers:
        end = position + header.size_bytes
        is_plain_marker = header.is_control and not header.codec  # Apache's brokers leave it so, too
        if header.codec != codec and not is_plain_marker:
            block = opened_records(header, view[position + BATCH_OVERHEAD : end], at_once=at_once)
            block = compress(codec, block, config.compression_level)
            if BATCH_OVERHEAD + len(block) > config.max_message_bytes:
                raise _too_large(BATCH_OVERHEAD + len(block), config.max_message_bytes)
            attributes = header.attributes & ~CODEC_MASK | codec
            header = header._replace(
                size_bytes=BATCH_OVERHEAD + len(block), attributes=attributes, crc=STALE_CRC
            )
            parts += [header_bytes(header), block]
        else:
            parts.append(view[position:end])
        changed.append(header)
        position = end
    return memoryview(bytearray().join(parts)), changed
