"""Batches that take long to check are checked aside, and are appended in the order in which they came."""

from pathlib import Path
from typing import Any

import pytest

from odradek.broker import effects as fx
from odradek.broker.answers import CloseConnection, NoReply
from odradek.broker.handlers import list_offsets
from odradek.broker.unchecked_produces import MOST_AT_ONCE, MOST_OUTPUT_BYTES, MOST_WAITING_BYTES, Check
from odradek.log.errors import CorruptLog
from odradek.log.lookups import COLD_LABOUR, DECOMPRESSING_LABOUR, OPENING_LABOUR, RECORD_LABOUR
from odradek.log.validation import FEW_HEADERS, HEADERS_AT_ONCE
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import EPOCH_DURING_DELETE
from odradek.protocol.messages import list_offsets as lm
from odradek.protocol.messages import produce as pm
from odradek.records.builder import NewRecord, build_batch
from odradek.records.compression import most_opened_bytes
from odradek.records.opened import OPENED_AT_ONCE
from odradek.records.search import FIRST_BYTES
from tests.broker.world import T0, Pending, World, batch
from tests.log.test_append import edited

LARGE = build_batch([NewRecord(b"k", b"%d" % n, 1000) for n in range(2000)])
SMALL = build_batch([NewRecord(b"k", b"small", 1000)])

TRANSACTION: dict[str, Any] = {
    "producer_id": 5,
    "producer_epoch": 0,
    "base_sequence": 0,
    "is_transactional": True,
}


@pytest.fixture
def world(tmp_path: Path) -> World:
    """One broker that reads every record, and what it wants done aside is left in `told`."""
    world = World(tmp_path, brokers=(1,), odradek_log_record_validation="full")
    world.lead(1, isr=(1,), replicas=(1,), is_new=True)
    world.works = False
    return world


def leader(path: Path, validation: str, settings: dict[str, str]) -> World:
    """As `world`, of a topic with these settings, which asks no coordinator about transactions."""
    world = World(
        path,
        brokers=(1,),
        odradek_log_record_validation=validation,
        transaction_partition_verification_enable="false",
    )
    world.configs["topics", "t"] = settings
    world.lead(1, isr=(1,), replicas=(1,), is_new=True)
    world.works = False
    return world


def asides(world: World) -> list[fx.RunAside]:
    world.settle()
    told = world[1].told
    found = [effect for effect in told if isinstance(effect, fx.RunAside)]
    told[:] = [effect for effect in told if not isinstance(effect, fx.RunAside)]
    return found


def work(world: World) -> int:
    """What a thread does, until there is nothing to do. How many pieces it was."""
    pieces = 0
    while waiting := asides(world):
        (one,) = waiting  # never two at a time
        world[1].broker.answered(one.request_id, one.work.run(), world.now_ms)
        pieces += 1
    return pieces


def put(world: World, records: bytes, **options: Any) -> Pending:
    pending = world.produce(1, records=records, **options)
    world.settle()
    return pending


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_a_large_batch_is_checked_aside(world: World, codec: str) -> None:
    records = [NewRecord(b"k", b"%d" % n, 1000) for n in range(2000)]
    answer = put(world, build_batch(records, codec=codec))
    assert not answer.is_answered and world[1].partition().log.log_end_offset == 0
    assert work(world) == 1
    assert world.produced(answer) == (ErrorCode.NONE, 0)
    assert len(world[1].values()) == 2000
    assert world[1].broker.unchecked.partitions == {}


def test_a_batch_that_was_checked_aside_is_acknowledged_when_all_in_sync_have_it(tmp_path: Path) -> None:
    world = World(tmp_path, brokers=(1, 2), odradek_log_record_validation="full")
    world.lead(1, isr=(1, 2), replicas=(1, 2), is_new=True)
    world.works = False
    world.cut.add((2, 1))
    answer = put(world, LARGE)
    assert work(world) == 1
    assert world[1].partition().log.log_end_offset == 2000 and not answer.is_answered
    world.cut.clear()
    world.settle()
    assert world.produced(answer) == (ErrorCode.NONE, 0)


def test_each_of_several_partitions_that_are_checked_aside_has_its_own_answer(world: World) -> None:
    world.lead(1, isr=(1,), replicas=(1,), index=1, is_new=True)
    assert world.produced(put(world, SMALL, index=1)) == (ErrorCode.NONE, 0)
    data = [pm.PartitionProduceData(index=index, records=LARGE) for index in (0, 1)]
    topic = pm.TopicProduceData(name="t", partition_data=data)
    pending = world.send(1, pm.ProduceRequest(acks=1, timeout_ms=1000, topic_data=[topic]), 9)
    work(world)
    (answered,) = pending.message.responses
    rows = [(row.index, row.error_code, row.base_offset) for row in answered.partition_responses]
    assert rows == [(0, 0, 0), (1, 0, 1)]


def test_what_follows_for_a_partition_waits_behind_it(world: World) -> None:
    """An idempotent producer's next batch would else be out of order."""
    fields: dict[str, Any] = {"producer_id": 5, "producer_epoch": 0}
    large = [NewRecord(b"k", b"%d" % n, 1000) for n in range(2000)]
    first = put(world, build_batch(large, base_sequence=0, **fields))
    second = put(world, build_batch([NewRecord(b"k", b"v", 1000)], base_sequence=2000, **fields))
    assert not second.is_answered
    work(world)
    assert world.produced(first) == (ErrorCode.NONE, 0)
    assert world.produced(second) == (ErrorCode.NONE, 2000)
    assert world.produced(put(world, SMALL)) == (ErrorCode.NONE, 2001)  # nothing is in its way


@pytest.mark.parametrize("large_at", [0, 1])
def test_a_transactional_batch_may_be_checked_aside_whatever_else_its_request_holds(
    tmp_path: Path, large_at: int
) -> None:
    """The small batch of the other partition waits for its follower by then."""
    world = World(
        tmp_path,
        brokers=(1, 2),
        odradek_log_record_validation="full",
        transaction_partition_verification_enable="false",
    )
    world.works = False
    rows = []
    for index in range(2):
        world.lead(1, isr=(1, 2), replicas=(1, 2), index=index, is_new=True)
        values = [NewRecord(b"k", b"%d" % n, 1000) for n in range(2000 if index == large_at else 1)]
        records = build_batch(values, producer_id=5, producer_epoch=0, base_sequence=0, is_transactional=True)
        rows.append(pm.PartitionProduceData(index=index, records=records))
    request = pm.ProduceRequest(
        transactional_id="tx",
        acks=-1,
        timeout_ms=30_000,
        topic_data=[pm.TopicProduceData(name="t", partition_data=rows)],
    )

    answer = world.send(1, request, 11)
    assert work(world) == 1
    world.settle()

    found = answer.message.responses[0].partition_responses
    assert [ErrorCode(row.error_code) for row in found] == [ErrorCode.NONE, ErrorCode.NONE]


def headed(*counts: int, **fields: Any) -> bytes:
    """A batch of records with so many empty headers."""
    return build_batch([NewRecord(b"k", b"v", 1000, [("", None)] * count) for count in counts], **fields)


@pytest.mark.parametrize("transactional_id", [None, "tx"])
@pytest.mark.parametrize(
    ("validation", "settings"),
    [("header", {}), ("full", {}), ("header", {"cleanup.policy": "compact"})],
    ids=["header", "full", "compacted"],
)
def test_very_many_headers_are_read_aside(
    tmp_path: Path, validation: str, settings: dict[str, str], transactional_id: str | None
) -> None:
    """A megabyte has room for half a million, 0.2 s; a request has room for a hundred megabytes."""
    world = leader(tmp_path, validation, settings)
    partition = world[1].partition()
    most = FEW_HEADERS if (validation, settings) == ("header", {}) else HEADERS_AT_ONCE
    for counts in ((most,), (most + 1,), (5 * HEADERS_AT_ONCE, 0)):
        end = partition.log.log_end_offset
        fields = TRANSACTION | {"base_sequence": end} if transactional_id else {}
        answer = put(world, headed(*counts, **fields), transactional_id=transactional_id)
        is_quick = counts[0] == most
        assert (answer.is_answered, partition.log.log_end_offset) == (is_quick, end + is_quick)
        assert work(world) == (not is_quick)
        assert world.produced(answer) == (ErrorCode.NONE, end)
    assert partition.log.log_end_offset == 4


def test_very_many_headers_of_all_records_together_are_read_aside(world: World) -> None:
    """By default nothing is read behind the first record."""
    answer = put(world, headed(0, HEADERS_AT_ONCE, 1))
    assert not answer.is_answered
    assert work(world) == 1
    assert world.produced(answer) == (ErrorCode.NONE, 0)


@pytest.mark.parametrize("transactional_id", [None, "tx"])
@pytest.mark.parametrize("size", [OPENED_AT_ONCE - 100, OPENED_AT_ONCE + 100])
@pytest.mark.parametrize(
    ("codec", "validation", "settings"),
    [
        ("zstd", "full", {}),
        ("zstd", "header", {"cleanup.policy": "compact"}),
        ("lz4", "header", {"compression.type": "gzip"}),
        ("gzip", "header", {"compression.type": "uncompressed"}),
    ],
    ids=["full", "compacted", "compressed anew", "not compressed any more"],
)
def test_a_small_batch_of_which_much_comes_out_is_opened_aside(
    tmp_path: Path,
    codec: str,
    validation: str,
    settings: dict[str, str],
    size: int,
    transactional_id: str | None,
) -> None:
    """Up to a MiB may come out of any, and a request may have 8 that are opened at once."""
    world = leader(tmp_path, validation, settings)
    fields = TRANSACTION if transactional_id else {}
    records = build_batch([NewRecord(b"k", bytes(size), 1000)], codec=codec, **fields)
    answer = put(world, records, transactional_id=transactional_id)
    is_quick = size < OPENED_AT_ONCE
    assert answer.is_answered == is_quick
    assert work(world) == (not is_quick)
    assert world.produced(answer) == (ErrorCode.NONE, 0)
    assert world[1].values() == [bytes(size)]


def test_where_there_is_no_room_a_batch_that_takes_long_is_refused(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = put(world, LARGE)
    monkeypatch.setattr("odradek.broker.unchecked_produces.MOST_WAITING_BYTES", len(LARGE))
    world.lead(1, isr=(1,), replicas=(1,), index=1, is_new=True)
    answer = put(world, headed(HEADERS_AT_ONCE + 1), index=1)
    assert world.produced(answer)[0] == ErrorCode.REQUEST_TIMED_OUT
    assert work(world) == 1
    assert world.produced(waiting) == (ErrorCode.NONE, 0)


def test_a_large_batch_with_a_bad_record_is_refused_when_it_was_looked_at(world: World) -> None:
    records = [NewRecord(b"k", b"%d" % n, 1000) for n in range(1999)]
    bad = build_batch([*records, NewRecord(b"k", b"x", 1000, offset_delta=1000)], last_offset_delta=1999)
    answer = put(world, bad)
    work(world)
    row = answer.message.responses[0].partition_responses[0]
    assert row.error_code == ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in row.record_errors] == [1999]
    assert world[1].partition().log.log_end_offset == 0


def test_leadership_that_was_lost_meanwhile_counts(world: World) -> None:
    answer = put(world, LARGE)
    world[1].broker.replicas.partitions.pop(T0)
    work(world)
    assert world.produced(answer)[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_an_answer_whose_time_is_over_appends_nothing(world: World) -> None:
    answer = put(world, LARGE, timeout_ms=1000)
    waiting = asides(world)
    world.advance(1500)
    assert world.produced(answer)[0] == ErrorCode.REQUEST_TIMED_OUT
    world[1].broker.answered(waiting[0].request_id, waiting[0].work.run(), world.now_ms)
    assert world[1].partition().log.log_end_offset == 0
    assert world[1].broker.unchecked.partitions == {}


@pytest.mark.parametrize("acks", [0, 1])
def test_the_time_of_a_client_is_for_acknowledgements_and_not_for_the_leaders_own_work(
    world: World, acks: int
) -> None:
    answer = put(world, LARGE, acks=acks, timeout_ms=1000)
    world.advance(1500)
    assert not answer.is_answered
    work(world)
    assert answer.is_answered and not isinstance(answer.result, CloseConnection)
    assert world[1].partition().log.log_end_offset == 2000


@pytest.mark.parametrize("acks", [1, -1])
def test_with_flush_messages_1_a_batch_that_was_checked_aside_waits_for_the_disk_too(
    tmp_path: Path, acks: int
) -> None:
    world = World(tmp_path, brokers=(1,), odradek_log_record_validation="full")
    world.configs["topics", "t"] = {"flush.messages": "1"}
    world.lead(1, isr=(1,), replicas=(1,), is_new=True)
    broker = world[1].broker
    answer = world.produce(1, records=LARGE, acks=acks)
    (check,) = [one for one in broker.take_effects() if isinstance(one, fx.RunAside)]
    broker.answered(check.request_id, check.work.run(), world.now_ms)
    (flush,) = [one for one in broker.take_effects() if isinstance(one, fx.FlushLog)]
    assert world[1].partition().log.log_end_offset == 2000 and not answer.is_answered
    flush.plan.run()
    broker.answered(flush.request_id, fx.Flushed(flush.plan, None), world.now_ms)
    broker.take_effects()
    assert world.produced(answer) == (ErrorCode.NONE, 0)


def test_without_acknowledgements_a_failure_closes_the_connection(world: World) -> None:
    good = put(world, LARGE, acks=0)
    bad = put(world, LARGE[:-1] + b"\2", acks=0)
    good_again = put(world, LARGE, acks=0, timeout_ms=0)
    work(world)
    assert isinstance(good.result, NoReply) and isinstance(bad.result, CloseConnection)
    assert isinstance(good_again.result, NoReply)
    assert world[1].partition().log.log_end_offset == 4000


def test_a_thread_that_fails_refuses_and_goes_on(world: World) -> None:
    answer, next_answer = put(world, LARGE), put(world, LARGE)
    (one,) = asides(world)
    world[1].broker.answered(one.request_id, None, world.now_ms)
    second = asides(world)
    assert world.produced(answer)[0] == ErrorCode.UNKNOWN_SERVER_ERROR
    world[1].broker.answered(second[0].request_id, second[0].work.run(), world.now_ms)
    world.settle()
    assert world.produced(next_answer) == (ErrorCode.NONE, 0)


def test_only_so_many_bytes_wait(world: World) -> None:
    """Whoever comes then may come again; one batch may always wait."""
    large = build_batch([NewRecord(b"k", bytes(900_000), 1000)] + [NewRecord(b"k", b"", 1000)] * 1500)
    answers = [put(world, large) for _ in range(MOST_WAITING_BYTES // len(large) + 2)]
    refused = [answer for answer in answers if answer.is_answered]
    assert [world.produced(answer)[0] for answer in refused] == [ErrorCode.REQUEST_TIMED_OUT] * 2
    work(world)
    assert all(answer.is_answered for answer in answers)
    again = [put(world, large) for _ in range(3)]
    work(world)
    assert [world.produced(answer)[0] for answer in again] == [ErrorCode.NONE] * 3, "there is room again"


def test_a_request_with_very_many_partitions_is_appended_piece_by_piece(tmp_path: Path) -> None:
    """Also where nothing is opened: a partition may be named as often as a frame has room."""
    world = World(tmp_path, brokers=(1,))
    world.lead(1, isr=(1,), replicas=(1,), is_new=True)
    world.works = False
    count = 2 * MOST_AT_ONCE + 10
    rows = [pm.PartitionProduceData(index=0, records=batch(b"%d" % n)) for n in range(count)]
    request = pm.ProduceRequest(
        acks=-1, timeout_ms=9000, topic_data=[pm.TopicProduceData(name="t", partition_data=rows)]
    )
    answer = world.send(1, request, 9)
    assert world[1].partition().log.log_end_offset == MOST_AT_ONCE
    (first,) = asides(world)
    assert isinstance(first.work, Check) and len(first.work.batches) == MOST_AT_ONCE
    world[1].broker.answered(first.request_id, first.work.run(), world.now_ms)
    assert work(world) == 1
    assert [row.base_offset for row in answer.message.responses[0].partition_responses] == list(range(count))
    assert world[1].values() == [b"%d" % n for n in range(count)]


@pytest.mark.parametrize("settings", [{"compression.type": "uncompressed"}, {"cleanup.policy": "compact"}])
def test_a_piece_of_work_opens_a_bounded_number_of_bytes_however_small_its_batches_are(
    tmp_path: Path, settings: dict[str, str]
) -> None:
    """A request of a megabyte became a gigabyte in memory, a thousand batches at a time."""
    world = leader(tmp_path, "header", settings)
    small = build_batch([NewRecord(b"k", bytes(100_000), 1000)], codec="gzip")
    assert len(small) < 500
    count = 20
    answers = [put(world, small) for _ in range(count)]
    sizes = []
    while waiting := asides(world):
        (one,) = waiting
        assert isinstance(one.work, Check)
        sizes.append(sum(most_opened_bytes(len(batch.records)) for batch in one.work.batches))
        world[1].broker.answered(one.request_id, one.work.run(), world.now_ms)
    assert max(sizes) <= MOST_OUTPUT_BYTES + most_opened_bytes(len(small))
    assert len(sizes) >= 3
    assert [world.produced(answer) for answer in answers] == [(ErrorCode.NONE, n) for n in range(count)]


# --------------------------------------------------------------------------------------------------- timestamps


def asked(world: World, timestamp: int) -> Pending:
    partition = lm.ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    topics = [lm.ListOffsetsTopic(name="t", partitions=[partition])]
    return world.send(1, lm.ListOffsetsRequest(replica_id=-1, topics=topics), 9)


def told(pending: Pending) -> tuple[int, int, int]:
    row = pending.message.topics[0].partitions[0]
    return row.error_code, row.offset, row.timestamp


@pytest.fixture
def stored(tmp_path: Path) -> World:
    """As brokers are: large batches are stored without being opened."""
    world = World(tmp_path, brokers=(1,))
    world.lead(1, isr=(1,), replicas=(1,), is_new=True)
    world.works = False
    return world


def test_a_large_batch_is_opened_aside_for_a_timestamp(stored: World) -> None:
    put(stored, build_batch([NewRecord(b"k", bytes(20), 1000 + n) for n in range(5000)], codec="zstd"))
    answer = asked(stored, 3500)
    assert not answer.is_answered
    assert work(stored) == 1
    assert told(answer) == (0, 2500, 3500)
    small = asked(stored, -1)
    assert told(small) == (0, 5000, -1)


@pytest.mark.parametrize(("codec", "labour"), [("none", 0), ("gzip", DECOMPRESSING_LABOUR)])
def test_only_so_many_logs_of_one_request_are_looked_into_at_once(
    stored: World, monkeypatch: pytest.MonkeyPatch, codec: str, labour: int
) -> None:
    monkeypatch.setattr(list_offsets, "AT_ONCE", 3 * (1 + OPENING_LABOUR + RECORD_LABOUR + labour))
    for index in range(5):
        stored.lead(1, topic="t", index=index, isr=(1,), replicas=(1,), is_new=True)
        records = build_batch([NewRecord(b"k", b"v", 1000 + index)], codec=codec)
        stored.produce(1, records=records, index=index)
    partitions = [lm.ListOffsetsPartition(partition_index=index, timestamp=500) for index in range(5)]
    request = lm.ListOffsetsRequest(
        replica_id=-1, topics=[lm.ListOffsetsTopic(name="t", partitions=partitions)]
    )
    answer = stored.send(1, request, 9)
    assert not answer.is_answered
    assert work(stored) == 2
    rows = answer.message.topics[0].partitions
    assert [(row.partition_index, row.timestamp) for row in rows] == [(n, 1000 + n) for n in range(5)]


def test_batches_that_are_quick_to_open_are_opened_as_long_as_their_records_are_few(stored: World) -> None:
    """Each takes its milliseconds, and a consumer asks for all partitions of a topic: a hundred of them took half a second."""
    for index in range(10):
        stored.lead(1, topic="t", index=index, isr=(1,), replicas=(1,), is_new=True)
        records = [NewRecord(b"k", b"v", 1000 + n) for n in range(1000)]
        stored.produce(1, records=build_batch(records), index=index)
    partitions = [lm.ListOffsetsPartition(partition_index=index, timestamp=1999) for index in range(10)]
    request = lm.ListOffsetsRequest(
        replica_id=-1, topics=[lm.ListOffsetsTopic(name="t", partitions=partitions)]
    )
    answer = stored.send(1, request, 9)
    assert work(stored) == 8
    rows = answer.message.topics[0].partitions
    assert [(row.partition_index, row.offset) for row in rows] == [(n, 999) for n in range(10)]


@pytest.mark.parametrize(
    ("timestamp", "found"), [(1_299, (0, 299, 1_299)), (-3, (0, 299, 1_299)), (5_000, (0, -1, -1))]
)
def test_after_a_start_a_search_looks_at_some_segments_in_a_turn(
    tmp_path: Path, timestamp: int, found: tuple[int, int, int]
) -> None:
    """Of each it opens three files to learn its largest timestamp: 66 ms for a thousand segments."""
    world = World(tmp_path, brokers=(1,), log_segment_bytes="70")
    world.lead(1, isr=(1,), replicas=(1,), is_new=True)
    for n in range(300):
        world.produce(1, records=build_batch([NewRecord(b"k", b"v", 1000 + n)]))
    world[1].logs.close({})
    world.kill(1)
    world.restart(1)
    world.lead(1, isr=(1,), replicas=(1,))
    world.settle()
    log = world[1].partition().log
    assert len(log.segments) == 300

    def opened() -> int:
        return sum(segment.max_timestamp is not None for segment in log.segments) - 1

    assert opened() == 0
    answer = asked(world, timestamp)
    first = opened()
    assert not answer.is_answered and 0 < first <= list_offsets.AT_ONCE // COLD_LABOUR
    world[1].broker.take_effects()
    world[1].broker.go_on(world.now_ms)
    assert first < opened() <= first + list_offsets.OF_A_SLICE // COLD_LABOUR
    while world[1].broker.go_on(world.now_ms):
        pass
    world.settle()
    assert told(answer) == found
    assert told(asked(world, timestamp)) == found, "from now on at once"


def test_a_search_behind_many_batches_of_one_time_passes_them_in_slices(
    stored: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time index says where that time begins, and no more: of a segment of ten million batches it took seconds."""
    monkeypatch.setattr(list_offsets, "AT_ONCE", 50)
    monkeypatch.setattr(list_offsets, "OF_A_SLICE", 10)
    for _ in range(200):
        put(stored, build_batch([NewRecord(b"k", b"v", 1_000)]))
    put(stored, build_batch([NewRecord(b"k", b"v", 2_000)]))
    answer = asked(stored, 1_500)
    broker, turns = stored[1].broker, 0
    while not answer.is_answered:
        turns += 1
        for effect in broker.take_effects():
            if isinstance(effect, fx.RunAside):
                broker.answered(effect.request_id, effect.work.run(), stored.now_ms)
        broker.go_on(stored.now_ms)
    assert told(answer) == (0, 200, 2_000) and turns > 15


def test_lookups_step_over_what_cannot_be_read(stored: World) -> None:
    """Two records are promised; the second is none. Whoever looks for it finds the next batch."""
    good = [NewRecord(b"k", b"v", 1000), NewRecord(b"k", b"v", 2000)]
    bad = bytearray(build_batch(good))
    bad[-10] = 1  # the second record has a length of -1
    put(stored, edited(bytes(bad)))
    put(stored, build_batch(good))
    assert told(asked(stored, 1000)) == (0, 0, 1000)
    assert told(asked(stored, 1500)) == (0, 3, 2000)
    assert told(asked(stored, -3)) == (0, 3, 2000)


def test_many_batches_that_lie_about_their_times_are_not_all_opened(
    stored: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("odradek.log.lookups.MOST_LABOUR", 3000)
    lie = build_batch([NewRecord(b"k", b"v", 10)] * 2, max_timestamp=10**9)
    for _ in range(10):
        put(stored, lie)
    assert told(asked(stored, 500)) == (0, 4, 10**9)


@pytest.mark.parametrize("size", [FIRST_BYTES - 100, FIRST_BYTES + 100])
def test_small_batches_of_which_much_comes_out_are_opened_aside_for_a_timestamp(
    stored: World, size: int
) -> None:
    """A thousand of a kilobyte, of which a megabyte comes out each, took a second at once."""
    for _ in range(3):
        record = NewRecord(b"k", bytes(size), 1000)
        put(stored, build_batch([record], codec="gzip", max_timestamp=10**9))
    answer = asked(stored, 5000)
    is_quick = size < FIRST_BYTES
    assert answer.is_answered == is_quick
    assert work(stored) == (0 if is_quick else 3)
    assert told(answer) == (0, -1, -1)


def test_a_log_that_was_cut_while_a_batch_of_it_was_read_is_not_damaged(stored: World) -> None:
    put(stored, build_batch([NewRecord(b"k", b"v", 1000 + n) for n in range(5000)]))
    answer = asked(stored, 3500)
    (one,) = asides(stored)
    log = stored[1].partition().log
    log.truncate_to(0, stored.now_ms)
    stored[1].broker.answered(one.request_id, CorruptLog("half of it was gone"), stored.now_ms)
    work(stored)
    assert told(answer) == (0, -1, -1) and log.failure is None


@pytest.mark.parametrize("timestamp", [3500, -3])
def test_a_time_that_was_found_in_a_topic_that_was_made_anew_meanwhile_is_none_of_the_new_one(
    stored: World, timestamp: int
) -> None:
    put(stored, build_batch([NewRecord(b"k", b"v", 1000 + n) for n in range(5000)]))
    answer = asked(stored, timestamp)
    (one,) = asides(stored)
    assert stored.stop_replica(1, T0, leader_epoch=EPOCH_DURING_DELETE, delete=True) == 0
    del stored.leadership[T0]
    stored.lead(1, isr=(1,), replicas=(1,), topic_id=bytes([7] * 16), is_new=True)
    put(stored, build_batch([NewRecord(b"k", b"v", 9)] * 5000))
    stored[1].broker.answered(one.request_id, one.work.run(), stored.now_ms)
    work(stored)
    assert told(answer)[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_who_went_away_is_not_looked_for(stored: World) -> None:
    for _ in range(3):
        put(stored, build_batch([NewRecord(b"k", b"v", 1000 + n) for n in range(5000)]))
    first, second = asked(stored, 3500), asked(stored, 3500)
    stored.advance(31_000)
    assert told(first)[0] == told(second)[0] == ErrorCode.REQUEST_TIMED_OUT
    assert work(stored) == 1  # that was begun


def test_a_damaged_batch_is_a_fault_of_the_log(stored: World) -> None:
    put(stored, build_batch([NewRecord(b"k", b"v", 1000 + n) for n in range(5000)]))
    (path,) = Path(stored[1].path).glob("t-0/*.log")
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    answer = asked(stored, 3500)
    work(stored)
    assert told(answer)[0] == ErrorCode.KAFKA_STORAGE_ERROR
    assert stored[1].broker.replicas.partitions.get(T0) is None or stored[1].partition().log.failure
