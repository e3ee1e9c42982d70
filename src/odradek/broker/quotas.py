"""Client quotas: who may do how much, and the bucket of each who makes topics (KIP-13, KIP-55, KIP-599, KIP-612).

Kept under `/config/users/<user>`, `/config/users/<user>/clients/<client>`, `/config/clients/<client>` and
`/config/ips/<address>`; `<default>` stands for everybody without a value of their own. Of one key the closest
counts, in the order of `LEVELS`; whoever shares the entity it was found at shares its bucket, but for defaults,
where each has one.

Enforced here: `controller_mutation_rate` (partitions made or deleted a second). Bytes and time of requests are in
`client_throttles`; `connection_creation_rate` of an address is enforced where connections are accepted.
"""

from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from math import ceil
from typing import NamedTuple

from odradek.model.entity_names import unescape_entity
from odradek.model.settings import BrokerSettings

DEFAULT = "<default>"
PRODUCE_RATE = "producer_byte_rate"
FETCH_RATE = "consumer_byte_rate"
REQUEST_PERCENTAGE = "request_percentage"
MUTATION_RATE = "controller_mutation_rate"
CONNECTION_RATE = "connection_creation_rate"
# Keys of each kind of entity, with their type (Apache's QuotaConfig).
CLIENT_KEYS = {
    PRODUCE_RATE: "LONG",
    FETCH_RATE: "LONG",
    REQUEST_PERCENTAGE: "DOUBLE",
    MUTATION_RATE: "DOUBLE",
}
IP_KEYS = {CONNECTION_RATE: "INT"}

Entity = tuple[str | None, str | None]  # user and client as in the path; None: not part of the entity


class Quota(NamedTuple):
    rate: float
    owner: Entity  # whose bucket it is


class ClientQuotas:
    """What the nodes say, as numbers."""

    def __init__(self) -> None:
        self.counts = dict.fromkeys(CLIENT_KEYS, 0)  # key -> entities that have a quota of it
        self.changes = 0  # of what a user or a client may do, so far
        self._clients: dict[Entity, dict[str, float]] = {}
        self._addresses: dict[str, float] = {}

    def change(self, entity_type: str, entity_name: str, config: Mapping[str, str]) -> list[str]:
        """Takes over one node, whole; what is wrong with it, in sentences. Keys that are no quotas (SCRAM) stay
        out of it."""
        keys = IP_KEYS if entity_type == "ips" else CLIENT_KEYS
        problems = []
        values: dict[str, float] = {}
        for name, text in sorted(config.items()):
            if name not in keys:
                continue
            value = number(text)
            if value is None:
                problems.append(f"{name}={text} of {entity_type}/{entity_name} is left out: must be a number")
            else:
                values[name] = value
        if entity_type == "ips":
            address = _address_of(entity_name)
            if address is None:
                name = unescape_entity(entity_name)
                return [*problems, f"/config/ips/{entity_name} limits nobody: {name} is no IP address"]
            self._addresses.pop(address, None)
            if CONNECTION_RATE in values:
                self._addresses[address] = values[CONNECTION_RATE]
            return problems
        entity = entity_of(entity_type, entity_name)
        if entity is None:
            return [f"/config/{entity_type}/{entity_name} names no user and no client"]
        self.changes += values != self._clients.get(entity, {})  # told again, after a new session: none
        self._forget(entity)
        if values:
            self._clients[entity] = values
            for key in values:
                self.counts[key] += 1
        return problems

    def keep_only(self, named: Iterable[tuple[str, str]]) -> None:
        """All that have a node, as kind and name: another's is gone, and it has no quota any more."""
        entities: set[Entity | None] = set()
        addresses: set[str | None] = set()
        for entity_type, entity_name in named:
            if entity_type == "ips":
                addresses.add(_address_of(entity_name))
            else:
                entities.add(entity_of(entity_type, entity_name))
        for entity in self._clients.keys() - entities:
            self._forget(entity)
            self.changes += 1
        for address in self._addresses.keys() - addresses:
            del self._addresses[address]

    def _forget(self, entity: Entity) -> None:
        for key in self._clients.pop(entity, ()):
            self.counts[key] -= 1

    def find(self, key: str, user: str, client: str) -> Quota | None:
        """`user` and `client` as they stand in paths. A client without a name has only the quotas of its user."""
        for entity, owner in _levels(user, client) if client else _levels_of_user(user):
            values = self._clients.get(entity)
            if values is not None and key in values:
                return Quota(values[key], owner)
        return None

    def connection_rate(self, address: str) -> float | None:
        """New connections a second from one address; None: as many as they like."""
        return self._addresses.get(address, self._addresses.get(DEFAULT))


def address_in(text: str) -> str | None:
    """An IP address as connections are told it; None for everything else, for names are not looked up."""
    try:
        return str(ip_address(text))
    except ValueError:
        return None


def _address_of(entity_name: str) -> str | None:
    """Of a path `ips/<address>`; None if it names none."""
    return DEFAULT if entity_name == DEFAULT else address_in(unescape_entity(entity_name))


def number(text: str) -> float | None:
    """A rate, 0 or more; None if the text is none."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 <= value < float("inf") else None


def entity_of(entity_type: str, entity_name: str) -> Entity | None:
    """Of a path below `/config`: `users/<u>`, `users/<u>/clients/<c>`, `clients/<c>`."""
    parts = entity_name.split("/")
    if entity_type == "clients" and len(parts) == 1:
        return None, parts[0]
    if entity_type == "users" and len(parts) == 1:
        return parts[0], None
    if entity_type == "users" and len(parts) == 3 and parts[1] == "clients":
        return parts[0], parts[2]
    return None


def _levels(user: str, client: str) -> tuple[tuple[Entity, Entity], ...]:
    """(where to look, whose bucket it is), the closest first (KIP-55)."""
    both, of_user, of_client = (user, client), (user, None), (None, client)
    return (
        (both, both),
        ((user, DEFAULT), both),
        (of_user, of_user),
        ((DEFAULT, client), both),
        ((DEFAULT, DEFAULT), both),
        ((DEFAULT, None), of_user),
        (of_client, of_client),
        ((None, DEFAULT), of_client),
    )


def _levels_of_user(user: str) -> tuple[tuple[Entity, Entity], ...]:
    return (((user, None), (user, None)), ((DEFAULT, None), (user, None)))


class TokenBucket:
    """Fills by `rate` a second up to `burst`; taking may leave a debt, which has to be waited off (KIP-599)."""

    __slots__ = ("_filled_ms", "tokens")

    def __init__(self, burst: float, now_ms: int) -> None:
        self.tokens = burst
        self._filled_ms = now_ms

    def fill(self, rate: float, burst: float, now_ms: int) -> None:
        """A clock that was set back fills nothing, and from there on time counts again."""
        passed_ms = max(now_ms - self._filled_ms, 0)
        self._filled_ms = now_ms
        self.tokens = min(burst, self.tokens + rate * passed_ms / 1000)

    def wait_ms(self, rate: float) -> int:
        """Until nothing is owed any more."""
        if not self.is_in_debt:
            return 0
        # Rounded up: who has waited so long is let through.
        return LONGEST_WAIT_MS if rate <= 0 else min(ceil(-self.tokens / rate * 1000), LONGEST_WAIT_MS)

    @property
    def is_in_debt(self) -> bool:
        return self.tokens < -_ROUNDING


_ROUNDING = 1e-9  # many small fills do not add up to the whole
LONGEST_WAIT_MS = 2**31 - 1  # of the field throttle_time_ms
# Clients are told apart by so much of their names: what is remembered of each must not grow with what it sends.
LONGEST_NAME = 255
# Buckets of clients that stopped long ago go when there are so many; each would be full by then.
MOST_BUCKETS = 10_000


class MutationQuota:
    """The quota of one request: `take` for every topic that it makes, grows or deletes."""

    def __init__(
        self, bucket: TokenBucket | None, rate: float, burst: float, *, is_strict: bool, now_ms: int
    ) -> None:
        self._bucket = bucket
        self._rate = rate
        self._burst = burst
        self._is_strict = is_strict
        self._now_ms = now_ms
        self._throttled_until_ms = now_ms

    def take(self, partitions: int) -> bool:
        """False: refused with THROTTLING_QUOTA_EXCEEDED. An older client does not know that error: it is let
        through, and held up afterwards."""
        bucket = self._bucket
        if bucket is None:
            return True
        bucket.fill(self._rate, self._burst, self._now_ms)
        is_granted = not self._is_strict or not bucket.is_in_debt
        if is_granted:
            # Whoever owes nothing may take, however much: else a topic larger than the burst could never be.
            bucket.tokens -= partitions
        if not is_granted or not self._is_strict:
            self._throttled_until_ms = self._now_ms + bucket.wait_ms(self._rate)
        return is_granted

    def throttle_time_ms(self, now_ms: int) -> int:
        """What is left to wait of it when the answer is sent."""
        return min(max(self._throttled_until_ms - now_ms, 0), LONGEST_WAIT_MS)


class MutationQuotas:
    """The buckets of those who make, grow and delete topics."""

    def __init__(self, quotas: ClientQuotas) -> None:
        self._quotas = quotas
        self._buckets: dict[Entity, TokenBucket] = {}

    def of_request(
        self, settings: BrokerSettings, user: str, client: str, *, is_strict: bool, now_ms: int
    ) -> MutationQuota:
        quota = self._quotas.find(MUTATION_RATE, user, client)
        if quota is None:
            return MutationQuota(None, 0, 0, is_strict=is_strict, now_ms=now_ms)
        windows_s = settings.controller_quota_window_num * settings.controller_quota_window_size_seconds
        burst = quota.rate * windows_s
        bucket = self._buckets.get(quota.owner)
        if bucket is None:
            if len(self._buckets) >= MOST_BUCKETS:
                self._buckets.pop(next(iter(self._buckets)))
            bucket = self._buckets[quota.owner] = TokenBucket(burst, now_ms)
        return MutationQuota(bucket, quota.rate, burst, is_strict=is_strict, now_ms=now_ms)
