"""What is done to the records of topics in Spark, each a function from a DataFrame to a DataFrame, for batch and stream.

The DataFrame is what `format("odradek")` or Spark's own connector gives: `key`, `value`, `topic`, `partition`, `offset`,
`timestamp`. Where Python functions run (`decoded`, `fingerprinted`) the package has to be there, as for the source.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from odradek.model.errors import ConfigurationError
from odradek.spark import progress
from odradek.spark.arrow_schema import rows_schema
from odradek.spark.ddl import schema_of
from odradek.spark.fingerprint import EMPTY, Fingerprint
from odradek.spark.formats import declared
from odradek.spark.formats.declared import Format
from odradek.spark.letter_records import RECORDS, letter_records
from odradek.spark.on_error import actions_of
from odradek.spark.parquet import parts_of
from odradek.spark.shape import COLUMNS, KEPT_LETTERS, LETTERS, BadValue, Shape

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = [
    "applied_changes",
    "dead_letters",
    "decoded",
    "deduplicated",
    "fingerprinted",
    "lag_of",
    "latest_by_key",
    "readable",
    "windows_of",
]
LETTER = "__letter"
_NEEDED = ("value", "topic", "partition", "offset", "timestamp")
_ARGUMENTS = {
    "--on-error": "on_error",
    "--schema-file": "schema_file",
    "--schema": "schema",
    "--format": "form",
    "--registry": "registry",
    "--subject": "subject",
    "--message": "message",
    "--meta off": "has_meta=False",
}
_ARGUMENT = re.compile(rf"(?<!\S)(?:{'|'.join(_ARGUMENTS)})(?![\w-])")
_FINGERPRINT = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("first", pa.int64()),
        ("end", pa.int64()),
        ("records", pa.int64()),
        ("hash", pa.string()),
    ]
)


def decoded(
    frame: "DataFrame",
    form: str = "json",
    *,
    schema: str = "",
    registry: str = "",
    subject: str = "",
    schema_file: str = "",
    message: str = "",
    is_framed: bool = False,
    on_error: str = "pause",
    has_meta: bool = True,
) -> "DataFrame":
    """A column for each field of the values, beside those of the record (`__key`, `__topic`, ...).

    `form` is string, json, avro or protobuf. The columns are those of `schema`, else of the file, else of the newest schema
    of the subject. `on_error` is as in `odradek spark tables --on-error`: where it says dlq, what cannot be read is a row as
    well, with the letter in the column `__letter` and nothing else; `dead_letters` and `readable` take the two apart.

    >>> orders = records(spark, b'{"id": 1, "name": "ink"}', b"no json")
    >>> found = decoded(orders, schema="id BIGINT, name STRING", on_error="dlq")
    >>> readable(found).select("id", "name", "__offset").show()
    +---+----+--------+
    | id|name|__offset|
    +---+----+--------+
    |  1| ink|       0|
    +---+----+--------+
    <BLANKLINE>
    """
    with _of_arguments():
        value_format = Format(form, registry, schema_file, message, is_framed).check("form")
        if schema:
            columns = schema_of(schema)
        elif form == "string":
            columns = declared.PLAIN
        elif schema_file or subject:
            columns = declared.learnt(value_format, subject, lambda: pa.array([], pa.binary())).columns
        else:
            raise ConfigurationError(
                'decoded needs columns: schema="id BIGINT, name STRING", or where a schema is'
            )
        shape = Shape(columns, has_meta, on_error, value_format).check()
    _check(frame, _NEEDED, "decoded")
    columns = (*COLUMNS, "headers") if "headers" in frame.columns else COLUMNS
    of_records = frame.select(*_records(frame, columns))
    return of_records.mapInArrow(_Decode(shape, columns), _spark(_output(shape, columns)))


def readable(frame: "DataFrame") -> "DataFrame":
    """The rows of what `decoded` gives that are no dead letters.

    >>> found = decoded(records(spark, b"17", b'{"id": 2}'), schema="id BIGINT", on_error="dlq")
    >>> [row.id for row in readable(found).collect()]
    [2]
    """
    return frame.where(f"`{LETTER}` IS NULL").drop(LETTER) if LETTER in frame.columns else frame


def dead_letters(frame: "DataFrame", *, topic: str = "") -> "DataFrame":
    """What `decoded` could not read, as it was: topic, partition, offset, timestamp, key, value, stage, error, schema id, and
    the headers where the frame had them.

    With `topic` the same as records for that topic, with the headers of `odradek spark transform --dead-letters-topic`: key,
    value, headers, topic. Together with the rows (`unionByName`) they are a batch of `format("odradek")`, one transaction.

    >>> found = decoded(records(spark, b"no json"), schema="id BIGINT", on_error="dlq")
    >>> [(row.offset, row.stage, row.error, bytes(row.value)) for row in dead_letters(found).collect()]
    [(0, 'value', 'no JSON object', b'no json')]
    >>> [(row.topic, row.headers[-1].key) for row in dead_letters(found, topic="letters").collect()]
    [('letters', '__odradek.errors.message')]
    """
    from pyspark.sql import functions as F

    _check(frame, (LETTER,), 'dead_letters, which wants what decoded(..., on_error="dlq") gives,')
    letters = frame.where(f"`{LETTER}` IS NOT NULL").select(f"{LETTER}.*")
    if not topic:
        return letters
    if "headers" not in letters.columns:
        kind = _spark(KEPT_LETTERS)["headers"].dataType
        letters = letters.withColumn("headers", F.lit(None).cast(kind))
    return letters.mapInArrow(_as_records, _spark(RECORDS)).withColumn("topic", F.lit(topic))


def deduplicated(
    frame: "DataFrame", *columns: str, within: str = "10 minutes", on: str = "timestamp"
) -> "DataFrame":
    """One row of those that are equal in the columns; without any, of those that are the same record.

    In a stream: of those that come within so long of each other by the column `on`, which is what Spark has to remember.

    >>> twice = records(spark, b"a", b"b", b"a")
    >>> sorted(bytes(row.value) for row in deduplicated(twice, "value").collect())
    [b'a', b'b']
    """
    keys = list(columns) or [
        name if name in frame.columns else f"__{name}" for name in ("topic", "partition", "offset")
    ]
    _check(frame, keys, "deduplicated")
    if not frame.isStreaming:
        return frame.dropDuplicates(keys)
    _check(frame, (on,), "deduplicated")
    return frame.withWatermark(on, within).dropDuplicatesWithinWatermark(keys)


def latest_by_key(frame: "DataFrame", *keys: str, by: str = "") -> "DataFrame":
    """Of each key the row that is the last by the column `by` (else the offset), in which null is before all; rows without a key
    are left out.

    In a stream Spark remembers a row a key, and gives it again whenever it changes (`outputMode("update")`); rows with null in
    the column `by` are left out there.

    >>> rows = records(spark, b"a1", b"b1", b"a2").selectExpr("left(string(value), 1) AS key", "value", "offset")
    >>> sorted(bytes(row.value) for row in latest_by_key(rows).collect())
    [b'a2', b'b1']
    """
    from pyspark.sql import functions as F

    names = list(keys) or ["key" if "key" in frame.columns else "__key"]
    order = by or ("offset" if "offset" in frame.columns else "__offset")
    _check(frame, (*names, order), "latest_by_key")
    named = frame.dropna(subset=[f"`{name}`" for name in names])
    if frame.isStreaming:  # Spark keeps the type of the order in the state of the query
        named, place = named.where(f"`{order}` IS NOT NULL"), F.col(f"`{order}`")
    else:  # in a struct: a null in it is the least of all, and by a null alone there is no last row
        place = F.struct(F.col(f"`{order}`"))
    last = F.max_by(F.struct(*(F.col(f"`{name}`") for name in frame.columns)), place)
    keyed = named.groupBy(*(F.col(f"`{name}`") for name in names))
    return keyed.agg(last.alias("last")).select("last.*")


def applied_changes(
    changes: "DataFrame",
    *keys: str,
    onto: "DataFrame | None" = None,
    by: str = "",
    deletes: str = "value IS NULL",
) -> "DataFrame":
    """What is left once all changes are applied: the last row of each key, and none where that row `deletes` it.

    `onto`: the rows from before, of the same columns; those whose key no change has stay as they are.

    >>> rows = records(spark, b"a1", b"b1", b"a2", b"b0").selectExpr("left(string(value), 1) AS key", "value", "offset")
    >>> now = applied_changes(rows, deletes="value = 'b0'")
    >>> [bytes(row.value) for row in now.collect()]
    [b'a2']
    >>> later = records(spark, b"c1").selectExpr("left(string(value), 1) AS key", "value", "offset")
    >>> sorted(bytes(row.value) for row in applied_changes(later, onto=now).collect())
    [b'a2', b'c1']
    """
    names = list(keys) or ["key" if "key" in changes.columns else "__key"]
    last = latest_by_key(changes, *names, by=by)
    left = last.where(f"NOT coalesce({deletes}, false)")
    if onto is None:
        return left
    _check(onto, names, "applied_changes")
    changed = last.select(*(f"`{name}`" for name in names))
    return onto.join(changed, names, "left_anti").unionByName(left)


def windows_of(
    frame: "DataFrame",
    length: str,
    *aggregates: "Column",
    by: Sequence[str] = (),
    on: str = "timestamp",
    slide: str | None = None,
    late: str = "10 minutes",
) -> "DataFrame":
    """A row a window of time and value of `by`: `windowStart`, `windowEnd`, the aggregates, or `records`, how many there were.

    `late` is how long a stream waits for records of a window that has ended.

    >>> windows_of(records(spark, b"a", b"b"), "1 minute", by=["topic"]).drop("windowEnd").show()
    +-------------------+------+-------+
    |        windowStart| topic|records|
    +-------------------+------+-------+
    |2023-11-14 22:13:00|orders|      2|
    +-------------------+------+-------+
    <BLANKLINE>
    """
    from pyspark.sql import functions as F

    _check(frame, (on, *by), "windows_of")
    timed = frame.withWatermark(on, late) if frame.isStreaming else frame
    found = aggregates or (F.count(F.lit(1)).alias("records"),)
    window = F.window(on, length, slide) if slide else F.window(on, length)
    grouped = timed.groupBy(window.alias("__window"), *(F.col(f"`{name}`") for name in by)).agg(*found)
    start, end = F.col("__window.start").alias("windowStart"), F.col("__window.end").alias("windowEnd")
    return grouped.select(start, end, "*").drop("__window")


def fingerprinted(frame: "DataFrame") -> "DataFrame":
    """A row a partition of the topics: first offset, end, number and fingerprint of its records, as `odradek spark verify` has them.

    The same records have the same fingerprint in whatever order and file they are. For a batch; in a stream use it in
    `foreachBatch`.

    >>> fingerprinted(records(spark, b"a", b"b")).select("topic", "first", "end", "records").show()
    +------+-----+---+-------+
    | topic|first|end|records|
    +------+-----+---+-------+
    |orders|    0|  2|      2|
    +------+-----+---+-------+
    <BLANKLINE>
    >>> one, other = records(spark, b"a", b"b"), records(spark, b"a", b"c")
    >>> fingerprinted(one).first().hash == fingerprinted(other).first().hash
    False
    """
    if frame.isStreaming:
        raise ConfigurationError("fingerprinted wants a batch; in a stream use it in foreachBatch")
    columns = ("key", "value", "topic", "partition", "offset")
    _check(frame, columns, "fingerprinted")
    schema = _spark(_FINGERPRINT)
    pieces = frame.select(*columns).mapInArrow(_fingerprints, schema)
    return pieces.groupBy("topic", "partition").applyInArrow(_added, schema)


class PartitionLag(NamedTuple):
    topic: str
    partition: int
    records: int
    seconds: float | None  # None: nobody knows


def lag_of(query: "StreamingQuery") -> list[PartitionLag]:
    """How far the last batch of a query was behind the end of each partition, when it was planned.

    >>> lag_of(spark.readStream.format("rate").load().writeStream.format("noop").start())
    []
    """
    last: Any = query.lastProgress
    if last is None:
        return []
    seconds = progress.lag_s_of(last)
    return [
        PartitionLag(*partition, records, seconds.get(partition, None if records else 0.0))
        for partition, records in sorted(progress.lag_of(last).items())
    ]


class _Decode:
    """Runs in the tasks: records in, rows and letters out."""

    def __init__(self, shape: Shape, columns: tuple[str, ...]) -> None:
        self._text = shape.to_text()
        self._columns = columns

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        shape = Shape.from_text(self._text)
        wanted, schema = rows_schema(self._columns), _output(shape, self._columns)
        for batch in batches:
            with _of_arguments():
                done = shape.applied(batch.cast(wanted))
            yield _filled(done.rows, schema)
            if done.letters.num_rows:
                letters = pa.StructArray.from_arrays(done.letters.columns, fields=list(done.letters.schema))
                yield _filled(pa.RecordBatch.from_arrays([letters], names=[LETTER]), schema)


@contextmanager
def _of_arguments() -> Iterator[None]:
    """A sentence that names arguments of a job names those of `decoded`."""
    try:
        yield
    except (ConfigurationError, BadValue) as error:
        said = error
    else:
        return
    raise type(said)(_ARGUMENT.sub(lambda found: _ARGUMENTS[found[0]], str(said)))


def _filled(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = [
        rows.column(field.name) if field.name in rows.schema.names else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _as_records(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for letters in batches:
        yield letter_records(letters.select(KEPT_LETTERS.names).cast(KEPT_LETTERS))


def _output(shape: Shape, columns: tuple[str, ...]) -> pa.Schema:
    has_letters = "dlq" in actions_of(shape.on_error).values()
    letters = KEPT_LETTERS if "headers" in columns else LETTERS
    letter = [pa.field(LETTER, pa.struct(list(letters)))] if has_letters else []
    return pa.schema([*shape.schema, *letter])


def _records(frame: "DataFrame", columns: tuple[str, ...]) -> "list[Column]":
    """The columns of a record; what another source does not have is null."""
    from pyspark.sql import functions as F

    types = {"key": "binary", "leaderEpoch": "int"}
    return [
        F.col(name) if name in frame.columns else F.lit(None).cast(types[name]).alias(name)
        for name in columns
    ]


def _check(frame: "DataFrame", columns: Sequence[str], who: str) -> None:
    missing = [name for name in columns if name not in frame.columns]
    if missing:
        raise ConfigurationError(f"{who} needs the column {missing[0]}; there are {', '.join(frame.columns)}")


def _spark(schema: pa.Schema) -> Any:
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema)


def _fingerprints(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        found = [
            (p.topic, p.partition, p.start, p.end, p.fingerprint.count, p.fingerprint.hex)
            for p in parts_of(batch)
        ]
        yield _rows(found)


def _added(pieces: pa.Table) -> pa.Table:
    rows = pieces.to_pylist()
    total = sum((Fingerprint.from_hex(row["records"], row["hash"]) for row in rows), EMPTY)
    ends = min(row["first"] for row in rows), max(row["end"] for row in rows)
    found = (rows[0]["topic"], rows[0]["partition"], *ends, total.count, total.hex)
    return pa.Table.from_batches([_rows([found])])


def _rows(found: Sequence[tuple[Any, ...]]) -> pa.RecordBatch:
    columns = zip(*found, strict=True) if found else [()] * len(_FINGERPRINT)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, _FINGERPRINT, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_FINGERPRINT)
