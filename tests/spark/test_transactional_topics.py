"""The source over transactions: what was aborted is never read, what is open waits, and nothing is skipped for either."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pyspark.sql.datasource import DataSourceReader
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows

from odradek.client.sync import SyncClient
from odradek.client.sync_transaction import Transaction
from odradek.model.ids import TopicPartition
from odradek.records.builder import NewRecord, build_batch
from odradek.spark.options import parse
from odradek.spark.source import BatchReader, StreamReader, schema_of
from odradek.testing.process_cluster import ProcessCluster
from tests.support import eventually

MakeTopic = Callable[..., str]
COMMITTED = {"kafka.isolation.level": "read_committed"}


class Writers:
    """Whoever writes to a topic; each has a transactional id of its own."""

    def __init__(self, client: SyncClient, topic: str) -> None:
        self._client = client
        self.partition = TopicPartition(topic, 0)
        self._count = 0

    def begin(self, *values: str) -> Transaction:
        self._count += 1
        transaction = Transaction(self._client, f"{self.partition.topic}-{self._count}", timeout_ms=60_000)
        transaction.begin()
        self.add(transaction, *values)
        return transaction

    def add(self, transaction: Transaction, *values: str) -> None:
        transaction.send({self.partition: [_batch(values, is_transactional=True)]})

    def plain(self, *values: str) -> None:
        self._client.produce(self.partition, _batch(values))

    def end(self, transaction: Transaction, *, is_commit: bool) -> None:
        """Returns when its marker is in the log."""
        before = self._client.end_offsets([self.partition])[self.partition]
        transaction.commit() if is_commit else transaction.abort()
        eventually(
            lambda: self._client.end_offsets([self.partition])[self.partition] > before, 30.0, "the marker"
        )


def _batch(values: tuple[str, ...], *, is_transactional: bool = False) -> bytes:
    records = [NewRecord(None, value.encode(), 1_700_000_000_000) for value in values]
    return build_batch(records, is_transactional=is_transactional)


def options(bootstrap: str, topic: str, **more: str) -> Any:
    return parse({"kafka.bootstrap.servers": bootstrap, "subscribe": topic, **more})


def read(reader: Any, tasks: Any) -> list[str]:
    return [
        bytes(v).decode() for task in tasks for batch in reader.read(task) for v in batch["value"].to_pylist()
    ]


def batch(bootstrap: str, topic: str, **more: str) -> list[str]:
    given = options(bootstrap, topic, **more)
    reader: DataSourceReader = BatchReader(given, schema_of(given))
    return read(reader, reader.partitions())


class Stream:
    """What Spark does with a stream: a batch after the other, from where the last one ended."""

    def __init__(self, bootstrap: str, topic: str, **more: str) -> None:
        given = options(bootstrap, topic, startingOffsets="earliest", **COMMITTED, **more)
        self._reader = StreamReader(given, schema_of(given))
        self._at = self._reader.initialOffset()

    def next(self, limit: ReadLimit | None = None) -> list[str]:
        end = self._reader.latestOffset(self._at, limit or ReadAllAvailable())
        found = read(self._reader, self._reader.partitions(self._at, end))
        self._at = end
        return found

    def goes_on_at(self, place: dict[str, Any]) -> None:
        """As from a checkpoint."""
        self._at = json.loads(json.dumps(place))

    def stop(self) -> None:
        self._reader.stop()


@contextmanager
def stream(bootstrap: str, topic: str) -> Iterator[Stream]:
    running = Stream(bootstrap, topic)
    try:
        yield running
    finally:
        running.stop()


@pytest.fixture
def writers(client: SyncClient, make_topic: MakeTopic) -> Writers:
    return Writers(client, make_topic())


def test_a_reader_of_committed_records_sees_them_alone(cluster: ProcessCluster, writers: Writers) -> None:
    committed_records_alone(cluster.bootstrap, writers)


def committed_records_alone(bootstrap: str, writers: Writers) -> None:
    """Two transactions beside each other, one of which is aborted, plain records between, and one that stays open."""
    topic = writers.partition.topic
    good, bad = writers.begin("good-1", "good-2"), writers.begin("bad-1")
    writers.plain("plain-1")
    writers.add(good, "good-3")
    writers.add(bad, "bad-2")
    writers.end(bad, is_commit=False)
    writers.end(good, is_commit=True)
    opened = writers.begin("open-1")
    writers.plain("plain-2")
    settled = ["good-1", "good-2", "plain-1", "good-3"]

    assert batch(bootstrap, topic, **COMMITTED) == settled
    assert batch(bootstrap, topic) == [
        "good-1",
        "good-2",
        "bad-1",
        "plain-1",
        "good-3",
        "bad-2",
        "open-1",
        "plain-2",
    ]
    assert batch(bootstrap, topic, minPartitions="5", **COMMITTED) == settled, (
        "a task each, wherever they begin"
    )
    with stream(bootstrap, topic) as running:
        assert running.next() == settled
        assert running.next() == []
        writers.end(opened, is_commit=True)
        assert running.next() == ["open-1", "plain-2"]
        aborted = writers.begin("bad-3")
        writers.end(aborted, is_commit=False)
        assert running.next() == []
        writers.plain("plain-3")
        assert running.next() == ["plain-3"]


def test_a_limit_counts_offsets_and_a_batch_of_markers_alone_goes_on(
    cluster: ProcessCluster, writers: Writers
) -> None:
    for number in range(3):
        writers.end(writers.begin(f"good-{number}"), is_commit=True)
        writers.end(writers.begin(f"bad-{number}"), is_commit=False)

    with stream(cluster.bootstrap, writers.partition.topic) as running:
        found = [running.next(ReadMaxRows(1)) for _ in range(12)]

    assert found == [entry for n in range(3) for entry in ([f"good-{n}"], [], [], [])]


def test_a_query_that_reads_committed_records_from_now_on_waits_for_what_it_has_read_uncommitted(
    cluster: ProcessCluster, writers: Writers
) -> None:
    """The end of what it may read lies below where it stands, and nothing is lost."""
    topic = writers.partition.topic
    opened = writers.begin("open-1")
    writers.plain("plain-1")
    before = options(cluster.bootstrap, topic, startingOffsets="earliest")
    uncommitted = StreamReader(before, schema_of(before))
    at = uncommitted.latestOffset(uncommitted.initialOffset(), ReadAllAvailable())
    uncommitted.stop()

    with stream(cluster.bootstrap, topic) as running:
        running.goes_on_at(at)
        assert running.next() == []
        writers.plain("plain-2")
        assert running.next() == []
        writers.end(opened, is_commit=True)
        assert running.next() == ["plain-2"]
