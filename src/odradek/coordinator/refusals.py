"""One error for a whole request: another broker coordinates the group, it is being loaded, or is not available.

Each request has its own place for it; OffsetFetch 1 has none but its partitions. While a group is loaded, Heartbeat
succeeds and SyncGroup asks to join again: a member that knows nothing of the move then goes on where it was.
"""

from collections.abc import Callable
from typing import Any

from odradek.coordinator.answers import join_refused, sync_refused
from odradek.model.error_codes import ErrorCode
from odradek.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from odradek.protocol.messages.consumer_group_describe import DescribedGroup as ConsumerDescribedGroup
from odradek.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from odradek.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from odradek.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from odradek.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from odradek.protocol.messages.join_group import JoinGroupRequest
from odradek.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from odradek.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from odradek.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from odradek.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from odradek.protocol.messages.sync_group import SyncGroupRequest
from odradek.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from odradek.protocol.schema import Request, Response

FIRST_FETCH_WITH_GROUPS = 8
LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def refuse(request: Request, version: int, error: ErrorCode) -> Response:
    return _REFUSALS[type(request)](request, version, error)


def _heartbeat(request: HeartbeatRequest, version: int, error: ErrorCode) -> Response:
    return HeartbeatResponse(error_code=ErrorCode.NONE if error == LOADING else error)


def _sync(request: SyncGroupRequest, version: int, error: ErrorCode) -> Response:
    return sync_refused(ErrorCode.REBALANCE_IN_PROGRESS if error == LOADING else error)


def _commit(request: OffsetCommitRequest, version: int, error: ErrorCode) -> Response:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=one.partition_index, error_code=error)
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _txn_commit(request: TxnOffsetCommitRequest, version: int, error: ErrorCode) -> Response:
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(partition_index=one.partition_index, error_code=error)
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _fetch(request: OffsetFetchRequest, version: int, error: ErrorCode) -> Response:
    if version >= FIRST_FETCH_WITH_GROUPS:
        groups = [OffsetFetchResponseGroup(group_id=one.group_id, error_code=error) for one in request.groups]
        return OffsetFetchResponse(groups=groups)
    if version > 1:
        return OffsetFetchResponse(error_code=error)
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=index, committed_offset=-1, metadata="", error_code=error
                    )
                    for index in topic.partition_indexes
                ],
            )
            for topic in request.topics or ()
        ]
    )


def _describe(request: DescribeGroupsRequest, version: int, error: ErrorCode) -> Response:
    return DescribeGroupsResponse(
        groups=[DescribedGroup(error_code=error, group_id=name) for name in request.groups]
    )


def _delete(request: DeleteGroupsRequest, version: int, error: ErrorCode) -> Response:
    return DeleteGroupsResponse(
        results=[DeletableGroupResult(group_id=name, error_code=error) for name in request.groups_names]
    )


_REFUSALS: dict[type[Request], Callable[[Any, int, ErrorCode], Response]] = {
    JoinGroupRequest: lambda request, version, error: join_refused(version, error, request.member_id),
    SyncGroupRequest: _sync,
    HeartbeatRequest: _heartbeat,
    LeaveGroupRequest: lambda request, version, error: LeaveGroupResponse(error_code=error),
    OffsetCommitRequest: _commit,
    TxnOffsetCommitRequest: _txn_commit,
    OffsetFetchRequest: _fetch,
    OffsetDeleteRequest: lambda request, version, error: OffsetDeleteResponse(error_code=error),
    DeleteGroupsRequest: _delete,
    DescribeGroupsRequest: _describe,
    ListGroupsRequest: lambda request, version, error: ListGroupsResponse(error_code=error),
    ConsumerGroupHeartbeatRequest: lambda request, version, error: ConsumerGroupHeartbeatResponse(
        error_code=error
    ),
    ConsumerGroupDescribeRequest: lambda request, version, error: ConsumerGroupDescribeResponse(
        groups=[ConsumerDescribedGroup(error_code=error, group_id=name) for name in request.group_ids]
    ),
}
