"""What an executor does: exact ranges in, Arrow batches out. A pure function of its ranges.

The client is kept between the tasks of one thread of a worker process, so that only the first task connects.
"""

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import partial

import pyarrow as pa

from odradek.client.sync import SyncClient
from odradek.client.sync_connection import FrameBuffer
from odradek.client.sync_fetch import LogCut, OffsetsGone, TopicRecreated, read_range
from odradek.client.sync_segments import LogPlaces
from odradek.model.ids import TopicPartition
from odradek.spark.data_loss import lose
from odradek.spark.decode import decode
from odradek.spark.freed_memory import keep_freed_memory
from odradek.spark.options import FALSE, TRUE, ConnectionOptions
from odradek.spark.ranges import OffsetRange
from odradek.spark.slices import Limits

# By process too: a forked worker must not share its parent's sockets. And by thread: a client is for one at a time.
_Owner = tuple[int, int, ConnectionOptions]
_clients: dict[_Owner, SyncClient] = {}
_places: dict[_Owner, LogPlaces] = {}
# What Fetches are read into, kept between tasks like the clients. A range that is read takes one out.
_buffers: list[FrameBuffer] = []


def _owner(options: ConnectionOptions) -> _Owner:
    return os.getpid(), threading.get_ident(), options


def client_for(options: ConnectionOptions) -> SyncClient:
    key = _owner(options)
    if key not in _clients:
        _clients[key] = SyncClient(
            options.bootstrap, client_id=options.client_id, request_timeout_s=options.request_timeout_s
        )
    return _clients[key]


def _places_for(options: ConnectionOptions, client: SyncClient) -> LogPlaces | None:
    if options.read_segments == FALSE:
        return None
    key = _owner(options)
    if key not in _places:
        _places[key] = LogPlaces(client, anywhere=options.read_segments == TRUE)
    return _places[key]


def read_ranges(
    ranges: Iterable[OffsetRange],
    options: ConnectionOptions,
    schema: pa.Schema,
    tell_lost: Callable[[TopicPartition, int, int], None] = lambda _partition, _start, _end: None,
) -> Iterator[pa.RecordBatch]:
    """The records of the ranges, one Fetch after the other, as batches that are never empty. `tell_lost` is told which offsets are left
    out as lost, as by `read_one`."""
    for wanted in ranges:
        for _, batch in read_one(wanted, options, schema, partial(tell_lost, wanted.topic_partition)):
            yield batch


def read_one(
    wanted: OffsetRange,
    options: ConnectionOptions,
    schema: pa.Schema,
    tell_lost: Callable[[int, int], None] = lambda _start, _end: None,
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The records of one range, each batch with the offset up to which it and those before it have read. `tell_lost` is told which
    offsets, from the first up to the second, are left out as lost, where failOnDataLoss=false allows that."""
    keep_freed_memory()
    try:
        buffer = _buffers.pop()
    except IndexError:  # all are being read into
        buffer = FrameBuffer()
    try:
        yield from _read_one(wanted, options, schema, buffer, tell_lost)
    finally:
        _buffers.append(buffer)


def _read_one(
    wanted: OffsetRange,
    options: ConnectionOptions,
    schema: pa.Schema,
    buffer: FrameBuffer,
    tell_lost: Callable[[int, int], None],
) -> Iterator[tuple[int, pa.RecordBatch]]:
    client = client_for(options)
    limits = Limits(record_bytes=options.max_record_bytes)
    start, end = wanted.start, wanted.end
    while start < end:
        try:
            for fetched in read_range(
                client,
                wanted.topic_partition,
                start,
                end,
                topic_id=wanted.topic_id,
                leader_epoch=wanted.leader_epoch,
                read_committed=options.read_committed,
                max_bytes=options.fetch_max_bytes,
                into=buffer,
                places=_places_for(options, client),
                rack=options.client_rack,
            ):
                for read_to, batch in decode(
                    fetched.records,
                    partition=wanted.topic_partition,
                    start=start,
                    end=end,
                    schema=schema,
                    aborted=fetched.aborted,
                    limits=limits,
                ):
                    # Spark looks at the schema of the first batch only and would misread a later one.
                    assert batch.schema.equals(schema), "decode gives what it was asked for"
                    yield read_to, batch
                    del batch  # it would be held while the next one is made
                start = min(fetched.next_offset, end)
            return
        except (OffsetsGone, TopicRecreated) as error:
            asked = end
            if isinstance(error, TopicRecreated):
                first = end
            elif isinstance(error, LogCut):
                # What took their place is not of this range: whoever plans the next one begins with it.
                first, end = start, min(end, error.still_there)
            else:
                first = client.begin_offsets([wanted.topic_partition])[wanted.topic_partition]
                if first <= start:
                    first = end
            lost = "the rest of this range" if first >= end else f"the offsets below {first}"
            lose(str(error), f"leaves out {lost}", is_failure=options.fail_on_data_loss)
            for gone in ((start, min(first, end)), (max(start, end), asked)):
                if gone[0] < gone[1]:
                    tell_lost(*gone)
            start = first
