"""How a reassignment begins, is replaced, or is cancelled: what is dropped first, then step 1, the topic nodes."""

from collections.abc import Mapping

from odradek.controller.context import ControllerContext, Reassignment
from odradek.controller.effects import Write, WritePendingDeletions
from odradek.controller.events import Event, ReassignmentStep, WriteAnswer
from odradek.controller.partition_states import plan_partition_move
from odradek.controller.pending_deletions import commit_wanted, unnamed
from odradek.controller.plan import Notification, Plan
from odradek.controller.reassignment_rules import GROWING, dropped_by, loses_records, selector_among, shown
from odradek.controller.replica_removal import commit_left, commit_removals, plan_removal
from odradek.controller.replica_states import plan_replica_move
from odradek.controller.states import PartitionState, ReplicaState
from odradek.controller.task import Task
from odradek.controller.topic_nodes import commit_topic_answer, topic_write
from odradek.model.cluster import ReplicaAssignment
from odradek.model.ids import BrokerId, TopicId, TopicPartition
from odradek.model.values import dataclass

NEW, ONLINE, OFFLINE = ReplicaState.NEW, ReplicaState.ONLINE, ReplicaState.OFFLINE
STARTED, INELIGIBLE = ReplicaState.DELETION_STARTED, ReplicaState.DELETION_INELIGIBLE
NON_EXISTENT = ReplicaState.NON_EXISTENT


@dataclass(frozen=True, slots=True)
class DropReplicas(Task):
    """Replicas that are not wanted any more give up the lead and leave the ISR, then delete what they have.

    Where nobody is dropped and the leader knows the target alone, the epoch rises and nothing else happens. Nobody
    is told who leads: the next step of the same event tells it with the new assignment.
    """

    requested: Mapping[TopicPartition, ReplicaAssignment]

    def reason(self) -> str:
        return "reassignment cancelled or replaced"

    def plan(self, plan: Plan) -> None:
        context = plan.context
        kept: dict[BrokerId, dict[TopicPartition, TopicId]] = {}
        for topic_partition in plan.pick(self.requested):
            requested = self.requested[topic_partition]
            dropped = dropped_by(context.stored_assignment(topic_partition), requested)
            current = plan.leadership(topic_partition)
            if current is not None and loses_records(context, topic_partition, current, dropped):
                state = plan.partition_state(topic_partition)
                why = f"without {list(dropped)} no live member of the ISR {list(current.isr)} would be left"
                plan.fail_partition(topic_partition, state, state, why)
                continue  # the ISR shrank since it was asked for: nothing is written
            if current is not None and current.leader in dropped:
                plan_partition_move(
                    plan, topic_partition, PartitionState.ONLINE, selector_among(requested.replicas)
                )
            for broker in dropped:
                plan_removal(plan, topic_partition, broker)
                kept.setdefault(broker, {})[topic_partition] = context.topic_id(topic_partition.topic)
            # The epoch rises in any case: whoever takes over after the node is written, and before the leader
            # heard of it, sends this epoch, and to the leader it is news.
            after = plan.leadership(topic_partition)
            if after is not None and current is not None and after.leader_epoch == current.leader_epoch:
                plan.lead(topic_partition, leader=after.leader, isr=after.isr)
            plan.forget_eligible(topic_partition, dropped)
        for broker, theirs in sorted(kept.items()):  # the topic node will not name them any more
            plan.other_writes.append(WritePendingDeletions(broker, {**unnamed(context, broker), **theirs}))
        plan.telling.leader_and_isr.clear()
        plan.telling.metadata.clear()

    def commit_answer(self, context: ControllerContext, write: Write, answer: WriteAnswer) -> bool:
        return commit_topic_answer(context, write, answer)

    def commit_done(self, context: ControllerContext, outcomes: dict[object, object], now_ms: int) -> None:
        commit_removals(context, self.requested, outcomes, now_ms)


@dataclass(frozen=True, slots=True)
class WriteAssignments(Task):
    """Step 1: the topic nodes, one write a topic."""

    requested: Mapping[TopicPartition, ReplicaAssignment]
    why: str

    def reason(self) -> str:
        return self.why

    def plan(self, plan: Plan) -> None:
        requested = {tp: new for tp, new in self.requested.items() if not _still_in_sync(plan, tp, new)}
        for topic in sorted({tp.topic for tp in requested}):
            plan.other_writes.append(topic_write(plan.context, topic, requested))
        _plan_not_pending_any_more(plan, requested)
        for topic_partition in sorted(requested):
            plan.outcomes[topic_partition] = GROWING
            _plan_wanted_again(plan, topic_partition, self.requested[topic_partition])
        plan.telling = Notification()  # the next step tells it, at a new epoch
        for topic_partition in sorted(requested):
            before = plan.context.stored_assignment(topic_partition)
            plan.note(
                "assignment", str(topic_partition), shown(before), shown(self.requested[topic_partition])
            )

    def commit_answer(self, context: ControllerContext, write: Write, answer: WriteAnswer) -> bool:
        return commit_topic_answer(context, write, answer)

    def commit_done(self, context: ControllerContext, outcomes: dict[object, object], now_ms: int) -> None:
        for topic_partition, requested in self.requested.items():
            if topic_partition not in outcomes:
                continue
            commit_wanted(context, topic_partition, requested.target_replicas)
            context.commit_assignment(topic_partition, requested)
            context.reassignments[topic_partition] = Reassignment(requested, GROWING)
            for broker in requested.target_replicas:
                commit_left(context, topic_partition, broker)

    def follow_up(self, context: ControllerContext, outcomes: dict[object, object]) -> tuple[Event, ...]:
        started = tuple(tp for tp in sorted(self.requested) if tp in outcomes)
        return (ReassignmentStep(started, announce=True),) if started else ()


def _plan_not_pending_any_more(plan: Plan, requested: Mapping[TopicPartition, ReplicaAssignment]) -> None:
    """What was to be deleted on a broker, and is to be there again: after the topic node names it, so that there
    is no moment in which nobody does."""
    context = plan.context
    for broker, kept in sorted(context.pending_deletions.items()):
        back = {
            tp
            for tp, topic_id in kept.items()
            if tp in requested
            and broker in requested[tp].target_replicas
            and topic_id == context.topic_id(tp.topic)
        }
        if back:
            left = {tp: i for tp, i in unnamed(context, broker).items() if tp not in back}
            plan.other_writes.append(WritePendingDeletions(broker, left))


def _still_in_sync(plan: Plan, topic_partition: TopicPartition, requested: ReplicaAssignment) -> bool:
    """Replicas to be dropped could not leave the ISR: the node must go on naming them."""
    current = plan.leadership(topic_partition)
    dropped = dropped_by(plan.context.stored_assignment(topic_partition), requested)
    return current is not None and not set(dropped).isdisjoint(current.isr)


def _plan_wanted_again(plan: Plan, topic_partition: TopicPartition, requested: ReplicaAssignment) -> None:
    """Replicas that were leaving, or had left, and are wanted after all: nobody waits for their farewell, and
    what they delete they fetch again."""
    before = plan.context.stored_assignment(topic_partition).replicas
    for broker in requested.target_replicas:
        state = plan.replica_state(topic_partition, broker)
        if broker in requested.adding_replicas:  # growing makes it new, from nothing
            if broker not in before and state in (STARTED, INELIGIBLE):
                why = f"broker {broker} is to have {topic_partition} again, and owes no answer any more"
                plan.forget_replica(topic_partition, broker, why, to="wanted again")
            continue
        if state is STARTED:
            plan_replica_move(plan, topic_partition, broker, INELIGIBLE)
        elif state is NON_EXISTENT:
            plan_replica_move(plan, topic_partition, broker, NEW)
        elif state is not INELIGIBLE:
            continue
        plan_replica_move(plan, topic_partition, broker, OFFLINE)
        if broker in plan.context.brokers:
            plan_replica_move(plan, topic_partition, broker, ONLINE)
