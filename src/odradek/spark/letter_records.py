"""Dead letters as records of a topic: key, value and headers as they were, and behind these headers of ours that say why.

    __odradek.errors.topic, .partition, .offset, .timestamp    the record that could not be read; milliseconds since 1970
    __odradek.errors.stage                                     the kind of error (`odradek.spark.formats.decoded`)
    __odradek.errors.message                                   what is wrong
    __odradek.errors.schema.id                                 where one is known

Their values are text in UTF-8, as Kafka Connect has them in `__connect.errors.*`. A name may stand among the headers already,
where a letter was read as a record and refused once more: the last one is that of the last reader. The record's own timestamp
is the time at which it is sent: with the old one, retention would take letters of old records at once.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from odradek.spark.arrow_schema import rows_schema

PREFIX = "__odradek.errors."
RECORDS = rows_schema(("key", "value", "headers"))
_HEADER = RECORDS.field("headers").type.value_type
# Of a letter, and what the header is called behind the prefix.
_WHY = {
    "topic": "topic",
    "partition": "partition",
    "offset": "offset",
    "timestamp": "timestamp",
    "stage": "stage",
    "error": "message",
    "schemaId": "schema.id",
}


def letter_records(letters: pa.RecordBatch) -> pa.RecordBatch:
    """Of letters as `odradek.spark.shape.KEPT_LETTERS` has them, in their order, with the columns of `RECORDS`."""
    own = letters.column("headers")
    lengths = pc.fill_null(pc.list_value_length(own), 0).to_numpy(zero_copy_only=False)
    rows = np.arange(letters.num_rows)
    # Which row each header is of: first those that were there, then ours, a name after the other.
    headers, of_row = [own.flatten()], [np.repeat(rows, lengths)]
    for column, name in _WHY.items():
        values = _as_text(letters.column(column))
        headers.append(_headers(PREFIX + name, values.drop_null()))
        of_row.append(rows[values.is_valid().to_numpy(zero_copy_only=False)])
    every = np.concatenate(of_row)
    order = np.argsort(every, kind="stable")
    ends = np.searchsorted(every[order], np.arange(letters.num_rows + 1))
    together = pa.concat_arrays(headers).take(pa.array(order))
    found = pa.ListArray.from_arrays(pa.array(ends, pa.int32()), together).cast(RECORDS.field("headers").type)
    return pa.RecordBatch.from_arrays([letters.column("key"), letters.column("value"), found], schema=RECORDS)


def _as_text(column: pa.Array) -> pa.Array:
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ms", tz="UTC"), safe=False).cast(pa.int64())
    return column.cast(pa.string())


def _headers(name: str, values: pa.Array) -> pa.Array:
    names = pa.repeat(pa.scalar(name), len(values))
    return pa.StructArray.from_arrays([names, values.cast(pa.binary())], fields=list(_HEADER))
