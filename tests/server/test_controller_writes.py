"""Writes of the controller as groups for the store, and what stood in the way of one as the fact it is."""

from dataclasses import replace

import pytest

from odradek.controller import events
from odradek.controller.effects import (
    CreatePartitionState,
    RemovePreferredElectionNode,
    RemoveTopic,
    RemoveTopicConfig,
    RemoveTopicDeletion,
    Write,
    WritePartitionState,
    WritePendingDeletions,
    WriteProducerIdBlock,
    WriteReassignmentNode,
    WriteTopicAssignment,
)
from odradek.model.cluster import LeaderAndIsr, ReplicaAssignment
from odradek.model.facts import ProducerIdBlock, StoredPartitionState, TopicAssignment, UnreadableNode
from odradek.model.ids import BrokerEpoch, BrokerId, ControllerEpoch, LeaderEpoch, TopicId, TopicPartition
from odradek.server.controller_writes import decode_answers, encode_writes
from odradek.store import api, layout

T0 = TopicPartition("t", 0)
TOPIC_ID = TopicId(b"t" * 16)
LED = LeaderAndIsr(BrokerId(2), LeaderEpoch(7), (BrokerId(2), BrokerId(1)), 3)
EPOCHS = (BrokerEpoch(22), BrokerEpoch(21))
PARTITIONS = {0: ReplicaAssignment((BrokerId(2), BrokerId(1)))}
BLOCK = ProducerIdBlock(BrokerId(1), 1_000, 1_999, 4)
SET_STATE = WritePartitionState(T0, LED, ControllerEpoch(5), 3, EPOCHS)
CREATE_STATE = CreatePartitionState(T0, LED, ControllerEpoch(5), EPOCHS)
SET_TOPIC = WriteTopicAssignment("t", TOPIC_ID, PARTITIONS, 2)
SET_BLOCK = WriteProducerIdBlock(BLOCK, 4)
STATE_PATH, TOPIC_PATH = layout.state_path(T0), layout.topic_path("t")


def current(write: Write, path: str, value: bytes | None, version: int = 9) -> object:
    """What the core is told of, where this stood in the way of that write."""
    (answer,) = decode_answers([write], [api.Conflict(path, value, version)]).answers
    assert isinstance(answer, events.Conflict)
    return answer.current


def test_every_write_is_a_group_of_its_own_in_the_order_of_the_writes() -> None:
    writes: list[Write] = [
        SET_STATE,
        SET_TOPIC,
        SET_BLOCK,
        RemoveTopicConfig("t"),
        RemoveTopicDeletion("t"),
        RemovePreferredElectionNode(),
        WriteReassignmentNode({T0: (BrokerId(1), BrokerId(2))}),
        WritePendingDeletions(BrokerId(1), {T0: TOPIC_ID}),
        RemoveTopic("t"),
        CREATE_STATE,
    ]
    groups = encode_writes(writes)
    paths = [group.ops[-1].path for group in groups]
    assert paths == [
        STATE_PATH,
        TOPIC_PATH,
        layout.PRODUCER_ID_BLOCK,
        layout.config_path("topics", "t"),
        layout.delete_topic_path("t"),
        layout.PREFERRED_ELECTION,
        layout.REASSIGN_PARTITIONS,
        "/odradek/strays/1",
        TOPIC_PATH,
        STATE_PATH,
    ]
    expected = [getattr(group.ops[-1], "version", None) for group in groups[:3]]
    assert expected == [3, 2, 4]


def test_answers_are_told_apart() -> None:
    told = decode_answers([SET_STATE, SET_TOPIC, SET_BLOCK], [api.Stored(4), api.Fenced(), api.Stored(4)])
    assert told.answers == (events.Stored(4), events.Fenced(), events.Stored(4))


@pytest.mark.parametrize("write", [SET_STATE, CREATE_STATE])
def test_a_state_that_stood_in_the_way_is_told_as_it_stands(write: Write) -> None:
    data = layout.encode_partition_state(LED, ControllerEpoch(6), EPOCHS)
    found = current(write, STATE_PATH, data)
    assert isinstance(found, StoredPartitionState)
    assert found.leader_and_isr == replace(LED, partition_epoch=9)
    assert (found.controller_epoch, found.isr_broker_epochs) == (6, EPOCHS)


@pytest.mark.parametrize("write", [SET_STATE, CREATE_STATE])
def test_where_a_parent_is_missing_or_the_node_itself_there_is_no_state(write: Write) -> None:
    assert current(write, TOPIC_PATH, b"{}") is None
    assert current(write, STATE_PATH, None, -1) is None


def test_an_assignment_and_a_block_of_producer_ids_are_told_with_their_version() -> None:
    node = TopicAssignment("t", TOPIC_ID, PARTITIONS, 0)
    assert current(SET_TOPIC, TOPIC_PATH, layout.encode_topic(node)) == TopicAssignment(
        "t", TOPIC_ID, PARTITIONS, 9
    )
    block = layout.encode_producer_id_block(BLOCK)
    assert current(SET_BLOCK, layout.PRODUCER_ID_BLOCK, block) == ProducerIdBlock(
        BrokerId(1), 1_000, 1_999, 9
    )


@pytest.mark.parametrize(("write", "path"), [(SET_STATE, STATE_PATH), (SET_TOPIC, TOPIC_PATH)])
def test_what_cannot_be_read_is_told_with_its_path(write: Write, path: str) -> None:
    found = current(write, path, b"no JSON")
    assert isinstance(found, UnreadableNode) and found.path == path and found.topic == "t"


def test_of_what_the_core_does_not_ask_nothing_is_told() -> None:
    assert current(RemoveTopic("t"), TOPIC_PATH, b"{}") is None
