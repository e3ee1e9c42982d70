"""Reassignment: moving a partition to other brokers without losing a record (KIP-455, S0's twelve steps).

Letters: origin = replicas before, target = replicas wished for, adding = target - origin, removing = origin -
target. The topic node holds `target + removing` as replicas, with adding and removing beside (target first).

    phase       steps of S0                                                           kept in
    start       1  topic node := target + removing, with adding and removing          topic node
    GROWING     2  LeaderAndIsr to all of them, leader and ISR unchanged, epoch +1    state node
                3  adding -> NewReplica
                4  wait until every target replica is in the ISR
                5  adding -> OnlineReplica
                6  replicas := target, in memory only
                7  leader into the target if it is not there; LeaderAndIsr to target  state node
    SHRINKING   8  removing -> OfflineReplica: out of the ISR                         state node
                9  removing -> ReplicaDeletionStarted; StopReplica with deletion
    STOPPING       wait for their answers (C15)
                10 topic node := target                                               topic node
                11 out of /admin/reassign_partitions
                12 UpdateMetadata to every broker

The target is written last because until then the node is the only durable record of the origin: a controller
that dies anywhere in between leaves a node with adding and removing, and its successor begins at step 2 again;
every step may be repeated. Each phase is an event of its own, so that no fold crosses one.

    example {1,2,3} -> {4,5,6}        replicas {1..6} 1/{1,2,3}, then 1/{1..6}, 4/{1..6}, 4/{4,5,6}, {4,5,6}

Cancelling, or replacing a running one, drops replicas that were being added. They leave the ISR, and the lead,
*before* the node forgets them: a crash in the other order leaves a leader that no node names.
"""

from collections.abc import Iterable, Mapping

from odradek.controller.context import ControllerContext, Reassignment, ReassignmentPhase
from odradek.controller.effects import Write, WriteReassignmentNode, WriteStrays, WriteTopicAssignment
from odradek.controller.election import Election, reassigned_leader
from odradek.controller.events import (
    Conflict,
    Event,
    ReassignmentStep,
    StopReplicaAnswered,
    Stored,
    WriteAnswer,
)
from odradek.controller.partition_states import LeaderSelector, PartitionState, plan_partition_move
from odradek.controller.plan import Plan, Telling
from odradek.controller.replica_states import ReplicaState, plan_replica_move
from odradek.controller.strays import commit_kept, plan_kept
from odradek.controller.task import Task
from odradek.model.cluster import LeaderAndIsr, ReplicaAssignment
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import OdradekError
from odradek.model.facts import TopicAssignment
from odradek.model.ids import BrokerId, TopicId, TopicPartition
from odradek.model.values import dataclass

GROWING, SHRINKING, STOPPING = ReassignmentPhase
NEW, ONLINE, OFFLINE = ReplicaState.NEW, ReplicaState.ONLINE, ReplicaState.OFFLINE
STARTED, INELIGIBLE = ReplicaState.DELETION_STARTED, ReplicaState.DELETION_INELIGIBLE
NON_EXISTENT = ReplicaState.NON_EXISTENT
STRAY = object()

# A leaver that answered with an error is asked again after this long, for ever (row 172).
RETRY, RETRY_MS = "retry leavers", 10_000


def assignment_towards(stored: ReplicaAssignment, target: tuple[BrokerId, ...]) -> ReplicaAssignment:
    """What the topic node holds while it moves to `target`, from wherever it is now."""
    origin = stored.origin_replicas
    adding = tuple(b for b in target if b not in origin)
    removing = tuple(b for b in origin if b not in target)
    return ReplicaAssignment((*target, *removing), adding, removing)


def dropped_by(stored: ReplicaAssignment, wished: ReplicaAssignment) -> tuple[BrokerId, ...]:
    """Replicas that were being added and are not wanted any more."""
    return tuple(b for b in stored.adding_replicas if b not in wished.replicas)


def loses_records(
    context: ControllerContext, where: TopicPartition, current: LeaderAndIsr, dropped: tuple[BrokerId, ...]
) -> bool:
    """Without them nobody in sync, or nobody who could lead, would be left."""
    kept = tuple(b for b in current.isr if b not in dropped)
    return not kept or (current.leader in dropped and not context.online_of(kept, where))


def is_caught_up(context: ControllerContext, topic_partition: TopicPartition) -> bool:
    """Step 4: every target replica is in the ISR (KAFKA-15665: all, not only the new ones). A partition that
    never had a leader has nothing to copy."""
    moving = context.reassignments[topic_partition]
    current = context.leadership(topic_partition)
    return current is None or set(moving.stored.target_replicas) <= set(current.isr)


def steps_after(context: ControllerContext, partitions: Iterable[TopicPartition]) -> tuple[Event, ...]:
    """Those of `partitions` whose reassignment can go on now, as the event that makes it go on."""
    ready = []
    for topic_partition in sorted(set(partitions)):
        moving = context.reassignments.get(topic_partition)
        if moving is None:
            continue
        if (moving.phase is GROWING and is_caught_up(context, topic_partition)) or (
            moving.phase is STOPPING and not context.leavers.get(topic_partition)
        ):
            ready.append(topic_partition)
    return (ReassignmentStep(tuple(ready)),) if ready else ()


def tasks_of_step(context: ControllerContext, event: ReassignmentStep) -> list[Task]:
    moving = [tp for tp in event.partitions if tp in context.reassignments]
    done = tuple(
        tp for tp in moving if context.reassignments[tp].phase is STOPPING and not context.leavers.get(tp)
    )
    going = tuple(tp for tp in moving if tp not in done)
    tasks: list[Task] = [AdvanceReassignments(going, event.announce)] if going else []
    return [*tasks, CompleteReassignments(done)] if done else tasks


# ----------------------------------------------------------------------------------------------------- start


@dataclass(frozen=True, slots=True)
class DropReplicas(Task):
    """Replicas that are not wanted any more give up the lead and leave the ISR, then delete what they have.

    Nobody is told who leads: the next step of the same event tells it with the new assignment.
    """

    wished: Mapping[TopicPartition, ReplicaAssignment]

    def reason(self) -> str:
        return "reassignment cancelled or replaced"

    def plan(self, plan: Plan) -> None:
        context = plan.context
        kept: dict[BrokerId, dict[TopicPartition, TopicId]] = {}
        for topic_partition in plan.pick(self.wished):
            wished = self.wished[topic_partition]
            dropped = dropped_by(context.stored_assignment(topic_partition), wished)
            current = plan.leadership(topic_partition)
            if current is not None and loses_records(context, topic_partition, current, dropped):
                state = plan.partition_state(topic_partition)
                why = f"without {list(dropped)} nobody live of the ISR {list(current.isr)} would be left"
                plan.fail_partition(topic_partition, state, state, why)
                continue  # the ISR shrank since it was asked for: nothing is written
            if current is not None and current.leader in dropped:
                plan_partition_move(
                    plan, topic_partition, PartitionState.ONLINE, _selector_among(wished.replicas)
                )
            for broker in dropped:
                _plan_leaver(plan, topic_partition, broker)
                kept.setdefault(broker, {})[topic_partition] = context.topic_id(topic_partition.topic)
            # The epoch rises in any case: whoever takes over after the node is written, and before the leader
            # heard of it, sends this epoch, and to the leader it is news.
            after = plan.leadership(topic_partition)
            if after is not None and current is not None and after.leader_epoch == current.leader_epoch:
                plan.lead(topic_partition, leader=after.leader, isr=after.isr)
            plan.forget_eligible(topic_partition, dropped)
        for broker, theirs in sorted(kept.items()):  # the topic node will not name them any more
            plan_kept(plan, broker, theirs)
        plan.telling.leader_and_isr.clear()
        plan.telling.metadata.clear()

    def commit_answer(self, context: ControllerContext, write: Write, answer: WriteAnswer) -> bool:
        return commit_topic_answer(context, write, answer)

    def commit_done(self, context: ControllerContext, outcomes: dict[object, object], now_ms: int) -> None:
        _commit_leavers(context, self.wished, outcomes, now_ms)


@dataclass(frozen=True, slots=True)
class WriteAssignments(Task):
    """Step 1: the topic nodes, one write a topic."""

    wished: Mapping[TopicPartition, ReplicaAssignment]
    why: str

    def reason(self) -> str:
        return self.why

    def plan(self, plan: Plan) -> None:
        wished = {tp: new for tp, new in self.wished.items() if not _still_in_sync(plan, tp, new)}
        for topic in sorted({tp.topic for tp in wished}):
            plan.other_writes.append(topic_write(plan.context, topic, wished))
        _plan_not_stray_any_more(plan, wished)
        for topic_partition in sorted(wished):
            plan.outcomes[topic_partition] = GROWING
            _plan_wanted_again(plan, topic_partition, self.wished[topic_partition])
        plan.telling = Telling()  # the next step tells it, at a new epoch
        for topic_partition in sorted(wished):
            before = plan.context.stored_assignment(topic_partition)
            plan.note(
                "assignment", str(topic_partition), _shown(before), _shown(self.wished[topic_partition])
            )

    def commit_answer(self, context: ControllerContext, write: Write, answer: WriteAnswer) -> bool:
        return commit_topic_answer(context, write, answer)

    def commit_done(self, context: ControllerContext, outcomes: dict[object, object], now_ms: int) -> None:
        for topic_partition, wished in self.wished.items():
            if topic_partition not in outcomes:
                continue
            context.commit_assignment(topic_partition, wished)
            context.reassignments[topic_partition] = Reassignment(wished, GROWING)
            for broker in wished.target_replicas:
                commit_left(context, topic_partition, broker)

    def follow_up(self, context: ControllerContext, outcomes: dict[object, object]) -> tuple[Event, ...]:
        started = tuple(tp for tp in sorted(self.wished) if tp in outcomes)
        return (ReassignmentStep(started, announce=True),) if started else ()


def _plan_not_stray_any_more(plan: Plan, wished: Mapping[TopicPartition, ReplicaAssignment]) -> None:
    """What was to be deleted on a broker, and is to be there again: after the topic node names it, so that there
    is no moment in which nobody does."""
    context = plan.context
    for broker, kept in sorted(context.strays.items()):
        back = {
            tp
            for tp, topic_id in kept.items()
            if tp in wished and broker in wished[tp].replicas and topic_id == context.topic_id(tp.topic)
        }
        if back:
            plan.other_writes.append(WriteStrays(broker, {tp: i for tp, i in kept.items() if tp not in back}))


def _still_in_sync(plan: Plan, topic_partition: TopicPartition, wished: ReplicaAssignment) -> bool:
    """Replicas to be dropped could not leave the ISR: the node must go on naming them."""
    current = plan.leadership(topic_partition)
    dropped = dropped_by(plan.context.stored_assignment(topic_partition), wished)
    return current is not None and not set(dropped).isdisjoint(current.isr)


def _plan_wanted_again(plan: Plan, topic_partition: TopicPartition, wished: ReplicaAssignment) -> None:
    """Replicas that were leaving, or had left, and are wanted after all: nobody waits for their farewell, and
    what they delete they fetch again."""
    for broker in wished.target_replicas:
        if broker in wished.adding_replicas:
            continue  # growing makes it new
        state = plan.replica_state(topic_partition, broker)
        if state is STARTED:
            plan_replica_move(plan, topic_partition, broker, INELIGIBLE)
        elif state is NON_EXISTENT:
            plan_replica_move(plan, topic_partition, broker, NEW)
        elif state is not INELIGIBLE:
            continue
        plan_replica_move(plan, topic_partition, broker, OFFLINE)
        if broker in plan.context.brokers:
            plan_replica_move(plan, topic_partition, broker, ONLINE)


def topic_write(
    context: ControllerContext, topic: str, wished: Mapping[TopicPartition, ReplicaAssignment]
) -> WriteTopicAssignment:
    """The whole topic node, with these partitions changed."""
    known = context.topics[topic]
    partitions = {}
    for partition in known.partitions:
        topic_partition = TopicPartition(topic, partition)
        stored = wished.get(topic_partition) or context.stored_assignment(topic_partition)
        partitions[partition] = stored
    return WriteTopicAssignment(topic, known.topic_id, partitions, known.version)


class TopicNodeDiffers(OdradekError):
    """A topic node holds partitions we have not heard of: to write over it would take them away."""


def commit_topic_answer(context: ControllerContext, write: Write, answer: WriteAnswer) -> bool:
    """Remember the node's version; True: write again, over the version found."""
    if isinstance(write, WriteStrays):
        commit_kept(context, write)
    if not isinstance(write, WriteTopicAssignment):
        return False
    if isinstance(answer, Stored):
        context.commit_topic_version(write.topic, answer.version)
        return False
    assert isinstance(answer, Conflict)
    found = answer.current
    if not isinstance(found, TopicAssignment):
        raise TopicNodeDiffers(f"/brokers/topics/{write.topic}: expected our own value, found {found}")
    unknown = sorted(set(found.partitions) - set(write.partitions))
    if unknown:
        raise TopicNodeDiffers(
            f"/brokers/topics/{write.topic}: partitions {unknown} appeared under our write"
        )
    context.commit_topic_version(write.topic, found.version)
    return dict(found.partitions) != dict(write.partitions)  # equal: our own write, its answer was lost


# ---------------------------------------------------------------------------------------------------- phases


@dataclass(frozen=True, slots=True)
class AdvanceReassignments(Task):
    """The next phase of each: grow, then move the leader, then shrink and stop."""

    partitions: tuple[TopicPartition, ...]
    announce: bool

    def reason(self) -> str:
        return "reassignment"

    def plan(self, plan: Plan) -> None:
        context = plan.context
        for topic_partition in plan.pick(tp for tp in self.partitions if tp in context.reassignments):
            moving = context.reassignments[topic_partition]
            if moving.phase is SHRINKING:
                for broker in moving.stored.removing_replicas:
                    _plan_leaver(plan, topic_partition, broker)
                plan.outcomes[topic_partition] = STOPPING
            elif moving.phase is GROWING:
                ready = _is_only_an_order(moving.stored) or is_caught_up(context, topic_partition)
                if ready and _plan_move(plan, topic_partition, moving.stored):
                    plan.outcomes[topic_partition] = SHRINKING
                else:
                    _plan_grow(plan, topic_partition, moving.stored, self.announce)

    def commit_done(self, context: ControllerContext, outcomes: dict[object, object], now_ms: int) -> None:
        for topic_partition in self.partitions:
            phase = outcomes.get(topic_partition)
            moving = context.reassignments.get(topic_partition)
            if moving is not None and isinstance(phase, ReassignmentPhase):
                context.reassignments[topic_partition] = Reassignment(moving.stored, phase)
        stopped = [tp for tp in self.partitions if outcomes.get(tp) is STOPPING]
        _commit_leavers(context, stopped, outcomes, now_ms)

    def follow_up(self, context: ControllerContext, outcomes: dict[object, object]) -> tuple[Event, ...]:
        shrinking = tuple(tp for tp in self.partitions if outcomes.get(tp) is SHRINKING)
        stopped = [tp for tp in self.partitions if outcomes.get(tp) is STOPPING]
        first = (ReassignmentStep(shrinking),) if shrinking else ()
        return (*first, *steps_after(context, stopped))


def _plan_grow(
    plan: Plan, topic_partition: TopicPartition, stored: ReplicaAssignment, announce: bool
) -> None:
    """Steps 2 and 3. The epoch rises because a broker ignores LeaderAndIsr at an epoch it has (golden 04a)."""
    begun = [b for b in stored.adding_replicas if plan.replica_state(topic_partition, b) is NON_EXISTENT]
    for broker in stored.adding_replicas:
        if plan.replica_state(topic_partition, broker) is NON_EXISTENT:
            plan_replica_move(plan, topic_partition, broker, NEW)
    current = plan.leadership(topic_partition)
    if announce and current is not None:
        plan.lead(topic_partition, leader=current.leader, isr=current.isr)
        plan.forget_eligible(topic_partition, begun)
        for broker in stored.replicas:
            plan.tell_leader_and_isr(broker, topic_partition)
        plan.tell_metadata(topic_partition)


def _plan_move(plan: Plan, topic_partition: TopicPartition, stored: ReplicaAssignment) -> bool:
    """Steps 5 to 7. False: no target replica can lead yet; everything stays as it is."""
    target = stored.target_replicas
    current = plan.leadership(topic_partition)
    leads_well = current is not None and (
        current.leader in target and plan.context.is_online(current.leader, topic_partition)
    )
    if current is not None and not leads_well and not _is_only_an_order(stored):
        live = plan.context.online_of(target, topic_partition)
        if reassigned_leader(target_replicas=target, isr=current.isr, live=live) is None:
            plan.fail_partition(
                topic_partition,
                plan.partition_state(topic_partition),
                PartitionState.ONLINE,
                f"no target replica of {list(target)} is live and in the ISR {list(current.isr)}",
            )
            return False
    for broker in stored.adding_replicas:
        if plan.replica_state(topic_partition, broker) is NON_EXISTENT:  # a predecessor had not come so far
            plan_replica_move(plan, topic_partition, broker, NEW)
        plan_replica_move(plan, topic_partition, broker, ONLINE)
    plan.assignments[topic_partition] = ReplicaAssignment(target)
    if current is None:
        plan_partition_move(plan, topic_partition, PartitionState.ONLINE)  # perhaps the new ones can lead it
    elif leads_well or _is_only_an_order(stored):
        plan.lead(topic_partition, leader=current.leader, isr=current.isr)
        for broker in target:
            plan.tell_leader_and_isr(broker, topic_partition)
        plan.tell_metadata(topic_partition)
    else:
        plan_partition_move(plan, topic_partition, PartitionState.ONLINE, _selector_among(target))
    return True


def _is_only_an_order(stored: ReplicaAssignment) -> bool:
    """The same brokers in another order: nobody comes, nobody goes, no leader moves (golden 04d)."""
    return not stored.is_being_reassigned


def _plan_leaver(plan: Plan, topic_partition: TopicPartition, broker: BrokerId) -> None:
    """Steps 8 and 9 for one replica. A dead broker cannot answer: what it keeps is a stray."""
    state = plan.replica_state(topic_partition, broker)
    if state in (NON_EXISTENT, STARTED):
        return
    plan_replica_move(plan, topic_partition, broker, OFFLINE)
    if broker in plan.context.brokers:
        plan_replica_move(plan, topic_partition, broker, STARTED)
    else:
        plan.forget_replica(topic_partition, broker, _stray(topic_partition, broker))
        plan.outcomes[topic_partition, broker] = STRAY


def _commit_leavers(
    context: ControllerContext,
    partitions: Iterable[TopicPartition],
    outcomes: dict[object, object],
    now_ms: int,
) -> None:
    """Who owes an answer since when; whose data stays behind."""
    for key, what in outcomes.items():
        if what is STRAY and isinstance(key, tuple):
            commit_stray(context, *key)
    for topic_partition in partitions:
        states = context.unusual_replicas.get(topic_partition, {})
        owing = {b: now_ms for b, state in sorted(states.items()) if state is STARTED}
        if owing:
            context.leavers[topic_partition] = {**owing, **context.leavers.get(topic_partition, {})}


def _selector_among(target: tuple[BrokerId, ...]) -> LeaderSelector:
    def select(plan: Plan, topic_partition: TopicPartition, current: LeaderAndIsr) -> Election | None:
        live = plan.context.online_of(target, topic_partition)
        return reassigned_leader(target_replicas=target, isr=current.isr, live=live)

    return select


# -------------------------------------------------------------------------------------------- answers, the end


def tasks_of_answer(context: ControllerContext, event: StopReplicaAnswered) -> list[Task]:
    """Leavers that answered."""
    about = tuple(tp for tp in sorted(event.deleted) if event.broker in context.leavers.get(tp, {}))
    if not about:
        return []
    errors = event.partition_errors
    whole = event.error is not ErrorCode.NONE
    failed = frozenset(tp for tp in about if whole or errors.get(tp, ErrorCode.NONE) is not ErrorCode.NONE)
    return [LeaversAnswered(event.broker, about, failed)]


@dataclass(frozen=True, slots=True)
class LeaversAnswered(Task):
    """Row 115: Successful, and with that NonExistent; or Ineligible, and asked again."""

    broker: BrokerId
    about: tuple[TopicPartition, ...]
    failed: frozenset[TopicPartition]

    def reason(self) -> str:
        return f"broker {self.broker} answered StopReplica"

    def plan(self, plan: Plan) -> None:
        for topic_partition in plan.pick(self.about):
            if plan.replica_state(topic_partition, self.broker) is not STARTED:
                continue
            if topic_partition in self.failed:
                plan_replica_move(plan, topic_partition, self.broker, INELIGIBLE)
            else:
                plan_replica_move(plan, topic_partition, self.broker, ReplicaState.DELETION_SUCCESSFUL)
                plan_replica_move(plan, topic_partition, self.broker, NON_EXISTENT)

    def commit_done(self, context: ControllerContext, outcomes: dict[object, object], now_ms: int) -> None:
        if self.failed:
            context.commit_deadline(RETRY, now_ms + RETRY_MS)
        for topic_partition in self.about:
            if topic_partition not in self.failed:
                commit_left(context, topic_partition, self.broker)

    def follow_up(self, context: ControllerContext, outcomes: dict[object, object]) -> tuple[Event, ...]:
        return steps_after(context, self.about)


@dataclass(frozen=True, slots=True)
class RetryLeavers(Task):
    def reason(self) -> str:
        return "a leaver could not delete its data; asked again"

    def plan(self, plan: Plan) -> None:
        for topic_partition in plan.pick(plan.context.leavers):
            for broker in sorted(plan.context.leavers[topic_partition]):
                if plan.replica_state(topic_partition, broker) is INELIGIBLE:
                    plan_replica_move(plan, topic_partition, broker, OFFLINE)
                    plan_replica_move(plan, topic_partition, broker, STARTED)


def plan_leavers_died(plan: Plan, brokers: tuple[BrokerId, ...]) -> None:
    """A leaver whose broker died will not answer: nobody waits for it."""
    for topic_partition in plan.pick(plan.context.leavers):
        for broker in sorted(plan.context.leavers[topic_partition]):
            if broker in brokers:
                plan.forget_replica(topic_partition, broker, _stray(topic_partition, broker))


def commit_leavers_died(
    context: ControllerContext, brokers: tuple[BrokerId, ...]
) -> tuple[TopicPartition, ...]:
    """Forget that they owe an answer, remember what they keep; the partitions that lost such a leaver."""
    touched = []
    for topic_partition in sorted(context.leavers):
        for broker in brokers:
            if broker in context.leavers.get(topic_partition, {}):
                commit_left(context, topic_partition, broker)
                commit_stray(context, topic_partition, broker)
                touched.append(topic_partition)
    return tuple(touched)


def commit_left(context: ControllerContext, topic_partition: TopicPartition, broker: BrokerId) -> None:
    owing = dict(context.leavers.get(topic_partition, {}))
    owing.pop(broker, None)
    if owing:
        context.leavers[topic_partition] = owing
    else:
        context.leavers.pop(topic_partition, None)


def commit_stray(context: ControllerContext, topic_partition: TopicPartition, broker: BrokerId) -> None:
    kept = context.strays.setdefault(broker, {})
    kept[topic_partition] = context.topic_id(topic_partition.topic)


@dataclass(frozen=True, slots=True)
class CompleteReassignments(Task):
    """Steps 10 to 12: the target alone in the topic node; out of the legacy node; everybody hears of it."""

    partitions: tuple[TopicPartition, ...]

    def reason(self) -> str:
        return "reassignment complete"

    def plan(self, plan: Plan) -> None:
        context = plan.context
        final = {}
        for topic_partition in self.partitions:
            moving = context.reassignments.get(topic_partition)
            if moving is None:
                continue
            final[topic_partition] = ReplicaAssignment(moving.stored.target_replicas)
            plan.tell_metadata(topic_partition)
            plan.note(
                "assignment", str(topic_partition), _shown(moving.stored), _shown(final[topic_partition])
            )
        for broker, kept in sorted(context.strays.items()):
            if not final.keys().isdisjoint(kept):  # until now the topic node names them as removing
                plan_kept(plan, broker, {})
        changed = {tp for tp in final if final[tp] != context.reassignments[tp].stored}
        for topic in sorted({tp.topic for tp in changed}):
            plan.other_writes.append(topic_write(context, topic, final))
        left = remaining_legacy(context, final)
        if left != context.legacy_reassignments:
            plan.other_writes.append(WriteReassignmentNode(left))

    def commit_answer(self, context: ControllerContext, write: Write, answer: WriteAnswer) -> bool:
        return commit_topic_answer(context, write, answer)

    def commit_done(self, context: ControllerContext, outcomes: dict[object, object], now_ms: int) -> None:
        for topic_partition in self.partitions:
            context.reassignments.pop(topic_partition, None)
            context.legacy_reassignments.pop(topic_partition, None)


def remaining_legacy(
    context: ControllerContext, without: Iterable[TopicPartition]
) -> dict[TopicPartition, tuple[BrokerId, ...]]:
    gone = set(without)
    return {tp: target for tp, target in context.legacy_reassignments.items() if tp not in gone}


def _stray(topic_partition: TopicPartition, broker: BrokerId) -> str:
    return f"broker {broker} is dead and keeps {topic_partition}: told to delete it when it returns"


def _shown(assignment: ReplicaAssignment) -> str:
    text = f"[{','.join(map(str, assignment.replicas))}]"
    if assignment.adding_replicas:
        text += f" adding [{','.join(map(str, assignment.adding_replicas))}]"
    if assignment.removing_replicas:
        text += f" removing [{','.join(map(str, assignment.removing_replicas))}]"
    return text
