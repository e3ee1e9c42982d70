"""Transactions of `transaction.version` 2 on three processes, while leaders and coordinators are killed with `kill -9`."""

import confluent_kafka
import pytest

from odradek.client import sync_groups
from odradek.client.sync import SyncClient
from odradek.model.ids import TopicPartition
from odradek.testing.process_cluster import ProcessCluster
from tests.clients.exactly_once import TARGET, Audit
from tests.clients.support import (
    coordinator_of,
    create_topic,
    is_fully_replicated,
    leader_of,
    number_in,
    value_of,
)
from tests.clients.version_2 import GROUP, TRANSACTION, Version2Producer, finalised_level
from tests.support import eventually

pytestmark = pytest.mark.process

SOURCE, GROUP_ID, ID = "orders", "billing", "billing-1"
PARTITIONS = 3
TRANSACTIONS = 48
# The transaction in whose middle somebody dies, and who: of records, of the transaction, of the group.
VICTIMS = {8: "leader", 20: "coordinator", 32: "group"}
EVERY_FOURTH = 4


class Read(Audit):
    """Everything that is committed."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap, TARGET, PARTITIONS)
        self.numbers: list[int] = []

    def take(self, message: confluent_kafka.Message) -> None:
        self.numbers.append(number_in(message.value()))


def test_each_end_raises_the_epoch_and_each_record_is_there_once_though_brokers_are_killed(
    cluster: ProcessCluster,
) -> None:
    for topic in (SOURCE, TARGET):
        create_topic(cluster, topic, partitions=PARTITIONS)
    places = [TopicPartition(TARGET, index) for index in range(PARTITIONS)]
    kept: list[int] = []
    with SyncClient(cluster.bootstrap) as client:
        eventually(
            lambda: {finalised_level(client, broker) for broker in cluster.brokers} == {2},
            30.0,
            "a new cluster has the level, and every broker says so",
        )
        producer = Version2Producer(client, ID)
        producer.init()
        first_epoch = producer.epoch
        for number in range(TRANSACTIONS):
            is_commit = number % EVERY_FOURTH != EVERY_FOURTH - 1
            for place in places:
                producer.write(place, value_of(number * PARTITIONS + place.partition))
                if place.partition == 0 and number in VICTIMS:
                    kill(cluster, VICTIMS[number])
            producer.commit_offset(GROUP_ID, TopicPartition(SOURCE, 0), number)
            producer.end(is_commit=is_commit)
            if is_commit:
                kept += [number * PARTITIONS + index for index in range(PARTITIONS)]

        assert producer.epoch == first_epoch + TRANSACTIONS
        committed = sync_groups.committed(client, GROUP_ID)
    audit = Read(cluster.bootstrap)
    try:
        eventually(lambda: audit.read() or audit.is_at_end, 60.0, "all of it is read")  # type: ignore[func-returns-value]
    finally:
        audit.close()
    assert sorted(audit.numbers) == kept
    last_kept = max(n for n in range(TRANSACTIONS) if n % EVERY_FOURTH != EVERY_FOURTH - 1)
    assert committed == {TopicPartition(SOURCE, 0): last_kept}


def kill(cluster: ProcessCluster, victim: str) -> None:
    eventually(lambda: is_fully_replicated(cluster, TARGET), 60.0, "nobody is behind")
    found = {
        "leader": lambda: leader_of(cluster, TARGET),
        "coordinator": lambda: coordinator_of(cluster, ID, TRANSACTION),
        "group": lambda: coordinator_of(cluster, GROUP_ID, GROUP),
    }[victim]()
    cluster.kill(found)
    cluster.restart(found, wait=False)
