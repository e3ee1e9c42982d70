"""One blocking connection: what the other side did while nobody looked."""

import select
import socket
import struct
import time

import pytest

from odradek import __version__
from odradek.client import sync_connection
from odradek.client.sync import ANY, SyncClient
from odradek.client.sync_connection import Address, FrameBuffer, Starting, SyncConnection, Unreachable
from odradek.protocol import headers
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.protocol.schema import Message, Request
from tests.client.support import HANG_UP, ScriptedBroker


def test_a_broker_is_told_which_version_of_us_asks() -> None:
    """KIP-511."""
    with ScriptedBroker() as broker, SyncClient(broker.address, request_timeout_s=60) as client:
        client.cluster([])

        (asked,) = [request for request in broker.requests if isinstance(request, ApiVersionsRequest)]
        assert (asked.client_software_name, asked.client_software_version) == ("odradek", __version__)


def _hangs_up_behind(broker: ScriptedBroker, request: Request, version: int, correlation_id: int) -> bytes:
    head = headers.response_header(request.KEY, version, correlation_id)
    body = head + broker.metadata().encode(version)
    return len(body).to_bytes(4, "big") + body + HANG_UP


def test_a_connection_that_was_closed_while_it_was_idle_is_not_used_again() -> None:
    """connections.max.idle.ms: what is asked once, like the creation of a topic, must not be lost on it."""
    with ScriptedBroker() as broker, SyncClient(broker.address, request_timeout_s=60) as client:
        answers = [lambda request, version: _hangs_up_behind(broker, request, version, 1)]

        def answer(request: Request, version: int) -> Message | bytes:
            return answers.pop()(request, version) if answers else broker.metadata()

        broker.answer(MetadataRequest, answer)
        client.cluster([])
        (first,) = client._connections.values()
        assert select.select([first._socket], [], [], 60)[0], "the broker has hung up"

        client.call(ANY, MetadataRequest(topics=[], allow_auto_topic_creation=False))

        asked = [type(request) for request in broker.requests]
        assert asked == [ApiVersionsRequest, MetadataRequest] * 2
        assert not first.is_open


def test_a_connection_that_is_reset_before_anything_is_asked_is_one_of_a_broker_that_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its end has no address any more, which is asked for (ENOTCONN)."""
    connect = sync_connection._connect
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def connected(address: Address, deadline: float) -> socket.socket:
            made = connect(address, deadline)
            there, _ = listener.accept()
            there.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            there.close()
            assert select.select([made], [], [], 60)[0], "it was reset"
            return made

        monkeypatch.setattr(sync_connection, "_connect", connected)
        with pytest.raises(Starting, match="closes connections before it answers"):
            SyncConnection(
                Address("127.0.0.1", listener.getsockname()[1]), client_id="c", deadline=time.monotonic() + 60
            )


@pytest.mark.parametrize("beyond", [65_536, -65_536])
def test_a_port_that_is_none_is_not_taken_for_another(beyond: int) -> None:
    """Brokers name the ports of others; what resolves addresses takes them modulo 65,536."""
    with socket.create_server(("127.0.0.1", 0)) as somebody_else:
        port = somebody_else.getsockname()[1] + beyond
        with pytest.raises(Unreachable, match=rf"at 127\.0\.0\.1:{port}: {port} is not between 0 and 65535"):
            SyncConnection(Address("127.0.0.1", port), client_id="c", deadline=time.monotonic() + 60)


def test_an_answer_that_comes_before_the_one_that_is_asked_for_is_not_overwritten_by_it() -> None:
    with ScriptedBroker() as broker:
        names = ["first", "second"]

        def answer(request: Request, version: int) -> Message:
            found = broker.metadata()
            found.cluster_id = names.pop(0)
            return found

        broker.answer(MetadataRequest, answer)
        deadline = time.monotonic() + 60
        connection = SyncConnection(Address("127.0.0.1", broker.port), client_id="c", deadline=deadline)
        version = connection.version_for(MetadataRequest)
        first, second = (connection.send(MetadataRequest(topics=[]), version, deadline) for _ in range(2))
        into = FrameBuffer()
        assert connection.receive(second, deadline, into).cluster_id == "second"
        assert connection.receive(first, deadline, into).cluster_id == "first"
        connection.close()
