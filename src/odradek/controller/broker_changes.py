"""Brokers come, go, bounce, move, and lose disks (S0 onBrokerFailure and onBrokerStartup; rows 98-106, 153, 155).

A bounce is the same id with a larger epoch: the broker was away, even if nobody saw it go, so it is failure
first and then start-up (KAFKA-7235). A change of a registration without a new epoch moves no replica; every
broker just hears of the new endpoints.
"""

from collections.abc import Iterable

from odradek.controller.bulk_moves import plan_departures, plan_elections, plan_returns
from odradek.controller.context import ControllerContext
from odradek.controller.eligible import has_stopped_cleanly, plan_lost
from odradek.controller.events import Event
from odradek.controller.partition_states import plan_partition_move
from odradek.controller.pending_deletions import commit_notified, plan_notifications
from odradek.controller.plan import Notification, Plan
from odradek.controller.reassignment_rules import steps_after
from odradek.controller.replica_removal import commit_removals_died, plan_removals_died
from odradek.controller.states import DELETED, PartitionState, ReplicaState
from odradek.controller.task import Task, led_anew
from odradek.controller.topic_deletion import CompleteDeletions, ResumeDeletions, plan_replica_failed
from odradek.controller.unclean import plan_asked_again
from odradek.model.cluster import BrokerRegistration
from odradek.model.facts import BrokersChanged
from odradek.model.ids import BrokerId, TopicPartition, in_order, number_in
from odradek.model.values import dataclass

Replicas = dict[BrokerId, list[TopicPartition]]

UNCLEAN_RETURN = "returned without a clean shutdown"


def tasks_of_brokers(context: ControllerContext, event: BrokersChanged) -> list[Task]:
    """Failure before start-up: partitions get a leader among the survivors before anything else is done."""
    now = {registration.broker_id: registration for registration in event.brokers}
    for node in event.unreadable:  # there, but not to be understood: what we knew of it still stands
        number = number_in(node.path.rsplit("/", 1)[-1])
        known = None if number is None else context.brokers.get(BrokerId(number))
        if known is not None:
            now.setdefault(known.broker_id, known)
    before = context.brokers
    bounced = [b for b in sorted(now) if b in before and now[b].epoch > before[b].epoch]
    gone = [b for b in sorted(before) if b not in now]
    new = [b for b in sorted(now) if b not in before]
    changed = [b for b in sorted(now) if b in before and b not in bounced and now[b] != before[b]]
    tasks: list[Task] = []
    if gone or bounced:
        tasks.append(BrokerFailure(tuple(sorted((*gone, *bounced)))))
        if context.topics_to_delete:
            tasks.append(CompleteDeletions())
    if new or bounced:
        started = tuple(now[b] for b in sorted((*new, *bounced)))
        tasks.append(BrokerStartup(started))
        if context.topics_to_delete:
            names = _named(tuple(r.broker_id for r in started))
            tasks.append(ResumeDeletions(f"{names} started: deletion goes on"))
    if changed:
        tasks.append(BrokerUpdate(tuple(now[b] for b in changed)))
    return tasks


@dataclass(frozen=True, slots=True)
class BrokerFailure(Task):
    brokers: tuple[BrokerId, ...]

    def reason(self) -> str:
        return f"{_named(self.brokers)} failed"

    def commit_facts(self, context: ControllerContext) -> None:
        for broker in self.brokers:
            context.commit_broker_gone(broker)

    def plan(self, plan: Plan) -> None:
        if plan.only is None:
            for broker in self.brokers:
                plan.note("broker", str(broker), "live", "gone")
        plan_replicas_offline(plan, replicas_on(plan, self.brokers))
        plan_removals_died(plan, self.brokers)
        # Clients must learn of the death even where it moved no partition (row 155).
        if plan.only is None and not plan.telling.metadata:
            plan.telling.bare_metadata = True

    def commit_done(self, context: ControllerContext, outcomes: dict[object, object], now_ms: int) -> None:
        outcomes["left"] = commit_removals_died(context, self.brokers)

    def follow_up(self, context: ControllerContext, outcomes: dict[object, object]) -> tuple[Event, ...]:
        left = outcomes["left"]
        assert isinstance(left, tuple)
        return steps_after(context, (*left, *led_anew(outcomes)))


@dataclass(frozen=True, slots=True)
class BrokerStartup(Task):
    registrations: tuple[BrokerRegistration, ...]

    def reason(self) -> str:
        return f"{_named(tuple(r.broker_id for r in self.registrations))} started"

    def commit_facts(self, context: ControllerContext) -> None:
        for registration in self.registrations:
            context.commit_broker(registration)

    def plan(self, plan: Plan) -> None:
        context = plan.context
        started = tuple(registration.broker_id for registration in self.registrations)
        if plan.only is None:
            for broker in started:
                plan.note("broker", str(broker), "gone", "live")
            # The others must know the newcomer before they are told that it leads: a broker ignores
            # become-follower when the leader is not among its live brokers (row 103, mixing-with-apache).
            others = tuple(b for b in context.registered_brokers() if b not in started)
            plan_notifications(plan, started)
            plan.first_notifications.append(Notification(metadata_to=others, bare_metadata=True))
            deleting = context.topics_to_delete
            # Who has only registered anew knows topics that were deleted while nobody could tell it: it forgets them.
            everything = dict.fromkeys(tp for tp in context.assignments if tp.topic not in deleting)
            plan.first_notifications.append(
                Notification(metadata=everything, metadata_to=started, bare_metadata=True, is_whole=True)
            )
        plan_replicas_online(plan, replicas_on(plan, started))
        unclean = [r.broker_id for r in self.registrations if not has_stopped_cleanly(context, r)]
        theirs = set().union(*(context.partitions_on.get(broker, ()) for broker in unclean))
        plan_lost(plan, dict.fromkeys(plan.pick(theirs), unclean), UNCLEAN_RETURN)
        plan_online_trigger(plan)
        plan_asked_again(plan, started)

    def commit_done(self, context: ControllerContext, outcomes: dict[object, object], now_ms: int) -> None:
        commit_notified(context, outcomes, now_ms)

    def follow_up(self, context: ControllerContext, outcomes: dict[object, object]) -> tuple[Event, ...]:
        """Row 106: reassignments that touch the new brokers go on."""
        started = {registration.broker_id for registration in self.registrations}
        touched = [tp for tp, m in context.reassignments.items() if started & set(m.stored.replicas)]
        return steps_after(context, (*touched, *led_anew(outcomes)))


@dataclass(frozen=True, slots=True)
class TakeTheirPlace(Task):
    """The old data is gone: whatever of the same name waited for that is hosted now."""

    broker: BrokerId
    partitions: tuple[TopicPartition, ...]

    def reason(self) -> str:
        return f"broker {self.broker} has deleted what it kept"

    def plan(self, plan: Plan) -> None:
        context = plan.context
        waiting = plan.pick(tp for tp in self.partitions if tp in context.partitions_on.get(self.broker, ()))
        waiting = [tp for tp in waiting if tp.topic not in context.topics_to_delete]
        for topic_partition in waiting:
            if plan.leadership(topic_partition) is not None:
                plan.notify_leader_and_isr(self.broker, topic_partition)
                plan.notify_metadata(topic_partition)
        if waiting:
            plan_online_trigger(plan, {tp.topic for tp in waiting})

    def follow_up(self, context: ControllerContext, outcomes: dict[object, object]) -> tuple[Event, ...]:
        return steps_after(context, led_anew(outcomes))


@dataclass(frozen=True, slots=True)
class BrokerUpdate(Task):
    registrations: tuple[BrokerRegistration, ...]

    def reason(self) -> str:
        return f"{_named(tuple(r.broker_id for r in self.registrations))} changed its registration"

    def commit_facts(self, context: ControllerContext) -> None:
        for registration in self.registrations:
            context.commit_broker(registration)

    def plan(self, plan: Plan) -> None:
        for registration in self.registrations:
            plan.note("broker", str(registration.broker_id), "live", "live")
        plan.telling.bare_metadata = True


@dataclass(frozen=True, slots=True)
class ReannounceReplicas(Task):
    """A broker said that a disk failed, not which replicas were on it. LeaderAndIsr for all of its replicas
    makes it answer KAFKA_STORAGE_ERROR for those that are lost (row 150). One that a reassignment is adding stays new: the move
    to Online tells nobody.
    """

    brokers: tuple[BrokerId, ...]

    def reason(self) -> str:
        return f"{_named(self.brokers)} reported a failed log directory"

    def plan(self, plan: Plan) -> None:
        started: Replicas = {}
        for broker, partitions in replicas_on(plan, self.brokers).items():
            new = {tp for tp in partitions if plan.replica_state(tp, broker) is ReplicaState.NEW}
            for topic_partition in in_order(new):
                plan.notify_leader_and_isr(broker, topic_partition)
            started[broker] = [tp for tp in partitions if tp not in new]
        plan_replicas_online(plan, started)


@dataclass(frozen=True, slots=True)
class DirectoriesChanged(Task):
    """Answers to LeaderAndIsr: these replicas of a broker lie on a failed disk, those are well again.

    Well again means Online first, with LeaderAndIsr of its own, before anything is elected: its broker heard StopReplica when
    it went, and an OfflineReplica that leads would keep that name in an ISR that grows.
    """

    broker: BrokerId
    failed: frozenset[TopicPartition]
    recovered: frozenset[TopicPartition]

    def reason(self) -> str:
        return f"broker {self.broker} answered KAFKA_STORAGE_ERROR"

    def commit_facts(self, context: ControllerContext) -> None:
        before = context.offline_directories.pop(self.broker, frozenset())
        after = (before - self.recovered) | self.failed
        if after:  # else its disks are whole, and so perhaps is everybody's (`all_log_dirs_online`)
            context.offline_directories[self.broker] = after

    def plan(self, plan: Plan) -> None:
        returned = [
            tp
            for tp in plan.pick(self.recovered)
            if plan.replica_state(tp, self.broker) is ReplicaState.OFFLINE
        ]
        plan_replicas_online(plan, {self.broker: returned})
        plan_replicas_offline(plan, {self.broker: plan.pick(self.failed)})

    def follow_up(self, context: ControllerContext, outcomes: dict[object, object]) -> tuple[Event, ...]:
        return steps_after(context, led_anew(outcomes))


def plan_replicas_online(plan: Plan, replicas: Replicas) -> None:
    """Replicas -> Online, except of topics that are being deleted: those are not to be led again."""
    deleting = plan.context.topics_to_delete
    for broker, partitions in replicas.items():
        plan_returns(plan, broker, [tp for tp in partitions if tp.topic not in deleting])


def plan_replicas_offline(plan: Plan, replicas: Replicas) -> None:
    """S0's onBrokerFailure for any set of replicas: partitions without a leader go offline, every leaderless
    partition is elected, then each replica leaves. In this order: a replica that left the ISR first would
    cost a write and an epoch of its own, and an election could find an ISR without its best member.

    Replicas of topics that are being deleted go their own way, to Ineligible (rows 101, 102).
    """
    deleting = plan.context.topics_to_delete
    led = [
        topic_partition
        for broker, partitions in replicas.items()
        for topic_partition in partitions
        if (current := plan.leadership(topic_partition)) is not None and current.leader == broker
    ]
    for topic_partition in led:
        if topic_partition.topic not in deleting:
            plan_partition_move(plan, topic_partition, PartitionState.OFFLINE)
    plan_online_trigger(plan)
    for broker, partitions in replicas.items():
        plan_departures(plan, broker, [tp for tp in partitions if tp.topic not in deleting])
        for topic_partition in partitions if deleting else ():
            if topic_partition.topic in deleting:
                plan_replica_failed(plan, topic_partition, broker)


def plan_online_trigger(plan: Plan, topics: Iterable[str] | None = None) -> None:
    """Every New or Offline partition tries to get a leader, except of topics queued for deletion (rows 28, 29).

    Runs on controller failover, broker up and broker down (row 32); `topics` narrows it.
    """
    context = plan.context
    waiting = set(context.leaderless)
    for topic_partition, state in plan.partition_states.items():
        if state is PartitionState.NEW or state is PartitionState.OFFLINE:
            waiting.add(topic_partition)
        else:
            waiting.discard(topic_partition)
    wanted = set(topics) if topics is not None else None
    electable = []
    for topic_partition in plan.pick(waiting):
        topic = topic_partition.topic
        if context.is_queued_for_deletion(topic) or (wanted is not None and topic not in wanted):
            continue
        electable.append(topic_partition)
    plan_elections(plan, electable)


def replicas_on(plan: Plan, brokers: tuple[BrokerId, ...]) -> Replicas:
    """All that these have, but for what they were told to delete and the topic node still names: a reassignment that
    took the place of another one goes on naming whom that one removed. Those are its removed replicas, and nobody moves them."""
    unusual = plan.context.replica_state_overrides
    return {
        broker: [
            tp
            for tp in plan.pick(plan.context.partitions_on.get(broker, ()))
            if tp not in unusual
            or tp.topic in plan.context.topics_to_delete
            or plan.replica_state(tp, broker) not in DELETED
        ]
        for broker in brokers
    }


def _named(brokers: tuple[BrokerId, ...]) -> str:
    return ("broker " if len(brokers) == 1 else "brokers ") + ",".join(map(str, brokers))
