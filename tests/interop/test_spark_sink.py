"""Spark's source and sink of topics, whose brokers are Apache's: committed records alone, and each batch once, wherever the driver dies."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.client.sync import SyncClient
from odradek.spark.kill_switch import TOPIC_STEPS
from odradek.spark.options import ConnectionOptions
from odradek.spark.topic_options import TopicOptions
from tests.interop.cluster import MixedCluster
from tests.spark.test_topic_sink import Sink, dies_and_goes_on
from tests.spark.test_transaction_boundaries import no_transaction_is_divided
from tests.spark.test_transactional_topics import Writers, committed_records_alone
from tests.spark.test_transform_kills import kill_again_and_again

SETTINGS = {
    "transaction.state.log.replication.factor": "2",
    "transaction.state.log.min.isr": "1",
    "log.retention.ms": "-1",  # records of these tests have timestamps of the past
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MixedCluster]:
    directory = tmp_path_factory.mktemp("cluster")
    with MixedCluster(directory, ours=(), apaches=(1, 2), settings=SETTINGS) as running:
        yield running


@pytest.fixture
def client(cluster: MixedCluster) -> Iterator[SyncClient]:
    with SyncClient(cluster.running) as connected:
        yield connected


def create_topic(cluster: MixedCluster, name: str, *, partitions: int) -> None:
    cluster.create_topic(name, {index: [1, 2] if index % 2 else [2, 1] for index in range(partitions)})


@pytest.mark.parametrize("step", TOPIC_STEPS)
def test_a_batch_is_there_once_wherever_the_driver_dies(
    step: str, cluster: MixedCluster, client: SyncClient, tmp_path: Path
) -> None:
    create_topic(cluster, step, partitions=3)
    options = TopicOptions(ConnectionOptions(cluster.running), step, f"app-{step}", str(tmp_path))
    dies_and_goes_on(step, Sink(options, []), client)


def test_no_record_is_lost_or_doubled_whenever_the_job_is_killed(
    cluster: MixedCluster, client: SyncClient, tmp_path: Path
) -> None:
    create_topic(cluster, "orders", partitions=2)
    create_topic(cluster, "loud", partitions=3)
    kill_again_and_again(cluster.running, client, "orders", "loud", tmp_path)


def test_a_reader_of_committed_records_sees_them_alone(cluster: MixedCluster, client: SyncClient) -> None:
    create_topic(cluster, "settled", partitions=1)
    committed_records_alone(cluster.running, Writers(client, "settled"))


def test_no_transaction_is_divided_where_boundaries_are_asked_for(
    cluster: MixedCluster, client: SyncClient
) -> None:
    create_topic(cluster, "whole", partitions=1)
    no_transaction_is_divided(cluster.running, Writers(client, "whole"))
