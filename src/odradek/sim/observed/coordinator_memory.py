"""What the coordinators of a world remember, and what would be loaded in their place, for `checkers.memories`."""

from collections.abc import Iterator
from typing import Any

from odradek.coordinator.classic_group import ClassicGroup
from odradek.coordinator.consumer_records import EpochRecord
from odradek.coordinator.group_states import GroupState
from odradek.coordinator.records import GroupKey, GroupRecord, StoredGroup, encode
from odradek.coordinator.stored import Stored
from odradek.sim.checkers.history import Anomaly
from odradek.sim.checkers.memories import Memory, apart, groups_as_recorded, left_over
from odradek.sim.clients.group_member import GROUP as READERS
from odradek.sim.clients.sharer import GROUP as SHARERS
from odradek.sim.faults.targets import serving
from odradek.sim.world import SimBroker, World

# Of a group of KIP-848; what else its image holds is counted from these.
OF_CONSUMER_GROUPS = (
    "epoch", "metadata_hash", "assignment_epoch", "members", "current", "targets", "regexes", "owners",
)  # fmt: skip

# Of the record that a group itself is.
KEYS_OF_GROUPS = {
    encode(GroupRecord(GroupKey(READERS), None))[0]: READERS,
    encode(EpochRecord(SHARERS, None))[0]: SHARERS,
}


def forgetful(world: World) -> Iterator[Anomaly]:
    """Of a world at rest: what is on its way to a log is in that alone."""
    for broker, shards, shard in _at_work(world):
        yield from _apart(broker, shards, shard)


def untidy(world: World) -> Iterator[Anomaly]:
    for broker, _, shard in _at_work(world):
        if isinstance(shard.load.loaded.stored, Stored):
            yield from left_over(broker.name, shard.partition.topic_partition, shard.load.loaded.stored)


def _at_work(world: World) -> Iterator[tuple[SimBroker, Any, Any]]:
    """Broker, its coordinators of one kind, and one of these that has loaded."""
    for broker in serving(world):
        assert broker.runtime is not None
        parts = broker.runtime.broker
        of_both: tuple[Any, Any] = parts.groups, parts.transactions
        for shards in of_both:
            for _, shard in sorted(shards.shards.items()):
                if shard.coordinator is not None:
                    yield broker, shards, shard


def _apart(broker: SimBroker, shards: Any, shard: Any) -> Iterator[Anomaly]:
    load = shards._new_load(shard.partition)
    with broker.undisturbed():
        while (piece := load.next_piece()) is not None:
            if not load.has_read(piece.run()):
                break
    partition = shard.partition.topic_partition
    if load.problem:
        yield Anomaly("MemoryIsLog", partition, f"{broker.name} cannot load it: {load.problem}")
        return
    memory, replayed = (_memory(one.loaded.stored) for one in (shard.load, load))
    yield from apart(broker.name, partition, memory, replayed)
    if isinstance(shard.load.loaded.stored, Stored):
        groups = shard.coordinator.shard.groups
        settled = {name: _recorded(group) for name, group in groups.items() if _is_settled(group)}
        yield from groups_as_recorded(broker.name, partition, settled, shard.load.loaded.stored.groups)


def _is_settled(group: ClassicGroup) -> bool:
    return group.state in (GroupState.STABLE, GroupState.EMPTY) and group.storing is None


def _recorded(group: ClassicGroup) -> StoredGroup:
    return group.as_stored(0, {name: member.assignment for name, member in group.members.items()})


def _memory(stored: Any) -> Memory:
    if not isinstance(stored, Stored):
        return {f"transactional id {name}": value for name, value in stored.by_id.items()}
    found: dict[str, object] = {f"group {name}": value for name, value in stored.groups.items()}
    for group, places in stored.offsets.by_group.items():
        found |= {f"group {group}: {place}": stood for place, stood in places.items()}
    for producer, groups in stored.offsets.pending.items():
        for group, places in groups.items():
            found |= {f"group {group}: {place} of {producer}": stood for place, stood in places.items()}
    for name, image in stored.consumer_groups.items():
        found |= {f"group {name}: {what}": getattr(image, what) for what in OF_CONSUMER_GROUPS}
    return found
