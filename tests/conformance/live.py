"""A cluster of processes on a store under test: what is produced, read back, and seen in the tree."""

from collections.abc import Callable
from typing import Any

from odradek.client.sync import CONTROLLER, SyncClient
from odradek.client.sync_connection import Unreachable
from odradek.client.sync_fetch import read_range
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import OdradekError
from odradek.model.ids import TopicPartition
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.records.batch import iter_batches
from odradek.records.builder import NewRecord, build_batch
from odradek.records.reader import decode_batch
from odradek.testing.process_cluster import ProcessCluster
from tests.support import eventually

STORE_LOST = "the connection to ZooKeeper is lost"


def alive(cluster: ProcessCluster) -> SyncClient:
    running = [broker.address for broker in cluster.brokers.values() if broker.is_running]
    return SyncClient(",".join(running), bootstrap_timeout_s=20)


def create(cluster: ProcessCluster, topic: str, *, partitions: int = 1, replicas: int = 3) -> None:
    wanted = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=replicas)
    as_wanted = {ErrorCode.NONE}

    def ask() -> Any:
        """None while there is no controller, or another than the broker asked has heard of, and while the store comes and goes."""
        try:
            with alive(cluster) as client:
                request = CreateTopicsRequest(topics=[wanted], timeout_ms=30_000)
                (answer,) = client.call(CONTROLLER, request).topics
        except Unreachable:
            return None
        if STORE_LOST in (answer.error_message or ""):
            as_wanted.add(ErrorCode.TOPIC_ALREADY_EXISTS)  # it may have been made
            return None
        return None if answer.error_code == ErrorCode.NOT_CONTROLLER else answer

    answer = eventually(ask, 60, "the controller answers")
    assert answer.error_code in as_wanted, answer
    eventually(lambda: in_sync(cluster, topic) == {p: replicas for p in range(partitions)}, 60, topic)


def produce(cluster: ProcessCluster, topic: str, *values: str, partition: int = 0) -> None:
    """Acknowledged by all in sync; tried again until it is. A retry may double a record, never lose one."""

    def send(value: str) -> bool:
        try:
            with alive(cluster) as client:
                client.produce(
                    TopicPartition(topic, partition),
                    build_batch([NewRecord(None, value.encode())]),
                    timeout_s=5,
                )
        except OdradekError:
            return False
        return True

    for value in values:
        eventually(lambda value=value: send(value), 60, f"{value} is acknowledged")  # type: ignore[misc]


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
    """-1 while nobody leads."""
    view = eventually(lambda: partitions(cluster, topic).get(partition), 30, f"{topic} is known")
    return int(view.leader)


def partitions(cluster: ProcessCluster, topic: str) -> dict[int, Any]:
    try:
        with alive(cluster) as client:
            view = client.cluster([topic]).topics.get(topic)
    except OdradekError:
        return {}
    return {} if view is None else dict(view.partitions)  # a broker that has just started knows none


def controller(cluster: ProcessCluster) -> int:
    with alive(cluster) as client:
        return client.cluster([]).controller_id


def said(cluster: ProcessCluster, broker_id: int) -> str:
    return cluster.brokers[broker_id].log_file.read_text(encoding="utf-8", errors="replace")


def anybody_said(cluster: ProcessCluster, words: str) -> Callable[[], bool]:
    return lambda: any(words in said(cluster, broker_id) for broker_id in cluster.brokers)
