"""A reassignment is replaced by another, or cancelled: what came goes, what was to go stays."""

from contextlib import suppress

import pytest

from odradek.controller.core import ControllerCore
from odradek.controller.states import ReplicaState
from odradek.model.error_codes import ErrorCode
from tests.controller.six import result, six, told_to_delete
from tests.controller.world import (
    ControllerDied,
    lai,
    lai_brokers,
    moves,
)


@pytest.mark.behaviour(162)
def test_a_replacement_drops_what_is_no_longer_wanted_and_goes_on_with_the_rest() -> None:
    world = six([1, 2, 3])
    world.reassign({"r-0": [4, 5, 6]})
    effects = world.reassign({"r-0": [4, 5, 3]})
    assert world.node("r-0") == ((4, 5, 3, 1, 2), (4, 5), (1, 2))  # golden 04b
    assert moves(effects)[:2] == [("r-0/6", "New", "Offline"), ("r-0/6", "Offline", "ReplicaDeletionStarted")]
    assert told_to_delete(effects) == [6]
    assert world.leader("r-0") == (1, (1, 2, 3), 3), "one for the drop, one for the new set"
    assert [world.replica_state("r-0", b) for b in (4, 5)] == [ReplicaState.NEW, ReplicaState.NEW]
    assert lai_brokers(effects) == [1, 2, 3, 4, 5]
    world.stopped(6, "r-0")
    world.catch_up("r-0", 4)
    world.catch_up("r-0", 5)
    world.stopped(1, "r-0")
    world.stopped(2, "r-0")
    assert world.node("r-0") == ((4, 5, 3), (), ())


@pytest.mark.behaviour(162)
def test_a_cancel_restores_the_original_set_and_stops_the_newcomers() -> None:
    world = six([1, 2, 3])
    world.reassign({"r-0": [4, 5, 6]})
    world.reassign({"r-0": [4, 5, 3]})
    world.stopped(6, "r-0")
    effects = world.reassign({"r-0": None})
    assert result(effects) == (ErrorCode.NONE, "")
    assert world.node("r-0") == ((3, 1, 2), (), ()), (
        "golden 04b: the order of the original is not kept anywhere"
    )
    assert told_to_delete(effects) == [4, 5]
    assert world.leader("r-0") == (1, (1, 2, 3), 5)
    assert lai(effects, 1)[-1].replicas == (3, 1, 2)
    world.stopped(4, "r-0")
    world.stopped(5, "r-0")
    assert world.context.reassignments == {} and world.context.removals == {}
    assert result(world.reassign({"r-0": None}))[0] is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


@pytest.mark.behaviour(162)
def test_a_cancel_takes_the_lead_and_the_isr_from_the_newcomers_before_the_node_forgets_them() -> None:
    world = six([1, 2])
    world.reassign({"r-0": [4, 5]})
    world.catch_up("r-0", 4)
    world.kill(1)
    assert world.leader("r-0")[:2] == (4, (2, 4))
    effects = world.reassign({"r-0": None})
    kinds = [type(w).__name__ for w in world.writes()]
    assert kinds[:4] == [
        "WritePendingDeletions",
        "WritePendingDeletions",
        "WritePartitionState",
        "WriteTopicAssignment",
    ], "a crash in between leaves a leader with a node, and data that somebody knows of"
    assert world.leader("r-0")[:2] == (2, (2,))
    assert world.node("r-0") == ((1, 2), (), ())
    assert told_to_delete(effects) == [4, 5]


@pytest.mark.behaviour(164)
def test_a_cancel_that_would_lose_the_records_is_refused() -> None:
    world = six([1, 2])  # KAFKA-14424
    world.reassign({"r-0": [4, 5]})
    world.catch_up("r-0", 4)
    world.kill(1, 2)
    assert world.leader("r-0")[:2] == (4, (4,))
    error, why = result(world.reassign({"r-0": None}))
    assert error is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert why == "without [4, 5] no replica that is live and in the ISR [4] would be left"
    assert world.leader("r-0")[0] == 4 and world.node("r-0")[1] == (4, 5)


@pytest.mark.behaviour(164)
def test_a_replacement_that_would_lose_the_records_is_refused_too() -> None:
    world = six([1, 2])
    world.reassign({"r-0": [4, 5]})
    world.catch_up("r-0", 4)
    world.kill(1, 2)
    assert result(world.reassign({"r-0": [5, 6]}))[0] is ErrorCode.INVALID_REPLICA_ASSIGNMENT


@pytest.mark.behaviour(162)
def test_a_leaver_that_is_wanted_again_is_not_waited_for() -> None:
    world = six([1, 2, 3])
    world.reassign({"r-0": [1, 2]})
    assert world.replica_state("r-0", 3) is ReplicaState.DELETION_STARTED
    world.reassign({"r-0": None})
    assert world.replica_state("r-0", 3) is ReplicaState.ONLINE
    world.catch_up("r-0", 3)
    late = world.stopped(3, "r-0")
    assert moves(late) == [] and set(world.leader("r-0")[1]) == {1, 2, 3}
    assert world.context.removals == {}


@pytest.mark.behaviour(162)
def test_the_leader_hears_of_a_cancel_even_if_the_controller_died_of_it() -> None:
    world = six([1, 2, 3])
    told = lai(world.reassign({"r-0": [4, 5, 6]}), 1)[-1]
    world.dies_after_write = world.writes_done + 5  # three strays, the drop, the topic node
    with pytest.raises(ControllerDied):
        world.reassign({"r-0": None})
    assert world.node("r-0")[1:] == ((), ()), "nothing in the store says that something is left to do"
    world.core = ControllerCore(world.settings)
    news = lai(world.elect(2), 1)[-1]
    assert news.leader_epoch > told.leader_epoch and 4 not in news.replicas


@pytest.mark.behaviour(162)
@pytest.mark.parametrize("writes", range(1, 5))
def test_a_leader_told_of_the_target_alone_hears_who_is_called_back_whoever_is_controller(
    writes: int,
) -> None:
    """Nobody is dropped, the leavers have not answered. The node names them again, the controller dies before it has told
    anybody, and its successor sends the epoch the leader has: it never took them back into the ISR."""
    world = six([3, 2, 5])
    told = lai(world.reassign({"r-0": [2]}), 2)[-1]
    assert told.replicas == (2,) and world.leader("r-0")[1] == (2,)
    world.dies_after_write = world.writes_done + writes
    with suppress(ControllerDied):
        told = lai(world.reassign({"r-0": None}), 2)[-1]
    world.dies_after_write = 0
    world.core = ControllerCore(world.settings)
    news = lai(world.elect(1), 2)[-1]
    assert news.leader_epoch > told.leader_epoch or news.replicas == told.replicas
    if world.node("r-0")[1:] == ((), ()):
        assert set(news.replicas) == {3, 2, 5}
