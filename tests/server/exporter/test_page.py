"""What brokers tell Prometheus, read by its own parser, beside what really happened."""

import platform
import socket
import struct
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from prometheus_client.parser import text_string_to_metric_families

from odradek import __version__
from odradek.model.cluster import ReplicaAssignment
from odradek.model.error_codes import ErrorCode
from odradek.model.facts import DeleteTopicsRequested
from odradek.model.ids import TopicPartition
from odradek.server.exporter import controller as of_controller
from odradek.server.exporter.page import families
from odradek.server.exporter.partitions import row_of
from odradek.server.shutdown_refusal import ShutdownRefused
from odradek.testing.running_cluster import RunningCluster, running_cluster
from tests.broker.world import World, batch
from tests.controller.world import three

TOPIC = "orders"
SETTINGS = {
    "odradek.metrics.listener": "http://localhost:0",
    "offsets.topic.num.partitions": "3",
    "log.retention.check.interval.ms": "60000",
}
# What Strimzi's dashboards and alerts of Kafka ask for (its version of August 2026), but for the JVM's, the container's and
# KRaft's own.
STRIMZI = {
    "kafka_cluster_partition_atminisr",
    "kafka_cluster_partition_underminisr",
    "kafka_controller_controllerstats_uncleanleaderelections_total",
    "kafka_controller_kafkacontroller_activecontrollercount",
    "kafka_controller_kafkacontroller_offlinepartitionscount",
    "kafka_log_log_size",
    "kafka_log_logmanager_offlinelogdirectorycount",
    "kafka_network_socketserver_networkprocessoravgidle_percent",
    "kafka_server_brokertopicmetrics_bytesin_total",
    "kafka_server_brokertopicmetrics_bytesout_total",
    "kafka_server_brokertopicmetrics_failedfetchrequests_total",
    "kafka_server_brokertopicmetrics_failedproducerequests_total",
    "kafka_server_brokertopicmetrics_messagesin_total",
    "kafka_server_brokertopicmetrics_totalfetchrequests_total",
    "kafka_server_brokertopicmetrics_totalproducerequests_total",
    "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
    "kafka_server_replicamanager_leadercount",
    "kafka_server_replicamanager_partitioncount",
    "kafka_server_replicamanager_underminisrpartitioncount",
    "kafka_server_replicamanager_underreplicatedpartitions",
    "kafka_server_socket_server_metrics_connection_count",
}
# And those of kafka_exporter, but for the lag, which docs/metrics.md says how to reckon.
KAFKA_EXPORTER = {
    "kafka_consumergroup_current_offset",
    "kafka_topic_partition_current_offset",
    "kafka_topic_partition_in_sync_replica",
    "kafka_topic_partition_leader_is_preferred",
    "kafka_topic_partition_oldest_offset",
    "kafka_topic_partition_replicas",
    "kafka_topic_partition_under_replicated_partition",
    "kafka_topic_partitions",
}

BROKER_STATE = "kafka_server_kafkaserver_brokerstate"

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


@pytest.fixture(scope="module")
def shared() -> Iterator[RunningCluster]:
    with running_cluster(brokers=3, settings=SETTINGS) as cluster:
        cluster.create_topic(TOPIC, partitions=2, replication_factor=3, configs={"min.insync.replicas": "2"})
        yield cluster


@pytest.fixture
def cluster(shared: RunningCluster) -> Iterator[RunningCluster]:
    yield shared
    shared.wait_until(lambda: len(shared.isr(TOPIC)) == 3, "the ISR is full for the next test")


def text_of(cluster: RunningCluster, broker: int) -> str:
    listener = cluster.cluster.runtimes[broker].metrics_listener
    assert listener is not None and listener.address is not None
    with urllib.request.urlopen(f"http://127.0.0.1:{listener.address.port}/metrics", timeout=20) as answer:
        return str(answer.read(), "utf-8")


def read(cluster: RunningCluster, broker: int) -> Samples:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text_of(cluster, broker))
        for sample in family.samples
    }


def of(samples: Samples, name: str, **labels: object) -> float:
    return samples[name, tuple(sorted((label, str(value)) for label, value in labels.items()))]


def everywhere(cluster: RunningCluster) -> Samples:
    """The sum over all brokers."""
    total: Counter[Any] = Counter()
    for broker in cluster.cluster.runtimes:
        total.update(read(cluster, broker))
    return dict(total)


def produce(cluster: RunningCluster, count: int, topic: str = TOPIC, partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for _ in range(count):
        producer.produce(topic, b"x" * 100, partition=partition)
    assert producer.flush(30) == 0


def test_what_producers_and_consumers_did_is_counted_by_topic(cluster: RunningCluster) -> None:
    topic = "read-and-written"
    cluster.create_topic(topic, partitions=1, replication_factor=3)
    before = everywhere(cluster)
    produce(cluster, 50, topic)
    reader = Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": 'the "readers"', "auto.offset.reset": "earliest"}
    )
    reader.subscribe([topic])
    seen = 0
    while seen < 50:
        seen += len(reader.consume(50 - seen, timeout=20))
    reader.commit(asynchronous=False)
    after = everywhere(cluster)

    def grown(name: str) -> float:
        key = f"kafka_server_brokertopicmetrics_{name}_total"
        return of(after, key, topic=topic) - of(before, key, topic=topic)

    assert grown("messagesin") == 50
    size = grown("bytesin")
    assert 5_000 < size < 10_000
    assert grown("bytesout") == size
    assert grown("replicationbytesout") == grown("replicationbytesin") == 2 * size
    assert 1 <= grown("totalproducerequests") <= 50
    assert grown("totalfetchrequests") >= 1
    assert grown("failedproducerequests") == grown("failedfetchrequests") == 0
    name = "kafka_server_brokertopicmetrics_messagesin_total"
    assert of(after, name) >= of(after, name, topic=topic)
    assert (
        of(
            after,
            "kafka_consumergroup_current_offset",
            consumergroup='the "readers"',
            topic=topic,
            partition=0,
        )
        == 50
    )
    assert of(after, "kafka_topic_partition_current_offset", topic=topic, partition=0) == 50
    assert of(after, "kafka_consumergroup_members", consumergroup='the "readers"') == 1
    groups = "kafka_coordinator_group_groupmetadatamanager_num"
    assert (of(after, f"{groups}groups"), of(after, f"{groups}groupsstable")) == (1, 1)
    assert of(after, f"{groups}offsets") >= 1
    assert (
        of(after, "odradek_group_members_memory_bytes")
        > of(before, "odradek_group_members_memory_bytes")
        >= 0
    )
    assert of(after, "odradek_group_members_refused_total") == 0
    assert of(after, "odradek_unsent_answers_bytes") >= 0
    assert of(after, "odradek_connections_unread_closed_total") == 0
    assert of(after, "odradek_unhandled_requests_bytes") >= 0
    assert of(after, "odradek_connections_unfinished_closed_total") == 0
    requests = "kafka_network_requestmetrics_requests_total"
    assert of(after, requests, request="Produce") > of(before, requests, request="Produce")
    reader.close()
    assert of(everywhere(cluster), f"{groups}groupsempty") == 1


def test_a_topic_that_goes_takes_its_series_along_and_the_sums_stay(cluster: RunningCluster) -> None:
    name = "kafka_server_brokertopicmetrics_messagesin_total"
    cluster.create_topic("brief", replication_factor=3)
    produce(cluster, 7, "brief")
    before = everywhere(cluster)
    assert of(before, name, topic="brief") == 7
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.delete_topics(["brief"])["brief"].result(30)
    cluster.wait_until(
        lambda: all(
            TopicPartition("brief", 0) not in runtime.broker.replicas.partitions
            for runtime in cluster.cluster.runtimes.values()
        ),
        "its replicas are gone",
    )
    after = everywhere(cluster)
    assert (name, (("topic", "brief"),)) not in after
    assert of(after, name) == of(before, name)


def test_each_partition_is_told_of_by_its_leader_alone_and_the_cluster_by_its_controller(
    cluster: RunningCluster,
) -> None:
    produce(cluster, 1, partition=1)
    total = everywhere(cluster)
    for partition in range(2):
        of_one = {"topic": TOPIC, "partition": partition}
        assert of(total, "kafka_topic_partition_leader", **of_one) == cluster.leader(TOPIC, partition)
        assert of(total, "kafka_topic_partition_replicas", **of_one) == 3
        assert of(total, "kafka_topic_partition_in_sync_replica", **of_one) == 3
        assert of(total, "kafka_topic_partition_under_replicated_partition", **of_one) == 0
        assert of(total, "kafka_topic_partition_leader_is_preferred", **of_one) == 1
        assert of(total, "kafka_topic_partition_oldest_offset", **of_one) == 0
    assert of(total, "kafka_topic_partitions", topic=TOPIC) == 2
    assert of(total, "kafka_brokers") == 3
    assert of(total, "kafka_controller_kafkacontroller_activecontrollercount") == 1
    assert of(total, "kafka_controller_kafkacontroller_offlinepartitionscount") == 0
    partitions = of(total, "kafka_controller_kafkacontroller_globalpartitioncount")
    assert of(total, "kafka_server_replicamanager_leadercount") == partitions
    assert of(total, "kafka_server_replicamanager_partitioncount") == sum(
        len(runtime.broker.replicas.partitions) for runtime in cluster.cluster.runtimes.values()
    )
    assert of(total, "kafka_server_kafkaserver_brokerstate") == 9  # 3, running, of each


def test_an_isr_that_shrinks_and_grows_is_told(cluster: RunningCluster) -> None:
    leader = cluster.leader(TOPIC)
    first, second = (broker for broker in cluster.cluster.ids if broker != leader)
    replicas = "kafka_server_replicamanager_"
    before = read(cluster, leader)
    with cluster.shrink_isr(TOPIC, without=first):
        short = read(cluster, leader)
        assert of(short, f"{replicas}underreplicatedpartitions") == 1
        assert of(short, f"{replicas}atminisrpartitioncount") == 1
        assert of(short, f"{replicas}underminisrpartitioncount") == 0
        assert of(short, "kafka_cluster_partition_underreplicated", topic=TOPIC, partition=0) == 1
        assert of(short, f"{replicas}isrshrinks_total") == of(before, f"{replicas}isrshrinks_total") + 1
        with cluster.shrink_isr(TOPIC, without=second):
            alone = read(cluster, leader)
            assert of(alone, f"{replicas}underminisrpartitioncount") == 1
            assert of(alone, f"{replicas}atminisrpartitioncount") == 0
            assert of(alone, "kafka_cluster_partition_underminisr", topic=TOPIC, partition=0) == 1
    cluster.wait_until(lambda: len(cluster.isr(TOPIC)) == 3, "both are back")
    after = read(cluster, leader)
    assert of(after, f"{replicas}isrexpands_total") >= of(before, f"{replicas}isrexpands_total") + 1
    assert of(after, f"{replicas}underreplicatedpartitions") == 0


def test_a_partition_without_a_leader_and_an_unclean_election_are_told_by_the_controller() -> None:
    with running_cluster(brokers=3, settings=SETTINGS) as cluster:
        controller = cluster.controller
        assert controller is not None
        cluster.create_topic(
            "alone", replication_factor=2, configs={"unclean.leader.election.enable": "true"}
        )
        leader = cluster.leader("alone")
        if leader == controller:
            leader = next(broker for broker in cluster.isr("alone") if broker != controller)
            cluster.move_leader("alone", to=leader)
        other = next(broker for broker in cluster.isr("alone") if broker != leader)
        if other == controller:
            cluster.kill(controller)
            cluster.start(controller)
            cluster.wait_until(lambda: cluster.controller not in (None, controller), "another is controller")
        cluster.wait_until(lambda: len(cluster.isr("alone")) == 2, "both are in sync")
        name = "kafka_controller_controllerstats_uncleanleaderelections_total"
        assert of(everywhere(cluster), name) == 0
        with cluster.shrink_isr("alone", without=other):
            cluster.kill(leader)
            cluster.wait_until(lambda: cluster.leader("alone") == other, "the one outside the ISR leads")
        assert of(everywhere(cluster), name) == 1


def test_who_follows_and_is_behind_says_by_how_much(cluster: RunningCluster) -> None:
    leader = cluster.leader(TOPIC)
    follower = next(broker for broker in cluster.cluster.ids if broker != leader)
    replicas = cluster.cluster.runtimes[follower].broker.replicas
    followed = replicas.fetchers[replicas.partitions[TopicPartition(TOPIC, 0)].leader].partitions[
        TopicPartition(TOPIC, 0)
    ]
    seen = followed.leader_high_watermark_seen
    followed.leader_high_watermark_seen = followed.partition.log.log_end_offset + 12
    try:
        assert (
            of(read(cluster, follower), "kafka_server_replicafetchermanager_maxlag", clientId="Replica") == 12
        )
    finally:
        followed.leader_high_watermark_seen = seen
    assert of(read(cluster, leader), "kafka_server_replicafetchermanager_maxlag", clientId="Replica") >= 0


def test_every_family_is_there_once_and_the_dashboards_find_theirs(cluster: RunningCluster) -> None:
    produce(cluster, 1)
    controller = cluster.controller
    assert controller is not None
    lines = text_of(cluster, controller).splitlines()
    heads = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert sorted(heads) == sorted(family.name for family in families())
    assert len(set(heads)) == len(heads)
    assert set(heads) >= STRIMZI | KAFKA_EXPORTER


def test_each_broker_tells_its_release_and_its_python(cluster: RunningCluster) -> None:
    for broker in cluster.cluster.ids:
        told = read(cluster, broker)
        assert of(told, "odradek_build_info", version=__version__, python=platform.python_version()) == 1


def test_connections_are_counted_while_they_are_open(cluster: RunningCluster) -> None:
    broker = cluster.cluster.ids[0]
    host, _, port = cluster.cluster.address(broker).rpartition(":")

    def now() -> float:
        return of(
            read(cluster, broker), "kafka_server_socket_server_metrics_connection_count", listener="PLAINTEXT"
        )

    before = now()
    held = [socket.create_connection((host, int(port))) for _ in range(5)]
    cluster.wait_until(lambda: now() >= before + 5, "they are counted")
    for one in held:
        one.close()
    cluster.wait_until(lambda: now() < before + 5, "and are not any more")


def test_requests_of_keys_that_no_api_has_are_one_sample(cluster: RunningCluster) -> None:
    """Between those of two APIs as behind them all: a page with one sample twice is refused by whoever reads it strictly."""
    broker = cluster.cluster.ids[0]
    host, _, port = cluster.cluster.address(broker).rpartition(":")
    name = "kafka_network_requestmetrics_requests_total"
    before = read(cluster, broker).get((name, (("request", "other"),)), 0)
    for key in (38, 55, 30_000):
        with socket.create_connection((host, int(port)), timeout=20) as one:
            one.sendall(struct.pack(">ihhih", 10, key, 0, 1, -1))
            assert one.recv(1) == b"", "an API that there is not"

    others = [
        line
        for line in text_of(cluster, broker).splitlines()
        if line.startswith(f'{name}{{request="other"}}')
    ]
    assert [float(line.split()[1]) - before for line in others] == [3]


def test_a_broker_that_leaves_in_order_says_so_and_one_that_stays_is_running() -> None:
    refuse = {
        "odradek.controlled.shutdown.refuse": "offline",
        "controlled.shutdown.retry.backoff.ms": "1",
        **SETTINGS,
    }
    with running_cluster(brokers=2, settings=refuse) as cluster:
        cluster.create_topic("alone")
        leader = cluster.leader("alone")
        runtime = cluster.cluster.runtimes[leader]
        seen: list[float] = []
        give_up = runtime._leave_in_order

        async def leave() -> None:
            listener = runtime.metrics_listener
            assert listener is not None and listener.page is not None
            lines = "".join(listener.page()).splitlines()
            seen.extend(float(line.split()[1]) for line in lines if line.startswith(f"{BROKER_STATE} "))
            await give_up()

        runtime._leave_in_order = leave  # type: ignore[method-assign]
        with pytest.raises(ShutdownRefused):
            cluster.call(runtime.stop())
        assert seen == [6]
        assert of(read(cluster, leader), BROKER_STATE) == 3


def test_what_a_leader_refuses_is_counted_and_only_some_of_it_as_failed(tmp_path: Path) -> None:
    world = World(tmp_path, brokers=(1,))
    world.lead(1, isr=(1,), replicas=(1, 2), is_new=True)
    broker = world[1].broker
    broker.replicas.partitions[TopicPartition("t", 0)].set_min_insync_replicas(2, world.now_ms)
    refused = world.produced(world.produce(1, b"one", acks=-1))
    assert refused[0] is ErrorCode.NOT_ENOUGH_REPLICAS
    traffic = broker.replicas.traffic["t"]
    assert (traffic.produce_requests, traffic.failed_produce_requests, traffic.messages_in) == (1, 1, 0)
    broken = bytearray(batch(b"one"))
    broken[-1] ^= 1
    assert world.produced(world.produce(1, acks=1, records=bytes(broken)))[0] is ErrorCode.CORRUPT_MESSAGE
    assert world.produced(world.produce(1, b"one", b"two", acks=1))[0] is ErrorCode.NONE
    assert (traffic.produce_requests, traffic.failed_produce_requests, traffic.messages_in) == (3, 1, 2)


def test_a_replica_that_is_being_added_is_not_missing_yet(tmp_path: Path) -> None:
    world = World(tmp_path, brokers=(1, 2))
    world.lead(1, isr=(1, 2), replicas=(1, 2, 3), is_new=True)
    name = TopicPartition("t", 0)
    broker = world[1].broker
    partition = broker.replicas.partitions[name]
    row = row_of(broker, name, partition)
    assert (row.is_under_replicated, row.is_moving) == (True, False)
    partition.assignment = ReplicaAssignment(replicas=(1, 2, 3), adding_replicas=(3,))
    row = row_of(broker, name, partition)
    assert (row.is_under_replicated, row.is_moving, row.in_sync) == (False, True, 2)


def test_a_topic_that_is_being_deleted_wants_no_preferred_leader_any_more() -> None:
    """As in Apache: its deletion may wait for weeks for a broker that is dead, and nothing can be done about its leaders."""
    world = three("t", [1, 3])
    world.create("going", [2, 1])
    world.kill(2)

    def imbalanced() -> float:
        seen: Any = SimpleNamespace(controller=SimpleNamespace(core=world.core))
        families = text_string_to_metric_families("".join(of_controller.collect(seen)))
        wanted = "kafka_controller_kafkacontroller_preferredreplicaimbalancecount"
        (found,) = [family.samples[0].value for family in families if family.name == wanted]
        return float(found)

    assert imbalanced() == 1
    world.settle(DeleteTopicsRequested(("going",)))
    assert imbalanced() == 0


def test_a_topic_that_is_made_by_a_thread_meanwhile_cuts_off_no_page() -> None:
    """A large step of the controller is one of a thread, and may begin between two pieces of the page."""
    world = three("t", [1, 3])
    world.create("u", [1, 3])
    topics = world.context.topics

    class Known:
        """Between two bytecodes of whoever reads this, the thread goes on."""

        @property
        def partitions(self) -> tuple[int, ...]:
            topics[f"new-{len(topics)}"] = known
            return (0,)

    known = topics["t"]
    topics["t"] = Known()  # type: ignore[assignment]
    seen: Any = SimpleNamespace(controller=SimpleNamespace(core=world.core))
    page = "".join(of_controller.collect(seen))
    assert 'kafka_topic_partitions{topic="t"} 1' in page and 'kafka_topic_partitions{topic="u"} 1' in page


def test_a_cluster_of_many_partitions_is_read_a_few_at_a_time() -> None:
    with running_cluster(brokers=1, settings=SETTINGS) as cluster:
        cluster.create_topic("wide", partitions=200)
        listener = cluster.cluster.runtimes[1].metrics_listener
        looked: list[int] = []

        async def read_all() -> None:
            assert listener is not None and listener.page is not None
            for piece in listener.page():
                looked.append(piece.count("\n"))

        cluster.call(read_all())
        assert sum(looked) > 2_500
        assert max(looked) <= 500
        assert looked.count(0) >= 2  # while partitions are looked at nothing is written
