"""docs/spark.md says what the code knows: every option, and job files that are read as printed."""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet

from odradek.client.sync import SyncClient
from odradek.model.ids import TopicPartition
from odradek.records.builder import NewRecord, build_batch
from odradek.spark import functions, options, topic_options
from odradek.spark.job_file import jobs_of
from odradek.spark.jobs.tables import TablesJob, planned
from odradek.testing.process_cluster import ProcessCluster
from tests.spark.conftest import create_topic, fill
from tests.spark.formats.registry_server import framed, registry
from tests.spark.formats.test_avro import SIMPLE, written
from tests.spark.formats.test_protobuf import message, schema

PAGE = Path("docs/spark.md").read_text(encoding="utf-8")


def test_every_option_of_the_source_stands_in_the_table_and_no_other() -> None:
    table = PAGE.split("## Options of the source")[1].split("\n\nThe columns are")[0]
    rows = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    of_kafka = set(re.findall(r"`(kafka\.[\w.]+)`", table.split("Others are named in a warning")[0]))

    assert set(re.findall(r"`([\w.]+)`", " ".join(rows))) == {*options._USED, *options._ACCEPTED}
    assert of_kafka == set(options._KAFKA_USED)


# As Spark's own page on its Kafka connector has them.
OF_CONNECTOR = (
    *("assign", "subscribe", "subscribePattern", "kafka.bootstrap.servers"),
    *(
        "startingTimestamp",
        "startingOffsetsByTimestamp",
        "startingOffsets",
        "startingOffsetsByTimestampStrategy",
    ),
    *("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets"),
    *(
        "failOnDataLoss",
        "kafkaConsumer.pollTimeoutMs",
        "fetchOffset.numRetries",
        "fetchOffset.retryIntervalMs",
    ),
    *(
        "maxOffsetsPerTrigger",
        "minOffsetsPerTrigger",
        "maxTriggerDelay",
        "minPartitions",
        "maxRecordsPerPartition",
    ),
    *("groupIdPrefix", "kafka.group.id", "includeHeaders"),
    *(
        "spark.kafka.consumer.cache.",
        "spark.kafka.consumer.fetchedData.cache.",
        "spark.kafka.producer.cache.",
    ),
    *("spark.kafka.clusters.", "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"),
)


def test_nothing_that_sparks_connector_can_be_told_is_passed_over() -> None:
    section = PAGE.split("## Options of the source")[1]

    assert [name for name in OF_CONNECTOR if f"`{name}" not in section] == []
    for name in OF_CONNECTOR:
        given = {"kafka.bootstrap.servers": "a:1", "subscribe": "t"}
        if name.startswith("kafka.group"):
            with pytest.warns(UserWarning, match=r"kafka\.group\.id has no meaning"):
                options.parse({**given, name: "g"})
        elif not name.startswith(("kafka.", "spark.")):
            assert name in (*options._USED, *options._ACCEPTED)


def test_every_option_of_the_sink_into_topics_stands_in_its_table_and_no_other() -> None:
    table = PAGE.split("| option of the sink |")[1].split("\n\n")[0]
    rows = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]

    known = {*topic_options._USED, *topic_options._KAFKA_USED} - {"kafka.security.protocol"}
    assert set(re.findall(r"`([\w.]+)`", " ".join(rows))) == known


def test_the_job_file_is_read_as_printed(tmp_path: Path) -> None:
    (text,) = re.findall(r"```toml\n(.*?)```", PAGE, flags=re.DOTALL)
    file = tmp_path / "job.toml"
    file.write_text(text)

    assert [(job.topics, job.format, job.trigger) for job in jobs_of(file)] == [
        (("orders",), "json", "10s"),
        (("clicks",), "raw", "1m"),
    ]


RECIPES = re.findall(
    r"^### (\d+)\. (.*?)$.*?```python\n(.*?)```", PAGE.split("## Recipes")[1], flags=re.DOTALL | re.MULTILINE
)


@pytest.fixture(scope="module")
def kitchen(
    spark: Any, cluster: ProcessCluster, client: SyncClient, tmp_path_factory: pytest.TempPathFactory
) -> Any:
    """What the recipes take for granted: topics, a registry, files; and what becomes of a recipe's text here."""
    data = tmp_path_factory.mktemp("data")
    clicks = [(b"a", b"x"), (b"a", b"y"), (b"b", b"x")]
    topics = {
        "orders": [(b"a", b'{"id": 1, "name": "ink"}'), (b"b", b'{"id": 2, "name": "pen"}'), (None, b"none")],
        "avro-orders": [(None, framed(7, written(SIMPLE, {"id": n, "n": ""}))) for n in (1, 2)],
        "protobuf-orders": [(None, message()(id=7).SerializeToString())],
        "clicks": clicks,
        "clicks-copy": clicks,
    }
    for topic, records in topics.items():
        create_topic(client, topic)
        batch = [NewRecord(key, value, 1_700_000_000_000 + n) for n, (key, value) in enumerate(records)]
        client.produce(TopicPartition(topic, 0), build_batch(batch))
    (data / "order.desc").write_bytes(FileDescriptorSet(file=[schema()]).SerializeToString())
    for kind, text in (("offsets", json.dumps({"clicks": {"0": 2}})), ("commits", "")):
        (data / "connector-checkpoint" / kind).mkdir(parents=True)
        (data / "connector-checkpoint" / kind / "0").write_text(f"v1\n{{}}\n{text}")
    with registry() as server:
        server.has(7, SIMPLE, subject="avro-orders-value")

        def prepared(recipe: str) -> str:
            here = recipe.replace("127.0.0.1:9092", cluster.bootstrap).replace("/data", str(data))
            return here.replace("http://127.0.0.1:8081", server.url)

        begin = re.findall(r"```python\n(.*?)```", PAGE.split("## Recipes")[1], flags=re.DOTALL)[0]
        names: dict[str, Any] = {"local_session": lambda: spark}
        exec(prepared(begin.replace("from odradek.spark.session import local_session\n", "")), names)
        yield lambda recipe: exec(prepared(recipe), dict(names))


def test_what_a_job_would_do_is_explained_as_printed(
    cluster: ProcessCluster,
    client: SyncClient,
    make_topic: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """For the five rows and the one dead letter of the page."""
    topic = make_topic(partitions=2)
    value = b'{"id":1,"name":"ink","price":1.5}'
    fill(client, topic, 0, [*[value] * 4, b"not json", value])
    monkeypatch.chdir(tmp_path)

    plan = planned(TablesJob(cluster.bootstrap, (topic,), f"./{topic}", format="json"))

    shown = PAGE.split("--format json --explain\n")[1].split("\n$ ")[0]
    said = "\n".join(f"{name:8} {text}" for name, text in plan.lines())
    assert said == shown.replace("/home/me", os.getcwd()).replace("orders", topic)


def test_there_are_ten_recipes_and_more() -> None:
    assert [int(number) for number, _, _ in RECIPES] == [*range(1, len(RECIPES) + 1)]
    assert len(RECIPES) >= 10 and all("assert" in text for _, _, text in RECIPES)


@pytest.mark.spark
@pytest.mark.parametrize("recipe", [text for _, _, text in RECIPES], ids=[name for _, name, _ in RECIPES])
def test_a_recipe_runs_as_it_is_printed(kitchen: Any, recipe: str) -> None:
    kitchen(recipe)


def test_every_function_stands_in_the_table_and_no_other() -> None:
    table = PAGE.split("## Functions")[1].split("## Recipes")[0]
    told = {
        name
        for row in table.splitlines()
        if row.startswith("| `")
        for name in re.findall(r"`(\w+)\(", row.split("|")[1])
    }

    assert told == set(functions.__all__)
