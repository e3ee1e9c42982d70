"""What a leader knows of the other replicas of one partition."""

from typing import TYPE_CHECKING

from odradek.model.ids import UNKNOWN_BROKER_EPOCH, BrokerEpoch, BrokerId

if TYPE_CHECKING:
    from odradek.replication.replica import Replica

UNKNOWN_OFFSET = -1
# Of a source whose connection is closed: whatever comes over another one was sent later.
NO_CONNECTION = -1
NEVER_MS = -(1 << 62)


class FetchSource:
    """Where a follower's fetches come from. One fetch of a session stands for all its partitions: those it
    does not name are fetched again from where they were (KIP-227), so the time is kept here.

    A follower that gives a connection up goes on over a new one, and what it had sent over the old one may be read later
    still (a proxy, a tunnel, a leader that had stopped). Connections are numbered in the order in which they were opened.
    """

    __slots__ = ("connection_id", "last_fetch_time_ms")

    def __init__(self) -> None:
        self.connection_id = NO_CONNECTION  # of its last fetch
        self.last_fetch_time_ms = NEVER_MS

    def note_again(self, partition: "Replica") -> None:
        """Another source says where the follower stands. Should this one fetch again, it is the one that is alive, and
        its next fetch tells of this partition whether it names it or not. A source of one fetch has nothing to do.
        """


class FollowerState:
    """What the leader knows of one other replica, in this leader epoch."""

    __slots__ = (
        "broker",
        "broker_epoch",
        "is_in_maximal_isr",
        "last_caught_up_time_ms",
        "last_fetch_leader_end",
        "last_fetch_time_ms",
        "log_end_offset",
        "log_start_offset",
        "source",
    )

    def __init__(self, broker: BrokerId) -> None:
        self.broker = broker
        self.broker_epoch: BrokerEpoch = UNKNOWN_BROKER_EPOCH
        self.is_in_maximal_isr = False  # as the partition's state says; set with it, here for speed
        self.reset(caught_up_at_ms=NEVER_MS)

    def reset(self, *, caught_up_at_ms: int) -> None:
        """A new leader epoch: what was heard in an earlier one does not count (KAFKA-7128)."""
        # Invariant: UNKNOWN_OFFSET until it has fetched, from then on both are what its last fetch said.
        self.log_end_offset = UNKNOWN_OFFSET
        self.log_start_offset = UNKNOWN_OFFSET
        # Invariant: it held all that the leader held then.
        self.last_caught_up_time_ms = caught_up_at_ms
        self.last_fetch_time_ms = NEVER_MS
        # Where the leader's log ended at its last fetch: reaching that later proves that it was caught up then.
        self.last_fetch_leader_end = UNKNOWN_OFFSET
        # Invariant: None, or the session whose later fetches stand for this partition as well.
        self.source: FetchSource | None = None

    @property
    def has_fetched(self) -> bool:
        return self.log_end_offset != UNKNOWN_OFFSET

    @property
    def last_heard_ms(self) -> int:
        """When it fetched last, this partition or its session without naming it."""
        source = self.source
        return (
            self.last_fetch_time_ms
            if source is None
            else max(self.last_fetch_time_ms, source.last_fetch_time_ms)
        )
