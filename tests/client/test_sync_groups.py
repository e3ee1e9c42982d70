"""Groups asked of their coordinators: what is asked again when one has moved, and what is not."""

from collections.abc import Iterator

import pytest

from odradek.client import sync_groups
from odradek.client.sync import SyncClient
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError
from odradek.model.ids import TopicPartition
from odradek.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from odradek.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from odradek.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from odradek.protocol.schema import Request
from tests.client.support import ScriptedBroker
from tests.support import each

ORDERS = TopicPartition("orders", 0)


def coordinates(request: Request, version: int) -> FindCoordinatorResponse:
    assert isinstance(request, FindCoordinatorRequest)
    return FindCoordinatorResponse(
        coordinators=[Coordinator(key=key, node_id=1) for key in request.coordinator_keys]
    )


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker() as scripted:
        scripted.answer(FindCoordinatorRequest, coordinates)
        yield scripted


@pytest.fixture
def client(broker: ScriptedBroker) -> Iterator[SyncClient]:
    with SyncClient(broker.address, request_timeout_s=10) as connected:
        yield connected


def test_a_group_that_was_deleted_is_not_asked_for_again_because_another_has_moved(
    broker: ScriptedBroker, client: SyncClient
) -> None:
    """Asked again, it would be GROUP_ID_NOT_FOUND."""
    asked: list[list[str]] = []
    moved = {"b"}

    def delete(request: Request, version: int) -> DeleteGroupsResponse:
        assert isinstance(request, DeleteGroupsRequest)
        asked.append(list(request.groups_names))
        results = [
            DeletableGroupResult(
                group_id=name, error_code=ErrorCode.NOT_COORDINATOR if name in moved else ErrorCode.NONE
            )
            for name in request.groups_names
        ]
        moved.clear()
        return DeleteGroupsResponse(results=results)

    broker.answer(DeleteGroupsRequest, delete)
    assert sync_groups.delete(client, ["a", "b"]) == {"a": ErrorCode.NONE, "b": ErrorCode.NONE}
    assert asked == [["a", "b"], ["b"]]


@each(
    (
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    )
)
def test_a_commit_is_sent_again_where_nothing_was_done(code: ErrorCode) -> None:
    codes = [code, ErrorCode.NONE]

    def commit(request: Request, version: int) -> OffsetCommitResponse:
        row = OffsetCommitResponsePartition(partition_index=0, error_code=codes.pop(0))
        return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="orders", partitions=[row])])

    with ScriptedBroker() as broker, SyncClient(broker.address, request_timeout_s=10) as client:
        broker.answer(FindCoordinatorRequest, coordinates)
        broker.answer(OffsetCommitRequest, commit)
        assert sync_groups.commit(client, "billing", {ORDERS: 5}) == {ORDERS: ErrorCode.NONE}
    assert codes == []


def test_an_offset_of_zero_is_committed_and_one_of_minus_one_is_not(
    broker: ScriptedBroker, client: SyncClient
) -> None:
    rows = [
        OffsetFetchResponsePartitions(partition_index=index, committed_offset=offset)
        for index, offset in enumerate((0, -1, 7))
    ]
    topic = OffsetFetchResponseTopics(name="orders", partitions=rows)
    broker.answer(
        OffsetFetchRequest,
        lambda request, version: OffsetFetchResponse(
            groups=[OffsetFetchResponseGroup(group_id="billing", topics=[topic])]
        ),
    )
    assert sync_groups.committed(client, "billing") == {ORDERS: 0, TopicPartition("orders", 2): 7}


def test_a_partition_whose_offset_the_coordinator_does_not_tell_is_not_one_without(
    broker: ScriptedBroker, client: SyncClient
) -> None:
    """Left out, it was one that the group has never read: a job would begin it anew."""
    rows = [
        OffsetFetchResponsePartitions(partition_index=0, committed_offset=7),
        OffsetFetchResponsePartitions(
            partition_index=1, committed_offset=-1, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED
        ),
    ]
    topic = OffsetFetchResponseTopics(name="orders", partitions=rows)
    broker.answer(
        OffsetFetchRequest,
        lambda request, version: OffsetFetchResponse(
            groups=[OffsetFetchResponseGroup(group_id="billing", topics=[topic])]
        ),
    )
    with pytest.raises(ProtocolError, match="orders-1 for billing") as caught:
        sync_groups.committed(client, "billing")
    assert caught.value.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
