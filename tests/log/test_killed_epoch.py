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
from odradek.log.checkpoints import CLEAN_SHUTDOWN, RECOVERY_POINT, RUNNING, read_running, running_to_bytes
from odradek.log.errors import CorruptLog, StorageError
from odradek.log.files import OsDirectory
from odradek.log.log_manager import LogManager
from odradek.log.memory_files import MemoryDisk
from odradek.model.ids import TopicPartition
from odradek.model.settings import BrokerSettings
from tests.log.logs import batch, keeps_marks, produce

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
    found.is_marked = False
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
    disk.inject("open", errno.EIO, name=RUNNING)
    logs = LogManager([disk.root], BrokerSettings({}))
    logs.load(0)
    assert list(logs.offline_directories) == [disk.path] and logs.clean_epoch == -1


@pytest.mark.parametrize(
    ("data", "boot_id", "epoch"),
    [
        (running_to_bytes(7, "this"), "this", 7),
        (running_to_bytes(7, "other"), "this", -1),
        (running_to_bytes(7, ""), "", -1),
        (b"", "this", -1),
        (b"nonsense", "this", -1),
        (b"[]", "this", -1),
        (b'{"version":0,"bootId":"this"}', "this", -1),
        (b'{"version":0,"bootId":"this","brokerEpoch":"7"}', "this", -1),
    ],
)
def test_notes(data: bytes, boot_id: str, epoch: int) -> None:
    assert read_running(data, boot_id) == epoch


# --- with a real kernel

KILLED = """
import os, signal, sys
from odradek.log.files import OsDirectory
from odradek.log.log_manager import LogManager
from odradek.model.ids import TopicPartition
from odradek.model.settings import BrokerSettings
from tests.log.logs import batch, keeps_marks, produce
logs = LogManager([OsDirectory.create(path) for path in sys.argv[1:]], BrokerSettings({}))
logs.load(0)
logs.is_run_by(42)
log = logs.get_or_create(TopicPartition("t", 0), now_ms=0)
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
    assert logs.clean_epoch == 42 and logs.logs[T0].log_end_offset == 1
    assert load(killed).clean_epoch == -1


def copy(path: Path) -> Path:
    subprocess.run(["cp", "-a", str(path), str(path) + ".copy"], check=True)
    return Path(str(path) + ".copy")


def copy_of_a_segment(path: Path) -> Path:
    subprocess.run(["cp", "-a", str(path / FIRST), str(path / "one")], check=True)
    os.replace(path / "one", path / FIRST)
    return path


def forged_note(path: Path) -> Path:
    data = (path / RUNNING).read_bytes()
    (path / RUNNING).unlink()
    (path / RUNNING).write_bytes(data)
    return path


def note_of_another_boot(path: Path) -> Path:
    with open(path / RUNNING, "r+b") as file:  # the file itself is the one that the kernel has kept
        file.truncate()
        file.write(running_to_bytes(42, "0" * 36))
    return path


def no_note(path: Path) -> Path:
    (path / RUNNING).unlink()
    return path


@pytest.mark.parametrize("change", [copy, copy_of_a_segment, forged_note, note_of_another_boot, no_note])
def test_what_the_kernel_has_not_kept_is_not_believed(killed: Path, change: Callable[[Path], Path]) -> None:
    logs = load(change(killed))
    assert logs.clean_epoch == -1 and logs.logs[T0].log_end_offset == 1


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
