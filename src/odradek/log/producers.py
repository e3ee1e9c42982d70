"""What a log knows of the producers that write to it: idempotence (KIP-98), and open and ended transactions.

Per producer the last five batches are kept, because a client may have five requests in flight: one that is sent
again is answered with the offsets it got the first time. A snapshot keeps only the last batch of each.

Producer ids are the client's to choose, 70 bytes of records buy one, and it is kept for `producer.id.expiration.ms` (24 h): so a
log keeps a bounded number. Past it those go first that were silent for longer than any client retries; where there are none, the leader
refuses the newcomer. A snapshot is written within a turn of the loop: most of its entries were packed before.
"""

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Generator, Iterator
from struct import Struct
from typing import NamedTuple

from odradek.log.indexes import AbortedTransaction
from odradek.log.steps import all_at_once
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import OdradekError, ProtocolError
from odradek.records.batch import MAX_SEQUENCE, NO_SEQUENCE, TRANSACTIONAL, BatchHeader
from odradek.records.checksum import crc32c
from odradek.records.control import EndTransaction

REMEMBERED_BATCHES = 5
NO_OFFSET = -1
NO_COORDINATOR = -1

MOST_PRODUCERS = 50_000  # of a log: 29 MB, and a snapshot of 2.9 MB
# A client gives a batch up after delivery.timeout.ms, two minutes by default.
SILENT_MS = 15 * 60_000
# Producers whose entry of the snapshot is packed when it is written, 0.7 us each; the others were packed at their batch.
MOST_UNPACKED = 4096
# Entries of a snapshot that are read in one step, some 1.5 us each.
LOADED_AT_ONCE = 1_000

_SNAPSHOT_HEADER = Struct(">hIi")  # version, CRC-32C of what follows it, number of producers
_SNAPSHOT_ENTRY = Struct(">qhiqiqiq")
_CRC_END = 6
SNAPSHOT_VERSION = 1


class MalformedSnapshot(OdradekError):
    """A torn or foreign `.snapshot`: the log has what it held."""


class ProducerBatch(NamedTuple):
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta

    @property
    def first_sequence(self) -> int:
        return (
            NO_SEQUENCE if self.last_sequence < 0 else (self.last_sequence - self.offset_delta) & MAX_SEQUENCE
        )


_NO_BATCH = ProducerBatch(NO_SEQUENCE, NO_OFFSET, 0, -1)


class Producer:
    __slots__ = (
        "batches",
        "coordinator_epoch",
        "last_timestamp",
        "packed",
        "producer_epoch",
        "producer_id",
        "seen_ms",
        "transaction_first_offset",
    )

    def __init__(self, producer_id: int, producer_epoch: int, seen_ms: int) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.coordinator_epoch = NO_COORDINATOR
        self.last_timestamp = -1
        self.transaction_first_offset = NO_OFFSET
        self.batches: list[ProducerBatch] = []  # newest last, at most five
        # When this broker last heard of it, by its own clock: the timestamps of records may be years old, and an
        # expired producer is one whose retries are no longer recognised.
        self.seen_ms = seen_ms
        self.packed = b""  # its entry of a snapshot; empty: it waits in `Producers._unpacked`

    def pack(self) -> None:
        last = self.batches[-1] if self.batches else _NO_BATCH
        self.packed = _SNAPSHOT_ENTRY.pack(
            self.producer_id,
            self.producer_epoch,
            last.last_sequence,
            last.last_offset,
            last.offset_delta,
            self.last_timestamp,
            self.coordinator_epoch,
            self.transaction_first_offset,
        )

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else NO_OFFSET


class EndedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int  # the marker's
    is_aborted: bool


def _last_offset(ended: EndedTransaction) -> int:
    return ended.last_offset


class Producers:
    """All producers of one log. `check` asks, and forgets nobody but who was silent for long where there is no room for one more;
    `note_*` follow what was written."""

    __slots__ = ("_by_id", "_ended", "_open", "_unpacked")

    def __init__(self) -> None:
        self._by_id: OrderedDict[int, Producer] = OrderedDict()  # whoever was silent longest first
        self._unpacked: dict[int, Producer] = {}
        # Producer id -> first offset of its open transaction; the oldest first, for offsets only grow.
        self._open: dict[int, int] = {}
        # Ended, their markers perhaps not replicated yet; in the order of the markers.
        self._ended: list[EndedTransaction] = []

    def __len__(self) -> int:
        return len(self._by_id)

    def all(self) -> list[Producer]:
        """By id."""
        return [self._by_id[producer_id] for producer_id in sorted(self._by_id)]

    def ids(self) -> list[int]:
        return sorted(self._by_id)

    def get(self, producer_id: int) -> Producer | None:
        return self._by_id.get(producer_id)

    # ------------------------------------------------------------------------------- before an append by a client

    def check(self, header: BatchHeader, now_ms: int) -> ProducerBatch | None:
        """None: append it. A batch: this one is there already, answer with its offsets. Otherwise ProtocolError."""
        producer = self._by_id.get(header.producer_id)
        if producer is None:
            if not self._has_room(now_ms):
                raise ProtocolError(
                    ErrorCode.POLICY_VIOLATION,
                    f"producer {header.producer_id}: {MOST_PRODUCERS} producers wrote to this partition within the last "
                    f"{SILENT_MS // 60_000} minutes, and no more are kept; let a producer live longer than a batch",
                )
            # All we knew was deleted with the records, or expired: any sequence will do (KIP-360).
            return None
        epoch = header.producer_epoch
        first = header.base_sequence
        if epoch == producer.producer_epoch:
            batches = producer.batches
            expected = (batches[-1].last_sequence + 1) & MAX_SEQUENCE if batches else 0
            if first != expected:
                last = (first + header.last_offset_delta) & MAX_SEQUENCE
                for batch in batches:
                    if batch.last_sequence == last and batch.first_sequence == first:
                        return batch
                raise ProtocolError(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"producer {header.producer_id} epoch {epoch}: sequence {first} found, {expected} expected",
                )
        elif epoch < producer.producer_epoch:
            raise ProtocolError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {header.producer_id}: epoch {epoch} is older than {producer.producer_epoch}",
            )
        elif first != 0:
            raise ProtocolError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {header.producer_id}: sequence {first} found, a new epoch ({epoch}) begins with 0",
            )
        if producer.transaction_first_offset != NO_OFFSET and not header.attributes & TRANSACTIONAL:
            raise ProtocolError(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {header.producer_id}: a batch outside the transaction it has open",
            )
        return None

    def check_marker(self, header: BatchHeader, marker: EndTransaction) -> None:
        """A transaction marker from the coordinator: older epochs are zombies."""
        producer = self._by_id.get(header.producer_id)
        if producer is None:
            return
        if header.producer_epoch < producer.producer_epoch:
            raise ProtocolError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {header.producer_id}: marker of epoch {header.producer_epoch}, "
                f"{producer.producer_epoch} was seen",
            )
        if marker.coordinator_epoch < producer.coordinator_epoch:
            raise ProtocolError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"producer {header.producer_id}: marker of coordinator epoch {marker.coordinator_epoch}, "
                f"{producer.coordinator_epoch} was seen",
            )

    # ---------------------------------------------------------------------------------------- after an append

    def note_batch(self, header: BatchHeader, base_offset: int, now_ms: int) -> None:
        """A data batch with a producer id was written at `base_offset`."""
        producer = self._heard(header, now_ms)
        delta = header.last_offset_delta
        batches = producer.batches
        if len(batches) == REMEMBERED_BATCHES:
            del batches[0]
        sequence = header.base_sequence
        batches.append(
            ProducerBatch(
                NO_SEQUENCE if sequence == NO_SEQUENCE else (sequence + delta) & MAX_SEQUENCE,
                base_offset + delta,
                delta,
                header.max_timestamp,
            )
        )
        producer.last_timestamp = header.max_timestamp
        if header.attributes & TRANSACTIONAL and producer.transaction_first_offset == NO_OFFSET:
            producer.transaction_first_offset = base_offset
            self._open[producer.producer_id] = base_offset
        if producer.packed:
            self._changed(producer)

    def note_marker(
        self, header: BatchHeader, marker: EndTransaction, offset: int, now_ms: int
    ) -> EndedTransaction | None:
        """A marker was written at `offset`. The transaction it ended, unless that was empty: of who is not known, and there is no
        room for, nothing is remembered, as anybody may send markers and none is refused."""
        if header.producer_id not in self._by_id and not self._has_room(now_ms):
            return None
        producer = self._heard(header, now_ms)
        first_offset = producer.transaction_first_offset
        producer.transaction_first_offset = NO_OFFSET
        producer.coordinator_epoch = marker.coordinator_epoch
        producer.last_timestamp = header.max_timestamp
        if producer.packed:
            self._changed(producer)
        if first_offset == NO_OFFSET:
            return None
        del self._open[producer.producer_id]
        ended = EndedTransaction(producer.producer_id, first_offset, offset, not marker.is_commit)
        self._ended.append(ended)
        return ended

    def _heard(self, header: BatchHeader, now_ms: int) -> Producer:
        """The producer of a batch that was written, with its batches of this epoch."""
        producer_id = header.producer_id
        producer = self._by_id.get(producer_id)
        if producer is None:
            self._has_room(
                now_ms
            )  # a follower and a replay take what was accepted, and forget as the leader does
            producer = self._by_id[producer_id] = Producer(producer_id, header.producer_epoch, now_ms)
            self._changed(producer)
            return producer
        if producer.producer_epoch != header.producer_epoch:
            producer.producer_epoch = header.producer_epoch
            producer.batches = []
        producer.seen_ms = now_ms
        self._by_id.move_to_end(producer_id)
        return producer

    def _has_room(self, now_ms: int) -> bool:
        return len(self._by_id) < MOST_PRODUCERS or bool(self.expire(now_ms, SILENT_MS))

    def _changed(self, producer: Producer) -> None:
        if len(self._unpacked) < MOST_UNPACKED:
            producer.packed = b""
            self._unpacked[producer.producer_id] = producer
        else:
            producer.pack()

    def aborted(self, ended: EndedTransaction) -> AbortedTransaction:
        """The index entry: with the offset below which, once this marker is written, nothing is undecided."""
        stable = next(iter(self._open.values()), ended.last_offset + 1)
        return AbortedTransaction(ended.producer_id, ended.first_offset, ended.last_offset, stable)

    # --------------------------------------------------------------------------------------- last stable offset

    @property
    def first_undecided_offset(self) -> int | None:
        """Where the oldest open transaction begins."""
        return next(iter(self._open.values()), None)

    def last_stable_offset(self, high_watermark: int) -> int:
        """Below it every transaction is decided, and its marker replicated; never above the high watermark."""
        stable = high_watermark
        if self._open:
            stable = min(stable, next(iter(self._open.values())))
        # A marker at or above the high watermark may yet be truncated, and with it the decision.
        self.forget_ended_before(high_watermark)
        for ended in self._ended:
            stable = min(stable, ended.first_offset)
        return stable

    def expire(self, now_ms: int, expiration_ms: int) -> list[int]:
        """Forgets who was silent for this long and has no transaction open. Returns their ids."""
        gone = []
        for producer in self._by_id.values():
            if now_ms - producer.seen_ms < expiration_ms:
                break  # all others were heard later
            if producer.transaction_first_offset == NO_OFFSET:
                gone.append(producer.producer_id)
        for producer_id in gone:
            del self._by_id[producer_id]
            self._unpacked.pop(producer_id, None)
        return gone

    def forget_ended_before(self, offset: int) -> None:
        """Their markers are decided for good: committed. Whoever moves the high watermark says so, for of a log
        that nobody reads nobody asks what is stable."""
        if self._ended and self._ended[0].last_offset < offset:
            self._ended = self._ended[bisect_left(self._ended, offset, key=_last_offset) :]

    # -------------------------------------------------------------------------------------------------- snapshots

    def to_bytes(self) -> bytes:
        """The `.snapshot` file, byte for byte Apache's."""
        for producer in self._unpacked.values():
            producer.pack()
        self._unpacked = {}
        entries = b"".join([producer.packed for producer in self.all()])
        rest = len(self._by_id).to_bytes(4, "big") + entries
        return _SNAPSHOT_HEADER.pack(SNAPSHOT_VERSION, crc32c(rest), 0)[:_CRC_END] + rest

    @classmethod
    def from_bytes(cls, data: bytes, now_ms: int) -> "Producers":
        return all_at_once(cls.loading(data, now_ms))

    @classmethod
    def loading(cls, data: bytes, now_ms: int) -> Generator[None, None, "Producers"]:
        """As `from_bytes`, in steps of a millisecond or two: fifty thousand take seventy."""
        producers = cls()
        begun: list[tuple[int, int]] = []
        for count, producer in enumerate(read_snapshot(data, now_ms), 1):
            producers._by_id[producer.producer_id] = producer
            if producer.transaction_first_offset != NO_OFFSET:
                begun.append((producer.transaction_first_offset, producer.producer_id))
            if not count % LOADED_AT_ONCE:
                yield
        producers._open = {producer_id: offset for offset, producer_id in sorted(begun)}
        return producers


def read_snapshot(data: bytes, now_ms: int = 0) -> Iterator[Producer]:
    """The producers in a `.snapshot`. Who is in it counts as heard of now: the file has no time of its own."""
    if len(data) < _SNAPSHOT_HEADER.size:
        raise MalformedSnapshot(f"producer snapshot of {len(data)} bytes")
    version, crc, count = _SNAPSHOT_HEADER.unpack_from(data)
    if version != SNAPSHOT_VERSION:
        raise MalformedSnapshot(
            f"producer snapshot of version {version}, this program reads {SNAPSHOT_VERSION}"
        )
    if crc32c(memoryview(data)[_CRC_END:]) != crc:
        raise MalformedSnapshot("producer snapshot with a wrong CRC")
    if len(data) != _SNAPSHOT_HEADER.size + count * _SNAPSHOT_ENTRY.size:
        raise MalformedSnapshot(f"producer snapshot of {count} producers in {len(data)} bytes")
    return _entries(data[_SNAPSHOT_HEADER.size :], now_ms)


def _entries(entries: bytes, now_ms: int) -> Iterator[Producer]:
    size = _SNAPSHOT_ENTRY.size
    for at, (
        producer_id,
        epoch,
        last_sequence,
        last_offset,
        offset_delta,
        timestamp,
        coordinator_epoch,
        transaction_first_offset,
    ) in enumerate(_SNAPSHOT_ENTRY.iter_unpack(entries)):
        producer = Producer(producer_id, epoch, now_ms)
        producer.coordinator_epoch = coordinator_epoch
        producer.last_timestamp = timestamp
        producer.transaction_first_offset = transaction_first_offset
        if last_offset >= 0:
            producer.batches.append(ProducerBatch(last_sequence, last_offset, offset_delta, timestamp))
        producer.packed = entries[at * size : (at + 1) * size]
        yield producer
