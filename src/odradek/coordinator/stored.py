"""What the records say, all of them together: the one place that a record changes, while loading and ever after."""

from collections.abc import Iterable, Sequence

from odradek.coordinator.committed_together import committed_together
from odradek.coordinator.consumer_image import ConsumerImage
from odradek.coordinator.kept_memory import of_group
from odradek.coordinator.offsets import Offsets
from odradek.coordinator.records import CoordinatorRecord, GroupRecord, OffsetRecord, StoredGroup
from odradek.records.batch import BatchHeader


class Stored:
    def __init__(self) -> None:
        self.groups: dict[str, StoredGroup] = {}
        self.consumer_groups: dict[str, ConsumerImage] = {}
        self.offsets = Offsets()
        self.held_bytes = 0  # memory of members, as it counts for `member_memory`
        self.bytes_of_consumer_groups = 0  # and of the groups alone, for `kept_memory`

    def replay(self, record: CoordinatorRecord, position: int, producer_id: int) -> None:
        """The record at this offset of the log; the last value of a key wins, and no value removes it."""
        if isinstance(record, OffsetRecord):
            self.offsets.apply(record.key, record.value, position, producer_id)
        elif not isinstance(record, GroupRecord):
            image = self.consumer_groups.get(record.group)
            if image is None:
                image = self.consumer_groups[record.group] = ConsumerImage()
                self.bytes_of_consumer_groups += of_group(record.group)
            self.held_bytes -= image.held_bytes
            image.replay(record)
            self.held_bytes += image.held_bytes
            if image.is_bare:
                del self.consumer_groups[record.group]
                self.bytes_of_consumer_groups -= of_group(record.group)
        else:
            before = self.groups.pop(record.key.group, None)
            self.held_bytes += _held_by(record.value) - _held_by(before)
            if record.value is not None:
                self.groups[record.key.group] = record.value

    def replay_all(self, records: Sequence[CoordinatorRecord], position: int, producer_id: int) -> None:
        """As `replay` of each, the first of them at this offset of the log."""
        if len(records) > 1 and set(map(type, records)) == {OffsetRecord}:
            keys, values = zip(*records, strict=True)
            if None not in values and len({key.group for key in keys}) == 1:
                return self.offsets.apply_all(keys, values, position, producer_id)
        for at, record in enumerate(records, position):
            self.replay(record, at, producer_id)
        return None

    def replay_together(self, header: BatchHeader, data: bytes) -> bool:
        """All records of a batch without a transaction, as `replay` of each would; False: not of the form that is read at once."""
        runs = committed_together(header, data)
        for run in runs or ():
            self.offsets.apply_run(run)
        return runs is not None

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        self.offsets.end_transaction(producer_id, is_commit=is_commit)

    def group_ids(self) -> Iterable[str]:
        """Of every group that stored something; a name may come more than once."""
        yield from self.groups
        yield from self.consumer_groups
        yield from self.offsets.by_group
        for held in self.offsets.pending.values():
            yield from held


def _held_by(group: StoredGroup | None) -> int:
    """Beside what its members take: what they offered then, which may be more than now."""
    members = group.members if group is not None else ()
    offered, assigned = [one.subscription for one in members], [one.assignment for one in members]
    return sum(map(len, offered)) + sum(map(len, assigned))
