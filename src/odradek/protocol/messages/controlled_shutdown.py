"""ControlledShutdown (key 7), versions 0-3.

A broker asks the controller to move its leaderships away before it stops.
v0 has a request header without client id. v2 broker epoch (KIP-380). v3 flexible. The answer lists the
partitions the broker still leads.
"""

from odradek.protocol.fields import Struct, array, int16, int32, int64, string
from odradek.protocol.schema import Request, Response


class ControlledShutdownRequest(Request, key=7, versions="0-3", flexible="3+"):
    broker_id: int = int32("0+")
    broker_epoch: int = int64("2+", default=-1)


class RemainingPartition(Struct):
    topic_name: str = string("0+")
    partition_index: int = int32("0+")


class ControlledShutdownResponse(Response, key=7, versions="0-3", flexible="3+"):
    error_code: int = int16("0+")
    remaining_partitions: list[RemainingPartition] = array(RemainingPartition, "0+")
