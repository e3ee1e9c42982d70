"""Fetch by consumers: long polls, sessions, limits, what a reader may see."""

import gc
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from odradek.broker import fetch_sessions, row_limits
from odradek.broker.answers import Reply
from odradek.broker.fetch_sessions import INT32_MAX, MIN_EVICTION_MS, WantedPartition
from odradek.broker.handlers import fetch
from odradek.broker.request import ConnectionInfo
from odradek.log.partition_log import PartitionLog
from odradek.log.reading import LogRead
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import NO_TOPIC_ID, TopicPartition
from odradek.protocol.messages import fetch as fm
from tests.broker.fetched import T_0, T_1, U_0, U_ID, T, U, rows, values
from tests.broker.world import Pending, World, batch
from tests.support import no_collector

T0 = TopicPartition("t", 0)


@pytest.fixture
def world(tmp_path: Path) -> World:
    """One broker, topics t (2 partitions) and u, one replica each."""
    world = World(tmp_path, brokers=(1,), max_incremental_fetch_session_cache_slots="3")
    for index in (0, 1):
        world.lead(1, isr=(1,), replicas=(1,), index=index, is_new=True)
    world.lead(1, isr=(1,), replicas=(1,), topic="u", topic_id=U_ID, is_new=True)
    return world


class Reader:
    """A consumer with a fetch session of its own."""

    def __init__(self, world: World, connection: ConnectionInfo | None = None, **options: Any) -> None:
        self.world = world
        self.session_id = 0
        self.session_epoch = 0
        self.options = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 24} | options
        self.connection = connection or world.connection()

    def fetch(
        self,
        *wanted: tuple[bytes, int, int],
        forget: list[tuple[bytes, int]] | None = None,
        version: int = 13,
        **options: Any,
    ) -> Pending:
        """`wanted`: topic id, partition, offset."""
        request = fm.FetchRequest(
            session_id=self.session_id,
            session_epoch=self.session_epoch,
            topics=[
                fm.FetchTopic(
                    topic="t",
                    topic_id=topic_id,
                    partitions=[
                        fm.FetchPartition(
                            partition=index,
                            fetch_offset=offset,
                            partition_max_bytes=options.get("partition_max_bytes", 1 << 20),
                        )
                    ],
                )
                for topic_id, index, offset in wanted
            ],
            forgotten_topics_data=[
                fm.ForgottenTopic(topic="t", topic_id=topic_id, partitions=[index])
                for topic_id, index in forget or []
            ],
            **{**self.options, **{k: v for k, v in options.items() if k != "partition_max_bytes"}},
        )
        pending = self.world.send(1, request, version, connection=self.connection)
        if pending.is_answered:
            self.note(pending)
        return pending

    def note(self, pending: Pending) -> Pending:
        if pending.message.error_code == 0:
            self.session_id = pending.message.session_id
            self.session_epoch += 1
        return pending


# ------------------------------------------------------------------------------------------------- without session


@pytest.mark.parametrize("version", range(4, 18))
def test_every_version_of_fetch_reads(world: World, version: int) -> None:
    world.produce(1, b"a", b"b")
    row = world.consume(1, 0, version=version).message.responses[0].partitions[0]
    assert (row.error_code, row.high_watermark) == (0, 2)
    assert values(row) == [b"a", b"b"]


@pytest.mark.parametrize(("offset", "max_wait_ms"), [(0, 0), (0, 500), (1, 0), (1, 500), (9, 500)])
def test_a_fetch_without_a_session_leaves_nothing_that_only_the_collector_finds(
    world: World, offset: int, max_wait_ms: int
) -> None:
    """It would hold the partition, also one that was deleted since, and its files with it."""
    world.produce(1, b"a")
    gc.collect()
    with no_collector():
        waiting = world.consume(1, offset, max_wait_ms=max_wait_ms)
        world.advance(1_000)
        assert waiting.is_answered
        left = [one for one in gc.get_objects() if isinstance(one, WantedPartition)]
        assert [one for one in left if one.session.replica_id < 0] == []


def test_an_offset_inside_a_batch_returns_the_whole_batch(world: World) -> None:
    world.produce(1, b"a", b"b", b"c")
    assert values(rows(world.consume(1, 1))[T_0]) == [b"a", b"b", b"c"]


@pytest.mark.parametrize(("version", "error"), [(9, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE), (10, 0)])
def test_topics_in_zstd_are_for_readers_that_know_it(world: World, version: int, error: int) -> None:
    world.produce(1, b"a")
    world[1].broker.topic_config_changed("t", {"compression.type": "zstd"}, world.now_ms)
    row = world.consume(1, 0, version=version).message.responses[0].partitions[0]
    assert (row.error_code, values(row)) == (error, [] if error else [b"a"])


def test_the_first_batch_comes_even_above_the_limits(world: World) -> None:
    world.produce(1, b"x" * 5_000)
    world.produce(1, b"y" * 5_000, index=1)
    request = Reader(world, max_bytes=100)
    answer = rows(request.fetch((T, 0, 0), (T, 1, 0), partition_max_bytes=10))
    assert values(answer[T_0]) == [b"x" * 5_000]
    assert bytes(answer[T_1].records) == b"", "there was no room for a second"


@pytest.mark.parametrize(("offset", "error"), [(0, 0), (2, 0), (3, 1), (-1, 1)])
def test_outside_the_log_is_out_of_range(world: World, offset: int, error: int) -> None:
    world.produce(1, b"a", b"b")
    assert rows(world.consume(1, offset))[T_0].error_code == error


def test_below_the_start_is_out_of_range_and_the_start_is_told(world: World) -> None:
    world.produce(1, b"a", b"b")
    world[1].partition().delete_records(2)
    row = rows(world.consume(1, 1))[T_0]
    assert (row.error_code, row.log_start_offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, 2)


def test_epochs_are_fenced_both_ways_and_the_new_leader_is_named(world: World) -> None:
    world.lead(1, isr=(1,), replicas=(1,), epoch=3)
    assert rows(world.consume(1, 0, leader_epoch=3))[T_0].error_code == 0
    assert rows(world.consume(1, 0, leader_epoch=4))[T_0].error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    answer = world.consume(1, 0, leader_epoch=2, version=16)
    row = rows(answer)[T_0]
    assert row.error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert (row.current_leader.leader_id, row.current_leader.leader_epoch) == (1, 3)
    assert [(n.node_id, n.host, n.port) for n in answer.message.node_endpoints] == [(1, "localhost", 9001)]


def test_unknown_topics_by_id_and_by_name(world: World) -> None:
    assert rows(world.consume(1, 0, topic_id=bytes([9] * 16)))[9, 0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert rows(world.consume(1, 0, index=7))[1, 7].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    by_name = world.consume(1, 0, topic="none", version=12).message.responses[0].partitions[0]
    assert by_name.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_no_topic_is_found_by_the_id_of_those_that_have_none(world: World) -> None:
    """A controller of an old release gives none; each such topic would be read as the last of them."""
    world.lead(1, isr=(1,), replicas=(1,), topic="old", topic_id=NO_TOPIC_ID, is_new=True)
    world.produce(1, b"a", topic="old")
    (row,) = rows(Reader(world).fetch((NO_TOPIC_ID, 0, 0))).values()
    assert (row.error_code, values(row)) == (ErrorCode.UNKNOWN_TOPIC_ID, [])
    assert values(world.consume(1, 0, topic="old", version=12).message.responses[0].partitions[0]) == [b"a"]


def test_a_divergence_is_told_to_consumers_too(world: World) -> None:
    world.produce(1, b"a", b"b")
    world.lead(1, isr=(1,), replicas=(1,), epoch=3)
    row = rows(world.consume(1, 3, last_fetched_epoch=1))[T_0]
    assert (row.error_code, row.diverging_epoch.epoch, row.diverging_epoch.end_offset) == (0, 0, 2)


@pytest.mark.behaviour("P11")
def test_read_committed_stops_at_the_first_open_transaction(world: World) -> None:
    world.produce(1, b"a")
    open_one = batch(b"open", producer_id=9, producer_epoch=0, base_sequence=0, is_transactional=True)
    partition = world[1].partition()
    partition.append(memoryview(bytearray(open_one)), acks=1, now_ms=world.now_ms, from_coordinator=True)
    world.produce(1, b"b")
    row = rows(world.consume(1, 0, isolation_level=1))[T_0]
    assert (row.high_watermark, row.last_stable_offset) == (3, 1)
    assert values(row) == [b"a"]
    assert row.aborted_transactions == []
    assert values(rows(world.consume(1, 0))[T_0]) == [b"a", b"open", b"b"]
    from odradek.records.control import build_end_marker

    abort = build_end_marker(
        producer_id=9, producer_epoch=0, is_commit=False, coordinator_epoch=0, timestamp=5
    )
    partition.append(memoryview(bytearray(abort)), acks=1, now_ms=world.now_ms, from_coordinator=True)
    row = rows(world.consume(1, 0, isolation_level=1))[T_0]
    assert row.last_stable_offset == 4
    assert [(a.producer_id, a.first_offset) for a in row.aborted_transactions] == [(9, 1)]


def test_read_committed_names_the_aborts_of_what_it_is_sent_and_not_all_that_follow(world: World) -> None:
    from odradek.records.control import build_end_marker

    partition = world[1].partition()
    for number in range(20):
        of = {"producer_id": 100 + number, "producer_epoch": 0}
        data = batch(b"x" * 6_000, base_sequence=0, is_transactional=True, **of)
        abort = build_end_marker(**of, is_commit=False, coordinator_epoch=0, timestamp=5)
        for each in (data, abort):
            partition.append(memoryview(bytearray(each)), acks=1, now_ms=world.now_ms, from_coordinator=True)
    row = rows(world.consume(1, 10, isolation_level=1, max_bytes=10_000))[T_0]
    named = [(a.producer_id, a.first_offset) for a in row.aborted_transactions]
    assert named[0] == (105, 10) and 2 <= len(named) <= 4
    row = rows(world.consume(1, 0, isolation_level=1))[T_0]
    assert [a.producer_id for a in row.aborted_transactions] == list(range(100, 120))


# -------------------------------------------------------------------------------------------------------- long polls


def test_a_fetch_waits_for_records_and_is_answered_in_the_turn_they_come(world: World) -> None:
    waiting = world.consume(1, 0, max_wait_ms=60_000)
    assert not waiting.is_answered
    world.produce(1, b"a")
    world.settle()
    assert values(rows(waiting)[T_0]) == [b"a"]


def test_a_fetch_waits_no_longer_than_it_said(world: World) -> None:
    waiting = world.consume(1, 0, max_wait_ms=500)
    world.advance(499)
    assert not waiting.is_answered
    world.advance(10)
    row = rows(waiting)[T_0]
    assert (row.error_code, values(row)) == (0, [])


def test_a_fetch_waits_as_long_as_it_said_however_often_it_is_woken_for_too_little(world: World) -> None:
    waiting = world.consume(1, 0, max_wait_ms=500, min_bytes=1 << 20)
    for _ in range(3):
        world.produce(1, b"x")
        world.advance(160)
        assert not waiting.is_answered
    world.advance(30)
    assert values(rows(waiting)[T_0]) == [b"x"] * 3


def test_a_fetch_waits_until_there_are_min_bytes_of_all_its_partitions_together(world: World) -> None:
    size = len(batch(b"x" * 100))
    reader = Reader(world, max_wait_ms=60_000, min_bytes=3 * size)
    waiting = reader.fetch((T, 0, 0), (T, 1, 0), (U, 0, 0))
    for index in (0, 1):
        world.produce(1, b"x" * 100, index=index)
        world.settle()
        assert not waiting.is_answered
    world.produce(1, b"x" * 100, topic="u")
    world.settle()
    assert {key: len(values(row)) for key, row in rows(waiting).items()} == {T_0: 1, T_1: 1, U_0: 1}


def test_a_fetch_does_not_wait_for_more_bytes_than_its_answer_holds(tmp_path: Path) -> None:
    """As in Apache: an answer that is full would be held back for all of max.wait, each time."""
    world = World(tmp_path, brokers=(1,), fetch_max_bytes="1024")
    for index in (0, 1):
        world.lead(1, isr=(1,), replicas=(1,), index=index, is_new=True)
    reader = Reader(world, max_wait_ms=60_000, min_bytes=1 << 20)
    waiting = reader.fetch((T, 0, 0), (T, 1, 0))
    world.produce(1, b"x" * 700)
    world.settle()
    assert not waiting.is_answered
    world.produce(1, b"x" * 700, index=1)
    world.settle()
    answer = rows(reader.note(waiting))
    assert [key for key, row in answer.items() if values(row)] == [T_0], "the second found no room"
    answer = rows(reader.fetch((T, 0, 0), (T, 1, 0), max_bytes=100))
    assert [key for key, row in answer.items() if values(row)] == [T_1]
    assert not reader.fetch((T, 0, 1), (T, 1, 1), max_bytes=0).is_answered, "there is nothing"


def test_an_answer_looks_into_so_many_segments_and_does_not_wait_for_the_bytes_of_others(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """3,000 segments of a batch each took 70 ms of a turn, and 3,000 descriptors until they were sent."""
    monkeypatch.setattr("odradek.broker.handlers.fetch.MOST_SEGMENTS_READ", 3)
    for n in range(8):
        world.produce(1, b"%d" % n)
        world[1].logs.logs[TopicPartition("t", 0)].roll(world.now_ms)
    world.settle()
    got: list[bytes] = []
    while len(got) < 8:
        answer = world.consume(1, len(got), max_wait_ms=60_000, min_bytes=500 if len(got) < 6 else 1)
        assert answer.is_answered
        assert len(values(rows(answer)[T_0])) == min(3, 8 - len(got))
        got += values(rows(answer)[T_0])
    assert got == [b"%d" % n for n in range(8)]


def test_an_error_of_one_partition_is_told_at_once(world: World) -> None:
    reader = Reader(world, max_wait_ms=60_000)
    answer = rows(reader.fetch((T, 0, 0), (T, 9, 0)))
    assert answer[1, 9].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert answer[T_0].error_code == 0


def test_a_connection_has_one_fetch_parked(world: World) -> None:
    """The one before is answered when the next comes: its answer is due first, and else a client that asks again and
    again and hangs up would leave behind as many as it likes, for as long as it says."""
    connection = world.connection()
    request = fm.FetchRequest(
        max_wait_ms=2**31 - 1,
        min_bytes=1,
        topics=[
            fm.FetchTopic(topic_id=T, partitions=[fm.FetchPartition(partition=0, partition_max_bytes=100)])
        ],
    )
    first = world.send(1, request, 13, connection=connection)
    second = world.send(1, request, 13, connection=connection)
    assert (first.is_answered, second.is_answered) == (True, False)
    world[1].broker.connection_closed(connection, world.now_ms)
    assert len(world[1].broker.purgatory) == 0
    assert world[1].partition().consumer_readers == {}


def test_a_closed_connection_leaves_nothing_parked(world: World) -> None:
    connection = world.connection()
    reader = Reader(world, connection, max_wait_ms=60_000, session_epoch=-1)
    request = fm.FetchRequest(
        max_wait_ms=60_000,
        min_bytes=1,
        topics=[
            fm.FetchTopic(topic_id=T, partitions=[fm.FetchPartition(partition=0, partition_max_bytes=100)])
        ],
    )
    waiting = world.send(1, request, 13, connection=reader.connection)
    assert len(world[1].broker.purgatory) == 1
    world[1].broker.connection_closed(connection, world.now_ms)
    assert len(world[1].broker.purgatory) == 0
    assert world[1].partition().consumer_readers == {}
    world.produce(1, b"a")
    world.settle()
    assert not waiting.is_answered


def test_acks_all_of_one_client_wakes_the_readers_of_another_only_when_committed(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.cut.add((3, 1))
    world.lead(1, is_new=True)
    waiting = world.consume(1, 0, max_wait_ms=60_000)
    world.produce(1, b"a")
    world.settle()
    assert not waiting.is_answered
    world.cut.clear()
    world.settle()
    assert values(rows(waiting)[T_0]) == [b"a"]


# ----------------------------------------------------------------------------------------------------------- sessions


def test_a_session_answers_in_full_once_and_then_only_what_is_new(world: World) -> None:
    world.produce(1, b"a")
    reader = Reader(world)
    first = reader.fetch((T, 0, 0), (T, 1, 0), (U, 0, 0))
    assert first.message.session_id > 0
    assert set(rows(first)) == {T_0, T_1, U_0}
    second = reader.fetch((T, 0, 1))
    assert rows(second) == {}
    world.produce(1, b"b", topic="u")
    third = reader.fetch()
    assert {key: values(row) for key, row in rows(third).items()} == {U_0: [b"b"]}
    fourth = reader.fetch()
    assert {key: values(row) for key, row in rows(fourth).items()} == {U_0: [b"b"]}, (
        "the reader did not move on"
    )
    assert rows(reader.fetch((U, 0, 1))) == {}


def test_a_session_tells_a_new_start_or_mark_without_records(world: World) -> None:
    world.produce(1, b"a", b"b")
    reader = Reader(world)
    reader.fetch((T, 0, 2))
    world[1].partition().delete_records(1)
    (row,) = rows(reader.fetch()).values()
    assert (row.log_start_offset, values(row)) == (1, [])
    assert rows(reader.fetch()) == {}


def test_a_partition_that_is_asked_for_and_forgotten_at_once_is_forgotten(world: World) -> None:
    world.produce(1, b"a")
    world.produce(1, b"b", topic="u")
    reader = Reader(world)
    reader.fetch((T, 0, 0), (U, 0, 0))

    assert set(rows(reader.fetch((T, 0, 0), (T, 1, 0), forget=[(T, 0), (T, 1)]))) == {U_0}
    assert set(rows(reader.fetch())) == {U_0}


def test_forgotten_partitions_are_looked_at_no_more(world: World) -> None:
    reader = Reader(world)
    reader.fetch((T, 0, 0), (U, 0, 0))
    world.produce(1, b"a")
    assert rows(reader.fetch(forget=[(T, 0)])) == {}
    assert world[1].partition().consumer_readers == {}


def test_a_parked_session_is_woken_by_any_of_its_partitions(world: World) -> None:
    reader = Reader(world, max_wait_ms=60_000)
    reader.fetch((T, 0, 0), (T, 1, 0), (U, 0, 0), max_wait_ms=0)
    waiting = reader.fetch()
    assert not waiting.is_answered
    world.produce(1, b"a", index=1)
    world.settle()
    assert set(rows(reader.note(waiting))) == {T_1}


def test_what_found_no_room_comes_first_next_time(world: World) -> None:
    for name, index in (("t", 0), ("t", 1), ("u", 0)):
        world.produce(1, b"x" * 3_000, topic=name, index=index)
    reader = Reader(world, max_bytes=100)
    served = []
    answer = rows(reader.fetch((T, 0, 0), (T, 1, 0), (U, 0, 0)))
    for _ in range(3):
        (key,) = [key for key, row in answer.items() if row.records]
        served.append(key)
        topic_id = T if key[0] == 1 else U
        answer = rows(reader.fetch((topic_id, key[1], 1)))
    assert served == [T_0, T_1, U_0]


def test_a_partition_that_always_has_more_lets_the_others_come_in_turn(world: World) -> None:
    """A follower of many partitions that is behind, or whose leader is under load: those at the end of its session would
    never be read."""
    keys = {T_0: T, T_1: T, U_0: U}
    at = dict.fromkeys(keys, 0)
    for _ in range(4):
        for name, index in (("t", 0), ("t", 1), ("u", 0)):
            world.produce(1, b"x" * 3_000, topic=name, index=index)
    reader = Reader(world, max_bytes=100)
    served = []
    answer = rows(reader.fetch(*((topic_id, key[1], 0) for key, topic_id in keys.items())))
    for _ in range(6):
        (key,) = [key for key, row in answer.items() if row.records]
        served.append(key)
        at[key] += 1
        answer = rows(reader.fetch((keys[key], key[1], at[key])))
    assert served == [T_0, T_1, U_0] * 2


def test_what_found_no_room_and_has_no_news_is_left_out_of_the_answers_of_a_session(world: World) -> None:
    """KIP-227: of thousands of partitions that are behind each answer would name all, and have records of a few."""
    for name, index in (("t", 0), ("t", 1), ("u", 0)):
        world.produce(1, b"x" * 3_000, topic=name, index=index)
    reader = Reader(world, max_bytes=100)
    assert set(rows(reader.fetch((T, 0, 0), (T, 1, 0), (U, 0, 0)))) == {T_0, T_1, U_0}
    assert set(rows(reader.fetch((T, 0, 1)))) == {T_1}
    world.produce(1, b"y", topic="u")
    assert set(rows(reader.fetch())) == {U_0}
    assert set(rows(reader.fetch((U, 0, 2)))) == {T_1}
    assert rows(reader.fetch((T, 1, 1))) == {}


def test_behind_the_first_batch_that_finds_no_room_no_log_is_read(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a session whose thousands of partitions are all behind, an answer has room for a few."""
    for name, index in (("t", 0), ("t", 1), ("u", 0)):
        world.produce(1, b"x" * 3_000, topic=name, index=index)
    read: list[TopicPartition] = []
    original = PartitionLog.read

    def noted(log: PartitionLog, *arguments: Any, **options: Any) -> LogRead:
        read.append(log.topic_partition)
        return original(log, *arguments, **options)

    monkeypatch.setattr(PartitionLog, "read", noted)
    answer = rows(Reader(world, max_bytes=3_500).fetch((T, 0, 0), (T, 1, 0), (U, 0, 0)))
    assert [key for key, row in answer.items() if row.records] == [T_0]
    assert read == [TopicPartition("t", 0), TopicPartition("t", 1)]
    read.clear()
    few = Reader(world, max_bytes=6_500).fetch((T, 0, 0), (T, 1, 0), (U, 0, 0), partition_max_bytes=100)
    assert [key for key, row in rows(few).items() if row.records] == [T_0]
    assert len(read) == 3, "what one partition may not have is room for another"


def test_where_a_log_has_nothing_in_a_gap_there_is_room_for_the_others(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for index in (0, 1):
        world.produce(1, b"x" * 3_000, index=index)
    original = PartitionLog.read

    def nothing_in_the_first(log: PartitionLog, offset: int, **options: Any) -> LogRead:
        return original(log, 1 if log.topic_partition == ("t", 0) else offset, **options)

    monkeypatch.setattr(PartitionLog, "read", nothing_in_the_first)
    answer = rows(Reader(world, max_bytes=3_500).fetch((T, 0, 0), (T, 1, 0)))
    assert [key for key, row in answer.items() if row.records] == [T_1]


def test_sessions_refuse_wrong_ids_and_epochs(world: World) -> None:
    reader = Reader(world)
    reader.fetch((T, 0, 0))
    reader.session_epoch = 5
    assert reader.fetch().message.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    reader.session_epoch = 1
    assert reader.fetch(version=12).message.error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    reader.session_id += 1
    assert reader.fetch().message.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_behind_the_last_epoch_of_a_session_comes_the_first(world: World) -> None:
    reader = Reader(world)
    reader.fetch((T, 0, 0))
    (session,) = world[1].broker.fetch_sessions._sessions.values()
    session.epoch = reader.session_epoch = INT32_MAX
    assert reader.fetch().message.error_code == ErrorCode.NONE
    reader.session_epoch = 1
    assert reader.fetch().message.error_code == ErrorCode.NONE


def test_a_session_gets_no_more_partitions_than_one_fetch_may_name(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unknown ones are looked at by every fetch, and each fetch could add as many as a request has room for."""
    monkeypatch.setattr(row_limits, "LEAST_ROWS", 5)
    reader = Reader(world)
    reader.fetch((T, 0, 0))
    for index in range(2, 7):  # twice the three partitions there are
        assert reader.fetch((T, index, 0)).message.error_code == ErrorCode.NONE
    assert len(rows(reader.fetch((T, 6, 0)))) == 5, "one that it has is no other"
    assert reader.fetch((T, 7, 0)).message.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert world[1].partition().consumer_readers == {}
    assert len(world[1].broker.fetch_sessions) == 0
    reader.session_id = reader.session_epoch = 0
    assert reader.fetch((T, 0, 0)).message.error_code == ErrorCode.NONE
    assert reader.fetch().message.session_id > 0


def test_a_final_fetch_closes_its_session(world: World) -> None:
    reader = Reader(world)
    reader.fetch((T, 0, 0))
    session_id = reader.session_id
    reader.session_epoch = -1
    assert reader.fetch((T, 0, 0)).message.session_id == 0
    reader.session_id, reader.session_epoch = session_id, 1
    assert reader.fetch().message.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert world[1].partition().consumer_readers == {}


@pytest.mark.parametrize("session_epoch", [0, -1])
def test_who_waits_in_a_session_is_answered_when_it_is_begun_anew_or_closed(
    world: World, session_epoch: int
) -> None:
    """Over another connection: that of who waits may be gone without a word."""
    waiting = Reader(world)
    waiting.fetch((T, 0, 0))
    waits = waiting.fetch(max_wait_ms=60_000)
    assert not waits.is_answered
    other = Reader(world)
    other.session_id, other.session_epoch = waiting.session_id, session_epoch

    answer = other.fetch((T, 0, 0)).message

    assert waits.is_answered and rows(waits) == {}
    assert waiting.fetch().message.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert answer.error_code == 0 and (answer.session_id > 0) is (session_epoch == 0)


def test_with_no_room_a_reader_gets_answers_but_no_session_until_one_grows_old(world: World) -> None:
    readers = [Reader(world) for _ in range(4)]
    for reader in readers:
        reader.fetch((T, 0, 0))
    assert [reader.session_id > 0 for reader in readers] == [True, True, True, False]
    world.now_ms += MIN_EVICTION_MS + 1
    late = Reader(world)
    late.fetch((T, 0, 0))
    assert late.session_id > 0
    assert readers[0].fetch().message.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_sessions_have_so_many_partitions_between_them_and_no_more(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session of a thousand times as many as there are costs a few hundred bytes for each of them."""
    monkeypatch.setattr(fetch_sessions, "MOST_PARTITIONS", 5)
    first, second, third = (Reader(world) for _ in range(3))
    first.fetch((T, 0, 0), (T, 1, 0))
    second.fetch((T, 0, 0), (T, 1, 0))
    assert rows(third.fetch((T, 0, 0), (T, 1, 0))).keys() == {T_0, T_1}
    assert third.session_id == 0, "answered, and not kept"
    second.fetch((U, 0, 0))
    assert first.fetch((U, 0, 0)).message.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert second.fetch().message.error_code == ErrorCode.NONE
    third.session_epoch = 0
    third.fetch((T, 0, 0), (T, 1, 0))
    assert third.session_id > 0, "what the first one had is free"

    world.now_ms += MIN_EVICTION_MS + 1
    third.fetch()
    first.session_id = first.session_epoch = 0
    first.fetch((T, 0, 0), (T, 1, 0), (U, 0, 0))
    assert first.session_id > 0
    assert second.fetch().message.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    first.session_epoch = -1
    first.fetch((T, 0, 0))
    late = Reader(world)
    late.fetch((T, 0, 0), (T, 1, 0), (U, 0, 0))
    assert late.session_id > 0
    assert third.fetch().message.error_code == ErrorCode.NONE


@pytest.mark.parametrize("is_large", [False, True])
def test_fetches_without_a_session_that_there_is_no_room_for_wait_outside(
    world: World, monkeypatch: pytest.MonkeyPatch, is_large: bool
) -> None:
    """One of 14 kB took 1.2 MB for as long as its sender liked, over each of any number of connections."""
    monkeypatch.setattr(fetch_sessions, "MOST_PARTITIONS", 5)
    if is_large:
        monkeypatch.setattr(fetch, "LARGE_BYTES", 0)
    first, second = (Reader(world, max_wait_ms=60_000, min_bytes=1 << 20) for _ in range(2))
    first.session_epoch = second.session_epoch = -1
    wanted = (T, 0, 0), (T, 1, 0), (U, 0, 0)
    waits = first.fetch(*wanted)
    refused = second.fetch(*wanted)
    world.advance(1)
    assert not waits.is_answered
    message = refused.message
    assert (message.error_code, message.throttle_time_ms) == (ErrorCode.NONE, fetch.WAIT_OUTSIDE_MS)
    assert rows(refused).keys() == {T_0, T_1, U_0}, "what there is, it is told"
    assert isinstance(refused.result, Reply)
    assert refused.result.throttle_time_ms == fetch.WAIT_OUTSIDE_MS, (
        "its connection is not read from meanwhile"
    )

    world[1].broker.connection_closed(first.connection, world.now_ms)
    again = second.fetch(*wanted)
    world.advance(1)
    assert not again.is_answered, "what the first one had is free"
    world.advance(61_000)
    assert again.message.throttle_time_ms == 0
    assert not world[1].broker.fetch_sessions._partitions


@pytest.mark.parametrize("is_large", [False, True])
def test_a_fetch_without_a_session_that_has_what_it_wants_is_not_throttled_where_there_is_no_room(
    world: World, monkeypatch: pytest.MonkeyPatch, is_large: bool
) -> None:
    monkeypatch.setattr(fetch_sessions, "MOST_PARTITIONS", 0)
    if is_large:
        monkeypatch.setattr(fetch, "LARGE_BYTES", 0)
    reader = Reader(world, max_wait_ms=60_000, min_bytes=1)
    reader.session_epoch = -1
    world.produce(1, b"value")
    found = reader.fetch((T, 0, 0), (T, 1, 0))
    world.advance(1)
    assert found.message.throttle_time_ms == 0


def test_a_fetch_that_could_not_be_parked_for_want_of_memory_counts_for_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = Reader(world, max_wait_ms=60_000, min_bytes=1 << 20)
    reader.session_epoch = -1

    def no_memory(*_: object, **__: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(world[1].broker.purgatory, "park", no_memory)
        with suppress(MemoryError):
            reader.fetch((T, 0, 0))
    assert world[1].broker.fetch_sessions._partitions == 0


def test_a_follower_puts_out_consumers_sessions_when_partitions_have_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch_sessions, "MOST_PARTITIONS", 4)
    world = World(tmp_path)
    world.cut |= {(2, 1), (3, 1)}
    world.lead(1, is_new=True)
    for _ in range(2):
        Reader(world).fetch((T, 0, 0), (T, 1, 0))
    world.cut.clear()
    world.settle()
    assert sorted(s.replica_id for s in world[1].broker.fetch_sessions._sessions.values()) == [-1, 2, 3]


def test_a_follower_puts_out_a_consumers_session_when_there_is_no_room(tmp_path: Path) -> None:
    world = World(tmp_path, max_incremental_fetch_session_cache_slots="2")
    world.cut |= {(2, 1), (3, 1)}
    world.lead(1, is_new=True)
    for _ in range(2):
        Reader(world).fetch((T, 0, 0))
    world.cut.clear()
    world.settle()
    assert [s.replica_id for s in world[1].broker.fetch_sessions._sessions.values()] == [2, 3]


def test_sessions_that_are_used_make_no_room_however_old_they_are(world: World) -> None:
    readers = [Reader(world) for _ in range(3)]
    for reader in readers:
        reader.fetch((T, 0, 0))
    world.now_ms += MIN_EVICTION_MS + 1
    for reader in readers:
        reader.fetch()
    late = Reader(world)
    late.fetch((T, 0, 0))
    assert late.session_id == 0
    assert [reader.fetch().message.error_code for reader in readers] == [ErrorCode.NONE] * 3


def test_a_session_in_which_a_reader_waits_is_not_put_out_where_another_may_go(tmp_path: Path) -> None:
    world = World(tmp_path, max_incremental_fetch_session_cache_slots="2")
    world.cut |= {(2, 1), (3, 1)}
    world.lead(1, is_new=True)
    waiting, idle = Reader(world), Reader(world)
    for reader in (waiting, idle):
        reader.fetch((T, 0, 0))
    waits = waiting.fetch(max_wait_ms=60_000)
    idle.fetch()  # used last, and it waits for nothing
    world.cut.discard((2, 1))
    world.settle()
    assert not waits.is_answered
    sessions = world[1].broker.fetch_sessions
    assert sessions.get(waiting.session_id) is not None and sessions.get(idle.session_id) is None


def test_a_partition_made_again_under_the_same_name_is_not_the_one_the_session_knows(world: World) -> None:
    world.produce(1, b"old", topic="u")
    reader = Reader(world)
    reader.fetch((U, 0, 0))
    key = TopicPartition("u", 0)
    world.stop_replica(1, key, leader_epoch=-2, delete=True)
    world.leadership[key]["leader"] = -2
    world.notify_metadata()
    del world.leadership[key]
    world.lead(1, isr=(1,), replicas=(1,), topic="u", topic_id=bytes([7] * 16), is_new=True)
    world.produce(1, b"new", topic="u")
    row = rows(reader.fetch())[U_0]
    assert row.error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert not row.records
