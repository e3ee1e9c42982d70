"""Questions that follow one another: each is asked of the cluster the last one left behind."""

from typing import Any

import pytest

from odradek.advisor.what_if import context_of, stored
from odradek.advisor.what_if_steps import (
    CatchUp,
    Configure,
    Elect,
    Kill,
    Reassign,
    ShutDown,
    Start,
    ask,
)
from odradek.controller import reassignment_requests
from odradek.controller.context import CLUSTER_DEFAULT, ReassignmentPhase
from odradek.model.facts import ConfigChanged
from odradek.model.ids import BrokerId
from odradek.model.values import replace
from tests.controller.six import ids
from tests.controller.world import three, tp


def verdicts(answer: object) -> dict[str, str]:
    return {str(o.topic_partition): o.verdict for o in answer.outcomes}  # type: ignore[attr-defined]


def test_the_second_death_is_asked_of_what_the_first_left() -> None:
    world = three("t", [2, 3])
    (first, second), after = ask(world.context, [Kill(ids(2)), Kill(ids(3))])
    assert verdicts(first) == {"t-0": "new leader"}
    assert verdicts(second) == {"t-0": "goes offline"}
    assert sorted(after.brokers) == [1]
    assert world.leader("t-0")[:2] == (2, (2, 3)), "only asked"


def test_a_broker_that_came_back_is_in_sync_only_once_it_has_caught_up() -> None:
    world = three("t", [2, 3])
    steps = [Kill(ids(2)), Start(ids(2)), Kill(ids(3))]
    assert verdicts(ask(world.context, steps)[0][-1]) == {"t-0": "goes offline"}
    patient = [*steps[:2], CatchUp(), steps[2]]
    assert verdicts(ask(world.context, patient)[0][-1]) == {"t-0": "new leader"}


def test_a_reassignment_makes_the_next_death_harmless() -> None:
    world = three("t", [2])
    answers, after = ask(world.context, [Reassign({tp("t-0"): ids(1, 3)}), Kill(ids(2))])
    assert verdicts(answers[0]) == {"t-0": "new leader"}
    assert answers[0].outcomes[0].isr_after == (1, 3)
    assert verdicts(answers[1]) == {}, "broker 2 has nothing of it any more"
    assert after.reassignments == {} and after.assignments[tp("t-0")].replicas == (1, 3)


def test_a_reassignment_that_cannot_copy_stays_where_it_is() -> None:
    world = three("t", [2])
    answers, after = ask(world.context, [Kill(ids(2)), Reassign({tp("t-0"): ids(1)})])
    assert verdicts(answers[1]) == {"t-0": "stays offline"}
    assert after.reassignments[tp("t-0")].phase is ReassignmentPhase.GROWING
    assert answers[1].unfinished == ("the reassignment of t-0 does not end: replica 1 has to join the ISR",)


def test_a_reassignment_to_a_dead_broker_is_said_not_to_end() -> None:
    world = three("t", [2, 1, 3])
    answers, _ = ask(world.context, [Kill(ids(1)), Reassign({tp("t-0"): ids(1, 2)})])
    assert verdicts(answers[1]) == {"t-0": "unchanged"}
    assert answers[1].unfinished == (
        "the reassignment of t-0 does not end: replica 1 (broker 1 is not alive) has to join the ISR",
    )
    answers, _ = ask(world.context, [Kill(ids(1)), Reassign({tp("t-0"): ids(2, 3)})])
    assert answers[1].unfinished == (), "what is dead copies nothing and is only left out"


def test_a_higher_minimum_makes_partitions_refuse_acks_all() -> None:
    world = three("t", [2, 3, 1])
    world.alter("t-0", [2])
    answers, _ = ask(world.context, [Configure(None, "min.insync.replicas", "2"), CatchUp()])
    assert verdicts(answers[0]) == {"t-0": "falls under min ISR"}
    assert verdicts(answers[1]) == {"t-0": "ISR changes"}
    (lowered,), _ = ask(world.context, [Configure("t", "min.insync.replicas", "1")])
    assert verdicts(lowered) == {"t-0": "unchanged"}


def test_allowing_unclean_elections_elects_at_once() -> None:
    world = three("t", [2, 3])
    world.alter("t-0", [2])
    world.kill(2)
    (allowed,), _ = ask(world.context, [Configure("t", "unclean.leader.election.enable", "true")])
    assert verdicts(allowed) == {"t-0": "comes online"}
    (by_hand,), _ = ask(world.context, [Elect(True, (tp("t-0"),))])
    assert verdicts(by_hand) == {"t-0": "comes online"}


def test_a_preferred_election_gives_the_lead_back() -> None:
    world = three("t", [2, 3])
    steps = [Kill(ids(2)), Start(ids(2)), CatchUp(), Elect(False, None)]
    answers, after = ask(world.context, steps)
    assert verdicts(answers[-1]) == {"t-0": "new leader"}
    assert after.leadership(tp("t-0")).leader == 2  # type: ignore[union-attr]


def test_a_shutdown_in_order_moves_the_lead_before_it_goes() -> None:
    world = three("t", [2, 3])
    (answer,), _ = ask(world.context, [ShutDown(BrokerId(2))])
    assert verdicts(answer) == {"t-0": "new leader"}
    assert any("shutdown" in change.reason or "shutting" in change.reason for change in answer.changes)


def test_a_broker_that_was_shut_down_in_order_comes_back_with_all_it_held_and_one_that_was_killed_may_not() -> (
    None
):
    """KIP-966: with 3 gone the ISR is too small for anything to be committed without it, so it may lead alone."""
    world = three("t", [2, 3])
    world.context.topic_configs["t"] = {"min.insync.replicas": "2"}
    orderly = [ShutDown(BrokerId(3)), Kill(ids(2)), Start(ids(3))]
    assert verdicts(ask(world.context, orderly)[0][-1]) == {"t-0": "stays under min ISR"}
    killed = [Kill(ids(3)), *orderly[1:]]
    killed_since = [*orderly[:1], Start(ids(3)), Kill(ids(3)), *orderly[1:]]
    for steps in (killed, killed_since):
        assert verdicts(ask(world.context, steps)[0][-1]) == {"t-0": "stays offline"}


def test_when_nobody_is_left_nothing_is_decided_and_whoever_comes_begins_with_what_is_stored() -> None:
    world = three("t", [2, 3, 1], [3])
    (died,), after = ask(world.context, [Kill(ids(1, 2, 3))])
    assert verdicts(died) == {"t-0": "goes offline", "t-1": "goes offline"}
    assert after.leadership(tp("t-0")) == world.context.leadership(tp("t-0")), "and no ISR shrinks"
    for broker in ids(1, 2):
        (_, came), then = ask(
            world.context, [Kill(ids(1, 2, 3)), Start((broker,))], stopped_in_order=(broker,)
        )
        assert verdicts(came) == {"t-0": "comes online", "t-1": "stays offline"}
        assert then.leadership(tp("t-0")).isr == (broker,)  # type: ignore[union-attr]
    (_, _, came), _ = ask(
        world.context, [Kill(ids(1, 2)), Kill(ids(3)), Start(ids(2))], stopped_in_order=ids(2)
    )
    assert verdicts(came) == {"t-0": "stays offline", "t-1": "stays offline"}, "as 3 was the last to die"


@pytest.mark.parametrize("last", [(2,), (2, 3)], ids=["another controller follows", "nobody is left"])
def test_who_was_killed_is_eligible_no_more_whoever_is_left(last: tuple[int, ...]) -> None:
    """Neither a controller's memory nor Metadata says which incarnation a member of the ISR was."""
    world = three("t", [2, 1])
    world.step(ConfigChanged("topics", "t", {"min.insync.replicas": "2"}))
    (*_, came), _ = ask(world.context, [Kill(ids(1)), Kill(ids(*last)), Start(ids(1))])
    assert [(o.verdict, o.leader_after) for o in came.outcomes] == [("stays offline", -1)]
    (*_, came), _ = ask(world.context, [ShutDown(*ids(1)), Kill(ids(*last)), Start(ids(1))])
    assert [(o.verdict, o.leader_after) for o in came.outcomes] == [("stays under min ISR", 1)]


def test_where_all_of_an_isr_were_killed_none_leads_before_the_others_are_asked() -> None:
    world = three("t", [2, 1])
    world.step(ConfigChanged("topics", "t", {"min.insync.replicas": "2"}))
    (_, first, second), _ = ask(world.context, [Kill(ids(1, 2, 3)), Start(ids(1)), Start(ids(2))])
    assert verdicts(first) == {"t-0": "stays offline"}
    assert [(o.verdict, o.may_lead) for o in second.outcomes] == [("stays under min ISR", ids(1, 2))]


def test_whoever_comes_first_knows_all_that_the_last_controller_knew() -> None:
    context = three("t", [2, 1], [3, 2, 1]).context.fork()
    context.topics_to_delete = {"t"}
    context.out_of_service = {"u": "/brokers/topics/u: not JSON: at 3"}
    context.broker_configs = {CLUSTER_DEFAULT: {"min.insync.replicas": "2"}}
    context.pending_deletions = {BrokerId(3): {tp("v-0"): context.topic_id("t")}}
    _, after = ask(context, [Kill(ids(1, 2, 3)), Start(ids(1))])
    for name in ("topics", "topics_to_delete", "out_of_service", "broker_configs", "pending_deletions"):
        assert getattr(after, name) == getattr(context, name), name


def test_whoever_comes_first_goes_on_with_a_reassignment() -> None:
    world = three("t", [2])
    steps = [Kill(ids(2)), Reassign({tp("t-0"): ids(1)}), Kill(ids(1, 3)), Start(ids(1))]
    _, after = ask(world.context, steps)
    assert after.reassignments[tp("t-0")].stored.target_replicas == ids(1)


@pytest.mark.parametrize(
    "names", [{"written_zxid": 7}, {"isr_broker_epochs": (3, 4)}], ids=["Apache", "ours"]
)
def test_incarnations_that_stand_in_the_store_are_kept(names: dict[str, Any]) -> None:
    """Also where a broker has another one by now; Apache names a transaction instead."""
    context = three("t", [2, 1]).context.fork()
    written = replace(context.leaderships[tp("t-0")], **names)
    context.leaderships = {tp("t-0"): written}
    assert stored(context).states == {tp("t-0"): written}


def test_a_cluster_in_which_no_broker_runs_has_what_is_stored() -> None:
    world = three("t", [2, 3, 1])
    context = context_of(stored(world.context))
    assert context.leadership(tp("t-0")) == world.context.leadership(tp("t-0"))
    (came,), _ = ask(context, [Start(ids(3))], stopped_in_order=ids(3))
    assert [(o.verdict, o.leader_after) for o in came.outcomes] == [("comes online", 3)]


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (Kill(ids(9)), "broker 9 is not alive at that point; brokers alive: 1, 2, 3"),
        (Start(ids(2)), "broker 2 is alive already"),
        (Reassign({tp("t-0"): ids(9)}), "brokers that are not alive"),
        (Reassign({tp("t-7"): ids(1)}), "t has 1 partition, number 0; there is no 7"),
        (Reassign({tp("nope-0"): ids(1)}), "there is no topic nope; topics there are: t$"),
        (Configure("nope", "a", "b"), "there is no topic nope; topics there are: t$"),
        (Configure("tt", "a", "b"), r"there is no topic tt; did you mean t\?"),
        (Elect(False, (tp("t-7"),)), "t has 1 partition, number 0; there is no 7"),
        (Elect(False, (tp("tt-0"),)), r"there is no topic tt; did you mean t\?"),
    ],
)
def test_a_step_that_cannot_be_says_why(step: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        ask(three("t", [2]).context, [step])  # type: ignore[list-item]


def test_more_reassignments_than_a_node_can_name_are_no_step_that_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The controller refuses them, each for all the others."""
    monkeypatch.setattr(reassignment_requests, "MOST_NODE_BYTES", 60)
    world = three("t", [1, 2], [2, 3], [3, 1])
    targets = {tp("t-0"): ids(2, 3), tp("t-1"): ids(3, 1), tp("t-2"): ids(1, 2)}
    with pytest.raises(
        ValueError, match=r"^reassign t-0 to \[2, 3\]: .*; reassign fewer of its 3 partitions at a time$"
    ):
        ask(world.context, [Reassign(targets)])


def test_a_default_of_the_cluster_that_is_set_leaves_the_other_defaults() -> None:
    world = three("t", [2, 3])
    world.alter("t-0", [2])
    world.context.broker_configs[CLUSTER_DEFAULT] = {"unclean.leader.election.enable": "true"}
    _, killed = ask(world.context, [Configure(None, "min.insync.replicas", "1"), Kill((BrokerId(2),))])[0]
    assert [outcome.is_unclean for outcome in killed.outcomes] == [True]
