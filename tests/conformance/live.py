"""A cluster of processes on a store under test: what is produced, read back, and seen in the tree."""

from collections.abc import Callable
from typing import Any

from odradek.client.sync import SyncClient
from odradek.client.sync_fetch import read_range
from odradek.model.errors import OdradekError
from odradek.model.ids import TopicPartition
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.records.batch import iter_batches
from odradek.records.builder import NewRecord, build_batch
from odradek.records.reader import decode_batch
from odradek.testing.process_cluster import ProcessCluster
from tests.support import eventually


def alive(cluster: ProcessCluster) -> SyncClient:
    running = [broker.address for broker in cluster.brokers.values() if broker.is_running]
    return SyncClient(",".join(running), bootstrap_timeout_s=20)


def create(cluster: ProcessCluster, topic: str, *, partitions: int = 1, replicas: int = 3) -> None:
    from odradek.client.sync import CONTROLLER

    wanted = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=replicas)
    with alive(cluster) as client:
        (answer,) = client.call(CONTROLLER, CreateTopicsRequest(topics=[wanted], timeout_ms=30_000)).topics
        assert answer.error_code == 0, answer
    eventually(lambda: in_sync(cluster, topic) == {p: replicas for p in range(partitions)}, 20, topic)


def produce(cluster: ProcessCluster, topic: str, *values: str, partition: int = 0) -> None:
    """Acknowledged by all in sync; tried again until it is. A retry may double a record, never lose one."""

    def send(value: str) -> bool:
        try:
            with alive(cluster) as client:
                client.produce(
                    TopicPartition(topic, partition),
                    build_batch([NewRecord(None, value.encode(), 1)]),
                    timeout_s=5,
                )
        except OdradekError:
            return False
        return True

    for value in values:
        eventually(lambda value=value: send(value), 30, f"{value} is acknowledged")  # type: ignore[misc]


def values(cluster: ProcessCluster, topic: str, partition: int = 0) -> list[str]:
    where = TopicPartition(topic, partition)
    found: list[str] = []
    with alive(cluster) as client:
        end = client.end_offsets([where])[where]
        for fetched in read_range(client, where, 0, end) if end else ():
            for position, _ in iter_batches(fetched.records):
                found += [
                    (record.value or b"").decode() for record in decode_batch(fetched.records, position)
                ]
    return found


def in_sync(cluster: ProcessCluster, topic: str) -> dict[int, int]:
    """Members of each partition's ISR, counted."""
    return {index: len(view.isr) for index, view in partitions(cluster, topic).items()}


def leader(cluster: ProcessCluster, topic: str, partition: int = 0) -> int:
    return int(partitions(cluster, topic)[partition].leader)


def partitions(cluster: ProcessCluster, topic: str) -> dict[int, Any]:
    try:
        with alive(cluster) as client:
            return dict(client.cluster([topic]).topics[topic].partitions)
    except OdradekError:
        return {}


def controller(cluster: ProcessCluster) -> int:
    with alive(cluster) as client:
        return client.cluster([]).controller_id


def said(cluster: ProcessCluster, broker_id: int) -> str:
    return cluster.brokers[broker_id].log_file.read_text(encoding="utf-8", errors="replace")


def anybody_said(cluster: ProcessCluster, words: str) -> Callable[[], bool]:
    return lambda: any(words in said(cluster, broker_id) for broker_id in cluster.brokers)
