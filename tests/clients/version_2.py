"""A producer that speaks `transaction.version` 2 (KIP-890), as no client in Python does yet: it names no partition before it
writes, takes its epoch from each EndTxn, and sends every request again until it is answered."""

from collections import Counter
from typing import Any

from odradek.client.sync import ANY, SyncClient
from odradek.model.error_codes import RETRIABLE, ErrorCode
from odradek.model.errors import ProtocolError
from odradek.model.ids import TopicPartition
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.protocol.messages.end_txn import EndTxnRequest
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from odradek.records.builder import NewRecord, build_batch

GROUP, TRANSACTION = 0, 1
PATIENCE_S = 60.0


class Version2Producer:
    def __init__(self, client: SyncClient, transactional_id: str) -> None:
        self._client = client
        self._id = transactional_id
        self.producer_id = self.epoch = -1
        self._sequences: Counter[TopicPartition] = Counter()

    def init(self) -> None:
        request = InitProducerIdRequest(transactional_id=self._id, transaction_timeout_ms=60_000)
        answer = self._until_answered(TRANSACTION, self._id, request)
        self._goes_on_as(answer)

    def write(self, place: TopicPartition, value: bytes) -> int:
        """The offset of the record. A batch that is sent again is the same batch."""
        batch = build_batch(
            [NewRecord(None, value)],
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=self._sequences[place],
            is_transactional=True,
        )
        request = ProduceRequest(
            transactional_id=self._id,
            acks=-1,
            timeout_ms=10_000,
            topic_data=[
                TopicProduceData(
                    name=place.topic,
                    partition_data=[PartitionProduceData(index=place.partition, records=batch)],
                )
            ],
        )

        def attempt() -> int:
            leader, _ = self._client.leader(place)
            answer = self._client.call(leader, request)
            row = answer.responses[0].partition_responses[0]
            _check(row.error_code, f"produce to {place}")
            return int(row.base_offset)

        offset = self._client.retrying(attempt, timeout_s=PATIENCE_S, topic=place.topic)
        self._sequences[place] += 1
        return offset

    def commit_offset(self, group: str, place: TopicPartition, offset: int) -> None:
        request = TxnOffsetCommitRequest(
            transactional_id=self._id,
            group_id=group,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name=place.topic,
                    partitions=[
                        TxnOffsetCommitRequestPartition(
                            partition_index=place.partition, committed_offset=offset, committed_metadata=""
                        )
                    ],
                )
            ],
        )
        self._until_answered(
            GROUP, group, request, error_of=lambda answer: answer.topics[0].partitions[0].error_code
        )

    def end(self, *, is_commit: bool) -> None:
        request = EndTxnRequest(
            transactional_id=self._id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=is_commit,
        )
        self._goes_on_as(self._until_answered(TRANSACTION, self._id, request))

    def _goes_on_as(self, told: Any) -> None:
        self.producer_id, self.epoch = told.producer_id, told.producer_epoch
        self._sequences.clear()

    def _until_answered(self, kind: int, key: str, request: Any, error_of: Any = None) -> Any:
        def attempt() -> Any:
            (row,) = self._client.call(
                ANY, FindCoordinatorRequest(coordinator_keys=[key], key_type=kind)
            ).coordinators
            _check(row.error_code, f"the coordinator of {key}")
            answer = self._client.call(row.node_id, request)
            _check(answer.error_code if error_of is None else error_of(answer), type(request).__name__)
            return answer

        return self._client.retrying(attempt, timeout_s=PATIENCE_S)


def finalised_level(client: SyncClient, broker: int) -> int:
    """Of `transaction.version`, as a client takes it from ApiVersions."""
    asked = ApiVersionsRequest(client_software_name="x", client_software_version="1")
    answer = client.call(broker, asked)
    levels = {one.name: one.max_version_level for one in answer.finalized_features}
    return int(levels.get("transaction.version", 0))


def _check(number: int, about: str) -> None:
    error = ErrorCode(number)
    if error:
        assert error in RETRIABLE, f"{about}: {error.name}"
        raise ProtocolError(error, f"{about}: {error.name}")
