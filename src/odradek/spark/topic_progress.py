"""How far an application is in what it writes into topics: a record in a compacted topic, of the same transaction as its rows.

    key    the application's id
    value  what its last batch notes of itself, as JSON: number, producer id and epoch, and of each partition the first
           offset, the count and the fingerprint

Compaction keeps the last of each application for ever. (Offsets of a group, which a transaction can commit as well, are gone
after offsets.retention.minutes without a commit, as a topic that is quiet for a week has none.)
"""

import json
import time
from typing import Any

from odradek.client.sync import CONTROLLER, SyncClient, answered
from odradek.client.sync_fetch import read_range
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from odradek.records.batch import iter_batches
from odradek.records.builder import NewRecord, build_batch
from odradek.records.control import end_transaction
from odradek.records.reader import decode_batch

Note = dict[str, Any]
_COPIES = 3
_CONFIGS = {"cleanup.policy": "compact", "segment.bytes": str(1 << 20), "min.cleanable.dirty.ratio": "0.1"}


def ensure(client: SyncClient, topic: str) -> bytes:
    """Makes the topic where it is not there; gives its id."""
    view = client.cluster([topic])
    if topic not in view.topics:
        request = CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name=topic,
                    num_partitions=1,
                    replication_factor=min(_COPIES, len(view.brokers)),
                    configs=[CreatableTopicConfig(name=name, value=v) for name, v in _CONFIGS.items()],
                )
            ],
            timeout_ms=30_000,
        )

        def make() -> None:
            client.cluster([])  # whoever was controller may be none any more
            (row,) = client.call(CONTROLLER, request).topics
            if row.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                raise answered(row.error_code, f"topic {topic}, in which sinks note how far they are")

        client.retrying(make)
        return client.retrying(lambda: client.topic(topic)).topic_id
    return view.topics[topic].topic_id


def record(app_id: str, note: Note) -> bytes:
    """The batch that says so, to be sent in the transaction that it tells of."""
    value = json.dumps(note, sort_keys=True).encode()
    row = NewRecord(app_id.encode(), value, int(time.time() * 1000))
    # Of many partitions it would be larger than a topic takes.
    return build_batch([row], codec="gzip", is_transactional=True)


def last(client: SyncClient, topic: str, app_id: str, *, start: int = 0) -> tuple[Note | None, int]:
    """What the application's last committed batch noted, and the offset of that; `start`: an offset known to be not above it.

    Only for who has fenced all others of the application: then each of its records has its marker behind it, and transactions
    of others, open or not, are passed over.
    """
    partition = TopicPartition(topic, 0)
    begin = client.begin_offsets([partition])[partition]
    end = client.end_offsets([partition])[partition]
    start = max(begin, start)
    key = app_id.encode()
    undecided: dict[int, tuple[Note, int]] = {}
    found: tuple[Note | None, int] = (None, begin)
    for fetched in read_range(client, partition, start, end):
        for position, header in iter_batches(fetched.records):
            if header.is_control:
                # Compaction takes a marker with no record left and may keep its batch: that one decides about nothing here.
                ended = next(map(end_transaction, decode_batch(fetched.records, position)), None)
                mine = undecided.pop(header.producer_id, None)
                if mine is not None and ended is not None and ended.is_commit:
                    found = mine
                continue
            for row in decode_batch(fetched.records, position):
                if row.key == key and row.value is not None:
                    undecided[header.producer_id] = (json.loads(bytes(row.value)), row.offset)
    return found
