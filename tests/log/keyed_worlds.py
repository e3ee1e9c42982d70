"""A log of keyed records and transactions, cleaned or not, on a disk that remembers every moment, and what a reader must find in
it after a crash.

`RecordedWorld` judges bytes: a prefix of a history, nothing flushed gone. A cleaned log has other bytes for the same answers, so
here the answers are judged as well, from what was written and nothing else: where the last stable offset is, the last value
of every key for who reads committed records, and what is known of each producer.
"""

from collections.abc import Iterable
from typing import NamedTuple

from odradek.log.cleaned_segment import CLEANED_SUFFIX
from odradek.log.compaction.cleaner import NO_LIMIT, Cleaner
from odradek.log.compaction.cleaning import Cleaning
from odradek.log.indexes import AbortedTransaction
from odradek.log.memory_files import MemoryDisk
from odradek.log.partition_log import PartitionLog
from odradek.log.scan import scan_headers
from odradek.model.settings import TopicSettings
from odradek.records.batch import BATCH_OVERHEAD, BatchHeader, iter_batches
from odradek.records.builder import NewRecord, build_batch
from odradek.records.control import end_marker_of
from odradek.records.reader import decode_batch
from tests.log.logs import NOW, contents, marker
from tests.log.test_crash_enumeration import Note, RecordedWorld, Resumed
from tests.log.test_crash_states import SIZE, Batch, visible

SMALL = SIZE * 4  # segment.bytes
DELETE_RETENTION_MS = 1_000
NOBODY = -1
Values = dict[bytes, bytes]


class Written(NamedTuple):
    """One batch of one record, or one marker, as it was appended."""

    offset: int
    producer_id: int
    sequence: int  # -1: a marker, or of nobody
    is_transactional: bool
    ends: bool | None  # a marker: of a commit, of an abort
    key: bytes = b""
    value: bytes | None = None


class KeyedNote(NamedTuple):
    log: Note
    policy: str
    written: tuple[Written, ...]
    flushed_to: int


class KeyedWorld(RecordedWorld):
    def __init__(self, seed: int, policy: str) -> None:
        self.policy = policy
        self.written: list[Written] = []
        self.flushed_to = 0
        self.cleaned_to = 0
        self.numbers: dict[int, int] = {}  # producer id -> its next sequence
        super().__init__(seed, SMALL)
        self.recording.moments.clear()
        configure(self, policy)
        self.start()

    def note(self) -> KeyedNote:  # type: ignore[override]
        return KeyedNote(super().note(), self.policy, tuple(self.written), self.flushed_to)

    # ------------------------------------------------------------------------------------------ what is done

    def put(
        self, key: str, value: str | None = "v", producer_id: int = NOBODY, *, in_transaction: bool = False
    ) -> None:
        offset = self.log.log_end_offset
        sequence = -1
        fields = {}
        if producer_id != NOBODY:
            sequence = self.numbers.get(producer_id, 0)
            self.numbers[producer_id] = sequence + 1
            fields = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": sequence}
        # No two values are alike.
        data = None if value is None else f"{value}{offset}".encode().ljust(100, b".")
        record = NewRecord(key.encode(), data, NOW + offset)
        self.written.append(Written(offset, producer_id, sequence, in_transaction, None, key.encode(), data))
        self.write(build_batch([record], is_transactional=in_transaction, **fields), 1)

    def in_transaction(self, producer_id: int, *keys: str) -> None:
        for key in keys:
            self.put(key, "t", producer_id, in_transaction=True)

    def end(self, producer_id: int, *, commit: bool) -> None:
        self.written.append(Written(self.log.log_end_offset, producer_id, -1, True, commit))
        self.write(marker(commit=commit, producer_id=producer_id), 1, from_coordinator=True)

    def flush(self) -> None:
        before = self.log.log_end_offset
        super().flush()
        self._are_flushed(before)

    def stop_and_start(self) -> None:
        before = self.log.log_end_offset
        super().stop_and_start()
        self._are_flushed(before)

    def _are_flushed(self, end: int) -> None:
        """Of what was cleaned either form may come back, so there the end alone is looked at."""
        self.flushed_to = end
        self.flushed = [one for one in self.flushed if one.base_offset >= self.cleaned_to]

    def delete_records_to(self, offset: int) -> None:
        self.deleted = max(self.deleted, offset)
        self.log.delete_records_before(offset)
        self.manager.checkpoint_log_start_offsets()

    def clean(self, later_ms: int = 0) -> None:
        """All that may be cleaned, as the broker does it."""
        log, now_ms = self.log, NOW + later_ms
        cleaner = Cleaner(lambda: list(self.manager.logs.values()), self.manager.cleaned_to)
        stable = [(one, one.last_stable_offset(one.log_end_offset)) for one in cleaner.candidates()]
        found = cleaner.most_dirty(stable, now_ms)
        assert found is not None, "there is something to be cleaned"
        cleaning = cleaner.cleaning_of(
            found, now_ms=now_ms, map_bytes=1 << 12, load_factor=0.9, droppable_below=NO_LIMIT
        )
        for _ in cleaning.build_map():
            pass
        while not cleaning.is_done:
            for _ in cleaning.write_segment():
                pass
            self._about_to_be(log, cleaning)
            assert cleaning.put()
        self.manager.is_cleaned_to(log, cleaning.end_offset, cleaning.generation)

    def _about_to_be(self, log: PartitionLog, cleaning: Cleaning) -> None:
        """From here on the log may have the one or the other."""
        assert cleaning._made is not None
        old, cleaned = cleaning._made
        begin, end = old[0].base_offset, old[-1].end_offset
        file = log.directory.open(cleaned.segment.name() + CLEANED_SUFFIX)
        batches = [
            Batch(h.base_offset, h.next_offset, h.leader_epoch, h.crc)
            for _, h in scan_headers(file, 0, file.size_bytes)
        ]
        left = [one for one in self.histories[-1] if not begin <= one.base_offset < end]
        self.histories.append(sorted(left + batches))
        self.cleaned_to = max(self.cleaned_to, end)
        self._are_flushed(self.flushed_to)


class KeyedResumed(Resumed):
    def __init__(self, note: KeyedNote, disk: MemoryDisk) -> None:
        super().__init__(note.log, disk, SMALL)
        self.keyed = note
        configure(self, note.policy)

    def check(self, *, all_of_it: bool) -> None:
        super().check(all_of_it=all_of_it)
        log, note = self.log, self.keyed
        assert log.log_end_offset >= note.flushed_to, "flushed and gone"
        written = [one for one in note.written if one.offset < log.log_end_offset]
        left = [one for one in written if one.offset >= log.log_start_offset]
        stable = log.last_stable_offset(log.log_end_offset)
        # Of what was deleted with the records nothing need be known.
        assert stable in {last_stable_offset(of, log.log_end_offset) for of in (written, left)}
        assert read(log, stable) == expected(written, log.log_start_offset, stable)
        for producer_id in {one.producer_id for one in written} - {NOBODY}:
            check_producer(log, producer_id, written)

    def histories_that_begin_with(
        self, held: list[Batch], start: int, histories: list[list[Batch]]
    ) -> list[list[Batch]]:
        """After a power cut a cleaned segment may be what it was made from, and what was appended since be there: so each
        segment is as it was at some moment, the last one as far as the log goes."""
        found = super().histories_that_begin_with(held, start, histories)
        segments = self.log.segments
        for segment in segments:
            is_last = segment is segments.active
            end = self.log.log_end_offset if is_last else segment.end_offset
            has = [one for one in held if segment.base_offset <= one.base_offset < end]
            once = (
                [one for one in h if segment.base_offset <= one.base_offset < end] for h in self.histories
            )
            if not any(visible(batches, start) == has for batches in once):
                return found
        return found or [held]

    def epochs_of_batches_begin(self, log: PartitionLog) -> bool:
        return "compact" not in self.keyed.policy  # the first batch of an epoch may be gone


def configure(world: "KeyedWorld | KeyedResumed", policy: str) -> None:
    overrides = {
        "cleanup.policy": policy,
        "segment.bytes": str(SMALL),
        "index.interval.bytes": str(SIZE),
        "min.cleanable.dirty.ratio": "0.01",
        "delete.retention.ms": str(DELETE_RETENTION_MS),
    }
    world.topic = TopicSettings(world.settings, overrides)


# ---------------------------------------------------------------------------------------------- what a reader finds


def last_stable_offset(written: Iterable[Written], end: int) -> int:
    begun: dict[int, int] = {}
    for one in written:
        if one.ends is not None:
            begun.pop(one.producer_id, None)
        elif one.is_transactional:
            begun.setdefault(one.producer_id, one.offset)
    return min(begun.values(), default=end)


def expected(written: list[Written], start: int, stable: int) -> Values:
    fates: dict[int, bool] = {}
    shown: list[Written] = []
    for one in reversed(written):
        if one.ends is not None:
            fates[one.producer_id] = one.ends
        elif start <= one.offset < stable and (not one.is_transactional or fates[one.producer_id]):
            shown.append(one)
    values = {one.key: one.value for one in reversed(shown)}
    return {key: value for key, value in values.items() if value is not None}


def read(log: PartitionLog, stable: int) -> Values:
    """As a client that reads committed records: by the aborted transactions that a fetch names, and by markers."""
    coming = sorted(
        log.aborted_transactions(log.log_start_offset, stable),
        key=lambda one: one.first_offset,
        reverse=True,
    )
    aborted: set[int] = set()
    values: dict[bytes, bytes | None] = {}
    data = contents(log)
    for position, header in iter_batches(data):
        if header.base_offset >= stable:
            break
        take_begun(coming, aborted, header)
        if header.is_control:
            block = memoryview(data)[position + BATCH_OVERHEAD : position + header.size_bytes]
            ended = end_marker_of(header, block) if header.record_count else None
            if ended is not None and not ended.is_commit:
                aborted.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborted):
            for record in decode_batch(data, position):
                assert record.key is not None
                values[record.key] = record.value
    return {key: value for key, value in values.items() if value is not None}


def take_begun(coming: list[AbortedTransaction], aborted: set[int], header: BatchHeader) -> None:
    while coming and coming[-1].first_offset <= header.last_offset:
        aborted.add(coming.pop().producer_id)


def check_producer(log: PartitionLog, producer_id: int, written: list[Written]) -> None:
    own = [one for one in written if one.producer_id == producer_id]
    if own[0].offset < log.log_start_offset:
        return
    known = log.producers.get(producer_id)
    assert known is not None
    assert known.last_sequence == max(one.sequence for one in own)
    begun = [one.offset for one in own if one.ends is None and one.is_transactional]
    is_open = bool(begun) and own[-1].ends is None
    assert (known.transaction_first_offset >= 0) == is_open
