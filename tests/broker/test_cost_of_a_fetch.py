"""What a parked fetch costs follows what changed, not how many partitions its session has: counted in executed lines."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from tests.broker.world import World


def lines_of(work: Callable[[], object]) -> int:
    """Lines of the broker's code (`odradek`) that run in `work`."""
    count = 0

    def in_function(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        count += event == "line"
        return in_function

    def traced(frame: FrameType, event: str, argument: object) -> Any:
        return in_function if frame.f_globals.get("__name__", "").startswith("odradek.") else None

    before = sys.gettrace()
    sys.settrace(traced)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def cluster(path: Path, partitions: int) -> World:
    """Broker 2 follows so many partitions that 1 leads; one record went through partition 0 already."""
    world = World(path, brokers=(1, 2))
    for index in range(partitions):
        world.lead(1, index=index, isr=(1, 2), replicas=(1, 2), is_new=True, settle=False)
    world.settle()
    for _ in range(2):
        round_trip(world)
    return world


def round_trip(world: World) -> None:
    pending = world.produce(1, b"a")
    world.settle()
    assert pending.is_answered and pending.message.responses[0].partition_responses[0].error_code == 0


@pytest.mark.parametrize("many", [40, 160])
def test_acks_all_runs_no_line_more_for_partitions_that_did_not_change(tmp_path: Path, many: int) -> None:
    few_world, many_world = cluster(tmp_path / "few", 4), cluster(tmp_path / "many", many)
    assert lines_of(lambda: round_trip(many_world)) == lines_of(lambda: round_trip(few_world))


def test_a_long_poll_that_ends_without_news_looks_at_no_partition(tmp_path: Path) -> None:
    few_world, many_world = cluster(tmp_path / "few", 4), cluster(tmp_path / "many", 160)
    wait_ms = few_world[1].settings.replica_fetch_wait_max_ms

    def expires(world: World) -> None:
        world.advance(wait_ms + 4)
        world.settle()

    assert lines_of(lambda: expires(many_world)) == lines_of(lambda: expires(few_world))
