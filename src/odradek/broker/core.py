"""The broker: requests in, answers and effects out. It decides and never waits.

Whoever runs it (`server.main`, a test, the simulator) has five duties:

1. `handle(request, now_ms)` for every request, in the order of each connection. Buffers of a request are
   not kept after the call returns.
2. After every call into the broker: `take_effects()`, and do what stands there (`effects.py` says what each
   is answered by).
3. At `next_deadline_ms()` at the latest: `tick(now_ms)`.
4. Tell what happens outside: `registering`, `registered`, `controller_status`, `topic_config_changed`,
   `broker_config_changed`, `broker_configs_read`, `client_quota_changed`, `connection_closed`, `leader_connection_lost`, `leader_connected`.
5. Before it stops serving `stopping(now_ms)`; at the end `close(now_ms)`, do the effects, then close the logs.

The only function the broker keeps and calls is `Park.complete`'s.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from odradek.broker.answers import Answer, CloseConnection
from odradek.broker.aside import Aside
from odradek.broker.client_throttles import ClientThrottles
from odradek.broker.control_gate import ControlGate
from odradek.broker.control_order import ControlOrder
from odradek.broker.control_queue import AT_ONCE, ControlQueue
from odradek.broker.departures import WATCHED, Departures
from odradek.broker.dynamic_settings import DynamicSettings
from odradek.broker.effects import (
    ControllerRequest,
    Effect,
    GoOn,
    LoggersAsked,
    LogLine,
    StoreQuestion,
    StoreRequest,
)
from odradek.broker.features import level_of_transactions
from odradek.broker.fetch_sessions import FetchSession, FetchSessionCache
from odradek.broker.follower_cuts import FollowerCuts
from odradek.broker.group_shards import GroupShards
from odradek.broker.id_generator import IdGenerator
from odradek.broker.index_rebuilds import IndexRebuilds
from odradek.broker.isr_channel import IsrChannel
from odradek.broker.large_answers import LargeAnswers
from odradek.broker.log_flushes import LogFlushes
from odradek.broker.marker_writes import MarkerWrites
from odradek.broker.metadata_cache import MetadataCache
from odradek.broker.organs import Organ, Organs, Periodic
from odradek.broker.peers import Peers
from odradek.broker.pending_calls import Answered, PendingCalls
from odradek.broker.producer_ids import ProducerIds
from odradek.broker.proposal_order import ProposalOrder
from odradek.broker.quotas import LONGEST_NAME, ClientQuotas, MutationQuota, MutationQuotas
from odradek.broker.replica_manager import ReplicaManager
from odradek.broker.request import ConnectionInfo, Request
from odradek.broker.row_limits import FEW_BYTES, LEAST_BYTES, RowLimits
from odradek.broker.slices import Slices
from odradek.broker.topic_config_reader import TopicConfigReader
from odradek.broker.topic_configs import TopicConfigs
from odradek.broker.transaction_markers import TransactionMarkers
from odradek.broker.transaction_shards import TransactionShards
from odradek.broker.unchecked_produces import UncheckedProduces
from odradek.broker.verifications import Verifications
from odradek.model.controller_requests import ControllerAsk
from odradek.model.entity_names import escape_entity
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError
from odradek.model.features import HIGHEST_LEVELS
from odradek.model.ids import UNKNOWN_BROKER_EPOCH, BrokerEpoch, BrokerId
from odradek.model.settings import BrokerSettings
from odradek.protocol.headers import RequestHeader
from odradek.replication.purgatory import Purgatory
from odradek.replication.waiting import Outbox

if TYPE_CHECKING:
    from odradek.broker.config_description import BrokerLayers
    from odradek.log.log_manager import LogManager

NEVER_MS = 1 << 62
# Encoded answers that are kept, of all listeners and versions: a client may ask for any set of topics.
MOST_CACHED_ANSWERS, MOST_CACHED_BYTES = 256, 32 << 20
FETCH = 1


class Handlers(Protocol):
    """The table of what is served, handed in by the assembly: `handlers.table`."""

    versions: Mapping[int, tuple[int, int]]

    def answer(self, broker: "Broker", request: Request, now_ms: int) -> Answer: ...
    def large_fetch(self) -> Any:
        """The kind of a fetch of very many partitions; by no name, for this file is what it imports."""


class Broker:
    """See the module. Attributes without underscore are for the handlers."""

    def __init__(
        self,
        *,
        settings: BrokerSettings,
        cluster_id: str,
        logs: "LogManager",
        topic_configs: TopicConfigs,
        handlers: Handlers,
        inter_broker_listener: str,
        seed: bytes,
        now_ms: int,
        partitions_at_once: int = AT_ONCE,
    ) -> None:
        self.broker_id = BrokerId(settings.broker_id)
        self.settings = settings  # those that count now
        self.dynamic = DynamicSettings(settings)
        self.quotas = ClientQuotas()
        self.mutation_quotas = MutationQuotas(self.quotas)
        self.throttles = ClientThrottles(self.quotas, settings)
        self.finalized_features: dict[str, int] = {}
        self.features_epoch = -1  # the version of /feature; -1: not read yet, or not there
        self.transaction_version = 0
        self.cluster_id = cluster_id
        self.inter_broker_listener = inter_broker_listener
        self.broker_epoch: BrokerEpoch | None = None
        self.control_order = ControlOrder()
        self.proposal_order = ProposalOrder()
        self.control_gate = ControlGate(self)
        self.is_controller = False
        self._led_in_epoch = 0  # of the controller here, or the last one that was
        self.ids = IdGenerator(seed)
        self.metadata = MetadataCache(expects_topics=topic_configs.had_topics)
        self.purgatory = Purgatory()
        self.effects: list[Effect] = []
        self.control_queue = ControlQueue(self.handle, self.effects, partitions_at_once)
        self.outbox = Outbox(self.purgatory)
        self.calls = PendingCalls()
        self.departures = Departures(self.metadata, self.effects, self.calls, now_ms)
        self.aside = Aside(self.effects, self.calls)
        self.slices = Slices(self.effects)
        self.large_answers = LargeAnswers(self.slices, self.aside)
        self.unchecked = UncheckedProduces()
        self.replicas = ReplicaManager(
            broker=self.broker_id,
            settings=settings,
            logs=logs,
            topic_configs=topic_configs,
            inter_broker_listener=inter_broker_listener,
            metadata=self.metadata,
            outbox=self.outbox,
            effects=self.effects,
            calls=self.calls,
            slices=self.slices,
            broker_epoch=lambda: UNKNOWN_BROKER_EPOCH if self.broker_epoch is None else self.broker_epoch,
        )
        self.flushes = LogFlushes(self.replicas, self.outbox, self.effects, self.calls)
        self.cuts = FollowerCuts(self.outbox, self.slices, self.aside, self.replicas.wake_fetcher)
        self.index_rebuilds = IndexRebuilds(self.replicas, self.aside, self.effects)
        self.isr_channel = IsrChannel(self.broker_id, self.outbox, self.effects, self.calls)
        self.producer_ids = ProducerIds(self.broker_id, self.effects, self.calls)
        self.row_limits = RowLimits(self.metadata, self.replicas.partitions, topic_configs)
        self.fetch_sessions = FetchSessionCache(settings.max_incremental_fetch_session_cache_slots)
        self.fetch_max_bytes: int = settings.fetch_max_bytes
        self.selects_replicas_by_rack = settings.selects_replicas_by_rack
        # Encoded, valid while the metadata's epoch is this one.
        self._cached_answers: dict[object, bytes] = {}
        self._cached_bytes = 0
        self._cached_epoch = -1
        self._now_ms = now_ms
        self.handlers = handlers
        self.being_created: set[str] = set()  # by Metadata, until the store has answered
        self.config_reader = TopicConfigReader(self.replicas, self.effects, self.calls)
        self.groups = GroupShards(
            settings=lambda: self.settings,
            replicas=self.replicas,
            metadata=self.metadata,
            purgatory=self.purgatory,
            aside=self.aside,
            slices=self.slices,
            ids=self.ids,
            effects=self.effects,
        )
        self.peers = Peers(self.metadata, inter_broker_listener, self.effects, self.calls)
        self.verifications = Verifications()
        self.markers = TransactionMarkers(self.broker_id, self.metadata, self.peers, self.effects)
        self.marker_writes = MarkerWrites(
            self.replicas, self.purgatory, self.groups, self.verifications, self.slices
        )
        self.markers.write_here = self.marker_writes.write
        self.transactions = TransactionShards(
            settings=lambda: self.settings,
            replicas=self.replicas,
            metadata=self.metadata,
            purgatory=self.purgatory,
            aside=self.aside,
            slices=self.slices,
            ids=self.ids,
            effects=self.effects,
            producer_ids=self.producer_ids,
            markers=self.markers,
            transaction_version=lambda: self.transaction_version,
        )
        # In the order in which they are called. The assembly may add others.
        self.organs = Organs(
            (
                self._shrinks_isrs(now_ms),
                self._writes_high_watermarks(now_ms),
                self.replicas.moves,
                self.replicas.retries,
                self.isr_channel,
                self.producer_ids,
                self.control_gate,
                self.config_reader,
                self.groups,
                self.departures,
                self.transactions,
                self.markers,
            )
        )

    # -------------------------------------------------------------------------------------------- requests

    def handle(self, request: Request, now_ms: int) -> Answer:
        """One request. What it made due, parked fetches to be answered with what was appended, producers whose
        records are committed, is done by `take_effects` at the end of the turn: requests that came together are
        passed on together."""
        self._now_ms = now_ms
        if request.api_key <= FETCH:
            request.connection.is_at_work = True
        elif request.api_key in WATCHED:
            place = self.departures.hold(request)
            if place is not None:
                return place
        parked = request.connection.parked
        if parked is not None and parked.session.replica_id >= 0:
            # A follower asks behind its parked fetch, whose answer the new one would have to wait for.
            self.purgatory.cut_short(parked, now_ms)
        try:
            if len(request.body) >= FEW_BYTES:
                request.budget = self.row_limits.budget(request)
                if len(request.body) > LEAST_BYTES:
                    self.row_limits.check_size(request)
            answer = self.handlers.answer(self, request, now_ms)
        except ProtocolError as error:
            # Only a body that cannot be read comes here; handlers answer everything else themselves.
            answer = CloseConnection(f"API key {request.api_key} version {request.api_version}: {error}")
        if self.throttles.is_active:
            return self.throttles.held_up(request, answer, now_ms, self._last_told_ms)
        return answer

    def _last_told_ms(self) -> int:
        return self._now_ms

    @property
    def now_ms(self) -> int:
        """Of this turn."""
        return self._now_ms

    def take_effects(self) -> list[Effect]:
        """Ends the turn: whoever was woken in it is answered. Then everything to be done outside, in order."""
        outbox = self.outbox
        effects = self.effects
        flushes = self.flushes
        departures, metadata = self.departures, self.metadata
        if metadata.epoch != departures.heard_epoch or metadata.refusals != departures.heard_refusals:
            departures.hear(self._now_ms)
        planned = flushes.plan() if outbox.flushes else []
        if flushes.failed_directories or flushes.broken_logs:
            flushes.take_faults()
        if self.replicas.role_changes:
            self._tell_roles()
        if outbox.cuts:
            self.cuts.begin(self._now_ms)
        # Woken readers find what is missing, and of a rebuild that is not wanted any more they look again.
        while self.purgatory.ready or self.index_rebuilds.asked:
            if self.purgatory.ready:
                self.purgatory.sweep(self._now_ms)
                if outbox.flushes:  # of what coordinators have appended since, and markers
                    planned += flushes.plan()
            if self.index_rebuilds.asked:
                self.index_rebuilds.begin(self._now_ms)
        if outbox.proposals:
            self.isr_channel.send_proposals()
        effects += planned
        if outbox.messages:
            effects += [LogLine(level, text) for level, text in outbox.messages]
            outbox.messages.clear()
        if self.replicas.unread_topics and not self.config_reader.is_reading:
            self.config_reader.read()
        if not effects:
            return []
        taken = effects[:]
        effects.clear()
        return taken

    def _tell_roles(self) -> None:
        changes, self.replicas.role_changes[:] = self.replicas.role_changes[:], []
        for organ in self.organs:
            organ.roles_changed(changes, self._now_ms)

    # ------------------------------------------------------------------------------------------------ time

    def tick(self, now_ms: int) -> None:
        self._now_ms = now_ms
        self.purgatory.expire(now_ms)
        for organ in self.organs:
            organ.tick(now_ms)

    def next_deadline_ms(self) -> int:
        """Asked at the end of every turn."""
        organs_ms, parked_ms = self.organs.earliest_ms(), self.purgatory.next_deadline_ms()
        if organs_ms is None:
            return NEVER_MS if parked_ms is None else parked_ms
        return organs_ms if parked_ms is None or organs_ms < parked_ms else parked_ms

    def _shrinks_isrs(self, now_ms: int) -> Organ:
        interval_ms: int = max(self.settings.replica_lag_time_max_ms // 2, 1)
        return Periodic(now_ms + interval_ms, lambda: interval_ms, self.replicas.shrink_lagging)

    def _writes_high_watermarks(self, now_ms: int) -> Organ:
        def interval_ms() -> int:
            interval: int = self.settings.replica_high_watermark_checkpoint_interval_ms
            return interval

        def checkpoint(now_ms: int) -> None:
            self.effects.append(self.replicas.checkpoint_high_watermarks())

        return Periodic(now_ms + interval_ms(), interval_ms, checkpoint)

    # ---------------------------------------------------------------------------------- told by the shell

    def registering(self) -> None:
        """A node of ours in /brokers/ids is being made; `registered` follows, perhaps long after it is there."""
        self.control_gate.registering()

    def registered(self, broker_epoch: int, now_ms: int) -> None:
        """Our node in /brokers/ids is there; its czxid is our epoch until the session ends."""
        self.broker_epoch = BrokerEpoch(broker_epoch)
        self.isr_channel.broker_epoch = self.broker_epoch
        self.producer_ids.registered(self.broker_epoch)
        self.control_gate.registered(now_ms)
        self.isr_channel.send_proposals()

    def controller_status(self, is_controller: bool, controller_epoch: int, now_ms: int) -> None:
        """Whether the controller that answers requests lives in this process."""
        self.is_controller = is_controller
        if is_controller:
            self._led_in_epoch = controller_epoch
            self.control_gate.leads(controller_epoch)

    @property
    def places_replicas(self) -> bool:
        """Whether the controller is here, and has told its own broker who lives: before that the brokers known here are those of the
        controller before it, which may have been one that is dead."""
        return self.is_controller and self.metadata.controller_epoch >= self._led_in_epoch

    def controller_known(self, broker_id: int | None, now_ms: int) -> None:
        """Who holds /controller: known here before its first UpdateMetadata."""
        if self.metadata.controller_id != broker_id:
            self.metadata.controller_id = None if broker_id is None else BrokerId(broker_id)
            self.metadata.epoch += 1

    def topic_config_changed(self, topic: str, overrides: dict[str, str], now_ms: int) -> None:
        self.replicas.set_topic_overrides(topic, overrides, now_ms)
        self._now_ms = now_ms

    def broker_config_changed(self, entity_name: str, config: Mapping[str, str], now_ms: int) -> None:
        """`/config/brokers/<entity_name>` as it stands now: of this broker, or of all (`<default>`)."""
        for problem in self.dynamic.change(entity_name, config):
            self.effects.append(LogLine("warning", f"/config/brokers/{entity_name}: {problem}"))
        if self.dynamic.current is not self.settings:
            self.broker_settings_changed(self.dynamic.current, now_ms)

    def broker_config_unreadable(self, entity_name: str, now_ms: int) -> None:
        """What stands in `/config/brokers/<entity_name>` cannot be read."""
        self.dynamic.cannot_be_read(entity_name)
        if self.dynamic.current is not self.settings:
            line = f"/config/brokers/{entity_name} was never read, so nothing is deleted or compacted by the settings of brokers"
            self.effects.append(LogLine("warning", line))
            self.broker_settings_changed(self.dynamic.current, now_ms)

    def broker_configs_read(self, now_ms: int) -> None:
        """All nodes below `/config/brokers` were read and told. What was taken back while the logs were read at the start counts no
        more."""
        if self.replicas.topic_configs.settings is not self.settings:
            self.broker_settings_changed(self.settings, now_ms)

    def client_quota_changed(self, entity_type: str, entity_name: str, config: Mapping[str, str]) -> None:
        """`/config/{users,clients,ips}/<entity_name>` as it stands now."""
        for problem in self.quotas.change(entity_type, entity_name, config):
            self.effects.append(LogLine("warning", f"quota left out: {problem}"))
        self.throttles.quotas_changed()

    def client_quotas_read(self, named: Iterable[tuple[str, str]]) -> None:
        """All nodes below `/config/{users,clients,ips}` were read; each of these is told by `client_quota_changed`."""
        self.quotas.keep_only(named)
        self.throttles.quotas_changed()

    def features_changed(self, features: Mapping[str, int], epoch: int) -> None:
        """`/feature` as it stands now. What this release does not know is reported, and nothing acts on it."""
        unknown = {name: level for name, level in features.items() if level > HIGHEST_LEVELS.get(name, 0)}
        if features != self.finalized_features and unknown:
            named = ", ".join(f"{name} {level}" for name, level in sorted(unknown.items()))
            self.effects.append(
                LogLine("warning", f"/feature finalises what this broker does not know: {named}")
            )
        self.finalized_features, self.features_epoch = dict(features), epoch
        self.transaction_version = level_of_transactions(features)
        self._forget_answers()

    def broker_settings_changed(self, settings: BrokerSettings, now_ms: int) -> None:
        self.settings = settings
        self.replicas.set_broker_settings(settings, now_ms)
        self._forget_answers()
        self._now_ms = now_ms

    def leader_connection_lost(self, leader: BrokerId, now_ms: int) -> None:
        """The connection over which this broker fetches from `leader` broke."""
        self.departures.connection_lost(leader, now_ms)

    def leader_connected(self, leader: BrokerId) -> None:
        self.departures.connected(leader)

    def connection_closed(self, connection: ConnectionInfo, now_ms: int) -> None:
        if connection.is_of_broker or connection.is_follower:
            self.departures.trouble(now_ms)
        wait = connection.parked
        if wait is not None:
            wait.leave()
        if connection.is_follower:
            for session in self.fetch_sessions.of_follower_gone(connection.id):
                self._close_in_slices(session)

    def _close_in_slices(self, session: FetchSession) -> None:
        if session.close_some():
            self.slices.begin(lambda later_ms: session.close_some())

    def go_on(self, now_ms: int) -> bool:
        """The next slice of what the controller asked for, and of other work; whether there is another one. After the
        effect `GoOn`."""
        self._now_ms = now_ms
        is_more = self.slices.go_on(now_ms)
        try:
            return self.control_queue.go_on(now_ms) or is_more
        except Exception:
            if is_more:
                self.effects.append(GoOn())
            raise

    def stopping(self, now_ms: int) -> None:
        """Nothing is going to be heard any more: what waits for news is answered as things stand."""
        self._now_ms = now_ms
        self.departures.close()

    def close(self, now_ms: int) -> None:
        """A clean stop: the high watermarks are written once more (behaviour 136)."""
        self.effects.append(self.replicas.checkpoint_high_watermarks())

    def answered(self, request_id: int, result: Any, now_ms: int) -> None:
        """What came of the effect with this id; `effects` says what `result` is for each."""
        self._now_ms = now_ms
        self.calls.answered(request_id, result, now_ms)

    # ----------------------------------------------------------------------------------------- for handlers

    def is_early(self, broker_epoch: int) -> bool:
        """We serve before we are registered, so a controller that has not missed us yet may still speak to our
        former incarnation: to lead in its epoch, or to delete what we hold. Which incarnation is meant we cannot tell before
        we know our own epoch; until then such a request waits (`control_gate`)."""
        return self.broker_epoch is None and broker_epoch != UNKNOWN_BROKER_EPOCH

    def broker_epoch_error(self, broker_epoch: int, *, is_kraft: bool) -> ErrorCode:
        """Whether a request of a controller is meant for this broker in this incarnation (KIP-380). A larger epoch may
        be ours too: the controller may read of our registration before we do (`control_gate`)."""
        if is_kraft:
            return ErrorCode.INVALID_REQUEST
        if (
            broker_epoch != UNKNOWN_BROKER_EPOCH
            and self.broker_epoch is not None
            and broker_epoch < self.broker_epoch
        ):
            return ErrorCode.STALE_BROKER_EPOCH
        return ErrorCode.NONE

    def handle_forwarded(
        self, request: Request, header: RequestHeader, body: memoryview, principal: str, now_ms: int
    ) -> Answer:
        """A request out of an envelope, as its client's own."""
        connection = request.connection
        client = ConnectionInfo(connection.id, connection.peer, connection.listener, principal)
        forwarded = Request(
            header.api_key, header.api_version, header.correlation_id, header.client_id, body, client
        )
        return self.handle(forwarded, now_ms)

    def ask_controller(self, ask: ControllerAsk, answered: Answered) -> None:
        self.effects.append(ControllerRequest(self.calls.expect(answered), ask))

    def ask_store(self, question: StoreQuestion, answered: Answered) -> None:
        self.effects.append(StoreRequest(self.calls.expect(answered), question))

    def mutation_quota(self, request: Request, *, strict_since: int, now_ms: int) -> MutationQuota:
        """What the client of this request may change of topics. From version `strict_since` on it knows
        THROTTLING_QUOTA_EXCEEDED."""
        _, _, user = request.connection.principal.partition(":")
        return self.mutation_quotas.of_request(
            self.settings,
            escape_entity(user),
            escape_entity((request.client_id or "")[:LONGEST_NAME]),
            is_strict=request.api_version >= strict_since,
            now_ms=now_ms,
        )

    def ask_loggers(self, levels: Mapping[str, str | None], told: Answered) -> None:
        """Sets these, and then `told(levels of all loggers, now_ms)`."""
        self.effects.append(LoggersAsked(self.calls.expect(told), levels))

    @property
    def layers(self) -> "BrokerLayers":
        """What is said of this broker's settings, and by whom."""
        from odradek.broker.config_description import BrokerLayers  # only who describes pays for it

        return BrokerLayers(self.dynamic.static, self.dynamic.of_broker, self.dynamic.of_all)

    def recall(self, key: object) -> bytes | None:
        """An encoded answer, if it was made since the metadata changed last."""
        if self._cached_epoch != self.metadata.epoch:
            self._forget_answers()
            self._cached_epoch = self.metadata.epoch
        return self._cached_answers.get(key)

    def remember(self, key: object, answer: bytes) -> bytes:
        self._cached_bytes += len(answer)
        if len(self._cached_answers) >= MOST_CACHED_ANSWERS or self._cached_bytes > MOST_CACHED_BYTES:
            self._forget_answers()
            self._cached_bytes = len(answer)
        self._cached_answers[key] = answer
        return answer

    def _forget_answers(self) -> None:
        self._cached_answers.clear()
        self._cached_bytes = 0

    def node_endpoints(self, brokers: Any, listener: str) -> list[tuple[int, str, int, str | None]]:
        rows = []
        known = self.metadata.shown_brokers
        for broker in sorted(brokers):
            shown = known.get(broker)
            endpoint = shown.endpoints.get(listener) if shown is not None else None
            if shown is not None and endpoint is not None:
                rows.append((broker, endpoint.host, endpoint.port, shown.rack))
        return rows
