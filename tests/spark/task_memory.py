"""What a task of the source holds at most: `python -m tests.spark.task_memory BOOTSTRAP OFFSETS` reads and tells.

A process of its own with what a worker of Spark has imported. It reads each topic of OFFSETS (JSON, topic to end) twice:
hands the rows on as Spark does, and writes them into a file as the fused sink does. Prints a line of JSON for each: rows,
or the sentence it was refused with, and the largest resident size so far, in bytes.
"""

import json
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from odradek.model.errors import OdradekError
from odradek.spark.options import parse
from odradek.spark.ranges import OffsetRange
from odradek.spark.reading import read_ranges
from odradek.spark.source import schema_of
from odradek.spark.writing import TableOptions, write_ranges


def peak_bytes() -> int:
    (line,) = (
        line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")
    )
    return int(line.split()[1]) * 1024


def main(bootstrap: str, ends: dict[str, int]) -> None:
    options = parse({"kafka.bootstrap.servers": bootstrap, "subscribe": "any", "includeHeaders": "true"})
    schema = schema_of(options)

    def handed_on(wanted: OffsetRange) -> int:
        arrow_schema = to_arrow_schema(schema, timezone="UTC")
        rows = 0
        with pa.OSFile("/dev/null", "wb") as sink, pa.ipc.new_stream(sink, arrow_schema) as stream:
            for batch in read_ranges([wanted], options.connection, arrow_schema):
                stream.write_batch(batch)
                rows += batch.num_rows
        return rows

    def written(wanted: OffsetRange) -> int:
        with tempfile.TemporaryDirectory() as table:
            done = write_ranges(
                [wanted], options.connection, schema, TableOptions(table, "memory"), batch_id=0
            )
            return sum(file.records for file in done.files)

    for topic, end in ends.items():
        for way in (handed_on, written):
            found: dict[str, object] = {"topic": topic, "way": way.__name__}
            try:
                found["rows"] = way(OffsetRange(topic, 0, 0, end))
            except OdradekError as error:
                found["refused"] = str(error)
            print(json.dumps({**found, "peak_bytes": peak_bytes()}), flush=True)


main(sys.argv[1], json.loads(sys.argv[2]))
