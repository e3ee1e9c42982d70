"""The records of a batch that somebody else wrote, opened within limits: sizes and counts are the sender's choice."""

from odradek.records.batch import CODEC_MASK, BatchHeader, Buffer
from odradek.records.compression import CODEC_NAMES, decompress_prefix, most_opened_bytes
from odradek.records.errors import CorruptBatch, InvalidRecord

# A second of one thread, more or less; librdkafka puts 10,000 records into a batch, and nobody a hundred times that.
MOST_OPENED_RECORDS = 1_000_000


def opened_records(header: BatchHeader, block: Buffer) -> Buffer:
    """What stands behind `header`, decompressed. Its CRC was right, so whatever is wrong is its producer's doing:
    InvalidRecord, also where more comes out than `most_opened_bytes` allows."""
    codec = header.attributes & CODEC_MASK
    if header.record_count > MOST_OPENED_RECORDS:
        raise InvalidRecord(f"batch of {header.record_count} records; {MOST_OPENED_RECORDS} are opened")
    if not codec:
        return bytes(block)
    limit = most_opened_bytes(len(block))
    try:
        opened, is_whole = decompress_prefix(codec, block, limit)
    except CorruptBatch as error:
        raise InvalidRecord(error.message) from None
    if not is_whole:
        raise InvalidRecord(f"more than {limit} bytes come out of {len(block)} bytes of {CODEC_NAMES[codec]}")
    return opened
