"""The sending half of a transaction, without brokers: sequences, and what may not overtake what."""

from typing import Any

import pytest

from odradek.client import sync_transaction
from odradek.client.sync_connection import ConnectionLost, DeadlineExceeded
from odradek.client.sync_transaction import IN_FLIGHT, Fenced, Transaction, _Sending, _Way
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from odradek.records.batch import MAX_SEQUENCE, read_header
from odradek.records.builder import NewRecord, build_batch

PLACES = [TopicPartition("t", index) for index in range(3)]


def a_batch(count: int = 1) -> bytes:
    return build_batch([NewRecord(None, b"v")] * count, is_transactional=True)


class Leader:
    """One of `Cluster`; its answers come in the order of the requests, when they are asked for."""

    def __init__(self, broker: int) -> None:
        self.broker = broker
        self.waiting: list[list[TopicPartition]] = []
        self.sent: list[tuple[TopicPartition, int]] = []  # and the sequence
        self.received = 0
        self.errors: list[ErrorCode | None] = []  # of the next answers; None: the connection is lost

    def version_for(self, request: Any, most: int) -> int:
        return 11

    def send_pieces(self, request: Any, version: int, pieces: Any, deadline: float) -> int:
        return len(self.waiting) - 1

    def receive(self, number: int, deadline: float) -> ProduceResponse:
        self.received += 1
        error = self.errors.pop(0) if self.errors else ErrorCode.NONE
        if error is None:
            raise ConnectionLost("gone")
        rows = [
            TopicProduceResponse(
                name=topic,
                partition_responses=[PartitionProduceResponse(index=index, error_code=error, base_offset=5)],
            )
            for topic, index in self.waiting[number]
        ]
        return ProduceResponse(responses=rows)


class Cluster:
    """Plays the client: partition N is led by broker N."""

    request_timeout_s = 1.0

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.leaders = {index: Leader(index) for index in range(3)}
        monkeypatch.setattr(sync_transaction, "produce_pieces", self._pieces)
        monkeypatch.setattr(sync_transaction, "_PAUSE_S", 0)

    def _pieces(self, request: Any, version: int, records: dict[TopicPartition, list[Any]]) -> None:
        leader = self.leaders[next(iter(records)).partition]
        leader.waiting.append(list(records))
        leader.sent += [
            (place, read_header(bytes(pieces[0])).base_sequence) for place, pieces in records.items()
        ]

    def leader(self, place: TopicPartition) -> tuple[int, None]:
        return place.partition, None

    def connection_to(self, leader: int, deadline: float) -> Leader:
        return self.leaders[leader]

    def deadline(self) -> float:
        return 1e12

    def forget(self, topic: str) -> None:
        pass


def sending(cluster: Any, ways: list[_Way]) -> _Sending:
    return _Sending(cluster, Transaction(cluster, "tx", timeout_ms=1_000), ways)


def test_sequences_begin_again_behind_the_last_one() -> None:
    way = _Way(PLACES[0], [a_batch(3), a_batch(3), a_batch(1)], MAX_SEQUENCE - 4)
    assert way.sequences == [MAX_SEQUENCE - 4, MAX_SEQUENCE - 1, 1, 2]


def test_what_fails_is_sent_again_in_order_once_nothing_of_it_is_on_its_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster(monkeypatch)
    leader = cluster.leaders[0]
    leader.errors = [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]
    way = _Way(PLACES[0], [a_batch(2), a_batch(1)], 0)
    sending(cluster, [way]).run()
    assert [sequence for _, sequence in leader.sent] == [0, 2, 0, 2]
    assert way.is_done and way.first_offset == 5


def test_a_batch_that_was_not_acknowledged_is_sent_again_though_the_one_behind_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Appended, and on too few replicas: where it stands is told when it is sent again."""
    cluster = Cluster(monkeypatch)
    leader = cluster.leaders[0]
    leader.errors = [ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.NONE]
    way = _Way(PLACES[0], [a_batch(2), a_batch(1)], 0)
    sending(cluster, [way]).run()
    assert [sequence for _, sequence in leader.sent] == [0, 2, 0, 2]
    assert way.is_done and way.first_offset == 5


def test_a_batch_that_its_leader_calls_a_duplicate_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its first answer was lost, and it is so far behind that the leader does not know where it stands."""
    cluster = Cluster(monkeypatch)
    leader = cluster.leaders[0]
    leader.errors = [ErrorCode.NONE, None, ErrorCode.DUPLICATE_SEQUENCE_NUMBER]
    way = _Way(PLACES[0], [a_batch(2), a_batch(1)], 0)
    sending(cluster, [way]).run()
    assert [sequence for _, sequence in leader.sent] == [0, 2, 2]
    assert way.is_done


def test_what_is_sent_later_goes_on_behind_what_was_sent_before(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    monkeypatch.setattr(Transaction, "_at_coordinator", lambda self, ask: asked.append(ask))
    cluster: Any = Cluster(monkeypatch)
    transaction = Transaction(cluster, "tx", timeout_ms=1_000)
    for batches in ([a_batch(2)], [a_batch(1), a_batch(3)], [a_batch(1)]):
        assert transaction.send({PLACES[0]: batches}) == {PLACES[0]: 5}
    assert [sequence for _, sequence in cluster.leaders[0].sent] == [0, 2, 3, 6]
    assert len(asked) == 1, "its coordinator has the partition by then"


def test_nothing_more_is_sent_of_what_has_failed_until_its_leader_is_found_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is left behind a window of five would be sent out of order, and twice."""
    cluster = Cluster(monkeypatch)
    leader = cluster.leaders[0]
    behind = [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER] * (IN_FLIGHT - 1)
    leader.errors = [ErrorCode.NOT_LEADER_OR_FOLLOWER, *behind]
    way = _Way(PLACES[0], [a_batch() for _ in range(IN_FLIGHT + 2)], 0)
    sending(cluster, [way]).run()
    assert [sequence for _, sequence in leader.sent] == [*range(IN_FLIGHT), *range(IN_FLIGHT + 2)]
    assert way.is_done


def test_who_gives_up_waits_for_what_is_on_its_way_to_other_leaders(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that came to a leader behind the marker of its transaction would begin one that nobody ends."""
    cluster = Cluster(monkeypatch)
    cluster.leaders[0].errors = [ErrorCode.INVALID_PRODUCER_EPOCH]
    cluster.leaders[1].errors = [None]
    ways = [_Way(place, [a_batch(), a_batch()], 0) for place in PLACES]
    with pytest.raises(Fenced):
        sending(cluster, ways).run()
    assert {leader.broker: leader.received for leader in cluster.leaders.values()} == {
        broker: len(leader.waiting) for broker, leader in cluster.leaders.items()
    }
    assert all(leader.waiting for leader in cluster.leaders.values())


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, OSError])
def test_who_is_interrupted_waits_for_what_is_on_its_way_to_other_leaders(
    monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    """What comes to a leader behind the marker of the abort begins a transaction that nobody ends."""
    cluster = Cluster(monkeypatch)

    def interrupted(number: int, deadline: float) -> ProduceResponse:
        raise error

    monkeypatch.setattr(cluster.leaders[0], "receive", interrupted)
    with pytest.raises(error):
        sending(cluster, [_Way(place, [a_batch()], 0) for place in PLACES]).run()
    assert [cluster.leaders[index].received for index in (1, 2)] == [1, 1]


def test_whoever_gets_on_is_not_given_up_however_long_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of gigabytes each batch takes a moment, and now and then a leader moves."""
    cluster = Cluster(monkeypatch)
    now_s = 0.0

    def passes(_leader: Leader, number: int, deadline: float) -> ProduceResponse:
        nonlocal now_s
        now_s += 40
        return receive(_leader, number, deadline)

    receive = Leader.receive
    monkeypatch.setattr(Leader, "receive", passes)
    monkeypatch.setattr(cluster, "deadline", lambda: now_s + 60)
    monkeypatch.setattr(sync_transaction.time, "monotonic", lambda: now_s)
    leader, moves = cluster.leaders[0], ErrorCode.NOT_LEADER_OR_FOLLOWER
    leader.errors = [ErrorCode.NONE, moves, ErrorCode.NONE, moves]
    ways = [_Way(place, [a_batch()], 0) for place in PLACES[:1] * 2]
    for way in ways:
        sending(cluster, [way]).run()
    way = _Way(PLACES[0], [a_batch()] * 2, 0)
    leader.errors = [ErrorCode.NONE, moves]
    sending(cluster, [way]).run()
    assert way.is_done
    leader.errors = [moves, moves]
    with pytest.raises(DeadlineExceeded, match="NOT_LEADER_OR_FOLLOWER"):
        sending(cluster, [_Way(PLACES[0], [a_batch()], 0)]).run()
