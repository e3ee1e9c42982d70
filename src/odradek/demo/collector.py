"""The collector: reads the input files and produces every line, with an unmodified confluent-kafka.

acks=all and idempotence; else the client's defaults but for one (`OPTIONS`). It reads at a steady rate, as from files that
grow, so that a pause of the cluster can be seen; a record counts when its delivery report came.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from odradek.demo.inputs import InputFile
from odradek.demo.timeline import Timeline
from odradek.model.errors import OdradekError

TICK_S = 0.005
LONGEST_DELIVERY_S = 120


class NotDelivered(OdradekError):
    """Records the cluster did not acknowledge."""


# Of clients of the demo. A broker that was killed is back after seconds, and may lead again one later: a new controller looks for
# preferred leaders 5 s after its election. librdkafka waits longer each time it was refused, up to 10 s by default, so that the
# partitions of such a broker would wait for their clients.
OPTIONS = {"reconnect.backoff.max.ms": 500}


class Collector:
    def __init__(self, bootstrap: str, topic: str, timeline: Timeline, per_second: int) -> None:
        from confluent_kafka import Producer

        self._topic = topic
        self._timeline = timeline
        self._per_second = per_second
        self.sent = 0
        self.acknowledged = 0
        self.first_failure = ""
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "acks": "all",
                "delivery.timeout.ms": LONGEST_DELIVERY_S * 1000,
                "logger": Silent(),
                **OPTIONS,
            }
        )

    def run(
        self, files: Iterable[InputFile], at: dict[int, Callable[[], None]], tell: Callable[[], None]
    ) -> int:
        """Produces all records; `at[n]()` is called before record number n, `tell()` now and then.

        Returns how many records there were.
        """
        from confluent_kafka import KafkaException

        produce, poll = self._producer.produce, self._producer.poll
        on_delivery = self._delivered
        begun = time.perf_counter()
        for number, (key, value) in enumerate(_records(files)):
            if number in at:
                # What is in flight stays in flight: the call may not take long.
                at[number]()
                # Nor is made up for what was late by then: the next call would follow at once.
                begun = max(begun, time.perf_counter() - number / self._per_second)
            # Keep to the rate: poll, which serves delivery reports, until the record is due.
            while number > self._per_second * (time.perf_counter() - begun):
                poll(TICK_S)
            while True:
                try:
                    produce(self._topic, value, key, on_delivery=on_delivery)
                    break
                except BufferError:
                    poll(TICK_S)
                except KafkaException as error:
                    raise NotDelivered(
                        f"record {number + 1}, of {len(value)} bytes: {error.args[0].str()}"
                    ) from None
            self.sent = number + 1
            if number % 100 == 0:
                poll(0)
                tell()
        return self.sent

    def finish(self, tell: Callable[[], None]) -> None:
        """Waits for every delivery report; NotDelivered when one is missing or bad."""
        end = time.monotonic() + LONGEST_DELIVERY_S
        while len(self._producer) and time.monotonic() < end:
            self._producer.poll(TICK_S)
            tell()
        missing = self.sent - self.acknowledged
        if missing:
            raise NotDelivered(
                f"{missing} of {self.sent} records were not acknowledged within {LONGEST_DELIVERY_S} s"
                + (f"; the first answer was: {self.first_failure}" if self.first_failure else "")
            )

    def abandon(self) -> None:
        """Ctrl-C: what is queued is dropped."""
        self._producer.purge()
        self._producer.poll(0)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self.first_failure = self.first_failure or str(error)
            return
        self.acknowledged += 1
        self._timeline.acknowledged(time.time() * 1000, message.partition())


def _records(files: Iterable[InputFile]) -> Iterator[tuple[bytes, bytes]]:
    for file in files:
        yield from file.records()


class Silent:
    """The client reports every refused connection while a broker is down; the demo says it once, better."""

    def log(self, *_: object, **__: object) -> None: ...

    debug = info = warning = error = critical = log
