"""Offsets that are committed together, written by columns: the other direction of `committed_together`.

Encoded one by one, ten thousand offsets took 60 ms of one turn. Here the records of a topic are packed by calls whose
loops are not in Python; what comes out is the same byte for byte.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby, repeat
from struct import error

from odradek.coordinator.committed_together import DELTAS_OF_WIDTH, deltas_of, layout_of
from odradek.coordinator.effects import Producer
from odradek.coordinator.records import (
    NEVER_EXPIRES,
    OFFSET_VALUE_VERSION,
    CoordinatorRecord,
    OffsetRecord,
    offset_key_head,
)
from odradek.protocol.primitives import varint
from odradek.records.batch import (
    MAGIC,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL,
    BatchHeader,
)
from odradek.records.builder import batch_bytes

# Fewer are encoded one by one as soon.
FEWEST = 16
_PARTITION_SIZE = 4
_VALUE_SIZE = 24  # without the metadata: version, offset, leader epoch, length of the metadata, time


def written_together(
    records: Sequence[CoordinatorRecord], now_ms: int, producer: Producer | None
) -> bytes | None:
    """The batch of these; None: they are few, of several groups, or not all of them plain offsets."""
    count = len(records)
    if count < FEWEST or set(map(type, records)) != {OffsetRecord}:
        return None
    keys, values = zip(*records, strict=True)
    if None in values:
        return None
    groups, topics, partitions = zip(*keys, strict=True)
    offsets, epochs, texts, times, ends = zip(*values, strict=True)
    if groups.count(groups[0]) != count or ends.count(NEVER_EXPIRES) != count:
        return None
    metadata = tuple(map(str.encode, texts))
    deltas = deltas_of(0, count)
    pieces: list[bytes] = []
    begin = 0
    try:
        for (topic, size), same in groupby(zip(topics, map(len, metadata), strict=True)):
            end = begin + len(list(same))
            while begin < end:
                width = len(deltas[begin])
                run = slice(begin, min(end, DELTAS_OF_WIDTH[width].stop))
                key = _key(groups[0], topic)
                value = varint(_VALUE_SIZE + size) + OFFSET_VALUE_VERSION.to_bytes(2, "big")
                # Attributes and timestamp delta before it, the count of headers behind it.
                rest = 2 + width + len(key) + _PARTITION_SIZE + len(value) - 2 + _VALUE_SIZE + size + 1
                head = varint(rest) + b"\0\0"
                pieces += map(
                    layout_of(len(head), width, len(key), len(value), size).pack,
                    repeat(head),
                    deltas[run],
                    repeat(key),
                    partitions[run],
                    repeat(value),
                    offsets[run],
                    epochs[run],
                    repeat(size),
                    metadata[run],
                    times[run],
                    repeat(0),
                )
                begin = run.stop
    except error:  # metadata that no string of the wire holds: whoever encodes it alone says so
        return None
    return batch_bytes(_header(count, now_ms, producer), b"".join(pieces))


@lru_cache(maxsize=1024)
def _key(group: str, topic: str) -> bytes:
    """Its length, and all of it but the partition."""
    head = offset_key_head(group, topic)
    return varint(len(head) + _PARTITION_SIZE) + head


def _header(count: int, now_ms: int, producer: Producer | None) -> BatchHeader:
    return BatchHeader(
        base_offset=0,
        size_bytes=0,
        leader_epoch=-1,
        magic=MAGIC,
        crc=0,
        attributes=0 if producer is None else TRANSACTIONAL,
        last_offset_delta=count - 1,
        base_timestamp=now_ms,
        max_timestamp=now_ms,
        producer_id=NO_PRODUCER_ID if producer is None else producer.producer_id,
        producer_epoch=NO_PRODUCER_EPOCH if producer is None else producer.epoch,
        base_sequence=NO_SEQUENCE,
        record_count=count,
    )
