"""Brokers come, go, bounce, change and lose disks."""

import pytest

from odradek.controller.broker_requests import LeaderAndIsrRequest, UpdateMetadataRequest
from odradek.controller.events import LeaderAndIsrAnswered
from odradek.controller.states import PartitionState, ReplicaState
from odradek.model.error_codes import ErrorCode
from odradek.model.facts import BrokersChanged, LogDirFailed, TopicsChanged, UnreadableNode
from odradek.model.ids import BrokerEpoch, BrokerId
from tests.controller.world import (
    World,
    failures,
    lai,
    lai_brokers,
    metadata,
    moves,
    registration,
    stops,
    three,
    tp,
)


@pytest.mark.behaviour(2, 84, 91, 93, 98, 99, 100)
def test_the_death_of_a_leader_goes_offline_online_and_then_takes_the_replica_out() -> None:
    world = three()
    effects = world.kill(2)
    assert moves(effects) == [
        ("t-0", "Online", "Offline"),
        ("t-0", "Offline", "Online"),
        ("t-0/2", "Online", "Offline"),
    ]
    # golden 03a: one write, leader and ISR together, one epoch.
    assert len(world.writes()) == 1
    assert world.leader("t-0") == (1, (1, 3), 1)
    assert lai_brokers(effects) == [1, 3]
    assert lai(effects, 1) == lai(effects, 3)
    assert [(m.broker, m.partitions[0].offline_replicas) for m in metadata(effects)] == [(1, (2,)), (3, (2,))]
    assert stops(effects) == [], "a dead broker is not told anything"


@pytest.mark.behaviour(55, 85, 100)
def test_a_dead_follower_leaves_the_isr_with_a_new_epoch() -> None:
    world = three("t", [1, 2, 3])
    effects = world.kill(3)
    # golden 03b: no election, the controller takes it out of the ISR.
    assert moves(effects) == [("t-0/3", "Online", "Offline")]
    assert world.leader("t-0") == (1, (1, 2), 1)
    (departure,) = [c for c in effects.changes if c.kind == "leadership"]
    assert departure.before is not None and departure.leader_and_isr is not None
    assert (departure.replica, departure.before.isr, departure.leader_and_isr.isr) == (3, (1, 2, 3), (1, 2))
    assert lai_brokers(effects) == [1, 2]


@pytest.mark.behaviour(99)
def test_two_leaders_that_die_together_cost_one_write_and_one_epoch_a_partition() -> None:
    world = three("t", [2, 3, 1])
    world.kill(2, 3)
    assert world.leader("t-0") == (1, (1,), 1)
    assert len(world.writes()) == 1


@pytest.mark.behaviour(32, 99)
def test_partitions_that_waited_for_any_broker_are_tried_again_when_one_goes() -> None:
    world = World().brokers(1, 2)
    world.elect()
    world.create("t", [3])
    effects = world.kill(2)
    assert [change.target for change in failures(effects)] == ["t-0"]


@pytest.mark.behaviour(155)
def test_a_death_that_moves_no_partition_is_still_told_to_every_broker() -> None:
    world = three("t", [1, 2])
    effects = world.kill(3)
    assert [(m.broker, m.partitions) for m in metadata(effects)] == [(1, ()), (2, ())]
    assert all([r.broker_id for r in m.live_brokers] == [1, 2] for m in metadata(effects))
    assert len(effects.requests) == 2


@pytest.mark.behaviour(29, 102)
def test_partitions_of_a_topic_queued_for_deletion_are_not_elected() -> None:
    world = three("t", [2, 1], [2, 3])
    world.context.topics_to_delete.add("t")
    world.context.commit_partition_state(tp("t-1"), PartitionState.OFFLINE)
    effects = world.settle(BrokersChanged((world.registrations[1], world.registrations[3])))
    assert [m for m in moves(effects) if m[0] in ("t-0", "t-1")] == []
    assert failures(effects) == []


# ------------------------------------------------------------------------------------------------ start-up


@pytest.mark.behaviour(103, 104, 84, 66)
def test_a_start_tells_the_others_first_then_everything_to_the_newcomer_then_its_replicas() -> None:
    world = three("t", [2, 1, 3], [1, 3])
    world.kill(2)
    effects = world.start(2)
    shape = [
        (type(r).__name__, r.broker, len(r.partitions))
        for r in effects.requests
        if isinstance(r, LeaderAndIsrRequest | UpdateMetadataRequest)
    ]
    assert shape == [
        ("UpdateMetadataRequest", 1, 0),  # they must know 2 before anybody follows it
        ("UpdateMetadataRequest", 3, 0),
        ("UpdateMetadataRequest", 2, 2),  # the whole cluster
        ("UpdateMetadataRequest", 1, 1),
        ("LeaderAndIsrRequest", 2, 1),
        ("UpdateMetadataRequest", 2, 1),
        ("UpdateMetadataRequest", 3, 1),
    ]
    assert all([b.broker_id for b in m.live_brokers] == [1, 2, 3] for m in metadata(effects))
    assert moves(effects) == [("t-0/2", "Offline", "Online")]
    assert world.writes() == [], "it follows, and joins the ISR by AlterPartition"
    assert not lai(effects, 2)[0].is_new


@pytest.mark.behaviour(32, 105)
def test_a_start_elects_partitions_that_waited_for_it() -> None:
    world = three("t", [2], [2, 3])
    world.kill(3)
    world.kill(2)
    effects = world.start(2)
    assert moves(effects) == [
        ("t-0/2", "Offline", "Online"),
        ("t-1/2", "Offline", "Online"),
        ("t-0", "Offline", "Online"),
        ("t-1", "Offline", "Online"),
    ]
    assert [p.leader for p in lai(effects, 2)] == [2, 2], "one LeaderAndIsr with the result, not one a move"
    assert len([r for r in effects.requests if isinstance(r, LeaderAndIsrRequest)]) == 1


def test_two_brokers_that_start_at_once_are_told_of_each_other() -> None:
    world = World().brokers(1)
    world.elect()
    effects = world.start(2, 3)
    assert [(m.broker, [b.broker_id for b in m.live_brokers]) for m in metadata(effects)] == [
        (1, [1, 2, 3]),
        (2, [1, 2, 3]),
        (3, [1, 2, 3]),
    ]


# -------------------------------------------------------------------------------------------------- bounce


@pytest.mark.behaviour(153)
def test_a_bounce_is_failure_and_then_start_up_even_if_nobody_saw_it_go() -> None:
    world = three()
    effects = world.bounce(2)
    assert moves(effects) == [
        ("t-0", "Online", "Offline"),
        ("t-0", "Offline", "Online"),
        ("t-0/2", "Online", "Offline"),
        ("t-0/2", "Offline", "Online"),
    ]
    assert world.leader("t-0") == (1, (1, 3), 1)  # golden 09c: out of the ISR, it must catch up again
    first = next(m for m in metadata(effects) if m.broker == 1)
    assert [b.broker_id for b in first.live_brokers] == [1, 3], "gone in the first picture"
    told = lai(effects, 2)
    assert [p.leader for p in told] == [1]
    assert effects.requests[-1].broker_epoch == world.registrations[3].epoch
    assert {r.broker_epoch for r in effects.requests if r.broker == 2} == {world.registrations[2].epoch}


@pytest.mark.behaviour(153)
def test_the_only_replica_that_bounces_leads_again_with_a_new_epoch() -> None:
    world = three("s3", [2])
    world.bounce(2)
    assert world.leader("s3-0") == (2, (2,), 2)


def test_a_registration_that_changed_without_a_new_epoch_moves_nothing_and_is_told_to_all() -> None:
    world = three()
    world.registrations[2] = registration(2, world.registrations[2].epoch, port=19092)
    effects = world.step(world.brokers_changed())
    assert moves(effects) == [] and world.writes() == []
    assert [(m.broker, m.partitions) for m in metadata(effects)] == [(1, ()), (2, ()), (3, ())]
    assert metadata(effects)[0].live_brokers[1].endpoints[0].port == 19092


def test_a_fact_that_says_nothing_new_asks_for_nothing() -> None:
    world = three()
    effects = world.step(world.brokers_changed())
    assert effects.requests == () and effects.changes == ()


def test_a_registration_that_cannot_be_read_does_not_count_as_death() -> None:
    world = three()
    there = tuple(world.registrations[b] for b in (1, 3))
    broken = UnreadableNode("/brokers/ids/2", "bad JSON")
    effects = world.step(BrokersChanged(there, (broken,)))
    assert effects.requests == () and world.leader("t-0")[0] == 2


@pytest.mark.parametrize("name", ["\u00b2", "two", "-2", "9" * 5000])
def test_a_registration_under_a_name_that_is_no_number_is_nobodys(name: str) -> None:
    world = three()
    registered = tuple(world.registrations[b] for b in (1, 2, 3))
    effects = world.step(
        BrokersChanged(registered, (UnreadableNode(f"/brokers/ids/{name}", "no broker id"),))
    )
    assert effects.requests == () and sorted(world.context.brokers) == [1, 2, 3]


# --------------------------------------------------------------------------------------------------- disks


@pytest.mark.behaviour(150)
def test_a_failed_disk_is_found_by_asking_and_takes_its_replicas_offline() -> None:
    world = three("t", [2, 1, 3], [2, 3, 1])
    asked = world.step(LogDirFailed((BrokerId(2),)))
    assert [str(p.topic_partition) for p in lai(asked, 2)] == ["t-0", "t-1"]
    assert world.writes() == []
    effects = world.step(
        LeaderAndIsrAnswered(
            BrokerId(2),
            world.registrations[2].epoch,
            ErrorCode.NONE,
            {tp("t-0"): ErrorCode.KAFKA_STORAGE_ERROR},
            tuple(lai(asked, 2)),
        )
    )
    assert world.leader("t-0") == (1, (1, 3), 1)
    assert world.leader("t-1") == (2, (2, 3, 1), 0), "the other disk of broker 2 works"
    assert world.replica_state("t-0", 2) is ReplicaState.OFFLINE
    assert [p.offline_replicas for p in metadata(effects)[0].partitions] == [(2,)]
    assert [(s.broker, s.partitions[0].delete) for s in stops(effects)] == [(2, False)]


@pytest.mark.behaviour(150)
def test_a_replica_that_is_being_added_is_asked_too() -> None:
    world = three("t", [2, 1])
    world.reassign({"t-0": [2, 3]})
    asked = world.step(LogDirFailed((BrokerId(3),)))
    assert [(str(p.topic_partition), p.is_new) for p in lai(asked, 3)] == [("t-0", True)]
    assert world.replica_state("t-0", 3) is ReplicaState.NEW, "it has not started"
    lost = {tp("t-0"): ErrorCode.KAFKA_STORAGE_ERROR}
    epoch = world.registrations[3].epoch
    effects = world.step(LeaderAndIsrAnswered(BrokerId(3), epoch, ErrorCode.NONE, lost, tuple(lai(asked, 3))))
    assert world.replica_state("t-0", 3) is ReplicaState.OFFLINE
    assert [p.offline_replicas for p in metadata(effects)[0].partitions] == [(3,)]


@pytest.mark.behaviour(150)
def test_a_replica_on_a_failed_disk_is_not_elected_until_its_broker_returns() -> None:
    world = three("t", [2, 3])
    answered = LeaderAndIsrAnswered(
        BrokerId(2), world.registrations[2].epoch, ErrorCode.NONE, {tp("t-0"): ErrorCode.KAFKA_STORAGE_ERROR}
    )
    world.step(answered)
    world.kill(3)
    assert world.leader("t-0") == (-1, (3,), 2)
    world.bounce(2)
    assert world.context.offline_directories.get(BrokerId(2)) is None
    assert world.leader("t-0")[0] == -1, "it was not in the ISR"
    world.start(3)
    assert world.leader("t-0")[0] == 3


@pytest.mark.behaviour(150)
def test_a_replica_told_again_without_an_error_is_well() -> None:
    world = three("t", [2, 1], [2, 3])
    epoch = world.registrations[2].epoch
    lost = {tp("t-0"): ErrorCode.KAFKA_STORAGE_ERROR, tp("t-1"): ErrorCode.KAFKA_STORAGE_ERROR}
    world.step(LeaderAndIsrAnswered(BrokerId(2), epoch, ErrorCode.NONE, lost))
    again = world.step(LogDirFailed((BrokerId(2),)))
    told = tuple(lai(again, 2))
    assert len(told) == 2
    del lost[tp("t-0")]
    world.step(LeaderAndIsrAnswered(BrokerId(2), epoch, ErrorCode.NONE, lost, told))
    assert world.context.offline_directories[BrokerId(2)] == {tp("t-1")}
    world.step(LeaderAndIsrAnswered(BrokerId(2), epoch, ErrorCode.NONE, {}, told))
    assert world.context.all_log_dirs_online()


@pytest.mark.behaviour(150)
def test_a_request_that_was_refused_as_a_whole_says_nothing_of_any_disk() -> None:
    """The broker has just registered anew, and the controller has not heard of that."""
    world = three("t", [2, 1])
    epoch = world.registrations[2].epoch
    world.step(
        LeaderAndIsrAnswered(BrokerId(2), epoch, ErrorCode.NONE, {tp("t-0"): ErrorCode.KAFKA_STORAGE_ERROR})
    )
    told = tuple(lai(world.step(LogDirFailed((BrokerId(2),))), 2))
    effects = world.step(LeaderAndIsrAnswered(BrokerId(2), epoch, ErrorCode.STALE_BROKER_EPOCH, {}, told))
    assert effects.requests == ()
    assert world.context.offline_directories == {BrokerId(2): {tp("t-0")}}


@pytest.mark.behaviour(150)
def test_a_replica_that_is_well_again_is_online_before_it_is_elected() -> None:
    """It was asked twice, and answers well to the second: its broker made it anew in between. The ISR may grow then."""
    world = three("t", [2, 1])
    world.kill(1)
    epoch = world.registrations[2].epoch
    lost = {tp("t-0"): ErrorCode.KAFKA_STORAGE_ERROR}
    told = tuple(lai(world.step(LogDirFailed((BrokerId(2),))), 2))
    assert lai(world.step(LogDirFailed((BrokerId(2),))), 2) == list(told) != []
    world.step(LeaderAndIsrAnswered(BrokerId(2), epoch, ErrorCode.NONE, lost, told))
    assert world.leader("t-0")[0] == -1 and world.replica_state("t-0", 2) is ReplicaState.OFFLINE

    effects = world.step(LeaderAndIsrAnswered(BrokerId(2), epoch, ErrorCode.NONE, {}, told))

    assert world.replica_state("t-0", 2) is ReplicaState.ONLINE
    assert world.leader("t-0")[0] == 2
    assert [p.leader for p in lai(effects, 2)] == [2]


@pytest.mark.behaviour(150)
def test_a_replica_that_was_told_again_in_vain_is_offline_still() -> None:
    world = three("t", [2, 1], [2, 3])
    epoch = world.registrations[2].epoch
    lost = {tp("t-0"): ErrorCode.KAFKA_STORAGE_ERROR}
    world.step(LeaderAndIsrAnswered(BrokerId(2), epoch, ErrorCode.NONE, lost))
    told = tuple(lai(world.step(LogDirFailed((BrokerId(2),))), 2))

    effects = world.step(LeaderAndIsrAnswered(BrokerId(2), epoch, ErrorCode.NONE, lost, told))

    assert world.replica_state("t-0", 2) is ReplicaState.OFFLINE
    assert world.leader("t-0") == (1, (1,), 1)
    assert world.step(LeaderAndIsrAnswered(BrokerId(2), epoch, ErrorCode.NONE, lost, told)).requests == ()
    assert lai(effects, 2) == []


def test_an_answer_of_an_earlier_incarnation_is_not_believed() -> None:
    world = three()
    stale = LeaderAndIsrAnswered(
        BrokerId(2), BrokerEpoch(1), ErrorCode.NONE, {tp("t-0"): ErrorCode.KAFKA_STORAGE_ERROR}
    )
    assert world.step(stale).requests == ()
    assert world.leader("t-0")[0] == 2


def test_an_answer_about_a_replica_that_is_not_assigned_any_more_is_not_believed() -> None:
    """Its broker hung on the disk that failed. Meanwhile a hand took the topic's nodes away, and made it again elsewhere."""
    world = three("t", [3, 2])
    del world.topics["t"], world.states[tp("t-0")]
    world.step(TopicsChanged(()))
    world.create("t", [1, 2])
    lost = {tp("t-0"): ErrorCode.KAFKA_STORAGE_ERROR}
    effects = world.step(
        LeaderAndIsrAnswered(BrokerId(3), world.registrations[3].epoch, ErrorCode.NONE, lost)
    )
    assert effects.resign is None and effects.requests == ()
    assert world.leader("t-0")[:2] == (1, (1, 2))


@pytest.mark.behaviour(147)
def test_a_partition_answered_with_a_stale_epoch_is_an_acknowledgement() -> None:
    world = three()
    effects = world.step(
        LeaderAndIsrAnswered(
            BrokerId(2),
            world.registrations[2].epoch,
            ErrorCode.NONE,
            {tp("t-0"): ErrorCode.STALE_CONTROLLER_EPOCH},
        )
    )
    assert effects.resign is None and effects.requests == ()


@pytest.mark.behaviour(146)
def test_a_broker_that_obeys_a_later_controller_makes_us_resign() -> None:
    world = three()
    answered = LeaderAndIsrAnswered(
        BrokerId(2), world.registrations[2].epoch, ErrorCode.STALE_CONTROLLER_EPOCH
    )
    effects = world.step(answered)
    assert effects.resign == "broker 2 has heard of a controller epoch above 1"


def test_a_broker_that_starts_is_told_that_it_is_told_of_all_there_is() -> None:
    """It may only have registered anew, and know topics that were deleted meanwhile."""
    world = three("t", [2, 1], [1, 2])
    world.kill(3)
    told = metadata(world.brokers(3).step(world.brokers_changed()))
    assert [(m.broker, len(m.partitions), m.is_whole) for m in told[:3]] == [
        (1, 0, False),
        (2, 0, False),
        (3, 2, True),
    ]
    world.context.out_of_service["u"] = "bad JSON"
    world.kill(3)
    told = metadata(world.brokers(3).step(world.brokers_changed()))
    assert [(m.broker, len(m.partitions), m.is_whole) for m in told[:3]] == [
        (1, 0, False),
        (2, 0, False),
        (3, 2, False),
    ]
    empty = World().brokers(1)
    empty.elect(1)
    told = metadata(empty.brokers(2).step(empty.brokers_changed()))
    assert [(m.broker, m.is_whole) for m in told] == [(1, False), (2, True)]
