"""How often a test looks whether what it waits for has come."""

from types import SimpleNamespace

import pytest

from tests import support


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, pause_s: float) -> None:
        self.now_s += pause_s


@pytest.mark.parametrize(
    ("costs_s", "looks"),
    [(0.0, 200), (0.001, 167), (0.02, 17), (0.05, 7), (5.0, 1)],
)
def test_what_is_answered_slowly_is_asked_less_often(
    costs_s: float, looks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(support, "time", SimpleNamespace(monotonic=clock.monotonic, sleep=clock.sleep))
    asked: list[float] = []
    wait = support.eventually  # by this clock

    def has_come() -> bool:
        asked.append(clock.now_s)
        clock.now_s += costs_s
        return False

    with pytest.raises(AssertionError, match=r"not within 1\.0 s: it comes; last value False"):
        wait(has_come, 1.0, "it comes")

    assert abs(len(asked) - looks) <= 1
