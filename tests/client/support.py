"""A broker that follows a script: what real ones do too rarely, or only when they are broken."""

import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress

from odradek.protocol import headers
from odradek.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from odradek.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from odradek.protocol.schema import Message, Request

# Takes the request and its version; an answer, raw bytes of a whole frame, or None to hang up.
Answering = Callable[[Request, int], Message | bytes | None]
TOPIC_ID = bytes(range(16))
# At the end of raw bytes: close the connection behind them.
HANG_UP = b"<hang up>"


class ScriptedBroker:
    """Listens on loopback and answers by request class; one thread per connection, ended with the broker."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self._answers: dict[int, tuple[type[Request], Answering]] = {}
        self.answer(ApiVersionsRequest, lambda request, version: self._versions())
        self.answer(MetadataRequest, lambda request, version: self.metadata())
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.partitions: dict[str, list[int]] = {}
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def answer(self, request_type: type[Request], answering: Answering) -> None:
        self._answers[request_type.KEY] = (request_type, answering)

    def metadata(self) -> MetadataResponse:
        topics = [
            MetadataResponseTopic(
                name=name,
                topic_id=TOPIC_ID,
                partitions=[
                    MetadataResponsePartition(
                        partition_index=index,
                        leader_id=leader,
                        leader_epoch=4,
                        replica_nodes=[1],
                        isr_nodes=[1],
                    )
                    for index, leader in enumerate(leaders)
                ],
            )
            for name, leaders in self.partitions.items()
        ]
        broker = MetadataResponseBroker(node_id=1, host="127.0.0.1", port=self.port)
        return MetadataResponse(brokers=[broker], cluster_id="c", controller_id=1, topics=topics)

    def close(self) -> None:
        self._listener.close()

    def __enter__(self) -> "ScriptedBroker":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _versions(self) -> ApiVersionsResponse:
        served = [
            ApiVersion(api_key=key, min_version=kind.VERSIONS.first, max_version=kind.VERSIONS.last)
            for key, (kind, _) in self._answers.items()
        ]
        return ApiVersionsResponse(api_keys=served)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connected, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(connected,), daemon=True).start()

    def _serve(self, connected: socket.socket) -> None:
        with connected, suppress(OSError):
            stream = connected.makefile("rb")
            while size := stream.read(4):
                frame = stream.read(struct.unpack(">i", size)[0])
                header = headers.decode_request_header(frame)
                kind, answering = self._answers[header.api_key]
                request = kind.decode(header.api_version, frame, header.body_offset)
                self.requests.append(request)
                answer = answering(request, header.api_version)
                if answer is None:
                    return
                if isinstance(answer, Message):
                    head = headers.response_header(header.api_key, header.api_version, header.correlation_id)
                    body = head + answer.encode(header.api_version)
                    answer = struct.pack(">i", len(body)) + body
                connected.sendall(answer.removesuffix(HANG_UP))
                if answer.endswith(HANG_UP):
                    return
