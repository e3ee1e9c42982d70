"""Strangers at the door of a real broker: each gets an answer or a closed connection, and the others notice
nothing.
"""

import contextlib
import random
import resource
import socket
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.protocol.api_keys import APIS, ApiKey
from odradek.protocol.headers import decode_response_header, encode_request
from odradek.protocol.messages import alter_client_quotas as acq
from odradek.protocol.messages import create_partitions as cp
from odradek.protocol.messages import create_topics as ct
from odradek.protocol.messages import describe_configs as dc
from odradek.protocol.messages import incremental_alter_configs as iac
from odradek.protocol.messages import request_class, response_class
from odradek.protocol.messages.api_versions import ApiVersionsResponse
from odradek.protocol.schema import Request
from tests.server.processes import OneBroker, is_closed_by_peer, receive
from tests.support import eventually

pytestmark = pytest.mark.process

METADATA = 3
# A moment of the broker's own, on a machine that does other things too; far less than connections.max.idle.ms, so
# what is closed here is closed for what it said.
ANSWER_WITHIN_S = 30.0
LOG_PERIOD_S = 10.0  # of `server/log_limits`: so often something is said of one address


_DESCRIPTORS = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
# For one that opens hundreds of connections to one broker.
in_crowds = pytest.mark.skipif(
    _DESCRIPTORS != resource.RLIM_INFINITY and _DESCRIPTORS < 1024,
    reason=f"{_DESCRIPTORS} files may be open here, and hundreds of connections need more: raise the limit to 1,024 (ulimit -n)",
)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OneBroker]:
    one = OneBroker(tmp_path_factory.mktemp("hostile"))
    one.start()
    one.create_topic("orders")
    yield one
    one.stop()


@pytest.fixture(autouse=True)
def still_well(broker: OneBroker) -> Iterator[None]:
    """Whatever a test did: afterwards the broker serves, and has not written its diary about it."""
    before = broker.process.log_file.stat().st_size
    yield
    eventually(broker.is_serving, 60, "it serves")
    written = broker.process.log_file.read_bytes()[before:]
    assert len(written) < 64 * 1024, f"{len(written)} bytes of log, beginning with {written[:500]!r}"
    assert b"Traceback" not in written, written.decode()


def periods_since(began: float) -> int:
    """Of the log, those that have only begun as well: on a slow machine twenty connections may take more than one."""
    return 1 + int((time.monotonic() - began) / LOG_PERIOD_S)


def answered_or_closed(connection: socket.socket) -> bytes:
    connection.settimeout(ANSWER_WITHIN_S)
    try:
        return receive(connection)
    except ConnectionResetError:
        return b""


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">i", -1),
        struct.pack(">i", -(2**31)),
        struct.pack(">i", 0),
        struct.pack(">i", 7) + bytes(7),
        struct.pack(">i", 2**31 - 1),
        struct.pack(">i", 104_857_601),
        b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64),  # a TLS handshake
        struct.pack(">ihhih", 10, METADATA, 9, 1, 30_000),
        struct.pack(">ihhih", 10, METADATA, 9, 1, -2),
    ],
    ids=["-1", "-2^31", "0", "7", "2^31-1", "max+1", "http", "tls", "long client id", "client id of -2"],
)
def test_a_frame_of_nonsense_closes_the_connection(broker: OneBroker, data: bytes) -> None:
    with broker.connect() as connection:
        connection.sendall(data)
        assert answered_or_closed(connection) == b""


def test_random_bytes_never_hang_and_never_harm(broker: OneBroker) -> None:
    draw = random.Random(20240601)
    for _ in range(200):
        with broker.connect() as connection:
            body = draw.randbytes(draw.randrange(8, 400))
            connection.sendall(struct.pack(">i", len(body)) + body)
            answered_or_closed(connection)


@pytest.mark.parametrize("key", sorted(APIS), ids=lambda key: ApiKey(key).name)
def test_random_and_truncated_bodies_of_every_key_are_answered_or_closed(broker: OneBroker, key: int) -> None:
    draw = random.Random(key)
    api = APIS[key]
    for version in sorted({api.first_version, api.last_version}):
        whole = request_class(key)().encode(version)
        bodies = [whole[: draw.randrange(len(whole))] if whole else b"\x01", whole + b"\x00"]
        bodies += [draw.randbytes(draw.randrange(1, 200)) for _ in range(5)]
        # Counts and lengths that are all ones, or all set but the sign: two thousand million of something.
        bodies += [b"\xff" * 40, b"\x7f" + b"\xff" * 39, b"\x00" * 200]
        for body in bodies:
            with broker.connect() as connection:
                connection.sendall(encode_request(key, version, 77, "fuzz", body))
                connection.shutdown(socket.SHUT_WR)
                answer = answered_or_closed(connection)
                assert answer == b"" or struct.unpack_from(">i", answer)[0] == 77


def test_an_unknown_version_of_api_versions_is_answered_in_version_0(broker: OneBroker) -> None:
    with broker.connect() as connection:
        connection.sendall(encode_request(18, 99, 5, "future", b"\x01\x01\x00"))
        answer = receive(connection)

    decoded = ApiVersionsResponse.decode(0, answer, 4)
    assert struct.unpack_from(">i", answer)[0] == 5
    assert decoded.error_code == 35
    assert [(api.api_key, api.min_version, api.max_version) for api in decoded.api_keys] == [(18, 0, 4)]


def test_a_peer_that_does_not_read_is_not_read_from(broker: OneBroker) -> None:
    """Ten thousand pipelined requests whose answers are left unread: memory stays, and nothing is lost."""
    count = 10_000
    version = 12
    body = request_class(METADATA)(topics=None).encode(version)
    requests = b"".join(encode_request(METADATA, version, n, "greedy", body) for n in range(count))
    before = broker.resident_bytes()
    with broker.connect() as connection:
        sender = threading.Thread(target=connection.sendall, args=(requests,))
        sender.start()
        with broker.connect() as polite:
            polite.sendall(encode_request(METADATA, version, 1, "polite", body))
            assert struct.unpack_from(">i", answered_or_closed(polite))[0] == 1
        assert broker.resident_bytes() - before < 64 * 1024 * 1024
        found = [struct.unpack_from(">i", receive(connection))[0] for _ in range(count)]
        sender.join()

    assert found == list(range(count))


def test_claims_of_large_frames_cost_no_memory(broker: OneBroker) -> None:
    before = broker.resident_bytes()
    claims = []
    try:
        for _ in range(50):
            connection = broker.connect()
            claims.append(connection)
            connection.sendall(struct.pack(">ihhih", 100 * 1024 * 1024, METADATA, 9, 1, -1) + bytes(1000))
        assert broker.is_serving()
        # Five gigabytes are claimed; a page is touched only when bytes come.
        assert broker.resident_bytes() - before < 8 * 1024 * 1024
    finally:
        for connection in claims:
            connection.close()


@pytest.fixture
def impatient(tmp_path: Path) -> Iterator[OneBroker]:
    """With a connections.max.idle.ms that a test can wait for."""
    one = OneBroker(tmp_path, connections_max_idle_ms="2000")
    one.start()
    yield one
    one.stop()


@in_crowds
def test_one_byte_now_and_then_holds_up_nobody_and_is_cut_off(impatient: OneBroker) -> None:
    """Slow loris: two hundred connections that never finish their first frame."""
    broker = impatient
    frame = encode_request(METADATA, 12, 1, "slow", bytes(100))
    slow = [broker.connect() for _ in range(200)]
    try:
        for connection in slow:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.sendall(frame[:1])
        # Less than connections.max.idle.ms, by the clock of this side: a slow machine sends fewer bytes, not longer.
        end = time.monotonic() + 1.2
        for position in range(1, len(frame) - 1):
            if time.monotonic() > end:
                break
            for connection in slow[:20]:
                with contextlib.suppress(
                    BrokenPipeError, ConnectionResetError
                ):  # cut off already: seen below
                    connection.sendall(frame[position : position + 1])
            asked = time.monotonic()
            assert broker.is_serving()
            assert time.monotonic() - asked < ANSWER_WITHIN_S
        # connections.max.idle.ms counts whole requests.
        for connection in slow:
            connection.settimeout(60)
            assert is_closed_by_peer(connection)
    finally:
        for connection in slow:
            connection.close()


@in_crowds
def test_thousands_of_connections_come_and_go(broker: OneBroker) -> None:
    before = broker.resident_bytes()
    # In crowds that fit into the kernel's queue of those who wait (socket.listen.backlog.size), for whom it turns away
    # knocks again after a second only; the last crowd does not fit.
    for size in [*[40] * 70, 200]:
        crowd = [broker.connect() for _ in range(size)]
        crowd[-1].sendall(encode_request(18, 0, 1, "the last", b""))
        assert receive(crowd[-1]), "the queue is empty"
        for connection in crowd:
            connection.close()
    eventually(broker.is_serving, 30, "it serves")
    assert broker.resident_bytes() - before < 16 * 1024 * 1024


def test_answers_keep_the_order_of_requests_when_some_wait(broker: OneBroker) -> None:
    """A long poll in front, questions behind it: correlation ids come back as they were sent."""
    fetch, version = request_class(1), 4
    long_poll = fetch(replica_id=-1, max_wait_ms=700, min_bytes=1, max_bytes=1000, topics=[])
    asked = [encode_request(1, version, 0, "me", long_poll.encode(version))]
    asked += [encode_request(18, 0, n, "me", b"") for n in range(1, 50)]
    with broker.connect() as connection:
        connection.sendall(b"".join(asked))
        found = [struct.unpack_from(">i", receive(connection))[0] for _ in asked]

    assert found == list(range(50))


def test_the_log_says_once_who_it_was(broker: OneBroker) -> None:
    path: Path = broker.process.log_file
    before = path.stat().st_size
    began = time.monotonic()
    # Another source address: of 127.0.0.1 something was said just now.
    for _ in range(20):
        connection = socket.create_connection(
            (broker.process.host, broker.process.port), timeout=30, source_address=("127.0.0.9", 0)
        )
        with connection:
            connection.sendall(struct.pack(">i", -1))
            assert answered_or_closed(connection) == b""

    lines = [line for line in path.read_text()[before:].splitlines() if "127.0.0.9" in line]
    assert 1 <= len(lines) <= periods_since(began)
    assert "closed: a frame of -1 bytes" in lines[0]


def test_a_client_id_fills_no_log_and_forges_no_line(broker: OneBroker) -> None:
    """A key that nobody serves, on connection after connection, with a client id of 32 KB."""
    path: Path = broker.process.log_file
    before, began = path.stat().st_size, time.monotonic()
    client_id = b"\x1b]0;owned\x07\n[2026-01-01 00:00:00,000] ERROR the disk is on fire\n" + b"A" * 32_000
    frame = struct.pack(">hhih", 51, 0, 1, len(client_id)) + client_id + b"\0\1\0"
    for _ in range(50):
        connection = socket.create_connection(
            (broker.process.host, broker.process.port), timeout=30, source_address=("127.0.0.10", 0)
        )
        with connection:
            connection.sendall(struct.pack(">i", len(frame)) + frame)
            answered_or_closed(connection)

    written = path.read_bytes()[before:]
    lines = [line for line in written.decode().splitlines() if "127.0.0.10" in line]
    assert any("version 0 of 127.0.0.10:" in line and "is not served here" in line for line in lines)
    periods = periods_since(began)
    assert len(lines) <= 2 * periods, "one that says what was asked, one that it was closed"
    assert len(written) < 2_000 * periods
    assert not any(line.startswith("[2026-01-01") for line in written.decode().splitlines())
    assert not set(written) & ({*range(32)} - {10})


def long_names() -> list[tuple[str, Request]]:
    name = "a" * 32_767
    return [
        (
            "create",
            ct.CreateTopicsRequest(
                topics=[ct.CreatableTopic(name=name, num_partitions=1, replication_factor=1)]
            ),
        ),
        (
            "create beside another",
            ct.CreateTopicsRequest(
                topics=[
                    ct.CreatableTopic(name=n, num_partitions=1, replication_factor=1) for n in ("good", name)
                ],
                timeout_ms=5_000,
            ),
        ),
        ("grow", cp.CreatePartitionsRequest(topics=[cp.CreatePartitionsTopic(name=name, count=3)])),
        (
            "quota",
            acq.AlterClientQuotasRequest(
                entries=[
                    acq.AlterClientQuotasRequestEntryData(
                        entity=[acq.EntityData(entity_type=kind, entity_name="x")],
                        ops=[acq.OpData(key="producer_byte_rate", value=1e9)],
                    )
                    for kind in ("client-id", name)
                ]
            ),
        ),
        (
            "configuration",
            iac.IncrementalAlterConfigsRequest(
                resources=[
                    iac.AlterConfigsResource(
                        resource_type=2,
                        resource_name=resource,
                        configs=[iac.AlterableConfig(name="retention.ms", value=value)],
                    )
                    for resource, value in (("orders", name), (name, "1"))
                ]
            ),
        ),
        (
            "description",
            dc.DescribeConfigsRequest(
                resources=[dc.DescribeConfigsResource(resource_type=2, resource_name=name)]
            ),
        ),
    ]


@pytest.mark.parametrize(
    ("what", "request_"), long_names(), ids=lambda part: part if isinstance(part, str) else ""
)
def test_a_name_as_long_as_can_be_is_answered(broker: OneBroker, what: str, request_: Request) -> None:
    version = request_.VERSIONS.last
    with broker.connect() as connection:
        connection.sendall(encode_request(request_.KEY, version, 1, "test", request_.encode(version)))
        answer = receive(connection)

    _, position = decode_response_header(request_.KEY, version, answer)
    shown = repr(response_class(request_.KEY).decode(version, answer, position))
    assert "aaa ... aaa" in shown or "error_message=None" in shown
    assert broker.process.is_running
