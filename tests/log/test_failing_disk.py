"""What the operating system may answer, made to happen on real files: short writes, ENOSPC, EROFS, EIO."""

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from odradek.log import files
from odradek.log.errors import (
    CorruptLog,
    DirectoryOffline,
    DiskFault,
    DiskFull,
    DiskReadOnly,
    MissingFile,
    StorageError,
)
from odradek.log.files import Health, OsDirectory
from odradek.log.memory_files import MemoryDisk
from odradek.log.new_log import create_log
from odradek.log.partition_log import PartitionLog
from odradek.log.reading import LogRead
from odradek.log.recovery import open_log
from odradek.log.segment import file_name
from odradek.log.steps import all_at_once
from odradek.log.truncated_tails import keeping_tail
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import NO_TOPIC_ID
from odradek.records.batch import MAGIC_OFFSET
from tests.log.logs import (
    EVERYTHING,
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
    offsets,
    produce,
    state,
)
from tests.support import full_disk


def failing(error: int, after: int = 0) -> Callable[..., Any]:
    """Works `after` times, then never again."""
    calls = [0]

    def call(*args: Any) -> Any:
        calls[0] += 1
        if calls[0] > after:
            raise OSError(error, os.strerror(error))
        return os.pwrite(*args) if len(args) == 3 else None

    return call


def half_then(error: int) -> Callable[..., Any]:
    """Writes half of it, then fails: a disk that fills up under a write."""
    calls = [0]

    def pwrite(fd: int, data: Any, position: int) -> int:
        calls[0] += 1
        if calls[0] > 1:
            raise OSError(error, os.strerror(error))
        return os.pwrite(fd, memoryview(data)[: len(data) // 2], position)

    return pwrite


def said(*errors: StorageError | None) -> list[str]:
    """Class and message: what is kept is not what was raised."""
    return [repr(error) for error in errors]


def test_a_short_write_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = Disk(tmp_path).create()
    monkeypatch.setattr(
        files, "_pwrite", lambda fd, data, at: os.pwrite(fd, memoryview(data)[: max(1, len(data) // 3)], at)
    )
    produce(log, batch(10))
    produce(log, batch(2))
    assert offsets(log) == [0, 10]


def test_a_short_read_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = Disk(tmp_path).create()
    produce(log, batch(10))
    whole = contents(log)
    monkeypatch.setattr(files, "_pread", lambda fd, size, at: os.pread(fd, min(size, 7), at))
    assert contents(log) == whole


def test_a_write_that_never_goes_on_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = Disk(tmp_path).create()
    monkeypatch.setattr(files, "_pwrite", lambda fd, data, at: 0)
    with pytest.raises(DiskFault):
        produce(log, batch())


def test_a_file_that_would_become_larger_than_the_limit_of_a_process_is_told_with_the_remedy(
    tmp_path: Path,
) -> None:
    log = Disk(tmp_path).create()
    produce(log, batch())
    with (
        full_disk(log.size_bytes),
        pytest.raises(DiskFault, match=r"File too large; raise the limit of a file's size \(ulimit -f"),
    ):
        produce(log, batch())


@pytest.mark.parametrize(
    ("error", "named"),
    [
        (errno.ENOSPC, DiskFull),
        (errno.EDQUOT, DiskFull),
        (errno.EROFS, DiskReadOnly),
        (errno.EACCES, DiskReadOnly),
        (errno.EIO, DiskFault),
    ],
)
def test_16_a_failed_append_is_named_takes_the_directory_offline_and_leaves_no_half_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int, named: type[StorageError]
) -> None:
    disk = Disk(tmp_path)
    log = disk.create()
    produce(log, idempotent(0, 3))
    before = state(log)
    told: list[StorageError] = []
    disk.root.health.on_failure = told.append
    monkeypatch.setattr(files, "_pwrite", half_then(error))
    with pytest.raises(named, match=r"append to .*00000000000000000000\.log") as caught:
        produce(log, idempotent(3, 50))
    monkeypatch.undo()
    assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert said(*told) == said(disk.root.health.failure) == said(caught.value)
    assert state(log) == before
    with pytest.raises(DirectoryOffline, match="is offline"):
        produce(log, idempotent(3))
    recovered = disk.open()
    assert recovered.notes == [] and state(recovered.log) == before
    assert produce(recovered.log, idempotent(3)).base_offset == 3


def test_16_enospc_while_rolling_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(tmp_path)
    disk.config.segment_bytes = 700
    log = disk.create()
    for _ in range(3):
        produce(log, batch(2))
    before = state(log)
    for after in range(4):
        monkeypatch.setattr(files, "_pwrite", failing(errno.ENOSPC, after))
        try:
            produce(log, batch(2))
        except DiskFull:
            pass
        else:
            monkeypatch.undo()
            assert offsets(log) == [0, 2, 4, 6]
            break
        monkeypatch.undo()
        log = disk.open().log
        assert state(log)["contents"] == before["contents"]
        assert log.log_end_offset == 6
    else:
        raise AssertionError("the roll never got through")


def test_16_a_full_disk_leaves_the_old_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = OsDirectory(str(tmp_path))
    root.replace("recovery-point-offset-checkpoint", b"0\n0\n")
    monkeypatch.setattr(files, "_pwrite", failing(errno.ENOSPC))
    with pytest.raises(DiskFull):
        root.replace("recovery-point-offset-checkpoint", b"0\n1\nt 0 5\n")
    monkeypatch.undo()
    assert OsDirectory(str(tmp_path)).read("recovery-point-offset-checkpoint") == b"0\n0\n"


def test_17_a_failed_fsync_is_never_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(tmp_path)
    log = disk.create()
    log.flush()
    produce(log, batch(5))
    calls: list[int] = []

    def fdatasync(fd: int) -> None:
        calls.append(fd)
        if len(calls) == 1:
            raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(files, "_fdatasync", fdatasync)
    with pytest.raises(DiskFault, match="fsync of"):
        log.flush()
    assert log.recovery_point == 0
    with pytest.raises(DirectoryOffline):
        log.flush()
    with pytest.raises(DirectoryOffline):
        produce(log, batch())
    assert len(calls) == 1 and log.recovery_point == 0


def test_17_eio_on_read_takes_the_directory_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(tmp_path)
    log = disk.create()
    produce(log, batch(5))
    monkeypatch.setattr(files, "_pread", failing(errno.EIO))
    with pytest.raises(DiskFault, match="read of"):
        contents(log)
    assert isinstance(disk.root.health.failure, DiskFault)


def test_a_segment_that_cannot_be_taken_out_is_not_said_to_be_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(tmp_path)
    log = disk.create()
    produce(log, batch(5))
    log.roll(NOW)
    produce(log, batch(5))
    monkeypatch.setattr(os, "rename", failing(errno.EIO))
    with pytest.raises(DiskFault, match=r"rename to .*deleted"):
        log.drop_segments_below(5)
    assert isinstance(log.failure, DiskFault) and disk.root.health.failure is not None


def everything_of(log: PartitionLog, offset: int = 0) -> LogRead:
    return log.read(offset, max_bytes=EVERYTHING, upper_bound_offset=EVERYTHING)


def plan_flush_of_all(log: PartitionLog, _: LogRead) -> None:
    log.flushed.cut(0)
    log.plan_flush()


ASKED: dict[str, Callable[[PartitionLog, LogRead], object]] = {
    "read": lambda log, _: everything_of(log),
    "check_batch": lambda log, _: log.check_batch(1),
    "offset_for_timestamp": lambda log, _: log.offset_for_timestamp(NOW),
    "offset_of_max_timestamp": lambda log, _: log.offset_of_max_timestamp(),
    "max_timestamp": lambda log, _: log.max_timestamp(),
    "epoch_in_header": lambda log, _: log.epoch_in_header(0),
    "aborted_transactions": lambda log, _: log.aborted_transactions(0, EVERYTHING),
    "aborted_in": lambda log, read: log.aborted_in(read, 0),
    "keeping_tail": lambda log, _: all_at_once(keeping_tail(log, 1, NOW)),
    "drop_segments_below": lambda log, _: log.drop_segments_below(5),
    "assign_topic_id": lambda log, _: log.assign_topic_id(TOPIC_ID),
    "assign_epoch": lambda log, _: log.assign_epoch(3, log.log_end_offset),
    "note_gaps": lambda log, _: log.note_gaps(),
    "take_snapshot": lambda log, _: log.take_snapshot(log.log_end_offset),
    "truncate_to": lambda log, _: log.truncate_to(1, NOW),
    "truncate_fully_and_start_at": lambda log, _: log.truncate_fully_and_start_at(50, NOW),
    "delete_records_before": lambda log, _: log.delete_records_before(5),
    "append a marker": lambda log, _: produce(
        log, marker(commit=False, producer_id=8), from_coordinator=True
    ),
    "roll": lambda log, _: log.roll(NOW),
    "plan_flush": plan_flush_of_all,
    "flush": lambda log, _: log.flush(),
}


@pytest.mark.parametrize("error", ["ENOENT", "EIO"])
@pytest.mark.parametrize("asked", ASKED)
def test_whoever_asks_a_log_that_cannot_be_read_is_told_and_the_log_is_used_no_more(
    asked: str, error: str
) -> None:
    """One that was just opened, so that nothing is known but what its files say."""
    disk = MemoryDisk()
    small = config(segment_bytes=2 * len(batch()))
    log = create_log(disk.root, TP, NO_TOPIC_ID, small, now_ms=NOW)
    for n in range(4):
        produce(log, idempotent(n, at=NOW + n, is_transactional=True))
    produce(log, marker(commit=False, at=NOW), from_coordinator=True)
    log.roll(NOW)
    produce(log, idempotent(0, at=NOW, producer_id=8, is_transactional=True))
    log.flush()
    log.close()
    root = disk.restart()
    reopened = open_log(root, TP, small, now_ms=NOW, was_clean=True, recovery_point=log.log_end_offset)
    log = reopened.log
    told: list[StorageError] = []
    log.on_broken = lambda _, error: told.append(error)
    root.health.on_failure = log.fail  # as the manager of the logs does
    log.assign_epoch(2, log.log_end_offset)  # something to flush
    read = everything_of(log, 5)
    if error == "ENOENT":  # a file that is open is read all the same
        for operation in ("open", "names", "make", "replace", "rename", "remove", "sync"):
            disk.inject(operation, errno.ENOENT)
        disk.inject("read", errno.ENOENT, name="index")
    else:
        disk.inject("any", errno.EIO)

    with pytest.raises(DiskFault if error == "EIO" else MissingFile) as caught:
        ASKED[asked](log, read)

    assert said(log.failure) == said(caught.value)
    # What a disk does concerns all logs that lie on it: `health` tells.
    by_disk, by_log = said(root.health.failure), said(*told)
    assert (by_disk, by_log) == (
        (said(caught.value), said()) if error == "EIO" else (said(None), said(caught.value))
    )


@pytest.mark.parametrize("is_of_the_disk", [True, False])
def test_a_failed_log_keeps_no_frame_of_who_asks_it(is_of_the_disk: bool) -> None:
    """Nor with it the records that were to be appended, a hundred megabytes perhaps."""
    disk = MemoryDisk()
    root = disk.root
    log = create_log(root, TP, TOPIC_ID, config(), now_ms=NOW)
    root.health.on_failure = log.fail
    produce(log, batch())
    log.assign_epoch(2, 1)  # something to flush
    if is_of_the_disk:
        disk.inject("append", errno.EIO)
        with pytest.raises(DiskFault):
            produce(log, batch())
    else:
        disk.contents(f"{TP}/{log.segments.active.name()}")[-1] ^= 1
        with pytest.raises(CorruptLog):
            log.check_batch(0)
    asks: list[Callable[[], object]] = [
        lambda: produce(log, batch()),
        lambda: follow(log, batch()),
        lambda: log.check_batch(0),
        lambda: log.read(0, max_bytes=1, upper_bound_offset=1),
        lambda: log.truncate_to(0, NOW),
        lambda: log.truncate_fully_and_start_at(5, NOW),
        lambda: log.delete_records_before(1),
    ]
    for ask in asks:
        with pytest.raises(StorageError):
            ask()
    kept = [log.failure, root.health.failure][: 1 + is_of_the_disk]
    for one in kept:
        assert one is not None and one.__traceback__ is one.__context__ is one.__cause__ is None


def test_what_was_raised_when_a_log_or_a_directory_failed_is_kept_without_frames() -> None:
    log, health = create_log(MemoryDisk().root, TP, TOPIC_ID, config(), now_ms=NOW), Health("/logs")
    for fail in (log.fail, health.fail):
        with pytest.raises(DiskFault):
            try:
                raise DiskFault("it is on fire")
            except DiskFault as error:
                raise fail(error) from None
    for kept in (log.failure, health.failure):
        assert kept is not None and kept.__traceback__ is kept.__context__ is kept.__cause__ is None


MET: dict[str, Callable[[PartitionLog], object]] = {
    "read": lambda log: log.read(2, max_bytes=1, upper_bound_offset=EVERYTHING, min_one_batch=True),
    "read to there": lambda log: log.read(0, max_bytes=EVERYTHING, upper_bound_offset=3),
    "check_batch": lambda log: log.check_batch(2),
    "offset_for_timestamp": lambda log: log.offset_for_timestamp(NOW + 2),
    "keeping_tail": lambda log: all_at_once(keeping_tail(log, 3, NOW)),
    "truncate_to": lambda log: log.truncate_to(3, NOW),
}


@pytest.mark.parametrize(
    ("asked", "damage", "is_known"),
    [
        *((asked, damage, False) for asked in MET for damage in ("magic", "length", "cut short")),
        ("check_batch", "body", False),
        ("offset_for_timestamp", "body", False),
        ("read", "length", True),
        ("check_batch", "magic", True),
        ("check_batch", "length", True),
    ],
)
def test_whoever_meets_a_batch_that_is_none_any_more_is_told_and_the_log_is_used_no_more(
    asked: str, damage: str, is_known: bool
) -> None:
    """`is_known`: where it stands is remembered, and nobody has to look for it."""
    disk = MemoryDisk()
    log = create_log(disk.root, TP, TOPIC_ID, config(), now_ms=NOW)
    size = len(batch())
    for n in range(5):
        produce(log, batch(at=NOW + n))
    told: list[StorageError] = []
    log.on_broken = lambda _, error: told.append(error)
    if not is_known:
        log.segments.active.positions.clear()
    contents = disk.contents(f"{TP}/{log.segments.active.name()}")
    if damage == "cut short":
        del contents[2 * size + 20 :]
    else:
        contents[2 * size + {"magic": 16, "length": 8, "body": size - 1}[damage]] ^= 0x80

    with pytest.raises(CorruptLog) as caught:
        MET[asked](log)

    assert said(log.failure) == said(*told) == said(caught.value)


def test_18_an_interrupted_system_call_is_not_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python retries EINTR itself (PEP 475); were it to surface, the append would fail whole, not in part."""
    log = Disk(tmp_path).create()
    monkeypatch.setattr(files, "_pwrite", failing(errno.EINTR))
    with pytest.raises(DiskFault):
        produce(log, batch())
    assert log.log_end_offset == 0 and log.segments.active.file.size_bytes == 0


def test_a_follower_on_a_full_disk_keeps_what_it_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = Disk(tmp_path).create()
    follow(log, batch(2, base_offset=0, leader_epoch=1))
    monkeypatch.setattr(files, "_pwrite", half_then(errno.ENOSPC))
    with pytest.raises(DiskFull):
        follow(log, batch(2, base_offset=2, leader_epoch=1) + batch(2, base_offset=4, leader_epoch=1))
    monkeypatch.undo()
    assert log.log_end_offset == 2 and offsets(log) == [0]


@pytest.mark.parametrize(
    ("begins", "base_offset"),
    [
        (lambda log: log.roll(NOW), 2),
        (lambda log: log.truncate_to(1, NOW), 1),
        (lambda log: log.truncate_fully_and_start_at(7, NOW), 7),
    ],
    ids=["rolled", "cut", "begun anew"],
)
def test_of_a_segment_that_was_made_under_a_temporary_name_the_one_it_has_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begins: Callable[[PartitionLog], None], base_offset: int
) -> None:
    disk = Disk(tmp_path)
    log = disk.create()
    produce(log, batch())
    produce(log, batch())
    begins(log)
    produce(log, batch())  # an epoch that was cut away is written down again
    assert log.segments.active.base_offset == base_offset
    path = disk.file(file_name(base_offset, ".log"))
    assert path.exists()

    monkeypatch.setattr(files, "_pwrite", failing(errno.EIO))
    with pytest.raises(DiskFault) as caught:
        produce(log, batch())
    assert f"append to {path}: " in caught.value.message


def test_a_full_descriptor_table_is_not_the_disks_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = OsDirectory(str(tmp_path))

    def refuse(*args: Any, **options: Any) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(files.os, "open", refuse)
    with pytest.raises(StorageError, match="Too many open files"):
        root.open("a.log", create=True)
    monkeypatch.undo()
    assert root.health.failure is None
    root.open("a.log", create=True)


def test_health_tells_of_the_first_failure_once() -> None:
    told: list[StorageError] = []
    health = Health("/logs")
    health.on_failure = told.append
    first, second = DiskFault("first"), DiskFull("second")
    assert said(health.fail(first), health.fail(second)) == said(first, second)
    assert told == [first] and health.failure is first
    with pytest.raises(DirectoryOffline, match="/logs is offline: first"):
        health.check()


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes anywhere")
def test_a_directory_without_write_permission_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(DiskReadOnly):
        OsDirectory(str(tmp_path)).make("t-0")


def test_a_log_directory_that_was_taken_away_is_offline_at_the_next_checkpoint(tmp_path: Path) -> None:
    """Unmounted, or deleted: open files go on as if nothing had happened, and nothing of it would be kept."""
    root = OsDirectory.create(str(tmp_path / "disk"))
    file = root.make("t-0").open("a.log", create=True)
    shutil.rmtree(tmp_path / "disk" / "t-0")
    with pytest.raises(StorageError):
        root.child("t-0").replace("leader-epoch-checkpoint", b"0\n0\n")
    assert root.health.failure is None, "one partition's directory is not the disk"
    shutil.rmtree(tmp_path / "disk")
    file.append(b"into nowhere")
    with pytest.raises(StorageError):
        root.replace("replication-offset-checkpoint", b"0\n0\n")
    assert root.health.failure is not None
    with pytest.raises(DirectoryOffline):
        root.replace("replication-offset-checkpoint", b"0\n0\n")


def test_18_a_short_write_on_a_full_disk_is_cut_off_at_the_next_start() -> None:
    """A part of the batch stands in the file, and nobody was told that it was written."""
    disk = MemoryDisk()
    log = create_log(disk.root, TP, TOPIC_ID, config(), now_ms=NOW)
    produce(log, batch(1))
    end, one = log.log_end_offset, batch(1)
    for left in (0, 1, 11, 12, 60, len(one) - 1):
        disk.fill(left)
        with pytest.raises(DiskFull):
            produce(log, one)
        assert disk.used_bytes() == disk.capacity_bytes
        disk.heal()
        log = open_log(
            disk.restart(), TP, config(), now_ms=NOW, was_clean=False, recovery_point=0, log_start_offset=0
        ).log
        assert (log.log_end_offset, offsets(log)) == (end, [0])
    produce(log, one)
    assert offsets(log) == [0, 1]


def test_a_log_directory_that_cannot_be_written_is_said_so_before_anything_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(
        StorageError, match=r"file must be one that this broker may read and write: File exists"
    ):
        OsDirectory.create(str(tmp_path / "file"))

    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write everywhere
    with pytest.raises(DiskReadOnly, match=r"mine must be one that this broker may .*: Permission denied"):
        OsDirectory.create(str(tmp_path / "mine"))


def test_a_lock_file_that_cannot_be_opened_is_said_so(tmp_path: Path) -> None:
    (tmp_path / ".lock").mkdir()
    with pytest.raises(StorageError, match=r"its \.lock must be a file that this broker may write"):
        OsDirectory.create(str(tmp_path)).lock()


def bad_sector(monkeypatch: pytest.MonkeyPatch, path: Path, at: int) -> None:
    """No read of this byte of the file succeeds."""
    number = path.stat().st_ino

    def pread(fd: int, size: int, position: int) -> bytes:
        if position <= at < position + size and os.fstat(fd).st_ino == number:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return os.pread(fd, size, position)

    monkeypatch.setattr(files, "_pread", pread)


EPOCHS = "0\n4\n0 0\n1 10\n2 20\n3 30\n"


def four_epochs(path: Path) -> Disk:
    """A segment for each, the last one active; a log that was killed."""
    disk = Disk(path, config(segment_bytes=10 * len(batch())))
    log = disk.create()
    for n in range(35):
        produce(log, batch(), epoch=n // 10)
    assert [one.base_offset for one in log.segments] == [0, 10, 20, 30]
    assert disk.file("leader-epoch-checkpoint").read_text() == EPOCHS
    return disk


@pytest.mark.parametrize("segment", [0, 10])
@pytest.mark.parametrize("suffix", [".log", ".index"])
def test_a_start_does_without_a_bad_sector_in_what_it_only_compares(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, segment: int, suffix: str
) -> None:
    """Of what was flushed it needs nothing; whoever reads there, if anybody does, is told."""
    disk = four_epochs(tmp_path)
    bad_sector(monkeypatch, disk.file(file_name(segment, suffix)), 0)
    found = disk.open(recovery_point=35)
    assert disk.root.health.failure is None and found.log.failure is None
    assert disk.file("leader-epoch-checkpoint").read_text() == EPOCHS
    assert any("Input/output error" in note for note in found.notes), found.notes
    with pytest.raises(DiskFault):
        found.log.read(segment + 1, max_bytes=1, upper_bound_offset=35, min_one_batch=True)
        contents(found.log, segment)
    assert isinstance(disk.root.health.failure, DiskFault)


@pytest.mark.parametrize("damage", ["a bad sector", "a batch that is none"])
def test_where_neither_file_nor_batches_tell_the_epochs_the_log_alone_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    disk = four_epochs(tmp_path)
    disk.file("leader-epoch-checkpoint").write_text(EPOCHS.replace("2 20", "2 24"))
    batches = disk.file(file_name(0, ".log"))
    if damage == "a bad sector":
        bad_sector(monkeypatch, batches, 0)
    else:
        data = bytearray(batches.read_bytes())
        data[MAGIC_OFFSET] = 7
        batches.write_bytes(data)
    with pytest.raises(DiskFault if damage == "a bad sector" else CorruptLog):
        disk.open(recovery_point=35)
    assert disk.root.health.failure is None
