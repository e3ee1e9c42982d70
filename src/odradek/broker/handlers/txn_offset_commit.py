"""TxnOffsetCommit (key 28), versions 0-5.

Positions of a group inside a transaction: they count when its marker stands in the group's partition of the groups'
topic. Like any transactional write it is taken only if the coordinator of the transaction knows of it.

v0 the first (KIP-98).
v1 the response leaves before the client is throttled (KIP-219).
v2 leader epoch of the last record read (KIP-320).
v3 flexible; member and generation (KIP-447).
v4 TRANSACTION_ABORTABLE (KIP-890).
v5 the group's partition is added to the transaction by the broker (KIP-890).
"""

from typing import TYPE_CHECKING

from odradek.broker.answers import Answer, Park, Reply
from odradek.broker.coordinator_calls import ask_one
from odradek.broker.transaction_questions import Errors, Question, ask_coordinator, told_to_committer
from odradek.broker.transactional_produce import ATTEMPTS
from odradek.broker.verifications import Writer
from odradek.coordinator.refusals import refuse
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.model.topic_names import GROUPS_TOPIC
from odradek.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

if TYPE_CHECKING:
    from odradek.broker.core import Broker
    from odradek.broker.request import Request

NO_SEQUENCE = -1
FIRST_THAT_ADDS = 5


def handle(broker: "Broker", request: "Request", now_ms: int) -> Answer:
    version = request.api_version
    asked = TxnOffsetCommitRequest.decode(version, request.body, budget=request.budget)
    place = TopicPartition(GROUPS_TOPIC, broker.groups.index_of(asked.group_id))
    partition = broker.replicas.partitions.get(place)
    writer = Writer(asked.producer_id, asked.producer_epoch, NO_SEQUENCE)
    is_adding = version >= FIRST_THAT_ADDS
    needs_no_question = (
        place.partition not in broker.groups.shards
        or partition is None
        or broker.verifications.needs_none(partition, writer, is_adding=is_adding)
        or not (is_adding or broker.settings.transaction_partition_verification_enable)
    )
    if partition is None or needs_no_question:
        return ask_one(broker.groups, request, asked, asked.group_id, now_ms)
    park = Park()
    own = request.kept()
    question = Question(
        asked.transactional_id, asked.producer_id, asked.producer_epoch, frozenset((place,)), is_adding
    )

    def ask(attempts: int, ask_ms: int) -> None:
        verification = broker.verifications.begin(partition, writer, is_adding=is_adding)

        def told(errors: Errors, later_ms: int) -> None:
            error = told_to_committer(errors[place], version)
            if not error and not broker.verifications.still_holds(partition, writer, verification):
                if is_adding and attempts > 1:
                    return ask(attempts - 1, later_ms)
                is_of_this_term = verification.leader_epoch == partition.leader_epoch
                error = ErrorCode.INVALID_TXN_STATE if is_of_this_term else ErrorCode.NOT_COORDINATOR
            if error:
                return park.answer(lambda: Reply([refuse(asked, version, error).encode(version)]))
            return park.answer(lambda: ask_one(broker.groups, own, asked, asked.group_id, later_ms))

        ask_coordinator(broker, question, told, ask_ms)

    ask(ATTEMPTS, now_ms)
    return park if park.result is None else park.result
