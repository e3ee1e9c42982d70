"""Topics into a Delta table that stays fresh: `odradek spark tables`.

`planned` looks at topics and table and knows what will happen, without Spark; `start` begins it; `followed` tells of
every batch what came of it. The same job again goes on where its checkpoint stands.
"""

import json
import os
import re
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from odradek.client.sync import SyncClient
from odradek.model.counted import counted
from odradek.model.errors import ConfigurationError, OdradekError
from odradek.model.ids import TopicPartition
from odradek.spark import ddl, dead_letters, tables
from odradek.spark.arrow_schema import rows_schema
from odradek.spark.checkpoints import has_begun, starting_offsets
from odradek.spark.connect import ADDRESS, is_remote, remote_session, shown
from odradek.spark.data_loss import LOST
from odradek.spark.evolution import FIXED, Evolve, addable, change_of, same
from odradek.spark.formats import declared as formats
from odradek.spark.formats.decoded import KEY, RefusedSchema
from odradek.spark.formats.registry import RegistryUnavailable, UnknownSchema
from odradek.spark.formats.rows import LARGEST
from odradek.spark.json_values import inferred
from odradek.spark.object_store import check_listens
from odradek.spark.object_store import place as store_place
from odradek.spark.on_error import actions_of
from odradek.spark.options import ConnectionOptions, parse
from odradek.spark.parquet import OWN_DIRECTORY
from odradek.spark.partitioning import Spec
from odradek.spark.places import absolute, check_directory, check_evolves, check_table, is_in_store
from odradek.spark.progress import lag_of, lag_s_of
from odradek.spark.ranges import OffsetRange
from odradek.spark.reading import read_one
from odradek.spark.sentence import is_of_a_dead_jvm, is_of_a_lost_server, sentence_of
from odradek.spark.shape import BATCH, COLUMNS, META, KeyShape, Shape, ours_in
from odradek.spark.store_probe import check as check_store
from odradek.spark.subscription import existing_topic, topic_to_write
from odradek.spark.table_files import Layout, size_of
from odradek.spark.topic_options import PROGRESS_TOPIC
from odradek.spark.upsert import UPSERTS
from odradek.spark.writing import dead_letters_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery

FORMATS = ("raw", *formats.FORMATS)
POLL_S = 0.2
SAMPLE = 1_000  # values that columns are learnt from
_LARGEST_READ = 4 * LARGEST  # what is too large to be parsed is a dead letter, so it has to be read
_MASTER = re.compile(rf"local\[([1-9]\d*|\*)\]|spark://[^/:]+:\d+(,[^/:]+:\d+)*|{ADDRESS.pattern}")
_TRIGGER = re.compile(r"\d+\s*(ms|s|m|min|h)")


class TablesJob(NamedTuple):
    bootstrap: str
    topics: tuple[str, ...]
    table: str
    format: str = "raw"
    schema: str = ""  # as `odradek.spark.ddl` reads it; "" learns it
    has_meta: bool = True
    on_error: str = "dlq"
    trigger: str = "10s"
    is_once: bool = False
    starting_offsets: str = "earliest"
    max_offsets_per_trigger: int | None = None
    fails_on_data_loss: bool = True
    app_id: str = ""
    commit_group: str = ""  # a consumer group that shows where the job stands
    checkpoint: str = ""
    upsert_by: str = ""  # "key": the table has the last record of each key
    registry: str = ""
    schema_file: str = ""
    message: str = ""
    subject: str = ""  # of the values; "" is TOPIC-value
    is_framed: bool = False
    key_format: str = "raw"
    key_schema: str = ""
    key_schema_file: str = ""
    key_message: str = ""
    key_subject: str = ""  # "" is TOPIC-key
    max_dead_letters: str = ""
    dead_letters_topic: str = ""  # that they are sent to as well, before the batch is committed
    from_checkpoint: str = ""  # of a query of Spark's connector, whose offsets a new job begins at
    partition_by: str = ""  # of a new table, as `odradek.spark.partitioning` reads it
    target_file_size: str = ""  # as in 128MB; "": a file a task and partition
    sort_by: str = ""  # columns, within a file
    evolve: str = "none"  # what may become of the table's columns, as `odradek.spark.evolution` reads it
    cores: str = "2"
    memory: str = "1g"
    master: str = ""  # "": as many cores of this machine
    archive: str = ""  # of `odradek spark pack`, which travels to the workers

    @property
    def name(self) -> str:
        """Without an id of its own the job is named by what it reads: a lost checkpoint is then noticed."""
        return self.app_id or f"tables:{','.join(sorted(self.topics))}"

    @property
    def target(self) -> str:
        return self.table

    @property
    def own_directory(self) -> Path:
        """Of a table in a directory."""
        return Path(os.path.abspath(self.table)) / OWN_DIRECTORY

    @property
    def checkpoint_directory(self) -> str:
        return os.path.abspath(self.checkpoint) if self.checkpoint else str(self.own_directory / "checkpoint")

    @property
    def log(self) -> Path:
        if is_in_store(self.table):
            return Path(f"{self.checkpoint_directory}.log")
        return self.own_directory / "spark.log"

    def check(self) -> "TablesJob":
        """What can be known to be wrong before anybody is asked."""
        for name, value in (("format", self.format), ("key-format", self.key_format)):
            if value not in FORMATS:
                raise ConfigurationError(f"--{name} {value}: there are {', '.join(FORMATS)}")
        actions_of(self.on_error)
        self._check_places()
        if not self.topics or not all(self.topics):
            raise ConfigurationError("--topic is missing: one topic, or several separated by commas")
        self._check_formats()
        self._check_letters()
        if self.from_checkpoint and self.starting_offsets != "earliest":
            raise ConfigurationError("--from-checkpoint and --starting-offsets: expected one of them")
        if self.upsert_by not in ("", "key"):
            raise ConfigurationError(
                f"--upsert-by {self.upsert_by}: expected key, the key of the record: a tombstone has nothing else"
            )
        if self.upsert_by and not self.has_meta:
            raise ConfigurationError("--upsert-by key needs the columns of ours, which --meta off leaves out")
        self._check_layout()
        check_running(self)
        columns = ddl.schema_of(self.schema) if self.schema else formats.PLAIN
        own = Shape(columns, self.has_meta, self.on_error, self.value_format)
        own._replace(most_letters=self.max_dead_letters).check()
        parse(self.source_options())
        return self

    def _check_places(self) -> None:
        if not self.table:  # as of a variable that is not set; it would be the directory one stands in
            raise ConfigurationError("--table is empty: expected a directory or s3://BUCKET/PREFIX")
        check_table(self.table, "--table")
        why = "Spark keeps the checkpoint, and here it has no access to object stores"
        check_directory(self.checkpoint, "--checkpoint", why)
        if is_in_store(self.table) and not self.checkpoint:
            raise ConfigurationError(
                f"--table {self.table} needs a --checkpoint DIRECTORY, which outlives the job: in an object store Spark cannot keep it"
            )

    def _check_layout(self) -> None:
        Spec.of(self.partition_by)
        size_of(self.target_file_size)
        evolves = Evolve.of(self.evolve) != FIXED
        if evolves and self.format in ("raw", "string"):
            raise ConfigurationError(
                f"--evolve is for values with fields, which --format {self.format} has not"
            )
        if Evolve.of(self.evolve).changes_more:
            check_evolves(self.table, f"--evolve {self.evolve}")
        if self.upsert_by and Evolve.of(self.evolve).changes_more:
            raise ConfigurationError(
                f"--evolve {self.evolve}: with --upsert-by columns can be added and nothing else: Delta's MERGE changes no type "
                f"and no NOT NULL in the commit that has the rows; --evolve add"
            )
        for option, value in (
            ("--partition-by", self.partition_by),
            ("--target-file-size", self.target_file_size),
            ("--sort-by", self.sort_by),
        ):
            if value and self.upsert_by:
                raise ConfigurationError(
                    f"{option} is for tables that are appended to: with --upsert-by Delta's MERGE writes the files"
                )

    def _check_formats(self) -> None:
        if self.format == "raw":
            for option, value in (
                ("--schema", self.schema),
                ("--schema-file", self.schema_file),
                ("--key-format", self.key_format != "raw"),
                ("--max-dead-letters", self.max_dead_letters),
                ("--dead-letters-topic", self.dead_letters_topic),
            ):
                if value:
                    raise ConfigurationError(f"{option} is for values with fields: --format json")
            for option, value in (("--message", self.message), ("--framed", self.is_framed)):
                if value:
                    raise ConfigurationError(f"{option} is for values with a schema: --format protobuf")
        else:
            self.value_format.check()
        if self.key_format != "raw":
            self.of_keys.check("--key-format")
            if self.key_schema and self.key_format != "json":
                raise ConfigurationError("--key-schema is for keys in JSON: --key-format json")
        elif self.key_schema or self.key_schema_file or self.key_message or self.key_subject:
            raise ConfigurationError(
                "--key-schema, --key-schema-file, --key-message and --key-subject are for a --key-format"
            )
        for option, subject, form in (
            ("--subject", self.subject, self.value_format),
            ("--key-subject", self.key_subject, self.of_keys),
        ):
            if subject and not form.registry:
                raise ConfigurationError(
                    f"{option} is for schemas of a --registry: those of avro and protobuf, where no file has them"
                )
        if self.format == "string" and self.schema:
            raise ConfigurationError("--schema is for values with fields, and --format string has one: value")
        if self.registry and not {self.format, self.key_format} & {*formats.OF_SCHEMAS}:
            raise ConfigurationError("--registry is for --format or --key-format avro or protobuf")

    def _check_letters(self) -> None:
        name = self.dead_letters_topic
        taken = {
            **dict.fromkeys(self.topics, "the job reads that topic"),
            PROGRESS_TOPIC: "sinks note their progress in that topic",
        }
        if what := taken.get(name):
            raise ConfigurationError(
                f"--dead-letters-topic {name}: {what}; dead letters need a topic of their own"
            )
        if name and "dlq" not in actions_of(self.on_error).values():
            raise ConfigurationError(
                f"--dead-letters-topic {name}: with --on-error {self.on_error} there are no dead letters; dlq makes them"
            )

    @property
    def value_format(self) -> formats.Format:
        has_schema = self.format in formats.OF_SCHEMAS
        registry = self.registry if has_schema and not self.schema_file else ""
        return formats.Format(self.format, registry, self.schema_file, self.message, self.is_framed)

    @property
    def of_keys(self) -> formats.Format:
        has_schema = self.key_format in formats.OF_SCHEMAS
        registry = self.registry if has_schema and not self.key_schema_file else ""
        return formats.Format(self.key_format, registry, self.key_schema_file, self.key_message)

    def source_options(self) -> dict[str, str]:
        options = {
            "kafka.bootstrap.servers": self.bootstrap,
            "subscribe": ",".join(self.topics),
            "startingOffsets": self.starting_offsets,
            "failOnDataLoss": str(self.fails_on_data_loss).lower(),
            "maxRecordBytes": str(_LARGEST_READ),  # a job has no argument that would raise it
        }
        if self.max_offsets_per_trigger is not None:
            options["maxOffsetsPerTrigger"] = str(self.max_offsets_per_trigger)
        if self.format != "raw":
            options["columns"] = ",".join(COLUMNS)
            if self.dead_letters_topic:
                options |= {"columns": ",".join((*COLUMNS, "headers")), "includeHeaders": "true"}
        return options


class Plan(NamedTuple):
    """What will happen, known before Spark starts."""

    job: TablesJob
    shape: Shape | None
    learnt_from: int  # values; 0 where nothing had to be learnt
    refused: int  # of them
    version: int | None  # of the table, None if there is none yet
    begin: dict[TopicPartition, int]
    end: dict[TopicPartition, int]
    where: str = ""  # the columns are from
    left_out: tuple[str, ...] = ()  # fields that no column holds
    layout: Layout = Layout()
    read_committed: bool = False  # whether the job reads nothing else, and so learns from nothing else

    @property
    def is_new(self) -> bool:
        return not has_begun(self.job.checkpoint_directory)

    def lines(self) -> Iterator[tuple[str, str]]:
        job = self.job
        held = sum(self.end[p] - self.begin[p] for p in self.end)
        begins = f"begins where {job.from_checkpoint} stands, " if job.from_checkpoint else "begins at "
        where = begins + job.starting_offsets if self.is_new else "goes on where its checkpoint stands"
        yield (
            "topics",
            f"{', '.join(job.topics)}: {counted(len(self.end), 'partition')}, {held:,} offsets; {where}",
        )
        yield from self.lines_of_values()
        if job.dead_letters_topic:
            yield (
                "letters",
                f"{job.dead_letters_topic}, too: in a transaction of their own before the commit of the batch",
            )
        yield (
            "table",
            f"{job.table}: " + ("new" if self.version is None else f"version {self.version}, appended to"),
        )
        if is_in_store(job.table):
            yield (
                "store",
                f"{store_place()}: of two who create one object it refuses one, so commits are safe",
            )
        if self.layout.spec.by:
            yield "parts", f"{self.layout.spec}{'' if self.version is None else ', as the table is'}"
        told = [f"{job.target_file_size} each"] if job.target_file_size else []
        told += [f"sorted by {', '.join(self.layout.sort_by)}"] if self.layout.sort_by else []
        if told:
            yield "files", ", ".join(told)
        if Evolve.of(job.evolve) != FIXED:
            is_apart = is_in_store(job.table) and not job.upsert_by
            where = (
                "in a commit just before that of the rows" if is_apart else "in the same commit as the rows"
            )
            yield "evolves", f"{Evolve.of(job.evolve)}: {where} that ask for it"
        if job.upsert_by:
            yield (
                "upserts",
                "one row a key, of its last record; a null value deletes it; where a batch has a key in several partitions, the one of the "
                "greater offset",
            )
        yield "fused", "yes: no SQL stands in between, so the tasks that fetch also write the files"
        if job.commit_group:
            yield "group", f"{job.commit_group} shows where it stands"
        yield "commits", f"one a batch, by {job.name!r}; checkpoint in {job.checkpoint_directory}"
        when = "until all is in, then it stops" if job.is_once else f"every {job.trigger}, until Ctrl-C"
        yield "runs", f"{when}; on {place_of(job)}; what Spark says is in {words_of(job)}"

    def lines_of_values(self) -> Iterator[tuple[str, str]]:
        if self.shape is None:
            yield "columns", "the records as they are"
        else:
            how = "as the table has them" if self.version is not None else "as given"
            if self.learnt_from:
                how = f"learnt from {counted(self.learnt_from, 'value')}, of which {self.refused} are no JSON objects"
            yield "columns", f"{ddl.text_of(self.shape.columns)} ({self.where or how})"
            if self.left_out:
                yield "left out", f"{', '.join(self.left_out)}: no column holds them"
            if self.shape.format.name != "json" or self.shape.key is not None:
                of_keys = "raw" if self.shape.key is None else str(self.shape.key.format)
                yield "format", f"{self.shape.format}; keys {of_keys}"
            yield "beside", ", ".join(self.shape.ours) or "no columns of ours"
            yield "errors", _told(self.shape, dead_letters_of(self.job.table))

    def start(self, spark: "SparkSession") -> "StreamingQuery":
        return start(spark, self)

    def noted(self, batch_id: int) -> dict[str, Any] | None:
        return tables.noted(self.job.table, self.job.name, batch_id)


def planned(job: TablesJob) -> Plan:
    """Asks cluster and table. Whatever is wrong with either is a sentence now, and not a hundred lines of Spark's later."""
    job.check()
    if job.from_checkpoint and not has_begun(job.checkpoint_directory):
        job = job._replace(starting_offsets=starting_offsets(job.from_checkpoint, job.topics))
    with SyncClient(job.bootstrap) as client:
        topics = {name: existing_topic(client, name, "--topic") for name in job.topics}
        partitions = [TopicPartition(name, p) for name, topic in topics.items() for p in topic.partitions]
        begin, end = client.begin_offsets(partitions), client.end_offsets(partitions)
        if job.dead_letters_topic:
            topic_to_write(client, job.dead_letters_topic, "--dead-letters-topic")
    check_listens(job.table)
    check_store(job.table, "--table")
    if Path(job.table).is_file():
        raise ConfigurationError(f"--table {job.table}: a file; a Delta table is a directory")
    table = tables.open_table(job.table)
    version = None if table is None else table.version()
    if table is not None:
        tables.check_appendable(table)
    there = None if table is None else tables.row_schema(table)
    layout = tables.layout_of(job.table, job.partition_by, job.target_file_size, job.sort_by)
    plan = Plan(job, None, 0, 0, version, begin, end, layout=layout)
    if job.format != "raw":
        plan = shaped(plan, there)
    elif there is not None and "value" not in there.names:
        raise ConfigurationError(f"{job.table} has columns of values; --format json appends to it")
    _check_upserts(plan, table)
    layout.check(rows_schema() if plan.shape is None else plan.shape.schema)
    return plan


def _check_upserts(plan: Plan, table: DeltaTable | None) -> None:
    """Appended to what is upserted, keys would come twice; and what is no single value is no key that Delta can merge by."""
    job = plan.job
    key = None if plan.shape is None else plan.shape.key
    if job.upsert_by and plan.layout.spec.by:
        raise ConfigurationError(
            f"--upsert-by key: {job.table} is partitioned by {plan.layout.spec}, and a table that has one row a key is not; give it "
            f"another --table"
        )
    if job.upsert_by and key is not None and (not key.is_plain or pa.types.is_nested(key.kind)):
        raise ConfigurationError(
            "--upsert-by key needs keys of one value: leave --key-format out to have their bytes"
        )
    done = None if table is None else tables.last_batch(table, job.name)
    note = None if done is None else tables.noted(job.table, job.name, done)
    if table is not None and done is None and not job.upsert_by:
        other = next((one["appId"] for one in tables.notes(table) if one.get(UPSERTS, False)), None)
        if other is not None:
            raise ConfigurationError(
                f"{job.table} has one row a key, as application {other!r} has merged it: rows that are appended would be keys that come "
                f"twice; --upsert-by key merges them as well, or give the job another --table"
            )
    if note is not None and note.get(UPSERTS, False) != bool(job.upsert_by):
        was = "with" if not job.upsert_by else "without"
        raise ConfigurationError(
            f"{job.table} was written {was} --upsert-by so far: run it as before, or give it another --table"
        )


def _told(shape: Shape, letters: str) -> str:
    told = {"dlq": f"dead letters into {letters}", "skip": "left out", "pause": "the job stops"}
    most = f"; more than {shape.most_letters} of a batch stop the job" if shape.most_letters else ""
    if shape.on_error in told:
        return f"values that do not fit: {told[shape.on_error]}{most}"
    by_kind = ", ".join(f"{kind} {action}" for kind, action in actions_of(shape.on_error).items())
    return f"values that do not fit, by kind: {by_kind}; dead letters into {letters}{most}"


def shaped(plan: Plan, there: pa.Schema | None) -> Plan:
    """With what is known of values; `there` is what the rows of the table have, where there is one."""
    try:
        return _shaped(plan, there)
    except (RegistryUnavailable, UnknownSchema, RefusedSchema) as error:
        raise ConfigurationError(str(error)) from None


def _shaped(plan: Plan, there: pa.Schema | None) -> Plan:
    """With the columns: those of the table, those that are given, or those that schema or values tell of."""
    job = plan.job
    if there is not None and _has_records(there):
        raise ConfigurationError(f"{job.table} holds records as they are; --format raw appends to it")
    key = None if job.key_format == "raw" else _key_shape(plan, there)
    of_new = (*META, BATCH) if job.has_meta else ()
    ours = of_new if there is None else ours_in(there)
    has_meta = bool(ours)

    def shape(columns: pa.Schema) -> Shape:
        form = job.value_format
        return Shape(
            columns, has_meta, job.on_error, form, key, job.max_dead_letters, has_batch=BATCH in ours
        ).check()

    if there is not None:
        if key is None and has_meta and there.field("__key").type != pa.binary():
            raise ConfigurationError(f"{job.table} has keys that are decoded; name their --key-format")
        columns = pa.schema([field for field in there if field.name not in ours])
        own = shape(columns).of_columns(columns)
        if job.schema:
            own = _given_beside(job, own)
        return plan._replace(shape=own.relaxed() if Evolve.of(job.evolve).relaxes else own)
    if job.schema:
        return plan._replace(shape=shape(ddl.schema_of(job.schema)))
    if job.format == "string":
        return plan._replace(shape=shape(formats.PLAIN))
    if job.format in formats.OF_SCHEMAS:
        found = formats.learnt(
            job.value_format, job.subject or f"{job.topics[0]}-value", lambda: _sampled(plan, "value")
        )
        columns, others = addable(found.columns)
        return plan._replace(shape=shape(columns), where=found.where, left_out=(*found.left_out, *others))
    fields, count, refused = _of_sample(plan, "value", "--schema")
    columns, others = addable(fields)
    return plan._replace(shape=shape(columns), learnt_from=count, refused=refused, left_out=others)


def _has_records(there: pa.Schema) -> bool:
    """Records as they are; values may have fields of the same names."""
    of_record = rows_schema(("topic", "partition", "offset", "value"))
    return not ours_in(there) and all(
        field.name in there.names and there.field(field.name).type == field.type for field in of_record
    )


def _given_beside(job: TablesJob, own: Shape) -> Shape:
    """With what --schema says of a table that is there: what it has, or what may become of it."""
    given, evolve = ddl.schema_of(job.schema), Evolve.of(job.evolve)
    change, unfit = change_of(own.columns, given, ())
    is_allowed = all(may or not wanted for may, wanted in zip(evolve, change.needs, strict=True))
    is_other = not set(given.names) >= set(own.columns.names) or not all(
        same(field.type, own.columns.field(field.name).type)
        for field in given
        if field.name in own.columns.names
    )
    if unfit or not is_allowed or (is_other and not change.widened):
        raise ConfigurationError(
            f"--schema is not what {job.table} has, which is {ddl.text_of(own.columns)}; leave it out to append to it"
        )
    # Behind ours it would be taken for the number of the batch.
    own._replace(columns=pa.schema(change.added), has_batch=own.has_meta).check_names()
    widened = {field.name: field for field in change.widened}
    return own._replace(
        columns=pa.schema([*(widened.get(field.name, field) for field in own.columns), *change.added])
    )


def _key_shape(plan: Plan, there: pa.Schema | None) -> KeyShape:
    job, form = plan.job, plan.job.of_keys
    is_plain = form.name == "string"
    if form.name in formats.OF_SCHEMAS:
        found = formats.learnt(form, job.key_subject or f"{job.topics[0]}-key", lambda: _sampled(plan, "key"))
        (columns, _), is_plain = addable(found.columns), found.is_plain
    elif is_plain:
        columns = formats.PLAIN
    elif job.key_schema:
        columns = ddl.schema_of(job.key_schema)
    elif there is None:
        fields, _, _ = _of_sample(plan, "key", "--key-schema")
        columns, _ = addable(fields)
    else:
        columns = pa.schema([])
    if there is None or "__key" not in there.names:
        return KeyShape(form, columns, is_plain)
    kind = there.field("__key").type
    if pa.types.is_struct(kind) and not is_plain:
        return KeyShape(form, pa.schema(list(kind)), is_plain)
    if not is_plain or kind != columns.field(0).type:
        raise ConfigurationError(
            f"{job.table} has __key as {ddl.type_text(kind)}, which --key-format {form.name} does not give"
        )
    return KeyShape(form, columns, is_plain)


def _sampled(plan: Plan, column: str) -> pa.Array:
    return pa.array(sample(plan, column), pa.binary())


def _of_sample(plan: Plan, column: str, option: str) -> tuple[pa.Schema, int, int]:
    """Columns, how many values they are learnt from, and how many of them had none."""
    values = sample(plan, column)
    if not values:
        raise ConfigurationError(
            f"{', '.join(plan.job.topics)}: there is no record to learn columns from; give them with {option}, "
            f'as in {option} "id BIGINT, name STRING"'
        )
    columns, refused = inferred(values)
    if refused == len(values):
        raise ConfigurationError(
            f"--{'key-' if column == 'key' else ''}format json: of the {counted(refused, column)} that were looked at none "
            f"is a JSON object; string takes text, raw the bytes as they are"
        )
    return columns, len(values), refused


def sample(plan: Plan, column: str = "value") -> list[bytes | None]:
    """The first values (or keys) of each partition, some `SAMPLE` in all."""
    begin, end = plan.begin, plan.end
    held = [p for p in sorted(end) if end[p] > begin[p]]
    found: list[bytes | None] = []
    for partition in held[:SAMPLE]:
        left = -(-SAMPLE // len(held))
        # To its end: the first offsets of a topic that is compacted may have no record any more.
        wanted = OffsetRange(*partition, begin[partition], end[partition])
        connection = ConnectionOptions(
            plan.job.bootstrap, max_record_bytes=_LARGEST_READ, read_committed=plan.read_committed
        )
        for _, batch in read_one(wanted, connection, rows_schema((column,))):
            values = batch.column(0).slice(0, left)
            is_small = pc.less_equal(pc.binary_length(values), LARGEST).fill_null(True)
            found.extend(values.filter(is_small).to_pylist())
            left -= len(values)
            if not left:
                break
    return found


def start(spark: "SparkSession", plan: Plan) -> "StreamingQuery":
    job = plan.job
    table = {"table": absolute(job.table), "appId": job.name}
    if plan.shape is not None:
        table["shape"] = plan.shape.to_text()
        dead_letters.keep_shape(job.table, plan.shape)
    if job.upsert_by:
        table |= {"upserts": actions_of(job.on_error)[KEY], "evolve": job.evolve}
    else:
        table |= {
            "partitionBy": job.partition_by,
            "targetFileSize": job.target_file_size,
            "sortBy": job.sort_by,
            "evolve": job.evolve,
        }
    when: dict[str, Any] = (
        {"availableNow": True} if job.is_once else {"processingTime": spark_duration(job.trigger)}
    )
    letters = {"kafka.bootstrap.servers": job.bootstrap, "topic": job.dead_letters_topic}
    return (
        spark.readStream.format("odradek-fused")
        .options(**job.source_options(), **table)
        .load()
        .writeStream.format("odradek-delta")
        .options(**table)
        .option("deadLetters", json.dumps(letters) if job.dead_letters_topic else "")
        .option("checkpointLocation", job.checkpoint_directory)
        .outputMode("append")
        .trigger(**when)
        .start()
    )


def check_running(job: "Job") -> None:
    """What all kinds of jobs have."""
    if job.master and not _MASTER.fullmatch(job.master):
        raise ConfigurationError(
            f"--master {job.master}: expected local[4], local[*], spark://HOST:PORT or sc://HOST:PORT"
        )
    if job.archive and not job.master.startswith("spark://"):
        raise ConfigurationError(
            f"--archive {job.archive} travels to the workers of a --master spark://HOST:PORT"
        )
    if job.archive and not os.path.isfile(job.archive):
        raise ConfigurationError(
            f"--archive {job.archive}: there is no such file; `odradek spark pack` makes one"
        )
    if job.archive.lower().endswith(".tar"):
        raise ConfigurationError(
            f"--archive {job.archive}: from a .tar that is not compressed Spark unpacks no programs (SPARK-38632); "
            f"compress it by gzip and name it .tar.gz, as `odradek spark pack` does"
        )
    if not _TRIGGER.fullmatch(job.trigger):
        raise ConfigurationError(f"--trigger {job.trigger}: expected a duration as in 500ms, 10s, 5m")
    if not re.fullmatch(r"[1-9]\d*|\*", job.cores):
        raise ConfigurationError(f"--cores {job.cores}: expected a number, or * for all of them")
    if not re.fullmatch(r"[1-9]\d*[kmgt]", job.memory, re.IGNORECASE):  # as a JVM reads it behind -Xmx
        raise ConfigurationError(f"--memory {job.memory}: expected a size with its unit, as in 512m or 2g")


def place_of(job: "Job") -> str:
    """Where tasks run, as Spark names it."""
    if not job.master:
        return f"local[{job.cores}]"
    if is_remote(job.master):
        return shown(job.master)
    return job.master if job.master.startswith("local") else f"{job.master}, {job.cores} cores"


def words_of(job: "Job") -> str:
    """Where all stands that Spark says."""
    return "the log of the Spark Connect server" if is_remote(job.master) else str(job.log)


def spark_duration(text: str) -> str:
    """Spark wants its units spelt out."""
    units = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "min": "minutes", "h": "hours"}
    number, unit = re.fullmatch(r"(\d+)\s*(\w+)", text).groups()  # type: ignore[union-attr]
    return f"{number} {units[unit]}"


class Job(Protocol):
    """What running asks of a job, of whatever kind."""

    @property
    def bootstrap(self) -> str: ...
    @property
    def target(self) -> str: ...
    @property
    def commit_group(self) -> str: ...
    @property
    def cores(self) -> str: ...
    @property
    def memory(self) -> str: ...
    @property
    def master(self) -> str: ...
    @property
    def archive(self) -> str: ...
    @property
    def trigger(self) -> str: ...
    @property
    def log(self) -> Path: ...


class Planned(Protocol):
    """What running asks of a plan."""

    @property
    def job(self) -> Job: ...
    def lines(self) -> Iterator[tuple[str, str]]: ...
    def start(self, spark: "SparkSession") -> "StreamingQuery": ...
    def noted(self, batch_id: int) -> dict[str, Any] | None:
        """What a batch noted of itself; None if it is not there."""


class Batch(NamedTuple):
    """What came of a batch."""

    number: int
    rows: int
    lag_records: int
    lag_s: float
    dead_letters: int
    files: int
    skipped: int  # offsets that were to be read, were lost, and allowed to be
    took_s: float

    def __str__(self) -> str:
        skipped = f"  {self.skipped:,} offsets lost" if self.skipped else ""
        of_table = ""
        if self.files or self.dead_letters:
            of_table = f"  {counted(self.dead_letters, 'dead letter')}  {counted(self.files, 'file')}"
        return (
            f"batch {self.number}: {counted(self.rows, 'row')}  lag {counted(self.lag_records, 'record')}, "
            f"{self.lag_s:.1f} s{of_table}  ({self.took_s:.1f} s){skipped}"
        )


def run(
    plans: Sequence[Planned],
    tell: Callable[[Job, Batch], None],
    is_asked_to_stop: Callable[[], bool],
    tell_failure: Callable[[Job, str], None] = lambda *_: None,
) -> dict[str, str]:
    """All of them in one session, until each has ended. Of those that failed the sentence, by what they write; others go on, so
    `tell_failure` is told as well, at once."""
    spark = _session(plans[0].job)
    failed: dict[str, str] = {}
    running: dict[Job, Generator[Batch | None, None, None]] = {}

    def fails(job: Job, error: Exception) -> None:
        """Of several that write into one topic all is kept."""
        sentence = sentence_of(error)
        before = [failed[job.target]] if job.target in failed else []
        failed[job.target] = "; ".join([*before, sentence])
        tell_failure(job, sentence)

    try:
        for plan in plans:
            try:
                query = plan.start(spark)
            except Exception as error:  # of Spark's analysis: no such column in the SQL, say
                fails(plan.job, error)
            else:
                running[plan.job] = followed(query, plan, is_asked_to_stop, spark)
        while running:
            for job, batches in list(running.items()):
                try:
                    batch = next(batches, _ENDED)
                except (
                    Exception
                ) as error:  # whatever Spark made of it: the sentence is for who started the job
                    fails(job, error)
                    batch = _ENDED
                if batch is _ENDED:
                    del running[job]
                elif isinstance(batch, Batch):
                    tell(job, batch)
    finally:
        for batches in running.values():
            batches.close()
        _stop(spark)
    return failed


def _stop(what: "SparkSession | StreamingQuery") -> None:
    """A JVM that has ended cannot be told to, and what the jobs failed of is to be said."""
    try:
        what.stop()
    except Exception as error:
        if not is_of_a_dead_jvm(error):
            raise


_ENDED = object()


def _session(job: Job) -> "SparkSession":
    if is_remote(job.master):
        return remote_session(job.master)
    from odradek.spark.session import NoSession, local_session

    try:
        return local_session(
            "odradek", cores=job.cores, memory=job.memory, master=job.master, archive=job.archive, log=job.log
        )
    except OdradekError:
        raise
    except Exception as error:  # of a JVM with more memory than there is, say: why stands in its log
        raise NoSession(
            f"Spark does not start: {sentence_of(error)} (all that Spark says of it: {words_of(job)})"
        ) from error


def followed(
    query: "StreamingQuery",
    plan: Planned,
    is_asked_to_stop: Callable[[], bool],
    spark: "SparkSession",
) -> "Generator[Batch | None, None, None]":
    """Every batch that was committed, until the query ends, and None now and then while there is none to tell of.

    Asked to stop, the query ends after the batch it is at. Where it cannot be followed, nor asked any more, it ends as well.
    """
    try:
        yield from _followed(query, plan, is_asked_to_stop, spark)
    except Exception as error:
        if not is_of_a_lost_server(error):  # which would be asked in vain once more
            _stop(query)
        raise


def _followed(
    query: "StreamingQuery",
    plan: Planned,
    is_asked_to_stop: Callable[[], bool],
    spark: "SparkSession",
) -> "Generator[Batch | None, None, None]":
    if not plan.job.commit_group:
        yield from _batches(query, plan, is_asked_to_stop)
        return
    from odradek.spark.group_offsets import commit_group

    listener = commit_group(spark, query, bootstrap=plan.job.bootstrap, group=plan.job.commit_group)
    try:
        yield from _batches(query, plan, is_asked_to_stop)
    finally:
        listener.ended(query)
        spark.streams.removeListener(listener)


def _batches(
    query: "StreamingQuery", plan: Planned, is_asked_to_stop: Callable[[], bool]
) -> "Iterator[Batch | None]":
    told = -1
    while True:
        is_active = query.isActive
        for progress in query.recentProgress:
            if progress["batchId"] > told:
                told = progress["batchId"]
                note = plan.noted(told)
                if note is not None:
                    yield _batch(progress, note)
        if not is_active:
            failure = query.exception()
            if failure is not None:
                raise failure
            return
        if is_asked_to_stop() and not query.status["isTriggerActive"]:
            query.stop()
        query.awaitTermination(POLL_S)  # type: ignore[arg-type]  # takes a part of a second, too
        yield None


def _lag_s(lag: int, ages: dict[TopicPartition, float], newest_ms: int) -> float:
    """The age of the oldest record that was left; where nobody could tell it, of the newest that was read."""
    if not lag:
        return 0.0
    oldest = max(ages.values(), default=0.0)
    return oldest if oldest or newest_ms < 0 else max(0.0, time.time() - newest_ms / 1000)


def _batch(progress: "StreamingQueryProgress", note: dict[str, Any]) -> Batch:
    lag = sum(lag_of(progress).values())
    ages = lag_s_of(progress)
    newest = note["newestMs"]
    return Batch(
        number=progress["batchId"],
        rows=note["records"],
        lag_records=lag,
        lag_s=_lag_s(lag, ages, newest),
        dead_letters=note["letters"],
        files=note["files"],
        skipped=note.get(LOST, 0),
        took_s=progress["durationMs"]["triggerExecution"] / 1000,
    )
