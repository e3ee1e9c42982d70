"""Records one by one: which of them a reader of committed records is given."""

from typing import Any

import pytest

from odradek.client import sync_records
from odradek.client.sync_fetch import Fetched
from odradek.model.ids import TopicPartition
from odradek.records.batch import stamp
from odradek.records.builder import NewRecord, build_batch
from odradek.records.control import build_end_marker

T0 = TopicPartition("t", 0)


def records(*values: bytes, producer_id: int = -1) -> bytes:
    if producer_id < 0:
        return build_batch([NewRecord(None, value) for value in values])
    return build_batch(
        [NewRecord(None, value) for value in values],
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
    )


def marker(producer_id: int, *, commit: bool) -> bytes:
    return build_end_marker(
        producer_id=producer_id, producer_epoch=0, is_commit=commit, coordinator_epoch=0, timestamp=1
    )


def answer(first: int, *batches: bytes, aborted: tuple[tuple[int, int], ...] = ()) -> Fetched:
    """What one Fetch brings: `first` is the offset of its first record."""
    data = bytearray()
    offset = first
    for each in batches:
        piece = bytearray(each)
        stamp(piece, 0, offset, 0)
        data += piece
        offset += int.from_bytes(piece[23:27], "big") + 1
    return Fetched(memoryview(bytes(data)), offset, aborted, offset, 0)


def read(
    monkeypatch: pytest.MonkeyPatch, *answers: Fetched, start: int = 0, end: int = 1 << 40
) -> list[bytes]:
    def read_range(client: Any, partition: Any, start: int, end: int, *, read_committed: bool) -> Any:
        assert read_committed
        return iter(answers)

    monkeypatch.setattr(sync_records, "read_range", read_range)
    client: Any = None
    found = sync_records.records(client, T0, start, end, read_committed=True)
    return [bytes(record.value or b"") for record in found]


def test_an_aborted_transaction_is_left_out_from_its_first_record_to_its_marker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = answer(
        0,
        records(b"a"),
        records(b"no", b"no", producer_id=7),
        records(b"b"),
        records(b"c", producer_id=8),
        records(b"no", producer_id=7),
        marker(7, commit=False),
        marker(8, commit=True),
        aborted=((7, 1),),
    )
    assert read(monkeypatch, one) == [b"a", b"b", b"c"]


def test_what_the_same_producer_commits_behind_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    one = answer(
        0,
        records(b"no", producer_id=7),
        marker(7, commit=False),
        records(b"yes", producer_id=7),
        marker(7, commit=True),
        records(b"no", producer_id=7),
        marker(7, commit=False),
        records(b"open", producer_id=7),
        aborted=((7, 0), (7, 4)),
    )
    assert read(monkeypatch, one) == [b"yes", b"open"]


def test_what_the_same_producer_committed_before_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    one = answer(
        0,
        records(b"yes", producer_id=7),
        marker(7, commit=True),
        records(b"no", producer_id=7),
        marker(7, commit=False),
        aborted=((7, 2),),
    )
    assert read(monkeypatch, one) == [b"yes"]


def test_a_transaction_over_several_answers_is_named_in_each(monkeypatch: pytest.MonkeyPatch) -> None:
    first = answer(0, records(b"a"), records(b"no", producer_id=7), aborted=((7, 1),))
    second = answer(2, records(b"no", producer_id=7), marker(7, commit=False), aborted=((7, 1),))
    assert read(monkeypatch, first, second, answer(4, records(b"b"))) == [b"a", b"b"]


def test_records_of_a_batch_outside_the_range_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    one = answer(0, records(b"0", b"1", b"2"), records(b"3", b"4"))
    assert read(monkeypatch, one, start=1, end=4) == [b"1", b"2", b"3"]
