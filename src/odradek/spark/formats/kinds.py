"""Which values of one Arrow type another one holds as they are: what a schema has beside what a table has."""

import pyarrow as pa

from odradek.spark.ddl import type_text
from odradek.spark.formats.decoded import RefusedSchema

TIMESTAMP = pa.timestamp("us", tz="UTC")
# Of a schema, each counted as often as it is nested: a type may stand in others at more places than can be counted.
MOST_FIELDS = 20_000
_WIDER = {
    pa.int32(): {pa.int64(), pa.float64()},
    # As in Avro's own resolution; beyond 2**53 a double does not hold each of them.
    pa.int64(): {pa.float64()},
    pa.float32(): {pa.float64()},
}


def misfit(found: pa.DataType, wanted: pa.DataType) -> str | None:
    """Why values of the type `found` cannot be in a column of type `wanted`; None if they can."""
    if pa.types.is_struct(found) and pa.types.is_struct(wanted):
        names = {field.name for field in found}
        whys = (
            f"({field.name}) {why}"
            for field in wanted
            if field.name in names and (why := misfit(found.field(field.name).type, field.type))
        )
        return next(whys, None)
    if pa.types.is_list(found) and pa.types.is_list(wanted):
        return misfit(found.value_type, wanted.value_type)
    if pa.types.is_map(found) and pa.types.is_map(wanted):
        return misfit(found.key_type, wanted.key_type) or misfit(found.item_type, wanted.item_type)
    if pa.types.is_decimal(found) and pa.types.is_decimal(wanted):
        whole = wanted.precision - wanted.scale >= found.precision - found.scale
        if whole and wanted.scale >= found.scale:
            return None
    elif found == wanted or wanted in _WIDER.get(found, ()):
        return None
    return f"is {type_text(found)} by the schema; the column is {type_text(wanted)}"


def check_fits(found: pa.Schema, columns: pa.Schema) -> None:
    """RefusedSchema where values of such a schema cannot be in the columns: then no value of it is."""
    for field in columns:
        if field.name in found.names and (why := misfit(found.field(field.name).type, field.type)):
            raise RefusedSchema(f"field {field.name} {why}")
