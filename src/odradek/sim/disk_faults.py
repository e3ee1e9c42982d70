"""Faults of disks: what a power cut tears (F15, F17), bits and blocks that are wrong (F20, F21), a directory that fails
alone (F23).

A disk that has lost what was not flushed is survived as long as the others of its ISR live until the controller has
taken it out, as an emptied one is (`faults.disk_emptied`): such a fault waits until everybody is well and in sync.
"""

import errno
from collections.abc import Callable, Iterator

from odradek.log.memory_files import Choose, MemoryDisk, _Inode, _Node
from odradek.sim.plan import Fault
from odradek.sim.world import SimBroker, World

Act = Callable[[World, Fault], bool]
INDEXES = (".index", ".timeindex")
# Made again from the batches, or guarded by a checksum: an error in one must not be noticed by anybody.
DERIVED = (*INDEXES, ".snapshot", "leader-epoch-checkpoint")


def _serving(world: World, fault: Fault) -> SimBroker | None:
    running = [b for b in world.brokers.values() if b.is_running and b.is_serving]
    return running[int(fault.target * len(running))] if running else None


def _start_after(world: World, broker: SimBroker, seconds: float) -> None:
    def start() -> None:
        if not broker.is_running:
            broker.start()

    world.loop.call_later(seconds, start, context=world.world_context())


def _survives_a_loss(world: World) -> bool:
    return not world.excused and world.is_everybody_well() and world.is_everything_in_sync()


def _loses_unsynced(world: World, fault: Fault, choose: Choose | None) -> bool:
    broker = _serving(world, fault)
    if broker is None or not _survives_a_loss(world):
        return False
    broker.kill(power_cut=True, choose=choose)
    broker.excuse()
    _start_after(world, broker, fault.lasts_s)
    return True


def power_cut_unflushed(world: World, fault: Fault) -> bool:
    """One broker loses what it had acknowledged and not flushed: any pages, any names."""
    return _loses_unsynced(world, fault, None)


def torn_tail(world: World, fault: Fault) -> bool:
    """Every name and every length survive the cut, pages of the content do not: zeros where batches were."""
    random = world.loop.random

    def choose(count: int) -> int:
        # Names and lengths are asked for first, with the largest answer for everything; a page asks for 0 or 1.
        return count - 1 if count != 2 else int(random.random() < 0.6)

    return _loses_unsynced(world, fault, choose)


def index_bit_flipped(world: World, fault: Fault) -> bool:
    """A killed broker finds one bit of a file wrong that is made from the batches."""
    broker = _serving(world, fault)
    if broker is None:
        return False
    files = [found for disk in broker.disks for found in _files(disk, DERIVED) if found[2].data]
    if not files:
        return False
    disk, path, inode = files[int(fault.amount * len(files))]
    broker.kill()
    bit = int(world.loop.random.random() * len(inode.data) * 8)
    disk.flip_bit(path, bit)
    world.note(f"bit {bit} of {path} flipped")
    _start_after(world, broker, fault.lasts_s)
    return True


def index_misdirected(world: World, fault: Fault) -> bool:
    """A killed broker finds a block of one index where a block of another belongs."""
    broker = _serving(world, fault)
    if broker is None:
        return False
    files = [found for disk in broker.disks for found in _files(disk, INDEXES) if found[2].data]
    if len(files) < 2:
        return False
    first = int(fault.amount * len(files))
    _, source, block = files[first]
    _, target, written = files[(first + 1) % len(files)]
    broker.kill()
    for content in (written.data, written.durable):
        content[: len(block.data)] = block.data
    world.note(f"{source} written over {target}")
    _start_after(world, broker, fault.lasts_s)
    return True


def directory_offline(world: World, fault: Fault) -> bool:
    """One of a broker's directories fails; the others go on. It is back when the broker is started again."""
    broker = _serving(world, fault)
    if broker is None or len(broker.disks) < 2:
        return False
    disk = broker.disks[int(fault.amount * len(broker.disks))]
    for operation in ("append", "read", "sync", "replace", "truncate"):
        disk.inject(operation, errno.EIO, name=disk.path)

    def replaced() -> None:
        if world.excused:  # a second one does not end its life now, see `faults.inject`
            world.loop.call_later(0.5, replaced, context=world.world_context())
            return
        disk.heal()
        if broker.is_running:
            broker.kill()
        broker.start()

    world.loop.call_later(fault.lasts_s, replaced, context=world.world_context())
    return True


def _files(disk: MemoryDisk, endings: tuple[str, ...]) -> Iterator[tuple[MemoryDisk, str, _Inode]]:
    def walk(node: _Node, path: str) -> Iterator[tuple[MemoryDisk, str, _Inode]]:
        for name in sorted(node.entries):
            below = node.entries[name]
            if isinstance(below, _Node):
                yield from walk(below, f"{path}{name}/")
            elif name.endswith(endings) and "-delete/" not in path:
                yield disk, f"{path}{name}", below

    yield from walk(disk._top, "")


TABLE: dict[str, Act] = {
    function.__name__: function
    for function in (power_cut_unflushed, torn_tail, index_bit_flipped, index_misdirected, directory_offline)
}
