"""What threads found for a group of KIP-848: a target for many members, the topics of regular expressions."""

from collections.abc import Collection

from odradek.coordinator.append_errors import UNDECIDED
from odradek.coordinator.asides import Assigned, Resolved
from odradek.coordinator.consumer_group import ConsumerGroup
from odradek.coordinator.consumer_records import RegexRecord, ResolvedRegex, TargetEpochRecord, TargetRecord
from odradek.coordinator.draft import Draft, changed_targets
from odradek.coordinator.effects import RECORD_OVERHEAD_BYTES
from odradek.coordinator.records import CoordinatorRecord
from odradek.coordinator.shard import MindsLate, Shard
from odradek.coordinator.turns import Turn, take_turn
from odradek.model.error_codes import ErrorCode
from odradek.model.values import dataclass

# Of one append, and of one turn: a few milliseconds, and a fraction of a batch.
MOST_TARGETS = 300
MOST_PARTITIONS = 20_000
AGAIN_MS = 10_000
# In front of the name of a topic.
MOST_LENGTH_BYTES = 2


def resolved(shard: Shard, came: Resolved, now_ms: int) -> None:
    group = shard.consumer_groups.get(came.group_id)
    if group is None:
        return
    if came.rest is not None:
        return shard.ask_aside(group, came.rest)
    group.is_resolving = False
    group.resolved_at_ms = now_ms
    _store_resolved(shard, group, came, list(came.topics.items())[::-1], now_ms)


def _store_resolved(
    shard: Shard, group: ConsumerGroup, came: Resolved, left: list[tuple[str, tuple[str, ...]]], now_ms: int
) -> None:
    """As many at once as a batch holds, and the others when that is committed, within the same turn. `left`: the next one last."""
    draft = Draft(shard, came.group_id, now_ms)
    size_bytes = 0
    while left:
        regex, topics = left[-1]
        before = draft.image.regexes.get(regex)
        if regex in draft.image.regex_counts and (before is None or before.topics != topics):
            size_bytes += _size_bytes(came.group_id, regex, topics)
            if draft.records and size_bytes > shard.settings.max_append_bytes:
                break
            draft.write(RegexRecord(came.group_id, regex, ResolvedRegex(topics, came.version, now_ms)))
        left.pop()
    if not draft.records:
        group.resolved_version = came.version
        return None
    # Of what matches nothing, too: it may have taken the place of one that did.
    draft.move_epoch(is_changed=True)
    turn = Resolving(came.group_id, draft.records)
    turn.then = lambda: _store_resolved(shard, group, came, left, now_ms)
    return take_turn(draft, turn)


class Resolving(Turn):
    __slots__ = ()

    def failed(self, shard: Shard, error: ErrorCode, now_ms: int) -> None:
        group = shard.consumer_groups.get(self.group_id)
        if group is not None:  # every heartbeat of its members would have all topics tried again
            group.resolve_again_ms = now_ms + AGAIN_MS
        super().failed(shard, error, now_ms)


def _size_bytes(group_id: str, regex: str, topics: Collection[str]) -> int:
    """About what the record takes in a batch."""
    names = sum(map(len, topics)) + MOST_LENGTH_BYTES * len(topics)
    return RECORD_OVERHEAD_BYTES + len(group_id.encode()) + len(regex.encode()) + names


def assigned(shard: Shard, came: Assigned, now_ms: int) -> None:
    """The targets are written in pieces, the epoch they are for with the last; until then it is the former one's."""
    group = shard.consumer_groups.get(came.group_id)
    if group is None:
        return
    if came.epoch <= group.image.assignment_epoch or not group.image.members:
        group.is_assigning = False
        return
    image = group.image
    if (
        came.epoch > image.epoch
        or (came.epoch == image.epoch and came.targets.keys() != image.members.keys())
        or not image.targets.keys() & image.members.keys() <= came.targets.keys()
    ):
        # Of a group of this name that was deleted; or a static member came back under another id, which moves no epoch, with the target
        # of the one before. What is not computed for the members there are would stand as their target: partitions that two are to
        # have, or nobody.
        group.is_assigning = False
        return
    records = changed_targets(came.group_id, group.image, came.targets)
    _write(shard, Pieces(came.group_id, came.epoch, records[::-1]))


@dataclass(slots=True)
class Pieces:
    group_id: str
    epoch: int
    records: list[TargetRecord]  # still to be written, the next one last

    def take(self) -> list[TargetRecord]:
        found: list[TargetRecord] = []
        partitions = 0
        while self.records and len(found) < MOST_TARGETS and partitions < MOST_PARTITIONS:
            found.append(self.records.pop())
            partitions += sum(map(len, (found[-1].value or {}).values()))
        return found


@dataclass(frozen=True, slots=True)
class PieceWritten(MindsLate):
    """The next piece follows within the same turn: nobody sees some of the targets without the others."""

    pieces: Pieces
    is_last: bool

    def committed(self, shard: Shard, now_ms: int) -> None:
        if not self.is_last:
            return _write(shard, self.pieces)
        return self._is_over(shard, 0)

    def came_late(self, shard: Shard, now_ms: int) -> None:
        self.committed(shard, now_ms)

    def failed(self, shard: Shard, error: ErrorCode, now_ms: int) -> None:
        if error not in UNDECIDED:  # after which its fate is told once more
            self._is_over(shard, now_ms + AGAIN_MS)
            told = f"its assignment could not be stored: {error.name}"
            shard.say(f"group {self.pieces.group_id!r}: {told}")

    def failed_late(self, shard: Shard, now_ms: int) -> None:
        self._is_over(shard, now_ms + AGAIN_MS)

    def _is_over(self, shard: Shard, again_ms: int) -> None:
        group = shard.consumer_groups.get(self.pieces.group_id)
        if group is not None:
            group.is_assigning = False
            group.assign_again_ms = again_ms


def _write(shard: Shard, pieces: Pieces) -> None:
    records: list[CoordinatorRecord] = [*pieces.take()]
    is_last = not pieces.records
    if is_last:
        records.append(TargetEpochRecord(pieces.group_id, pieces.epoch))
    shard.append(records, PieceWritten(pieces, is_last))
    shard.turns.add(pieces.group_id)
