"""What a Fetch brought, read by the tests: rows by topic and partition, values of their records."""

from typing import Any

from odradek.records.reader import decode_batch
from tests.broker.world import TOPIC_ID, Pending

U_ID = bytes([2] * 16)
T, U = TOPIC_ID, U_ID
T_0, T_1, U_0 = (1, 0), (1, 1), (2, 0)


def rows(pending: Pending) -> dict[tuple[int, int], Any]:
    """(first byte of the topic id, partition) -> row."""
    return {(t.topic_id[0], p.partition_index): p for t in pending.message.responses for p in t.partitions}


def values(row: Any) -> list[bytes]:
    data, found, position = bytes(row.records or b""), [], 0
    while position < len(data):
        size = int.from_bytes(data[position + 8 : position + 12], "big") + 12
        if position + size > len(data):
            break  # cut by the limit
        found += [bytes(r.value) for r in decode_batch(data[position : position + size])]
        position += size
    return found
