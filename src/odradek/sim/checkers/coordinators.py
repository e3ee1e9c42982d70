"""Judges from which term on a coordinator remembers what it remembers."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from odradek.model.ids import BrokerId, TopicPartition
from odradek.sim.checkers.history import Anomaly
from odradek.sim.checkers.replicas import PartitionView


class Coordinating(NamedTuple):
    """A coordinator that was loaded: `memory` is the same object as long as it was not loaded again."""

    topic_partition: TopicPartition
    broker: BrokerId
    memory: object
    leader_epoch: int


class CoordinatorTerms:
    """CoordinatorIsFresh: a coordinator goes on in another leader epoch only if nobody else has led in between: what that one wrote
    it would not know."""

    def __init__(self) -> None:
        # Who was stored as leader in which leader epoch, of which topic of the name.
        self._leaders: dict[TopicPartition, dict[tuple[int, int], BrokerId]] = {}
        self._eras: dict[TopicPartition, int] = {}
        self._before: dict[tuple[TopicPartition, BrokerId], Coordinating] = {}

    def note(self, partitions: Mapping[TopicPartition, PartitionView]) -> None:
        """What the store says of partitions of coordinators of which something has changed."""
        for partition, state in partitions.items():
            if state.stored is not None and state.stored.leader >= 0:
                era = self._eras[partition] = state.incarnation
                epochs = self._leaders.setdefault(partition, {})
                epochs[era, state.stored.leader_epoch] = state.stored.leader

    def observe(self, coordinating: Iterable[Coordinating]) -> Iterator[Anomaly]:
        before, self._before = self._before, {}
        for one in coordinating:
            key = one.topic_partition, one.broker
            self._before[key] = one
            earlier = before.get(key)
            if (
                earlier is None
                or earlier.memory is not one.memory
                or earlier.leader_epoch == one.leader_epoch
            ):
                continue
            era = self._eras.get(one.topic_partition, 0)
            leaders = self._leaders.get(one.topic_partition, {})
            for epoch in range(earlier.leader_epoch + 1, one.leader_epoch):
                other = leaders.get((era, epoch), one.broker)
                if other != one.broker:
                    yield Anomaly(
                        "CoordinatorIsFresh",
                        one.topic_partition,
                        f"broker {one.broker} goes on in epoch {one.leader_epoch} with what it knew in {earlier.leader_epoch}, and "
                        f"broker {other} has led in {epoch}",
                    )
