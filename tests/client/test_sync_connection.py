"""One blocking connection: what the other side did while nobody looked."""

import select

from odradek.client.sync import ANY, SyncClient
from odradek.protocol import headers
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.protocol.schema import Message, Request
from tests.client.support import HANG_UP, ScriptedBroker


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
