"""The way from a broker to whichever broker is controller now, perhaps itself, over the inter-broker
listener.

Versions are negotiated (docs/mixing: the one channel between brokers that does). Requests wait here while
nobody is controller; what cannot be delivered is answered None, and whoever asked knows whether to ask again.
"""

from typing import Any

from odradek.client.connection import BrokerLink
from odradek.model.cluster import Endpoint
from odradek.model.ids import BrokerId
from odradek.server.links import Links, OnMessage, decoded
from odradek.server.log_limits import LimitedLog

API_VERSIONS = 18


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
    def __init__(self, links: Links, log: LimitedLog) -> None:
        self._links = links
        self._log = log
        self._link: BrokerLink | None = None
        # Over all links: a controller that is elected again remembers what it has read of us (decisions/0008).
        self._next_correlation_id = 0
        self._versions: dict[int, int] | None = None  # api key -> highest the controller serves
        self._is_negotiating = False
        self._waiting: list[_Pending] = []
        self._is_closed = False
        self.controller: BrokerId | None = None

    def controller_is(self, broker: BrokerId | None, endpoint: Endpoint | None) -> None:
        """Somebody else (or a new incarnation) is controller: what the old one has not answered is lost."""
        old = self._link
        if old is not None:
            self._next_correlation_id = old.next_correlation_id
        self._link = None
        self._versions = None
        self._is_negotiating = False
        self.controller = broker
        if endpoint is not None and not self._is_closed:
            first = self._next_correlation_id
            self._link = self._links.to(endpoint.host, endpoint.port, first_correlation_id=first)
        if old is not None:
            old.close("another broker is controller")
        self._pump()

    def send(self, api_key: int, message: Any, max_version: int, on_message: OnMessage) -> None:
        """`on_message` is called exactly once."""
        if self._is_closed:
            on_message(None)
            return
        self._waiting.append(_Pending(api_key, max_version, message, on_message, self._links.loop.time()))
        self._pump()

    def expire_waiting(self) -> None:
        """Called about once a second: nothing waits longer than request.timeout.ms for a controller."""
        oldest = self._links.loop.time() - self._links.request_timeout_ms / 1000
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
            pending.on_message(self._decoded(body, reason, pending.api_key, version))

        link.send(pending.api_key, version, pending.message.encode(version), answered)

    def _negotiated(self, link: BrokerLink, body: memoryview | None, reason: str) -> None:
        if link is not self._link:
            return
        self._is_negotiating = False
        answer = self._decoded(body, reason, API_VERSIONS, 0)
        if answer is None:
            waiting, self._waiting = self._waiting, []
            for pending in waiting:
                pending.on_message(None)
            return
        self._versions = {api.api_key: api.max_version for api in answer.api_keys}
        self._pump()

    def _decoded(self, body: memoryview | None, reason: str, api_key: int, version: int) -> Any | None:
        whom = f"controller {self.controller}"
        return decoded(body, reason, api_key=api_key, version=version, whom=whom, log=self._log)
