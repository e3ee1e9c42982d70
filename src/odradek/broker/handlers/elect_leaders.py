"""ElectLeaders (key 43), versions 0-2 (KIP-183, KIP-460). Only the controller answers; others NOT_CONTROLLER.

Preferred (0) or unclean (1) elections, of the partitions named or, with null, of all. Answered when this broker's
cache shows what was elected: UpdateMetadata is on its way by then. What it does not show when the time is up is
REQUEST_TIMED_OUT, and elected all the same. Asked for all, partitions that needed no election are left out.

Apache says NOT_CONTROLLER in the partitions alone, which for null are none, so its client takes that for
success; ours says it at the top too.

v0 preferred elections (KIP-183).
v1 election type, top-level error code (KIP-460).
v2 flexible.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from odradek.broker.answers import Answer, Park
from odradek.broker.aside import made_where_short
from odradek.broker.controller_wait import ask_controller
from odradek.broker.leader_wait import TopicWait
from odradek.model.controller_requests import ElectLeadersAnswer, ElectLeadersAsked
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import LeaderEpoch, TopicPartition
from odradek.model.topic_names import LONGEST_NAME
from odradek.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

if TYPE_CHECKING:
    from odradek.broker.core import Broker
    from odradek.broker.request import Request

PREFERRED, UNCLEAN = 0, 1
# Rows of an answer that is made at once, a millisecond or two; a thread makes longer ones.
MOST_AT_ONCE = 1_000

Results = dict[TopicPartition, tuple[ErrorCode, str]]
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist."


def handle(broker: "Broker", request: "Request", now_ms: int) -> Answer:
    version = request.api_version
    asked = ElectLeadersRequest.decode(version, request.body, budget=request.budget)
    partitions = _named(asked)

    def refuse(error: ErrorCode, message: str = "") -> Answer:
        rows = dict.fromkeys(partitions or (), (error, message))
        return _answer(broker, version, error, rows, broker.now_ms)

    if asked.election_type not in (PREFERRED, UNCLEAN):
        return refuse(
            ErrorCode.INVALID_REQUEST,
            f"election type {asked.election_type}: expected 0 (preferred) or 1 (unclean)",
        )
    if not broker.is_controller:
        return refuse(ErrorCode.NOT_CONTROLLER)
    # No topic has so long a name; told to the controller, it would stand in its journal.
    unknown = dict.fromkeys((one for one in partitions or () if len(one.topic) > LONGEST_NAME), UNKNOWN)
    park = Park()

    def answered(answer: ElectLeadersAnswer, later_ms: int) -> None:
        if answer.error is not ErrorCode.NONE and not answer.partitions:
            park.answer(lambda: refuse(answer.error))
            return
        answer = answer._replace(partitions={**answer.partitions, **unknown})
        _wait_until_known(broker, answer, version, park, now_ms + max(asked.timeout_ms, 0), later_ms)

    ask_controller(
        broker,
        ElectLeadersAsked(
            asked.election_type == UNCLEAN,
            partitions and tuple(one for one in partitions if one not in unknown),
        ),
        answered=answered,
        timed_out=lambda: park.answer(lambda: refuse(ErrorCode.REQUEST_TIMED_OUT)),
        timeout_ms=asked.timeout_ms,
        now_ms=now_ms,
    )
    return park


def _named(asked: ElectLeadersRequest) -> tuple[TopicPartition, ...] | None:
    if asked.topic_partitions is None:
        return None
    return tuple(
        TopicPartition(row.topic, index) for row in asked.topic_partitions for index in row.partitions
    )


def _wait_until_known(
    broker: "Broker",
    answer: ElectLeadersAnswer,
    version: int,
    park: Park,
    deadline_ms: int,
    now_ms: int,
) -> None:
    results: Results = dict(answer.partitions)
    elected: dict[str, dict[int, LeaderEpoch]] = {}
    for (topic, index), epoch in answer.elected.items():
        elected.setdefault(topic, {})[index] = epoch

    def unknown(topic: str) -> Iterable[int]:
        """Elected, and not in our cache at that leader epoch or a later one."""
        for index, epoch in elected[topic].items():
            known = broker.metadata.partition(topic, index)
            if known is None or known.leader_epoch < epoch:
                yield index

    def reply(late: list[str], later_ms: int) -> Answer:
        for topic in late:
            for index in unknown(topic):
                results[TopicPartition(topic, index)] = (ErrorCode.REQUEST_TIMED_OUT, "")
        return _answer(broker, version, answer.error, results, later_ms)

    wait = TopicWait(
        broker,
        sorted(elected),
        is_over=lambda topic: not any(True for _ in unknown(topic)),
        reply=reply,
        park=park,
    )
    wait.start(deadline_ms, now_ms)


def _answer(broker: "Broker", version: int, error: ErrorCode, results: Results, now_ms: int) -> Answer:
    """`results` stay as they are."""

    def encode() -> bytes:
        return _response(error, results).encode(version)

    return made_where_short(broker.aside, encode, now_ms, is_short=len(results) <= MOST_AT_ONCE)


def _response(error: ErrorCode, results: Results) -> ElectLeadersResponse:
    topics: dict[str, ReplicaElectionResult] = {}
    for (topic, index), (code, message) in sorted(results.items()):
        row = topics.setdefault(topic, ReplicaElectionResult(topic=topic))
        row.partition_result.append(
            PartitionResult(partition_id=index, error_code=code, error_message=message or None)
        )
    return ElectLeadersResponse(error_code=error, replica_election_results=list(topics.values()))
