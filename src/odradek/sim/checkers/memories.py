"""What a coordinator remembers is what its log says, and whoever loads that log remembers the same.

A memory is a mapping of names to values: `sim.coordinator_memory` makes it, of a coordinator at work and of one that reads its log
from the beginning, compacted as it is.
"""

from collections.abc import Iterator, Mapping

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
