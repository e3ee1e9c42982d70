"""Producer ids for idempotent producers, from blocks of 1,000 that the controller gives out (KIP-730).

The next block is asked for when nine tenths of this one are used; who comes while there is none waits.
"""

from collections.abc import Callable

from odradek.broker.effects import Effect, SendToController
from odradek.broker.organs import Organ
from odradek.broker.pending_calls import PendingCalls
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import BrokerEpoch, BrokerId
from odradek.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)

ALLOCATE_PRODUCER_IDS = 67
RETRY_MS = 50
PREFETCH_BELOW = 100


class ProducerIds(Organ):
    def __init__(self, broker: BrokerId, effects: list[Effect], calls: PendingCalls) -> None:
        self.broker = broker
        self.broker_epoch: BrokerEpoch | None = None  # None: not registered, nobody to ask as
        self._effects = effects
        self._calls = calls
        self._next = 0
        self._end = 0
        self._block: tuple[int, int] | None = None  # the one after this
        self._is_asking = False
        self.due_ms = None
        self._waiting: list[Callable[[int, int], None]] = []  # (producer id, now_ms)

    def registered(self, broker_epoch: BrokerEpoch) -> None:
        self.broker_epoch = broker_epoch
        if self._waiting and self.due_ms is None:
            self._ask()

    def take(self) -> int | None:
        """An id nobody was given before; None while there is none."""
        if self._next == self._end:
            if self._block is None:
                return None
            (self._next, self._end), self._block = self._block, None
        producer_id = self._next
        self._next += 1
        return producer_id

    def ask_if_low(self) -> None:
        if self._end - self._next < PREFETCH_BELOW and self._block is None and self.due_ms is None:
            self._ask()

    def wait(self, given: Callable[[int, int], None]) -> None:
        """`given(producer id, now_ms)` as soon as there is one; it is asked for (`ask_if_low`)."""
        self._waiting.append(given)

    def forget(self, given: Callable[[int, int], None]) -> None:
        self._waiting.remove(given)

    def _ask(self) -> None:
        if self._is_asking or self.broker_epoch is None:
            return
        self.due_ms = None
        self._is_asking = True
        message = AllocateProducerIdsRequest(broker_id=self.broker, broker_epoch=self.broker_epoch)
        request_id = self._calls.expect(self._answered)
        self._effects.append(SendToController(request_id, ALLOCATE_PRODUCER_IDS, message, 0))

    def _answered(self, response: AllocateProducerIdsResponse | None, now_ms: int) -> None:
        """None: not delivered, or no answer came."""
        self._is_asking = False
        if response is None or response.error_code != ErrorCode.NONE or response.producer_id_len <= 0:
            self.due_ms = now_ms + RETRY_MS
            return
        self._block = response.producer_id_start, response.producer_id_start + response.producer_id_len
        waiting, self._waiting = self._waiting, []
        while waiting:
            producer_id = self.take()
            if producer_id is None:
                self._waiting = waiting
                break
            waiting.pop(0)(producer_id, now_ms)
        self.ask_if_low()

    def tick(self, now_ms: int) -> None:
        is_due = self.due_ms is not None and self.due_ms <= now_ms
        if is_due or (self._waiting and self.due_ms is None):
            self._ask()
