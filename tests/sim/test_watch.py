"""Every invariant that has a name is asked after every step of a controller that matters, and what is broken is told at once."""

from typing import Any

import pytest

from odradek.model.ids import BrokerId, TopicPartition
from odradek.sim import run as sim_run
from odradek.sim.checkers import replicas
from odradek.sim.checkers.history import Anomaly, History
from odradek.sim.checkers.replicas import ClusterView
from odradek.sim.clients.client import SimClient
from odradek.sim.clients.producer import SimProducer
from odradek.sim.loop import Host
from odradek.sim.observed.watch import OBEYED, Watch
from odradek.sim.plan import draw
from odradek.sim.run import let_go
from odradek.sim.world import NotInTime, SimBroker, World
from tests.sim.test_beliefs import healthy_world

HOST = Host("c1", 101)
# Those of hachikuji/kafka-specification (`TypeOk`, `LeaderInIsr`, `WeakIsr`, `StrongIsr`, `ValidHighWatermark`), and I10.
NAMED = (
    "type_ok",
    "leader_in_isr",
    "weak_isr",
    "strong_isr",
    "valid_high_watermark",
    "one_leader_and_one_controller",
    "stale_writes_fenced",
)


def watched(
    monkeypatch: pytest.MonkeyPatch, answers: dict[str, list[Anomaly]]
) -> tuple[Watch, list[str], list[bool]]:
    """A cluster of two that starts, and its controller is deposed: what the watch found, which checkers it asked, and of each step of a
    controller whether it had an effect, told that a broker has obeyed, or the store had been written since the step before."""
    asked: list[str] = []
    steps: list[bool] = []
    written: list[int] = [-1]

    def noted(name: str) -> Any:
        def check(view: ClusterView) -> list[Anomaly]:
            asked.append(name)
            return answers.get(name, [])

        return check

    monkeypatch.setattr(replicas, "STEP_CHECKS", tuple(noted(c.__name__) for c in replicas.STEP_CHECKS))
    world = World(0, brokers=2)
    watch = Watch(world)

    def stepped(broker: SimBroker, event: Any, effects: Any) -> None:
        written.append(world.store.ensemble.tree.zxid)
        has_effects = bool(effects.writes or effects.requests or effects.follow_up) or isinstance(
            event, OBEYED
        )
        steps.append(has_effects or written[-1] != written[-2])

    world.on_controller_step.append(stepped)
    try:
        world.start()
        world.depose()
        world.run_for(5.0)
    finally:
        let_go(world)
    return watch, asked, steps


def test_every_named_invariant_is_asked_after_every_step_of_a_controller_that_changes_something(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert {check.__name__ for check in replicas.STEP_CHECKS} == set(NAMED)
    watch, asked, steps = watched(monkeypatch, {})
    assert steps.count(True) > 2
    assert steps.count(False) > 0
    assert {name: asked.count(name) for name in NAMED} == dict.fromkeys(NAMED, steps.count(True))
    assert watch.found == []


def test_a_partition_is_judged_again_when_something_about_it_is_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A look at a world in which nothing happens judges nobody, and one record judges the partition it is in."""
    asked: list[set[TopicPartition]] = []

    def note(view: ClusterView) -> list[Anomaly]:
        asked.append(set(view.partitions))
        return []

    monkeypatch.setattr(replicas, "STEP_CHECKS", (note,))
    world = World(0, brokers=2)
    orders = [TopicPartition("orders", number) for number in range(3)]
    client = SimClient(world.loop, HOST, world.addresses)

    async def create() -> None:
        await client.refresh([])
        assert await client.create_topic("orders", len(orders), 2) == 0

    async def produce(partition: TopicPartition) -> None:
        producer = SimProducer(client, "p0", History())
        await producer.open()
        assert (await producer.send(partition, [b"1"])).outcome == "ok"

    try:
        world.start()
        world.call(HOST, create())
        world.run_for(5.0)
        watch = Watch(world)
        world.on_controller_step.clear()  # only the looks below
        watch.check()
        watch.check()
        world.call(HOST, produce(orders[1]))
        world.run_for(1.0)
        watch.check()
        watch.forget(orders[1])
        watch.check()
    finally:
        let_go(world)
    assert asked == [set(orders), set(), {orders[1]}, set(orders)]


def test_what_is_broken_is_told_to_whoever_asks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(view: ClusterView) -> list[Anomaly]:
        return [Anomaly("Example", partition, "") for partition in view.partitions]

    world = World(0, brokers=2)
    client = SimClient(world.loop, HOST, world.addresses)

    async def create() -> None:
        await client.refresh([])
        assert await client.create_topic("orders", 1, 2) == 0

    try:
        world.start()
        world.call(HOST, create())
        monkeypatch.setattr(replicas, "STEP_CHECKS", (broken,))
        watch = Watch(world)
        assert watch.check() == watch.check() != []
    finally:
        let_go(world)


def test_whoever_goes_on_after_a_find_hears_nothing_of_the_steps_between_that_did_not_happen() -> None:
    """A scenario takes what was found, and goes on: a leader of whom everybody was told meanwhile was told to everybody."""
    world = World(0, brokers=3)
    client = SimClient(world.loop, HOST, world.addresses)
    orders = TopicPartition("orders", 0)
    follower, leader = BrokerId(2), BrokerId(3)

    async def create(topic: str) -> None:
        await client.refresh([])
        assert await client.create_topic(topic, -1, -1, assignments=[[leader, follower]]) == 0

    try:
        world.start()
        world.call(HOST, create("orders"))
        world.run_for(5.0)
        watch = Watch(world)
        assert watch.check() == []
        world.call(HOST, create("before"))
        watch.found = [Anomaly("Example", orders, "")]
        world.brokers[leader].kill()
        world.run_for(15.0)
        state = world.view().partitions[orders].stored
        assert state is not None and state.leader == follower
        watch.found = []
        world.brokers[leader].start()
        world.run_for(5.0)
        world.call(HOST, create("after"))
        assert (watch.found, watch.check()) == ([], [])
    finally:
        let_go(world)


@pytest.mark.parametrize("name", NAMED)
def test_what_is_broken_at_a_step_is_told_at_that_step(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = Anomaly(name, None, "as an example")
    watch, asked, _ = watched(monkeypatch, {name: [broken]})
    assert watch.found == [broken]
    assert asked.count(name) == 1, "the first is what a run ends with"


@pytest.mark.parametrize(
    "late", [NotInTime("x"), sim_run.Broken(sim_run.LIVENESS, "x")], ids=lambda one: type(one).__name__
)
def test_what_was_found_to_be_wrong_is_told_before_what_took_too_long(
    late: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = Anomaly("CheckpointHolds", None, "by whoever watches the ends of processes")

    def begins(of: Any) -> None:
        of.world.let_in.append(wrong)
        raise late

    monkeypatch.setattr(sim_run._Run, "_start", begins)
    seen = sim_run.run(draw(0))
    assert (seen.code, seen.anomalies) == (sim_run.CORRECTNESS, [wrong])


def test_last_stable_offsets_are_judged_at_a_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odradek.sim.observed.views._stable_offset", lambda replica: 99)
    with healthy_world() as (world, _):
        assert {anomaly.name for anomaly in Watch(world).check()} == {"LastStable"}
