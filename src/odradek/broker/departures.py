"""Brokers that may have died a moment ago: what clients are told meanwhile, and which of their questions wait.

Questions about the cluster are better answered a moment later in three cases, each a reason to hold them:

- Before the first UpdateMetadata a broker knows of no brokers at all: an answer now would be an error that makes the
  client wait a second before it asks again. A broker that nobody tells anything answers after LONGEST_IGNORANCE_MS.
- A leader's connection broke. That is a suspicion only: UpdateMetadata makes it a fact, a new connection takes it back,
  and after LONGEST_SUSPICION_MS it is dropped. Clients and followers of a leader that dies notice together, within a
  millisecond; the clients ask for the new leader at once, some ten milliseconds before it is elected, and librdkafka,
  told the old one, asks again only after a second.
- A client that works with us asks again. It may have noticed a little before we do, for the kernel closes the sockets of a
  dead process one after the other. Where others live, its answer waits until the shell has polled every socket once
  more (`PollConnections`); if something is amiss by then (`trouble`, in the last TROUBLE_MS), for DOUBT_MS, in which we would
  have heard what. Most who ask again have no such reason: a broker alone answers at once, and in a cluster that is well
  the poll costs some tens of microseconds.

A broker that is gone is named to clients for DEPARTED_SHOWN_MS more, without its leaderships. librdkafka takes a broker
that is no longer named apart in the same moment in which it moves that broker's partitions to their new leaders, and then
sometimes loses them for a second (seen with 2.16). Apache names a dead broker until its session ends, for 18 seconds.
"""

from collections import deque
from typing import NamedTuple

from odradek.broker.answers import Park
from odradek.broker.effects import Effect, HandleAgain, PollConnections
from odradek.broker.metadata_cache import LiveBroker, MetadataCache
from odradek.broker.organs import Organ
from odradek.broker.pending_calls import PendingCalls
from odradek.broker.request import HeldRequest, Request
from odradek.model.ids import BrokerId

LONGEST_IGNORANCE_MS = 5_000
LONGEST_SUSPICION_MS = 1_000
DEPARTED_SHOWN_MS = 2_000
TROUBLE_MS = 100
DOUBT_MS = 5

METADATA, CREATE_TOPICS, DESCRIBE_CLUSTER = 3, 19, 60
LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA = 4, 5, 6
OF_A_CONTROLLER = frozenset({LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA})
# Requests that `hold` has to see.
WATCHED = OF_A_CONTROLLER | {METADATA, CREATE_TOPICS, DESCRIBE_CLUSTER}
# What is held is copied; nobody sends a larger question.
LARGEST_HELD_BYTES = 64 * 1024
MOST_HELD, MOST_HELD_BYTES = 10_000, 32 << 20
# Of what was held, in one turn: some milliseconds.
MOST_LET_GO = 50
AT_ONCE_MS = 0  # long ago: in the next turn

_NOT_TOLD_YET = "no UpdateMetadata yet"
_DOUBT = "a client asks again"
Reason = str | BrokerId


class _Held(NamedTuple):
    request: HeldRequest
    place: Park


class Departures(Organ):
    def __init__(
        self, metadata: MetadataCache, effects: list[Effect], calls: PendingCalls, now_ms: int
    ) -> None:
        self._metadata = metadata
        self._effects = effects
        self._calls = calls
        # Why questions wait, and when each reason ends by itself; None: when the shell has polled.
        self._reasons: dict[Reason, int | None] = {_NOT_TOLD_YET: now_ms + LONGEST_IGNORANCE_MS}
        self._held: list[_Held] = []
        self._held_bytes = 0
        self._leaving: deque[_Held] = deque()  # nothing holds these any more; some go in each turn
        self._forget_at_ms: dict[int, int] = {}  # brokers in `metadata.departed`
        self._troubled_until_ms = now_ms
        self.heard_epoch = metadata.epoch
        self.heard_refusals = metadata.refusals
        self._seen_brokers: dict[int, LiveBroker] = metadata.brokers
        self._is_closed = False
        self.due_ms = None
        self._set_due()

    @property
    def held_bytes(self) -> int:
        return self._held_bytes

    # ------------------------------------------------------------------------------------------- what happens

    def connection_lost(self, broker: BrokerId, now_ms: int) -> None:
        if broker in self._metadata.live_brokers and broker not in self._reasons:
            self._begin(broker, now_ms + LONGEST_SUSPICION_MS)

    def connected(self, broker: BrokerId) -> None:
        self._end(broker)

    def trouble(self, now_ms: int) -> None:
        """A sign that the cluster is about to change: a connection with a broker broke, or somebody was told that the
        leader he knows leads no more."""
        self._troubled_until_ms = now_ms + TROUBLE_MS

    def hear(self, now_ms: int) -> None:
        """At the end of a turn in which there was news, by `heard_epoch` and `heard_refusals`: an UpdateMetadata may have made
        clear what was in doubt."""
        metadata = self._metadata
        if metadata.refusals != self.heard_refusals:
            self.heard_refusals = metadata.refusals
            self.trouble(now_ms)
        if metadata.epoch == self.heard_epoch:
            return
        self._note_departures(now_ms)
        self.heard_epoch = metadata.epoch
        if metadata.live_brokers:
            self._end(_NOT_TOLD_YET)
        for reason in [r for r in self._reasons if isinstance(r, int) and r not in metadata.live_brokers]:
            self._end(reason)

    def tick(self, now_ms: int) -> None:
        if self.due_ms is None or now_ms < self.due_ms:
            return
        self._let_some_go(MOST_LET_GO)
        for reason in [r for r, at_ms in self._reasons.items() if at_ms is not None and at_ms <= now_ms]:
            self._end(reason)
        gone = [broker for broker, at_ms in self._forget_at_ms.items() if at_ms <= now_ms]
        for broker in gone:
            del self._forget_at_ms[broker], self._metadata.departed[broker]
        if gone:
            self._metadata.epoch += 1  # answers encoded before are void
        self._set_due()

    def close(self) -> None:
        """Nobody waits any more; what is held is answered as things stand."""
        self._is_closed = True
        self._reasons.clear()
        self._forget_at_ms.clear()
        self._release()
        self._let_some_go(len(self._leaving))  # there may be no other turn
        self.due_ms = None

    # ------------------------------------------------------------------------------------------------ questions

    def hold(self, request: Request) -> Park | None:
        """Of a request in `WATCHED`. None: this one is to be handled now."""
        connection = request.connection
        if request.api_key in OF_A_CONTROLLER:
            connection.is_of_broker = True
            return None
        if request.was_held:
            return None
        if request.api_key == METADATA:
            if connection.is_at_work and len(self._metadata.live_brokers) > 1 and _DOUBT not in self._reasons:
                self._doubt()
            connection.is_at_work = True
        if not self._reasons:
            return None
        size = len(request.body)
        if (
            size > LARGEST_HELD_BYTES
            or self._held_bytes + size > MOST_HELD_BYTES
            or len(self._held) + len(self._leaving) >= MOST_HELD
        ):
            return None
        held = _Held(request.held(), Park())
        self._held.append(held)
        self._held_bytes += size
        return held.place

    def _doubt(self) -> None:
        if self._begin(_DOUBT, None):
            self._effects.append(PollConnections(self._calls.expect(self._polled)))

    def _polled(self, result: None, now_ms: int) -> None:
        if now_ms < self._troubled_until_ms:
            self._begin(_DOUBT, now_ms + DOUBT_MS)
        else:
            self._end(_DOUBT)

    # -------------------------------------------------------------------------------------------------- reasons

    def _begin(self, reason: Reason, until_ms: int | None) -> bool:
        if self._is_closed:
            return False
        self._reasons[reason] = until_ms
        self._set_due()
        return True

    def _end(self, reason: Reason) -> None:
        if reason in self._reasons:
            del self._reasons[reason]
            if not self._reasons:
                self._release()
                self._let_some_go(MOST_LET_GO)
            self._set_due()

    def _release(self) -> None:
        self._leaving += self._held
        self._held = []

    def _let_some_go(self, most: int) -> None:
        for _ in range(min(most, len(self._leaving))):
            held = self._leaving.popleft()
            self._held_bytes -= len(held.request.body)
            if not held.place.abandoned:
                self._effects.append(HandleAgain(held.request, held.place))

    def _note_departures(self, now_ms: int) -> None:
        metadata = self._metadata
        before, self._seen_brokers = self._seen_brokers, metadata.brokers
        if before is metadata.brokers:
            return
        for broker in [b for b in metadata.departed if b in metadata.brokers]:
            del metadata.departed[broker]
            self._forget_at_ms.pop(broker, None)  # whoever stops forgets nobody any more
        for broker, known in before.items():
            if broker not in metadata.brokers:
                metadata.departed[broker] = known
                self._forget_at_ms[broker] = now_ms + DEPARTED_SHOWN_MS
        metadata.epoch += 1  # answers encoded before are void
        self._set_due()

    def _set_due(self) -> None:
        if self._leaving:
            self.due_ms = AT_ONCE_MS
            return
        ends = [at_ms for at_ms in self._reasons.values() if at_ms is not None]
        self.due_ms = min([*ends, *self._forget_at_ms.values()], default=None)
