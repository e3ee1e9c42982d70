"""Nodes that are well formed each, and cannot all be true: who was edited by hand is taken out, with the reason.

A controller that believed them would act on them: a leader that has no copy, an id that is two topics', an epoch
that nobody was elected for, a member of an ISR who is no replica. Whatever contradicts nothing stays. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from odradek.model.cluster import ReplicaAssignment, why_no_leader
from odradek.model.facts import StoredPartitionState, TopicAssignment, UnreadableNode
from odradek.model.ids import BrokerId, ControllerEpoch, TopicId, TopicPartition
from odradek.model.values import replace
from odradek.store import layout

States = dict[TopicPartition, StoredPartitionState]


def drop_unassigned(topics: Iterable[TopicAssignment], states: States) -> list[UnreadableNode]:
    """Of the states of these topics those whose leader has no copy by the assignment are taken out, and members
    of an ISR who have none are left out of it. They would count for acks=all and hold nothing."""
    found: list[UnreadableNode] = []
    known_good: set[tuple[tuple[BrokerId, ...], tuple[BrokerId, ...]]] = set()  # of 100,000, few differ
    for partition, assignment in _assignments(topics):
        state = states.get(partition)
        if state is None:
            continue
        isr, replicas = state.leader_and_isr.isr, assignment.replicas
        if state.leader_and_isr.leader in replicas:
            if isr == replicas or (isr, replicas) in known_good:
                continue
            if set(isr) <= set(replicas):
                known_good.add((isr, replicas))
                continue
        problem = unassigned_leader(partition, state, assignment)
        if problem is not None:
            found.append(problem)
            del states[partition]
            continue
        assigned = tuple(member for member in isr if member in replicas)
        if len(assigned) == len(isr):
            continue
        unassigned = [member for member in isr if member not in replicas]
        reason = f"the ISR names {unassigned}, who are not among the assigned replicas {list(replicas)}"
        if assigned:
            epochs = zip(isr, state.isr_broker_epochs, strict=False)  # none, or one for each
            states[partition] = replace(
                state,
                leader_and_isr=replace(state.leader_and_isr, isr=assigned),
                isr_broker_epochs=tuple(epoch for member, epoch in epochs if member in replicas),
            )
            found.append(UnreadableNode(layout.state_path(partition), f"{reason}; left out"))
        else:
            found.append(UnreadableNode(layout.state_path(partition), reason, partition.topic))
            del states[partition]
    return found


def _assignments(topics: Iterable[TopicAssignment]) -> Iterator[tuple[TopicPartition, ReplicaAssignment]]:
    for topic in topics:
        for number, assignment in topic.partitions.items():
            yield TopicPartition(topic.topic, number), assignment


def unassigned_leader(
    partition: TopicPartition, state: StoredPartitionState, assignment: ReplicaAssignment
) -> UnreadableNode | None:
    reason = why_no_leader(state.leader_and_isr.leader, assignment)
    return (
        UnreadableNode(layout.state_path(partition), reason, partition.topic) if reason is not None else None
    )


def drop_epochs_not_reached(states: States, newest: ControllerEpoch) -> list[UnreadableNode]:
    """The states of a controller epoch that nobody was elected for yet. Every writer of a state is fenced by
    `/controller_epoch`, so what stands there now, read after the states, is as high as any of them can be.

    Believed, such a state would make each controller resign in favour of one that never comes (row 37).
    """
    found: list[UnreadableNode] = []
    for partition, state in list(states.items()):
        if state.controller_epoch > newest:
            reason = (
                f"controller_epoch {state.controller_epoch} was not reached yet: {layout.CONTROLLER_EPOCH} "
                f"stands at {newest}"
            )
            found.append(UnreadableNode(layout.state_path(partition), reason, partition.topic))
            del states[partition]
    return found


def without_duplicate_topic_ids(
    topics: Iterable[TopicAssignment], owners: Mapping[TopicId, str]
) -> Iterator[TopicAssignment | UnreadableNode]:
    """The same topics; in place of one whose id is that of another topic stands the reason. `owners` had theirs
    before; of two new ones the first by name keeps it."""
    known = dict(owners)
    for topic in topics:
        if topic.topic_id is not None:
            owner = known.setdefault(topic.topic_id, topic.topic)
            if owner != topic.topic:
                yield UnreadableNode(
                    layout.topic_path(topic.topic), f"topic_id is that of topic {owner}", topic.topic
                )
                continue
        yield topic
