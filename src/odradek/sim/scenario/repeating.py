"""Verbs of scenarios in which what a controller wrote is read a second time, late.

| command | does, and prints |
|---|---|
| `overhear B` | from now on, what controllers write to B is remembered: LeaderAndIsr, StopReplica, UpdateMetadata |
| `repeat B` | all of it reaches B again, byte for byte and in its order, each over a connection of its own; prints what B says to each kind: its error, or that it closes the connection |
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any

from odradek.model.error_codes import ErrorCode
from odradek.protocol.headers import decode_request_header, decode_response_header
from odradek.protocol.messages import response_class
from odradek.sim.faults.wire import control_frames
from odradek.sim.network import SimTransport
from odradek.sim.scenario.text import Words
from odradek.sim.world import PORT, SimBroker, World

CLOSED = "connection closed"


class Repeating:
    """Mixed into the stage of a scenario."""

    if TYPE_CHECKING:

        @property
        def world(self) -> World: ...

    _call: Callable[[Coroutine[Any, Any, Any]], Any]
    _broker: Callable[[str], SimBroker]
    _overheard: dict[str, list[bytes]]

    def do_overhear(self, words: Words) -> None:
        name = self._broker(words.plain[0]).name
        brokers = {broker.name for broker in self.world.brokers.values()}
        frames = self._overheard.setdefault(name, [])

        def tap(transport: SimTransport, data: bytes) -> None:
            if transport.remote_name == name and transport.host.name in brokers:
                frames.extend(control_frames(data))

        self.world.network.taps.append(tap)

    def do_repeat(self, words: Words) -> Iterator[str]:
        name = self._broker(words.plain[0]).name
        said: dict[str, None] = {}
        for frame in tuple(self._overheard[name]):
            said[self._call(_ask_again(self.world, name, frame))] = None
        yield from sorted(said)


async def _ask_again(world: World, name: str, frame: bytes) -> str:
    ear = _Ear()
    transport, _ = await world.loop.create_connection(lambda: ear, name, PORT)
    transport.write(frame)  # type: ignore[attr-defined]
    answer = await ear.heard
    transport.close()
    asked = decode_request_header(memoryview(frame)[4:])
    kind = response_class(asked.api_key)
    name_of_kind = kind.__name__.removesuffix("Response")
    if answer is None:
        return f"{name_of_kind}: {CLOSED}"
    _, offset = decode_response_header(asked.api_key, asked.api_version, answer)
    said: Any = kind.decode(asked.api_version, answer[offset:])
    return f"{name_of_kind}: {ErrorCode(said.error_code).name}"


class _Ear(asyncio.Protocol):
    """The first answer; None when the connection goes first."""

    def __init__(self) -> None:
        self.heard: asyncio.Future[memoryview | None] = asyncio.get_running_loop().create_future()
        self._data = bytearray()

    def data_received(self, data: bytes) -> None:
        self._data += data
        if len(self._data) >= 4 and len(self._data) >= 4 + int.from_bytes(self._data[:4], "big"):
            self._hear(memoryview(bytes(self._data))[4:])

    def connection_lost(self, exc: Exception | None) -> None:
        self._hear(None)

    def _hear(self, answer: memoryview | None) -> None:
        if not self.heard.done():
            self.heard.set_result(answer)
