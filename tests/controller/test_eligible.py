"""Eligible leader replicas (KIP-966): when the ISR is too small, who else has every committed record."""

from dataclasses import replace

import pytest

from odradek.controller.effects import Effects, WritePartitionState
from odradek.controller.events import LeaderAndIsrAnswered, Requested, Resigned, Tick
from odradek.controller.unclean import PATIENCE_IN_DOUBT_MS, PATIENCE_MS
from odradek.model.controller_requests import ElectLeadersAsked
from odradek.model.error_codes import ErrorCode
from odradek.model.facts import ConfigChanged
from odradek.model.ids import BrokerEpoch, BrokerId
from tests.controller.test_unclean import asked, ends
from tests.controller.world import World, failures, lai_brokers, moves, state, three, tp

MIN_ISR_2 = {"min.insync.replicas": "2"}


def guarded(*assignment: list[int], config: dict[str, str] | None = None) -> World:
    """A topic with min.insync.replicas 2."""
    world = three("e", *(assignment or ([2, 1, 3],)))
    world.configs["e"] = dict(config or MIN_ISR_2)
    world.step(ConfigChanged("topics", "e", world.configs["e"]))
    return world


def eligible(world: World, text: str = "e-0") -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """(ISR, eligible, last known) as stored."""
    state = world.states[tp(text)].leader_and_isr
    return state.isr, state.elr, state.last_known_elr


def told_unclean(effects: Effects) -> list[tuple[str, str]]:
    return [(c.target, c.reason) for c in effects.changes if c.kind == "eligible"]


def test_one_that_leaves_while_the_isr_stays_large_enough_is_not_eligible() -> None:
    world = guarded()
    world.alter("e-0", [2, 1])
    assert eligible(world) == ((2, 1), (), ())


def test_one_whose_leaving_makes_the_isr_too_small_is_eligible() -> None:
    world = guarded()
    world.alter("e-0", [2, 1])
    world.alter("e-0", [2])
    assert eligible(world) == ((2,), (1,), ())


def test_a_death_makes_eligible_just_as_a_shrink_does() -> None:
    world = guarded([2, 1])
    world.kill(1)
    assert eligible(world) == ((2,), (1,), ())


def test_when_the_isr_is_large_enough_again_nobody_is() -> None:
    world = guarded()
    world.alter("e-0", [2])
    assert eligible(world) == ((2,), (1, 3), ())
    world.alter("e-0", [2, 3])
    assert eligible(world) == ((2, 3), (), ())


def test_an_eligible_replica_leads_when_the_isr_is_gone_and_nothing_is_lost() -> None:
    world = guarded()
    world.alter("e-0", [2, 1])
    world.alter("e-0", [2])
    effects = world.kill(2)
    state = world.states[tp("e-0")].leader_and_isr
    assert (state.leader, state.isr, state.leader_recovery_state) == (1, (1,), 0), "a clean election"
    assert "first assigned replica that is live and eligible" in effects.changes[2].reason
    assert eligible(world) == ((1,), (2,), ()), "the one that died held everything too"


def test_one_that_left_before_the_isr_was_too_small_does_not_lead() -> None:
    world = guarded()
    world.alter("e-0", [2, 1])
    world.alter("e-0", [2])
    world.kill(1)
    world.kill(2)
    assert world.leader("e-0")[0] == -1, "3 is live and misses records"


def test_with_min_isr_one_everything_is_as_in_apache() -> None:
    world = guarded(config={"min.insync.replicas": "1"})
    world.alter("e-0", [2])
    assert eligible(world) == ((2,), (), ())
    world.kill(2)
    assert world.leader("e-0")[0] == -1


# ----------------------------------------------------------------------------------------------- unclean stops


def last_one_standing() -> World:
    """ISR [2], eligible [1]; then both die, and 3 never had everything."""
    world = guarded()
    world.alter("e-0", [2, 1])
    world.alter("e-0", [2])
    world.kill(1)
    world.kill(2)
    assert eligible(world) == ((2,), (1,), ())
    return world


def test_hole_h2_a_last_member_that_lost_its_page_cache_waits_for_one_that_did_not() -> None:
    world = last_one_standing()
    effects = world.start(2)  # no clean-shutdown file: the page cache may be gone
    assert world.leader("e-0")[0] == -1, "Apache elects it, and loses what it had acknowledged"
    assert eligible(world) == ((2,), (1,), (2,))
    assert told_unclean(effects) == [("e-0/2", "broker 2 returned without a clean shutdown")]
    world.start_clean(1, stopped_as=world.context.last_epochs[BrokerId(1)])
    assert world.leader("e-0")[:2] == (1, (1,))


@pytest.mark.parametrize("most", [1, 2])
@pytest.mark.parametrize("first", [(2,), (1,), (1, 2)])
def test_where_all_may_have_lost_records_the_one_that_holds_the_most_leads(
    first: tuple[int, ...], most: int
) -> None:
    """One of them was only killed, the host of the other lost power, and nobody can say which: whichever returned first, or last, or
    both in one event, the choice did not go by what they hold."""
    world = last_one_standing()
    effects = world.start(*first)
    for broker in {1, 2} - {*first}:
        effects = world.start(broker)
    if first == (2,):
        assert told_unclean(effects) == [("e-0/1", "broker 1 returned without a clean shutdown")]
    assert asked(effects) == [1, 2] and "[2,1] are asked what they hold" in failures(effects)[0].reason
    assert world.leader("e-0")[0] == -1
    isr, eligible_ones, known = eligible(world)
    assert (isr, eligible_ones, set(known)) == ((2,), (), {1, 2})
    world.step(ends(most, 3, 9, "e-0"))
    effects = world.step(ends(3 - most, 3, 8, "e-0"))
    assert world.leader("e-0")[:2] == (most, (most,))
    assert eligible(world) == ((most,), (), (3 - most,))
    state = world.states[tp("e-0")].leader_and_isr
    assert state.leader_recovery_state == 0 and lai_brokers(effects) == [1, 2, 3]


def all_in_doubt() -> World:
    """ISR [2], and [1] that was eligible: both came back without a clean shutdown, and are asked what they hold."""
    world = last_one_standing()
    world.start(2)
    world.start(1)
    return world


def test_if_nobody_says_what_it_holds_the_last_member_of_the_isr_leads() -> None:
    world = all_in_doubt()
    world.now_ms += PATIENCE_IN_DOUBT_MS
    world.step(Tick())
    assert world.leader("e-0")[:2] == (2, (2,))


@pytest.mark.parametrize("is_over", [False, True])
def test_without_the_last_member_of_the_isr_the_others_wait_whatever_they_hold(is_over: bool) -> None:
    """It may hold more. The question is no leave to lose records."""
    world = all_in_doubt()
    world.kill(2)
    world.step(ends(1, 3, 9, "e-0"))
    if is_over:
        world.now_ms += PATIENCE_IN_DOUBT_MS
        world.step(Tick())
    assert world.leader("e-0")[:2] == (-1, (2,))
    effects = world.start(2)
    assert asked(effects) == [1, 2]
    world.step(ends(2, 3, 8, "e-0"))
    world.step(ends(1, 3, 9, "e-0"))
    assert world.leader("e-0")[:2] == (1, (1,))


@pytest.mark.parametrize("is_answered_first", [False, True])
def test_one_that_dies_again_while_they_are_asked_has_the_same_time_to_come_back(
    is_answered_first: bool,
) -> None:
    world = all_in_doubt()
    if is_answered_first:
        world.step(ends(2, 3, 8, "e-0"))
        world.kill(1)
    else:
        world.kill(1)
        world.step(ends(2, 3, 8, "e-0"))
    assert world.leader("e-0")[0] == -1
    assert asked(world.start(1)) == [1, 2]
    world.step(ends(2, 3, 8, "e-0"))
    world.step(ends(1, 3, 9, "e-0"))
    assert world.leader("e-0")[:2] == (1, (1,))


def test_one_in_doubt_that_is_live_alone_leads_as_it_is() -> None:
    world = all_in_doubt()
    world.kill(1)
    world.now_ms += PATIENCE_IN_DOUBT_MS
    world.step(Tick())
    assert world.leader("e-0")[:2] == (2, (2,))
    world.bounce(2)
    assert world.leader("e-0")[:2] == (2, (2,))


def test_unclean_election_allowed_while_they_are_asked_is_held_when_the_last_member_dies_again() -> None:
    """Their question gave no leave to lose records, and after it nobody was asked any more."""
    world = all_in_doubt()
    world.step(ConfigChanged("topics", "e", {**MIN_ISR_2, "unclean.leader.election.enable": "true"}))
    assert world.leader("e-0")[0] == -1
    assert asked(world.kill(2)) == [1, 3]
    world.now_ms += PATIENCE_MS
    world.step(Tick())
    assert world.leader("e-0")[0] in (1, 3)


def test_all_in_doubt_are_asked_by_the_next_controller_though_they_were_restarted_under_none() -> None:
    world = all_in_doubt()
    world.start(4)
    world.core.step(Resigned("it died"), 0)
    world.brokers(1, 2, 3, 4)
    assert asked(world.elect(4)) == [1, 2]
    assert world.leader("e-0")[0] == -1


def test_so_they_are_where_min_isr_was_lowered_meanwhile() -> None:
    world = all_in_doubt()
    world.start(4)
    world.configs["e"] = {"min.insync.replicas": "1"}
    world.core.step(Resigned("it died"), 0)
    world.brokers(1, 2, 3, 4)
    assert asked(world.elect(4)) == [1, 2]
    assert world.leader("e-0")[0] == -1


@pytest.mark.parametrize("is_raised", [False, True])
@pytest.mark.parametrize("was_doubted", [False, True])
def test_where_min_isr_is_lowered_while_all_are_away_or_in_doubt_they_are_still_asked(
    was_doubted: bool, is_raised: bool
) -> None:
    """Without a leader nothing is committed, whatever is configured."""
    world = last_one_standing()
    world.start(2)
    if was_doubted:
        world.kill(2)
        world.start(1)
    else:
        world.kill(2)
    world.step(ConfigChanged("topics", "e", {"min.insync.replicas": "1"}))
    epoch = world.leader("e-0")[2]
    world.step(ConfigChanged("topics", "e", {"min.insync.replicas": "1", "retention.ms": "7"}))
    assert world.leader("e-0")[2] == epoch, "nothing new is to be written"
    if is_raised:
        world.step(ConfigChanged("topics", "e", MIN_ISR_2))
    if not was_doubted:
        world.start(1)
    assert world.leader("e-0")[:2] == (-1, (2,))
    assert asked(world.start(2)) == [1, 2]
    world.step(ends(1, 3, 9, "e-0"))
    world.step(ends(2, 3, 8, "e-0"))
    assert world.leader("e-0")[:2] == (1, (1,))
    assert eligible(world) == ((1,), (), (2,) if is_raised else ())


def test_one_in_doubt_does_not_lead_because_the_other_was_bounced() -> None:
    world = all_in_doubt()
    assert asked(world.bounce(1)) == [1, 2]
    assert world.leader("e-0")[0] == -1


def test_nor_does_it_where_the_other_cannot_be_elected_any_more() -> None:
    """Seed 25 of the simulator: its log directory failed while it was asked."""
    world = all_in_doubt()
    lost = {tp("e-0"): ErrorCode.KAFKA_STORAGE_ERROR}
    world.step(LeaderAndIsrAnswered(BrokerId(1), world.registrations[1].epoch, ErrorCode.NONE, lost))
    world.step(Requested(7, ElectLeadersAsked(False, (tp("e-0"),))))
    assert world.leader("e-0")[0] == -1
    world.now_ms += PATIENCE_IN_DOUBT_MS
    world.step(Tick())
    assert world.leader("e-0")[:2] == (2, (2,))


def test_a_preferred_election_does_not_forestall_the_answers() -> None:
    world = all_in_doubt()
    world.step(Requested(7, ElectLeadersAsked(False, (tp("e-0"),))))
    assert world.leader("e-0")[0] == -1


def doubted() -> World:
    """ISR [2], which came back without a clean shutdown; 1 and 3 are eligible, and away; 4 has no replica."""
    world = guarded()
    world.start(4)
    world.alter("e-0", [2])
    world.kill(1, 3)
    world.bounce(2)
    assert world.leader("e-0")[:2] == (-1, (2,))
    assert eligible(world) == ((2,), (1, 3), (2,))
    return world


def lost_last(world: World, broker: int) -> int:
    return world.context.last_epochs[BrokerId(broker)]


def test_a_last_member_in_doubt_waits_as_long_as_anybody_is_eligible() -> None:
    world = doubted()
    world.start(1)
    assert world.leader("e-0")[:2] == (-1, (2,))
    assert eligible(world) == ((2,), (3,), (2, 1))
    world.start_clean(3, stopped_as=lost_last(world, 3))
    assert world.leader("e-0")[:2] == (3, (3,))
    assert eligible(world) == ((3,), (), (2, 1)), "not eligible by leaving the ISR"


def test_in_doubt_it_stays_so_however_often_it_returns_and_under_the_next_controller() -> None:
    world = doubted()
    epoch = world.leader("e-0")[2]
    world.bounce(2)
    world.kill(2)
    world.start_clean(2, stopped_as=lost_last(world, 2))
    assert world.leader("e-0") == (-1, (2,), epoch), "nothing new is to be written"
    world.core.step(Resigned("it died"), 0)
    world.elect(4)
    assert world.leader("e-0")[:2] == (-1, (2,))
    assert eligible(world) == ((2,), (1, 3), (2,))
    world.start_clean(1, stopped_as=lost_last(world, 1))
    assert world.leader("e-0")[:2] == (1, (1,))


@pytest.mark.parametrize("is_unclean", [False, True])
def test_an_election_on_request_goes_by_the_doubt_as_well(is_unclean: bool) -> None:
    world = doubted()
    world.step(Requested(7, ElectLeadersAsked(is_unclean, (tp("e-0"),))))
    state = world.states[tp("e-0")].leader_and_isr
    assert (state.leader, state.leader_recovery_state) == ((2, 1) if is_unclean else (-1, 0))
    assert eligible(world) == (((2,), (), (1, 3)) if is_unclean else ((2,), (1, 3), (2,)))


def test_a_reassignment_does_not_elect_one_in_doubt() -> None:
    world = doubted()
    world.reassign({"e-0": [2, 4, 1]})
    assert world.leader("e-0")[:2] == (-1, (2,))


def test_one_in_doubt_leads_once_records_are_committed_without_those_that_were_eligible() -> None:
    world = doubted()
    world.step(ConfigChanged("topics", "e", {"min.insync.replicas": "1"}))
    assert world.leader("e-0")[:2] == (2, (2,))
    assert eligible(world) == ((2,), (), ())


def test_members_that_were_all_restarted_under_no_controller_are_all_in_doubt() -> None:
    world = guarded(config={"min.insync.replicas": "3"})
    world.kill(1)
    epoch = lost_last(world, 1)
    assert eligible(world) == ((2, 3), (1,), ())
    world.core.step(Resigned("it died"), 0)
    world.brokers(2, 3, 4)
    world.elect(4)
    assert world.leader("e-0")[0] == -1
    assert eligible(world) == ((2, 3), (1,), (2, 3))
    world.kill(3)
    assert eligible(world) == ((2,), (1,), (2, 3)), "who leaves in doubt is not eligible"
    world.start_clean(1, stopped_as=epoch)
    assert world.leader("e-0")[:2] == (1, (1,))


def test_a_last_member_that_stopped_cleanly_leads_again() -> None:
    world = last_one_standing()
    world.start_clean(2, stopped_as=world.context.last_epochs[BrokerId(2)])
    assert world.leader("e-0")[:2] == (2, (2,))
    assert eligible(world) == ((2,), (1,), ())


def test_a_file_of_another_incarnation_proves_nothing() -> None:
    world = last_one_standing()
    world.start_clean(2, stopped_as=7)
    assert world.leader("e-0")[0] == -1


def test_an_eligible_replica_that_returns_unclean_is_only_last_known() -> None:
    world = guarded()
    world.alter("e-0", [2, 1])
    world.alter("e-0", [2])
    effects = world.bounce(1)
    assert eligible(world) == ((2,), (), (1,))
    assert told_unclean(effects) == [("e-0/1", "broker 1 returned without a clean shutdown")]
    assert 2 in lai_brokers(effects, "e-0"), (
        "the leader must hear of the raised epoch: it refuses followers ahead of it"
    )
    world.kill(2)
    assert world.leader("e-0")[0] == -1


def test_an_eligible_replica_that_returns_clean_stays_eligible() -> None:
    world = guarded()
    world.alter("e-0", [2, 1])
    world.alter("e-0", [2])
    epoch = world.registrations[1].epoch
    world.kill(1)
    world.start_clean(1, stopped_as=epoch)
    assert eligible(world) == ((2,), (1,), ())
    world.kill(2)
    assert world.leader("e-0")[:2] == (1, (1,))


def test_a_new_controller_that_never_knew_the_broker_reads_of_its_life_in_the_store() -> None:
    world = last_one_standing()
    epoch = world.context.last_epochs[BrokerId(2)]
    world.core.step(Resigned("it died"), 0)
    world.elect(3)
    assert world.context.last_epochs[BrokerId(2)] == epoch
    world.start_clean(2, stopped_as=epoch)
    assert world.leader("e-0")[:2] == (2, (2,))


def test_the_only_replica_leads_again_whatever_became_of_its_cache() -> None:
    world = guarded([2])
    world.kill(2)
    world.start(2)
    assert world.leader("e-0")[:2] == (2, (2,)), "there is nobody else: waiting would help nobody"


def test_after_an_unclean_election_nobody_is_eligible() -> None:
    world = guarded(config={**MIN_ISR_2, "unclean.leader.election.enable": "true"})
    world.alter("e-0", [2, 1])
    world.alter("e-0", [2])
    world.kill(1)
    world.kill(2)
    state = world.states[tp("e-0")].leader_and_isr
    assert (state.leader, state.leader_recovery_state, state.elr) == (3, 1, ())
    assert set(state.last_known_elr) == {1, 2}


def test_an_eligible_replica_that_returns_unclean_does_not_lead_by_its_former_life() -> None:
    """Its return and the election are one event. Seed 475 of the simulator elected an empty log."""
    world = guarded()
    world.alter("e-0", [2])
    assert eligible(world) == ((2,), (1, 3), ())
    world.kill(1, 3)
    world.kill(2)
    world.start(1)  # no clean-shutdown file: what it acknowledged may be gone
    assert world.leader("e-0")[:2] == (-1, (2,))
    assert eligible(world) == ((2,), (3,), (1,))


def test_one_that_leaves_because_the_partition_moved_away_is_not_eligible() -> None:
    """It deletes what it has. Seed 596 of the simulator made it the ISR of a partition nobody had assigned to it."""
    world = guarded([2, 1])
    world.kill(2)
    world.reassign({"e-0": [3, 2]})
    world.catch_up("e-0", 3)
    assert world.leader("e-0")[:2] == (1, (1, 3))
    world.reassign({"e-0": None})
    assert world.leader("e-0")[:2] == (1, (1,))
    assert eligible(world) == ((1,), (), ()), (
        "else it would be eligible with nothing, once it is assigned again"
    )
    written = [write.value for write in world.writes() if isinstance(write, WritePartitionState)]
    assert [value.elr for value in written] == [()] * len(written), (
        "it is told to delete behind the first of them, and the controller may die there"
    )
    world.kill(1)
    world.start(1, 2)  # without a clean stop: whoever is eligible would take its place
    assert world.leader("e-0")[1] == (1,)


def named_by_another_hand() -> World:
    """ISR [2] of [2,1]; the state node calls 3 eligible and 4 last known, whom the topic node does not name: an
    assignment written by another hand leaves them there."""
    world = World().brokers(1, 2, 3, 4)
    world.store_topic("e", [[2, 1]])
    value = state(2, [2], leader_epoch=4)
    former = replace(value.leader_and_isr, elr=(BrokerId(3),), last_known_elr=(BrokerId(1), BrokerId(4)))
    world.states[tp("e-0")] = replace(value, leader_and_isr=former)
    world.configs["e"] = MIN_ISR_2
    world.controller_epoch = 1
    world.elect(1)
    return world


def test_who_begins_anew_by_a_reassignment_is_not_eligible_by_what_it_had_in_a_former_one() -> None:
    world = named_by_another_hand()
    world.reassign({"e-0": [2, 1, 3, 4]})
    assert world.node("e-0") == ((2, 1, 3, 4), (3, 4), ())
    assert eligible(world) == ((2,), (), (1,))
    world.kill(2)
    assert world.leader("e-0")[:2] == (-1, (2,)), "3 has fetched nothing yet"


def test_one_that_a_move_adds_and_that_had_everything_stays_eligible_under_the_next_controller() -> None:
    world = guarded([2, 1])
    world.start(4)
    world.reassign({"e-0": [2, 3, 4]})
    world.catch_up("e-0", 3)
    world.alter("e-0", [2])
    assert eligible(world) == ((2,), (1, 3), ())
    world.core.step(Resigned("it died"), 0)
    world.elect(3)
    assert eligible(world) == ((2,), (1, 3), ())
    assert world.node("e-0") == ((2, 3, 4, 1), (3, 4), (1,))


def test_who_is_not_assigned_is_eligible_no_more_by_the_next_write() -> None:
    world = named_by_another_hand()
    world.kill(2)
    assert world.leader("e-0")[:2] == (-1, (2,))
    assert eligible(world) == ((2,), (), (1,))


# ----------------------------------------------------------------------------------------------- configuration


@pytest.mark.parametrize("entity", [("topics", "e"), ("brokers", "<default>")])
def test_lowering_min_isr_to_the_size_of_the_isr_ends_eligibility(entity: tuple[str, str]) -> None:
    world = guarded()
    world.alter("e-0", [2])
    if entity[0] == "brokers":
        world.context.topic_configs["e"] = {}
        world.context.broker_configs["<default>"] = MIN_ISR_2
    effects = world.step(ConfigChanged(*entity, {"min.insync.replicas": "1"}))
    assert eligible(world) == ((2,), (), ())
    assert world.leader("e-0") == (2, (2,), 1)
    assert lai_brokers(effects) == [1, 2, 3] and moves(effects) == []


def test_lowering_it_forgets_who_was_last_known_beside_a_leader() -> None:
    """From then on records are committed without it: raised again, it is to be asked nothing."""
    world = guarded()
    world.alter("e-0", [2])
    world.bounce(1, 3)
    assert eligible(world) == ((2,), (), (1, 3))
    effects = world.step(ConfigChanged("topics", "e", {"min.insync.replicas": "1"}))
    assert eligible(world) == ((2,), (), ())
    assert world.leader("e-0")[0] == 2 and lai_brokers(effects) == [1, 2, 3]
    world.step(ConfigChanged("topics", "e", MIN_ISR_2))
    world.bounce(2)
    assert world.leader("e-0")[:2] == (2, (2,)), "there is nobody to be asked"


def test_raising_it_makes_nobody_eligible_afterwards() -> None:
    world = guarded(config={"min.insync.replicas": "1"})
    world.alter("e-0", [2])
    world.step(ConfigChanged("topics", "e", MIN_ISR_2))
    assert eligible(world) == ((2,), (), ())
    world.kill(2)
    assert world.leader("e-0")[0] == -1


def test_min_isr_above_the_number_of_replicas_counts_as_all_of_them() -> None:
    world = guarded([2, 1], config={"min.insync.replicas": "3"})
    assert world.context.effective_min_isr(tp("e-0")) == 2
    world.kill(1)
    assert eligible(world) == ((2,), (1,), ())
    world.start(1)
    world.catch_up("e-0", 1)
    assert eligible(world) == ((2, 1), (), ())


# ------------------------------------------------------------------------ configured while there was no controller


def lowered_unseen(leader: int, *dead: int) -> World:
    """ISR [2], eligible [1], left by a controller that knew min.insync.replicas 2; by now it is 1, so 2 alone may have
    acknowledged what 1 never got. The next controller has `dead` not registered."""
    world = World().brokers(*(b for b in (1, 2, 3) if b not in dead))
    world.store_topic("e", [[2, 1, 3]])
    value = state(leader, [2], leader_epoch=4)
    world.states[tp("e-0")] = replace(
        value, leader_and_isr=replace(value.leader_and_isr, elr=(BrokerId(1),), last_known_elr=(BrokerId(3),))
    )
    world.configs["e"] = {"min.insync.replicas": "1"}
    world.controller_epoch = 1
    return world


def test_a_last_member_that_alone_was_enough_keeps_its_place_though_it_returns_unclean() -> None:
    world = lowered_unseen(-1, 2)
    world.elect(1)
    world.start(2)
    assert world.leader("e-0")[:2] == (2, (2,)), "1 misses what 2 acknowledged alone"


def test_who_takes_over_ends_an_eligibility_that_min_isr_has_ended() -> None:
    world = lowered_unseen(2)
    effects = world.elect(1)
    assert eligible(world) == ((2,), (), ())
    assert 2 in lai_brokers(effects, "e-0"), "the leader must hear of the raised epoch"
    world.step(
        ConfigChanged("topics", "e", MIN_ISR_2)
    )  # raised again: 1 has still not what 2 acknowledged alone
    world.kill(2)
    assert world.leader("e-0")[0] == -1


def test_one_that_alone_was_enough_and_was_restarted_under_no_controller_leads_on() -> None:
    world = lowered_unseen(2)
    world.states[tp("e-0")] = replace(world.states[tp("e-0")], isr_broker_epochs=(BrokerEpoch(1),))
    effects = world.elect(1)
    assert asked(effects) == [] and told_unclean(effects) == []
    assert world.leader("e-0")[:2] == (2, (2,))


def test_whoever_min_isr_has_ended_is_not_eligible_by_the_next_member_that_leaves() -> None:
    """ISR [2,3] of min.insync.replicas 3, then 2: what those two acknowledged, 1 need not have."""
    world = World().brokers(1, 2)
    world.store_topic("e", [[2, 1, 3]])
    value = state(2, [2, 3], leader_epoch=4)
    world.states[tp("e-0")] = replace(value, leader_and_isr=replace(value.leader_and_isr, elr=(BrokerId(1),)))
    world.configs["e"] = MIN_ISR_2
    world.controller_epoch = 1
    world.elect(1)
    assert eligible(world) == ((2,), (3,), ())
    world.kill(2)
    assert world.leader("e-0")[0] == -1


# ------------------------------------------------------------------------------------------------ mixed releases


def test_of_one_in_doubt_no_incarnation_is_named_so_that_release_0_2_0_does_not_let_it_lead() -> None:
    """That knows no doubt; of an unknown incarnation it believes nothing, and gives the place to who is eligible."""
    world = last_one_standing()
    assert world.states[tp("e-0")].isr_broker_epochs == (lost_last(world, 2),)
    world.start(2)
    assert world.states[tp("e-0")].isr_broker_epochs == (-1,)
    world.start_clean(1, stopped_as=lost_last(world, 1))
    assert world.states[tp("e-0")].isr_broker_epochs == (world.registrations[1].epoch,)
