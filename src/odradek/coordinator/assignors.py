"""The assignors of the server (KIP-848): who should have which partition, as a function of values.

uniform  sizes differ by as little as subscriptions allow; whoever has a partition keeps it where it can
range    contiguous blocks of each topic, in the order of the members: topics of equal size are assigned alike

Both are bounded by members, partitions and subscriptions, so that a large group can be computed by a thread.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from odradek.coordinator.consumer_records import NOTHING, Assignment

UNIFORM = "uniform"
RANGE = "range"
# Rounds over all topics in which the uniform assignor moves partitions from the fullest to the emptiest.
MOST_ROUNDS = 8


class Question(NamedTuple):
    """Plain values: a thread may look at it while the group goes on."""

    members: Mapping[str, frozenset[bytes]]  # member -> topics it subscribes to, those that exist
    partitions: Mapping[bytes, int]  # topic -> how many it has
    targets: Mapping[str, Assignment]  # as they are
    order: Mapping[
        str, str
    ]  # member -> what a range is ordered by: the instance, so that a restart moves nothing

    @property
    def size(self) -> int:
        """What it costs, in places a loop looks at."""
        return sum(self.partitions.values()) + sum(len(topics) + 1 for topics in self.members.values())


Targets = dict[str, Assignment]


def assign(assignor: str, question: Question) -> Targets:
    """The target of every member, perhaps an empty one."""
    return ASSIGNORS[assignor](question)


# -------------------------------------------------------------------------------------------------- uniform


def uniform(question: Question) -> Targets:
    subscriptions = set(question.members.values())
    if len(subscriptions) == 1:
        return _alike(question, next(iter(subscriptions)))
    return _unalike(question)


def _alike(question: Question, topics: frozenset[bytes]) -> Targets:
    """Everybody wants the same: each keeps its share of what it has, and the rest goes to who has less."""
    members = sorted(question.members)
    total = sum(question.partitions[topic] for topic in topics)
    least, extras = divmod(total, len(members))
    given: dict[str, dict[bytes, list[int]]] = {}
    sizes: dict[str, int] = {}
    taken: dict[bytes, set[int]] = {topic: set() for topic in topics}
    for member in members:
        room = least + (1 if extras else 0)
        mine: dict[bytes, list[int]] = {}
        size = 0
        for topic, at in _still_there(question, member):
            kept = [one for one in at if one not in taken[topic]][: room - size]
            if kept:
                mine[topic] = kept
                taken[topic].update(kept)
                size += len(kept)
        if size > least:
            extras -= 1
        given[member], sizes[member] = mine, size
    free = _untaken(question, topics, taken)
    for member in members:
        _give(given[member], free, least - sizes[member])
    # One more for the last of those that have no more than the least.
    for member in reversed(members):
        if extras and max(sizes[member], least) == least:
            _give(given[member], free, 1)
            extras -= 1
    return {member: _frozen(mine) for member, mine in given.items()}


def _still_there(question: Question, member: str) -> Iterable[tuple[bytes, Sequence[int]]]:
    """What a member is to have by now, without what it does not subscribe to or what is there no more."""
    wanted = question.members[member]
    for topic, at in question.targets.get(member, NOTHING).items():
        if topic in wanted:
            count = question.partitions[topic]
            yield topic, [one for one in at if one < count]


def _untaken(
    question: Question, topics: Iterable[bytes], taken: Mapping[bytes, set[int]]
) -> list[tuple[bytes, int]]:
    """The next one last."""
    free = [
        (topic, one)
        for topic in sorted(topics)
        for one in range(question.partitions[topic])
        if one not in taken[topic]
    ]
    free.reverse()
    return free


def _give(mine: dict[bytes, list[int]], free: list[tuple[bytes, int]], count: int) -> None:
    for _ in range(min(count, len(free))):
        topic, partition = free.pop()
        mine.setdefault(topic, []).append(partition)


def _frozen(mine: Mapping[bytes, Iterable[int]]) -> Assignment:
    return {topic: tuple(sorted(at)) for topic, at in mine.items() if at}


def _unalike(question: Question) -> Targets:
    """Subscriptions differ: topic by topic, from the fullest of those who want it to the emptiest, until nothing moves."""
    members = sorted(question.members)
    rank = {member: at for at, member in enumerate(members)}
    # Large topics first: there is most to choose from.
    by_size = sorted(question.partitions, key=lambda topic: (-question.partitions[topic], topic))
    wanting: dict[bytes, list[int]] = {topic: [] for topic in by_size}
    for member in members:
        for topic in question.members[member]:
            wanting[topic].append(rank[member])
    loads = [0] * len(members)
    held: dict[bytes, dict[int, list[int]]] = {topic: {} for topic in wanting}  # topic -> rank -> partitions
    taken: dict[bytes, set[int]] = {topic: set() for topic in wanting}
    for member in members:
        for topic, at in _still_there(question, member):
            kept = [one for one in at if one not in taken[topic]]
            if kept:
                held[topic][rank[member]] = kept
                taken[topic].update(kept)
                loads[rank[member]] += len(kept)
    for topic, ranks in wanting.items():
        _fill(question.partitions[topic], ranks, held[topic], taken[topic], loads)
    for _ in range(MOST_ROUNDS):
        moved = [_level(ranks, held[topic], loads) for topic, ranks in wanting.items()]
        if not any(moved):
            break
    given: dict[str, dict[bytes, list[int]]] = {member: {} for member in members}
    for topic, by_rank in held.items():
        for one, partitions in by_rank.items():
            given[members[one]][topic] = partitions
    return {member: _frozen(mine) for member, mine in given.items()}


def _fill(
    count: int, ranks: list[int], held: dict[int, list[int]], taken: set[int], loads: list[int]
) -> None:
    """What nobody has goes to the emptiest."""
    free = [one for one in range(count) if one not in taken]
    if not ranks or not free:
        return
    emptiest = [(loads[one], one) for one in ranks]
    heapify(emptiest)
    for partition in free:
        load, one = heappop(emptiest)
        held.setdefault(one, []).append(partition)
        loads[one] = load + 1
        heappush(emptiest, (load + 1, one))


def _level(ranks: list[int], held: dict[int, list[int]], loads: list[int]) -> bool:
    """Within one topic: one partition at a time, the last, while fullest and emptiest differ by two or more."""
    emptiest = [(loads[one], one) for one in ranks]
    fullest = [(-loads[one], -one) for one, partitions in held.items() if partitions]
    heapify(emptiest)
    heapify(fullest)
    has_moved = False
    while emptiest and fullest:
        load, low = emptiest[0]
        if load != loads[low]:
            heappop(emptiest)
            heappush(emptiest, (loads[low], low))
            continue
        negative, high = -fullest[0][0], -fullest[0][1]
        if negative != loads[high] or not held.get(high):
            heappop(fullest)
            if held.get(high):
                heappush(fullest, (-loads[high], -high))
            continue
        if loads[high] - loads[low] < 2:
            break
        held.setdefault(low, []).append(held[high].pop())
        loads[high] -= 1
        loads[low] += 1
        if len(held[low]) == 1:
            heappush(fullest, (-loads[low], -low))
        has_moved = True
    return has_moved


# ---------------------------------------------------------------------------------------------------- range


def ranged(question: Question) -> Targets:
    given: dict[str, dict[bytes, tuple[int, ...]]] = {member: {} for member in question.members}
    wanting: dict[bytes, list[str]] = {topic: [] for topic in sorted(question.partitions)}
    for member in sorted(question.members, key=lambda one: (question.order[one], one)):
        for topic in question.members[member]:
            wanting[topic].append(member)
    for topic, members in wanting.items():
        if not members:
            continue
        least, extras = divmod(question.partitions[topic], len(members))
        first = 0
        for at, member in enumerate(members):
            behind = first + least + (1 if at < extras else 0)
            if behind > first:
                given[member][topic] = tuple(range(first, behind))
            first = behind
    return dict(given)


ASSIGNORS: dict[str, Callable[[Question], Targets]] = {UNIFORM: uniform, RANGE: ranged}


def elected(votes: Iterable[str | None], known: Sequence[str]) -> str:
    """The name most members ask for; of equals, and where nobody asks, the first that is configured."""
    counts = Counter(vote for vote in votes if vote is not None)
    return max(known, key=lambda name: (counts[name], -known.index(name)))
