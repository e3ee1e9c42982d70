"""Groups, asked of their coordinators through a `SyncClient`: whom to ask, and again while coordinators move.

What comes back is what the brokers said, message by message; reading it is the caller's.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, NoReturn, TypeVar

from odradek.client.sync import SyncClient, Telling, answered, code_of
from odradek.client.sync_brokers import PATIENCE_S, of_every_broker
from odradek.client.sync_connection import SyncConnection, left_out
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError
from odradek.model.ids import TopicPartition
from odradek.model.topic_names import GROUPS_TOPIC
from odradek.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from odradek.protocol.messages.delete_groups import DeleteGroupsRequest
from odradek.protocol.messages.describe_groups import DescribeGroupsRequest
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.list_groups import ListedGroup, ListGroupsRequest
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

GROUP_KEY, TRANSACTION_KEY = 0, 1  # of FindCoordinator
NO_GENERATION = -1  # a commit from outside the group, which it takes while it has no members
_FIRST_WITH_KEYS = 4  # of FindCoordinator
_FIRST_WITH_GROUPS = 8  # of OffsetFetch
_NO_OFFSET = -1

T = TypeVar("T")


class Listed(NamedTuple):
    """Every group with the broker that coordinates it, and the brokers that did not say, with the reason."""

    groups: dict[str, tuple[int, ListedGroup]]
    problems: dict[int, str]


def list_groups(client: SyncClient, *, timeout_s: float = PATIENCE_S) -> Listed:
    """Each broker lists those it coordinates, all of them asked side by side."""
    told = of_every_broker(client, ListGroupsRequest(), timeout_s=timeout_s)
    groups = {
        group.group_id: (broker, group) for broker, answer in told.answers.items() for group in answer.groups
    }
    return Listed(groups, told.problems)


def has_groups(client: SyncClient) -> bool:
    """Whether the topic of groups is there. FindCoordinator would make it: who only looks does not ask that first."""
    return GROUPS_TOPIC in client.cluster([GROUPS_TOPIC]).topics


def coordinators(
    client: SyncClient, groups: Iterable[str], *, key_type: int = GROUP_KEY, timeout_s: float | None = None
) -> dict[str, int]:
    """Broker id by group, or by transactional id where `key_type` says so; waits while there is none."""
    names = sorted(set(groups))

    def ask(connection: SyncConnection, told: Telling) -> dict[str, int]:
        version = connection.version_for(FindCoordinatorRequest)
        if version >= _FIRST_WITH_KEYS:
            request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=names)
            told_of = {row.key: _node(row, row.key) for row in told(request, version).coordinators}
            return {name: told_of[name] if name in told_of else _nobody(name) for name in names}
        return {
            name: _node(told(FindCoordinatorRequest(key=name, key_type=key_type), version), name)
            for name in names
        }

    if not names:
        return {}
    left_s = client.left_of(timeout_s)
    return client.retrying(lambda: client.of_any(ask, timeout_s=left_s()), timeout_s=timeout_s)


def _nobody(group: str) -> NoReturn:
    raise left_out(f"coordinator of {group}")


def _node(row: Any, group: str) -> int:
    if row.error_code:
        raise answered(row.error_code, f"coordinator of {group}", row.error_message)
    return int(row.node_id)


def describe(client: SyncClient, groups: Iterable[str]) -> dict[str, tuple[int, Any]]:
    """(coordinator, its DescribedGroup) by group; `Dead`: nobody knows it, or it is one of KIP-848."""
    return _of_coordinators(
        client,
        groups,
        lambda names: DescribeGroupsRequest(groups=names),
        lambda answer: {row.group_id: (row.error_code, row) for row in answer.groups},
        also_fine=(ErrorCode.GROUP_ID_NOT_FOUND,),
    )


def describe_consumer_groups(client: SyncClient, groups: Iterable[str]) -> dict[str, tuple[int, Any]]:
    """The same of groups of KIP-848; others are left out, and so are all where brokers do not serve them."""
    try:
        found = _of_coordinators(
            client,
            groups,
            lambda names: ConsumerGroupDescribeRequest(group_ids=names),
            lambda answer: {row.group_id: (row.error_code, row) for row in answer.groups},
            also_fine=(ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION),
        )
    except ProtocolError as error:
        if error.code != ErrorCode.UNSUPPORTED_VERSION:
            raise
        return {}
    return {name: row for name, row in found.items() if not row[1].error_code}


def delete(client: SyncClient, groups: Iterable[str]) -> dict[str, ErrorCode]:
    """What became of each. Sent again where a coordinator has moved: what is gone by then is GROUP_ID_NOT_FOUND."""
    final = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.NON_EMPTY_GROUP)
    found = _of_coordinators(
        client,
        groups,
        lambda names: DeleteGroupsRequest(groups_names=names),
        lambda answer: {row.group_id: (row.error_code, row) for row in answer.results},
        also_fine=final,
    )
    return {name: code_of(row.error_code) for name, (_, row) in found.items()}


def committed(client: SyncClient, group: str, *, timeout_s: float | None = None) -> dict[TopicPartition, int]:
    """All offsets the group has committed; without those of transactions that are still open. Raises where one is not told."""

    def ask(broker: int, left_s: float | None) -> dict[TopicPartition, int]:
        deadline = client.deadline(left_s)
        connection = client.connection_to(broker, deadline)
        version = connection.version_for(OffsetFetchRequest)
        if version >= _FIRST_WITH_GROUPS:
            request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)])
        else:
            request = OffsetFetchRequest(group_id=group, topics=None)
        answer = connection.receive(connection.send(request, version, deadline), deadline)
        rows = answer.groups if version >= _FIRST_WITH_GROUPS else [answer]
        if not rows:
            raise left_out(f"offsets of {group}")
        told = rows[0]
        if told.error_code:
            raise answered(told.error_code, f"offsets of {group}")
        found: dict[TopicPartition, int] = {}
        for topic in told.topics:
            for row in topic.partitions:
                where = TopicPartition(topic.name, row.partition_index)
                if row.error_code:
                    raise answered(row.error_code, f"offset of {where} for {group}")
                if row.committed_offset > _NO_OFFSET:
                    found[where] = row.committed_offset
        return found

    return _at_coordinator(client, group, ask, timeout_s)


def commit(
    client: SyncClient, group: str, offsets: Mapping[TopicPartition, int]
) -> dict[TopicPartition, ErrorCode]:
    """Sets offsets from outside the group; UNKNOWN_MEMBER_ID: it has members by now. May be sent twice, which changes
    nothing."""
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for where, offset in sorted(offsets.items()):
        row = OffsetCommitRequestPartition(
            partition_index=where.partition, committed_offset=offset, committed_metadata=""
        )
        topics.setdefault(where.topic, []).append(row)
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=NO_GENERATION,
        topics=[OffsetCommitRequestTopic(name=name, partitions=rows) for name, rows in topics.items()],
    )

    def ask(broker: int, left_s: float | None) -> dict[TopicPartition, ErrorCode]:
        answer = client.call(broker, request, timeout_s=left_s)
        told = {
            TopicPartition(topic.name, row.partition_index): code_of(row.error_code)
            for topic in answer.topics
            for row in topic.partitions
        }
        for code in told.values():
            if code in _ELSEWHERE:
                raise answered(code, f"offsets of {group}")
        for where in offsets:
            if where not in told:
                raise left_out(f"offset of {where} for {group}")
        return told

    return _at_coordinator(client, group, ask)


# Nothing was done: ask again, somebody else perhaps.
_ELSEWHERE = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)


def _at_coordinator(
    client: SyncClient, group: str, ask: Callable[[int, float | None], T], timeout_s: float | None = None
) -> T:
    """`ask` is given the coordinator, and what is left of the time."""
    left_s = client.left_of(timeout_s)

    def asked() -> T:
        coordinator = coordinators(client, [group], timeout_s=left_s())[group]
        return ask(coordinator, left_s())

    return client.retrying(asked, timeout_s=timeout_s)


def _of_coordinators(
    client: SyncClient,
    groups: Iterable[str],
    request: Callable[[list[str]], Any],
    rows: Callable[[Any], dict[str, tuple[int, Any]]],
    *,
    also_fine: tuple[ErrorCode, ...],
) -> dict[str, tuple[int, Any]]:
    """One request a coordinator; groups whose coordinator has moved are asked for again."""
    found: dict[str, tuple[int, Any]] = {}
    names = set(groups)

    def ask() -> dict[str, tuple[int, Any]]:
        by_broker: dict[int, list[str]] = {}
        for name, broker in sorted(coordinators(client, names - set(found)).items()):
            by_broker.setdefault(broker, []).append(name)
        failed: ProtocolError | None = None
        for broker, asked in by_broker.items():
            for name, (code, row) in rows(client.call(broker, request(asked))).items():
                if code and code not in also_fine:
                    failed = answered(code, f"group {name}")
                else:
                    found[name] = (broker, row)
        if failed is not None:
            raise failed
        if missing := names - set(found):
            raise left_out(f"group {min(missing)}")
        return found

    return client.retrying(ask)
