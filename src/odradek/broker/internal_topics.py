"""The topics that coordinators write, made as their own settings say, whoever asks first.

FindCoordinator makes the one that it needs. Metadata makes one where a client asks for it by name, as Sarama does while
there is no coordinator.
"""

from typing import TYPE_CHECKING, NamedTuple

from odradek.broker.effects import NewTopic
from odradek.broker.topic_creation import Names, plan_topic
from odradek.model.settings import BrokerSettings
from odradek.model.topic_names import GROUPS_TOPIC, TRANSACTIONS_TOPIC

if TYPE_CHECKING:
    from odradek.broker.core import Broker


class _Wanted(NamedTuple):
    partitions: int
    replicas: int
    configs: dict[str, str]


class Purpose(NamedTuple):
    """What cannot be served without the topic, and the setting that lets it be made with fewer brokers."""

    of: str
    setting: str


PURPOSES = {
    GROUPS_TOPIC: Purpose("group", "offsets.topic.replication.factor"),
    TRANSACTIONS_TOPIC: Purpose("transaction", "transaction.state.log.replication.factor"),
}


def plan_internal_topic(broker: "Broker", topic: str, *, names: Names | None = None) -> NewTopic:
    """ProtocolError where it cannot be made."""
    settings = broker.settings
    wanted = _wanted(settings, topic)
    replicas = wanted.replicas
    if settings.odradek_cluster_size:
        replicas = min(replicas, settings.odradek_cluster_size)
    return plan_topic(
        broker,
        topic,
        partitions=wanted.partitions,
        replication_factor=replicas,
        configs=wanted.configs,
        names=names,
    )


def _wanted(settings: BrokerSettings, topic: str) -> _Wanted:
    if topic == GROUPS_TOPIC:
        return _Wanted(
            settings.offsets_topic_num_partitions,
            settings.offsets_topic_replication_factor,
            {
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(settings.offsets_topic_segment_bytes),
            },
        )
    min_isr = settings.transaction_state_log_min_isr
    if settings.odradek_cluster_size:
        min_isr = min(min_isr, settings.odradek_cluster_size)
    return _Wanted(
        settings.transaction_state_log_num_partitions,
        settings.transaction_state_log_replication_factor,
        {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "segment.bytes": str(settings.transaction_state_log_segment_bytes),
            "min.insync.replicas": str(min_isr),
            "unclean.leader.election.enable": "false",
        },
    )
