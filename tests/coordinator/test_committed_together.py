"""What is read by columns is what is read record by record, or it is not read by columns."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.coordinator.committed_together import MOST_IN_A_RUN, committed_together
from odradek.coordinator.loading import Loaded
from odradek.coordinator.offsets import NO_PRODUCER
from odradek.coordinator.records import CommittedOffset, OffsetKey, OffsetRecord, decode, encode
from odradek.coordinator.stored import Stored
from odradek.records.batch import BATCH_OVERHEAD, BatchHeader, read_header
from odradek.records.builder import NewRecord, build_batch
from odradek.records.reader import decode_records


def record(
    partition: int, *, group: str = "g", topic: str = "t", metadata: str = "", leader_epoch: int = 3
) -> OffsetRecord:
    value = CommittedOffset(partition * 7, leader_epoch, metadata, 1_700_000_000_000 + partition)
    return OffsetRecord(OffsetKey(group, topic, partition), value)


def batch(records: list[OffsetRecord], *, base_offset: int = 900) -> tuple[BatchHeader, bytes]:
    data = bytes(build_batch([NewRecord(*encode(one), timestamp=5) for one in records]))
    header = read_header(data)._replace(base_offset=base_offset)
    return header, data[BATCH_OVERHEAD:]


def one_by_one(header: BatchHeader, data: bytes) -> Stored:
    stored = Stored()
    for each in decode_records(header, data):
        found = decode(each.key, each.value)
        if found is not None:
            stored.replay(found, each.offset, NO_PRODUCER)
    return stored


@pytest.mark.parametrize("count", [4, 64, 65, 8192, 8193, 9000])
def test_a_commit_of_many_partitions_is_read_at_once(count: int) -> None:
    header, data = batch([record(partition) for partition in range(count)])

    stored = Stored()
    assert stored.replay_together(header, data)

    assert len(stored.offsets.by_group["g"]) == count
    assert stored.offsets.by_group == one_by_one(header, data).offsets.by_group


def test_no_run_keeps_the_interpreter_for_long() -> None:
    """What is done for a run gives no other thread a chance."""
    runs = committed_together(*batch([record(partition) for partition in range(3 * MOST_IN_A_RUN)]))

    assert runs is not None
    assert max(len(run.values) for run in runs) == MOST_IN_A_RUN
    assert [position for run in runs for position in run.positions] == list(
        range(900, 900 + 3 * MOST_IN_A_RUN)
    )


def test_with_metadata_of_one_length_too() -> None:
    header, data = batch([record(partition, metadata=f"né{partition:04}") for partition in range(100)])

    stored = Stored()
    assert stored.replay_together(header, data)

    assert stored.offsets.by_group == one_by_one(header, data).offsets.by_group
    assert stored.offsets.of("g", ("t", 99)) == record(99, metadata="né0099").value


def test_of_two_records_of_a_partition_the_later_one_stays() -> None:
    header, data = batch([record(1), record(2), record(1, leader_epoch=4), record(3)])

    stored = Stored()
    assert stored.replay_together(header, data)

    assert stored.offsets.by_group == one_by_one(header, data).offsets.by_group


ORDINARY = [record(partition) for partition in range(5)]


@pytest.mark.parametrize(
    "records",
    [
        [*ORDINARY, record(1, group="h")],
        [*ORDINARY, record(1, topic="u")],
        [*ORDINARY, record(1, group="gg")],
        [*ORDINARY, record(1, metadata="m")],
        [*ORDINARY, OffsetRecord(OffsetKey("g", "t", 1), None)],
        [*ORDINARY, OffsetRecord(OffsetKey("g", "t", 1), CommittedOffset(1, 2, "", 3, expires_at_ms=4))],
        [OffsetRecord(OffsetKey("g", "t", p), None) for p in range(5)],
    ],
)
def test_a_batch_of_another_form_is_read_record_by_record(records: list[OffsetRecord]) -> None:
    header, data = batch(records)

    assert committed_together(header, data) is None

    loaded = Loaded(Stored(), decode)
    loaded.batch(header, data)
    assert (loaded.records, loaded.left_out) == (len(records), 0)
    assert loaded.stored.offsets.by_group == one_by_one(header, data).offsets.by_group


def test_offsets_of_a_transaction_wait_for_its_marker() -> None:
    header, data = batch(ORDINARY)

    loaded = Loaded(Stored(), decode)
    loaded.batch(header._replace(producer_id=9, producer_epoch=0, attributes=0x10), data)

    assert not loaded.stored.offsets.by_group
    assert list(loaded.stored.offsets.pending) == [9]


def test_what_the_cleaner_left_of_a_batch_has_its_own_positions() -> None:
    header, data = batch(ORDINARY)
    size = len(data) // len(ORDINARY)
    left = data[:size] + data[2 * size :]

    loaded = Loaded(Stored(), decode)
    loaded.batch(header._replace(record_count=4), left)

    assert [stood.position for stood in loaded.stored.offsets.by_group["g"].values()] == [900, 902, 903, 904]


def assert_read_alike_or_not_at_once(header: BatchHeader, data: bytes) -> None:
    """Not at once: then `Loaded` reads them record by record."""
    stored = Stored()
    if stored.replay_together(header, data):
        assert stored.offsets.by_group == one_by_one(header, data).offsets.by_group


@pytest.mark.parametrize("metadata", ["", "né"])
def test_no_byte_of_a_record_in_the_midst_is_taken_for_granted(metadata: str) -> None:
    header, data = batch([record(partition, metadata=metadata) for partition in range(5)])
    size = len(data) // 5
    for place in range(2 * size, 3 * size):
        for bits in (1, 2, 0x80, 0xFF):
            changed = bytearray(data)
            changed[place] ^= bits
            assert_read_alike_or_not_at_once(header, bytes(changed))


@given(
    count=st.integers(4, 70),
    metadata=st.sampled_from(["", "m", "né"]),
    place=st.integers(0, 1 << 16),
    byte=st.integers(0, 255),
    cut=st.integers(0, 3),
)
def test_bytes_that_differ_are_read_alike_or_not_at_once(
    count: int, metadata: str, place: int, byte: int, cut: int
) -> None:
    header, data = batch([record(partition, metadata=metadata) for partition in range(count)])
    changed = bytearray(data)
    changed[place % len(changed)] = byte

    assert_read_alike_or_not_at_once(header, bytes(changed[: len(changed) - cut]))
