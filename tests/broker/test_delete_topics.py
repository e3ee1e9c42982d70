"""DeleteTopics: by name and by id, and when it is answered."""

from pathlib import Path

from odradek.broker import effects as fx
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import LEADER_DURING_DELETE, NO_TOPIC_ID, TopicPartition
from odradek.protocol.messages import delete_topics as dt
from tests.broker.world import T0, TOPIC_ID, Pending, World, told


def test_delete_topics_is_written_and_answered_when_the_topic_has_left_the_cache(world: World) -> None:
    request = dt.DeleteTopicsRequest(
        topics=[dt.DeleteTopicState(name=None, topic_id=TOPIC_ID), dt.DeleteTopicState(name="none")],
        timeout_ms=5_000,
    )
    asked = world.send(1, request, 6)
    (effect,) = told(world, fx.StoreRequest)
    assert effect.question == fx.DeleteTopics(("t",), {"t": TOPIC_ID})
    world[1].broker.answered(effect.request_id, fx.TopicsWritten({"t": (ErrorCode.NONE, "")}), world.now_ms)
    world.settle()
    assert not asked.is_answered
    world.leadership[T0]["leader"] = LEADER_DURING_DELETE
    world.notify_metadata()
    world.settle()
    gone, none = asked.message.responses
    assert (gone.name, gone.error_code, gone.error_message) == ("t", 0, None)
    assert (none.name, none.error_code) == ("none", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def deleted(world: World, name: str) -> Pending:
    """Asked for, and written."""
    request = dt.DeleteTopicsRequest(topics=[dt.DeleteTopicState(name=name)], timeout_ms=5_000)
    asked = world.send(1, request, 6)
    (effect,) = told(world, fx.StoreRequest)
    world[1].broker.answered(effect.request_id, fx.TopicsWritten({name: (ErrorCode.NONE, "")}), world.now_ms)
    world.settle()
    return asked


def test_the_deletion_of_a_topic_without_an_id_is_answered_when_it_has_left_the_cache(world: World) -> None:
    """One that an old controller made, and that has not been given an id yet."""
    world.lead(1, topic="old", topic_id=NO_TOPIC_ID, isr=(1,), replicas=(1,), is_new=True)
    asked = deleted(world, "old")
    assert not asked.is_answered
    world.leadership[TopicPartition("old", 0)]["leader"] = LEADER_DURING_DELETE
    world.notify_metadata()
    world.settle()
    assert asked.message.responses[0].error_code == ErrorCode.NONE


def test_a_topic_that_is_not_among_all_there_are_has_been_deleted(world: World) -> None:
    """This broker could not be told of the deletion, and is told of all there is."""
    asked = deleted(world, "t")
    del world.leadership[T0]
    world.notify_metadata()
    world.settle()
    assert not asked.is_answered
    world.notify_metadata(is_full=True)
    world.settle()
    assert asked.message.responses[0].error_code == ErrorCode.NONE


def test_a_topic_that_was_made_again_under_its_name_has_been_deleted(world: World) -> None:
    asked = deleted(world, "t")
    assert not asked.is_answered
    world.leadership[T0]["topic_id"] = bytes([9] * 16)
    world.notify_metadata()
    world.settle()
    assert asked.message.responses[0].error_code == ErrorCode.NONE


def test_deletion_can_be_switched_off(tmp_path: Path) -> None:
    world = World(tmp_path, brokers=(1,), delete_topic_enable="false")
    world.lead(1, isr=(1,), replicas=(1,))
    world[1].broker.controller_status(True, 1, world.now_ms)
    for version, error in ((1, ErrorCode.INVALID_REQUEST), (3, ErrorCode.TOPIC_DELETION_DISABLED)):
        request = dt.DeleteTopicsRequest(topic_names=["t"], timeout_ms=1_000)
        assert world.call(1, request, version).responses[0].error_code == error


def test_a_topic_is_deleted_by_its_name_or_its_id_and_not_by_both(world: World) -> None:
    states = [
        dt.DeleteTopicState(name="t", topic_id=TOPIC_ID),
        dt.DeleteTopicState(name=None, topic_id=bytes([9] * 16)),
    ]
    rows = world.call(1, dt.DeleteTopicsRequest(topics=states, timeout_ms=1_000), 6).responses
    assert [row.error_code for row in rows] == [ErrorCode.INVALID_REQUEST, ErrorCode.UNKNOWN_TOPIC_ID]
    assert rows[0].error_message == "Topic name and topic ID can not both be specified."
    both = [dt.DeleteTopicState(name="t"), dt.DeleteTopicState(name=None, topic_id=TOPIC_ID)]
    rows = world.call(1, dt.DeleteTopicsRequest(topics=both, timeout_ms=1_000), 6).responses
    assert {row.error_code for row in rows} == {ErrorCode.INVALID_REQUEST}
    assert told(world, fx.StoreRequest) == []


def test_without_time_the_deletion_is_written_and_the_answer_is_that_the_time_is_out(world: World) -> None:
    request = dt.DeleteTopicsRequest(topics=[dt.DeleteTopicState(name="t")], timeout_ms=0)
    asked = world.send(1, request, 6)
    (effect,) = told(world, fx.StoreRequest)
    world[1].broker.answered(effect.request_id, fx.TopicsWritten({"t": (ErrorCode.NONE, "")}), world.now_ms)
    assert asked.message.responses[0].error_code == ErrorCode.REQUEST_TIMED_OUT


def test_a_deletion_that_takes_longer_goes_on(world: World) -> None:
    request = dt.DeleteTopicsRequest(topics=[dt.DeleteTopicState(name="t")], timeout_ms=1_000)
    asked = world.send(1, request, 6)
    (effect,) = told(world, fx.StoreRequest)
    world[1].broker.answered(effect.request_id, fx.TopicsWritten({"t": (ErrorCode.NONE, "")}), world.now_ms)
    world.advance(900)
    assert not asked.is_answered
    world.advance(200)
    row = asked.message.responses[0]
    assert (row.error_code, row.error_message) == (
        ErrorCode.REQUEST_TIMED_OUT,
        "The deletion was accepted and goes on.",
    )


def test_thousands_of_topics_are_looked_at_some_in_a_turn(world: World) -> None:
    """And written together: `t` is the last of them."""
    names = [*(f"none-{number}" for number in range(1_400)), "t"]
    asked = world.send(1, dt.DeleteTopicsRequest(topic_names=names, timeout_ms=0), 5)
    assert not [one for one in world[1].broker.take_effects() if isinstance(one, fx.StoreRequest)]
    while world[1].broker.go_on(world.now_ms):
        pass
    (effect,) = told(world, fx.StoreRequest)
    assert effect.question == fx.DeleteTopics(("t",))
    world[1].broker.answered(effect.request_id, fx.TopicsWritten({"t": (ErrorCode.NONE, "")}), world.now_ms)
    world.settle()
    assert [row.name for row in asked.message.responses] == names
    assert [row.error_code for row in asked.message.responses] == [
        *[ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 1_400,
        ErrorCode.REQUEST_TIMED_OUT,
    ]
