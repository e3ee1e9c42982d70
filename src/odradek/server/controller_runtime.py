"""All the waiting the controller ever does: election, the settle loop, resignation (house.md, "The settle
loop").

One event at a time, in the order the store told us. A decision is stored before anyone hears of it; the
requests of an event leave after its last write. On doubt about its own state the controller resigns, forgets
everything, and stands again: whatever it had decided stands in the store, and whoever leads next reads it
there.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from odradek.broker.effects import (
    AllocateProducerIdsAnswered,
    AllocateProducerIdsAsked,
    AlterPartitionAnswered,
    AlterPartitionAsked,
    AlterPartitionOutcome,
    ControlledShutdownAnswered,
    ControllerAnswer,
    ControllerAsk,
    ControllerRequest,
)
from odradek.client.receive_buffers import BufferPool
from odradek.controller import effects as controller_effects
from odradek.controller import events
from odradek.model.error_codes import ErrorCode
from odradek.model.facts import BrokersChanged, ControllerChanged
from odradek.model.ids import BrokerId, ControllerEpoch
from odradek.model.settings import BrokerSettings
from odradek.server import state_change_log
from odradek.server.controller_writes import decode_answers, encode_writes
from odradek.server.journal import Journal
from odradek.server.log_limits import LimitedLog
from odradek.server.metrics import Metrics
from odradek.server.outboxes import Outboxes
from odradek.server.seams import Seams
from odradek.store import api, groups, layout
from odradek.store.facts import ControllerFacts

if TYPE_CHECKING:
    from odradek.controller.context import ControllerSettings
    from odradek.controller.core import ControllerCore

logger = logging.getLogger(__name__)

RETRY_S = 0.1
# After a mistake of our own: others get their chance, and the log is not flooded.
PAUSE_AFTER_MISTAKE_S = 1.0


class _Resigning(Exception):
    """Ends a term; the message says why."""


class _Term:
    """One election won."""

    def __init__(self, epoch: ControllerEpoch, epoch_version: int) -> None:
        self.epoch = epoch
        self.epoch_version = epoch_version
        self.fence = api.Fence(epoch_version)
        self.inbox: deque[events.Event] = deque()
        self.wake = asyncio.Event()
        self.asked: dict[int, ControllerAsk] = {}  # requests that wait for an answer of this term
        self.core: ControllerCore | None = None
        self.outboxes: Outboxes | None = None
        self.tick_timer: asyncio.TimerHandle | None = None
        self.tick_at_ms = 0
        self.is_loaded = False


class ControllerRuntime:
    """The controller that one broker process may be."""

    def __init__(
        self,
        *,
        broker: BrokerId,
        seams: Seams,
        settings: BrokerSettings,
        pool: BufferPool,
        inter_broker_listener: str,
        journal: Journal,
        log: LimitedLog,
        metrics: Metrics,
        after_turn: Callable[[], None],
        on_answer: Callable[[int, ControllerAnswer], None],
        on_term: Callable[[ControllerEpoch | None], None],
    ) -> None:
        self._broker = broker
        self._seams = seams
        self._settings = settings
        self._pool = pool
        self._listener = inter_broker_listener
        self._journal = journal
        self._log = log
        self._metrics = metrics
        self._after_turn = after_turn
        self._on_answer = on_answer
        self._on_term = on_term
        self._vacant = asyncio.Event()
        self._term: _Term | None = None
        self._is_standing = False
        self._is_stale_suspected = False

    # --- what the broker around it says

    @property
    def is_leading(self) -> bool:
        return self._term is not None

    @property
    def core(self) -> "ControllerCore | None":
        """For questions only (what-if, health)."""
        return self._term.core if self._term is not None and self._term.is_loaded else None

    def controller_seen(self, broker: BrokerId | None) -> None:
        """Who holds `/controller`, as the store said."""
        if broker is None:
            self._vacant.set()
        elif broker == self._broker and self._term is None and not self._is_standing:
            # A node of ours that we do not lead by: of an earlier session, or of an election whose answer
            # was lost. To return early here left clusters without a controller (KAFKA-13407).
            self._is_stale_suspected = True
            self._vacant.set()
        else:
            self._vacant.clear()
            if self._term is not None and broker != self._broker:
                self._broker_answered(self._term, ControllerChanged(broker))

    def ask(self, request: ControllerRequest) -> None:
        """A request of a broker; answered once by `on_answer`."""
        term = self._term
        if term is None:
            self._on_answer(request.request_id, _refusal(request.ask))
            return
        term.asked[request.request_id] = request.ask
        term.inbox.append(_event_of(request))
        term.wake.set()

    # --- the life of one session

    async def run(self, store: api.Store) -> None:
        """Stands whenever nobody is controller. Ends with SessionExpired, or by cancellation."""
        try:
            while True:
                await self._vacant.wait()
                self._vacant.clear()
                if self._is_stale_suspected:
                    self._is_stale_suspected = False
                    await self._give_up_stale(store)
                    continue
                term = await self._stand(store)
                if term is not None:
                    await self._lead(store, term)
        finally:
            self._vacant.clear()

    async def _stand(self, store: api.Store) -> _Term | None:
        """Both fences in one transaction; None when somebody else was first."""
        self._is_standing = True
        try:
            try:
                node = await store.get(layout.CONTROLLER_EPOCH)
            except api.NoNode:
                value = layout.encode_controller_epoch(ControllerEpoch(0))
                await store.write(
                    [api.ConditionalOps((api.Create(layout.CONTROLLER_EPOCH, value),))], fence=None
                )
                node = await store.get(layout.CONTROLLER_EPOCH)
            epoch = ControllerEpoch(layout.decode_controller_epoch(node.data) + 1)
            applied = await store.multi(
                groups.become_controller(
                    self._broker,
                    epoch,
                    expected_epoch_version=node.stat.version,
                    timestamp_ms=self._seams.clock.now_ms(),
                )
            )
        except (api.NodeExists, api.BadVersion, api.NoNode):
            return None
        except api.StoreUnavailable as error:
            self._log.warning("election", f"the election cannot be held: {error}")
            await asyncio.sleep(RETRY_S)
            await self._give_up_stale(store)
            return None
        finally:
            self._is_standing = False
        stat = applied[1].stat
        assert stat is not None
        self._metrics.controller_elections += 1
        logger.info("[Controller id=%d] elected with epoch %d", self._broker, epoch)
        return _Term(epoch, stat.version)

    async def _give_up_stale(self, store: api.Store) -> None:
        """Deletes `/controller` where this session holds it without a term. Afterwards whoever sees it
        stands.
        """
        while True:
            try:
                node = await store.get(layout.CONTROLLER)
                if node.stat.ephemeral_owner == store.session_id:
                    await store.delete(layout.CONTROLLER, node.stat.version)
                    logger.info("[Controller id=%d] gave up an election whose answer was lost", self._broker)
                # Of another session: it goes with that session, and then we hear of it.
                return
            except (api.NoNode, api.BadVersion):
                self._vacant.set()
                return
            except api.StoreUnavailable:
                await asyncio.sleep(RETRY_S)

    async def _lead(self, store: api.Store, term: _Term) -> None:
        self._term = term
        self._on_term(term.epoch)
        facts = ControllerFacts(store, wake=term.wake.set)
        reason = "the broker stops"
        try:
            await self._serve_term(store, term, facts)
        except _Resigning as resigning:
            reason = str(resigning)
        except api.SessionExpired:
            reason = "its session with the store has ended"
            raise
        except api.StoreUnavailable as error:
            # Whether the last write happened is not known, so nothing we remember can be trusted.
            reason = f"the store cannot be reached: {error}"
        except Exception as error:
            reason = f"a mistake of its own: {error!r}"
            self._log.failure("controller", f"[Controller id={self._broker}] resigns: {error!r}", error)
            await self._end_term(store, term, facts, reason)
            await asyncio.sleep(PAUSE_AFTER_MISTAKE_S)
        finally:
            await self._end_term(store, term, facts, reason)

    async def _end_term(self, store: api.Store, term: _Term, facts: ControllerFacts, reason: str) -> None:
        """Row 145: watches off, senders stopped, everything forgotten."""
        if self._term is not term:
            return
        self._term = None
        self._metrics.controller_resignations += 1
        logger.info("[Controller id=%d epoch=%d] resigned: %s", self._broker, term.epoch, reason)
        facts.stop()
        if term.tick_timer is not None:
            term.tick_timer.cancel()
        if term.outboxes is not None:
            term.outboxes.close("the controller resigned")
        self._on_term(None)
        asked, term.asked = term.asked, {}
        for request_id, ask in asked.items():
            self._on_answer(request_id, _refusal(ask))
        self._after_turn()
        while store.state is api.SessionState.CONNECTED:
            try:
                await store.multi(groups.resign_controller(term.epoch_version))
                return
            except api.SessionExpired:
                return
            except (api.NoNode, api.BadVersion):
                # Somebody else's by now; or an epoch moved by hand, with our node still there.
                await self._give_up_stale(store)
                return
            except api.StoreUnavailable:
                await asyncio.sleep(RETRY_S)

    # --- the settle loop

    async def _serve_term(self, store: api.Store, term: _Term, facts: ControllerFacts) -> None:
        # Imported here: only a controller pays for it.
        from odradek.controller.core import ControllerCore

        term.outboxes = Outboxes(
            seams=self._seams,
            pool=self._pool,
            inter_broker_listener=self._listener,
            client_id=str(self._broker),
            request_timeout_ms=self._settings.controller_socket_timeout_ms,
            after_turn=self._after_turn,
            on_answer=lambda event: self._broker_answered(term, event),
            log=self._log,
        )
        await self._make_feature_node(store, term)
        snapshot = await facts.load(term.fence)
        term.core = ControllerCore(_controller_settings(self._settings))
        term.outboxes.brokers_are(snapshot.brokers)
        await self._settle(
            store, term, events.Elected(self._broker, term.epoch, term.epoch_version, snapshot)
        )
        term.is_loaded = True
        while True:
            await term.wake.wait()
            term.wake.clear()
            while True:
                for fact in await facts.take():
                    if isinstance(fact, BrokersChanged):
                        term.outboxes.brokers_are(fact.brokers)
                    await self._settle(store, term, fact)
                if not term.inbox:
                    break
                await self._settle(store, term, term.inbox.popleft())

    async def _make_feature_node(self, store: api.Store, term: _Term) -> None:
        """Before anything else, and without a feature: an Apache member exits on one it does not know."""
        if await store.exists(layout.FEATURE) is None:
            create = api.Create(layout.FEATURE, layout.encode_feature({}))
            (answer,) = await store.write([api.ConditionalOps((create,))], term.fence)
            if isinstance(answer, api.Fenced):
                raise _Resigning("another broker was elected")

    async def _settle(self, store: api.Store, term: _Term, event: events.Event) -> None:
        core = term.core
        assert core is not None
        now_ms = self._seams.clock.now_ms
        due = deque([event])
        while due:
            event = due.popleft()
            effects = core.step(event, now_ms())
            self._tell(term, event, effects)
            while effects.writes:
                answers = await store.write(encode_writes(effects.writes), term.fence)
                answered = decode_answers(effects.writes, answers)
                effects = core.step(answered, now_ms())
                self._tell(term, answered, effects)
            due.extendleft(reversed(effects.follow_up))
        self._set_tick_timer(term)
        self._after_turn()

    def _tell(self, term: _Term, event: events.Event, effects: controller_effects.Effects) -> None:
        """Everything but the writes: it depended on none, or on writes that are done."""
        self._journal.record(self._seams.clock.now_ms(), term.epoch, event, effects)
        state_change_log.write_step(self._broker, term.epoch, effects)
        outboxes = term.outboxes
        assert outboxes is not None
        for request in effects.requests:
            outboxes.send(request)
        for answer in effects.answers:
            term.asked.pop(answer.request_id, None)
            body = _answer_of(answer.body)
            if body is not None:
                self._on_answer(answer.request_id, body)
        if effects.resign is not None:
            raise _Resigning(effects.resign)

    def _broker_answered(self, term: _Term, event: events.Event) -> None:
        if term is self._term:
            term.inbox.append(event)
            term.wake.set()

    def _set_tick_timer(self, term: _Term) -> None:
        core = term.core
        assert core is not None
        at_ms = core.next_deadline_ms()
        if at_ms is None or (term.tick_timer is not None and term.tick_at_ms <= at_ms):
            return

        def due() -> None:
            term.tick_timer = None
            self._broker_answered(term, events.Tick())

        if term.tick_timer is not None:
            term.tick_timer.cancel()
        term.tick_at_ms = at_ms
        delay_s = max(0, at_ms - self._seams.clock.now_ms()) / 1000
        term.tick_timer = self._seams.loop.call_later(delay_s, due)

    def unanswered(self) -> Mapping[BrokerId, int]:
        """Requests not answered yet, per broker: for health and tests."""
        term = self._term
        return term.outboxes.unanswered() if term is not None and term.outboxes is not None else {}


def _controller_settings(settings: BrokerSettings) -> "ControllerSettings":
    from odradek.controller.context import ControllerSettings

    return ControllerSettings(
        unclean_leader_election_enable=settings.unclean_leader_election_enable,
        min_insync_replicas=settings.min_insync_replicas,
        delete_topic_enable=settings.delete_topic_enable,
        auto_leader_rebalance_enable=settings.auto_leader_rebalance_enable,
        leader_imbalance_check_interval_seconds=settings.leader_imbalance_check_interval_seconds,
        leader_imbalance_per_broker_percentage=settings.leader_imbalance_per_broker_percentage,
        delete_topic_with_offline_replicas=settings.odradek_delete_topic_with_offline_replicas,
    )


# --- between the broker's words and the controller's


def _event_of(request: ControllerRequest) -> events.Event:
    ask = request.ask
    if isinstance(ask, AlterPartitionAsked):
        return events.AlterPartitionRequested(
            request_id=request.request_id,
            version=ask.version,
            broker=ask.broker,
            broker_epoch=ask.broker_epoch,
            partitions=tuple(
                events.AlterPartitionItem(
                    topic=item.topic,
                    topic_id=item.topic_id,
                    partition=item.partition,
                    leader_epoch=item.leader_epoch,
                    partition_epoch=item.partition_epoch,
                    new_isr=tuple(events.IsrMember(m.broker, m.broker_epoch) for m in item.new_isr),
                    leader_recovery_state=item.leader_recovery_state,
                )
                for item in ask.partitions
            ),
        )
    if isinstance(ask, AllocateProducerIdsAsked):
        return events.AllocateProducerIdsRequested(request.request_id, ask.broker, ask.broker_epoch)
    return events.ControlledShutdownRequested(request.request_id, ask.broker, ask.broker_epoch)


def _answer_of(body: controller_effects.AnswerBody) -> ControllerAnswer | None:
    if isinstance(body, controller_effects.AlterPartitionAnswer):
        return AlterPartitionAnswered(
            body.error,
            tuple(
                AlterPartitionOutcome(
                    topic=result.topic_partition.topic if result.topic_partition is not None else None,
                    topic_id=result.topic_id,
                    partition=result.partition,
                    error=result.error,
                    leader_and_isr=result.leader_and_isr,
                )
                for result in body.partitions
            ),
        )
    if isinstance(body, controller_effects.AllocateProducerIdsAnswer):
        return AllocateProducerIdsAnswered(body.error, body.first_producer_id, body.length)
    if isinstance(body, controller_effects.ControlledShutdownAnswer):
        return ControlledShutdownAnswered(body.error, body.remaining)
    return None


def _refusal(ask: ControllerAsk) -> ControllerAnswer:
    if isinstance(ask, AlterPartitionAsked):
        return AlterPartitionAnswered(ErrorCode.NOT_CONTROLLER)
    if isinstance(ask, AllocateProducerIdsAsked):
        return AllocateProducerIdsAnswered(ErrorCode.NOT_CONTROLLER)
    return ControlledShutdownAnswered(ErrorCode.NOT_CONTROLLER)
