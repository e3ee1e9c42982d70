"""LeaderAndIsr (key 4), versions 0-7: the controller says which replicas we host, who leads, who is in sync.

Refused as a whole: a KRaft controller or one that migrates to KRaft (INVALID_REQUEST; decisions/0005), an earlier
incarnation of ours as addressee (STALE_BROKER_EPOCH; a later one is fine, KIP-380), a controller of an older epoch
(STALE_CONTROLLER_EPOCH, row 146), and with its connection one that comes late within its term (decisions/0008). Then
each partition for itself: a leader epoch that is not larger than ours is STALE_CONTROLLER_EPOCH and changes nothing
(row 147), another topic id than the hosted replica's INCONSISTENT_TOPIC_ID, a failed disk or a damaged log
KAFKA_STORAGE_ERROR. Logs of other topics of that name are set aside (decisions/0009).

v0 partitions as a flat list.
v1 whether the partition is new.
v2 broker epoch (KIP-380); partitions by topic.
v3 adding and removing replicas (KIP-455).
v4 flexible.
v5 topic ids, and the type: 0 from a controller in ZooKeeper mode (KIP-516).
v6 leader recovery state (KIP-704).
v7 KRaft or not (KIP-866).
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from odradek.broker.answers import Answer, Park, Reply
from odradek.broker.control_queue import NEW_LOG
from odradek.broker.replica_manager import Leadership
from odradek.model.cluster import LeaderAndIsr, ReplicaAssignment
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import (
    NO_TOPIC_ID,
    BrokerId,
    LeaderEpoch,
    PartitionEpoch,
    TopicId,
    TopicPartition,
)
from odradek.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)

if TYPE_CHECKING:
    from odradek.broker.core import Broker
    from odradek.broker.request import Request

FULL = 2
FIRST_BY_ID = 5


def handle(broker: "Broker", request: "Request", now_ms: int) -> Answer:
    version = request.api_version
    waits = broker.control_queue.wait(request)
    if waits is not None:
        return waits
    asked = LeaderAndIsrRequest.decode(version, request.body)
    is_kraft = asked.is_k_raft_controller or asked.type == FULL
    refused = broker.control_gate.refusal(request, asked, is_kraft=is_kraft, now_ms=now_ms)
    if isinstance(refused, ErrorCode):
        return Reply([LeaderAndIsrResponse(error_code=refused).encode(version)])
    if refused is not None:
        return refused
    for leader in asked.live_leaders:
        broker.metadata.hint_endpoint(
            leader.broker_id, leader.host_name, leader.port, broker.inter_broker_listener
        )
    return broker.control_queue.obey(_Obeying(broker, version, asked), now_ms)


class _Obeying:
    """A LeaderAndIsr, and what of it is done. See `control_queue`."""

    __slots__ = ("_asked", "_broker", "_done", "_errors", "_former", "_left", "_rest", "_version", "park")

    def __init__(self, broker: "Broker", version: int, asked: LeaderAndIsrRequest) -> None:
        self.park = Park()
        self._broker = broker
        self._version = version
        self._asked = asked
        self._rest = _leaderships(asked)
        self._left = len(asked.ungrouped_partition_states) + sum(
            len(topic.partition_states) for topic in asked.topic_states
        )
        self._done: list[Leadership] = []
        self._errors: dict[TopicPartition, ErrorCode] = {}
        self._former: list[TopicPartition] = []

    def go_on(self, most: int, now_ms: int) -> Reply | None:
        broker = self._broker
        error = broker.broker_epoch_error(self._asked.broker_epoch, is_kraft=False)
        if error:  # we have registered anew since the last slice
            return self._end(LeaderAndIsrResponse(error_code=error), now_ms)
        told = self._next(most)
        self._errors |= broker.replicas.commit_slice(told, self._former, now_ms)
        self._done += told
        self._left -= len(told)
        if self._left or len(self._done) > len(told) > 0:
            return None  # of one that took more than a slice the answer is made in one of its own
        broker.replicas.refuse_to_lead(self._former)
        return self._end(_response(self._version, self._done, self._errors), now_ms)

    def _next(self, most: int) -> list[Leadership]:
        told: list[Leadership] = []
        for leadership in self._rest:
            told.append(leadership)
            most -= NEW_LOG if leadership.is_new else 1
            if most <= 0:
                break
        return told

    def _end(self, response: LeaderAndIsrResponse, now_ms: int) -> Reply:
        self._broker.replicas.settle_fetchers(now_ms)
        return Reply([response.encode(self._version)])


def _leaderships(asked: LeaderAndIsrRequest) -> Iterator[Leadership]:
    for topic in asked.topic_states:
        for state in topic.partition_states:
            yield _leadership(topic.topic_name, TopicId(bytes(topic.topic_id)), state)
    for state in asked.ungrouped_partition_states:
        yield _leadership(state.topic_name, NO_TOPIC_ID, state)


def _leadership(topic: str, topic_id: TopicId, state: LeaderAndIsrPartitionState) -> Leadership:
    return Leadership(
        TopicPartition(topic, state.partition_index),
        topic_id,
        LeaderAndIsr(
            leader=BrokerId(state.leader),
            leader_epoch=LeaderEpoch(state.leader_epoch),
            isr=_brokers(state.isr),
            partition_epoch=PartitionEpoch(state.partition_epoch),
            leader_recovery_state=state.leader_recovery_state,
            elr=_brokers(state.eligible_leader_replicas),
        ),
        ReplicaAssignment(
            replicas=_brokers(state.replicas),
            adding_replicas=_brokers(state.adding_replicas),
            removing_replicas=_brokers(state.removing_replicas),
        ),
        state.is_new,
    )


def _brokers(ids: Any) -> tuple[BrokerId, ...]:
    """Numbers of the wire are broker ids: to say so of each one would take a call for it."""
    return tuple(ids)


def _response(
    version: int, told: list[Leadership], errors: dict[TopicPartition, ErrorCode]
) -> LeaderAndIsrResponse:
    response = LeaderAndIsrResponse()
    topics: dict[TopicId, LeaderAndIsrTopicError] = {}
    for row in told:
        answer = LeaderAndIsrPartitionError(
            topic_name=row.topic_partition.topic,
            partition_index=row.topic_partition.partition,
            error_code=errors[row.topic_partition],
        )
        if version < FIRST_BY_ID:
            response.partition_errors.append(answer)
            continue
        topic = topics.get(row.topic_id)
        if topic is None:
            topic = topics[row.topic_id] = LeaderAndIsrTopicError(topic_id=row.topic_id)
            response.topics.append(topic)
        topic.partition_errors.append(answer)
    return response
