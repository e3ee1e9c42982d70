"""Why a reassignment does not end, why a topic is not deleted: the same trees as `explain`, for work of many steps.

Both keep their phase in the context, so the tree is read off it: which step is open, who owes what since when.
"""

from odradek.advisor.explain import (
    LEAVES,
    Why,
    and_its_leader,
    mending,
    why_leader_leaves,
    why_no_log,
    why_older_data,
)
from odradek.controller.context import ControllerContext, ReassignmentPhase
from odradek.controller.states import ReplicaState
from odradek.model.ids import NO_LEADER, BrokerId, TopicPartition

# Below this a removing replica is only slow; above it, it is named as stuck (row 172).
SLOW_LEAVER_MS = 5 * 60 * 1000


def why_reassignment_stuck(context: ControllerContext, topic_partition: TopicPartition, now_ms: int) -> Why:
    """What the next step of this reassignment waits for."""
    moving = context.reassignments.get(topic_partition)
    if moving is None:
        owing = context.removals.get(topic_partition)
        if owing:
            return Why(
                f"{topic_partition} is settled",
                False,
                "a cancelled reassignment leaves data behind",
                because=_removing(context, topic_partition, now_ms),
            )
        return Why(f"{topic_partition} is settled", True, "no reassignment is in progress")
    target = moving.stored.target_replicas
    condition = f"{topic_partition} is on {list(target)}"
    if moving.phase is ReassignmentPhase.GROWING:
        caught_up = tuple(_caught_up(context, topic_partition, b) for b in target)
        everybody = Why(
            "every target replica is in the ISR (step 4)",
            all(w.holds for w in caught_up),
            _isr(context, topic_partition),
            because=caught_up,
        )
        return Why(
            condition, False, f"phase {moving.phase}", because=(everybody, _leads(context, topic_partition))
        )
    return Why(
        condition,
        False,
        f"phase {moving.phase}: the target leads, the removing replicas delete their data (step 9)",
        because=_removing(context, topic_partition, now_ms),
    )


def why_not_deleted(context: ControllerContext, topic: str, *, knows_answers: bool = True) -> Why:
    """What the deletion of this topic waits for. Who has answered that its copy is gone stands in no node: one who
    looks from outside (`knows_answers` false) can tell only whose broker is away."""
    condition = f"{topic} is deleted"
    if topic in context.out_of_service:
        reason = Why(
            f"the nodes of {topic} can be read",
            False,
            context.out_of_service[topic],
            f"{mending(topic, context.out_of_service[topic])}; until then where its replicas are is not known",
        )
        return Why(condition, False, "it cannot be read", because=(reason,))
    if topic not in context.topics:
        return Why(condition, True, "no such topic")
    if topic not in context.topics_to_delete:
        wanted = Why(
            "somebody asked for it",
            False,
            unblocked_by=f"DeleteTopics, which creates /admin/delete_topics/{topic}",
        )
        enabled = Why("delete.topic.enable", context.settings.delete_topic_enable)
        return Why(condition, False, "it is not being deleted", because=(wanted, enabled))
    replicas = [
        _deleted(context, topic_partition, broker)
        for topic_partition in context.partitions_of(topic)
        for broker in sorted(context.assignments[topic_partition].replicas)
        if knows_answers or broker not in context.brokers
    ]
    if not knows_answers:
        live = Why(
            "every live broker has answered that its copies are gone",
            False,
            "not known: it stands in no node",
            "its answer; the controller's journal knows of it (--journal)",
        )
        away = f"{len(replicas)} of its replicas are on brokers that are not live"
        return Why(condition, False, away, because=tuple(replicas) or (live,))
    missing = [why for why in replicas if not why.holds]
    done = len(replicas) - len(missing)
    return Why(condition, not missing, f"{done} of {len(replicas)} replicas are gone", because=tuple(missing))


def _deleted(context: ControllerContext, topic_partition: TopicPartition, broker: BrokerId) -> Why:
    state = context.replica_state(topic_partition, broker)
    condition = f"broker {broker} has deleted {topic_partition}"
    if state is ReplicaState.DELETION_SUCCESSFUL:
        return Why(condition, True)
    if broker not in context.brokers:
        help_ = f"start broker {broker}: it is told to delete at once"
        if not context.deletes_with_offline_replicas():
            help_ += ", or set odradek.delete.topic.with.offline.replicas=true"
        return Why(condition, False, f"{state}: the broker is not live", help_)
    if state is ReplicaState.DELETION_INELIGIBLE:
        return Why(condition, False, f"{state}: it answered with an error", "asked again within ten seconds")
    return Why(condition, False, f"{state}: it was told and has not answered", "its answer")


def _caught_up(context: ControllerContext, topic_partition: TopicPartition, broker: BrokerId) -> Why:
    condition = f"broker {broker} is in the ISR"
    state = context.leadership(topic_partition)
    if state is not None and broker in state.isr:
        return Why(condition, True)
    also = and_its_leader(context, topic_partition)
    if broker not in context.brokers:
        help_ = also or ", or cancel and choose another"  # who would have to join as well
        return Why(condition, False, "not registered", f"start broker {broker}{help_}")
    if broker in context.shutting_down_brokers:
        return Why(condition, False, LEAVES, f"start broker {broker} again once it has stopped{also}")
    if topic_partition in context.offline_directories.get(broker, ()):
        return why_no_log(broker, condition, also)
    older = why_older_data(context, topic_partition, broker, condition)
    if older is not None:
        return older
    if not _has_leader(context, topic_partition):
        return Why(condition, False, "nobody has what it could copy")
    leaves = why_leader_leaves(context, topic_partition, condition)
    return leaves or Why(condition, False, "it copies", "it catches up; a throttle may hold it back")


def _has_leader(context: ControllerContext, topic_partition: TopicPartition) -> bool:
    state = context.leadership(topic_partition)
    return state is not None and state.leader != NO_LEADER and state.leader in context.brokers


def _leads(context: ControllerContext, topic_partition: TopicPartition) -> Why:
    led = _has_leader(context, topic_partition)
    return Why(
        "the partition has a leader to copy from",
        led,
        "" if led else "it has no leader",
        "" if led else f"a leader: odradek why {topic_partition} says what it takes",
    )


def _removing(context: ControllerContext, topic_partition: TopicPartition, now_ms: int) -> tuple[Why, ...]:
    reasons = []
    for broker, since_ms in sorted(context.removals.get(topic_partition, {}).items()):
        waited_s = max(0, now_ms - since_ms) // 1000
        stuck = now_ms - since_ms >= SLOW_LEAVER_MS
        state = context.replica_state(topic_partition, broker)
        refused = state is ReplicaState.DELETION_INELIGIBLE
        detail = f"{'it answered with an error' if refused else 'no answer'} for {waited_s} s"
        if stuck:
            detail += ": stuck"
        reasons.append(
            Why(
                f"broker {broker} has deleted its copy",
                False,
                detail,
                f"its answer; the request is repeated. If it cannot answer, stop broker {broker}: "
                f"then the reassignment ends without it",
            )
        )
    return tuple(reasons)


def _isr(context: ControllerContext, topic_partition: TopicPartition) -> str:
    state = context.leadership(topic_partition)
    return f"ISR {list(state.isr)}" if state is not None else "no ISR yet"
