"""Judges what members of a group of consumers were told.

| name | meaning |
|---|---|
| lost-commit | an offset is told that is smaller than one that had been committed before it was asked for |
| generation-fell | who asks to join later is in an earlier generation than somebody was told of before |
| generation-twice | one generation with two leaders |

Offsets of a partition are committed in rising order by whoever owns it, so whatever is told later is larger.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from odradek.model.ids import TopicPartition
from odradek.sim.checkers.history import Anomaly


class Joined(NamedTuple):
    """Told its share: from then on the generation is stored. One that nobody has told of a share of may come again, with a
    coordinator that has never heard of its members."""

    generation: int
    leader: str
    member: str
    asked_s: float
    told_s: float


class Committed(NamedTuple):
    """Acknowledged."""

    topic_partition: TopicPartition
    offset: int
    asked_s: float
    told_s: float


class Fetched(NamedTuple):
    topic_partition: TopicPartition
    offset: int
    asked_s: float
    told_s: float


@dataclass(slots=True)
class GroupHistory:
    """In the order in which it was told."""

    events: list[Joined | Committed | Fetched] = field(default_factory=list)


def check_groups(
    history: GroupHistory, gone: Iterable[TopicPartition] = (), *, is_lossy: bool = False
) -> Iterator[Anomaly]:
    """`gone`: the topic was deleted in the meantime, and the group's offsets with it. `is_lossy`: an unclean election may have lost
    what was committed."""
    if not is_lossy:
        yield from _commits(history, frozenset(gone))
        yield from _generations(history)


def _commits(history: GroupHistory, gone: frozenset[TopicPartition]) -> Iterator[Anomaly]:
    told: dict[TopicPartition, list[tuple[float, int]]] = {}  # when, and the largest committed by then
    for event in history.events:
        if isinstance(event, Joined) or event.topic_partition in gone:
            continue
        known = told.setdefault(event.topic_partition, [(-1.0, -1)])
        least = max(offset for at, offset in known if at < event.asked_s) if event.asked_s >= 0 else -1
        if event.offset < least:
            yield Anomaly(
                "lost-commit",
                event.topic_partition,
                f"the group is told {event.offset}, asked at {event.asked_s:.3f} s; {least} had been committed",
            )
        if isinstance(event, Committed) and event.offset > known[-1][1]:
            known.append((event.told_s, event.offset))


def _generations(history: GroupHistory) -> Iterator[Anomaly]:
    leaders: dict[int, str] = {}
    highest: list[tuple[float, int]] = [(-1.0, -1)]
    for event in history.events:
        if not isinstance(event, Joined):
            continue
        first = leaders.setdefault(event.generation, event.leader)
        if first != event.leader:
            yield Anomaly(
                "generation-twice",
                None,
                f"generation {event.generation} has leaders {first} and {event.leader}",
            )
        before = max(generation for at, generation in highest if at < event.asked_s)
        if event.generation < before:
            yield Anomaly(
                "generation-fell",
                None,
                f"{event.member} is in generation {event.generation}, asked at {event.asked_s:.3f} s; {before} was told before",
            )
        if event.generation > highest[-1][1]:
            highest.append((event.told_s, event.generation))
