"""Markers on their way to the leaders of partitions, without brokers: what an answer counts for."""

from types import SimpleNamespace
from typing import Any

import pytest

from odradek.broker import transaction_markers
from odradek.broker.transaction_markers import (
    AGAIN_MS,
    MOST_PARTITIONS,
    TRIED_IN_A_MS,
    UNKNOWN_FOR_MS,
    TransactionMarkers,
)
from odradek.coordinator.transaction_effects import Markers, MarkersWritten
from odradek.model.ids import BrokerId, TopicPartition
from odradek.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)

T0 = TopicPartition("t", 0)
LEADER, NEXT_LEADER = 2, 3


class Peers:
    def __init__(self) -> None:
        self.asked: list[tuple[Any, Any]] = []  # request, and who is to be told
        self.is_reachable = True

    def ask(self, leader: int, request: Any, version: int, answered: Any) -> bool:
        assert leader in (LEADER, NEXT_LEADER)
        self.asked.append((request, answered))
        return self.is_reachable


def written(producer_id: int) -> WriteTxnMarkersResponse:
    row = WritableTxnMarkerPartitionResult(partition_index=0, error_code=0)
    topics = [WritableTxnMarkerTopicResult(name="t", partitions=[row])]
    return WriteTxnMarkersResponse(markers=[WritableTxnMarkerResult(producer_id=producer_id, topics=topics)])


def test_an_answer_for_the_marker_of_a_transaction_before_counts_for_none_behind_it() -> None:
    """They are of one producer and one partition, so the answer alone cannot tell."""
    metadata: Any = SimpleNamespace(partition=lambda topic, index: SimpleNamespace(leader=LEADER))
    peers: Any = Peers()
    markers = TransactionMarkers(BrokerId(1), metadata, peers, [])
    told: list[MarkersWritten] = []
    markers.on_written = lambda index, what, now_ms: told.append(what)
    for epoch in (4, 5):
        markers.send(0, 0, Markers("tx", 9, epoch, False, frozenset((T0,))), 0)
    (_, answered) = peers.asked.pop()
    assert not peers.asked, "the next goes when this one is answered"

    answered(written(9), 10)
    assert told == []
    ((request, answered),) = peers.asked
    assert [row.producer_epoch for row in request.markers] == [5]
    answered(written(9), 10 + AGAIN_MS)

    assert told == [MarkersWritten("tx", 9, 5, frozenset((T0,)))]


@pytest.mark.parametrize("trouble", ["no leader", "unknown", "cannot be asked", "no answer"])
def test_a_marker_that_cannot_be_written_now_is_tried_again_after_a_pause(trouble: str) -> None:
    known: list[Any] = [SimpleNamespace(leader=LEADER)]
    metadata: Any = SimpleNamespace(partition=lambda topic, index: known[0])
    peers: Any = Peers()
    markers = TransactionMarkers(BrokerId(1), metadata, peers, [])
    if trouble == "no leader":
        known[0] = SimpleNamespace(leader=-1)
    elif trouble == "unknown":
        known[0] = None
    peers.is_reachable = trouble != "cannot be asked"
    markers.send(0, 0, Markers("tx", 9, 4, False, frozenset((T0,))), 1_000)
    if trouble == "no answer":
        ((_, answered),) = peers.asked
        answered(None, 1_000)
    known[0] = SimpleNamespace(leader=LEADER)
    peers.asked.clear()

    assert markers.due_ms == 1_000 + AGAIN_MS
    markers.tick(1_000 + AGAIN_MS - 1)
    assert peers.asked == []
    markers.tick(1_000 + AGAIN_MS)
    assert len(peers.asked) == 1


def test_of_the_markers_that_wait_for_a_leader_the_last_decision_of_an_id_goes() -> None:
    metadata: Any = SimpleNamespace(partition=lambda topic, index: SimpleNamespace(leader=LEADER))
    peers: Any = Peers()
    markers = TransactionMarkers(BrokerId(1), metadata, peers, [])
    for epoch in (4, 5, 6):
        markers.send(0, 0, Markers("tx", 9, epoch, False, frozenset((T0,))), 0)
    (_, answered) = peers.asked.pop()
    answered(written(9), 10)
    ((request, _),) = peers.asked
    assert [row.producer_epoch for row in request.markers] == [6]


def test_a_partition_is_taken_for_deleted_when_it_was_unknown_all_the_time() -> None:
    """An UpdateMetadata may be late twice; what was heard of in between has its marker still to come."""
    known: list[Any] = [None]
    metadata: Any = SimpleNamespace(partition=lambda topic, index: known[0])
    peers: Any = Peers()
    markers = TransactionMarkers(BrokerId(1), metadata, peers, [])
    told: list[MarkersWritten] = []
    markers.on_written = lambda index, what, now_ms: told.append(what)
    markers.send(0, 0, Markers("tx", 9, 4, False, frozenset((T0,))), 0)
    for now_ms, seen in (
        (UNKNOWN_FOR_MS // 2, SimpleNamespace(leader=-1)),
        (UNKNOWN_FOR_MS, None),
        (2 * UNKNOWN_FOR_MS - 1, None),
    ):
        known[0] = seen
        markers.tick(now_ms)
        assert told == []
    markers.tick(2 * UNKNOWN_FOR_MS + AGAIN_MS)
    assert told == [MarkersWritten("tx", 9, 4, frozenset((T0,)))]


def test_what_does_not_fit_into_a_request_to_a_leader_that_is_gone_goes_to_the_next_one_too() -> None:
    leader = [LEADER]
    metadata: Any = SimpleNamespace(partition=lambda topic, index: SimpleNamespace(leader=leader[0]))
    peers: Any = Peers()
    peers.is_reachable = False
    markers = TransactionMarkers(BrokerId(1), metadata, peers, [])
    partitions = frozenset(TopicPartition("t", index) for index in range(MOST_PARTITIONS + 1))
    markers.send(0, 0, Markers("tx", 9, 4, False, partitions), 0)
    peers.asked.clear()
    leader[0], peers.is_reachable = NEXT_LEADER, True

    markers.tick(AGAIN_MS)
    ((_, answered),) = peers.asked
    answered(None, AGAIN_MS)
    sent = [
        index
        for request, _ in (peers.asked[0], peers.asked[-1])
        for row in request.markers
        for topic in row.topics
        for index in topic.partition_indexes
    ]
    assert set(sent) == set(range(MOST_PARTITIONS + 1))


def test_of_very_many_partitions_without_a_leader_few_are_looked_at_in_a_turn_and_seldom(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transaction_markers, "MOST_TRIED", 1_500)
    looks = []
    metadata: Any = SimpleNamespace(
        partition=lambda topic, index: looks.append(index) or SimpleNamespace(leader=-1)
    )
    peers: Any = Peers()
    markers = TransactionMarkers(BrokerId(1), metadata, peers, [])
    partitions = frozenset(TopicPartition("t", index) for index in range(4_000))
    markers.send(0, 0, Markers("tx", 9, 4, False, partitions), 0)
    turns = []
    while markers.due_ms is not None and markers.due_ms <= 2_000:
        looks.clear()
        markers.tick(markers.due_ms)
        turns.append(len(looks))

    assert max(turns) <= 1_500
    assert sum(turns) <= 2_000 * TRIED_IN_A_MS + 4_000, "a few in a hundred of the loop"
    assert sum(turns) >= 4 * 4_000, "each of them again and again"
