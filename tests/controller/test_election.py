"""The four selectors as functions, and the events that use them."""

import pytest

from odradek.controller.election import (
    controlled_shutdown_leader,
    offline_leader,
    preferred_leader,
    reassigned_leader,
)
from odradek.controller.events import Elected, Requested
from odradek.model.controller_requests import ElectLeadersAsked
from odradek.model.facts import ConfigChanged
from tests.controller.six import ids
from tests.controller.world import World, failures, lai, lai_brokers, moves, state, three, tp

# ------------------------------------------------------------------------------------------------- offline


@pytest.mark.behaviour(43, 44, 45)
def test_offline_takes_the_first_assigned_replica_that_is_live_and_in_the_isr() -> None:
    election = offline_leader(replicas=ids(1, 2, 3), isr=ids(3, 1, 2), live=ids(2, 3))
    assert election is not None
    assert election.leader == 2, "in assignment order, not in the order of the ISR (C10)"
    assert election.isr == (3, 2), "what is live of the old ISR"
    assert election.tell == (2, 3), "the live assigned replicas"
    assert not election.unclean


@pytest.mark.behaviour(44)
def test_offline_drops_dead_members_from_the_isr() -> None:
    election = offline_leader(replicas=ids(1, 2, 3), isr=ids(1, 2, 3), live=ids(3))
    assert election is not None and election.isr == (3,)


@pytest.mark.behaviour(46, 51)
@pytest.mark.parametrize("live", [(), (2, 3)])
def test_offline_without_a_live_isr_member_elects_nobody_when_unclean_is_off(live: tuple[int, ...]) -> None:
    assert offline_leader(replicas=ids(1, 2, 3), isr=ids(1), live=ids(*live)) is None


@pytest.mark.behaviour(44, 47)
def test_offline_unclean_takes_the_first_live_replica_alone_in_the_isr() -> None:
    election = offline_leader(replicas=ids(1, 2, 3), isr=ids(1), live=ids(2, 3), unclean_allowed=True)
    assert election is not None
    assert (election.leader, election.isr, election.unclean) == (2, (2,), True)


@pytest.mark.behaviour(47)
def test_offline_unclean_prefers_the_longest_log_among_those_that_answered() -> None:
    election = offline_leader(
        replicas=ids(1, 2, 3), isr=ids(1), live=ids(2, 3), unclean_allowed=True, ranked=ids(3, 2)
    )
    assert election is not None and election.leader == 3


@pytest.mark.behaviour(46)
def test_offline_unclean_with_no_live_replica_at_all_elects_nobody() -> None:
    assert offline_leader(replicas=ids(1, 2), isr=ids(1), live=(), unclean_allowed=True) is None


@pytest.mark.behaviour(43)
def test_offline_is_clean_when_it_can_be_even_if_unclean_is_allowed() -> None:
    election = offline_leader(replicas=ids(1, 2, 3), isr=ids(3), live=ids(2, 3), unclean_allowed=True)
    assert election is not None
    assert (election.leader, election.unclean) == (3, False)


# ------------------------------------------------------------------------------- reassigned and preferred


@pytest.mark.behaviour(48)
def test_reassigned_takes_the_first_target_that_is_live_and_in_the_isr_and_keeps_the_isr() -> None:
    election = reassigned_leader(target_replicas=ids(4, 5, 6), isr=ids(1, 5, 6), live=ids(1, 4, 5, 6))
    assert election is not None
    assert (election.leader, election.isr, election.tell) == (5, (1, 5, 6), (4, 5, 6))


@pytest.mark.behaviour(48)
@pytest.mark.parametrize(("isr", "live"), [((1,), (4, 5)), ((4, 5), (1,)), ((4,), (5,))])
def test_reassigned_waits_while_no_target_is_both_live_and_in_the_isr(
    isr: tuple[int, ...], live: tuple[int, ...]
) -> None:
    assert reassigned_leader(target_replicas=ids(4, 5), isr=ids(*isr), live=ids(*live)) is None


@pytest.mark.behaviour(49)
def test_preferred_takes_the_head_of_the_list_and_keeps_the_isr() -> None:
    election = preferred_leader(replicas=ids(2, 1, 3), isr=ids(3, 2), live=ids(2, 3))
    assert election is not None
    assert (election.leader, election.isr, election.tell) == (2, (3, 2), (2, 1, 3))


@pytest.mark.behaviour(49)
@pytest.mark.parametrize(("isr", "live"), [((1, 3), (1, 2, 3)), ((1, 2, 3), (1, 3))])
def test_preferred_elects_nobody_else(isr: tuple[int, ...], live: tuple[int, ...]) -> None:
    assert preferred_leader(replicas=ids(2, 1, 3), isr=ids(*isr), live=ids(*live)) is None


# ------------------------------------------------------------------------------------ controlled shutdown


@pytest.mark.behaviour(50)
def test_controlled_shutdown_takes_one_that_stays_and_drops_those_that_leave() -> None:
    election = controlled_shutdown_leader(
        replicas=ids(1, 2, 3), isr=ids(3, 1, 2), live=ids(2, 3), shutting_down=ids(1), reachable=ids(1, 2, 3)
    )
    assert election is not None
    assert (election.leader, election.isr) == (2, (3, 2))
    assert election.tell == (1, 2, 3), "the broker that leaves hears of it too"


@pytest.mark.behaviour(50)
def test_controlled_shutdown_with_everyone_leaving_elects_nobody() -> None:
    assert (
        controlled_shutdown_leader(
            replicas=ids(1, 2), isr=ids(1, 2), live=(), shutting_down=ids(1, 2), reachable=ids(1, 2)
        )
        is None
    )


# ------------------------------------------------------------------------------- elections inside an event


@pytest.mark.behaviour(38, 40, 41)
def test_an_event_elects_many_partitions_in_one_batch_and_names_those_it_could_not() -> None:
    world = three("t", [2, 1], [2, 3], [2])
    effects = world.kill(2)
    assert len(world.written) == 1, "one batch"
    assert {str(w.topic_partition): w.value.leader for w in world.writes()} == {  # type: ignore[union-attr]
        "t-0": 1,
        "t-1": 3,
        "t-2": -1,
    }
    assert [change.target for change in failures(effects)] == ["t-2"]
    assert lai_brokers(effects, "t-0") == [1] and lai_brokers(effects, "t-1") == [3]


@pytest.mark.behaviour(35, 36, 41)
def test_an_election_over_a_stale_cache_meets_a_conflict_and_is_made_again_on_the_stored_value() -> None:
    world = three()  # [2,1,3], all in sync

    def another_hand(writes: object) -> None:
        # An old leader shrank its ISR to itself and 3 behind our back: 1 is not in sync any more.
        world.states[tp("t-0")] = state(2, [2, 3], leader_epoch=0, version=1)

    world.before_write = another_hand
    effects = world.kill(2)
    assert world.leader("t-0") == (3, (3,), 1)
    assert len(world.written) == 2, "the first try and the second"
    assert "another value was stored" in failures(effects)[0].reason
    assert lai(effects, 3)[0].leader == 3 and lai(effects, 3)[0].partition_epoch == 2


@pytest.mark.behaviour(37)
def test_a_state_node_of_a_later_controller_stops_the_event_before_any_write() -> None:
    world = World().brokers(1, 2, 3)
    world.store_topic("t", [[2, 1], [3, 1]])
    world.states[tp("t-0")] = state(2, [2, 1], controller_epoch=1)
    world.states[tp("t-1")] = state(3, [3, 1], controller_epoch=5)
    world.controller_epoch = 4
    effects = world.core.step(Elected(*world.election()), 0)
    assert effects.resign == "t-1 was written by controller epoch 5, ours is 4: another controller leads"
    assert effects.writes == () and effects.requests == ()
    assert not world.core.is_active


@pytest.mark.behaviour(37)
def test_a_conflict_with_a_later_controller_resigns() -> None:
    world = three("t", [2, 1], [2, 3])
    world.before_write = lambda writes: world.states.update(
        {tp("t-1"): state(3, [3], leader_epoch=1, version=1, controller_epoch=2)}
    )
    effects = world.kill(2)
    assert effects.resign == "t-1 was written by controller epoch 2, ours is 1: another controller leads"
    assert effects.requests == (), "what was stored is told by the successor"


@pytest.mark.behaviour(39)
def test_a_partition_without_a_candidate_is_named_with_the_reason() -> None:
    world = three("t", [2, 3])
    world.alter("t-0", [2])
    effects = world.kill(2)
    (failure,) = failures(effects)
    assert failure.target == "t-0"
    assert failure.reason == "no member of the ISR [2] can lead; live replicas are [3]"


def test_that_the_preferred_replica_is_away_is_not_said_of_the_isr() -> None:
    """Its members can lead, and one does: only this election may not choose them."""
    world = three("t", [2, 3])
    world.kill(2)
    (failure,) = failures(world.step(Requested(3, ElectLeadersAsked(False, (tp("t-0"),)))))
    assert world.leader("t-0") == (3, (3,), 1)
    assert failure.reason == "no member of the ISR [3] may lead in this election; live replicas are [3]"


@pytest.mark.behaviour(51, 52)
def test_the_only_replica_is_never_replaced_and_leads_again_when_it_returns() -> None:
    world = three("s3", [2])
    effects = world.kill(2)
    assert world.leader("s3-0") == (-1, (2,), 1)
    assert lai_brokers(effects) == [], "no other copy: nobody to tell"
    world.start(2)
    assert world.leader("s3-0") == (2, (2,), 2)


@pytest.mark.behaviour(47, 166)
def test_turning_unclean_on_elects_at_once() -> None:
    world = three("t", [2, 3])
    world.alter("t-0", [2])
    world.kill(2)
    effects = world.step(ConfigChanged("topics", "t", {"unclean.leader.election.enable": "true"}))
    stored = world.states[tp("t-0")].leader_and_isr
    assert (stored.leader, stored.isr, stored.leader_recovery_state) == (3, (3,), 1)
    assert ("t-0", "Offline", "Online") in moves(effects)


@pytest.mark.behaviour(166)
def test_turning_unclean_on_for_the_cluster_elects_at_once_and_for_another_topic_does_not() -> None:
    world = three("t", [2, 3])
    world.alter("t-0", [2])
    world.kill(2)
    world.step(ConfigChanged("topics", "other", {"unclean.leader.election.enable": "true"}))
    assert world.leader("t-0")[0] == -1
    world.step(ConfigChanged("brokers", "<default>", {"unclean.leader.election.enable": "true"}))
    assert world.leader("t-0")[0] == 3


def test_the_recovery_state_stays_through_clean_elections_until_alter_partition() -> None:
    world = three("t", [2, 3])
    world.alter("t-0", [2])
    world.kill(2)
    world.step(ConfigChanged("topics", "t", {"unclean.leader.election.enable": "true"}))
    world.kill(3)
    world.start(3)
    assert world.states[tp("t-0")].leader_and_isr.leader_recovery_state == 1
    world.alter("t-0", [3], recovery=0)
    assert world.states[tp("t-0")].leader_and_isr.leader_recovery_state == 0
