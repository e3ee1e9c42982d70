"""StopReplica (key 5), versions 0-4: stop following or leading a replica, and with `delete` erase it.

Refused as a whole as LeaderAndIsr is. An older leader epoch is FENCED_LEADER_EPOCH; -2 (the topic is being deleted)
and -1 (unknown) bypass it (KIP-570). A partition we do not know: NONE, and with `delete` leftovers on the disk still
go (row 148), unless a directory is offline and may hold some: KAFKA_STORAGE_ERROR (decisions/0009).

v0 partitions as a flat list, one `delete` for all, no leader epoch.
v1 broker epoch (KIP-380); partitions by topic.
v2 flexible.
v3 `delete` and leader epoch of each partition (KIP-570).
v4 KRaft or not (KIP-866).
"""

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from odradek.broker.answers import Answer, Park, Reply
from odradek.broker.replica_manager import Stop
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import NO_EPOCH, LeaderEpoch, TopicPartition
from odradek.protocol.messages.stop_replica import (
    StopReplicaPartitionError,
    StopReplicaRequest,
    StopReplicaResponse,
)

if TYPE_CHECKING:
    from odradek.broker.core import Broker
    from odradek.broker.request import Request


def handle(broker: "Broker", request: "Request", now_ms: int) -> Answer:
    version = request.api_version
    waits = broker.control_queue.wait(request)
    if waits is not None:
        return waits
    asked = StopReplicaRequest.decode(version, request.body)
    refused = broker.control_gate.refusal(request, asked, is_kraft=asked.is_k_raft_controller, now_ms=now_ms)
    if isinstance(refused, ErrorCode):
        return Reply([StopReplicaResponse(error_code=refused).encode(version)])
    if refused is not None:
        return refused
    return broker.control_queue.obey(_Obeying(broker, version, asked), now_ms)


class _Obeying:
    """A StopReplica, and what of it is done. See `control_queue`."""

    __slots__ = ("_asked", "_broker", "_errors", "_left", "_rest", "_version", "park")

    def __init__(self, broker: "Broker", version: int, asked: StopReplicaRequest) -> None:
        self.park = Park()
        self._broker = broker
        self._version = version
        self._asked = asked
        self._rest = _stops(asked)
        self._left = (
            sum(len(state.partition_states) for state in asked.topic_states)
            + sum(len(topic.partition_indexes) for topic in asked.topics)
            + len(asked.ungrouped_partitions)
        )
        self._errors: dict[TopicPartition, ErrorCode] = {}

    def go_on(self, most: int, now_ms: int) -> Reply | None:
        broker = self._broker
        error = broker.broker_epoch_error(self._asked.broker_epoch, is_kraft=False)
        if error:  # we have registered anew since the last slice
            return self._end(StopReplicaResponse(error_code=error), now_ms)
        self._errors |= broker.replicas.commit_stops(islice(self._rest, most), now_ms)
        self._left -= most
        if self._left > 0:
            return None
        unsynced = broker.replicas.sync_stops()  # also of former requests
        self._errors |= {key: code for key, code in unsynced.items() if key in self._errors}
        response = StopReplicaResponse(
            partition_errors=[
                StopReplicaPartitionError(topic_name=topic, partition_index=index, error_code=code)
                for (topic, index), code in self._errors.items()
            ]
        )
        return self._end(response, now_ms)

    def _end(self, response: StopReplicaResponse, now_ms: int) -> Reply:
        self._broker.replicas.settle_fetchers(now_ms)
        return Reply([response.encode(self._version)])


def _stops(asked: StopReplicaRequest) -> Iterator[Stop]:
    for state in asked.topic_states:
        for partition in state.partition_states:
            yield Stop(
                TopicPartition(state.topic_name, partition.partition_index),
                LeaderEpoch(partition.leader_epoch),
                partition.delete_partition,
            )
    for topic in asked.topics:
        for index in topic.partition_indexes:
            yield Stop(TopicPartition(topic.name, index), NO_EPOCH, asked.delete_partitions)
    for single in asked.ungrouped_partitions:
        yield Stop(
            TopicPartition(single.topic_name, single.partition_index), NO_EPOCH, asked.delete_partitions
        )
