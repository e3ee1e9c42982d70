"""What the records of a topic become in a table: columns out of their values, and dead letters of what has none.

Runs in the tasks that fetch, on Arrow. The columns of the record itself stand beside those of its value, under names
that begin with two underscores (`META`); `--meta off` leaves them out.
"""

import json
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from odradek.model.errors import ConfigurationError, OdradekError
from odradek.spark.json_values import decoded

ON_ERROR = ("dlq", "skip", "pause")
META = {
    "__key": "key",
    "__topic": "topic",
    "__partition": "partition",
    "__offset": "offset",
    "__timestamp": "timestamp",
    "__leaderEpoch": "leaderEpoch",
}
# What is read of a topic for a table; `headers` of a dead letter are kept too where they are asked for.
COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "leaderEpoch")
_TIMESTAMP = pa.timestamp("us", tz="UTC")
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
    ]
)


class BadValue(OdradekError):
    """A value has no columns and the job is told to stop at that; the message names the record and says why."""


class Shape(NamedTuple):
    columns: pa.Schema
    has_meta: bool = True
    on_error: str = "dlq"

    @property
    def schema(self) -> pa.Schema:
        """Of the table."""
        kinds = {
            "__key": pa.binary(),
            "__topic": pa.string(),
            "__partition": pa.int32(),
            "__offset": pa.int64(),
        }
        kinds |= {"__timestamp": _TIMESTAMP, "__leaderEpoch": pa.int32()}
        meta = [pa.field(name, kinds[name]) for name in META] if self.has_meta else []
        return pa.schema([*self.columns, *meta])

    def check(self) -> "Shape":
        ours = [name for name in self.columns.names if self.has_meta and name in META]
        if ours:
            raise ConfigurationError(
                f"the values have a field {ours[0]}, which is the name of a column of ours; --meta off leaves ours out"
            )
        if not self.columns.names:
            raise ConfigurationError("there is no column: no value had a field; give them with --schema")
        return self

    def applied(self, records: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """The rows, and the dead letters; together as many as there were records."""
        found = decoded(records.column("value"), self.columns)
        good = records.take(pa.array(found.good))
        meta = [good.column(name) for name in META.values()] if self.has_meta else []
        rows = pa.RecordBatch.from_arrays([*found.columns.columns, *meta], schema=self.schema)
        at = sorted(found.bad)
        letters = records.take(pa.array(at, pa.int64()))
        if at and self.on_error == "pause":
            one = letters.slice(0, 1).to_pylist()[0]
            more = f" ({len(at) - 1} more beside it)" if len(at) > 1 else ""
            raise BadValue(
                f"{one['topic']}-{one['partition']}, offset {one['offset']}: {found.bad[at[0]]}{more}; the job stops here: "
                f"run it with --schema that fits, or with --on-error dlq or skip"
            )
        if self.on_error == "skip":
            letters = letters.slice(0, 0)
        count = letters.num_rows
        columns = [letters.column(name) for name in LETTERS.names[:6]]
        stage = pa.repeat(pa.scalar("value"), count)
        errors = pa.array([found.bad[row] for row in at][:count], pa.string())
        return rows, pa.RecordBatch.from_arrays([*columns, stage, errors], schema=LETTERS)

    def to_text(self) -> str:
        return json.dumps(
            {
                "columns": from_arrow_schema(self.columns).jsonValue(),
                "meta": self.has_meta,
                "onError": self.on_error,
            }
        )

    @classmethod
    def from_text(cls, text: str) -> "Shape":
        value: dict[str, Any] = json.loads(text)
        columns = to_arrow_schema(StructType.fromJson(value["columns"]), timezone="UTC")
        return cls(columns, value["meta"], value["onError"])


def newest_ms(records: pa.RecordBatch) -> int:
    """The greatest timestamp of the records, in milliseconds since 1970; -1 of none."""
    newest = pc.max(records.column("timestamp").cast(pa.int64())).as_py()
    return -1 if newest is None else int(newest) // 1000
