"""Silence on connections of brokers in one process: what a partitioned network and a stopped process look like from outside.

Connections stay open, nothing arrives, and what was sent meanwhile arrives when the silence ends. Only transports are touched:
below a broker, which is the same as ever.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, cast
from weakref import WeakKeyDictionary, WeakValueDictionary

from odradek.client.begun_reading import pause_begun


class HeldTransport(asyncio.Transport):
    """A transport that can be held. While it is not, `write` is that of the one inside, without a step in between."""

    def __init__(self, inside: asyncio.Transport, protocol: asyncio.BaseProtocol) -> None:
        super().__init__()
        self._inside = inside
        self._protocol = protocol
        self._is_held = False
        self._wants_reading = True
        self._is_stopped = False
        self._end: Callable[[], None] | None = None  # what its owner, stopped, has done to it
        self._queue: list[bytes] = []
        self.write = inside.write  # type: ignore[method-assign]
        self.writelines = inside.writelines  # type: ignore[method-assign]

    # --- what is held

    def hold(self, *, is_stopped: bool = False) -> None:
        """`is_stopped`: its owner is, and so does not close it either."""
        self._is_stopped = is_stopped
        if not is_stopped:
            self._end_now()
        if not self._is_held:
            self._is_held = True
            self.write = self._keep  # type: ignore[method-assign]
            self.writelines = self._keep_all  # type: ignore[method-assign,assignment]
            self._inside.pause_reading()

    def begins(self) -> None:
        """It was held as it was made, perhaps before it began to read."""
        if not self._inside.is_closing() and (self._is_held or not self._wants_reading):
            pause_begun(self._inside)

    def release(self) -> None:
        if not self._is_held:
            return
        self._is_held = self._is_stopped = False
        self.write, self.writelines = self._inside.write, self._inside.writelines  # type: ignore[method-assign]
        queue, self._queue = self._queue, []
        if self._end == self._inside.abort:
            queue = []
        if queue:
            # First what was to be sent first: whoever hears that it may write does so at once.
            self._inside.write(b"".join(queue))
            _, high = self._inside.get_write_buffer_limits()
            if self._inside.get_write_buffer_size() <= high:
                self._protocol.resume_writing()
        self._end_now()
        if self._wants_reading and not self._inside.is_closing():
            self._inside.resume_reading()

    def _end_now(self) -> None:
        end, self._end = self._end, None
        if end is not None:
            end()

    @property
    def has_ended(self) -> bool:
        """Its other end hears of it, too."""
        return self._inside.is_closing()

    def _keep(self, data: Any) -> None:
        if self._end is not None:
            return
        if not self._queue:
            self._protocol.pause_writing()
        self._queue.append(bytes(data))

    def _keep_all(self, pieces: Iterable[Any]) -> None:
        self._keep(b"".join(pieces))

    # --- a transport

    def pause_reading(self) -> None:
        self._wants_reading = False
        if not self._is_held:
            self._inside.pause_reading()

    def resume_reading(self) -> None:
        self._wants_reading = True
        if not self._is_held:
            self._inside.resume_reading()

    def is_reading(self) -> bool:
        return self._wants_reading and not self._inside.is_closing()

    def get_write_buffer_size(self) -> int:
        # Never 0 while it is held, or an answer would go past it, by `sendfile`.
        return self._inside.get_write_buffer_size() + (1 + sum(map(len, self._queue)) if self._is_held else 0)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._inside.set_write_buffer_limits(high, low)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._inside.get_extra_info(name, default)

    def is_closing(self) -> bool:
        return self._end is not None or self._inside.is_closing()

    def close(self) -> None:
        if not self._is_stopped:
            self._inside.close()
        elif self._end is None:
            self._end = self._inside.close

    def abort(self) -> None:
        if self._is_stopped:
            self._end = self._inside.abort
        else:
            self._inside.abort()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol
        self._inside.set_protocol(protocol)

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol


class _Introduced(asyncio.BufferedProtocol):
    """Stands in the place of a protocol until its connection is there."""

    def __init__(self, protocol: asyncio.BaseProtocol, links: "Links", owner: int) -> None:
        self.protocol = protocol
        self.transport: HeldTransport | None = None
        self._links = links
        self._owner = owner

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        inside = cast(asyncio.Transport, transport)
        self.transport = HeldTransport(inside, self.protocol)
        inside.set_protocol(self.protocol)
        self._links.came(self._owner, self.transport)
        self.protocol.connection_made(self.transport)
        asyncio.get_running_loop().call_soon(self.transport.begins)


class Links:
    """The connections of all brokers of a cluster, and who of them is out of touch with whom."""

    def __init__(self) -> None:
        self._cut: Counter[frozenset[int]] = Counter()  # by how many cuts, of which each heals by itself
        self._silent: set[int] = set()
        self._owners: WeakKeyDictionary[HeldTransport, int] = WeakKeyDictionary()
        self._listening: dict[int, int] = {}  # port -> the broker that listens there
        # Local port -> a connection that a broker has opened to another. Its other end knows no more of it than that.
        self._opened: WeakValueDictionary[int, HeldTransport] = WeakValueDictionary()
        # Who has opened a connection that was accepted: also after its end, when somebody else may have the port.
        self._openers: WeakKeyDictionary[HeldTransport, int] = WeakKeyDictionary()
        self._changed: asyncio.Event | None = None

    def cut(self, ones: Iterable[int], others: Iterable[int]) -> None:
        """Between each of `ones` and each of `others`, in both directions."""
        self._cut.update(_pairs(ones, others))
        self._settle()

    def heal(self, ones: Iterable[int], others: Iterable[int]) -> None:
        self._cut -= Counter(_pairs(ones, others))
        self._settle()

    def silence(self, broker: int) -> None:
        """It hears nobody and is heard by nobody, clients included."""
        self._silent.add(broker)
        self._settle()

    def let_speak(self, broker: int) -> None:
        self._silent.discard(broker)
        self._settle()

    def is_silent(self, broker: int) -> bool:
        return broker in self._silent

    # --- what brokers do

    def listens(self, broker: int, ports: Iterable[int]) -> None:
        self._listening.update({port: broker for port in ports})

    def begins_anew(self, broker: int) -> None:
        """What it listened on in a former life is nobody's, or soon somebody else's."""
        self._listening = {port: one for port, one in self._listening.items() if one != broker}

    def came(self, owner: int, transport: HeldTransport) -> None:
        self._owners[transport] = owner
        if _port(transport, "peername") in self._listening:
            self._opened[_port(transport, "sockname")] = transport
            self._settle()  # its other end may be here already, as one of somebody unknown
        else:
            self._settle_one(transport, owner)

    async def until_open(self, broker: int, port: int) -> None:
        """Until a new connection would come through. Whoever opens it has a time limit of its own."""
        while self.is_shut(broker, self._listening.get(port)):
            await self._change()

    async def until_heard(self, broker: int) -> None:
        """Until it is not silent."""
        while broker in self._silent:
            await self._change()

    async def _change(self) -> None:
        if self._changed is None:
            self._changed = asyncio.Event()
        await self._changed.wait()

    # --- who is held

    def is_shut(self, one: int, other: int | None) -> bool:
        """Nothing comes through between these two brokers; None: a client."""
        return one in self._silent or (
            other is not None and (other in self._silent or frozenset((one, other)) in self._cut)
        )

    def _settle(self) -> None:
        if self._changed is not None:
            self._changed.set()
            self._changed = None
        for transport, owner in list(self._owners.items()):
            self._settle_one(transport, owner)

    def _settle_one(self, transport: HeldTransport, owner: int) -> None:
        if transport.has_ended:
            return
        if self.is_shut(owner, self._other_end(transport)):
            transport.hold(is_stopped=owner in self._silent)
        else:
            transport.release()

    def _other_end(self, transport: HeldTransport) -> int | None:
        """None: a client."""
        known = self._openers.get(transport)
        if known is not None:
            return known
        port = _port(transport, "peername")
        opened = self._opened.get(port)
        if opened is None or opened.is_closing():
            return self._listening.get(port)
        self._openers[transport] = owner = self._owners[opened]
        return owner


def _pairs(ones: Iterable[int], others: Iterable[int]) -> set[frozenset[int]]:
    there = set(others)
    return {frozenset((one, other)) for one in ones for other in there if one != other}


def _port(transport: asyncio.BaseTransport, end: str) -> int:
    address = transport.get_extra_info(end)
    return address[1] if address else 0


class BrokerLoop:
    """The loop as one broker sees it: whatever it opens or accepts can be held."""

    def __init__(self, loop: asyncio.AbstractEventLoop, links: Links, broker: int) -> None:
        self._loop = loop
        self._links = links
        self._broker = broker

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._loop, name)
        setattr(self, name, found)  # the next one finds it at once
        return found

    async def create_connection(
        self, make: Callable[[], asyncio.BaseProtocol], host: str, port: int, **options: Any
    ) -> tuple[asyncio.BaseTransport, asyncio.BaseProtocol]:
        await self._links.until_open(self._broker, port)
        _, found = await self._loop.create_connection(
            lambda: _Introduced(make(), self._links, self._broker), host, port, **options
        )
        assert found.transport is not None
        return found.transport, found.protocol

    async def create_server(
        self, make: Callable[[], asyncio.BaseProtocol], host: str | None, port: int, **options: Any
    ) -> asyncio.Server:
        server = await self._loop.create_server(
            lambda: _Introduced(make(), self._links, self._broker), host, port, **options
        )
        self._links.listens(self._broker, {listening.getsockname()[1] for listening in server.sockets})
        return server
