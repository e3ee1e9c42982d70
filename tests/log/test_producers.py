"""Idempotence and transactions as one log sees them (KIP-98, KIP-360)."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.log import lookups, producers
from odradek.log.errors import CorruptLog
from odradek.log.indexes import AbortedTransaction
from odradek.log.partition_log import PartitionLog
from odradek.log.producers import MalformedSnapshot, Producers, read_snapshot
from odradek.log.segment import SNAPSHOT_SUFFIX, file_name
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError
from odradek.records.batch import MAX_SEQUENCE, read_header
from tests.log.logs import NOW, Disk, batch, config, contents, follow, idempotent, marker, offsets, produce


@pytest.fixture
def log(tmp_path: Path) -> PartitionLog:
    return Disk(tmp_path).create()


def code_of(log: PartitionLog, data: bytes) -> ErrorCode:
    before = (log.log_end_offset, log.producers.to_bytes())
    with pytest.raises(ProtocolError) as caught:
        produce(log, data)
    assert (log.log_end_offset, log.producers.to_bytes()) == before
    return caught.value.code


@pytest.mark.behaviour("P2")
def test_each_of_the_last_five_batches_is_recognised_and_answered_with_its_first_offsets(
    log: PartitionLog,
) -> None:
    produce(log, batch(10))
    for n in range(7):
        produce(log, idempotent(n * 2, 2, at=NOW + n))
    end = log.log_end_offset
    for n in range(2, 7):
        again = produce(log, idempotent(n * 2, 2, at=NOW + n))
        assert (again.base_offset, again.last_offset, again.duplicate) == (10 + n * 2, 11 + n * 2, True)
    for n in (0, 1):
        assert code_of(log, idempotent(n * 2, 2)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.log_end_offset == end


def test_a_retry_of_another_length_is_no_duplicate(log: PartitionLog) -> None:
    produce(log, idempotent(0, 3))
    assert code_of(log, idempotent(0, 2)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert code_of(log, idempotent(1, 2)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_gap_in_the_sequence_is_out_of_order(log: PartitionLog) -> None:
    produce(log, idempotent(0, 3))
    assert code_of(log, idempotent(4)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert produce(log, idempotent(3)).base_offset == 3


def test_sequences_wrap_from_the_largest_int_to_zero(log: PartitionLog) -> None:
    produce(log, idempotent(MAX_SEQUENCE - 1, 4))  # MAX-1, MAX, 0, 1
    assert log.producers.get(7) is not None and log.producers.all()[0].last_sequence == 1
    assert produce(log, idempotent(MAX_SEQUENCE - 1, 4)).duplicate
    assert produce(log, idempotent(2)).base_offset == 4
    produce(log, idempotent(MAX_SEQUENCE, 1, producer_id=8))
    assert produce(log, idempotent(0, 1, producer_id=8)).base_offset == 6


@pytest.mark.behaviour("P13")
def test_an_unknown_producer_may_begin_anywhere(log: PartitionLog) -> None:
    """Its records may have been deleted, or it was silent for too long (KIP-360)."""
    assert produce(log, idempotent(41)).base_offset == 0
    assert code_of(log, idempotent(41, 2)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.mark.behaviour("P1")
def test_an_older_epoch_is_fenced_and_a_newer_one_begins_with_zero(log: PartitionLog) -> None:
    produce(log, idempotent(0, epoch=3))
    assert code_of(log, idempotent(1, epoch=2)) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert code_of(log, idempotent(1, epoch=4)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    produce(log, idempotent(0, epoch=4))
    assert code_of(log, idempotent(0, epoch=3)) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert produce(log, idempotent(0, epoch=4)).duplicate


def test_a_follower_takes_what_the_leader_took(log: PartitionLog) -> None:
    """Sequences were checked by the leader; a gap can be compaction's."""
    log.append_as_follower(memoryview(idempotent(0, base_offset=0, leader_epoch=0)), now_ms=NOW)
    log.append_as_follower(memoryview(idempotent(9, base_offset=1, leader_epoch=0)), now_ms=NOW)
    assert log.producers.all()[0].last_sequence == 9


def test_silent_producers_expire_by_the_brokers_clock_and_not_by_their_timestamps(log: PartitionLog) -> None:
    old = NOW - 10 * 365 * 86_400_000  # records of ten years ago, sent today
    produce(log, idempotent(0, at=old), now_ms=NOW)
    produce(log, idempotent(0, producer_id=8, is_transactional=True), now_ms=NOW)
    assert log.producers.expire(NOW + 86_399_999, 86_400_000) == []
    assert log.producers.expire(NOW + 86_400_000, 86_400_000) == [7]
    assert [p.producer_id for p in log.producers.all()] == [8], "an open transaction keeps its producer"


def test_a_producer_of_a_snapshot_was_last_heard_of_when_the_snapshot_was_read(log: PartitionLog) -> None:
    """The snapshot does not say when; its timestamps may be years old."""
    produce(log, idempotent(0, at=NOW - 10 * 365 * 86_400_000), now_ms=NOW)
    producers = Producers.from_bytes(log.producers.to_bytes(), NOW + 50)
    assert producers.expire(NOW + 50 + 86_399_999, 86_400_000) == []
    assert producers.expire(NOW + 50 + 86_400_000, 86_400_000) == [7]


# --------------------------------------------------------------------------------------------- transactions


@pytest.mark.behaviour("P9")
def test_the_last_stable_offset_stays_below_open_and_undelivered_transactions(log: PartitionLog) -> None:
    produce(log, batch(2))
    produce(log, idempotent(0, 3, is_transactional=True))  # 2..4
    produce(log, batch(1))
    produce(log, idempotent(0, 1, producer_id=8, is_transactional=True))  # 6
    assert log.last_stable_offset(7) == 2 and log.last_stable_offset(1) == 1
    produce(log, marker(commit=True), from_coordinator=True)  # 7
    assert log.last_stable_offset(7) == 2, "the marker is not replicated yet"
    assert log.last_stable_offset(8) == 6
    produce(log, marker(commit=False, producer_id=8), from_coordinator=True)  # 8
    assert log.last_stable_offset(9) == 9
    assert log.aborted_transactions(0, 9) == [AbortedTransaction(8, 6, 8, 9)]


def test_a_transaction_below_the_logs_start_holds_nothing_back(log: PartitionLog) -> None:
    """Its marker was replicated, or nothing at it could have been deleted; the mark heard of may be older than that."""
    produce(log, idempotent(0, 3, is_transactional=True))
    produce(log, marker(commit=True), from_coordinator=True)
    assert log.last_stable_offset(2) == 0
    log.delete_records_before(4)
    assert log.last_stable_offset(2) == 2


@pytest.mark.behaviour("P9")
def test_an_open_transaction_that_began_below_the_logs_start_is_stable_up_to_the_start(
    log: PartitionLog,
) -> None:
    """As Apache's; retention and DeleteRecords go up to the high watermark, whatever is open."""
    produce(log, idempotent(0, 3, is_transactional=True))
    produce(log, batch(2))
    assert log.last_stable_offset(5) == 0
    log.delete_records_before(4)
    assert [log.last_stable_offset(high_watermark) for high_watermark in (2, 4, 5)] == [2, 4, 4]
    produce(log, marker(commit=True), from_coordinator=True)
    assert [log.last_stable_offset(high_watermark) for high_watermark in (5, 6)] == [4, 6]


def test_what_cannot_be_said_of_aborted_transactions_is_a_failure_of_the_log(
    log: PartitionLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A consumer that is told of none would take the records of all of them for good."""

    def lost(*arguments: object) -> None:
        raise CorruptLog("the file of the transactions is not what was written")

    monkeypatch.setattr(lookups, "aborted_transactions", lost)
    with pytest.raises(CorruptLog):
        log.aborted_transactions(0, 10)
    assert log.failure is not None


@pytest.mark.behaviour("P5")
def test_a_batch_outside_the_open_transaction_is_refused(log: PartitionLog) -> None:
    produce(log, idempotent(0, is_transactional=True))
    assert code_of(log, idempotent(1)) == ErrorCode.INVALID_TXN_STATE


@pytest.mark.behaviour("P8")
def test_markers_of_older_epochs_are_zombies(log: PartitionLog) -> None:
    produce(log, idempotent(0, epoch=2, is_transactional=True))
    produce(log, marker(commit=True, epoch=2, coordinator_epoch=5), from_coordinator=True)
    for data, code in (
        (marker(commit=True, epoch=1, coordinator_epoch=5), ErrorCode.INVALID_PRODUCER_EPOCH),
        (marker(commit=True, epoch=2, coordinator_epoch=4), ErrorCode.TRANSACTION_COORDINATOR_FENCED),
    ):
        with pytest.raises(ProtocolError) as caught:
            produce(log, data, from_coordinator=True)
        assert caught.value.code == code
    assert log.log_end_offset == 2


def test_a_coordinator_that_was_fenced_stays_so_for_whoever_read_a_snapshot(log: PartitionLog) -> None:
    """The log behind it has no marker that would tell."""
    produce(log, idempotent(0, epoch=2, is_transactional=True))
    produce(log, marker(commit=True, epoch=2, coordinator_epoch=5), from_coordinator=True)
    log.producers = Producers.from_bytes(log.producers.to_bytes(), NOW)
    with pytest.raises(ProtocolError) as caught:
        produce(log, marker(commit=True, epoch=2, coordinator_epoch=4), from_coordinator=True)
    assert caught.value.code == ErrorCode.TRANSACTION_COORDINATOR_FENCED


def test_a_marker_counts_for_when_a_producer_was_last_heard_of(log: PartitionLog) -> None:
    """DescribeProducers tells it, and the snapshot keeps it."""
    produce(log, idempotent(0, is_transactional=True, at=NOW))
    produce(log, marker(commit=True, at=NOW + 5), from_coordinator=True)
    (told,), (kept,) = log.producers.all(), read_snapshot(log.producers.to_bytes())
    assert told.last_timestamp == kept.last_timestamp == NOW + 5


def test_a_marker_that_bumps_the_epoch_starts_the_sequence_anew(log: PartitionLog) -> None:
    produce(log, idempotent(0, 3, is_transactional=True))
    produce(log, marker(commit=False, epoch=1), from_coordinator=True)
    assert code_of(log, idempotent(3, epoch=1)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert produce(log, idempotent(0, epoch=1)).base_offset == 4


@pytest.mark.behaviour("P7")
def test_a_marker_without_a_transaction_ends_nothing(log: PartitionLog) -> None:
    produce(log, marker(commit=False), from_coordinator=True)
    assert log.aborted_transactions(0, 10) == [] and log.last_stable_offset(1) == 1


def test_followers_write_the_same_transaction_index(tmp_path: Path) -> None:
    one, two = Disk(tmp_path / "a"), Disk(tmp_path / "b")
    for disk in (one, two):
        disk.path.mkdir()
    leader, follower = one.create(), two.create()
    produce(leader, idempotent(0, 3, is_transactional=True))
    produce(leader, marker(commit=False), from_coordinator=True)
    follower.append_as_follower(memoryview(contents(leader)), now_ms=NOW)
    name = "00000000000000000000.txnindex"
    assert two.file(name).read_bytes() == one.file(name).read_bytes() != b""
    assert follower.aborted_transactions(0, 4) == leader.aborted_transactions(0, 4) != []


def test_an_abort_segments_later_is_found_from_the_records_it_aborts(tmp_path: Path) -> None:
    log = Disk(tmp_path, config(segment_bytes=1000)).create()
    produce(log, idempotent(0, is_transactional=True))
    for _ in range(30):
        produce(log, batch(2))
    produce(log, marker(commit=False), from_coordinator=True)
    produce(log, batch(2))
    assert len(log.segments) > 5
    expected = [AbortedTransaction(7, 0, 61, 62)]
    assert log.aborted_transactions(0, 1) == expected
    assert log.aborted_transactions(30, 40) == expected
    assert log.aborted_transactions(62, 64) == []


# ------------------------------------------------------------------------------------------------- many of them


def test_a_log_keeps_a_bounded_number_of_producers_and_those_that_are_silent_go_first(
    log: PartitionLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producers, "MOST_PRODUCERS", 3)
    produce(log, idempotent(0, producer_id=1, is_transactional=True))
    produce(log, idempotent(0, producer_id=2))
    produce(log, idempotent(0, producer_id=3))
    later = NOW + producers.SILENT_MS
    assert code_of(log, idempotent(0, producer_id=4)) == ErrorCode.POLICY_VIOLATION
    assert produce(log, idempotent(1, producer_id=2), now_ms=later - 1).base_offset == 3, "known ones go on"

    produce(log, idempotent(0, producer_id=4), now_ms=later)

    kept = [producer.producer_id for producer in log.producers.all()]
    assert kept == [1, 2, 4], "one has a transaction open, two was heard of since"
    assert code_of(log, idempotent(5, producer_id=4)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_follower_takes_every_producer_and_forgets_the_silent_ones(
    log: PartitionLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producers, "MOST_PRODUCERS", 2)
    for producer_id in range(3):
        follow(log, idempotent(0, producer_id=producer_id, base_offset=producer_id))
    assert len(log.producers) == 3
    follow(log, idempotent(0, producer_id=9, base_offset=3), NOW + producers.SILENT_MS)
    assert [producer.producer_id for producer in log.producers.all()] == [9]


def test_markers_of_producers_that_nobody_knows_are_written_and_bring_no_more_of_them(
    log: PartitionLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producers, "MOST_PRODUCERS", 2)
    produce(log, idempotent(0, producer_id=1, is_transactional=True))
    for producer_id in (2, 3, 4):
        produce(log, marker(commit=True, producer_id=producer_id), from_coordinator=True)
    assert log.log_end_offset == 4
    assert log.producers.ids() == [1, 2]
    produce(log, marker(commit=True, producer_id=1), from_coordinator=True)
    assert log.producers.first_undecided_offset is None, "who is known ends its transaction"


def test_a_producer_whose_records_lie_in_the_future_expires_as_others_do(log: PartitionLog) -> None:
    produce(log, idempotent(0, at=NOW + 10**9))
    assert log.producers.expire(NOW + 999, 1000) == []
    assert log.producers.expire(NOW + 1000, 1000) == [7]


def test_what_expires_is_whoever_was_silent_not_whoever_came_first(log: PartitionLog) -> None:
    produce(log, idempotent(0, producer_id=1))
    produce(log, idempotent(0, producer_id=2), now_ms=NOW + 100)
    produce(log, idempotent(1, producer_id=1), now_ms=NOW + 200)
    assert log.producers.expire(NOW + 1100, 1000) == [2]
    assert log.producers.expire(NOW + 1200, 1000) == [1]


def test_a_snapshot_packs_a_bounded_number_of_entries_when_it_is_taken(
    log: PartitionLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A roll takes a snapshot within a turn of the loop, and the number of producers is the clients' choice."""
    monkeypatch.setattr(producers, "MOST_UNPACKED", 10)
    for producer_id in range(50):
        produce(log, idempotent(0, producer_id=producer_id))
        produce(log, idempotent(1, producer_id=producer_id))
    packed = []
    honest = producers.Producer.pack
    monkeypatch.setattr(
        producers.Producer, "pack", lambda self: (packed.append(self.producer_id), honest(self))
    )

    again = Producers.from_bytes(log.producers.to_bytes(), NOW)

    assert len(packed) == 10
    assert [(p.producer_id, p.last_sequence, p.last_offset) for p in again.all()] == [
        (producer_id, 1, 2 * producer_id + 1) for producer_id in range(50)
    ]
    log.producers.to_bytes()
    assert len(packed) == 10, "what did not change is not packed again"


def test_the_last_stable_offset_is_where_the_oldest_transaction_begins_whatever_the_ids(
    log: PartitionLog,
) -> None:
    for producer_id in (9, 3, 5):
        produce(log, idempotent(0, producer_id=producer_id, is_transactional=True))
    for known in (log.producers, Producers.from_bytes(log.producers.to_bytes(), NOW)):
        assert (known.first_undecided_offset, known.last_stable_offset(3)) == (0, 0)
    produce(log, marker(commit=True, producer_id=9), from_coordinator=True)
    assert Producers.from_bytes(log.producers.to_bytes(), NOW).first_undecided_offset == 1


# ------------------------------------------------------------------------------------------------- snapshots


def test_a_snapshot_says_all_but_the_older_four_batches(log: PartitionLog) -> None:
    for n in range(3):
        produce(log, idempotent(n))
    produce(log, idempotent(0, 2, producer_id=2**40, epoch=5, is_transactional=True))
    again = Producers.from_bytes(log.producers.to_bytes(), NOW)
    assert again.to_bytes() == log.producers.to_bytes()
    assert again.check(read_header(idempotent(3)), NOW) is None
    known = again.check(read_header(idempotent(2)), NOW)
    assert known is not None and (known.first_offset, known.last_offset) == (2, 2)
    with pytest.raises(ProtocolError):
        again.check(read_header(idempotent(1)), NOW)
    assert again.last_stable_offset(5) == 3


def test_every_cut_and_every_flipped_bit_of_a_snapshot_is_seen(log: PartitionLog) -> None:
    produce(log, idempotent(0))
    data = log.producers.to_bytes()
    for size in range(len(data)):
        with pytest.raises(MalformedSnapshot):
            read_snapshot(data[:size])
    for bit in range(8 * len(data)):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << (bit % 8)
        with pytest.raises(MalformedSnapshot):
            read_snapshot(bytes(damaged))
    with pytest.raises(MalformedSnapshot):
        read_snapshot(data + b"\0")


Step = st.tuples(st.integers(1, 3), st.integers(1, 4), st.booleans())


@settings(max_examples=60, deadline=None)
@given(steps=st.lists(Step, min_size=1, max_size=40))
def test_whatever_is_sent_again_the_log_holds_every_record_once_and_in_order(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, int, bool]]
) -> None:
    """Producers that send each batch once or twice; each keeps at most the last five in doubt."""
    disk = Disk(tmp_path_factory.mktemp("log"))
    log = disk.create()
    sequences: dict[int, int] = {}
    expected: list[int] = []
    recent: dict[int, list[tuple[bytes, int]]] = {}
    for producer_id, count, retry in steps:
        sequence = sequences.get(producer_id, 0)
        data = idempotent(sequence, count, producer_id=producer_id)
        offset = produce(log, data).base_offset
        expected.append(offset)
        sequences[producer_id] = sequence + count
        recent.setdefault(producer_id, []).append((data, offset))
        if retry:
            for old, first_offset in recent[producer_id][-5:]:
                result = produce(log, old)
                assert result.duplicate and result.base_offset == first_offset
    assert offsets(log) == expected


def test_a_snapshot_behind_the_recovery_point_is_believed_by_no_later_start_either(tmp_path: Path) -> None:
    """A power cut may have brought one back of records that were cut off. This start reads the batches; the next one would not."""
    disk = Disk(tmp_path, config(segment_bytes=2 * len(idempotent(0))))
    log = disk.create()
    produce(log, idempotent(0, producer_id=8))
    for sequence in range(5):
        produce(log, idempotent(sequence))
    log.flush()
    disk.file(file_name(log.segments.active.base_offset, SNAPSHOT_SUFFIX)).write_bytes(Producers().to_bytes())
    for recovery_point in (1, log.log_end_offset):
        assert disk.open(recovery_point=recovery_point).log.producers.ids() == [7, 8]


def test_a_stop_in_order_without_its_snapshot_is_none(tmp_path: Path) -> None:
    """KAFKA-10471: somebody else wrote that it was, or the log was written to since. What is there was perhaps never flushed."""
    disk = Disk(tmp_path, config(segment_bytes=2 * len(idempotent(0))))
    log = disk.create()
    for sequence in range(5):
        produce(log, idempotent(sequence))
    log.close()
    disk.file(file_name(log.log_end_offset, SNAPSHOT_SUFFIX)).unlink()
    opened = disk.open(clean=True, recovery_point=2)
    assert [note for note in opened.notes if "no producer snapshot at 5" in note]
    assert opened.log.recovery_point == 2 and opened.log.producers.all()[0].last_sequence == 4
