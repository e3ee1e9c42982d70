"""Administrators in the seeds: what they do, what is still promised then, and that a broken promise is named."""

from dataclasses import replace

import pytest

from odradek.model.cluster import LeaderAndIsr, ReplicaAssignment
from odradek.model.facts import TopicAssignment
from odradek.model.ids import BrokerId, ControllerEpoch, LeaderEpoch, PartitionEpoch, TopicId, TopicPartition
from odradek.sim.checkers.batches import BatchView
from odradek.sim.checkers.deliveries import check
from odradek.sim.checkers.history import History, Polled, Sent
from odradek.sim.checkers.replicas import (
    ClusterView,
    Committed,
    PartitionView,
    ReplicaView,
    converged,
    valid_high_watermark,
    weak_isr,
)
from odradek.sim.clients.administration import Administration
from odradek.sim.clients.client import SimClient
from odradek.sim.loop import Host
from odradek.sim.plan import ACTIONS, KINDS, UNCLEAN, draw
from odradek.sim.run import OK, describe, let_go, run
from odradek.sim.topics import Topics
from odradek.sim.world import World
from odradek.store import layout
from odradek.store.api import ConditionalOps, Put
from odradek.store.memory import Tree

T = TopicPartition("t", 0)
A, B = BrokerId(1), BrokerId(2)


def sent(value: str, offset: int, partition: TopicPartition = T) -> Sent:
    return Sent("p", partition, (value.encode(),), "ok", (offset,))


def polled(*records: tuple[int, str], consumer: str = "final-0", epochs: tuple[int, ...] = ()) -> Polled:
    found = tuple((offset, value.encode()) for offset, value in records)
    return Polled(consumer, T, found, leader_epochs=epochs or (0,) * len(found))


def names(*events: Sent | Polled, **allowances: object) -> list[str]:
    return [anomaly.name for anomaly in check(History(list(events)), **allowances)]  # type: ignore[arg-type]


# ------------------------------------------------------------------------------------------- what clients saw


def test_records_below_a_log_start_that_was_asked_for_are_not_lost() -> None:
    events = sent("a", 0), sent("b", 1), polled((1, "b"))
    assert names(*events) == ["lost-write"]
    assert names(*events, log_starts={T: 1}) == []
    assert names(sent("b", 1), sent("c", 2), polled((2, "c")), log_starts={T: 1}) == ["lost-write"]


def test_of_a_deleted_topic_nothing_is_missed_and_two_values_are_still_wrong() -> None:
    assert names(sent("a", 0)) == ["unseen"]
    assert names(sent("a", 0), gone={T}) == []
    assert names(polled((0, "a")), polled((0, "b"), consumer="c"), gone={T}) == ["inconsistent-offsets"]


def test_after_an_unclean_election_an_offset_may_be_taken_anew_in_a_later_epoch() -> None:
    events = sent("a", 0), polled((0, "a"), consumer="c"), polled((0, "b"), epochs=(1,))
    assert names(*events) == ["inconsistent-offsets", "lost-write"]
    assert names(*events, lossy={T}) == []


def test_after_an_unclean_election_one_epoch_still_has_one_value_at_an_offset() -> None:
    events = polled((0, "a"), consumer="c", epochs=(1,)), polled((0, "b"), epochs=(1,))
    assert names(*events, lossy={T}) == ["inconsistent-offsets"]


def test_after_an_unclean_election_a_value_still_stands_once_in_the_log_that_is_left() -> None:
    events = sent("a", 0), polled((0, "a"), (1, "a"), epochs=(0, 1))
    assert names(*events, lossy={T}) == ["duplicate"]
    before = polled((3, "a"), consumer="c", epochs=(0,))  # seen at an offset that is gone
    assert names(sent("a", 0), before, polled((0, "a")), lossy={T}) == []


# -------------------------------------------------------------------------------------------- what replicas hold


def replica(
    broker: BrokerId, end: int, mark: int, *, start: int = 0, epoch: int = 0, leads: bool = False
) -> ReplicaView:
    batches = tuple(BatchView(offset, offset, 0, offset) for offset in range(start, end))
    return ReplicaView(broker, True, leads, epoch, start, end, mark, (A, B), (A, B), batches)


def stored(epoch: int, isr: tuple[BrokerId, ...] = (A, B), leader: BrokerId = A) -> LeaderAndIsr:
    return LeaderAndIsr(leader, LeaderEpoch(epoch), isr, PartitionEpoch(epoch))


def view(state: PartitionView, **more: object) -> ClusterView:
    told = {(broker, T): (A, 0) for broker in (A, B)}
    return ClusterView({T: state}, live_brokers=(A, B), metadata=told, **more)  # type: ignore[arg-type]


AT_REST = PartitionView((replica(A, 2, 2, leads=True), replica(B, 2, 2)), stored(0), stored(0), (A, B))


def test_a_log_that_begins_above_its_high_watermark_is_named() -> None:
    state = PartitionView((replica(A, 3, 1, start=2, leads=True),), stored(0), None, (A, B))
    assert [a.name for a in valid_high_watermark(view(state))] == ["ValidHighWatermark"]
    state = PartitionView((replica(A, 3, 2, start=2, leads=True),), stored(0), None, (A, B))
    assert list(valid_high_watermark(view(state))) == []


@pytest.mark.parametrize(
    "left",
    [{"strays": ((B, TopicPartition("gone", 0)),)}, {"topics_to_delete": ("gone",)}],
    ids=lambda left: next(iter(left)),
)
def test_what_is_left_of_a_deletion_is_named_at_rest(left: dict[str, object]) -> None:
    assert list(converged(view(AT_REST))) == []
    assert [a.name for a in converged(view(AT_REST, **left))] == ["I11"]


def test_an_unfinished_reassignment_is_named_at_rest() -> None:
    state = PartitionView(AT_REST.replicas, stored(0), stored(0), (A, B), is_moving=True)
    assert [a.name for a in converged(view(state))] == ["I11"]


@pytest.mark.parametrize(
    "era", [{"incarnation": 1}, {"unclean_elections": 1}], ids=lambda era: next(iter(era))
)
def test_what_was_committed_is_owed_until_the_topic_or_its_history_is_another(era: dict[str, int]) -> None:
    memory = Committed()
    assert list(memory.observe(view(AT_REST))) == []
    lost = (replica(A, 1, 1, leads=True), replica(B, 1, 1))
    assert [a.name for a in memory.observe(view(PartitionView(lost, stored(0), None, (A, B))))] == [
        "I8",
        "I8",
    ]
    assert list(memory.observe(view(PartitionView(lost, stored(0), None, (A, B), **era)))) == []


def test_the_leader_of_an_old_epoch_need_not_know_who_was_moved_away() -> None:
    replicas = replica(A, 2, 2, leads=True), replica(B, 0, 0)
    still_owed = PartitionView(replicas, stored(1, (A,)), None, (A, B))
    assert [a.name for a in weak_isr(view(still_owed))] == ["WeakIsr"]
    moved = PartitionView(replicas, stored(1, (A,)), None, (A, B), has_moved=True)
    assert list(weak_isr(view(moved))) == []
    in_the_isr = PartitionView(replicas, stored(1), None, (A, B), has_moved=True)
    assert [a.name for a in weak_isr(view(in_the_isr))] == ["WeakIsr"]


# ------------------------------------------------------------------------------------------ topics in the store


def write(tree: Tree, path: str, data: bytes) -> None:
    parts = path.split("/")
    parents = tuple("/".join(parts[:count]) for count in range(2, len(parts)))
    tree.write(tree.open_session(1000), [ConditionalOps((Put(path, data),), parents=parents)], None)


def topic(number: int) -> bytes:
    return layout.encode_topic(TopicAssignment("t", bytes([number]) * 16, {0: ReplicaAssignment((A, B))}, 0))


def test_a_topic_made_again_has_another_name_in_the_history_and_one_that_goes_has_none() -> None:
    tree = Tree()
    topics = Topics(tree)
    assert topics.now(T) is None
    write(tree, layout.topic_path("t"), topic(1))
    assert topics.now(T) == T and topics.now(TopicPartition("t", 1)) is None
    write(tree, layout.delete_topic_path("t"), b"")
    assert topics.now(T) is None and topics.to_delete() == ("t",)
    tree = Tree()
    topics._tree = tree
    write(tree, layout.topic_path("t"), topic(2))
    assert topics.now(T) == TopicPartition("t~2", 0)


def test_an_unclean_election_behind_one_that_is_over_is_another_one_whoever_leads() -> None:
    """Seed 533: who had been in the ISR behind the first was elected from outside it, and what was lost seemed to be lost by nobody."""
    tree = Tree()
    topics = Topics(tree)
    write(tree, layout.topic_path("t"), topic(1))
    states = [  # leader, ISR, whether it recovers, and how many elections were unclean by then
        (A, (A,), False, 0),
        (B, (B,), True, 1),
        (B, (B, A), True, 1),
        (A, (A,), True, 1),  # cleanly, before the first is over
        (B, (B, A), False, 1),
        (A, (A,), True, 2),
    ]
    for epoch, (leader, isr, is_recovering, count) in enumerate(states):
        state = LeaderAndIsr(leader, LeaderEpoch(epoch), isr, leader_recovery_state=int(is_recovering))
        write(tree, layout.state_path(T), layout.encode_partition_state(state, ControllerEpoch(1)))
        topics.notice_unclean_elections()
        assert topics.unclean_elections_of(T) == count, epoch


# ----------------------------------------------------------------------------------------------------- the plans


def test_every_kind_of_action_is_drawn_by_some_seed_and_carried_out_by_somebody() -> None:
    drawn = {fault.kind for seed in range(300) for fault in draw(seed).faults}
    assert set(ACTIONS) <= drawn
    assert all(hasattr(Administration, f"_{kind}") for kind in ACTIONS)
    assert not set(ACTIONS) & set(KINDS)


def test_some_seeds_have_no_administrators_and_few_may_lose_records() -> None:
    plans = [draw(seed) for seed in range(300)]
    administered = sum(plan.is_administered for plan in plans)
    assert 100 < administered < 250, "operators count as well"
    assert sum(plan.has(UNCLEAN) for plan in plans) < administered / 2


# Each met something that was wrong once. What they do now has shifted with the code.
@pytest.mark.parametrize("seed", [6, 107, 360, 377])
def test_a_seed_with_administrators_is_right_and_comes_to_rest(seed: int) -> None:
    plan = draw(seed)
    assert plan.is_administered
    outcome = run(plan)
    assert outcome.code == OK, describe(outcome)


def test_laggards_that_are_left_alone_in_a_plan_may_lose_records_as_in_the_whole_one() -> None:
    """As `--only` and `--shrink` leave them: it allows the unclean election itself."""
    plan = draw(9)
    others = {number for number, fault in enumerate(plan.faults) if fault.kind != "leave_laggards"}
    outcome = run(plan.without(others))

    assert [fault.kind for fault in outcome.injected] == ["leave_laggards"]
    assert outcome.code == OK, describe(outcome)


def test_delete_records_that_is_answered_too_early_is_named() -> None:
    world = World(0)
    administration = Administration(world, replace(draw(1), faults=()), "t", {"min.insync.replicas": "1"})
    host = Host("c1", 101)
    client = SimClient(world.loop, host, world.addresses)

    async def create() -> None:
        await client.refresh([])
        assert await client.create_topic("t", 1, 3) == 0

    try:
        world.start()
        world.call(host, create())
        world.run_for(1.0)
        administration._judge_deleted(T, 0, T)
        administration._judge_deleted(T, 1, world.topics.named(T, TopicId(bytes(16 * [7]))))
        assert world.let_in == [], (
            "of the topic that there is, nothing below 0 is left, and the other is none"
        )
        administration._judge_deleted(T, 1, T)
        assert [anomaly.name for anomaly in world.let_in] == ["LowWatermark"] * 3
    finally:
        let_go(world)
