"""What a broker holds for others, and what one turn of its loop costs: both bounded, whatever comes in.

`Burden` is a plain value that `observed.burden` fills from a world. The bounds are those of docs/simulator.md: some times what
honest clients need, far below what one who means harm could have without them.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from odradek.model.ids import BrokerId
from odradek.sim.checkers.history import Anomaly

# Of one connection: half a megabyte of answers stops reading, the transport holds as much back again, and one large frame
# may be on its way in.
MOST_BYTES_OF_A_CONNECTION = 2 << 20
# Of all of them, in memory and read by nobody: little, so that those who are deaf come to it.
MOST_UNSENT_BYTES = 384 << 10
# Of what they have sent and nobody has handled: so that those who are deaf, and half frames, come to it.
MOST_UNHANDLED_BYTES = 128 << 10
MOST_REQUESTS_OF_A_CONNECTION = 500  # queued.max.requests
# Whatever has no connection of its own: batches that wait to be opened, requests that wait for the store.
MOST_BYTES_BESIDE = 64 << 20
# Of connections that are gone: an acks=all that was written waits for its followers or for its time, whoever hears of it.
MOST_LEFT_BEHIND = 2_000
# Control requests to one broker that wait for an answer to the one before.
MOST_WAITING_TO_BE_SENT = 200
# Functions entered in one turn, a quarter of a microsecond each and up: two fifths of the fifty milliseconds a turn may take. Of what
# one read brings, requests are put off after 10 ms by the stopwatch: fetches from many segments enter 50,000 until then (seeds 500, 1050).
MOST_STEPS_OF_A_TURN = 80_000


class Held(NamedTuple):
    """By one connection, in bytes and requests."""

    peer: str
    received_bytes: int
    answer_bytes: int
    written_bytes: int
    requests: int


class Burden(NamedTuple):
    broker: BrokerId
    connections: Sequence[Held] = ()
    bytes_beside: int = 0
    waiting_requests: int = 0  # in the purgatory
    to_be_sent: int = 0  # by its controller, to the one broker that has most
    steps: int = 0  # of its busiest turn so far
    turn: str = ""  # and which callback that was
    # Of answers that nobody has read yet, in memory: by the broker's own count, and counted anew.
    unsent_bytes: int = 0
    unsent_bytes_anew: int = 0
    unsent_connections: int = 0
    # Of requests that have not come whole, or wait to be handled: the same.
    unhandled_bytes: int = 0
    unhandled_bytes_anew: int = 0
    unhandled_connections: int = 0


def overburdened(burden: Burden) -> Iterator[Anomaly]:
    for held in burden.connections:
        size = held.received_bytes + held.answer_bytes + held.written_bytes
        if size > MOST_BYTES_OF_A_CONNECTION:
            yield _anomaly(
                burden,
                f"holds {size} bytes for {held.peer}: {held.received_bytes} received, {held.answer_bytes} of answers, "
                f"{held.written_bytes} written; up to {MOST_BYTES_OF_A_CONNECTION} are allowed",
            )
        if held.requests > MOST_REQUESTS_OF_A_CONNECTION:
            yield _anomaly(burden, f"has {held.requests} requests of {held.peer} in flight")
    if burden.bytes_beside > MOST_BYTES_BESIDE:
        yield _anomaly(burden, f"holds {burden.bytes_beside} bytes of what waits to be looked at")
    if burden.waiting_requests > MOST_LEFT_BEHIND:
        most = MOST_LEFT_BEHIND + sum(held.requests for held in burden.connections)
        if burden.waiting_requests > most:
            yield _anomaly(burden, f"parks {burden.waiting_requests} requests, of which {most} may wait")
    if burden.to_be_sent > MOST_WAITING_TO_BE_SENT:
        yield _anomaly(burden, f"has {burden.to_be_sent} control requests to one broker waiting")
    if burden.steps > MOST_STEPS_OF_A_TURN:
        yield _anomaly(burden, f"entered {burden.steps} functions in one turn of its loop, in {burden.turn}")
    if burden.unsent_bytes != burden.unsent_bytes_anew:
        yield _anomaly(
            burden,
            f"counts {burden.unsent_bytes} bytes of answers that wait to be read, and has {burden.unsent_bytes_anew}",
        )
    # Who is alone with more than there is room for has a second to read some of it.
    if burden.unsent_bytes > MOST_UNSENT_BYTES and burden.unsent_connections > 1:
        yield _anomaly(
            burden,
            f"holds {burden.unsent_bytes} bytes of answers that {burden.unsent_connections} connections do not read",
        )
    if burden.unhandled_bytes != burden.unhandled_bytes_anew:
        yield _anomaly(
            burden,
            f"counts {burden.unhandled_bytes} bytes of requests that it has not handled, and has {burden.unhandled_bytes_anew}",
        )
    if burden.unhandled_bytes > MOST_UNHANDLED_BYTES and burden.unhandled_connections > 1:
        yield _anomaly(
            burden,
            f"holds {burden.unhandled_bytes} bytes of requests of {burden.unhandled_connections} connections that it has not handled",
        )


def _anomaly(burden: Burden, detail: str) -> Anomaly:
    return Anomaly("BoundedBurden", None, f"broker {burden.broker} {detail}")
