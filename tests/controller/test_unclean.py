"""Unclean elections: ask first, then lose as few records as possible."""

import pytest

from odradek.advisor.what_if import what_if
from odradek.controller.broker_requests import AskEndOffsets
from odradek.controller.effects import Effects
from odradek.controller.events import Conflict, EndOffsetsAnswered, Requested, Tick, WritesAnswered
from odradek.controller.states import PartitionState
from odradek.controller.unclean import PATIENCE_MS
from odradek.model.controller_requests import ElectLeadersAnswer, ElectLeadersAsked
from odradek.model.error_codes import ErrorCode
from odradek.model.facts import ConfigChanged, TopicsChanged, UnreadableNode
from odradek.model.ids import BrokerId, LeaderEpoch, Offset
from odradek.model.values import replace
from tests.controller.world import World, answer_of, failures, moves, three, tp

ALLOWED = {"unclean.leader.election.enable": "true"}


def lost(assignment: list[int], *, allowed: bool) -> World:
    """The first replica was alone in the ISR when it died; the others are live and behind."""
    world = three("u", assignment)
    if allowed:
        world.step(ConfigChanged("topics", "u", ALLOWED))
    first, *others = assignment
    for other in others:
        world.alter("u-0", [b for b in world.leader("u-0")[1] if b != other])
    world.kill(first)
    return world


def ends(broker: int, epoch: int, offset: int, text: str = "u-0") -> EndOffsetsAnswered:
    return EndOffsetsAnswered(BrokerId(broker), {tp(text): (LeaderEpoch(epoch), Offset(offset))})


def asked(effects: Effects) -> list[int]:
    return [r.broker for r in effects.requests if isinstance(r, AskEndOffsets)]


def elect_unclean(world: World, *partitions: str) -> Effects:
    return world.step(Requested(5, ElectLeadersAsked(True, tuple(tp(text) for text in partitions) or None)))


def stored(world: World) -> tuple[int, tuple[int, ...], int]:
    value = world.states[tp("u-0")].leader_and_isr
    return value.leader, value.isr, value.leader_recovery_state


@pytest.mark.behaviour(47)
def test_survivors_are_asked_what_they_hold_before_one_is_chosen() -> None:
    world = three("u", [2, 1, 3])
    world.step(ConfigChanged("topics", "u", ALLOWED))
    world.alter("u-0", [2])
    effects = world.kill(2)
    assert asked(effects) == [1, 3]
    assert world.partition_state("u-0") is PartitionState.OFFLINE
    assert stored(world) == (-1, (2,), 0)
    assert world.core.next_deadline_ms() == world.now_ms + PATIENCE_MS
    assert "[1,3] are asked what they hold" in failures(effects)[0].reason
    world.step(ends(1, 0, 900))
    assert world.partition_state("u-0") is PartitionState.OFFLINE, "3 has not answered yet"
    effects = world.step(ends(3, 0, 1000))
    assert stored(world) == (3, (3,), 1)
    assert ("u-0", "Offline", "Online") in moves(effects)
    assert world.context.polls == {}


@pytest.mark.behaviour(47)
def test_each_question_has_its_own_deadline() -> None:
    """The second is not forgotten with the first, though its survivors never answer."""
    world = World().brokers(1, 2, 3, 4, 5)
    world.elect(1)
    world.create("u", [4, 1, 2], [5, 1, 2])
    world.step(ConfigChanged("topics", "u", ALLOWED))
    world.alter("u-0", [4])
    world.alter("u-1", [5])
    first_ms = world.now_ms + PATIENCE_MS
    world.kill(4)
    world.now_ms += 300
    world.kill(5)
    world.now_ms = first_ms
    world.step(Tick())
    states = [world.partition_state(text) for text in ("u-0", "u-1")]
    assert states == [PartitionState.ONLINE, PartitionState.OFFLINE]
    second_ms = world.core.next_deadline_ms()
    assert second_ms == first_ms + 300
    world.now_ms = second_ms
    world.step(Tick())
    assert world.partition_state("u-1") is PartitionState.ONLINE


@pytest.mark.behaviour(47)
def test_the_last_epoch_counts_before_the_length_of_the_log() -> None:
    world = lost([2, 1, 3], allowed=True)
    world.step(ends(3, 4, 100))
    world.step(ends(1, 3, 99_999))
    assert stored(world)[0] == 3


@pytest.mark.behaviour(47)
def test_among_equals_the_assignment_order_decides() -> None:
    world = lost([2, 3, 1], allowed=True)
    world.step(ends(1, 4, 100))
    world.step(ends(3, 4, 100))
    assert stored(world)[0] == 3


def test_where_the_epoch_of_a_survivor_is_unknown_the_longest_log_leads() -> None:
    """Apache's brokers tell who is no follower of theirs where their log ends, and no epoch."""
    world = lost([2, 3, 1], allowed=True)
    world.step(ends(3, 4, 100))
    effects = world.step(ends(1, -1, 101))
    assert stored(world)[0] == 1
    quotes = [c.reason for c in effects.changes if c.kind == "quote"]
    assert "broker 1 holds an unknown epoch up to offset 101: 0 fewer than the best" in quotes


def test_an_empty_log_does_not_hide_the_epochs_of_the_others() -> None:
    world = World().brokers(1, 2, 3, 4)
    world.elect(1)
    world.create("u", [2, 3, 1, 4])
    world.step(ConfigChanged("topics", "u", ALLOWED))
    for other in (3, 1, 4):
        world.alter("u-0", [b for b in world.leader("u-0")[1] if b != other])
    world.kill(2)
    world.step(ends(3, -1, 0))
    world.step(ends(1, 3, 99))
    world.step(ends(4, 4, 5))
    assert stored(world)[0] == 4


@pytest.mark.behaviour(47)
def test_when_nobody_answers_in_time_the_first_in_assignment_order_leads() -> None:
    world = lost([2, 3, 1], allowed=True)
    world.now_ms += PATIENCE_MS
    world.step(Tick())
    assert stored(world) == (3, (3,), 1)


@pytest.mark.behaviour(47)
def test_one_answer_is_better_than_none_when_the_time_is_up() -> None:
    world = lost([2, 3, 1], allowed=True)
    world.step(ends(1, 0, 7))
    world.now_ms += PATIENCE_MS
    world.step(Tick())
    assert stored(world)[0] == 1


def test_the_quote_stands_in_the_journal() -> None:
    world = lost([2, 1, 3], allowed=True)
    world.step(ends(1, 0, 900))
    effects = world.step(ends(3, 0, 1000))
    assert [(c.replica, c.reason) for c in effects.changes if c.kind == "quote"] == [
        (1, "broker 1 holds epoch 0 up to offset 900: 100 fewer than the best"),
        (3, "broker 3 holds epoch 0 up to offset 1000: 0 fewer than the best"),
    ]


@pytest.mark.behaviour(47)
def test_a_single_survivor_is_not_asked() -> None:
    world = lost([2, 3], allowed=True)  # golden 08
    assert stored(world) == (3, (3,), 1)
    assert world.context.polls == {}


@pytest.mark.behaviour(43)
def test_a_member_of_the_isr_that_returns_while_the_question_is_open_wins() -> None:
    world = lost([2, 1, 3], allowed=True)
    world.step(ends(1, 0, 900))
    world.start(2)
    assert stored(world) == (2, (2,), 0)
    late = world.step(ends(3, 0, 1000))
    assert moves(late) == [] and stored(world)[0] == 2


def test_survivors_are_asked_anew_where_a_leader_has_returned_and_died_again() -> None:
    """What they held before is not what they hold now."""
    world = lost([2, 1, 3], allowed=True)
    world.step(ends(1, 0, 900))
    world.start(2)
    world.now_ms += PATIENCE_MS - 1
    assert asked(world.kill(2)) == [1, 3]
    world.now_ms += 1
    world.step(Tick())
    assert stored(world)[0] == -1, "the time of the first question is not that of the second"
    world.step(ends(1, 0, 900))
    world.step(ends(3, 2, 1000))
    assert stored(world)[0] == 3


def question(effects: Effects) -> int | None:
    (number,) = {r.number for r in effects.requests if isinstance(r, AskEndOffsets)}
    return number


def test_a_late_answer_to_an_earlier_question_is_none_to_the_later_one() -> None:
    """A member of the ISR returned, led and died in between: the survivor may have got what it led, or been cut off."""
    world = three("u", [2, 1, 3])
    world.step(ConfigChanged("topics", "u", ALLOWED))
    world.alter("u-0", [2])
    first = question(world.kill(2))
    world.start(2)
    second = question(world.kill(2))
    for number, offsets in ((first, (5000, 900)), (second, (900, 1000))):
        for broker, offset in zip((1, 3), offsets, strict=True):
            assert stored(world)[0] == -1
            world.step(replace(ends(broker, 0, offset), number=number))
    assert stored(world)[0] == 3


def test_a_survivor_that_was_restarted_is_asked_anew_with_the_others() -> None:
    """What it had answered, or was about to answer, it may have lost."""
    world = World().brokers(1, 2, 3, 4)
    world.elect(1)
    world.create("u", [2, 4, 3, 1])
    world.step(ConfigChanged("topics", "u", ALLOWED))
    world.alter("u-0", [2])
    assert asked(world.kill(2)) == [1, 3, 4]
    world.step(ends(4, 0, 5000))
    world.step(ends(3, 0, 1000))
    assert asked(world.bounce(4)) == [1, 3, 4]
    world.step(ends(1, 0, 10))
    world.step(ends(3, 0, 1000))
    assert stored(world)[0] == -1, "4 has not answered yet"
    world.step(ends(4, 0, 900))
    assert stored(world)[0] == 3


def test_who_comes_back_while_the_others_are_asked_is_asked_as_well() -> None:
    """It may hold the most: with every live replica asked, as few records are lost as can be."""
    world = World().brokers(1, 2, 3, 4)
    world.elect(1)
    world.create("u", [2, 1, 3, 4])
    world.step(ConfigChanged("topics", "u", ALLOWED))
    world.alter("u-0", [2])
    world.kill(4)
    assert asked(world.kill(2)) == [1, 3]
    world.step(ends(1, 0, 10))
    assert asked(world.start(4)) == [1, 3, 4]
    for broker, offset in ((1, 10), (3, 20), (4, 30)):
        assert stored(world)[0] == -1
        world.step(ends(broker, 0, offset))
    assert stored(world)[0] == 4


def test_a_survivor_that_dies_is_not_waited_for() -> None:
    world = World().brokers(1, 2, 3, 4)
    world.elect(1)
    world.step(ConfigChanged("topics", "u", ALLOWED))
    world.create("u", [2, 1, 3, 4])
    world.step(ConfigChanged("topics", "u", ALLOWED))
    world.alter("u-0", [2])
    world.kill(2)
    world.kill(3)
    world.step(ends(4, 0, 5))
    effects = world.step(ends(1, 0, 900))
    assert stored(world)[0] == 1
    assert "broker 3 did not answer what it holds" in [c.reason for c in effects.changes]


def test_the_last_survivor_leads_at_once() -> None:
    world = lost([2, 1, 3], allowed=True)
    world.kill(3)
    assert stored(world) == (1, (1,), 1)


@pytest.mark.behaviour(46)
def test_nothing_is_asked_where_it_is_not_allowed() -> None:
    world = lost([2, 1, 3], allowed=False)
    assert world.context.polls == {} and stored(world) == (-1, (2,), 0)


@pytest.mark.behaviour(166)
def test_turning_it_on_asks_at_once() -> None:
    world = lost([2, 1, 3], allowed=False)
    assert asked(world.step(ConfigChanged("topics", "u", ALLOWED))) == [1, 3]


# ------------------------------------------------------------------------------------------ by an administrator


def test_an_administrator_may_ask_for_it_whatever_the_topic_allows() -> None:
    world = lost([2, 3], allowed=False)
    effects = elect_unclean(world, "u-0")
    answer = answer_of(effects)
    assert answer == ElectLeadersAnswer(ErrorCode.NONE, {tp("u-0"): (ErrorCode.NONE, "")}, {tp("u-0"): 2})
    assert stored(world) == (3, (3,), 1)


def test_an_administrator_is_answered_when_the_survivors_have() -> None:
    world = lost([2, 1, 3], allowed=False)
    world.create("v", [1])
    effects = elect_unclean(world, "u-0", "v-0")
    assert effects.answers == () and asked(effects) == [1, 3]
    world.step(ends(1, 0, 900))
    effects = world.step(ends(3, 0, 1000))
    answer = answer_of(effects)
    assert isinstance(answer, ElectLeadersAnswer)
    assert {str(t): e for t, (e, _) in answer.partitions.items()} == {
        "u-0": ErrorCode.NONE,
        "v-0": ErrorCode.ELECTION_NOT_NEEDED,
    }
    assert world.context.elections_asked == {}


def test_an_administrator_is_answered_when_the_time_is_up() -> None:
    world = lost([2, 1, 3], allowed=False)
    elect_unclean(world, "u-0")
    world.now_ms += PATIENCE_MS
    answer = answer_of(world.step(Tick()))
    assert answer == ElectLeadersAnswer(ErrorCode.NONE, {tp("u-0"): (ErrorCode.NONE, "")}, {tp("u-0"): 2})


def test_an_administrator_is_answered_even_if_the_topic_goes_while_the_survivors_are_asked() -> None:
    world = lost([2, 1, 3], allowed=False)
    elect_unclean(world, "u-0")
    world.topics.clear()
    world.states.clear()
    assert world.step(TopicsChanged(())).answers == ()
    world.now_ms += PATIENCE_MS
    answer = answer_of(world.step(Tick()))
    assert isinstance(answer, ElectLeadersAnswer)
    assert answer.partitions == {
        tp("u-0"): (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")
    }
    assert world.context.elections_asked == {}


def test_who_asks_while_the_survivors_are_asked_hears_what_becomes_of_it() -> None:
    """Another administrator's question, or the topic's own because it allows unclean elections."""
    world = lost([2, 1, 3], allowed=True)
    effects = elect_unclean(world, "u-0")
    assert effects.answers == () and asked(effects) == [], "they are asked already"
    world.step(ends(1, 0, 900))
    answer = answer_of(world.step(ends(3, 0, 1000)))
    assert answer == ElectLeadersAnswer(ErrorCode.NONE, {tp("u-0"): (ErrorCode.NONE, "")}, {tp("u-0"): 2})


@pytest.mark.parametrize(
    "found", [None, UnreadableNode("/brokers/topics/t/partitions/0/state", "bad JSON", "t")]
)
@pytest.mark.parametrize("unclean", [False, True])
def test_a_partition_whose_node_is_gone_or_damaged_is_answered_too(
    found: UnreadableNode | None, unclean: bool
) -> None:
    """Nobody was asked about it, so nobody's answer would end the waiting."""
    world = three("t", [2, 1])
    if unclean:
        world.alter("t-0", [2])
        world.kill(2)
    else:
        world.shut_down(2)
        world.start(2)
        world.alter("t-0", [1, 2])
    effects = world.core.step(Requested(5, ElectLeadersAsked(unclean, (tp("t-0"),))), 0)
    assert len(effects.writes) == 1
    answer = answer_of(world.core.step(WritesAnswered((Conflict(found),)), 0))
    assert isinstance(answer, ElectLeadersAnswer)
    assert answer.partitions[tp("t-0")][0] in (
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    )
    assert world.context.elections_asked == {}


def test_without_any_live_replica_nobody_is_eligible() -> None:
    world = three("u", [2])
    world.kill(2)
    answer = answer_of(elect_unclean(world, "u-0"))
    assert isinstance(answer, ElectLeadersAnswer)
    error, why = answer.partitions[tp("u-0")]
    assert error is ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    assert why == (
        "Failed to elect leader for partition u-0 under strategy OfflinePartitionLeaderElectionStrategy(true)"
    )


def test_a_partition_that_has_a_leader_is_never_elected_unclean() -> None:
    world = three("u", [2, 3])
    answer = answer_of(elect_unclean(world, "u-0"))
    assert isinstance(answer, ElectLeadersAnswer)
    assert answer.partitions[tp("u-0")][0] is ErrorCode.ELECTION_NOT_NEEDED


def test_if_the_isr_returned_meanwhile_the_administrator_hears_that_there_is_a_leader() -> None:
    world = lost([2, 1, 3], allowed=False)
    elect_unclean(world, "u-0")
    world.start(2)
    world.now_ms += PATIENCE_MS
    answer = answer_of(world.step(Tick()))
    assert answer == ElectLeadersAnswer(ErrorCode.NONE, {tp("u-0"): (ErrorCode.NONE, "")}, {tp("u-0"): 2})
    assert stored(world) == (2, (2,), 0), "and it is the clean one"


def test_a_question_what_if_decides_as_if_nobody_had_answered() -> None:
    world = three("u", [2, 1, 3])
    world.step(ConfigChanged("topics", "u", ALLOWED))
    world.alter("u-0", [2])
    (outcome,) = what_if(world.context, kill=[BrokerId(2)]).outcomes
    assert (outcome.leader_after, outcome.verdict) == (1, "new leader")
    assert world.context.polls == {}
