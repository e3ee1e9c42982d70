"""DeleteGroups and OffsetDelete: tombstones for offsets, and then for the group."""

from collections.abc import Collection

from odradek.coordinator.append_errors import told_of_consumer_group, told_of_group, told_of_offsets
from odradek.coordinator.classic_group import ClassicGroup
from odradek.coordinator.consumer_group import ConsumerGroup
from odradek.coordinator.downgrading import end_consumer_group
from odradek.coordinator.draft import Draft
from odradek.coordinator.effects import RECORD_OVERHEAD_BYTES
from odradek.coordinator.events import Asked
from odradek.coordinator.group_states import DELETE, GroupState
from odradek.coordinator.later import MOST_OFFSETS, Later, made
from odradek.coordinator.offsets import Place
from odradek.coordinator.records import CoordinatorRecord, GroupKey, GroupRecord, OffsetKey, OffsetRecord
from odradek.coordinator.shard import MindsLate, Shard
from odradek.coordinator.subscription import CONSUMER
from odradek.model.error_codes import ErrorCode
from odradek.model.topic_names import LONGEST_NAME
from odradek.model.values import dataclass, field
from odradek.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from odradek.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from odradek.protocol.schema import Response

# Of one append: a group may have more offsets than fit a batch.
MOST_TOMBSTONES = 2_000
# Of one request, in its turn: some ten milliseconds.
MOST_AT_ONCE = 5_000


def tombstones(group: ClassicGroup, places: list[Place], *, with_group: bool) -> list[CoordinatorRecord]:
    """A group that never stored anything (generation 0) needs none of its own."""
    records = offset_tombstones(group.group_id, places)
    if with_group and group.generation > 0:
        records.append(GroupRecord(GroupKey(group.group_id), None))
    return records


def offset_tombstones(group_id: str, places: list[Place]) -> list[CoordinatorRecord]:
    return [OffsetRecord(OffsetKey(group_id, topic, partition), None) for topic, partition in places]


def most_tombstones(shard: Shard, group_id: str) -> int:
    """Of one append: a batch holds them whatever their topics are called."""
    largest = RECORD_OVERHEAD_BYTES + len(group_id.encode()) + LONGEST_NAME
    return max(min(MOST_TOMBSTONES, shard.settings.max_append_bytes // largest), 1)


def delete_groups(shard: Shard, asked: Asked, request: DeleteGroupsRequest, now_ms: int) -> None:
    deletion = Deletion(asked.call)
    for name in request.groups_names:
        if name in deletion.results:
            continue
        consumers = shard.consumer_groups.get(name)
        if consumers is not None:
            deletion.results[name] = why_no_removal(shard, consumers)
            if not deletion.results[name]:
                remove_consumer_group(shard, consumers, deletion, now_ms)
            continue
        group = shard.groups.get(name)
        error = ErrorCode.GROUP_ID_NOT_FOUND if group is None else DELETE[group.state]
        deletion.results[name] = error
        if group is None or error:
            continue
        remove_group(shard, group, deletion, now_ms)
    deletion.answer_when_done(shard)


def remove_group(shard: Shard, group: ClassicGroup, deletion: "Deletion", now_ms: int) -> None:
    places = shard.offsets.to_remove(group.group_id)
    own = tombstones(group, [], with_group=True)
    if not places and not own:
        return shard.forget(group)
    group.move_to(GroupState.DEAD, now_ms)
    deletion.begin(shard, GroupRemoved(group, deletion, places[::-1], own))
    return None


def why_no_removal(shard: Shard, group: ConsumerGroup) -> ErrorCode:
    """Somebody may be joining just now."""
    if group.is_dead:
        return ErrorCode.GROUP_ID_NOT_FOUND
    is_empty = group.is_empty and group.group_id not in shard.busy
    return ErrorCode.NONE if is_empty else ErrorCode.NON_EMPTY_GROUP


def remove_consumer_group(shard: Shard, group: ConsumerGroup, deletion: "Deletion", now_ms: int) -> None:
    """Nobody comes to the group before it is gone, or before that has failed."""
    draft = Draft(shard, group.group_id, now_ms)
    end_consumer_group(draft)
    places = shard.offsets.to_remove(group.group_id)
    group.removals_in_flight += 1
    shard.begin_turn(group.group_id)
    deletion.begin(shard, ConsumerGroupRemoved(group, deletion, places[::-1], draft.records))


@dataclass(slots=True)
class Deletion:
    """One request; `call` None: nobody asked, the group has expired.

    A group may have a hundred thousand offsets: their tombstones are made and appended piece by piece, the next one when the
    one before is committed; and of a request for very many groups the later ones wait for the end of the earlier.
    """

    call: int | None
    results: dict[str, ErrorCode] = field(default_factory=dict)
    begun: int = 0  # groups
    records: int = 0  # that were appended for those that did not wait
    waiting: "list[GroupRemoved | ConsumerGroupRemoved]" = field(default_factory=list)

    def begin(self, shard: Shard, removal: "GroupRemoved | ConsumerGroupRemoved") -> None:
        if self.records < MOST_AT_ONCE:
            self.records += self.append_piece(shard, removal)
            self.begun += 1
        else:
            self.waiting.append(removal)

    def append_piece(self, shard: Shard, removal: "GroupRemoved | ConsumerGroupRemoved") -> int:
        group_id = removal.group.group_id
        records = _next_piece(group_id, removal.places, removal.own, most_tombstones(shard, group_id))
        shard.append(records, removal)
        return len(records)

    def ended(self, shard: Shard, group_id: str, error: ErrorCode, now_ms: int) -> None:
        """Those that wait share the fate of one that could not be removed."""
        self.begun -= 1
        if error:
            self.results[group_id] = error
            waiting, self.waiting = self.waiting, []
            for removal in waiting:
                self.results[removal.group.group_id] = error
                removal.give_up(shard, now_ms)
        elif self.waiting:
            self.begun += 1
            self.append_piece(shard, self.waiting.pop(0))
        self.answer_when_done(shard)

    def answer_when_done(self, shard: Shard) -> None:
        if self.begun or self.waiting or self.call is None:
            return
        results = [DeletableGroupResult(group_id=name, error_code=why) for name, why in self.results.items()]
        shard.answer(self.call, DeleteGroupsResponse(results=results))


def _next_piece(
    group_id: str, places: list[Place], own: list[CoordinatorRecord], most: int
) -> list[CoordinatorRecord]:
    """Takes it off; the records of the group itself come last."""
    some = places[-most:]
    del places[-most:]
    records = offset_tombstones(group_id, some[::-1])
    if not places:
        room = most - len(records)
        records += own[:room]
        del own[:room]
    return records


@dataclass(slots=True)
class GroupRemoved:
    group: ClassicGroup
    deletion: Deletion
    places: list[Place]  # whose tombstones are still to be appended, the next one last
    own: list[CoordinatorRecord]  # and of the group itself

    def committed(self, shard: Shard, now_ms: int) -> None:
        if self.places or self.own:
            self.deletion.append_piece(shard, self)
            return
        shard.forget(self.group)
        self.deletion.ended(shard, self.group.group_id, ErrorCode.NONE, now_ms)

    def failed(self, shard: Shard, error: ErrorCode, now_ms: int) -> None:
        self.give_up(shard, now_ms)
        self.deletion.ended(shard, self.group.group_id, told_of_group(error), now_ms)

    def give_up(self, shard: Shard, now_ms: int) -> None:
        self.group.move_to(GroupState.EMPTY, now_ms)


@dataclass(slots=True)
class ConsumerGroupRemoved(MindsLate):
    group: ConsumerGroup
    deletion: Deletion
    places: list[Place]  # as of `GroupRemoved`
    own: list[CoordinatorRecord]

    def committed(self, shard: Shard, now_ms: int) -> None:
        if self.places or self.own:
            self.deletion.append_piece(shard, self)
            return
        self.give_up(shard, now_ms)
        self.deletion.ended(shard, self.group.group_id, ErrorCode.NONE, now_ms)

    def failed(self, shard: Shard, error: ErrorCode, now_ms: int) -> None:
        self.give_up(shard, now_ms)
        self.deletion.ended(shard, self.group.group_id, told_of_consumer_group(error), now_ms)

    def came_late(self, shard: Shard, now_ms: int) -> None:
        self._forget(shard)

    def give_up(self, shard: Shard, now_ms: int) -> None:
        self.group.removals_in_flight -= 1
        shard.end_turn(self.group.group_id)
        self._forget(shard)

    def _forget(self, shard: Shard) -> None:
        group_id = self.group.group_id
        if group_id not in shard.stored.consumer_groups and shard.consumer_groups.get(group_id) is self.group:
            del shard.consumer_groups[group_id]


def offset_delete(shard: Shard, asked: Asked, request: OffsetDeleteRequest, now_ms: int) -> None:
    group: ClassicGroup | ConsumerGroup | None = shard.consumer_groups.get(request.group_id)
    group = group or shard.groups.get(request.group_id)
    error = _why_no_delete(group) if request.group_id else ErrorCode.INVALID_GROUP_ID
    if group is None or error:
        return shard.answer(asked.call, OffsetDeleteResponse(error_code=error))
    subscribed = _subscribed(group)
    rows: dict[str, list[tuple[int, ErrorCode]]] = {}
    doomed: dict[Place, None] = {}
    for topic in request.topics:
        for one in topic.partitions:
            why = ErrorCode.NONE
            if not 0 <= one.partition_index < shard.topics.get(topic.name, 0):
                why = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif subscribed is None or topic.name in subscribed:
                why = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
            else:
                doomed[topic.name, one.partition_index] = None
            rows.setdefault(topic.name, []).append((one.partition_index, why))
    places = [place for place in doomed if _is_there(shard, group.group_id, place)]
    response = made(lambda: _deleted(rows), sum(map(len, rows.values())), MOST_OFFSETS)
    if not places:
        return shard.answer(asked.call, response)
    # An empty group goes with its last offset.
    goes = None
    if isinstance(group, ClassicGroup) and group.state is GroupState.EMPTY and not group.pending_ids:
        goes = None if _are_left(shard, group.group_id, doomed) else group
    if goes is not None:
        goes.move_to(GroupState.DEAD, now_ms)
    records = offset_tombstones(request.group_id, places)
    if goes is not None:
        records = tombstones(goes, places, with_group=True)
    most = most_tombstones(shard, request.group_id)
    pieces = [records[at : at + most] for at in range(0, len(records), most)]
    after = OffsetsDeleted(asked.call, response, goes, len(pieces))
    # All in this turn: what is committed for one of these places from here on stands behind them, and stays.
    for piece in pieces:
        shard.append(piece, after)
    return None


def _subscribed(group: ClassicGroup | ConsumerGroup) -> frozenset[str] | None:
    """None: any topic may be."""
    if isinstance(group, ConsumerGroup):
        return frozenset(group.image.subscribed_topics())
    return group.subscribed_topics if group.members else frozenset()


def _are_left(shard: Shard, group_id: str, doomed: Collection[Place]) -> bool:
    if shard.offsets.has_more_than(len(doomed), group_id):
        return True
    return any(place not in doomed for place in shard.offsets.to_remove(group_id))


def _is_there(shard: Shard, group_id: str, place: Place) -> bool:
    offsets = shard.offsets
    return (
        offsets.of(group_id, place) is not None
        or offsets.is_in_flight(group_id, place)
        or offsets.is_pending(group_id, place)
    )


def _why_no_delete(group: ClassicGroup | ConsumerGroup | None) -> ErrorCode:
    if isinstance(group, ConsumerGroup):
        return ErrorCode.GROUP_ID_NOT_FOUND if group.is_dead else ErrorCode.NONE
    if group is None or group.state is GroupState.DEAD:
        return ErrorCode.GROUP_ID_NOT_FOUND
    if group.members and group.protocol_type != CONSUMER:
        return ErrorCode.NON_EMPTY_GROUP
    return ErrorCode.NONE


def _deleted(rows: dict[str, list[tuple[int, ErrorCode]]]) -> OffsetDeleteResponse:
    return OffsetDeleteResponse(
        topics=[
            OffsetDeleteResponseTopic(
                name=topic,
                partitions=[
                    OffsetDeleteResponsePartition(partition_index=at, error_code=why) for at, why in found
                ],
            )
            for topic, found in rows.items()
        ]
    )


@dataclass(slots=True)
class OffsetsDeleted:
    """Answered when the fate of every piece is known."""

    call: int
    response: Response | Later
    group: ClassicGroup | None  # goes with its last offset
    pieces: int
    error: ErrorCode = ErrorCode.NONE

    def committed(self, shard: Shard, now_ms: int) -> None:
        self._ended(shard, now_ms)

    def failed(self, shard: Shard, error: ErrorCode, now_ms: int) -> None:
        self.error = told_of_offsets(error)
        self._ended(shard, now_ms)

    def _ended(self, shard: Shard, now_ms: int) -> None:
        self.pieces -= 1
        if self.pieces:
            return
        if self.group is not None:
            if self.error:
                self.group.move_to(GroupState.EMPTY, now_ms)
            else:
                shard.forget(self.group)
        shard.answer(self.call, OffsetDeleteResponse(error_code=self.error) if self.error else self.response)
