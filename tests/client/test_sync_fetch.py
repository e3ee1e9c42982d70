"""Exact ranges: what covers them, in order, and an error for everything that is not there."""

import struct
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from odradek.client import sync, sync_connection, sync_fetch
from odradek.client.sync import CONTROLLER, SyncClient
from odradek.client.sync_connection import DeadlineExceeded, FrameBuffer
from odradek.client.sync_fetch import (
    MOST_HELD_UP_S,
    PATIENCE_S,
    LogCut,
    OffsetsGone,
    TopicRecreated,
    read_range,
    whole_batches,
)
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError
from odradek.model.ids import TopicPartition
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from odradek.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from odradek.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from odradek.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from odradek.protocol.schema import Request
from odradek.records.builder import NewRecord, build_batch
from odradek.records.reader import decode_batch
from odradek.testing.process_cluster import ProcessCluster
from tests.client.support import TOPIC_ID, ScriptedBroker
from tests.clients.support import is_fully_replicated

ORDERS = TopicPartition("orders", 0)


def batch(base_offset: int, count: int = 10) -> bytes:
    records = [NewRecord(None, b"%d" % n) for n in range(base_offset, base_offset + count)]
    return build_batch(records, base_offset=base_offset)


class ScriptedLog(ScriptedBroker):
    """A partition with one batch of ten records per Fetch."""

    def __init__(self, *, end: int = 50) -> None:
        super().__init__()
        self.end = end
        self.high_watermark = end
        self.errors: list[int] = []
        self.throttle_times_ms: list[int] = []
        self.others: dict[int, bytes] = {}  # than record batches
        self.partitions["orders"] = [1]
        self.answer(FetchRequest, self._fetch)
        self.answer(ListOffsetsRequest, self._list_offsets)

    @property
    def fetched_at(self) -> list[int]:
        return [r.topics[0].partitions[0].fetch_offset for r in self.requests if isinstance(r, FetchRequest)]

    def _fetch(self, request: Request, version: int) -> FetchResponse:
        assert isinstance(request, FetchRequest)
        throttle_time_ms = self.throttle_times_ms.pop(0) if self.throttle_times_ms else 0
        if throttle_time_ms:
            return FetchResponse(throttle_time_ms=throttle_time_ms)
        topic = request.topics[0]
        offset = topic.partitions[0].fetch_offset
        base = offset - offset % 10
        data = PartitionData(
            partition_index=0,
            error_code=self.errors.pop(0) if self.errors else 0,
            high_watermark=self.high_watermark,
            last_stable_offset=self.high_watermark,
            aborted_transactions=[AbortedTransaction(producer_id=5, first_offset=3)] if offset == 0 else None,
            records=self.records_at(base),
        )
        answer = FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=[data])
        return FetchResponse(responses=[answer])

    def records_at(self, base: int) -> bytes:
        if base in self.others:
            return self.others[base]
        return batch(base) + batch(base + 10)[:40] if base < self.end else b""

    def _list_offsets(self, request: Request, version: int) -> ListOffsetsResponse:
        assert isinstance(request, ListOffsetsRequest)
        timestamp = request.topics[0].partitions[0].timestamp
        offset = 30 if timestamp == -2 else self.end
        partition = ListOffsetsPartitionResponse(partition_index=0, offset=offset)
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="orders", partitions=[partition])])


@pytest.fixture
def log() -> Iterator[ScriptedLog]:
    with ScriptedLog() as scripted:
        yield scripted


@pytest.fixture
def client(log: ScriptedLog) -> Iterator[SyncClient]:
    with SyncClient(log.address, request_timeout_s=60) as connected:
        yield connected


def test_a_range_is_covered_and_not_one_fetch_goes_beyond_it(client: SyncClient, log: ScriptedLog) -> None:
    client.cluster(["orders"])
    connection = client.connection_to(1, client.deadline())

    fetched = list(read_range(client, ORDERS, 5, 35))

    assert [f.next_offset for f in fetched] == [10, 20, 30, 40]
    assert log.fetched_at == [5, 10, 20, 30]
    assert connection.is_open, "nothing was asked that nobody waited for"


def test_answers_are_read_into_the_same_memory_one_after_the_other(client: SyncClient) -> None:
    """Fresh pages for each Fetch cost more than what they are filled with."""
    buffer = FrameBuffer()
    reading = read_range(client, ORDERS, 0, 30, into=buffer)

    found = [(bytes(fetched.records), fetched.records.obj) for fetched in reading]

    assert [records for records, _ in found] == [batch(0), batch(10), batch(20)]
    assert all(memory is buffer.take(1).obj for _, memory in found)


def test_a_frame_buffer_grows_and_gives_back_what_is_very_large() -> None:
    buffer = FrameBuffer()
    assert len(buffer.take(5)) == 5
    kept = buffer.take((1 << 20) + 1).obj
    assert len(kept) == 2 << 20
    assert len(buffer.take(13 << 20)) == 13 << 20
    assert buffer.take(2 << 20).obj is kept


def test_an_empty_range_asks_for_nothing(client: SyncClient, log: ScriptedLog) -> None:
    assert list(read_range(client, ORDERS, 5, 5)) == []
    assert log.requests == []


def test_the_next_fetch_is_on_its_way_while_an_answer_is_looked_at(
    client: SyncClient, log: ScriptedLog
) -> None:
    reading = read_range(client, ORDERS, 0, 30)
    next(reading)

    connection = client.connection_to(1, client.deadline())
    assert len(connection._expected) == 1, "one Fetch is ahead"
    assert [f.next_offset for f in reading] == [20, 30]
    assert log.fetched_at == [0, 10, 20]


def test_a_batch_that_the_answer_cuts_short_is_left_for_the_next(client: SyncClient) -> None:
    (fetched,) = read_range(client, ORDERS, 0, 10)

    assert bytes(fetched.records) == batch(0)
    assert fetched.aborted == ((5, 3),)
    assert whole_batches(batch(0) + batch(10)[:-1]) == (batch(0), 10)
    assert whole_batches(batch(0)[:-1]) == (b"", -1)
    assert whole_batches(None) == (b"", -1)


def test_the_topic_id_of_the_metadata_is_asked_for(client: SyncClient, log: ScriptedLog) -> None:
    list(read_range(client, ORDERS, 0, 10, topic_id=TOPIC_ID))

    assert [r.topics[0].topic_id for r in log.requests if isinstance(r, FetchRequest)] == [TOPIC_ID]


def test_another_topic_id_is_an_error_before_anything_is_read(client: SyncClient, log: ScriptedLog) -> None:
    with pytest.raises(
        TopicRecreated, match="orders was deleted and created again: the offsets belong to topic id"
    ):
        list(read_range(client, ORDERS, 0, 10, topic_id=b"x" * 16))
    assert log.fetched_at == []


def test_offsets_out_of_range_tell_what_the_log_still_holds(client: SyncClient, log: ScriptedLog) -> None:
    log.errors = [ErrorCode.OFFSET_OUT_OF_RANGE]

    with pytest.raises(
        OffsetsGone, match="orders-0: offsets 5 to 35 were asked for, but the log now holds 30 to 50"
    ):
        list(read_range(client, ORDERS, 5, 35))


def test_a_log_that_ends_too_early_is_an_error_after_a_while(
    client: SyncClient, log: ScriptedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time_of_the_client(monkeypatch)
    began = now[0]

    def nothing_more(request: Request, version: int) -> FetchResponse:
        now[0] += 0.5  # as long as a Fetch waits for more
        return log._fetch(request, version)

    log.answer(FetchRequest, nothing_more)
    with pytest.raises(OffsetsGone, match=r"offsets up to 70 were asked for, .* only up to 50"):
        list(read_range(client, ORDERS, 40, 70))
    assert PATIENCE_S <= now[0] - began < PATIENCE_S + 2


def test_a_hole_that_compaction_left_at_the_end_is_no_error(client: SyncClient, log: ScriptedLog) -> None:
    log.high_watermark = 70

    assert [f.next_offset for f in read_range(client, ORDERS, 40, 70)] == [50]


# Of format 1, as a log may have them that was begun before Kafka 0.11: offset, size, CRC, magic and the rest of a small message.
OLD = struct.pack(">qiIbbqii", 20, 22, 0, 1, 0, 1_700_000_000_000, -1, -1)


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (OLD, "message format 1: only record batches of magic 2"),
        (OLD * 5, "message format 1: only record batches of magic 2"),
        (batch(20)[:-1], r"batch at position 0 has \d+ bytes, \d+ are there"),
        (b"\0", "1 bytes where a record batch should begin"),
    ],
)
def test_what_is_no_batch_is_not_taken_for_a_hole_that_compaction_left(
    client: SyncClient, log: ScriptedLog, found: bytes, why: str
) -> None:
    log.others = {20: found}

    with pytest.raises(ProtocolError, match=f"orders-0, offset 20: .*{why}"):
        list(read_range(client, ORDERS, 0, 50))


@pytest.mark.parametrize(
    "code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_TOPIC_ID]
)
def test_a_moved_leader_in_the_middle_is_found_again(client: SyncClient, log: ScriptedLog, code: int) -> None:
    log.errors = [0, code]

    assert [f.next_offset for f in read_range(client, ORDERS, 0, 30)] == [10, 20, 30]
    assert log.fetched_at == [0, 10, 10, 20]


def test_metadata_of_an_earlier_leader_are_asked_for_again_and_say_nothing_of_a_cut(
    client: SyncClient, log: ScriptedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The leader they name does not know the epoch of the offsets: it would call them cut off."""
    epochs = [4, 4, 6]
    told = log.metadata

    def metadata() -> MetadataResponse:
        answer = told()
        answer.topics[0].partitions[0].leader_epoch = epochs.pop(0) if len(epochs) > 1 else epochs[0]
        return answer

    def unknown(request: Request, version: int) -> OffsetForLeaderEpochResponse:
        row = EpochEndOffset(partition=0, leader_epoch=-1, end_offset=-1)
        return OffsetForLeaderEpochResponse(
            topics=[OffsetForLeaderTopicResult(topic="orders", partitions=[row])]
        )

    monkeypatch.setattr(log, "metadata", metadata)
    log.answer(OffsetForLeaderEpochRequest, unknown)
    fetched = list(read_range(client, ORDERS, 0, 20, leader_epoch=6))
    assert [f.next_offset for f in fetched] == [10, 20] and epochs == [6]
    asked = [r.topics[0].partitions[0] for r in log.requests if isinstance(r, FetchRequest)]
    assert {partition.current_leader_epoch for partition in asked} == {6}, (
        "of no earlier leader, however often named"
    )


def test_a_log_that_was_cut_below_what_was_just_read_is_told_though_no_epoch_was_named(
    client: SyncClient, log: ScriptedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was read was of the epoch of its leader; the next one has other records there."""
    told = log.metadata

    def metadata() -> MetadataResponse:
        answer = told()
        answer.topics[0].partitions[0].leader_epoch = 6 if len(log.fetched_at) > 1 else 4
        return answer

    def ends(request: Request, version: int) -> OffsetForLeaderEpochResponse:
        row = EpochEndOffset(partition=0, leader_epoch=4, end_offset=7)
        return OffsetForLeaderEpochResponse(
            topics=[OffsetForLeaderTopicResult(topic="orders", partitions=[row])]
        )

    monkeypatch.setattr(log, "metadata", metadata)
    log.answer(OffsetForLeaderEpochRequest, ends)
    log.errors = [0, ErrorCode.FENCED_LEADER_EPOCH]
    reading = read_range(client, ORDERS, 0, 30)
    assert next(reading).next_offset == 10
    with pytest.raises(LogCut) as caught:
        next(reading)
    assert caught.value.still_there == 7


def test_over_a_quota_one_waits_as_told_and_longer_than_patience(
    client: SyncClient, log: ScriptedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time_of_the_client(monkeypatch)
    log.throttle_times_ms = [10_000] * 5
    log.errors = [ErrorCode.NOT_LEADER_OR_FOLLOWER]  # what happens then is met with patience all the same
    connection = client.connection_to(1, client.deadline())
    began = now[0]

    assert [f.next_offset for f in read_range(client, ORDERS, 0, 20)] == [10, 20]
    assert 50 <= now[0] - began < 60
    assert log.fetched_at == [0] * 7 + [10]
    assert connection.is_open, "it is no fault of the connection"


def test_a_quota_that_lets_something_through_now_and_then_is_waited_for(
    client: SyncClient, log: ScriptedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time_of_the_client(monkeypatch)
    most_ms = int(MOST_HELD_UP_S * 1000)
    log.throttle_times_ms = [most_ms - 1, 0, most_ms - 1]
    began = now[0]

    assert [f.next_offset for f in read_range(client, ORDERS, 0, 20)] == [10, 20]
    assert now[0] - began > MOST_HELD_UP_S


def test_a_quota_that_lets_nothing_through_is_not_waited_for_without_end(
    client: SyncClient, log: ScriptedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time_of_the_client(monkeypatch)
    log.throttle_times_ms = [60_000, 60_000, 2**31 - 1]
    began = now[0]

    with pytest.raises(
        DeadlineExceeded, match=r"0 to 20 could not be read: .* over its quota; raise its cons"
    ):
        list(read_range(client, ORDERS, 0, 20))
    assert now[0] - began == MOST_HELD_UP_S


def test_what_cannot_pass_is_told_at_once(client: SyncClient, log: ScriptedLog) -> None:
    log.errors = [ErrorCode.TOPIC_AUTHORIZATION_FAILED]

    with pytest.raises(ProtocolError, match="orders-0: TOPIC_AUTHORIZATION_FAILED"):
        list(read_range(client, ORDERS, 0, 30))
    assert log.fetched_at == [0]


def test_an_error_that_stays_is_told_with_the_range(
    client: SyncClient, log: ScriptedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    time_of_the_client(monkeypatch)
    log.errors = [ErrorCode.KAFKA_STORAGE_ERROR] * 1_000

    with pytest.raises(DeadlineExceeded, match=r"offsets 0 to 30 could not be read .*KAFKA_STORAGE_ERROR"):
        list(read_range(client, ORDERS, 0, 30))
    assert log.errors


def time_of_the_client(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Stands still but for pauses, and for whoever puts it forward."""
    now = [1000.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    seen = SimpleNamespace(monotonic=lambda: now[0], sleep=sleep)
    for module in (sync, sync_connection, sync_fetch):
        monkeypatch.setattr(module, "time", seen)
    return now


def test_a_leader_that_does_not_answer_is_not_all_that_there_is_patience_for(
    log: ScriptedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was stopped, or its network is gone: by the time that a request may take somebody else leads."""
    now = time_of_the_client(monkeypatch)
    with ScriptedLog() as other:

        def metadata(leader: int) -> MetadataResponse:
            answer = log.metadata()
            answer.brokers.append(MetadataResponseBroker(node_id=2, host="127.0.0.1", port=other.port))
            answer.topics[0].partitions[0].leader_id = leader
            return answer

        def silent(request: Request, version: int) -> None:
            now[0] += 30.0

        log.answer(MetadataRequest, lambda *_: metadata(1))
        log.answer(FetchRequest, silent)
        other.answer(MetadataRequest, lambda *_: metadata(2))
        with SyncClient(log.address) as client:
            assert [f.next_offset for f in read_range(client, ORDERS, 0, 30)] == [10, 20, 30]

        other.answer(FetchRequest, silent)
        with SyncClient(other.address) as client, pytest.raises(DeadlineExceeded, match="0 to 30 could not"):
            list(read_range(client, ORDERS, 0, 30))


def test_whoever_takes_long_over_what_was_read_reads_on(
    client: SyncClient, log: ScriptedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer to the Fetch that was sent ahead lies there; a task of Spark's may take minutes until it asks for it. What
    goes wrong then is met with all the patience there is."""
    now = time_of_the_client(monkeypatch)
    connection = client.connection_to(1, client.deadline())
    found = []
    for fetched in read_range(client, ORDERS, 0, 30):
        found.append(fetched.next_offset)
        now[0] += 600.0
        if found == [10]:
            log.errors = [ErrorCode.NOT_LEADER_OR_FOLLOWER]

    assert found == [10, 20, 30] and not log.errors
    assert connection.is_open, "the answer that lay there was taken"


def test_a_reading_that_is_given_up_leaves_no_answer_behind(client: SyncClient, log: ScriptedLog) -> None:
    reading = read_range(client, ORDERS, 0, 30)
    next(reading)
    connection = client.connection_to(1, client.deadline())
    reading.close()  # type: ignore[attr-defined]

    assert not connection.is_open
    assert [f.next_offset for f in read_range(client, ORDERS, 20, 30)] == [30]


@pytest.mark.process
def test_a_range_is_whole_although_its_leader_is_killed_while_it_is_read(tmp_path: Path) -> None:
    with ProcessCluster(tmp_path, brokers=3) as cluster, SyncClient(cluster.bootstrap) as client:
        topic = CreatableTopic(name="orders", num_partitions=1, replication_factor=3)
        client.call(CONTROLLER, CreateTopicsRequest(topics=[topic], timeout_ms=30_000))
        for start in range(0, 1000, 10):
            records = [NewRecord(None, b"%d" % n) for n in range(start, start + 10)]
            assert client.produce(ORDERS, build_batch(records)) == start
        reading = read_range(client, ORDERS, 3, 997, max_bytes=2_000)

        values = []
        for number, fetched in enumerate(reading):
            position = 0
            while position < len(fetched.records):
                found = decode_batch(fetched.records, position)
                values += [record.value for record in found if 3 <= record.offset < 997]
                position += int.from_bytes(fetched.records[position + 8 : position + 12], "big") + 12
            if number == 3:
                # A busy machine keeps a follower from its fetches for longer than it may lag.
                cluster.wait_until(lambda: is_fully_replicated(cluster, "orders"), "every ISR is full")
                cluster.kill(client.leader(ORDERS)[0])

        assert values == [b"%d" % n for n in range(3, 997)]
