"""From a `Notification` to requests: the values are read from the context after the writes were answered.

Order for each broker: LeaderAndIsr, UpdateMetadata, StopReplica (golden 05a, 06; row 171). A broker must know
the leaders before it follows them, and clients must hear of a leader before its old place is stopped.
One partition's value is built once, and shared by every broker that gets it; brokers that are told of the same
partitions share the whole tuple, so that it is encoded once.
"""

from collections.abc import Iterable, KeysView

from odradek.controller.broker_requests import (
    BrokerRequest,
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    StopReplicaPartition,
    StopReplicaRequest,
    UpdateMetadataPartition,
    UpdateMetadataRequest,
)
from odradek.controller.context import ControllerContext
from odradek.controller.plan import Notification
from odradek.controller.stop_answers import commit_stop_sent
from odradek.model.cluster import BrokerRegistration
from odradek.model.ids import (
    EPOCH_DURING_DELETE,
    LEADER_DURING_DELETE,
    NO_EPOCH,
    BrokerId,
    LeaderEpoch,
    TopicPartition,
)

# A value for each partition, without its constructor, which costs as much again.
_new = tuple.__new__


def requests_of(context: ControllerContext, telling: Notification) -> list[BrokerRequest]:
    """Requests by broker, lowest id first."""
    values: dict[TopicPartition, LeaderAndIsrPartition] = {}
    alike: list[tuple[KeysView[TopicPartition], LeaderAndIsrBody]] = []
    metadata = tuple(_metadata_partitions(context, telling.metadata))
    send_metadata = bool(metadata) or telling.bare_metadata
    to = telling.metadata_to
    live_brokers = context.registrations() if send_metadata else ()
    is_whole = telling.is_whole and send_metadata and _is_whole(context, metadata)
    requests: list[BrokerRequest] = []
    for broker in context.registered_brokers():
        partitions = telling.leader_and_isr.get(broker)
        if partitions:
            if broker in context.pending_deletions:  # what must be deleted first is answered first
                partitions = {
                    tp: new for tp, new in partitions.items() if not context.has_pending_deletion(broker, tp)
                }
            told = _told(context, partitions, values, alike)
            if told[0]:
                requests.append(_leader_and_isr(context, broker, *told))
        if send_metadata and (to is None or broker in to):
            requests.append(
                UpdateMetadataRequest(
                    broker,
                    context.broker_epoch(broker),
                    context.broker,
                    context.controller_epoch,
                    metadata,
                    live_brokers,
                    is_whole,
                )
            )
        stops = telling.stops.get(broker)
        if stops:
            requests.append(_stop_replica(context, broker, stops, telling.stop_epoch))
    return requests


# What LeaderAndIsr says: the partitions, and the registrations of those that lead them.
LeaderAndIsrBody = tuple[tuple[LeaderAndIsrPartition, ...], tuple[BrokerRegistration, ...]]


def _told(
    context: ControllerContext,
    partitions: dict[TopicPartition, bool],
    values: dict[TopicPartition, LeaderAndIsrPartition],
    alike: list[tuple[KeysView[TopicPartition], LeaderAndIsrBody]],
) -> LeaderAndIsrBody:
    """`alike`: what brokers before this one were told, where nothing was new to them."""
    is_anything_new = any(partitions.values())
    if not is_anything_new:
        for keys, known in alike:
            if keys == partitions.keys():
                return known
    said = tuple(_leader_and_isr_partitions(context, partitions, values))
    leaders = sorted({partition.leader for partition in said})
    told = said, tuple([context.brokers[leader] for leader in leaders if leader in context.brokers])
    if not is_anything_new:
        alike.append((partitions.keys(), told))
    return told


def _leader_and_isr(
    context: ControllerContext,
    broker: BrokerId,
    partitions: tuple[LeaderAndIsrPartition, ...],
    live_leaders: tuple[BrokerRegistration, ...],
) -> LeaderAndIsrRequest:
    return LeaderAndIsrRequest(
        broker,
        context.broker_epoch(broker),
        context.broker,
        context.controller_epoch,
        partitions,
        live_leaders,
    )


def _leader_and_isr_partitions(
    context: ControllerContext,
    partitions: dict[TopicPartition, bool],
    values: dict[TopicPartition, LeaderAndIsrPartition],
) -> list[LeaderAndIsrPartition]:
    leaderships, assignments, topics = context.leaderships, context.assignments, context.topics
    told = []
    for topic_partition in sorted(partitions):
        value = values.get(topic_partition)
        if value is None:
            stored = leaderships.get(topic_partition)
            if stored is None:
                continue  # no leader yet: the request comes with its election
            state = stored.leader_and_isr
            assignment = assignments[topic_partition]
            value = values[topic_partition] = _new(
                LeaderAndIsrPartition,
                (
                    topic_partition,
                    topics[topic_partition[0]].topic_id,
                    stored.controller_epoch,
                    state.leader,
                    state.leader_epoch,
                    state.isr,
                    state.partition_epoch,
                    assignment.replicas,
                    assignment.adding_replicas,
                    assignment.removing_replicas,
                    False,
                    state.leader_recovery_state,
                    state.elr,
                ),
            )
        told.append(value._replace(is_new=True) if partitions[topic_partition] else value)
    return told


def _metadata_partitions(
    context: ControllerContext, partitions: Iterable[TopicPartition]
) -> list[UpdateMetadataPartition]:
    broken_disks = any(context.offline_directories.values()) or not context.brokers.keys().isdisjoint(
        context.pending_deletions
    )  # else who is offline is the same for every partition of the same replicas
    leaderships, assignments, topics = context.leaderships, context.assignments, context.topics
    offline_of: dict[tuple[BrokerId, ...], tuple[BrokerId, ...]] = {}
    told = []
    for topic_partition in sorted(partitions):
        stored = leaderships.get(topic_partition)
        if stored is None:
            continue  # no leader yet: nothing a client could use
        state = stored.leader_and_isr
        topic = topic_partition[0]
        deleting = topic in context.topics_to_delete
        replicas = assignments[topic_partition].replicas
        offline = None if broken_disks else offline_of.get(replicas)
        if offline is None:
            online = context.online_of(replicas, topic_partition)
            offline = offline_of[replicas] = tuple([b for b in replicas if b not in online])
        told.append(
            _new(
                UpdateMetadataPartition,
                (
                    topic_partition,
                    topics[topic].topic_id,
                    stored.controller_epoch,
                    LEADER_DURING_DELETE if deleting else state.leader,
                    LeaderEpoch(0) if deleting else state.leader_epoch,  # both epochs 0 then (golden 05a)
                    state.isr,
                    0 if deleting else state.partition_epoch,
                    replicas,
                    offline,
                ),
            )
        )
    return told


def _is_whole(context: ControllerContext, told: tuple[UpdateMetadataPartition, ...]) -> bool:
    """Whether these are all partitions that ever had a leader, but for those of topics that are being deleted. Of a topic that is
    out of service nothing is known, and brokers go on with what they were told of it."""
    if context.out_of_service:
        return False
    named = {partition.topic_partition for partition in told} if context.topics_to_delete else set()
    deleting = (tp for topic in context.topics_to_delete for tp in context.partitions_of(topic))
    unnamed = sum(tp in context.leaderships and tp not in named for tp in deleting)
    return len(told) + unnamed == len(context.leaderships)


def _stop_replica(
    context: ControllerContext,
    broker: BrokerId,
    stops: dict[TopicPartition, bool],
    epoch: LeaderEpoch | None,
) -> StopReplicaRequest:
    partitions = [
        StopReplicaPartition(tp, _stop_epoch(context, tp) if epoch is None else epoch, stops[tp])
        for tp in sorted(stops)
    ]
    return StopReplicaRequest(
        broker,
        context.broker_epoch(broker),
        context.broker,
        context.controller_epoch,
        tuple(partitions),
        commit_stop_sent(context, broker, stops),
    )


def _stop_epoch(context: ControllerContext, topic_partition: TopicPartition) -> LeaderEpoch:
    """KIP-570: -2 while the topic is deleted, so that the stop is not refused; -1 when nobody ever led."""
    if topic_partition.topic in context.topics_to_delete:
        return EPOCH_DURING_DELETE
    stored = context.leaderships.get(topic_partition)
    return stored.leader_and_isr.leader_epoch if stored is not None else NO_EPOCH
