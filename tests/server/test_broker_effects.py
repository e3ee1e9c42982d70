"""What a broker asks for is done and answered, whatever goes wrong on the way."""

import asyncio
import gc
import logging
import os
import socket
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from odradek.broker import effects as fx
from odradek.broker.answers import CloseConnection
from odradek.broker.control_queue import AT_ONCE
from odradek.broker.coordinator_shards import Making
from odradek.model.ids import BrokerId
from odradek.protocol.messages import metadata as mm
from odradek.replication.purgatory import Waiter
from odradek.server import broker_effects, state_change_log
from odradek.server.broker_effects import BrokerEffects
from odradek.server.environment import Environment
from odradek.server.log_limits import LimitedLog
from odradek.store import api, layout
from odradek.store.memory_session import MemoryEnsemble
from tests.broker.test_control_queue import NEW_AT_ONCE, told
from tests.broker.world import T0, Node, Pending, World


class Scene:
    """One real broker; of the shell around it only what does its effects."""

    def __init__(self, node: Node, store: Any = None) -> None:
        loop = asyncio.get_running_loop()
        self.broker = node.broker
        self.broken: list[BaseException] = []
        parts: dict[str, Any] = {
            name: SimpleNamespace(
                ask=None,
                flush=None,
                checkpoint_high_watermarks=lambda effect: None,
                end_turn=self.end_turn,
            )
            for name in ("controller", "channel", "links", "fetchers", "gateway", "disk")
        }
        self.effects = BrokerEffects(
            broker=self.broker,
            logs=node.logs,
            environment=Environment(loop),
            sessions=SimpleNamespace(store=store),  # type: ignore[arg-type]
            on_broken=self.broken.append,
            log=LimitedLog(logging.getLogger("odradek.server"), loop.time),
            **parts,
        )

    def end_turn(self) -> None:
        while self.effects.drain():
            pass
        self.effects.set_deadline()

    async def until_answered(self) -> None:
        async with asyncio.timeout(60):
            while self.effects._questions:
                await asyncio.wait(self.effects._questions)


class Mistaken(Waiter):
    def is_over(self, now_ms: int) -> bool:
        raise AssertionError("our own mistake")

    def finish(self, now_ms: int, *, is_late: bool) -> None:
        raise AssertionError("our own mistake")


@pytest.fixture
def node(tmp_path: Path) -> Node:
    world = World(tmp_path, brokers=(1,))
    world[1].broker.take_effects()
    return world[1]


def test_a_broker_whose_turn_cannot_end_is_broken(node: Node) -> None:
    """Whoever comes next would try the same waiter again, and nobody's requests would be answered any more."""

    async def main() -> None:
        scene = Scene(node)
        scene.broker.purgatory.wake(Mistaken())
        with pytest.raises(AssertionError, match="our own mistake"):
            scene.end_turn()
        assert [str(error) for error in scene.broken] == ["our own mistake"]

    asyncio.run(main())


def test_a_broker_whose_clock_cannot_tick_is_broken(node: Node) -> None:
    """Those that were due with it are not parked any more, and would never be answered."""

    async def main() -> None:
        scene = Scene(node)
        scene.broker.purgatory.park(Mistaken(), deadline_ms=0)
        with pytest.raises(AssertionError, match="our own mistake"):
            scene.effects._tick()
        assert [str(error) for error in scene.broken] == ["our own mistake"]

    asyncio.run(main())


def test_a_tick_ends_as_a_turn_does_and_sets_the_next_deadline(node: Node) -> None:
    async def main() -> None:
        scene = Scene(node)
        scene.end_turn()
        fired = scene.effects._deadline
        assert fired is not None
        fired.cancel()
        scene.effects._tick()
        assert scene.effects._deadline not in (None, fired)

    asyncio.run(main())


@pytest.mark.parametrize("mistake", [api.NoNode("/config/topics"), ValueError("nothing foreseen")], ids=repr)
def test_a_question_to_the_store_is_answered_whatever_happens_to_it(
    node: Node, mistake: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    class Store:
        async def get_many(self, paths: object) -> list[object]:
            raise mistake

    async def main() -> None:
        scene = Scene(node, Store())
        answers: list[fx.StoreResult] = []
        scene.broker.ask_store(
            fx.ReadConfigs((("topics", "t"),)), lambda result, now_ms: answers.append(result)
        )
        scene.end_turn()
        await scene.until_answered()
        (answer,) = answers
        assert isinstance(answer, fx.StoreFailed)
        assert repr(mistake) in answer.reason
        assert scene.broken == []

    asyncio.run(main())
    assert [record.exc_info is not None for record in caplog.records] == [True]


def test_a_failed_directory_is_told_even_where_nobody_was_told_of_one_before(node: Node) -> None:
    """Not told, it would go on being the leader of what it cannot read."""

    async def main() -> None:
        store = MemoryEnsemble().open()
        scene = Scene(node, store)
        scene.broker.effects.append(fx.LogDirectoryFailed("/data"))
        scene.end_turn()
        await scene.until_answered()
        assert len(await store.children(layout.LOG_DIR_EVENTS)) == 1

    asyncio.run(main())


def test_a_failed_directory_is_told_in_the_next_session_where_this_one_is_over(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_effects, "RETRY_S", 0)

    async def main() -> None:
        ensemble = MemoryEnsemble()
        over, next_one = ensemble.open(), ensemble.open()
        ensemble.expire(over.session_id)
        scene = Scene(node, over)
        scene.broker.effects.append(fx.LogDirectoryFailed("/data"))
        scene.end_turn()
        for _ in range(10):
            await asyncio.sleep(0)
        scene.effects._sessions.store = next_one
        await scene.until_answered()
        assert len(await next_one.children(layout.LOG_DIR_EVENTS)) == 1

    asyncio.run(main())


def test_a_broker_that_stops_starts_no_report_of_a_failed_directory(node: Node) -> None:
    """Its last flush may fail behind the session's end, and nobody would end what waits for another session."""

    async def main() -> None:
        scene = Scene(node)
        scene.effects.stop_moving()
        scene.effects.cancel_questions()
        scene.broker.effects.append(fx.LogDirectoryFailed("/data"))
        scene.end_turn()
        left, scene.effects._questions = scene.effects._questions, set()
        for task in left:
            task.cancel()
        assert not left

    asyncio.run(main())


def test_the_state_change_lines_of_a_turn_are_written_together(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is one for each partition of a LeaderAndIsr; one by one they take longer than all the rest of it."""
    written: list[list[tuple[str, str]]] = []
    monkeypatch.setattr(state_change_log, "write_lines", lambda lines, at_ms: written.append(list(lines)))

    async def main() -> None:
        scene = Scene(node)
        for number in range(3):
            scene.broker.effects.append(fx.StateChangeLine("info", f"line {number}"))
            scene.broker.effects.append(fx.LogLine("info", "between them"))
        scene.end_turn()

    asyncio.run(main())
    assert written == [[("INFO", "line 0"), ("INFO", "line 1"), ("INFO", "line 2")]]


def make_many(node: Node) -> Pending:
    """More partitions than a broker takes at once, told by the controller."""
    return node.world.send(1, told(node.world, partitions=4 * AT_ONCE), 7)


def test_others_have_their_turns_between_the_slices_of_a_leader_and_isr(node: Node) -> None:
    async def main() -> None:
        scene = Scene(node)
        scene.effects._slice_ns = 0
        pending = make_many(node)
        scene.end_turn()
        seen = []
        while not pending.is_answered:
            seen.append(len(node.broker.replicas.partitions))
            await asyncio.sleep(0)
        assert seen == list(range(NEW_AT_ONCE, 4 * AT_ONCE + 1, NEW_AT_ONCE)), "the last one makes the answer"
        assert {row.error_code for row in pending.message.topics[0].partition_errors} == {0}

    asyncio.run(main())


def test_the_processor_is_given_to_others_between_two_slices_and_at_no_other_time(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[int] = []
    monkeypatch.setattr(os, "sched_yield", lambda: given.append(len(node.broker.replicas.partitions)))

    async def main() -> None:
        scene = Scene(node)
        scene.effects._slice_ns = 0
        pending = make_many(node)
        scene.end_turn()
        while not pending.is_answered:
            await asyncio.sleep(0)
        assert given == list(range(2 * NEW_AT_ONCE, 4 * AT_ONCE + 1, NEW_AT_ONCE)), "the last one answers"
        scene.end_turn()
        await asyncio.sleep(0)
        assert len(given) == 4 * AT_ONCE // NEW_AT_ONCE - 1

    asyncio.run(main())


def test_a_slice_goes_on_while_it_has_time(node: Node) -> None:
    async def main() -> None:
        scene = Scene(node)
        scene.effects._slice_ns = 1 << 60
        pending = make_many(node)
        scene.end_turn()
        await asyncio.sleep(0)
        assert pending.is_answered

    asyncio.run(main())


def test_a_broker_that_stops_does_not_go_on(node: Node) -> None:
    async def main() -> None:
        scene = Scene(node)
        pending = make_many(node)
        scene.end_turn()
        scene.effects.stop_moving()
        for _ in range(5):
            await asyncio.sleep(0)
        assert not pending.is_answered and len(node.broker.replicas.partitions) == NEW_AT_ONCE

    asyncio.run(main())


def test_a_mistake_of_ours_in_a_slice_is_said_and_breaks_nothing_else(
    node: Node, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        scene = Scene(node)
        pending = make_many(node)
        scene.end_turn()
        monkeypatch.setattr(node.broker.replicas, "commit_slice", lambda *_: 1 / 0)
        await asyncio.sleep(0)
        assert isinstance(pending.result, CloseConnection) and scene.broken == []
        assert "could not be obeyed: ZeroDivisionError" in caplog.text

    asyncio.run(main())


def test_the_collector_rests_while_a_slice_is_made(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    original = node.broker.replicas.commit_slice
    resting: list[bool] = []

    def commit_slice(*given: Any) -> Any:
        resting.append(not gc.isenabled())
        return original(*given)

    async def main() -> None:
        scene = Scene(node)
        pending = make_many(node)
        monkeypatch.setattr(node.broker.replicas, "commit_slice", commit_slice)
        scene.end_turn()
        while not pending.is_answered:
            await asyncio.sleep(0)
        assert gc.isenabled()

    asyncio.run(main())
    assert resting and all(resting)


def test_the_collector_rests_while_a_thread_makes_a_coordinator(node: Node) -> None:
    """It has the interpreter for as long as it looks at all that is being made, a second for a hundred thousand members."""

    def made(*_: Any) -> tuple[Any, str]:
        return gc.isenabled(), ""

    async def main() -> None:
        scene = Scene(node)
        came: list[Any] = []
        request_id = scene.broker.calls.expect(lambda result, now_ms: came.append(result))
        scene.broker.effects.append(fx.RunAside(request_id, Making(made, Any, 0)))  # type: ignore[arg-type]
        scene.end_turn()
        await scene.until_answered()
        assert came == [(False, "")]
        assert gc.isenabled()
        scene.effects._environment.close()

    asyncio.run(main())


def test_what_could_not_be_read_to_be_copied_is_answered_whatever_the_reason(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There was no memory for it: the copy waited for its answer, and those behind it for its place."""

    def no_memory(*_: Any) -> bytes:
        raise MemoryError

    async def main() -> None:
        monkeypatch.setattr("odradek.server.broker_effects.data_of", no_memory)
        scene = Scene(node)
        came: list[Any] = []
        request_id = scene.broker.calls.expect(lambda result, now_ms: came.append(result))
        log: Any = None
        scene.broker.effects.append(fx.ReadSlices(request_id, T0, log, 0, []))
        scene.end_turn()
        await scene.until_answered()
        assert came == [None]
        scene.effects._environment.close()

    asyncio.run(main())


def new_uvloop() -> asyncio.AbstractEventLoop:
    loop: asyncio.AbstractEventLoop = pytest.importorskip("uvloop").new_event_loop()
    return loop


@pytest.mark.parametrize("make_loop", [asyncio.new_event_loop, new_uvloop])
def test_a_look_around_tells_of_connections_that_were_closed_before_it(
    make_loop: Callable[[], asyncio.AbstractEventLoop], tmp_path: Path
) -> None:
    """A client was faster than we: its socket was closed first, and its question is read before ours is looked at."""
    world = World(tmp_path)
    node = world[1]
    client = world.connection()
    node.broker.take_effects()

    async def main() -> None:
        scene = Scene(node)
        world.now_ms = scene.effects._now_ms()
        loop = asyncio.get_running_loop()
        ours, leaders = socket.socketpair()
        was_lost: asyncio.Future[None] = loop.create_future()
        asked: asyncio.Future[Pending] = loop.create_future()

        class LeaderConnection(asyncio.Protocol):
            def connection_lost(self, error: Exception | None) -> None:
                scene.broker.leader_connection_lost(BrokerId(3), world.now_ms)
                was_lost.set_result(None)

        class ClientConnection(asyncio.Protocol):
            def data_received(self, data: bytes) -> None:
                leaders.close()
                asked.set_result(ask())
                scene.end_turn()

        def ask() -> Pending:
            return world.send(1, mm.MetadataRequest(topics=[]), 9, connection=client)

        scene.effects._does[fx.HandleAgain] = lambda effect: effect.place.answer(
            lambda: scene.broker.handle(effect.request, world.now_ms)
        )
        assert ask().is_answered
        await loop.create_connection(LeaderConnection, sock=ours)
        door, outside = socket.socketpair()
        to_client, _ = await loop.create_connection(ClientConnection, sock=door)
        outside.send(b"who leads?")
        async with asyncio.timeout(60):
            pending = await asked
            await was_lost
            for _ in range(10):  # turns in which the look comes to its end
                await asyncio.sleep(0)
        assert not pending.is_answered, "answered before the loop had told of the closed connection"
        scene.broker.leader_connected(BrokerId(3))
        scene.end_turn()
        assert pending.is_answered
        scene.effects.stop_moving()
        to_client.close()
        outside.close()

    with asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(main())
