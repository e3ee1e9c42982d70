"""What the store knows, as values: the controller's events that come from the tree of nodes.

"Facts, not hints" (docs/map): a watch only hints that something moved. The adapter in `store.facts` arms the
watch again, reads all that stands behind it, and delivers one of these. Whoever takes a fact never reads.

Every fact carries the whole of what it is about (all brokers, all names of topics), so that a fact that was
missed or told twice does no harm: the next one says everything again.
"""

from collections.abc import Mapping

from odradek.model.cluster import BrokerRegistration, LeaderAndIsr, ReplicaAssignment, TopicConfig
from odradek.model.ids import BrokerEpoch, BrokerId, ControllerEpoch, TopicId, TopicPartition
from odradek.model.values import dataclass, field


@dataclass(frozen=True, slots=True)
class TopicAssignment:
    """A node `/brokers/topics/<t>`.

    `topic_id` is None in a topic that an old tool created: the controller gives it one.
    """

    topic: str
    topic_id: TopicId | None
    partitions: Mapping[int, ReplicaAssignment]
    version: int = 0  # of the node; the next write must name it


@dataclass(frozen=True, slots=True)
class StoredPartitionState:
    """A node `/brokers/topics/<t>/partitions/<p>/state`, with the epoch of the controller that wrote it.

    A controller epoch above our own means that somebody else leads by now: resign (behaviour 37).

    `isr_broker_epochs`: which incarnation of each member was meant, as long as the ISR, or empty when whoever
    wrote the node does not say (Apache). Then `written_zxid` is the transaction that wrote it, -1 if not known.
    `elr_broker_epochs`: the same of each eligible replica, the life it was judged in last.
    """

    leader_and_isr: LeaderAndIsr
    controller_epoch: ControllerEpoch
    isr_broker_epochs: tuple[BrokerEpoch, ...] = ()
    written_zxid: int = -1
    elr_broker_epochs: tuple[BrokerEpoch, ...] = ()


@dataclass(frozen=True, slots=True)
class UnreadableNode:
    """A node whose value we cannot trust. Its topic, if it has one, is out of service with this reason."""

    path: str
    reason: str
    topic: str | None = None


@dataclass(frozen=True, slots=True)
class BrokersChanged:
    """All brokers registered now, by id. A larger epoch at the same id is a bounce (KAFKA-7235)."""

    brokers: tuple[BrokerRegistration, ...]
    unreadable: tuple[UnreadableNode, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicsChanged:
    """The names of all topics, sorted, and the assignments of those not told before.

    A topic that was deleted and created again between two looks is told as new: its node has another czxid.
    `states` holds the partitions of the new topics that already have a state node.
    """

    topics: tuple[str, ...]
    created: tuple[TopicAssignment, ...] = ()
    states: Mapping[TopicPartition, StoredPartitionState] = field(default_factory=dict)
    configs: Mapping[str, TopicConfig] = field(default_factory=dict)
    unreadable: tuple[UnreadableNode, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicAssignmentsChanged:
    """Topic nodes written since we last read them: partitions added, a reassignment, an id given."""

    topics: tuple[TopicAssignment, ...]
    unreadable: tuple[UnreadableNode, ...] = ()


@dataclass(frozen=True, slots=True)
class PartitionStatesLoaded:
    """State nodes read again, e.g. after an ISR change notification. `missing`: asked for and not there."""

    states: Mapping[TopicPartition, StoredPartitionState]
    missing: tuple[TopicPartition, ...] = ()
    unreadable: tuple[UnreadableNode, ...] = ()


@dataclass(frozen=True, slots=True)
class DeleteTopicsRequested:
    """All names below `/admin/delete_topics`, sorted."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReassignmentRequested:
    """`/admin/reassign_partitions`, the way in of tools older than KIP-455. Empty when the node is gone."""

    targets: Mapping[TopicPartition, tuple[BrokerId, ...]]
    version: int = -1  # of the node; -1 when it is gone
    unreadable: tuple[UnreadableNode, ...] = ()


@dataclass(frozen=True, slots=True)
class PreferredElectionRequested:
    """`/admin/preferred_replica_election`, the way in of old tools. Empty when the node is gone."""

    partitions: tuple[TopicPartition, ...]
    version: int = -1
    unreadable: tuple[UnreadableNode, ...] = ()


@dataclass(frozen=True, slots=True)
class ConfigChanged:
    """The configuration of one entity as it stands now, whole.

    `entity_type` is topics, brokers, clients, users or ips; `entity_name` as in the path, also `<default>`.
    """

    entity_type: str
    entity_name: str
    config: Mapping[str, str]
    unreadable: tuple[UnreadableNode, ...] = ()


@dataclass(frozen=True, slots=True)
class IsrChangeNotified:
    """Leaders older than 2.7 wrote these partitions' ISR themselves; the states as they stand now."""

    states: Mapping[TopicPartition, StoredPartitionState]
    unreadable: tuple[UnreadableNode, ...] = ()


@dataclass(frozen=True, slots=True)
class LogDirFailed:
    """Brokers with a failed log directory: the controller sends LeaderAndIsr for all their replicas."""

    brokers: tuple[BrokerId, ...]


@dataclass(frozen=True, slots=True)
class ControllerChanged:
    """Who holds `/controller` now; None when nobody does, which is the sign to stand for election.

    With `unreadable` somebody holds it and we cannot tell who; only its owner's end can change that.
    """

    controller: BrokerId | None
    unreadable: UnreadableNode | None = None


@dataclass(frozen=True, slots=True)
class FeaturesChanged:
    """The node `/feature`: the level in force of each finalised feature. `epoch` is the node's version, -1
    while there is none."""

    features: Mapping[str, int]
    epoch: int
    unreadable: UnreadableNode | None = None


@dataclass(frozen=True, slots=True)
class ProducerIdBlock:
    """`/latest_producer_id_block`: the block of producer ids given out last, and the node's version.

    The node exists, empty, from the first start on: `block_end` is -1 then.
    """

    broker: BrokerId
    block_start: int
    block_end: int
    version: int = 0


@dataclass(frozen=True, slots=True)
class MetadataLoaded:
    """Everything a controller begins with, read after its watches were armed."""

    brokers: tuple[BrokerRegistration, ...]
    topics: tuple[TopicAssignment, ...]
    states: Mapping[TopicPartition, StoredPartitionState]
    topic_configs: Mapping[str, TopicConfig] = field(default_factory=dict)
    # By id as text, or `<default>`.
    broker_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    delete_topics: tuple[str, ...] = ()
    reassignment: ReassignmentRequested = ReassignmentRequested(targets={})
    preferred_election: PreferredElectionRequested = PreferredElectionRequested(partitions=())
    unreadable: tuple[UnreadableNode, ...] = ()
    producer_ids: ProducerIdBlock | None = None
    # What brokers must still delete although no topic node names it, with the id of the topic it is of.
    pending_deletions: Mapping[BrokerId, Mapping[TopicPartition, TopicId]] = field(default_factory=dict)


Fact = (
    BrokersChanged
    | TopicsChanged
    | TopicAssignmentsChanged
    | PartitionStatesLoaded
    | DeleteTopicsRequested
    | ReassignmentRequested
    | PreferredElectionRequested
    | ConfigChanged
    | IsrChangeNotified
    | LogDirFailed
    | ControllerChanged
    | FeaturesChanged
    | MetadataLoaded
)
