"""What a new topic must look like before anything of it is stored: name, counts, replicas, configuration.

Shared by CreateTopics, CreatePartitions and Metadata's automatic creation. ProtocolError carries what the
client is told, in Apache's words (tests/golden/admin_errors.json) and in Apache's order of checks.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from odradek.broker.assignment import Assignment, assign_replicas
from odradek.broker.config_resources import check_topic_overrides
from odradek.broker.effects import NewTopic
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ConfigurationError, ProtocolError
from odradek.model.ids import BrokerId
from odradek.model.topic_names import GROUPS_TOPIC, TRANSACTIONS_TOPIC, check_topic_name

if TYPE_CHECKING:
    from odradek.broker.core import Broker

USE_DEFAULT = -1
INTERNAL_TOPICS = frozenset((GROUPS_TOPIC, TRANSACTIONS_TOPIC))
# The log of KRaft's metadata has this name; nobody may make a topic of it.
RESERVED_TOPICS = frozenset(("__cluster_metadata",))
# A node of the store holds the assignment of a whole topic, at most 1 MiB of it.
MOST_PARTITIONS = 10_000
# In all topics of one request: computing them holds up everybody else. The bound is that of KRaft.
MOST_PARTITIONS_PER_REQUEST = 10_000
# Topics of one request: to plan one takes some 10 us of the loop, and all are planned in one turn.
MOST_TOPICS = 2_500


def check_not_too_many_topics(topics: int) -> None:
    if topics > MOST_TOPICS:
        raise ProtocolError(
            ErrorCode.POLICY_VIOLATION,
            f"Excessively large number of topics per request: at most {MOST_TOPICS} can be made or grown at once.",
        )


class Names:
    """The names that are taken, asked for many new ones. Made for one request: topics come and go."""

    def __init__(self, broker: "Broker") -> None:
        self._topics = broker.metadata.topics
        self._flat: dict[str, list[str]] | None = None

    def check_unused(self, topic: str) -> None:
        if topic in self._topics:
            raise ProtocolError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{topic}' already exists.")

    def check_no_collision(self, topic: str) -> None:
        """Metric names replace "." by "_", so two such topics could not be told apart."""
        colliding = self._by_flat_name().get(_flat(topic)) if _may_collide(topic) else None
        if colliding:
            raise ProtocolError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"Topic '{topic}' collides with existing topics: {', '.join(sorted(colliding))}",
            )

    def take(self, topic: str) -> None:
        """Planned in this request, so it counts as there for those behind it."""
        if _may_collide(topic):
            self._by_flat_name().setdefault(_flat(topic), []).append(topic)

    def _by_flat_name(self) -> dict[str, list[str]]:
        if self._flat is None:
            self._flat = {}
            for other in self._topics:
                self._flat.setdefault(_flat(other), []).append(other)
        return self._flat


def _may_collide(topic: str) -> bool:
    return "." in topic or "_" in topic


def _flat(topic: str) -> str:
    return topic.replace(".", "_")


def check_values(configs: Mapping[str, str | None]) -> dict[str, str]:
    without_value = [name for name, value in configs.items() if value is None]
    if without_value:
        raise ProtocolError(
            ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {','.join(without_value)}"
        )
    return {name: value for name, value in configs.items() if value is not None}


def check_configs(broker: "Broker", overrides: Mapping[str, str]) -> None:
    try:
        check_topic_overrides(broker, overrides)
    except ConfigurationError as error:
        raise ProtocolError(ErrorCode.INVALID_CONFIG, getattr(error, "kafka_message", str(error))) from error


def racks(broker: "Broker") -> dict[int, str | None]:
    return {live.broker: live.rack for live in broker.metadata.brokers.values()}


def draw_assignment(broker: "Broker", partitions: int, replication_factor: int) -> Assignment:
    settings = broker.settings
    if partitions == USE_DEFAULT:
        partitions = settings.num_partitions
    if replication_factor == USE_DEFAULT:
        replication_factor = settings.default_replication_factor
    check_not_too_many(partitions)
    live = racks(broker)
    count = max(len(live), 1)
    return assign_replicas(
        live,
        partitions=partitions,
        replication_factor=replication_factor,
        start=broker.ids.below(count),
        shift=broker.ids.below(count),
    )


def check_not_too_many(partitions: int) -> None:
    if partitions > MOST_PARTITIONS:
        raise ProtocolError(
            ErrorCode.INVALID_PARTITIONS,
            f"{partitions} partitions asked for; one topic holds at most {MOST_PARTITIONS}.",
        )


def refused_assignment(why: str) -> ProtocolError:
    return ProtocolError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, why)


def check_manual(broker: "Broker", given: Mapping[int, Sequence[int]]) -> Assignment:
    """Replicas somebody chose for a new topic: the same number each, none twice, no gap, live brokers."""
    check_not_too_many(len(given))
    if len({len(replicas) for replicas in given.values()}) != 1:
        raise refused_assignment("All partitions should have the same number of replicas")
    for partition, replicas in sorted(given.items()):
        if not replicas:
            raise refused_assignment(f"Partition {partition} has no replicas.")
        if len(set(replicas)) != len(replicas):
            shown = ", ".join(
                f"{number} -> {_buffer(chosen)}" for number, chosen in sorted(given.items())[:20]
            )
            raise refused_assignment(f"Duplicate replica assignment found: HashMap({shown})")
    if sorted(given) != list(range(len(given))):
        raise refused_assignment("partitions should be a consecutive 0-based integer sequence")
    live = broker.metadata.brokers
    dead = sorted({broker for replicas in given.values() for broker in replicas} - set(live))
    if dead:
        # Apache makes such a topic, and its replicas on brokers that do not exist stay offline for ever.
        raise refused_assignment(f"Unknown broker(s) in replica assignment: {', '.join(map(str, dead))}.")
    return {partition: tuple(map(BrokerId, replicas)) for partition, replicas in sorted(given.items())}


def _buffer(replicas: Sequence[int]) -> str:
    return f"ArrayBuffer({', '.join(map(str, replicas))})"


def plan_topic(
    broker: "Broker",
    topic: str,
    *,
    partitions: int = USE_DEFAULT,
    replication_factor: int = USE_DEFAULT,
    manual: Mapping[int, Sequence[int]] | None = None,
    configs: Mapping[str, str | None] | None = None,
    names: Names | None = None,
) -> NewTopic:
    names = names or Names(broker)
    names.check_unused(topic)
    overrides = check_values(configs or {})
    if manual:
        if partitions != USE_DEFAULT or replication_factor != USE_DEFAULT:
            raise ProtocolError(
                ErrorCode.INVALID_REQUEST,
                "Both numPartitions or replicationFactor and replicasAssignments were set. "
                "Both cannot be used at the same time.",
            )
        check_topic_name(topic)
        names.check_no_collision(topic)
        assignment = check_manual(broker, manual)
    else:
        assignment = draw_assignment(broker, partitions, replication_factor)
        check_topic_name(topic)
        names.check_no_collision(topic)
    check_configs(broker, overrides)
    return NewTopic(topic, broker.ids.topic_id(), assignment, overrides)
