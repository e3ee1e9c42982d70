"""A segment made of what compaction keeps of others, beside a log that goes on as it is.

| names | what a start takes it for |
|---|---|
| `.log.cleaned`, index files as `.cleaned` or `.swap` | unfinished: it goes, and what it was made from is in place |
| `.log.swap`, index files as `.swap` | complete, for they were synced before: what it was made from goes |
| `.log`, index files as `.swap` or as they are called | in place |

So one rename decides, that of the log file from `.cleaned` to `.swap`. The index files go before it then, and behind it
when the plain names are given. Transactions that were aborted are in an index file alone, so none may be lost.
"""

from contextlib import suppress
from typing import NamedTuple

from odradek.log.errors import StorageError
from odradek.log.files import Directory, Mark
from odradek.log.indexes import AbortedTransaction, TransactionIndex, transactions_to_bytes
from odradek.log.prepared_files import PreparedFiles
from odradek.log.segment import SUFFIXES, TRANSACTION_INDEX_SUFFIX, Segment, file_name
from odradek.records.batch import BatchHeader, Buffer

CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"


class MadeSegment(NamedTuple):
    """A finished one, as whoever has not made it is told of it: its files lie there as `.cleaned`, synced."""

    base_offset: int
    end_offset: int
    created_ms: int
    size_bytes: int
    max_timestamp: int
    offset_of_max_timestamp: int
    first_timestamp: int | None
    aborted: TransactionIndex
    names: tuple[str, ...]


class CleanedSegment:
    """Made in a thread, or by another process: nothing of the log is touched before `Segments.replace`."""

    def __init__(
        self, directory: Directory, base_offset: int, created_ms: int, index_interval_bytes: int
    ) -> None:
        self.files = PreparedFiles(directory, CLEANED_SUFFIX)
        self.segment = Segment.prepare(directory, base_offset, created_ms, self.files)
        self._index_interval_bytes = index_interval_bytes
        self._aborted: list[AbortedTransaction] = []

    @classmethod
    def of(cls, directory: Directory, made: MadeSegment) -> "CleanedSegment":
        """The finished one that `made` tells of; takes no descriptor."""
        cleaned = cls.__new__(cls)
        cleaned.files = PreparedFiles.made(directory, CLEANED_SUFFIX, made.names)
        segment = cleaned.segment = Segment(directory, made.base_offset, made.created_ms, made.end_offset)
        segment.max_timestamp = made.max_timestamp
        segment.offset_of_max_timestamp = made.offset_of_max_timestamp
        segment.first_timestamp = made.first_timestamp
        segment.take_transactions(made.aborted)
        return cleaned

    def append(self, header: BatchHeader, batch: Buffer) -> None:
        """One whole batch that stays, with the header that it has now."""
        segment = self.segment
        position = segment.file.size_bytes
        segment.file.append(batch)
        segment.note_batch(
            position, len(batch), header.next_offset, header.largest_timestamp, self._index_interval_bytes
        )

    def add_transaction(self, transaction: AbortedTransaction) -> None:
        """One of which records or the marker stay, in the order of the markers."""
        self._aborted.append(transaction)

    def finish(self, end_offset: int, modified_ms: int | None = None) -> MadeSegment:
        """`end_offset`: of the last segment it is made from. The last batch there stays, emptied if need be: a log that
        ends, or has a hole, before it would look as if it had lost what was flushed. `modified_ms`: when that one was last
        written to, by which retention goes where records have no timestamps. Blocks for the syncs.
        """
        segment = self.segment
        if modified_ms is not None:
            segment.directory.set_modified_ms(segment.name() + CLEANED_SUFFIX, modified_ms)
        segment.prepare_indexes(self.files)
        if self._aborted:
            self.files.write(segment.name(TRANSACTION_INDEX_SUFFIX), transactions_to_bytes(self._aborted))
        self.files.sync()
        segment.file.set_mark(Mark.FOLLOWED)  # it is never the one that is appended to
        aborted = TransactionIndex(self._aborted)
        segment.take_transactions(aborted)
        segment.rely_on_index_files(end_offset)
        assert segment.max_timestamp is not None
        return MadeSegment(
            segment.base_offset,
            end_offset,
            segment.created_ms,
            segment.file.size_bytes,
            segment.max_timestamp,
            segment.offset_of_max_timestamp,
            segment.first_timestamp,
            aborted,
            self.files.names,
        )

    def throw_away(self) -> None:
        """What it was made from has changed meanwhile, or it cannot be finished.

        Never raises over the reason for that. What a failing disk keeps has a temporary name: the next attempt, or the
        next start, removes it; and the fault is known to the directory's health.
        """
        with suppress(StorageError):
            self.files.remove()


def remove_unfinished(directory: Directory, base_offset: int) -> None:
    """Whatever there is of one that will not be finished. Never raises, as `throw_away`."""
    with suppress(StorageError):
        for suffix in SUFFIXES:
            directory.remove(file_name(base_offset, suffix) + CLEANED_SUFFIX)
