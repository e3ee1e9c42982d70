"""Reassignment: an election of the controller's own may be what it waited for. No leader asks for that ISR, so no
AlterPartition says that it is there."""

from collections.abc import Callable

import pytest

from odradek.controller.core import ControllerCore
from odradek.controller.effects import Effects
from odradek.controller.events import EndOffsetsAnswered, LeaderAndIsrAnswered, Requested, Tick
from odradek.controller.unclean import PATIENCE_MS
from odradek.model.controller_requests import ElectLeadersAsked
from odradek.model.error_codes import ErrorCode
from odradek.model.facts import ConfigChanged, LogDirFailed
from odradek.model.ids import BrokerId, LeaderEpoch, Offset
from tests.controller.world import World, lai, topic_id_of, tp

UNCLEAN = "unclean.leader.election.enable"


def leaderless(*replicas: int) -> World:
    """r-0 on `replicas` and broker 9; the last in sync, 9, has died. Broker 1 is controller."""
    world = World().brokers(1, 2, 3, 9)
    world.elect(1)
    world.create("r", [9, *replicas])
    world.alter("r-0", [9])
    world.kill(9)
    assert world.leader("r-0")[:2] == (-1, (9,))
    return world


def turned_on(world: World) -> Effects:
    return world.step(ConfigChanged("topics", "r", {UNCLEAN: "true"}))


def asked_for(world: World) -> Effects:
    return world.step(Requested(3, ElectLeadersAsked(unclean=True, partitions=(tp("r-0"),))))


@pytest.mark.parametrize("elect", [turned_on, asked_for])
def test_an_unclean_election_that_leaves_the_target_alone_in_the_isr_ends_it(
    elect: Callable[[World], Effects],
) -> None:
    """What heals a partition whose only member in sync is lost for good: it is told to live without that one."""
    world = leaderless(2)
    world.reassign({"r-0": [2]})
    elect(world)
    assert world.leader("r-0")[:2] == (2, (2,))
    assert world.node("r-0") == ((2,), (), ()) and world.context.reassignments == {}


@pytest.mark.parametrize("is_answered", [True, False])
def test_so_does_one_whose_candidates_were_asked_what_they_hold(is_answered: bool) -> None:
    world = leaderless(2, 3)
    world.reassign({"r-0": [3]})
    asked_for(world)
    assert world.leader("r-0")[0] == -1, "the best of 2 and 3 is to lead"
    if is_answered:
        for broker, end in ((2, 5), (3, 7)):
            ends = {tp("r-0"): (LeaderEpoch(0), Offset(end))}
            world.step(EndOffsetsAnswered(BrokerId(broker), ends))
    else:
        world.now_ms += PATIENCE_MS
        world.step(Tick())
    assert world.leader("r-0")[:2] == (3, (3,))
    world.stopped(2, "r-0")
    assert world.node("r-0") == ((3,), (), ()) and world.context.reassignments == {}


def test_a_target_that_leads_as_the_eligible_replica_ends_it() -> None:
    world = World().brokers(1, 2, 9)
    world.elect(1)
    world.create("r", [9, 2])
    world.context.topic_configs["r"] = {"min.insync.replicas": "2"}
    world.alter("r-0", [9])
    world.reassign({"r-0": [2]})
    world.kill(9)
    assert world.leader("r-0")[:2] == (2, (2,)), "it has every committed record"
    assert world.node("r-0") == ((2,), (), ()) and world.context.reassignments == {}


def test_a_target_that_leads_again_because_its_log_is_well_ends_it() -> None:
    world = World().brokers(1, 2, 9)
    world.elect(1)
    world.create("r", [2, 9])
    world.kill(9)
    epoch = world.registrations[2].epoch
    lost = {tp("r-0"): ErrorCode.KAFKA_STORAGE_ERROR}
    told = tuple(lai(world.step(LogDirFailed((BrokerId(2),))), 2))
    world.step(LeaderAndIsrAnswered(BrokerId(2), epoch, ErrorCode.NONE, lost, told))
    world.reassign({"r-0": [2]})
    assert world.leader("r-0")[:2] == (-1, (2,)) and tp("r-0") in world.context.reassignments
    world.step(LeaderAndIsrAnswered(BrokerId(2), epoch, ErrorCode.NONE, {}, told))
    assert world.leader("r-0")[:2] == (2, (2,))
    assert world.node("r-0") == ((2,), (), ()) and world.context.reassignments == {}


def test_a_target_that_leads_once_the_older_topic_is_deleted_there_ends_it() -> None:
    world = leaderless(2)
    world.pending_deletions[BrokerId(2)] = {tp("r-0"): topic_id_of("r", 7)}
    world.core = ControllerCore(world.settings)
    world.configs["r"] = {UNCLEAN: "true"}
    world.elect(1)
    world.reassign({"r-0": [2]})
    assert world.leader("r-0")[:2] == (-1, (9,))
    world.stopped(2, "r-0")
    assert world.leader("r-0")[:2] == (2, (2,))
    assert world.node("r-0") == ((2,), (), ()) and world.context.reassignments == {}


def test_a_target_that_leads_when_some_other_broker_starts_ends_it() -> None:
    """Whoever starts, every partition without a leader is tried again; this one could not be led when that was allowed."""
    world = World().brokers(1, 3, 9)
    world.configs["r"] = {UNCLEAN: "true"}
    world.elect(1)
    world.create("r", [9])
    world.context.topic_configs["r"] = {UNCLEAN: "true"}
    world.kill(9)
    world.reassign({"r-0": [3]})
    assert world.leader("r-0")[:2] == (-1, (9,))
    world.start(2)
    assert world.leader("r-0")[:2] == (3, (3,))
    assert world.node("r-0") == ((3,), (), ()) and world.context.reassignments == {}
