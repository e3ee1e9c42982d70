"""The planning half of the stream, asked directly: no JVM, a real broker."""

import json
import pickle
import time
import traceback
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

from odradek.client.sync import OffsetAndEpoch, SyncClient
from odradek.client.sync_connection import SyncConnection
from odradek.client.sync_fetch import TopicRecreated
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ConfigurationError, ProtocolError
from odradek.model.ids import TopicPartition
from odradek.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from odradek.spark import ranges, subscription
from odradek.spark.data_loss import DataLoss
from odradek.spark.offsets import Offsets, Place
from odradek.spark.options import parse
from odradek.spark.progress import lag_of, lag_s_of
from odradek.spark.source import OdradekSource, StreamReader, schema_of
from odradek.spark.subscription import Subscription
from odradek.testing.process_cluster import ProcessCluster
from tests.spark.conftest import create_topic, fill

MakeTopic = Callable[..., str]
EVERYTHING = ReadAllAvailable()


def reader(cluster: ProcessCluster, topic: str, **options: str) -> StreamReader:
    parsed = parse({"kafka.bootstrap.servers": cluster.bootstrap, "subscribe": topic, **options})
    return StreamReader(parsed, schema_of(parsed))


def offsets(json_offsets: dict[str, Any], topic: str) -> dict[str, int]:
    found: dict[str, int] = json_offsets[topic]["offsets"]
    return found


def ten(client: SyncClient, topic: str, partition: int = 0) -> None:
    fill(client, topic, partition, [b"%d" % n for n in range(10)])


def test_a_stream_begins_at_the_end_unless_told_otherwise(
    cluster: ProcessCluster, client: SyncClient, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    ten(client, topic)

    assert offsets(reader(cluster, topic).initialOffset(), topic) == {"0": 10}
    assert offsets(reader(cluster, topic, startingOffsets="earliest").initialOffset(), topic) == {"0": 0}


def test_nothing_new_is_the_same_text(
    cluster: ProcessCluster, client: SyncClient, make_topic: MakeTopic
) -> None:
    topic = make_topic(partitions=12)
    ten(client, topic, 11)
    stream = reader(cluster, topic, startingOffsets="earliest")
    start = json.loads(json.dumps(stream.initialOffset()))

    first = stream.latestOffset(start, EVERYTHING)
    second = stream.latestOffset(json.loads(json.dumps(first)), EVERYTHING)

    assert json.dumps(first) == json.dumps(second)
    assert stream.partitions(first, second) == []
    assert stream.reportLatestOffset() is not None


def test_an_open_transaction_before_what_was_read_moves_nothing_back() -> None:
    """Read from offsets beyond it, which somebody chose: the records up to there would be read twice."""
    partition, ids = TopicPartition("t", 0), {"t": bytes(range(16))}
    start = Offsets(ids, {partition: Place(8, 0)})

    class Held:
        def latest(self, before: Offsets | None = None) -> Offsets:
            return Offsets(ids, {partition: Place(5, 0)})

        def standing(self, before: Offsets, now: Offsets) -> Any:
            return before.places

        def check_same_topics(self, before: Offsets, now: Offsets) -> None:
            pass

    parsed = parse({"kafka.bootstrap.servers": "b:9092", "subscribe": "t"})
    for limit in (EVERYTHING, ReadMaxRows(2)):
        stream = StreamReader(parsed, schema_of(parsed))
        stream._subscription = Held()
        assert stream.latestOffset(start.to_json(), limit) == start.to_json()


@pytest.mark.parametrize("is_once", [False, True])
def test_a_partition_that_is_assigned_no_more_is_not_dropped_in_silence(
    cluster: ProcessCluster, client: SyncClient, make_topic: MakeTopic, is_once: bool
) -> None:
    topic = make_topic(partitions=2)
    start = reader(cluster, topic, startingOffsets="earliest").initialOffset()

    def restarted(**options: str) -> dict[str, Any]:
        stream = reader(cluster, "", assign=json.dumps({topic: [0]}), **options)
        if is_once:
            stream.prepareForTriggerAvailableNow()
        return stream.latestOffset(start, EVERYTHING)

    with pytest.raises(DataLoss, match=f"{topic}-1, which this query reads, is not among .* any more"):
        restarted()
    with pytest.warns(UserWarning, match=f"{topic}-1"):
        assert offsets(restarted(failOnDataLoss="false"), topic) == {"0": 0}


def test_a_target_told_by_whoever_has_not_heard_of_a_partition_forgets_none() -> None:
    """Left out of where a batch ends it would be new to the next run, and read from its beginning a second time."""
    heard, other = TopicPartition("t", 0), TopicPartition("t", 1)
    ids = {"t": bytes(range(16))}
    start = Offsets(ids, {heard: Place(8, 0), other: Place(7, 0)})

    class Late:
        def latest(self, before: Offsets | None = None) -> Offsets:
            places = {heard: Place(9, 0), other: Place(7, 0)}
            return Offsets(ids, places if before else {heard: places[heard]})

        def standing(self, before: Offsets, now: Offsets, what: str = "") -> Any:
            return before.places

        def check_same_topics(self, before: Offsets, now: Offsets) -> None:
            pass

    parsed = parse({"kafka.bootstrap.servers": "b:9092", "subscribe": "t"})
    stream = StreamReader(parsed, schema_of(parsed))
    stream._subscription = Late()
    stream.prepareForTriggerAvailableNow()

    assert offsets(stream.latestOffset(start.to_json(), EVERYTHING), "t") == {"0": 9, "1": 7}


def test_another_epoch_alone_is_nothing_new(
    cluster: ProcessCluster, client: SyncClient, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    ten(client, topic)
    start = reader(cluster, topic).initialOffset()
    start[topic]["epochs"]["0"] = -1

    assert reader(cluster, topic).latestOffset(start, EVERYTHING) == start


def test_available_now_stops_at_what_was_there_when_it_began(
    cluster: ProcessCluster, client: SyncClient, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    ten(client, topic)
    stream = reader(cluster, topic, startingOffsets="earliest")
    stream.prepareForTriggerAvailableNow()
    ten(client, topic)

    end = stream.latestOffset(stream.initialOffset(), EVERYTHING)

    assert offsets(end, topic) == {"0": 10}
    assert stream.latestOffset(end, EVERYTHING) == end


def test_available_now_that_begins_behind_its_target_has_nothing_to_read_and_lost_nothing(
    cluster: ProcessCluster, client: SyncClient, make_topic: MakeTopic
) -> None:
    """Spark asks for the target before it asks where the query begins, and records may come in between."""
    topic = make_topic()
    ten(client, topic)
    stream = reader(cluster, topic)
    stream.prepareForTriggerAvailableNow()
    ten(client, topic)
    start = stream.initialOffset()

    end = stream.latestOffset(start, EVERYTHING)

    assert offsets(end, topic) == {"0": 20}
    assert end == start and stream.partitions(start, end) == []


def test_a_query_that_dies_within_its_first_batch_begins_where_it_began(
    cluster: ProcessCluster, client: SyncClient, make_topic: MakeTopic
) -> None:
    """Spark keeps where a batch ends, and asks anew for the beginning of the first one."""
    topic = make_topic()
    ten(client, topic)
    stream = reader(cluster, topic)
    start = stream.initialOffset()
    ten(client, topic)
    assert stream.initialOffset() == start
    end = json.loads(json.dumps(stream.latestOffset(start, EVERYTHING)))
    ten(client, topic)

    again = reader(cluster, topic)
    (task,) = again.partitions(again.initialOffset(), end)
    (next_task,) = again.partitions(end, again.latestOffset(end, EVERYTHING))

    assert [(r.start, r.end) for r in (*task.value, *next_task.value)] == [(10, 20), (20, 30)]
    assert stream.partitions(end, end) == []


def test_a_topic_that_came_before_the_first_batch_is_read_from_its_beginning_by_a_query_that_dies_within_it(
    cluster: ProcessCluster, client: SyncClient
) -> None:
    """Asked anew for the beginning, `latest` is behind what the batch has to read."""
    name = "late-comer"
    parsed = parse({"kafka.bootstrap.servers": cluster.bootstrap, "subscribePattern": f"{name}.*"})
    stream, again = (StreamReader(parsed, schema_of(parsed)) for _ in range(2))
    start = stream.initialOffset()
    assert start == {}
    create_topic(client, name)
    ten(client, name)
    end = json.loads(json.dumps(stream.latestOffset(start, EVERYTHING)))
    ten(client, name)

    (task,) = again.partitions(again.initialOffset(), end)

    assert [(r.start, r.end) for r in task.value] == [(0, 10)]


def test_a_target_that_an_older_leader_has_told_takes_no_query_back() -> None:
    partition, ids = TopicPartition("t", 0), {"t": bytes(range(16))}
    read = Offsets(ids, {partition: Place(100, 5)})

    class Deposed(Subscription):
        def latest(self, seen: Offsets = subscription.NOTHING) -> Offsets:
            return read if seen.places else Offsets(ids, {partition: Place(90, 4)})

        def _ends_of(
            self, places: Mapping[TopicPartition, Place], now: Offsets
        ) -> dict[TopicPartition, OffsetAndEpoch]:
            if places[partition].epoch == now.places[partition].epoch:
                return {}
            is_later = places[partition].epoch < now.places[partition].epoch
            return {partition: OffsetAndEpoch(95, 4) if is_later else OffsetAndEpoch(-1, -1)}

    parsed = parse({"kafka.bootstrap.servers": "localhost:9092", "subscribe": "t", "failOnDataLoss": "false"})
    stream = StreamReader(parsed, schema_of(parsed))
    stream._subscription = Deposed(parsed)
    stream.prepareForTriggerAvailableNow()

    assert stream.latestOffset(read.to_json(), EVERYTHING) == read.to_json()


def test_a_limit_is_kept_and_a_later_one_is_ignored_when_spark_says_so(
    cluster: ProcessCluster, client: SyncClient, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    ten(client, topic)
    stream = reader(cluster, topic, startingOffsets="earliest", maxOffsetsPerTrigger="4")
    start = stream.initialOffset()

    assert stream.getDefaultReadLimit() == ReadMaxRows(4)
    assert offsets(stream.latestOffset(start, ReadMaxRows(4)), topic) == {"0": 4}
    assert offsets(stream.latestOffset(start, EVERYTHING), topic) == {"0": 10}


def delete_records(client: SyncClient, partition: TopicPartition, below: int) -> None:
    of_partition = DeleteRecordsPartition(partition_index=partition.partition, offset=below)
    wanted = DeleteRecordsTopic(name=partition.topic, partitions=[of_partition])
    leader, _ = client.leader(partition)
    client.call(leader, DeleteRecordsRequest(topics=[wanted], timeout_ms=30_000))


def test_a_query_that_began_with_nothing_is_told_of_what_is_gone_of_a_topic(
    cluster: ProcessCluster, client: SyncClient, make_topic: MakeTopic
) -> None:
    by_pattern = {"subscribe": "", "subscribePattern": r"began_with_nothing\..*"}
    strict, lenient = (
        reader(cluster, "", startingOffsets="earliest", failOnDataLoss=text, **by_pattern)
        for text in ("true", "false")
    )
    starts = [stream.initialOffset() for stream in (strict, lenient)]
    topic = make_topic("began_with_nothing.a")
    ten(client, topic)
    delete_records(client, TopicPartition(topic, 0), 8)

    with pytest.raises(DataLoss, match=f"{topic}-0 is new .*, but its first 8 records are gone"):
        strict.latestOffset(starts[0], EVERYTHING)
    with pytest.warns(UserWarning, match=r"its first 8 records are gone.*begins at offset 8"):
        assert offsets(lenient.latestOffset(starts[1], EVERYTHING), topic) == {"0": 10}


def test_of_a_new_partition_a_limit_counts_what_is_still_there(
    cluster: ProcessCluster, client: SyncClient, make_topic: MakeTopic
) -> None:
    topic = make_topic(partitions=2)
    stream = reader(cluster, topic, startingOffsets="earliest", failOnDataLoss="false")
    start = Offsets.from_json(stream.initialOffset())
    known, new = TopicPartition(topic, 0), TopicPartition(topic, 1)
    before = Offsets(start.topic_ids, {known: start.places[known]}).to_json()
    ten(client, topic)
    ten(client, topic, 1)
    delete_records(client, new, 8)

    with pytest.warns(UserWarning, match=f"{new} is new .*, but its first 8 records are gone"):
        end = stream.latestOffset(before, ReadMaxRows(6))

    assert offsets(end, topic) == {"0": 5, "1": 9}


def test_the_progress_says_how_old_the_first_record_is_that_a_batch_left(
    cluster: ProcessCluster, client: SyncClient, make_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = make_topic(partitions=3)
    fill(client, topic, 0, [b"%d" % n for n in range(10)], batch=2)
    fill(client, topic, 2, [b"x", b"y"])
    stream = reader(cluster, topic, startingOffsets="earliest")
    monkeypatch.setattr("odradek.spark.source.time.time", lambda: 1_700_000_000.5)

    end = stream.latestOffset(stream.initialOffset(), ReadMaxRows(6))
    latest = stream.reportLatestOffset()
    assert latest is not None and offsets(end, topic) == {"0": 5, "1": 0, "2": 1}
    # Offset 5 is in the batch of 4 and 5, whose first record is of 1.7e12 + 4.
    assert latest[topic]["behindMs"] == {"0": 496, "2": 500}
    progress = {"sources": [{"endOffset": json.dumps(end), "latestOffset": json.dumps(latest)}]}
    assert lag_s_of(progress) == {
        TopicPartition(topic, 0): 0.496,
        TopicPartition(topic, 1): 0.0,
        TopicPartition(topic, 2): 0.5,
    }
    assert lag_of(progress) == {TopicPartition(topic, p): n for p, n in enumerate((5, 0, 1))}

    stream.latestOffset(end, EVERYTHING)
    latest = stream.reportLatestOffset()
    assert latest is not None and "behindMs" not in latest[topic]


def test_a_query_that_ends_leaves_no_connection(
    cluster: ProcessCluster, client: SyncClient, make_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = make_topic()
    stream = reader(cluster, topic)
    stream.stop()  # before it had one
    stream.initialOffset()
    closed: list[SyncClient] = []
    close = SyncClient.close

    def noted(self: SyncClient) -> None:
        closed.append(self)
        close(self)

    monkeypatch.setattr(SyncClient, "close", noted)
    connected = stream._subscription.client

    stream.stop()

    assert closed == [connected]


def test_ages_are_asked_of_those_alone_that_have_something_left(
    cluster: ProcessCluster, client: SyncClient, make_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = make_topic(partitions=3)
    ten(client, topic)
    fill(client, topic, 1, [b"x"] * 3)
    fill(client, topic, 2, [b"x"] * 2)
    stream = reader(cluster, topic, startingOffsets=json.dumps({topic: {"0": 10, "1": 0, "2": 0}}))
    asked: list[dict[TopicPartition, int]] = []

    def timestamps(_: SyncClient, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        asked.append(dict(offsets))
        return {}

    monkeypatch.setattr(subscription, "timestamps_at", timestamps)
    stream.latestOffset(stream.initialOffset(), ReadMaxRows(2))
    stream.reportLatestOffset()

    assert asked == [{TopicPartition(topic, 1): 1, TopicPartition(topic, 2): 1}], "records of each are left"


def test_ages_are_asked_of_the_furthest_behind_and_an_error_stops_no_query(
    cluster: ProcessCluster, client: SyncClient, make_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = make_topic(partitions=2)
    ten(client, topic)
    fill(client, topic, 1, [b"x"] * 3)
    monkeypatch.setattr(subscription, "MOST_AGES", 1)
    stream = reader(cluster, topic, startingOffsets="earliest")
    stream.latestOffset(stream.initialOffset(), ReadMaxRows(1))

    latest = stream.reportLatestOffset()
    assert latest is not None and list(latest[topic]["behindMs"]) == ["0"]

    def fails(*_: Any) -> Any:
        raise ProtocolError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    monkeypatch.setattr(subscription, "timestamps_at", fails)
    latest = stream.reportLatestOffset()
    assert latest is not None and "behindMs" not in latest[topic]


def test_too_little_that_is_new_is_waited_for_but_not_for_ever_and_not_at_first(
    cluster: ProcessCluster, client: SyncClient, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    ten(client, topic)
    options = {"startingOffsets": "earliest", "minOffsetsPerTrigger": "15"}
    patient = reader(cluster, topic, **options)
    impatient = reader(cluster, topic, maxTriggerDelay="0ms", **options)
    start = patient.initialOffset()
    limit = patient.getDefaultReadLimit()

    assert limit == ReadMinRows(15)
    first = patient.latestOffset(start, limit)
    assert offsets(first, topic) == {"0": 10}, "the first batch of a run waits for nothing"
    assert offsets(impatient.latestOffset(start, limit), topic) == {"0": 10}
    ten(client, topic)
    assert patient.latestOffset(first, limit) == first
    assert offsets(impatient.latestOffset(first, limit), topic) == {"0": 20}
    assert offsets(patient.latestOffset(first, EVERYTHING), topic) == {"0": 20}, "asked for all there is"
    ten(client, topic)
    assert offsets(patient.latestOffset(first, limit), topic) == {"0": 30}


def test_the_delay_of_too_small_a_batch_counts_from_the_last_one_that_was_read(
    cluster: ProcessCluster, client: SyncClient, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    ten(client, topic)
    stream = reader(cluster, topic, startingOffsets="earliest", minOffsetsPerTrigger="15")
    limit = stream.getDefaultReadLimit()
    first = stream.latestOffset(stream.initialOffset(), limit)
    assert stream._last_advance is not None
    stream._last_advance -= 16 * 60  # a minute more than maxTriggerDelay
    assert stream.latestOffset(first, limit) == first, "nothing is new"
    ten(client, topic)
    assert offsets(stream.latestOffset(first, limit), topic) == {"0": 20}


def test_a_partition_that_came_later_is_read_from_its_beginning(
    cluster: ProcessCluster, client: SyncClient, make_topic: MakeTopic
) -> None:
    topic = make_topic(partitions=2)
    ten(client, topic, 1)
    stream = reader(cluster, topic)
    start = stream.initialOffset()
    for kind in ("offsets", "epochs"):
        del start[topic][kind]["1"]

    end = stream.latestOffset(start, EVERYTHING)

    (task,) = stream.partitions(start, end)
    assert [(r.partition, r.start, r.end) for r in task.value] == [(1, 0, 10)]


def test_a_log_that_was_cut_below_the_query_is_data_loss(
    cluster: ProcessCluster, client: SyncClient, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    ten(client, topic)
    start = reader(cluster, topic).initialOffset()
    start[topic]["offsets"]["0"] = 25

    with pytest.raises(
        DataLoss,
        match=rf"{topic}-0: this query has read up to offset 25 in leader epoch 0, but .* ends at 10",
    ):
        reader(cluster, topic).latestOffset(start, EVERYTHING)
    start[topic]["epochs"]["0"] = -1
    with pytest.raises(
        DataLoss, match=rf"{topic}-0: this query has read up to offset 25, but the log ends at 10"
    ):
        reader(cluster, topic).latestOffset(start, EVERYTHING)
    with pytest.warns(UserWarning, match="but the log ends at 10"):
        end = reader(cluster, topic, failOnDataLoss="false").latestOffset(start, EVERYTHING)
    assert offsets(end, topic) == {"0": 10}


def test_a_topic_created_again_is_an_error_or_read_from_its_beginning(
    cluster: ProcessCluster, client: SyncClient, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    ten(client, topic)
    start = reader(cluster, topic).initialOffset()
    start[topic]["id"] = "AAECAwQFBgcICQoLDA0ODw"

    with pytest.raises(TopicRecreated, match=f"{topic} was deleted and created again"):
        reader(cluster, topic).latestOffset(start, EVERYTHING)
    stream = reader(cluster, topic, failOnDataLoss="false")
    with pytest.warns(UserWarning, match="deleted and created again"):
        end = stream.latestOffset(start, EVERYTHING)
    (task,) = stream.partitions(start, end)
    assert [(r.start, r.end) for r in task.value] == [(0, 10)]


def test_starting_offsets_of_another_topic_id_are_refused(
    cluster: ProcessCluster, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    given = {topic: {"epochs": {"0": 0}, "id": "AAECAwQFBgcICQoLDA0ODw", "offsets": {"0": 0}}}

    with pytest.raises(TopicRecreated):
        reader(cluster, topic, startingOffsets=json.dumps(given)).initialOffset()


def test_a_partition_that_is_not_there_is_a_sentence(cluster: ProcessCluster, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=2)

    with pytest.raises(ConfigurationError, match=f"startingOffsets names {topic}-7, which is not among"):
        reader(cluster, topic, startingOffsets=f'{{"{topic}":{{"7":1}}}}').initialOffset()
    options = parse({"kafka.bootstrap.servers": cluster.bootstrap, "assign": f'{{"{topic}":[0,5]}}'})
    with pytest.raises(ConfigurationError, match=f"assign names partition 5 of {topic}, which has 2: 0 to 1"):
        Subscription(options).partitions()


def test_a_timestamp_after_the_last_record_is_an_error_or_the_end(
    cluster: ProcessCluster, client: SyncClient, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    ten(client, topic)
    late = {"startingTimestamp": "1900000000000"}

    with pytest.raises(
        ConfigurationError, match=f"{topic}-0 has no record at or after timestamp 1900000000000"
    ):
        reader(cluster, topic, **late).initialOffset()
    at_end = reader(cluster, topic, startingOffsetsByTimestampStrategy="latest", **late).initialOffset()
    assert offsets(at_end, topic) == {"0": 10}


def test_what_executors_get_is_small_and_has_no_sockets(
    cluster: ProcessCluster, client: SyncClient, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    ten(client, topic)
    stream = reader(cluster, topic, startingOffsets="earliest")
    tasks = stream.partitions(stream.initialOffset(), stream.latestOffset(stream.initialOffset(), EVERYTHING))

    copy = pickle.loads(pickle.dumps(stream))

    (batch,) = copy.read(tasks[0])
    assert batch.column("value").to_pylist() == [b"%d" % n for n in range(10)]
    assert len(pickle.dumps(stream)) < 5_000


def test_a_schema_that_no_topic_has_is_refused() -> None:
    from pyspark.sql.types import StringType, StructField, StructType

    source = OdradekSource({"kafka.bootstrap.servers": "a:1", "subscribe": "orders"})
    with pytest.raises(
        ConfigurationError, match="there is no column value string in a topic; there are key binary"
    ):
        source.reader(schema=StructType([StructField("value", StringType())]))


def test_a_missing_topic_is_named_with_the_readers_words_in_one_sentence(
    cluster: ProcessCluster, make_topic: MakeTopic
) -> None:
    make_topic("flights-of-today")
    began = time.monotonic()

    # Where it were waited for, a request would be: longer than any machine is slow.
    patient = {"kafka.request.timeout.ms": "240000"}
    for stream in (reader(cluster, "flights-of-tody", **patient) for _ in range(2)):
        with pytest.raises(ConfigurationError) as caught:
            stream.prepareForTriggerAvailableNow()
        assert str(caught.value) == (
            "subscribe names the topic flights-of-tody, and the cluster has none of that name; "
            "did you mean flights-of-today?"
        )
        told = "".join(traceback.format_exception(caught.value))
        assert told.count("flights-of-tody") == 1 and "UNKNOWN_TOPIC_OR_PARTITION" not in told
    options = {"kafka.bootstrap.servers": cluster.bootstrap, "assign": '{"nothing like it":[0]}', **patient}
    with pytest.raises(
        ConfigurationError, match=r"assign names the topic nothing like it, .* create it first"
    ):
        Subscription(parse(options)).partitions()
    assert time.monotonic() - began < 120, "what is not there is not waited for"


def test_timestamps_of_what_is_not_read_are_refused_and_all_that_is_read_wants_one(
    cluster: ProcessCluster, client: SyncClient, make_topic: MakeTopic
) -> None:
    topic = make_topic(partitions=2)
    for partition in (0, 1):
        ten(client, topic, partition)

    def begins(timestamps: dict[str, dict[str, int]]) -> dict[str, int]:
        given = reader(cluster, topic, startingOffsetsByTimestamp=json.dumps(timestamps))
        return offsets(given.initialOffset(), topic)

    early = 1_700_000_000_003
    assert begins({topic: {"0": early, "1": early + 1}}) == {"0": 3, "1": 4}
    with pytest.raises(
        ConfigurationError, match="startingOffsetsByTimestamp names other-0, which is not among"
    ):
        begins({topic: {"0": early, "1": early}, "other": {"0": early}})
    with pytest.raises(
        ConfigurationError, match=f"startingOffsetsByTimestamp does not name {topic}-1, which is read"
    ):
        begins({topic: {"0": early}})


def test_a_trigger_asks_for_all_topics_at_once(
    cluster: ProcessCluster, client: SyncClient, make_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = [make_topic() for _ in range(5)]
    stream = reader(cluster, ",".join(topics), startingOffsets="earliest")
    start = stream.initialOffset()
    asked: list[object] = []
    send = SyncConnection.send

    def counting(self: SyncConnection, request: Any, *arguments: Any, **more: Any) -> Any:
        asked.append(request)
        return send(self, request, *arguments, **more)

    monkeypatch.setattr(SyncConnection, "send", counting)

    end = stream.latestOffset(start, EVERYTHING)

    assert sorted(end) == sorted(topics)
    questions = [type(request).__name__ for request in asked]
    assert questions.count("MetadataRequest") == 1 and len(questions) <= 3, questions


def test_few_records_that_are_large_are_several_tasks(
    cluster: ProcessCluster, client: SyncClient, make_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = make_topic()
    fill(client, topic, 0, [bytes(100_000)] * 10, batch=1)
    monkeypatch.setattr(ranges, "SPLIT_ABOVE_BYTES", 250_000)
    monkeypatch.setattr(ranges, "PACK_BELOW_BYTES", 100_000)
    stream = reader(cluster, topic, startingOffsets="earliest")
    start = stream.initialOffset()

    tasks = stream.partitions(start, stream.latestOffset(start, EVERYTHING))

    told = [[(piece.start, piece.end) for piece in task.value] for task in tasks]
    assert told == [[(n, n + 2)] for n in range(0, 10, 2)]  # a record has its head beside the 100,000 bytes


def test_sizes_of_logs_are_asked_for_once_a_minute_and_not_needed(
    cluster: ProcessCluster, client: SyncClient, make_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = make_topic()
    ten(client, topic)
    asked = []

    def refuses(*_: object) -> None:
        asked.append(1)
        raise ProtocolError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "not for you")

    monkeypatch.setattr(subscription, "log_sizes", refuses)
    stream = reader(cluster, topic, startingOffsets="earliest")
    start = stream.initialOffset()
    end = stream.latestOffset(start, EVERYTHING)

    assert [len(stream.partitions(start, end)) for _ in range(3)] == [1, 1, 1]
    assert len(asked) == 1
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + subscription.SIZES_LAST_S + 1)
    stream.partitions(start, end)
    assert len(asked) == 2
