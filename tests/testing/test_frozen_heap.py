"""Whoever thaws what the collector shall not look at slows down no file of tests but its own."""

import gc
from collections.abc import Iterator

import pytest

from tests import frozen_heap


@pytest.fixture(autouse=True)
def frozen_in_the_end() -> Iterator[None]:
    yield
    frozen_heap.freeze_again()


def test_what_was_thawed_is_frozen_again_without_what_is_garbage() -> None:
    gc.unfreeze()
    circle: list[object] = []
    circle.append(circle)
    del circle
    frozen_heap.freeze_again()
    assert gc.get_freeze_count() > 10_000
    assert gc.collect() == 0


def test_what_is_frozen_is_left_alone() -> None:
    frozen_heap.freeze_again()
    kept = [[] for _ in range(1_000)]  # type: ignore[var-annotated]
    before = gc.get_freeze_count()
    frozen_heap.freeze_again()
    assert gc.get_freeze_count() <= before and len(kept) == 1_000
