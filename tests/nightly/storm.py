"""Rounds of faults on a cluster of processes under load, and the books at the end of each round.

Safety: every acknowledged record is there, once, in order, at its offset, and all replicas hold the same batches.
Liveness: after each fault every ISR is full and every partition takes writes within a deadline, and once more at the end of a
round when nothing is produced any more.
"""

import random
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Producer

from odradek.client.sync import SyncClient
from odradek.model.errors import OdradekError
from odradek.model.ids import TopicPartition
from odradek.testing.process_cluster import ClusterNotReady
from tests.clients.load import Load
from tests.clients.support import Books, create_topic, is_fully_replicated
from tests.clients.test_confluent_kafka import read_all
from tests.interop.replicas import difference
from tests.nightly.faults import FAULTS
from tests.nightly.proxied_cluster import SETTINGS, ProxiedCluster

PARTITIONS = 4
RECORDS_PER_SECOND = 200
# Sessions end after 3 s and followers ask anew after 4 s (SETTINGS); the rest is for a machine with other work.
HEALED_WITHIN_S = 60.0
SHORTEST_S, LONGEST_S = 0.3, 8.0
# An idempotent producer may wait as long as the longest fault and its healing.
PRODUCER = {
    "log_level": 0,
    "message.timeout.ms": 300_000,
    "socket.timeout.ms": 5_000,
    "reconnect.backoff.max.ms": 500,
    # After a minute of silence a batch of the default size is larger than a segment, and is refused for good.
    "batch.size": int(SETTINGS["log.segment.bytes"]) // 2,
}


class Injected(NamedTuple):
    kind: str
    lasted_s: float
    healed_s: float  # from the end of the fault to full ISRs and a new acknowledgement on each partition


class Round(NamedTuple):
    """What one round came to. `wrong`: sentences, empty when all held."""

    injected: list[Injected]
    acknowledged: int
    longest_gap_s: float
    wrong: list[str]
    is_compared: bool = True  # what was acknowledged with what is read back; not where the round was stopped


class Stopped(KeyboardInterrupt):
    """Ctrl-C in a round, and what the round came to until then; its records are not compared."""

    def __init__(self, so_far: Round) -> None:
        self.so_far = so_far


def rounds(
    directory: Path, *, seed: int, until: float, faults_a_round: int, kinds: Collection[str] = FAULTS
) -> Iterator[Round]:
    """Until `time.monotonic()` reaches `until`; at least one. All on one cluster, but what went wrong is left in its directory
    as it stands, and the next round has another. Stopped."""
    chance = random.Random(seed)
    number = 0
    while number == 0 or time.monotonic() < until:
        with ProxiedCluster(directory / f"cluster-{number}") as cluster:
            is_whole = True
            while is_whole and (number == 0 or time.monotonic() < until):
                ends = until if number else None
                one = _round(cluster, f"storm-{number}", chance, faults_a_round, ends, kinds)
                yield one
                is_whole = not one.wrong
                number += 1


def _round(
    cluster: ProxiedCluster,
    topic: str,
    chance: random.Random,
    faults: int,
    until: float | None,
    kinds: Collection[str],
) -> Round:
    try:
        cluster.wait_ready(HEALED_WITHIN_S)
        create_topic(cluster, topic, partitions=PARTITIONS)
    except (AssertionError, ClusterNotReady, OdradekError) as error:
        return Round([], 0, 0.0, [f"{topic} cannot be made: {error}\n{_why(cluster, topic)}"])
    books = Books()
    load = Load(
        cluster.bootstrap,
        topic,
        books,
        partitions=PARTITIONS,
        records_per_second=RECORDS_PER_SECOND,
        options=PRODUCER,
    )
    injected: list[Injected] = []
    wrong: list[str] = []
    load.start()
    try:
        for _ in range(faults):
            if until is not None and time.monotonic() > until:
                break
            injected.append(_inject(cluster, topic, load, chance, kinds))
        load.stop()
        _judge(cluster, topic, books, load)
    except (AssertionError, ClusterNotReady, OdradekError, subprocess.TimeoutExpired) as error:
        load.abandon()
        told = f"the producer: {books.count} of {load.sent} answered, refused {books.failed[-3:]}, says {list(load.complaints)}"
        wrong.append(f"{topic}: {error}\n{told}\n{_probed(cluster, topic)}\n{_why(cluster, topic)}")
    except KeyboardInterrupt:
        load.abandon()
        raise Stopped(Round(injected, books.count, books.longest_gap_s(), wrong, is_compared=False)) from None
    return Round(injected, books.count, books.longest_gap_s(), wrong)


def _inject(
    cluster: ProxiedCluster, topic: str, load: Load, chance: random.Random, kinds: Collection[str]
) -> Injected:
    kind = chance.choice(sorted(kinds))
    victims = sorted(cluster.brokers)
    chance.shuffle(victims)
    # As many within a blink as beyond a session: a uniform draw would spend the hour waiting in long ones.
    lasts_s = SHORTEST_S * (LONGEST_S / SHORTEST_S) ** chance.random()
    with FAULTS[kind](cluster, victims):
        threading.Event().wait(lasts_s)
    for broker in cluster.brokers.values():
        if not broker.is_running:
            broker.start()
    begun = time.monotonic()
    seen = _by_partition(load.books)
    cluster.wait_until(
        lambda: takes_writes(load, seen),
        f"every partition of {topic} takes writes after {kind!r} at {victims} for {lasts_s:.1f} s",
        deadline_s=HEALED_WITHIN_S,
    )
    cluster.wait_until(
        lambda: is_fully_replicated(cluster, topic),
        f"every ISR of {topic} is full after {kind!r} at {victims} for {lasts_s:.1f} s",
        deadline_s=HEALED_WITHIN_S,
    )
    return Injected(kind, lasts_s, time.monotonic() - begun)


def takes_writes(load: Load, seen: list[int]) -> bool:
    """Whether each partition acknowledged more than these. AssertionError: nobody produces."""
    load.check()
    return all(now > before for now, before in zip(_by_partition(load.books), seen, strict=True))


def _by_partition(books: Books) -> list[int]:
    counts = [0] * PARTITIONS
    for record in list(books.acknowledged):
        counts[record.partition] += 1
    return counts


def _judge(cluster: ProxiedCluster, topic: str, books: Books, load: Load) -> None:
    """AssertionError says what does not hold."""
    assert books.failed == [], f"the producer gave up: {sorted(set(books.failed))[:3]}"
    assert books.count == load.sent
    cluster.wait_until(
        lambda: is_fully_replicated(cluster, topic),
        f"every ISR of {topic} is full when nothing is produced any more",
        deadline_s=HEALED_WITHIN_S,
    )
    books.compare(read_all(cluster.bootstrap, topic, PARTITIONS), exactly_once=True)
    with SyncClient(cluster.bootstrap) as client:
        ends = client.end_offsets(TopicPartition(topic, index) for index in range(PARTITIONS))
    disks = {broker.broker_id: broker.directory / "data" for broker in cluster.brokers.values()}
    for index in range(PARTITIONS):
        end = ends[TopicPartition(topic, index)]
        cluster.wait_until(
            lambda index=index, end=end: difference(disks, topic, index, end) is None,
            f"all replicas of {topic}-{index} hold the same batches up to {end}",
            deadline_s=HEALED_WITHIN_S,
        )


def _probed(cluster: ProxiedCluster, topic: str) -> str:
    """Whether somebody else is answered, where the one producer is not."""
    said: dict[int, str] = {}
    producer = Producer({**PRODUCER, "bootstrap.servers": cluster.bootstrap, "message.timeout.ms": 10_000})
    for index in range(PARTITIONS):
        producer.produce(
            topic,
            b"probe",
            partition=index,
            on_delivery=lambda error, message: said.update({message.partition(): str(error or "taken")}),
        )
    producer.flush(20.0)
    return f"a record of another producer, by partition: {dict(sorted(said.items()))}"


def _why(cluster: ProxiedCluster, topic: str) -> str:
    """What `odradek why` says of it, and the last words of each broker."""
    why = [sys.executable, "-m", "odradek", "why", topic, "--bootstrap", cluster.bootstrap]
    said = subprocess.run(why, capture_output=True, text=True, timeout=60, check=False)
    words = [f"broker {b.broker_id}: {b.last_words(2)}" for b in cluster.brokers.values()]
    return "\n".join([said.stdout.strip() or said.stderr.strip(), *words])
