"""What nobody should send, by name, to one broker at one port: what it answers, in a form that can be compared.

`answers_of(port, topic)` asks all of it; the topic has one partition, led there. An answer is an error code, the error
codes of a whole response, "answered", "closed" or "open" (nothing was said in time).
"""

import gzip
import random
import socket
import struct
import time
from collections.abc import Callable, Iterator
from typing import Any

from odradek.protocol.headers import decode_response_header, encode_request
from odradek.protocol.messages import request_class, response_class
from odradek.records.batch import ATTRIBUTES_OFFSET, BATCH_OVERHEAD, HEADER, LOG_OVERHEAD
from odradek.records.checksum import crc32c
from odradek.records.compression import ZSTD, compress

Answer = Any
Ask = Callable[[int], Answer]
PATIENCE_S = 4.0


# ------------------------------------------------------------------------------------------------------ batches


def varint(value: int) -> bytes:
    left = ((value << 1) ^ (value >> 63)) & (2**64 - 1)
    out = bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes(out) + bytes([left])


def field(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def record(
    *,
    value: bytes = b"v",
    headers: tuple[tuple[bytes | None, bytes], ...] = (),
    offset_delta: int = 0,
    length: int | None = None,
) -> bytes:
    body = b"\0" + varint(0) + varint(offset_delta) + field(b"k") + field(value) + varint(len(headers))
    body += b"".join(field(key) + field(data) for key, data in headers)
    return varint(len(body) if length is None else length) + body


def batch(block: bytes | None = None, *, has_right_crc: bool = True, **given: Any) -> bytes:
    block = record() if block is None else block
    now = int(time.time() * 1000)
    count = given.get("record_count", 1)
    fields = {
        "base_offset": 0,
        "length": BATCH_OVERHEAD - LOG_OVERHEAD + len(block),
        "leader_epoch": -1,
        "magic": 2,
        "crc": 0,
        "attributes": 0,
        "last_offset_delta": 0,
        "base_timestamp": now,
        "max_timestamp": now,
        "producer_id": -1,
        "producer_epoch": -1,
        "base_sequence": -1,
        "record_count": count,
        **given,
    }
    data = bytearray(HEADER.pack(*fields.values()) + block)
    if has_right_crc:
        data[17:21] = crc32c(data[ATTRIBUTES_OFFSET:]).to_bytes(4, "big")
    return bytes(data)


def batches() -> Iterator[tuple[str, bytes]]:
    good = record()
    idempotent: dict[str, Any] = {"producer_id": 8, "producer_epoch": 0}
    yield "good", batch()
    yield "wrong crc", batch(has_right_crc=False)
    for magic in (0, 3, -1):
        yield f"magic {magic}", batch(magic=magic)
    yield "count 0", batch(record_count=0)
    yield "count -1", batch(record_count=-1)
    yield "two promised, one there", batch(record_count=2, last_offset_delta=1)
    yield "last offset delta 5", batch(last_offset_delta=5)
    yield "base offset 7", batch(base_offset=7)
    yield "base offset -1", batch(base_offset=-1)
    yield "control", batch(attributes=0x20)
    yield "transactional without a producer", batch(attributes=0x10)
    yield "LogAppendTime", batch(attributes=0x08)
    yield "codec 5", batch(attributes=5)
    yield "codec 7", batch(attributes=7)
    yield "attribute bit 7", batch(attributes=0x80)
    yield "negative attributes", batch(attributes=-32768)
    yield "delete horizon", batch(attributes=0x40)
    for length in (48, -1, 2**31 - 1):
        yield f"length {length}", batch(length=length)
    yield "producer id without an epoch", batch(producer_id=5)
    yield "producer id without a sequence", batch(producer_id=5, producer_epoch=0)
    yield "first sequence 9", batch(producer_id=77, producer_epoch=0, base_sequence=9)
    yield "nothing", b""
    yield "60 bytes", batch()[:60]
    yield "no records", batch(b"")
    yield "a byte behind it", batch() + b"\0"
    yield "two batches", batch() + batch()
    yield (
        "two idempotent batches",
        batch(**idempotent, base_sequence=0) + batch(**idempotent, base_sequence=1),
    )
    yield "max timestamp 2^63-1", batch(max_timestamp=2**63 - 1)
    yield "base timestamp -2^63", batch(base_timestamp=-(2**63))
    yield "header without a key", batch(record(headers=((None, b"x"),)))
    yield "header key not UTF-8", batch(record(headers=((b"\xff", b"x"),)))
    yield "record length -1", batch(record(length=-1))
    yield "record length 2^31-1", batch(record(length=2**31 - 1))
    yield "offset delta 5", batch(record(offset_delta=5))
    yield "overlong varint", batch(b"\x90" + b"\x80" * 10 + b"\0" + good[1:])
    for codec, name in ((1, "gzip"), (3, "lz4"), (4, "zstd")):
        yield f"{name} garbage", batch(b"garbage", attributes=codec)
    yield "snappy garbage", batch(b"\xff\xff\xff\xff\x0f", attributes=2)
    yield "bytes behind zstd", batch(bytes(compress(ZSTD, good)) + b"zz", attributes=4)
    yield "gzip of half a record", batch(gzip.compress(good[:3]), attributes=1)
    yield "1.2 MB", batch(record(value=random.Random(1).randbytes(1_200_000)))


# ------------------------------------------------------------------------------------------------------ asking


class Connection:
    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
        self._socket.settimeout(PATIENCE_S)

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def receive(self) -> bytes:
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self._socket.recv(size - len(data))
            if not more:
                raise ConnectionError
            data += more
        return data

    def close(self) -> None:
        self._socket.close()


def exchange(port: int, data: bytes) -> bytes | str:
    """The frame that answers; else what happened."""
    connection = Connection(port)
    try:
        connection.send(data)
        return connection.receive()
    except TimeoutError:
        return "open"
    except OSError:
        return "closed"
    finally:
        connection.close()


def raw(data: bytes) -> Ask:
    def ask(port: int) -> Answer:
        answer = exchange(port, data)
        return answer if isinstance(answer, str) else "answered"

    return ask


def call(key: int, version: int, body: bytes | None = None, **fields: Any) -> Ask:
    """All error codes of the answer, the first four; "answered" where it cannot be read."""

    def ask(port: int) -> Answer:
        data = request_class(key).from_json(version, fields).encode(version) if body is None else body
        answer = exchange(port, encode_request(key, version, 1, "stranger", data))
        if isinstance(answer, str):
            return answer
        try:
            offset = decode_response_header(key, version, memoryview(answer))[1]
            return list(error_codes(response_class(key).decode(version, memoryview(answer), offset)))[:4]
        except Exception:
            return "answered"

    return ask


def error_codes(message: Any) -> Iterator[int]:
    for row in message.TABLE:
        value = getattr(message, row.name)
        if row.name.endswith("error_code"):
            yield int(value)
        elif isinstance(value, list):
            for part in value:
                if hasattr(part, "TABLE"):
                    yield from error_codes(part)


def produce(topic: str, records: bytes, acks: int = -1) -> Ask:
    def ask(port: int) -> Answer:
        message = request_class(0).from_json(
            9,
            {
                "transactionalId": None,
                "acks": acks,
                "timeoutMs": 3000,
                "topicData": [{"name": topic, "partitionData": [{"index": 0, "records": ""}]}],
            },
        )
        message.topic_data[0].partition_data[0].records = records  # type: ignore[attr-defined]
        codes = call(0, 9, message.encode(9))(port)
        return codes[0] if isinstance(codes, list) else codes

    return ask


# ------------------------------------------------------------------------------------------------------ inputs


def fetch(topic: str, *, offset: int = 0, isolation: int = 0, replica: int = -1) -> Ask:
    partition = {
        "partition": 0,
        "currentLeaderEpoch": -1,
        "fetchOffset": offset,
        "logStartOffset": -1,
        "partitionMaxBytes": 1000,
    }
    return call(
        1,
        11,
        replicaId=replica,
        maxWaitMs=0,
        minBytes=0,
        maxBytes=1000,
        isolationLevel=isolation,
        sessionId=0,
        sessionEpoch=-1,
        topics=[{"topic": topic, "partitions": [partition]}],
        forgottenTopicsData=[],
        rackId="",
    )


def topic_config(topic: str, name: str, value: str, operation: int = 0) -> Ask:
    change = {"name": name, "configOperation": operation, "value": value}
    resource = {"resourceType": 2, "resourceName": topic, "configs": [change]}
    return call(44, 0, resources=[resource], validateOnly=True)


def quota(value: Any) -> Ask:
    entity = [{"entityType": "user", "entityName": "u"}]
    change = [{"key": "producer_byte_rate", "value": value, "remove": False}]
    return call(49, 0, entries=[{"entity": entity, "ops": change}], validateOnly=True)


def create_topic(name: str) -> Ask:
    topic = {"name": name, "numPartitions": 1, "replicationFactor": 1, "assignments": [], "configs": []}
    return call(19, 5, topics=[topic], timeoutMs=1000, validateOnly=True)


TOPIC_NAMES = {
    "a path upwards": "../../etc/x",
    "two dots": "..",
    "a dot": ".",
    "a slash": "a/b",
    "a zero": "a\0b",
    "a line feed": "a\nb",
    "a mark of direction": "\u202e",
    "nothing": "",
    "250 characters": "a" * 250,
    "32767 characters": "a" * 32767,
    "an escape": "\x1b[31m",
    "__cluster_metadata": "__cluster_metadata",
    "__consumer_offsets": "__consumer_offsets",
    "__transaction_state": "__transaction_state",
}
TOPIC_CONFIGS = (
    ("retention.ms", "1e5"),
    ("retention.ms", "\x00"),
    ("no.such", "1"),
    ("cleanup.policy", "delete,delete"),
    ("compression.type", "rar"),
    ("max.message.bytes", "-5"),
    ("segment.bytes", "1"),
    ("follower.replication.throttled.replicas", "x"),
    ("retention.ms", "9" * 400),
    ("min.insync.replicas", "0"),
)


def inputs(topic: str) -> dict[str, Ask]:
    asks: dict[str, Ask] = {f"produce: {name}": produce(topic, data) for name, data in batches()}
    asks["produce: acks 7"] = produce(topic, batch(), acks=7)
    asks |= {
        "frame of 0 bytes": raw(bytes(4)),
        "frame of -1 bytes": raw(b"\xff" * 4),
        "frame of 2^31-1 bytes": raw(b"\x7f\xff\xff\xff"),
        "http": raw(b"GET / HTTP/1.1\r\n\r\n"),
        "tls": raw(bytes.fromhex("16030100c8010000c40303") + b"r" * 190),
        "api versions 99": call(18, 99, b"\1\1\0"),
        "api key 999": raw(struct.pack(">ihhih", 10, 999, 0, 1, -1)),
        "metadata 99": raw(struct.pack(">ihhih", 10, 3, 99, 1, -1)),
        "metadata of 2^31-1 topics": raw(struct.pack(">ihhihi", 14, 3, 4, 1, -1, 2**31 - 1)),
        "metadata of a topic not UTF-8": raw(
            struct.pack(">ihhihih", 20, 3, 4, 1, -1, 1, 2) + b"\xff\xfe\0\0"
        ),
        "metadata, bytes behind it": raw(struct.pack(">ihhihi", 20, 3, 4, 1, -1, 0) + b"\0zzzzz"),
        "client id of -2 bytes": raw(struct.pack(">ihhih", 10, 3, 1, 1, -2)),
        "api versions of a bad software name": call(18, 3, b"\5a b!\2x\0"),
        "sasl authenticate unasked": call(36, 1, bytes(4)),
        "sasl handshake": call(17, 1, b"\0\5PLAIN"),
        "fetch at -5": fetch(topic, offset=-5),
        "fetch with isolation 9": fetch(topic, isolation=9),
        "fetch as replica 77": fetch(topic, replica=77),
        "list offsets at -9": call(
            2,
            7,
            replicaId=-1,
            isolationLevel=0,
            topics=[
                {
                    "name": topic,
                    "partitions": [{"partitionIndex": 0, "currentLeaderEpoch": -1, "timestamp": -9}],
                }
            ],
        ),
        "delete records beyond the end": call(
            21,
            1,
            topics=[{"name": topic, "partitions": [{"partitionIndex": 0, "offset": 10**9}]}],
            timeoutMs=1000,
        ),
        "describe configs of type 99": call(
            32,
            1,
            resources=[{"resourceType": 99, "resourceName": "x", "configurationKeys": None}],
            includeSynonyms=False,
        ),
        "config operation 9": topic_config(topic, "retention.ms", "1", operation=9),
        "quota NaN": quota("NaN"),
        "quota -1": quota(-1.0),
    }
    asks |= {f"create topic: {said}": create_topic(name) for said, name in TOPIC_NAMES.items()}
    for name, value in TOPIC_CONFIGS:
        asks[f"topic config {name}={value[:12]!r}"] = topic_config(topic, name, value)
    return asks


def answers_of(port: int, topic: str) -> dict[str, Answer]:
    return {name: ask(port) for name, ask in inputs(topic).items()}
