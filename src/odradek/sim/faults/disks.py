"""Faults of disks: what a power cut tears (F15, F17), bits and blocks that are wrong (F20, F21), a directory that fails
alone (F23).

A disk that has lost what was not flushed is survived as long as the others of its ISR live until the controller has
taken it out, as an emptied one is (`faults.injection.disk_emptied`): such a fault waits until everybody is well and in sync.
"""

import errno
from collections.abc import Callable, Iterator

from odradek.log.log_manager import parse_directory_name
from odradek.log.memory_files import Choose, MemoryDisk, _Inode, _Node
from odradek.records.batch import EPOCH_OFFSET, LENGTH_OFFSET, MAGIC_OFFSET, iter_batches
from odradek.sim.faults.targets import later, pick, start_again, table_of
from odradek.sim.plan import Fault
from odradek.sim.world import SimBroker, World

INDEXES = (".index", ".timeindex")
OFFSET_AND_EPOCH_BYTES = LENGTH_OFFSET + MAGIC_OFFSET - EPOCH_OFFSET
# Made again from the batches, or guarded by a checksum: an error in one must not be noticed by anybody.
DERIVED = (*INDEXES, ".snapshot", "leader-epoch-checkpoint")


def survives_a_loss(world: World) -> bool:
    return not world.exempt and world.is_everything_healthy() and world.is_everything_in_sync()


def _loses_unsynced(world: World, fault: Fault, choose: Choose | None) -> bool:
    broker = pick(world, fault)
    if broker is None or not survives_a_loss(world):
        return False
    broker.kill(power_cut=True, choose=choose)
    broker.exempt()
    start_again(world, broker, fault.lasts_s)
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
    broker = pick(world, fault)
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
    start_again(world, broker, fault.lasts_s)
    return True


def index_misdirected(world: World, fault: Fault) -> bool:
    """A killed broker finds a block of one index where a block of another belongs."""
    broker = pick(world, fault)
    if broker is None:
        return False
    files = [found for disk in broker.disks for found in _files(disk, INDEXES) if found[2].data]
    if len(files) < 2:
        return False
    first = int(fault.amount * len(files))
    _, source, block = files[first]
    _, target, written = files[(first + 1) % len(files)]
    broker.kill()
    written.data[: len(block.data)] = block.data  # and longer by it perhaps
    written.durable = bytes(block.data) + written.durable[len(block.data) :]
    world.note(f"{source} written over {target}")
    start_again(world, broker, fault.lasts_s)
    return True


def index_torn(world: World, fault: Fault) -> bool:
    """A broker that was killed or stopped finds one index too short for its entries, or not at all. After a stop in order it
    trusts what it finds; after a kill it makes the indexes anew from the recovery point on."""
    broker = pick(world, fault)
    if broker is None:
        return False
    if fault.target * 1_000 % 1.0 < 0.5:
        broker.kill()
        _tear_an_index(world, broker, fault)
        return True
    broker.stop()
    world.when_stopped(broker, lambda: _tear_an_index(world, broker, fault))
    return True


def _tear_an_index(world: World, broker: SimBroker, fault: Fault) -> None:
    start_again(world, broker, fault.lasts_s)
    files = [found for disk in broker.disks for found in _files(disk, INDEXES) if found[2].data]
    if not files:
        return
    disk, path, inode = files[int(fault.amount * len(files))]
    if fault.amount * len(files) % 1.0 < 0.5:
        directory, _, name = path.rpartition("/")
        disk.root.child(directory).remove(name)
        world.note(f"{path} is gone")
    else:
        inode.shorten(len(inode.data) // 2 + 1)
        world.note(f"{path} is cut to {len(inode.data)} bytes")


def damage_in(disk: MemoryDisk, path: str, start: int, end: int) -> Callable[[], bool]:
    """Whether what stands there now still does, when asked. That the file reaches that far says nothing: what was cut off may have
    been fetched again since somebody looked."""
    inode = disk.file_at(path)
    assert inode is not None
    damaged = inode.data[start:end]
    return lambda: disk.file_at(path) is inode and inode.data[start:end] == damaged


def _batch_bit_flipped(world: World, fault: Fault, *, cold: bool) -> bool:
    """A bit of a batch is not what was written, while the other members of the ISR have the batch as it was.

    None of base offset and leader epoch, which lie before the CRC: no reader of a Kafka log can tell those.
    """
    broker = pick(world, fault)
    if broker is None or not survives_a_loss(world):
        return False
    files = [found for disk in broker.disks for found in _batch_files(disk, cold=cold)]
    if not files:
        return False
    disk, path, inode = files[int(fault.amount * len(files))]
    random = world.loop.random
    batches = list(iter_batches(bytes(inode.data)))
    position, header = batches[int(random.random() * len(batches))]
    at = position + int(random.random() * (header.size_bytes - OFFSET_AND_EPOCH_BYTES)) + LENGTH_OFFSET
    if at >= position + EPOCH_OFFSET:
        at += MAGIC_OFFSET - EPOCH_OFFSET
    bit = at * 8 + int(random.random() * 8)
    disk.flip_bit(path, bit)
    world.note(f"bit {bit} of {path} flipped, in the batch at offset {header.base_offset}")
    partition = parse_directory_name(path.split("/")[0])
    assert partition is not None
    broker.exempt_damage(partition, damage_in(disk, path, position, position + header.size_bytes))
    if random.random() < 0.5:  # found when the log is recovered, as far as that reads; else while it is used
        broker.exempt()  # what lies behind the damage, and was not flushed, is cut off
        broker.kill()
        start_again(world, broker, fault.lasts_s)
    return True


def batch_bit_flipped_cold(world: World, fault: Fault) -> bool:
    """In a segment that is not written any more."""
    return _batch_bit_flipped(world, fault, cold=True)


def batch_bit_flipped_hot(world: World, fault: Fault) -> bool:
    """In the segment that is being written."""
    return _batch_bit_flipped(world, fault, cold=False)


def _batch_files(disk: MemoryDisk, *, cold: bool) -> list[tuple[MemoryDisk, str, _Inode]]:
    logs: dict[str, list[tuple[MemoryDisk, str, _Inode]]] = {}
    for found in _files(disk, (".log",)):
        logs.setdefault(found[1].rsplit("/", 1)[0], []).append(found)
    chosen = [segments[:-1] if cold else segments[-1:] for segments in logs.values()]
    return [found for segments in chosen for found in segments if found[2].data]


def directory_offline(world: World, fault: Fault) -> bool:
    """One of a broker's directories fails; the others go on. It is back when the broker is started again."""
    broker = pick(world, fault)
    if broker is None or len(broker.disks) < 2:
        return False
    fails_alone(world, broker, broker.disks[int(fault.amount * len(broker.disks))], fault.lasts_s)
    return True


def break_directory(disk: MemoryDisk) -> None:
    """What is written or read there fails from now on."""
    for operation in ("append", "read", "sync", "replace", "truncate"):
        disk.inject(operation, errno.EIO, name=disk.path)


def fails_alone(world: World, broker: SimBroker, disk: MemoryDisk, lasts_s: float) -> None:
    """It is mended then, and the broker started again."""
    break_directory(disk)

    def replaced() -> None:
        # A second life does not end now, see `faults.injection.inject`. Once all is healed the ISR may wait for just this one.
        if world.exempt and not world.is_healed:
            later(world, 0.5, replaced)
            return
        disk.heal()
        if world.is_healed and has_all_directories(broker) and not has_given_up_the_last_copy(broker):
            return  # it was started again since, and may be quiescent by now: nothing is left to be ended
        if broker.is_running:
            broker.kill()
        broker.start()

    later(world, lasts_s, replaced)


def has_all_directories(broker: SimBroker) -> bool:
    runtime = broker.runtime
    return broker.is_serving and runtime is not None and not runtime.broker.replicas.logs.offline_directories


def has_given_up_the_last_copy(broker: SimBroker) -> bool:
    """A log that failed and cannot be fetched anew, for nobody else has all of it, is opened again by a restart."""
    assert broker.runtime is not None
    logs = broker.runtime.broker.replicas.logs
    return any(logs.is_damaged(partition) for partition in logs.refused)


def _files(disk: MemoryDisk, endings: tuple[str, ...]) -> Iterator[tuple[MemoryDisk, str, _Inode]]:
    def walk(node: _Node, path: str) -> Iterator[tuple[MemoryDisk, str, _Inode]]:
        for name in sorted(node.entries):
            below = node.entries[name]
            if isinstance(below, _Node):
                yield from walk(below, f"{path}{name}/")
            elif name.endswith(endings) and "-delete/" not in path and "-stray/" not in path:
                yield disk, f"{path}{name}", below

    yield from walk(disk._top, "")


TABLE = table_of(
    power_cut_unflushed, torn_tail, index_bit_flipped, index_misdirected, index_torn, batch_bit_flipped_cold,
    batch_bit_flipped_hot, directory_offline,
)  # fmt: skip
