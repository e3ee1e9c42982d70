"""What the broker has asked of the shell and has no answer to: by request id, with what the answer is for.

One register for all of it: the controller, the store, a thread, a disk. Whoever asks keeps no id of its own, and an
answer reaches nobody else.
"""

from collections.abc import Callable
from typing import Any

# The result, as the effect's description says (`effects`), and the time.
Answered = Callable[[Any, int], None]


class PendingCalls:
    def __init__(self) -> None:
        self._last_id = 0
        self._open: dict[int, Answered] = {}

    def expect(self, answered: Answered) -> int:
        """The id under which to ask; `answered(result, now_ms)` is called once."""
        self._last_id += 1
        self._open[self._last_id] = answered
        return self._last_id

    def answered(self, request_id: int, result: Any, now_ms: int) -> None:
        """A second answer, or one to what nobody asked, is our own mistake."""
        self._open.pop(request_id)(result, now_ms)
