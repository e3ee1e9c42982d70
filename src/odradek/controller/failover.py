"""Taking over: from everything the store holds to two state machines that work (S0 onControllerFailover).

Order of row 144. Before the event `Elected` reaches the core, the adapter has armed its watches and deleted
the notifications of ISR and log directory changes (what they announced is part of the snapshot). Then, here:
load the context, tell the live brokers of each other before anything else (a broker must know its peers
before LeaderAndIsr names them as leaders), start the replica machine, start the partition machine, and take
up reassignments, deletions and preferred elections.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import repeat

from odradek.controller.broker_changes import plan_online_trigger
from odradek.controller.bulk_moves import plan_departures
from odradek.controller.context import (
    ControllerContext,
    ControllerSettings,
    Reassignment,
    ReassignmentPhase,
    Topic,
)
from odradek.controller.eligible import plan_lost
from odradek.controller.events import Elected, Event, ReassignmentStep
from odradek.controller.incarnations import RESTARTED, commit_last_epochs, plan_restarted_members
from odradek.controller.pending_deletions import commit_notified, plan_notifications
from odradek.controller.plan import Notification, Plan
from odradek.controller.replica_states import TRANSITIONS
from odradek.controller.states import PartitionState, ReplicaState
from odradek.controller.task import Task
from odradek.model.cluster import ReplicaAssignment
from odradek.model.facts import StoredPartitionState
from odradek.model.ids import NO_TOPIC_ID, BrokerId, ControllerEpoch, TopicPartition, in_order
from odradek.model.values import dataclass

NON_EXISTENT = ReplicaState.NON_EXISTENT


def load_context(event: Elected, settings: ControllerSettings) -> ControllerContext:
    """Everything read from the store, with both machines initialised and nothing decided yet.

    A topic with a node that cannot be read is out of service, with the reason, and the rest goes on.
    """
    snapshot = event.snapshot
    context = ControllerContext(
        broker=event.broker,
        controller_epoch=event.controller_epoch,
        epoch_version=event.epoch_version,
        settings=settings,
        id_seed=event.id_seed,
        brokers={registration.broker_id: registration for registration in snapshot.brokers},
        topic_configs={topic: config.overrides for topic, config in snapshot.topic_configs.items()},
        broker_configs=dict(snapshot.broker_configs),
        producer_ids=snapshot.producer_ids,
        topics_to_delete=set(snapshot.delete_topics),
        pending_deletions={broker: dict(kept) for broker, kept in snapshot.pending_deletions.items()},
    )
    for node in snapshot.unreadable:
        if node.topic is not None:
            context.out_of_service.setdefault(node.topic, f"{node.path}: {node.reason}")
    same: dict[tuple[BrokerId, ...], ReplicaAssignment] = {}  # equal assignments are kept once
    states, assignments, leaderships = snapshot.states, context.assignments, context.leaderships
    for topic in snapshot.topics:
        if topic.topic in context.out_of_service:
            continue
        identity = topic.topic_id or NO_TOPIC_ID
        context.topics[topic.topic] = Topic(identity, topic.version, tuple(sorted(topic.partitions)))
        context.topic_names[identity] = topic.topic
        alike: dict[tuple[BrokerId, ...], list[TopicPartition]] = {}  # by their replicas
        for partition, assignment in topic.partitions.items():
            topic_partition = TopicPartition(topic.topic, partition)
            if assignment.adding_replicas or assignment.removing_replicas:
                moving = Reassignment(assignment, ReassignmentPhase.GROWING)
                context.reassignments[topic_partition] = moving
            else:
                assignment = same.setdefault(assignment.replicas, assignment)
            assignments[topic_partition] = assignment
            alike.setdefault(assignment.replicas, []).append(topic_partition)
            stored = states.get(topic_partition)
            if stored is not None:
                leaderships[topic_partition] = stored
        for replicas, partitions in alike.items():
            for broker in replicas:
                context.partitions_on.setdefault(broker, set()).update(partitions)
    commit_last_epochs(context)
    commit_initial_states(context, context.assignments)
    return context


def newest_controller_epoch(
    states: Mapping[TopicPartition, StoredPartitionState],
) -> tuple[ControllerEpoch, TopicPartition | None]:
    """The highest controller epoch that wrote a state node, and where. Above ours: somebody else leads."""
    newest, where = ControllerEpoch(-1), None
    for topic_partition, stored in states.items():
        if stored.controller_epoch > newest:
            newest, where = stored.controller_epoch, topic_partition
    return newest, where


def commit_initial_states(context: ControllerContext, partitions: Iterable[TopicPartition]) -> None:
    """Rows 27 and 80: cache only, nobody is told. Partition: no leader known is New, leader live is Online,
    else Offline. Replica: live is Online, dead is Ineligible (C1: a topic to be deleted must wait for it)."""
    brokers, leaderships, assignments = context.brokers, context.leaderships, context.assignments
    states, leaderless = context.partition_states, context.leaderless
    dead_of: dict[tuple[BrokerId, ...], dict[BrokerId, ReplicaState]] = {}
    for topic_partition in partitions:
        stored = leaderships.get(topic_partition)
        if stored is not None and stored.leader_and_isr.leader in brokers:
            states[topic_partition] = PartitionState.ONLINE  # nearly all of them, so without a call
            leaderless.discard(topic_partition)
        else:
            state = PartitionState.NEW if stored is None else PartitionState.OFFLINE
            context.commit_partition_state(topic_partition, state)
        replicas = assignments[topic_partition].replicas
        dead = dead_of.get(replicas)
        if dead is None:
            gone = [broker for broker in replicas if broker not in brokers]
            dead = dead_of[replicas] = dict.fromkeys(gone, ReplicaState.DELETION_INELIGIBLE)
        if dead:
            context.commit_replica_states(topic_partition, dead)
        # Of a topic found while we lead: just assigned, not born yet.
        if topic_partition in context.replica_state_overrides:
            found = [b for b in replicas if context.replica_state(topic_partition, b) is NON_EXISTENT]
            context.commit_replica_states(topic_partition, dict.fromkeys(found, ReplicaState.ONLINE))


@dataclass(frozen=True, slots=True)
class Startup(Task):
    """Rows 28, 81, 121: both machines make their first moves."""

    def reason(self) -> str:
        return "controller failover"

    def plan(self, plan: Plan) -> None:
        context = plan.context
        if plan.only is None:
            plan.note("controller", str(context.broker), "standby", f"epoch {context.controller_epoch}")
            # Whole where there is no partition: nothing is told after it.
            plan.first_notifications.append(Notification(bare_metadata=True, is_whole=True))
            plan_notifications(plan, context.brokers)
        deleting = context.topics_to_delete
        plan_startup(plan, plan.pick(tp for tp in context.assignments if tp.topic not in deleting))
        if plan.only is None:
            for topic, why in sorted(context.out_of_service.items()):
                plan.note("topic", topic, "stored", "out of service", why)
            plan.note("machine", "replica", "initialized", "started", _census(_replica_states(plan)))
            plan.note("machine", "partition", "initialized", "started", _census(_partition_states(plan)))
            plan.note("controller", str(context.broker), "loading", "ready")

    def commit_done(self, context: ControllerContext, outcomes: dict[object, object], now_ms: int) -> None:
        commit_notified(context, outcomes, now_ms)

    def follow_up(self, context: ControllerContext, outcomes: dict[object, object]) -> tuple[Event, ...]:
        """Row 121: take up what a predecessor had begun, from the beginning: every step may be repeated."""
        running = tuple(
            tp for tp in sorted(context.reassignments) if tp.topic not in context.topics_to_delete
        )
        return (ReassignmentStep(running, announce=True),) if running else ()


def plan_startup(plan: Plan, partitions: list[TopicPartition]) -> None:
    """Live replicas -> Online (LeaderAndIsr to every one), dead -> Offline (out of the ISR), then elections.

    The move Online -> Online is made for whole brokers at a time and stands in the journal as one line, the
    census of the replica machine.
    """
    context = plan.context
    assert ReplicaState.ONLINE in TRANSITIONS[ReplicaState.ONLINE]
    brokers = context.brokers
    told: dict[BrokerId, dict[TopicPartition, bool]] = {broker: {} for broker in brokers}
    dead: dict[BrokerId, list[TopicPartition]] = {}
    for topic_partition in partitions:
        for broker in context.assignments[topic_partition].replicas:
            if broker in brokers:
                told[broker][topic_partition] = False
            else:
                dead.setdefault(broker, []).append(topic_partition)
    # A predecessor may have died before it told everybody of a deletion: who is told of all there is forgets the rest.
    plan.telling.merge(Notification(told, metadata=dict.fromkeys(partitions), is_whole=True))
    lost = plan_restarted_members(plan, partitions)
    for broker in sorted(dead):
        plan_departures(plan, broker, in_order(dead[broker]))
    plan_lost(plan, lost, RESTARTED)
    plan_online_trigger(plan)


def _census(states: Iterable[str]) -> str:
    """How many are in which state; Apache lists every one (row 83), which nobody reads at 100,000."""
    counted = sorted(Counter(states).items())
    return ", ".join(f"{count} {state}" for state, count in counted) or "none"


def _partition_states(plan: Plan) -> Iterator[str]:
    return (plan.partition_state(topic_partition) for topic_partition in plan.context.assignments)


def _replica_states(plan: Plan) -> Iterator[str]:
    """The usual state of a replica is Online; only the others are looked at one by one."""
    context = plan.context
    online = sum(len(partitions) for partitions in context.partitions_on.values())
    for topic_partition in {*context.replica_state_overrides, *plan.replica_states}:
        for broker in context.assignments[topic_partition].replicas:
            state = plan.replica_state(topic_partition, broker)
            if state is not ReplicaState.ONLINE:
                online -= 1
                yield state
    yield from repeat(ReplicaState.ONLINE, online)
