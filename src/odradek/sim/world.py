"""A whole cluster in one seed: production brokers on the deterministic loop, over simulated disks, network and store.

The world starts, kills, pauses, cuts and heals; it never reaches into a broker to change it. What it reads from
brokers (`view`) goes to the checkers alone.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from odradek.log.files import Directory
from odradek.log.memory_files import MemoryDisk
from odradek.model.errors import OdradekError
from odradek.model.ids import BrokerId, TopicPartition
from odradek.model.settings import BrokerSettings
from odradek.records.batch import iter_batches
from odradek.server.broker_runtime import BrokerRuntime
from odradek.server.seams import Clock, Seams
from odradek.sim.checkers.replicas import BatchView, ClusterView, PartitionView, ReplicaView
from odradek.sim.loop import NOBODY, Host, SimLoop
from odradek.sim.network import Network
from odradek.sim.store import SimStore, StoreLink
from odradek.store import layout
from odradek.store.fields import Unreadable

PORT = 9092
# The simulated wall clock begins here: 2026-01-01.
EPOCH_S = 1_767_225_600.0

DEFAULT_SETTINGS = {
    "offsets.topic.num.partitions": "4",
    "zookeeper.session.timeout.ms": "6000",
    "replica.lag.time.max.ms": "10000",
    "log.segment.bytes": "65536",
    "log.index.interval.bytes": "512",
}


class NotInTime(OdradekError):
    """The simulated deadline passed."""


class SimSeams(Seams):
    """The simulator's time, randomness and blocking work for one host."""

    def __init__(self, world: "World", name: str) -> None:
        self.loop = world.loop
        self._world = world
        self._name = name
        self.clock = Clock(
            world.loop.time, lambda: EPOCH_S + world.loop.time() + world.clock_offsets.get(name, 0.0)
        )
        self.process_id = 1000 + world.starts

    def random_bytes(self, count: int) -> bytes:
        return self._world.loop.random.randbytes(count)

    def run_blocking(self, function: Callable[..., Any], *args: Any) -> "asyncio.Future[Any]":
        return self.loop.run_in_executor(None, function, *args)

    def close(self) -> None:
        """No thread was started."""


class SimBroker:
    """One broker of the world: its disk stays, its process comes and goes."""

    def __init__(self, world: "World", broker_id: int) -> None:
        self.world = world
        self.broker_id = BrokerId(broker_id)
        self.name = f"b{broker_id}"
        self.disk = MemoryDisk(f"/{self.name}")
        self.host: Host | None = None
        self.link: StoreLink | None = None
        self.runtime: BrokerRuntime | None = None
        self.exit_reason: BaseException | None = None
        self._starts = 0

    @property
    def is_running(self) -> bool:
        return self.host is not None and self.host.is_alive

    @property
    def is_serving(self) -> bool:
        return self.runtime is not None and self.runtime._broker is not None

    @property
    def is_controller(self) -> bool:
        return self.is_serving and self.runtime is not None and self.runtime.broker.is_controller

    @property
    def leads_something(self) -> bool:
        if not self.is_serving or self.runtime is None:
            return False
        return any(p.is_leader for p in self.runtime.broker.replicas.partitions.values())

    def settings(self) -> BrokerSettings:
        return BrokerSettings(
            {
                "broker.id": str(self.broker_id),
                "listeners": f"PLAINTEXT://{self.name}:{PORT}",
                "log.dirs": f"/{self.name}",
                "odradek.cluster.size": str(len(self.world.brokers)),
                **DEFAULT_SETTINGS,
                **self.world.settings,
            }
        )

    def open_directory(self, path: str) -> Directory:
        directory: Any = self.disk.root
        for part in path.removeprefix(f"/{self.name}").split("/"):
            if part:
                directory = directory.make(part) if not directory.exists(part) else directory.child(part)
        return directory  # type: ignore[no-any-return]

    def start(self) -> None:
        assert not self.is_running, f"{self.name} runs already"
        world = self.world
        self._starts += 1
        world.starts += 1
        self.exit_reason = None
        host = self.host = Host(self.name, int(self.broker_id), self._starts)
        self.link = world.store.link_for(host)
        if self.name in world.cut_from_store:
            self.link.is_cut = True
        world.note(f"start {host}")
        world.spawn(host, self._run(host))

    async def _run(self, host: Host) -> None:
        """The life of one process."""
        assert self.link is not None
        try:
            runtime = BrokerRuntime(
                self.settings(),
                SimSeams(self.world, self.name),
                self.link,
                open_directory=self.open_directory,
            )
            self.runtime = runtime
            await runtime.start()
            error: BaseException = await runtime.broken
        except Exception as caught:
            error = caught
        if self.host is host and host.is_alive:
            # Whoever watches over the process starts it again.
            self.world.note(f"{host} stopped: {type(error).__name__}: {error}")
            self.exit_reason = error
            self._process_ended(host, at_once=True)
            self.world.broker_stopped(self, error)

    def kill(self, *, power_cut: bool = False, at_once: bool | None = None) -> None:
        """kill -9; with `power_cut` what was not synced is lost as well."""
        host = self.host
        assert host is not None and host.is_alive
        self.world.note(f"{'power cut' if power_cut else 'kill'} {host}")
        self._process_ended(host, at_once=self.world.store_notices_death if at_once is None else at_once)
        if power_cut:
            random = self.world.loop.random
            self.disk.power_cut(lambda count: int(random.random() * count))

    def wipe_disk(self) -> None:
        """Another, empty disk. Until the ISR has been told, no invariant can hold of what was on it."""
        self.disk.wipe()
        for partition, state in self.world.view(with_batches=False).partitions.items():
            if state.stored is not None and self.broker_id in state.stored.isr:
                self.world.excused[(self.broker_id, partition)] = state.stored.partition_epoch

    def _process_ended(self, host: Host, *, at_once: bool) -> None:
        host.kill()
        self.world.network.host_killed(host)
        assert self.link is not None
        self.link.host_killed(at_once=at_once)
        self.runtime = None
        self.disk.restart()

    def stop(self) -> None:
        """SIGTERM: a controlled shutdown."""
        host, runtime = self.host, self.runtime
        assert host is not None and runtime is not None

        async def stop() -> None:
            await runtime.stop()
            if self.host is host and host.is_alive:
                self.world.note(f"{host} stopped in order")
                self._process_ended(host, at_once=True)
                for callback in self.world.waiting_for_stop.pop(self.name, []):
                    callback()

        self.world.note(f"terminate {host}")
        self.world.spawn(host, stop())

    def pause(self, seconds: float) -> None:
        """SIGSTOP, and SIGCONT after `seconds`."""
        assert self.host is not None and self.link is not None
        self.world.note(f"pause {self.host} for {seconds:.3f} s")
        self.host.paused_until = self.world.loop.time() + seconds
        self.link.host_paused(seconds)


class World:
    """See the module."""

    def __init__(
        self,
        seed: int,
        *,
        brokers: int = 3,
        settings: Mapping[str, str] | None = None,
        store_notices_death: bool = True,
    ) -> None:
        self.seed = seed
        self.loop = SimLoop(seed)
        self.network = Network(self.loop)
        self.store = SimStore(self.loop)
        self.settings = dict(settings or {})
        self.store_notices_death = store_notices_death
        self.clock_offsets: dict[str, float] = {}
        self.cut_from_store: dict[str, None] = {}
        self.starts = 0
        self.notes: list[tuple[float, str]] = []
        # (broker, partition) whose disk was taken away -> partition epoch of the ISR that still counts on it
        self.excused: dict[tuple[BrokerId, TopicPartition], int] = {}
        self.waiting_for_stop: dict[str, list[Callable[[], None]]] = {}
        self.on_broker_stopped: list[Callable[[SimBroker, BaseException], None]] = []
        self.brokers: dict[BrokerId, SimBroker] = {}
        for broker_id in range(1, brokers + 1):
            self.brokers[BrokerId(broker_id)] = SimBroker(self, broker_id)

    # --- running

    def note(self, text: str) -> None:
        self.notes.append((self.loop.time(), text))

    def spawn(self, host: Host, work: Coroutine[Any, Any, Any]) -> None:
        """Starts a task of `host` at the loop's next turn."""
        context = self.loop.context_of(host).copy()
        self.loop.call_soon(lambda: self.loop.create_task(work, context=context), context=context)

    def call(self, host: Host, work: Coroutine[Any, Any, Any], within_s: float = 60.0) -> Any:
        """Runs the loop until `work` of `host` is done."""
        context = self.loop.context_of(host).copy()
        done: list[asyncio.Task[Any]] = []
        self.loop.call_soon(
            lambda: done.append(self.loop.create_task(work, context=context)), context=context
        )
        end = self.loop.time() + within_s
        self.loop.run_until(end, stop=lambda: bool(done) and done[0].done())
        if not (done and done[0].done()):
            raise NotInTime(f"{work.__qualname__} did not finish within {within_s:g} simulated seconds")
        return done[0].result()

    def run_for(self, seconds: float) -> None:
        self.loop.run_until(self.loop.time() + seconds)

    def run_while(self, waiting: Callable[[], bool], within_s: float, what: str) -> None:
        end = self.loop.time() + within_s
        self.loop.run_until(end, stop=lambda: not waiting())
        if waiting():
            raise NotInTime(f"not within {within_s:g} simulated seconds: {what}")

    def start(self) -> None:
        for broker in self.brokers.values():
            broker.start()
        self.run_while(lambda: not self.is_ready(), 60.0, "every broker knows all others and the controller")

    def is_ready(self) -> bool:
        running = [b for b in self.brokers.values() if b.is_running]
        expected = {int(b.broker_id) for b in running}
        for broker in running:
            runtime = broker.runtime
            if runtime is None or runtime._broker is None:
                return False
            metadata = runtime.broker.metadata
            if not expected <= set(metadata.brokers) or metadata.controller_id not in expected:
                return False
        return bool(running)

    def when_stopped(self, broker: SimBroker, callback: Callable[[], None]) -> None:
        self.waiting_for_stop.setdefault(broker.name, []).append(callback)

    def world_context(self) -> Any:
        return self.loop.context_of(NOBODY)

    def is_everybody_well(self) -> bool:
        """Every broker runs, is not stopped in mid-air, and is registered in this life of its."""
        now = self.loop.time()
        registered = self.registered()
        return all(
            broker.runtime is not None
            and broker.runtime.registration is not None
            and broker.host is not None
            and broker.host.paused_until <= now
            and broker.name not in self.cut_from_store
            and registered.get(broker.broker_id) == broker.runtime.registration.epoch
            for broker in self.brokers.values()
        )

    def registered(self) -> dict[BrokerId, int]:
        """Broker -> the epoch it is registered with."""
        found = {}
        for path, node in self.store.ensemble.tree.walk(layout.BROKER_IDS):
            name = path.rsplit("/", 1)[-1]
            if name.isdigit():
                found[BrokerId(int(name))] = node.stat.czxid
        return found

    def is_everything_in_sync(self) -> bool:
        """Every stored ISR is the whole assignment, each member in its present life."""
        registered = self.registered()
        partitions = self.view(with_batches=False).partitions
        for partition, seen in partitions.items():
            path = layout.state_path(partition)
            found = next(iter(self.store.ensemble.tree.walk(path)), None)
            if found is None:
                return False
            node = found[1]
            stored = layout.decode_partition_state(path, node.data, node.stat.version)
            state = stored.leader_and_isr
            if state.leader < 0 or set(state.isr) != set(seen.assignment):
                return False
            if stored.isr_broker_epochs != tuple(registered.get(member) for member in state.isr):
                return False
        return True

    def broker_stopped(self, broker: SimBroker, error: BaseException) -> None:
        for callback in self.on_broker_stopped:
            callback(broker, error)

    # --- cutting and healing

    def cut(self, source: str, target: str) -> None:
        self.note(f"cut {source} -> {target}")
        self.network.cut(source, target)

    def heal(self, source: str, target: str) -> None:
        self.note(f"heal {source} -> {target}")
        self.network.heal(source, target)

    def cut_store(self, broker: SimBroker) -> None:
        self.note(f"cut {broker.name} -> store")
        self.cut_from_store[broker.name] = None
        if broker.link is not None:
            broker.link.cut()

    def heal_store(self, broker: SimBroker) -> None:
        if broker.name in self.cut_from_store:
            self.note(f"heal {broker.name} -> store")
            del self.cut_from_store[broker.name]
            if broker.link is not None:
                broker.link.heal()

    def heal_all(self) -> None:
        """Everything works again, and everybody runs."""
        self.note("heal everything")
        self.network.heal_all()
        for broker in self.brokers.values():
            self.heal_store(broker)
            broker.disk.heal()
        self.store.is_down = False
        self.store.lost_answer_probability = self.store.lost_call_probability = 0.0
        for broker in self.brokers.values():
            if broker.host is not None and broker.host.paused_until > self.loop.time():
                broker.host.paused_until = self.loop.time()
            if not broker.is_running:
                broker.start()

    # --- looking

    def view(self, *, with_batches: bool = True) -> ClusterView:
        """A snapshot for the checkers. Dead brokers are shown by what they last had, alive or not."""
        stored: dict[TopicPartition, Any] = {}
        assignments: dict[TopicPartition, tuple[BrokerId, ...]] = {}
        for path, node in self.store.ensemble.tree.walk("/brokers/topics"):
            parts = path.split("/")
            try:
                if len(parts) == 7 and parts[6] == "state":
                    partition = TopicPartition(parts[3], int(parts[5]))
                    stored[partition] = layout.decode_partition_state(
                        path, node.data, node.stat.version
                    ).leader_and_isr
                elif len(parts) == 4:
                    topic = layout.decode_topic(parts[3], node)
                    for number, assignment in topic.partitions.items():
                        assignments[TopicPartition(parts[3], number)] = assignment.replicas
            except Unreadable:
                continue
        for (broker_id, partition), epoch in list(self.excused.items()):
            state = stored.get(partition)
            if state is None or (
                state.partition_epoch != epoch and not self._is_counted_on(broker_id, partition, state)
            ):
                del self.excused[(broker_id, partition)]
        replicas: dict[TopicPartition, list[ReplicaView]] = {p: [] for p in assignments}
        metadata: dict[tuple[BrokerId, TopicPartition], tuple[int, int]] = {}
        controllers: list[tuple[BrokerId, int]] = []
        cached: dict[TopicPartition, Any] = {}
        for broker in self.brokers.values():
            runtime = broker.runtime
            if not broker.is_running or runtime is None or runtime._broker is None:
                continue
            for partition, replica in runtime.broker.replicas.partitions.items():
                if partition in replicas and (broker.broker_id, partition) not in self.excused:
                    with broker.disk.undisturbed():
                        seen = replica_view(broker.broker_id, replica, with_batches=with_batches)
                    replicas[partition].append(seen)
            for partition in replicas:
                known = runtime.broker.metadata.partition(partition.topic, partition.partition)
                if known is not None:
                    metadata[(broker.broker_id, partition)] = (known.leader, known.leader_epoch)
            term = runtime.controller._term
            if term is not None:
                controllers.append((broker.broker_id, term.epoch))
        return ClusterView(
            partitions={
                partition: PartitionView(
                    tuple(replicas[partition]),
                    stored.get(partition),
                    cached.get(partition),
                    assignments[partition],
                )
                for partition in sorted(assignments)
            },
            controllers=tuple(controllers),
            live_brokers=tuple(b.broker_id for b in self.brokers.values() if b.is_running),
            metadata=metadata,
        )

    def _is_counted_on(self, broker_id: BrokerId, partition: TopicPartition, stored: Any) -> bool:
        """A leader that has not heard of its successor yet has the broker in the ISR it believes in."""
        for broker in self.brokers.values():
            if broker.is_running and broker.is_serving and broker.runtime is not None:
                replica = broker.runtime.broker.replicas.partitions.get(partition)
                if (
                    replica is not None
                    and replica.is_leader
                    and replica.leader_epoch < stored.leader_epoch
                    and broker_id in replica.state.maximal_isr
                ):
                    return True
        return False


def replica_view(broker: BrokerId, replica: Any, *, with_batches: bool) -> ReplicaView:
    log = replica.log
    return ReplicaView(
        broker=broker,
        is_alive=True,
        is_leader=replica.is_leader,
        leader_epoch=replica.leader_epoch,
        log_start_offset=log.log_start_offset,
        log_end_offset=log.log_end_offset,
        high_watermark=replica.high_watermark,
        isr=replica.state.isr,
        maximal_isr=replica.state.maximal_isr,
        batches=batches_of(log) if with_batches else (),
    )


def batches_of(log: Any) -> tuple[BatchView, ...]:
    found: list[BatchView] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        read = log.read(offset, max_bytes=1 << 20, upper_bound_offset=log.log_end_offset, min_one_batch=True)
        data = b"".join(piece.read() for piece in read.slices)
        if not data:
            break
        for _, header in iter_batches(memoryview(data)):
            last = header.base_offset + header.last_offset_delta
            found.append(BatchView(header.base_offset, last, header.leader_epoch, header.crc))
            offset = last + 1
    return tuple(found)
