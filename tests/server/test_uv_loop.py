"""Of libuv what it does where the machine gives a process nothing for a moment is done here in its place."""

import asyncio
import errno
import os
import socket
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("uvloop")

from odradek.server import uv_loop
from odradek.server.uv_loop import ACCEPT_AGAIN_S, Listening, Loop, MakeProtocol


class Greeting(asyncio.Protocol):
    def connection_made(self, transport: Any) -> None:
        transport.write(b"hello")


def run(body: Callable[[], Any]) -> None:
    with asyncio.Runner(loop_factory=Loop) as runner:
        runner.run(body())


def port_of(listening: Listening) -> int:
    return int(listening.sockets[0].getsockname()[1])


async def greeted(port: int, host: str = "127.0.0.1") -> bytes:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        return await reader.readexactly(5)
    finally:
        writer.close()


def test_to_listen_at_an_address_takes_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of libuv are no threads of Python's: the kernel counts them."""

    async def body() -> None:
        before = len(os.listdir("/proc/self/task"))
        listening = await asyncio.get_running_loop().create_server(Greeting, "127.0.0.1", 0, backlog=64)
        assert await greeted(port_of(listening)) == b"hello"  # type: ignore[arg-type]
        assert len(os.listdir("/proc/self/task")) == before
        listening.close()

    run(body)


@pytest.mark.parametrize("host", ["localhost", None])
def test_a_name_and_all_addresses_can_be_listened_at(host: str | None) -> None:
    async def body() -> None:
        loop = asyncio.get_running_loop()
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        listening = await loop.create_server(Greeting, host, port, backlog=64)
        # `localhost` may be ::1 alone.
        address = "127.0.0.1" if host is None else listening.sockets[0].getsockname()[0]  # type: ignore[attr-defined]
        assert await greeted(port, address) == b"hello"
        with pytest.raises(OSError) as taken:
            await loop.create_server(Greeting, address, port, backlog=64)
        assert taken.value.errno == errno.EADDRINUSE
        listening.close()
        again = await loop.create_server(Greeting, host, port, backlog=64)
        again.close()

    run(body)


V4, V6 = ("127.0.0.1", 0), ("2001:db8::1", 0, 0, 0)  # the second is for documentation: no machine has it


@pytest.mark.parametrize(
    "is_known", [True, False], ids=["an address that is not here", "a family that is not"]
)
def test_of_several_addresses_one_that_there_is_not_is_left_out(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, is_known: bool
) -> None:
    """In containers IPv6 is switched off, and a name may have an address of it; or it has one that has moved."""

    def opened(family: int, kind: int, protocol: int) -> socket.socket:
        if family == socket.AF_INET6 and not is_known:
            raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")
        return real(socket.AF_INET, kind, protocol) if family == socket.AF_INET else Absent()

    real = socket.socket
    monkeypatch.setattr(uv_loop.socket, "socket", opened)
    of_each = [
        (family, socket.SOCK_STREAM, 6, "", at)
        for family, at in ((socket.AF_INET6, V6), (socket.AF_INET, V4))
    ]
    (listening,) = uv_loop._bound(of_each, 1)
    assert listening.getsockname()[0] == "127.0.0.1"
    listening.close()
    told = "nothing listens at 2001:db8::1, which the listener's name has: Cannot assign requested address"
    assert caplog.messages == ([told] if is_known else [])
    with pytest.raises(OSError) as refused:
        uv_loop._bound(of_each[:1], 1)
    assert refused.value.errno == (errno.EADDRNOTAVAIL if is_known else errno.EAFNOSUPPORT)


def test_of_several_addresses_one_that_somebody_else_has_is_an_error_and_leaves_nothing_open() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, socket.create_server(("127.0.0.2", 0)) as freed:
        port = freed.getsockname()[1]
        freed.close()
        of_each = [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", at)
            for at in (("127.0.0.2", port), ("192.0.2.1", 0), taken.getsockname())
        ]
        before = os.listdir("/proc/self/fd")
        with pytest.raises(OSError) as refused:
            uv_loop._bound(of_each, 1)
        assert refused.value.errno == errno.EADDRINUSE
        assert len(os.listdir("/proc/self/fd")) == len(before)
    socket.create_server(("127.0.0.2", port)).close()


def test_of_several_addresses_one_that_may_not_be_had_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A port below 1024, say."""
    real = socket.socket

    def opened(family: int, kind: int, protocol: int) -> Any:
        return Absent(errno.EACCES) if family == socket.AF_INET6 else real(family, kind, protocol)

    monkeypatch.setattr(uv_loop.socket, "socket", opened)
    of_each = [
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", V4),
        (socket.AF_INET6, socket.SOCK_STREAM, 6, "", V6),
    ]
    with pytest.raises(PermissionError):
        uv_loop._bound(of_each, 1)


class Absent:
    """A socket of IPv6, of which this machine has no address."""

    def __init__(self, error: int = errno.EADDRNOTAVAIL) -> None:
        self.error = error

    def bind(self, address: object) -> None:
        raise OSError(self.error, os.strerror(self.error))

    def setblocking(self, flag: bool) -> None: ...

    def setsockopt(self, *option: int) -> None: ...

    def close(self) -> None: ...


def test_names_are_looked_up_by_threads_of_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """libuv starts its own at the first name, and ends the process (abort) where the machine has none left."""

    def refuse_thread(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def body() -> None:
        loop = asyncio.get_running_loop()
        with monkeypatch.context() as want:
            want.setattr(threading.Thread, "start", refuse_thread)
            with pytest.raises(RuntimeError, match="can't start new thread"):
                await loop.getaddrinfo("localhost", 9092, type=socket.SOCK_STREAM)
        found = await loop.getaddrinfo("localhost", 9092, type=socket.SOCK_STREAM)
        assert found == socket.getaddrinfo("localhost", 9092, type=socket.SOCK_STREAM)

    run(body)


class Refusing:
    """A socket that listens: `accept` is refused while `error` is set."""

    def __init__(self, real: socket.socket) -> None:
        self._real = real
        self.error: int | None = None
        self.refused = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def accept(self) -> Any:
        if self.error is not None:
            self.refused += 1
            raise OSError(self.error, os.strerror(self.error))
        return self._real.accept()


class Clock:
    """`call_later` of a loop, as far as it is called here: what is due is done when the test says so."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.due: list[tuple[float, Callable[[], None]]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)

    def call_later(self, delay_s: float, call: Callable[[], None]) -> Any:
        self.due.append((delay_s, call))
        return SimpleNamespace(cancel=self.due.clear)

    def tick(self) -> float:
        ((delay_s, call),) = self.due
        self.due.clear()
        call()
        return delay_s

    async def is_set(self) -> None:
        async with asyncio.timeout(60):
            while not self.due:
                await asyncio.sleep(0)


@pytest.mark.parametrize("error", [errno.ENOMEM, errno.ENOBUFS, errno.ENFILE])
def test_where_no_connection_can_be_accepted_libuv_is_not_asked_until_one_can(
    error: int, caplog: pytest.LogCaptureFixture
) -> None:
    served: list[list[str]] = []

    class Deaf:
        """As libuv under that want: it accepts nothing, and says nothing."""

        def __init__(self, own: socket.socket) -> None:
            self._own = own
            self.log: list[str] = []
            served.append(self.log)

        def close(self) -> None:
            self._own.close()
            self.log.append("closed")

    async def body() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, Loop)
        clock = Clock(loop)
        real = socket.create_server(("127.0.0.1", 0))
        real.setblocking(False)
        listening_socket = Refusing(real)

        async def serve(make: MakeProtocol, own: socket.socket) -> Any:
            if served:
                own.setblocking(False)
                return await super(Loop, loop).create_server(make, sock=own, backlog=64)
            return Deaf(own)

        async def take(make: MakeProtocol, accepted: socket.socket) -> None:
            await loop.connect_accepted_socket(make, accepted)

        listening = Listening(clock, [listening_socket], Greeting, serve, take)  # type: ignore[arg-type,list-item]
        await listening.begin()
        clock.tick()
        clock.tick()
        assert served == [[]] and listening_socket.refused == 0, "nobody waits"
        listening_socket.error = error
        first = asyncio.ensure_future(greeted(port_of(listening)))
        second = asyncio.ensure_future(greeted(port_of(listening)))
        async with asyncio.timeout(60):
            while not uv_loop._is_readable(real):
                await asyncio.sleep(0)
        clock.tick()
        assert served == [[]], "it may have come just now"
        clock.tick()
        assert served == [["closed"]]
        for refused in range(1, 5):
            assert listening_socket.refused == refused
            assert clock.tick() == ACCEPT_AGAIN_S
        listening_socket.error = None
        clock.tick()
        assert await first == await second == b"hello"
        await clock.is_set()
        assert await greeted(port_of(listening)) == b"hello"
        clock.tick()
        listening.close()
        assert listening.sockets == ()

    run(body)
    said = [message for message in caplog.messages if "cannot be accepted" in message]
    assert len(said) == (error != errno.ENFILE)
