"""The controller's abstract requests as messages of the wire, and the answers back as events.

Versions are those of inter.broker.protocol.version 3.9, sent without asking ApiVersions (docs/mixing):
LeaderAndIsr 7, UpdateMetadata 8, StopReplica 4, OffsetForLeaderEpoch 4. `type` stays 0 and
`isKRaftController` false.
"""

from collections.abc import Iterable
from itertools import groupby
from typing import Any

from odradek.controller.effects import (
    AskEndOffsets,
    BrokerRequest,
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    StopReplicaPartition,
    StopReplicaRequest,
    UpdateMetadataPartition,
    UpdateMetadataRequest,
)
from odradek.controller.events import (
    EndOffsetsAnswered,
    Event,
    LeaderAndIsrAnswered,
    StopReplicaAnswered,
    UpdateMetadataAnswered,
)
from odradek.model.ids import LeaderEpoch, Offset, TopicId, TopicPartition
from odradek.protocol.messages import leader_and_isr as lai
from odradek.protocol.messages import offset_for_leader_epoch as ofle
from odradek.protocol.messages import stop_replica as sr
from odradek.protocol.messages import update_metadata as um
from odradek.server.endpoints import endpoint_of, error_of

LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA, OFFSET_FOR_LEADER_EPOCH = 4, 5, 6, 23
VERSIONS = {LEADER_AND_ISR: 7, STOP_REPLICA: 4, UPDATE_METADATA: 8, OFFSET_FOR_LEADER_EPOCH: 4}

SECURITY_PROTOCOL_IDS = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}
# A reader that may look beyond the high watermark: not a consumer, not a replica either.
DEBUGGING_REPLICA_ID = -2


class RequestEncoder:
    """Remembers the last UpdateMetadata: the same partitions go to every broker."""

    def __init__(self, inter_broker_listener: str) -> None:
        self._listener = inter_broker_listener
        self._partitions: tuple[UpdateMetadataPartition, ...] | None = None
        self._topic_states: list[um.UpdateMetadataTopicState] = []

    def encode(self, request: BrokerRequest) -> tuple[int, int, bytes]:
        """Api key, version, body."""
        if isinstance(request, LeaderAndIsrRequest):
            message, api_key = self._leader_and_isr(request), LEADER_AND_ISR
        elif isinstance(request, UpdateMetadataRequest):
            message, api_key = self._update_metadata(request), UPDATE_METADATA
        elif isinstance(request, StopReplicaRequest):
            message, api_key = _stop_replica(request), STOP_REPLICA
        else:
            message, api_key = _ask_end_offsets(request), OFFSET_FOR_LEADER_EPOCH
        version = VERSIONS[api_key]
        return api_key, version, message.encode(version)

    def _leader_and_isr(self, request: LeaderAndIsrRequest) -> Any:
        live_leaders = []
        for registration in request.live_leaders:
            endpoint = endpoint_of(registration, self._listener)
            if endpoint is not None:
                live_leaders.append(
                    lai.LeaderAndIsrLiveLeader(
                        broker_id=registration.broker_id, host_name=endpoint.host, port=endpoint.port
                    )
                )
        return lai.LeaderAndIsrRequest(
            controller_id=request.controller_id,
            is_k_raft_controller=False,
            controller_epoch=request.controller_epoch,
            broker_epoch=request.broker_epoch,
            type=0,
            topic_states=[
                lai.LeaderAndIsrTopicState(
                    topic_name=topic,
                    topic_id=topic_id,
                    partition_states=[
                        lai.LeaderAndIsrPartitionState(
                            partition_index=p.topic_partition.partition,
                            controller_epoch=p.controller_epoch,
                            leader=p.leader,
                            leader_epoch=p.leader_epoch,
                            isr=list(p.isr),
                            partition_epoch=p.partition_epoch,
                            replicas=list(p.replicas),
                            adding_replicas=list(p.adding_replicas),
                            removing_replicas=list(p.removing_replicas),
                            is_new=p.is_new,
                            leader_recovery_state=p.leader_recovery_state,
                        )
                        for p in partitions
                    ],
                )
                for (topic, topic_id), partitions in _by_topic_and_id(request.partitions)
            ],
            live_leaders=live_leaders,
        )

    def _update_metadata(self, request: UpdateMetadataRequest) -> Any:
        if request.partitions is not self._partitions:
            self._partitions = request.partitions
            self._topic_states = [
                um.UpdateMetadataTopicState(
                    topic_name=topic,
                    topic_id=topic_id,
                    partition_states=[
                        um.UpdateMetadataPartitionState(
                            partition_index=p.topic_partition.partition,
                            controller_epoch=p.controller_epoch,
                            leader=p.leader,
                            leader_epoch=p.leader_epoch,
                            isr=list(p.isr),
                            zk_version=p.partition_epoch,
                            replicas=list(p.replicas),
                            offline_replicas=list(p.offline_replicas),
                        )
                        for p in partitions
                    ],
                )
                for (topic, topic_id), partitions in _by_topic_and_id(request.partitions)
            ]
        return um.UpdateMetadataRequest(
            controller_id=request.controller_id,
            is_k_raft_controller=False,
            controller_epoch=request.controller_epoch,
            broker_epoch=request.broker_epoch,
            topic_states=self._topic_states,
            live_brokers=[
                um.UpdateMetadataBroker(
                    id=registration.broker_id,
                    endpoints=[
                        um.UpdateMetadataEndpoint(
                            port=endpoint.port,
                            host=endpoint.host,
                            listener=endpoint.listener,
                            security_protocol=SECURITY_PROTOCOL_IDS[endpoint.security_protocol],
                        )
                        for endpoint in registration.endpoints
                    ],
                    rack=registration.rack,
                )
                for registration in request.live_brokers
            ],
        )


def _stop_replica(request: StopReplicaRequest) -> Any:
    return sr.StopReplicaRequest(
        controller_id=request.controller_id,
        is_k_raft_controller=False,
        controller_epoch=request.controller_epoch,
        broker_epoch=request.broker_epoch,
        topic_states=[
            sr.StopReplicaTopicState(
                topic_name=topic,
                partition_states=[
                    sr.StopReplicaPartitionState(
                        partition_index=p.topic_partition.partition,
                        leader_epoch=p.leader_epoch,
                        delete_partition=p.delete,
                    )
                    for p in partitions
                ],
            )
            for topic, partitions in _by_topic(request.partitions)
        ],
    )


def _ask_end_offsets(request: AskEndOffsets) -> Any:
    return ofle.OffsetForLeaderEpochRequest(
        replica_id=DEBUGGING_REPLICA_ID,
        topics=[
            ofle.OffsetForLeaderTopic(
                topic=topic,
                partitions=[
                    # No current leader epoch: the survivor asked is not a leader, and may know an older one.
                    ofle.OffsetForLeaderPartition(
                        partition=tp.partition, current_leader_epoch=-1, leader_epoch=epoch
                    )
                    for tp, epoch in asked
                ],
            )
            for topic, asked in groupby(sorted(request.partitions), key=lambda pair: pair[0].topic)
        ],
    )


def decode_answer(request: BrokerRequest, body: memoryview) -> Event:
    """The event that tells the core what the broker answered to `request`."""
    if isinstance(request, LeaderAndIsrRequest):
        return _leader_and_isr_answered(
            request, lai.LeaderAndIsrResponse.decode(VERSIONS[LEADER_AND_ISR], body)
        )
    if isinstance(request, UpdateMetadataRequest):
        answer = um.UpdateMetadataResponse.decode(VERSIONS[UPDATE_METADATA], body)
        return UpdateMetadataAnswered(request.broker, request.broker_epoch, error_of(answer.error_code))
    if isinstance(request, StopReplicaRequest):
        return _stop_replica_answered(request, sr.StopReplicaResponse.decode(VERSIONS[STOP_REPLICA], body))
    ends = ofle.OffsetForLeaderEpochResponse.decode(VERSIONS[OFFSET_FOR_LEADER_EPOCH], body)
    return EndOffsetsAnswered(
        request.broker,
        {
            TopicPartition(topic.topic, p.partition): (LeaderEpoch(p.leader_epoch), Offset(p.end_offset))
            for topic in ends.topics
            for p in topic.partitions
            if p.error_code == 0 and p.end_offset >= 0
        },
    )


def _leader_and_isr_answered(request: LeaderAndIsrRequest, answer: Any) -> LeaderAndIsrAnswered:
    names: dict[TopicId, str] = {p.topic_id: p.topic_partition.topic for p in request.partitions}
    return LeaderAndIsrAnswered(
        broker=request.broker,
        broker_epoch=request.broker_epoch,
        error=error_of(answer.error_code),
        partition_errors={
            TopicPartition(names[topic.topic_id], p.partition_index): error_of(p.error_code)
            for topic in answer.topics
            if topic.topic_id in names
            for p in topic.partition_errors
            if p.error_code
        },
        told=request.partitions,
    )


def _stop_replica_answered(request: StopReplicaRequest, answer: Any) -> StopReplicaAnswered:
    return StopReplicaAnswered(
        broker=request.broker,
        broker_epoch=request.broker_epoch,
        error=error_of(answer.error_code),
        partition_errors={
            TopicPartition(p.topic_name, p.partition_index): error_of(p.error_code)
            for p in answer.partition_errors
        },
        deleted=frozenset(p.topic_partition for p in request.partitions if p.delete),
    )


def _by_topic_and_id(
    partitions: Iterable[Any],
) -> list[tuple[tuple[str, TopicId], list[LeaderAndIsrPartition | UpdateMetadataPartition]]]:
    groups: dict[tuple[str, TopicId], list[Any]] = {}
    for p in partitions:
        groups.setdefault((p.topic_partition.topic, p.topic_id), []).append(p)
    return list(groups.items())


def _by_topic(
    partitions: Iterable[StopReplicaPartition],
) -> list[tuple[str, list[StopReplicaPartition]]]:
    groups: dict[str, list[StopReplicaPartition]] = {}
    for p in partitions:
        groups.setdefault(p.topic_partition.topic, []).append(p)
    return list(groups.items())
