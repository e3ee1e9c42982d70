"""Topics and partitions appear, grow and vanish in the store (S0 onNewTopicCreation, rows 95-97).

Whoever creates a topic writes its node; a broker of Apache's does so without any fence. The controller only
reads that it is there, gives it an id if it has none, and brings its partitions to life.
"""

from collections.abc import Collection, Mapping

from odradek.controller.context import ControllerContext, Reassignment, ReassignmentPhase
from odradek.controller.effects import Write, WriteTopicAssignment
from odradek.controller.events import Conflict, Event, ReassignmentStep, Stored, WriteAnswer
from odradek.controller.failover import commit_initial_states, plan_startup
from odradek.controller.partition_states import plan_partition_move
from odradek.controller.plan import Plan
from odradek.controller.replica_states import plan_replica_move
from odradek.controller.states import PartitionState, ReplicaState
from odradek.controller.task import Task
from odradek.controller.topic_deletion import CompleteDeletions, DeleteTopics, ForgetDeletions, UndoGrowth
from odradek.model.facts import (
    ReassignmentRequested,
    StoredPartitionState,
    TopicAssignment,
    TopicAssignmentsChanged,
    TopicsChanged,
    UnreadableNode,
)
from odradek.model.ids import NO_TOPIC_ID, TopicId, TopicPartition
from odradek.model.values import dataclass


def tasks_of_topics(context: ControllerContext, event: TopicsChanged) -> list[Task]:
    tasks: list[Task] = []
    there = set(event.topics)
    created = {node.topic: node for node in event.created}
    vanished = sorted(
        {
            topic
            for topic, known in context.topics.items()
            if topic not in there
            or (topic in created and created[topic].topic_id not in (None, known.topic_id))
        }
        | (context.out_of_service.keys() - there)
    )
    if vanished:
        tasks.append(TopicsGone(tuple(vanished)))
    void = tuple(sorted(context.deletions_requested - there))
    if void:  # somebody took away the node; the request must not be for the next topic of that name
        tasks.append(ForgetDeletions(void, "its node is gone already", with_config=True))
    broken = {node.topic: node for node in event.unreadable if node.topic is not None}
    for topic in broken:  # it may be mended, and that alone is told then
        if topic in event.configs:
            context.topic_configs[topic] = event.configs[topic].overrides
    if broken:
        tasks.append(OutOfService(tuple(broken[topic] for topic in sorted(broken))))
    fresh = tuple(
        created[topic]
        for topic in sorted(created)
        if topic not in broken and (topic not in context.topics or topic in vanished)
    )
    if fresh:
        configs = {
            node.topic: event.configs[node.topic].overrides for node in fresh if node.topic in event.configs
        }
        tasks.extend(_creation(context, fresh, event.states, configs))
    return tasks


def tasks_of_assignments(context: ControllerContext, event: TopicAssignmentsChanged) -> list[Task]:
    """Partitions added. Our own writes come back as facts too: nothing new in them, nothing done."""
    tasks: list[Task] = []
    if event.unreadable:
        tasks.append(OutOfService(tuple(event.unreadable)))
    fresh = tuple(node for node in event.topics if node.topic not in context.topics)
    if fresh:
        configs = {node.topic: context.topic_configs.get(node.topic, {}) for node in fresh}
        tasks.extend(_creation(context, fresh, {}, configs))
    for node in event.topics:
        known = context.topics.get(node.topic)
        if known is None:
            continue
        added = tuple(
            sorted({*(node.partitions.keys() - frozenset(known.partitions)), *_unborn(context, node)})
        )
        if added and node.topic in context.topics_to_delete:
            tasks.append(UndoGrowth(node))
        elif added or node.version > known.version:
            tasks.append(PartitionsAdded(node, added))
    return tasks


def _unborn(context: ControllerContext, node: TopicAssignment) -> list[int]:
    """Partitions we know by a write of ours that found them there (`topic_nodes`), and that nobody has created yet."""
    states, topic = context.partition_states, node.topic
    if topic in context.topics_to_delete:
        return []  # none is there any more
    return [p for p in node.partitions if TopicPartition(topic, p) not in states]


def _creation(
    context: ControllerContext,
    nodes: tuple[TopicAssignment, ...],
    states: Mapping[TopicPartition, StoredPartitionState],
    configs: Mapping[str, Mapping[str, str]],
) -> list[Task]:
    tasks: list[Task] = [TopicsFound(nodes, dict(states), dict(configs))]
    nameless = tuple(node.topic for node in nodes if node.topic_id is None)
    if nameless:
        tasks.append(GiveTopicIds(nameless))
    partitions = tuple(TopicPartition(n.topic, p) for n in nodes for p in sorted(n.partitions))
    tasks.append(NewPartitions(partitions))
    doomed = tuple(node.topic for node in nodes if node.topic in context.deletions_requested)
    if doomed:  # it could not be read when its deletion was asked for
        tasks += [DeleteTopics(doomed), CompleteDeletions()]
    return tasks


@dataclass(frozen=True, slots=True)
class TopicsFound(Task):
    """Remember topics that appeared. A partition that has a state node already starts where that says, and a reassignment
    that is in the topic node begins again: the topic was out of service for a while, and is as a new controller finds it."""

    nodes: tuple[TopicAssignment, ...]
    states: Mapping[TopicPartition, StoredPartitionState]
    configs: Mapping[str, Mapping[str, str]]

    def reason(self) -> str:
        return "topic created"

    def commit_facts(self, context: ControllerContext) -> None:
        for node in self.nodes:
            context.out_of_service.pop(node.topic, None)
            context.commit_topic(node)
            context.topic_configs[node.topic] = self.configs.get(node.topic, {})
            for topic_partition in _moving(node):
                stored = context.assignments[topic_partition]
                context.reassignments[topic_partition] = Reassignment(stored, ReassignmentPhase.GROWING)
        led = [tp for tp in sorted(self.states) if tp in context.assignments]
        for topic_partition in led:
            context.commit_leadership(topic_partition, self.states[topic_partition])
        commit_initial_states(context, led)

    def plan(self, plan: Plan) -> None:
        for node in self.nodes:
            plan.note("topic", node.topic, "absent", f"{len(node.partitions)} partitions")

    def follow_up(self, context: ControllerContext, outcomes: dict[object, object]) -> tuple[Event, ...]:
        moving = tuple(tp for node in self.nodes for tp in _moving(node))
        first = (ReassignmentStep(moving, announce=True),) if moving else ()
        return (*first, *_asked_by_node(context, [node.topic for node in self.nodes]))


@dataclass(frozen=True, slots=True)
class GiveTopicIds(Task):
    """A topic without an id was created by an old tool: give it one before anybody hears of it."""

    topics: tuple[str, ...]

    def reason(self) -> str:
        return "topic without an id"

    def commit_facts(self, context: ControllerContext) -> None:
        for topic in self.topics:
            known = context.topics[topic]
            context.topics[topic] = type(known)(context.next_topic_id(), known.version, known.partitions)
            context.topic_names[context.topics[topic].topic_id] = topic
        context.topic_names.pop(NO_TOPIC_ID, None)

    def plan(self, plan: Plan) -> None:
        for topic in self.topics:
            plan.other_writes.append(_assignment_write(plan.context, topic))
            plan.note("topic", topic, "no id", plan.context.topic_id(topic).hex())

    def commit_answer(self, context: ControllerContext, write: Write, answer: WriteAnswer) -> bool:
        assert isinstance(write, WriteTopicAssignment)
        if isinstance(answer, Stored):
            _commit_version(context, write.topic, write.topic_id, answer.version)
            return False
        if isinstance(answer, Conflict) and isinstance(answer.current, TopicAssignment):
            # Somebody wrote it meanwhile: its id, if it has one, is the true one.
            identity = answer.current.topic_id or write.topic_id
            context.commit_growth(answer.current)
            _commit_version(context, write.topic, identity, answer.current.version)
            return answer.current.topic_id is None
        return False


@dataclass(frozen=True, slots=True)
class NewPartitions(Task):
    """Row 97: partitions -> New, their replicas -> New, partitions -> Online, replicas -> Online."""

    partitions: tuple[TopicPartition, ...]

    def reason(self) -> str:
        return "partition created"

    def plan(self, plan: Plan) -> None:
        mine = plan.pick(tp for tp in self.partitions if tp in plan.context.assignments)
        born = [tp for tp in mine if plan.partition_state(tp) is PartitionState.NON_EXISTENT]
        for topic_partition in born:
            plan_partition_move(plan, topic_partition, PartitionState.NEW)
        _move_replicas(plan, born, ReplicaState.NEW)
        for topic_partition in born:
            plan_partition_move(plan, topic_partition, PartitionState.ONLINE)
        _move_replicas(plan, born, ReplicaState.ONLINE)
        # A state node was there before we wrote one: take it over as a new controller would.
        found = sorted(set(mine) - set(born))
        if found:
            plan_startup(plan, found)


@dataclass(frozen=True, slots=True)
class PartitionsAdded(Task):
    node: TopicAssignment
    added: tuple[int, ...]

    def reason(self) -> str:
        return "partitions added"

    def commit_facts(self, context: ControllerContext) -> None:
        known = context.topics[self.node.topic]
        context.topics[self.node.topic] = type(known)(
            known.topic_id, self.node.version, tuple(sorted({*known.partitions, *self.added}))
        )
        for partition in self.added:
            context.commit_assignment(
                TopicPartition(self.node.topic, partition), self.node.partitions[partition]
            )

    def plan(self, plan: Plan) -> None:
        NewPartitions(tuple(TopicPartition(self.node.topic, p) for p in self.added)).plan(plan)


@dataclass(frozen=True, slots=True)
class TopicsGone(Task):
    topics: tuple[str, ...]

    def reason(self) -> str:
        return "topic node removed"

    def commit_facts(self, context: ControllerContext) -> None:
        for topic in self.topics:
            context.commit_topic_gone(topic)

    def plan(self, plan: Plan) -> None:
        for topic in self.topics:
            plan.note("topic", topic, "known", "absent")

    def follow_up(self, context: ControllerContext, outcomes: dict[object, object]) -> tuple[Event, ...]:
        return _asked_by_node(context, self.topics)


@dataclass(frozen=True, slots=True)
class OutOfService(Task):
    """A node of the topic cannot be read: we move none of its partitions until it can."""

    nodes: tuple[UnreadableNode, ...]

    def reason(self) -> str:
        return "node cannot be read"

    def commit_facts(self, context: ControllerContext) -> None:
        for node in self.nodes:
            if node.topic is not None:
                context.commit_out_of_service(node.topic, f"{node.path}: {node.reason}")

    def plan(self, plan: Plan) -> None:
        for node in self.nodes:
            plan.note(
                "topic", node.topic or node.path, "known", "out of service", f"{node.path}: {node.reason}"
            )


def _moving(node: TopicAssignment) -> list[TopicPartition]:
    return [
        TopicPartition(node.topic, p) for p, a in sorted(node.partitions.items()) if a.is_being_reassigned
    ]


def _asked_by_node(context: ControllerContext, topics: Collection[str]) -> tuple[Event, ...]:
    """What `/admin/reassign_partitions` says of them is looked at again: what is done, or cannot be, is taken out of it."""
    known = context.legacy_reassignments
    return (ReassignmentRequested(dict(known)),) if any(tp.topic in topics for tp in known) else ()


def _move_replicas(plan: Plan, partitions: list[TopicPartition], target: ReplicaState) -> None:
    for topic_partition in partitions:
        for broker in plan.assignment(topic_partition).replicas:
            plan_replica_move(plan, topic_partition, broker, target)


def _assignment_write(context: ControllerContext, topic: str) -> WriteTopicAssignment:
    known = context.topics[topic]
    partitions = {p: context.assignments[TopicPartition(topic, p)] for p in known.partitions}
    return WriteTopicAssignment(topic, known.topic_id, partitions, known.version)


def _commit_version(context: ControllerContext, topic: str, topic_id: TopicId, version: int) -> None:
    known = context.topics[topic]
    context.topic_names.pop(known.topic_id, None)
    context.topics[topic] = type(known)(topic_id, version, known.partitions)
    context.topic_names[topic_id] = topic
