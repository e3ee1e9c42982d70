"""Controlled shutdown: a broker asks to leave in order (S0 shutdownBroker, rows 50, 123-126, 160).

1. Partitions it leads get another leader (`controlled_shutdown_leader`).
2. Replicas that follow there are stopped, without deletion, and leave the ISR.
The answer names the partitions it still leads. A partition whose only replica it holds cannot move (row 51);
the wire has no place for it (golden 02b answers an empty list), so it stands in our own answer, in the
journal and in the log: S3's outage was silent, this one is not (row 126).
"""

from odradek.controller.bulk_moves import plan_departures, plan_elections
from odradek.controller.context import ControllerContext
from odradek.controller.effects import Answer, StateChange
from odradek.controller.election import Election, controlled_shutdown_leader
from odradek.controller.plan import Plan
from odradek.controller.replica_states import TRANSITIONS
from odradek.controller.states import PartitionState, ReplicaState
from odradek.controller.task import Task
from odradek.model.cluster import LeaderAndIsr
from odradek.model.controller_requests import ControlledShutdownAnswer, ControlledShutdownAsked
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import UNKNOWN_BROKER_EPOCH, BrokerId, TopicPartition, in_order
from odradek.model.values import dataclass


def refusal(context: ControllerContext, asked: ControlledShutdownAsked) -> ErrorCode | None:
    """An earlier incarnation must not stop a later one (KIP-380); nobody stops who is not there."""
    registration = context.brokers.get(asked.broker)
    if registration is None:
        return ErrorCode.BROKER_NOT_AVAILABLE
    if asked.broker_epoch != UNKNOWN_BROKER_EPOCH and asked.broker_epoch < registration.epoch:
        return ErrorCode.STALE_BROKER_EPOCH
    return None


@dataclass(frozen=True, slots=True)
class ControlledShutdown(Task):
    request_id: int
    broker: BrokerId

    def reason(self) -> str:
        return f"controlled shutdown of broker {self.broker}"

    def commit_facts(self, context: ControllerContext) -> None:
        context.commit_shutting_down(self.broker)

    def plan(self, plan: Plan) -> None:
        context = plan.context
        led: list[TopicPartition] = []
        followed: list[TopicPartition] = []
        if plan.only is None:
            plan.note("broker", str(self.broker), "live", "shutting down")
        for topic_partition in plan.pick(context.partitions_on.get(self.broker, ())):
            current = context.leadership(topic_partition)
            if current is None or topic_partition.topic in context.topics_to_delete:
                continue
            if len(context.assignments[topic_partition].replicas) == 1:
                if current.leader == self.broker:
                    plan.changes.append(_goes_offline(topic_partition, self.broker))
                continue
            (led if current.leader == self.broker else followed).append(topic_partition)
        plan_elections(plan, led, select_staying)
        unusual = context.replica_state_overrides
        may_leave = [
            tp
            for tp in followed
            if tp not in unusual or ReplicaState.OFFLINE in TRANSITIONS[plan.replica_state(tp, self.broker)]
        ]
        plan_departures(plan, self.broker, may_leave)

    def answers(self, context: ControllerContext, outcomes: dict[object, object]) -> tuple[Answer, ...]:
        remaining, alone = led_by(context, self.broker)
        return (Answer(self.request_id, ControlledShutdownAnswer(ErrorCode.NONE, remaining, alone)),)


def led_by(
    context: ControllerContext, broker: BrokerId
) -> tuple[tuple[TopicPartition, ...], tuple[TopicPartition, ...]]:
    """Partitions the broker leads: those with other replicas, and those without."""
    shared: list[TopicPartition] = []
    alone: list[TopicPartition] = []
    leaderships, deleting = context.leaderships, context.topics_to_delete
    for topic_partition in context.partitions_on.get(broker, ()):
        stored = leaderships.get(topic_partition)
        if stored is None or stored.leader_and_isr.leader != broker or topic_partition.topic in deleting:
            continue
        (shared if len(context.assignments[topic_partition].replicas) > 1 else alone).append(topic_partition)
    return tuple(in_order(shared)), tuple(in_order(alone))


def select_staying(plan: Plan, topic_partition: TopicPartition, current: LeaderAndIsr) -> Election | None:
    context = plan.context
    replicas = plan.assignment(topic_partition).replicas
    broken = context.offline_directories

    def choose() -> Election | None:
        return controlled_shutdown_leader(
            replicas=replicas,
            isr=current.isr,
            live=context.online_of(replicas, topic_partition),
            shutting_down=context.shutting_down_brokers,
            reachable=tuple(
                b for b in replicas if b in context.brokers and topic_partition not in broken.get(b, ())
            ),
        )

    if context.all_log_dirs_online():
        return plan.elected_alike((select_staying, replicas, current.isr), choose)
    return choose()


def _goes_offline(topic_partition: TopicPartition, broker: BrokerId) -> StateChange:
    return StateChange(
        "warning",
        PartitionState.ONLINE,
        PartitionState.OFFLINE,
        f"broker {broker} holds the only replica: the partition goes offline when it stops; "
        f"reassign it first to keep it available",
        topic_partition,
    )
