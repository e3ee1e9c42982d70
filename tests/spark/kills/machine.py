"""Faults drawn by a seed against one topic that three sinks take at once, and a comparison of all of them after each.

A round: records are fed, the fault strikes after some batches, whatever is dead is started again, the sinks catch up with the
topic, and each is compared with it, record by record.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

import psutil
import pyarrow.parquet as pq

from odradek.client.sync import LATEST, SyncClient
from odradek.client.sync_groups import TRANSACTION_KEY, coordinators
from odradek.client.sync_records import records
from odradek.model.errors import ConfigurationError, OdradekError
from odradek.model.ids import TopicPartition
from odradek.records.builder import NewRecord, build_batch
from odradek.spark.checkpoints import starting_offsets
from odradek.spark.topic_options import PROGRESS_TOPIC
from odradek.spark.verify import verify
from odradek.spark.verify_topic import verify_topics
from odradek.testing.process_cluster import ProcessCluster
from tests.clients.support import create_topic, is_fully_replicated, leader_of
from tests.spark.kills.driver import A_BATCH, GROUP, SINKS
from tests.support import SHORT_LIVED_JAVA, die_with_parent

TRANSACTIONAL_ID = "odradek:topic"
PARTITIONS = 3
BATCHES_A_ROUND = 3
PATIENCE_S = 300.0
SOURCE, TO = "killed-source", "killed-copy"
SETTINGS = {
    "default.replication.factor": "3",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.min.isr": "2",
    "min.insync.replicas": "2",
    "log.retention.ms": "-1",
}
# Twenty of them: every kind at least once, the cheap and the likely ones more often.
DECK = (
    *("driver", "jvm", "worker") * 3,
    *("group coordinator", "transaction coordinator", "controller") * 2,
    *("leader", "leader"),
    *("paused driver", "two drivers", "checkpoint of yesterday"),
)
OF_BROKERS = {"group coordinator", "transaction coordinator", "controller", "leader"}


def drawn(seed: int) -> Iterator[str]:
    """Deck after deck, each shuffled."""
    chance = random.Random(seed)
    while True:
        deck = list(DECK)
        chance.shuffle(deck)
        yield from deck


class Driver:
    """The process of a driver, and all that it starts."""

    def __init__(self, arguments: list[str], log: Path) -> None:
        self.log = log
        with open(log, "wb") as file:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.spark.kills.driver", *arguments],
                stdout=file,
                stderr=file,
                env={**os.environ, **SHORT_LIVED_JAVA},
                preexec_fn=die_with_parent,
            )
        self._known: dict[int, psutil.Process] = {}

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    @property
    def failures(self) -> dict[str, str]:
        """What it told of, by sink."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        told = [json.loads(line) for line in lines if line.startswith('{"sink"')]
        return {one["sink"]: one["why"] for one in told}

    def family(self) -> list[psutil.Process]:
        """Itself first, then its JVM and Spark's Python processes, as many as there are now."""
        try:
            me = psutil.Process(self._process.pid)
            found = [me, *me.children(recursive=True)]
        except psutil.NoSuchProcess:
            found = []
        self._known |= {one.pid: one for one in found}
        return found

    def jvm(self) -> psutil.Process | None:
        return next((one for one in self.family() if _name(one) == "java"), None)

    def workers(self) -> list[psutil.Process]:
        jvm = self.jvm()
        try:
            return [] if jvm is None else jvm.children(recursive=True)
        except psutil.NoSuchProcess:
            return []

    def kill_alone(self) -> None:
        """Its JVM finds out by itself, and works on for as long as that takes."""
        self.family()
        self._process.kill()
        self._process.wait(60)

    def signal_all(self, number: signal.Signals) -> None:
        for one in self.family():
            try:
                one.send_signal(number)
            except psutil.NoSuchProcess:
                continue

    def end(self) -> None:
        """Nothing of it is left."""
        self.family()
        for one in self._known.values():
            try:
                one.kill()  # psutil looks whether the pid is still that process
            except psutil.NoSuchProcess:
                continue
        self._process.wait(60)


class Machine:
    def __init__(self, cluster: ProcessCluster, directory: Path, seed: int) -> None:
        self.cluster = cluster
        self.directory = directory
        self.counts: Counter[str] = Counter()
        self.ended: list[str] = []  # drivers that ended without being killed, and why
        self._chance = random.Random(seed)
        self._rounds = 0
        self._fed: Counter[bytes] = Counter()
        self._drivers: list[Driver] = []
        (directory / "logs").mkdir()

    def __enter__(self) -> Self:
        try:
            for name in (SOURCE, TO):
                create_topic(self.cluster, name, partitions=PARTITIONS)
            self._start()
            self.feed()
            self.catch_up()
            self._keep_checkpoints()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        for driver in self._drivers:
            driver.end()

    def _until(self, holds: Callable[[], bool], what: str) -> None:
        self.cluster.wait_until(holds, what, deadline_s=PATIENCE_S, pause_s=0.05)

    def round(self, kind: str) -> None:
        """AssertionError names the fault and where the logs are."""
        self._rounds += 1
        self.counts[kind] += 1
        told = f"round {self._rounds}, {kind}; logs in {self.directory / 'logs'}"
        try:
            self._strike(kind)
            self.catch_up()
            self.compare()
            self._keep_checkpoints()
        except (AssertionError, OdradekError) as error:
            raise AssertionError(f"{told}: {error}") from error

    def _strike(self, kind: str) -> None:
        if kind == "checkpoint of yesterday":
            self._restore_yesterday()
            return
        done = self._batches()
        self.feed()
        # Within one of the batches that are due now, of whatever sink, or shortly after the last.
        wanted = done + self._chance.randrange(len(SINKS) * BATCHES_A_ROUND)
        self._until(lambda: self._batches() >= wanted, f"{kind}: {wanted} batches")
        moment = time.monotonic() + self._chance.random() * 0.3
        self._until(lambda: time.monotonic() >= moment, "a moment more")
        if kind in OF_BROKERS:
            self._kill_broker(kind)
        elif kind == "driver":
            self.driver.kill_alone()
            self._start()
        elif kind == "jvm":
            jvm = self.driver.jvm()
            assert jvm is not None
            jvm.kill()
        elif kind == "worker":
            self._until(lambda: bool(self.driver.workers()), "a process of Spark's Python")
            self._chance.choice(self.driver.workers()).kill()
        elif kind == "paused driver":
            self._pause()
        else:
            assert kind == "two drivers"
            self._compete(self.driver, self._start())

    @property
    def driver(self) -> Driver:
        """The one that was started last."""
        return self._drivers[-1]

    def _start(self, until: str = "first") -> Driver:
        log = self.directory / "logs" / f"driver-{self._rounds}-{len(self._drivers)}"
        arguments = [self.cluster.bootstrap, SOURCE, TO, str(self.directory), until]
        self._drivers.append(Driver(arguments, log))
        return self.driver

    def _kill_broker(self, kind: str) -> None:
        victim = self._broker_of(kind)
        before = self.driver
        self.cluster.kill(victim)
        self.catch_up()  # without it
        assert self.driver is before, f"a broker's death ended the driver: {before.failures}"
        self.cluster.restart(victim, deadline_s=PATIENCE_S)
        self.cluster.wait_until(
            lambda: all(is_fully_replicated(self.cluster, name) for name in self._topics()),
            "every ISR is full",
            deadline_s=PATIENCE_S,
        )

    def _broker_of(self, role: str) -> int:
        if role == "leader":
            return leader_of(self.cluster, SOURCE, self._chance.randrange(PARTITIONS))
        with SyncClient(self.cluster.bootstrap) as client:
            if role == "controller":
                return client.cluster([]).controller_id
            if role == "group coordinator":
                return coordinators(client, [GROUP])[GROUP]
            return coordinators(client, [TRANSACTIONAL_ID], key_type=TRANSACTION_KEY)[TRANSACTIONAL_ID]

    def _topics(self) -> list[str]:
        with SyncClient(self.cluster.bootstrap) as client:
            return sorted(client.cluster(None).topics)

    def _pause(self) -> None:
        """A driver that stands still while another takes over, and then goes on where it was."""
        old = self.driver
        old.signal_all(signal.SIGSTOP)
        self._start()
        self.catch_up()
        done = self._batches()
        self.feed()
        self._until(lambda: self._batches() > done, "the other driver has taken over")
        old.signal_all(signal.SIGCONT)
        self._compete(old, self.driver)

    def _compete(self, *drivers: Driver) -> None:
        """Both at the same checkpoints until one gives in. The other goes on, or both are started anew."""
        deadline = time.monotonic() + PATIENCE_S
        while all(driver.is_running for driver in drivers):
            assert time.monotonic() < deadline, "two drivers write on beside each other"
            self.feed()
            ends = self._ends()
            self._until(
                lambda ends=ends: self._is_at(ends) or not all(driver.is_running for driver in drivers),  # type: ignore[misc]
                "one of two drivers ends, or takes what is there",
            )
        left = [driver for driver in drivers if driver.is_running]
        if left and left[0] is not self.driver:
            self._drivers.remove(left[0])
            self._drivers.append(left[0])

    def _restore_yesterday(self) -> None:
        """All sinks refuse it, each in its sentence, and hold what they held."""
        self.feed()
        self.catch_up()
        self.driver.end()
        checkpoints, today = self.directory / "checkpoints", self.directory / "today"
        checkpoints.rename(today)
        shutil.copytree(self.directory / "yesterday", checkpoints)
        stale = self._start("all")
        self._until(lambda: not stale.is_running, "the end of a driver with an old checkpoint")
        stale.end()
        assert set(stale.failures) == set(SINKS), stale.failures
        for sink, why in stale.failures.items():
            assert "this checkpoint is only at batch" in why, f"{sink}: {why}"
        self.compare()
        shutil.rmtree(checkpoints)
        today.rename(checkpoints)
        self._start()

    def _keep_checkpoints(self) -> None:
        kept = self.directory / "yesterday"
        shutil.rmtree(kept, ignore_errors=True)
        # Spark's own temporary files come and go meanwhile.
        shutil.copytree(self.directory / "checkpoints", kept, ignore=shutil.ignore_patterns(".*", "*.tmp"))

    def feed(self) -> None:
        """So many records that every sink takes some batches for them."""
        each = A_BATCH * BATCHES_A_ROUND // PARTITIONS
        with SyncClient(self.cluster.bootstrap) as client:
            for partition in range(PARTITIONS):
                first = sum(self._fed.values())
                values = [b"%d-%08d" % (partition, first + n) for n in range(each)]
                records = [
                    NewRecord(b"k%d" % (n % 7), value, 1_700_000_000_000) for n, value in enumerate(values)
                ]
                client.produce(TopicPartition(SOURCE, partition), build_batch(records))
                self._fed.update(values)

    def _batches(self) -> int:
        return sum(
            sum(
                file.name.isdecimal()
                for file in (self.directory / "checkpoints" / sink / "commits").glob("*")
            )
            for sink in SINKS
        )

    def catch_up(self) -> None:
        """Until every sink has taken all of the topic; a driver that ended is started again."""
        ends = self._ends()
        self._until(
            lambda: self._is_at(ends) or self._started_again(), f"all sinks have caught up with {ends}"
        )

    def _started_again(self) -> bool:
        if not self.driver.is_running:
            self.ended.append(f"round {self._rounds}: {self.driver.failures}")
            self._start()
        return False

    def _ends(self) -> dict[str, int]:
        with SyncClient(self.cluster.bootstrap) as client:
            ends = client.end_offsets([TopicPartition(SOURCE, p) for p in range(PARTITIONS)])
        return {str(p.partition): end for p, end in ends.items()}

    def _is_at(self, ends: dict[str, int]) -> bool:
        return all(self._reached(sink) == ends for sink in SINKS)

    def _reached(self, sink: str) -> dict[str, int]:
        try:
            found = starting_offsets(str(self.directory / "checkpoints" / sink), [SOURCE])
        except ConfigurationError:
            return {}  # no batch is done yet
        offsets: dict[str, int] = json.loads(found)[SOURCE]
        return offsets

    def compare(self) -> None:
        """Every sink with the topic, as a reader sees them."""
        source = self._values(SOURCE)
        missing = self._fed - source
        assert not missing, f"the topic has lost {len(missing)} records"
        report = verify(str(self.directory / "delta"), self.cluster.bootstrap)
        assert report.is_equal and report.is_complete, f"delta: {[str(p) for p in report.partitions]}"
        found = {"parquet": self._shown(), "topic": self._values(TO)}
        for sink, values in found.items():
            lost, doubled = source - values, values - source
            assert not lost and not doubled, f"{sink}: {len(lost)} lost, {len(doubled)} too many"
        notes = verify_topics(
            str(self.directory / "topic"), self.cluster.bootstrap, progress_topic=PROGRESS_TOPIC
        )
        assert notes.is_equal, f"topic: {[str(p) for p in notes.partitions]}"

    def _values(self, topic: str) -> Counter[bytes]:
        with SyncClient(self.cluster.bootstrap) as client:
            found: Counter[bytes] = Counter()
            for number in range(PARTITIONS):
                where = TopicPartition(topic, number)
                end = client.list_offsets({where: LATEST}, read_committed=True)[where].offset
                rows = records(client, where, 0, end, read_committed=True)
                found.update(bytes(row.value or b"") for row in rows)
            return found

    def _shown(self) -> Counter[bytes]:
        found: Counter[bytes] = Counter()
        for file in (self.directory / "parquet").glob("batch=*/*.parquet"):
            found.update(
                pq.read_table(file, columns=["value"], partitioning=None).column("value").to_pylist()
            )
        return found


def _name(process: psutil.Process) -> str:
    try:
        return str(process.name())
    except psutil.NoSuchProcess:
        return ""
