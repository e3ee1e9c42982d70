"""Replication throttles by the clock: what the rate is, whom it covers, when it lets go (KIP-73)."""

from collections.abc import Iterator

import pytest

from odradek.model.ids import BrokerId, TopicPartition
from odradek.replication.throttle import UNLIMITED, ReplicationThrottle

HERE, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)
ME = BrokerId(3)


def throttle(rate: int) -> ReplicationThrottle:
    made = ReplicationThrottle(window_count=11, window_ms=1000)
    made.rate = rate
    made.cover(HERE, ("*",), ME)
    return made


@pytest.mark.parametrize(
    ("listed", "covered"),
    [([], False), (["*"], True), (["0:3"], True), (["0:4"], False), (["1:3"], False), (["1:3", "0:3"], True)],
)
def test_a_replica_is_covered_by_partition_and_broker_or_by_all(listed: list[str], covered: bool) -> None:
    made = ReplicationThrottle()
    made.rate = 0
    made.record(1, 0)
    made.cover(HERE, tuple(listed), ME)
    assert made.holds_back(HERE, 0) is covered
    made.cover(HERE, (), ME)
    assert not made.holds_back(HERE, 0), "the list was emptied"


def test_without_a_rate_nothing_is_held_back() -> None:
    unlimited = ReplicationThrottle()
    unlimited.cover(HERE, ("*",), ME)
    unlimited.record(1 << 40, 1_000)
    assert not unlimited.holds_back(HERE, 1_000) and unlimited.free_at_ms(1_000) == 1_000


def test_the_rate_is_what_was_copied_by_the_time_it_took() -> None:
    made = throttle(1000)
    assert not made.holds_back(HERE, 0)
    made.record(5000, 0)
    assert made.holds_back(HERE, 0) and made.holds_back(HERE, 4999)
    assert not made.holds_back(HERE, 5000), "5000 bytes in 5 s"
    assert not made.holds_back(OTHER, 0), "whoever is not listed goes on"


@pytest.mark.parametrize("rate", [100, 1000, 50_000])
def test_it_lets_go_when_it_says_and_not_before(rate: int) -> None:
    made = throttle(rate)
    now_ms, copied = 0, 0
    while now_ms < 120_000:
        while made.holds_back(HERE, now_ms):
            free_at_ms = made.free_at_ms(now_ms)
            assert made.holds_back(HERE, free_at_ms - 1) and free_at_ms > now_ms
            now_ms = free_at_ms
        made.record(3000, now_ms)
        copied += 3000
    assert copied / 120 == pytest.approx(max(rate, 3000 / 11), rel=0.2)


def test_one_batch_goes_through_a_rate_of_zero_now_and_then() -> None:
    made = throttle(0)
    assert not made.holds_back(HERE, 0)
    made.record(10, 0)
    assert made.holds_back(HERE, 10_999) and made.free_at_ms(0) == 11_000
    assert not made.holds_back(HERE, 11_000)


def test_what_has_just_begun_counts_as_a_window_long() -> None:
    made = throttle(1000)
    made.record(1000, 0)
    assert not made.holds_back(HERE, 0)
    made.record(1, 0)
    assert made.holds_back(HERE, 1000) and not made.holds_back(HERE, 1001)


def test_a_list_is_gone_through_once_for_all_partitions_of_its_topic() -> None:
    class Listed(tuple[str, ...]):
        gone_through = 0

        def __iter__(self) -> Iterator[str]:
            Listed.gone_through += 1
            return super().__iter__()

    made = ReplicationThrottle()
    listed = Listed(f"{number}:{ME}" for number in range(0, 10, 2))
    Listed.gone_through = 0
    for number in range(10):
        made.cover(TopicPartition("t", number), listed, ME)
    assert sorted(one.partition for one in made.covered) == [0, 2, 4, 6, 8]
    assert Listed.gone_through == 1


def test_a_new_rate_counts_at_once() -> None:
    made = throttle(1)
    made.record(1_000_000, 0)
    assert made.holds_back(HERE, 0)
    made.rate = UNLIMITED
    assert not made.holds_back(HERE, 0)
