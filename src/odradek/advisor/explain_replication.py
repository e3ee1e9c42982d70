"""Why a partition has too few in sync, or is slow: the same trees as `explain`, for what still works badly.

`ends` is what replicas were found to hold, by (broker -> log end offset), where somebody asked them: the tree then
says how far behind one is. Without it the tree says what it cannot know.
"""

from collections import Counter
from collections.abc import Mapping

from odradek.advisor.explain import (
    LEAVES,
    Starts,
    Why,
    and_its_leader,
    why_leader_leaves,
    why_no_log,
    why_offline,
    why_older_data,
)
from odradek.advisor.explain_moves import why_reassignment_stuck
from odradek.controller.context import ControllerContext
from odradek.controller.states import PartitionState
from odradek.model.counted import counted
from odradek.model.ids import NO_LEADER, BrokerId, TopicPartition
from odradek.model.printable import shown

Ends = Mapping[BrokerId, int]

THROTTLED = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
# A broker that leads this many times its share is named as a reason for slowness.
MUCH_MORE = 1.5
MOST_OF_A_LIST = 80  # characters of a setting that may name thousands of replicas


def why_partition(
    context: ControllerContext,
    topic_partition: TopicPartition,
    now_ms: int,
    ends: Ends | None = None,
    starts: Starts | None = None,
) -> tuple[Why, ...]:
    """Everything one needs of a partition, the worst first: a leader, acks=all, all in sync, settled. `starts` as of
    `why_offline`."""
    offline = why_offline(context, topic_partition, starts)
    if topic_partition not in context.assignments:
        return (offline,)
    if not offline.holds:
        moving = why_reassignment_stuck(context, topic_partition, now_ms)
        return (offline,) if moving.holds else (offline, moving)
    return (
        offline,
        why_under_min_isr(context, topic_partition, ends),
        why_under_replicated(context, topic_partition, ends),
        why_reassignment_stuck(context, topic_partition, now_ms),
    )


def why_under_min_isr(
    context: ControllerContext, topic_partition: TopicPartition, ends: Ends | None = None
) -> Why:
    """What it would take for acks=all to be accepted."""
    state = context.leadership(topic_partition)
    isr = state.isr if state is not None else ()
    minimum = context.effective_min_isr(topic_partition)
    condition = f"{topic_partition} accepts acks=all"
    found = f"{len(isr)} in sync, min.insync.replicas {minimum}"
    if len(isr) >= minimum:
        return Why(condition, True, found)
    return Why(condition, False, found, because=_missing(context, topic_partition, ends))


def why_under_replicated(
    context: ControllerContext, topic_partition: TopicPartition, ends: Ends | None = None
) -> Why:
    """What it would take for every assigned replica to be in the ISR."""
    state = context.leadership(topic_partition)
    isr = state.isr if state is not None else ()
    replicas = context.assignments[topic_partition].replicas
    condition = f"every replica of {topic_partition} is in sync"
    missing = [broker for broker in replicas if broker not in isr]
    found = f"replicas {list(replicas)}, ISR {list(isr)}"
    if not missing:
        return Why(condition, True, found)
    return Why(condition, False, found, because=_missing(context, topic_partition, ends))


def partitions_led(context: ControllerContext) -> Counter[BrokerId]:
    """How many partitions each broker leads; counted once for a question about many."""
    return Counter(
        stored.leader_and_isr.leader
        for topic_partition, stored in context.leaderships.items()
        if context.partition_state(topic_partition) is PartitionState.ONLINE
    )


def why_slow(
    context: ControllerContext, topic_partition: TopicPartition, led: Mapping[BrokerId, int] | None = None
) -> Why:
    """Reasons metadata can tell: a leader that carries more than its share, copies under way, a throttle.

    A partition with one of these is well; it could be quicker.
    """
    reasons = (
        _preferred_leads(context, topic_partition),
        _leader_share(context, topic_partition, partitions_led(context) if led is None else led),
        _copies(context, topic_partition),
        _throttle(context, topic_partition),
    )
    open_ = tuple(reason for reason in reasons if not reason.holds)
    detail = "" if open_ else "the preferred replica leads, nothing is copied, no throttle"
    return Why(f"nothing slows {topic_partition} down", not open_, detail, because=open_)


def _missing(
    context: ControllerContext, topic_partition: TopicPartition, ends: Ends | None
) -> tuple[Why, ...]:
    state = context.leadership(topic_partition)
    isr = state.isr if state is not None else ()
    replicas = context.assignments[topic_partition].replicas
    return tuple(_in_sync(context, topic_partition, b, ends) for b in replicas if b not in isr)


def _in_sync(
    context: ControllerContext, topic_partition: TopicPartition, broker: BrokerId, ends: Ends | None
) -> Why:
    condition = f"broker {broker} is in the ISR"
    also = and_its_leader(context, topic_partition)
    if broker not in context.brokers:
        lost = _if_lost(context, topic_partition, broker)
        joins = also or f": it catches up and joins the ISR; if it is lost for good: {lost}"
        return Why(condition, False, "not registered", f"start broker {broker}{joins}")
    if topic_partition in context.offline_directories.get(broker, ()):
        return why_no_log(broker, condition, also)
    if broker in context.shutting_down_brokers:
        return Why(condition, False, LEAVES, f"start broker {broker} again once it has stopped{also}")
    older = why_older_data(context, topic_partition, broker, condition)
    if older is not None:
        return older
    moving = context.reassignments.get(topic_partition)
    if moving is not None and broker in moving.stored.removing_replicas:
        return Why(condition, False, "a reassignment removes it", "nothing: it is meant to go")
    leaves = why_leader_leaves(context, topic_partition, condition)
    if leaves is not None:
        return leaves
    new = moving is not None and broker in moving.stored.adding_replicas
    what = "a reassignment adds it, and it copies" if new else "it is live and behind"
    return Why(
        condition,
        False,
        f"{what}: {_behind(context, topic_partition, broker, ends)}",
        f"it fetches up to the leader's end within replica.lag.time.max.ms; a throttle, or broker {broker} being "
        "overloaded, holds it back",
    )


def _if_lost(context: ControllerContext, topic_partition: TopicPartition, broker: BrokerId) -> str:
    """Others get what it had; for that there must be one that has no replica yet."""
    replicas = context.assignments[topic_partition].replicas
    drain = f"odradek reassign plan --drain {broker}"
    if any(b not in replicas and b not in context.shutting_down_brokers for b in context.brokers):
        return drain
    return f"an empty broker with id {broker} in its place, or one with another id and then {drain}"


def _behind(
    context: ControllerContext, topic_partition: TopicPartition, broker: BrokerId, ends: Ends | None
) -> str:
    state = context.leadership(topic_partition)
    leader = state.leader if state is not None else NO_LEADER
    if not ends or broker not in ends or leader not in ends:
        return "how far is not known from metadata"
    records = max(0, ends[leader] - ends[broker])
    return f"{counted(records, 'record')} behind, at offset {ends[broker]} of {ends[leader]}"


def _preferred_leads(context: ControllerContext, topic_partition: TopicPartition) -> Why:
    preferred = context.assignments[topic_partition].replicas[0]
    state = context.leadership(topic_partition)
    leader = state.leader if state is not None else NO_LEADER
    condition = f"its preferred replica {preferred} leads"
    if leader == preferred:
        return Why(condition, True)
    ready = state is not None and preferred in state.isr and context.is_online(preferred, topic_partition)
    how = (
        f"odradek elect preferred {topic_partition}"
        if ready
        else f"broker {preferred} live and in the ISR, then a preferred election"
    )
    return Why(condition, False, f"broker {leader} leads", how)


def _leader_share(
    context: ControllerContext, topic_partition: TopicPartition, led_by: Mapping[BrokerId, int]
) -> Why:
    state = context.leadership(topic_partition)
    leader = state.leader if state is not None else NO_LEADER
    condition = f"broker {leader} leads no more than its share"
    led = led_by.get(leader, 0)
    share = len(context.assignments) / max(1, len(context.brokers))
    if led <= max(share * MUCH_MORE, share + 1):
        return Why(condition, True)
    return Why(
        condition,
        False,
        f"it leads {led} of {len(context.assignments)} partitions, its share is {share:.0f}",
        "odradek elect preferred --all, or odradek reassign plan --rebalance",
    )


def _copies(context: ControllerContext, topic_partition: TopicPartition) -> Why:
    condition = "no reassignment copies it"
    moving = context.reassignments.get(topic_partition)
    if moving is None:
        return Why(condition, True)
    target = list(moving.stored.target_replicas)
    return Why(
        condition,
        False,
        f"it moves to {target}, phase {moving.phase}",
        f"its end, or odradek reassign cancel --partition {topic_partition}",
    )


def _throttle(context: ControllerContext, topic_partition: TopicPartition) -> Why:
    condition = "its replication is not throttled"
    for name in THROTTLED:
        value = context.topic_setting(topic_partition.topic, name) or ""
        # Looked for in the text: of a topic with ten thousand partitions it names as many.
        if value == "*" or f",{topic_partition.partition}:" in f",{value}":
            return Why(
                condition,
                False,
                f"{name} of {topic_partition.topic} names it: {shown(value, MOST_OF_A_LIST)}",
                f"odradek config delete --topic {topic_partition.topic} {name}",
            )
    return Why(condition, True)
