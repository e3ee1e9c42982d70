"""What becomes of a block of values: columns of those that are good, and a reason for each of the others."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from odradek.model.errors import OdradekError

Rows = np.ndarray[Any, np.dtype[np.int64]]
# Told of fields and their types; says whether the columns are others because of it.
Offer = Callable[[Mapping[str, pa.DataType]], bool]

# Where a record was found wanting; what is done about each kind can be told apart (`odradek.spark.on_error`).
KEY, VALUE, SCHEMA, REGISTRY, SIZE = STAGES = ("key", "value", "schema", "registry", "size")


class RefusedSchema(OdradekError):
    """A schema whose values are not read; the message says why."""


class Bad(NamedTuple):
    error: str
    stage: str = VALUE
    schema_id: int | None = None


class Decoded(NamedTuple):
    """`columns` has a row for each value in `good`; `bad` says of each other why it has none. Both count in values."""

    columns: pa.RecordBatch
    good: Rows
    bad: dict[int, Bad]


class Decoder(Protocol):
    def decoded(self, values: pa.Array) -> Decoded:
        """The columns of a block of binary values. A null value gives a row of nulls."""

    def grown(self, values: pa.Array, offer: Offer) -> Decoded | None:
        """The same, after all that the values tell of columns was offered; None where the columns are others now."""
