"""Tails that were cut off because of an unclean election, kept as files that a person can read back.

A follower cuts what its leader does not have. Mostly that was never acknowledged to anybody. Behind a leader from
outside the ISR it may have been, and then the cut is the moment in which records are lost: so they are copied first,
into `<topic>-<partition>/truncated/<first offset>-<time>/`, as segment files that `odradek log dump` reads.
Nothing reads them again by itself; they go with the partition, or by hand. Apache's brokers pass directories in a
partition's directory over.

Without room for it, twice over, the tail is not kept: a full disk would take every partition on it offline.
"""

from typing import TYPE_CHECKING

from odradek.log.errors import StorageError
from odradek.log.segment import LOG_SUFFIX, file_name

if TYPE_CHECKING:
    from odradek.log.partition_log import PartitionLog

TAILS = "truncated"
CHUNK_BYTES = 1 << 20


def keep_tail(log: "PartitionLog", offset: int, now_ms: int) -> str:
    """Copies whatever `truncate_to(offset)` would cut off. A sentence that says where it is, or why it is not."""
    assert offset < log.log_end_offset, "there is nothing to cut"
    try:
        return _keep_tail(log, offset, now_ms)
    except StorageError as error:
        raise log.broken(error) from None


def _keep_tail(log: "PartitionLog", offset: int, now_ms: int) -> str:
    segments = log.segments.since(max(offset, log.log_start_offset))
    position = segments[0].position_of(max(offset, log.log_start_offset))
    size_bytes = sum(segment.file.size_bytes for segment in segments) - position
    _, free_bytes = log.directory.space()
    if free_bytes < 2 * size_bytes:
        return f"not kept: {size_bytes} bytes, and {free_bytes} are free on {log.directory.path}"
    name = f"{offset:020d}-{now_ms}"
    directory = log.directory.make(TAILS).make(name)
    base_offset = offset
    for segment in segments:
        end = segment.file.size_bytes
        if position < end:
            for _, header in segment.headers(position):
                base_offset = header.base_offset
                break
            copy = directory.open(file_name(base_offset, LOG_SUFFIX), create=True)
            while position < end:
                chunk = segment.file.read_at(position, min(CHUNK_BYTES, end - position))
                copy.append(chunk)
                position += len(chunk)
            copy.sync()
        position = 0
    directory.sync()
    return f"kept in {directory.path}: {size_bytes} bytes"
