"""What a machine or a broker wants for a while, and has again later."""

from odradek.sim.faults.targets import later, leader, table_of
from odradek.sim.plan import Fault
from odradek.sim.world import SimBroker, World

MOST_THREADS = (0, 1, 1, 2)


def threads_run_out(world: World, fault: Fault) -> bool:
    """A broker begins anew where the machine has no thread for it, or one or two (`pids.max`, `ulimit -u`), and has as many as it wants
    when the fault ends. Python keeps the threads that it has, so one that runs for long wants none."""
    broker = leader(world, fault)
    if broker is None:
        return False
    most = MOST_THREADS[int(fault.amount * len(MOST_THREADS))]
    broker.kill(at_once=True)
    broker.most_threads = most
    world.note(f"no more than {most} threads for {broker.name}")
    broker.start()
    later(world, fault.lasts_s, lambda: _has_threads(world, broker))
    return True


def _has_threads(world: World, broker: SimBroker) -> None:
    world.note(f"threads for {broker.name}")
    broker.most_threads = None


TABLE = table_of(threads_run_out)
