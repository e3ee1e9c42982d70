"""One term of a controller: from the election that was won to the resignation (house.md, "The settle loop").

One event at a time, in the order the store told us. A decision is stored before anyone hears of it; the
requests of an event leave after its last write. On doubt about its own state the controller resigns and
forgets everything: whatever it had decided stands in the store, and whoever leads next reads it there.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping

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
from odradek.controller.context import ControllerSettings
from odradek.controller.core import ControllerCore
from odradek.controller.state_change_log import lines
from odradek.model.facts import BrokersChanged, ControllerChanged
from odradek.model.ids import BrokerId, ControllerEpoch
from odradek.model.settings import BrokerSettings
from odradek.server import state_change_log
from odradek.server.controller_writes import decode_answers, encode_writes
from odradek.server.journal import Journal
from odradek.server.log_limits import LimitedLog
from odradek.server.outboxes import Outboxes
from odradek.server.seams import Seams
from odradek.store import api, layout
from odradek.store.facts import ControllerFacts


class Resigning(Exception):
    """Ends a term; the message says why."""


class ControllerTerm:
    """`serve` runs until it raises; `close` forgets everything."""

    def __init__(
        self,
        *,
        broker: BrokerId,
        epoch: ControllerEpoch,
        epoch_version: int,
        store: api.Store,
        seams: Seams,
        settings: BrokerSettings,
        pool: BufferPool,
        inter_broker_listener: str,
        journal: Journal,
        log: LimitedLog,
        after_turn: Callable[[], None],
        on_answer: Callable[[int, ControllerAnswer], None],
    ) -> None:
        self.epoch = epoch
        self.epoch_version = epoch_version
        self.is_loaded = False
        self.core = ControllerCore(_controller_settings(settings))
        self._broker = broker
        self._store = store
        self._fence = api.Fence(epoch_version)
        self._seams = seams
        self._journal = journal
        self._after_turn = after_turn
        self._on_answer = on_answer
        self._inbox: deque[events.Event] = deque()
        self._wake = asyncio.Event()
        self._asked: dict[int, ControllerAsk] = {}  # requests that wait for an answer of this term
        self._facts = ControllerFacts(store, wake=self._wake.set)
        self._outboxes = Outboxes(
            seams=seams,
            pool=pool,
            inter_broker_listener=inter_broker_listener,
            client_id=str(broker),
            request_timeout_ms=settings.controller_socket_timeout_ms,
            after_turn=after_turn,
            on_answer=self._put,
            log=log,
        )
        self._tick_timer: asyncio.TimerHandle | None = None
        self._tick_at_ms = 0
        self._is_closed = False

    # --- from outside

    def ask(self, request: ControllerRequest) -> None:
        self._asked[request.request_id] = request.ask
        self._put(_event_of(request))

    def controller_seen(self, broker: BrokerId | None) -> None:
        """Somebody else holds `/controller`: the core resigns on that."""
        self._put(ControllerChanged(broker))

    def unanswered(self) -> Mapping[BrokerId, int]:
        """Requests not answered yet, per broker."""
        return self._outboxes.unanswered()

    def close(self) -> dict[int, ControllerAsk]:
        """Row 145: watches off, senders stopped, everything forgotten. Returns what nobody answered."""
        self._is_closed = True
        self._facts.stop()
        if self._tick_timer is not None:
            self._tick_timer.cancel()
        self._outboxes.close("the controller resigned")
        asked, self._asked = self._asked, {}
        return asked

    # --- the settle loop

    async def serve(self) -> None:
        """Raises Resigning, or what the store raises."""
        await self._make_feature_node()
        snapshot = await self._facts.load(self._fence)
        self._outboxes.brokers_are(snapshot.brokers)
        await self._settle(events.Elected(self._broker, self.epoch, self.epoch_version, snapshot))
        self.is_loaded = True
        while True:
            await self._wake.wait()
            self._wake.clear()
            while True:
                for fact in await self._facts.take():
                    if isinstance(fact, BrokersChanged):
                        self._outboxes.brokers_are(fact.brokers)
                    await self._settle(fact)
                if not self._inbox:
                    break
                await self._settle(self._inbox.popleft())

    async def _make_feature_node(self) -> None:
        """Before anything else, and without a feature: an Apache member exits on one it does not know."""
        if await self._store.exists(layout.FEATURE) is None:
            create = api.Create(layout.FEATURE, layout.encode_feature({}))
            (answer,) = await self._store.write([api.ConditionalOps((create,))], self._fence)
            if isinstance(answer, api.Fenced):
                raise Resigning("another broker was elected")

    async def _settle(self, event: events.Event) -> None:
        core, now_ms = self.core, self._seams.clock.now_ms
        due = deque([event])
        while due:
            event = due.popleft()
            effects = core.step(event, now_ms())
            self._tell(event, effects)
            while effects.writes:
                answers = await self._store.write(encode_writes(effects.writes), self._fence)
                answered = decode_answers(effects.writes, answers)
                effects = core.step(answered, now_ms())
                self._tell(answered, effects)
            due.extendleft(reversed(effects.follow_up))
        self._set_tick_timer()
        self._after_turn()

    def _tell(self, event: events.Event, effects: controller_effects.Effects) -> None:
        """Everything but the writes: it depended on none, or on writes that are done."""
        self._journal.record(self._seams.clock.now_ms(), self.epoch, event, effects)
        if (effects.changes or effects.requests) and state_change_log.is_wanted():
            with_trace = state_change_log.is_wanted(state_change_log.TRACE)
            for level, text in lines(effects, self._broker, self.epoch, with_trace=with_trace):
                state_change_log.write_line(level, text)
        for request in effects.requests:
            self._outboxes.send(request)
        for answer in effects.answers:
            self._asked.pop(answer.request_id, None)
            body = _answer_of(answer.body)
            if body is not None:
                self._on_answer(answer.request_id, body)
        if effects.resign is not None:
            raise Resigning(effects.resign)

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
        delay_s = max(0, at_ms - self._seams.clock.now_ms()) / 1000
        self._tick_timer = self._seams.loop.call_later(delay_s, self._tick)

    def _tick(self) -> None:
        self._tick_timer = None
        self._put(events.Tick())


def _controller_settings(settings: BrokerSettings) -> ControllerSettings:
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
