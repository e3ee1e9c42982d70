"""Apache's own Java clients, unmodified, and its segment reader, against our brokers."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.apache import Tools
from tests.interop.cluster import MixedCluster
from tests.interop.load import check_replicas

DUMP = "kafka.tools.DumpLogSegments"
PERFORMANCE = "org.apache.kafka.tools.ProducerPerformance"
RECORDS = 3000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MixedCluster]:
    """One of each kind: every partition lies in our files and in Apache's."""
    with MixedCluster(tmp_path_factory.mktemp("java"), ours=(1,), apaches=(2,)) as running:
        yield running


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_the_java_producer_and_an_assigned_consumer(cluster: MixedCluster, tools: Tools, codec: str) -> None:
    topic = f"java-{codec}"
    cluster.create_topic(topic, {0: [1, 2], 1: [2, 1]}, min_insync_replicas="2")
    ours = cluster.brokers[1].address
    settings = ("acks=all", "enable.idempotence=true", f"compression.type={codec}", "linger.ms=5")
    printed = tools.run("produce", ours, topic, 2, RECORDS, *settings)
    assert printed.code == 0, printed
    half = RECORDS // 2
    assert printed.strip() == f"{RECORDS} acknowledged, last offsets {{0={half - 1}, 1={half - 1}}}"
    for isolation in ("read_uncommitted", "read_committed"):
        read = tools.run("consume", ours, topic, RECORDS, f"isolation.level={isolation}")
        assert read.code == 0, read
        first, *rows = read.splitlines()
        assert first == f"{RECORDS} read, ends {{0={half}, 1={half}}}"
        assert rows == [f"{p} {n} key-{2 * n + p} value-{2 * n + p}" for p in (0, 1) for n in range(half)]
    check_replicas(cluster, topic)


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_the_java_consumer_reads_what_our_broker_compressed(
    cluster: MixedCluster, tools: Tools, codec: str
) -> None:
    topic = f"packed-by-us-{codec}"
    cluster.create_topic(topic, {0: [1, 2]}, compression_type=codec)
    ours = cluster.brokers[1].address
    assert tools.run("produce", ours, topic, 1, RECORDS, "acks=all", "linger.ms=5").code == 0
    read = tools.run("consume", ours, topic, RECORDS, "isolation.level=read_committed")
    assert read.code == 0 and read.splitlines()[0] == f"{RECORDS} read, ends {{0={RECORDS}}}", read
    check_replicas(cluster, topic)


def test_dump_log_segments_reads_ours_as_it_reads_apaches(cluster: MixedCluster, tools: Tools) -> None:
    cluster.create_topic("dumped", {0: [1, 2], 1: [2, 1]}, segment_bytes="65536", index_interval_bytes="1024")
    ours = cluster.brokers[1].address
    assert tools.run("produce", ours, "dumped", 2, 20 * RECORDS, "acks=all", "batch.size=2048").code == 0
    check_replicas(cluster, "dumped")
    cluster.terminate(1)  # so that the last indexes and snapshots are written
    cluster.terminate(2)
    try:
        for partition in (0, 1):
            dumps = {}
            for broker in (1, 2):
                directory = cluster.data_of(broker) / f"dumped-{partition}"
                dumps[broker] = _dumps(tools, directory)
            assert dumps[1]["log"] == dumps[2]["log"]
            assert len(dumps[1]["log"].splitlines()) > RECORDS
            for kind in ("index", "timeindex", "snapshot"):
                for broker in (1, 2):
                    assert not _complaints(dumps[broker][kind]), (broker, kind, dumps[broker][kind][:2000])
            assert dumps[1]["snapshot"] == dumps[2]["snapshot"]
    finally:
        cluster.restart(1)
        cluster.restart(2)


def _dumps(tools: Tools, directory: Path) -> dict[str, str]:
    """What the tool prints about all files of each kind, without their place and their borders."""
    found = {}
    for kind, more in (
        ("log", ["--print-data-log"]),
        ("index", ["--verify-index-only"]),
        ("timeindex", ["--verify-index-only"]),
        ("snapshot", []),
    ):
        files = sorted(directory.glob(f"*.{kind}"))
        if kind == "snapshot":
            files = files[-1:]  # older ones are kept as long as each thinks fit
        assert files, f"no .{kind} in {directory}"
        printed = tools.run(DUMP, "--files", ",".join(map(str, files)), *more)
        assert printed.code == 0, printed[-2000:]
        text = printed.replace(str(directory), "")
        text = re.sub(
            r"^(Dumping .*|Log starting offset.*|Starting offset.*)\n", "", text, flags=re.MULTILINE
        )
        found[kind] = re.sub(r" position: \d+", "", text) if kind == "log" else text
    return found


def _complaints(text: str) -> list[str]:
    return [line for line in text.splitlines() if "ismatch" in line or "ound" in line or "rror" in line]


def test_producer_performance(cluster: MixedCluster, tools: Tools) -> None:
    cluster.create_topic("performance", {0: [1, 2], 1: [1, 2]})
    ours = cluster.brokers[1].address
    arguments = ("--topic", "performance", "--num-records", RECORDS, "--record-size", 100, "--throughput", -1)
    printed = tools.run(PERFORMANCE, *arguments, "--producer-props", f"bootstrap.servers={ours}", "acks=all")
    assert printed.code == 0, printed
    assert f"{RECORDS} records sent" in printed
    check_replicas(cluster, "performance")
