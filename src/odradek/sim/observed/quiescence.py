"""What a world still waits for, for `checkers.quiescence`."""

from collections.abc import Sequence

from odradek.sim.checkers.history import Anomaly
from odradek.sim.checkers.quiescence import Quiescence
from odradek.sim.checkers.quiescence import not_quiescent as not_quiescent_of
from odradek.sim.checkers.quiescence import pending as pending_of
from odradek.sim.observed.beliefs import differing_assignments, outlived, unknown_positions
from odradek.sim.world import World

IDLE_S = 1.0


def not_quiescent(world: World, seconds: float = IDLE_S) -> list[Anomaly]:
    """Lets time pass in which nothing is to happen, but for a compaction that is due by then."""
    before, compacted = world.loop.events, _compacted(world)
    world.run_for(seconds)
    if compacted is None or compacted != _compacted(world):
        return []
    return list(not_quiescent_of(world.loop.events - before, seconds, len(world.brokers)))


def _compacted(world: World) -> list[int | None] | None:
    """How far each log is compacted; None while a broker is at it."""
    found: list[int | None] = []
    for broker in world.brokers.values():
        runtime = broker.runtime
        if broker.is_serving and runtime is not None and runtime.parts is not None:
            if runtime.parts.disk._is_cleaning:
                return None
            found += [runtime.logs.cleaned_to(log) for log in runtime.logs.logs.values()]
    return found


def pending(world: World, unfinished: Sequence[str] = ()) -> list[Anomaly]:
    """Empty when it is done; else why it is not, the most telling first."""
    brokers = world.brokers.values()
    return list(
        pending_of(
            Quiescence(
                world.view(with_batches=False),
                [f"{b.name} ({b.exit_reason!r})" for b in brokers if not b.is_running],
                [
                    f"{path} of {b.name}"
                    for b in brokers
                    if b.is_serving and b.runtime is not None
                    for path in b.runtime.broker.replicas.logs.offline_directories
                ],
                world.is_ready(),
                list(world.exempt),
                [*unfinished, *world.store.sessions_about_to_end()],
                [b.name for b in brokers if b.is_stopping],
                [*unknown_positions(world), *differing_assignments(world)],
                list(outlived(world)),
            )
        )
    )
