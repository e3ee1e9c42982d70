"""How offset ranges become tasks."""

import time

from hypothesis import given
from hypothesis import strategies as st

from odradek.model.ids import TopicPartition
from odradek.spark.ranges import OffsetRange, plan, split

sizes = st.lists(st.integers(0, 2_000_000), max_size=20)


def ranges_of(sizes: list[int]) -> list[OffsetRange]:
    return [OffsetRange("orders", number, 100, 100 + size) for number, size in enumerate(sizes)]


def offsets_covered(tasks: list[tuple[OffsetRange, ...]]) -> list[tuple[int, int, int]]:
    return sorted((piece.partition, piece.start, piece.end) for task in tasks for piece in task)


@given(sizes, st.integers(1, 100_000), st.none() | st.integers(1, 40), st.none() | st.integers(10_000, 10**6))
def test_the_tasks_read_every_offset_once(
    sizes: list[int], pack_below: int, min_tasks: int | None, most: int | None
) -> None:
    tasks = plan(ranges_of(sizes), pack_below=pack_below, min_tasks=min_tasks, most_per_task=most)

    assert all(task for task in tasks)
    assert all(piece.size > 0 for task in tasks for piece in task)
    for partition, size in enumerate(sizes):
        pieces = [(start, end) for p, start, end in offsets_covered(tasks) if p == partition]
        at = 100
        for start, end in pieces:
            assert start == at
            at = end
        assert at == 100 + size
    if most is not None:
        assert all(sum(piece.size for piece in task) <= most for task in tasks)


def test_small_ranges_share_a_task_and_large_ones_have_their_own() -> None:
    tasks = plan(ranges_of([10, 20_000, 10, 40_000, 10]), pack_below=15_000)

    assert [[piece.partition for piece in task] for task in tasks] == [[0, 2, 4], [1], [3]]


def test_packing_stops_where_a_task_is_worth_its_start() -> None:
    tasks = plan(ranges_of([600] * 6), pack_below=1_000)

    assert [len(task) for task in tasks] == [2, 2, 2]


def test_a_hot_partition_is_split_over_several_tasks() -> None:
    tasks = plan(ranges_of([3_000_000, 100]), pack_below=1_000)

    assert [task[0].size for task in tasks if task[0].partition == 0] == [500_000] * 6


def test_min_tasks_are_dealt_out_by_size() -> None:
    tasks = plan(ranges_of([900, 100]), pack_below=1_000, min_tasks=10)

    assert len([task for task in tasks if task[0].partition == 0]) == 9
    assert len(tasks) == 10


def test_twenty_thousand_partitions_are_dealt_out_at_once() -> None:
    ranges = [OffsetRange("t", n, 0, 1000) for n in range(20_000)]
    begun = time.process_time()

    tasks = plan(ranges, pack_below=25_000, min_tasks=8)

    assert len(tasks) == 20_000
    assert time.process_time() - begun < 0.5  # 0.03 s; where the whole is summed up for each 2.6 s


def test_nothing_to_read_is_no_task() -> None:
    assert plan(ranges_of([0, 0]), pack_below=10, min_tasks=5) == []
    assert plan([OffsetRange("orders", 0, 10, 5)], pack_below=10) == []


def test_a_split_never_makes_an_empty_piece() -> None:
    assert [r.size for r in split(OffsetRange("orders", 0, 5, 8), 10)] == [1, 1, 1]


def test_large_records_are_split_and_packed_by_their_bytes() -> None:
    sizes = {TopicPartition("orders", n): size for n, size in enumerate((1 << 20, 1 << 20, 1 << 20, 100))}

    tasks = plan(ranges_of([12, 4, 1_000, 1_000]), pack_below=25_000, record_bytes=sizes)

    told = [[(piece.partition, piece.size) for piece in task] for task in tasks]
    assert told == [[(0, 12), (1, 4)], *[[(2, 125)]] * 8, [(3, 1_000)]]


def test_a_record_larger_than_a_task_is_a_task() -> None:
    huge = {TopicPartition("orders", 0): 1 << 30}

    assert [task[0].size for task in plan(ranges_of([3]), pack_below=10, record_bytes=huge)] == [1, 1, 1]


def test_min_tasks_are_dealt_out_by_bytes_where_these_are_known() -> None:
    sizes = {TopicPartition("orders", 0): 1_000, TopicPartition("orders", 1): 9_000}

    tasks = plan(ranges_of([10_000, 10_000]), pack_below=10, min_tasks=10, record_bytes=sizes)

    assert [sum(task[0].partition == n for task in tasks) for n in (0, 1)] == [1, 9]


def test_small_ranges_share_no_task_that_would_be_larger_than_asked_for() -> None:
    tasks = plan(ranges_of([6_000] * 5), pack_below=100_000, most_per_task=15_000)

    assert [sum(piece.size for piece in task) for task in tasks] == [12_000, 12_000, 6_000]
