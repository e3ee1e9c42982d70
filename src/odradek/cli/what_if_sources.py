"""The metadata a what-if question is put to: from any cluster by Metadata, or from the embedded store's file.

Either way nothing is written, nobody is told, and no session is opened with the store.
"""

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from odradek.client.sync import ClusterView, SyncClient
    from odradek.controller.context import ControllerSettings
    from odradek.model.cluster import TopicConfig
    from odradek.model.facts import MetadataLoaded

# What the controller's decisions depend on.
READ_SETTINGS = ("min.insync.replicas", "unclean.leader.election.enable")


class Source(NamedTuple):
    snapshot: "MetadataLoaded"
    controller: int | None
    settings: "ControllerSettings | None" = None


def from_cluster(bootstrap: str) -> Source:
    from odradek.client.sync import SyncClient

    with SyncClient(bootstrap) as client:
        view = client.cluster()
        return Source(snapshot_of(view, topic_configs(client, view)), view.controller_id)


def topic_configs(client: "SyncClient", view: "ClusterView") -> "dict[str, TopicConfig]":
    """The settings that decide, with the brokers' defaults folded in."""
    from odradek.cli.topic_describe import topic_settings
    from odradek.model.cluster import TopicConfig

    configs = {}
    for name in sorted(view.topics):
        values = topic_settings(client, name)
        configs[name] = TopicConfig({key: values[key][0] or "" for key in READ_SETTINGS if key in values})
    return configs


def snapshot_of(view: "ClusterView", configs: "dict[str, TopicConfig]") -> "MetadataLoaded":
    """What Metadata says, in the form a controller loads. Store versions are made up: nothing is written."""
    from odradek.model.cluster import BrokerRegistration, Endpoint, LeaderAndIsr, ReplicaAssignment
    from odradek.model.facts import MetadataLoaded, StoredPartitionState, TopicAssignment
    from odradek.model.ids import (
        NO_TOPIC_ID,
        BrokerEpoch,
        BrokerId,
        ControllerEpoch,
        LeaderEpoch,
        PartitionEpoch,
        TopicId,
        TopicPartition,
    )

    def ids(brokers: tuple[int, ...]) -> tuple[BrokerId, ...]:
        return tuple(BrokerId(broker) for broker in brokers)

    brokers = tuple(
        BrokerRegistration(
            BrokerId(broker.broker_id),
            BrokerEpoch(0),
            (Endpoint("PLAINTEXT", "PLAINTEXT", broker.address.host, broker.address.port),),
            broker.rack,
        )
        for broker in sorted(view.brokers.values())
    )
    topics, states = [], {}
    for name in sorted(view.topics):
        topic = view.topics[name]
        # A cluster without topic ids gets none here either; the controller gives it one in its own memory.
        topic_id = TopicId(topic.topic_id) if topic.topic_id != NO_TOPIC_ID else None
        assignments = {index: ReplicaAssignment(ids(p.replicas)) for index, p in topic.partitions.items()}
        topics.append(TopicAssignment(name, topic_id, assignments))
        for index, p in topic.partitions.items():
            epoch = LeaderEpoch(max(p.leader_epoch, 0))
            states[TopicPartition(name, index)] = StoredPartitionState(
                LeaderAndIsr(BrokerId(p.leader), epoch, ids(p.isr), PartitionEpoch(0)), ControllerEpoch(1)
            )
    return MetadataLoaded(brokers, tuple(topics), states, configs)


def from_store(place: Path) -> Source:
    """`place` as for `odradek store`; a broker's properties also give the defaults topics fall back to."""
    from odradek.cli.store import reading
    from odradek.controller.context import ControllerSettings
    from odradek.model.cluster import TopicConfig
    from odradek.model.facts import MetadataLoaded
    from odradek.model.ids import BrokerId, TopicPartition
    from odradek.model.settings import BrokerSettings, parse_properties
    from odradek.store import layout
    from odradek.store.api import NoNode

    settings = BrokerSettings(
        parse_properties(place.read_text(encoding="utf-8")) if place.suffix == ".properties" else {}
    )
    with reading(place) as tree:

        def configs_of(entity_type: str, names: list[str]) -> dict[str, dict[str, str]]:
            paths = [layout.config_path(entity_type, name) for name in names]
            found = zip(names, paths, tree.get_many(paths), strict=True)
            return {
                name: layout.decode_config(path, node.data) for name, path, node in found if node is not None
            }

        def children(path: str) -> list[str]:
            try:
                return tree.children(path)
            except NoNode:
                return []

        brokers = sorted(BrokerId(int(name)) for name in children(layout.BROKER_IDS))
        names = children(layout.TOPICS)
        topics = tuple(layout.decode_topic(name, tree.get(layout.topic_path(name))) for name in names)
        partitions = [TopicPartition(topic.topic, p) for topic in topics for p in topic.partitions]
        states, _, unreadable = layout.decode_partition_states(
            partitions, tree.get_many([layout.state_path(partition) for partition in partitions])
        )
        snapshot = MetadataLoaded(
            brokers=tuple(layout.decode_registration(b, tree.get(layout.broker_path(b))) for b in brokers),
            topics=topics,
            states=states,
            topic_configs={name: TopicConfig(config) for name, config in configs_of("topics", names).items()},
            broker_configs=configs_of("brokers", [*map(str, brokers), layout.DEFAULT_ENTITY]),
            unreadable=tuple(unreadable),
        )
        try:
            controller = layout.decode_controller(tree.get(layout.CONTROLLER).data)
        except NoNode:
            controller = None
    return Source(
        snapshot,
        controller,
        ControllerSettings(
            unclean_leader_election_enable=settings.unclean_leader_election_enable,
            min_insync_replicas=settings.min_insync_replicas,
        ),
    )
