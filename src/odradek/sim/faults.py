"""Faults by name, done to a world. Each function starts one fault and ends it after `lasts_s`.

A fault that finds nothing to act on (its broker is already dead) does nothing and is not counted.
"""

import errno
from collections.abc import Callable

from odradek.sim import further_faults
from odradek.sim.plan import ACTIONS, Fault
from odradek.sim.world import SimBroker, World

Act = Callable[[World, Fault], bool]


# End the life of a broker's process or of its session with the store.
ENDS_A_LIFE = frozenset(
    {
        "kill_leader", "kill_controller", "kill_all", "stop_in_order", "pause", "bounce", "expire_session", "cut_leader_from_store",
        "power_cut", "power_cut_all", "fsync_fails", "disk_errors", "disk_full", "kill_controller_between_steps",
        "power_cut_unflushed", "torn_tail", "index_bit_flipped", "index_misdirected", "directory_offline",
    }
)  # fmt: skip


def inject(world: World, fault: Fault) -> bool:
    """True if something was done."""
    # An emptied disk (F22) is survived as long as the others of its ISR live until the controller has taken it out.
    # With two failures at once, one of them of a disk, the only copy of a record may be the one that is gone, and
    # no rule can bring it back: nobody promises that.
    if world.excused and fault.kind in ENDS_A_LIFE:
        return False
    done: bool
    if fault.kind in ACTIONS:
        done = world.administration.begin(fault)
    else:
        done = (TABLE.get(fault.kind) or further_faults.TABLE[fault.kind])(world, fault)
    if done:
        world.note(f"fault {fault}")
    return done


def _later(world: World, seconds: float, undo: Callable[[], None]) -> None:
    world.loop.call_later(seconds, undo, context=world.world_context())


def _running(world: World) -> list[SimBroker]:
    return [b for b in world.brokers.values() if b.is_running and b.is_serving]


def _pick(world: World, fault: Fault) -> SimBroker | None:
    running = _running(world)
    return running[int(fault.target * len(running))] if running else None


def _controller(world: World) -> SimBroker | None:
    for broker in _running(world):
        if broker.is_controller:
            return broker
    return None


def _leader(world: World, fault: Fault) -> SimBroker | None:
    """The leader of some partition, as it believes itself."""
    leaders = [b for b in _running(world) if b.leads_something]
    return leaders[int(fault.target * len(leaders))] if leaders else _pick(world, fault)


def _start_again(world: World, broker: SimBroker, seconds: float) -> None:
    def start() -> None:
        if not broker.is_running:
            broker.start()

    _later(world, seconds, start)


def _kill(world: World, broker: SimBroker | None, fault: Fault, *, power_cut: bool = False) -> bool:
    if broker is None:
        return False
    broker.kill(power_cut=power_cut)
    _start_again(world, broker, fault.lasts_s)
    return True


def kill_leader(world: World, fault: Fault) -> bool:
    return _kill(world, _leader(world, fault), fault)


def kill_controller(world: World, fault: Fault) -> bool:
    return _kill(world, _controller(world), fault)


def kill_all(world: World, fault: Fault) -> bool:
    return any([_kill(world, broker, fault) for broker in _running(world)])


def bounce(world: World, fault: Fault) -> bool:
    """Dead and back before anybody has noticed: same id, larger broker epoch."""
    broker = _pick(world, fault)
    if broker is None:
        return False
    broker.kill(at_once=True)
    broker.start()
    return True


def stop_in_order(world: World, fault: Fault) -> bool:
    broker = _pick(world, fault)
    if broker is None:
        return False
    broker.stop()
    world.when_stopped(broker, lambda: _start_again(world, broker, fault.lasts_s))
    return True


def pause(world: World, fault: Fault) -> bool:
    broker = _leader(world, fault)
    if broker is None:
        return False
    broker.pause(fault.lasts_s)
    return True


def _cut(world: World, pairs: list[tuple[str, str]], seconds: float) -> bool:
    for source, target in pairs:
        world.cut(source, target)

    def heal() -> None:
        for source, target in pairs:
            world.heal(source, target)

    _later(world, seconds, heal)
    return bool(pairs)


def _both_ways(one: SimBroker, others: list[SimBroker]) -> list[tuple[str, str]]:
    return [pair for other in others for pair in ((one.name, other.name), (other.name, one.name))]


def _others(world: World, broker: SimBroker) -> list[SimBroker]:
    return [b for b in world.brokers.values() if b is not broker]


def cut_leader_from_followers(world: World, fault: Fault) -> bool:
    leader = _leader(world, fault)
    if leader is None:
        return False
    others = _others(world, leader)
    kept = int(fault.amount * len(others))  # 0: from all of them
    return _cut(world, _both_ways(leader, others[kept:]), fault.lasts_s)


def cut_leader_from_store(world: World, fault: Fault) -> bool:
    leader = _leader(world, fault)
    if leader is None:
        return False
    world.cut_store(leader)
    _later(world, fault.lasts_s, lambda: world.heal_store(leader))
    return True


def cut_controller_from_brokers(world: World, fault: Fault) -> bool:
    controller = _controller(world)
    if controller is None:
        return False
    return _cut(world, _both_ways(controller, _others(world, controller)), fault.lasts_s)


def cut_one_way(world: World, fault: Fault) -> bool:
    broker = _pick(world, fault)
    if broker is None:
        return False
    pairs = [(broker.name, other.name) for other in _others(world, broker)]
    if fault.amount < 0.5:
        pairs = [(target, source) for source, target in pairs]
    return _cut(world, pairs, fault.lasts_s)


def _shape(
    world: World, broker: SimBroker, fault: Fault, *, latency_s: float, rate: float, resets: float
) -> bool:
    links = [world.network.link(a, b) for a, b in _both_ways(broker, _others(world, broker))]
    before = [(link.latency_s, link.bytes_per_second, link.reset_probability) for link in links]
    for link in links:
        link.latency_s, link.bytes_per_second, link.reset_probability = latency_s, rate, resets

    def undo() -> None:
        for link, (latency, bytes_per_second, probability) in zip(links, before, strict=True):
            link.latency_s, link.bytes_per_second = latency, bytes_per_second
            link.reset_probability = probability

    _later(world, fault.lasts_s, undo)
    return True


def slow_link(world: World, fault: Fault) -> bool:
    broker = _pick(world, fault)
    return broker is not None and _shape(
        world, broker, fault, latency_s=0.02 + 0.2 * fault.amount, rate=400_000.0, resets=0.0
    )


def resets(world: World, fault: Fault) -> bool:
    broker = _pick(world, fault)
    return broker is not None and _shape(
        world, broker, fault, latency_s=0.001, rate=0.0, resets=0.02 + 0.2 * fault.amount
    )


def expire_session(world: World, fault: Fault) -> bool:
    broker = _pick(world, fault)
    if broker is None or broker.link is None:
        return False
    broker.link.expire()
    return True


def late_watches(world: World, fault: Fault) -> bool:
    broker = _pick(world, fault)
    if broker is None or broker.link is None:
        return False
    link = broker.link
    link.hold_watches()
    _later(world, fault.lasts_s, link.release_watches)
    return True


def store_restart(world: World, fault: Fault) -> bool:
    if world.store.is_down:
        return False
    world.store.is_down = True

    def up() -> None:
        world.store.is_down = False

    _later(world, fault.lasts_s, up)
    return True


def lost_answers(world: World, fault: Fault) -> bool:
    world.store.lost_answer_probability = 0.1 + 0.5 * fault.amount

    def undo() -> None:
        world.store.lost_answer_probability = 0.0

    _later(world, fault.lasts_s, undo)
    return True


def clock_jump(world: World, fault: Fault) -> bool:
    broker = _pick(world, fault)
    if broker is None:
        return False
    world.clock_offsets[broker.name] = 7200.0 * (fault.amount - 0.5)
    return True


def power_cut(world: World, fault: Fault) -> bool:
    return _kill(world, _leader(world, fault), fault, power_cut=True)


def power_cut_all(world: World, fault: Fault) -> bool:
    return any([_kill(world, broker, fault, power_cut=True) for broker in _running(world)])


def _disk_fails(world: World, fault: Fault, operations: tuple[str, ...], error: int) -> bool:
    broker = _pick(world, fault)
    if broker is None:
        return False
    for operation in operations:
        broker.disk.inject(operation, error, name=".log", after=int(fault.amount * 20))

    def replaced() -> None:
        """Somebody mended the disk and starts the broker again, whatever it thought of itself."""
        broker.disk.heal()
        if broker.is_running:
            broker.kill()
        broker.start()

    _later(world, fault.lasts_s, replaced)
    return True


def fsync_fails(world: World, fault: Fault) -> bool:
    return _disk_fails(world, fault, ("sync",), errno.EIO)


def disk_errors(world: World, fault: Fault) -> bool:
    return _disk_fails(world, fault, ("append", "read") if fault.amount < 0.5 else ("append",), errno.EIO)


def disk_full(world: World, fault: Fault) -> bool:
    return _disk_fails(world, fault, ("append",), errno.ENOSPC)


def disk_emptied(world: World, fault: Fault) -> bool:
    """The disk of one broker is taken away while every ISR is full, and it comes back empty (H1)."""
    broker = _pick(world, fault)
    if broker is None or not world.is_everybody_well() or not world.is_everything_in_sync():
        return False
    broker.kill()
    broker.wipe_disk()
    _start_again(world, broker, fault.lasts_s)
    return True


TABLE: dict[str, Act] = {
    function.__name__: function
    for function in (
        kill_leader, kill_controller, kill_all, stop_in_order, pause, cut_leader_from_followers,
        cut_leader_from_store, cut_controller_from_brokers, cut_one_way, slow_link, resets, bounce, expire_session,
        late_watches, store_restart, lost_answers, clock_jump, power_cut, power_cut_all, fsync_fails, disk_errors,
        disk_full, disk_emptied,
    )
}  # fmt: skip
