"""What an executor does: exact ranges in, Arrow batches out. A pure function of its ranges.

The client is kept between the tasks of one worker process, so that only the first task connects.
"""

import os
import warnings
from collections.abc import Iterable, Iterator

import pyarrow as pa

from odradek.client.sync import SyncClient
from odradek.client.sync_fetch import OffsetsGone, read_range
from odradek.spark.decode import decode
from odradek.spark.options import ConnectionOptions
from odradek.spark.ranges import OffsetRange

# By process too: a forked worker must not share its parent's sockets.
_clients: dict[tuple[int, ConnectionOptions], SyncClient] = {}


def client_for(options: ConnectionOptions) -> SyncClient:
    key = (os.getpid(), options)
    if key not in _clients:
        _clients[key] = SyncClient(
            options.bootstrap, client_id=options.client_id, request_timeout_s=options.request_timeout_s
        )
    return _clients[key]


def read_ranges(
    ranges: Iterable[OffsetRange], options: ConnectionOptions, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """The records of the ranges, one Fetch after the other, as batches that are never empty."""
    for wanted in ranges:
        for _, batch in read_one(wanted, options, schema):
            yield batch


def read_one(
    wanted: OffsetRange, options: ConnectionOptions, schema: pa.Schema
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The records of one range, each batch with the offset up to which it and those before it have read."""
    client = client_for(options)
    start = wanted.start
    while start < wanted.end:
        try:
            for fetched in read_range(
                client,
                wanted.topic_partition,
                start,
                wanted.end,
                topic_id=wanted.topic_id,
                read_committed=options.read_committed,
                max_bytes=options.fetch_max_bytes,
            ):
                batch = decode(
                    fetched.records,
                    partition=wanted.topic_partition,
                    start=start,
                    end=wanted.end,
                    schema=schema,
                    aborted=fetched.aborted,
                )
                # Spark looks at the schema of the first batch only and would misread a later one.
                assert batch.schema.equals(schema), "decode gives what it was asked for"
                start = min(fetched.next_offset, wanted.end)
                if batch.num_rows:
                    yield start, batch
            return
        except OffsetsGone as error:
            if options.fail_on_data_loss:
                raise
            warnings.warn(str(error), stacklevel=2)
            first = client.begin_offsets([wanted.topic_partition])[wanted.topic_partition]
            if first <= start:
                return
            start = first
