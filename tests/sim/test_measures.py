"""What is measured of a history and judges nothing."""

from odradek.model.ids import TopicPartition
from odradek.sim.checkers.history import History, Polled, Sent
from odradek.sim.checkers.measures import consume_counts, measures, realtime_lag_ms

T, U = TopicPartition("t", 0), TopicPartition("t", 1)


def sent(value: bytes, offset: int, at_ms: int, outcome: str = "ok") -> Sent:
    return Sent("p", T, (value,), outcome, (offset,), at_ms=at_ms)  # type: ignore[arg-type]


def test_the_lag_is_that_of_the_first_poll_behind_the_acknowledgement() -> None:
    history = History(
        [
            sent(b"a", 0, 100),
            Polled("c", T, ((0, b"a"),), 130),
            Polled("d", T, ((0, b"a"), (1, b"b")), 190),
            sent(b"b", 1, 200),
            sent(b"never read", 2, 210),
            sent(b"in doubt", 3, 220, "unknown"),
            Polled("c", U, ((3, b"in doubt"),), 250),
        ]
    )
    assert realtime_lag_ms(history) == [0, 30]
    assert measures(history)["realtime-lag"] == {"median": 30, "p99": 30, "max": 30}


def test_each_consumer_counts_for_itself() -> None:
    history = History(
        [
            Polled("c", T, ((0, b"a"), (1, b"b"))),
            Polled("d", T, ((0, b"a"),)),
            Polled("c", T, ((1, b"b"),)),
            Polled("c", U, ((1, b"x"),)),
        ]
    )
    assert consume_counts(history) == {1: 3, 2: 1}


def test_of_nothing_nothing_is_measured() -> None:
    assert measures(History()) == {
        "realtime-lag": {"median": None, "p99": None, "max": None},
        "consume-counts": {},
    }
