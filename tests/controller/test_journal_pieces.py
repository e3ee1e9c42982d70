"""The journal's line in pieces is the line."""

import json
from typing import Any

import pytest

from odradek.controller.effects import (
    CreatePartitionState,
    Effects,
    UpdateMetadataPartition,
    UpdateMetadataRequest,
)
from odradek.controller.events import Elected, StopReplicaAnswered, Tick
from odradek.controller.journal import AT_ONCE, as_json, json_pieces
from odradek.model.cluster import LeaderAndIsr
from odradek.model.error_codes import ErrorCode
from odradek.model.facts import MetadataLoaded, StoredPartitionState
from odradek.model.ids import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    TopicId,
    TopicPartition,
)

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


@pytest.mark.parametrize("name", VALUES)
def test_the_pieces_are_the_whole(name: str) -> None:
    pieces = list(json_pieces(VALUES[name]))
    assert "".join(pieces) == json.dumps(as_json(VALUES[name]), separators=(",", ":"))


@pytest.mark.parametrize("name", ["many writes", "few large requests", "a snapshot"])
def test_no_piece_is_about_more_than_it_may_be(name: str) -> None:
    """Each of these partitions is named once a piece."""
    assert max(piece.count('"t-') for piece in json_pieces(VALUES[name])) <= AT_ONCE
