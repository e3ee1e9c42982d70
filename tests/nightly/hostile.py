"""Families of hostile input against one broker, while a second connection watches how long it waits and what memory is held.

Bytes are drawn from the golden vectors of the wire and damaged: fields, lengths, varints, headers, versions, whole frames;
record batches keep a right CRC and lie inside. What must hold: the broker lives, nobody else waits long, memory is bounded.
"""

import json
import random
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import psutil

from odradek.client.sync import SyncClient
from odradek.model.errors import OdradekError
from odradek.model.ids import TopicPartition
from odradek.protocol.api_keys import APIS
from odradek.protocol.headers import encode_request
from odradek.protocol.messages import request_class
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.schema import Message
from odradek.records.builder import NewRecord, build_batch
from odradek.records.checksum import crc32c
from odradek.testing.process_cluster import BrokerProcess, ProcessCluster
from tests.clients.support import create_topic
from tests.protocol.golden import Vector, all_vectors

TOPIC = "hostile"
BETWEEN_BROKERS = frozenset({4, 5, 6, 7, 27, 56, 58, 67})
INTEGERS = [0, -1, 1, 2, 127, -128, 32767, -32768, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63), 36_000]
NAMES = [
    "",
    ".",
    "..",
    "../../etc/x",
    "a" * 249,
    "a" * 32767,
    "\x1b[31m",
    "a\nb",
    "\u202e",
    "__consumer_offsets",
    "\0",
]
LENGTHS = [
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\x00\x40\x00\x00",
    b"\xff" * 5,
    b"\x80" * 11,
]
ANSWER_WITHIN_S = 1.5
MOST_REPEATED_BYTES = 4 << 20


class Result(NamedTuple):
    family: str
    inputs: int
    answered: int
    closed: int
    unanswered: int
    slowest_beside_ms: float
    memory_before_mb: int
    memory_peak_mb: int
    wrong: list[str]


Draw = Callable[[random.Random], bytes]


def families() -> Mapping[str, Draw]:
    return {
        "requests of clients": lambda chance: _request(chance, of_brokers=False),
        "requests of brokers": lambda chance: _request(chance, of_brokers=True),
        "frames of nonsense": _nonsense,
        "record batches": _records,
    }


def attack(directory: Path, *, seed: int, seconds: float) -> Iterator[Result]:
    """Each family for its share of `seconds`, on a cluster of its own with one broker."""
    chosen = families()
    for number, (family, draw) in enumerate(chosen.items()):
        with ProcessCluster(directory / f"family-{number}", brokers=1) as cluster:
            create_topic(cluster, TOPIC, partitions=1, min_insync_replicas=1)
            result = _play(cluster, family, draw, random.Random(f"{seed} {family}"), seconds / len(chosen))
        yield result


def _play(cluster: ProcessCluster, family: str, draw: Draw, chance: random.Random, seconds: float) -> Result:
    (broker,) = cluster.brokers.values()
    pid = broker.pid
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    with _Watch(broker) as watch:
        end = time.monotonic() + seconds
        victim = _Victim(broker)
        while time.monotonic() < end and broker.is_running:
            counts["inputs"] += 1
            counts[victim.send(draw(chance))] += 1
        victim.close()
    if not broker.is_running or broker.pid != pid:
        wrong.append(f"{family}: the broker ended: {broker.last_words(3)}")
    else:
        wrong += _unserved(cluster, family)
    return Result(
        family,
        counts["inputs"],
        counts["answered"],
        counts["closed"],
        counts["unanswered"],
        watch.slowest_s * 1000,
        watch.memory_before >> 20,
        watch.memory_peak >> 20,
        wrong,
    )


def _unserved(cluster: ProcessCluster, family: str) -> list[str]:
    """What a well-meant request gets afterwards, where that is no acknowledgement."""
    try:
        with SyncClient(cluster.bootstrap) as client:
            client.produce(TopicPartition(TOPIC, 0), build_batch([NewRecord(None, b"after all")]))
    except OdradekError as error:
        return [f"{family}: nothing can be produced afterwards: {error}"]
    return []


class _Victim:
    """A connection that sends one frame after the other, and is made anew when it was closed."""

    def __init__(self, broker: BrokerProcess) -> None:
        self._address = (broker.host, broker.port)
        self._socket: socket.socket | None = None

    def send(self, frame: bytes) -> str:
        try:
            if self._socket is None:
                self._socket = socket.create_connection(self._address, ANSWER_WITHIN_S)
            self._socket.sendall(frame)
            (size,) = struct.unpack(">i", _exactly(self._socket, 4))
            _exactly(self._socket, size)
            return "answered"
        except TimeoutError:
            self.close()
            return "unanswered"
        except OSError:
            self.close()
            return "closed"

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


class _Watch:
    """Beside the attack: how long ApiVersions takes on a connection of its own, and the most memory the process held."""

    def __init__(self, broker: BrokerProcess) -> None:
        self._broker = broker
        self._process = psutil.Process(broker.pid)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch")
        self.slowest_s = 0.0
        self.memory_before = self.memory_peak = self._process.memory_info().rss

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        frame = encode_request(18, 3, 1, "watch", request_class(18)().encode(3))
        with socket.create_connection((self._broker.host, self._broker.port), 60) as beside:
            while not self._stop.wait(0.01):
                begun = time.monotonic()
                try:
                    beside.sendall(frame)
                    (size,) = struct.unpack(">i", _exactly(beside, 4))
                    _exactly(beside, size)
                    self.memory_peak = max(self.memory_peak, self._process.memory_info().rss)
                except (OSError, psutil.NoSuchProcess):
                    return  # the broker is gone, which the attack tells
                self.slowest_s = max(self.slowest_s, time.monotonic() - begun)


def _exactly(peer: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        part = peer.recv(count - len(data))
        if not part:
            raise ConnectionResetError("closed")
        data += part
    return bytes(data)


# --- what is sent


def _request(chance: random.Random, *, of_brokers: bool) -> bytes:
    vector = chance.choice(_vectors(of_brokers))
    key, version, body = vector.key, vector.version, vector.body
    way = chance.random()
    served = key in APIS and APIS[key].first_version <= version <= APIS[key].last_version
    if way < 0.4 and served:
        body = _encoded(key, version, _other_fields(json.loads(json.dumps(vector.json)), chance), body)
    elif way < 0.45:
        version = chance.choice([-1, -32768, 99, 32767, version + 1])
    else:
        for _ in range(chance.choice([1, 1, 1, 3])):
            body = _damaged(body, chance)
    return _framed(key, version, body)


@cache
def _vectors(of_brokers: bool) -> list[Vector]:
    requests = [vector for vector in all_vectors() if vector.type == "request"]
    return [vector for vector in requests if (vector.key in BETWEEN_BROKERS) == of_brokers]


def _encoded(key: int, version: int, fields: dict[str, Any], otherwise: bytes) -> bytes:
    message: type[Message] = request_class(key)
    try:
        return message.from_json(version, fields).encode(version)
    except (OdradekError, ValueError, TypeError, OverflowError, struct.error):
        return otherwise  # no bytes can say this


def _other_fields(value: Any, chance: random.Random) -> Any:
    if isinstance(value, dict):
        return {name: _other_fields(inner, chance) for name, inner in value.items()}
    if isinstance(value, list):
        inner = [_other_fields(one, chance) for one in value]
        times = chance.choice([2, 50, 400]) if chance.random() < 0.1 else 1
        # Arrays in arrays, each repeated: the one who is to be out of memory is not the attacker.
        return inner * times if len(repr(inner)) * times <= MOST_REPEATED_BYTES else inner
    if isinstance(value, bool):
        return chance.random() < 0.5
    if isinstance(value, int):
        return chance.choice(INTEGERS) if chance.random() < 0.35 else value
    if isinstance(value, str):
        return chance.choice(NAMES) if chance.random() < 0.5 else value
    return value


def _framed(key: int, version: int, body: bytes) -> bytes:
    version = max(-32768, min(32767, version))
    if key in APIS and 0 <= version <= APIS[key].last_version:
        return encode_request(key, version, 7777, "hostile", body)
    return struct.pack(">ihhih", 17 + len(body), key, version, 7777, 7) + b"hostile" + body


def _damaged(body: bytes, chance: random.Random) -> bytes:
    data = bytearray(body)
    at = chance.randrange(len(data) + 1)
    kind = chance.choice(("bytes", "length", "insert", "cut", "extend", "delete", "repeat"))
    if kind == "bytes" and data:
        for _ in range(chance.randint(1, 6)):
            data[chance.randrange(len(data))] = chance.choice([0, 1, 127, 128, 255, chance.randrange(256)])
    elif kind == "length":
        data[at : at + 4] = chance.choice(LENGTHS)
    elif kind == "insert":
        data[at:at] = chance.choice(LENGTHS)
    elif kind == "cut":
        del data[at:]
    elif kind == "extend":
        data += chance.randbytes(chance.randint(1, 30))
    elif kind == "delete":
        del data[at : at + chance.randint(1, 8)]
    elif kind == "repeat":
        data[at:at] = data[max(0, at - 40) : at] * chance.choice([1, 2, 200])
    return bytes(data)


def _nonsense(chance: random.Random) -> bytes:
    kind = chance.randrange(5)
    if kind == 0:
        return chance.choice(LENGTHS)[:4].ljust(4, b"\xff") + chance.randbytes(20)
    if kind == 1:
        return b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    if kind == 2:
        return bytes.fromhex("16030100c8010000c40303") + chance.randbytes(190)
    if kind == 3:
        frame = _request(chance, of_brokers=chance.random() < 0.3)
        damaged = _damaged(frame[4:], chance)
        return struct.pack(">i", len(damaged)) + damaged
    return chance.randbytes(chance.randint(1, 100))


_HEADER = struct.Struct(">qiibIhiqqqhii")  # base offset ... record count (KIP-98)
_CRC_AT, _AFTER_CRC = 17, 21


def _records(chance: random.Random) -> bytes:
    """A batch with a right CRC whose header or body lies, produced with acks=all."""
    records = [NewRecord(b"k", b"v" * chance.choice([0, 1, 100]), int(time.time() * 1000)) for _ in range(3)]
    data = bytearray(build_batch(records))
    fields = list(_HEADER.unpack_from(data))
    for _ in range(chance.choice([0, 1, 1, 2])):
        place = chance.choice([0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 11, 12])
        fields[place] = chance.choice([0, 1, 2, 3, 4, 8, 16, 32, 64, -1, 127])
    _HEADER.pack_into(data, 0, *fields)
    if chance.random() < 0.7:
        data[_HEADER.size :] = _damaged(bytes(data[_HEADER.size :]), chance)
        struct.pack_into(">i", data, 8, len(data) - 12)
    if chance.random() < 0.95:
        struct.pack_into(">I", data, _CRC_AT, crc32c(bytes(data[_AFTER_CRC:])))
    produced = ProduceRequest(
        transactional_id=None,
        acks=-1,
        timeout_ms=1000,
        topic_data=[
            TopicProduceData(name=TOPIC, partition_data=[PartitionProduceData(index=0, records=bytes(data))])
        ],
    )
    return encode_request(0, 9, 7777, "hostile", produced.encode(9))
