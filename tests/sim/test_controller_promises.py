"""What a controller promises from one step to the next: named where a mutation breaks it, and kept without."""

from types import SimpleNamespace
from typing import Any

from odradek.controller.context import ControllerContext, UncleanPoll
from odradek.model.ids import BrokerId, ControllerEpoch, LeaderEpoch, Offset, TopicPartition
from odradek.sim.checkers.acknowledgements import refused
from odradek.sim.observed.controller_promises import ControllerPromises
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
    plan = plan_with(Fault(1.5, "stop_in_order", 0.3, 0.5, 1.0), duration_s=5.0)
    outcome = run(plan)
    assert outcome.code == OK, describe(outcome)
    with applied([STAYS]):
        assert {anomaly.name for anomaly in run(plan).anomalies} == {"LeaverIsOut"}


def test_a_batch_that_is_known_and_refused_as_out_of_order_is_named() -> None:
    for sequence in (10, 12, 14):
        found = list(refused(ANSWER.broker, T, sequence, [10, 11, 12, 13, 14]))
        assert [anomaly.name for anomaly in found] == ["KnownBatch"]
    assert list(refused(ANSWER.broker, T, 9, [10, 11, 12, 13, 14])) == []


def unclean(
    leader: int,
    ends: dict[int, tuple[int, int]],
    *,
    live: tuple[int, ...] = (1, 2, 3),
    at_ms: int = 10,
    stopping: int | None = None,
    broken: int | None = None,
    may_lose: bool = True,
) -> list[str]:
    """1, 2 and 3 are asked until 100, and `ends` is what they hold that answer; then one of them leads. `stopping` stops in order, and
    of `broken` the log directory is offline."""
    T0 = TopicPartition("t", 0)
    poll = UncleanPoll(
        tuple(map(BrokerId, (1, 2, 3))),
        {BrokerId(b): (LeaderEpoch(epoch), Offset(end)) for b, (epoch, end) in ends.items()},
        100,
        may_lose=may_lose,
    )
    led = SimpleNamespace(leader_and_isr=SimpleNamespace(leader=leader))
    context: Any = ControllerContext(BrokerId(1), ControllerEpoch(1), 1)
    context.polls, context.leaderships, context.brokers = {T0: poll}, {T0: led}, dict.fromkeys(live)
    if stopping is not None:
        context.shutting_down_brokers.add(stopping)
    if broken is not None:
        context.offline_directories[broken] = frozenset([T0])
    promises, nothing = ControllerPromises(), SimpleNamespace(answers=())
    assert promises.observe(context, None, nothing, at_ms) == []
    context.polls = {}
    return [anomaly.name for anomaly in promises.observe(context, None, nothing, 0)]


ALL = {1: (2, 5), 2: (3, 4), 3: (3, 6)}


def test_who_is_elected_uncleanly_and_does_not_hold_the_most_is_named() -> None:
    assert unclean(3, ALL) == []
    assert unclean(1, ALL) == unclean(2, ALL) == ["UncleanIsBest"]
    assert unclean(1, {2: (3, 4)}, live=(1, 2)) == ["UncleanIsBest", "UncleanIsBest"], "it has not answered"


def test_who_answers_and_may_not_lead_is_passed_over() -> None:
    assert unclean(2, ALL, stopping=3) == unclean(2, ALL, broken=3) == []
    assert unclean(3, ALL, stopping=2) == unclean(3, ALL, broken=2) == []
    assert unclean(1, ALL, stopping=3) == unclean(1, ALL, broken=3) == ["UncleanIsBest"], "2 holds more"
    assert unclean(3, ALL, stopping=3) == unclean(3, ALL, broken=3) == ["UncleanIsBest"], "it may not lead"
    assert unclean(2, {1: (2, 5), 2: (3, 4)}, stopping=3) == ["UncleanIsBest"], "it could still answer"


def test_where_one_names_no_epoch_the_log_ends_are_compared() -> None:
    emptied = {1: (-1, 4), 2: (3, 4), 3: (4, 2)}
    assert unclean(1, emptied) == unclean(2, emptied) == []
    assert unclean(3, emptied) == ["UncleanIsBest"]
    assert unclean(2, {**emptied, 1: (-1, 0)}) == ["UncleanIsBest"], "it has nothing, and never had"


def test_an_unclean_election_before_all_have_answered_or_their_time_is_up_is_named() -> None:
    two = {1: (2, 5), 2: (3, 4)}
    assert unclean(2, two) == ["UncleanIsBest"]
    assert unclean(2, two, at_ms=100) == unclean(2, two, live=(1, 2)) == []
    assert unclean(1, {}, at_ms=100) == [], "nobody has answered"
    assert unclean(2, {3: (3, 6)}, live=(2,)) == [], "there is no other, and 3 is not waited for"
    assert unclean(2, {3: (3, 6)}, live=(2,), may_lose=False) == ["UncleanIsBest"], "3 may be back"
    assert unclean(4, two) == [], "a member of the ISR is back"
