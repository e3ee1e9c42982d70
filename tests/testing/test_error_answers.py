"""Answers made of tables alone, held against the requests that were recorded from Apache Kafka."""

from odradek.model.error_codes import ErrorCode
from odradek.protocol.api_keys import SERVED
from odradek.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from odradek.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from odradek.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.schema import Request
from odradek.testing.error_answers import (
    ONLY_ASKED,
    Target,
    answer_with,
    is_empty,
    joined,
    put,
    without,
)
from odradek.testing.injections import CANNOT_MIRROR
from tests.protocol.golden import Vector, vectors
from tests.support import each

ERROR = int(ErrorCode.NOT_ENOUGH_REPLICAS)
REQUESTS = [
    vector
    for vector in vectors()
    if vector.type == "request" and vector.key in SERVED and vector.key not in CANNOT_MIRROR | ONLY_ASKED
]


@each(REQUESTS, lambda vector: vector.name)
def test_whatever_was_asked_for_has_failed_in_an_answer_that_can_be_sent(vector: Vector) -> None:
    request = vector.message.decode(vector.version, vector.body)
    assert isinstance(request, Request)

    answer = answer_with(request, vector.version, ERROR)

    assert type(answer).decode(vector.version, answer.encode(vector.version)) == answer
    codes = codes_in(answer.to_json(vector.version))
    assert ERROR in codes or (not codes and asks_for_nothing(vector.json)), codes
    assert getattr(answer, "throttle_time_ms", 0) == 0, "nobody is told to wait"


def test_each_partition_of_each_topic_is_named_with_its_error() -> None:
    request = produce({"orders": (0, 2), "audit": (1,)})

    answer = answer_with(request, 9, ERROR)

    assert found_in(answer.responses) == {("orders", 0): ERROR, ("orders", 2): ERROR, ("audit", 1): ERROR}


def test_numbers_in_the_place_of_elements_are_partitions() -> None:
    topic = AddPartitionsToTxnTopic(name="orders", partitions=[0, 2])
    asked = AddPartitionsToTxnTransaction(transactional_id="t", topics=[topic])
    old = AddPartitionsToTxnRequest(v3_and_below_transactional_id="t", v3_and_below_topics=[topic])

    (result,) = answer_with(old, 3, ERROR).results_by_topic_v3_and_below
    answer = answer_with(AddPartitionsToTxnRequest(transactions=[asked]), 4, ERROR)

    assert result.name == "orders"
    assert [(p.partition_index, p.partition_error_code) for p in result.results_by_partition] == [
        (0, ERROR),
        (2, ERROR),
    ]
    assert answer.error_code == ERROR, "what stands outermost is looked at first"
    assert answer.results_by_transaction[0].transactional_id == "t"


def test_keys_are_repeated_and_what_has_no_elements_fails_as_a_whole() -> None:
    (coordinator,) = answer_with(FindCoordinatorRequest(coordinator_keys=["billing"]), 4, ERROR).coordinators
    answer = answer_with(JoinGroupRequest(group_id="billing", member_id="m"), 5, ERROR)

    assert (coordinator.key, coordinator.error_code) == ("billing", ERROR)
    assert isinstance(answer, JoinGroupResponse)
    assert (answer.error_code, answer.member_id) == (ERROR, "m")


def test_a_part_is_taken_out_by_topic_or_by_partition() -> None:
    request = produce({"orders": (0, 2), "audit": (1,)})

    part = without(request, 9, Target("orders", partition=2))

    assert isinstance(part, ProduceRequest)
    assert partitions_of(part) == {("orders", 2)}
    assert partitions_of(request) == {("orders", 0), ("audit", 1)}
    assert without(request, 9, Target("orders", partition=7)) is None
    assert not is_empty(request, 9)
    assert partitions_of(without(request, 9, Target("audit"))) == {("audit", 1)}
    assert partitions_of(without(request, 9, Target("orders"))) == {("orders", 0)}
    assert is_empty(request, 9)


def test_of_numbers_in_the_place_of_elements_one_is_taken_out() -> None:
    request = AddPartitionsToTxnRequest(
        v3_and_below_topics=[AddPartitionsToTxnTopic(name="orders", partitions=[0, 1])]
    )

    part = without(request, 3, Target("orders", partition=1))

    assert isinstance(part, AddPartitionsToTxnRequest)
    assert part.v3_and_below_topics[0].partitions == [1]
    assert request.v3_and_below_topics[0].partitions == [0]


def test_what_a_transaction_asks_of_a_topic_is_taken_out_and_joined_again() -> None:
    topics = [AddPartitionsToTxnTopic(name=name, partitions=[0, 1]) for name in ("orders", "audit")]
    asked = AddPartitionsToTxnTransaction(transactional_id="t", topics=topics)
    request = AddPartitionsToTxnRequest(transactions=[asked])
    assert without(request, 5, Target("nobody")) is None

    part = without(request, 5, Target("orders", partition=1))

    assert isinstance(part, AddPartitionsToTxnRequest)
    assert [(t.name, t.partitions) for t in part.transactions[0].topics] == [("orders", [1])]
    assert [(t.name, t.partitions) for t in request.transactions[0].topics] == [
        ("orders", [0]),
        ("audit", [0, 1]),
    ]
    whole = joined(answer_with(request, 5, 0), answer_with(part, 5, ERROR), 5)
    (result,) = whole.results_by_transaction
    assert [topic.name for topic in result.topic_results] == ["orders", "audit"]
    assert [p.partition_index for p in result.topic_results[0].results_by_partition] == [0, 1]


def test_two_answers_become_one_and_a_topic_stands_in_it_once() -> None:
    failed = answer_with(produce({"orders": (2,), "audit": (1,)}), 9, ERROR)

    whole = joined(answer_with(produce({"orders": (0,)}), 9, 0), failed, 9)

    assert [topic.name for topic in whole.responses] == ["orders", "audit"]
    assert found_in(whole.responses) == {("orders", 0): 0, ("orders", 2): ERROR, ("audit", 1): ERROR}


def test_an_error_of_a_session_stands_above_and_any_other_at_each_partition() -> None:
    answer = fetched()

    assert put(answer, 12, ErrorCode.FETCH_SESSION_ID_NOT_FOUND, Target()) == 1
    assert answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND

    answer = fetched()
    assert put(answer, 12, ERROR, Target()) == 3
    assert answer.error_code == 0


def test_only_what_is_about_the_target_is_changed() -> None:
    answer = fetched()

    assert put(answer, 12, ERROR, Target("orders", partition=1)) == 1

    assert [[p.error_code for p in topic.partitions] for topic in answer.responses] == [[0, ERROR], [0]]
    assert put(answer, 12, ERROR, Target("nobody")) == 0


def test_a_topic_is_known_by_its_id_where_it_has_no_name() -> None:
    answer = fetched(by_id=True)

    assert put(answer, 13, ERROR, Target("orders", b"o" * 16, partition=0)) == 1
    assert put(answer, 13, ERROR, Target("orders", None, partition=0)) == 0

    assert [[p.error_code for p in topic.partitions] for topic in answer.responses] == [[ERROR, 0], [0]]


def test_a_topic_that_has_an_error_of_its_own_gets_it_there() -> None:
    topic = MetadataResponseTopic(name="orders", partitions=[MetadataResponsePartition(partition_index=0)])
    answer = MetadataResponse(topics=[topic])

    put(answer, 9, ERROR, Target("orders"))
    assert (topic.error_code, topic.partitions[0].error_code) == (ERROR, 0)

    topic.error_code = 0
    put(answer, 9, ERROR, Target("orders", partition=0))
    assert (topic.error_code, topic.partitions[0].error_code) == (0, ERROR)


def test_an_offset_commit_fails_partition_by_partition() -> None:
    topic = OffsetCommitRequestTopic(
        name="orders", partitions=[OffsetCommitRequestPartition(partition_index=3, committed_offset=7)]
    )

    (found,) = answer_with(OffsetCommitRequest(group_id="g", topics=[topic]), 8, ERROR).topics

    assert (found.name, found.partitions[0].partition_index, found.partitions[0].error_code) == (
        "orders",
        3,
        ERROR,
    )


def codes_in(value: object) -> set[object]:
    """Every error code of an answer as JSON."""
    if isinstance(value, list):
        return {code for element in value for code in codes_in(element)}
    if not isinstance(value, dict):
        return set()
    own = {found for key, found in value.items() if key in ("errorCode", "partitionErrorCode")}
    return own.union(*(codes_in(found) for found in value.values()))


def asks_for_nothing(request: object) -> bool:
    """Its list is empty or null, or all there is in it are empty lists."""
    if not isinstance(request, dict):
        return False
    lists = [value for value in request.values() if isinstance(value, list | None)]
    return bool(lists) and all(asks_for_nothing(element) for element in lists[0] or ())


def produce(topics: dict[str, tuple[int, ...]]) -> ProduceRequest:
    return ProduceRequest(
        acks=-1,
        topic_data=[
            TopicProduceData(
                name=name,
                partition_data=[PartitionProduceData(index=index, records=b"") for index in partitions],
            )
            for name, partitions in topics.items()
        ],
    )


def fetched(*, by_id: bool = False) -> FetchResponse:
    def topic(name: str, partitions: int) -> FetchableTopicResponse:
        named = {"topic_id": name[0].encode() * 16} if by_id else {"topic": name}
        return FetchableTopicResponse(
            **named, partitions=[PartitionData(partition_index=n) for n in range(partitions)]
        )

    return FetchResponse(responses=[topic("orders", 2), topic("audit", 1)])


def partitions_of(request) -> set[tuple[str, int]]:
    return {(topic.name, data.index) for topic in request.topic_data for data in topic.partition_data}


def found_in(responses) -> dict[tuple[str, int], int]:
    return {(t.name, p.index): p.error_code for t in responses for p in t.partition_responses}
