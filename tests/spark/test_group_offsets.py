"""A consumer group that shows where a query stands, whatever becomes of its coordinator."""

import doctest
import json
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from odradek.client.sync import SyncClient
from odradek.client.sync_groups import committed
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ConfigurationError
from odradek.model.ids import TopicPartition
from odradek.spark import group_offsets
from odradek.spark import progress as progress_module
from odradek.spark.group_offsets import GroupListener, GroupOffsets
from odradek.spark.progress import ends_of, lag_of
from odradek.testing.process_cluster import ProcessCluster
from tests.spark.conftest import KEEP, create_topic, fill
from tests.support import eventually

MakeTopic = Callable[..., str]


def test_the_newest_of_what_is_told_is_committed_at_the_latest_when_it_closes(
    cluster: ProcessCluster, client: SyncClient, make_topic: MakeTopic
) -> None:
    partition = TopicPartition(make_topic(), 0)
    group = GroupOffsets(cluster.bootstrap, f"spark.{partition.topic}")
    for offset in range(1, 50):
        group.tell({partition: offset})

    assert group.close(timeout_s=60)
    assert committed(client, f"spark.{partition.topic}") == {partition: 49}


def test_what_is_told_while_a_commit_is_on_its_way_is_committed_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    partition = TopicPartition("orders", 0)
    commits: list[int] = []

    def commit(client: SyncClient, group: str, offsets: dict[TopicPartition, int]) -> dict[Any, Any]:
        commits.append(offsets[partition])
        if commits == [1]:
            of_query.tell({partition: 2})
        return {partition: ErrorCode.NONE}

    monkeypatch.setattr(group_offsets, "commit", commit)
    of_query = GroupOffsets("127.0.0.1:1", "spark.orders")
    of_query.tell({partition: 1})

    eventually(lambda: bool(commits), 30)
    assert of_query.close(timeout_s=30)
    assert commits == [1, 2]


def test_what_is_no_address_is_refused_where_the_group_is_asked_for() -> None:
    with pytest.raises(ConfigurationError, match="bootstrap address 'nowhere': expected host:port"):
        GroupOffsets("nowhere", "spark.orders")


def test_a_lost_coordinator_holds_nothing_up_and_is_told_when_it_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_offsets, "AGAIN_AFTER_S", 0.05)
    partition = TopicPartition("orders", 0)
    with (
        ProcessCluster(tmp_path, brokers=1, settings=KEEP) as cluster,
        SyncClient(cluster.bootstrap) as asked,
    ):
        create_topic(asked, "orders")
        group = GroupOffsets(cluster.bootstrap, "spark.orders")
        group.tell({partition: 1})
        eventually(lambda: committed(asked, "spark.orders") == {partition: 1}, 60, "it is committed")
        (broker,) = cluster.brokers
        cluster.kill(broker)
        group.tell({partition: 2})
        group.tell({partition: 3})
        cluster.restart(broker)

        assert group.close(timeout_s=90)
        assert committed(asked, "spark.orders") == {partition: 3}


def progress_at(topic: str, offset: int) -> dict[str, Any]:
    return {"sources": [{"endOffset": json.dumps({topic: {"offsets": {"0": offset}}})}]}


def test_what_a_query_had_finished_before_it_was_followed_and_after_it_was_told_of_is_committed(
    cluster: ProcessCluster, client: SyncClient, make_topic: MakeTopic
) -> None:
    """A query that waits for records tells of no batch, and of its last one Spark may tell too late."""
    partition = TopicPartition(make_topic(), 0)
    group = f"spark.{partition.topic}"
    query: Any = SimpleNamespace(runId="run", lastProgress=progress_at(partition.topic, 3))
    listener = GroupListener()

    listener.follow(query, cluster.bootstrap, group)
    assert listener.follows("run") and not listener.follows("another run")
    eventually(lambda: committed(client, group) == {partition: 3}, 30)

    query.lastProgress = progress_at(partition.topic, 5)
    assert listener.ended(query)
    assert committed(client, group) == {partition: 5}
    assert not listener.follows("run")
    assert listener.ended(query), "of what is not followed nothing is left to be told"


def test_a_query_without_a_finished_batch_commits_nothing(
    cluster: ProcessCluster, client: SyncClient, make_topic: MakeTopic
) -> None:
    group = f"spark.{make_topic()}"
    query: Any = SimpleNamespace(runId="run", lastProgress=None)
    listener = GroupListener()

    listener.follow(query, cluster.bootstrap, group)

    assert listener.ended(query)
    assert committed(client, group) == {}


def test_where_an_idle_query_stands_is_committed_again_before_a_broker_forgets_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    partition = TopicPartition("orders", 0)
    commits: list[dict[TopicPartition, int]] = []

    def commit(client: SyncClient, group: str, offsets: dict[TopicPartition, int]) -> dict[Any, Any]:
        commits.append(offsets)
        return {}

    monkeypatch.setattr(group_offsets, "commit", commit)
    monkeypatch.setattr(group_offsets, "REPEAT_S", 0.01)
    group = GroupOffsets("127.0.0.1:1", "spark.orders")
    group.tell({partition: 7})

    eventually(lambda: len(commits) >= 3, 30)
    assert group.close(timeout_s=60)
    assert set(map(str, commits)) == {str({partition: 7})}


def test_after_each_failure_it_waits_twice_as_long_up_to_a_minute_and_a_commit_ends_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    partition = TopicPartition("orders", 0)
    pauses: list[float] = []
    answers = iter([*[ErrorCode.NOT_COORDINATOR] * 9, ErrorCode.NONE, ErrorCode.NOT_COORDINATOR])
    commits: list[int] = []

    class Clock(threading.Condition):
        """A pause after a failure is over at once; what else is waited for is waited for."""

        def wait_for(self, predicate: Callable[[], bool], timeout: float | None = None) -> bool:
            if timeout == group_offsets.REPEAT_S:
                return super().wait_for(predicate, timeout)
            assert timeout is not None
            pauses.append(timeout)
            return predicate()

    def commit(client: SyncClient, group: str, offsets: dict[TopicPartition, int]) -> dict[Any, Any]:
        code = next(answers, ErrorCode.NONE)
        if code == ErrorCode.NONE:
            commits.append(offsets[partition])
        return {partition: code}

    monkeypatch.setattr(group_offsets, "commit", commit)
    monkeypatch.setattr(group_offsets, "threading", SimpleNamespace(Condition=Clock, Thread=threading.Thread))
    group = GroupOffsets("127.0.0.1:1", "spark.orders")
    group.tell({partition: 1})
    eventually(lambda: commits == [1], 30)
    assert pauses == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0]

    group.tell({partition: 2})
    eventually(lambda: commits == [1, 2], 30)
    assert pauses[9:] == [1.0]
    assert group.close(timeout_s=60)


def test_a_group_with_members_is_not_touched_and_the_query_goes_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    partition = TopicPartition("orders", 0)
    monkeypatch.setattr(group_offsets, "commit", lambda *_: {partition: ErrorCode.UNKNOWN_MEMBER_ID})
    group = GroupOffsets("127.0.0.1:1", "spark.orders")
    group.tell({partition: 1})

    assert not group.close(timeout_s=60)
    assert "spark.orders has members of its own; a query needs a group of its own" in caplog.text


def progress(end: Any, run: str = "r") -> SimpleNamespace:
    return SimpleNamespace(id="q", runId=run, sources=[SimpleNamespace(endOffset=end)])


def test_where_a_batch_ended_is_read_from_our_offsets_and_from_no_others() -> None:
    ours = json.dumps({"orders": {"epochs": {"0": 4}, "id": "QCg8mRkXQhqbNVvHYBrTEQ", "offsets": {"0": 17}}})

    assert ends_of(progress(ours)) == {TopicPartition("orders", 0): 17}
    assert ends_of({"sources": [{"endOffset": json.loads(ours)}]}) == {TopicPartition("orders", 0): 17}
    for theirs in (None, "7", '{"logOffset": 3}', "null"):
        assert ends_of(progress(theirs)) == {}


def test_the_listener_tells_of_its_own_queries_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    stand_in = SimpleNamespace(tell=told.append, close=lambda **_: True)
    monkeypatch.setattr(group_offsets, "GroupOffsets", lambda *_: stand_in)
    listener = GroupListener()
    listener.follow(SimpleNamespace(id="q", runId="r", lastProgress=None), "h:1", "spark.orders")  # type: ignore[arg-type]
    end = json.dumps({"orders": {"offsets": {"0": 17}}})

    listener.onQueryProgress(SimpleNamespace(progress=progress(end)))
    listener.onQueryProgress(SimpleNamespace(progress=progress(end, run="another")))

    assert told == [{TopicPartition("orders", 0): 17}]


class OfTheJvm:
    """Stands for an object of the JVM, of which each call by name is one over a socket."""

    def __init__(self, answers: dict[str, Any], calls: list[str]) -> None:
        self._answers, self._calls = answers, calls

    def __getattr__(self, name: str) -> Any:
        def called() -> Any:
            self._calls.append(name)
            return self._answers[name]

        return called


def test_of_a_batch_the_jvm_is_asked_for_what_is_needed_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    monkeypatch.setattr(
        group_offsets, "GroupOffsets", lambda *_: SimpleNamespace(tell=told.append, close=lambda: True)
    )
    listener, calls = GroupListener(), []
    listener.follow(SimpleNamespace(runId="ours", lastProgress=None), "a:1", "g")  # type: ignore[arg-type]
    # As Spark prints a progress: offsets are not text in it.
    printed = json.dumps({"sources": [{"endOffset": {"orders": {"offsets": {"0": 17}}}}]})
    for run_id in ("another's", "ours"):
        named = OfTheJvm({"toString": run_id}, calls)
        progress = OfTheJvm({"runId": named, "json": printed}, calls)
        group_offsets._OfTheJvm(listener).onQueryProgress(OfTheJvm({"progress": progress}, calls))
    group_offsets._OfTheJvm(listener).onQueryIdle(OfTheJvm({}, calls))

    assert told == [{TopicPartition("orders", 0): 17}]
    assert calls == ["progress", "runId", "toString"] * 2 + ["json"]


def test_who_ends_a_query_waits_for_its_group_though_spark_told_of_the_end_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    closed: list[float] = []

    def close(timeout_s: float = group_offsets.CLOSE_S) -> bool:
        closed.append(timeout_s)
        return timeout_s > 0

    monkeypatch.setattr(group_offsets, "GroupOffsets", lambda *_: SimpleNamespace(close=close))
    query: Any = SimpleNamespace(id="q", runId="r", lastProgress=None)
    listener = GroupListener()
    listener.follow(query, "h:1", "spark.orders")

    listener.onQueryTerminated(SimpleNamespace(id="q", runId="r"))

    assert listener.ended(query)
    assert closed == [0, group_offsets.CLOSE_S]


def test_what_a_query_finishes_before_its_events_are_heard_is_told_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Between the question where it stands and the listener: the last batch of a run, of which no event comes any more."""
    told: list[Any] = []
    monkeypatch.setattr(group_offsets, "GroupOffsets", lambda *_: SimpleNamespace(tell=told.append))
    query = SimpleNamespace(runId="run", lastProgress={"sources": [{"endOffset": of_orders(3)}]})

    def finishes(_: GroupListener) -> None:
        query.lastProgress = {"sources": [{"endOffset": of_orders(5)}]}

    spark: Any = SimpleNamespace(streams=SimpleNamespace(addListener=finishes))
    group_offsets.commit_group(spark, query, bootstrap="a:1", group="g")  # type: ignore[arg-type]

    assert told[-1] == {TopicPartition("orders", 0): 5}


def test_the_end_of_a_run_that_is_told_of_late_does_not_end_the_group_of_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A query that failed is started anew at once, from the same checkpoint, so under the same id."""
    closed: list[float] = []
    stand_in = SimpleNamespace(close=lambda timeout_s: closed.append(timeout_s))
    monkeypatch.setattr(group_offsets, "GroupOffsets", lambda *_: stand_in)
    listener = GroupListener()
    listener.follow(SimpleNamespace(id="q", runId="second", lastProgress=None), "h:1", "spark.orders")  # type: ignore[arg-type]

    listener.onQueryTerminated(SimpleNamespace(id="q", runId="first"))
    assert closed == []
    listener.onQueryTerminated(SimpleNamespace(id="q", runId="second"))
    assert closed == [0]


def test_the_examples_of_progress_hold() -> None:
    found = doctest.testmod(progress_module)

    assert (found.failed, found.attempted) == (0, 3)


def test_the_lag_of_a_query_is_by_partition_and_never_below_nothing() -> None:
    end = {"orders": {"offsets": {"0": 17, "1": 5, "2": 8}}}
    latest = {"orders": {"offsets": {"0": 20, "1": 4}}}
    source = {"endOffset": json.dumps(end), "latestOffset": json.dumps(latest)}

    assert lag_of({"sources": [source, {"endOffset": "7", "latestOffset": "9"}]}) == {
        TopicPartition("orders", 0): 3,
        TopicPartition("orders", 1): 0,
        TopicPartition("orders", 2): 0,
    }


@pytest.mark.spark
def test_a_job_shows_in_its_group_where_it_stands(
    spark: Any, cluster: ProcessCluster, client: SyncClient, make_topic: MakeTopic, tmp_path: Path
) -> None:
    from odradek.spark.jobs.tables import TablesJob, followed, planned, start

    topic = make_topic(partitions=2)
    fill(client, topic, 0, [b"%d" % n for n in range(7)])
    fill(client, topic, 1, [b"%d" % n for n in range(3)])
    group = f"spark.{topic}"
    job = TablesJob(cluster.bootstrap, (topic,), str(tmp_path / "table"), trigger="200ms", commit_group=group)
    plan = planned(job)
    assert ("group", f"{group} shows where it stands") in list(plan.lines())
    is_stopped = False
    batches = followed(start(spark, plan), plan, lambda: is_stopped, spark)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)

    def shows(wanted: dict[TopicPartition, int]) -> bool:
        next(batches)
        return committed(client, group) == wanted

    # While it runs: Spark tells the listener of a batch.
    eventually(lambda: shows({first: 7, second: 3}), 60.0)
    fill(client, topic, 1, [b"x"])
    eventually(lambda: shows({first: 7, second: 4}), 60.0)
    is_stopped = True
    told_after_its_offsets = [batch for batch in batches if batch is not None]
    assert len(told_after_its_offsets) <= 1
    assert committed(client, group) == {first: 7, second: 4}


@pytest.mark.spark
def test_the_last_batch_of_a_run_is_shown_however_late_spark_tells_of_it(
    spark: Any, cluster: ProcessCluster, client: SyncClient, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic()
    fill(client, topic, 0, [b"%d" % n for n in range(7)])
    query = (
        spark.readStream.format("odradek")
        .options(**{"kafka.bootstrap.servers": cluster.bootstrap, "subscribe": topic})
        .option("startingOffsets", "earliest")
        .load()
        .writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    listener = GroupListener()  # never told by Spark
    listener.follow(query, cluster.bootstrap, f"spark.{topic}")
    query.awaitTermination()

    assert listener.ended(query)
    assert committed(client, f"spark.{topic}") == {TopicPartition(topic, 0): 7}


def test_of_a_topic_that_a_query_reads_twice_the_reading_counts_that_is_behind() -> None:
    ahead, behind = ({"endOffset": of_orders(end), "latestOffset": of_orders(20)} for end in (17, 12))
    for sources in ([ahead, behind], [behind, ahead]):
        found = {"sources": sources}
        assert ends_of(found) == {TopicPartition("orders", 0): 12}
        assert lag_of(found) == {TopicPartition("orders", 0): 8}


def of_orders(offset: int) -> str:
    return json.dumps({"orders": {"offsets": {"0": offset}}})
