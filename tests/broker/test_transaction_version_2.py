"""`transaction.version` 2 on three brokers: a leader has a partition added, and what it is told holds until the next marker."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from odradek.broker import effects as fx
from odradek.broker import verifications
from odradek.broker.transactional_produce import ATTEMPTS
from odradek.model.error_codes import ErrorCode
from odradek.model.topic_names import GROUPS_TOPIC, TRANSACTIONS_TOPIC
from odradek.protocol.messages import api_versions as av
from odradek.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from odradek.protocol.messages.end_txn import EndTxnRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from tests.broker.test_transactions import (
    COORDINATOR,
    GROUPS,
    ID,
    LEADER,
    add,
    commit_offset,
    committed,
    fetched_offset,
    give_producer_ids,
    init,
    offsets_request,
    send,
    state,
)
from tests.broker.world import T0, TOPIC_ID, World

LEVEL = "transaction.version"
PRODUCE, END_TXN, TXN_OFFSET_COMMIT = 0, 26, 28


def made(path: Path, **settings: str) -> World:
    world = World(path, **settings)
    finalise(world, 2)
    world.lead(LEADER, is_new=True)
    world.lead(COORDINATOR, topic=TRANSACTIONS_TOPIC, topic_id=b"x" * 16)
    world.lead(GROUPS, topic=GROUPS_TOPIC, topic_id=b"o" * 16)
    give_producer_ids(world)
    world.advance(10)
    return world


@pytest.fixture
def world(tmp_path: Path) -> World:
    return made(tmp_path)


def finalise(world: World, level: int) -> None:
    for node in world.nodes.values():
        node.broker.features_changed({LEVEL: level} if level else {}, level)


def write(world: World, producer: tuple[int, int], value: bytes, sequence: int, version: int = 12) -> int:
    pending = send(world, producer, value, sequence, version)
    world.settle()
    return int(world.produced(pending)[0])


def end(world: World, producer: tuple[int, int], *, is_commit: bool = True, version: int = 5) -> Any:
    request = EndTxnRequest(
        transactional_id=ID, producer_id=producer[0], producer_epoch=producer[1], committed=is_commit
    )
    return world.call(COORDINATOR, request, version)


class Wire:
    """What brokers send each other: counted, and some of it held up."""

    def __init__(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        self.world = world
        self.questions: list[AddPartitionsToTxnRequest] = []
        self.holds: Callable[[Any], bool] = lambda message: False
        self.held: list[tuple[Any, fx.SendToBroker]] = []
        self._carry = world._ask_peer
        monkeypatch.setattr(world, "_ask_peer", self._ask_peer)

    def _ask_peer(self, node: Any, effect: fx.SendToBroker) -> None:
        if isinstance(effect.message, AddPartitionsToTxnRequest):
            self.questions.append(effect.message)
        if self.holds(effect.message):
            self.held.append((node, effect))
        else:
            self._carry(node, effect)

    def release(self) -> None:
        self.holds = lambda message: False
        held, self.held = self.held, []
        for node, effect in held:
            self._carry(node, effect)
        self.world.settle()


@pytest.fixture
def wire(world: World, monkeypatch: pytest.MonkeyPatch) -> Wire:
    return Wire(world, monkeypatch)


def is_marker(message: Any) -> bool:
    return isinstance(message, WriteTxnMarkersRequest)


def is_question(message: Any) -> bool:
    return isinstance(message, AddPartitionsToTxnRequest)


@pytest.mark.behaviour("T22", "T23", "T26")
def test_a_leader_adds_its_partition_once_and_each_end_raises_the_epoch(world: World, wire: Wire) -> None:
    producer = init(world)

    assert [write(world, producer, b"a", 0), write(world, producer, b"b", 1)] == [0, 0]
    assert len(wire.questions) == 1, "what is open and was added needs no question"
    assert state(world) == "Ongoing"
    told = end(world, producer)

    assert (told.error_code, told.producer_id, told.producer_epoch) == (0, producer[0], producer[1] + 1)
    assert committed(world) == (3, [])
    assert write(world, producer, b"late", 2) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert write(world, (producer[0], 1), b"c", 0) == 0


@pytest.mark.behaviour("T22")
def test_a_leader_whose_question_was_overtaken_by_the_marker_before_asks_once_more(
    world: World, wire: Wire
) -> None:
    producer = init(world)
    write(world, producer, b"a", 0)
    wire.holds = is_marker
    assert end(world, producer).error_code == 0
    pending = send(world, (producer[0], 1), b"b", 0, 12)
    world.settle()
    assert not pending.is_answered, "the coordinator waits for the marker"

    wire.release()

    assert world.produced(pending)[0] == 0
    assert len(wire.questions) == 3
    assert state(world) == "Ongoing"
    assert committed(world)[0] == 2, "behind the marker, and undecided"


@pytest.mark.behaviour("T29")
def test_what_a_client_writes_behind_an_end_of_the_older_way_does_not_slip_into_the_transaction_before(
    world: World, wire: Wire
) -> None:
    """EndTxn 3 leaves the epoch as it is, and in the log the transaction is open until its marker comes."""
    producer = init(world)
    add(world, producer)
    assert write(world, producer, b"aborted", 0, version=11) == 0
    wire.holds = is_marker
    assert end(world, producer, is_commit=False, version=3).error_code == 0
    pending = send(world, producer, b"kept", 1, 12)
    world.settle()
    assert world[LEADER].values() == [b"aborted"]

    wire.release()

    assert world.produced(pending)[0] == 0
    assert end(world, producer).error_code == 0
    assert committed(world) == (4, [(producer[0], 0)])
    assert world[LEADER].values()[2] == b"kept", "behind the marker of the one before"


@pytest.mark.behaviour("P3")
def test_what_was_added_to_a_transaction_that_was_aborted_meanwhile_is_not_written(
    world: World, wire: Wire
) -> None:
    producer = init(world)
    wire.holds = is_question
    pending = send(world, producer, b"late", 0, 12)
    world.settle()
    ((node, question),) = wire.held
    wire.held.clear()
    said = world.call(COORDINATOR, question.message, question.version)
    assert end(world, producer, is_commit=False).error_code == 0
    wire.holds = lambda message: False

    node.broker.answered(question.request_id, said, world.now_ms)
    world.settle()

    assert world.produced(pending)[0] == ErrorCode.INVALID_PRODUCER_EPOCH
    assert committed(world)[0] == 1, "the marker alone, and nothing open"


@pytest.mark.behaviour("P3")
def test_a_late_batch_of_an_older_producer_epoch_does_not_take_the_place_of_the_newer_ones_question(
    world: World, wire: Wire
) -> None:
    older, newer = init(world), init(world)
    assert newer == (older[0], older[1] + 1)
    assert add(world, newer) == 0
    wire.holds = is_question
    pending = send(world, newer, b"newer", 0, 11)
    late = send(world, older, b"older", 7, 11)
    world.settle()
    assert len(wire.held) == 2

    wire.release()

    assert world.produced(late)[0] == ErrorCode.INVALID_PRODUCER_EPOCH
    assert world.produced(pending)[0] == 0
    assert world[LEADER].values() == [b"newer"]


def test_a_late_copy_of_a_batch_takes_nothing_from_the_transaction_after_its_own(
    world: World, wire: Wire
) -> None:
    """It was sent over a connection that broke, and is read when the producer's next transaction begins."""
    producer = init(world)
    add(world, producer)
    assert write(world, producer, b"a", 0, version=11) == ErrorCode.NONE
    assert end(world, producer, version=4).error_code == ErrorCode.NONE
    world.settle()
    add(world, producer)
    wire.holds = is_question
    late, first = send(world, producer, b"a", 0, 11), send(world, producer, b"b", 1, 11)
    world.settle()

    wire.release()

    assert world.produced(late) == (ErrorCode.NONE, 0)
    assert world.produced(first)[0] == ErrorCode.NONE


def test_a_leader_asks_a_few_times_and_then_gives_up(
    world: World, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = init(world)
    monkeypatch.setattr(verifications.Verifications, "still_holds", lambda *asked: False)

    assert write(world, producer, b"a", 0) == ErrorCode.INVALID_TXN_STATE
    assert len(wire.questions) == ATTEMPTS
    assert commit_offset(world, producer, 5) == ErrorCode.INVALID_TXN_STATE
    assert world[LEADER].values() == []


@pytest.mark.behaviour("T22")
def test_the_next_leader_asks_and_goes_on_in_the_same_transaction(world: World, wire: Wire) -> None:
    producer = init(world)
    write(world, producer, b"a", 0)
    world.lead(3)
    world.lead(LEADER)

    assert write(world, producer, b"b", 1) == 0
    assert write(world, producer, b"c", 2) == 0

    assert len(wire.questions) == 2, "once in each term"
    assert end(world, producer).error_code == 0
    assert committed(world) == (4, [])


def test_what_was_added_for_a_topic_is_not_taken_for_added_for_the_one_made_again_under_its_name(
    world: World, wire: Wire
) -> None:
    """Its leader begins with the epoch of the former one."""
    producer = init(world)
    assert write(world, producer, b"a", 0) == 0
    for node in (1, 2, 3):
        world.stop_replica(node, T0, leader_epoch=-2, delete=True)
    del world.leadership[T0]
    world.lead(LEADER, topic_id=b"m" * 16, is_new=True)
    assert write(world, producer, b"b", 0, version=11) == 0, "by a client of the older way"
    asked = len(wire.questions)
    assert write(world, producer, b"c", 1) == 0
    assert len(wire.questions) == asked + 1


def test_a_leader_that_remembers_enough_forgets_the_oldest_and_asks_again(
    world: World, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verifications, "MOST_OPEN", 1)
    producer, other = init(world), init(world, "other")
    write(world, producer, b"a", 0)
    world[LEADER].broker.verifications._added[(world[LEADER].partition().topic_partition, other[0])] = (0, 0)
    del world[LEADER].broker.verifications._added[(world[LEADER].partition().topic_partition, producer[0])]

    assert write(world, producer, b"b", 1) == 0

    assert len(wire.questions) == 2
    assert len(world[LEADER].broker.verifications._added) == 1


def test_a_leader_that_remembers_enough_forgets_nobody_for_one_that_it_remembers(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two that write in turns would push each other out, and each batch cost a question."""
    monkeypatch.setattr(verifications, "MOST_OPEN", 2)
    producer = init(world)
    assert write(world, producer, b"a", 0) == 0
    added = world[LEADER].broker.verifications._added
    added[T0, producer[0] + 1] = 0, 0, TOPIC_ID
    for sequence in (1, 2):
        assert write(world, producer, b"b", sequence) == 0
    assert set(added) == {(T0, producer[0]), (T0, producer[0] + 1)}


def test_a_question_whose_batch_is_in_the_log_takes_no_room_from_those_that_are_under_way(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verifications, "MOST_OPEN", 2)
    producer = init(world)
    assert write(world, producer, b"a", 0) == 0
    partition = world[LEADER].partition()
    questions = verifications.Verifications()
    waits, writes, comes = (
        verifications.Writer(*one, 0) for one in ((producer[0] + 1, 0), producer, (producer[0] + 2, 0))
    )
    verified = questions.begin(partition, waits, is_adding=True)
    questions.begin(partition, writes, is_adding=True)
    questions.opened(partition, writes, is_added=True)
    questions.begin(partition, comes, is_adding=True)
    assert questions.still_holds(partition, waits, verified)


def test_a_partition_is_added_also_where_nothing_is_verified(tmp_path: Path) -> None:
    world = made(tmp_path, transaction_partition_verification_enable="false")
    producer = init(world)

    assert write(world, producer, b"a", 0) == 0
    assert commit_offset(world, producer, 5) == 0

    assert state(world) == "Ongoing"
    assert end(world, producer).error_code == 0
    assert committed(world) == (2, [])
    assert fetched_offset(world, stable=True) == (7, 0)


@pytest.mark.behaviour("T27", "P1")
def test_the_first_sequence_of_a_producer_nobody_knows_is_0(world: World) -> None:
    producer = init(world)

    assert write(world, producer, b"a", 5) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert state(world) == "Ongoing", "the partition was added all the same"
    assert write(world, producer, b"a", 0) == 0


@pytest.mark.behaviour("T22", "T28")
def test_offsets_are_added_by_the_coordinator_of_their_group(world: World, wire: Wire) -> None:
    producer = init(world)
    assert commit_offset(world, producer, 5) == 0
    wire.holds = is_marker
    assert end(world, producer).error_code == 0
    assert fetched_offset(world, stable=True) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)

    wire.release()

    assert fetched_offset(world, stable=True) == (7, 0)
    assert commit_offset(world, producer, 5) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert commit_offset(world, (producer[0], 1), 5) == 0


def test_a_transaction_whose_first_batch_was_checked_aside_is_asked_about_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = made(tmp_path, odradek_log_record_validation="full")
    wire = Wire(world, monkeypatch)
    producer = init(world)
    first = send(world, producer, b"v", 0, 12, values=2_000)
    world.settle()
    assert world.produced(first) == (ErrorCode.NONE, 0)
    assert write(world, producer, b"w", 2_000) == 0
    assert len(wire.questions) == 1


@pytest.mark.behaviour("T22")
def test_offsets_whose_question_was_overtaken_by_the_marker_before_are_asked_about_once_more(
    world: World, wire: Wire
) -> None:
    producer = init(world)
    commit_offset(world, producer, 5)
    before = len(wire.questions)
    wire.holds = is_marker
    end(world, producer)
    pending = world.send(GROUPS, offsets_request((producer[0], 1)), 5)
    world.settle()
    assert not pending.is_answered

    wire.release()

    assert pending.message.topics[0].partitions[0].error_code == 0
    assert len(wire.questions) == before + 2
    assert fetched_offset(world, stable=True) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)


@pytest.mark.behaviour("T30")
def test_who_timed_out_goes_on_in_the_epoch_that_its_time_out_raised(world: World) -> None:
    producer = init(world)
    write(world, producer, b"a", 0)
    world.advance(75_000)
    assert state(world) == "CompleteAbort"

    assert write(world, producer, b"b", 1) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert end(world, producer).error_code == ErrorCode.INVALID_TXN_STATE, "it was not committed"
    told = end(world, producer, is_commit=False)

    assert (told.error_code, told.producer_epoch) == (0, producer[1] + 1)
    known = {"producer_id": producer[0], "producer_epoch": producer[1]}
    assert init(world, **known) == (producer[0], producer[1] + 1)


def listed(world: World, version: int = 4) -> tuple[dict[int, int], list[str], dict[str, int]]:
    """The last versions of the keys that belong to it; features that are supported; features that are finalised."""
    asked = av.ApiVersionsRequest(client_software_name="x", client_software_version="1")
    answer = world.call(LEADER, asked, version)
    last = {row.api_key: row.max_version for row in answer.api_keys}
    return (
        {key: last[key] for key in (PRODUCE, END_TXN, TXN_OFFSET_COMMIT)},
        [row.name for row in answer.supported_features],
        {row.name: row.max_version_level for row in answer.finalized_features},
    )


@pytest.mark.behaviour("T22")
def test_it_is_offered_while_it_is_finalised(tmp_path: Path) -> None:
    world = World(tmp_path)
    newest, older = ({PRODUCE: a, END_TXN: b, TXN_OFFSET_COMMIT: b} for a, b in ((12, 5), (11, 4)))

    assert listed(world) == (newest, [LEVEL], {}), "nobody has read yet what is finalised"
    finalise(world, 0)
    assert listed(world) == (older, [LEVEL], {})
    finalise(world, 1)
    assert listed(world) == (older, [LEVEL], {LEVEL: 1})
    finalise(world, 2)
    assert listed(world) == (newest, [LEVEL], {LEVEL: 2})
    assert listed(world, 3)[1] == [], "a client of version 3 does not know features that begin at 0"


def test_records_are_written_as_3_9_reads_them_until_it_is_finalised(world: World) -> None:
    def last_version() -> int:
        return int.from_bytes(world[COORDINATOR].values(TRANSACTIONS_TOPIC)[-1][:2], "big")

    finalise(world, 0)
    producer = init(world)
    assert last_version() == 0
    finalise(world, 1)
    assert write(world, producer, b"a", 0) == 0
    assert last_version() == 1


def test_a_client_that_was_told_of_it_a_moment_ago_is_served_when_it_is_taken_out(world: World) -> None:
    producer = init(world)
    write(world, producer, b"a", 0)
    finalise(world, 0)

    told = end(world, producer)

    assert (told.error_code, told.producer_epoch) == (0, producer[1] + 1)


def test_what_another_owner_left_open_is_aborted_when_the_id_is_taken_over(world: World) -> None:
    old = init(world)
    write(world, old, b"a", 0)
    request = InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=60_000)
    assert world.call(COORDINATOR, request, 5).error_code == ErrorCode.CONCURRENT_TRANSACTIONS

    new = init(world)

    assert new == (old[0], old[1] + 2)
    assert end(world, old).error_code == ErrorCode.PRODUCER_FENCED
    assert write(world, old, b"zombie", 1) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert write(world, new, b"b", 0) == 0
