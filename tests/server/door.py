"""A gateway whose broker is a function, and connections without a network."""

import asyncio
import logging
from collections.abc import Callable
from unittest.mock import Mock

import pytest

from odradek.broker.answers import Answer, Reply
from odradek.broker.client_throttles import ClientThrottles
from odradek.broker.quotas import ClientQuotas
from odradek.broker.request import ConnectionInfo, Request
from odradek.client.receive_buffers import BufferPool
from odradek.model.settings import BrokerSettings
from odradek.protocol.headers import encode_request
from odradek.server.connection import Connection
from odradek.server.environment import Environment
from odradek.server.gateway import LOOK_AGAIN_S, Gateway
from odradek.server.log_limits import LimitedLog
from odradek.server.metrics import Metrics
from tests.server.memory_transport import MemoryTransport, connect

LIST_OFFSETS = 2


class Door:
    """A gateway whose broker is a function."""

    def __init__(self, loop: asyncio.AbstractEventLoop, **settings: str) -> None:
        self.requests: list[Request] = []
        self.decide: Callable[[Request], Answer] = lambda request: Reply([b"ok"])
        self.effects: list[Callable[[], None]] = []
        self.closed: list[ConnectionInfo] = []
        self.metrics = Metrics()
        self.quotas = ClientQuotas()
        self.throttles = ClientThrottles(self.quotas, BrokerSettings({}))
        self.gateway = Gateway(
            throttles=self.throttles,
            settings=BrokerSettings({name.replace("_", "."): value for name, value in settings.items()}),
            environment=Environment(loop),
            pool=BufferPool(),
            handle=self.handle,
            on_connection_closed=self.closed.append,
            log=LimitedLog(logging.getLogger("odradek.server"), loop.time),
            metrics=self.metrics,
            protected_listener="INTERNAL",
        )
        # Else a machine that does other things as well may put frames off to the next turn of a loop that is never run.
        self.gateway.stopwatch_ns = lambda: 0
        self.gateway.end_turns_with(self.drain, lambda: None)

    def handle(self, request: Request, now_ms: int) -> Answer:
        self.requests.append(request)
        return self.decide(request)

    def drain(self) -> bool:
        effects, self.effects = self.effects, []
        for effect in effects:
            effect()
        return bool(effects)

    def connect(self, listener: str = "PLAINTEXT") -> tuple[Connection, MemoryTransport]:
        connection = self.gateway.make_connection(listener)
        return connection, connect(connection)


class StoppedDoor(Door):
    """Its clock stands still until a test sets it, and no timer goes off."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self.now = 1000.0
        self.gateway.monotonic = lambda: self.now
        self.gateway.call_later = lambda *_: None  # type: ignore[assignment]

    def looks_in(self, turns: int, name: str) -> int:
        """How often the gateway's function of that name is called in so many turns, twenty of which take LOOK_AGAIN_S."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(self.gateway, name, look := Mock(wraps=getattr(self.gateway, name)))
            for _ in range(turns):
                self.now += LOOK_AGAIN_S / 20
                self.gateway.end_turn()
        return look.call_count


def request(correlation_id: int = 1, key: int = LIST_OFFSETS, version: int = 6, body: bytes = b"") -> bytes:
    return encode_request(key, version, correlation_id, "me", body)
