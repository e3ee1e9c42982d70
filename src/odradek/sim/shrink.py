"""The same failure with as little as possible: faults left out in ever smaller pieces, then the workload made small.

Delta debugging over the list of faults (Zeller's ddmin). A smaller plan counts when it breaks the same thing first:
the same exit code, and the same invariant by name. Leaving a fault out shifts everything after it, so the way down is
not unique; what comes out is minimal in the sense that no single fault can be left out any more.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

from odradek.sim.plan import Plan
from odradek.sim.run import OK, Outcome
from odradek.sim.run import run as run_plan

MOST_RUNS = 400
Run = Callable[[Plan], Outcome]
Signature = tuple[int, str]


def signature(outcome: Outcome) -> Signature:
    return outcome.code, outcome.anomalies[0].name if outcome.anomalies else outcome.error


def shrunk(plan: Plan, outcome: Outcome, run: Run = run_plan) -> tuple[Plan, Outcome, list[int]]:
    """The smaller plan, what came of it, and which of the faults of `plan` are left."""
    assert outcome.code != OK, "a run that is right has nothing to shrink"
    wanted = signature(outcome)
    kept = list(range(len(plan.faults)))
    budget = MOST_RUNS

    def still(attempt: Plan) -> Outcome | None:
        nonlocal budget
        budget -= 1
        came = run(attempt)
        return came if signature(came) == wanted else None

    pieces = 2
    while kept and budget > 0:
        for piece in _pieces(kept, pieces):
            left = [number for number in kept if number not in piece]
            came = still(_only(plan, left))
            if came is not None:
                kept, outcome = left, came
                pieces = max(pieces - 1, 2)
                break
            if budget <= 0:
                break
        else:
            if pieces >= len(kept):
                break
            pieces = min(pieces * 2, len(kept))
    smaller = _only(plan, kept)
    for simpler in _simpler(smaller):
        if budget > 0 and (came := still(simpler)) is not None:
            smaller, outcome = simpler, came
    return smaller, outcome, kept


def _only(plan: Plan, numbers: list[int]) -> Plan:
    return plan.without(set(range(len(plan.faults))) - set(numbers))


def _pieces(items: list[int], count: int) -> Iterator[frozenset[int]]:
    size = -(-len(items) // count)
    for start in range(0, len(items), size):
        yield frozenset(items[start : start + size])


def _simpler(plan: Plan) -> Iterator[Plan]:
    """Each on top of `plan`, the last one with everything."""
    end = max((f.at_s + f.lasts_s for f in plan.faults), default=1.0) + 1.0
    shorter = min(plan.duration_s, math.ceil(end))  # a number somebody can type
    yield replace(plan, duration_s=shorter)
    yield replace(plan, duration_s=shorter, partitions=1)
    yield replace(plan, duration_s=shorter, partitions=1, producers=1)
