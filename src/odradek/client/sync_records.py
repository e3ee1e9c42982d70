"""The records of a range of offsets, one by one: for people, proofs and small topics. Spark decodes whole batches."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from odradek.client.sync_fetch import read_range
from odradek.records.batch import BatchHeader, iter_batches
from odradek.records.reader import Record, decode_batch

if TYPE_CHECKING:
    from odradek.client.sync import SyncClient
    from odradek.model.ids import TopicPartition


def records(
    client: "SyncClient", partition: "TopicPartition", start: int, end: int, *, read_committed: bool = False
) -> Iterator[Record]:
    """The records of [start, end) without control records, and without aborted ones when asked."""
    for _, rows in batches(client, partition, start, end, read_committed=read_committed):
        yield from rows


def batches(
    client: "SyncClient",
    partition: "TopicPartition",
    start: int,
    end: int,
    *,
    read_committed: bool = False,
    with_control: bool = False,
) -> Iterator[tuple[BatchHeader, list[Record]]]:
    """The same, batch by batch, with the header that says who wrote them; `with_control`: with control batches, too."""
    if start >= end:
        return
    for fetched in read_range(client, partition, start, end, read_committed=read_committed):
        aborted = sorted(fetched.aborted, key=lambda entry: entry[1])
        open_aborts: set[int] = set()
        for position, header in iter_batches(fetched.records):
            while aborted and aborted[0][1] <= header.next_offset - 1:
                open_aborts.add(aborted.pop(0)[0])
            if header.is_control:
                open_aborts.discard(header.producer_id)
                if not with_control:
                    continue
            elif header.is_transactional and header.producer_id in open_aborts:
                continue
            yield header, [r for r in decode_batch(fetched.records, position) if start <= r.offset < end]
