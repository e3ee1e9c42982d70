"""A world that does not behave: what other faults leave whole out of politeness."""

from odradek.sim.network import SimTransport
from odradek.sim.plan import Fault
from odradek.sim.targets import later, pick, table_of
from odradek.sim.world import PORT, World

LONGEST_HELD_S = 0.6  # a fetch that has nothing to wait for any more is written within half a second


def late_bytes(world: World, fault: Fault) -> bool:
    """What stands between a broker and the others takes what the broker writes, breaks its connections, and passes on what
    it took much later, when the broker has long gone on over another connection.

    TCP promises order within a connection, and nothing between two. A proxy, a mesh, a tunnel, or a peer that had stopped
    reading comes to the same.
    """
    broker = pick(world, fault)
    if broker is None or broker.host is None:
        return False
    network = world.network
    names = {other.name for other in world.brokers.values()}
    held = [
        transport
        for transport in network.transports
        if transport.host is broker.host and transport.remote_name in names and _is_asking(transport)
    ]
    for transport in held:
        network.hold(transport)

    def break_off() -> None:
        late = 0
        for transport in held:
            if transport._is_held and transport._unsent and not transport._is_lost:
                late += transport._unsent_bytes
                network.give_up(transport)
            else:
                network.let_go(transport)
        if late:
            world.note(f"{late} bytes of {broker.name} are under way, and their connections are not")
        later(world, fault.lasts_s, arrive)

    def arrive() -> None:
        for transport in held:
            network.let_go(transport)

    later(world, LONGEST_HELD_S * fault.amount, break_off)
    return bool(held)


def _is_asking(transport: SimTransport) -> bool:
    """This end has connected to the other, and not the other way round."""
    return bool(transport.get_extra_info("sockname")[1] != PORT)


TABLE = table_of(late_bytes)
