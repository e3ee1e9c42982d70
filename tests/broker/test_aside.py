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
