"""Reassignment: moving a partition to other brokers without losing a record (KIP-455, S0's twelve steps).

Letters: origin = replicas before, target = replicas asked for, adding = target - origin, removing = origin -
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

Here are the phases. How it begins stands in `reassignment_start`, who leaves in `replica_removal`, the questions all of them ask
in `reassignment_rules`.
"""

from odradek.controller.context import ControllerContext, Reassignment, ReassignmentPhase
from odradek.controller.effects import Write, WriteReassignmentNode
from odradek.controller.election import reassigned_leader
from odradek.controller.events import Event, ReassignmentStep, WriteAnswer
from odradek.controller.partition_states import plan_partition_move
from odradek.controller.pending_deletions import Rooms
from odradek.controller.plan import Plan
from odradek.controller.reassignment_rules import (
    GROWING,
    SHRINKING,
    STOPPING,
    is_caught_up,
    is_only_an_order,
    remaining_legacy,
    selector_among,
    shown,
    steps_after,
)
from odradek.controller.replica_removal import commit_removals, plan_removal
from odradek.controller.replica_states import plan_replica_move
from odradek.controller.states import PartitionState, ReplicaState
from odradek.controller.task import Task
from odradek.controller.topic_nodes import commit_topic_answer, topic_write
from odradek.model.cluster import ReplicaAssignment
from odradek.model.ids import TopicPartition
from odradek.model.values import dataclass

DONE = object()
NEW, ONLINE, NON_EXISTENT = ReplicaState.NEW, ReplicaState.ONLINE, ReplicaState.NON_EXISTENT


def tasks_of_step(context: ControllerContext, event: ReassignmentStep) -> list[Task]:
    moving = [tp for tp in event.partitions if tp in context.reassignments]
    done = tuple(
        tp for tp in moving if context.reassignments[tp].phase is STOPPING and not context.removals.get(tp)
    )
    ended = frozenset(done)
    going = tuple(tp for tp in moving if tp not in ended)
    tasks: list[Task] = [AdvanceReassignments(going, event.announce)] if going else []
    return [*tasks, CompleteReassignments(done)] if done else tasks


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
                    plan_removal(plan, topic_partition, broker)
                plan.outcomes[topic_partition] = STOPPING
            elif moving.phase is GROWING:
                ready = is_only_an_order(moving.stored) or is_caught_up(context, topic_partition)
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
        commit_removals(context, stopped, outcomes, now_ms)

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
            plan.notify_leader_and_isr(broker, topic_partition)
        plan.notify_metadata(topic_partition)


def _plan_move(plan: Plan, topic_partition: TopicPartition, stored: ReplicaAssignment) -> bool:
    """Steps 5 to 7. False: no target replica can lead yet; everything stays as it is."""
    target = stored.target_replicas
    current = plan.leadership(topic_partition)
    leads_well = current is not None and (
        current.leader in target and plan.context.is_online(current.leader, topic_partition)
    )
    if current is None and not plan.context.online_of(target, topic_partition):
        # Its first leader is created where no state node is. One that we were not told of, of a topic that was out of service,
        # is found by that; nobody is removed before.
        plan.fail_partition(
            topic_partition,
            plan.partition_state(topic_partition),
            PartitionState.ONLINE,
            f"no target replica of {list(target)} is live, so no first leader can be chosen",
        )
        return False
    if current is not None and not leads_well and not is_only_an_order(stored):
        live = plan.context.online_of(target, topic_partition)
        if (
            reassigned_leader(target_replicas=target, isr=plan.may_lead(topic_partition, current), live=live)
            is None
        ):
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
    elif leads_well or is_only_an_order(stored):
        plan.lead(topic_partition, leader=current.leader, isr=current.isr)
        for broker in target:
            plan.notify_leader_and_isr(broker, topic_partition)
        plan.notify_metadata(topic_partition)
    else:
        plan_partition_move(plan, topic_partition, PartitionState.ONLINE, selector_among(target))
    return True


@dataclass(frozen=True, slots=True)
class CompleteReassignments(Task):
    """Steps 10 to 12: the target alone in the topic node; out of the legacy node; everybody hears of it."""

    partitions: tuple[TopicPartition, ...]

    def reason(self) -> str:
        return "reassignment complete"

    def plan(self, plan: Plan) -> None:
        context = plan.context
        final = {}
        rooms = Rooms(context)
        for topic_partition in self.partitions:
            moving = context.reassignments.get(topic_partition)
            if moving is None:
                continue
            behind = {
                broker: {topic_partition: kept[topic_partition]}
                for broker, kept in context.pending_deletions.items()
                if topic_partition in kept
            }
            if rooms.take(behind):
                continue  # the topic node goes on naming them as removing, until they return and have deleted it
            plan.outcomes[topic_partition] = DONE
            final[topic_partition] = ReplicaAssignment(moving.stored.target_replicas)
            plan.notify_metadata(topic_partition)
            before, after = shown(moving.stored), shown(final[topic_partition])
            plan.note("assignment", str(topic_partition), before, after)
        rooms.plan_kept(plan)  # until now the topic node names them as removing
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
            if outcomes.get(topic_partition) is DONE:
                context.reassignments.pop(topic_partition, None)
                context.legacy_reassignments.pop(topic_partition, None)
