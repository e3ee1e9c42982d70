"""The broker: requests in, answers and effects out. It decides and never waits.

Whoever runs it (`server.main`, a test, the simulator) has five duties:

1. `handle(request, now_ms)` for every request, in the order of each connection. Buffers of a request are
   not kept after the call returns.
2. After every call into the broker: `take_effects()`, and do what stands there (`effects.py` says what each
   is answered by).
3. At `next_deadline_ms()` at the latest: `tick(now_ms)`.
4. Tell what happens outside: `registered`, `controller_status`, `topic_config_changed`,
   `broker_config_changed`, `connection_closed`.
5. At the end `close(now_ms)`, do the effects, then close the logs.

The only function the broker keeps and calls is `Park.complete`'s.
"""

from typing import NamedTuple


class ConnectionInfo:
    """Who asks, and over which listener. One per connection, shared by its requests."""

    __slots__ = ("id", "listener", "peer", "principal", "told")

    def __init__(self, id: int, peer: str, listener: str, principal: str = "User:ANONYMOUS") -> None:
        self.id = id
        self.peer = peer
        self.listener = listener
        self.principal = principal
        self.told: set[object] = set()  # what was logged once for this connection


class Request:
    """One request as the shell read it: header fields, and the body as a view that dies with the call."""

    __slots__ = ("api_key", "api_version", "body", "client_id", "connection", "correlation_id")

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
