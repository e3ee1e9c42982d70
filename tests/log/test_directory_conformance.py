"""One suite for every `Directory`: what holds in memory holds on the disk, so the simulator tests the real thing."""

import errno
import fcntl
import gc
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from odradek.log import files
from odradek.log.errors import (
    DirectoryInUse,
    DirectoryOffline,
    DiskFault,
    MissingFile,
    NoDescriptor,
    StorageError,
)
from odradek.log.files import Directory, File, FileSlice, Mark, OsDirectory
from odradek.log.memory_files import PAGE_BYTES, Crashed, MemoryDirectory, MemoryDisk

Open = Callable[[], Directory]


@pytest.fixture(params=["os", "memory"])
def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    """The same directory as a new process sees it."""
    if request.param == "os":
        return lambda: OsDirectory.create(str(tmp_path / "logs"))
    disk = MemoryDisk()
    return disk.restart


@pytest.fixture
def root(reopen: Open) -> Directory:
    return reopen()


def test_a_file_that_was_created_is_empty_and_named(root: Directory) -> None:
    assert root.names() == []
    file = root.open("a.log", create=True)
    assert file.size_bytes == 0 and file.name.endswith("a.log")
    assert root.names() == ["a.log"] and root.exists("a.log") and not root.exists("b.log")
    assert not root.is_directory("a.log")


def test_appends_follow_each_other_and_are_read_anywhere(root: Directory) -> None:
    file = root.open("a.log", create=True)
    file.append(b"hello ")
    file.append(memoryview(bytearray(b"-world-"))[1:6])
    assert file.size_bytes == 11
    assert file.read_at(0, 100) == b"hello world"
    assert file.read_at(4, 3) == b"o w"
    assert file.read_at(11, 5) == b"" and file.read_at(100, 5) == b""


def test_a_large_append_is_one_append(root: Directory) -> None:
    file = root.open("a.log", create=True)
    data = bytes(range(256)) * 40_000
    file.append(data)
    assert file.read_at(0, len(data)) == data
    assert root.read("a.log") == data and root.size("a.log") == len(data)


def test_what_was_written_is_there_after_a_restart(reopen: Open) -> None:
    first = reopen()
    file = first.make("t-0").open("a.log", create=True)
    file.append(b"one")
    file.sync()
    second = reopen()
    assert second.is_directory("t-0")
    again = second.child("t-0").open("a.log")
    assert again.size_bytes == 3
    again.append(b"two")
    assert second.child("t-0").read("a.log") == b"onetwo"


def test_opening_what_is_not_there_is_a_missing_file_and_the_directory_stays_online(root: Directory) -> None:
    with pytest.raises(MissingFile, match=r"nothing\.log"):
        root.open("nothing.log")
    assert root.read("nothing.log") is None and root.size("nothing.log") is None
    assert root.rename("nothing.log", "b") is False and root.remove("nothing.log") is False
    assert root.health.failure is None


def test_truncate_cuts_and_appending_goes_on_there(root: Directory) -> None:
    file = root.open("a.log", create=True)
    file.append(b"0123456789")
    file.truncate(4)
    assert file.size_bytes == 4 and file.read_at(0, 10) == b"0123"
    file.append(b"ab")
    assert file.read_at(0, 10) == b"0123ab"


@pytest.mark.parametrize("durable", [True, False])
def test_replace_puts_the_whole_new_contents_in_place(root: Directory, durable: bool) -> None:
    root.replace("checkpoint", b"old and long", durable=durable)
    root.replace("checkpoint", b"new", durable=durable)
    root.replace("empty", b"", durable=durable)
    assert root.read("checkpoint") == b"new" and root.read("empty") == b""
    assert root.names() == ["checkpoint", "empty"]


def test_rename_moves_and_takes_the_place_of_what_is_there(root: Directory) -> None:
    root.replace("a", b"a")
    root.replace("b", b"b")
    assert root.rename("a", "b")
    assert root.names() == ["b"] and root.read("b") == b"a"
    root.make("d").replace("x", b"x")
    assert root.rename("d", "e")
    assert root.child("e").read("x") == b"x" and not root.is_directory("d")


def test_who_is_told_of_the_new_name_goes_on_under_it(root: Directory) -> None:
    inner = root.make("t-0.1-future")
    file = inner.open("a.log", create=True)
    root.rename("t-0.1-future", "t-0")
    inner.renamed("t-0")
    assert inner.path == root.child("t-0").path
    inner.replace("b", b"b")
    file.append(b"on")
    assert root.child("t-0").names() == ["a.log", "b"] and inner.open("a.log").read_at(0, 9) == b"on"


def test_a_directory_in_a_directory_goes_on_under_its_new_name_too(root: Directory) -> None:
    outer = root.make("disk")
    inner = outer.make("t-0")
    outer.rename("t-0", "t-1")
    inner.renamed("t-1")
    inner.replace("b", b"b")
    assert root.child("disk").child("t-1").read("b") == b"b" and root.names() == ["disk"]


def test_what_a_power_cut_has_left_is_left_by_the_next_one_too() -> None:
    disk = MemoryDisk()
    disk.root.make("t-0").open("a.log", create=True).append(b"one")
    disk.power_cut(lambda choices: choices - 1)  # all of it had come to the platter
    root = disk.power_cut(lambda choices: 0)  # nothing but what was synced, or was there at the start
    assert root.child("t-0").read("a.log") == b"one"


def test_a_power_cut_may_leave_a_file_that_was_cut_and_written_on_as_it_was_cut() -> None:
    """A journal keeps the cut, and what came behind it was on its way."""
    left = set()
    for chosen in range(8):
        disk = MemoryDisk()
        file = disk.root.open("a.log", create=True)
        file.append(b"o" * PAGE_BYTES * 4)
        file.sync()
        disk.root.sync()
        file.truncate(PAGE_BYTES)
        file.append(b"n" * PAGE_BYTES * 2)
        left.add(disk.power_cut(lambda choices, chosen=chosen: min(chosen, choices - 1)).size("a.log"))
    assert left == {PAGE_BYTES, PAGE_BYTES * 2, PAGE_BYTES * 3, PAGE_BYTES * 4}


def test_remove_takes_files_and_whole_directories(root: Directory) -> None:
    inner = root.make("t-0")
    inner.replace("a", b"a")
    inner.make("deeper").replace("b", b"b")
    root.replace("c", b"c")
    assert root.remove("c") and root.remove("t-0")
    assert root.names() == []
    assert root.remove("t-0") is False


def test_make_of_a_directory_that_exists_keeps_what_is_in_it(root: Directory) -> None:
    root.make("t-0").replace("a", b"a")
    assert root.make("t-0").read("a") == b"a"


def test_a_removed_file_is_readable_by_who_has_it_open(root: Directory) -> None:
    file = root.open("a.log", create=True)
    file.append(b"still here")
    part = FileSlice(file, 6, 4)
    root.remove("a.log")
    del file
    gc.collect()
    assert part.read() == b"here"


def test_a_slice_of_bytes_that_were_cut_off_says_so(root: Directory) -> None:
    file = root.open("a.log", create=True)
    file.append(b"0123456789")
    part = FileSlice(file, 6, 4)
    file.truncate(8)
    with pytest.raises(MissingFile, match="cut since 4 bytes at 6 were wanted"):
        part.read()


def test_a_slice_made_before_a_cut_is_void_even_if_its_bytes_were_written_again(root: Directory) -> None:
    file = root.open("a.log", create=True)
    file.append(b"0123456789")
    before = FileSlice(file, 6, 4)
    file.truncate(6)
    file.append(b"another history")
    with pytest.raises(MissingFile, match="cut since"):
        before.read()
    assert FileSlice(file, 6, 4).read() == b"anot"


def test_sync_of_files_names_and_directories_answers(root: Directory) -> None:
    inner = root.make("t-0")
    inner.open("a.log", create=True).sync()
    inner.replace("b", b"b", durable=False)
    inner.sync_file("b")
    inner.sync()
    root.sync()
    with pytest.raises(MissingFile):
        inner.sync_file("nothing")


def test_a_directory_that_was_renamed_meanwhile_is_missing_and_its_root_stays_online(root: Directory) -> None:
    """A flush in a thread still holds the old name when the log is deleted: the disk has done nothing wrong."""
    log = root.make("t-0")
    log.open("a.log", create=True).append(b"one")
    root.rename("t-0", "t-0.1-delete")
    with pytest.raises(MissingFile):
        log.sync()
    with pytest.raises(MissingFile):
        log.names()
    with pytest.raises(MissingFile):
        log.sync_file("a.log")
    assert root.health.failure is None


def test_only_one_process_has_the_lock(reopen: Open, root: Directory) -> None:
    lock = root.lock()
    with pytest.raises(DirectoryInUse, match="in use by another process"):
        root.lock()
    lock.release()
    root.lock().release()


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_is_not_taken_for_a_process_that_runs(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "flock", no_locks)
    said = rf"{tmp_path} must be on a file system with locks \(flock\), such as a local disk: .*{os.strerror(code)}"
    with pytest.raises(StorageError, match=said):
        OsDirectory(str(tmp_path)).lock()


def test_a_lock_that_is_held_on_a_share_is_one_of_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By SMB flock answers EACCES for it (flock(2))."""

    def held(*_: object) -> None:
        raise OSError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(fcntl, "flock", held)
    with pytest.raises(DirectoryInUse):
        OsDirectory(str(tmp_path)).lock()


def test_children_share_the_health_of_their_root(root: Directory) -> None:
    assert root.make("t-0").health is root.health
    assert root.child("t-0").child("deeper").health is root.health


Operation = Callable[[Directory, File], object]
CHANGES: dict[str, Operation] = {
    "make": lambda inner, file: inner.make("deeper"),
    "open": lambda inner, file: inner.open("b.log", create=True),
    "replace": lambda inner, file: inner.replace("b", b"b"),
    "replace, not durable": lambda inner, file: inner.replace("b", b"b", durable=False),
    "rename": lambda inner, file: inner.rename("a.log", "b.log"),
    "remove": lambda inner, file: inner.remove("a.log"),
    "sync": lambda inner, file: inner.sync(),
    "sync a file": lambda inner, file: inner.sync_file("a.log"),
    "space": lambda inner, file: inner.space(),
    "append": lambda inner, file: file.append(b"two"),
    "truncate": lambda inner, file: file.truncate(1),
    "sync an open file": lambda inner, file: file.sync(),
}
READS: dict[str, Operation] = {
    "read": lambda inner, file: inner.read("a.log"),
    "read an open file": lambda inner, file: file.read_at(0, 3),
    "size": lambda inner, file: inner.size("a.log"),
    "names": lambda inner, file: inner.names(),
}


@pytest.mark.parametrize("operation", CHANGES.values(), ids=CHANGES)
def test_a_directory_whose_disk_has_failed_is_left_as_it_is(root: Directory, operation: Operation) -> None:
    inner = root.make("t-0")
    file = inner.open("a.log", create=True)
    file.append(b"one")
    root.health.fail(DiskFault("it is on fire"))

    with pytest.raises(DirectoryOffline, match="it is on fire"):
        operation(inner, file)

    assert inner.names() == ["a.log"] and inner.read("a.log") == b"one"


@pytest.mark.parametrize("operation", (CHANGES | READS).values(), ids=CHANGES | READS)
@pytest.mark.parametrize("has_died", [False, True])
def test_in_memory_an_operation_fails_as_it_was_told_to_and_of_a_dead_process_for_good(
    operation: Operation, has_died: bool
) -> None:
    disk = MemoryDisk()
    inner = disk.root.make("t-0")
    file = inner.open("a.log", create=True)
    file.append(b"one")
    if has_died:
        disk.restart()
    else:
        disk.inject("any", errno.EIO, times=1)

    with pytest.raises(Crashed if has_died else DiskFault):
        operation(inner, file)

    assert disk.failures == (not has_died) and (inner.health.failure is None) is has_died
    assert disk.restart().child("t-0").read("a.log") == b"one"


def test_a_fault_that_is_met_apart_is_told_to_nobody_else() -> None:
    disk = MemoryDisk()
    inner = disk.root.make("t-0")
    inner.open("a.log", create=True).append(b"one")
    disk.inject("any", errno.EIO, times=1)
    with pytest.raises(DiskFault):
        inner.apart().open("a.log").read_at(0, 3)
    assert inner.health.failure is None and inner.apart().open("a.log").read_at(0, 3) == b"one"


REMOVALS: dict[str, Operation] = {
    "remove a directory": lambda inner, file: inner.remove("below"),
    "remove what nobody may remove": lambda inner, file: inner.remove("a.log"),
}
# What of the operating system may fail in it: of `os`, or a name of `files`.
CALLS = [
    ("make", "mkdir", errno.EIO),
    ("open", "open", errno.EIO),
    ("open", "fstat", errno.EIO),
    ("replace", "open", errno.EIO),
    ("replace", "_pwrite", errno.EIO),
    ("replace", "_fsync", errno.EIO),
    ("replace", "replace", errno.EIO),
    ("rename", "rename", errno.EIO),
    ("remove", "unlink", errno.EIO),
    ("remove a directory", "rmdir", errno.EIO),
    ("remove what nobody may remove", "unlink", errno.EPERM),
    ("sync", "open", errno.EIO),
    ("sync", "_fsync", errno.EIO),
    ("sync a file", "open", errno.EIO),
    ("sync a file", "_fsync", errno.EIO),
    ("space", "statvfs", errno.EIO),
    ("append", "_pwrite", errno.EIO),
    ("truncate", "_ftruncate", errno.EIO),
    ("sync an open file", "_fdatasync", errno.EIO),
    ("read", "open", errno.EIO),
    ("read", "read", errno.EIO),
    ("read an open file", "_pread", errno.EIO),
    ("size", "stat", errno.EIO),
    ("names", "listdir", errno.EIO),
]


@pytest.mark.parametrize(("name", "call", "error"), CALLS)
def test_whatever_the_operating_system_refuses_is_told_and_takes_the_directory_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, call: str, error: int
) -> None:
    root = OsDirectory.create(str(tmp_path / "root"))
    inner = root.make("t-0")
    inner.make("below")
    file = inner.open("a.log", create=True)
    file.append(b"one")

    def refused(*arguments: object, **options: object) -> None:
        raise OSError(error, os.strerror(error))

    with (
        pytest.raises(StorageError, match=os.strerror(error)) as caught,
        monkeypatch.context() as patch,
    ):
        patch.setattr(files if call.startswith("_") else os, call, refused)
        (CHANGES | READS | REMOVALS)[name](inner, file)

    assert repr(root.health.failure) == repr(caught.value)
    assert inner.read("a.log") == b"one"


def test_a_slice_of_a_file_that_somebody_else_made_shorter_is_void(tmp_path: Path) -> None:
    file = OsDirectory.create(str(tmp_path)).open("a.log", create=True)
    file.append(b"0123456789")
    piece = FileSlice(file, 2, 8)
    os.truncate(file.name, 2)

    with pytest.raises(MissingFile, match="8 bytes at 2 wanted, 0 are there"):
        piece.read()
    with (tmp_path / "socket").open("wb") as socket, pytest.raises(MissingFile, match="8 bytes at 2 wanted"):
        piece.send_to(socket.fileno(), 0, 8)


def test_only_a_full_table_is_a_reason_to_hold_fewer_spare_descriptors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(*arguments: object) -> None:
        raise OSError(errno.EIO, "no")

    with pytest.raises(OSError, match="no"), monkeypatch.context() as patch:
        patch.setattr(files, "_spare", [])
        patch.setattr(os, "open", refused)
        files.hold_spare(1)


def test_a_spare_descriptor_that_another_thread_takes_first_leaves_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Taken(list[int]):
        """Looked at before, and empty behind it."""

        def __bool__(self) -> bool:
            return True

    def full(path: str) -> list[str]:
        raise OSError(errno.EMFILE, "Too many open files", path)

    monkeypatch.setattr(files, "_spare", Taken())
    monkeypatch.setattr(os, "listdir", full)
    with pytest.raises(NoDescriptor):
        OsDirectory(str(tmp_path)).names()


def test_where_the_kernel_has_no_memory_to_open_a_file_nothing_is_wrong_with_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ENOMEM of what changes nothing. One of fsync may be that of a page which could not be written."""

    def refuse(*_: object, **__: object) -> int:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    disk = MemoryDisk()
    on_disk, in_memory = OsDirectory(str(tmp_path)), disk.restart()
    for root in (on_disk, in_memory):
        root.replace("a", b"a")
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)
        disk.inject("open", errno.ENOMEM)
        for root in (on_disk, in_memory):
            with pytest.raises(NoDescriptor, match="; give the machine, or the container, more memory"):
                root.open("a")
            assert root.health.failure is None
    disk.heal()
    monkeypatch.setattr(files, "_fdatasync", refuse)
    disk.inject("sync", errno.ENOMEM)
    for root in (on_disk, in_memory):
        with pytest.raises(DiskFault):
            root.open("a").sync()
        assert root.health.failure is not None
    monkeypatch.setattr(files, "_fsync", refuse)
    again = OsDirectory(str(tmp_path))
    with pytest.raises(DiskFault, match="Cannot allocate memory"):
        again.replace("a", b"b")
    assert again.health.failure is not None


def test_the_space_of_the_disk_is_told_and_shrinks_to_what_is_left(root: Directory) -> None:
    total_bytes, usable_bytes = root.space()
    assert 0 < usable_bytes <= total_bytes


def test_enoent_of_a_rename_and_of_a_removal_is_an_answer(
    root: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever is told so by the disk itself hears the same as of a name that is not there."""

    def missing(*arguments: object) -> None:
        raise OSError(errno.ENOENT, "No such file or directory")

    root.open("a.log", create=True)
    if isinstance(root, MemoryDirectory):
        root.disk.inject("rename", errno.ENOENT)
        root.disk.inject("remove", errno.ENOENT)
    else:
        monkeypatch.setattr(files.os, "rename", missing)
        monkeypatch.setattr(files.os, "unlink", missing)
    assert not root.rename("a.log", "b.log") and not root.remove("a.log")
    assert root.health.failure is None and root.names() == ["a.log"]


def test_the_mark_of_a_file_outlives_the_process_but_no_copy_of_the_file_has_it(reopen: Open) -> None:
    root = reopen()
    file = root.open("a.log", create=True)
    assert not file.mark
    file.set_mark(Mark.LAST)
    if not file.mark:
        pytest.skip("this kernel, or this file system, keeps no marks")
    assert reopen().open("a.log").mark
    root = reopen()
    assert root.rename("a.log", "b.log") and root.open("b.log").mark
    root.replace("c.log", b"")
    assert not root.open("c.log").mark
    root.replace("b.log", b"")
    assert not root.open("b.log").mark


def test_a_mark_is_not_there_during_a_sync_nor_after_one_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = OsDirectory.create(str(tmp_path))
    file = root.open("a.log", create=True)
    file.set_mark(Mark.LAST)
    if not file.mark:
        pytest.skip("this kernel, or this file system, keeps no marks")
    during: list[bool] = []
    for name, sync in (("_fdatasync", file.sync), ("_fsync", lambda: root.sync_file("a.log"))):
        monkeypatch.setattr(files, name, lambda fd: during.append(file.mark))
        sync()
        assert file.mark
    assert during == [False, False]

    def fail(fd: int) -> None:
        raise OSError(errno.EIO, "injected")

    monkeypatch.setattr(files, "_fdatasync", fail)
    with pytest.raises(DiskFault):
        file.sync()
    assert not file.mark


@pytest.mark.parametrize("is_rolled", [False, True])
def test_of_syncs_at_once_each_keeps_the_mark_away_and_the_last_brings_the_newest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_rolled: bool
) -> None:
    root = OsDirectory.create(str(tmp_path))
    file, other = root.open("a.log", create=True), root.open("a.log")
    file.set_mark(Mark.LAST)
    if not file.mark:
        pytest.skip("this kernel, or this file system, keeps no marks")

    def sync_again(fd: int) -> None:
        monkeypatch.setattr(files, "_fdatasync", lambda fd: None)
        file.sync()
        assert not file.mark, "another one runs, and may be told of an error"
        if not is_rolled:
            return
        file.set_mark(Mark.FOLLOWED)  # the log rolls
        assert not file.mark

    monkeypatch.setattr(files, "_fdatasync", sync_again)
    file.sync()
    assert file.mark is (Mark.FOLLOWED if is_rolled else Mark.LAST)

    file.set_mark(Mark.LAST)
    monkeypatch.setattr(files, "_fdatasync", lambda fd: other.set_mark(Mark.FOLLOWED))
    file.sync()
    assert file.mark is Mark.FOLLOWED, "by another process, say"

    def fail(fd: int) -> None:
        raise OSError(errno.EIO, "injected")

    monkeypatch.setattr(files, "_fdatasync", fail)
    with pytest.raises(DiskFault):
        file.sync()
    file.set_mark(Mark.FOLLOWED)
    assert not file.mark


def test_a_mark_in_memory_is_gone_after_a_sync_that_failed() -> None:
    disk = MemoryDisk()
    file = disk.root.open("a.log", create=True)
    file.set_mark(Mark.LAST)
    disk.inject("sync", errno.EIO)
    with pytest.raises(DiskFault):
        file.sync()
    assert not file.mark
