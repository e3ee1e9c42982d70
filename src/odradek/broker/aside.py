"""Work that would hold up everybody else: done by a thread, one piece at a time.

Two lines wait for the thread, and take turns: producers' batches that must be opened, and questions that open what is
stored. Within a line the order is kept. The thread waits for no flush (`Environment.run_aside`), and all of them
share one processor.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from odradek.broker.answers import Answer, CloseConnection, Park, Reply
from odradek.broker.effects import Effect, RunAside
from odradek.broker.pending_calls import PendingCalls
from odradek.log.steps import Work

# Makes the work when its turn has come, with the log as it is then; None: there is nothing left to do.
Begin = Callable[[], Work | None]
# What came of it, and the time; the result is None where nothing was begun, or where it failed as nobody foresaw.
Done = Callable[[Any, int], None]


class Aside:
    def __init__(self, effects: list[Effect], calls: PendingCalls) -> None:
        self._effects = effects
        self._calls = calls
        self.produces: deque[tuple[Begin, Done]] = deque()
        self.lookups: deque[tuple[Begin, Done]] = deque()
        self.now_ms = 0  # when the work that is begun was asked for, or what was before it ended
        self._is_busy = False
        self._last: deque[tuple[Begin, Done]] = self.lookups

    def ask(self, line: deque[tuple[Begin, Done]], begin: Begin, done: Done, now_ms: int) -> None:
        line.append((begin, done))
        if not self._is_busy:
            self._go_on(now_ms)

    def _go_on(self, now_ms: int) -> None:
        """A mistake of ours in one of these keeps no other waiting: it is told when there is nothing left to begin. What they ask
        for themselves waits behind them, and a mistake in another piece is not told to them."""
        self.now_ms = now_ms
        mistake: Exception | None = None
        is_begun = False
        self._is_busy = True
        while not is_begun and (self.produces or self.lookups):
            line = self.lookups if self._last is self.produces else self.produces
            line = line or (self.produces if line is self.lookups else self.lookups)
            self._last = line
            begin, done = line.popleft()
            try:
                work = begin()
                if work is not None:
                    self._effects.append(RunAside(self._calls.expect(self._ended(done)), work))
                    is_begun = True  # last: a thread that is waited for has been asked for
                    continue
            except Exception as error:
                mistake = mistake or error
            try:
                done(None, now_ms)
            except Exception as error:
                mistake = mistake or error
        self._is_busy = is_begun
        if mistake is not None:
            raise mistake

    def _ended(self, done: Done) -> Done:
        def ended(result: Any, now_ms: int) -> None:
            try:
                done(result, now_ms)
            finally:
                self._go_on(now_ms)  # a mistake in one answer keeps no other waiting

        return ended


class Made(NamedTuple):
    """The body of an answer with very many rows."""

    make: Callable[[], bytes]

    def run(self) -> bytes:
        return self.make()


def answer_aside(aside: Aside, park: Park, make: Callable[[], bytes], now_ms: int) -> Park:
    """`park` is answered with what `make` returns, in a thread."""
    return answer_with(aside, park, lambda: Made(make), now_ms)


def made_where_short(aside: Aside, make: Callable[[], bytes], now_ms: int, *, is_short: bool) -> Answer:
    """What `make` returns: made at once, or by a thread."""
    return Reply([make()]) if is_short else answer_aside(aside, Park(), make, now_ms)


def answer_with(aside: Aside, park: Park, begin: Callable[[], Work], now_ms: int) -> Park:
    """`park` is answered with the bytes that come of the work, which begins when its turn has come and somebody still waits."""

    def made(data: bytes | None, later_ms: int) -> None:
        park.answer(
            lambda: CloseConnection("its answer could not be made") if data is None else Reply([data])
        )

    aside.ask(aside.lookups, lambda: None if park.abandoned else begin(), made, now_ms)
    return park
