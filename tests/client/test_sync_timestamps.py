"""How old what stands at an offset is."""

import pytest

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
from odradek.records.builder import NewRecord, build_batch
from tests.client.support import ScriptedBroker

ORDERS = TopicPartition("orders", 0)


@pytest.mark.parametrize(
    ("fields", "timestamp"),
    [({}, 1_000), ({"delete_horizon_ms": 9_000_000}, 2_000)],
    ids=["plain", "horizon"],
)
def test_a_delete_horizon_is_no_age(fields: dict[str, int], timestamp: int) -> None:
    """It stands where the timestamp of the first record would, and is days later (KIP-534)."""
    records = [NewRecord(b"k", b"v", timestamp_ms) for timestamp_ms in (1_000, 2_000)]
    data = PartitionData(partition_index=0, records=build_batch(records, **fields))
    with ScriptedBroker() as broker, SyncClient(broker.address, request_timeout_s=60) as client:
        broker.partitions = {"orders": [1]}
        row = FetchableTopicResponse(topic="orders", partitions=[data])
        broker.answer(FetchRequest, lambda request, version: FetchResponse(responses=[row]))
        assert timestamps_at(client, {ORDERS: 0}) == {ORDERS: timestamp}


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
