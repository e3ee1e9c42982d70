"""Which life of a broker lost nothing though it was killed: the kernel under which it wrote has kept all (decisions/0074)."""

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from odradek.log import files
from odradek.log.checkpoints import (
    CLEAN_SHUTDOWN,
    HIGH_WATERMARK,
    RECOVERY_POINT,
    RUNNING,
    Running,
    read_running,
    running_to_bytes,
)
from odradek.log.cleaned_segment import CleanedSegment
from odradek.log.errors import CorruptLog, StorageError
from odradek.log.files import Mark, OsDirectory
from odradek.log.log_directory import MOST_NOTE_BYTES
from odradek.log.log_manager import LogManager
from odradek.log.memory_files import MemoryDirectory, MemoryDisk
from odradek.log.offset_checkpoint import OffsetCheckpoint
from odradek.model.ids import TopicPartition
from odradek.model.settings import BrokerSettings
from odradek.records.batch import read_header
from tests.log.logs import batch, follow, keeps_marks, produce

T0 = TopicPartition("t", 0)
FIRST = "t-0/00000000000000000000.log"


def start(*disks: MemoryDisk) -> LogManager:
    logs = LogManager([disk.restart() for disk in disks], BrokerSettings({}))
    logs.load(0)
    return logs


def running(*disks: MemoryDisk, epoch: int = 42) -> LogManager:
    """A broker that wrote, and flushed a part of it."""
    logs = start(*disks)
    logs.is_run_by(epoch)
    log = logs.get_or_create(T0, now_ms=0)
    produce(log, batch())
    log.flush(0)
    logs.checkpoint_recovery_points()
    produce(log, batch())
    return logs


def test_of_a_killed_life_the_kernel_has_kept_all() -> None:
    disks = MemoryDisk("/a"), MemoryDisk("/b")
    running(*disks)

    logs = start(*disks)
    assert logs.clean_epoch == 42 and logs.logs[T0].log_end_offset == 2
    assert start(*disks).clean_epoch == -1, "that life was never registered"


def test_it_is_killed_again_and_again() -> None:
    disk = MemoryDisk()
    running(disk)
    for epoch in (43, 44):
        logs = start(disk)
        assert logs.clean_epoch == epoch - 1
        logs.is_run_by(epoch)
    assert start(disk).clean_epoch == 44


@pytest.mark.parametrize("is_kept", [0, 1])
def test_after_a_power_cut_nobody_knows_whatever_survived(is_kept: int) -> None:
    disk = MemoryDisk()
    running(disk)
    disk.power_cut(lambda count: (count - 1) * is_kept)
    assert start(disk).clean_epoch == -1


def test_after_a_disk_was_unmounted_nobody_knows() -> None:
    disk = MemoryDisk()
    running(disk)
    disk.unmount()
    assert start(disk).clean_epoch == -1


def test_a_file_that_was_out_of_memory_is_not_believed() -> None:
    disk = MemoryDisk()
    running(disk)
    found = disk.file_at(FIRST)
    assert found is not None
    found.mark = Mark.NONE
    assert start(disk).clean_epoch == -1


def test_what_cannot_be_flushed_at_the_start_is_lost() -> None:
    disk = MemoryDisk()
    running(disk)
    disk.restart()
    disk.inject("sync", errno.EIO, name=".log")
    logs = start(disk)
    assert list(logs.offline_directories) == [disk.path] and logs.clean_epoch == -1
    disk.heal()
    assert start(disk).clean_epoch == -1, "the kernel tells of it once"


def test_whoever_dies_in_a_sync_may_have_been_told_that_it_failed() -> None:
    disk = MemoryDisk()
    logs = running(disk)
    disk.dies_at = lambda step: step.startswith("sync") and step.endswith(".log")
    with pytest.raises(BaseException, match="fsync"):
        logs.logs[T0].flush(0)
    disk.dies_at = None
    assert start(disk).clean_epoch == -1


@pytest.mark.parametrize("operation", ["append", "sync", "read"])
def test_a_life_whose_disk_failed_has_lost(operation: str) -> None:
    disk = MemoryDisk()
    logs = running(disk)
    disk.inject(operation, errno.EIO)
    with pytest.raises(StorageError):
        log = logs.logs[T0]
        produce(log, batch())
        log.flush(0)
        log.segments[0].file.read_at(0, 10)
    disk.heal()
    assert start(disk).clean_epoch == -1


@pytest.mark.parametrize("registers_again", [False, True])
def test_a_life_that_found_damage_has_lost(registers_again: bool) -> None:
    disk = MemoryDisk()
    logs = running(disk)
    logs.logs[T0].broken(CorruptLog("damaged"))
    if registers_again:
        logs.is_run_by(43)
    assert start(disk).clean_epoch == -1


def test_a_torn_tail_is_a_loss() -> None:
    disk = MemoryDisk()
    running(disk)
    del disk.contents(FIRST)[-1:]
    logs = start(disk)
    assert logs.clean_epoch == -1 and logs.logs[T0].log_end_offset == 1


def test_a_lost_segment_is_a_loss() -> None:
    disk = MemoryDisk()
    running(disk)
    disk.root.child("t-0").remove(FIRST.partition("/")[2])
    disk.root.remove(RECOVERY_POINT)
    assert start(disk).clean_epoch == -1


SMALL = {"log.segment.bytes": "200", "log.index.size.max.bytes": "4096"}


def rolled(disk: MemoryDisk, *, is_flushed: bool) -> list[str]:
    """The names of the segments that a broker left when it was killed: it has rolled some times."""
    logs = LogManager([disk.restart()], BrokerSettings(SMALL))
    logs.load(0)
    logs.is_run_by(42)
    log = logs.get_or_create(T0, now_ms=0)
    for _ in range(6):
        produce(log, batch())
    if is_flushed:
        log.flush(0)
        logs.checkpoint_recovery_points()
        log.roll(0)
    produce(log, batch())
    found = [name for name in disk.restart().child("t-0").names() if name.endswith(".log")]
    assert len(found) > 2
    return found


@pytest.mark.parametrize("is_flushed", [False, True])
@pytest.mark.parametrize("count", [0, 1, 2])
def test_a_last_segment_that_is_missing_is_a_loss(count: int, is_flushed: bool) -> None:
    """Nothing in what is left of the log tells of it, but that the segment before was not the last one."""
    disk = MemoryDisk()
    names = rolled(disk, is_flushed=is_flushed)
    for name in names[len(names) - count :]:
        disk.root.child("t-0").remove(name)
    logs = start(disk)
    assert logs.clean_epoch == (42 if count == 0 else -1)
    # Of the life that began with what was left nothing is missing.
    logs.is_run_by(43)
    assert start(disk).clean_epoch == (-1 if logs.refused else 43)


@pytest.mark.parametrize("is_torn", [False, True])
def test_of_what_recovery_has_left_the_last_segment_is_the_last(is_torn: bool) -> None:
    disk = MemoryDisk()
    names = rolled(disk, is_flushed=False)
    if is_torn:
        del disk.contents(f"t-0/{names[1]}")[-1:]
    else:
        disk.root.child("t-0").remove(names[1])
    logs = start(disk)
    assert logs.clean_epoch == -1 and logs.logs[T0].segments.active.name() == names[1 if is_torn else 0]
    logs.is_run_by(43)
    assert start(disk).clean_epoch == 43


def test_a_cut_makes_another_segment_the_last() -> None:
    disk = MemoryDisk()
    rolled(disk, is_flushed=False)
    logs = start(disk)
    logs.is_run_by(43)
    logs.logs[T0].truncate_to(3, 0)
    produce(logs.logs[T0], batch())
    last = logs.logs[T0].segments.active.name()
    disk.restart()
    logs = start(disk)
    assert logs.clean_epoch == 43
    logs.is_run_by(44)
    disk.restart().child("t-0").remove(last)
    assert start(disk).clean_epoch == -1


def test_a_compacted_segment_is_never_the_last() -> None:
    disk = MemoryDisk()
    cleaned = CleanedSegment(disk.root.make("t-0"), 0, 0, 4096)
    cleaned.append(read_header(batch()), batch())
    cleaned.finish(1)
    assert disk.file_at("t-0/00000000000000000000.log.cleaned").mark is Mark.FOLLOWED  # type: ignore[union-attr]


@pytest.mark.parametrize("is_checkpointed", [False, True])
def test_a_log_that_is_missing_is_a_loss(is_checkpointed: bool) -> None:
    disk = MemoryDisk()
    logs = running(disk)
    logs.get_or_create(TopicPartition("t", 1), now_ms=0)
    if is_checkpointed:
        logs.checkpoint_high_watermarks({T0: 2})
        logs.checkpoint_recovery_points()
    disk.restart().remove("t-1")
    assert start(disk).clean_epoch == -1


def test_a_log_that_was_deleted_is_not_missing() -> None:
    disk = MemoryDisk()
    logs = running(disk)
    logs.get_or_create(TopicPartition("t", 1), now_ms=0)
    logs.delete(T0, 0)
    logs.purge(1 << 40)
    assert start(disk).clean_epoch == 42


def test_a_note_is_short_however_many_logs_were_made() -> None:
    disk = MemoryDisk()
    logs = running(disk)
    for _ in range(2 * MOST_NOTE_BYTES // 70):
        logs.directories[0].count(1)
        logs.directories[0].count(-1)
    assert len(disk.contents(RUNNING)) < MOST_NOTE_BYTES + 200
    assert start(disk).clean_epoch == 42


def test_a_log_that_has_moved_is_not_missing() -> None:
    two = MemoryDisk("/a"), MemoryDisk("/b")
    logs = running(*two)
    log = logs.logs[T0]
    home = logs.home_of(log)
    (other,) = [one for one in logs.directories if one is not home]
    copy = logs.futures.create(T0, other, 0).log
    file = log.segments.active.file
    follow(copy, file.read_at(0, file.size_bytes))
    copy.flush(0)
    logs.futures.prepare(T0)
    logs.futures.swap(T0, 2, 0)
    assert (home.log_count, other.log_count) == (0, 1)
    assert start(*two).clean_epoch == 42


def test_a_log_that_ends_before_where_it_was_committed_is_a_loss() -> None:
    disk = MemoryDisk()
    running(disk).checkpoint_high_watermarks({T0: 2})
    position = len(disk.contents(FIRST)) - len(batch())
    del disk.contents(FIRST)[position:]  # a whole batch: what is left looks like a log that never had it
    assert start(disk).clean_epoch == -1


@pytest.mark.parametrize("is_removed", [False, True])
def test_a_broker_that_knows_no_notes_ran_since(is_removed: bool) -> None:
    """Release 0.2.0, or Apache's. It leaves the note, and the marks of what it appends to; but it writes high watermarks, every five seconds."""
    disk = MemoryDisk()
    running(disk)
    logs = start(disk)
    logs.is_run_by(43)
    root = disk.restart()
    if is_removed:
        root.remove(HIGH_WATERMARK)
    else:
        root.replace(HIGH_WATERMARK, root.read(HIGH_WATERMARK) or b"")
    assert start(disk).clean_epoch == -1


@pytest.mark.parametrize("by_thread", [False, True])
def test_high_watermarks_that_were_written_are_ours(by_thread: bool) -> None:
    disk = MemoryDisk()
    logs = running(disk)
    if by_thread:
        logs.checkpoint_high_watermarks({T0: 2})
    else:
        logs.directories[0].high_watermarks.set(T0, 1)
    assert start(disk).clean_epoch == 42


@pytest.mark.parametrize("count", [1, 3])
def test_a_log_directory_more_or_less_is_a_loss(count: int) -> None:
    disks = [MemoryDisk(path) for path in ("/a", "/b", "/c")]
    running(*disks[:2])
    assert start(*disks[:count]).clean_epoch == -1


def mark_of_note(disk: MemoryDisk) -> Mark:
    found = disk.file_at(RUNNING)
    assert found is not None
    return found.mark


def test_damage_that_is_found_while_notes_are_written_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """By another thread, before there is a note that could be taken back."""
    two = MemoryDisk("/a"), MemoryDisk("/b")
    logs = running(*two)
    log = logs.logs[T0]

    def boot_id(_: MemoryDirectory) -> str:
        log.broken(CorruptLog("damaged"))
        return "boot-0"

    monkeypatch.setattr(MemoryDirectory, "boot_id", boot_id)
    logs.is_run_by(43)
    assert [mark_of_note(disk) for disk in two] == [Mark.NONE, Mark.NONE]


def test_a_loss_while_the_note_of_a_directory_is_written_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = MemoryDisk()
    (directory,) = running(disk).directories
    monkeypatch.setattr(OffsetCheckpoint, "be_marked", lambda _: directory.has_lost())
    directory.is_run_by(43, 1)
    assert mark_of_note(disk) is Mark.NONE


def test_a_log_directory_that_failed_leaves_no_note_in_the_others() -> None:
    """It is taken from log.dirs, and the others alone would say that nothing was lost."""
    two = MemoryDisk("/a"), MemoryDisk("/b")
    logs = running(*two)
    two[1].inject("sync", errno.EIO)
    with pytest.raises(StorageError):
        two[1].root.sync()
    assert mark_of_note(two[0]) is Mark.NONE
    assert start(two[0]).clean_epoch == -1
    logs = start(*two)
    two[1].inject("sync", errno.EIO)
    with pytest.raises(StorageError):
        two[1].root.sync()
    logs.is_run_by(43)  # it registers again
    assert RUNNING not in two[0].restart().names()


def test_a_note_says_what_was_there_though_it_cannot_be_written_again() -> None:
    disk = MemoryDisk()
    logs = running(disk)
    disk.inject("append", errno.ENOSPC, name=RUNNING)
    logs.get_or_create(TopicPartition("t", 1), now_ms=0)
    disk.heal()
    assert not logs.offline_directories
    assert start(disk).clean_epoch == -1


def test_every_directory_has_to_say_the_same() -> None:
    two = MemoryDisk("/a"), MemoryDisk("/b")
    running(*two)
    start(two[1])  # its note is used up
    assert start(*two).clean_epoch == -1
    running(*two)
    running(two[1], epoch=43)
    assert start(*two).clean_epoch == -1


def test_a_life_that_ends_itself_in_disorder_says_nothing() -> None:
    disk = MemoryDisk()
    running(disk).release()
    assert start(disk).clean_epoch == -1


def test_the_marker_of_a_clean_stop_is_believed_first() -> None:
    disk = MemoryDisk()
    running(disk).close({}, broker_epoch=43)
    assert CLEAN_SHUTDOWN in disk.root.names()
    assert start(disk).clean_epoch == 43
    assert start(disk).clean_epoch == -1


def test_a_marker_that_names_no_epoch_speaks_of_a_later_life_than_the_note() -> None:
    """Another broker ran here since, Apache's say."""
    disk = MemoryDisk()
    running(disk)
    disk.restart().replace(CLEAN_SHUTDOWN, b'{"version":0}')
    assert start(disk).clean_epoch == -1


def test_a_life_that_began_after_a_clean_stop_is_killed() -> None:
    disk = MemoryDisk()
    running(disk).close({}, broker_epoch=42)
    disk.unmount()  # the host was restarted meanwhile, say
    logs = start(disk)
    logs.is_run_by(43)
    produce(logs.logs[T0], batch())
    assert start(disk).clean_epoch == 43


@pytest.mark.parametrize("operation", ["read", "replace"])
def test_a_note_that_cannot_be_read_or_written_takes_no_log_directory_away(operation: str) -> None:
    disk = MemoryDisk()
    running(disk)
    disk.restart()
    disk.inject(operation, errno.ENOSPC, name=RUNNING)
    logs = LogManager([disk.root], BrokerSettings({}))
    logs.load(0)
    assert logs.clean_epoch == (42 if operation == "replace" else -1)
    logs.is_run_by(43)
    assert not logs.offline_directories
    disk.heal()
    assert start(disk).clean_epoch == (-1 if operation == "replace" else 43)


def test_a_note_that_cannot_be_used_up_takes_the_log_directory_away() -> None:
    """Else a later start would believe it, whatever this one found lost."""
    disk = MemoryDisk()
    running(disk)
    disk.restart()
    disk.inject("remove", errno.EIO, name=RUNNING)
    logs = LogManager([disk.root], BrokerSettings({}))
    logs.load(0)
    assert list(logs.offline_directories) == [disk.path] and logs.clean_epoch == -1


@pytest.mark.parametrize(
    ("data", "read"),
    [
        (running_to_bytes(Running(7, "this", 2, 3)), Running(7, "this", 2, 3)),
        (b"anything\n" + running_to_bytes(Running(7, "this", 2, 3)), Running(7, "this", 2, 3)),
        (running_to_bytes(Running(7, "this", 2, 3)) + b"\n{", None),
        (b"", None),
        (b"nonsense", None),
        (b"[]", None),
        (b'{"version":0,"bootId":"this","logDirs":1,"logs":0}', None),
        (b'{"version":0,"bootId":"this","brokerEpoch":"7","logDirs":1,"logs":0}', None),
    ],
)
def test_notes(data: bytes, read: Running | None) -> None:
    assert read_running(data) == read


# --- with a real kernel

KILLED = """
import os, signal, sys
from odradek.log.files import OsDirectory
from odradek.log.log_manager import LogManager
from odradek.model.ids import TopicPartition
from odradek.model.settings import BrokerSettings
from tests.log.logs import batch, follow, keeps_marks, produce
logs = LogManager([OsDirectory.create(path) for path in sys.argv[1:]], BrokerSettings({}))
logs.load(0)
logs.is_run_by(42)
log = logs.get_or_create(TopicPartition("t", 0), now_ms=0)
produce(log, batch())
log.roll(0)
produce(log, batch())
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    if not keeps_marks(tmp_path / "probe"):
        pytest.skip("this kernel, or this file system, keeps no marks")
    found = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "a")], check=False)
    assert found.returncode == -signal.SIGKILL
    return tmp_path / "a"


def load(path: Path) -> LogManager:
    logs = LogManager([OsDirectory.create(str(path))], BrokerSettings({}))
    logs.load(0)
    return logs


def test_a_process_was_killed(killed: Path) -> None:
    logs = load(killed)
    assert logs.clean_epoch == 42 and logs.logs[T0].log_end_offset == 2
    assert load(killed).clean_epoch == -1


def copy(path: Path) -> Path:
    subprocess.run(["cp", "-a", str(path), str(path) + ".copy"], check=True)
    return Path(str(path) + ".copy")


def copy_of_a_segment(path: Path) -> Path:
    subprocess.run(["cp", "-a", str(path / FIRST), str(path / "one")], check=True)
    os.replace(path / "one", path / FIRST)
    return path


def no_last_segment(path: Path) -> Path:
    """Of two: what stays was followed by the other."""
    (path / "t-0/00000000000000000001.log").unlink()
    return path


def shorter_segment(path: Path) -> Path:
    os.truncate(path / "t-0/00000000000000000001.log", 10)
    return path


def forged_note(path: Path) -> Path:
    data = (path / RUNNING).read_bytes()
    (path / RUNNING).unlink()
    (path / RUNNING).write_bytes(data)
    return path


def note_of_another_boot(path: Path) -> Path:
    with open(path / RUNNING, "r+b") as file:  # the file itself is the one that the kernel has kept
        file.truncate()
        file.write(running_to_bytes(Running(42, "0" * 36, 1, 1)))
    return path


def no_note(path: Path) -> Path:
    (path / RUNNING).unlink()
    return path


@pytest.mark.parametrize(
    "change",
    [copy, copy_of_a_segment, forged_note, note_of_another_boot, no_note, no_last_segment, shorter_segment],
)
def test_what_the_kernel_has_not_kept_is_not_believed(killed: Path, change: Callable[[Path], Path]) -> None:
    assert load(change(killed)).clean_epoch == -1


def test_a_kept_segment_is_read_from_the_disk_after_a_sync(
    killed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else, a backup say, may have been told that pages could not be written, and nobody is told again: they are in memory
    still, and will not stay there."""
    done: list[str] = []
    for name in ("_fdatasync", "_fadvise", "_pread"):
        call = getattr(files, name)

        def noted(fd: int, *arguments: int, name: str = name, call: Callable[..., object] = call) -> object:
            if os.readlink(f"/proc/self/fd/{fd}").endswith(".log"):
                done.append(name)
            return call(fd, *arguments)

        monkeypatch.setattr(files, name, noted)
    assert load(killed).clean_epoch == 42
    assert done[:3] == ["_fdatasync", "_fadvise", "_pread"], done


def test_a_note_of_another_user_is_taken_away(killed: Path) -> None:
    """Somebody ran the broker as root once."""
    (killed / RUNNING).chmod(0o400)
    assert load(killed).clean_epoch == 42
    assert not (killed / RUNNING).exists()


@pytest.mark.parametrize("text", [None, b"\xff"])
def test_without_a_boot_id_nobody_knows(
    killed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: bytes | None
) -> None:
    if text is not None:
        (tmp_path / "boot_id").write_bytes(text)
    monkeypatch.setattr(files, "BOOT_ID_FILE", str(tmp_path / "boot_id"))
    assert load(killed).clean_epoch == -1


def test_another_system_knows_no_marks(killed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert load(killed).clean_epoch == -1
