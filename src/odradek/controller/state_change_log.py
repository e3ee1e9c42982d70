"""The classic lines of `state.change.logger`, written from what the core returned (row 83).

Operators have searched these logs for ten years: who knows Apache's words finds the same words here. Levels
and wording as tests/golden/controller shows them for 3.9.1; the journal says the same as JSON.
"""

from collections.abc import Iterator
from functools import lru_cache

from odradek.controller.broker_requests import (
    BrokerRequest,
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from odradek.controller.effects import Effects, StateChange
from odradek.controller.states import PartitionState, ReplicaState
from odradek.model.cluster import LeaderAndIsr
from odradek.model.ids import BrokerId

Line = tuple[str, str]  # level, text


def lines(
    effects: Effects, controller_id: int, controller_epoch: int, *, with_trace: bool = True
) -> Iterator[Line]:
    """Changes first, then what was sent, each with the prefix that names the controller and its epoch.

    Lines of level TRACE are most of the lines of a large election, and nobody reads them unless asked to.
    """
    prefix = f"[Controller id={controller_id} epoch={controller_epoch}] "
    for change in effects.changes:
        if change.kind == "replica" and not with_trace:
            continue
        line = change_line(change, controller_id, controller_epoch)
        if line is not None:
            yield line[0], prefix + line[1]
    for request in effects.requests:
        for level, text in request_lines(request, with_trace=with_trace):
            yield level, prefix + text


def change_line(change: StateChange, controller_id: int, controller_epoch: int) -> Line | None:
    """None for kinds that Apache does not log here (brokers, topics, the controller itself)."""
    at = change.topic_partition
    tp = None if at is None else f"{at.topic}-{at.partition}"
    if change.kind == "partition":
        if change.to == PartitionState.NEW:
            replicas = ",".join(map(str, change.replicas or ()))
            return (
                "INFO",
                f"Changed partition {tp} state from {change.source} to {change.to} with assigned replicas {replicas}",
            )
        if change.leader_and_isr is not None:
            state = _leader_and_isr(change.leader_and_isr)
            return "INFO", f"Changed partition {tp} from {change.source} to {change.to} with state {state}"
        return "TRACE", f"Changed partition {tp} state from {change.source} to {change.to}"
    if change.kind == "replica":
        return (
            "TRACE",
            f"Changed state of replica {change.replica} for partition {tp} from {change.source} to {change.to}",
        )
    if change.kind == "leadership" and change.leader_and_isr is not None:
        state = _stored(change.leader_and_isr, controller_epoch)
        return (
            "INFO",
            f"Partition {tp} state changed to {state} after removing replica {change.replica} from the ISR as part "
            f"of transition to {ReplicaState.OFFLINE}",
        )
    if change.kind == "failure" and tp is not None:
        if change.replica is None:
            return (
                "ERROR",
                f"Controller {controller_id} epoch {controller_epoch} failed to change state for partition {tp} "
                f"from {change.source} to {change.to}: {change.reason}",
            )
        return "ERROR", replica_failure(change)
    if change.kind == "machine":
        return "DEBUG", f"Started {change.target} state machine with initial state -> {change.reason}"
    if change.kind == "warning":
        return "WARN", f"{change.target}: {change.reason}"
    return None


def replica_failure(change: StateChange) -> str:
    """The two sentences S1 knows."""
    subject = f"replica {change.replica} for partition {change.topic_partition}"
    if change.to == ReplicaState.NEW:
        return f"{subject[0].upper()}{subject[1:]} cannot be moved to NewReplica state as {change.reason}"
    return f"Failed to change state of {subject} since {change.reason}"


def request_lines(request: BrokerRequest, *, with_trace: bool = True) -> Iterator[Line]:
    if isinstance(request, LeaderAndIsrRequest):
        leads = 0
        for p in request.partitions:
            leads += p.leader == request.broker
            if not with_trace:
                continue
            role = "become-leader" if p.leader == request.broker else "become-follower"
            yield (
                "TRACE",
                f"Sending {role} LeaderAndIsr request LeaderAndIsrPartitionState("
                f"topicName='{p.topic_partition.topic}', partitionIndex={p.topic_partition.partition}, "
                f"controllerEpoch={p.controller_epoch}, leader={p.leader}, leaderEpoch={p.leader_epoch}, "
                f"isr={list(p.isr)}, partitionEpoch={p.partition_epoch}, replicas={list(p.replicas)}, "
                f"addingReplicas={list(p.adding_replicas)}, removingReplicas={list(p.removing_replicas)}, "
                f"isNew={str(p.is_new).lower()}, leaderRecoveryState={p.leader_recovery_state}) "
                f"to broker {request.broker} for partition {p.topic_partition}",
            )
        yield (
            "INFO",
            f"Sending LeaderAndIsr request to broker {request.broker} with {leads} become-leader and "
            f"{len(request.partitions) - leads} become-follower partitions",
        )
    elif isinstance(request, UpdateMetadataRequest):
        yield (
            "INFO",
            f"Sending UpdateMetadata request to broker {request.broker} for {len(request.partitions)} partitions",
        )
    elif isinstance(request, StopReplicaRequest):
        for s in request.partitions if with_trace else ():
            yield (
                "TRACE",
                f"Sending StopReplica request StopReplicaPartitionState(partitionIndex={s.topic_partition.partition}, "
                f"leaderEpoch={s.leader_epoch}, deletePartition={str(s.delete).lower()}) "
                f"to broker {request.broker} for partition {s.topic_partition}",
            )
        yield (
            "INFO",
            f"Sending StopReplica request for {len(request.partitions)} replicas to broker {request.broker}",
        )


def _recovery(state: LeaderAndIsr) -> str:
    return "RECOVERING" if state.leader_recovery_state else "RECOVERED"


@lru_cache(maxsize=10_000)
def _members(isr: tuple[BrokerId, ...]) -> str:
    return ", ".join(f"BrokerState(brokerId={b}, brokerEpoch=-1)" for b in isr)


@lru_cache(maxsize=10_000)
def _ids(isr: tuple[BrokerId, ...]) -> str:
    return ",".join(map(str, isr))


def _leader_and_isr(state: LeaderAndIsr) -> str:
    return (
        f"LeaderAndIsr(leader={state.leader}, leaderEpoch={state.leader_epoch}, "
        f"isrWithBrokerEpoch=List({_members(state.isr)}), "
        f"leaderRecoveryState={_recovery(state)}, partitionEpoch={state.partition_epoch})"
    )


def _stored(state: LeaderAndIsr, controller_epoch: int) -> str:
    return (
        f"(Leader:{state.leader},ISR:{_ids(state.isr)},LeaderRecoveryState:{_recovery(state)},"
        f"LeaderEpoch:{state.leader_epoch},ZkVersion:{state.partition_epoch},ControllerEpoch:{controller_epoch})"
    )
