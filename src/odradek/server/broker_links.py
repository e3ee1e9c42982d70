"""The ways from this broker to others, over the inter-broker listener: one connection each, made when something is to be
sent. Versions are those of the effect, without asking ApiVersions: what brokers ask each other is as old as 3.9.
"""

from collections.abc import Callable
from typing import Any

from odradek.broker.effects import SendToBroker
from odradek.client.connection import BrokerLink
from odradek.client.receive_buffers import BufferPool
from odradek.model.errors import ProtocolError
from odradek.model.ids import BrokerId
from odradek.protocol.messages import response_class
from odradek.server.log_limits import LimitedLog
from odradek.server.seams import Seams

BACKOFF_MS = 50
# The decoded answer, or None when the request could not be delivered or answered.
OnMessage = Callable[[Any | None], None]


class BrokerLinks:
    def __init__(
        self,
        *,
        seams: Seams,
        pool: BufferPool,
        client_id: str,
        request_timeout_ms: int,
        after_turn: Callable[[], None],
        log: LimitedLog,
    ) -> None:
        self._seams = seams
        self._pool = pool
        self._client_id = client_id
        self._request_timeout_ms = request_timeout_ms
        self._after_turn = after_turn
        self._log = log
        self._links: dict[BrokerId, BrokerLink] = {}
        self._is_closed = False

    def send(self, effect: SendToBroker, on_message: OnMessage) -> None:
        """`on_message` is called exactly once, and never before this returns."""
        if self._is_closed:
            self._seams.loop.call_soon(on_message, None)
            return
        key, version, broker = effect.api_key, effect.version, effect.broker

        def answered(body: memoryview | None, reason: str) -> None:
            message = None
            if body is None:
                self._log.warning(f"peer {broker}", f"broker {broker} cannot be asked: {reason}")
            else:
                try:
                    message = response_class(key).decode(version, body)
                except ProtocolError as error:
                    self._log.warning(f"peer {broker}", f"broker {broker} answered nonsense: {error}")
            on_message(message)

        self._link(effect).send(key, version, effect.message.encode(version), answered)

    def close(self) -> None:
        self._is_closed = True
        links, self._links = self._links, {}
        for link in links.values():
            link.close("this broker stops")

    def _link(self, effect: SendToBroker) -> BrokerLink:
        """To where the broker is now; what its former address has not answered is lost."""
        link = self._links.get(effect.broker)
        host, port = effect.endpoint.host, effect.endpoint.port
        if link is not None and (link.host, link.port) == (host, port):
            return link
        if link is not None:
            link.close("the broker has moved")
        link = self._links[effect.broker] = BrokerLink(
            self._seams.loop,
            host=host,
            port=port,
            client_id=self._client_id,
            pool=self._pool,
            after_turn=self._after_turn,
            request_timeout_ms=self._request_timeout_ms,
            backoff_ms=BACKOFF_MS,
        )
        return link
