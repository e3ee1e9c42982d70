"""Topics into a topic, with SQL between them or none: `odradek spark transform`.

Read committed, written exactly once (`odradek.spark.topic_commit`). As with `jobs.tables`, `planned` looks without Spark.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from odradek.client.sync import SyncClient
from odradek.model.counted import counted
from odradek.model.errors import ConfigurationError
from odradek.model.ids import TopicPartition
from odradek.spark import batch_notes
from odradek.spark.jobs.tables import check_running, place_of, spark_duration, words_of
from odradek.spark.options import parse
from odradek.spark.subscription import existing_topic
from odradek.spark.topic_options import CODECS, PROGRESS_TOPIC

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

# What SQL finds the records of the topics as.
VIEW = "records"
AS_THEY_ARE = ("key", "value", "headers", "timestamp")


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
        if not self.topics or not all(self.topics):
            raise ConfigurationError("--topic is missing: one topic, or several separated by commas")
        check_running(self)
        if self.to in self.topics:
            raise ConfigurationError(
                f"--to {self.to}: the job reads that topic, and would never come to its end"
            )
        if self.compression not in CODECS:
            raise ConfigurationError(f"--compression {self.compression}: there are {', '.join(CODECS)}")
        parse(self.source_options())
        return self

    def source_options(self) -> dict[str, str]:
        options = {
            "kafka.bootstrap.servers": self.bootstrap,
            "kafka.isolation.level": "read_committed",
            "subscribe": ",".join(self.topics),
            "startingOffsets": self.starting_offsets,
            "failOnDataLoss": str(self.fails_on_data_loss).lower(),
            "includeHeaders": "true",
        }
        if self.max_offsets_per_trigger is not None:
            options["maxOffsetsPerTrigger"] = str(self.max_offsets_per_trigger)
        if not self.sql:
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
        }


class TransformPlan(NamedTuple):
    """What will happen, known before Spark starts."""

    job: TransformJob
    begin: dict[TopicPartition, int]
    end: dict[TopicPartition, int]
    partitions: int  # of the topic that is written

    def lines(self) -> Iterator[tuple[str, str]]:
        job = self.job
        held = sum(self.end[p] - self.begin[p] for p in self.end)
        is_new = not Path(job.checkpoint_directory).exists()
        where = f"begins at {job.starting_offsets}" if is_new else "goes on where its checkpoint stands"
        yield (
            "topics",
            f"{', '.join(job.topics)}: {counted(len(self.end), 'partition')}, {held:,} offsets; {where}",
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
        note = batch_notes.find(self.job.directory, PROGRESS_TOPIC, self.job.name, batch_id)
        if note is None:
            return None
        return {"records": note["records"], "letters": 0, "files": 0, "newestMs": -1, "parts": []}


def planned(job: TransformJob) -> TransformPlan:
    """Asks the cluster: what is wrong with it is a sentence now."""
    job.check()
    with SyncClient(job.bootstrap) as client:
        topics = {name: existing_topic(client, name, "--topic") for name in job.topics}
        to = existing_topic(client, job.to, "--to")
        partitions = [TopicPartition(name, p) for name, topic in topics.items() for p in topic.partitions]
        begin, end = client.begin_offsets(partitions), client.end_offsets(partitions)
    return TransformPlan(job, begin, end, len(to.partitions))
