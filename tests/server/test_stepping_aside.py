"""A thread that steps aside for the loop: how long, and that it gets on."""

from collections.abc import Callable

import pytest

from odradek.server.stepping_aside import LINGERS_NS, MOST_PATIENCE_NS, NAP_S, SteppingAside, Turns

NAP_NS = int(NAP_S * 1e9)


class Thread:
    """Time passes where it works, where it naps and where it waits for the interpreter; `in_nap` is what the loop does
    meanwhile."""

    def __init__(self) -> None:
        self.now_ns = 10**12
        self.worked_ns = 10**9
        self.waits_ns = 0  # whenever it comes back
        self.naps = 0
        self.gave_way = 0
        self.turns = Turns()
        self.in_nap: Callable[[], None] = lambda: None
        self.step_aside = SteppingAside(
            self.turns, self._give_way, lambda: self.now_ns, lambda: self.worked_ns, self._nap
        )

    def _give_way(self) -> None:
        self.gave_way += 1
        self.now_ns += self.waits_ns

    def _nap(self, seconds: float) -> None:
        self.naps += 1
        self.now_ns += int(seconds * 1e9) + self.waits_ns
        self.in_nap()

    def work(self, ns: int) -> int:
        """How often it napped behind so much work."""
        before = self.naps
        self.now_ns += ns
        self.worked_ns += ns
        self.step_aside()
        return self.naps - before

    def end_turn(self) -> None:
        self.turns.is_under_way = False
        self.turns.ended_ns = self.now_ns


def test_beside_a_loop_that_sleeps_it_only_gives_way() -> None:
    thread = Thread()

    assert [thread.work(30_000) for _ in range(10)] == [0] * 10
    assert thread.gave_way == 10


def test_it_naps_until_the_turn_has_ended_and_a_little_longer() -> None:
    thread = Thread()
    thread.turns.is_under_way = True
    thread.in_nap = lambda: thread.end_turn() if thread.naps == 2 else None

    assert thread.work(10**6) == 2 + LINGERS_NS // NAP_NS
    assert thread.work(30_000) == 0


@pytest.mark.parametrize("worked_ns", [30_000, 100_000, 400_000])
def test_beside_turns_without_end_it_works_for_a_fifth_of_the_time(worked_ns: int) -> None:
    thread = Thread()
    thread.turns.is_under_way = True

    began_ns = thread.now_ns
    naps = sum(thread.work(worked_ns) for _ in range(1_000))

    assert 0.19 < 1_000 * worked_ns / (thread.now_ns - began_ns) < 0.3
    assert naps > 1_000


def test_what_it_did_long_ago_gives_it_no_more_patience() -> None:
    thread = Thread()
    thread.turns.is_under_way = True

    assert thread.work(10**10) == MOST_PATIENCE_NS // NAP_NS


def test_its_waits_for_the_interpreter_count_as_sleep() -> None:
    """Beside a loop that is always busy each is as long as many pieces of its work."""
    thread = Thread()
    thread.turns.is_under_way = True
    thread.waits_ns = 400_000
    began_ns = thread.now_ns

    for _ in range(1_000):
        thread.work(30_000)

    assert 0.15 < 1_000 * 30_000 / (thread.now_ns - began_ns) < 0.25


def test_another_thread_may_go_on_with_it() -> None:
    """Whose processor time is another count."""
    thread = Thread()
    thread.turns.is_under_way = True
    thread.work(10**6)
    thread.worked_ns = 0

    assert [thread.work(100_000) > 0 for _ in range(3)][-1]
    assert thread.gave_way >= 2
