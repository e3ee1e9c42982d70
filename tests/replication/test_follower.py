"""The fetcher without a socket: what it asks, and what it makes of every answer. The test plays the leader."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from odradek.log.errors import StorageError
from odradek.model.cluster import ReplicaAssignment
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import NO_TOPIC_ID, BrokerEpoch, TopicId, TopicPartition
from odradek.protocol.errors import MalformedMessage
from odradek.protocol.headers import decode_request_header, response_header
from odradek.protocol.messages import fetch as fm
from odradek.protocol.messages import list_offsets as lm
from odradek.protocol.messages import offset_for_leader_epoch as om
from odradek.replication.cuts import CUTS_AT_ONCE, Cut
from odradek.replication.followed import FIRST_BACKOFF_MS, LATER, FetchLimits
from odradek.replication.follower import BATCHES_A_ROW, INT32_MAX, FollowerFetcher
from odradek.replication.partition import Partition
from odradek.replication.purgatory import Purgatory
from odradek.replication.throttle import ReplicationThrottle
from odradek.replication.waiting import Outbox
from tests.replication.partitions import T0, a_batch, a_log, b, leadership

REQUESTS = {1: fm.FetchRequest, 2: lm.ListOffsetsRequest, 23: om.OffsetForLeaderEpochRequest}
SESSION = 77


class Follows:
    """Broker 2 follows broker 1."""

    def __init__(self, path: Path, throttle: ReplicationThrottle | None = None) -> None:
        self.path = path
        self.now_ms = 1_000
        self.broker_epoch = 33
        self.outbox = Outbox(Purgatory())
        self.fetcher = FollowerFetcher(
            broker=b(2),
            leader=b(1),
            limits=FetchLimits(backoff_ms=100),
            outbox=self.outbox,
            broker_epoch=lambda: BrokerEpoch(self.broker_epoch),
            throttle=throttle,
        )
        self.sent: list[tuple[int, int, int]] = []  # key, version, correlation id of what is in flight

    def partition(
        self,
        topic: str = "t",
        *,
        epoch: int = 5,
        written: Sequence[tuple[int, int]] = (),
        number: int = 1,
        index: int = 0,
    ) -> Partition:
        log = a_log(self.path / f"{topic}-{index}", topic)
        for batch_epoch, count in written:
            values = [b"x"] * count
            log.append_as_follower(
                a_batch(*values, epoch=batch_epoch, base_offset=log.log_end_offset), now_ms=0
            )
        partition = Partition(
            TopicPartition(topic, index),
            TopicId(bytes([number] * 16)),
            log,
            broker=b(2),
            high_watermark=0,
            min_insync_replicas=1,
            replica_lag_time_max_ms=10_000,
            live_brokers={1, 2},
            outbox=self.outbox,
        )
        self.told(partition, epoch)
        return partition

    def told(self, partition: Partition, epoch: int) -> None:
        partition.make_follower(leadership(1, epoch, (1, 2)), ReplicaAssignment((b(1), b(2))))
        self.fetcher.remove(partition.topic_partition)
        self.fetcher.add(partition)

    def asks(self) -> Any:
        """The next request, decoded; None if there is none."""
        frame = self.fetcher.next_request(self.now_ms)
        if frame is None:
            return None
        assert int.from_bytes(frame[:4], "big") == len(frame) - 4
        header = decode_request_header(frame[4:])
        assert header.client_id == "broker-2-fetcher-0"
        self.sent.append((header.api_key, header.api_version, header.correlation_id))
        return REQUESTS[header.api_key].decode(header.api_version, frame[4:], header.body_offset)

    def answer(self, response: Any) -> None:
        key, version, correlation_id = self.sent.pop(0)
        frame = response_header(key, version, correlation_id) + response.encode(version)
        self.fetcher.handle_response(memoryview(frame), self.now_ms)

    def answer_fetch(
        self, *rows: tuple[str, int, fm.PartitionData], error: int = 0, session: int = SESSION
    ) -> None:
        """Rows of (topic, number of its id, data)."""
        self.answer(
            fm.FetchResponse(
                error_code=error,
                session_id=session,
                responses=[
                    fm.FetchableTopicResponse(topic=topic, topic_id=bytes([number] * 16), partitions=[data])
                    for topic, number, data in rows
                ],
            )
        )


def row(
    *,
    records: bytes | memoryview = b"",
    mark: int = 0,
    error: int = 0,
    start: int = 0,
    diverging: tuple[int, int] | None = None,
) -> fm.PartitionData:
    data = fm.PartitionData(
        error_code=error, high_watermark=mark, log_start_offset=start, records=bytes(records)
    )
    if diverging is not None:
        data.diverging_epoch = fm.EpochEndOffset(epoch=diverging[0], end_offset=diverging[1])
    return data


@pytest.fixture
def follows(tmp_path: Path) -> Follows:
    return Follows(tmp_path)


def wanted(request: fm.FetchRequest) -> dict[int, tuple[int, int, int]]:
    """Number of the topic -> (leader epoch, offset, last epoch)."""
    return {
        topic.topic_id[0]: (p.current_leader_epoch, p.fetch_offset, p.last_fetched_epoch)
        for topic in request.topics
        for p in topic.partitions
    }


def test_of_an_answer_with_very_many_batches_so_many_are_taken_and_the_next_is_asked_to_be_smaller(
    follows: Follows, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer of 10 MiB has a hundred thousand small ones, which took half a second of one turn."""
    monkeypatch.setattr("odradek.replication.follower.MOST_BATCHES", 5 + 2 * BATCHES_A_ROW)
    one, two = follows.partition("t"), follows.partition("u", number=2)
    three = follows.partition("v", number=3)
    small = [a_batch(b"x", epoch=5, base_offset=n) for n in range(8)]
    size = len(small[0])
    assert follows.asks().max_bytes == FetchLimits().response_max_bytes
    follows.answer_fetch(
        ("t", 1, row(records=b"".join(small[:3]), mark=8)),
        ("u", 2, row(records=b"".join(small), mark=2)),
        ("v", 3, row(records=b"".join(small), mark=8)),
    )
    assert [p.log.log_end_offset for p in (one, two, three)] == [3, 2, 0]
    assert (two.high_watermark, three.high_watermark) == (2, 0)
    request = follows.asks()
    assert wanted(request) == {1: (5, 3, 5), 2: (5, 2, 5), 3: (5, 0, -1)}
    assert request.max_bytes == 5 * size
    large = a_batch(b"x" * 10 * size, epoch=5, base_offset=3)
    follows.answer_fetch(("t", 1, row(records=large, mark=8)))
    assert follows.asks().max_bytes == 3 * len(large)


def test_nothing_is_asked_while_nothing_is_followed(follows: Follows) -> None:
    assert follows.asks() is None
    assert follows.fetcher.wake_at_ms(follows.now_ms) is None


def test_the_first_fetch_opens_a_session_and_says_who_asks(follows: Follows) -> None:
    follows.partition(written=[(3, 4)])
    request = follows.asks()
    assert follows.sent[0][:2] == (1, 17)
    assert (request.session_id, request.session_epoch) == (0, 0)
    assert (request.replica_state.replica_id, request.replica_state.replica_epoch) == (2, 33)
    assert wanted(request) == {1: (5, 4, 3)}
    assert follows.asks() is None, "one fetch is in flight, and it is enough"


def test_the_next_fetch_is_the_acknowledgement_and_names_only_what_moved(follows: Follows) -> None:
    one, _two = follows.partition("t"), follows.partition("u", number=2)
    follows.asks()
    follows.answer_fetch(("t", 1, row(records=a_batch(b"a", b"b", epoch=5), mark=1)), ("u", 2, row()))
    assert one.log.log_end_offset == 2
    assert one.high_watermark == 1
    request = follows.asks()
    assert (request.session_id, request.session_epoch) == (SESSION, 1)
    assert wanted(request) == {1: (5, 2, 5)}
    follows.answer_fetch(("t", 1, row(mark=2)))
    assert one.high_watermark == 2
    request = follows.asks()
    assert request.session_epoch == 2
    assert wanted(request) == {}


def test_a_topic_without_an_id_is_fetched_by_name(follows: Follows) -> None:
    partition = follows.partition()
    partition.topic_id = TopicId(NO_TOPIC_ID)
    request = follows.asks()
    assert follows.sent[0][:2] == (1, 12)
    assert request.replica_id == 2
    assert [topic.topic for topic in request.topics] == ["t"]
    follows.answer_fetch(("t", 0, row(records=a_batch(b"a", epoch=5))))
    assert partition.log.log_end_offset == 1


def test_a_session_by_ids_is_closed_and_one_by_names_opened_for_a_topic_without_an_id(
    follows: Follows,
) -> None:
    follows.partition("t")
    follows.asks()
    follows.answer_fetch(("t", 1, row()))
    follows.partition("u", number=0)
    request = follows.asks()
    assert follows.sent[-1][:2] == (1, 12)
    assert (request.session_id, request.session_epoch) == (SESSION, 0), "closes the one, and opens another"
    assert {topic.topic for topic in request.topics} == {"t", "u"}
    follows.answer_fetch(("t", 1, row()), ("u", 0, row()))
    follows.partition("v", number=0)
    request = follows.asks()
    assert (request.session_epoch, [topic.topic for topic in request.topics]) == (1, ["v"]), (
        "that one goes on"
    )


def test_the_epoch_of_a_session_begins_again_behind_the_largest(follows: Follows) -> None:
    follows.partition()
    follows.asks()
    follows.answer_fetch(("t", 1, row()))
    follows.fetcher._session_epoch = INT32_MAX
    assert follows.asks().session_epoch == INT32_MAX
    follows.answer_fetch()
    assert follows.asks().session_epoch == 1


def test_in_a_session_one_fetch_is_in_flight_and_another_one_behind_it_only_for_news(
    follows: Follows,
) -> None:
    follows.partition("t")
    follows.asks()
    follows.answer_fetch(("t", 1, row()))
    assert follows.asks() is not None
    assert follows.asks() is None
    follows.partition("u", number=2)
    assert follows.asks() is not None
    follows.answer_fetch()
    assert follows.asks() is None, "the one behind is the one in flight now"


def test_a_throttled_replica_leaves_the_session_until_its_rate_allows_it(tmp_path: Path) -> None:
    """Though it has something to acknowledge: the leader would answer with more of it."""
    throttle = ReplicationThrottle()
    throttle.rate = 1
    follows = Follows(tmp_path, throttle)
    throttle.covered.add(follows.partition("t").topic_partition)
    follows.partition("u", number=2)
    follows.asks()
    follows.answer_fetch(("t", 1, row(records=a_batch(b"a", epoch=5), mark=5)), ("u", 2, row()))
    request = follows.asks()
    assert wanted(request) == {} and len(request.forgotten_topics_data) == 1
    follows.answer_fetch()
    follows.now_ms = throttle.free_at_ms(follows.now_ms)
    assert wanted(follows.asks()) == {1: (5, 1, 5)}


@pytest.mark.parametrize("is_heard", [False, True])
def test_who_has_not_heard_how_far_the_leader_is_counts_as_behind_to_a_throttle(
    tmp_path: Path, *, is_heard: bool
) -> None:
    """A leader that is committed up to 0 is heard as well."""
    throttle = ReplicationThrottle()
    throttle.rate = 1
    follows = Follows(tmp_path, throttle)
    follows.partition("u", number=2)
    throttle.covered.add(follows.partition("t").topic_partition)
    if is_heard:
        assert set(wanted(follows.asks())) == {1, 2}
        follows.answer_fetch(("t", 1, row()), ("u", 2, row()), session=0)
    throttle.record(1_000, follows.now_ms)
    assert set(wanted(follows.asks())) == ({1, 2} if is_heard else {2})


def test_a_log_start_that_followed_the_leaders_is_told(follows: Follows) -> None:
    """DeleteRecords is answered when all replicas have followed."""
    partition = follows.partition(written=[(5, 2)])
    follows.asks()
    follows.answer_fetch(("t", 1, row(mark=2, start=1)))
    assert partition.log.log_start_offset == 1
    (topic,) = follows.asks().topics
    assert [wanted.log_start_offset for wanted in topic.partitions] == [1]


def test_who_is_delayed_is_asked_for_while_the_end_of_another_log_is_asked_about(follows: Follows) -> None:
    follows.partition("u", number=2)
    follows.asks()
    follows.answer_fetch(("u", 2, row(error=ErrorCode.NOT_LEADER_OR_FOLLOWER)))
    follows.partition("t", written=[(-1, 4)])
    assert follows.asks() is not None and follows.sent[-1][0] == 23
    assert follows.fetcher.wake_at_ms(follows.now_ms) == follows.now_ms + FIRST_BACKOFF_MS
    follows.now_ms += FIRST_BACKOFF_MS
    assert wanted(follows.asks()) == {2: (5, 0, -1)}


def test_a_new_partition_does_not_wait_behind_the_parked_fetch(follows: Follows) -> None:
    follows.partition("t")
    follows.asks()
    follows.answer_fetch(("t", 1, row()))
    follows.asks()
    follows.partition("u", number=2)
    request = follows.asks()
    assert wanted(request) == {2: (5, 0, -1)}
    assert request.session_epoch == 2
    follows.partition("v", number=3)
    assert follows.asks() is None, "at most one behind the other"
    follows.answer_fetch()
    follows.answer_fetch(("u", 2, row(records=a_batch(b"a", epoch=5))))
    assert follows.fetcher.partitions[TopicPartition("u", 0)].partition.log.log_end_offset == 1


def test_a_partition_no_longer_followed_is_taken_out_of_the_session(follows: Follows) -> None:
    follows.partition("t")
    follows.partition("u", number=2)
    follows.asks()
    follows.answer_fetch(("t", 1, row()), ("u", 2, row()))
    follows.asks()
    follows.fetcher.remove(TopicPartition("t", 0))
    request = follows.asks()
    assert [bytes(f.topic_id) for f in request.forgotten_topics_data] == [bytes([1] * 16)]
    follows.answer_fetch()
    follows.answer_fetch()
    assert follows.asks().forgotten_topics_data == [], "once"


@pytest.mark.parametrize("state", ["named in no request yet", "in the session", "delayed"])
def test_of_a_partition_no_longer_followed_nothing_is_asked_or_taken(follows: Follows, state: str) -> None:
    follows.partition("u", number=2)
    follows.asks()
    follows.answer_fetch(("u", 2, row()))
    follows.asks()
    partition = follows.partition("t")
    if state != "named in no request yet":
        follows.asks()
        follows.answer_fetch()
    if state == "delayed":
        follows.answer_fetch(("t", 1, row(error=ErrorCode.UNKNOWN_LEADER_EPOCH)))
        follows.asks()

    follows.fetcher.remove(partition.topic_partition)

    assert follows.fetcher.wake_at_ms(follows.now_ms) is None
    follows.answer_fetch(("t", 1, row(records=a_batch(b"a", epoch=5))))
    assert partition.log.log_end_offset == 0 and follows.outbox.messages == []
    follows.now_ms += FIRST_BACKOFF_MS
    assert wanted(follows.asks()) == {}


def test_a_broker_that_has_registered_anew_names_all_its_partitions_once(follows: Follows) -> None:
    """The leader notes the new epoch of those that a fetch names (KIP-903)."""
    for number, topic in enumerate("tu", start=1):
        follows.partition(topic, number=number)
    follows.asks()
    follows.answer_fetch(("t", 1, row()), ("u", 2, row()))
    assert follows.asks().session_epoch == 1
    follows.broker_epoch = 34
    follows.answer_fetch()

    request = follows.asks()

    assert (request.session_id, request.session_epoch) == (SESSION, 0), (
        "a session anew, and the old one closed"
    )
    assert request.replica_state.replica_epoch == 34
    assert wanted(request) == {1: (5, 0, -1), 2: (5, 0, -1)}
    follows.answer_fetch(("t", 1, row()), ("u", 2, row()))
    request = follows.asks()
    assert (request.session_epoch, wanted(request)) == (1, {})


@pytest.mark.parametrize("is_cut", [False, True])
def test_what_the_leader_waits_to_hear_is_sent_behind_the_parked_fetch(
    follows: Follows, is_cut: bool
) -> None:
    partition = follows.partition("t", written=[(3, 1)] * is_cut)
    follows.asks()
    follows.answer_fetch(("t", 1, row()))
    follows.asks()
    follows.partition("u", number=2)
    assert wanted(follows.asks()) == {2: (5, 0, -1)}

    end = partition.log.log_end_offset
    told = row(diverging=(2, 0)) if is_cut else row(records=a_batch(b"a", epoch=5, base_offset=end))
    follows.answer_fetch(("t", 1, told))

    assert wanted(follows.asks()) == {1: (5, 0, -1) if is_cut else (5, 1, 5)}
    assert follows.asks() is None


def test_partitions_of_one_topic_are_asked_for_together(follows: Follows) -> None:
    for index in range(3):
        follows.partition("t", index=index)
    (topic,) = follows.asks().topics
    assert [partition.partition for partition in topic.partitions] == [0, 1, 2]


def test_what_comes_of_a_session_that_is_no_more_is_dropped(follows: Follows) -> None:
    """Two fetches were in flight, and the leader had lost the session of both."""
    partition = follows.partition("t")
    follows.asks()
    follows.answer_fetch(("t", 1, row()))
    follows.asks()
    follows.partition("u", number=2)
    follows.asks()
    follows.answer_fetch(error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)

    follows.answer_fetch(("t", 1, row(records=a_batch(b"a", epoch=5), mark=1)))

    assert (partition.log.log_end_offset, partition.high_watermark) == (0, 0)
    assert wanted(follows.asks()) == {1: (5, 0, -1), 2: (5, 0, -1)}


@pytest.mark.parametrize("is_covered", [True, False])
def test_what_is_fetched_of_a_throttled_replica_is_counted(tmp_path: Path, is_covered: bool) -> None:
    throttle = ReplicationThrottle()
    throttle.rate = 1
    follows = Follows(tmp_path, throttle)
    partition = follows.partition("t")
    if is_covered:
        throttle.covered.add(partition.topic_partition)
    follows.asks()
    follows.answer_fetch(("t", 1, row()))
    assert not throttle.is_exceeded(follows.now_ms), "nothing came"
    follows.asks()

    follows.answer_fetch(("t", 1, row(records=a_batch(b"a", epoch=5), mark=5)))

    assert throttle.is_exceeded(follows.now_ms) is is_covered
    assert (follows.asks() is None) is is_covered
    due = follows.fetcher.wake_at_ms(follows.now_ms)
    assert due == (throttle.free_at_ms(follows.now_ms) if is_covered else None)


def test_nothing_is_asked_in_a_session_that_the_fetch_in_flight_closes(follows: Follows) -> None:
    """The leader would answer that it knows no such session, and the one that was opened just before would be given up."""
    follows.partition("t")
    follows.asks()
    follows.answer_fetch(("t", 1, row()))
    follows.asks()
    follows.broker_epoch += 1
    follows.partition("u", number=2)
    assert follows.asks().session_id == SESSION
    follows.answer_fetch()  # in the old session
    follows.partition("v", number=3)
    assert follows.asks() is None
    follows.answer_fetch(("t", 1, row()), session=SESSION + 1)
    request = follows.asks()
    assert (request.session_id, request.session_epoch) == (SESSION + 1, 1)
    assert wanted(request) == {3: (5, 0, -1)}


def test_who_has_no_session_asks_for_nothing_behind_the_parked_fetch(follows: Follows) -> None:
    """The leader could not tell what the second one is about."""
    follows.partition("t")
    follows.asks()
    follows.answer_fetch(("t", 1, row()), session=0)
    assert follows.asks().session_epoch == 0
    follows.partition("u", number=2)
    assert follows.asks() is None


def test_an_answer_about_an_older_epoch_of_the_partition_is_dropped(follows: Follows) -> None:
    """State read before a wait and used after it is the classic mistake; here the answer is the wait."""
    partition = follows.partition()
    follows.asks()
    follows.told(partition, 6)
    follows.answer_fetch(("t", 1, row(records=a_batch(b"old", epoch=5), mark=1)))
    assert partition.log.log_end_offset == 0
    assert partition.high_watermark == 0
    assert wanted(follows.asks()) == {1: (6, 0, -1)}


def test_a_mark_that_was_told_in_an_older_epoch_is_none_of_the_new_one(follows: Follows) -> None:
    """The leader that was elected may not know of it yet."""
    partition = follows.partition(written=[(5, 2)])
    follows.asks()
    follows.told(partition, 6)
    follows.answer_fetch(("t", 1, row(mark=2)))
    follows.asks()
    follows.answer_fetch(("t", 1, row(mark=0)))
    assert partition.high_watermark == 0


def test_the_mark_of_a_row_that_is_an_error_is_none(follows: Follows) -> None:
    partition = follows.partition(written=[(5, 2)])
    follows.asks()
    follows.answer_fetch(("t", 1, row(error=ErrorCode.NOT_LEADER_OR_FOLLOWER, mark=2)))
    follows.now_ms += FIRST_BACKOFF_MS
    follows.asks()
    follows.answer_fetch(("t", 1, row(mark=0)))
    assert partition.high_watermark == 0


def test_what_comes_behind_an_error_for_a_partition_that_is_delayed_is_not_appended(follows: Follows) -> None:
    """It left the session, and the fetch that says so is not sent yet."""
    partition = follows.partition("t")
    follows.asks()
    follows.answer_fetch(("t", 1, row()))
    follows.asks()
    follows.partition("u", number=2)
    assert wanted(follows.asks()) == {2: (5, 0, -1)}
    follows.answer_fetch(("t", 1, row(error=ErrorCode.KAFKA_STORAGE_ERROR)))
    follows.answer_fetch(("t", 1, row(records=a_batch(b"a", epoch=5))))
    assert partition.log.log_end_offset == 0
    follows.asks()
    follows.answer_fetch()
    follows.now_ms += FIRST_BACKOFF_MS
    assert wanted(follows.asks()) == {1: (5, 0, -1)}


def test_an_answer_for_another_end_of_the_log_is_dropped(follows: Follows) -> None:
    partition = follows.partition(written=[(5, 1), (5, 2)])
    follows.asks()
    partition.truncate_to(1, 0)
    batch = a_batch(b"x", epoch=5, base_offset=3)
    follows.answer_fetch(("t", 1, row(records=batch)))
    assert partition.log.log_end_offset == 1


def test_records_that_come_again_with_the_answer_behind_are_passed_over(follows: Follows) -> None:
    """The fetch behind did not name their partition, so the leader sends them from where it stood in the session."""
    partition = follows.partition("t")
    follows.asks()
    follows.answer_fetch(("t", 1, row()))
    follows.asks()
    follows.partition("u", number=2)
    assert wanted(follows.asks()) == {2: (5, 0, -1)}
    for mark in (0, 2):
        batch = a_batch(b"a", b"b", epoch=5)
        follows.answer_fetch(("t", 1, row(records=batch, mark=mark)))
    assert (partition.log.log_end_offset, partition.high_watermark) == (2, 2)
    assert [text for level, text in follows.outbox.messages if level == "error"] == []
    assert wanted(follows.asks()) == {1: (5, 2, 5)}, "not after a pause"


def test_a_partition_that_is_followed_again_at_once_is_not_taken_out_of_the_session(follows: Follows) -> None:
    """A leader may take in what is wanted first, and then take out what is not (Apache's does)."""
    partition = follows.partition("t")
    follows.partition("u", number=2)
    follows.asks()
    follows.answer_fetch(("t", 1, row()), ("u", 2, row()))
    follows.asks()
    follows.told(partition, 6)
    request = follows.asks()
    assert wanted(request) == {1: (6, 0, -1)} and request.forgotten_topics_data == []


def test_the_mark_that_is_under_way_when_a_partition_is_followed_again_in_its_epoch_is_kept(
    follows: Follows,
) -> None:
    """As of one that was stopped and told to follow again: its leader tells the mark once in an epoch."""
    partition = follows.partition(written=[(5, 2)])
    follows.partition("u", number=2)
    follows.asks()
    follows.answer_fetch(("t", 1, row(mark=1)), ("u", 2, row()))
    assert partition.high_watermark == 1
    follows.asks()
    partition.stop()
    follows.told(partition, 5)
    follows.answer_fetch(("t", 1, row(mark=2)))
    follows.asks()
    follows.answer_fetch()
    assert partition.high_watermark == 2


def test_the_mark_that_is_under_way_when_a_delayed_partition_is_asked_for_again_is_kept(
    follows: Follows,
) -> None:
    """The pause was over before its leader was told that it had left the session."""
    partition = follows.partition(written=[(5, 2)])
    follows.asks()
    follows.answer_fetch(("t", 1, row(mark=1)))
    follows.asks()
    follows.partition("u", number=2)
    follows.asks()
    follows.answer_fetch(("t", 1, row(error=ErrorCode.UNKNOWN_LEADER_EPOCH)))
    follows.now_ms += FIRST_BACKOFF_MS
    assert 1 in wanted(follows.asks())
    follows.answer_fetch(("t", 1, row(mark=2)), ("u", 2, row()))
    follows.answer_fetch()
    assert partition.high_watermark == 2


def test_a_topic_that_was_made_anew_leaves_the_session_by_its_former_id(follows: Follows) -> None:
    """Else its leader answers every fetch at once, for ever, with an error for the topic that is gone."""
    follows.partition("t")
    follows.partition("u", number=2)
    follows.asks()
    follows.partition("t", number=3)
    follows.answer_fetch(("t", 1, row()), ("u", 2, row()))
    request = follows.asks()
    assert wanted(request) == {3: (5, 0, -1)}
    assert [(one.topic_id[0], one.partitions) for one in request.forgotten_topics_data] == [(1, [0])]


def test_a_log_that_ends_where_the_leaders_begins_goes_on(follows: Follows) -> None:
    partition = follows.partition(written=[(5, 2)])
    follows.asks()
    follows.answer_fetch(("t", 1, row(error=ErrorCode.OFFSET_OUT_OF_RANGE)))
    for offset in (50, 2):
        follows.asks()
        answer = lm.ListOffsetsPartitionResponse(partition_index=0, offset=offset)
        follows.answer(
            lm.ListOffsetsResponse(topics=[lm.ListOffsetsTopicResponse(name="t", partitions=[answer])])
        )
    assert (partition.log.log_start_offset, partition.log.log_end_offset) == (0, 2)
    follows.now_ms += FIRST_BACKOFF_MS
    assert wanted(follows.asks()) == {1: (5, 2, 5)}


@pytest.mark.parametrize("leader_end", [50, 2])
def test_who_is_refused_although_the_leader_has_what_he_asks_for_asks_ever_more_rarely_and_says_so_once(
    follows: Follows, leader_end: int
) -> None:
    """The epoch in which his log ends is above all that the leader knows: a store that was put back to an older state. The
    two asked each other as fast as they could."""
    partition = follows.partition(written=[(9, 2)])
    pauses = []
    for _ in range(6):
        assert wanted(follows.asks()) == {1: (5, 2, 9)}
        follows.answer_fetch(("t", 1, row(error=ErrorCode.OFFSET_OUT_OF_RANGE)))
        for offset in (leader_end, 0):
            follows.asks()
            answer = lm.ListOffsetsPartitionResponse(partition_index=0, offset=offset)
            follows.answer(
                lm.ListOffsetsResponse(topics=[lm.ListOffsetsTopicResponse(name="t", partitions=[answer])])
            )
        due = follows.fetcher.wake_at_ms(follows.now_ms)
        assert due is not None and follows.asks() is None
        pauses.append(due - follows.now_ms)
        follows.now_ms = due
    assert pauses == [5, 10, 20, 40, 80, 100]
    assert (partition.log.log_start_offset, partition.log.log_end_offset) == (0, 2)
    assert follows.outbox.messages == [
        (
            "warning",
            "t-0: leader 1, whose log begins at 0, lets nobody read from 2 on whose log ends in epoch 9: asked again; "
            "it knows no such epoch if the store was put back to an older state",
        )
    ]


def test_a_diverging_epoch_cuts_and_fetches_on_from_the_cut(follows: Follows) -> None:
    partition = follows.partition(written=[(3, 4), (4, 2)])
    follows.asks()
    follows.answer_fetch(("t", 1, row(diverging=(3, 2))))
    assert partition.log.log_end_offset <= 2
    assert follows.outbox.messages[0] == ("info", "t-0: cut from 6 to 2: leader 1 ends epoch 3 at 2")
    request = follows.asks()
    assert wanted(request) == {1: (5, partition.log.log_end_offset, partition.log.latest_epoch)}


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.KAFKA_STORAGE_ERROR,
        9999,
    ],
)
def test_an_error_delays_its_partition_alone_and_longer_each_time(follows: Follows, error: int) -> None:
    follows.partition("t")
    other = follows.partition("u", number=2)
    follows.asks()
    follows.answer_fetch(("t", 1, row(error=error)), ("u", 2, row()))
    request = follows.asks()
    assert [bytes(f.topic_id) for f in request.forgotten_topics_data] == [bytes([1] * 16)]
    pauses = []
    for _ in range(7):
        due = follows.fetcher.wake_at_ms(follows.now_ms)
        assert due is not None
        pauses.append(due - follows.now_ms)
        follows.now_ms = due
        request = follows.asks()
        assert wanted(request) == {1: (5, 0, -1)}
        follows.answer_fetch(
            ("u", 2, row(records=a_batch(b"y", epoch=5, base_offset=other.log.log_end_offset)))
        )
        follows.answer_fetch(("t", 1, row(error=error)))
        follows.asks()
    assert pauses == [5, 10, 20, 40, 80, 100, 100]
    follows.now_ms += 100
    follows.asks()
    follows.answer_fetch()
    follows.answer_fetch(("t", 1, row()))
    follows.asks()
    follows.answer_fetch(("t", 1, row(error=error)))
    assert follows.fetcher.wake_at_ms(follows.now_ms) == follows.now_ms + FIRST_BACKOFF_MS, "it had been well"
    assert other.log.log_end_offset == 7, "the other one went on meanwhile"


def test_it_wakes_for_the_first_of_those_that_are_delayed(follows: Follows) -> None:
    failed = row(error=ErrorCode.UNKNOWN_LEADER_EPOCH)
    follows.partition("t")
    follows.asks()
    follows.answer_fetch(("t", 1, failed))
    follows.now_ms += 5
    follows.asks()
    follows.answer_fetch(("t", 1, failed))
    assert follows.fetcher.wake_at_ms(follows.now_ms) == follows.now_ms + 10
    follows.partition("u", number=2)
    follows.asks()
    follows.answer_fetch(("u", 2, failed))
    assert follows.fetcher.wake_at_ms(follows.now_ms) == follows.now_ms + 5


def test_when_every_partition_is_delayed_the_leader_is_left_in_peace(follows: Follows) -> None:
    follows.partition()
    follows.asks()
    follows.answer_fetch(("t", 1, row(error=ErrorCode.UNKNOWN_LEADER_EPOCH)))
    assert follows.asks() is None
    follows.now_ms += 5
    assert wanted(follows.asks()) == {1: (5, 0, -1)}


def test_one_that_is_suspended_is_not_fetched_until_it_is_resumed_or_its_time_has_come(
    follows: Follows,
) -> None:
    partition = follows.partition("t")
    follows.partition("u", number=2)
    follows.asks()
    follows.answer_fetch()

    assert follows.fetcher.suspend(partition.topic_partition, follows.now_ms + 1_000)
    request = follows.asks()
    assert [bytes(f.topic_id) for f in request.forgotten_topics_data] == [bytes([1] * 16)]
    assert follows.fetcher.wake_at_ms(follows.now_ms) == follows.now_ms + 1_000
    follows.answer_fetch()
    follows.now_ms += 10
    follows.fetcher.resume(partition.topic_partition, follows.now_ms)
    assert wanted(follows.asks()) == {1: (5, 0, -1)}

    follows.fetcher.resume(partition.topic_partition, follows.now_ms + 50)
    assert follows.fetcher.wake_at_ms(follows.now_ms) is None, "nobody waits who was not suspended"
    follows.fetcher.resume(TopicPartition("nobody", 0), follows.now_ms)


def test_one_whose_log_end_is_sought_is_neither_suspended_nor_resumed(follows: Follows) -> None:
    partition = follows.partition("t")
    follows.asks()
    follows.answer_fetch(("t", 1, row(error=ErrorCode.OFFSET_OUT_OF_RANGE)))
    follows.asks()  # about the leader's log

    assert not follows.fetcher.suspend(partition.topic_partition, follows.now_ms + 1_000)
    follows.fetcher.resume(partition.topic_partition, follows.now_ms)
    assert follows.fetcher.partitions[partition.topic_partition].delayed_until_ms == LATER


@pytest.mark.parametrize(
    ("error", "kept"),
    [
        (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0),
        (ErrorCode.INVALID_FETCH_SESSION_EPOCH, SESSION),
        (ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, SESSION),
    ],
)
def test_a_lost_session_is_opened_anew_without_delay(follows: Follows, error: ErrorCode, kept: int) -> None:
    follows.partition(written=[(5, 2)])
    follows.asks()
    follows.answer_fetch(("t", 1, row()))
    follows.asks()
    follows.answer_fetch(error=error, session=0)
    request = follows.asks()
    assert (request.session_id, request.session_epoch) == (kept, 0)
    assert wanted(request) == {1: (5, 2, 5)}


def test_an_answer_that_is_an_error_as_a_whole_delays_all_it_was_asked_for(follows: Follows) -> None:
    follows.partition("t")
    follows.partition("u", number=2)
    follows.asks()
    follows.answer_fetch(("t", 1, row()), ("u", 2, row()))
    follows.asks()
    follows.answer_fetch(error=ErrorCode.UNKNOWN_SERVER_ERROR)
    assert follows.asks() is None
    assert follows.fetcher.wake_at_ms(follows.now_ms) == follows.now_ms + FIRST_BACKOFF_MS
    follows.now_ms += FIRST_BACKOFF_MS
    request = follows.asks()
    assert (request.session_id, request.session_epoch) == (SESSION, 0), (
        "a session anew, and the old one closed"
    )
    assert wanted(request) == {1: (5, 0, -1), 2: (5, 0, -1)}


@pytest.mark.parametrize(
    "how", ["is delayed", "loses its connection", "leaves and then loses its connection"]
)
def test_what_is_not_in_the_session_any_more_is_not_taken_out_of_it(follows: Follows, how: str) -> None:
    partition = follows.partition("t")
    follows.partition("u", number=2)
    follows.asks()
    follows.answer_fetch(("t", 1, row()), ("u", 2, row()))
    follows.asks()
    if how == "is delayed":
        follows.answer_fetch(("t", 1, row(error=ErrorCode.KAFKA_STORAGE_ERROR)))
        assert len(follows.asks().forgotten_topics_data) == 1
    if how == "loses its connection":
        follows.fetcher.connection_lost(follows.now_ms)
    follows.fetcher.remove(partition.topic_partition)
    if how == "leaves and then loses its connection":
        follows.fetcher.connection_lost(follows.now_ms)
    if how == "is delayed":
        follows.answer_fetch()
    request = follows.asks()
    assert request.forgotten_topics_data == []


@pytest.mark.parametrize("epoch", [0, 3])
def test_a_log_that_knows_its_last_epoch_is_fetched_for_at_once(follows: Follows, epoch: int) -> None:
    follows.partition(written=[(epoch, 1)])
    assert wanted(follows.asks()) == {1: (5, 1, epoch)}


def test_a_leader_without_room_for_a_session_gets_full_fetches(follows: Follows) -> None:
    follows.partition()
    for n in range(3):
        request = follows.asks()
        assert (request.session_id, request.session_epoch) == (0, 0)
        assert wanted(request)[1][1] == n
        follows.answer_fetch(("t", 1, row(records=a_batch(b"a", epoch=5, base_offset=n))), session=0)


def test_a_lost_connection_forgets_what_was_in_flight(follows: Follows) -> None:
    partition = follows.partition()
    follows.asks()
    follows.answer_fetch(("t", 1, row(records=a_batch(b"a", epoch=5))))
    follows.asks()
    follows.fetcher.connection_lost(follows.now_ms)
    follows.sent.clear()
    request = follows.asks()
    assert (request.session_id, request.session_epoch) == (0, 0)
    assert wanted(request) == {1: (5, 1, 5)}
    assert partition.log.log_end_offset == 1


# ------------------------------------------------------------------------------ ends that lie outside, old logs


def test_out_of_range_below_the_leaders_start_begins_anew_there(follows: Follows) -> None:
    partition = follows.partition(written=[(3, 1), (3, 1)])
    follows.asks()
    follows.answer_fetch(("t", 1, row(error=ErrorCode.OFFSET_OUT_OF_RANGE)))
    for timestamp, offset in ((-1, 50), (-2, 40)):
        request = follows.asks()
        assert follows.sent[-1][:2] == (2, 9)
        (asked,) = request.topics[0].partitions
        assert (asked.timestamp, asked.current_leader_epoch, request.replica_id) == (timestamp, 5, 2)
        answer = lm.ListOffsetsPartitionResponse(partition_index=0, offset=offset)
        follows.answer(
            lm.ListOffsetsResponse(topics=[lm.ListOffsetsTopicResponse(name="t", partitions=[answer])])
        )
    assert (partition.log.log_start_offset, partition.log.log_end_offset) == (40, 40)
    assert partition.high_watermark == 40
    assert follows.outbox.messages[-1] == (
        "warning",
        "t-0: our log ends at 2, the leader's begins at 40: starting again there",
    )
    assert wanted(follows.asks()) == {1: (5, 40, -1)}


def test_out_of_range_above_the_leaders_end_is_cut_to_it(follows: Follows) -> None:
    partition = follows.partition(written=[(3, 2), (3, 2)])
    follows.asks()
    follows.answer_fetch(("t", 1, row(error=ErrorCode.OFFSET_OUT_OF_RANGE)))
    follows.asks()
    answer = lm.ListOffsetsPartitionResponse(partition_index=0, offset=2)
    follows.answer(
        lm.ListOffsetsResponse(topics=[lm.ListOffsetsTopicResponse(name="t", partitions=[answer])])
    )
    assert partition.log.log_end_offset == 2
    assert follows.outbox.messages[0] == ("warning", "t-0: our log ends at 4, the leader's at 2: cut")
    assert wanted(follows.asks()) == {1: (5, 2, 3)}


@pytest.mark.parametrize("is_told", [True, False])
def test_an_end_that_the_leader_does_not_tell_cuts_nothing_and_is_asked_for_again(
    follows: Follows, is_told: bool
) -> None:
    """Its row has an error and offset -1, or there is no row."""
    partition = follows.partition(written=[(3, 2), (3, 2)])
    follows.asks()
    follows.answer_fetch(("t", 1, row(error=ErrorCode.OFFSET_OUT_OF_RANGE)))
    follows.asks()
    failed = lm.ListOffsetsPartitionResponse(
        partition_index=0, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, offset=-1
    )
    follows.answer(
        lm.ListOffsetsResponse(
            topics=[lm.ListOffsetsTopicResponse(name="t", partitions=[failed] if is_told else [])]
        )
    )
    assert partition.log.log_end_offset == 4
    assert follows.outbox.messages == []
    assert follows.asks() is None, "not at once"
    follows.now_ms += FIRST_BACKOFF_MS
    assert follows.asks().topics[0].partitions[0].timestamp == -1


def is_followed_no_more(follows: Follows, partition: Partition) -> None:
    follows.fetcher.remove(partition.topic_partition)


def is_followed_in_a_new_epoch(follows: Follows, partition: Partition) -> None:
    follows.told(partition, 6)


def is_in_a_new_epoch(follows: Follows, partition: Partition) -> None:
    partition.make_follower(leadership(1, 6, (1, 2)), ReplicaAssignment((b(1), b(2))))


def is_followed_anew(follows: Follows, partition: Partition) -> None:
    follows.fetcher.remove(partition.topic_partition)
    follows.fetcher.add(partition)


def has_another_end(follows: Follows, partition: Partition) -> None:
    partition.truncate_to(3, follows.now_ms)


@pytest.mark.parametrize("is_new_log", [True, False])
@pytest.mark.parametrize(
    "meanwhile",
    [is_followed_no_more, is_followed_in_a_new_epoch, is_in_a_new_epoch, is_followed_anew, has_another_end],
)
def test_an_answer_about_offsets_that_was_overtaken_cuts_nothing(
    follows: Follows, is_new_log: bool, meanwhile: Callable[[Follows, Partition], None]
) -> None:
    """It would cut what was fetched since, or what this broker leads by now."""
    partition = follows.partition(written=[(3 if is_new_log else -1, 2)] * 2)
    follows.asks()
    answer: lm.ListOffsetsResponse | om.OffsetForLeaderEpochResponse
    if is_new_log:
        follows.answer_fetch(("t", 1, row(error=ErrorCode.OFFSET_OUT_OF_RANGE)))
        follows.asks()
        end = lm.ListOffsetsPartitionResponse(partition_index=0, offset=2)
        answer = lm.ListOffsetsResponse(topics=[lm.ListOffsetsTopicResponse(name="t", partitions=[end])])
    else:
        end_of_epoch = om.EpochEndOffset(partition=0, leader_epoch=-1, end_offset=-1)
        answer = om.OffsetForLeaderEpochResponse(
            topics=[om.OffsetForLeaderTopicResult(topic="t", partitions=[end_of_epoch])]
        )
    meanwhile(follows, partition)
    log_end_offset = partition.log.log_end_offset

    follows.answer(answer)

    assert partition.log.log_end_offset == log_end_offset
    assert follows.outbox.messages == []


def test_an_error_about_offsets_that_was_overtaken_delays_nobody_who_is_followed_anew(
    follows: Follows,
) -> None:
    partition = follows.partition(written=[(-1, 2)] * 2)
    follows.asks()
    is_followed_anew(follows, partition)
    error = om.EpochEndOffset(partition=0, error_code=ErrorCode.UNKNOWN_LEADER_EPOCH)
    topics = [om.OffsetForLeaderTopicResult(topic="t", partitions=[error])]

    follows.answer(om.OffsetForLeaderEpochResponse(topics=topics))

    (asked,) = follows.asks().topics
    assert [one.partition for one in asked.partitions] == [0]


def test_while_the_leaders_ends_are_asked_for_nobody_spins(follows: Follows) -> None:
    follows.partition(written=[(3, 2)])
    follows.asks()
    follows.answer_fetch(("t", 1, row(error=ErrorCode.OFFSET_OUT_OF_RANGE)))
    assert follows.asks() is not None
    assert follows.asks() is None
    assert follows.fetcher.wake_at_ms(follows.now_ms) is None
    follows.fetcher.connection_lost(follows.now_ms)
    assert follows.fetcher.wake_at_ms(follows.now_ms) == follows.now_ms


def test_a_log_without_epochs_asks_before_it_fetches(follows: Follows) -> None:
    """Files of an old release: the last batch carries no epoch, and nothing was recorded."""
    partition = follows.partition(written=[(-1, 4)])
    assert partition.log.latest_epoch == -1
    request = follows.asks()
    assert follows.sent[-1][:2] == (23, 4)
    (asked,) = request.topics[0].partitions
    assert (asked.current_leader_epoch, asked.leader_epoch, request.replica_id) == (5, -1, 2)
    answer = om.EpochEndOffset(partition=0, leader_epoch=-1, end_offset=-1)
    follows.answer(
        om.OffsetForLeaderEpochResponse(
            topics=[om.OffsetForLeaderTopicResult(topic="t", partitions=[answer])]
        )
    )
    assert partition.log.log_end_offset == 0, "the high watermark is all there is to go by"
    assert wanted(follows.asks()) == {1: (5, 0, -1)}


def test_one_question_about_offsets_is_asked_at_a_time(follows: Follows) -> None:
    follows.partition("t", written=[(-1, 4)])
    follows.asks()
    follows.partition("u", written=[(-1, 4)], number=2)
    assert follows.asks() is None
    answer = om.EpochEndOffset(partition=0, leader_epoch=-1, end_offset=-1)
    follows.answer(
        om.OffsetForLeaderEpochResponse(
            topics=[om.OffsetForLeaderTopicResult(topic="t", partitions=[answer])]
        )
    )
    asked = follows.asks()
    assert (follows.sent[-1][0], [topic.topic for topic in asked.topics]) == (23, ["u"])


@pytest.mark.parametrize("is_told", [True, False])
def test_an_error_while_truncating_delays_and_asks_again(follows: Follows, is_told: bool) -> None:
    """Its row has an error, or there is no row."""
    follows.partition(written=[(-1, 4)])
    follows.asks()
    answer = om.EpochEndOffset(partition=0, error_code=ErrorCode.UNKNOWN_LEADER_EPOCH)
    follows.answer(
        om.OffsetForLeaderEpochResponse(
            topics=[om.OffsetForLeaderTopicResult(topic="t", partitions=[answer] * is_told)]
        )
    )
    assert follows.asks() is None
    follows.now_ms += 5
    assert follows.asks() is not None
    assert follows.sent[-1][0] == 23


def test_an_answer_while_truncating_makes_the_next_pause_a_short_one_again(follows: Follows) -> None:
    follows.partition(written=[(-1, 4)])
    ends = [om.EpochEndOffset(partition=0, error_code=ErrorCode.UNKNOWN_LEADER_EPOCH)] * 3
    for end in [*ends, om.EpochEndOffset(partition=0, leader_epoch=-1, end_offset=-1)]:
        follows.now_ms += 100
        follows.asks()
        follows.answer(
            om.OffsetForLeaderEpochResponse(
                topics=[om.OffsetForLeaderTopicResult(topic="t", partitions=[end])]
            )
        )
    follows.asks()
    follows.answer_fetch(("t", 1, row(error=ErrorCode.NOT_LEADER_OR_FOLLOWER)))
    assert follows.fetcher.wake_at_ms(follows.now_ms) == follows.now_ms + FIRST_BACKOFF_MS


def test_a_throttle_holds_nobody_back_who_has_what_is_committed(tmp_path: Path) -> None:
    """Also where a new connection makes it name all its partitions again: for its ISR it must be heard of."""
    throttle = ReplicationThrottle()
    throttle.rate = 1
    follows = Follows(tmp_path, throttle)
    has_all = follows.partition("t", written=[(5, 2)])
    lacks_one = follows.partition("u", written=[(5, 2)], number=2)
    throttle.covered |= {has_all.topic_partition, lacks_one.topic_partition}
    follows.asks()
    follows.answer_fetch(("t", 1, row(mark=2)), ("u", 2, row(mark=3)))
    throttle.record(1 << 20, follows.now_ms)
    follows.fetcher.connection_lost(follows.now_ms)
    follows.sent.clear()
    assert wanted(follows.asks()) == {1: (5, 2, 5)}


# -------------------------------------------------------------------------------------------------- bad answers


def test_a_damaged_batch_is_not_appended_and_not_acknowledged(follows: Follows) -> None:
    partition = follows.partition()
    follows.asks()
    good, bad = a_batch(b"good", epoch=5), a_batch(b"bad", epoch=5, base_offset=1)
    bad[-1] ^= 0xFF
    follows.answer_fetch(("t", 1, row(records=bytes(good) + bytes(bad), mark=2)))
    assert partition.log.log_end_offset == 1
    assert partition.high_watermark <= 1
    assert any(level == "error" for level, _ in follows.outbox.messages)
    assert follows.asks() is None
    assert follows.fetcher.wake_at_ms(follows.now_ms) == follows.now_ms + 100, "the longest of all pauses"
    follows.now_ms += 100
    assert wanted(follows.asks()) == {1: (5, 1, 5)}


def test_a_divergence_in_an_epoch_without_records_is_settled_by_one_cut(follows: Follows) -> None:
    """It had been elected for epoch 4 and appended nothing; the new leader never heard of that epoch."""
    partition = follows.partition(written=[(2, 3)])
    partition.log.assign_epoch(4, 3)
    request = follows.asks()
    assert wanted(request) == {1: (5, 3, 4)}
    follows.answer_fetch(("t", 1, row(diverging=(2, 3))))
    request = follows.asks()
    assert wanted(request) == {1: (5, 3, 2)}, "not the same question for ever"


def test_a_mark_that_comes_with_a_divergence_waits_also_where_nothing_but_an_epoch_is_cut(
    follows: Follows,
) -> None:
    partition = follows.partition(written=[(2, 3)])
    partition.log.assign_epoch(4, 3)
    follows.asks()
    follows.answer_fetch(("t", 1, row(mark=3, diverging=(2, 3))))
    assert (partition.log.log_end_offset, partition.high_watermark) == (3, 0)
    assert follows.outbox.messages == [], "no record was cut"
    follows.asks()
    follows.answer_fetch()
    assert partition.high_watermark == 3


def test_an_answer_that_is_cut_short_says_nothing_about_a_partition_that_is_not_in_it(
    follows: Follows,
) -> None:
    """A leader of very many partitions answers early when a fetch comes behind, with what it has looked at. Whether the log of
    another one is a prefix is not known by that: its mark would stand above records that the leader does not have."""
    partition = follows.partition(written=[(2, 1), (3, 1), (3, 1)])
    follows.asks()
    follows.answer_fetch(("t", 1, row(mark=3, diverging=(3, 2))))
    assert wanted(follows.asks()) == {1: (5, 2, 3)}
    follows.partition("u", number=2)
    assert wanted(follows.asks()) == {2: (5, 0, -1)}

    follows.answer_fetch()

    assert partition.high_watermark == 0
    follows.answer_fetch(("u", 2, row()))
    assert wanted(follows.asks()) == {1: (5, 2, 3)}, "asked once more"
    follows.answer_fetch()
    assert partition.high_watermark == 2


def test_the_high_watermark_of_a_stale_answer_is_kept(follows: Follows) -> None:
    """Two fetches in flight: the answer to the second comes after the first moved our end. Its records are not for us,
    its mark is, and the leader tells it once."""
    partition = follows.partition()
    follows.asks()
    follows.answer_fetch(("t", 1, row()))
    follows.asks()
    follows.partition("u", number=2)
    assert follows.asks() is not None, "sent behind the parked one, for the new partition"
    records = a_batch(b"a", epoch=5)
    follows.answer_fetch(("t", 1, row(records=records)))
    follows.asks()
    follows.answer_fetch(("t", 1, row(records=records, mark=1)))
    assert (partition.log.log_end_offset, partition.high_watermark) == (1, 1)


@pytest.mark.parametrize("is_told_again", [True, False])
def test_a_mark_that_is_heard_while_the_log_is_not_known_to_be_a_prefix_waits(
    follows: Follows, is_told_again: bool
) -> None:
    """A leader that does not lead yet refuses; by the next fetch, sent for another partition, it does. What that answer says
    of ours counts for its mark alone, and that not before the logs have been compared: a leader with nothing new to tell
    of a partition that was named has found no divergence."""
    follows.partition("u", number=2)
    follows.asks()
    follows.answer_fetch(("u", 2, row()))
    follows.asks()
    partition = follows.partition(written=[(3, 1), (3, 1)])
    assert wanted(follows.asks()) == {1: (5, 2, 3)}
    follows.answer_fetch()
    follows.partition("v", number=3)
    assert wanted(follows.asks()) == {3: (5, 0, -1)}
    follows.answer_fetch(("t", 1, row(error=ErrorCode.UNKNOWN_LEADER_EPOCH)))
    follows.answer_fetch(("t", 1, row(mark=2, diverging=(3, 1))))
    assert partition.high_watermark == 0
    follows.now_ms += 5
    follows.asks()
    follows.answer_fetch(("t", 1, row(mark=2, diverging=(3, 1))))
    assert (partition.log.log_end_offset, partition.high_watermark) == (1, 0)
    follows.asks()
    follows.answer_fetch(*[("t", 1, row(mark=2))] * is_told_again)
    assert partition.high_watermark == 1


def test_an_answer_to_nothing_and_an_answer_out_of_turn_are_nonsense(follows: Follows) -> None:
    with pytest.raises(MalformedMessage):
        follows.fetcher.handle_response(memoryview(b"\0\0\0\0\0"), 0)
    follows.partition()
    follows.asks()
    with pytest.raises(MalformedMessage, match="answer to request"):
        follows.fetcher.handle_response(memoryview(response_header(1, 17, 99)), 0)


def test_rows_nobody_asked_for_are_passed_over(follows: Follows) -> None:
    partition = follows.partition()
    follows.asks()
    follows.answer_fetch(("other", 9, row(records=a_batch(b"x", epoch=5))), ("t", 1, row(mark=0)))
    assert partition.log.log_end_offset == 0


def test_with_flush_messages_1_the_acknowledgement_waits_for_the_disk(follows: Follows) -> None:
    partition = follows.partition()
    partition.set_flushes_before_ack(True)
    follows.asks()
    follows.answer_fetch(("t", 1, row(records=a_batch(b"a", epoch=5))))
    assert follows.outbox.flushes == [partition]
    assert follows.asks() is None
    partition.log.flush()
    partition.flushed(follows.now_ms)
    assert wanted(follows.asks()) == {1: (5, 1, 5)}


def test_with_flush_messages_1_what_came_before_a_damaged_batch_waits_for_the_disk(follows: Follows) -> None:
    partition = follows.partition()
    partition.set_flushes_before_ack(True)
    follows.asks()
    good, bad = a_batch(b"good", epoch=5), a_batch(b"bad", epoch=5, base_offset=1)
    bad[-1] ^= 0xFF
    follows.answer_fetch(("t", 1, row(records=bytes(good) + bytes(bad))))
    assert partition.log.log_end_offset == 1
    assert follows.outbox.flushes == [partition]


# ------------------------------------------------------------------------------------------ cuts that take long


@pytest.fixture
def cutting(follows: Follows, monkeypatch: pytest.MonkeyPatch) -> Partition:
    """Its leader ends epoch 3 at 2, and the log is cut there in steps of a batch; one of them is taken."""
    monkeypatch.setattr("odradek.log.lookups.BATCHES_AT_ONCE", 1)
    partition = follows.partition(written=[(3, 1)] * 4)
    partition.log.forget_marks()
    follows.asks()
    follows.answer_fetch(("t", 1, row(diverging=(3, 2), mark=4)))
    return partition


def step(follows: Follows, cut: Cut) -> None:
    cut.go_on(follows.now_ms, None if cut.work is None else cut.work.run())


def finish_cuts(follows: Follows) -> None:
    for cut in follows.outbox.cuts:
        while not cut.is_over:
            step(follows, cut)


def test_a_partition_is_not_fetched_before_its_cut_is_finished(follows: Follows, cutting: Partition) -> None:
    other = follows.partition("u", number=2)
    assert cutting.log.log_end_offset == 4
    assert wanted(follows.asks()) == {2: (5, 0, -1)}
    follows.answer_fetch(("u", 2, row(records=a_batch(b"a", epoch=5), mark=1)))
    assert other.high_watermark == 1
    assert follows.fetcher.wake_at_ms(follows.now_ms) is None
    finish_cuts(follows)
    assert cutting.log.log_end_offset == 2 and cutting.high_watermark == 0
    assert wanted(follows.asks()) == {1: (5, 2, 3), 2: (5, 1, 5)}


def test_no_answer_changes_a_log_that_is_being_cut(follows: Follows, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fetch behind the one that said where it diverges: of its records and its mark none is for this log."""
    monkeypatch.setattr("odradek.log.lookups.BATCHES_AT_ONCE", 1)
    partition = follows.partition(written=[(3, 1)] * 4)
    follows.asks()
    follows.answer_fetch(("t", 1, row()))
    follows.asks()
    follows.partition("u", number=2)
    follows.asks()
    follows.answer_fetch(("t", 1, row(diverging=(3, 2), mark=4)))
    follows.answer_fetch(("t", 1, row(records=a_batch(b"x", epoch=5, base_offset=4), mark=5)))
    assert (partition.log.log_end_offset, partition.high_watermark) == (4, 0)
    finish_cuts(follows)
    assert (partition.log.log_end_offset, partition.high_watermark) == (2, 0)


@pytest.mark.parametrize("meanwhile", [is_followed_no_more, is_followed_in_a_new_epoch, is_followed_anew])
def test_a_cut_that_was_overtaken_is_given_up(
    follows: Follows, cutting: Partition, meanwhile: Callable[[Follows, Partition], None]
) -> None:
    meanwhile(follows, cutting)
    finish_cuts(follows)
    assert cutting.log.log_end_offset == 4, "the leader of the new epoch may have all of it"


@pytest.mark.parametrize("meanwhile", [is_followed_no_more, is_followed_in_a_new_epoch, is_followed_anew])
def test_a_cut_that_was_overtaken_and_fails_is_nothing_to_whoever_follows_now(
    follows: Follows, cutting: Partition, meanwhile: Callable[[Follows, Partition], None]
) -> None:
    """The partition of before took the place of the one of now, which was fetched no more."""
    meanwhile(follows, cutting)
    (cut,) = follows.outbox.cuts
    cut.give_up("a thread failed", follows.now_ms)
    follows.now_ms += 1_000
    request = follows.asks()
    is_followed = T0 in follows.fetcher.partitions
    assert (wanted(request) if request else {}) == ({1: (cutting.leader_epoch, 4, 3)} if is_followed else {})
    assert not follows.fetcher._waiting
    assert [text for level, text in follows.outbox.messages if level == "error"] == []


def test_a_leader_cuts_nothing(follows: Follows, cutting: Partition) -> None:
    cutting.make_leader(leadership(2, 6, (1, 2)), ReplicaAssignment((b(1), b(2))), 0)
    finish_cuts(follows)
    assert cutting.log.log_end_offset == 4


def test_a_log_that_has_moved_meanwhile_is_asked_about_again(follows: Follows, cutting: Partition) -> None:
    copy = a_log(follows.path / "elsewhere", "t")
    copy.append_as_follower(
        memoryview(b"".join(a_batch(b"x", epoch=3, base_offset=n) for n in range(4))), now_ms=0
    )
    cutting.take_log(copy)
    finish_cuts(follows)
    assert copy.log_end_offset == 4
    assert wanted(follows.asks()) == {1: (5, 4, 3)}


def test_a_cut_that_fails_later_is_asked_for_again_after_a_pause(
    follows: Follows, cutting: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken(cutting, monkeypatch, "prepare_segment")
    finish_cuts(follows)
    assert [level for level, text in follows.outbox.messages if "prepare_segment refused" in text] == [
        "error"
    ]
    assert follows.asks() is None
    follows.now_ms += 100
    assert wanted(follows.asks()) == {1: (5, 4, 3)}


def test_a_connection_that_is_lost_meanwhile_asks_for_no_partition_that_is_being_cut(
    follows: Follows, cutting: Partition
) -> None:
    follows.fetcher.connection_lost(follows.now_ms)
    assert follows.asks() is None
    finish_cuts(follows)
    assert wanted(follows.asks()) == {1: (5, 2, 3)}


def test_one_whose_log_is_being_cut_is_neither_suspended_nor_resumed(
    follows: Follows, cutting: Partition
) -> None:
    """It would be fetched while it is cut, and cut twice at once."""
    assert not follows.fetcher.suspend(T0, follows.now_ms + 1_000)
    follows.fetcher.resume(T0, follows.now_ms)
    assert follows.asks() is None
    finish_cuts(follows)
    assert wanted(follows.asks()) == {1: (5, 2, 3)}


def test_of_the_cuts_that_one_answer_brings_only_some_are_made_in_its_turn(follows: Follows) -> None:
    """A thousand followers of a leader that died with records which nobody has acknowledged: 0.2 s of one turn."""
    partitions = [
        follows.partition(index=index, written=[(3, 2), (3, 2)]) for index in range(CUTS_AT_ONCE + 5)
    ]
    follows.asks()
    rows = []
    for index in range(len(partitions)):
        data = row(diverging=(3, 2))
        data.partition_index = index
        rows.append(("t", 1, data))
    follows.answer_fetch(*rows)
    assert [p.log.log_end_offset for p in partitions] == [2] * CUTS_AT_ONCE + [4] * 5
    assert len(follows.asks().topics[0].partitions) == CUTS_AT_ONCE
    finish_cuts(follows)
    assert {p.log.log_end_offset for p in partitions} == {2}
    assert len(follows.asks().topics[0].partitions) == 5


@pytest.mark.parametrize("end", [2, 9])
def test_a_log_that_is_cut_or_begun_anew_at_the_leaders_word_takes_as_many_turns(
    follows: Follows, monkeypatch: pytest.MonkeyPatch, end: int
) -> None:
    monkeypatch.setattr("odradek.log.lookups.BATCHES_AT_ONCE", 1)
    monkeypatch.setattr("odradek.log.truncation.MOST_SEGMENTS_CUT", 2)
    partition = follows.partition(written=[(3, 1)] * 2)
    for offset in range(2, 6):
        partition.log.roll(0)
        partition.log.append_as_follower(a_batch(b"x", epoch=3, base_offset=offset), now_ms=0)
    partition.high_watermark = 6
    follows.asks()
    follows.answer_fetch(("t", 1, row(error=ErrorCode.OFFSET_OUT_OF_RANGE)))
    for _ in range(1 if end == 2 else 2):
        follows.asks()
        answer = lm.ListOffsetsPartitionResponse(partition_index=0, offset=end)
        follows.answer(
            lm.ListOffsetsResponse(topics=[lm.ListOffsetsTopicResponse(name="t", partitions=[answer])])
        )
    (cut,) = follows.outbox.cuts
    seen = []
    while not cut.is_over:
        assert follows.asks() is None
        step(follows, cut)
        seen.append(partition.log.log_end_offset)
        assert partition.high_watermark <= partition.log.log_end_offset
    assert len(seen) > 2
    log = partition.log
    assert (log.log_start_offset, log.log_end_offset) == ((0, 2) if end == 2 else (9, 9))
    assert partition.high_watermark == end
    assert wanted(follows.asks()) == {1: (5, end, 3 if end == 2 else -1)}


# ------------------------------------------------------------------------------------- a log that takes nothing


def broken(partition: Partition, monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    def refuse(*arguments: object, **named: object) -> None:
        raise StorageError(f"{partition.topic_partition}: {method} refused")

    monkeypatch.setattr(type(partition.log), method, refuse)


def test_a_log_that_cannot_be_cut_holds_up_no_other_partition(
    follows: Follows, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its error must not look like an answer that cannot be read: the connection would be dropped, and with it the
    fetches of all other partitions of this leader, again and again."""
    partition = follows.partition(written=[(3, 4), (4, 2)])
    other = follows.partition("u", number=2)
    follows.asks()
    broken(partition, monkeypatch, "truncating_to")
    follows.answer_fetch(
        ("t", 1, row(diverging=(3, 2))), ("u", 2, row(records=a_batch(b"a", epoch=5), mark=1))
    )
    assert (other.log.log_end_offset, other.high_watermark) == (1, 1)
    assert [level for level, text in follows.outbox.messages if "truncating_to refused" in text] == ["error"]
    assert wanted(follows.asks()) == {2: (5, 1, 5)}, "the broken one pauses"
    follows.now_ms += 100
    assert set(wanted(follows.asks())) == {1}


def test_a_log_that_cannot_be_cut_to_the_leaders_end_is_asked_about_again_after_a_pause(
    follows: Follows, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = follows.partition(written=[(3, 2), (3, 2)])
    follows.asks()
    follows.answer_fetch(("t", 1, row(error=ErrorCode.OFFSET_OUT_OF_RANGE)))
    follows.asks()
    broken(partition, monkeypatch, "truncating_to")
    answer = lm.ListOffsetsPartitionResponse(partition_index=0, offset=2)
    follows.answer(
        lm.ListOffsetsResponse(topics=[lm.ListOffsetsTopicResponse(name="t", partitions=[answer])])
    )
    assert follows.asks() is None
    follows.now_ms += 100
    assert follows.asks().topics[0].name == "t"
    assert follows.sent[-1][0] == 2


def test_a_log_without_epochs_that_cannot_be_cut_is_asked_about_again_after_a_pause(
    follows: Follows, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = follows.partition(written=[(-1, 4)])
    follows.asks()
    broken(partition, monkeypatch, "truncating_to")
    answer = om.EpochEndOffset(partition=0, leader_epoch=-1, end_offset=-1)
    follows.answer(
        om.OffsetForLeaderEpochResponse(
            topics=[om.OffsetForLeaderTopicResult(topic="t", partitions=[answer])]
        )
    )
    assert follows.asks() is None
    follows.now_ms += 100
    assert follows.asks().topics[0].topic == "t"


def test_an_answer_that_cannot_be_read_leaves_nobody_waiting_for_it(follows: Follows) -> None:
    follows.partition(written=[(-1, 4)])
    follows.asks()
    key, version, correlation_id = follows.sent.pop(0)
    with pytest.raises(MalformedMessage):
        follows.fetcher.handle_response(
            memoryview(response_header(key, version, correlation_id) + b"\xff"), follows.now_ms
        )
    follows.fetcher.connection_lost(follows.now_ms)
    assert follows.asks().topics[0].topic == "t"


def test_without_a_session_those_that_got_records_are_asked_for_last(follows: Follows) -> None:
    """A leader begins with the first, and what it has of those may fill each of its answers."""
    for number, topic in enumerate("tuv", start=1):
        follows.partition(topic, number=number)
    assert list(wanted(follows.asks())) == [1, 2, 3]
    for offset, number, then in ((0, 1, [2, 3, 1]), (0, 2, [3, 1, 2]), (1, 1, [3, 2, 1])):
        records = a_batch(b"a", epoch=5, base_offset=offset)
        follows.answer_fetch(("tuv"[number - 1], number, row(records=records, mark=1)), session=0)
        assert list(wanted(follows.asks())) == then
