"""A world that does not behave: what other faults leave whole out of politeness."""

import errno

from odradek.log.memory_files import MemoryDisk
from odradek.sim.faults.disks import has_all_directories, has_given_up_the_last_copy
from odradek.sim.faults.targets import controller, later, leader, pick, table_of
from odradek.sim.loop import Host
from odradek.sim.network import SimTransport
from odradek.sim.plan import Fault
from odradek.sim.world import PORT, SimBroker, World

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
    names = {other.name for other in world.brokers.values()}
    return _arrives_late(world, fault, broker.host, names, broker.name)


def late_client_bytes(world: World, fault: Fault) -> bool:
    """The same between a producer or a consumer and the brokers: what it has asked for, and has asked for again since over
    another connection, is asked for once more, behind what came later."""
    workload = world.clients
    running = [] if workload is None else [p for p in workload.processes if p.is_running]
    if not running:
        return False
    process = running[int(fault.target * len(running))]
    names = {broker.name for broker in world.brokers.values()}
    return _arrives_late(world, fault, process.host, names, f"client {process.host}")


def _arrives_late(world: World, fault: Fault, host: Host, to: set[str], name: str) -> bool:
    network = world.network
    held = [
        transport
        for transport in network.transports
        if transport.host is host and transport.remote_name in to and _is_asking(transport)
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
            world.note(f"{late} bytes of {name} are under way, and their connections are not")
        later(world, fault.lasts_s, arrive)

    def arrive() -> None:
        for transport in held:
            network.let_go(transport)

    later(world, LONGEST_HELD_S * fault.amount, break_off)
    return bool(held)


# What fails once, and how: the rest of the file is there and works, and so does the rest of the disk.
ONCE: tuple[tuple[str, int], ...] = (
    ("open", errno.EMFILE),
    ("open", errno.ENFILE),
    ("rename", errno.ENOENT),
    ("remove", errno.ENOENT),
    ("remove", errno.EACCES),
    ("read", errno.EIO),
    ("replace", errno.EMFILE),
    ("truncate", errno.EIO),
    ("append", errno.EDQUOT),
    ("short", errno.ENOSPC),
    ("names", errno.EMFILE),
)
FURTHEST = 24


def file_operation_fails(world: World, fault: Fault) -> bool:
    """The k-th operation of one kind fails on a disk that is well before it and after it, and the broker goes on with it.

    Where the broker takes the directory offline for it, somebody starts the broker again later.
    """
    broker = pick(world, fault)
    if broker is None:
        return False
    operation, error = ONCE[int(fault.amount * len(ONCE))]
    return fails_once(world, fault, broker, operation, error, fault.amount * len(ONCE) % 1.0)


def segment_missing(world: World, fault: Fault) -> bool:
    """One file of a log cannot be found when it is opened: somebody has moved it away, and back."""
    broker = pick(world, fault)
    return broker is not None and fails_once(world, fault, broker, "open", errno.ENOENT, fault.amount)


def fails_once(
    world: World, fault: Fault, broker: SimBroker, operation: str, error: int, rest: float, *, name: str = ""
) -> bool:
    """One operation on a name that contains `name`, after up to `FURTHEST` that work."""
    disk = broker.disks[int(rest * len(broker.disks))]
    disk.inject(operation, error, name=name, after=int(rest * FURTHEST), times=1)
    world.note(
        f"{operation} number {int(rest * FURTHEST) + 1} of {disk.path}{f' on {name}' if name else ''} fails: {errno.errorcode[error]}"
    )

    _works_again_later(world, fault, broker, disk)
    return True


def descriptors_run_out(world: World, fault: Fault) -> bool:
    """Nothing more can be opened by a broker for a while; what it has open goes on working."""
    broker = pick(world, fault)
    if broker is None:
        return False
    for disk in broker.disks:
        disk.inject("open", errno.EMFILE)
        disk.inject("names", errno.EMFILE)
        _works_again_later(world, fault, broker, disk)
    return True


def _works_again_later(world: World, fault: Fault, broker: SimBroker, disk: MemoryDisk) -> None:
    """Where the broker has taken a directory offline meanwhile, or given a log up, somebody starts it again."""

    def mended() -> None:
        disk.heal()
        if broker.is_serving and has_all_directories(broker) and not has_given_up_the_last_copy(broker):
            return
        if world.exempt and not world.is_healed:  # no second life ends now, see `faults.injection.inject`
            later(world, 0.5, mended)
            return
        if broker.is_running:
            broker.kill()
        broker.start()

    later(world, fault.lasts_s, mended)


def loop_hangs(world: World, fault: Fault) -> bool:
    """A broker's loop stands still while its threads live. It answers nobody; its session ends where that lasts, for signs
    of life are given for the loop (`store/loop_beat`)."""
    broker = leader(world, fault)
    if broker is None:
        return False
    broker.hang(fault.lasts_s)
    return True


def mute_broker(world: World, fault: Fault) -> bool:
    """What the controller tells one broker does not arrive, or what it answers does not: its session stands, and so do all its other
    connections. In such a world a controller keeps one request for it (`Plan.requests_kept`)."""
    asked = controller(world)
    term = None if asked is None or asked.runtime is None else asked.runtime.controller.term
    boxes = {} if term is None else term._outboxes._boxes
    if not boxes:
        return False
    broker, (_, box) = list(boxes.items())[int(fault.target * len(boxes))]
    channel = box._link._channel
    told = None if channel is None else channel.transport
    assert told is None or isinstance(told, SimTransport)
    held = told if told is None or fault.amount < 0.5 else told.peer
    if held is None:
        return False
    world.network.hold(held)
    what = "tells broker" if held is told else "is answered by broker"
    world.note(f"nothing arrives of what the controller {what} {broker}")
    later(world, fault.lasts_s, lambda: world.network.let_go(held))
    return True


def _is_asking(transport: SimTransport) -> bool:
    """This end has connected to the other, and not the other way round."""
    return bool(transport.get_extra_info("sockname")[1] != PORT)


TABLE = table_of(
    late_bytes,
    late_client_bytes,
    file_operation_fails,
    segment_missing,
    descriptors_run_out,
    loop_hangs,
    mute_broker,
)
