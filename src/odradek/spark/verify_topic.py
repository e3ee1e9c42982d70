"""Do topics hold what a sink has written into them? Batch by batch, by count and hash, as a reader of committed transactions
sees it.

Each batch is one transaction, so its records carry a producer id and epoch of their own: they are told from everybody
else's, wherever they stand. What retention or compaction has taken of a batch is counted, and only told by its note.
"""

from functools import cache, partial
from typing import Any, NamedTuple

from odradek.client.sync import LATEST, SyncClient
from odradek.client.sync_records import batches
from odradek.model.errors import OdradekError
from odradek.model.ids import TopicPartition
from odradek.records.batch import Buffer
from odradek.spark import batch_notes, left_out
from odradek.spark.compacted import is_compacted
from odradek.spark.data_loss import LOST
from odradek.spark.fingerprint import EMPTY, Fingerprint, of_records
from odradek.spark.topic_progress import Note

# Of a batch that was written: producer id and epoch.
Producer = tuple[int, int]


class NothingNoted(OdradekError):
    """There is no batch that could be compared."""


class SinkPartition(NamedTuple):
    """What notes and topic say of one partition."""

    partition: TopicPartition
    notes: Fingerprint
    topic: Fingerprint
    gone: int  # records of batches that retention or compaction has begun to take
    others: int  # records that other producers wrote
    different: tuple[int, ...]  # batches on which the two disagree
    unknown: int  # records of this sink that no batch notes: written twice, or the note is missing

    @property
    def is_equal(self) -> bool:
        return not self.different and not self.unknown

    def __str__(self) -> str:
        verdict = "equal" if self.is_equal else "DIFFERENT"
        where = f" in batches {', '.join(map(str, self.different))}" if self.different else ""
        gone = f", {self.gone} of them gone from the topic" if self.gone else ""
        more = f", {self.unknown} of the sink's that no batch notes" if self.unknown else ""
        return (
            f"{self.partition}: notes {self.notes.count} {self.notes.hex[:8]}{gone}, topic {self.topic.count} "
            f"{self.topic.hex[:8]}{more}, {self.others} of others: {verdict}{where}"
        )


class SinkReport(NamedTuple):
    batches: int
    partitions: tuple[SinkPartition, ...]
    lost: int = 0  # offsets that a job was to read and that were gone, where that is allowed

    @property
    def is_equal(self) -> bool:
        return all(partition.is_equal for partition in self.partitions)

    @property
    def records(self) -> int:
        return sum(partition.topic.count for partition in self.partitions)

    def to_json(self) -> dict[str, Any]:
        return {
            "batches": self.batches,
            "equal": self.is_equal,
            "records": self.records,
            "lost": self.lost,
            "partitions": [str(partition) for partition in self.partitions],
        }


class _Noted(NamedTuple):
    batch_id: int
    first_offset: int
    proof: Fingerprint


def verify_topics(
    directory: str, bootstrap: str, *, progress_topic: str, app_id: str | None = None
) -> SinkReport:
    """Compares what the sink of this directory noted with its topics. Reads both whole; needs no Spark."""
    notes = list(batch_notes.every(directory, progress_topic, app_id))
    if not notes:
        raise NothingNoted(
            f"{directory} tells of no batch that was written into a topic, with its progress in topic {progress_topic} "
            f"(--progress-topic names another)"
        )
    by_partition: dict[TopicPartition, dict[Producer, _Noted]] = {}
    for note in notes:
        for topic, partition, first, count, text in note["parts"]:
            noted = _Noted(note["batchId"], first, Fingerprint.from_hex(count, text))
            by_partition.setdefault(TopicPartition(topic, partition), {})[_producer(note)] = noted
    mine = {_producer(note) for note in notes}
    with SyncClient(bootstrap) as client:
        found = [_compared(client, p, noted, mine) for p, noted in sorted(by_partition.items())]
        # A batch whose note is lost may be all that the sink has written into a partition.
        for topic in sorted({partition.topic for partition in by_partition}):
            for number in sorted(client.topic(topic).partitions):
                partition = TopicPartition(topic, number)
                if partition not in by_partition and (one := _compared(client, partition, {}, mine)).unknown:
                    found.append(one)
    noted_batches = [(note["appId"], note["batchId"]) for note in notes]
    lost = sum(note.get(LOST, 0) for note in notes)
    lost += left_out.lost_without_note(directory, app_id, noted_batches)
    return SinkReport(len(notes), tuple(sorted(found, key=lambda one: one.partition)), lost)


def _producer(note: Note) -> Producer:
    producer_id, epoch = note["producer"]
    return producer_id, epoch


def _compared(
    client: SyncClient, partition: TopicPartition, noted: dict[Producer, _Noted], mine: set[Producer]
) -> SinkPartition:
    begin = client.begin_offsets([partition])[partition]
    end = client.list_offsets({partition: LATEST}, read_committed=True)[partition].offset
    found: dict[Producer, Fingerprint] = {}
    others = unknown = 0
    ids = {producer_id for producer_id, _ in mine}
    for header, rows in batches(client, partition, begin, end, read_committed=True):
        producer = (header.producer_id, header.producer_epoch)
        pairs = [(_bytes(row.key), _bytes(row.value)) for row in rows]
        if producer in noted:
            found[producer] = found.get(producer, EMPTY) + of_records(pairs)
        elif producer[0] in ids:
            unknown += len(pairs)
        else:
            others += len(pairs)
    gone, different = 0, []
    may_be_compacted = cache(partial(is_compacted, client))  # asked once, and of most topics never
    for producer, batch in noted.items():
        held = found.get(producer, EMPTY)
        if held == batch.proof:
            continue
        has_fewer = held.count < batch.proof.count
        if has_fewer and (batch.first_offset < begin or may_be_compacted(partition.topic)):
            gone += batch.proof.count - held.count
        else:
            different.append(batch.batch_id)
    return SinkPartition(
        partition,
        sum((batch.proof for batch in noted.values()), EMPTY),
        sum(found.values(), EMPTY),
        gone,
        others,
        tuple(sorted(different)),
        unknown,
    )


def _bytes(field: Buffer | None) -> bytes | None:
    return None if field is None else bytes(field)
