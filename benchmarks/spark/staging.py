"""What a task of the sink into topics takes, without Spark and without brokers.

    python -m benchmarks.spark.staging [--repeats 7] [--dir DIRECTORY]

Batches of 10,000 rows, as Spark hands them over, become record batches of six partitions in a file. Printed are processor time
a row and new pages a row, least of the repeats; last the fingerprints of the records of 1 KB
alone.
"""

import argparse
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
import pyarrow as pa

from odradek.spark import topic_writing
from odradek.spark.fingerprint import of_arrow
from odradek.spark.options import ConnectionOptions
from odradek.spark.topic_options import TopicOptions

ROWS_OF_BATCH = 10_000
PARTITIONS = 6
ROWS = {"K1": (500_000, 100, False), "K2": (500_000, 100, True), "K3": (75_000, 1024, False)}


def batches(rows: int, size: int, *, is_keyed: bool) -> Iterator[pa.RecordBatch]:
    letters = np.random.default_rng(1)
    for start in range(0, rows, ROWS_OF_BATCH):
        count = min(ROWS_OF_BATCH, rows - start)
        borders = pa.py_buffer((np.arange(count + 1) * size).astype(np.int32))
        data = pa.py_buffer(letters.integers(97, 103, count * size, dtype=np.uint8))
        columns = {"value": pa.Array.from_buffers(pa.string(), count, [None, borders, data])}
        if is_keyed:
            columns["key"] = pa.array([str(start + row) for row in range(count)])
        yield pa.record_batch(columns)


def measure(title: str, rows: int, repeats: int, run: Callable[[], object]) -> None:
    costs, faults = [], []
    for _ in range(repeats + 1):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        began = time.process_time()
        run()
        costs.append((time.process_time() - began) / rows * 1e6)
        faults.append((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / rows)
    print(f"{title}: {min(costs[1:]):.3f} us/row, {min(faults[1:]):.3f} new pages/row", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--dir", help="where the files go")
    given = parser.parse_args()
    topic = SimpleNamespace(partitions=range(PARTITIONS))
    with (
        tempfile.TemporaryDirectory(dir=given.dir) as directory,
        patch.object(topic_writing, "client_for"),
        patch.object(topic_writing, "existing_topic", return_value=topic),
    ):
        options = TopicOptions(ConnectionOptions("localhost:1"), "topic", "app", directory)
        for key, (count, size, is_keyed) in ROWS.items():
            rows = list(batches(count, size, is_keyed=is_keyed))

            def stage(rows: list[pa.RecordBatch] = rows) -> None:
                topic_writing.discard(options, [topic_writing.stage(rows, options, batch_id=0)])

            measure(key, count, given.repeats, stage)
        none = pa.nulls(ROWS_OF_BATCH, pa.binary())
        measure(
            "K3, fingerprints alone",
            ROWS["K3"][0],
            given.repeats,
            lambda: [of_arrow(none[: batch.num_rows], batch.column("value")) for batch in rows],
        )


if __name__ == "__main__":
    main()
