"""One cleaning of one log: of a snapshot of its closed segments, while the log goes on.

`build_map` and `write_segment` are walked by a thread, and may be abandoned between any two steps: what was written is
thrown away then, and the log has changed in nothing. Only `put` does, on the loop, and only where the segments are still those
that were read. A crash leaves the old segments or the new one (`cleaned_segment`). The work itself is done by `Passes`.
"""

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import TYPE_CHECKING

from odradek.log.cleaned_segment import CleanedSegment, remove_unfinished
from odradek.log.compaction.passes import CleaningJob, Passes
from odradek.log.files import Directory
from odradek.log.indexes import TransactionIndex

if TYPE_CHECKING:
    from odradek.log.partition_log import PartitionLog
    from odradek.log.segment import Segment


PassesOf = Callable[[CleaningJob, Directory], Passes]


class Cleaning:
    """Yields are numbers of bytes read and written since the last one, for whoever holds it to a rate."""

    def __init__(
        self, log: "PartitionLog", segments: Sequence["Segment"], job: CleaningJob, passes_of: PassesOf
    ) -> None:
        """`segments` are those of the job, whose `aborted` are not looked up yet: that may read a file."""
        self.log = log
        self.end_offset = job.first_dirty  # the next checkpoint, once all is put in place
        # Of the log when the last segment was put: a cut since takes the checkpoint back.
        self.generation: int
        self.bytes_read = 0
        self.bytes_written = 0
        self._directory_path = log.directory.path
        self._segments = segments
        sources = [source for group in job.groups for source in group]
        # Those that are not replaced yet, as they were.
        self._left = list(zip(segments, sources, strict=True))
        self._job = job
        self._groups = list(job.groups)
        self._passes_of = passes_of
        self._passes: Passes | None = None
        self._made: tuple[Sequence[Segment], CleanedSegment] | None = None

    @property
    def is_of_what_is_there(self) -> bool:
        """The log has what is not replaced yet still, as it was and where it was: not cut, not deleted, not moved."""
        there = set(self.log.segments)
        return self.log.directory.path == self._directory_path and all(
            segment in there and segment.end_offset == source.end_offset for segment, source in self._left
        )

    def build_map(self) -> Generator[int]:
        """As of `Passes`."""
        log, job = self.log, self._job
        self._sync(self._segments)
        aborted = log.aborted_apart(job.groups[0][0].base_offset, job.end)
        passes = self._passes_of(job._replace(aborted=TransactionIndex(aborted)), log.directory)
        built = yield from passes.build_map()
        if built.is_amid_transaction:
            # The later value counts by a marker further on, perhaps in the active segment.
            self._sync(log.segments[:])
        self.end_offset = built.end_offset
        self._groups = [group for group in self._groups if group[0].base_offset < built.end_offset]
        self._passes = passes

    def _sync(self, segments: Iterable["Segment"]) -> None:
        """Blocks. A value goes because a later one is there. Were the later one not on the disk, a power cut would take that,
        and the former one, which was flushed long ago, would be gone too."""
        log = self.log
        unflushed = [one for one in segments if one.end(log.log_end_offset) > log.recovery_point]
        for segment in unflushed:
            segment.file_apart().sync()
        if unflushed:
            log.directory.sync()

    @property
    def is_done(self) -> bool:
        return self._passes is not None and not self._groups and self._made is None

    def write_segment(self) -> Generator[int]:
        """As of `Passes`; `put` follows."""
        assert self._passes is not None and self._groups and self._made is None
        directory = self.log.directory
        group = self._groups.pop(0)
        bases = {source.base_offset for source in group}
        old = [segment for segment in self._segments if segment.base_offset in bases]
        try:
            made = yield from self._passes.write_segment()
        except BaseException:  # an abandoned walk, too: GeneratorExit
            remove_unfinished(directory, group[0].base_offset)
            raise
        assert (made.base_offset, made.end_offset) == (group[0].base_offset, group[-1].end_offset)
        self.bytes_read += sum(source.size_bytes for source in group)
        self.bytes_written += made.size_bytes
        self._made = old, CleanedSegment.of(directory, made)

    def put(self) -> bool:
        """On the loop. False: the log was cut, or its segments were deleted meanwhile; nothing has happened, and this is over."""
        assert self._made is not None
        old, cleaned = self._made
        self._made = None
        self.generation = self.log.flushed.generation
        if not self.log.replace_segments(old, cleaned):
            return False
        self._left = self._left[len(old) :]
        return True
