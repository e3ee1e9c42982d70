"""Files = topic = table: by count, by an order-independent hash, and record by record as multisets."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from odradek.demo.inputs import InputFile

CHUNK = 50_000


@dataclass(frozen=True)
class Census:
    """All records of one place: how many, their fingerprint, and the sorted hashes for comparing."""

    count: int
    fingerprint: str
    hashes: Any  # numpy, two columns of 64 bits, sorted


@dataclass(frozen=True)
class Proof:
    files: Census
    topic: Census
    table: Census
    lost_in_topic: int
    doubled_in_topic: int
    lost_in_table: int
    doubled_in_table: int

    @property
    def lost(self) -> int:
        return self.lost_in_topic + self.lost_in_table

    @property
    def doubled(self) -> int:
        return self.doubled_in_topic + self.doubled_in_table

    @property
    def holds(self) -> bool:
        counts = self.files.count == self.topic.count == self.table.count
        hashes = self.files.fingerprint == self.topic.fingerprint == self.table.fingerprint
        return counts and hashes and not self.lost and not self.doubled


def prove(of_files: Census, bootstrap: str, topic: str, table: Path) -> Proof:
    of_topic, of_table = census_of_topic(bootstrap, topic), census_of_table(table)
    lost_in_topic, doubled_in_topic = difference(of_files, of_topic)
    lost_in_table, doubled_in_table = difference(of_topic, of_table)
    return Proof(
        of_files, of_topic, of_table, lost_in_topic, doubled_in_topic, lost_in_table, doubled_in_table
    )


def difference(expected: Census, found: Census) -> tuple[int, int]:
    """(how many of `expected` are missing in `found`, how many stand there beyond what was expected)."""
    import numpy as np

    both = np.concatenate([expected.hashes, found.hashes])
    sign = np.concatenate([np.ones(expected.count, np.int64), -np.ones(found.count, np.int64)])
    _, place = np.unique(both, axis=0, return_inverse=True)
    balance = np.bincount(place.reshape(-1), weights=sign) if len(both) else np.zeros(0)
    return int(balance[balance > 0].sum()), int(-balance[balance < 0].sum())


def census_of_files(files: list[InputFile]) -> Census:
    return census(record for file in files for record in file.records())


def census_of_topic(bootstrap: str, topic: str) -> Census:
    """Every partition from its start to its end, decoded record by record with every CRC checked."""
    from odradek.client.sync import SyncClient
    from odradek.client.sync_records import records
    from odradek.model.ids import TopicPartition

    with SyncClient(bootstrap) as client:
        partitions = [TopicPartition(topic, p) for p in client.topic(topic).partitions]
        starts, ends = client.begin_offsets(partitions), client.end_offsets(partitions)
        return census(
            (record.key, record.value)
            for partition in partitions
            for record in records(client, partition, starts[partition], ends[partition])
        )


def census_of_table(table: Path) -> Census:
    from deltalake import DeltaTable

    columns = DeltaTable(str(table)).to_pyarrow_table(columns=["key", "value"])
    return census_of_arrow([(columns.column("key"), columns.column("value"))])


def census(pairs: Iterable[tuple[bytes | None, bytes | None]]) -> Census:
    from itertools import islice

    import pyarrow as pa

    def chunks() -> Iterable[tuple[Any, Any]]:
        rest = iter(pairs)
        while chunk := list(islice(rest, CHUNK)):
            keys, values = zip(*chunk, strict=True)
            yield pa.array(keys, pa.binary()), pa.array(values, pa.binary())

    return census_of_arrow(chunks())


def census_of_arrow(columns: Iterable[tuple[Any, Any]]) -> Census:
    import numpy as np
    import pyarrow as pa

    from odradek.spark import fingerprint

    total = fingerprint.EMPTY
    parts = []
    for key, value in columns:
        table = pa.table({"key": key, "value": value})
        for batch in table.to_batches(max_chunksize=CHUNK):
            total += fingerprint.of_arrow(batch.column(0), batch.column(1))
            parts.append(np.column_stack(fingerprint.hashes(batch.column(0), batch.column(1))))
    both = np.concatenate(parts) if parts else np.zeros((0, 2), np.uint64)
    return Census(total.count, total.hex, both)
