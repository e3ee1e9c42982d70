"""The cells: each function measures one peer once and reads back what was acknowledged."""

import json
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import calibration, librdkafka, raw_frames, raw_load
from benchmarks.clusters import Cluster
from benchmarks.figures import Figure

PARTITIONS = 6
NO_LEADER_PAUSE_S = 0.001


def _checked(figure: Figure, cluster: Cluster, topic: str, partitions: int, count: int, size: int) -> Figure:
    """A cell with a loss has no figure."""
    _, doubled, damaged, lost = librdkafka.read_back(
        ",".join(cluster.bootstrap), topic, range(partitions), count, size
    )
    if lost or damaged:
        figure.problem = f"{lost} lost, {damaged} damaged"
    elif doubled:
        figure.notes["doubled"] = doubled
    return figure


class Meter:
    """CPU and memory of the brokers over a stretch of work."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.cpu = cluster.cpu_s()

    def cpu_s_per_gb(self, size_bytes: float) -> float:
        return (self.cluster.cpu_s() - self.cpu) / (size_bytes / 1e9)


def produce(
    cluster: Cluster, topic: str, records: librdkafka.Records, *, acks: str, replication: int
) -> tuple[Figure, float]:
    """Produce all records with librdkafka; (megabytes per second as the figure, records per second)."""
    minimum = {"min.insync.replicas": "2"} if replication > 1 else {}
    raw_frames.create_topic(
        cluster.bootstrap, topic, partitions=PARTITIONS, replication=replication, configs=minimum
    )
    size = records.count * records.size
    calibration.memory_at_hand(2 * replication * size)
    meter = Meter(cluster)
    run = librdkafka.produce(",".join(cluster.bootstrap), topic, records, {"acks": acks})
    figure = Figure(size / 1e6 / run.seconds, meter.cpu_s_per_gb(size), cluster.rss_mb())
    if run.failed:
        figure.problem = f"{run.failed} records failed"
    return figure, run.acknowledged / run.seconds


def p1_and_p6(cluster: Cluster, run: int, records: librdkafka.Records) -> tuple[Figure, Figure]:
    """Produce 1 KB records (acks=1, RF 1), then consume them while they are hot, then compare them.

    The consumer is timed from its first record on."""
    topic = f"p1-{run}"
    produced, _ = produce(cluster, topic, records, acks="1", replication=1)
    meter = Meter(cluster)
    size = records.count * records.size
    read = librdkafka.consume(",".join(cluster.bootstrap), topic, range(PARTITIONS), records.count, {})
    consumed = Figure(
        read.per_second * records.size / 1e6,
        meter.cpu_s_per_gb(size),
        cluster.rss_mb(),
        {"first record ms": read.first_s * 1000},
    )
    _checked(produced, cluster, topic, PARTITIONS, records.count, records.size)
    consumed.problem = produced.problem
    return produced, consumed


def p2(cluster: Cluster, run: int, records: librdkafka.Records) -> Figure:
    topic = f"p2-{run}"
    figure, per_second = produce(cluster, topic, records, acks="1", replication=1)
    figure.value = per_second
    return _checked(figure, cluster, topic, PARTITIONS, records.count, records.size)


def p4(cluster: Cluster, run: int, records: librdkafka.Records) -> Figure:
    topic = f"p4-{run}"
    figure, _ = produce(cluster, topic, records, acks="all", replication=3)
    return _checked(figure, cluster, topic, PARTITIONS, records.count, records.size)


def p8(cluster: Cluster, run: str, *, acks: int, connections: int, in_flight: int, seconds: float) -> Figure:
    """Single-record requests over raw sockets by a client in a process of its own."""
    topic = f"p8-{acks % 256}-{connections}-{in_flight}-{run}"
    replication = 1 if acks == 1 else 3
    minimum = {"min.insync.replicas": "2"} if replication > 1 else {}
    raw_frames.create_topic(
        cluster.bootstrap, topic, partitions=connections, replication=replication, configs=minimum
    )
    with tempfile.TemporaryDirectory() as work:
        offsets = Path(work) / "offsets.json"
        meter = Meter(cluster)
        got = subprocess.run(
            [
                sys.executable, "-m", "benchmarks.raw_load", "--bootstrap", ",".join(cluster.bootstrap),
                "--topic", topic, f"--acks={acks}", "--connections", str(connections),
                "--in-flight", str(in_flight), "--seconds", str(seconds), "--offsets", str(offsets),
            ],
            capture_output=True,
            text=True,
        )  # fmt: skip
        if got.returncode != 0:
            return Figure(0.0, problem=got.stderr.strip()[-200:])
        result = json.loads(got.stdout)
        cpu_s = cluster.cpu_s() - meter.cpu
        acknowledged = {int(p): o for p, o in json.loads(offsets.read_text(encoding="utf-8")).items()}
    notes = {"CPU us/request": cpu_s / result["acknowledged"] * 1e6, "client cores": result["client_cores"]}
    for name in ("p50_us", "p99_us"):
        if name in result:
            notes[name.replace("_", " ")] = result[name]
    figure = Figure(result["per_second"], None, cluster.rss_mb(), notes)
    figure.problem = _compare_offsets(cluster, topic, acknowledged)
    return figure


def _compare_offsets(cluster: Cluster, topic: str, acknowledged: dict[int, list[int]]) -> str | None:
    """Every acknowledged offset must hold the record that was sent."""
    kinds = [raw_load.value_of(kind) for kind in range(raw_load.KINDS)]
    for partition, offsets in sorted(acknowledged.items()):
        stored = librdkafka.read_partition(",".join(cluster.bootstrap), topic, partition, len(offsets))
        if len(set(offsets)) != len(offsets):
            return f"{topic}-{partition}: an offset was acknowledged twice"
        for number, offset in enumerate(offsets):
            if stored.get(offset) != kinds[number % raw_load.KINDS]:
                return f"{topic}-{partition}: acknowledged offset {offset} is not the record that was sent"
    return None


def p9(cluster: Cluster) -> Figure:
    """From starting the processes to the first acknowledged produce; the peer's store runs already."""
    cluster.prepare()
    begun = time.perf_counter()
    for broker in range(1, cluster.size + 1):
        cluster.start_broker(broker)
    end = time.monotonic() + 120
    batch = raw_frames.batch_of_one(b"first", int(time.time() * 1000))
    request = raw_frames.produce("first", 0, batch, acks=-1)
    created = False
    while True:
        try:
            client = raw_frames.any_broker(cluster.bootstrap[:1], timeout_s=10)
            known = client.metadata("first" if created else None)
            client.close()
            if not created and len(known.brokers) == cluster.size and known.controller in known.brokers:
                controller = raw_frames.RawClient(*known.brokers[known.controller])
                created = controller.create_topic("first", 1, cluster.size, {}) in (0, 36)
                controller.close()
            elif created and known.leaders.get(0, -1) in known.brokers:
                leader = raw_frames.RawClient(*known.brokers[known.leaders[0]])
                answer = leader.ask(request)
                leader.close()
                if struct.unpack_from(">h", answer, 4 + 2 + len("first") + 4 + 4)[0] == 0:
                    seconds = time.perf_counter() - begun
                    return Figure(seconds * 1000, None, cluster.rss_mb())
        except (OSError, struct.error):
            pass
        if time.monotonic() > end:
            return Figure(0.0, problem="no acknowledged produce within 120 s")
        time.sleep(NO_LEADER_PAUSE_S)


def p10(cluster: Cluster, records: librdkafka.Records, gigabytes: float) -> tuple[Figure, Figure]:
    """Memory of an idle broker, and of one that has taken so many gigabytes."""
    time.sleep(3)
    idle = Figure(cluster.rss_mb())
    raw_frames.create_topic(cluster.bootstrap, "p10", partitions=PARTITIONS, replication=1)
    runs = max(1, round(gigabytes * 1e9 / (records.count * records.size)))
    meter = Meter(cluster)
    failed = 0
    for _ in range(runs):
        failed += librdkafka.produce(",".join(cluster.bootstrap), "p10", records, {"acks": "1"}).failed
    size = runs * records.count * records.size
    after = Figure(cluster.rss_mb(), meter.cpu_s_per_gb(size), None, {"GB": size / 1e9})
    if failed:
        after.problem = f"{failed} records failed"
    return idle, after


class SteadyProducer:
    """One acks=all request in flight, for ever; goes to whoever leads, by Metadata of whoever answers."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self.cluster, self.topic = cluster, topic
        self.layout = raw_frames.ProduceAnswer(topic)
        self.number = 0
        self.acknowledged: dict[int, bytes] = {}  # offset -> value
        self.link: raw_frames.RawClient | None = None
        self.leader = -1

    def attempt(self) -> bool:
        """One request to the leader as it is known; False when it failed and the leader is unknown again."""
        try:
            if self.link is None:
                self._find_leader()
            assert self.link is not None
            value = self.number.to_bytes(8, "little") * 12
            batch = raw_frames.batch_of_one(value, int(time.time() * 1000))
            answer = self.link.ask(raw_frames.produce(self.topic, 0, batch, acks=-1))
            _, _, error, offset = self.layout.layout.unpack(b"\0" * 8 + answer)
        except (OSError, struct.error, KeyError):
            self._forget()
            return False
        self.number += 1
        if error:
            self._forget()
            return False
        self.acknowledged[offset] = value
        return True

    def _find_leader(self) -> None:
        alive = [
            address
            for broker, address in enumerate(self.cluster.bootstrap, start=1)
            if self.cluster.processes[broker].popen.poll() is None
        ]
        # The reader of Metadata asks the brokers in turn: one that is starting knows nothing yet.
        address = alive[int(time.monotonic() * 1000) % len(alive)]
        client = raw_frames.any_broker([address], timeout_s=5)
        found = client.metadata(self.topic)
        client.close()
        leader = found.leaders[0]
        if self.cluster.processes[leader].popen.poll() is not None:
            raise ConnectionError("the leader it names is dead")
        self.link = raw_frames.RawClient(*found.brokers[leader], timeout_s=5)
        self.leader = leader

    def _forget(self) -> None:
        if self.link is not None:
            self.link.close()
        self.link = None


def p11(cluster: Cluster, kills: int, *, controller_too: bool) -> list[Figure]:
    """kill -9 of the leader, again and again: from the kill to the next acknowledged acks=all produce.

    `controller_too` kills a leader that is the controller as well, on a topic made for each kill.
    """
    figures: list[Figure] = []
    producer: SteadyProducer | None = None
    for number in range(kills):
        if producer is None or controller_too:
            producer = SteadyProducer(cluster, _topic_of_kill(cluster, number, controller_too))
        figures.append(_one_kill(cluster, producer))
        if figures[-1].problem:
            return figures[-1:]
        if controller_too or number == kills - 1:
            problem = _lost(cluster, producer)
            if problem:
                return [Figure(0.0, problem=problem)]
    return figures


def _topic_of_kill(cluster: Cluster, number: int, controller_too: bool) -> str:
    """One partition, three replicas; led by the controller or by another broker."""
    minimum = {"min.insync.replicas": "2"}
    client = raw_frames.any_broker(cluster.bootstrap)
    known = client.metadata(None)
    client.close()
    others = sorted(set(known.brokers) - {known.controller})
    replicas = [known.controller, *others] if controller_too else [*others, known.controller]
    topic = f"p11-{'both' if controller_too else 'leader'}-{number}"
    controller = raw_frames.RawClient(*known.brokers[known.controller])
    error = controller.assign_topic(topic, {0: replicas}, minimum)
    controller.close()
    if error:
        raise RuntimeError(f"{topic}: not created, error code {error}")
    raw_frames.wait_for_isr(cluster.bootstrap, topic, 1, 3, time.monotonic() + 60)
    return topic


def _one_kill(cluster: Cluster, producer: SteadyProducer) -> Figure:
    until = time.monotonic() + 0.3
    while time.monotonic() < until or producer.link is None:
        producer.attempt()
    victim = producer.leader
    begun = time.perf_counter()
    cluster.processes[victim].popen.kill()
    while not producer.attempt() or producer.leader == victim:
        time.sleep(NO_LEADER_PAUSE_S)
        if time.perf_counter() - begun > 120:
            return Figure(0.0, problem="no acknowledged produce within 120 s of a kill")
    gap_ms = (time.perf_counter() - begun) * 1000
    cluster.processes[victim].popen.wait()
    cluster.start_broker(victim)
    _produce_until_isr_is_full(cluster, producer, producer.topic)
    return Figure(gap_ms)


def _lost(cluster: Cluster, producer: SteadyProducer) -> str | None:
    stored = librdkafka.read_partition(
        ",".join(cluster.bootstrap), producer.topic, 0, len(producer.acknowledged)
    )
    lost = sum(1 for offset, value in producer.acknowledged.items() if stored.get(offset) != value)
    return f"{lost} of {len(producer.acknowledged)} acknowledged records lost" if lost else None


def _produce_until_isr_is_full(cluster: Cluster, producer: SteadyProducer, topic: str) -> None:
    end = time.monotonic() + 120
    while True:
        for _ in range(50):
            producer.attempt()
        try:
            client = raw_frames.any_broker(cluster.bootstrap, timeout_s=5)
            found = client.metadata(topic)
            client.close()
            if len(found.brokers) == cluster.size and len(found.isr.get(0, ())) == cluster.size:
                return
        except (OSError, struct.error):
            pass
        if time.monotonic() > end:
            raise TimeoutError("the ISR did not fill up within 120 s of a restart")


def spark_source(records: int, repeats: int) -> list[Figure]:
    """Rows per second of a batch query over a topic of ours; Spark's own connector, in turn, in the notes."""
    got = subprocess.run(
        [
            *(sys.executable, "-m", "benchmarks.spark_source", "--json"),
            *("--records", str(records), "--repeats", str(repeats)),
        ],
        capture_output=True,
        text=True,
    )
    if got.returncode != 0:
        return [Figure(0.0, problem=got.stderr.strip()[-200:])]
    rates = json.loads(got.stdout.splitlines()[-1])["rows_per_s"]
    notes = {f"{name} rows/s": rate["median"] for name, rate in rates.items() if name != "odradek"}
    ours = rates["odradek"]
    return [Figure(ours[which], notes=notes) for which in ("min", "median", "max")]
