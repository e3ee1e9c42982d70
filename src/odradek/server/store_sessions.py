"""The life of a broker's sessions with the store: one after the other, each with a registration of its own.

While a session lasts, this broker's node stands in /brokers/ids, the controller it may be is run, and what the
store tells is delivered. When it ends, everything it said is forgotten, and the next one begins.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress

from odradek.broker.core import Broker
from odradek.model.cluster import BrokerRegistration, Endpoint
from odradek.model.errors import ConfigurationError
from odradek.model.facts import ConfigChanged, ControllerChanged, Fact, FeaturesChanged
from odradek.model.ids import UNKNOWN_BROKER_EPOCH, BrokerEpoch, BrokerId
from odradek.model.remedies import MORE_MEMORY
from odradek.model.settings import BrokerSettings
from odradek.server.controller_channel import ControllerChannel
from odradek.server.controller_runtime import ControllerRuntime
from odradek.server.cut_off import CutOff
from odradek.server.endpoints import endpoint_of
from odradek.server.environment import Environment
from odradek.server.gateway import Gateway
from odradek.server.log_limits import LimitedLog
from odradek.server.metrics import Metrics
from odradek.server.registration import check_cluster, register, register_again, rewrite
from odradek.store import api, layout
from odradek.store.facts import BrokerFacts
from odradek.store.fields import Unreadable

logger = logging.getLogger("odradek.server")

RETRY_S = 0.1
NO_MEMORY = f"no memory for a session with the store: {MORE_MEMORY}"
# What the store told that is delivered in one turn of the loop: some milliseconds.
FACTS_A_TURN = 500


class StoreSessions:
    """`live` never returns. `store` is None between two sessions."""

    def __init__(
        self,
        *,
        store: api.Store,
        stores: api.StoreProvider,
        environment: Environment,
        settings: BrokerSettings,
        endpoints: tuple[Endpoint, ...],
        endpoints_of: Callable[[BrokerSettings], tuple[Endpoint, ...]],
        inter_broker_listener: str,
        clean_epoch: int,
        broker: Broker,
        gateway: Gateway,
        controller: ControllerRuntime,
        channel: ControllerChannel,
        log: LimitedLog,
        metrics: Metrics,
    ) -> None:
        """`endpoints_of`: what is advertised with other settings. `clean_epoch`: of the incarnation that lost nothing when it ended (`LogManager.clean_epoch`), -1 for none."""
        self.store: api.Store | None = store
        self.registration: BrokerRegistration | None = None
        self.is_registered: asyncio.Future[None] = environment.loop.create_future()
        self._stores = stores
        self._environment = environment
        self._now_ms = environment.clock.now_ms
        self._settings = settings
        self._broker_id = BrokerId(settings.broker_id)
        self._endpoints = endpoints
        self._endpoints_of = endpoints_of
        self._has_moved = False  # the endpoints are others than our registration names
        self._listener = inter_broker_listener
        self._clean_epoch = clean_epoch
        self._broker = broker
        self._gateway = gateway
        self._controller = controller
        self._channel = channel
        self._log = log
        self._cut_off = CutOff(environment.loop.time)
        self._metrics = metrics
        self._wake = asyncio.Event()
        self._wants_new_epoch = False
        self._known_controller: tuple[BrokerId, Endpoint] | None = None

    def register_again(self, reason: str) -> None:
        """As another incarnation, as soon as the store can be asked."""
        logger.warning("registering again: %s", reason)
        self._wants_new_epoch = True
        self._wake.set()

    async def live(self) -> None:
        while True:
            store = self.store
            if store is None:
                store = self.store = await self._open_session()
                self._wants_new_epoch = False  # the new session brings one
                self._has_moved = False  # and names the endpoints as they are
            try:
                await self._session(store)
            except api.SessionExpired:
                self._metrics.session_expirations += 1
                logger.warning("the session with the store has ended; registering again")
                self.store = None
                if store.state not in (api.SessionState.EXPIRED, api.SessionState.CLOSED):
                    # Our registration went without it. Open, it would keep what else is its own.
                    with suppress(api.StoreError):
                        await store.close()
            except (api.StoreUnavailable, MemoryError) as error:
                # Away before we had registered or read everything. The session may live on, so begin again in it;
                # what it said so far is told once more (KAFKA-5473).
                if isinstance(error, api.OutOfTouch):
                    self._cut_off.tell(self._log, error)
                else:
                    self._log.warning("store", _told(error))
                await asyncio.sleep(RETRY_S)

    async def _open_session(self) -> api.Store:
        while True:
            try:
                return await self._stores.open_session(self._settings.zookeeper_session_timeout_ms)
            except (api.StoreUnavailable, api.SessionExpired, MemoryError) as error:
                told = NO_MEMORY if isinstance(error, MemoryError) else f"no session with the store: {error}"
                self._log.warning("store", told)
                await asyncio.sleep(RETRY_S)

    async def _session(self, store: api.Store) -> None:
        """Ends with SessionExpired."""
        wake = self._wake = asyncio.Event()
        if self._wants_new_epoch or self._has_moved:
            wake.set()  # wished before the store went away under this session
        stop_listening = store.listen(on_session=lambda state: wake.set())
        controller: asyncio.Task[None] | None = None
        facts = BrokerFacts(store, wake.set)
        # The store tells a fact once. One whose delivery failed, for it asks the store too, is delivered again.
        undelivered: deque[Fact] = deque()
        why: str | None = None  # the controller is ended, where neither its broker nor its session is
        try:
            if self.registration is not None:
                await check_cluster(store, self._broker.cluster_id)
            # This process goes on after its session: then its last incarnation has lost nothing, save for logs that
            # were found damaged, or whose directory failed: as at the start (`LogManager.clean_epoch`).
            last_epoch = BrokerEpoch(
                self._clean_epoch if self.registration is None else self.registration.epoch
            )
            logs = self._broker.replicas.logs
            self._broker.registering()
            self.registration = await register(
                store,
                self._environment,
                self._broker_id,
                self._endpoints,
                self._settings.broker_rack,
                lambda: last_epoch if logs.is_whole else UNKNOWN_BROKER_EPOCH,
            )
            logs.is_run_by(self.registration.epoch)
            self._broker.registered(self.registration.epoch, self._now_ms())
            self._gateway.end_turn()
            controller = self._environment.loop.create_task(self._controller.run(store))
            controller.add_done_callback(lambda task: wake.set())
            loaded = await facts.load()
            self._broker.client_quotas_read(
                (fact.entity_type, fact.entity_name)
                for fact in loaded
                if isinstance(fact, ConfigChanged) and fact.entity_type not in ("topics", "brokers")
            )
            for at, fact in enumerate([*loaded, *self._taken_back(loaded)]):
                await self._deliver(store, fact)
                await _give_way(at)
            self._broker.broker_configs_read(self._now_ms())
            self._gateway.end_turn()
            if not self.is_registered.done():
                self.is_registered.set_result(None)
            while True:
                await wake.wait()
                wake.clear()
                if store.state in (api.SessionState.EXPIRED, api.SessionState.CLOSED):
                    raise api.SessionExpired(message="the session has ended")
                if controller.done():
                    controller.result()
                try:
                    if self._wants_new_epoch:
                        self._wants_new_epoch = False  # what is wished from here on is wished of the next one
                        self._broker.registering()
                        logs.has_lost()  # something did, or may have: that is why
                        try:
                            await check_cluster(store, self._broker.cluster_id)
                            self.registration = await register_again(
                                store, self._environment, self.registration
                            )
                        except (api.StoreUnavailable, MemoryError):
                            self._wants_new_epoch = True
                            raise
                        logs.is_run_by(self.registration.epoch)
                        self._broker.registered(self.registration.epoch, self._now_ms())
                        self._gateway.end_turn()
                    undelivered.extend(await facts.take())
                    while undelivered:
                        await self._deliver(store, undelivered[0])
                        undelivered.popleft()
                        await _give_way(len(undelivered))
                    if self._has_moved:
                        self._has_moved = False
                        self.registration = await rewrite(
                            store, self._environment, self.registration, self._endpoints
                        )
                except (api.StoreUnavailable, MemoryError) as error:
                    self._log.warning("store", _told(error))
                    self._has_moved = self.registration.endpoints != self._endpoints
                    await asyncio.sleep(RETRY_S)
                    wake.set()
        except (api.StoreUnavailable, MemoryError) as error:
            cause = "there is no memory" if isinstance(error, MemoryError) else f"the store {error.verdict}"
            why = f"its session with the store begins again: {cause}"
            raise
        finally:
            facts.stop()
            stop_listening()
            if controller is not None:
                controller.cancel(why)
                await asyncio.wait({controller})

    # --- what the store tells

    def _taken_back(self, loaded: Sequence[Fact]) -> list[Fact]:
        """Of what counts here under `/config/brokers`, what has no node: it may have had one in the session before."""
        there = {
            fact.entity_name
            for fact in loaded
            if isinstance(fact, ConfigChanged) and fact.entity_type == "brokers"
        }
        ours = (layout.DEFAULT_ENTITY, str(self._broker_id))
        return [ConfigChanged("brokers", name, {}) for name in ours if name not in there]

    async def _deliver(self, store: api.Store, fact: Fact) -> None:
        if isinstance(fact, ControllerChanged):
            if fact.unreadable is not None:
                node = fact.unreadable
                self._log.warning(f"controller {node.reason}", f"{node.path}: {node.reason}")
            self._controller.controller_seen(fact.controller)
            self._broker.controller_known(fact.controller, self._now_ms())
            await self._connect_to_controller(store, fact.controller)
        elif isinstance(fact, ConfigChanged):
            self._config_changed(fact)
        elif isinstance(fact, FeaturesChanged):
            if fact.unreadable is not None:
                self._log.warning("feature", f"{fact.unreadable.path} is not read: {fact.unreadable.reason}")
            self._broker.features_changed(fact.features, fact.epoch)
        self._gateway.end_turn()

    async def _connect_to_controller(self, store: api.Store, controller: BrokerId | None) -> None:
        endpoint = None
        if controller is not None:
            path = layout.broker_path(controller)
            try:
                # Where it is missing the read alone would arm nothing.
                await store.exists(path, watch=True)
                node = await store.get(path, watch=True)
                endpoint = endpoint_of(layout.decode_registration(controller, node), self._listener)
            except (api.NoNode, Unreadable) as error:
                # Where its session has ended /controller goes too; else it registers anew. We hear of either.
                self._log.warning("controller", f"controller {controller} has no registration: {error}")
        known = None if controller is None or endpoint is None else (controller, endpoint)
        if known is None or known != self._known_controller:
            self._channel.controller_is(controller, endpoint)
        self._known_controller = known

    def _config_changed(self, fact: ConfigChanged) -> None:
        for node in fact.unreadable:
            self._log.warning(f"config {node.path}", f"{node.path} is not applied: {node.reason}")
        ours = (layout.DEFAULT_ENTITY, str(self._broker_id))
        if fact.unreadable:
            if fact.entity_type == "brokers" and fact.entity_name in ours:
                self._broker.broker_config_unreadable(fact.entity_name, self._now_ms())
            return
        if fact.entity_type == "topics":
            self._broker.topic_config_changed(fact.entity_name, dict(fact.config), self._now_ms())
        elif fact.entity_type != "brokers":
            self._broker.client_quota_changed(fact.entity_type, fact.entity_name, fact.config)
        elif fact.entity_name in ours:
            before = self._broker.settings
            self._broker.broker_config_changed(fact.entity_name, fact.config, self._now_ms())
            if self._broker.settings is not before:
                self._gateway.settings_changed(self._broker.settings)
                self._advertise(self._broker.settings)

    def _advertise(self, settings: BrokerSettings) -> None:
        """advertised.listeners may change while we serve: clients and brokers are told another way here."""
        try:
            endpoints = self._endpoints_of(settings)
        except ConfigurationError as error:
            self._log.warning("endpoints", f"the addresses stay as they are: {error}")
            return
        if endpoints != self._endpoints:
            self._endpoints = endpoints
            self._has_moved = True
            self._wake.set()


def _told(error: api.StoreUnavailable | MemoryError) -> str:
    return NO_MEMORY if isinstance(error, MemoryError) else f"the store {error.verdict}: {error}"


async def _give_way(at: int) -> None:
    """Others have their turn after so many."""
    if at % FACTS_A_TURN == FACTS_A_TURN - 1:
        await asyncio.sleep(0)
