"""A real broker whose clients begin large requests and do not go on: its memory is bounded, and who sends slowly is served."""

import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from odradek.protocol.headers import encode_request
from odradek.protocol.messages import metadata
from tests.server.processes import OneBroker, receive
from tests.server.test_unread_answers import is_reset
from tests.support import eventually

pytestmark = pytest.mark.process

LENGTH, SENT = 100_000_000, 60_000_000
UNFINISHED = 10
# The bound is 256 MiB; what is beside it is one read, and what the kernel takes back.
MOST_BYTES = UNFINISHED * SENT / 2


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[OneBroker]:
    one = OneBroker(tmp_path / "broker")
    one.start()
    yield one
    one.stop()


def test_requests_that_do_not_come_whole_take_bounded_memory_and_who_sends_slowly_is_served(
    broker: OneBroker,
) -> None:
    before = most = broker.resident_bytes()
    topics = [metadata.MetadataRequestTopic(name="x" * 30_000) for _ in range(60)]
    asked = metadata.MetadataRequest(topics=topics, allow_auto_topic_creation=False)
    request = encode_request(asked.KEY, 4, 1, "slow", asked.encode(4))
    slow, sent = broker.connect(), 0
    unfinished: list[socket.socket] = []
    part = bytes(1_000_000)
    for number in range(UNFINISHED):
        connection = broker.connect()
        connection.sendall(struct.pack(">i", LENGTH))
        unfinished.append(connection)
        with suppress(ConnectionResetError):  # it may be the one that would take longest
            for _ in range(SENT // len(part)):
                connection.sendall(part)
        least = before + min(3, number + 1) * SENT / 2
        eventually(lambda least=least: broker.resident_bytes() > least, 60, "it has come")  # type: ignore[misc]
        most = max(most, broker.resident_bytes())
        slow.sendall(request[sent : sent + 10_000])
        sent += 10_000

    eventually(lambda: sum(map(is_reset, unfinished)) >= UNFINISHED - 4, 60, "those before are closed")
    most = max(most, broker.resident_bytes())
    assert most - before < MOST_BYTES
    assert broker.is_serving()
    slow.sendall(request[sent:])
    assert receive(slow)
    for connection in (slow, *unfinished):
        connection.close()
