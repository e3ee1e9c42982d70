"""What a process is set to before a broker runs in it."""

import asyncio
import errno
import gc
import os
import signal
import sys
import threading
from collections.abc import Callable

import pytest

from odradek.model.settings import BrokerSettings
from odradek.server import main
from odradek.server.exit_codes import STOPPED_IN_ORDER


def test_a_busy_thread_gives_way_to_the_loop_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    async def seen(*_: object) -> int:
        return round(sys.getswitchinterval() * 1e6)

    monkeypatch.setattr(main, "_serve", seen)
    monkeypatch.setattr(threading.Thread, "start", threading.Thread.start)  # put back afterwards
    before = sys.getswitchinterval()
    try:
        assert main.run_broker(BrokerSettings({"broker.id": "1"})) == 50
    finally:
        sys.setswitchinterval(before)


def test_a_broker_that_has_looked_up_names_stops_in_order_also_where_no_thread_is_left(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One is begun to wait for those that look up names."""

    def refuse_thread(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def serve(*_: object) -> int:
        await asyncio.get_running_loop().getaddrinfo("localhost", 9092)
        monkeypatch.setattr(threading.Thread, "start", refuse_thread)
        return STOPPED_IN_ORDER

    monkeypatch.setattr(main, "_serve", serve)
    monkeypatch.setattr(threading.Thread, "start", threading.Thread.start)  # put back afterwards
    monkeypatch.setattr(main.sys, "setswitchinterval", lambda seconds: None)
    assert main.run_broker(BrokerSettings({"broker.id": "1"})) == STOPPED_IN_ORDER
    assert 'behind the end: RuntimeError("can\'t start new thread")' in caplog.messages


class Runtime:
    """As much of a broker as a process runs."""

    def __init__(self, *_: object, **__: object) -> None:
        self.broken: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()

    async def start(self) -> None:
        """At once."""

    async def stop(self, *, is_controlled: bool) -> None:
        """At once."""


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], None]], int]:
    """The exit code of a process of which `on_ready` is called when it serves."""
    monkeypatch.setattr("odradek.server.broker_runtime.BrokerRuntime", Runtime)
    monkeypatch.setattr(main, "open_provider", lambda settings: None)
    monkeypatch.setattr(main, "WARM_AGAIN_S", 0.001)
    monkeypatch.setattr(main.gc, "freeze", lambda: None)
    monkeypatch.setattr(main.descriptors, "keep_spare", lambda loop: None)
    thresholds = gc.get_threshold()

    def serve(on_ready: Callable[[], None]) -> int:
        async def body() -> int:
            async with asyncio.timeout(10):
                return await main._serve(BrokerSettings({"broker.id": "1"}), lambda runtime: on_ready(), None)

        try:
            return asyncio.run(body())
        finally:
            gc.set_threshold(*thresholds)

    return serve


def asked_to_stop() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.EMFILE, os.strerror(errno.EMFILE)),
        ImportError("zlib.so: cannot open shared object file: Too many open files"),  # an extension module
    ],
    ids=["file", "extension"],
)
def test_a_broker_that_cannot_read_the_rest_of_its_program_yet_serves_and_reads_it_later(
    served: Callable[[Callable[[], None]], int],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
) -> None:
    """No descriptor was left when it had just begun to serve: it ended."""
    tried: list[int] = []

    def warm_up() -> None:
        tried.append(len(tried))
        if len(tried) == 1:
            raise error
        asked_to_stop()

    monkeypatch.setattr("odradek.server.warm_up.warm_up", warm_up)
    assert served(lambda: None) == STOPPED_IN_ORDER
    assert tried == [0, 1]
    assert f"the rest of this program cannot be read yet: {error!r}" in caplog.messages


def test_what_reads_the_rest_of_the_program_is_itself_read_before_the_broker_serves(
    served: Callable[[Callable[[], None]], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no descriptor was left behind that it failed, said nothing, and was not tried again."""
    monkeypatch.delitem(sys.modules, "odradek.server.warm_up", raising=False)
    seen: list[bool] = []

    def on_ready() -> None:
        seen.append("odradek.server.warm_up" in sys.modules)
        asked_to_stop()

    assert served(on_ready) == STOPPED_IN_ORDER
    assert seen == [True]


def test_a_broker_for_which_there_is_no_thread_yet_can_be_stopped(
    served: Callable[[Callable[[], None]], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse_thread(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse_thread)
    assert served(lambda: asyncio.get_running_loop().call_soon(asked_to_stop) and None) == STOPPED_IN_ORDER
