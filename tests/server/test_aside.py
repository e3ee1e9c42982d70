"""What takes long is done by a thread of a real broker, and a thread that fails leaves nobody waiting."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from odradek.broker.unchecked_produces import Check
from odradek.client.sync import CONTROLLER, SyncClient
from odradek.log import files
from odradek.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from odradek.records.builder import NewRecord, build_batch
from odradek.testing.running_cluster import running_cluster
from tests.server.bad_inputs import call, produce

LARGE = build_batch([NewRecord(b"k", b"%d" % n, 1000 + n) for n in range(3000)], codec="zstd")
BAD = build_batch([NewRecord(None, b"%d" % n, 1000 + n) for n in range(3000)], codec="zstd")

SMALL = build_batch([NewRecord(b"k", b"v", 1000)])


@pytest.fixture
def port() -> Iterator[int]:
    """Of a broker with one topic, `t`, which is compacted: its records are read before they are stored."""
    with running_cluster(brokers=1) as cluster:
        with SyncClient(cluster.bootstrap) as client:
            compacted = CreatableTopicConfig(name="cleanup.policy", value="compact")
            topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1, configs=[compacted])
            client.call(CONTROLLER, CreateTopicsRequest(topics=[topic], timeout_ms=20_000))
            assert client.topic("t").partitions[0].leader >= 0
        yield int(cluster.bootstrap.rpartition(":")[2])


def test_large_batches_are_read_and_looked_into_by_a_thread(port: int) -> None:
    assert produce("t", LARGE)(port) == 0
    assert produce("t", BAD)(port) == 87
    assert produce("t", LARGE, acks=1)(port) == 0
    wanted = [{"partitionIndex": 0, "currentLeaderEpoch": -1, "timestamp": 3500}]
    lookup = call(2, 7, replicaId=-1, isolationLevel=0, topics=[{"name": "t", "partitions": wanted}])
    assert lookup(port) == [0]


def test_a_check_that_fails_is_answered_and_the_next_goes_on(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(self: Check) -> None:
        raise ValueError("a mistake of ours")

    with monkeypatch.context() as patched:
        patched.setattr(Check, "run", fails)
        assert produce("t", LARGE)(port) == -1
    assert produce("t", LARGE)(port) == 0


def test_a_disk_that_hangs_keeps_no_batch_from_being_checked(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many logs wait for it as there are threads that may block."""
    hangs, disk_is_back = threading.Semaphore(0), threading.Event()

    def hang(fd: int) -> None:
        hangs.release()
        assert disk_is_back.wait(60)

    with SyncClient(f"127.0.0.1:{port}") as client:
        synced = CreatableTopicConfig(name="flush.messages", value="1")
        topics = [
            CreatableTopic(name=name, num_partitions=1, replication_factor=1, configs=[synced])
            for name in "uv"
        ]
        client.call(CONTROLLER, CreateTopicsRequest(topics=topics, timeout_ms=20_000))
        for name in "uv":
            assert client.topic(name).partitions[0].leader >= 0
    monkeypatch.setattr(files, "_fdatasync", hang)
    with ThreadPoolExecutor() as producers:
        for name in "uv":
            producers.submit(produce(name, SMALL), port)
        try:
            for _ in "uv":
                assert hangs.acquire(timeout=30)
            assert produce("t", LARGE)(port) == 0
        finally:
            disk_is_back.set()
