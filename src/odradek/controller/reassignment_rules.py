"""What a reassignment wants, and whether it can go on: questions, nothing is planned here."""

from collections.abc import Iterable

from odradek.controller.context import ControllerContext, ReassignmentPhase
from odradek.controller.election import Election, reassigned_leader
from odradek.controller.events import Event, ReassignmentStep
from odradek.controller.partition_states import LeaderSelector
from odradek.controller.plan import Plan
from odradek.model.cluster import LeaderAndIsr, ReplicaAssignment
from odradek.model.ids import BrokerId, TopicPartition

GROWING, SHRINKING, STOPPING = ReassignmentPhase


def assignment_towards(stored: ReplicaAssignment, target: tuple[BrokerId, ...]) -> ReplicaAssignment:
    """What the topic node holds while it moves to `target`, from wherever it is now."""
    origin = stored.origin_replicas
    adding = tuple(b for b in target if b not in origin)
    removing = tuple(b for b in origin if b not in target)
    return ReplicaAssignment((*target, *removing), adding, removing)


def dropped_by(stored: ReplicaAssignment, requested: ReplicaAssignment) -> tuple[BrokerId, ...]:
    """Replicas that were being added and are not wanted any more."""
    return tuple(b for b in stored.adding_replicas if b not in requested.replicas)


def knows_the_target_alone(context: ControllerContext, topic_partition: TopicPartition) -> bool:
    """The leader was told that the others go, and the topic node still names them (from step 7 on)."""
    moving = context.reassignments.get(topic_partition)
    return moving is not None and moving.phase is not GROWING


def loses_records(
    context: ControllerContext, where: TopicPartition, current: LeaderAndIsr, dropped: tuple[BrokerId, ...]
) -> bool:
    """Without them nobody in sync, or nobody who could lead, would be left."""
    kept = tuple(b for b in current.isr if b not in dropped)
    return not kept or (current.leader in dropped and not context.online_of(kept, where))


def is_caught_up(context: ControllerContext, topic_partition: TopicPartition) -> bool:
    """Step 4: every target replica is in the ISR (KAFKA-15665: all, not only the new ones). A partition that
    never had a leader has nothing to copy."""
    moving = context.reassignments[topic_partition]
    current = context.leadership(topic_partition)
    return current is None or set(moving.stored.target_replicas) <= set(current.isr)


def steps_after(context: ControllerContext, partitions: Iterable[TopicPartition]) -> tuple[Event, ...]:
    """Those of `partitions` whose reassignment can go on now, as the event that makes it go on."""
    ready = []
    for topic_partition in sorted(set(partitions)):
        moving = context.reassignments.get(topic_partition)
        if moving is None:
            continue
        if (moving.phase is GROWING and is_caught_up(context, topic_partition)) or (
            moving.phase is STOPPING and not context.removals.get(topic_partition)
        ):
            ready.append(topic_partition)
    return (ReassignmentStep(tuple(ready)),) if ready else ()


def is_only_an_order(stored: ReplicaAssignment) -> bool:
    """The same brokers in another order: nobody comes, nobody goes, no leader moves (golden 04d)."""
    return not stored.is_being_reassigned


def selector_among(target: tuple[BrokerId, ...]) -> LeaderSelector:
    def select(plan: Plan, topic_partition: TopicPartition, current: LeaderAndIsr) -> Election | None:
        live = plan.context.online_of(target, topic_partition)
        return reassigned_leader(
            target_replicas=target, isr=plan.may_lead(topic_partition, current), live=live
        )

    return select


def remaining_legacy(
    context: ControllerContext, without: Iterable[TopicPartition]
) -> dict[TopicPartition, tuple[BrokerId, ...]]:
    gone = set(without)
    return {tp: target for tp, target in context.legacy_reassignments.items() if tp not in gone}


def shown(assignment: ReplicaAssignment) -> str:
    text = f"[{','.join(map(str, assignment.replicas))}]"
    if assignment.adding_replicas:
        text += f" adding [{','.join(map(str, assignment.adding_replicas))}]"
    if assignment.removing_replicas:
        text += f" removing [{','.join(map(str, assignment.removing_replicas))}]"
    return text
