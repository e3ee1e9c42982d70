"""What a task of the source holds at most: `python -m tests.spark.task_memory BOOTSTRAP OFFSETS` reads and tells.

A process of its own with what a worker of Spark has imported reads each topic of OFFSETS (JSON, topic to end) and hands
the rows on as Spark does. It prints a line of JSON for each: rows, the sentence it was refused with if it was, by how many bytes
its resident size was larger so far, at most, than with what it has imported, and how many pages it was given anew.
"""

import json
import resource
import sys
from pathlib import Path
from typing import Any

import pandas  # noqa: F401  # Arrow imports it with the first array of Python objects
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from odradek.model.errors import OdradekError
from odradek.spark.options import parse
from odradek.spark.ranges import OffsetRange
from odradek.spark.reading import read_ranges
from odradek.spark.source import schema_of


def peak_bytes() -> int:
    (line,) = (
        line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")
    )
    return int(line.split()[1]) * 1024


def new_pages() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def main(bootstrap: str, ends: dict[str, int]) -> None:
    options = parse({"kafka.bootstrap.servers": bootstrap, "subscribe": "any", "includeHeaders": "true"})

    schema = to_arrow_schema(schema_of(options), timezone="UTC")
    imported_bytes = peak_bytes()  # another release of NumPy alone makes 28 MB of it
    for topic, end in ends.items():
        found: dict[str, Any] = {"topic": topic, "rows": 0}
        before = new_pages()
        try:
            with pa.OSFile("/dev/null", "wb") as sink, pa.ipc.new_stream(sink, schema) as stream:
                for batch in read_ranges([OffsetRange(topic, 0, 0, end)], options.connection, schema):
                    stream.write_batch(batch)
                    found["rows"] += batch.num_rows
        except OdradekError as error:
            found["refused"] = str(error)
        found |= {"held_bytes": peak_bytes() - imported_bytes, "new_pages": new_pages() - before}
        print(json.dumps(found), flush=True)


main(sys.argv[1], json.loads(sys.argv[2]))
