"""Several questions, one after another: `what if 3 dies, then orders-0 moves to 1,2, then 2 dies?`

Each step is put to the controller's own core, on the context the step before it left behind. Between two
steps nothing happens by itself: a broker that was started has not caught up, unless `CatchUp` says so. A
reassignment is carried to its end, if it can end: the live newcomers copy, then the live removing replicas delete.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

from odradek.advisor.names import missing_partition, missing_topic
from odradek.advisor.what_if import WhatIf, advance, compared, returned
from odradek.controller.context import CLUSTER_DEFAULT, ControllerContext, ReassignmentPhase
from odradek.controller.effects import StateChange
from odradek.controller.events import Event, Requested, StopReplicaAnswered
from odradek.controller.reassignment_requests import results_of
from odradek.model.cluster import BrokerRegistration
from odradek.model.controller_requests import (
    AlterPartitionAsked,
    AlterPartitionItem,
    AlterReassignmentsAsked,
    ControlledShutdownAsked,
    ElectLeadersAsked,
    IsrMember,
)
from odradek.model.counted import first_of
from odradek.model.error_codes import ErrorCode
from odradek.model.facts import BrokersChanged, ConfigChanged
from odradek.model.ids import NO_LEADER, UNKNOWN_BROKER_EPOCH, BrokerEpoch, BrokerId, TopicPartition
from odradek.model.values import dataclass


@dataclass(frozen=True, slots=True)
class Kill:
    """These brokers fail together."""

    brokers: tuple[BrokerId, ...]


@dataclass(frozen=True, slots=True)
class Start:
    """These brokers come back, with what they had on disk: all of it after a `ShutDown`, else perhaps less (KIP-966)."""

    brokers: tuple[BrokerId, ...]


@dataclass(frozen=True, slots=True)
class ShutDown:
    """A controlled shutdown, then the end of the session."""

    broker: BrokerId


@dataclass(frozen=True, slots=True)
class CatchUp:
    """Every live replica of a partition that has a leader is in sync again."""


@dataclass(frozen=True, slots=True)
class Reassign:
    targets: Mapping[TopicPartition, tuple[BrokerId, ...]]


@dataclass(frozen=True, slots=True)
class Configure:
    """A setting of a topic; `topic` None: the default of the whole cluster. `value` None deletes it."""

    topic: str | None
    name: str
    value: str | None


@dataclass(frozen=True, slots=True)
class Elect:
    """An election by hand (KIP-460); `partitions` None: all."""

    unclean: bool
    partitions: tuple[TopicPartition, ...] | None


Step = Kill | Start | ShutDown | CatchUp | Reassign | Configure | Elect

# Reassignments go on in phases; each is asked for at most this often before the rest is called stuck.
MOST_ROUNDS = 8


def ask(
    context: ControllerContext, steps: Sequence[Step], *, stopped_in_order: Collection[BrokerId] = ()
) -> tuple[list[WhatIf], ControllerContext]:
    """One answer a step, and the cluster as it is after the last. `stopped_in_order`: of the brokers that are away before the first
    step; the others are taken to have crashed. Raises ValueError for a step that cannot be."""
    answers = []
    in_order = set(stopped_in_order)
    for step in steps:
        answer, context = _ask(context, step, in_order)
        answers.append(answer)
        if isinstance(step, ShutDown):
            in_order.add(step.broker)
        elif isinstance(step, Start):
            in_order.difference_update(step.brokers)
    return answers, context


def started_from_away(context: ControllerContext, steps: Sequence[Step]) -> list[BrokerId]:
    """Brokers that are started and of which no step says how they ended before."""
    known = set(context.brokers)
    found = []
    for step in steps:
        if isinstance(step, Start):
            found += [broker for broker in step.brokers if broker not in known]
            known.update(step.brokers)
    return found


def _ask(
    context: ControllerContext, step: Step, stopped_in_order: Collection[BrokerId]
) -> tuple[WhatIf, ControllerContext]:
    match step:
        case Kill():
            return _brokers(context, "kill", step.brokers, away=step.brokers)
        case Start():
            back = [returned(context, b, stopped_in_order=b in stopped_in_order) for b in step.brokers]
            return _brokers(context, "start", step.brokers, back=back)
        case ShutDown():
            asked = Requested(0, ControlledShutdownAsked(step.broker, UNKNOWN_BROKER_EPOCH))
            return _brokers(context, "shut down", (step.broker,), away=(step.broker,), first=asked)
        case CatchUp():
            return _caught_up(context)
        case Reassign():
            return _reassigned(context, step)
        case Configure():
            return _configured(context, step)
        case Elect():
            return _elected(context, step)


def _brokers(
    context: ControllerContext,
    verb: str,
    brokers: tuple[BrokerId, ...],
    *,
    away: tuple[BrokerId, ...] = (),
    back: Sequence[BrokerRegistration] = (),
    first: Event | None = None,
) -> tuple[WhatIf, ControllerContext]:
    question = f"{verb} {','.join(map(str, sorted(brokers)))}"
    live = ", ".join(map(str, sorted(context.brokers))) or "none"
    for broker in brokers:
        if (broker in away) != (broker in context.brokers):
            state = "is not alive" if broker in away else "is alive already"
            raise ValueError(f"{question}: broker {broker} {state} at that point; brokers alive: {live}")
    left = {b: r for b, r in context.brokers.items() if b not in away}
    left |= {registration.broker_id: registration for registration in back}
    changed = BrokersChanged(tuple(left[b] for b in sorted(left)))
    touched = set(context.leaderless).union(*(context.partitions_on.get(b, set()) for b in brokers))
    events = (changed,) if first is None else (first, changed)
    return advance(context, events, touched, question=question)


def _caught_up(context: ControllerContext) -> tuple[WhatIf, ControllerContext]:
    wanted = {}
    for topic_partition in sorted(context.assignments):
        live = context.online_of(context.assignments[topic_partition].replicas, topic_partition)
        state = context.leadership(topic_partition)
        if state is not None and not set(live) <= set(state.isr):
            wanted[topic_partition] = live
    events = _expansions(context, wanted)
    return advance(context, events, wanted, question="catch up")


def _reassigned(context: ControllerContext, step: Reassign) -> tuple[WhatIf, ControllerContext]:
    before = context
    results, _ = results_of(context, step.targets)
    for topic_partition, target in sorted(step.targets.items()):
        if topic_partition not in context.assignments:
            raise ValueError(missing_partition(context, topic_partition))
        if context.is_queued_for_deletion(topic_partition.topic):
            raise ValueError(f"{topic_partition} cannot be reassigned: its topic is being deleted")
        error, why = results[topic_partition]
        if error is not ErrorCode.NONE:
            raise ValueError(f"reassign {topic_partition} to {list(target)}: {why.rstrip('.')}")
    moves = [f"{tp} to {','.join(map(str, t))}" for tp, t in sorted(step.targets.items())]
    question = f"reassign {first_of(moves, 3)}"
    events: list[Event] = [Requested(0, AlterReassignmentsAsked(dict(step.targets)))]
    changes: list[StateChange] = []
    for _ in range(MOST_ROUNDS):
        answer, context = advance(context, events, (), question=question)
        changes.extend(answer.changes)
        events = _next_phase(context, step.targets)
        if not events:
            break
    unfinished = list(_unfinished_moves(context, step.targets))
    answer = compared(
        before, context, step.targets, question=question, changes=changes, unfinished=unfinished
    )
    return answer, context


def _unfinished_moves(
    context: ControllerContext, targets: Mapping[TopicPartition, tuple[BrokerId, ...]]
) -> Iterator[str]:
    """Of each reassignment that is under way still, what it waits for."""
    for topic_partition in sorted(targets):
        moving = context.reassignments.get(topic_partition)
        if moving is None:
            continue
        state = context.leadership(topic_partition)
        isr = () if state is None else state.isr
        missing = [broker for broker in moving.stored.target_replicas if broker not in isr]
        dead = [broker for broker in missing if broker not in context.brokers]
        who = f"replica {', '.join(map(str, missing))}"
        if dead:
            who += f" (broker {', '.join(map(str, dead))} is not alive)"
        waits = f"{who} has to join the ISR" if missing else f"it is {moving.phase}"
        yield f"the reassignment of {topic_partition} does not end: {waits}"


def _next_phase(context: ControllerContext, partitions: Mapping[TopicPartition, object]) -> list[Event]:
    """What brokers that do their work would say next."""
    copied = {}
    events: list[Event] = []
    for topic_partition in sorted(partitions):
        moving = context.reassignments.get(topic_partition)
        state = context.leadership(topic_partition)
        if moving is None:
            continue
        if moving.phase is ReassignmentPhase.GROWING:
            live = context.online_of(moving.stored.target_replicas, topic_partition)
            if state is not None and not set(live) <= set(state.isr):
                copied[topic_partition] = live
        else:
            for broker in sorted(context.removals.get(topic_partition, {})):
                if broker in context.brokers:
                    gone = {topic_partition: ErrorCode.NONE}
                    epoch = context.broker_epoch(broker)
                    events.append(StopReplicaAnswered(broker, epoch, ErrorCode.NONE, gone, frozenset(gone)))
    return [*_expansions(context, copied), *events]


def _expansions(
    context: ControllerContext, wanted: Mapping[TopicPartition, tuple[BrokerId, ...]]
) -> list[Event]:
    """AlterPartition as each leader would send it once these replicas have caught up."""
    events: list[Event] = []
    for topic_partition, joined in sorted(wanted.items()):
        state = context.leadership(topic_partition)
        if state is None or state.leader == NO_LEADER or state.leader not in context.brokers:
            continue
        members = (*state.isr, *(b for b in joined if b not in state.isr))
        item = AlterPartitionItem(
            topic=topic_partition.topic,
            topic_id=context.topic_id(topic_partition.topic),
            partition=topic_partition.partition,
            leader_epoch=state.leader_epoch,
            partition_epoch=state.partition_epoch,
            new_isr=tuple(IsrMember(b, BrokerEpoch(-1)) for b in members),
        )
        epoch = context.broker_epoch(state.leader)
        events.append(Requested(0, AlterPartitionAsked(3, state.leader, epoch, (item,))))
    return events


def _configured(context: ControllerContext, step: Configure) -> tuple[WhatIf, ControllerContext]:
    if step.topic is None:
        config = dict(context.broker_configs.get(CLUSTER_DEFAULT, {}))
        kind, entity, touched = "brokers", CLUSTER_DEFAULT, sorted(context.assignments)
    else:
        if step.topic not in context.topics:
            raise ValueError(missing_topic(context, step.topic))
        config = dict(context.topic_configs.get(step.topic, {}))
        kind, entity, touched = "topics", step.topic, context.partitions_of(step.topic)
    if step.value is None:
        config.pop(step.name, None)
        what = f"delete {step.name}"
    else:
        config[step.name] = step.value
        what = f"set {step.name}={step.value}"
    question = f"{what} of {step.topic or 'the cluster'}"
    return advance(context, [ConfigChanged(kind, entity, config)], touched, question=question)


def _elected(context: ControllerContext, step: Elect) -> tuple[WhatIf, ControllerContext]:
    partitions = sorted(context.assignments) if step.partitions is None else list(step.partitions)
    unknown = [tp for tp in partitions if tp not in context.assignments]
    if unknown:
        raise ValueError(missing_partition(context, unknown[0]))
    kind = "unclean" if step.unclean else "preferred"
    question = f"elect {kind} for {'all' if step.partitions is None else ', '.join(map(str, partitions))}"
    asked = Requested(0, ElectLeadersAsked(step.unclean, step.partitions))
    return advance(context, [asked], partitions, question=question)
