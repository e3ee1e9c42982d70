"""AlterPartition (key 56), versions 0-3. Only the controller answers; others NOT_CONTROLLER.

A leader proposes another ISR (KIP-497); the controller checks, writes and answers per partition with the leadership
as it is now.

v0 the first (KIP-497).
v1 leader recovery state (KIP-704).
v2 topic ids instead of names; INELIGIBLE_REPLICA, NEW_LEADER_ELECTED (KIP-841).
v3 broker epochs of the members (KIP-903), -1 where the leader does not know them.
"""

from typing import TYPE_CHECKING

from odradek.broker.answers import Answer, CloseConnection, Park, Reply
from odradek.model.controller_requests import (
    AlterPartitionAnswer,
    AlterPartitionAsked,
    AlterPartitionItem,
    AlterPartitionResult,
    IsrMember,
)
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import (
    UNKNOWN_BROKER_EPOCH,
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    PartitionEpoch,
    TopicId,
)
from odradek.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
)

if TYPE_CHECKING:
    from odradek.broker.core import Broker
    from odradek.broker.request import Request

FIRST_BY_ID = 2
FIRST_WITH_EPOCHS = 3


def handle(broker: "Broker", request: "Request", now_ms: int) -> Answer:
    version = request.api_version
    asked = AlterPartitionRequest.decode(version, request.body, budget=request.budget)
    if not broker.is_controller:
        return Reply([AlterPartitionResponse(error_code=ErrorCode.NOT_CONTROLLER).encode(version)])
    leader, leaders_epoch = BrokerId(asked.broker_id), BrokerEpoch(asked.broker_epoch)
    if broker.proposal_order.is_late(leader, leaders_epoch, request.correlation_id):
        # Nobody waits for it: its connection was given up. Who waits after all asks with a new number.
        return CloseConnection(f"AlterPartition of broker {leader} comes late: a later one was read already")
    by_id = version >= FIRST_BY_ID
    items = tuple(
        AlterPartitionItem(
            topic=None if by_id else topic.topic_name,
            topic_id=TopicId(bytes(topic.topic_id)) if by_id else None,
            partition=data.partition_index,
            leader_epoch=LeaderEpoch(data.leader_epoch),
            partition_epoch=PartitionEpoch(data.partition_epoch),
            new_isr=_members(version, data),
            leader_recovery_state=data.leader_recovery_state,
        )
        for topic in asked.topics
        for data in topic.partitions
    )
    park = Park()

    def answered(answer: AlterPartitionAnswer, later_ms: int) -> None:
        park.answer(lambda: Reply([_response(answer).encode(version)]))

    broker.ask_controller(AlterPartitionAsked(version, leader, leaders_epoch, items), answered)
    return park


def _members(version: int, data: AlterPartitionRequestPartitionData) -> tuple[IsrMember, ...]:
    if version < FIRST_WITH_EPOCHS:
        return tuple(IsrMember(BrokerId(member), UNKNOWN_BROKER_EPOCH) for member in data.new_isr)
    return tuple(
        IsrMember(BrokerId(member.broker_id), BrokerEpoch(member.broker_epoch))
        for member in data.new_isr_with_epochs
    )


def _response(answer: AlterPartitionAnswer) -> AlterPartitionResponse:
    topics: dict[tuple[str | None, TopicId | None], AlterPartitionResponseTopicData] = {}
    for outcome in answer.partitions:
        named = outcome.topic_partition
        key = named.topic if named is not None else None, outcome.topic_id
        topic = topics.get(key)
        if topic is None:
            topic = topics[key] = AlterPartitionResponseTopicData(
                topic_name=key[0] or "", topic_id=outcome.topic_id
            )
        topic.partitions.append(_row(outcome))
    return AlterPartitionResponse(error_code=answer.error, topics=list(topics.values()))


def _row(outcome: AlterPartitionResult) -> AlterPartitionResponsePartitionData:
    row = AlterPartitionResponsePartitionData(partition_index=outcome.partition, error_code=outcome.error)
    leadership = outcome.leader_and_isr
    if leadership is not None:
        row.leader_id = leadership.leader
        row.leader_epoch = leadership.leader_epoch
        row.isr = list(leadership.isr)
        row.leader_recovery_state = leadership.leader_recovery_state
        row.partition_epoch = leadership.partition_epoch
        row.eligible_leader_replicas = list(leadership.elr)
    return row
