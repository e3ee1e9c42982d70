"""What the second pass of a cleaning knows of transactions: whose records may go, and which marker is still needed.

A marker stays as long as a batch of its transaction, be it an empty one, was met in the same pass: a reader that is in the midst of
the transaction needs it to tell what the records are worth. So a marker takes three passes at least: one that removes
the records, one that finds none and gives the marker its horizon, one behind the horizon (KAFKA-4545, KIP-534).
"""

from heapq import heappop, heappush

from odradek.log.indexes import AbortedTransaction
from odradek.records.batch import BATCH_OVERHEAD, BatchHeader, Buffer
from odradek.records.control import end_marker_of


class MetTransactions:
    """Of one pass over one log, in the order of offsets."""

    __slots__ = ("_aborted", "_coming", "_committed", "_met", "still_aborted")

    def __init__(self) -> None:
        self._coming: list[tuple[int, AbortedTransaction]] = []  # by first offset: not reached yet
        self._aborted: dict[int, AbortedTransaction] = {}  # producer id -> the one under way
        self._met: set[int] = set()  # producers of whose aborted transaction a batch was met
        self._committed: set[int] = set()  # producers of whose committed or open transaction a batch was met
        # Aborted transactions of which the log still holds a batch: the `.txnindex` of what is written.
        self.still_aborted: list[AbortedTransaction] = []

    def add(self, aborted: list[AbortedTransaction]) -> None:
        """Those that reach into what is read next; one that was added already may come again."""
        for one in aborted:
            heappush(self._coming, (one.first_offset, one))

    def met_batch(self, header: BatchHeader) -> bool:
        """Whether this batch of records belongs to an aborted transaction: nobody may read it, and it may go."""
        self._reach(header.last_offset)
        if not header.is_transactional:
            return False
        producer_id = header.producer_id
        if producer_id in self._aborted:
            self._met.add(producer_id)
            return True
        self._committed.add(producer_id)
        return False

    def met_marker(self, header: BatchHeader, batch: Buffer) -> bool:
        """Whether nothing of its transaction was met before this control batch: it may go, once its horizon has passed."""
        self._reach(header.last_offset)
        if header.record_count == 0:
            return True
        marker = end_marker_of(header, memoryview(batch)[BATCH_OVERHEAD : header.size_bytes])
        if marker is None:
            return False  # of a kind that we do not know: somebody may need it
        producer_id = header.producer_id
        if marker.is_commit:
            was_met = producer_id in self._committed
            self._committed.discard(producer_id)
            return not was_met
        aborted = self._aborted.pop(producer_id, None)
        if aborted is None or producer_id not in self._met:
            return True
        self._met.discard(producer_id)
        self.still_aborted.append(aborted)
        return False

    @property
    def is_amid_one(self) -> bool:
        """Batches of a transaction were met, and its marker was not."""
        return bool(self._committed or self._aborted)

    def take_still_aborted(self) -> list[AbortedTransaction]:
        """Those whose markers were met since the last call: they belong to the segment that was written since."""
        taken, self.still_aborted = self.still_aborted, []
        return taken

    def _reach(self, offset: int) -> None:
        while self._coming and self._coming[0][0] <= offset:
            _, aborted = heappop(self._coming)
            self._aborted.setdefault(aborted.producer_id, aborted)
