"""Quotas of clients over real sockets: an unmodified client hears how long it waits, and keeps to its rate."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from odradek.client.sync import ANY, SyncClient
from odradek.protocol.messages import alter_client_quotas as aq
from odradek.store import transactions
from odradek.store.api import Stored
from odradek.testing.running_cluster import RunningCluster, running_cluster
from tests.server.exporter.test_page import of, read
from tests.server.test_running_cluster import create
from tests.support import eventually

RATE = 200_000  # bytes a second
WINDOWS_S = 2
VALUE = bytes(20_000)
RECORDS = 40  # 800 kB: four seconds' worth


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[RunningCluster]:
    """The second broker leads the topic; the first is asked to set quotas."""
    settings = {
        "quota.window.num": str(WINDOWS_S),
        "quota.window.size.seconds": "1",
        "odradek.metrics.listener": "http://localhost:0",
    }
    with running_cluster(brokers=2, directory=tmp_path, settings=settings) as running:
        running.call(create(running.cluster, "orders", (2,)))
        yield running


def set_quota(cluster: RunningCluster, client: str, **values: float | None) -> None:
    entity = [aq.EntityData(entity_type="client-id", entity_name=client)]
    ops = [aq.OpData(key=key, value=value or 0.0, remove=value is None) for key, value in values.items()]
    request = aq.AlterClientQuotasRequest(
        entries=[aq.AlterClientQuotasRequestEntryData(entity=entity, ops=ops)]
    )
    with SyncClient(cluster.bootstrap) as asker:
        (row,) = asker.call(ANY, request).entries
        assert row.error_code == 0, row
    for runtime in cluster.cluster.runtimes.values():
        for key, value in values.items():
            eventually(
                lambda quotas=runtime.broker.quotas, key=key, value=value: (
                    (found := quotas.find(key, "ANONYMOUS", client)) is None
                    if value is None
                    else (found := quotas.find(key, "ANONYMOUS", client)) is not None and found.rate == value
                ),
                what=f"{key} of {client} is known everywhere",
            )


def counters(cluster: RunningCluster) -> dict[str, float]:
    """As Prometheus reads them at the broker that leads: `produce_throttled`, `produce_throttle_time_ms`, and so on."""
    samples = read(cluster, 2)
    return {
        **{
            f"{quota}_throttled": of(samples, "odradek_requests_throttled_total", quota=quota)
            for quota in ("produce", "fetch", "request")
        },
        **{
            f"{quota}_throttle_time_ms": 1000
            * of(samples, "odradek_throttle_time_seconds_total", quota=quota)
            for quota in ("produce", "fetch", "request")
        },
    }


def produce(cluster: RunningCluster, client: str, records: int = RECORDS) -> tuple[float, list[float]]:
    """How long it took, and the throttle times the client was told, in seconds."""
    told: list[float] = []
    acknowledged: list[Message] = []
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "client.id": client,
            "batch.size": 2 * len(VALUE),
            "throttle_cb": lambda event: told.append(event.throttle_time),
        }
    )
    began = time.monotonic()
    for _ in range(records):
        producer.produce("orders", VALUE, partition=0, on_delivery=lambda error, m: acknowledged.append(m))
    assert producer.flush(60) == 0
    assert all(m.error() is None for m in acknowledged) and len(acknowledged) == records
    return time.monotonic() - began, told


def consume(cluster: RunningCluster, client: str, count: int) -> tuple[float, list[float]]:
    told: list[float] = []
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "client.id": client,
            "group.id": "none",
            "enable.auto.commit": False,
            "fetch.message.max.bytes": 3 * len(VALUE),
            "throttle_cb": lambda event: told.append(event.throttle_time),
        }
    )
    try:
        began = time.monotonic()
        consumer.assign([TopicPartition("orders", 0, 0)])
        offsets: list[int | None] = []
        while len(offsets) < count:
            assert time.monotonic() < began + 60, f"{len(offsets)} of {count} after a minute"
            for message in consumer.consume(10, timeout=0.2):
                assert message.error() is None, message.error()
                offsets.append(message.offset())
        assert offsets == list(range(count))
        return time.monotonic() - began, told
    finally:
        consumer.close()


# Of a rate that is kept no more comes through in t seconds than (t + windows) * rate, and the batch that breaks it.
SHORTEST_S = RECORDS * len(VALUE) / RATE - WINDOWS_S - 2 * len(VALUE) / RATE


def test_a_producer_is_told_and_held_to_its_rate_and_nobody_else_is(cluster: RunningCluster) -> None:
    set_quota(cluster, "greedy", producer_byte_rate=RATE)
    _, told = produce(cluster, "modest")
    assert told == [] and counters(cluster)["produce_throttled"] == 0
    took_s, told = produce(cluster, "greedy")
    assert took_s > SHORTEST_S
    assert max(told) > 0.1
    found = counters(cluster)
    assert found["produce_throttled"] >= 1
    assert found["produce_throttle_time_ms"] >= 1000 * max(told) - 1
    set_quota(cluster, "greedy", producer_byte_rate=None)
    _, told = produce(cluster, "greedy")
    assert told == [] and counters(cluster)["produce_throttled"] == found["produce_throttled"]


def test_a_consumer_is_held_to_its_rate_and_gets_every_record(cluster: RunningCluster) -> None:
    produce(cluster, "modest")
    set_quota(cluster, "greedy", consumer_byte_rate=RATE)
    took_s, told = consume(cluster, "greedy", RECORDS)
    assert took_s > SHORTEST_S
    assert max(told) > 0.1
    assert counters(cluster)["fetch_throttled"] >= 1
    _, told = consume(cluster, "modest", RECORDS)
    assert told == []


def test_time_is_a_quota_too(cluster: RunningCluster) -> None:
    """Ten microseconds a second are less than any request takes, so the next one is held up."""
    set_quota(cluster, "greedy", request_percentage=0.001)
    _, told = produce(cluster, "greedy", records=6)
    assert 0 < max(told) <= 1.0, "one window at most"
    assert counters(cluster)["request_throttled"] >= 1


def test_a_quota_that_was_removed_while_a_broker_had_no_session_does_not_count_any_more(
    cluster: RunningCluster,
) -> None:
    """Its node is gone with it, so nothing that is read afterwards names it."""
    set_quota(cluster, "etl", producer_byte_rate=RATE)
    set_quota(cluster, "web", producer_byte_rate=RATE)
    store = cluster.cluster.ensemble.open()
    gone = transactions.remove_notifications(["/config/clients/etl"])  # and no word of it
    assert cluster.call(store.write([gone], None)) == [Stored(-1)]
    before = cluster.cluster.runtimes[2].registration
    cluster.pause(2)
    cluster.resume(2)
    runtime = cluster.cluster.runtimes[2]
    eventually(lambda: runtime.registration != before, what="broker 2 has registered again")
    eventually(
        lambda: runtime.broker.quotas.find("producer_byte_rate", "ANONYMOUS", "etl") is None,
        what="the quota is forgotten",
    )
    assert runtime.broker.quotas.find("producer_byte_rate", "ANONYMOUS", "web") is not None
