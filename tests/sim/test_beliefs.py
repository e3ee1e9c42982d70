"""What brokers believe of each other: wrong beliefs made by hand, each named; and a world in which one is planted."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from odradek.broker.answers import Park, Reply
from odradek.broker.fetch_sessions import FetchSession
from odradek.broker.handlers.delete_records import DeleteRecordsWait
from odradek.broker.handlers.produce import ProduceWait
from odradek.broker.leader_wait import TopicWait
from odradek.model.cluster import LeaderAndIsr
from odradek.model.ids import BrokerEpoch, BrokerId, LeaderEpoch, PartitionEpoch, TopicPartition
from odradek.protocol.messages.delete_records import DeleteRecordsResponse
from odradek.replication.isr import Committed
from odradek.replication.waiting import AckWaiter
from odradek.sim.checkers import beliefs as b
from odradek.sim.checkers.history import Anomaly, History
from odradek.sim.checkers.replicas import BatchView, ClusterView, PartitionView, ReplicaView
from odradek.sim.clients.client import SimClient
from odradek.sim.clients.producer import SimProducer
from odradek.sim.loop import Host
from odradek.sim.observed.beliefs import (
    AtWork,
    at_work,
    differing_assignments,
    following,
    outlived,
    reading,
    told_ends,
    unknown_positions,
    waiting,
)
from odradek.sim.observed.quiescence import pending
from odradek.sim.observed.watch import Watch
from odradek.sim.run import let_go
from odradek.sim.world import World
from tests.support import each

HOST = Host("c1", 101)
T = TopicPartition("t", 0)
ONE, TWO, THREE = map(BrokerId, (1, 2, 3))


def replica(broker: BrokerId, ends: int, high_watermark: int, *, crc: int = 1000) -> ReplicaView:
    batches = tuple(BatchView(n, n, 0, crc + n) for n in range(ends))
    return ReplicaView(broker, True, False, 0, 0, ends, high_watermark, batches=batches)


def leader(maximal_isr: tuple[BrokerId, ...], *, epoch: int = 0) -> ReplicaView:
    made = replica(ONE, 3, 3)
    return replace(made, is_leader=True, leader_epoch=epoch, isr=maximal_isr[:1], maximal_isr=maximal_isr)


def view(*replicas: ReplicaView, isr: tuple[BrokerId, ...] = (ONE, TWO)) -> ClusterView:
    stored = LeaderAndIsr(ONE, LeaderEpoch(0), isr, PartitionEpoch(0))
    return ClusterView({T: PartitionView(replicas, stored, assignment=(ONE, TWO, THREE))})


MAXIMAL, MARKS = b.maximal_isr_covers_the_store, b.marks_are_committed


def ends_told(*told: tuple[int, int], eras: Sequence[tuple[int, int]] = ()) -> list[Anomaly]:
    """One after the other: in which epoch, and which end; each in its era, where `eras` are given."""
    memory = b.ToldEnds()
    ends = [b.ToldEnd(T, ONE, epoch, eras[n] if eras else (0, 0), end) for n, (epoch, end) in enumerate(told)]
    return [anomaly for end in ends for anomaly in memory.observe([end])]


def low(high_watermark: int, *, epoch: int = 0, leads: BrokerId = ONE) -> b.LowMark:
    return b.LowMark(T, leads, epoch, high_watermark, 3)


def standing(looks: Sequence[tuple[float, list[b.LowMark]]]) -> list[Anomaly]:
    """Of the last of these looks, each at its virtual second."""
    marks = b.StandingMarks()
    *_, last = [marks.observe(seen, now_s) for now_s, seen in looks]
    return last


BAD: dict[str, tuple[str, Callable[..., Any], Any]] = {
    "who joined is not counted": ("MaximalIsr", MAXIMAL, view(leader((ONE,)))),
    "one of two that joined is not": ("MaximalIsr", MAXIMAL, view(leader((ONE, TWO)), isr=(ONE, TWO, THREE))),
    "who leaves is not counted any more": ("MaximalIsr", MAXIMAL, view(leader((ONE, THREE)))),
    "a high watermark stays low": ("MarkRises", standing, [(0, [low(2)]), (0.5, [low(2)]), (1.1, [low(2)])]),
    "it rises, and stays low again": (
        "MarkRises",
        standing,
        [(0, [low(1)]), (1, [low(2)]), (1.5, [low(2)]), (2.1, [low(2)])],
    ),
    "one of two stays low": (
        "MarkRises",
        standing,
        [(0, [low(2), low(2, leads=TWO)]), (0.9, [low(2)]), (1.8, [low(2), low(2, leads=TWO)])],
    ),
    "a follower's mark is above a member's end": (
        "MarkIsCommitted",
        MARKS,
        view(leader((ONE, TWO)), replica(TWO, 2, 0), replica(THREE, 3, 3)),
    ),
    "above the leader's own end": ("MarkIsCommitted", MARKS, view(leader((ONE, TWO)), replica(TWO, 4, 4))),
    "below it the logs differ": (
        "MarkIsCommitted",
        MARKS,
        view(leader((ONE, TWO)), replica(THREE, 3, 2, crc=5)),
    ),
    "a follower ends before its position": (
        "ValidPosition",
        b.positions_are_held,
        [b.Position(T, ONE, TWO, 4, 3)],
    ),
    "one that has nothing": ("ValidPosition", b.positions_are_held, [b.Position(T, ONE, TWO, 1, 0)]),
    "the second of two": (
        "ValidPosition",
        b.positions_are_held,
        [b.Position(T, ONE, TWO, 3, 3), b.Position(T, ONE, THREE, 9, 3)],
    ),
    "a dead broker counts as live": (
        "LiveIsKnown",
        b.who_is_live_is_known,
        [b.Acquaintance(ONE, {1, 2, 3}, {1, 2})],
    ),
    "a live one does not": ("LiveIsKnown", b.who_is_live_is_known, [b.Acquaintance(ONE, {1}, {1, 2})]),
    "a leader has another ISR than the store": (
        "StoredIsKnown",
        b.what_is_stored_is_known,
        [b.Told(T, ONE, (ONE,), (ONE, TWO), False, ())],
    ),
    "it does not know who is eligible": (
        "StoredIsKnown",
        b.what_is_stored_is_known,
        [b.Told(T, ONE, (ONE,), (ONE,), False, (TWO,))],
    ),
    "it takes for eligible who is not any more": (
        "StoredIsKnown",
        b.what_is_stored_is_known,
        [b.Told(T, ONE, (ONE, TWO), (ONE, TWO), True, ())],
    ),
    "a replica follows another leader": (
        "StoredIsKnown",
        b.roles_are_as_stored,
        [b.Role(T, TWO, THREE, 0, ONE, 0)],
    ),
    "it takes its log for recovering": (
        "StoredIsKnown",
        b.roles_are_as_stored,
        [b.Role(T, TWO, ONE, 0, ONE, 0), b.Role(T, THREE, ONE, 1, ONE, 0)],
    ),
    "it does not": ("StoredIsKnown", b.roles_are_as_stored, [b.Role(T, ONE, ONE, 0, ONE, 1)]),
    "a producer waits for what is committed": (
        "NobodyWaits",
        b.nobody_waits_in_vain,
        [b.Waiting(T, ONE, 3, 3)],
    ),
    "for less": ("NobodyWaits", b.nobody_waits_in_vain, [b.Waiting(T, ONE, 2, 3)]),
    "with too few in sync": ("NobodyWaits", b.nobody_waits_in_vain, [b.Waiting(T, ONE, 4, 3)]),
    "a follower was not told of a record": (
        "ReaderIsTold",
        b.readers_are_told,
        [b.Reading(T, ONE, 2, 3, True)],
    ),
    "a consumer was told of none": ("ReaderIsTold", b.readers_are_told, [b.Reading(T, ONE, 0, 3, True)]),
    "a reader has left": ("ReaderIsTold", b.readers_are_told, [b.Reading(T, ONE, 3, 3, False)]),
    "a reader was not told that its leader leads no more": (
        "ReaderIsTold",
        b.readers_are_told,
        [b.Reading(T, ONE, 3, 3, True, knows_the_role=False)],
    ),
    "a consumer is told of a lower end by the next leader": (
        "EndIsKept",
        lambda told: ends_told(*told),
        [(1, 5), (2, 4)],
    ),
    "by the same one": ("EndIsKept", lambda told: ends_told(*told), [(1, 5), (1, 4)]),
    "by the one after the next": ("EndIsKept", lambda told: ends_told(*told), [(1, 5), (2, 5), (3, 4)]),
    "a follower fetches from nobody": (
        "FollowsItsLeader",
        b.each_follows_its_leader,
        [b.Following(T, TWO, (1, 3), ())],
    ),
    "from another one as well": (
        "FollowsItsLeader",
        b.each_follows_its_leader,
        [b.Following(T, TWO, (1, 3), ((1, 3), (3, 2)))],
    ),
    "in an epoch that is over": (
        "FollowsItsLeader",
        b.each_follows_its_leader,
        [b.Following(T, TWO, (1, 3), ((1, 2),))],
    ),
    "though it leads": (
        "FollowsItsLeader",
        b.each_follows_its_leader,
        [b.Following(T, TWO, None, ((1, 3),))],
    ),
    "nobody wakes who waits for a topic": (
        "NobodyWaits",
        b.nobody_oversleeps,
        [b.Overslept(ONE, "TopicWait")],
    ),
    "nor who deletes records": ("NobodyWaits", b.nobody_oversleeps, [b.Overslept(TWO, "DeleteRecordsWait")]),
    "nor two": (
        "NobodyWaits",
        b.nobody_oversleeps,
        [b.Overslept(ONE, "TopicWait"), b.Overslept(TWO, "TopicWait")],
    ),
    "another one does": ("LiveIsKnown", b.who_is_live_is_known, [b.Acquaintance(ONE, {1, 3}, {1, 2})]),
}


def begins(start: int, made: ReplicaView) -> ReplicaView:
    return replace(made, log_start_offset=start)


KEPT = {
    "the leader has kept them": (begins(0, leader((ONE, TWO))), begins(2, replica(TWO, 3, 3))),
    "a follower has kept them": (begins(2, leader((ONE, TWO))), begins(0, replica(TWO, 3, 3))),
    "a follower has kept one": (
        begins(2, leader((ONE, TWO))),
        begins(1, replica(TWO, 3, 3)),
        replica(THREE, 3, 3),
    ),
}


@each(KEPT)
def test_a_low_watermark_below_which_a_member_of_the_isr_begins_is_named(why: str) -> None:
    (state,) = view(*KEPT[why]).partitions.values()
    assert [a.name for a in b.deleted_everywhere(T, state, 2)] == ["LowWatermark"]
    assert list(b.deleted_everywhere(T, state, 0)) == []


def test_a_log_that_begins_behind_what_was_to_be_deleted_is_named() -> None:
    (state,) = view(begins(2, leader((ONE, TWO))), begins(1, replica(TWO, 3, 3))).partitions.values()
    assert list(b.begins_as_asked(T, state, 2)) == []
    assert [a.detail[:8] for a in b.begins_as_asked(T, state, 1)] == ["broker 1"]
    assert [a.detail[:8] for a in b.begins_as_asked(T, state, 0)] == ["broker 1", "broker 2"]


GOOD: dict[str, tuple[Callable[..., Any], Any]] = {
    "who was asked to join is counted before it is stored": (MAXIMAL, view(leader((ONE, TWO, THREE)))),
    "in another epoch the leader has heard of nothing": (MAXIMAL, view(leader((ONE,), epoch=1))),
    "a follower may know less": (MARKS, view(leader((ONE, TWO)), replica(TWO, 3, 1), replica(THREE, 1, 1))),
    "a follower may be further": (b.positions_are_held, [b.Position(T, ONE, TWO, 2, 3)]),
    "a high watermark rises within the second": (standing, [(0, [low(2)]), (1, [low(2)]), (1.1, [])]),
    "it rises, and more is proven": (standing, [(0, [low(1)]), (0.9, [low(2)]), (1.8, [low(2)])]),
    "it was as high as is proven in between": (standing, [(0, [low(2)]), (0.6, []), (1.2, [low(2)])]),
    "another epoch has begun": (
        standing,
        [(0, [low(2)]), (0.9, [low(2, epoch=1)]), (1.8, [low(2, epoch=1)])],
    ),
    "a follower fetches from its leader, and a leader from nobody": (
        b.each_follows_its_leader,
        [b.Following(T, TWO, (1, 3), ((1, 3),)), b.Following(T, ONE, None, ())],
    ),
    "a leader that was deposed tells an older end": (lambda told: ends_told(*told), [(2, 5), (1, 4)]),
    "the end rises": (lambda told: ends_told(*told), [(1, 4), (1, 5), (2, 5)]),
    "it was lost by an unclean election": (
        lambda told: ends_told(*told, eras=[(0, 0), (0, 1)]),
        [(1, 5), (2, 4)],
    ),
    "it is another topic": (lambda told: ends_told(*told, eras=[(0, 0), (1, 0)]), [(1, 5), (1, 4)]),
    "all live ones are known": (b.who_is_live_is_known, [b.Acquaintance(ONE, {1, 2}, {1, 2})]),
}


@each(BAD)
def test_a_wrong_belief_is_named(why: str) -> None:
    name, check, seen = BAD[why]
    assert {anomaly.name for anomaly in check(seen)} == {name}, why


@each(GOOD)
def test_a_true_one_passes(why: str) -> None:
    check, seen = GOOD[why]
    assert list(check(seen)) == [], why


class Waits(AckWaiter):
    def is_over(self, now_ms: int) -> bool:
        return False


@contextmanager
def healthy_world() -> Iterator[tuple[World, Any]]:
    """In which one record was produced; and the broker that leads."""
    world = World(0)
    client = SimClient(world.loop, HOST, world.addresses)

    async def produce() -> None:
        await client.refresh([])
        assert await client.create_topic("t", 1, 3) == 0
        producer = SimProducer(client, "p0", History())
        await producer.open()
        assert (await producer.send(T, [b"1"])).outcome == "ok"

    try:
        world.start()
        world.call(HOST, produce())
        world.run_for(1.0)
        brokers = [b.runtime.broker for b in world.brokers.values() if b.runtime is not None]
        yield world, next(one for one in brokers if one.replicas.partitions[T].is_leader)
    finally:
        let_go(world)


def connected_to(world: World) -> Callable[[], Awaitable[SimClient]]:
    """Each is another client, that knows the brokers."""

    async def connected() -> SimClient:
        client = SimClient(world.loop, HOST, world.addresses)
        await client.refresh([])
        return client

    return connected


def found_with(plant: Callable[[Any], None]) -> set[str]:
    """By a look at a healthy cluster, in the memory of whose leader something was planted."""
    with healthy_world() as (world, leader):
        watch = Watch(world)
        assert watch.check() == []
        plant(leader)
        return {anomaly.name for anomaly in watch.check()}


def position(broker: Any) -> None:
    state = next(iter(broker.replicas.partitions[T].followers.values()))
    state.log_end_offset += 1


def acquaintance(broker: Any) -> None:
    broker.metadata.live_brokers.add(9)


def eligible(broker: Any) -> None:
    broker.replicas.partitions[T].has_eligible = True


def isr(broker: Any) -> None:
    partition = broker.replicas.partitions[T]
    partition.state = Committed(partition.isr[::-1])


def an_older_isr(broker: Any) -> None:
    """Of an epoch before the stored one: the leader has not heard of that yet."""
    isr(broker)
    broker.replicas.partitions[T].partition_epoch -= 1


def waiter(broker: Any) -> None:
    partition = broker.replicas.partitions[T]
    partition.commit_waiters.add(partition.high_watermark, Waits(), 0)


def waiter_of_a_batch_sent_again(broker: Any) -> None:
    """Behind one that waits for what is not committed, which is right."""
    partition = broker.replicas.partitions[T]
    partition.commit_waiters.add(partition.high_watermark + 1, Waits(), 0)
    waiter(broker)


def answered_waiter(broker: Any) -> None:
    partition = broker.replicas.partitions[T]
    answered = Waits()
    answered.is_done = True
    partition.commit_waiters.add(partition.high_watermark, answered, 0)


def reader(broker: Any) -> None:
    found = next(iter(broker.replicas.partitions[T].follower_readers))
    found.fetch_offset -= 1
    found.session.pending.pop(found, None)


def one_that_will_be_read(broker: Any) -> None:
    found = next(iter(broker.replicas.partitions[T].follower_readers))
    found.fetch_offset -= 1
    found.session.pending[found] = None


def former_reader(broker: Any) -> None:
    found = next(iter(broker.replicas.partitions[T].follower_readers))
    del found.session.wanted[found.key, found.index]


def of_another_role(broker: Any) -> None:
    found = next(iter(broker.replicas.partitions[T].follower_readers))
    found.role = (found.role[0] - 1, True)
    found.session.pending.pop(found, None)


def deletion(broker: Any) -> None:
    """Up to where every replica begins by now."""
    partition = broker.replicas.partitions[T]
    wait = DeleteRecordsWait(broker, 2, DeleteRecordsResponse(), [(partition, 0, None)])  # type: ignore[list-item]
    broker.purgatory.park(wait, deadline_ms=1 << 50, keys=[T])


def deletion_that_followers_lack(broker: Any) -> None:
    partition = broker.replicas.partitions[T]
    wait = DeleteRecordsWait(broker, 2, DeleteRecordsResponse(), [(partition, 1, None)])  # type: ignore[list-item]
    broker.purgatory.park(wait, deadline_ms=1 << 50, keys=[T])


def topic(broker: Any) -> None:
    wait = TopicWait(
        broker, ["t"], is_over=lambda name: True, reply=lambda still, now_ms: Reply([b""]), park=Park()
    )
    broker.purgatory.park(wait, deadline_ms=1 << 50)


def topic_of_which_nobody_has_told(broker: Any) -> None:
    wait = TopicWait(
        broker,
        ["t", "u"],
        is_over=lambda name: name == "t",
        reply=lambda still, now_ms: Reply([b""]),
        park=Park(),
    )
    broker.purgatory.park(wait, deadline_ms=1 << 50)


def topic_that_is_answered_in_this_turn(broker: Any) -> None:
    topic(broker)
    for bucket in broker.purgatory._buckets.values():
        for parked in bucket:
            if isinstance(parked, TopicWait):
                broker.purgatory.wake(parked)


PLANTED: dict[str, tuple[Callable[[Any], None], set[str]]] = {
    "a position": (position, {"ValidPosition"}),
    "who is live": (acquaintance, {"LiveIsKnown"}),
    "that somebody is eligible": (eligible, {"StoredIsKnown"}),
    "an ISR": (isr, {"StoredIsKnown"}),
    "an ISR of before": (an_older_isr, set()),
    "a producer that waits for what is committed": (waiter, {"NobodyWaits"}),
    "one whose batch was sent again, behind others": (waiter_of_a_batch_sent_again, {"NobodyWaits"}),
    "one that was answered": (answered_waiter, set()),
    "a deletion that everybody has done": (deletion, {"NobodyWaits"}),
    "one that followers lack": (deletion_that_followers_lack, set()),
    "a topic that is known": (topic, {"NobodyWaits"}),
    "one that is not": (topic_of_which_nobody_has_told, set()),
    "one whose answer comes in this turn": (topic_that_is_answered_in_this_turn, set()),
    "a reader that was not told of an epoch": (of_another_role, {"ReaderIsTold"}),
    "a reader that was not told": (reader, {"ReaderIsTold"}),
    "one whose turn comes": (one_that_will_be_read, set()),
    "one of which the session knows nothing": (former_reader, {"ReaderIsTold", "FetchStandsFor"}),
}


@each(PLANTED)
def test_a_belief_that_is_planted_is_found(why: str) -> None:
    plant, names = PLANTED[why]
    assert found_with(plant) == names


def _not_fetched(broker: Any) -> None:
    for fetcher in broker.replicas.fetchers.values():
        fetcher.partitions.clear()


def _in_another_epoch(broker: Any) -> None:
    for fetcher in broker.replicas.fetchers.values():
        fetcher.partitions[T].leader_epoch -= 1


def _fetched_though_deleted(broker: Any) -> None:
    del broker.replicas.partitions[T]


@pytest.mark.parametrize("plant", [_not_fetched, _in_another_epoch, _fetched_though_deleted])
def test_a_follower_that_does_not_follow_its_leader_is_found(plant: Callable[[Any], None]) -> None:
    with healthy_world() as (world, leader):
        cores = [core for _, core in at_work(world).brokers.values() if core is not leader]
        assert list(following(at_work(world))) == []
        plant(cores[0])
        assert [a.name for a in b.each_follows_its_leader(following(at_work(world)))] == ["FollowsItsLeader"]


def test_a_fetch_without_a_session_that_waits_is_told_of_records_too() -> None:
    """As consumers of a world fetch: all that it wants is pending as long as it waits."""
    for is_dirty, seen_bytes, names in ((False, 0, ["ReaderIsTold"]), (True, 0, []), (False, 70, [])):
        with healthy_world() as (world, leader):
            partition = leader.replicas.partitions[T]
            session = FetchSession(
                0,
                replica_id=-1,
                replica_epoch=BrokerEpoch(-1),
                by_id=False,
                purgatory=leader.purgatory,
                now_ms=0,
            )
            wanted = session.want("t", 0, -1, partition.high_watermark - 1, -1, -1, 1)
            wanted.watch(partition)
            wanted.role = (partition.leader_epoch, True)
            wanted.is_dirty, wanted.seen_bytes = is_dirty, seen_bytes
            assert [anomaly.name for anomaly in Watch(world).check()] == names


def test_a_fetch_that_reads_uncommitted_is_told_of_what_an_open_transaction_holds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for isolation_level, names in ((0, ["ReaderIsTold"]), (1, [])):
        with healthy_world() as (world, leader):
            partition = leader.replicas.partitions[T]
            session = FetchSession(
                0,
                replica_id=-1,
                replica_epoch=BrokerEpoch(-1),
                by_id=False,
                purgatory=leader.purgatory,
                now_ms=0,
            )
            parked: Any = SimpleNamespace(body=SimpleNamespace(isolation_level=isolation_level))
            session.parked = parked
            wanted = session.want("t", 0, -1, partition.high_watermark - 1, -1, -1, 1)
            wanted.watch(partition)
            wanted.role = (partition.leader_epoch, True)
            wanted.is_dirty, wanted.seen_bytes = False, 0
            with monkeypatch.context() as patched:
                patched.setattr(type(partition), "last_stable_offset", partition.high_watermark - 1)
                found = list(b.readers_are_told(reading(at_work(world))))
            assert [anomaly.name for anomaly in found] == names


def test_where_a_partition_is_told_to_end_is_looked_at_and_a_leader_that_is_not_sure_is_not_asked() -> None:
    with healthy_world() as (world, leader):

        def told() -> list[tuple[int, int]]:
            partitions = world.view(with_batches=False).partitions
            return [(one.leader, one.end) for one in told_ends(at_work(world), partitions)]

        assert told() == [(leader.broker_id, 1)]
        partition = leader.replicas.partitions[T]
        partition.high_watermark = 0
        assert told() == [(leader.broker_id, 0)]
        partition.leader_epoch_start_offset = 1
        assert told() == []


def test_what_a_leader_does_not_know_of_a_follower_at_rest_is_named() -> None:
    """Too little of its end, or too much of its start. Where it begins later than was told, retention was at work."""
    for attribute, by, says in (("log_end_offset", -1, "end at 0"), ("log_start_offset", 1, "begin at 1")):
        with healthy_world() as (world, leader):
            assert list(unknown_positions(world)) == []
            state = next(iter(leader.replicas.partitions[T].followers.values()))
            setattr(state, attribute, getattr(state, attribute) + by)
            (found,) = unknown_positions(world)
            assert says in found
            setattr(state, attribute, getattr(state, attribute) - by)
            state.log_start_offset -= 1
            assert list(unknown_positions(world)) == []


def _without_a_replica(replica: Any) -> None:
    replica.assignment = replace(replica.assignment, replicas=replica.assignment.replicas[:2])


def _being_moved(replica: Any) -> None:
    replica.assignment = replace(replica.assignment, removing_replicas=replica.assignment.replicas[:1])


def _with_fewer_in_sync(replica: Any) -> None:
    replica.effective_min_isr += 1


@pytest.mark.parametrize("plant", [_without_a_replica, _being_moved, _with_fewer_in_sync])
def test_a_leader_that_is_assigned_or_configured_otherwise_is_found_at_rest(
    plant: Callable[[Any], None],
) -> None:
    with healthy_world() as (world, leader):
        assert list(differing_assignments(world)) == []
        plant(leader.replicas.partitions[T])
        assert len(list(differing_assignments(world))) == 1
        assert [anomaly.name for anomaly in pending(world)] == ["I12"]


def test_a_replica_that_takes_an_unclean_election_for_not_over_is_found() -> None:
    with healthy_world() as (world, leader):
        leader.replicas.partitions[T].leader_recovery_state = 1
        assert [anomaly.name for anomaly in Watch(world).check()] == ["StoredIsKnown"]


def test_a_topic_or_a_partition_that_is_gone_and_still_told_of_keeps_a_cluster_from_rest() -> None:
    with healthy_world() as (world, leader):
        assert list(outlived(world)) == []
        topics = leader.metadata.topics
        topics["gone"] = topics[T.topic]
        assert list(outlived(world)) == [(leader.broker_id, T._replace(topic="gone"))]
        del topics["gone"]
        topics[T.topic] = {**topics[T.topic], 7: topics[T.topic][0]}
        assert list(outlived(world)) == [(leader.broker_id, T._replace(partition=7))]
        told = [anomaly for anomaly in pending(world) if anomaly.name == "TopicIsGone"]
        assert [anomaly.topic_partition for anomaly in told] == [T._replace(partition=7)]


def test_a_producer_that_waits_with_too_few_in_sync_is_seen_and_who_waits_for_something_else_is_not() -> None:
    hopeless, other = object.__new__(ProduceWait), object()
    commits = SimpleNamespace(waiting=lambda: [(9, hopeless), (9, other), (10, hopeless)])
    replica = SimpleNamespace(commit_waiters=commits, is_under_min_isr=True, high_watermark=9)
    seen: Any = AtWork({}, [(cast(Any, SimpleNamespace(broker_id=ONE)), None, T, replica)])
    assert [one.offset for one in waiting(seen)] == [9, 9, 10]
    replica.is_under_min_isr = False
    assert [one.offset for one in waiting(seen)] == [9, 9]
    replica.high_watermark = 5
    assert list(waiting(seen)) == []
    replica.is_under_min_isr = True
    assert [one.offset for one in waiting(seen)] == [9, 10]
