"""The group coordinators of a broker: found, loaded, asked, and given up with the lead of their partition."""

import gc
import weakref
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from odradek.broker import coordinator_load, group_shards, slices
from odradek.broker import effects as fx
from odradek.broker.coordinator_load import Load
from odradek.broker.coordinator_shards import (
    APPENDS_AT_ONCE,
    COMMIT_POLL_MS,
    LOAD_AGAIN_MS,
    MOST_ANSWERS,
    Call,
)
from odradek.broker.group_shards import GroupShards
from odradek.broker.handlers import list_groups, list_transactions
from odradek.broker.request import Request
from odradek.coordinator.effects import Answer, Effects
from odradek.coordinator.events import Tick
from odradek.coordinator.group_coordinator import GroupCoordinator
from odradek.coordinator.records import NEVER_EXPIRES, CommittedOffset, OffsetKey
from odradek.log.errors import DiskFault
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import LEADER_DURING_DELETE, NO_EPOCH, TopicPartition
from odradek.model.topic_names import GROUPS_TOPIC
from odradek.protocol.messages import produce as pm
from odradek.protocol.messages.delete_groups import DeleteGroupsRequest
from odradek.protocol.messages.describe_groups import DescribeGroupsRequest
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.protocol.messages.list_groups import ListGroupsRequest
from odradek.protocol.messages.list_transactions import ListTransactionsRequest
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from odradek.replication.isr import Committed
from tests.broker.world import T0, World, batch, told
from tests.support import no_collector


def led_by(world: World, broker: int) -> None:
    world.lead(broker, topic=GROUPS_TOPIC, topic_id=b"o" * 16)


def go_on(world: World, broker: int, ms: int = 10) -> None:
    """What was loaded may have to be committed first; a broker looks again soon."""
    world.now_ms += ms
    world[broker].broker.tick(world.now_ms)
    world.settle()


def ready(world: World, broker: int = 1) -> None:
    world.lead(1)
    led_by(world, broker)


def commit(offset: int, group: str = "g") -> OffsetCommitRequest:
    row = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    return OffsetCommitRequest(group_id=group, topics=[OffsetCommitRequestTopic(name="t", partitions=[row])])


def join(member_id: str = "") -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range")],
    )


def code_of(answer: object) -> int:
    return int(answer.topics[0].partitions[0].error_code)  # type: ignore[attr-defined]


def fetched(world: World, broker: int, *groups: str) -> dict[str, tuple[int, list[int]]]:
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=one, topics=None) for one in groups]
    )
    return {
        row.group_id: (
            row.error_code,
            [one.committed_offset for topic in row.topics for one in topic.partitions],
        )
        for row in world.call(broker, request, 8).groups
    }


def test_a_topic_that_cannot_be_made_is_tried_once_for_all_keys_of_a_request(tmp_path: Path) -> None:
    world = World(tmp_path, brokers=(1,))
    answer = world.call(1, FindCoordinatorRequest(coordinator_keys=["a", "b", "c"]), 4)
    assert {row.error_code for row in answer.coordinators} == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert len([line for line in told(world, fx.LogLine) if "cannot be created" in line.text]) == 1


@pytest.mark.behaviour("G40")
def test_a_coordinator_is_the_leader_of_the_groups_partition_and_every_key_is_answered(world: World) -> None:
    request = FindCoordinatorRequest(coordinator_keys=["a", "", "b"])
    rows = world.call(2, request, 4).coordinators
    assert [(row.key, row.error_code) for row in rows] == [(key, 15) for key in ("a", "", "b")]
    (made,) = [
        one for one in told(world, fx.StoreRequest, broker=2) if isinstance(one.question, fx.CreateTopics)
    ]
    (topic,) = made.question.topics
    assert topic.topic == GROUPS_TOPIC and topic.config["cleanup.policy"] == "compact"
    assert len(topic.assignment) == 50 and {len(replicas) for replicas in topic.assignment.values()} == {3}

    led_by(world, 3)

    rows = world.call(2, request, 4).coordinators
    assert [(row.key, row.node_id, row.error_message) for row in rows] == [
        (key, 3, "") for key in ("a", "", "b")
    ]
    old = world.call(1, FindCoordinatorRequest(key="a", key_type=0), 2)
    assert (old.node_id, old.error_message) == (3, "NONE")
    codes = [
        world.call(1, FindCoordinatorRequest(coordinator_keys=["a"], key_type=kind), 6) for kind in (1, 2, 3)
    ]
    assert [answer.coordinators[0].error_code for answer in codes] == [15, 15, 42]


def test_a_commit_is_answered_when_it_is_committed_and_another_broker_sends_its_client_away(
    world: World,
) -> None:
    ready(world)

    assert code_of(world.call(2, commit(5), 8)) == ErrorCode.NOT_COORDINATOR
    pending = world.send(1, commit(5), 8)
    assert not pending.is_answered, "its followers do not have it yet"
    world.settle()

    assert code_of(pending.message) == 0
    assert fetched(world, 1, "g", "h") == {"g": (0, [5]), "h": (0, [])}


def test_a_commit_that_is_late_again_and_again_counts_when_it_is_committed(world: World) -> None:
    """Its second deadline was taken for its end: what was committed later was not remembered, and a third broke the coordinator."""
    ready(world)
    world.call(1, commit(4), 8)
    pending = world.send(1, commit(5), 8)
    for _ in range(3):
        world.now_ms += 6_000
        world[1].broker.tick(world.now_ms)
    assert pending.is_answered and code_of(pending.message) != 0
    assert fetched(world, 1, "g") == {"g": (0, [4])}

    world.settle()

    assert fetched(world, 1, "g") == {"g": (0, [5])}
    assert not any("a mistake of ours" in line.text for line in told(world, fx.LogLine))


def test_the_next_leader_loads_what_was_committed(world: World) -> None:
    ready(world)
    for number in range(300):
        world.call(1, commit(number, f"g{number % 7}"), 8)

    led_by(world, 2)
    go_on(world, 2)

    assert fetched(world, 2, "g3", "g5") == {"g3": (0, [297]), "g5": (0, [299])}
    assert fetched(world, 1, "g3") == {"g3": (ErrorCode.NOT_COORDINATOR, [])}
    names = {row.group_id for row in world.call(2, ListGroupsRequest(), 4).groups}
    assert names == {f"g{number}" for number in range(7)}
    assert world.call(1, ListGroupsRequest(), 4).groups == []


def test_who_may_have_lost_the_lead_in_between_loads_again_and_tells_nothing_before_it_is_committed(
    world: World,
) -> None:
    ready(world)
    world.call(1, commit(4), 8)
    world.cut |= {(2, 1), (3, 1)}
    pending = world.send(1, commit(5), 8)
    epoch = world[1].partition(GROUPS_TOPIC).leader_epoch

    world.lead(1, topic=GROUPS_TOPIC, topic_id=b"o" * 16, epoch=epoch + 2)
    go_on(world, 1)

    assert pending.is_answered and code_of(pending.message) == ErrorCode.NOT_COORDINATOR
    assert fetched(world, 1, "g") == {"g": (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, [])}
    assert world[1].broker.groups.due_ms == world.now_ms + COMMIT_POLL_MS, "not in every turn"
    world.cut.clear()
    go_on(world, 1)
    go_on(world, 1, 1_000)
    assert fetched(world, 1, "g") == {"g": (0, [5])}


def test_while_it_loads_a_coordinator_says_so(world: World) -> None:
    ready(world)
    world.call(1, commit(5), 8)
    world.works = False

    led_by(world, 2)

    assert code_of(world.call(2, commit(6), 8)) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert world.call(2, HeartbeatRequest(group_id="g"), 4).error_code == 0
    assert world.call(2, ListGroupsRequest(), 4).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    (work,) = told(world, fx.RunAside, broker=2)
    world[2].broker.answered(work.request_id, work.work.run(), world.now_ms)
    go_on(world, 2)
    assert fetched(world, 2, "g") == {"g": (0, [5])}


@pytest.mark.parametrize("is_loading", [False, True])
def test_the_offsets_of_a_deleted_topic_go_though_their_coordinator_was_loading(
    world: World, is_loading: bool
) -> None:
    ready(world)
    world.call(1, commit(5), 8)
    world.works = not is_loading
    led_by(world, 2)
    if not is_loading:
        go_on(world, 2)

    world.leadership[T0]["leader"] = LEADER_DURING_DELETE
    world.notify_metadata()
    if is_loading:
        (work,) = told(world, fx.RunAside, broker=2)
        world[2].broker.answered(work.request_id, work.work.run(), world.now_ms)
    world.works = True
    go_on(world, 2)
    go_on(world, 2)
    assert fetched(world, 2, "g") == {"g": (0, [])}


def made_aside(world: World, monkeypatch: pytest.MonkeyPatch) -> fx.RunAside:
    """Broker 2 has read what there is of group g, and a thread is to make the coordinator of it."""
    monkeypatch.setattr(group_shards, "MOST_MADE_AT_ONCE", 0)
    ready(world)
    world.call(1, commit(5), 8)
    world.works = False
    led_by(world, 2)
    (work,) = told(world, fx.RunAside, broker=2)
    world[2].broker.answered(work.request_id, work.work.run(), world.now_ms)
    go_on(world, 2)
    assert fetched(world, 2, "g") == {"g": (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, [])}
    making: fx.RunAside = told(world, fx.RunAside, broker=2)[-1]
    assert making is not work
    assert world[2].broker.groups.due_ms is None, "not in every turn"
    return making


def test_of_very_many_groups_a_thread_makes_the_coordinator(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    making = made_aside(world, monkeypatch)
    # What comes meanwhile is told afterwards.
    world.leadership[T0]["leader"] = LEADER_DURING_DELETE
    world.notify_metadata()
    world.works = True
    world[2].broker.answered(making.request_id, making.work.run(), world.now_ms)
    assert fetched(world, 2, "g") == {"g": (0, [5])}
    go_on(world, 2)
    assert fetched(world, 2, "g") == {"g": (0, [])}


def test_the_end_of_a_transaction_is_not_lost_while_a_thread_makes_the_coordinator(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    making = made_aside(world, monkeypatch)
    groups = world[2].broker.groups
    (shard,) = groups.shards.values()
    key = OffsetKey("g", "t", 0)
    value = CommittedOffset(9, -1, "", world.now_ms, NEVER_EXPIRES)
    shard.load.loaded.stored.offsets.apply(key, value, shard.load.offset, 77)
    groups.transaction_ended(0, shard.load.offset + 1, 77, is_commit=True, now_ms=world.now_ms)
    world[2].broker.answered(making.request_id, making.work.run(), world.now_ms)
    assert fetched(world, 2, "g") == {"g": (0, [9])}


def test_a_coordinator_that_had_to_wait_for_a_commit_is_made_by_one_thread(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second one would take the place of the first, which has answered somebody by then."""
    monkeypatch.setattr(group_shards, "MOST_MADE_AT_ONCE", 0)
    ready(world)
    world.cut |= {(2, 1), (3, 1)}
    world.send(1, commit(5), 8)
    epoch = world[1].partition(GROUPS_TOPIC).leader_epoch
    world.lead(1, topic=GROUPS_TOPIC, topic_id=b"o" * 16, epoch=epoch + 2)
    world.cut.clear()
    world.works = False
    world[1].told.clear()
    for _ in range(3):
        go_on(world, 1)
    (making,) = told(world, fx.RunAside)
    world[1].broker.answered(making.request_id, making.work.run(), world.now_ms)
    go_on(world, 1)
    assert told(world, fx.RunAside) == []
    assert fetched(world, 1, "g") == {"g": (0, [5])}


@pytest.mark.parametrize("came", ["a mistake", None])
def test_a_coordinator_that_no_thread_could_make_is_made_again(
    world: World, monkeypatch: pytest.MonkeyPatch, came: str | None
) -> None:
    making = made_aside(world, monkeypatch)
    world.works = True
    world[2].broker.answered(making.request_id, came, world.now_ms)
    assert world[2].broker.groups.due_ms == world.now_ms + LOAD_AGAIN_MS, "not in every turn"
    go_on(world, 2, LOAD_AGAIN_MS)
    go_on(world, 2)
    assert fetched(world, 2, "g") == {"g": (0, [5])}


def test_a_coordinator_that_has_written_much_is_told_the_time_all_the_same(tmp_path: Path) -> None:
    """Only what its being told makes it write counts, so that a thousand groups do not expire in one turn."""
    world = World(tmp_path, brokers=(1,))
    world.lead(1, isr=(1,), replicas=(1,))
    world.lead(1, topic=GROUPS_TOPIC, topic_id=b"o" * 16, isr=(1,), replicas=(1,))
    for number in range(APPENDS_AT_ONCE):
        world.call(1, commit(number), 8)
    pending = world.send(1, join(), 3)
    world.advance(5_000)
    assert pending.is_answered, "the first of a group waits a little for others"


def test_whoever_waits_is_sent_away_when_the_lead_goes(world: World) -> None:
    ready(world)
    pending = world.send(1, join(), 3)
    world.settle()
    assert not pending.is_answered

    led_by(world, 2)

    assert pending.message.error_code == ErrorCode.NOT_COORDINATOR
    assert world[1].broker.groups.due_ms is None


@pytest.mark.parametrize("how", ["stopped", "deleted", "disk"])
def test_whoever_waits_is_sent_away_when_the_replica_goes(world: World, how: str) -> None:
    ready(world)
    world.call(1, commit(5), 8)
    pending = world.send(1, join(), 3)
    world.settle()
    assert not pending.is_answered

    groups = TopicPartition(GROUPS_TOPIC, 0)
    if how == "disk":
        world[1].broker.replicas.take_offline([groups], DiskFault("gone"))
    else:
        world.stop_replica(1, groups, leader_epoch=NO_EPOCH, delete=how == "deleted")
    world.settle()

    assert pending.message.error_code == ErrorCode.NOT_COORDINATOR
    assert fetched(world, 1, "g") == {"g": (ErrorCode.NOT_COORDINATOR, [])}


def test_who_leads_in_one_epoch_after_the_other_goes_on_coordinating(world: World) -> None:
    ready(world)
    pending = world.send(1, join(), 3)
    world.settle()
    for _ in range(3):
        led_by(world, 1)
        assert not pending.is_answered
    world.advance(5_000)
    assert pending.message.error_code == 0


@pytest.mark.parametrize(("client_id", "prefix"), [("shop", "shop-"), (None, "-")])
def test_a_member_is_named_after_its_client_also_where_that_has_no_name(
    world: World, client_id: str | None, prefix: str
) -> None:
    ready(world)
    pending = world.send(1, join(), 4, client_id=client_id)
    assert pending.message.error_code == ErrorCode.MEMBER_ID_REQUIRED
    member_id = pending.message.member_id
    assert member_id.startswith(prefix) and UUID(member_id.removeprefix(prefix))

    world.send(1, join(member_id), 4, client_id=client_id)
    world.settle()

    (group,) = world.call(1, DescribeGroupsRequest(groups=["g"]), 5).groups
    (member,) = group.members
    assert (member.member_id, member.client_id) == (member_id, client_id or "")
    assert member.client_host == "/127.0.0.1"


def test_what_another_broker_coordinates_is_forgotten_at_once(world: World) -> None:
    """By its count of references: it may be all groups of a cluster, and lived too long for a collector to look at it soon."""
    ready(world)
    world.call(1, commit(5), 8)
    waits = world.send(1, join(), 3)  # with a session
    world.settle()
    assert waits is not None
    coordinator = world[1].broker.groups.shards[0].coordinator
    assert coordinator is not None and coordinator.shard.groups
    memory = weakref.ref(coordinator.shard)
    del coordinator, waits
    gc.collect()
    with no_collector():
        led_by(world, 2)
        assert 0 not in world[1].broker.groups.shards
        assert memory() is None


def test_a_load_that_fails_is_begun_again(world: World) -> None:
    ready(world)
    world.call(1, commit(5), 8)
    world.works = False
    led_by(world, 2)
    (work,) = told(world, fx.RunAside, broker=2)
    world[2].broker.answered(work.request_id, "the disk says no", world.now_ms)
    world.works = True
    assert world[2].broker.groups.due_ms == world.now_ms + LOAD_AGAIN_MS, "not in every turn"

    go_on(world, 2, 1_000)
    go_on(world, 2)

    assert fetched(world, 2, "g") == {"g": (0, [5])}


def test_a_mistake_of_ours_behind_a_load_costs_another_one(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not all groups of that partition until somebody else leads it."""
    ready(world)
    world.call(1, commit(5), 8)

    def fails(*_: Any) -> Any:
        raise ValueError("ours")

    with monkeypatch.context() as once:
        once.setattr(GroupShards, "_coordinator_of", fails)
        led_by(world, 2)
        go_on(world, 2)
    assert world[2].broker.groups.due_ms == world.now_ms + LOAD_AGAIN_MS, "not in every turn"

    go_on(world, 2, 1_000)
    go_on(world, 2)

    assert fetched(world, 2, "g") == {"g": (0, [5])}
    assert any("ValueError: ours" in line.text for line in told(world, fx.LogLine, broker=2))


def test_a_mistake_of_ours_costs_a_load_and_not_the_groups(world: World) -> None:
    ready(world)
    world.call(1, commit(5), 8)
    (shard,) = world[1].broker.groups.shards.values()
    assert shard.coordinator is not None
    shard.coordinator.shard.groups["g"] = None  # type: ignore[assignment]

    assert world.call(1, DescribeGroupsRequest(groups=["g"]), 5).groups[0].group_state == "Dead"
    assert code_of(world.call(1, commit(6), 8)) == 0
    shard.coordinator.shard.groups["g"] = 7  # type: ignore[assignment]
    (row,) = world.call(1, DeleteGroupsRequest(groups_names=["g"]), 2).results

    assert row.error_code == ErrorCode.NOT_COORDINATOR
    world.settle()
    assert fetched(world, 1, "g") == {"g": (0, [6])}
    assert any("a mistake of ours" in line.text for line in told(world, fx.LogLine))


def test_a_want_that_lasts_is_not_met_again_and_again_in_one_turn(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A coordinator of nothing is loaded at once, and told the time at once."""
    ready(world)
    steps = 0

    def no_memory(*_: object) -> None:
        nonlocal steps
        steps += 1
        if steps > 10:
            pytest.fail("the turn does not end")
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(GroupCoordinator, "step", no_memory)
        world.send(1, commit(5), 8)
        world.settle()
        assert steps == 2
    go_on(world, 1, LOAD_AGAIN_MS)
    assert code_of(world.call(1, commit(6), 8)) == ErrorCode.NONE


@pytest.mark.parametrize("what", ["_step", "_rows", "_append_next", "_stepped"])
def test_a_want_of_memory_behind_a_step_costs_a_load_and_not_all_appends_to_come(
    world: World, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """An append that nobody takes any more would stand before all others of this partition, of all its groups, until another broker
    leads it."""
    ready(world)

    def no_memory(*_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(GroupShards, what, no_memory)
        asked = world.send(1, commit(5), 8)
    world.settle()
    assert code_of(asked.message) == ErrorCode.NOT_COORDINATOR
    go_on(world, 1, LOAD_AGAIN_MS)
    assert code_of(world.call(1, commit(6), 8)) == ErrorCode.NONE
    assert fetched(world, 1, "g")["g"][1] == [6]
    assert any("a mistake of ours" in line.text for line in told(world, fx.LogLine))


@pytest.mark.parametrize("what", ["_arm", "_give", "_distrust"])
def test_what_a_coordinator_held_counts_no_more_though_there_was_no_memory_to_end_it(
    world: World, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """It would count until the broker starts again, beside what is loaded."""
    ready(world)
    shards = world[1].broker.groups
    assert code_of(world.call(1, commit(5), 8)) == 0
    held = shards.kept.size_bytes
    ((index, shard),) = shards.shards.items()
    shards._calls[1] = Call(shard, HeartbeatRequest(), 4, lambda _: None)

    def no_memory(*_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(shards, what, no_memory)
        if what == "_distrust":
            patch.setattr(shards, "_step", no_memory)
        with pytest.raises(MemoryError):
            shards._unload(index, world.now_ms)
    assert (held > 0, shards.kept.size_bytes, shards.memory.size_bytes) == (True, 0, 0)
    assert shard.is_over


def test_a_mistake_in_one_answer_keeps_nobody_from_another_one(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All members of a group are answered in one step."""
    ready(world)
    shards = world[1].broker.groups
    (shard,) = shards.shards.values()
    heard: list[object] = []

    def no_memory(answer: object) -> None:
        raise MemoryError

    shards._calls |= {
        1: Call(shard, HeartbeatRequest(), 4, no_memory),
        2: Call(shard, HeartbeatRequest(), 4, heard.append),
    }
    shards._answer([Answer(1, HeartbeatResponse()), Answer(2, HeartbeatResponse())])
    assert heard == [HeartbeatResponse()]
    assert any("a mistake of ours" in line.text for line in told(world, fx.LogLine))


def test_a_mistake_before_anybody_is_answered_has_all_of_them_refused(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those before it were no calls any more, and nobody had answered them."""
    ready(world)
    shards = world[1].broker.groups
    (shard,) = shards.shards.values()
    heard: list[object] = []
    shards._calls[101] = Call(shard, HeartbeatRequest(), 4, heard.append)
    answers = Answer(101, HeartbeatResponse()), Answer(99, HeartbeatResponse())
    mistaken = Effects((), answers, (), ())
    with monkeypatch.context() as patch:
        patch.setattr(GroupCoordinator, "step", lambda *_: mistaken)
        shards._tell(shard, Tick(), world.now_ms)
    assert heard == [HeartbeatResponse(error_code=ErrorCode.NOT_COORDINATOR)] and 101 not in shards._calls


def test_a_want_of_memory_for_those_that_are_answered_later_leaves_nobody_unanswered(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready(world)
    shards = world[1].broker.groups
    (shard,) = shards.shards.values()
    heard: list[object] = []
    answers = [Answer(call, HeartbeatResponse()) for call in range(1_000, 1_000 + MOST_ANSWERS + 1)]
    shards._calls |= {answer.call: Call(shard, HeartbeatRequest(), 4, heard.append) for answer in answers}
    mistaken = Effects((), answers, (), ())

    def no_memory(*_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(GroupCoordinator, "step", lambda *_: mistaken)
        patch.setattr(slices, "GoOn", no_memory)
        shards._tell(shard, Tick(), world.now_ms)
    world[1].broker.go_on(world.now_ms)
    world.settle()
    assert heard == [HeartbeatResponse(error_code=ErrorCode.NOT_COORDINATOR)] * len(answers)


def test_a_want_of_memory_of_which_there_is_no_trace_is_met_all_the_same(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What gives up half of a step, and answers who waits, came behind the trace, for which source files are read."""
    ready(world)
    shards = world[1].broker.groups
    (shard,) = shards.shards.values()
    heard: list[object] = []

    def no_memory(*_: object, **__: object) -> HeartbeatResponse:
        raise MemoryError

    shards._calls |= {
        101: Call(shard, HeartbeatRequest(), 4, no_memory),
        102: Call(shard, HeartbeatRequest(), 4, heard.append),
    }
    with monkeypatch.context() as patch:
        patch.setattr(slices, "format_exc", no_memory)
        shards._answer([Answer(101, no_memory), Answer(102, no_memory)])
        patch.setattr(GroupCoordinator, "step", no_memory)
        asked = world.send(1, commit(5), 8)
    world.settle()
    assert heard == [HeartbeatResponse(error_code=ErrorCode.NOT_COORDINATOR)]
    assert code_of(asked.message) == ErrorCode.NOT_COORDINATOR
    go_on(world, 1, LOAD_AGAIN_MS)
    assert code_of(world.call(1, commit(6), 8)) == ErrorCode.NONE


@pytest.mark.parametrize("what", [(Load, "has_read"), (GroupShards, "_coordinator_of")])
def test_a_load_that_failed_and_cannot_be_begun_again_for_want_of_memory_is_begun_later(
    world: World, monkeypatch: pytest.MonkeyPatch, what: tuple[type, str]
) -> None:
    """It was loaded for ever."""
    loads = 0
    really_new_load = GroupShards._new_load

    def new_load(shards: GroupShards, partition: Any) -> Load:
        nonlocal loads
        loads += 1
        if loads > 1:
            raise MemoryError
        return really_new_load(shards, partition)

    def fails(*_: object) -> bool:
        if what[0] is GroupShards:
            raise MemoryError
        return False

    with monkeypatch.context() as patch:
        patch.setattr(GroupShards, "_new_load", new_load)
        patch.setattr(*what, fails)
        with pytest.raises(MemoryError):
            ready(world)
    assert loads == 2
    for _ in range(2):
        go_on(world, 1, LOAD_AGAIN_MS)
    assert code_of(world.call(1, commit(6), 8)) == ErrorCode.NONE


def test_who_waits_for_an_answer_that_cannot_be_made_is_refused(world: World) -> None:
    """It was waited for until the connection ended."""
    ready(world)
    shards = world[1].broker.groups
    (shard,) = shards.shards.values()
    heard: list[Any] = []

    def no_memory() -> HeartbeatResponse:
        raise MemoryError

    shards._calls[1] = Call(shard, HeartbeatRequest(), 4, heard.append)
    shards._answer([Answer(1, no_memory)])
    assert heard == [HeartbeatResponse(error_code=ErrorCode.NOT_COORDINATOR)]
    assert any("a mistake of ours" in line.text for line in told(world, fx.LogLine))


@pytest.mark.parametrize("what", ["_new_load", "_end"])
def test_a_coordinator_that_cannot_be_given_up_for_want_of_memory_is_loaded_again_all_the_same(
    world: World, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """It was over, and whoever asked it was not answered, until another broker led the partition."""
    ready(world)

    def no_memory(*_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(GroupCoordinator, "step", no_memory)
        if what == "_end":
            patch.setattr(GroupCoordinator, "tables", no_memory)
        else:
            patch.setattr(GroupShards, what, no_memory)
        with pytest.raises(MemoryError):
            world.send(1, commit(5), 8)
    assert world[1].broker.groups._calls == {}, "each is answered"
    if what == "_new_load":
        assert code_of(world.call(1, commit(5), 8)) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    go_on(world, 1, LOAD_AGAIN_MS)
    assert code_of(world.call(1, commit(6), 8)) == ErrorCode.NONE
    assert world[1].broker.groups.due_ms is None or world[1].broker.groups.due_ms > world.now_ms


def test_a_want_that_keeps_one_from_being_refused_keeps_no_coordinator_from_being_loaded_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The memory that a step lacked its refusals may lack as well. It was over, and in its place, for good."""
    ready(world)
    shards = world[1].broker.groups
    (shard,) = shards.shards.values()
    heard: list[object] = []

    def no_memory(*_: object) -> None:
        raise MemoryError

    shards._calls |= {
        101: Call(shard, HeartbeatRequest(), 4, no_memory),
        102: Call(shard, HeartbeatRequest(), 4, heard.append),
    }
    with monkeypatch.context() as patch:
        patch.setattr(GroupCoordinator, "step", no_memory)
        world.send(1, commit(5), 8)
    world.settle()
    assert len(heard) == 1 and shards._calls == {}
    go_on(world, 1, LOAD_AGAIN_MS)
    assert code_of(world.call(1, commit(6), 8)) == ErrorCode.NONE


def test_a_mistake_of_ours_as_the_lead_goes_leaves_no_coordinator_behind(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be loaded again, and answer for groups that another broker coordinates."""
    ready(world)
    world.call(1, commit(5), 8)
    (shard,) = world[1].broker.groups.shards.values()

    def fails(*_: Any) -> Any:
        raise ValueError("ours")

    monkeypatch.setattr(shard.coordinator, "step", fails)
    led_by(world, 2)
    go_on(world, 1)
    go_on(world, 2)
    assert fetched(world, 1, "g") == {"g": (ErrorCode.NOT_COORDINATOR, [])}
    assert fetched(world, 2, "g") == {"g": (0, [5])}


def test_a_commit_that_is_refused_when_the_isr_falls_below_the_minimum_counts_once_it_is_committed(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, replica_lag_time_max_ms="10000", offsets_commit_timeout_ms="60000")
    world.configs["topics", GROUPS_TOPIC] = {"min.insync.replicas": "2"}
    ready(world)
    world.call(1, commit(5), 8)
    world.cut |= {(2, 1), (3, 1)}
    pending = world.send(1, commit(6), 8)
    world.advance(20_000)
    assert world[1].partition(GROUPS_TOPIC).isr == (1,)
    assert code_of(pending.message) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert fetched(world, 1, "g") == {"g": (0, [5])}
    world.lead(1, topic=GROUPS_TOPIC, topic_id=b"o" * 16, isr=(1,))
    assert world[1].partition(GROUPS_TOPIC).is_under_min_isr, "and who waits hears of it a second time"

    world.cut.clear()
    world.watch(lambda: world[1].partition(GROUPS_TOPIC).high_watermark == 2)

    assert fetched(world, 1, "g") == {"g": (0, [6])}, "what whoever loads the log finds in it"
    assert not any("a mistake of ours" in line.text for line in told(world, fx.LogLine))


def test_a_commit_that_is_refused_and_committed_within_one_turn_counts(world: World) -> None:
    """Nothing is left to wait for where it would be waited for again."""
    ready(world)
    world.cut |= {(2, 1), (3, 1)}
    pending = world.send(1, commit(5), 8)
    partition = world[1].partition(GROUPS_TOPIC)
    partition._set_state(Committed((1,)))
    partition.set_min_insync_replicas(2, world.now_ms)
    partition.set_min_insync_replicas(1, world.now_ms + 60_000)  # behind the lag time of its followers
    assert partition.high_watermark == 1

    world[1].broker.tick(world.now_ms)
    world.settle()

    assert code_of(pending.message) == 0
    assert fetched(world, 1, "g") == {"g": (0, [5])}


def test_nobody_but_a_coordinator_writes_to_the_topics_of_coordinators(world: World) -> None:
    ready(world)
    request = pm.ProduceRequest(
        acks=-1,
        timeout_ms=1_000,
        topic_data=[
            pm.TopicProduceData(
                name=name, partition_data=[pm.PartitionProduceData(index=0, records=batch(b"made up"))]
            )
            for name in (GROUPS_TOPIC, "t")
        ],
    )

    answer = world.send(1, request, 9)
    world.settle()

    codes = {row.name: row.partition_responses[0].error_code for row in answer.message.responses}
    assert codes == {GROUPS_TOPIC: ErrorCode.INVALID_TOPIC_EXCEPTION, "t": 0}
    assert world[1].partition(GROUPS_TOPIC).log.log_end_offset == 0


def waiting(world: World) -> int:
    """How many appends of the coordinator that broker 1 is wait to be committed."""
    return len(world[1].partition(GROUPS_TOPIC).commit_waiters._line)


def end_of_log(world: World) -> int:
    return int(world[1].partition(GROUPS_TOPIC).log.log_end_offset)


def test_an_append_is_told_once_when_every_replica_in_sync_has_it(world: World) -> None:
    ready(world)
    world.cut |= {(3, 1)}
    pending = world.send(1, commit(5), 8)
    world.settle()
    assert world[1].partition(GROUPS_TOPIC).isr == (1, 2, 3)
    assert not pending.is_answered and waiting(world) == 1, "one of two followers has it"

    world.cut.clear()
    world.advance(1_000)
    assert code_of(pending.message) == 0 and waiting(world) == 0
    world.advance(20_000)

    assert world.completed.count(pending) == 1
    assert not any("a mistake of ours" in line.text for line in told(world, fx.LogLine))


def test_an_append_of_a_replica_alone_is_told_behind_the_step_that_made_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, brokers=(1,), offsets_topic_replication_factor="1")
    for topic, topic_id in (("t", b"t"), (GROUPS_TOPIC, b"o")):
        world.lead(1, topic=topic, topic_id=topic_id * 16, isr=(1,), replicas=(1,))
    world.settle()
    (shard,) = world[1].broker.groups.shards.values()
    assert shard.coordinator is not None
    step, steps = shard.coordinator.step, []

    def watched(event: object, now_ms: int) -> object:
        steps.append(f"begins {type(event).__name__}")
        effects = step(event, now_ms)
        steps.append(f"ends {type(event).__name__}")
        return effects

    monkeypatch.setattr(shard.coordinator, "step", watched)
    monkeypatch.setattr(world[1].broker.groups, "_stepped", lambda *args: steps.append("all is asked for"))
    pending = world.send(1, commit(5), 8)

    assert pending.is_answered and code_of(pending.message) == 0 and waiting(world) == 0
    asked, committed = (
        [f"begins {name}", f"ends {name}", "all is asked for"] for name in ("Asked", "Committed")
    )
    assert steps == asked + committed


def test_an_append_whose_time_is_up_waits_in_one_place_and_is_told_once(world: World) -> None:
    ready(world)
    world.cut |= {(2, 1), (3, 1)}
    pending = world.send(1, commit(5), 8)
    for _ in range(4):
        world.now_ms += 6_000
        world[1].broker.tick(world.now_ms)
        assert waiting(world) == 1, "who waits no more leaves nothing behind"

    assert code_of(pending.message) == ErrorCode.REQUEST_TIMED_OUT
    assert world.completed.count(pending) == 1


def test_an_append_is_told_to_another_coordinators_client_when_leadership_goes(world: World) -> None:
    ready(world)
    world.cut |= {(2, 1), (3, 1)}
    pending = world.send(1, commit(5), 8)
    assert not pending.is_answered and waiting(world) == 1

    led_by(world, 2)
    world.advance(20_000)

    assert code_of(pending.message) == ErrorCode.NOT_COORDINATOR
    assert waiting(world) == 0 and world.completed.count(pending) == 1
    assert not any("a mistake of ours" in line.text for line in told(world, fx.LogLine))


def test_an_append_that_is_refused_is_told_at_once_and_appends_nothing(world: World) -> None:
    ready(world)
    world.call(1, commit(4), 8)
    before = end_of_log(world)
    partition = world[1].partition(GROUPS_TOPIC)
    partition._set_state(Committed((1,)))
    partition.set_min_insync_replicas(2, world.now_ms)

    pending = world.send(1, commit(5), 8)

    assert pending.is_answered and code_of(pending.message) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert end_of_log(world) == before and waiting(world) == 0
    partition.set_min_insync_replicas(1, world.now_ms)
    world.advance(20_000)
    assert world.completed.count(pending) == 0 and fetched(world, 1, "g") == {"g": (0, [4])}


def test_a_log_is_loaded_in_pieces_and_no_further_when_the_lead_goes(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready(world)
    for number in range(6):
        world.call(1, commit(number), 8)
    monkeypatch.setattr(coordinator_load, "PIECE_BYTES", 1)
    world.works = False
    led_by(world, 2)
    offsets = []
    for _ in range(4):
        (work,) = told(world, fx.RunAside, broker=2)
        offsets.append(work.work.run())
        world[2].broker.answered(work.request_id, offsets[-1], world.now_ms)
    assert offsets == [1, 2, 3, 4], "a batch of each piece, from the start of the log"

    led_by(world, 3)
    for work in told(world, fx.RunAside, broker=2):
        world[2].broker.answered(work.request_id, work.work.run(), world.now_ms)

    assert told(world, fx.RunAside, broker=2) == []
    assert not any("loaded again" in line.text for line in told(world, fx.LogLine, broker=2))
    assert code_of(world.call(2, commit(9), 8)) == ErrorCode.NOT_COORDINATOR
    world.works = True
    for _ in range(3):
        for work in told(world, fx.RunAside, broker=3):
            world[3].broker.answered(work.request_id, work.work.run(), world.now_ms)
        go_on(world, 3)
    assert fetched(world, 3, "g") == {"g": (0, [5])}


def test_filters_of_a_list_are_read_once_and_not_by_each_coordinator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ninety megabytes of them were made small letters fifty times: seconds of one turn."""
    world = World(tmp_path)
    asked: list[Any] = []
    names = [f"unknown-{number}" for number in range(2_000)]
    for module in (list_groups, list_transactions):
        monkeypatch.setattr(
            module, "ask_all", lambda shards, slices, request, message, *_: asked.append(message)
        )
    for request in (
        ListGroupsRequest(
            states_filter=[*names, "STABLE", "stable", "Empty"], types_filter=[*names, "Classic"]
        ),
        ListGroupsRequest(states_filter=names),
        ListTransactionsRequest(state_filters=[*names, "Ongoing", "Ongoing"], producer_id_filters=[7]),
        ListTransactionsRequest(state_filters=names),
    ):
        version = 5 if isinstance(request, ListGroupsRequest) else 1
        body = memoryview(bytearray(request.encode(version)))
        module: Any = list_groups if version == 5 else list_transactions
        connection = world.connection()
        module.handle(world[1].broker, Request(request.KEY, version, 1, "c", body, connection), T0)

    groups, no_groups, transactions, no_transactions = asked
    assert (groups.states_filter, groups.types_filter) == (["empty", "stable"], ["classic"])
    # What nobody has matches nothing; without it every group would be told.
    assert len(no_groups.states_filter) == 1 and no_groups.types_filter == []
    assert transactions.state_filters == ["Ongoing"] and transactions.producer_id_filters == [7]
    assert len(no_transactions.state_filters) == 1


def test_what_members_take_is_counted_by_the_broker_that_coordinates_them_alone(world: World) -> None:
    ready(world)
    world.send(1, join(), 3)
    world.advance(3_000)
    held = world[1].broker.groups.memory.size_bytes
    assert held == world[1].broker.groups.shards[0].coordinator.shard.held_bytes > 0  # type: ignore[union-attr]

    led_by(world, 2)

    assert world[1].broker.groups.memory.size_bytes == 0
    led_by(world, 1)
    go_on(world, 1)
    shard = world[1].broker.groups.shards[0].coordinator.shard  # type: ignore[union-attr]
    assert world[1].broker.groups.memory.size_bytes == shard.held_bytes
