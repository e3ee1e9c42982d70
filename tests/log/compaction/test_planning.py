"""What is cleaned, when, and into how many segments."""

import pytest

from odradek.log.compaction.planning import DirtyPart, Limits, SegmentFacts, dirty_part, grouped

LIMITS = Limits(
    min_dirty_ratio=0.5, min_lag_ms=0, max_lag_ms=10_000, segment_bytes=1000, segment_index_bytes=80
)


def segment(base: int, end: int, size: int = 100, *, timestamp: int = 0) -> SegmentFacts:
    return SegmentFacts(base, end, size, 8, 12, timestamp, timestamp)


FOUR = [segment(0, 10), segment(10, 20), segment(20, 30), segment(30, 40)]


def part(
    *,
    segments: list[SegmentFacts] = FOUR,
    limits: Limits = LIMITS,
    checkpoint: int | None = None,
    start: int = 0,
    stable: int = 50,
    now_ms: int = 1000,
) -> DirtyPart:
    return dirty_part(
        segments,
        limits,
        checkpoint=checkpoint,
        log_start_offset=start,
        active_base_offset=40,
        last_stable_offset=stable,
        now_ms=now_ms,
    )


def test_all_that_is_closed_is_dirty_at_first() -> None:
    assert part() == DirtyPart(0, 40, 1.0, True)


@pytest.mark.behaviour("L1")
def test_the_ratio_counts_from_the_checkpoint_and_must_be_exceeded() -> None:
    assert part(checkpoint=20) == DirtyPart(20, 40, 0.5, False)
    assert part(checkpoint=10) == DirtyPart(10, 40, 0.75, True)
    assert part(checkpoint=40) == DirtyPart(40, 40, 0.0, False)


@pytest.mark.behaviour("L3")
def test_a_checkpoint_that_cannot_be_right_is_not_believed() -> None:
    assert part(checkpoint=41).first_dirty == 0
    assert part(checkpoint=3, start=5).first_dirty == 5


@pytest.mark.behaviour("L2")
def test_nothing_at_or_behind_an_open_transaction_is_cleaned() -> None:
    assert part(stable=40).end == 40
    assert part(stable=39).end == 30
    assert part(stable=10).end == 10
    assert part(stable=9) == DirtyPart(0, 0, 0.0, False)


@pytest.mark.behaviour("L2")
def test_what_is_young_is_left_alone_and_so_is_what_comes_behind_it() -> None:
    young = [segment(0, 10), segment(10, 20, timestamp=950), segment(20, 30), segment(30, 40)]
    limits = LIMITS._replace(min_lag_ms=50)

    assert part(segments=young, limits=limits).end == 40
    assert part(segments=young, limits=limits, now_ms=999).end == 10


@pytest.mark.behaviour("L1")
def test_what_waited_too_long_is_due_whatever_the_ratio() -> None:
    assert not part(checkpoint=20, now_ms=10_000).is_due
    assert part(checkpoint=20, now_ms=10_001).is_due
    assert not part(checkpoint=40, now_ms=10_001).is_due, "nothing is dirty"


@pytest.mark.behaviour("L15")
def test_segments_become_one_as_long_as_all_of_them_would_fit() -> None:
    assert grouped(FOUR, LIMITS) == [FOUR]
    assert grouped(FOUR, LIMITS._replace(segment_bytes=299)) == [FOUR[:2], FOUR[2:]]
    assert grouped(FOUR, LIMITS._replace(segment_index_bytes=35)) == [FOUR[:2], FOUR[2:]]
    assert grouped(FOUR, LIMITS._replace(segment_bytes=10)) == [[one] for one in FOUR]
    for larger in ("index_bytes", "time_index_bytes"):
        indexed = [one._replace(**{"index_bytes": 8, "time_index_bytes": 8, larger: 40}) for one in FOUR]
        assert grouped(indexed, LIMITS) == [indexed[:2], indexed[2:]]
        assert grouped(indexed, LIMITS._replace(segment_index_bytes=119)) == [indexed[:2], indexed[2:]]
        assert grouped(indexed, LIMITS._replace(segment_index_bytes=120)) == [indexed[:3], indexed[3:]]
    many = [segment(n, n + 1, 0) for n in range(250)]
    assert [len(group) for group in grouped(many, LIMITS._replace(segment_index_bytes=1 << 20))] == [
        100,
        100,
        50,
    ]
    far = [segment(0, 10), segment(10, 2**31), segment(2**31, 2**31 + 1)]
    assert grouped(far, LIMITS) == [far[:2], far[2:]]
