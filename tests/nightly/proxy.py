"""A forwarder before a broker: what passes it can be held back, slowed or cut, in one direction or both.

A proxy that is silent keeps every connection open and passes neither bytes nor their end, as a firewall does that has lost its
table. When it speaks again, what was sent meanwhile is delivered, also over connections that their side has given up.
"""

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Coroutine
from typing import Any, Self

CHUNK_BYTES = 64 * 1024
TO_BROKER, FROM_BROKER = "to the broker", "from the broker"
DIRECTIONS = (TO_BROKER, FROM_BROKER)


class Proxies:
    """Forwarders on a loop in a thread of its own. `ports`: where each listens -> where it leads."""

    def __init__(self, ports: dict[int, int], host: str = "127.0.0.1") -> None:
        self._host = host
        self._proxies = {port: _Proxy(host, to) for port, to in ports.items()}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxies", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        for port, proxy in self._proxies.items():
            self._run(proxy.listen(port))
        return self

    def __exit__(self, *exc: object) -> None:
        for proxy in self._proxies.values():
            self._run(proxy.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def hold(self, port: int, directions: tuple[str, ...] = DIRECTIONS) -> None:
        self._run(self._proxies[port].hold(directions))

    def slow(self, port: int, delay_s: float) -> None:
        self._run(self._proxies[port].slow(delay_s))

    def cut(self, port: int) -> None:
        """Every connection ends with a reset."""
        self._run(self._proxies[port].cut())

    def heal(self, port: int) -> None:
        self._run(self._proxies[port].heal())

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(30)


class _Proxy:
    def __init__(self, host: str, to: int) -> None:
        self._host = host
        self._to = to
        self._passes = {direction: asyncio.Event() for direction in DIRECTIONS}
        self._delay_s = 0.0
        self._writers: set[asyncio.StreamWriter] = set()
        self._pumps: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def listen(self, port: int) -> None:
        await self.heal()
        self._server = await asyncio.start_server(self._accepted, self._host, port, backlog=512)

    async def hold(self, directions: tuple[str, ...]) -> None:
        for direction in directions:
            self._passes[direction].clear()

    async def slow(self, delay_s: float) -> None:
        self._delay_s = delay_s

    async def heal(self) -> None:
        self._delay_s = 0.0
        for passes in self._passes.values():
            passes.set()

    async def cut(self) -> None:
        for writer in list(self._writers):
            _reset(writer)

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        await self.heal()
        await self.cut()
        if self._pumps:
            await asyncio.wait(self._pumps)

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            to_reader, to_writer = await asyncio.open_connection(self._host, self._to)
        except OSError:  # the broker is down: whoever connects shall see that at once
            _reset(writer)
            return
        self._pump(reader, to_writer, TO_BROKER)
        self._pump(to_reader, writer, FROM_BROKER)

    def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, direction: str) -> None:
        self._writers.add(writer)
        pump = asyncio.get_running_loop().create_task(self._forward(reader, writer, direction))
        self._pumps.add(pump)
        pump.add_done_callback(self._pumps.discard)

    async def _forward(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, direction: str
    ) -> None:
        passes = self._passes[direction]
        try:
            # A reset is an end like any other: both sides are to be told, after what came before it.
            with contextlib.suppress(OSError):
                while data := await reader.read(CHUNK_BYTES):
                    await passes.wait()
                    if self._delay_s:
                        await asyncio.sleep(self._delay_s)
                    writer.write(data)
                    await writer.drain()
            await passes.wait()
        finally:
            self._writers.discard(writer)
            writer.close()


def _reset(writer: asyncio.StreamWriter) -> None:
    """Closing with a linger of nothing sends RST in place of FIN (socket(7))."""
    peer: socket.socket = writer.get_extra_info("socket")
    if peer.fileno() >= 0:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
