"""Consumers read from a replica in their rack (KIP-392): the leader sends them there, the follower gives what is committed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from odradek.broker.request import ConnectionInfo
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.model.settings import RACK_AWARE_SELECTOR, REPLICA_SELECTORS
from odradek.protocol.messages import fetch as fm
from odradek.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from odradek.records.control import build_end_marker
from tests.broker.fetched import T_0, T_1, T, rows, values
from tests.broker.test_fetch import Reader
from tests.broker.world import LISTENER, TOPIC_ID, Pending, World, batch

T0 = TopicPartition("t", 0)
LEADER_SELECTOR = REPLICA_SELECTORS[0]
RECORDS = [b"a", b"b", b"c"]


def world_of(path: Path, racks: dict[int, str], **options: Any) -> World:
    """Broker 1 leads `t`, which has three records on every broker of `racks`."""
    settings = {"replica_selector_class": RACK_AWARE_SELECTOR, **options}
    world = World(path, brokers=racks, **settings)
    world.racks = racks
    world.lead(1, isr=racks, replicas=racks, is_new=True)
    world.produce(1, *RECORDS)
    world.advance(10)
    return world


@pytest.fixture
def world(tmp_path: Path) -> World:
    return world_of(tmp_path, {1: "a", 2: "b", 3: "c"})


def sent_to(pending: Pending) -> int:
    """The replica that the answer names; it then has no records, and -1 is none."""
    row = rows(pending)[T_0]
    assert row.error_code == 0
    replica = int(row.preferred_read_replica)
    assert values(row) == ([] if replica >= 0 else RECORDS)
    return replica


def open_transaction(world: World, value: bytes) -> None:
    data = batch(value, producer_id=9, producer_epoch=0, base_sequence=0, is_transactional=True)
    append(world, data)


def abort(world: World) -> None:
    append(
        world,
        build_end_marker(producer_id=9, producer_epoch=0, is_commit=False, coordinator_epoch=0, timestamp=5),
    )


def append(world: World, data: bytes) -> None:
    partition = world[1].partition()
    partition.append(memoryview(bytearray(data)), acks=1, now_ms=world.now_ms, from_coordinator=True)


# ---------------------------------------------------------------------------------------------------- whom the leader names


@pytest.mark.parametrize("version", range(11, 18))
def test_a_consumer_is_sent_to_the_follower_in_its_rack_at_once_and_without_records(
    world: World, version: int
) -> None:
    open_transaction(world, b"d")
    world.advance(10)
    world.cut |= {(2, 1), (3, 1)}
    world.produce(1, b"e", acks=1)
    answer = world.consume(
        1, 0, rack="b", version=version, isolation_level=1, max_wait_ms=60_000, min_bytes=1_000_000
    )
    row = answer.message.responses[0].partitions[0]
    assert (row.error_code, row.preferred_read_replica, bytes(row.records)) == (0, 2, b"")
    assert (row.high_watermark, row.last_stable_offset, row.log_start_offset) == (4, 3, 0)
    assert row.aborted_transactions is None


def test_the_follower_that_is_named_gives_the_records(world: World) -> None:
    replica = sent_to(world.consume(1, 0, rack="b"))
    assert values(rows(world.consume(replica, 0, rack="b"))[T_0]) == RECORDS


def test_who_is_in_no_rack_of_a_replica_or_says_none_reads_from_the_leader(world: World) -> None:
    assert sent_to(world.consume(1, 0, rack="elsewhere")) == -1
    assert sent_to(world.consume(1, 0, rack="")) == -1
    row = world.consume(1, 0, version=10).message.responses[0].partitions[0]
    assert values(row) == RECORDS, "version 10 knows no racks"


def test_brokers_without_a_rack_are_in_nobodys(world: World) -> None:
    world.racks = {}
    world.notify_metadata()
    assert sent_to(world.consume(1, 0, rack="b")) == -1


def test_the_leader_comes_first_in_its_own_rack(tmp_path: Path) -> None:
    world = world_of(tmp_path, {1: "a", 2: "a"})
    assert sent_to(world.consume(1, 0, rack="a")) == -1


@pytest.mark.parametrize(
    "setting", [{}, {"replica_selector_class": LEADER_SELECTOR}], ids=["unset", "leader"]
)
def test_without_the_rack_aware_selector_everybody_reads_from_the_leader(
    tmp_path: Path, setting: dict[str, str]
) -> None:
    world = World(tmp_path, brokers=(1, 2), **setting)
    world.racks = {1: "a", 2: "b"}
    world.lead(1, isr=(1, 2), replicas=(1, 2), is_new=True)
    world.produce(1, *RECORDS)
    world.advance(10)
    assert sent_to(world.consume(1, 0, rack="b")) == -1


def dies(world: World) -> None:
    world.kill(2)
    world.notify_metadata()


def is_proposed_for_the_isr(world: World) -> None:
    """It has everything, and the controller has not answered yet."""
    world.on_alter = "hold"
    world.lead(1, isr=(1, 3))
    assert world[1].partition().followers[2].is_in_maximal_isr


def is_behind(world: World) -> None:
    world[1].partition().followers[2].log_end_offset = 1


def begins_later(world: World) -> None:
    world[1].partition().followers[2].log_start_offset = 3


def has_not_fetched_in_this_epoch(world: World) -> None:
    world.cut.add((2, 1))
    world.lead(1)


@pytest.mark.parametrize(
    "change", [dies, is_proposed_for_the_isr, is_behind, begins_later, has_not_fetched_in_this_epoch]
)
def test_a_follower_is_not_named_that(world: World, change: Callable[[World], None]) -> None:
    assert sent_to(world.consume(1, 2, rack="b")) == 2
    change(world)
    assert sent_to(world.consume(1, 2, rack="b")) == -1


def test_a_follower_is_not_named_that_the_readers_listener_does_not_lead_to(world: World) -> None:
    outside = ConnectionInfo(9_000, "10.0.0.1:5", "OUTSIDE")
    assert sent_to(world.consume(1, 0, rack="b", connection=outside)) == -1
    inside = ConnectionInfo(9_001, "10.0.0.1:6", LISTENER)
    assert sent_to(world.consume(1, 0, rack="b", connection=inside)) == 2


def test_of_several_the_one_is_named_whose_log_ends_last_then_who_was_caught_up_last(tmp_path: Path) -> None:
    world = world_of(tmp_path, {1: "a", 2: "b", 3: "b", 4: "b"})
    followers = world[1].partition().followers
    for broker, follower in followers.items():
        follower.source, follower.last_fetch_time_ms = None, 1_000
        follower.log_end_offset = 3 if broker != 4 else 2
    assert sent_to(world.consume(1, 0, rack="b")) == 3, "the larger id of two that are equal"
    followers[2].last_fetch_time_ms = 1_001
    assert sent_to(world.consume(1, 0, rack="b")) == 2, "it was caught up later"
    followers[3].log_end_offset = followers[2].log_end_offset = 1
    assert sent_to(world.consume(1, 0, rack="b")) == 4, "its log ends later"
    world.cut |= {(2, 1), (3, 1), (4, 1)}
    world.produce(1, b"d", acks=1)
    for follower in followers.values():
        follower.log_end_offset, follower.last_fetch_time_ms = 3, 5_000
        follower.last_caught_up_time_ms = 1_000
    followers[2].last_caught_up_time_ms = 1_001
    assert sent_to(world.consume(1, 0, rack="b")) == 2, "who lags has not been caught up since"


def test_a_reader_of_another_epoch_is_fenced_and_not_sent_on(world: World) -> None:
    world.lead(1)
    fenced = rows(world.consume(1, 0, rack="b", leader_epoch=0))[T_0]
    assert (fenced.error_code, fenced.preferred_read_replica) == (ErrorCode.FENCED_LEADER_EPOCH, -1)
    unknown = rows(world.consume(1, 0, rack="b", leader_epoch=5))[T_0]
    assert unknown.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert sent_to(world.consume(1, 0, rack="b", leader_epoch=1)) == 2


def test_a_replica_that_says_a_rack_gets_its_records(world: World) -> None:
    request = fm.FetchRequest(
        replica_id=3,
        replica_state=fm.ReplicaState(replica_id=3, replica_epoch=-1),
        rack_id="b",
        session_epoch=-1,
        topics=[
            fm.FetchTopic(
                topic_id=TOPIC_ID,
                partitions=[fm.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)],
            )
        ],
    )
    assert sent_to(world.send(1, request, 17)) == -1


def test_who_waits_at_the_leader_is_sent_on_with_the_next_record(world: World) -> None:
    """The follower was not in the ISR when the fetch came."""
    world.cut.add((2, 1))
    world.lead(1, isr=(1, 3))
    waiting = world.consume(1, 3, rack="b", max_wait_ms=60_000)
    assert not waiting.is_answered
    world.cut.clear()
    world.watch(lambda: 2 in world[1].partition().isr)
    assert not waiting.is_answered, "nothing to read, here or there"
    world.produce(1, b"d")
    world.advance(10)
    assert sent_to(waiting) == 2


# ------------------------------------------------------------------------------------------------------------- sessions


def test_a_session_names_the_replica_with_every_answer_until_the_partition_is_taken_out(world: World) -> None:
    world.lead(1, isr=(1, 2, 3), replicas=(1, 2, 3), index=1, is_new=True)
    reader = Reader(world, rack_id="b", max_wait_ms=60_000)
    answer = reader.fetch((T, 0, 0), (T, 1, 0))
    assert {key: row.preferred_read_replica for key, row in rows(answer).items()} == {T_0: 2, T_1: 2}
    again = reader.fetch()
    assert again.is_answered and rows(again).keys() == {T_0, T_1}
    waiting = reader.fetch(forget=[(T, 0), (T, 1)])
    assert waiting.is_answered and not rows(waiting), "nothing is left to wait for"


def test_a_session_tells_when_the_choice_changes(world: World) -> None:
    reader = Reader(world, rack_id="b")
    assert sent_to(reader.fetch((T, 0, 0))) == 2
    world.cut.add((2, 1))
    world.lead(1, isr=(1, 3))
    assert sent_to(reader.fetch()) == -1, "2 is in sync no more: the leader gives the records itself"
    world.cut.clear()
    world.watch(lambda: 2 in world[1].partition().isr)
    assert sent_to(reader.fetch((T, 0, 2))) == 2


# -------------------------------------------------------------------------------------------------- what a follower gives


@pytest.fixture
def lagging(tmp_path: Path) -> World:
    """Follower 2 has five records and believes that three of them are committed; its log begins at 1."""
    world = world_of(tmp_path, {1: "a", 2: "b", 3: "c"})
    world[1].partition().delete_records(1)
    world.advance(10)
    world.cut.add((3, 1))
    world.produce(1, b"d", b"e", acks=1)
    world.advance(10)
    log = world[2].partition().log
    assert (log.log_start_offset, world[2].partition().high_watermark, log.log_end_offset) == (1, 3, 5)
    return world


@pytest.mark.parametrize(
    ("offset", "error"),
    [
        (0, ErrorCode.OFFSET_OUT_OF_RANGE),
        (1, ErrorCode.NONE),
        (3, ErrorCode.NONE),
        (4, ErrorCode.NONE),
        (5, ErrorCode.NONE),
        (6, ErrorCode.OFFSET_OUT_OF_RANGE),
    ],
)
def test_a_follower_gives_what_is_committed_nothing_up_to_its_log_end_and_refuses_what_is_outside(
    lagging: World, offset: int, error: ErrorCode
) -> None:
    row = rows(lagging.consume(2, offset, rack="b"))[T_0]
    assert (row.error_code, values(row)) == (error, RECORDS if offset == 1 else [])
    assert row.preferred_read_replica == -1, "only a leader sends on"
    if not error:
        assert (row.high_watermark, row.log_start_offset) == (3, 1)


def test_versions_that_know_no_followers_are_for_the_leader(world: World) -> None:
    for version in range(4, 11):
        row = world.consume(2, 0, version=version).message.responses[0].partitions[0]
        assert row.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert values(world.consume(2, 0, version=11).message.responses[0].partitions[0]) == RECORDS


def test_a_broker_without_a_replica_names_the_leader(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.lead(1, isr=(1, 2), replicas=(1, 2), is_new=True)
    row = rows(world.consume(3, 0, version=16))[T_0]
    assert row.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (row.current_leader.leader_id, row.current_leader.leader_epoch) == (1, 0)


def test_a_follower_fences_readers_of_another_epoch(world: World) -> None:
    world.lead(1)
    for epoch, error in (
        (0, ErrorCode.FENCED_LEADER_EPOCH),
        (1, ErrorCode.NONE),
        (2, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ):
        assert rows(world.consume(2, 0, leader_epoch=epoch))[T_0].error_code == error


def test_offsets_and_ends_of_epochs_are_the_leaders_to_tell(world: World) -> None:
    request = ListOffsetsRequest(
        replica_id=-1,
        topics=[
            ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
        ],
    )
    assert world.send(2, request, 7).message.topics[0].partitions[0].error_code == (
        ErrorCode.NOT_LEADER_OR_FOLLOWER
    )


def test_a_follower_gives_read_committed_what_is_stable_and_names_the_aborts(world: World) -> None:
    open_transaction(world, b"open")
    world.produce(1, b"d")
    world.advance(10)
    row = rows(world.consume(2, 0, isolation_level=1))[T_0]
    assert (row.high_watermark, row.last_stable_offset, values(row)) == (5, 3, RECORDS)
    waiting = world.consume(2, 3, isolation_level=1, max_wait_ms=60_000)
    assert not waiting.is_answered

    abort(world)
    world.advance(10)
    row = rows(waiting)[T_0]
    assert (row.last_stable_offset, [(a.producer_id, a.first_offset) for a in row.aborted_transactions]) == (
        6,
        [(9, 3)],
    )


def test_an_abort_that_the_follower_has_and_does_not_know_as_committed_ends_nothing_yet(world: World) -> None:
    open_transaction(world, b"open")
    world.advance(10)
    world.cut.add((3, 1))
    abort(world)
    world.advance(10)
    assert world[2].partition().log.log_end_offset == 5
    row = rows(world.consume(2, 0, isolation_level=1))[T_0]
    assert (row.high_watermark, row.last_stable_offset, values(row)) == (4, 3, RECORDS)


# ---------------------------------------------------------------------------------------------- who waits at a follower


def becomes_leader(world: World) -> None:
    world.lead(2)


def follows_another(world: World) -> None:
    world.lead(3)


def has_no_leader(world: World) -> None:
    world.lead(-1)


def is_deleted(world: World) -> None:
    assert world.stop_replica(2, T0, leader_epoch=0, delete=True) == ErrorCode.NONE
    world.settle()


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (becomes_leader, ErrorCode.NONE),
        (follows_another, ErrorCode.NONE),
        (has_no_leader, ErrorCode.NONE),
        (is_deleted, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_who_waits_at_a_follower_is_answered_at_once_when_it(
    world: World, change: Callable[[World], None], error: ErrorCode
) -> None:
    waiting = world.consume(2, 3, max_wait_ms=60_000)
    assert not waiting.is_answered
    before = world.now_ms
    change(world)
    assert waiting.is_answered and world.now_ms == before
    assert rows(waiting)[T_0].error_code == error


def test_who_waits_at_a_follower_with_an_epoch_is_fenced_by_the_next_one(world: World) -> None:
    waiting = world.consume(2, 3, max_wait_ms=60_000, leader_epoch=0)
    world.lead(1)
    assert rows(waiting)[T_0].error_code == ErrorCode.FENCED_LEADER_EPOCH


def test_what_a_follower_gives_is_never_cut_off(lagging: World) -> None:
    """The leader dies with two records that follower 2 has, and that were never committed: 3 leads, 2 is cut."""
    given = values(rows(lagging.consume(2, 1))[T_0])
    waiting = lagging.consume(2, 3, max_wait_ms=60_000)
    lagging.kill(1)
    lagging.cut.clear()
    lagging.lead(3, isr=(3, 2))
    lagging.produce(3, b"other")
    lagging.advance(2_000)
    assert values(rows(waiting)[T_0]) == []
    assert values(rows(lagging.consume(2, 3))[T_0]) == [b"other"]
    assert lagging[2].values() == [*given, b"other"]
