"""Segments that compaction made anew take the place of those they were made from: at once, after any crash, or not at all.

Here a rewriting keeps every fourth batch and the last one; which records a real one keeps is not this page's matter.
"""

import errno

import pytest

from odradek.log.checkpoints import OFFSET_GAPS
from odradek.log.cleaned_segment import SWAP_SUFFIX, CleanedSegment
from odradek.log.errors import CorruptLog, NoDescriptor, StorageError
from odradek.log.memory_files import Crashed, MemoryDisk
from odradek.log.scrubbing import Scrubber
from odradek.log.segment import Segment, file_name
from odradek.model.settings import TopicSettings
from odradek.sim.crash_states import RecordingDisk, crash_states
from tests.log.logs import NOW, assert_index_answers_as_a_scan, batch, contents, headers, marker, state
from tests.log.test_crash_states import SIZE, World


class CompactedWorld(World):
    """Twelve batches in three rolled segments and an active one; a transaction that was aborted among them."""

    def __init__(self, disk: MemoryDisk | None = None) -> None:
        super().__init__(7, SIZE * 4)
        if disk is not None:
            self.disk = disk
        overrides = {"cleanup.policy": "compact", "segment.bytes": str(SIZE * 4)}
        self.topic = TopicSettings(self.settings, overrides)
        self.start()

    def filled(self) -> "CompactedWorld":
        for n in range(12):
            if n == 2:
                self.transaction()
                self.write(marker(commit=False, producer_id=9), 1, from_coordinator=True)
            self.write(batch(1, at=NOW + n), 1)
        self.log.flush()
        self.manager.checkpoint_recovery_points()
        return self

    def compact(self, *, keeps_last: bool = True) -> tuple[tuple[Segment, ...], CleanedSegment]:
        """All rolled segments into one, finished and not in place yet."""
        old = self.log.segments[:-1]
        assert len(old) >= 3
        cleaned = CleanedSegment(self.log.directory, old[0].base_offset, NOW, 1)
        batches = [(segment, position, header) for segment in old for position, header in segment.headers()]
        for number, (segment, position, header) in enumerate(batches):
            if number % 4 == 0 or (keeps_last and number == len(batches) - 1):
                cleaned.append(header, segment.file.read_at(position, header.size_bytes))
        for segment in old:
            for transaction in segment.transactions:
                cleaned.add_transaction(transaction)
        cleaned.finish(old[-1].end_offset)
        return old, cleaned


def kept(world: CompactedWorld) -> list[int]:
    return [header.base_offset for header in headers(world.log)]


def test_what_was_made_anew_is_what_is_read_and_the_rest_is_as_it_was() -> None:
    world = CompactedWorld().filled()
    log = world.log
    before, active = state(log), log.segments.active
    all_offsets = kept(world)
    rolled = all_offsets[: sum(len(list(segment.headers())) for segment in log.segments[:-1])]
    old, cleaned = world.compact()
    assert log.replace_segments(old, cleaned)
    wanted = [offset for n, offset in enumerate(rolled) if n % 4 == 0 or n == len(rolled) - 1]
    assert kept(world) == wanted + all_offsets[len(rolled) :]
    assert len(log.segments) == 2 and log.segments.active is active
    after = state(log)
    for what in ("start", "end", "epochs", "producers", "transactions"):
        assert after[what] == before[what], what
    assert before["transactions"], "there is an aborted one"
    assert_index_answers_as_a_scan(log)
    for a, b in zip(log.segments, log.segments[1:], strict=False):
        assert a.end_offset == b.base_offset


def test_a_thread_that_looks_at_the_segments_meanwhile_calls_none_of_them_damaged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Between two renames a name is missing, and behind the last one it is another file."""
    world = CompactedWorld().filled()
    log = world.log
    for segment in log.segments[:-1]:
        segment.close_handles()
    old, cleaned = world.compact()
    scrubber, looks = Scrubber(lambda: [log]), []
    mark_deleted = Segment.mark_deleted

    def looked_at_meanwhile(segment: Segment) -> list[str]:
        names = mark_deleted(segment)
        scrubber.scrub(1 << 30)
        looks.append(scrubber.rounds)
        return names

    monkeypatch.setattr(Segment, "mark_deleted", looked_at_meanwhile)
    assert log.replace_segments(old, cleaned)
    scrubber.judge()
    assert log.failure is None and len(looks) >= 3
    monkeypatch.undo()
    scrubber.scrub(1 << 30)
    scrubber.judge()
    assert log.failure is None


def test_slices_given_out_before_are_read_to_their_end_after_the_old_files_were_removed() -> None:
    world = CompactedWorld().filled()
    before = contents(world.log)
    read = world.log.read(0, max_bytes=1 << 30, upper_bound_offset=1 << 30)
    old, cleaned = world.compact()
    assert world.log.replace_segments(old, cleaned)
    assert world.log.segments.purge() > 0
    assert b"".join(part.read() for part in read.slices) == before
    assert not any(name.endswith((".deleted", ".swap", ".cleaned")) for name in world.log.directory.names())


def test_a_snapshot_of_a_segment_that_is_none_any_more_goes_with_it() -> None:
    world = CompactedWorld().filled()
    old, cleaned = world.compact()
    assert world.log.replace_segments(old, cleaned)
    snapshots = {name for name in world.log.directory.names() if name.endswith(".snapshot")}
    assert snapshots == {file_name(world.log.segments.active.base_offset, ".snapshot")}


@pytest.mark.parametrize("change", ["cut", "cut off whole", "deleted", "begun anew"])
def test_a_log_that_was_changed_meanwhile_keeps_what_it_has(change: str) -> None:
    """A rewriting runs in a thread; records that were cut off or deleted must not come back with it."""
    world = CompactedWorld().filled()
    old, cleaned = world.compact()
    log = world.log
    if change == "cut":
        log.truncate_to(old[-1].end_offset - 1, NOW)
    elif change == "cut off whole":
        log.truncate_to(old[1].base_offset, NOW)
    elif change == "deleted":
        log.delete_records_before(old[1].base_offset)
    else:
        log.truncate_fully_and_start_at(100, NOW)
    for _ in range(9):
        world.write(batch(1), 1)
    before = state(log)
    assert not log.replace_segments(old, cleaned)
    assert state(log) == before and log.failure is None
    assert not any(".cleaned" in name or ".swap" in name for name in log.directory.names())
    log.flush()
    world.disk.restart()
    world.start()
    assert state(world.log)["contents"] == before["contents"]


def test_a_segment_cut_in_the_gap_at_its_end_ends_where_the_next_one_begins() -> None:
    world = CompactedWorld().filled()
    old, cleaned = world.compact(keeps_last=False)
    assert world.log.replace_segments(old, cleaned)
    merged = world.log.segments[0]
    end_of_batches = list(merged.headers())[-1][1].next_offset
    assert end_of_batches < merged.end_offset - 1, "there is a gap"
    world.log.truncate_to(end_of_batches + 1, NOW)
    assert merged.end_offset == world.log.segments.active.base_offset == world.log.log_end_offset


def judged(disk: MemoryDisk) -> str:
    """Which of the two is there, `old` or `new`; and that it is whole."""
    disk.restart()
    world = CompactedWorld(disk)
    assert world.manager.refused == {} and world.manager.offline_directories == {}, world.report.notes
    found = state(world.log)
    assert_index_answers_as_a_scan(world.log)
    disk.restart()
    assert state(CompactedWorld(disk).log) == found, "a second recovery changes nothing"
    assert found["transactions"] == EXPECTED["old"]["transactions"], "what was aborted stays so"
    for name, expected in EXPECTED.items():
        if found["contents"] == expected["contents"]:
            for what in ("start", "end", "producers", "epochs"):
                assert found[what] == expected[what], what
            return name
    raise AssertionError(f"neither: {[header.base_offset for header in headers(world.log)]}")


def _expected() -> dict[str, dict[str, object]]:
    world = CompactedWorld().filled()
    before = state(world.log)
    world.log.replace_segments(*world.compact())
    return {"old": before, "new": state(world.log)}


EXPECTED = _expected()


def recorded(*, purges: bool) -> list[MemoryDisk]:
    disk = RecordingDisk()
    world = CompactedWorld(disk).filled()
    begin = len(disk.moments)
    old, cleaned = world.compact()
    assert world.log.replace_segments(old, cleaned)
    if purges:
        world.log.segments.purge()
        world.log.flush()
    disk.note()
    return [state.disk for state in crash_states(disk.moments[begin:], cuts_per_moment=60, seed=3)]


def test_every_crash_leaves_all_of_the_old_or_all_of_the_new() -> None:
    """A kill, a torn write or a power cut, at each step of the making and of the replacing."""
    found = [judged(disk) for disk in recorded(purges=True)]
    assert found.count("old") > 20 and found.count("new") > 20, (found.count("old"), found.count("new"))
    print(f"\n{len(found)} crash states of a replacing recovered and judged")


def test_every_crash_of_the_recovery_of_such_a_crash_too() -> None:
    count = 0
    for disk in recorded(purges=False)[::5]:
        again = RecordingDisk()
        again._top = disk._top
        CompactedWorld(again)
        again.note()
        for second in list(crash_states(again.moments, cuts_per_moment=2, seed=count))[::3]:
            judged(second.disk)
            count += 1
    assert count > 60


@pytest.mark.parametrize("error", [errno.EIO, errno.EMFILE])
def test_an_error_of_the_disk_on_the_way_takes_the_log_out_of_use_and_loses_nothing(error: int) -> None:
    """Also for want of a descriptor: half of it may be done."""
    taken_out = 0
    for after in range(40):
        world = CompactedWorld().filled()
        old, cleaned = world.compact()
        log = world.log
        world.disk.inject("any", error, after=after, times=1)
        try:
            assert log.replace_segments(old, cleaned)
        except StorageError:
            taken_out += log.failure is not None
            world.disk.heal()
            if log.failure is None:
                assert state(log) == EXPECTED["old"], "it had not begun"
            assert judged(world.disk) in ("old", "new")
        else:
            assert world.disk.failures == 0 and taken_out > 10
            return
    raise AssertionError("it never came to an end")


def test_a_log_that_has_failed_takes_nothing_in() -> None:
    world = CompactedWorld().filled()
    log, compacted = world.log, world.compact()
    failure = log.fail(CorruptLog("a batch is damaged"))
    with pytest.raises(CorruptLog) as caught:
        log.replace_segments(*compacted)
    assert repr(caught.value) == repr(failure)
    log.failure = None
    assert state(log) == EXPECTED["old"]


def test_files_that_no_descriptor_was_left_for_are_not_kept_beside_the_log() -> None:
    world = CompactedWorld().filled()
    old, cleaned = world.compact()
    log = world.log
    world.disk.inject("open", errno.EMFILE, name=OFFSET_GAPS, times=1)
    with pytest.raises(NoDescriptor):
        log.replace_segments(old, cleaned)
    assert state(log) == EXPECTED["old"] and log.failure is None
    assert not any(".cleaned" in name for name in log.directory.names())
    assert log.replace_segments(*world.compact()), "the next one is put in place"


def test_a_kill_on_the_way_loses_nothing() -> None:
    for step in range(40):
        world = CompactedWorld().filled()
        old, cleaned = world.compact()
        world.disk.crash_at(step)
        try:
            world.log.replace_segments(old, cleaned)
        except Crashed:
            assert judged(world.disk) in ("old", "new")
            continue
        assert step > 10
        return
    raise AssertionError("it never came to an end")


def starts_that_miss_a_name(step: str, puts_under: int) -> list[str]:
    """What a second start finds, for every name that a first one did not find; so many files are a `.swap`."""
    found = []
    while True:
        world = CompactedWorld().filled()
        _, cleaned = world.compact()
        world.disk.inject("rename", errno.EIO, after=puts_under, times=1)
        try:
            cleaned.files.put_under(SWAP_SUFFIX)
        except StorageError:
            assert puts_under < 4
        world.disk.heal()
        world.disk.restart()
        world.disk.inject(step, errno.ENOENT, name="00000", after=len(found), times=1)
        world.start()
        was_met = world.disk.failures > (puts_under < 4)
        world.disk.heal()
        if world.manager.refused == {}:
            assert state(world.log)["contents"] in [expected["contents"] for expected in EXPECTED.values()]
        found.append(judged(world.disk))
        if not was_met:
            return found


@pytest.mark.parametrize(("puts_under", "which"), [(1, "old"), (3, "old"), (4, "new")])
@pytest.mark.parametrize("step", ["rename", "remove"])
def test_a_name_that_a_start_does_not_find_and_that_is_back_later_mixes_no_two(
    step: str, puts_under: int, which: str
) -> None:
    """A crash left what was compacted beside all that it was made from. A start that has a part of either serves none."""
    found = starts_that_miss_a_name(step, puts_under)
    assert set(found) == {which}
    print(f"\n{len(found)} starts")
