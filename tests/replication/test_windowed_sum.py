"""Amounts of the last windows: when one begins, and when it is forgotten."""

from odradek.replication.windowed_sum import WindowedSum


def test_a_window_is_forgotten_when_nothing_was_counted_in_it_for_the_whole_span() -> None:
    counted = WindowedSum(window_count=3, window_ms=1000)
    assert (counted.total, counted.covered_ms(0), counted.oldest_ends_ms) == (0, 0, None)
    counted.record(5, 0)
    counted.record(7, 999)
    counted.record(11, 1000)
    assert (counted.total, counted.covered_ms(1500)) == (23, 1500)
    assert counted.oldest_ends_ms == 999 + 3000
    counted.forget_old(3998)
    assert counted.total == 23, "12 of them were counted up to 999"
    counted.forget_old(3999)
    assert (counted.total, counted.covered_ms(3999)) == (11, 2999)
    counted.forget_old(4000)
    assert (counted.total, counted.covered_ms(4000), counted.oldest_ends_ms) == (0, 0, None)


def test_what_is_taken_back_leaves_the_sum_as_it_was() -> None:
    counted = WindowedSum(window_count=2, window_ms=1000)
    counted.record(100, 0)
    counted.record(900, 1500)
    counted.record(-900, 1500)
    assert counted.total == 100
    counted.forget_old(2000)
    assert counted.total == 0


def test_what_is_counted_begins_a_window_only_when_the_last_one_is_over_and_forgets_what_is_old() -> None:
    counted = WindowedSum(window_count=3, window_ms=1000)
    counted.record(5, 10_000)
    counted.record(7, 10_999)
    assert counted.oldest_ends_ms == 10_999 + 3000, "both in one window"
    counted.record(1, 20_000)
    assert (counted.total, counted.covered_ms(20_000)) == (1, 0)


def test_whoever_only_counts_keeps_no_more_than_the_windows() -> None:
    counted = WindowedSum(window_count=3, window_ms=1000)
    for second in range(100):
        counted.record(1, second * 1000)
    assert (counted.total, counted.covered_ms(99_000)) == (3, 2000)
