"""AlterPartition: a leader asks to change its ISR (KIP-497). The controller is the only writer.

The order of the checks is Apache's and part of the contract. Each refusal tells the leader something else:
who we are not, that it is not the leader any more, that it read an old state; so the first that holds wins.
A repeat of what is committed is success, before the partition epoch is looked at: the first answer may have
been lost (KAFKA-14144).
"""

from odradek.controller.context import ControllerContext
from odradek.controller.effects import Answer, StateChange
from odradek.controller.events import Event
from odradek.controller.plan import Plan
from odradek.controller.reassignment_rules import steps_after
from odradek.controller.task import Task
from odradek.model.cluster import LeaderAndIsr
from odradek.model.controller_requests import (
    AlterPartitionAnswer,
    AlterPartitionAsked,
    AlterPartitionItem,
    AlterPartitionResult,
    IsrMember,
)
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import NO_TOPIC_ID, UNKNOWN_BROKER_EPOCH, BrokerId, TopicId, TopicPartition
from odradek.model.values import dataclass

RECOVERED, RECOVERING = 0, 1


def refusal(context: ControllerContext, asked: AlterPartitionAsked) -> ErrorCode | None:
    """The errors of the whole request. An earlier incarnation of the leader has no say (KIP-380)."""
    registration = context.brokers.get(asked.broker)
    if registration is None or asked.broker_epoch != registration.epoch:
        return ErrorCode.STALE_BROKER_EPOCH
    return None


@dataclass(frozen=True, slots=True)
class AlterPartition(Task):
    request_id: int
    asked: AlterPartitionAsked

    def reason(self) -> str:
        return f"AlterPartition of broker {self.asked.broker}"

    def plan(self, plan: Plan) -> None:
        for index, item in enumerate(self.asked.partitions):
            topic = item.topic
            if topic is None and item.topic_id is not None:
                topic = plan.context.topic_of_id(item.topic_id)
            if topic is None or topic not in plan.context.topics:
                if plan.only is None:
                    plan.outcomes[index] = _unknown(item, self.asked.version)
                continue
            topic_partition = TopicPartition(topic, item.partition)
            if plan.only is None or topic_partition in plan.only:
                plan.outcomes[index] = self._plan_item(plan, topic_partition, item)

    def _plan_item(
        self, plan: Plan, topic_partition: TopicPartition, item: AlterPartitionItem
    ) -> AlterPartitionResult:
        current = plan.leadership(topic_partition)
        topic_id = plan.context.topic_id(topic_partition.topic)
        if current is None:
            return _result(topic_partition, topic_id, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        # The leader that was refused acts on an old picture: UpdateMetadata goes out either way.
        plan.notify_metadata(topic_partition)
        isr = tuple(member.broker for member in item.new_isr)
        error = self._error(plan.context, topic_partition, item, isr, current)
        if error is not ErrorCode.NONE:
            return _result(topic_partition, topic_id, error)
        if not _is_committed(item, isr, current):
            plan.lead(
                topic_partition,
                leader=current.leader,
                isr=isr,
                recovery_state=item.leader_recovery_state,
                raise_epoch=False,
            )
            plan.changes.append(_isr_change(plan, topic_partition, current, isr))
        return _result(topic_partition, topic_id, ErrorCode.NONE, plan.leadership(topic_partition))

    def _error(
        self,
        context: ControllerContext,
        topic_partition: TopicPartition,
        item: AlterPartitionItem,
        isr: tuple[BrokerId, ...],
        current: LeaderAndIsr,
    ) -> ErrorCode:
        if item.leader_epoch > current.leader_epoch or item.partition_epoch > current.partition_epoch:
            return ErrorCode.NOT_CONTROLLER  # the sender has heard of a newer controller than us
        if item.leader_epoch < current.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if _is_committed(item, isr, current):
            return ErrorCode.NONE
        if item.partition_epoch < current.partition_epoch:
            return ErrorCode.INVALID_UPDATE_VERSION
        if item.leader_recovery_state not in (RECOVERED, RECOVERING):
            return ErrorCode.INVALID_REQUEST  # whoever read it in the store would not know what it says
        if item.leader_recovery_state == RECOVERING and (
            len(isr) > 1 or current.leader_recovery_state == RECOVERED
        ):
            return ErrorCode.INVALID_REQUEST  # only a lone leader recovers, and nobody begins it by request
        if not all(_is_eligible(context, topic_partition, member) for member in item.new_isr):
            if self.asked.version > 1:
                return ErrorCode.INELIGIBLE_REPLICA
            return ErrorCode.OPERATION_NOT_ATTEMPTED
        assigned = context.assignments[topic_partition].replicas
        if current.leader != self.asked.broker or current.leader not in isr or not set(isr) <= set(assigned):
            return ErrorCode.INVALID_REQUEST
        if len(set(isr)) < len(isr):
            return ErrorCode.INVALID_REQUEST
        return ErrorCode.NONE

    def answers(self, context: ControllerContext, outcomes: dict[object, object]) -> tuple[Answer, ...]:
        results = []
        for index in range(len(self.asked.partitions)):
            result = outcomes[index]
            assert isinstance(result, AlterPartitionResult)
            if result.error is ErrorCode.NONE and result.topic_partition is not None:
                stored = context.leadership(result.topic_partition)  # with the version the store gave it
                drafted = result.leader_and_isr
                if stored is None or drafted is None or stored.isr != drafted.isr:
                    # The node was found gone or damaged: nothing was stored, and the leader must not count on it.
                    error, stored = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None
                else:
                    error = ErrorCode.NONE
                result = _result(result.topic_partition, result.topic_id, error, stored)
            results.append(result)
        return (Answer(self.request_id, AlterPartitionAnswer(ErrorCode.NONE, tuple(results))),)

    def follow_up(self, context: ControllerContext, outcomes: dict[object, object]) -> tuple[Event, ...]:
        """A reassignment may have waited for just this member of the ISR."""
        results = [outcomes[index] for index in range(len(self.asked.partitions))]
        changed = [r.topic_partition for r in results if isinstance(r, AlterPartitionResult)]
        return steps_after(context, [tp for tp in changed if tp is not None])


def _isr_change(
    plan: Plan, topic_partition: TopicPartition, before: LeaderAndIsr, isr: tuple[BrokerId, ...]
) -> StateChange:
    gained = [b for b in isr if b not in before.isr]
    lost = [b for b in before.isr if b not in isr]
    what = [f"{', '.join(map(str, gained))} joined"] if gained else []
    what += [f"{', '.join(map(str, lost))} left"] if lost else []
    reason = f"{plan.reason}: {' and '.join(what) or 'recovered'}"
    after = plan.leadership(topic_partition)
    return StateChange("isr", _listed(before.isr), _listed(isr), reason, topic_partition, None, after, before)


def _listed(brokers: tuple[BrokerId, ...]) -> str:
    return "[" + ",".join(map(str, brokers)) + "]"


def _is_committed(item: AlterPartitionItem, isr: tuple[BrokerId, ...], current: LeaderAndIsr) -> bool:
    return (
        item.leader_epoch == current.leader_epoch
        and item.partition_epoch <= current.partition_epoch
        and len(isr) == len(current.isr)
        and set(isr) == set(current.isr)
        and item.leader_recovery_state == current.leader_recovery_state
    )


def _is_eligible(context: ControllerContext, topic_partition: TopicPartition, member: IsrMember) -> bool:
    """KIP-841: neither dead nor leaving may join. KIP-903: nor an earlier incarnation, whose disk may have been
    emptied since; Apache 3.9 drops these epochs in ZooKeeper mode (hole H1), we do not. -1: not known."""
    if not context.is_online(member.broker, topic_partition):
        return False
    return member.broker_epoch in (UNKNOWN_BROKER_EPOCH, context.broker_epoch(member.broker))


def _unknown(item: AlterPartitionItem, version: int) -> AlterPartitionResult:
    error = ErrorCode.UNKNOWN_TOPIC_ID if version > 1 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    named = TopicPartition(item.topic, item.partition) if item.topic is not None else None
    return AlterPartitionResult(named, item.topic_id or NO_TOPIC_ID, item.partition, error)


def _result(
    topic_partition: TopicPartition, topic_id: TopicId, error: ErrorCode, value: LeaderAndIsr | None = None
) -> AlterPartitionResult:
    return AlterPartitionResult(topic_partition, topic_id, topic_partition.partition, error, value)
