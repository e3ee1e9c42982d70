"""What clients are told while a broker is dying: no stale leader, no leader that vanished too suddenly."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest

from odradek.broker.metadata_cache import MetadataCache
from odradek.model.ids import BrokerId
from odradek.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataRequest,
)
from odradek.server import suspects as module
from odradek.server.held_requests import HeldRequests
from odradek.server.suspects import Suspects


def told(metadata: MetadataCache, *brokers: int) -> None:
    """An UpdateMetadata that names these."""
    metadata.commit_update(
        UpdateMetadataRequest(
            controller_id=brokers[0],
            live_brokers=[
                UpdateMetadataBroker(
                    id=b, endpoints=[UpdateMetadataEndpoint(port=9000 + b, host="h", listener="PLAINTEXT")]
                )
                for b in brokers
            ],
        )
    )


class Scene:
    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.turns = 0
        self.metadata = MetadataCache()
        self.held = HeldRequests(lambda connection, frame: None, loop, self.end_turn)  # type: ignore[arg-type,return-value]
        self.suspects = Suspects(self.metadata, self.held, loop, self.end_turn)

    def end_turn(self) -> None:
        self.turns += 1
        self.suspects.look()

    @property
    def is_holding(self) -> bool:
        return bool(self.held._reasons)

    def told(self, *brokers: int) -> None:
        told(self.metadata, *brokers)
        self.end_turn()

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not holds():
                await asyncio.sleep(0.001)


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(module, "LONGEST_SUSPICION_S", 0.05)
    monkeypatch.setattr(module, "LONGEST_IGNORANCE_S", 0.05)
    monkeypatch.setattr(module, "DEPARTED_SHOWN_S", 0.05)
    yield


def run(body: Callable[[Scene], Awaitable[None]]) -> None:
    async def main() -> None:
        scene = Scene()
        await body(scene)
        scene.suspects.close()

    asyncio.run(main())


def test_nothing_is_said_before_the_first_word_of_the_controller() -> None:
    async def body(scene: Scene) -> None:
        assert scene.is_holding
        scene.told(1, 2)
        assert not scene.is_holding

    run(body)


def test_a_broker_nobody_tells_anything_answers_in_the_end() -> None:
    async def body(scene: Scene) -> None:
        await scene.until(lambda: not scene.is_holding)
        assert scene.turns == 1, "what was held is sent"

    run(body)


def test_a_lost_leader_holds_questions_until_the_controller_has_spoken() -> None:
    async def body(scene: Scene) -> None:
        scene.told(1, 2, 3)
        scene.suspects.connection_lost(BrokerId(3))
        assert scene.is_holding
        scene.told(1, 2, 3)
        assert scene.is_holding, "that was about something else"
        scene.told(1, 2)
        assert not scene.is_holding

    run(body)


def test_a_connection_that_stands_again_takes_the_suspicion_back() -> None:
    async def body(scene: Scene) -> None:
        scene.told(1, 2, 3)
        scene.suspects.connection_lost(BrokerId(3))
        scene.suspects.connection_lost(BrokerId(3))
        scene.suspects.connected(BrokerId(3))
        assert not scene.is_holding

    run(body)


def test_a_suspicion_does_not_last() -> None:
    async def body(scene: Scene) -> None:
        scene.told(1, 2, 3)
        scene.suspects.connection_lost(BrokerId(3))
        await scene.until(lambda: not scene.is_holding)

    run(body)


def test_who_is_known_to_be_gone_is_not_suspected() -> None:
    async def body(scene: Scene) -> None:
        scene.told(1, 2)
        scene.suspects.connection_lost(BrokerId(3))
        assert not scene.is_holding

    run(body)


def test_a_broker_that_is_gone_is_named_a_little_longer_and_leads_nothing() -> None:
    async def body(scene: Scene) -> None:
        scene.told(1, 2, 3)
        scene.told(1, 2)
        assert sorted(scene.metadata.shown_brokers) == [1, 2, 3]
        assert sorted(scene.metadata.brokers) == sorted(scene.metadata.live_brokers) == [1, 2]
        epoch = scene.metadata.epoch
        await scene.until(lambda: sorted(scene.metadata.shown_brokers) == [1, 2])
        assert scene.metadata.epoch > epoch, "answers encoded before are void"

    run(body)


def test_a_broker_that_returns_is_named_where_it_is_now() -> None:
    async def body(scene: Scene) -> None:
        scene.told(1, 3)
        scene.told(1)
        told(scene.metadata, 1, 3)
        scene.metadata.brokers[3].endpoints["PLAINTEXT"]
        scene.end_turn()
        assert scene.metadata.departed == {}
        assert scene.metadata.shown_brokers is scene.metadata.brokers

    run(body)
