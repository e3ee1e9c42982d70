"""Partitions of the internal topics in which stands what no coordinator of this release wrote, less than was committed, or of
which there are others than before: bounded trouble, and the next request is served."""

from pathlib import Path
from typing import Any

import pytest

from odradek.broker import effects as fx
from odradek.coordinator.partitioning import partition_of
from odradek.model.error_codes import ErrorCode
from odradek.model.topic_names import GROUPS_TOPIC, TRANSACTIONS_TOPIC
from odradek.protocol.messages.end_txn import EndTxnRequest
from odradek.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from odradek.records.builder import NewRecord, build_batch
from tests.broker.test_transaction_version_2 import end, made, write
from tests.broker.test_transactions import (
    COORDINATOR,
    GROUPS,
    ID,
    LEADER,
    add,
    add_offsets,
    commit_offset,
    committed,
    init,
    offsets_request,
    state,
)
from tests.broker.test_transactions import end as end_v1
from tests.broker.world import World

IDS = {TRANSACTIONS_TOPIC: b"x" * 16, GROUPS_TOPIC: b"o" * 16}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return made(tmp_path)


def put(
    world: World, leader: int, topic: str, *records: tuple[bytes | None, bytes | None], **options: Any
) -> None:
    """As another broker, of another release or another make, might have written them."""
    batch = build_batch([NewRecord(key, value, 1) for key, value in records], **options)
    partition = world[leader].partition(topic)
    partition.append(memoryview(bytearray(batch)), acks=-1, now_ms=world.now_ms, from_coordinator=True)
    world.settle()


def move(world: World, topic: str, to: int) -> None:
    world.lead(to, topic=topic, topic_id=IDS[topic])
    world.advance(1_000)


def left_out(world: World, broker: int) -> int:
    lines = [one.text for one in world[broker].told if isinstance(one, fx.LogLine)]
    return sum("left out while loading" in line for line in lines)


def test_what_is_no_record_of_a_group_costs_no_other(world: World) -> None:
    producer = init(world)
    assert commit_offset(world, producer, 5) == 0
    assert end(world, producer).error_code == 0
    garbage = [
        (None, b"x"),
        (b"", b""),
        (b"\0\1", b"\0\3"),
        (b"\0\1\0\1g\0\1t\0\0\0\0", b"\0\x63later"),  # an offset in a later version of its value
        (b"\0\2\0\1g", b"\xff\xff"),
    ]
    put(world, GROUPS, GROUPS_TOPIC, *garbage, (b"\0\x63a later kind of key", b"x"))

    move(world, GROUPS_TOPIC, LEADER)

    assert left_out(world, LEADER) == 5
    assert fetched_at(world, LEADER) == 7
    assert commit_at(world, LEADER, producer) == 0


def fetched_at(world: World, broker: int) -> int:
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)])
    (group,) = world.call(broker, request, 8).groups
    (topic,) = group.topics
    return int(topic.partitions[0].committed_offset)


def commit_at(world: World, broker: int, producer: tuple[int, int]) -> int:
    answer = world.call(broker, offsets_request((producer[0], producer[1] + 1)), 5)
    return int(answer.topics[0].partitions[0].error_code)


def test_a_marker_in_the_topic_of_transactions_ends_nothing_there(world: World) -> None:
    producer = init(world)
    assert write(world, producer, b"a", 0) == 0
    put(
        world,
        COORDINATOR,
        TRANSACTIONS_TOPIC,
        (b"\0\0\0\1y", None),
        producer_id=producer[0],
        producer_epoch=0,
    )

    move(world, TRANSACTIONS_TOPIC, 3)

    assert state(world, 3) == "Ongoing"


def test_a_decision_that_an_unclean_election_lost_is_made_again_by_the_retry_of_its_owner(
    world: World,
) -> None:
    producer = init(world)
    assert write(world, producer, b"a", 0) == 0
    world.cut |= {(LEADER, COORDINATOR), (COORDINATOR, LEADER)}
    world.lead(COORDINATOR, isr=(2, 3), topic=TRANSACTIONS_TOPIC, topic_id=IDS[TRANSACTIONS_TOPIC])
    assert end(world, producer).error_code == 0, "and its markers reach nobody"
    for broker in (COORDINATOR, 3):
        world.kill(broker)
    world.lead(LEADER, isr=(1,))
    world.lead(LEADER, isr=(1,), topic=TRANSACTIONS_TOPIC, topic_id=IDS[TRANSACTIONS_TOPIC])
    world.advance(1_000)
    assert state(world, LEADER) == "Ongoing", "as far as its log goes"

    again = world.call(LEADER, end_request(producer), 5)

    assert (again.error_code, again.producer_epoch) == (0, producer[1] + 1)
    assert state(world, LEADER) == "CompleteCommit"
    assert committed(world) == (2, [])


def end_request(producer: tuple[int, int]) -> Any:
    return EndTxnRequest(
        transactional_id=ID, producer_id=producer[0], producer_epoch=producer[1], committed=True
    )


def test_when_the_topic_of_transactions_grows_what_is_open_is_ended_where_it_is_known(world: World) -> None:
    """Its owner is sent to a partition that does not know it; the one that does goes by its time-out."""
    partitions = next(count for count in range(2, 9) if partition_of(ID, count))
    producer = init(world)
    assert write(world, producer, b"a", 0) == 0
    for index in range(1, partitions):
        world.lead(3, topic=TRANSACTIONS_TOPIC, index=index, topic_id=IDS[TRANSACTIONS_TOPIC], is_new=True)
    world.advance(10)

    assert end(world, producer).error_code == ErrorCode.NOT_COORDINATOR
    assert world.call(3, end_request(producer), 5).error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    world.advance(75_000)

    assert committed(world) == (2, [(producer[0], 0)])
    assert write(world, producer, b"late", 1) == ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_when_the_topic_of_groups_grows_a_transaction_that_committed_to_one_ends_all_the_same(
    world: World,
) -> None:
    producer = init(world)
    assert add(world, producer) == 0
    assert add_offsets(world, producer) == 0
    assert commit_offset(world, producer) == 0
    world.lead(GROUPS, topic=GROUPS_TOPIC, index=1, topic_id=IDS[GROUPS_TOPIC], is_new=True)
    world.advance(10)

    assert end_v1(world, producer) == 0

    assert state(world) == "CompleteCommit"
