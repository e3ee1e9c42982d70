"""CreateAcls (key 30), versions 1-3.

There is no authorizer that would obey an entry: SECURITY_DISABLED for each, in the words of Apache's broker without one.

v1 pattern type (KIP-290).
v2 flexible.
v3 resource type user (KIP-373).
"""

from typing import TYPE_CHECKING

from odradek.broker.answers import Answer, Reply
from odradek.model.error_codes import ErrorCode
from odradek.protocol.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse

if TYPE_CHECKING:
    from odradek.broker.core import Broker
    from odradek.broker.request import Request


def handle(broker: "Broker", request: "Request", now_ms: int) -> Answer:
    asked = CreateAclsRequest.decode(request.api_version, request.body, budget=request.budget)
    refused = AclCreationResult(
        error_code=ErrorCode.SECURITY_DISABLED, error_message="No Authorizer is configured."
    )
    response = CreateAclsResponse(results=[refused] * len(asked.creations))
    return Reply([response.encode(request.api_version)])
