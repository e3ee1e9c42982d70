"""Where replicas of new partitions go. The expected placements are Apache's rule worked out by hand."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.broker.assignment import assign_replicas, rack_alternated
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError


def no_racks(*brokers: int) -> dict[int, str | None]:
    return dict.fromkeys(brokers)


def test_ten_partitions_over_five_brokers_shift_by_one_each_time_round() -> None:
    """The table in the comment of Apache's AdminUtils: followers move on when the leaders have gone round."""
    assignment = assign_replicas(
        no_racks(0, 1, 2, 3, 4), partitions=10, replication_factor=3, start=0, shift=0
    )
    assert [assignment[p] for p in range(10)] == [
        (0, 1, 2),
        (1, 2, 3),
        (2, 3, 4),
        (3, 4, 0),
        (4, 0, 1),
        (0, 2, 3),
        (1, 3, 4),
        (2, 4, 0),
        (3, 0, 1),
        (4, 1, 2),
    ]


def test_start_and_shift_move_the_pattern() -> None:
    assert assign_replicas(no_racks(1, 2, 3), partitions=3, replication_factor=2, start=1, shift=1) == {
        0: (2, 1),
        1: (3, 2),
        2: (1, 3),
    }


def test_brokers_are_taken_in_turns_of_their_racks() -> None:
    racks = {0: "rack1", 1: "rack3", 2: "rack3", 3: "rack2", 4: "rack2", 5: "rack1"}
    assert rack_alternated(racks) == [0, 3, 1, 5, 4, 2]


def test_six_brokers_on_three_racks_get_every_partition_on_every_rack() -> None:
    racks: dict[int, str | None] = {0: "r1", 1: "r3", 2: "r3", 3: "r2", 4: "r2", 5: "r1"}
    assignment = assign_replicas(racks, partitions=6, replication_factor=3, start=0, shift=0)
    assert [assignment[p] for p in range(6)] == [
        (0, 3, 1),
        (3, 1, 5),
        (1, 5, 4),
        (5, 4, 2),
        (4, 2, 0),
        (2, 0, 3),
    ]
    for replicas in assignment.values():
        assert {racks[r] for r in replicas} == {"r1", "r2", "r3"}


def test_more_replicas_than_racks_use_every_broker_once() -> None:
    racks: dict[int, str | None] = {1: "a", 2: "a", 3: "b"}
    assignment = assign_replicas(racks, partitions=3, replication_factor=3, start=2, shift=0)
    assert all(sorted(replicas) == [1, 2, 3] for replicas in assignment.values())


def test_partitions_added_later_are_numbered_on() -> None:
    added = assign_replicas(
        no_racks(1, 2, 3), partitions=2, replication_factor=1, start=0, shift=0, first_partition=4
    )
    assert added == {4: (2,), 5: (3,)}


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"partitions": 0}, ErrorCode.INVALID_PARTITIONS),
        ({"replication_factor": 0}, ErrorCode.INVALID_REPLICATION_FACTOR),
        ({"replication_factor": 4}, ErrorCode.INVALID_REPLICATION_FACTOR),
        ({"racks": {1: "a", 2: None, 3: "b"}}, ErrorCode.UNKNOWN_SERVER_ERROR),
        ({"racks": {}}, ErrorCode.INVALID_REPLICATION_FACTOR),
    ],
)
def test_what_cannot_be_placed_is_refused_with_a_sentence(
    options: dict[str, object], error: ErrorCode
) -> None:
    arguments = {"racks": no_racks(1, 2, 3), "partitions": 1, "replication_factor": 1, "start": 0, "shift": 0}
    with pytest.raises(ProtocolError) as refusal:
        assign_replicas(**{**arguments, **options})  # type: ignore[arg-type]
    assert refusal.value.code == error
    assert len(refusal.value.message) > 20


@settings(deadline=None)
@given(
    brokers=st.integers(1, 12),
    racks=st.integers(0, 4),
    partitions=st.integers(1, 40),
    factor=st.integers(1, 6),
    start=st.integers(0, 11),
    shift=st.integers(0, 11),
)
def test_whatever_is_asked_nobody_gets_two_copies_and_leaders_are_even(
    brokers: int, racks: int, partitions: int, factor: int, start: int, shift: int
) -> None:
    factor = min(factor, brokers)
    placed: dict[int, str | None] = {b: f"r{b % racks}" if racks else None for b in range(brokers)}
    assignment = assign_replicas(
        placed, partitions=partitions, replication_factor=factor, start=start % brokers, shift=shift % brokers
    )
    leaders = [replicas[0] for replicas in assignment.values()]
    counts = [leaders.count(b) for b in range(brokers)]
    assert max(counts) - min(counts) <= 1
    for replicas in assignment.values():
        assert len(set(replicas)) == len(replicas) == factor
        if racks:
            assert len({placed[r] for r in replicas}) == min(factor, len(set(placed.values())))
