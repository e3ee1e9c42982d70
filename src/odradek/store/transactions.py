"""The transactions of the tree: which ops go together, as Apache's brokers group them
(tests/golden/controller).

Pure: each function takes model values and gives the ops of one transaction. `ConditionalOps` are for
`Store.write` under the controller's fence, plain tuples of ops for `Store.multi`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from odradek.model.cluster import BrokerRegistration, LeaderAndIsr, ReplicaAssignment
from odradek.model.facts import ProducerIdBlock, TopicAssignment
from odradek.model.ids import BrokerEpoch, BrokerId, ControllerEpoch, TopicId, TopicPartition
from odradek.store import layout
from odradek.store.api import Check, ConditionalOps, Create, Delete, DeleteTree, Op, Put, Set


def register_broker(registration: BrokerRegistration, *, timestamp_ms: int) -> tuple[Op, ...]:
    """Created and set in one transaction: the node has version 1 from birth, as Apache's has."""
    path = layout.broker_path(registration.broker_id)
    value = layout.encode_registration(registration, timestamp_ms=timestamp_ms)
    return Create(path, ephemeral=True), Set(path, value, version=0)


def become_controller(
    broker_id: BrokerId, epoch: ControllerEpoch, *, expected_epoch_version: int, timestamp_ms: int
) -> tuple[Op, ...]:
    """Both fences at once: `/controller` is ours, and `/controller_epoch` moved under the version we read.

    One without the other would let two controllers share an epoch, or an epoch pass that nobody led.
    """
    return (
        Create(
            layout.CONTROLLER, layout.encode_controller(broker_id, timestamp_ms=timestamp_ms), ephemeral=True
        ),
        Set(layout.CONTROLLER_EPOCH, layout.encode_controller_epoch(epoch), expected_epoch_version),
    )


def resign_controller(epoch_version: int, controller_version: int = 0) -> tuple[Op, ...]:
    """Give up `/controller`, only while the epoch is still ours."""
    return (
        Check(layout.CONTROLLER_EPOCH, epoch_version),
        Delete(layout.CONTROLLER, controller_version),
    )


def create_topic(
    topic: str, topic_id: TopicId, partitions: Mapping[int, ReplicaAssignment], config: Mapping[str, str]
) -> ConditionalOps:
    """The configuration stands before the topic does: who sees the topic finds its settings."""
    assignment = TopicAssignment(topic, topic_id, partitions)
    return ConditionalOps(
        (
            Put(layout.config_path("topics", topic), layout.encode_config(config)),
            Create(layout.topic_path(topic), layout.encode_topic(assignment)),
        )
    )


def write_topic(
    topic: str,
    topic_id: TopicId | None,
    partitions: Mapping[int, ReplicaAssignment],
    *,
    expected_version: int,
) -> ConditionalOps:
    value = layout.encode_topic(TopicAssignment(topic, topic_id, partitions))
    return ConditionalOps((Set(layout.topic_path(topic), value, expected_version),))


def create_partition_state(
    partition: TopicPartition,
    state: LeaderAndIsr,
    controller_epoch: ControllerEpoch,
    isr_broker_epochs: tuple[BrokerEpoch, ...] = (),
) -> ConditionalOps:
    value = layout.encode_partition_state(state, controller_epoch, isr_broker_epochs)
    return ConditionalOps(
        (Create(layout.state_path(partition), value),),
        parents=(layout.partitions_path(partition.topic), layout.partition_path(partition)),
    )


def write_partition_state(
    partition: TopicPartition,
    state: LeaderAndIsr,
    controller_epoch: ControllerEpoch,
    isr_broker_epochs: tuple[BrokerEpoch, ...] = (),
    elr_broker_epochs: tuple[BrokerEpoch, ...] = (),
    *,
    expected_version: int,
) -> ConditionalOps:
    value = layout.encode_partition_state(state, controller_epoch, isr_broker_epochs, elr_broker_epochs)
    return ConditionalOps((Set(layout.state_path(partition), value, expected_version),))


def request_topic_deletion(topic: str) -> ConditionalOps:
    return ConditionalOps(
        (Create(layout.delete_topic_path(topic)),), parents=("/admin", layout.DELETE_TOPICS)
    )


def remove_topic(topic: str) -> ConditionalOps:
    return ConditionalOps((DeleteTree(layout.topic_path(topic)),))


def remove_topic_config(topic: str) -> ConditionalOps:
    return ConditionalOps((DeleteTree(layout.config_path("topics", topic)),))


def remove_topic_deletion(topic: str) -> ConditionalOps:
    return ConditionalOps((DeleteTree(layout.delete_topic_path(topic)),))


def write_reassignment(targets: Mapping[TopicPartition, Sequence[BrokerId]]) -> ConditionalOps:
    """The node is gone when nothing is left to reassign."""
    if not targets:
        return ConditionalOps((DeleteTree(layout.REASSIGN_PARTITIONS),))
    return ConditionalOps((Put(layout.REASSIGN_PARTITIONS, layout.encode_reassignment(targets)),))


def remove_preferred_election() -> ConditionalOps:
    return ConditionalOps((DeleteTree(layout.PREFERRED_ELECTION),))


def write_producer_id_block(block: ProducerIdBlock, *, expected_version: int) -> ConditionalOps:
    return ConditionalOps(
        (Set(layout.PRODUCER_ID_BLOCK, layout.encode_producer_id_block(block), expected_version),)
    )


def write_config(
    entity_type: str, entity_name: str, config: Mapping[str, str], *, expected_version: int | None = None
) -> ConditionalOps:
    """The value, and its announcement under `/config/changes`, which every broker reads. `expected_version`: of the value
    that it takes the place of, below 0 where there is none; None: of whatever stands there.

    The name of a quota entity may be a path of its own: `<user>/clients/<client>`.
    """
    path = layout.config_path(entity_type, entity_name)
    value = layout.encode_config(config)
    first: Op = Put(path, value) if expected_version is None else Create(path, value)
    if expected_version is not None and expected_version >= 0:
        first = Set(path, value, expected_version)
    return ConditionalOps(
        (first, _announcement(entity_type, entity_name)), parents=parents_of_config(entity_type, entity_name)
    )


def remove_config(entity_type: str, entity_name: str, *, expected_version: int) -> ConditionalOps:
    """The node itself, and its announcement. It stays where something stands below it."""
    path = layout.config_path(entity_type, entity_name)
    return ConditionalOps((Delete(path, expected_version), _announcement(entity_type, entity_name)))


def parents_of_config(entity_type: str, entity_name: str) -> tuple[str, ...]:
    """Nodes above that of an entity and below that of its type, from above: none but of `<user>/clients/<client>`."""
    parts = layout.config_path(entity_type, entity_name).split("/")
    return tuple("/".join(parts[:depth]) for depth in range(4, len(parts)))


def _announcement(entity_type: str, entity_name: str) -> Create:
    data = layout.encode_config_change(f"{entity_type}/{entity_name}")
    return Create(layout.CONFIG_CHANGE, data, sequential=True)


def remove_notifications(paths: Sequence[str]) -> ConditionalOps:
    """ISR changes and log directory events, once read."""
    return ConditionalOps(tuple(DeleteTree(path) for path in paths))
