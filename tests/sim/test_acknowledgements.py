"""I15: what is acknowledged with acks=all is on every member of the ISR in the moment in which the answer leaves."""

from dataclasses import replace

import pytest

from odradek.model.cluster import LeaderAndIsr
from odradek.model.ids import BrokerId, LeaderEpoch, PartitionEpoch, TopicPartition
from odradek.protocol.headers import encode_request
from odradek.records.builder import NewRecord, build_batch
from odradek.sim.checkers.acknowledgements import (
    Acknowledgement,
    acknowledged,
    flushed,
    timed_out,
)
from odradek.sim.checkers.history import History
from odradek.sim.checkers.replicas import BatchView, PartitionView, ReplicaView
from odradek.sim.clients.client import SimClient
from odradek.sim.clients.producer import SimProducer, produce_request
from odradek.sim.loop import Host
from odradek.sim.network import SimTransport
from odradek.sim.observed.acknowledgements import Acknowledgements
from odradek.sim.observed.watch import Watch
from odradek.sim.plan import draw
from odradek.sim.run import let_go, run
from odradek.sim.topics import Topics
from odradek.sim.world import PORT, World
from tests.mutants.edit import Edit
from tests.mutants.patching import applied
from tests.support import each

HOST = Host("c1", 101)
T = TopicPartition("t", 0)
ANSWER = Acknowledgement(BrokerId(1), T, 3)


def replica(broker: int, ends: int, high_watermark: int = 0, *, epoch: int = 0) -> ReplicaView:
    batches = tuple(BatchView(n, n, epoch, 1000 + n) for n in range(ends))
    return ReplicaView(BrokerId(broker), True, False, 0, 0, ends, high_watermark, batches=batches)


def leader(ends: int, high_watermark: int, isr: tuple[int, ...]) -> ReplicaView:
    members = tuple(map(BrokerId, isr))
    return replace(replica(1, ends, high_watermark), is_leader=True, isr=members, maximal_isr=members)


def partition(
    *replicas: ReplicaView, isr: tuple[int, ...] = (1, 2), epoch: int = 0, min_isr: int = 2
) -> PartitionView:
    members = tuple(map(BrokerId, isr))
    stored = LeaderAndIsr(BrokerId(1), LeaderEpoch(epoch), members, PartitionEpoch(0))
    assigned = tuple(map(BrokerId, (1, 2, 3)))
    return PartitionView(replicas, stored, assignment=assigned, min_insync_replicas=min_isr)


BAD = {
    "above the high watermark": partition(leader(3, 2, (1, 2)), replica(2, 3)),
    "a member of the stored ISR ends below": partition(leader(3, 3, (1, 2)), replica(2, 2)),
    "one that the leader does not know of": partition(leader(3, 3, (1,)), replica(2, 2), min_isr=1),
    "one that the controller has taken out": partition(leader(3, 3, (1, 2, 3)), replica(2, 3), replica(3, 2)),
    "a member has other batches": partition(leader(3, 3, (1, 2)), replica(2, 3, epoch=1)),
    "too few have them": partition(leader(3, 3, (1,)), replica(2, 2), replica(3, 0), isr=(1,)),
    "the copies of the dead end below": partition(
        leader(3, 3, (1,)), *(replace(replica(broker, 2), is_alive=False) for broker in (2, 3)), isr=(1,)
    ),
}
GOOD = {
    "everybody has them": partition(leader(3, 3, (1, 2)), replica(2, 3), replica(3, 0)),
    "who is not in the ISR may lag": partition(leader(3, 3, (1, 2)), replica(2, 3), replica(3, 1)),
    "a dead member's copy counts": partition(leader(3, 3, (1, 2))),
    "a leader of an older epoch need not know who has left": partition(
        leader(3, 3, (1, 2, 3)), replica(2, 3), replica(3, 1), isr=(1, 2), epoch=1
    ),
    "it was committed, and this broker leads no more": partition(replica(1, 2), replica(2, 3)),
    "the topic is not stored": PartitionView((leader(3, 2, (1, 2)),)),
}


@each(BAD)
def test_an_acknowledgement_that_comes_too_early_is_named(why: str) -> None:
    assert {anomaly.name for anomaly in acknowledged(ANSWER, BAD[why])} == {"I15"}, why


@each(GOOD)
def test_one_in_time_passes(why: str) -> None:
    assert list(acknowledged(ANSWER, GOOD[why])) == [], why


def test_too_few_are_enough_where_the_minimum_was_changed() -> None:
    assert list(acknowledged(ANSWER, BAD["too few have them"], is_min_isr_fixed=False)) == []


def test_a_member_that_has_not_flushed_all_of_it_is_named() -> None:
    state = partition(leader(3, 3, (1, 2)), replica(2, 3), replica(3, 3))
    points = {BrokerId(1): 3, BrokerId(3): 0}
    for point, names in ((2, ["I15"]), (3, [])):
        found = flushed(ANSWER, state, {**points, BrokerId(2): point})
        assert [anomaly.name for anomaly in found] == names


def produced(count: int, *, acks: int = -1) -> tuple[Acknowledgements, Watch]:
    """By one producer, to a healthy cluster of three in which nothing goes wrong."""
    world = World(0)
    heard = Acknowledgements(world, HOST.name, is_min_isr_fixed=True)
    watch = Watch(world)
    client = SimClient(world.loop, HOST, world.addresses)

    async def produce() -> None:
        await client.refresh([])
        assert await client.create_topic("t", 1, 3, {"min.insync.replicas": "2"}) == 0
        producer = SimProducer(client, "p0", History(), acks=acks)
        await producer.open()
        for number in range(count):
            assert (await producer.send(T, [str(number).encode()])).outcome == "ok"

    try:
        world.start()
        world.call(HOST, produce())
        world.run_for(1.0)
        watch.found += watch.check()
    finally:
        let_go(world)
    return heard, watch


def test_every_acknowledgement_of_a_producer_with_acks_all_is_judged() -> None:
    heard, _ = produced(5)
    assert (heard.judged, heard.found) == (5, [])
    assert produced(5, acks=1)[0].judged == 0


def test_what_was_sent_after_an_unclean_election_is_judged_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Topics, "has_unclean_elections", True)
    monkeypatch.setattr(Topics, "unclean_elections_of", lambda *_: 1)
    assert produced(5)[0].judged == 5


EARLY = {
    "answered at the leader's append": Edit(
        "broker.handlers.produce:append_all",
        "partition.high_watermark < required",
        "partition.high_watermark < result.base_offset",
    ),
    "a follower is thought to be one record further": Edit(
        "replication.high_watermark:high_watermark",
        "mark = follower.log_end_offset",
        "mark = follower.log_end_offset + 1",
    ),
    "the high watermark is the leader's log end": Edit(
        "replication.high_watermark:high_watermark", "mark = follower.log_end_offset", "pass"
    ),
}


@pytest.mark.parametrize("why", EARLY)
def test_a_promise_that_is_kept_a_moment_later_is_named_and_no_snapshot_shows_it(why: str) -> None:
    with applied([EARLY[why]]):
        heard, watch = produced(40)
    assert {anomaly.name for anomaly in heard.found} == {"I15"}
    assert watch.found == []


def test_a_produce_that_is_written_behind_another_request_is_heard() -> None:
    world = World(0)
    heard = Acknowledgements(world, HOST.name, is_min_isr_fixed=True)
    wire = SimTransport(world.network, HOST, (HOST.name, 1), ("b1", PORT), "b1")
    body = produce_request(T, build_batch([NewRecord(None, b"1", 0)]), acks=-1).encode(9)
    produce, other = encode_request(0, 9, 7, None, body), encode_request(18, 0, 6, None, b"")
    for written, numbers in ((other, []), (produce, [7]), (other + produce, [7]), (other + other, [])):
        heard._asked.clear()
        heard._written(wire, written)
        assert list(heard._asked.get(wire, {})) == numbers


def test_a_listener_that_fails_is_the_simulators_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("odradek.sim.observed.acknowledgements.acknowledged", fails)
    raised: list[object] = []
    monkeypatch.setattr(
        "odradek.sim.loop.SimLoop.call_exception_handler",
        lambda loop, context: raised.append(context["exception"]),
    )
    monkeypatch.setattr(
        "odradek.sim.loop.SimLoop.interrupt", lambda loop: None
    )  # the run that would end with it
    produced(2)
    assert [type(error) for error in raised] == [ZeroDivisionError] * 2


@pytest.mark.parametrize(("timeout_ms", "passed_ms"), [(3_000, 2_999.0), (3_000, 0.0), (1, 0.5)])
def test_who_is_told_too_early_that_its_time_is_up_is_named(timeout_ms: int, passed_ms: float) -> None:
    found = timed_out(BrokerId(1), T, timeout_ms, passed_ms)
    assert [anomaly.name for anomaly in found] == ["NotBeforeItsTime"]
    assert list(timed_out(BrokerId(1), T, timeout_ms, float(timeout_ms))) == []


HURRIED = Edit(
    "replication.purgatory:Purgatory.expire",
    "heap and heap[0] * DEADLINE_GRAIN_MS <= now_ms",
    "heap and heap[0] * DEADLINE_GRAIN_MS <= now_ms + 2_000",
)


def test_a_deadline_that_comes_too_early_is_found_in_a_world() -> None:
    found: set[str] = set()
    with applied([HURRIED]):
        for seed in range(8):
            found |= {anomaly.name for anomaly in run(draw(seed)).anomalies}
            if "NotBeforeItsTime" in found:
                return
    raise AssertionError(found)
