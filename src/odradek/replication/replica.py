"""One copy of a partition on this broker: its log, whose epoch it is in, how far it is committed.

What a follower promises stands here: it appends what the leader of its epoch sends, at its own log end, cuts
before it appends (`truncation`), and never shows more than the leader called committed. What only a leader
does is in `partition`.
"""

from typing import TYPE_CHECKING

from odradek.log.steps import Steps, all_at_once
from odradek.log.truncated_tails import keeping_tail
from odradek.model.cluster import LeaderAndIsr, ReplicaAssignment
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError
from odradek.model.ids import (
    NO_EPOCH,
    NO_LEADER,
    BrokerId,
    LeaderEpoch,
    PartitionEpoch,
    TopicId,
    TopicPartition,
)
from odradek.replication.traffic import TopicTraffic
from odradek.replication.waiting import Outbox, Reader

if TYPE_CHECKING:
    from odradek.log.partition_log import PartitionLog

READ_UNCOMMITTED = 0
READ_COMMITTED = 1


class Replica:
    """Attributes without underscore may be read by anybody, changed only here and in `Partition`."""

    __slots__ = (
        "_outbox",
        "assignment",
        "broker",
        "consumer_readers",
        "flushes_before_ack",
        "follower_readers",
        "high_watermark",
        "is_deleted",
        "is_flushing",
        "is_hosted",
        "is_leader",
        "is_stopped",
        "keeps_tails",
        "leader",
        "leader_epoch",
        "leader_recovery_state",
        "log",
        "partition_epoch",
        "topic_id",
        "topic_partition",
        "traffic",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        topic_id: TopicId,
        log: "PartitionLog",
        *,
        broker: BrokerId,
        high_watermark: int,
        outbox: Outbox,
        traffic: TopicTraffic | None = None,
    ) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.log = log
        self.broker = broker
        self.assignment = ReplicaAssignment(replicas=())
        self.is_leader = False
        self.is_deleted = False
        # By StopReplica, without deletion: what LeaderAndIsr said of its epoch holds no more.
        self.is_stopped = False
        self.is_hosted = True  # False: who holds this object has to look the partition up again
        self.leader: BrokerId = NO_LEADER
        self.leader_epoch = LeaderEpoch(-1)
        self.leader_recovery_state = 0
        self.partition_epoch = PartitionEpoch(-1)
        # Behaviour 136: min(checkpoint entry, log end). A mark below the log start says no more than it.
        # Invariant: at most the log's end; falls only where the log is cut.
        self.high_watermark = max(min(high_watermark, log.log_end_offset), log.log_start_offset)
        # Ordered sets: whoever has an open interest in records here.
        self.follower_readers: dict[Reader, None] = {}
        self.consumer_readers: dict[Reader, None] = {}
        self.flushes_before_ack = False  # flush.messages=1 (H5)
        self.is_flushing = False
        self.keeps_tails = False  # unclean.leader.election.enable: whatever is cut may have been acknowledged
        self.traffic = traffic or TopicTraffic()  # of the topic: all its replicas on this broker share one
        self._outbox = outbox

    # ---------------------------------------------------------------------------------------------- epochs

    def _assert_newer(self, leadership: LeaderAndIsr) -> None:
        # Row 147: the caller has answered what is not news with STALE_CONTROLLER_EPOCH.
        assert self.is_news(leadership), (
            f"{self.topic_partition}: leader epoch {self.leader_epoch} -> {leadership.leader_epoch}; legal: a larger one, and "
            "the same to follow where it was stopped"
        )

    def is_news(self, leadership: LeaderAndIsr) -> bool:
        """A larger leader epoch; or the known one, to a replica that was stopped in it and is to follow again: its controller
        took it for offline in between (seed 692). It may not lead again in it: nobody could tell the records of two leaderships
        of one epoch apart (decision 0004)."""
        if leadership.leader_epoch == self.leader_epoch:
            return self.is_stopped and leadership.leader not in (NO_LEADER, self.broker)
        return leadership.leader_epoch > self.leader_epoch

    def _take_epochs(self, leadership: LeaderAndIsr, assignment: ReplicaAssignment) -> None:
        self.is_stopped = False
        self.leader = leadership.leader
        self.leader_epoch = leadership.leader_epoch
        self.partition_epoch = leadership.partition_epoch
        self.leader_recovery_state = leadership.leader_recovery_state
        self.assignment = assignment

    def take_order(self, told: ReplicaAssignment) -> None:
        """The same replicas in another order, in the leader epoch that is known: a controller wrote the topic node, and died or was
        elected anew before it raised the epoch. The one behind it sees no reassignment, and tells the order with what it finds.
        """
        known = self.assignment
        is_moving = told.is_being_reassigned or known.is_being_reassigned
        if told != known and not is_moving and set(told.replicas) == set(known.replicas):
            self.assignment = told

    def take_log(self, log: "PartitionLog") -> None:
        """The log has moved: the same records in another directory of this broker. Whoever reads goes on there. A flush of
        the former one that is under way says nothing any more: the caller tells how far this one is (`flushed`).
        """
        assert log.log_end_offset == self.log.log_end_offset
        self.log = log
        # Where it begins later, what it lacks was committed before it was deleted; the start of the former one was not on the disk
        # yet when this broker was killed (seed 1597).
        self.high_watermark = max(self.high_watermark, log.log_start_offset)
        self._wake_readers()  # of the former one they may wait for an index that a thread builds

    def _wake_readers(self) -> None:
        for readers in (self.consumer_readers, self.follower_readers):
            for reader in readers:
                if not reader.is_dirty:
                    reader.wake()

    def readable_again(self) -> None:
        """What could not be looked up for a while can be."""
        self._wake_readers()

    # ---------------------------------------------------------------------------- flush before acknowledging

    def set_flushes_before_ack(self, wanted: bool) -> None:
        self.flushes_before_ack = wanted
        if wanted and self.log.recovery_point < self.log.log_end_offset:
            self._ask_for_flush()

    def _ask_for_flush(self) -> None:
        if not self.is_flushing:
            self.is_flushing = True
            self._outbox.flushes.append(self)

    # ---------------------------------------------------------------------------------------- the follower

    def append_as_follower(
        self, records: memoryview | None, *, leader_high_watermark: int, leader_log_start: int, now_ms: int
    ) -> None:
        """What the leader of our epoch sent from our log end on; the mark may have moved without records."""
        log = self.log
        if records:
            try:
                log.append_as_follower(records, now_ms=now_ms, leader_epoch=self.leader_epoch)
                self.traffic.replicated_bytes_in += len(records)
            finally:  # of several batches the first is in when the second is refused
                if self.flushes_before_ack:
                    self._ask_for_flush()
        mark = min(leader_high_watermark, log.log_end_offset)
        if leader_log_start > log.log_start_offset and leader_log_start <= log.log_end_offset:
            log.delete_records_before(leader_log_start)
        if mark > self.high_watermark:
            self.high_watermark = mark
            log.note_high_watermark(mark)
            self._wake_readers()

    def truncate_to(self, offset: int, now_ms: int) -> None:
        all_at_once(self.truncating_to(offset, now_ms))

    def truncating_to(self, offset: int, now_ms: int) -> Steps[None]:
        """Cut, then lower the mark (KAFKA-14704: raised first, it would name records that go).

        At the very end of the log nothing but empty epochs is cut off. In steps of some milliseconds: after each the log is
        whole, and ends where the leader's answer says or behind that.
        """
        log = self.log
        if offset < self.high_watermark:
            self._outbox.messages.append(
                (
                    "warning",
                    f"{self.topic_partition}: cut to {offset}, below the high watermark {self.high_watermark}: "
                    "the leader was elected from outside the ISR, or lost its disk",
                )
            )
        if offset < log.log_end_offset and (
            offset < self.high_watermark or self.leader_recovery_state or self.keeps_tails
        ):
            end, kept = log.log_end_offset, (yield from keeping_tail(log, offset, now_ms))
            text = f"{self.topic_partition}: offsets {offset} to {end - 1} are cut off behind an unclean leader; {kept}"
            self._outbox.messages.append(("warning", text))
        if offset < log.log_end_offset:
            is_all = offset <= log.log_start_offset
            yield from log.preparing_cut(0 if is_all else offset, min(offset, log.log_start_offset))
        for _ in log.truncating_to(offset, now_ms):
            self._was_cut()
            yield None
        self._was_cut()

    def _was_cut(self) -> None:
        self.high_watermark = min(self.high_watermark, self.log.log_end_offset)
        self._wake_readers()

    def restarting_at(self, offset: int, now_ms: int) -> Steps[None]:
        """Everything of ours is gone at the leader: begin anew at its log start. In steps, as `truncating_to`."""
        yield from self.log.preparing_cut(0, min(offset, self.log.log_start_offset))
        for _ in self.log.restarting_at(offset, now_ms):
            self._was_cut()
            yield None
        self.high_watermark = offset
        self._wake_readers()

    # ---------------------------------------------------------------------------------------------- reading

    def check_epoch(self, current_leader_epoch: int) -> ErrorCode:
        """KIP-320: a reader with another epoch than ours talks to the wrong incarnation. -1: do not check.

        A Fetch asks only with epochs from 0 on, as in Apache."""
        if current_leader_epoch in (self.leader_epoch, NO_EPOCH):
            return ErrorCode.NONE
        if current_leader_epoch < self.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.UNKNOWN_LEADER_EPOCH

    @property
    def last_stable_offset(self) -> int:
        """Below it no transaction is open."""
        return self.log.last_stable_offset(self.high_watermark)

    def divergence_point(self, last_fetched_epoch: int, fetch_offset: int) -> tuple[int, int] | None:
        """KIP-595: (epoch, end offset) at which the follower's log leaves ours; None if it is a prefix."""
        log = self.log
        if last_fetched_epoch == log.latest_epoch:
            epoch, end_offset = last_fetched_epoch, log.log_end_offset
        else:
            epoch, end_offset = log.end_offset_for_epoch(last_fetched_epoch)
        if epoch < 0:
            raise ProtocolError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self.topic_partition}: no epoch up to {last_fetched_epoch} is known here",
            )
        if epoch < last_fetched_epoch or end_offset < fetch_offset:
            return epoch, end_offset
        return None
