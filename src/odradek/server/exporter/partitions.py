"""The partitions that are hosted here: how many, how well, and where each begins and ends."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from odradek.broker.core import Broker
from odradek.log.errors import StorageError
from odradek.model.ids import TopicPartition
from odradek.replication.partition import Partition
from odradek.server.exporter.families import EXPORTER, PARTITION, ROWS_AT_ONCE, Family, one, pieces, table
from odradek.server.exporter.seen import Seen


def _replicas(name: str, text: str) -> Family:
    return Family(
        f"kafka_server_replicamanager_{name.lower()}",
        "gauge",
        text,
        source=f"kafka.server:type=ReplicaManager,name={name}",
    )


TOGETHER = table(
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


FAMILIES = [
    *TOGETHER.values(),
    MAX_LAG,
    *(family for family, _ in OF_HOSTED),
    *(family for family, _ in OF_LED),
]


def collect(seen: Seen) -> Iterator[str]:
    replicas = seen.broker.replicas
    rows: list[Row] = []
    led: list[Row] = []
    together = dict.fromkeys(TOGETHER, 0)
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
        yield one(TOGETHER[name], number)
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
