"""Whom a fault hits, and when it ends: what all faults need, in one place.

`later` undoes; `strike_later` does more harm, and so does nothing once the world has been healed.
"""

from collections.abc import Callable, Iterable

from odradek.sim.network import Link
from odradek.sim.plan import Fault
from odradek.sim.world import SimBroker, World

Act = Callable[[World, Fault], bool]
Table = dict[str, Act]


def table_of(*functions: Act) -> Table:
    return {function.__name__: function for function in functions}


# --- whom


def serving(world: World) -> list[SimBroker]:
    return [b for b in world.brokers.values() if b.is_running and b.is_serving]


def pick(world: World, fault: Fault) -> SimBroker | None:
    running = serving(world)
    return running[int(fault.target * len(running))] if running else None


def controller(world: World) -> SimBroker | None:
    """The one that acts as controller, or the first of several that believe they do."""
    return next((broker for broker in serving(world) if broker.is_controller), None)


def leader(world: World, fault: Fault) -> SimBroker | None:
    """The leader of some partition, as it believes itself; anybody, where nobody leads."""
    leaders = [b for b in serving(world) if b.leads_something]
    return leaders[int(fault.target * len(leaders))] if leaders else pick(world, fault)


def others(world: World, broker: SimBroker) -> list[SimBroker]:
    return [b for b in world.brokers.values() if b is not broker]


def both_ways(one: SimBroker, many: Iterable[SimBroker]) -> list[tuple[str, str]]:
    return [pair for other in many for pair in ((one.name, other.name), (other.name, one.name))]


# --- when


def later(world: World, seconds: float, undo: Callable[[], None]) -> None:
    world.loop.call_later(seconds, undo, context=world.world_context())


def strike_later(world: World, seconds: float, act: Callable[[], None]) -> None:
    later(world, seconds, lambda: None if world.is_healed else act())


def start_again(world: World, broker: SimBroker, seconds: float) -> None:
    later(world, seconds, lambda: None if broker.is_running else broker.start())


# --- links


def cut(world: World, pairs: list[tuple[str, str]], seconds: float) -> bool:
    for source, target in pairs:
        world.cut(source, target)

    def heal() -> None:
        for source, target in pairs:
            world.heal(source, target)

    later(world, seconds, heal)
    return bool(pairs)


def shape(
    world: World, broker: SimBroker, seconds: float, *, latency_s: float, rate: float, resets: float
) -> bool:
    """All links of a broker. What ends is ended for good: of two such faults at once the first to end ends both."""
    links = [world.network.link(a, b) for a, b in both_ways(broker, others(world, broker))]
    for link in links:
        link.latency_s, link.bytes_per_second, link.reset_probability = latency_s, rate, resets

    def undo() -> None:
        usual = Link()
        for link in links:
            link.latency_s, link.bytes_per_second = usual.latency_s, usual.bytes_per_second
            link.reset_probability = usual.reset_probability

    later(world, seconds, undo)
    return True
