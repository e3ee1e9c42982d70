"""Preferred elections: by request, by the older node, by itself."""

import pytest

from odradek.controller.context import ControllerSettings
from odradek.controller.effects import Effects, RemovePreferredElectionNode
from odradek.controller.events import LeaderAndIsrAnswered, Requested, Tick
from odradek.controller.rebalance_leaders import FIRST_CHECK_MS
from odradek.model.controller_requests import ElectLeadersAnswer, ElectLeadersAsked
from odradek.model.error_codes import ErrorCode
from odradek.model.facts import DeleteTopicsRequested, PreferredElectionRequested
from odradek.model.ids import BrokerId
from tests.controller.world import World, answer_of, failures, lai, lai_brokers, metadata, moves, three, tp


def prefer(world: World, *partitions: str) -> Effects:
    asked = tuple(tp(text) for text in partitions) if partitions else None
    return world.step(Requested(3, ElectLeadersAsked(False, asked)))


def results(effects: Effects) -> dict[str, tuple[ErrorCode, str]]:
    answer = answer_of(effects)
    assert isinstance(answer, ElectLeadersAnswer) and answer.error is ErrorCode.NONE
    return {str(t): r for t, r in answer.partitions.items()}


def away(*assignment: list[int]) -> World:
    """Broker 2 was away: its partitions are led by others, and it is in the ISR again."""
    world = three("t", *(assignment or ([2, 1, 3],)))
    world.kill(2)
    world.start(2)
    for text in sorted(str(t) for t in world.states):
        if 2 not in world.leader(text)[1]:
            world.catch_up(text, 2)
    return world


@pytest.mark.behaviour(7, 49, 91, 122)
def test_the_preferred_replica_leads_again_and_the_isr_keeps_its_order() -> None:
    world = away()
    effects = prefer(world, "t-0")
    assert results(effects) == {"t-0": (ErrorCode.NONE, "")}
    assert world.leader("t-0") == (2, (1, 3, 2), 2)  # golden 03a
    assert moves(effects) == [("t-0", "Online", "Online")]
    assert lai_brokers(effects) == [1, 2, 3] and lai(effects, 1)[0].leader == 2
    assert [m.broker for m in metadata(effects)] == [1, 2, 3]


@pytest.mark.behaviour(122)
def test_who_leads_already_need_not_be_elected() -> None:
    world = three()
    effects = prefer(world, "t-0")
    assert results(effects) == {
        "t-0": (ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
    }
    assert world.writes() == []


@pytest.mark.behaviour(49)
def test_a_preferred_replica_that_is_dead_or_out_of_sync_is_not_available() -> None:
    world = three("t", [2, 1, 3])
    world.kill(2)
    error, why = results(prefer(world, "t-0"))["t-0"]
    assert error is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    assert why == (
        "Failed to elect leader for partition t-0 under strategy PreferredReplicaPartitionLeaderElectionStrategy"
    )
    world.start(2)
    assert results(prefer(world, "t-0"))["t-0"][0] is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    assert world.leader("t-0")[0] == 1


def last_of_the_isr_on_a_failed_disk() -> World:
    """2 is preferred, alone in the ISR, and lives; the disk with its log does not."""
    world = three("t", [2, 1, 3])
    world.alter("t-0", [2])
    lost = {tp("t-0"): ErrorCode.KAFKA_STORAGE_ERROR}
    world.step(LeaderAndIsrAnswered(BrokerId(2), world.registrations[2].epoch, ErrorCode.NONE, lost))
    assert world.leader("t-0")[:2] == (-1, (2,))
    return world


@pytest.mark.behaviour(49)
def test_a_preferred_replica_on_a_failed_disk_is_not_available_though_nobody_else_is_in_sync() -> None:
    world = last_of_the_isr_on_a_failed_disk()
    assert results(prefer(world, "t-0"))["t-0"][0] is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    assert world.leader("t-0")[:2] == (-1, (2,)) and world.writes() == []


def test_a_failed_disk_keeps_no_partition_of_another_disk_from_its_preferred_replica() -> None:
    """Although their replicas and ISRs are the same: the failure is known, and not written to any ISR yet."""
    world = away([2, 1, 3], [2, 1, 3])
    world.context.offline_directories[BrokerId(2)] = {tp("t-0")}

    found = results(prefer(world, "t-0", "t-1"))

    assert found["t-0"][0] is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    assert found["t-1"][0] is ErrorCode.NONE
    assert (world.leader("t-0")[0], world.leader("t-1")[0]) == (1, 2)


@pytest.mark.behaviour(161)
def test_the_check_does_not_try_to_elect_a_preferred_replica_on_a_failed_disk() -> None:
    world = last_of_the_isr_on_a_failed_disk()
    assert tick(world, FIRST_CHECK_MS).changes == ()


@pytest.mark.behaviour(122)
def test_over_all_partitions_only_those_that_change_are_answered() -> None:
    world = away([2, 1], [1, 2], [2, 3])
    assert set(results(prefer(world))) == {"t-0", "t-2"}
    assert results(prefer(world)) == {}


def test_unknown_partitions_and_deleted_topics_are_told_so() -> None:
    world = three("t", [2, 1])
    world.delete_topics = ("t",)
    world.step(DeleteTopicsRequested(("t",)))
    found = results(prefer(world, "t-0", "nobody-0"))
    assert found["t-0"] == (ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic is being deleted")
    assert found["nobody-0"] == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")


def test_who_is_not_controller_elects_nobody() -> None:
    world = three()
    world.core.context = None
    answer = answer_of(prefer(world, "t-0"))
    assert answer == ElectLeadersAnswer(ErrorCode.NOT_CONTROLLER, {})


@pytest.mark.behaviour(121, 122)
def test_the_older_node_is_obeyed_and_removed() -> None:
    world = away()
    effects = world.step(PreferredElectionRequested((tp("t-0"), tp("nobody-0")), 0))
    assert world.leader("t-0")[0] == 2
    assert world.removed == [RemovePreferredElectionNode()]
    assert effects.answers == ()


@pytest.mark.behaviour(122)
def test_the_older_node_is_removed_even_if_nothing_came_of_it() -> None:
    world = three()
    world.step(PreferredElectionRequested((tp("nobody-0"),), 0))
    assert world.removed == [RemovePreferredElectionNode()]
    world.removed.clear()
    world.step(PreferredElectionRequested(()))
    assert world.removed == [], "it is gone: our own removal coming back"


@pytest.mark.behaviour(121)
def test_a_new_controller_obeys_the_older_node_last() -> None:
    world = away()
    world.preferred = PreferredElectionRequested((tp("t-0"),), 0)
    effects = world.elect(3)
    assert world.leader("t-0")[0] == 2
    ready = next(i for i, c in enumerate(effects.changes) if c.to == "ready")
    elected = next(
        i for i, c in enumerate(effects.changes) if c.target == "t-0" and c.to == "OnlinePartition"
    )
    assert ready < elected


# ------------------------------------------------------------------------------------------------- by itself


def tick(world: World, after_ms: int) -> Effects:
    world.now_ms += after_ms
    return world.step(Tick())


@pytest.mark.behaviour(135, 137, 141, 161)
def test_a_broker_that_leads_too_few_of_its_partitions_gets_them_back_by_itself() -> None:
    world = away([2, 1], [2, 3], [1, 2])
    assert world.core.next_deadline_ms() == world.now_ms + FIRST_CHECK_MS
    effects = tick(world, FIRST_CHECK_MS)
    assert [world.leader(f"t-{p}")[0] for p in range(3)] == [2, 2, 1]
    assert effects.changes[0].reason.startswith("preferred election, automatic rebalance")
    assert world.core.next_deadline_ms() == world.now_ms + 300_000


@pytest.mark.behaviour(161)
def test_an_imbalance_at_the_limit_is_left_alone() -> None:
    world = away(*([2, 1] for _ in range(10)))
    for p in range(9):
        prefer(world, f"t-{p}")
    assert tick(world, FIRST_CHECK_MS).changes == (), "one of ten is ten per cent, not more"
    assert world.leader("t-9")[0] == 1
    world.context.settings = ControllerSettings(leader_imbalance_per_broker_percentage=9)
    tick(world, 300_000)
    assert world.leader("t-9")[0] == 2


@pytest.mark.behaviour(161)
def test_partitions_that_may_not_return_are_skipped() -> None:
    world = three("t", [2, 1], [2, 1], [2, 1])
    world.kill(2)
    world.start(2)
    world.catch_up("t-0", 2)
    world.catch_up("t-1", 2)
    world.reassign({"t-1": [2, 3]})
    effects = tick(world, FIRST_CHECK_MS)
    assert [world.leader(f"t-{p}")[0] for p in range(3)] == [2, 1, 1]
    assert failures(effects) == [], "skipped, not tried and failed: t-1 is reassigned, t-2 not in the ISR"


@pytest.mark.behaviour(161)
def test_it_can_be_switched_off() -> None:
    world = World(ControllerSettings(auto_leader_rebalance_enable=False)).brokers(1, 2)
    world.elect()
    assert world.core.next_deadline_ms() is None


def test_a_tick_before_its_time_does_nothing() -> None:
    world = away()
    assert tick(world, FIRST_CHECK_MS - 1).changes == ()
    assert world.leader("t-0")[0] == 1
