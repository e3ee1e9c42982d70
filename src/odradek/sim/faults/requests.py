"""Faults that wait for a request of one broker to another: it is lost with its connection, or whom it tells something dies of it.

Most of what brokers ask each other is asked seldom, and answered within a millisecond: a reset at a drawn time meets a fetch.
"""

from odradek.protocol.headers import decode_request_header
from odradek.protocol.messages.stop_replica import StopReplicaRequest
from odradek.sim.faults.moments import lose_next, when_written
from odradek.sim.faults.targets import controller, cut, serving, start_again, strike_later, table_of
from odradek.sim.network import SimTransport
from odradek.sim.plan import Fault
from odradek.sim.world import World

API_VERSIONS = 18  # which a broker asks the controller alone
LIST_OFFSETS, LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA, CONTROLLED_SHUTDOWN = 2, 4, 5, 6, 7
OFFSET_FOR_LEADER_EPOCH, ADD_PARTITIONS_TO_TXN, WRITE_TXN_MARKERS, ALTER_PARTITION = 23, 24, 27, 56
ALLOCATE_PRODUCER_IDS = 67
LOST = (
    OFFSET_FOR_LEADER_EPOCH, WRITE_TXN_MARKERS, ADD_PARTITIONS_TO_TXN, LIST_OFFSETS, ALTER_PARTITION, STOP_REPLICA, UPDATE_METADATA,
    CONTROLLED_SHUTDOWN,
)  # fmt: skip


def lost_requests(world: World, fault: Fault) -> bool:
    """The next few requests of one kind that brokers ask each other are lost, each with its connection."""
    if not serving(world):
        return False
    key = LOST[int(fault.target * len(LOST))]
    lose_next(world, key, f"a request {key}", 1 + int(fault.amount * 3))
    return True


def lost_allocations(world: World, fault: Fault) -> bool:
    """The next brokers that ask for ids to give to producers hear nothing, once or twice."""
    if not serving(world):
        return False
    lose_next(world, ALLOCATE_PRODUCER_IDS, "AllocateProducerIds", 1 + int(fault.amount * 2))
    return True


def dies_when_told(world: World, fault: Fault) -> bool:
    """A broker dies when a controller tells it who leads, or to delete a replica, and has done nothing of it."""
    if controller(world) is None:
        return False
    key = LEADER_AND_ISR if fault.target < 0.3 else STOP_REPLICA
    left = 1 + int(fault.amount * 2)

    def die(transport: SimTransport, frames: list[bytes]) -> bool:
        nonlocal left
        told = next(b for b in world.brokers.values() if b.name == transport.remote_name)
        if world.exempt or not told.is_running or (key == STOP_REPLICA and not any(map(_deletes, frames))):
            return False
        left -= 1
        if left:
            return False

        def end() -> None:
            if told.is_running and not world.exempt:
                told.kill()
                start_again(world, told, fault.lasts_s)

        world.note(f"{told.name} dies of request {key} of {transport.host.name}")
        world.network.reset(transport)
        strike_later(world, 0.0, end)
        return True

    when_written(world, key, die)
    return True


def deposed_while_asked(world: World, fault: Fault) -> bool:
    """A broker asks the controller which versions it has, or for another ISR, hears nothing, and another one is elected: which is to be
    asked anew. A controller is asked for its versions once, so that one is elected first."""
    if controller(world) is None:
        return False
    key = API_VERSIONS if fault.target < 0.7 else ALTER_PARTITION
    if key == API_VERSIONS:
        world.depose()

    def depose(transport: SimTransport, frames: list[bytes]) -> bool:
        asks, asked = transport.host.name, transport.remote_name
        now = controller(world)
        if world.exempt or now is None or now.name != asked or asks == asked:
            return False
        world.note(f"{asked} is deposed while {asks} asks it, by request {key}")
        cut(world, [(asked, asks)], fault.lasts_s)

        def end() -> None:
            world.depose()

        strike_later(world, 0.0, end)
        return True

    when_written(world, key, depose)
    return True


def _deletes(frame: bytes) -> bool:
    view = memoryview(frame)[4:]
    header = decode_request_header(view)
    request = StopReplicaRequest.decode(header.api_version, view[header.body_offset :])
    return any(one.delete_partition for topic in request.topic_states for one in topic.partition_states)


TABLE = table_of(lost_requests, lost_allocations, dies_when_told, deposed_while_asked)
