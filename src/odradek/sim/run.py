"""One seed from beginning to end: safety with faults, then heal and demand liveness.

The world must be right at every check (invariants over snapshots), the clients' history must be right at the end, and
once everything is healed all of it must become quiescent within bounded simulated time: every acknowledged record readable,
every ISR full, every replica identical. `quiescence.pending` says why it is not quiescent yet.
"""

import asyncio
import gc
import math
import sys
from bisect import insort
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from odradek.log.memory_files import Crashed as DiedInTheMidst
from odradek.model.ids import TopicPartition
from odradek.model.topic_names import GROUPS_TOPIC, TRANSACTIONS_TOPIC
from odradek.sim.checkers import replicas
from odradek.sim.checkers.burden import overburdened
from odradek.sim.checkers.cleanings import dirty_is_cleaned
from odradek.sim.checkers.deliveries import FINAL, check
from odradek.sim.checkers.groups import Fetched, GroupHistory, check_groups, judged_too_early
from odradek.sim.checkers.history import Anomaly, History
from odradek.sim.checkers.measures import measures
from odradek.sim.checkers.mixed import check_mixed
from odradek.sim.checkers.quiescence import unsettled
from odradek.sim.checkers.sharers import Left, check_sharing
from odradek.sim.checkers.transactions import check_transactions
from odradek.sim.checkers.waits import nobody_is_forgotten
from odradek.sim.clients.administration import Administration
from odradek.sim.clients.client import RETRY_S
from odradek.sim.clients.group_member import GROUP as READERS
from odradek.sim.clients.group_member import GroupClient
from odradek.sim.clients.ledger import LEDGER
from odradek.sim.clients.ledger import assignments as ledger_assignments
from odradek.sim.clients.mixed_group import GROUP as MIXED
from odradek.sim.clients.sharer import GROUP as SHARERS
from odradek.sim.clients.workload import MACHINE, NUMBER, Workload
from odradek.sim.faults import rolling
from odradek.sim.faults.injection import inject
from odradek.sim.loop import Host
from odradek.sim.meter import Meter
from odradek.sim.mistakes import Mistake, Mistakes, quiet_but_for
from odradek.sim.observed import liveness
from odradek.sim.observed.acknowledgements import Acknowledgements
from odradek.sim.observed.answers import wrong_at_rest
from odradek.sim.observed.burden import burdens
from odradek.sim.observed.cleanings import uncleaned
from odradek.sim.observed.coordinator_memory import forgetful
from odradek.sim.observed.described import described_wrongly, untidy_store
from odradek.sim.observed.quiescence import IDLE_S, not_quiescent, pending
from odradek.sim.observed.restart import known_differently, would_not_restart
from odradek.sim.observed.retention import deleted_unasked, unretained
from odradek.sim.observed.waits import unanswered
from odradek.sim.observed.watch import Watch
from odradek.sim.plan import (
    CLOCKS,
    COMPACTED,
    LEAVES_ONE_DIRECTORY,
    LOSE_ONE,
    MIXED_PARTITIONS,
    MOVE_THE_LOG_START,
    MOVES_LOGS,
    SETS_MIN_ISR,
    THROTTLES,
    TOPICS,
    UNCLEAN,
    WANT_SCRUBBING,
    Fault,
    Plan,
    classes_of,
    draw,
)
from odradek.sim.world import NotInTime, World

TOPIC = TOPICS[0]
# As a broker's process has them: what a world makes lives to its end, and is let go at once then.
GC_THRESHOLDS = (50_000, 50, 100)
CHECK_EVERY_S = 0.25
ATTEMPTS = 5
AGAIN_S = 0.5
CLEANED_WITHIN_S = (
    20.0  # one pass over one log, where 4,000 bytes a second are cleaned; a small map takes many passes
)
LIVENESS_S = 60.0  # in 2,000 seeds the longest way to quiescence was 10.5 s
# The controller may be moving leaders to where they belong just then; and a follower without a session, for whom there is no
# room, hears of a log start with its second fetch, of which each waits for `replica.fetch.wait.max.ms`.
STAYS_S = 5.0
GOES_ON_S = 0.5
MOST_EVENTS = 400_000
REQUEST_NS = 300_000_000  # by the stopwatch alone: a few in a second use up half of the time
# Logs are read again all the time, and recovery knows what had been flushed: the two ways in which damage is found.
SCRUBBED = {
    "odradek.log.scrub.bytes.per.second": "200000",
    "log.flush.offset.checkpoint.interval.ms": "1000",
}

OK, CRASH, LIVENESS, CORRECTNESS = 0, 127, 128, 129


@dataclass(slots=True)
class Outcome:
    seed: int
    code: int = OK
    reason: str = ""
    error: str = ""  # of a crash: the type of the exception
    traceback: str = ""
    why: list[str] = field(default_factory=list)  # of a cluster that does not become quiescent
    events: int = 0
    faults: int = 0
    acked_batches: int = 0
    simulated_s: float = 0.0
    trace_hash: int = 0
    anomalies: list[Anomaly] = field(default_factory=list)
    notes: list[tuple[float, str]] = field(default_factory=list)
    injected: list[Fault] = field(default_factory=list)
    looks: list[tuple[int, int]] = field(default_factory=list)  # events and hash of the trace at every look
    history: History = field(default_factory=History)

    @property
    def hash_line(self) -> str:
        """A line of `--hashes`. A change of the code that keeps it keeps every step of the run."""
        return f"{self.seed} {self.events} {self.trace_hash:016x}"

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
            **measures(self.history),
        }

    @property
    def line(self) -> str:
        word = {OK: "ok", CRASH: "crash", LIVENESS: "liveness", CORRECTNESS: "correctness"}[self.code]
        classes = classes_of(fault.kind for fault in self.injected)
        faults = f"{self.faults} faults" + (f" ({', '.join(classes)})" if classes else "")
        return (
            f"seed {self.seed}: {word}, {self.events} events, {faults}, {self.acked_batches} acknowledged "
            f"batches, {self.simulated_s / 3600:.4f} logical hours, trace {self.trace_hash:016x}"
        )


def run(
    plan: Plan,
    *,
    observe: Callable[[World], None] | None = None,
    prepare: Callable[[World, History], None] | None = None,
    most_looks: int = sys.maxsize,
    ends_process: bool = False,
) -> Outcome:
    """Runs `plan`; never raises for what a broker did.

    `observe` is called at every check, `prepare` once before anything runs: neither may change anything. `most_looks`: it
    ends with the look of this number, and is right so far. `ends_process`: nothing runs in this process afterwards, so the
    world is not taken apart.
    """
    outcome = Outcome(plan.seed)
    world = World(
        plan.seed,
        brokers=plan.brokers,
        settings={
            **({"log.flush.interval.messages": "1"} if plan.flushes else {}),
            **(SCRUBBED if plan.has(WANT_SCRUBBING) else {}),
            **plan.settings,
        },
        store_notices_death=plan.store_notices_death,
        disks_per_broker=plan.disks_per_broker,
        requests_kept=plan.requests_kept,
    )
    world.threads_run_out = plan.has(frozenset({"threads_run_out"}))
    world.requests_take_ns = REQUEST_NS if plan.times_requests else 0
    world.counts_steps = plan.is_metered
    if not plan.has_send_buffers:
        world.network.send_buffer_bytes = 0
    if prepare is not None:
        prepare(world, outcome.history)
    mistakes = Mistakes(world)
    thresholds = gc.get_threshold()
    gc.set_threshold(*GC_THRESHOLDS)
    with quiet_but_for(mistakes), _quiet_about_the_dead():
        try:
            _Run(plan, world, outcome, mistakes, observe, most_looks).whole()
        finally:
            _note_figures(outcome, world)
            if not ends_process:
                let_go(world)
            gc.set_threshold(*thresholds)
    return outcome


@contextmanager
def _quiet_about_the_dead() -> Iterator[None]:
    """A generator of a process that died is closed when it is collected, and what it does then on its disk is refused."""
    before = sys.unraisablehook

    def heard(unraisable: "sys.UnraisableHookArgs") -> None:
        if not isinstance(unraisable.exc_value, DiedInTheMidst):
            before(unraisable)

    sys.unraisablehook = heard
    try:
        yield
    finally:
        sys.unraisablehook = before


def _note_figures(outcome: Outcome, world: World) -> None:
    outcome.events = world.loop.events
    outcome.simulated_s = world.loop.time()
    outcome.trace_hash = world.loop.trace_hash
    outcome.notes = list(world.notes)
    outcome.acked_batches = sum(1 for s in outcome.history.sends() if s.outcome == "ok")


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


class Enough(Exception):
    """So many looks were wanted."""


class Crashed(Exception):
    def __init__(self, mistake: Mistake) -> None:
        super().__init__(str(mistake))
        self.mistake = mistake


class _Run:
    def __init__(
        self,
        plan: Plan,
        world: World,
        outcome: Outcome,
        mistakes: Mistakes,
        observe: Callable[[World], None] | None = None,
        most_looks: int = sys.maxsize,
    ) -> None:
        self.plan = plan
        self._is_administered, self._most_events = plan.is_administered, most_events(plan)
        self.most_looks = most_looks
        self.world = world
        self.outcome = outcome
        self.mistakes = mistakes
        self.history = outcome.history
        self.observe = observe
        self.watch = Watch(world, on_broken=world.loop.interrupt)
        self.acknowledgements = Acknowledgements(
            world,
            MACHINE,
            is_min_isr_fixed=not plan.has(SETS_MIN_ISR),
            # A log that has moved to another directory is flushed there a moment later.
            is_flushed=plan.flushes and not plan.has(MOVES_LOGS),
            on_broken=world.loop.interrupt,
        )
        self.workload = Workload(world, plan, self.history, TOPIC)
        self.partitions = self.workload.partitions
        self.client_host = Host(MACHINE, NUMBER)
        if plan.is_metered:
            world.loop.meter = Meter({broker.name for broker in world.brokers.values()})

    def whole(self) -> None:
        try:
            self._start()
            self._safety()
            self._heal()
            self._liveness()
        except Enough:
            return
        except NotInTime as late:
            self.outcome.code, self.outcome.reason = LIVENESS, str(late)
        except Broken as broken:
            self.outcome.code = broken.code
            self.outcome.reason = str(broken)
            self.outcome.anomalies = broken.anomalies
        except Crashed as crashed:
            self._crashed(crashed.mistake)
        except Exception as error:  # of a checker, of a client, of the world itself
            self._crashed(Mistake("the simulator itself", error))
        found = self.acknowledgements.found or self.watch.found or self.world.let_in
        if (
            self.outcome.code == LIVENESS and found
        ):  # whoever waited was interrupted for this, or nobody has looked since
            self.outcome.code, self.outcome.reason = CORRECTNESS, str(found[0])
            self.outcome.anomalies = list(found)
        # Who never became quiescent, and made a mistake before that, did not become quiescent for that reason.
        if self.outcome.code == LIVENESS:
            self.outcome.why = list(liveness.explained(self.world, self.outcome.anomalies))
        if self.outcome.code in (OK, LIVENESS):
            mistake = self.mistakes.first(grace_s=0.0)
            if mistake is not None:
                self._crashed(mistake)

    def _crashed(self, mistake: Mistake) -> None:
        self.outcome.code = CRASH
        self.outcome.reason = str(mistake)
        self.outcome.error = type(mistake.error).__name__
        self.outcome.traceback = mistake.traceback()

    # --- phases

    def _start(self) -> None:
        world, plan = self.world, self.plan
        if plan.first_level < rolling.HIGHEST:
            rolling.begin_with_the_release_before(world, plan.first_level)
        world.start()
        self.client = self.workload.client()
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
            errors = [
                await self.client.create_topic(
                    topic,
                    plan.partitions if topic == TOPIC else 1,
                    plan.replication_factor,
                    {**configs, **plan.states} if topic == COMPACTED else configs,
                )
                for topic in plan.all_topics
            ]
            if plan.has_transactions:
                of_ledger = {**configs, **plan.ledger}
                of_each = ledger_assignments(plan.brokers, plan.replication_factor)
                errors.append(await self.client.create_topic(LEDGER, -1, -1, of_ledger, assignments=of_each))
            return max(errors)

        error = world.call(self.client_host, create())
        if error != 0:
            raise Broken(LIVENESS, f"the topic could not be created: {error!r}")
        world.clients = self.workload
        self.workload.start()

    def _safety(self) -> None:
        world, plan = self.world, self.plan
        begun = world.loop.time()
        to_come = [(fault.at_s, fault) for fault in sorted(plan.faults)]
        end = begun + plan.duration_s
        while world.loop.time() < end:
            due = begun + to_come[0][0] if to_come else end
            self._advance_to(min(due, end, world.loop.time() + CHECK_EVERY_S))
            while to_come and world.loop.time() >= begun + to_come[0][0]:
                at_s, fault = to_come.pop(0)
                if inject(world, fault):
                    self.outcome.faults += 1
                    self.outcome.injected.append(fault)
                elif fault.kind in LOSE_ONE:  # it waits until everybody is well
                    insort(to_come, (plan.not_quiet(at_s + AGAIN_S), fault))

    def _heal(self) -> None:
        self.workload.is_over = self.workload.are_groups_over = True
        self.world.heal_all()
        self.workload.go_on()
        if self.workload.ledger is not None and self.plan.has(CLOCKS):
            self.workload.ledger.take_over_all(self.client_host)

    def _liveness(self) -> None:
        world = self.world
        # Whoever stood still does now what has waited for it; before that a cluster may only look quiescent.
        self._advance_to(world.loop.time() + GOES_ON_S)
        self._come_to_rest()
        self._be_idle(liveness.quiet_s(world))
        self._come_to_rest(within_s=STAYS_S)
        if world.administration is not None and self.plan.has(LEAVES_ONE_DIRECTORY):
            self._watched(world.administration.one_directory_left_at_rest())
            self._come_to_rest()
        liveness.goes_on(world, self.workload, self.client_host)
        if world.administration is not None and self.plan.has(MOVE_THE_LOG_START):
            world.call(self.client_host, world.administration.delete_at_rest(), within_s=liveness.PROMPT_S)
            world.call(
                self.client_host, world.administration.leader_moves_at_rest(), within_s=liveness.PROMPT_S
            )
        if world.administration is not None and self.plan.has(THROTTLES):
            self._watched(world.administration.throttle_at_rest())
        found = list(liveness.groups_go_on(world, self.workload))
        if found:
            raise Broken(CORRECTNESS, str(found[0]), found)
        if self.workload.ledger is not None:
            self.workload.ledger.goes_on(self.client_host)
        if world.administration is not None:
            world.call(self.client_host, world.administration.topic_at_rest(), within_s=liveness.PROMPT_S)
        self._come_to_rest(within_s=STAYS_S)
        found = wrong_at_rest(world, self.workload.connected, self.client_host)
        if world.administration is not None:
            found += world.administration.namesakes_at_rest()
        if self.plan.is_described:
            found += described_wrongly(world, self.workload.connected, self.client_host)
        # While they were asked, a preferred leader may have taken over (seed 1819).
        self._come_to_rest(within_s=STAYS_S)
        view = world.view()
        found += [a for check in replicas.QUIESCENCE_CHECKS for a in check(view)]
        found += known_differently(world)
        found += untidy_store(world)
        found += deleted_unasked(world, self.watch.retention.furthest)
        found += would_not_restart(world)
        if found:
            raise Broken(CORRECTNESS, str(found[0]), found)
        self._coordinators_remember()
        self._read_everything()
        found = self._judge()
        if found:
            raise Broken(CORRECTNESS, str(found[0]), found)
        self._be_idle(IDLE_S)
        self._be_cleaned()

    def _watched(self, work: Coroutine[Any, Any, None]) -> None:
        """`World.call`, with looks: of what takes longer than what is looked at stays to be seen."""
        world, task = (
            self.world,
            self.world.loop.create_task(work, context=self.world.loop.context_of(self.client_host)),
        )
        while not task.done():
            self._advance_to(world.loop.time() + CHECK_EVERY_S)
        task.result()

    def _coordinators_remember(self) -> None:
        """The end of a session writes to a log at any time, so what differs is compared again, a few times."""
        for _ in range(ATTEMPTS):
            found = list(forgetful(self.world))
            if not found:
                return
            self._advance_to(self.world.loop.time() + CHECK_EVERY_S)
        raise Broken(CORRECTNESS, str(found[0]), found)

    def _be_idle(self, seconds: float) -> None:
        """Time passes in which nothing is to happen."""
        world = self.world
        end = world.loop.time() + seconds
        before, asked = world.view(with_batches=False).partitions, list(unanswered(world))
        while world.loop.time() < end:
            found = not_quiescent(world)
            if found:
                raise Broken(LIVENESS, str(found[0]), found)
            self._advance_to(world.loop.time())
        found = list(unsettled(before, world.view(with_batches=False).partitions))
        found += nobody_is_forgotten(asked, unanswered(world))
        if found:
            raise Broken(LIVENESS, str(found[0]), found)

    def _be_cleaned(self) -> None:
        """What is dirty enough is compacted, and what is too old or too much is let go, though nothing is written any more."""
        world = self.world
        at_rest_s = world.loop.time()
        while found := [*(dirty_is_cleaned(*one) for one in uncleaned(world)), *unretained(world)]:
            now_s = world.loop.time()
            if now_s - max(at_rest_s, self.watch.cleanings.advanced_s) >= CLEANED_WITHIN_S:
                raise Broken(LIVENESS, f"{now_s - at_rest_s:g} s after the last record: {found[0]}", found)
            self._advance_to(world.loop.time() + 0.5)

    def _come_to_rest(self, within_s: float = 0.0) -> None:
        """`within_s`: of a cluster that was quiescent and was asked for nothing that takes longer."""
        world = self.world
        patience_s = within_s or LIVENESS_S
        since = "it was at rest" if within_s else "everything was healed"
        end = world.loop.time() + patience_s
        while True:
            found = pending(world, self._unfinished())
            if not found:
                return
            if world.loop.time() >= end:
                raise Broken(LIVENESS, f"{patience_s:g} s after {since}: {found[0]}", found)
            for broker in world.brokers.values():
                if not broker.is_running:
                    broker.start()
            self._advance_to(world.loop.time() + 0.5)

    def _judge(self) -> list[Anomaly]:
        topics = self.world.topics
        now = {topics.now(partition) for partition in self.workload.all_partitions}
        log_starts = {}
        if self.plan.has(MOVE_THE_LOG_START) or self.plan.forgets_states:
            for partition, state in self.world.view(with_batches=False).partitions.items():
                named = topics.now(partition)
                if named is not None:
                    log_starts[named] = max(r.log_start_offset for r in state.replicas)
        is_lossy = self._are_lossy({GROUPS_TOPIC})  # what members commit does not hang on records
        sent_off = self.workload.group_history.sent_off
        if self.plan.has(CLOCKS) or is_lossy:
            sent_off = []
        groups = check_groups(
            self.workload.group_history,
            self._made_again(),
            is_lossy=is_lossy,
            removals=self.watch.removals.of(READERS),
        )
        clients = check(
            self.history,
            lossy=topics.lossy().keys(),
            gone={event.topic_partition for event in self.history.events} - now,
            log_starts=log_starts,
            compacted={COMPACTED},
        )
        return [
            *groups,
            *judged_too_early(sent_off),
            *self._judge_sharing(),
            *self._judge_mixed(),
            *self._judge_transactions(),
            *clients,
        ]

    def _judge_sharing(self) -> list[Anomaly]:
        if self._are_lossy({GROUPS_TOPIC}):
            return []
        history, clocks = self.workload.sharing_history, self.plan.has(CLOCKS)
        removals = self.watch.removals.of(SHARERS)
        return list(check_sharing(history, have_clocks_jumped=clocks, removals=removals))

    def _judge_mixed(self) -> list[Anomaly]:
        is_lossy = self._are_lossy({GROUPS_TOPIC})
        history, clocks = self.workload.mixed_history, self.plan.has(CLOCKS)
        return list(check_mixed(history, self._made_again(), is_lossy=is_lossy, have_clocks_jumped=clocks))

    def _are_lossy(self, topics: set[str]) -> bool:
        """Nothing is owed by what an unclean election may have lost."""
        return not topics.isdisjoint(partition.topic for partition in self.world.topics.lossy())

    def _judge_transactions(self) -> list[Anomaly]:
        if self.workload.ledger is None or self._are_lossy({LEDGER, GROUPS_TOPIC, TRANSACTIONS_TOPIC}):
            return []
        return list(check_transactions(self.workload.ledger.history))

    def _made_again(self) -> list[TopicPartition]:
        """Partitions of which a topic of the name was deleted."""
        return [p for p in self.partitions if self.plan.has(frozenset({"recreate_topic"}))]

    # --- checking

    def _advance_to(self, when: float) -> None:
        world = self.world
        # One more than there may be: what goes round in circles lets no time pass.
        world.loop.run_until(when, max_events=max(self._most_events - world.loop.events, 0) + 1)
        if self._is_administered:
            found = world.topics.assignment(TOPIC)
            self.workload.partitions_are(0 if found is None else len(found.partitions))
        mistake = self.mistakes.first()
        if mistake is not None:
            raise Crashed(mistake)
        if world.loop.events > self._most_events:
            raise Broken(LIVENESS, f"more than {self._most_events} events: something goes round in circles")
        self._check_invariants()
        self.outcome.looks.append((world.loop.events, world.loop.trace_hash))
        if len(self.outcome.looks) >= self.most_looks:
            raise Enough

    def _check_invariants(self) -> None:
        found = self.acknowledgements.found or self.watch.found or self.watch.check()
        if self.observe is not None:
            self.observe(self.world)
        found = found or self.world.let_in or [a for b in burdens(self.world) for a in overburdened(b)]
        if found:
            raise Broken(CORRECTNESS, str(found[0]), found)

    def _unfinished(self) -> list[str]:
        sending = self.workload.sends_under_way
        found = [f"{sending} sends are"] if sending and self.world.is_ready() else []
        if self.workload.ledger is not None:
            found += self.workload.ledger.unfinished()
        if self.world.roll is not None:
            found += self.world.roll.unfinished()
        administration = self.world.administration
        if administration is not None and administration.working:
            found.append(f"{administration.working} actions of administrators are")
        for broker in self.world.brokers.values():
            if broker.is_serving and broker.runtime is not None:
                moving = broker.runtime.logs.futures.logs
                found += [f"the move of {p} on {broker.name} is" for p in moving]
        return found

    # --- the end

    def _read_everything(self) -> None:
        """The final polls: a new consumer of each partition, from the beginning to the high watermark."""
        world = self.world

        async def read(partition: TopicPartition) -> None:
            client = await self.workload.connected()
            consumer = self.workload.consumer(client, f"{FINAL}{partition.partition}", partition)
            while True:
                count = await consumer.poll(max_wait_ms=0)
                if count <= 0 and consumer.is_at_the_end:
                    return

        for partition in self.workload.all_partitions:
            world.call(self.client_host, read(partition))
        self._same_for_every_replica()
        if self.workload.ledger is not None:
            self.workload.ledger.read_everything(self.client_host)
        if self.plan.has_group:
            world.call(self.client_host, self._offsets_at_the_end(READERS, self.workload.group_history))
        if self.plan.mixed_group:
            world.call(self.client_host, self._offsets_at_the_end(MIXED, self.workload.mixed_history.offsets))
        if self.plan.has_sharers and not self._made_again():  # with a topic goes what was committed of it
            world.call(self.client_host, self._left_by_sharers())

    async def _left_by_sharers(self) -> None:
        history = GroupHistory()
        await self._offsets_at_the_end(SHARERS, history)
        for one in history.events:
            if isinstance(one, Fetched):
                topic, number = one.topic_partition
                found = self.world.topics.assignment(topic)
                if found is not None:
                    self.workload.sharing_history.left.append(Left((found.topic_id, number), one.offset))

    async def _offsets_at_the_end(self, name: str, history: GroupHistory) -> None:
        group = GroupClient(await self.workload.connected(), name)
        asked_s = group.now_s
        while (found := await group.offsets(self.partitions)) is None:
            await asyncio.sleep(RETRY_S)
        for partition, offset in found.items():
            history.events.append(Fetched(partition, offset, asked_s, group.now_s))

    def _same_for_every_replica(self) -> None:
        """What the leader served is what every replica holds: by offset, count and checksum (I9, quiescent)."""
        found = list(replicas.identical_logs(self.world.view()))
        if found:
            raise Broken(CORRECTNESS, str(found[0]), found)


def most_events(plan: Plan) -> int:
    """Of a run that goes on. What is drawn has at most so many of each; somebody who asks for more gets as much more."""
    partitions = 3 + MIXED_PARTITIONS * bool(plan.mixed_group)
    larger = (plan.duration_s / 16.0, plan.partitions / partitions, plan.producers / 3)
    return int(MOST_EVENTS * math.prod(max(share, 1.0) for share in larger))


def describe(
    outcome: Outcome, *, faults: Sequence[Fault] | None = None, changes: Sequence[str] = (), last: int = 50
) -> str:
    """What somebody who has to find the bug wants to see, and what it was in the last line.

    `faults`: of the plan, by which they are numbered; None: as the seed draws them. `changes`: the state changes of the run (`trace`), where somebody wrote them down; else what the world was told.
    """
    lines: list[str] = []
    if outcome.code != OK:
        lines += [f"seed {outcome.seed}", f"first broken: {outcome.reason}"]
        lines += [f"  also: {anomaly}" for anomaly in outcome.anomalies[1:5]]
        lines += [f"  {line}" for line in outcome.traceback.splitlines()]
        if outcome.why:
            lines += ["", "why:"] + [f"  {line}" for line in outcome.why]
        planned = draw(outcome.seed).faults if faults is None else faults
        numbers = {fault: number for number, fault in enumerate(planned)}
        lines += ["", "faults:"] + [f"  {numbers.get(f, '-')}: {f}" for f in outcome.injected]
        told = changes or [f"{at:9.4f} {text}" for at, text in outcome.notes]
        lines += ["", f"the last {last} changes:"]
        lines += [f"  {text}" for text in told[-last:]]
        lines.append("")
    return "\n".join([*lines, outcome.line])
