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
