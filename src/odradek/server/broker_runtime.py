"""One broker with everything around it that waits: store sessions, listeners, fetchers, disk, the controller
it may be.

The broker decides (`broker.core`); here its effects are done and their outcomes told. Everything is driven by
callbacks that end in `end_turn`, save for the life of a session with the store, which is one task.
"""

import asyncio
import logging
import socket
from collections.abc import Callable, Mapping
from typing import Any

from odradek.broker import effects
from odradek.broker.core import Broker
from odradek.broker.topic_configs import TopicConfigs
from odradek.client.receive_buffers import BufferPool
from odradek.log.errors import StorageError
from odradek.log.files import Directory, OsDirectory
from odradek.log.log_manager import LogManager
from odradek.model.cluster import BrokerRegistration, Endpoint
from odradek.model.entity_names import escape_entity
from odradek.model.facts import ConfigChanged, ControllerChanged, Fact, FeaturesChanged
from odradek.model.ids import BrokerEpoch, BrokerId, ControllerEpoch, TopicPartition
from odradek.model.settings import BrokerSettings
from odradek.server import log_levels, state_change_log, store_questions
from odradek.server.controlled_shutdown import hand_over
from odradek.server.controller_channel import ControllerChannel
from odradek.server.controller_runtime import ControllerRuntime
from odradek.server.disk import Disk
from odradek.server.endpoints import endpoint_of
from odradek.server.fetchers import Fetchers
from odradek.server.gateway import Gateway
from odradek.server.journal import Journal
from odradek.server.listener import Listeners, inter_broker_listener, security_protocols
from odradek.server.log_limits import LimitedLog
from odradek.server.metrics import Metrics
from odradek.server.registration import prepare_tree, register, register_again
from odradek.server.seams import Seams
from odradek.server.suspects import Suspects
from odradek.store import api, layout
from odradek.store.facts import BrokerFacts
from odradek.store.fields import Unreadable

logger = logging.getLogger("odradek.server")

RETRY_S = 0.1
HOUSEKEEPING_S = 1.0
_LEVELS = {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


class _TooEarly(asyncio.Protocol):
    """The port is ours, the logs are still being read: come again."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


class BrokerRuntime:
    """`start`, then `stop`; in between everything happens by itself. `broken` is done when it cannot go on."""

    def __init__(
        self,
        settings: BrokerSettings,
        seams: Seams,
        stores: api.StoreProvider,
        *,
        open_directory: Callable[[str], Directory] = OsDirectory.create,
        is_alone: bool = False,
        host_name: Callable[[], str] = socket.gethostname,
        pool: BufferPool | None = None,
    ) -> None:
        """`is_alone`: the only broker of this process, so what is the process's is its own (the state-change
        log).
        """
        self.settings = settings
        self.broker_id = BrokerId(settings.broker_id)
        self.metrics = Metrics()
        self.broken: asyncio.Future[BaseException] = seams.loop.create_future()
        self.registration: BrokerRegistration | None = None
        self._session_wake: asyncio.Event | None = None
        self._wants_new_epoch = False
        self.endpoints: tuple[Endpoint, ...] = ()
        self._seams = seams
        self._loop = seams.loop
        self._now_ms = seams.clock.now_ms
        self._stores = stores
        self._open_directory = open_directory
        self._host_name = host_name
        self._pool = pool or BufferPool()
        self._is_alone = is_alone
        self._log = LimitedLog(logger, seams.loop.time)
        self._listener = inter_broker_listener(settings)

        self._store: api.Store | None = None
        self._logs: LogManager | None = None
        self._broker: Broker | None = None
        self._gateway: Gateway | None = None
        self._suspects: Suspects | None = None
        self._fetchers: Fetchers | None = None
        self._channel: ControllerChannel | None = None
        self._controller: ControllerRuntime | None = None
        self._journal: Journal | None = None
        self._disk: Disk | None = None
        self._listeners = Listeners()
        self._known_controller: tuple[BrokerId, Endpoint] | None = None
        self._life: asyncio.Task[None] | None = None
        self._is_registered: asyncio.Future[None] = seams.loop.create_future()
        self._questions: set[asyncio.Task[None]] = set()
        self._deadline: asyncio.TimerHandle | None = None
        self._deadline_ms = 0
        self._housekeeping: asyncio.TimerHandle | None = None
        self._hurry = asyncio.Event()
        self._is_stopping = False
        self._does = self._table_of_effects()

    # --- for tests and whoever runs several brokers in one process

    @property
    def broker(self) -> Broker:
        assert self._broker is not None, "the broker was not started"
        return self._broker

    @property
    def controller(self) -> ControllerRuntime:
        assert self._controller is not None, "the broker was not started"
        return self._controller

    @property
    def logs(self) -> LogManager:
        assert self._logs is not None, "the broker was not started"
        return self._logs

    @property
    def store(self) -> api.Store | None:
        return self._store

    @property
    def address(self) -> str:
        """Of the inter-broker listener."""
        endpoint = next(e for e in self.endpoints if e.listener == self._listener)
        return f"{endpoint.host}:{endpoint.port}"

    # --- starting

    async def start(self) -> None:
        """Registered and serving when it returns. Whatever cannot be raises an error with a sentence."""
        settings = self.settings
        topic_configs = TopicConfigs(settings)
        self._logs = LogManager(self._open_directories(), settings, topic_settings=topic_configs.settings_of)
        self._logs.claim(self.broker_id)
        # Bound before the store is asked: a port in use is the commonest mistake.
        protocols = security_protocols(settings)
        await self._listeners.open(
            self._loop,
            settings,
            lambda listener: self._make_connection(listener, protocols[listener]),
        )
        self.endpoints = self._listeners.endpoints(settings, self._host_name)
        self._store = await self._stores.open_session(settings.zookeeper_session_timeout_ms)
        cluster_id = await prepare_tree(self._store, self._seams)
        self._logs.write_meta_properties(self.broker_id, cluster_id)
        await self._load_logs(self._logs)
        self._make_parts(cluster_id, topic_configs, self._logs)
        self._life = self._loop.create_task(self._live())
        self._life.add_done_callback(self._life_ended)
        await asyncio.wait({self._life, self._is_registered}, return_when=asyncio.FIRST_COMPLETED)
        if not self._is_registered.done():
            self._life.result()
        logger.info("broker %d of cluster %s serves at %s", self.broker_id, cluster_id, self.address)

    def _open_directories(self) -> list[Directory]:
        """One that cannot be opened at all is left out, as long as another can."""
        found: list[Directory] = []
        failures: list[StorageError] = []
        for path in self.settings.log_directories:
            try:
                found.append(self._open_directory(path))
            except StorageError as error:
                failures.append(error)
        if not found:
            raise failures[0]
        for failure in failures:
            logger.error("this log directory is left out: %s", failure)
        return found

    async def _load_logs(self, logs: LogManager) -> None:
        report = await self._seams.run_blocking(logs.load, self._now_ms())
        for note in report.notes:
            logger.warning("%s", note)
        self._check_directories(logs)
        logger.info("%d logs in %d directories loaded", report.logs, len(logs.directories))

    def _check_directories(self, logs: LogManager) -> None:
        """Without a single directory there is nothing to serve, and others can: stop."""
        offline = logs.offline_directories
        if len(offline) == len(logs.directories):
            raise next(iter(offline.values()))

    def _make_parts(self, cluster_id: str, topic_configs: TopicConfigs, logs: LogManager) -> None:
        settings, seams, pool = self.settings, self._seams, self._pool
        broker = self._broker = Broker(
            settings=settings,
            cluster_id=cluster_id,
            logs=logs,
            topic_configs=topic_configs,
            inter_broker_listener=self._listener,
            seed=seams.random_bytes(32),
            now_ms=self._now_ms(),
        )
        gateway = self._gateway = Gateway(
            settings=settings,
            seams=seams,
            pool=pool,
            handle=broker.handle,
            drain_effects=self._drain_effects,
            on_connection_closed=lambda connection_id: broker.connection_closed(
                connection_id, self._now_ms()
            ),
            log=self._log,
            metrics=self.metrics,
            address_rate=lambda address: broker.quotas.connection_rate(escape_entity(address)),
        )
        self._suspects = Suspects(broker.metadata, gateway.held, self._loop, gateway.end_turn)
        self._fetchers = Fetchers(
            seams=seams,
            pool=pool,
            after_turn=gateway.end_turn,
            connect_timeout_ms=settings.socket_connection_setup_timeout_ms,
            silence_timeout_ms=settings.replica_socket_timeout_ms,
            log=self._log,
            metrics=self.metrics,
            on_lost=self._suspects.connection_lost,
            on_connected=self._suspects.connected,
        )
        self._channel = ControllerChannel(
            seams=seams,
            pool=pool,
            client_id=f"broker-{self.broker_id}-to-controller",
            request_timeout_ms=settings.request_timeout_ms,
            after_turn=gateway.end_turn,
            log=self._log,
        )
        journal_directory = self._open_directory(self.journal_directory)
        if self._is_alone:
            state_change_log.write_to(journal_directory, self._log)
        self._journal = Journal(journal_directory, self.broker_id, self._log, seams)
        self._controller = ControllerRuntime(
            broker=self.broker_id,
            seams=seams,
            settings=settings,
            pool=pool,
            inter_broker_listener=self._listener,
            journal=self._journal,
            log=self._log,
            metrics=self.metrics,
            after_turn=gateway.end_turn,
            on_answer=self._controller_answered,
            on_term=self._term_changed,
        )
        self._disk = Disk(
            logs,
            seams,
            settings,
            on_flushed=self._log_flushed,
            high_watermarks=self._high_watermarks,
            log=self._log,
        )
        gateway.start_closing_idle()
        self._housekeep()

    @property
    def journal_directory(self) -> str:
        return self.settings.odradek_journal_dir or f"{self.settings.log_directories[0]}/journal"

    def _make_connection(self, listener: str, protocol: str) -> asyncio.BaseProtocol:
        if self._gateway is None:
            return _TooEarly()
        return self._gateway.make_connection(listener, protocol)

    # --- the life of sessions with the store

    async def _live(self) -> None:
        """One session after the other: when one ends, everything it said is forgotten."""
        while True:
            store = self._store
            if store is None:
                store = self._store = await self._open_session()
            try:
                await self._session(store)
            except api.SessionExpired:
                self.metrics.session_expirations += 1
                logger.warning("the session with the store has ended; registering again")
                self._store = None
            except api.StoreUnavailable as error:
                # Away before we had registered or read everything. The session may live on, so begin again in it;
                # what it said so far is told once more (KAFKA-5473).
                self._log.warning("store", f"the store cannot be reached: {error}")
                await asyncio.sleep(RETRY_S)

    async def _open_session(self) -> api.Store:
        while True:
            try:
                return await self._stores.open_session(self.settings.zookeeper_session_timeout_ms)
            except api.StoreUnavailable as error:
                self._log.warning("store", f"no session with the store: {error}")
                await asyncio.sleep(RETRY_S)

    async def _session(self, store: api.Store) -> None:
        """Ends with SessionExpired."""
        assert self._controller is not None and self._broker is not None
        wake = self._session_wake = asyncio.Event()
        self._wants_new_epoch = False  # this session brings one
        stop_listening = store.listen(on_session=lambda state: wake.set())
        controller: asyncio.Task[None] | None = None
        facts = BrokerFacts(store, wake.set)
        try:
            # This process goes on after its session: then its last incarnation has lost nothing.
            clean_epoch = self.logs.clean_epoch if self.registration is None else self.registration.epoch
            self.registration = await register(
                store,
                self._seams,
                self.broker_id,
                self.endpoints,
                self.settings.broker_rack,
                BrokerEpoch(clean_epoch),
            )
            self._broker.registered(self.registration.epoch, self._now_ms())
            self._end_turn()
            controller = self._loop.create_task(self._controller.run(store))
            controller.add_done_callback(lambda task: wake.set())
            for fact in await facts.load():
                await self._deliver(store, fact)
            if not self._is_registered.done():
                self._is_registered.set_result(None)
            while True:
                await wake.wait()
                wake.clear()
                if store.state in (api.SessionState.EXPIRED, api.SessionState.CLOSED):
                    raise api.SessionExpired(message="the session has ended")
                if controller.done():
                    controller.result()
                try:
                    if self._wants_new_epoch:
                        self.registration = await register_again(store, self._seams, self.registration)
                        self._wants_new_epoch = False
                        self._broker.registered(self.registration.epoch, self._now_ms())
                        self._end_turn()
                    for fact in await facts.take():
                        await self._deliver(store, fact)
                except api.StoreUnavailable as error:
                    self._log.warning("store", f"the store cannot be reached: {error}")
                    await asyncio.sleep(RETRY_S)
                    wake.set()
        finally:
            facts.stop()
            stop_listening()
            if controller is not None:
                controller.cancel()
                await asyncio.wait({controller})

    async def _deliver(self, store: api.Store, fact: Fact) -> None:
        assert self._broker is not None and self._controller is not None
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
        self._end_turn()

    async def _connect_to_controller(self, store: api.Store, controller: BrokerId | None) -> None:
        assert self._channel is not None
        endpoint = None
        if controller is not None:
            try:
                node = await store.get(layout.broker_path(controller))
                endpoint = endpoint_of(layout.decode_registration(controller, node), self._listener)
            except (api.NoNode, Unreadable) as error:
                # Its registration is gone: then /controller goes too, and we hear of it.
                self._log.warning("controller", f"controller {controller} has no registration: {error}")
        known = None if controller is None or endpoint is None else (controller, endpoint)
        if known is None or known != self._known_controller:
            self._channel.controller_is(controller, endpoint)
        self._known_controller = known

    def _config_changed(self, fact: ConfigChanged) -> None:
        assert self._broker is not None
        for node in fact.unreadable:
            self._log.warning(f"config {node.path}", f"{node.path} is not applied: {node.reason}")
        if fact.unreadable:
            return
        if fact.entity_type == "topics":
            self._broker.topic_config_changed(fact.entity_name, dict(fact.config), self._now_ms())
        elif fact.entity_type != "brokers":
            self._broker.client_quota_changed(fact.entity_type, fact.entity_name, fact.config)
        elif fact.entity_name in (layout.DEFAULT_ENTITY, str(self.broker_id)):
            before = self._broker.settings
            self._broker.broker_config_changed(fact.entity_name, fact.config, self._now_ms())
            if self._broker.settings is not before:
                assert self._gateway is not None
                self._gateway.settings_changed(self._broker.settings)

    def _life_ended(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled():
            error = task.exception()
            assert error is not None, "sessions follow each other for ever"
            self._break(error)

    def _break(self, error: BaseException) -> None:
        """Nothing that we foresaw; the broker stops rather than going on with what it cannot trust."""
        if not self.broken.done():
            self.broken.set_result(error)

    # --- effects

    def _table_of_effects(self) -> dict[type, Callable[[Any], None]]:
        return {
            effects.SendToController: self._send_to_controller,
            effects.ControllerRequest: lambda effect: self.controller.ask(effect),
            effects.StoreRequest: self._ask_store,
            effects.StartFetcher: self._start_fetcher,
            effects.StopFetcher: self._stop_fetcher,
            effects.WakeFetcher: self._wake_fetcher,
            effects.FlushLog: self._flush_log,
            effects.CheckpointHighWatermarks: self._checkpoint_high_watermarks,
            effects.LogDirectoryFailed: self._log_directory_failed,
            effects.RegisterAgain: self._register_again,
            effects.LoggersAsked: self._tell_loggers,
            effects.LogLine: lambda effect: logger.log(_LEVELS[effect.level], "%s", effect.text),
            effects.StateChangeLine: lambda effect: state_change_log.write_line(effect.level, effect.text),
        }

    def _tell_loggers(self, effect: effects.LoggersAsked) -> None:
        log_levels.set_levels(effect.levels)
        self.broker.loggers_told(effect.request_id, log_levels.levels(), self._now_ms())

    def _register_again(self, effect: effects.RegisterAgain) -> None:
        logger.warning("registering again: %s", effect.reason)
        self._wants_new_epoch = True
        if self._session_wake is not None:
            self._session_wake.set()

    def _end_turn(self) -> None:
        assert self._gateway is not None
        self._gateway.end_turn()

    def _drain_effects(self) -> bool:
        """Does what the broker asked for; False when there was nothing, and then its deadline is set."""
        broker = self._broker
        assert broker is not None
        assert self._suspects is not None
        self._suspects.look()  # first: questions it lets go have effects of their own
        taken = broker.take_effects()
        if not taken:
            self._set_deadline(broker.next_deadline_ms())
            return False
        does = self._does
        try:
            for effect in taken:
                does[type(effect)](effect)
        except Exception as error:
            self._break(error)
            raise
        return True

    def _set_deadline(self, at_ms: int) -> None:
        if self._deadline is not None:
            if self._deadline_ms <= at_ms:
                return  # it fires, looks, and sets the next
            self._deadline.cancel()
        if self._is_stopping:
            return
        self._deadline_ms = at_ms
        delay_s = max(0, at_ms - self._now_ms()) / 1000
        self._deadline = self._loop.call_later(delay_s, self._tick)

    def _tick(self) -> None:
        self._deadline = None
        self.broker.tick(self._now_ms())
        self._end_turn()

    def _send_to_controller(self, effect: effects.SendToController) -> None:
        def answered(message: Any | None) -> None:
            self.broker.controller_channel_answered(effect.request_id, message, self._now_ms())

        assert self._channel is not None
        self._channel.send(effect.api_key, effect.message, effect.max_version, answered)

    def _ask_store(self, effect: effects.StoreRequest) -> None:
        task = self._loop.create_task(self._answer_store_request(effect))
        self._questions.add(task)
        task.add_done_callback(self._questions.discard)

    async def _answer_store_request(self, effect: effects.StoreRequest) -> None:
        store = self._store
        result: effects.StoreResult = (
            effects.StoreFailed("there is no session with the store")
            if store is None
            else await store_questions.answer(store, effect.question)
        )
        self.broker.store_answered(effect.request_id, result, self._now_ms())
        self._end_turn()

    def _start_fetcher(self, effect: effects.StartFetcher) -> None:
        assert self._fetchers is not None
        if not self._is_stopping:
            self._fetchers.start(effect.leader, effect.endpoint, effect.fetcher)

    def _stop_fetcher(self, effect: effects.StopFetcher) -> None:
        assert self._fetchers is not None
        self._fetchers.stop(effect.leader)

    def _wake_fetcher(self, effect: effects.WakeFetcher) -> None:
        assert self._fetchers is not None
        self._fetchers.wake(effect.leader)

    def _flush_log(self, effect: effects.FlushLog) -> None:
        assert self._disk is not None
        self._disk.flush(effect)

    def _log_flushed(self, effect: effects.FlushLog, error: str | None) -> None:
        self.broker.log_flushed(effect.topic_partition, effect.plan, error, self._now_ms())
        self._end_turn()

    def _checkpoint_high_watermarks(self, effect: effects.CheckpointHighWatermarks) -> None:
        assert self._disk is not None
        self._disk.checkpoint_high_watermarks(effect)

    def _log_directory_failed(self, effect: effects.LogDirectoryFailed) -> None:
        try:
            self._check_directories(self.logs)
        except StorageError as error:
            self._break(error)
            return
        task = self._loop.create_task(self._tell_of_failed_directory())
        self._questions.add(task)
        task.add_done_callback(self._questions.discard)

    async def _tell_of_failed_directory(self) -> None:
        """Until it stands in the store; the controller then asks about all our replicas again."""
        node = api.Create(layout.LOG_DIR_EVENT, layout.encode_log_dir_event(self.broker_id), sequential=True)
        while True:
            store = self._store
            try:
                if store is not None:
                    await store.write([api.ConditionalOps((node,))], fence=None)
                    return
            except (api.StoreUnavailable, api.SessionExpired) as error:
                self._log.warning("store", f"the failed log directory cannot be told yet: {error}")
            await asyncio.sleep(RETRY_S)

    def _controller_answered(self, request_id: int, answer: effects.ControllerAnswer) -> None:
        self.broker.controller_answered(request_id, answer, self._now_ms())

    def _term_changed(self, epoch: ControllerEpoch | None) -> None:
        self.broker.controller_status(epoch is not None, -1 if epoch is None else epoch, self._now_ms())

    def _high_watermarks(self) -> dict[TopicPartition, int]:
        return {tp: partition.high_watermark for tp, partition in self.broker.replicas.partitions.items()}

    def _housekeep(self) -> None:
        if self._is_stopping:
            return
        assert self._disk is not None and self._channel is not None
        self._housekeeping = self._loop.call_later(HOUSEKEEPING_S, self._housekeep)
        self._seams.clock.compare_with_wall()
        self._disk.housekeep()
        self._channel.expire_waiting()
        self._end_turn()

    # --- stopping

    def hurry(self) -> None:
        """Somebody asked twice: leadership is handed over as far as it is."""
        self._hurry.set()

    async def stop(self, *, is_controlled: bool = True) -> None:
        """Hands leadership over, then closes everything in the order in which nothing is lost. Works from any
        state.
        """
        if is_controlled and self._is_registered.done() and self.settings.controlled_shutdown_enable:
            assert self._channel is not None and self.registration is not None
            await hand_over(
                self._channel,
                self._seams,
                self.settings,
                self.broker_id,
                self.registration.epoch,
                self._hurry,
            )
        self._stop_moving()
        if self._gateway is not None:
            self._gateway.close()
        if self._life is not None:
            self._life.cancel()
            await asyncio.wait({self._life})
        for question in list(self._questions):
            question.cancel()
        if self._journal is not None:
            await self._journal.finish()
        if self._disk is not None:
            await self._disk.finish()
        if self._logs is not None:
            await self._close_logs(self._logs)
        if self._store is not None and self._store.state is not api.SessionState.EXPIRED:
            # Last: as long as our node is there, nobody takes our place on these directories.
            try:
                await self._store.close()
            except api.StoreError as error:
                logger.warning("the session with the store could not be closed: %s", error)
        await self._stores.close()
        logger.info("broker %d has stopped", self.broker_id)

    def _stop_moving(self) -> None:
        self._is_stopping = True
        self._listeners.close()
        if self._fetchers is not None:
            self._fetchers.stop_all()
        if self._channel is not None:
            self._channel.close()
        if self._suspects is not None:
            self._suspects.close()
        for timer in (self._deadline, self._housekeeping):
            if timer is not None:
                timer.cancel()

    async def _close_logs(self, logs: LogManager) -> None:
        if self._broker is None:
            logs.release()
            return
        epoch = -1 if self.registration is None else self.registration.epoch
        self._broker.close(self._now_ms())
        try:
            await self._seams.run_blocking(self._close_cleanly, logs, self._high_watermarks(), epoch)
        except StorageError as error:
            logger.error("the log directories could not be closed in order: %s", error)
            logs.release()

    @staticmethod
    def _close_cleanly(logs: LogManager, high_watermarks: Mapping[TopicPartition, int], epoch: int) -> None:
        logs.close(high_watermarks, broker_epoch=epoch)

    def crash(self) -> None:
        """What `kill -9` does, for several brokers in one process: nothing is closed, nothing more is said."""
        self._stop_moving()
        if self._gateway is not None:
            self._gateway.abort()
        if self._life is not None:
            self._life.cancel()
        for question in list(self._questions):
            question.cancel()
        if self._logs is not None:
            self._logs.release()
