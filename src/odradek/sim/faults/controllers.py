"""A controller that dies, or stops, between any two steps of its settle loop (F2, F5): what it has decided is not
written, or what it has written is told to nobody. One that only stopped goes on where it was, in a world that has
another controller by then."""

from collections.abc import Callable
from typing import Any

from odradek.sim.faults.targets import controller, later, start_again, table_of
from odradek.sim.plan import Fault
from odradek.sim.world import SimBroker, World

# How long one waits for its controller to take a step: on a quiet cluster that may be never.
ARMED_S = 20.0
MOST_STEPS = 8


def _any(effects: Any) -> bool:
    return True


def at_a_step(
    world: World,
    fault: Fault,
    act: Callable[[SimBroker, str], None],
    *,
    is_wanted: Callable[[Any], bool] = _any,
) -> bool:
    """`act` at one of the controller's next steps, of those whose effects are wanted."""
    broker = controller(world)
    if broker is None:
        return False
    host, steps_left = broker.host, 1 + int(fault.amount * MOST_STEPS)

    def stepped(who: SimBroker, event: Any, effects: Any) -> None:
        nonlocal steps_left
        if who is not broker or who.host is not host or not who.is_running or not is_wanted(effects):
            return
        steps_left -= 1
        if steps_left == 0 and not world.exempt and not world.is_healed:
            undone = f"{len(effects.writes)} writes and {len(effects.requests)} requests undone"
            act(who, f"at {type(event).__name__}, {undone}")

    world.on_controller_step.append(stepped)
    later(world, ARMED_S, lambda: world.on_controller_step.remove(stepped))
    return True


def kill_controller_between_steps(world: World, fault: Fault) -> bool:
    def die(broker: SimBroker, where: str) -> None:
        world.note(f"{broker.name} dies {where}")
        broker.kill()
        start_again(world, broker, fault.lasts_s)

    return at_a_step(world, fault, die)


def pause_controller_between_steps(world: World, fault: Fault) -> bool:
    def stop(broker: SimBroker, where: str) -> None:
        world.note(f"{broker.name} stops {where}")
        broker.pause(fault.lasts_s)

    return at_a_step(world, fault, stop)


TABLE = table_of(kill_controller_between_steps, pause_controller_between_steps)
