"""Asking for a reassignment: KIP-455's request and the older node, with the checks of both (rows 6, 162-164).

The request is answered partition by partition once the topic nodes are written. The node `/admin/
reassign_partitions` cannot be answered: what is refused there is taken out of it, and the journal says why.
Apache accepts dead brokers in the node and then hangs (golden 04c); ours refuses them in both.
"""

from collections.abc import Mapping

from odradek.controller.context import ControllerContext
from odradek.controller.effects import Answer, StateChange, Write, WriteReassignmentNode
from odradek.controller.events import WriteAnswer
from odradek.controller.pending_deletions import Rooms
from odradek.controller.plan import Plan
from odradek.controller.reassignment_rules import (
    assignment_towards,
    dropped_by,
    knows_the_target_alone,
    loses_records,
    remaining_legacy,
)
from odradek.controller.reassignment_start import DropReplicas, WriteAssignments
from odradek.controller.task import Task
from odradek.model.cluster import ReplicaAssignment
from odradek.model.controller_requests import (
    AlterReassignmentsAnswer,
    AlterReassignmentsAsked,
    ListReassignmentsAnswer,
    ListReassignmentsAsked,
)
from odradek.model.error_codes import ErrorCode
from odradek.model.facts import ReassignmentRequested
from odradek.model.ids import BrokerId, TopicPartition
from odradek.model.values import dataclass, field

Refusal = tuple[ErrorCode, str]
ACCEPTED: Refusal = (ErrorCode.NONE, "")
NOTHING_TO_CANCEL: Refusal = (
    ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
    "No partition reassignment is in progress.",
)
# Of a topic's node, which names in a reassignment also who comes and who goes. ZooKeeper takes a packet of 1 MiB.
MOST_NODE_BYTES = 1_000_000


def tasks_of_request(
    context: ControllerContext, request_id: int, asked: AlterReassignmentsAsked
) -> list[Task]:
    results, requested = results_of(
        context, asked.targets, may_change_size=asked.allow_replication_factor_change
    )
    overridden = [tp for tp in results if tp in context.legacy_reassignments and tp in requested]
    tasks = _start(context, requested, "reassignment asked for")
    if overridden:
        tasks.append(TrimLegacyNode(tuple(overridden), ()))
    return [*tasks, AnswerReassignments(request_id, results, requested)]


def results_of(
    context: ControllerContext,
    targets: Mapping[TopicPartition, tuple[BrokerId, ...] | None],
    *,
    may_change_size: bool = True,
) -> tuple[dict[TopicPartition, Refusal], dict[TopicPartition, ReplicaAssignment]]:
    """What each is answered, and what the topic nodes are to hold of those that are accepted and change anything."""
    results: dict[TopicPartition, Refusal] = {}
    requested: dict[TopicPartition, ReplicaAssignment] = {}
    # One value for all that move alike: of 100,000 partitions a few hundred assignments are different.
    alike: dict[tuple[ReplicaAssignment, tuple[BrokerId, ...]], ReplicaAssignment] = {}
    for topic_partition in sorted(targets):
        target = targets[topic_partition]
        results[topic_partition] = refusal(context, topic_partition, target, may_change_size=may_change_size)
        if results[topic_partition][0] is ErrorCode.NONE:
            stored = context.stored_assignment(topic_partition)
            goal = stored.origin_replicas if target is None else target
            if target is None or goal != stored.target_replicas:
                known = alike.get((stored, goal))
                if known is None:
                    known = alike[stored, goal] = assignment_towards(stored, goal)
                requested[topic_partition] = known
    for topic_partition, refused in _without_room(context, requested).items():
        results[topic_partition] = refused
        del requested[topic_partition]
    return results, requested


def tasks_of_node(context: ControllerContext, event: ReassignmentRequested) -> list[Task]:
    """The legacy node as it stands now. What it no longer names goes on: it is in the topic node."""
    requested: dict[TopicPartition, ReplicaAssignment] = {}
    refused: list[StateChange] = []
    done: list[TopicPartition] = []
    context.legacy_reassignments = dict(event.targets)

    def refuse(topic_partition: TopicPartition, error: ErrorCode, why: str) -> None:
        done.append(topic_partition)
        refused.append(
            StateChange("failure", "reassignment", "refused", f"{error.name}: {why}", topic_partition)
        )

    for topic_partition in sorted(event.targets):
        target = event.targets[topic_partition]
        error, why = refusal(context, topic_partition, target)
        if error is not ErrorCode.NONE:
            refuse(topic_partition, error, why)
            continue
        stored = context.stored_assignment(topic_partition)
        if target != stored.target_replicas:
            requested[topic_partition] = assignment_towards(stored, target)
        elif topic_partition not in context.reassignments:
            done.append(topic_partition)  # it is there already
    for topic_partition, (error, why) in _without_room(context, requested).items():
        refuse(topic_partition, error, why)
        del requested[topic_partition]
    tasks = _start(context, requested, "reassignment asked for in /admin/reassign_partitions")
    return [*tasks, TrimLegacyNode(tuple(done), tuple(refused))] if done else tasks


def _start(
    context: ControllerContext, requested: Mapping[TopicPartition, ReplicaAssignment], why: str
) -> list[Task]:
    if not requested:
        return []
    drops = {
        tp: new
        for tp, new in requested.items()
        if dropped_by(context.stored_assignment(tp), new) or knows_the_target_alone(context, tp)
    }
    tasks: list[Task] = [DropReplicas(drops)] if drops else []
    return [*tasks, WriteAssignments(dict(requested), why)]


def _without_room(
    context: ControllerContext, requested: Mapping[TopicPartition, ReplicaAssignment]
) -> dict[TopicPartition, Refusal]:
    """Those whose topic's node, or whose dropped replicas' broker's, would be larger than the store takes: no controller could write
    it, nor go on."""
    found: dict[TopicPartition, Refusal] = {}
    for topic in sorted({tp.topic for tp in requested}):
        of_topic = context.partitions_of(topic)
        size = sum(_most_bytes(tp, requested.get(tp) or context.stored_assignment(tp)) for tp in of_topic)
        if size > MOST_NODE_BYTES:
            why = (
                f"with so much of topic {topic} moving at once its node would take {size} bytes of at most "
                f"{MOST_NODE_BYTES}; reassign fewer of its {len(of_topic)} partitions at a time"
            )
            found |= {tp: (ErrorCode.POLICY_VIOLATION, why) for tp in of_topic if tp in requested}
    rooms = Rooms(context)
    for topic_partition in sorted(requested.keys() - found.keys()):
        dropped = dropped_by(context.stored_assignment(topic_partition), requested[topic_partition])
        kept = {topic_partition: context.topic_id(topic_partition.topic)}
        if full := rooms.take(dict.fromkeys(dropped, kept)):
            why = (
                f"what broker {full[0]} must delete would not fit into its node any more; drop fewer replicas of broker "
                f"{full[0]} at a time, or start it first"
            )
            found[topic_partition] = ErrorCode.POLICY_VIOLATION, why
    return found


def _most_bytes(topic_partition: TopicPartition, assignment: ReplicaAssignment) -> int:
    """What it takes in the JSON of its topic's node: up to three lists, each behind the partition's number."""
    lists = (assignment.replicas, assignment.adding_replicas, assignment.removing_replicas)
    name = len(str(topic_partition.partition)) + 6  # "7":[],
    return sum(name + sum(len(str(broker)) + 1 for broker in replicas) for replicas in lists if replicas)


def refusal(
    context: ControllerContext,
    topic_partition: TopicPartition,
    target: tuple[BrokerId, ...] | None,
    *,
    may_change_size: bool = True,
) -> Refusal:
    """Row 163, and the check Apache lacks: nobody who has the records may be lost by it (KAFKA-14424)."""
    # As in Apache, a wish that makes no sense is refused for that before it is asked whether there is such a partition.
    is_known = topic_partition in context.assignments
    stored = context.stored_assignment(topic_partition) if is_known else ReplicaAssignment(())
    if target is None and not is_known:
        return NOTHING_TO_CANCEL
    invalid = None if target is None else _invalid_list(context, stored, target)
    if invalid is not None:
        return ErrorCode.INVALID_REPLICA_ASSIGNMENT, invalid
    if not is_known or topic_partition.topic in context.topics_to_delete:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist."
    if target is None:
        if topic_partition not in context.reassignments or not stored.is_being_reassigned:
            return NOTHING_TO_CANCEL
        return _loses_records(context, topic_partition, assignment_towards(stored, stored.origin_replicas))
    if not may_change_size and len(target) != len(stored.origin_replicas):
        return (
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"the replication factor would change from {len(stored.origin_replicas)} to {len(target)}",
        )
    if not stored.adding_replicas:
        return ACCEPTED  # nobody is being added who could be dropped
    return _loses_records(context, topic_partition, assignment_towards(stored, target))


def _invalid_list(
    context: ControllerContext, stored: ReplicaAssignment, target: tuple[BrokerId, ...]
) -> str | None:
    if not target:
        return "Empty replica list specified in partition reassignment."
    if len(set(target)) != len(target):
        return f"Duplicate replica ids in partition reassignment replica list: {list(target)}"
    if min(target) < 0:
        return f"Invalid broker id in replica list: {list(target)}"
    dead = [b for b in target if b not in stored.replicas and b not in context.brokers]
    if dead:
        return (
            f"Replica assignment has brokers that are not alive. Replica list: {dead}, "
            f"live broker list: {sorted(context.brokers)}"
        )
    return None


def _loses_records(
    context: ControllerContext, topic_partition: TopicPartition, requested: ReplicaAssignment
) -> Refusal:
    """Dropping replicas that were being added must leave somebody live who is in sync."""
    stored = context.stored_assignment(topic_partition)
    dropped = dropped_by(stored, requested)
    current = context.leadership(topic_partition)
    if not dropped or current is None:
        return ACCEPTED
    if loses_records(context, topic_partition, current, dropped):
        return (
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"without {list(dropped)} no replica that is live and in the ISR {list(current.isr)} would be left",
        )
    return ACCEPTED


@dataclass(frozen=True, slots=True)
class AnswerReassignments(Task):
    request_id: int
    results: Mapping[TopicPartition, Refusal] = field(default_factory=dict)
    requested: Mapping[TopicPartition, ReplicaAssignment] = field(default_factory=dict)

    def plan(self, plan: Plan) -> None:
        return

    def answers(self, context: ControllerContext, outcomes: dict[object, object]) -> tuple[Answer, ...]:
        results = {tp: self._now(context, tp, result) for tp, result in self.results.items()}
        return (Answer(self.request_id, AlterReassignmentsAnswer(ErrorCode.NONE, "", results)),)

    def _now(self, context: ControllerContext, topic_partition: TopicPartition, result: Refusal) -> Refusal:
        requested = self.requested.get(topic_partition)
        if requested is None or context.stored_assignment(topic_partition) == requested:
            return result
        return (
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "the ISR shrank meanwhile: no replica in sync would be left",
        )


@dataclass(frozen=True, slots=True)
class TrimLegacyNode(Task):
    """Take partitions out of `/admin/reassign_partitions`: done, refused, or overridden by a request."""

    partitions: tuple[TopicPartition, ...]
    refused: tuple[StateChange, ...]

    def reason(self) -> str:
        return "/admin/reassign_partitions"

    def plan(self, plan: Plan) -> None:
        plan.changes.extend(self.refused)
        plan.other_writes.append(WriteReassignmentNode(remaining_legacy(plan.context, self.partitions)))

    def commit_answer(self, context: ControllerContext, write: Write, answer: WriteAnswer) -> bool:
        context.legacy_reassignments = remaining_legacy(context, self.partitions)
        return False


def list_answer(context: ControllerContext, asked: ListReassignmentsAsked) -> ListReassignmentsAnswer:
    wanted = None if asked.partitions is None else set(asked.partitions)
    running = {
        tp: moving.stored
        for tp, moving in sorted(context.reassignments.items())
        if moving.stored.is_being_reassigned and (wanted is None or tp in wanted)
    }
    return ListReassignmentsAnswer(ErrorCode.NONE, running)
