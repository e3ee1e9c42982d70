"""How many connections, from where, and how fast: max.connections*, max.connection.creation.rate, KIP-612.

Too many at one time are refused. Too many a second wait: they are accepted and muted until their turn
has come, so that a storm of clients is spread out instead of sent away to come back at once; but those whose turn is
further away than a client has patience (`LONGEST_TURN_S`) are refused. An address above its own rate (`connection_creation_rate`
of /config/ips) waits as long, a window of quotas at most, and is then closed, as Apache does.

A protected listener (KIP-402: the one brokers talk over, where clients have another) is free of what counts for the whole
broker, so that clients that take all there is keep no follower away: its connections are let in, and `Full` says that one
of another listener has to go.
"""

from collections.abc import Callable
from typing import NamedTuple

from odradek.broker.quotas import TokenBucket
from odradek.model.settings import BrokerSettings
from odradek.server.descriptors import why_short

# Addresses whose rate is remembered; those that came first are forgotten, their bucket is full again by then.
MOST_ADDRESSES = 10_000


# Who waits is not read from, so nobody sees that a client has given up and come again. If each attempt took its turn all the
# same, the turns of all would be put off beyond anybody's patience, and after a storm as long as the storm's last.
LONGEST_TURN_S = 5.0


class Refused(NamedTuple):
    reason: str
    after_s: float = 0.0  # closed then; until then nothing is read
    key: str = "refused"  # of lines of which one is enough


class Full(NamedTuple):
    """It stays, in the place of a connection of another listener."""

    reason: str


class ConnectionLimits:
    def __init__(
        self,
        settings: BrokerSettings,
        address_rate: Callable[[str], float | None],
        now_ms: Callable[[], int],
    ) -> None:
        self._address_rate = address_rate
        self._now_ms = now_ms
        self._bucket: TokenBucket | None = None
        self._address_buckets: dict[str, TokenBucket] = {}
        self.settings_changed(settings)

    def settings_changed(self, settings: BrokerSettings) -> None:
        self._most: int = settings.max_connections
        self._most_per_address: int = settings.max_connections_per_ip
        self._longest_held_s: int = settings.quota_window_size_seconds
        self._of_addresses = settings.connections_per_ip_overrides
        rate: int = settings.max_connection_creation_rate
        if rate == settings.UNLIMITED_RATE:
            self._bucket = None
        elif self._bucket is None:
            self._bucket = TokenBucket(rate, self._now_ms())
        self._rate = rate

    def opened(
        self, address: str, *, here: int, total: int, descriptor: int = -1, is_protected: bool = False
    ) -> Refused | Full | float:
        """`here` and `total` count it. The seconds it has to wait before it is read from, or why it cannot stay."""
        short = why_short(descriptor, is_protected=is_protected)
        if short:
            return Refused(short, key="descriptors")
        full = ""
        if total > self._most:
            full = f"max.connections={self._most} are open"
            if not is_protected:
                return Refused(full)
        elif is_protected:
            full = why_short(descriptor)
        most = self._of_addresses.get(address, self._most_per_address)
        if here > most:
            name = (
                "max.connections.per.ip.overrides"
                if address in self._of_addresses
                else "max.connections.per.ip"
            )
            return Refused(f"{name}={most} are open from {address}")
        rate = self._address_rate(address)
        if rate is not None:
            bucket = self._address_buckets.get(address)
            if bucket is None:
                if len(self._address_buckets) >= MOST_ADDRESSES:
                    self._address_buckets.pop(next(iter(self._address_buckets)))
                bucket = self._address_buckets[address] = TokenBucket(rate, self._now_ms())
            wait_s = self._taken(bucket, rate)
            if wait_s > 0:
                bucket.tokens += 1  # it does not stay, so it does not count
                return Refused(
                    f"connection_creation_rate={rate:g} of {address} is used up",
                    min(wait_s, self._longest_held_s),
                )
        if full:
            return Full(full)
        if self._bucket is None or is_protected:
            return 0.0
        wait_s = self._taken(self._bucket, self._rate)
        if wait_s > LONGEST_TURN_S:
            self._bucket.tokens += 1
            return Refused(
                f"max.connection.creation.rate={self._rate}: so many wait that its turn would not come in {LONGEST_TURN_S:g} s"
            )
        return wait_s

    def _taken(self, bucket: TokenBucket, rate: float) -> float:
        bucket.fill(rate, max(rate, 1.0), self._now_ms())
        bucket.tokens -= 1
        return bucket.wait_ms(rate) / 1000
