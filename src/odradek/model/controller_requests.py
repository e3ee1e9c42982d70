"""What brokers and administrators ask of the controller, and what it answers.

One vocabulary for both sides: a handler makes an `...Asked` of the request on the wire, the controller hears it as
`events.Requested`, and its `...Answer` is what the handler answers with. `refused(error)` is the answer where the
controller has not even looked: it is not controller any more, or the whole request is refused.

They are NamedTuples because a broker that starts makes all these classes, and a dataclass takes four times as long;
told apart by their type, never by their contents.
"""

from collections.abc import Mapping
from typing import NamedTuple

from odradek.model.cluster import LeaderAndIsr, ReplicaAssignment
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import (
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    PartitionEpoch,
    TopicId,
    TopicPartition,
)

# ----------------------------------------------------------------------------------------------------- the ISR


class IsrMember(NamedTuple):
    """A member of a proposed ISR; `broker_epoch` -1: the sender does not know it (KIP-903)."""

    broker: BrokerId
    broker_epoch: BrokerEpoch


class AlterPartitionItem(NamedTuple):
    """`topic` is None where the request names the topic by id (v2 on), `topic_id` where it does not."""

    topic: str | None
    topic_id: TopicId | None
    partition: int
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    new_isr: tuple[IsrMember, ...]
    leader_recovery_state: int = 0


class AlterPartitionResult(NamedTuple):
    """Leadership as the controller has it now, None if it knows none."""

    topic_partition: TopicPartition | None  # None: the topic id is unknown, `topic_id` says which
    topic_id: TopicId
    partition: int
    error: ErrorCode
    leader_and_isr: LeaderAndIsr | None = None


class AlterPartitionAnswer(NamedTuple):
    error: ErrorCode
    partitions: tuple[AlterPartitionResult, ...] = ()


class AlterPartitionAsked(NamedTuple):
    """KIP-497. `version` of the request: it decides which errors the sender knows."""

    version: int
    broker: BrokerId
    broker_epoch: BrokerEpoch
    partitions: tuple[AlterPartitionItem, ...]

    def refused(self, error: ErrorCode) -> AlterPartitionAnswer:
        return AlterPartitionAnswer(error)


# ---------------------------------------------------------------------------------------------------- shutdown


class ControlledShutdownAnswer(NamedTuple):
    """`remaining`: partitions still led there. `only_replica`: partitions that go offline because no other
    copy exists (row 126); not on the wire, told in the log and the journal."""

    error: ErrorCode
    remaining: tuple[TopicPartition, ...] = ()
    only_replica: tuple[TopicPartition, ...] = ()


class ControlledShutdownAsked(NamedTuple):
    """`broker_epoch` -1 (v0, v1): not checked."""

    broker: BrokerId
    broker_epoch: BrokerEpoch

    def refused(self, error: ErrorCode) -> ControlledShutdownAnswer:
        return ControlledShutdownAnswer(error)


# ------------------------------------------------------------------------------------------------ producer ids


class AllocateProducerIdsAnswer(NamedTuple):
    error: ErrorCode
    first_producer_id: int = -1
    length: int = 0


class AllocateProducerIdsAsked(NamedTuple):
    """KIP-730."""

    broker: BrokerId
    broker_epoch: BrokerEpoch

    def refused(self, error: ErrorCode) -> AllocateProducerIdsAnswer:
        return AllocateProducerIdsAnswer(error)


# --------------------------------------------------------------------------------------------------- elections


class ElectLeadersAnswer(NamedTuple):
    """An error with its sentence for each partition asked for. Those elected carry NONE and stand in `elected` too,
    with their leader epoch: whoever asked can wait until it is known."""

    error: ErrorCode
    partitions: Mapping[TopicPartition, tuple[ErrorCode, str]] = {}
    elected: Mapping[TopicPartition, LeaderEpoch] = {}


class ElectLeadersAsked(NamedTuple):
    """KIP-460. `partitions` None: every partition. `unclean` asks for a leader from outside the ISR."""

    unclean: bool
    partitions: tuple[TopicPartition, ...] | None

    def refused(self, error: ErrorCode) -> ElectLeadersAnswer:
        return ElectLeadersAnswer(error)


# ----------------------------------------------------------------------------------------------- reassignments


class AlterReassignmentsAnswer(NamedTuple):
    """An error and a sentence for all, or for each partition."""

    error: ErrorCode
    message: str = ""
    partitions: Mapping[TopicPartition, tuple[ErrorCode, str]] = {}


class AlterReassignmentsAsked(NamedTuple):
    """KIP-455: target replicas by partition; None cancels."""

    targets: Mapping[TopicPartition, tuple[BrokerId, ...] | None]
    allow_replication_factor_change: bool = True

    def refused(self, error: ErrorCode) -> AlterReassignmentsAnswer:
        return AlterReassignmentsAnswer(error)


class ListReassignmentsAnswer(NamedTuple):
    error: ErrorCode
    partitions: Mapping[TopicPartition, ReplicaAssignment] = {}


class ListReassignmentsAsked(NamedTuple):
    """`partitions` None: every running reassignment."""

    partitions: tuple[TopicPartition, ...] | None

    def refused(self, error: ErrorCode) -> ListReassignmentsAnswer:
        return ListReassignmentsAnswer(error)


ControllerAsk = (
    AlterPartitionAsked
    | ControlledShutdownAsked
    | AllocateProducerIdsAsked
    | ElectLeadersAsked
    | AlterReassignmentsAsked
    | ListReassignmentsAsked
)
ControllerAnswer = (
    AlterPartitionAnswer
    | ControlledShutdownAnswer
    | AllocateProducerIdsAnswer
    | ElectLeadersAnswer
    | AlterReassignmentsAnswer
    | ListReassignmentsAnswer
)
