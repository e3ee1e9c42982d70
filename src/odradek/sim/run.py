"""One seed from beginning to end: safety with faults, then heal and demand liveness.

The world must be right at every look (invariants over snapshots), the clients' history must be right at the end, and
once everything is healed all of it must come to rest within bounded simulated time: every acknowledged record readable,
every ISR full, every replica identical. `Rest.pending` says why it is not at rest yet.
"""

import asyncio
import gc
import logging
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from odradek.model.ids import TopicPartition
from odradek.sim import faults
from odradek.sim.checkers import replicas
from odradek.sim.checkers.deliveries import check
from odradek.sim.checkers.history import Anomaly, History
from odradek.sim.client import SimClient, SimConsumer, SimProducer
from odradek.sim.loop import Host
from odradek.sim.plan import Fault, Plan
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

    @property
    def line(self) -> str:
        word = {OK: "ok", CRASH: "crash", LIVENESS: "liveness", CORRECTNESS: "correctness"}[self.code]
        return (
            f"seed {self.seed}: {word}, {self.events} events, {self.faults} faults, {self.acked_batches} acknowledged "
            f"batches, {self.simulated_s / 3600:.4f} logical hours, trace {self.trace_hash:016x}"
        )


def run(plan: Plan, *, observe: Callable[[World], None] | None = None) -> Outcome:
    """Runs `plan`; never raises for what a broker did."""
    quiet = logging.getLogger("odradek")
    level = quiet.level
    quiet.setLevel(logging.CRITICAL)  # the method, not the attribute: loggers cache what they let through
    outcome = Outcome(plan.seed)
    world = World(
        plan.seed,
        brokers=plan.brokers,
        settings={**({"log.flush.interval.messages": "1"} if plan.flushes else {}), **plan.settings},
        store_notices_death=plan.store_notices_death,
    )
    try:
        _Run(plan, world, outcome, observe).whole()
    finally:
        quiet.setLevel(level)
        outcome.events = world.loop.events
        outcome.simulated_s = world.loop.time()
        outcome.trace_hash = world.loop.trace_hash
        outcome.notes = world.notes
        outcome.acked_batches = sum(1 for s in outcome.history.sends() if s.outcome == "ok")
        let_go(world)
    return outcome


def let_go(world: World) -> None:
    """Tasks of the world are collected while they wait; Python tells of each, and here that is no news."""
    if sys.unraisablehook is not _say_what_is_news:
        sys.unraisablehook = _say_what_is_news
    world.loop.close()
    world.brokers.clear()
    world.loop.drop_hosts()
    gc.collect()


def _say_what_is_news(unraisable: "sys.UnraisableHookArgs") -> None:
    """A coroutine of a dead host that is collected would like to wait in its `finally`; it cannot, and must not."""
    if not (isinstance(unraisable.exc_value, RuntimeError) and asyncio.iscoroutine(unraisable.object)):
        sys.__unraisablehook__(unraisable)


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
        self.committed = replicas.Committed()
        self.leaders = replicas.Leaders()
        self.high_watermarks = replicas.HighWatermarks()
        self.partitions = [TopicPartition(TOPIC, n) for n in range(plan.partitions)]
        self.is_over = False
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

        async def create() -> object:
            await self.client.refresh([])
            return await self.client.create_topic(
                TOPIC,
                plan.partitions,
                plan.replication_factor,
                {
                    "min.insync.replicas": str(plan.min_insync_replicas),
                    **({"flush.messages": "1"} if plan.flushes else {}),
                },
            )

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
            self._advance_to(world.loop.time() + 0.5)
        found = [a for rest in replicas.REST_CHECKS for a in rest(world.view())]
        if found:
            raise Broken(CORRECTNESS, str(found[0]), found)
        self._read_everything()
        found = check(self.history)
        if found:
            raise Broken(CORRECTNESS, str(found[0]), found)

    # --- looking

    def _advance_to(self, when: float) -> None:
        world = self.world
        world.loop.run_until(when)
        if world.loop.unhandled:
            first = world.loop.unhandled[0]
            raise Broken(CRASH, f"{first.get('message')}: {first.get('exception')!r}")
        if world.loop.events > MOST_EVENTS:
            raise Broken(LIVENESS, f"more than {MOST_EVENTS} events: something goes round in circles")
        self._look()

    def _look(self) -> None:
        view = self.world.view()
        found = [a for look in replicas.STEP_CHECKS for a in look(view)]
        for memory in (self.committed, self.leaders, self.high_watermarks):
            found += memory.observe(view)
        if self.observe is not None:
            self.observe(self.world)
        if found:
            raise Broken(CORRECTNESS, str(found[0]), found)

    def _pending(self) -> str | None:
        if self.producing and self.world.is_ready():
            return f"{self.producing} sends are not finished"
        return why_not_at_rest(self.world)

    # --- clients

    async def _produce(self, number: int) -> None:
        plan = self.plan
        client = self._new_client()
        await client.refresh([TOPIC])
        producer = SimProducer(
            client, f"p{number}", self.history, acks=plan.acks, is_idempotent=plan.is_idempotent
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
        consumer = SimConsumer(client, f"follow-{partition.partition}", partition, self.history)
        while not self.is_over:
            await consumer.poll()

    def _read_everything(self) -> None:
        """The final polls: a new consumer of each partition, from the beginning to the high watermark."""
        world = self.world

        async def read(partition: TopicPartition) -> None:
            client = self._new_client()
            await client.refresh([TOPIC])
            consumer = SimConsumer(client, f"final-{partition.partition}", partition, self.history)
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


def why_not_at_rest(world: World) -> str | None:
    """None when everybody runs, every ISR is whole, and every replica knows and has everything (I11, I12)."""
    for broker in world.brokers.values():
        if not broker.is_running:
            return f"{broker.name} does not run: {broker.exit_reason!r}"
    if not world.is_ready():
        return "not every broker knows the others and the controller"
    view = world.view(with_batches=False)
    for partition, state in view.partitions.items():
        if state.stored is None or state.stored.leader < 0:
            return f"{partition} has no leader: {state.stored}"
        if set(state.stored.isr) != set(state.assignment):
            return f"the ISR of {partition} is {list(state.stored.isr)} of {list(state.assignment)}"
        ends = {r.broker: (r.log_end_offset, r.high_watermark) for r in state.replicas}
        if len(set(ends.values())) != 1 or any(end != mark for end, mark in ends.values()):
            return f"ends and high watermarks of {partition} differ: {ends}"
    for anomaly in replicas.converged(view):
        return str(anomaly)
    return None


def describe(outcome: Outcome, *, last: int = 50) -> str:
    """What somebody who has to find the bug wants to see first."""
    lines = [outcome.line]
    if outcome.code != OK:
        lines += ["", f"first broken: {outcome.reason}"]
        lines += [f"  also: {anomaly}" for anomaly in outcome.anomalies[1:5]]
        lines += ["", "faults:"] + [f"  {n}: {fault}" for n, fault in enumerate(outcome.injected)]
        lines += ["", f"the last {last} changes:"]
        lines += [f"  {at:9.4f} {text}" for at, text in outcome.notes[-last:]]
    return "\n".join(lines)
