"""One partition as its follower goes about it.

A partition is in one of these states:

- FETCHING: its log is a prefix of the leader's, or the leader will say where it leaves it: every fetch
  carries the last epoch of our log and the answer may be `diverging_epoch` (KIP-595): cut, go on.
- TRUNCATING: our log does not know its last epoch (files of an old release). OffsetForLeaderEpoch finds the
  cut before the first fetch.
- LOCATING_END, then perhaps LOCATING_START: our end lies outside the leader's log. ListOffsets says where
  the leader's ends; if that is not before our end, where it begins. If that is not behind our end, the leader has
  refused an end that lies inside its log: it is asked again after a pause.
"""

from collections.abc import Callable
from typing import NamedTuple

from odradek.log.steps import Steps
from odradek.model.ids import BrokerId, LeaderEpoch
from odradek.replication.partition import Partition
from odradek.replication.truncation import plan_truncation

FETCHING = "Fetching"
TRUNCATING = "Truncating"
LOCATING_END = "LocatingEnd"
LOCATING_START = "LocatingStart"

# After an election the new leader may hear of it a moment later than we do, so the first pauses are short.
FIRST_BACKOFF_MS = 5
LATER = 1 << 62  # an answer is awaited, or the log is being cut: nothing to do until then
NOT_NAMED = 1 << 62  # behind the number of every request

Tell = Callable[[str, str], None]  # level, sentence


class FetchLimits(NamedTuple):
    """The settings replica.fetch.*."""

    wait_max_ms: int = 500
    min_bytes: int = 1
    response_max_bytes: int = 10 * 1024 * 1024
    partition_max_bytes: int = 1024 * 1024
    backoff_ms: int = 1000


class FollowedPartition:
    """One partition we fetch, in one leader epoch."""

    __slots__ = (
        "answered_in",
        "asked_end",
        "asked_start",
        "backoff_ms",
        "delayed_until_ms",
        "in_session",
        "is_held_back",
        "is_prefix",
        "leader_epoch",
        "leader_high_watermark_seen",
        "named_at",
        "named_in",
        "partition",
        "state",
    )

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.leader_epoch: LeaderEpoch = partition.leader_epoch
        log = partition.log
        knows_its_end = log.latest_epoch >= 0 or log.log_end_offset == log.log_start_offset
        self.state = FETCHING if knows_its_end else TRUNCATING
        # Invariant: LATER exactly while an answer about our log's end is awaited, or it is cut.
        self.delayed_until_ms = 0
        self.backoff_ms = FIRST_BACKOFF_MS
        self.is_held_back = False  # by a throttle, until `delayed_until_ms`
        self.in_session = False
        # Numbers of requests. Invariant: named_in <= named_at.
        self.named_in = NOT_NAMED  # the first that named it; answers to earlier ones are not about this
        self.named_at = NOT_NAMED  # the last one: answers to earlier ones are about an end our log had before
        self.answered_in = -1  # the last request whose answer had a row for it
        # The highest high watermark heard in this epoch, whatever became of the rest of that answer: the leader
        # tells it once. It holds for our log as soon as that is known to be a prefix of the leader's.
        self.leader_high_watermark_seen = -1
        self.is_prefix = False
        # What the session at the leader has for us: where our log ended and began when we last named the partition.
        # Invariant: while our log is still like that, and `in_session`, the next request need not name it.
        self.asked_end = -1
        self.asked_start = -1

    def goes_on(self, former: "FollowedPartition") -> bool:
        """Whether this is `former` again, which was in the session: the same partition in the same epoch. Then what was heard of
        the leader's high watermark holds, and what is under way as well."""
        if (
            former.partition is not self.partition
            or former.leader_epoch != self.leader_epoch
            or self.state != FETCHING
        ):
            return False
        self.in_session = True
        self.named_in = former.named_in
        self.leader_high_watermark_seen = former.leader_high_watermark_seen
        return True

    def note_asked(self) -> None:
        """A question about our log's end is on its way; nothing else until the answer."""
        self.asked_end = self.partition.log.log_end_offset
        self.delayed_until_ms = LATER

    def ask_again(self, now_ms: int) -> None:
        self.delayed_until_ms = now_ms

    def truncate(
        self, leader: BrokerId, leader_epoch: int, leader_end_offset: int, now_ms: int, tell: Tell
    ) -> Steps[None]:
        """The leader ends `leader_epoch` there. Where that was not all that has to be cut, the next fetch will tell: it names
        the epoch in which the log ends then."""
        partition = self.partition
        truncation = plan_truncation(
            partition.log,
            leader_epoch=leader_epoch,
            leader_end_offset=leader_end_offset,
            high_watermark=partition.high_watermark,
        )
        if truncation.offset < partition.log.log_end_offset:
            tell(
                "info",
                f"{partition.topic_partition}: cut from {partition.log.log_end_offset} to {truncation.offset}: "
                f"leader {leader} ends epoch {leader_epoch} at {leader_end_offset}",
            )
        yield from partition.truncating_to(truncation.offset, now_ms)

    def log_end_found(self, offset: int, now_ms: int, tell: Tell) -> Steps[bool]:
        """The leader's end behind ours: it was elected from outside the ISR, or lost its disk; cut to its end.
        Not behind: its log begins after ours ends; begin where it begins. False: our end lies inside its log."""
        partition = self.partition
        own_end = partition.log.log_end_offset
        is_inside = False
        if self.state == LOCATING_START:
            is_inside = offset <= own_end
            if not is_inside:
                tell(
                    "warning",
                    f"{partition.topic_partition}: our log ends at {own_end}, the leader's begins at "
                    f"{offset}: starting again there",
                )
                yield from partition.restarting_at(offset, now_ms)
            self.state = FETCHING
        elif offset < own_end:
            tell(
                "warning",
                f"{partition.topic_partition}: our log ends at {own_end}, the leader's at {offset}: cut",
            )
            yield from partition.truncating_to(offset, now_ms)
            self.state = FETCHING
        else:
            self.state = LOCATING_START
        return not is_inside
