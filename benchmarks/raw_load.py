"""P8's client: single-record Produce requests over plain sockets, in a process of its own.

Frames are computed beforehand; a request costs the client one correlation id patched in, an answer one
unpacked struct. Answers of one topic have one size, so a read of many answers is one `iter_unpack`.
The result is one JSON line; the offsets that were acknowledged go to a file, to be read back.
"""

import argparse
import json
import select
import socket
import struct
import sys
import time
from array import array
from pathlib import Path

from benchmarks import raw_frames

RECORD_SIZE = 100
KINDS = 1024  # different records sent, in turn
WARM_UP_SHARE = 0.1


def value_of(kind: int) -> bytes:
    """The record that frame number `kind` carries."""
    pattern = bytes((kind + position * 11) % 253 for position in range(RECORD_SIZE - 8))
    return kind.to_bytes(8, "little") + pattern


class Link:
    """One connection to one partition's leader, with what is in flight on it."""

    def __init__(self, broker: raw_frames.Broker, topic: str, partition: int, acks: int) -> None:
        self.partition = partition
        self.socket = socket.create_connection(broker, timeout=30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        now_ms = int(time.time() * 1000)
        self.frames = [
            bytearray(
                raw_frames.produce(topic, partition, raw_frames.batch_of_one(value_of(k), now_ms), acks=acks)
            )
            for k in range(KINDS)
        ]
        self.sent = 0
        self.answered = 0
        self.offsets = array("q")  # of the answer number n; its record is of kind n % KINDS
        self.rest = b""

    def next_frame(self) -> bytearray:
        number = self.sent
        self.sent = number + 1
        wanted = self.frames[number % KINDS]
        struct.pack_into(">i", wanted, raw_frames.CORRELATION_AT, number & 0x7FFFFFFF)
        return wanted

    def take(self, data: bytes, answer: raw_frames.ProduceAnswer) -> int:
        """Answers in `data`; every one is checked. Returns how many."""
        if self.rest:
            data = self.rest + data
        count = len(data) // answer.size
        used = count * answer.size
        self.rest = data[used:]
        expected = self.answered
        append = self.offsets.append
        for size, correlation, error, offset in answer.layout.iter_unpack(memoryview(data)[:used]):
            if size != answer.size - 4 or correlation != expected & 0x7FFFFFFF or error:
                sys.exit(f"answer {expected}: size {size}, correlation id {correlation}, error {error}")
            append(offset)
            expected += 1
        self.answered = expected
        return count


def one_in_flight(link: Link, answer: raw_frames.ProduceAnswer, seconds: float) -> tuple[float, list[float]]:
    """Latencies in us of requests sent one after another, after a warm-up."""
    latencies: list[float] = []
    sock, now = link.socket, time.perf_counter
    begun = now()
    warm, end = begun + seconds * WARM_UP_SHARE, begun + seconds * (1 + WARM_UP_SHARE)
    measured_from = begun
    while True:
        wanted = link.next_frame()
        sent = now()
        sock.sendall(wanted)
        got = sock.recv(65536)
        while len(got) + len(link.rest) < answer.size:
            more = sock.recv(65536)
            if not more:
                sys.exit("the broker closed the connection")
            got += more
        done = now()
        if link.take(got, answer) != 1:
            sys.exit("more than one answer to one request")
        if done > warm:
            if not latencies:
                measured_from = sent
            latencies.append((done - sent) * 1e6)
        if done > end:
            return done - measured_from, latencies


def many_in_flight(
    links: list[Link], answer: raw_frames.ProduceAnswer, depth: int, seconds: float
) -> tuple[float, int]:
    """`depth` requests in flight on each link; every answer lets one more go."""
    by_fd = {link.socket.fileno(): link for link in links}
    poll = select.epoll()
    now = time.perf_counter
    begun = now()
    warm, end = begun + seconds * WARM_UP_SHARE, begun + seconds * (1 + WARM_UP_SHARE)
    for link in links:
        link.socket.sendall(b"".join([link.next_frame() for _ in range(depth)]))
        poll.register(link.socket.fileno(), select.EPOLLIN)
    measured_from, before = 0.0, 0
    total = 0
    while True:
        for fd, _ in poll.poll():
            link = by_fd[fd]
            data = link.socket.recv(1 << 18)
            if not data:
                sys.exit("the broker closed a connection")
            count = link.take(data, answer)
            total += count
            if count:
                # A joined copy: a frame may be used twice in a row only when depth > KINDS, which is ruled out.
                link.socket.sendall(b"".join([link.next_frame() for _ in range(count)]))
        moment = now()
        if not measured_from and moment > warm:
            measured_from, before = moment, total
        if moment > end:
            elapsed, count = moment - measured_from, total - before
            drain(links, answer)
            return elapsed, count


def drain(links: list[Link], answer: raw_frames.ProduceAnswer) -> None:
    for link in links:
        while link.answered < link.sent:
            data = link.socket.recv(1 << 18)
            if not data:
                sys.exit("the broker closed a connection")
            link.take(data, answer)


def percentile(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--acks", type=int, required=True)
    parser.add_argument("--connections", type=int, default=1)
    parser.add_argument("--in-flight", type=int, default=1, help="over all connections")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--offsets", type=Path, help="where the acknowledged offsets are written")
    options = parser.parse_args()

    known = raw_frames.any_broker(options.bootstrap.split(",")).metadata(options.topic)
    links = [
        Link(known.brokers[known.leaders[p]], options.topic, p, options.acks)
        for p in range(options.connections)
    ]
    answer = raw_frames.ProduceAnswer(options.topic)
    cpu, begun = time.process_time(), time.perf_counter()
    if options.in_flight == 1:
        elapsed, latencies = one_in_flight(links[0], answer, options.seconds)
        latencies.sort()
        result = {
            "per_second": len(latencies) / elapsed,
            "p50_us": percentile(latencies, 0.5),
            "p99_us": percentile(latencies, 0.99),
        }
    else:
        depth = options.in_flight // options.connections
        elapsed, count = many_in_flight(links, answer, depth, options.seconds)
        result = {"per_second": count / elapsed}
    # Of all the time, as of all the work: the warm-up is part of both.
    result["client_cores"] = (time.process_time() - cpu) / (time.perf_counter() - begun)
    result["acknowledged"] = sum(link.answered for link in links)
    if options.offsets:
        rows = {str(link.partition): link.offsets.tolist() for link in links}
        options.offsets.write_text(json.dumps(rows), encoding="utf-8")
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
