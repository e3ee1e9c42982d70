"""The memory of one transaction coordinator: what is stored, what is being written, and what is to be told.

`stored` changes by records alone, after they are committed. An id has one append on its way at most: while it has,
whoever would change the id hears CONCURRENT_TRANSACTIONS. That append has one record of it, or two where somebody waits
to begin the next transaction: the end of the one before, and its beginning.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Protocol

from odradek.coordinator.append_errors import UNDECIDED
from odradek.coordinator.bounded_memory import Part
from odradek.coordinator.effects import Answer
from odradek.coordinator.kept_memory import KeptMemory
from odradek.coordinator.later import Later
from odradek.coordinator.offsets import NO_PRODUCER
from odradek.coordinator.stored_transactions import StoredTransactions
from odradek.coordinator.transaction_effects import Markers, TransactionAppend, TransactionEffects
from odradek.coordinator.transaction_records import (
    NO_EPOCH,
    Partitions,
    StoredTransaction,
    TransactionRecord,
    size_bytes_of,
)
from odradek.coordinator.transaction_settings import MOST_IN_A_TRANSACTION, TransactionSettings
from odradek.coordinator.transaction_states import PREPARED, TransactionState, check_transition
from odradek.coordinator.transaction_waiting import Waiting
from odradek.model.error_codes import ErrorCode
from odradek.protocol.schema import Response

# What a batch of one record has beside partitions and the id, at most.
AROUND_PARTITIONS_BYTES = 256
# A new producer id, or None while the broker has none.
TakeProducerId = Callable[[], int | None]
# The finalised level of the feature `transaction.version`, as it is known at any moment.
TransactionVersion = Callable[[], int]


class After(Protocol):
    """What a record was for: called once, when it is in memory, or when it failed."""

    def committed(self, room: "Room", now_ms: int) -> None: ...
    def failed(self, room: "Room", error: ErrorCode, now_ms: int) -> None: ...


class Begun(NamedTuple):
    """A transaction that begins with the end of the one before."""

    value: StoredTransaction
    after: After


class Beginner(After, Protocol):
    """Who waits for the end of a transaction. Called once: as an `After`, or to begin the next one in the same append."""

    def begins(self, room: "Room", ended: StoredTransaction, now_ms: int) -> Begun | None:
        """None: it is refused, as it will hear when that is committed."""
        ...


class Writing:
    """Records on their way to the log. `after` None: whoever waited was told that it is `UNDECIDED`."""

    __slots__ = ("after", "kept_bytes", "last_epoch", "records")

    def __init__(
        self, records: tuple[TransactionRecord, ...], last_epoch: int, after: After, kept_bytes: int
    ) -> None:
        self.records = records
        self.kept_bytes = kept_bytes
        self.last_epoch = last_epoch
        self.after: After | None = after


class Room:
    def __init__(
        self,
        settings: TransactionSettings,
        topics: Mapping[str, int],
        take_producer_id: TakeProducerId,
        stored: StoredTransactions,
        transaction_version: TransactionVersion,
        kept: KeptMemory,
    ) -> None:
        self.settings = settings
        self.transaction_version = transaction_version
        self.topics = topics  # topic -> how many partitions it has
        self.take_producer_id = take_producer_id
        self.stored = stored
        # The epoch an owner had before the bump it made, so that its repeated request is told the same again.
        self.last_epochs: dict[str, int] = {}
        self.unmarked: dict[str, set[tuple[str, int]]] = {}  # prepared: partitions without their marker
        self.incomplete: dict[str, None] = {}  # all have theirs, and that could not be written
        # Of `kept_memory`, beside what is stored: what the records that are being written will take.
        self._kept_memory, self._kept = kept, Part(kept)
        self._on_their_way = 0
        self.waiting: Waiting[Beginner] = Waiting(settings.markers_wait_ms)
        self._pending: dict[str, TransactionRecord] = {}
        self._in_flight: dict[int, Writing] = {}
        self._append_count = 0
        self._appends: list[TransactionAppend] = []
        self._answers: list[Answer] = []
        self._lines: list[str] = []
        self._markers: list[Markers] = []

    # ---------------------------------------------------------------------------------------------- effects

    def answer(self, call: int, response: Response | Later) -> None:
        self._answers.append(Answer(call, response))

    def say(self, line: str) -> None:
        self._lines.append(line)

    def take_effects(self) -> TransactionEffects:
        effects = TransactionEffects(
            tuple(self._appends), tuple(self._answers), tuple(self._lines), tuple(self._markers)
        )
        self._appends, self._answers, self._lines, self._markers = [], [], [], []
        return effects

    # ---------------------------------------------------------------------------------------------- records

    def pending(self, transactional_id: str) -> TransactionRecord | None:
        """What is being written of this id."""
        return self._pending.get(transactional_id)

    def write(
        self, transactional_id: str, value: StoredTransaction, last_epoch: int, after: After, now_ms: int
    ) -> None:
        before = self.stored.by_id.get(transactional_id)
        check_transition(transactional_id, None if before is None else before.state, value.state)
        size_bytes = size_bytes_of(value.partitions)
        if value.state is TransactionState.ONGOING:
            # What the log takes is to have room for the end, whose record has tags of its own: else it could never be written.
            size_bytes += AROUND_PARTITIONS_BYTES + len(transactional_id.encode())
        is_too_long = (
            value.state is TransactionState.ONGOING and len(value.partitions) > MOST_IN_A_TRANSACTION
        )
        if is_too_long or size_bytes > self.settings.max_append_bytes:
            return after.failed(self, ErrorCode.MESSAGE_TOO_LARGE, now_ms)
        if not self._has_room(TransactionRecord(transactional_id, value)):
            line = self._kept_memory.refuse(now_ms)
            if line is not None:
                self.say(line)
            return after.failed(self, ErrorCode.COORDINATOR_NOT_AVAILABLE, now_ms)
        self._append((TransactionRecord(transactional_id, value),), last_epoch, after)
        return None

    def _has_room(self, record: TransactionRecord) -> bool:
        held_bytes = self._kept.with_others(self.kept_bytes)
        return self._kept_memory.has_room(self.stored.more_bytes(record), held_bytes)

    @property
    def kept_bytes(self) -> int:
        """Memory of ids and partitions."""
        return self.stored.size_bytes + self._on_their_way

    def tell_memory(self, kept_bytes: int) -> None:
        """What others are to know of it."""
        self._kept.tell(kept_bytes)

    def remove(self, transactional_ids: list[str], after: After) -> None:
        self._append(tuple(TransactionRecord(name, None) for name in transactional_ids), NO_EPOCH, after)

    def _append(self, records: tuple[TransactionRecord, ...], last_epoch: int, after: After) -> None:
        going = {record.transactional_id: record for record in records}
        assert self._pending.keys().isdisjoint(going), "an id has one append on its way at most"
        self._pending.update(going)
        self._append_count += 1
        kept_bytes = max(0, *map(self.stored.more_bytes, records))
        self._on_their_way += kept_bytes
        self._in_flight[self._append_count] = Writing(records, last_epoch, after, kept_bytes)
        self._appends.append(TransactionAppend(self._append_count, records))

    def committed(self, append_id: int, base_offset: int, now_ms: int) -> None:
        writing = self._in_flight.pop(append_id)
        for position, record in enumerate(writing.records, base_offset):
            self.stored.replay(record, position, NO_PRODUCER)
            self._remember_epoch(record, writing.last_epoch)
        names = self._came(writing)
        if writing.after is not None:
            writing.after.committed(self, now_ms)
        for name in names:
            if name in self.stored.prepared:
                self.begin_marking(name, now_ms)
            else:
                self._carried_out(name, now_ms)

    def failed(self, append_id: int, error: ErrorCode, now_ms: int) -> None:
        """After an error of `UNDECIDED` the append is still under way, and its fate comes as a second event: until then the
        id is not touched."""
        if error in UNDECIDED:
            writing = self._in_flight[append_id]
            after, writing.after = writing.after, None
        else:
            writing = self._in_flight.pop(append_id)
            after = writing.after
            for name in self._came(writing):
                if name in self.unmarked and not self.unmarked[name]:
                    self.incomplete[name] = None
        if after is not None:
            after.failed(self, error, now_ms)

    def fail_all(self, error: ErrorCode, now_ms: int) -> None:
        for append_id in sorted(self._in_flight):
            self.failed(append_id, error, now_ms)
        self.refuse_waiting(self.waiting.take_all(), error, now_ms)

    def _carried_out(self, transactional_id: str, now_ms: int) -> None:
        """No decision of this id is left to carry out. Not `Completed` says so: of a record whose fate comes late nobody
        is told any more."""
        self.unmarked.pop(transactional_id, None)
        for waiter in self.waiting.take(transactional_id):
            waiter.committed(self, now_ms)

    def refuse_waiting(self, waiters: Iterable[After], error: ErrorCode, now_ms: int) -> None:
        for waiter in waiters:
            waiter.failed(self, error, now_ms)

    def _came(self, writing: Writing) -> list[str]:
        """The ids that it has records of."""
        self._on_their_way -= writing.kept_bytes
        names = list(dict.fromkeys(record.transactional_id for record in writing.records))
        for name in names:
            del self._pending[name]
        return names

    def _remember_epoch(self, record: TransactionRecord, last_epoch: int) -> None:
        if record.value is None or last_epoch == NO_EPOCH:
            self.last_epochs.pop(record.transactional_id, None)
        else:
            self.last_epochs[record.transactional_id] = last_epoch

    # ---------------------------------------------------------------------------------------------- markers

    def begin_marking(self, transactional_id: str, now_ms: int) -> None:
        """The decision is committed: from here it is carried out, by whoever coordinates."""
        value = self.stored.by_id[transactional_id]
        self.unmarked[transactional_id] = set(value.partitions)
        if not value.partitions:
            return self.complete(transactional_id, now_ms)
        self._markers.append(
            Markers(
                transactional_id,
                value.producer_id,
                value.epoch,
                value.state.name == "PREPARE_COMMIT",
                value.partitions,
            )
        )
        return None

    def marked(
        self, transactional_id: str, producer_id: int, epoch: int, partitions: Partitions, now_ms: int
    ) -> None:
        """Told of a transaction before, it says nothing of this one: they differ in epoch, or it is complete."""
        value = self.stored.by_id.get(transactional_id)
        left = self.unmarked.get(transactional_id)
        if value is None or not left or (value.producer_id, value.epoch) != (producer_id, epoch):
            return
        left -= partitions
        if not left:
            self.complete(transactional_id, now_ms)

    def complete(self, transactional_id: str, now_ms: int) -> None:
        value = self.stored.by_id[transactional_id]
        goes_on = {}
        if value.next_producer_id >= 0:
            goes_on = {
                "producer_id": value.next_producer_id,
                "epoch": 0,
                "previous_producer_id": value.producer_id,
                "next_producer_id": -1,
            }
        done = value._replace(
            state=PREPARED[value.state], partitions=frozenset(), updated_at_ms=now_ms, **goes_on
        )
        last_epoch = self.last_epochs.get(transactional_id, NO_EPOCH)
        begun = self._begun_with(transactional_id, done, now_ms)
        if begun is None:
            return self.write(transactional_id, done, last_epoch, Completed(transactional_id), now_ms)
        check_transition(transactional_id, value.state, done.state)
        check_transition(transactional_id, done.state, begun.value.state)
        records = TransactionRecord(transactional_id, done), TransactionRecord(transactional_id, begun.value)
        self._append(records, last_epoch, CompletedAndBegun(transactional_id, begun.after))
        return None

    def _begun_with(self, transactional_id: str, ended: StoredTransaction, now_ms: int) -> Begun | None:
        """Of those that wait the first, which waits no more then. The others wait for its record, too. One with very many
        partitions goes by itself: were the batch too large, the end could not be written either."""
        first = self.waiting.first(transactional_id)
        begun = None if first is None else first.begins(self, ended, now_ms)
        if begun is None or not self._has_room(TransactionRecord(transactional_id, begun.value)):
            return None
        if 2 * size_bytes_of(begun.value.partitions) > self.settings.max_append_bytes:
            return None
        self.waiting.take_first(transactional_id)
        return begun


class Completed:
    """Every partition has its marker, and that is written."""

    __slots__ = ("transactional_id",)

    def __init__(self, transactional_id: str) -> None:
        self.transactional_id = transactional_id

    def committed(self, room: Room, now_ms: int) -> None:
        return None

    def failed(self, room: Room, error: ErrorCode, now_ms: int) -> None:
        if error != ErrorCode.NOT_LEADER_OR_FOLLOWER:
            room.say(
                f"transactional id {self.transactional_id!r} is complete, and that could not be written ({error.name}); "
                "it is written again"
            )


class CompletedAndBegun(Completed):
    """The same, and the record of the next transaction stands behind it."""

    __slots__ = ("_begun",)

    def __init__(self, transactional_id: str, begun: After) -> None:
        super().__init__(transactional_id)
        self._begun = begun

    def committed(self, room: Room, now_ms: int) -> None:
        self._begun.committed(room, now_ms)

    def failed(self, room: Room, error: ErrorCode, now_ms: int) -> None:
        super().failed(room, error, now_ms)
        self._begun.failed(room, error, now_ms)
