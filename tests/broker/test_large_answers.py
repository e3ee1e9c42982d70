"""Answers with very many rows: one at a time, and whoever asks for the same gets the same."""

from collections.abc import Callable, Iterator

from odradek.broker.answers import CloseConnection, Park, Reply
from odradek.broker.aside import Aside
from odradek.broker.effects import Effect, RunAside
from odradek.broker.large_answers import LargeAnswers
from odradek.broker.pending_calls import PendingCalls
from odradek.broker.slices import Slices


class Rows:
    """An answer of so many steps. `fails`: in which of its parts there is a mistake of ours."""

    def __init__(self, name: bytes, done: list[str], steps: int = 2, fails: str = "") -> None:
        self.name = name
        self._done = done
        self._steps = steps
        self._fails = fails

    def steps(self) -> Iterator[None]:
        for _ in range(self._steps):
            self._do("step")
            yield

    def gathered(self, now_ms: int) -> Callable[[], bytes]:
        self._do("gathered")
        return lambda: self.name

    def made(self, answer: bytes) -> None:
        self._do("made")

    def _do(self, part: str) -> None:
        if part == self._fails:
            raise ZeroDivisionError("ours")
        self._done.append(f"{self.name.decode()} {part}")


class Line:
    """A broker's large answers, its slices and its thread."""

    def __init__(self) -> None:
        self.effects: list[Effect] = []
        self.slices = Slices(self.effects)
        self.calls = PendingCalls()
        self.answers = LargeAnswers(self.slices, Aside(self.effects, self.calls))

    def work(self, *, is_made: bool = True) -> None:
        """Until there is nothing left to do. `is_made`: the thread can make what it is given."""
        is_moving = True
        while is_moving:
            is_moving = self.slices.go_on(0)
            for effect in [one for one in self.effects if isinstance(one, RunAside)]:
                self.effects.remove(effect)
                self.calls.answered(effect.request_id, effect.work.run() if is_made else None, 0)
                is_moving = True

    def texts(self) -> list[str]:
        return [str(effect) for effect in self.effects if "mistake" in str(effect)]


def said(park: Park) -> list[bytes] | str:
    result = park.result
    if isinstance(result, CloseConnection):
        return result.reason
    assert isinstance(result, Reply)
    return [bytes(part) for part in result.buffers]


def test_they_are_made_one_behind_the_other_and_who_asks_for_the_same_gets_the_same() -> None:
    line, done = Line(), list[str]()
    first = line.answers.ask("a", Rows(b"a", done))
    second = line.answers.ask("b", Rows(b"b", done, steps=1))
    again = line.answers.ask("a", Rows(b"never asked", done))
    line.work()
    assert [said(park) for park in (first, second, again)] == [[b"a"], [b"b"], [b"a"]]
    assert done == ["a step", "a step", "a gathered", "a made", "b step", "b gathered", "b made"]
    later = line.answers.ask("a", Rows(b"anew", done))
    line.work()
    assert said(later) == [b"anew"] and line.texts() == []


def test_a_mistake_in_one_is_told_to_those_who_wait_for_it_and_the_next_is_made_once() -> None:
    for part in ("step", "gathered", "made"):
        line, done = Line(), list[str]()
        broken = line.answers.ask("a", Rows(b"a", done, fails=part))
        second = line.answers.ask("b", Rows(b"b", done))
        line.work()
        reason = said(broken)
        assert isinstance(reason, str) and "ours" in reason
        assert said(second) == [b"b"]
        assert [one for one in done if one.startswith("b")] == ["b step", "b step", "b gathered", "b made"]
        assert line.texts() == []


def test_one_that_somebody_still_waits_for_is_made() -> None:
    line, done = Line(), list[str]()
    first, second = (line.answers.ask("a", Rows(b"a", done)) for _ in range(2))
    first.abandon()
    line.work()
    assert said(second) == [b"a"] and first.result is not None


def test_one_that_nobody_waits_for_is_not_made_and_the_next_is_made_once() -> None:
    line, done = Line(), list[str]()
    first = line.answers.ask("a", Rows(b"a", done))
    line.answers.ask("b", Rows(b"b", done))
    first.abandon()
    line.work()
    assert done == ["b step", "b step", "b gathered", "b made"] and line.texts() == []


def test_one_that_the_thread_could_not_make_is_told_and_not_kept() -> None:
    line, done = Line(), list[str]()
    park = line.answers.ask("a", Rows(b"a", done))
    line.work(is_made=False)
    assert said(park) == "its answer could not be made"
    assert "a made" not in done and line.texts() == []
