"""Avro and Protobuf through a job: what is planned, what tasks make of it, how many errors are too many, and letters fed again."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError
from pyspark.sql.types import StructType

from odradek.cli.spark import spark as spark_commands
from odradek.client.sync import SyncClient
from odradek.model.errors import ConfigurationError
from odradek.model.ids import TopicPartition
from odradek.records.builder import NewRecord, build_batch
from odradek.spark import dead_letters as letters_module
from odradek.spark import replay as replay_module
from odradek.spark import tables
from odradek.spark.ddl import schema_of, text_of
from odradek.spark.dead_letters import batches, dead_letters, keep_shape, kept_shape
from odradek.spark.decode import RecordTooLarge
from odradek.spark.formats import registry as registry_module
from odradek.spark.formats.declared import Format
from odradek.spark.formats.rows import LARGEST
from odradek.spark.jobs.tables import TablesJob, followed, planned, start
from odradek.spark.jobs.transform import TransformJob
from odradek.spark.kill_switch import OFF
from odradek.spark.object_store import ConnectionBroken
from odradek.spark.on_error import Most, TooManyLetters, actions_of
from odradek.spark.options import parse
from odradek.spark.ranges import OffsetRange
from odradek.spark.replay import REPLAY_APP, Replayed, replay
from odradek.spark.shape import BadValue, Shape
from odradek.spark.sink import DeltaWriter
from odradek.spark.source import schema_of as columns_of_source
from odradek.spark.verify import verify
from odradek.spark.writing import TableOptions, Written, dead_letters_of, write_ranges
from odradek.testing.process_cluster import ProcessCluster
from tests.spark.formats.registry_server import RegistryServer, framed, registry
from tests.spark.formats.test_avro import SIMPLE, written
from tests.support import each

MakeTopic = Callable[..., str]
KEY = {"type": "record", "name": "K", "fields": [{"name": "k", "type": "int"}]}
NEWER = {**SIMPLE, "fields": [*SIMPLE["fields"], {"name": "more", "type": "int"}]}


@pytest.fixture
def server() -> Any:
    with registry() as running:
        yield running


def produce(client: SyncClient, topic: str, *records: tuple[bytes | None, bytes | None]) -> None:
    batch = [NewRecord(key, value, 1_700_000_000_000 + n) for n, (key, value) in enumerate(records)]
    client.produce(TopicPartition(topic, 0), build_batch(batch))


@pytest.fixture
def job(
    cluster: ProcessCluster,
    client: SyncClient,
    make_topic: MakeTopic,
    server: RegistryServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> TablesJob:
    """Offsets 0 and 1 fit, 2 is of a schema that is not registered yet, 3 is cut, 4 has a key that is none, 5 is null."""
    monkeypatch.setattr(registry_module, "BELIEVED_S", 0.0)
    monkeypatch.setattr(registry_module, "PAUSE_S", 0.0)
    topic = make_topic()
    server.has(1, KEY, subject=f"{topic}-key")
    server.has(7, SIMPLE, subject=f"{topic}-value")
    key = framed(1, written(KEY, {"k": 5}))
    value = [framed(7, written(SIMPLE, {"id": n, "n": f"n{n}"})) for n in range(5)]
    newer = framed(8, written(NEWER, {"id": 2, "n": "n2", "more": 1}))
    produce(
        client,
        topic,
        (key, value[0]),
        (None, value[1]),
        (key, newer),
        (key, value[3][:-1]),
        (b"k", value[4]),
        (key, None),
    )
    return TablesJob(
        cluster.bootstrap,
        (topic,),
        str(tmp_path / "table"),
        format="avro",
        key_format="avro",
        registry=server.url,
    )


def shape_of(job: TablesJob) -> Shape:
    shape = planned(job).shape
    assert shape is not None
    return shape


def task(job: TablesJob, shape: Shape, end: int = 6, *, batch_id: int = 0, begin: int = 0) -> Written:
    options = parse(job.source_options())
    table = TableOptions(job.table, job.name, OFF, shape=shape)
    wanted = OffsetRange(job.topics[0], 0, begin, end)
    done = write_ranges([wanted], options.connection, columns_of_source(options), table, batch_id=batch_id)
    return Written.from_text(done.to_text())


def commit(job: TablesJob, shape: Shape, end: int = 6, *, batch_id: int = 0, begin: int = 0) -> None:
    done = task(job, shape, end, batch_id=batch_id, begin=begin)
    DeltaWriter(TableOptions(job.table, job.name, OFF, shape=shape), StructType()).commit([done], batch_id)


def rows(job: TablesJob) -> list[dict[str, Any]]:
    return sorted(DeltaTable(job.table).to_pyarrow_table().to_pylist(), key=lambda row: row["__offset"])


def test_keys_and_values_of_a_registry_become_columns_and_each_error_has_its_stage(
    job: TablesJob, server: RegistryServer
) -> None:
    plan = planned(job)
    said = dict(plan.lines())
    assert said["columns"] == f"id BIGINT, n STRING (of subject {job.topics[0]}-value, schema id 7)"
    assert said["format"] == f"avro, schemas of {server.url}; keys avro, schemas of {server.url}"
    commit(job, Shape.from_text(shape_of(job).to_text()))

    assert [(row["__offset"], row["__key"], row["id"]) for row in rows(job)] == [
        (0, {"k": 5}, 0),
        (1, None, 1),
        (5, {"k": 5}, None),
    ]
    found = dead_letters(job.table)
    assert [(x.offset, x.stage, x.schema_id) for x in found] == [
        (2, "schema", 8),
        (3, "value", 7),
        (4, "key", None),
    ]
    assert found[0].error == f"schema id 8 is not in {server.url}"
    assert found[2].error.startswith("key: no schema id before the value") and found[2].key == b"k"
    assert verify(job.table, job.bootstrap).is_equal
    again = planned(job).shape
    assert again is not None and again.schema == shape_of(job).schema
    with pytest.raises(ConfigurationError, match="has keys that are decoded; name their --key-format"):
        planned(job._replace(key_format="raw"))
    with pytest.raises(
        ConfigurationError, match="has __key as STRUCT<k: INT>, which --key-format string does not give"
    ):
        planned(job._replace(key_format="string"))


def test_letters_are_fed_again_after_their_schema_came_each_once(
    job: TablesJob, server: RegistryServer
) -> None:
    shape = shape_of(job)
    commit(job, shape)
    keep_shape(job.table, shape)
    assert replay(job.table).rows == 0
    server.has(8, NEWER)

    done = replay(job.table)

    assert (done.rows, done.waiting) == (1, 2)
    assert "the value ends before its last field" in done.errors
    assert [(row["__offset"], row["__key"], row["id"], row["n"]) for row in rows(job)][2] == (
        2,
        {"k": 5},
        2,
        "n2",
    )
    assert rows(job)[2]["__leaderEpoch"] == rows(job)[0]["__leaderEpoch"]
    assert [row["__batch"] for row in rows(job)][:3] == [0, 0, None], "no batch brought what was fed again"
    assert [x.is_replayed for x in dead_letters(job.table)] == [True, False, False]
    assert verify(job.table, job.bootstrap).is_equal
    assert replay(job.table)._replace(errors=()) == Replayed(0, 2, ())
    assert len(rows(job)) == 4
    every = {path.name for path in Path(job.table).rglob("*.parquet") if "_odradek" not in path.parts}
    assert every == {uri.rsplit("/", 1)[-1] for uri in DeltaTable(job.table).file_uris()}


def has_letters_of_a_schema_that_came(job: TablesJob, server: RegistryServer, end: int = 6) -> None:
    shape = shape_of(job)
    commit(job, shape, end)
    keep_shape(job.table, shape)
    server.has(8, NEWER)


@pytest.mark.parametrize("where", ["before the commit", "behind the commit"])
def test_a_replay_that_dies_doubles_and_loses_nothing(
    job: TablesJob, server: RegistryServer, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    has_letters_of_a_schema_that_came(job, server)
    real = tables._add

    def dies(path: str, *more: Any) -> None:
        if where == "behind the commit":
            real(path, *more)
        raise OSError("power is gone")

    with monkeypatch.context() as patch, pytest.raises(OSError, match="power"):
        patch.setattr(tables, "_add", dies)
        replay(job.table)

    assert replay(job.table).rows == (1 if where == "before the commit" else 0)
    assert [row["__offset"] for row in rows(job)] == [0, 1, 2, 5]
    assert verify(job.table, job.bootstrap).is_equal


@pytest.mark.parametrize(
    "error", [ConnectionBroken("connection reset"), CommitFailedError("version 1 already exists")]
)
def test_a_replay_whose_commit_was_not_answered_counts_its_rows(
    job: TablesJob, server: RegistryServer, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """As in an object store: the commit has landed, and the connection breaks before the answer; or that was 503, and what the library
    repeats is refused."""
    has_letters_of_a_schema_that_came(job, server)
    real, broken = tables._add, []

    def breaks_once(*what: Any) -> Any:
        done = real(*what)
        if not broken:
            broken.append(True)
            raise error
        return done

    monkeypatch.setattr(tables, "_add", breaks_once)

    assert replay(job.table).rows == 1
    assert [row["__offset"] for row in rows(job)] == [0, 1, 2, 5]


def test_two_replays_at_the_same_time_add_a_letter_once(
    job: TablesJob, server: RegistryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_letters_of_a_schema_that_came(job, server)
    real, first = tables.commit, []

    def another_is_faster(path: str, **more: Any) -> bool:
        if not first:
            first.append(True)
            assert replay(job.table).rows == 1
        return real(path, **more)

    monkeypatch.setattr(tables, "commit", another_is_faster)

    assert replay(job.table).rows == 0
    assert [row["__offset"] for row in rows(job)] == [0, 1, 2, 5]


def many_letters(
    job: TablesJob, server: RegistryServer, client: SyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than one commit of a replay takes; all of them can be read by now."""
    newer = [(None, framed(8, written(NEWER, {"id": n, "n": "", "more": 0}))) for n in range(9)]
    produce(client, job.topics[0], *newer)
    has_letters_of_a_schema_that_came(job, server, 15)
    monkeypatch.setattr(letters_module, "_BATCH", 4)
    monkeypatch.setattr(replay_module, "A_COMMIT", 3)


@pytest.mark.parametrize("on_error", ["skip", "pause", "dlq"])
def test_letters_that_cannot_be_read_yet_stay_whatever_the_job_does_with_values_by_now(
    job: TablesJob, on_error: str
) -> None:
    """Dropped by a replay they would be nowhere."""
    shape = shape_of(job)
    commit(job, shape)
    keep_shape(job.table, shape._replace(on_error=on_error, most_letters="1"))

    done = replay(job.table)

    assert (done.rows, done.waiting) == (0, 3)
    assert [x.is_replayed for x in dead_letters(job.table)] == [False] * 3


def test_a_letter_that_two_applications_have_left_becomes_one_row(
    job: TablesJob, server: RegistryServer
) -> None:
    shape = shape_of(job)
    commit(job, shape)
    commit(job._replace(app_id="another"), shape)
    keep_shape(job.table, shape)
    server.has(8, NEWER)

    assert replay(job.table).rows == 1
    assert replay(job.table).rows == 0

    assert [row["__offset"] for row in rows(job)].count(2) == 1


def test_many_letters_are_several_commits(
    job: TablesJob, server: RegistryServer, client: SyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    many_letters(job, server, client, monkeypatch)

    assert replay(job.table).rows == 10
    assert len([b for b in tables.committed_batches(DeltaTable(job.table)) if b.app_id == REPLAY_APP]) > 1
    assert [row["__offset"] for row in rows(job)] == [0, 1, 2, 5, *range(6, 15)]


@pytest.mark.parametrize("number", [0, -2])
def test_nothing_is_fed_where_what_was_fed_before_is_not_known_any_more(
    job: TablesJob, server: RegistryServer, client: SyncClient, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Somebody has removed a note of a replay, or it died before it kept one, and Delta's log begins behind it: the rows were there twice."""
    many_letters(job, server, client, monkeypatch)
    replay(job.table)
    table = DeltaTable(job.table)
    table.create_checkpoint()
    for version in range(table.version()):
        Path(job.table, "_delta_log", f"{version:020}.json").unlink()
    every = sorted(Path(job.table, "_odradek", "batches").glob("*/*.json"))
    note = [one for one in every if json.loads(one.read_text())["appId"] == REPLAY_APP][number]
    kept = note.read_bytes()
    note.unlink()
    before = rows(job)

    with pytest.raises(
        letters_module.NoteGone,
        match=f"replayed, and the note of commit {int(note.stem)} .* put the file back",
    ):
        replay(job.table)
    assert rows(job) == before and dead_letters(job.table)

    note.write_bytes(kept)
    assert replay(job.table).rows == 0 and rows(job) == before


@pytest.mark.parametrize("comes_at", [1, 2])
def test_what_was_fed_before_another_came_is_counted_all_the_same(
    job: TablesJob, server: RegistryServer, client: SyncClient, monkeypatch: pytest.MonkeyPatch, comes_at: int
) -> None:
    """Who is as fast as to come first is ahead by several commits."""
    many_letters(job, server, client, monkeypatch)
    real, commits, theirs = tables.commit, [], []

    def another_is_faster(path: str, **more: Any) -> bool:
        commits.append(more["batch_id"])
        if len(commits) == comes_at:
            theirs.append(replay(job.table).rows)
        return real(path, **more)

    monkeypatch.setattr(tables, "commit", another_is_faster)

    ours = replay(job.table).rows

    assert (ours > 0) == (comes_at == 2) and theirs[0] > 0
    assert ours + theirs[0] == 10
    assert [row["__offset"] for row in rows(job)] == [0, 1, 2, 5, *range(6, 15)]


def test_of_a_replay_that_comes_too_late_nothing_is_left(
    job: TablesJob, server: RegistryServer, client: SyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It writes its rows when another has committed all of them, who so does not see its files."""
    many_letters(job, server, client, monkeypatch)
    looks, theirs = replay_module.identities, []

    def late(letters: pa.RecordBatch) -> Any:
        if not theirs:
            theirs.append(0)
            theirs.append(replay(job.table).rows)
        return looks(letters)

    monkeypatch.setattr(replay_module, "identities", late)

    assert (replay(job.table).rows, theirs) == (0, [0, 10])
    files = [path.name for path in Path(job.table).glob("*.parquet")]
    assert len(files) == len(DeltaTable(job.table).file_uris())


def test_a_marks_note_outlives_the_log_though_its_process_died_before_it_was_kept(
    job: TablesJob, server: RegistryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_letters_of_a_schema_that_came(job, server)
    with monkeypatch.context() as patch, pytest.raises(OSError, match="gone"):
        patch.setattr(tables.batch_notes, "keep", lambda *_: (_ for _ in ()).throw(OSError("gone")))
        replay(job.table)
    replay(job.table)
    monkeypatch.setattr(tables, "_in_log", lambda _: iter(()))  # 30 days later

    assert replay(job.table).rows == 0
    assert len(rows(job)) == 4


def test_letters_of_before_there_were_schema_ids_are_still_letters(job: TablesJob) -> None:
    shape = shape_of(job)
    old = pa.schema([f for f in letters_module.LETTERS if f.name not in ("schemaId", "leaderEpoch")])
    tables.commit(dead_letters_of(job.table), app_id="old", batch_id=0, files=[], parts=(), schema=old)

    commit(job, shape)

    assert [x.schema_id for x in dead_letters(job.table)] == [8, 7, None]


def test_how_values_are_read_may_be_told_anew_and_is_kept_without_a_password(
    job: TablesJob, tmp_path: Path
) -> None:
    shape = shape_of(job._replace(registry=job.registry.replace("http://", "http://me:secret@")))
    commit(job, shape)
    with pytest.raises(ConfigurationError, match="does not say how its values are read; name their --format"):
        replay(job.table)
    with pytest.raises(ConfigurationError, match="has keys that are decoded, and does not say how"):
        replay(job.table, Format("json"))
    keep_shape(job.table, shape)
    kept = kept_shape(job.table)
    assert kept is not None and "secret" not in kept.to_text() and kept.format.registry == job.registry
    file = tmp_path / "newer.avsc"
    file.write_text(json.dumps(NEWER))

    assert replay(job.table, Format("avro", schema_file=str(file), is_framed=True)).rows == 1


@pytest.mark.parametrize(
    ("columns", "form", "why"),
    [
        (
            "id BIGINT, by MAP<STRING, INT>",
            "json",
            "column by is MAP<STRING, INT>: JSON is not read into MAP",
        ),
        ("id BIGINT, name STRING", "string", "one column of STRING; these are id BIGINT, name STRING"),
    ],
)
def test_letters_are_not_fed_again_in_a_format_that_the_columns_cannot_come_from(
    tmp_path: Path, columns: str, form: str, why: str
) -> None:
    write_deltalake(tmp_path, schema_of(columns).empty_table())

    with pytest.raises(ConfigurationError, match=why):
        replay(str(tmp_path), Format(form))


def test_what_a_job_does_about_an_error_is_told_by_kind(job: TablesJob, server: RegistryServer) -> None:
    shape = shape_of(job)
    skipping = task(job, shape._replace(on_error="schema=skip,key=skip"))
    assert (sum(f.records for f in skipping.letters), skipping.refused) == (1, 3)
    with pytest.raises(
        BadValue, match=r"-0, offset 2: schema id 8 is not in .*; the job stops here: register its schema"
    ):
        task(job, shape._replace(on_error="schema=pause"))
    with pytest.raises(BadValue, match=r"offset 4: key: no schema id .*; the job stops here: .*--key-format"):
        task(job, shape._replace(on_error="key=pause"))
    server.answers["/schemas/ids/8"] = (500, b"")
    with pytest.raises(
        BadValue, match=r"offset 2: the registry .* answers 500.* goes on once the registry answers"
    ):
        task(job, shape)
    told = task(job, shape._replace(on_error="registry=dlq"))
    assert sum(f.records for f in told.letters) == 3


def test_kinds_and_actions() -> None:
    assert actions_of("dlq") == {
        "key": "dlq",
        "value": "dlq",
        "schema": "dlq",
        "size": "dlq",
        "registry": "pause",
    }
    assert set(actions_of("skip").values()) == {"skip"}
    assert actions_of("value=skip, registry=dlq")["registry"] == "dlq"
    for text in ("", "value", "value=panic", "disk=dlq", "dlq,skip"):
        with pytest.raises(
            ConfigurationError, match=r"--on-error .*: there are dlq, skip, pause, or one of them by kind"
        ):
            actions_of(text)


def test_more_letters_than_the_job_allows_stop_it_before_anything_is_in_the_table(job: TablesJob) -> None:
    shape = shape_of(job._replace(max_dead_letters="49%"))
    writer = DeltaWriter(TableOptions(job.table, job.name, OFF, shape=shape), StructType())
    done = [task(job, shape)]

    with pytest.raises(
        TooManyLetters, match=r"3 of 6 records in this batch become no row, and .* allows 49 %"
    ):
        writer.commit(done, 0)
    writer.abort(done, 0)

    assert not list(Path(job.table).rglob("*.parquet")) and tables.open_table(job.table) is None
    commit(job, shape_of(job._replace(max_dead_letters="50%")))
    assert len(rows(job)) == 3


def test_how_many_are_too_many() -> None:
    Most.of("1%").check(1, 100)
    Most.of("0").check(0, 5)
    for text, refused in (("1%", 2), ("1", 2), ("0", 1), ("0.5 %", 1)):
        with pytest.raises(TooManyLetters):
            Most.of(text).check(refused, 100)
    for text in ("", "-1", "1.5", "many", "1%%"):
        with pytest.raises(ConfigurationError, match="expected a number as in 100, or a share as in 1%"):
            Most.of(text)


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        ({"registry": ""}, "--format avro: expected either --registry or --schema-file"),
        (
            {"format": "json", "key_format": "raw"},
            "--registry is for --format or --key-format avro or protobuf",
        ),
        ({"format": "raw"}, "--key-format is for values with fields"),
        ({"key_format": "xml"}, "--key-format xml: there are raw, string, json, avro, protobuf"),
        ({"key_format": "raw", "key_schema": "a INT"}, "are for a --key-format"),
        ({"has_meta": False}, "--key-format makes the column __key, which --meta off leaves out"),
        ({"max_dead_letters": "some"}, "--max-dead-letters some: expected a number"),
        ({"on_error": "value=panic"}, "--on-error value=panic: there are dlq"),
        ({"subject": "nobodys", "schema": ""}, "^$"),
    ],
)
def test_what_cannot_work_is_said_before_spark_starts(
    job: TablesJob, fault: dict[str, Any], why: str
) -> None:
    if why == "^$":
        assert planned(job._replace(**fault)).where.startswith("of schema id 7, which values name")
        return
    with pytest.raises(ConfigurationError, match=why):
        planned(job._replace(**fault))


def test_a_registry_that_does_not_answer_is_a_sentence_before_spark_starts(
    job: TablesJob, server: RegistryServer
) -> None:
    server.answers[f"/subjects/{job.topics[0]}-value/versions/latest"] = (200, b"<html>")

    with pytest.raises(
        ConfigurationError, match=r"the registry http://.* does not tell of subject .*-value: it answers 200"
    ):
        planned(job)


def test_a_value_too_large_to_be_parsed_is_a_letter_with_its_bytes(
    cluster: ProcessCluster, job: TablesJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("odradek.spark.shape.LARGEST_VALUE", 12)
    shape = Shape(schema_of("a BIGINT"), format=Format("json"))
    values = [b'{"a": 1}', b'{"a": 2, "b": "too long"}', None]
    count = len(values)
    records = pa.record_batch(
        {
            "key": pa.array([None] * count, pa.binary()),
            "value": pa.array(values, pa.binary()),
            "topic": ["t"] * count,
            "partition": pa.array([0] * count, pa.int32()),
            "offset": list(range(count)),
            "timestamp": pa.array([0] * count, pa.timestamp("us", tz="UTC")),
            "leaderEpoch": pa.array([0] * count, pa.int32()),
        }
    )

    done = shape.applied(records)

    assert done.rows.column("a").to_pylist() == [1, None]
    (letter,) = done.letters.to_pylist()
    assert (letter["stage"], letter["error"]) == (
        "size",
        "a value of 25 bytes; 12 is the most that is parsed",
    )
    assert letter["value"] == values[1]
    assert LARGEST == 16 << 20 and job.source_options()["maxRecordBytes"] == str(64 << 20)


def test_a_record_of_50_mb_is_a_letter_and_one_beyond_the_bound_stops_the_job(
    client: SyncClient, job: TablesJob
) -> None:
    for number, size in ((6, 50 << 20), (7, 65 << 20)):
        value = b'{"a": "' + bytes(size) + b'"}'
        client.produce(TopicPartition(job.topics[0], 0), build_batch([NewRecord(None, value)], codec="zstd"))
        shape = Shape(schema_of("a STRING"), format=Format("json"))
        if number == 6:
            commit(job, shape, 7, begin=6)
            (letter,) = dead_letters(job.table)
            assert (letter.offset, letter.stage, letter.value) == (6, "size", value)
            assert letter.error == "a value of 52,428,809 bytes; 16,777,216 is the most that is parsed"
            assert replay(job.table, Format("json")).waiting == 1
        else:
            with pytest.raises(RecordTooLarge, match=r"offsets 7 to 8: .*67108864 is the most that is read"):
                task(job, shape, 8, begin=7)


def test_a_job_reads_large_records_whatever_becomes_of_them(job: TablesJob) -> None:
    """It has no argument that would raise the bound."""
    as_they_are = job._replace(format="raw", registry="", schema="")
    copied = TransformJob(job.bootstrap, job.topics, "copies", job.table)

    for options in (as_they_are.source_options(), copied.source_options()):
        assert parse(options).connection.max_record_bytes == 64 << 20


def test_large_letters_are_read_a_few_at_a_time_and_held_only_where_they_are_shown(
    job: TablesJob, client: SyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Letters 6 to 8 and 9 to 11, in a file each, the later ones first."""
    size = 1 << 20
    monkeypatch.setattr(letters_module, "_BATCH_BYTES", 2 * size)
    for number in range(6, 12):
        value = b"%02d" % number + bytes(size)
        client.produce(TopicPartition(job.topics[0], 0), build_batch([NewRecord(None, value)], codec="zstd"))
    shape = Shape(schema_of("a STRING"), format=Format("json"))
    commit(job, shape, 12, batch_id=0, begin=9)
    commit(job, shape, 9, batch_id=1, begin=6)

    assert [batch.num_rows for batch in batches(job.table)] == [1] * 6
    found = dead_letters(job.table, values=2)
    assert [(x.offset, len(x.value or b"")) for x in found] == [
        (n, size + 2 if n < 8 else 0) for n in range(6, 12)
    ]
    assert all(x.value and x.value.startswith(b"%02d" % x.offset) for x in dead_letters(job.table))
    shown = said("dlq", "show", "--table", job.table, "--count", "1").splitlines()
    assert "06" in shown[1] and shown[-1] == "6 dead letters, the first 1 of them shown"


def test_a_plain_key_is_a_column_of_its_type(job: TablesJob, server: RegistryServer) -> None:
    server.has(1, '"string"', subject=f"{job.topics[0]}-key")
    kept = job._replace(schema="id BIGINT")

    assert text_of(shape_of(kept).schema).startswith("id BIGINT, __key STRING, __topic STRING")
    of_text = shape_of(kept._replace(key_format="string"))
    assert of_text.key is not None and of_text.key.is_plain
    commit(kept, of_text._replace(on_error="skip"), 5)
    assert [row["__key"] for row in rows(kept)] == ["\x00\x00\x00\x00\x01\n", None, "k"]


def test_fields_of_keys_that_delta_cannot_have_are_left_out(job: TablesJob, server: RegistryServer) -> None:
    fields = [{"name": name, "type": "long"} for name in ("id", "ID", "other")]
    schema = {"type": "record", "name": "Key", "fields": fields}
    server.has(1, json.dumps(schema), subject=f"{job.topics[0]}-key")
    of_key = shape_of(job._replace(schema="id BIGINT")).key

    assert of_key is not None and of_key.columns.names == ["id", "other"]


def said(*arguments: str) -> str:
    done = CliRunner().invoke(spark_commands, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_the_command_shows_letters_and_feeds_them_again(job: TablesJob, server: RegistryServer) -> None:
    shape = shape_of(job)
    commit(job, shape)
    keep_shape(job.table, shape)
    shown = said("dlq", "show", "--table", job.table).splitlines()
    assert shown[0].split() == ["PARTITION", "OFFSET", "STAGE", "SCHEMA", "WHY", "VALUE"]
    assert shown[1].split()[:4] == [f"{job.topics[0]}-0", "2", "schema", "8"]
    assert shown[3].split()[:4] == [f"{job.topics[0]}-0", "4", "key", "-"]
    assert shown[-1] == "3 dead letters"
    server.has(8, NEWER)

    again = said("dlq", "replay", "--table", job.table).splitlines()
    assert again[0] == "1 row added, 2 dead letters left" and len(again) == 3
    assert said("dlq", "show", "--table", job.table).splitlines()[-1] == "2 dead letters; 1 replayed"
    assert said("dlq", "show", "--all", "--table", job.table).splitlines()[-1] == "3 dead letters; 1 replayed"
    of_registry = json.loads(said("dlq", "replay", "--table", job.table, "--registry", server.url, "--json"))
    assert (of_registry["rows"], of_registry["waiting"]) == (0, 2)


@each((["--message", "Order"], ["--framed"]))
def test_what_says_how_a_schema_is_read_is_refused_without_one(option: list[str]) -> None:
    done = CliRunner().invoke(spark_commands, ["dlq", "replay", "--table", "gone", *option])
    assert (done.exit_code, option[0] in done.output) == (2, True), done.output


def test_the_command_takes_what_a_job_takes(job: TablesJob, server: RegistryServer, tmp_path: Path) -> None:
    explained = said(
        *("tables", "--bootstrap", job.bootstrap, "--topic", job.topics[0], "--table", job.table),
        *("--format", "avro", "--registry", server.url, "--key-format", "string", "--explain"),
        *("--on-error", "schema=pause", "--max-dead-letters", "1%"),
    )
    assert "columns  id BIGINT, n STRING (of subject" in explained
    assert "errors   values that do not fit, by kind: key dlq, value dlq, schema pause" in explained
    assert "more than 1% of a batch stop the job" in explained
    checkpoint = tmp_path / "theirs"
    for kind in ("offsets", "commits"):
        (checkpoint / kind).mkdir(parents=True)
        (checkpoint / kind / "3").write_text(f'v1\n{{}}\n{{"{job.topics[0]}":{{"0":4}}}}')
    moved = planned(job._replace(from_checkpoint=str(checkpoint)))
    assert json.loads(moved.job.starting_offsets) == {job.topics[0]: {"0": 4}}
    assert f"begins where {checkpoint} stands" in dict(moved.lines())["topics"]
    with pytest.raises(
        ConfigurationError, match="--from-checkpoint and --starting-offsets: expected one of them"
    ):
        planned(job._replace(from_checkpoint=str(checkpoint), starting_offsets="latest"))
    # A start that died before its first batch has left a checkpoint from which Spark knows no offset.
    own = Path(job.checkpoint_directory)
    (own / "offsets").mkdir(parents=True)
    (own / "metadata").write_text('{"id":"5e0bb63b-7ee4-4f14-a2ab-7b7d0a4bd9f8"}')
    (own / "offsets" / ".0.crc").write_bytes(b"crc")
    again = planned(job._replace(from_checkpoint=str(checkpoint)))
    assert again.is_new and again.job.starting_offsets == moved.job.starting_offsets
    (own / "offsets" / "0").write_text("v1")
    assert planned(job._replace(from_checkpoint="gone")).job.starting_offsets == "earliest"


@pytest.mark.spark
def test_a_whole_job_of_avro_and_its_letters_fed_again(
    spark: Any, job: TablesJob, server: RegistryServer
) -> None:
    plan = planned(job._replace(is_once=True))

    batches = [b for b in followed(start(spark, plan), plan, lambda: False, spark) if b is not None]
    server.has(8, NEWER)

    assert [(b.rows, b.dead_letters, b.lag_records) for b in batches] == [(3, 3, 0)]
    assert replay(job.table).rows == 1
    assert [row["__offset"] for row in rows(job)] == [0, 1, 2, 5]
    assert verify(job.table, job.bootstrap).is_equal


def test_a_table_that_is_a_file_is_refused_before_anything_runs(job: TablesJob) -> None:
    Path(job.table).write_text("no directory")
    with pytest.raises(ConfigurationError, match=r"table: a file; a Delta table is a directory"):
        planned(job)
