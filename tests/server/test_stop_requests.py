"""What a broker makes of signals, and of the end of whoever started it."""

import asyncio
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from odradek.broker.effects import RunAside
from odradek.log.errors import DirectoryInUse
from odradek.log.files import OsDirectory
from odradek.log.log_manager import LoadReport, LogManager
from odradek.model.settings import BrokerSettings
from odradek.server.broker_runtime import BrokerRuntime
from odradek.server.environment import Environment
from odradek.server.main import _StopRequest
from odradek.store.memory_session import MemoryEnsemble


def parent_ends(stop: _StopRequest) -> None:
    reading, writing = os.pipe()
    os.close(writing)
    stop.parent_gone(reading)
    os.close(reading)


def test_the_end_of_the_parent_cuts_a_controlled_shutdown_short() -> None:
    async def run() -> None:
        stop = _StopRequest(asyncio.get_running_loop())
        stop.signalled(signal.SIGINT)
        assert not stop.asked_again.done()
        parent_ends(stop)
        assert stop.asked_again.done()
        assert not stop.is_controlled

    asyncio.run(run())


def test_a_terminal_that_is_closed_says_so_twice_and_asks_once() -> None:
    """A login shell passes its SIGHUP on, and when it ends the kernel sends another."""

    async def run() -> None:
        stop = _StopRequest(asyncio.get_running_loop())
        stop.signalled(signal.SIGHUP)
        stop.signalled(signal.SIGHUP)
        assert stop.asked.done()
        assert not stop.asked_again.done()
        stop.signalled(signal.SIGTERM)
        assert stop.asked_again.done()

    asyncio.run(run())


def test_a_stop_that_was_refused_comes_once_the_parent_has_ended() -> None:
    async def run() -> None:
        stop = _StopRequest(asyncio.get_running_loop())
        stop.signalled(signal.SIGINT)
        parent_ends(stop)
        stop.forget()
        assert stop.asked.done()
        assert not stop.asked_again.done()

    asyncio.run(run())


def test_a_start_that_is_cut_short_keeps_its_directories_while_a_thread_reads_the_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It cuts what is torn and makes indexes anew. Another broker that served there meanwhile would lose records by that."""
    has_begun, may_go_on = threading.Event(), threading.Event()
    load = LogManager.load

    def slow(logs: LogManager, now_ms: int) -> LoadReport:
        has_begun.set()
        assert may_go_on.wait(60)
        return load(logs, now_ms)

    monkeypatch.setattr(LogManager, "load", slow)

    async def run() -> None:
        settings = {"broker.id": "1", "listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(tmp_path)}
        environment = Environment(asyncio.get_running_loop())
        runtime = BrokerRuntime(BrokerSettings(settings), environment, MemoryEnsemble())
        starting = asyncio.ensure_future(runtime.start())
        assert await asyncio.to_thread(has_begun.wait, 60)
        directory = OsDirectory.create(str(tmp_path))

        async def cut_short() -> None:
            starting.cancel()
            await asyncio.wait({starting})
            await runtime.stop(is_controlled=False)

        stopping = asyncio.ensure_future(cut_short())
        try:
            for _ in range(100):
                await asyncio.sleep(0)
            with pytest.raises(DirectoryInUse):
                directory.lock()
        finally:
            may_go_on.set()
            await stopping
            await asyncio.to_thread(environment.close)
        assert starting.cancelled()
        directory.lock().release()

    asyncio.run(run())


def test_a_stop_keeps_its_directories_while_a_thread_works_beside_the_loop(tmp_path: Path) -> None:
    """It lowers a checkpoint, say, on a disk that is slow: what it put in place behind the stop would be believed by another broker
    that serves there by then."""
    has_begun, may_go_on = threading.Event(), threading.Event()

    class Slow:
        def run(self) -> bool:
            has_begun.set()
            return may_go_on.wait(60)

    async def run() -> None:
        settings = {"broker.id": "1", "listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(tmp_path)}
        is_awaited, is_closed = asyncio.Event(), asyncio.Event()

        class Watched(Environment):
            async def aside_ended(self) -> None:
                is_awaited.set()
                await super().aside_ended()

        environment = Watched(asyncio.get_running_loop())
        runtime = BrokerRuntime(BrokerSettings(settings), environment, MemoryEnsemble())
        await runtime.start()
        broker, directory = runtime.broker, OsDirectory.create(str(tmp_path))
        broker.effects.append(RunAside(broker.calls.expect(lambda came, now_ms: None), Slow()))
        runtime.end_turn()
        assert await asyncio.to_thread(has_begun.wait, 60)
        close = runtime.logs.close

        def closing(*given: Any, **named: Any) -> None:
            close(*given, **named)
            environment.loop.call_soon_threadsafe(is_closed.set)

        runtime.logs.close = closing  # type: ignore[method-assign]
        stopping = asyncio.ensure_future(runtime.stop(is_controlled=False))
        either = [asyncio.ensure_future(event.wait()) for event in (is_awaited, is_closed)]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        try:
            with pytest.raises(DirectoryInUse):
                directory.lock()
        finally:
            may_go_on.set()
            await stopping
            await is_closed.wait()
            for task in either:
                task.cancel()
            await asyncio.to_thread(environment.close)
        directory.lock().release()

    asyncio.run(run())


def test_what_the_disk_is_asked_for_while_the_journal_is_written_ends_before_the_logs_are_closed(
    tmp_path: Path,
) -> None:
    """High watermarks, say, that a turn wants to be written: behind the close they would lie in a directory that another broker may
    have by then."""
    order: list[str] = []

    async def run() -> None:
        settings = {"broker.id": "1", "listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(tmp_path)}
        environment = Environment(asyncio.get_running_loop())
        runtime = BrokerRuntime(BrokerSettings(settings), environment, MemoryEnsemble())
        await runtime.start()
        parts, close = runtime.parts, runtime.logs.close
        assert parts is not None
        journal_finish, disk_finish = parts.journal.finish, parts.disk.finish
        is_awaited = asyncio.Event()

        async def work() -> None:
            await is_awaited.wait()
            order.append("done")

        async def finish_journal() -> None:
            await journal_finish()
            order.append("asked")
            parts.disk._spawn(work())

        async def finish_disk() -> None:
            if order == ["asked"]:
                is_awaited.set()
            await disk_finish()

        def closing(*given: Any, **named: Any) -> None:
            order.append("closed")
            close(*given, **named)

        parts.journal.finish = finish_journal  # type: ignore[method-assign]
        parts.disk.finish = finish_disk  # type: ignore[method-assign]
        runtime.logs.close = closing  # type: ignore[method-assign]
        await runtime.stop(is_controlled=False)
        is_awaited.set()
        await disk_finish()
        await asyncio.to_thread(environment.close)

    asyncio.run(run())
    assert order == ["asked", "done", "closed"]
