"""The records of a batch that somebody else wrote, opened within limits: sizes and counts are the sender's choice."""

from odradek.records.batch import CODEC_MASK, BatchHeader, Buffer
from odradek.records.compression import CODEC_NAMES, decompress_prefix, most_opened_bytes
from odradek.records.errors import CorruptBatch, InvalidRecord, TakesLong

# A second of one thread, more or less; librdkafka puts 10,000 records into a batch, and nobody a hundred times that.
MOST_OPENED_RECORDS = 1_000_000
# What may come out of a batch at once: to compress as much anew takes some milliseconds.
OPENED_AT_ONCE = 64 << 10


def opened_records(header: BatchHeader, block: Buffer, *, at_once: bool = False) -> Buffer:
    """What stands behind `header`, decompressed. Its CRC was right, so whatever is wrong is its producer's doing:
    InvalidRecord, also where more comes out than `most_opened_bytes` allows. TakesLong where that has to be `at_once`,
    and more comes out than `OPENED_AT_ONCE`."""
    codec = header.attributes & CODEC_MASK
    if header.record_count > MOST_OPENED_RECORDS:
        raise InvalidRecord(f"batch of {header.record_count} records; {MOST_OPENED_RECORDS} are opened")
    if not codec:
        return bytes(block)
    limit = most_opened_bytes(len(block))
    most = min(limit, OPENED_AT_ONCE) if at_once else limit
    try:
        opened, is_whole = decompress_prefix(codec, block, most)
    except CorruptBatch as error:
        raise InvalidRecord(error.message) from None
    if not is_whole:
        if most < limit:
            raise TakesLong(f"more than {most} bytes come out of {len(block)} bytes of {CODEC_NAMES[codec]}")
        raise InvalidRecord(f"more than {limit} bytes come out of {len(block)} bytes of {CODEC_NAMES[codec]}")
    return opened
