"""What a parked fetch costs follows what changed, not how many partitions its session has: counted in executed lines."""

from pathlib import Path

import pytest

from odradek.broker.handlers.fetch import FetchWait
from tests.broker.test_fetch import Reader
from tests.broker.world import TOPIC_ID, Pending, World, batch
from tests.executed_lines import lines_of


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


def patient(path: Path, partitions: int, min_bytes: int, **options: int) -> tuple[World, Pending]:
    """A consumer waits for so many bytes of so many partitions, in each of which there is a batch."""
    world = World(path, brokers=(1,))
    for index in range(partitions):
        world.lead(1, index=index, isr=(1,), replicas=(1,), is_new=True, settle=False)
        world.produce(1, b"a", index=index)
    world.settle()
    reader = Reader(world, max_wait_ms=60_000, min_bytes=min_bytes, **options)
    pending = reader.fetch(*((TOPIC_ID, index, 0) for index in range(partitions)))
    world.settle()
    assert not pending.is_answered
    round_trip(world)
    return world, pending


def test_a_consumer_that_wants_many_bytes_is_not_looked_at_whole_at_each_append(tmp_path: Path) -> None:
    few_world, _ = patient(tmp_path / "few", 20, 1 << 20)
    many_world, _ = patient(tmp_path / "many", 160, 1 << 20)
    assert lines_of(lambda: round_trip(many_world)) == lines_of(lambda: round_trip(few_world))


@pytest.mark.parametrize("isolation_level", [0, 1])
def test_it_is_answered_by_the_append_that_makes_it_enough(
    tmp_path: Path, isolation_level: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = []
    gather = FetchWait.gather
    monkeypatch.setattr(FetchWait, "gather", lambda *given, **how: looked.append(1) or gather(*given, **how))
    size = len(batch(b"a"))
    world, pending = patient(tmp_path, 20, 30 * size, isolation_level=isolation_level)
    for number in range(8):
        world.produce(1, b"a", index=number % 3)
        world.settle()
        assert not pending.is_answered, number
    world.produce(1, b"a", index=7)
    world.settle()
    rows = [row for topic in pending.message.responses for row in topic.partitions]
    assert sum(len(row.records) for row in rows) == 30 * size
    assert len(looked) == 2, "when it came, and when there was enough"


def test_it_hears_at_once_that_another_broker_leads_a_partition(tmp_path: Path) -> None:
    world, pending = patient(tmp_path, 20, 1 << 20)
    world.lead(2, index=3, isr=(2,), replicas=(1, 2))
    world.settle()
    assert pending.is_answered
