"""What tasks say they have read, put together."""

import pyarrow as pa
import pytest

from odradek.model.ids import TopicPartition
from odradek.spark.fingerprint import Fingerprint
from odradek.spark.parquet import parts_of
from odradek.spark.parts import Overlap, Part, come_again, from_json, merged, to_json

ID = bytes(range(16))


def part(
    start: int, end: int, *, partition: int = 0, count: int = 0, epochs: tuple[tuple[int, int], ...] = ()
) -> Part:
    return Part("orders", partition, start, end, Fingerprint(count, count * 7), epochs, ID)


def test_pieces_of_a_partition_become_one_part() -> None:
    pieces = [
        part(10, 20, count=9, epochs=((3, 12),)),
        part(0, 10, count=10, epochs=((2, 0), (3, 8))),
        part(5, 6, partition=1, count=1),
    ]

    assert merged(pieces) == (
        part(0, 20, count=19, epochs=((2, 0), (3, 8))),
        part(5, 6, partition=1, count=1),
    )


def test_a_gap_between_pieces_is_no_fault() -> None:
    assert merged([part(0, 3), part(7, 9)]) == (part(0, 9),)


@pytest.mark.parametrize("second", [(5, 12), (0, 10), (3, 4), (9, 10)])
def test_offsets_that_come_twice_are_an_error(second: tuple[int, int]) -> None:
    with pytest.raises(Overlap, match=r"orders-0: offsets .* come twice"):
        merged([part(0, 10), part(*second)])


def test_a_topic_of_the_same_name_is_another_topic() -> None:
    other = part(0, 10)._replace(topic_id=bytes(16))

    assert len(merged([part(0, 10), other])) == 2


def test_parts_survive_being_written_down() -> None:
    parts = (part(0, 20, count=19, epochs=((2, 0), (3, 8))), part(5, 6, partition=1))

    assert from_json(to_json(parts)) == parts


@pytest.mark.parametrize("epochs", [[4, 4, 4], [2, 2, 4], [4, 2, 4]])
def test_rows_tell_the_same_whether_their_partition_is_known_or_looked_up(epochs: list[int]) -> None:
    rows = {
        "key": pa.array([None, b"k", b""], pa.binary()),
        "value": pa.array([b"a", None, b"c"], pa.binary()),
        "topic": ["orders"] * 3,
        "partition": pa.array([1] * 3, pa.int32()),
        "offset": [7, 9, 10],
        "leaderEpoch": pa.array(epochs, pa.int32()),
    }
    batch = pa.RecordBatch.from_pydict(rows)

    (found,) = parts_of(batch, ID, TopicPartition("orders", 1))

    assert [found] == parts_of(batch, ID)
    assert (found.start, found.end, found.fingerprint.count) == (7, 11, 3)
    first = {epoch: offset for epoch, offset in zip(reversed(epochs), (10, 9, 7), strict=True)}
    assert found.epochs == tuple(sorted(first.items()))
    assert parts_of(batch.slice(0, 0), ID, TopicPartition("orders", 1)) == []


def test_what_comes_again_is_the_same_or_less_of_it_and_nothing_else() -> None:
    """Other records at the same offsets were taken for those that are there, and then in no table."""

    def at(count: int, hashed: int, epochs: tuple[int, ...] = (3,), start: int = 0, end: int = 5) -> Part:
        found = Fingerprint(count, hashed)
        return Part("t", 0, start, end, found, tuple((epoch, start) for epoch in epochs))

    before = [at(5, 11)]
    assert come_again([at(5, 11)], before, may_have_lost=False)
    assert come_again([at(4, 7)], before, may_have_lost=False), "compacted"
    assert come_again([at(3, 7, start=2)], before, may_have_lost=True), "and retention has taken two"
    assert come_again([], before, may_have_lost=True)
    for may_have_lost in (False, True):
        assert not come_again([at(5, 12)], before, may_have_lost=may_have_lost), "a topic made again"
        assert not come_again([at(6, 12)], before, may_have_lost=may_have_lost)
        assert not come_again([at(4, 7, (3, 4))], before, may_have_lost=may_have_lost), "an unclean election"
