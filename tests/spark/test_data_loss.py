"""Logs that were cut, and topics that were made again, while a query reads them: planned and read without a JVM."""

import json
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from odradek.client.sync import CONTROLLER, SyncClient
from odradek.model.errors import ConfigurationError
from odradek.model.ids import TopicPartition
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from odradek.spark.data_loss import DataLoss
from odradek.spark.options import parse
from odradek.spark.sink import DESCRIPTION, DeltaWriter
from odradek.spark.source import BatchReader, StreamReader, schema_of
from odradek.spark.verify import verify
from odradek.spark.writing import TableOptions, write_ranges
from odradek.testing.process_cluster import ProcessCluster
from odradek.testing.running_cluster import RunningCluster, running_cluster
from tests.spark.conftest import create_topic, fill
from tests.support import eventually

ORDERS = TopicPartition("orders", 0)
EVERYTHING = ReadAllAvailable()


opened: list[StreamReader] = []


@pytest.fixture(scope="module", autouse=True)
def all_are_stopped() -> Iterator[None]:
    yield
    for stream in opened:
        stream.stop()


def query(bootstrap: str, topic: str = "orders", **options: str) -> StreamReader:
    given = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    parsed = parse({**given, **options})
    stream = StreamReader(parsed, schema_of(parsed))
    opened.append(stream)
    return stream


def numbered(start: int, end: int, letter: bytes = b"v") -> list[bytes]:
    return [letter + b"%05d" % n for n in range(start, end)]


def stored(offsets: dict[str, Any]) -> dict[str, Any]:
    """As it comes back from a checkpoint."""
    found: dict[str, Any] = json.loads(json.dumps(offsets))
    return found


def values(stream: StreamReader, tasks: "list[InputPartition]") -> list[bytes]:
    return [value for task in tasks for batch in stream.read(task) for value in batch["value"].to_pylist()]


def step(stream: StreamReader, start: dict[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
    """One micro-batch: where it ends, and what it reads."""
    end = stored(stream.latestOffset(start, EVERYTHING))
    return end, values(stream, list(stream.partitions(start, end)))


class Cut(NamedTuple):
    """50 records on both replicas; 50 more that only the leader had, in `old_epoch`; in their place 100 others."""

    bootstrap: str
    before: dict[str, Any]  # offset 50
    after: dict[str, Any]  # offset 100 of the old epoch
    old_epoch: int
    new_epoch: int
    running: StreamReader  # has planned up to `after`, before the cut
    available: StreamReader  # was told before the cut to read what is there, and to go on over losses


def two_brokers() -> Any:
    return running_cluster(brokers=2, settings={"unclean.leader.election.enable": "true"})


def cut_log(cluster: RunningCluster, client: SyncClient) -> Cut:
    """What an unclean election does to a log whose end only the dead leader had."""
    topic = CreatableTopic(name="orders", num_partitions=1, replication_factor=2)
    client.call(CONTROLLER, CreateTopicsRequest(topics=[topic], timeout_ms=30_000))
    fill(client, "orders", 0, numbered(0, 50))
    stream = query(cluster.bootstrap)
    before, _ = step(stream, stored(stream.initialOffset()))
    leads, view = client.leader(ORDERS, refresh=True)
    (follows,) = set(view.replicas) - {leads}
    cluster.kill(follows)
    eventually(lambda: client.leader(ORDERS, refresh=True)[1].isr == (leads,), what="the leader is alone")
    fill(client, "orders", 0, numbered(50, 100))
    after, found = step(stream, before)
    assert found == numbered(50, 100)
    available = query(cluster.bootstrap, failOnDataLoss="false")
    available.prepareForTriggerAvailableNow()
    cluster.kill(leads)
    cluster.start(follows)
    eventually(lambda: client.topic("orders").partitions[0].leader == follows, what="the other leads")
    client.forget("orders")
    assert client.end_offsets([ORDERS]) == {ORDERS: 50}
    fill(client, "orders", 0, numbered(0, 100, b"new"))
    new_epoch = client.leader(ORDERS, refresh=True)[1].leader_epoch
    return Cut(cluster.bootstrap, before, after, after["orders"]["epochs"]["0"], new_epoch, stream, available)


@pytest.fixture(scope="module")
def cut() -> Iterator[Cut]:
    with two_brokers() as cluster, SyncClient(cluster.bootstrap) as client:
        yield cut_log(cluster, client)


def test_a_log_that_was_cut_below_the_query_is_an_error_however_far_it_has_grown_since(cut: Cut) -> None:
    with pytest.raises(DataLoss) as caught:
        cut.running.latestOffset(cut.after, EVERYTHING)

    said = str(caught.value)
    assert said.startswith(
        f"orders-0: this query has read up to offset 100 in leader epoch {cut.old_epoch}, but in the log of "
        f"leader epoch {cut.new_epoch} that epoch ends at 50: an unclean election cut off 50 offsets, 50 to 100"
    )
    assert said.endswith("failOnDataLoss=false goes on at offset 50")


def test_a_batch_that_was_planned_over_the_cut_is_refused_when_it_is_planned_again(cut: Cut) -> None:
    """A checkpoint may hold it: planned by somebody who did not look, killed, started again."""
    planned = stored(cut.after)
    planned["orders"] = {
        **planned["orders"],
        "epochs": {"0": cut.new_epoch},
        "offsets": {"0": 150},
    }

    with pytest.raises(DataLoss, match="this query has read up to offset 100"):
        query(cut.bootstrap).partitions(cut.after, planned)


def test_without_fail_on_data_loss_nothing_that_exists_is_skipped_or_read_twice(cut: Cut) -> None:
    stream = query(cut.bootstrap, failOnDataLoss="false")

    with pytest.warns(UserWarning, match="an unclean election cut off 50 offsets") as told:
        end, found = step(stream, cut.after)
    assert found == numbered(0, 100, b"new")
    assert end["orders"]["offsets"] == {"0": 150}
    assert len([w for w in told if "unclean" in str(w.message)]) == 1
    assert step(stream, end) == (end, [])


def test_a_limit_counts_from_where_reading_goes_on(cut: Cut) -> None:
    stream = query(cut.bootstrap, failOnDataLoss="false")

    with pytest.warns(UserWarning, match="unclean election"):
        end = stored(stream.latestOffset(cut.after, ReadMaxRows(30)))

    assert end["orders"]["offsets"] == {"0": 80}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert values(stream, list(stream.partitions(cut.after, end))) == numbered(0, 30, b"new")
        _, rest = step(stream, end)
    assert rest == numbered(30, 100, b"new")


def test_new_records_that_end_just_where_the_query_stood_are_not_taken_for_the_old(cut: Cut) -> None:
    stream = query(cut.bootstrap, failOnDataLoss="false")

    with pytest.warns(UserWarning, match="unclean election"):
        end = stored(stream.latestOffset(cut.after, ReadMaxRows(50)))

    assert end["orders"]["offsets"] == cut.after["orders"]["offsets"]
    assert end != cut.after, "Spark compares text: the same would never be read"
    assert values(stream, list(stream.partitions(cut.after, end))) == numbered(0, 50, b"new")


def test_a_task_that_was_planned_before_the_cut_reads_nothing_else_in_its_place(cut: Cut) -> None:
    strict, lenient = query(cut.bootstrap), query(cut.bootstrap, failOnDataLoss="false")
    tasks = list(strict.partitions(cut.before, cut.after))

    with pytest.raises(DataLoss) as caught:
        values(strict, tasks)
    assert str(caught.value).startswith(
        f"orders-0: the log reached to offset 100 in leader epoch {cut.old_epoch}, but in the log of leader "
        f"epoch {cut.new_epoch} that epoch ends at 50: an unclean election cut off 50 offsets, 50 to 100"
    )
    with pytest.warns(UserWarning, match="cut off 50 offsets"):
        assert values(lenient, tasks) == []


def test_a_task_reads_what_is_left_of_its_range_below_the_cut(cut: Cut) -> None:
    stream = query(cut.bootstrap, failOnDataLoss="false")
    start = stored(stream.initialOffset())
    tasks = list(stream.partitions(start, cut.after))

    with pytest.warns(UserWarning, match="cut off 50 offsets"):
        assert values(stream, tasks) == numbered(0, 50)


def test_a_table_of_a_log_that_was_cut_has_what_was_read_and_verify_says_so(cut: Cut, tmp_path: Path) -> None:
    """A task that was planned before the cut has read up to it, and the next batch goes on there."""
    options = parse(
        {"kafka.bootstrap.servers": cut.bootstrap, "subscribe": "orders", "failOnDataLoss": "false"}
    )
    to = TableOptions(str(tmp_path), "app")
    stream = query(cut.bootstrap, failOnDataLoss="false")
    with pytest.warns(UserWarning, match="cut off 50 offsets"):
        end = stored(stream.latestOffset(cut.after, EVERYTHING))
        plans = [
            stream.partitions(stored(stream.initialOffset()), cut.after),
            stream.partitions(cut.after, end),
        ]
        for batch_id, tasks in enumerate(plans):
            done = [
                write_ranges(task.value, options.connection, schema_of(options), to, batch_id=batch_id)
                for task in tasks
            ]
            DeltaWriter(to, DESCRIPTION).commit(done, batch_id)

    report = verify(str(tmp_path), cut.bootstrap)
    assert report.is_equal and report.is_complete, report
    assert (report.topic_side.count, report.table_side.count, report.gone.count) == (150, 150, 0)


def test_offsets_of_an_old_checkpoint_without_epochs_are_still_read(cut: Cut) -> None:
    """Nobody can tell then whether the log was cut; as before."""
    old = {"orders": {"0": 100}}

    end, found = step(query(cut.bootstrap), old)

    assert found == numbered(50, 100, b"new")
    assert end["orders"]["epochs"] == {"0": cut.new_epoch}


def test_the_target_of_a_run_is_not_kept_beyond_a_log_that_was_cut_meanwhile(cut: Cut) -> None:
    with pytest.warns(UserWarning, match="was to read up to offset 100 .* cut off 50 offsets"):
        end, found = step(cut.available, cut.before)

    assert end["orders"]["offsets"] == {"0": 150}
    assert found == numbered(0, 100, b"new")


def test_a_run_over_what_is_there_begins_a_topic_that_was_made_again_at_its_beginning(
    cluster: ProcessCluster, client: SyncClient, make_topic: Callable[..., str]
) -> None:
    """400 were read, 200 stand there now: neither is the end beyond the log, nor is anything skipped later."""
    topic = make_topic()
    fill(client, topic, 0, numbered(0, 400))
    first = query(cluster.bootstrap, topic)
    after, _ = step(first, stored(first.initialOffset()))
    made_again(client, topic)
    fill(client, topic, 0, numbered(0, 200, b"new"))

    def run(start: dict[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
        stream = query(cluster.bootstrap, topic, failOnDataLoss="false")
        stream.prepareForTriggerAvailableNow()
        return step(stream, start)

    with pytest.warns(UserWarning) as told:
        end, found = run(after)
    assert [str(w.message).partition(":")[0] for w in told] == [f"{topic} was deleted and created again"]
    assert end[topic]["offsets"] == {"0": 200}
    assert found == numbered(0, 200, b"new")
    fill(client, topic, 0, numbered(200, 600, b"new"))
    assert run(end)[1] == numbered(200, 600, b"new")


def test_as_many_records_as_before_in_a_topic_made_again_are_read_all_the_same(
    cluster: ProcessCluster, client: SyncClient, make_topic: Callable[..., str]
) -> None:
    topic = make_topic()
    fill(client, topic, 0, numbered(0, 10))
    stream = query(cluster.bootstrap, topic, failOnDataLoss="false")
    after, _ = step(stream, stored(stream.initialOffset()))
    made_again(client, topic)
    fill(client, topic, 0, numbered(0, 10, b"new"))

    with pytest.warns(UserWarning, match="deleted and created again"):
        _, found = step(stream, after)

    assert found == numbered(0, 10, b"new")


def test_a_task_of_a_topic_that_is_made_again_before_it_runs_fails_or_reads_nothing(
    cluster: ProcessCluster, client: SyncClient, make_topic: Callable[..., str]
) -> None:
    """With failOnDataLoss=false it must not fail: its batch stands in the checkpoint and comes again for ever."""
    topic = make_topic()
    fill(client, topic, 0, numbered(0, 10))
    strict, lenient = (query(cluster.bootstrap, topic, failOnDataLoss=text) for text in ("true", "false"))
    start = stored(strict.initialOffset())
    tasks = list(strict.partitions(start, stored(strict.latestOffset(start, EVERYTHING))))
    made_again(client, topic)
    fill(client, topic, 0, numbered(0, 10, b"new"))

    with pytest.raises(DataLoss, match=f"{topic} was deleted and created again"):
        values(strict, tasks)
    with pytest.warns(UserWarning, match=f"{topic} was deleted and created again"):
        assert values(lenient, tasks) == []


def deleted(client: SyncClient, topic: str) -> None:
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=topic)], topic_names=[topic], timeout_ms=30_000
    )
    (answer,) = client.call(CONTROLLER, request).responses
    assert answer.error_code == 0, answer
    eventually(lambda: topic not in client.cluster([topic]).topics, what="the topic is gone")


def made_again(client: SyncClient, topic: str) -> None:
    before = client.topic(topic).topic_id
    deleted(client, topic)
    create_topic(client, topic)
    assert client.topic(topic).topic_id != before


def test_a_topic_that_goes_is_data_loss_and_the_others_are_read_on(
    cluster: ProcessCluster, client: SyncClient, make_topic: Callable[..., str]
) -> None:
    stays, goes = make_topic("vanishing.stays"), make_topic("vanishing.goes")
    for name in (stays, goes):
        fill(client, name, 0, numbered(0, 10))
    by_pattern = {"subscribe": "", "subscribePattern": r"vanishing\..*"}
    strict, lenient = (
        query(cluster.bootstrap, failOnDataLoss=text, **by_pattern) for text in ("true", "false")
    )
    begin = stored(strict.latestOffset(stored(strict.initialOffset()), EVERYTHING))
    assert set(begin) == {stays, goes}
    deleted(client, goes)
    fill(client, stays, 0, numbered(10, 20))

    with pytest.raises(DataLoss, match=f"topic {goes}, which this query reads, is not there any more"):
        strict.latestOffset(begin, EVERYTHING)
    with pytest.warns(UserWarning, match=r"is not there any more; .*reads on without it"):
        end, found = step(lenient, begin)
    assert (set(end), found) == ({stays}, numbered(10, 20))


def test_a_topic_that_is_named_and_goes_is_told_of_with_its_option(
    cluster: ProcessCluster, client: SyncClient, make_topic: Callable[..., str]
) -> None:
    topic = make_topic()
    fill(client, topic, 0, numbered(0, 10))
    stream = query(cluster.bootstrap, topic)
    begin = stored(stream.latestOffset(stored(stream.initialOffset()), EVERYTHING))
    deleted(client, topic)

    with pytest.raises(
        ConfigurationError, match=f"subscribe names the topic {topic}, and the cluster has none"
    ):
        stream.latestOffset(begin, EVERYTHING)


def test_an_end_beyond_the_log_is_answered_while_planning(
    cluster: ProcessCluster, client: SyncClient, make_topic: Callable[..., str]
) -> None:
    topic = make_topic()
    fill(client, topic, 0, numbered(0, 20))

    def plan(**options: str) -> list[tuple[int, int]]:
        given = {"kafka.bootstrap.servers": cluster.bootstrap, "subscribe": topic, **options}
        parsed = parse(given)
        return [
            (r.start, r.end) for t in BatchReader(parsed, schema_of(parsed)).partitions() for r in t.value
        ]

    beyond = {"endingOffsets": json.dumps({topic: {"0": 30}})}
    with pytest.raises(
        DataLoss, match=rf"endingOffsets asks for {topic}-0 up to offset 30, but its log ends at 20"
    ):
        plan(**beyond)
    with pytest.warns(UserWarning, match="its log ends at 20; this query reads up to there"):
        assert plan(failOnDataLoss="false", **beyond) == [(0, 20)]
    with pytest.raises(
        DataLoss, match=rf"{topic}-0: this query was to begin at offset 25, but the log ends at 20"
    ):
        plan(startingOffsets=json.dumps({topic: {"0": 25}}))
    assert plan(
        startingOffsets=json.dumps({topic: {"0": 5}}), endingOffsets=json.dumps({topic: {"0": 7}})
    ) == [(5, 7)]
