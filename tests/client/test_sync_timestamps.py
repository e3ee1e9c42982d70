"""How old what stands at an offset is."""

from odradek.client.sync import SyncClient
from odradek.client.sync_timestamps import timestamps_at
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from odradek.protocol.messages.metadata import MetadataRequest
from tests.client.support import ScriptedBroker

ORDERS = TopicPartition("orders", 0)


def test_whoever_does_not_lead_any_more_is_not_asked_for_ever() -> None:
    """A query asks at each of its batches, with one client."""
    with ScriptedBroker() as broker, SyncClient(broker.address, request_timeout_s=60) as client:
        broker.partitions = {"orders": [1]}
        moved = PartitionData(partition_index=0, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
        row = FetchableTopicResponse(topic="orders", partitions=[moved])
        broker.answer(FetchRequest, lambda request, version: FetchResponse(responses=[row]))

        assert [timestamps_at(client, {ORDERS: 5}) for _ in range(2)] == [{}, {}]

        asked = [type(request) for request in broker.requests[1:]]
        assert asked == [MetadataRequest, FetchRequest] * 2
