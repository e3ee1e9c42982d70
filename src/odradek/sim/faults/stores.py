"""Faults of the store and of the way there: sessions that end, watches late and lost, restarts (F12), calls and answers
that get lost (F13)."""

from odradek.sim.faults.targets import later, pick, table_of
from odradek.sim.plan import Fault
from odradek.sim.world import World


def expire_session(world: World, fault: Fault) -> bool:
    """The store gives a session up although its client is well."""
    broker = pick(world, fault)
    if broker is None or broker.link is None:
        return False
    broker.link.expire()
    return True


def late_watches(world: World, fault: Fault) -> bool:
    broker = pick(world, fault)
    if broker is None or broker.link is None:
        return False
    link = broker.link
    link.hold_watches()
    later(world, fault.lasts_s, link.release_watches)
    return True


def lost_watches(world: World, fault: Fault) -> bool:
    """A connection to the store is lost, with every watch that fires meanwhile, and is back within its session."""
    broker = pick(world, fault)
    if broker is None or broker.name in world.cut_from_store:
        return False
    world.cut_store(broker, forgets_watches=True)
    later(world, fault.lasts_s, lambda: world.heal_store(broker))
    return True


def store_restart(world: World, fault: Fault) -> bool:
    if world.store.is_down:
        return False
    world.store.go_down(forgets_watches=not world.store_notices_death)
    later(world, fault.lasts_s, world.store.come_up)
    return True


def lost_answers(world: World, fault: Fault) -> bool:
    """Writes take effect, and their answers are lost."""
    world.store.lost_answer_probability = 0.1 + 0.5 * fault.amount

    def undo() -> None:
        world.store.lost_answer_probability = 0.0

    later(world, fault.lasts_s, undo)
    return True


def lost_calls(world: World, fault: Fault) -> bool:
    """Calls to the store are lost before they take effect."""
    world.store.lost_call_probability = 0.05 + 0.3 * fault.amount

    def undo() -> None:
        world.store.lost_call_probability = 0.0

    later(world, fault.lasts_s, undo)
    return True


TABLE = table_of(expire_session, late_watches, lost_watches, store_restart, lost_answers, lost_calls)
