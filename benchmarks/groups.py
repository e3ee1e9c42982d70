"""The cells about groups (C) and the cleaner: joins, a death, commits, a load, idle members, and compaction beside produce."""

import select
import socket
import struct
import sys
import time
from pathlib import Path

from benchmarks import raw_frames
from benchmarks.clusters import Cluster
from benchmarks.figures import Figure
from benchmarks.group_client import SESSION_MS, Member, Members, coordinator
from benchmarks.raw_load import percentile
from odradek.model.error_codes import ErrorCode
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from odradek.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
)

OFFSET_COMMIT, OFFSET_FETCH, API_VERSIONS = 8, 9, 18
COMMIT_VERSION, FETCH_VERSION = 7, 5
# Of a coordinator whose topic has just been made.
COMES_UP = {ErrorCode.NOT_COORDINATOR.value, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS.value}
# Joins at once, and one partition of the internal topic, so that all its groups have one coordinator.
SETTINGS = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "1"}
# The cleaner looks ten times a second, or what is measured is how long it waits (15 s by default) to look again.
ALONE = {**SETTINGS, "log.cleaner.backoff.ms": "100"}
IN_FLIGHT = 8
PULSE_S = 0.005


def _topic(cluster: Cluster, name: str, partitions: int, replication: int, **configs: str) -> None:
    known = {key.replace("_", "."): value for key, value in configs.items()}
    raw_frames.create_topic(
        cluster.bootstrap, name, partitions=partitions, replication=replication, configs=known
    )


def joins(cluster: Cluster, run: int, members: int = 10, partitions: int = 100) -> Figure:
    """From the first JoinGroup to the last SyncGroup answer, in ms."""
    topic, group = f"c1-{run}", f"c1-{run}"
    _topic(cluster, topic, partitions, 1)
    address = coordinator(cluster.bootstrap, group)
    together = Members([Member(address, group, topic, partitions) for _ in range(members)], 0.1)
    try:
        begun = time.perf_counter()
        for member in together.members:
            member.join()
        problem = None if together.until(together.are_stable) else "not stable in time"
        return Figure((time.perf_counter() - begun) * 1000, problem=problem)
    finally:
        together.close()


def death(cluster: Cluster, run: int, members: int) -> Figure:
    """One of many falls silent: from the end of its session until all others have their assignment, in ms. They heartbeat four
    times a second, and so learn of it a quarter of a second late at most."""
    topic, group = f"c2-{run}", f"c2-{run}"
    _topic(cluster, topic, members, 1)
    address = coordinator(cluster.bootstrap, group)
    together = Members([Member(address, group, topic, members) for _ in range(members)], 0.25)
    try:
        for member in together.members:
            member.join()
        if not together.until(together.are_stable):
            return Figure(0.0, problem="not stable in time")
        lost = together.members[-1]
        ends_at = lost.heard_at + SESSION_MS / 1000
        generation = lost.generation
        together.lose(lost)
        cpu_s = cluster.cpu_s()
        done = together.until(lambda: together.members[0].generation > generation and together.are_stable())
        notes = {"CPU ms": (cluster.cpu_s() - cpu_s) * 1000}
        late_ms = (time.perf_counter() - ends_at) * 1000
        return Figure(late_ms, None, cluster.rss_mb(), notes, None if done else "not stable in time")
    finally:
        together.close()


def _commit(group: str, topic: str, partitions: list[int], offset: int) -> bytes:
    rows = [
        OffsetCommitRequestPartition(partition_index=p, committed_offset=offset, committed_metadata="")
        for p in partitions
    ]
    request = OffsetCommitRequest(
        group_id=group, topics=[OffsetCommitRequestTopic(name=topic, partitions=rows)]
    )
    return raw_frames.frame(OFFSET_COMMIT, COMMIT_VERSION, 1, request.encode(COMMIT_VERSION))


def commits(cluster: Cluster, run: int, seconds: float, connections: int = 8) -> Figure:
    """Commits a second, one partition each; every answer is looked into for an error."""
    topic = f"c3-{run}"
    _topic(cluster, topic, connections, 3)
    address = coordinator(cluster.bootstrap, "c3-0")
    poll = select.epoll()
    links: dict[int, tuple[socket.socket, bytes]] = {}
    for number in range(connections):
        link = socket.create_connection(address, timeout=30)
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        wanted = _commit(f"c3-{number}", topic, [number], 7)
        links[link.fileno()] = link, wanted
        poll.register(link.fileno(), select.EPOLLIN)
        link.sendall(wanted * IN_FLIGHT)
    size = 4 + 4 + 4 + 4 + 2 + len(topic) + 4 + 4 + 2  # of an answer about one partition
    rests = dict.fromkeys(links, b"")
    now = time.perf_counter
    begun = now()
    warm, end = begun + seconds * 0.1, begun + seconds * 1.1
    total, before, from_at, from_cpu = 0, 0, 0.0, 0.0
    try:
        while True:
            for fd, _ in poll.poll():
                link, wanted = links[fd]
                data = rests[fd] + link.recv(1 << 18)
                count = len(data) // size
                for at in range(size, count * size + 1, size):
                    if data[at - 2 : at] != b"\0\0":
                        return Figure(0.0, problem=f"error {struct.unpack('>h', data[at - 2 : at])[0]}")
                rests[fd] = data[count * size :]
                total += count
                link.sendall(wanted * count)
            moment = now()
            if not from_at and moment > warm:
                from_at, before, from_cpu = moment, total, cluster.cpu_s()
            if moment > end:
                each_us = (cluster.cpu_s() - from_cpu) / max(total - before, 1) * 1e6
                return Figure((total - before) / (moment - from_at), notes={"CPU us/commit": each_us})
    finally:
        poll.close()
        for link, _ in links.values():
            link.close()


def load(cluster: Cluster, offsets: int, partitions: int = 1000) -> tuple[Figure, Figure]:
    """The coordinator of so many offsets is killed: from the first answer of the next one until it tells them, in ms; and the
    longest that another request to it waits meanwhile."""
    topic = "c4"
    _topic(cluster, topic, partitions, 1)
    address = coordinator(cluster.bootstrap, "c4-0")
    client = raw_frames.RawClient(*address)
    every = list(range(partitions))
    end = time.monotonic() + 30
    for number in range(max(offsets // partitions, 1)):
        errors = set(COMES_UP)
        while errors & COMES_UP and time.monotonic() < end:
            answer = client.ask(_commit(f"c4-{number}", topic, every, 11))
            told = OffsetCommitResponse.decode(COMMIT_VERSION, answer)
            errors = {row.error_code for one in told.topics for row in one.partitions}
        if errors != {0}:
            refused = Figure(0.0, problem=f"a commit was refused: error {max(errors)}")
            return refused, refused
    client.close()
    dead = next(n for n, port in enumerate(cluster.ports, 1) if port == address.port)
    cluster.kill(dead)
    alive = [one for one in cluster.bootstrap if not one.endswith(f":{address.port}")]
    last = f"c4-{max(offsets // partitions, 1) - 1}"
    return _loading(alive, address, last, topic)


def _loading(alive: list[str], former: raw_frames.Broker, group: str, topic: str) -> tuple[Figure, Figure]:
    end = time.monotonic() + 120
    address = former
    while address == former:
        address = coordinator(alive, group)
        if time.monotonic() > end:
            return (late := Figure(0.0, problem="no other coordinator in time")), late
        time.sleep(0.005)
    request = OffsetFetchRequest(
        group_id=group, topics=[OffsetFetchRequestTopic(name=topic, partition_indexes=[0])]
    )
    wanted = raw_frames.frame(OFFSET_FETCH, FETCH_VERSION, 1, request.encode(FETCH_VERSION))
    pulse = raw_frames.frame(API_VERSIONS, 0, 1, b"")
    client = raw_frames.RawClient(*address)
    begun, longest = time.perf_counter(), 0.0
    try:
        while True:
            sent = time.perf_counter()
            client.ask(pulse)
            longest = max(longest, time.perf_counter() - sent)
            told = OffsetFetchResponse.decode(FETCH_VERSION, client.ask(wanted))
            row = told.topics[0].partitions[0] if told.topics else None
            if not told.error_code and row is not None and row.committed_offset == 11:
                break
            if time.monotonic() > end:
                return (late := Figure(0.0, problem=f"not loaded in time, error {told.error_code}")), late
            time.sleep(PULSE_S)
        return Figure((time.perf_counter() - begun) * 1000), Figure(longest * 1000)
    finally:
        client.close()


def idle(cluster: Cluster, members: int, seconds: float, of_group: int = 10) -> tuple[Figure, Figure]:
    """Members in groups of ten that heartbeat every 3 s, as clients do by default: share of a core in percent, and what the broker
    grew by, in MB."""
    topic = "c6"
    _topic(cluster, topic, of_group, 1)
    address = coordinator(cluster.bootstrap, "c6-0")
    time.sleep(1.0)
    before_mb = cluster.rss_mb()
    together = Members(
        [Member(address, f"c6-{number // of_group}", topic, of_group) for number in range(members)], 3.0
    )
    try:
        for member in together.members:
            member.join()
        if not together.until(lambda: all(member.is_stable for member in together.members)):
            return (late := Figure(0.0, problem="not stable in time")), late
        together.until(lambda: False, 3.0)
        begun, cpu_s = time.perf_counter(), cluster.cpu_s()
        together.until(lambda: False, seconds)
        share = (cluster.cpu_s() - cpu_s) / (time.perf_counter() - begun) * 100
        if not all(member.is_stable for member in together.members):
            return (left := Figure(0.0, problem="a member fell out")), left
        return Figure(share), Figure(cluster.rss_mb() - before_mb)
    finally:
        together.close()


def compaction(cluster: Cluster, megabytes: int, seconds: float) -> tuple[Figure, Figure]:
    """1 KB records of which a tenth of the keys are different, compacted at once: MB a second of processor
    time; and the p99 of single
    acks=1 records to another topic meanwhile, as a multiple of what it was before."""
    import confluent_kafka

    topic, beside = "c5", "c5-beside"
    _topic(
        cluster,
        topic,
        1,
        1,
        cleanup_policy="compact",
        segment_bytes=str(32 << 20),
        min_cleanable_dirty_ratio="1",
    )
    _topic(cluster, beside, 1, 1)
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": ",".join(cluster.bootstrap),
            "linger.ms": 20,
            "queue.buffering.max.kbytes": 262144,
        }
    )
    records, value = megabytes * 1000, bytes(range(256)) * 4
    for number in range(records):
        while True:
            try:
                producer.produce(topic, value, b"key-%d" % (number * 7919 % max(records // 10, 1)))
                break
            except BufferError:
                producer.poll(0.05)
        if not number % 1000:
            producer.poll(0)
    if producer.flush(300):
        return (lost := Figure(0.0, problem="records were not acknowledged")), lost
    quiet = _p99(cluster, beside, seconds)
    checkpoint = next(cluster.directory.glob("data-1")) / "cleaner-offset-checkpoint"
    process = cluster.processes[1]
    _alter(cluster, topic, "min.cleanable.dirty.ratio", "0.01")
    begun, cpu_s, peak_mb, before_mb = time.perf_counter(), cluster.cpu_s(), 0.0, process.rss_mb()
    slow: list[float] = []
    client = _SingleRecords(cluster, beside)
    while (done := _cleaned_to(checkpoint, topic)) < records * 0.9:
        slow += client.for_(0.05)
        peak_mb = max(peak_mb, process.rss_mb())
        if time.perf_counter() - begun > 300:
            return (late := Figure(0.0, problem=f"compacted to {done} of {records} in 300 s")), late
    took = time.perf_counter() - begun
    client.close()
    slow.sort()
    used_s = max(cluster.cpu_s() - cpu_s, 0.01)
    notes = {"MB/s of wall": megabytes / took, "MB more": peak_mb - before_mb}
    p99 = percentile(slow, 0.99)
    return Figure(megabytes / used_s, notes=notes), Figure(
        p99 / quiet, notes={"p99 us": p99, "before us": quiet}
    )


def _cleaned_to(checkpoint: Path, topic: str) -> int:
    try:
        lines = checkpoint.read_text().splitlines()
    except FileNotFoundError:
        return 0
    return next((int(line.split()[2]) for line in lines if line.startswith(f"{topic} 0 ")), 0)


def _alter(cluster: Cluster, topic: str, name: str, value: str) -> None:
    from odradek.cli import main

    arguments = ["config", "set", "--topic", topic, f"{name}={value}", "-b", ",".join(cluster.bootstrap)]
    if main.main(arguments):
        sys.exit(f"odradek {' '.join(arguments)}")


def _p99(cluster: Cluster, topic: str, seconds: float) -> float:
    client = _SingleRecords(cluster, topic)
    try:
        client.for_(0.5)
        return percentile(sorted(client.for_(seconds)), 0.99)
    finally:
        client.close()


class _SingleRecords:
    """One record after another, acks=1, at most a thousand a second; latencies in us."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        known = raw_frames.any_broker(cluster.bootstrap).metadata(topic)
        self._client = raw_frames.RawClient(*known.brokers[known.leaders[0]])
        batch = raw_frames.batch_of_one(b"x" * 100, int(time.time() * 1000))
        self._frame = raw_frames.produce(topic, 0, batch, acks=1)

    def for_(self, seconds: float) -> list[float]:
        found = []
        end = time.perf_counter() + seconds
        while (sent := time.perf_counter()) < end:
            self._client.ask(self._frame)
            found.append((time.perf_counter() - sent) * 1e6)
            time.sleep(0.001)
        return found

    def close(self) -> None:
        self._client.close()
