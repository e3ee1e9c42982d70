"""Tables in an object store, over HTTP: all that holds in a directory, and what a store may do that a directory cannot."""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from deltalake.exceptions import CommitFailedError
from pyspark.sql.types import LongType, StructField, StructType

from odradek.cli.main import main
from odradek.client.sync import SyncClient
from odradek.model.errors import ConfigurationError
from odradek.model.ids import TopicPartition
from odradek.records.builder import NewRecord, build_batch
from odradek.spark import store_probe, tables, upsert
from odradek.spark.dead_letters import dead_letters, kept_shape
from odradek.spark.evolution import Evolve
from odradek.spark.growth import columns_of
from odradek.spark.jobs.tables import TablesJob, planned
from odradek.spark.object_store import (
    TIMEOUT_VARIABLE,
    ConnectionBroken,
    StoreError,
    answers,
    check_listens,
    storage_options,
)
from odradek.spark.options import parse
from odradek.spark.ranges import OffsetRange
from odradek.spark.replay import replay
from odradek.spark.sink import DeltaSink, DeltaWriter, ParquetSink
from odradek.spark.source import schema_of
from odradek.spark.storage import storage_of
from odradek.spark.verify import verify
from odradek.spark.writing import TableOptions, Written, write_ranges, write_rows
from odradek.testing.process_cluster import ProcessCluster
from tests.spark.store_server import (
    BLIND,
    BUCKET,
    BUSY_THEN_RESET,
    COMMITS,
    CUT,
    DELETIONS,
    KILLED_AFTER,
    KILLED_BEFORE,
    LOST,
    PAUSED,
    RESET_AFTER,
    RESET_BEFORE,
    SECRET,
    SILENT,
    UPLOADS,
    Front,
    Rule,
    Store,
    free_port,
)
from tests.spark.test_jobs_of_tables import job_of
from tests.spark.test_tables import ARROW, SCHEMA, Died, rows
from tests.support import eventually

MakeTopic = Callable[..., str]
pytestmark = pytest.mark.process


def written(table: str, batch_id: int, *batches: pa.RecordBatch) -> Written:
    options = TableOptions(table, "app", rows_are_records=True)
    return write_rows(iter(batches), SCHEMA, options, batch_id=batch_id)


def commit(table: str, batch_id: int, *messages: Written) -> bool:
    return tables.commit(
        table,
        app_id="app",
        batch_id=batch_id,
        files=[file for message in messages for file in message.files],
        parts=[part for message in messages for part in message.parts],
        schema=ARROW,
    )


def offsets_in(table: str) -> list[int]:
    return sorted(tables.opened(table).to_pyarrow_table().column("offset").to_pylist())


def files_in(table: str) -> set[str]:
    return {name for name in storage_of(table).listed("") if name.endswith(".parquet") and "/" not in name}


def named_files(table: str) -> set[str]:
    return {uri.rsplit("/", 1)[-1] for uri in tables.opened(table).file_uris()}


def test_a_batch_is_one_commit_and_what_comes_again_leaves_nothing(url: str) -> None:
    assert commit(url, 0, written(url, 0, rows(0, 5)), written(url, 0, rows(5, 9)))
    again = written(url, 0, rows(0, 9))
    assert len(files_in(url)) == 3

    assert not commit(url, 0, again)

    assert offsets_in(url) == list(range(9))
    assert files_in(url) == named_files(url)
    assert storage_of(url).listed("_odradek/in_work") == []
    (batch,) = tables.committed_batches(tables.opened(url))
    assert [(part.start, part.end) for part in batch.parts] == [(0, 9)]


@pytest.mark.parametrize("is_committed", [False, True])
def test_a_batch_whose_driver_died_comes_again_and_is_there_once(url: str, is_committed: bool) -> None:
    for batch_id in range(2):
        message = written(url, batch_id, rows(batch_id * 10, batch_id * 10 + 10))
        if is_committed:
            commit(url, batch_id, message)

        assert (
            commit(url, batch_id, written(url, batch_id, rows(batch_id * 10, batch_id * 10 + 10)))
            is not is_committed
        )

    assert offsets_in(url) == list(range(20))
    assert files_in(url) == named_files(url)


def test_of_two_drivers_of_one_job_one_wins_each_batch(url: str) -> None:
    """Also the first, which creates the table."""
    for batch_id in range(3):
        messages = [written(url, batch_id, rows(batch_id * 5, batch_id * 5 + 5)) for _ in range(2)]
        with ThreadPoolExecutor(2) as drivers:
            won = sorted(drivers.map(lambda message, number=batch_id: commit(url, number, message), messages))
        assert won == [False, True]

    assert offsets_in(url) == list(range(15))
    assert files_in(url) == named_files(url)


def test_a_driver_that_was_paused_as_it_committed_adds_nothing(url: str, before: Front) -> None:
    """Its PUT of the version is on its way while another driver commits the same batch."""
    commit(url, 0, written(url, 0, rows(0, 5)))
    late, other = written(url, 1, rows(5, 9)), written(url, 1, rows(5, 9))
    before.obeys(Rule(PAUSED, COMMITS, times=1))
    with ThreadPoolExecutor(1) as driver:
        sleeper = driver.submit(commit, url, 1, late)
        before.wait_until_paused()
        assert commit(url, 1, other)
        before.obeys(None)
        assert not sleeper.result(60)

    assert offsets_in(url) == list(range(9))
    assert files_in(url) == named_files(url)


@pytest.mark.parametrize("rule", [RESET_BEFORE, RESET_AFTER])
@pytest.mark.parametrize("begun", [True, False])
def test_a_commit_whose_connection_broke_is_looked_for(
    url: str, before: Front, rule: str, begun: bool
) -> None:
    """As where the server dies with the request in its hands: object_store does not repeat a conditional PUT."""
    if begun:
        commit(url, 0, written(url, 0, rows(0, 5)))
    first = 5 if begun else 0
    before.obeys(Rule(rule, COMMITS, times=2))

    commit(url, int(begun), written(url, int(begun), rows(first, 9)))

    assert offsets_in(url) == list(range(9))
    assert files_in(url) == named_files(url)
    assert [batch.batch_id for batch in tables.committed_batches(tables.opened(url))] == list(
        range(1 + begun)
    )


def test_a_commit_whose_connection_broke_as_it_was_repeated_is_looked_for(url: str, before: Front) -> None:
    """As where a server comes back, and goes again: only the first answer says that nothing was done."""
    message = written(url, 0, rows(0, 5))
    before.obeys(Rule(BUSY_THEN_RESET, COMMITS, times=2))

    commit(url, 0, message)

    assert offsets_in(url) == list(range(5))
    assert files_in(url) == named_files(url)


def merge(table: str, batch_id: int) -> bool:
    """A batch without changes, as one of tombstones of unknown keys is."""
    return upsert.merge(table, app_id="app", batch_id=batch_id, files=(), parts=(), schema=ARROW, note={})


@pytest.mark.parametrize("rule", [RESET_BEFORE, RESET_AFTER])
def test_a_merge_that_changes_nothing_and_whose_connection_broke_is_looked_for(
    url: str, before: Front, rule: str
) -> None:
    merge(url, 0)
    before.obeys(Rule(rule, COMMITS, times=2))

    merge(url, 1)

    assert tables.last_batch(tables.opened(url), "app") == 1


def test_a_merge_that_cannot_create_its_table_says_that_the_connection_broke(url: str, before: Front) -> None:
    before.obeys(Rule(RESET_BEFORE, COMMITS))
    with pytest.raises(StoreError, match=r"the connection to the store at .* broke"):
        merge(url, 0)


@pytest.mark.parametrize("rule", [RESET_BEFORE, RESET_AFTER])
def test_a_probe_whose_connection_broke_is_made_again(url: str, before: Front, rule: str) -> None:
    before.obeys(Rule(rule, COMMITS, times=2))
    store_probe.check(url)
    before.obeys(Rule(rule, DELETIONS, times=2))
    store_probe.check(url)
    before.obeys(None)

    assert storage_of(url).listed("_odradek/probe") == []


@pytest.mark.parametrize(("asked", "connect"), [("2", "2000ms"), ("30", "5000ms")])
def test_a_connection_may_take_as_long_as_a_request_up_to_five_seconds(
    monkeypatch: pytest.MonkeyPatch, asked: str, connect: str
) -> None:
    """A store on this machine is connected to at once whatever is asked for; one that is far away never was."""
    monkeypatch.setenv(TIMEOUT_VARIABLE, asked)

    found = storage_options("s3://bucket/table")

    assert found is not None
    assert (found["timeout"], found["connect_timeout"]) == (f"{asked}000ms", connect)
    assert found["retry_timeout"] == f"{3 * int(asked)}000ms"


def test_a_decision_whose_connection_broke_is_what_is_there(url: str, before: Front) -> None:
    for rule in (RESET_BEFORE, RESET_AFTER):
        before.obeys(Rule(rule, COMMITS, times=1))
        assert storage_of(url).settle(f"_odradek/{rule[:3]}", b"ours") == b"ours"
        assert storage_of(url).settle(f"_odradek/{rule[:3]}", b"others") == b"ours"


def test_a_connection_that_always_breaks_is_named(url: str, before: Front) -> None:
    before.obeys(Rule(RESET_BEFORE, COMMITS))
    with pytest.raises(
        StoreError, match=r"the connection to the store at .* broke \(.*reset.*whether .* is not known"
    ):
        store_probe.check(url)


@pytest.mark.parametrize(
    ("took", "kind"),
    [("900.5ms", ConnectionBroken), ("2.9s", ConnectionBroken), ("3.1s", StoreError), ("3000ms", StoreError)],
)
def test_a_request_that_broke_as_its_time_was_over_is_not_made_again(
    took: str, kind: type[StoreError], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was repeated until then: three times as long as one may take. Again, that would be three times as long once more."""
    monkeypatch.setenv("ODRADEK_STORE_TIMEOUT", "1")

    with pytest.raises(StoreError) as raised, answers("s3://lake/orders"):
        raise OSError(
            f"Generic S3 error: Error performing PUT http://lake/orders in {took}, after 9 retries: connection reset"
        )

    assert type(raised.value) is kind


def test_a_commit_that_landed_and_nobody_heard_of_is_there_once(url: str, before: Front) -> None:
    commit(url, 0, written(url, 0, rows(0, 5)))
    before.obeys(Rule(LOST, COMMITS, times=1))

    try:
        commit(url, 1, written(url, 1, rows(5, 9)))
    except StoreError:
        assert not commit(url, 1, written(url, 1, rows(5, 9)))  # Spark gives the batch again

    assert offsets_in(url) == list(range(9))
    assert files_in(url) == named_files(url)


def test_what_a_store_makes_of_a_commit_after_it_was_given_up_is_whole(
    url: str, before: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The PUT of the version is with the store, which does not answer in time; Spark aborts the batch, and gives it again."""
    writer = DeltaWriter(TableOptions(url, "app", rows_are_records=True), SCHEMA)
    writer.commit([written(url, 0, rows(0, 5))], 0)
    late = written(url, 1, rows(5, 9))
    before.obeys(Rule(PAUSED, COMMITS, times=1))
    with monkeypatch.context() as patience, pytest.raises(StoreError, match="does not answer"):
        patience.setenv("ODRADEK_STORE_TIMEOUT", "2")
        writer.commit([late], 1)
    before.wait_until_paused()

    writer.abort([late], 1)
    before.obeys(None)
    assert eventually(lambda: tables.opened(url).version() == 1)
    writer.commit([written(url, 1, rows(5, 9))], 1)
    writer.commit([written(url, 2, rows(9, 12))], 2)

    assert offsets_in(url) == list(range(12))
    assert files_in(url) == named_files(url)


def test_a_batch_whose_task_failed_was_not_committed_and_its_files_go(url: str) -> None:
    writer = DeltaWriter(TableOptions(url, "app", rows_are_records=True), SCHEMA)
    writer.commit([written(url, 0, rows(0, 5))], 0)

    writer.abort([written(url, 1, rows(5, 9)), None], 1)

    assert files_in(url) == named_files(url)


@pytest.mark.parametrize(("status", "times"), [(500, 3), (503, 14)])
def test_a_store_that_is_overloaded_is_asked_again_until_its_time_is_over(
    url: str, before: Front, status: int, times: int
) -> None:
    before.obeys(Rule(status, times=3))
    message = written(url, 0, rows(0, 5))
    before.obeys(Rule(status, COMMITS, times))

    assert commit(url, 0, message)
    assert offsets_in(url) == list(range(5))


def test_half_of_an_upload_is_nobodys(url: str, before: Front) -> None:
    commit(url, 0, written(url, 0, rows(0, 5)))
    before.obeys(Rule(CUT, UPLOADS, times=2))

    commit(url, 1, written(url, 1, rows(5, 9)))

    assert offsets_in(url) == list(range(9))
    assert files_in(url) == named_files(url)


def test_a_task_that_fails_leaves_nothing_not_even_an_upload_without_end(url: str, store: Store) -> None:
    def failing() -> Iterator[pa.RecordBatch]:
        yield rows(0, 5)
        raise Died

    options = TableOptions(url, "app", rows_are_records=True)
    with pytest.raises(Died):
        write_rows(failing(), SCHEMA, options, batch_id=0)

    assert files_in(url) == set()
    import boto3

    found = boto3.client("s3", endpoint_url=f"http://127.0.0.1:{store.port}", region_name="us-east-1")
    uploads = found.list_multipart_uploads(Bucket=BUCKET).get("Uploads", [])
    assert [upload["Key"] for upload in uploads if upload["Key"].startswith(url.split("/")[-1])] == []


def test_the_driver_deletes_what_killed_tasks_left(url: str) -> None:
    written(url, 0, rows(0, 5))  # and nobody heard of it
    message = written(url, 0, rows(0, 5))

    commit(url, 0, message)

    assert files_in(url) == named_files(url)
    assert len(files_in(url)) == 1


def test_others_optimize_and_vacuum_beside_us(url: str) -> None:
    for batch_id in range(3):
        commit(url, batch_id, written(url, batch_id, rows(batch_id * 5, batch_id * 5 + 5)))
    table = tables.opened(url)
    table.optimize.compact()
    table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)

    commit(url, 3, written(url, 3, rows(15, 20)))

    assert offsets_in(url) == list(range(20))
    assert [batch.batch_id for batch in tables.committed_batches(tables.opened(url))] == [0, 1, 2, 3]


def test_a_table_of_others_is_appended_to(url: str) -> None:
    write_deltalake(url, pa.Table.from_batches([rows(0, 5)]), storage_options=storage_options(url))

    assert commit(url, 0, written(url, 0, rows(5, 9)))
    assert offsets_in(url) == list(range(9))


def test_a_partitioned_table_has_its_files_in_directories(url: str) -> None:
    layout = tables.layout_of(url, "partition", "", "")
    options = TableOptions(url, "app", rows_are_records=True, layout=layout)
    message = write_rows(iter([rows(0, 5), rows(5, 9, 1)]), SCHEMA, options, batch_id=0)
    what = {"files": message.files, "parts": message.parts, "schema": ARROW}

    assert tables.commit(url, app_id="app", batch_id=0, **what, spec=layout.spec)  # type: ignore[arg-type]

    assert {file.name.split("/")[0] for file in message.files} == {"partition=0", "partition=1"}
    assert offsets_in(url) == list(range(9))


# The store's own faults, each in a sentence.


def test_a_store_that_does_not_answer_is_named_with_its_time_out(
    url: str, before: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ODRADEK_STORE_TIMEOUT", "0.3")
    before.obeys(Rule(SILENT))

    with pytest.raises(StoreError, match=r"does not answer within 0\.3 s \(ODRADEK_STORE_TIMEOUT\)"):
        tables.open_table(url)
    before.obeys(Rule(SILENT, UPLOADS))
    with pytest.raises(
        StoreError, match=r"does not answer within 0\.3 s \(ODRADEK_STORE_TIMEOUT\); the same line"
    ):
        written(url, 0, rows(0, 5))


@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        (403, r"refuses the credentials of this process \(403( AccessDenied)?\)"),
        (503, r"answers 503( SlowDown)?, after it was tried again for up to {} s"),
    ],
)
def test_a_store_that_refuses_is_named(
    url: str, before: Front, monkeypatch: pytest.MonkeyPatch, status: int, sentence: str
) -> None:
    message = written(url, 0, rows(0, 5))
    commit(url, 0, message)
    late = written(url, 1, rows(5, 9))

    def refused(what: Callable[[], object], *patience_s: float) -> tuple[float, str]:
        """Within the shortest of these in which the store has answered: it may be slower than that on a busy machine."""
        for brief_s in patience_s:
            monkeypatch.setenv("ODRADEK_STORE_TIMEOUT", f"{brief_s:g}")
            with pytest.raises(StoreError) as why:
                what()
            if "does not answer within" not in str(why.value):
                break
        return brief_s, str(why.value)

    before.obeys(Rule(status))
    for what in (
        lambda: tables.open_table(url),
        lambda: written(url, 1, rows(5, 9)),
        lambda: storage_of(url).read("_delta_log/00000000000000000000.json"),
        lambda: store_probe.check(url),
    ):
        within_s, said = refused(what, 0.5, 5, 15)
        assert re.search(sentence.format(f"{3 * within_s:g}"), said), said
        assert before.url in said
    before.obeys(Rule(status, COMMITS))
    _, said = refused(lambda: commit(url, 1, late), 2, 15)
    assert re.search(sentence if status == 403 else "answers 503", said), said
    before.obeys(None)
    monkeypatch.setenv("ODRADEK_STORE_TIMEOUT", "30")
    assert commit(url, 1, late)


def test_a_bucket_that_does_not_exist_is_named(before: Front) -> None:
    with pytest.raises(
        StoreError, match=r"there is no bucket nowhere at http://127.*; create it, or name another"
    ):
        store_probe.check("s3://nowhere/orders")


def test_nobody_at_the_address_is_named(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://user:hidden@127.0.0.1:{free_port()}")
    monkeypatch.setenv("ODRADEK_STORE_TIMEOUT", "0.3")

    with pytest.raises(StoreError, match=r"at http://127\.0\.0\.1:\d+ cannot be reached") as refused:
        tables.open_table(url)
    assert "hidden" not in str(refused.value)
    assert "after it was tried again for up to 0.9 s" in str(refused.value)


def test_a_job_that_begins_does_not_wait_for_an_address_where_nobody_listens(
    url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://user:hidden@127.0.0.1:{free_port()}")
    monkeypatch.setattr(store_probe, "is_first", lambda *_: pytest.fail("the store is asked"))
    checkpoint = {"checkpointLocation": f"file:{tmp_path}"}
    sink = DeltaSink({"table": url, "appId": "app", **checkpoint})
    schema = StructType([StructField("offset", LongType())])

    for begins in (
        lambda: check_listens(url),
        lambda: verify(url, ""),
        lambda: sink.streamWriter(schema, overwrite=False),
    ):
        with pytest.raises(
            StoreError, match=r"cannot be reached \(.*refused\); AWS_ENDPOINT_URL names it"
        ) as refused:
            begins()
        assert "hidden" not in str(refused.value)

    monkeypatch.setenv("ODRADEK_STORE_TIMEOUT", "0.1")
    for verb in ("show", "replay"):
        assert main(["spark", "dlq", verb, "--table", url]) == 1
        assert "refused); AWS_ENDPOINT_URL names it" in capsys.readouterr().err, verb

    (tmp_path / "commits").mkdir()
    (tmp_path / "commits" / "0").touch()
    monkeypatch.setattr(store_probe, "is_first", lambda *_: False)
    monkeypatch.setenv("ODRADEK_STORE_TIMEOUT", "0.1")
    with pytest.raises(StoreError, match=r"tried again for up to 0\.3 s"):
        sink.streamWriter(schema, overwrite=False)


def test_an_address_that_is_none_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://user:hidden@[::1")
    with pytest.raises(
        StoreError, match=r"at \[::1 cannot be reached \(Invalid IPv6 URL\); AWS_ENDPOINT_URL names it"
    ):
        check_listens("s3://lake/orders")


def test_an_address_for_s3_alone_comes_before_that_for_all_of_aws(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in AWS's own tools."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", os.environ["AWS_ENDPOINT_URL"])
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_port()}")
    check_listens(url)

    commit(url, 0, written(url, 0, rows(0, 5)))

    assert offsets_in(url) == list(range(5))


def test_a_table_in_a_directory_asks_nobody_of_a_store(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_port()}")  # of something else, and away
    check_listens(str(tmp_path / "orders"))


def test_missing_credentials_are_named(url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(tmp_path))

    with pytest.raises(
        StoreError, match=r"refuses this process \(403\), in whose environment there is no AWS_ACCESS_KEY_ID"
    ):
        tables.open_table(url)


def test_a_store_that_passes_over_conditions_is_refused(url: str, before: Front) -> None:
    before.obeys(Rule(BLIND, COMMITS))
    with pytest.raises(
        StoreError, match=r"passes over If-None-Match; a commit could take the place of another"
    ):
        store_probe.check(url)
    before.obeys(None)
    assert storage_of(url).listed("_odradek") == []


@pytest.mark.parametrize("end", ["", "/"])
def test_a_store_that_keeps_conditions_is_taken_and_nothing_is_left_in_it(url: str, end: str) -> None:
    store_probe.check(url + end)
    assert storage_of(url).listed("_odradek") == []
    assert [name for name in storage_of(f"s3://{BUCKET}").listed("") if "probe" in name] == []


def test_a_slash_at_the_end_of_a_tables_name_changes_nothing(url: str) -> None:
    commit(url, 0, written(url, 0, rows(0, 5)))
    named = f"{url}/"

    commit(named, 1, written(named, 1, rows(5, 9)))
    storage_of(named).settle("_odradek/columns/one", b"first")

    assert not commit(url, 1, written(url, 1, rows(5, 9)))
    assert storage_of(url).settle("_odradek/columns/one", b"second") == b"first"
    assert offsets_in(url) == list(range(9))


def test_a_commit_that_a_store_has_lost_stops_the_job(url: str) -> None:
    """Another commit has taken the place of ours, after we had heard that it was made."""
    for batch_id in range(2):
        commit(url, batch_id, written(url, batch_id, rows(batch_id * 5, batch_id * 5 + 5)))
    storage = storage_of(url)
    storage.replace("_delta_log/00000000000000000001.json", b'{"commitInfo":{"operation":"WRITE"}}\n')

    with pytest.raises(
        tables.WrongTable, match=r"had batch 1 of application 'app' and is at batch 0: commits are lost"
    ):
        commit(url, 2, written(url, 2, rows(10, 15)))


# Jobs.


def test_a_store_lists_as_a_directory_does_by_how_names_begin(url: str, tmp_path: Path) -> None:
    """What is one application's is told from what is another's."""
    for storage in (storage_of(str(tmp_path)), storage_of(url)):
        for name in ("own/a-1", "own/a-2/b-1", "own/a-2/day=1/c-1", "own/b-1", "own/b-2/a-1", "a-1"):
            storage.write(name, b"x")
        assert storage.listed("own", "a-") == ["own/a-1", "own/a-2/b-1", "own/a-2/day=1/c-1"]


@pytest.fixture
def job(
    cluster: ProcessCluster, client: SyncClient, make_topic: MakeTopic, tmp_path: Path, url: str
) -> TablesJob:
    checkpoint = str(tmp_path / "checkpoint")
    return job_of(cluster, client, make_topic(partitions=2), url, checkpoint=checkpoint)


def run(
    job: TablesJob, batch_id: int = 0, ranges: Sequence[tuple[int, int, int]] = ((0, 0, 5), (1, 0, 3))
) -> None:
    """What Spark does with a batch of a job, a task for each (partition, first offset, end)."""
    shape = planned(job).shape
    source = parse(job.source_options())
    options = TableOptions(
        job.table,
        job.name,
        shape=shape,
        upserts="dlq" if job.upsert_by else "",
        evolve=Evolve.of(job.evolve),
        there=columns_of(job.table),
    )
    done = []
    for partition, begin, end in ranges:
        wanted = OffsetRange(job.topics[0], partition, begin, end)
        task = write_ranges([wanted], source.connection, schema_of(source), options, batch_id=batch_id)
        done.append(Written.from_text(task.to_text()))
    DeltaWriter(options, StructType()).commit(done, batch_id)


@pytest.mark.parametrize("form", ["raw", "json"])
def test_what_a_job_writes_is_verified(job: TablesJob, form: str) -> None:
    job = job._replace(format=form, schema="id BIGINT, name STRING" if form == "json" else "")
    for _ in range(2):
        run(job)

    report = verify(job.table, job.bootstrap)

    assert report.is_equal, report
    assert report.table_side.count == (6 if form == "json" else 8)
    letters = dead_letters(job.table) if form == "json" else []
    assert [(x.partition, x.offset) for x in letters] == ([(0, 4), (1, 2)] if form == "json" else [])


def test_dead_letters_are_fed_again(job: TablesJob) -> None:
    from odradek.spark.dead_letters import keep_shape

    shape = planned(job).shape
    assert shape is not None
    keep_shape(job.table, shape)
    run(job)
    assert kept_shape(job.table) == shape

    assert replay(job.table)[:2] == (0, 2)


def test_one_row_a_key_in_a_store(job: TablesJob) -> None:
    job = job._replace(upsert_by="key")
    for _ in range(2):
        run(job)

    assert verify(job.table, job.bootstrap).is_equal
    assert storage_of(job.table).listed("_odradek/changes") == []


GROWN = [
    *({"id": n, "name": f"n{n}", "price": None, "at": None} for n in range(6)),
    {"id": 6, "name": None, "price": 1, "at": None},
    {"id": 7, "name": None, "price": None, "at": {"street": "x"}},
]


@pytest.mark.parametrize("upsert_by", ["", "key"])
def test_columns_are_added_in_a_store(job: TablesJob, client: SyncClient, upsert_by: str) -> None:
    """By two tasks, of which each has found another column, and both have found the same."""
    topic = job.topics[0]
    for partition, values in enumerate(
        ([b'{"id":6,"price":1}'], [b'{"id":7,"at":{"street":"x"}}', b'{"id":8,"price":"much"}'])
    ):
        batch = [NewRecord(b"p%d-%d" % (partition, n), value, 1) for n, value in enumerate(values)]
        client.produce(TopicPartition(topic, partition), build_batch(batch))
    job = job._replace(evolve="add", upsert_by=upsert_by, max_dead_letters="")
    apart = "in the same commit as the rows" if upsert_by else "in a commit just before that of the rows"
    assert dict(planned(job).lines())["evolves"] == f"add: {apart} that ask for it"
    run(job)

    with ThreadPoolExecutor(2) as drivers:
        list(drivers.map(lambda _: run(job, 1, [(0, 5, 6), (1, 3, 5)]), range(2)))

    table = tables.opened(job.table)
    found = sorted(table.to_pyarrow_table().to_pylist(), key=lambda row: row["id"])
    expected = [row for row in GROWN if not upsert_by or row["id"] >= 2]  # k0 and k1 come again
    assert [{name: row[name] for name in GROWN[0]} for row in found] == expected
    assert [(x.partition, x.offset) for x in dead_letters(job.table)] == [(0, 4), (1, 2), (1, 4)]
    assert verify(job.table, job.bootstrap).is_equal
    assert storage_of(job.table).listed("_odradek/columns") == []
    history = [entry["operation"] for entry in table.history()]
    assert ("ADD COLUMN" in history) is not bool(upsert_by)


def test_a_driver_that_dies_between_columns_and_rows_adds_the_rows_when_the_batch_comes_again(
    url: str,
) -> None:
    commit(url, 0, written(url, 0, rows(0, 5)))
    wider = rows(5, 9).append_column("more", pa.array([1, 2, 3, 4], pa.int64()))
    schema = StructType([*SCHEMA.fields, StructField("more", LongType())])

    def again() -> bool:
        options = TableOptions(url, "app", rows_are_records=True)
        message = write_rows(iter([wider]), schema, options, batch_id=1)
        what = {"files": message.files, "parts": message.parts, "schema": wider.schema}
        return tables.commit(url, app_id="app", batch_id=1, **what, evolve=Evolve.of("add"))  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "ATTEMPTS", 1)  # the first has added the columns
        with pytest.raises(CommitFailedError, match="has adds more BIGINT now; the rows come next"):
            again()
    assert offsets_in(url) == list(range(5))

    assert again()
    assert offsets_in(url) == list(range(9))
    assert files_in(url) == named_files(url)


def test_columns_are_added_whatever_they_and_the_table_are_called(url: str) -> None:
    """Their names stand in messages of Delta, which are no refusals of the store."""
    url = f"{url}-credentials"
    commit(url, 0, written(url, 0, rows(0, 5)))
    wider = rows(5, 9).append_column("credential_id", pa.array([1, 2, 3, 4], pa.int64()))
    schema = StructType([*SCHEMA.fields, StructField("credential_id", LongType())])
    message = write_rows(iter([wider]), schema, TableOptions(url, "app", rows_are_records=True), batch_id=1)
    what = {"files": message.files, "parts": message.parts, "schema": wider.schema}

    assert tables.commit(url, app_id="app", batch_id=1, **what, evolve=Evolve.of("add"))  # type: ignore[arg-type]
    assert offsets_in(url) == list(range(9))


def test_what_will_happen_is_told_with_the_store_and_without_secrets(job: TablesJob, before: Front) -> None:
    told = dict(planned(job).lines())

    assert told["table"] == f"{job.table}: new"
    assert told["store"] == f"{before.url}: of two who create one object it refuses one, so commits are safe"
    assert SECRET not in str(told)
    assert "_odradek" not in {name.split("/")[0] for name in storage_of(job.table).listed("")}


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"checkpoint": ""}, r"--table s3://.* needs a --checkpoint DIRECTORY"),
        ({"checkpoint": "s3://lake/checkpoint"}, r"--checkpoint s3://.*: expected a directory: Spark keeps"),
        ({"table": "s3a://lake/x"}, r"expected a directory or s3://BUCKET/PREFIX; it is spelled s3:// here"),
        ({"table": "gs://lake/x"}, r"expected a directory or s3://BUCKET/PREFIX$"),
        ({"table": "s3://lake"}, r"a bucket and a place in it"),
        ({"table": "s3://lake/x?y"}, r"without any of"),
        ({"table": f"s3://key:{SECRET}@lake/x"}, r"^--table: a URL of a table has no @: credentials are in"),
        ({"evolve": "add,widen"}, r"--evolve add,widen: to s3://.* columns can be added and nothing else"),
    ],
)
def test_what_cannot_be_in_a_store_is_refused(job: TablesJob, changed: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence) as refused:
        job._replace(**changed).check()  # type: ignore[arg-type]
    assert SECRET not in str(refused.value)


def test_the_sinks_say_where_they_can_write(url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"the option path .*odradek-delta writes to s3://"):
        ParquetSink({"path": url, "appId": "a"}).streamWriter(SCHEMA, False)
    secret = {"table": url, "appId": "a", "storage.aws_secret_access_key": SECRET}
    with pytest.raises(
        ConfigurationError, match=r"no options storage\.\*: address and credentials"
    ) as refused:
        DeltaSink(secret).streamWriter(SCHEMA, False)
    assert SECRET not in str(refused.value)
    with pytest.raises(ConfigurationError, match="the option evolve=widen: to s3:"):
        DeltaSink({"table": url, "appId": "a", "evolve": "widen"}).streamWriter(SCHEMA, False)


# The store's server is killed.


@pytest.mark.parametrize("what", [KILLED_BEFORE, KILLED_AFTER])
@pytest.mark.parametrize("after", [0, 5, 10, 15, 20])
def test_the_server_of_the_store_is_killed_at_any_request(
    url: str, store: Store, monkeypatch: pytest.MonkeyPatch, what: str, after: int
) -> None:
    """What stands before the store dies by SIGKILL, with the request done or not; another starts in its place."""
    commit(url, 0, written(url, 0, rows(0, 5)))
    first = Front(store)
    second = None
    try:
        with monkeypatch.context() as patch:
            patch.setenv("AWS_ENDPOINT_URL", first.url)
            patch.setenv("ODRADEK_STORE_TIMEOUT", "1")
            first.obeys(Rule(what, after=after))

            def fails() -> bool:
                try:
                    commit(url, 1, written(url, 1, rows(5, 9)))
                except (StoreError, CommitFailedError):
                    return True
                return False

            # On a busy machine a request may take longer than a second, and be given up before the server is killed.
            eventually(
                lambda: fails() and first.process.poll() is not None, 240, "it is killed, and that is told"
            )
            assert first.process.wait(60) == -9
        second = Front(store, first.port)
        monkeypatch.setenv("AWS_ENDPOINT_URL", second.url)
        for batch_id, (begin, end) in enumerate([(5, 9), (9, 12)], start=1):
            commit(url, batch_id, written(url, batch_id, rows(begin, end)))

        assert offsets_in(url) == list(range(12))
        assert files_in(url) == named_files(url)
    finally:
        first.stop()
        if second is not None:
            second.stop()
