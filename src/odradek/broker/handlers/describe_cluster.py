"""DescribeCluster (key 60), versions 0-1.

The brokers as this one was told them, on the asker's listener; the controller; the cluster's id.

v0 the first (KIP-700).
v1 endpoint type (KIP-919): brokers (1) is all there is; controllers (2) is MISMATCHED_ENDPOINT_TYPE, as they have no
   endpoints of their own here, anything else UNSUPPORTED_ENDPOINT_TYPE.
"""

from typing import TYPE_CHECKING

from odradek.broker.answers import Answer, Reply
from odradek.broker.handlers.metadata import CLUSTER_OPERATIONS, NOT_ASKED
from odradek.model.error_codes import ErrorCode
from odradek.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

if TYPE_CHECKING:
    from odradek.broker.core import Broker
    from odradek.broker.request import Request

BROKERS = 1
CONTROLLERS = 2


def handle(broker: "Broker", request: "Request", now_ms: int) -> Answer:
    version = request.api_version
    asked = DescribeClusterRequest.decode(version, request.body, budget=request.budget)
    if asked.endpoint_type != BROKERS:
        is_known = asked.endpoint_type == CONTROLLERS
        error = ErrorCode.MISMATCHED_ENDPOINT_TYPE if is_known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        message = (
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"
        )
        if not is_known:
            message = f"Unsupported endpoint type {asked.endpoint_type}"
        refused = DescribeClusterResponse(
            error_code=error, error_message=message, endpoint_type=asked.endpoint_type, cluster_id=""
        )
        return Reply([refused.encode(version)])
    metadata = broker.metadata
    response = DescribeClusterResponse(
        cluster_id=broker.cluster_id,
        controller_id=-1 if metadata.controller_id is None else metadata.controller_id,
        brokers=[
            DescribeClusterBroker(broker_id=node, host=host, port=port, rack=rack)
            for node, host, port, rack in broker.node_endpoints(metadata.brokers, request.connection.listener)
        ],
        cluster_authorized_operations=CLUSTER_OPERATIONS
        if asked.include_cluster_authorized_operations
        else NOT_ASKED,
    )
    return Reply([response.encode(version)])
