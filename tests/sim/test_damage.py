"""Whole logs that are damaged, and logs of two topics of one name, in simulated worlds: survived, repaired, and seen in broken code."""

import random

from odradek.sim.plan import Fault, Plan
from odradek.sim.run import CORRECTNESS, LIVENESS, OK, describe, run
from tests.mutants.edit import Edit
from tests.mutants.patching import applied
from tests.sim.test_further_faults import notes, plan_with
from tests.support import each

# When the log is damaged -> the amount.
OVERWRITTEN = {"killed": 0.4001, "stopped in order": 0.4005, "in use": 0.4009}
CUT_SHORT = {"killed": 0.4001, "stopped in order": 0.4009}


def damaged(kind: str, amount: float, *targets: float) -> Plan:
    faults = [Fault(1.0 + 2.0 * n, kind, target, amount, 1.0) for n, target in enumerate(targets)]
    return plan_with(*faults, seed=3, duration_s=5.0)


def drawn(number: int, kind: str) -> Plan:
    rng = random.Random(number)
    faults = [Fault(at_s, kind, rng.random(), rng.random(), 2.0) for at_s in (2.0, 6.0)]
    return plan_with(*faults, seed=3, duration_s=9.0)


@each(OVERWRITTEN)
def test_a_log_that_is_overwritten_is_fetched_anew(when: str) -> None:
    outcome = run(damaged("log_overwritten", OVERWRITTEN[when], 0.2003, 0.6007))

    assert outcome.code == OK, describe(outcome)
    assert len(notes(outcome, f"that was {when} is damaged")) == len(notes(outcome, "are overwritten")) == 2


@each(CUT_SHORT)
def test_a_log_that_is_cut_short_is_fetched_anew(when: str) -> None:
    outcome = run(damaged("log_cut_short", CUT_SHORT[when], 0.2003, 0.6007))

    assert outcome.code == OK, describe(outcome)
    assert len(notes(outcome, f"that was {when} is damaged")) == 2
    assert len([*notes(outcome, " is gone"), *notes(outcome, " bytes of ")]) >= 2


def test_a_log_that_is_shorter_than_it_was_flushed_and_is_used_is_found() -> None:
    plan = drawn(4, "log_cut_short")
    with applied([Edit("log.recovery:_Opening._refuse_if_flushed", "raise CorruptLog(...)", "pass")]):
        outcome = run(plan)

    assert (outcome.code, run(plan).code) == (CORRECTNESS, OK), describe(outcome)


def test_a_log_that_nobody_reads_again_is_found() -> None:
    with applied([Edit("log.log_manager:LogManager.maintain", "self.scrubber.scrub(scrub_bytes)", "pass")]):
        outcome = run(damaged("log_overwritten", OVERWRITTEN["in use"], 0.2003))

    assert outcome.code == LIVENESS, describe(outcome)


# ------------------------------------------------------------------------------------- two of a name


def namesakes(target: float = 0.6, amount: float = 0.3) -> Plan:
    return plan_with(Fault(1.0, "two_of_a_name", target, amount, 1.0), seed=3, duration_s=5.0)


@each({"follows": 0.8, "leads": 0.3})
def test_of_two_topics_of_one_name_the_one_that_there_is_is_served(role: str) -> None:
    outcome = run(namesakes(amount={"follows": 0.8, "leads": 0.3}[role]))

    assert outcome.code == OK, describe(outcome)
    assert len(notes(outcome, "the first one of its name is back in ")) == 1


SET_ASIDE = "[self.retire(topic_partition, stray, STRAY_SUFFIX, now_ms) for stray in strays]"
MISTAKEN = {
    "the first is taken": (
        Edit(
            "log.duplicate_logs:pick",
            "by_id.get(topic_id) or by_id.get(NO_TOPIC_ID)",
            "next(one for one in duplicates if one.topic_id != topic_id)",
        ),
        "",
    ),
    "it stays where it is": (
        Edit("log.log_manager:LogManager.resolve_topic_id", SET_ASIDE, "[]"),
        "NamesakeIsMeant: ",
    ),
    "it is deleted": (
        Edit(
            "log.log_manager:LogManager.resolve_topic_id",
            SET_ASIDE,
            SET_ASIDE.replace("STRAY_SUFFIX", "DELETE_SUFFIX"),
        ),
        "NamesakeIsMeant: ",
    ),
}


@each(MISTAKEN)
def test_what_is_mistaken_for_its_namesake_is_found(how: str) -> None:
    edit, reason = MISTAKEN[how]
    with applied([edit]):
        outcome = run(namesakes())

    assert outcome.code in (LIVENESS, CORRECTNESS) and outcome.reason.startswith(reason), describe(outcome)
