"""Is the table what the topic says? By count, by hash, by offset; three witnesses, batch by batch.

    the topic    fetched again, as far as it still holds what a batch read
    the table    its rows as they are read back from the Parquet files
    the commits  what each batch noted about itself when it was written

The table must agree with the commits on every batch, and the topic with the commits on every batch that it still holds
whole. Of one that it holds in part the rest is read, and what retention or compaction has taken is counted: it is proved by the
commits. Each record that the topic holds between two batches is missing. No offset may be in the table twice, and no two batches may claim the same offsets. Where the rows are not the records as they are (decoded values, the rows of a query),
the commits' count and fingerprint of rows are compared instead.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable

from odradek.client.sync import SyncClient
from odradek.model.errors import OdradekError
from odradek.model.ids import TopicPartition
from odradek.spark import tables
from odradek.spark.arrow_schema import rows_schema
from odradek.spark.compacted import is_compacted
from odradek.spark.data_loss import LOST, DataLoss
from odradek.spark.fingerprint import EMPTY, Fingerprint, of_arrow, of_records, of_rows
from odradek.spark.object_store import check_listens
from odradek.spark.options import ConnectionOptions
from odradek.spark.parquet import of_each_partition, parts_of
from odradek.spark.parts import Part, merged
from odradek.spark.ranges import OffsetRange
from odradek.spark.reading import read_one
from odradek.spark.table_rows import path_of, rows_of
from odradek.spark.tables import CommittedBatch

_COLUMNS = ("key", "value", "topic", "partition", "offset")


class PartitionReport(NamedTuple):
    """One partition: what the three witnesses say of the offsets [start, end)."""

    partition: TopicPartition
    start: int
    end: int
    topic: Fingerprint
    table: Fingerprint | None  # None where the table's rows are not the records as they are
    commits: Fingerprint
    doubled: int  # offsets that are in the table more than once
    log_start_offset: int
    high_watermark: int
    gone: Fingerprint = EMPTY  # of `commits`, what the topic does not hold any more
    # Batches on which two witnesses disagree, and what is missing.
    different: tuple[tuple[int, int], ...] = ()
    missing: int = 0  # records between two batches, which the topic holds and no batch tells of

    @property
    def is_equal(self) -> bool:
        agree = self.topic + self.gone == self.commits and self.table in (None, self.commits)
        return agree and not self.different and self.doubled == 0

    @property
    def is_complete(self) -> bool:
        """The table reaches from the first to the last record that the topic holds now."""
        return self.start <= self.log_start_offset and self.end >= self.high_watermark

    def __str__(self) -> str:
        verdict = "equal" if self.is_equal else "DIFFERENT"
        behind = "" if self.is_complete else f", topic holds {self.log_start_offset} to {self.high_watermark}"
        where = ", ".join(f"[{start}, {end})" for start, end in self.different)
        gone = f", {self.gone.count} of them gone from the topic" if self.gone.count else ""
        table = f"table {self.table.count} {self.table.hex[:8]}, " if self.table is not None else ""
        missing = f", {self.missing} of no batch" if self.missing else ""
        return (
            f"{self.partition} [{self.start}, {self.end}): topic {self.topic.count} {self.topic.hex[:8]}, "
            f"{table}commits {self.commits.count} {self.commits.hex[:8]}{gone}, "
            f"doubled {self.doubled}{missing}: {verdict}{' in ' + where if where else ''}{behind}"
        )


class RowsReport(NamedTuple):
    """Rows that are not the records as they are: what the files hold, and what the commits noted."""

    table: Fingerprint
    commits: Fingerprint
    whose: str = "commits"  # the other side

    @property
    def is_equal(self) -> bool:
        return self.table == self.commits

    def __str__(self) -> str:
        verdict = "equal" if self.is_equal else "DIFFERENT"
        return (
            f"rows: table {self.table.count} {self.table.hex[:8]}, "
            f"{self.whose} {self.commits.count} {self.commits.hex[:8]}: {verdict}"
        )


class Report(NamedTuple):
    table: str
    version: int
    partitions: tuple[PartitionReport, ...]
    rows: RowsReport | None = None
    lost: int = 0  # offsets that were to be read and that were gone, where that is allowed

    @property
    def is_equal(self) -> bool:
        return all(p.is_equal for p in self.partitions) and (self.rows is None or self.rows.is_equal)

    @property
    def is_complete(self) -> bool:
        return all(p.is_complete for p in self.partitions)

    @property
    def topic_side(self) -> Fingerprint:
        return sum((p.topic for p in self.partitions), EMPTY)

    @property
    def table_side(self) -> Fingerprint:
        if self.rows is not None:
            return self.rows.table
        return sum((p.table or EMPTY for p in self.partitions), EMPTY)

    @property
    def gone(self) -> Fingerprint:
        return sum((p.gone for p in self.partitions), EMPTY)

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
            "gone": self.gone.count,
            "lost": self.lost,
            "rows": None if self.rows is None else str(self.rows),
            "partitions": [str(p) for p in self.partitions],
        }


class CannotVerify(OdradekError):
    """There is nothing that could be compared; the message says what is missing."""


def verify(table: str, bootstrap: str, *, app_id: str | None = None, read_committed: bool = False) -> Report:
    """Compares the table with the topics it was written from. Reads both whole; needs no Spark."""
    check_listens(table)
    opened = tables.open_table(table)
    if opened is None:
        raise CannotVerify(f"there is no Delta table at {table}")
    report = _report(table, opened, bootstrap, app_id, read_committed=read_committed)
    return report._replace(lost=sum(note.get(LOST, 0) for note in tables.notes(opened, app_id)))


def _report(
    table: str, opened: DeltaTable, bootstrap: str, app_id: str | None, *, read_committed: bool
) -> Report:
    if tables.has_deleted_rows(opened):
        raise CannotVerify(
            f"{table} has deletion vectors: rows of it were deleted, and are still in its files; in Spark, "
            f"REORG TABLE ... APPLY (PURGE) writes the files without them"
        )
    every = tables.committed_batches(opened)
    commits = [commit for commit in every if app_id in (None, commit.app_id)]
    if not any(commit.parts or commit.rows is not None for commit in commits):
        whose = f"application {app_id!r}" if app_id else "any odradek application"
        raise CannotVerify(f"{table} tells of no batch of {whose}, so of no offsets to compare")
    connection = ConnectionOptions(bootstrap=bootstrap, read_committed=read_committed)
    is_all = app_id is None
    if any(commit.upserts for commit in commits):
        return Report(table, opened.version(), (), _of_upserts(opened, commits, connection, is_all=is_all))
    if all(commit.rows is None for commit in commits):
        return Report(table, opened.version(), _of_records(opened, commits, connection, is_all=is_all))
    noted = [commit.rows for commit in every if commit.rows is not None]
    if len(noted) < len(every):
        raise CannotVerify(
            f"{table} holds rows of queries and records as they are, which cannot be told apart{_apart(every)}"
        )
    partitions = _of_decoded(commits, connection, _doubled_in(opened, every), is_all=is_all)
    rows = RowsReport(_of_all_rows(opened), sum(noted, EMPTY))
    return Report(table, opened.version(), partitions, rows)


def _apart(commits: Iterable[CommittedBatch]) -> str:
    """Which application has written nothing but records: those are found by their offsets."""
    kinds: dict[str, set[bool]] = {}
    for commit in commits:
        kinds.setdefault(commit.app_id, set()).add(commit.rows is None)
    one = min((app_id for app_id, are_records in kinds.items() if are_records == {True}), default=None)
    return "" if one is None else f"; what application {one!r} has written can be verified (--app-id)"


def _of_records(
    opened: DeltaTable, commits: Sequence[CommittedBatch], connection: ConnectionOptions, *, is_all: bool
) -> tuple[PartitionReport, ...]:
    by_partition = _parts_by_partition(commits)
    found = _of_table(opened, by_partition, is_all=is_all)
    reports = []
    with SyncClient(connection.bootstrap) as client:
        for partition, parts in by_partition.items():
            table_side = found.pop(partition, _Rows(dict.fromkeys(parts, EMPTY), EMPTY, 0))
            if not is_all:  # others may have read the same partition
                table_side = table_side._replace(total=sum(table_side.by_part.values(), EMPTY))
            reports.append(_compared(client, partition, parts, table_side, connection, is_all=is_all))
    # Rows of partitions that no commit tells of: in the table, and nobody knows from where.
    for partition, rows in sorted(found.items()) if is_all else ():
        reports.append(PartitionReport(partition, 0, 0, EMPTY, rows.total, EMPTY, rows.doubled, 0, 0))
    return tuple(reports)


def _of_decoded(
    commits: Sequence[CommittedBatch],
    connection: ConnectionOptions,
    doubled: Mapping[TopicPartition, int],
    *,
    is_all: bool,
) -> tuple[PartitionReport, ...]:
    by_partition = _parts_by_partition(commits)
    if not by_partition:
        return ()
    with SyncClient(connection.bootstrap) as client:
        return tuple(
            _compared(client, partition, parts, None, connection, is_all=is_all)._replace(
                doubled=doubled.get(partition, 0)
            )
            for partition, parts in by_partition.items()
        )


def _parts_by_partition(commits: Iterable[CommittedBatch]) -> dict[TopicPartition, list[Part]]:
    parts = sorted(part for commit in commits for part in commit.parts)
    merged(parts)  # raises where two batches claim the same offsets
    by_partition: dict[TopicPartition, list[Part]] = {}
    for part in parts:
        by_partition.setdefault(part.topic_partition, []).append(part)
    return by_partition


def _compared(
    client: SyncClient,
    partition: TopicPartition,
    parts: Sequence[Part],
    rows: "_Rows | None",
    connection: ConnectionOptions,
    *,
    is_all: bool,
) -> PartitionReport:
    topic = gone = EMPTY
    different = []
    may_be_compacted = cache(partial(is_compacted, client))  # asked once, and of most topics never
    for part in parts:
        held, is_whole = _held_by_topic(client, part, connection)
        topic += held
        rest = part.fingerprint - held
        # Of a batch that begins below the log, and of one that is compacted, records are gone. Or those below were gone when it was
        # read, and it noted none of them.
        is_taken = rest.count > 0 and (not is_whole or may_be_compacted(part.topic))
        if is_taken:
            gone += rest
        if not (is_taken or rest == EMPTY) or (rows and rows.by_part[part] != part.fingerprint):
            different.append((part.start, part.end))
    missing = 0
    for gap, _ in _gaps(client, parts) if is_all else ():
        held, _ = _held_by_topic(client, gap, connection)
        if held.count:
            missing += held.count
            different.append((gap.start, gap.end))
    return PartitionReport(
        partition=partition,
        start=parts[0].start,
        end=parts[-1].end,
        topic=topic,
        table=None if rows is None else rows.total,
        commits=sum((part.fingerprint for part in parts), EMPTY),
        doubled=0 if rows is None else rows.doubled,
        log_start_offset=client.begin_offsets([partition])[partition],
        high_watermark=client.end_offsets([partition])[partition],
        gone=gone,
        different=tuple(sorted(different)),
        missing=missing,
    )


def _gaps(client: SyncClient, parts: Iterable[Part]) -> Iterator[tuple[Part, Part]]:
    """The offsets of a topic between two parts of it, as far as it still holds them, and the part behind. They may have no record."""
    before: Part | None = None  # the one that goes furthest
    for part in sorted(parts, key=lambda part: (part.topic_partition, part.topic_id, part.start)):
        if before is None or before[:2] != part[:2] or before.topic_id != part.topic_id:
            before = part
            continue
        if before.end < part.start:
            partition = part.topic_partition
            start = max(before.end, client.begin_offsets([partition])[partition])
            if start < part.start:
                yield Part(*partition, start, part.start, topic_id=part.topic_id), part
        before = max(before, part, key=lambda one: one.end)


def _held_by_topic(client: SyncClient, part: Part, connection: ConnectionOptions) -> tuple[Fingerprint, bool]:
    """What the topic holds of the part, and whether its log reaches back to where the part begins. Retention may take more while it
    is read."""
    partition = part.topic_partition
    start = max(part.start, client.begin_offsets([partition])[partition])
    while start < part.end:
        try:
            return fingerprint_of_topic(part._replace(start=start), connection), start == part.start
        except DataLoss:
            begin = client.begin_offsets([partition])[partition]
            if begin <= start:
                raise
            start = begin
    return EMPTY, False


def fingerprint_of_topic(part: Part, connection: ConnectionOptions) -> Fingerprint:
    """Of the records that the topic holds in the offsets of a part."""
    wanted = OffsetRange(part.topic, part.partition, part.start, part.end, part.topic_id)
    total = EMPTY
    for _, batch in read_one(wanted, connection, rows_schema(_COLUMNS)):
        for found in parts_of(batch):
            total += found.fingerprint
    return total


def _of_upserts(
    opened: DeltaTable, commits: Sequence[CommittedBatch], connection: ConnectionOptions, *, is_all: bool
) -> RowsReport:
    """Each row is a record of the topic, and the last one of its key: which these are, the topic is asked again, batch by
    batch. Compaction may have taken others meanwhile; retention may not. What stands between two batches is read with the later one."""
    from odradek.spark.dead_letters import dead_letters

    if not all(commit.upserts for commit in commits):
        raise CannotVerify(f"{opened.table_uri} has batches that were merged by key, and others")
    table = path_of(opened.table_uri)
    # Without those that a batch had left which came again, and merged their records.
    letters = {(x.topic, x.partition, x.offset) for x in dead_letters(table, values=0) if not x.is_replayed}
    refused = {commit.app_id: 0 for commit in commits}
    for note in tables.notes(opened):
        if note["appId"] in refused:
            refused[note["appId"]] += note["refused"]
    for app_id, count in refused.items():  # a letter of two stands for a record that each has refused
        is_of_app = _places_of(part for one in commits if one.app_id == app_id for part in one.parts)
        if count > sum(is_of_app(*place) for place in letters):
            raise CannotVerify(
                f"{table}: records were dropped by --on-error skip, and which is not known; the last of a key may be among them"
            )
    frame = _frame_of_keys(table)
    last: dict[bytes, tuple[str, int, int] | None] = {}
    starts: dict[Part, int] = {}
    if is_all:
        with SyncClient(connection.bootstrap) as client:
            every = [part for commit in commits for part in commit.parts]
            starts = {part: gap.start for gap, part in _gaps(client, every)}
    # In the order of the commits. Of those that Delta's log has no more (before all that it has) nobody knows it.
    order = {batch: n for n, batch in enumerate(tables.batches_in_log(opened))}
    whose: dict[bytes, str] = {}
    for commit in sorted(commits, key=lambda one: order.get((one.app_id, one.batch_id), -1)):
        # As the merge has it, where a key is in several partitions: a later batch is later, and within one the greater offset.
        of_batch: dict[bytes, tuple[int, int, str, bool]] = {}
        for part in commit.parts:
            start = starts.get(part, part.start)
            wanted = OffsetRange(part.topic, part.partition, start, part.end, part.topic_id)
            for _, batch in read_one(wanted, connection, rows_schema(("key", "offset", "value"))):
                values = zip(*(batch.column(n).to_pylist() for n in ("key", "offset")), strict=True)
                is_null = batch.column("value").is_null().to_pylist()
                for (key, offset), is_deleted in zip(values, is_null, strict=True):
                    if key is not None and (part.topic, part.partition, offset) not in letters:
                        one = (offset, part.partition, part.topic, is_deleted)
                        own = key[frame:]
                        of_batch[own] = max(one, of_batch.get(own, one))
        if (commit.app_id, commit.batch_id) not in order:
            others = {whose.setdefault(key, commit.app_id) for key in of_batch} - {commit.app_id}
            if others:
                raise CannotVerify(
                    f"{table}: the same keys were merged by applications {commit.app_id!r} and {min(others)!r}, and Delta's log does not "
                    f"reach back to tell which was the last; name the last one (--app-id)"
                )
        for key, (offset, partition, topic, is_deleted) in of_batch.items():
            last[key] = None if is_deleted else (topic, partition, offset)
    prefix = "__" if "__key" in {field.name for field in opened.schema().fields} else ""
    names = [f"{prefix}{name}" for name in ("topic", "partition", "offset")]
    rows: list[tuple[str, int, int]] = []
    for batch in rows_of(opened, tables.dividing_columns(opened), names):
        rows.extend(zip(*(batch.column(name).to_pylist() for name in names), strict=True))
    if not is_all:  # others have merged what they have read
        is_read = _places_of(part for commit in commits for part in commit.parts)
        rows = [place for place in rows if is_read(*place)]
    return RowsReport(_places(rows), _places(place for place in last.values() if place is not None), "topic")


def _places_of(parts: Iterable[Part]) -> Callable[[str, int, int], bool]:
    """Whether a topic's partition and offset is one of those that the parts have."""
    starts: dict[TopicPartition, list[int]] = {}
    ends: dict[TopicPartition, list[int]] = {}  # the greatest so far
    for part in sorted(parts, key=lambda part: part.start):
        of_partition = ends.setdefault(part.topic_partition, [])
        of_partition.append(max([part.end, *of_partition[-1:]]))
        starts.setdefault(part.topic_partition, []).append(part.start)

    def has(topic: str, partition: int, offset: int) -> bool:
        where = TopicPartition(topic, partition)
        at = bisect_right(starts.get(where, ()), offset)
        return at > 0 and offset < ends[where][at - 1]

    return has


def _frame_of_keys(table: str) -> int:
    """How many bytes stand before each key: of two schemas with which the same key was written the ids are others."""
    from odradek.spark.dead_letters import kept_shape
    from odradek.spark.formats.wire_format import FRAME

    shape = kept_shape(table)
    of_key = None if shape is None else shape.key
    return FRAME if of_key is not None and (of_key.format.registry or of_key.format.is_framed) else 0


def _places(rows: Iterable[tuple[str, int, int]]) -> Fingerprint:
    return of_records((None, f"{topic}-{p}-{offset}".encode()) for topic, p, offset in rows)


class _Rows(NamedTuple):
    """What the table's rows of one partition say."""

    by_part: dict[Part, Fingerprint]
    total: Fingerprint
    doubled: int  # offsets that come more than once


def _of_table(
    opened: DeltaTable, by_partition: Mapping[TopicPartition, Sequence[Part]], *, is_all: bool = True
) -> dict[TopicPartition, _Rows]:
    """Without `is_all` offsets that are in none of the parts may be there twice."""
    totals: dict[TopicPartition, Fingerprint] = {}
    of_parts: dict[TopicPartition, dict[Part, Fingerprint]] = {}
    offsets: dict[TopicPartition, list[Any]] = {}
    borders = {
        partition: (np.array([part.start for part in parts]), np.array([part.end for part in parts]))
        for partition, parts in by_partition.items()
    }
    nobodys = np.array([], np.int64), np.array([], np.int64)
    wanted = rows_schema(_COLUMNS)
    for batch in rows_of(opened, tables.dividing_columns(opened), wanted.names):
        # Files that others have written anew (OPTIMIZE) may have other Arrow types.
        for partition, rows in of_each_partition(batch.cast(wanted)):
            found = of_arrow(rows.column("key"), rows.column("value"))
            totals[partition] = totals.get(partition, EMPTY) + found
            numbers = rows.column("offset").to_numpy(zero_copy_only=False)
            is_read = np.full(len(numbers), is_all)
            parts = by_partition.get(partition, ())
            sums = of_parts.setdefault(partition, dict.fromkeys(parts, EMPTY))
            starts, ends = borders.get(partition, nobodys)
            for n in np.flatnonzero((starts <= numbers.max()) & (ends > numbers.min())).tolist():
                part = parts[n]
                is_of_part = (numbers >= starts[n]) & (numbers < ends[n])
                is_read |= is_of_part
                chosen = rows.filter(pa.array(is_of_part))
                sums[part] += of_arrow(chosen.column("key"), chosen.column("value"))
            offsets.setdefault(partition, []).append(numbers[is_read])
    return {p: _Rows(of_parts[p], totals[p], _doubled(offsets[p])) for p in totals}


def _doubled(offsets: Sequence[Any]) -> int:
    every = np.concatenate(offsets)
    return len(every) - len(np.unique(every))


def _of_all_rows(opened: DeltaTable) -> Fingerprint:
    return sum((of_rows(batch) for batch in rows_of(opened, tables.dividing_columns(opened))), EMPTY)


def _doubled_in(opened: DeltaTable, commits: Iterable[CommittedBatch]) -> dict[TopicPartition, int]:
    """Of each partition how many offsets come more than once, where a record becomes one row: of a query's rows nobody knows that, a
    topic that was made again has its offsets again, and so has what two applications have read."""
    from odradek.spark.dead_letters import REPLAY_APP

    place = rows_schema(("topic", "partition", "offset"))
    columns = [f"__{name}" for name in place.names]
    if not {*columns} <= {field.name for field in opened.schema().fields}:
        return {}
    parts: dict[TopicPartition, list[Part]] = {}
    for commit in commits:
        if not commit.parts and commit.rows != EMPTY and commit.app_id != REPLAY_APP:
            return {}
        for part in commit.parts:
            parts.setdefault(part.topic_partition, []).append(part)
    once = {partition for partition, read in parts.items() if _is_once(read)}
    offsets: dict[TopicPartition, list[Any]] = {}
    for batch in rows_of(opened, tables.dividing_columns(opened), columns):
        for partition, rows in of_each_partition(batch.rename_columns(place.names).cast(place)):
            offsets.setdefault(partition, []).append(rows.column("offset").to_numpy())
    return {partition: _doubled(found) for partition, found in offsets.items() if partition in once}


def _is_once(parts: Sequence[Part]) -> bool:
    """Whether no offset is in two of these parts of a partition, of whatever topics of that name they are."""
    ordered = sorted(parts, key=lambda part: part.start)
    return all(before.end <= after.start for before, after in pairwise(ordered))
