"""Faults drawn by a seed against one topic that three sinks take at once, and a comparison of all of them after each.

A round: records are fed, the fault strikes after some batches, what was killed is started again, the sinks catch up with the
topic, and each is compared with it, record by record. All else goes on running from round to round. A driver that will be needed
stands by with its session started, so that it takes over at once, as with two drivers it has to.
"""

import json
import os
import random
import re
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import psutil
import pyarrow.parquet as pq

from odradek.client.sync import LATEST, SyncClient
from odradek.client.sync_groups import TRANSACTION_KEY, committed, coordinators
from odradek.client.sync_records import records
from odradek.model.errors import ConfigurationError, OdradekError
from odradek.model.ids import TopicPartition
from odradek.records.builder import NewRecord, build_batch
from odradek.spark.checkpoints import starting_offsets
from odradek.spark.topic_options import PROGRESS_TOPIC
from odradek.spark.verify import verify
from odradek.spark.verify_topic import verify_topics
from odradek.testing.process_cluster import ProcessCluster
from tests import forked_drivers
from tests.clients.support import create_topic, is_fully_replicated, leader_of
from tests.spark.kills.driver import A_BATCH, GROUP, ONCE, RUN, SINKS, STOP, TOO_BUSY
from tests.support import SHORT_LIVED_JAVA

TRANSACTIONAL_ID = "odradek:topic"
STOPPED = {"stopped": True}
PARTITIONS = 3
BATCHES_A_ROUND = 2
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
# Twenty of them: every kind at least once, those that cost little more often.
DECK = (
    *("driver", "jvm", "group coordinator", "transaction coordinator", "controller", "leader") * 2,
    *("worker",) * 5,
    *("paused driver", "two drivers", "checkpoint of yesterday"),
)
OF_BROKERS = {"group coordinator", "transaction coordinator", "controller", "leader"}
# After these another driver takes over.
NEED_A_DRIVER = {"driver", "jvm", "paused driver", "two drivers"}
# What nobody should have to read of a query that failed.
RAW = ("Traceback", "FileNotFoundError", "FileExistsError", "KeyError", "AssertionError", "OSError")


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
        theirs, ours = os.pipe()
        self._words = os.fdopen(ours, "wb", buffering=0)
        with open(log, "wb") as file, open(theirs, "rb") as words:
            self._process = forked_drivers.start(
                [sys.executable, "-m", "tests.spark.kills.driver", *arguments],
                stdin=words,
                stdout=file,
                stderr=file,
                env={**os.environ, **SHORT_LIVED_JAVA},
            )
        # Known by when it began as well: once it has ended, its number is soon another's, a thread of a JVM's perhaps, which
        # `kill -9` would end as a whole.
        self._me = psutil.Process(self._process.pid)
        self._known: dict[int, psutil.Process] = {}

    def tell(self, word: str) -> None:
        self._words.write(f"{word}\n".encode())

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def told(self) -> list[dict[str, Any]]:
        """All that it told of, in order."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]

    def failures(self) -> list[tuple[str, str]]:
        """Of queries: which, and why."""
        return [
            (one["sink"], one["why"]) for one in self.told() if "sink" in one and TOO_BUSY not in one["why"]
        ]

    def family(self) -> list[psutil.Process]:
        """Itself first, then its JVM and Spark's Python processes, as many as there are now."""
        try:
            found = [self._me, *self._me.children(recursive=True)] if self._me.is_running() else []
        except psutil.NoSuchProcess:
            found = []
        self._known |= {one.pid: one for one in found}
        return found

    def jvm(self) -> psutil.Process | None:
        return next((one for one in self.family() if _name(one) == "java"), None)

    def workers(self) -> list[psutil.Process]:
        """Spark's Python processes, and those that wait for them. Not the server that forks them (`odradek.spark.fork_server`):
        without it all that follow start slowly."""
        family = self.family()
        return [one for one in family[1:] if _name(one) not in ("java", "") and _parent(one) != family[0].pid]

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
            # psutil looks whether the pid is still that process, but not of one that it has found gone before.
            with suppress(psutil.NoSuchProcess):
                if one.is_running():
                    one.kill()
        self._known.clear()
        self._process.wait(60)
        self._words.close()


class Machine:
    def __init__(self, cluster: ProcessCluster, directory: Path, seed: int, kinds: Sequence[str]) -> None:
        self.cluster = cluster
        self.directory = directory
        self.counts: Counter[str] = Counter()
        self.ended = 0  # drivers that ended without being killed
        self._kinds = kinds
        self._chance = random.Random(seed)
        self._rounds = 0
        self._fed: Counter[bytes] = Counter()
        self._drivers: list[Driver] = []
        self._spare: Driver | None = None
        self._every: list[Driver] = []
        (directory / "logs").mkdir()

    def __enter__(self) -> Self:
        try:
            for name in (SOURCE, TO):
                create_topic(self.cluster, name, partitions=PARTITIONS)
            # The topic of groups is made by the first who asks, while there are as many brokers as it has replicas.
            with SyncClient(self.cluster.bootstrap) as client:
                coordinators(client, [GROUP])
            self._start()
            self.feed()
            self.catch_up()
            self._keep_checkpoints()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        for driver in self._every:
            driver.end()

    def _until(self, holds: Callable[[], bool], what: str) -> None:
        self.cluster.wait_until(holds, what, deadline_s=PATIENCE_S, pause_s=0.05)

    def rounds(self) -> Iterator[str]:
        """Strikes, compares and tells the kind, one after the other. AssertionError names the fault and where the logs are."""
        for number, kind in enumerate(self._kinds):
            self._rounds += 1
            told = f"round {self._rounds}, {kind}; logs in {self.directory / 'logs'}"
            try:
                if self._spare is None and NEED_A_DRIVER & set(self._kinds[number:]):
                    self._spare = self._launched()
                self._strike(kind)
                self.catch_up()
                self.compare()
                self._keep_checkpoints()
                self._look_at_failures()
            except (AssertionError, OdradekError) as error:
                raise AssertionError(f"{told}: {error}") from error
            self.counts[kind] += 1
            yield kind

    def _strike(self, kind: str) -> None:
        if kind == "checkpoint of yesterday":
            self._restore_yesterday()
            return
        if kind in OF_BROKERS:
            self._heal()
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
            self._kill_jvm()
        elif kind == "worker":
            self._kill_worker()
        elif kind == "paused driver":
            self._pause()
        else:
            assert kind == "two drivers"
            self._compete(self.driver, self._start())

    @property
    def driver(self) -> Driver:
        """The one that was started last."""
        return self._drivers[-1]

    def _launched(self) -> Driver:
        log = self.directory / "logs" / f"driver-{self._rounds}-{len(self._drivers)}"
        self._every.append(Driver([self.cluster.bootstrap, SOURCE, TO, str(self.directory)], log))
        return self._every[-1]

    def _start(self) -> Driver:
        driver, self._spare = self._spare or self._launched(), None
        self._drivers.append(driver)
        driver.tell(RUN)
        return driver

    def _kill_jvm(self) -> None:
        old = self.driver
        jvm = old.jvm()
        assert jvm is not None, old.log
        jvm.kill()
        self._start()
        # Its Python can do nothing more, and lives until it is ended: whoever looks after a job does that.
        old.end()

    def _kill_worker(self) -> None:
        """One that is there when it comes to it: they come and go."""

        def killed() -> bool:
            found = self.driver.workers()
            if not found:
                return False
            try:
                self._chance.choice(found).kill()
            except psutil.NoSuchProcess:
                return False
            return True

        self._until(killed, "a process of Spark's Python")

    def _kill_broker(self, kind: str) -> None:
        victim = self._broker_of(kind)
        driver, before = self.driver, len(self.driver.failures())
        self.cluster.kill(victim)
        self.catch_up()  # without it
        assert self.driver is driver, f"a broker's death ended the driver: {driver.log}"
        why = driver.failures()[before:]
        assert not why, f"a broker's death ended a query: {why}"
        self._until(lambda: self._shown_by_group() == self._ends(), f"group {GROUP} shows where the query is")
        self.cluster.restart(victim, wait=False)

    def _heal(self) -> None:
        """The broker that was killed last is back in every ISR."""
        self._until(
            lambda: all(is_fully_replicated(self.cluster, name) for name in self._topics()),
            "every ISR is full",
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

    def _shown_by_group(self) -> dict[str, int]:
        with SyncClient(self.cluster.bootstrap) as client:
            return {str(p.partition): offset for p, offset in committed(client, GROUP).items()}

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
        """Both at the same checkpoints, and each starts anew what the other has made fail; then one of them is killed."""
        before = [len(driver.failures()) for driver in drivers]

        def have_met() -> bool:
            """Each was at work beside the other: one of them was in the other's way."""
            return any(len(d.failures()) > n for d, n in zip(drivers, before, strict=True))

        deadline = time.monotonic() + PATIENCE_S
        while not have_met():
            assert time.monotonic() < deadline, "two drivers write on beside each other"
            self.feed()
            ends = self._ends()
            self._until(
                lambda ends=ends: have_met() or self._is_at(ends),  # type: ignore[misc]
                "two drivers meet, or take what is there",
            )
        # In the midst of what both are at.
        done = self._batches()
        self.feed()
        self._until(lambda: self._batches() > done, "a batch of one of two drivers")
        victim, left = self._chance.sample(drivers, 2)
        victim.end()
        self._drivers.remove(left)
        self._drivers.append(left)

    def _restore_yesterday(self) -> None:
        """All sinks refuse it, each in its sentence, and hold what they held."""
        self.feed()
        self.catch_up()
        driver = self.driver
        checkpoints, today = self.directory / "checkpoints", self.directory / "today"
        self._stop(driver)
        checkpoints.rename(today)
        shutil.copytree(self.directory / "yesterday", checkpoints)
        before = len(driver.failures())
        driver.tell(ONCE)
        self._until(
            lambda: len(driver.failures()) >= before + len(SINKS), "all sinks refuse an old checkpoint"
        )
        refused = driver.failures()[before:]
        assert sorted(sink for sink, _ in refused) == sorted(SINKS), refused
        for sink, why in refused:
            assert "this checkpoint is only at batch" in why, f"{sink}: {why}"
        self.compare()
        self._stop(driver)
        shutil.rmtree(checkpoints)
        today.rename(checkpoints)
        driver.tell(RUN)

    def _stop(self, driver: Driver) -> None:
        stops = driver.told().count(STOPPED)
        driver.tell(STOP)
        self._until(lambda: driver.told().count(STOPPED) > stops, "all queries have stopped")

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
        """How many are done, by the numbers of the last ones: Spark deletes the old."""
        return sum(1 + max(self._numbers(sink), default=-1) for sink in SINKS)

    def _numbers(self, sink: str) -> list[int]:
        commits = self.directory / "checkpoints" / sink / "commits"
        return [int(file.name) for file in commits.glob("*") if file.name.isdecimal()]

    def catch_up(self) -> None:
        """Until every sink has taken all of the topic; a driver that ended is started again."""
        ends = self._ends()
        self._until(
            lambda: self._is_at(ends) or self._started_again(), f"all sinks have caught up with {ends}"
        )

    def _started_again(self) -> bool:
        if not self.driver.is_running:
            self.ended += 1
            self._start()
        return False

    def _look_at_failures(self) -> None:
        """Whatever ended a query is told of in a sentence."""
        for why in self.sentences():
            assert not any(word in why for word in RAW), why

    def sentences(self) -> Counter[str]:
        """What was told of queries that failed, without places and numbers."""
        told = (f"{sink}: {why}" for driver in self._every for sink, why in driver.failures())
        return Counter(re.sub(r"\d+", "N", why.replace(str(self.directory), "DIR"))[:120] for why in told)

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


def _parent(process: psutil.Process) -> int:
    try:
        return int(process.ppid())
    except psutil.NoSuchProcess:
        return 0


def _name(process: psutil.Process) -> str:
    try:
        return str(process.name())
    except psutil.NoSuchProcess:
        return ""
