"""Requests between brokers, and the answers to them, that wait until they are told to go.

Cuts and delays hold up whole links; a scenario that wants one fetch to be answered now and its answer to arrive later
asks for that here. What is kept back keeps up what was written behind it on the same connection: TCP is FIFO. What
was kept back on a connection that is given up is lost, but for what a broker asks: that may still arrive (`late`).
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from odradek.protocol.headers import decode_request_header
from odradek.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from odradek.sim.loop import Host
from odradek.sim.network import SimTransport
from odradek.sim.world import PORT, World

FETCH, LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA, OFFSET_FOR_LEADER_EPOCH, ALTER_PARTITION = (
    1,
    4,
    5,
    6,
    23,
    56,
)
# (api key, is it an answer) -> what a scenario calls it. A broker's: what it asks and what it is answered; of
# LeaderAndIsr, StopReplica and UpdateMetadata, what it is told; of OffsetForLeaderEpoch, what a controller asks it.
KINDS = {
    (FETCH, False): "fetch",
    (FETCH, True): "fetched",
    (ALTER_PARTITION, False): "alter-partition",
    (ALTER_PARTITION, True): "altered",
    (LEADER_AND_ISR, False): "leader-and-isr",
    (STOP_REPLICA, False): "stop-replica",
    (UPDATE_METADATA, False): "update-metadata",
    (OFFSET_FOR_LEADER_EPOCH, False): "end-offset",
}
TOLD = (LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA, OFFSET_FOR_LEADER_EPOCH)
ASKED = ("fetch", "alter-partition")


class Kept(NamedTuple):
    kind: str
    whose: str
    frame: bytes


class Withheld:
    """Every connection between brokers of `world`, from when it is made on."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._names = {broker.name for broker in world.brokers.values()}
        self._withheld: dict[tuple[str, str], None] = {}
        self._queues: dict[SimTransport, deque[Kept]] = {}
        # The end that will answer -> correlation id -> api key of what has been sent to it.
        self._unanswered: dict[SimTransport, dict[bytes, int]] = {}
        self._late: list[tuple[Kept, str]] = []  # and to whom
        world.network.keeps = self._keeps

    # --- what a scenario asks for

    def withhold(self, kind: str, whose: str) -> None:
        self._withheld[kind, whose] = None

    def release(self, kind: str, whose: str) -> None:
        self._withheld.pop((kind, whose), None)
        self._forget_the_dead()
        for transport in list(self._queues):
            self._send_what_may_go(transport)

    def has(self, kind: str, whose: str, wanted: Callable[[bytes], bool] | None = None) -> bool:
        self._forget_the_dead()
        return any(_is(kept, kind, whose, wanted) for queue in self._queues.values() for kept in queue)

    def let(self, kind: str, whose: str, wanted: Callable[[bytes], bool] | None = None) -> bool:
        """The oldest goes on, and what stands before it on its connection. False: there was none."""
        self._forget_the_dead()
        for transport, queue in list(self._queues.items()):
            if any(_is(kept, kind, whose, wanted) for kept in queue):
                is_gone = False
                while not is_gone:
                    kept = queue.popleft()
                    self._send(transport, kept.frame)
                    is_gone = _is(kept, kind, whose, wanted)
                self._send_what_may_go(transport)
                return True
        return False

    def drop(self, kind: str, whose: str) -> bool:
        """Lost, with the connection it was on."""
        self._forget_the_dead()
        for transport, queue in list(self._queues.items()):
            if any(_is(kept, kind, whose, None) for kept in queue):
                self._give_up(transport)
                transport.network.reset(transport)
                return True
        return False

    def is_unanswered(self, kind: str, whose: str) -> bool:
        """One that was sent is with whoever has to answer it."""
        return any(
            KINDS.get((key, False)) == kind
            for transport, asked in self._unanswered.items()
            if transport.remote_name == whose and not _is_dead(transport)
            for key in asked.values()
        )

    def late(self, kind: str, whose: str) -> bool:
        """What was under way when its connection was given up arrives all the same, the oldest first."""
        self._forget_the_dead()
        found = next((late for late in self._late if (late[0].kind, late[0].whose) == (kind, whose)), None)
        if found is None:
            return False
        self._late.remove(found)
        kept, target = found
        self._world.spawn(Host("late", 103), self._send_late(target, kept.frame))
        return True

    async def _send_late(self, target: str, frame: bytes) -> None:
        """Over a connection of its own; nobody waits for the answer."""
        transport, _ = await self._world.loop.create_connection(asyncio.Protocol, target, PORT)
        transport.write(frame)  # type: ignore[attr-defined]
        await asyncio.sleep(1.0)
        transport.close()

    # --- what is written

    def _keeps(self, transport: SimTransport, data: bytes) -> bool:
        if transport.host.name not in self._names or transport.remote_name not in self._names:
            return False
        frames = _frames(data)
        for frame in frames:
            kept = Kept(*self._kind(transport, frame), frame)
            queue = self._queues.get(transport)
            if queue or (kept.kind, kept.whose) in self._withheld:
                self._queues.setdefault(transport, deque()).append(kept)
            else:
                self._send(transport, frame)
        return True

    def _kind(self, transport: SimTransport, frame: bytes) -> tuple[str, str]:
        if not _answers(transport):
            key = int.from_bytes(frame[4:6], "big")
            whose = transport.remote_name if key in TOLD else transport.host.name
            return KINDS.get((key, False), ""), whose
        asked = self._unanswered.get(transport, {}).get(frame[4:8], -1)
        return KINDS.get((asked, True), ""), transport.remote_name

    def _send(self, transport: SimTransport, frame: bytes) -> None:
        if not _answers(transport):
            if transport.peer is not None:
                asked = self._unanswered.setdefault(transport.peer, {})
                asked[frame[8:12]] = int.from_bytes(frame[4:6], "big")
        else:
            self._unanswered.get(transport, {}).pop(frame[4:8], None)
        transport.send(frame)

    def _send_what_may_go(self, transport: SimTransport) -> None:
        queue = self._queues[transport]
        while queue and (queue[0].kind, queue[0].whose) not in self._withheld:
            self._send(transport, queue.popleft().frame)
        if not queue:
            del self._queues[transport]

    def _forget_the_dead(self) -> None:
        for transport in list(self._queues):
            if _is_dead(transport):
                self._give_up(transport)

    def _give_up(self, transport: SimTransport) -> None:
        queue = self._queues.pop(transport)
        self._late += [(kept, transport.remote_name) for kept in queue if kept.kind in ASKED]


def _is(kept: Kept, kind: str, whose: str, wanted: Callable[[bytes], bool] | None) -> bool:
    return (kept.kind, kept.whose) == (kind, whose) and (wanted is None or wanted(kept.frame))


def _answers(transport: SimTransport) -> bool:
    return bool(transport.get_extra_info("sockname")[1] == PORT)


def _is_dead(transport: SimTransport) -> bool:
    return transport.is_closing() or transport._is_lost or not transport.host.is_alive


def _frames(data: bytes) -> list[bytes]:
    """Brokers write whole frames, one or more at once."""
    found, at = [], 0
    while at < len(data):
        end = at + 4 + int.from_bytes(data[at : at + 4], "big")
        assert end <= len(data), "half a frame was written"
        found.append(data[at:end])
        at = end
    return found


def leader_epochs_of(frame: bytes) -> set[int]:
    """Which a LeaderAndIsr names."""
    body = memoryview(frame)[4:]
    header = decode_request_header(body)
    request = LeaderAndIsrRequest.decode(header.api_version, body, header.body_offset)
    return {row.leader_epoch for topic in request.topic_states for row in topic.partition_states}
