"""Time passes at a coordinator: each deadline on the way comes when it is due."""

from collections.abc import Callable
from typing import Any

from odradek.coordinator.events import Tick

MOST_TURNS = 2_000


def time_passes(bench: Any, ms: int, behind_each: Callable[[], object] = lambda: None) -> None:
    """`bench` has `now_ms`, `coordinator` and `step`. AssertionError where something is due again and again."""
    end_ms = bench.now_ms + ms
    for _ in range(MOST_TURNS):
        due_ms = bench.coordinator.next_deadline_ms()
        if due_ms is None or due_ms > end_ms:
            bench.now_ms = end_ms
            return
        bench.now_ms = max(due_ms, bench.now_ms)
        bench.step(Tick())
        behind_each()
    raise AssertionError("something is due again and again")
