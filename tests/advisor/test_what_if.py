"""What would happen: the same step, on a copy."""

import pytest

from odradek.advisor.observed import observed_context
from odradek.advisor.what_if import context_of, what_if
from odradek.controller.context import ControllerSettings
from odradek.model.ids import BrokerId
from tests.controller.world import World, moves, state, three, tp


def verdicts(world: World, **question: list[int]) -> dict[str, str]:
    asked = {verb: [BrokerId(b) for b in brokers] for verb, brokers in question.items()}
    answer = what_if(world.context, **asked)  # type: ignore[arg-type]
    return {str(outcome.topic_partition): outcome.verdict for outcome in answer.outcomes}


def test_a_kill_says_where_each_leader_lands_what_goes_offline_and_what_falls_under_min_isr() -> None:
    world = three("t", [2, 1, 3], [2], [2, 3], [1, 3], [1, 2, 3])
    world.context.topic_configs["t"] = {"min.insync.replicas": "2"}
    assert verdicts(world, kill=[2]) == {
        "t-1": "goes offline",
        "t-2": "falls under min ISR",
        "t-0": "new leader",
        "t-4": "ISR changes",
    }
    answer = what_if(world.context, kill=[BrokerId(2)])
    assert answer.summary == {"goes offline": 1, "falls under min ISR": 1, "new leader": 1, "ISR changes": 1}
    landed = {str(o.topic_partition): (o.leader_before, o.leader_after, o.isr_after) for o in answer.outcomes}
    assert landed["t-0"] == (2, 1, (1, 3))
    assert landed["t-1"] == (2, -1, (2,))


def test_the_answer_is_what_the_controller_then_does() -> None:
    world = three("t", [2, 1, 3], [3, 2], [2])
    answer = what_if(world.context, kill=[BrokerId(2)])
    effects = world.kill(2)
    assert answer.changes == effects.changes
    for outcome in answer.outcomes:
        stored = world.states[outcome.topic_partition].leader_and_isr
        assert (outcome.leader_after, outcome.isr_after) == (stored.leader, stored.isr)


def test_asking_changes_nothing() -> None:
    world = three("t", [2, 1, 3], [2])
    before = (
        dict(world.context.leaderships),
        dict(world.context.partition_states),
        dict(world.context.brokers),
    )
    what_if(world.context, kill=[BrokerId(2), BrokerId(3)])
    assert (world.context.leaderships, world.context.partition_states, world.context.brokers) == before
    assert world.context.replica_state_overrides == {} and world.context.leaderless == set()


def test_a_start_says_what_comes_online_and_what_stays_offline() -> None:
    world = three("t", [2], [3])
    world.kill(2, 3)
    assert verdicts(world, start=[2]) == {"t-1": "stays offline", "t-0": "comes online"}


def test_killed_and_started_again_is_a_restart() -> None:
    world = three("t", [2, 1, 3])
    answer = what_if(world.context, kill=[BrokerId(2)], start=[BrokerId(2)])
    (outcome,) = answer.outcomes
    assert (outcome.verdict, outcome.leader_after, outcome.isr_after) == ("new leader", 1, (1, 3))
    assert answer.question == "kill 2 and start 2"


def test_the_reason_of_an_outcome_says_why_nobody_can_lead() -> None:
    world = three("t", [2, 3])
    world.alter("t-0", [2])
    (outcome,) = what_if(world.context, kill=[BrokerId(2)]).outcomes
    assert outcome.verdict == "goes offline"
    assert outcome.reason == "broker 2 failed"


def test_a_broker_that_is_not_live_cannot_be_killed() -> None:
    with pytest.raises(ValueError, match=r"cannot kill \[9\]: live brokers are \[1, 2, 3\]"):
        what_if(three().context, kill=[BrokerId(9)])


def test_min_isr_counts_no_more_replicas_than_there_are() -> None:
    world = three("t", [1])
    world.context.topic_configs["t"] = {"min.insync.replicas": "2"}
    world.create("u", [1, 2])
    answer = what_if(world.context, kill=[BrokerId(3)])
    assert answer.outcomes == ()
    world.kill(2)
    assert verdicts(world, kill=[3]) == {}


def test_a_question_can_be_asked_of_a_cluster_one_does_not_control() -> None:
    world = World().brokers(4, 5)
    world.store_topic("t", [[5, 4], [5]])
    world.states[tp("t-0")] = state(5, [5, 4], controller_epoch=7)
    world.states[tp("t-1")] = state(5, [5], controller_epoch=7)
    world.controller_epoch = 1
    snapshot = world.election()[3]
    context = context_of(snapshot, ControllerSettings(min_insync_replicas=1))
    answer = what_if(context, kill=[BrokerId(5)])
    assert {str(o.topic_partition): o.verdict for o in answer.outcomes} == {
        "t-0": "new leader",
        "t-1": "goes offline",
    }


def test_whose_stored_leader_is_gone_is_offline_before_a_controller_has_said_so() -> None:
    """A broker that wants to stop asks of the store as it stands."""
    world = three("t", [3, 2])
    world.alter("t-0", [3])
    del world.registrations[3]
    context = observed_context(world.election(1)[3])
    ((outcome,), leader) = what_if(context, kill=[BrokerId(2)]).outcomes, world.leader("t-0")[0]
    assert (leader, outcome.verdict, outcome.leader_before) == (3, "stays offline", -1)


def test_unclean_elections_show_in_the_answer() -> None:
    world = three("t", [2, 3])
    world.alter("t-0", [2])
    world.context.topic_configs["t"] = {"unclean.leader.election.enable": "true"}
    (outcome,) = what_if(world.context, kill=[BrokerId(2)]).outcomes
    assert (outcome.verdict, outcome.leader_after, outcome.is_unclean) == ("new leader", 3, True)
    assert "unclean election is allowed" in outcome.reason


def test_a_leader_that_recovers_still_is_not_a_second_unclean_election() -> None:
    world = three("t", [2, 3])
    world.alter("t-0", [2])
    world.context.topic_configs["t"] = {"unclean.leader.election.enable": "true"}
    world.kill(2)
    assert world.states[tp("t-0")].leader_and_isr.leader_recovery_state == 1
    (restarted,) = what_if(world.context, kill=[BrokerId(3)], start=[BrokerId(3)]).outcomes
    assert (restarted.leader_after, restarted.is_unclean) == (3, False)
    (back,) = what_if(world.context, kill=[BrokerId(3)], start=[BrokerId(2)]).outcomes
    assert (back.leader_after, back.is_unclean) == (2, True)


def test_a_what_if_of_ten_thousand_partitions_touches_only_those_it_must() -> None:
    world = three("t", *[[1 + p % 3, 1 + (p + 1) % 3] for p in range(300)])
    answer = what_if(world.context, kill=[BrokerId(3)])
    assert len(answer.outcomes) == 200
    assert len([m for m in moves_of(answer.changes) if m[2] == "Online"]) == 100


def moves_of(changes: object) -> list[tuple[str, str, str]]:
    from odradek.controller.effects import Effects

    return moves(Effects(changes=changes), "partition")  # type: ignore[arg-type]
