"""What a group went through, read from the end of its partition of `__consumer_offsets`.

No request tells when a member got its partitions, who left and came back, or when somebody committed last: the records
that the coordinator wrote do. They are looked for from the end on, and never all of a large partition. They are read
with those of open transactions, for another group's would hide what this one wrote since; what a transaction commits counts
once its marker says so.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from odradek.model.groups import Generation, GroupHistory, Seat

if TYPE_CHECKING:
    from odradek.client.sync import SyncClient
    from odradek.coordinator.records import StoredGroup
    from odradek.model.ids import TopicPartition
    from odradek.records.batch import BatchHeader
    from odradek.records.reader import Record

FIRST_READ = 2_000  # offsets
FURTHER = 8  # times as many, at each look that did not reach far enough
MOST = 128_000
FAR_ENOUGH_MS = 30 * 60_000


def partition_of_group(client: "SyncClient", group: str) -> "TopicPartition":
    from odradek.coordinator.partitioning import partition_of
    from odradek.model.ids import TopicPartition
    from odradek.model.topic_names import GROUPS_TOPIC

    count = len(client.topic(GROUPS_TOPIC).partitions)
    return TopicPartition(GROUPS_TOPIC, partition_of(group, count))


def history(client: "SyncClient", group: str, now_ms: int) -> GroupHistory:
    """Raises OdradekError where that partition cannot be read."""
    from odradek.client.sync_records import batches

    where = partition_of_group(client, group)
    (begin,) = client.begin_offsets([where]).values()
    (end,) = client.end_offsets([where]).values()
    size = FIRST_READ
    while True:
        start = max(begin, end - size)
        found = _of(group, batches(client, where, start, end, with_control=True), is_whole=start == begin)
        is_far = found.since_ms is None or (
            bool(found.generations) and found.since_ms < now_ms - FAR_ENOUGH_MS
        )
        if is_far or size >= MOST:
            return found
        size *= FURTHER


def _of(group: str, batches: "Iterable[tuple[BatchHeader, list[Record]]]", *, is_whole: bool) -> GroupHistory:
    from odradek.coordinator.records import GroupKey, GroupRecord, OffsetRecord, decode, encode
    from odradek.model.ids import TopicPartition
    from odradek.protocol.errors import MalformedMessage
    from odradek.records.control import end_transaction

    whole_key, _ = encode(GroupRecord(GroupKey(group), None))
    named = whole_key[2:]  # keys of offsets begin with the group as well
    generations: list[Generation] = []
    committed_at_ms: dict[TopicPartition, int] = {}
    pending: dict[
        int, dict[TopicPartition, int]
    ] = {}  # by producer id: of its transaction that has not ended
    since_ms: int | None = None
    for header, rows in batches:
        if header.is_control:
            in_it = pending.pop(header.producer_id, {})
            marker = end_transaction(rows[0]) if rows else None
            if marker is not None and marker.is_commit:
                for place, at_ms in in_it.items():
                    committed_at_ms[place] = max(at_ms, committed_at_ms.get(place, at_ms))
            continue
        committed = pending.setdefault(header.producer_id, {}) if header.is_transactional else committed_at_ms
        for record in rows:
            if since_ms is None:
                since_ms = record.timestamp
            if record.key is None or record.key[2 : 2 + len(named)] != named:
                continue
            try:
                found = decode(record.key, record.value)
            except MalformedMessage:
                continue  # written by another kind of coordinator
            if isinstance(found, GroupRecord):
                generations = (
                    [*generations, _generation(record.timestamp, found.value)] if found.value else []
                )
            elif isinstance(found, OffsetRecord) and found.value is not None:
                place = TopicPartition(found.key.topic, found.key.partition)
                committed[place] = found.value.committed_at_ms
    return GroupHistory(tuple(generations), committed_at_ms, None if is_whole else since_ms)


def _generation(at_ms: int, stored: "StoredGroup") -> Generation:
    from odradek.coordinator.assigned import assigned_partitions
    from odradek.model.groups import CONSUMER

    return Generation(
        at_ms,
        stored.generation,
        stored.leader,
        tuple(
            Seat(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.session_timeout_ms,
                member.rebalance_timeout_ms,
                assigned_partitions(member.assignment) if stored.protocol_type == CONSUMER else None,
            )
            for member in stored.members
        ),
    )
