"""The two lines of work for a thread."""

from typing import Any

import pytest

from odradek.broker.aside import Aside, Made
from odradek.broker.effects import Effect, RunAside
from odradek.broker.pending_calls import PendingCalls


def test_a_mistake_in_one_answer_keeps_no_other_waiting() -> None:
    effects: list[Effect] = []
    calls = PendingCalls()
    aside = Aside(effects, calls)
    told: list[Any] = []

    def fails(result: Any, now_ms: int) -> None:
        raise ValueError("a mistake of ours")

    aside.ask(aside.lookups, lambda: Made(lambda: b"first"), fails, 0)
    aside.ask(aside.lookups, lambda: Made(lambda: b"second"), lambda result, _: told.append(result), 0)
    (first,) = effects
    assert isinstance(first, RunAside)
    effects.clear()
    with pytest.raises(ValueError, match="a mistake of ours"):
        calls.answered(first.request_id, first.work.run(), 1)

    (second,) = effects
    assert isinstance(second, RunAside)
    calls.answered(second.request_id, second.work.run(), 2)
    assert told == [b"second"]


@pytest.mark.parametrize("fails_in", ["begin", "done"])
def test_a_mistake_before_anything_is_begun_keeps_nobody_waiting(fails_in: str) -> None:
    """Neither who asked nor who stands behind him."""
    effects: list[Effect] = []
    calls = PendingCalls()
    aside = Aside(effects, calls)
    told: list[Any] = []

    def begins() -> None:
        if fails_in == "begin":
            raise ValueError("a mistake of ours")

    def ends(result: Any, now_ms: int) -> None:
        told.append(result)
        if fails_in == "done":
            raise ValueError("a mistake of ours")

    aside.ask(aside.lookups, lambda: Made(lambda: b"first"), lambda result, _: told.append(result), 0)
    aside.ask(aside.lookups, begins, ends, 0)
    aside.ask(aside.lookups, lambda: Made(lambda: b"third"), lambda result, _: told.append(result), 0)
    (first,) = effects
    assert isinstance(first, RunAside)
    effects.clear()
    with pytest.raises(ValueError, match="a mistake of ours"):
        calls.answered(first.request_id, first.work.run(), 1)

    (third,) = effects
    assert isinstance(third, RunAside)
    calls.answered(third.request_id, third.work.run(), 2)
    assert told == [b"first", None, b"third"]


@pytest.mark.parametrize("first", ["lookups", "produces"])
def test_the_lines_take_turns_and_within_one_the_order_is_kept(first: str) -> None:
    """However many wait in one of them, and whichever was there before the other."""
    effects: list[Effect] = []
    calls = PendingCalls()
    aside = Aside(effects, calls)
    done: list[str] = []
    second = "produces" if first == "lookups" else "lookups"
    for line, count in ((first, 4), (second, 2)):
        for number in range(count):
            name = f"{line} {number}"
            aside.ask(
                getattr(aside, line),
                lambda name=name: Made(name.encode),  # type: ignore[misc]
                lambda result, _: done.append(result.decode()),
                0,
            )
    while effects:
        (one,) = effects  # never two at a time
        assert isinstance(one, RunAside)
        effects.clear()
        calls.answered(one.request_id, one.work.run(), 1)

    assert done == [
        f"{first} 0",
        f"{second} 0",
        f"{first} 1",
        f"{second} 1",
        f"{first} 2",
        f"{first} 3",
    ]


def test_a_want_of_memory_as_work_is_handed_on_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its line was taken for busy, and whoever came later waited for ever."""
    effects: list[Effect] = []
    calls = PendingCalls()
    aside = Aside(effects, calls)
    done: list[bytes | None] = []

    def no_memory(*_: object) -> int:
        raise MemoryError

    def ask(made: bytes) -> None:
        aside.ask(aside.lookups, lambda: Made(lambda: made), lambda result, _: done.append(result), 0)

    with monkeypatch.context() as patch:
        patch.setattr(PendingCalls, "expect", no_memory)
        with pytest.raises(MemoryError):
            ask(b"first")
    ask(b"second")
    (one,) = effects
    assert isinstance(one, RunAside)
    calls.answered(one.request_id, one.work.run(), 1)
    assert done == [None, b"second"]


@pytest.mark.parametrize("asks_in", ["its end", "its begin"])
def test_a_mistake_in_one_piece_is_not_told_to_another_that_asks_for_more(asks_in: str) -> None:
    """Describing producers, say, asks for log after log: it was told that its next one had failed, and yet heard of that later."""
    effects: list[Effect] = []
    calls = PendingCalls()
    aside = Aside(effects, calls)
    told: list[str] = []

    def broken() -> Made:
        raise ZeroDivisionError("ours")

    def more() -> None:
        aside.ask(aside.lookups, lambda: None, lambda *_: told.append("more"), 0)
        told.append("asked")

    def begins() -> Made | None:
        if asks_in == "its begin":
            more()
        return None

    aside.ask(aside.lookups, lambda: Made(bytes), lambda *_: more() if asks_in == "its end" else None, 0)
    aside.ask(aside.lookups, begins, lambda *_: told.append("second"), 0)
    aside.ask(aside.lookups, broken, lambda *_: told.append("broken"), 0)
    (running,) = effects
    assert isinstance(running, RunAside)

    with pytest.raises(ZeroDivisionError, match="ours"):  # whoever told of the end
        calls.answered(running.request_id, b"", 1)

    assert sorted(told) == ["asked", "broken", "more", "second"]
    assert told.index("asked") < told.index("broken") < told.index("more")
