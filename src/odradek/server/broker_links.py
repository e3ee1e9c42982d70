"""The ways from this broker to others, over the inter-broker listener: a connection for each kind of request, made when
something is to be sent. A broker answers a connection in order, and markers of transactions wait for followers: what asks a
coordinator must not wait behind them. Versions are those of the effect, without asking ApiVersions: what brokers ask each
other is as old as 3.9.
"""

from odradek.broker.effects import SendToBroker
from odradek.client.connection import BrokerLink
from odradek.model.ids import BrokerId
from odradek.server.links import Links, OnMessage, decoded
from odradek.server.log_limits import LimitedLog


class BrokerLinks:
    def __init__(self, links: Links, log: LimitedLog) -> None:
        self._make = links
        self._log = log
        self._links: dict[tuple[BrokerId, int], BrokerLink] = {}  # by API key
        self._is_closed = False

    def send(self, effect: SendToBroker, on_message: OnMessage) -> None:
        """`on_message` is called exactly once, and never before this returns."""
        if self._is_closed:
            self._make.loop.call_soon(on_message, None)
            return
        key, version, whom = effect.api_key, effect.version, f"broker {effect.broker}"

        def answered(body: memoryview | None, reason: str) -> None:
            on_message(decoded(body, reason, api_key=key, version=version, whom=whom, log=self._log))

        self._link(effect).send(key, version, effect.message.encode(version), answered)

    def close(self) -> None:
        self._is_closed = True
        links, self._links = self._links, {}
        for link in links.values():
            link.close("this broker stops")

    def _link(self, effect: SendToBroker) -> BrokerLink:
        """To where the broker is now; what its former address has not answered is lost."""
        way = effect.broker, effect.api_key
        link = self._links.get(way)
        host, port = effect.endpoint.host, effect.endpoint.port
        if link is not None and (link.host, link.port) == (host, port):
            return link
        if link is not None:
            link.close("the broker has moved")
        link = self._links[way] = self._make.to(host, port)
        return link
