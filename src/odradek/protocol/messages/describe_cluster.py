"""DescribeCluster (key 60), versions 0-1.

Cluster id, controller and brokers (KIP-700).
v1 endpoint type: brokers 1, controllers 2 (KIP-919).
"""

from odradek.protocol.fields import Struct, array, boolean, int8, int16, int32, string
from odradek.protocol.schema import Request, Response


class DescribeClusterRequest(Request, key=60, versions="0-1", flexible="0+"):
    include_cluster_authorized_operations: bool = boolean("0+")
    endpoint_type: int = int8("1+", default=1)


class DescribeClusterBroker(Struct):
    broker_id: int = int32("0+")
    host: str = string("0+")
    port: int = int32("0+")
    rack: str | None = string("0+", nullable="0+", default=None)


class DescribeClusterResponse(Response, key=60, versions="0-1", flexible="0+"):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
    endpoint_type: int = int8("1+", default=1)
    cluster_id: str = string("0+")
    controller_id: int = int32("0+", default=-1)
    brokers: list[DescribeClusterBroker] = array(DescribeClusterBroker, "0+")
    cluster_authorized_operations: int = int32("0+", default=-2147483648)
