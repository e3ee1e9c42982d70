"""The way to whoever is controller: negotiated, patient for a while, and never silent."""

import asyncio
import logging
import struct
from collections.abc import Awaitable, Callable
from typing import Any

from odradek.client.receive_buffers import BufferPool
from odradek.model.cluster import Endpoint
from odradek.model.ids import BrokerId
from odradek.protocol.headers import decode_request_header, response_header
from odradek.protocol.messages import request_class, response_class
from odradek.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from odradek.protocol.messages.alter_partition import AlterPartitionRequest
from odradek.server.controller_channel import ControllerChannel
from odradek.server.links import Links
from odradek.server.log_limits import LimitedLog

API_VERSIONS, ALTER_PARTITION, ALLOCATE = 18, 56, 67


class FakeController:
    def __init__(self, versions: dict[int, int]) -> None:
        self.versions = versions
        self.asked: list[tuple[int, int, Any]] = []
        self.numbers: list[int] = []
        self.server: asyncio.Server | None = None
        self.writers: list[asyncio.StreamWriter] = []
        self.is_silent = False

    async def start(self) -> Endpoint:
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", self.server.sockets[0].getsockname()[1])

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                frame = await reader.readexactly(size)
                key, version, correlation_id, _, offset = decode_request_header(frame)
                self.numbers.append(correlation_id)
                self.asked.append((key, version, request_class(key).decode(version, frame, offset)))
                answer: Any = response_class(key)()
                if key == API_VERSIONS:
                    kind = type(answer).TABLE[1].of
                    answer.api_keys = [
                        kind(api_key=k, min_version=0, max_version=v) for k, v in self.versions.items()
                    ]
                elif self.is_silent:
                    continue
                payload = response_header(key, version, correlation_id) + answer.encode(version)
                writer.write(struct.pack(">i", len(payload)) + payload)
        except (asyncio.IncompleteReadError, ConnectionResetError):
            writer.close()

    def stop(self) -> None:
        for writer in self.writers:
            writer.close()
        if self.server is not None:
            self.server.close()


class Scene:
    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.answers: list[Any] = []
        self.changed = asyncio.Event()
        self.channel = ControllerChannel(
            Links(loop, BufferPool(), "me", self.changed.set, 60_000),
            LimitedLog(logging.getLogger("odradek.server"), loop.time),
        )

    def ask(self, key: int = ALTER_PARTITION, max_version: int = 3) -> None:
        message = AlterPartitionRequest() if key == ALTER_PARTITION else AllocateProducerIdsRequest()
        self.channel.send(key, message, max_version, self._answered)

    def _answered(self, message: Any) -> None:
        self.answers.append(message)
        self.changed.set()

    async def until(self, count: int) -> None:
        async with asyncio.timeout(60):
            while len(self.answers) < count:
                self.changed.clear()
                await self.changed.wait()


def run(body: Callable[[Scene, FakeController, Endpoint], Awaitable[None]], **versions: int) -> None:
    async def main() -> None:
        controller = FakeController({ALTER_PARTITION: versions.get("alter", 3), ALLOCATE: 0})
        endpoint = await controller.start()
        scene = Scene()
        try:
            await body(scene, controller, endpoint)
        finally:
            scene.channel.close()
            controller.stop()

    asyncio.run(main())


def test_versions_are_asked_for_once_and_the_highest_common_one_is_spoken() -> None:
    async def body(scene: Scene, controller: FakeController, endpoint: Endpoint) -> None:
        scene.channel.controller_is(BrokerId(1), endpoint)
        scene.ask()
        scene.ask()
        scene.ask(ALLOCATE, 0)
        await scene.until(3)
        assert [(key, version) for key, version, _ in controller.asked] == [
            (API_VERSIONS, 0),
            (ALTER_PARTITION, 2),
            (ALTER_PARTITION, 2),
            (ALLOCATE, 0),
        ]
        assert None not in scene.answers

    run(body, alter=2)


def test_a_request_waits_while_nobody_is_controller() -> None:
    async def body(scene: Scene, controller: FakeController, endpoint: Endpoint) -> None:
        scene.ask()
        scene.channel.controller_is(None, None)
        scene.channel.expire_waiting()
        assert scene.answers == []
        scene.channel.controller_is(BrokerId(1), endpoint)
        await scene.until(1)
        assert scene.answers[0] is not None

    run(body)


def test_it_does_not_wait_for_ever() -> None:
    async def body(scene: Scene, controller: FakeController, endpoint: Endpoint) -> None:
        scene.ask()
        scene.channel._waiting[0].given_at -= 61.0  # the clock is moved, not waited for
        scene.ask()
        for _ in range(2):
            scene.channel.expire_waiting()
            assert scene.answers == [None], "once"

    run(body)


def test_another_controller_means_that_the_old_one_will_not_answer() -> None:
    async def body(scene: Scene, controller: FakeController, endpoint: Endpoint) -> None:
        controller.is_silent = True
        scene.channel.controller_is(BrokerId(1), endpoint)
        scene.ask()
        async with asyncio.timeout(60):
            while len(controller.asked) < 2:
                await asyncio.sleep(0.001)
        scene.channel.controller_is(BrokerId(2), None)
        assert scene.answers == [None]

    run(body)


def test_a_controller_that_is_elected_while_the_former_one_is_asked_for_its_versions_is_asked_for_its_own() -> (
    None
):
    async def body(scene: Scene, controller: FakeController, endpoint: Endpoint) -> None:
        scene.channel.controller_is(BrokerId(1), endpoint)
        scene.ask()
        scene.channel.controller_is(BrokerId(2), endpoint)
        await scene.until(1)
        assert scene.answers[0] is not None

    run(body)


def test_numbers_rise_from_one_controller_to_the_next() -> None:
    """One that is elected again remembers which it has read (`broker/proposal_order`)."""

    async def body(scene: Scene, controller: FakeController, endpoint: Endpoint) -> None:
        for count, endpoint_or_none in enumerate((endpoint, None, endpoint)):
            scene.channel.controller_is(BrokerId(1), endpoint_or_none)
            if endpoint_or_none is not None:
                scene.ask()
                await scene.until(count // 2 + 1)
        assert controller.numbers == sorted(set(controller.numbers)) and len(controller.numbers) == 4

    run(body)


def test_a_connection_that_breaks_is_an_answer_and_the_next_request_connects_again() -> None:
    async def body(scene: Scene, controller: FakeController, endpoint: Endpoint) -> None:
        scene.channel.controller_is(BrokerId(1), endpoint)
        scene.ask()
        await scene.until(1)
        controller.is_silent = True
        scene.ask()
        async with asyncio.timeout(60):
            while len(controller.asked) < 3:
                await asyncio.sleep(0.001)
        controller.writers[0].close()
        await scene.until(2)
        assert scene.answers[1] is None
        controller.is_silent = False
        scene.ask()
        await scene.until(3)
        assert scene.answers[2] is not None
        assert [key for key, _, _ in controller.asked].count(API_VERSIONS) == 2, "it may be another release"

    run(body)


def test_a_key_the_controller_does_not_serve_is_an_answer() -> None:
    async def body(scene: Scene, controller: FakeController, endpoint: Endpoint) -> None:
        del controller.versions[ALLOCATE]
        scene.channel.controller_is(BrokerId(1), endpoint)
        scene.ask(ALLOCATE, 0)
        await scene.until(1)
        assert scene.answers == [None]

    run(body)


def test_after_the_end_everything_is_answered_at_once() -> None:
    async def body(scene: Scene, controller: FakeController, endpoint: Endpoint) -> None:
        scene.ask()
        scene.channel.close()
        scene.ask()
        assert scene.answers == [None, None]

    run(body)
