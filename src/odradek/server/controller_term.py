"""One term of a controller: from the election that was won to the resignation: the settle loop.

One event at a time, in the order the store told us. A decision is stored before anyone hears of it; the
requests of an event leave after its last write. On doubt about its own state the controller resigns and
forgets everything: whatever it had decided stands in the store, and whoever leads next reads it there.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar

from odradek.broker.effects import ControllerRequest
from odradek.client.receive_buffers import BufferPool
from odradek.controller import effects as controller_effects
from odradek.controller import events
from odradek.controller.context import ControllerSettings
from odradek.controller.core import ControllerCore
from odradek.controller.election import UNCLEAN
from odradek.model.controller_requests import (
    AllocateProducerIdsAsked,
    AlterPartitionAsked,
    ControllerAnswer,
    ControllerAsk,
)
from odradek.model.facts import (
    BrokersChanged,
    ConfigChanged,
    ControllerChanged,
    Fact,
    MetadataLoaded,
    UnreadableNode,
)
from odradek.model.features import HIGHEST_LEVELS
from odradek.model.ids import BrokerId, ControllerEpoch
from odradek.model.settings import BrokerSettings
from odradek.server.controller_requests import EncodedRequest, RequestEncoder
from odradek.server.controller_writes import decode_answers, encode_writes
from odradek.server.environment import Environment, to_its_end
from odradek.server.journal import Journal
from odradek.server.links import Links
from odradek.server.log_limits import LimitedLog
from odradek.server.metrics import Metrics
from odradek.server.outboxes import Bound, Outboxes
from odradek.store import api, layout
from odradek.store.facts import ControllerFacts

# Between two reads of the controller epoch's node.
READ_INTERVAL_MS = 1000
# Nodes that cannot be read, a line each, of one read of the store.
MOST_NAMED = 20
# Events, and what is requested by one, that say themselves how many partitions they are about. A step on any other may look at all.
SPEAK_FOR_THEMSELVES = (
    events.WritesAnswered,
    events.LeaderAndIsrAnswered,
    events.StopReplicaAnswered,
    events.EndOffsetsAnswered,
    AlterPartitionAsked,
    AllocateProducerIdsAsked,
)
T = TypeVar("T")
# What came of a step, the requests among it as bytes by id, and the time that the core was told.
_Stepped = tuple[controller_effects.Effects, dict[int, EncodedRequest], int]


class Resigning(Exception):
    """Ends a term; the message says why. `is_internal_error`: ours, so others should stand first."""

    def __init__(self, reason: str, *, is_internal_error: bool = False) -> None:
        super().__init__(reason)
        self.is_internal_error = is_internal_error


class ControllerTerm:
    """`serve` runs until it raises; `close` forgets everything."""

    def __init__(
        self,
        *,
        broker: BrokerId,
        epoch: ControllerEpoch,
        epoch_version: int,
        store: api.Store,
        environment: Environment,
        settings: BrokerSettings,
        pool: BufferPool,
        inter_broker_listener: str,
        journal: Journal,
        log: LimitedLog,
        metrics: Metrics,
        after_turn: Callable[[], None],
        on_answer: Callable[[int, ControllerAnswer], None],
    ) -> None:
        self.epoch = epoch
        self.epoch_version = epoch_version
        self.is_loaded = False
        self.is_aside = False  # a thread has the core
        self.core = ControllerCore(ControllerSettings.of(settings))
        self._broker = broker
        self._store = store
        self._fence = api.Fence(epoch_version)
        self._environment = environment
        self._listener = inter_broker_listener
        self._may_have_others = bool(settings.zookeeper_connect)
        self._journal = journal
        self._log = log
        self._metrics = metrics
        self._after_turn = after_turn
        self._on_answer = on_answer
        self._inbox: deque[events.Event] = deque()
        self._wake = asyncio.Event()
        self._asked: dict[int, ControllerAsk] = {}  # requests that wait for an answer of this term
        self._facts = ControllerFacts(store, wake=self._wake.set)
        self._outboxes = Outboxes(
            links=Links(
                environment.loop, pool, str(broker), after_turn, settings.controller_socket_timeout_ms
            ),
            inter_broker_listener=inter_broker_listener,
            on_answer=self._put,
            on_disowned=self._broker_disowned,
            log=log,
            bound=Bound(environment.requests_kept, environment.partitions_kept),
        )
        self._tick_timer: asyncio.TimerHandle | None = None
        self._tick_at_ms = 0
        self._is_closed = False
        self._is_node_missed = False
        self._disowned: events.Event | None = None  # an answer of a broker that obeys a later controller
        self._may_read_at_ms = 0

    # --- from outside

    def ask(self, request: ControllerRequest) -> None:
        self._asked[request.request_id] = request.ask
        self._put(events.Requested(request.request_id, request.ask))

    def controller_seen(self, broker: BrokerId | None) -> None:
        """Somebody else holds `/controller`: the core resigns on that."""
        self._put(ControllerChanged(broker))

    def controller_missed(self) -> None:
        """`/controller` was missing when a broker read it: perhaps just before we created it, so it is read again."""
        self._is_node_missed = True
        self._wake.set()

    def unanswered(self) -> Mapping[BrokerId, int]:
        """Requests not answered yet, per broker."""
        return self._outboxes.unanswered()

    def close(self, reason: str) -> dict[int, ControllerAsk]:
        """Row 145: watches off, senders stopped, everything forgotten. Returns what nobody answered."""
        self._is_closed = True
        if self.core.is_active and not self.core.is_writing:  # else the last step of the journal says it
            resigned, now_ms = events.Resigned(reason), self._environment.clock.now_ms()
            effects = self.core.step(resigned, now_ms)
            self._journal.record(now_ms, self.epoch, resigned, effects)
        self._facts.stop()
        # The term and its queues hold each other: what it knew of the cluster is not to wait for a collector with them.
        self._inbox.clear()
        self.core = ControllerCore(self.core.settings)
        if self._tick_timer is not None:
            self._tick_timer.cancel()
        self._outboxes.close("the controller resigned")
        asked, self._asked = self._asked, {}
        return asked

    # --- the settle loop

    async def serve(self) -> None:
        """Raises Resigning, or what the store raises."""
        await self._make_feature_node()
        await self._load()
        self.is_loaded = True
        while True:
            await self._wake.wait()
            self._wake.clear()
            while True:
                if self._is_node_missed:
                    await self._check_own_node()
                if self._disowned is not None:
                    await self._check_superseded()
                for fact in await self._facts.take():
                    self._say_what_cannot_be_read(fact)
                    if isinstance(fact, BrokersChanged):
                        self._outboxes.brokers_are(fact.brokers, fact.unreadable)
                    await self._settle(fact)
                if not self._inbox:
                    break
                await self._settle(self._inbox.popleft())

    async def _check_own_node(self) -> None:
        """Deleted by hand, so that an election is held: we resign, or nobody would be told who leads the cluster."""
        self._is_node_missed = False
        if await self._store.exists(layout.CONTROLLER) is None:
            await self._settle(ControllerChanged(None))

    def _broker_disowned(self, answer: events.Event) -> None:
        """The request is retried until it is accepted, so the store is read once an interval."""
        now_ms = self._environment.clock.now_ms()
        if self._disowned is None and now_ms >= self._may_read_at_ms and not self._is_closed:
            self._may_read_at_ms = now_ms + READ_INTERVAL_MS
            self._disowned = answer
            self._wake.set()

    async def _check_superseded(self) -> None:
        """A broker says that it obeys a later controller. Where one was elected, the epoch's node has changed; where not,
        the broker was told so by somebody who is none, and to resign would help him: every controller after us would
        be told the same.
        """
        answer, self._disowned = self._disowned, None
        assert answer is not None
        try:
            await self._store.multi([api.Check(layout.CONTROLLER_EPOCH, self.epoch_version)])
        except (api.BadVersion, api.NoNode):
            await self._settle(answer)  # the core resigns on it
            return
        broker = getattr(answer, "broker", None)
        self._log.warning(
            f"disowned {broker}",
            f"[Controller id={self._broker} epoch={self.epoch}] broker {broker} obeys a controller epoch that the store does "
            "not know, from a process that was not elected. It gets its requests again; an Apache broker obeys its own "
            "controller again when it is restarted",
        )

    async def _load(self) -> None:
        """Its own function, so that what was read is not kept beside what the core made of it."""
        snapshot = await self._facts.load(self._fence)
        self._say_what_cannot_be_read(snapshot)
        self._outboxes.brokers_are(snapshot.brokers)
        seed = self._environment.random_bytes(16)
        await self._settle(events.Elected(self._broker, self.epoch, self.epoch_version, snapshot, seed))

    def _say_what_cannot_be_read(self, fact: Fact) -> None:
        """What comes of it is the core's business and stands in the journal; who looks after the cluster reads logs."""
        if isinstance(fact, MetadataLoaded):
            self._say_what_cannot_be_read(fact.reassignment)
            self._say_what_cannot_be_read(fact.preferred_election)
        elif isinstance(fact, ConfigChanged | ControllerChanged):
            return  # every broker says so by itself
        nodes: tuple[UnreadableNode, ...] = getattr(fact, "unreadable", ())
        if len(nodes) > MOST_NAMED:
            more = f"{len(nodes)} nodes cannot be read; the journal names all, here are {MOST_NAMED}"
            self._log.warning("unreadable", f"[Controller id={self._broker}] {more}")
        for node in nodes[:MOST_NAMED]:
            what = f"{node.path} cannot be read: {node.reason}"
            out = f"; topic {node.topic} is out of service until it can" if node.topic is not None else ""
            self._log.warning(f"unreadable {node.path}", f"[Controller id={self._broker}] {what}{out}")

    async def _make_feature_node(self) -> None:
        """Before anything else. Where nobody but brokers of this release can be a member yet, with every feature; with a
        ZooKeeper without one, as an Apache member exits on a feature it does not know."""
        if await self._store.exists(layout.FEATURE) is None:
            features = {} if self._may_have_others else HIGHEST_LEVELS
            create = api.Create(layout.FEATURE, layout.encode_feature(features))
            (answer,) = await self._store.write([api.ConditionalOps((create,))], self._fence)
            if isinstance(answer, api.Fenced):
                raise Resigning("another broker was elected")

    async def _settle(self, event: events.Event) -> None:
        self._journal.hold()
        try:
            with self._environment.making_what_stays():
                await self._settle_all(event)
        finally:
            self._journal.release()
        self._set_tick_timer()
        self._after_turn()

    async def _settle_all(self, event: events.Event) -> None:
        due = deque([event])
        while due:
            event = due.popleft()
            if isinstance(event, events.TellingsLost):
                self._outboxes.begin_anew(event.broker, event.broker_epoch)
            effects, encoded, now_ms = await self._step(event)
            self._tell(event, effects, encoded, now_ms)
            while effects.writes:
                size = len(effects.writes)
                writes = await self._large_aside(size, partial(encode_writes, effects.writes))
                answers = await self._store.write(writes, self._fence)
                answered = await self._large_aside(size, partial(decode_answers, effects.writes, answers))
                effects, encoded, now_ms = await self._step(answered)
                self._tell(answered, effects, encoded, now_ms)
            due.extendleft(reversed(effects.follow_up))

    async def _step(self, event: events.Event) -> _Stepped:
        """The requests as bytes are those of a large step."""
        now_ms = self._environment.clock.now_ms()
        if self._weight(event) < self._environment.large_step:
            return self.core.step(event, now_ms), {}, now_ms
        return await self._aside(partial(self._large_step, event, now_ms))

    def _large_step(self, event: events.Event, now_ms: int) -> _Stepped:
        effects = self.core.step(event, now_ms)
        return effects, RequestEncoder(self._listener).encode_all(effects.requests), now_ms

    def _weight(self, event: events.Event) -> int:
        """About how many partitions a step on it looks at."""
        if isinstance(event, events.UpdateMetadataAnswered):  # most of them
            return 0
        if isinstance(event, events.Elected):
            return len(event.snapshot.states)
        if isinstance(event, events.Requested) and isinstance(event.body, SPEAK_FOR_THEMSELVES):
            return len(getattr(event.body, "partitions", ()))
        if not isinstance(event, SPEAK_FOR_THEMSELVES):
            created = sum(len(topic.partitions) for topic in getattr(event, "created", ()))
            return created + (0 if self.core.context is None else len(self.core.context.leaderships))
        names = ("answers", "partition_errors", "told", "deleted", "partitions", "ends")
        return max([len(getattr(event, name, ())) for name in names])

    async def _large_aside(self, size: int, work: Callable[[], T]) -> T:
        return work() if size < self._environment.large_step else await self._aside(work)

    async def _aside(self, work: Callable[[], T]) -> T:
        """By a thread, while the loop serves clients and followers. Nobody else touches the core meanwhile: events wait in
        their queue, and whoever cancels us waits for the end of it, for `close` is a step too."""
        self.is_aside = True
        try:
            return await to_its_end(self._environment.run_step(work))
        finally:
            self.is_aside = False

    def _tell(
        self,
        event: events.Event,
        effects: controller_effects.Effects,
        encoded: dict[int, EncodedRequest],
        now_ms: int,
    ) -> None:
        """Everything but the writes: it depended on none, or on writes that are done. The journal has the time that the core was
        told: played again with a later one its deadlines would be later, and what they brought would not come."""
        self._journal.record(now_ms, self.epoch, event, effects)
        self._metrics.unclean_elections += sum(map(_is_unclean_election, effects.changes))
        if effects.requests:
            self._outboxes.send(effects.requests, encoded)
        for answer in effects.answers:
            self._asked.pop(answer.request_id, None)
            self._on_answer(answer.request_id, answer.body)
        if effects.resign is not None:
            raise Resigning(effects.resign, is_internal_error=effects.is_internal_error)

    def _put(self, event: events.Event) -> None:
        if not self._is_closed:
            self._inbox.append(event)
            self._wake.set()

    def _set_tick_timer(self) -> None:
        at_ms = self.core.next_deadline_ms()
        if at_ms is None or (self._tick_timer is not None and self._tick_at_ms <= at_ms):
            return
        if self._tick_timer is not None:
            self._tick_timer.cancel()
        self._tick_at_ms = at_ms
        delay_s = max(0, at_ms - self._environment.clock.now_ms()) / 1000
        self._tick_timer = self._environment.loop.call_later(delay_s, self._tick)

    def _tick(self) -> None:
        self._tick_timer = None
        self._put(events.Tick())


def _is_unclean_election(change: controller_effects.StateChange) -> bool:
    return change.leader_and_isr is not None and change.reason.endswith(UNCLEAN)
