"""One step of one member, and the bytes that classic members put into JoinGroup and SyncGroup."""

import pytest

from odradek.coordinator.consumer_protocol import (
    Subscription,
    read_assignment,
    read_subscription,
    write_assignment,
)
from odradek.coordinator.consumer_records import NOTHING, Current, MemberState
from odradek.coordinator.reconciling import next_step
from tests.coordinator.consumers import subscription

T = b"t" * 16


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


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_an_assignment_is_read_as_it_was_written(version: int) -> None:
    data = write_assignment({"t": (0, 2), "u": ()}, version)

    assert read_assignment(data) == {"t": (0, 2), "u": ()}
    assert all(read_assignment(data[:end]) is None for end in range(1, len(data) - 4))


def test_a_subscription_that_is_cut_or_lies_is_none() -> None:
    data = subscription(("t", "u"), {"t": [1, 2]})

    assert read_subscription(data) == Subscription(1, ("t", "u"), {"t": (1, 2)}, "")
    assert all(read_subscription(data[:end]) is None for end in range(len(data)))
    assert read_subscription(b"\0\0\x7f\xff\xff\xff") is None
    assert read_subscription(b"\xff\xff\0\0\0\0\xff\xff\xff\xff") is None
    assert read_assignment(b"\0\0\x7f\xff\xff\xff") is None
