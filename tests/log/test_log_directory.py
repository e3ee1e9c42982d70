"""What is kept of a log directory beside its logs: what stands in its checkpoints, and when that is written."""

import errno
from collections.abc import Mapping

import pytest

from odradek.log.checkpoints import CLEANER, HIGH_WATERMARK, LOG_START, RECOVERY_POINT
from odradek.log.errors import StorageError
from odradek.log.log_directory import LogDirectory
from odradek.log.memory_files import MemoryDisk
from odradek.log.offset_checkpoint import OffsetCheckpoint
from odradek.model.ids import TopicPartition
from tests.log.logs import TP

OTHER = TopicPartition("others", 7)
ALL = {RECOVERY_POINT: 5, HIGH_WATERMARK: 5, LOG_START: 5, CLEANER: 5}


class Kept:
    """A directory in whose four files one log stands, and beside it another one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, said: Mapping[str, int] = ALL) -> None:
        self.disk = MemoryDisk("/a")
        self.directory = LogDirectory(self.disk.root)
        self.written: list[str] = []
        for name, checkpoint in self.checkpoints(self.directory).items():
            checkpoint.write({OTHER: 3, **({TP: said[name]} if name in said else {})})
        write = OffsetCheckpoint.write

        def recorded(checkpoint: OffsetCheckpoint, offsets: dict[TopicPartition, int]) -> None:
            self.written.append(checkpoint.name)
            write(checkpoint, offsets)

        monkeypatch.setattr(OffsetCheckpoint, "write", recorded)

    def checkpoints(self, directory: LogDirectory) -> dict[str, OffsetCheckpoint]:
        return {
            RECOVERY_POINT: directory.recovery_points,
            HIGH_WATERMARK: directory.high_watermarks,
            LOG_START: directory.log_starts,
            CLEANER: directory.cleaned_to,
        }

    def by_name(self, directory: LogDirectory) -> dict[str, dict[TopicPartition, int]]:
        """For the next time that they are written."""
        return {name: checkpoint.offsets for name, checkpoint in self.checkpoints(directory).items()}

    def on_disk(self) -> dict[str, int]:
        """What the next life reads of the log; of the other one nothing has changed."""
        found, notes = LogDirectory(self.disk.root), list[str]()
        found.read_checkpoints(notes)
        by_name = self.by_name(found)
        assert notes == [] and all(offsets[OTHER] == 3 for offsets in by_name.values())
        return {name: offsets[TP] for name, offsets in by_name.items() if TP in offsets}


@pytest.mark.parametrize("name", ALL)
def test_a_file_that_cannot_be_understood_is_taken_as_empty_and_told(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    kept, notes = Kept(monkeypatch), list[str]()
    kept.directory.root.replace(name, b"?")
    kept.directory.read_checkpoints(notes)
    assert {each for each, offsets in kept.by_name(kept.directory).items() if not offsets} == {name}
    assert len(notes) == 1 and notes[0].startswith("/a: ") and notes[0].endswith("; taken as empty")


@pytest.mark.parametrize(("offset", "start"), [(4, 4), (4, 5), (5, 4), (5, 5)])
def test_before_a_cut_each_file_says_no_more_than_what_is_left(
    monkeypatch: pytest.MonkeyPatch, offset: int, start: int
) -> None:
    kept = Kept(monkeypatch)
    kept.directory.before_cut_below(TP, offset, start)
    expected = {name: start if name == LOG_START else offset for name in ALL}
    assert kept.on_disk() == expected
    assert set(kept.written) == {name for name, value in expected.items() if value < 5}
    assert {name: offsets[TP] for name, offsets in kept.by_name(kept.directory).items()} == expected


@pytest.mark.parametrize(("offset", "start"), [(4, 4), (4, 5), (5, 4), (5, 5)])
def test_a_thread_does_the_same_ahead_of_a_cut_and_leaves_nothing_to_do(
    monkeypatch: pytest.MonkeyPatch, offset: int, start: int
) -> None:
    kept = Kept(monkeypatch)
    work = kept.directory.lowering(TP, offset, start)
    assert (work is None) == (min(offset, start) == 5)
    assert work is None or work.run() is True
    assert kept.on_disk() == {name: start if name == LOG_START else offset for name in ALL}
    kept.directory.before_cut_below(TP, offset, start)
    assert kept.written == [] and kept.directory.lowering(TP, offset, start) is None


def test_a_disk_that_fails_a_thread_ahead_of_a_cut_is_told_as_a_value(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept = Kept(monkeypatch)
    work = kept.directory.lowering(TP, 4, 4)
    kept.disk.inject("sync", errno.EIO)
    assert work is not None and isinstance(work.run(), StorageError)


def test_of_a_log_that_stands_in_no_file_nothing_is_written_before_a_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept = Kept(monkeypatch, {})
    kept.directory.before_cut_below(TP, 0, 0)
    assert kept.written == [] and kept.on_disk() == {}


def test_the_end_of_a_damaged_log_is_on_the_disk_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Kept(monkeypatch)
    kept.directory.end_is_known(TP, 9)
    assert kept.on_disk() == ALL | {RECOVERY_POINT: 9} and kept.written == [RECOVERY_POINT]


@pytest.mark.parametrize(
    ("mark", "start", "base", "changed"),
    [
        (5, 5, 0, {}),
        (4, 5, 0, {HIGH_WATERMARK: 4}),
        (6, 5, 0, {}),
        (5, 6, 0, {LOG_START: 6}),
        (5, 4, 0, {LOG_START: 4}),
        (5, 6, 6, {}),
    ],
)
def test_of_a_log_that_comes_the_files_say_what_its_own_do_not(
    monkeypatch: pytest.MonkeyPatch, mark: int, start: int, base: int, changed: dict[str, int]
) -> None:
    kept = Kept(monkeypatch)
    kept.directory.expect(TP, high_watermark=mark, log_start_offset=start, first_base_offset=base)
    assert kept.on_disk() == ALL | changed and kept.written == [*changed]


def test_of_a_log_that_comes_without_a_mark_in_the_file_it_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept = Kept(monkeypatch, {})
    kept.directory.expect(TP, high_watermark=0, log_start_offset=0, first_base_offset=0)
    assert kept.on_disk() == {HIGH_WATERMARK: 0} and kept.written == [HIGH_WATERMARK]


@pytest.mark.parametrize("said", [ALL, {CLEANER: 5}, {HIGH_WATERMARK: 5}, {}], ids=len)
def test_what_the_files_say_of_a_retired_log_goes_before_a_new_one_of_its_name_is_made(
    monkeypatch: pytest.MonkeyPatch, said: dict[str, int]
) -> None:
    kept = Kept(monkeypatch, said)
    kept.directory.leave_out(TP)
    assert kept.on_disk() == said and kept.written == [], "from the next time on that they are written"
    kept.directory.forget_former(TP)
    assert kept.on_disk() == {}
    assert sorted(kept.written) == sorted(said)
    kept.written.clear()
    kept.directory.forget_former(TP)
    assert kept.written == []


@pytest.mark.parametrize("said", [ALL, {CLEANER: 5}, {}], ids=len)
def test_what_an_earlier_log_left_in_the_files_goes_before_a_new_one_is_made(
    monkeypatch: pytest.MonkeyPatch, said: dict[str, int]
) -> None:
    kept = Kept(monkeypatch, said)
    kept.directory.forget_former(TP)
    assert kept.on_disk() == {} and sorted(kept.written) == sorted(said)
