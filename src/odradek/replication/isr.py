"""The in-sync replicas of a partition as its leader sees them: committed, or with a change under way.

The controller alone writes the ISR (KIP-497). A leader proposes a change with AlterPartition and is in a
pending state until the answer; one proposal a partition at a time.

- `Committed`: the controller has told us this ISR, with this partition epoch.
- `PendingExpandIsr`: we asked to add replicas. The controller may already have done so and may elect one of
  them, so they count for the high watermark at once: `maximal_isr` includes them.
- `PendingShrinkIsr`: we asked to drop replicas. Until the answer they may still be elected, so they still
  count: `maximal_isr` includes them.
"""

from collections.abc import Sequence
from typing import NamedTuple

from odradek.model.cluster import LeaderAndIsr
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import (
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    PartitionEpoch,
    TopicId,
    TopicPartition,
)
from odradek.model.values import dataclass


@dataclass(frozen=True, slots=True)
class Committed:
    isr: tuple[BrokerId, ...]

    @property
    def maximal_isr(self) -> tuple[BrokerId, ...]:
        return self.isr


@dataclass(frozen=True, slots=True)
class PendingExpandIsr:
    isr: tuple[BrokerId, ...]  # committed
    joining: tuple[BrokerId, ...]

    def __post_init__(self) -> None:
        assert self.joining and not set(self.joining) & set(self.isr), "who joins is not in the ISR"

    @property
    def maximal_isr(self) -> tuple[BrokerId, ...]:
        return self.isr + self.joining

    @property
    def proposed_isr(self) -> tuple[BrokerId, ...]:
        return self.isr + self.joining


@dataclass(frozen=True, slots=True)
class PendingShrinkIsr:
    isr: tuple[BrokerId, ...]  # committed
    leaving: tuple[BrokerId, ...]

    def __post_init__(self) -> None:
        assert self.leaving and set(self.leaving) < set(self.isr), (
            "who leaves is in the ISR, and somebody stays"
        )

    @property
    def maximal_isr(self) -> tuple[BrokerId, ...]:
        return self.isr

    @property
    def proposed_isr(self) -> tuple[BrokerId, ...]:
        return tuple(broker for broker in self.isr if broker not in self.leaving)


IsrState = Committed | PendingExpandIsr | PendingShrinkIsr


class IsrProposal(NamedTuple):
    """One partition of AlterPartition. The members' broker epochs are -1 where no fetch has told them."""

    topic_partition: TopicPartition
    topic_id: TopicId
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    new_isr: tuple[tuple[BrokerId, BrokerEpoch], ...]


class IsrAnswer(NamedTuple):
    """What the controller says about one proposal; leadership as it stands with the controller."""

    error: ErrorCode
    leader_and_isr: LeaderAndIsr | None = None


# The moves there are. Every pending state ends in Committed: by the controller's answer (the proposal or
# what it committed instead), by a refusal (what was committed before), or by new leadership. That last move is not
# looked up here: `make_leader` and `make_follower` begin with Committed, whatever was under way in an older epoch. A
# partition that is made of its image has the state of the image.
TRANSITIONS: dict[type, tuple[type, ...]] = {
    Committed: (Committed, PendingExpandIsr, PendingShrinkIsr),
    PendingExpandIsr: (Committed,),
    PendingShrinkIsr: (Committed,),
}

# What a leader does on each answer to its AlterPartition.
#
# ROLL_BACK: the controller checks these after the partition epoch, so it had our epoch and refused this very
# change: it is certainly not committed, and the committed ISR is still the truth. Nor will it be: a copy of the request that
# was sent before and is read later is told by its number (`broker/proposal_order`), for its epochs are still in force.
ROLL_BACK = frozenset(
    {ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INVALID_REQUEST}
)
# AWAIT_LEADERSHIP: the controller is ahead of us. An earlier copy of this proposal may have been committed and
# built upon, so the maximal ISR must stay; LeaderAndIsr or StopReplica is on its way and settles it.
AWAIT_LEADERSHIP = frozenset(
    {
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.NEW_LEADER_ELECTED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    }
)
# Anything else (NOT_CONTROLLER, STALE_BROKER_EPOCH, a lost connection, ...) says nothing about what was
# committed: the same proposal is sent again.


def move(state: IsrState, to: IsrState, *, what: str) -> IsrState:
    """`to`, if the table allows it; the message names the legal moves."""
    legal = TRANSITIONS[type(state)]
    if type(to) not in legal:
        names = ", ".join(kind.__name__ for kind in legal)
        raise AssertionError(f"{what}: {type(state).__name__} -> {type(to).__name__}; legal: {names}")
    return to


def effective_min_isr(min_insync_replicas: int | None, replicas: Sequence[BrokerId]) -> int:
    """min.insync.replicas, but never more than there are replicas: RF 1 can be written with the default 2.

    None means that the topic's configuration has not been read yet: the strictest value holds until then,
    which no configuration can be stricter than.
    """
    count = max(len(replicas), 1)
    return count if min_insync_replicas is None else min(min_insync_replicas, count)
