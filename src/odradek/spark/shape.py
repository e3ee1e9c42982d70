"""What the records of a topic become in a table: columns out of their values, and dead letters of what has none.

Runs in the tasks that fetch, on Arrow. The columns of the record itself stand beside those of its value, under names
that begin with two underscores (`META`); `--meta off` leaves them out. A key that is decoded, too, is the column `__key`:
a struct of its fields, or the one value that it is.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from odradek.model.errors import ConfigurationError, OdradekError
from odradek.spark.arrow_schema import rows_schema
from odradek.spark.ddl import type_text
from odradek.spark.formats.declared import Format, decoder
from odradek.spark.formats.decoded import KEY, REGISTRY, SCHEMA, SIZE, Bad, Decoded, Rows
from odradek.spark.formats.rows import LARGEST as LARGEST_VALUE
from odradek.spark.on_error import Most, actions_of
from odradek.spark.required import Path, field_as_nullable, paths_of, wanting

META = {
    "__key": "key",
    "__topic": "topic",
    "__partition": "partition",
    "__offset": "offset",
    "__timestamp": "timestamp",
    "__leaderEpoch": "leaderEpoch",
}
BATCH = "__batch"  # behind these: the number of the batch that brought the row
# What is read of a topic for a table; `headers` of a dead letter are kept too where they are asked for.
COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "leaderEpoch")
_TIMESTAMP = pa.timestamp("us", tz="UTC")
_OF_RECORD = ("topic", "partition", "offset", "timestamp", "key", "value")
LETTERS = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", _TIMESTAMP),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("stage", pa.string()),
        ("error", pa.string()),
        ("schemaId", pa.int64()),
        ("leaderEpoch", pa.int32()),
    ]
)
# With the headers of the record, where they were read.
KEPT_LETTERS = LETTERS.append(rows_schema(("headers",)).field("headers"))


class BadValue(OdradekError):
    """A value has no columns and the job is told to stop at that; the message names the record and says why."""


class Applied(NamedTuple):
    rows: pa.RecordBatch
    letters: pa.RecordBatch
    refused: int  # records that became no row, whether letters are kept of them or not
    good: Rows  # which records became the rows


class KeyShape(NamedTuple):
    format: Format
    columns: pa.Schema
    is_plain: bool = False  # the key is the one column's value, not a struct

    @property
    def kind(self) -> pa.DataType:
        return self.columns.field(0).type if self.is_plain else pa.struct(list(self.columns))


class Growing(Protocol):
    """Columns that become more and wider while values are read (`odradek.spark.growth`)."""

    columns: pa.Schema

    def offer(self, found: Mapping[str, pa.DataType]) -> bool:
        """Takes what is allowed of fields and their types; whether the columns are others now."""


class Shape(NamedTuple):
    columns: pa.Schema
    has_meta: bool = True
    on_error: str = "dlq"
    format: Format = Format()
    key: KeyShape | None = None
    most_letters: str = ""  # of a batch, as `Most` reads it; "": any number
    required: tuple[Path, ...] = ()  # what the table has as NOT NULL, columns and fields within them
    has_batch: bool = False  # of what stands beside, the number of the batch, too

    @property
    def ours(self) -> tuple[str, ...]:
        """The columns that stand beside those of the value."""
        if not self.has_meta:
            return ()
        return (*META, BATCH) if self.has_batch else tuple(META)

    @property
    def schema(self) -> pa.Schema:
        """Of the rows."""
        return self.schema_of(self.columns)

    def schema_of(self, columns: pa.Schema) -> pa.Schema:
        """With other columns of values."""
        kinds = {
            "__key": pa.binary() if self.key is None else self.key.kind,
            "__topic": pa.string(),
            "__partition": pa.int32(),
            "__offset": pa.int64(),
        }
        kinds |= {"__timestamp": _TIMESTAMP, "__leaderEpoch": pa.int32(), BATCH: pa.int64()}
        return pa.schema([*columns, *(pa.field(name, kinds[name]) for name in self.ours)])

    def of_columns(self, columns: pa.Schema) -> "Shape":
        """With the columns of a table, some of which may have to have a value."""
        nullable = pa.schema([field_as_nullable(field) for field in columns])
        return self._replace(columns=nullable, required=paths_of(columns))

    def relaxed(self) -> "Shape":
        """Where the table's columns, and fields within them, may be made such that they can be null."""
        return self._replace(required=())

    def check_names(self) -> None:
        taken = [name for name in self.columns.names if name in self.ours]
        if taken:
            raise ConfigurationError(
                f"the values have a field {taken[0]}, which is the name of a column of ours; --meta off leaves ours out"
            )

    def check(self) -> "Shape":
        self.check_names()
        if not self.columns.names:
            raise ConfigurationError("there is no column: no value had a field; give them with --schema")
        if self.key is not None and not self.has_meta:
            raise ConfigurationError("--key-format makes the column __key, which --meta off leaves out")
        for form, columns in [(self.format, self.columns), *([] if self.key is None else [self.key[:2]])]:
            # Of the formats that take their columns from a user, or from the table.
            maps = [field for field in columns if has_map(field.type)] if form.name == "json" else []
            if maps:
                raise ConfigurationError(
                    f"column {maps[0].name} is {type_text(maps[0].type)}: JSON is not read into MAP; expected STRUCT with the "
                    f"names that are wanted of it"
                )
            if form.name == "string" and columns.types != [pa.string()]:
                found = ", ".join(f"{field.name} {type_text(field.type)}" for field in columns)
                raise ConfigurationError(f"--format string gives one column of STRING; these are {found}")
        actions_of(self.on_error)
        if self.most_letters:
            Most.of(self.most_letters)
        return self

    def applied(
        self,
        records: pa.RecordBatch,
        growing: Growing | None = None,
        *,
        batch_id: int | None = None,
        has_tombstones: bool = False,
        cleaned: Callable[[pa.RecordBatch], pa.RecordBatch] | None = None,
    ) -> Applied:
        """The rows, and the dead letters; together as many as there were records, but for those that are skipped.

        `batch_id` is None where no batch of a job brings them. `has_tombstones`: a null value is none that lacks something.
        `cleaned` makes null what the table holds as null (`Spec.cleaned`).
        """
        columns = self.columns if growing is None else growing.columns
        values = records.column("value")
        found = _decoded(self.format, columns, values, "value", growing)
        if cleaned is not None:
            found = found._replace(columns=cleaned(found.columns))
        found = self._with_required(found, values if has_tombstones else None)
        bad, keys = found.bad, records.column("key")
        if self.key is not None:
            of_keys = _decoded(self.key.format, self.key.columns, keys, "key")
            keys = _whole_column(of_keys, keys, self.key)
            bad = {**{row: _of_key(why) for row, why in of_keys.bad.items()}, **bad}
        columns, good = found.columns, found.good
        if len(good) + len(bad) > records.num_rows:  # values that are good with keys that are not
            is_good = ~np.isin(good, np.fromiter(bad, np.int64, len(bad)))
            columns, good = columns.filter(pa.array(is_good)), good[is_good]
        taken = pa.array(good)
        beside = {
            name: keys.take(taken) if name == "__key" else records.column(of_record).take(taken)
            for name, of_record in META.items()
            if self.has_meta
        }
        beside[BATCH] = pa.repeat(pa.scalar(batch_id, pa.int64()), len(good))
        meta = [beside[name] for name in self.ours]
        rows = pa.RecordBatch.from_arrays([*columns.columns, *meta], schema=self.schema_of(columns.schema))
        return Applied(rows, self._letters(records, bad), len(bad), good)

    def _with_required(self, found: Decoded, values: pa.Array | None) -> Decoded:
        """A row without what the table wants of each is bad, but for those of the `values` that are null."""
        for path in self.required:
            is_null = wanting(found.columns.column(path[0]), path[1:])
            if values is not None:
                is_null = is_null & values.is_valid().to_numpy(zero_copy_only=False)[found.good]
            if is_null.any():
                what = "column" if len(path) == 1 else "field"
                why = f"{what} {'.'.join(path)} is NOT NULL in the table, and the value has none"
                bad = {row: Bad(why) for row in found.good[is_null].tolist()}
                kept = found.columns.filter(pa.array(~is_null))
                found = Decoded(kept, found.good[~is_null], found.bad | bad)
        return found

    def _letters(self, records: pa.RecordBatch, bad: dict[int, Bad]) -> pa.RecordBatch:
        actions = actions_of(self.on_error)
        stops = [row for row in sorted(bad) if actions[bad[row].stage] == "pause"]
        if stops:
            one = records.slice(stops[0], 1).select(["topic", "partition", "offset"]).to_pylist()[0]
            more = f" ({len(stops) - 1} more beside it)" if len(stops) > 1 else ""
            raise BadValue(
                f"{one['topic']}-{one['partition']}, offset {one['offset']}: {bad[stops[0]].error}{more}; the job stops here: "
                f"{_advice(bad[stops[0]].stage)}"
            )
        at = [row for row in sorted(bad) if actions[bad[row].stage] == "dlq"]
        of_record = records.take(pa.array(at, pa.int64()))
        reasons = [bad[row] for row in at]
        found = {name: of_record.column(name) for name in (*_OF_RECORD, "leaderEpoch")}
        found["stage"] = pa.array([why.stage for why in reasons], pa.string())
        found["error"] = pa.array([why.error for why in reasons], pa.string())
        found["schemaId"] = pa.array([why.schema_id for why in reasons], pa.int64())
        schema = LETTERS
        if "headers" in records.schema.names:
            schema, found["headers"] = KEPT_LETTERS, of_record.column("headers")
        return pa.RecordBatch.from_arrays([found[name] for name in schema.names], schema=schema)

    def to_json(self) -> dict[str, Any]:
        key = self.key
        return {
            "columns": from_arrow_schema(self.columns).jsonValue(),
            "meta": self.has_meta,
            "onError": self.on_error,
            "format": self.format.to_json(),
            "key": None
            if key is None
            else {
                "format": key.format.to_json(),
                "columns": from_arrow_schema(key.columns).jsonValue(),
                "isPlain": key.is_plain,
            },
            "mostLetters": self.most_letters,
            "required": list(self.required),
            "batch": self.has_batch,
        }

    def to_text(self) -> str:
        return json.dumps(self.to_json())

    @classmethod
    def from_text(cls, text: str) -> "Shape":
        value: dict[str, Any] = json.loads(text)
        key = value["key"]
        return cls(
            _columns(value["columns"]),
            value["meta"],
            value["onError"],
            Format.from_json(value["format"]),
            None
            if key is None
            else KeyShape(Format.from_json(key["format"]), _columns(key["columns"]), key["isPlain"]),
            value["mostLetters"],
            _required(value.get("required", ())),  # not in what an older release has kept
            value.get("batch", False),
        )


def _columns(value: Any) -> pa.Schema:
    return to_arrow_schema(StructType.fromJson(value), timezone="UTC")


def _decoded(
    form: Format, columns: pa.Schema, values: pa.Array, what: str, growing: Growing | None = None
) -> Decoded:
    """What is too large is not parsed: a row of nulls takes its place, which is bad."""
    large = np.flatnonzero(
        pc.greater(pc.binary_length(values), LARGEST_VALUE).fill_null(False).to_numpy(zero_copy_only=False)
    )
    if not len(large):
        return _of_all(form, columns, values, growing)
    is_large = np.zeros(len(values), bool)
    is_large[large] = True
    sizes = pc.binary_length(values)
    rest = pc.if_else(pa.array(is_large), pa.scalar(None, values.type), values)
    found = _of_all(form, columns, rest, growing)
    is_good = ~is_large[found.good]
    bad = {
        row: Bad(
            f"a {what} of {sizes[row].as_py():,} bytes; {LARGEST_VALUE:,} is the most that is parsed", SIZE
        )
        for row in large.tolist()
    }
    return Decoded(found.columns.filter(pa.array(is_good)), found.good[is_good], found.bad | bad)


def _of_all(form: Format, columns: pa.Schema, values: pa.Array, growing: Growing | None) -> Decoded:
    if growing is None:
        return decoder(form, columns).decoded(values)
    while True:
        found = decoder(form, growing.columns).grown(values, growing.offer)
        if found is not None:
            return found


def _whole_column(found: Decoded, keys: pa.Array, key: KeyShape) -> pa.Array:
    """A value for each record, null for those without a key and those that are bad."""
    columns = found.columns.columns
    values = columns[0] if key.is_plain else pa.StructArray.from_arrays(columns, fields=list(key.columns))
    at = np.full(len(keys), -1, np.int64)
    at[found.good] = np.arange(len(found.good))
    return values.take(pa.array(at, mask=(at < 0) | keys.is_null().to_numpy(zero_copy_only=False)))


def _of_key(why: Bad) -> Bad:
    """What is wrong with a key is told apart, but for an outage and a size, which have nothing to do with keys."""
    return why if why.stage in (REGISTRY, SIZE) else why._replace(stage=KEY, error=f"key: {why.error}")


def _advice(stage: str) -> str:
    if stage == REGISTRY:
        return "the same line again goes on once the registry answers"
    fits = {SCHEMA: "register its schema", KEY: "run it with a --key-format that fits"}
    return f"{fits.get(stage, 'run it with --schema that fits')}, or with --on-error dlq or skip"


def _required(value: Iterable[str | Iterable[str]]) -> tuple[Path, ...]:
    """An older release has kept the names of columns alone."""
    return tuple((path,) if isinstance(path, str) else tuple(path) for path in value)


def ours_in(there: pa.Schema) -> tuple[str, ...]:
    """Of the columns of a table those that stand beside the ones of values.

    The number of the batch is behind the others; a field of its name that values have is before them.
    """
    names = list(there.names)
    if "__offset" not in names:
        return ()
    is_ours = BATCH in names and names.index(BATCH) > names.index("__offset")
    return (*META, BATCH) if is_ours and there.field(BATCH).type == pa.int64() else tuple(META)


def has_map(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        return any(has_map(field.type) for field in kind)
    return pa.types.is_map(kind) or (pa.types.is_list(kind) and has_map(kind.value_type))


def newest_ms(records: pa.RecordBatch) -> int:
    """The greatest timestamp of the records, in milliseconds since 1970; -1 of none."""
    newest = pc.max(records.column("timestamp").cast(pa.int64())).as_py()
    return -1 if newest is None else int(newest) // 1000
