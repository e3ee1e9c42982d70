"""Questions about the cluster that are better answered a moment later.

Two moments. Before the first UpdateMetadata a broker knows of no brokers at all: an answer now would be an
error that makes the client wait a second before it asks again. And when a leader has just died, its clients
and its followers notice together, within a millisecond; the clients ask for the new leader at once, some ten
milliseconds before it is elected, and librdkafka, told the old one, asks again only after a second. So the
question waits for the answer.

A client may notice a little before we do: the kernel closes the sockets of a dead process one after the
other. Who already works with us and asks again may have a reason. Where others live, its answer waits until the
loop has looked at every socket once more; if something is amiss by then (`trouble`, in the last TROUBLE_MS), for
DOUBT_MS, in which we would have heard what. Most who ask again have no such reason: a broker alone answers at
once, and in a cluster that is well the look costs some tens of microseconds.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from odradek.broker.answers import Answer, Park
from odradek.server.connection import Connection

METADATA, CREATE_TOPICS, DESCRIBE_CLUSTER = 3, 19, 60
ABOUT_THE_CLUSTER = frozenset({METADATA, CREATE_TOPICS, DESCRIBE_CLUSTER})
PRODUCE, FETCH = 0, 1
LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA = 4, 5, 6
DOUBT_MS = 5
TROUBLE_MS = 100
# Turns of the loop until it has polled anew, and told of the connections that it found closed in that.
TURNS_OF_A_LOOK = 3
# What is held is copied; nobody sends a larger question.
LARGEST_HELD_BYTES = 64 * 1024
MOST_HELD = 10_000

_DOUBT = "a client asks again"


class _Held(NamedTuple):
    connection: Connection
    frame: bytearray
    park: Park


class HeldRequests:
    """`reasons` to wait, by name; what was held is handled when the last of them is gone."""

    def __init__(
        self,
        handle: Callable[[Connection, memoryview], Answer],
        loop: asyncio.AbstractEventLoop,
        end_turn: Callable[[], None],
    ) -> None:
        self._handle = handle
        self._loop = loop
        self._end_turn = end_turn
        self._reasons: dict[object, None] = {}
        self._held: list[_Held] = []
        self._troubled_until = -1.0  # by the loop's clock
        self._is_closed = False
        self.has_peers = False  # more than one broker lives

    def begin(self, reason: object) -> None:
        self._reasons[reason] = None

    def end(self, reason: object) -> None:
        if reason in self._reasons:
            del self._reasons[reason]
            if not self._reasons:
                self._release()

    def trouble(self) -> None:
        """A sign that the cluster is about to change: a connection with a broker broke, or somebody was told that the
        leader he knows leads no more."""
        self._troubled_until = self._loop.time() + TROUBLE_MS / 1000

    def hold(self, connection: Connection, api_key: int, frame: memoryview) -> Park | None:
        """None: this one is to be handled now."""
        if api_key not in ABOUT_THE_CLUSTER:
            if api_key in (PRODUCE, FETCH):
                connection.is_at_work = True
            elif api_key in (LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA):
                connection.is_of_broker = True
            return None
        if api_key == METADATA:
            if (
                self.has_peers
                and connection.is_at_work
                and _DOUBT not in self._reasons
                and not self._is_closed
            ):
                self.begin(_DOUBT)
                self._look(TURNS_OF_A_LOOK)
            connection.is_at_work = True
        if not self._reasons or len(frame) > LARGEST_HELD_BYTES or len(self._held) >= MOST_HELD:
            return None
        park = Park()
        self._held.append(_Held(connection, bytearray(frame), park))
        return park

    def close(self) -> None:
        """Nobody waits any more; what is held is answered as things stand."""
        self._is_closed = True
        self._reasons.clear()
        self._release()

    def _look(self, turns: int) -> None:
        if turns:
            self._loop.call_soon(self._look, turns - 1)
        elif self._loop.time() < self._troubled_until:
            self._loop.call_later(DOUBT_MS / 1000, self._end_doubt)
        else:
            self._end_doubt()

    def _end_doubt(self) -> None:
        self.end(_DOUBT)
        self._end_turn()

    def _release(self) -> None:
        held, self._held = self._held, []
        for connection, frame, park in held:
            if park.abandoned:
                continue
            park.answer(partial(self._handle, connection, memoryview(frame)))
