"""Whether a topic is compacted: then records that were there may be gone, and nobody has lost them."""

from odradek.client.sync import ANY, SyncClient
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError
from odradek.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

_TOPIC = 2  # the kind of a resource, on the wire
_POLICY = "cleanup.policy"


def is_compacted(client: SyncClient, topic: str) -> bool:
    """By its cleanup.policy as it is now. False where the cluster does not tell."""
    wanted = DescribeConfigsResource(resource_type=_TOPIC, resource_name=topic, configuration_keys=[_POLICY])
    request = DescribeConfigsRequest(resources=[wanted])
    try:
        (result,) = client.retrying(lambda: client.call(ANY, request)).results
    except ProtocolError:  # a broker that does not know the question
        return False
    if result.error_code != ErrorCode.NONE:  # it is not allowed, say
        return False
    return any("compact" in (entry.value or "") for entry in result.configs if entry.name == _POLICY)
