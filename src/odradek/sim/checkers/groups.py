"""Judges what members of a group of consumers were told.

| name | meaning |
|---|---|
| lost-commit | an offset is told that is smaller than one that had been committed before it was asked for |
| unasked-offset | an offset is told that is larger than any that somebody had asked to commit |
| generation-fell | who asks to join later is in an earlier generation than somebody was told of before |
| generation-twice | one generation with two leaders, or a leader stores one after a later one was told |
| share-twice | in one generation a partition is two members', or a member has two shares |
| sent-off | a member is told that it is none, and its session has not ended |
| fenced-commit | a commit of one generation is acknowledged that was asked for after a later one had been told; or of who is no member of it, or was one before the group was removed |

Offsets of a partition are committed in rising order by whoever owns it, so whatever is told later is larger.

What is told of a share has been written, and is on the whole ISR: so is a commit that is acknowledged. A broker that has been deposed
and does not know it can do neither. It can hand out generations, which are in its memory alone until the leader of the group sends the
shares (`SyncGroup`): the same number may come again from its successor, for other members. So between coordinators a generation counts
from the first share that was told of it; between handing one out and storing it Apache promises nothing.

One coordinator knows what it has handed out. Within its term (`Term`) a generation counts from the first answer to JoinGroup.

A group that was removed, as empty and without offsets, begins anew: generations are compared within one life of it (`removals`).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from odradek.model.ids import TopicPartition
from odradek.sim.checkers.history import Anomaly
from odradek.sim.checkers.removals import Removal, by_life, life

NO_GENERATION = 1 << 31  # a commit that names none is fenced by none


class Term(NamedTuple):
    """Of a coordinator, from its load to its end."""

    broker: str
    incarnation: int
    leader_epoch: int


class HandedOut(NamedTuple):
    """An answer to JoinGroup."""

    term: Term
    generation: int
    leader: str
    member: str
    members: frozenset[str]  # as the leader is told; none: it is another one's answer
    asked_s: float
    told_s: float


class Joined(NamedTuple):
    """Told its share: from then on the generation is stored. One that nobody has told of a share of may come again, with a
    coordinator that has never heard of its members."""

    generation: int
    leader: str
    member: str
    asked_s: float  # JoinGroup
    told_s: float
    synced_s: float = -1.0  # SyncGroup was asked for; unknown: before everything
    share: frozenset[TopicPartition] = frozenset()


class Committed(NamedTuple):
    """Acknowledged."""

    topic_partition: TopicPartition
    offset: int
    asked_s: float
    told_s: float
    generation: int = NO_GENERATION  # of the member
    member: str = ""
    term: Term | None = None  # of the coordinator; None: not known


class Fetched(NamedTuple):
    topic_partition: TopicPartition
    offset: int
    asked_s: float
    told_s: float


class Tried(NamedTuple):
    """A commit that was asked for, whatever came of it."""

    topic_partition: TopicPartition
    offset: int
    asked_s: float


class SentOff(NamedTuple):
    """Told that it is no member."""

    member: str
    told_s: float
    until_s: float  # its session lasts until then at least, by its last request that was answered


def judged_too_early(sent_off: Iterable[SentOff]) -> Iterator[Anomaly]:
    """sent-off: nobody is told that it is no member while its session lasts."""
    for one in sent_off:
        if one.told_s < one.until_s:
            text = f"{one.member} is none at {one.told_s:.3f} s, and had a session until {one.until_s:.3f} s at least"
            yield Anomaly("sent-off", None, text)


@dataclass(slots=True)
class GroupHistory:
    """In the order in which it was told."""

    events: list[Joined | Committed | Fetched] = field(default_factory=list)
    handed_out: list[HandedOut] = field(default_factory=list)
    sent_off: list[SentOff] = field(default_factory=list)
    tried: list[Tried] = field(default_factory=list)
    # When a member, by its instance or else its id, asked something last, or was answered.
    spoke_s: dict[str, float] = field(default_factory=dict)


def check_groups(
    history: GroupHistory,
    gone: Iterable[TopicPartition] = (),
    *,
    is_lossy: bool = False,
    removals: Sequence[Removal] = (),
) -> Iterator[Anomaly]:
    """`gone`: the topic was deleted in the meantime, and the group's offsets with it. `is_lossy`: an unclean election may have lost
    what was committed. `removals`: of the group."""
    if not is_lossy:
        for one in _lives(history, removals):
            yield from _generations(one)
            yield from _terms(one)
        yield from _of_former_lives(history, removals)
        yield from _commits(history, frozenset(gone))
        yield from _unasked(history, frozenset(gone))


def _lives(history: GroupHistory, removals: Sequence[Removal]) -> list[GroupHistory]:
    events = by_life(removals, history.events, lambda event: (event.asked_s, event.told_s))
    handed_out = by_life(removals, history.handed_out, lambda one: (one.asked_s, one.told_s))
    return [GroupHistory(*one) for one in zip(events, handed_out, strict=True)]


def _of_former_lives(history: GroupHistory, removals: Sequence[Removal]) -> Iterator[Anomaly]:
    """Who was a member of a group that was removed is none of the next one, until it joins."""
    joined_s: dict[str, float] = {}
    for event in history.events:
        if isinstance(event, Joined):
            joined_s[event.member] = event.told_s
        elif isinstance(event, Committed) and event.member in joined_s:
            at = life(removals, event.asked_s, event.told_s)
            if at and joined_s[event.member] <= removals[at - 1].after_s:
                yield Anomaly(
                    "fenced-commit",
                    event.topic_partition,
                    f"{event.offset} of {event.member} is taken, asked at {event.asked_s:.3f} s: its group was removed "
                    f"by {removals[at - 1].seen_s:.3f} s",
                )


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


def _unasked(history: GroupHistory, gone: frozenset[TopicPartition]) -> Iterator[Anomaly]:
    """Whoever goes on from there passes over records that nobody of the group has had."""
    committed = [e for e in history.events if isinstance(e, Committed)]
    asked: dict[TopicPartition, list[tuple[float, int]]] = {}
    for partition, offset, asked_s in (*history.tried, *((e[0], e[1], e[2]) for e in committed)):
        asked.setdefault(partition, []).append((asked_s, offset))
    for event in history.events:
        if not isinstance(event, Fetched) or event.topic_partition in gone:
            continue
        by_then = (offset for at, offset in asked.get(event.topic_partition, ()) if at <= event.told_s)
        most = max(by_then, default=-1)
        if event.offset > most:
            yield Anomaly(
                "unasked-offset",
                event.topic_partition,
                f"the group is told {event.offset} at {event.told_s:.3f} s; up to {most} was to be committed",
            )


def _generations(history: GroupHistory) -> Iterator[Anomaly]:
    leaders: dict[int, str] = {}
    owners: dict[tuple[int, TopicPartition], str] = {}
    shares: dict[tuple[int, str], frozenset[TopicPartition]] = {}
    highest: list[tuple[float, int]] = [(-1.0, -1)]  # when, and the latest generation told by then
    for event in history.events:
        if isinstance(event, Fetched):
            continue
        before = max((generation for at, generation in highest if at < event.asked_s), default=-1)
        if isinstance(event, Committed):
            if event.generation < before:
                yield Anomaly(
                    "fenced-commit",
                    event.topic_partition,
                    f"{event.offset} of generation {event.generation} is taken, asked at {event.asked_s:.3f} s; "
                    f"{before} was told before",
                )
            continue
        yield from _one_leader(event, leaders)
        yield from _one_owner(event, owners, shares)
        if event.generation < before:
            yield Anomaly(
                "generation-fell",
                None,
                f"{event.member} is in generation {event.generation}, asked at {event.asked_s:.3f} s; {before} was told before",
            )
        # The leader stores the shares. Whoever was told of a later generation by then was told by a coordinator that came after.
        stored = max((generation for at, generation in highest if at < event.synced_s), default=-1)
        if event.member == event.leader and event.generation < stored:
            yield Anomaly(
                "generation-twice",
                None,
                f"{event.leader} stores generation {event.generation} at {event.synced_s:.3f} s; {stored} was told before",
            )
        if event.generation > highest[-1][1]:
            highest.append((event.told_s, event.generation))


def _one_leader(event: Joined, leaders: dict[int, str]) -> Iterator[Anomaly]:
    first = leaders.setdefault(event.generation, event.leader)
    if first != event.leader:
        yield Anomaly(
            "generation-twice", None, f"generation {event.generation} has leaders {first} and {event.leader}"
        )


def _one_owner(
    event: Joined,
    owners: dict[tuple[int, TopicPartition], str],
    shares: dict[tuple[int, str], frozenset[TopicPartition]],
) -> Iterator[Anomaly]:
    for partition in sorted(event.share):
        first = owners.setdefault((event.generation, partition), event.member)
        if first != event.member:
            yield Anomaly(
                "share-twice",
                partition,
                f"in generation {event.generation} it is of {first} and of {event.member}",
            )
    told = shares.setdefault((event.generation, event.member), event.share)
    if told != event.share:
        yield Anomaly(
            "share-twice",
            None,
            f"in generation {event.generation} {event.member} has {sorted(told)} and {sorted(event.share)}",
        )


def _terms(history: GroupHistory) -> Iterator[Anomaly]:
    terms: dict[Term, list[HandedOut]] = {}
    members: dict[tuple[Term, int], frozenset[str]] = {}
    for one in history.handed_out:
        before = terms.setdefault(one.term, [])
        latest = max((e.generation for e in before if e.told_s < one.asked_s), default=-1)
        if one.generation < latest:
            yield Anomaly(
                "generation-fell",
                None,
                f"{one.term.broker} hands out generation {one.generation}, asked at {one.asked_s:.3f} s; {latest} was before",
            )
        leaders = {e.leader for e in before if e.generation == one.generation}
        if leaders - {one.leader}:
            yield Anomaly(
                "generation-twice",
                None,
                f"{one.term.broker} hands out generation {one.generation} with leaders {min(leaders)} and {one.leader}",
            )
        known = members.setdefault((one.term, one.generation), one.members) if one.members else one.members
        if known != one.members:
            yield Anomaly(
                "generation-twice",
                None,
                f"{one.term.broker} hands out generation {one.generation} of {sorted(known)} and of {sorted(one.members)}",
            )
        before.append(one)
    for event in history.events:
        if isinstance(event, Committed) and event.term is not None:
            before = terms.get(event.term, [])
            latest = max((e.generation for e in before if e.told_s < event.asked_s), default=-1)
            if event.generation < latest:
                yield Anomaly(
                    "fenced-commit",
                    event.topic_partition,
                    f"{event.offset} of generation {event.generation} is taken, asked at {event.asked_s:.3f} s; "
                    f"{event.term.broker} had handed out {latest}",
                )
            if event.member not in members.get((event.term, event.generation), {event.member}):
                yield Anomaly(
                    "fenced-commit",
                    event.topic_partition,
                    f"{event.offset} of {event.member} is taken, who is no member of generation {event.generation}",
                )
