"""How much of the last minute a loop had nothing to do, with both clocks and the loop moved by hand."""

import asyncio
from collections.abc import Callable
from typing import cast

import pytest

from odradek.server.exporter.busy_time import INTERVAL_S, BusyTime


class Timer:
    def __init__(self, do: Callable[[], None]) -> None:
        self.do = do
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class Clocks:
    """Those that `BusyTime` asks, and the loop that it counts on."""

    def __init__(self) -> None:
        self.wall_s = 1_000.0
        self.processor_s = 5.0
        self.timer: Timer | None = None
        self.busy = BusyTime(
            cast(asyncio.AbstractEventLoop, self),
            processor=lambda: self.processor_s,
            wall=lambda: self.wall_s,
        )

    def call_later(self, delay_s: float, do: Callable[[], None]) -> Timer:
        assert delay_s == INTERVAL_S
        self.timer = Timer(do)
        return self.timer

    def pass_by(self, wall_s: float, processor_s: float) -> None:
        for _ in range(round(wall_s / INTERVAL_S)):
            self.wall_s += INTERVAL_S
            self.processor_s += processor_s * INTERVAL_S / wall_s
            assert self.timer is not None and not self.timer.is_cancelled
            self.timer.do()


def test_the_share_is_that_of_the_last_minute() -> None:
    clocks = Clocks()
    assert clocks.busy.idle_share() == 1.0
    clocks.busy.start()
    assert clocks.busy.idle_share() == 1.0  # no time has passed
    clocks.pass_by(30, 15)
    assert clocks.busy.idle_share() == pytest.approx(0.5)
    clocks.pass_by(60, 60)
    assert clocks.busy.idle_share() == pytest.approx(0.0)
    clocks.pass_by(60, 6)
    assert clocks.busy.idle_share() == pytest.approx(0.9)
    clocks.busy.stop()
    assert clocks.timer is not None and clocks.timer.is_cancelled


def test_a_processor_clock_that_is_ahead_of_the_wall_is_no_less_than_nothing_to_do() -> None:
    clocks = Clocks()
    clocks.busy.start()
    clocks.pass_by(5, 6)
    assert clocks.busy.idle_share() == 0.0
