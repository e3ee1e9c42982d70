"""What a process is set to before a broker runs in it."""

import asyncio
import socket
import sys
import threading

import pytest

from odradek.model.settings import BrokerSettings
from odradek.server import main


def test_a_busy_thread_gives_way_to_the_loop_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    async def seen(*_: object) -> int:
        return round(sys.getswitchinterval() * 1e6)

    monkeypatch.setattr(main, "_serve", seen)
    before = sys.getswitchinterval()
    try:
        assert main.run_broker(BrokerSettings({"broker.id": "1"})) == 50
    finally:
        sys.setswitchinterval(before)


def test_uvloop_looks_names_up_by_threads_of_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """libuv starts its own at the first name, and ends the process (abort) where the machine has none left."""
    pytest.importorskip("uvloop")

    def refuse_thread(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    factory = main._loop_factory(main.settings_from({"broker.id": "1", "log.dirs": "unused"}))
    with asyncio.Runner(loop_factory=factory) as runner:
        with monkeypatch.context() as want:
            want.setattr(threading.Thread, "start", refuse_thread)
            with pytest.raises(RuntimeError, match="can't start new thread"):
                runner.run(addresses_of_localhost())
        assert ("127.0.0.1", 9092) in runner.run(addresses_of_localhost())


async def addresses_of_localhost() -> list[tuple[str, int]]:
    found = await asyncio.get_running_loop().getaddrinfo("localhost", 9092, type=socket.SOCK_STREAM)
    return [(str(endpoint[0]), endpoint[1]) for *_, endpoint in found]
