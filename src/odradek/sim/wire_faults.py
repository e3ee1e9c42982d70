"""Faults of the wire and of time: rings and swizzles (F9), a thin link (F10), control requests late and doubled (F11),
lost calls to the store (F13), a clock that strobes (F14), a controller killed between two of its steps (F2)."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from odradek.sim.loop import Host
from odradek.sim.network import SimTransport
from odradek.sim.plan import Fault
from odradek.sim.world import PORT, SimBroker, World

Act = Callable[[World, Fault], bool]
LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA = 4, 5, 6
CONTROL_KEYS = frozenset({LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA})
MOST_CAPTURED = 12
STROBE_S = 0.05


def _serving(world: World) -> list[SimBroker]:
    return [b for b in world.brokers.values() if b.is_running and b.is_serving]


def _controller(world: World) -> SimBroker | None:
    return next((b for b in _serving(world) if b.is_controller), None)


def _later(world: World, seconds: float, what: Callable[[], None]) -> None:
    world.loop.call_later(seconds, what, context=world.world_context())


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
    for source, target in pairs:
        world.cut(source, target)

    def heal() -> None:
        for source, target in pairs:
            world.heal(source, target)

    _later(world, fault.lasts_s, heal)
    return bool(pairs)


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
        _later(world, number * step_s, partial(set_link, name, world.cut))
    for number, name in enumerate(coming):
        _later(world, (len(going) + number) * step_s, partial(set_link, name, world.heal))
    return True


def thin_link(world: World, fault: Fault) -> bool:
    """100 ms, 3 Mbit/s and three connections of ten lost, all at once, around one broker."""
    running = _serving(world)
    if not running:
        return False
    broker = running[int(fault.target * len(running))]
    links = [
        world.network.link(a, b)
        for other in world.brokers.values()
        if other is not broker
        for a, b in ((broker.name, other.name), (other.name, broker.name))
    ]
    before = [(link.latency_s, link.bytes_per_second, link.reset_probability) for link in links]
    for link in links:
        link.latency_s, link.bytes_per_second, link.reset_probability = 0.1, 375_000.0, 0.3 * fault.amount

    def undo() -> None:
        for link, (latency_s, rate, resets) in zip(links, before, strict=True):
            link.latency_s, link.bytes_per_second, link.reset_probability = latency_s, rate, resets

    _later(world, fault.lasts_s, undo)
    return True


def late_control_requests(world: World, fault: Fault) -> bool:
    """What a controller sends in the meantime reaches the broker a second time, much later and in any order.

    A connection that was given up may still deliver; so each is sent again over a connection of its own, byte for
    byte: with the epochs of then, to whoever lives there now. Within one term and one life of the broker only
    LeaderAndIsr is, and only where nobody deletes or moves anything: UpdateMetadata and StopReplica of a deletion
    name no epoch that would tell an old one from a new one, and a replica that was deleted remembers none, here as
    with Apache.
    """
    controller = _controller(world)
    others = [b for b in _serving(world) if b is not controller]
    if controller is None or not others:
        return False
    source, target = controller.name, others[int(fault.target * len(others))]
    captured: list[tuple[bytes, int, Host | None]] = []  # with the term and the life it was meant for

    def tap(transport: SimTransport, data: bytes) -> None:
        if transport.host.name == source and transport.remote_name == target.name:
            term = _controller_epoch(world)
            captured.extend((frame, term, target.host) for frame in _control_frames(data))

    def deliver() -> None:
        world.network.taps.remove(tap)
        now = _controller_epoch(world), target.host
        is_calm = world.administration is None
        late = [
            frame
            for frame, *meant_for in captured
            if tuple(meant_for) != now or (is_calm and _api_key(frame) == LEADER_AND_ISR)
        ][-MOST_CAPTURED:]
        ghost = Host("ghost", 102)
        for frame in late:
            delay_s = (0.1 + 6.0 * fault.amount) * world.loop.random.random()
            world.spawn(ghost, _send_once(world, target.name, frame, delay_s))
        if late:
            world.note(f"{len(late)} control requests of {source} will reach {target.name} again")

    world.network.taps.append(tap)
    _later(world, fault.lasts_s, deliver)
    return True


def _controller_epoch(world: World) -> int:
    return max((epoch for _, epoch in world.view(with_batches=False).controllers), default=-1)


def _api_key(frame: bytes) -> int:
    return int.from_bytes(frame[4:6], "big")


def _control_frames(data: bytes) -> list[bytes]:
    """Frames of control requests among what was written at once; nothing, should it be no whole frames."""
    found, at = [], 0
    while at + 8 <= len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        if at + 4 + size > len(data):
            break
        if _api_key(data[at : at + 6]) in CONTROL_KEYS:
            found.append(data[at : at + 4 + size])
        at += 4 + size
    return found


async def _send_once(world: World, name: str, frame: bytes, delay_s: float) -> None:
    await asyncio.sleep(delay_s)
    try:
        async with asyncio.timeout(5.0):
            transport, _ = await world.loop.create_connection(asyncio.Protocol, name, PORT)
    except (OSError, TimeoutError):
        return  # nobody is there any more: it is lost for good
    transport.write(frame)  # type: ignore[attr-defined]
    await asyncio.sleep(1.0)
    transport.close()


def lost_calls(world: World, fault: Fault) -> bool:
    """Calls to the store are lost before they take effect."""
    world.store.lost_call_probability = 0.05 + 0.3 * fault.amount

    def undo() -> None:
        world.store.lost_call_probability = 0.0

    _later(world, fault.lasts_s, undo)
    return True


def clock_strobe(world: World, fault: Fault) -> bool:
    """A wall clock that jumps to and fro by up to an hour, many times a second."""
    running = _serving(world)
    if not running:
        return False
    name = running[int(fault.target * len(running))].name
    until = world.loop.time() + fault.lasts_s

    def strobe(sign: int) -> None:
        is_over = world.loop.time() >= until
        world.clock_offsets[name] = 0.0 if is_over else sign * 3600.0 * fault.amount
        if not is_over:
            _later(world, STROBE_S, lambda: strobe(-sign))

    strobe(1)
    return True


def kill_controller_between_steps(world: World, fault: Fault) -> bool:
    """The controller dies right after one of its next steps: decided and not written, or written and not told."""
    controller = _controller(world)
    if controller is None:
        return False
    host, steps_left = controller.host, 1 + int(fault.amount * 8)

    def stepped(broker: SimBroker, event: Any, effects: Any) -> None:
        nonlocal steps_left
        if broker is not controller or broker.host is not host:
            return
        steps_left -= 1
        if steps_left == 0 and not world.excused:
            what = type(event).__name__
            world.note(
                f"{broker.name} dies at {what}, {len(effects.writes)} writes and {len(effects.requests)} requests undone"
            )
            broker.kill()
            start = broker.start
            _later(world, fault.lasts_s, lambda: None if broker.is_running else start())

    world.on_controller_step.append(stepped)
    _later(world, 20.0, lambda: world.on_controller_step.remove(stepped))
    return True


TABLE: dict[str, Act] = {
    function.__name__: function
    for function in (
        cut_to_a_ring, swizzle, thin_link, late_control_requests, lost_calls, clock_strobe,
        kill_controller_between_steps,
    )
}  # fmt: skip
