"""The Arrow types of our columns without Spark: for tools that read a topic and need no session.

Inside a session `to_arrow_schema` of pyspark decides; a test holds the two equal.
"""

from collections.abc import Iterable

import pyarrow as pa

_HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
_TYPES = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    "headers": pa.list_(pa.field("element", _HEADER)),
    "leaderEpoch": pa.int32(),
}


def rows_schema(columns: Iterable[str] = tuple(_TYPES)) -> pa.Schema:
    return pa.schema([pa.field(name, _TYPES[name]) for name in columns])
