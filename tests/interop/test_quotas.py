"""Apache's kafka-configs sets a quota, and Apache's kafka-producer-perf-test is held to it: by our brokers as by
Apache's, in one cluster."""

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.apache import Tools
from tests.interop.cluster import MixedCluster

CONFIG = "kafka.admin.ConfigCommand"
PERFORMANCE = "org.apache.kafka.tools.ProducerPerformance"
RATE = 500_000  # bytes a second
WINDOWS_S = 3
RECORDS, RECORD_BYTES = 400, 10_000  # 4 MB: eight seconds' worth


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MixedCluster]:
    settings = {"quota.window.num": str(WINDOWS_S)}
    directory: Path = tmp_path_factory.mktemp("quotas")
    with MixedCluster(directory, ours=(1,), apaches=(2,), settings=settings) as running:
        running.create_topic("ours", {0: [1]})
        running.create_topic("apaches", {0: [2]})
        yield running


def bytes_a_second(cluster: MixedCluster, tools: Tools, topic: str, client: str) -> tuple[float, float]:
    """Of one run of the tool; and how long the broker held it up, in milliseconds on average."""
    printed = tools.run(
        PERFORMANCE,
        *("--topic", topic, "--num-records", RECORDS, "--record-size", RECORD_BYTES, "--throughput", -1),
        "--print-metrics",
        *("--producer-props", f"bootstrap.servers={cluster.running}", f"client.id={client}"),
        *("batch.size=50000", "linger.ms=20"),
    )
    assert printed.code == 0, printed
    rate = re.search(rf"{RECORDS} records sent, ([0-9.]+) records/sec", printed)
    throttled = re.search(r"produce-throttle-time-avg:\{[^}]*\}\s*: ([0-9.]+)", printed)
    assert rate is not None and throttled is not None, printed
    return float(rate[1]) * RECORD_BYTES, float(throttled[1])


def set_quota(cluster: MixedCluster, tools: Tools, client: str, quota: str) -> None:
    entity = ("--entity-type", "clients", "--entity-name", client)
    bootstrap = ("--bootstrap-server", cluster.running)
    assert tools.run(CONFIG, *bootstrap, "--alter", *entity, "--add-config", quota).code == 0
    cluster.wait_until(
        lambda: quota in tools.run(CONFIG, *bootstrap, "--describe", *entity), "the quota is described"
    )


def test_both_kinds_of_brokers_hold_a_producer_to_its_quota(cluster: MixedCluster, tools: Tools) -> None:
    set_quota(cluster, tools, "greedy", f"producer_byte_rate={RATE}")
    rates = {}
    for topic in ("ours", "apaches"):
        unlimited, untold = bytes_a_second(cluster, tools, topic, "modest")
        rates[topic], told = bytes_a_second(cluster, tools, topic, "greedy")
        assert untold == 0, f"{topic}: the quota of another held it up"
        assert told > 0
        # All windows but one may be full at once when it begins.
        size = RECORDS * RECORD_BYTES
        assert 0.3 * RATE < rates[topic] < RATE / (1 - WINDOWS_S * RATE / size) * 1.1, (topic, unlimited)
    assert 0.5 < rates["ours"] / rates["apaches"] < 2, rates


def test_both_kinds_of_brokers_hold_a_consumer_to_its_quota(cluster: MixedCluster, tools: Tools) -> None:
    """The Java consumer goes on after an answer without partitions, its first one included, and misses nothing."""
    set_quota(cluster, tools, "slow", "consumer_byte_rate=100000")
    count = 20_000
    took_s = {}
    for kind, broker in (("ours", 1), ("apaches", 2)):
        topic = f"read-{kind}"
        cluster.create_topic(topic, {0: [broker]})
        assert tools.run("produce", cluster.running, topic, 1, count, "batch.size=4096").code == 0
        size = sum(f.stat().st_size for f in cluster.disk_of(broker, topic, 0).glob(f"{topic}-0/*.log"))
        began = time.monotonic()
        small = "max.partition.fetch.bytes=50000"
        read = tools.run("consume", cluster.running, topic, count, "client.id=slow", small)
        took_s[kind] = time.monotonic() - began
        first, *rows = read.splitlines()
        assert first == f"{count} read, ends {{0={count}}}"
        assert rows == [f"0 {n} key-{n} value-{n}" for n in range(count)]
        # All windows' worth may come at once, and the fetch that is one too many.
        assert took_s[kind] > size / 100_000 - WINDOWS_S - 0.5 > 0
    assert 0.3 < took_s["ours"] / took_s["apaches"] < 2, took_s
