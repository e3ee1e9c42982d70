"""What would keep the loop for longer than a turn may: piece by piece, in order, and the same answer byte for byte."""

import gc
import weakref
from collections.abc import Callable, Iterator
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import pytest

from odradek.broker import coordinator_calls, coordinator_shards, marker_writes
from odradek.broker import effects as fx
from odradek.broker.answers import CloseConnection, Park, Reply
from odradek.broker.coordinator_shards import ANSWERS_OF_A_SLICE, MOST_ANSWERS, MOST_ROWS
from odradek.broker.handlers.offset_fetch import GROUPS_AT_ONCE
from odradek.broker.marker_writes import AT_ONCE, WAIT_MS
from odradek.broker.slices import Slices, answer_in_slices
from odradek.coordinator import committing, fetching, later
from odradek.coordinator.consumer_records import TargetRecord
from odradek.coordinator.events import Tick
from odradek.coordinator.expiry import Expired
from odradek.coordinator.member import Client
from odradek.coordinator.transaction_records import StoredTransaction, TransactionRecord
from odradek.coordinator.transaction_states import TransactionState
from odradek.model.error_codes import ErrorCode
from odradek.model.topic_names import GROUPS_TOPIC, TRANSACTIONS_TOPIC
from odradek.protocol.messages.describe_groups import DescribeGroupsRequest
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from odradek.protocol.messages.list_groups import ListGroupsRequest
from odradek.protocol.messages.list_transactions import ListTransactionsRequest
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)
from odradek.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
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
from tests.broker.world import T0, Pending, World

MANY = MOST_ROWS + 500


def a_world(path: Path, *, partitions: int = MANY, **settings: str) -> World:
    """One broker that coordinates; of the topic `big` it knows so many partitions."""
    world = World(path, brokers=(1,), offsets_topic_replication_factor="1", **settings)
    world.coordinate_alone(partitions)
    world.advance(20)
    return world


def one_turn(world: World) -> bool:
    """What is due in this turn; whether another one is wanted."""
    wants = False
    while taken := world[1].broker.take_effects():
        wants |= any(isinstance(effect, fx.GoOn) for effect in taken)
        for effect in taken:
            if isinstance(effect, fx.RunAside):
                world[1].broker.answered(effect.request_id, effect.work.run(), world.now_ms)
    return wants


def commit(count: int, offset: int = 5, metadata: str = "") -> OffsetCommitRequest:
    rows = [
        OffsetCommitRequestPartition(
            partition_index=index, committed_offset=offset, committed_metadata=metadata
        )
        for index in range(count)
    ]
    return OffsetCommitRequest(group_id="g", topics=[OffsetCommitRequestTopic(name="big", partitions=rows)])


def commit_in_a_transaction(group: str, count: int, offset: int) -> TxnOffsetCommitRequest:
    rows = [
        TxnOffsetCommitRequestPartition(partition_index=at, committed_offset=offset) for at in range(count)
    ]
    return TxnOffsetCommitRequest(
        group_id=group,
        producer_id=5,
        producer_epoch=0,
        topics=[TxnOffsetCommitRequestTopic(name="big", partitions=rows)],
    )


def fetched(world: World) -> list[int]:
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)])
    (group,) = world.call(1, request, 8).groups
    return [one.committed_offset for topic in group.topics for one in topic.partitions]


def join(world: World) -> Pending:
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"m")],
    )
    return world.send(1, request, 3)


def markers(topic: str, partitions: list[int], producer_id: int = 5) -> WriteTxnMarkersRequest:
    marker = WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=0,
        transaction_result=True,
        topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=partitions)],
        coordinator_epoch=0,
    )
    return WriteTxnMarkersRequest(markers=[marker])


# ------------------------------------------------------------------------------------------------------ pieces


def test_works_take_turns_and_a_mistake_ends_one_of_them_alone() -> None:
    effects: list[fx.Effect] = []
    slices = Slices(effects)
    done: list[str] = []

    def work(name: str, pieces: int) -> Callable[[int], bool]:
        def piece(now_ms: int) -> bool:
            done.append(name)
            if name == "broken":
                raise ZeroDivisionError("ours")
            return done.count(name) < pieces

        return piece

    for name, pieces in (("a", 3), ("broken", 9), ("b", 2)):
        slices.begin(work(name, pieces))
    assert effects == [fx.GoOn()] * 3 and done == [], "not in the turn that began it"
    while slices.go_on(0):
        pass

    assert done == ["a", "broken", "b", "a", "b", "a"]
    (line,) = [effect for effect in effects if isinstance(effect, fx.LogLine)]
    assert line.level == "error" and "ZeroDivisionError: ours" in line.text


def test_a_mistake_of_which_there_is_no_memory_for_a_trace_keeps_no_other_work_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It stood still until somebody began another one."""
    effects: list[fx.Effect] = []
    slices = Slices(effects)
    done: list[int] = []

    def no_memory(*_: object, **__: object) -> bool:
        raise MemoryError

    slices.begin(no_memory)
    slices.begin(lambda now_ms: bool(done.append(now_ms)))
    monkeypatch.setattr("odradek.broker.slices.format_exc", no_memory)
    assert slices.go_on(1) and not slices.go_on(2) and done == [2]
    assert [one.level for one in effects if isinstance(one, fx.LogLine)] == ["error"]


def test_an_answer_in_slices_is_there_when_the_last_step_is_done() -> None:
    def steps(count: int) -> Iterator[None]:
        for _ in range(count):
            yield
        done.append(count)

    effects: list[fx.Effect] = []
    slices = Slices(effects)
    done: list[int] = []
    at_once = answer_in_slices(slices, steps(0), lambda: Reply([b"none"]))
    assert isinstance(at_once, Reply) and effects == []
    park = answer_in_slices(slices, steps(2), lambda: Reply([b"two"]))
    assert isinstance(park, Park) and slices.go_on(0) and park.result is None
    assert not slices.go_on(0) and isinstance(park.result, Reply) and done == [0, 2]


def test_a_mistake_in_a_step_of_an_answer_ends_the_wait_for_it() -> None:
    def steps() -> Iterator[None]:
        yield
        raise ZeroDivisionError("ours")

    slices = Slices([])
    park = answer_in_slices(slices, steps(), lambda: Reply([]))
    assert isinstance(park, Park) and not slices.go_on(0)
    assert isinstance(park.result, CloseConnection) and "ours" in park.result.reason


def describe(names: list[str]) -> DescribeGroupsRequest:
    return DescribeGroupsRequest(groups=names)


def test_a_question_about_many_groups_is_answered_as_one_about_few(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = a_world(tmp_path)
    join(world)
    world.settle()
    names = ["b", "g", "c", "b", "a", "d"]
    at_once = world.call(1, describe(names), 5)
    monkeypatch.setattr(coordinator_calls, "NAMES_AT_ONCE", 2)

    pending = world.send(1, describe(names), 5)

    assert not pending.is_answered
    world.settle()
    assert pending.message == at_once
    assert [group.group_id for group in at_once.groups] == ["b", "g", "c", "a", "d"]


def test_offsets_of_many_groups_are_asked_for_some_in_a_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of sixty groups with 240 offsets and 4,000 letters of metadata each, the turn took 120 ms."""
    world = a_world(tmp_path)
    names = [f"g{number}" for number in range(3 * GROUPS_AT_ONCE)]
    for name in names:
        committed = commit(1)
        committed.group_id = name
        world.call(1, committed, 8)
    asked: list[int] = []
    make = fetching._group
    monkeypatch.setattr(fetching, "_group", lambda *given: asked.append(1) or make(*given))
    fetch = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=name, topics=None) for name in names])

    pending = world.send(1, fetch, 8)

    turns = []
    while world[1].broker.go_on(world.now_ms):
        turns.append(len(asked))
        asked.clear()
    assert sum(turns) + len(asked) == len(names) and max([*turns, len(asked)]) == GROUPS_AT_ONCE
    world.settle()
    assert [group.group_id for group in pending.message.groups] == names
    assert all(group.topics[0].partitions[0].committed_offset == 5 for group in pending.message.groups)


def test_a_mistake_in_a_slice_of_a_question_about_many_groups_ends_the_wait_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = a_world(tmp_path)
    monkeypatch.setattr(coordinator_calls, "NAMES_AT_ONCE", 2)
    pending = world.send(1, describe(["a", "b", "c"]), 5)
    one_turn(world)
    assert world[1].broker.go_on(world.now_ms) and not pending.is_answered
    with monkeypatch.context() as patched:
        patched.setattr(world[1].broker.groups, "ask", lambda *args: 1 / 0)
        assert not world[1].broker.go_on(world.now_ms)

    assert isinstance(pending.result, CloseConnection) and "ZeroDivisionError" in pending.result.reason


def a_world_of_coordinators(path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """Three of groups and three of transactional ids, with one each; and very few may be listed in a turn."""
    monkeypatch.setattr(coordinator_calls, "SIZE_AT_ONCE", 2)
    world = a_world(path, partitions=1)
    for topic in (GROUPS_TOPIC, TRANSACTIONS_TOPIC):
        for index in (1, 2):
            topic_id = topic.encode()[:16].ljust(16)
            world.lead(1, topic=topic, index=index, topic_id=topic_id, isr=(1,), replicas=(1,), is_new=True)
    world.advance(20)
    value = StoredTransaction(1, 0, 1_000, TransactionState.EMPTY, frozenset(), 0)
    for index, shard in world[1].broker.transactions.shards.items():
        assert shard.coordinator is not None
        shard.coordinator.room.stored.replay(TransactionRecord(f"id-{index}", value), 0, -1)
    for index, groups in world[1].broker.groups.shards.items():
        assert groups.coordinator is not None
        groups.coordinator.shard.group(f"g{index}", 0)
    return world


@pytest.mark.parametrize("goes", [False, True])
@pytest.mark.parametrize("asked", [ListGroupsRequest(), ListTransactionsRequest()])
def test_of_coordinators_that_have_much_to_list_one_is_asked_in_a_slice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: Any, *, goes: bool
) -> None:
    world = a_world_of_coordinators(tmp_path, monkeypatch)
    broker = world[1].broker
    topic, shards = GROUPS_TOPIC, broker.groups
    if isinstance(asked, ListTransactionsRequest):
        topic, shards = TRANSACTIONS_TOPIC, broker.transactions
    seen = []
    ask = shards.ask
    monkeypatch.setattr(shards, "ask", lambda index, *rest: (seen.append(index), ask(index, *rest)))

    pending = world.send(1, asked, 1)
    assert not pending.is_answered and not seen
    assert broker.go_on(world.now_ms) and seen == [0]
    if goes:
        world.lead(7, topic=topic, index=1, topic_id=topic.encode()[:16].ljust(16), replicas=(1, 7), isr=(7,))
    while broker.go_on(world.now_ms):
        pass
    world.settle()

    assert seen == ([0, 2] if goes else [0, 1, 2])
    assert pending.message.error_code == ErrorCode.NONE
    rows = pending.message.groups if topic == GROUPS_TOPIC else pending.message.transaction_states
    assert len(rows) == len(seen)


def test_a_controllers_request_that_fails_leaves_other_slices_going_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = a_world(tmp_path, partitions=0)[1].broker
    broker.slices.begin(lambda now_ms: True)
    broker.take_effects()
    monkeypatch.setattr(broker.control_queue, "go_on", lambda now_ms: 1 / 0)

    with pytest.raises(ZeroDivisionError):
        broker.go_on(0)

    assert fx.GoOn() in broker.take_effects()


# ----------------------------------------------------------------------------------------------------- answers


def test_of_the_answers_of_one_step_some_are_given_in_each_turn(tmp_path: Path) -> None:
    world = a_world(tmp_path, partitions=0)
    pending = [join(world) for _ in range(MOST_ANSWERS + 25)]
    broker = world[1].broker
    answered: list[int] = []
    while not any(one.is_answered for one in pending):
        one_turn(world)
        world.now_ms += 3_000
        broker.tick(world.now_ms)
    assert one_turn(world)
    is_more = True
    while is_more:
        answered.append(sum(one.is_answered for one in pending))
        is_more = broker.go_on(world.now_ms)

    assert answered[0] == MOST_ANSWERS
    assert {b - a for a, b in pairwise(answered)} <= {ANSWERS_OF_A_SLICE, 5}
    assert {one.message.generation_id for one in pending} == {1}
    assert len({one.message.member_id for one in pending}) == len(pending)


# ----------------------------------------------------------------------------------------------------- appends


def test_a_large_commit_is_appended_in_a_turn_of_its_own_and_a_later_one_behind_it(tmp_path: Path) -> None:
    world = a_world(tmp_path)
    log = world[1].partition(GROUPS_TOPIC).log
    before = log.log_end_offset

    large = world.send(1, commit(MANY, offset=5), 8)
    small = world.send(1, commit(1, offset=6), 8)

    assert log.log_end_offset == before and not small.is_answered
    world.settle()
    assert {one.error_code for one in large.message.topics[0].partitions} == {0}
    assert fetched(world) == [6] + [5] * (MANY - 1), "the later one counts"
    assert log.log_end_offset == before + MANY + 1


@pytest.mark.parametrize(("rows", "at_once"), [(MOST_ROWS, MOST_ROWS), (MOST_ROWS + 1, 0)])
def test_a_commit_of_as_many_rows_as_a_turn_has_time_for_is_appended_in_the_turn_that_made_it(
    tmp_path: Path, rows: int, at_once: int
) -> None:
    world = a_world(tmp_path)
    log = world[1].partition(GROUPS_TOPIC).log
    before = log.log_end_offset

    world.send(1, commit(rows), 8)

    assert log.log_end_offset == before + at_once


def overdue(world: World, index: int, count: int) -> None:
    """So many transactions that were open for too long, at the coordinator of this partition."""
    world.lead(
        1,
        topic=TRANSACTIONS_TOPIC,
        index=index,
        topic_id=TRANSACTIONS_TOPIC.encode()[:16].ljust(16),
        isr=(1,),
        replicas=(1,),
        is_new=True,
    )
    world.advance(20)
    coordinator = world[1].broker.transactions.shards[index].coordinator
    assert coordinator is not None
    open_ = StoredTransaction(
        1, 0, 1, TransactionState.ONGOING, frozenset([T0]), world.now_ms - 60_000, world.now_ms - 60_000
    )
    for number in range(count):
        record = TransactionRecord(f"id{number}", open_._replace(producer_id=100 * index + number))
        coordinator.room.stored.replay(record, number, -1)


def aborted(world: World) -> int:
    """How many are open no more."""
    return sum(
        value.state is not TransactionState.ONGOING
        for shard in world[1].broker.transactions.shards.values()
        if shard.coordinator is not None
        for value in shard.coordinator.room.stored.by_id.values()
    )


@pytest.mark.parametrize(("coordinators", "each", "seen"), [(3, 60, [60, 120, 180]), (10, 1, [8, 10])])
def test_of_coordinators_that_are_due_at_once_few_have_their_time_in_one_turn(
    tmp_path: Path, coordinators: int, each: int, seen: list[int]
) -> None:
    """A broker leads fifty of them, which began together: what each may do in a turn all of them did in the same one."""
    world = a_world(tmp_path, partitions=0)
    for index in range(coordinators):
        overdue(world, index, each)
    broker = world[1].broker
    for shard in broker.transactions.shards.values():
        assert shard.coordinator is not None
        shard.coordinator.time_outs.due_ms = 0
        broker.transactions._arm(shard, 0)
    after_each_turn = []
    while broker.next_deadline_ms() <= world.now_ms:
        broker.tick(world.now_ms)
        after_each_turn.append(aborted(world))

    assert after_each_turn == seen


def test_what_waits_to_be_appended_goes_with_the_coordinator(tmp_path: Path) -> None:
    world = a_world(tmp_path)
    log = world[1].partition(GROUPS_TOPIC).log
    before = log.log_end_offset
    large = world.send(1, commit(MANY), 8)
    broker = world[1].broker

    broker.groups._unload(0, world.now_ms)
    world.settle()

    codes = {one.error_code for one in large.message.topics[0].partitions}
    assert codes == {ErrorCode.NOT_COORDINATOR}
    assert log.log_end_offset == before


def test_a_mistake_in_an_append_that_waited_has_the_coordinator_loaded_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = a_world(tmp_path)
    large = world.send(1, commit(MANY), 8)
    with monkeypatch.context() as patched:
        patched.setattr(world[1].broker.groups, "_batch", lambda *_: 1 / 0)
        world.settle()

    assert {one.error_code for one in large.message.topics[0].partitions} == {ErrorCode.NOT_COORDINATOR}
    assert any("a mistake of ours" in line.text for line in world[1].told if isinstance(line, fx.LogLine))
    world.advance(20)
    assert fetched(world) == []


def of_a_group_of_kip_848(world: World, count: int) -> None:
    """So many records on their way."""
    groups = world[1].broker.groups
    (shard,) = groups.shards.values()
    assert shard.coordinator is not None
    records = [TargetRecord("k", f"m{number}", {}) for number in range(count)]
    shard.coordinator.shard.append(records, Expired("k"))
    groups._tell(shard, Tick(), world.now_ms)


@pytest.mark.parametrize("is_hurried", [False, True])
def test_very_many_records_of_a_group_are_encoded_in_pieces_and_appended_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_hurried: bool
) -> None:
    world = a_world(tmp_path, transaction_partition_verification_enable="false")
    groups, log = world[1].broker.groups, world[1].partition(GROUPS_TOPIC).log
    before = log.log_end_offset
    encoded = []
    encode = groups._encoded
    monkeypatch.setattr(groups, "_encoded", lambda record: (encoded.append(record), encode(record))[1])
    of_a_group_of_kip_848(world, 2 * MOST_ROWS + 5)
    pieces = [len(encoded)]
    assert world[1].broker.go_on(world.now_ms)
    pieces.append(len(encoded))
    if is_hurried:  # a transaction's offsets go in their turn, and what is before them
        world.send(1, commit_in_a_transaction("g", 1, offset=9), 3)
        pieces.append(len(encoded))
    while world[1].broker.go_on(world.now_ms):
        pieces.append(len(encoded))

    assert pieces[:2] == [0, MOST_ROWS]
    assert pieces[2] == (2 * MOST_ROWS + 6 if is_hurried else 2 * MOST_ROWS)
    assert log.log_end_offset == before + 2 * MOST_ROWS + 5 + is_hurried
    (shard,) = groups.shards.values()
    assert shard.coordinator is not None
    image = shard.coordinator.shard.stored.consumer_groups["k"]
    assert len(image.targets) == 2 * MOST_ROWS + 5


def test_what_a_coordinator_knew_goes_in_pieces_and_whoever_still_asks_is_sent_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A million offsets that went at once held up everybody for 1.2 s; and half of them are not to be told for all."""
    monkeypatch.setattr(coordinator_shards, "MOST_FORGOTTEN", 100)
    monkeypatch.setattr(coordinator_shards, "FORGOTTEN_OF_A_SLICE", 1_000)
    world = a_world(tmp_path)
    world.send(1, commit(MANY, offset=5), 8)
    world.settle()
    groups = world[1].broker.groups
    (shard,) = groups.shards.values()
    assert shard.coordinator is not None
    places = shard.coordinator.shard.offsets.by_group["g"]
    answers: list[Any] = []
    asked = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)])
    groups.ask(0, asked, 8, Client("", ""), answers.append, world.now_ms)

    groups._unload(0, world.now_ms)
    left = [len(places)]
    while world[1].broker.go_on(world.now_ms):
        left.append(len(places))

    assert left == [MANY, MANY - 1_000]
    assert not places
    (answer,) = answers
    assert answer.make().groups[0].error_code == ErrorCode.NOT_COORDINATOR


def test_very_many_groups_go_in_pieces_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty thousand of three members that went at once held up everybody for 70 ms."""
    monkeypatch.setattr(coordinator_shards, "MOST_FORGOTTEN", 10)
    monkeypatch.setattr(coordinator_shards, "FORGOTTEN_OF_A_SLICE", 4)
    world = a_world(tmp_path, partitions=1)
    groups = world[1].broker.groups
    (shard,) = groups.shards.values()
    assert shard.coordinator is not None
    memory = shard.coordinator.shard
    tables: list[dict[str, Any]] = [memory.groups, memory.stored.groups]
    tables += [memory.consumer_groups, memory.stored.consumer_groups]
    for number, table in product(range(10), tables):
        table[f"g{number}"] = None

    groups._end(groups.shards.pop(0))
    left = [sum(map(len, tables))]
    while world[1].broker.go_on(world.now_ms):
        left.append(sum(map(len, tables)))

    assert left[0] == 40
    assert all(before - 4 <= after < before for before, after in pairwise(left))
    assert not any(tables)


class Chain:
    """Each piece is appended when the one before is committed."""

    def __init__(self, pieces: int) -> None:
        self.left = pieces

    def append(self, shard: Any) -> None:
        self.left -= 1
        shard.append([TargetRecord("k", f"m{number}", {}) for number in range(MOST_ROWS // 4)], self)

    def committed(self, shard: Any, now_ms: int) -> None:
        if self.left:
            self.append(shard)

    def failed(self, shard: Any, error: ErrorCode, now_ms: int) -> None:
        raise AssertionError(error)


def test_pieces_that_follow_one_from_the_other_are_appended_some_in_a_turn(tmp_path: Path) -> None:
    world = a_world(tmp_path)
    groups, log = world[1].broker.groups, world[1].partition(GROUPS_TOPIC).log
    (shard,) = groups.shards.values()
    assert shard.coordinator is not None
    chain, before = Chain(10), log.log_end_offset
    chain.append(shard.coordinator.shard)
    groups._tell(shard, Tick(), world.now_ms)
    pieces = [10 - chain.left]
    while world[1].broker.go_on(world.now_ms) or chain.left:
        pieces.append(10 - chain.left)

    assert pieces == sorted(pieces) and pieces[0] == 5, "four are appended, and one waits"
    assert max(later - earlier for earlier, later in pairwise(pieces)) <= 5
    assert log.log_end_offset == before + 10 * (MOST_ROWS // 4)


def test_a_mistake_in_a_piece_of_an_append_has_the_coordinator_loaded_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = a_world(tmp_path)
    groups = world[1].broker.groups
    (shard,) = groups.shards.values()
    with monkeypatch.context() as patched:
        patched.setattr(groups, "_encoded", lambda record: 1 / 0)
        of_a_group_of_kip_848(world, MOST_ROWS + 1)
        world.settle()

    assert shard.is_over
    assert any("a mistake of ours" in line.text for line in world[1].told if isinstance(line, fx.LogLine))


def test_offsets_of_a_transaction_are_appended_before_its_marker_can_be(tmp_path: Path) -> None:
    """Whether the transaction is open was asked in this turn. Behind its marker they would wait for another one without end."""
    world = a_world(tmp_path, transaction_partition_verification_enable="false")
    log = world[1].partition(GROUPS_TOPIC).log
    before = log.log_end_offset
    plain = world.send(1, commit(MANY, offset=5), 8)
    world.send(1, commit_in_a_transaction("g", MANY, offset=9), 3)

    assert log.log_end_offset == before + 2 * MANY, "and what waited before it"
    world.settle()
    assert plain.is_answered and fetched(world) == [5] * MANY
    world.call(1, markers(GROUPS_TOPIC, [0]), 1)
    assert fetched(world) == [9] * MANY


# ----------------------------------------------------------------------------------------------------- markers


def test_markers_are_appended_some_at_a_time_and_told_together(tmp_path: Path) -> None:
    world = a_world(tmp_path, partitions=0)
    log = world[1].partition("t").log
    before = log.log_end_offset
    count = 3 * AT_ONCE + 5

    pending = world.send(1, markers("t", [0] * count), 1)

    assert log.log_end_offset == before + AT_ONCE and not pending.is_answered
    one_turn(world)
    assert world[1].broker.go_on(world.now_ms)
    assert log.log_end_offset == before + 2 * AT_ONCE and not pending.is_answered
    while world[1].broker.go_on(world.now_ms):
        pass
    rows = pending.message.markers[0].topics[0].partitions
    assert [row.error_code for row in rows] == [0] * count
    assert log.log_end_offset == before + count


def test_markers_that_come_too_late_are_told_as_not_written_and_are_not(tmp_path: Path) -> None:
    world = a_world(tmp_path, partitions=0)
    log = world[1].partition("t").log
    before = log.log_end_offset
    pending = world.send(1, markers("t", [0] * (AT_ONCE + 3)), 1)

    world.now_ms += WAIT_MS + 10
    world[1].broker.tick(world.now_ms)

    rows = pending.message.markers[0].topics[0].partitions
    assert [row.error_code for row in rows] == [0] * AT_ONCE + [ErrorCode.REQUEST_TIMED_OUT] * 3
    world.settle()
    assert log.log_end_offset == before + AT_ONCE


def test_no_marker_overtakes_one_that_came_before_it(tmp_path: Path) -> None:
    """A coordinator that lost its connection sends again. Once that is answered the producer begins its next transaction, and
    a marker of the first request that came then would end it."""
    world = a_world(tmp_path, partitions=0)
    log = world[1].partition("t").log
    before = log.log_end_offset
    lost = world.send(1, markers("t", [0] * (AT_ONCE + 1)), 1)
    again = world.send(1, markers("t", [0]), 1)

    assert log.log_end_offset == before + AT_ONCE and not again.is_answered
    world.settle()

    assert lost.is_answered and again.is_answered and log.log_end_offset == before + AT_ONCE + 2


def test_a_mistake_with_a_marker_costs_its_request_and_not_those_behind_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = a_world(tmp_path, partitions=0)
    broken = world.send(1, markers("t", [0] * (AT_ONCE + 1)), 1)
    behind = world.send(1, markers("t", [0]), 1)
    with monkeypatch.context() as patched:
        patched.setattr(world[1].broker.marker_writes, "_append_one", lambda *args: 1 / 0)
        one_turn(world)
        world[1].broker.go_on(world.now_ms)
    world.settle()
    later = world.send(1, markers("t", [0]), 1)
    world.settle()

    assert [one.message.markers[0].topics[0].partitions[0].error_code for one in (behind, later)] == [0, 0]
    assert not broken.is_answered
    world.advance(WAIT_MS + 10)
    rows = broken.message.markers[0].topics[0].partitions
    assert [row.error_code for row in rows] == [0] * AT_ONCE + [ErrorCode.REQUEST_TIMED_OUT]


# ------------------------------------------------------------------------------------------------ byte for byte


def answers(path: Path) -> list[bytes]:
    """Of everything that is done in slices or by a thread, where it has many rows."""
    world = a_world(path, message_max_bytes="150000", transaction_partition_verification_enable="false")
    bodies: list[bytes] = []

    def ask(request: Any, version: int) -> Any:
        pending = world.send(1, request, version)
        world.settle()
        bodies.append(pending.body)
        return pending.message

    ask(commit(MANY, offset=5), 8)
    ask(commit(MANY + 3, offset=7, metadata="é" * 9), 6)  # three that are not there
    ask(commit(2_400), 8)  # more than a batch takes
    ask(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)]), 8)
    ask(
        OffsetFetchRequest(
            group_id="g",
            topics=[OffsetFetchRequestTopic(name="big", partition_indexes=list(range(MANY + 2)))],
        ),
        7,
    )
    ask(commit_in_a_transaction("h", MANY, offset=9), 3)
    all_of_h = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id="h", topics=None)], require_stable=True
    )
    ask(all_of_h, 8)
    ask(markers(GROUPS_TOPIC, [0]), 1)
    ask(all_of_h, 8)
    pending = [join(world) for _ in range(MOST_ANSWERS + 25)]
    world.advance(30_000)
    bodies += [one.body for one in pending]
    ids = [one.message.member_id for one in pending]
    leader = pending[0].message.leader
    assert leader == ids[0]
    rows = [SyncGroupRequestAssignment(member_id=one, assignment=one.encode()) for one in ids[:-1]]
    syncs = [
        world.send(
            1,
            SyncGroupRequest(
                group_id="g", generation_id=1, member_id=one, assignments=rows if one == leader else []
            ),
            3,
        )
        for one in ids
    ]
    world.settle()
    bodies += [one.body for one in syncs]
    ask(
        LeaveGroupRequest(
            group_id="g", members=[MemberIdentity(member_id=one) for one in [*ids[:120], "nobody"]]
        ),
        4,
    )
    ask(markers("t", [0] * (AT_ONCE + 9)), 1)
    bodies.append(world[1].raw(GROUPS_TOPIC))
    return bodies


def test_what_is_done_in_slices_is_answered_and_written_as_what_is_done_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_slices = answers(tmp_path / "in-slices")
    for module, name in (
        (coordinator_shards, "MOST_ANSWERS"),
        (coordinator_shards, "MOST_ROWS"),
        (marker_writes, "AT_ONCE"),
        (committing, "MOST_OFFSETS"),
        (fetching, "MOST_OFFSETS"),
        (later, "MOST_AT_ONCE"),
    ):
        monkeypatch.setattr(module, name, 1 << 30)

    assert answers(tmp_path / "at-once") == in_slices


def test_an_answer_that_is_parked_again_goes_with_who_waited_for_it() -> None:
    """The collector of cycles comes after millions of objects, and one answer may have megabytes."""

    class Large(bytearray):
        """One that is seen to go."""

    gc.collect()
    gc.disable()
    try:
        for is_here in (True, False):
            outer, inner, large = Park(), Park(), Large()
            gone = weakref.ref(large)
            if is_here:
                inner.complete(Reply([large]))
            outer.answer(lambda inner=inner: inner)  # type: ignore[misc]
            if not is_here:
                inner.complete(Reply([large]))
            assert isinstance(outer.result, Reply) and outer.result.buffers == [large]
            del outer, inner, large
            assert gone() is None, is_here
    finally:
        gc.enable()
