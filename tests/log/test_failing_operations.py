"""Each operation of a log with its k-th step failing, for every k; then the trouble is over and the log goes on.

Judged after every one: either the log says that it cannot be used any more, or what it holds is what its files hold, and
nothing acknowledged is gone, neither now nor for whoever opens the files after a `kill -9`.
"""

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from odradek.log import files
from odradek.log.errors import NoDescriptor, StorageError
from odradek.log.memory_files import MemoryDisk
from odradek.log.new_log import create_log
from odradek.log.partition_log import PartitionLog
from odradek.log.prepared_files import PreparedFiles
from odradek.log.producers import Producers
from odradek.log.recovery import open_log
from odradek.log.retention import drop_expired_segments
from odradek.log.segment import Segment
from odradek.model.errors import ProtocolError
from odradek.records.batch import iter_whole_batches, stamp
from odradek.records.reader import decode_batch
from tests.log.logs import (
    NOW,
    TOPIC_ID,
    TP,
    Disk,
    batch,
    config,
    contents,
    follow,
    idempotent,
    marker,
    produce,
)

SIZE = len(batch())
LIMITS = {"segment_bytes": SIZE * 5, "index_interval_bytes": SIZE}
LAST = 23  # batches before the operation


class Workload:
    """One log, what was acknowledged of it, and what the operation may take away."""

    def __init__(self, log: PartitionLog) -> None:
        self.log = log
        self.acknowledged: dict[int, bytes] = {}
        self.told: list[StorageError] = []
        log.on_broken = lambda _, error: self.told.append(error)
        log.directory.health.on_failure = log.fail  # as the manager of the logs does
        self.epoch = 1
        self.appended = 0
        for _ in range(LAST):
            self.append()
        self.abort()
        self.append()
        log.flush()
        self.append()

    def append(self) -> None:
        """As an idempotent producer that goes on where the log says."""
        self.appended += 1
        value = b"%06d" % self.appended + b"x" * 94
        sequence = max(
            (p.last_sequence + 1 for p in self.log.producers.all() if p.producer_id == 7), default=0
        )
        result = produce(self.log, idempotent(sequence, value=value), epoch=self.epoch)
        assert not result.duplicate and result.base_offset not in self.acknowledged
        self.acknowledged[result.base_offset] = value

    def abort(self) -> None:
        data = idempotent(0, producer_id=9, is_transactional=True, value=b"transactional")
        base = produce(self.log, data, epoch=self.epoch).base_offset
        self.acknowledged[base] = b"transactional"
        end = marker(commit=False, producer_id=9)
        produce(self.log, end, epoch=self.epoch, from_coordinator=True)

    def follow(self) -> None:
        end = self.log.log_end_offset
        value = b"followed at %d" % end
        follow(self.log, batch(value=value, base_offset=end, leader_epoch=self.epoch))
        self.acknowledged[end] = value

    def forget(self, first: int, last: int = 1 << 40) -> None:
        for offset in [offset for offset in self.acknowledged if first <= offset < last]:
            del self.acknowledged[offset]


def values(log: PartitionLog) -> dict[int, bytes]:
    """Of all data records, each offset once and in order."""
    data = contents(log)
    found: dict[int, bytes] = {}
    expected = -1
    for position, header in iter_whole_batches(memoryview(data)):
        assert header.base_offset > expected, f"offset {header.base_offset} behind {expected}"
        expected = header.last_offset
        if not header.attributes & 0x20:
            for record in decode_batch(memoryview(data), position):
                if record.offset >= log.log_start_offset:
                    found[record.offset] = record.value or b""
    return found


def producers(log: PartitionLog) -> dict[int, tuple[int, int, int, int]]:
    """Of those with records in the log; of others no batch tells after a crash."""
    return {
        p.producer_id: (p.producer_epoch, p.last_sequence, p.last_offset, p.transaction_first_offset)
        for p in log.producers.all()
        if p.last_offset >= log.log_start_offset
    }


# ------------------------------------------------------------------------------------------------ operations


def roll(workload: Workload) -> None:
    workload.log.roll(NOW)


def append_until_rolled(workload: Workload) -> None:
    for _ in range(6):
        workload.append()


def cut_the_active(workload: Workload) -> None:
    end = workload.log.log_end_offset - 1
    workload.forget(end)
    workload.log.truncate_to(end, NOW)


def cut_an_older_one(workload: Workload) -> None:
    workload.forget(7)
    workload.log.truncate_to(7, NOW)


def cut_at_the_beginning_of_a_segment(workload: Workload) -> None:
    assert workload.log.failure is not None or any(
        segment.base_offset == 10 for segment in workload.log.segments
    )
    workload.forget(10)
    workload.log.truncate_to(10, NOW)


def begin_anew(workload: Workload) -> None:
    workload.forget(0)
    workload.log.truncate_fully_and_start_at(100, NOW)


def begin_anew_below_the_end(workload: Workload) -> None:
    workload.forget(0)
    workload.log.truncate_fully_and_start_at(12, NOW)


def begin_an_epoch(workload: Workload) -> None:
    workload.epoch = 4
    workload.log.assign_epoch(4, workload.log.log_end_offset)


def cut_an_empty_epoch(workload: Workload) -> None:
    workload.log.assign_epoch(3, workload.log.log_end_offset)
    workload.log.truncate_to(workload.log.log_end_offset, NOW)


def follow_into_two_epochs(workload: Workload) -> None:
    """One answer of a leader, with an aborted transaction that begins in the first of them and ends in the second."""
    end = workload.log.log_end_offset
    fields = {"producer_id": 9, "producer_epoch": 0}
    values = [b"of the epoch before", b"transactional"]
    sent = batch(value=values[0], base_offset=end, leader_epoch=workload.epoch)
    sent += batch(
        value=values[1], base_offset=end + 1, leader_epoch=2, base_sequence=1, is_transactional=True, **fields
    )
    end_marker = bytearray(marker(commit=False, producer_id=9))
    stamp(memoryview(end_marker), 0, end + 2, 3)
    follow(workload.log, sent + end_marker)
    workload.epoch = 3
    workload.acknowledged.update(enumerate(values, end))


def delete_records(workload: Workload) -> None:
    workload.forget(0, 12)
    workload.log.delete_records_before(12)


def retention(workload: Workload) -> None:
    workload.forget(0)
    drop_expired_segments(workload.log, NOW + 10**10, workload.log.log_end_offset)


def end_a_transaction(workload: Workload) -> None:
    workload.abort()


def flush(workload: Workload) -> None:
    workload.append()
    workload.log.flush()


def read_everything(workload: Workload) -> None:
    for segment in workload.log.segments[:-1]:
        segment.close_handles()
    values(workload.log)
    workload.log.offset_for_timestamp(NOW)
    workload.log.offset_of_max_timestamp()


OPERATIONS: list[Callable[[Workload], None]] = [
    roll,
    append_until_rolled,
    cut_the_active,
    cut_an_older_one,
    cut_at_the_beginning_of_a_segment,
    begin_anew,
    begin_anew_below_the_end,
    begin_an_epoch,
    cut_an_empty_epoch,
    follow_into_two_epochs,
    delete_records,
    retention,
    end_a_transaction,
    flush,
    read_everything,
]
EITHER = pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.__name__)


def interrupted(workload: Workload, operation: Callable[[Workload], None], trouble: "Trouble") -> bool:
    """The operation meets the trouble, is asked for again once that is over, and the log goes on as it can."""
    met = False
    with trouble.going_on():
        try:
            operation(workload)
        except ProtocolError:
            met = True
    if met:
        log = workload.log
        assert log.failure is not None or log.epochs.entries[-1].start_offset <= log.log_end_offset
        again(workload, operation)
    elif isinstance(trouble, DiskError | ShortWrite):
        assert not trouble.was_met, "whoever asked was not told"
    for _ in range(7):
        again(workload, Workload.append)
    again(workload, Workload.follow)
    return met or trouble.was_met


def again(workload: Workload, operation: Callable[[Workload], None]) -> None:
    try:
        operation(workload)
    except StorageError:
        assert workload.log.failure is not None, "the trouble is over, and a log in use refuses"


def judge(workload: Workload) -> None:
    log = workload.log
    if log.failure is not None:
        assert workload.told or log.directory.health.failure is not None, "nobody was told"
        return
    assert log.segments.active is log.segments[-1] and log.segments.active.end_offset < 0
    assert all(a.end_offset == b.base_offset for a, b in zip(log.segments, log.segments[1:], strict=False))
    assert values(log) == workload.acknowledged
    for segment in log.segments[:-1]:
        segment.close_handles()
    assert values(log) == workload.acknowledged, "as its files say"
    assert log.offset_of_max_timestamp() is not None


def judge_reopened(workload: Workload, reopened: PartitionLog) -> None:
    held = values(reopened)
    lost = {offset for offset, value in workload.acknowledged.items() if held.get(offset) != value}
    assert not lost, f"{sorted(lost)} of {len(workload.acknowledged)} are gone"
    if workload.log.failure is None:
        assert held == workload.acknowledged
        assert reopened.log_end_offset == workload.log.log_end_offset
        assert reopened.epochs.entries == workload.log.epochs.entries
        assert producers(reopened) == producers(workload.log)
        for start in (workload.log.log_start_offset, workload.log.log_end_offset // 2):
            if start >= workload.log.log_start_offset:
                assert reopened.aborted_transactions(start, 1 << 40) == workload.log.aborted_transactions(
                    start, 1 << 40
                )


class Trouble:
    """From the k-th call on, as long as the operation lasts."""

    def __init__(self, k: int) -> None:
        self.left = k
        self.was_met = False

    @contextmanager
    def going_on(self) -> Iterator[None]:
        yield

    def is_due(self) -> bool:
        self.left -= 1
        if self.left < 0:
            self.was_met = True
        return self.left < 0


class NoDescriptors(Trouble):
    """ENOMEM: the kernel has no memory for one."""

    def __init__(self, k: int, error: int) -> None:
        super().__init__(k)
        self.error = error

    @contextmanager
    def going_on(self) -> Iterator[None]:
        def short(real: Callable[..., object]) -> Callable[..., object]:
            def call(*arguments: object, **options: object) -> object:
                if self.is_due():
                    raise OSError(self.error, os.strerror(self.error))
                return real(*arguments, **options)

            return call

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(files.os, "open", short(os.open))
            patch.setattr(files.os, "listdir", short(os.listdir))
            yield


class NoMemoryToRead(Trouble):
    """The kernel finds no page for what is to be read, or this process no memory for it."""

    def __init__(self, k: int, error: Callable[[], Exception]) -> None:
        super().__init__(k)
        self.error = error

    @contextmanager
    def going_on(self) -> Iterator[None]:
        real = os.pread

        def pread(descriptor: int, size: int, position: int) -> bytes:
            if self.is_due():
                raise self.error()
            return real(descriptor, size, position)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(files, "_pread", pread)
            yield


class DirectoryGone(Trouble):
    """Somebody removes it; whoever holds a file of it goes on, whoever asks for a name is told that there is none."""

    def __init__(self, k: int, path: Path) -> None:
        super().__init__(k)
        self.path = path

    @contextmanager
    def going_on(self) -> Iterator[None]:
        def gone(real: Callable[..., object]) -> Callable[..., object]:
            def call(*arguments: object, **options: object) -> object:
                if self.left > -1 and self.is_due():
                    shutil.rmtree(self.path)
                return real(*arguments, **options)

            return call

        with pytest.MonkeyPatch.context() as patch:
            for name in ("open", "listdir", "rename", "replace", "unlink"):
                patch.setattr(files.os, name, gone(getattr(os, name)))
            yield


class DiskError(Trouble):
    """One operation of the disk fails, whatever it is."""

    def __init__(self, k: int, disk: MemoryDisk, error: int) -> None:
        super().__init__(k)
        self.disk = disk
        self.error = error

    @contextmanager
    def going_on(self) -> Iterator[None]:
        self.disk.inject("any", self.error, after=self.left, times=1)
        yield
        self.was_met = self.disk.failures > 0
        self.disk.heal()


class NameNotFound(Trouble):
    """One rename or removal finds nothing under the name: somebody has moved the file away, and moves it back."""

    def __init__(self, k: int, disk: MemoryDisk, step: str) -> None:
        super().__init__(k)
        self.disk = disk
        self.step = step

    @contextmanager
    def going_on(self) -> Iterator[None]:
        self.disk.inject(self.step, errno.ENOENT, after=self.left, times=1)
        yield
        self.was_met = self.disk.failures > 0
        self.disk.heal()


class ShortWrite(Trouble):
    """So many bytes fit on the disk, and of what is written then only the beginning."""

    def __init__(self, k: int, disk: MemoryDisk) -> None:
        super().__init__(k)
        self.disk = disk

    @contextmanager
    def going_on(self) -> Iterator[None]:
        self.disk.fill(self.left * 40)
        yield
        self.was_met = self.disk.root.health.failure is not None
        self.disk.heal()


def every_k(play: Callable[[int], bool]) -> None:
    k = 0
    while play(k):
        k += 1
    assert k, "it takes no step that can fail"


@EITHER
@pytest.mark.parametrize("error", [errno.EMFILE, errno.ENOMEM], ids=["EMFILE", "ENOMEM"])
def test_no_descriptor_is_left_from_the_kth_open_on(
    tmp_path: Path, operation: Callable[[Workload], None], error: int
) -> None:
    def play(k: int) -> bool:
        disk = Disk(tmp_path / str(k), config(**LIMITS))
        disk.path.mkdir()
        workload = Workload(disk.create())
        trouble = NoDescriptors(k, error)
        met = interrupted(workload, operation, trouble)
        assert workload.log.failure is None, "nothing is wrong with the disk"
        judge(workload)
        point, start = workload.log.recovery_point, workload.log.log_start_offset
        judge_reopened(workload, disk.open(recovery_point=point, log_start_offset=start).log)
        return met

    every_k(play)


READING = [cut_an_older_one, cut_at_the_beginning_of_a_segment, read_everything]


@pytest.mark.parametrize("operation", READING, ids=lambda operation: operation.__name__)
@pytest.mark.parametrize(
    "error",
    [lambda: OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)), MemoryError],
    ids=["ENOMEM", "MemoryError"],
)
def test_there_is_no_memory_from_the_kth_read_on(
    tmp_path: Path, operation: Callable[[Workload], None], error: Callable[[], Exception]
) -> None:
    def play(k: int) -> bool:
        disk = Disk(tmp_path / str(k), config(**LIMITS))
        disk.path.mkdir()
        workload = Workload(disk.create())
        met = interrupted(workload, operation, NoMemoryToRead(k, error))
        assert disk.root.health.failure is None, "nothing is wrong with the disk"
        judge(workload)
        point, start = workload.log.recovery_point, workload.log.log_start_offset
        judge_reopened(workload, disk.open(recovery_point=point, log_start_offset=start).log)
        return met

    every_k(play)


@pytest.mark.parametrize(
    ("operation", "where", "what"),
    [
        (Workload.append, Producers, "note_batch"),
        (Workload.append, Segment, "note_batch"),
        (Workload.follow, Segment, "note_batch"),
        (cut_an_older_one, PreparedFiles, "put"),
        (begin_anew, PreparedFiles, "put"),
        (roll, PreparedFiles, "put"),
        (retention, Segment, "mark_deleted"),
    ],
    ids=lambda value: getattr(value, "__qualname__", value),
)
def test_a_log_is_not_used_on_after_a_want_of_memory_in_the_midst_of_a_change(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    operation: Callable[[Workload], None],
    where: type,
    what: str,
) -> None:
    """What its memory says and what its file holds may differ by then: the next batch would get offsets that one in the file has.
    Whoever opens the files finds all that was acknowledged."""

    def no_memory(*_: object, **__: object) -> None:
        raise MemoryError

    disk = Disk(tmp_path / "0", config(**LIMITS))
    disk.path.mkdir()
    workload = Workload(disk.create())
    with monkeypatch.context() as patch:
        patch.setattr(where, what, no_memory)
        with pytest.raises(MemoryError):
            operation(workload)
    assert len(workload.told) == 1
    for more in (Workload.append, Workload.follow):
        with pytest.raises(StorageError, match="MemoryError"):
            more(workload)
    judge_reopened(workload, disk.open(recovery_point=workload.log.recovery_point).log)


@pytest.mark.parametrize(
    "operation", [cut_an_older_one, begin_anew, roll], ids=lambda value: value.__qualname__
)
def test_a_log_is_not_used_on_after_a_want_of_descriptors_in_the_midst_of_a_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operation: Callable[[Workload], None]
) -> None:
    """Of which anywhere else only the one operation fails."""

    def no_descriptor(*_: object) -> None:
        raise NoDescriptor("no descriptor is left")

    disk = Disk(tmp_path / "0", config(**LIMITS))
    disk.path.mkdir()
    workload = Workload(disk.create())
    with monkeypatch.context() as patch:
        patch.setattr(PreparedFiles, "put", no_descriptor)
        with pytest.raises(NoDescriptor):
            operation(workload)
    with pytest.raises(NoDescriptor):
        workload.append()
    judge_reopened(workload, disk.open(recovery_point=workload.log.recovery_point).log)


@EITHER
def test_its_directory_is_removed_at_the_kth_look_for_a_name(
    tmp_path: Path, operation: Callable[[Workload], None]
) -> None:
    def play(k: int) -> bool:
        disk = Disk(tmp_path / str(k), config(**LIMITS))
        disk.path.mkdir()
        workload = Workload(disk.create())
        trouble = DirectoryGone(k, disk.log_path)
        met = interrupted(workload, operation, trouble)
        if met:
            again(workload, roll)
            again(workload, begin_an_epoch)
            assert workload.log.failure is not None and len(workload.told) == 1
            assert disk.root.health.failure is None, "the other logs of the disk go on"
        return met

    every_k(play)


TROUBLES = [(operation, error) for operation in OPERATIONS for error in ("EIO", "ENOSPC", "short write")]


@pytest.mark.parametrize(
    ("operation", "error"),
    # Reading writes nothing.
    [trouble for trouble in TROUBLES if trouble != (read_everything, "short write")],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_the_kth_operation_of_the_disk_fails(operation: Callable[[Workload], None], error: str) -> None:
    def play(k: int) -> bool:
        disk = MemoryDisk()
        workload = Workload(create_log(disk.root, TP, TOPIC_ID, config(**LIMITS), now_ms=NOW))
        trouble = ShortWrite(k, disk) if error == "short write" else DiskError(k, disk, getattr(errno, error))
        met = interrupted(workload, operation, trouble)
        judge(workload)
        assert (workload.log.failure is not None) is met, "after an error of the disk nothing is tried again"
        judge_reopened(workload, killed_and_opened(workload, disk))
        return met

    every_k(play)


@pytest.mark.parametrize("step", ["rename", "remove"])
@pytest.mark.parametrize(
    "operation",
    [
        cut_an_older_one,
        cut_at_the_beginning_of_a_segment,
        begin_anew_below_the_end,
        delete_records,
        retention,
    ],
    ids=lambda operation: operation.__name__,
)
def test_the_kth_name_is_not_found_and_the_file_is_back_later(
    operation: Callable[[Workload], None], step: str
) -> None:
    def play(k: int) -> bool:
        disk = MemoryDisk()
        workload = Workload(create_log(disk.root, TP, TOPIC_ID, config(**LIMITS), now_ms=NOW))
        met = interrupted(workload, operation, NameNotFound(k, disk, step))
        judge(workload)
        assert disk.root.health.failure is None, "the other logs of the disk go on"
        judge_reopened(workload, killed_and_opened(workload, disk))
        return met

    every_k(play)


@pytest.mark.parametrize("begins_at", [15, 20, 26])
def test_what_recovery_cuts_off_is_not_found_and_the_file_is_back_later(begins_at: int) -> None:
    """A start cuts the log off at a damaged batch, and it goes on up to where a segment began that was cut off; another
    start finds what was appended, and nothing of that segment.
    """

    def play(k: int) -> bool:
        disk = MemoryDisk()
        workload = Workload(create_log(disk.root, TP, TOPIC_ID, config(**LIMITS), now_ms=NOW))
        segment = workload.log.segments.holding(7)
        disk.flip_bit(f"{TP}/{segment.name()}", (segment.position_of(7) + SIZE - 1) * 8)
        workload.forget(7)
        trouble = NameNotFound(k, disk, "remove")
        with trouble.going_on():
            try:
                log = killed_and_opened(workload, disk, recovery_point=0)
            except StorageError:
                log = None
        workload.log = log or killed_and_opened(workload, disk, recovery_point=0)
        while workload.log.log_end_offset < begins_at:
            workload.append()
        judge(workload)
        judge_reopened(workload, killed_and_opened(workload, disk))
        return trouble.was_met

    every_k(play)


def killed_and_opened(
    workload: Workload, disk: MemoryDisk, recovery_point: int | None = None
) -> PartitionLog:
    return open_log(
        disk.restart(),
        TP,
        config(**LIMITS),
        now_ms=NOW,
        was_clean=False,
        recovery_point=workload.log.recovery_point if recovery_point is None else recovery_point,
        log_start_offset=workload.log.log_start_offset,
    ).log
