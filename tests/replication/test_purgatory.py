"""Parked requests complete exactly once: by what they wait for, or by their deadline."""

import pytest

from odradek.replication.purgatory import DEADLINE_GRAIN_MS, Purgatory, Waiter


class Parked(Waiter):
    def __init__(self, purgatory: Purgatory, *, ready: bool = True) -> None:
        super().__init__()
        self.purgatory = purgatory
        self.can_complete = ready
        self.events: list[str] = []

    def is_over(self, now_ms: int) -> bool:
        self.events.append(f"tried at {now_ms}")
        return self.can_complete

    def finish(self, now_ms: int, *, is_late: bool) -> None:
        assert self.is_done, "who answers is booked out already"
        self.events.append(f"{'expired' if is_late else 'over'} at {now_ms}")


def test_a_waiter_is_tried_once_however_often_it_is_woken() -> None:
    purgatory = Purgatory()
    waiter = Parked(purgatory)
    purgatory.park(waiter, deadline_ms=1_000, keys=["a", "b"])
    purgatory.wake_key("a")
    purgatory.wake_key("b")
    purgatory.wake(waiter)
    purgatory.sweep(7)
    assert waiter.events == ["tried at 7", "over at 7"]
    assert waiter.is_done
    assert len(purgatory) == 0


def test_a_waiter_that_cannot_complete_is_tried_once_for_all_its_keys() -> None:
    purgatory = Purgatory()
    waiter = Parked(purgatory, ready=False)
    purgatory.park(waiter, deadline_ms=1_000, keys=["a", "b"])
    purgatory.wake_key("a")
    purgatory.wake_key("b")
    purgatory.sweep(7)
    purgatory.sweep(8)
    assert waiter.events == ["tried at 7"], "and not in the next turn, in which nothing has changed"


@pytest.mark.parametrize("way", ["answered", "rescheduled"])
def test_whoever_was_answered_long_before_its_deadline_leaves_nothing_behind(way: str) -> None:
    """A client may be ready to wait for weeks, and be answered a hundred times a second; meanwhile there is always somebody
    who waits for less."""
    purgatory = Purgatory()
    purgatory.park(Parked(purgatory), deadline_ms=500)
    for number in range(20_000):
        waiter = Parked(purgatory)
        purgatory.park(waiter, deadline_ms=2**31 + number * DEADLINE_GRAIN_MS)
        if way == "rescheduled":
            purgatory.reschedule(waiter, deadline_ms=1_000)
        purgatory.complete(waiter, 0)
    assert len(purgatory) == 1
    assert len(purgatory._buckets) == len(purgatory._bucket_heap) < 3_000
    assert purgatory.next_deadline_ms() == 500
    assert purgatory.expire(500) == 1 and purgatory.next_deadline_ms() is None


def test_those_who_wait_are_kept_in_order_when_there_are_many_who_were_answered() -> None:
    purgatory = Purgatory()
    left = []
    for number in range(5_000):
        waiter = Parked(purgatory)
        purgatory.park(waiter, deadline_ms=1_000_000 - number * DEADLINE_GRAIN_MS)
        if number % 500:
            purgatory.complete(waiter, 0)
        else:
            left.append(waiter)
    for waiter in reversed(left):
        due_ms = purgatory.next_deadline_ms()
        assert due_ms is not None and purgatory.expire(due_ms) == 1
        assert waiter.events == [f"expired at {due_ms}"]
    assert purgatory.next_deadline_ms() is None


@pytest.mark.parametrize("is_over", [True, False])
def test_an_attempt_answers_whoever_is_over_and_leaves_the_others_parked(is_over: bool) -> None:
    purgatory = Purgatory()
    waiter = Parked(purgatory, ready=is_over)
    purgatory.park(waiter, deadline_ms=1_000, keys=["a"])

    purgatory.attempt(waiter, 5)

    assert waiter.events == (["tried at 5", "over at 5"] if is_over else ["tried at 5"])
    assert len(purgatory) == (0 if is_over else 1)
    if is_over:
        purgatory.attempt(waiter, 6)
        assert waiter.events[2:] == [], "it is over once"


def test_whoever_is_answered_between_being_woken_and_the_end_of_the_turn_is_not_tried() -> None:
    purgatory = Purgatory()
    waiter = Parked(purgatory)
    purgatory.park(waiter, deadline_ms=1_000, keys=["a"])
    purgatory.wake_key("a")
    purgatory.complete(waiter, 5)
    assert len(purgatory) == 0
    purgatory.sweep(6)
    assert waiter.events == ["over at 5"]


def test_a_deadline_at_the_beginning_of_time_is_one() -> None:
    purgatory = Purgatory()
    waiters = [Parked(purgatory) for _ in range(3)]
    for waiter, deadline_ms in zip(waiters, (0, 0, -8), strict=True):
        purgatory.park(waiter, deadline_ms=deadline_ms)
    purgatory.leave(waiters[0])
    assert len(purgatory) == 2
    assert purgatory.expire(0) == 2 and waiters[0].events == []


def test_a_waiter_that_cannot_complete_yet_stays_and_is_woken_again() -> None:
    purgatory = Purgatory()
    waiter = Parked(purgatory, ready=False)
    purgatory.park(waiter, deadline_ms=1_000, keys=["a"])
    purgatory.wake_key("a")
    purgatory.sweep(1)
    waiter.can_complete = True
    purgatory.wake_key("a")
    purgatory.sweep(2)
    assert waiter.events == ["tried at 1", "tried at 2", "over at 2"]
    purgatory.wake_key("a")
    purgatory.sweep(3)
    assert len(waiter.events) == 3


def test_deadlines_fire_not_before_their_time_and_not_a_grain_after_it() -> None:
    purgatory = Purgatory()
    waiter = Parked(purgatory)
    purgatory.park(waiter, deadline_ms=1_001)
    due = purgatory.next_deadline_ms()
    assert due is not None
    assert 1_001 <= due < 1_001 + DEADLINE_GRAIN_MS
    assert purgatory.expire(1_000) == 0
    assert purgatory.expire(due) == 1
    assert waiter.events == [f"expired at {due}"]
    assert purgatory.next_deadline_ms() is None


def test_a_waiter_answered_early_leaves_nothing_behind() -> None:
    purgatory = Purgatory()
    waiters = [Parked(purgatory) for _ in range(1_000)]
    for number, waiter in enumerate(waiters):
        purgatory.park(waiter, deadline_ms=30_000 + number)
        purgatory.leave(waiter)
    assert len(purgatory) == 0
    assert purgatory.next_deadline_ms() is None
    assert purgatory.expire(100_000) == 0
    assert not any(waiter.events for waiter in waiters)


def test_a_deadline_can_only_be_brought_forward() -> None:
    purgatory = Purgatory()
    waiter = Parked(purgatory)
    purgatory.park(waiter, deadline_ms=1_000)
    purgatory.reschedule(waiter, deadline_ms=2_000)
    assert purgatory.next_deadline_ms() == 1_000
    purgatory.reschedule(waiter, deadline_ms=400)
    assert purgatory.next_deadline_ms() == 400
    assert purgatory.expire(400) == 1
    assert purgatory.expire(2_000) == 0
    assert waiter.events == ["expired at 400"]


def test_whose_deadline_was_brought_forward_is_woken_and_leaves_nothing_behind() -> None:
    purgatory = Purgatory()
    woken, late = Parked(purgatory), Parked(purgatory)
    for waiter in (woken, late):
        purgatory.park(waiter, deadline_ms=1_000, keys=["a"])
        purgatory.reschedule(waiter, deadline_ms=400)
    late.can_complete = False
    purgatory.wake_key("a")
    purgatory.sweep(7)
    assert (woken.events, late.events) == (["tried at 7", "over at 7"], ["tried at 7"])
    assert purgatory.expire(400) == 1
    assert len(purgatory) == 0 and purgatory._watched == {}


def test_whose_deadline_stays_in_its_grain_keeps_its_turn() -> None:
    purgatory = Purgatory()
    first, second = Parked(purgatory), Parked(purgatory)
    turns: list[Parked] = []
    for waiter in (first, second):
        waiter.finish = lambda now_ms, waiter=waiter, **_: turns.append(waiter)  # type: ignore[method-assign]
        purgatory.park(waiter, deadline_ms=1_000)
    purgatory.reschedule(first, deadline_ms=1_000 - DEADLINE_GRAIN_MS + 1)
    assert purgatory.expire(1_000) == 2
    assert turns == [first, second]


def test_completing_twice_is_our_own_mistake() -> None:
    purgatory = Purgatory()
    waiter = Parked(purgatory)
    purgatory.park(waiter, deadline_ms=1)
    purgatory.leave(waiter)
    with pytest.raises(AssertionError, match="twice"):
        purgatory.leave(waiter)


def test_one_completion_may_wake_another_in_the_same_sweep() -> None:
    purgatory = Purgatory()
    second = Parked(purgatory)

    class First(Parked):
        def is_over(self, now_ms: int) -> bool:
            purgatory.wake(second)
            return super().is_over(now_ms)

    first = First(purgatory)
    purgatory.park(first, deadline_ms=100)
    purgatory.park(second, deadline_ms=100)
    purgatory.wake(first)
    purgatory.sweep(5)
    assert second.events == ["tried at 5", "over at 5"]


def parked(purgatory: Purgatory, *, ready: bool = True) -> Parked:
    waiter = Parked(purgatory, ready=ready)
    purgatory.park(waiter, deadline_ms=1_000, keys=["a"])
    return waiter


def test_what_is_over_when_it_is_parked_is_answered_by_an_attempt_and_other_things_wait() -> None:
    purgatory = Purgatory()
    over, waits = parked(purgatory), parked(purgatory, ready=False)
    for waiter in (over, waits, over):
        purgatory.attempt(waiter, 7)
    assert over.events == ["tried at 7", "over at 7"] and waits.events == ["tried at 7"]
    assert len(purgatory) == 1


def test_whoever_knows_that_it_is_over_completes_it_untried_and_whose_time_is_up_is_late() -> None:
    purgatory = Purgatory()
    known, late = parked(purgatory, ready=False), parked(purgatory, ready=False)
    purgatory.complete(known, 7)
    purgatory.cut_short(late, 7)
    assert (known.events, late.events) == (["over at 7"], ["expired at 7"])
    assert len(purgatory) == 0 and purgatory.next_deadline_ms() is None


def test_a_sweep_answers_once_and_leaves_out_who_was_answered_before_it() -> None:
    purgatory = Purgatory()
    swept, completed = parked(purgatory), parked(purgatory)
    purgatory.wake_key("a")
    purgatory.complete(completed, 6)
    for now_ms in (7, 8):
        purgatory.sweep(now_ms)
    purgatory.wake(completed)
    assert purgatory.ready == []
    assert swept.events == ["tried at 7", "over at 7"] and completed.events == ["over at 6"]


def test_who_is_woken_again_and_cannot_complete_is_tried_once_in_each_sweep() -> None:
    purgatory = Purgatory()
    waiter = parked(purgatory, ready=False)
    for now_ms in (7, 8):
        purgatory.wake(waiter)
        purgatory.sweep(now_ms)
    assert waiter.events == ["tried at 7", "tried at 8"]
