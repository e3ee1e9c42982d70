"""Sizes of replicas as one broker tells them."""

import pytest

from odradek.client.sync import SyncClient
from odradek.client.sync_log_sizes import log_sizes
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError
from odradek.model.ids import TopicPartition
from odradek.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from tests.client.support import ScriptedBroker

ORDERS = [TopicPartition("orders", index) for index in range(3)]


def directory(*rows: tuple[int, int, bool], error: ErrorCode = ErrorCode.NONE) -> DescribeLogDirsResult:
    """(partition, bytes, whether it is a copy under way), and how the directory is."""
    partitions = [
        DescribeLogDirsPartition(partition_index=index, partition_size=size, is_future_key=is_future)
        for index, size, is_future in rows
    ]
    topic = DescribeLogDirsTopic(name="orders", partitions=partitions)
    return DescribeLogDirsResult(error_code=error, log_dir="/a", topics=[topic])


def test_replicas_of_sound_directories_are_told_and_neither_copies_under_way_nor_lost_ones() -> None:
    answer = DescribeLogDirsResponse(
        results=[
            directory((0, 10, False), (1, 20, True)),
            directory((1, 30, False), (0, 50, True)),
            directory((2, 40, False), error=ErrorCode.KAFKA_STORAGE_ERROR),
        ]
    )
    with ScriptedBroker() as broker, SyncClient(broker.address) as client:
        broker.answer(DescribeLogDirsRequest, lambda request, version: answer)
        assert log_sizes(client, 1, ORDERS) == {ORDERS[0]: 10, ORDERS[1]: 30}
    (asked,) = broker.requests[-1].topics  # type: ignore[attr-defined]
    assert (asked.topic, list(asked.partitions)) == ("orders", [0, 1, 2])


def test_of_a_broker_that_tells_no_sizes_they_are_unknown() -> None:
    with ScriptedBroker() as broker, SyncClient(broker.address) as client:
        assert log_sizes(client, 1, ORDERS) == {}


def test_another_refusal_is_no_unknown_size(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: object) -> None:
        raise ProtocolError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    with ScriptedBroker() as broker, SyncClient(broker.address) as client:
        monkeypatch.setattr(client, "call", refuses)
        with pytest.raises(ProtocolError):
            log_sizes(client, 1, ORDERS)
