"""Replicas that must still be deleted although no topic node names them: of a topic deleted without their broker,
of a reassignment whose removed replica died, or of one that was cancelled while they were being added.

They are kept in a node of ours, written before the node that named them forgets them, and taken out again once
the broker has answered StopReplica; so they survive the controller. The broker is told with epoch -2, whatever
epoch it remembers.

StopReplica names no topic id. A new topic of the same name must therefore wait until the old data is gone: told
to host it before, the broker would find the old id there and answer INCONSISTENT_TOPIC_ID for ever. Until it has
answered, its replica of the new topic counts as offline and is sent no LeaderAndIsr.

An entry is void where the broker hosts that partition again, rightly: as the same topic, or as a member of its
ISR. (The latter happens when an Apache controller, which does not know our node, led in between. A replica that
is not in the ISR may always be emptied: nobody counts on it.) A removed replica that has left hosts nothing, also while the
topic node still names it as removing.
"""

from collections.abc import Iterable, Mapping

from odradek.controller.context import ControllerContext
from odradek.controller.effects import Write, WritePendingDeletions
from odradek.controller.events import Event, StopReplicaAnswered, WriteAnswer
from odradek.controller.plan import Notification, Plan
from odradek.controller.reassignment_rules import steps_after
from odradek.controller.states import ReplicaState
from odradek.controller.task import Task
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import EPOCH_DURING_DELETE, BrokerId, TopicId, TopicPartition
from odradek.model.values import dataclass

# A broker that could not delete is told again after this long, for ever.
RETRY, RETRY_MS = "retry strays", 10_000
# Of a broker's node. ZooKeeper takes a packet of 1 MiB; who meant to write a larger one would have to resign, and so would each
# controller after it.
MOST_NODE_BYTES = 1_000_000
_ROW_BYTES = 64  # of a topic's row in it, its id among them, without its name and its partitions


def unnamed(context: ControllerContext, broker: BrokerId) -> dict[TopicPartition, TopicId]:
    """Of what `broker` must delete that which no topic node names any more, and its own node has to."""
    kept = context.pending_deletions.get(broker, {})
    return {tp: topic_id for tp, topic_id in kept.items() if not _is_named(context, broker, tp, topic_id)}


def _is_named(
    context: ControllerContext, broker: BrokerId, topic_partition: TopicPartition, topic_id: TopicId
) -> bool:
    """As removing: whoever takes over finds there what is left to do."""
    moving = context.reassignments.get(topic_partition)
    return (
        moving is not None
        and broker in moving.stored.removing_replicas
        and topic_id == context.topic_id(topic_partition.topic)
    )


class Rooms:
    """What there is in brokers' nodes for partitions that topic nodes are to forget."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._rooms: dict[BrokerId, _Room] = {}
        self._taken: set[BrokerId] = set()

    def take(self, behind: Mapping[BrokerId, Mapping[TopicPartition, TopicId]]) -> tuple[BrokerId, ...]:
        """The brokers in whose nodes there is no room for what is left behind there. Where there is none of these it is taken, else
        nothing is."""
        for broker in behind:
            if broker not in self._rooms:
                self._rooms[broker] = _Room(self._context, broker)
        full = tuple(sorted(b for b, theirs in behind.items() if not self._rooms[b].has_for(theirs)))
        if not full:
            for broker, theirs in behind.items():
                self._rooms[broker].take(theirs)
                self._taken.add(broker)
        return full

    def plan_kept(self, plan: Plan) -> None:
        """Store that brokers must delete what was taken, too. Before the write that makes a topic node forget it."""
        for broker in sorted(self._taken):
            plan.other_writes.append(WritePendingDeletions(broker, self._rooms[broker].kept))


class _Room:
    """Of the node of one broker."""

    def __init__(self, context: ControllerContext, broker: BrokerId) -> None:
        self.kept: dict[TopicPartition, TopicId] = {}
        self._rows: set[tuple[str, TopicId]] = set()
        self._used = 0
        self.take(unnamed(context, broker))

    def has_for(self, added: Mapping[TopicPartition, TopicId]) -> bool:
        return self._used + self._takes(added) <= MOST_NODE_BYTES

    def take(self, added: Mapping[TopicPartition, TopicId]) -> None:
        self._used += self._takes(added)
        self._rows |= {(tp.topic, topic_id) for tp, topic_id in added.items()}
        self.kept.update(added)

    def _takes(self, added: Mapping[TopicPartition, TopicId]) -> int:
        """In the JSON of the node: a row for each topic, with the numbers of its partitions."""
        new = {tp: topic_id for tp, topic_id in added.items() if self.kept.get(tp) != topic_id}
        rows = {(tp.topic, topic_id) for tp, topic_id in new.items()} - self._rows
        numbers = sum([len(str(tp.partition)) + 1 for tp in new])
        return numbers + sum([len(topic) + _ROW_BYTES for topic, _ in rows])


def plan_notifications(plan: Plan, brokers: Iterable[BrokerId]) -> None:
    """StopReplica for what these brokers keep and were not told yet, before any LeaderAndIsr of the event."""
    context = plan.context
    stops: dict[BrokerId, dict[TopicPartition, bool]] = {}
    for broker in sorted(brokers):
        sent = context.pending_deletions_sent.get(broker, frozenset())
        due = [
            tp
            for tp in context.pending_deletions.get(broker, ())
            if tp not in sent
            and broker not in context.removals.get(tp, {})
            and not is_void(context, broker, tp)
        ]
        if due:
            stops[broker] = dict.fromkeys(sorted(due), True)
            plan.outcomes[WritePendingDeletions, broker] = tuple(sorted(due))
    if stops:
        plan.first_notifications.append(
            Notification(stops=stops, metadata_to=(), stop_epoch=EPOCH_DURING_DELETE)
        )


def commit_notified(context: ControllerContext, outcomes: Mapping[object, object], now_ms: int) -> None:
    """The requests of `plan_notifications` are on their way; whoever does not obey is told again."""
    for key, due in outcomes.items():
        if isinstance(key, tuple) and key[0] is WritePendingDeletions and isinstance(due, tuple):
            broker = key[1]
            context.pending_deletions_sent[broker] = context.pending_deletions_sent.get(
                broker, frozenset()
            ) | frozenset(due)
    if not context.pending_deletions.keys().isdisjoint(context.brokers):
        context.commit_deadline(RETRY, now_ms + RETRY_MS)


def commit_kept(
    context: ControllerContext, write: WritePendingDeletions, gone: Iterable[TopicPartition] = ()
) -> None:
    """What topic nodes name is kept in memory alone, until it is `gone`."""
    before, away = context.pending_deletions.get(write.broker, {}), frozenset(gone)
    named = {
        tp: topic_id
        for tp, topic_id in before.items()
        if tp not in away and _is_named(context, write.broker, tp, topic_id)
    }
    if write.pending_deletions or named:
        context.pending_deletions[write.broker] = {**write.pending_deletions, **named}
    else:
        context.pending_deletions.pop(write.broker, None)


def commit_wanted(
    context: ControllerContext, topic_partition: TopicPartition, brokers: Iterable[BrokerId]
) -> None:
    """The topic node names these as replicas that stay: they owe nothing of this topic. What they keep of an older one of that name
    still goes."""
    for broker in brokers:
        kept = context.pending_deletions.get(broker, {})
        if kept.get(topic_partition) == context.topic_id(topic_partition.topic):
            del kept[topic_partition]
            if not kept:
                del context.pending_deletions[broker]


def is_void(context: ControllerContext, broker: BrokerId, topic_partition: TopicPartition) -> bool:
    assignment = context.assignments.get(topic_partition)
    if assignment is None or broker not in assignment.replicas:
        return False
    if context.replica_state(topic_partition, broker) is ReplicaState.NON_EXISTENT:
        return False
    return not context.has_pending_deletion(broker, topic_partition)


def answered_by(context: ControllerContext, event: StopReplicaAnswered) -> "PendingDeletionsAnswered | None":
    """The answer to a StopReplica with deletion, as far as it is about these; who asked for it does not matter."""
    about = [tp for tp in sorted(event.deleted) if tp in context.pending_deletions.get(event.broker, {})]
    if not about:
        return None
    errors = event.partition_errors
    whole = event.error is not ErrorCode.NONE
    failed = frozenset(tp for tp in about if whole or errors.get(tp, ErrorCode.NONE) is not ErrorCode.NONE)
    return PendingDeletionsAnswered(event.broker, tuple(tp for tp in about if tp not in failed), failed)


@dataclass(frozen=True, slots=True)
class PendingDeletionsAnswered(Task):
    broker: BrokerId
    gone: tuple[TopicPartition, ...]
    failed: frozenset[TopicPartition]

    def reason(self) -> str:
        return f"broker {self.broker} answered StopReplica"

    def plan(self, plan: Plan) -> None:
        if self.gone:
            kept, gone = unnamed(plan.context, self.broker), frozenset(self.gone)
            plan.other_writes.append(
                WritePendingDeletions(
                    self.broker, {tp: known for tp, known in kept.items() if tp not in gone}
                )
            )

    def commit_answer(self, context: ControllerContext, write: Write, answer: WriteAnswer) -> bool:
        assert isinstance(write, WritePendingDeletions)
        commit_kept(context, write, self.gone)
        return False

    def commit_done(self, context: ControllerContext, outcomes: dict[object, object], now_ms: int) -> None:
        sent = context.pending_deletions_sent.get(self.broker, frozenset())
        context.pending_deletions_sent[self.broker] = sent - self.failed - set(self.gone)
        commit_notified(context, {}, now_ms)

    def follow_up(self, context: ControllerContext, outcomes: dict[object, object]) -> tuple[Event, ...]:
        """Reassignments that waited for room in the broker's node."""
        return steps_after(context, self.gone)


@dataclass(frozen=True, slots=True)
class RetryPendingDeletions(Task):
    """Told again where it failed; and what is void by now is taken out of the node."""

    def reason(self) -> str:
        return "replicas without a topic; told again to delete them"

    def plan(self, plan: Plan) -> None:
        context = plan.context
        live = [broker for broker in sorted(context.pending_deletions) if broker in context.brokers]
        for broker in live:
            kept = unnamed(context, broker)
            left = {tp: known for tp, known in kept.items() if not is_void(context, broker, tp)}
            if len(left) < len(kept):
                plan.other_writes.append(WritePendingDeletions(broker, left))
        plan_notifications(plan, live)

    def commit_answer(self, context: ControllerContext, write: Write, answer: WriteAnswer) -> bool:
        assert isinstance(write, WritePendingDeletions)
        commit_kept(context, write)
        return False

    def commit_done(self, context: ControllerContext, outcomes: dict[object, object], now_ms: int) -> None:
        commit_notified(context, outcomes, now_ms)
