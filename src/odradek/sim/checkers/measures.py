"""What Jepsen measures and does not judge: how stale readers were, and how often each of them got a record.

| name | meaning |
|---|---|
| realtime-lag | milliseconds from the acknowledgement of a record to the first poll that had it |
| consume-counts | how many records a consumer got once, twice, ...: by assignment it is once |
"""

from collections import Counter
from collections.abc import Sequence

from odradek.sim.checkers.history import History, Value

Place = tuple[object, int]  # partition and offset


def realtime_lag_ms(history: History) -> list[int]:
    """Sorted; of records acknowledged with an offset and read. One read before its producer heard so has none, 0."""
    first_read: dict[tuple[Place, Value], int] = {}
    for poll in history.polls():
        for offset, value in poll.records:
            first_read.setdefault(((poll.topic_partition, offset), value), poll.at_ms)
    found = []
    for send in history.sends():
        if send.outcome == "ok":
            for offset, value in zip(send.offsets, send.values, strict=False):
                read_ms = first_read.get(((send.topic_partition, offset), value))
                if read_ms is not None:
                    found.append(max(0, read_ms - send.at_ms))
    return sorted(found)


def consume_counts(history: History) -> dict[int, int]:
    """Times -> records, over all consumers."""
    times: Counter[tuple[str, Place]] = Counter(
        (poll.consumer, (poll.topic_partition, offset))
        for poll in history.polls()
        for offset, _ in poll.records
    )
    return dict(sorted(Counter(times.values()).items()))


def measures(history: History) -> dict[str, object]:
    lags = realtime_lag_ms(history)
    return {
        "realtime-lag": {"median": _share(lags, 0.5), "p99": _share(lags, 0.99), "max": _share(lags, 1.0)},
        "consume-counts": {str(times): records for times, records in consume_counts(history).items()},
    }


def _share(values: Sequence[int], share: float) -> int | None:
    return values[min(len(values) - 1, int(share * len(values)))] if values else None
