"""Envelope (key 58), version 0: a request another broker forwards for its client. Understood, never needed.

The inner request is handled as if its client had asked here, with the client's name (KIP-590), and its answer,
header included, travels back inside ours. Only the controller answers: others NOT_CONTROLLER. A request that
may not be forwarded, or an envelope in an envelope, is INVALID_REQUEST; a name that cannot be read is
PRINCIPAL_DESERIALIZATION_FAILURE.

v0 the only one (KIP-590).
"""

from struct import Struct
from typing import TYPE_CHECKING

from odradek.broker.answers import Answer, CloseConnection, NoReply, Park, Reply
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.headers import decode_request_header, response_header
from odradek.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from odradek.protocol.primitives import read_compact_string

if TYPE_CHECKING:
    from odradek.broker.core import Broker
    from odradek.broker.request import Request

# What tests/golden/api_versions.json calls forwardable, as far as it is served here.
FORWARDABLE = frozenset(
    (
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_ACLS,
        ApiKey.DELETE_ACLS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.ELECT_LEADERS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.UPDATE_FEATURES,
        ApiKey.ALLOCATE_PRODUCER_IDS,
    )
)
_VERSION = Struct(">h")


def handle(broker: "Broker", request: "Request", now_ms: int) -> Answer:
    asked = EnvelopeRequest.decode(request.api_version, request.body)
    if not broker.is_controller:
        return _error(ErrorCode.NOT_CONTROLLER)
    try:
        principal = _principal(asked.request_principal)
    except (ProtocolError, IndexError):
        return _error(ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE)
    data = bytes(asked.request_data)
    try:
        header = decode_request_header(data)
    except ProtocolError:
        return _error(ErrorCode.INVALID_REQUEST)
    if header.api_key not in FORWARDABLE:
        return _error(ErrorCode.INVALID_REQUEST)
    prefix = response_header(header.api_key, header.api_version, header.correlation_id)
    answer = broker.handle_forwarded(
        request, header, memoryview(data)[header.body_offset :], principal, now_ms
    )
    if not isinstance(answer, Park):
        return _wrap(prefix, answer)
    park = Park()
    park.follow(answer)
    answer.on_complete(lambda result: park.answer(lambda: _wrap(prefix, result)))
    return park


def _wrap(prefix: bytes, answer: Reply | NoReply | CloseConnection) -> Reply:
    if not isinstance(answer, Reply):
        return _error(ErrorCode.UNSUPPORTED_VERSION)
    body = b"".join(buffer if isinstance(buffer, bytes) else buffer.read() for buffer in answer.buffers)  # type: ignore[union-attr]
    return Reply([EnvelopeResponse(response_data=prefix + body).encode(0)])


def _error(error: ErrorCode) -> Reply:
    return Reply([EnvelopeResponse(error_code=error).encode(0)])


def _principal(data: bytes | None) -> str:
    """`User:alice` from DefaultPrincipalData: version i16, type, name, whether by token."""
    if data is None:
        return "User:ANONYMOUS"
    view = memoryview(bytes(data))
    if len(view) < _VERSION.size or _VERSION.unpack_from(view)[0] != 0:
        raise ProtocolError(ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE)
    kind, position = read_compact_string(view, _VERSION.size, "type")
    name, _ = read_compact_string(view, position, "name")
    return f"{kind}:{name}"
