"""A group of two that reads the topic while it is written: unmodified confluent-kafka consumers, `subscribe`, and the
client's defaults but for one (`collector.OPTIONS`). What it read is counted offset by offset, so that none is missed and none counts twice unseen.
"""

import threading
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Self

from odradek.demo.collector import OPTIONS, Silent
from odradek.demo.result import GroupReading
from odradek.model.errors import OdradekError

if TYPE_CHECKING:
    from odradek.client.sync import SyncClient

MEMBERS = 2
JOIN_S = 30.0
READ_S = 60.0
POLL_S = 0.05
AT_ONCE = 1_000
MOST_NAMES = 64
MOST_READS = 255  # as many as a byte counts


class NotJoined(OdradekError):
    """The group did not come about."""


def group_coordinated_by(client: "SyncClient", topic: str, broker: int) -> str:
    """A name for a group whose coordinator is this broker: the name alone says which partition of the internal topic
    keeps its offsets."""
    from odradek.client.sync_groups import coordinators

    names = [f"{topic}-readers-{number}" for number in range(1, MOST_NAMES + 1)]
    found = coordinators(client, names)
    return next((name for name in names if found[name] == broker), names[0])


class Readers:
    """`with Readers(...)`: two members join; at the end they leave in order, which commits what they have read."""

    def __init__(self, bootstrap: str, topic: str, group: str, partitions: Iterable[int]) -> None:
        self._options = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "logger": Silent(),
            **OPTIONS,
        }
        self._topic = topic
        self._group = group
        self._lock = threading.Lock()
        self._reads = {partition: bytearray() for partition in partitions}  # of each offset
        self._owned = [0] * MEMBERS
        self._ended = threading.Event()
        self._problems: list[str] = []
        self._last_at = 0.0
        self._longest_gap_s = 0.0
        self._threads = [
            threading.Thread(target=self._run, args=(number,), name=f"reader-{number}", daemon=True)
            for number in range(MEMBERS)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def joined(self) -> list[int]:
        """How many partitions each member has, once all are owned."""
        wanted = len(self._reads)
        self._until(lambda: sum(self._owned) == wanted and all(self._owned), JOIN_S)
        if sum(self._owned) != wanted:
            raise NotJoined(f"group {self._group} did not come about within {JOIN_S:g} s: {self._said()}")
        return list(self._owned)

    def finish(self, ends: Mapping[int, int]) -> None:
        """Until everything below `ends` was read, and not for ever."""
        self._until(lambda: not self._missing(ends), READ_S)

    def reading(self, ends: Mapping[int, int]) -> GroupReading:
        with self._lock:
            again = sum(count - 1 for reads in self._reads.values() for count in reads if count > 1)
        return GroupReading(
            group=self._group,
            members=MEMBERS,
            missing=self._missing(ends),
            again=again,
            longest_gap_ms=self._longest_gap_s * 1000,
            problems=list(self._problems),
        )

    def _until(self, holds: Any, seconds: float) -> None:
        end = time.monotonic() + seconds
        while not holds() and not self._problems and time.monotonic() < end:
            time.sleep(POLL_S)

    def _missing(self, ends: Mapping[int, int]) -> int:
        with self._lock:
            return sum(end - len(self._reads[p]) + self._reads[p].count(0) for p, end in ends.items())

    def _said(self) -> str:
        return (
            "; ".join(self._problems) or f"{sum(self._owned)} of {len(self._reads)} partitions have a reader"
        )

    def _run(self, number: int) -> None:
        from confluent_kafka import Consumer

        consumer = Consumer(self._options)
        try:
            consumer.subscribe([self._topic])
            while not self._ended.is_set():
                self._note([m for m in consumer.consume(AT_ONCE, POLL_S) if m.error() is None])
                self._owned[number] = len(consumer.assignment())
        except Exception as error:  # a thread: who waits for it has to hear
            self._problems.append(str(error))
        finally:
            consumer.close()

    def _note(self, messages: list[Any]) -> None:
        if not messages:
            return
        with self._lock:
            now = time.monotonic()
            if self._last_at:
                self._longest_gap_s = max(self._longest_gap_s, now - self._last_at)
            self._last_at = now
            for message in messages:
                reads, offset = self._reads[message.partition()], message.offset()
                if offset >= len(reads):
                    reads.extend(bytes(offset + 1 - len(reads)))
                if reads[offset] < MOST_READS:
                    reads[offset] += 1
