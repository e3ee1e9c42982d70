"""What a broker tells about itself: the table of its metrics, and who reads each.

Names are those that jmx_exporter makes of Apache's MBeans, in Strimzi's configuration of it, and those of kafka_exporter: dashboards and
alerts written for them load as they are. What kafka_exporter tells of a whole cluster each broker tells of its part (the partitions
it leads, the groups it coordinates; the controller of brokers and topics), so that the sum over all brokers is the same.

A page is made in pieces of a millisecond, and other callbacks run in between: it is of no single moment. Nothing is read unless somebody
asks.
"""

import os
import resource
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import chain, islice
from typing import NamedTuple

from odradek.broker.core import Broker
from odradek.coordinator.classic_group import ClassicGroup
from odradek.coordinator.consumer_group import ConsumerGroup, ConsumerGroupState
from odradek.coordinator.group_states import GroupState
from odradek.coordinator.offsets import Stood
from odradek.log.errors import StorageError
from odradek.log.log_manager import LogManager
from odradek.model.ids import TopicPartition
from odradek.protocol.api_keys import ApiKey
from odradek.replication.partition import Partition
from odradek.replication.traffic import TopicTraffic
from odradek.server.controller_runtime import ControllerRuntime
from odradek.server.exposition import Family, Number, Sample, pieces
from odradek.server.gateway import Gateway
from odradek.server.metrics import Metrics

# So many partitions, or groups, are looked at between two looks of the loop at what else there is: half a millisecond.
ROWS_AT_ONCE = 100

PARTITION = ("topic", "partition")
EXPORTER = "kafka_exporter"
RUNNING, STOPPING = 3, 6  # of Apache's BrokerState


class Seen(NamedTuple):
    """What metrics are read from."""

    broker: Broker
    logs: LogManager
    gateway: Gateway
    controller: ControllerRuntime
    metrics: Metrics
    idle_share: Callable[[], float]
    is_stopping: Callable[[], bool]


def page(seen: Seen) -> Iterator[str]:
    """All of it, in pieces; between two of them the loop may do something else. An empty one is a pause."""
    yield from _of_the_process()
    yield from _of_the_broker(seen)
    yield from _traffic(seen)
    yield from _of_partitions(seen)
    yield from _of_groups(seen)
    yield from _of_the_controller(seen)


def families() -> list[Family]:
    """All there are."""
    return [
        *BROKER.values(),
        *(family for family, _ in OF_TRAFFIC),
        *PARTITIONS_TOGETHER.values(),
        MAX_LAG,
        *(family for family, _ in OF_HOSTED),
        *(family for family, _ in OF_LED),
        *GROUPS.values(),
        *CONTROLLER.values(),
        *PROCESS.values(),
    ]


def _table(*families: Family) -> dict[str, Family]:
    return {family.name: family for family in families}


def _one(family: Family, number: Number) -> str:
    return "".join(pieces(family, [((), number)]))


# ------------------------------------------------------------------------------------------------ the process

PROCESS = _table(
    Family("process_cpu_seconds_total", "counter", "Processor time of the process, in seconds."),
    Family("process_resident_memory_bytes", "gauge", "Memory of the process that is in use, in bytes."),
    Family("process_open_fds", "gauge", "File descriptors that are open."),
    Family("process_max_fds", "gauge", "File descriptors that may be open."),
)


def _of_the_process() -> Iterator[str]:
    yield _one(PROCESS["process_cpu_seconds_total"], time.process_time())
    yield _one(PROCESS["process_max_fds"], resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    with suppress(FileNotFoundError):  # no Linux: left out
        yield _one(PROCESS["process_resident_memory_bytes"], _resident_bytes())
        count = 0
        with os.scandir("/proc/self/fd") as open_ones:
            while some := len(list(islice(open_ones, ROWS_AT_ONCE))):
                count += some
                yield ""
        yield _one(PROCESS["process_open_fds"], count)


def _resident_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


# ------------------------------------------------------------------------------------------------- the broker

LOOP_IDLE = (
    "Share of the last minute in which the broker's one loop had nothing to do, 0 to 1. It reads, decides and writes, so the "
    "share of both pools of Apache's is the same."
)
BROKER = _table(
    Family(
        "kafka_server_kafkaserver_brokerstate",
        "gauge",
        "3: running; 6: stopping in order.",
        source="kafka.server:type=KafkaServer,name=BrokerState",
    ),
    Family(
        "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
        "gauge",
        LOOP_IDLE,
        source="kafka.server:type=KafkaRequestHandlerPool,name=RequestHandlerAvgIdlePercent",
    ),
    Family(
        "kafka_network_socketserver_networkprocessoravgidle_percent",
        "gauge",
        LOOP_IDLE,
        source="kafka.network:type=SocketServer,name=NetworkProcessorAvgIdlePercent",
    ),
    Family(
        "kafka_server_socket_server_metrics_connection_count",
        "gauge",
        "Connections that are open.",
        ("listener",),
        "kafka.server:type=socket-server-metrics,listener=*,networkProcessor=*",
    ),
    Family(
        "kafka_network_requestmetrics_requests_total",
        "counter",
        "Requests that have come, by API; `other` for keys that no API has.",
        ("request",),
        "kafka.network:type=RequestMetrics,name=RequestsPerSec,request=*",
    ),
    Family(
        "kafka_log_logmanager_offlinelogdirectorycount",
        "gauge",
        "Log directories that have failed.",
        source="kafka.log:type=LogManager,name=OfflineLogDirectoryCount",
    ),
    Family(
        "kafka_server_replicamanager_isrshrinks_total",
        "counter",
        "Times that an ISR of a partition led here lost a member.",
        source="kafka.server:type=ReplicaManager,name=IsrShrinksPerSec",
    ),
    Family(
        "kafka_server_replicamanager_isrexpands_total",
        "counter",
        "Times that an ISR of a partition led here got a member.",
        source="kafka.server:type=ReplicaManager,name=IsrExpandsPerSec",
    ),
    Family(
        "kafka_server_sessionexpirelistener_zookeeperexpires_total",
        "counter",
        "Sessions with the store (ZooKeeper, or the embedded one) that have expired.",
        source="kafka.server:type=SessionExpireListener,name=ZooKeeperExpiresPerSec",
    ),
    Family(
        "kafka_controller_controllerstats_uncleanleaderelections_total",
        "counter",
        "Partitions that got a leader from outside the ISR while this broker was controller.",
        source="kafka.controller:type=ControllerStats,name=UncleanLeaderElectionsPerSec",
    ),
    Family(
        "kafka_controller_kafkacontroller_activecontrollercount",
        "gauge",
        "1 where this broker is the controller, else 0.",
        source="kafka.controller:type=KafkaController,name=ActiveControllerCount",
    ),
    Family("odradek_bytes_received_total", "counter", "Bytes of requests that have come."),
    Family("odradek_connections_accepted_total", "counter", "Connections that were accepted."),
    Family(
        "odradek_connections_refused_total",
        "counter",
        "Connections that were refused, or closed to make room.",
    ),
    Family(
        "odradek_connections_idle_closed_total",
        "counter",
        "Connections closed after connections.max.idle.ms.",
    ),
    Family(
        "odradek_nonsense_frames_total",
        "counter",
        "Requests that could not be read; their connection was closed.",
    ),
    Family(
        "odradek_requests_failed_inside_total",
        "counter",
        "Requests on which the broker itself failed: each is a defect to report, and the log has it.",
    ),
    Family(
        "odradek_fetcher_failures_total",
        "counter",
        "Times that a connection to a leader was lost or refused.",
    ),
    Family("odradek_controller_elections_total", "counter", "Elections that this broker has won."),
    Family("odradek_controller_resignations_total", "counter", "Terms as controller that have ended."),
)
_NAMES_OF_KEYS = {key.value: "".join(word.capitalize() for word in key.name.split("_")) for key in ApiKey}


def _of_the_broker(seen: Seen) -> Iterator[str]:
    metrics = seen.metrics
    numbers: dict[str, Number] = {
        "kafka_server_kafkaserver_brokerstate": STOPPING if seen.is_stopping() else RUNNING,
        "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent": seen.idle_share(),
        "kafka_network_socketserver_networkprocessoravgidle_percent": seen.idle_share(),
        "kafka_log_logmanager_offlinelogdirectorycount": len(seen.logs.offline_directories),
        "kafka_server_replicamanager_isrshrinks_total": seen.broker.isr_channel.shrinks,
        "kafka_server_replicamanager_isrexpands_total": seen.broker.isr_channel.expansions,
        "kafka_server_sessionexpirelistener_zookeeperexpires_total": metrics.session_expirations,
        "kafka_controller_controllerstats_uncleanleaderelections_total": metrics.unclean_elections,
        "kafka_controller_kafkacontroller_activecontrollercount": int(seen.controller.is_leading),
        "odradek_bytes_received_total": metrics.bytes_in,
        "odradek_connections_accepted_total": metrics.connections_accepted,
        "odradek_connections_refused_total": metrics.connections_refused,
        "odradek_connections_idle_closed_total": metrics.connections_idle_closed,
        "odradek_nonsense_frames_total": metrics.nonsense_frames,
        "odradek_requests_failed_inside_total": metrics.requests_failed_inside,
        "odradek_fetcher_failures_total": metrics.fetcher_failures,
        "odradek_controller_elections_total": metrics.controller_elections,
        "odradek_controller_resignations_total": metrics.controller_resignations,
    }
    for name, number in numbers.items():
        yield _one(BROKER[name], number)
    yield from pieces(
        BROKER["kafka_server_socket_server_metrics_connection_count"],
        [((listener,), count) for listener, count in seen.gateway.per_listener.items()],
    )
    yield from pieces(
        BROKER["kafka_network_requestmetrics_requests_total"],
        [
            ((_NAMES_OF_KEYS.get(key, "other"),), count)
            for key, count in enumerate(metrics.requests_by_key)
            if count or key in seen.broker.handlers.versions
        ],
    )


# -------------------------------------------------------------------------------------- what goes in and out


def _of_topics(name: str, text: str) -> Family:
    return Family(
        f"kafka_server_brokertopicmetrics_{name.lower()}_total",
        "counter",
        f"{text} Without a topic: of all, also of those that are not here any more.",
        ("topic",),
        f"kafka.server:type=BrokerTopicMetrics,name={name}PerSec",
    )


OF_TRAFFIC: tuple[tuple[Family, Callable[[TopicTraffic], int]], ...] = (
    (_of_topics("MessagesIn", "Records that producers have appended here."), lambda t: t.messages_in),
    (
        _of_topics("BytesIn", "Bytes of record batches that producers have appended here."),
        lambda t: t.bytes_in,
    ),
    (_of_topics("BytesOut", "Bytes of record batches that went to consumers."), lambda t: t.bytes_out),
    (
        _of_topics("ReplicationBytesIn", "Bytes of record batches that came from leaders."),
        lambda t: t.replicated_bytes_in,
    ),
    (
        _of_topics("ReplicationBytesOut", "Bytes of record batches that went to followers."),
        lambda t: t.replicated_bytes_out,
    ),
    (
        _of_topics("TotalProduceRequests", "Partitions that Produce requests named."),
        lambda t: t.produce_requests,
    ),
    (
        _of_topics("TotalFetchRequests", "Partitions that Fetch requests were answered about."),
        lambda t: t.fetch_requests,
    ),
    (
        _of_topics(
            "FailedProduceRequests",
            "Those of a Produce that were refused for another reason than a moved leader or wrong records.",
        ),
        lambda t: t.failed_produce_requests,
    ),
    (
        _of_topics(
            "FailedFetchRequests",
            "Those of a Fetch that were refused for another reason than a moved leader or an offset out of range.",
        ),
        lambda t: t.failed_fetch_requests,
    ),
)


def _traffic(seen: Seen) -> Iterator[str]:
    everything = TopicTraffic()
    everything.add(seen.broker.replicas.former_traffic)
    topics = list(seen.broker.replicas.traffic.items())
    for at, (_, traffic) in enumerate(topics):
        everything.add(traffic)
        if not at % ROWS_AT_ONCE:
            yield ""
    for family, read in OF_TRAFFIC:
        of_each = (((topic,), read(traffic)) for topic, traffic in topics)
        yield from pieces(family, chain([(("",), read(everything))], of_each))


# ------------------------------------------------------------------------------------------------- partitions


def _replicas(name: str, text: str) -> Family:
    return Family(
        f"kafka_server_replicamanager_{name.lower()}",
        "gauge",
        text,
        source=f"kafka.server:type=ReplicaManager,name={name}",
    )


PARTITIONS_TOGETHER = _table(
    _replicas("PartitionCount", "Partitions that this broker has a replica of."),
    _replicas("LeaderCount", "Partitions that it leads."),
    _replicas("UnderReplicatedPartitions", "Partitions led here whose ISR lacks a replica."),
    _replicas(
        "UnderMinIsrPartitionCount", "Partitions led here that refuse acks=all: the ISR is below the minimum."
    ),
    _replicas(
        "AtMinIsrPartitionCount", "Partitions led here that would refuse acks=all with one member less."
    ),
    _replicas("ReassigningPartitions", "Partitions led here that are being reassigned."),
    _replicas("OfflineReplicaCount", "Replicas of this broker that cannot be used, for their disk or log."),
)
MAX_LAG = Family(
    "kafka_server_replicafetchermanager_maxlag",
    "gauge",
    "Records that the furthest replica here is behind its leader's high watermark.",
    ("clientId",),
    "kafka.server:type=ReplicaFetcherManager,name=MaxLag,clientId=Replica",
)


def _of_log(name: str, text: str) -> Family:
    source = f"kafka.log:type=Log,name={name},topic=*,partition=*"
    return Family(f"kafka_log_log_{name.lower()}", "gauge", text, PARTITION, source)


def _of_cluster(name: str, text: str) -> Family:
    source = f"kafka.cluster:type=Partition,name={name},topic=*,partition=*"
    return Family(f"kafka_cluster_partition_{name.lower()}", "gauge", text, PARTITION, source)


def _exported(name: str, text: str) -> Family:
    return Family(f"kafka_topic_partition_{name}", "gauge", text, PARTITION, EXPORTER)


# Of every partition that is hosted here.
OF_HOSTED: tuple[tuple[Family, Callable[["Row"], int]], ...] = (
    (_of_log("Size", "Bytes of the log's segments."), lambda row: row.size_bytes),
    (_of_log("LogStartOffset", "First offset of the log."), lambda row: row.log_start_offset),
    (_of_log("LogEndOffset", "Offset behind its last record."), lambda row: row.log_end_offset),
    (
        _of_cluster("UnderReplicated", "1: led here, and its ISR lacks a replica."),
        lambda row: row.is_under_replicated,
    ),
    (_of_cluster("UnderMinIsr", "1: led here, and refuses acks=all."), lambda row: row.is_under_min_isr),
    (
        _of_cluster("AtMinIsr", "1: led here, and would refuse acks=all with one member less."),
        lambda row: row.is_at_min_isr,
    ),
)
# Of those that are led here: each partition has one leader, so the brokers together tell of each once.
OF_LED: tuple[tuple[Family, Callable[["Row"], int]], ...] = (
    (
        _exported("current_offset", "High watermark: where consumers have everything."),
        lambda row: row.high_watermark,
    ),
    (_exported("oldest_offset", "First offset that can be read."), lambda row: row.log_start_offset),
    (_exported("leader", "Broker that leads it."), lambda row: row.leader),
    (
        _exported("leader_is_preferred", "1 where the first of the replicas leads."),
        lambda row: row.leader == row.replicas[0],
    ),
    (_exported("replicas", "Replicas that are assigned."), lambda row: len(row.replicas)),
    (_exported("in_sync_replica", "Members of the ISR."), lambda row: row.in_sync),
    (
        _exported("under_replicated_partition", "1 where the ISR lacks a replica."),
        lambda row: row.is_under_replicated,
    ),
)


class Row(NamedTuple):
    """A partition that is hosted here, as it was when it was looked at."""

    topic: str
    partition: int
    is_leader: bool
    leader: int
    replicas: tuple[int, ...]
    in_sync: int
    is_under_replicated: bool
    is_under_min_isr: bool
    is_at_min_isr: bool
    is_moving: bool
    size_bytes: int
    log_start_offset: int
    log_end_offset: int
    high_watermark: int
    lag: int


def _of_partitions(seen: Seen) -> Iterator[str]:
    replicas = seen.broker.replicas
    rows: list[Row] = []
    led: list[Row] = []
    together = dict.fromkeys(PARTITIONS_TOGETHER, 0)
    prefix = "kafka_server_replicamanager_"
    together[f"{prefix}offlinereplicacount"] = len(replicas.offline)
    lag = 0
    for at, (topic_partition, partition) in enumerate(list(replicas.partitions.items())):
        if not at % ROWS_AT_ONCE:
            yield ""
        try:
            for _ in partition.log.segments.sizing():
                yield ""
            if not partition.is_hosted:
                continue
            row = row_of(seen.broker, topic_partition, partition)
        except StorageError:
            continue  # its log was cut, moved or failed meanwhile: the next page has it as it is
        rows.append(row)
        together[f"{prefix}partitioncount"] += 1
        lag = max(lag, row.lag)
        if row.is_leader:
            led.append(row)
            together[f"{prefix}leadercount"] += 1
            together[f"{prefix}underreplicatedpartitions"] += row.is_under_replicated
            together[f"{prefix}underminisrpartitioncount"] += row.is_under_min_isr
            together[f"{prefix}atminisrpartitioncount"] += row.is_at_min_isr
            together[f"{prefix}reassigningpartitions"] += row.is_moving
    for name, number in together.items():
        yield _one(PARTITIONS_TOGETHER[name], number)
    yield from pieces(MAX_LAG, [(("Replica",), lag)])
    for family, read in OF_HOSTED:
        yield from pieces(family, (((row.topic, row.partition), int(read(row))) for row in rows))
    for family, read in OF_LED:
        yield from pieces(family, (((row.topic, row.partition), int(read(row))) for row in led))


def row_of(broker: Broker, topic_partition: TopicPartition, partition: Partition) -> Row:
    assignment, log = partition.assignment, partition.log
    wanted = set(assignment.replicas).difference(assignment.adding_replicas)
    in_sync = partition.isr
    leads = partition.is_leader
    followed = None
    if not leads and (fetcher := broker.replicas.fetchers.get(partition.leader)) is not None:
        followed = fetcher.partitions.get(topic_partition)
    lag = 0 if followed is None else followed.leader_high_watermark_seen - log.log_end_offset
    return Row(
        topic=topic_partition.topic,
        partition=topic_partition.partition,
        is_leader=leads,
        leader=partition.leader,
        replicas=assignment.replicas,
        in_sync=len(in_sync),
        is_under_replicated=leads and not wanted <= set(in_sync),
        is_under_min_isr=partition.is_under_min_isr,
        is_at_min_isr=leads
        and not partition.is_under_min_isr
        and len(in_sync) == partition.effective_min_isr,
        is_moving=assignment.is_being_reassigned,
        size_bytes=log.size_bytes,
        log_start_offset=log.log_start_offset,
        log_end_offset=log.log_end_offset,
        high_watermark=partition.high_watermark,
        lag=max(lag, 0),
    )


# ----------------------------------------------------------------------------------------------------- groups


def _groups(name: str, text: str) -> Family:
    return Family(
        f"kafka_coordinator_group_groupmetadatamanager_{name.lower()}",
        "gauge",
        text,
        source=f"kafka.coordinator.group:type=GroupMetadataManager,name={name}",
    )


OFFSET = ("consumergroup", *PARTITION)
GROUPS = _table(
    _groups("NumGroups", "Groups that this broker coordinates."),
    _groups("NumGroupsEmpty", "Of these, those without members."),
    _groups("NumGroupsPreparingRebalance", "Those whose members are joining."),
    _groups("NumGroupsCompletingRebalance", "Those that wait for their assignment."),
    _groups("NumGroupsStable", "Those whose members read."),
    _groups("NumGroupsDead", "Those that are being removed."),
    _groups("NumGroupsAssigning", "Those of KIP-848 that wait for a target assignment."),
    _groups("NumGroupsReconciling", "Those of KIP-848 whose members are on their way to it."),
    _groups("NumOffsets", "Offsets that groups have committed here."),
    Family(
        "kafka_consumergroup_members",
        "gauge",
        "Members of a group.",
        ("consumergroup",),
        EXPORTER,
    ),
    Family(
        "kafka_consumergroup_current_offset",
        "gauge",
        "Offset that a group has committed, at its coordinator.",
        OFFSET,
        EXPORTER,
    ),
)


def _of_groups(seen: Seen) -> Iterator[str]:
    states: Counter[str] = Counter()
    members: list[Sample] = []
    committed: list[tuple[str, Mapping[tuple[str, int], Stood]]] = []
    count = 0
    for shard in list(seen.broker.groups.shards.values()):
        if shard.coordinator is None:
            continue  # still being loaded
        memory = shard.coordinator.shard
        here: list[tuple[str, ClassicGroup | ConsumerGroup]] = []
        here += memory.groups.items()
        here += memory.consumer_groups.items()
        for at, (name, group) in enumerate(here):
            if not at % ROWS_AT_ONCE:
                yield ""
            states[group.state.value] += 1
            of_group = group.members if isinstance(group, ClassicGroup) else group.image.members
            members.append(((name,), len(of_group)))
        committed += memory.offsets.by_group.items()
        yield ""
    for at, (_, offsets) in enumerate(committed):
        count += len(offsets)
        if not at % ROWS_AT_ONCE:
            yield ""
    prefix = "kafka_coordinator_group_groupmetadatamanager_num"
    yield _one(GROUPS[f"{prefix}groups"], sum(states.values()))
    yield _one(GROUPS[f"{prefix}offsets"], count)
    for state in {state.value for state in (*GroupState, *ConsumerGroupState)}:
        yield _one(GROUPS[f"{prefix}groups{state.lower()}"], states[state])
    yield from pieces(GROUPS["kafka_consumergroup_members"], members)
    yield from pieces(GROUPS["kafka_consumergroup_current_offset"], _committed(committed))


def _committed(groups: list[tuple[str, Mapping[tuple[str, int], Stood]]]) -> Iterator[Sample]:
    for name, offsets in groups:
        # A copy of each when its turn comes: they change between two pieces.
        for (topic, partition), stood in list(offsets.items()):
            yield (name, topic, partition), stood.committed.offset


# -------------------------------------------------------------------------------------------- the controller


def _controller(name: str, text: str) -> Family:
    return Family(
        f"kafka_controller_kafkacontroller_{name.lower()}",
        "gauge",
        f"{text} Told by the controller alone.",
        source=f"kafka.controller:type=KafkaController,name={name}",
    )


CONTROLLER = _table(
    _controller("OfflinePartitionsCount", "Partitions without a leader."),
    _controller("PreferredReplicaImbalanceCount", "Partitions that another than their first replica leads."),
    _controller("GlobalTopicCount", "Topics of the cluster."),
    _controller("GlobalPartitionCount", "Partitions of the cluster."),
    Family(
        "kafka_brokers",
        "gauge",
        "Brokers that are registered. Told by the controller alone.",
        source=EXPORTER,
    ),
    Family(
        "kafka_topic_partitions",
        "gauge",
        "Partitions of a topic. Told by the controller alone.",
        ("topic",),
        EXPORTER,
    ),
)


def _of_the_controller(seen: Seen) -> Iterator[str]:
    core = seen.controller.core
    context = None if core is None else core.context
    if context is None:
        return  # not the controller; or one that is reading the store, or in the midst of a large step
    imbalanced = 0
    for at, (topic_partition, assignment) in enumerate(list(context.assignments.items())):
        if not at % (10 * ROWS_AT_ONCE):
            yield ""
        leadership = context.leaderships.get(topic_partition)
        if leadership is not None and assignment.replicas:
            imbalanced += leadership.leader_and_isr.leader != assignment.replicas[0]
    prefix = "kafka_controller_kafkacontroller_"
    yield _one(CONTROLLER[f"{prefix}offlinepartitionscount"], len(context.leaderless))
    yield _one(CONTROLLER[f"{prefix}preferredreplicaimbalancecount"], imbalanced)
    yield _one(CONTROLLER[f"{prefix}globaltopiccount"], len(context.topics))
    yield _one(CONTROLLER[f"{prefix}globalpartitioncount"], len(context.assignments))
    yield _one(CONTROLLER["kafka_brokers"], len(context.brokers))
    sizes = [(name, len(topic.partitions)) for name, topic in context.topics.items()]
    yield from pieces(CONTROLLER["kafka_topic_partitions"], (((name,), size) for name, size in sizes))
