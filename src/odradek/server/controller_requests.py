"""The controller's abstract requests as messages of the wire, and the answers back as events.

Versions are those of inter.broker.protocol.version 3.9, sent without asking ApiVersions (docs/mixing):
LeaderAndIsr 7, UpdateMetadata 8, StopReplica 4, OffsetForLeaderEpoch 4, ListOffsets 9. `isKRaftController` is false, and
`type` 0 but for an UpdateMetadata that names every partition (decisions/0068).
"""

from collections.abc import Sequence
from struct import Struct
from typing import Any

from odradek.controller.broker_requests import (
    AskEndOffsets,
    BrokerRequest,
    LeaderAndIsrPartition,
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
from odradek.model.cluster import SECURITY_PROTOCOL_IDS
from odradek.model.ids import TopicId, TopicPartition
from odradek.protocol.flat import leader_and_isr_request as flat_lai
from odradek.protocol.flat import stop_replica_request as flat_sr
from odradek.protocol.flat import update_metadata_request as flat_um
from odradek.protocol.messages import leader_and_isr as lai
from odradek.protocol.messages import stop_replica as sr
from odradek.protocol.messages import update_metadata as um
from odradek.server import end_offset_queries
from odradek.server.end_offset_queries import AskLogEnds, decode_end_offsets, decode_log_ends
from odradek.server.endpoints import endpoint_of, error_of

LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA = 4, 5, 6
VERSIONS = {
    LEADER_AND_ISR: 7,
    STOP_REPLICA: 4,
    UPDATE_METADATA: 8,
    **end_offset_queries.VERSIONS,
}
Sendable = BrokerRequest | AskLogEnds
EncodedRequest = tuple[int, int, bytes]  # api key, version, body
_KEYS: dict[type, int] = {
    LeaderAndIsrRequest: LEADER_AND_ISR,
    StopReplicaRequest: STOP_REPLICA,
    UpdateMetadataRequest: UPDATE_METADATA,
    AskEndOffsets: end_offset_queries.OFFSET_FOR_LEADER_EPOCH,
    AskLogEnds: end_offset_queries.LIST_OFFSETS,
}

# Of an UpdateMetadata: behind the controller's id, that it is of no KRaft controller, and its epoch.
_BROKER_EPOCH = Struct(">q")
_BROKER_EPOCH_AT = 9


class RequestEncoder:
    """The brokers of one event are told much the same: the same UpdateMetadata, the same partitions."""

    def __init__(self, inter_broker_listener: str) -> None:
        self._listener = inter_broker_listener
        self._partitions: tuple[UpdateMetadataPartition, ...] | None = None
        self._topics: list[bytes] = []
        self._said: UpdateMetadataRequest | None = None
        self._body = b""
        # By id(), so only while the requests of one event are sent and their partitions live.
        self._encoded: dict[int, bytes] = {}
        self._told: dict[int, list[bytes]] = {}
        self._is_one_event = False

    def begin(self) -> None:
        """The requests to come are those of one event, and are kept until `end`."""
        self._is_one_event = True

    def end(self) -> None:
        """What they have in common is not needed any more."""
        self._is_one_event = False
        self._encoded = {}
        self._told = {}
        self._partitions, self._topics = None, []
        self._said, self._body = None, b""

    def encode_all(self, requests: Sequence[BrokerRequest]) -> dict[int, EncodedRequest]:
        """Those of one event, by id()."""
        self.begin()
        return {id(request): self.encode(request) for request in requests}

    def encode(self, request: Sendable) -> EncodedRequest:
        return (*kind_of(request), self.bytes_of(request))

    def bytes_of(self, request: Sendable) -> bytes:
        """Its body alone."""
        if isinstance(request, LeaderAndIsrRequest):
            return self._leader_and_isr(request)
        if isinstance(request, UpdateMetadataRequest):
            return self._update_metadata(request)
        if isinstance(request, StopReplicaRequest):
            return _stop_replica(request)
        if isinstance(request, AskLogEnds):
            return end_offset_queries.encode_log_ends(request)
        return end_offset_queries.encode_end_offsets(request)

    def _leader_and_isr(self, request: LeaderAndIsrRequest) -> bytes:
        live_leaders = []
        for registration in request.live_leaders:
            endpoint = endpoint_of(registration, self._listener)
            if endpoint is not None:
                live_leaders.append((registration.broker_id, endpoint.host, endpoint.port))
        topics = self._told.get(id(request.partitions))
        if topics is None:
            topics = _leader_and_isr_topics(request.partitions, self._encoded if self._is_one_event else {})
            if self._is_one_event:
                self._told[id(request.partitions)] = topics
        return flat_lai.encode(
            VERSIONS[LEADER_AND_ISR],
            controller_id=request.controller_id,
            controller_epoch=request.controller_epoch,
            broker_epoch=request.broker_epoch,
            topic_states=topics,
            live_leaders=live_leaders,
        )

    def _update_metadata(self, request: UpdateMetadataRequest) -> bytes:
        """The brokers of one event are told the same, each by its own epoch."""
        said = self._said
        if (
            said is not None
            and request.partitions is said.partitions
            and request.live_brokers is said.live_brokers
            and request.controller_id == said.controller_id
            and request.controller_epoch == said.controller_epoch
            and request.is_whole is said.is_whole
        ):
            before, behind = (
                self._body[:_BROKER_EPOCH_AT],
                self._body[_BROKER_EPOCH_AT + _BROKER_EPOCH.size :],
            )
            return b"".join((before, _BROKER_EPOCH.pack(request.broker_epoch), behind))
        if request.partitions is not self._partitions:
            self._partitions = request.partitions
            self._topics = _update_metadata_topics(request.partitions)
        self._said = request
        self._body = flat_um.encode(
            VERSIONS[UPDATE_METADATA],
            controller_id=request.controller_id,
            controller_epoch=request.controller_epoch,
            broker_epoch=request.broker_epoch,
            topic_states=self._topics,
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
            type=um.FULL if request.is_whole else um.UNKNOWN,
        )
        return self._body


def kind_of(request: Sendable) -> tuple[int, int]:
    """API key and version."""
    key = _KEYS[type(request)]
    return key, VERSIONS[key]


def _leader_and_isr_topics(
    partitions: Sequence[LeaderAndIsrPartition], encoded: dict[int, bytes]
) -> list[bytes]:
    """What is the same for all who are told of the same partitions.

    `encoded` holds what was made of a partition before, by its `id()`: several brokers are told of it. Whoever keeps it
    keeps the partitions alive.
    """
    new = [partition for partition in partitions if id(partition) not in encoded]
    rows = [(partition.topic_partition.partition, *partition[2:]) for partition in new]
    version = VERSIONS[LEADER_AND_ISR]
    states = flat_lai.encode_leader_and_isr_partition_states(version, rows)
    encoded.update(zip(map(id, new), states, strict=True))
    topics = _by_topic(partitions, [encoded[id(partition)] for partition in partitions])
    return flat_lai.encode_leader_and_isr_topic_states(version, topics)


def _update_metadata_topics(partitions: Sequence[UpdateMetadataPartition]) -> list[bytes]:
    version = VERSIONS[UPDATE_METADATA]
    rows = [(partition.topic_partition.partition, *partition[2:]) for partition in partitions]
    states = flat_um.encode_update_metadata_partition_states(version, rows)
    return flat_um.encode_update_metadata_topic_states(version, _by_topic(partitions, states))


def _by_topic(
    partitions: Sequence[LeaderAndIsrPartition | UpdateMetadataPartition], states: Sequence[bytes]
) -> list[tuple[str, TopicId, list[bytes]]]:
    """Each topic once, with its partitions' states, in the order in which they come."""
    topics: dict[tuple[str, TopicId], list[bytes]] = {}
    topic, its_id, its_states = None, None, []
    for partition, state in zip(partitions, states, strict=True):
        name, topic_id = partition.topic_partition.topic, partition.topic_id
        if name is not topic or topic_id != its_id:  # mostly they come together
            topic, its_id = name, topic_id
            its_states = topics.setdefault((name, topic_id), [])
        its_states.append(state)
    return [(name, topic_id, its_states) for (name, topic_id), its_states in topics.items()]


def _stop_replica(request: StopReplicaRequest) -> bytes:
    topics: dict[str, list[tuple[int, int, bool]]] = {}
    for (name, index), leader_epoch, delete in request.partitions:
        topics.setdefault(name, []).append((index, leader_epoch, delete))
    return flat_sr.encode(
        VERSIONS[STOP_REPLICA],
        controller_id=request.controller_id,
        controller_epoch=request.controller_epoch,
        broker_epoch=request.broker_epoch,
        topic_states=list(topics.items()),
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
        return decode_log_ends(request.broker, body, request.number)
    return decode_end_offsets(request.broker, body, request.number)


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
