"""The recovery point moves only behind what was synced, and a flush is due when the settings say so."""

from pathlib import Path

import pytest

from odradek.log import files
from tests.log.logs import NOW, Disk, batch, config, produce

SIZE = len(batch())


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is synced, by name, in order."""
    import os

    calls: list[str] = []

    def record(fd: int) -> None:
        calls.append(os.path.basename(os.readlink(f"/proc/self/fd/{fd}")))

    monkeypatch.setattr(files, "_fdatasync", record)
    monkeypatch.setattr(files, "_fsync", record)
    return calls


def test_a_flush_syncs_data_then_what_is_derived_then_names(tmp_path: Path, synced: list[str]) -> None:
    log = Disk(tmp_path, config(segment_bytes=SIZE * 2)).create()
    for _ in range(3):
        produce(log, batch())
    assert synced == [] and log.recovery_point == 0
    assert log.flush() == 3 == log.recovery_point
    assert synced[:2] == ["00000000000000000000.log", "00000000000000000002.log"]
    assert set(synced[2:-2]) == {
        "leader-epoch-checkpoint",
        "partition.metadata",
        "00000000000000000000.index",
        "00000000000000000000.timeindex",
        "00000000000000000002.snapshot",
    }
    assert synced[-2:] == ["orders-0", tmp_path.name], "the log's directory, then its own name"


def test_the_next_flush_syncs_only_what_is_new(tmp_path: Path, synced: list[str]) -> None:
    log = Disk(tmp_path).create()
    produce(log, batch())
    log.flush()
    synced.clear()
    log.flush()
    assert synced == []
    produce(log, batch())
    log.flush()
    assert synced == ["00000000000000000000.log"], "group commit costs one fdatasync"


def test_a_stop_in_order_syncs_what_it_writes_of_producers(tmp_path: Path, synced: list[str]) -> None:
    """Of records that were deleted nothing else knows."""
    log = Disk(tmp_path).create()
    produce(log, batch())
    log.flush()
    synced.clear()
    log.close()
    assert "00000000000000000001.snapshot" in synced


def test_a_flush_is_due_after_a_roll_that_came_while_another_one_ran(tmp_path: Path) -> None:
    log = Disk(tmp_path).create()
    produce(log, batch())
    plan = log.plan_flush()
    log.roll(NOW)
    plan.run()
    log.commit_flush(plan, NOW)
    assert log.flush_is_due(NOW)
    log.flush(NOW)
    assert not log.flush_is_due(NOW)


def test_appends_during_a_flush_wait_for_the_next(tmp_path: Path) -> None:
    log = Disk(tmp_path, config(segment_bytes=SIZE * 2)).create()
    produce(log, batch())
    plan = log.plan_flush()
    for _ in range(4):
        produce(log, batch())
    plan.run()
    assert log.commit_flush(plan) == 1
    assert log.flush() == 5


def test_a_flush_is_due_by_messages_by_time_and_after_a_roll(tmp_path: Path) -> None:
    log = Disk(tmp_path, config(flush_messages=3, flush_ms=1000, segment_bytes=SIZE * 6)).create()
    log.flush(NOW)
    assert not log.flush_is_due(NOW + 5000), "there is nothing to flush"
    produce(log, batch(2))
    assert not log.flush_is_due(NOW + 999) and log.flush_is_due(NOW + 1000)
    produce(log, batch(1))
    assert log.flush_is_due(NOW)
    log.flush(NOW)
    assert not log.flush_is_due(NOW)
    quiet = Disk(tmp_path / "quiet", config(segment_bytes=SIZE * 2))
    quiet.path.mkdir()
    other = quiet.create()
    other.flush(NOW)
    produce(other, batch())
    produce(other, batch())
    assert not other.flush_is_due(NOW + 10**9)
    produce(other, batch())
    assert other.flush_is_due(NOW)
    other.flush(NOW)
    assert not other.flush_is_due(NOW)


def test_what_is_replaced_while_a_flush_runs_is_synced_by_the_next(tmp_path: Path, synced: list[str]) -> None:
    log = Disk(tmp_path).create()
    log.flush()
    log.assign_epoch(1, 0)
    plan = log.plan_flush()
    log.assign_epoch(2, 0)
    plan.run()
    log.commit_flush(plan)
    synced.clear()
    log.flush()
    assert synced == ["leader-epoch-checkpoint", "orders-0"]


def test_what_is_removed_while_a_flush_is_about_to_sync_it_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The flush runs in a thread: between two of its calls the loop may let a segment go, and with it a snapshot."""
    log = Disk(tmp_path, config(segment_bytes=SIZE)).create()
    for _ in range(3):
        produce(log, batch())
    plan = log.plan_flush()
    sync_file = files.OsDirectory.sync_file

    def slowly(directory: files.OsDirectory, name: str) -> None:
        if name.endswith(".snapshot"):
            log.delete_records_before(2)
        sync_file(directory, name)

    monkeypatch.setattr(files.OsDirectory, "sync_file", slowly)
    plan.run()
    assert log.commit_flush(plan) == 3 and log.failure is None


def test_close_leaves_index_files_cut_to_their_entries_and_a_snapshot_at_the_end(tmp_path: Path) -> None:
    disk = Disk(tmp_path, config(index_interval_bytes=SIZE))
    log = disk.create()
    for n in range(10):
        produce(log, batch(at=NOW + n))
    log.close()
    assert disk.file("00000000000000000000.index").stat().st_size == 8 * 4
    assert disk.file("00000000000000000000.timeindex").stat().st_size == 12 * 5
    assert disk.file("00000000000000000010.snapshot").stat().st_size == 10
