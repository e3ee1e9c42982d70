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

from odradek.log.errors import StorageError
from odradek.log.files import Directory
from odradek.log.indexes import AbortedTransaction, transaction_to_bytes
from odradek.log.prepared_files import PreparedFiles
from odradek.log.segment import TRANSACTION_INDEX_SUFFIX, Segment
from odradek.records.batch import BatchHeader, Buffer

CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"


class CleanedSegment:
    """Made in a thread: nothing of the log is touched before `Segments.replace`."""

    def __init__(
        self, directory: Directory, base_offset: int, created_ms: int, index_interval_bytes: int
    ) -> None:
        self.files = PreparedFiles(directory, CLEANED_SUFFIX)
        self.segment = Segment.prepare(directory, base_offset, created_ms, self.files)
        self._index_interval_bytes = index_interval_bytes
        self._aborted: list[AbortedTransaction] = []

    @property
    def size_bytes(self) -> int:
        return self.segment.file.size_bytes

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

    def finish(self, end_offset: int) -> None:
        """`end_offset`: of the last segment it is made from. The last batch there stays, emptied if need be: a log that
        ends, or has a hole, before it would look as if it had lost what was flushed. Blocks for the syncs.
        """
        segment = self.segment
        segment.prepare_indexes(self.files)
        if self._aborted:
            data = b"".join(map(transaction_to_bytes, self._aborted))
            self.files.write(segment.name(TRANSACTION_INDEX_SUFFIX), data)
        self.files.sync()
        segment.take_transactions(self._aborted)
        segment.rely_on_index_files(end_offset)

    def throw_away(self) -> None:
        """What it was made from has changed meanwhile, or it cannot be finished.

        Never raises over the reason for that. What a failing disk keeps has a temporary name: the next attempt, or the
        next start, removes it; and the fault is known to the directory's health.
        """
        with suppress(StorageError):
            self.files.remove()
