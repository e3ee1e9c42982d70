"""Several brokers in this process, on a loop of their own in a thread: quick to start, for tests of other code.

    with running_cluster(brokers=3) as cluster:
        producer = Producer({"bootstrap.servers": cluster.bootstrap})

They are whole brokers with real sockets and real files; only the store is in memory and shared. `kill` is what
`kill -9` does to one of them, as far as the others and the clients can tell.
"""

import asyncio
import contextlib
import socket
import tempfile
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from odradek.model.settings import BrokerSettings
from odradek.server.broker_runtime import BrokerRuntime
from odradek.server.environment import Environment
from odradek.store.api import StoreProvider
from odradek.store.memory_session import MemoryEnsemble, MemorySession
from odradek.testing import inherited
from odradek.testing.checked import checked_directory, checked_settings

T = TypeVar("T")
START_S = 60.0


class _Environment(Environment):
    """Of a process that lives longer than its brokers: what they made is garbage when they end, so none of it may be
    kept from the collector of cycles."""

    def making_what_stays(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()


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
        self._ports: dict[int, int] = {}
        self._held: list[socket.socket] = []
        self._environments: list[Environment] = []
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
        assert broker_id not in self.runtimes, f"broker {broker_id} runs already"
        if broker_id not in self._ports:
            self._ports[broker_id] = self._reserve_port()
        inherited.running.add(self)
        environment = _Environment(asyncio.get_running_loop())
        self._environments.append(environment)
        runtime = BrokerRuntime(self.settings_of(broker_id), environment, self.stores)
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
        expected = set(self.runtimes)
        return all(
            expected <= set(runtime.broker.metadata.brokers)
            and runtime.broker.metadata.controller_id in expected
            for runtime in self.runtimes.values()
        )

    async def until(self, holds: Callable[[], bool], what: str, deadline_s: float = 30.0) -> None:
        try:
            async with asyncio.timeout(deadline_s):
                while not holds():
                    await asyncio.sleep(0.002)
        except TimeoutError:
            raise AssertionError(f"not within {deadline_s:g} s: {what}") from None

    async def kill_broker(self, broker_id: int) -> None:
        """Nothing is closed in order; the store gives its session up, as it does when a process dies."""
        runtime = self._taken(broker_id)
        session = runtime.store
        runtime.crash()
        if isinstance(session, MemorySession):
            self.ensemble.expire(session.session_id)
        elif session is not None:
            await session.close()  # of a process that dies the store hears by itself; this one lives on

    async def stop_broker(self, broker_id: int) -> None:
        await self._taken(broker_id).stop()

    def _taken(self, broker_id: int) -> BrokerRuntime:
        running = ", ".join(map(str, sorted(self.runtimes))) or "none"
        assert broker_id in self.runtimes, f"broker {broker_id} does not run; there run {running}"
        return self.runtimes.pop(broker_id)

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
            inherited.running.discard(self)
            while self._held:
                self._held.pop().close()
            while self._environments:
                self._environments.pop().close()


class RunningCluster:
    """A LocalCluster on a loop in another thread, with blocking calls."""

    def __init__(self, cluster: LocalCluster, loop: asyncio.AbstractEventLoop) -> None:
        self.cluster = cluster
        self._loop = loop

    @property
    def bootstrap(self) -> str:
        return self.cluster.bootstrap

    def call(self, work: Coroutine[Any, Any, T], deadline_s: float = 60.0) -> T:
        """Runs it on the brokers' loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(deadline_s)

    def kill(self, broker_id: int) -> None:
        self.call(self.cluster.kill_broker(broker_id))

    def stop_in_order(self, broker_id: int) -> None:
        """A controlled shutdown."""
        self.call(self.cluster.stop_broker(broker_id))

    def start(self, broker_id: int) -> None:
        self.call(self.cluster.start_broker(broker_id))


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
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever, name="odradek-cluster", daemon=True)
        thread.start()
        running = RunningCluster(cluster, loop)
        starting = asyncio.run_coroutine_threadsafe(cluster.start(), loop)
        try:
            starting.result(START_S)
            yield running
        finally:
            starting.cancel()  # where Ctrl-C or a time limit of the test came first
            try:
                running.call(cluster.stop())
            finally:
                loop.call_soon_threadsafe(loop.stop)
                thread.join()
                loop.close()
