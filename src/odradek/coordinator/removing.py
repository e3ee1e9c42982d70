"""DeleteGroups and OffsetDelete: tombstones for offsets, and then for the group."""

from odradek.coordinator.append_errors import told_of_group, told_of_offsets
from odradek.coordinator.classic_group import ClassicGroup
from odradek.coordinator.events import Asked
from odradek.coordinator.group_states import DELETE, GroupState
from odradek.coordinator.offsets import Place
from odradek.coordinator.records import CoordinatorRecord, GroupKey, GroupRecord, OffsetKey, OffsetRecord
from odradek.coordinator.shard import Shard
from odradek.coordinator.subscription import CONSUMER
from odradek.model.error_codes import ErrorCode
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

# Of one append: a group may have more offsets than fit a batch.
MOST_TOMBSTONES = 2_000


def tombstones(group: ClassicGroup, places: list[Place], *, with_group: bool) -> list[CoordinatorRecord]:
    """A group that never stored anything (generation 0) needs none of its own."""
    records: list[CoordinatorRecord] = [
        OffsetRecord(OffsetKey(group.group_id, topic, partition), None) for topic, partition in places
    ]
    if with_group and group.generation > 0:
        records.append(GroupRecord(GroupKey(group.group_id), None))
    return records


def delete_groups(shard: Shard, asked: Asked, request: DeleteGroupsRequest, now_ms: int) -> None:
    deletion = Deletion(asked.call)
    for name in request.groups_names:
        if name in deletion.results:
            continue
        group = shard.groups.get(name)
        error = ErrorCode.GROUP_ID_NOT_FOUND if group is None else DELETE[group.state]
        deletion.results[name] = error
        if group is None or error:
            continue
        remove_group(shard, group, deletion, now_ms)
    deletion.answer_when_done(shard)


def remove_group(shard: Shard, group: ClassicGroup, deletion: "Deletion", now_ms: int) -> None:
    records = tombstones(group, shard.offsets.to_remove(group.group_id), with_group=True)
    if not records:
        return shard.forget(group)
    group.move_to(GroupState.DEAD, now_ms)
    pieces = range(0, len(records), MOST_TOMBSTONES)
    group.removals_in_flight += len(pieces)
    deletion.open += len(pieces)
    after = GroupRemoved(group, deletion)
    for at in pieces:
        shard.append(records[at : at + MOST_TOMBSTONES], after)
    return None


@dataclass(slots=True)
class Deletion:
    """One request; `call` None: nobody asked, the group has expired."""

    call: int | None
    results: dict[str, ErrorCode] = field(default_factory=dict)
    open: int = 0

    def answer_when_done(self, shard: Shard) -> None:
        if self.open or self.call is None:
            return
        results = [DeletableGroupResult(group_id=name, error_code=why) for name, why in self.results.items()]
        shard.answer(self.call, DeleteGroupsResponse(results=results))


@dataclass(frozen=True, slots=True)
class GroupRemoved:
    group: ClassicGroup
    deletion: Deletion

    def committed(self, shard: Shard, now_ms: int) -> None:
        self._one_less(shard, now_ms)

    def failed(self, shard: Shard, error: ErrorCode, now_ms: int) -> None:
        self.deletion.results[self.group.group_id] = told_of_group(error)
        self._one_less(shard, now_ms)

    def _one_less(self, shard: Shard, now_ms: int) -> None:
        group = self.group
        group.removals_in_flight -= 1
        self.deletion.open -= 1
        if not group.removals_in_flight:
            if self.deletion.results.get(group.group_id):
                group.move_to(GroupState.EMPTY, now_ms)
            else:
                shard.forget(group)
        self.deletion.answer_when_done(shard)


def offset_delete(shard: Shard, asked: Asked, request: OffsetDeleteRequest, now_ms: int) -> None:
    group = shard.groups.get(request.group_id)
    error = _why_no_delete(group)
    if group is None or error:
        return shard.answer(asked.call, OffsetDeleteResponse(error_code=error))
    subscribed = group.subscribed_topics if group.members else frozenset()
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
    response = _deleted(rows)
    if not places:
        return shard.answer(asked.call, response)
    left = [place for place in shard.offsets.to_remove(group.group_id) if place not in doomed]
    # An empty group goes with its last offset.
    goes = group.state is GroupState.EMPTY and not left and not group.pending_ids
    if goes:
        group.move_to(GroupState.DEAD, now_ms)
    after = OffsetsDeleted(asked.call, response, group if goes else None)
    shard.append(tombstones(group, places, with_group=goes), after)
    return None


def _is_there(shard: Shard, group_id: str, place: Place) -> bool:
    offsets = shard.offsets
    return (
        offsets.of(group_id, place) is not None
        or offsets.is_in_flight(group_id, place)
        or offsets.is_pending(group_id, place)
    )


def _why_no_delete(group: ClassicGroup | None) -> ErrorCode:
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


@dataclass(frozen=True, slots=True)
class OffsetsDeleted:
    call: int
    response: OffsetDeleteResponse
    group: ClassicGroup | None  # goes with its last offset

    def committed(self, shard: Shard, now_ms: int) -> None:
        if self.group is not None:
            shard.forget(self.group)
        shard.answer(self.call, self.response)

    def failed(self, shard: Shard, error: ErrorCode, now_ms: int) -> None:
        if self.group is not None:
            self.group.move_to(GroupState.EMPTY, now_ms)
        shard.answer(self.call, OffsetDeleteResponse(error_code=told_of_offsets(error)))
