"""Faults by name, done to a world. Each function starts one fault and ends it after `lasts_s`.

Those of processes, links and clocks are here; of disks, of the wire, of the store, of clients and of the controller's
steps in modules of their own. A fault that finds nothing to act on (its broker is already dead) does nothing and is not counted.
"""

import errno
from collections.abc import Callable

from odradek.log.memory_files import MemoryDisk
from odradek.sim.faults import (
    cleaner,
    clients,
    controllers,
    damage,
    disks,
    moments,
    requests,
    rolling,
    rude,
    slow_members,
    stores,
    strangers,
    targets,
    transactions,
    wants,
    wire,
)
from odradek.sim.plan import ADMINISTERED, Fault
from odradek.sim.world import SimBroker, World

# End the life of a broker's process or of its session with the store.
# In so many of the kills the file system is unmounted before the next start: nothing is lost, and nobody can know that.
UNMOUNTED = 0.25
ENDS_A_LIFE = frozenset(
    {
        "kill_leader", "kill_controller", "kill_all", "stop_in_order", "pause", "bounce", "expire_session",
        "cut_leader_from_store", "power_cut", "power_cut_all", "fsync_fails", "disk_errors", "disk_full",
        "kill_controller_between_steps", "pause_controller_between_steps", "power_cut_unflushed", "torn_tail",
        "index_bit_flipped", "index_misdirected", "index_torn", "directory_offline", "batch_bit_flipped_cold",
        "batch_bit_flipped_hot", "disks_swapped", "file_operation_fails",
        "segment_missing", "descriptors_run_out", "kill_coordinator", "disk_fails_while_cleaning",
        "kill_transaction_coordinator", "slow_coordinator_load", "leaders_in_turn", "elected_again",
        "coordinator_elected_again", "dies_when_told", "leave_laggards", "threads_run_out",
        "one_directory_left", "log_overwritten", "log_cut_short", "two_of_a_name", "delete_amid_move",
        "all_others_die", "raise_min_isr",
    }
)  # fmt: skip


def inject(world: World, fault: Fault) -> bool:
    """True if something was done."""
    # An emptied disk (F22) is survived as long as the others of its ISR live until the controller has taken it out.
    # With two failures at once, one of them of a disk, the only copy of a record may be the one that is gone, and
    # no rule can bring it back: nobody promises that.
    if world.exempt and fault.kind in ENDS_A_LIFE:
        return False
    done: bool
    if fault.kind in ADMINISTERED:
        done = world.administration.begin(fault)
    else:
        done = TABLE[fault.kind](world, fault)
    if done:
        world.note(f"fault {fault}")
    return done


def _kill(world: World, broker: SimBroker | None, fault: Fault, *, power_cut: bool = False) -> bool:
    if broker is None:
        return False
    broker.kill(power_cut=power_cut)
    if fault.amount < UNMOUNTED:
        broker.unmount_disks()
    targets.start_again(world, broker, fault.lasts_s)
    return True


def kill_leader(world: World, fault: Fault) -> bool:
    return _kill(world, targets.leader(world, fault), fault)


def kill_controller(world: World, fault: Fault) -> bool:
    return _kill(world, targets.controller(world), fault)


def kill_all(world: World, fault: Fault) -> bool:
    return any([_kill(world, broker, fault) for broker in targets.serving(world)])


def all_others_die(world: World, fault: Fault) -> bool:
    """But one leader, for longer than their sessions: it is told to lead on alone, while clients wait for the others."""
    leader = targets.leader(world, fault)
    if leader is None:
        return False
    session_s = 0.0 if world.store_notices_death else leader.settings().zookeeper_session_timeout_ms / 1000
    others = [broker for broker in targets.serving(world) if broker is not leader]
    for broker in others:
        broker.kill()
        targets.start_again(world, broker, session_s + fault.lasts_s)
    return bool(others)


def bounce(world: World, fault: Fault) -> bool:
    """Dead and back before anybody has noticed: same id, larger broker epoch."""
    broker = targets.pick(world, fault)
    if broker is None:
        return False
    broker.kill(at_once=True)
    broker.start()
    return True


def stop_in_order(world: World, fault: Fault) -> bool:
    broker = targets.pick(world, fault)
    if broker is None:
        return False
    broker.stop()
    world.when_stopped(broker, lambda: targets.start_again(world, broker, fault.lasts_s))
    return True


def pause(world: World, fault: Fault) -> bool:
    broker = targets.leader(world, fault)
    if broker is None:
        return False
    broker.pause(fault.lasts_s)
    return True


def cut_leader_from_followers(world: World, fault: Fault) -> bool:
    leader = targets.leader(world, fault)
    if leader is None:
        return False
    others = targets.others(world, leader)
    kept = int(fault.amount * len(others))  # 0: from all of them
    return targets.cut(world, targets.both_ways(leader, others[kept:]), fault.lasts_s)


def cut_leader_from_store(world: World, fault: Fault) -> bool:
    leader = targets.leader(world, fault)
    if leader is None:
        return False
    world.cut_store(leader)
    targets.later(world, fault.lasts_s, lambda: world.heal_store(leader))
    return True


def cut_controller_from_brokers(world: World, fault: Fault) -> bool:
    controller = targets.controller(world)
    if controller is None:
        return False
    return targets.cut(world, targets.both_ways(controller, targets.others(world, controller)), fault.lasts_s)


def cut_one_way(world: World, fault: Fault) -> bool:
    broker = targets.pick(world, fault)
    if broker is None:
        return False
    pairs = [(broker.name, other.name) for other in targets.others(world, broker)]
    if fault.amount < 0.5:
        pairs = [(target, source) for source, target in pairs]
    return targets.cut(world, pairs, fault.lasts_s)


def slow_link(world: World, fault: Fault) -> bool:
    broker = targets.pick(world, fault)
    return broker is not None and targets.shape(
        world, broker, fault.lasts_s, latency_s=0.02 + 0.2 * fault.amount, rate=400_000.0, resets=0.0
    )


def resets(world: World, fault: Fault) -> bool:
    broker = targets.pick(world, fault)
    return broker is not None and targets.shape(
        world, broker, fault.lasts_s, latency_s=0.001, rate=0.0, resets=0.02 + 0.2 * fault.amount
    )


def clock_jump(world: World, fault: Fault) -> bool:
    broker = targets.pick(world, fault)
    if broker is None:
        return False
    world.clock_offsets[broker.name] = 7200.0 * (fault.amount - 0.5)
    return True


def power_cut(world: World, fault: Fault) -> bool:
    return _kill(world, targets.leader(world, fault), fault, power_cut=True)


def power_cut_all(world: World, fault: Fault) -> bool:
    return any([_kill(world, broker, fault, power_cut=True) for broker in targets.serving(world)])


def _inject(disk: MemoryDisk, fault: Fault, *operations: str) -> None:
    for operation in operations:
        disk.inject(operation, errno.EIO, name=".log", after=int(fault.amount * 20))


def _disk_fails(world: World, fault: Fault, fail: Callable[[MemoryDisk], None]) -> bool:
    broker = targets.pick(world, fault)
    if broker is None:
        return False
    fail(broker.disk)

    def replaced() -> None:
        """Somebody mended the disk and starts the broker again, whatever it thought of itself."""
        broker.disk.heal()
        if world.is_healed and disks.has_all_directories(broker):
            return  # it may be quiescent by now: nothing is left to be ended
        if broker.is_running:
            broker.kill()
        broker.start()

    targets.later(world, fault.lasts_s, replaced)
    return True


def fsync_fails(world: World, fault: Fault) -> bool:
    return _disk_fails(world, fault, lambda disk: _inject(disk, fault, "sync"))


def disk_errors(world: World, fault: Fault) -> bool:
    operations = ("append", "read") if fault.amount < 0.5 else ("append",)
    return _disk_fails(world, fault, lambda disk: _inject(disk, fault, *operations))


def disk_full(world: World, fault: Fault) -> bool:
    """A little still fits: the write that does not is a short one."""
    return _disk_fails(world, fault, lambda disk: disk.fill(int(4_000 * fault.amount)))


def disk_emptied(world: World, fault: Fault) -> bool:
    """The disk of one broker is taken away while every ISR is full, and it comes back empty (H1)."""
    broker = targets.pick(world, fault)
    if broker is None or not world.is_everything_healthy() or not world.is_everything_in_sync():
        return False
    broker.kill()
    broker.wipe_disk()
    targets.start_again(world, broker, fault.lasts_s)
    return True


def disks_swapped(world: World, fault: Fault) -> bool:
    """Two brokers come back with each other's disks: neither starts, and neither writes on what is not its own."""
    running = targets.serving(world)
    if len(running) < 2:
        return False
    first = int(fault.target * len(running))
    pair = running[first], running[(first + 1) % len(running)]

    def swap() -> None:
        for broker in pair:
            if broker.is_running:
                broker.kill()
        one, other = pair
        for mine, its in zip(one.disks, other.disks, strict=True):
            mine.swap_contents(its)
        for broker in pair:
            broker.start()

    def swap_back() -> None:
        world.note(f"{pair[0].name} and {pair[1].name} get their own disks back")
        assert not any(broker.is_serving for broker in pair), "a broker serves what is on another one's disk"
        swap()

    swap()
    targets.later(world, fault.lasts_s, swap_back)
    return True


TABLE: targets.Table = {
    **targets.table_of(
        kill_leader, kill_controller, kill_all, all_others_die, stop_in_order, pause, bounce, cut_leader_from_followers,
        cut_leader_from_store, cut_controller_from_brokers, cut_one_way, slow_link, resets, clock_jump, power_cut,
        power_cut_all, fsync_fails, disk_errors, disk_full, disk_emptied, disks_swapped,
    ),
    **cleaner.TABLE,
    **clients.TABLE,
    **controllers.TABLE,
    **damage.TABLE,
    **disks.TABLE,
    **moments.TABLE,
    **requests.TABLE,
    **rolling.TABLE,
    **rude.TABLE,
    **slow_members.TABLE,
    **stores.TABLE,
    **strangers.TABLE,
    **transactions.TABLE,
    **wants.TABLE,
    **wire.TABLE,
}  # fmt: skip
