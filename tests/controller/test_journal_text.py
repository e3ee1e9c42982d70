"""The journal's text made quickly, and in pieces, is the text."""

import json
from typing import Any

import pytest

from odradek.controller.broker_requests import UpdateMetadataPartition, UpdateMetadataRequest
from odradek.controller.core import ControllerCore
from odradek.controller.effects import CreatePartitionState, Effects, StateChange, WritePendingDeletions
from odradek.controller.events import Elected, Event, Requested, StopReplicaAnswered, Tick, WritesAnswered
from odradek.controller.journal import as_json, effects_as_json, event_from_json
from odradek.controller.journal_text import AT_ONCE, _Repeated, json_pieces, text_of
from odradek.controller.settle import always_stored
from odradek.controller.states import PartitionState
from odradek.model.cluster import LeaderAndIsr, ReplicaAssignment
from odradek.model.controller_requests import (
    AlterReassignmentsAsked,
    ControlledShutdownAsked,
    ElectLeadersAsked,
)
from odradek.model.error_codes import ErrorCode
from odradek.model.facts import (
    BrokersChanged,
    DeleteTopicsRequested,
    MetadataLoaded,
    StoredPartitionState,
    TopicAssignment,
    TopicsChanged,
)
from odradek.model.ids import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    TopicId,
    TopicPartition,
)
from tests.controller.world import registration

STATE = LeaderAndIsr(BrokerId(1), LeaderEpoch(0), (BrokerId(1), BrokerId(2)))
MANY = 3 * AT_ONCE + 1
PARTITIONS = [TopicPartition("t", number) for number in range(MANY)]
EPOCH = ControllerEpoch(3)


def _told(count: int) -> UpdateMetadataRequest:
    partitions = tuple(
        UpdateMetadataPartition(
            tp, TopicId(bytes(16)), EPOCH, BrokerId(1), LeaderEpoch(0), STATE.isr, 0, STATE.isr, ()
        )
        for tp in PARTITIONS[:count]
    )
    return UpdateMetadataRequest(BrokerId(1), BrokerEpoch(7), BrokerId(1), EPOCH, partitions, ())


VALUES: dict[str, Any] = {
    "small": Tick(),
    "nothing": Effects(),
    "many writes": Effects(writes=tuple(CreatePartitionState(tp, STATE, EPOCH) for tp in PARTITIONS)),
    "few large requests": Effects(requests=(_told(MANY), _told(2), _told(AT_ONCE), _told(AT_ONCE + 1))),
    "a snapshot": Elected(
        BrokerId(1),
        EPOCH,
        4,
        MetadataLoaded((), (), {tp: StoredPartitionState(STATE, EPOCH) for tp in PARTITIONS}),
        b"seed",
    ),
    "many errors and a set": StopReplicaAnswered(
        BrokerId(1),
        BrokerEpoch(7),
        ErrorCode.NONE,
        dict.fromkeys(PARTITIONS, ErrorCode.KAFKA_STORAGE_ERROR),
        frozenset(PARTITIONS),
    ),
    "a line": {"at_ms": 5, "event": Tick(), "writes": (), "changes": [_told(MANY)], "text": 'a"b'},
}


ODD: list[Any] = [
    None,
    True,
    False,
    -1,
    1.5,
    "",
    'a"b\\c\n\u00e9\u2028',
    b"\x00\xff",
    bytearray(b"\x01"),
    (),
    [],
    {},
    (1, (2, ()), "x"),
    frozenset({3, 1}),
    ErrorCode.KAFKA_STORAGE_ERROR,
    PartitionState.ONLINE,
    TopicPartition('a"b', 3),
    {TopicPartition("t", 1): None, 5: (ErrorCode.NONE, "")},
    Tick(),
    StateChange("partition", PartitionState.NEW, PartitionState.ONLINE, "why", PARTITIONS[0], None, STATE),
    LeaderAndIsr(BrokerId(1), LeaderEpoch(0), [1, 2]),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("value", ODD, ids=repr)
def test_every_kind_of_value_is_written_as_json_writes_it(value: Any) -> None:
    assert text_of(value) == json.dumps(as_json(value), separators=(",", ":"))


def test_whatever_a_controller_is_told_and_says_is_written_as_json_writes_it() -> None:
    """The life of two topics: made, led, moved, deleted, with a broker that dies and returns."""
    core = ControllerCore()
    steps = []
    three = tuple(registration(broker, 10 + broker) for broker in (1, 2, 3))
    replicas = ReplicaAssignment((BrokerId(1), BrokerId(2)))
    made = TopicAssignment("orders", TopicId(b"o" * 16), {0: replicas, 1: replicas})
    asked = Requested(7, AlterReassignmentsAsked({TopicPartition("orders", 0): (BrokerId(3), BrokerId(2))}))
    events: list[Event] = [
        Elected(BrokerId(1), EPOCH, 4, MetadataLoaded(three, (), {}), b"seed"),
        TopicsChanged(("orders",), (made,)),
        asked,
        Requested(8, ControlledShutdownAsked(BrokerId(2), BrokerEpoch(12))),
        BrokersChanged(three[:1]),
        BrokersChanged((three[0], registration(2, 99))),
        DeleteTopicsRequested(("orders",)),
    ]
    while events:
        event = events.pop(0)
        effects = core.step(event, 0)
        steps.append((event, effects))
        while effects.writes:
            answered = WritesAnswered(always_stored(effects.writes))
            effects = core.step(answered, 0)
            steps.append((answered, effects))
        assert effects.resign is None, effects.resign
        events[:0] = effects.follow_up
    assert {type(w).__name__ for _, effects in steps for w in effects.writes} >= {
        "CreatePartitionState",
        "WritePartitionState",
        "WriteTopicAssignment",
    }
    for event, effects in steps:
        assert json.loads(text_of(event)) == as_json(event)
        for name, value in effects_as_json(effects).items():
            assert text_of(getattr(effects, name)) == json.dumps(value, separators=(",", ":"))


def test_a_name_that_no_topic_can_have_takes_no_room_in_a_line_and_is_read_again() -> None:
    asked = TopicPartition("b" * 32_767, 3)
    for event in (
        Requested(1, ElectLeadersAsked(False, (asked,))),
        Requested(2, AlterReassignmentsAsked({asked: (BrokerId(1),)})),
    ):
        text = text_of(event)
        assert len(text) < 1_000
        again = event_from_json(json.loads(text))
        assert isinstance(again, Requested)
        (named,) = getattr(again.body, "partitions", None) or again.body.targets  # type: ignore[union-attr]
        assert (named.topic[:10], named.partition) == ("b" * 10, 3)


@pytest.mark.parametrize("name", VALUES)
def test_the_pieces_are_the_whole(name: str) -> None:
    pieces = list(json_pieces(VALUES[name]))
    assert "".join(pieces) == json.dumps(as_json(VALUES[name]), separators=(",", ":"))


@pytest.mark.parametrize("name", ["many writes", "few large requests", "a snapshot"])
def test_no_piece_is_about_more_than_it_may_be(name: str) -> None:
    """Each of these partitions is named once a piece."""
    assert max(piece.count('"t-') for piece in json_pieces(VALUES[name])) <= AT_ONCE


def test_a_journal_keeps_the_words_that_older_ones_have() -> None:
    """A type and a field that were renamed: lines are compared with those of before, and older versions read them."""
    kept = {TopicPartition("t", 0): TopicId(bytes(16))}
    write = WritePendingDeletions(BrokerId(3), kept)
    assert as_json(write)["type"] == "WriteStrays" and as_json(write)["strays"] == {"t-0": "00" * 16}
    assert json.loads(text_of(write)) == as_json(write)
    snapshot = MetadataLoaded((), (), {}, pending_deletions={BrokerId(3): kept})
    assert json.loads("".join(json_pieces(snapshot))) == as_json(snapshot)
    elected = Elected(BrokerId(1), ControllerEpoch(1), 0, snapshot)
    assert event_from_json(as_json(elected)) == elected and "pending_deletions" not in json.dumps(
        as_json(elected)
    )


def test_of_the_records_of_a_field_the_last_few_are_kept_as_text_and_nothing_that_may_change() -> None:
    kept = _Repeated()
    few, many = (1, 2), tuple(range(AT_ONCE + 1))
    assert kept.text(few) == "[1,2]" and kept._last.records is few
    assert json.loads(kept.text(many)) == list(many)
    assert kept._last.records is few, "a step about very many keeps no copy of them"
    growing = [3]
    assert kept.text(growing) == "[3]"
    growing.append(4)
    assert kept.text(growing) == "[3,4]"
