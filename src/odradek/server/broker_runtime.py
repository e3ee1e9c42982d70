"""One broker with everything around it that waits: store sessions, listeners, fetchers, disk, the controller
it may be.

The broker decides (`broker.core`); here its effects are done and their outcomes told. Everything is driven by
callbacks that end in `end_turn`, save for the life of a session with the store, which is one task.
"""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import TYPE_CHECKING, TypeVar

from odradek import __version__
from odradek.broker import effects
from odradek.broker.assembly import assemble_broker
from odradek.broker.core import Broker
from odradek.broker.dynamic_settings import EVERY_BROKER, DynamicSettings
from odradek.broker.topic_configs import KEEP_EVERYTHING, TopicConfigs
from odradek.client.receive_buffers import BufferPool
from odradek.log.errors import StorageError
from odradek.log.files import Directory, OsDirectory
from odradek.log.log_manager import LogManager
from odradek.log.partition_log import PartitionLog
from odradek.model.cluster import BrokerRegistration, Endpoint
from odradek.model.counted import counted, first_of
from odradek.model.entity_names import escape_entity
from odradek.model.ids import BrokerId, ControllerEpoch, TopicPartition
from odradek.model.listeners import parse_metrics_listener
from odradek.model.settings import BrokerSettings
from odradek.model.settings_unserved import check_served
from odradek.model.values import dataclass
from odradek.server import state_change_log
from odradek.server.broker_effects import BrokerEffects, check_directories
from odradek.server.broker_links import BrokerLinks
from odradek.server.cleaning import LogCleaning
from odradek.server.controlled_shutdown import hand_over
from odradek.server.controller_channel import ControllerChannel
from odradek.server.controller_runtime import ControllerRuntime
from odradek.server.cut_off import CutOff
from odradek.server.environment import Environment, to_its_end
from odradek.server.fetchers import Fetchers
from odradek.server.gateway import Gateway
from odradek.server.journal import Journal
from odradek.server.links import Links, client_id_of
from odradek.server.listener import Listeners, inter_broker_listener, security_protocols
from odradek.server.log_limits import LimitedLog
from odradek.server.log_maintenance import LogMaintenance
from odradek.server.metrics import Metrics
from odradek.server.registration import prepare_tree
from odradek.server.replica_positions import ReplicaPositions
from odradek.server.shutdown_refusal import (
    Promised,
    ShutdownRefused,
    agree,
    fell_under_min,
    warn_of_only_replicas,
)
from odradek.server.store_sessions import RETRY_S, StoreSessions
from odradek.server.unknown_topics import logs_of_unknown_topics
from odradek.store import api
from odradek.store.facts import all_configs

if TYPE_CHECKING:
    from odradek.server.exporter.listener import MetricsListener

logger = logging.getLogger("odradek.server")

HOUSEKEEPING_S = 1.0
SHOWN_LOGS = 10  # of topics that the store does not know
T = TypeVar("T")


class _TooEarly(asyncio.Protocol):
    """The port is ours, the logs are still being read: come again."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


@dataclass(frozen=True, slots=True)
class Parts:
    """What a broker is made of once its logs are read and the store is reached: all of it at once, or nothing."""

    broker: Broker
    gateway: Gateway
    fetchers: Fetchers
    channel: ControllerChannel
    links: BrokerLinks
    journal: Journal
    controller: ControllerRuntime
    disk: LogMaintenance
    sessions: StoreSessions
    effects: BrokerEffects
    life: "asyncio.Task[None]"  # of the sessions


class BrokerRuntime:
    """`start`, then `stop`; in between everything happens by itself. `broken` is done when it cannot go on."""

    def __init__(
        self,
        settings: BrokerSettings,
        environment: Environment,
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
        self.broken: asyncio.Future[BaseException] = environment.loop.create_future()
        self.endpoints: tuple[Endpoint, ...] = ()
        self._environment = environment
        self._loop = environment.loop
        self._now_ms = environment.clock.now_ms
        self._stores = stores
        self._open_directory = open_directory
        self._host_name = host_name
        self._pool = pool or BufferPool()
        self._is_alone = is_alone
        self._log = LimitedLog(logger, environment.loop.time)
        self._listener = inter_broker_listener(settings)

        # Until there are parts, a start that fails has these to let go of.
        self.parts: Parts | None = None
        self._first_store: api.Store | None = None
        self._logs: LogManager | None = None
        self._listeners = Listeners()
        self.metrics_listener: MetricsListener | None = None  # where /metrics is served, if it is
        self._housekeeping: asyncio.TimerHandle | None = None
        self._hurry = asyncio.Event()
        self._is_stopping = False
        self._is_leaving = False  # leadership is being handed over, or that is done

    # --- for tests and whoever runs several brokers in one process

    def _whole(self) -> Parts:
        assert self.parts is not None, "the broker was not started"
        return self.parts

    @property
    def broker(self) -> Broker:
        parts = self.parts  # as `_whole`; the simulator looks at it after every event
        assert parts is not None, "the broker was not started"
        return parts.broker

    @property
    def controller(self) -> ControllerRuntime:
        parts = self.parts
        assert parts is not None, "the broker was not started"
        return parts.controller

    @property
    def logs(self) -> LogManager:
        assert self._logs is not None, "the broker was not started"
        return self._logs

    @property
    def store(self) -> api.Store | None:
        return self._first_store if self.parts is None else self.parts.sessions.store

    def now_ms(self) -> int:
        return self._now_ms()

    def end_turn(self) -> None:
        """What somebody else than a callback of its own has made due is done."""
        self._whole().gateway.end_turn()

    @property
    def registration(self) -> BrokerRegistration | None:
        return None if self.parts is None else self.parts.sessions.registration

    # --- starting

    async def start(self) -> None:
        """Registered and serving when it returns. Whatever cannot be raises an error with a sentence."""
        settings = self.settings
        accepted = check_served(settings)
        if accepted is not None:
            logger.warning("%s", accepted)
        topic_configs = TopicConfigs(settings)
        directories, left_out = self._open_directories()
        self._logs = LogManager(
            directories, settings, topic_settings=topic_configs.settings_of, left_out=left_out
        )
        known_cluster = self._logs.claim(self.broker_id)
        check_directories(self._logs)
        # Bound before the store is asked: a port in use is the commonest mistake.
        protocols = security_protocols(settings)
        await self._listeners.open(
            self._loop,
            settings,
            lambda listener: self._make_connection(listener, protocols[listener]),
        )
        self.endpoints = self._listeners.endpoints(settings, self._host_name)
        await self._open_metrics()
        store = await self._stores.open_session(settings.zookeeper_session_timeout_ms)
        self._first_store = store
        cluster_id = await self._answered(lambda: prepare_tree(store, self._environment, known_cluster))
        self._logs.write_meta_properties(self.broker_id, cluster_id)
        check_directories(self._logs)
        for path, failure in self._logs.offline_directories.items():
            if path not in left_out:
                logger.error("this log directory is left out: %s", failure)
        configured = await self._answered(lambda: self._read_configs(store, topic_configs))
        await self._load_logs(self._logs)
        await self._tell_of_unknown_topics(store, self._logs, configured)
        parts = self.parts = self._make_parts(cluster_id, topic_configs, self._logs, store)
        self._show_metrics(parts)
        is_registered = parts.sessions.is_registered
        await asyncio.wait({parts.life, is_registered}, return_when=asyncio.FIRST_COMPLETED)
        if not is_registered.done():
            parts.life.result()
        served = ", ".join(f"{endpoint.host}:{endpoint.port}" for endpoint in self.endpoints)
        logger.info(
            "broker %d of cluster %s (odradek %s) serves at %s",
            self.broker_id,
            cluster_id,
            __version__,
            served,
        )

    async def _answered(self, ask: Callable[[], Awaitable[T]]) -> T:
        """What the store says at the start, though the way to it is lost meanwhile: a member of an ensemble dies, and another one
        has the session a moment later. What ends the session ends the start: StoreUnavailable."""
        cut_off = CutOff(self._loop.time)
        while True:
            try:
                return await ask()
            except api.OutOfTouch as error:
                cut_off.tell(self._log, error)
                await asyncio.sleep(RETRY_S)
            except api.SessionExpired as error:
                logger.warning("%s", error)
                raise api.StoreUnavailable(
                    message=f"the session with the store ended before broker {self.broker_id} was registered; start it again once "
                    "the store can be reached"
                ) from error

    async def _open_metrics(self) -> None:
        address = parse_metrics_listener(self.settings.odradek_metrics_listener)
        if address is not None:
            from odradek.server.exporter.listener import MetricsListener  # only who has metrics pays for it

            self.metrics_listener = MetricsListener(self._loop, self._log)
            await self.metrics_listener.open(address)

    def _show_metrics(self, parts: Parts) -> None:
        listener = self.metrics_listener
        if listener is not None:
            from odradek.server.exporter.page import page
            from odradek.server.exporter.seen import Seen

            seen = Seen(
                broker=parts.broker,
                logs=self.logs,
                gateway=parts.gateway,
                controller=parts.controller,
                metrics=self.metrics,
                idle_share=listener.busy.idle_share,
                is_stopping=lambda: self._is_leaving,
            )
            listener.show(lambda: page(seen))

    def _open_directories(self) -> tuple[list[Directory], dict[str, StorageError]]:
        """One that cannot be opened at all is left out, as long as another can: offline, as one that fails later."""
        found: list[Directory] = []
        failures: dict[str, StorageError] = {}
        for path in self.settings.log_directories:
            try:
                found.append(self._open_directory(path))
            except StorageError as error:
                failures[path] = error
        if not found:
            raise next(iter(failures.values()))
        for failure in failures.values():
            logger.error("this log directory is left out: %s", failure)
        return found, failures

    async def _read_configs(self, store: api.Store, topic_configs: TopicConfigs) -> set[str]:
        """What recovery needs of them; changes are heard once the logs are loaded. The topics that have some, if only none set."""
        dynamic = DynamicSettings(self.settings)
        for fact in await all_configs(store, "brokers"):
            if fact.entity_name not in (EVERY_BROKER, str(self.broker_id)):
                continue
            if fact.unreadable:
                dynamic.cannot_be_read(fact.entity_name)
            else:
                dynamic.change(fact.entity_name, fact.config)
        topics = await all_configs(store, "topics")
        topic_configs.at_start(
            dynamic.current,
            {fact.entity_name: KEEP_EVERYTHING if fact.unreadable else fact.config for fact in topics},
        )
        return {fact.entity_name for fact in topics}

    async def _load_logs(self, logs: LogManager) -> None:
        # Where the start is cut short the directories are let go of, and the thread must have done so before.
        report = await to_its_end(self._environment.run_blocking(logs.load, self._now_ms()))
        for note in report.notes:
            logger.warning("%s", note)
        check_directories(logs)
        logger.info("%d logs in %d directories loaded", report.logs, len(logs.directories))

    async def _tell_of_unknown_topics(
        self, store: api.Store, logs: LogManager, configured: Collection[str]
    ) -> None:
        here = {*logs.logs, *logs.refused, *logs.ambiguous}
        unknown = await self._answered(
            lambda: logs_of_unknown_topics(store, self.broker_id, here, configured)
        )
        if unknown:
            logger.warning(
                "%s of topics that the store does not know: %s. Nobody serves or deletes them. If an older copy of the store was "
                "restored, these topics were created since; where nobody needs their records, remove the directories while this "
                "broker is stopped",
                counted(len(unknown), "log"),
                first_of(unknown, SHOWN_LOGS),
            )

    def _make_parts(
        self, cluster_id: str, topic_configs: TopicConfigs, logs: LogManager, store: api.Store
    ) -> Parts:
        settings, environment, pool = self.settings, self._environment, self._pool
        broker = assemble_broker(
            settings=settings,
            cluster_id=cluster_id,
            logs=logs,
            topic_configs=topic_configs,
            inter_broker_listener=self._listener,
            seed=environment.random_bytes(32),
            now_ms=self._now_ms(),
            partitions_at_once=environment.partitions_at_once,
        )
        gateway = Gateway(
            settings=settings,
            environment=environment,
            pool=pool,
            handle=environment.intercepted(broker.handle),
            on_connection_closed=lambda connection: broker.connection_closed(connection, self._now_ms()),
            log=self._log,
            metrics=self.metrics,
            address_rate=lambda address: broker.quotas.connection_rate(escape_entity(address)),
            throttles=broker.throttles,
            protected_listener=self._listener if len(self._listeners.bound) > 1 else None,
        )
        fetchers = Fetchers(
            environment=environment,
            pool=pool,
            after_turn=gateway.end_turn,
            connect_timeout_ms=settings.socket_connection_setup_timeout_ms,
            silence_timeout_ms=settings.replica_socket_timeout_ms,
            log=self._log,
            metrics=self.metrics,
            on_lost=lambda leader: broker.leader_connection_lost(leader, self._now_ms()),
            on_connected=broker.leader_connected,
        )

        def links_of(client: str) -> Links:
            client_id = client_id_of(self.broker_id, client)
            return Links(environment.loop, pool, client_id, gateway.end_turn, settings.request_timeout_ms)

        channel = ControllerChannel(links_of("to-controller"), self._log)
        links = BrokerLinks(links_of("to-broker"), self._log)
        journal_directory = self._open_journal_directory(logs)
        if self._is_alone:
            state_change_log.write_to(journal_directory, state_change_log.file_name(settings), self._log)
        journal = Journal(journal_directory, self.broker_id, self._log, environment)
        controller = ControllerRuntime(
            broker=self.broker_id,
            environment=environment,
            settings=settings,
            pool=pool,
            inter_broker_listener=self._listener,
            journal=journal,
            log=self._log,
            metrics=self.metrics,
            after_turn=gateway.end_turn,
            on_answer=lambda request_id, answer: broker.answered(request_id, answer, self._now_ms()),
            on_term=self._term_changed,
        )
        disk = LogMaintenance(
            logs,
            environment,
            settings,
            on_flushed=self._log_flushed,
            high_watermark_of=self._high_watermark_of,
            on_start_moved=self._log_start_moved,
            cleaning=LogCleaning(
                logs,
                environment,
                lambda: broker.settings,
                high_watermark_of=self._high_watermark_of,
                passed_by_all=ReplicaPositions(
                    links=links_of("cleaner"),
                    others=self._other_replicas_of,
                    endpoint=lambda other: broker.metadata.endpoint(other, self._listener),
                ).passed_by_all,
                log=self._log,
            ),
            log=self._log,
        )
        sessions = StoreSessions(
            store=store,
            stores=self._stores,
            environment=environment,
            settings=settings,
            endpoints=self.endpoints,
            endpoints_of=lambda changed: self._listeners.endpoints(changed, self._host_name),
            inter_broker_listener=self._listener,
            clean_epoch=logs.clean_epoch,
            broker=broker,
            gateway=gateway,
            controller=controller,
            channel=channel,
            log=self._log,
            metrics=self.metrics,
        )
        doing = BrokerEffects(
            broker=broker,
            logs=logs,
            environment=environment,
            sessions=sessions,
            controller=controller,
            channel=channel,
            links=links,
            fetchers=fetchers,
            gateway=gateway,
            disk=disk,
            on_broken=self._break,
            log=self._log,
        )
        gateway.end_turns_with(doing.drain, doing.set_deadline)
        gateway.start_closing_idle()
        self._housekeep(disk, channel, gateway)
        life = self._loop.create_task(sessions.live())
        life.add_done_callback(self._life_ended)
        return Parts(
            broker, gateway, fetchers, channel, links, journal, controller, disk, sessions, doing, life
        )

    @property
    def journal_directory(self) -> str:
        return self.settings.odradek_journal_dir or self.settings.log_directories[0]

    def _open_journal_directory(self, logs: LogManager) -> Directory:
        try:
            return self._open_directory(self.journal_directory)
        except StorageError:
            if self.settings.odradek_journal_dir:
                raise
        # That log directory is left out; another one is served.
        return self._open_directory(next(found.path for found in logs.directories if found.is_online))

    def _make_connection(self, listener: str, protocol: str) -> asyncio.BaseProtocol:
        if self.parts is None:
            return _TooEarly()
        return self.parts.gateway.make_connection(listener, protocol)

    # --- what happens by itself

    def _life_ended(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled():
            error = task.exception()
            assert error is not None, "sessions follow each other for ever"
            self._break(error)

    def _break(self, error: BaseException) -> None:
        """Nothing that we foresaw; the broker stops rather than going on with what it cannot trust."""
        if not self.broken.done():
            self.broken.set_result(error)

    def _log_flushed(self, effect: effects.FlushLog, error: str | None) -> None:
        parts = self._whole()
        parts.broker.answered(effect.request_id, effects.Flushed(effect.plan, error), self._now_ms())
        parts.gateway.end_turn()

    def _term_changed(self, epoch: ControllerEpoch | None) -> None:
        self.broker.controller_status(epoch is not None, -1 if epoch is None else epoch, self._now_ms())

    def _high_watermarks(self) -> dict[TopicPartition, int]:
        return {tp: partition.high_watermark for tp, partition in self.broker.replicas.partitions.items()}

    def _high_watermark_of(self, log: PartitionLog) -> int | None:
        partition = self.broker.replicas.partitions.get(log.topic_partition)
        return None if partition is None else partition.high_watermark

    def _log_start_moved(self, log: PartitionLog) -> None:
        """By retention."""
        parts = self._whole()
        partition = parts.broker.replicas.partitions.get(log.topic_partition)
        if partition is not None and partition.log is log:
            partition.log_start_moved(self._now_ms())
            parts.gateway.end_turn()

    def _other_replicas_of(self, log: PartitionLog) -> list[BrokerId] | None:
        partition = self.broker.replicas.partitions.get(log.topic_partition)
        if partition is None:
            return None
        return [broker for broker in partition.assignment.replicas if broker != self.broker_id]

    def _housekeep(self, disk: LogMaintenance, channel: ControllerChannel, gateway: Gateway) -> None:
        if self._is_stopping:
            return
        self._housekeeping = self._loop.call_later(HOUSEKEEPING_S, self._housekeep, disk, channel, gateway)
        self._environment.clock.compare_with_wall()
        disk.housekeep()
        channel.expire_waiting()
        gateway.end_turn()

    # --- stopping

    def hurry(self) -> None:
        """Somebody asked twice: leadership is handed over as far as it is."""
        self._hurry.set()

    async def stop(self, *, is_controlled: bool = True) -> None:
        """Hands leadership over, then closes everything in the order in which nothing is lost. Works from any
        state. ShutdownRefused: it does not stop (`odradek.controlled.shutdown.refuse`), and goes on as before.
        """
        if is_controlled:
            self._is_leaving = True
            try:
                await self._leave_in_order()
            except ShutdownRefused:
                self._is_leaving = False
                raise
        self._stop_moving()
        parts = self.parts
        if parts is not None:
            parts.broker.stopping(self._now_ms())
            parts.gateway.end_turn()
            parts.gateway.close()
            parts.life.cancel()
            await asyncio.wait({parts.life})
            parts.effects.cancel_questions()
            await parts.journal.finish()
            parts.journal.close()
            await parts.disk.finish()
            await self._environment.aside_ended()
            await self._close_logs(parts)
        elif self._logs is not None:
            self._logs.release()
        store = self.store
        if store is not None and store.state is not api.SessionState.EXPIRED:
            # Last: as long as our node is there, nobody takes our place on these directories.
            try:
                await store.close()
            except api.StoreError as error:
                logger.warning("the session with the store could not be closed: %s", error)
        await self._stores.close()
        if parts is not None:  # else it never began, and the reason is all there is to say
            await parts.gateway.drained()
            logger.info("broker %d has stopped", self.broker_id)

    async def _leave_in_order(self) -> None:
        parts = self.parts
        registration = self.registration
        if parts is None or registration is None or not parts.sessions.is_registered.done():
            return
        broker, sessions = parts.broker, parts.sessions
        settings = broker.settings
        if not settings.controlled_shutdown_enable:
            return
        warn_of_only_replicas(broker)
        may_refuse = settings.odradek_controlled_shutdown_refuse != "none"
        promised: Promised = frozenset()
        try:
            if may_refuse:
                promised = await agree(
                    lambda: sessions.store,
                    lambda: parts.controller.core,
                    settings,
                    self.broker_id,
                    self._hurry,
                    self._environment.run_aside,
                )
            if await hand_over(
                parts.channel,
                self._environment,
                settings,
                self.broker_id,
                lambda: (sessions.registration or registration).epoch,
                self._hurry,
            ):
                short = await fell_under_min(
                    sessions.store,
                    parts.controller.core,
                    settings,
                    self.broker_id,
                    promised,
                    self._environment.run_aside,
                )
                if short is None:
                    return
                sessions.register_again(f"{short}, so this broker stays")
                raise ShutdownRefused(f"broker {self.broker_id} stays up: {short}")
            if may_refuse and not self._hurry.is_set():
                # The controller takes us for one that leaves: nobody would elect us any more.
                sessions.register_again("leadership could not be handed over, so this broker stays")
                raise ShutdownRefused(
                    f"broker {self.broker_id} stays up: leadership could not be handed over"
                )
        except ShutdownRefused:
            self._hurry.clear()
            raise
        logger.warning("broker %d stops although it may still lead partitions", self.broker_id)

    def _stop_moving(self) -> None:
        self._is_stopping = True
        self._listeners.close()
        if self.metrics_listener is not None:
            self.metrics_listener.close()
        if self.parts is not None:
            self.parts.fetchers.stop_all()
            self.parts.channel.close()
            self.parts.links.close()
            self.parts.effects.stop_moving()
        if self._housekeeping is not None:
            self._housekeeping.cancel()

    async def _close_logs(self, parts: Parts) -> None:
        logs = self.logs
        epoch = -1 if self.registration is None else self.registration.epoch
        parts.broker.close(self._now_ms())
        try:
            await self._environment.run_blocking(self._close_cleanly, logs, self._high_watermarks(), epoch)
        except StorageError as error:
            logger.error("the log directories could not be closed in order: %s", error)
            logs.release()

    @staticmethod
    def _close_cleanly(logs: LogManager, high_watermarks: Mapping[TopicPartition, int], epoch: int) -> None:
        logs.close(high_watermarks, broker_epoch=epoch)

    def crash(self) -> None:
        """What `kill -9` does, for several brokers in one process: nothing is closed, nothing more is said."""
        self._stop_moving()
        self._environment.abandon_cleaning()
        if self.parts is not None:
            self.parts.gateway.abort()
            self.parts.life.cancel()
            self.parts.journal.close()
            self.parts.effects.cancel_questions()
        if self._logs is not None:
            self._logs.release()
