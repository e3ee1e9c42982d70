"""The pace of the demo's collector."""

from collections.abc import Iterator
from typing import Any

import pytest

from odradek.demo import collector
from odradek.demo.timeline import Timeline

pytest.importorskip("confluent_kafka")
RATE = 100


class Clock:
    now = 0.0

    def perf_counter(self) -> float:
        return self.now

    monotonic = time = perf_counter


class Producer:
    """Waits on the clock of the test, and forgets what it is given."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def produce(self, *_: Any, **__: Any) -> None: ...

    def poll(self, seconds: float) -> None:
        self._clock.now += seconds

    def __len__(self) -> int:
        """Of what it has forgotten nothing comes any more."""
        return 1


class Report:
    """A delivery report's message."""

    def __init__(self, partition: int) -> None:
        self.partition = lambda: partition


class File:
    def records(self) -> Iterator[tuple[bytes, bytes]]:
        return iter([(b"", b"")] * 1000)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(collector, "time", clock)
    return clock


def collecting(producer: object, timeline: Timeline | None = None) -> collector.Collector:
    made = collector.Collector("127.0.0.1:1", "t", timeline or Timeline(0.0), RATE)
    made._producer = producer
    return made


def test_what_is_late_at_a_call_is_not_made_up_for_before_the_next(clock: Clock) -> None:
    """A broker is killed, and started again a quarter of the records later: that quarter takes its time."""
    made = collecting(Producer(clock))
    called_at: list[float] = []

    def kill() -> None:
        clock.now += 30  # the machine did something else
        called_at.append(clock.now)

    made.run([File()], {500: kill, 750: lambda: called_at.append(clock.now)}, lambda: None)  # type: ignore[list-item]

    killed, restarted = called_at
    assert killed == pytest.approx(500 / RATE + 30, abs=0.1)
    assert restarted - killed == pytest.approx(250 / RATE, abs=0.1)


def test_what_was_not_acknowledged_is_told_after_two_minutes_with_the_first_reason(clock: Clock) -> None:
    timeline, told_at = Timeline(0.0), list[float]()
    made = collecting(Producer(clock), timeline)
    assert made.run([File()], {}, lambda: told_at.append(clock.now)) == 1000  # type: ignore[list-item]
    assert len(told_at) == 10, "every hundred records"
    clock.now = 20.0
    for partition in (0, 1, 0):
        made._delivered(None, Report(partition))
    made._delivered("the first error", None)
    made._delivered("another error", None)

    begun_s = clock.now
    with pytest.raises(collector.NotDelivered) as missing:
        made.finish(lambda: told_at.append(clock.now))

    assert clock.now - begun_s == pytest.approx(120, abs=0.01)
    assert told_at[-1] == clock.now
    assert str(missing.value) == (
        "997 of 1000 records were not acknowledged within 120 s; the first answer was: the first error"
    )
    assert (made.sent, made.acknowledged, made.first_failure) == (1000, 3, "the first error")
    assert timeline.slots == {1000: {0: 2, 1: 1}} and timeline.last_ack_ms == 20_000


def test_without_an_answer_no_reason_is_told_and_with_every_report_there_is_nothing_to_tell(
    clock: Clock,
) -> None:
    class Done(Producer):
        def __len__(self) -> int:
            return 0

    made = collecting(Done(clock))
    made.run([File()], {}, lambda: None)  # type: ignore[list-item]
    for _ in range(999):
        made._delivered(None, Report(0))
    with pytest.raises(
        collector.NotDelivered, match=r"^1 of 1000 records were not acknowledged within 120 s$"
    ):
        made.finish(lambda: None)
    made._delivered(None, Report(0))
    made.finish(lambda: None)


def test_a_full_queue_is_waited_for_and_nothing_is_left_out(clock: Clock) -> None:
    taken = []

    class Full(Producer):
        """Every third time there is no room."""

        asked = 0

        def produce(self, topic: str, value: bytes, key: bytes, **_: Any) -> None:
            self.asked += 1
            if self.asked % 3 == 0:
                raise BufferError
            taken.append((topic, key, value))

    class Numbers:
        def records(self) -> Iterator[tuple[bytes, bytes]]:
            return ((b"k%d" % n, b"v%d" % n) for n in range(7))

    made = collecting(Full(clock))
    assert made.run([Numbers(), Numbers()], {}, lambda: None) == 14  # type: ignore[list-item]
    assert taken == [("t", b"k%d" % n, b"v%d" % n) for _ in "ab" for n in range(7)]
    assert collecting(Full(clock)).run([], {}, lambda: None) == 0


def test_a_record_that_is_too_large_for_the_client_is_named() -> None:
    """It was called a mistake of ours, and no line was named."""

    class Large(File):
        def records(self) -> Iterator[tuple[bytes, bytes]]:
            return iter([(b"", b"small"), (b"", b"x" * 1_200_000)])

    made = collector.Collector("127.0.0.1:1", "t", Timeline(0.0), RATE)
    with pytest.raises(collector.NotDelivered, match=r"record 2, of 1200000 bytes: .*Message size too large"):
        made.run([Large()], {}, lambda: None)  # type: ignore[list-item]
    made.abandon()
