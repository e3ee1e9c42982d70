"""Several brokers in this process, on a loop of their own in a thread: quick to start, for tests of other code.

    with running_cluster(brokers=3) as cluster:
        producer = Producer({"bootstrap.servers": cluster.bootstrap})

They are whole brokers with real sockets and real files; only the store is in memory and shared. `kill` is what
`kill -9` does to one of them, as far as the others and the clients can tell.
"""

import asyncio
import concurrent.futures
import contextlib
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

from odradek.model.errors import ConfigurationError
from odradek.model.ids import BrokerId, TopicPartition
from odradek.model.settings import BrokerSettings
from odradek.replication.followed import LATER
from odradek.replication.follower import FollowerFetcher
from odradek.replication.followers import NEVER_MS
from odradek.replication.partition import Partition
from odradek.server.broker_runtime import BrokerRuntime
from odradek.server.environment import Clock, Environment, Handle
from odradek.store.api import SessionState, Store, StoreProvider
from odradek.store.memory_session import MemoryEnsemble, MemorySession
from odradek.testing import inherited
from odradek.testing.administration import Administered
from odradek.testing.checked import checked_directory, checked_settings
from odradek.testing.held_links import BrokerLoop, Links
from odradek.testing.injections import Injection, Injections, Intercepted

T = TypeVar("T")
START_S = 60.0
FURTHEST_S = 100 * 365 * 86_400.0  # of one `advance`
FOR_EVER_MS = LATER - 1


class ShiftedLoop(asyncio.SelectorEventLoop):
    """A loop whose time can be put forward: all that was to happen until then happens next."""

    ahead_s = 0.0

    def time(self) -> float:
        return super().time() + self.ahead_s


class _Environment(Environment):
    """Of a process that lives longer than its brokers: what they made is garbage when they end, so none of it may be
    kept from the collector of cycles."""

    def __init__(self, loop: asyncio.AbstractEventLoop, cluster: "LocalCluster", broker_id: int) -> None:
        super().__init__(cast(asyncio.AbstractEventLoop, BrokerLoop(loop, cluster.links, broker_id)))
        self._cluster = cluster
        self._broker_id = broker_id
        self.clock = Clock(loop.time, lambda: time.time() + getattr(loop, "ahead_s", 0.0))

    def intercepted(self, handle: Handle) -> Handle:
        return Intercepted(
            self._cluster.injections,
            self._broker_id,
            handle,
            self.loop,
            self.clock.now_ms,
            lambda: self._cluster.runtimes.get(self._broker_id),
        )

    def making_what_stays(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()


class _ReachedStores:
    """The store as one broker reaches it: one that is silent opens no session, so it is not registered anew before it is
    heard again."""

    def __init__(self, stores: StoreProvider, links: Links, broker_id: int) -> None:
        self._stores = stores
        self._links = links
        self._broker_id = broker_id

    async def open_session(self, session_timeout_ms: int) -> Store:
        await self._links.until_heard(self._broker_id)
        return await self._stores.open_session(session_timeout_ms)

    async def close(self) -> None:
        await self._stores.close()


class LocalCluster:
    """Use `running_cluster`, or `start` and `stop` inside a loop of your own."""

    def __init__(
        self,
        directory: Path,
        brokers: int,
        settings: Mapping[str, str] | None,
        stores: StoreProvider | None = None,
    ) -> None:
        self.settings = checked_settings(brokers, settings)
        self.directory = checked_directory(directory)
        self.ids = list(range(1, brokers + 1))
        self.ensemble = MemoryEnsemble()
        self.stores: StoreProvider = self.ensemble if stores is None else stores
        self.runtimes: dict[int, BrokerRuntime] = {}
        self.links = Links()
        self.injections = Injections()
        self._ends_of_sessions: dict[int, asyncio.TimerHandle] = {}  # of paused brokers
        self._ports: dict[int, int] = {}
        self._held: list[socket.socket] = []
        self._environments: dict[int, Environment] = {}  # of each broker's last life
        self._one_starts = asyncio.Lock()

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self._ports.values())

    @property
    def ports(self) -> set[int]:
        return set(self._ports.values())

    def settings_of(self, broker_id: int) -> BrokerSettings:
        return BrokerSettings(
            {
                "broker.id": str(broker_id),
                "listeners": f"PLAINTEXT://127.0.0.1:{self._ports.get(broker_id, 0)}",
                "log.dirs": str(self.directory / f"broker-{broker_id}"),
                "odradek.cluster.size": str(len(self.ids)),
                # Five seconds after the start leaders would go home by themselves: where a test is by then depends
                # on the machine.
                "auto.leader.rebalance.enable": "false",
                # `$broker` in a value is this broker's own name.
                **{
                    name: text.replace("$broker", f"broker-{broker_id}")
                    for name, text in self.settings.items()
                },
            }
        )

    async def start(self) -> None:
        for broker_id in self.ids:
            await self.start_broker(broker_id)
        await self.until(self.is_ready, "every broker knows all others and the controller")

    async def start_broker(self, broker_id: int) -> None:
        async with self._one_starts:
            await self._start_broker(broker_id)

    async def _start_broker(self, broker_id: int) -> None:
        if broker_id in self.runtimes:
            raise AssertionError(f"broker {broker_id} runs already")
        if broker_id not in self._ports:
            self._ports[broker_id] = self._reserve_port()
        inherited.running.add(self)
        former = self._environments.pop(broker_id, None)
        if former is not None:
            former.close()
        self.links.begins_anew(broker_id)
        environment = _Environment(asyncio.get_running_loop(), self, broker_id)
        self._environments[broker_id] = environment
        stores = _ReachedStores(self.stores, self.links, broker_id)
        runtime = BrokerRuntime(self.settings_of(broker_id), environment, stores)
        try:
            await runtime.start()
        except BaseException:
            await runtime.stop(is_controlled=False)
            raise
        self.runtimes[broker_id] = runtime
        self._ports[broker_id] = runtime.endpoints[0].port

    def _reserve_port(self) -> int:
        """Bound and not listening: the kernel gives it to no outgoing connection while its broker is down, and the
        broker may listen on it all the same."""
        held = socket.socket()
        self._held.append(held)
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])

    def is_ready(self) -> bool:
        members = self._members()
        return all(
            members.keys() <= set(runtime.broker.metadata.brokers)
            and runtime.broker.metadata.controller_id in members
            for runtime in members.values()
        )

    def _members(self) -> dict[int, BrokerRuntime]:
        """Those that run, but for paused ones which the store has given up."""
        return {
            broker_id: runtime
            for broker_id, runtime in self.runtimes.items()
            if not self.links.is_silent(broker_id) or _has_session(runtime)
        }

    async def until(self, holds: Callable[[], bool], what: str, deadline_s: float = 30.0) -> None:
        end = time.monotonic() + deadline_s  # not the loop's time, which may be put forward meanwhile
        while not holds():
            if time.monotonic() > end:
                raise AssertionError(f"not within {deadline_s:g} s: {what}")
            await asyncio.sleep(0.002)

    async def kill_broker(self, broker_id: int) -> None:
        """Nothing is closed in order; the store gives its session up, as it does when a process dies."""
        runtime = self._taken(broker_id)
        session = runtime.store
        runtime.crash()
        self._speaks_again(broker_id)  # or what a silent broker held back would leave before it dies
        if isinstance(session, MemorySession):
            self.ensemble.expire(session.session_id)
        elif session is not None:
            await session.close()  # of a process that dies the store hears by itself; this one lives on

    async def stop_broker(self, broker_id: int) -> None:
        self._running(broker_id)
        if self.links.is_silent(broker_id):
            raise AssertionError(f"broker {broker_id} is paused and hears nothing; resume or kill it")
        await self._taken(broker_id).stop()

    def _taken(self, broker_id: int) -> BrokerRuntime:
        self._running(broker_id)
        return self.runtimes.pop(broker_id)

    def _running(self, broker_id: int) -> BrokerRuntime:
        self.check_id(broker_id)
        running = ", ".join(map(str, sorted(self.runtimes))) or "none"
        if broker_id not in self.runtimes:
            raise AssertionError(f"broker {broker_id!r} does not run; there run {running}")
        return self.runtimes[broker_id]

    def check_id(self, broker_id: int) -> None:
        if broker_id not in self.ids:
            raise ConfigurationError(f"there is no broker {broker_id!r}; there are {self.ids}")

    def address(self, broker_id: int) -> str:
        return f"127.0.0.1:{self._ports[broker_id]}"

    # --- trouble

    async def pause_broker(self, broker_id: int, session_ends_after_s: float | None) -> None:
        runtime = self._running(broker_id)
        self.links.silence(broker_id)
        session = runtime.store
        if not isinstance(session, MemorySession):
            return
        session.disconnect()
        self._forget_end_of_session(broker_id)
        if session_ends_after_s is not None:
            self._ends_of_sessions[broker_id] = asyncio.get_running_loop().call_later(
                session_ends_after_s, self._give_up, session
            )

    def _give_up(self, session: MemorySession) -> None:
        if session.state is SessionState.SUSPENDED:
            session.give_up()
            self.ensemble.expire(session.session_id)

    async def resume_broker(self, broker_id: int) -> None:
        if broker_id not in self.runtimes:
            return  # it was killed meanwhile
        session = self.runtimes[broker_id].store
        if isinstance(session, MemorySession):
            session.connect()
        self._speaks_again(broker_id)

    def _speaks_again(self, broker_id: int) -> None:
        self._forget_end_of_session(broker_id)
        self.links.let_speak(broker_id)

    def _forget_end_of_session(self, broker_id: int) -> None:
        end = self._ends_of_sessions.pop(broker_id, None)
        if end is not None:
            end.cancel()

    async def leave_isr(self, about: TopicPartition, broker_id: int) -> None:
        self.check_id(broker_id)
        # Or what its controller tells it when it is back would have it follow anew.
        await self.until(
            lambda: self._is_told(broker_id),
            f"broker {broker_id} has heard from the controller what it has to do",
        )
        leader, partition = self._led(about)
        if broker_id not in partition.assignment.replicas:
            raise AssertionError(f"broker {broker_id} has no replica of {about}")
        if broker_id == leader:
            raise AssertionError(f"broker {broker_id} leads {about}; move the leader first")
        fetcher = self._fetcher(about, broker_id, leader)
        if fetcher is None:
            raise AssertionError(f"broker {broker_id} does not follow {about} yet")
        await self.until(
            lambda: fetcher.suspend(about, FOR_EVER_MS),
            f"broker {broker_id} fetches {about}, and can stop doing so",
        )
        await self.until(lambda: partition.is_isr_settled, f"no ISR of {about} is being written")
        follower = partition.followers[BrokerId(broker_id)]
        if follower.source is not None:
            partition.follower_left(follower.broker, follower.source)  # whose fetches would stand for it
        # Or the high watermark would wait for it, and it would be taken back at once.
        follower.last_caught_up_time_ms = follower.last_fetch_time_ms = NEVER_MS
        if broker_id in partition.isr:  # it may have left by itself, as after a silence
            partition.propose_without((BrokerId(broker_id),))
            self.runtimes[leader].end_turn()
        await self.until(
            lambda: partition.is_isr_settled and broker_id not in partition.isr,
            f"broker {broker_id} has left the ISR of {about}",
        )

    def _is_told(self, broker_id: int) -> bool:
        """Whether the controller, if it reaches this broker, knows of its present life and has told it all it has to."""
        told = self._running(broker_id)
        for controller, runtime in self.runtimes.items():
            if runtime.controller.is_leading and not self.links.is_shut(controller, broker_id):
                core, waiting = runtime.controller.core, runtime.controller.unanswered()
                return (
                    core is not None
                    and core.context is not None
                    and not core.is_writing
                    and _has_session(told)
                    and told.broker.broker_epoch in {r.epoch for r in core.context.registrations()}
                    and waiting.get(BrokerId(broker_id)) == 0
                )
        return True

    async def replicate_again(self, about: TopicPartition, broker_id: int) -> None:
        runtime = self.runtimes.get(broker_id)
        if runtime is None:
            return
        for fetcher in runtime.broker.replicas.fetchers.values():
            fetcher.resume(about, runtime.now_ms())
        runtime.broker.replicas.wake_fetcher(about)
        runtime.end_turn()

    def _led(self, about: TopicPartition) -> tuple[int, Partition]:
        for broker_id, runtime in self.runtimes.items():
            partition = runtime.broker.replicas.partitions.get(about)
            if partition is not None and partition.is_leader:
                return broker_id, partition
        raise AssertionError(f"nobody leads {about}")

    def _fetcher(self, about: TopicPartition, broker_id: int, leader: int) -> FollowerFetcher | None:
        fetcher = self._running(broker_id).broker.replicas.fetchers.get(BrokerId(leader))
        return fetcher if fetcher is not None and about in fetcher.partitions else None

    async def advance(self, loop: ShiftedLoop, ahead_s: float, deadline_s: float) -> None:
        before = self._isr_sizes()
        loop.ahead_s += ahead_s
        # What is over is found to be over first: until then the ISRs of before are still there.
        for _ in range(2):
            await asyncio.sleep(0)
        await self.until(
            lambda: self.is_ready() and all(self._isr_sizes().get(tp, 0) >= n for tp, n in before.items()),
            "every broker is ready, and every ISR as full as before",
            deadline_s,
        )

    def _isr_sizes(self) -> dict[TopicPartition, int]:
        """Of each partition that has a leader: a member that is gone, and one that its leader does not hear, will not be in the ISR
        again, if it is there yet."""
        members = self._members()
        return {
            topic_partition: sum(
                broker_id in members and not self.links.is_shut(leader, broker_id)
                for broker_id in partition.isr
            )
            for leader, runtime in members.items()
            for topic_partition, partition in runtime.broker.replicas.partitions.items()
            if partition.is_leader
        }

    async def stop(self) -> None:
        """All at once, so there is nobody to hand leadership over to, and no controller left that would try to tell
        those that are gone already. One that is just starting has started before, or has given up."""
        async with self._one_starts:
            await self._stop_all()

    async def _stop_all(self) -> None:
        running = [self.runtimes.pop(broker_id) for broker_id in sorted(self.runtimes)]
        try:
            async with asyncio.TaskGroup() as group:
                for runtime in running:
                    group.create_task(runtime.stop(is_controlled=False))
        finally:
            for broker_id in self.ids:
                self.links.let_speak(broker_id)  # or what they have closed would stay open
            inherited.running.discard(self)
            while self._held:
                self._held.pop().close()
            while self._environments:
                self._environments.popitem()[1].close()


def _has_session(runtime: BrokerRuntime) -> bool:
    return runtime.store is not None and runtime.store.state is not SessionState.EXPIRED


class RunningCluster(Administered):
    """A LocalCluster on a loop in another thread, with blocking calls: for one thread at a time."""

    def __init__(self, cluster: LocalCluster, loop: ShiftedLoop) -> None:
        self.cluster = cluster
        self._loop = loop

    @property
    def bootstrap(self) -> str:
        return self.cluster.bootstrap

    @property
    def controller(self) -> int | None:
        """Who is controller; None: nobody at the moment."""
        found = [b for b, runtime in list(self.cluster.runtimes.items()) if runtime.controller.is_leading]
        return found[0] if found else None

    def _answering(self) -> list[str]:
        """First those that the controller reaches: the others do not hear what becomes of the cluster."""
        cluster, links, controller = self.cluster, self.cluster.links, self.controller
        heard = [b for b in list(cluster.runtimes) if not links.is_silent(b)]
        return [cluster.address(b) for b in sorted(heard, key=lambda b: links.is_shut(b, controller))]

    def call(self, work: Coroutine[Any, Any, T], deadline_s: float = 60.0) -> T:
        """Runs it on the brokers' loop. TimeoutError names what was not done; it goes on."""
        if self._loop.is_closed():
            work.close()
            raise ConfigurationError("the cluster has ended, and its brokers with it")
        return _result(asyncio.run_coroutine_threadsafe(work, self._loop), deadline_s, work)

    def _in_loop(self, do: Callable[[], T]) -> T:
        async def done() -> T:
            return do()

        return self.call(done())

    # --- brokers that come and go

    def kill(self, broker_id: int) -> None:
        self.call(self.cluster.kill_broker(broker_id))

    def stop_in_order(self, broker_id: int) -> None:
        """A controlled shutdown."""
        self.call(self.cluster.stop_broker(broker_id))

    def start(self, broker_id: int) -> None:
        self.cluster.check_id(broker_id)
        self.call(self.cluster.start_broker(broker_id))

    # --- silence

    def pause(self, broker_id: int, *, session_ends_after_s: float | None = 0.0) -> None:
        """As SIGSTOP looks from outside: it answers nobody and hears nobody, clients, brokers and store, and its connections
        stay open. The store gives its session up after `session_ends_after_s`; None: not at all. `resume` ends it.

        Its clock and its timers run on; where they must not, `ProcessCluster.pause` stops a real process.
        """
        self.call(self.cluster.pause_broker(broker_id, session_ends_after_s))

    def resume(self, broker_id: int) -> None:
        """What was sent meanwhile arrives."""
        self.cluster.check_id(broker_id)
        self.call(self.cluster.resume_broker(broker_id))

    @contextlib.contextmanager
    def paused(self, broker_id: int, *, session_ends_after_s: float | None = 0.0) -> Iterator[None]:
        self.pause(broker_id, session_ends_after_s=session_ends_after_s)
        try:
            yield
        finally:
            self.resume(broker_id)

    @contextlib.contextmanager
    def partition(self, ones: Iterable[int], others: Iterable[int] | None = None) -> Iterator[None]:
        """Brokers `ones` and `others` (None: all the rest) hear nothing of each other while it lasts. Clients and the store
        reach all of them."""
        ones = self._known(ones)
        rest = [b for b in self.cluster.ids if b not in ones]
        there = rest if others is None else self._known(others)
        links = self.cluster.links
        self._in_loop(lambda: links.cut(ones, there))
        try:
            yield
        finally:
            self._in_loop(lambda: links.heal(ones, there))

    def _known(self, brokers: Iterable[int]) -> list[int]:
        found = list(brokers)
        for broker in found:
            self.cluster.check_id(broker)
        return found

    # --- what is done to a partition

    @contextlib.contextmanager
    def shrink_isr(self, topic: str, partition: int = 0, *, without: int) -> Iterator[None]:
        """Broker `without` does not replicate the partition while it lasts, and is not in its ISR. For as long as its leader
        leads: who leads next is followed as ever."""
        about = TopicPartition(topic, partition)
        try:
            self.call(self.cluster.leave_isr(about, without))
            yield
        finally:
            self.call(self.cluster.replicate_again(about, without))

    # --- time

    def advance(
        self, *, days: float = 0, hours: float = 0, seconds: float = 0, deadline_s: float = 60.0
    ) -> None:
        """So much time passes for all brokers at once, as on a machine that slept: records are older by so much, and every
        deadline in between is over (sessions of consumers and transactions too; their clients begin anew). Returns when
        every broker is ready and every ISR as full as before.

        Clients keep their clock: what they produce from now on with a time of their own is as old as the brokers are ahead.
        """
        ahead_s = days * 86_400 + hours * 3600 + seconds
        if not 0 < ahead_s <= FURTHEST_S:
            raise ConfigurationError(
                f"advance: {ahead_s:g} s; time only goes forward, and by 100 years at most"
            )
        self.call(self.cluster.advance(self._loop, ahead_s, deadline_s), deadline_s + 5)

    # --- faults

    def inject(
        self,
        api: str,
        *,
        error: str | None = None,
        close: bool = False,
        delay_s: float = 0.0,
        after: bool = False,
        broker: int | None = None,
        client_id: str | None = None,
        topic: str | None = None,
        partition: int | None = None,
        skip: int = 0,
        times: int | None = None,
        share: float = 1.0,
        seed: int = 0,
    ) -> Injection:
        """What clients hear when they send this `api`, by Kafka's name of it ("Produce"): `error` instead of an answer, a
        connection that is closed, an answer that is late, or a late error.

        Without `after` the broker does not do what was asked (reads excepted, whose answer is changed). With it the broker
        does, and the client does not hear of it. `topic` and `partition` leave the rest of a request alone. Of the requests
        that fit, the first `skip` pass, then `times` are met (None: all), or a `share` of them drawn by `seed`.
        """
        if broker is not None:
            self.cluster.check_id(broker)
        return self.cluster.injections.add(
            Injection(
                self.cluster.injections,
                api,
                error=error,
                close=close,
                delay_s=delay_s,
                after=after,
                broker=broker,
                client_id=client_id,
                topic=topic,
                partition=partition,
                skip=skip,
                times=times,
                share=share,
                seed=seed,
            )
        )


def _result(work: "concurrent.futures.Future[T]", deadline_s: float, what: object) -> T:
    try:
        return work.result(deadline_s)
    except TimeoutError:
        if work.done():
            raise  # its own
        name = getattr(what, "__qualname__", str(what))
        raise TimeoutError(f"{name}: not done within {deadline_s:g} s") from None


@contextlib.contextmanager
def running_cluster(
    *,
    brokers: int = 3,
    settings: Mapping[str, str] | None = None,
    directory: str | Path | None = None,
    stores: StoreProvider | None = None,
) -> Iterator[RunningCluster]:
    with contextlib.ExitStack() as stack:
        if directory is None:
            directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="odradek-"))
        cluster = LocalCluster(Path(directory), brokers, settings, stores)
        loop = ShiftedLoop()
        thread = threading.Thread(target=loop.run_forever, name="odradek-cluster", daemon=True)
        thread.start()
        running = RunningCluster(cluster, loop)
        starting = asyncio.run_coroutine_threadsafe(cluster.start(), loop)
        try:
            _result(starting, START_S, cluster.start)
            yield running
        finally:
            starting.cancel()  # where Ctrl-C or a time limit of the test came first
            try:
                running.call(cluster.stop())
            finally:
                loop.call_soon_threadsafe(loop.stop)
                thread.join()
                loop.close()
