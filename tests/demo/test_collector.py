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


class Producer:
    """Waits on the clock of the test, and forgets what it is given."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def produce(self, *_: Any, **__: Any) -> None: ...

    def poll(self, seconds: float) -> None:
        self._clock.now += seconds


class File:
    def records(self) -> Iterator[tuple[bytes, bytes]]:
        return iter([(b"", b"")] * 1000)


def test_what_is_late_at_a_call_is_not_made_up_for_before_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker is killed, and started again a quarter of the records later: that quarter takes its time."""
    clock = Clock()
    monkeypatch.setattr(collector, "time", clock)
    made = collector.Collector("127.0.0.1:1", "t", Timeline(0.0), RATE)
    made._producer = Producer(clock)
    called_at: list[float] = []

    def kill() -> None:
        clock.now += 30  # the machine did something else
        called_at.append(clock.now)

    made.run([File()], {500: kill, 750: lambda: called_at.append(clock.now)}, lambda: None)  # type: ignore[list-item]

    killed, restarted = called_at
    assert killed == pytest.approx(500 / RATE + 30, abs=0.1)
    assert restarted - killed == pytest.approx(250 / RATE, abs=0.1)
