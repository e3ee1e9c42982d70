"""A directory of a process goes with it, however it ends, and nobody takes that of one that lives."""

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from odradek.spark import own_directory
from odradek.spark.own_directory import sweep

OWNS = """
import os, sys
from odradek.spark.own_directory import own_directory
print(own_directory(), flush=True)
(own_directory() / "within").mkdir()
(own_directory() / "within" / "file").write_text("")
if sys.argv[1:] and os.fork():
    os._exit(0)
print(os.getpid(), flush=True)
sys.stdin.read()
"""


@contextmanager
def owner(*arguments: str) -> "Iterator[tuple[subprocess.Popen[str], Path]]":
    """A process that has a directory; of a fork, which its parent leaves behind, where there are arguments."""
    process = subprocess.Popen(
        [sys.executable, "-c", OWNS, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stdin is not None
    with process:
        directory = Path(process.stdout.readline().strip())
        assert int(process.stdout.readline())
        assert directory.parent == Path(os.environ["TMPDIR"])
        yield process, directory
        process.stdin.close()
        process.wait(60)


@pytest.fixture(autouse=True)
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """TMPDIR of these tests, of which a shell makes no more than one word, whatever it is outside."""
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        monkeypatch.setenv("TMPDIR", directory)
        monkeypatch.setattr("tempfile.tempdir", None)
        yield Path(directory)


def test_a_killed_process_leaves_a_directory_that_the_next_one_removes() -> None:
    with owner() as (killed, left):
        killed.kill()
        killed.wait(60)
        assert (left / "within" / "file").exists()

        with owner() as (_, another):
            assert not left.exists() and another.exists()
    assert not another.exists()


@pytest.mark.parametrize("name", ["with a space", "it's", "$HOME", "ü"])
def test_it_is_where_an_unquoted_path_is_one_word_of_a_shell(
    name: str, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark asks a shell for its Python so, and knows no data source in Python where the shell finds none."""
    for_all, odd = temporary / "for-all", temporary / name
    for directory in (for_all, odd):
        directory.mkdir()
    monkeypatch.setattr(own_directory, "FOR_ALL", for_all)
    monkeypatch.setattr("tempfile.tempdir", str(odd))

    assert own_directory._place() == str(for_all)

    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    assert own_directory._place() == str(temporary)

    monkeypatch.setattr("tempfile.tempdir", str(odd))
    monkeypatch.setattr(own_directory, "FOR_ALL", temporary / "there is none")
    assert own_directory._place() == str(odd)


def test_the_directory_of_a_living_process_stays() -> None:
    with owner() as (_, directory):
        sweep()
        assert (directory / "within" / "file").exists()


@pytest.mark.parametrize("host", ["another kernel", ""])
def test_a_directory_of_another_host_is_left(host: str) -> None:
    """On a network's file system a lock may hold on the host alone that took it (nolock, local_lock=flock)."""
    with owner() as (killed, left):
        killed.kill()
        killed.wait(60)
        here = (left / "lock").read_text()
        (left / "lock").write_text(host)
        sweep()
        assert (left / "within" / "file").exists()

        (left / "lock").write_text(here)
        sweep()
        assert not left.exists()


def test_the_directory_stays_as_long_as_a_fork_lives() -> None:
    with owner("fork") as (parent, directory):
        parent.wait(60)
        sweep()
        assert (directory / "within" / "file").exists()


def test_what_has_no_lock_or_is_no_directory_or_is_somebody_elses_is_left(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A directory without a lock may be on its way to one."""
    kinds = [temporary / f"odradek-fork-{name}" for name in ("new", "file", "link", "pipe", "linked")]
    new, file, link, pipe, linked = kinds
    new.mkdir()
    file.write_text("")
    elsewhere = temporary / "elsewhere"
    for directory in (elsewhere, pipe, linked):
        directory.mkdir()
    (elsewhere / "lock").write_bytes(own_directory._host())
    link.symlink_to(elsewhere)
    os.mkfifo(pipe / "lock")
    (linked / "lock").symlink_to(elsewhere / "lock")
    named_otherwise = temporary / "odradek-7"
    named_otherwise.mkdir()
    (named_otherwise / "lock").write_bytes(own_directory._host())

    sweep()
    assert all(path.exists() for path in (*kinds[:3], linked, elsewhere / "lock", named_otherwise / "lock"))

    (new / "lock").write_bytes(own_directory._host())
    with monkeypatch.context() as patch:
        patch.setattr("os.geteuid", lambda: os.getuid() + 1)
        sweep()
        assert new.exists()
    sweep()
    assert not new.exists()


def test_who_was_about_to_remove_what_is_gone_leaves_another_directory_of_that_name(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has opened the lock of the one that was left, and somebody else was faster."""
    directory = temporary / "odradek-fork-left"
    directory.mkdir()
    (directory / "lock").write_bytes(own_directory._host())
    real, place = os.open, directory / "lock"

    def opens(path: Any, *how: int) -> int:
        lock = real(path, *how)
        if path != place:
            return lock
        monkeypatch.setattr("os.open", real)
        shutil.rmtree(directory)
        directory.mkdir()
        assert own_directory._is_locked(directory)
        return lock

    monkeypatch.setattr("os.open", opens)
    sweep()

    assert os.open is real and place.exists()


def test_who_makes_a_directory_notices_that_it_was_taken_for_one_that_was_left(tmp_path: Path) -> None:
    """Between its making and its lock, by somebody who still is at it, or who was."""
    directory = tmp_path / "odradek-fork-mine"
    directory.mkdir()
    taken: list[int] = []

    def opens(path: Path, *how: int) -> int:
        lock = real(path, *how)
        taken.append(real(path, os.O_RDWR))
        fcntl.flock(taken[-1], fcntl.LOCK_EX)
        return lock

    def removes(path: Path, *how: int) -> int:
        lock = real(path, *how)
        os.unlink(path)
        return lock

    real = os.open
    for meanwhile in (opens, removes):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("os.open", meanwhile)
            assert not own_directory._is_locked(directory)
        for lock in taken:
            os.close(lock)
        taken.clear()
        (directory / "lock").unlink(missing_ok=True)
    directory.rmdir()
    assert not own_directory._is_locked(directory)
    directory.mkdir()
    assert own_directory._is_locked(directory)
