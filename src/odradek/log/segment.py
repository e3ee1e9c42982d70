"""One segment: a `.log` file of batches, and the index files beside it.

The newest segment of a log is active: appended to, its index entries in memory. When it is rolled they are written
to their files and looked up there. What is cold is opened when it is first asked for.
"""

from collections.abc import Iterator
from itertools import chain, islice
from struct import Struct
from typing import NamedTuple

from odradek.log.errors import CorruptLog, MissingFile, StorageError
from odradek.log.files import Directory, File, Mark
from odradek.log.indexes import (
    MAX_RELATIVE_OFFSET,
    OFFSET_ENTRY,
    TIME_ENTRY,
    TRANSACTION_ENTRY,
    AbortedTransaction,
    OffsetIndex,
    TimeIndex,
    TransactionIndex,
    ceiling_in_file,
    floor_in_file,
    floor_offset_in_file,
    last_in_file,
    transaction_to_bytes,
    transactions_to_bytes,
)
from odradek.log.prepared_files import PreparedFiles
from odradek.log.scan import HEADER_WINDOW, scan_headers
from odradek.records.batch import BATCH_OVERHEAD, LOG_OVERHEAD, MAGIC, BatchHeader

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TRANSACTION_INDEX_SUFFIX = ".txnindex"
SNAPSHOT_SUFFIX = ".snapshot"
DELETED_SUFFIX = ".deleted"
SUFFIXES = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)

# Of a header, only what a search needs: base offset, length, magic, last offset delta.
_BATCH_HEAD = Struct(">qi4xb6xi")
_batch_head = _BATCH_HEAD.unpack_from
SMALLEST_LENGTH = BATCH_OVERHEAD - LOG_OVERHEAD
# Batches of the active segment whose position is known without looking: more than a follower ever lags when it
# is in sync, so that fetches and high watermarks at the end of the log cost one dictionary lookup.
REMEMBERED_POSITIONS = 2048
# Of an index that is built again.
DENSE_INTERVAL_BYTES = 4096
# Aborted transactions whose index is read at once, some 5 ms: those of a larger one are read by a thread.
MOST_READ_AT_ONCE = 20_000
# What the loop looks at behind an index entry, in windows and in headers: more is there only where entries are missing.
MOST_WINDOWS = 64
MOST_HEADERS = 8_000


def is_offset(stem: str) -> bool:
    """Of the name of a file, without its suffix. `str.isdigit` alone is no answer: a superscript is no number for `int`."""
    return stem.isascii() and stem.isdigit()


def file_name(base_offset: int, suffix: str) -> str:
    return f"{base_offset:020d}{suffix}"


class Cut(NamedTuple):
    """What is left of a segment that is to end at `end_offset`; all that had to be opened or read is in here."""

    position: int
    end_offset: int
    max_timestamp: int
    offset_of_max_timestamp: int
    transactions: TransactionIndex
    transaction_file: File | None  # where entries of it go


def lacks_records(header: BatchHeader, expected: int) -> bool:
    """Some are missing before the batch, which would begin at `expected`, or in it."""
    return header.base_offset != expected or header.record_count != header.last_offset_delta + 1


class IndexPending(StorageError):
    """An index of a segment is missing, damaged or too thin, and a thread has to build it again. Nothing has happened; who asks
    again later is answered."""

    def __init__(self, segment: "Segment") -> None:
        super().__init__(
            f"{segment.directory.path}/{segment.name()}: its indexes are missing or damaged, and are built again"
        )
        self.segment = segment


class TransactionsPending(IndexPending):
    """As IndexPending, of the aborted transactions of a segment: their index is not all that it was, or takes long to read."""


class Segment:
    __slots__ = (
        "_file",
        "_has_gaps",
        "_index_file",
        "_size_bytes",
        "_time_index_file",
        "_transactions",
        "base_offset",
        "bytes_since_index_entry",
        "created_ms",
        "directory",
        "end_offset",
        "first_timestamp",
        "had_no_transaction_index",
        "jitter_ms",
        "least_aborted",
        "max_timestamp",
        "offset_index",
        "offset_of_max_timestamp",
        "positions",
        "rebuilds_elsewhere",
        "time_index",
    )

    def __init__(self, directory: Directory, base_offset: int, created_ms: int, end_offset: int = -1) -> None:
        self.directory = directory
        self.base_offset = base_offset
        self.created_ms = created_ms
        self.end_offset = end_offset  # where the next segment begins; -1 while active
        self.jitter_ms = 0
        self.offset_index: OffsetIndex | None = None  # both None: cold, ask the files
        self.time_index: TimeIndex | None = None
        # Largest timestamp so far and the last offset of the first batch that has it; None: not looked up yet.
        self.max_timestamp: int | None = None
        self.offset_of_max_timestamp = -1
        self.first_timestamp: int | None = (
            None  # max timestamp of the first batch: rolling by time counts from it
        )
        self.bytes_since_index_entry = 0
        self.positions: dict[int, int] = {}  # offset of a batch -> where it begins
        self._file: File | None = None
        self._size_bytes = -1  # of the file while it is not open; -1: not looked up yet
        self._index_file: File | None = None
        self._time_index_file: File | None = None
        self._transactions: TransactionIndex | None = None
        self._has_gaps: bool | None = None  # while that was not looked up
        self.had_no_transaction_index = False  # as its log was opened
        self.least_aborted = 0  # aborted transactions that were in its index, by what the opening found
        self.rebuilds_elsewhere = False  # IndexPending instead of a walk over all batches

    @classmethod
    def create(
        cls, directory: Directory, base_offset: int, now_ms: int, *, is_fresh: bool = False
    ) -> "Segment":
        """Empty and active. What lies under its names is left over from a life that did not get further, and goes:
        a file written over could show its old pages again after a power cut. `is_fresh`: the directory is new.
        """
        if not is_fresh:
            for suffix in SUFFIXES:
                directory.remove(file_name(base_offset, suffix))
        return cls._empty(
            directory, base_offset, now_ms, directory.open(file_name(base_offset, LOG_SUFFIX), create=True)
        )

    @classmethod
    def prepare(cls, directory: Directory, base_offset: int, now_ms: int, files: PreparedFiles) -> "Segment":
        """As `create`, of files that are put in place later; until then what lies under its names stays."""
        return cls._empty(directory, base_offset, now_ms, files.write(file_name(base_offset, LOG_SUFFIX)))

    @classmethod
    def _empty(cls, directory: Directory, base_offset: int, now_ms: int, file: File) -> "Segment":
        segment = cls(directory, base_offset, now_ms)
        segment._file = file
        file.set_mark(Mark.LAST)
        segment.make_index_in_memory()
        segment._transactions = TransactionIndex()
        return segment

    def remove_leftovers(self) -> None:
        """Before prepared files are put in place: an index of a former incarnation would be taken for this one's."""
        for suffix in SUFFIXES:
            self.directory.remove(self.name(suffix))

    @property
    def file(self) -> File:
        file = self._file
        if file is None:
            file = self._file = self.directory.open(file_name(self.base_offset, LOG_SUFFIX))
        return file

    def file_apart(self) -> File:
        """For a thread beside the one that writes: the descriptor that is held, or one that nobody else will see. Were it
        to stay, a segment that becomes the active one meanwhile could be written at an end that is not its end."""
        file = self._file
        return self.directory.open(file_name(self.base_offset, LOG_SUFFIX)) if file is None else file

    @property
    def size_bytes(self) -> int:
        """Of the log file alone; not worth a descriptor while the segment is cold, and the disk is asked once."""
        file = self._file
        if file is not None:
            return file.size_bytes
        if self._size_bytes < 0:
            size = self.directory.size(file_name(self.base_offset, LOG_SUFFIX))
            if size is None:
                return self.file.size_bytes
            self._size_bytes = size
        return self._size_bytes

    @property
    def knows_its_size(self) -> bool:
        """Without a look at the disk."""
        return self._file is not None or self._size_bytes >= 0

    @property
    def is_cold(self) -> bool:
        """No descriptor of its log file is held."""
        return self._file is None

    def end(self, log_end_offset: int) -> int:
        """Where it ends: the active one where the log does."""
        return self.end_offset if self.end_offset >= 0 else log_end_offset

    def name(self, suffix: str = LOG_SUFFIX) -> str:
        return file_name(self.base_offset, suffix)

    # ---------------------------------------------------------------------------------------- appending

    def note_header(self, position: int, header: BatchHeader, index_interval_bytes: int) -> None:
        """`note_batch` of one that is there."""
        self.note_batch(
            position, header.size_bytes, header.next_offset, header.largest_timestamp, index_interval_bytes
        )

    def note_batch(
        self, position: int, size_bytes: int, next_offset: int, max_timestamp: int, index_interval_bytes: int
    ) -> None:
        """A batch was written at `position`; `next_offset` is the one behind its last."""
        last_offset = next_offset - 1
        assert (
            self.max_timestamp is not None and self.offset_index is not None and self.time_index is not None
        )
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.offset_of_max_timestamp = last_offset
        if self.first_timestamp is None:
            self.first_timestamp = max_timestamp
        if self.bytes_since_index_entry > index_interval_bytes:
            base_offset = self.base_offset
            self.offset_index.append(last_offset - base_offset, position)
            self.time_index.maybe_append(self.max_timestamp, self.offset_of_max_timestamp - base_offset)
            self.bytes_since_index_entry = 0
        self.bytes_since_index_entry += size_bytes
        positions = self.positions
        positions[next_offset] = position + size_bytes
        if len(positions) > REMEMBERED_POSITIONS:
            for offset in list(positions)[: REMEMBERED_POSITIONS // 2]:
                del positions[offset]

    def is_index_full(self, max_index_bytes: int) -> bool:
        return (
            self.offset_index is not None and len(self.offset_index) >= max_index_bytes // OFFSET_ENTRY.size
        )

    def can_hold(self, offset: int) -> bool:
        """Index entries keep offsets relative to the base, in 31 bits."""
        return offset - self.base_offset <= MAX_RELATIVE_OFFSET

    def become_inactive(self) -> list[str]:
        """The log goes on in another segment. Returns the names of the files written, not synced yet."""
        written = self.write_indexes()
        self.rely_on_index_files(self.end_offset)
        return written

    def rely_on_index_files(self, end_offset: int) -> None:
        """They say what memory knew, and are what is asked from now on."""
        self.end_offset = end_offset
        self.offset_index = self.time_index = None
        self._index_file = self._time_index_file = None
        self.positions = {}

    def write_indexes(self) -> list[str]:
        files = PreparedFiles(self.directory)
        self.prepare_indexes(files)
        return files.put()

    def prepare_indexes(self, files: PreparedFiles) -> None:
        """The index files say what memory knows; the last time entry is the largest timestamp of all."""
        for name, data in self._indexes():
            files.write(name, data)

    @property
    def indexes_are_written(self) -> bool:
        """The files have what `write_indexes` would write."""
        return all(self.directory.read(name) == data for name, data in self._indexes())

    def _indexes(self) -> list[tuple[str, bytes]]:
        if self.offset_index is None or self.time_index is None or self.max_timestamp is None:
            return []
        self.time_index.maybe_append(self.max_timestamp, self.offset_of_max_timestamp - self.base_offset)
        return [
            (self.name(INDEX_SUFFIX), self.offset_index.to_bytes()),
            (self.name(TIME_INDEX_SUFFIX), self.time_index.to_bytes()),
        ]

    # ---------------------------------------------------------------------------------------- searching

    def position_of(self, offset: int) -> int:
        """Where the first batch begins that ends at `offset` or behind it; the size of the file if none does. CorruptLog where that is
        because another one says that it ends before it does."""
        known = self.positions.get(offset)
        if known is not None:
            return known
        relative, position = self._floor(offset - self.base_offset)
        file = self.file
        data = file.read_at(position, HEADER_WINDOW) if position >= 0 else b""
        if position and not self._is_indexed_batch(data, position, self.base_offset + relative):
            self._rebuild()
            relative, position = self._floor(offset - self.base_offset)
            data = file.read_at(position, HEADER_WINDOW)
        first = position
        end = file.size_bytes
        at = 0
        last = len(data) - BATCH_OVERHEAD  # where a batch may begin at the latest
        windows = MOST_WINDOWS if self.rebuilds_elsewhere and self.offset_index is None else -1
        while True:
            if at > last:
                position += at
                if position >= end:
                    self._check_passed(first, end)
                    return end
                if not windows:
                    raise IndexPending(self)
                windows -= 1
                data = file.read_at(position, HEADER_WINDOW)
                at = 0
                last = len(data) - BATCH_OVERHEAD
                if last < 0:
                    raise self.corrupt(position, f"{len(data)} bytes are no batch")
            base, length, magic, delta = _batch_head(data, at)
            if magic != MAGIC or length < SMALLEST_LENGTH:
                raise self.corrupt(position + at, f"magic {magic}, length {length}")
            if base + delta >= offset:
                if base > offset:
                    self._check_passed(first, position + at)
                return position + at
            at += length + LOG_OVERHEAD

    def _check_passed(self, position: int, end: int) -> None:
        """CorruptLog where a batch between these positions cannot end where it says: it has more records than offsets. What a search
        finds behind a gap it would else find behind records that are there."""
        for at, header in scan_headers(self.file, position, end):
            if header.record_count > header.last_offset_delta + 1:
                raise self.corrupt(
                    at, f"{header.record_count} records, last offset delta {header.last_offset_delta}"
                )

    def check_reach(self, position: int, log_end_offset: int) -> None:
        """CorruptLog where the batch that begins at `position` says that it reaches beyond the base offset of the next one, or the end."""
        found = [header for _, header in islice(self.headers(position), 2)]
        limit = found[1].base_offset if len(found) > 1 else self.end(log_end_offset)
        if found and found[0].next_offset > limit:
            raise self.corrupt(position, f"it ends with {found[0].last_offset}, and {limit} is behind it")

    def position_before(self, offset: int) -> int:
        """Where some batch begins that ends before `offset`: by the index, so near the last of them. Else 0."""
        for _ in range(2):
            relative, position = self._floor(offset - 1 - self.base_offset)
            if position <= 0:
                return 0
            data = self.file.read_at(position, BATCH_OVERHEAD)
            if self._is_indexed_batch(data, position, self.base_offset + relative):
                return position
            self._rebuild()
        return 0

    def _floor(self, relative_offset: int) -> tuple[int, int]:
        if self.offset_index is not None:
            return self.offset_index.floor(relative_offset)
        return floor_offset_in_file(self._open_index(), relative_offset, self.end_offset - self.base_offset)

    def _open_index(self) -> File:
        if self._index_file is None:
            if not self.directory.exists(self.name(INDEX_SUFFIX)):
                self._rebuild()
            file = self.directory.open(self.name(INDEX_SUFFIX))
            if file.size_bytes % OFFSET_ENTRY.size or self._index_lies(file):
                self._rebuild()
                file = self.directory.open(self.name(INDEX_SUFFIX))
            self._index_file = file
        return self._index_file

    def _index_lies(self, index: File) -> bool:
        """A look at the last entry: zeros behind the entries (a torn or preallocated file), or beyond the log."""
        if index.size_bytes == 0:
            return False
        relative, position = last_in_file(index, OFFSET_ENTRY)
        return not (relative >= 0 and 0 < position < self.file.size_bytes)

    def _batch_stands_at(self, position: int, last_offset: int) -> bool:
        """Whether a batch begins here that may be the one an index entry with this offset meant."""
        return position >= 0 and self._is_indexed_batch(
            self.file.read_at(position, BATCH_OVERHEAD), position, last_offset
        )

    def _is_indexed_batch(self, data: bytes, position: int, last_offset: int) -> bool:
        if len(data) < BATCH_OVERHEAD:
            return False
        base, length, magic, delta = _BATCH_HEAD.unpack_from(data, 0)
        # Apache up to 3.9 names the last offset of a whole append, so the batch may end before it.
        return bool(
            magic == MAGIC
            and length >= BATCH_OVERHEAD - LOG_OVERHEAD
            and self.base_offset <= base
            and delta >= 0
            and base + delta <= last_offset
            and position + length + LOG_OVERHEAD <= self.file.size_bytes
        )

    def offset_behind(self, position: int, log_end_offset: int) -> int:
        """An offset that no batch which begins before `position` reaches: of the next batch that the index knows, or the end."""
        if self.offset_index is not None:
            relative, at = self.offset_index.ceiling(position)
        else:
            relative, at = ceiling_in_file(self._open_index(), position)
        if relative >= 0 and self._batch_stands_at(at, self.base_offset + relative):
            return self.base_offset + relative + 1
        return self.end(log_end_offset)

    def end_of_batches_before(self, position: int, offset: int) -> int:
        """The offset behind the last batch before `position`, where the first batch that reaches up to `offset` begins or the
        file ends; the base offset if there is none.
        """
        if position == 0:
            return self.base_offset
        first = offset
        for _, header in self.headers(position):
            first = min(header.base_offset, offset)
            break
        relative, _ = self._floor(first - 1 - self.base_offset)
        start = self.position_of(self.base_offset + max(relative, 0))
        end_offset = self.base_offset
        for at, header in self._few_headers(start if start < position else 0):
            if at >= position:
                break
            end_offset = header.next_offset
        return end_offset

    def headers(self, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
        """Position and header of each batch from `position` on; bodies are not looked at."""
        return scan_headers(self.file, position, self.file.size_bytes)

    def _few_headers(self, position: int) -> Iterator[tuple[int, BatchHeader]]:
        """As many as there can be behind an index entry."""
        headers = self.headers(position)
        if not self.rebuilds_elsewhere:
            return headers
        return self._at_most(MOST_HEADERS, headers)

    def _at_most(
        self, left: int, headers: Iterator[tuple[int, BatchHeader]]
    ) -> Iterator[tuple[int, BatchHeader]]:
        for found in headers:
            if not left:
                raise IndexPending(self)
            left -= 1
            yield found

    def _rebuild(self) -> None:
        if self.rebuilds_elsewhere:
            raise IndexPending(self)
        self.rebuild_indexes()

    def corrupt(self, position: int, what: str) -> CorruptLog:
        return CorruptLog(f"{self.file.name}: no batch where one must be, at {position}: {what}")

    def has_gaps(self) -> bool:
        """Whether compaction was here: records or whole batches are missing between others."""
        if self._has_gaps is not None:
            return self._has_gaps
        if self.rebuilds_elsewhere:
            raise IndexPending(self)  # that walk tells it too
        expected = self.base_offset
        for _, header in self.headers():
            if lacks_records(header, expected):
                return True
            expected = header.next_offset
        return False

    def last_indexed_position(self) -> int:
        """Where the last batch with an index entry begins: at most an index interval before the end."""
        if self.offset_index is not None:
            relative, position = self.offset_index.last()
        else:
            relative, position = last_in_file(self._open_index(), OFFSET_ENTRY)
        return position if position and self._batch_stands_at(position, self.base_offset + relative) else 0

    # ----------------------------------------------------------------------------------------- timestamps

    def modified_ms(self) -> int:
        """When it was last appended to; where no file tells, when it was made or opened."""
        found = self.directory.modified_ms(file_name(self.base_offset, LOG_SUFFIX))
        return self.created_ms if found is None else found

    def largest_timestamp(self) -> int:
        """-1 if no batch has one. Of a cold segment the last time entry says it (it is written at the roll)."""
        if self.max_timestamp is None:
            was_cold = self.is_cold
            try:
                self._find_largest_timestamp()
            finally:
                if was_cold:
                    self.close_handles()  # it is known now, and a log may have thousands of segments
        assert self.max_timestamp is not None
        return self.max_timestamp

    def _find_largest_timestamp(self) -> None:
        timestamp, relative = last_in_file(self._open_time_index(), TIME_ENTRY)
        self.max_timestamp = timestamp
        self.offset_of_max_timestamp = self.base_offset + relative if timestamp >= 0 else -1

    def _open_time_index(self) -> File:
        if self._time_index_file is None:
            name = self.name(TIME_INDEX_SUFFIX)
            if not self.directory.exists(name):
                self._rebuild()
            file = self.directory.open(name)
            if file.size_bytes % TIME_ENTRY.size or not self._is_largest(*last_in_file(file, TIME_ENTRY)):
                self._rebuild()
                file = self.directory.open(name)
            self._time_index_file = file
        return self._time_index_file

    def _is_largest(self, timestamp: int, relative_offset: int) -> bool:
        """Whether this last time entry is about a batch that stands there, and none at the end is newer."""
        if self.size_bytes == 0:
            return timestamp < 0
        if timestamp < 0:
            return self._seems_without_timestamps()
        if relative_offset < 0 or not self._is_time_of(timestamp, relative_offset):
            return False
        return all(
            header.largest_timestamp <= timestamp
            for _, header in self._few_headers(self.last_indexed_position())
        )

    def _seems_without_timestamps(self) -> bool:
        """By the first batch and the last ones, as they were before compaction: then no entry is missing."""
        ends = chain(islice(self.headers(), 1), self._few_headers(self.last_indexed_position()))
        return all(header.max_timestamp < 0 for _, header in ends)

    def _is_time_of(self, timestamp: int, relative_offset: int) -> bool:
        position = self.position_of(self.base_offset + relative_offset)
        for _, header in self.headers(position):
            return header.largest_timestamp == timestamp
        return False

    def offset_before_timestamp(self, timestamp: int) -> int:
        """An offset no record before which has this timestamp or a later one: a place to search from."""
        found, relative = self._time_entry_before(timestamp)
        if found >= 0 and not self._is_time_of(found, relative):
            # A block of another index, say: of one that was read into memory the last entry alone was held against the batches.
            self._rebuild()
            found, relative = self._time_entry_before(timestamp)
        return self.base_offset + relative if found >= 0 else self.base_offset

    def _time_entry_before(self, timestamp: int) -> tuple[int, int]:
        """Of an earlier time: of several batches with this very one an entry of another index may name any, and look right."""
        if self.time_index is not None:
            return self.time_index.floor(timestamp - 1)
        return floor_in_file(self._open_time_index(), TIME_ENTRY, timestamp - 1)

    def rolling_timestamp(self) -> int:
        """The max timestamp of the first batch; -1 if there is none."""
        if self.first_timestamp is None:
            for _, header in self.headers():
                self.first_timestamp = header.max_timestamp
                break
            else:
                return -1
        return self.first_timestamp

    # --------------------------------------------------------------------------------------- transactions

    @property
    def transactions(self) -> TransactionIndex:
        """The aborted transactions whose markers are in this segment. TransactionsPending where the batches have to tell them, or
        reading them is not for the loop: see `transaction_rebuilding`."""
        if self._transactions is None:
            if self.rebuilds_elsewhere:
                size = self.directory.size(self.name(TRANSACTION_INDEX_SUFFIX)) or 0
                if size > MOST_READ_AT_ONCE * TRANSACTION_ENTRY.size:
                    raise TransactionsPending(self)
            self._transactions = self.read_transactions(self.end_offset)
            if self._transactions is None:
                raise TransactionsPending(self)
        return self._transactions

    @property
    def known_transactions(self) -> TransactionIndex | None:
        """None: they were not read yet."""
        return self._transactions

    def read_transactions(self, end_offset: int) -> TransactionIndex | None:
        """Those in the file; None where these are not all that were there, or not of this segment, which ends at `end_offset`."""
        data = self.directory.read(self.name(TRANSACTION_INDEX_SUFFIX))
        if data is None:
            return None if self.may_have_aborted else TransactionIndex()
        found = TransactionIndex.from_bytes(data)
        is_whole = len(data) % TRANSACTION_ENTRY.size == 0 and len(found) >= max(self.least_aborted, 1)
        return found if is_whole and found.can_be_of(self.base_offset, end_offset) else None

    @property
    def may_have_aborted(self) -> bool:
        """Whether it is worth a look at its transactions; without one at the disk."""
        if self._transactions is None:
            return self.least_aborted > 0 or not self.had_no_transaction_index
        return len(self._transactions) > 0

    @property
    def aborted_count(self) -> int:
        """Of its aborted transactions; at least so many where they were not read yet."""
        return self.least_aborted if self._transactions is None else len(self._transactions)

    def open_transactions(self) -> File:
        """The index, to be appended to; what it holds is known from here on."""
        self.transactions  # noqa: B018  (read while that may still fail)
        return self.directory.open(self.name(TRANSACTION_INDEX_SUFFIX), create=True)

    def add_transaction(self, transaction: AbortedTransaction, file: File) -> str:
        """Returns the name of the file written, not synced yet."""
        self.transactions.append(transaction)
        file.append(transaction_to_bytes(transaction))
        return self.name(TRANSACTION_INDEX_SUFFIX)

    def take_transactions(self, transactions: TransactionIndex) -> None:
        """Whoever calls has written them, or read them."""
        self._transactions = transactions

    def replace_transactions(self, transactions: list[AbortedTransaction]) -> None:
        if transactions:
            data = transactions_to_bytes(transactions)
            self.directory.replace(self.name(TRANSACTION_INDEX_SUFFIX), data, durable=False)
        else:
            self.directory.remove(self.name(TRANSACTION_INDEX_SUFFIX))
        self.take_transactions(TransactionIndex(transactions))

    # ------------------------------------------------------------------------------------ changing its end

    def rebuild_indexes(self, index_interval_bytes: int = DENSE_INTERVAL_BYTES) -> list[str]:
        """Both indexes from the batches themselves: what they say must be what a scan says. Returns the names of the files
        written, not synced yet.
        """
        headers = self.headers()  # opens the file: a segment that cannot be read keeps the indexes it has
        self.make_index_in_memory()
        for position, header in headers:
            self.note_header(position, header, index_interval_bytes)
        return self.become_inactive() if self.end_offset >= 0 else []

    def take_indexes(self, known: "Segment", *, has_gaps: bool) -> None:
        """`known` was made of the batches of this segment, and what it knows is in place: in the files, of one that is not active."""
        self.max_timestamp, self.offset_of_max_timestamp = known.max_timestamp, known.offset_of_max_timestamp
        self.first_timestamp = known.first_timestamp
        self._has_gaps = has_gaps
        if self.end_offset >= 0:
            self.rely_on_index_files(self.end_offset)
        else:
            self.offset_index, self.time_index = known.offset_index, known.time_index
            self.bytes_since_index_entry = known.bytes_since_index_entry
            self.positions = known.positions

    def make_index_in_memory(self) -> None:
        """Empty indexes and counters, ready for `note_batch` from the first batch on."""
        self.offset_index = OffsetIndex()
        self.time_index = TimeIndex()
        self.max_timestamp = -1
        self.offset_of_max_timestamp = -1
        self.first_timestamp = None
        self.bytes_since_index_entry = 0
        self.positions = {self.base_offset: 0}

    def load_indexes(self, index_interval_bytes: int) -> BatchHeader | None:
        """The segment becomes active again: its index files are read; a scan replaces what is no good.

        Returns the last batch. CorruptLog if the file does not end with a whole batch.
        """
        is_good, last = self._load_index_files()
        if not is_good and self.rebuilds_elsewhere:
            raise IndexPending(self)
        if not is_good:
            self.rebuild_indexes(index_interval_bytes)
            for _, header in self.headers(self.last_indexed_position()):
                last = header
        return last

    def _load_index_files(self) -> tuple[bool, BatchHeader | None]:
        """False if they cannot be what was written: checked against themselves and against the last batches,
        the last of which is returned.
        """
        last: BatchHeader | None = None
        index = self.directory.read(self.name(INDEX_SUFFIX))
        time_index = self.directory.read(self.name(TIME_INDEX_SUFFIX))
        if (
            index is None
            or time_index is None
            or len(index) % OFFSET_ENTRY.size
            or len(time_index) % TIME_ENTRY.size
        ):
            return False, None
        self.make_index_in_memory()
        offsets = self.offset_index = OffsetIndex.from_bytes(index)
        times = self.time_index = TimeIndex.from_bytes(time_index)
        if not offsets.is_sane() or not times.is_sane():
            return False, None
        largest, largest_relative = times.last()
        relative, position = offsets.last()
        if position and not self._batch_stands_at(position, self.base_offset + relative):
            return False, None
        is_time_known = False
        for _, header in self._few_headers(position):
            last = header
            if header.largest_timestamp > largest:
                return False, None
            if header.last_offset - self.base_offset == largest_relative:
                is_time_known = header.largest_timestamp == largest
        if largest >= 0:
            if not is_time_known and not self._is_time_of(largest, largest_relative):
                return False, None
            self.max_timestamp = largest
            self.offset_of_max_timestamp = self.base_offset + largest_relative
        if last is not None:
            self.positions[last.next_offset] = self.file.size_bytes
        return True, last

    def prepare_cut(
        self, files: PreparedFiles, position: int, end_offset: int, index_interval_bytes: int
    ) -> Cut:
        """All that `cut` needs for ending the segment where the batch of `end_offset` begins, at `position`; the index
        files of what is left are among `files`. The segment itself stays as it is.
        """
        known = self
        if self.offset_index is None:
            # Apart: an index that has to be built again stays in memory, and this segment is asked by its files.
            known = Segment(self.directory, self.base_offset, self.created_ms)
            known._file = self.file
            known.rebuilds_elsewhere = self.rebuilds_elsewhere
            try:
                known.load_indexes(index_interval_bytes)
            except IndexPending:
                raise IndexPending(self) from None
        assert known.offset_index is not None and known.time_index is not None
        offsets = OffsetIndex.from_bytes(known.offset_index.to_bytes())
        times = TimeIndex.from_bytes(known.time_index.to_bytes())
        offsets.truncate(position)
        times.truncate(end_offset - self.base_offset)
        largest, relative = times.last()
        offset_of_largest = self.base_offset + relative if largest >= 0 else -1
        # The time index knows the largest timestamp up to the last batch that has an index entry; here is the rest.
        for _, header in scan_headers(self.file, offsets.last()[1], position):
            if header.largest_timestamp > largest:
                largest, offset_of_largest = header.largest_timestamp, header.last_offset
        times.maybe_append(largest, offset_of_largest - self.base_offset)
        files.write(self.name(INDEX_SUFFIX), offsets.to_bytes())
        files.write(self.name(TIME_INDEX_SUFFIX), times.to_bytes())
        # Entries stand in the order of their markers.
        kept = self.transactions.below(end_offset)
        transaction_file = None
        if len(kept) != len(self.transactions) and kept:
            transaction_file = self.directory.open(self.name(TRANSACTION_INDEX_SUFFIX))
        return Cut(position, end_offset, largest, offset_of_largest, kept, transaction_file)

    def cut(self, cut: Cut) -> list[str]:
        """Ends the segment; it is not appended to any more, and asked by the index files that were prepared.

        Returns the names of the files changed, not synced yet.
        """
        self.file.truncate(cut.position)
        names = [self.name()]
        if cut.transaction_file is not None:
            cut.transaction_file.truncate(len(cut.transactions) * TRANSACTION_ENTRY.size)
            names.append(self.name(TRANSACTION_INDEX_SUFFIX))
        elif not cut.transactions:
            self.directory.remove(self.name(TRANSACTION_INDEX_SUFFIX))
        self._transactions = cut.transactions
        self._has_gaps = None
        self.max_timestamp = cut.max_timestamp
        self.offset_of_max_timestamp = cut.offset_of_max_timestamp
        self.rely_on_index_files(cut.end_offset)
        return names

    def directory_renamed(self) -> None:
        """The descriptors are good under any name; what is said of the file has the new one."""
        if self._file is not None:
            self._file.name = f"{self.directory.path}/{self.name()}"
        self._index_file = self._time_index_file = None

    def close_handles(self) -> None:
        """Gives the descriptors back; slices on their way keep theirs."""
        if self._file is not None:
            self._size_bytes = self._file.size_bytes
        self._file = self._index_file = self._time_index_file = None

    def mark_deleted(self) -> list[str]:
        """Takes the files out of the log by renaming them; returns the names that are to be removed later.

        MissingFile if the batches are not found: whoever took them away may put them back, and the next start would
        find them beside a log that has gone on without them, and cut the log off where they end.
        """
        self._index_file = self._time_index_file = None
        gone = []
        for suffix in SUFFIXES:
            name = self.name(suffix)
            if self.directory.rename(name, name + DELETED_SUFFIX):
                gone.append(name + DELETED_SUFFIX)
            elif suffix == LOG_SUFFIX:
                raise MissingFile(
                    f"{self.directory.path}/{name}: missing: it was removed or renamed from outside this process"
                )
        return gone

    def __repr__(self) -> str:
        return f"Segment({self.base_offset}, end_offset={self.end_offset})"
