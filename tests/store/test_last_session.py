"""The note that lets a broker end the session of the process before it: it counts only where it was written."""

import json
import shutil
from pathlib import Path

import pytest

pytest.importorskip("kazoo", reason="kazoo is not installed")
from odradek.store.zookeeper import last_session
from odradek.store.zookeeper.last_session import LastSession
from odradek.store.zookeeper.link import SessionKey

KEY = SessionKey(0x100002C84A20000, bytes(range(16)))


def test_a_note_is_read_back_by_its_owner_alone(tmp_path: Path) -> None:
    note = LastSession(tmp_path / "note.json")
    assert note.read() is None
    note.write(KEY)
    assert note.read() == KEY
    assert (tmp_path / "note.json").stat().st_mode & 0o777 == 0o600, "it is a password"
    other = SessionKey(5, b"x")
    note.write(other)
    assert note.read() == other
    note.forget()
    note.forget()
    assert note.read() is None
    assert list(tmp_path.iterdir()) == []


def test_a_note_is_written_where_one_was_begun_and_not_finished(tmp_path: Path) -> None:
    """By a process that was killed within: every broker after it waited for the end of the session before."""
    (tmp_path / "note.json.new").write_text("{")
    note = LastSession(tmp_path / "note.json")
    note.write(KEY)
    assert note.read() == KEY


def test_a_copy_of_the_directory_ends_nobody(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    LastSession(tmp_path / "data" / "note.json").write(KEY)
    shutil.copytree(tmp_path / "data", tmp_path / "copy")
    assert LastSession(tmp_path / "copy" / "note.json").read() is None
    # Nor does one that took its place.
    (tmp_path / "data").rename(tmp_path / "moved")
    (tmp_path / "copy").rename(tmp_path / "data")
    assert LastSession(tmp_path / "data" / "note.json").read() is None


def test_a_note_of_another_boot_counts_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    boot = tmp_path / "boot_id"
    boot.write_text("first\n")
    monkeypatch.setattr(last_session, "_BOOT", boot)
    note = LastSession(tmp_path / "note.json")
    note.write(KEY)
    assert note.read() == KEY
    boot.write_text("second\n")
    assert note.read() is None
    boot.unlink()  # a platform that does not say: nothing is proved, so nothing is written
    note.forget()
    note.write(KEY)
    assert not (tmp_path / "note.json").exists()


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b"null", b'{"where":[]}', b"\xff"])
def test_a_damaged_note_is_as_good_as_none(tmp_path: Path, damage: bytes) -> None:
    note = LastSession(tmp_path / "note.json")
    note.write(KEY)
    (tmp_path / "note.json").write_bytes(damage)
    assert note.read() is None


def test_a_note_with_half_a_password_is_as_good_as_none(tmp_path: Path) -> None:
    note = LastSession(tmp_path / "note.json")
    note.write(KEY)
    value = json.loads((tmp_path / "note.json").read_text())
    (tmp_path / "note.json").write_text(json.dumps({**value, "password": "abc"}))
    assert note.read() is None
