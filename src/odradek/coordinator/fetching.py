"""OffsetFetch: what a group committed. No commit is no error: offset -1."""

from collections.abc import Iterable
from typing import Any

from odradek.coordinator.consumer_epochs import why_no_fetch
from odradek.coordinator.events import Asked
from odradek.coordinator.offsets import Offsets, Place
from odradek.coordinator.shard import Shard
from odradek.model.error_codes import ErrorCode
from odradek.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
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
        topics = _topics(
            offsets,
            request.group_id,
            request.topics,
            stable,
            OffsetFetchResponseTopic,
            OffsetFetchResponsePartition,
        )
        return shard.answer(asked.call, OffsetFetchResponse(topics=topics))
    groups = []
    for group in request.groups:
        consumers = shard.consumer_groups.get(group.group_id)
        if consumers is not None and (error := why_no_fetch(consumers, group.member_id, group.member_epoch)):
            groups.append(OffsetFetchResponseGroup(group_id=group.group_id, error_code=error))
            continue
        topics = _topics(
            offsets,
            group.group_id,
            group.topics,
            stable,
            OffsetFetchResponseTopics,
            OffsetFetchResponsePartitions,
        )
        groups.append(OffsetFetchResponseGroup(group_id=group.group_id, topics=topics))
    return shard.answer(asked.call, OffsetFetchResponse(groups=groups))


def _topics(
    offsets: Offsets,
    group_id: str,
    asked: Iterable[Any] | None,
    stable: bool,
    topic_type: Any,
    partition_type: Any,
) -> list[Any]:
    """`asked` None: all there are."""
    if asked is None:
        places: dict[str, list[int]] = {}
        for topic, partition in offsets.places(group_id):
            # What only a transaction has committed is there for those who wait for it.
            if stable or offsets.of(group_id, (topic, partition)) is not None:
                places.setdefault(topic, []).append(partition)
        wanted = list(places.items())
    else:
        wanted = [(topic.name, topic.partition_indexes) for topic in asked]
    return [
        topic_type(
            name=topic,
            partitions=[
                _partition(offsets, group_id, (topic, index), stable, partition_type) for index in indexes
            ],
        )
        for topic, indexes in wanted
    ]


def _partition(offsets: Offsets, group_id: str, place: Place, stable: bool, partition_type: Any) -> Any:
    if stable and offsets.is_pending(group_id, place):
        return partition_type(
            partition_index=place[1],
            committed_offset=NO_OFFSET,
            metadata="",
            error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT,
        )
    found = offsets.of(group_id, place)
    if found is None:
        return partition_type(partition_index=place[1], committed_offset=NO_OFFSET, metadata="")
    return partition_type(
        partition_index=place[1],
        committed_offset=found.offset,
        committed_leader_epoch=found.leader_epoch,
        metadata=found.metadata,
    )
