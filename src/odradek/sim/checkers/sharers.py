"""Judges what members of a group of KIP-848 were told.

| name | meaning |
|---|---|
| sent-off | a member is told that it is none, and its session has not ended |
| owned-twice | two members own a partition at one time |
| member-epoch-fell | a member is told of an earlier epoch than before |
| share-twice | in one epoch of the group a partition is assigned to two members, whenever they are told |
| fenced-commit | a commit is acknowledged of who owns the partition no more: another one had been told of it in a later epoch, or the group was removed |
| group-epoch-fell | who joins is told of an earlier epoch than somebody had been told of before it asked |
| lost-commit | the offset that is left in the end is older than one that was taken, or none is left |
| unasked-offset | the offset that is left is one that nobody had asked to commit |

A member owns a partition from the answer that assigns it until it says that it has let go, and no longer than its session: by
then the coordinator may have given it up, and it has not heard of it.

A group that was removed, as empty and without offsets, begins anew: epochs are compared within one life of it (`removals`).
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, NamedTuple

from odradek.sim.checkers.groups import SentOff, judged_too_early
from odradek.sim.checkers.history import Anomaly
from odradek.sim.checkers.removals import Removal, by_life, life

# Topic id and number.
Shared = tuple[Any, int]


class MemberAnswer(NamedTuple):
    member: str
    epoch: int
    asked_s: float
    told_s: float
    is_join: bool
    assigned: frozenset[Shared] = frozenset()  # none: as before


class Held(NamedTuple):
    member: str
    shared: Shared
    from_s: float
    until_s: float


class Taken(NamedTuple):
    """A commit that was acknowledged, of a partition its member has not let go of."""

    member: str
    epoch: int
    shared: Shared
    asked_s: float


class Committing(NamedTuple):
    """A commit that was asked for. Its member asks for nothing else before it is told, or nobody tells it any more: that one may be
    carried out late."""

    shared: Shared
    offset: int
    asked_s: float
    taken_s: float = inf  # when it was told that it is taken


class Left(NamedTuple):
    """What the group has committed in the end; -1: nothing."""

    shared: Shared
    offset: int


@dataclass(slots=True)
class SharingHistory:
    told: list[MemberAnswer] = field(default_factory=list)  # in the order in which they were told
    held: list[Held] = field(default_factory=list)
    taken: list[Taken] = field(default_factory=list)
    sent_off: list[SentOff] = field(default_factory=list)
    committing: list[Committing] = field(default_factory=list)
    left: list[Left] = field(default_factory=list)
    spoke_s: dict[str, float] = field(default_factory=dict)  # as in `GroupHistory`


def check_sharing(
    history: SharingHistory,
    *,
    have_clocks_jumped: bool = False,
    removals: Sequence[Removal] = (),
    may_have_begun_anew: Sequence[Removal] = (),
) -> Iterator[Anomaly]:
    """`have_clocks_jumped`: sessions end when a coordinator's clock says so, and nobody knows who owns what then. `removals`: of the
    group. `may_have_begun_anew`: epochs are not compared across these either, though its members may have stayed."""
    for one in _lives(history, may_have_begun_anew or removals):
        yield from _epochs(one.told)
        yield from _shares(one.told)
        yield from _commits(one)
    yield from _of_former_lives(history, removals)
    yield from _left(history)
    if not have_clocks_jumped:
        yield from _owners(history.held)
        yield from judged_too_early(history.sent_off)


def _lives(history: SharingHistory, removals: Sequence[Removal]) -> list[SharingHistory]:
    """Who owns what goes on through all."""
    told = by_life(removals, history.told, lambda one: (one.asked_s, one.told_s))
    taken = by_life(removals, history.taken, lambda one: (one.asked_s, one.asked_s))
    return [SharingHistory(told=of, taken=commits) for of, commits in zip(told, taken, strict=True)]


def _of_former_lives(history: SharingHistory, removals: Sequence[Removal]) -> Iterator[Anomaly]:
    """Who was a member of a group that was removed is none of the next one, until it joins."""
    for taken in history.taken:
        at = life(removals, taken.asked_s, taken.asked_s)
        if not at:
            continue
        joined_s = [one.told_s for one in history.told if one.is_join and one.member == taken.member]
        if joined_s and not any(removals[at - 1].after_s < when <= taken.asked_s for when in joined_s):
            yield Anomaly(
                "fenced-commit",
                None,
                f"a commit of {taken.member} of epoch {taken.epoch} is taken, asked at {taken.asked_s:.3f} s: its group "
                f"was removed by {removals[at - 1].seen_s:.3f} s",
            )


def _epochs(told: list[MemberAnswer]) -> Iterator[Anomaly]:
    last: dict[str, int] = {}
    highest: list[tuple[float, int]] = [(-1.0, -1)]
    for one in told:
        if one.epoch < last.get(one.member, -1):
            yield Anomaly(
                "member-epoch-fell",
                None,
                f"{one.member} is told of epoch {one.epoch} at {one.told_s:.3f} s, after {last[one.member]}",
            )
        last[one.member] = one.epoch
        if one.is_join:
            before = max(epoch for at, epoch in highest if at < one.asked_s)
            if one.epoch < before:
                yield Anomaly(
                    "group-epoch-fell",
                    None,
                    f"{one.member} joins in epoch {one.epoch}, asked at {one.asked_s:.3f} s; {before} was told before",
                )
        if one.epoch > highest[-1][1]:
            highest.append((one.told_s, one.epoch))


def _shares(told: list[MemberAnswer]) -> Iterator[Anomaly]:
    """An epoch has one target, and what a member is told of is part of it: all of it, or what it need not wait for."""
    owners: dict[tuple[int, Shared], str] = {}
    for one in told:
        for shared in sorted(one.assigned):
            first = owners.setdefault((one.epoch, shared), one.member)
            if first != one.member:
                yield Anomaly(
                    "share-twice",
                    None,
                    f"in epoch {one.epoch} partition {shared[1]} is assigned to {first} and to {one.member}, told at {one.told_s:.3f} s",
                )


def _commits(history: SharingHistory) -> Iterator[Anomaly]:
    """Who has not let go and yet lost it was removed, by whatever clock, and is no member until it joins anew."""
    for taken in history.taken:
        for one in history.told:
            is_later = one.told_s < taken.asked_s and one.epoch > taken.epoch
            if is_later and taken.shared in one.assigned and one.member != taken.member:
                yield Anomaly(
                    "fenced-commit",
                    None,
                    f"a commit of {taken.member} of epoch {taken.epoch} is taken, asked at {taken.asked_s:.3f} s: "
                    f"partition {taken.shared[1]} was {one.member}'s from epoch {one.epoch}",
                )
                break


def _left(history: SharingHistory) -> Iterator[Anomaly]:
    for shared, offset in history.left:
        asked = [one for one in history.committing if one.shared == shared]
        those = [one.taken_s for one in asked if one.offset == offset]
        if offset >= 0 and not those:
            yield Anomaly(
                "unasked-offset",
                None,
                f"of partition {shared[1]} {offset} is left, which nobody had asked to commit",
            )
            continue
        since_s = max(those, default=-1.0)
        lost = [one.offset for one in asked if one.taken_s < inf and one.asked_s > since_s]
        if lost:
            yield Anomaly(
                "lost-commit",
                None,
                f"of partition {shared[1]} {offset} is left, and {max(lost)} had been committed",
            )


def _owners(held: list[Held]) -> Iterator[Anomaly]:
    by_partition: dict[Shared, list[Held]] = defaultdict(list)
    for one in held:
        if one.until_s > one.from_s:
            by_partition[one.shared].append(one)
    for (_, number), holders in by_partition.items():
        holders.sort(key=lambda one: one.from_s)
        latest = holders[0]
        for one in holders[1:]:
            if one.from_s < latest.until_s and one.member != latest.member:
                yield Anomaly(
                    "owned-twice",
                    None,
                    f"partition {number} is owned by {latest.member} from {latest.from_s:.3f} to {latest.until_s:.3f} s, "
                    f"and by {one.member} from {one.from_s:.3f} s on",
                )
            if one.until_s > latest.until_s:
                latest = one
