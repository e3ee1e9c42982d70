"""What every client is put through: a topic on three processes, a leader killed in the middle, the books compared."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from odradek.client.sync import ANY, CONTROLLER, SyncClient, TopicView
from odradek.model.errors import OdradekError
from odradek.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.testing.process_cluster import ProcessCluster
from tests.support import eventually

PARTITIONS = 3


class Acknowledged(NamedTuple):
    """A record some broker acknowledged. `number` counts the records sent to that partition."""

    partition: int
    offset: int | None  # None: its own answer was lost, and librdkafka goes by that of the next batch
    number: int


class Books:
    """What was acknowledged, and afterwards what was read. Filled from the client's own threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.acknowledged: list[Acknowledged] = []
        self.failed: list[str] = []
        self.at: list[float] = []  # when acknowledgements came
        # Whoever fills them waits for it before the last third of its records: else all may be there before somebody is killed.
        self.may_end = threading.Event()
        self.may_end.set()

    def acknowledge(self, partition: int, offset: int | None, number: int) -> None:
        with self._lock:
            self.acknowledged.append(Acknowledged(partition, offset, number))
            self.at.append(time.monotonic())

    def fail(self, reason: str) -> None:
        with self._lock:
            self.failed.append(reason)

    @property
    def count(self) -> int:
        return len(self.acknowledged)

    def longest_gap_s(self) -> float:
        return max((b - a for a, b in zip(self.at, self.at[1:], strict=False)), default=0.0)

    def compare(self, read: dict[int, list[tuple[int, int]]], *, exactly_once: bool) -> None:
        """`read`: of each partition the (offset, number) pairs as they came. Raises AssertionError."""
        at_offset = {(partition, offset): n for partition, rows in read.items() for offset, n in rows}
        known = {partition: {n for _, n in rows} for partition, rows in read.items()}
        for record in self.acknowledged:
            if record.offset is None:
                # An implicit acknowledgement: a broker that took the batch after it has this one too, by its sequence.
                assert record.number in known[record.partition], (
                    f"record {record.number} of partition {record.partition} was acknowledged with the batch after it, and "
                    "is not there"
                )
                continue
            found = at_offset.get((record.partition, record.offset))
            assert found == record.number, (
                f"record {record.number} of partition {record.partition} was acknowledged at offset "
                f"{record.offset}; {found} is read there"
            )
        for partition, rows in read.items():
            offsets = [offset for offset, _ in rows]
            assert offsets == list(range(len(offsets))), f"offsets of partition {partition} have gaps"
            if exactly_once:
                numbers = [number for _, number in rows]
                assert numbers == list(range(len(numbers))), (
                    f"partition {partition} is not once and in order: {_first_disorder(numbers)}"
                )


def _first_disorder(numbers: list[int]) -> str:
    for position, number in enumerate(numbers):
        if number != position:
            return (
                f"{number} at position {position}, around it {numbers[max(0, position - 3) : position + 3]}"
            )
    return "nothing"


def value_of(number: int, size: int = 100) -> bytes:
    return f"{number:012d}".encode().ljust(size, b".")


def number_in(value: bytes) -> int:
    return int(value[:12])


def create_topic(
    cluster: ProcessCluster, name: str, *, partitions: int = PARTITIONS, min_insync_replicas: int = 2
) -> None:
    request = CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name=name,
                num_partitions=partitions,
                replication_factor=len(cluster.brokers),
                configs=[CreatableTopicConfig(name="min.insync.replicas", value=str(min_insync_replicas))],
            )
        ],
        timeout_ms=30_000,
    )
    with SyncClient(cluster.bootstrap) as client:
        # There may be none for a moment: the brokers' sessions end on a machine that is busy.
        client.retrying(lambda: client.connection_to(CONTROLLER, client.deadline()))
        (answer,) = client.call(CONTROLLER, request).topics
        assert answer.error_code == 0, answer
    cluster.wait_until(
        lambda: is_fully_replicated(cluster, name), f"every ISR of {name} is full", deadline_s=60
    )


def describe(cluster: ProcessCluster, topic: str) -> TopicView | None:
    """As the first broker that answers sees it; None if none does."""
    try:
        with SyncClient(cluster.bootstrap, bootstrap_timeout_s=5.0) as client:
            return client.cluster([topic]).topics.get(topic)
    except OdradekError:
        return None


def is_fully_replicated(cluster: ProcessCluster, topic: str) -> bool:
    view = describe(cluster, topic)
    return view is not None and all(
        p.leader >= 0 and set(p.isr) == set(p.replicas) == set(cluster.brokers)
        for p in view.partitions.values()
    )


def leader_of(cluster: ProcessCluster, topic: str, partition: int = 0) -> int:
    """As soon as there is one: an election may be under way, or the broker that answers has only just started."""

    def found() -> int:
        view = describe(cluster, topic)
        known = None if view is None else view.partitions.get(partition)
        return -1 if known is None else known.leader

    return eventually(lambda: max(0, found()), 60.0, f"somebody leads partition {partition} of {topic}")


def coordinator_of(cluster: ProcessCluster, key: str, key_type: int = 0) -> int:
    """Of a group, or (`key_type` 1) of a transactional id, as soon as there is one."""

    def found() -> int:
        with SyncClient(cluster.bootstrap) as client:
            answer = client.call(ANY, FindCoordinatorRequest(coordinator_keys=[key], key_type=key_type))
        (row,) = answer.coordinators
        return 0 if row.error_code else int(row.node_id)

    return eventually(found, 60.0, f"somebody coordinates {key}")


@contextmanager
def killed_in_the_middle(cluster: ProcessCluster, topic: str, books: Books, *, after: int) -> Iterator[None]:
    """While the body produces, the leader of partition 0 gets `kill -9` once `after` records are acknowledged. The body ends after
    that: it waits for `books.may_end` before its last records, however late whoever kills has its turn."""
    victim = leader_of(cluster, topic)
    books.may_end.clear()
    errors: list[BaseException] = []
    is_over = threading.Event()

    def kill() -> None:
        try:
            cluster.wait_until(
                lambda: books.count >= after or is_over.is_set(),
                f"{after} acknowledged",
                deadline_s=120,
                pause_s=0.001,
            )
            assert not is_over.is_set(), "everything was acknowledged before the leader could be killed"
            cluster.kill(victim)
        except BaseException as error:
            errors.append(error)
        finally:
            books.may_end.set()

    thread = threading.Thread(target=kill, name="killer")
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
    if errors:
        raise errors[0]
    assert not cluster.brokers[victim].is_running


def retrying(attempt: Callable[[], bool], what: str, deadline_s: float = 60.0) -> None:
    eventually(attempt, deadline_s, what)
