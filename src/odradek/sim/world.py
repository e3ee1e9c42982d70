"""A whole cluster in one seed: production brokers on the deterministic loop, over simulated disks, network and store.

The world starts, kills, pauses, cuts and heals; it never reaches into a broker to change it. What it reads from
brokers (`view`) goes to the checkers alone.
"""

import asyncio
import sys
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any

from odradek.broker.answers import Answer
from odradek.broker.request import Request
from odradek.coordinator.group_states import GroupState
from odradek.log.compaction.passes import CleaningJob, Passes, PassesHere
from odradek.log.files import Directory
from odradek.log.memory_files import Choose, MemoryDisk
from odradek.model.errors import OdradekError
from odradek.model.ids import BrokerId, TopicPartition
from odradek.model.settings import BrokerSettings
from odradek.replication.partition import Partition
from odradek.server.broker_runtime import BrokerRuntime
from odradek.server.environment import Clock, Environment, Handle
from odradek.sim.checkers.burden import MOST_UNHANDLED_BYTES, MOST_UNSENT_BYTES
from odradek.sim.checkers.groups import Term
from odradek.sim.checkers.history import Anomaly
from odradek.sim.checkers.replicas import ClusterView, PartitionView
from odradek.sim.clients.replica_consumer import rack_of
from odradek.sim.loop import NOBODY, Host, SimLoop
from odradek.sim.network import Network
from odradek.sim.observed.viewed import Damage
from odradek.sim.observed.views import Views
from odradek.sim.store import SimStore, StoreLink
from odradek.sim.threads import Machine, SimThreads
from odradek.sim.topics import Topics
from odradek.store import layout
from odradek.store.api import ConditionalOps, Delete, Op

PORT = 9092
# The simulated wall clock begins here: 2026-01-01.
EPOCH_S = 1_767_225_600.0
# What a turn takes for each of its reads of a disk, by the stopwatch of its broker. Timed on 2026-12-01, the longest turns of seeds 250, 500
# and 1050 took 2,450 to 4,400. Functions entered are no measure for it: a process that has compiled its codecs enters fewer.
READ_NS = 2_500

DEFAULT_SETTINGS = {
    "offsets.topic.num.partitions": "4",
    "zookeeper.session.timeout.ms": "6000",
    "replica.lag.time.max.ms": "10000",
    "log.segment.bytes": "65536",
    "log.index.interval.bytes": "512",
    "odradek.log.scrub.bytes.per.second": "0",  # a seed that turns bits has it looked for
}


class NotInTime(OdradekError):
    """The simulated deadline passed."""


class SimEnvironment(Environment):
    """The simulator's time, randomness and blocking work for one host."""

    def __init__(self, world: "World", broker: "SimBroker") -> None:
        name = broker.name
        self.loop: SimLoop = world.loop
        self._world = world
        self._broker = broker
        self.clock = Clock(
            world.loop.time, lambda: EPOCH_S + world.loop.time() + world.clock_offsets.get(name, 0.0)
        )
        self.process_id = 1000 + world.starts
        self.partitions_at_once = 1
        self.large_step = sys.maxsize  # a step of the controller takes no time here
        self.cleaner_slice_bytes = 2_000  # a few segments
        self.partitions_kept = 100_000
        self.most_unsent_bytes = MOST_UNSENT_BYTES
        self.most_unhandled_bytes = MOST_UNHANDLED_BYTES
        self.requests_kept = 10_000 if world.requests_kept is None else world.requests_kept
        self._machine = Machine(world.loop, lambda: broker.most_threads, lambda: broker.blocking_takes_s)
        self._pools: dict[str, SimThreads] = {}
        self.slice_ns = 0  # each partition of a LeaderAndIsr in a turn of its own
        self._spent_ns = 0  # with requests

    def random_bytes(self, count: int) -> bytes:
        return self._world.loop.random.randbytes(count)

    def stopwatch_ns(self) -> int:
        """The clock stands still in a turn, and this goes on with what it reads: what ends a long turn on a machine ends it here."""
        spent_ns = self._spent_ns
        for disk in self._broker.disks:
            spent_ns += READ_NS * disk.reads
        return spent_ns

    def run_blocking(self, function: Callable[..., Any], *args: Any) -> "asyncio.Future[Any]":
        if self._world.threads_run_out:
            return self._pool("blocking").do(function, *args)
        return self.loop.run_blocking(self._broker.blocking_takes_s, function, *args)

    def run_aside(self, work: Callable[[], Any]) -> "asyncio.Future[Any]":
        if self._world.threads_run_out:
            return self._pool("aside").do(work)
        return self.run_blocking(work)

    def _pool(self, name: str) -> SimThreads:
        """Two threads each, as `Environment` has them."""
        pool = self._pools.get(name)
        if pool is None:
            pool = self._pools[name] = SimThreads(self._machine, 2, name)
        return pool

    async def aside_ended(self) -> None:
        """What was begun is done to its end, or not at all."""
        aside = self._pools.get("aside")
        while aside is not None and aside.is_at_work:
            await asyncio.sleep(0.001)

    @staticmethod
    def give_way() -> None:
        """Nobody else runs on this processor."""

    def passes_of(self, job: CleaningJob, directory: Directory) -> Passes:
        for observer in self._world.on_cleaning:
            observer(self._broker, job, directory)
        return PassesHere(job, directory)

    def cleaning_is_idle(self) -> bool:
        return False  # no process was started

    def abandon_cleaning(self) -> None:
        """Nor is there one to be ended: the slice that is under way comes to its end."""

    def making_what_stays(self) -> AbstractContextManager[None]:
        return nullcontext()  # a world goes round in circles, and is let go of

    def intercepted(self, handle: Handle) -> Handle:
        """To handle a request takes no time here, but where the world says so: by the stopwatch, never by the clock."""
        takes_ns = self._world.requests_take_ns
        if not takes_ns:
            return handle

        def timed(request: Request, now_ms: int) -> Answer:
            self._spent_ns += takes_ns
            return handle(request, now_ms)

        return timed

    def controller_stepped(self, event: object, effects: object) -> None:
        self._world.controller_stepped(self._broker, event, effects)

    def close(self) -> None:
        """No thread was started."""


class SimBroker:
    """One broker of the world: its disk stays, its process comes and goes."""

    def __init__(self, world: "World", broker_id: int) -> None:
        self.world = world
        self.broker_id = BrokerId(broker_id)
        self.name = f"b{broker_id}"
        count = world.disks_per_broker
        # One directory, or several of which one may fail alone (F23).
        paths = [f"/{self.name}"] if count == 1 else [f"/{self.name}/d{n}" for n in range(count)]
        self.disks = [MemoryDisk(path) for path in paths]
        self.disks_taken: list[MemoryDisk] = []  # out of the machine, and out of `log.dirs`
        self.most_threads: int | None = None  # of its process; None: any number
        self.blocking_takes_s = 0.0  # on top of the usual delay: a slow disk
        self.host: Host | None = None
        self._asked_to_stop: Host | None = None
        self.as_written: Callable[[Op], Op] | None = None  # of the release it is started as (`rolling`)
        self.link: StoreLink | None = None
        self.runtime: BrokerRuntime | None = None
        self.exit_reason: BaseException | None = None
        self._starts = 0

    @property
    def disk(self) -> MemoryDisk:
        """The first; the only one of most worlds."""
        return self.disks[0]

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        """Whoever only looks meets no injected error of these disks and uses none up."""
        with ExitStack() as stack:
            for disk in self.disks:
                stack.enter_context(disk.undisturbed())
            yield

    @property
    def is_running(self) -> bool:
        return self.host is not None and self.host.is_alive

    @property
    def is_stopping(self) -> bool:
        """It was asked to stop in order, and has not yet."""
        return self.is_running and self._asked_to_stop is self.host

    @property
    def is_serving(self) -> bool:
        return self.runtime is not None and self.runtime.parts is not None

    @property
    def is_controller(self) -> bool:
        return self.is_serving and self.runtime is not None and self.runtime.broker.is_controller

    @property
    def leads_something(self) -> bool:
        if not self.is_serving or self.runtime is None:
            return False
        return any(p.is_leader for p in self.runtime.broker.replicas.partitions.values())

    def replica(self, partition: TopicPartition) -> Partition | None:
        """Its replica of a partition, while it serves."""
        if not self.is_serving or self.runtime is None:
            return None
        return self.runtime.broker.replicas.partitions.get(partition)

    def settings(self) -> BrokerSettings:
        return BrokerSettings(
            {
                "broker.id": str(self.broker_id),
                "listeners": f"PLAINTEXT://{self.name}:{PORT}",
                "log.dirs": ",".join(disk.path for disk in self.disks),
                "odradek.cluster.size": str(len(self.world.brokers)),
                **({"broker.rack": rack_of(self.broker_id)} if self.world.has_racks else {}),
                **DEFAULT_SETTINGS,
                **self.world.settings,
            }
        )

    def open_directory(self, path: str) -> Directory:
        disk = next(disk for disk in self.disks if f"{path}/".startswith(f"{disk.path}/"))
        directory: Any = disk.root
        for part in path.removeprefix(disk.path).split("/"):
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
        self.link.as_written = self.as_written
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
                SimEnvironment(self.world, self),
                self.link,
                open_directory=self.open_directory,
            )
            self.runtime = runtime
            for observer in self.world.on_process_start:
                observer(self)
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

    def kill(
        self, *, power_cut: bool = False, at_once: bool | None = None, choose: Choose | None = None
    ) -> None:
        """kill -9; with `power_cut` what was not synced is lost as well, as `choose` says or in any combination."""
        host = self.host
        assert host is not None and host.is_alive
        self.world.note(f"{'power cut' if power_cut else 'kill'} {host}")
        self._process_ended(host, at_once=self.world.store_notices_death if at_once is None else at_once)
        if power_cut:
            random = self.world.loop.random
            for disk in self.disks:
                disk.power_cut(choose or (lambda count: int(random.random() * count)))

    def unmount_disks(self) -> None:
        """Of a broker that is down: nothing is lost, and nobody can know that."""
        for disk in self.disks:
            disk.unmount()

    def wipe_disk(self) -> None:
        """Another, empty disk. Until the ISR has been told, no invariant can hold of what was on it."""
        for disk in self.disks:
            disk.wipe()
        self.exempt()

    def exempt(self) -> None:
        """It has lost records it had said it has: nothing is asked of it before its ISRs have been told."""
        world = self.world
        for partition in world.view(with_batches=False).partitions:
            life = world.incarnation_in_isr(self.broker_id, partition)
            if life is not None:
                world.exempt[(self.broker_id, partition)] = life

    def exempt_damage(self, partition: TopicPartition, is_there: Callable[[], bool]) -> None:
        """A batch of this log is not what it says, and counts as a copy until somebody has noticed."""
        world = self.world
        life = world.incarnation_in_isr(self.broker_id, partition)
        if life is not None and self.host is not None:
            world.exempt[(self.broker_id, partition)] = life
            world.damage[(self.broker_id, partition)] = Damage(self.host, is_there)

    def _process_ended(self, host: Host, *, at_once: bool, asked_to_stop_s: float | None = None) -> None:
        for observer in self.world.on_process_end:
            observer(self, asked_to_stop_s)
        host.kill()
        self.world.network.host_killed(host)
        assert self.link is not None
        self.link.host_killed(at_once=at_once)
        self.runtime = None
        for disk in self.disks:
            disk.restart()

    def stop(self) -> None:
        """SIGTERM: a controlled shutdown."""
        host, runtime = self.host, self.runtime
        assert host is not None and runtime is not None
        self._asked_to_stop = host
        asked_s = self.world.loop.time()

        async def stop() -> None:
            await runtime.stop()
            if self.host is host and host.is_alive:
                self.world.note(f"{host} stopped in order")
                self._process_ended(host, at_once=True, asked_to_stop_s=asked_s)
                for callback in self.world.waiting_for_stop.pop(self.name, []):
                    callback()

        self.world.note(f"terminate {host}")
        self.world.spawn(host, stop())

    def pause(self, seconds: float) -> None:
        """SIGSTOP, and SIGCONT after `seconds`."""
        assert self.host is not None and self.link is not None
        self.world.note(f"pause {self.host} for {seconds:.3f} s")
        self.host.pause(self.world.loop.time() + seconds)
        self.link.host_paused(seconds)

    def hang(self, seconds: float) -> None:
        """Its loop stands still for `seconds`, in a callback that does not end. The threads of the process live, and so do
        its connections; its session with the store does as long as a loop may be late."""
        assert self.host is not None and self.link is not None
        self.world.note(f"the loop of {self.host} hangs for {seconds:.3f} s")
        self.host.hang(self.world.loop.time() + seconds)
        self.link.loop_hangs(seconds)


class World:
    """See the module."""

    def __init__(
        self,
        seed: int,
        *,
        brokers: int = 3,
        settings: Mapping[str, str] | None = None,
        store_notices_death: bool = True,
        disks_per_broker: int = 1,
        requests_kept: int | None = None,
    ) -> None:
        self.seed = seed
        self.loop = SimLoop(seed)  # type: ignore[abstract]  # what it lacks raises by itself
        self.network = Network(self.loop)
        self.store = SimStore(self.loop)
        self.settings = dict(settings or {})
        self.threads_run_out = False  # now and then (`sim.threads`)
        self.requests_take_ns = 0  # by the stopwatch of a broker
        self.counts_steps = False  # of each turn (`sim.meter`)
        # Brokers have a rack each, and leaders send consumers to the replicas in theirs.
        self.has_racks = "replica.selector.class" in self.settings
        self.store_notices_death = store_notices_death
        self.store.splits_batches = not store_notices_death
        self.disks_per_broker = disks_per_broker
        self.requests_kept = (
            requests_kept  # by a controller for a broker that does not answer; None: as many as always
        )
        self.clock_offsets: dict[str, float] = {}
        self.cut_from_store: dict[str, None] = {}
        self.starts = 0
        self.is_healed = False
        self.strangers: list[asyncio.Transport] = []  # of connections that only exist to be in the way
        self.notes: list[tuple[float, str]] = []
        # (broker, partition) that has lost records -> the life in which the ISR still counts on it
        self.exempt: dict[tuple[BrokerId, TopicPartition], int] = {}
        # Of these, which have a damaged log, and whether the damage is still in it: longer than a life, or shorter.
        self.damage: dict[tuple[BrokerId, TopicPartition], Damage] = {}
        self.topics = Topics(self.store.ensemble.tree)
        self.administration: Any = None  # of a seed with administrators (`administration`)
        self.clients: Any = None  # of a run (`workload`)
        self.roll: Any = None  # of all brokers, once it has begun (`rolling`)
        self.let_in: list[
            Anomaly
        ] = []  # granted to strangers, told to administrators too early, or not done for them
        self.waiting_for_stop: dict[str, list[Callable[[], None]]] = {}
        self.on_broker_stopped: list[Callable[[SimBroker, BaseException], None]] = []
        self.on_process_start: list[
            Callable[[SimBroker], None]
        ] = []  # when it has its runtime, and nothing in that
        # (broker, when it was asked to stop, if it stops in order) of each process that ends, as long as it is there
        self.on_process_end: list[Callable[[SimBroker, float | None], None]] = []
        # (broker, what is cleaned, in which directory) when the cleaner begins to read a log
        self.on_cleaning: list[Callable[[SimBroker, CleaningJob, Directory], None]] = []
        # (broker, event, effects) after each step of a controller, before anything of it is written or told
        self.on_controller_step: list[Callable[[SimBroker, Any, Any], None]] = []
        self.brokers: dict[BrokerId, SimBroker] = {}
        for broker_id in range(1, brokers + 1):
            self.brokers[BrokerId(broker_id)] = SimBroker(self, broker_id)
        self._views = Views(self)

    # --- running

    def note(self, text: str) -> None:
        self.notes.append((self.loop.time(), text))

    def spawn(self, host: Host, work: Coroutine[Any, Any, Any]) -> None:
        """Starts a task of `host` at the loop's next turn."""
        host.keep(work)  # should it never begin, it must be closed all the same
        context = self.loop.context_of(host).copy()
        self.loop.call_soon(lambda: self.loop.create_task(work, context=context), context=context)

    def call(self, host: Host, work: Coroutine[Any, Any, Any], within_s: float = 60.0) -> Any:
        """Runs the loop until `work` of `host` is done."""
        host.keep(work)
        context = self.loop.context_of(host).copy()
        done: list[asyncio.Task[Any]] = []
        self.loop.call_soon(
            lambda: done.append(self.loop.create_task(work, context=context)), context=context
        )
        end = self.loop.time() + within_s
        self.loop.run_until(end, stop=lambda: bool(done) and done[0].done())
        if not (done and done[0].done()):
            raise NotInTime(
                f"{getattr(work, '__qualname__', work)} did not finish within {within_s:g} simulated seconds"
            )
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
        """Asked before every event of a start; nearly always it is the first broker that is not."""
        for broker in self.brokers.values():
            runtime, host = broker.runtime, broker.host
            if (runtime is None or runtime.parts is None) and host is not None and host.is_alive:
                return False
        expected = {int(broker.broker_id) for broker in self.brokers.values() if broker.is_running}
        for broker in self.brokers.values():
            if broker.is_running and broker.runtime is not None:
                metadata = broker.runtime.broker.metadata
                if metadata.controller_id not in expected or not expected <= metadata.brokers.keys():
                    return False
        return bool(expected)

    def when_stopped(self, broker: SimBroker, callback: Callable[[], None]) -> None:
        self.waiting_for_stop.setdefault(broker.name, []).append(callback)

    def world_context(self) -> Any:
        return self.loop.context_of(NOBODY)

    def is_everything_healthy(self) -> bool:
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

    def depose(self) -> bool:
        """Removes `/controller` by hand. False: there was none."""
        if not any(True for _ in self.store.ensemble.tree.walk(layout.CONTROLLER)):
            return False
        self.write_by_hand(Delete(layout.CONTROLLER))
        return True

    def write_by_hand(self, op: Op) -> None:
        """Somebody with a client of the store, past all brokers."""
        ensemble = self.store.ensemble
        session_id = ensemble.tree.open_session(60_000)
        _, fired = ensemble.tree.write(session_id, [ConditionalOps((op,))], None)
        ensemble.tree.end_session(session_id)
        ensemble.deliver(fired)

    # --- cutting and healing

    def cut(self, source: str, target: str) -> None:
        self.note(f"cut {source} -> {target}")
        self.network.cut(source, target)

    def heal(self, source: str, target: str) -> None:
        self.note(f"heal {source} -> {target}")
        self.network.heal(source, target)

    def cut_store(self, broker: SimBroker, *, forgets_watches: bool | None = None) -> None:
        """`forgets_watches`: as ZooKeeper's servers do; None: if the store of this world is one that does."""
        self.note(f"cut {broker.name} -> store")
        self.cut_from_store[broker.name] = None
        if broker.link is not None:
            forgets = not self.store_notices_death if forgets_watches is None else forgets_watches
            broker.link.cut(forgets_watches=forgets)

    def heal_store(self, broker: SimBroker) -> None:
        if broker.name in self.cut_from_store:
            self.note(f"heal {broker.name} -> store")
            del self.cut_from_store[broker.name]
            if broker.link is not None:
                broker.link.heal()

    def heal_all(self) -> None:
        """Everything works again, and everybody runs. No fault strikes from now on."""
        self.note("heal everything")
        self.is_healed = True
        for connection in self.strangers:
            connection.abort()  # the end of what they began would else come when all is quiescent
        self.network.heal_all()
        for broker in self.brokers.values():
            self.heal_store(broker)
            broker.most_threads = None
            for disk in broker.disks:
                disk.heal()
        self.store.come_up()
        self.store.lost_answer_probability = self.store.lost_call_probability = 0.0
        for broker in self.brokers.values():
            if broker.host is not None:
                # Also where a shorter pause has replaced a longer one, which some callbacks still wait for.
                broker.host.pause(min(broker.host.paused_until, self.loop.time()))
                self.loop.go_on(broker.host)
            if broker.link is not None:
                broker.link.release_watches()
            if not broker.is_running:
                broker.start()

    # --- looking

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Of every broker, whether it runs or not: what a client begins with."""
        return [(broker.name, PORT) for broker in self.brokers.values()]

    def term_of_group(self, address: tuple[str, int] | None, group: str) -> Term | None:
        """Of the coordinator of this group there; None: nobody coordinates it there."""
        return self._term(address, group, of_transactions=False)

    def term_of_transactions(self, address: tuple[str, int] | None, transactional_id: str) -> Term | None:
        return self._term(address, transactional_id, of_transactions=True)

    def _term(self, address: tuple[str, int] | None, name: str, *, of_transactions: bool) -> Term | None:
        found = [
            broker for broker in self.brokers.values() if address is not None and broker.name == address[0]
        ]
        if not found or found[0].host is None or found[0].runtime is None or not found[0].is_serving:
            return None
        shards: Any = (
            found[0].runtime.broker.transactions if of_transactions else found[0].runtime.broker.groups
        )
        shard = shards.shards.get(shards.index_of(name))
        return None if shard is None else Term(found[0].name, found[0].host.incarnation, shard.epoch)

    def rebalances(self, group: str) -> SimBroker | None:
        """Who coordinates this group, and has its members join again; None: nobody does."""
        for broker in self.brokers.values():
            if broker.is_serving and broker.runtime is not None:
                groups = broker.runtime.broker.groups
                shard = groups.shards.get(groups.index_of(group))
                known = None if shard is None or shard.coordinator is None else shard.coordinator.shard.groups
                if known is not None and group in known and known[group].state is GroupState.PREPARING:
                    return broker
        return None

    def view(self, *, with_batches: bool = True, with_knowledge: bool = True) -> ClusterView:
        """A snapshot for the checkers."""
        return self._views.view(with_batches=with_batches, with_knowledge=with_knowledge)

    def view_of(self, partition: TopicPartition) -> PartitionView | None:
        """As in `view`; no other log is read for it."""
        return self._views.partition(partition)

    def incarnation_in_isr(self, broker_id: BrokerId, partition: TopicPartition) -> int | None:
        return self._views.incarnation_in_isr(broker_id, partition)

    def controller_stepped(self, broker: SimBroker, event: object, effects: object) -> None:
        """An observer that fails is a mistake of the simulator: the broker it looked at must not hear of it."""
        meter = self.loop.meter
        with nullcontext() if meter is None else meter.standing_still():
            for observer in tuple(self.on_controller_step):
                try:
                    observer(broker, event, effects)
                except Exception as error:
                    self.loop.call_exception_handler(
                        {"message": "whoever watched a controller", "exception": error}
                    )
                    self.loop.interrupt()
