"""What a broker holds and what a turn of it costs: bounded, and found where it is not."""

from dataclasses import replace

import pytest

from odradek.model.ids import BrokerId, TopicPartition
from odradek.server import connection
from odradek.sim.checkers.burden import Burden, Held, overburdened
from odradek.sim.checkers.history import History
from odradek.sim.clients.client import SimClient
from odradek.sim.clients.producer import SimProducer
from odradek.sim.loop import Host, SimLoop
from odradek.sim.meter import Meter
from odradek.sim.observed.burden import burdens
from odradek.sim.plan import Fault, Plan
from odradek.sim.run import CORRECTNESS, OK, describe, let_go, run
from odradek.sim.world import World
from tests.sim.test_further_faults import plan_with

QUIET = Burden(BrokerId(1), [Held("c1:1", 100, 200, 300, 4)], 1_000, 4, 1, 5_000, "a read")


def held(**changed: object) -> Burden:
    return QUIET._replace(connections=[QUIET.connections[0]._replace(**changed)])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("burden", "says"),
    [
        (held(received_bytes=3 << 20), "3145728 received"),
        (held(answer_bytes=1 << 20, written_bytes=1 << 21), "1048576 of answers, 2097152 written"),
        (held(requests=501), "501 requests of c1:1 in flight"),
        (QUIET._replace(bytes_beside=65 << 20), "waits to be looked at"),
        (QUIET._replace(waiting_requests=3_000), "parks 3000 requests"),
        (QUIET._replace(to_be_sent=201), "201 control requests"),
        (
            QUIET._replace(unsent_bytes=7, unsent_bytes_anew=8),
            "counts 7 bytes of answers that wait to be read, and has 8",
        ),
        (
            QUIET._replace(unsent_bytes=1 << 20, unsent_bytes_anew=1 << 20, unsent_connections=2),
            "holds 1048576 bytes of answers that 2 connections do not read",
        ),
        (
            QUIET._replace(unhandled_bytes=7, unhandled_bytes_anew=8),
            "counts 7 bytes of requests that it has not handled, and has 8",
        ),
        (
            QUIET._replace(unhandled_bytes=1 << 20, unhandled_bytes_anew=1 << 20, unhandled_connections=2),
            "holds 1048576 bytes of requests of 2 connections that it has not handled",
        ),
        (QUIET._replace(steps=80_001), "entered 80001 functions in one turn of its loop, in a read"),
    ],
)
def test_what_is_too_much_is_named(burden: Burden, says: str) -> None:
    (found,) = overburdened(burden)
    assert found.name == "BoundedBurden"
    assert says in found.detail


def test_what_a_broker_does_and_holds_for_nobody_who_is_connected_is_judged_too() -> None:
    alone = QUIET._replace(connections=())
    assert list(overburdened(alone)) == []
    for more in (
        alone._replace(steps=200_000),
        alone._replace(to_be_sent=1_000),
        alone._replace(waiting_requests=5_000),
    ):
        assert [anomaly.name for anomaly in overburdened(more)] == ["BoundedBurden"]


def test_what_is_usual_is_not() -> None:
    assert list(overburdened(QUIET)) == []


def test_a_meter_counts_what_a_turn_enters_and_nothing_of_threads() -> None:
    loop = SimLoop(1)
    loop.meter = meter = Meter({"b1"})
    host, threads = Host("b1", 1), Host("b1", 1)
    threads.is_of_threads = True

    def step() -> None:
        pass

    def turn(count: int) -> None:
        for _ in range(count):
            step()

    for who, count in ((host, 7), (host, 40), (threads, 900)):
        loop.call_as(who, turn, count)
    loop.run_until(1.0)

    assert meter.busiest["b1"][0] == 41
    assert meter.steps["b1"] == 8 + 41 + 901


def test_a_meter_stands_still_for_the_simulator_and_counts_nobody_else() -> None:
    loop = SimLoop(1)
    loop.meter = meter = Meter({"b1"})

    def step() -> None:
        pass

    def looked_at() -> None:
        step()
        with meter.standing_still():
            for _ in range(1_000):
                step()
        step()

    for name in ("b1", "c1"):
        loop.call_as(Host(name, 1), looked_at)
    with meter.standing_still():  # of nobody
        step()
    asked = next(meter._asked)
    step()
    assert next(meter._asked) == asked + 1, "nothing is counted from there on"
    loop.run_until(1.0)

    assert meter.steps.keys() == {"b1"}
    assert 3 <= meter.steps["b1"] < 20  # its own, and how the meter is told


def metered(*faults: Fault, duration_s: float) -> Plan:
    plan = plan_with(*faults, seed=50, duration_s=duration_s)
    assert plan.is_metered
    return plan


DEAF = Fault(1.0, "deaf_clients", 0.1, 0.9, 3.0)


@pytest.fixture
def few_steps_are_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What clients ask here is cheap."""
    monkeypatch.setattr("odradek.sim.checkers.burden.MOST_STEPS_OF_A_TURN", 50_000)


@pytest.mark.usefixtures("few_steps_are_allowed")
def test_a_read_that_brings_thousands_of_requests_is_handled_in_many_turns_and_to_count_them_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counted = run(metered(DEAF, duration_s=4.5))
    assert counted.code == OK, describe(counted)

    monkeypatch.setattr("odradek.sim.run.Meter", lambda hosts: None)
    uncounted = run(metered(DEAF, duration_s=4.5))
    assert (counted.trace_hash, counted.events) == (uncounted.trace_hash, uncounted.events)


@pytest.mark.usefixtures("few_steps_are_allowed")
def test_a_read_that_is_handled_in_one_turn_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "MOST_FRAMES_A_TURN", 1_000_000)
    outcome = run(metered(DEAF, duration_s=4.5))
    assert outcome.code == CORRECTNESS
    assert outcome.reason.startswith("BoundedBurden: ")


@pytest.mark.parametrize(
    "broken",
    [("odradek.sim.world.READ_NS", 0), ("odradek.server.connection.MOST_TURN_NS", 1 << 60)],
    ids=["of a stopwatch that stands still", "of a broker that does not look at it"],
)
def test_fetches_from_many_segments_are_put_off_by_the_stopwatch_and_their_turn_is_found_where_they_are_not(
    monkeypatch: pytest.MonkeyPatch, broken: tuple[str, int]
) -> None:
    plan = metered(DEAF._replace(at_s=2.0), duration_s=3.5)  # later: a fetch reads sixteen segments
    plan = replace(plan, settings={**plan.settings, "log.segment.bytes": "300"})  # of one batch each
    outcome = run(plan)
    assert outcome.code == OK, describe(outcome)

    monkeypatch.setattr(*broken)
    outcome = run(plan)
    assert outcome.code == CORRECTNESS
    assert outcome.reason.startswith("BoundedBurden: ")


def seen_held(kind: str) -> list[Held]:
    """At all looks of a run with this fault."""
    found: list[Held] = []

    def look(world: World) -> None:
        found.extend(one for burden in burdens(world) for one in burden.connections)

    outcome = run(plan_with(Fault(1.0, kind, 0.1, 0.9, 3.0), duration_s=4.5), observe=look)
    assert outcome.code == OK, describe(outcome)
    return found


def test_what_is_held_for_a_connection_is_seen_by_whoever_looks() -> None:
    deaf = seen_held("deaf_clients")
    assert max(one.written_bytes for one in deaf) > 100_000
    assert max(one.requests for one in deaf) > 0  # a follower's fetch that waits

    halves = [one.received_bytes for one in seen_held("half_frames")]
    assert max(halves) > 90_000  # of a large frame
    assert any(0 < size < 100 for size in halves)  # of a small one


def test_answers_of_those_who_do_not_read_are_bounded_in_a_world_and_found_where_they_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    closed: list[int] = []

    def look(world: World) -> None:
        closed.extend(
            broker.runtime.metrics.connections_unread_closed
            for broker in world.brokers.values()
            if broker.runtime is not None
        )

    # Later than `DEAF`: there has to be enough to read.
    plan = plan_with(Fault(2.0, "deaf_clients", 0.1, 0.9, 3.0), seed=51, duration_s=6.0)
    outcome = run(plan, observe=look)
    assert outcome.code == OK, describe(outcome)
    assert max(closed) > 0

    monkeypatch.setattr("odradek.server.gateway.Gateway._close_who_does_not_read", lambda gateway: None)
    # Those who do not read have requests that wait for it.
    monkeypatch.setattr("odradek.server.gateway.Gateway._close_who_does_not_go_on", lambda gateway: None)
    outcome = run(plan)
    assert outcome.code == CORRECTNESS
    assert "of answers that" in outcome.reason


def test_requests_that_do_not_come_whole_are_bounded_in_a_world_and_found_where_they_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = plan_with(Fault(1.0, "half_frames", 0.1, 0.9, 3.0), duration_s=4.5)
    outcome = run(plan)
    assert outcome.code == OK, describe(outcome)

    monkeypatch.setattr("odradek.server.gateway.Gateway._close_who_does_not_go_on", lambda gateway: None)
    outcome = run(plan)
    assert outcome.code == CORRECTNESS
    assert "of requests of 2 connections" in outcome.reason


def steps_of(idle_partitions: int) -> int:
    """Of all turns of all brokers, while hundred records are produced to one partition and the others rest."""
    world = World(1)
    world.start()
    host = Host("c1", 101)
    client = SimClient(world.loop, host, world.addresses)
    hot = TopicPartition("hot", 0)

    async def create() -> None:
        await client.refresh([])
        assert await client.create_topic("idle", idle_partitions, 3) == 0
        assert await client.create_topic("hot", 1, 3) == 0

    async def produce(count: int) -> None:
        producer = SimProducer(client, "p0", History())
        await producer.open()
        await client.refresh([hot.topic])
        for number in range(count):
            assert (await producer.send(hot, [b"%d" % number])).outcome == "ok"

    world.call(host, create())
    world.run_for(10.0)
    world.call(host, produce(5))
    world.loop.meter = meter = Meter({broker.name for broker in world.brokers.values()})
    world.call(host, produce(100))
    let_go(world)
    return sum(meter.steps.values())


def test_the_cost_of_a_record_does_not_grow_with_partitions_that_rest() -> None:
    few, many = steps_of(3), steps_of(60)
    assert many < 1.25 * few, (few, many)
