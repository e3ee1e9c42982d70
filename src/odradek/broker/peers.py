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

    def ask(self, broker: BrokerId, message: Any, version: int, answered: Answered) -> bool:
        """False: nobody knows where that broker is, and `answered` is not called."""
        endpoint = self._metadata.endpoint(broker, self._listener)
        if endpoint is None:
            return False
        request_id = self._calls.expect(answered)
        self._effects.append(SendToBroker(request_id, broker, endpoint, message.KEY, version, message))
        return True
