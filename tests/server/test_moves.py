"""Reassignments and elections asked for over the wire, by unmodified clients, of whole brokers in one process."""

import json
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ElectionType
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import ConfigResource
from kafka import TopicPartition as Partition
from kafka.errors import (
    InvalidReplicationAssignmentError,
    NoReassignmentInProgressError,
    UnknownTopicOrPartitionError,
)

from odradek.client.sync import SyncClient
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from odradek.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from odradek.records.builder import NewRecord, build_batch
from odradek.store import api, layout
from tests.server.moves import Moves, moves
from tests.support import eventually


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Moves]:
    with moves(tmp_path_factory.mktemp("four")) as asked:
        yield asked


@pytest.fixture
def four_slow(tmp_path: Path) -> Iterator[Moves]:
    """Small fetches: what is throttled is never more than one batch too fast."""
    with moves(tmp_path, replica_fetch_max_bytes="10000") as asked:
        yield asked


# ------------------------------------------------------------------------------------------------ reassignment


@pytest.mark.parametrize(
    ("topic", "before", "after"),
    [
        ("add", (1,), (1, 2)),
        ("remove", (1, 2, 3), (1, 2)),
        ("remove-the-leader", (1, 2, 3), (2, 3)),
        ("move-all", (1, 2), (3, 4)),
        ("move-one", (1, 2), (1, 3)),
        ("reorder", (1, 2, 3), (3, 1, 2)),
    ],
)
def test_a_partition_moves_with_its_records_and_leaves_nothing_behind(
    four: Moves, topic: str, before: tuple[int, ...], after: tuple[int, ...]
) -> None:
    where = four.create(topic, *before)
    four.produce(topic, 20)
    assert four.move(topic, *after) is None
    eventually(lambda: four.settled(topic, *after), what=f"{topic} on {after}")
    assert four.client.end_offsets([where]) == {where: 20}
    four.produce(topic, 1)
    # What the leaders know, the broker that is asked hears a moment later.
    leads = before[0] if before[0] in after else after[0]
    eventually(lambda: four.leader(topic) == leads, what=f"{leads} leads: no leader moves without need")


def test_a_move_under_way_is_listed_replaced_and_cancelled(tmp_path: Path) -> None:
    with moves(tmp_path) as four:
        four.create("slow", 1, 2)
        four.produce("slow", 5)
        with four.not_fetching(4):
            assert four.move("slow", 4, 1) is None
            assert four.running_moves() == {
                "slow": {"replicas": [4, 1, 2], "adding_replicas": [4], "removing_replicas": [2]}
            }
            assert four.admin.list_partition_reassignments([Partition("other", 0)]) == {}
            assert four.move("slow", 4, 3) is None, "another wish takes the place of the first"
            eventually(lambda: 3 in four.hosted(1, "slow").isr, what="3 has caught up, 4 has not")
            assert four.running_moves()["slow"]["replicas"] == [4, 3, 1, 2]
            assert four.cancel("slow") is None
            eventually(lambda: four.settled("slow", 1, 2), what="as before")
            assert four.cancel("slow") is NoReassignmentInProgressError


def test_a_move_goes_on_when_its_target_comes_back(tmp_path: Path) -> None:
    with moves(tmp_path) as four:
        four.create("t", 1, 2)
        four.produce("t", 5)
        with four.not_fetching(4):
            assert four.move("t", 4, 2) is None
            four.running.kill(4)
        assert four.running_moves()["t"]["adding_replicas"] == [4]
        four.running.start(4)
        eventually(lambda: four.settled("t", 4, 2), what="the move is done")


def test_a_throttled_move_is_slow_until_the_throttle_is_lifted(four_slow: Moves) -> None:
    """KIP-73, as kafka-reassign-partitions --throttle does it: lists at the topic, rates at the brokers."""
    four = four_slow
    four.create("big", 1)
    with SyncClient(four.running.bootstrap) as client:
        for _ in range(100):
            client.produce(TopicPartition("big", 0), build_batch([NewRecord(None, b"x" * 9_900)]))
    lists = {f"{side}.replication.throttled.replicas": "*" for side in ("leader", "follower")}
    rates = {f"{side}.replication.throttled.rate": "10000" for side in ("leader", "follower")}
    four.configure(ConfigResource.Type.TOPIC, "big", lists)
    for broker in (1, 2):
        four.configure(ConfigResource.Type.BROKER, str(broker), rates)
    throttles = [r.broker.replicas.leader_throttle for b, r in four.cluster.runtimes.items() if b == 1]
    eventually(lambda: all(t.rate == 10_000 and t.covered for t in throttles), what="the throttle is on")
    assert four.move("big", 2) is None
    eventually(
        lambda: four.hosted(2, "big") and four.hosted(2, "big").log.log_end_offset >= 3, what="it copies"
    )
    assert four.running_moves()["big"]["adding_replicas"] == [2]
    assert four.hosted(2, "big").log.log_end_offset < 50, (
        "a megabyte at 10 KB a second takes a minute and a half"
    )
    for broker in (1, 2):
        four.configure(ConfigResource.Type.BROKER, str(broker), dict.fromkeys(rates, str(2**63 - 1)))
    eventually(lambda: four.settled("big", 2), what="the move is done")
    with SyncClient(four.running.bootstrap) as client:
        assert client.end_offsets([TopicPartition("big", 0)]) == {TopicPartition("big", 0): 100}


def test_what_apache_refuses_is_refused_with_its_words(four: Moves) -> None:
    four.create("refused", 1, 2)
    for replicas, message in (
        ([], "Empty replica list specified in partition reassignment."),
        ([1, 1], "Duplicate replica ids in partition reassignment replica list: [1, 1]"),
        ([1, -2], "Invalid broker id in replica list: [1, -2]"),
        (
            [1, 9],
            "Replica assignment has brokers that are not alive. Replica list: [9], live broker list: [1, 2, 3, 4]",
        ),
    ):
        if replicas:  # kafka-python does not send an empty list
            assert four.move("refused", *replicas) is InvalidReplicationAssignmentError
        assert asked(four, "refused", replicas) == (ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
    assert four.move("nowhere", 1) is UnknownTopicOrPartitionError
    assert asked(four, "nowhere", [1])[1] == "The partition does not exist."
    assert asked(four, "refused", None) == (
        ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
        "No partition reassignment is in progress.",
    )
    assert four.node("refused") == (1, 2)


def asked(four: Moves, topic: str, replicas: list[int] | None) -> tuple[ErrorCode, str | None]:
    request = AlterPartitionReassignmentsRequest(
        topics=[
            ReassignableTopic(
                name=topic, partitions=[ReassignablePartition(partition_index=0, replicas=replicas)]
            )
        ]
    )
    answer = four.client.call(four.controller, request)
    (row,) = answer.responses[0].partitions
    return ErrorCode(row.error_code), row.error_message


def test_only_the_controller_answers(four: Moves) -> None:
    other = next(b for b in four.cluster.ids if b != four.controller)
    text = "This is not the correct controller for this cluster."
    move = four.client.call(other, AlterPartitionReassignmentsRequest())
    assert (move.error_code, move.error_message) == (ErrorCode.NOT_CONTROLLER, text)
    listed = four.client.call(other, ListPartitionReassignmentsRequest())
    assert (listed.error_code, listed.error_message) == (ErrorCode.NOT_CONTROLLER, text)
    everything = four.client.call(other, ElectLeadersRequest(topic_partitions=None))
    assert everything.error_code == ErrorCode.NOT_CONTROLLER
    named = four.client.call(
        other, ElectLeadersRequest(topic_partitions=[TopicPartitions(topic="t", partitions=[3])])
    )
    (row,) = named.replica_election_results[0].partition_result
    assert (row.partition_id, row.error_code) == (3, ErrorCode.NOT_CONTROLLER)


# --------------------------------------------------------------------------------------------------- elections


def elect(four: Moves, kind: ElectionType, *partitions: ClientPartition) -> dict[tuple[str, int], str | None]:
    future: Future[Any] = four.elections.elect_leaders(kind, list(partitions) or None)
    return {(tp.topic, tp.partition): e and e.name() for tp, e in future.result(20).items()}


def test_the_preferred_leader_leads_again_and_whoever_asked_sees_it_at_once(tmp_path: Path) -> None:
    with moves(tmp_path, brokers=3, auto_leader_rebalance_enable="false") as three:
        three.create("t", 1, 2, 3)
        three.create("u", 2, 3)
        three.running.kill(1)
        eventually(lambda: three.leader("t") == 2, what="2 leads")
        asked_for = ClientPartition("t", 0)
        assert elect(three, ElectionType.PREFERRED, asked_for) == {("t", 0): "PREFERRED_LEADER_NOT_AVAILABLE"}
        three.running.start(1)
        eventually(lambda: set(three.hosted(2, "t").isr) == {1, 2, 3}, what="1 is back in the ISR")
        nobody = ClientPartition("nowhere", 0)
        assert elect(three, ElectionType.PREFERRED, asked_for, ClientPartition("u", 0), nobody) == {
            ("t", 0): None,
            ("u", 0): "ELECTION_NOT_NEEDED",
            ("nowhere", 0): "UNKNOWN_TOPIC_OR_PART",
        }
        leading = three.cluster.runtimes[three.controller].broker.metadata.partition("t", 0)
        assert leading is not None and leading.leader == 1, "the answer came when its broker knew"
        assert elect(three, ElectionType.PREFERRED) == {}, "of all, only those that had to be elected"


def test_an_unclean_election_by_hand_loses_as_little_as_can_be(tmp_path: Path) -> None:
    """1 led alone; 2 has half the records, 3 has none: 2 it must be, though 3 stands before it."""
    with moves(tmp_path, brokers=4) as four:
        four.create("t", 1, 3, 2)
        four.produce("t", 4)
        four.running.kill(3)
        four.produce("t", 4)
        four.running.kill(2)
        four.produce("t", 4)
        eventually(lambda: set(four.hosted(1, "t").isr) == {1}, what="1 is alone")
        four.running.kill(1)
        four.running.start(3)
        four.running.start(2)
        asked_for = ClientPartition("t", 0)
        eventually(lambda: four.leader("t") == -1, what="nobody leads")
        eventually(lambda: {2, 3} <= set(four.known_to_the_controller), what="both may be elected")
        assert elect(four, ElectionType.PREFERRED, asked_for) == {("t", 0): "PREFERRED_LEADER_NOT_AVAILABLE"}
        assert elect(four, ElectionType.UNCLEAN, asked_for) == {("t", 0): None}
        assert four.leader("t") == 2
        where = TopicPartition("t", 0)
        assert four.client.end_offsets([where]) == {where: 8}
        assert elect(four, ElectionType.UNCLEAN, asked_for) == {("t", 0): "ELECTION_NOT_NEEDED"}


def test_the_older_nodes_are_still_a_way_in(tmp_path: Path) -> None:
    with moves(tmp_path, auto_leader_rebalance_enable="false") as four:
        four.create("t", 1, 2)
        four.produce("t", 5)
        text = b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[3,1]}]}'

        async def write(path: str, data: bytes) -> None:
            store = await four.session()
            await store.write([api.ConditionalOps((api.Create(path, data),))], None)

        four.running.call(write(layout.REASSIGN_PARTITIONS, text))
        eventually(lambda: four.settled("t", 3, 1), what="moved by the node")
        eventually(lambda: not four.exists(layout.REASSIGN_PARTITIONS), what="and the node is gone")
        assert four.leader("t") == 1
        text = b'{"version":1,"partitions":[{"topic":"t","partition":0}]}'
        four.running.call(write(layout.PREFERRED_ELECTION, text))
        eventually(lambda: not four.exists(layout.PREFERRED_ELECTION), what="the node is gone")
        eventually(lambda: four.leader("t") == 3, what="the preferred one leads")


@pytest.mark.behaviour(166)
def test_allowing_unclean_elections_elects_at_once(tmp_path: Path) -> None:
    with moves(tmp_path, brokers=3) as three:
        three.create("t", 1, 2)
        three.produce("t", 3)
        three.running.kill(2)
        three.produce("t", 3)
        three.running.kill(1)
        three.running.start(2)
        eventually(lambda: three.leader("t") == -1, what="nobody who may lead is there")
        three.configure(ConfigResource.Type.TOPIC, "t", {"unclean.leader.election.enable": "true"})
        eventually(lambda: three.leader("t") == 2, what="2 leads, with half of the records")
        with SyncClient(three.running.bootstrap) as client:
            assert client.end_offsets([TopicPartition("t", 0)]) == {TopicPartition("t", 0): 3}


@pytest.mark.behaviour(161)
def test_leaders_go_home_by_themselves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odradek.controller.dispatch.FIRST_CHECK_MS", 100)
    settings = {"auto_leader_rebalance_enable": "true", "leader_imbalance_check_interval_seconds": "1"}
    with moves(tmp_path, brokers=3, **settings) as three:
        three.create("t", 1, 2, 3)
        three.running.kill(1)
        eventually(lambda: three.leader("t") == 2, what="2 leads")
        three.running.start(1)
        eventually(lambda: three.leader("t") == 1, what="1 is preferred, in sync again, and leads again")


# ------------------------------------------------------------------------------------ notifications of old brokers


def test_an_isr_that_a_leader_wrote_itself_is_taken_in_and_told(four: Moves) -> None:
    """As brokers before AlterPartition did (KAFKA-2073's way): the state node first, then `/isr_change_notification`."""
    partition = four.create("shrunk", 1, 2, 3)
    path = layout.state_path(partition)

    async def shrink() -> None:
        store = await four.session()
        node = await store.get(path)
        value = json.loads(node.data)
        value["isr"] = [1, 2]
        await store.set(path, json.dumps(value).encode(), version=node.stat.version)
        told = {"version": 1, "partitions": [{"topic": "shrunk", "partition": 0}]}
        await store.create(layout.ISR_CHANGE, json.dumps(told).encode(), sequential=True)

    four.running.call(shrink())

    def is_told() -> bool:
        caches = [
            runtime.broker.metadata.partition("shrunk", 0) for runtime in four.cluster.runtimes.values()
        ]
        return all(known is not None and set(known.isr) == {1, 2} for known in caches)

    eventually(is_told, what="every broker's cache has the smaller ISR")

    async def notifications() -> list[str]:
        return list(await (await four.session()).children(layout.ISR_CHANGES))

    eventually(lambda: four.running.call(notifications()) == [], what="the notification is taken away")
