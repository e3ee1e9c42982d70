"""A compacted log that is dirty enough is cleaned, also in a cluster at rest."""

from dataclasses import replace

from odradek.sim.plan import Plan, draw
from odradek.sim.run import LIVENESS, OK, describe, run
from tests.mutants.edit import Edit
from tests.mutants.patching import applied
from tests.support import each

MUTATIONS: dict[str, Edit] = {
    "no log is looked at": Edit(
        "log.compaction.cleaner:Cleaner.candidates", "self._has_dirty_segment(log)", "False"
    ),
    "what is due is not": Edit("log.compaction.planning:dirty_part", "dirty_bytes > 0", "False"),
    "the first round is the last": Edit(
        "server.log_maintenance:LogMaintenance._clean", "self._is_cleaning = False", "pass"
    ),
}


def short() -> Plan:
    """Without faults; a topic with states of a few keys, in small segments."""
    plan = next(plan for plan in map(draw, range(100)) if plan.has_states)
    states = {"cleanup.policy": "compact", "segment.bytes": "400", "min.cleanable.dirty.ratio": "0.01"}
    return replace(plan, faults=(), duration_s=3.0, states=states)


def test_a_world_with_a_cleaner_that_works_comes_to_rest() -> None:
    outcome = run(short())
    assert outcome.code == OK, describe(outcome)


@each(MUTATIONS)
def test_a_cleaner_that_does_not_clean_is_named(why: str) -> None:
    with applied([MUTATIONS[why]]):
        outcome = run(short())
    assert (outcome.code, {anomaly.name for anomaly in outcome.anomalies}) == (LIVENESS, {"DirtyIsCleaned"})
