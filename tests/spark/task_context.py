"""What a task of a stream knows of itself, and records as the source of a job that decodes gives them."""

import pyarrow as pa

from odradek.spark.arrow_schema import rows_schema
from odradek.spark.shape import COLUMNS
from tests.spark.test_evolution import records


class Context:
    """Of a task."""

    stage = 0
    partition = 0
    run = "a"
    query = ""
    batch = 4

    def stageId(self) -> int:
        return self.stage

    def partitionId(self) -> int:
        return self.partition

    def getLocalProperty(self, name: str) -> str | None:
        known = {"spark.jobGroup.id": self.run, "streaming.sql.batchId": str(self.batch)}
        return {**known, "sql.streaming.queryId": self.query}.get(name)


def of_values(*values: bytes | None) -> pa.RecordBatch:
    """Record n is at offset n of orders-0, and has no headers."""
    found = records(*values)
    wanted = rows_schema((*COLUMNS, "headers"))
    return pa.RecordBatch.from_arrays(
        [*found.columns, pa.nulls(len(values), wanted.field("headers").type)], schema=wanted
    )
