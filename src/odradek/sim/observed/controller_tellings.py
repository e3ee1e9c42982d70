"""What a controller tells brokers, against what it knows: each request of each of its steps, judged by `Watch`.

A field that is wrong in a request is mended by the next one that names the partition, so it is judged where it is said.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from odradek.controller.broker_requests import (
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    StopReplicaPartition,
    StopReplicaRequest,
    UpdateMetadataPartition,
    UpdateMetadataRequest,
)
from odradek.controller.context import ControllerContext
from odradek.model.cluster import ReplicaAssignment
from odradek.model.ids import EPOCH_DURING_DELETE, NO_LEADER, TopicPartition
from odradek.sim.checkers.history import Anomaly


class ControllerTellings:
    """Of one controller after another. What an event asks of brokers leaves when all of it is done: what has changed since the controller
    rested last may have changed after the request was made, and is not judged."""

    def __init__(self) -> None:
        self._context: ControllerContext | None = None
        # When it rested: who was there, and with which disks.
        self._who: tuple[Any, ...] = ()
        self._assigned: Mapping[TopicPartition, ReplicaAssignment] = {}

    def observe(
        self, context: ControllerContext, requests: Sequence[Any], *, is_resting: bool
    ) -> list[Anomaly]:
        if context is not self._context:
            self._context, self._who, self._assigned = context, (), {}
        found: list[Anomaly] = []
        if requests:
            found += self._tells_what_is(context, requests, is_anybody_new=self._who != _who(context))
        if is_resting:
            self._who = _who(context)
            if self._assigned != context.assignments:
                self._assigned = dict(context.assignments)
        return found

    def _tells_what_is(
        self, context: ControllerContext, requests: Iterable[Any], *, is_anybody_new: bool
    ) -> Iterator[Anomaly]:
        """TellsWhatIs: a request is of the controller's epoch and of the life of the broker that is registered, and says of brokers and
        of each partition what the controller has. What several brokers are told is one tuple, judged once."""
        judged: set[int] = set()
        own = context.broker, context.controller_epoch
        for request in requests:
            true = _TRUE.get(type(request))
            if true is None:
                continue
            by = request.controller_id, request.controller_epoch
            if by != own:
                yield _wrong(None, request, f"is of controller {by}", own)
            if not is_anybody_new:
                registration = context.brokers.get(request.broker)
                if registration is not None and request.broker_epoch != registration.epoch:
                    yield _wrong(None, request, f"is for its life {request.broker_epoch}", registration.epoch)
                there = context.registrations()
                if type(request) is UpdateMetadataRequest and request.live_brokers != there:
                    yield _wrong(None, request, f"names {request.live_brokers}", there)
            if id(request.partitions) in judged:
                continue
            judged.add(id(request.partitions))
            for said in request.partitions:
                partition = said.topic_partition
                now = context.assignments.get(partition)
                so = None if now is None else true(context, now, said)
                if so is None or said == so:
                    continue
                before = self._assigned.get(partition)
                if before not in (None, now):
                    so = true(context, before, said)
                if is_anybody_new and type(so) is UpdateMetadataPartition:
                    so = so._replace(offline_replicas=said.offline_replicas)
                if said != so:
                    yield _wrong(partition, request, f"says {said}", so)


def _who(context: ControllerContext) -> tuple[Any, ...]:
    return (
        *((broker, one.epoch) for broker, one in context.brokers.items()),
        *context.shutting_down_brokers,
        *((broker, len(of)) for broker, of in context.offline_directories.items()),
        *((broker, len(of)) for broker, of in context.pending_deletions.items()),
        *context.topics_to_delete,
    )


def _wrong(partition: TopicPartition | None, request: Any, what: str, so: Any) -> Anomaly:
    return Anomaly(
        "TellsWhatIs",
        partition,
        f"{type(request).__name__} to broker {request.broker} {what}, and it is {so}",
    )


def _leader_and_isr(
    context: ControllerContext, assignment: ReplicaAssignment, said: LeaderAndIsrPartition
) -> LeaderAndIsrPartition | None:
    """None: it has been led anew since. Whether it is new, a replica is told by its own state."""
    stored = context.leaderships.get(said.topic_partition)
    if stored is None:
        return None
    state = stored.leader_and_isr
    if (said.leader_epoch, said.partition_epoch) < (state.leader_epoch, state.partition_epoch):
        return None
    return LeaderAndIsrPartition(
        said.topic_partition,
        context.topics[said.topic_partition.topic].topic_id,
        stored.controller_epoch,
        state.leader,
        state.leader_epoch,
        state.isr,
        state.partition_epoch,
        assignment.replicas,
        assignment.adding_replicas,
        assignment.removing_replicas,
        said.is_new,
        state.leader_recovery_state,
        state.elr,
    )


def _metadata(
    context: ControllerContext, assignment: ReplicaAssignment, said: UpdateMetadataPartition
) -> UpdateMetadataPartition | None:
    partition = said.topic_partition
    stored = context.leaderships.get(partition)
    if stored is None or partition.topic in context.topics_to_delete:
        return None
    state = stored.leader_and_isr
    if said.leader >= NO_LEADER and (said.leader_epoch, said.partition_epoch) < (
        state.leader_epoch,
        state.partition_epoch,
    ):
        return None
    offline = [broker for broker in assignment.replicas if not context.is_online(broker, partition)]
    return UpdateMetadataPartition(
        partition,
        context.topics[partition.topic].topic_id,
        stored.controller_epoch,
        state.leader,
        state.leader_epoch,
        state.isr,
        state.partition_epoch,
        assignment.replicas,
        tuple(offline),
    )


def _stop(
    context: ControllerContext, assignment: ReplicaAssignment, said: StopReplicaPartition
) -> StopReplicaPartition | None:
    """One that is to be stopped whatever its epoch is told that of a deletion."""
    stored = context.leaderships.get(said.topic_partition)
    if stored is None or said.leader_epoch == EPOCH_DURING_DELETE:
        return None
    epoch = stored.leader_and_isr.leader_epoch
    return said if said.leader_epoch < epoch else said._replace(leader_epoch=epoch)


_TRUE: Mapping[type, Callable[[ControllerContext, ReplicaAssignment, Any], Any]] = {
    LeaderAndIsrRequest: _leader_and_isr,
    UpdateMetadataRequest: _metadata,
    StopReplicaRequest: _stop,
}
