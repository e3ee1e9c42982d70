"""Faults of the wire and of time: rings and swizzles (F9), a thin link (F10), control requests late and doubled (F11),
a clock that strobes (F14)."""

import asyncio
from collections.abc import Callable
from functools import partial

from odradek.sim.faults.targets import controller, cut, later, pick, serving, shape, strike_later, table_of
from odradek.sim.loop import Host
from odradek.sim.network import SimTransport
from odradek.sim.plan import Fault
from odradek.sim.world import PORT, World

CONTROL_KEYS = frozenset({4, 5, 6})  # LeaderAndIsr, StopReplica, UpdateMetadata
MOST_CAPTURED = 12
STROBE_S = 0.05


def cut_to_a_ring(world: World, fault: Fault) -> bool:
    """Everybody hears two neighbours only; with three brokers the ring is open at one place."""
    names = [broker.name for broker in world.brokers.values()]
    shift = int(fault.target * len(names))
    names = names[shift:] + names[:shift]
    pairs = [
        pair
        for first in range(len(names))
        for second in range(first + 1, len(names))
        if second - first > 1 and (len(names) == 3 or second - first < len(names) - 1)
        for pair in ((names[first], names[second]), (names[second], names[first]))
    ]
    return cut(world, pairs, fault.lasts_s)


def swizzle(world: World, fault: Fault) -> bool:
    """One broker after the other is cut off, and they come back in another order."""
    random = world.loop.random
    brokers = [b.name for b in world.brokers.values()]
    going = sorted(brokers, key=lambda _: random.random())[: 1 + int(fault.amount * len(brokers))]
    coming = sorted(going, key=lambda _: random.random())
    step_s = fault.lasts_s / (2 * len(going))

    def set_link(name: str, act: Callable[[str, str], None]) -> None:
        for other in brokers:
            if other != name:
                act(name, other)
                act(other, name)

    for number, name in enumerate(going):
        strike_later(world, number * step_s, partial(set_link, name, world.cut))
    for number, name in enumerate(coming):
        later(world, (len(going) + number) * step_s, partial(set_link, name, world.heal))
    return True


def thin_link(world: World, fault: Fault) -> bool:
    """100 ms, 3 Mbit/s and three connections of ten lost, all at once, around one broker."""
    broker = pick(world, fault)
    return broker is not None and shape(
        world, broker, fault.lasts_s, latency_s=0.1, rate=375_000.0, resets=0.3 * fault.amount
    )


def late_control_requests(world: World, fault: Fault) -> bool:
    """What a controller sends in the meantime reaches the broker a second time, much later and in any order.

    A connection that was given up may still deliver; so each is sent again over a connection of its own, byte for
    byte: with the epochs and the number of then, to whoever lives there now, in a later term or life or in the same.
    """
    sender = controller(world)
    others = [b for b in serving(world) if b is not sender]
    if sender is None or not others:
        return False
    source, target = sender.name, others[int(fault.target * len(others))]
    captured: list[bytes] = []

    def tap(transport: SimTransport, data: bytes) -> None:
        if transport.host.name == source and transport.remote_name == target.name:
            captured.extend(control_frames(data))

    def deliver() -> None:
        world.network.taps.remove(tap)
        late = captured[-MOST_CAPTURED:]
        ghost = Host("ghost", 102)
        for frame in late:
            delay_s = (0.1 + 6.0 * fault.amount) * world.loop.random.random()
            world.spawn(ghost, send_once(world, target.name, frame, delay_s))
        if late:
            world.note(f"{len(late)} control requests of {source} will reach {target.name} again")

    world.network.taps.append(tap)
    later(world, fault.lasts_s, deliver)
    return True


def _api_key(frame: bytes) -> int:
    return int.from_bytes(frame[4:6], "big")


def control_frames(data: bytes) -> list[bytes]:
    """Frames of control requests among what was written at once; nothing, should it be no whole frames."""
    return request_frames(data, CONTROL_KEYS)


def request_frames(data: bytes, keys: frozenset[int]) -> list[bytes]:
    """The same of requests with these API keys."""
    found, at = [], 0
    while at + 8 <= len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        if at + 4 + size > len(data):
            break
        if _api_key(data[at : at + 6]) in keys:
            found.append(data[at : at + 4 + size])
        at += 4 + size
    return found


async def send_once(world: World, name: str, frame: bytes, delay_s: float) -> None:
    """Over a connection of its own; nobody waits for the answer."""
    await asyncio.sleep(delay_s)
    try:
        async with asyncio.timeout(5.0):
            transport, _ = await world.loop.create_connection(asyncio.Protocol, name, PORT)
    except (OSError, TimeoutError):
        return  # nobody is there any more: it is lost for good
    transport.write(frame)  # type: ignore[attr-defined]
    await asyncio.sleep(1.0)
    transport.close()


def clock_strobe(world: World, fault: Fault) -> bool:
    """A wall clock that jumps to and fro by up to an hour, many times a second."""
    broker = pick(world, fault)
    if broker is None:
        return False
    name = broker.name
    until = world.loop.time() + fault.lasts_s

    def strobe(sign: int) -> None:
        is_over = world.is_healed or world.loop.time() >= until
        world.clock_offsets[name] = 0.0 if is_over else sign * 3600.0 * fault.amount
        if not is_over:
            later(world, STROBE_S, lambda: strobe(-sign))

    strobe(1)
    return True


TABLE = table_of(cut_to_a_ring, swizzle, thin_link, late_control_requests, clock_strobe)
