"""Requests of this broker to another one: asked once, answered once, None where nothing came back."""

from collections.abc import Callable
from typing import Any

from odradek.broker.effects import Effect, SendToBroker
from odradek.broker.metadata_cache import MetadataCache
from odradek.broker.pending_calls import PendingCalls
from odradek.model.ids import BrokerId

# The decoded response, or None; and the time.
Answered = Callable[[Any, int], None]


class Peers:
    def __init__(
        self, metadata: MetadataCache, listener: str, effects: list[Effect], calls: PendingCalls
    ) -> None:
        self._metadata = metadata
        self._listener = listener
        self._effects = effects
        self._calls = calls
        # Broker -> questions that it has not answered, by their number.
        self._open: dict[BrokerId, dict[int, Answered]] = {}
        self._asked = 0

    def ask(self, broker: BrokerId, message: Any, version: int, answered: Answered) -> bool:
        """False: nobody knows where that broker is, and `answered` is not called."""
        endpoint = self._metadata.endpoint(broker, self._listener)
        if endpoint is None:
            return False
        self._asked += 1
        number = self._asked
        self._open.setdefault(broker, {})[number] = answered

        def ended(result: Any, now_ms: int) -> None:
            waiting = self._open.get(broker, {})
            if number not in waiting:
                return  # given up with the broker
            told = waiting.pop(number)
            if not waiting:
                del self._open[broker]
            told(result, now_ms)

        request_id = self._calls.expect(ended)
        self._effects.append(SendToBroker(request_id, broker, endpoint, message.KEY, version, message))
        return True

    def brokers_changed(self, now_ms: int) -> None:
        """From one that is not live any more nothing comes back. One that lost its power is silent: its connection would be given up
        after `request.timeout.ms` only, and others lead what it led long before."""
        for broker in [one for one in self._open if one not in self._metadata.brokers]:
            waiting = self._open[broker]
            while waiting:
                waiting.pop(next(iter(waiting)))(None, now_ms)
            del self._open[broker]
