"""The topic that transactional producers of a world write to, and who reads it.

A value names its transaction: `id:number:attempt:n`. Each transactional id counts: transaction `number` moves the position of
its group to `number`, in the same transaction, and who takes the id over goes on behind that position. So of every number one
attempt counts, whoever made it: `checkers/transactions.py`.
"""

from typing import Any

from odradek.model.ids import TopicPartition
from odradek.protocol.messages.fetch import AbortedTransaction
from odradek.records.batch import BATCH_OVERHEAD, iter_batches
from odradek.records.control import end_marker_of
from odradek.records.reader import decode_batch
from odradek.sim.checkers.history import Value
from odradek.sim.checkers.transactions import ABORT, COMMIT, DATA, EMPTIED, Written
from odradek.sim.clients.consumer import READ_COMMITTED, SimConsumer

LEDGER = "ledger"
PARTITIONS = [TopicPartition(LEDGER, number) for number in range(3)]
POSITION = PARTITIONS[0]  # whose offset the groups commit
TIMEOUT_MS = 2_000


def assignments(brokers: int, replication_factor: int) -> list[list[int]]:
    """Of each partition. The first two are led by one broker: a request names both, as those of clients do."""
    leaders_and_steps = ((0, 1), (0, -1), (1, 1))
    return [
        [(leader + step * number) % brokers + 1 for number in range(replication_factor)]
        for leader, step in leaders_and_steps
    ]


def group_of(transactional_id: str) -> str:
    return f"{transactional_id}-positions"


class CommittedReader(SimConsumer):
    """Leaves out what the answer calls aborted, as clients do: from the first offset of such a transaction to its marker."""

    isolation_level = READ_COMMITTED

    def _records(
        self, data: Any, aborted: list[AbortedTransaction]
    ) -> tuple[list[tuple[int, Value]], list[int], int]:
        found: list[tuple[int, Value]] = []
        epochs: list[int] = []
        next_offset = self.offset
        to_come = sorted(aborted, key=lambda one: one.first_offset, reverse=True)
        left_out: set[int] = set()
        view = memoryview(data or b"")
        for position, header in iter_batches(view):
            while to_come and to_come[-1].first_offset <= header.last_offset:
                left_out.add(to_come.pop().producer_id)
            batch = view[position : position + header.size_bytes]
            if header.is_control:
                marker = end_marker_of(header, batch[BATCH_OVERHEAD:])
                if marker is not None and not marker.is_commit:
                    left_out.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in left_out):
                records = [record for record in decode_batch(batch) if record.offset >= self.offset]
                found += [(record.offset, self._text(record)) for record in records]
                epochs += [header.leader_epoch] * len(records)
            next_offset = max(next_offset, header.next_offset)
        return found, epochs, next_offset


class BatchReader(SimConsumer):
    """What stands in the log, markers and all."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.written: list[Written] = []

    def _records(
        self, data: Any, aborted: list[AbortedTransaction]
    ) -> tuple[list[tuple[int, Value]], list[int], int]:
        next_offset = self.offset
        view = memoryview(data or b"")
        for position, header in iter_batches(view):
            batch = view[position : position + header.size_bytes]
            kind = DATA
            values: tuple[Value, ...] = ()
            if header.is_control:
                marker = end_marker_of(header, batch[BATCH_OVERHEAD:])
                if marker is None:
                    kind = EMPTIED
                else:
                    kind = COMMIT if marker.is_commit else ABORT
            else:
                values = tuple(record.value or b"" for record in decode_batch(batch))
            if header.base_offset >= self.offset:
                self.written.append(
                    Written(
                        self.partition,
                        header.base_offset,
                        header.producer_id,
                        header.producer_epoch,
                        kind,
                        values,
                    )
                )
            next_offset = max(next_offset, header.next_offset)
        return [], [], next_offset
