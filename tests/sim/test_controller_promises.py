"""What a controller promises from one step to the next: named where a mutation breaks it, and kept without."""

from odradek.sim.checkers.acknowledgements import refused
from odradek.sim.plan import Fault
from odradek.sim.run import OK, describe, run
from tests.mutants.edit import Edit
from tests.mutants.patching import applied
from tests.sim.test_acknowledgements import ANSWER, T
from tests.sim.test_further_faults import plan_with

STAYS = Edit(
    "controller.controlled_shutdown:ControlledShutdown.plan",
    "plan_departures(plan, self.broker, may_leave)",
    "pass",
)


def test_a_broker_that_may_stop_and_is_in_the_isr_of_another_leader_is_named() -> None:
    plan = plan_with(Fault(1.5, "stop_in_order", 0.3, 0.5, 1.0))
    outcome = run(plan)
    assert outcome.code == OK, describe(outcome)
    with applied([STAYS]):
        assert {anomaly.name for anomaly in run(plan).anomalies} == {"LeaverIsOut"}


def test_a_batch_that_is_known_and_refused_as_out_of_order_is_named() -> None:
    for sequence in (10, 12, 14):
        found = list(refused(ANSWER.broker, T, sequence, [10, 11, 12, 13, 14]))
        assert [anomaly.name for anomaly in found] == ["KnownBatch"]
    assert list(refused(ANSWER.broker, T, 9, [10, 11, 12, 13, 14])) == []
