"""What is kept between tasks, and for whom."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from odradek.client.sync import SyncClient
from odradek.model.ids import TopicPartition
from odradek.model.settings import RACK_AWARE_SELECTOR
from odradek.records.builder import NewRecord, build_batch
from odradek.spark import reading
from odradek.spark.arrow_schema import rows_schema
from odradek.spark.options import ConnectionOptions, parse
from odradek.spark.ranges import OffsetRange
from odradek.spark.reading import client_for, read_ranges
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
