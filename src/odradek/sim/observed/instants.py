"""Where a log has which time, by its files: what ListOffsets by timestamp is to find."""

from collections.abc import Iterable
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


def instants(log: PartitionLog) -> list[int]:
    """Milliseconds since 1970 that are worth asking for: the time of a record in the middle, the latest, and one that is later than all."""
    times_ms = [one.timestamp for one in _records(log)]
    if not times_ms:
        return []
    latest_ms = max(times_ms)
    worth_asking = dict.fromkeys((times_ms[len(times_ms) // 2], latest_ms, latest_ms + 1))
    return [asked_ms for asked_ms in worth_asking if asked_ms >= 0]  # the others have a meaning of their own


def found_at(log: PartitionLog, high_watermark: int, instants_ms: Iterable[int]) -> dict[int, Found]:
    """What is there at each: NONE where no committed record is as late."""
    records = _records(log)
    return {
        asked_ms: next(
            (one for one in records if one.timestamp >= asked_ms and one.offset < high_watermark), NONE
        )
        for asked_ms in instants_ms
    }


def _records(log: PartitionLog) -> list[Found]:
    """With those of markers."""
    return [one for _, file in segment_files(log) for one in _records_in(file, log.log_start_offset)]


def _records_in(file: Any, log_start_offset: int) -> list[Found]:
    data = memoryview(b"" if file is None else bytes(file.data))
    return [
        Found(record.offset, record.timestamp, header.leader_epoch)
        for position, header in iter_batches(data)
        for record in decode_batch(data, position)
        if record.offset >= log_start_offset
    ]
