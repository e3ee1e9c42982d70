"""Which StopReplica an answer answers: only the latest word about a replica counts.

While a broker cannot be reached, everything for it waits in one queue: delete it, have it again, delete it. The
answers come back one by one, and behind the first there is still a LeaderAndIsr that makes the replica anew.
"""

import json

import pytest

from odradek.controller.broker_requests import AskEndOffsets
from odradek.controller.core import ControllerCore
from odradek.controller.effects import Effects
from odradek.controller.events import Requested, StopReplicaAnswered
from odradek.controller.journal import as_json, event_from_json
from odradek.controller.pending_deletions import RETRY_MS
from odradek.controller.states import ReplicaState
from odradek.model.controller_requests import ElectLeadersAsked
from odradek.model.error_codes import ErrorCode
from odradek.model.facts import ConfigChanged, DeleteTopicsRequested
from odradek.model.ids import BrokerId
from tests.controller.brokers import Brokers
from tests.controller.world import World, lai, stops, tp


def six(*replicas: int) -> World:
    world = World().brokers(1, 2, 3, 4, 5, 6)
    world.elect()
    world.create("r", list(replicas))
    return world


def number_of(effects: Effects, broker: int) -> int:
    (number,) = [stop.number for stop in stops(effects) if stop.broker == broker]
    return number


def successor(world: World) -> Effects:
    world.core = ControllerCore(world.settings)
    return world.elect(2)


def test_every_stop_replica_of_a_term_has_a_number_of_its_own() -> None:
    world = six(1, 2)
    world.reassign({"r-0": [3, 4]})
    stopped = stops(world.reassign({"r-0": None}))
    stopped += stops(world.reassign({"r-0": [5, 6]})) + stops(world.reassign({"r-0": None}))
    numbers = [stop.number for stop in stopped]
    assert len(numbers) == 4 and numbers == sorted(set(numbers))


def test_a_newcomer_dropped_twice_is_told_twice_and_only_the_second_answer_ends_it() -> None:
    world = six(1, 2)
    world.reassign({"r-0": [3, 2]})
    first = number_of(world.reassign({"r-0": None}), 3)
    again = world.reassign({"r-0": [3, 2]})
    assert [partition.is_new for partition in lai(again, 3)] == [True]
    second = number_of(world.reassign({"r-0": None}), 3)

    world.stopped(3, "r-0", number=first)
    assert set(world.pending_deletions) == {3}, "the copy that was made in between is still there"
    assert world.replica_state("r-0", 3) is ReplicaState.DELETION_STARTED
    world.stopped(3, "r-0", number=second)
    assert world.pending_deletions == {} and world.context.removals == {}
    assert world.replica_state("r-0", 3) is ReplicaState.NON_EXISTENT


def test_whoever_leads_next_tells_it_if_only_the_first_was_answered() -> None:
    world = six(1, 2)
    world.reassign({"r-0": [3, 2]})
    first = number_of(world.reassign({"r-0": None}), 3)
    world.reassign({"r-0": [3, 2]})
    world.reassign({"r-0": None})
    world.stopped(3, "r-0", number=first)
    assert [stop.broker for stop in stops(successor(world))] == [3]


@pytest.mark.parametrize("answer", ["before", "after", "never"])
def test_a_newcomer_wanted_again_before_it_has_answered_ends_in_the_assignment(answer: str) -> None:
    """It was not made new, for it counted as being deleted; and when it had caught up, the machine knew no way from
    ReplicaDeletionStarted to OnlineReplica, and the controller resigned."""
    world = six(1, 2)
    world.reassign({"r-0": [3, 2]})
    first = number_of(world.reassign({"r-0": None}), 3)
    world.reassign({"r-0": [3, 2]})
    assert world.replica_state("r-0", 3) is ReplicaState.NEW
    if answer == "before":
        world.stopped(3, "r-0", number=first)
    world.catch_up("r-0", 3)
    if answer == "after":
        world.stopped(3, "r-0", number=first)
    world.stopped(1, "r-0")
    assert world.node("r-0") == ((3, 2), (), ())
    assert world.replica_state("r-0", 3) is ReplicaState.ONLINE


def test_a_newcomer_that_could_not_delete_and_is_wanted_again_is_new() -> None:
    world = six(1, 2)
    world.reassign({"r-0": [3, 2]})
    world.reassign({"r-0": None})
    world.stopped(3, "r-0", error=ErrorCode.KAFKA_STORAGE_ERROR)
    assert [partition.is_new for partition in lai(world.reassign({"r-0": [3, 2]}), 3)] == [True]
    world.catch_up("r-0", 3)
    world.stopped(1, "r-0")
    assert world.node("r-0") == ((3, 2), (), ())


def test_a_leaver_called_back_and_sent_off_again_is_waited_for() -> None:
    """The topic node names it until it has answered, and must not forget it on the strength of the first answer."""
    world = six(1, 2, 3)
    first = number_of(world.reassign({"r-0": [1, 2]}), 3)
    world.reassign({"r-0": None})
    world.catch_up("r-0", 3)
    second = number_of(world.reassign({"r-0": [1, 2]}), 3)

    world.stopped(3, "r-0", number=first)
    assert world.node("r-0")[2] == (3,) and set(world.context.removals[tp("r-0")]) == {3}
    world.stopped(3, "r-0", number=second)
    assert world.node("r-0") == ((1, 2), (), ())


def test_a_deletion_waits_for_the_answer_to_its_own_request() -> None:
    world = six(1, 2, 3)
    first = number_of(world.reassign({"r-0": [1, 2]}), 3)
    world.reassign({"r-0": None})
    world.delete_topics = ("r",)
    own = {stop.broker: stop.number for stop in stops(world.step(DeleteTopicsRequested(("r",))))}
    for broker in (1, 2):
        world.stopped(broker, "r-0", number=own[broker])
    world.stopped(3, "r-0", number=first)
    assert "r" in world.topics, "the replica was made again after that request"
    world.stopped(3, "r-0", number=own[3])
    assert "r" not in world.topics and world.delete_topics == ()


@pytest.mark.parametrize("whole", [False, True])
def test_an_error_counts_for_the_latest_request_only(whole: bool) -> None:
    """A late no would have made the controller ask again, and the answer to the second would have found it waiting."""
    world = six(1, 2)
    world.reassign({"r-0": [3, 2]})
    first = number_of(world.reassign({"r-0": None}), 3)
    world.reassign({"r-0": [3, 2]})
    second = number_of(world.reassign({"r-0": None}), 3)

    error = ErrorCode.KAFKA_STORAGE_ERROR
    kinds = {"whole": error} if whole else {"error": error}
    world.stopped(3, "r-0", number=first, **kinds)
    assert world.replica_state("r-0", 3) is ReplicaState.DELETION_STARTED
    world.now_ms += RETRY_MS
    world.stopped(3, "r-0", number=second, **kinds)
    assert world.replica_state("r-0", 3) is ReplicaState.DELETION_INELIGIBLE and set(
        world.pending_deletions
    ) == {3}


def test_a_broker_that_is_gone_owes_no_answer_and_is_told_anew_when_it_returns() -> None:
    """Its queue is thrown away with it; an answer to what stood there says nothing any more."""
    world = six(1, 2)
    world.reassign({"r-0": [3, 2]})
    old = number_of(world.reassign({"r-0": None}), 3)
    world.kill(3)
    assert world.context.deletions_told == {}, "nothing is remembered of who cannot answer"
    new = number_of(world.start(3), 3)
    assert new != old
    world.stopped(3, "r-0", number=old)
    assert set(world.pending_deletions) == {3}
    world.stopped(3, "r-0", number=new)
    assert world.pending_deletions == {}


def test_a_fork_counts_for_itself() -> None:
    world = six(1, 2)
    world.reassign({"r-0": [3, 2]})
    copy = world.core.fork()
    assert copy.context is not None and copy.context.stops_sent == world.context.stops_sent
    before = dict(copy.context.deletions_told)
    world.reassign({"r-0": None})
    assert copy.context.deletions_told == before != world.context.deletions_told


def test_brokers_bring_the_number_back() -> None:
    world = six(1, 2)
    brokers = Brokers(world)
    world.reassign({"r-0": [3, 2]})
    effects = world.reassign({"r-0": None})
    brokers.hear(effects)
    (answered,) = brokers.inbox
    world.step(answered)
    assert world.pending_deletions == {}


def test_an_answer_of_a_journal_older_than_the_numbers_counts_as_it_did() -> None:
    world = six(1, 2)
    world.reassign({"r-0": [3, 2]})
    number = number_of(world.reassign({"r-0": None}), 3)
    effects = world.stopped(3, "r-0", number=number)
    assert effects.resign is None

    told = {tp("r-0"): ErrorCode.NONE}
    epoch = world.registrations[3].epoch
    event = StopReplicaAnswered(BrokerId(3), epoch, ErrorCode.NONE, told, frozenset(told), number)
    answered = as_json(event)
    assert event_from_json(json.loads(json.dumps(answered))).number == number  # type: ignore[union-attr]
    del answered["number"]
    assert event_from_json(answered).number is None  # type: ignore[union-attr]
    world.reassign({"r-0": [3, 2]})
    world.reassign({"r-0": None})
    world.step(event_from_json(answered))
    assert world.pending_deletions == {}


def test_who_has_deleted_is_not_told_to_follow_by_the_next_reassignment() -> None:
    """One leaver has answered, another has not: the topic node still names both. Told of the new epoch, the first made its
    replica anew, caught up, joined the ISR, and stayed in it when the reassignment was over."""
    world = six(1, 2, 3, 4)
    world.reassign({"r-0": [1, 2]})
    world.stopped(4, "r-0")
    assert world.replica_state("r-0", 4) is ReplicaState.NON_EXISTENT
    effects = world.reassign({"r-0": [1, 5]})
    assert world.node("r-0") == ((1, 5, 2, 3, 4), (5,), (2, 3, 4))
    assert lai(effects, 4) == [] and lai(effects, 3) == [] and len(lai(effects, 2)) == 1
    world.catch_up("r-0", 5)
    for broker in (2, 3):
        world.stopped(broker, "r-0")
    assert world.node("r-0") == ((1, 5), (), ())


def test_who_was_told_to_delete_is_not_told_to_follow_by_the_next_reassignment() -> None:
    """It still stands in the topic node, as removing, and was told of the new epoch like everybody: behind the request
    to delete, which nobody repeated."""
    world = six(1, 2, 3)
    first = number_of(world.reassign({"r-0": [1, 2]}), 3)
    effects = world.reassign({"r-0": [1, 4]})
    assert world.node("r-0") == ((1, 4, 2, 3), (4,), (2, 3))
    assert lai(effects, 3) == [] and len(lai(effects, 2)) == 1
    effects = world.catch_up("r-0", 4)
    assert {stop.broker for stop in stops(effects)} == {2} and lai(effects, 3) == []
    world.stopped(2, "r-0")
    assert world.node("r-0")[2] == (2, 3), "3 has not answered"
    world.stopped(3, "r-0", number=first)
    assert world.node("r-0") == ((1, 4), (), ())


@pytest.mark.parametrize("how", ["by the topic's leave", "asked for"])
def test_who_was_told_to_delete_is_not_elected_uncleanly(how: str) -> None:
    """It is live and stands in the topic node, as removing; and what it had is going, or gone."""
    world = six(1, 2, 3)
    if how == "by the topic's leave":
        world.step(ConfigChanged("topics", "r", {"unclean.leader.election.enable": "true"}))
    world.reassign({"r-0": [1]})
    world.stopped(2, "r-0")
    world.reassign({"r-0": [1, 4]})
    assert world.node("r-0") == ((1, 4, 2, 3), (4,), (2, 3))
    effects = world.kill(1)
    if how == "asked for":
        effects = world.step(Requested(5, ElectLeadersAsked(True, (tp("r-0"),))))
    assert not [request for request in effects.requests if isinstance(request, AskEndOffsets)], "no choice"
    assert world.leader("r-0")[:2] == (4, (4,))
