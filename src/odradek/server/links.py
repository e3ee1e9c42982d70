"""How this broker makes connections to others: one factory for all who ask them something."""

import asyncio
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from odradek.client.connection import BrokerLink
from odradek.client.receive_buffers import BufferPool
from odradek.model.errors import ProtocolError
from odradek.protocol.messages import response_class
from odradek.server.log_limits import LimitedLog

# The decoded answer, or None when the request could not be delivered or answered.
OnMessage = Callable[[Any | None], None]


_CLIENT_ID = re.compile(r"broker-\d+-(to-controller|to-broker|cleaner)")


def client_id_of(broker_id: int, purpose: str) -> str:
    found = f"broker-{broker_id}-{purpose}"
    assert is_client_id_of_a_broker(found), found
    return found


def is_client_id_of_a_broker(client_id: str | None) -> bool:
    return client_id is not None and _CLIENT_ID.fullmatch(client_id) is not None


class Links(NamedTuple):
    """What all links of one purpose have in common; `_replace` gives another purpose its own."""

    loop: asyncio.AbstractEventLoop
    pool: BufferPool
    client_id: str
    after_turn: Callable[[], None]
    request_timeout_ms: int
    connect_timeout_ms: int = 10_000
    backoff_ms: int = 50

    def to(self, host: str, port: int, *, first_correlation_id: int = 0) -> BrokerLink:
        """Connects when something is to be sent."""
        return BrokerLink(
            self.loop,
            host=host,
            port=port,
            client_id=self.client_id,
            pool=self.pool,
            after_turn=self.after_turn,
            request_timeout_ms=self.request_timeout_ms,
            connect_timeout_ms=self.connect_timeout_ms,
            backoff_ms=self.backoff_ms,
            first_correlation_id=first_correlation_id,
        )


def decoded(
    body: memoryview | None, reason: str, *, api_key: int, version: int, whom: str, log: LimitedLog
) -> Any | None:
    """The answer of a link as a message; None, and a warning that names `whom`, where there is none or it cannot be read."""
    if body is None:
        log.warning(whom, f"{whom} cannot be asked: {reason}")
        return None
    try:
        return response_class(api_key).decode(version, body)
    except ProtocolError as error:
        log.warning(whom, f"{whom} sent a response that cannot be read: {error}")
        return None
