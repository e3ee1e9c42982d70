"""What ends has ended, and healing heals."""

from collections.abc import Callable, Iterator

import pytest

from odradek.sim.faults import targets
from odradek.sim.faults.controllers import kill_controller_between_steps, pause_controller_between_steps
from odradek.sim.faults.wire import clock_strobe, swizzle
from odradek.sim.network import Link
from odradek.sim.plan import Fault
from odradek.sim.run import let_go
from odradek.sim.world import World


def shaped(world: World) -> list[tuple[str, str]]:
    usual = Link()
    return [
        names
        for names, link in world.network._links.items()
        if (link.latency_s, link.bytes_per_second, link.reset_probability)
        != (usual.latency_s, usual.bytes_per_second, usual.reset_probability)
    ]


@pytest.fixture
def world() -> Iterator[World]:
    world = World(3)
    world.start()
    yield world
    let_go(world)


def test_of_two_faults_that_overlap_on_a_link_nothing_is_left(world: World) -> None:
    one, two = world.brokers[1], world.brokers[2]  # type: ignore[index]
    targets.shape(world, one, 2.0, latency_s=0.2, rate=1000.0, resets=0.3)
    world.run_for(1.0)
    targets.shape(world, two, 2.0, latency_s=0.1, rate=0.0, resets=0.0)
    assert shaped(world)
    world.run_for(3.0)

    assert shaped(world) == []


def test_nothing_is_cut_again_once_everything_is_healed(world: World) -> None:
    swizzle(world, Fault(0.0, "swizzle", 0.5, 0.9, 8.0))
    world.run_for(0.1)
    world.heal_all()
    healed_at = world.loop.time()
    world.run_for(10.0)

    assert [text for at, text in world.notes if at > healed_at and text.startswith("cut ")] == []
    assert not any(link.is_cut for link in world.network._links.values())


def test_a_clock_stands_still_once_everything_is_healed(world: World) -> None:
    clock_strobe(world, Fault(0.0, "clock_strobe", 0.5, 0.9, 8.0))
    world.run_for(1.0)
    assert any(world.clock_offsets.values())
    world.heal_all()
    world.run_for(0.2)

    assert not any(world.clock_offsets.values())


@pytest.mark.parametrize("fault", [kill_controller_between_steps, pause_controller_between_steps])
@pytest.mark.parametrize("is_healed", [False, True])
def test_a_controller_is_struck_at_a_step_and_not_after_the_healing(
    fault: Callable[[World, Fault], bool], is_healed: bool, world: World
) -> None:
    controller = targets.controller(world)
    assert controller is not None and controller.host is not None
    fault(world, Fault(0.0, "", 0.5, 0.0, 1.0))
    if is_healed:
        world.heal_all()
    other = next(b for b in world.brokers.values() if b is not controller)
    other.kill()
    world.run_for(1.0)

    struck = [text for _, text in world.notes if " requests undone" in text]
    assert len(struck) == (0 if is_healed else 1)


def test_watches_are_not_held_back_any_more_after_the_healing(world: World) -> None:
    link = world.brokers[1].link  # type: ignore[index]
    assert link is not None
    world.brokers[1].pause(20.0)  # type: ignore[index]
    world.run_for(0.5)
    world.heal_all()
    world.run_for(0.1)

    assert not any(session._is_holding for session in link._live())
