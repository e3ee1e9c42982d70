"""A replica on its way between the log directories of a broker process that is killed in the middle of it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from odradek.client.sync import SyncClient
from odradek.model.ids import TopicPartition
from odradek.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from odradek.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from odradek.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.records.builder import NewRecord, build_batch
from tests.server.processes import OneBroker
from tests.support import eventually

pytestmark = pytest.mark.process

ORDERS = TopicPartition("orders", 0)
BROKER_RESOURCE = 4
BYTES = 100_000


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[OneBroker]:
    one = OneBroker(tmp_path, log_dirs=f"{tmp_path}/a,{tmp_path}/b")
    one.start()
    one.create_topic("orders")
    yield one
    one.stop()


def call(broker: OneBroker, request: Any) -> Any:
    with SyncClient(broker.address) as client:
        client.cluster([])
        return client.call(broker.process.broker_id, request)


def produce(broker: OneBroker, numbers: range) -> None:
    with SyncClient(broker.address) as client:
        for number in numbers:
            value = number.to_bytes(4, "big") * (BYTES // 4)
            assert client.produce(ORDERS, build_batch([NewRecord(None, value)])) == number


def limit(broker: OneBroker, bytes_per_second: int) -> None:
    change = AlterableConfig(
        name="replica.alter.log.dirs.io.max.bytes.per.second", config_operation=0, value=str(bytes_per_second)
    )
    resource = AlterConfigsResource(resource_type=BROKER_RESOURCE, resource_name="1", configs=[change])
    (answer,) = call(broker, IncrementalAlterConfigsRequest(resources=[resource])).responses
    assert answer.error_code == 0, answer.error_message


def move(broker: OneBroker, path: Path) -> None:
    topic = AlterReplicaLogDirTopic(name="orders", partitions=[0])
    request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=str(path), topics=[topic])])
    (row,) = call(broker, request).results
    assert [partition.error_code for partition in row.partitions] == [0]


def replicas(broker: OneBroker) -> dict[tuple[str, bool], int]:
    """(directory, is it on its way) -> bytes."""
    return {
        (Path(directory.log_dir).name, partition.is_future_key): partition.partition_size
        for directory in call(broker, DescribeLogDirsRequest(topics=None)).results
        for topic in directory.topics
        for partition in topic.partitions
    }


def test_a_broker_killed_in_the_middle_of_a_move_goes_on_with_it(broker: OneBroker, tmp_path: Path) -> None:
    produce(broker, range(30))
    ((source, _),) = replicas(broker)
    target = "b" if source == "a" else "a"
    limit(broker, 10_000)
    move(broker, tmp_path / target)
    eventually(lambda: replicas(broker).get((target, True), 0) > BYTES, 90, "some of it is copied")
    produce(broker, range(30, 32))
    broker.process.kill()

    broker.start()
    eventually(lambda: (target, True) in replicas(broker), 60, "it goes on")
    produce(broker, range(32, 34))
    broker.process.kill()

    broker.start()
    limit(broker, 1 << 40)
    eventually(lambda: set(replicas(broker)) == {(target, False)}, 60, "it has arrived")
    produce(broker, range(34, 35))
    broker.process.kill()
    broker.start()
    eventually(lambda: set(replicas(broker)) == {(target, False)}, 60, "and is there after another kill")
    assert replicas(broker)[target, False] > 35 * BYTES
    with SyncClient(broker.address) as client:
        assert client.end_offsets([ORDERS])[ORDERS] == 35
    held = b"".join(path.read_bytes() for path in sorted((tmp_path / target / "orders-0").glob("*.log")))
    for number in range(35):
        assert held.count(number.to_bytes(4, "big") * 1000) >= 1, f"record {number} is lost"
    assert not (tmp_path / source / "orders-0").exists()
