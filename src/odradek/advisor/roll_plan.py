"""Restarting brokers without an outage: an order with a certificate, or a counter-example.

A plan is a list of batches. Brokers of a batch are restarted together, and the next batch waits until every ISR is
full again. It is safe if at no moment - a batch down, and one more broker, any, dying at the worst time - a
partition is left without a live member of its ISR: then nothing goes offline, and every acknowledged record is on
somebody who lives. (A partition that the one death takes offline by itself is no fault of the plan; it is named.) Partitions that fall under min.insync.replicas meanwhile are named: at RF 3 and min ISR 2 one
restart plus one death always does that.

As the next batch waits for full ISRs, a partition is looked at as it stands, with its live replicas back in sync, and, if it
is being reassigned, as it will be on its target alone: who is added has nothing yet and will have everything.

The certificate is the list of all these moments with what was left. `check` does not believe it: it asks the
controller's own step (`what_if`) about every one of them again, now and when it has waited.
"""

from collections.abc import Collection, Iterable, Iterator

from odradek.advisor.what_if import what_if
from odradek.advisor.what_if_steps import CatchUp, Reassign, ask
from odradek.controller.context import ControllerContext
from odradek.controller.reassignment_requests import refusal
from odradek.model.counted import counted
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import BrokerId, TopicPartition
from odradek.model.values import dataclass


@dataclass(frozen=True, slots=True)
class CounterExample:
    """With `down` restarting, the death of `dies` leaves `topic_partition` without a live member of its ISR.

    `dies` None: it is enough that they restart. `is_moved`: once its reassignment has ended; `isr` is its target.
    """

    down: tuple[BrokerId, ...]
    dies: BrokerId | None
    topic_partition: TopicPartition
    isr: tuple[BrokerId, ...]
    is_moved: bool = False

    def sentence(self) -> str:
        who = ",".join(map(str, self.down))
        death = f" and broker {self.dies} dies" if self.dies is not None else ""
        then = ", once its reassignment has ended" if self.is_moved else ""
        return f"while {who} restarts{death}, no member of the ISR {list(self.isr)} of {self.topic_partition} is live{then}"


@dataclass(frozen=True, slots=True)
class Moment:
    """One batch down: partitions under min.insync.replicas by the restart alone, and with one more death."""

    down: tuple[BrokerId, ...]
    under_min_isr: tuple[TopicPartition, ...]
    under_min_isr_after_a_death: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class RollPlan:
    """`batches` in order with their certificate; or no batches and the counter-examples."""

    batches: tuple[tuple[BrokerId, ...], ...]
    certificate: tuple[Moment, ...]
    counter_examples: tuple[CounterExample, ...]
    survives: int  # deaths on top of the restart

    @property
    def is_safe(self) -> bool:
        return not self.counter_examples

    def sentences(self) -> list[str]:
        if not self.is_safe:
            return ["no order is safe:", *(f"  {example.sentence()}" for example in self.counter_examples)]
        lines = []
        for number, moment in enumerate(self.certificate, start=1):
            text = f"{number}. restart {','.join(map(str, moment.down))}"
            if moment.under_min_isr:
                text += (
                    f"; meanwhile acks=all is refused in {counted(len(moment.under_min_isr), 'partition')}"
                )
            elif moment.under_min_isr_after_a_death:
                refusing = counted(len(moment.under_min_isr_after_a_death), "partition")
                text += f"; if one more dies, acks=all is refused in {refusing}"
            lines.append(text)
        return lines

    def as_json(self) -> dict[str, object]:
        return {
            "safe": self.is_safe,
            "survives_deaths": self.survives,
            "batches": [list(batch) for batch in self.batches],
            "certificate": [
                {
                    "down": list(m.down),
                    "under_min_isr": [str(tp) for tp in m.under_min_isr],
                    "under_min_isr_after_a_death": [str(tp) for tp in m.under_min_isr_after_a_death],
                }
                for m in self.certificate
            ],
            "counter_examples": [
                {
                    "down": list(e.down),
                    "dies": e.dies,
                    "partition": str(e.topic_partition),
                    "isr": list(e.isr),
                    "after_reassignment": e.is_moved,
                }
                for e in self.counter_examples
            ],
        }


def roll_plan(
    context: ControllerContext,
    brokers: Collection[BrokerId],
    *,
    survives: int = 1,
    at_once: int | None = None,
) -> RollPlan:
    """Batches for restarting `brokers`; the controller last. `survives` is 1 or 0 further deaths.

    Greedy: each batch takes as many brokers as stay safe together (at most `at_once`), lowest id first.
    """
    assert survives in (0, 1), "one more death, or none"
    wanted = sorted(set(brokers))
    unknown = [b for b in wanted if b not in context.brokers]
    if unknown:
        raise ValueError(f"cannot restart {unknown}: live brokers are {sorted(context.brokers)}")
    held = context.partitions_on
    alone = [
        example
        for b in wanted
        for example in _dangers(context, (b,), survives, among=sorted(held.get(b, ())))
    ]
    if alone:
        return RollPlan((), (), tuple(alone), survives)
    waiting = [b for b in wanted if b != context.broker]
    batches: list[tuple[BrokerId, ...]] = []
    while waiting:
        batch: list[BrokerId] = []
        for broker in waiting:
            full = at_once is not None and len(batch) >= at_once
            # Those that it has nothing of are as safe as without it.
            dangers = _dangers(context, (*batch, broker), survives, among=held.get(broker, ()))
            if not full and next(dangers, None) is None:
                batch.append(broker)
        batches.append(tuple(batch))
        waiting = [b for b in waiting if b not in batch]
    if context.broker in wanted:
        batches.append((context.broker,))
    return RollPlan(tuple(batches), tuple(_moment(context, b, survives) for b in batches), (), survives)


def fragile(context: ControllerContext) -> tuple[TopicPartition, ...]:
    """Partitions that one death takes offline whether anybody restarts or not: no order can help them."""
    found = []
    for topic_partition in sorted(context.assignments):
        state = context.leadership(topic_partition)
        if state is None or state.leader not in context.brokers:
            continue
        if len([b for b in state.isr if b in context.brokers]) == 1:
            found.append(topic_partition)
    return tuple(found)


def check(context: ControllerContext, plan: RollPlan) -> list[str]:
    """Everything that is wrong with a plan, by the controller's own step on a copy; empty: it holds.

    Moments are independent: between batches every ISR is full again, so each is asked of `context` and of what it is then.
    """
    wrong: list[str] = []
    named = [b for batch in plan.batches for b in batch]
    if len(set(named)) != len(named):
        wrong.append("a broker is restarted twice")
    for batch, moment in zip(plan.batches, plan.certificate, strict=True):
        if batch != moment.down:
            wrong.append(f"the certificate speaks of {moment.down}, the plan of {batch}")
    for state in (context, *_when_waited(context)):
        wrong.extend(sentence for sentence in _wrong_in(state, plan) if sentence not in wrong)
    return wrong


def _when_waited(context: ControllerContext) -> Iterator[ControllerContext]:
    """As it is before the next batch: reassignments that can end have ended, and live replicas are in sync. Nothing: as it is."""
    wanted = {where: moving.stored.target_replicas for where, moving in context.reassignments.items()}
    targets = {
        where: target
        for where, target in wanted.items()
        if refusal(context, where, target)[0] is ErrorCode.NONE
    }
    steps = [Reassign(targets)] if targets else []
    (*_, caught_up), then = ask(context, [*steps, CatchUp()])
    if targets or caught_up.outcomes:
        yield then


def _wrong_in(context: ControllerContext, plan: RollPlan) -> Iterator[str]:
    # What a death alone takes offline is no fault of the plan: `fragile` names it.
    alone: dict[tuple[BrokerId, ...], set[TopicPartition]] = {(): set()}
    for broker in sorted(context.brokers):
        gone = what_if(context, kill=[broker]).with_verdict("goes offline")
        alone[broker,] = {o.topic_partition for o in gone}
    for batch, moment in zip(plan.batches, plan.certificate, strict=True):
        others = [b for b in sorted(context.brokers) if b not in batch]
        deaths: list[tuple[BrokerId, ...]] = [(), *((b,) for b in others)] if plan.survives else [()]
        for dead in deaths:
            answer = what_if(context, kill=[*batch, *dead])
            yield from (
                f"{o.topic_partition} goes offline when {list(batch)} restarts and {list(dead)} dies"
                for o in answer.with_verdict("goes offline")
                if o.topic_partition not in alone[dead]
            )
            certified = moment.under_min_isr_after_a_death if dead else moment.under_min_isr
            unnamed = {o.topic_partition for o in answer.with_verdict("falls under min ISR")} - set(certified)
            yield from (f"{tp} falls under min ISR and is not named" for tp in sorted(unnamed))


def _dangers(
    context: ControllerContext, down: tuple[BrokerId, ...], survives: int, *, among: Iterable[TopicPartition]
) -> Iterator[CounterExample]:
    """Partitions that would be left without a live member of the ISR."""
    for topic_partition in among:
        state = context.leadership(topic_partition)
        if state is None or state.leader not in context.brokers:
            continue  # offline before anybody restarts: not made so by us
        live = tuple(b for b in state.isr if b in context.brokers)
        target = _target(context, topic_partition)
        # Where nobody of the target restarts, only a death could do harm, and that by itself.
        for isr, members in ((state.isr, live), (target, target if set(down) & set(target) else ())):
            if not members and isr is target:
                continue
            left = [b for b in members if b not in down]
            if not left:
                yield CounterExample(down, None, topic_partition, isr, isr is target)
                break
            if survives and len(left) == 1:
                yield CounterExample(down, left[0], topic_partition, isr, isr is target)
                break


def _target(context: ControllerContext, topic_partition: TopicPartition) -> tuple[BrokerId, ...]:
    """Of a partition that is being reassigned: who has it at the end, all of them in sync. Else nobody."""
    moving = context.reassignments.get(topic_partition)
    return moving.stored.target_replicas if moving is not None else ()


def _moment(context: ControllerContext, down: tuple[BrokerId, ...], survives: int) -> Moment:
    under: list[TopicPartition] = []
    after_death: list[TopicPartition] = []
    partitions = set(context.assignments) if survives else _touched(context, down)
    for topic_partition in sorted(partitions):
        state = context.leadership(topic_partition)
        if state is None or state.leader not in context.brokers:
            continue
        missing = _missing(context, topic_partition, state.isr, down)
        if missing > 0:
            under.append(topic_partition)
        if survives and missing > -1:
            after_death.append(topic_partition)
    return Moment(down, tuple(under), tuple(after_death))


def _missing(
    context: ControllerContext,
    topic_partition: TopicPartition,
    isr: tuple[BrokerId, ...],
    down: tuple[BrokerId, ...],
) -> int:
    """How many are missing for acks=all at worst while these are down; negative: so many may be lost besides. Not of an ISR that is
    too small already."""
    minimum = context.effective_min_isr(topic_partition)
    live = [b for b in isr if b in context.brokers]
    back = context.online_of(context.assignments[topic_partition].replicas, topic_partition)
    target = _target(context, topic_partition)
    at_the_end = min(context.min_insync_replicas(topic_partition.topic), len(target))
    found = [
        least - len([b for b in members if b not in down])
        for before, members, least in (
            (isr, live, minimum),
            ({*isr, *back}, {*live, *back}, minimum),
            (target, target, at_the_end),
        )
        if before and len(before) >= least
    ]
    return max(found, default=-len(isr))


def _touched(context: ControllerContext, brokers: tuple[BrokerId, ...]) -> set[TopicPartition]:
    touched: set[TopicPartition] = set()
    for broker in brokers:
        touched |= context.partitions_on.get(broker, set())
    return touched
