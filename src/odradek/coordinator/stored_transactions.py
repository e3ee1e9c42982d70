"""What the records of one partition of `__transaction_state` say: the one place that a record changes, while loading and
ever after. Which ids are prepared and which are open is kept beside, so that taking over looks at those alone."""

from odradek.coordinator.transaction_records import StoredTransaction, TransactionRecord
from odradek.coordinator.transaction_states import PREPARED, TransactionState
from odradek.records.batch import BatchHeader


class StoredTransactions:
    def __init__(self) -> None:
        self.by_id: dict[str, StoredTransaction] = {}
        self.prepared: dict[str, None] = {}
        self.ongoing: dict[str, None] = {}

    def replay(self, record: TransactionRecord, position: int, producer_id: int) -> None:
        """The last value of a key wins, and no value removes it."""
        name, value = record
        self.prepared.pop(name, None)
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

    def replay_together(self, header: BatchHeader, data: bytes) -> bool:
        """Those of one batch are few."""
        return False

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """Nothing here is part of a transaction; a marker that somebody wrote ends none."""
