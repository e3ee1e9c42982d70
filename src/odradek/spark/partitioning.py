"""How a table is divided: `--partition-by country,day(ts),bucket(16, key)`.

    country          a column of the rows
    day(ts)          the day of a timestamp in UTC: a column ts_day, DATE
    bucket(16, key)  murmur2 of a value, as Java's producers choose partitions by: a column key_bucket, INT

Delta divides by columns. What is no column of the rows becomes one: Delta keeps it with each file, not in it, and the schema of
the table notes what it was made of (`odradek.transform`), so that whoever appends divides as before. It is made of other
columns, so it is left out of what proves the rows.

Files of a partition stand in `country=DE/ts_day=2024-01-02/`, as they do for everybody else.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from odradek.model.errors import ConfigurationError, OdradekError
from odradek.spark.ddl import type_text
from odradek.spark.murmur2 import partitions_of

# In the metadata of a table's field.
TRANSFORM = "odradek.transform"
DAY, BUCKET = "day", "bucket"
Values = dict[str, str | None]
_PART = re.compile(
    r"\s*(?:(?P<name>[^\s(),]+)|day\(\s*(?P<day>[^\s(),]+)\s*\)|bucket\(\s*(?P<count>\d+)\s*,\s*(?P<key>[^\s(),]+)\s*\))\s*(,|$)"
)
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
_MOST_BUCKETS = 10_000
# Years that Delta's text of a date can tell: days since 1970 of 0001-01-01 and 9999-12-31.
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896


class Unpartitionable(OdradekError):
    """Rows cannot be divided as the table is."""


class By(NamedTuple):
    """One column that divides: one of the rows, or made of one."""

    column: str
    transform: str = ""
    buckets: int = 0

    @property
    def name(self) -> str:
        return f"{self.column}_{self.transform}" if self.transform else self.column

    def __str__(self) -> str:
        if self.transform == BUCKET:
            return f"bucket({self.buckets}, {self.column})"
        return f"{self.transform}({self.column})" if self.transform else self.column

    @property
    def field(self) -> pa.Field:
        """Of what is made of a column."""
        kind = pa.date32() if self.transform == DAY else pa.int32()
        return pa.field(self.name, kind, metadata={TRANSFORM: str(self)})

    def made_of(self, column: pa.Array) -> pa.Array:
        if self.transform == DAY:
            days = column.cast(pa.date32(), safe=False)
            return pc.if_else(_is_beyond(days), pa.scalar(None, pa.date32()), days)
        is_null = column.is_null()
        texts = column.cast(pa.string()) if not pa.types.is_binary(column.type) else column
        found = partitions_of(pc.fill_null(texts.cast(pa.binary()), b""), self.buckets)
        return pc.if_else(is_null, pa.scalar(None, pa.int32()), pa.array(found, pa.int32()))

    def check(self, columns: pa.Schema) -> None:
        if self.column not in columns.names:
            raise ConfigurationError(
                f"partitioned by {self}: there is no column {self.column}; there are {', '.join(columns.names)}"
            )
        if self.transform and self.name in columns.names:
            raise ConfigurationError(f"partitioned by {self}: there is a column {self.name} already")
        kind = columns.field(self.column).type
        if self.transform == DAY:
            fits, wanted = pa.types.is_timestamp(kind) or pa.types.is_date(kind), "a timestamp or a date"
        elif self.transform == BUCKET:
            fits = _is_text(kind) or pa.types.is_binary(kind) or pa.types.is_integer(kind)
            wanted = "text, bytes or a whole number"
        else:
            fits = _is_text(kind) or pa.types.is_integer(kind) or pa.types.is_date(kind) or kind == pa.bool_()
            wanted = (
                "text, a whole number, a date or a boolean; day(ts) and bucket(16, key) make such of others"
            )
        if not fits:
            raise ConfigurationError(
                f"partitioned by {self}: {self.column} is {type_text(kind)}; expected {wanted}"
            )


class Spec(NamedTuple):
    by: tuple[By, ...] = ()

    @classmethod
    def of(cls, text: str) -> "Spec":
        """ConfigurationError names what cannot be read."""
        found: list[By] = []
        at = 0
        while at < len(text.rstrip()):
            match = _PART.match(text, at)
            if match is None:
                raise ConfigurationError(
                    f"--partition-by {text}: {text[at:].strip()} is no column, day(COLUMN) or bucket(N, COLUMN)"
                )
            if match["count"] is not None:
                count = int(match["count"])
                if not 1 <= count <= _MOST_BUCKETS:
                    raise ConfigurationError(f"--partition-by {text}: expected 1 to {_MOST_BUCKETS} buckets")
                found.append(By(match["key"], BUCKET, count))
            else:
                found.append(By(match["day"], DAY) if match["day"] else By(match["name"]))
            at = match.end()
        names = [by.name for by in found]
        if len(set(names)) < len(names):
            raise ConfigurationError(f"--partition-by {text}: a column comes twice")
        return cls(tuple(found))

    @classmethod
    def of_table(cls, partition_columns: Sequence[str], metadata: Mapping[str, Mapping[str, Any]]) -> "Spec":
        """Of a table that is there, whoever made it; `metadata` is that of its fields."""
        transforms = ((name, metadata[name].get(TRANSFORM)) for name in partition_columns)
        return cls(
            tuple(cls.of(transform).by[0] if transform else By(name) for name, transform in transforms)
        )

    def __str__(self) -> str:
        return ", ".join(str(by) for by in self.by)

    @property
    def names(self) -> list[str]:
        return [by.name for by in self.by]

    @property
    def made(self) -> list[str]:
        """The columns that are not those of the rows."""
        return [by.name for by in self.by if by.transform]

    def check(self, columns: pa.Schema) -> "Spec":
        for by in self.by:
            by.check(columns)
        if self.by and {by.column for by in self.by if not by.transform} >= set(columns.names):
            raise ConfigurationError(
                f"partitioned by {self}: these are all columns; expected one more that files hold"
            )
        return self

    def of_rows(self, schema: pa.Schema) -> pa.Schema:
        """The columns of a table's schema that rows have themselves."""
        return pa.schema([field for field in schema if field.name not in self.made])

    def whole(self, rows: pa.Schema) -> pa.Schema:
        """The other way: with the columns that are made."""
        return pa.schema([*rows, *(by.field for by in self.by if by.transform)])

    def of_new(self, whole: pa.Schema) -> pa.Schema:
        """The columns that a new table gets: null may be what `cleaned` makes null."""
        return pa.schema([field.with_nullable(True) if self._cleans(field) else field for field in whole])

    def _cleans(self, field: pa.Field) -> bool:
        kind = field.type
        has_none = _is_text(kind) or pa.types.is_date(kind) or pa.types.is_timestamp(kind)
        return has_none and field.name in self.names

    def keeps(self, column: str, kind: pa.DataType) -> bool:
        """Whether rows stay in their partitions where this column becomes one of the wider type: 1.0 is another text than 1."""
        return pa.types.is_integer(kind) or all(by.column != column for by in self.by)

    def cleaned(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Where it divides by them Delta cannot tell an empty text from null, nor days outside the years 1 to 9999 at all: with one of
        those in its log nobody opens the table any more. So they are null."""
        for by in self.by:
            at = rows.schema.get_field_index(by.column)
            if by.transform or at < 0:
                continue
            column = rows.column(at)
            if _is_text(column.type):
                untold = pc.equal(column, "")
            elif pa.types.is_date(column.type) or pa.types.is_timestamp(column.type):
                untold = _is_beyond(column.cast(pa.date32(), safe=False))
            else:
                continue
            if pc.any(untold).as_py():
                kept = pc.if_else(untold, pa.scalar(None, column.type), column)
                rows = rows.set_column(at, rows.schema.field(at), kept)
        return rows

    def divided(self, rows: pa.RecordBatch) -> Iterator[tuple[Values, pa.RecordBatch]]:
        """The rows of each partition, without the columns that divide them, in the order in which they came."""
        if not self.by:
            yield {}, rows
            return
        texts = {by.name: texts_of(self._column(by, rows)) for by in self.by}
        kept = [name for name in rows.schema.names if name not in texts]
        rest = rows.select(kept)
        codes = np.zeros(rows.num_rows, np.int64)
        for column in texts.values():
            found = pc.dictionary_encode(column, null_encoding="encode")
            codes = codes * (len(found.dictionary) + 1) + found.indices.to_numpy(zero_copy_only=False)
            codes = np.unique(codes, return_inverse=True)[1].astype(np.int64)
        order = np.argsort(codes, kind="stable")
        borders = np.flatnonzero(np.diff(codes[order], prepend=-1))
        for begin, end in zip(borders, [*borders[1:], rows.num_rows], strict=True):
            at = order[begin:end]
            values = {name: column[int(at[0])].as_py() for name, column in texts.items()}
            yield values, rest if len(borders) == 1 else rest.take(pa.array(at))

    def _column(self, by: By, rows: pa.RecordBatch) -> pa.Array:
        if by.column not in rows.schema.names:
            raise Unpartitionable(f"the table is divided by {by}, and the rows have no column {by.column}")
        column = rows.column(by.column)
        return by.made_of(column) if by.transform else column


UNDIVIDED = Spec()


def directory_of(values: Mapping[str, str | None]) -> str:
    """`country=DE/ts_day=2024-01-02/`, with the signs escaped that mean something in a path; "" of an undivided table."""
    return "".join(
        f"{quote(name, safe=' ')}={_NO_VALUE if value is None else quote(value, safe=' ')}/"
        for name, value in values.items()
    )


def texts_of(column: pa.Array) -> pa.Array:
    """As Delta writes the values of columns that divide a table."""
    if pa.types.is_timestamp(column.type):
        return pc.strftime(column, format="%Y-%m-%d %H:%M:%S")
    return column.cast(pa.string())


def _is_beyond(days: pa.Array) -> pa.Array:
    """Which days (date32) are outside the years 1 to 9999."""
    numbers = days.cast(pa.int32())
    return pc.or_(pc.less(numbers, _FIRST_DAY), pc.greater(numbers, _LAST_DAY))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
