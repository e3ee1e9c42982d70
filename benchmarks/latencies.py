"""The cells that measure waiting: how long one request, one record, one topic or one connection takes."""

import json
import resource
import select
import socket
import statistics
import struct
import subprocess
import sys
import time

from benchmarks import raw_frames
from benchmarks.clusters import Cluster
from benchmarks.figures import Figure
from benchmarks.measures import p8

PULSE_LEAD_S = 2.0  # the pulse starts and warms up before the topic is made
API_VERSIONS = 18


def _paced(cluster: Cluster, topic: str, *arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "benchmarks.paced_load", "--bootstrap", ",".join(cluster.bootstrap)),
            *("--topic", topic, *arguments),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _result(process: "subprocess.Popen[str]") -> dict[str, float] | str:
    """What it measured, or what went wrong. Ends a pulse: its stdin is closed."""
    out, problem = process.communicate()
    if process.returncode != 0:
        return problem.strip()[-200:]
    found: dict[str, float] = json.loads(out)
    return found


def p7(cluster: Cluster, run: int, seconds: float) -> Figure:
    """From sending a record to having read it, 1,000 records a second, acks=all."""
    topic = f"p7-{run}"
    raw_frames.create_topic(
        cluster.bootstrap, topic, partitions=1, replication=3, configs={"min.insync.replicas": "2"}
    )
    cpu_s = cluster.cpu_s()
    found = _result(_paced(cluster, topic, "--acks=-1", "--consume", "--seconds", str(seconds)))
    if isinstance(found, str):
        return Figure(0.0, problem=found)
    notes = {
        "p99 ms": found["p99_ms"],
        "max ms": found["max_ms"],
        "records/s": found["count"] / seconds,
        "CPU us/record": (cluster.cpu_s() - cpu_s) / found["count"] * 1e6,
    }
    return Figure(found["p50_ms"], None, cluster.rss_mb(), notes)


def c7(cluster: Cluster, run: int, seconds: float) -> tuple[Figure, Figure]:
    """As P7, where the consumer is a member of a group that heartbeats and commits meanwhile: the median, and the p99."""
    topic = f"c7-{run}"
    raw_frames.create_topic(
        cluster.bootstrap, topic, partitions=1, replication=3, configs={"min.insync.replicas": "2"}
    )
    cpu_s = cluster.cpu_s()
    load = ("--acks=-1", "--consume", "--group", f"c7-{run}", "--seconds", str(seconds))
    found = _result(_paced(cluster, topic, *load))
    if isinstance(found, str):
        return (failed := Figure(0.0, problem=found)), failed
    notes = {
        "records/s": found["count"] / seconds,
        "CPU us/record": (cluster.cpu_s() - cpu_s) / found["count"] * 1e6,
    }
    return Figure(found["p50_ms"], notes=notes), Figure(found["p99_ms"], notes={"max ms": found["max_ms"]})


def p19(cluster: Cluster, run: int, partitions: int) -> tuple[Figure, Figure]:
    """A topic of many partitions, three replicas each: until every broker names all of them with their ISR; and the longest
    that a client of another topic, one request in flight to each broker, waits for an answer meanwhile."""
    topic, pulsed = f"p19-{run}", f"p19-pulse-{run}"
    raw_frames.create_topic(cluster.bootstrap, pulsed, partitions=cluster.size, replication=1)
    pulse = _paced(cluster, pulsed, "--partitions", str(cluster.size))
    time.sleep(PULSE_LEAD_S)
    cpu_s, begun = cluster.cpu_s(), time.perf_counter()
    end = time.monotonic() + 120
    raw_frames.create_topic(cluster.bootstrap, topic, partitions=partitions, replication=3)
    for address in cluster.bootstrap:
        raw_frames.wait_for_isr([address], topic, partitions, 3, end)
    created_ms = (time.perf_counter() - begun) * 1000
    cpu_ms = (cluster.cpu_s() - cpu_s) * 1000
    found = _result(pulse)
    for name in (topic, pulsed):
        raw_frames.delete_topic(cluster.bootstrap, name)
    created = Figure(created_ms, None, cluster.rss_mb(), {"CPU ms": cpu_ms})
    if isinstance(found, str):
        return created, Figure(0.0, problem=found)
    return created, Figure(found["max_ms"], notes={"p50 ms": found["p50_ms"], "p99 ms": found["p99_ms"]})


def p21(cluster: Cluster, connections: int) -> tuple[Figure, Figure]:
    """The first Metadata of a connection, and the second right behind its answer: all topics, of which there are few."""
    first, second = [], []
    for _ in range(connections):
        client = raw_frames.any_broker(cluster.bootstrap)
        moments = [time.perf_counter()]
        for _ in range(2):
            client.metadata(None)
            moments.append(time.perf_counter())
        client.close()
        first.append((moments[1] - moments[0]) * 1000)
        second.append((moments[2] - moments[1]) * 1000)
    return _median_and_p99(first), _median_and_p99(second)


def _median_and_p99(values: list[float]) -> Figure:
    ordered = sorted(values)
    return Figure(statistics.median(ordered), notes={"p99 ms": ordered[int(len(ordered) * 0.99)]})


def p22(cluster: Cluster, others: int, repeats: int, seconds: float) -> list[Figure]:
    """One acks=all request in flight while the followers follow `others` partitions more that do not change."""

    def round_trips(kind: str) -> list[Figure]:
        return [
            p8(cluster, f"{kind}-{n}", acks=-1, connections=1, in_flight=1, seconds=seconds)
            for n in range(repeats)
        ]

    alone = round_trips("alone")
    raw_frames.create_topic(cluster.bootstrap, "p22-others", partitions=others, replication=3)
    figures = []
    for before, figure in zip(alone, round_trips("beside"), strict=True):
        figure.problem = figure.problem or before.problem
        if not figure.problem:
            figure.value = figure.notes.pop("p50 us")
            figure.notes["p50 us before the others"] = before.notes["p50 us"]
            figure.notes["CPU us/request before"] = before.notes["CPU us/request"]
        figures.append(figure)
    return figures


def p23(cluster: Cluster, connections: int) -> Figure:
    """So many clients connect at once, and each asks for the API versions: until the last one has its answer."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < connections + 100:
        return Figure(0.0, problem=f"this client may open {hard} files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    host, _, port = cluster.bootstrap[0].rpartition(":")
    request = raw_frames.frame(API_VERSIONS, 0, 1, b"")
    poll = select.epoll()
    waiting: dict[int, socket.socket] = {}
    taken: list[socket.socket] = []
    begun = time.perf_counter()
    try:
        for _ in range(connections):
            client = socket.socket()
            client.setblocking(False)
            client.connect_ex((host, int(port)))
            waiting[client.fileno()] = client
            poll.register(client.fileno(), select.EPOLLOUT)
        while waiting:
            events = poll.poll(60)
            if not events:
                return Figure(
                    0.0, problem=f"{len(waiting)} of {connections} have no answer after 60 s of silence"
                )
            for fd, event in events:
                client = waiting[fd]
                if event & (select.EPOLLERR | select.EPOLLHUP):
                    return Figure(0.0, problem=f"connection {len(taken)} was refused")
                if event & select.EPOLLOUT:
                    client.send(request)
                    poll.modify(fd, select.EPOLLIN)
                elif len(client.recv(65536)) >= 4:
                    poll.unregister(fd)
                    taken.append(waiting.pop(fd))
        return Figure((time.perf_counter() - begun) * 1000, None, cluster.rss_mb())
    except OSError as error:
        return Figure(0.0, problem=f"connection {len(taken)}: {error}")
    finally:
        for client in (*taken, *waiting.values()):
            # Reset, or five thousand ports of this machine wait for two minutes each.
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
