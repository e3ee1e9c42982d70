"""CreateTopics: what is checked, what is written, when it is answered."""

from time import process_time

import pytest

from odradek.broker import effects as fx
from odradek.broker.topic_creation import MOST_TOPICS
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import NO_TOPIC_ID
from odradek.protocol.messages import create_topics as ct
from tests.broker.topics import create, topic
from tests.broker.world import World, told


def test_create_topics_answers_when_every_partition_has_a_leader_here(world: World) -> None:
    config = ct.CreatableTopicConfig(name="retention.ms", value="1000")
    asked = create(world, topic("new", 2, 3, configs=[config]))
    (request,) = told(world, fx.StoreRequest)
    (new,) = request.question.topics
    assert (new.topic, new.config) == ("new", {"retention.ms": "1000"})
    assert sorted(new.assignment) == [0, 1]
    assert all(sorted(replicas) == [1, 2, 3] for replicas in new.assignment.values())
    broker = world[1].broker
    broker.answered(request.request_id, fx.TopicsWritten({"new": (ErrorCode.NONE, "")}), world.now_ms)
    world.lead(1, topic="new", topic_id=new.topic_id, index=0)
    assert not asked.is_answered, "partition 1 has no leader yet"
    world.lead(2, topic="new", topic_id=new.topic_id, index=1)
    (row,) = asked.message.topics
    assert (row.error_code, row.num_partitions, row.replication_factor) == (0, 2, 3)
    assert bytes(row.topic_id) == new.topic_id
    values = {c.name: (c.value, c.config_source) for c in row.configs}
    assert values["retention.ms"] == ("1000", 1)
    assert values["max.message.bytes"] == ("1048588", 5)


def test_create_topics_times_out_with_the_topic_made(world: World) -> None:
    asked = create(world, topic("new"))
    (request,) = told(world, fx.StoreRequest)
    world[1].broker.answered(
        request.request_id, fx.TopicsWritten({"new": (ErrorCode.NONE, "")}), world.now_ms
    )
    world.advance(4_990)
    assert not asked.is_answered
    world.advance(20)
    assert asked.message.topics[0].error_code == ErrorCode.REQUEST_TIMED_OUT


def test_what_the_store_refuses_is_answered_at_once(world: World) -> None:
    asked = create(world, topic("new"), topic("other"))
    (request,) = told(world, fx.StoreRequest)
    there = (ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'new' already exists.")
    broken = (ErrorCode.UNKNOWN_SERVER_ERROR, "no")
    world[1].broker.answered(
        request.request_id, fx.TopicsWritten({"new": there, "other": broken}), world.now_ms
    )
    world.settle()
    assert [(t.error_code, t.error_message) for t in asked.message.topics] == [there, broken]
    asked = create(world, topic("third"))
    (request,) = told(world, fx.StoreRequest)
    world[1].broker.answered(request.request_id, fx.StoreFailed("session lost"), world.now_ms)
    world.settle()
    assert asked.message.topics[0].error_message == "session lost"


@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        (topic("t"), ErrorCode.TOPIC_ALREADY_EXISTS),
        (topic(""), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("."), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("new", 0), ErrorCode.INVALID_PARTITIONS),
        (topic("new", -2), ErrorCode.INVALID_PARTITIONS),
        (topic("new", 1_000_000), ErrorCode.INVALID_PARTITIONS),
        (topic("new", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (topic("new", 1, 4), ErrorCode.INVALID_REPLICATION_FACTOR),
        (
            topic("new", configs=[ct.CreatableTopicConfig(name="nonsense", value="1")]),
            ErrorCode.INVALID_CONFIG,
        ),
        (
            topic("new", configs=[ct.CreatableTopicConfig(name="segment.bytes", value="x")]),
            ErrorCode.INVALID_CONFIG,
        ),
        (
            topic("new", configs=[ct.CreatableTopicConfig(name="segment.bytes", value=None)]),
            ErrorCode.INVALID_CONFIG,
        ),
        (
            topic(
                "new", 1, 1, assignments=[ct.CreatableReplicaAssignment(partition_index=0, broker_ids=[1])]
            ),
            ErrorCode.INVALID_REQUEST,
        ),
        *(
            (
                topic(
                    "new",
                    -1,
                    -1,
                    assignments=[
                        ct.CreatableReplicaAssignment(partition_index=p, broker_ids=brokers)
                        for p, brokers in rows
                    ],
                ),
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            )
            for rows in (
                [(1, [1])],
                [(0, [1, 1])],
                [(0, [])],
                [(0, [9])],
                [(0, [-1])],
                [(0, [1, 2]), (1, [1])],
                [(0, [1]), (0, [2])],
            )
        ),
    ],
)
def test_a_topic_that_cannot_be_is_refused_before_anything_is_written(
    world: World, wanted: ct.CreatableTopic, error: ErrorCode
) -> None:
    row = create(world, wanted).message.topics[0]
    assert row.error_code == error
    assert row.error_message
    assert told(world, fx.StoreRequest) == []


def test_names_that_differ_only_in_dots_and_underscores_collide(world: World) -> None:
    world.lead(1, isr=(1,), replicas=(1,), topic="a.b", topic_id=bytes([7] * 16))
    row = create(world, topic("a_b")).message.topics[0]
    assert row.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert "a.b" in row.error_message


def test_names_in_one_request_collide_as_those_of_two_would(world: World) -> None:
    asked = create(world, topic("a.b"), topic("a_b"), topic("a-b"))
    (request,) = told(world, fx.StoreRequest)
    assert [new.topic for new in request.question.topics] == ["a.b", "a-b"]
    answer_created(world, request)
    world.advance(5_100)
    refused = asked.message.topics[1]
    assert (refused.name, refused.error_code) == ("a_b", ErrorCode.INVALID_TOPIC_EXCEPTION)
    assert refused.error_message == "Topic 'a_b' collides with existing topics: a.b"


def test_the_same_topic_twice_in_one_request_is_refused_and_the_others_are_made(world: World) -> None:
    asked = create(world, topic("new"), topic("new", 3), topic("other"))
    (request,) = told(world, fx.StoreRequest)
    assert [new.topic for new in request.question.topics] == ["other"]
    answer_created(world, request)
    world.advance(5_100)
    assert [(r.name, r.error_code) for r in asked.message.topics] == [
        ("new", ErrorCode.INVALID_REQUEST),
        ("new", ErrorCode.INVALID_REQUEST),
        ("other", ErrorCode.REQUEST_TIMED_OUT),
    ]


def answer_created(world: World, request: fx.StoreRequest) -> None:
    assert isinstance(request.question, fx.CreateTopics)
    written = fx.TopicsWritten({new.topic: (ErrorCode.NONE, "") for new in request.question.topics})
    world[1].broker.answered(request.request_id, written, world.now_ms)


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_without_time_the_topic_is_made_and_the_answer_is_that_the_time_is_out(
    world: World, timeout_ms: int
) -> None:
    asked = create(world, topic("new"), timeout_ms=timeout_ms)
    (request,) = told(world, fx.StoreRequest)
    assert not asked.is_answered, "the store has not taken it"
    answer_created(world, request)
    assert asked.message.topics[0].error_code == ErrorCode.REQUEST_TIMED_OUT


def test_a_million_partitions_in_one_request_are_refused_at_once(world: World) -> None:
    """Whether in one topic, in many, by number or spelt out."""
    began = process_time()
    one = create(world, topic("new", 1_000_000), topic("small", 2), timeout_ms=0)
    (request,) = told(world, fx.StoreRequest)
    assert [new.topic for new in request.question.topics] == ["small"], "each topic has its own answer"
    answer_created(world, request)
    assert one.message.topics[0].error_code == ErrorCode.INVALID_PARTITIONS
    assert "at most 10000" in one.message.topics[0].error_message
    many = create(world, *(topic(f"t{n}", 10_000) for n in range(100)))
    assert {row.error_code for row in many.message.topics} == {ErrorCode.POLICY_VIOLATION}
    assert "Excessively large number of partitions per request" in many.message.topics[0].error_message
    rows = [ct.CreatableReplicaAssignment(partition_index=p, broker_ids=[1]) for p in range(11_000)]
    spelt = create(world, topic("spelt", -1, -1, assignments=rows))
    assert spelt.message.topics[0].error_code == ErrorCode.INVALID_PARTITIONS
    assert told(world, fx.StoreRequest) == []
    assert process_time() - began < 5


def test_very_many_topics_that_cannot_be_are_refused_without_looking_at_each_pair(world: World) -> None:
    """A list looked through for every topic would take minutes here."""
    began = process_time()
    same = create(world, *[topic("new")] * MOST_TOPICS)
    world.settle()
    assert {row.error_code for row in same.message.topics} == {ErrorCode.INVALID_REQUEST}
    twins = create(world, *(topic(f"a_{n}", 0) for n in range(MOST_TOPICS)))
    world.settle()
    assert {row.error_code for row in twins.message.topics} == {ErrorCode.INVALID_PARTITIONS}
    assert process_time() - began < 20


@pytest.mark.parametrize("name", ["__cluster_metadata"])
def test_the_name_of_the_metadata_log_is_nobodys(world: World, name: str) -> None:
    row = create(world, topic(name)).message.topics[0]
    assert (row.error_code, row.error_message) == (
        ErrorCode.INVALID_REQUEST,
        f"Creation of internal topic {name} is prohibited.",
    )


def test_the_topics_of_groups_and_transactions_can_be_made_like_others(world: World) -> None:
    create(world, topic("__consumer_offsets", 4))
    (request,) = told(world, fx.StoreRequest)
    assert [new.topic for new in request.question.topics] == ["__consumer_offsets"]


def test_validate_only_writes_nothing(world: World) -> None:
    row = create(world, topic("new", -1, -1), validate_only=True).message.topics[0]
    assert (row.error_code, row.error_message, row.num_partitions, row.replication_factor) == (0, None, 1, 1)
    assert row.topic_id == NO_TOPIC_ID, "a topic that is not made has none"
    assert told(world, fx.StoreRequest) == []


def test_a_new_controller_draws_no_replicas_before_its_broker_was_told_who_lives(world: World) -> None:
    """What is known here until then comes from the controller before it, which may be dead: a partition on it alone has no leader."""
    broker = world[1].broker
    broker.controller_status(True, 2, world.now_ms)
    asked = create(world, topic("new"))
    assert asked.message.topics[0].error_code == ErrorCode.NOT_CONTROLLER
    world.controller_epoch = 2
    world.notify_metadata([1])
    create(world, topic("new"))
    (request,) = told(world, fx.StoreRequest)
    assert [new.topic for new in request.question.topics] == ["new"]
