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

from functools import partial
from typing import TYPE_CHECKING

from odradek.broker.answers import Answer, Park, Reply
from odradek.broker.coordinator_calls import ask_one
from odradek.broker.large_commits import refusal_of_large
from odradek.broker.transaction_questions import Errors, Question, ask_coordinator, told_to_committer
from odradek.broker.transactional_produce import ATTEMPTS
from odradek.broker.verifications import Verification, Writer
from odradek.coordinator.refusals import refuse
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.model.topic_names import GROUPS_TOPIC
from odradek.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from odradek.replication.partition import Partition

if TYPE_CHECKING:
    from odradek.broker.core import Broker
    from odradek.broker.request import Request

NO_SEQUENCE = -1
FIRST_THAT_ADDS = 5


def handle(broker: "Broker", request: "Request", now_ms: int) -> Answer:
    refusal = refusal_of_large(broker, request, TxnOffsetCommitRequest)
    if refusal is not None:
        return refusal
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
    question = Question(
        asked.transactional_id, asked.producer_id, asked.producer_epoch, frozenset((place,)), is_adding
    )
    checked = _Checked(broker, request.kept(), asked, partition, writer, question)
    checked.ask(ATTEMPTS, now_ms)
    park = checked.park
    return park if park.result is None else park.result


class _Checked:
    """A commit whose transaction the coordinator is asked about first. Nothing of it refers back to it: what is answered is let go at
    once, with all its rows."""

    def __init__(
        self,
        broker: "Broker",
        own: "Request",
        asked: TxnOffsetCommitRequest,
        partition: Partition,
        writer: Writer,
        question: Question,
    ) -> None:
        self.park = Park()
        self._broker = broker
        self._own = own
        self._asked = asked
        self._partition = partition
        self._writer = writer
        self._question = question

    def ask(self, attempts: int, now_ms: int) -> None:
        is_adding = self._question.is_adding
        verification = self._broker.verifications.begin(self._partition, self._writer, is_adding=is_adding)
        ask_coordinator(self._broker, self._question, partial(self._told, attempts, verification), now_ms)

    def _told(self, attempts: int, verification: Verification, errors: Errors, now_ms: int) -> None:
        broker, partition, version = self._broker, self._partition, self._own.api_version
        error = told_to_committer(errors[partition.topic_partition], version)
        if not error and not broker.verifications.still_holds(partition, self._writer, verification):
            if self._question.is_adding and attempts > 1:
                return self.ask(attempts - 1, now_ms)
            is_of_this_term = verification.leader_epoch == partition.leader_epoch
            error = ErrorCode.INVALID_TXN_STATE if is_of_this_term else ErrorCode.NOT_COORDINATOR
        asked, own = self._asked, self._own
        if error:
            return self.park.answer(lambda: Reply([refuse(asked, version, error).encode(version)]))
        return self.park.answer(lambda: ask_one(broker.groups, own, asked, asked.group_id, now_ms))
