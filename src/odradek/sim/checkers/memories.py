"""What a coordinator remembers is what its log says, and whoever loads that log remembers the same.

A memory is a mapping of names to values: `observed.coordinator_memory` makes it, of a coordinator at work and of one that reads its log
from the beginning, compacted as it is.

What a classic group takes itself for is what its last record says, as long as nothing of it is on its way: `state_since_ms` apart, which is a time.

A group that was converted leaves nothing of what it was, and a member that left nothing of what it had: a record that nobody writes
a tombstone of comes back when the group has gone, or is made again.
"""

from collections.abc import Iterator, Mapping

from odradek.coordinator.records import StoredGroup
from odradek.coordinator.stored import Stored
from odradek.model.ids import TopicPartition
from odradek.sim.checkers.history import Anomaly

Memory = Mapping[str, object]
NOTHING = "nothing"


def apart(broker: str, partition: TopicPartition, memory: Memory, replayed: Memory) -> Iterator[Anomaly]:
    for name in sorted({*memory, *replayed}):
        at_work, read = memory.get(name, NOTHING), replayed.get(name, NOTHING)
        if at_work != read:
            detail = f"{broker} remembers {at_work} of {name}, and its log says {read}"
            yield Anomaly("MemoryIsLog", partition, detail)


def left_over(broker: str, partition: TopicPartition, stored: Stored) -> Iterator[Anomaly]:
    for name, image in sorted(stored.consumer_groups.items()):
        gone = sorted({*image.current, *image.targets} - image.members.keys())
        if not image.is_there:
            detail = f"{broker} has records of a group {name} of KIP-848 that is none"
        elif name in stored.groups:
            detail = f"{broker} has records of {name} as a group of either protocol"
        elif gone:
            detail = f"{broker} has records of what {gone} had, who are no members of {name}"
        else:
            continue
        yield Anomaly("LeftOver", partition, detail)


def groups_as_recorded(
    broker: str,
    partition: TopicPartition,
    settled: Mapping[str, StoredGroup],
    stored: Mapping[str, StoredGroup],
) -> Iterator[Anomaly]:
    """GroupIsRecord. `settled`: what a record of now would say of those that are stable or empty and wait for nothing."""
    for name, now in sorted(settled.items()):
        last = stored.get(name)
        if not now.members and (now.protocol is not None or now.leader is not None):
            detail = (
                f"{broker} has nobody in group {name}, and its protocol {now.protocol}, led by {now.leader}"
            )
        elif last is None:
            if not now.members:
                continue  # one that was only asked for
            detail = f"{broker} has {len(now.members)} members of group {name}, and no record of it"
        elif now != last._replace(state_since_ms=now.state_since_ms):
            detail = f"{broker} has group {name} as {now}, and its last record is {last}"
        else:
            continue
        yield Anomaly("GroupIsRecord", partition, detail)
