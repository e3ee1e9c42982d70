"""What `controller.invariants` promises of a controller that rests, asked again only of partitions of which something has changed."""

from collections.abc import Mapping, Set
from typing import Any, NamedTuple

from odradek.controller.context import ControllerContext
from odradek.controller.invariants import violations
from odradek.model.ids import BrokerId, TopicPartition


class Tables(NamedTuple):
    """What an invariant reads of a partition. Where all of it equals what it was, no partition is looked at by itself."""

    leaderships: Mapping[TopicPartition, Any]
    assignments: Mapping[TopicPartition, Any]
    reassignments: Mapping[TopicPartition, Any]
    states: Mapping[TopicPartition, Any]
    unusual: Mapping[TopicPartition, Mapping[BrokerId, Any]]
    leaderless: Set[TopicPartition]
    partitions_on: Mapping[BrokerId, Set[TopicPartition]]
    topics: Mapping[str, Any]

    def copied(self) -> "Tables":
        return Tables(
            dict(self.leaderships),
            dict(self.assignments),
            dict(self.reassignments),
            dict(self.states),
            {partition: dict(states) for partition, states in self.unusual.items()},
            set(self.leaderless),
            {broker: set(partitions) for broker, partitions in self.partitions_on.items()},
            dict(self.topics),
        )

    def of(self, partition: TopicPartition) -> tuple[Any, ...]:
        return (
            *(table.get(partition) for table in self[:5]),
            partition in self.leaderless,
            [
                partition in self.partitions_on.get(broker, ())
                for broker in self.assignments[partition].replicas
            ],
            self.topics.get(partition.topic),
        )


class RestingControllers:
    """Of one controller after another. What all invariants read is in `_cluster_of`."""

    def __init__(self) -> None:
        self._context: ControllerContext | None = None
        self._cluster: tuple[Any, ...] = ()
        self._judged: Tables | None = None

    def violations(self, context: ControllerContext) -> list[tuple[str, TopicPartition, str]]:
        cluster = _cluster_of(context)
        if context is not self._context or cluster != self._cluster:
            self._context, self._cluster = context, cluster
            self._judged = None
        now, judged = _tables_of(context), self._judged
        if now == judged:
            return []
        changed = [
            partition
            for partition in context.assignments
            if judged is None
            or partition not in judged.assignments
            or judged.of(partition) != now.of(partition)
        ]
        found = violations(context, changed) if changed else []
        self._judged = None if found else now.copied()  # whoever asks again hears it again
        return found


def _tables_of(context: ControllerContext) -> Tables:
    return Tables(
        context.leaderships,
        context.assignments,
        context.reassignments,
        context.partition_states,
        context.replica_state_overrides,
        context.leaderless,
        context.partitions_on,
        context.topics if context.pending_deletions else {},
    )


def _cluster_of(context: ControllerContext) -> tuple[Any, ...]:
    return (
        context.controller_epoch,
        tuple(context.brokers),
        tuple(context.shutting_down_brokers),
        tuple(context.topics_to_delete),
        tuple(context.offline_directories.items()),
        [(broker, tuple(older.items())) for broker, older in context.pending_deletions.items()],
    )
