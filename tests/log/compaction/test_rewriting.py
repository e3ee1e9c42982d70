"""The rules of compaction one by one, and for any log: the last value of every key is what it was."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from odradek.log.compaction.offset_map import OffsetMap
from odradek.log.compaction.rewriting import LastEntry
from odradek.log.indexes import AbortedTransaction
from odradek.model.errors import ProtocolError
from odradek.records.batch import iter_batches
from odradek.records.builder import NewRecord, build_batch
from odradek.records.control import build_end_marker
from odradek.records.reader import Record, decode_batch
from tests.log.compaction.passes import clean

Pairs = list[tuple[bytes | None, bytes | None]]


def batch(base_offset: int, *pairs: tuple[bytes | None, bytes | None], **fields: object) -> bytes:
    records = [NewRecord(key, value, timestamp=base_offset + n) for n, (key, value) in enumerate(pairs)]
    return build_batch(records, base_offset=base_offset, **fields)  # type: ignore[arg-type]


def records_of(data: bytes) -> list[Record]:
    return [record for position, _ in iter_batches(data) for record in decode_batch(data, position)]


def shown(data: bytes) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(record.offset, record.key, record.value) for record in records_of(data)]


END = batch(100, (b"end", b""))  # its offset is the last: what is before it may go whole


@pytest.mark.behaviour("L5")
def test_of_a_key_the_last_record_stays_with_its_offset_and_timestamp() -> None:
    data = batch(0, (b"a", b"1"), (b"b", b"1"), (b"a", b"2")) + batch(3, (b"b", b"2"), (b"c", b"1"))

    left = clean(data).data

    assert shown(left) == [(2, b"a", b"2"), (3, b"b", b"2"), (4, b"c", b"1")]
    assert [record.timestamp for record in records_of(left)] == [2, 3, 4]
    first, second = [header for _, header in iter_batches(left)]
    assert (first.base_offset, first.last_offset, first.record_count, first.base_timestamp) == (0, 2, 1, 2)
    assert second.size_bytes == len(data) - next(p for p, h in iter_batches(data) if h.base_offset == 3)


def test_the_largest_timestamp_of_a_batch_is_that_of_what_is_left_in_it() -> None:
    """Whoever asks for an offset by its time is sent to that batch, and retention counts from there."""
    left = clean(batch(0, (b"a", b"1"), (b"b", b"1")) + batch(2, (b"b", b"2")) + END).data

    assert shown(left)[0] == (0, b"a", b"1")
    assert next(header for _, header in iter_batches(left)).max_timestamp == 0


@pytest.mark.behaviour("L5")
def test_timestamps_that_64_bits_have_wrapped_stay_as_they_are_read() -> None:
    """Nothing but the first record of a large batch was looked at when it came, where the topic was not compacted then."""
    last = 2**63 - 1
    records = [NewRecord(b"a", b"1", last), NewRecord(b"b", b"1", last + 5), NewRecord(b"c", b"1", last + 7)]
    data = build_batch(records, max_timestamp=last) + batch(3, (b"a", b"2")) + END
    before = records_of(data)

    left = records_of(clean(data).data)

    assert left == before[1:] and left[0].timestamp == -(2**63) + 4


@pytest.mark.behaviour("L5")
def test_records_without_a_key_go() -> None:
    assert shown(clean(batch(0, (None, b"old"), (b"a", b"1")) + END).data) == [
        (1, b"a", b"1"),
        (100, b"end", b""),
    ]


@pytest.mark.behaviour("L6")
def test_keys_that_come_again_only_in_what_is_not_cleaned_keep_their_value() -> None:
    offsets = OffsetMap(24 * 4, 1.0)
    first = batch(0, (b"a", b"1"), (b"b", b"1"), (b"c", b"1"))
    second = batch(3, (b"a", b"2"), (b"b", b"2"))

    done = clean(first + second, offsets=offsets)

    assert (done.end_offset, done.data) == (3, first + second)


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
@pytest.mark.behaviour("L7")
def test_a_compressed_batch_is_compressed_again_with_its_codec(codec: str) -> None:
    left = clean(batch(0, (b"a", b"1" * 99), (b"b", b"1" * 99), codec=codec) + batch(2, (b"a", b"2"))).data

    header = next(header for _, header in iter_batches(left))
    assert header.codec == {"gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}[codec]
    assert shown(left) == [(1, b"b", b"1" * 99), (2, b"a", b"2")]


@pytest.mark.behaviour("L10")
def test_a_tombstone_gets_a_horizon_and_goes_behind_it() -> None:
    data = batch(0, (b"a", b"1")) + batch(1, (b"a", None)) + END

    first = clean(data, now_ms=5000).data
    again = clean(first, now_ms=5999).data
    later = clean(first, now_ms=6000).data

    assert shown(first) == [(1, b"a", None), (100, b"end", b"")]
    assert next(header for _, header in iter_batches(first)).delete_horizon_ms == 6000
    assert records_of(first)[0].timestamp == 1, (
        "the horizon takes the place of the base timestamp, not of the record's"
    )
    assert again == first, "the horizon is the batch's: it does not move"
    assert shown(later) == [(100, b"end", b"")]


@pytest.mark.behaviour("L11")
def test_a_tombstone_waits_for_every_replica_to_pass_it() -> None:
    first = clean(batch(7, (b"a", None)) + END, now_ms=5000).data

    assert clean(first, now_ms=6000, droppable_below=7).data == first
    assert shown(clean(first, now_ms=6000, droppable_below=8).data) == [(100, b"end", b"")]


def test_a_tombstone_waits_no_longer_than_the_timeout_for_replicas_that_are_away() -> None:
    first = clean(batch(7, (b"a", None)) + END, now_ms=5000).data
    assert next(header for _, header in iter_batches(first)).delete_horizon_ms == 6000

    assert clean(first, now_ms=9000, droppable_below=0, overdue_before_ms=5999).data == first
    late = clean(first, now_ms=9000, droppable_below=0, overdue_before_ms=6000).data
    assert shown(late) == [(100, b"end", b"")]


@pytest.mark.behaviour("L12")
def test_a_horizon_does_not_move_and_a_superseded_tombstone_does_not_wait_for_it() -> None:
    first = clean(batch(0, (b"a", None), (b"b", None)) + END, now_ms=5000).data
    again = clean(first + batch(101, (b"a", b"1")), now_ms=5500).data

    assert shown(again) == [(1, b"b", None), (100, b"end", b""), (101, b"a", b"1")]
    assert next(header for _, header in iter_batches(again)).delete_horizon_ms == 6000
    empty = clean(batch(0, (b"a", b"")) + END, now_ms=9000).data
    assert next(header for _, header in iter_batches(empty)).delete_horizon_ms is None, (
        "an empty value is a value"
    )


@pytest.mark.behaviour("L8")
def test_a_batch_with_the_last_sequence_of_a_producer_stays_without_records() -> None:
    fields = {"producer_id": 9, "producer_epoch": 2, "base_sequence": 40}
    data = batch(0, (b"a", b"1"), (b"b", b"1"), codec="gzip", **fields) + batch(2, (b"a", b"2"), (b"b", b"2"))

    left = clean(data, last_entries={9: LastEntry(1, 2)}).data
    forgotten = clean(left).data

    kept = next(header for _, header in iter_batches(left))
    assert (kept.size_bytes, kept.record_count, kept.codec, kept.base_timestamp) == (61, 0, 0, -1)
    assert (kept.base_offset, kept.last_offset, kept.base_sequence, kept.last_sequence) == (0, 1, 40, 41)
    assert (kept.producer_id, kept.producer_epoch, kept.max_timestamp) == (9, 2, 1)
    assert shown(forgotten) == shown(left)
    assert len(forgotten) == len(left) - 61


@pytest.mark.behaviour("L9")
def test_the_end_of_a_log_does_not_move_back() -> None:
    fields = {"producer_id": 9, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
    data = batch(0, (b"a", b"1")) + batch(1, (b"x", b"1"), (b"y", b"1"), **fields)

    left = clean(data, aborted=[AbortedTransaction(9, 1, 3, 4)]).data

    assert [header.next_offset for _, header in iter_batches(left)] == [1, 3]
    assert shown(left) == [(0, b"a", b"1")]


@pytest.mark.behaviour("L13")
def test_a_marker_goes_in_the_third_pass() -> None:
    fields = {"producer_id": 9, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
    marker = build_end_marker(
        producer_id=9, producer_epoch=0, is_commit=False, coordinator_epoch=1, timestamp=3, base_offset=3
    )
    transaction = AbortedTransaction(9, 1, 3, 4)
    data = batch(0, (b"a", b"1")) + batch(1, (b"x", b"1"), (b"y", b"1"), **fields) + marker + END

    first = clean(data, aborted=[transaction], now_ms=5000)
    second = clean(first.data, aborted=first.still_aborted, now_ms=5000)
    third = clean(second.data, aborted=second.still_aborted, now_ms=6000)

    assert first.data == batch(0, (b"a", b"1")) + marker + END
    assert first.still_aborted == [transaction]
    horizons = [header.delete_horizon_ms for _, header in iter_batches(second.data)]
    assert (horizons, second.still_aborted) == ([None, 6000, None], [])
    assert decode_batch(second.data, len(batch(0, (b"a", b"1"))))[0].timestamp == 3
    assert third.data == batch(0, (b"a", b"1")) + END


def test_the_last_batch_below_the_end_stays_of_a_producer_that_goes_on_behind_it() -> None:
    """What is behind the end may be cut off: then the producer is known by what is below, and a repeat of that is one (seed 2162)."""
    fields = {"producer_id": 9, "producer_epoch": 2}
    data = (
        batch(0, (b"a", b"1"), base_sequence=40, **fields)
        + batch(1, (b"a", b"2"), base_sequence=41, **fields)
        + batch(2, (b"a", b"3"))
    )
    behind = {9: LastEntry(7, 2)}

    once = clean(data, last_entries=behind).data
    of_clean_part = clean(once + batch(3, (b"a", b"4")), first_dirty=3, last_entries=behind).data

    assert [(h.base_offset, h.last_sequence, h.record_count) for _, h in iter_batches(once)] == [
        (1, 41, 0),
        (2, -1, 1),
    ]
    assert [h.base_offset for _, h in iter_batches(of_clean_part)] == [1, 3], "it was not met again"
    later = once + batch(3, (b"a", b"4"), base_sequence=42, **fields) + batch(4, (b"a", b"5"))
    assert [
        h.base_offset for _, h in iter_batches(clean(later, first_dirty=3, last_entries=behind).data)
    ] == [3, 4]


def test_the_marker_of_a_known_producer_without_data_stays() -> None:
    marker = build_end_marker(
        producer_id=9, producer_epoch=4, is_commit=True, coordinator_epoch=1, timestamp=0, base_offset=0
    )
    first = clean(marker + END, now_ms=0).data

    kept = clean(first, now_ms=9000, last_entries={9: LastEntry(-1, 4)}).data
    older = clean(first, now_ms=9000, last_entries={9: LastEntry(-1, 5)}).data

    assert [(h.base_offset, h.is_control, h.record_count) for _, h in iter_batches(kept)] == [
        (0, True, 0),
        (100, False, 1),
    ]
    assert older == END


def test_a_tombstone_of_a_known_producer_leaves_a_batch_without_a_horizon() -> None:
    fields = {"producer_id": 9, "producer_epoch": 2, "base_sequence": 40}
    first = clean(batch(0, (b"a", None), **fields) + END, now_ms=5000).data

    left = clean(first, now_ms=6000, last_entries={9: LastEntry(0, 2)}).data

    kept = next(header for _, header in iter_batches(left))
    assert (kept.record_count, kept.delete_horizon_ms, kept.last_sequence) == (0, None, 40)


def test_a_second_transaction_of_which_nothing_is_left_keeps_no_marker_for_the_first() -> None:
    fields = {"producer_id": 9, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
    markers = [
        build_end_marker(
            producer_id=9, producer_epoch=0, is_commit=False, coordinator_epoch=1, timestamp=0, base_offset=at
        )
        for at in (1, 3)
    ]
    transactions = [AbortedTransaction(9, 0, 1, 2), AbortedTransaction(9, 2, 3, 4)]

    done = clean(batch(0, (b"x", b"1"), **fields) + markers[0] + markers[1] + END, aborted=transactions)

    assert done.still_aborted == transactions[:1]
    assert [h.delete_horizon_ms for _, h in iter_batches(done.data)] == [None, 1000, None]


def test_a_batch_that_cannot_be_read_is_not_passed_over() -> None:
    lying = bytearray(batch(0, (b"a", b"1"), (b"b", b"1")))
    lying[57:61] = (3).to_bytes(4, "big")
    with pytest.raises(ProtocolError, match="record 2 of 3"):
        clean(bytes(lying))


Step = tuple[str, int, Pairs]
KEYS = st.sampled_from([b"a", b"b", b"c", b"dd", None])
VALUES = st.sampled_from([b"", b"1", b"22", None])
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["none", "gzip", "lz4", "producer", "transaction", "commit", "abort", "append time"]),
        st.integers(1, 3),
        st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=4),
    ),
    min_size=1,
    max_size=14,
)


class Written:
    """Batches one behind the other, with the producers and transactions that a log would know of them."""

    def __init__(self, steps: list[Step]) -> None:
        self.data = b""
        self.end_offset = 0
        self.aborted: list[AbortedTransaction] = []
        self.open: dict[int, int] = {}
        self.sequences: dict[int, int] = {}
        self.last_entries: dict[int, LastEntry] = {}
        for kind, producer_id, pairs in steps:
            self._write(kind, producer_id, pairs)
        for producer_id in sorted(self.open):
            self._write("commit", producer_id, [])
        self._write("none", 0, [(b"end", b"")])

    def _write(self, kind: str, producer_id: int, pairs: Pairs) -> None:
        at = self.end_offset
        if kind in ("commit", "abort"):
            first = self.open.pop(producer_id, None)
            if first is None:
                return
            self.data += build_end_marker(
                producer_id=producer_id,
                producer_epoch=0,
                is_commit=kind == "commit",
                coordinator_epoch=0,
                timestamp=at,
                base_offset=at,
            )
            if kind == "abort":
                self.aborted.append(AbortedTransaction(producer_id, first, at, at + 1))
            self.end_offset += 1
            return
        fields: dict[str, object] = {"codec": kind} if kind in ("gzip", "lz4") else {}
        if kind == "append time":
            fields = {"log_append_time_ms": 1000 + at}
        elif kind == "transaction" or producer_id in self.open:
            # Records of a producer within its transaction belong to it.
            self.open.setdefault(producer_id, at)
            fields["is_transactional"] = True
        if kind == "producer" or "is_transactional" in fields:
            sequence = self.sequences.get(producer_id, 0)
            fields |= {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": sequence}
            self.sequences[producer_id] = sequence + len(pairs)
            self.last_entries[producer_id] = LastEntry(at + len(pairs) - 1, 0)
        self.data += batch(at, *pairs, **fields)
        self.end_offset += len(pairs)


def visible(data: bytes, aborted: list[AbortedTransaction]) -> dict[int, Record]:
    """What a reader of committed records sees, by offset."""
    found = {}
    for position, header in iter_batches(data):
        is_aborted = header.is_transactional and any(
            one.producer_id == header.producer_id
            and one.first_offset <= header.base_offset <= one.last_offset
            for one in aborted
        )
        if not header.is_control and not is_aborted:
            found |= {record.offset: record for record in decode_batch(data, position)}
    return found


def last_values(records: dict[int, Record]) -> dict[bytes, bytes]:
    values: dict[bytes, bytes] = {}
    for offset in sorted(records):
        record = records[offset]
        if record.key is not None and record.value is None:
            values.pop(record.key, None)
        elif record.key is not None and record.value is not None:
            values[record.key] = record.value
    return values


@given(STEPS, st.lists(st.integers(0, 3), min_size=1, max_size=4), st.integers(0, 20))
def test_of_any_log_the_last_values_stay_and_nothing_is_invented(
    steps: list[Step], waits: list[int], keys: int
) -> None:
    log = Written(steps)
    before = visible(log.data, log.aborted)
    data, aborted, now_ms, first_dirty = log.data, log.aborted, 0, 0
    for wait in waits:
        now_ms += 600 * wait
        done = clean(
            data,
            first_dirty=first_dirty,
            now_ms=now_ms,
            last_entries=log.last_entries,
            aborted=aborted,
            offsets=OffsetMap(24 * (4 + keys), 1.0),
        )
        data, aborted, first_dirty = done.data, done.still_aborted, done.end_offset

        after = visible(data, aborted)
        assert after.items() <= before.items()
        assert last_values(after) == last_values(before)
        headers = [header for _, header in iter_batches(data)]
        assert headers[-1].next_offset == log.end_offset
        for producer_id, last in log.last_entries.items():
            own = [h for h in headers if h.producer_id == producer_id and not h.is_control]
            assert own[-1].last_offset == last.last_data_offset
            assert own[-1].last_sequence == log.sequences[producer_id] - 1
