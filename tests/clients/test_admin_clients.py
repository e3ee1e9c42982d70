"""The administrative clients of confluent-kafka, kafka-python and aiokafka, unmodified, against three processes:
topics, partitions and configuration, from the request to what it changes."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka import admin as confluent

from odradek.client.sync import ANY, SyncClient
from odradek.protocol.messages import alter_client_quotas as aq
from odradek.testing.process_cluster import ProcessCluster
from tests.clients.support import retrying
from tests.support import eventually

pytestmark = pytest.mark.process

SMALL = {"max.message.bytes": "200"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    directory: Path = tmp_path_factory.mktemp("admin")
    with ProcessCluster(directory, brokers=3) as running:
        yield running


def is_too_large(cluster: ProcessCluster, topic: str, size: int = 1_000) -> bool:
    errors: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "message.timeout.ms": 20_000})
    producer.produce(topic, b"x" * size, partition=0, on_delivery=lambda error, _: errors.append(error))
    producer.flush(60)
    (error,) = errors
    return error is not None and error.code() == KafkaError.MSG_SIZE_TOO_LARGE


def is_known_to_all(cluster: ProcessCluster, topic: str) -> bool:
    """The controller's broker knows a topic when its creation is answered, the others a moment later."""
    for broker in cluster.brokers.values():
        with SyncClient(broker.address) as client:
            if topic not in client.cluster([topic]).topics:
                return False
    return True


# ------------------------------------------------------------------------------------------------- confluent


def refused(future: Any) -> tuple[int, str]:
    with pytest.raises(KafkaException) as found:
        future.result(20)
    error = found.value.args[0]
    return error.code(), error.str()


def replicas_of(admin: confluent.AdminClient, topic: str) -> dict[int, list[int]]:
    described = admin.list_topics(topic, timeout=20).topics[topic].partitions
    return {partition: list(metadata.replicas) for partition, metadata in described.items()}


def test_confluent_makes_grows_describes_and_deletes_topics(cluster: ProcessCluster) -> None:
    admin = confluent.AdminClient({"bootstrap.servers": cluster.bootstrap})
    new = confluent.NewTopic("c-orders", num_partitions=2, replication_factor=3, config=SMALL)
    admin.create_topics([new])["c-orders"].result(20)
    assert refused(admin.create_topics([new])["c-orders"]) == (
        KafkaError.TOPIC_ALREADY_EXISTS,
        "Topic 'c-orders' already exists.",
    )
    manual = confluent.NewTopic("c-manual", num_partitions=2, replica_assignment=[[1, 2], [3, 1]])
    admin.create_topics([manual])["c-manual"].result(20)
    # Any broker may be asked, and hears of it a moment after the controller's own.
    retrying(lambda: replicas_of(admin, "c-manual") == {0: [1, 2], 1: [3, 1]}, "assigned as it was said")
    too_many = confluent.NewTopic("c-many", num_partitions=1, replication_factor=4)
    assert refused(admin.create_topics([too_many], validate_only=True)["c-many"]) == (
        KafkaError.INVALID_REPLICATION_FACTOR,
        "Replication factor: 4 larger than available brokers: 3.",
    )
    admin.create_partitions([confluent.NewPartitions("c-orders", 5)])["c-orders"].result(20)
    retrying(lambda: len(replicas_of(admin, "c-orders")) == 5, "five partitions")
    code, sentence = refused(admin.create_partitions([confluent.NewPartitions("c-orders", 5)])["c-orders"])
    assert (code, sentence) == (KafkaError.INVALID_PARTITIONS, "Topic already has 5 partitions.")
    admin.delete_topics(["c-orders"])["c-orders"].result(20)
    code, _ = refused(admin.delete_topics(["c-orders"])["c-orders"])
    assert code == KafkaError.UNKNOWN_TOPIC_OR_PART
    view = admin.describe_cluster().result(20)
    assert sorted(node.id for node in view.nodes) == [1, 2, 3]


def test_confluent_changes_configuration_without_a_restart(cluster: ProcessCluster) -> None:
    admin = confluent.AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([confluent.NewTopic("c-sizes", 1, 3)])["c-sizes"].result(20)
    retrying(lambda: is_known_to_all(cluster, "c-sizes"), "every broker has heard of it")
    topic = confluent.ConfigResource(confluent.ResourceType.TOPIC, "c-sizes")
    configs = admin.describe_configs([topic])[topic].result(20)
    assert len(configs) == 36
    assert configs["max.message.bytes"].value == "1048588"
    assert configs["max.message.bytes"].is_default

    def incrementally(name: str, operation: Any, value: str | None) -> None:
        change = confluent.ConfigResource(
            confluent.ResourceType.TOPIC,
            "c-sizes",
            incremental_configs=[confluent.ConfigEntry(name, value, incremental_operation=operation)],
        )
        admin.incremental_alter_configs([change])[change].result(20)

    Operation = confluent.AlterConfigOpType
    incrementally("max.message.bytes", Operation.SET, "200")
    retrying(lambda: is_too_large(cluster, "c-sizes"), "the limit acts")
    incrementally("cleanup.policy", Operation.APPEND, "compact")
    configs = admin.describe_configs([topic])[topic].result(20)
    assert configs["cleanup.policy"].value == "delete,compact"
    assert configs["max.message.bytes"].source == confluent.ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    assert [s for s in configs["max.message.bytes"].synonyms] == ["max.message.bytes", "message.max.bytes"]
    incrementally("max.message.bytes", Operation.DELETE, None)
    incrementally("cleanup.policy", Operation.SUBTRACT, "compact")
    retrying(lambda: not is_too_large(cluster, "c-sizes"), "the limit is gone")
    wrong = confluent.ConfigResource(
        confluent.ResourceType.TOPIC,
        "c-sizes",
        incremental_configs=[
            confluent.ConfigEntry("retention.ms", "soon", incremental_operation=Operation.SET)
        ],
    )
    code, sentence = refused(admin.incremental_alter_configs([wrong])[wrong])
    assert code == KafkaError.INVALID_CONFIG
    assert "Invalid value soon for configuration retention.ms: Not a number of type LONG" in sentence


def test_confluent_is_told_that_no_authorizer_is_configured(cluster: ProcessCluster) -> None:
    admin = confluent.AdminClient({"bootstrap.servers": cluster.bootstrap})
    whichever = confluent.AclBindingFilter(
        confluent.ResourceType.ANY,
        None,
        confluent.ResourcePatternType.ANY,
        None,
        None,
        confluent.AclOperation.ANY,
        confluent.AclPermissionType.ANY,
    )
    assert admin.describe_acls(whichever).result(20) == [], "librdkafka reads the entries, and not the error"
    code, sentence = refused(admin.delete_acls([whichever])[whichever])
    assert (code, sentence) == (KafkaError.SECURITY_DISABLED, "No Authorizer is configured.")


# ----------------------------------------------------------------------------------------------- kafka-python


def test_kafka_python_changes_settings_of_brokers_that_run(cluster: ProcessCluster) -> None:
    from kafka.admin import AlterConfigOp, ConfigResource, ConfigResourceType, KafkaAdminClient

    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap.split(","))
    try:
        admin.create_topics(
            {"k-sizes": {"num_partitions": 3, "replication_factor": 3}}, wait_for_metadata=True
        )

        def limit(value: str | None) -> None:
            change = (AlterConfigOp.DELETE if value is None else AlterConfigOp.SET, value)
            resources = [
                ConfigResource(ConfigResourceType.BROKER, str(broker), configs={"message.max.bytes": change})
                for broker in cluster.brokers
            ]
            answer = admin.alter_configs(resources)
            assert "OK" in str(answer) and "Error" not in str(answer), answer

        limit("200")
        try:
            retrying(lambda: is_too_large(cluster, "k-sizes"), "the limit acts")
            two = ConfigResource(ConfigResourceType.BROKER, "2")

            def dynamic() -> Any:
                found = admin.describe_configs([two], include_synonyms=True, config_filter="dynamic")
                return next(iter(next(iter(found.values())).values())).get("message.max.bytes")

            entry = eventually(dynamic, 60, "broker 2 has heard of it too")
            assert (entry["value"], entry["read_only"]) == ("200", False)
            assert [synonym["value"] for synonym in entry["synonyms"]] == ["200", "1048588"]
        finally:
            limit(None)
        retrying(lambda: not is_too_large(cluster, "k-sizes"), "the limit is gone")
        admin.create_partitions({"k-sizes": 4})
        features = {"supported": (0, 2), "finalized": (2, 2), "finalized_epoch": 0}
        assert admin.describe_features() == {"transaction.version": features}
        assert "not supported" in admin.update_features({"no.such": 1})["no.such"]
        admin.delete_topics(["k-sizes"])
    finally:
        admin.close()


# --------------------------------------------------------------------------------------------------- aiokafka


def test_aiokafka_replaces_the_configuration_of_a_topic(cluster: ProcessCluster) -> None:
    from aiokafka.admin import AIOKafkaAdminClient, NewTopic
    from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
    from aiokafka.admin.new_partitions import NewPartitions

    async def main() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap)
        await admin.start()
        try:
            made = await admin.create_topics([NewTopic("a-sizes", 2, 3, topic_configs=SMALL)])
            assert [row[1] for row in made.topic_errors] == [0]
            await asyncio.to_thread(retrying, lambda: is_known_to_all(cluster, "a-sizes"), "all have heard")
            grown = await admin.create_partitions({"a-sizes": NewPartitions(3)})
            assert [row[1] for row in grown.topic_errors] == [0]
            change = ConfigResource(ConfigResourceType.TOPIC, "a-sizes", configs={"retention.ms": "1000"})
            (answer,) = await admin.alter_configs([change])
            assert answer.resources[0][0] == 0
            topic = ConfigResource(ConfigResourceType.TOPIC, "a-sizes")
            (answer,) = await admin.describe_configs([topic], include_synonyms=True)
            values = {row[0]: row[1] for row in answer.resources[0][4]}
            assert values["retention.ms"] == "1000"
            assert values["max.message.bytes"] == "1048588", "what is not named goes back"
            gone = await admin.delete_topics(["a-sizes"])
            assert [row[1] for row in gone.topic_error_codes] == [0]
            assert len((await admin.describe_cluster())["brokers"]) == 3
        finally:
            await admin.close()

    asyncio.run(main())


# ------------------------------------------------------------------------------------------------- a quota


def test_a_quota_on_mutations_holds_up_the_client_it_is_for(cluster: ProcessCluster) -> None:
    """Known in every process: whichever is controller refuses, and the client comes back when it may."""
    from kafka.admin import KafkaAdminClient
    from kafka.errors import NodeNotReadyError

    def quota(client: str, rate: float | None) -> None:
        operation = aq.OpData(key="controller_mutation_rate", value=rate or 0.0, remove=rate is None)
        entity = [aq.EntityData(entity_type="client-id", entity_name=client)]
        request = aq.AlterClientQuotasRequest(
            entries=[aq.AlterClientQuotasRequestEntryData(entity=entity, ops=[operation])]
        )
        with SyncClient(cluster.bootstrap) as asker:
            (row,) = asker.call(ANY, request).entries
            assert row.error_code == 0, row.error_message

    servers = cluster.bootstrap.split(",")
    greedy = KafkaAdminClient(bootstrap_servers=servers, client_id="greedy")
    modest = KafkaAdminClient(bootstrap_servers=servers, client_id="modest")
    made = 0

    def code_of(client: Any, name: str) -> int:
        answer = client.create_topics(
            {name: {"num_partitions": 12, "replication_factor": 1}}, raise_errors=False
        )
        return int(answer["topics"][0]["error_code"])

    def is_refused() -> bool:
        nonlocal made
        made += 1
        return code_of(greedy, f"q-{made}") == KafkaError.THROTTLING_QUOTA_EXCEEDED

    def is_let_through() -> bool:
        try:
            return code_of(greedy, "q-later") == 0
        except NodeNotReadyError as error:  # what it says while it waits as it was told
            assert "throttle" in str(error)
            return False

    quota("greedy", 1.0)
    try:
        retrying(is_refused, "the quota is noticed and used up")
        refused_name = f"q-{made}"
        assert code_of(modest, refused_name) == 0, "it was not made, and others are not held"
        quota("greedy", None)
        retrying(is_let_through, "the client is let through again")
    finally:
        greedy.close()
        modest.close()
