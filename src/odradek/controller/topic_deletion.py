"""Topic deletion (S1 TopicDeletionManager; rows 73-76, 85, 87-90, 93, 94, 101, 154, 165, 167, 169).

A name under `/admin/delete_topics` starts it. At once, and once and for all, its partitions leave the
partition machine (KAFKA-6753), and UpdateMetadata with leader -2 takes it out of every cache. Then each
replica goes its own way, and its state says how far it is:

    OnlineReplica -> OfflineReplica -> ReplicaDeletionStarted      StopReplica(delete) has been sent
                                         -> ReplicaDeletionSuccessful    its broker said so
                                         -> ReplicaDeletionIneligible    its broker is dead, or said no

When every replica is Successful, the nodes go: the topic, its configuration, and last the request itself, so that
a crash between any two is finished by the successor. While a replica is on a dead broker the deletion halts,
for as long as it takes, and goes on by itself when the broker returns. A running reassignment is cancelled:
old and new replicas alike are deleted (golden 05c).
"""

from collections.abc import Iterable

from odradek.controller.context import ControllerContext
from odradek.controller.effects import (
    RemoveTopic,
    RemoveTopicConfig,
    RemoveTopicDeletion,
    StateChange,
    Write,
    WritePendingDeletions,
    WriteReassignmentNode,
    WriteTopicAssignment,
)
from odradek.controller.events import Conflict, StopReplicaAnswered, Stored, WriteAnswer
from odradek.controller.partition_states import plan_partition_move
from odradek.controller.pending_deletions import Rooms, commit_kept
from odradek.controller.plan import Plan
from odradek.controller.replica_states import plan_replica_move
from odradek.controller.states import PartitionState, ReplicaState
from odradek.controller.task import Task
from odradek.model.error_codes import ErrorCode
from odradek.model.facts import DeleteTopicsRequested, TopicAssignment
from odradek.model.ids import BrokerId, TopicId, TopicPartition
from odradek.model.values import dataclass

# A broker that said no is asked again after this long, if nothing else makes us ask before.
RETRY, RETRY_MS = "retry deletions", 10_000

OFFLINE = ReplicaState.OFFLINE
STARTED = ReplicaState.DELETION_STARTED
SUCCESSFUL = ReplicaState.DELETION_SUCCESSFUL
INELIGIBLE = ReplicaState.DELETION_INELIGIBLE


def tasks_of_deletions(context: ControllerContext, event: DeleteTopicsRequested) -> list[Task]:
    """Start what is new. A request for a topic that is not there, or while deletion is switched off, is removed."""
    if not context.settings.delete_topic_enable:
        return [ForgetDeletions(event.topics, "delete.topic.enable is false")] if event.topics else []
    context.deletions_requested = frozenset(event.topics)
    unknown = tuple(t for t in event.topics if t not in context.topics and t not in context.out_of_service)
    wanted = tuple(t for t in event.topics if t in context.topics and t not in context.topics_to_delete)
    tasks: list[Task] = []
    if unknown:
        tasks.append(ForgetDeletions(unknown, "no such topic"))
    if wanted:
        tasks.append(DeleteTopics(wanted))
        tasks.append(CompleteDeletions())  # a topic without partitions, or with dead replicas only
    return tasks


def tasks_of_answer(context: ControllerContext, event: StopReplicaAnswered) -> list[Task]:
    """The answer to a StopReplica with deletion, as far as it is about topics that are being deleted."""
    about = [
        tp
        for tp in sorted(event.deleted)
        if tp.topic in context.topics_to_delete and context.replica_state(tp, event.broker) is STARTED
    ]
    if not about:
        return []
    return [DeletionAnswered(event.broker, _failed(event, about), tuple(about)), CompleteDeletions()]


def _failed(event: StopReplicaAnswered, about: list[TopicPartition]) -> frozenset[TopicPartition]:
    if event.error is not ErrorCode.NONE:
        return frozenset(about)
    errors = event.partition_errors
    return frozenset(tp for tp in about if errors.get(tp, ErrorCode.NONE) is not ErrorCode.NONE)


@dataclass(frozen=True, slots=True)
class ForgetDeletions(Task):
    topics: tuple[str, ...]
    why: str
    with_config: bool = False

    def reason(self) -> str:
        return self.why

    def plan(self, plan: Plan) -> None:
        for topic in self.topics:
            if self.with_config:
                plan.other_writes.append(RemoveTopicConfig(topic))
            plan.other_writes.append(RemoveTopicDeletion(topic))
            plan.note("topic", topic, "deletion requested", "deletion forgotten")

    def commit_done(self, context: ControllerContext, outcomes: dict[object, object], now_ms: int) -> None:
        context.deletions_requested -= set(self.topics)


@dataclass(frozen=True, slots=True)
class DeleteTopics(Task):
    """Start these deletions, or take them up again."""

    topics: tuple[str, ...]
    why: str = "topic deletion"

    def reason(self) -> str:
        return self.why

    def commit_facts(self, context: ControllerContext) -> None:
        for topic in self.topics:
            if topic in context.topics:
                context.topics_to_delete.add(topic)
                context.commit_reassignments_dropped(topic)

    def plan(self, plan: Plan) -> None:
        context = plan.context
        topics = [topic for topic in self.topics if topic in context.topics]
        mine = plan.pick(tp for topic in topics for tp in context.partitions_of(topic))
        if plan.only is None:
            for topic in topics:
                halt = why_halted(context, topic)
                plan.note("topic", topic, "stored", "being deleted", f"{self.why}; {halt}" if halt else None)
        for topic_partition in mine:
            _leave_the_machine(plan, topic_partition)
        for topic_partition in mine:
            plan.notify_metadata(topic_partition)
            for broker in sorted(plan.assignment(topic_partition).replicas):
                _start_replica(plan, topic_partition, broker)


def _leave_the_machine(plan: Plan, topic_partition: TopicPartition) -> None:
    """C19: at the start of the deletion, not at its end, so that nobody elects a leader for it any more."""
    if plan.partition_state(topic_partition) is not PartitionState.NON_EXISTENT:
        plan_partition_move(plan, topic_partition, PartitionState.OFFLINE)
        plan_partition_move(plan, topic_partition, PartitionState.NON_EXISTENT)


def _start_replica(plan: Plan, topic_partition: TopicPartition, broker: BrokerId) -> None:
    state = plan.replica_state(topic_partition, broker)
    if state in (STARTED, SUCCESSFUL):
        return  # the request is out, or answered
    if state is ReplicaState.NON_EXISTENT:  # a reassignment that this deletion ends had removed it
        plan_replica_move(plan, topic_partition, broker, ReplicaState.NEW)
        plan.telling.leader_and_isr.get(broker, {}).pop(topic_partition, None)  # nobody makes it anew
    if broker in plan.context.brokers:
        plan_replica_move(plan, topic_partition, broker, OFFLINE)
        plan_replica_move(plan, topic_partition, broker, STARTED)
    elif state is not INELIGIBLE:
        plan_replica_move(plan, topic_partition, broker, OFFLINE)
        plan_replica_move(plan, topic_partition, broker, INELIGIBLE)


def plan_replica_failed(plan: Plan, topic_partition: TopicPartition, broker: BrokerId) -> None:
    """Row 101: a replica to be deleted whose broker died waits as Ineligible; what was deleted stays so."""
    state = plan.replica_state(topic_partition, broker)
    if state in (INELIGIBLE, SUCCESSFUL, ReplicaState.NON_EXISTENT):
        return
    if state not in (OFFLINE, STARTED):
        plan_replica_move(plan, topic_partition, broker, OFFLINE)
    plan_replica_move(plan, topic_partition, broker, INELIGIBLE)


@dataclass(frozen=True, slots=True)
class DeletionAnswered(Task):
    broker: BrokerId
    failed: frozenset[TopicPartition]
    about: tuple[TopicPartition, ...]

    def reason(self) -> str:
        return f"broker {self.broker} answered StopReplica"

    def plan(self, plan: Plan) -> None:
        for topic_partition in plan.pick(self.about):
            target = INELIGIBLE if topic_partition in self.failed else SUCCESSFUL
            plan_replica_move(plan, topic_partition, self.broker, target)

    def commit_done(self, context: ControllerContext, outcomes: dict[object, object], now_ms: int) -> None:
        if self.failed:
            context.commit_deadline(RETRY, now_ms + RETRY_MS)


@dataclass(frozen=True, slots=True)
class ResumeDeletions(Task):
    """Take up deletions that could not go on: replicas there are Ineligible and their broker lives (row 85)."""

    why: str

    def reason(self) -> str:
        return self.why

    def plan(self, plan: Plan) -> None:
        context = plan.context
        waiting = [tp for t in sorted(context.topics_to_delete) for tp in context.partitions_of(t)]
        for topic_partition in plan.pick(waiting):
            for broker in plan.assignment(topic_partition).replicas:
                # In no other state it could be taken up (`invariants.deletion_is_under_way`).
                ready = broker in context.brokers
                if ready and plan.replica_state(topic_partition, broker) is INELIGIBLE:
                    plan_replica_move(plan, topic_partition, broker, OFFLINE)
                    plan_replica_move(plan, topic_partition, broker, STARTED)


@dataclass(frozen=True, slots=True)
class CompleteDeletions(Task):
    """Topics whose replicas are all gone: the nodes, then the memory (row 169)."""

    def reason(self) -> str:
        return "topic deletion"

    def plan(self, plan: Plan) -> None:
        context = plan.context
        gone: list[TopicPartition] = []
        rooms = Rooms(context)
        removals: list[Write] = []
        for topic in sorted(context.topics_to_delete):
            if topic not in context.topics or not is_deleted_everywhere(context, topic):
                continue
            topic_id = context.topic_id(topic)
            left_behind: dict[BrokerId, dict[TopicPartition, TopicId]] = {}
            for topic_partition in context.partitions_of(topic):
                for broker in context.assignments[topic_partition].replicas:
                    if context.replica_state(topic_partition, broker) is not SUCCESSFUL:
                        left_behind.setdefault(broker, {})[topic_partition] = topic_id
            if rooms.take(left_behind):
                continue  # as if it had to wait for the dead: until one of them returns
            for topic_partition in context.partitions_of(topic):
                for broker in context.assignments[topic_partition].replicas:
                    if topic_partition in left_behind.get(broker, ()):
                        plan.changes.append(_left_behind(topic_partition, broker))
                    else:
                        plan_replica_move(plan, topic_partition, broker, ReplicaState.NON_EXISTENT)
            plan.note("topic", topic, "being deleted", "deleted")
            removals += [RemoveTopic(topic), RemoveTopicConfig(topic), RemoveTopicDeletion(topic)]
            gone += [tp for tp in context.legacy_reassignments if tp.topic == topic]
        if gone:  # before the request to delete is removed: a successor must find what is left to do
            left = {tp: target for tp, target in context.legacy_reassignments.items() if tp not in gone}
            plan.other_writes.append(WriteReassignmentNode(left))
        rooms.plan_kept(plan)  # while the topic node still says whose data it is
        plan.other_writes += removals

    def commit_answer(self, context: ControllerContext, write: Write, answer: WriteAnswer) -> bool:
        assert isinstance(answer, Stored), "removing what is gone already is success"
        if isinstance(write, WriteReassignmentNode):
            context.legacy_reassignments = dict(write.targets)
        if isinstance(write, WritePendingDeletions):
            commit_kept(context, write)
        # The request is removed last: only then is the topic forgotten.
        if isinstance(write, RemoveTopicDeletion):
            context.commit_topic_gone(write.topic)
            context.deletions_requested -= {write.topic}
        return False


def is_deleted_everywhere(context: ControllerContext, topic: str) -> bool:
    """Every replica Successful; with `odradek.delete.topic.with.offline.replicas`, dead ones do not count:
    what they keep is a pending deletion, by topic id, until their broker returns."""
    without_dead = context.deletes_with_offline_replicas()
    for topic_partition in context.partitions_of(topic):
        for broker in context.assignments[topic_partition].replicas:
            if context.replica_state(topic_partition, broker) is SUCCESSFUL:
                continue
            if without_dead and broker not in context.brokers:
                continue
            return False
    return True


@dataclass(frozen=True, slots=True)
class UndoGrowth(Task):
    """Partitions added to a topic that is being deleted are taken out of its node again (row 165)."""

    node: TopicAssignment

    def reason(self) -> str:
        return "partitions added to a topic that is being deleted"

    def plan(self, plan: Plan) -> None:
        context = plan.context
        known = context.topics[self.node.topic]
        kept = {p: self.node.partitions[p] for p in known.partitions if p in self.node.partitions}
        plan.other_writes.append(
            WriteTopicAssignment(self.node.topic, known.topic_id, kept, self.node.version)
        )
        added = sorted(set(self.node.partitions) - set(known.partitions))
        plan.note("topic", self.node.topic, "being deleted", f"partitions {added} taken out again")

    def commit_answer(self, context: ControllerContext, write: Write, answer: WriteAnswer) -> bool:
        if isinstance(answer, Stored):
            context.commit_topic_version(self.node.topic, answer.version)
        elif isinstance(answer, Conflict) and isinstance(answer.current, TopicAssignment):
            context.commit_topic_version(self.node.topic, answer.current.version)  # its own fact follows
        return False


def why_halted(context: ControllerContext, topic: str) -> str | None:
    """What a deletion waits for, as a sentence; None: nothing."""
    dead = sorted(
        {b for tp in context.partitions_of(topic) for b in context.assignments[tp].replicas}
        - set(context.brokers)
    )
    if dead:
        return f"halted: replicas on broker {', '.join(map(str, dead))}, not live"
    return None


def unfinished_names(context: ControllerContext, requested: Iterable[str]) -> tuple[str, ...]:
    """Requests a predecessor left behind after it had removed the topic's node: finish them."""
    return tuple(t for t in sorted(requested) if t not in context.topics and t not in context.out_of_service)


def _left_behind(topic_partition: TopicPartition, broker: BrokerId) -> StateChange:
    return StateChange(
        "warning",
        "replica",
        "stray",
        f"broker {broker} is dead and keeps {topic_partition}: cleaned by topic id when it returns",
        topic_partition,
    )
