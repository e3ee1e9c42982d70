"""Requests as bytes, written by hand for the raw-socket loads: nothing of the package, nothing between.

Versions that every peer serves and that have no tagged fields: Produce 7, Metadata 1, CreateTopics 2, DeleteTopics 1.
"""

import socket
import struct
import time
from collections.abc import Sequence
from typing import NamedTuple

import crc32c

PRODUCE, METADATA, CREATE_TOPICS, DELETE_TOPICS = 0, 3, 19, 20
CLIENT = b"bench"
BATCH_HEADER = struct.Struct(">qiibIhiqqqhii")
ANSWER_TIMEOUT_S = 30.0


def string(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def frame(api_key: int, version: int, correlation_id: int, body: bytes) -> bytes:
    head = struct.pack(">hhih", api_key, version, correlation_id, len(CLIENT)) + CLIENT
    return struct.pack(">i", len(head) + len(body)) + head + body


CORRELATION_AT = 8  # in a request frame: size, key, version, then the correlation id


def varint(value: int) -> bytes:
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def batch_of_one(value: bytes, timestamp: int) -> bytes:
    """A record batch (magic 2) with one record without a key."""
    record = b"\0" + varint(0) + varint(0) + varint(-1) + varint(len(value)) + value + varint(0)
    record = varint(len(record)) + record
    after_crc = struct.pack(">hiqqqhii", 0, 0, timestamp, timestamp, -1, -1, -1, 1) + record
    head = struct.pack(">qiibI", 0, 9 + len(after_crc), -1, 2, crc32c.crc32c(after_crc))
    return head + after_crc


def produce(topic: str, partition: int, batch: bytes, *, acks: int, correlation_id: int = 0) -> bytes:
    body = (
        struct.pack(">hhii", -1, acks, 30_000, 1)
        + string(topic)
        + struct.pack(">iii", 1, partition, len(batch))
        + batch
    )
    return frame(PRODUCE, 7, correlation_id, body)


class ProduceAnswer:
    """Where the fields of a Produce v7 answer stand when it is about one partition of `topic`."""

    def __init__(self, topic: str) -> None:
        name = len(topic.encode())
        # size, correlation id, topics, name, partitions, index, error, base offset, times, throttle
        self.layout = struct.Struct(f">ii4x2x{name}x4x4xhq8x8x4x")
        self.size = self.layout.size


class Broker(NamedTuple):
    host: str
    port: int


class Leadership(NamedTuple):
    brokers: dict[int, Broker]
    controller: int
    leaders: dict[int, int]  # partition -> broker; -1 while there is none
    isr: dict[int, list[int]]


class RawClient:
    """One blocking connection, one request at a time."""

    def __init__(self, host: str, port: int, timeout_s: float = ANSWER_TIMEOUT_S) -> None:
        self.socket = socket.create_connection((host, port), timeout=timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, request: bytes) -> bytes:
        """The answer's body behind its correlation id."""
        self.socket.sendall(request)
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)[4:]

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            part = self.socket.recv(size - len(data))
            if not part:
                raise ConnectionError("closed by the broker")
            data += part
        return bytes(data)

    def close(self) -> None:
        self.socket.close()

    def metadata(self, topic: str | None) -> Leadership:
        body = struct.pack(">i", -1) if topic is None else struct.pack(">i", 1) + string(topic)
        return _read_metadata(self.ask(frame(METADATA, 1, 1, body)))

    def create_topic(self, topic: str, partitions: int, replication: int, configs: dict[str, str]) -> int:
        """CreateTopics; returns the error code."""
        body = struct.pack(">i", 1) + string(topic) + struct.pack(">ihi", partitions, replication, 0)
        body += struct.pack(">i", len(configs)) + b"".join(string(k) + string(v) for k, v in configs.items())
        return _create_topics_error(
            self.ask(frame(CREATE_TOPICS, 2, 1, body + struct.pack(">ib", 30_000, 0)))
        )

    def assign_topic(self, topic: str, assignment: dict[int, list[int]], configs: dict[str, str]) -> int:
        """CreateTopics with an assignment of our own; returns the error code."""
        body = struct.pack(">i", 1) + string(topic) + struct.pack(">ihi", -1, -1, len(assignment))
        for partition, replicas in assignment.items():
            body += struct.pack(f">ii{len(replicas)}i", partition, len(replicas), *replicas)
        body += struct.pack(">i", len(configs)) + b"".join(string(k) + string(v) for k, v in configs.items())
        return _create_topics_error(
            self.ask(frame(CREATE_TOPICS, 2, 1, body + struct.pack(">ib", 30_000, 0)))
        )

    def delete_topic(self, topic: str) -> None:
        body = struct.pack(">i", 1) + string(topic) + struct.pack(">i", 30_000)
        self.ask(frame(DELETE_TOPICS, 1, 1, body))


def _create_topics_error(answer: bytes) -> int:
    """The error code of the one topic in the answer: throttle time, count, name, code."""
    (length,) = struct.unpack_from(">h", answer, 8)
    (error,) = struct.unpack_from(">h", answer, 10 + length)
    return int(error)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, layout: str) -> int:
        (value,) = struct.unpack_from(layout, self.data, self.at)
        self.at += struct.calcsize(layout)
        return int(value)

    def text(self) -> str | None:
        length = self.take(">h")
        if length < 0:
            return None
        self.at += length
        return self.data[self.at - length : self.at].decode()

    def ints(self) -> list[int]:
        return [self.take(">i") for _ in range(self.take(">i"))]


def _read_metadata(data: bytes) -> Leadership:
    read = _Reader(data)
    brokers = {}
    for _ in range(read.take(">i")):
        node = read.take(">i")
        host = read.text() or ""
        brokers[node] = Broker(host, read.take(">i"))
        read.text()
    controller = read.take(">i")
    leaders, isr = {}, {}
    for _ in range(read.take(">i")):
        read.take(">h")
        read.text()
        read.take(">b")
        for _ in range(read.take(">i")):
            read.take(">h")
            partition = read.take(">i")
            leaders[partition] = read.take(">i")
            read.ints()
            isr[partition] = read.ints()
    return Leadership(brokers, controller, leaders, isr)


def any_broker(bootstrap: Sequence[str], timeout_s: float = ANSWER_TIMEOUT_S) -> RawClient:
    """A connection to the first broker that accepts one."""
    last: OSError | None = None
    for address in bootstrap:
        host, _, port = address.rpartition(":")
        try:
            return RawClient(host, int(port), timeout_s)
        except OSError as error:
            last = error
    raise ConnectionError(f"no broker of {', '.join(bootstrap)} accepts a connection: {last}")


def create_topic(
    bootstrap: Sequence[str],
    topic: str,
    *,
    partitions: int,
    replication: int,
    configs: dict[str, str] | None = None,
    deadline_s: float = 60.0,
) -> Leadership:
    """Create and wait until every partition has a leader and its whole ISR; asks the controller."""
    end = time.monotonic() + deadline_s
    while True:
        first = any_broker(bootstrap)
        known = first.metadata(None)
        first.close()
        error = 41
        if known.controller in known.brokers:
            controller = RawClient(*known.brokers[known.controller])
            error = controller.create_topic(topic, partitions, replication, configs or {})
            controller.close()
        if error in (0, 36):
            break
        if time.monotonic() > end:
            raise TimeoutError(f"{topic}: not created, error code {error}")
        time.sleep(0.05)
    return wait_for_isr(bootstrap, topic, partitions, replication, end)


def delete_topic(bootstrap: Sequence[str], topic: str, deadline_s: float = 120.0) -> None:
    """Delete, and wait until no broker names it any more."""
    end = time.monotonic() + deadline_s
    first = any_broker(bootstrap)
    known = first.metadata(None)
    first.close()
    controller = RawClient(*known.brokers[known.controller])
    controller.delete_topic(topic)
    controller.close()
    for address in bootstrap:
        while True:
            client = any_broker([address])
            found = client.metadata(topic)
            client.close()
            if not found.leaders:
                break
            if time.monotonic() > end:
                raise TimeoutError(f"{topic}: not deleted")
            time.sleep(0.02)


def wait_for_isr(
    bootstrap: Sequence[str], topic: str, partitions: int, replication: int, end: float
) -> Leadership:
    while True:
        client = any_broker(bootstrap)
        found = client.metadata(topic)
        client.close()
        if len(found.leaders) == partitions and all(
            found.leaders[p] in found.brokers and len(found.isr[p]) == replication for p in found.leaders
        ):
            return found
        if time.monotonic() > end:
            raise TimeoutError(f"{topic}: {found.leaders} {found.isr}, wanted {replication} in every ISR")
        time.sleep(0.02)
