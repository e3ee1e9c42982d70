"""A question to the controller in this process, answered by it or by the deadline the client set.

The controller may have to wait for the store, or for survivors of an unclean election. What it decides after the
deadline still happens; only nobody is told any more.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from odradek.model.controller_requests import ControllerAsk
from odradek.replication.purgatory import Purgatory, Waiter

if TYPE_CHECKING:
    from odradek.broker.core import Broker

# By then the controller has answered, or its session with the store is over and it is none.
LONGEST_WAIT_MS = 60_000


class ControllerWait(Waiter):
    __slots__ = ("_answer", "_answered", "_purgatory", "_timed_out")

    def __init__(
        self, purgatory: Purgatory, answered: Callable[[Any, int], None], timed_out: Callable[[], None]
    ) -> None:
        super().__init__()
        self._purgatory = purgatory
        self._answered = answered
        self._timed_out = timed_out
        self._answer: Any = None

    def answered(self, answer: Any, now_ms: int) -> None:
        if not self.is_done:
            self._answer = answer
            self._purgatory.complete(self, now_ms)

    def finish(self, now_ms: int, *, is_late: bool) -> None:
        if is_late:
            self._timed_out()
        else:
            self._answered(self._answer, now_ms)


def ask_controller(
    broker: "Broker",
    ask: ControllerAsk,
    *,
    answered: Callable[[Any, int], None],
    timed_out: Callable[[], None],
    timeout_ms: int,
    now_ms: int,
) -> None:
    """Exactly one of `answered` and `timed_out` is called. Without a positive time-out only `answered`."""
    timeout_ms = min(timeout_ms, LONGEST_WAIT_MS)
    if timeout_ms <= 0:
        broker.ask_controller(ask, answered)
        return
    wait = ControllerWait(broker.purgatory, answered, timed_out)
    broker.purgatory.park(wait, deadline_ms=now_ms + timeout_ms)
    broker.ask_controller(ask, wait.answered)
