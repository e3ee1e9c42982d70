"""A thread that steps aside for the loop: how long, and that it gets on."""

from collections.abc import Callable

import pytest

from odradek.server.stepping_aside import LINGERS_NS, MOST_PATIENCE_NS, NAP_S, PATIENCE, SteppingAside, Turns

NAP_NS = int(NAP_S * 1e9)


class Thread:
    """Time passes where it works and where it naps; `in_nap` is what the loop does meanwhile."""

    def __init__(self) -> None:
        self.now_ns = 10**12
        self.naps = 0
        self.gave_way = 0
        self.turns = Turns()
        self.in_nap: Callable[[], None] = lambda: None
        self.step_aside = SteppingAside(self.turns, self._give_way, lambda: self.now_ns, self._nap)

    def _give_way(self) -> None:
        self.gave_way += 1

    def _nap(self, seconds: float) -> None:
        self.naps += 1
        self.now_ns += int(seconds * 1e9)
        self.in_nap()

    def work(self, ns: int) -> int:
        """How often it napped behind so much work."""
        before = self.naps
        self.now_ns += ns
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


@pytest.mark.parametrize("worked_ns", [100_000, 400_000])
def test_beside_turns_without_end_it_works_for_a_fifth_of_the_time(worked_ns: int) -> None:
    thread = Thread()
    thread.turns.is_under_way = True

    assert [thread.work(worked_ns) for _ in range(5)] == [PATIENCE * worked_ns // NAP_NS] * 5


def test_what_it_did_long_ago_gives_it_no_more_patience() -> None:
    thread = Thread()
    thread.turns.is_under_way = True

    assert thread.work(10**10) == MOST_PATIENCE_NS // NAP_NS
