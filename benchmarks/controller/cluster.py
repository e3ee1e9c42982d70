"""A cluster that consists of a store full of partitions, one real controller, and brokers that answer at once.

The controller is the production shell as a broker process has it: `ControllerRuntime` with its journal and its
state-change log in files, its facts from the store, its outboxes. Only what is behind the network is missing.
"""

import asyncio
import gc
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from benchmarks.controller.counting import CountingStore
from benchmarks.controller.sinks import SinkLoop, Told, registration
from odradek.broker.effects import ControllerRequest
from odradek.client.receive_buffers import BufferPool
from odradek.controller.effects import Effects
from odradek.controller.events import Event
from odradek.log.files import OsDirectory
from odradek.model.cluster import LeaderAndIsr, ReplicaAssignment
from odradek.model.controller_requests import ControllerAnswer, ControllerAsk
from odradek.model.facts import ControllerChanged
from odradek.model.ids import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    TopicId,
    TopicPartition,
)
from odradek.model.settings import BrokerSettings
from odradek.server import state_change_log
from odradek.server.controller_runtime import ControllerRuntime
from odradek.server.environment import Environment
from odradek.server.journal import Journal
from odradek.server.log_limits import LimitedLog
from odradek.server.main import GC_THRESHOLDS
from odradek.server.metrics import Metrics
from odradek.server.registration import prepare_tree
from odradek.store import layout, transactions
from odradek.store.api import ConditionalOps, Create, Delete, Op, StoreProvider
from odradek.store.facts import BrokerFacts

CONTROLLER = BrokerId(1)
BROKERS = (BrokerId(1), BrokerId(2), BrokerId(3))
# Nothing has happened for this long: the work is done. It is not part of the figure.
QUIET_S = 0.15
PATIENCE_S = 600.0
# A broker that died with the controller, a broker's worth that must go elsewhere, and so on: this one.
VICTIM = BrokerId(3)
SPARE = BrokerId(4)
SESSION_TIMEOUT_MS = 60_000  # a measured controller is busy, not gone
SEED_EPOCH = ControllerEpoch(1)


def topics_for(partitions: int) -> int:
    """20 to 200 topics, at most 1,000 partitions each: a topic node is one value, and ZooKeeper's packets are small."""
    return max(1, min(200, max(20, partitions // 500), partitions))


@dataclass
class Stretch:
    """What was measured between a cause and the quiet after it."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0
    store_seconds: float = 0.0
    server_cpu_seconds: float = 0.0  # of the ZooKeeper server
    afterwards_cpu_seconds: float = 0.0  # the words of journal and state-change log, made when all is done
    counts: dict[str, int] = field(default_factory=dict)

    def add(self, other: "Stretch") -> None:
        self.seconds += other.seconds
        self.cpu_seconds += other.cpu_seconds
        self.store_seconds += other.store_seconds
        self.server_cpu_seconds += other.server_cpu_seconds
        self.afterwards_cpu_seconds += other.afterwards_cpu_seconds
        for name, count in other.counts.items():
            self.counts[name] = self.counts.get(name, 0) + count


class _Journal(Journal):
    """Takes down measured stretches alone: the words of what only leads up to one would take longer than it."""

    is_on = False

    def record(self, now_ms: int, epoch: ControllerEpoch, event: Event, effects: Effects) -> None:
        if self.is_on:
            super().record(now_ms, epoch, event, effects)


class Cluster:
    def __init__(
        self,
        stores: StoreProvider,
        directory: Path,
        partitions: int,
        server_cpu_seconds: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self.partitions = partitions
        self._server_cpu_seconds = server_cpu_seconds
        self.told = Told()
        self.answers: dict[int, ControllerAnswer] = {}
        self.assignments: dict[TopicPartition, ReplicaAssignment] = {}
        self.epochs: dict[BrokerId, BrokerEpoch] = {}
        self._stores = stores
        loop = asyncio.get_running_loop()
        self._loop = loop
        self._environment = Environment(SinkLoop(loop, self.told))  # type: ignore[arg-type]
        log = LimitedLog(logging.getLogger("odradek.server"), loop.time)
        files = OsDirectory.create(str(directory))
        self._log = state_change_log.FileHandler(files, "state-change.log", log)
        self._journal = _Journal(files, CONTROLLER, log, self._environment)
        self._limited_log = log
        self._active_at = 0.0
        self._active_cpu = 0.0
        self._is_active = asyncio.Event()
        self._request_id = 0
        self._is_fresh = True  # every partition as `reset` makes it
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self, *, is_filled: bool = False) -> None:
        """The tree, the brokers, and every topic with a leader for each partition; `is_filled`: they are there."""
        self.world = await self._stores.open_session(SESSION_TIMEOUT_MS)
        if not is_filled:
            await prepare_tree(self.world, self._environment)
            for broker in BROKERS:
                await self.register(broker)
        share, more = divmod(self.partitions, topics_for(self.partitions))
        sizes = {f"topic-{index:04d}": share + (index < more) for index in range(topics_for(self.partitions))}
        if is_filled:
            for name, partitions in sizes.items():
                self._assign(name, partitions)
        else:
            await self.add_topics(sizes, with_states=True)
        for broker in BROKERS:
            self.epochs[broker] = BrokerEpoch((await self.world.get(layout.broker_path(broker))).stat.czxid)
        self._store = CountingStore(await self._stores.open_session(SESSION_TIMEOUT_MS), self._note_activity)
        self._log_on()

    async def stop(self) -> None:
        await self.resign()
        await self._journal.finish()
        state_change_log.logger.removeHandler(self._log)
        state_change_log.logger.propagate = True
        for session in (self._store, self.world):
            await session.close()
        self._environment.close()

    def _log_on(self) -> None:
        state_change_log.logger.addHandler(self._log)
        state_change_log.logger.propagate = False
        state_change_log.logger.setLevel(logging.INFO)

    # ---- what stands in the store

    def _assign(self, name: str, partitions: int) -> dict[int, ReplicaAssignment]:
        brokers = len(BROKERS)
        replicas = {
            p: ReplicaAssignment(tuple(BROKERS[(p + r) % brokers] for r in range(brokers)))
            for p in range(partitions)
        }
        for partition, assignment in replicas.items():
            self.assignments[TopicPartition(name, partition)] = assignment
        return replicas

    async def add_topics(self, sizes: dict[str, int], *, with_states: bool) -> None:
        """All topic nodes in one write, as one CreateTopics makes them."""
        made = {name: self._assign(name, partitions) for name, partitions in sizes.items()}
        nodes = [
            transactions.create_topic(name, TopicId(sha256(name.encode()).digest()[:16]), replicas, {})
            for name, replicas in made.items()
        ]
        await self.world.write(nodes, None)
        if with_states:
            found = [TopicPartition(name, p) for name, replicas in made.items() for p in replicas]
            states = [
                transactions.create_partition_state(tp, self._state(tp), SEED_EPOCH, self._isr_epochs(tp))
                for tp in found
            ]
            await self.world.write(states, None)

    def forget_topic(self, name: str) -> None:
        self.assignments = {tp: a for tp, a in self.assignments.items() if tp.topic != name}

    def _state(self, tp: TopicPartition, leader_at: int = 0) -> LeaderAndIsr:
        """Epochs differ from partition to partition, as they do after some weeks."""
        replicas = self.assignments[tp].replicas
        return LeaderAndIsr(replicas[leader_at], LeaderEpoch(tp.partition * 7 % 40), replicas)

    def _isr_epochs(self, tp: TopicPartition) -> tuple[BrokerEpoch, ...]:
        return tuple(self.epochs[broker] for broker in self.assignments[tp].replicas)

    async def reset(self, *, led_elsewhere: BrokerId | None = None) -> None:
        """All brokers registered, every partition led by its first replica with all of them in sync. With
        `led_elsewhere`, those that it should lead are led by their second. While nobody is controller."""
        for broker in BROKERS:
            if broker not in self.epochs:
                await self.register(broker)
        if SPARE in self.epochs:
            await self.unregister(SPARE)
        if self._is_fresh and led_elsewhere is None:
            self._is_fresh = False
            return
        self._is_fresh = False
        partitions = list(self.assignments)
        nodes = await self.world.get_many([layout.state_path(tp) for tp in partitions])
        writes = []
        for tp, node in zip(partitions, nodes, strict=True):
            leader_at = 1 if self.assignments[tp].replicas[0] == led_elsewhere else 0
            state, epochs = self._state(tp, leader_at), self._isr_epochs(tp)
            if node is None:
                writes.append(transactions.create_partition_state(tp, state, SEED_EPOCH, epochs))
            else:
                version = node.stat.version
                writes.append(
                    transactions.write_partition_state(
                        tp, state, SEED_EPOCH, epochs, expected_version=version
                    )
                )
        await self.world.write(writes, None)

    async def rewrite_assignments(self) -> None:
        """The topic nodes as they were made, after a work that changed them."""
        by_topic: dict[str, dict[int, ReplicaAssignment]] = {}
        for tp, assignment in self.assignments.items():
            by_topic.setdefault(tp.topic, {})[tp.partition] = assignment
        for topic, partitions in by_topic.items():
            node = await self.world.get(layout.topic_path(topic))
            found = layout.decode_topic(topic, node)
            await self.world.write(
                [transactions.write_topic(topic, found.topic_id, partitions, expected_version=found.version)],
                None,
            )

    async def register(self, broker: BrokerId) -> None:
        """Not ephemeral: one session stands for all brokers, and stays."""
        made = transactions.register_broker(registration(broker), timestamp_ms=0)
        ops: list[Op] = [Create(op.path, op.data) if isinstance(op, Create) else op for op in made]
        await self.world.multi(ops)
        node = await self.world.get(layout.broker_path(broker))
        self.epochs[broker] = BrokerEpoch(node.stat.czxid)

    async def unregister(self, broker: BrokerId) -> None:
        await self.world.delete(layout.broker_path(broker))
        del self.epochs[broker]

    def led_by(self, broker: BrokerId) -> list[TopicPartition]:
        return [tp for tp, assignment in self.assignments.items() if assignment.replicas[0] == broker]

    # ---- the controller

    async def lead(self, *, is_recorded: bool = True) -> Stretch:
        """From the moment nobody is controller to a controller that has told everybody everything."""
        runtime = self._runtime = ControllerRuntime(
            broker=CONTROLLER,
            environment=self._environment,
            settings=BrokerSettings({"auto.leader.rebalance.enable": "false"}),
            pool=BufferPool(),
            inter_broker_listener="PLAINTEXT",
            journal=self._journal,
            log=self._limited_log,
            metrics=Metrics(),
            after_turn=self._note_activity,
            on_answer=self._answered,
            on_term=lambda epoch: None,
        )
        # Somebody else was controller until now.
        other = layout.encode_controller(BrokerId(9), timestamp_ms=0)
        await self.world.create(layout.CONTROLLER, other)
        self._tasks = [
            self._loop.create_task(self._hear(runtime)),
            self._loop.create_task(runtime.run(self._store)),
        ]
        await asyncio.sleep(0.05)
        async with self.measured(is_recorded=is_recorded) as stretch:
            await self.world.write([ConditionalOps((Delete(layout.CONTROLLER),))], None)
        return stretch

    async def _hear(self, runtime: ControllerRuntime) -> None:
        """As a broker hears who is controller."""
        wake = asyncio.Event()
        facts = BrokerFacts(self._store, wake.set)
        for fact in await facts.load():
            if isinstance(fact, ControllerChanged):
                runtime.controller_seen(fact.controller)
        try:
            while True:
                await wake.wait()
                wake.clear()
                for fact in await facts.take():
                    if isinstance(fact, ControllerChanged):
                        runtime.controller_seen(fact.controller)
        finally:
            facts.stop()

    async def resign(self) -> None:
        """In order, and the journal of the term is on the disk when this returns."""
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with suppress(asyncio.CancelledError):
                await task
        self._tasks = []
        await self.finish_journal()

    async def finish_journal(self) -> None:
        await self._journal.finish()

    def ask(self, ask: ControllerAsk) -> int:
        self._request_id += 1
        self._runtime.ask(ControllerRequest(self._request_id, ask))
        return self._request_id

    def _answered(self, request_id: int, answer: ControllerAnswer) -> None:
        self.answers[request_id] = answer

    @property
    def runtime(self) -> ControllerRuntime:
        return self._runtime

    # ---- measuring

    def _note_activity(self) -> None:
        self._active_at = time.perf_counter()
        self._active_cpu = time.process_time()
        self._is_active.set()

    @asynccontextmanager
    async def measured(self, *, is_recorded: bool = True) -> AsyncIterator[Stretch]:
        """What the body causes, until nothing moves any more. Not recorded: it only leads up to something."""
        await self._journal.finish()
        self._journal.is_on = is_recorded
        gc.collect()
        self.told.clear()
        self._store.clear()
        stretch = Stretch()
        with _thresholds():
            begun_server = self._server_cpu_seconds()
            begun, begun_cpu = time.perf_counter(), time.process_time()
            yield stretch
            await self._until_quiet(begun)
            stretch.seconds = self._active_at - begun
            stretch.cpu_seconds = self._active_cpu - begun_cpu
            stretch.server_cpu_seconds = self._server_cpu_seconds() - begun_server
        stretch.store_seconds = self._store.seconds
        stretch.counts = {
            "store calls": sum(self._store.calls.values()),
            "nodes read": self._store.nodes_read,
            "writes": self._store.writes,
            "bytes written": self._store.written_bytes,
            "requests": sum(self.told.requests.values()),
            "bytes told": self.told.sent_bytes,
        }
        await self._journal.finish()
        self._journal.is_on = False
        stretch.afterwards_cpu_seconds = time.process_time() - self._active_cpu

    async def _until_quiet(self, begun: float) -> None:
        while True:
            self._is_active.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(QUIET_S):
                    await self._is_active.wait()
                continue
            for task in self._tasks:
                if task.done():
                    task.result()
            assert time.perf_counter() - begun < PATIENCE_S, "nothing more happens, and it is not done"
            has_happened = self._active_at > begun
            # None: nobody leads yet, or a thread has the core, and as long as it steps nothing else moves.
            is_at_rest = self._runtime.core is not None and not self._store.calls_now
            if has_happened and is_at_rest and not sum(self._runtime.unanswered().values()):
                return


@contextmanager
def _thresholds() -> Iterator[None]:
    """The collector as a broker process sets it."""
    before = gc.get_threshold()
    gc.set_threshold(*GC_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
