"""What the advisor says of any cluster, in the middle of anything, against what its controller then does."""

import copy

import pytest

from odradek.advisor.roll_plan import check, roll_plan
from odradek.advisor.shutdown_impact import shutdown_impact
from odradek.advisor.what_if_steps import CatchUp, Reassign, ask
from odradek.controller.context import ControllerContext
from odradek.controller.events import Tick
from odradek.model.ids import NO_LEADER, BrokerId, TopicPartition
from tests.controller.test_random_walk import Walk
from tests.controller.world import World

SEEDS = 80
STEPS = 25


def somewhere(seed: int) -> Walk:
    """Nobody has come in between in the middle of a write; all else may be under way."""
    walk = Walk(seed)
    for _ in range(STEPS):
        walk.step()
    walk.world.dies_after_write, walk.world.before_write, walk.world.lose_answers = 0, None, False
    decide(walk.world)
    return walk


def decide(world: World) -> None:
    """An unclean election asks the survivors what they hold; here nobody answers, as in a question."""
    while world.context.polls:
        world.now_ms = max(poll.deadline_ms for poll in world.context.polls.values())
        world.step(Tick())


def standing(context: ControllerContext) -> dict[TopicPartition, tuple[BrokerId, frozenset[BrokerId], int]]:
    """Who can be reached as leader, the ISR, and how many are wanted in it; of what is not being deleted."""
    found = {}
    for where, stored in context.leaderships.items():
        if not context.is_queued_for_deletion(where.topic):
            state = stored.leader_and_isr
            leader = state.leader if state.leader in context.brokers else NO_LEADER
            found[where] = leader, frozenset(state.isr), context.effective_min_isr(where)
    return found


@pytest.mark.parametrize("seed", range(SEEDS))
def test_the_impact_of_a_shutdown_is_what_then_happens_and_its_remedy_makes_it_safe(seed: int) -> None:
    walk = somewhere(seed)
    context = walk.world.context
    leaving = [BrokerId(b) for b in sorted(walk.random.sample(walk.live, min(2, len(walk.live))))]
    impact = shutdown_impact(context, leaving)

    before, world = standing(context), copy.deepcopy(walk.world)
    for broker in leaving:
        world.shut_down(broker)
        world.kill(broker)
        decide(world)
    after = standing(world.context)
    for outcome in (*impact.goes_offline, *impact.falls_under_min_isr, *impact.moves_its_leader):
        where = outcome.topic_partition
        if where in after:
            assert (outcome.leader_after, set(outcome.isr_after)) == (after[where][0], after[where][1]), where
    offline = {o.topic_partition for o in impact.goes_offline}
    assert offline & after.keys() == {
        where for where in after if after[where][0] == NO_LEADER != before[where][0]
    }

    # A leader that is shutting down already takes nobody into its ISR (KIP-841).
    led = {where for where in before if context.is_online(before[where][0], where)}
    remedy = {where: target for where, target in impact.remedy.items() if where in led}
    (moved,), then = ask(context, [Reassign(remedy)])
    assert moved.unfinished == (), "what comes first is not done before the shutdown"
    at_its_end = remedy.keys() - impact.safe_once_in_sync.keys()
    _, caught_up = ask(then, [CatchUp()])
    for safe, partitions in ((then, at_its_end), (caught_up, impact.safe_once_in_sync.keys())):
        again = shutdown_impact(safe, leaving)
        bad = {*again.goes_offline, *again.may_lose_records, *again.falls_under_min_isr}
        assert not led & partitions & {outcome.topic_partition for outcome in bad}


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_roll_plan_made_in_the_middle_of_anything_holds_now_and_when_its_wait_is_over(seed: int) -> None:
    walk = somewhere(seed)
    context = walk.world.context
    restarted = walk.random.sample(walk.live, walk.random.randint(1, len(walk.live)))
    for survives in (0, 1):
        plan = roll_plan(context, [BrokerId(broker) for broker in restarted], survives=survives)
        assert check(context, plan) == [], survives
