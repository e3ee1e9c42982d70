"""What a task of the sink into topics does: rows become record batches in files that nobody knows of yet.

    DIRECTORY/staged/PREFIX-BATCH-UUID-NUMBER

holds, for each batch, the number of its place and the batch; the message to the driver tells which places these are.

A task writes several files, so that each can go when its batches are acknowledged: the pages it had take what the broker appends next,
and a transaction needs no more than a part of its size beside the log. It is never sent again: what is aborted tasks write anew.
"""

import os
import re
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from struct import Struct
from typing import BinaryIO, NamedTuple, Self

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

from odradek.client.produce_pieces import FileSlice
from odradek.client.sync_transaction import BatchInFile
from odradek.model.errors import ConfigurationError, OdradekError
from odradek.model.ids import TopicPartition
from odradek.records.batch import BATCH_OVERHEAD, read_header
from odradek.spark.cannot_write import NotShared, told
from odradek.spark.encode import Places, encoded, records_of, slices_of
from odradek.spark.fingerprint import EMPTY, Fingerprint
from odradek.spark.freed_memory import keep_freed_memory
from odradek.spark.micro_batch import current_query_id, current_run_id
from odradek.spark.open_files import OpenFiles
from odradek.spark.reading import client_for
from odradek.spark.subscription import topic_to_write
from odradek.spark.topic_options import TopicOptions

SLICE_BYTES = 16 << 20
# A file has a slice at least, and an eighth of what its task has written, so that a task has few.
_SHARE = 8
# A write may take long, and a file of its first task waits for the last.
_LEFT_AFTER_S = 7 * 86_400
_PLACE = Struct(">I")
_OURS = re.compile(r"[0-9a-f]{16}-[0-9]{10,}-[0-9a-f]{32}-[0-9]+")  # application, batch, task, file


class DamagedFile(OdradekError):
    """A file is not as its task left it."""


class StagedPlace(NamedTuple):
    """What a task has for a partition: how many records, and their fingerprint."""

    partition: TopicPartition
    proof: Fingerprint


class Staged(WriterCommitMessage):
    """What a task tells the driver: its files and what is in them, never the rows."""

    def __init__(self, name: str, sizes: Iterable[int], places: Iterable[StagedPlace]) -> None:
        self.name = name
        self.sizes = tuple(sizes)  # in bytes, of each file
        self.places = tuple(places)  # by their numbers in the files
        self.query_id = current_query_id()
        self.run_id = current_run_id()  # of the query

    @property
    def size_bytes(self) -> int:
        return sum(self.sizes)

    @property
    def files(self) -> list[str]:
        return [_name_of(self.name, number) for number in range(len(self.sizes))]


class _Files:
    """What a task writes, in files that are removed where it fails."""

    def __init__(self, directory: Path, name: str) -> None:
        self._directory, self._name = directory, name
        self.sizes: list[int] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            for number in range(len(self.sizes)):
                (self._directory / _name_of(self._name, number)).unlink(missing_ok=True)

    @contextmanager
    def slice(self) -> Iterator[BinaryIO]:
        """Where a slice goes: into a new file, unless the last one is below its share."""
        if not self.sizes or self.sizes[-1] >= sum(self.sizes) // _SHARE:
            self.sizes.append(0)
        with open(self._directory / _name_of(self._name, len(self.sizes) - 1), "ab") as file:
            yield file
            self.sizes[-1] = file.tell()


class _Sent:
    """A file of a task while its batches are being sent; it goes with the last of them."""

    def __init__(self, path: Path, files: OpenFiles) -> None:
        self._path, self._files = path, files
        self.batches = 0

    def opened(self) -> BinaryIO:
        try:
            return self._files.opened(self._path)
        except FileNotFoundError:
            raise NotShared(
                f"{self._path} is not there, which a task has just written: the option directory has to name one that executors "
                f"and driver share, or another driver of the application has taken the batch: end one of the two"
            ) from None
        except OSError as error:
            raise DamagedFile(f"{self._path} cannot be read: {error.strerror}") from error

    def acknowledged(self) -> None:
        self.batches -= 1
        if not self.batches:
            self._files.close(self._path)
            with suppress(OSError):  # whoever forgets the batch tries again, and says why not
                self._path.unlink(missing_ok=True)


def stage(batches: Iterable[pa.RecordBatch], options: TopicOptions, *, batch_id: int) -> Staged:
    keep_freed_memory()
    options.kill_switch.at("before-write", batch_id)
    client = client_for(options.connection)
    counts: dict[str, int] = {}

    def partitions(topic: str) -> int:
        if topic == options.progress_topic:
            raise ConfigurationError(
                f"a row is for topic {topic}, where sinks note their progress; rows need a topic of their own"
            )
        if topic not in counts:
            counts[topic] = len(topic_to_write(client, topic, "topic").partitions)
        return counts[topic]

    name = f"{_prefix(options.app_id)}-{batch_id:010d}-{uuid.uuid4().hex}"
    directory = staged_directory(options)
    with told(directory, batch_id, "the topic"):
        directory.mkdir(parents=True, exist_ok=True)
    numbers: dict[TopicPartition, int] = {}
    proofs: dict[TopicPartition, Fingerprint] = {}
    keyless_from = int(uuid.uuid4())
    with _Files(directory, name) as files:
        for rows in slices_of(iter(batches), SLICE_BYTES):
            found = encoded(
                records_of(rows, options.topic),
                Places(options.topic, partitions),
                codec=options.codec,
                now_ms=int(time.time() * 1000),
                keyless_from=keyless_from % (1 << 31),
            )
            keyless_from += 1
            with told(directory, batch_id, "the topic"), files.slice() as file:
                for batches, of_them in found:
                    for batch in batches:
                        number = numbers.setdefault(batch.partition, len(numbers))
                        file.write(_PLACE.pack(number) + batch.header)
                        file.write(batch.body)
                    for where, proof in of_them:
                        proofs[where] = proofs.get(where, EMPTY) + proof
    options.kill_switch.at("after-write", batch_id)
    return Staged(name, files.sizes, [StagedPlace(where, proofs[where]) for where in numbers])


def staged_batches(
    options: TopicOptions, staged: Staged, files: OpenFiles
) -> Iterator[tuple[TopicPartition, BatchInFile]]:
    """The batches of a task, as they lie in its files. Of records nothing is read."""
    records = [0] * len(staged.places)
    for name, size in zip(staged.files, staged.sizes, strict=True):
        yield from _batches_of(staged_directory(options) / name, size, staged.places, records, files)
    # Where a batch goes no checksum holds.
    for place, count in zip(staged.places, records, strict=True):
        if count != place.proof.count:
            raise DamagedFile(
                f"{staged_directory(options) / staged.name}-* has {count} records for {place.partition}, and its task wrote "
                f"{place.proof.count}"
            )


def _batches_of(
    path: Path, wrote_bytes: int, places: Sequence[StagedPlace], records: list[int], files: OpenFiles
) -> Iterator[tuple[TopicPartition, BatchInFile]]:
    """Of one file. `records` counts those of each place."""
    sent = _Sent(path, files)
    file = sent.opened()
    size = os.fstat(file.fileno()).st_size
    if size != wrote_bytes:
        raise DamagedFile(f"{path} has {size} bytes, and its task wrote {wrote_bytes}")
    position = 0
    while position < size:
        head = os.pread(file.fileno(), _PLACE.size + BATCH_OVERHEAD, position)
        number, header = int.from_bytes(head[: _PLACE.size]), head[_PLACE.size :]
        batch = read_header(header)
        if number >= len(places):
            raise DamagedFile(f"{path}, byte {position}: a batch for place {number} of {len(places)}")
        records[number] += batch.record_count
        position += len(head)
        in_file = FileSlice(sent, position, batch.size_bytes - BATCH_OVERHEAD)
        sent.batches += 1
        yield places[number].partition, BatchInFile(header, in_file, sent.acknowledged)
        position += in_file.size_bytes


def forget(options: TopicOptions, batch_id: int) -> None:
    """Deletes what tasks of this application left for batches up to this one: they are decided, and nobody sends them."""
    for path in staged_directory(options).glob(f"{_prefix(options.app_id)}-*"):
        if int(path.name.split("-")[1]) <= batch_id:
            path.unlink(missing_ok=True)


def sweep(options: TopicOptions) -> None:
    """Deletes what nobody has written to for a week: of writes that were killed and had no id, by which a later one would find it.
    A directory that was named may have other files there."""
    before = time.time() - _LEFT_AFTER_S
    for path in staged_directory(options).glob("*"):
        if not _OURS.fullmatch(path.name):
            continue
        with suppress(OSError):  # somebody else was faster, or may do it
            if path.stat().st_mtime < before:
                path.unlink()


def discard(options: TopicOptions, staged: Iterable[Staged]) -> None:
    for one in staged:
        for name in one.files:
            (staged_directory(options) / name).unlink(missing_ok=True)


def _name_of(task: str, number: int) -> str:
    return f"{task}-{number}"


def staged_directory(options: TopicOptions) -> Path:
    return Path(options.directory) / "staged"


def _prefix(app_id: str) -> str:
    return blake2b(app_id.encode(), digest_size=8).hexdigest()
