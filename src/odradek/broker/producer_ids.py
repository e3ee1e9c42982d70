"""Producer ids for idempotent producers, from blocks of 1,000 that the controller gives out (KIP-730).

The next block is asked for when nine tenths of this one are used; who comes while there is none waits.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from odradek.broker.effects import SendToController
from odradek.model.error_codes import ErrorCode
from odradek.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)

if TYPE_CHECKING:
    from odradek.broker.core import Broker

ALLOCATE_PRODUCER_IDS = 67
RETRY_MS = 50
PREFETCH_BELOW = 100


class ProducerIds:
    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._next = 0
        self._end = 0
        self._block: tuple[int, int] | None = None  # the one after this
        self._request_id = -1
        self.retry_at_ms: int | None = None
        self._waiting: list[Callable[[int, int], None]] = []  # (producer id, now_ms)

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
        if self._end - self._next < PREFETCH_BELOW and self._block is None and self.retry_at_ms is None:
            self._ask()

    def wait(self, given: Callable[[int, int], None]) -> None:
        """`given(producer id, now_ms)` as soon as there is one."""
        self._waiting.append(given)
        self.ask_if_low()

    def forget(self, given: Callable[[int, int], None]) -> None:
        self._waiting.remove(given)

    def _ask(self) -> None:
        broker = self._broker
        if self._request_id >= 0 or broker.broker_epoch is None:
            return
        self.retry_at_ms = None
        self._request_id = broker.questions.next_id()
        message = AllocateProducerIdsRequest(broker_id=broker.broker_id, broker_epoch=broker.broker_epoch)
        broker.effects.append(SendToController(self._request_id, ALLOCATE_PRODUCER_IDS, message, 0))

    def answered(self, request_id: int, response: AllocateProducerIdsResponse | None, now_ms: int) -> None:
        if request_id != self._request_id:
            return
        self._request_id = -1
        if response is None or response.error_code != ErrorCode.NONE or response.producer_id_len <= 0:
            self.retry_at_ms = now_ms + RETRY_MS
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
        is_due = self.retry_at_ms is not None and self.retry_at_ms <= now_ms
        if is_due or (self._waiting and self._request_id < 0 and self.retry_at_ms is None):
            self.retry_at_ms = None
            self._ask()
