"""When groups were removed, by the tombstone of the group in its log. A group that is empty and has no offset left (its topic was
deleted, say) goes, and the next one of its name begins with generation or epoch 1: Apache's coordinator does so, too. Whatever is
compared between generations is compared within one such life of the group.

A coordinator without memory that begins anew writes no tombstone, and is judged as before. Whether the group was empty is not asked.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

from odradek.model.ids import TopicPartition
from odradek.sim.checkers.history import Value
from odradek.sim.checkers.replicas import ClusterView, PartitionView

T = TypeVar("T")


class Removal(NamedTuple):
    """It was committed in between."""

    after_s: float  # the last look that did not show it
    seen_s: float


def life(removals: Sequence[Removal], asked_s: float, told_s: float) -> int | None:
    """How many removals before what was asked and told; None: one was under way at the same time."""
    before = sum(removal.seen_s <= asked_s for removal in removals)
    is_whole = before == len(removals) or told_s <= removals[before].after_s
    return before if is_whole else None


def by_life(
    removals: Sequence[Removal], items: Iterable[T], span: Callable[[T], tuple[float, float]]
) -> list[list[T]]:
    """A list for each life of the group. `span`: when an item was asked and told. What was under way at a removal is in none."""
    lives: list[list[T]] = [[] for _ in range(len(removals) + 1)]
    for item in items:
        at = life(removals, *span(item))
        if at is not None:
            lives[at].append(item)
    return lives


class Removals:
    """Of the groups whose own records have these keys."""

    def __init__(self, keys: dict[Value, str]) -> None:
        self._keys = keys
        self._known: dict[tuple[TopicPartition, int, Value], int] = {}  # of the last tombstone: its offset
        self._looked_s: dict[TopicPartition, float] = {}
        self._removals: dict[str, list[Removal]] = {}
        self._observed: dict[TopicPartition, PartitionView] = {}  # in which there is nothing more to be found

    def of(self, group: str) -> Sequence[Removal]:
        return self._removals.get(group, ())

    def observe(self, view: ClusterView, now_s: float) -> None:
        for partition, state in view.partitions.items():
            if self._observed.get(partition) is state:
                self._looked_s[partition] = now_s
                continue
            if (
                not state.replicas or state.replicas[0].keys is None
            ):  # keys are shown of all of them, or of none
                continue
            high_watermark = _high_watermark(state)
            if high_watermark < 0:
                continue
            for group, at, key in self._committed(state, high_watermark):
                known = partition, state.incarnation, key
                if at > self._known.get(known, -1):
                    self._known[known] = at
                    removal = Removal(self._looked_s.get(partition, 0.0), now_s)
                    self._removals.setdefault(group, []).append(removal)
            self._looked_s[partition] = now_s
            self._observed[partition] = state

    def _committed(self, state: PartitionView, high_watermark: int) -> list[tuple[str, int, Value]]:
        """Of each member of the ISR: a tombstone may be gone from the leader before anybody looked."""
        assert state.stored is not None
        return [
            (self._keys[key], at, key)
            for replica in state.replicas
            if replica.keys is not None and replica.broker in state.stored.isr
            for key, at in replica.keys.tombstones.items()
            if key in self._keys and at < high_watermark
        ]


def _high_watermark(state: PartitionView) -> int:
    """Of the leader; -1: there is none at work."""
    for replica in state.replicas:
        is_elected = state.stored is not None and replica.leader_epoch == state.stored.leader_epoch
        if replica.is_leader and replica.is_alive and is_elected:
            return replica.high_watermark
    return -1
