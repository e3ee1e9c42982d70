"""Every invariant that has a name is asked after every step of a controller, and what is broken is told at once."""

from typing import Any

import pytest

from odradek.sim.checkers import replicas
from odradek.sim.checkers.history import Anomaly
from odradek.sim.checkers.replicas import ClusterView
from odradek.sim.run import let_go
from odradek.sim.watch import Watch
from odradek.sim.world import World

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
) -> tuple[Watch, list[str], int]:
    """A cluster of two that starts, and its controller is deposed: what the watch found, which checkers it asked, how many steps there were."""
    asked: list[str] = []
    steps: list[Any] = []

    def noted(name: str) -> Any:
        def check(view: ClusterView) -> list[Anomaly]:
            asked.append(name)
            return answers.get(name, [])

        return check

    monkeypatch.setattr(replicas, "STEP_CHECKS", tuple(noted(c.__name__) for c in replicas.STEP_CHECKS))
    world = World(0, brokers=2)
    watch = Watch(world)
    world.on_controller_step.append(lambda broker, event, effects: steps.append(event))
    try:
        world.start()
        world.depose()
        world.run_for(5.0)
    finally:
        let_go(world)
    return watch, asked, len(steps)


def test_every_named_invariant_is_asked_after_every_step_of_a_controller(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert {check.__name__ for check in replicas.STEP_CHECKS} == set(NAMED)
    watch, asked, steps = watched(monkeypatch, {})
    assert steps > 2
    assert {name: asked.count(name) for name in NAMED} == dict.fromkeys(NAMED, steps)
    assert watch.found == []


@pytest.mark.parametrize("name", NAMED)
def test_what_is_broken_at_a_step_is_told_at_that_step(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = Anomaly(name, None, "as an example")
    watch, asked, _ = watched(monkeypatch, {name: [broken]})
    assert watch.found == [broken]
    assert asked.count(name) == 1, "the first is what a run ends with"
