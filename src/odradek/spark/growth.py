"""The columns that a task has for values while they may grow: those of the table, and what values and schemas tell of meanwhile.

All tasks of a batch have to give a new column one type. Whoever finds it first decides that, for all:

    TABLE/_odradek/columns/PREFIX-BATCH/NAME      made once (`Storage.settle`); NAME is a hash of the column's and of its type so far

Whose value does not fit what was decided has a dead letter, as with any column. The commit of the batch makes the columns
(`odradek.spark.tables`), and takes the decisions away: the next batch finds them in the table.
"""

import json
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from odradek.spark import tables
from odradek.spark.ddl import type_text
from odradek.spark.evolution import Evolve, addable_type, is_addable, same, wider
from odradek.spark.parquet import OWN_DIRECTORY, application_prefix
from odradek.spark.partitioning import Spec
from odradek.spark.required import field_as_nullable
from odradek.spark.shape import BATCH, Shape
from odradek.spark.storage import storage_of

_DECISIONS = f"{OWN_DIRECTORY}/columns"


class Growth:
    def __init__(
        self,
        table: str,
        app_id: str,
        batch_id: int,
        shape: Shape,
        evolve: Evolve,
        spec: Spec,
        there: pa.Schema | None,
    ) -> None:
        """`there` are the columns of the table (`columns_of`), None where there is no table yet."""
        self._storage = storage_of(table)
        self._decisions = f"{_DECISIONS}/{application_prefix(app_id)}{batch_id:010d}"
        self._evolve = evolve
        self._spec = spec
        # Names that no field of a value may have for a column.
        self._taken = pa.schema(
            [
                *(pa.field(n, pa.null()) for n in shape.ours),
                *(spec.whole(pa.schema([]))),
            ]
        )
        self.columns = shape.columns
        if there is not None:
            known, taken = set(there.names), set(self._taken.names)
            own = [field_as_nullable(field) for field in there if field.name not in taken]
            new = [field for field in shape.columns if field.name not in known]
            self.columns = pa.schema([*own, *new])
            for field in shape.columns if evolve.widens else ():  # as --schema asks for
                self._widen(self.columns.get_field_index(field.name), field.type)
        # Behind ours it would be taken for our own by whoever opens the table next (`ours_in`).
        never = [BATCH] if shape.has_meta else []
        self._known = {name.lower() for name in (*self.columns.names, *self._taken.names, *never)}

    def offer(self, found: Mapping[str, pa.DataType]) -> bool:
        """Takes what is allowed of fields and their types; whether the columns are others now."""
        before = self.columns
        for name, kind in found.items():
            at = self.columns.get_field_index(name)
            if at < 0:
                self._add(name, kind)
            elif self._evolve.widens:
                self._widen(at, kind)
        return not self.columns.equals(before)

    def _add(self, name: str, kind: pa.DataType) -> None:
        if not self._evolve.adds or not is_addable(name, self._known):
            return
        cleaned = addable_type(kind)
        if cleaned is None:
            return
        decided = self._decided(pa.field(name, cleaned), "")
        if decided.name == name:  # else it is another one by its case, which Delta cannot tell apart
            self.columns = self.columns.append(decided)
            self._known.add(name.lower())

    def _widen(self, at: int, kind: pa.DataType) -> None:
        now = self.columns.field(at)
        wanted = wider(now.type, kind)
        if wanted is None or same(wanted, now.type) or not self._spec.keeps(now.name, wanted):
            return
        decided = self._decided(now.with_type(wanted), type_text(now.type))
        self.columns = self.columns.set(at, decided)

    def _decided(self, field: pa.Field, so_far: str) -> pa.Field:
        name = blake2b(f"{field.name.lower()}\0{so_far}".encode(), digest_size=16).hexdigest()
        offered = json.dumps(from_arrow_schema(pa.schema([field])).jsonValue())
        value: Any = json.loads(self._storage.settle(f"{self._decisions}/{name}", offered.encode()))
        return to_arrow_schema(StructType.fromJson(value), timezone="UTC").field(0)


def columns_of(table: str) -> pa.Schema | None:
    """Of the rows of the table as it is now. Asked once a batch, where it is planned: to open a table is to read the names of
    all its files, and tasks are many."""
    opened = tables.open_table(table)
    return None if opened is None else tables.row_schema(opened)


def forget(table: str, app_id: str, batch_id: int) -> None:
    """What was decided for batches up to this one, which are committed."""
    storage, prefix = storage_of(table), application_prefix(app_id)
    done: dict[str, list[str]] = {}
    for file in storage.listed(_DECISIONS, prefix):
        batch = file.removeprefix(f"{_DECISIONS}/").split("/")[0]
        if int(batch.removeprefix(prefix)) <= batch_id:
            done.setdefault(f"{_DECISIONS}/{batch}", []).append(file)
    for directory, files in done.items():
        storage.delete(files)
        storage.tidy(directory)
