"""The groups that this broker coordinates: how many in which state, and what they have committed."""

from collections import Counter
from collections.abc import Iterator, Mapping

from odradek.coordinator.classic_group import ClassicGroup
from odradek.coordinator.consumer_group import ConsumerGroup, ConsumerGroupState
from odradek.coordinator.group_states import GroupState
from odradek.coordinator.offsets import Stood
from odradek.server.exporter.families import (
    EXPORTER,
    PARTITION,
    ROWS_AT_ONCE,
    Family,
    Sample,
    one,
    pieces,
    table,
)
from odradek.server.exporter.seen import Seen


def _groups(name: str, text: str) -> Family:
    return Family(
        f"kafka_coordinator_group_groupmetadatamanager_{name.lower()}",
        "gauge",
        text,
        source=f"kafka.coordinator.group:type=GroupMetadataManager,name={name}",
    )


OFFSET = ("consumergroup", *PARTITION)
FAMILIES = table(
    _groups("NumGroups", "Groups that this broker coordinates."),
    _groups("NumGroupsEmpty", "Of these, those without members."),
    _groups("NumGroupsPreparingRebalance", "Those whose members are joining."),
    _groups("NumGroupsCompletingRebalance", "Those that wait for their assignment."),
    _groups("NumGroupsStable", "Those whose members read."),
    _groups("NumGroupsDead", "Those that are being removed."),
    _groups("NumGroupsAssigning", "Those of KIP-848 that wait for a target assignment."),
    _groups("NumGroupsReconciling", "Those of KIP-848 whose members are on their way to it."),
    _groups("NumOffsets", "Offsets that groups have committed here."),
    Family(
        "odradek_group_members_memory_bytes",
        "gauge",
        "Memory that members of groups take, about; new ones have to wait where it comes to 224 MiB.",
    ),
    Family(
        "odradek_group_members_refused_total",
        "counter",
        "Times that a member had to wait for others to go, for there was no memory for what it brings.",
    ),
    Family(
        "odradek_groups_memory_bytes",
        "gauge",
        "Memory that groups and their committed offsets take, about; who brings more has to wait where it comes to 512 MiB.",
    ),
    Family(
        "odradek_groups_refused_total",
        "counter",
        "Times that a new group, or a commit that brings more than before, had to wait: there was no memory for it.",
    ),
    Family(
        "odradek_transactional_ids_memory_bytes",
        "gauge",
        "Memory that transactional ids and partitions of their transactions take, about; who brings more has to wait where it comes to 256 MiB.",
    ),
    Family(
        "odradek_transactional_ids_refused_total",
        "counter",
        "Times that a new transactional id, or a transaction of more partitions, had to wait: there was no memory for it.",
    ),
    Family(
        "kafka_consumergroup_members",
        "gauge",
        "Members of a group.",
        ("consumergroup",),
        EXPORTER,
    ),
    Family(
        "kafka_consumergroup_current_offset",
        "gauge",
        "Offset that a group has committed, at its coordinator.",
        OFFSET,
        EXPORTER,
    ),
)


def collect(seen: Seen) -> Iterator[str]:
    states: Counter[str] = Counter()
    members: list[Sample] = []
    committed: list[tuple[str, Mapping[tuple[str, int], Stood]]] = []
    count = 0
    for shard in list(seen.broker.groups.shards.values()):
        if shard.coordinator is None:
            continue  # still being loaded
        memory = shard.coordinator.shard
        here: list[tuple[str, ClassicGroup | ConsumerGroup]] = []
        here += memory.groups.items()
        here += memory.consumer_groups.items()
        for at, (name, group) in enumerate(here):
            if not at % ROWS_AT_ONCE:
                yield ""
            states[group.state.value] += 1
            of_group = group.members if isinstance(group, ClassicGroup) else group.image.members
            members.append(((name,), len(of_group)))
        committed += memory.offsets.by_group.items()
        yield ""
    for at, (_, offsets) in enumerate(committed):
        count += len(offsets)
        if not at % ROWS_AT_ONCE:
            yield ""
    prefix = "kafka_coordinator_group_groupmetadatamanager_num"
    yield one(FAMILIES[f"{prefix}groups"], sum(states.values()))
    yield one(FAMILIES[f"{prefix}offsets"], count)
    memory_of_members = seen.broker.groups.memory
    yield one(FAMILIES["odradek_group_members_memory_bytes"], memory_of_members.size_bytes)
    yield one(FAMILIES["odradek_group_members_refused_total"], memory_of_members.refused)
    for name, kept in (
        ("groups", seen.broker.groups.kept),
        ("transactional_ids", seen.broker.transactions.kept),
    ):
        yield one(FAMILIES[f"odradek_{name}_memory_bytes"], kept.size_bytes)
        yield one(FAMILIES[f"odradek_{name}_refused_total"], kept.refused)
    for state in {state.value for state in (*GroupState, *ConsumerGroupState)}:
        yield one(FAMILIES[f"{prefix}groups{state.lower()}"], states[state])
    yield from pieces(FAMILIES["kafka_consumergroup_members"], members)
    yield from pieces(FAMILIES["kafka_consumergroup_current_offset"], _committed(committed))


def _committed(groups: list[tuple[str, Mapping[tuple[str, int], Stood]]]) -> Iterator[Sample]:
    for name, offsets in groups:
        # A copy of each when its turn comes: they change between two pieces.
        for (topic, partition), stood in list(offsets.items()):
            yield (name, topic, partition), stood.committed.offset
