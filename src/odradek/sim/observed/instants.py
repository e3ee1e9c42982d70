"""Where a log has which time, by its files: what ListOffsets by timestamp is to find."""

from typing import Any, NamedTuple

from odradek.log.partition_log import PartitionLog
from odradek.records.batch import iter_batches
from odradek.records.reader import decode_batch
from odradek.sim.observed.log_files import segment_files


class Found(NamedTuple):
    """The first record that is as late as was asked for, or later."""

    offset: int = -1
    timestamp: int = -1
    leader_epoch: int = -1


NONE = Found()


def instants(log: PartitionLog, high_watermark: int) -> dict[int, Found]:
    """Milliseconds since 1970 that are worth asking for -> what is there: the time of a record in the middle, the latest, and one that
    is later than all."""
    records = [one for _, file in segment_files(log) for one in _records(file, log.log_start_offset)]
    if not records:
        return {}
    latest = max(one.timestamp for one in records)
    return {
        asked_ms: next(
            (one for one in records if one.timestamp >= asked_ms and one.offset < high_watermark), NONE
        )
        for asked_ms in (records[len(records) // 2].timestamp, latest, latest + 1)
        if asked_ms >= 0  # the others have a meaning of their own
    }


def _records(file: Any, log_start_offset: int) -> list[Found]:
    """With those of markers."""
    data = memoryview(b"" if file is None else bytes(file.data))
    return [
        Found(record.offset, record.timestamp, header.leader_epoch)
        for position, header in iter_batches(data)
        for record in decode_batch(data, position)
        if record.offset >= log_start_offset
    ]
