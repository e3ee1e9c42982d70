"""Is the table what the topic says? By count, by hash, by offset; three witnesses per partition.

    the topic    fetched again, from the first to the last offset that the table claims
    the table    its rows as they are read back from the Parquet files
    the commits  what each batch noted about itself when it was written

All three must agree, no offset may be in the table twice, and no two batches may claim the same offsets.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import unquote, urlparse

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from odradek.client.sync import SyncClient
from odradek.model.errors import OdradekError
from odradek.model.ids import TopicPartition
from odradek.spark import tables
from odradek.spark.arrow_schema import rows_schema
from odradek.spark.fingerprint import EMPTY, Fingerprint
from odradek.spark.options import ConnectionOptions
from odradek.spark.parquet import parts_of
from odradek.spark.parts import Part, merged
from odradek.spark.ranges import OffsetRange
from odradek.spark.reading import read_one

_COLUMNS = ("key", "value", "topic", "partition", "offset")


class PartitionReport(NamedTuple):
    """One partition: what the three witnesses say of the offsets [start, end)."""

    partition: TopicPartition
    start: int
    end: int
    topic: Fingerprint
    table: Fingerprint
    commits: Fingerprint
    doubled: int  # offsets that are in the table more than once
    log_start_offset: int
    high_watermark: int

    @property
    def is_equal(self) -> bool:
        return self.topic == self.table == self.commits and self.doubled == 0

    @property
    def is_complete(self) -> bool:
        """The table reaches from the first to the last record that the topic holds now."""
        return self.start <= self.log_start_offset and self.end >= self.high_watermark

    def __str__(self) -> str:
        verdict = "equal" if self.is_equal else "DIFFERENT"
        behind = "" if self.is_complete else f", topic holds {self.log_start_offset} to {self.high_watermark}"
        return (
            f"{self.partition} [{self.start}, {self.end}): topic {self.topic.count} {self.topic.hex[:8]}, "
            f"table {self.table.count} {self.table.hex[:8]}, "
            f"commits {self.commits.count} {self.commits.hex[:8]}, "
            f"doubled {self.doubled}: {verdict}{behind}"
        )


class Report(NamedTuple):
    table: str
    version: int
    partitions: tuple[PartitionReport, ...]

    @property
    def is_equal(self) -> bool:
        return bool(self.partitions) and all(p.is_equal for p in self.partitions)

    @property
    def is_complete(self) -> bool:
        return all(p.is_complete for p in self.partitions)

    @property
    def topic_side(self) -> Fingerprint:
        return sum((p.topic for p in self.partitions), EMPTY)

    @property
    def table_side(self) -> Fingerprint:
        return sum((p.table for p in self.partitions), EMPTY)

    @property
    def doubled(self) -> int:
        return sum(p.doubled for p in self.partitions)

    def to_json(self) -> dict[str, Any]:
        return {
            "table": self.table,
            "version": self.version,
            "equal": self.is_equal,
            "complete": self.is_complete,
            "records": {"topic": self.topic_side.count, "table": self.table_side.count},
            "hash": {"topic": self.topic_side.hex, "table": self.table_side.hex},
            "doubled": self.doubled,
            "partitions": [str(p) for p in self.partitions],
        }


class CannotVerify(OdradekError):
    """There is nothing that could be compared; the message says what is missing."""


def verify(table: str, bootstrap: str, *, app_id: str | None = None, read_committed: bool = False) -> Report:
    """Compares the table with the topics it was written from. Reads both whole; needs no Spark."""
    opened = tables.open_table(table)
    if opened is None:
        raise CannotVerify(f"there is no Delta table at {table}")
    version = opened.version()
    commits = tables.committed_batches(opened, app_id)
    parts = merged(part for commit in commits for part in commit.parts)
    if not parts:
        whose = f"application {app_id!r}" if app_id else "any odradek application"
        raise CannotVerify(
            f"the history of {table} tells of no batch of {whose}, so of no offsets to compare"
        )
    found = _of_table(opened.file_uris())
    connection = ConnectionOptions(bootstrap=bootstrap, read_committed=read_committed)
    reports = []
    with SyncClient(bootstrap) as client:
        partitions = [part.topic_partition for part in parts]
        first, last = client.begin_offsets(partitions), client.end_offsets(partitions)
        for part in parts:
            table_side, doubled = found.pop(part.topic_partition, (EMPTY, 0))
            reports.append(
                PartitionReport(
                    partition=part.topic_partition,
                    start=part.start,
                    end=part.end,
                    topic=fingerprint_of_topic(part, connection),
                    table=table_side,
                    commits=part.fingerprint,
                    doubled=doubled,
                    log_start_offset=first[part.topic_partition],
                    high_watermark=last[part.topic_partition],
                )
            )
        # Rows of partitions that no commit tells of: in the table, and nobody knows from where.
        for partition, (table_side, doubled) in sorted(found.items()) if app_id is None else ():
            reports.append(PartitionReport(partition, 0, 0, EMPTY, table_side, EMPTY, doubled, 0, 0))
    return Report(table, version, tuple(reports))


def fingerprint_of_topic(part: Part, connection: ConnectionOptions) -> Fingerprint:
    """Of the records that the topic holds in the offsets of a part."""
    wanted = OffsetRange(part.topic, part.partition, part.start, part.end, part.topic_id)
    total = EMPTY
    for _, batch in read_one(wanted, connection, rows_schema(_COLUMNS)):
        for found in parts_of(batch):
            total += found.fingerprint
    return total


def _of_table(uris: list[str]) -> dict[TopicPartition, tuple[Fingerprint, int]]:
    """Per partition what the rows say, and how many offsets come more than once."""
    totals: dict[TopicPartition, Fingerprint] = {}
    offsets: dict[TopicPartition, list[Any]] = {}
    for batch in _batches(uris):
        for part in parts_of(batch):
            totals[part.topic_partition] = totals.get(part.topic_partition, EMPTY) + part.fingerprint
        topics = batch.column("topic").to_numpy(zero_copy_only=False)
        numbers = batch.column("partition").to_numpy()
        for topic in np.unique(topics).tolist():
            for number in np.unique(numbers[topics == topic]).tolist():
                chosen = (topics == topic) & (numbers == number)
                offsets.setdefault(TopicPartition(topic, number), []).append(
                    batch.column("offset").to_numpy()[chosen]
                )
    doubled = {}
    for partition, pieces in offsets.items():
        every = np.concatenate(pieces)
        doubled[partition] = len(every) - len(np.unique(every))
    return {partition: (total, doubled[partition]) for partition, total in totals.items()}


def _batches(uris: list[str]) -> Iterator[pa.RecordBatch]:
    """The rows of Parquet files; those that others rewrote (OPTIMIZE) may have other Arrow types."""
    schema = rows_schema(_COLUMNS)
    for uri in sorted(uris):
        path = unquote(urlparse(uri).path) if "://" in uri else uri
        for batch in pq.ParquetFile(path).iter_batches(batch_size=65_536, columns=list(_COLUMNS)):
            yield batch.select(_COLUMNS).cast(schema)
