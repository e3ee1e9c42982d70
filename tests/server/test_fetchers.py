"""Connections to leaders: whatever stands in the way of one, it is tried again, and nothing else is held up."""

import asyncio
import logging
from typing import Any, cast

import pytest

from odradek.client.receive_buffers import BufferPool
from odradek.model.cluster import Endpoint
from odradek.model.ids import UNKNOWN_BROKER_EPOCH, BrokerId
from odradek.model.printable import printable
from odradek.replication.followed import FetchLimits
from odradek.replication.follower import FollowerFetcher
from odradek.replication.purgatory import Purgatory
from odradek.replication.waiting import Outbox
from odradek.server import fetchers as module
from odradek.server.environment import Environment
from odradek.server.fetchers import Fetchers
from odradek.server.log_limits import LimitedLog
from odradek.server.metrics import Metrics
from odradek.testing.running_cluster import ShiftedLoop

LEADER = BrokerId(1)


def fetchers_of(loop: asyncio.AbstractEventLoop, **others: Any) -> Fetchers:
    """That wait long, and tell nobody; `others`: what is not so."""
    usual: dict[str, Any] = {
        "connect_timeout_ms": 60_000,
        "silence_timeout_ms": 1_000_000,
        "metrics": Metrics(),
        "on_lost": lambda broker: None,
        "on_connected": lambda broker: None,
    }
    return Fetchers(
        environment=Environment(loop),
        pool=BufferPool(),
        after_turn=lambda: None,
        log=LimitedLog(logging.getLogger("odradek.server"), loop.time),
        **{**usual, **others},
    )


@pytest.mark.parametrize(
    ("host", "port"), [("no..name", 9092), ("nul\0", 9092), ("127.0.0.1", 70_000), ("127.0.0.1", -1)]
)
def test_a_leader_whose_address_is_none_is_tried_again(
    host: str, port: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """UpdateMetadata may say anything. The task that connects must not end on it: nobody would start another."""
    monkeypatch.setattr(module, "RECONNECT_MS", 1)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        metrics = Metrics()
        leaders = fetchers_of(loop, connect_timeout_ms=1_000, silence_timeout_ms=1_000, metrics=metrics)
        fetcher = FollowerFetcher(
            broker=BrokerId(2),
            leader=LEADER,
            limits=FetchLimits(),
            outbox=Outbox(Purgatory()),
            broker_epoch=lambda: UNKNOWN_BROKER_EPOCH,
        )
        leaders.start(LEADER, Endpoint("PLAINTEXT", "PLAINTEXT", host, port), fetcher)
        async with asyncio.timeout(60):
            while metrics.fetcher_failures < 3:  # type: ignore[attr-defined]
                await asyncio.sleep(0)
        leaders.stop_all()

    asyncio.run(main())
    (said,) = caplog.messages
    assert said.startswith(f"leader 1 at {printable(host)}:{port} cannot be reached: ")


class Asker:
    """A fetcher that asks what a test gives it, and is never answered."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.lost = 0  # connections, and what was under way with them

    def next_request(self, now_ms: int) -> bytes | None:
        return self.frames.pop(0) if self.frames else None

    def wake_at_ms(self, now_ms: int) -> int | None:
        return None

    def connection_lost(self, now_ms: int) -> None:
        self.lost += 1


class Delayed(Asker):
    """One that has something to ask a minute after it was asked what."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def next_request(self, now_ms: int) -> bytes | None:
        self.asked += 1
        return None

    def wake_at_ms(self, now_ms: int) -> int | None:
        return now_ms + 60_000


def test_whoever_is_delayed_again_is_asked_again() -> None:
    async def main() -> None:
        loop = cast(ShiftedLoop, asyncio.get_running_loop())
        connected = asyncio.Event()
        server = await asyncio.start_server(lambda reader, writer: held.append(writer), "127.0.0.1", 0)
        held: list[asyncio.StreamWriter] = []
        leaders = fetchers_of(loop, on_connected=lambda broker: connected.set())
        delayed: Any = Delayed()
        port = server.sockets[0].getsockname()[1]
        leaders.start(LEADER, Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", port), delayed)
        await connected.wait()
        for times in (1, 2, 3):
            assert delayed.asked == times
            loop.ahead_s += 61
            for _ in range(5):
                await asyncio.sleep(0)
        leaders.stop_all()
        for writer in held:
            writer.close()
        server.close()

    with asyncio.Runner(loop_factory=ShiftedLoop) as runner:
        runner.run(main())


def test_a_leader_is_given_up_for_its_silence_and_not_for_that_of_who_asked_nothing() -> None:
    """replica.socket.timeout.ms counts from the question: after a night without one the first was given up at once."""

    async def main() -> None:
        loop = cast(ShiftedLoop, asyncio.get_running_loop())
        connected = asyncio.Event()
        lost: list[BrokerId] = []
        held: list[
            asyncio.StreamWriter
        ] = []  # from CPython 3.13 on one that nobody holds closes its connection
        server = await asyncio.start_server(lambda reader, writer: held.append(writer), "127.0.0.1", 0)
        leaders = fetchers_of(loop, on_lost=lost.append, on_connected=lambda broker: connected.set())
        asker: Any = Asker()
        port = server.sockets[0].getsockname()[1]
        leaders.start(LEADER, Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", port), asker)
        await connected.wait()

        async def passes(seconds: float) -> None:
            loop.ahead_s += seconds
            for _ in range(5):
                await asyncio.sleep(0)

        await passes(30_000)
        asker.frames.append(b"\0\0\0\4ask?")
        leaders.wake(LEADER)
        await passes(300)
        assert lost == [] and asker.lost == 0
        await passes(1_000)
        assert lost == [LEADER]
        assert asker.lost == 1, "else it would wait for that answer, and ask nothing over the next connection"
        connected.clear()
        loop.ahead_s += module.RECONNECT_MS / 1000
        await connected.wait()
        await passes(300)
        await passes(1_000)
        assert lost == [LEADER], "over the next connection nothing was asked yet"
        leaders.stop_all()
        for writer in held:
            writer.close()
        server.close()

    with asyncio.Runner(loop_factory=ShiftedLoop) as runner:
        runner.run(main())


def test_a_leader_that_is_somewhere_else_now_is_fetched_from_there_alone() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        leaders = fetchers_of(loop)
        here: list[asyncio.StreamWriter] = []
        came = [asyncio.Event(), asyncio.Event()]
        gone = asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            here.append(writer)
            came[len(here) - 1].set()
            await reader.read()
            gone.set()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        endpoint = Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", server.sockets[0].getsockname()[1])
        async with asyncio.timeout(60):
            for connection in came:
                leaders.start(LEADER, endpoint, cast(Any, Asker()))
                await connection.wait()
                await asyncio.sleep(0)
            await gone.wait()
        leaders.stop_all()
        for writer in here:
            writer.close()
        server.close()

    asyncio.run(main())
