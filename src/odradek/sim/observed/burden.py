"""What the brokers of a world hold and what their turns cost, for `checkers.burden`."""

from collections.abc import Callable, Iterator

from odradek.broker.answers import Buffer, Reply
from odradek.server.connection import Connection
from odradek.server.gateway import Gateway
from odradek.server.held_memory import H, HeldMemory
from odradek.server.unsent_answers import LEAST_SHARED_BYTES, memory_of
from odradek.sim.checkers.burden import Burden, Held
from odradek.sim.world import SimBroker, World


def burdens(world: World) -> Iterator[Burden]:
    for broker in world.brokers.values():
        if broker.is_running and broker.is_serving:
            yield _burden(world, broker)


def _burden(world: World, broker: SimBroker) -> Burden:
    runtime = broker.runtime
    assert runtime is not None and runtime.parts is not None
    core, gateway = runtime.broker, runtime.parts.gateway
    connections = gateway._connections.values()
    # For nearly all nothing is held.
    held = [
        _held(connection)
        for connection in connections
        if connection._slots
        or connection._rest
        or connection._outgoing._buffers
        or connection._large_filled
        or (connection.transport is not None and connection.transport._unsent_bytes)  # type: ignore[attr-defined]
    ]
    term = runtime.controller.term
    boxes = {} if term is None else term._outboxes._boxes
    steps, turn = (0, "") if world.loop.meter is None else world.loop.meter.busiest.get(broker.name, (0, ""))
    host = broker.host
    stands_still = host is None or host.paused_until > world.loop.now or bool(host.postponed)
    return Burden(
        broker.broker_id,
        held,
        core.unchecked._bytes + core.departures.held_bytes,
        len(core.purgatory),
        max((box.unanswered for _, box in boxes.values()), default=0),
        steps,
        turn,
        gateway.unsent.size_bytes,
        unsent_bytes(gateway),
        0 if stands_still else to_be_reset(gateway, gateway.unsent, gateway.least_unsent_bytes),
        gateway.unhandled.size_bytes,
        unhandled_bytes(gateway),
        0 if stands_still else to_be_reset(gateway, gateway.unhandled, gateway.least_unhandled_bytes),
    )


def to_be_reset(gateway: Gateway, held: HeldMemory[H], least_bytes: Callable[[], float]) -> int:
    """The connections that would be reset where there is no room, unless it is not yet time to look."""
    if not held.waiting or gateway.monotonic() <= held.look_from:
        return 0
    least = least_bytes()
    return sum(one.size_bytes >= least for one in held.waiting.values())


def unhandled_bytes(gateway: Gateway) -> int:
    """Counted anew."""
    total = 0
    for connection in gateway._connections.values():
        large = connection._large
        total += len(connection._rest)
        if large is not None:
            total += len(large) if large.was_used else connection._large_filled
    return total


def unsent_bytes(gateway: Gateway) -> int:
    """Counted anew."""
    if gateway._ready:  # in the midst of a turn: what has become ready is counted when it is written
        return gateway.unsent.size_bytes
    total = 0
    shared: dict[int, Buffer] = {}
    for connection in gateway._connections.values():
        total += connection.unsent._held_back_bytes
        if not connection._outgoing._buffers and not connection._waiting_bytes:
            continue
        waiting = list(connection._outgoing._buffers)
        for slot in connection._slots:
            if isinstance(slot.answer, Reply) and slot.size_bytes:
                waiting += slot.answer.buffers
        for buffer in waiting:
            if memory_of(buffer) < LEAST_SHARED_BYTES:
                total += memory_of(buffer)
            else:
                shared[id(buffer)] = buffer
    return total + sum(map(memory_of, shared.values()))


def _held(connection: Connection) -> Held:
    buffers = connection._outgoing._buffers
    transport = connection.transport
    return Held(
        connection.peer,
        len(connection._rest) + connection._large_filled,
        sum(len(b) for b in buffers if isinstance(b, bytes | bytearray | memoryview)) if buffers else 0,
        0 if transport is None else transport.get_write_buffer_size(),
        connection.requests_in_flight,
    )
