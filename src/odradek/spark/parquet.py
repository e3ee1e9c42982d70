"""Executors write Parquet files, and say of each what a commit must know about it."""

import json
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from odradek.model.errors import OdradekError
from odradek.model.ids import NO_TOPIC_ID, TopicPartition, number_in
from odradek.spark.fingerprint import of_arrow
from odradek.spark.offsets import LARGEST
from odradek.spark.parts import Part
from odradek.spark.required import nulls_within
from odradek.spark.storage import storage_of

# Columns with few values in a row; values themselves rarely repeat, and their dictionary would only be built
# to be thrown away.
_DICTIONARY = (
    "topic",
    "partition",
    "timestampType",
    "leaderEpoch",
    "__topic",
    "__partition",
    "__leaderEpoch",
    "__batch",
)
_STATISTICS = ("partition", "offset", "timestamp", "__partition", "__offset", "__timestamp")
# Of ours below a table. Names that begin so are nobody's data to Delta: VACUUM leaves them alone.
OWN_DIRECTORY = "_odradek"
_BOUNDED = ("partition", "offset", "__partition", "__offset")  # in Delta's own statistics

_LONGEST_BOUND = 32  # signs of a text


class TableFile(NamedTuple):
    """A Parquet file below the table's directory, not part of the table until a commit names it."""

    name: str  # its path from there on
    size_bytes: int
    records: int
    stats: str  # as Delta keeps them
    partition: tuple[tuple[str, str | None], ...] = ()  # what divides the table, as Delta writes it
    nulls_within: tuple[
        tuple[str, int], ...
    ] = ()  # of structs, which Delta counts field by field, and of all fields within

    @classmethod
    def from_json(cls, value: Sequence[Any]) -> "TableFile":
        name, size_bytes, records, stats, partition, within = value
        return cls(name, size_bytes, records, stats, _pairs(partition), _pairs(within))

    @property
    def nulls(self) -> dict[str, int]:
        """How many there are in each column that the file has, and in each field within one (`odradek.spark.required`)."""
        return {**json.loads(self.stats)["nullCount"], **dict(self.nulls_within)}


def _pairs(value: Sequence[Any]) -> tuple[tuple[str, Any], ...]:
    return tuple((name, found) for name, found in value)


def application_prefix(app_id: str) -> str:
    """What the names of all files of an application begin with."""
    return f"part-{blake2b(app_id.encode(), digest_size=5).hexdigest()}-"


def file_name(app_id: str, batch_id: int) -> str:
    """Says whose file it is and of which batch, so that a file nobody committed can be told from one in work."""
    return f"{application_prefix(app_id)}{batch_id:010d}-{uuid.uuid4().hex}.parquet"


def batch_of(name: str, app_id: str) -> int | None:
    """The batch that a file of this application was written for; None for any other file."""
    prefix = application_prefix(app_id)
    if not name.startswith(prefix) or not name.endswith(".parquet"):
        return None
    return number_in(name[len(prefix) :].partition("-")[0], LARGEST)


class FileWriter:
    """One file of one task: made with the first rows, so that a task without rows leaves nothing."""

    def __init__(
        self,
        directory: str,
        name: str,
        schema: pa.Schema,
        before: Callable[[], None] = lambda: None,
        partition: tuple[tuple[str, str | None], ...] = (),
        sort_by: Sequence[str] = (),
    ) -> None:
        self._before = before  # called just before the file is made
        self._storage = storage_of(directory)
        self._name = name
        self.schema = schema
        self._partition = partition
        self._sort_by = sort_by
        self._writer: pq.ParquetWriter | None = None
        self._sink: pa.NativeFile | None = None
        self._records = 0
        self._nulls = dict.fromkeys(schema.names, 0)
        self._nulls_within: Counter[str] = Counter()
        self._least: dict[str, Any] = {}
        self._greatest: dict[str, Any] = {}

    def write(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows == 0:
            return
        if self._writer is None:
            names = self.schema.names
            self._before()
            self._sink = self._storage.sink(self._name)
            self._writer = pq.ParquetWriter(
                self._sink,
                self.schema,
                compression="snappy",
                use_dictionary=[name for name in _DICTIONARY if name in names],
                write_statistics=[name for name in (*_STATISTICS, *self._sort_by) if name in names],
            )
        self._writer.write_batch(batch)
        self._records += batch.num_rows
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            self._nulls[name] += column.null_count
            if pa.types.is_nested(column.type):
                self._nulls_within.update(dict(nulls_within(column, (name,))))
            if (name in _BOUNDED or name in self._sort_by) and _has_bounds(column.type):
                found = pc.min_max(column).as_py()
                if found["min"] is not None:
                    self._least[name] = min(self._least.get(name, found["min"]), found["min"])
                    self._greatest[name] = max(self._greatest.get(name, found["max"]), found["max"])

    @property
    def size_bytes(self) -> int:
        """What is written so far."""
        return 0 if self._sink is None else self._sink.tell()

    def close(self) -> TableFile | None:
        """The finished file, or None if there was nothing to write."""
        if self._writer is None or self._sink is None:
            return None
        self._writer.close()
        size = (
            self.size_bytes
        )  # not asked by its path: another driver of the batch may have taken the file away
        self._sink.close()
        told = [name for name, value in self._greatest.items() if len(str(value)) <= _LONGEST_BOUND]
        structs = {name for name in self._nulls if pa.types.is_struct(self.schema.field(name).type)}
        stats = {
            "numRecords": self._records,
            "minValues": {
                name: self._least[name] for name in told if len(str(self._least[name])) <= _LONGEST_BOUND
            },
            "maxValues": {name: self._greatest[name] for name in told},
            # Of a struct Delta wants them field by field; nobody needs them.
            "nullCount": {name: count for name, count in self._nulls.items() if name not in structs},
        }
        within = {name: self._nulls[name] for name in self._nulls if name in structs} | self._nulls_within
        text = json.dumps(stats)
        return TableFile(self._name, size, self._records, text, self._partition, tuple(within.items()))

    def discard(self) -> None:
        """After an error: what was written is nobody's. On a full disk its end cannot be written either.

        It is ended all the same, and then deleted: of an object that is never ended its parts would stay in the store, where
        no list shows them."""
        if self._writer is not None and self._sink is not None:
            for end in (self._writer.close, self._sink.close, partial(self._storage.delete, [self._name])):
                with suppress(OSError, pa.ArrowException, OdradekError):
                    end()


def _has_bounds(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_string(kind))


def parts_of(
    batch: pa.RecordBatch, topic_id: bytes = NO_TOPIC_ID, partition: TopicPartition | None = None
) -> list[Part]:
    """What the rows of a batch say of each partition in them; nothing if columns for that are missing.

    `partition` is that of all rows, where it is known: then nobody looks which they are of.
    """
    if not {"key", "value", "topic", "partition", "offset"} <= set(batch.schema.names):
        return []
    if partition is not None:
        return [_part(batch, *partition, topic_id)] if batch.num_rows else []
    return [_part(rows, *partition, topic_id) for partition, rows in of_each_partition(batch)]


def of_each_partition(batch: pa.RecordBatch) -> Iterator[tuple[TopicPartition, pa.RecordBatch]]:
    if not batch.num_rows:
        return
    partitions = batch.column("partition").to_numpy(zero_copy_only=False)
    topics = batch.column("topic")
    if partitions.min() == partitions.max() and topics[0] == topics[-1] and len(pc.unique(topics)) == 1:
        yield TopicPartition(topics[0].as_py(), int(partitions[0])), batch
        return
    for topic in pc.unique(topics).to_pylist():
        of_topic = batch.filter(pc.equal(topics, topic))
        for partition in np.unique(of_topic.column("partition").to_numpy(zero_copy_only=False)).tolist():
            yield (
                TopicPartition(topic, partition),
                of_topic.filter(pc.equal(of_topic.column("partition"), partition)),
            )


def _part(batch: pa.RecordBatch, topic: str, partition: int, topic_id: bytes) -> Part:
    offsets = batch.column("offset").to_numpy(zero_copy_only=False)
    epochs: tuple[tuple[int, int], ...] = ()
    if "leaderEpoch" in batch.schema.names:
        of_rows = batch.column("leaderEpoch").to_numpy(zero_copy_only=False)
        if of_rows.min() == of_rows.max():  # nearly always; `unique` sorts
            epochs = ((int(of_rows[0]), int(offsets[0])),)
        else:
            kinds, first = np.unique(of_rows, return_index=True)
            epochs = tuple((int(kind), int(offsets[at])) for kind, at in zip(kinds, first, strict=True))
    return Part(
        topic=topic,
        partition=partition,
        start=int(offsets.min()),
        end=int(offsets.max()) + 1,
        fingerprint=of_arrow(batch.column("key"), batch.column("value")),
        epochs=epochs,
        topic_id=topic_id,
    )
