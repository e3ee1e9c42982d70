"""SaslHandshake (key 17), versions 0-1.

No mechanism is enabled on any listener: UNSUPPORTED_SASL_MECHANISM, and an empty list of those that are.
"""

from typing import TYPE_CHECKING

from odradek.broker.answers import Answer, Reply
from odradek.model.error_codes import ErrorCode
from odradek.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

if TYPE_CHECKING:
    from odradek.broker.core import Broker, Request


def handle(broker: "Broker", request: "Request", now_ms: int) -> Answer:
    SaslHandshakeRequest.decode(request.api_version, request.body)
    response = SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM)
    return Reply([response.encode(request.api_version)])
