"""What clients are told while a broker is dying: no stale leader, no leader that vanished too suddenly, and questions
that wait a moment for the better answer."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from odradek.broker import departures as module
from odradek.broker import effects as fx
from odradek.broker.answers import Park
from odradek.broker.departures import (
    DEPARTED_SHOWN_MS,
    DOUBT_MS,
    LARGEST_HELD_BYTES,
    LONGEST_IGNORANCE_MS,
    LONGEST_SUSPICION_MS,
    MOST_LET_GO,
    TROUBLE_MS,
)
from odradek.broker.request import ConnectionInfo, HeldRequest
from odradek.model.ids import BrokerId
from odradek.protocol.messages import create_topics as ct
from odradek.protocol.messages import describe_cluster as dc
from odradek.protocol.messages import list_offsets as lo
from odradek.protocol.messages import metadata as mm
from odradek.protocol.messages import update_metadata as um
from tests.broker.world import Pending, World, live_broker, told


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.lead(1)
    world.settle()
    for node in world.nodes.values():
        node.told.clear()
    return world


def ask(world: World, connection: ConnectionInfo | None = None, to: int = 1) -> Pending:
    """A client asks for Metadata; what that made due is done."""
    pending = world.send(to, mm.MetadataRequest(topics=[]), 9, connection=connection)
    world.settle()
    return pending


def leaders(pending: Pending) -> list[int]:
    return [broker.node_id for broker in pending.message.brokers]


def at_work(world: World) -> ConnectionInfo:
    """A client's connection that has asked before."""
    connection = world.connection()
    assert ask(world, connection).is_answered, "the first question of a connection"
    return connection


def lose(world: World, leader: int) -> None:
    world[1].broker.leader_connection_lost(BrokerId(leader), world.now_ms)


# ------------------------------------------------------------------------------------------ before it is told


def test_nothing_is_said_before_the_first_word_of_the_controller(world: World) -> None:
    world[1].start()
    asked = ask(world)
    assert not asked.is_answered
    world.notify_metadata([1])
    world.settle()
    assert leaders(asked) == [1, 2, 3]


def test_a_broker_nobody_tells_anything_answers_in_the_end(world: World) -> None:
    world[1].start()
    asked = ask(world)
    world.advance(LONGEST_IGNORANCE_MS - 1)
    assert not asked.is_answered
    world.advance(1)
    assert leaders(asked) == []


@pytest.mark.parametrize(
    ("message", "version", "waits"),
    [
        (mm.MetadataRequest(topics=[]), 9, True),
        (dc.DescribeClusterRequest(), 0, True),
        (ct.CreateTopicsRequest(topics=[], timeout_ms=0), 5, True),
        (lo.ListOffsetsRequest(topics=[]), 6, False),
    ],
)
def test_only_questions_about_the_cluster_wait(world: World, message: Any, version: int, waits: bool) -> None:
    lose(world, 3)
    asked = world.send(1, message, version)
    world.settle()
    assert asked.is_answered is not waits
    world.advance(LONGEST_SUSPICION_MS)
    assert asked.is_answered


# ------------------------------------------------------------------------------------------------- suspicions


def test_a_lost_leader_holds_questions_until_the_controller_has_spoken(world: World) -> None:
    lose(world, 3)
    asked = ask(world)
    world.notify_metadata()
    world.settle()
    assert not asked.is_answered, "that was about something else"
    world.kill(3)
    world.notify_metadata()
    world.settle()
    assert leaders(asked) == [1, 2, 3], "named a little longer"


def test_a_connection_that_stands_again_takes_the_suspicion_back(world: World) -> None:
    lose(world, 3)
    lose(world, 3)
    asked = ask(world)
    world[1].broker.leader_connected(BrokerId(3))
    world.settle()
    assert asked.is_answered


def test_one_suspicion_of_two_is_left(world: World) -> None:
    lose(world, 2)
    lose(world, 3)
    asked = ask(world)
    world[1].broker.leader_connected(BrokerId(3))
    world.settle()
    assert not asked.is_answered
    world[1].broker.leader_connected(BrokerId(2))
    world.settle()
    assert asked.is_answered


def test_a_suspicion_does_not_last(world: World) -> None:
    lose(world, 3)
    asked = ask(world)
    world.advance(LONGEST_SUSPICION_MS // 2)
    lose(world, 3)  # again, and no longer for that
    world.advance(LONGEST_SUSPICION_MS // 2 - 1)
    assert not asked.is_answered
    world.advance(1)
    assert asked.is_answered


def test_who_is_known_to_be_gone_is_not_suspected(world: World) -> None:
    world.kill(3)
    world.notify_metadata()
    lose(world, 3)
    assert ask(world).is_answered


# ------------------------------------------------------------------------------------------------- departures


def test_a_broker_that_is_gone_is_named_a_little_longer_and_leads_nothing(world: World) -> None:
    world.kill(3)
    world.notify_metadata()
    world.settle()
    metadata = world[1].broker.metadata
    assert sorted(metadata.shown_brokers) == [1, 2, 3]
    assert sorted(metadata.brokers) == sorted(metadata.live_brokers) == [1, 2]
    assert leaders(ask(world)) == [1, 2, 3]
    world.advance(DEPARTED_SHOWN_MS - 1)
    assert leaders(ask(world)) == [1, 2, 3]
    world.advance(1)
    assert leaders(ask(world)) == [1, 2], "an answer encoded before is void"
    assert world[1].broker.departures.due_ms is None


def test_a_broker_that_returns_is_named_where_it_is_now(world: World) -> None:
    world.kill(3)
    world.notify_metadata()
    world.settle()
    world.restart(3)
    world.notify_metadata()
    world.settle()
    metadata = world[1].broker.metadata
    assert metadata.departed == {}
    assert metadata.shown_brokers is metadata.brokers
    world.advance(DEPARTED_SHOWN_MS)
    assert leaders(ask(world)) == [1, 2, 3]


# ------------------------------------------------------------------------------------------- a client asks again


def test_a_broker_alone_answers_who_asks_again_at_once(tmp_path: Path) -> None:
    world = World(tmp_path, brokers=(1,))
    client = at_work(world)
    assert world.send(1, mm.MetadataRequest(topics=[]), 9, connection=client).is_answered


def test_in_a_cluster_that_is_well_one_look_is_waited_for_and_no_timer(world: World) -> None:
    world.polls_connections = False
    client = at_work(world)
    due_ms = world[1].broker.departures.due_ms
    asked = ask(world, client)
    (poll,) = told(world, fx.PollConnections)
    assert not asked.is_answered and world[1].broker.departures.due_ms == due_ms
    also = ask(world, client)
    assert told(world, fx.PollConnections) == [], "one poll is enough for all"
    world[1].broker.answered(poll.request_id, None, world.now_ms)
    world.settle()
    assert asked.is_answered and also.is_answered


def test_a_leader_found_dead_in_the_look_holds_the_question(world: World) -> None:
    world.polls_connections = False
    asked = ask(world, at_work(world))
    (poll,) = told(world, fx.PollConnections)
    lose(world, 3)
    world[1].broker.answered(poll.request_id, None, world.now_ms)
    world.settle()
    assert not asked.is_answered
    world.kill(3)
    world.notify_metadata()
    world.settle()
    assert asked.is_answered


def troubled(world: World, client: ConnectionInfo) -> None:
    asked = ask(world, client)
    world.advance(DOUBT_MS - 1)
    assert not asked.is_answered
    world.advance(1)
    assert asked.is_answered
    world.advance(TROUBLE_MS)
    assert ask(world, client).is_answered, "long enough ago"


@pytest.mark.parametrize("role", ["is_follower", "is_of_broker"])
def test_a_connection_of_another_broker_that_breaks_is_a_sign_of_trouble(world: World, role: str) -> None:
    client, other = at_work(world), world.connection()
    world[1].broker.connection_closed(world.connection(), world.now_ms)
    assert ask(world, client).is_answered, "a client's is none"
    setattr(other, role, True)
    world[1].broker.connection_closed(other, world.now_ms)
    troubled(world, client)


def test_telling_somebody_that_the_leader_is_another_one_is_a_sign_of_trouble(world: World) -> None:
    assert world.produced(world.produce(2, b"x"))[0].name == "NOT_LEADER_OR_FOLLOWER"
    client = world.connection()
    assert ask(world, client, to=2).is_answered
    asked = ask(world, client, to=2)
    assert not asked.is_answered
    world.advance(DOUBT_MS)
    assert asked.is_answered


def test_who_produced_or_fetched_has_asked_before(world: World) -> None:
    world.polls_connections = False
    for use in (
        lambda connection: world.consume(1, 0, connection=connection),
        lambda connection: world.send(1, mm.MetadataRequest(topics=[]), 9, connection=connection),
    ):
        connection = world.connection()
        use(connection)
        asked = world.send(1, mm.MetadataRequest(topics=[]), 9, connection=connection)
        assert not asked.is_answered
        world.settle()
        (poll,) = told(world, fx.PollConnections)
        world[1].broker.answered(poll.request_id, None, world.now_ms)
        world.settle()
        assert asked.is_answered


def test_the_controllers_connection_is_known_by_its_requests(world: World) -> None:
    connection = world.connection()
    world.send(
        1,
        um.UpdateMetadataRequest(
            controller_id=1, controller_epoch=1, broker_epoch=world[1].epoch, live_brokers=[live_broker(1)]
        ),
        8,
        connection=connection,
    )
    assert connection.is_of_broker


# ----------------------------------------------------------------------------------------------- what is held


def test_what_is_held_is_bounded_in_number_and_in_bytes(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What does not fit is answered as things stand."""
    lose(world, 3)
    long = [mm.MetadataRequestTopic(name="x" * 249)] * (LARGEST_HELD_BYTES // 200)
    assert world.send(1, mm.MetadataRequest(topics=long), 9).is_answered
    monkeypatch.setattr(module, "MOST_HELD", 2)
    asked = [ask(world) for _ in range(3)]
    assert [one.is_answered for one in asked] == [False, False, True]
    monkeypatch.setattr(module, "MOST_HELD", 1000)
    departures = world[1].broker.departures
    monkeypatch.setattr(module, "MOST_HELD_BYTES", departures.held_bytes + 1)
    assert ask(world).is_answered
    world.advance(LONGEST_SUSPICION_MS)
    assert departures.held_bytes == 0 and asked[0].is_answered and asked[1].is_answered


def test_what_was_held_goes_some_in_a_turn(world: World) -> None:
    lose(world, 3)
    asked = [world.send(1, mm.MetadataRequest(topics=[]), 9) for _ in range(2 * MOST_LET_GO + 1)]
    broker = world[1].broker
    departures = broker.departures
    turns = []

    def turn() -> None:
        taken = [one for one in broker.take_effects() if isinstance(one, fx.HandleAgain)]
        turns.append(len(taken))
        for one in taken:
            one.place.answer(partial(broker.handle, one.request, world.now_ms))

    broker.leader_connected(BrokerId(3))
    turn()
    assert departures.held_bytes > 0
    while broker.next_deadline_ms() <= world.now_ms:
        broker.tick(world.now_ms)
        turn()

    assert turns == [MOST_LET_GO, MOST_LET_GO, 1]
    assert all(one.is_answered for one in asked) and departures.held_bytes == 0


def test_what_is_on_its_way_out_is_bounded_with_what_is_held(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_HELD", MOST_LET_GO + 2)
    lose(world, 3)
    for _ in range(MOST_LET_GO + 2):
        world.send(1, mm.MetadataRequest(topics=[]), 9)
    world[1].broker.leader_connected(BrokerId(3))
    lose(world, 3)

    later = [world.send(1, mm.MetadataRequest(topics=[]), 9) for _ in range(MOST_LET_GO + 1)]

    assert [one.is_answered for one in later] == [False] * MOST_LET_GO + [True]


def test_a_question_whose_client_has_gone_is_not_handled_again(world: World) -> None:
    lose(world, 3)
    asked = world.send(1, mm.MetadataRequest(topics=[]), 9)
    places: list[Park] = [held.place for held in world[1].broker.departures._held]
    places[0].abandon()
    world[1].broker.leader_connected(BrokerId(3))
    assert not [e for e in world[1].broker.take_effects() if isinstance(e, fx.HandleAgain)]
    assert not asked.is_answered
    assert world[1].broker.departures.held_bytes == 0, "else there is no room left for others some day"


def test_one_that_was_held_is_not_held_again(world: World) -> None:
    """Else it would ask for a look each time it is handled, and go round for ever."""
    world.polls_connections = False
    asked = ask(world, at_work(world))
    (poll,) = told(world, fx.PollConnections)
    broker = world[1].broker
    broker.answered(poll.request_id, None, world.now_ms)
    (again,) = broker.take_effects()
    assert isinstance(again, fx.HandleAgain) and isinstance(again.request, HeldRequest)
    lose(world, 3)
    again.place.answer(lambda: broker.handle(again.request, world.now_ms))
    assert asked.is_answered


def test_a_broker_that_stops_answers_as_things_stand_and_holds_nothing_more(world: World) -> None:
    lose(world, 3)
    client = world.connection()
    asked = ask(world, client)
    world[1].broker.stopping(world.now_ms)
    world.settle()
    assert asked.is_answered
    lose(world, 2)
    assert ask(world, client).is_answered
    assert world[1].broker.departures.due_ms is None


def test_a_broker_that_is_back_is_named_by_one_that_stops_too(world: World) -> None:
    """What a controller wrote before may be read after it."""
    world.kill(2)
    world.notify_metadata()
    world[1].broker.stopping(world.now_ms)
    world.restart(2)
    world.notify_metadata()
    assert sorted(world[1].broker.metadata.brokers) == [1, 2, 3]
