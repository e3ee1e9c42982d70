"""The page of a run shows what happened when it happened."""

from odradek.sim.plan import Fault
from odradek.sim.run import OK, Outcome
from odradek.sim.timeline import page
from tests.sim.plans import three_brokers

PAUSE, TORN = Fault(1.0, "pause", 0.1, 0.1, 2.0), Fault(0.25, "torn_tail", 0.1, 0.1, 1.0)


def shown(*struck: tuple[float, Fault]) -> str:
    outcome = Outcome(seed=1, code=OK, simulated_s=20.0)
    outcome.injected = [fault for _, fault in struck]
    outcome.notes = [(at_s, f"fault {fault}") for at_s, fault in struck]
    return page(three_brokers(), outcome, [])


def test_a_fault_that_waited_until_everybody_was_well_is_shown_when_it_struck() -> None:
    """It was shown where the plan has it; and where it was the first to strike, all others later than they did."""
    for struck in (((3.0, PAUSE), (5.5, TORN)), ((2.5, TORN), (3.0, PAUSE))):
        told = shown(*struck)
        for at_s, fault in struck:
            assert f"{fault.kind} {at_s:.3f} to {at_s + fault.lasts_s:.3f} s" in told
