"""The controller's abstract requests as messages of the wire, and the answers back as events.

Versions are those of inter.broker.protocol.version 3.9, sent without asking ApiVersions (docs/mixing):
LeaderAndIsr 7, UpdateMetadata 8, StopReplica 4, OffsetForLeaderEpoch 4, ListOffsets 9. `type` stays 0 and
`isKRaftController` false.
"""

from collections.abc import Sequence
from typing import Any

from odradek.controller.broker_requests import (
    BrokerRequest,
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataPartition,
    UpdateMetadataRequest,
)
from odradek.controller.events import (
    Event,
    LeaderAndIsrAnswered,
    StopReplicaAnswered,
    UpdateMetadataAnswered,
)
from odradek.model.ids import TopicId, TopicPartition
from odradek.protocol import fast_controller as fast
from odradek.protocol.messages import leader_and_isr as lai
from odradek.protocol.messages import stop_replica as sr
from odradek.protocol.messages import update_metadata as um
from odradek.server import survivor_questions as survivors
from odradek.server.endpoints import endpoint_of, error_of
from odradek.server.survivor_questions import AskLogEnds, decode_end_offsets, decode_log_ends

LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA = 4, 5, 6
VERSIONS = {
    LEADER_AND_ISR: fast.LEADER_AND_ISR_VERSION,
    STOP_REPLICA: fast.STOP_REPLICA_VERSION,
    UPDATE_METADATA: fast.UPDATE_METADATA_VERSION,
    **survivors.VERSIONS,
}
Sendable = BrokerRequest | AskLogEnds
EncodedRequest = tuple[int, int, bytes]  # api key, version, body

SECURITY_PROTOCOL_IDS = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}


class RequestEncoder:
    """The brokers of one event are told much the same: the same UpdateMetadata, the same partitions."""

    def __init__(self, inter_broker_listener: str) -> None:
        self._listener = inter_broker_listener
        self._partitions: tuple[UpdateMetadataPartition, ...] | None = None
        self._topics = b""
        # By id(), so only while the requests of one event are sent and their partitions live.
        self._encoded: dict[int, bytes] = {}
        self._told: dict[int, bytes] = {}
        self._is_one_event = False

    def begin(self) -> None:
        """The requests to come are those of one event, and are kept until `end`."""
        self._is_one_event = True

    def end(self) -> None:
        """What they have in common is not needed any more."""
        self._is_one_event = False
        self._encoded = {}
        self._told = {}
        self._partitions, self._topics = None, b""

    def encode_all(self, requests: Sequence[BrokerRequest]) -> dict[int, EncodedRequest]:
        """Those of one event, by id()."""
        self.begin()
        return {id(request): self.encode(request) for request in requests}

    def encode(self, request: Sendable) -> EncodedRequest:
        if isinstance(request, LeaderAndIsrRequest):
            return LEADER_AND_ISR, fast.LEADER_AND_ISR_VERSION, self._leader_and_isr(request)
        if isinstance(request, UpdateMetadataRequest):
            return UPDATE_METADATA, fast.UPDATE_METADATA_VERSION, self._update_metadata(request)
        if isinstance(request, StopReplicaRequest):
            return STOP_REPLICA, fast.STOP_REPLICA_VERSION, _stop_replica(request)
        if isinstance(request, AskLogEnds):
            key, body = survivors.LIST_OFFSETS, survivors.encode_log_ends(request)
        else:
            key, body = survivors.OFFSET_FOR_LEADER_EPOCH, survivors.encode_end_offsets(request)
        return key, VERSIONS[key], body

    def _leader_and_isr(self, request: LeaderAndIsrRequest) -> bytes:
        live_leaders = []
        for registration in request.live_leaders:
            endpoint = endpoint_of(registration, self._listener)
            if endpoint is not None:
                live_leaders.append((registration.broker_id, endpoint.host, endpoint.port))
        topics = self._told.get(id(request.partitions))
        if topics is None:
            encoded = self._encoded if self._is_one_event else None
            topics = fast.encode_leader_and_isr_topics(request.partitions, encoded)
            if self._is_one_event:
                self._told[id(request.partitions)] = topics
        return fast.encode_leader_and_isr(
            controller_id=request.controller_id,
            controller_epoch=request.controller_epoch,
            broker_epoch=request.broker_epoch,
            topics=topics,
            live_leaders=live_leaders,
        )

    def _update_metadata(self, request: UpdateMetadataRequest) -> bytes:
        if request.partitions is not self._partitions:
            self._partitions = request.partitions
            self._topics = fast.encode_update_metadata_topics(request.partitions)
        return fast.encode_update_metadata(
            controller_id=request.controller_id,
            controller_epoch=request.controller_epoch,
            broker_epoch=request.broker_epoch,
            topics=self._topics,
            live_brokers=[
                (
                    registration.broker_id,
                    [
                        (e.port, e.host, e.listener, SECURITY_PROTOCOL_IDS[e.security_protocol])
                        for e in registration.endpoints
                    ],
                    registration.rack,
                )
                for registration in request.live_brokers
            ],
        )


def _stop_replica(request: StopReplicaRequest) -> bytes:
    return fast.encode_stop_replica(
        controller_id=request.controller_id,
        controller_epoch=request.controller_epoch,
        broker_epoch=request.broker_epoch,
        partitions=request.partitions,
    )


def decode_answer(request: Sendable, body: memoryview) -> Event:
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
    if isinstance(request, AskLogEnds):
        return decode_log_ends(request.broker, body)
    return decode_end_offsets(request.broker, body)


def _leader_and_isr_answered(request: LeaderAndIsrRequest, answer: Any) -> LeaderAndIsrAnswered:
    names: dict[TopicId, str] = {}
    if answer.topics:  # seldom: only what failed is listed
        names = {p.topic_id: p.topic_partition.topic for p in request.partitions}
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
        number=request.number,
    )
