"""What the controller, the store and the brokers tell each other about: brokers, assignments, leadership."""

from odradek.model.ids import (
    NO_LEADER,
    UNKNOWN_BROKER_EPOCH,
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    PartitionEpoch,
)
from odradek.model.values import dataclass, field

# As they stand in UpdateMetadata.
SECURITY_PROTOCOL_IDS = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}


@dataclass(frozen=True, slots=True)
class Endpoint:
    listener: str  # name of the listener, e.g. "PLAINTEXT"
    security_protocol: str  # one of SECURITY_PROTOCOL_IDS
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """A live broker as its node in `/brokers/ids` says. `epoch` is the czxid of that node.

    `clean_epoch` is the epoch its clean-shutdown file named when it started: the incarnation that flushed all
    it had, or that was killed while the kernel kept all (decisions/0074). -1: nobody knows, or the broker is Apache's and does
    not say (KIP-966).
    """

    broker_id: BrokerId
    epoch: BrokerEpoch
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    clean_epoch: BrokerEpoch = UNKNOWN_BROKER_EPOCH


@dataclass(frozen=True, slots=True)
class LeaderAndIsr:
    """Leadership of one partition as its state node says; `partition_epoch` is the node's version.

    `leader` is -1 while nobody leads; the last member of the ISR is kept even then (C13).
    `leader_recovery_state` is 1 after an unclean election until the next AlterPartition.
    `elr` and `last_known_elr` are the eligible leader replicas of KIP-966.
    """

    leader: BrokerId
    leader_epoch: LeaderEpoch
    isr: tuple[BrokerId, ...]
    partition_epoch: PartitionEpoch = PartitionEpoch(0)
    leader_recovery_state: int = 0
    elr: tuple[BrokerId, ...] = ()
    last_known_elr: tuple[BrokerId, ...] = ()


@dataclass(frozen=True, slots=True)
class ReplicaAssignment:
    """Assigned replicas of one partition, preferred first; adding and removing as in KIP-455."""

    replicas: tuple[BrokerId, ...]
    adding_replicas: tuple[BrokerId, ...] = ()
    removing_replicas: tuple[BrokerId, ...] = ()

    @property
    def is_being_reassigned(self) -> bool:
        return bool(self.adding_replicas or self.removing_replicas)

    @property
    def target_replicas(self) -> tuple[BrokerId, ...]:
        return tuple(r for r in self.replicas if r not in self.removing_replicas)

    @property
    def origin_replicas(self) -> tuple[BrokerId, ...]:
        return tuple(r for r in self.replicas if r not in self.adding_replicas)


def why_no_leader(leader: BrokerId, assignment: ReplicaAssignment) -> str | None:
    """Who leads must have a copy. A state node that says otherwise was edited by hand and is not to be acted upon."""
    if leader == NO_LEADER or leader in assignment.replicas:
        return None
    return f"leader {leader} is not among the assigned replicas {list(assignment.replicas)}"


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """Overrides of one topic, name -> value as text; settings not named have the broker's value."""

    overrides: dict[str, str] = field(default_factory=dict)
