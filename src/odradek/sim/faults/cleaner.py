"""Faults in the midst of a compaction (F29): the process dies between any two changes of names, or in one, or the disk fails
there once.
"""

import errno

from odradek.sim.faults.rude import fails_once
from odradek.sim.faults.targets import later, pick, start_again, table_of
from odradek.sim.plan import Fault
from odradek.sim.world import World

# Of the files a compaction makes, puts in place and takes out.
MARKS = (".cleaned", ".swap", ".deleted", "cleaner-offset-checkpoint")
MOST_STEPS = 60
# The moment in which neither the old segments nor the new one are whole: a handful of steps of each compaction.
SWAPS = (".swap",)
MOST_SWAP_STEPS = 6
# How long one waits for the cleaner to begin.
ARMED_S = 10.0


def killed_while_cleaning(world: World, fault: Fault) -> bool:
    """At one of the next steps that name such a file, which is half done."""
    broker = pick(world, fault)
    if broker is None:
        return False
    disk = broker.disks[int(fault.amount * 7) % len(broker.disks)]
    swaps_only = fault.target * 1_000 % 1.0 < 0.3
    marks, most = (SWAPS, MOST_SWAP_STEPS) if swaps_only else (MARKS, MOST_STEPS)
    host, left = broker.host, 1 + int(fault.amount * most)

    def dies_at(step: str) -> bool:
        nonlocal left
        if broker.host is not host or not broker.is_running or not any(mark in step for mark in marks):
            return False
        left -= 1
        if left > 0 or world.exempt or world.is_healed:
            return False
        disk.dies_at = None
        world.note(f"{broker.name} dies in {step}")
        broker.kill()
        start_again(world, broker, fault.lasts_s)
        return True

    def disarm() -> None:
        if disk.dies_at is dies_at:
            disk.dies_at = None

    disk.dies_at = dies_at
    later(world, ARMED_S, disarm)
    return True


# What a compaction does to its files, and how it fails once.
ONCE: tuple[tuple[str, str, int], ...] = (
    ("open", ".cleaned", errno.EMFILE),
    ("append", ".cleaned", errno.EIO),
    ("short", ".cleaned", errno.ENOSPC),
    ("rename", ".cleaned", errno.EIO),
    ("rename", ".log", errno.EIO),
    ("remove", ".deleted", errno.EACCES),
    ("replace", "cleaner-offset-checkpoint", errno.ENOSPC),
)


def disk_fails_while_cleaning(world: World, fault: Fault) -> bool:
    """Once, on a disk that is well before it and after it."""
    broker = pick(world, fault)
    if broker is None:
        return False
    operation, name, error = ONCE[int(fault.amount * len(ONCE))]
    return fails_once(world, fault, broker, operation, error, fault.amount * len(ONCE) % 1.0, name=name)


TABLE = table_of(killed_while_cleaning, disk_fails_while_cleaning)
