"""The coordinator of all transactional ids of one partition of `__transaction_state`: `step(event, now_ms) -> Effects`.

Decides, never waits. A request is answered at once, or with the commit of the record it made; one that begins a
transaction may wait a little for the markers of the one before (`Waiting`). Memory changes by records
alone (`StoredTransactions.replay`), after they are committed, and the same function loads it again. A decision that is
loaded is carried out again: markers do no harm twice.
"""

from collections.abc import Callable, Mapping
from typing import Any

from odradek.coordinator.adding import add_offsets, add_partitions
from odradek.coordinator.ending import end_txn
from odradek.coordinator.events import AppendFailed, Asked, Committed, Tick, Unloaded
from odradek.coordinator.initialising import init_producer_id
from odradek.coordinator.kept_memory import KeptMemory, memory_of_transactions
from odradek.coordinator.stored_transactions import StoredTransactions
from odradek.coordinator.transaction_effects import MarkersWritten, TransactionEffects
from odradek.coordinator.transaction_listing import describe_transactions, list_transactions
from odradek.coordinator.transaction_room import Room, TakeProducerId, TransactionVersion
from odradek.coordinator.transaction_settings import (
    COMPLETE_AGAIN_MS,
    MOST_PARTITIONS_AT_ONCE,
    MOST_TAKEN_OVER,
    TransactionSettings,
)
from odradek.coordinator.transaction_timeouts import Expiry, TimeOuts
from odradek.model.error_codes import ErrorCode
from odradek.model.values import replace
from odradek.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from odradek.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from odradek.protocol.messages.describe_transactions import DescribeTransactionsRequest
from odradek.protocol.messages.end_txn import EndTxnRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.list_transactions import ListTransactionsRequest
from odradek.protocol.schema import Request

_REQUESTS: dict[type[Request], Callable[[Room, Asked, Any, int], None]] = {
    InitProducerIdRequest: init_producer_id,
    AddPartitionsToTxnRequest: add_partitions,
    AddOffsetsToTxnRequest: add_offsets,
    EndTxnRequest: end_txn,
    DescribeTransactionsRequest: describe_transactions,
    ListTransactionsRequest: list_transactions,
}

TransactionEvent = Asked | Committed | AppendFailed | MarkersWritten | Tick | Unloaded


class TransactionCoordinator:
    def __init__(
        self,
        settings: TransactionSettings,
        topics: Mapping[str, int],
        take_producer_id: TakeProducerId,
        stored: StoredTransactions,
        now_ms: int,
        transaction_version: TransactionVersion = lambda: 0,
        kept: KeptMemory | None = None,
    ) -> None:
        """`topics`: how many partitions each has, as it is known at any moment. `stored`: what the log holds. `kept`: of all
        coordinators of a broker."""
        memory = kept or memory_of_transactions()
        self.room = Room(settings, topics, take_producer_id, stored, transaction_version, memory)
        self.time_outs = TimeOuts(self.room, now_ms)
        self.expiry = Expiry(self.room, now_ms)
        self._to_take_over = list(reversed(stored.prepared))
        self._to_complete: list[str] = []  # all their partitions have the marker; the next one last
        self._again_at_ms: int | None = now_ms if self._to_take_over else None

    def step(self, event: TransactionEvent, now_ms: int) -> TransactionEffects:
        room = self.room
        match event:
            case Asked():
                _REQUESTS[type(event.request)](room, event, event.request, now_ms)
            case Committed():
                room.committed(event.append_id, event.base_offset, now_ms)
            case AppendFailed():
                room.failed(event.append_id, event.error, now_ms)
            case MarkersWritten():
                room.marked(
                    event.transactional_id,
                    event.producer_id,
                    event.producer_epoch,
                    event.partitions,
                    now_ms,
                )
            case Tick():
                self._tick(now_ms)
            case Unloaded():
                room.fail_all(ErrorCode.NOT_LEADER_OR_FOLLOWER, now_ms)
        if room.incomplete and self._again_at_ms is None:
            self._again_at_ms = now_ms + COMPLETE_AGAIN_MS
        room.tell_memory(room.kept_bytes)
        return room.take_effects()

    def next_deadline_ms(self) -> int | None:
        """When a `Tick` is wanted."""
        due = (self._again_at_ms, self.room.waiting.due_ms, self.time_outs.due_ms, self.expiry.due_ms)
        return min((at for at in due if at is not None), default=None)

    @property
    def size(self) -> int:
        """Transactional ids."""
        return len(self.room.stored.by_id)

    def tables(self) -> list[dict[Any, Any]]:
        """What is to be emptied when others coordinate these."""
        self.room.tell_memory(0)
        return [self.room.stored.by_id]

    def limit_appends(self, most_bytes: int) -> None:
        """What one batch of the topic may have, from now on."""
        self.room.settings = replace(self.room.settings, max_append_bytes=most_bytes)

    # ---------------------------------------------------------------------------------------------- private

    def _tick(self, now_ms: int) -> None:
        if self._again_at_ms is not None and self._again_at_ms <= now_ms:
            self._again_at_ms = None
            self._go_on_with_decided(now_ms)
        late = self.room.waiting.take_due(now_ms)
        self.room.refuse_waiting(late, ErrorCode.CONCURRENT_TRANSACTIONS, now_ms)
        self.time_outs.tick(now_ms)
        self.expiry.tick(now_ms)

    def _go_on_with_decided(self, now_ms: int) -> None:
        """Those a coordinator before this one left, and those whose end could not be written; some of each in a turn."""
        room = self.room
        partitions = 0
        for _ in range(min(MOST_TAKEN_OVER, len(self._to_take_over))):
            if partitions >= MOST_PARTITIONS_AT_ONCE:
                break
            name = self._to_take_over.pop()
            partitions += len(room.stored.by_id[name].partitions)
            room.begin_marking(name, now_ms)
        if not self._to_complete:
            self._to_complete, room.incomplete = list(reversed(room.incomplete)), {}
        for _ in range(min(MOST_TAKEN_OVER, len(self._to_complete))):
            room.complete(self._to_complete.pop(), now_ms)
        if self._to_take_over or self._to_complete:
            self._again_at_ms = now_ms
