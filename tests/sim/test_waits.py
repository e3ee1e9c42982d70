"""Nobody waits beyond a deadline, nor for what nobody does any more: requests of all kinds, made by hand, planted, and in broken code."""

import errno
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from odradek.broker.answers import Park
from odradek.broker.controller_wait import ControllerWait
from odradek.model.ids import BrokerId, TopicPartition
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages import describe_cluster
from odradek.sim.checkers.waits import (
    LATE_S,
    Deadlines,
    Flushes,
    HeldBack,
    Overdue,
    Throttles,
    Unanswered,
    Unflushed,
    nobody_is_forgotten,
)
from odradek.sim.clients.client import SimClient
from odradek.sim.observed.beliefs import at_work
from odradek.sim.observed.waits import _is_deleted, overdue, unanswered, unflushed
from odradek.sim.observed.watch import Watch
from odradek.sim.plan import draw
from odradek.sim.run import CORRECTNESS, run
from odradek.sim.world import PORT, SimBroker, World
from tests.mutants.edit import Edit
from tests.mutants.patching import applied
from tests.sim.test_beliefs import HOST, T, healthy_world
from tests.support import each

ONE, TWO = map(BrokerId, (1, 2))


@pytest.mark.parametrize(
    "what", ["the answer to a FetchWait", "the answer to a ControllerWait", "a rebalance"]
)
def test_what_stays_overdue_is_named(what: str) -> None:
    memory, late = Deadlines(), Overdue(ONE, what, 7_000, 500)
    looks: list[tuple[float, list[Overdue], int]] = [
        (0.0, [late], 0),
        (LATE_S, [late, late._replace(broker=TWO)], 0),
        (LATE_S + 0.1, [late._replace(late_ms=1_600)], 1),
        (LATE_S + 0.15, [late._replace(due_ms=8_000)], 0),
        (LATE_S + 0.2, [], 0),
        (LATE_S + 0.3, [late], 0),
        (2 * LATE_S, [late, late._replace(broker=TWO)], 0),
    ]
    for now_s, seen, count in looks:
        found = list(memory.observe(seen, now_s))
        assert [anomaly.name for anomaly in found] == ["NobodyWaits"] * count
        assert all(what in anomaly.detail and "broker 1" in anomaly.detail for anomaly in found)


def test_who_stays_held_back_by_a_throttle_that_is_lifted_is_named() -> None:
    memory, within = Throttles(), Throttles.WITHIN_S
    held = HeldBack(TopicPartition("t", 0), ONE, "it is on no list", 9_000)
    looks: list[tuple[float, list[HeldBack], int]] = [
        (0.0, [held], 0),
        (within, [held, held._replace(broker=TWO)], 0),
        (within + 0.1, [held._replace(left_ms=7_900)], 1),
        (within + 0.2, [], 0),
        (within + 0.3, [held], 0),
        (2 * within, [held, held._replace(topic_partition=TopicPartition("t", 1))], 0),
    ]
    for now_s, seen, count in looks:
        found = list(memory.observe(seen, now_s))
        assert [(a.name, a.topic_partition) for a in found] == [("NotHeldBack", held.topic_partition)] * count
        assert all("broker 1" in a.detail and "on no list" in a.detail for a in found)


def test_what_stays_unflushed_beyond_its_time_is_named() -> None:
    memory, late = Flushes(), Unflushed(TopicPartition("t", 0), ONE, 3, 500)
    within = 0.5 + Flushes.WITHIN_S
    looks: list[tuple[float, list[Unflushed], int]] = [
        (0.0, [late], 0),
        (within, [late, late._replace(broker=TWO)], 0),
        (within + 0.1, [late, late._replace(recovery_point=4)], 1),
        (within + 0.2, [], 0),
        (within + 0.3, [late], 0),
        (2 * within, [late, late._replace(flush_ms=1_000)], 0),
    ]
    for now_s, seen, count in looks:
        found = list(memory.observe(seen, now_s))
        assert [(a.name, a.topic_partition) for a in found] == [
            ("FlushedInTime", late.topic_partition)
        ] * count
        assert all("broker 1" in a.detail and "up to 3" in a.detail for a in found)


def _stops(world: World, broker: SimBroker) -> None:
    broker._asked_to_stop = broker.host


def _stands_still(world: World, broker: SimBroker) -> None:
    assert broker.host is not None
    broker.host.paused_until = world.loop.now + 1.0


def _has_a_slow_disk(world: World, broker: SimBroker) -> None:
    broker.blocking_takes_s = 0.5


def _has_no_descriptors(world: World, broker: SimBroker) -> None:
    broker.disks[0].inject("open", errno.EMFILE)


def _has_no_threads(world: World, broker: SimBroker) -> None:
    world.threads_run_out = True


CANNOT_FLUSH: dict[str, Callable[[World, SimBroker], None]] = {
    "stops": _stops,
    "stands still": _stands_still,
    "has a slow disk": _has_a_slow_disk,
    "has no descriptors": _has_no_descriptors,
    "has no threads": _has_no_threads,
}


@each(CANNOT_FLUSH)
def test_who_cannot_flush_in_time_is_not_asked(why: str) -> None:
    with healthy_world() as (world, leader):
        log, broker = leader.replicas.partitions[T].log, world.brokers[leader.broker_id]
        log.config = SimpleNamespace(flush_ms=500)
        assert list(unflushed(world, at_work(world))) == [Unflushed(T, broker.broker_id, 0, 500)]
        CANNOT_FLUSH[why](world, broker)
        assert list(unflushed(world, at_work(world))) == []


def test_a_request_that_waits_at_both_looks_is_forgotten() -> None:
    first, second, other = Unanswered(ONE, "c1", 1), Unanswered(ONE, "c1", 2), Unanswered(TWO, "c1", 1)
    for before, after, count in (
        ([first], [first], 1),
        ([first, second], [second, other], 1),
        ([first, second, other], [first, second, other], 3),
        ([first], [second], 0),
        ([first], [other], 0),
        ([], [first], 0),
    ):
        found = [anomaly.name for anomaly in nobody_is_forgotten(before, after)]
        assert found == ["NobodyWaits"] * count


def _parked(broker: Any, now_ms: int, late_ms: int) -> None:
    wait = ControllerWait(broker.purgatory, lambda answer, now_ms: None, lambda: None)
    broker.purgatory.park(wait, deadline_ms=now_ms - late_ms)


def test_a_parked_request_whose_deadline_is_over_is_found() -> None:
    with healthy_world() as (world, _):
        (controller,) = [one for one in world.brokers.values() if one.is_controller]
        assert controller.runtime is not None
        broker = controller.runtime.broker
        watch = Watch(world)
        _parked(broker, controller.runtime.now_ms(), 500)
        (found,) = overdue(world, at_work(world))
        assert (found.broker, found.what) == (broker.broker_id, "the answer to a ControllerWait")
        assert 496 <= found.late_ms <= 500
        assert watch.check() == [], "it may come to it yet"
        watch._deadlines._since[found[:3]] = world.loop.time() - LATE_S - 0.1
        assert [anomaly.name for anomaly in watch.check()] == ["NobodyWaits"]


@pytest.mark.parametrize("kind", ["groups", "transactions"])
def test_what_a_coordinator_does_too_late_is_found(kind: str) -> None:
    with healthy_world() as (world, leader):
        assert list(overdue(world, at_work(world))) == []
        runtime = world.brokers[leader.broker_id].runtime
        assert runtime is not None
        due_ms = runtime.now_ms() - 500
        shards = getattr(leader, kind).shards
        shards[99] = SimpleNamespace(
            coordinator=SimpleNamespace(
                next_deadline_ms=lambda: due_ms,
                shard=SimpleNamespace(groups={}, consumer_groups={}),
                room=SimpleNamespace(waiting=SimpleNamespace(_waiters={})),
            ),
            partition=SimpleNamespace(is_leader=True, topic_partition="its log"),
        )
        (found,) = overdue(world, at_work(world))
        assert found[:3] == (leader.broker_id, "what the coordinator of its log does next", due_ms)
        shards[99].partition.is_leader = False
        assert list(overdue(world, at_work(world))) == []
        del shards[99]


def test_a_question_to_a_controller_that_there_is_not_is_found() -> None:
    with healthy_world() as (world, _):
        for broker in world.brokers.values():
            watch = Watch(world)
            assert broker.runtime is not None
            _parked(broker.runtime.broker, broker.runtime.now_ms(), -60_000)
            found = [str(anomaly) for anomaly in watch.check()]
            assert bool(found) is not broker.is_controller, "the controller may still answer"
            assert all(f"a ControllerWait of broker {broker.broker_id} could be" in one for one in found)
            if found:
                break


def test_a_request_that_is_parked_and_that_nobody_answers_is_found_at_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with healthy_world() as (world, leader):
        address = next((b.name, PORT) for b in world.brokers.values() if b.broker_id == leader.broker_id)
        client = SimClient(world.loop, HOST, [address])
        world.call(HOST, client.refresh([]))
        assert list(unanswered(world)) == [], "fetches wait for records"
        request = describe_cluster.DescribeClusterRequest()
        answer = leader.handlers.answer

        def parked(broker: Any, asked: Any, now_ms: int) -> Any:
            return Park() if asked.api_key == ApiKey.DESCRIBE_CLUSTER else answer(broker, asked, now_ms)

        monkeypatch.setattr(leader.handlers, "answer", parked)
        world.spawn(HOST, client.ask(address, request))
        world.run_for(0.1)
        before = list(unanswered(world))
        assert [one.broker for one in before] == [leader.broker_id]
        world.run_for(0.1)
        assert [anomaly.name for anomaly in nobody_is_forgotten(before, unanswered(world))] == ["NobodyWaits"]


BROKEN: dict[str, tuple[Edit, Callable[[Any], bool], str]] = {
    "JoinGroup, when all have joined": (
        Edit("coordinator.rebalance:try_complete", "if not group.members or group.has_joined_all: ...", "if not group.members: ..."),
        lambda plan: plan.has_group,
        "a JoinGroup in a group that is PreparingRebalance",
    ),
    "SyncGroup, when the assignment is stored": (
        Edit("coordinator.syncing:AssignmentStored.committed", "[member for member in group.members.values() if member.sync is not None]", "[]"),
        lambda plan: plan.has_group,
        "a SyncGroup in a group that is Stable",
    ),
    "a coordinator, when its records are committed": (
        Edit("broker.coordinator_shards:AppendWait.complete", "self.owner.purgatory.wake(self)", "pass"),
        lambda plan: plan.has_group,
        "a AppendWait",
    ),
    "a coordinator, when a deadline comes": (
        Edit("broker.coordinator_shards:CoordinatorShards._step", "if due_ms != shard.due_ms and not shard.is_over: self._arm(shard, due_ms)", "pass"),
        lambda plan: plan.has_group,
        "what the coordinator of __consumer_offsets-",
    ),
    "a coordinator, which knows of no deadline": (
        Edit("coordinator.shard:Shard.next_deadline_ms", "(self.timers.next_ms, self.expiry_at_ms)", "(self.expiry_at_ms,)"),
        lambda plan: plan.has_group,
        "the end of the ",
    ),
    "a coordinator, which knows of one later": (
        Edit("coordinator.shard:Shard.next_deadline_ms", "min(due, default=None)", "max(due, default=None)"),
        lambda plan: plan.seed == 26,
        "the end of the ",
    ),
    "InitProducerId, when there are ids": (
        Edit("broker.producer_ids:ProducerIds._answered", "waiting.pop(0)(producer_id, now_ms)", "waiting.pop(0)"),
        lambda plan: plan.is_idempotent,
        "a ProducerIdWait",
    ),
    "who asked a controller that resigned": (
        Edit("server.controller_term:ControllerTerm.close", "self._asked, {}", "{}, {}"),
        lambda plan: plan.seed == 21,
        "a ControllerWait",
    ),
}  # fmt: skip


@each(BROKEN)
def test_who_is_not_told_is_named(why: str) -> None:
    edit, is_about, says = BROKEN[why]
    with applied([edit]):
        for seed in (39, 5, 0, 13, 26, 21, 22):
            if is_about(draw(seed)):
                seen = run(draw(seed))
                if seen.code:
                    break
    assert (seen.code, {anomaly.name for anomaly in seen.anomalies}) == (CORRECTNESS, {"NobodyWaits"})
    assert says in seen.reason


@pytest.mark.parametrize(
    "starts, live, is_over", [((5, 5), (2, 3), True), ((5, 4), (2, 3), False), ((5, 4), (2,), True)]
)
def test_a_deletion_of_records_waits_for_all_that_live(
    starts: tuple[int, int], live: tuple[int, ...], is_over: bool
) -> None:
    followers = {
        BrokerId(b): SimpleNamespace(broker=BrokerId(b), log_start_offset=start)
        for b, start in zip((2, 3), starts, strict=True)
    }
    partition = SimpleNamespace(
        is_leader=True,
        log=SimpleNamespace(log_start_offset=5),
        followers=followers,
        _live_brokers=frozenset(live),
    )
    assert _is_deleted(SimpleNamespace(_open=[(partition, 5, None)])) is is_over
