"""What is written by columns is byte for byte what is written record by record, or it is not written by columns."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.coordinator.effects import Producer
from odradek.coordinator.records import (
    NEVER_EXPIRES,
    CommittedOffset,
    GroupKey,
    GroupRecord,
    OffsetKey,
    OffsetRecord,
    encode,
)
from odradek.coordinator.written_together import FEWEST, written_together
from odradek.records.builder import NewRecord, build_batch

NOW_MS = 1_700_000_000_000


def record(
    partition: int, *, group: str = "g", topic: str = "t", metadata: str = "", expires: int = NEVER_EXPIRES
) -> OffsetRecord:
    value = CommittedOffset(partition * 7, partition % 5 - 1, metadata, NOW_MS - partition, expires)
    return OffsetRecord(OffsetKey(group, topic, partition), value)


def one_by_one(records: list[OffsetRecord], producer: Producer | None = None) -> bytes:
    new = [NewRecord(*encode(one), timestamp=NOW_MS) for one in records]
    if producer is None:
        return build_batch(new)
    return build_batch(
        new, producer_id=producer.producer_id, producer_epoch=producer.epoch, is_transactional=True
    )


@pytest.mark.parametrize("count", [FEWEST, 63, 64, 65, 8191, 8192, 8193, 10_000])
@pytest.mark.parametrize("producer", [None, Producer(9_000, 3)])
def test_a_commit_of_many_partitions_is_written_at_once(count: int, producer: Producer | None) -> None:
    records = [record(partition) for partition in range(count)]

    assert written_together(records, NOW_MS, producer) == one_by_one(records, producer)


names = st.sampled_from(["t", "u", "a topic with a longer name", "ü" * 60])
rows = st.tuples(st.integers(0, 2**31 - 1), names, st.sampled_from(["", "x", "é", "m" * 130]))


@given(st.lists(rows, min_size=FEWEST, max_size=150))
def test_topics_and_metadata_in_any_order(rows: list[tuple[int, str, str]]) -> None:
    records = [record(at, topic=topic, metadata=metadata) for at, topic, metadata in rows]

    assert written_together(records, NOW_MS, None) == one_by_one(records)


@pytest.mark.parametrize(
    "other",
    [
        OffsetRecord(OffsetKey("g", "t", 1), None),
        record(1, group="h"),
        record(1, expires=NOW_MS),
        record(1, metadata="m" * 40_000),
        GroupRecord(GroupKey("g"), None),
    ],
)
def test_what_is_of_another_form_is_not_written_by_columns(other: OffsetRecord) -> None:
    records = [record(partition) for partition in range(FEWEST)]

    assert written_together([*records, other], NOW_MS, None) is None
    assert written_together(records[1:], NOW_MS, None) is None, "as soon one by one"
