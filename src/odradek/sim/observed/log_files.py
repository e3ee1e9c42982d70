"""The files of simulated brokers' logs as they lie on disks in memory: none is opened, so no fault is met and no descriptor is taken."""

from typing import Any

from odradek.log import checkpoints
from odradek.log.partition_log import PartitionLog
from odradek.log.segment import LOG_SUFFIX, file_name
from odradek.model.ids import TopicPartition
from odradek.records.batch import check_crc, iter_batches
from odradek.records.errors import CorruptBatch, OldMessageFormat


def entries_of(directory: Any) -> dict[str, Any]:
    """What stands in a `MemoryDirectory`, by name."""
    entries: dict[str, Any] = directory.disk._node(directory._parts).entries
    return entries


def segment_files(log: PartitionLog) -> list[tuple[int, Any]]:
    """(base offset, file) of each; None where there is no file."""
    entries = entries_of(log.directory)
    bases = [segment.base_offset for segment in log.segments]
    return [(base, entries.get(file_name(base, LOG_SUFFIX))) for base in bases]


def newest_ms(file: Any) -> int:
    """The largest timestamp of the records in the file of a segment; -1: they have none, or there is no file. CorruptBatch: a disk
    has damaged it, and what stands there is not what was written."""
    data = memoryview(b"" if file is None else bytes(file.data))
    newest = -1
    try:
        for position, header in iter_batches(data):
            if not check_crc(data, position, header):
                raise CorruptBatch(f"batch at offset {header.base_offset} does not fit its checksum")
            newest = max(newest, header.largest_timestamp)
    except OldMessageFormat as error:  # it may have any magic by now
        raise CorruptBatch(error.message) from None
    return newest


def offsets_in(entries: dict[str, Any], name: str) -> dict[TopicPartition, int]:
    """What the checkpoint of that name says; nothing where there is none."""
    file = entries.get(name)
    return {} if file is None else dict(checkpoints.read_offsets(bytes(file.data), name))
