"""Transactions on three brokers: coordinated, written to, decided, and read by those who want committed records alone."""

from pathlib import Path
from typing import Any

import pytest

from odradek.broker import effects as fx
from odradek.broker import marker_writes, producer_ids
from odradek.broker.answers import CloseConnection
from odradek.broker.handlers import describe_producers
from odradek.broker.marker_writes import WAIT_MS
from odradek.broker.request import Request
from odradek.broker.transaction_markers import UNKNOWN_FOR_MS
from odradek.broker.transaction_questions import _errors, told_to_committer, told_to_producer
from odradek.coordinator import later
from odradek.coordinator.transaction_effects import Markers, MarkersWritten
from odradek.coordinator.transaction_states import TransactionState
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import BrokerId, TopicPartition
from odradek.model.topic_names import GROUPS_TOPIC, TRANSACTIONS_TOPIC
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages import produce as pm
from odradek.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from odradek.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from odradek.protocol.messages.allocate_producer_ids import AllocateProducerIdsResponse
from odradek.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from odradek.protocol.messages.describe_transactions import DescribeTransactionsRequest
from odradek.protocol.messages.end_txn import EndTxnRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.list_transactions import ListTransactionsRequest
from odradek.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from odradek.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from odradek.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from odradek.records.builder import NewRecord, build_batch
from odradek.replication.followers import FetchSource
from tests.broker.world import T0, TOPIC_ID, Pending, World, batch, told
from tests.support import left_over

ID = "tx"
COORDINATOR, LEADER, GROUPS = 2, 1, 3


@pytest.fixture
def world(tmp_path: Any) -> World:
    """Coordinator, leader and the group's coordinator are three brokers."""
    world = World(tmp_path)
    world.lead(LEADER, is_new=True)
    world.lead(COORDINATOR, topic=TRANSACTIONS_TOPIC, topic_id=b"x" * 16)
    world.lead(GROUPS, topic=GROUPS_TOPIC, topic_id=b"o" * 16)
    give_producer_ids(world)
    world.advance(10)
    return world


def give_producer_ids(world: World) -> None:
    """As the controller does: to every broker that asks a block of its own."""
    for node in world.nodes.values():
        for effect in [one for one in node.told if isinstance(one, fx.SendToController)]:
            node.told.remove(effect)
            block = AllocateProducerIdsResponse(producer_id_start=1_000 * node.id, producer_id_len=1_000)
            node.broker.answered(effect.request_id, block, world.now_ms)


def lose_leader(world: World) -> None:
    """It dies, and leaves the ISR of the others' partitions."""
    world.kill(LEADER)
    for topic, leader, topic_id in ((TRANSACTIONS_TOPIC, COORDINATOR, b"x"), (GROUPS_TOPIC, GROUPS, b"o")):
        world.lead(leader, isr=(2, 3), topic=topic, topic_id=topic_id * 16)


def init(world: World, name: str = ID, **known: int) -> tuple[int, int]:
    answer = world.call(
        COORDINATOR, InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000, **known), 4
    )
    assert answer.error_code == 0, ErrorCode(answer.error_code)
    return answer.producer_id, answer.producer_epoch


def add(
    world: World,
    producer: tuple[int, int],
    at: int = COORDINATOR,
    name: str = ID,
    indexes: tuple[int, ...] = (0,),
) -> int:
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=name,
        v3_and_below_producer_id=producer[0],
        v3_and_below_producer_epoch=producer[1],
        v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=list(indexes))],
    )
    answer = world.call(at, request, 3)
    return int(answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)


def send(
    world: World,
    producer: tuple[int, int],
    value: bytes,
    sequence: int,
    version: int = 11,
    *,
    values: int = 1,
    index: int = 0,
) -> Any:
    records = batch(
        *[value] * values,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=sequence,
        is_transactional=True,
    )
    request = pm.ProduceRequest(
        transactional_id=ID,
        acks=-1,
        timeout_ms=30_000,
        topic_data=[
            pm.TopicProduceData(
                name="t", partition_data=[pm.PartitionProduceData(index=index, records=records)]
            )
        ],
    )
    return world.send(LEADER, request, version)


def write(
    world: World, producer: tuple[int, int], value: bytes, sequence: int, version: int = 11, *, index: int = 0
) -> int:
    pending = send(world, producer, value, sequence, version, index=index)
    world.settle()
    return int(world.produced(pending)[0])


def end(world: World, producer: tuple[int, int], *, is_commit: bool = True, name: str = ID) -> int:
    request = EndTxnRequest(
        transactional_id=name, producer_id=producer[0], producer_epoch=producer[1], committed=is_commit
    )
    return int(world.call(COORDINATOR, request, 3).error_code)


def state(world: World, at: int = COORDINATOR) -> str:
    (row,) = world.call(at, DescribeTransactionsRequest(transactional_ids=[ID]), 0).transaction_states
    return str(row.transaction_state) if not row.error_code else ErrorCode(row.error_code).name


def committed(world: World) -> tuple[int, list[tuple[int, int]]]:
    """How far who reads committed records alone may read, and what was aborted."""
    pending = world.consume(LEADER, 0, isolation_level=1)
    world.settle()
    row = pending.message.responses[0].partitions[0]
    return row.last_stable_offset, [(one.producer_id, one.first_offset) for one in row.aborted_transactions]


@pytest.mark.behaviour("P9")
def test_a_transaction_is_written_committed_and_then_readable(world: World) -> None:
    producer = init(world)
    assert add(world, producer) == 0
    assert write(world, producer, b"a", 0) == 0
    assert committed(world) == (0, []), "undecided"

    assert end(world, producer) == 0

    assert state(world) == "CompleteCommit"
    assert committed(world) == (2, [])
    assert world[LEADER].values()[0] == b"a"


@pytest.mark.parametrize("role", ["COORDINATOR", "LEADER", "GROUPS"])
def test_a_broker_with_the_number_0_is_one_like_any_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, role: str
) -> None:
    monkeypatch.setitem(globals(), role, 0)
    world = World(tmp_path, brokers=(0, 1, 2, 3))
    for broker, topic, topic_id in (
        (LEADER, "t", TOPIC_ID),
        (COORDINATOR, TRANSACTIONS_TOPIC, b"x" * 16),
        (GROUPS, GROUPS_TOPIC, b"o" * 16),
    ):
        world.lead(broker, topic=topic, topic_id=topic_id, isr=(broker,), replicas=(broker,), is_new=True)
    give_producer_ids(world)
    world.advance(10)
    producer = init(world)
    assert add(world, producer, at=COORDINATOR) == add_offsets(world, producer) == 0
    assert write(world, producer, b"a", 0) == commit_offset(world, producer) == 0

    assert end(world, producer) == 0

    assert state(world, at=COORDINATOR) == "CompleteCommit"
    assert committed(world) == (2, [])
    assert fetched_offset(world, stable=True) == (7, 0)


def test_a_marker_that_follows_from_a_flush_is_flushed_in_the_same_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nobody is answered in it, as when a transaction times out, it waited for another turn, up to a second."""
    monkeypatch.setitem(globals(), "COORDINATOR", LEADER)
    world = World(tmp_path, brokers=(LEADER,))
    for topic in ("t", TRANSACTIONS_TOPIC):
        world.lead(
            LEADER, topic=topic, topic_id=topic.encode()[:16].ljust(16), isr=(1,), replicas=(1,), is_new=True
        )
    give_producer_ids(world)
    producer = init(world)
    assert add(world, producer, at=LEADER) == write(world, producer, b"a", 0) == 0
    broker = world[LEADER].broker
    for topic in ("t", TRANSACTIONS_TOPIC):
        broker.topic_config_changed(topic, {"flush.messages": "1"}, world.now_ms)
    for flush in told(world, fx.FlushLog):
        flush.plan.run()
        broker.answered(flush.request_id, fx.Flushed(flush.plan, None), world.now_ms)
    world.settle()
    world.send(
        LEADER, EndTxnRequest(transactional_id=ID, producer_id=producer[0], producer_epoch=producer[1]), 3
    )
    (decided,) = [one for one in broker.take_effects() if isinstance(one, fx.FlushLog)]
    decided.plan.run()

    broker.answered(decided.request_id, fx.Flushed(decided.plan, None), world.now_ms)

    (marker,) = [one for one in broker.take_effects() if isinstance(one, fx.FlushLog)]
    assert marker.topic_partition == T0 and decided.topic_partition.topic == TRANSACTIONS_TOPIC


@pytest.mark.behaviour("P10")
def test_what_is_aborted_is_named_to_who_reads_it(world: World) -> None:
    producer = init(world)
    add(world, producer)
    write(world, producer, b"a", 0)

    assert end(world, producer, is_commit=False) == 0

    assert committed(world) == (2, [(producer[0], 0)])


def test_a_batch_that_no_transaction_has_is_refused(world: World) -> None:
    producer = init(world)

    assert write(world, producer, b"a", 0, 9) == ErrorCode.INVALID_TXN_STATE
    assert write(world, producer, b"a", 0, 11) == ErrorCode.TRANSACTION_ABORTABLE
    assert write(world, (producer[0], 7), b"a", 0) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert write(world, (77, 0), b"a", 0) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert world[LEADER].values() == []


@pytest.mark.behaviour("P3")
def test_no_epoch_ahead_of_the_coordinators_comes_into_an_open_transaction(world: World) -> None:
    producer = init(world)
    add(world, producer)
    write(world, producer, b"a", 0)

    assert write(world, (producer[0], producer[1] + 4), b"b", 0) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert end(world, producer) == 0
    assert state(world) == "CompleteCommit", "its marker met no later epoch"


def sent_and_said(world: World, producer: tuple[int, int]) -> tuple[Any, fx.SendToBroker, Any]:
    """A batch that waits for its leader to hear from the coordinator: with the leader's question and the answer, which is on its way."""
    pending = send(world, producer, b"late", 0)
    taken = world[LEADER].broker.take_effects()
    (question,) = [one for one in taken if isinstance(one, fx.SendToBroker)]
    return pending, question, world.call(COORDINATOR, question.message, question.version)


@pytest.mark.behaviour("P3")
def test_a_batch_that_comes_behind_the_marker_of_its_transaction_is_refused(world: World) -> None:
    """The coordinator said yes, and then the transaction was aborted, before the leader heard of it."""
    producer = init(world)
    add(world, producer)
    pending, question, said = sent_and_said(world, producer)
    assert end(world, producer, is_commit=False) == 0

    world[LEADER].broker.answered(question.request_id, said, world.now_ms)
    world.settle()

    assert world.produced(pending)[0] == ErrorCode.INVALID_TXN_STATE
    assert committed(world)[0] == 1, "the marker alone, and nothing open"


def test_what_the_coordinator_said_of_a_transaction_does_not_count_while_it_is_asked_about_the_next_one(
    world: World,
) -> None:
    """Both have one epoch, and the answer about the first comes when its marker is in the log and another question is open."""
    producer = init(world)
    add(world, producer)
    pending, question, said = sent_and_said(world, producer)
    assert end(world, producer, is_commit=False) == 0
    add(world, producer)
    following = send(world, producer, b"next", 0)
    (asked_next,) = [e for e in world[LEADER].broker.take_effects() if isinstance(e, fx.SendToBroker)]

    world[LEADER].broker.answered(question.request_id, said, world.now_ms)
    world.settle()
    assert world.produced(pending)[0] == ErrorCode.INVALID_TXN_STATE
    assert world[LEADER].partition().log.producers.first_undecided_offset is None

    said = world.call(COORDINATOR, asked_next.message, asked_next.version)
    world[LEADER].broker.answered(asked_next.request_id, said, world.now_ms)
    world.settle()
    assert world.produced(following)[0] == 0
    assert b"next" in world[LEADER].values() and b"late" not in world[LEADER].values()


def test_what_the_coordinator_said_does_not_count_in_another_term_of_the_leader(world: World) -> None:
    """Another may have led in between, and have the marker of the transaction. The client sends the batch again, for its transaction
    may well be open still; seed 1713 aborted one that nothing was wrong with."""
    producer = init(world)
    add(world, producer)
    pending, question, said = sent_and_said(world, producer)
    world.lead(LEADER)

    world[LEADER].broker.answered(question.request_id, said, world.now_ms)
    world.settle()

    assert world.produced(pending)[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert world[LEADER].values() == []
    assert write(world, producer, b"late", 0) == 0
    assert world[LEADER].values() == [b"late"]


def test_what_the_coordinator_said_does_not_count_for_a_topic_that_was_made_again_meanwhile(
    world: World,
) -> None:
    """Its leader begins with the epoch of the former one. The transaction may have ended while there was no topic: then a marker has
    nowhere to go, and what was written would be open for ever."""
    producer = init(world)
    add(world, producer)
    pending, question, said = sent_and_said(world, producer)
    for node in (1, 2, 3):
        world.stop_replica(node, T0, leader_epoch=-2, delete=True)
    del world.leadership[T0]
    world.lead(LEADER, topic_id=b"m" * 16, is_new=True)
    assert world[LEADER].partition().leader_epoch == 0

    world[LEADER].broker.answered(question.request_id, said, world.now_ms)
    world.settle()

    assert world.produced(pending)[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert world[LEADER].partition().log.producers.first_undecided_offset is None


def test_offsets_of_a_transaction_are_asked_about_again_in_another_term_of_the_leader(world: World) -> None:
    producer = init(world)
    add_offsets(world, producer)
    pending = world.send(GROUPS, offsets_request(producer), 3)
    (question,) = [e for e in world[GROUPS].broker.take_effects() if isinstance(e, fx.SendToBroker)]
    said = world.call(COORDINATOR, question.message, question.version)
    world.lead(GROUPS, topic=GROUPS_TOPIC, topic_id=b"o" * 16)

    world[GROUPS].broker.answered(question.request_id, said, world.now_ms)
    world.settle()

    assert pending.message.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
    assert commit_offset(world, producer) == 0


def test_a_batch_that_was_checked_aside_while_its_transaction_ended_is_refused(tmp_path: Path) -> None:
    world = World(tmp_path, odradek_log_record_validation="full")
    world.lead(LEADER, is_new=True)
    world.lead(COORDINATOR, topic=TRANSACTIONS_TOPIC, topic_id=b"x" * 16)
    give_producer_ids(world)
    world.advance(10)
    producer = init(world)
    add(world, producer)
    world.works = False
    pending = send(world, producer, b"v", 0, values=2_000)
    world.settle()
    (aside,) = told(world, fx.RunAside, LEADER)
    assert end(world, producer, is_commit=False) == 0

    world[LEADER].broker.answered(aside.request_id, aside.work.run(), world.now_ms)
    world.settle()

    assert world.produced(pending)[0] == ErrorCode.INVALID_TXN_STATE
    assert world[LEADER].partition().log.producers.first_undecided_offset is None


def test_a_batch_whose_open_transaction_ended_while_it_was_checked_aside_is_refused(tmp_path: Path) -> None:
    """It needed no question when it came, and behind the marker it would open a transaction that nobody ends."""
    world = World(tmp_path, odradek_log_record_validation="full")
    world.lead(LEADER, is_new=True)
    world.lead(COORDINATOR, topic=TRANSACTIONS_TOPIC, topic_id=b"x" * 16)
    give_producer_ids(world)
    world.advance(10)
    producer = init(world)
    add(world, producer)
    assert write(world, producer, b"a", 0) == 0
    world.works = False
    pending = send(world, producer, b"v", 1, values=2_000)
    world.settle()
    (aside,) = told(world, fx.RunAside, LEADER)
    assert end(world, producer, is_commit=False) == 0

    world[LEADER].broker.answered(aside.request_id, aside.work.run(), world.now_ms)
    world.settle()

    assert world.produced(pending)[0] == ErrorCode.INVALID_TXN_STATE
    assert world[LEADER].partition().log.producers.first_undecided_offset is None


def sent_to_two(world: World, producer: tuple[int, int]) -> tuple[Any, fx.SendToBroker]:
    """A request of two partitions, the second of which has a sequence of 1: with the question of its leader."""
    rows = [
        pm.PartitionProduceData(
            index=index,
            records=batch(
                b"x",
                producer_id=producer[0],
                producer_epoch=producer[1],
                base_sequence=index,
                is_transactional=True,
            ),
        )
        for index in (0, 1)
    ]
    topics = [pm.TopicProduceData(name="t", partition_data=rows)]
    request = pm.ProduceRequest(transactional_id=ID, acks=-1, timeout_ms=30_000, topic_data=topics)
    pending = world.send(LEADER, request, 11)
    (question,) = [e for e in world[LEADER].broker.take_effects() if isinstance(e, fx.SendToBroker)]
    return pending, question


def told_to_two(world: World, pending: Any, question: fx.SendToBroker, said: Any) -> list[int]:
    world[LEADER].broker.answered(question.request_id, said, world.now_ms)
    world.settle()
    return [row.error_code for row in pending.message.responses[0].partition_responses]


def test_a_partition_whose_transaction_ended_while_another_ones_was_asked_about_is_refused(
    world: World,
) -> None:
    """Of two in one request the second was open in its log, and needed no question, when the request came."""
    producer = init(world)
    world.lead(LEADER, index=1, is_new=True)
    add(world, producer, indexes=(0, 1))
    assert write(world, producer, b"a", 0, index=1) == 0
    pending, question = sent_to_two(world, producer)
    said = world.call(COORDINATOR, question.message, question.version)
    assert end(world, producer, is_commit=False) == 0

    assert told_to_two(world, pending, question, said) == [ErrorCode.INVALID_TXN_STATE] * 2
    assert world[LEADER].partition("t", 1).log.producers.first_undecided_offset is None


def test_a_partition_that_is_led_here_only_since_another_one_was_asked_about_is_not_written_to(
    world: World,
) -> None:
    """Nobody has asked about it. Its client sends the batch again."""
    producer = init(world)
    world.lead(GROUPS, index=1, is_new=True)
    add(world, producer)
    pending, question = sent_to_two(world, producer)
    said = world.call(COORDINATOR, question.message, question.version)
    world.lead(LEADER, index=1)

    assert told_to_two(world, pending, question, said) == [0, ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert world[LEADER].values("t", 1) == []


@pytest.mark.behaviour("P1")
def test_a_batch_does_not_overtake_the_one_before_it_whose_question_failed(world: World) -> None:
    producer = init(world)
    first = send(world, producer, b"first", 0)
    world.settle()
    assert world.produced(first)[0] == ErrorCode.TRANSACTION_ABORTABLE
    add(world, producer)

    assert write(world, producer, b"second", 1) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert write(world, producer, b"first", 0) == 0


@pytest.mark.behaviour("P1")
def test_a_batch_does_not_overtake_the_one_before_it_by_being_asked_about_first(world: World) -> None:
    producer = init(world)
    add(world, producer)
    both = [send(world, producer, b"second", 1), send(world, producer, b"first", 0)]
    world.settle()

    assert [world.produced(one)[0] for one in both] == [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 0]
    assert world[LEADER].values() == [b"first"]


def test_two_requests_that_are_on_their_way_at_once_are_both_taken(world: World) -> None:
    producer = init(world)
    add(world, producer)
    both = [send(world, producer, b"a", 0), send(world, producer, b"b", 1)]
    world.settle()

    assert [world.produced(one)[0] for one in both] == [0, 0]


@pytest.mark.behaviour("P4")
def test_a_leader_that_cannot_ask_the_coordinator_says_so_in_words_all_clients_retry(world: World) -> None:
    producer = init(world)
    add(world, producer)
    world.kill(COORDINATOR)

    assert write(world, producer, b"a", 0) == ErrorCode.NOT_ENOUGH_REPLICAS


def offsets_request(producer: tuple[int, int]) -> TxnOffsetCommitRequest:
    return TxnOffsetCommitRequest(
        transactional_id=ID,
        group_id="g",
        producer_id=producer[0],
        producer_epoch=producer[1],
        topics=[
            TxnOffsetCommitRequestTopic(
                name="t",
                partitions=[TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=7)],
            )
        ],
    )


def commit_offset(world: World, producer: tuple[int, int], version: int = 3) -> int:
    request = offsets_request(producer)
    return int(world.call(GROUPS, request, version).topics[0].partitions[0].error_code)


def add_offsets(world: World, producer: tuple[int, int]) -> int:
    request = AddOffsetsToTxnRequest(
        transactional_id=ID, producer_id=producer[0], producer_epoch=producer[1], group_id="g"
    )
    return int(world.call(COORDINATOR, request, 3).error_code)


def fetched_offset(world: World, *, stable: bool) -> tuple[int, int]:
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id="g", topics=None)], require_stable=stable
    )
    (group,) = world.call(GROUPS, request, 8).groups
    rows = [one for topic in group.topics for one in topic.partitions]
    return (rows[0].committed_offset, rows[0].error_code) if rows else (-1, 0)


@pytest.mark.behaviour("T9")
def test_offsets_count_when_their_transaction_is_committed(world: World) -> None:
    producer = init(world)
    assert commit_offset(world, producer) == ErrorCode.INVALID_TXN_STATE, "the group was not added"
    assert commit_offset(world, producer, 4) == ErrorCode.TRANSACTION_ABORTABLE
    assert add_offsets(world, producer) == 0
    assert commit_offset(world, producer) == 0
    assert fetched_offset(world, stable=True) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    assert fetched_offset(world, stable=False) == (-1, 0)

    assert end(world, producer) == 0

    assert fetched_offset(world, stable=True) == (7, 0)


def test_a_marker_that_was_loaded_decides_nothing_on_the_transaction_behind_it(world: World) -> None:
    """It is told to the coordinator when it is committed, and that one may have read it, and what follows it, by then."""
    producer = init(world)
    add_offsets(world, producer)
    assert commit_offset(world, producer) == 0
    assert end(world, producer, is_commit=False) == 0
    marker = world[GROUPS].partition(GROUPS_TOPIC).log.log_end_offset - 1
    add_offsets(world, producer)
    assert commit_offset(world, producer) == 0
    for leader in (LEADER, GROUPS):
        world.lead(leader, topic=GROUPS_TOPIC, topic_id=b"o" * 16)
        world.advance(20)
    groups = world[GROUPS].broker.groups
    groups.transaction_ended(0, marker, producer[0], is_commit=True, now_ms=world.now_ms)
    assert fetched_offset(world, stable=True) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    assert end(world, producer) == 0
    assert fetched_offset(world, stable=True) == (7, 0)


def test_a_marker_that_is_committed_late_decides_on_offsets_then_and_not_before(world: World) -> None:
    producer = init(world)
    add_offsets(world, producer)
    assert commit_offset(world, producer) == 0
    world.on_alter = "hold"
    world.cut.add((LEADER, GROUPS))
    assert end(world, producer) == 0

    world.advance(WAIT_MS - 1_000)
    assert fetched_offset(world, stable=True) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    world.advance(2_000)
    assert fetched_offset(world, stable=True) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    world.cut.clear()
    world.advance(1_000)

    assert fetched_offset(world, stable=True) == (7, 0)


def test_a_marker_that_may_still_be_lost_decides_on_no_offsets(world: World) -> None:
    """It is in the log, and the ISR fell below the minimum before the others had it."""
    producer = init(world)
    add_offsets(world, producer)
    assert commit_offset(world, producer) == 0
    world.on_alter = "hold"
    world.cut.add((LEADER, GROUPS))
    world[GROUPS].broker.topic_config_changed(GROUPS_TOPIC, {"min.insync.replicas": "2"}, world.now_ms)
    log = world[GROUPS].partition(GROUPS_TOPIC).log
    before = log.log_end_offset
    assert end(world, producer) == 0
    world.settle()
    assert log.log_end_offset == before + 1

    world.lead(GROUPS, isr=(GROUPS,), topic=GROUPS_TOPIC, topic_id=b"o" * 16)

    assert fetched_offset(world, stable=True) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    world.cut.clear()
    world.lead(GROUPS, topic=GROUPS_TOPIC, topic_id=b"o" * 16)
    world.advance(5_000)
    assert fetched_offset(world, stable=True) == (7, 0)


def test_an_error_of_a_whole_answer_is_that_of_every_partition() -> None:
    refused = AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    assert _errors([T0], refused) == {T0: ErrorCode.CLUSTER_AUTHORIZATION_FAILED}
    assert _errors([T0], AddPartitionsToTxnResponse()) == {T0: ErrorCode.UNKNOWN_SERVER_ERROR}
    assert _errors([T0], None) == {T0: ErrorCode.NETWORK_EXCEPTION}


def test_who_takes_an_id_over_aborts_what_its_owner_left_open(world: World) -> None:
    old = init(world)
    add(world, old)
    write(world, old, b"a", 0)
    request = InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=60_000)

    assert world.call(COORDINATOR, request, 4).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    new = init(world)

    assert new == (old[0], old[1] + 2)
    assert write(world, old, b"zombie", 1) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert end(world, old) == ErrorCode.PRODUCER_FENCED
    assert committed(world)[1] == [(old[0], 0)]


def test_what_is_open_for_too_long_is_aborted(world: World) -> None:
    producer = init(world)
    add(world, producer)
    write(world, producer, b"a", 0)

    world.advance(75_000)

    assert state(world) == "CompleteAbort"
    assert committed(world) == (2, [(producer[0], 0)])


def test_a_marker_waits_for_the_leader_however_long_that_is_away(world: World) -> None:
    producer = init(world)
    add(world, producer)
    write(world, producer, b"a", 0)
    lose_leader(world)
    assert end(world, producer) == 0
    world.advance(120_000)
    assert state(world) == "PrepareCommit"

    world.restart(LEADER)
    world.lead(LEADER)
    world.advance(5_000)

    assert state(world) == "CompleteCommit"
    assert committed(world) == (2, [])


def test_the_next_coordinator_carries_out_what_was_decided(world: World) -> None:
    producer = init(world)
    add(world, producer)
    write(world, producer, b"a", 0)
    lose_leader(world)
    assert end(world, producer) == 0
    assert state(world) == "PrepareCommit"
    world.restart(LEADER)
    world.lead(LEADER, settle=False)

    world.lead(3, topic=TRANSACTIONS_TOPIC, topic_id=b"x" * 16)
    world.advance(1_000)

    assert state(world, 3) == "CompleteCommit"
    assert state(world) == "NOT_COORDINATOR"
    assert committed(world) == (2, [])


def marker_requests(world: World, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, Any]]:
    """Every WriteTxnMarkers from here on: who sent it, and what."""
    seen: list[tuple[int, Any]] = []
    carry = world._ask_peer

    def ask_peer(node: Any, effect: fx.SendToBroker) -> None:
        if isinstance(effect.message, WriteTxnMarkersRequest):
            seen.append((node.id, effect.message))
        carry(node, effect)

    monkeypatch.setattr(world, "_ask_peer", ask_peer)
    return seen


def test_who_coordinates_no_more_sends_no_marker(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    producer = init(world)
    add(world, producer)
    lose_leader(world)
    assert end(world, producer) == 0
    world.lead(3, isr=(2, 3), topic=TRANSACTIONS_TOPIC, topic_id=b"x" * 16)
    seen = marker_requests(world, monkeypatch)

    world.restart(LEADER)
    world.lead(LEADER)
    world.advance(1_000)

    assert {sender for sender, _ in seen} == {3}
    assert state(world, 3) == "CompleteCommit"


def test_a_leader_that_refuses_a_marker_is_asked_seldom_and_the_log_says_so(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A marker of a later epoch came to the log, from whomever."""
    producer = init(world)
    add(world, producer)
    later = WritableTxnMarker(
        producer_id=producer[0],
        producer_epoch=producer[1] + 1,
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[0])],
        coordinator_epoch=0,
    )
    world.call(LEADER, WriteTxnMarkersRequest(markers=[later]), 1)
    seen = marker_requests(world, monkeypatch)

    assert end(world, producer) == 0
    world.advance(9_000)
    assert len(seen) == 1
    world.advance(2_000)

    assert len(seen) == 2 and state(world) == "PrepareCommit"
    lines = [one.text for one in world[COORDINATOR].told if isinstance(one, fx.LogLine)]
    assert sum("refuses the marker of 'tx'" in line for line in lines) == 2


def test_a_leader_has_one_request_with_markers_at_a_time(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What comes meanwhile goes with the next one."""
    owners = [init(world, name) for name in ("a", "b", "c")]
    for name, producer in zip("abc", owners, strict=True):
        add(world, producer, name=name)
    held: list[fx.SendToBroker] = []
    monkeypatch.setattr(world, "_ask_peer", lambda node, effect: held.append(effect))
    for name, producer in zip("abc", owners, strict=True):
        assert end(world, producer, name=name) == 0

    assert [len(one.message.markers) for one in held] == [1]
    world[COORDINATOR].broker.answered(held[0].request_id, None, world.now_ms)
    world.settle()

    assert [len(one.message.markers) for one in held] == [1, 2]


def test_the_marker_that_is_due_first_is_tried_first(world: World) -> None:
    """Of two topics that nobody knows yet, each asked about 50 ms after it was."""
    markers = world[COORDINATOR].broker.transactions._markers
    begun_ms = world.now_ms
    for name, at_ms in (("a", begun_ms), ("b", begun_ms + 20)):
        partitions = frozenset((TopicPartition("unknown", 0),))
        markers.send(0, 0, Markers(name, 1, 0, True, partitions), at_ms)
    assert markers.due_ms == begun_ms + 50

    markers.tick(begun_ms + 50)

    assert markers.due_ms == begun_ms + 70


def test_markers_of_a_coordinator_that_is_given_up_at_the_first_of_them_are_forgotten(world: World) -> None:
    """What is told of one transaction may show a mistake of ours, and the coordinator is loaded again."""
    markers = world[COORDINATOR].broker.transactions._markers
    begun_ms, told_of = world.now_ms, []

    def given_up(index: int, written: MarkersWritten, now_ms: int) -> None:
        told_of.append(written.transactional_id)
        markers.forget(index)

    markers.on_written = given_up
    for name in ("a", "b"):
        partitions = frozenset((TopicPartition("unknown", 0),))
        markers.send(0, 0, Markers(name, 1, 0, True, partitions), begun_ms)

    markers.tick(begun_ms + UNKNOWN_FOR_MS)

    assert told_of == ["a"] and markers.due_ms is None


def test_a_stranger_with_somebodys_producer_id_does_not_stand_in_the_owners_way(world: World) -> None:
    producer = init(world)
    add(world, producer)
    records = batch(
        b"no", producer_id=producer[0], producer_epoch=producer[1], base_sequence=0, is_transactional=True
    )
    rows = [pm.PartitionProduceData(index=0, records=records)]
    stranger = pm.ProduceRequest(
        transactional_id="stranger",
        acks=-1,
        timeout_ms=30_000,
        topic_data=[pm.TopicProduceData(name="t", partition_data=rows)],
    )
    refused = world.send(LEADER, stranger, 11)
    world.settle()
    assert world.produced(refused)[0] == ErrorCode.INVALID_PRODUCER_ID_MAPPING

    assert write(world, producer, b"a", 7) == 0


def test_a_topic_that_is_deleted_needs_no_marker(world: World) -> None:
    producer = init(world)
    add(world, producer)
    lose_leader(world)
    assert end(world, producer) == 0
    for node in world.nodes.values():
        node.broker.metadata.topics.pop("t")

    world.advance(5_000)
    assert state(world) == "PrepareCommit", "perhaps it is only that nobody has told this broker yet"
    world.advance(10_000)

    assert state(world) == "CompleteCommit"


def test_nothing_is_kept_of_a_deleted_topic_when_another_broker_coordinates(world: World) -> None:
    producer = init(world)
    add(world, producer)
    lose_leader(world)
    assert end(world, producer) == 0
    for node in world.nodes.values():
        node.broker.metadata.topics.pop("t")
    world.advance(1_000)
    markers = world[COORDINATOR].broker.transactions._markers
    assert markers._unknown_since

    world.lead(3, topic=TRANSACTIONS_TOPIC, topic_id=b"x" * 16)
    world.advance(1_000)

    assert (markers._open, markers._later, markers._unknown_since) == ({}, {}, {})
    assert markers.due_ms is None


def test_a_coordinator_asks_for_producer_ids_before_it_has_none(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    init(world, "a")
    assert not told(world, fx.SendToController, COORDINATOR)
    monkeypatch.setattr(producer_ids, "PREFETCH_BELOW", 999)

    init(world, "b")

    assert [one.api_key for one in told(world, fx.SendToController, COORDINATOR)] == [67]


E = ErrorCode


@pytest.mark.parametrize(
    ("error", "version", "to_producer", "to_committer"),
    [
        (E.NONE, 3, E.NONE, E.NONE),
        (E.PRODUCER_FENCED, 12, E.INVALID_PRODUCER_EPOCH, E.INVALID_PRODUCER_EPOCH),
        (E.NOT_COORDINATOR, 12, E.NOT_ENOUGH_REPLICAS, E.COORDINATOR_NOT_AVAILABLE),
        (E.CONCURRENT_TRANSACTIONS, 4, E.NOT_ENOUGH_REPLICAS, E.COORDINATOR_NOT_AVAILABLE),
        (E.CONCURRENT_TRANSACTIONS, 5, E.NOT_ENOUGH_REPLICAS, E.CONCURRENT_TRANSACTIONS),
        (E.CONCURRENT_TRANSACTIONS, 11, E.NOT_ENOUGH_REPLICAS, E.CONCURRENT_TRANSACTIONS),
        (E.CONCURRENT_TRANSACTIONS, 12, E.CONCURRENT_TRANSACTIONS, E.CONCURRENT_TRANSACTIONS),
        (E.TRANSACTION_ABORTABLE, 3, E.INVALID_TXN_STATE, E.INVALID_TXN_STATE),
        (E.TRANSACTION_ABORTABLE, 4, E.INVALID_TXN_STATE, E.TRANSACTION_ABORTABLE),
        (E.TRANSACTION_ABORTABLE, 11, E.TRANSACTION_ABORTABLE, E.TRANSACTION_ABORTABLE),
        (E.INVALID_PRODUCER_ID_MAPPING, 3, E.INVALID_PRODUCER_ID_MAPPING, E.INVALID_PRODUCER_ID_MAPPING),
    ],
)
@pytest.mark.behaviour("P4")
def test_what_the_coordinator_says_is_told_in_words_the_client_knows(
    error: ErrorCode, version: int, to_producer: ErrorCode, to_committer: ErrorCode
) -> None:
    assert told_to_producer(error, version) == to_producer
    assert told_to_committer(error, version) == to_committer


@pytest.mark.behaviour("P7", "P8", "P12")
def test_markers_nobody_asked_for_and_markers_that_are_too_old(world: World) -> None:
    def mark(producer: int, epoch: int, coordinator_epoch: int, index: int = 0) -> int:
        marker = WritableTxnMarker(
            producer_id=producer,
            producer_epoch=epoch,
            transaction_result=False,
            coordinator_epoch=coordinator_epoch,
            topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[index])],
        )
        answer = world.call(LEADER, WriteTxnMarkersRequest(markers=[marker]), 1)
        return int(answer.markers[0].topics[0].partitions[0].error_code)

    assert mark(9, 3, 5) == 0, "nobody knows it, and it is known from now on"
    assert mark(9, 3, 5) == 0
    assert mark(9, 3, 4) == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert mark(9, 2, 6) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert mark(9, 3, 6, index=4) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    asked = DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[0, 4])])
    first, second = world.call(LEADER, asked, 0).topics[0].partitions
    (row,) = first.active_producers
    assert (row.producer_id, row.producer_epoch, row.coordinator_epoch, row.last_sequence) == (9, 3, 5, -1)
    assert second.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_follower_tells_its_producers_too_and_whoever_has_no_replica_does_not(world: World) -> None:
    """`kafka-transactions.sh describe-producers --broker-id` compares replicas."""
    producer = init(world)
    add(world, producer)
    assert write(world, producer, b"a", 0) == 0
    asked = DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[0])])

    of_leader, of_follower = (world.call(broker, asked, 0).topics[0].partitions[0] for broker in (LEADER, 2))

    assert [one.producer_id for one in of_leader.active_producers] == [producer[0]]
    assert of_follower == of_leader


def test_a_name_that_no_topic_has_is_told_to_whoever_asks_for_its_producers(world: World) -> None:
    asked = DescribeProducersRequest(topics=[TopicRequest(name="a b", partition_indexes=[0])])
    (row,) = world.call(LEADER, asked, 0).topics[0].partitions
    assert row.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert row.error_message is not None
    assert row.error_message.startswith("Topic name is invalid: 'a b' contains")


def test_who_writes_a_marker_that_nobody_replicates_hears_so_after_half_a_minute_and_not_before(
    world: World,
) -> None:
    world.on_alter = "hold"
    world.cut.add((COORDINATOR, LEADER))
    asked = WriteTxnMarkersRequest(
        markers=[
            WritableTxnMarker(
                producer_id=7,
                topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[0])],
            )
        ]
    )
    waiting = world.send(LEADER, asked, 1)
    world.advance(WAIT_MS - 1_000)
    assert not waiting.is_answered
    world.advance(1_100)
    (row,) = waiting.message.markers[0].topics[0].partitions
    assert row.error_code == ErrorCode.REQUEST_TIMED_OUT


def test_markers_are_told_when_all_are_written_and_committed_not_when_the_first_ones_are(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(marker_writes, "AT_ONCE", 1)
    world.lead(LEADER, index=1, is_new=True)
    topics = [WritableTxnMarkerTopic(name="t", partition_indexes=[0, 1])]
    asked = WriteTxnMarkersRequest(markers=[WritableTxnMarker(producer_id=7, topics=topics)])
    waiting = world.send(LEADER, asked, 1)
    broker, first = world[LEADER].broker, world[LEADER].partition()
    assert [world[LEADER].partition("t", index).log.log_end_offset for index in (0, 1)] == [1, 0]
    source = FetchSource()
    source.connection_id = 1 << 30  # the newest there is
    for follower in (2, 3):
        first.follower_fetched(
            BrokerId(follower),
            1,
            follower_log_start=0,
            broker_epoch=world[follower].epoch,
            source=source,
            now_ms=world.now_ms,
        )
    assert first.high_watermark == 1
    broker.purgatory.sweep(world.now_ms)
    assert not waiting.is_answered

    while broker.go_on(world.now_ms):
        pass
    world.advance(1_000)
    rows = waiting.message.markers[0].topics[0].partitions
    assert [row.error_code for row in rows] == [0, 0]


def test_ids_are_listed_by_their_coordinator(world: World) -> None:
    producer = init(world)
    add(world, producer)
    asked = ListTransactionsRequest(state_filters=["Ongoing", "Nonsense"])

    answer = world.call(COORDINATOR, asked, 1)

    assert answer.unknown_state_filters == ["Nonsense"]
    assert [(one.transactional_id, one.transaction_state) for one in answer.transaction_states] == [
        (ID, TransactionState.ONGOING.title)
    ]
    assert world.call(LEADER, asked, 1).transaction_states == []


def test_a_list_of_very_many_ids_is_made_by_a_thread(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    init(world)
    asked = ListTransactionsRequest()
    at_once = world.call(COORDINATOR, asked, 1)
    monkeypatch.setattr(later, "MOST_AT_ONCE", 0)
    world.works = False

    pending = world.send(COORDINATOR, asked, 1)
    (aside,) = told(world, fx.RunAside, COORDINATOR)
    assert not pending.is_answered
    world[COORDINATOR].broker.answered(aside.request_id, aside.work.run(), world.now_ms)
    assert pending.message == at_once

    failed = world.send(COORDINATOR, asked, 1)
    (aside,) = told(world, fx.RunAside, COORDINATOR)
    world[COORDINATOR].broker.answered(aside.request_id, None, world.now_ms)
    assert isinstance(failed.result, CloseConnection)


def described_in_turns(world: World, asked: DescribeProducersRequest) -> tuple[Pending, int]:
    """The answer, and how many pieces of it a thread made."""
    pending = world.send(LEADER, asked, 0)
    turns = 0
    while not pending.is_answered:
        (aside,) = told(world, fx.RunAside, LEADER)
        world[LEADER].broker.answered(aside.request_id, aside.work.run(), world.now_ms)
        turns += 1
    return pending, turns


def test_very_many_producers_are_described_some_in_a_turn(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        world.produce(LEADER, records=batch(b"x", producer_id=number, producer_epoch=0, base_sequence=3))
    world.settle()
    asked = DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[4, 0])])
    at_once = world.call(LEADER, asked, 0)
    assert len(at_once.topics[0].partitions[1].active_producers) == 5
    monkeypatch.setattr(describe_producers, "MOST_AT_ONCE", 2)
    world.works = False

    pending, turns = described_in_turns(world, asked)
    assert pending.message == at_once
    assert turns == 5, "of seven producers and partitions two, two, two, one, and the whole is encoded"


def test_very_many_partitions_without_producers_are_described_some_in_a_turn(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An index is four bytes of a request and a row of its answer."""
    asked = DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[0, *range(7, 11)])])
    at_once = world.call(LEADER, asked, 0)
    monkeypatch.setattr(describe_producers, "MOST_AT_ONCE", 2)
    world.works = False

    pending, turns = described_in_turns(world, asked)
    assert pending.message == at_once
    assert len(at_once.topics[0].partitions) == 5
    assert turns == 4, "two, two, one, and the whole is encoded"


def test_a_garbage_record_among_the_transactions_costs_no_other(world: World) -> None:
    producer = init(world)
    partition = world[COORDINATOR].partition(TRANSACTIONS_TOPIC)
    for key, value in ((b"\0\0\0\2tx", b"\0\7nonsense"), (b"\0\x09later", b"x"), (None, b"x"), (b"\0", b"")):
        records = memoryview(bytearray(build_batch([NewRecord(key, value, 1)])))
        partition.append(records, acks=-1, now_ms=world.now_ms, from_coordinator=True)
    world.settle()

    world.lead(3, topic=TRANSACTIONS_TOPIC, topic_id=b"x" * 16)
    world.advance(1_000)

    assert state(world, 3) == "Empty"
    assert add(world, producer, 3) == 0
    lines = [one.text for one in world[3].told if isinstance(one, fx.LogLine)]
    assert sum("left out while loading" in line for line in lines) == 4


@pytest.mark.behaviour("P6")
def test_a_transactional_request_has_one_producer(world: World) -> None:
    first, second = (
        batch(b"x", producer_id=number, producer_epoch=0, base_sequence=0, is_transactional=True)
        for number in (*init(world)[:1], 77)
    )
    world.lead(LEADER, index=1, is_new=True)
    rows = [pm.PartitionProduceData(index=0, records=first), pm.PartitionProduceData(index=1, records=second)]
    request = pm.ProduceRequest(
        transactional_id=ID,
        acks=-1,
        timeout_ms=1_000,
        topic_data=[pm.TopicProduceData(name="t", partition_data=rows)],
    )

    found = world.call(LEADER, request, 11).responses[0].partition_responses

    assert [row.error_code for row in found] == [
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.INVALID_RECORD,
    ]


@pytest.mark.parametrize("second", [None, b"", batch(b"plain")], ids=["null", "empty", "plain"])
@pytest.mark.parametrize("version", [11, 12])
def test_a_partition_that_is_named_twice_may_have_another_batch_beside_the_transactional_one(
    world: World, version: int, second: bytes | None
) -> None:
    producer = init(world)
    assert add(world, producer) == 0
    first = batch(
        b"x", producer_id=producer[0], producer_epoch=producer[1], base_sequence=0, is_transactional=True
    )
    rows = [pm.PartitionProduceData(index=0, records=records) for records in (first, second)]
    request = pm.ProduceRequest(
        transactional_id=ID,
        acks=-1,
        timeout_ms=1_000,
        topic_data=[pm.TopicProduceData(name="t", partition_data=rows)],
    )

    found = world.call(LEADER, request, version).responses[0].partition_responses

    refusal = ErrorCode.NONE if second else ErrorCode.INVALID_RECORD
    assert [row.error_code for row in found] == [ErrorCode.NONE, refusal]
    assert end(world, producer) == 0


def test_a_produce_whose_transaction_was_asked_about_is_let_go_with_its_records(world: World) -> None:
    """It waited for the collector of cycles, which comes seldom: as much as all producers send in between."""
    producer = init(world)
    assert add(world, producer) == 0
    with left_over(Request) as left:
        assert write(world, producer, b"a", 0) == 0
        kept = [one for one in left() if one.api_key == ApiKey.PRODUCE]
    assert kept == []
