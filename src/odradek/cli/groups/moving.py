"""Which coordinators move when leaders do: a group's is whoever leads its partition of the internal topic."""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from odradek.model.counted import first_of
from odradek.model.printable import named

if TYPE_CHECKING:
    from odradek.advisor.what_if import WhatIf
    from odradek.model.ids import BrokerId, TopicPartition

SHOWN = 5


class Move(NamedTuple):
    """Of one partition of an internal topic. Broker -1: nobody. `groups` None: not known, or they are transactional ids."""

    partition: "TopicPartition"
    before: "BrokerId"
    after: "BrokerId"
    groups: tuple[str, ...] | None

    def as_json(self) -> dict[str, Any]:
        groups = None if self.groups is None else list(self.groups)
        return {
            "partition": str(self.partition),
            "before": self.before,
            "after": self.after,
            "groups": groups,
        }


def coordinators_moved(answers: "Sequence[WhatIf]", bootstrap: str | None) -> list[Move]:
    """From before the first step to after the last; with the groups by name where a cluster can be asked, and its coordinators
    tell."""
    from odradek.model.topic_names import GROUPS_TOPIC, TRANSACTIONS_TOPIC

    leaders: dict[TopicPartition, tuple[BrokerId, BrokerId]] = {}
    for answer in answers:
        for outcome in answer.outcomes:
            where = outcome.topic_partition
            if where.topic in (GROUPS_TOPIC, TRANSACTIONS_TOPIC):
                before, _ = leaders.get(where, (outcome.leader_before, outcome.leader_before))
                leaders[where] = before, outcome.leader_after
    moved = {where: pair for where, pair in sorted(leaders.items()) if pair[0] != pair[1]}
    by_partition: dict[TopicPartition, list[str]] | None = None
    silent: Collection[int] = ()
    if bootstrap is not None and any(where.topic == GROUPS_TOPIC for where in moved):
        by_partition, silent = groups_by_partition(bootstrap)
    return [
        Move(
            where,
            *pair,
            tuple(by_partition.get(where, ()))
            if by_partition is not None and where.topic == GROUPS_TOPIC and pair[0] not in silent
            else None,
        )
        for where, pair in moved.items()
    ]


def groups_by_partition(bootstrap: str) -> "tuple[dict[TopicPartition, list[str]], Collection[int]]":
    """And the brokers that did not tell theirs."""
    from odradek.client.sync import SyncClient
    from odradek.client.sync_groups import list_groups
    from odradek.coordinator.partitioning import partition_of
    from odradek.model.ids import TopicPartition
    from odradek.model.topic_names import GROUPS_TOPIC

    found: dict[TopicPartition, list[str]] = {}
    with SyncClient(bootstrap) as client:
        count = len(client.topic(GROUPS_TOPIC).partitions)
        listed = list_groups(client)
        for name in sorted(listed.groups):
            found.setdefault(TopicPartition(GROUPS_TOPIC, partition_of(name, count)), []).append(name)
    return found, listed.problems.keys()


def sentences(moved: Sequence[Move]) -> list[str]:
    """One a pair of brokers; of partitions without a group nothing is said."""
    by_brokers: dict[tuple[int, int], list[str]] = {}
    unnamed: dict[tuple[int, int, str], int] = {}
    for move in moved:
        pair = int(move.before), int(move.after)
        if move.groups is None:
            key = (*pair, move.partition.topic)
            unnamed[key] = unnamed.get(key, 0) + 1
        elif move.groups:
            by_brokers.setdefault(pair, []).extend(move.groups)
    lines = []
    for (before, after), groups in sorted(by_brokers.items()):
        whose = first_of([named(group) for group in sorted(groups)], SHOWN)
        lines.append(f"coordinator {_broker(before)} -> {_broker(after)} of {whose}")
    for (before, after, topic), number in sorted(unnamed.items()):
        lines.append(f"coordinator {_broker(before)} -> {_broker(after)} of {number} of {topic}'s partitions")
    return lines


def _broker(broker: int) -> str:
    return str(broker) if broker >= 0 else "none"
