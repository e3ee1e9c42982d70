"""What `controller.invariants` promises of a controller that rests, asked again only of partitions of which something has changed."""

from typing import Any

from odradek.controller.context import ControllerContext
from odradek.controller.invariants import violations
from odradek.model.ids import TopicPartition


class RestingControllers:
    """Of one controller after another. What an invariant reads of a partition is in `_read_of`, what all of them read in `_cluster_of`."""

    def __init__(self) -> None:
        self._context: ControllerContext | None = None
        self._cluster: tuple[Any, ...] = ()
        self._judged: dict[TopicPartition, tuple[Any, ...]] = {}

    def violations(self, context: ControllerContext) -> list[tuple[str, TopicPartition, str]]:
        cluster = _cluster_of(context)
        if context is not self._context or cluster != self._cluster:
            self._context, self._cluster = context, cluster
            self._judged = {}
        judged, self._judged = self._judged, {p: _read_of(context, p) for p in context.assignments}
        changed = [p for p, read in self._judged.items() if judged.get(p) != read]
        found = violations(context, changed) if changed else []
        if found:
            self._judged = {}  # whoever asks again hears it again
        return found


def _cluster_of(context: ControllerContext) -> tuple[Any, ...]:
    return (
        context.controller_epoch,
        tuple(context.brokers),
        tuple(context.shutting_down_brokers),
        tuple(context.offline_directories.items()),
        [(broker, tuple(older.items())) for broker, older in context.pending_deletions.items()],
    )


def _read_of(context: ControllerContext, partition: TopicPartition) -> tuple[Any, ...]:
    assignment = context.assignments[partition]
    unusual = context.replica_state_overrides.get(partition)
    partitions_on = context.partitions_on
    return (
        context.leaderships.get(partition),
        assignment,
        context.reassignments.get(partition),
        context.partition_states.get(partition),
        None if unusual is None else tuple(unusual.items()),
        partition in context.leaderless,
        [partition in partitions_on.get(broker, ()) for broker in assignment.replicas],
        context.topics.get(partition.topic) if context.pending_deletions else None,
    )
