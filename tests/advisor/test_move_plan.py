"""Plans of moves: the fewest, aware of racks, load and leaders."""

import random
from collections import Counter
from itertools import pairwise

import pytest

from odradek.advisor.move_plan import Move, MoveGoal, MovePlan, bytes_by_broker, move_plan
from odradek.advisor.what_if_steps import Reassign, ask
from odradek.controller.context import ControllerContext
from odradek.model.ids import BrokerId
from odradek.model.values import replace
from tests.controller.world import World, three, tp


def ids(*brokers: int) -> frozenset[BrokerId]:
    return frozenset(BrokerId(b) for b in brokers)


def cluster(
    *brokers: int, racks: dict[int, str] | None = None, **topics: list[list[int]]
) -> ControllerContext:
    world = World().brokers(*brokers)
    world.elect(min(brokers))
    for name, assignment in topics.items():
        world.create(name, *assignment)
    context = world.context
    for broker, rack in (racks or {}).items():
        context.brokers[BrokerId(broker)] = replace(context.brokers[BrokerId(broker)], rack=rack)
    return context


def targets(plan: MovePlan) -> dict[str, tuple[int, ...]]:
    return {str(where): tuple(after) for where, after in plan.targets.items()}


def counts(context: ControllerContext, plan: MovePlan) -> Counter[int]:
    after = {tp_: a.replicas for tp_, a in context.assignments.items()} | plan.targets
    return Counter(broker for replicas in after.values() for broker in replicas)


def leads(context: ControllerContext, plan: MovePlan) -> Counter[int]:
    after = {tp_: a.replicas for tp_, a in context.assignments.items()} | plan.targets
    return Counter(replicas[0] for replicas in after.values())


def test_draining_moves_what_the_broker_has_and_nothing_else() -> None:
    context = cluster(1, 2, 3, 4, t=[[1, 2], [2, 3], [3, 1]])
    plan = move_plan(context, MoveGoal(drain=ids(2)))
    assert set(targets(plan)) == {"t-0", "t-1"}
    assert plan.copies == 2, "one copy for each replica that leaves, none besides"
    assert all(2 not in replicas for replicas in targets(plan).values())
    assert all(4 in replicas for replicas in targets(plan).values()), "the empty broker takes them"


def test_a_single_replica_can_be_drained_too() -> None:
    """S3: the partition must be somewhere else before its only broker stops."""
    context = three("s3", [2]).context
    assert targets(move_plan(context, MoveGoal(drain=ids(2)))) == {"s3-0": (1,)}


def test_what_nobody_leads_is_not_copied_but_may_be_dropped() -> None:
    """Begun, such a copy would never end: there is no log to make it of."""
    world = three("s3", [2], [2, 3])
    world.kill(2, 3)
    plan = move_plan(world.context, MoveGoal(drain=ids(2)))
    assert targets(plan) == {}
    assert set(plan.left_out) == {tp("s3-0"), tp("s3-1")}
    assert plan.left_out[tp("s3-0")] == "it has no leader, so it cannot be copied; see odradek why s3-0"
    shrunk = move_plan(world.context, MoveGoal(replication_factor=1))
    assert targets(shrunk) == {"s3-1": (3,)}
    assert shrunk.left_out == {}


def test_a_newcomer_goes_to_a_rack_the_partition_is_not_in() -> None:
    context = cluster(1, 2, 3, 4, racks={1: "a", 2: "b", 3: "a", 4: "b"}, t=[[1, 2]])
    assert targets(move_plan(context, MoveGoal(drain=ids(2)))) == {"t-0": (1, 4)}
    assert targets(move_plan(context, MoveGoal(drain=ids(1)))) == {"t-0": (3, 2)}


def test_filling_gives_new_brokers_their_share_with_the_fewest_moves() -> None:
    context = cluster(1, 2, 3, t=[[1, 2], [2, 1], [1, 2], [2, 1], [1, 2], [2, 1]])
    plan = move_plan(context, MoveGoal(fill=ids(3)))
    assert counts(context, plan) == {1: 4, 2: 4, 3: 4}
    assert plan.copies == 4
    assert all(move.adding == (3,) for move in plan.moves)


def test_filling_moves_nothing_when_the_new_broker_has_its_share() -> None:
    context = cluster(1, 2, 3, t=[[1, 2], [2, 3], [3, 1]])
    assert move_plan(context, MoveGoal(fill=ids(3))).moves == ()


def test_a_higher_factor_adds_and_a_lower_one_removes_never_the_leader() -> None:
    context = cluster(1, 2, 3, t=[[1, 2], [2, 3]])
    grown = move_plan(context, MoveGoal(replication_factor=3))
    assert {where: set(after) for where, after in targets(grown).items()} == {
        "t-0": {1, 2, 3},
        "t-1": {1, 2, 3},
    }
    assert grown.copies == 2
    shrunk = move_plan(context, MoveGoal(replication_factor=1))
    assert targets(shrunk) == {"t-0": (1,), "t-1": (2,)}, "the leaders stay"
    assert shrunk.copies == 0


def test_who_leads_now_stays_even_where_another_is_preferred() -> None:
    world = three("t", [1, 2, 3])
    world.kill(1)
    world.start(1)
    world.catch_up("t-0", 1)
    assert world.leader("t-0")[0] == 2
    assert targets(move_plan(world.context, MoveGoal(replication_factor=1))) == {"t-0": (2,)}


def test_the_one_that_is_not_in_sync_goes_first() -> None:
    world = three("t", [2, 1, 3])
    world.alter("t-0", [2, 3])
    assert targets(move_plan(world.context, MoveGoal(replication_factor=2))) == {"t-0": (2, 3)}


def test_a_rebalance_evens_out_replicas_and_preferred_leaders() -> None:
    context = cluster(1, 2, 3, 4, t=[[1, 2]] * 8)
    plan = move_plan(context, MoveGoal(rebalance=True))
    assert set(counts(context, plan).values()) == {4}
    assert set(leads(context, plan).values()) == {2}
    assert plan.copies == 8


def test_a_balanced_cluster_is_left_alone() -> None:
    context = cluster(1, 2, 3, t=[[1, 2, 3], [2, 3, 1], [3, 1, 2]])
    assert move_plan(context, MoveGoal(rebalance=True)).moves == ()


def test_a_rebalance_turns_lists_where_only_the_leaders_are_uneven() -> None:
    context = cluster(1, 2, 3, t=[[1, 2, 3], [1, 3, 2], [1, 2, 3]])
    plan = move_plan(context, MoveGoal(rebalance=True))
    assert plan.copies == 0 and set(leads(context, plan).values()) == {1}


def test_leaders_of_topics_that_are_not_moved_count_where_leaders_are_evened_out() -> None:
    context = cluster(1, 2, t=[[1, 2], [1, 2]], u=[[1, 2], [2, 1]])
    plan = move_plan(context, MoveGoal(rebalance=True, topics=frozenset({"u"})))
    assert targets(plan) == {"u-0": (2, 1)}, "each is preferred for two"


def test_a_rebalance_mends_two_replicas_in_one_rack() -> None:
    context = cluster(1, 2, 3, 4, racks={1: "a", 2: "a", 3: "b", 4: "b"}, t=[[1, 2], [3, 4]])
    plan = move_plan(context, MoveGoal(rebalance=True))
    rack = {1: "a", 2: "a", 3: "b", 4: "b"}
    assert all(len({rack[b] for b in replicas}) == 2 for replicas in targets(plan).values())
    assert plan.copies == 2


def test_only_the_topics_named_are_moved_and_all_count() -> None:
    context = cluster(1, 2, 3, t=[[1], [2]], u=[[3], [3]])
    plan = move_plan(context, MoveGoal(drain=ids(1, 3), topics=frozenset({"t"})))
    assert targets(plan) == {"t-0": (2,)}


def test_what_moves_already_counts_where_it_goes() -> None:
    world = three("t", [2], [3])
    world.reassign({"t-0": [1]})
    plan = move_plan(world.context, MoveGoal(drain=ids(3)))
    assert targets(plan) == {"t-1": (2,)}, "broker 1 gets the other one"


def test_what_cannot_be_moved_is_left_out_with_the_reason() -> None:
    world = three("t", [2, 1, 3], [1, 2])
    plan = move_plan(world.context, MoveGoal(drain=ids(2)))
    assert targets(plan) == {"t-1": (1, 3)}
    assert plan.left_out == {tp("t-0"): "no other live broker can take it from broker 2"}
    world.reassign({"t-1": [3, 1]})
    again = move_plan(world.context, MoveGoal(drain=ids(2)))
    assert again.moves == () and again.left_out[tp("t-1")] == "it is being reassigned already"


def test_whoever_leaves_and_keeps_replicas_is_not_preferred_for_them() -> None:
    context = cluster(1, 2, 3, t=[[1, 2, 3], [1, 2, 3], [1, 2, 3], [1, 2, 3]])
    plan = move_plan(context, MoveGoal(drain=ids(3), rebalance=True))
    assert len(plan.left_out) == 4, "nobody can take them from broker 3"
    assert leads(context, plan) == {1: 2, 2: 2}
    context.commit_shutting_down(BrokerId(3))
    assert leads(context, move_plan(context, MoveGoal(rebalance=True))) == {1: 2, 2: 2}


def test_a_move_that_keeps_a_replica_of_a_dead_broker_is_said_to_wait_for_it() -> None:
    """Every replica of a target has to be in sync before a reassignment ends; another order of the same ones needs nobody."""
    world = three("t", [2, 3], [3, 1], [2, 1, 3], [3, 2])
    world.start(4, 5)
    world.kill(3)
    plan = move_plan(world.context, MoveGoal(drain=ids(2)))
    assert set(targets(plan)) == {"t-0", "t-2", "t-3"}
    assert plan.waits_for == {where: (3,) for where in plan.targets}
    (answer,), _ = ask(world.context, [Reassign(plan.targets)])
    assert len(answer.unfinished) == len(plan.waits_for)
    both = move_plan(world.context, MoveGoal(drain=ids(2, 3)))
    assert both.waits_for == {} and ask(world.context, [Reassign(both.targets)])[0][0].unfinished == ()


def test_a_smaller_factor_waits_for_the_only_one_in_sync_where_nobody_leads() -> None:
    world = three("t", [2, 3])
    world.alter("t-0", [2])
    world.kill(2)
    plan = move_plan(world.context, MoveGoal(replication_factor=1))
    assert targets(plan) == {"t-0": (3,)} and plan.waits_for == {tp("t-0"): (2,)}


def test_dead_brokers_can_be_drained_and_never_receive() -> None:
    world = three("t", [2, 3], [1, 3])
    world.kill(3)
    plan = move_plan(world.context, MoveGoal(drain=ids(3)))
    assert targets(plan) == {"t-0": (2, 1), "t-1": (1, 2)}


@pytest.mark.parametrize(
    ("goal", "words"),
    [
        (MoveGoal(), "no goal is given"),
        (MoveGoal(drain=ids(9)), "there is no broker 9; brokers are"),
        (MoveGoal(fill=ids(9)), "broker 9 is not alive"),
        (MoveGoal(drain=ids(1), fill=ids(1)), "broker 1 cannot be drained and filled"),
        (MoveGoal(replication_factor=4), "expected 1 to 3"),
        (MoveGoal(replication_factor=3, drain=ids(1)), "expected 1 to 2"),
        (MoveGoal(rebalance=True, topics=frozenset({"x"})), "there is no topic x; topics there are: t$"),
        (MoveGoal(rebalance=True, topics=frozenset({"tt"})), r"there is no topic tt; did you mean t\?"),
    ],
)
def test_a_goal_that_cannot_be_reached_says_why(goal: MoveGoal, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        move_plan(three("t", [1]).context, goal)


def test_a_broker_that_is_shutting_down_cannot_be_filled() -> None:
    world = three("t", [1])
    world.shut_down(2)
    with pytest.raises(ValueError, match="broker 2 is shutting down, so it cannot take replicas"):
        move_plan(world.context, MoveGoal(fill=ids(2)))


def test_bytes_are_summed_for_whoever_receives_and_unknown_sizes_are_counted() -> None:
    plan = MovePlan(
        (
            Move(tp("t-0"), (BrokerId(1),), (BrokerId(2), BrokerId(3))),
            Move(tp("t-1"), (BrokerId(1),), (BrokerId(2),)),
        )
    )
    assert bytes_by_broker(plan, {tp("t-0"): 10}) == (20, {2: 10, 3: 10}, 1)
    assert bytes_by_broker(plan, {tp("t-1"): 10}) == (10, {2: 10}, 2), (
        "a copy is one for each who receives it"
    )


@pytest.mark.parametrize("seed", range(20))
def test_any_plan_keeps_the_rules(seed: int) -> None:
    """No broker twice, the factor kept, racks never fewer, loads even, and a second plan finds nothing to do."""
    chance = random.Random(seed)
    brokers = list(range(1, chance.randint(4, 8)))
    racks = {b: chance.choice("abc") for b in brokers} if chance.random() < 0.5 else {}
    assignment = [chance.sample(brokers, chance.randint(1, 3)) for _ in range(chance.randint(1, 40))]
    context = cluster(*brokers, racks=racks, t=assignment)
    plan = move_plan(context, MoveGoal(rebalance=True))
    for move in plan.moves:
        assert len(set(move.after)) == len(move.after) == len(move.before)
        assert len({racks.get(b, b) for b in move.after}) >= len({racks.get(b, b) for b in move.before})
    if not racks:
        spread = sorted(counts(context, plan)[b] for b in brokers)
        assert all(b - a <= 1 for a, b in pairwise(spread)) and spread[-1] - spread[0] <= 1, spread
    drained = move_plan(context, MoveGoal(drain=ids(brokers[0])))
    held = sum(brokers[0] in replicas for replicas in assignment)
    assert drained.copies == held - len(drained.left_out)
    assert counts(context, drained)[brokers[0]] == len(drained.left_out)


def test_of_a_partition_that_never_had_a_leader_somebody_must_be_there_who_is_to_stay() -> None:
    """Its first leader is chosen among those before anybody goes."""
    world = World().brokers(1, 2, 3)
    world.elect()
    world.kill(2, 3)
    world.create("t", [3, 2], [1, 2])
    plan = move_plan(world.context, MoveGoal(replication_factor=1))
    assert plan.targets == {tp("t-0"): (3,), tp("t-1"): (1,)} and plan.waits_for == {tp("t-0"): (3,)}
    (moved,), _ = ask(world.context, [Reassign(plan.targets)])
    assert [sentence.split(" does not")[0] for sentence in moved.unfinished] == ["the reassignment of t-0"]
    world.start(3)
    assert move_plan(world.context, MoveGoal(replication_factor=1)).waits_for == {}
