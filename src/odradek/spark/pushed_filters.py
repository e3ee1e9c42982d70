"""What a batch read may leave out by the conditions of its query. Pure.

Spark hands over conditions that all have to hold (`DataSourceReader.pushFilters`) and still applies each of them itself. So a
condition that is not understood costs time alone, and one that is understood may leave out nothing that Spark would keep.
"""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from odradek.model.ids import TopicPartition

_1970 = datetime(1970, 1, 1, tzinfo=UTC)
_LAST = 2**63 - 1


class Wanted(NamedTuple):
    """Records outside of this are not read."""

    topics: frozenset[str] | None = None  # None: any
    partitions: frozenset[int] | None = None
    first: int = 0
    last: int = _LAST
    since_ms: int = 0  # what stands before the first record that is as late as this; 0: nothing does

    def has(self, partition: TopicPartition) -> bool:
        return (self.topics is None or partition.topic in self.topics) and (
            self.partitions is None or partition.partition in self.partitions
        )


def wanted_by(conditions: Iterable[Filter]) -> Wanted:
    """All records that meet every condition are in it; others may be."""
    wanted = Wanted()
    for condition in conditions:
        match getattr(condition, "attribute", None):
            case ("topic",):
                wanted = wanted._replace(topics=_among(wanted.topics, _values(condition, _text)))
            case ("partition",):
                wanted = wanted._replace(partitions=_among(wanted.partitions, _values(condition, _number)))
            case ("offset",):
                least, greatest = _borders(condition, _number)
                wanted = wanted._replace(first=max(wanted.first, least), last=min(wanted.last, greatest))
            case ("timestamp",):
                # Timestamps need not rise with offsets: behind the last that is early enough another may follow.
                least, _ = _borders(condition, _milliseconds)
                wanted = wanted._replace(since_ms=max(wanted.since_ms, least))
    return wanted


def _values(condition: Filter, read: Callable[[Any], Any]) -> frozenset[Any] | None:
    """Those that the condition lets pass; None where it does not name them."""
    if isinstance(condition, EqualTo | EqualNullSafe):
        found = [read(condition.value)]
    elif isinstance(condition, In):
        found = [read(value) for value in condition.value]
    else:
        return None
    return None if None in found else frozenset(found)


def _among(before: frozenset[Any] | None, now: frozenset[Any] | None) -> frozenset[Any] | None:
    if before is None or now is None:
        return now if before is None else before
    return before & now


def _borders(condition: Filter, read: Callable[[Any], int | None]) -> tuple[int, int]:
    """No value below the one or above the other meets the condition."""
    if values := _values(condition, read):
        return min(values), max(values)
    if isinstance(condition, GreaterThan | GreaterThanOrEqual | LessThan | LessThanOrEqual):
        value = read(condition.value)
        if value is not None:
            is_least = isinstance(condition, GreaterThan | GreaterThanOrEqual)
            return (value, _LAST) if is_least else (0, value)
    return 0, _LAST


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _number(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _milliseconds(value: object) -> int | None:
    """Since 1970, rounded down; None of what is no moment."""
    if not isinstance(value, datetime) or value.tzinfo is None:
        return None
    return (value - _1970) // timedelta(milliseconds=1)
