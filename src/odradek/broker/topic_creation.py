"""What a new topic must look like before anything of it is stored: name, counts, replicas, configuration.

Shared by CreateTopics, CreatePartitions and Metadata's automatic creation. ProtocolError carries what the
client is told.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from odradek.broker.assignment import Assignment, assign_replicas
from odradek.broker.effects import NewTopic
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ConfigurationError, ProtocolError
from odradek.model.ids import BrokerId
from odradek.model.settings import TopicSettings

if TYPE_CHECKING:
    from odradek.broker.core import Broker

LONGEST_NAME = 249
LEGAL = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
USE_DEFAULT = -1
INTERNAL_TOPICS = frozenset(("__consumer_offsets", "__transaction_state"))
# A node of the store holds the assignment of a whole topic, at most 1 MiB of it.
MOST_PARTITIONS = 10_000


def check_name(topic: str) -> None:
    if not topic:
        problem = "the empty string is not allowed"
    elif topic in (".", ".."):
        problem = f"'{topic}' is not allowed"
    elif len(topic) > LONGEST_NAME:
        problem = f"the length of '{topic}' is longer than the max allowed length {LONGEST_NAME}"
    elif not LEGAL.issuperset(topic):
        problem = (
            f"'{topic}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
        )
    else:
        return
    raise ProtocolError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")


def check_is_new(broker: "Broker", topic: str) -> None:
    topics = broker.metadata.topics
    if topic in topics:
        raise ProtocolError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{topic}' already exists.")
    # Metric names replace "." by "_", so two such topics could not be told apart.
    if "." in topic or "_" in topic:
        flat = topic.replace(".", "_")
        twins = sorted(other for other in topics if other.replace(".", "_") == flat)
        if twins:
            raise ProtocolError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"Topic '{topic}' collides with existing topics: {', '.join(twins)}",
            )


def check_configs(broker: "Broker", configs: Mapping[str, str | None]) -> dict[str, str]:
    without_value = sorted(name for name, value in configs.items() if value is None)
    if without_value:
        raise ProtocolError(
            ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {','.join(without_value)}"
        )
    overrides = {name: value for name, value in configs.items() if value is not None}
    try:
        TopicSettings(broker.settings, overrides)
    except ConfigurationError as error:
        raise ProtocolError(ErrorCode.INVALID_CONFIG, str(error)) from error
    return overrides


def racks(broker: "Broker") -> dict[int, str | None]:
    return {live.broker: live.rack for live in broker.metadata.brokers.values()}


def draw_assignment(broker: "Broker", partitions: int, replication_factor: int) -> Assignment:
    settings = broker.settings
    if partitions == USE_DEFAULT:
        partitions = settings.num_partitions
    if replication_factor == USE_DEFAULT:
        replication_factor = settings.default_replication_factor
    if partitions > MOST_PARTITIONS:
        raise ProtocolError(
            ErrorCode.INVALID_PARTITIONS,
            f"{partitions} partitions asked for; one topic holds at most {MOST_PARTITIONS}.",
        )
    live = racks(broker)
    count = max(len(live), 1)
    return assign_replicas(
        live,
        partitions=partitions,
        replication_factor=replication_factor,
        start=broker.draws.below(count),
        shift=broker.draws.below(count),
    )


def check_manual(
    broker: "Broker",
    given: Mapping[int, Sequence[int]],
    *,
    first_partition: int = 0,
    replication_factor: int | None = None,
) -> Assignment:
    """Replicas somebody chose: partitions without a gap, live brokers, none twice, the same number each."""

    def refused(why: str) -> ProtocolError:
        return ProtocolError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, why)

    if sorted(given) != list(range(first_partition, first_partition + len(given))):
        raise refused("partitions should be a consecutive 0-based integer sequence")
    live = broker.metadata.brokers
    for partition, replicas in sorted(given.items()):
        if not replicas:
            raise refused(f"Partition {partition} has no replicas.")
        if len(set(replicas)) != len(replicas):
            raise refused(f"Duplicate replica assignment found: partition {partition} -> {list(replicas)}")
        dead = sorted(set(replicas) - set(live))
        if dead:
            raise refused(f"Unknown broker(s) in replica assignment: {', '.join(map(str, dead))}.")
        wanted = replication_factor if replication_factor is not None else len(given[first_partition])
        if len(replicas) != wanted:
            raise refused(
                "All partitions should have the same number of replicas."
                if replication_factor is None
                else f"Inconsistent replication factor: partition {partition} has {len(replicas)} replicas, "
                f"partition 0 has {wanted}."
            )
    return {partition: tuple(map(BrokerId, replicas)) for partition, replicas in sorted(given.items())}


def plan_topic(
    broker: "Broker",
    topic: str,
    *,
    partitions: int = USE_DEFAULT,
    replication_factor: int = USE_DEFAULT,
    manual: Mapping[int, Sequence[int]] | None = None,
    configs: Mapping[str, str | None] | None = None,
) -> NewTopic:
    check_name(topic)
    check_is_new(broker, topic)
    if manual:
        if partitions != USE_DEFAULT or replication_factor != USE_DEFAULT:
            raise ProtocolError(
                ErrorCode.INVALID_REQUEST,
                "Both numPartitions or replicationFactor and replicasAssignments were set. "
                "Both cannot be used at the same time.",
            )
        assignment = check_manual(broker, manual)
    else:
        assignment = draw_assignment(broker, partitions, replication_factor)
    return NewTopic(topic, broker.draws.topic_id(), assignment, check_configs(broker, configs or {}))
