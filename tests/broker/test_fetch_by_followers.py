"""Fetch by followers: they read to the log end, and each fetch says what they have."""

from pathlib import Path
from typing import Any

import pytest

from odradek.broker import fetch_sessions
from odradek.broker.handlers.fetch import HIGH_WATERMARK_WAIT_MS
from odradek.model.error_codes import ErrorCode
from odradek.protocol.messages import fetch as fm
from odradek.protocol.messages.list_offsets import ListOffsetsRequest
from tests.broker.fetched import T_0, T, rows, values
from tests.broker.world import TOPIC_ID, Pending, World


class Follower:
    """A follower's fetches, made by hand: broker 2 of a partition that 1 leads."""

    def __init__(self, world: World, broker: int = 2) -> None:
        self.world = world
        self.broker = broker
        self.session_id = 0
        self.session_epoch = 0
        self.connection = world.connection()

    def fetch(
        self,
        offset: int | None,
        *,
        epoch: int = 0,
        last_epoch: int = -1,
        broker_epoch: int = 50,
        max_wait_ms: int = 500,
    ) -> Pending:
        partitions = []
        if offset is not None:
            partitions = [
                fm.FetchPartition(
                    partition=0,
                    fetch_offset=offset,
                    current_leader_epoch=epoch,
                    last_fetched_epoch=last_epoch,
                    log_start_offset=0,
                    partition_max_bytes=1 << 20,
                )
            ]
        request = fm.FetchRequest(
            replica_id=self.broker,
            replica_state=fm.ReplicaState(replica_id=self.broker, replica_epoch=broker_epoch),
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            session_id=self.session_id,
            session_epoch=self.session_epoch,
            topics=[fm.FetchTopic(topic_id=TOPIC_ID, partitions=partitions)] if partitions else [],
        )
        pending = self.world.send(1, request, 17, connection=self.connection)
        self.session_epoch += 1
        if pending.is_answered and pending.message.error_code == 0:
            self.session_id = pending.message.session_id
        return pending


@pytest.fixture
def led(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.cut |= {(2, 1), (3, 1)}
    world.lead(1, is_new=True)
    return world


def test_a_follower_reads_to_the_log_end(led: World) -> None:
    led.produce(1, b"a", acks=1)
    row = rows(Follower(led).fetch(0))[T_0]
    assert (row.high_watermark, values(row)) == (0, [b"a"])


def told_within_moments(led: World, waiting: Pending) -> Any:
    led.settle()
    led[1].broker.tick(led.now_ms)
    led.settle()
    assert not waiting.is_answered, "records may come that bring the news along"
    led.advance(HIGH_WATERMARK_WAIT_MS + 4)
    return rows(waiting)[T_0]


def test_a_follower_behind_in_the_mark_is_answered_within_moments_and_not_after_the_long_poll(
    led: World,
) -> None:
    two, three = Follower(led, 2), Follower(led, 3)
    led.produce(1, b"a", acks=1)
    two.fetch(0)
    three.fetch(0)
    waiting = two.fetch(1)
    assert not waiting.is_answered
    three.fetch(1)
    row = told_within_moments(led, waiting)
    assert (row.high_watermark, values(row)) == (1, [])


@pytest.mark.parametrize("by", ["DeleteRecords", "retention"])
def test_a_follower_behind_in_the_log_start_is_answered_within_moments_and_not_after_the_long_poll(
    led: World, by: str
) -> None:
    two, three = Follower(led, 2), Follower(led, 3)
    led.produce(1, b"a", acks=1)
    for end in (0, 1):
        two.fetch(end)
        three.fetch(end)
    led.advance(HIGH_WATERMARK_WAIT_MS + 4)
    waiting = two.fetch(1)
    led.advance(HIGH_WATERMARK_WAIT_MS + 4)
    assert not waiting.is_answered
    partition = led[1].partition()
    if by == "retention":
        partition.log.delete_records_before(1)
        partition.log_start_moved(led.now_ms)
    else:
        partition.delete_records(1)
    row = told_within_moments(led, waiting)
    assert (row.high_watermark, row.log_start_offset, values(row)) == (1, 1, [])


def test_a_log_start_that_moved_between_two_fetches_is_told_within_moments_as_well(led: World) -> None:
    two = Follower(led)
    partition = led[1].partition()
    led.produce(1, b"a", acks=1)
    two.fetch(0)
    Follower(led, 3).fetch(1)
    two.fetch(1)
    led.advance(HIGH_WATERMARK_WAIT_MS + 4)
    partition.log.delete_records_before(1)
    partition.log_start_moved(led.now_ms)
    led.settle()
    waiting = two.fetch(None)
    assert not waiting.is_answered, "records may come that bring the news along"
    led.advance(HIGH_WATERMARK_WAIT_MS + 4)
    row = rows(waiting)[T_0]
    assert (row.log_start_offset, values(row)) == (1, [])


def test_news_of_the_mark_travel_with_records_that_come_meanwhile(led: World) -> None:
    two, three = Follower(led, 2), Follower(led, 3)
    led.produce(1, b"a", acks=1)
    two.fetch(0)
    three.fetch(0)
    waiting = two.fetch(1)
    three.fetch(1)
    led.produce(1, b"b", acks=1)
    led.settle()
    row = rows(waiting)[T_0]
    assert (row.high_watermark, values(row)) == (1, [b"b"])


def test_a_second_fetch_of_a_follower_answers_the_one_that_is_parked(led: World) -> None:
    two = Follower(led)
    two.fetch(0)
    parked = two.fetch(None)
    assert not parked.is_answered
    two.fetch(None)
    assert parked.is_answered


def test_any_request_of_a_follower_behind_its_parked_fetch_answers_that_first(led: World) -> None:
    """Answers leave in order: asking where a log ends would else take as long as the long poll."""
    two = Follower(led)
    two.fetch(0)
    parked = two.fetch(None)
    assert not parked.is_answered
    led.send(1, ListOffsetsRequest(replica_id=2), 9, connection=two.connection)
    assert parked.is_answered
    consumer = led.connection()
    request = fm.FetchRequest(
        max_wait_ms=60_000,
        min_bytes=1,
        topics=[fm.FetchTopic(topic_id=T, partitions=[fm.FetchPartition(partition_max_bytes=100)])],
    )
    waiting = led.send(1, request, 13, connection=consumer)
    led.send(1, ListOffsetsRequest(), 9, connection=consumer)
    assert not waiting.is_answered, "a consumer gets what it asked for: records, or the whole wait"


def test_a_follower_that_is_no_replica_is_sent_away(led: World) -> None:
    assert rows(Follower(led, 9).fetch(0))[T_0].error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert rows(Follower(led, 9).fetch(0, epoch=-1))[T_0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_diverging_follower_is_told_where_and_its_position_is_not_counted(led: World) -> None:
    """KAFKA-13141."""
    led.produce(1, b"a", b"b", acks=1)
    led.lead(1, tell=(1,), epoch=4)
    led.produce(1, b"c", acks=1)
    row = rows(Follower(led).fetch(3, epoch=4, last_epoch=2))[T_0]
    assert (row.diverging_epoch.epoch, row.diverging_epoch.end_offset) == (0, 2)
    follower = led[1].partition().followers[2]
    assert not follower.has_fetched
    assert follower.log_end_offset == -1


def test_after_a_divergence_an_idle_follower_is_told_the_high_watermark_again(led: World) -> None:
    """It took nothing but the cut from that answer; with nothing to fetch, nobody would ever mention it again."""
    led.lead(1, isr=(1,), replicas=(1, 2), epoch=3)
    led.produce(1, b"a", b"b", acks=1)
    follower = Follower(led)
    told = rows(follower.fetch(3, epoch=3, last_epoch=2))[T_0]
    assert told.diverging_epoch.end_offset == 0
    end = led[1].partition().log.log_end_offset
    again = rows(follower.fetch(end, epoch=3, last_epoch=3))[T_0]
    assert again.high_watermark == led[1].partition().high_watermark == 2


def test_in_a_new_leader_epoch_an_idle_follower_is_told_the_high_watermark_again(led: World) -> None:
    """It drops what is under way from the epoch before, and that may have been the only word of it (seed 116)."""
    led.lead(1, isr=(1,), replicas=(1, 2))
    led.produce(1, b"a", acks=1)
    follower = Follower(led)
    assert rows(follower.fetch(1, epoch=1, last_epoch=1))[T_0].high_watermark == 1
    led.lead(1, isr=(1,), replicas=(1, 2))
    again = rows(follower.fetch(1, epoch=2, last_epoch=1))

    assert again[T_0].high_watermark == 1


def test_an_offset_beyond_the_leaders_end_is_not_counted(led: World) -> None:
    led.produce(1, b"a", acks=1)
    assert rows(Follower(led).fetch(5))[T_0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert led[1].partition().followers[2].log_end_offset == -1


def test_a_stale_fetch_of_a_follower_that_restarted_is_refused(led: World) -> None:
    Follower(led).fetch(0, broker_epoch=60)
    assert rows(Follower(led).fetch(0, broker_epoch=59))[T_0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize("broker", [0, 2])
def test_an_append_wakes_a_follower_and_the_end_of_its_session_is_the_end_of_what_it_is_told(
    tmp_path: Path, broker: int
) -> None:
    world = World(tmp_path, brokers=(1, broker))
    world.cut |= {(broker, 1)}
    world.lead(1, is_new=True, isr=(1,), replicas=(1, broker))
    follower = Follower(world, broker)
    follower.fetch(0)
    waiting = follower.fetch(None)

    world.produce(1, b"a", acks=1)
    world.settle()

    assert values(rows(waiting)[T_0]) == [b"a"]
    partition = world[1].partition()
    known = partition.followers[broker]
    assert len(partition.follower_readers) == 1 and not partition.consumer_readers and known.source
    follower.session_epoch = -1
    follower.fetch(None)
    assert not partition.follower_readers and known.source is None


@pytest.mark.parametrize("named", [0, None], ids=["named", "not named"])
def test_a_follower_that_registers_anew_within_its_session_is_known_by_its_new_epoch(
    led: World, named: int | None
) -> None:
    two = Follower(led)
    two.fetch(0, broker_epoch=50)
    known = led[1].partition().followers[2]
    assert (known.broker_epoch, known.has_fetched) == (50, True)
    two.fetch(named, broker_epoch=51)
    assert known.broker_epoch == 51


def test_a_zombie_follower_of_an_older_epoch_is_fenced_and_not_counted(led: World) -> None:
    led.produce(1, b"a", acks=1)
    led.lead(1, tell=(1,))
    assert rows(Follower(led).fetch(1, epoch=0))[T_0].error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert rows(Follower(led).fetch(1, epoch=2))[T_0].error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert led[1].partition().followers[2].log_end_offset == -1


# ---------------------------------------------------------------------------------- connections given up


@pytest.fixture
def two_in_sync(tmp_path: Path) -> World:
    world = World(tmp_path, replica_lag_time_max_ms="4000", min_insync_replicas="2")
    world.cut |= {(2, 1), (3, 1)}
    world.lead(1, is_new=True, isr=(1, 2), replicas=(1, 2))
    return world


def held(world: World) -> int:
    return int(world[1].partition().followers[2].log_end_offset)


@pytest.mark.parametrize("session_epoch", [0, -1, 1], ids=["full", "without-session", "incremental"])
def test_a_late_fetch_of_a_connection_its_follower_gave_up_moves_nothing(
    two_in_sync: World, session_epoch: int
) -> None:
    abandoned, live = Follower(two_in_sync), Follower(two_in_sync)
    if session_epoch == 1:
        abandoned.fetch(0)
    abandoned.session_epoch = session_epoch
    live.fetch(0)
    two_in_sync.produce(1, b"a")
    live.fetch(1)
    abandoned.fetch(0)
    assert held(two_in_sync) == 1
    two_in_sync.advance(500)
    live.fetch(None)
    assert held(two_in_sync) == 1


def test_what_a_late_fetch_over_a_connection_that_was_opened_late_has_moved_is_noted_again(
    two_in_sync: World,
) -> None:
    """A proxy opened the abandoned connection after the one in use: no order tells which is which, but that one of them
    goes on. Nothing is lost or refused meanwhile, and nobody leaves the ISR."""
    live, abandoned = Follower(two_in_sync), Follower(two_in_sync)
    live.fetch(0)
    two_in_sync.produce(1, b"a")
    live.fetch(1)
    abandoned.fetch(0)
    assert held(two_in_sync) == 0
    for _ in range(3):
        live.fetch(None)
        two_in_sync.advance(500)
    assert held(two_in_sync) == 1
    later = two_in_sync.produce(1, b"b")
    live.fetch(2)
    two_in_sync.settle()
    assert two_in_sync.produced(later) == (ErrorCode.NONE, 1)
    for _ in range(20):
        live.fetch(None)
        two_in_sync.advance(500)
    assert two_in_sync[1].partition().isr == (1, 2)


def test_of_two_connections_that_both_go_on_the_newer_one_says_where_the_follower_stands(
    two_in_sync: World,
) -> None:
    older, newer = Follower(two_in_sync), Follower(two_in_sync)
    two_in_sync.produce(1, b"a", b"b")
    older.fetch(0)
    newer.fetch(1)
    for _ in range(10):
        older.fetch(2)
        two_in_sync.advance(500)
        newer.fetch(None)
        two_in_sync.advance(500)
        assert held(two_in_sync) == 1


def test_a_follower_that_was_cut_is_believed_over_the_same_and_over_a_newer_connection(
    two_in_sync: World,
) -> None:
    two_in_sync.produce(1, b"a", b"b", acks=1)
    before, after = Follower(two_in_sync), Follower(two_in_sync)
    before.fetch(2)
    before.fetch(1)
    assert held(two_in_sync) == 1
    before.fetch(2)
    after.fetch(0)
    assert held(two_in_sync) == 0


def test_a_follower_is_believed_in_a_new_session_over_the_same_connection(two_in_sync: World) -> None:
    """It was cut, and has forgotten its session: the leader has it still."""
    two_in_sync.produce(1, b"a", b"b", acks=1)
    follower = Follower(two_in_sync)
    follower.fetch(2)
    follower.session_id = follower.session_epoch = 0
    follower.fetch(1)
    assert held(two_in_sync) == 1


def test_a_new_life_of_a_follower_is_believed_whatever_connection_is_newer(two_in_sync: World) -> None:
    two_in_sync.produce(1, b"a", b"b", acks=1)
    new_life, old_life = Follower(two_in_sync), Follower(two_in_sync)
    old_life.fetch(2, broker_epoch=50)
    new_life.fetch(0, broker_epoch=60)
    assert held(two_in_sync) == 0
    old_life.fetch(2, broker_epoch=50)
    assert held(two_in_sync) == 0


def test_once_the_newer_connection_is_closed_an_older_one_is_believed_at_once(two_in_sync: World) -> None:
    """Apache's fetchers may become fewer: a partition goes over to one whose connection is older."""
    two_in_sync.produce(1, b"a", acks=1)
    older, newer = Follower(two_in_sync), Follower(two_in_sync)
    newer.fetch(0)
    newer.fetch(1)
    two_in_sync[1].broker.connection_closed(newer.connection, two_in_sync.now_ms)
    older.fetch(0)
    assert held(two_in_sync) == 0


def test_a_partition_that_went_over_to_another_session_is_told_by_that_one(two_in_sync: World) -> None:
    """The former session lives on for others, and does not name this one any more."""
    two_in_sync.produce(1, b"a", acks=1)
    former, present = Follower(two_in_sync), Follower(two_in_sync)
    former.fetch(1)
    present.fetch(0)
    for _ in range(5):
        former.fetch(None)
        present.fetch(None)
        two_in_sync.advance(500)
    assert held(two_in_sync) == 0


@pytest.mark.parametrize("is_parked", [True, False])
def test_a_followers_session_ends_with_its_connection(two_in_sync: World, is_parked: bool) -> None:
    """Whoever follows begins anew over another one, and a former life of a broker is not heard of again."""
    broker, partition = two_in_sync[1].broker, two_in_sync[1].partition()
    for _ in range(5):
        follower = Follower(two_in_sync)
        follower.fetch(0)
        if is_parked:
            assert not follower.fetch(None).is_answered
        broker.connection_closed(follower.connection, two_in_sync.now_ms)
    assert len(broker.fetch_sessions) == 0 and not partition.follower_readers
    assert partition.followers[2].source is None and partition.isr == (1, 2)


def test_a_large_session_of_a_follower_ends_in_slices(
    two_in_sync: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch_sessions, "CLOSED_AT_ONCE", 1)
    broker, follower = two_in_sync[1].broker, Follower(two_in_sync)
    follower.fetch(0)
    session = broker.fetch_sessions.get(follower.session_id)
    for index in range(1, 4):
        session.want(TOPIC_ID, index, 0, 0, -1, 0, 1 << 20)
    broker.connection_closed(follower.connection, two_in_sync.now_ms)
    assert len(broker.fetch_sessions) == 0 and len(session.wanted) == 3
    two_in_sync.settle()
    assert not session.wanted and not session.pending
    assert not two_in_sync[1].partition().follower_readers


def test_a_followers_session_that_went_on_over_another_connection_lives_on(two_in_sync: World) -> None:
    broker, former = two_in_sync[1].broker, Follower(two_in_sync)
    former.fetch(0)
    present = Follower(two_in_sync)
    present.session_id, present.session_epoch = former.session_id, former.session_epoch
    present.fetch(None)
    broker.connection_closed(former.connection, two_in_sync.now_ms)
    assert broker.fetch_sessions.get(present.session_id) is not None
    broker.connection_closed(present.connection, two_in_sync.now_ms)
    assert len(broker.fetch_sessions) == 0


def test_the_time_at_which_a_follower_was_heard_over_a_closed_connection_counts(two_in_sync: World) -> None:
    """Its session stands for it, also of what it did not name: it was caught up when it fetched last."""
    follower = Follower(two_in_sync)
    follower.fetch(0)
    two_in_sync.advance(3_900)
    follower.fetch(None)
    two_in_sync[1].broker.connection_closed(follower.connection, two_in_sync.now_ms)
    two_in_sync.produce(1, b"a", acks=1)
    two_in_sync.advance(3_900)
    assert two_in_sync[1].partition().isr == (1, 2)
    two_in_sync.advance(4_100)
    assert two_in_sync[1].partition().isr == (1,)


def test_a_followers_session_makes_room_for_no_other_follower(tmp_path: Path) -> None:
    """They would put out each other with every fetch, and each would name all its partitions each time."""
    world = World(tmp_path, max_incremental_fetch_session_cache_slots="1")
    world.cut |= {(2, 1), (3, 1)}
    world.lead(1, is_new=True)
    two, three = Follower(world, 2), Follower(world, 3)
    assert two.fetch(0).message.session_id and not three.fetch(0, max_wait_ms=0).message.session_id
    assert world[1].broker.fetch_sessions.get(two.session_id) is not None
