"""The coordinator of groups and transactions moves from our broker to Apache's and back: in order, and by `kill -9`.

Whoever leads the internal topics finds there what the other kind wrote, and goes on with all of it: groups with members that
do not notice, offsets, and transactions that are open.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import confluent_kafka
import pytest

from odradek.client import sync_groups, sync_transactions
from odradek.client.sync import SyncClient
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import OdradekError
from odradek.model.ids import TopicPartition
from tests.clients.exactly_once import INTERNAL, Audit
from tests.clients.support import number_in, value_of
from tests.interop.cluster import APACHES, OURS, MixedCluster
from tests.support import eventually

TOPIC, PARTITIONS, EACH = "orders", 4, 10
MEMBERS = "readers"  # the group that has some
OFFSETS_ONLY = [f"batch-{number}" for number in range(40)]
BILLING = "billing"  # commits within transactions
# One partition, so that one broker coordinates everything.
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "2",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "2",
    "transaction.state.log.min.isr": "1",
}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[MixedCluster]:
    with MixedCluster(tmp_path, ours=(1,), apaches=(2,), settings=SETTINGS) as running:
        yield running


class State(NamedTuple):
    """All that the coordinators have, and who they are."""

    groups: dict[str, Any]
    offsets: dict[str, dict[TopicPartition, int]]
    transactions: dict[str, Any]
    coordinators: set[int]


def state_of(cluster: MixedCluster) -> State:
    with SyncClient(cluster.running) as client:
        groups, problems = sync_groups.list_groups(client)
        assert problems == {}
        described = sync_groups.describe(client, groups)
        listed, _ = sync_transactions.list_transactions(client)
        return State(
            {name: _row(group) for name, (_, group) in described.items()},
            {name: sync_groups.committed(client, name) for name in groups},
            {
                row.transactional_id: sync_transactions.describe(client, broker, row.transactional_id)
                for broker, row in listed
            },
            {broker for broker, _ in (*groups.values(), *listed)},
        )


def _row(group: Any) -> Any:
    members = sorted(group.members, key=lambda member: member.member_id)
    return group.group_state, group.protocol_type, group.protocol_data, members


def state_at(cluster: MixedCluster, coordinator: int, what: str) -> State:
    """Once this broker has loaded everything."""

    def asked() -> State | None:
        try:
            state = state_of(cluster)
        except OdradekError:
            return None
        return state if state.coordinators == {coordinator} else None

    found = eventually(asked, 120.0, what)
    assert found is not None
    return found


def hand_over(cluster: MixedCluster, kind: str, *, kill: bool) -> int:
    (heir,) = cluster.of_kind(kind)
    (leaving,) = (broker for broker in cluster.brokers if broker != heir)
    if kill:
        cluster.kill(leaving)
        cluster.wait_until(
            lambda: all(cluster.leader(topic) == heir for topic in INTERNAL), f"broker {heir} leads alone"
        )
        cluster.restart(leaving)
        for topic in (TOPIC, *INTERNAL):
            cluster.wait_full(topic)
        return heir
    for topic in INTERNAL:
        cluster.reassign(topic, {0: [heir, leaving]})
        cluster.elect_preferred(topic, [0])
        cluster.wait_until(lambda topic=topic: cluster.leader(topic) == heir, f"{topic} is led by {heir}")
    return heir


class Billing:
    """A transactional producer that stands in the midst of a transaction when its coordinator moves."""

    def __init__(self, bootstrap: str, name: str) -> None:
        self._producer = confluent_kafka.Producer(
            {"bootstrap.servers": bootstrap, "transactional.id": name, "transaction.timeout.ms": 300_000}
        )
        self._producer.init_transactions(60)

    def begin(self, first: int, partition: int) -> None:
        self._producer.begin_transaction()
        for number in range(first, first + EACH):
            self._producer.produce(TOPIC, value_of(number), partition=partition)
        assert self._producer.flush(60) == 0
        consumer = confluent_kafka.Consumer({"bootstrap.servers": "127.0.0.1:1", "group.id": BILLING})
        place = confluent_kafka.TopicPartition(TOPIC, partition, first + EACH)
        self._producer.send_offsets_to_transaction([place], consumer.consumer_group_metadata(), 60)
        consumer.close()

    def commit(self) -> None:
        self._producer.commit_transaction(90)

    def abort(self) -> None:
        self._producer.abort_transaction(90)


class Bills(Audit):
    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap, TOPIC, PARTITIONS)
        self.numbers: list[int] = []

    def take(self, message: confluent_kafka.Message) -> None:
        self.numbers.append(number_in(message.value()))


def commit_offsets(cluster: MixedCluster, offset: int) -> None:
    wanted = {TopicPartition(TOPIC, index): offset + index for index in range(PARTITIONS)}
    with SyncClient(cluster.running) as client:
        for group in OFFSETS_ONLY:
            told = sync_groups.commit(client, group, wanted)
            assert set(told.values()) == {ErrorCode.NONE}, told


def test_a_coordinator_of_the_other_kind_goes_on_with_all_groups_and_transactions(
    cluster: MixedCluster,
) -> None:
    cluster.create_topic(TOPIC, {index: [1, 2] if index % 2 else [2, 1] for index in range(PARTITIONS)})
    bootstrap = cluster.running
    members = [
        confluent_kafka.Consumer(
            {"bootstrap.servers": bootstrap, "group.id": MEMBERS, "enable.auto.commit": False}
        )
        for _ in range(2)
    ]
    try:
        for member in members:
            member.subscribe([TOPIC])
        eventually(lambda: _poll(members) == [2, 2], 120.0, "each has two partitions")
        Billing(bootstrap, "billing-1")  # makes the topic of transactions
        for topic in INTERNAL:
            cluster.wait_full(topic)
        coordinator = hand_over(cluster, OURS, kill=False)
        sent = 0
        for kind, kill in ((APACHES, False), (OURS, True), (APACHES, True), (OURS, False)):
            commit_offsets(cluster, sent)
            # Anew each time. A producer of librdkafka 2.16.0 that lives on may hang in `send_offsets_to_transaction`, past its
            # timeout: a broker that was killed and is back is another object to it, and the coordinator that it remembers
            # for the group is the former one, which it keeps "terminating" and asks nothing of (its issues 5511, 5456).
            committed, aborted = Billing(bootstrap, "billing-1"), Billing(bootstrap, "billing-2")
            committed.begin(sent, partition=0)
            aborted.begin(sent + EACH, partition=1)
            before = state_at(cluster, coordinator, "it says all it has")
            assert set(before.groups) >= {MEMBERS, *OFFSETS_ONLY}
            assert before.groups[MEMBERS][0] == "Stable" and len(before.groups[MEMBERS][3]) == 2
            assert {one.transaction_state for one in before.transactions.values()} == {"Ongoing"}

            coordinator = hand_over(cluster, kind, kill=kill)
            after = state_at(cluster, coordinator, "the other has loaded all of it")
            assert after == before._replace(coordinators={coordinator})

            committed.commit()
            aborted.abort()
            eventually(
                lambda: _billed(cluster) == {TopicPartition(TOPIC, 0): sent + EACH},  # noqa: B023
                60.0,
                "offsets of what was committed count, and of nothing else",
            )
            assert _poll(members) == [2, 2]
            sent += 2 * EACH
        assert state_of(cluster).groups[MEMBERS] == before.groups[MEMBERS], "no member joined again"
    finally:
        for member in members:
            member.close()
    bills = Bills(bootstrap)
    try:
        cluster.wait_until(lambda: bills.read() or bills.is_at_end, "all that was committed is read")
    finally:
        bills.close()
    wanted = [number for first in range(0, sent, 2 * EACH) for number in range(first, first + EACH)]
    assert bills.numbers == wanted


def _poll(members: Sequence[Any]) -> list[int]:
    for member in members:
        member.poll(0.1)
    return [len(member.assignment()) for member in members]


def _billed(cluster: MixedCluster) -> dict[TopicPartition, int]:
    """What is committed in the group of the transactions."""
    with SyncClient(cluster.running) as client:
        return sync_groups.committed(client, BILLING)
