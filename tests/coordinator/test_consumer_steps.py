"""One step of one member, and the bytes that classic members put into JoinGroup and SyncGroup."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.coordinator.consumer_protocol import (
    NEWEST,
    NO_GENERATION,
    Partitions,
    Subscription,
    read_assignment,
    read_subscription,
    version_of,
    write_assignment,
    write_subscription,
)
from odradek.coordinator.consumer_records import NOTHING, Current, MemberState
from odradek.coordinator.reconciling import next_step

T = b"t" * 16
VERSIONS = st.integers(0, NEWEST)
NUMBERS = st.integers(-(2**31), 2**31 - 1)
NAMES = st.text(max_size=4)
PARTITIONS = st.dictionaries(NAMES, st.lists(NUMBERS, max_size=3).map(tuple), max_size=3)


def free(topic: bytes, partition: int) -> bool:
    return True


def test_a_member_in_a_state_of_a_later_version_goes_on_when_it_owns_nothing() -> None:
    current = Current(3, 2, MemberState.UNKNOWN, {T: (0, 1)}, NOTHING)

    assert next_step(current, {T: (0,)}, 5, None, free) is None
    assert next_step(current, {T: (0,)}, 5, {T: (0,)}, free) is None
    after = next_step(current, {T: (0,)}, 5, {}, free)

    assert after == Current(5, 3, MemberState.STABLE, {T: (0,)}, NOTHING)


def test_who_has_let_go_and_has_to_let_go_of_more_is_one_epoch_on() -> None:
    current = Current(1, 1, MemberState.UNREVOKED_PARTITIONS, {T: (0, 1)}, {T: (2,)})

    after = next_step(current, {T: (0,)}, 4, {T: (0, 1)}, free)

    assert after == Current(2, 1, MemberState.UNREVOKED_PARTITIONS, {T: (0,)}, {T: (1,)})


@given(assignment=PARTITIONS, version=VERSIONS)
def test_an_assignment_is_read_as_it_was_written_and_cut_it_is_none(
    assignment: Partitions, version: int
) -> None:
    data = write_assignment(assignment, version)

    assert read_assignment(data) == assignment
    assert all(read_assignment(data[:end]) is None for end in range(1, len(data) - 4))


@given(
    version=VERSIONS,
    topics=st.lists(NAMES, max_size=3).map(tuple),
    owned=PARTITIONS,
    generation=NUMBERS,
    rack=NAMES,
)
def test_a_subscription_is_read_as_it_was_written_and_cut_it_is_none(
    version: int, topics: tuple[str, ...], owned: Partitions, generation: int, rack: str
) -> None:
    data = write_subscription(Subscription(version, topics, owned, generation, rack))

    found = read_subscription(data)
    assert found is not None and found[:2] == (version, topics) and version_of(data) == version
    assert found.owned == (owned if version >= 1 else {})
    assert found.generation == (generation if version >= 2 else NO_GENERATION)
    assert found.rack == (rack if version >= 3 else "")
    assert all(read_subscription(data[:end]) is None for end in range(len(data)))


@pytest.mark.parametrize(
    ("subscription", "data"),
    [
        (Subscription(0, ("t",), {}), b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff"),
        (
            Subscription(1, ("t",), {"t": (2,)}),
            b"\0\1\0\0\0\1\0\1t\xff\xff\xff\xff\0\0\0\1\0\1t\0\0\0\1\0\0\0\2",
        ),
        (Subscription(2, (), {}, 5), b"\0\2\0\0\0\0\xff\xff\xff\xff\0\0\0\0\0\0\0\5"),
        (
            Subscription(3, (), {}, NO_GENERATION, "r"),
            b"\0\3\0\0\0\0\xff\xff\xff\xff\0\0\0\0\xff\xff\xff\xff\0\1r",
        ),
        (
            Subscription(3, (), {}),
            b"\0\3\0\0\0\0\xff\xff\xff\xff\0\0\0\0\xff\xff\xff\xff\xff\xff",
        ),
    ],
)
def test_a_subscription_is_written_as_clients_do(subscription: Subscription, data: bytes) -> None:
    assert write_subscription(subscription) == data


def test_user_data_are_skipped_and_a_topic_that_comes_twice_has_all_that_is_said_of_it() -> None:
    topics, data = b"\0\0\0\1\0\1t", b"\0\0\0\2ab"
    twice = b"\0\0\0\2" + b"\0\1t\0\0\0\1\0\0\0\2" + b"\0\1t\0\0\0\1\0\0\0\0"

    assert read_subscription(b"\0\1" + topics + data + twice) == Subscription(1, ("t",), {"t": (2, 0)})
    assert read_assignment(b"\0\1" + twice + data) == {"t": (2, 0)}


def test_a_count_or_a_version_that_lies_is_none() -> None:
    assert read_subscription(b"\0\0\x7f\xff\xff\xff") is None
    assert read_subscription(b"\xff\xff\0\0\0\0\xff\xff\xff\xff") is None
    assert read_assignment(b"\0\0\x7f\xff\xff\xff") is None
