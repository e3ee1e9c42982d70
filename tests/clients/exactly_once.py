"""A loop of read, transform, write in a process of its own; what is killed under it with `kill -9`; and what must come out.

The loop may be any client's, in any language: it copies SOURCE to TARGET, partition by partition, within transactions.
"""

import itertools
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import confluent_kafka

from odradek.testing.process_cluster import ProcessCluster
from tests.clients.load import Load
from tests.clients.support import (
    Books,
    coordinator_of,
    create_topic,
    describe,
    is_fully_replicated,
    leader_of,
    number_in,
)
from tests.support import die_with_parent

SOURCE, TARGET, GROUP, NAME = "orders", "invoices", "billing", "billing-1"
PARTITIONS = 3
RECORDS_PER_SECOND = 150
MOST_AHEAD = 450  # records that have not come out: all of them have to before the test is over
BETWEEN_KILLS = 90  # records that come out, in five transactions at least
DEATHS = 5  # of the loop, where it is killed
PATIENCE_S = 120.0
OF_GROUPS, OF_TRANSACTIONS = 0, 1
INTERNAL = ("__consumer_offsets", "__transaction_state")
ROOT = Path(__file__).parents[2]


def python_loop(name: str) -> Callable[[str], list[str]]:
    """The command that runs `tests/clients/transforms/<name>.py`, of the addresses of a cluster."""
    return lambda bootstrap: [sys.executable, "-m", f"tests.clients.transforms.{name}", *arguments(bootstrap)]


def arguments(bootstrap: str) -> list[str]:
    return [bootstrap, SOURCE, TARGET, GROUP, NAME]


class Supervised:
    """A process that is started again whenever it has ended."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self._command = list(command)
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self.lives = 0

    def keep(self) -> None:
        """Starts it, or starts it again."""
        if self._process is not None and self._process.poll() is None:
            return
        with open(self._log, "ab") as log:
            self._process = subprocess.Popen(
                self._command,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=die_with_parent,
            )
        self.lives += 1

    def kill(self) -> None:
        """`kill -9`."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def last_words(self, lines: int = 15) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-lines:])


_NEVER_CLOSED: list["Audit"] = []


class Audit(ABC):
    """Who reads a topic with `read_committed`, from the beginning of all its partitions."""

    def __init__(self, bootstrap: str, topic: str, partitions: int = PARTITIONS) -> None:
        self.count = 0
        self._partitions = partitions
        self._at_end: set[int] = set()
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "auditors",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                "isolation.level": "read_committed",
            }
        )
        self._consumer.assign([confluent_kafka.TopicPartition(topic, p, 0) for p in range(partitions)])

    @abstractmethod
    def take(self, message: confluent_kafka.Message) -> None:
        """Raises AssertionError where a record is missing or there twice."""

    @property
    def is_at_end(self) -> bool:
        """It has read all that is committed."""
        return len(self._at_end) == self._partitions

    def read(self) -> None:
        for message in self._consumer.consume(500, timeout=0.05):
            error = message.error()
            if error is None:
                self.take(message)
                self.count += 1
                self._at_end.discard(message.partition())
            elif error.code() == confluent_kafka.KafkaError._PARTITION_EOF:
                self._at_end.add(message.partition())
            else:
                assert error.code() != confluent_kafka.KafkaError._AUTO_OFFSET_RESET, error

    def close(self) -> None:
        self._consumer.close()


class Numbers(Audit):
    """Of each partition the numbers from 0 on, once and in order."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap, TARGET)
        self._next = [0] * PARTITIONS

    def take(self, message: confluent_kafka.Message) -> None:
        number, partition = number_in(message.value()), message.partition()
        wanted = self._next[partition]
        assert number == wanted, f"partition {partition}, offset {message.offset()}: record {number} " + (
            "is there twice" if number < wanted else f"comes, and {wanted} is lost"
        )
        self._next[partition] += 1


class Trial:
    """The cluster, the loop, and who watches."""

    def __init__(self, cluster: ProcessCluster, loop: Supervised, audit: Audit) -> None:
        self.cluster = cluster
        self.loop = loop
        self.audit = audit

    def goes_on_until(self, holds: Callable[[], bool], what: str) -> None:
        """Reads, and starts the loop whenever it has ended. AssertionError once nothing has come out for `PATIENCE_S`.

        How long all of it takes is the machine's: a load that goes on while brokers are down may be far ahead.
        """
        count, end = self.audit.count, time.monotonic() + PATIENCE_S
        while not holds():
            if self.audit.count > count:
                count, end = self.audit.count, time.monotonic() + PATIENCE_S
            assert time.monotonic() < end, (
                f"not within {PATIENCE_S:g} s of the last record: {what}. {count} records came out of {self.loop.lives} "
                f"lives; its last words:\n{self.loop.last_words()}"
            )
            self.loop.keep()
            self.audit.read()

    def comes_out(self, more: int) -> None:
        wanted = self.audit.count + more
        self.goes_on_until(lambda: self.audit.count >= wanted, f"{more} more records come out")

    def kill_loop(self) -> None:
        """Some times in a row, for it is to die in a certain moment: offsets are in the transaction, and it is open."""
        for _ in range(DEATHS):
            self.comes_out(1)
            self.loop.kill()

    def kill_leader(self) -> None:
        self.kill_broker(leader_of(self.cluster, TARGET))

    def kill_coordinator_of_transactions(self, name: str = NAME) -> None:
        self.kill_broker(coordinator_of(self.cluster, name, OF_TRANSACTIONS))

    def kill_coordinator_of_group(self, group: str = GROUP) -> None:
        self.kill_broker(coordinator_of(self.cluster, group, OF_GROUPS))

    def kill_broker(self, victim: int) -> None:
        """It starts again at once; the next is to be killed when all have caught up."""
        topics = [topic for topic in (SOURCE, TARGET, *INTERNAL) if describe(self.cluster, topic) is not None]
        self.cluster.kill(victim)
        self.cluster.restart(victim, wait=False)
        self.goes_on_until(
            lambda: all(is_fully_replicated(self.cluster, topic) for topic in topics),
            "every ISR is full again",
        )


@contextmanager
def running(cluster: ProcessCluster, command: Sequence[str], audit: Audit) -> Iterator[Trial]:
    loop = Supervised(command, cluster.directory / "loop.log")
    try:
        yield Trial(cluster, loop, audit)
    except BaseException:
        # Its threads may wait for each other for ever (librdkafka's issue 5476), and who closes it or lets it go waits with them.
        _NEVER_CLOSED.append(audit)
        raise
    finally:
        loop.kill()
    audit.close()


def comes_out_once(cluster: ProcessCluster, command: Sequence[str], *, kills: int) -> int:
    """AssertionError unless each record of SOURCE comes out once and in order. Returns how many lives the loop had.

    Of the kills every fourth is the loop's own, a leader, the coordinator of its transactions and that of its group.
    """
    for topic in (SOURCE, TARGET):
        create_topic(cluster, topic, partitions=PARTITIONS)
    books = Books()
    audit = Numbers(cluster.bootstrap)
    load = Load(
        cluster.bootstrap,
        SOURCE,
        books,
        partitions=PARTITIONS,
        records_per_second=RECORDS_PER_SECOND,
        may_go_on=lambda: load.sent < audit.count + MOST_AHEAD,
    )
    with running(cluster, command, audit) as trial:
        victims = itertools.cycle(
            (
                trial.kill_loop,
                trial.kill_leader,
                trial.kill_coordinator_of_transactions,
                trial.kill_coordinator_of_group,
            )
        )
        load.start()
        try:
            for kill in itertools.islice(victims, kills):
                trial.comes_out(BETWEEN_KILLS)
                load.check()
                kill()
            trial.comes_out(BETWEEN_KILLS)
        except BaseException:
            load.abandon()
            raise
        load.stop()
        assert books.failed == []
        trial.goes_on_until(lambda: trial.audit.count >= load.sent, f"all {load.sent} records come out")
        trial.goes_on_until(
            lambda: _committed(cluster) == load.sent and trial.audit.is_at_end, "and there is no more"
        )
        assert trial.audit.count == load.sent
        return trial.loop.lives


def _committed(cluster: ProcessCluster) -> int:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": GROUP})
    places = [confluent_kafka.TopicPartition(SOURCE, partition) for partition in range(PARTITIONS)]
    try:
        return sum(max(0, place.offset) for place in consumer.committed(places, timeout=30))
    finally:
        consumer.close()
