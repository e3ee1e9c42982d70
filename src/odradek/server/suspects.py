"""Who may have died a moment ago, and what clients are told meanwhile.

A broken connection to a leader is news, though only of a suspicion: the controller's UpdateMetadata makes it a fact, a
new connection takes it back, and after a second it is dropped, for a question must not wait longer.

A broker that is gone is named to clients for two seconds more, without its leaderships. librdkafka takes a broker that
is no longer named apart in the same moment in which it moves that broker's partitions to their new leaders, and then
sometimes loses them for a second (seen with 2.16). Apache names a dead broker until its session ends, for 18 seconds.
"""

import asyncio
from collections.abc import Callable

from odradek.broker.metadata_cache import LiveBroker, MetadataCache
from odradek.model.ids import BrokerId
from odradek.server.held_requests import HeldRequests

LONGEST_SUSPICION_S = 1.0
# A broker that was never told of the cluster answers all the same, after this.
LONGEST_IGNORANCE_S = 5.0
DEPARTED_SHOWN_S = 2.0

_NOT_TOLD_YET = "no UpdateMetadata yet"


class Suspects:
    def __init__(
        self,
        metadata: MetadataCache,
        held: HeldRequests,
        loop: asyncio.AbstractEventLoop,
        end_turn: Callable[[], None],
    ) -> None:
        self._metadata = metadata
        self._held = held
        self._loop = loop
        self._end_turn = end_turn
        self._suspected: dict[BrokerId, asyncio.TimerHandle] = {}
        self._seen_epoch = metadata.epoch
        self._seen_refusals = metadata.refusals
        self._seen_brokers: dict[int, LiveBroker] = metadata.brokers
        self._departures: dict[int, asyncio.TimerHandle] = {}
        self._ignorance: asyncio.TimerHandle | None = loop.call_later(
            LONGEST_IGNORANCE_S, self._give_up_waiting
        )
        held.begin(_NOT_TOLD_YET)

    def connection_lost(self, broker: BrokerId) -> None:
        if broker in self._metadata.live_brokers and broker not in self._suspected:
            self._suspected[broker] = self._loop.call_later(LONGEST_SUSPICION_S, self._drop, broker)
            self._held.begin(broker)

    def connected(self, broker: BrokerId) -> None:
        self._clear(broker)

    def look(self) -> None:
        """Called in every turn: an UpdateMetadata may have made clear what was in doubt."""
        if self._metadata.refusals != self._seen_refusals:
            self._seen_refusals = self._metadata.refusals
            self._held.trouble()
        if self._metadata.epoch == self._seen_epoch:
            return
        self._held.has_peers = len(self._metadata.live_brokers) > 1
        self._note_departures()
        self._seen_epoch = self._metadata.epoch
        if self._ignorance is not None and self._metadata.live_brokers:
            self._ignorance.cancel()
            self._ignorance = None
            self._held.end(_NOT_TOLD_YET)
        for broker in [b for b in self._suspected if b not in self._metadata.live_brokers]:
            self._clear(broker)

    def _note_departures(self) -> None:
        metadata = self._metadata
        before, self._seen_brokers = self._seen_brokers, metadata.brokers
        if before is metadata.brokers:
            return
        for broker in [b for b in metadata.departed if b in metadata.brokers]:
            self._departures.pop(broker).cancel()
            del metadata.departed[broker]
        for broker, known in before.items():
            if broker not in metadata.brokers:
                metadata.departed[broker] = known
                self._departures[broker] = self._loop.call_later(DEPARTED_SHOWN_S, self._forget, broker)
        metadata.epoch += 1  # answers encoded before are void

    def _forget(self, broker: int) -> None:
        del self._departures[broker], self._metadata.departed[broker]
        self._metadata.epoch += 1
        self._end_turn()

    def close(self) -> None:
        for timer in self._departures.values():
            timer.cancel()
        if self._ignorance is not None:
            self._ignorance.cancel()
        for timer in self._suspected.values():
            timer.cancel()

    def _clear(self, broker: BrokerId) -> None:
        timer = self._suspected.pop(broker, None)
        if timer is not None:
            timer.cancel()
            self._held.end(broker)

    def _drop(self, broker: BrokerId) -> None:
        self._clear(broker)
        self._end_turn()

    def _give_up_waiting(self) -> None:
        self._ignorance = None
        self._held.end(_NOT_TOLD_YET)
        self._end_turn()
