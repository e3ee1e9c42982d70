"""What is not served: a key without a handler, or a version outside its range.

A key whose message is known (groups and transactions, until their coordinators exist) is answered
UNSUPPORTED_VERSION in its own form, wherever that form has room for an error. Anything else closes the
connection, as nothing the peer could read can be said. Either way one log line per connection and key, and not more
than one in a while per address.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from odradek.broker.answers import Answer, CloseConnection, Reply
from odradek.broker.effects import LogLine
from odradek.broker.handlers.api_versions import unsupported_version
from odradek.model.error_codes import ErrorCode
from odradek.model.printable import shown
from odradek.protocol.api_keys import APIS, ApiKey

if TYPE_CHECKING:
    from odradek.broker.core import Broker
    from odradek.broker.request import Request

ERROR = ErrorCode.UNSUPPORTED_VERSION


def refuse(broker: "Broker", request: "Request") -> Answer:
    """`ProtocolError` if the body cannot be read."""
    key, version = request.api_key, request.api_version
    api = APIS.get(key)
    name = api.name if api is not None else f"API key {key}"
    if key not in request.connection.told:
        request.connection.told.add(key)
        connection = request.connection
        client = f" ({shown(request.client_id)})" if request.client_id else ""
        broker.effects.append(
            LogLine(
                "warning",
                f"{name} version {version} of {connection.peer}{client} is not served here",
                key=f"unserved {connection.address}",
            )
        )
    if key == ApiKey.API_VERSIONS:
        return unsupported_version(broker)
    answer = ANSWERS.get(key)
    if answer is None or api is None or not api.first_version <= version <= api.last_version:
        return CloseConnection(f"{name} version {version} is not served")
    return Reply([answer(version, request.body)])


def _messages(name: str) -> tuple[Any, Any, Any]:
    """The module of a message pair, its request and its response; read only when somebody asks."""
    from importlib import import_module

    module = import_module(f"odradek.protocol.messages.{name}")
    camel = "".join(part.capitalize() for part in name.split("_"))
    return module, getattr(module, camel + "Request"), getattr(module, camel + "Response")


def _whole(name: str) -> Callable[[int, memoryview], bytes]:
    """The answer has one error for all."""

    def answer(version: int, body: memoryview) -> bytes:
        _, request, response = _messages(name)
        request.decode(version, body)
        encoded: bytes = response(error_code=ERROR).encode(version)
        return encoded

    return answer


def _per_partition(name: str) -> Callable[[int, memoryview], bytes]:
    """OffsetCommit, TxnOffsetCommit."""

    def answer(version: int, body: memoryview) -> bytes:
        module, request, response = _messages(name)
        topic = getattr(module, response.__name__ + "Topic")
        partition = getattr(module, response.__name__ + "Partition")
        rows = [
            topic(
                name=row.name,
                partitions=[
                    partition(partition_index=p.partition_index, error_code=ERROR) for p in row.partitions
                ],
            )
            for row in request.decode(version, body).topics
        ]
        encoded: bytes = response(topics=rows).encode(version)
        return encoded

    return answer


def _offset_fetch(version: int, body: memoryview) -> bytes:
    from odradek.protocol.messages import offset_fetch as m

    asked = m.OffsetFetchRequest.decode(version, body)
    groups = [m.OffsetFetchResponseGroup(group_id=row.group_id, error_code=ERROR) for row in asked.groups]
    topics = [
        m.OffsetFetchResponseTopic(
            name=row.name,
            partitions=[
                m.OffsetFetchResponsePartition(partition_index=index, committed_offset=-1, error_code=ERROR)
                for index in row.partition_indexes
            ],
        )
        for row in asked.topics or []
    ]
    return m.OffsetFetchResponse(topics=topics, error_code=ERROR, groups=groups).encode(version)


def _find_coordinator(version: int, body: memoryview) -> bytes:
    from odradek.protocol.messages import find_coordinator as m

    asked = m.FindCoordinatorRequest.decode(version, body)
    rows = [
        m.Coordinator(key=key, node_id=-1, port=-1, error_code=ERROR, error_message=None)
        for key in asked.coordinator_keys
    ]
    return m.FindCoordinatorResponse(
        error_code=ERROR, error_message=None, node_id=-1, port=-1, coordinators=rows
    ).encode(version)


def _describe_groups(version: int, body: memoryview) -> bytes:
    from odradek.protocol.messages import describe_groups as m

    asked = m.DescribeGroupsRequest.decode(version, body)
    rows = [m.DescribedGroup(error_code=ERROR, group_id=group) for group in asked.groups]
    return m.DescribeGroupsResponse(groups=rows).encode(version)


def _delete_groups(version: int, body: memoryview) -> bytes:
    from odradek.protocol.messages import delete_groups as m

    asked = m.DeleteGroupsRequest.decode(version, body)
    rows = [m.DeletableGroupResult(group_id=group, error_code=ERROR) for group in asked.groups_names]
    return m.DeleteGroupsResponse(results=rows).encode(version)


def _add_partitions_to_txn(version: int, body: memoryview) -> bytes:
    from odradek.protocol.messages import add_partitions_to_txn as m

    asked = m.AddPartitionsToTxnRequest.decode(version, body)

    def results(topics: list[m.AddPartitionsToTxnTopic]) -> list[m.AddPartitionsToTxnTopicResult]:
        return [
            m.AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=[
                    m.AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=ERROR)
                    for index in topic.partitions
                ],
            )
            for topic in topics
        ]

    return m.AddPartitionsToTxnResponse(
        error_code=ERROR,
        results_by_transaction=[
            m.AddPartitionsToTxnResult(
                transactional_id=row.transactional_id, topic_results=results(row.topics)
            )
            for row in asked.transactions
        ],
        results_by_topic_v3_and_below=results(asked.v3_and_below_topics),
    ).encode(version)


ANSWERS: dict[int, Callable[[int, memoryview], bytes]] = {
    ApiKey.OFFSET_COMMIT: _per_partition("offset_commit"),
    ApiKey.OFFSET_FETCH: _offset_fetch,
    ApiKey.FIND_COORDINATOR: _find_coordinator,
    ApiKey.JOIN_GROUP: _whole("join_group"),
    ApiKey.HEARTBEAT: _whole("heartbeat"),
    ApiKey.LEAVE_GROUP: _whole("leave_group"),
    ApiKey.SYNC_GROUP: _whole("sync_group"),
    ApiKey.DESCRIBE_GROUPS: _describe_groups,
    ApiKey.LIST_GROUPS: _whole("list_groups"),
    ApiKey.ADD_PARTITIONS_TO_TXN: _add_partitions_to_txn,
    ApiKey.ADD_OFFSETS_TO_TXN: _whole("add_offsets_to_txn"),
    ApiKey.END_TXN: _whole("end_txn"),
    ApiKey.TXN_OFFSET_COMMIT: _per_partition("txn_offset_commit"),
    ApiKey.DELETE_GROUPS: _delete_groups,
    ApiKey.OFFSET_DELETE: _whole("offset_delete"),
}
