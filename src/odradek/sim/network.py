"""TCP in memory, with TCP's truths.

Bytes of one connection arrive in order, in pieces the seed chooses; loss is a stall or a reset, never a gap;
reordering happens only across connections. A cut link stalls what is under way; when it heals the bytes flow on. A
host that is killed leaves half-open connections behind a cut, and resets where the link is up. Links are directed:
`cut(a, b)` alone is an asymmetric partition.
"""

import asyncio
from asyncio import BufferedProtocol
from collections import deque
from collections.abc import Callable
from typing import Any

from odradek.sim.loop import Host, Moment, SimLoop

DEFAULT_HIGH_WATER_BYTES = 64 * 1024
SOCKET_BUFFER_BYTES = 256 * 1024  # what a receiver that does not read still takes in
# What the sender's kernel takes at once, so that nothing is held back in its process. Small, so that larger answers are.
SEND_BUFFER_BYTES = 4 * 1024
# Whose link is healed is heard before anybody asks whether all is quiescent.
FIRST_SYN_AGAIN_S, LAST_SYN_AGAIN_S = 0.05, 0.4


class Link:
    """One direction between two hosts, by name."""

    __slots__ = ("bytes_per_second", "is_cut", "jitter_s", "latency_s", "reset_probability")

    def __init__(self) -> None:
        self.is_cut = False
        self.latency_s = 0.0001
        self.jitter_s = 0.0004
        self.bytes_per_second = 0.0  # 0: unlimited
        self.reset_probability = 0.0


class SimServer(asyncio.AbstractServer):
    def __init__(
        self, network: "Network", address: tuple[str, int], host: Host, factory: Callable[[], Any]
    ) -> None:
        self.network = network
        self.address = address
        self.host = host
        self.factory = factory
        self.sockets = (_SocketName(address),)

    def close(self) -> None:
        if self.network.listeners.get(self.address) is self:
            del self.network.listeners[self.address]

    def is_serving(self) -> bool:
        return self.network.listeners.get(self.address) is self

    async def start_serving(self) -> None:
        pass

    async def serve_forever(self) -> None:
        raise NotImplementedError("a simulated server serves from the moment it is made")

    async def wait_closed(self) -> None:
        pass

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self.network.loop


class _SocketName:
    """As much of a socket as is asked for its address, and for its peer's where it is connected."""

    def __init__(self, address: tuple[str, int], peer: tuple[str, int] | None = None) -> None:
        self._address = address
        self._peer = peer

    def getsockname(self) -> tuple[str, int]:
        return self._address

    def getpeername(self) -> tuple[str, int]:
        if self._peer is None:
            raise OSError(107, "transport endpoint is not connected")
        return self._peer

    def fileno(self) -> int:
        return -1  # a simulated process has as many descriptors as it likes

    def setsockopt(self, *args: Any) -> None:
        """Options of a socket that is not there change nothing."""


class SimTransport(asyncio.Transport):
    """One end of a connection."""

    def __init__(
        self,
        network: "Network",
        host: Host,
        local: tuple[str, int],
        remote: tuple[str, int],
        remote_name: str,
    ) -> None:
        super().__init__({"peername": remote, "sockname": local, "socket": _SocketName(local, remote)})
        self.network = network
        self.host = host
        self.remote_name = remote_name
        self._link = network.link(host.name, remote_name)
        self.peer: SimTransport | None = None
        self.protocol: Any = None
        self._is_closing = False
        self._is_lost = False
        self._eof_sent = False
        # Outgoing: what has been written and has not arrived in the peer's socket buffer.
        self._unsent: deque[bytes] = deque()
        self._unsent_bytes = 0
        self._in_flight: deque[tuple[float, bytes]] = deque()  # when it arrives, and what
        self._in_flight_bytes = 0
        self._next_arrival = 0.0
        self._is_writing_paused = False
        self._is_held = False  # somebody between the two takes what is written, and does not pass it on
        self._high = DEFAULT_HIGH_WATER_BYTES
        self._low = DEFAULT_HIGH_WATER_BYTES // 4
        # Incoming: what has arrived and was not read.
        self._received: deque[bytes] = deque()
        self._received_bytes = 0
        self._eof_received = False
        self._is_reading_paused = False
        self._read_scheduled = False
        self._is_made = (
            False  # asyncio promises connection_made before any data, also to a host that was paused
        )

    # --- asyncio.Transport

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol

    def get_protocol(self) -> Any:
        return self.protocol

    def is_closing(self) -> bool:
        return self._is_closing

    def is_reading(self) -> bool:
        return not self._is_reading_paused

    def pause_reading(self) -> None:
        self._is_reading_paused = True

    def resume_reading(self) -> None:
        if self._is_reading_paused:
            self._is_reading_paused = False
            self._schedule_read()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = DEFAULT_HIGH_WATER_BYTES if high is None else high
        self._low = self._high // 4 if low is None else low

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low, self._high

    def get_write_buffer_size(self) -> int:
        return max(0, self._unsent_bytes - self.network.send_buffer_bytes)

    def can_write_eof(self) -> bool:
        return True

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._is_closing or self._is_lost or not data or not self.host.is_alive:
            return  # a process killed in the middle of a callback writes nothing any more
        copied, network = bytes(data), self.network
        for tap in network.taps:
            tap(self, copied)
        if network.keeps is None or not network.keeps(self, copied):
            self.send(copied)

    def send(self, data: bytes) -> None:
        self._unsent.append(data)
        self._unsent_bytes += len(data)
        self._pump()
        if self._unsent_bytes > self._high + self.network.send_buffer_bytes and not self._is_writing_paused:
            self._is_writing_paused = True
            self.protocol.pause_writing()

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def write_eof(self) -> None:
        self._eof_sent = True
        self._pump()

    def close(self) -> None:
        """Closes after what was written has left, as a socket does."""
        if self._is_closing:
            return
        self._is_closing = True
        self._eof_sent = True
        self._pump()

    def abort(self) -> None:
        if not self._is_lost:
            self._is_closing = True
            self._unsent.clear()
            self.network.reset(self)

    # --- the wire

    def _pump(self) -> None:
        """Puts what is unsent on its way, as far as the link and the peer's socket buffer allow."""
        peer = self.peer
        if peer is None or self._is_held:
            return
        link = self._link
        if link.is_cut:
            self.network.stalled.add(self)
            return
        loop, unsent = self.network.loop, self._unsent
        while unsent:
            room = SOCKET_BUFFER_BYTES - peer._received_bytes - self._in_flight_bytes
            if room <= 0:
                return
            if link.reset_probability and loop.random.random() < link.reset_probability:
                self.network.reset(self)
                return
            piece = unsent.popleft()
            size = len(piece)
            if size > room:
                unsent.appendleft(piece[room:])
                piece, size = piece[:room], room
            self._in_flight_bytes += size
            delay = link.latency_s + loop.random.random() * link.jitter_s
            if link.bytes_per_second:
                delay += size / link.bytes_per_second
            arrival = loop.now + delay
            if arrival < self._next_arrival:
                arrival = self._next_arrival
            self._next_arrival = arrival
            self._in_flight.append((arrival, piece))
            loop.world_at(arrival, self._arrive)
        if self._eof_sent and not unsent:
            arrival = max(self._next_arrival, loop.time() + link.latency_s)
            self._next_arrival = arrival
            self._eof_sent = False
            if self._is_closing:
                loop.call_as(self.host, self._lost, None)
            self._in_flight.append((arrival, b""))
            loop.world_at(arrival, self._arrive)

    def _arrive(self) -> None:
        """What is due reaches the peer's socket buffer, and is read if nobody stands still there. Runs as the world: a dead
        sender's bytes still arrive.

        Which pieces are due says the queue, not the timer: timers of one instant run in any order, and the first takes all.
        """
        loop = self.network.loop
        in_flight, now, peer = self._in_flight, loop.now, self.peer
        has_come = False
        while in_flight and in_flight[0][0] <= now:
            _, piece = in_flight.popleft()
            if peer is None or peer._is_lost:
                continue
            has_come = True
            if not piece:
                peer._eof_received = True
                continue
            size = len(piece)
            self._in_flight_bytes -= size
            self._unsent_bytes -= size
            peer._received.append(piece)
            peer._received_bytes += size
            loop.note_bytes(piece)
            if (
                self._is_writing_paused
                and self.host.is_alive
                and self._unsent_bytes <= self._low + self.network.send_buffer_bytes
            ):
                self._is_writing_paused = False
                loop.call_as(self.host, self._resume_writing)
        if has_come and peer is not None and peer._is_made and not peer._read_scheduled:
            peer._read_scheduled = True
            loop.at_once(peer.host, peer._read)

    def _resume_writing(self) -> None:
        if not self._is_lost and not self._is_writing_paused:
            self.protocol.resume_writing()

    def connection_made(self) -> None:
        self.protocol.connection_made(self)
        self._is_made = True
        self._schedule_read()

    def _schedule_read(self) -> None:
        if not self._is_made:
            return
        if not self._read_scheduled and not self._is_lost and (self._received or self._eof_received):
            self._read_scheduled = True
            self.network.loop.call_as(self.host, self._read)

    def _read(self) -> None:
        self._read_scheduled = False
        if self._is_lost or self._is_reading_paused or self._is_closing:
            return
        if self._received:
            # As recv does: whatever has arrived, as one piece or less.
            received = self._received
            data = received[0] if len(received) == 1 else b"".join(received)
            received.clear()
            taken = self._give(data)
            self._received_bytes -= taken
            if taken < len(data):
                self._received.appendleft(data[taken:])
            peer = self.peer
            if peer is not None and not peer._is_lost and (peer._unsent or peer._eof_sent):
                peer._pump()
            if self._received or self._eof_received:
                self._schedule_read()
        elif self._eof_received:
            self._eof_received = False
            if not self.protocol.eof_received():
                self.close()

    def _give(self, data: bytes) -> int:
        """Hands over some of `data`; returns how much."""
        there, protocol = len(data), self.protocol
        size = self.network.cut_point(there)
        if isinstance(protocol, BufferedProtocol):
            buffer: Any = protocol.get_buffer(size)  # of bytes: a memoryview, or a bytearray
            if size > len(buffer):
                size = len(buffer)
            assert size > 0, "get_buffer gave no room"
            buffer[:size] = data if size == there else data[:size]
            protocol.buffer_updated(size)
            return size
        protocol.data_received(data[:size])
        return size

    def _lost(self, error: Exception | None) -> None:
        if self._is_lost:
            return
        self._is_lost = True
        self._is_closing = True
        self.network.transports.discard(self)
        if not self._eof_sent:  # else the other end is yet to hear of it, when the link is back
            self.network.stalled.discard(self)
        self.protocol.connection_lost(error)


class Network:
    """All connections of one simulated world."""

    def __init__(self, loop: SimLoop) -> None:
        self.loop = loop
        loop.network = self
        self.listeners: dict[tuple[str, int], SimServer] = {}
        # A dict keeps insertion order where a set would not: the order of resets is part of a run.
        self.transports: _OrderedSet = _OrderedSet()
        self.stalled: _OrderedSet = _OrderedSet()
        self.given_up: _OrderedSet = _OrderedSet()  # by one end, and what it had written waits for the other
        self.send_buffer_bytes = SEND_BUFFER_BYTES
        self.split_probability = 0.1  # how often a read gives only part of what has arrived
        # Whoever listens on the wire: (transport, what was written).
        self.taps: list[Callable[[SimTransport, bytes], None]] = []
        # Whoever keeps back what was written, and sends it later (`withheld`).
        self.keeps: Callable[[SimTransport, bytes], bool] | None = None
        self._links: dict[tuple[str, str], Link] = {}
        self._next_port = 40000

    # --- links

    def link(self, source: str, target: str) -> Link:
        link = self._links.get((source, target))
        if link is None:
            link = self._links[(source, target)] = Link()
        return link

    def cut(self, source: str, target: str) -> None:
        self.link(source, target).is_cut = True

    def heal(self, source: str, target: str) -> None:
        self.link(source, target).is_cut = False
        self._pump_stalled()

    def heal_all(self) -> None:
        for link in self._links.values():
            link.is_cut = False
            link.reset_probability = 0.0
            link.bytes_per_second = 0.0
            link.latency_s = Link().latency_s
            link.jitter_s = Link().jitter_s
        self._pump_stalled()
        for transport in [*self.given_up, *(t for t in self.transports if t._is_held)]:
            self.let_go(transport)

    def _pump_stalled(self) -> None:
        stalled = list(self.stalled)
        self.stalled.clear()
        for transport in stalled:
            if transport.host.is_alive or transport.peer is None:
                transport._pump()
            elif transport._link.is_cut:
                self.stalled.add(transport)
            else:
                self._half_open_ended(transport)

    def _half_open_ended(self, transport: SimTransport) -> None:
        """The far end of a dead host's connection learns of it once the link is back."""
        peer = transport.peer
        if peer is not None and not peer._is_lost and peer.host.is_alive:
            self.loop.call_as(peer.host, peer._lost, ConnectionResetError("connection reset by peer"))
        self.transports.discard(transport)

    # --- connections

    def listen(
        self, host: Host, factory: Callable[[], Any], address: Any, port: Any, sock: Any = None
    ) -> SimServer:
        if sock is not None:
            address, port = sock.getsockname()[:2]
        name = host.name if address in (None, "", "0.0.0.0", "::") else str(address)
        if not port:
            self._next_port += 1
            port = self._next_port
        taken = self.listeners.get((name, port))
        if taken is not None and taken.host.is_alive:
            raise OSError(98, f"address already in use: {name}:{port}")
        server = SimServer(self, (name, int(port)), host, factory)
        self.listeners[server.address] = server
        return server

    async def connect(
        self, host: Host, factory: Callable[[], Any], address: Any, port: Any
    ) -> tuple[SimTransport, Any]:
        loop = self.loop
        target_name = str(address)
        there, back = self.link(host.name, target_name), self.link(target_name, host.name)
        await _sleep(loop, there.latency_s + loop.random.random() * there.jitter_s)
        again_s = FIRST_SYN_AGAIN_S
        while there.is_cut or back.is_cut:
            # SYN is sent again until somebody answers, after twice as long each time; the caller has its own deadline.
            await _sleep(loop, again_s)
            again_s = min(2 * again_s, LAST_SYN_AGAIN_S)
        server = self.listeners.get((target_name, int(port)))
        if server is None or not server.host.is_alive:
            raise ConnectionRefusedError(111, f"connection refused: {target_name}:{port}")
        self._next_port += 1
        local = (host.name, self._next_port)
        near = SimTransport(self, host, local, server.address, target_name)
        far = SimTransport(self, server.host, server.address, local, host.name)
        near.peer, far.peer = far, near
        near.protocol = factory()
        far.protocol = server.factory()
        self.transports.add(near)
        self.transports.add(far)
        near.connection_made()
        loop.call_as(server.host, far.connection_made)
        return near, near.protocol

    def reset(self, transport: SimTransport) -> None:
        """Both ends lose the connection; an end behind a cut link does not hear of it yet."""
        error = ConnectionResetError("connection reset by peer")
        peer = transport.peer
        if transport.host.is_alive:
            self.loop.call_as(transport.host, transport._lost, None if transport._is_closing else error)
        if peer is not None and not peer._is_lost and peer.host.is_alive:
            if self.link(transport.host.name, transport.remote_name).is_cut:
                self.stalled.add(transport)
                transport._unsent.clear()
                transport._eof_sent = True
            else:
                self.loop.call_as(peer.host, peer._lost, error)

    # --- somebody between the two: a proxy, a tunnel, a mesh

    def hold(self, transport: SimTransport) -> None:
        """What this end writes is taken, and not passed on."""
        transport._is_held = True

    def let_go(self, transport: SimTransport) -> None:
        """It is passed on. Of a connection this end has given up meanwhile: and then its end."""
        if not transport._is_held:
            return
        transport._is_held = False
        self.given_up.discard(transport)
        transport._eof_sent = transport._eof_sent or transport._is_lost
        transport._pump()

    def give_up(self, transport: SimTransport) -> None:
        """This end loses a connection that is held. The other one hears nothing, and gets the rest of it later."""
        assert transport._is_held
        self.given_up.add(transport)
        if transport.host.is_alive:
            self.loop.call_as(
                transport.host, transport._lost, ConnectionResetError("connection reset by peer")
            )

    def host_killed(self, host: Host) -> None:
        """The kernel closes a dead process's sockets: peers see a reset, unless the link is cut (half-open)."""
        for address, server in list(self.listeners.items()):
            if server.host is host:
                del self.listeners[address]
        for transport in list(self.transports):
            if transport.host is not host:
                continue
            if self.link(host.name, transport.remote_name).is_cut:
                self.stalled.add(transport)
            else:
                self._half_open_ended(transport)

    # --- for transports

    def cut_point(self, size: int) -> int:
        if size > 1:
            random = self.loop.random.random
            if random() < self.split_probability:
                return 1 + int(random() * (size - 1))
        return size


class _OrderedSet(dict[SimTransport, None]):
    def add(self, transport: SimTransport) -> None:
        self[transport] = None

    def discard(self, transport: SimTransport) -> None:
        self.pop(transport, None)


async def _sleep(loop: SimLoop, delay: float) -> None:
    await Moment(loop, loop.time() + delay)
