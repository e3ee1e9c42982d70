"""The way from a broker to whichever broker is controller now, perhaps itself, over the inter-broker
listener.

Versions are negotiated (docs/mixing: the one channel between brokers that does). Requests wait here while
nobody is controller; what cannot be delivered is answered None, and whoever asked knows whether to ask again.
"""

from collections.abc import Callable
from typing import Any

from odradek.client.connection import BrokerLink
from odradek.client.receive_buffers import BufferPool
from odradek.model.cluster import Endpoint
from odradek.model.errors import ProtocolError
from odradek.model.ids import BrokerId
from odradek.protocol.messages import response_class
from odradek.server.log_limits import LimitedLog
from odradek.server.seams import Seams

API_VERSIONS = 18
BACKOFF_MS = 50

# The decoded answer, or None when the request could not be delivered or answered.
OnMessage = Callable[[Any | None], None]


class _Pending:
    __slots__ = ("api_key", "given_at", "max_version", "message", "on_message")

    def __init__(
        self, api_key: int, max_version: int, message: Any, on_message: OnMessage, given_at: float
    ) -> None:
        self.api_key = api_key
        self.max_version = max_version
        self.message = message
        self.on_message = on_message
        self.given_at = given_at


class ControllerChannel:
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
        self._link: BrokerLink | None = None
        self._versions: dict[int, int] | None = None  # api key -> highest the controller serves
        self._is_negotiating = False
        self._waiting: list[_Pending] = []
        self._is_closed = False
        self.controller: BrokerId | None = None

    def controller_is(self, broker: BrokerId | None, endpoint: Endpoint | None) -> None:
        """Somebody else (or a new incarnation) is controller: what the old one has not answered is lost."""
        old = self._link
        self._link = None
        self._versions = None
        self._is_negotiating = False
        self.controller = broker
        if endpoint is not None and not self._is_closed:
            self._link = BrokerLink(
                self._seams.loop,
                host=endpoint.host,
                port=endpoint.port,
                client_id=self._client_id,
                pool=self._pool,
                after_turn=self._after_turn,
                request_timeout_ms=self._request_timeout_ms,
                backoff_ms=BACKOFF_MS,
            )
        if old is not None:
            old.close("another broker is controller")
        self._pump()

    def send(self, api_key: int, message: Any, max_version: int, on_message: OnMessage) -> None:
        """`on_message` is called exactly once."""
        if self._is_closed:
            on_message(None)
            return
        self._waiting.append(_Pending(api_key, max_version, message, on_message, self._seams.loop.time()))
        self._pump()

    def expire_waiting(self) -> None:
        """Called about once a second: nothing waits longer than request.timeout.ms for a controller."""
        oldest = self._seams.loop.time() - self._request_timeout_ms / 1000
        expired = [pending for pending in self._waiting if pending.given_at < oldest]
        if expired:
            self._waiting = [pending for pending in self._waiting if pending.given_at >= oldest]
            for pending in expired:
                pending.on_message(None)

    def close(self) -> None:
        self._is_closed = True
        if self._link is not None:
            self._link.close("this broker stops")
            self._link = None
        waiting, self._waiting = self._waiting, []
        for pending in waiting:
            pending.on_message(None)

    def _pump(self) -> None:
        link = self._link
        if link is None or not self._waiting:
            return
        if self._versions is None:
            if not self._is_negotiating:
                self._is_negotiating = True
                # Version 0 has an empty body and every broker knows it.
                link.send(API_VERSIONS, 0, b"", lambda body, reason: self._negotiated(link, body, reason))
            return
        waiting, self._waiting = self._waiting, []
        for pending in waiting:
            version = min(pending.max_version, self._versions.get(pending.api_key, -1))
            if version < 0:
                self._log.warning(
                    f"not served {pending.api_key}",
                    f"controller {self.controller} does not serve API key {pending.api_key}",
                )
                pending.on_message(None)
                continue
            self._send(link, pending, version)

    def _send(self, link: BrokerLink, pending: _Pending, version: int) -> None:
        def answered(body: memoryview | None, reason: str) -> None:
            if body is None:
                self._versions = None  # the next connection may reach another release
                self._log.warning("controller", f"controller {self.controller} cannot be asked: {reason}")
                pending.on_message(None)
                return
            try:
                message = response_class(pending.api_key).decode(version, body)
            except ProtocolError as error:
                self._log.warning("controller", f"controller {self.controller} answered nonsense: {error}")
                pending.on_message(None)
                return
            pending.on_message(message)

        link.send(pending.api_key, version, pending.message.encode(version), answered)

    def _negotiated(self, link: BrokerLink, body: memoryview | None, reason: str) -> None:
        if link is not self._link:
            return
        self._is_negotiating = False
        if body is not None:
            try:
                answer: Any = response_class(API_VERSIONS).decode(0, body)
                self._versions = {api.api_key: api.max_version for api in answer.api_keys}
            except ProtocolError as error:
                reason = f"its ApiVersions cannot be read: {error}"
        if self._versions is None:
            self._log.warning("controller", f"controller {self.controller} cannot be asked: {reason}")
            waiting, self._waiting = self._waiting, []
            for pending in waiting:
                pending.on_message(None)
            return
        self._pump()
