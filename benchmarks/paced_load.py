"""One record a millisecond, in a process of its own: P7's client, and the pulse that feels a broker stand still (P19).

    python -m benchmarks.paced_load --bootstrap HOST:PORT,... --topic NAME --partitions 1 --acks -1 --consume --seconds 10
    python -m benchmarks.paced_load --bootstrap HOST:PORT,... --topic NAME --partitions 3 --acks 1      (until stdin ends)

To each partition's leader goes a record a millisecond, and the next one never before the last was answered. With
`--consume` a second connection fetches what was produced, and a record's latency runs from the moment it was sent to the
moment its batch was read; else to the moment it was answered. With `--group` the consumer is the only member of that
group: it has its partition assigned, and heartbeats and commits in turn, far more often than clients do by default.
The result is one JSON line, in milliseconds.
"""

import argparse
import json
import select
import socket
import struct
import sys
import time

from benchmarks import group_client, raw_frames
from benchmarks.raw_load import RECORD_SIZE, percentile

PERIOD_S = 0.001
WARM_UP_S = 1.0
GROUP_PERIOD_S = 0.1
FETCH = 1
RECORD_AT = 61  # in a record batch


def fetch_answer_head(topic: str) -> struct.Struct:
    """Of a Fetch v4 answer about one partition, up to its records: size, correlation id, (throttle, topics, name,
    partitions, index), error, high watermark, last stable offset, aborted transactions, size of the records."""
    return struct.Struct(f">ii4x4x2x{len(topic.encode())}x4x4xhqqii")


class Producing:
    """One connection to the leader of one partition, one request in flight."""

    def __init__(self, broker: raw_frames.Broker, topic: str, partition: int, acks: int) -> None:
        self.topic, self.partition, self.acks = topic, partition, acks
        self.socket = socket.create_connection(broker, timeout=30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.answer = raw_frames.ProduceAnswer(topic)
        self.rest = b""
        self.sent_at: list[float] = []
        self.answered_at: list[float] = []
        self.due = time.perf_counter()

    def send(self) -> None:
        value = len(self.sent_at).to_bytes(8, "little").ljust(RECORD_SIZE, b".")
        batch = raw_frames.batch_of_one(value, int(time.time() * 1000))
        frame = raw_frames.produce(self.topic, self.partition, batch, acks=self.acks)
        self.sent_at.append(time.perf_counter())
        self.socket.sendall(frame)

    def receive(self) -> None:
        self.rest += self.socket.recv(65536) or sys.exit("the broker closed the connection")
        if len(self.rest) >= self.answer.size:
            now = time.perf_counter()
            _, _, error, _ = self.answer.layout.unpack(self.rest)
            if error:
                sys.exit(f"record {len(self.answered_at)}: error {error}")
            self.rest = b""
            self.answered_at.append(now)
            self.due = max(self.due + PERIOD_S, now)


class Consuming:
    """Long polls for one partition from its beginning; when the record of each number was read."""

    def __init__(self, broker: raw_frames.Broker, topic: str, partition: int) -> None:
        self.topic, self.partition = topic, partition
        self.socket = socket.create_connection(broker, timeout=30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.offset = 0
        self.rest = b""
        self.read_at: dict[int, float] = {}
        self.head = fetch_answer_head(topic)

    def fetch(self) -> None:
        body = struct.pack(">iiiibi", -1, 500, 1, 1 << 20, 0, 1) + raw_frames.string(self.topic)
        body += struct.pack(">iiqi", 1, self.partition, self.offset, 1 << 20)
        self.socket.sendall(raw_frames.frame(FETCH, 4, 1, body))

    def receive(self) -> None:
        self.rest += self.socket.recv(1 << 20) or sys.exit("the broker closed the connection")
        if len(self.rest) < 4 or len(self.rest) < 4 + struct.unpack_from(">i", self.rest)[0]:
            return
        now = time.perf_counter()
        _, _, error, _, _, aborted, size = self.head.unpack_from(self.rest)
        if error or aborted > 0:
            sys.exit(f"fetch from {self.offset}: error {error}, {aborted} aborted transactions")
        at = self.head.size
        while at < self.head.size + size:
            base, length = struct.unpack_from(">qi", self.rest, at)
            # The value begins behind two bytes of length, attributes, two deltas, the key's length and its own two bytes.
            value = at + RECORD_AT + 2 + 1 + 1 + 1 + 1 + 2
            self.read_at[int.from_bytes(self.rest[value : value + 8], "little")] = now
            self.offset = base + 1
            at += 12 + length
        self.rest = b""
        self.fetch()


class Belonging:
    """The consumer's part in its group: every tenth of a second a heartbeat, or a commit of what it has read."""

    def __init__(self, bootstrap: list[str], group: str, consuming: Consuming) -> None:
        self._consuming = consuming
        address = group_client.coordinator(bootstrap, group)
        self._member = group_client.Member(address, group, consuming.topic, consuming.partition + 1)
        self._member.join()
        while not self._member.is_stable:
            self._member.read()
        self._generation = self._member.generation
        self._due = time.perf_counter()
        self._commits_next = True
        self.socket = self._member.socket

    def receive(self) -> None:
        self._member.read()
        if not self._member.is_stable or self._member.generation != self._generation:
            sys.exit("the group did not stay as it was")

    def keep_up(self, now: float) -> None:
        if now < self._due or self._member.is_waiting:
            return
        self._due = now + GROUP_PERIOD_S
        if self._commits_next:
            self._member.commit(self._consuming.partition, self._consuming.offset)
        else:
            self._member.heartbeat()
        self._commits_next = not self._commits_next


def run(
    links: list[Producing],
    consuming: Consuming | None,
    seconds: float | None,
    belonging: Belonging | None = None,
) -> None:
    """For so long, or until stdin ends."""
    poll = select.epoll()
    by_fd: dict[int, Producing | Consuming | Belonging] = {link.socket.fileno(): link for link in links}
    if consuming is not None:
        by_fd[consuming.socket.fileno()] = consuming
        consuming.fetch()
    if belonging is not None:
        by_fd[belonging.socket.fileno()] = belonging
    for fd in by_fd:
        poll.register(fd, select.EPOLLIN)
    if seconds is None:
        poll.register(sys.stdin.fileno(), select.EPOLLIN)
    end = None if seconds is None else time.perf_counter() + WARM_UP_S + seconds
    while True:
        now = time.perf_counter()
        idle = [link for link in links if len(link.answered_at) == len(link.sent_at)]
        if (
            end is not None
            and now > end
            and (consuming is None or len(consuming.read_at) == len(links[0].sent_at))
        ):
            return
        if belonging is not None:
            belonging.keep_up(now)
        wait = 0.1
        for link in idle:
            if end is not None and now > end:
                continue
            if link.due <= now:
                link.send()
            else:
                wait = min(wait, link.due - now)
        for fd, _ in poll.poll(wait):
            if fd not in by_fd:
                return
            by_fd[fd].receive()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--partitions", type=int, default=1)
    parser.add_argument("--acks", type=int, default=1)
    parser.add_argument("--consume", action="store_true")
    parser.add_argument("--group", help="of which the consumer is the only member")
    parser.add_argument("--seconds", type=float, help="without it: until stdin ends")
    options = parser.parse_args()
    bootstrap = options.bootstrap.split(",")
    known = raw_frames.any_broker(bootstrap).metadata(options.topic)
    leaders = [known.brokers[known.leaders[p]] for p in range(options.partitions)]
    links = [Producing(leader, options.topic, p, options.acks) for p, leader in enumerate(leaders)]
    consuming = Consuming(leaders[0], options.topic, 0) if options.consume else None
    belonging = None
    if options.group:
        assert consuming is not None, "--group is of the consumer"
        belonging = Belonging(bootstrap, options.group, consuming)
        for link in links:
            link.due = time.perf_counter()
    run(links, consuming, options.seconds, belonging)
    latencies = []
    for link in links:
        ends = (
            link.answered_at
            if consuming is None
            else [consuming.read_at[n] for n in range(len(link.sent_at))]
        )
        begin = link.sent_at[0] + WARM_UP_S
        latencies += [(to - at) * 1000 for at, to in zip(link.sent_at, ends, strict=False) if at > begin]
    latencies.sort()
    print(
        json.dumps(
            {
                "count": len(latencies),
                "p50_ms": percentile(latencies, 0.5),
                "p99_ms": percentile(latencies, 0.99),
                "max_ms": latencies[-1],
            }
        ),
        flush=True,
    )


if __name__ == "__main__":
    main()
