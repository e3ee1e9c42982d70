"""What may become of a table's columns while rows are added: `--evolve add,widen,relax`, or none of it.

    add     a column that the table does not have; the rows that are there have null in it
    widen   TINYINT, SMALLINT -> INT -> BIGINT; these but BIGINT -> DOUBLE; FLOAT -> DOUBLE; DECIMAL with more digits
    relax   a column that was NOT NULL may be null, and so may a field within one

Whatever else would have to change is not done: the value is a dead letter, or the job stops, as with any that does not fit.

The change is in the commit that has the rows (`odradek.spark.tables`), so neither is there without the other. Widening
rewrites the files that have the narrower type, in that same commit, as every reader can read them then; Delta's own feature
for it leaves them as they are, and most readers refuse such a table.
"""

from collections.abc import Collection
from typing import NamedTuple

import pyarrow as pa

from odradek.model.errors import ConfigurationError
from odradek.spark.ddl import type_text
from odradek.spark.required import Path, paths_of

ADD, WIDEN, RELAX = KINDS = ("add", "widen", "relax")
NONE = "none"
_INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
# Names that Parquet files of Delta cannot have, and how many columns a stream of values may make.
_FORBIDDEN = frozenset(" ,;{}()\n\t=\0")
_DEEPEST = 32  # levels of nested fields
MOST_COLUMNS = 1_000


class Evolve(NamedTuple):
    adds: bool = False
    widens: bool = False
    relaxes: bool = False

    @classmethod
    def of(cls, text: str) -> "Evolve":
        kinds = [word.strip() for word in text.split(",")]
        if kinds in ([""], [NONE]):
            return cls()
        wrong = [kind for kind in kinds if kind not in KINDS]
        if wrong:
            raise ConfigurationError(
                f"--evolve {text}: there are {', '.join(KINDS)}, several of them with commas, or none"
            )
        return cls(*(kind in kinds for kind in KINDS))

    @property
    def changes_more(self) -> bool:
        """Than that columns are added."""
        return self.widens or self.relaxes

    def __str__(self) -> str:
        return ",".join(kind for kind, is_on in zip(KINDS, self, strict=True) if is_on) or NONE


# Columns stay as they are.
FIXED = Evolve()


class Change(NamedTuple):
    """What a commit does to the columns of a table."""

    added: tuple[pa.Field, ...] = ()
    widened: tuple[pa.Field, ...] = ()  # with their new types
    relaxed: tuple[Path, ...] = ()  # columns and fields within them, as `odradek.spark.required` names them

    def __bool__(self) -> bool:
        return bool(self.added or self.widened or self.relaxed)

    @property
    def needs(self) -> Evolve:
        return Evolve(bool(self.added), bool(self.widened), bool(self.relaxed))

    def __str__(self) -> str:
        told = [f"adds {field.name} {type_text(field.type)}" for field in self.added]
        told += [f"makes {field.name} {type_text(field.type)}" for field in self.widened]
        return "; ".join([*told, *(f"lets {'.'.join(path)} be null" for path in self.relaxed)])


def wider(there: pa.DataType, found: pa.DataType) -> pa.DataType | None:
    """The type of a column of type `there` that is to hold values of type `found`, too; None where no type may."""
    if there == found:
        return there
    if pa.types.is_decimal128(there) and pa.types.is_decimal128(found):
        scale = max(there.scale, found.scale)
        digits = max(there.precision - there.scale, found.precision - found.scale)
        return pa.decimal128(digits + scale, scale) if digits + scale <= 38 else None
    if there in _INTEGERS and found in _INTEGERS:
        return max(there, found, key=_INTEGERS.index)
    narrow = (*_INTEGERS[:3], pa.float32(), pa.float64())
    if there in narrow and found in narrow:
        return pa.float64()
    return None


def change_of(there: pa.Schema, found: pa.Schema, nulls: Collection[Path]) -> tuple[Change, list[pa.Field]]:
    """What rows of `found`, with nulls at the paths `nulls`, ask of a table; and their columns that none of it makes fit."""
    added: list[pa.Field] = []
    widened: list[pa.Field] = []
    unfit: list[pa.Field] = []
    known = {field.name: field for field in there}
    in_lower_case = {name.lower() for name in known}
    for field in found:
        own = known.get(field.name)
        if own is None:
            # To Delta names are the same that differ by case alone.
            (unfit if field.name.lower() in in_lower_case else added).append(field)
            continue
        kind = own.type if same(own.type, field.type) else wider(own.type, field.type)
        if kind is None:
            unfit.append(field)
        elif not same(kind, own.type):
            widened.append(pa.field(field.name, kind, own.nullable))
    names = set(found.names)
    relaxed = [path for path in paths_of(there) if path in nulls or (len(path) == 1 and path[0] not in names)]
    return Change(tuple(added), tuple(widened), tuple(relaxed)), unfit


def same(one: pa.DataType, other: pa.DataType) -> bool:
    """To Delta: whatever Arrow calls the values of a list, and whether they may be null."""
    return one == other or type_text(one) == type_text(other)


def has_local_times(kind: pa.DataType) -> bool:
    """TIMESTAMP_NTZ, also within it: Delta wants a feature of the table for that."""
    if pa.types.is_struct(kind):
        return any(has_local_times(field.type) for field in kind)
    if pa.types.is_map(kind):
        return has_local_times(kind.key_type) or has_local_times(kind.item_type)
    if pa.types.is_list(kind):
        return has_local_times(kind.value_type)
    return pa.types.is_timestamp(kind) and kind.tz is None


def is_addable(name: str, there: Collection[str]) -> bool:
    """Whether values may make such a column beside those that are `there`, in lower case: to Delta names are the same that differ by
    case alone."""
    return _is_name(name) and len(there) < MOST_COLUMNS and name.lower() not in there


def addable_type(kind: pa.DataType, depth: int = 0) -> pa.DataType | None:
    """Without nested fields that Delta cannot name or tell apart; None where nothing is left, or it goes too deep."""
    if depth > _DEEPEST:
        return None
    if pa.types.is_struct(kind):
        found: dict[str, pa.Field] = {}
        for field in kind:
            name = field.name.lower()
            if len(found) == MOST_COLUMNS or name in found or not _is_name(field.name):
                continue
            if (inner := addable_type(field.type, depth + 1)) is not None:
                found[name] = pa.field(field.name, inner)
        return pa.struct(list(found.values())) if found else None
    if pa.types.is_list(kind):
        inner = addable_type(kind.value_type, depth + 1)
        return None if inner is None else pa.list_(inner)
    if pa.types.is_map(kind):
        key, item = addable_type(kind.key_type, depth + 1), addable_type(kind.item_type, depth + 1)
        return None if key is None or item is None else pa.map_(key, item)
    return kind


def addable(found: pa.Schema) -> tuple[pa.Schema, tuple[str, ...]]:
    """Of the fields of values those that a table can have as columns, and the names of the others."""
    columns: dict[str, pa.Field] = {}
    left_out: list[str] = []
    for field in found:
        kind = addable_type(field.type)
        if kind is None or not is_addable(field.name, columns):
            left_out.append(field.name)
            continue
        if kind != field.type:
            left_out.append(f"{field.name} in part")
        columns[field.name.lower()] = pa.field(field.name, kind)
    return pa.schema(columns.values()), tuple(left_out)


def _is_name(name: str) -> bool:
    return bool(name) and len(name) <= 255 and not _FORBIDDEN & set(name)
