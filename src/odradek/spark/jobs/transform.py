"""Topics into a topic, with SQL between them or none: `odradek spark transform`.

Read committed, written exactly once (`odradek.spark.topic_commit`). As with `jobs.tables`, `planned` looks without Spark.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from odradek.client.sync import SyncClient
from odradek.model.counted import counted
from odradek.model.errors import ConfigurationError
from odradek.model.ids import TopicPartition
from odradek.spark import batch_notes, left_out
from odradek.spark.arrow_schema import rows_schema
from odradek.spark.checkpoints import has_begun
from odradek.spark.data_loss import LOST
from odradek.spark.decoding import Decoding, letters_in
from odradek.spark.jobs.tables import (
    Plan,
    TablesJob,
    check_running,
    place_of,
    shaped,
    spark_duration,
    words_of,
)
from odradek.spark.options import parse
from odradek.spark.places import check_directory
from odradek.spark.shape import COLUMNS, Shape
from odradek.spark.subscription import existing_topic, topic_to_write
from odradek.spark.topic_options import CODECS, PROGRESS_TOPIC

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

# What SQL finds the records of the topics as.
VIEW = "records"
AS_THEY_ARE = ("key", "value", "headers", "timestamp")


# What a sentence of a job for a table has, and one of this kind.
_OTHER_WORDS = {
    "--table ": "--directory ",
    "--format or --key-format ": "--format ",
    "--meta off leaves ours out": "give a --schema without it",
}


@contextmanager
def _as_here() -> Iterator[None]:
    try:
        yield
    except ConfigurationError as error:
        sentence = str(error)
    else:
        return
    for words, here in _OTHER_WORDS.items():
        sentence = sentence.replace(words, here, 1)
    raise ConfigurationError(sentence)


class TransformJob(NamedTuple):
    bootstrap: str
    topics: tuple[str, ...]
    to: str
    directory: str
    sql: str = ""  # a SELECT from `records`; "" copies them as they are
    compression: str = "zstd"
    trigger: str = "10s"
    is_once: bool = False
    starting_offsets: str = "earliest"
    max_offsets_per_trigger: int | None = None
    fails_on_data_loss: bool = True
    app_id: str = ""
    commit_group: str = ""  # a consumer group that shows where the job stands
    format: str = "raw"
    schema: str = ""  # as `odradek.spark.ddl` reads it; "" learns it
    registry: str = ""
    schema_file: str = ""
    message: str = ""
    subject: str = ""  # "" is TOPIC-value
    is_framed: bool = False
    on_error: str = "dlq"
    max_dead_letters: str = ""
    dead_letters_topic: str = ""  # that they are written to as well, in the transaction of the batch
    cores: str = "2"
    memory: str = "1g"
    master: str = ""
    archive: str = ""

    @property
    def name(self) -> str:
        """Without an id of its own the job is named by what it reads and writes: a lost checkpoint is then noticed."""
        return self.app_id or f"transform:{','.join(sorted(self.topics))}:{self.to}"

    @property
    def target(self) -> str:
        return self.to

    @property
    def checkpoint_directory(self) -> str:
        return str(Path(os.path.abspath(self.directory)) / "checkpoint")

    @property
    def log(self) -> Path:
        return Path(os.path.abspath(self.directory)) / "spark.log"

    def check(self) -> "TransformJob":
        if not self.directory:
            raise ConfigurationError("--directory is empty: checkpoint and files of tasks stand in it")
        check_directory(self.directory, "--directory", "checkpoint and files of tasks stand in it")
        if not self.topics or not all(self.topics):
            raise ConfigurationError("--topic is missing: one topic, or several separated by commas")
        check_running(self)
        with _as_here():
            self.of_values.check()
        if self.to in self.topics:
            raise ConfigurationError(
                f"--to {self.to}: the job reads that topic, and would never come to its end"
            )
        if self.to == PROGRESS_TOPIC:
            raise ConfigurationError(f"--to {self.to}: sinks note their progress in that topic")
        if self.dead_letters_topic == self.to:
            raise ConfigurationError(
                f"--dead-letters-topic {self.to}: rows go to that topic; dead letters need a topic of their own"
            )
        if self.compression not in CODECS:
            raise ConfigurationError(f"--compression {self.compression}: there are {', '.join(CODECS)}")
        parse(self.source_options())
        return self

    @property
    def of_values(self) -> TablesJob:
        """The job as it would be for a table: what values are made of is asked and checked as there."""
        return TablesJob(
            self.bootstrap,
            self.topics,
            self.directory,
            format=self.format,
            schema=self.schema,
            on_error=self.on_error,
            registry=self.registry,
            schema_file=self.schema_file,
            message=self.message,
            subject=self.subject,
            is_framed=self.is_framed,
            max_dead_letters=self.max_dead_letters,
            dead_letters_topic=self.dead_letters_topic,
            starting_offsets=self.starting_offsets,
        )

    def source_options(self) -> dict[str, str]:
        options = {
            "kafka.bootstrap.servers": self.bootstrap,
            "kafka.isolation.level": "read_committed",
            "subscribe": ",".join(self.topics),
            "startingOffsets": self.starting_offsets,
            "failOnDataLoss": str(self.fails_on_data_loss).lower(),
            "includeHeaders": "true",
            "maxRecordBytes": self.of_values.source_options()["maxRecordBytes"],
        }
        if not self.fails_on_data_loss:
            options["tellsLost"] = json.dumps(
                {"directory": os.path.abspath(self.directory), "appId": self.name}
            )
        if self.max_offsets_per_trigger is not None:
            options["maxOffsetsPerTrigger"] = str(self.max_offsets_per_trigger)
        if self.format != "raw":
            options["columns"] = ",".join(dict.fromkeys((*COLUMNS, *AS_THEY_ARE)))
        elif not self.sql:
            options["columns"] = ",".join(AS_THEY_ARE)
        return options

    def sink_options(self) -> dict[str, str]:
        return {
            "kafka.bootstrap.servers": self.bootstrap,
            "kafka.compression.type": self.compression,
            "topic": self.to,
            "appId": self.name,
            "directory": os.path.abspath(self.directory),
            "checkpointLocation": self.checkpoint_directory,
            "decoded": str(self.format != "raw").lower(),
            "maxDeadLetters": self.max_dead_letters,
            "deadLettersTopic": self.dead_letters_topic,
        }


class TransformPlan(NamedTuple):
    """What will happen, known before Spark starts."""

    job: TransformJob
    begin: dict[TopicPartition, int]
    end: dict[TopicPartition, int]
    partitions: int  # of the topic that is written
    values: Plan | None = None  # what is known of values that are decoded
    letters: int = 0  # partitions of the topic of dead letters

    def lines(self) -> Iterator[tuple[str, str]]:
        job = self.job
        held = sum(self.end[p] - self.begin[p] for p in self.end)
        begins = f"begins at {job.starting_offsets}"
        where = "goes on where its checkpoint stands" if has_begun(job.checkpoint_directory) else begins
        yield (
            "topics",
            f"{', '.join(job.topics)}: {counted(len(self.end), 'partition')}, {held:,} offsets; {where}",
        )
        if self.values is not None:
            yield from self.values.lines_of_values()
        if job.dead_letters_topic:
            yield (
                "letters",
                f"{job.dead_letters_topic}, too: {counted(self.letters, 'partition')}; in the transaction of the batch",
            )
        yield "between", job.sql or "nothing: keys, values, headers and timestamps as they are"
        yield (
            "into",
            f"{job.to}: {counted(self.partitions, 'partition')}, by key as Java's producers; {job.compression}",
        )
        if job.commit_group:
            yield "group", f"{job.commit_group} shows where it stands"
        yield (
            "commits",
            f"a transaction a batch, by {job.name!r}; progress in topic {PROGRESS_TOPIC}, "
            f"checkpoint in {job.checkpoint_directory}",
        )
        when = "until all is in, then it stops" if job.is_once else f"every {job.trigger}, until Ctrl-C"
        yield "runs", f"{when}; on {place_of(job)}; what Spark says is in {words_of(job)}"

    def start(self, spark: "SparkSession") -> "StreamingQuery":
        job = self.job
        frame = spark.readStream.format("odradek").options(**job.source_options()).load()
        if self.values is not None and self.values.shape is not None:
            frame = _decoded(frame, self.values.shape, job)
        if job.sql:
            frame.createOrReplaceTempView(VIEW)
            frame = spark.sql(job.sql)
        when: dict[str, Any] = (
            {"availableNow": True} if job.is_once else {"processingTime": spark_duration(job.trigger)}
        )
        return (
            frame.writeStream.format("odradek")
            .options(**job.sink_options())
            .outputMode("append")
            .trigger(**when)
            .start()
        )

    def noted(self, batch_id: int) -> dict[str, Any] | None:
        """What a batch noted, in the words of a batch of a table."""
        job = self.job
        note = batch_notes.find(job.directory, PROGRESS_TOPIC, job.name, batch_id)
        if note is None:  # nothing of it is in the topic
            letters = 0 if job.format == "raw" else letters_in(job.directory, job.name, batch_id)
            lost = left_out.lost_in(job.directory, job.name, batch_id)
            return _noted(0, letters, lost) if letters or lost else None
        # An older release noted no letters.
        return _noted(note["records"], note.get("letters", 0), note.get(LOST, 0))


def _noted(rows: int, letters: int, lost: int) -> dict[str, Any]:
    return {"records": rows, "letters": letters, "files": 0, "newestMs": -1, LOST: lost}


def _decoded(frame: "DataFrame", shape: Shape, job: TransformJob) -> "DataFrame":
    from pyspark.sql.pandas.types import from_arrow_schema

    as_they_are = () if job.sql else AS_THEY_ARE
    schema = rows_schema(as_they_are) if as_they_are else shape.schema
    decoding = Decoding(shape, os.path.abspath(job.directory), job.name, as_they_are)
    return frame.mapInArrow(decoding, from_arrow_schema(schema))


def planned(job: TransformJob) -> TransformPlan:
    """Asks the cluster: what is wrong with it is a sentence now."""
    job.check()
    with SyncClient(job.bootstrap) as client:
        topics = {name: existing_topic(client, name, "--topic") for name in job.topics}
        to = topic_to_write(client, job.to, "--to")
        letters = job.dead_letters_topic and topic_to_write(
            client, job.dead_letters_topic, "--dead-letters-topic"
        )
        partitions = [TopicPartition(name, p) for name, topic in topics.items() for p in topic.partitions]
        begin = client.begin_offsets(partitions)
        end = client.end_offsets(partitions, read_committed=True)
    values = None
    if job.format != "raw":
        with _as_here():
            values = shaped(Plan(job.of_values, None, 0, 0, None, begin, end, read_committed=True), None)
    return TransformPlan(
        job, begin, end, len(to.partitions), values, len(letters.partitions) if letters else 0
    )
