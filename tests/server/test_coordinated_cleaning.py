"""No tombstone goes before every replica has passed it: one that has not would show the key again when it leads."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from odradek.broker.handlers import offset_for_leader_epoch
from odradek.client.connection import BrokerLink
from odradek.client.sync import CONTROLLER, SyncClient
from odradek.log.compaction.cleaner import NO_LIMIT
from odradek.log.partition_log import PartitionLog
from odradek.model.ids import TopicPartition
from odradek.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from odradek.records.batch import iter_batches
from odradek.records.reader import decode_batch
from odradek.server.links import Links
from odradek.server.replica_positions import ANSWER_MS, NOTHING, ReplicaPositions, agreed_below
from odradek.testing.running_cluster import RunningCluster, running_cluster
from tests.log.logs import Disk, batch
from tests.log.logs import produce as append
from tests.support import eventually

WHERE = TopicPartition("state", 0)
LEADER, FOLLOWER, AWAY = 1, 2, 3
CLIENT_ID = "test"
DOOMED = b"doomed"
SETTINGS = {
    "log.cleaner.backoff.ms": "20",
    "log.cleaner.dedupe.buffer.size": "1048577",
    "replica.lag.time.max.ms": "2000",
}
TOPIC = {
    "cleanup.policy": "compact",
    "segment.bytes": "4000",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "1",
}


def create(cluster: RunningCluster) -> None:
    topic = CreatableTopic(
        name=WHERE.topic,
        num_partitions=-1,
        replication_factor=-1,
        assignments=[
            CreatableReplicaAssignment(partition_index=0, broker_ids=[LEADER, FOLLOWER, AWAY]),
        ],
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in TOPIC.items()],
    )
    with SyncClient(cluster.bootstrap) as client:
        (answer,) = client.call(CONTROLLER, CreateTopicsRequest(topics=[topic], timeout_ms=30_000)).topics
        assert answer.error_code == 0, answer


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[RunningCluster]:
    with running_cluster(brokers=3, directory=tmp_path, settings=SETTINGS) as running:
        create(running)
        yield running


def produce(cluster: RunningCluster, *pairs: tuple[bytes, bytes | None]) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 0, "batch.size": 600})
    for key, value in pairs:
        producer.produce(WHERE.topic, key=key, value=value)
    assert producer.flush(60) == 0


def filled(rounds: int) -> list[tuple[bytes, bytes | None]]:
    """Enough for some segments, of a few keys: what is closed is dirty."""
    return [(b"other-%d" % (n % 7), b"x" * 100) for n in range(rounds * 60)]


def log_of(cluster: RunningCluster, broker: int) -> PartitionLog:
    return cluster.cluster.runtimes[broker].logs.logs[WHERE]


def kept(cluster: RunningCluster, broker: int) -> list[bytes | None]:
    """The values this replica has of the key, oldest first; None is the tombstone."""
    found: list[bytes | None] = []
    for segment in log_of(cluster, broker).segments[:]:
        data = segment.file_apart().read_at(0, segment.size_bytes)
        for position, header in iter_batches(data):
            if header.record_count:
                found += [record.value for record in decode_batch(data, position) if record.key == DOOMED]
    return found


def cleaned_to(cluster: RunningCluster, broker: int) -> int:
    runtime = cluster.cluster.runtimes[broker]
    return runtime.logs.cleaned_to(log_of(cluster, broker)) or 0


def until_cleaned(cluster: RunningCluster, *brokers: int) -> None:
    """A round that began after now has ended."""
    goal = {broker: log_of(cluster, broker).segments.active.base_offset for broker in brokers}
    eventually(lambda: all(cleaned_to(cluster, b) >= goal[b] for b in brokers), 60, "a round of cleaning")


@pytest.mark.behaviour("L11")
def test_a_tombstone_waits_for_the_replica_that_is_away_and_goes_when_it_has_passed(
    cluster: RunningCluster,
) -> None:
    produce(cluster, (DOOMED, b"value"), *filled(1))
    eventually(lambda: kept(cluster, AWAY) == [b"value"], 30, "the replica has the record")
    cluster.kill(AWAY)
    produce(cluster, (DOOMED, None), *filled(1))
    for _ in range(3):  # the first round sets the horizon, which passes at once
        produce(cluster, *filled(1))
        until_cleaned(cluster, LEADER, FOLLOWER)
    assert kept(cluster, LEADER) == [None], "else the one that is away never hears of it"
    assert kept(cluster, FOLLOWER) == [None], "it may lead when the other comes back"

    cluster.start(AWAY)
    eventually(
        lambda: log_of(cluster, AWAY).log_end_offset == log_of(cluster, LEADER).log_end_offset,
        60,
        "caught up",
    )

    def all_gone() -> bool:
        produce(cluster, *filled(1))
        until_cleaned(cluster, LEADER, FOLLOWER, AWAY)
        return [kept(cluster, broker) for broker in (LEADER, FOLLOWER, AWAY)] == [[], [], []]

    eventually(all_gone, 90, "the key is gone everywhere")


def positions(cluster: RunningCluster, broker: int, end_offset: int | None = None) -> int:
    """What this broker would find out now."""
    runtime = cluster.cluster.runtimes[broker]
    log = log_of(cluster, broker)
    asked = ReplicaPositions(
        links=Links(runtime._environment.loop, runtime._pool, CLIENT_ID, lambda: None, ANSWER_MS),
        others=runtime._other_replicas_of,
        endpoint=lambda other: runtime.broker.metadata.endpoint(other, runtime._listener),
    )
    end = log.log_end_offset if end_offset is None else end_offset
    return asyncio.run_coroutine_threadsafe(asked.passed_by_all(log, end), runtime._environment.loop).result(
        60
    )


def test_every_replica_leader_or_not_learns_what_all_have(
    cluster: RunningCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[BrokerLink] = []
    original = Links.to

    def to(links: Links, host: str, port: int) -> BrokerLink:
        link = original(links, host, port)
        if links.client_id == CLIENT_ID:
            made.append(link)
        return link

    monkeypatch.setattr(Links, "to", to)
    produce(cluster, *filled(1))
    end = log_of(cluster, LEADER).log_end_offset
    for broker in (LEADER, FOLLOWER, AWAY):
        eventually(lambda broker=broker: positions(cluster, broker) == end, 60, "all have all")
    assert len(made) >= 6 and all(link.is_closed for link in made), "nobody keeps a connection for a question"
    # As Apache's brokers do: only a leader tells of its epochs, and any replica where its log ends.
    monkeypatch.setattr(offset_for_leader_epoch, "DEBUGGING", -99)
    eventually(
        lambda: positions(cluster, LEADER) == end,
        60,
        "a question that was not answered in time is asked again",
    )
    cluster.kill(AWAY)
    eventually(lambda: positions(cluster, LEADER) == NOTHING, 30, "one is not known to have anything")


def test_a_log_with_one_replica_waits_for_nobody(cluster: RunningCluster) -> None:
    runtime = cluster.cluster.runtimes[LEADER]
    asked = ReplicaPositions(
        links=Links(runtime._environment.loop, runtime._pool, "test", lambda: None, ANSWER_MS),
        others=lambda _: [],
        endpoint=lambda _: None,
    )
    unknown = ReplicaPositions(
        links=Links(runtime._environment.loop, runtime._pool, "test", lambda: None, ANSWER_MS),
        others=lambda _: None,
        endpoint=lambda _: None,
    )
    log = log_of(cluster, LEADER)
    assert asyncio.run(asked.passed_by_all(log, 5)) == NO_LIMIT
    assert asyncio.run(unknown.passed_by_all(log, 5)) == NOTHING


@pytest.mark.parametrize(
    ("epoch", "end", "expected"),
    [
        (5, 9, 9),  # the same epoch, as far as the other has it
        (5, 40, 12),  # further than this log is committed
        (2, 6, 6),  # it lacks epoch 5, and all of epoch 2 that it has stands here too
        (2, 11, 8),  # of epoch 2 it has more than was kept: cut off by epoch 5, which it has not heard of
        (3, 9, NOTHING),  # an epoch this log never had
        (-1, -1, NOTHING),  # it has nothing of these epochs
    ],
)
def test_how_far_two_logs_agree_is_told_by_leader_epochs(
    tmp_path: Path, epoch: int, end: int, expected: int
) -> None:
    """Offsets 0 to 7 of epoch 2, 8 to 11 of epoch 5; the end of another log alone would tell nothing."""
    log = Disk(tmp_path).create()
    append(log, batch(8), epoch=2)
    append(log, batch(4), epoch=5)
    assert agreed_below(log, 12, epoch=epoch, end=end) == expected
