"""What is kept between tasks, and for whom."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from odradek.client.sync import SyncClient
from odradek.client.sync_fetch import LogCut, OffsetsGone, TopicRecreated
from odradek.model.errors import OdradekError
from odradek.model.ids import TopicPartition
from odradek.model.settings import RACK_AWARE_SELECTOR
from odradek.records.builder import NewRecord, build_batch
from odradek.spark import reading
from odradek.spark.arrow_schema import rows_schema
from odradek.spark.options import ConnectionOptions, parse
from odradek.spark.ranges import OffsetRange
from odradek.spark.reading import client_for, read_one, read_ranges
from odradek.testing.running_cluster import running_cluster


def test_a_client_is_kept_for_the_thread_that_asked_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two that read at once would take each other's answers from one connection."""
    monkeypatch.setattr(reading, "_clients", {})
    options = ConnectionOptions("127.0.0.1:9")

    here = client_for(options)
    with ThreadPoolExecutor(1) as other:
        there = other.submit(client_for, options).result()
        again = other.submit(client_for, options).result()

    assert again is there
    assert there is not here
    assert client_for(options) is here


def test_a_fork_has_a_client_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the one that it has from its parent the two would take each other's answers from one connection."""
    options = ConnectionOptions("127.0.0.1:9")
    of_parent = client_for(options)
    monkeypatch.setattr("os.getpid", lambda: 7)

    assert client_for(options) is not of_parent


def test_a_task_reads_from_the_replica_in_its_rack() -> None:
    settings = {"broker.rack": "$broker", "replica.selector.class": RACK_AWARE_SELECTOR}
    with running_cluster(settings=settings) as cluster:
        cluster.create_topic("orders", replication_factor=3)
        with SyncClient(cluster.bootstrap) as client:
            client.produce(TopicPartition("orders", 0), build_batch([NewRecord(None, b"x")] * 10))
        near = next(broker for broker in cluster.isr("orders") if broker != cluster.leader("orders"))
        given = {"kafka.bootstrap.servers": cluster.bootstrap, "subscribe": "orders"}
        options = parse({**given, "kafka.client.rack": f"broker-{near}"}).connection
        with cluster.inject("Fetch", delay_s=0.001, broker=near, client_id=options.client_id) as met:
            (batch,) = read_ranges([OffsetRange("orders", 0, 0, 10)], options, rows_schema(("value",)))
        reading.client_for(options).close()

    assert batch.num_rows == 10
    assert met.hits == 1


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    ("found", "lost", "asked"),
    [
        ([], 0, [(10, 30)]),
        ([(OffsetsGone("too old"), 14)], 4, [(10, 30), (14, 30)]),
        ([(OffsetsGone("too old"), 99)], 20, [(10, 30)]),
        ([(OffsetsGone("it ends early"), 0)], 20, [(10, 30)]),
        ([(LogCut("cut", 25), 0)], 5, [(10, 30), (10, 25)]),
        ([(LogCut("cut", 3), 0)], 20, [(10, 30)]),
        ([(LogCut("cut", 25), 0), (OffsetsGone("too old"), 14)], 9, [(10, 30), (10, 25), (14, 25)]),
        ([(OffsetsGone("too old"), 14), (TopicRecreated("again"), 0)], 20, [(10, 30), (14, 30)]),
    ],
)
def test_of_a_range_each_offset_that_is_left_out_is_counted_once(
    monkeypatch: pytest.MonkeyPatch,
    found: list[tuple[OdradekError, int]],
    lost: int,
    asked: list[tuple[int, int]],
) -> None:
    ranges: list[tuple[int, int]] = []
    begins_at = 0

    def nothing(_client: Any, _partition: TopicPartition, start: int, end: int, **_how: Any) -> Iterator[Any]:
        nonlocal begins_at
        ranges.append((start, end))
        if found:
            error, begins_at = found.pop(0)
            raise error
        return iter(())

    client = SimpleNamespace(begin_offsets=lambda partitions: dict.fromkeys(partitions, begins_at))
    monkeypatch.setattr(reading, "client_for", lambda options: client)
    monkeypatch.setattr(reading, "_places_for", lambda *_: None)
    monkeypatch.setattr(reading, "read_range", nothing)
    told: list[tuple[int, int]] = []
    options = ConnectionOptions("127.0.0.1:9", fail_on_data_loss=False)

    assert (
        list(
            read_one(
                OffsetRange("orders", 0, 10, 30), options, rows_schema(), lambda *gone: told.append(gone)
            )
        )
        == []
    )

    assert (sum(end - start for start, end in told), ranges) == (lost, asked)
