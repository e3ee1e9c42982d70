"""Opening a log after a stop that was not in order: each case has a number, on real files.

Each ends with a second recovery, which must change nothing. Cases 10 and the swap part of 9 belong to compaction;
1-4 and 8 in all their crash states are in `test_crash_states`.
"""

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from odradek.log import indexes
from odradek.log.errors import CorruptLog, StorageError
from odradek.log.files import OsDirectory, OsFile
from odradek.log.indexes import OFFSET_ENTRY, TIME_ENTRY
from odradek.log.partition_log import PartitionLog
from odradek.log.recovery import Recovered
from odradek.log.segment import file_name
from odradek.model.ids import NO_TOPIC_ID
from odradek.records.batch import iter_batches
from odradek.records.errors import CorruptBatch
from tests.log.logs import (
    NOW,
    TOPIC_ID,
    Disk,
    assert_index_answers_as_a_scan,
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
from tests.log.test_append import edited
from tests.support import open_under

SIZE = len(batch())


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path, config(segment_bytes=SIZE * 10, index_interval_bytes=SIZE))


def filled(disk: Disk, count: int = 35) -> PartitionLog:
    """Segments at 0, 10, 20, 30; an epoch per ten records; one idempotent producer."""
    log = disk.create()
    for n in range(count):
        produce(log, idempotent(n, at=NOW + n), epoch=n // 10)
    return log


def recovered(disk: Disk, *, recovery_point: int = 0, log_start_offset: int = 0) -> Recovered:
    """Recovers twice, and once more from a copy: the second changes nothing, not a byte of the log."""
    first = disk.open(recovery_point=recovery_point, log_start_offset=log_start_offset)
    after = state(first.log)
    logs = {
        name: disk.file(name).read_bytes() for name in disk.names() if name.endswith((".log", "checkpoint"))
    }
    second = disk.open(recovery_point=recovery_point, log_start_offset=log_start_offset)
    assert second.notes == [] or after["end"] == after["start"]
    assert state(second.log) == after
    assert {name: disk.file(name).read_bytes() for name in logs} == logs
    assert_index_answers_as_a_scan(second.log)
    # It can be appended to where it ends.
    assert produce(second.log, batch(at=NOW + 999), epoch=99).base_offset == after["end"]
    second.log.truncate_to(after["end"], NOW)
    return first


def test_without_any_damage_everything_is_found_again(disk: Disk) -> None:
    before = state(filled(disk))
    assert state(recovered(disk).log) == before


def test_1_a_batch_cut_at_any_byte_is_where_the_log_ends(disk: Disk) -> None:
    before = contents(filled(disk, 13))
    path = disk.file(file_name(10, ".log"))
    whole = path.read_bytes()
    for size in range(SIZE * 2 + 1, SIZE * 3):
        path.write_bytes(whole[:size])
        result = disk.open()
        assert result.log.log_end_offset == 12 and contents(result.log) == before[: SIZE * 12]
        assert len(result.notes) == 1 and result.notes[0].startswith("cut at offset 12: ")
        assert result.log.producers.get(7) is not None and result.log.producers.all()[0].last_sequence == 11
        assert disk.open().notes == []
    assert recovered(disk).log.log_end_offset == 12


def test_2_a_lost_suffix_of_whole_batches_is_a_shorter_log(disk: Disk) -> None:
    before = contents(filled(disk))
    path = disk.file(file_name(30, ".log"))
    path.write_bytes(path.read_bytes()[: SIZE * 2])
    result = recovered(disk)
    assert result.log.log_end_offset == 32 and contents(result.log) == before[: SIZE * 32]
    assert result.log.producers.all()[0].last_sequence == 31


def test_2_a_lost_suffix_of_an_older_segment_takes_the_newer_ones_with_it(disk: Disk) -> None:
    before = contents(filled(disk))
    path = disk.file(file_name(20, ".log"))
    path.write_bytes(path.read_bytes()[: SIZE * 4])
    result = recovered(disk)
    assert contents(result.log) == before[: SIZE * 24]
    assert result.log.epochs.entries == [(0, 0), (1, 10), (2, 20)]
    assert "segment 30" in result.notes[0]


def test_3_a_later_page_on_disk_and_an_earlier_one_not_ends_the_log_at_the_hole(disk: Disk) -> None:
    disk.config.segment_bytes = 1 << 20
    before = contents(filled(disk, 100))
    path = disk.file(file_name(0, ".log"))
    data = bytearray(path.read_bytes())
    data[4096:8192] = bytes(4096)
    path.write_bytes(data)
    result = recovered(disk)
    assert contents(result.log) == before[: 4096 // SIZE * SIZE]


def test_4_zeros_behind_the_last_batch_are_no_batches(disk: Disk) -> None:
    before = state(filled(disk, 13))
    path = disk.file(file_name(10, ".log"))
    for zeros in (1, 16, 17, 60, 61, 4096, 100_000):
        with path.open("ab") as file:
            file.write(bytes(zeros))
        result = disk.open()
        assert result.notes and state(result.log) == before
    with path.open("ab") as file:
        file.truncate(1 << 20)
    assert state(recovered(disk).log) == before


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize(
    "damage", ["missing", "empty", "short", "torn", "zeros", "longer", "stale", "noise", "other"]
)
@pytest.mark.parametrize("clean", [False, True])
def test_5_a_wrong_index_is_built_again_and_answers_as_a_scan(
    disk: Disk, suffix: str, damage: str, clean: bool
) -> None:
    log = filled(disk)
    before = state(log)
    log.close()
    for base in (0, 10, 20, 30):
        path = disk.file(file_name(base, suffix))
        good = path.read_bytes()
        assert good
        if damage == "missing":
            path.unlink()
        elif damage == "other":
            if base:
                path.write_bytes(disk.file(file_name(0, ".log")).read_bytes()[: len(good) // 24 * 24])
        else:
            path.write_bytes(
                {
                    "empty": b"",
                    "short": good[: len(good) // 24 * 12],
                    "torn": good[:-1],
                    "zeros": bytes(len(good)),
                    "longer": good + bytes(4096),
                    "stale": good[:24] + good[:24],
                    "noise": bytes(n * 37 % 256 for n in range(len(good))),
                }[damage]
            )
    opened = disk.open(clean=clean, recovery_point=35 if clean else 0)
    assert state(opened.log) == before
    assert_index_answers_as_a_scan(opened.log)
    opened.log.truncate_to(17, NOW)
    assert_index_answers_as_a_scan(opened.log)


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("damage", ["missing", "torn", "longer"])
def test_5_a_segment_that_is_appended_to_again_has_all_entries_of_its_index(
    disk: Disk, suffix: str, damage: str
) -> None:
    filled(disk).close()
    path = disk.file(file_name(30, suffix))
    good = path.read_bytes()
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(good[:-1] if damage == "torn" else good + b"x")

    log = disk.open(clean=True, recovery_point=35).log
    log.close()

    assert path.read_bytes() == good


@pytest.mark.parametrize(
    ("number", "later_ms", "further"), [(-1, 1000, 0), (-1, -1, 0), (3, 0, 4), (3, -2, 0)]
)
def test_5_a_time_entry_about_another_batch_is_seen_when_it_is_asked_about(
    disk: Disk, number: int, later_ms: int, further: int
) -> None:
    """A file that looks like an index: its entries rise, and name places in the log."""
    filled(disk).close()
    path = disk.file(file_name(0, ".timeindex"))
    entries = list(TIME_ENTRY.iter_unpack(path.read_bytes()))
    timestamp, relative = entries[number]
    entries[number] = timestamp + later_ms, relative + further
    path.write_bytes(b"".join(TIME_ENTRY.pack(*entry) for entry in entries))

    log = disk.open(clean=True, recovery_point=35).log

    assert_index_answers_as_a_scan(log)
    assert log.segments[0].largest_timestamp() == NOW + 9
    assert log.segments[0].offset_of_max_timestamp == 9


def test_5_a_time_entry_about_another_batch_is_seen_in_the_segment_that_is_written_too(disk: Disk) -> None:
    """Its indexes are read into memory, where only the last entry is held against the batches."""
    filled(disk).close()
    path = disk.file(file_name(30, ".timeindex"))
    (timestamp, relative), *others = TIME_ENTRY.iter_unpack(path.read_bytes())
    entries = [(timestamp - 1, relative + 1), *others]
    path.write_bytes(b"".join(TIME_ENTRY.pack(*entry) for entry in entries))

    assert_index_answers_as_a_scan(disk.open(clean=True, recovery_point=35).log)


@pytest.mark.parametrize("base_offset", [0, 30])
def test_5_a_time_entry_that_names_a_later_batch_of_the_same_time_hides_none(
    disk: Disk, base_offset: int
) -> None:
    """Found by seed 213 of the simulator: a block of another index lay there, and its entry was true of the batch it named."""
    log = disk.create()
    for n in range(35):
        produce(log, idempotent(n, at=NOW + n // 5))
    log.close()
    path = disk.file(file_name(base_offset, ".timeindex"))
    (timestamp, relative), *others = TIME_ENTRY.iter_unpack(path.read_bytes())
    entries = [(timestamp, relative + 3), *others]
    path.write_bytes(b"".join(TIME_ENTRY.pack(*entry) for entry in entries))

    assert_index_answers_as_a_scan(disk.open(clean=True, recovery_point=35).log)


@pytest.mark.parametrize("entry", [(0, 0), (9, 0), (-1, SIZE), (9, SIZE * 10)], ids=str)
def test_5_an_index_whose_last_entry_names_no_batch_is_built_again_when_it_is_asked(
    disk: Disk, entry: tuple[int, int]
) -> None:
    filled(disk).close()
    path = disk.file(file_name(0, ".index"))
    damaged = path.read_bytes() + OFFSET_ENTRY.pack(*entry)
    path.write_bytes(damaged)

    log = disk.open(clean=True, recovery_point=35).log
    assert log.segments[0].position_of(5) == SIZE * 5

    assert path.read_bytes() != damaged


@pytest.mark.parametrize("entry", [(5, SIZE * 5 + 1), (4, SIZE * 5), (5, SIZE * 9 + 20)], ids=str)
def test_5_an_entry_of_an_index_that_names_no_batch_is_not_believed(
    disk: Disk, entry: tuple[int, int]
) -> None:
    """It lies within the log: between two batches, at one that ends behind it, in the last header."""
    filled(disk).close()
    disk.file(file_name(0, ".index")).write_bytes(OFFSET_ENTRY.pack(*entry))

    segment = disk.open(clean=True, recovery_point=35).log.segments[0]

    assert segment.last_indexed_position() == 0
    assert segment.offset_behind(SIZE * 3, 35) == 10
    assert segment.position_of(7) == SIZE * 7


def test_5_an_index_of_the_last_segment_that_names_no_batch_is_built_again_at_the_start(disk: Disk) -> None:
    filled(disk).close()
    path = disk.file(file_name(30, ".index"))
    path.write_bytes(OFFSET_ENTRY.pack(2, SIZE * 2 + 1))

    segment = disk.open(clean=True, recovery_point=35).log.segments.active

    assert segment.last_indexed_position() == SIZE * 4
    assert [segment.position_of(offset) for offset in range(30, 35)] == [SIZE * n for n in range(5)]


def test_an_index_is_looked_into_where_its_segment_says_that_the_entry_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it takes more than one read."""
    monkeypatch.setattr(indexes, "BLOCK_ENTRIES", 4)
    disk = Disk(tmp_path, config(segment_bytes=SIZE * 10, index_interval_bytes=1))
    segment = filled(disk).segments[2]
    reads = []
    read_at = OsFile.read_at

    def counted(file: OsFile, position: int, size: int) -> bytes:
        reads.append(file.name)
        return read_at(file, position, size)

    segment.position_of(25)  # the index is open now
    monkeypatch.setattr(OsFile, "read_at", counted)
    for offset in range(21, 30):
        reads.clear()
        segment.positions.clear()
        assert segment.position_of(offset) == SIZE * (offset - 20)
        assert sum(name.endswith(".index") for name in reads) == 1


def test_an_index_that_is_right_is_not_built_again(disk: Disk) -> None:
    filled(disk).close()
    names = [file_name(0, suffix) for suffix in (".index", ".timeindex")]
    before = [(disk.file(name).stat().st_ino, disk.file(name).read_bytes()) for name in names]

    log = disk.open(clean=True, recovery_point=35).log
    assert_index_answers_as_a_scan(log)
    assert log.segments[0].largest_timestamp() == NOW + 9

    assert [(disk.file(name).stat().st_ino, disk.file(name).read_bytes()) for name in names] == before


@pytest.mark.parametrize("clean", [True, False])
def test_a_start_holds_no_descriptor_of_segments_that_nobody_reads(
    disk: Disk, monkeypatch: pytest.MonkeyPatch, clean: bool
) -> None:
    """A log may have more of them than there are descriptors, and all are walked over where no other file says what they do."""
    filled(disk).close()
    for name in disk.names():
        if name.endswith((".snapshot", "epoch-checkpoint")):
            disk.file(name).unlink()
    most = 0
    open_file = OsDirectory.open

    def counted(directory: OsDirectory, name: str, **options: Any) -> OsFile:
        nonlocal most
        file = open_file(directory, name, **options)
        most = max(most, sum(name.endswith(".log") for name in open_under(disk.path)))
        return file

    monkeypatch.setattr(OsDirectory, "open", counted)
    log = disk.open(clean=clean).log
    assert (len(log.segments), log.log_end_offset, log.producers.ids()) == (4, 35, [7])
    assert len(log.epochs.entries) == 4 and most <= 2


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("clean", [True, False])
def test_5_a_missing_index_is_built_at_the_start_and_not_when_somebody_reads(
    disk: Disk, suffix: str, clean: bool
) -> None:
    """Whoever reads is the loop, and others would wait for a scan of the segment."""
    log = filled(disk)
    log.close()
    path = disk.file(file_name(10, suffix))
    written = path.read_bytes()
    path.unlink()

    opened = disk.open(clean=clean, recovery_point=log.log_end_offset).log

    assert path.read_bytes() == written
    assert opened.segments[1].is_cold, "nobody reads it yet"
    assert path.name in opened.plan_flush()._names, "and a power cut does not take it"


def test_5_a_transaction_index_is_built_again(disk: Disk) -> None:
    log = disk.create()
    for n in range(6):
        produce(log, idempotent(n * 2, 2, is_transactional=True))
        produce(log, marker(commit=n % 2 == 0), from_coordinator=True)
    before = state(log)
    assert len(before["transactions"]) == 3
    names = [name for name in disk.names() if name.endswith(".txnindex")]
    good = {name: disk.file(name).read_bytes() for name in names}
    for change in (
        lambda data: b"",
        lambda data: data[:-3],
        lambda data: data * 2,
        lambda data: bytes(len(data)),
    ):
        for name in names:
            disk.file(name).write_bytes(change(good[name]))
        result = disk.open()
        assert state(result.log) == before
        assert {name: disk.file(name).read_bytes() for name in names} == good
    for name in names:
        disk.file(name).unlink()
    assert state(disk.open().log) == before


def test_6_a_segment_whose_name_was_not_synced_is_a_shorter_log(disk: Disk) -> None:
    before = contents(filled(disk))
    disk.file(file_name(30, ".log")).unlink()
    result = recovered(disk)
    assert contents(result.log) == before[: SIZE * 30] and result.log.log_end_offset == 30
    assert not disk.file(file_name(30, ".index")).exists()


def test_6_a_directory_without_any_segment_is_a_new_log(disk: Disk) -> None:
    filled(disk, 3)
    for name in disk.names():
        disk.file(name).unlink()
    result = recovered(disk)
    assert result.log.log_end_offset == 0 and result.log.topic_id == NO_TOPIC_ID
    result.log.assign_topic_id(TOPIC_ID)
    assert disk.open().log.topic_id == TOPIC_ID


def test_6_a_missing_segment_in_the_middle_is_refused_below_the_flushed_point(disk: Disk) -> None:
    filled(disk)
    disk.file(file_name(20, ".log")).unlink()
    with pytest.raises(CorruptLog, match="flushed"):
        disk.open(recovery_point=25)


NOTE = "its first segment begins at offset {}, but by leader-epoch-checkpoint the log began at {}: "


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("start", [0, 5])
def test_first_segments_that_are_gone_are_told_of_once(disk: Disk, start: int, clean: bool) -> None:
    """The log begins later; and followers of a leader that begins later let go of the same records."""
    log = filled(disk)
    end, flushed = log.log_end_offset, 20  # no more than what is gone
    log.delete_records_before(start)
    log.close()
    for name in (file_name(0, ".log"), file_name(10, ".log")):
        disk.file(name).unlink()
    found = disk.open(clean=clean, recovery_point=flushed, log_start_offset=start)
    (note,) = found.notes
    assert note.startswith(NOTE.format(20, start)) and "odradek reassign" in note
    assert (found.log.log_start_offset, found.log.log_end_offset) == (20, end)
    found.log.close()
    assert disk.open(clean=clean, recovery_point=flushed, log_start_offset=start).notes == []


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("start", [15, 20])
def test_first_segments_that_retention_has_let_go_of_are_not_missed(
    disk: Disk, start: int, clean: bool
) -> None:
    log = filled(disk)
    end = log.log_end_offset
    log.delete_records_before(start)
    log.close()
    found = disk.open(clean=clean, recovery_point=end, log_start_offset=start)
    assert (found.log.log_start_offset, found.notes) == (start, [])


@pytest.mark.parametrize("start", [20, 100])
def test_a_log_that_was_begun_anew_and_then_killed_misses_no_segments(disk: Disk, start: int) -> None:
    """The segment has its name, and the file of epochs is the former one: the recovery point was lowered before."""
    log = filled(disk)
    log.flush(NOW)
    former = disk.file("leader-epoch-checkpoint").read_bytes()
    log.truncate_fully_and_start_at(start, NOW)
    flushed = log.recovery_point
    log.close()
    disk.file("leader-epoch-checkpoint").write_bytes(former)
    found = disk.open(recovery_point=flushed)
    assert (found.log.log_start_offset, found.notes) == (start, [])


def test_a_start_that_was_killed_as_it_began_a_log_anew_leaves_one_that_misses_no_segments(
    disk: Disk,
) -> None:
    """All of it was deleted on request, as `log-start-offset-checkpoint` says, and its end was lost."""
    log = filled(disk)
    end = log.log_end_offset
    log.close()
    former = disk.file("leader-epoch-checkpoint").read_bytes()
    disk.file(file_name(30, ".log")).unlink()
    assert disk.open(recovery_point=end, log_start_offset=end).log.first_base_offset == end
    disk.file("leader-epoch-checkpoint").write_bytes(former)
    assert disk.open(recovery_point=end, log_start_offset=end).notes == []


def test_a_log_of_apaches_that_was_killed_as_it_let_go_of_segments_is_served(disk: Disk) -> None:
    """It renames the segments, and then writes where the epochs begin."""
    log = filled(disk)
    end = log.log_end_offset
    log.close()
    for path in [
        path for path in disk.log_path.iterdir() if path.name.startswith((f"{0:020d}", f"{10:020d}"))
    ]:
        path.rename(path.with_name(f"{path.name}.deleted"))
    assert disk.open(recovery_point=end).log.log_start_offset == 20


@pytest.mark.parametrize("clean", [True, False])
def test_an_empty_log_that_goes_on_behind_a_wide_gap_is_served(disk: Disk, clean: bool) -> None:
    """Its one segment, which had no batch, is not kept; its leader epoch began there."""
    disk.config = config(cleanup_policy="compact")
    log = disk.create()
    log.assign_epoch(0, 0)
    follow(log, edited(batch(), base_offset=3_000_000_000))
    end = log.log_end_offset
    log.close()
    assert disk.open(clean=clean, recovery_point=end).log.log_end_offset == end


def test_a_bit_of_the_first_epochs_start_makes_no_other_log(disk: Disk) -> None:
    log = filled(disk)
    log.delete_records_before(10)
    end = log.log_end_offset
    log.close()
    path = disk.file("leader-epoch-checkpoint")
    path.write_bytes(path.read_bytes().replace(b"1 10\n", b"1 00\n"))
    found = disk.open(clean=True, recovery_point=end).log
    assert (found.log_start_offset, found.epochs.entries[0]) == (10, (1, 10))


@pytest.mark.parametrize(
    "data", [None, b"", b"\0\0\0\0", b"garbage", b"0\n", b"0\n2\n0 0\n", b"1\n0\n", b"0\n2\n1 5\n0 9\n"]
)
def test_7_and_12_an_epoch_file_of_no_use_is_rebuilt_from_the_batches(disk: Disk, data: bytes | None) -> None:
    before = state(filled(disk))
    path = disk.file("leader-epoch-checkpoint")
    good = path.read_bytes()
    for clean in (False, True):
        if clean:
            disk.open().log.close()
        path.unlink() if data is None else path.write_bytes(data)
        assert state(disk.open(clean=clean, recovery_point=35 if clean else 0).log) == before
        assert path.read_bytes() == good


@pytest.mark.parametrize(
    "entries",
    [
        "0\n5\n0 0\n1 10\n2 20\n3 30\n4 35\n",  # ahead: became leader, appended nothing
        "0\n6\n0 0\n1 10\n2 20\n3 30\n4 40\n5 50\n",  # ahead: the log was cut, the file was not
        "0\n2\n0 0\n1 10\n",  # behind
        "0\n1\n0 0\n",
        "0\n4\n0 0\n1 10\n2 20\n9 33\n",  # of another history
    ],
)
def test_12_an_epoch_file_ahead_or_behind_is_settled_by_the_batches(disk: Disk, entries: str) -> None:
    before = state(filled(disk))
    disk.file("leader-epoch-checkpoint").write_text(entries)
    assert state(recovered(disk).log) == before


@pytest.mark.parametrize(
    "entries",
    [
        "0\n4\n0 0\n1 14\n2 20\n3 30\n",  # begins too late: a follower would keep what its leader never had
        "0\n4\n0 0\n1 10\n2 28\n3 30\n",
        "0\n4\n0 0\n1 2\n2 20\n3 30\n",  # too early
        "0\n4\n0 0\n1 10\n2 16\n3 30\n",
        "0\n4\n0 4\n1 10\n2 20\n3 30\n",
        "0\n4\n0 0\n1 10\n2 20\n7 30\n",  # a number that none of its batches has
        "0\n3\n1 0\n2 20\n3 30\n",
        "0\n3\n0 0\n1 10\n3 30\n",  # without one of them
    ],
)
def test_12_an_epoch_file_with_a_bit_turned_in_what_was_flushed_is_settled_by_the_batches(
    disk: Disk, entries: str
) -> None:
    """The file has no checksum, and one bit makes of a number another one. Seed 22: `4 40` had become `4 44`."""
    before = state(filled(disk))
    disk.file("leader-epoch-checkpoint").write_text(entries)
    assert state(recovered(disk, recovery_point=35).log) == before


def test_12_epochs_of_which_compaction_left_no_batch_are_known_by_the_file_alone(disk: Disk) -> None:
    log = disk.create()
    log.config = config(cleanup_policy="compact")
    follow(log, b"".join(batch(base_offset=offset, leader_epoch=offset // 3) for offset in (0, 1, 2, 9, 10)))
    entries = "0\n4\n0 0\n1 3\n2 6\n3 9\n"
    disk.file("leader-epoch-checkpoint").write_text(entries)
    assert disk.open(recovery_point=11).log.epochs.entries == [(0, 0), (1, 3), (2, 6), (3, 9)]
    assert disk.file("leader-epoch-checkpoint").read_text() == entries


@pytest.mark.parametrize("segment", [0, 10])
def test_12_whether_the_epochs_fit_is_not_asked_of_damaged_batches(disk: Disk, segment: int) -> None:
    """They are found, and told, when somebody reads them."""
    before = state(filled(disk))
    path = disk.file(file_name(segment, ".log"))
    data = bytearray(path.read_bytes())
    data[16] = 7  # magic
    path.write_bytes(data)
    assert disk.open(recovery_point=35).log.epochs.entries == before["epochs"]


@pytest.mark.parametrize(("offset", "epoch"), [(20, 2 + 64), (19, 1 + 64), (20, 0)])
def test_12_the_file_is_believed_where_a_bit_turned_in_the_epoch_of_a_batch(
    disk: Disk, offset: int, epoch: int
) -> None:
    """It lies before the checksum. Epochs of batches never fall: the later ones would be forgotten, or never have been."""
    before = state(filled(disk))
    path = disk.file(file_name(offset // 10 * 10, ".log"))
    data = bytearray(path.read_bytes())
    at = offset % 10 * SIZE + 12
    data[at : at + 4] = epoch.to_bytes(4, "big")
    path.write_bytes(data)
    assert disk.open(recovery_point=35).log.epochs.entries == before["epochs"]


def test_files_whose_names_are_no_offsets_are_nobodys(disk: Disk) -> None:
    before = state(filled(disk))
    strangers = ["²" * 20 + ".log", "²" * 20 + ".index", "².snapshot", "notes.log", "notes.log.swap"]
    for name in strangers:
        disk.file(name).write_bytes(b"whatever")
    log = disk.open(recovery_point=0).log
    assert state(log) == before
    log.truncate_to(12, NOW)
    assert set(strangers) <= set(disk.names())


def test_what_a_person_has_put_aside_in_the_directory_of_a_log_is_there_behind_a_start(disk: Disk) -> None:
    """A damaged segment is renamed, say: there may be no other copy of what is in it."""
    before = state(filled(disk))
    for suffix in (".log.bad", ".bad.log"):
        disk.file(file_name(99, suffix)).write_bytes(b"whatever")
    for name in ("copies.tmp", "copies.deleted"):
        disk.file(name).mkdir()
        (disk.file(name) / file_name(99, ".log")).write_bytes(b"whatever")
    assert state(recovered(disk).log) == before
    kept = [
        *(file_name(99, suffix) for suffix in (".log.bad", ".bad.log")),
        *(f"{name}/{file_name(99, '.log')}" for name in ("copies.tmp", "copies.deleted")),
    ]
    assert [name for name in kept if disk.file(name).exists()] == kept


def test_7_a_temporary_file_is_removed(disk: Disk) -> None:
    before = state(filled(disk))
    disk.file("leader-epoch-checkpoint.tmp").write_bytes(b"0\n1\n")
    assert state(recovered(disk).log) == before
    assert "leader-epoch-checkpoint.tmp" not in disk.names()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"version: 0\n",
        b"garbage \xff",
        b"version: 0\ntopic_id: short",
        b"version: 9\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA",
    ],
)
def test_7_a_partition_metadata_of_no_use_is_learnt_again(disk: Disk, data: bytes) -> None:
    filled(disk, 3)
    disk.file("partition.metadata").write_bytes(data)
    result = recovered(disk)
    assert (
        result.log.topic_id == NO_TOPIC_ID
        and "the topic id will be taken from the controller" in result.notes[0]
    )
    result.log.assign_topic_id(TOPIC_ID)
    assert disk.open().log.topic_id == TOPIC_ID


def test_9_what_was_on_its_way_out_or_unfinished_is_removed(disk: Disk) -> None:
    before = state(filled(disk))
    for name in (
        file_name(0, ".log.deleted"),
        file_name(0, ".index.deleted"),
        file_name(3, ".timeindex.deleted"),
        file_name(0, ".log.cleaned"),
        file_name(0, ".timeindex.cleaned"),
        file_name(77, ".txnindex.deleted"),
        file_name(5, ".snapshot.deleted"),
        file_name(77, ".index"),
    ):
        disk.file(name).write_bytes(b"left over")
    assert state(recovered(disk).log) == before
    assert not any(
        name.endswith((".deleted", ".cleaned")) or name.startswith("00000000000000000077")
        for name in disk.names()
    )


def test_9_a_swap_that_was_complete_takes_the_place_of_what_it_was_made_from(disk: Disk) -> None:
    before = state(filled(disk))
    for suffix in (".log", ".index", ".timeindex"):
        # Segments 0 and 10, compacted into one that lost nothing; 10 is still there.
        if suffix == ".log":
            merged = (
                disk.file(file_name(0, suffix)).read_bytes() + disk.file(file_name(10, suffix)).read_bytes()
            )
            disk.file(file_name(0, ".log.swap")).write_bytes(merged)
            disk.file(file_name(0, ".bad.log")).write_bytes(b"of a person")
    disk.file(file_name(0, ".log")).rename(disk.file(file_name(0, ".log.deleted")))
    result = recovered(disk)
    assert state(result.log)["contents"] == before["contents"]
    assert [s.base_offset for s in result.log.segments] == [0, 20, 30]
    assert disk.file(file_name(0, ".bad.log")).read_bytes() == b"of a person"


@pytest.mark.parametrize("damage", ["a bit turned", "cut short", "noise behind it"])
def test_9_a_swap_that_is_damaged_takes_nobodys_place(disk: Disk, damage: str) -> None:
    """It was synced before it got its name, so this is rot: what it was made from is not thrown away for it."""
    filled(disk)
    whole = disk.file(file_name(0, ".log")).read_bytes()
    damaged = {
        "a bit turned": whole[:-1] + bytes([whole[-1] ^ 1]),
        "cut short": whole[:-1],
        "noise behind it": whole + b"\1" * 100,
    }[damage]
    disk.file(file_name(0, ".log.swap")).write_bytes(damaged)
    names = set(disk.names())
    with pytest.raises(CorruptLog, match=r"00000000000000000000\.log\.swap at"):
        disk.open()
    assert set(disk.names()) == names


@pytest.mark.parametrize("damage", ["torn", "empty", "noise", "missing"])
def test_11_a_producer_snapshot_of_no_use_is_replayed(disk: Disk, damage: str) -> None:
    before = state(filled(disk))
    snapshots = [name for name in disk.names() if name.endswith(".snapshot")]
    assert len(snapshots) == 3
    for name in snapshots:
        path = disk.file(name)
        good = path.read_bytes()
        if damage == "missing":
            path.unlink()
        else:
            path.write_bytes({"torn": good[:-5], "empty": b"", "noise": bytes(reversed(good))}[damage])
    assert state(disk.open(recovery_point=35).log)["producers"] == before["producers"]
    assert state(recovered(disk).log) == before


def test_11_a_snapshot_ahead_of_the_log_is_not_believed(disk: Disk) -> None:
    log = filled(disk, 30)
    stale = log.producers.to_bytes()
    log.truncate_to(12, NOW)
    for n in range(12, 18):
        produce(log, idempotent(n - 12, producer_id=8, at=NOW + n), epoch=5)
    before = state(log)
    # Its removal was never synced: the power cut brought it back.
    for offset in (15, 18, 30):
        disk.file(file_name(offset, ".snapshot")).write_bytes(stale)
    result = recovered(disk, recovery_point=12)
    assert state(result.log) == before
    assert [p.producer_id for p in result.log.producers.all()] == [7, 8]


def _is_known(log: PartitionLog, sequence: int) -> bool:
    """A retry of this batch is answered with the offset it has."""
    again = produce(log, idempotent(sequence, at=NOW + sequence), epoch=9)
    return again.duplicate and again.base_offset == sequence


def test_the_first_batch_behind_a_producer_snapshot_counts_when_a_log_is_recovered(disk: Disk) -> None:
    filled(disk, 11)
    assert disk.file(file_name(10, ".snapshot")).exists()
    assert _is_known(disk.open(recovery_point=10).log, 10)


def test_the_first_batch_behind_a_producer_snapshot_counts_below_the_recovery_point(disk: Disk) -> None:
    log = disk.create()
    for n in range(3):  # a segment each
        produce(log, idempotent(n, value=b"v" * SIZE * 6, at=NOW + n))
    assert [segment.base_offset for segment in log.segments] == [0, 1, 2]
    disk.file(file_name(2, ".snapshot")).unlink()
    opened = disk.open(recovery_point=2).log
    producer = opened.producers.get(7)
    assert producer is not None and [batch.last_sequence for batch in producer.batches] == [0, 1, 2]


def test_the_first_batch_behind_a_producer_snapshot_counts_after_a_cut(disk: Disk) -> None:
    log = filled(disk, 15)
    log.truncate_to(11, NOW)
    assert _is_known(log, 10)


@pytest.mark.parametrize("recovery_point", [0, 40, 50])
def test_13_a_log_start_ahead_of_the_log_is_an_empty_log(disk: Disk, recovery_point: int) -> None:
    """What was flushed and deleted may be missing: all of it lies below the start."""
    filled(disk)
    result = recovered(disk, recovery_point=recovery_point, log_start_offset=50)
    assert (result.log.log_start_offset, result.log.log_end_offset) == (50, 50)
    assert "everything below offset 50 was deleted" in result.notes[0]


def test_13_a_recovery_point_ahead_of_the_log_means_flushed_records_are_missing(disk: Disk) -> None:
    filled(disk)
    for log_start_offset in (0, 39):
        with pytest.raises(CorruptLog, match="flushed up to offset 40, but the log ends at 35"):
            disk.open(recovery_point=40, log_start_offset=log_start_offset)
    assert disk.open(recovery_point=35).log.log_end_offset == 35


def test_14_a_marker_of_a_clean_stop_is_not_believed_over_torn_data(disk: Disk) -> None:
    log = filled(disk)
    log.close()
    path = disk.file(file_name(30, ".log"))
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(CorruptLog, match="35"):
        disk.open(clean=True, recovery_point=35)
    # Without a checkpoint that says it was flushed, it is a torn tail like any other.
    result = disk.open(clean=True, recovery_point=0)
    assert result.log.log_end_offset == 34
    assert "marked as cleanly stopped, but" in result.notes[0]


def test_14_a_whole_batch_less_than_the_clean_stop_wrote_is_seen(disk: Disk) -> None:
    filled(disk).close()
    path = disk.file(file_name(30, ".log"))
    path.write_bytes(path.read_bytes()[:-SIZE])
    with pytest.raises(CorruptLog, match="flushed up to offset 35, but the log ends at 34"):
        disk.open(clean=True, recovery_point=35)


@pytest.mark.parametrize("bit", [0, 3, 7])
@pytest.mark.parametrize(
    "field", ["offset", "length", "epoch", "magic", "crc", "attributes", "producer", "count", "body"]
)
@pytest.mark.parametrize("flushed", [False, True])
def test_19_a_flipped_bit_ends_the_log_behind_the_flushed_point_and_is_refused_below_it(
    disk: Disk, field: str, bit: int, flushed: bool
) -> None:
    before = contents(filled(disk))
    at = {
        "offset": 7,
        "length": 11,
        "epoch": 15,
        "magic": 16,
        "crc": 20,
        "attributes": 22,
        "producer": 50,
        "count": 60,
        "body": 99,
    }
    path = disk.file(file_name(30, ".log"))
    data = bytearray(path.read_bytes())
    data[SIZE * 2 + at[field]] ^= 1 << bit
    path.write_bytes(data)
    if flushed:
        with pytest.raises(CorruptLog, match=r"00000000000000000030\.log|flushed"):
            disk.open(recovery_point=35)
        assert path.read_bytes() == data, "nothing was cut"
        return
    result = recovered(disk)
    # An epoch that was raised cannot be told from a real one until the next batch goes back.
    end = 33 if field == "epoch" and data[SIZE * 2 + 15] > 3 else 32
    assert result.log.log_end_offset == end
    assert contents(result.log)[: SIZE * 32] == before[: SIZE * 32]


def test_20_a_batch_written_to_the_wrong_place_ends_the_log(disk: Disk) -> None:
    filled(disk)
    path = disk.file(file_name(30, ".log"))
    data = bytearray(path.read_bytes())
    other = disk.file(file_name(10, ".log")).read_bytes()
    data[SIZE * 2 : SIZE * 3] = other[SIZE * 2 : SIZE * 3]  # whole, valid, of another file
    path.write_bytes(data)
    with pytest.raises(CorruptLog, match="offset 12 where 32 was expected"):
        disk.open(recovery_point=35)
    assert recovered(disk).log.log_end_offset == 32


def test_20_a_later_batch_in_an_earlier_place_ends_the_log(disk: Disk) -> None:
    filled(disk)
    path = disk.file(file_name(30, ".log"))
    data = bytearray(path.read_bytes())
    data[SIZE : SIZE * 2] = data[SIZE * 3 : SIZE * 4]
    path.write_bytes(data)
    assert recovered(disk).log.log_end_offset == 31


def test_21_a_duplicated_block_ends_the_log_where_it_repeats(disk: Disk) -> None:
    filled(disk)
    path = disk.file(file_name(30, ".log"))
    data = path.read_bytes()
    path.write_bytes(data[: SIZE * 3] + data[SIZE : SIZE * 3] + data[SIZE * 3 :])
    assert recovered(disk).log.log_end_offset == 33


def test_27_a_crash_between_cutting_the_log_and_its_epochs(disk: Disk) -> None:
    log = filled(disk)
    before_cut = disk.file("leader-epoch-checkpoint").read_bytes()
    log.truncate_to(15, NOW)
    after = state(log)
    log.segments.purge()
    disk.file("leader-epoch-checkpoint").write_bytes(before_cut)
    assert state(recovered(disk).log) == after


def test_15_recovery_that_dies_and_starts_again_ends_the_same(disk: Disk, tmp_path: Path) -> None:
    """Killed before each of its changes to the directory, as often as it takes."""
    filled(disk)
    path = disk.file(file_name(10, ".log"))
    data = bytearray(path.read_bytes())
    data[SIZE * 5 + 100] ^= 1
    path.write_bytes(data)
    expected = None
    copies = tmp_path / "copies"
    reference = Disk(copies / "reference", disk.config)
    shutil.copytree(disk.log_path, reference.log_path)
    expected = state(reference.open().log)
    assert expected["end"] == 15

    class Killed(BaseException):
        pass

    def killing(after: int) -> None:
        calls = [0]

        def patched(name: str) -> None:
            original = getattr(os, name)

            def call(*args: object, **options: object) -> object:
                calls[0] += 1
                if calls[0] > after:
                    raise Killed
                return original(*args, **options)

            patch.setattr(os, name, call)

        for name in ("unlink", "replace", "rename"):
            patched(name)

    for after in range(30):
        victim = Disk(copies / str(after), disk.config)
        shutil.copytree(disk.log_path, victim.log_path)
        with pytest.MonkeyPatch.context() as patch:
            killing(after)
            try:
                victim.open()
            except Killed:
                died = True
            else:
                died = False
        assert state(victim.open().log) == expected
        if not died:
            break
    else:
        raise AssertionError("recovery never got to its end")
    assert after > 5


def test_a_compacted_log_may_have_gaps_and_others_may_not(disk: Disk) -> None:
    log = disk.create()
    log.append_as_follower(memoryview(batch(base_offset=0, leader_epoch=0)), now_ms=NOW)
    log.config = config(cleanup_policy="compact")
    log.append_as_follower(memoryview(batch(base_offset=5, leader_epoch=0)), now_ms=NOW)
    assert offsets(disk.open(recovery_point=6).log) == [0, 5], "below the flushed point a gap is compaction's"
    compacting = Disk(disk.path, config(cleanup_policy="compact"))
    disk.file("offset-gaps").unlink()  # as in a log of which no gap was ever written
    assert offsets(compacting.open().log) == [0, 5]
    disk.file("offset-gaps").unlink()  # for that start has noted it
    assert recovered(disk).log.log_end_offset == 1


WIDE = 2**31 + 1  # behind offset 0, more than a segment takes


@pytest.mark.parametrize(
    ("gap", "next_offset"),
    [("within a segment", 5), ("at the begin of a segment", 5), ("between two segments", WIDE)],
)
def test_gaps_outlive_the_day_on_which_compaction_was_turned_off(
    disk: Disk, gap: str, next_offset: int
) -> None:
    log = disk.create()
    log.config = config(cleanup_policy="compact")
    follow(log, batch(base_offset=0, leader_epoch=0))
    if gap == "at the begin of a segment":
        log.roll(NOW)
    follow(log, batch(base_offset=next_offset, leader_epoch=0))
    assert log.segments.active.base_offset == {"within": 0, "at": 1, "between": WIDE}[gap.split()[0]]

    again = disk.open()  # killed; its topic is not compacted any more

    assert again.notes == []
    assert offsets(again.log) == [0, next_offset]
    read = again.log.read(1, max_bytes=1 << 20, upper_bound_offset=next_offset + 1)
    assert next(iter(iter_batches(read.slices[0].read())))[1].base_offset == next_offset


@pytest.mark.parametrize(
    ("batches", "has_gaps"),
    [
        ([batch(2), batch(1, base_offset=2)], False),
        ([batch(1, base_offset=2)], True),
        ([batch(2), batch(1, base_offset=3)], True),
        ([batch(2), edited(batch(1, base_offset=2), last_offset_delta=1)], True),
    ],
    ids=["nothing", "the first batch", "a batch between two", "a record of a batch"],
)
def test_that_compaction_was_in_a_segment_is_seen_by_what_is_missing(
    disk: Disk, batches: list[bytes], has_gaps: bool
) -> None:
    log = disk.create()
    log.config = config(cleanup_policy="compact")
    follow(log, b"".join(batches))

    assert log.segments.active.has_gaps() is has_gaps


@pytest.mark.parametrize("left", [0, 3])
def test_a_log_with_gaps_ends_where_a_power_cut_took_the_end_of_a_segment(disk: Disk, left: int) -> None:
    """Each file loses what was not synced by itself: of the segment behind it more may be left."""
    log = disk.create()
    log.config = config(segment_bytes=SIZE * 10, cleanup_policy="compact")
    follow(log, batch(base_offset=0, leader_epoch=0))
    follow(log, b"".join(batch(base_offset=offset, leader_epoch=0) for offset in range(4, 30)))
    assert [segment.base_offset for segment in log.segments] == [0, 13, 23] and log.has_gaps
    os.truncate(disk.file(file_name(13, ".log")), SIZE * left)

    end = 13 + left
    again = recovered(disk, recovery_point=9)

    assert again.log.log_end_offset == end
    assert offsets(again.log) == [0, *range(4, end)]
    assert again.notes == [f"cut at offset {end}: the records before segment 23 are lost"]


@pytest.mark.parametrize("recovery_point", [10, 12])
@pytest.mark.parametrize("at", [5, 10, 16], ids=["offset", "length", "magic"])
def test_damage_in_a_flushed_segment_of_a_compacted_log_is_no_gap_and_nothing_is_cut(
    disk: Disk, at: int, recovery_point: int
) -> None:
    """What was cut off the segment before the recovery point begins where that one ends, and not before."""
    disk.config = config(segment_bytes=SIZE * 10, cleanup_policy="compact", index_interval_bytes=SIZE * 20)
    log = disk.create()
    for _ in range(13):
        produce(log, batch())
    log.flush()
    path = disk.file(file_name(0, ".log"))
    data = bytearray(path.read_bytes())
    data[SIZE * 4 + at] ^= 1  # of the batch at offset 4
    path.write_bytes(data)

    with pytest.raises(CorruptLog, match=r"flushed up to offset .* must be"):
        disk.open(recovery_point=recovery_point)
    assert path.read_bytes() == data


@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_an_offset_beyond_the_next_segment_is_damage_and_nothing_is_cut_below_the_flushed_point(
    disk: Disk, policy: str
) -> None:
    disk.config = config(segment_bytes=SIZE * 10, cleanup_policy=policy)
    log = disk.create()
    for _ in range(13):
        produce(log, batch())
    path = disk.file(file_name(0, ".log"))
    data = bytearray(path.read_bytes())
    data[SIZE * 4 + 6] ^= 1  # the batch at offset 4 says 260
    path.write_bytes(data)

    with pytest.raises(CorruptLog, match="offset 260 where 4 was expected"):
        disk.open(recovery_point=8)
    assert path.read_bytes() == data
    assert disk.open(recovery_point=4).log.log_end_offset == 4


def test_a_gap_whose_note_a_power_cut_took_is_noted_by_the_next_start(disk: Disk) -> None:
    """The name of the file was not synced, and the pages of the segment were on the disk. The topic may be compacted no more tomorrow."""
    disk.config = config(cleanup_policy="compact")
    log = disk.create()
    follow(log, batch(base_offset=0) + batch(base_offset=5))
    disk.file("offset-gaps").unlink()
    assert disk.open(recovery_point=0).log.log_end_offset == 6
    disk.config = config(cleanup_policy="delete")
    assert disk.open(recovery_point=0).log.log_end_offset == 6


def test_a_torn_batch_behind_what_looks_like_a_gap_is_no_gap_to_be_noted(disk: Disk) -> None:
    """Offsets lie before the checksum."""
    disk.config = config(cleanup_policy="compact")
    follow(disk.create(), batch(base_offset=0) + batch(base_offset=5))
    disk.file("offset-gaps").unlink()
    path = disk.file(file_name(0, ".log"))
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    assert disk.open().log.log_end_offset == 1
    assert "offset-gaps" not in disk.names()


def test_a_power_cut_that_tears_a_marker_and_its_index_entry_leaves_a_log_that_opens(disk: Disk) -> None:
    """Producers are known from a stop within the segment: what came before is read for its aborted transactions, and no further."""
    log = disk.create()
    produce(log, idempotent(0, is_transactional=True))
    log.close()
    log = disk.open(clean=True, recovery_point=1).log
    produce(log, marker(commit=False), from_coordinator=True)
    path = disk.file(file_name(0, ".log"))
    path.write_bytes(path.read_bytes()[:-3])
    disk.file(file_name(0, ".txnindex")).write_bytes(b"")

    log = disk.open(recovery_point=1).log

    assert log.log_end_offset == 1 and log.aborted_transactions(0, 1) == []
    assert log.last_stable_offset(1) == 0


def test_a_wide_gap_is_no_excuse_for_a_segment_that_lost_its_begin(disk: Disk) -> None:
    log = disk.create()
    log.config = config(cleanup_policy="compact")
    follow(log, batch(base_offset=0, leader_epoch=0))
    follow(log, batch(base_offset=WIDE, leader_epoch=0))
    os.truncate(disk.file(file_name(WIDE, ".log")), 0)

    assert disk.open().log.log_end_offset == 1


@pytest.mark.parametrize("cut", [9, 14])
def test_a_log_cut_in_a_gap_ends_with_a_batch_and_a_crash_takes_nothing_of_what_follows(
    disk: Disk, cut: int
) -> None:
    log = disk.create()
    log.config = config(cleanup_policy="compact", index_interval_bytes=1)
    for offset in (0, 1, 2, 3, 10):
        follow(log, batch(base_offset=offset, leader_epoch=0))
    log.roll(NOW)
    follow(log, batch(base_offset=20, leader_epoch=0))

    end = 4 if cut == 9 else 11
    assert log.truncate_to(cut, NOW) == log.log_end_offset == log.segments.active.base_offset == end
    follow(log, batch(base_offset=cut, leader_epoch=1))

    assert offsets(disk.open().log) == [*range(4), *[10] * (cut == 14), cut]


def test_a_gap_that_was_said_twice_is_kept_by_the_next_start(disk: Disk) -> None:
    """A follower that is behind on a topic that was compacted once."""
    log = disk.create()
    follow(log, batch(base_offset=0, leader_epoch=0))
    for _ in range(2):
        with suppress(CorruptBatch):
            follow(log, batch(base_offset=5, leader_epoch=0))
    assert offsets(log) == [0, 5]
    assert offsets(disk.open().log) == [0, 5]


def test_what_came_before_a_gap_is_in_the_log_where_the_disk_fails_at_the_gap(disk: Disk) -> None:
    """`offset-gaps` is written before the gap; batches of the same fetch that need no gap do not wait for it."""
    log = disk.create()
    log.config = config(cleanup_policy="compact")
    disk.file("offset-gaps").mkdir()  # a name that cannot be opened for writing
    with pytest.raises(StorageError):
        follow(log, batch(base_offset=0, leader_epoch=0) + batch(base_offset=5, leader_epoch=0))
    assert log.log_end_offset == 1 and not log.has_gaps


def test_an_epoch_that_begins_in_a_gap_begins_there_after_a_crash_too(disk: Disk) -> None:
    """Were it to begin at the first batch that is left, a follower would keep what it has of the epoch before beyond the end
    that this one had."""
    disk.config = config(cleanup_policy="compact")
    log = disk.create()
    log.append_as_follower(memoryview(batch(base_offset=0, leader_epoch=0)), now_ms=NOW)
    for epoch, start in ((2, 1), (3, 4)):
        log.assign_epoch(epoch, start)  # of batches that compaction took
    log.append_as_follower(memoryview(batch(base_offset=6, leader_epoch=3)), now_ms=NOW)
    before = log.epochs.entries
    assert [tuple(entry) for entry in before] == [(0, 0), (2, 1), (3, 4)]

    log = disk.open().log

    assert log.epochs.entries == before
    assert log.epochs.end_offset(0, log.log_end_offset) == (0, 1)


def test_after_a_clean_stop_nothing_is_scanned(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    disk.config.segment_bytes = 1 << 20
    filled(disk, 2000).close()
    from odradek.log import files

    read: list[int] = []
    pread = files._pread
    monkeypatch.setattr(files, "_pread", lambda fd, size, at: (read.append(size), pread(fd, size, at))[1])
    log = disk.open(clean=True, recovery_point=2000).log
    assert log.log_end_offset == 2000 and log.recovery_point == 2000
    assert len(read) <= 4 and sum(read) <= 4 * 8192


def test_a_producers_snapshot_ahead_of_what_was_flushed_is_not_believed(disk: Disk) -> None:
    """The power went: the file of the snapshot is there, the batches it tells of are not. Sent again they are no duplicates."""
    log = disk.create()
    for sequence in range(3):
        produce(log, idempotent(sequence))
    size = len(contents(log)) // 3
    log.roll(NOW)
    with disk.file("00000000000000000000.log").open("r+b") as file:
        file.truncate(2 * size)
    again = disk.open(recovery_point=0).log

    assert again.log_end_offset == 2
    known = again.producers.get(7)
    assert known is not None and known.last_sequence == 1
    assert not produce(again, idempotent(2)).duplicate


def test_what_producers_did_in_segments_that_retention_took_is_known_after_a_kill(disk: Disk) -> None:
    """Nothing was flushed, and nobody but the snapshot tells of it: a batch that was sent again was appended again (a world with a
    group that is converted, in which all records of a partition were out of time when its leader was killed)."""
    log = disk.create()
    for sequence in range(3):
        produce(log, idempotent(sequence))
    log.roll(NOW)
    log.delete_records_before(3)
    log.drop_segments_below(3)
    assert (log.log_start_offset, log.log_end_offset) == (3, 3)

    again = disk.open(recovery_point=0, log_start_offset=3).log

    assert produce(again, idempotent(2)).duplicate
    assert not produce(again, idempotent(3)).duplicate and again.log_end_offset == 4


def test_snapshots_of_stops_in_order_do_not_pile_up(disk: Disk) -> None:
    """Each stop leaves one at the end of the log; those at the beginning of a segment are there for a cut."""
    disk.config = config(segment_bytes=1000)
    log = disk.create()
    for n in range(30):
        produce(log, idempotent(n))
        before = log.producers.to_bytes()
        log.close()
        log = disk.open(clean=True).log
        assert log.producers.to_bytes() == before
    bases = [segment.base_offset for segment in log.segments]
    assert len(bases) > 3
    assert [name for name in disk.names() if name.endswith(".snapshot")] == [
        file_name(offset, ".snapshot") for offset in (*bases[1:], 30)
    ]


def test_no_producers_snapshot_of_what_was_cut_off_is_left(disk: Disk) -> None:
    log = disk.create()
    for sequence in range(6):
        produce(log, idempotent(sequence))
        log.roll(NOW)
    log.truncate_to(2, NOW)

    assert [name for name in disk.names() if name.endswith(".snapshot")] == [
        f"{offset:020d}.snapshot" for offset in (1, 2)
    ]


def ends_in_order(disk: Disk, log: PartitionLog) -> PartitionLog:
    log.close()
    return disk.open(clean=True).log


def begins_behind_a_wide_gap(disk: Disk, log: PartitionLog) -> PartitionLog:
    """Its active segment is empty, and is none any more."""
    log.roll(NOW)
    log.note_gaps()
    follow(log, batch(base_offset=log.log_end_offset + WIDE, leader_epoch=0))
    return log


def takes_the_place_of_another(disk: Disk, log: PartitionLog) -> PartitionLog:
    log.take_snapshot(log.log_end_offset)
    return log


@pytest.mark.parametrize("happens", [ends_in_order, begins_behind_a_wide_gap, takes_the_place_of_another])
def test_no_snapshot_that_was_taken_within_a_segment_outlives_a_cut(
    disk: Disk, happens: Callable[[Disk, PartitionLog], PartitionLog]
) -> None:
    log = disk.create()
    for sequence in range(6):
        produce(log, idempotent(sequence))
    log = happens(disk, log)
    assert disk.file(file_name(6, ".snapshot")).exists()

    log.truncate_to(5, NOW)

    assert [name for name in disk.names() if name.endswith(".snapshot")] == [file_name(5, ".snapshot")]
    for sequence in (0, 1):
        produce(log, idempotent(sequence, producer_id=8))
    again = disk.open(recovery_point=7).log
    assert again.producers.to_bytes() == log.producers.to_bytes()
