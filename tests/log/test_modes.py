"""What other users of the machine may do with a log directory."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.log.files import OsDirectory


@pytest.fixture(autouse=True)
def nothing_masked() -> Iterator[None]:
    old = os.umask(0)
    yield
    os.umask(old)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_nobody_else_may_open_the_lock(tmp_path: Path) -> None:
    """Whoever may open it, if only to read, may hold it, and the broker does not start."""
    OsDirectory.create(str(tmp_path)).lock().release()
    assert mode(tmp_path / ".lock") == 0o600


def test_a_lock_of_an_older_version_is_closed_to_others(tmp_path: Path) -> None:
    (tmp_path / ".lock").touch(mode=0o644)
    OsDirectory.create(str(tmp_path)).lock().release()
    assert mode(tmp_path / ".lock") == 0o600


def test_a_log_directory_that_is_made_is_its_owners_and_one_that_is_there_stays(tmp_path: Path) -> None:
    OsDirectory.create(str(tmp_path / "new"))
    assert mode(tmp_path / "new") == 0o700
    (tmp_path / "there").mkdir(mode=0o750)
    OsDirectory.create(str(tmp_path / "there"))
    assert mode(tmp_path / "there") == 0o750
