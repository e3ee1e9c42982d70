"""Clients held to their quotas of bytes and of time (KIP-13, KIP-55, KIP-124, KIP-219).

`producer_byte_rate` counts Produce requests as they came, `consumer_byte_rate` the answers of a consumer's
Fetch, `request_percentage` the time the broker's one thread takes for a client's requests: 100 is all of it.
A client over its rate is answered at once, with `throttle_time_ms` in the response, and its connection is muted
for that long. A Fetch is answered with nothing in that case, and what was not sent is not counted.

A rate is Kafka's: what was counted in the kept windows (`quota.window.num`, `quota.window.size.seconds`) by the
time they cover, of which all but the last count as whole from the beginning. One waits as long as it takes until
the same amount is within the quota; for a request percentage one window at most, as it is set again soon.

The time of a request is known when it is over, so it is paid by the client's next one. Never held up, and not
counted: what only brokers send, and whatever comes on the connection of a follower or of a controller.
"""

from collections.abc import Callable
from math import floor
from typing import TYPE_CHECKING

from odradek.broker.answers import Answer, CloseConnection, NoReply, Park, Reply
from odradek.broker.quotas import (
    FETCH_RATE,
    LONGEST_NAME,
    LONGEST_WAIT_MS,
    MOST_BUCKETS,
    PRODUCE_RATE,
    REQUEST_PERCENTAGE,
    ClientQuotas,
    Entity,
)
from odradek.model.entity_names import escape_entity
from odradek.model.ids import INT32_MAX
from odradek.model.settings import BrokerSettings
from odradek.protocol.api_keys import BETWEEN_BROKERS, ApiKey, is_flexible
from odradek.protocol.throttle_time import with_throttle_time
from odradek.replication.windowed_sum import WindowedSum

if TYPE_CHECKING:
    from odradek.broker.request import Request

# Fetch asks for itself (`fetched`): when it is held up its answer is another one.
NOT_HELD_UP = BETWEEN_BROKERS | {ApiKey.FETCH}
ADDED_BY_BROKERS = 4  # the first version of AddPartitionsToTxn in which leaders ask, and no client
_PER_PERCENT = 10_000_000  # nanoseconds a second


class ClientRate:
    """What one user, or client, or both, did of late."""

    __slots__ = ("_done",)

    def __init__(self, *, window_count: int, window_ms: int) -> None:
        self._done = WindowedSum(window_count=window_count, window_ms=window_ms)

    def record(self, amount: int, now_ms: int) -> None:
        self._done.record(amount, now_ms)

    def wait_ms(self, quota: float, now_ms: int) -> int:
        """How long until this much is no more than `quota` a second, if nothing is added; 0 within it.

        With O the rate, T the quota and W the time it was measured over: X such that O * W / (W + X) = T.
        """
        done = self._done
        done.forget_old(now_ms)
        measured_ms = self._measured_ms(now_ms)
        if done.total * 1000 <= quota * measured_ms:
            return 0
        if quota <= 0:
            return done.span_ms  # nothing is allowed; ask again when all of it is forgotten
        return min(floor(done.total * 1000 / quota - measured_ms + 0.5), LONGEST_WAIT_MS)

    def _measured_ms(self, now_ms: int) -> int:
        """A client that has just begun is not taken for a quick one: all windows but the last count as whole."""
        done = self._done
        covered_ms = done.covered_ms(now_ms)
        missing = done.window_count - 1 - covered_ms // done.window_ms
        return max(covered_ms + max(missing, 0) * done.window_ms, 1)


class Limit:
    """A quota, and the rate that is held to it; shared by all whom it is about."""

    __slots__ = ("quota", "rate")

    def __init__(self, quota: float, rate: ClientRate) -> None:
        self.quota = quota
        self.rate = rate

    def wait_ms(self, now_ms: int) -> int:
        return self.rate.wait_ms(self.quota, now_ms)


class ClientLimits:
    """What one client of one user is held to, as long as no quota changes. None: as much as it likes. `of`: principal, client."""

    __slots__ = ("fetch", "longest_fetch_bytes", "of", "produce", "time")

    def __init__(
        self,
        of: tuple[str, str],
        produce: Limit | None,
        fetch: Limit | None,
        time: Limit | None,
        *,
        whole_windows_s: int,
    ) -> None:
        self.of = of
        self.produce = produce
        self.fetch = fetch
        self.time = time
        # More at a time would be held up however long the client had waited before; a twentieth is for what is around
        # the records. One batch comes whatever its size, so a quota below a batch in all windows lets nothing through
        # (as Apache's).
        self.longest_fetch_bytes = (
            INT32_MAX if fetch is None else min(int(fetch.quota * whole_windows_s * 0.95), INT32_MAX)
        )


QUOTAS = ("produce", "fetch", "request")  # of bytes, of bytes, of time


class ClientThrottles:
    """`is_active`: some client has such a quota; else nobody asks. `counts_time`: the shell measures requests."""

    def __init__(self, quotas: ClientQuotas, settings: BrokerSettings) -> None:
        self.is_active = False
        self.counts_time = False
        # Of quotas, so far: whoever is held up may be so no longer. Asked at the end of every turn.
        self.changes = quotas.changes
        # By what somebody was held up, how often and how long in all: what `/metrics` tells.
        self.counters = {f"{name}_{what}": 0 for name in QUOTAS for what in ("throttled", "throttle_time_ms")}
        self._quotas = quotas
        self._window_count: int = settings.quota_window_num
        self._window_s: int = settings.quota_window_size_seconds
        self._limits: dict[tuple[str, str], ClientLimits] = {}
        self._rates: dict[tuple[str, Entity], ClientRate] = {}

    def quotas_changed(self) -> None:
        """Counts at once. What was done so far is kept: a new quota is no fresh start."""
        self.changes = self._quotas.changes
        counts = self._quotas.counts
        self._limits.clear()
        self.counts_time = counts[REQUEST_PERCENTAGE] > 0
        self.is_active = self.counts_time or counts[PRODUCE_RATE] > 0 or counts[FETCH_RATE] > 0
        if not self.is_active:
            self._rates.clear()

    # --------------------------------------------------------------------------------------------- requests

    def limits_of(self, request: "Request") -> ClientLimits:
        """Asked for each request, so remembered by name."""
        return self._limits_of((request.connection.principal, (request.client_id or "")[:LONGEST_NAME]))

    def _limits_of(self, of: tuple[str, str]) -> ClientLimits:
        limits = self._limits.get(of)
        if limits is None:
            if len(self._limits) >= MOST_BUCKETS:
                self._limits.clear()
            principal, client = of
            _, _, name = principal.partition(":")
            user, client_name = escape_entity(name), escape_entity(client)
            limits = self._limits[of] = ClientLimits(
                of,
                self._limit(PRODUCE_RATE, user, client_name),
                self._limit(FETCH_RATE, user, client_name),
                self._limit(REQUEST_PERCENTAGE, user, client_name, unit=_PER_PERCENT),
                whole_windows_s=(self._window_count - 1) * self._window_s,
            )
        return limits

    def time_spent(self, request: "Request", nanoseconds: int, now_ms: int) -> None:
        """Told by the shell when a request was handled, while `counts_time`."""
        if request.api_key in BETWEEN_BROKERS or _is_of_a_broker(request):
            return
        limit = self.limits_of(request).time
        if limit is not None:
            limit.rate.record(nanoseconds, now_ms)

    def held_up(self, request: "Request", answer: Answer, now_ms: int, later_ms: Callable[[], int]) -> Answer:
        """The answer with its throttle time, if it has to have one. `later_ms`: when a parked one is answered."""
        key, version = request.api_key, request.api_version
        if key in NOT_HELD_UP or _is_of_a_broker(request):
            return answer
        limits = self.limits_of(request)
        size_bytes = _size_bytes(request) if key == ApiKey.PRODUCE else 0
        if not isinstance(answer, Park):
            return self._settle(limits, key, version, size_bytes, answer, now_ms)
        later = Park()
        if key != ApiKey.PRODUCE:  # whose bytes count all the same, and are counted when it is done
            later.follow(answer)
        answer.on_complete(
            lambda done: later.answer(
                lambda: self._settle(limits, key, version, size_bytes, done, later_ms())
            )
        )
        return later

    def fetched(self, limits: ClientLimits, size_bytes: int, now_ms: int) -> int:
        """How long a consumer waits that would get an answer of this size. 0: send it; else nothing is sent. It may have waited for
        that while quotas changed."""
        limits = self._limits_of(limits.of)
        time_ms = self._time_wait_ms(limits, now_ms)
        bytes_ms = 0
        limit = limits.fetch
        if limit is not None:
            limit.rate.record(size_bytes, now_ms)
            bytes_ms = limit.wait_ms(now_ms)
            if bytes_ms or time_ms:
                limit.rate.record(-size_bytes, now_ms)
        return self._count("fetch", bytes_ms, time_ms)

    # ---------------------------------------------------------------------------------------------- private

    def _limit(self, key: str, user: str, client: str, *, unit: int = 1) -> Limit | None:
        quota = self._quotas.find(key, user, client)
        if quota is None:
            return None
        rate = self._rates.get((key, quota.owner))
        if rate is None:
            if len(self._rates) >= MOST_BUCKETS:
                self._rates.pop(next(iter(self._rates)))
                self._limits.clear()  # nobody goes on with a rate that others do not share
            rate = self._rates[key, quota.owner] = ClientRate(
                window_count=self._window_count, window_ms=self._window_s * 1000
            )
        return Limit(quota.rate * unit, rate)

    def _settle(
        self,
        limits: ClientLimits,
        key: int,
        version: int,
        size_bytes: int,
        answer: Reply | NoReply | CloseConnection,
        now_ms: int,
    ) -> Reply | NoReply | CloseConnection:
        bytes_ms = 0
        limits = self._limits_of(limits.of)  # a parked one may have been asked under others
        if key == ApiKey.PRODUCE and limits.produce is not None:
            limits.produce.rate.record(size_bytes, now_ms)
            bytes_ms = limits.produce.wait_ms(now_ms)
        if isinstance(answer, CloseConnection):
            return answer
        if isinstance(answer, NoReply):
            # It could not be told; time is not asked of it (as Apache), bytes are.
            wait_ms = self._count("produce", bytes_ms, 0)
            return NoReply(wait_ms) if wait_ms else answer
        wait_ms = self._count("produce", bytes_ms, self._time_wait_ms(limits, now_ms))
        if wait_ms <= answer.throttle_time_ms:  # it makes topics, and waits longer for that
            return answer
        body = b"".join(answer.buffers)  # type: ignore[arg-type]
        return Reply([with_throttle_time(key, version, body, wait_ms)], wait_ms)

    def _time_wait_ms(self, limits: ClientLimits, now_ms: int) -> int:
        return 0 if limits.time is None else min(limits.time.wait_ms(now_ms), self._window_s * 1000)

    def _count(self, name: str, bytes_ms: int, time_ms: int) -> int:
        """The longer of two waits, counted as what it is for."""
        wait_ms = max(bytes_ms, time_ms)
        if wait_ms:
            name = name if bytes_ms > time_ms else "request"
            self.counters[f"{name}_throttled"] += 1
            self.counters[f"{name}_throttle_time_ms"] += wait_ms
        return wait_ms


def _is_of_a_broker(request: "Request") -> bool:
    connection = request.connection
    return (
        connection.is_follower
        or connection.is_of_broker
        or (request.api_key == ApiKey.ADD_PARTITIONS_TO_TXN and request.api_version >= ADDED_BY_BROKERS)
    )


def _size_bytes(request: "Request") -> int:
    """Of the request as it came, header included: the client's tagged fields, which nobody sends, left out."""
    client_id = request.client_id
    name_bytes = 0 if client_id is None else len(client_id.encode())
    tags = 1 if is_flexible(request.api_key, request.api_version) else 0
    return 10 + name_bytes + tags + len(request.body)
