"""Time and lines of log, both rationed; and the process of compactions."""

import asyncio
import logging
import threading
from functools import partial

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


class Scarce:
    """A machine that gives as many threads as `left`, as where pids.max of a container or RLIMIT_NPROC is reached."""

    def __init__(self, left: int, error: type[Exception] = RuntimeError) -> None:
        self.left = left
        self._error = error
        self._start = threading.Thread.start

    def start(self, thread: threading.Thread) -> None:
        if not self.left:
            raise self._error("can't start new thread")
        self.left -= 1
        self._start(thread)


@pytest.mark.parametrize(
    ("run", "error"),
    [
        ("run_blocking", RuntimeError),
        ("run_aside", RuntimeError),
        ("run_step", RuntimeError),
        ("run_blocking", MemoryError),
    ],
)
def test_work_waits_until_there_is_a_thread_for_it(
    run: str, error: type[Exception], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Refused, it would stay in the queue all the same and be done later, behind the back of whoever was told that it failed."""
    scarce = Scarce(0, error)
    monkeypatch.setattr(threading.Thread, "start", lambda thread: scarce.start(thread))
    monkeypatch.setattr("odradek.server.threads.THREAD_AGAIN_S", 0.001)

    async def scene() -> list[int]:
        here = Environment(asyncio.get_running_loop())
        done: list[int] = []
        waiting = [getattr(here, run)(partial(done.append, number)) for number in range(3)]
        await asyncio.wait(waiting, timeout=0.02)
        assert done == [], "there is no thread"
        assert not any(one.done() for one in waiting)
        scarce.left = 1
        await asyncio.gather(*waiting)
        here.close()
        return done

    assert asyncio.run(scene()) == [0, 1, 2]
    assert [record.getMessage() for record in caplog.records] == [
        "no thread can be started, so what disks and large requests need waits until one can: raise the limit of processes "
        "(pids.max, ulimit -u, TasksMax=), or give the machine more memory"
    ]


def test_work_for_which_there_was_no_thread_is_not_begun_behind_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Logs are closed by then, and it may write files of theirs."""
    scarce = Scarce(1)
    monkeypatch.setattr(threading.Thread, "start", lambda thread: scarce.start(thread))
    monkeypatch.setattr("odradek.server.threads.THREAD_AGAIN_S", 0.001)

    async def scene() -> list[str]:
        here = Environment(asyncio.get_running_loop())
        await here.run_blocking(int)
        done: list[str] = []
        asked = here.run_aside(lambda: done.append("work"))
        await here.aside_ended()
        done.append("logs are closed")
        scarce.left = 1
        await asyncio.wait({asked}, timeout=0.02)
        here.close()
        return done

    assert asyncio.run(scene()) == ["logs are closed"]
    assert scarce.left == 1, "a thread without work"


def test_a_second_thread_that_cannot_be_started_leaves_the_work_to_the_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scarce = Scarce(1)
    monkeypatch.setattr(threading.Thread, "start", lambda thread: scarce.start(thread))

    async def scene() -> list[str]:
        here = Environment(asyncio.get_running_loop())
        may_end = threading.Event()
        done: list[str] = []

        def slow() -> None:
            may_end.wait(60)
            done.append("first")

        first = here.run_blocking(slow)
        second = here.run_blocking(done.append, "second")
        may_end.set()
        await asyncio.gather(first, second)
        here.close()
        return done

    assert asyncio.run(scene()) == ["first", "second"]


def test_behind_work_that_hangs_a_second_thread_is_started_once_there_is_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A disk that hangs may hold the only thread for ever: of the other disk everything waited until more work came."""
    scarce = Scarce(1)
    monkeypatch.setattr(threading.Thread, "start", lambda thread: scarce.start(thread))
    monkeypatch.setattr("odradek.server.threads.THREAD_AGAIN_S", 0.001)

    async def scene() -> None:
        here = Environment(asyncio.get_running_loop())
        goes_on = threading.Event()
        try:
            hanging = here.run_blocking(goes_on.wait, 60)
            second = here.run_blocking(lambda: "done")
            scarce.left = 1
            assert await asyncio.wait_for(second, 10) == "done"
            assert not hanging.done()
        finally:
            goes_on.set()
        await hanging
        here.close()

    asyncio.run(scene())


def test_behind_a_want_of_threads_work_runs_side_by_side_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waited counted as done by a thread that has nothing to do, so no second one was ever started: a disk that hung
    held everybody up."""
    scarce = Scarce(0)
    monkeypatch.setattr(threading.Thread, "start", lambda thread: scarce.start(thread))
    monkeypatch.setattr("odradek.server.threads.THREAD_AGAIN_S", 0.001)

    async def scene() -> None:
        here = Environment(asyncio.get_running_loop())
        waiting = [here.run_blocking(int) for _ in range(3)]
        await asyncio.wait(waiting, timeout=0.02)
        scarce.left = 2
        await asyncio.gather(*waiting)
        both = threading.Barrier(2, timeout=20)
        try:
            await asyncio.gather(*(here.run_blocking(both.wait) for _ in range(2)))
        finally:
            here.close()

    asyncio.run(scene())
