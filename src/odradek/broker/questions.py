"""Questions of the broker that are under way: to the store, to the controller. Each is answered once, by its id."""

from collections.abc import Callable
from typing import Any

from odradek.broker.effects import Effect

Answered = Callable[[Any, int], None]


class Questions:
    def __init__(self, effects: list[Effect]) -> None:
        self._effects = effects
        self._last_id = 0
        self._open: dict[int, Answered] = {}

    def next_id(self) -> int:
        self._last_id += 1
        return self._last_id

    def expect(self, answered: Answered) -> int:
        request_id = self.next_id()
        self._open[request_id] = answered
        return request_id

    def answered(self, request_id: int, result: Any, now_ms: int) -> None:
        """An answer to a question that is not open is our own mistake."""
        self._open.pop(request_id)(result, now_ms)

    def __len__(self) -> int:
        return len(self._open)
