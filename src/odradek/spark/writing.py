"""What a writing task does: Parquet files below the table's directory, and a message about them.

Runs on executors, in both ways to a table: `write_ranges` fetches and writes without the JVM in between,
`write_rows` takes what a query computed.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from odradek.model.errors import OdradekError
from odradek.model.ids import TopicPartition
from odradek.spark import parts as parts_json
from odradek.spark.ddl import type_text
from odradek.spark.evolution import FIXED, Evolve, same, wider
from odradek.spark.fingerprint import EMPTY, Fingerprint, of_rows
from odradek.spark.growth import Growth
from odradek.spark.kill_switch import KillSwitch
from odradek.spark.micro_batch import current_query_id
from odradek.spark.options import ConnectionOptions
from odradek.spark.parquet import OWN_DIRECTORY, TableFile, parts_of
from odradek.spark.parts import Part, merged
from odradek.spark.places import below
from odradek.spark.ranges import OffsetRange
from odradek.spark.reading import read_one
from odradek.spark.shape import Shape, newest_ms
from odradek.spark.table_files import Layout, TableFiles
from odradek.spark.topic_options import TopicOptions
from odradek.spark.upsert import ChangeFiles, marked, with_keys


class TableOptions(NamedTuple):
    table: str
    app_id: str
    kill_switch: KillSwitch = KillSwitch()
    # Whether the rows of a query are the records of topics as they are, so that their offsets prove something.
    rows_are_records: bool = False
    # What becomes of the values; None: the records as they are.
    shape: Shape | None = None
    # The table has the last row of each key, and this is what is done about records without one; "": it has them all.
    upserts: str = ""
    layout: Layout = Layout()
    evolve: Evolve = FIXED
    batch_id: int = 0  # of a batch write
    is_named: bool = True  # False: nobody will ever give the batch again under this name
    # The columns that the table had as the batch was planned, where they may grow; None: there was no table yet.
    there: pa.Schema | None = None
    # The topic that dead letters go to as well.
    letters_to: TopicOptions | None = None
    checkpoint: str = ""  # of the query; "" of a batch write

    @property
    def letters(self) -> str:
        """The table of dead letters, where it takes part in nothing that is done to the table itself."""
        return dead_letters_of(self.table)


def dead_letters_of(table: str) -> str:
    return below(table, OWN_DIRECTORY, "dead_letters")


class Written(WriterCommitMessage):
    """What a task tells the driver: files and what is in them, never the rows."""

    def __init__(
        self,
        schema: StructType,
        files: Iterable[TableFile],
        parts: Iterable[Part],
        rows: Fingerprint | None = None,
        letters: Iterable[TableFile] = (),
        newest_ms: int = -1,
        refused: int = 0,
        query_id: str | None = None,
        gone: Iterable[tuple[str, int, int, int]] = (),
    ) -> None:
        self.schema = schema
        self.files = tuple(files)
        self.parts = tuple(parts)  # what was read of topics, where that is known
        self.rows = rows  # of the rows, where they are not the records of topics
        self.letters = tuple(letters)  # files of dead letters
        self.newest_ms = newest_ms  # timestamp of the newest record, -1 where nobody knows
        self.refused = refused  # records that became no row, whether letters are kept of them or not
        self.query_id = current_query_id() if query_id is None else query_id
        # Topic, partition, first offset and end of what was to be read and is gone, where that is allowed.
        self.gone = tuple(gone)

    @property
    def lost(self) -> int:
        """How many offsets are gone."""
        return sum(end - start for _, _, start, end in self.gone)

    def to_text(self) -> str:
        value = {
            "schema": self.schema.jsonValue(),
            "files": self.files,
            "parts": parts_json.to_json(self.parts),
            "rows": None if self.rows is None else [self.rows.count, self.rows.hex],
            "letters": self.letters,
            "newestMs": self.newest_ms,
            "refused": self.refused,
            "queryId": self.query_id,
            "gone": self.gone,
        }
        return json.dumps(value)

    @classmethod
    def from_text(cls, text: str) -> "Written":
        value: dict[str, Any] = json.loads(text)
        files = [TableFile.from_json(file) for file in value["files"]]
        return cls(
            StructType.fromJson(value["schema"]),
            files,
            parts_json.from_json(value["parts"]),
            None if value["rows"] is None else Fingerprint.from_hex(*value["rows"]),
            [TableFile.from_json(file) for file in value["letters"]],
            value["newestMs"],
            value["refused"],
            value["queryId"],
            [(topic, partition, start, end) for topic, partition, start, end in value["gone"]],
        )


class Disagreement(OdradekError):
    """Tasks of a batch have columns of one name that no type holds together."""


def together(written: Sequence[Written], empty: StructType) -> Written:
    """What several tasks have to say, as one; the columns are those of all of them, `empty` where there is no task."""
    rows = [w.rows for w in written if w.rows is not None]
    return Written(
        _columns_of_all(written) if written else empty,
        [file for w in written for file in w.files],
        [part for w in written for part in w.parts],
        sum(rows, EMPTY) if rows else None,
        [file for w in sorted(written, key=_begins) for file in w.letters],
        max((w.newest_ms for w in written), default=-1),
        sum(w.refused for w in written),
        max((w.query_id for w in written), default=""),
        [place for w in written for place in w.gone],
    )


def _begins(one: Written) -> tuple[str, int, int]:
    """In this order of tasks the letters of a partition are in that of their offsets: a task has a run of what is read."""
    return min(((part.topic, part.partition, part.start) for part in one.parts), default=("", -1, -1))


def _columns_of_all(written: Sequence[Written]) -> StructType:
    first, *others = [one.schema for one in written]
    if all(other == first for other in others):
        return first
    found: dict[str, pa.Field] = {}
    for one in written:
        for field in to_arrow_schema(one.schema, timezone="UTC"):
            before = found.get(field.name, field)
            kind = before.type if same(before.type, field.type) else wider(before.type, field.type)
            if kind is None:
                raise Disagreement(
                    f"column {field.name} is {type_text(before.type)} in rows of one task and {type_text(field.type)} in "
                    f"those of another; nothing of the batch is in the table"
                )
            found[field.name] = before.with_type(kind)
    return from_arrow_schema(pa.schema(found.values()))


def write_ranges(
    ranges: Iterable[OffsetRange],
    source: ConnectionOptions,
    schema: StructType,
    options: TableOptions,
    *,
    batch_id: int,
) -> Written:
    """Fetches the ranges and writes them into one file; the parts are the ranges, whatever is in them, without what is lost at their
    beginnings and ends: the offsets of a log that was cut are read again by the next batch."""
    newest = -1
    place = end = 0
    gone: list[tuple[str, int, int, int]] = []

    def leave_out(of: TopicPartition, first: int, until: int) -> None:
        nonlocal place, end
        gone.append((*of, first, until))
        if until < end:
            place = until
        else:
            end = first

    def rows() -> Iterator[tuple[pa.RecordBatch, list[Part]]]:
        nonlocal newest, place, end
        for wanted in ranges:
            place, end = wanted.start, wanted.end
            as_arrow = to_arrow_schema(schema, timezone="UTC")
            for next_offset, batch in read_one(
                wanted, source, as_arrow, partial(leave_out, wanted.topic_partition)
            ):
                if "timestamp" in batch.schema.names:
                    newest = max(newest, newest_ms(batch))
                # The border of a part is where reading stood, not the last record: a gap is read, too.
                found = parts_of(batch, wanted.topic_id, wanted.topic_partition)
                yield batch, [part._replace(start=place, end=next_offset) for part in found]
                place = next_offset
            rest = Part(wanted.topic, wanted.partition, place, end, topic_id=wanted.topic_id)
            if place < end:
                yield pa.RecordBatch.from_pylist([], to_arrow_schema(schema, timezone="UTC")), [rest]

    if options.upserts:
        written = _write_changes(rows(), schema, options, batch_id)
    elif options.shape is None:
        written = _write(rows(), schema, options, batch_id)
    else:
        written = _write_shaped(rows(), options.shape, options, batch_id)
    written.newest_ms = newest
    written.gone = tuple(gone)
    return written


def _write_shaped(
    batches: Iterable[tuple[pa.RecordBatch, list[Part]]], shape: Shape, options: TableOptions, batch_id: int
) -> Written:
    """The parts are of the records, so that the topic can be compared; the fingerprint of rows is of what became of them."""
    spec = options.layout.spec
    letters = TableFiles(options.letters, options.app_id, batch_id, Layout())
    growth = _growth(options, batch_id)
    found, refused = EMPTY, 0

    def rows() -> Iterator[tuple[pa.RecordBatch, list[Part]]]:
        nonlocal found, refused
        for batch, parts in batches:
            done = shape.applied(batch, growth, batch_id=batch_id, cleaned=spec.cleaned)
            letters.write(done.letters)
            of_table = spec.cleaned(done.rows)
            found += of_rows(of_table)
            refused += done.refused
            yield of_table, parts

    try:
        written = _write(rows(), from_arrow_schema(shape.schema), options, batch_id)
        files = letters.close()
    except BaseException:
        letters.discard()
        raise
    columns = shape.columns if growth is None else growth.columns
    schema = from_arrow_schema(shape.schema_of(columns))
    return Written(schema, written.files, written.parts, found, files, refused=refused)


def _growth(options: TableOptions, batch_id: int) -> Growth | None:
    if options.evolve == FIXED or options.shape is None:
        return None
    return Growth(
        options.table,
        options.app_id,
        batch_id,
        options.shape,
        options.evolve,
        options.layout.spec,
        options.there,
    )


def _write_changes(
    batches: Iterable[tuple[pa.RecordBatch, list[Part]]],
    schema: StructType,
    options: TableOptions,
    batch_id: int,
) -> Written:
    """A row a record that has a key; which of them is the last of its key the driver finds out."""
    letters = TableFiles(options.letters, options.app_id, batch_id, Layout())
    changes = ChangeFiles(options.table, options.app_id, batch_id)
    shape, growth = options.shape, _growth(options, batch_id)
    parts: list[Part] = []
    refused = 0
    options.kill_switch.at("before-write", batch_id)
    try:
        for records, found in batches:
            keyed, keyless = with_keys(records, options.upserts)
            letters.write(keyless)
            refused += records.num_rows - keyed.num_rows
            rows = keyed
            if shape is not None:
                done = shape.applied(keyed, growth, batch_id=batch_id, has_tombstones=True)
                letters.write(done.letters)
                refused += done.refused
                rows = done.rows
                # Bytes that are there may be a null of their schema's.
                if shape.key is not None and (keys := rows.column("__key")).null_count:
                    records = keyed.take(pa.array(done.good))
                    kept, keyless = with_keys(records, options.upserts, keys)
                    letters.write(keyless)
                    refused += records.num_rows - kept.num_rows
                    rows = rows.filter(keys.is_valid())
            changes.write(marked(rows, keyed))
            parts.extend(found)
        files, of_letters = changes.close(), letters.close()
    except BaseException:
        changes.discard()
        letters.discard()
        raise
    options.kill_switch.at("after-write", batch_id)
    of_table = to_arrow_schema(schema, timezone="UTC")
    if shape is not None:
        of_table = shape.schema if growth is None else shape.schema_of(growth.columns)
    return Written(
        from_arrow_schema(of_table),
        files,
        merged(parts),
        letters=of_letters,
        refused=refused,
    )


def write_rows(
    batches: Iterable[pa.RecordBatch], schema: StructType, options: TableOptions, *, batch_id: int
) -> Written:
    """Writes the rows of a query. What a shuffle, a join or an explode has dealt out anew proves nothing by its offsets:
    such rows are counted and hashed; only rows that are records as they are (`rows_are_records`) tell of ranges."""
    wanted = to_arrow_schema(schema, timezone="UTC")
    given = (options.layout.spec.cleaned(batch.cast(wanted)) for batch in batches)
    if options.rows_are_records:
        return _write(((batch, parts_of(batch)) for batch in given), schema, options, batch_id)
    rows = EMPTY

    def counted() -> Iterator[tuple[pa.RecordBatch, list[Part]]]:
        nonlocal rows
        for batch in given:
            rows += of_rows(batch)
            yield batch, []

    written = _write(counted(), schema, options, batch_id)
    return Written(written.schema, written.files, (), rows)


def _write(
    batches: Iterable[tuple[pa.RecordBatch, list[Part]]],
    schema: StructType,
    options: TableOptions,
    batch_id: int,
) -> Written:
    options.kill_switch.at("before-write", batch_id)
    writer = TableFiles(options.table, options.app_id, batch_id, options.layout)
    parts: list[Part] = []
    try:
        for batch, found in batches:
            writer.write(batch)
            parts.extend(found)
        files = writer.close()
    except BaseException:
        writer.discard()
        raise
    options.kill_switch.at("after-write", batch_id)
    return Written(schema, files, merged(parts))
