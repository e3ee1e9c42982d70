"""Write, then tell; conflicts; fences; exceptions: the loop around every decision."""

import pytest

from odradek.controller.broker_changes import BrokerFailure
from odradek.controller.broker_requests import LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest
from odradek.controller.core import MOST_ATTEMPTS, ControllerCore
from odradek.controller.effects import WritePartitionState
from odradek.controller.events import (
    Conflict,
    Elected,
    Resigned,
    Stored,
    Tick,
    WritesAnswered,
)
from odradek.controller.invariants import violations
from odradek.controller.plan import Plan
from odradek.controller.settle import always_stored, settle
from odradek.model.controller_requests import AlterPartitionAnswer
from odradek.model.error_codes import ErrorCode
from odradek.model.facts import (
    DeleteTopicsRequested,
    IsrChangeNotified,
    PartitionStatesLoaded,
    UnreadableNode,
)
from odradek.model.ids import BrokerId
from tests.controller.world import World, answer_of, failures, lai, metadata, moves, state, three, tp


@pytest.mark.behaviour(30, 40, 77, 151)
def test_nothing_is_told_before_the_write_is_answered_and_then_all_of_it_at_once() -> None:
    world = three()
    del world.registrations[2]
    asked = world.core.step(world.brokers_changed(), 0)
    assert [type(w) for w in asked.writes] == [WritePartitionState]
    assert (asked.requests, asked.changes, asked.answers) == ((), (), ())
    told = world.core.step(WritesAnswered((Stored(1),)), 0)
    assert told.writes == ()
    assert len(told.requests) == 4 and len(told.changes) == 4


@pytest.mark.behaviour(30, 77, 78)
def test_one_event_is_one_effects_with_one_request_of_a_kind_for_each_broker() -> None:
    world = three("t", [2, 1, 3], [2, 3, 1], [1, 2, 3], [3, 2, 1])
    effects = world.kill(2)
    assert len(world.written) == 1
    kinds = [(type(r).__name__, r.broker) for r in effects.requests]
    assert kinds == [
        ("LeaderAndIsrRequest", 1),
        ("UpdateMetadataRequest", 1),
        ("LeaderAndIsrRequest", 3),
        ("UpdateMetadataRequest", 3),
    ]
    asked = {p.topic_partition for b in (1, 3) for p in lai(effects, b)}
    assert {p.topic_partition for p in metadata(effects)[0].partitions} >= asked, "LeaderAndIsr adds metadata"
    assert metadata(effects)[0].partitions is metadata(effects)[1].partitions, "built once"


@pytest.mark.behaviour(171)
def test_for_one_broker_leader_and_isr_comes_before_metadata_and_metadata_before_stop() -> None:
    world = three("t", [2, 1, 3], [1, 2, 3])
    effects = world.shut_down(2)
    order = [type(r) for r in effects.requests if r.broker == 2]
    assert order == [LeaderAndIsrRequest, UpdateMetadataRequest, StopReplicaRequest]


@pytest.mark.behaviour(151)
def test_an_event_before_the_last_one_was_answered_is_a_mistake_of_the_caller() -> None:
    world = three()
    del world.registrations[2]
    world.core.step(world.brokers_changed(), 0)
    with pytest.raises(AssertionError, match="before the writes of the last event were answered"):
        world.core.step(Tick(), 0)
    with pytest.raises(AssertionError, match="one answer for each write"):
        world.core.step(WritesAnswered((Stored(1), Stored(1))), 0)


def test_answers_nobody_asked_for_are_a_mistake_of_the_caller() -> None:
    with pytest.raises(AssertionError, match="answers of writes nobody asked for"):
        three().core.step(WritesAnswered((Stored(1),)), 0)


def test_a_fenced_write_ends_the_term_and_tells_nobody() -> None:
    world = three()
    world.before_write = lambda writes: setattr(world, "controller_epoch", 2)
    effects = world.kill(2)
    assert effects.resign == "fenced: /controller_epoch is no longer at version 1"
    assert effects.requests == ()
    assert world.leader("t-0") == (2, (2, 1, 3), 0)
    assert not world.core.is_active


def test_a_request_in_flight_when_we_are_fenced_is_answered_not_controller() -> None:
    world = three()
    world.before_write = lambda writes: setattr(world, "controller_epoch", 2)
    effects = world.alter("t-0", [2, 1])
    assert answer_of(effects) == AlterPartitionAnswer(ErrorCode.NOT_CONTROLLER)


def test_what_a_conflict_took_from_a_failover_is_not_told_as_gone() -> None:
    """The state node of t-0 was removed by hand: brokers go on with what they were told of it."""
    for answer, named, is_whole in (Stored(1), {"t-0", "t-1"}, True), (Conflict(None), {"t-1"}, False):
        world = three("t", [2, 1, 3], [1, 3, 2])
        del world.registrations[2]
        effects = world.core.step(Elected(*world.election(1)), 0)
        assert [str(w.topic_partition) for w in effects.writes] == ["t-0", "t-1"]  # type: ignore[union-attr]
        done = world.core.step(WritesAnswered((answer, Stored(1))), 0)
        (told,) = [request for request in metadata(done) if request.broker == 3 and request.partitions]
        assert {str(p.topic_partition) for p in told.partitions} == named
        assert told.is_whole is is_whole


def test_a_lost_acknowledgement_is_recognised_by_the_value() -> None:
    world = three()
    world.lose_answers = True
    effects = world.kill(2)
    assert world.leader("t-0") == (1, (1, 3), 1)
    assert len(world.written) == 1, "nothing is written twice"
    assert failures(effects) == []
    assert lai(effects, 1)[0].partition_epoch == 1


def test_partitions_without_a_conflict_are_not_planned_again() -> None:
    world = three("t", [2, 1, 3], [2, 3, 1])
    world.before_write = lambda writes: world.states.update({tp("t-0"): state(2, [2, 3], version=1)})
    effects = world.kill(2)
    assert [[str(w.topic_partition) for w in batch] for batch in world.written] == [  # type: ignore[union-attr]
        ["t-0", "t-1"],
        ["t-0"],
    ]
    assert world.leader("t-1") == (3, (3, 1), 1)
    assert world.leader("t-0") == (3, (3,), 1)
    assert [m for m in moves(effects) if m[0] == "t-1"] == [
        ("t-1", "Online", "Offline"),
        ("t-1", "Offline", "Online"),
    ]
    assert {str(p.topic_partition) for p in lai(effects, 3)} == {"t-0", "t-1"}


def test_a_conflict_with_a_leader_that_lives_elsewhere_leaves_that_leader() -> None:
    world = three()
    world.before_write = lambda writes: world.states.update(
        {tp("t-0"): state(3, [3, 1], leader_epoch=1, version=1)}
    )
    effects = world.kill(2)
    assert world.leader("t-0") == (3, (3, 1), 1), "somebody had elected 3: nothing left to do"
    assert world.replica_state("t-0", 2).value == "OfflineReplica"
    assert metadata(effects)[0].partitions[0].leader == 3


def test_a_node_that_changes_under_every_attempt_makes_us_resign() -> None:
    world = three()
    del world.registrations[2]
    effects = world.core.step(world.brokers_changed(), 0)
    version = 0
    attempts = 0
    while effects.writes:
        attempts += 1
        version += 1
        hand = state(2, [2, 1, 3], version=version)
        effects = world.core.step(WritesAnswered((Conflict(hand),)), 0)
    assert attempts == MOST_ATTEMPTS + 1
    assert "conflicts in a row" in (effects.resign or "")


def test_a_node_found_unreadable_while_writing_takes_its_topic_out_of_service() -> None:
    world = three("t", [2, 1, 3])
    world.create("u", [2, 1])
    del world.registrations[2]
    effects = world.core.step(world.brokers_changed(), 0)
    assert [str(w.topic_partition) for w in effects.writes] == ["t-0", "u-0"]  # type: ignore[union-attr]
    broken = UnreadableNode("/brokers/topics/t/partitions/0/state", "bad JSON", "t")
    done = world.core.step(WritesAnswered((Conflict(broken), Stored(1))), 0)
    assert world.context.out_of_service == {"t": "/brokers/topics/t/partitions/0/state: bad JSON"}
    assert done.resign is None
    assert {str(p.topic_partition) for p in lai(done, 1)} == {"u-0"}


def test_a_leader_without_a_copy_found_while_writing_is_not_believed() -> None:
    """At an election such a node is not believed either; adopted here, everybody was told to follow who has nothing."""
    world = three("t", [2, 1, 3])
    world.create("u", [2, 1])
    world.before_write = lambda writes: world.states.update(
        {tp("t-0"): state(9, [9, 1], leader_epoch=5, version=1)}
    )
    done = world.kill(2)
    path = "/brokers/topics/t/partitions/0/state"
    reason = "leader 9 is not among the assigned replicas [2, 1, 3]"
    assert world.context.out_of_service == {"t": f"{path}: {reason}"} and done.resign is None
    assert world.leader("t-0") == (9, (9, 1), 5), "whoever wrote that has to mend it"
    assert {str(p.topic_partition) for p in lai(done, 1)} == {"u-0"}
    assert [c.reason for c in done.changes if c.kind == "failure"] == [f"{path}: {reason}"]


def test_a_leaver_that_leads_is_no_stranger() -> None:
    """While a reassignment ends, memory has the target alone; the topic node still names those who leave."""
    world = three("t", [2, 1, 3])
    world.reassign({"t-0": [1, 3]})
    assert world.context.assignments[tp("t-0")].replicas == (1, 3) and world.node("t-0")[2] == (2,)
    world.before_write = lambda writes: world.states.update(
        {tp("t-0"): state(2, [2, 1], leader_epoch=9, version=9)}
    )
    world.kill(3)
    assert world.context.out_of_service == {}


@pytest.mark.parametrize("fact", [IsrChangeNotified, PartitionStatesLoaded])
def test_a_notified_leader_without_a_copy_is_not_believed(
    fact: type[IsrChangeNotified | PartitionStatesLoaded],
) -> None:
    world = three("t", [2, 1, 3])
    world.create("u", [2, 1])
    states = {
        tp("t-0"): state(9, [9], leader_epoch=5, version=7),
        tp("u-0"): state(2, [2], version=7),
    }
    world.states.update(states)
    effects = world.step(fact(states))
    assert list(world.context.out_of_service) == ["t"]
    assert world.context.leadership(tp("u-0")).isr == (2,)  # type: ignore[union-attr]
    told = {str(p.topic_partition) for r in metadata(effects) for p in r.partitions}
    assert told == {"u-0"}


@pytest.mark.parametrize("fact", [IsrChangeNotified, PartitionStatesLoaded])
def test_members_of_a_notified_isr_who_are_no_replicas_are_left_out(
    fact: type[IsrChangeNotified | PartitionStatesLoaded],
) -> None:
    """As at an election. None of them ever fetches: kept, one holds up its partition's high watermark for ever."""
    world = three("t", [2, 1, 3])
    world.create("u", [2, 1])
    states = {
        tp("t-0"): state(2, [2, 9, 1], leader_epoch=0, version=7),
        tp("u-0"): state(-1, [9], leader_epoch=5, version=7),
    }
    world.states.update(states)
    world.settle(fact(states))  # what the store holds and we do not believe goes with the next write
    assert violations(world.context) == []
    assert world.context.leadership(tp("t-0")).isr == (2, 1)  # type: ignore[union-attr]
    path = "/brokers/topics/u/partitions/0/state"
    reason = f"{path}: the ISR names [9], who are not among the assigned replicas [2, 1]"
    assert world.context.out_of_service == {"u": reason}
    world.kill(2)
    assert world.leader("t-0")[:2] == (1, (1,))


@pytest.mark.behaviour(31, 77)
def test_an_exception_in_a_plan_is_not_swallowed_the_controller_resigns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = three()

    def broken(self: BrokerFailure, plan: Plan) -> None:
        raise KeyError("a mistake of ours")

    monkeypatch.setattr(BrokerFailure, "plan", broken)
    effects = world.kill(2)
    assert (effects.resign or "").startswith("KeyError: 'a mistake of ours'")
    assert effects.requests == () and world.written == []
    monkeypatch.undo()
    world.elect(3)
    assert world.leader("t-0") == (1, (1, 3), 1), "the successor elects every waiting partition"


def test_the_same_events_in_the_same_order_give_the_same_effects() -> None:
    def story(world: World) -> list[object]:
        return [
            world.elect(1),
            world.create("a", [2, 3, 1], [3, 1, 2]),
            world.create("b", [1], [2, 1]),
            world.kill(2),
            world.alter("a-0", [3]),
            world.start(2),
            world.shut_down(3),
            world.kill(3),
        ]

    assert story(World().brokers(1, 2, 3)) == story(World().brokers(1, 2, 3))


def test_a_fork_goes_its_own_way() -> None:
    world = three()
    copy = world.core.fork()
    gone = tuple(world.registrations[b] for b in (1, 3))
    settle(copy, type(world.brokers_changed())(gone), 0)
    assert copy.context is not None and copy.context.leadership(tp("t-0")).leader == 1  # type: ignore[union-attr]
    assert world.context.leadership(tp("t-0")).leader == 2  # type: ignore[union-attr]
    assert BrokerId(2) in world.context.brokers
    assert world.context.leaderless == set() and world.context.replica_state_overrides == {}


def test_a_controller_in_the_middle_of_its_writes_cannot_be_forked() -> None:
    world = three()
    del world.registrations[2]
    world.core.step(world.brokers_changed(), 0)
    with pytest.raises(AssertionError, match="cannot be forked"):
        world.core.fork()


def test_who_is_not_controller_ignores_facts_and_resignation() -> None:
    core = ControllerCore()
    assert core.step(DeleteTopicsRequested(("t",)), 0).requests == ()
    assert core.step(Resigned("again"), 0).resign is None


def test_a_store_that_says_yes_answers_with_the_next_version() -> None:
    world = three()
    del world.registrations[2]
    asked = world.core.step(world.brokers_changed(), 0)
    assert always_stored(asked.writes) == (Stored(1),)
