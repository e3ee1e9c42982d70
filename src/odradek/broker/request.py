"""One request, and the connection it came over, as the shell hands them in."""

from typing import TypeVar

from odradek.broker.fetch_sessions import ParkedFetch
from odradek.protocol.primitives import ELEMENT_BUDGET

R = TypeVar("R", bound="Request")


class ConnectionInfo:
    """Who asks, and over which listener. One per connection, shared by its requests."""

    __slots__ = (
        "id",
        "is_at_work",
        "is_follower",
        "is_of_broker",
        "listener",
        "parked",
        "peer",
        "principal",
        "told",
    )

    def __init__(self, id: int, peer: str, listener: str, principal: str = "User:ANONYMOUS") -> None:
        self.id = id
        self.peer = peer
        self.listener = listener
        self.principal = principal
        self.is_follower = False  # another broker fetches over it, and is held to no client's quota
        self.is_of_broker = False  # requests of a controller have come over it
        self.is_at_work = False  # it has produced, fetched, or asked for Metadata before
        self.parked: ParkedFetch | None = None  # its fetch that is not answered yet
        self.told: set[object] = set()  # what was logged once for this connection

    @property
    def address(self) -> str:
        """The peer without its port."""
        return self.peer.rpartition(":")[0]


class Request:
    """One request as the shell read it: header fields, and the body as a view that dies with the call."""

    was_held = False
    __slots__ = ("api_key", "api_version", "body", "budget", "client_id", "connection", "correlation_id")

    def __init__(
        self,
        api_key: int,
        api_version: int,
        correlation_id: int,
        client_id: str | None,
        body: memoryview,
        connection: ConnectionInfo,
    ) -> None:
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.body = body
        self.connection = connection
        self.budget = ELEMENT_BUDGET  # of its elements: see `row_limits`

    def kept(self) -> "Request":
        """The same with a body of its own, which lives on."""
        return self._with_own_body(Request)

    def held(self) -> "HeldRequest":
        """The same to be handled later (`departures`)."""
        return self._with_own_body(HeldRequest)

    def _with_own_body(self, kind: type[R]) -> R:
        body = memoryview(bytes(self.body))
        return kind(
            self.api_key, self.api_version, self.correlation_id, self.client_id, body, self.connection
        )


class HeldRequest(Request):
    """One that has waited, and does not wait again."""

    __slots__ = ()
    was_held = True
