"""Time and lines of log, both rationed; and the process of compactions."""

import asyncio
import logging

import pytest

from odradek.server.environment import Clock, Environment
from odradek.server.log_limits import LimitedLog


class World:
    def __init__(self) -> None:
        self.monotonic = 1000.0
        self.wall = 1_700_000_000.0

    def pass_s(self, seconds: float) -> None:
        self.monotonic += seconds
        self.wall += seconds


def clock_of(world: World) -> Clock:
    return Clock(lambda: world.monotonic, lambda: world.wall)


def test_the_clock_begins_with_the_wall_and_runs_with_the_loop() -> None:
    world = World()
    clock = clock_of(world)
    assert clock.now_ms() == 1_700_000_000_000
    world.pass_s(1.5)
    assert clock.now_ms() == 1_700_000_001_500


@pytest.mark.parametrize("jump_s", [3600.0, -3600.0])
def test_a_wall_clock_that_jumps_is_followed_slowly_and_never_backwards(jump_s: float) -> None:
    world = World()
    clock = clock_of(world)
    world.wall += jump_s
    last = clock.now_ms()
    for _ in range(40_000):
        world.pass_s(1.0)
        clock.compare_with_wall()
        now = clock.now_ms()
        # A second that lasts 900 to 1100 ms: no deadline is missed by more than a tenth.
        assert 899 <= now - last <= 1101
        last = now
    assert abs(now - world.wall * 1000) <= 1, "in the end it is right"


def test_a_wall_clock_that_is_put_back_takes_nothing_back_that_was_told() -> None:
    """What was stamped, and what was set for later, goes by the times before and after the two were compared."""
    world = World()
    clock = clock_of(world)
    world.wall -= 3600.0
    for _ in range(3):
        world.pass_s(1.0)
        before = clock.now_ms()
        clock.compare_with_wall()
        assert clock.now_ms() == before
    world.pass_s(10.0)  # a loop that was busy
    before = clock.now_ms()
    clock.compare_with_wall()
    assert clock.now_ms() == before


def test_a_failing_peer_does_not_flood_the_log(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    limited = LimitedLog(logging.getLogger("test"), lambda: now[0], period_s=10)

    for _ in range(100):
        limited.warning("peer 1", "it failed")
    limited.warning("peer 2", "it failed too")
    now[0] = 10.0
    limited.warning("peer 1", "it failed again")

    assert [record.getMessage() for record in caplog.records] == [
        "it failed",
        "it failed too",
        "it failed again (99 more like it were left out)",
    ]


def test_many_different_peers_do_not_fill_the_memory() -> None:
    limited = LimitedLog(logging.getLogger("test"), lambda: 0.0)
    for peer in range(5000):
        limited.warning(f"peer {peer}", "nonsense")

    assert len(limited._seen) <= LimitedLog.MOST_KEYS + 1  # and one for all the others


class Compactions:
    """In place of the process that compacts."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def end(self) -> None:
        self.calls.append("end")

    def kill(self) -> None:
        self.calls.append("kill")


@pytest.mark.parametrize("is_stopped", [True, False])
def test_the_process_of_compactions_is_ended_by_who_stops_and_killed_by_who_gives_up(
    is_stopped: bool,
) -> None:
    environment, compactions = Environment(asyncio.new_event_loop()), Compactions()
    environment._cleaning = compactions  # type: ignore[assignment]
    (environment.end_cleaning if is_stopped else environment.abandon_cleaning)()
    assert compactions.calls == ["end" if is_stopped else "kill"]
    environment.loop.close()
