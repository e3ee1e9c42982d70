"""Where retention moves the start of a log is judged: by hand, and in code that takes too much."""

from types import SimpleNamespace
from typing import Any

import pytest

from odradek.model.ids import BrokerId, TopicPartition
from odradek.records.batch import LENGTH_OFFSET, MAX_TIMESTAMP_OFFSET
from odradek.records.builder import NewRecord, build_batch
from odradek.sim import run as sim_run
from odradek.sim.checkers.retention import Oldest, Retained, Segment, let_go_as_asked, old_is_let_go
from odradek.sim.observed.retention import Retention, deleted_unasked, unretained
from odradek.sim.plan import draw
from odradek.sim.run import CORRECTNESS, LIVENESS, OK, run
from tests.mutants.edit import Edit
from tests.mutants.patching import applied
from tests.support import each

T = TopicPartition("t", 0)
# Three segments of 100 bytes, and the last one; one is too old, and 150 bytes may stay.
SEGMENTS = (Segment(0, 100, 1_000), Segment(5, 100, 7_000), Segment(9, 100, 8_000), Segment(12, 50, 9_000))
GOOD = Retained(TopicPartition("t", 0), BrokerId(1), SEGMENTS, 9, 9, 12, 10_000, 5_000, 150)
BAD: dict[str, tuple[Retained, int]] = {
    "in the midst of a segment": (GOOD._replace(start=7, first_kept=5), 1),
    "before the first segment that is left": (GOOD._replace(first_kept=12), 1),
    "past the high watermark": (GOOD._replace(high_watermark=8), 1),
    "and of what is too much alone": (GOOD._replace(high_watermark=8, retention_ms=-1), 1),
    "a segment that is young, and not too much": (GOOD._replace(retention_bytes=151), 1),
    "two": (GOOD._replace(start=12, first_kept=12, retention_bytes=-1), 2),
    "one that is as old as may be": (GOOD._replace(start=5, first_kept=5, now_ms=6_000, retention_bytes=-1), 1),
    "where nothing is asked for": (GOOD._replace(retention_ms=-1, retention_bytes=-1), 2),
}  # fmt: skip


@each(BAD)
def test_what_retention_should_not_have_taken_is_named(why: str) -> None:
    seen, count = BAD[why]
    assert [(one.name, one.topic_partition) for one in let_go_as_asked(seen)] == [
        ("RetentionIsAsked", seen.topic_partition)
    ] * count


def test_what_is_too_old_or_too_much_may_go() -> None:
    for seen in (
        GOOD,
        GOOD._replace(start=5, first_kept=5, retention_bytes=-1),
        GOOD._replace(start=12, first_kept=12, retention_bytes=50),
        GOOD._replace(start=12, first_kept=12, high_watermark=12, now_ms=13_001, retention_bytes=-1),
        GOOD._replace(segments=(Segment(0, 0, -1), *SEGMENTS), start=5, first_kept=5),
        GOOD._replace(segments=(Segment(0, 100, -1), *SEGMENTS[1:]), start=5, first_kept=5, retention_bytes=-1),
    ):  # fmt: skip
        assert list(let_go_as_asked(seen)) == []


BROKEN: dict[str, tuple[Edit, int]] = {
    "that is young": (
        Edit("log.retention:_leading_expired", "now_ms - (largest if largest >= 0 else segment.modified_ms()) <= retention_ms", "now_ms - (largest if largest >= 0 else segment.created_ms) <= retention_ms // 2"),
        3,
    ),
    "that is not too much": (
        Edit("log.retention:_leading_surplus", "surplus < size or segment.end(log.log_end_offset) > high_watermark", "not 0 <= segment.end_offset <= high_watermark"),
        18,
    ),
    "of the segment that stays": (
        Edit("log.retention:_drop", "log.delete_records_before(max(start, log.log_start_offset))", "log.delete_records_before(max(start, log.log_start_offset) + 1)"),
        29,
    ),
}  # fmt: skip


@each(BROKEN)
def test_retention_that_takes_something_is_found(why: str) -> None:
    edit, seed = BROKEN[why]
    with applied([edit]):
        seen = run(draw(seed))
    assert (seen.code, {anomaly.name for anomaly in seen.anomalies}) == (CORRECTNESS, {"RetentionIsAsked"})


def test_a_start_that_retention_moved_is_asked_for_by_that_and_no_further(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where administrators set retention a log begins where it was at work, or where they deleted: unknown, the start is too far."""
    assert run(draw(3)).code == OK
    monkeypatch.setattr(sim_run, "deleted_unasked", lambda world, retained: deleted_unasked(world, {}))
    seen = run(draw(3))
    assert (seen.code, {anomaly.name for anomaly in seen.anomalies}) == (CORRECTNESS, {"StartIsAsked"})


def test_a_log_of_coordinators_that_lost_its_beginning_is_found_where_nobody_deletes_records() -> None:
    plan = draw(8)
    assert not plan.is_administered
    told = "leader_log_start > log.log_start_offset and leader_log_start <= log.log_end_offset"
    of_coordinators = 'self.topic_partition.topic == "__consumer_offsets"'
    begins_at_2 = f"{of_coordinators} and log.log_start_offset < (leader_log_start := 2) <= mark"
    with applied([Edit("replication.replica:Replica.append_as_follower", told, begins_at_2)]):
        seen = run(plan)
    assert (seen.code, {anomaly.name for anomaly in seen.anomalies}) == (CORRECTNESS, {"StartIsAsked"})


def test_what_retention_should_have_taken_is_named() -> None:
    kept = Oldest(TopicPartition("t", 0), BrokerId(1), Segment(0, 100, 5_000), 149, 10_000, 5_000, 150)
    assert list(old_is_let_go(kept)) == []
    assert list(old_is_let_go(kept._replace(retention_ms=-1, retention_bytes=-1, left_bytes=1 << 40))) == []
    assert list(old_is_let_go(kept._replace(segment=Segment(0, 100, -1)))) == [], "its records have no time"
    for late in (
        kept._replace(now_ms=10_001),
        kept._replace(left_bytes=150),
        kept._replace(retention_bytes=0),
    ):
        assert [(one.name, one.topic_partition) for one in old_is_let_go(late)] == [("OldIsLetGo", T)]


def test_the_first_of_two_segments_is_judged_and_one_alone_or_uncommitted_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = [(0, SimpleNamespace(data=b"x")), (5, SimpleNamespace(data=b"y"))]
    monkeypatch.setattr("odradek.sim.observed.retention.segment_files", lambda log: files)
    monkeypatch.setattr("odradek.sim.observed.retention.newest_ms", lambda file: 1_000)
    config = SimpleNamespace(is_deleted=True, retention_ms=5_000, retention_bytes=-1)
    log = SimpleNamespace(config=config, failure=None)
    replica = SimpleNamespace(log=log, high_watermark=5)
    runtime = SimpleNamespace(logs=SimpleNamespace(logs={T: log}), now_ms=lambda: 9_000)
    broker = SimpleNamespace(
        broker_id=BrokerId(1), is_serving=True, runtime=runtime, replica=lambda partition: replica
    )
    world: Any = SimpleNamespace(brokers={BrokerId(1): broker})
    assert [anomaly.name for anomaly in unretained(world)] == ["OldIsLetGo"]
    replica.high_watermark = 4
    assert list(unretained(world)) == []
    replica.high_watermark = 5
    del files[1]
    assert list(unretained(world)) == []


def test_retention_that_takes_nothing_is_found() -> None:
    with applied([Edit("log.retention:drop_expired_segments", "if by_time: ...", "if False: ...")]):
        seen = run(draw(3))
    assert (seen.code, {anomaly.name for anomaly in seen.anomalies}) == (LIVENESS, {"OldIsLetGo"})


def test_a_segment_that_a_disk_has_damaged_is_not_judged_by_what_stands_in_it() -> None:
    """A bit that turned in the length of a batch, or in its timestamps: the broker goes by what it knew before."""
    whole = build_batch([NewRecord(None, b"x", 1_000)])
    length, timestamps = bytearray(whole), bytearray(whole)
    length[LENGTH_OFFSET] ^= 0x40
    timestamps[MAX_TIMESTAMP_OFFSET + 3] ^= 0x40
    for data in (length, timestamps):
        world, log = _watched(bytes(data))
        assert not world.let_in
        assert not world.loop.told
        assert world.retention.furthest == {(log.topic_id, T): 1}
    world, _ = _watched(bytes(whole), retention_ms=100_000)
    assert {anomaly.name for anomaly in world.let_in} == {"RetentionIsAsked"}


def _watched(data: bytes, *, retention_ms: int = 5_000) -> tuple[Any, Any]:
    """A world whose broker 1 let the first of two segments go, in which this stands."""
    told: list[object] = []
    loop = SimpleNamespace(call_exception_handler=told.append, interrupt=lambda: None, told=told)
    world: Any = SimpleNamespace(on_process_start=[], let_in=[], loop=loop)
    world.retention = Retention(world)
    log: Any = SimpleNamespace(
        topic_partition=T,
        topic_id=b"i" * 16,
        log_start_offset=1,
        segments=[Segment(1, 0, -1)],
        config=SimpleNamespace(retention_ms=retention_ms, retention_bytes=-1),
    )
    broker: Any = SimpleNamespace(broker_id=BrokerId(1), runtime=SimpleNamespace(now_ms=lambda: 10_000))
    files = [(0, SimpleNamespace(data=data)), (1, SimpleNamespace(data=b""))]
    world.retention._watched_with(broker, log, 1, files)
    return world, log
