"""What the records of one partition of `__transaction_state` say: the one place that a record changes, while loading and
ever after. Which ids are prepared and which are open is kept beside, so that taking over looks at those alone."""

from odradek.coordinator.kept_memory import of_transaction
from odradek.coordinator.transaction_records import StoredTransaction, TransactionRecord
from odradek.coordinator.transaction_states import PREPARED, TransactionState
from odradek.records.batch import BatchHeader


class StoredTransactions:
    def __init__(self) -> None:
        self.by_id: dict[str, StoredTransaction] = {}
        self.prepared: dict[str, None] = {}
        self.ongoing: dict[str, None] = {}
        self.size_bytes = 0  # memory, as it counts for `kept_memory`

    def replay(self, record: TransactionRecord, position: int, producer_id: int) -> None:
        """The last value of a key wins, and no value removes it."""
        name, value = record
        self.prepared.pop(name, None)
        self.size_bytes += self.more_bytes(record)
        if value is None:
            self.by_id.pop(name, None)
            self.ongoing.pop(name, None)
            return
        self.by_id[name] = value
        if value.state is TransactionState.ONGOING:
            self.ongoing[name] = None
        else:
            self.ongoing.pop(name, None)
        if value.state in PREPARED:
            self.prepared[name] = None

    def more_bytes(self, record: TransactionRecord) -> int:
        """Memory that it takes beside what there is of its id."""
        name, value = record
        before = self.by_id.get(name)
        return _bytes_of(name, value) - _bytes_of(name, before)

    def replay_together(self, header: BatchHeader, data: bytes) -> bool:
        """Those of one batch are few."""
        return False

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """Nothing here is part of a transaction; a marker that somebody wrote ends none."""


def _bytes_of(name: str, value: StoredTransaction | None) -> int:
    return 0 if value is None else of_transaction(name, len(value.partitions))
