"""Replicas that a reassignment removes (S0's steps 8 and 9; C15; rows 115, 172).

Each leaves the ISR, is told to delete its data, and owes an answer until it has. An error is no answer: it is told
again until it has. A broker that is dead cannot answer, and nobody waits for it: what it keeps is deleted when it
returns (`pending_deletions`).
"""

from collections.abc import Iterable

from odradek.controller.context import ControllerContext
from odradek.controller.events import Event, StopReplicaAnswered
from odradek.controller.plan import Plan
from odradek.controller.reassignment_rules import steps_after
from odradek.controller.replica_states import plan_replica_move
from odradek.controller.states import ReplicaState
from odradek.controller.task import Task
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import BrokerId, TopicPartition
from odradek.model.values import dataclass

OFFLINE, NON_EXISTENT = ReplicaState.OFFLINE, ReplicaState.NON_EXISTENT
STARTED, INELIGIBLE = ReplicaState.DELETION_STARTED, ReplicaState.DELETION_INELIGIBLE
STRAY = object()

# A removed replica that answered with an error is asked again after this long, for ever (row 172).
RETRY, RETRY_MS = "retry leavers", 10_000


def plan_removal(plan: Plan, topic_partition: TopicPartition, broker: BrokerId) -> None:
    """Steps 8 and 9 for one replica. A dead broker cannot answer: what it keeps is a pending deletion."""
    state = plan.replica_state(topic_partition, broker)
    if state in (NON_EXISTENT, STARTED):
        return
    plan_replica_move(plan, topic_partition, broker, OFFLINE)
    if broker in plan.context.brokers:
        plan_replica_move(plan, topic_partition, broker, STARTED)
    else:
        plan.forget_replica(topic_partition, broker, _stray(topic_partition, broker))
        plan.outcomes[topic_partition, broker] = STRAY


def commit_removals(
    context: ControllerContext,
    partitions: Iterable[TopicPartition],
    outcomes: dict[object, object],
    now_ms: int,
) -> None:
    """Who owes an answer since when; whose data stays behind."""
    for key, what in outcomes.items():
        if what is STRAY and isinstance(key, tuple):
            commit_pending_deletion(context, *key)
    for topic_partition in partitions:
        states = context.replica_state_overrides.get(topic_partition, {})
        owing = {b: now_ms for b, state in sorted(states.items()) if state is STARTED}
        if owing:
            context.removals[topic_partition] = {**owing, **context.removals.get(topic_partition, {})}


def tasks_of_answer(context: ControllerContext, event: StopReplicaAnswered) -> list[Task]:
    """Leavers that answered."""
    about = tuple(tp for tp in sorted(event.deleted) if event.broker in context.removals.get(tp, {}))
    if not about:
        return []
    errors = event.partition_errors
    whole = event.error is not ErrorCode.NONE
    failed = frozenset(tp for tp in about if whole or errors.get(tp, ErrorCode.NONE) is not ErrorCode.NONE)
    return [RemovalsAnswered(event.broker, about, failed)]


@dataclass(frozen=True, slots=True)
class RemovalsAnswered(Task):
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
class RetryRemovals(Task):
    def reason(self) -> str:
        return "a removed replica could not delete its data; asked again"

    def plan(self, plan: Plan) -> None:
        for topic_partition in plan.pick(plan.context.removals):
            for broker in sorted(plan.context.removals[topic_partition]):
                if plan.replica_state(topic_partition, broker) is INELIGIBLE:
                    plan_replica_move(plan, topic_partition, broker, OFFLINE)
                    plan_replica_move(plan, topic_partition, broker, STARTED)


def plan_removals_died(plan: Plan, brokers: tuple[BrokerId, ...]) -> None:
    """A removed replica whose broker died will not answer: nobody waits for it."""
    for topic_partition in plan.pick(plan.context.removals):
        for broker in sorted(plan.context.removals[topic_partition]):
            if broker in brokers:
                plan.forget_replica(topic_partition, broker, _stray(topic_partition, broker))


def commit_removals_died(
    context: ControllerContext, brokers: tuple[BrokerId, ...]
) -> tuple[TopicPartition, ...]:
    """Forget that they owe an answer, remember what they keep; the partitions that lost such a removed replica."""
    touched = []
    for topic_partition in sorted(context.removals):
        for broker in brokers:
            if broker in context.removals.get(topic_partition, {}):
                commit_left(context, topic_partition, broker)
                commit_pending_deletion(context, topic_partition, broker)
                touched.append(topic_partition)
    return tuple(touched)


def commit_left(context: ControllerContext, topic_partition: TopicPartition, broker: BrokerId) -> None:
    owing = dict(context.removals.get(topic_partition, {}))
    owing.pop(broker, None)
    if owing:
        context.removals[topic_partition] = owing
    else:
        context.removals.pop(topic_partition, None)


def commit_pending_deletion(
    context: ControllerContext, topic_partition: TopicPartition, broker: BrokerId
) -> None:
    kept = context.pending_deletions.setdefault(broker, {})
    kept[topic_partition] = context.topic_id(topic_partition.topic)


def _stray(topic_partition: TopicPartition, broker: BrokerId) -> str:
    return f"broker {broker} is dead and keeps {topic_partition}: told to delete it when it returns"
