"""What is not served: a key without a handler, or a version outside its range.

A key whose message is known (transactions, until their coordinator exists) is answered
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
    """TxnOffsetCommit."""

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
    ApiKey.ADD_PARTITIONS_TO_TXN: _add_partitions_to_txn,
    ApiKey.ADD_OFFSETS_TO_TXN: _whole("add_offsets_to_txn"),
    ApiKey.END_TXN: _whole("end_txn"),
    ApiKey.TXN_OFFSET_COMMIT: _per_partition("txn_offset_commit"),
}
