"""One seed from beginning to end: safety with faults, then heal and demand liveness.

The world must be right at every look (invariants over snapshots), the clients' history must be right at the end, and
once everything is healed all of it must come to rest within bounded simulated time: every acknowledged record readable,
every ISR full, every replica identical. `Rest.pending` says why it is not at rest yet.
"""

import asyncio
import gc
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from odradek.model.ids import BrokerId, TopicPartition
from odradek.sim import faults
from odradek.sim.administration import Administration
from odradek.sim.checkers import replicas
from odradek.sim.checkers.deliveries import FINAL, check
from odradek.sim.checkers.history import Anomaly, History
from odradek.sim.checkers.replicas import ClusterView
from odradek.sim.client import SimClient, SimConsumer, SimProducer, by_its_name
from odradek.sim.loop import Host
from odradek.sim.plan import MOVE_THE_LOG_START, UNCLEAN, Fault, Plan
from odradek.sim.restart import would_not_restart
from odradek.sim.watch import Watch
from odradek.sim.world import PORT, NotInTime, World

TOPIC = "orders"
LOOK_EVERY_S = 0.25
LIVENESS_S = 180.0
MOST_EVENTS = 400_000

OK, CRASH, LIVENESS, CORRECTNESS = 0, 127, 128, 129


@dataclass(slots=True)
class Outcome:
    seed: int
    code: int = OK
    reason: str = ""
    events: int = 0
    faults: int = 0
    acked_batches: int = 0
    simulated_s: float = 0.0
    trace_hash: int = 0
    anomalies: list[Anomaly] = field(default_factory=list)
    notes: list[tuple[float, str]] = field(default_factory=list)
    injected: list[Fault] = field(default_factory=list)
    history: History = field(default_factory=History)
    plan: Plan | None = None

    def as_dict(self) -> dict[str, object]:
        return {
            "seed": self.seed,
            "code": self.code,
            "reason": self.reason,
            "anomalies": [str(anomaly) for anomaly in self.anomalies],
            "events": self.events,
            "faults": [str(fault) for fault in self.injected],
            "acknowledged_batches": self.acked_batches,
            "logical_hours": self.simulated_s / 3600,
            "trace": f"{self.trace_hash:016x}",
        }

    @property
    def line(self) -> str:
        word = {OK: "ok", CRASH: "crash", LIVENESS: "liveness", CORRECTNESS: "correctness"}[self.code]
        return (
            f"seed {self.seed}: {word}, {self.events} events, {self.faults} faults, {self.acked_batches} acknowledged "
            f"batches, {self.simulated_s / 3600:.4f} logical hours, trace {self.trace_hash:016x}"
        )


def run(
    plan: Plan,
    *,
    observe: Callable[[World], None] | None = None,
    prepare: Callable[[World, History], None] | None = None,
) -> Outcome:
    """Runs `plan`; never raises for what a broker did.

    `observe` is called at every look, `prepare` once before anything runs: neither may change anything.
    """
    quiet = logging.getLogger("odradek")
    level = quiet.level
    quiet.setLevel(logging.CRITICAL)  # the method, not the attribute: loggers cache what they let through
    outcome = Outcome(plan.seed, plan=plan)
    world = World(
        plan.seed,
        brokers=plan.brokers,
        settings={**({"log.flush.interval.messages": "1"} if plan.flushes else {}), **plan.settings},
        store_notices_death=plan.store_notices_death,
        disks_per_broker=plan.disks_per_broker,
    )
    if prepare is not None:
        prepare(world, outcome.history)
    try:
        _Run(plan, world, outcome, observe).whole()
    finally:
        outcome.events = world.loop.events
        outcome.simulated_s = world.loop.time()
        outcome.trace_hash = world.loop.trace_hash
        outcome.notes = list(world.notes)
        outcome.acked_batches = sum(1 for s in outcome.history.sends() if s.outcome == "ok")
        let_go(world)
        quiet.setLevel(level)
    return outcome


def let_go(world: World) -> None:
    world.on_controller_step.clear()
    world.loop.close()
    world.brokers.clear()
    gc.collect()


class Broken(Exception):
    def __init__(self, code: int, reason: str, anomalies: Iterable[Anomaly] = ()) -> None:
        super().__init__(reason)
        self.code = code
        self.anomalies = list(anomalies)


class _Run:
    def __init__(
        self, plan: Plan, world: World, outcome: Outcome, observe: Callable[[World], None] | None = None
    ) -> None:
        self.plan = plan
        self.world = world
        self.outcome = outcome
        self.history = outcome.history
        self.observe = observe
        self.watch = Watch(world, on_broken=world.loop.interrupt)
        self.partitions = [TopicPartition(TOPIC, n) for n in range(plan.partitions)]
        self.is_over = False
        self.restarted: dict[BrokerId, None] = {}
        self.producing = 0
        self.client_host = Host("c1", 101)

    def whole(self) -> None:
        try:
            self._start()
            self._safety()
            self._heal()
            self._liveness()
        except NotInTime as late:
            self.outcome.code, self.outcome.reason = LIVENESS, str(late)
        except Broken as broken:
            self.outcome.code = broken.code
            self.outcome.reason = str(broken)
            self.outcome.anomalies = broken.anomalies

    # --- phases

    def _start(self) -> None:
        world, plan = self.world, self.plan
        world.start()
        self.client = self._new_client()
        configs = {
            "min.insync.replicas": str(plan.min_insync_replicas),
            **({"flush.messages": "1"} if plan.flushes else {}),
        }
        if plan.is_administered:
            world.administration = Administration(world, plan, TOPIC, configs)
        if plan.has(UNCLEAN):
            world.store.on_write = world.topics.notice_unclean_elections

        async def create() -> object:
            await self.client.refresh([])
            return await self.client.create_topic(TOPIC, plan.partitions, plan.replication_factor, configs)

        error = world.call(self.client_host, create())
        if error != 0:
            raise Broken(LIVENESS, f"the topic could not be created: {error!r}")
        for number in range(plan.producers):
            world.spawn(self.client_host, self._produce(number))
        for partition in self.partitions:
            world.spawn(self.client_host, self._consume(partition))

    def _new_client(self) -> SimClient:
        return SimClient(
            self.world.loop, self.client_host, [(b.name, PORT) for b in self.world.brokers.values()]
        )

    def _safety(self) -> None:
        world, plan = self.world, self.plan
        begun = world.loop.time()
        pending = sorted(plan.faults)
        end = begun + plan.duration_s
        while world.loop.time() < end:
            due = begun + pending[0].at_s if pending else end
            self._advance_to(min(due, end, world.loop.time() + LOOK_EVERY_S))
            while pending and world.loop.time() >= begun + pending[0].at_s:
                fault = pending.pop(0)
                if faults.inject(world, fault):
                    self.outcome.faults += 1
                    self.outcome.injected.append(fault)

    def _heal(self) -> None:
        self.is_over = True
        self.world.heal_all()

    def _liveness(self) -> None:
        world = self.world
        end = world.loop.time() + LIVENESS_S
        while True:
            reason = self._pending()
            if reason is None:
                break
            if world.loop.time() >= end:
                raise Broken(LIVENESS, f"{LIVENESS_S:g} s after everything was healed: {reason}")
            for broker in world.brokers.values():
                if not broker.is_running:
                    broker.start()
            self._restart_whoever_has_strays()
            self._advance_to(world.loop.time() + 0.5)
        view = without_strays(world.view()) if self.restarted else world.view()
        found = [a for rest in replicas.REST_CHECKS for a in rest(view)]
        found += would_not_restart(world)
        if found:
            raise Broken(CORRECTNESS, str(found[0]), found)
        self._read_everything()
        found = self._judge()
        if found:
            raise Broken(CORRECTNESS, str(found[0]), found)

    def _restart_whoever_has_strays(self) -> None:
        """A controller that dies between forgetting a replica and telling its broker leaves a log that nobody will
        ever ask for. The broker finds it when it starts, by topic id: once, and it has to be enough."""
        for broker_id, partition in self.world.view(with_batches=False).strays:
            if why_not_at_rest(self.world, but_strays=True) is None and broker_id not in self.restarted:
                self.restarted[broker_id] = None
                self.world.note(f"b{broker_id} keeps {partition}, which is not assigned to it: restarted")
                self.world.brokers[broker_id].kill(at_once=True)

    def _judge(self) -> list[Anomaly]:
        topics = self.world.topics
        now = {topics.now(partition) for partition in self.partitions}
        log_starts = {}
        if self.plan.has(MOVE_THE_LOG_START):
            for partition, state in self.world.view(with_batches=False).partitions.items():
                named = topics.now(partition)
                if named is not None:
                    log_starts[named] = max(r.log_start_offset for r in state.replicas)
        return check(
            self.history,
            lossy=topics.lossy().keys(),
            gone={event.topic_partition for event in self.history.events} - now,
            log_starts=log_starts,
        )

    # --- looking

    def _advance_to(self, when: float) -> None:
        world = self.world
        world.loop.run_until(when)
        if self.plan.is_administered:
            self._follow_growth()
        if world.loop.unhandled:
            first = world.loop.unhandled[0]
            raise Broken(CRASH, f"{first.get('message')}: {first.get('exception')!r}")
        if world.loop.events > MOST_EVENTS:
            raise Broken(LIVENESS, f"more than {MOST_EVENTS} events: something goes round in circles")
        self._look()

    def _look(self) -> None:
        found = self.watch.found or self.watch.look()
        if self.observe is not None:
            self.observe(self.world)
        if found:
            raise Broken(CORRECTNESS, str(found[0]), found)

    def _pending(self) -> str | None:
        if self.producing and self.world.is_ready():
            return f"{self.producing} sends are not finished"
        administration = self.world.administration
        if administration is not None and administration.working:
            return f"{administration.working} actions of administrators are not finished"
        # What a broker keeps even after it was started again stays, as with Apache: garbage on its disk, which it
        # neither leads nor follows. docs/simulator.md, "not mended yet", has the seeds.
        return why_not_at_rest(self.world, but_strays=bool(self.restarted))

    # --- clients

    async def _produce(self, number: int) -> None:
        plan = self.plan
        client = self._new_client()
        await client.refresh([TOPIC])
        producer = SimProducer(
            client,
            f"p{number}",
            self.history,
            acks=plan.acks,
            is_idempotent=plan.is_idempotent,
            named=self.world.topics.now if plan.is_administered else by_its_name,
        )
        await producer.open()
        count = 0
        while not self.is_over:
            partition = self.partitions[(count + number) % len(self.partitions)]
            values = [f"{number}-{count + n}".encode() for n in range(plan.records_per_batch)]
            count += plan.records_per_batch
            self.producing += 1
            await producer.send(partition, values)
            self.producing -= 1
            await asyncio.sleep(plan.pause_between_sends_s)

    async def _consume(self, partition: TopicPartition) -> None:
        client = self._new_client()
        await client.refresh([TOPIC])
        consumer = self._consumer(client, "follow-", partition)
        while not self.is_over:
            await consumer.poll()

    def _consumer(self, client: SimClient, name: str, partition: TopicPartition) -> SimConsumer:
        plan = self.plan
        return SimConsumer(
            client,
            f"{name}{partition.partition}",
            partition,
            self.history,
            named=self.world.topics.named if plan.is_administered else None,
            may_start_over=plan.has(UNCLEAN | MOVE_THE_LOG_START),
        )

    def _follow_growth(self) -> None:
        """Partitions that were added get their consumer; producers find them by themselves."""
        found = self.world.topics.assignment(TOPIC)
        for number in range(len(self.partitions), 0 if found is None else len(found.partitions)):
            self.partitions.append(TopicPartition(TOPIC, number))
            if not self.is_over:
                self.world.spawn(self.client_host, self._consume(self.partitions[-1]))

    def _read_everything(self) -> None:
        """The final polls: a new consumer of each partition, from the beginning to the high watermark."""
        world = self.world

        async def read(partition: TopicPartition) -> None:
            client = self._new_client()
            await client.refresh([TOPIC])
            consumer = self._consumer(client, FINAL, partition)
            while True:
                count = await consumer.poll(max_wait_ms=0)
                if count <= 0 and consumer.high_watermark >= 0 and consumer.offset >= consumer.high_watermark:
                    return

        for partition in self.partitions:
            world.call(self.client_host, read(partition))
        self._same_for_every_replica()

    def _same_for_every_replica(self) -> None:
        """What the leader served is what every replica holds: by offset, count and checksum (I9 at rest)."""
        found = list(replicas.identical_logs(self.world.view()))
        if found:
            raise Broken(CORRECTNESS, str(found[0]), found)


def why_not_at_rest(world: World, *, but_strays: bool = False) -> str | None:
    """None when everybody runs, every ISR is whole, and every replica knows and has everything (I11, I12)."""
    for broker in world.brokers.values():
        if not broker.is_running:
            return f"{broker.name} does not run: {broker.exit_reason!r}"
        if broker.is_serving and broker.runtime is not None:
            offline = broker.runtime.broker.replicas.logs.offline_directories
            if offline:  # mended, and it comes back when its broker is started again
                return f"{broker.name} has directories offline: {offline}"
    if not world.is_ready():
        return "not every broker knows the others and the controller"
    view = world.view(with_batches=False)
    if world.excused:
        return f"an ISR counts on a broker that has lost its records: {list(world.excused)}"
    for partition, state in view.partitions.items():
        if state.stored is None or state.stored.leader < 0:
            return f"{partition} has no leader: {state.stored}"
        if set(state.stored.isr) != set(state.assignment):
            return f"the ISR of {partition} is {list(state.stored.isr)} of {list(state.assignment)}"
        assigned = [r for r in state.replicas if r.broker in state.assignment]
        ends = {r.broker: (r.log_end_offset, r.high_watermark) for r in assigned}
        if len(set(ends.values())) != 1 or any(end != mark for end, mark in ends.values()):
            return f"ends and high watermarks of {partition} differ: {ends}"
    for anomaly in replicas.converged(without_strays(view) if but_strays else view):
        return str(anomaly)
    return None


def without_strays(view: ClusterView) -> ClusterView:
    return replace(
        view,
        strays=(),
        partitions={
            partition: replace(
                state, replicas=tuple(r for r in state.replicas if r.broker in state.assignment)
            )
            for partition, state in view.partitions.items()
        },
    )


def describe(outcome: Outcome, *, changes: Sequence[str] = (), last: int = 50) -> str:
    """What somebody who has to find the bug wants to see, and what it was in the last line.

    `changes`: the state changes of the run (`trace`), where somebody wrote them down; else what the world was told.
    """
    lines: list[str] = []
    if outcome.code != OK:
        lines += [f"seed {outcome.seed}", f"first broken: {outcome.reason}"]
        lines += [f"  also: {anomaly}" for anomaly in outcome.anomalies[1:5]]
        numbers = {} if outcome.plan is None else {f: n for n, f in enumerate(outcome.plan.faults)}
        lines += ["", "faults:"] + [f"  {numbers.get(f, '-')}: {f}" for f in outcome.injected]
        told = changes or [f"{at:9.4f} {text}" for at, text in outcome.notes]
        lines += ["", f"the last {last} changes:"]
        lines += [f"  {text}" for text in told[-last:]]
        lines.append("")
    return "\n".join([*lines, outcome.line])
