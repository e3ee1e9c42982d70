"""What is to be synced, by itself: which names, which segments, and what a flush that ended says of a log that went on."""

from collections.abc import Callable

import pytest

from odradek.log import flushing
from odradek.log.config import LONG_MAX
from odradek.log.flushing import FlushState
from odradek.log.memory_files import MemoryDisk
from odradek.log.new_log import create_log
from odradek.log.partition_log import PartitionLog
from odradek.log.recovery import open_log
from odradek.log.segment import LOG_SUFFIX, file_name
from tests.log.logs import NOW, TOPIC_ID, TP, batch, config, produce

CHANGES: dict[str, Callable[[FlushState], None]] = {
    "created": lambda state: state.created(),
    "a file": lambda state: state.name_changed("x"),
    "names": lambda state: state.names_dirty(),
    "rolled": lambda state: state.rolled(),
}


def planned(state: FlushState, up_to_offset: int = 0) -> flushing.FlushPlan:
    root = MemoryDisk().root
    return flushing.plan(state, root, root, (), up_to_offset)


@pytest.mark.parametrize("change", CHANGES)
def test_names_are_synced_when_a_flush_that_began_later_has_ended(change: str) -> None:
    state = FlushState(7)
    assert (state.names_are_synced, state.is_in_place, state.recovery_point) == (True, True, 7)
    assert planned(state).is_empty

    CHANGES[change](state)
    assert not state.names_are_synced and state.is_in_place is (change != "created")
    plan = planned(state)
    assert not plan.is_empty
    CHANGES[change](state)
    flushing.commit(state, plan, NOW)
    assert not state.names_are_synced and not planned(state).is_empty, "what changed meanwhile"

    flushing.commit(state, planned(state), NOW)
    assert state.names_are_synced and state.is_in_place and planned(state).is_empty


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_two_flushes_say_the_same_in_whatever_order_they_end(order: tuple[int, int]) -> None:
    state = FlushState(7)
    plans = []
    for end in (8, 9):
        state.rolled()
        state.name_changed("x")
        plans.append(planned(state, end))
    for number in order:
        flushing.commit(state, plans[number], NOW)

    assert state.recovery_point == 9 and state.names_are_synced and planned(state, 9).is_empty
    assert not state.is_due(9, NOW, config())


@pytest.mark.parametrize("offset", [3, 7, 9])
@pytest.mark.parametrize("is_flushed", [False, True])
def test_a_cut_makes_nothing_durable(offset: int, *, is_flushed: bool) -> None:
    """It may lie above what was flushed, and a start would miss what a power cut took in between."""
    state = FlushState(0 if is_flushed else 7)
    if is_flushed:
        flushing.commit(state, planned(state, 7), NOW)
    state.cut(offset)
    assert state.recovery_point == min(offset, 7)


def test_a_cut_is_durable_with_a_flush_that_began_behind_it() -> None:
    state = FlushState(7)
    state.cut(5)
    before = planned(state, 5)
    state.cut(3)
    state.cut(6)
    assert (state.unsynced_cut, state.is_due(4, NOW, config())) == (3, True)
    flushing.commit(state, before, NOW)
    assert state.unsynced_cut == 3
    flushing.commit(state, planned(state, 6), NOW)
    assert (state.unsynced_cut, state.is_due(4, NOW, config())) == (LONG_MAX, False)


def test_a_cut_behind_which_nothing_came_is_durable_with_a_flush_too() -> None:
    state = FlushState(7)
    state.cut(5)
    flushing.commit(state, planned(state, 5), NOW)
    assert (state.unsynced_cut, state.recovery_point) == (LONG_MAX, 5)


def test_a_log_that_a_killed_life_may_have_cut_is_flushed_once_it_holds_more_than_what_was() -> None:
    state = FlushState(7)
    state.may_have_been_cut(9)
    assert [state.is_due(end, NOW, config()) for end in (9, 10)] == [False, True]
    assert [state.is_due_later(end, config()) for end in (9, 10)] == [False, True]
    flushing.commit(state, planned(state, 10), NOW)
    assert not state.is_due(11, NOW, config()) and not state.is_due_later(11, config())


def test_records_alone_are_something_to_flush_and_due_when_their_time_has_come() -> None:
    log = rolled_log()
    log.config = config(flush_ms=1000)
    log.flush(NOW)
    assert log.plan_flush().is_empty and not log.flush_is_due(NOW + 5000)

    produce(log, batch())

    assert not log.plan_flush().is_empty
    assert [log.flush_is_due(NOW + passed_ms) for passed_ms in (999, 1000)] == [False, True]


def test_nothing_is_due_in_a_log_that_was_just_opened() -> None:
    assert not FlushState(7).is_due(7, NOW, config())


def test_a_flush_that_ends_late_takes_nothing_back() -> None:
    state = FlushState(0)
    first, second = planned(state, 5), planned(state, 9)
    assert flushing.commit(state, second, NOW) == 9
    assert flushing.commit(state, first, NOW) == 9, "and of an earlier end"
    before = planned(state, 20)
    state.cut(3)
    assert state.recovery_point == 3
    assert flushing.commit(state, planned(state, 8), NOW) == 8
    assert flushing.commit(state, before, NOW) == 8, "and of records that were cut off"


def test_so_many_segments_are_flushed_at_once_and_the_others_are_due(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each takes a descriptor."""
    monkeypatch.setattr(flushing, "MOST_SEGMENTS", 2)
    log = rolled_log()
    plan = log.plan_flush()
    assert (plan.is_partial, plan.up_to_offset, len(plan.segments)) == (True, 4, 2)
    plan.run()
    assert log.commit_flush(plan, NOW) == 4
    assert log.flush_is_due(NOW)
    log.config = config(flush_ms=1000)
    log.flushed.rolls_flushed = 2
    assert log.flush_is_due(NOW), "by time as well"

    assert log.flush(NOW) == 5 and not log.flush_is_due(NOW)


def test_a_flush_that_waits_for_nobody_takes_as_many_as_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flushing, "MOST_SEGMENTS", 1)
    log = rolled_log()
    assert log.flush(NOW) == 5


@pytest.mark.parametrize("is_partial", [False, True])
def test_behind_a_kill_each_file_is_synced_once(monkeypatch: pytest.MonkeyPatch, *, is_partial: bool) -> None:
    """A segment was both, one with something behind the recovery point and a file of which nobody knows whether it is on the disk.
    A partial flush syncs those too that it leaves for later: it says that no cut is in doubt any more."""
    if is_partial:
        monkeypatch.setattr(flushing, "MOST_SEGMENTS", 1)
    disk = MemoryDisk()
    rolled_log(disk)
    disk.restart()
    log = open_log(disk.root, TP, config(), now_ms=NOW, was_clean=False, recovery_point=3).log
    produce(log, batch(at=NOW))
    disk.trace.clear()
    plan = log.plan_flush()
    plan.run()

    assert plan.is_partial is is_partial
    synced = [line.rpartition("/")[2] for line in disk.trace if line.startswith("sync ")]
    assert {file_name(base, LOG_SUFFIX) for base in (0, 2, 4)} <= set(synced)
    assert len(synced) == len(set(synced))


def rolled_log(disk: MemoryDisk | None = None) -> PartitionLog:
    """Segments of two records at 0, 2 and 4."""
    limit = config(segment_bytes=2 * len(batch()))
    log = create_log((disk or MemoryDisk()).root, TP, TOPIC_ID, limit, now_ms=NOW)
    for n in range(5):
        produce(log, batch(at=NOW + n))
    return log


@pytest.mark.parametrize(
    ("recovery_point", "bases"), [(0, [0, 2, 4]), (1, [0, 2, 4]), (2, [2, 4]), (4, [4]), (5, [])]
)
def test_what_is_synced_is_every_segment_with_something_behind_the_recovery_point(
    recovery_point: int, bases: list[int]
) -> None:
    log = rolled_log()
    log.flushed.reached(log.flushed.generation, recovery_point)

    assert [segment.base_offset for segment in log.plan_flush().segments] == bases


def test_a_rolled_segment_keeps_its_descriptor_until_it_is_flushed() -> None:
    log = rolled_log()
    assert [segment.is_cold for segment in log.segments] == [False, False, False]
    plan = log.plan_flush()
    log.commit_flush(plan)
    assert [segment.is_cold for segment in log.segments] == [True, True, False]

    log = rolled_log()
    plan = log.plan_flush()
    plan.up_to_offset = 2
    log.commit_flush(plan)
    assert [segment.is_cold for segment in log.segments] == [True, False, False], "what is not flushed stays"


def test_when_it_was_flushed_last_is_noted_where_the_time_is_told() -> None:
    state = FlushState(0)
    flushing.commit(state, planned(state), -1)
    assert state.last_flush_ms == -1
    flushing.commit(state, planned(state), 0)
    assert state.last_flush_ms == 0
    flushing.commit(state, planned(state), -1)
    assert state.last_flush_ms == 0


def test_two_flushes_of_one_state_count_what_they_synced_once() -> None:
    """The second was planned before the first had ended. Counted twice, the next change would count as synced before it is, and
    the name of a new segment would be lost to a power cut behind a recovery point that lies in it."""
    state = FlushState(0)
    state.rolled()
    first, second = planned(state), planned(state)
    for plan in (first, second):
        flushing.commit(state, plan, NOW)
    assert state.names_are_synced
    state.name_changed("x")
    assert not state.names_are_synced and not planned(state).is_empty

    first = planned(state)
    state.name_changed("x")
    second = planned(state)
    flushing.commit(state, second, NOW)
    state.name_changed("y")
    flushing.commit(state, first, NOW)
    assert not planned(state).is_empty and planned(state)._names == ("y",)


def test_a_log_whose_flushed_point_falls_is_asked_whether_it_is_to_be_flushed() -> None:
    """Also where the cut is given up: what lay between is flushed once more."""
    state = FlushState(5)
    asked: list[None] = []
    state.when_something_comes(lambda: asked.append(None))
    state.cut(3)
    assert len(asked) == 1 and state.recovery_point == 3
