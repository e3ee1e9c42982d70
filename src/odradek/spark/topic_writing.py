"""What a task of the sink into topics does: rows become record batches in a file that nobody knows of yet.

    DIRECTORY/staged/PREFIX-BATCH-UUID

holds, for each batch, the number of its place and the batch; the message to the driver tells which places these are.
"""

import os
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from hashlib import blake2b
from pathlib import Path
from struct import Struct
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

from odradek.client.produce_pieces import FileSlice
from odradek.client.sync_transaction import BatchInFile
from odradek.model.errors import OdradekError
from odradek.model.ids import TopicPartition
from odradek.records.batch import BATCH_OVERHEAD, read_header
from odradek.spark.encode import Places, encoded, records_of, slices_of
from odradek.spark.fingerprint import EMPTY, Fingerprint
from odradek.spark.freed_memory import keep_freed_memory
from odradek.spark.micro_batch import current_run_id
from odradek.spark.reading import client_for
from odradek.spark.subscription import existing_topic
from odradek.spark.topic_options import TopicOptions

SLICE_BYTES = 16 << 20
_PLACE = Struct(">I")


class NotShared(OdradekError):
    """The driver does not see what a task wrote."""


class DamagedFile(OdradekError):
    """A file is not as its task left it."""


class StagedPlace(NamedTuple):
    """What a task has for a partition: how many records, and their fingerprint."""

    partition: TopicPartition
    proof: Fingerprint


class Staged(WriterCommitMessage):
    """What a task tells the driver: a file and what is in it, never the rows."""

    def __init__(self, name: str, size_bytes: int, places: Iterable[StagedPlace], run_id: str = "") -> None:
        self.name = name
        self.size_bytes = size_bytes
        self.places = tuple(places)  # by their numbers in the file
        self.run_id = run_id  # of the query


def stage(batches: Iterable[pa.RecordBatch], options: TopicOptions, *, batch_id: int) -> Staged:
    keep_freed_memory()
    options.kill_switch.at("before-write", batch_id)
    client = client_for(options.connection)
    counts: dict[str, int] = {}

    def partitions(topic: str) -> int:
        if topic not in counts:
            counts[topic] = len(existing_topic(client, topic, "topic").partitions)
        return counts[topic]

    name = f"{_prefix(options.app_id)}-{batch_id:010d}-{uuid.uuid4().hex}"
    path = staged_directory(options) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    numbers: dict[TopicPartition, int] = {}
    proofs: dict[TopicPartition, Fingerprint] = {}
    keyless_from = int(uuid.uuid4())
    try:
        with open(path, "wb") as file:
            for rows in slices_of(iter(batches), SLICE_BYTES):
                found = encoded(
                    records_of(rows, options.topic),
                    Places(options.topic, partitions),
                    codec=options.codec,
                    now_ms=int(time.time() * 1000),
                    keyless_from=keyless_from % (1 << 31),
                )
                keyless_from += 1
                for batches, of_them in found:
                    for batch in batches:
                        number = numbers.setdefault(batch.partition, len(numbers))
                        file.write(_PLACE.pack(number) + batch.header)
                        file.write(batch.body)
                    for where, proof in of_them:
                        proofs[where] = proofs.get(where, EMPTY) + proof
            size = file.tell()
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    options.kill_switch.at("after-write", batch_id)
    return Staged(name, size, [StagedPlace(where, proofs[where]) for where in numbers], current_run_id())


def staged_batches(
    options: TopicOptions, staged: Staged, files: ExitStack
) -> Iterator[tuple[TopicPartition, BatchInFile]]:
    """The batches of a task, as they lie in its file, which is open as long as `files`. Of records nothing is read."""
    if not staged.places:
        return
    path = staged_directory(options) / staged.name
    try:
        file = files.enter_context(path.open("rb", buffering=0))
    except FileNotFoundError:
        raise NotShared(
            f"{path} is not there, which a task has just written: the option directory has to name one that executors and "
            f"driver share"
        ) from None
    size = os.fstat(file.fileno()).st_size
    if size != staged.size_bytes:
        raise DamagedFile(f"{path} has {size} bytes, and its task wrote {staged.size_bytes}")
    records = [0] * len(staged.places)
    position = 0
    while position < size:
        head = os.pread(file.fileno(), _PLACE.size + BATCH_OVERHEAD, position)
        number, header = int.from_bytes(head[: _PLACE.size]), head[_PLACE.size :]
        batch = read_header(header)
        if number >= len(staged.places):
            raise DamagedFile(f"{path}, byte {position}: a batch for place {number} of {len(staged.places)}")
        records[number] += batch.record_count
        position += len(head)
        in_file = FileSlice(file, position, batch.size_bytes - BATCH_OVERHEAD)
        yield staged.places[number].partition, BatchInFile(header, in_file)
        position += in_file.size_bytes
    # Where a batch goes no checksum holds.
    for place, count in zip(staged.places, records, strict=True):
        if count != place.proof.count:
            raise DamagedFile(
                f"{path} has {count} records for {place.partition}, and its task wrote {place.proof.count}"
            )


def forget(options: TopicOptions, batch_id: int) -> None:
    """Deletes what tasks of this application left for batches up to this one: they are decided, and nobody sends them."""
    for path in staged_directory(options).glob(f"{_prefix(options.app_id)}-*"):
        if int(path.name.split("-")[1]) <= batch_id:
            path.unlink(missing_ok=True)


def discard(options: TopicOptions, staged: Iterable[Staged]) -> None:
    for one in staged:
        (staged_directory(options) / one.name).unlink(missing_ok=True)


def staged_directory(options: TopicOptions) -> Path:
    return Path(options.directory) / "staged"


def _prefix(app_id: str) -> str:
    return blake2b(app_id.encode(), digest_size=8).hexdigest()
