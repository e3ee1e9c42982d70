"""SaslAuthenticate (key 36), versions 0-2.

Without a handshake that chose a mechanism, and there is none to choose, it comes at the wrong time:
ILLEGAL_SASL_STATE.

v0 the first (KIP-152).
v1 session lifetime (KIP-368).
v2 flexible.
"""

from typing import TYPE_CHECKING

from odradek.broker.answers import Answer, Reply
from odradek.model.error_codes import ErrorCode
from odradek.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse

if TYPE_CHECKING:
    from odradek.broker.core import Broker
    from odradek.broker.request import Request


def handle(broker: "Broker", request: "Request", now_ms: int) -> Answer:
    SaslAuthenticateRequest.decode(request.api_version, request.body, budget=request.budget)
    response = SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE,
        error_message="SaslAuthenticate without a SaslHandshake; no mechanism is enabled on this listener.",
    )
    return Reply([response.encode(request.api_version)])
