"""What would keep the loop for longer than a turn may: done piece by piece, in turns of their own.

The shell calls `Broker.go_on` after the effect `GoOn`, for a millisecond a turn; in between everybody else is served. Who
waits for an answer is parked meanwhile.
"""

from collections import deque
from collections.abc import Callable, Iterator
from traceback import format_exc

from odradek.broker.answers import Answer, CloseConnection, Park
from odradek.broker.effects import Effect, GoOn, LogLine

# Does the next piece, well below a millisecond of it; whether there is another one.
Piece = Callable[[int], bool]
END = object()


class Slices:
    def __init__(self, effects: list[Effect]) -> None:
        self._effects = effects
        self._work: deque[Piece] = deque()

    def begin(self, piece: Piece) -> None:
        """`piece(now_ms)` is called until it says False, beginning with another turn."""
        self._effects.append(GoOn())
        self._work.append(piece)  # last: what is not begun is never done

    def go_on(self, now_ms: int) -> bool:
        """One piece, of each work in turn; whether there is more."""
        if not self._work:
            return False
        piece = self._work.popleft()
        try:
            if piece(now_ms):
                self._work.append(piece)
        except Exception:  # ours: it is given up, and what else there is goes on
            self._effects.append(LogLine("error", f"a mistake of ours in a slice:\n{trace()}"))
        return bool(self._work)


def trace() -> str:
    """Of the mistake that is handled. Of a want of memory there may be none for this either, and what follows has to be done."""
    try:
        return format_exc(limit=-3)
    except MemoryError:
        return "there is no memory for its trace"


def answer_in_slices(slices: Slices, steps: Iterator[None], reply: Callable[[], Answer]) -> Answer:
    """Takes the steps, the first now and each of the others in a slice of its own; `reply` makes the answer when there are no more."""

    def is_over() -> bool:
        return next(steps, END) is END

    if is_over():
        return reply()
    park = Park()

    def piece(now_ms: int) -> bool:
        if not is_over():
            return True
        park.answer(reply)
        return False

    slices.begin(heard(park, piece))
    return park


def heard(park: Park, piece: Piece) -> Piece:
    """`piece`, with a mistake in which nobody waits on: whoever waits at `park` hears that there is no answer."""

    def one(now_ms: int) -> bool:
        try:
            return piece(now_ms)
        except Exception as mistake:  # ours
            if park.result is not None:
                raise
            failure = CloseConnection.because(mistake)
            park.answer(lambda: failure)
            return False

    return one
