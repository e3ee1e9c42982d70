"""Random damage to any file of a log, one or several at once: the log opens with a prefix of what it held, or is
refused with a sentence; nothing flushed is ever cut, and no other error comes out.
"""

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from odradek.log.errors import CorruptLog, StorageError
from odradek.log.partition_log import PartitionLog
from odradek.model.errors import ProtocolError
from odradek.records.batch import check_crc, iter_batches
from tests.log.logs import EVERYTHING, NOW, Disk, batch, config, contents, idempotent, marker, produce, state
from tests.support import try_all

SIZE = len(batch())
Damage = Callable[[random.Random, bytearray, list[bytes]], bytearray]


def flip(chance: random.Random, data: bytearray, others: list[bytes]) -> bytearray:
    if data:
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return data


def shorten(chance: random.Random, data: bytearray, others: list[bytes]) -> bytearray:
    return data[: chance.randrange(len(data) + 1)]


def zero(chance: random.Random, data: bytearray, others: list[bytes]) -> bytearray:
    start = chance.randrange(len(data) + 1)
    end = chance.randint(start, len(data))
    data[start:end] = bytes(end - start)
    return data


def lengthen(chance: random.Random, data: bytearray, others: list[bytes]) -> bytearray:
    return data + chance.choice(
        [bytes(chance.randrange(1, 5000)), chance.randbytes(chance.randrange(1, 300))]
    )


def repeat(chance: random.Random, data: bytearray, others: list[bytes]) -> bytearray:
    """A block is on the disk twice."""
    start = chance.randrange(len(data) + 1)
    end = chance.randint(start, len(data))
    return data[:end] + data[start:end] + data[end:]


def misdirect(chance: random.Random, data: bytearray, others: list[bytes]) -> bytearray:
    """A stretch of another file was written here."""
    other = chance.choice(others)
    start = chance.randrange(len(other) + 1)
    part = other[start : start + chance.randrange(1, 600)]
    at = chance.randrange(len(data) + 1)
    data[at : at + len(part)] = part
    return data


def exchange(chance: random.Random, data: bytearray, others: list[bytes]) -> bytearray:
    return bytearray(chance.choice(others))


DAMAGES: list[Damage] = [flip, shorten, zero, lengthen, repeat, misdirect, exchange]


def filled(disk: Disk) -> PartitionLog:
    log = disk.create()
    for n in range(30):
        if n % 10 == 9:
            produce(log, marker(commit=n % 20 == 9, producer_id=9), from_coordinator=True, epoch=n // 12)
        elif n % 3:
            known = log.producers.get(9)
            sequence = known.last_sequence + 1 if known else 0
            produce(
                log, idempotent(sequence, 1, producer_id=9, is_transactional=True, at=NOW + n), epoch=n // 12
            )
        else:
            produce(log, batch(2, at=NOW + n), epoch=n // 12)
    return log


def damage(disk: Disk, chance: random.Random) -> list[str]:
    """One to three files are changed or gone; the names of the changed segments."""
    names = disk.names()
    others = [disk.file(name).read_bytes() for name in names]
    hit = chance.sample(names, chance.randint(1, 3))
    for name in hit:
        path = disk.file(name)
        if chance.random() < 0.1:
            path.unlink()
        else:
            path.write_bytes(chance.choice(DAMAGES)(chance, bytearray(path.read_bytes()), others))
    return [name for name in hit if name.endswith(".log")]


class Original(NamedTuple):
    """One log, made once: every test damages a copy."""

    in_use: Path
    closed: Path
    end: int
    whole: list[tuple[int, int]]  # of all batches


def disk_at(path: Path) -> Disk:
    return Disk(path, config(segment_bytes=SIZE * 7, index_interval_bytes=SIZE))


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Original:
    root = tmp_path_factory.mktemp("original")
    disk = disk_at(root / "log")
    disk.path.mkdir()
    log = filled(disk)
    whole = bodies(contents(log))
    shutil.copytree(disk.path, root / "in_use")
    log.close()
    shutil.copytree(disk.path, root / "closed")
    return Original(root / "in_use", root / "closed", log.log_end_offset, whole)


def copied(source: Path, target: Path) -> Disk:
    shutil.copytree(source, target, dirs_exist_ok=True, copy_function=shutil.copyfile)
    return disk_at(target)


def bodies(data: bytes) -> list[tuple[int, int]]:
    """Offset and checksum of every batch. The leader epoch lies before the checksum: a flip there can look real."""
    return [(h.base_offset, h.crc) for p, h in iter_batches(data) if check_crc(data, p, h)]


def test_unflushed_and_damaged_is_a_prefix(tmp_path: Path, original: Original) -> None:
    try_all(range(300), lambda seed: damaged_while_in_use(tmp_path / str(seed), original, seed))


def damaged_while_in_use(path: Path, original: Original, seed: int) -> None:
    chance = random.Random(seed)
    disk = copied(original.in_use, path)
    damage(disk, chance)
    log = disk.open().log
    held = bodies(contents(log))
    # A first segment that is gone looks like one that retention took.
    rest = [entry for entry in original.whole if entry[0] >= log.log_start_offset]
    assert held == rest[: len(held)]
    before = state(log)
    assert state(disk.open().log) == before
    produce(log, batch(), epoch=99)
    assert bodies(contents(log))[:-1] == held


@pytest.mark.parametrize("clean", [False, True])
def test_flushed_and_damaged_is_whole_or_refused(tmp_path: Path, original: Original, clean: bool) -> None:
    try_all(range(300), lambda seed: damaged_once_closed(tmp_path / str(seed), original, seed, clean=clean))


def damaged_once_closed(path: Path, original: Original, seed: int, *, clean: bool) -> None:
    chance = random.Random(seed)
    disk = copied(original.closed, path)
    end, whole = original.end, original.whole
    good = {name: disk.file(name).stat().st_size for name in disk.names()}
    segments = damage(disk, chance)
    sizes = {name: disk.file(name).stat().st_size for name in disk.names() if name.endswith(".log")}
    try:
        log = disk.open(clean=clean, recovery_point=end).log
    except CorruptLog as error:
        assert segments, f"refused though every segment is whole: {error.message}"
    else:
        assert log.log_end_offset == end
        try:
            read = log.read(0, max_bytes=EVERYTHING, upper_bound_offset=EVERYTHING)
            data = b"".join(part.read() for part in read.slices)
            held = bodies(data)
        except (StorageError, ProtocolError):
            assert segments, "served wrongly though every segment is whole"
        else:
            # A damaged batch of an older segment fails the consumer's checksum; none is missing without a trace.
            assert len(held) == len(whole) or segments
            assert set(held) <= set(whole) or segments
    after = {name: disk.file(name).stat().st_size for name in sizes if disk.file(name).exists()}
    # What was added behind the last batch may go again.
    assert all(size >= min(sizes[name], good[name]) for name, size in after.items()), (
        "nothing flushed was cut"
    )
