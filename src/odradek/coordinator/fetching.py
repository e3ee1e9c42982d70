"""OffsetFetch: what a group committed. No commit is no error: offset -1."""

from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Any

from odradek.coordinator.consumer_epochs import why_no_fetch
from odradek.coordinator.events import Asked
from odradek.coordinator.later import MOST_OFFSETS, Later, Make
from odradek.coordinator.offsets import Offsets, Place, Seen
from odradek.coordinator.refusals import refuse
from odradek.coordinator.shard import Shard
from odradek.model.error_codes import ErrorCode
from odradek.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

FIRST_WITH_GROUPS = 8
NO_OFFSET = -1


def offset_fetch(shard: Shard, asked: Asked, request: OffsetFetchRequest, now_ms: int) -> None:
    offsets, stable = shard.offsets, request.require_stable
    if asked.version < FIRST_WITH_GROUPS:
        group_id, topics = request.group_id, request.topics

        def make(seen: Mapping[str, Seen]) -> OffsetFetchResponse:
            rows = _topics(
                seen[group_id], topics, stable, OffsetFetchResponseTopic, OffsetFetchResponsePartition
            )
            return OffsetFetchResponse(topics=rows)

        return _answer(shard, asked, make, [group_id], _rows(offsets, group_id, topics))
    errors = [_why_not(shard, group) for group in request.groups]
    allowed = [group for group, error in zip(request.groups, errors, strict=True) if not error]

    def make_all(seen: Mapping[str, Seen]) -> OffsetFetchResponse:
        return OffsetFetchResponse(
            groups=[_group(seen, *each, stable) for each in zip(request.groups, errors, strict=True)]
        )

    names = [group.group_id for group in allowed]
    return _answer(
        shard, asked, make_all, names, sum(_rows(offsets, group.group_id, group.topics) for group in allowed)
    )


def _answer(
    shard: Shard,
    asked: Asked,
    make: Callable[[Mapping[str, Seen]], OffsetFetchResponse],
    groups: list[str],
    rows: int,
) -> None:
    """At once, or by a thread from a copy."""
    if rows <= MOST_OFFSETS:
        return shard.answer(asked.call, make({group: shard.offsets.seen(group) for group in groups}))

    def see() -> Make:
        if shard.is_forgotten:
            return lambda: refuse(asked.request, asked.version, ErrorCode.NOT_COORDINATOR)
        copies = {group: shard.offsets.copy(group) for group in set(groups)}
        return lambda: make(copies)

    return shard.answer(asked.call, Later(see))


def _why_not(shard: Shard, group: OffsetFetchRequestGroup) -> ErrorCode:
    consumers = shard.consumer_groups.get(group.group_id)
    if consumers is None:
        return ErrorCode.NONE
    return why_no_fetch(consumers, group.member_id, group.member_epoch)


def _rows(offsets: Offsets, group_id: str, asked: Iterable[Any] | None) -> int:
    if asked is None:
        return offsets.count(group_id)
    return sum(len(topic.partition_indexes) for topic in asked)


def _group(
    seen: Mapping[str, Seen], group: OffsetFetchRequestGroup, error: ErrorCode, stable: bool
) -> OffsetFetchResponseGroup:
    if error:
        return OffsetFetchResponseGroup(group_id=group.group_id, error_code=error)
    topics = _topics(
        seen[group.group_id],
        group.topics,
        stable,
        OffsetFetchResponseTopics,
        OffsetFetchResponsePartitions,
    )
    return OffsetFetchResponseGroup(group_id=group.group_id, topics=topics)


def _topics(
    seen: Seen, asked: Iterable[Any] | None, stable: bool, topic_type: Any, partition_type: Any
) -> list[Any]:
    """`asked` None: all there are."""
    if asked is None:
        places: dict[str, list[int]] = {}
        # What only a transaction has committed is there for those who wait for it.
        pending = (place for place in seen.pending if place not in seen.committed) if stable else ()
        for topic, partition in chain(seen.committed, pending):
            places.setdefault(topic, []).append(partition)
        wanted = list(places.items())
    else:
        wanted = [(topic.name, topic.partition_indexes) for topic in asked]
    return [
        topic_type(
            name=topic,
            partitions=[_partition(seen, (topic, index), stable, partition_type) for index in indexes],
        )
        for topic, indexes in wanted
    ]


def _partition(seen: Seen, place: Place, stable: bool, partition_type: Any) -> Any:
    if stable and place in seen.pending:
        return partition_type(
            partition_index=place[1],
            committed_offset=NO_OFFSET,
            metadata="",
            error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT,
        )
    stood = seen.committed.get(place)
    if stood is None:
        return partition_type(partition_index=place[1], committed_offset=NO_OFFSET, metadata="")
    found = stood.committed
    return partition_type(
        partition_index=place[1],
        committed_offset=found.offset,
        committed_leader_epoch=found.leader_epoch,
        metadata=found.metadata,
    )
