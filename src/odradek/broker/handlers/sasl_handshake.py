"""SaslHandshake (key 17), versions 0-1.

No listener speaks SASL, so nobody may begin to: ILLEGAL_SASL_STATE, and no mechanisms.

v0 raw tokens would follow on the connection.
v1 tokens would travel in SaslAuthenticate (KIP-152).
"""

from typing import TYPE_CHECKING

from odradek.broker.answers import Answer, Reply
from odradek.model.error_codes import ErrorCode
from odradek.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

if TYPE_CHECKING:
    from odradek.broker.core import Broker
    from odradek.broker.request import Request


def handle(broker: "Broker", request: "Request", now_ms: int) -> Answer:
    SaslHandshakeRequest.decode(request.api_version, request.body, budget=request.budget)
    response = SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
    return Reply([response.encode(request.api_version)])
