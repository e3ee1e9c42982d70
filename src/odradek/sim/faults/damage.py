"""Logs of one broker that a disk damages by more than a bit (F17, F20): a stretch of batches that is something else, a segment that is
shorter than it was, or not there. While the log is in use, or while its broker is down: after a kill, which has a start look at what was
not flushed, or after a stop in order, which has it trust all of it. Of a leader as often as of anybody.

As with one bit (`faults.disks`) the others have the batches as they were, and all are well before it strikes.
"""

from collections.abc import Callable

from odradek.log.log_manager import parse_directory_name
from odradek.log.memory_files import MemoryDisk, _Inode
from odradek.log.segment import LOG_SUFFIX
from odradek.model.ids import TopicPartition
from odradek.records.batch import (
    ATTRIBUTES_OFFSET,
    CRC_OFFSET,
    MAGIC_OFFSET,
    BatchHeader,
    check_crc,
    iter_batches,
)
from odradek.sim.clients.ledger import LEDGER
from odradek.sim.faults.disks import _batch_files, damage_in, survives_a_loss
from odradek.sim.faults.targets import leader, pick, start_again, table_of
from odradek.sim.observed.viewed import Damage
from odradek.sim.observed.views import OUT_OF_THE_ISR
from odradek.sim.plan import COMPACTED, Fault
from odradek.sim.world import SimBroker, World

File = tuple[MemoryDisk, str, _Inode]
MOST_BATCHES = 3  # of a stretch
KILLED, STOPPED, IN_USE = "killed", "stopped in order", "in use"


def log_overwritten(world: World, fault: Fault) -> bool:
    """Zeros, or bytes of something else, from within a batch to within another."""
    when = (KILLED, STOPPED, IN_USE)[int(fault.amount * 1_000 % 1.0 * 3)]
    return _damaged(world, fault, when, lambda broker, file: _overwrite(world, broker, file))


def log_cut_short(world: World, fault: Fault) -> bool:
    """One of its segments ends anywhere, or is gone."""
    when = (KILLED, STOPPED)[int(fault.amount * 1_000 % 1.0 * 2)]
    return _damaged(world, fault, when, lambda broker, file: _cut(world, broker, file))


def _damaged(world: World, fault: Fault, when: str, damage: Callable[[SimBroker, File], None]) -> bool:
    broker = leader(world, fault) if fault.target * 1_000 % 1.0 < 0.5 else pick(world, fault)
    if broker is None or not survives_a_loss(world) or _one_of(broker, fault) is None:
        return False

    def strike() -> None:
        file = _one_of(broker, fault)  # what there is by now
        if file is not None:
            world.note(f"the log of {broker.name} that was {when} is damaged")
            damage(broker, file)
        if when != IN_USE:
            start_again(world, broker, fault.lasts_s)

    if when == STOPPED:
        broker.stop()
        world.when_stopped(broker, strike)
        return True
    if when == KILLED:
        broker.exempt()  # what lies behind the damage, and was not flushed, is cut off
        broker.kill()
    strike()
    return True


def _one_of(broker: SimBroker, fault: Fault) -> File | None:
    """A segment that is written no more as often as one that is."""
    is_cold = fault.target * 10_000 % 1.0 < 0.5
    files = [f for disk in broker.disks for f in _batch_files(disk, cold=is_cold)]
    files = files or [f for disk in broker.disks for f in _batch_files(disk, cold=not is_cold)]
    return files[int(fault.amount * len(files))] if files else None


def _overwrite(world: World, broker: SimBroker, file: File) -> None:
    """In each batch that it touches it covers the checksum at least, or what that is about: base offset and leader epoch alone are
    nothing that a reader of a Kafka log can tell."""
    disk, path, inode = file
    random = world.loop.random
    batches = list(iter_batches(bytes(inode.data)))
    first = int(random.random() * len(batches))
    last = min(first + int(random.random() * MOST_BATCHES), len(batches) - 1)
    begins_at, begun = batches[first]
    within = int(random.random() * (begun.size_bytes - ATTRIBUTES_OFFSET)) + ATTRIBUTES_OFFSET
    begin = begins_at + (MAGIC_OFFSET if random.random() < 0.5 else within)
    position, header = batches[last]
    least = max(position + ATTRIBUTES_OFFSET, begin) + 1
    end = least + int(random.random() * (position + header.size_bytes - least + 1))
    what = bytes(end - begin) if random.random() < 0.5 else random.randbytes(end - begin)
    inode.damage(begin, what)
    spared = [at for at, one in batches[first : last + 1] if _is_as_it_was(inode, at, one)]
    for at in spared:  # zeros, where there were zeros
        inode.damage(at + CRC_OFFSET, bytes([inode.data[at + CRC_OFFSET] ^ 1]))
        begin, end = min(begin, at + CRC_OFFSET), max(end, at + ATTRIBUTES_OFFSET)
    offsets = f"from offset {batches[first][1].base_offset} to {header.last_offset}"
    world.note(f"{path} of {broker.name}: bytes {begin} to {end} are overwritten, {offsets}")
    _counts_until_it_is_noticed(world, broker, path, damage_in(disk, path, begin, end))


def _is_as_it_was(inode: _Inode, at: int, header: BatchHeader) -> bool:
    crc = bytes(inode.data[at + CRC_OFFSET : at + ATTRIBUTES_OFFSET])
    return crc == header.crc.to_bytes(4, "big") and check_crc(memoryview(bytes(inode.data)), at, header)


def _cut(world: World, broker: SimBroker, file: File) -> None:
    """Of the first segment nobody can tell that it was there: records below the next one may have been deleted on request; and of a log that
    may have been compacted nobody can tell that batches at the end of a segment were."""
    disk, path, inode = file
    random = world.loop.random
    directory, _, name = path.rpartition("/")
    node = disk._node(tuple(directory.split("/")))
    names = sorted(one for one in node.entries if one.endswith(LOG_SUFFIX))
    is_first, is_last = name == names[0], name == names[-1]
    may_have_gaps = not is_last and (directory.startswith(("__", COMPACTED)) or directory.startswith(LEDGER))
    if random.random() < 0.3 and not is_first and not may_have_gaps:
        disk.root.child(directory).remove(name)
        world.note(f"{path} of {broker.name} is gone")

        def is_missing() -> bool:
            return disk._directory(tuple(directory.split("/"))) is node and name not in node.entries

        if not is_last:
            _counts_until_it_is_noticed(world, broker, path, is_missing)
        return
    before, after = len(inode.data), int(random.random() * len(inode.data))
    ends = [position + header.size_bytes for position, header in iter_batches(bytes(inode.data))]
    whole = max((end for end in ends if end <= after), default=0)
    if may_have_gaps and whole == after:
        after = whole + 1 if whole < before else before - 1
        whole = max((end for end in ends if end <= after), default=0)
    inode.shorten(after)
    world.note(f"{path} of {broker.name} has {after} bytes of {before}")
    rest = bytes(inode.data[whole:after])

    def is_short() -> bool:
        if disk.file_at(path) is not inode:
            return False
        return inode.data[whole:after] == rest if is_last else len(inode.data) == after

    if rest or not is_last:
        _counts_until_it_is_noticed(world, broker, path, is_short)


def _counts_until_it_is_noticed(
    world: World, broker: SimBroker, path: str, is_there: Callable[[], bool]
) -> None:
    partition = parse_directory_name(path.split("/")[0])
    assert isinstance(partition, TopicPartition) and broker.host is not None
    life = world.incarnation_in_isr(broker.broker_id, partition)
    key = broker.broker_id, partition
    world.exempt.setdefault(key, OUT_OF_THE_ISR if life is None else life)
    world.damage[key] = Damage(broker.host, is_there)


TABLE = table_of(log_overwritten, log_cut_short)
