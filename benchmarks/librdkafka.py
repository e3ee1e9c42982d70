"""librdkafka, the C client inside confluent-kafka's wheel, called through ctypes.

It is the unmodified client of the measurements. Calling `rd_kafka_produce_batch` and
`rd_kafka_consume_batch_queue` directly keeps Python out of the loop, so that the broker is what is measured.
"""

import ctypes
import time
from collections.abc import Mapping, Sequence
from ctypes import CFUNCTYPE, POINTER, c_char_p, c_int, c_int32, c_int64, c_size_t, c_ssize_t, c_void_p
from pathlib import Path

PRODUCER, CONSUMER = 0, 1
NO_ERROR = 0
PARTITION_UNASSIGNED = -1
OFFSET_BEGINNING = -2
DR_CALLBACK = CFUNCTYPE(None, c_void_p, c_void_p, c_void_p)


class Message(ctypes.Structure):
    """rd_kafka_message_t"""

    _fields_ = (
        ("err", c_int),
        ("rkt", c_void_p),
        ("partition", c_int32),
        ("payload", c_void_p),
        ("len", c_size_t),
        ("key", c_void_p),
        ("key_len", c_size_t),
        ("offset", c_int64),
        ("_private", c_void_p),
    )


class ClientError(Exception):
    """librdkafka said no; its words."""


def _load() -> ctypes.CDLL:
    import confluent_kafka

    package = Path(confluent_kafka.__file__).parent
    libraries = sorted((package.parent / "confluent_kafka.libs").glob("librdkafka-*"))
    assert libraries, f"no librdkafka beside {package}"
    return ctypes.CDLL(str(libraries[0]))


_lib = _load()


def _declare(name: str, result: object, *arguments: object) -> None:
    function = getattr(_lib, name)
    function.restype = result
    function.argtypes = arguments


_declare("rd_kafka_version_str", c_char_p)
_declare("rd_kafka_conf_new", c_void_p)
_declare("rd_kafka_conf_set", c_int, c_void_p, c_char_p, c_char_p, c_char_p, c_size_t)
_declare("rd_kafka_conf_set_dr_msg_cb", None, c_void_p, DR_CALLBACK)
_declare("rd_kafka_new", c_void_p, c_int, c_void_p, c_char_p, c_size_t)
_declare("rd_kafka_topic_new", c_void_p, c_void_p, c_char_p, c_void_p)
_declare("rd_kafka_topic_destroy", None, c_void_p)
_declare("rd_kafka_produce_batch", c_int, c_void_p, c_int32, c_int, POINTER(Message), c_int)
_declare("rd_kafka_poll", c_int, c_void_p, c_int)
_declare("rd_kafka_flush", c_int, c_void_p, c_int)
_declare("rd_kafka_outq_len", c_int, c_void_p)
_declare("rd_kafka_destroy", None, c_void_p)
_declare("rd_kafka_err2str", c_char_p, c_int)
_declare("rd_kafka_topic_partition_list_new", c_void_p, c_int)
_declare("rd_kafka_topic_partition_list_add", c_void_p, c_void_p, c_char_p, c_int32)
_declare("rd_kafka_topic_partition_list_set_offset", c_int, c_void_p, c_char_p, c_int32, c_int64)
_declare("rd_kafka_topic_partition_list_destroy", None, c_void_p)
_declare("rd_kafka_assign", c_int, c_void_p, c_void_p)
_declare("rd_kafka_queue_get_consumer", c_void_p, c_void_p)
_declare("rd_kafka_queue_destroy", None, c_void_p)
_declare("rd_kafka_consume_batch_queue", c_ssize_t, c_void_p, c_int, POINTER(POINTER(Message)), c_size_t)
_declare("rd_kafka_message_destroy", None, c_void_p)
_declare("rd_kafka_poll_set_consumer", c_int, c_void_p)
_declare("rd_kafka_metadata", c_int, c_void_p, c_int, c_void_p, POINTER(c_void_p), c_int)
_declare("rd_kafka_metadata_destroy", None, c_void_p)


def _new(kind: int, options: Mapping[str, object], dr_callback: object = None) -> int:
    error = ctypes.create_string_buffer(512)
    conf = _lib.rd_kafka_conf_new()
    for name, value in options.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if _lib.rd_kafka_conf_set(conf, name.encode(), text.encode(), error, len(error)) != 0:
            raise ClientError(f"{name}={text}: {error.value.decode()}")
    if dr_callback is not None:
        _lib.rd_kafka_conf_set_dr_msg_cb(conf, dr_callback)
    handle = _lib.rd_kafka_new(kind, conf, error, len(error))
    if not handle:
        raise ClientError(error.value.decode())
    return int(handle)


class Records:
    """`count` values of `size` bytes in one buffer: eight bytes of number, little endian, then a filler."""

    def __init__(self, count: int, size: int) -> None:
        import numpy as np

        self.count, self.size = count, size
        rows = np.empty((count, size), dtype=np.uint8)
        rows[:] = np.frombuffer(filler(size), dtype=np.uint8)
        rows[:, :8] = np.arange(count, dtype="<u8").view(np.uint8).reshape(count, 8)
        self._rows = rows  # keeps the memory alive
        self.messages = (Message * count)()
        view = np.frombuffer(self.messages, dtype=np.uint8).reshape(count, ctypes.sizeof(Message))
        address = rows.ctypes.data
        pointers = (np.arange(count, dtype=np.uint64) * size + address).view(np.uint8).reshape(count, 8)
        at = Message.payload.offset
        view[:, at : at + 8] = pointers
        lengths = np.full(count, size, dtype=np.uint64).view(np.uint8).reshape(count, 8)
        view[:, Message.len.offset : Message.len.offset + 8] = lengths


def filler(size: int) -> bytes:
    """What stands in a value around its number: not compressible to nothing, and the same every time."""
    pattern = bytes((position * 7 + 13) % 251 for position in range(1021))
    return (pattern * (size // len(pattern) + 1))[:size]


class Produced:
    """What a run of the producer came to."""

    def __init__(self, acknowledged: int, failed: int, seconds: float) -> None:
        self.acknowledged, self.failed, self.seconds = acknowledged, failed, seconds


def produce(bootstrap: str, topic: str, records: Records, options: Mapping[str, object]) -> Produced:
    """All of `records`, as fast as the client can; returns when the last one is acknowledged or has failed."""
    failed = 0

    def on_error(_handle: int, _message: int, _opaque: int) -> None:
        nonlocal failed
        failed += 1  # delivery.report.only.error: nothing is called for a record that arrived

    callback = DR_CALLBACK(on_error)
    handle = _new(
        PRODUCER,
        {
            "bootstrap.servers": bootstrap,
            "delivery.report.only.error": True,
            # The queue holds every record of a run: nothing is refused, nothing waits in Python.
            "queue.buffering.max.messages": 10_000_000,
            "queue.buffering.max.kbytes": 2_000_000,
            "linger.ms": 5,
            "socket.nagle.disable": True,
            "log_level": 3,
            **options,
        },
        callback,
    )
    rkt = _lib.rd_kafka_topic_new(handle, topic.encode(), None)
    warm_up(handle, rkt)
    size = ctypes.sizeof(Message)
    base = ctypes.addressof(records.messages)
    begun = time.perf_counter()
    position = 0
    while position < records.count:
        step = min(20_000, records.count - position)
        batch = ctypes.cast(base + position * size, POINTER(Message))
        taken = _lib.rd_kafka_produce_batch(rkt, PARTITION_UNASSIGNED, 0, batch, step)
        if taken < step:
            raise ClientError(
                f"{step - taken} of {step} records were not taken; the queue holds all, so why?"
            )
        position += step
        _lib.rd_kafka_poll(handle, 0)
    if _lib.rd_kafka_flush(handle, 120_000) != NO_ERROR:
        raise ClientError(f"{_lib.rd_kafka_outq_len(handle)} records were not acknowledged within 120 s")
    seconds = time.perf_counter() - begun
    _lib.rd_kafka_topic_destroy(rkt)
    _lib.rd_kafka_destroy(handle)
    return Produced(records.count - failed, failed, seconds)


def warm_up(handle: int, rkt: int) -> None:
    """Metadata and connections first: connecting is P9's subject, not P1's."""
    metadata = c_void_p()
    if _lib.rd_kafka_metadata(handle, 0, rkt, ctypes.byref(metadata), 10_000) == NO_ERROR:
        _lib.rd_kafka_metadata_destroy(metadata)


class Consumed:
    """`first_s`: until the first records were there, `first_count` of them."""

    def __init__(self, count: int, seconds: float, first_s: float, first_count: int) -> None:
        self.count, self.seconds, self.first_s, self.first_count = count, seconds, first_s, first_count

    @property
    def per_second(self) -> float:
        """From the first record on: what comes before it is the client's own start, half a second on every peer."""
        return (self.count - self.first_count) / (self.seconds - self.first_s)


def consume(
    bootstrap: str, topic: str, partitions: Sequence[int], expected: int, options: Mapping[str, object]
) -> Consumed:
    """Read `expected` records from the beginning, by assignment; the clock runs from assign to the last record."""
    handle = _consumer(bootstrap, options)
    queue = _lib.rd_kafka_queue_get_consumer(handle)
    window = 20_000
    pointers = (POINTER(Message) * window)()
    as_addresses = ctypes.cast(pointers, POINTER(c_void_p))
    destroy = _lib.rd_kafka_message_destroy
    begun = time.perf_counter()
    _assign(handle, topic, partitions)
    count, first_s, first_count = 0, 0.0, 0
    while count < expected:
        got = _lib.rd_kafka_consume_batch_queue(queue, 20_000, pointers, window)
        if got <= 0:
            raise ClientError(f"{topic}: {count} of {expected} records, then nothing for 20 s")
        if not count:
            first_s, first_count = time.perf_counter() - begun, got
        last = pointers[got - 1].contents
        if last.err != NO_ERROR:
            raise ClientError(_lib.rd_kafka_err2str(last.err).decode())
        for address in as_addresses[:got]:
            destroy(address)
        count += got
    seconds = time.perf_counter() - begun
    _close(handle, queue)
    return Consumed(count, seconds, first_s, first_count)


def read_back(
    bootstrap: str, topic: str, partitions: Sequence[int], expected: int, size: int, timeout_s: float = 20.0
) -> tuple[int, int, int, int]:
    """Every record of the topic compared: (distinct numbers, duplicates, damaged, lost of 0..expected-1)."""
    import numpy as np

    handle = _consumer(bootstrap, {"check.crcs": True})
    queue = _lib.rd_kafka_queue_get_consumer(handle)
    window = 20_000
    pointers = (POINTER(Message) * window)()
    destroy = _lib.rd_kafka_message_destroy
    good = filler(size)[8:]
    seen = np.zeros(expected, dtype=np.uint32)
    damaged = 0
    _assign(handle, topic, partitions)
    deadline = time.monotonic() + timeout_s
    total = 0
    while total < expected and time.monotonic() < deadline:
        got = _lib.rd_kafka_consume_batch_queue(queue, 1000, pointers, window)
        numbers = []
        for pointer in pointers[: max(got, 0)]:
            message = pointer.contents
            value = ctypes.string_at(message.payload, message.len) if message.err == NO_ERROR else b""
            number = int.from_bytes(value[:8], "little")
            if value[8:] != good or number >= expected:
                damaged += 1
            else:
                numbers.append(number)
            destroy(pointer)
        if numbers:
            np.add.at(seen, numbers, 1)
            total += len(numbers)
            deadline = time.monotonic() + timeout_s
    # What else is there, shortly: a duplicate may lie behind the last record that was awaited.
    got = _lib.rd_kafka_consume_batch_queue(queue, 300, pointers, window)
    for pointer in pointers[: max(got, 0)]:
        message = pointer.contents
        if message.err == NO_ERROR and message.len >= 8:
            number = int.from_bytes(ctypes.string_at(message.payload, 8), "little")
            if number < expected:
                seen[number] += 1
        destroy(pointer)
    _close(handle, queue)
    distinct = int((seen > 0).sum())
    return distinct, int(seen.sum()) - distinct, damaged, expected - distinct


def _consumer(bootstrap: str, options: Mapping[str, object]) -> int:
    handle = _new(
        CONSUMER,
        {
            "bootstrap.servers": bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            "fetch.message.max.bytes": 1_048_576,
            "queued.min.messages": 200_000,
            "fetch.wait.max.ms": 100,
            "log_level": 3,
            **options,
        },
    )
    _lib.rd_kafka_poll_set_consumer(handle)
    return handle


def _assign(handle: int, topic: str, partitions: Sequence[int]) -> None:
    assignment = _lib.rd_kafka_topic_partition_list_new(len(partitions))
    for partition in partitions:
        _lib.rd_kafka_topic_partition_list_add(assignment, topic.encode(), partition)
        _lib.rd_kafka_topic_partition_list_set_offset(assignment, topic.encode(), partition, OFFSET_BEGINNING)
    error = _lib.rd_kafka_assign(handle, assignment)
    _lib.rd_kafka_topic_partition_list_destroy(assignment)
    if error != NO_ERROR:
        raise ClientError(_lib.rd_kafka_err2str(error).decode())


def _close(handle: int, queue: int) -> None:
    _lib.rd_kafka_assign(handle, None)
    _lib.rd_kafka_queue_destroy(queue)
    _lib.rd_kafka_destroy(handle)


def read_partition(
    bootstrap: str, topic: str, partition: int, count: int, timeout_s: float = 20.0
) -> dict[int, bytes]:
    """Offset -> value of a partition from its beginning, at least `count` of them or as many as come."""
    handle = _consumer(bootstrap, {"check.crcs": True})
    queue = _lib.rd_kafka_queue_get_consumer(handle)
    window = 20_000
    pointers = (POINTER(Message) * window)()
    found: dict[int, bytes] = {}
    _assign(handle, topic, [partition])
    deadline = time.monotonic() + timeout_s
    while len(found) < count and time.monotonic() < deadline:
        got = _lib.rd_kafka_consume_batch_queue(queue, 500, pointers, window)
        for pointer in pointers[: max(got, 0)]:
            message = pointer.contents
            if message.err == NO_ERROR:
                found[message.offset] = ctypes.string_at(message.payload, message.len)
            _lib.rd_kafka_message_destroy(pointer)
        if got > 0:
            deadline = time.monotonic() + timeout_s
    _close(handle, queue)
    return found


def version() -> str:
    return str(_lib.rd_kafka_version_str().decode())
