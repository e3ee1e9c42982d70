"""Compaction in running brokers: clients as they are see the last value of every key, and the other records go from every replica."""

import asyncio
import json
import os
import signal
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.log.checkpoints import CLEANER, read_offsets
from odradek.log.cleaned_segment import MadeSegment
from odradek.log.compaction.passes import CleaningJob, Passes, PassesHere
from odradek.log.errors import DiskFault, StorageError
from odradek.log.files import Directory
from odradek.log.partition_log import PartitionLog
from odradek.model.ids import TopicPartition as Partition
from odradek.model.settings import BrokerSettings
from odradek.server.cleaning import LogCleaning
from odradek.testing.running_cluster import RunningCluster, running_cluster
from tests.log.compaction.test_cleaning import OTHER, Compacted
from tests.log.logs import NOW, TOPIC_ID, TP, batch
from tests.log.logs import produce as append
from tests.support import eventually

KEYS = 40
ROUNDS = 60
SETTINGS = {"log.cleaner.backoff.ms": "50", "log.cleaner.dedupe.buffer.size": "1048577"}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[RunningCluster]:
    with running_cluster(brokers=2, directory=tmp_path, settings=SETTINGS) as running:
        topic = NewTopic(
            "orders",
            num_partitions=1,
            replication_factor=2,
            config={
                "cleanup.policy": "compact",
                "segment.bytes": "10000",
                "min.cleanable.dirty.ratio": "0.1",
            },
        )
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        for made in admin.create_topics([topic]).values():
            made.result(30)
        yield running


def produce(cluster: RunningCluster, rounds: range, codec: str = "none") -> None:
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "compression.type": codec,
            "linger.ms": 5,
            "batch.size": 8000,
        }
    )
    errors: list[object] = []
    for n in rounds:
        for key in range(KEYS):
            producer.produce(
                "orders",
                key=b"key-%d" % key,
                value=json.dumps([n, "x" * 80]).encode(),
                on_delivery=lambda error, _: errors.append(error) if error else None,
            )
    assert producer.flush(60) == 0
    assert errors == []


def consume(cluster: RunningCluster) -> list[tuple[int, bytes, int]]:
    """Offset, key and round of every record there is."""
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": "none", "enable.partition.eof": True}
    )
    consumer.assign([TopicPartition("orders", 0, OFFSET_BEGINNING)])
    found = []
    while (message := consumer.poll(30)) is not None:
        if message.error():
            break
        key, value = message.key(), message.value()
        assert isinstance(key, bytes) and value is not None
        found.append((message.offset(), key, json.loads(value)[0]))
    consumer.close()
    return found


def checkpoints(cluster: RunningCluster) -> list[int]:
    found = []
    for broker in cluster.cluster.ids:
        file = cluster.cluster.directory / f"broker-{broker}" / CLEANER
        data = file.read_bytes() if file.exists() else b""
        found.append(read_offsets(data, CLEANER).get(Partition("orders", 0), -1))
    return found


def closed_end(cluster: RunningCluster) -> list[int]:
    """Where the active segment begins, broker by broker."""
    logs = [runtime.logs.logs[Partition("orders", 0)] for runtime in cluster.cluster.runtimes.values()]
    return [log.segments.active.base_offset for log in logs]


@pytest.mark.parametrize("codec", ["none", "lz4"])
@pytest.mark.behaviour("L20")
def test_of_every_key_the_last_value_is_left_on_every_replica(cluster: RunningCluster, codec: str) -> None:
    produce(cluster, range(ROUNDS), codec)
    eventually(
        lambda: checkpoints(cluster) == closed_end(cluster) and min(checkpoints(cluster)) > 0,
        60,
        "all is cleaned",
    )

    found = consume(cluster)

    last = {key: n for _, key, n in found}
    assert last == {b"key-%d" % key: ROUNDS - 1 for key in range(KEYS)}
    assert [offset for offset, _, _ in found] == sorted({offset for offset, _, _ in found})
    behind = closed_end(cluster)[0]
    assert len([offset for offset, _, _ in found if offset < behind]) <= KEYS
    assert len(found) < ROUNDS * KEYS / 2


def test_a_broker_goes_on_from_its_checkpoint_after_a_restart(cluster: RunningCluster) -> None:
    produce(cluster, range(ROUNDS))
    eventually(
        lambda: checkpoints(cluster) == closed_end(cluster) and min(checkpoints(cluster)) > 0,
        60,
        "all is cleaned",
    )
    before = checkpoints(cluster)
    cluster.kill(1)
    cluster.start(1)
    produce(cluster, range(ROUNDS, 2 * ROUNDS))

    eventually(
        lambda: checkpoints(cluster) == closed_end(cluster) and min(checkpoints(cluster)) > max(before),
        60,
        "the rest too",
    )
    assert {key: n for _, key, n in consume(cluster)} == {
        b"key-%d" % key: 2 * ROUNDS - 1 for key in range(KEYS)
    }


def test_brokers_whose_cleaning_processes_are_killed_now_and_then_compact_all_the_same(
    cluster: RunningCluster,
) -> None:
    killed: set[int] = set()

    def kill() -> bool:
        for environment in cluster.cluster._environments.values():
            pid = environment._cleaning.pid
            if pid is not None and pid not in killed:
                killed.add(pid)
                os.kill(pid, signal.SIGKILL)
                return True
        return False

    for start in range(0, ROUNDS, ROUNDS // 3):
        produce(cluster, range(start, start + ROUNDS // 3))
        eventually(kill, 60, "one has begun")
    eventually(
        lambda: checkpoints(cluster) == closed_end(cluster) and min(checkpoints(cluster)) > 0,
        60,
        "all is cleaned",
    )

    assert {key: n for _, key, n in consume(cluster)} == {b"key-%d" % key: ROUNDS - 1 for key in range(KEYS)}
    assert len(killed) == 3


class Environment:
    """What may block is done at once."""

    cleaner_slice_bytes = 1 << 20

    def __init__(self) -> None:
        self.clock = self
        self.ended = self.abandoned = 0
        self.time_ms = NOW
        self.is_idle = False

    def now_ms(self) -> int:
        return self.time_ms

    def random_bytes(self, count: int) -> bytes:
        return bytes(count)

    async def run_blocking(self, function: Callable[..., Any], *arguments: object) -> Any:
        return function(*arguments)

    def passes_of(self, job: CleaningJob, directory: Directory) -> Passes:
        return PassesHere(job, directory)

    def cleaning_is_idle(self) -> bool:
        return self.is_idle

    def end_cleaning(self) -> None:
        self.ended += 1

    def abandon_cleaning(self) -> None:
        self.abandoned += 1


class Stands:
    """A log with something to clean, and whatever cleans it."""

    def __init__(
        self, path: Path, environment: Environment, overrides: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        compacted = Compacted(path)
        for number in range(30):
            compacted.write(str(number % 3))
        self.log, self.logs = compacted.log, compacted.manager
        settings = BrokerSettings({"log.dirs": str(path), **overrides})
        self.said: list[str] = []

        async def by_all(log: PartitionLog, end_offset: int) -> int:
            return end_offset

        self.cleaning = LogCleaning(
            compacted.manager,
            environment,  # type: ignore[arg-type]
            lambda: settings,
            high_watermark_of=lambda log: log.log_end_offset,
            passed_by_all=by_all,
            log=SimpleNamespace(warning=lambda key, text: self.said.append(text)),  # type: ignore[arg-type]
        )

    def round(self) -> bool:
        return asyncio.run(self.cleaning.round())


class Dying(PassesHere):
    """Those of a process that ends in the midst of a segment."""

    def write_segment(self) -> Generator[int, None, MadeSegment]:
        yield next(super().write_segment())
        self.dies()
        raise StorageError("the process that compacts (7) has ended, exit code -9")

    def dies(self) -> None:
        """Whatever else happens then."""


def test_it_reads_no_faster_than_it_may_and_a_change_of_that_counts_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []

    environment = Environment()

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        environment.time_ms += int(1000 * seconds)
        rate["log.cleaner.io.max.bytes.per.second"] = "4000000"

    async def by_all(log: PartitionLog, end_offset: int) -> int:
        return end_offset

    monkeypatch.setattr(asyncio, "sleep", sleep)
    rate = {"log.dirs": str(tmp_path)}
    cleaning = LogCleaning(
        Compacted(tmp_path).manager,
        environment,  # type: ignore[arg-type]
        lambda: BrokerSettings(dict(rate)),
        high_watermark_of=lambda log: None,
        passed_by_all=by_all,
        log=SimpleNamespace(),  # type: ignore[arg-type]
    )

    def slices() -> Iterator[int]:
        return iter([2_000_000, 2_000_000, 2_000_000])

    assert asyncio.run(cleaning._walk(slices())) and slept == [], "it may read as fast as it can"  # type: ignore[arg-type]
    environment.time_ms += 1
    asyncio.run(cleaning._pause())
    rate["log.cleaner.io.max.bytes.per.second"] = "1000000"
    assert asyncio.run(cleaning._walk(slices()))  # type: ignore[arg-type]
    assert slept == [1.0, 0.5, 0.5], "of two seconds for the first 2 MB one, the rest four times as fast"


def test_a_log_that_is_deleted_while_its_replicas_are_asked_is_not_cleaned(tmp_path: Path) -> None:
    """Another of its name may stand in its directory by then."""
    environment = Environment()
    stands = Stands(tmp_path, environment)
    begun: list[CleaningJob] = []

    async def deleted(log: PartitionLog, end_offset: int) -> int:
        log.fail(StorageError("the log was deleted"))
        return end_offset

    def passes_of(job: CleaningJob, directory: Directory) -> Passes:
        begun.append(job)
        return PassesHere(job, directory)

    stands.cleaning._passed_by_all = deleted
    stands.cleaning.cleaner._passes_of = passes_of
    assert not stands.round()
    assert not begun and not stands.said


def test_a_rate_larger_than_a_double_is_no_rate(tmp_path: Path) -> None:
    """Nothing passes in no time, which is no number times infinity."""
    stands = Stands(tmp_path, Environment(), {"log.cleaner.io.max.bytes.per.second": "1e400"})
    assert stands.round()


def test_time_in_which_nothing_was_moved_is_not_saved_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = Environment()
    stands = Stands(tmp_path, environment, {"log.cleaner.io.max.bytes.per.second": "1000"})
    slept = pauses(environment, monkeypatch)
    asyncio.run(stands.cleaning._walk(iter([1])))  # type: ignore[arg-type]
    for moved_s in (3600, -3600, 0):
        environment.time_ms += 1000 * moved_s
        asyncio.run(stands.cleaning._walk(iter([2000])))  # type: ignore[arg-type]
    assert sum(slept) == 4.0, "a clock that is put back neither gives time nor takes it"


def test_slices_of_less_than_a_millisecond_are_paused_for_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = Environment()
    stands = Stands(tmp_path, environment, {"log.cleaner.io.max.bytes.per.second": "1000000"})
    slept = pauses(environment, monkeypatch)
    for _ in range(9):
        asyncio.run(stands.cleaning._walk(iter([500])))  # type: ignore[arg-type]
    assert sum(slept) == pytest.approx(0.004)


@pytest.mark.parametrize("slice_bytes", [1, 4 * 1024 * 1024])
def test_what_is_read_and_written_is_paused_for_in_slices_and_in_segments_that_are_smaller(
    slice_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Apache Kafka's cleaner, which counts what it writes against `log.cleaner.io.max.bytes.per.second` too. What was left of a
    slice at the end of a segment was not paused for: with small segments all of it."""
    environment = Environment()
    environment.cleaner_slice_bytes = slice_bytes
    stands = Stands(tmp_path, environment, {"log.cleaner.io.max.bytes.per.second": "1000"})
    slept = pauses(environment, monkeypatch)
    before = segment_bytes(tmp_path)
    assert stands.round()

    closed = before - stands.log.segments.active.size_bytes
    written = segment_bytes(tmp_path) - stands.log.segments.active.size_bytes
    assert 0 < written < closed / 2
    paused = sum(slept) * 1000
    assert stands.round() is False
    asyncio.run(stands.cleaning._walk(iter([1])))  # type: ignore[arg-type]
    assert paused > closed, "the last slice is paused for before the next one"
    assert sum(slept) * 1000 == pytest.approx(2 * closed + written, rel=0.01), (
        "read twice, and what stays is written"
    )


def pauses(environment: Environment, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds, each of which passes at once."""
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        environment.time_ms += round(1000 * seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    return slept


def segment_bytes(path: Path) -> int:
    return sum(one.stat().st_size for one in path.glob("*/*.log"))


def test_a_stop_does_not_wait_for_the_end_of_a_pause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At ten bytes a second one slice of these lasts a minute, and one of 4 MiB five days."""
    environment = Environment()
    environment.cleaner_slice_bytes = 500
    stands = Stands(tmp_path, environment, {"log.cleaner.io.max.bytes.per.second": "10"})
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        environment.time_ms += int(1000 * seconds)
        if len(slept) == 3:
            stands.cleaning.stop()

    monkeypatch.setattr(asyncio, "sleep", sleep)
    assert not stands.round()
    assert slept == [1.0, 1.0, 1.0] and stands.said == []


@pytest.mark.parametrize("step", ["candidates", "most_dirty"])
def test_a_disk_that_fails_where_the_next_log_is_looked_for_is_said_and_the_cleaner_goes_on(
    tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stands = Stands(tmp_path, Environment())

    def fails(*arguments: object) -> object:
        raise DiskFault("read of a segment: Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(stands.cleaning.cleaner, step, fails)
        assert not stands.round()

    assert stands.said == ["read of a segment: Input/output error"]
    assert stands.round(), "the disk is well again"


def test_a_process_that_dies_is_said_and_the_next_round_cleans(tmp_path: Path) -> None:
    environment = Environment()
    environment.passes_of = Dying  # type: ignore[method-assign, assignment]
    stands = Stands(tmp_path, environment)
    before = {path: path.read_bytes() for path in tmp_path.glob("*/*")}

    assert not stands.round()

    assert stands.said == ["the process that compacts (7) has ended, exit code -9"]
    assert {path: path.read_bytes() for path in tmp_path.glob("*/*")} == before
    assert stands.log.failure is None and stands.log.directory.health.failure is None
    stands.cleaning.cleaner._passes_of = PassesHere
    assert stands.round() and len(stands.said) == 1


def test_a_broker_that_stops_ends_its_process_and_says_nothing_of_it(tmp_path: Path) -> None:
    environment = Environment()
    environment.passes_of = lambda job, directory: stopping(job, directory)  # type: ignore[method-assign]
    stands = Stands(tmp_path, environment)
    before = {path: path.read_bytes() for path in tmp_path.glob("*/*")}

    class Stopping(Dying):
        def dies(self) -> None:
            stands.cleaning.stop()

    stopping = Stopping
    assert not stands.round()

    assert environment.abandoned == 1 and stands.said == []
    assert {path: path.read_bytes() for path in tmp_path.glob("*/*")} == before


def test_a_process_that_has_had_nothing_to_do_for_long_is_ended(tmp_path: Path) -> None:
    environment = Environment()
    stands = Stands(tmp_path, environment)
    environment.is_idle = True
    assert stands.round() and environment.ended == 0
    assert not stands.round() and environment.ended == 1
    environment.is_idle = False
    assert not stands.round() and environment.ended == 1


def test_a_log_at_which_the_process_dies_each_time_keeps_no_other_from_being_compacted(
    tmp_path: Path,
) -> None:
    """The kernel kills it for the memory that its map takes; and its log stays the dirtiest."""
    environment = Environment()

    def passes_of(job: CleaningJob, directory: Directory) -> Passes:
        return (Dying if job.log == str(TP) else PassesHere)(job, directory)

    environment.passes_of = passes_of  # type: ignore[method-assign]
    stands = Stands(tmp_path, environment)
    other = stands.logs.get_or_create(OTHER, TOPIC_ID, now_ms=NOW)
    for number in range(30):
        append(other, batch(key=b"%d" % (number % 3), value=b"v" * 60))

    rounds = [stands.round() for _ in range(4)]

    assert rounds == [False, True, False, False], "again where nothing else is due"
    assert len(stands.said) == 3 and (stands.logs.cleaned_to(other) or 0) > 20
    stands.cleaning.cleaner._passes_of = PassesHere
    assert stands.round()


def test_damage_behind_what_was_put_in_place_is_told_and_the_log_is_not_cleaned_again_and_again(
    tmp_path: Path,
) -> None:
    """A segment of which all is kept becomes one with no other, and is written anew in each round."""
    stands = Stands(tmp_path, Environment())
    assert stands.round()
    log = stands.logs.get_or_create(OTHER, TOPIC_ID, now_ms=NOW)
    for number in range(30):
        append(log, batch(key=b"%d" % number, value=b"v" * 60))
    damaged = log.segments[1]
    path = tmp_path / str(OTHER) / damaged.name()
    damaged.close_handles()
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)

    rounds = [stands.round() for _ in range(3)]

    assert log.failure is not None and "CRC" in log.failure.message
    assert rounds == [True, False, False]
