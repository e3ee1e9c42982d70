"""How long whoever asked a broker waits for it: no longer than the deadline that was given, and at rest nobody waits at all."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from odradek.model.ids import BrokerId, TopicPartition
from odradek.sim.checkers.history import Anomaly

# Behind a deadline: a turn, a thread that is late, a loop that has other work first.
LATE_S = 1.0


class Overdue(NamedTuple):
    """What a broker was to do, or to answer, at a time that is over."""

    broker: BrokerId
    what: str
    due_ms: int
    late_ms: int


class Deadlines:
    """NobodyWaits, beyond a deadline: whoever is parked is answered when it comes, a rebalance ends without who did not come. A broker
    whose loop stood still, and is not overdue while it does, has as long for what came meanwhile."""

    def __init__(self) -> None:
        self._since: dict[tuple[BrokerId, str, int], float] = {}

    def observe(self, all_overdue: Iterable[Overdue], now_s: float) -> Iterator[Anomaly]:
        before, self._since = self._since, {}
        for one in all_overdue:
            key = one.broker, one.what, one.due_ms  # what comes after it may be late as well, each a little
            since = self._since[key] = before.get(key, now_s)
            if now_s - since > LATE_S:
                yield Anomaly(
                    "NobodyWaits", None, f"{one.what} of broker {one.broker} was due {one.late_ms} ms ago"
                )


class HeldBack(NamedTuple):
    """A follower that fetches nothing for a throttle that has let go of it."""

    topic_partition: TopicPartition
    broker: BrokerId
    why: str
    left_ms: int


class Throttles:
    """NotHeldBack: who is throttled no more, by the list of its topic or by the rate, fetches again within a window of that throttle;
    it may have to hear of it first, by a turn of its own."""

    WITHIN_S = 1.0

    def __init__(self) -> None:
        self._since_s: dict[tuple[TopicPartition, BrokerId], float] = {}

    def observe(self, held: Iterable[HeldBack], now_s: float) -> Iterator[Anomaly]:
        """`held`: all that there are at `now_s`, in virtual seconds."""
        before, self._since_s = self._since_s, {}
        for one in held:
            key = one.topic_partition, one.broker
            since_s = self._since_s[key] = before.get(key, now_s)
            if now_s - since_s > self.WITHIN_S:
                yield Anomaly(
                    "NotHeldBack",
                    one.topic_partition,
                    f"broker {one.broker} does not fetch it for {one.left_ms} ms yet, and {one.why} for {now_s - since_s:g} s",
                )


class Unflushed(NamedTuple):
    """A log with flush.ms that has records beyond what is on the disk."""

    topic_partition: TopicPartition
    broker: BrokerId
    recovery_point: int
    flush_ms: int


class Flushes:
    """FlushedInTime: what came to a log with flush.ms is on the disk by then: when that time is over, and the logs were looked at once
    more, which happens once a second."""

    WITHIN_S = 3.0

    def __init__(self) -> None:
        self._since_s: dict[Unflushed, float] = {}

    def observe(self, unflushed: Iterable[Unflushed], now_s: float) -> Iterator[Anomaly]:
        """`unflushed`: all that there are at `now_s`, in virtual seconds."""
        before, self._since_s = self._since_s, {}
        for one in unflushed:
            since_s = self._since_s[one] = before.get(one, now_s)
            if now_s - since_s > one.flush_ms / 1000 + self.WITHIN_S:
                yield Anomaly(
                    "FlushedInTime",
                    one.topic_partition,
                    f"broker {one.broker} has flushed it up to {one.recovery_point}, and nothing of what came since for "
                    f"{now_s - since_s:g} s, with flush.ms={one.flush_ms}",
                )


class Muted(NamedTuple):
    """A connection of which nothing is read for a quota, at a broker where nobody has one."""

    broker: BrokerId
    connection: int
    peer: str
    left_s: float


class Mutes:
    """NotMuted: who used up a quota is read again when there is none any more, however long it was to wait: soon, for it is released
    some turns later."""

    WITHIN_S = 0.5

    def __init__(self) -> None:
        self._since_s: dict[tuple[BrokerId, int, str], float] = {}

    def observe(self, muted: Iterable[Muted], now_s: float) -> Iterator[Anomaly]:
        """`muted`: all that there are at `now_s`, in virtual seconds."""
        before, self._since_s = self._since_s, {}
        for one in muted:
            key = one.broker, one.connection, one.peer
            since_s = self._since_s[key] = before.get(key, now_s)
            if now_s - since_s > self.WITHIN_S:
                yield Anomaly(
                    "NotMuted",
                    None,
                    f"broker {one.broker} does not read from {one.peer} for {one.left_s:.3f} s yet, and nobody has a quota for "
                    f"{now_s - since_s:g} s",
                )


class Unanswered(NamedTuple):
    """A request that is parked, and waits for no records."""

    broker: BrokerId
    peer: str
    correlation_id: int


def nobody_is_forgotten(before: Iterable[Unanswered], after: Iterable[Unanswered]) -> Iterator[Anomaly]:
    """NobodyWaits, at rest: between two looks in which nothing happened every request was answered."""
    known = set(before)
    for one in after:
        if one in known:
            yield Anomaly(
                "NobodyWaits",
                None,
                f"request {one.correlation_id} of {one.peer} waits at broker {one.broker}, and nothing goes on there",
            )
