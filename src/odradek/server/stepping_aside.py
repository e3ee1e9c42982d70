"""A thread that is busy for long steps aside while the loop is in a turn.

Both want the interpreter. The loop gives it up at every system call and gets it back when the other thread has had it for a switch
interval: some four times in a request. A thread that sees that a turn is under way, and sleeps until it has ended, costs a
request one such wait. So that it gets on where turns follow each other without end, it sleeps for at most four times as long as it has worked.
There each return to the interpreter is a wait, too, as long as many pieces of work: it counts as sleep, and is made up for before the next look.
"""

import time
from collections.abc import Callable

# What was answered leaves after the turn, and whoever waits for one answer at a time asks again at once.
LINGERS_NS = 100_000
NAP_S = 0.00005
PATIENCE = 4
# It may have worked for long before; or what it waited for was a processor, not the loop.
MOST_PATIENCE_NS = 2_000_000


class Turns:
    """Written by the loop alone, read by threads: two attributes, for they are written in every request."""

    __slots__ = ("ended_ns", "is_under_way")

    def __init__(self) -> None:
        self.is_under_way = False
        self.ended_ns = 0


class SteppingAside:
    """Of one thread at a time: called between two pieces of its work."""

    def __init__(
        self,
        turns: Turns,
        give_way: Callable[[], None],
        clock_ns: Callable[[], int] = time.perf_counter_ns,
        worked_ns: Callable[[], int] = time.thread_time_ns,
        nap: Callable[[float], None] = time.sleep,
    ) -> None:
        self._turns = turns
        self._give_way = give_way
        self._clock_ns = clock_ns
        self._worked_ns = worked_ns  # processor time of the thread that asks
        self._nap = nap
        self._worked_before_ns = 0
        self._owed_ns = 0  # of work, for the sleep before it

    def __call__(self) -> None:
        worked_ns = self._worked_ns() - self._worked_before_ns
        if 0 <= worked_ns < self._owed_ns:
            return
        turns = self._turns
        began_ns = now_ns = self._clock_ns()
        until_ns = now_ns + min(PATIENCE * worked_ns, MOST_PATIENCE_NS)
        while now_ns < until_ns and (turns.is_under_way or now_ns - turns.ended_ns < LINGERS_NS):
            self._nap(NAP_S)
            now_ns = self._clock_ns()
        self._give_way()
        self._owed_ns = min(self._clock_ns() - began_ns, MOST_PATIENCE_NS) // PATIENCE
        self._worked_before_ns = self._worked_ns()
