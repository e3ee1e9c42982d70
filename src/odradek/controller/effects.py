"""Effects: everything a controller can ask for. `core.step` returns one `Effects` for one event.

What is done with them, and in which order, stands in `core`. What is decided by an event is told only in the Effects that
follow its last write (write, then tell).

Values made once for every partition are NamedTuples: a frozen dataclass takes five times as long to build,
and an election of 100,000 partitions builds half a million of them.
"""

from collections.abc import Mapping
from typing import NamedTuple

from odradek.controller.broker_requests import BrokerRequest
from odradek.controller.events import Event
from odradek.model.cluster import LeaderAndIsr, ReplicaAssignment
from odradek.model.controller_requests import ControllerAnswer
from odradek.model.facts import ProducerIdBlock
from odradek.model.ids import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    TopicId,
    TopicPartition,
)
from odradek.model.values import dataclass

# ------------------------------------------------------------------------------------------------ writes


class WritePartitionState(NamedTuple):
    """Set the state node, if its version is still `expected_version`. `Stored` carries the new version.

    `isr_broker_epochs`: the incarnation of each member of the ISR, -1 where none is known; `elr_broker_epochs` the
    same of each that is eligible.
    """

    topic_partition: TopicPartition
    value: LeaderAndIsr
    controller_epoch: ControllerEpoch
    expected_version: int
    isr_broker_epochs: tuple[BrokerEpoch, ...] = ()
    elr_broker_epochs: tuple[BrokerEpoch, ...] = ()


class CreatePartitionState(NamedTuple):
    """Create the state node (and `partitions`, `partitions/<p>` above it, where missing)."""

    topic_partition: TopicPartition
    value: LeaderAndIsr
    controller_epoch: ControllerEpoch
    isr_broker_epochs: tuple[BrokerEpoch, ...] = ()


@dataclass(frozen=True, slots=True)
class WriteTopicAssignment:
    """Set `/brokers/topics/<t>`, if its version is still `expected_version`."""

    topic: str
    topic_id: TopicId
    partitions: Mapping[int, ReplicaAssignment]
    expected_version: int


@dataclass(frozen=True, slots=True)
class RemoveTopic:
    """Delete `/brokers/topics/<t>` with all below it. Missing already: `Stored`."""

    topic: str


@dataclass(frozen=True, slots=True)
class RemoveTopicConfig:
    """Delete `/config/topics/<t>`. Missing already: `Stored`."""

    topic: str


@dataclass(frozen=True, slots=True)
class RemoveTopicDeletion:
    """Delete `/admin/delete_topics/<t>`. Missing already: `Stored`."""

    topic: str


@dataclass(frozen=True, slots=True)
class WriteReassignmentNode:
    """Set `/admin/reassign_partitions`, or delete it when nothing is left."""

    targets: Mapping[TopicPartition, tuple[BrokerId, ...]]


@dataclass(frozen=True, slots=True)
class RemovePreferredElectionNode:
    """Delete `/admin/preferred_replica_election`. Missing already: `Stored`."""


@dataclass(frozen=True, slots=True)
class WriteProducerIdBlock:
    """Set `/latest_producer_id_block`, if its version is still `expected_version`."""

    block: ProducerIdBlock
    expected_version: int


@dataclass(frozen=True, slots=True)
class WritePendingDeletions:
    """Set `/odradek/strays/<broker>`, or delete it when nothing is left: what the broker must delete although no
    topic node names it any more, each with the id of the topic it is of."""

    broker: BrokerId
    pending_deletions: Mapping[TopicPartition, TopicId]


Write = (
    WritePartitionState
    | CreatePartitionState
    | WriteTopicAssignment
    | RemoveTopic
    | RemoveTopicConfig
    | RemoveTopicDeletion
    | WriteReassignmentNode
    | RemovePreferredElectionNode
    | WriteProducerIdBlock
    | WritePendingDeletions
)

# ------------------------------------------------------------------------------------------------ changes


class StateChange(NamedTuple):
    """What changed in the controller's memory, as a value: journal, log line, metric and dashboard are all
    written from it.

    `kind`: partition | replica | leadership | isr | assignment | broker | topic | controller | machine |
    producer ids | eligible | quote | failure | warning.
    `source` and `to`: names of states where the kind has them. `reason`: a sentence for a person.
    `name`: what it is about, where that is no partition. `before` and `leader_and_isr`: leadership then and now.
    """

    kind: str
    source: str
    to: str
    reason: str
    topic_partition: TopicPartition | None = None
    replica: BrokerId | None = None
    leader_and_isr: LeaderAndIsr | None = None
    before: LeaderAndIsr | None = None
    replicas: tuple[BrokerId, ...] | None = None
    name: str = ""

    @property
    def target(self) -> str:
        """`orders-3`, for one of its replicas `orders-3/2`; for a broker its id, for a topic its name."""
        if self.topic_partition is None:
            return self.name
        if self.replica is None:
            return str(self.topic_partition)
        return f"{self.topic_partition}/{self.replica}"


# ------------------------------------------------------------------------------------------------ answers


@dataclass(frozen=True, slots=True)
class Answer:
    request_id: int
    body: ControllerAnswer


# ------------------------------------------------------------------------------------------------ the whole


@dataclass(frozen=True, slots=True)
class Effects:
    """What one step asks for. Everything but `writes` may go out at once: if it depended on a write, it
    is in the Effects that follow that write's answer."""

    writes: tuple[Write, ...] = ()
    requests: tuple[BrokerRequest, ...] = ()
    changes: tuple[StateChange, ...] = ()
    answers: tuple[Answer, ...] = ()
    resign: str | None = None
    is_internal_error: bool = (
        False  # we resign over a mistake of our own: let others stand first, or it may go round
    )
    follow_up: tuple[Event, ...] = ()  # events to hand to `step`, in order, before any other


NOTHING = Effects()
