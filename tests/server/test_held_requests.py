"""Questions about the cluster: answered at once where nothing is amiss, a moment later where something may be."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from odradek.broker.answers import Park, Reply
from odradek.broker.metadata_cache import MetadataCache
from odradek.model.ids import BrokerId
from odradek.server.connection import Connection
from odradek.server.held_requests import (
    DOUBT_MS,
    METADATA,
    PRODUCE,
    TROUBLE_MS,
    UPDATE_METADATA,
    HeldRequests,
)
from odradek.server.suspects import Suspects
from tests.server.test_suspects import told

FRAME = memoryview(b"a question")


class Client:
    is_at_work = False
    is_of_broker = False


class Scene:
    """A broker's questions, its suspects, and the timers that either of them sets."""

    def __init__(self, *brokers: int) -> None:
        self.loop = asyncio.get_running_loop()
        self.timers: list[float] = []
        self._call_later = self.loop.call_later
        self.metadata = MetadataCache()
        self.held = HeldRequests(lambda connection, frame: Reply([b"ok"]), cast(Any, self), self.end_turn)
        self.suspects = Suspects(self.metadata, self.held, self.loop, self.end_turn)
        told(self.metadata, *brokers)
        self.end_turn()
        self.client = cast(Connection, Client())
        assert self.held.hold(self.client, METADATA, FRAME) is None, "the first question of a connection"

    # --- the loop, as `HeldRequests` sees it

    def time(self) -> float:
        return self.loop.time()

    def call_soon(self, callback: Callable[..., None], *arguments: object) -> None:
        self.loop.call_soon(callback, *arguments)

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
        self.timers.append(delay_s)
        return self.loop.call_later(delay_s, callback)

    # ---

    def end_turn(self) -> None:
        self.suspects.look()

    def ask(self) -> "asyncio.Future[None] | None":
        park = self.held.hold(self.client, METADATA, FRAME)
        if park is None:
            return None
        answered = self.loop.create_future()
        cast(Park, park).on_complete(lambda answer: answered.set_result(None))
        return answered

    async def answered(self, question: "asyncio.Future[None] | None") -> None:
        assert question is not None
        async with asyncio.timeout(60):
            await question


def run(body: Callable[[], Awaitable[None]], make_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    with asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(cast(Any, body()))


def new_uvloop() -> asyncio.AbstractEventLoop:
    loop: asyncio.AbstractEventLoop = pytest.importorskip("uvloop").new_event_loop()
    return loop


loops = pytest.mark.parametrize("make_loop", [asyncio.new_event_loop, new_uvloop])


@loops
def test_a_broker_alone_answers_who_asks_again_at_once(make_loop: Any) -> None:
    async def body() -> None:
        scene = Scene(1)
        assert scene.ask() is None

    run(body, make_loop)


@loops
def test_in_a_cluster_that_is_well_no_question_waits_for_a_timer(make_loop: Any) -> None:
    async def body() -> None:
        scene = Scene(1, 2, 3)
        await scene.answered(scene.ask())
        assert scene.timers == []

    run(body, make_loop)


@loops
def test_a_leader_found_dead_in_the_look_holds_the_question(make_loop: Any) -> None:
    """The client was faster: its socket was closed first, and its question is read before ours is looked at."""

    async def body() -> None:
        scene = Scene(1, 2, 3)
        ours, leaders = socket.socketpair()

        class LeaderConnection(asyncio.Protocol):
            def connection_lost(self, error: Exception | None) -> None:
                scene.suspects.connection_lost(BrokerId(3))

        await scene.loop.create_connection(LeaderConnection, sock=ours)
        asked: asyncio.Future[asyncio.Future[None] | None] = scene.loop.create_future()

        class ClientConnection(asyncio.Protocol):
            def data_received(self, data: bytes) -> None:
                leaders.close()
                asked.set_result(scene.ask())

        door, client = socket.socketpair()
        to_client, _ = await scene.loop.create_connection(ClientConnection, sock=door)
        client.send(b"who leads?")
        async with asyncio.timeout(60):
            question = await asked
            assert question is not None
            while BrokerId(3) not in scene.held._reasons:
                assert not question.done(), "answered before the loop had told of the closed connection"
                await asyncio.sleep(0)
        assert not question.done()
        to_client.close()
        client.close()
        told(scene.metadata, 1, 2)
        scene.end_turn()
        await scene.answered(question)

    run(body, make_loop)


async def troubled(scene: Scene) -> None:
    await scene.answered(scene.ask())
    assert scene.timers == [DOUBT_MS / 1000]
    scene.held._troubled_until -= TROUBLE_MS / 1000
    await scene.answered(scene.ask())
    assert len(scene.timers) == 1, "long enough ago"


@loops
def test_after_a_sign_of_trouble_a_question_waits_until_we_would_have_heard_more(make_loop: Any) -> None:
    async def body() -> None:
        scene = Scene(1, 2, 3)
        scene.held.trouble()
        await troubled(scene)

    run(body, make_loop)


@loops
def test_telling_somebody_that_the_leader_is_another_one_is_a_sign_of_trouble(make_loop: Any) -> None:
    async def body() -> None:
        scene = Scene(1, 2, 3)
        scene.metadata.refusals += 1
        scene.end_turn()
        await troubled(scene)

    run(body, make_loop)


def test_who_produced_has_asked_before() -> None:
    async def body() -> None:
        scene = Scene(1, 2)
        scene.client = cast(Connection, Client())
        assert scene.held.hold(scene.client, PRODUCE, FRAME) is None
        await scene.answered(scene.ask())

    run(body, asyncio.new_event_loop)


def test_the_controllers_connection_is_known_by_its_requests() -> None:
    async def body() -> None:
        scene = Scene(1, 2)
        scene.held.hold(scene.client, UPDATE_METADATA, FRAME)
        assert scene.client.is_of_broker

    run(body, asyncio.new_event_loop)
