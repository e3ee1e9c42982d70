"""Tails that were cut off because of an unclean election, kept as files that a person can read back.

A follower cuts what its leader does not have. Mostly that was never acknowledged to anybody. Behind a leader from
outside the ISR it may have been, and then the cut is the moment in which records are lost: so they are copied first,
into `<topic>-<partition>/truncated/<first offset>-<time>/`, as segment files that `odradek log dump` reads.
Nothing reads them again by itself; they go with the partition, or by hand. Apache's brokers pass directories in a
partition's directory over.

Without room for it, twice over, the tail is not kept: a full disk would take every partition on it offline.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from odradek.log.errors import MissingFile, StorageError
from odradek.log.files import Directory, FileSlice
from odradek.log.segment import LOG_SUFFIX, Segment, file_name
from odradek.log.steps import Steps

if TYPE_CHECKING:
    from odradek.log.partition_log import PartitionLog

TAILS = "truncated"
CHUNK_BYTES = 1 << 20
# Of one piece of work, which is synced: others wait for the same thread.
PIECE_BYTES = 4 << 20


def keeping_tail(log: "PartitionLog", offset: int, now_ms: int) -> Steps[str]:
    """Copies whatever `truncate_to(offset)` would cut off, in a thread. A sentence that says where it is, or why it is not."""
    assert offset < log.log_end_offset, "there is nothing to cut"
    try:
        return (yield from _keeping_tail(log, offset, now_ms))
    except StorageError as error:
        raise log.broken(error) from None


def _keeping_tail(log: "PartitionLog", offset: int, now_ms: int) -> Steps[str]:
    segments = log.segments.since(max(offset, log.log_start_offset))
    position = segments[0].position_of(max(offset, log.log_start_offset))
    sizes = [segment.size_bytes for segment in segments]
    size_bytes = sum(sizes) - position
    _, free_bytes = log.directory.space()
    if free_bytes < 2 * size_bytes:
        return f"not kept: {size_bytes} bytes, and {free_bytes} are free on {log.directory.path}"
    name = f"{offset:020d}-{now_ms}"
    for segment, size in zip(segments, sizes, strict=True):
        if position < size:
            copying = _Copying(log.directory, name, segment, position, size)
            while not copying.is_over:
                came: StorageError | bool = yield copying
                if isinstance(came, MissingFile) and segment not in log.segments:
                    break  # retention has let it go meanwhile
                if isinstance(came, StorageError):
                    raise came
        position = 0
    return f"kept in {log.directory.path}/{TAILS}/{name}: {size_bytes} bytes"


class _Copying:
    """A segment from a position on. `run` copies a piece of it, in a thread; its name, and those above it up to the log's own
    directory, are synced with the last one: the cut that follows is, with the next flush, and that syncs no directory below."""

    def __init__(self, home: Directory, name: str, segment: Segment, position: int, end: int) -> None:
        self.is_over = False
        self._pieces = self._copied(home, name, segment, position, end)

    def run(self) -> StorageError | bool:
        """True, or what went wrong, as a value."""
        try:
            self.is_over = next(self._pieces, None) is None
        except StorageError as error:
            return error
        return True

    def _copied(self, home: Directory, name: str, segment: Segment, position: int, end: int) -> Iterator[int]:
        source = segment.file_apart()
        # Void once it is cut: whoever asked for the copy may be out of office by then, and what follows keeps no tail.
        tail = FileSlice(source, position, end - position)
        begin = position
        tails = home.make(TAILS)
        directory = tails.make(name)
        # Named by its first batch, whose first field is its base offset.
        base_offset = int.from_bytes(source.read_at(position, 8), "big")
        copy = directory.open(file_name(base_offset, LOG_SUFFIX), create=True)
        piece_end = position
        while position < end:
            piece_end = min(position + PIECE_BYTES, end)
            while position < piece_end:
                chunk = tail.read_piece(position - begin, min(CHUNK_BYTES, piece_end - position))
                copy.append(chunk)
                position += len(chunk)
            copy.sync()
            if position < end:
                yield position
        for above in (directory, tails, home):
            above.sync()
