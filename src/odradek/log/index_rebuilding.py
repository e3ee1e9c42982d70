"""The index files of a segment, built again from its batches by a thread: they were removed, or damaged, under a running broker.

A segment of a gigabyte has ten million small batches, so the loop does not walk over them: a lookup is refused with
`IndexPending`, the thread reads a piece at a time, and the loop puts the files in their place. Whatever happens to the log
meanwhile, it keeps the files it has then.
"""

from odradek.log.errors import MissingFile, StorageError
from odradek.log.files import TEMPORARY_SUFFIX, File
from odradek.log.log_state import LogState
from odradek.log.prepared_files import PreparedFiles
from odradek.log.scan import scan_headers
from odradek.log.segment import DENSE_INTERVAL_BYTES, Segment, lacks_records

# Of one piece of work: a few tens of milliseconds, for others wait for the same thread.
BATCHES_A_PIECE = 4_000
# Of the active segment, what came while the thread was at work: the loop looks at it as it takes the index.
LAST_BYTES = 1 << 15
# Not `.tmp` alone: a cut prepares files of the same names.
REBUILT_SUFFIX = ".rebuilt" + TEMPORARY_SUFFIX


class Rebuild:
    """Work for a thread, until `is_over`; then `put`."""

    def __init__(self, log: LogState, segment: Segment) -> None:
        self.log = log
        self.segment = segment
        self.is_over = False
        self.notice = ""  # what is to be said of it
        self._generation = log.flushed.generation
        self._end_offset = segment.end_offset
        self._files = PreparedFiles(segment.directory, REBUILT_SUFFIX)

    @property
    def is_wanted(self) -> bool:
        """The segment is what it was when it was asked for."""
        log, segment = self.log, self.segment
        return (
            log.failure is None
            and log.flushed.generation == self._generation
            and segment.end_offset == self._end_offset
            and segment in log.segments
        )

    def run(self) -> StorageError | bool:
        """A piece of it; True, or what went wrong, as a value."""
        try:
            self._do_a_piece()
        except StorageError as error:
            return error
        return True

    def put(self) -> bool:
        """In the loop. False: the active segment has grown too far meanwhile, and the thread has to read on."""
        if not self.is_wanted:
            self.give_up()
            return True
        return self._put()

    def give_up(self) -> None:
        self._files.remove()

    def failed(self, error: StorageError) -> None:
        """What came of `run`."""
        if not (isinstance(error, MissingFile) and self._has_lost_segments()) and self.is_wanted:
            self.log.broken(error)

    def _has_lost_segments(self) -> bool:
        """One of those that are read is none any more."""
        return self.segment not in self.log.segments

    def _do_a_piece(self) -> None:
        raise NotImplementedError

    def _put(self) -> bool:
        raise NotImplementedError


class IndexRebuild(Rebuild):
    def __init__(self, log: LogState, segment: Segment) -> None:
        super().__init__(log, segment)
        self.notice = f"the indexes of segment {segment.base_offset} are missing, damaged or too thin: built again from its batches"
        self._interval_bytes = min(log.config.index_interval_bytes, DENSE_INTERVAL_BYTES)
        self._known = Segment(segment.directory, segment.base_offset, segment.created_ms, segment.end_offset)
        self._known.make_index_in_memory()
        self._expected = segment.base_offset
        self._has_gaps = False
        self._file: File | None = None
        self._position = 0

    def _do_a_piece(self) -> None:
        if self._file is None:
            self._file = self.segment.file_apart()
        self.is_over = self._walk(self._file, BATCHES_A_PIECE)
        if self.is_over and self._known.end_offset >= 0:
            self._known.prepare_indexes(self._files)

    def _walk(self, file: File, most: int) -> bool:
        """Whether that was the rest."""
        known = self._known
        for position, header in scan_headers(file, self._position, file.size_bytes):
            if not most:
                return False
            most -= 1
            if lacks_records(header, self._expected):
                self._has_gaps = True
            self._expected = header.next_offset
            known.note_header(position, header, self._interval_bytes)
            self._position = position + header.size_bytes
        return True

    def _put(self) -> bool:
        segment, known = self.segment, self._known
        if segment.end_offset < 0:
            if segment.file.size_bytes - self._position > LAST_BYTES:
                self.is_over = False
                return False
            self._walk(segment.file, LAST_BYTES)
        else:
            for name in self._files.put():
                self.log.flushed.name_changed(name)
        segment.take_indexes(known, has_gaps=self._has_gaps)
        return True
