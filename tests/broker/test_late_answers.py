"""Answers that cannot be made: their own connection is closed, everybody else is answered."""

import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from odradek.broker import effects as fx
from odradek.broker.answers import CloseConnection, Park, Reply
from odradek.broker.handlers import fetch, produce
from odradek.broker.request import Request
from odradek.model.controller_requests import ElectLeadersAnswer
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages import alter_client_quotas as acq
from odradek.protocol.messages import create_topics as ct
from odradek.protocol.messages import elect_leaders as el
from odradek.protocol.primitives import MOST_MESSAGE_BYTES
from tests.broker.topics import create, topic
from tests.broker.world import Pending, World, told
from tests.support import each

BROKER = Path(__file__).parents[2] / "src" / "odradek" / "broker"
LONGEST_NAME = "a" * 32_767


class Unencodable(Exception):
    pass


def fail(*_: object, **__: object) -> bytes:
    raise Unencodable("no room")


def closed_with(pending: Pending) -> Exception | None:
    assert isinstance(pending.result, CloseConnection)
    return pending.result.error


def written(world: World, *names: str) -> None:
    (request,) = told(world, fx.StoreRequest)
    result = fx.TopicsWritten(dict.fromkeys(names, (ErrorCode.NONE, "")))
    world[1].broker.answered(request.request_id, result, world.now_ms)


@pytest.fixture
def fails(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Any, str], None]]:
    yield lambda owner, name: monkeypatch.setattr(owner, name, fail)


def test_a_topic_that_gets_its_leader_in_a_sweep(world: World, fails: Callable[[Any, str], None]) -> None:
    asked = create(world, topic("new", 1, 3))
    written(world, "new")
    fails(ct.CreateTopicsResponse, "encode")
    world.lead(1, topic="new", index=0)

    assert isinstance(closed_with(asked), Unencodable)
    assert world.produced(world.produce(1, b"others are served", topic="new", acks=1))[0] == ErrorCode.NONE


def test_a_deadline_in_a_timer(world: World, fails: Callable[[Any, str], None]) -> None:
    asked = create(world, topic("new"))
    written(world, "new")
    fails(ct.CreateTopicsResponse, "encode")
    world.advance(6_000)

    assert isinstance(closed_with(asked), Unencodable)
    assert len(world[1].broker.purgatory) == 0


def test_what_the_controller_answers(world: World, fails: Callable[[Any, str], None]) -> None:
    broker = world[1].broker
    broker.controller_status(True, 1, world.now_ms)
    rows = [el.TopicPartitions(topic="t", partitions=[0])]
    asked = world.send(1, el.ElectLeadersRequest(topic_partitions=rows, timeout_ms=5_000), 2)
    (request,) = told(world, fx.ControllerRequest)
    fails(el.ElectLeadersResponse, "encode")
    broker.answered(request.request_id, ElectLeadersAnswer({}), world.now_ms)

    assert isinstance(closed_with(asked), Unencodable)


def test_a_producer_that_waits_for_its_followers(world: World) -> None:
    """The followers' fetches move the high watermark, and go on."""
    world.lead(1, is_new=True)
    world.settle()
    asked = world.produce(1, b"one", acks=-1)
    assert not asked.is_answered
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(produce, "encode_response", fail)
        world.settle()

    assert isinstance(closed_with(asked), Unencodable)
    asked = world.produce(1, b"two")
    world.settle()
    assert world.produced(asked) == (ErrorCode.NONE, 1)


def test_a_fetch_that_is_over_is_not_parked_for_ever(world: World) -> None:
    world.lead(1, is_new=True)
    world.settle()
    connection = world.connection()
    asked = world.consume(1, 0, max_wait_ms=5_000, connection=connection)
    assert not asked.is_answered and connection.parked is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fetch, "encode_response", fail)
        world[1].broker.tick(world.now_ms + 5_004)

    assert isinstance(closed_with(asked), Unencodable)
    assert connection.parked is None


def test_a_refusal_with_a_name_as_long_as_a_string_may_be_is_said(world: World) -> None:
    broker = world[1].broker
    broker.controller_status(True, 1, world.now_ms)
    asked = create(world, topic("good"), topic(LONGEST_NAME))
    written(world, "good")
    world.advance(6_000)

    good, bad = asked.message.topics
    assert (good.name, bad.name) == ("good", LONGEST_NAME)
    assert bad.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert len(bad.error_message) <= MOST_MESSAGE_BYTES
    assert "aaa ... aaa" in bad.error_message and not bad.error_message.endswith("a"), "and why is said"


def test_a_quota_of_an_unknown_type_does_not_keep_the_others_waiting(world: World) -> None:
    entries = [
        acq.AlterClientQuotasRequestEntryData(
            entity=[acq.EntityData(entity_type=kind, entity_name="x")],
            ops=[acq.OpData(key="producer_byte_rate", value=1e9, remove=False)],
        )
        for kind in ("client-id", LONGEST_NAME[:32_760])
    ]
    asked = world.send(1, acq.AlterClientQuotasRequest(entries=entries), 1)
    (read,) = told(world, fx.StoreRequest)
    world[1].broker.answered(read.request_id, fx.StoreFailed("not now"), world.now_ms)
    world.settle()

    assert [row.error_code for row in asked.message.entries][1] == ErrorCode.INVALID_REQUEST


def test_a_refusal_of_the_protocol_is_said_and_no_mistake_of_ours() -> None:
    park = Park()

    def refuse() -> Reply:
        raise ProtocolError(ErrorCode.INVALID_REQUEST, "why")

    park.answer(refuse)
    assert isinstance(park.result, CloseConnection)
    assert (park.result.reason, park.result.error) == ("why", None)


def test_an_answer_that_is_parked_again_is_followed() -> None:
    outer, inner = Park(), Park()
    outer.answer(lambda: inner)
    assert outer.result is None
    inner.answer(lambda: Reply([b"late"]))
    assert outer.result is inner.result is not None


@each(sorted(BROKER.rglob("*.py")), str)
def test_nobody_completes_a_request_with_an_answer_made_on_the_spot(path: Path) -> None:
    """`complete` takes what is there; what has to be made goes through `Park.answer`, which holds what it raises."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "complete"
        ):
            made = [
                inner for argument in node.args for inner in ast.walk(argument) if isinstance(inner, ast.Call)
            ]
            assert not made, f"{path.name}:{node.lineno}: expected .answer(lambda: ...)"


def test_who_gives_up_a_place_gives_up_what_it_waits_for() -> None:
    """A long answer was made all the same for a connection that had gone."""
    for is_gone_before in (False, True):
        outer, inner = Park(), Park()
        if is_gone_before:
            outer.abandon()
        outer.answer(lambda inner=inner: inner)  # type: ignore[misc]
        outer.abandon()
        assert inner.abandoned


def test_no_long_answer_is_made_for_a_client_with_a_quota_that_has_gone(tmp_path: Path) -> None:
    world = World(tmp_path, brokers=(1,))
    throttles = world[1].broker.throttles
    connection = world.connection()
    inner = Park()
    request = Request(ApiKey.METADATA, 12, 1, "client", memoryview(b""), connection)
    place = throttles.held_up(request, inner, world.now_ms, lambda: world.now_ms)
    assert isinstance(place, Park) and place is not inner
    place.abandon()
    assert inner.abandoned

    produced = Park()
    request = Request(ApiKey.PRODUCE, 12, 1, "client", memoryview(b""), connection)
    place = throttles.held_up(request, produced, world.now_ms, lambda: world.now_ms)
    assert isinstance(place, Park)
    place.abandon()
    assert not produced.abandoned, "its bytes are counted when it is done"
