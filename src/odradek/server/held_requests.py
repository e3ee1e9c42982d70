"""Questions about the cluster that are better answered a moment later.

Two moments. Before the first UpdateMetadata a broker knows of no brokers at all: an answer now would be an error that
makes the client wait a second before it asks again. And when a leader has just died, its clients and its followers
notice together, within a millisecond; the clients ask for the new leader at once, some ten milliseconds before it is
elected, and librdkafka, told the old one, asks again only after a second. So the question waits for the answer.
"""

from collections.abc import Callable
from typing import NamedTuple

from odradek.broker.answers import Answer, Park
from odradek.server.connection import Connection

METADATA, CREATE_TOPICS, DESCRIBE_CLUSTER = 3, 19, 60
ABOUT_THE_CLUSTER = frozenset({METADATA, CREATE_TOPICS, DESCRIBE_CLUSTER})
# What is held is copied; nobody sends a larger question.
LARGEST_HELD_BYTES = 64 * 1024
MOST_HELD = 10_000


class _Held(NamedTuple):
    connection: Connection
    frame: bytearray
    park: Park


class HeldRequests:
    """`reasons` to wait, by name; what was held is handled when the last of them is gone."""

    def __init__(self, handle: Callable[[Connection, memoryview], Answer]) -> None:
        self._handle = handle
        self._reasons: dict[object, None] = {}
        self._held: list[_Held] = []

    @property
    def is_holding(self) -> bool:
        return bool(self._reasons)

    def begin(self, reason: object) -> None:
        self._reasons[reason] = None

    def end(self, reason: object) -> None:
        if reason in self._reasons:
            del self._reasons[reason]
            if not self._reasons:
                self._release()

    def hold(self, connection: Connection, api_key: int, frame: memoryview) -> Park | None:
        """None: this one is to be handled now."""
        if (
            api_key not in ABOUT_THE_CLUSTER
            or len(frame) > LARGEST_HELD_BYTES
            or len(self._held) >= MOST_HELD
        ):
            return None
        park = Park()
        self._held.append(_Held(connection, bytearray(frame), park))
        return park

    def _release(self) -> None:
        held, self._held = self._held, []
        for connection, frame, park in held:
            if park.abandoned:
                continue
            answer = self._handle(connection, memoryview(frame))
            if isinstance(answer, Park):
                answer.on_complete(park.complete)
            else:
                park.complete(answer)
