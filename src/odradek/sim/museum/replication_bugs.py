"""High watermark, truncation, ISR as the leader sees it."""

from odradek.broker.core import Broker
from odradek.broker.handlers.fetch import FetchWait
from odradek.broker.replica_manager import ReplicaManager
from odradek.log import cutting
from odradek.log.log_manager import LogManager
from odradek.replication.followed import FollowedPartition
from odradek.replication.follower import FollowerFetcher
from odradek.replication.isr import PendingExpandIsr, PendingShrinkIsr
from odradek.replication.partition import Partition
from odradek.replication.replica import Replica
from odradek.sim.museum import stories
from odradek.sim.museum.exhibit import Exhibit
from odradek.sim.museum.mutation import Change

RESIGN = "self._resign(ErrorCode.NOT_LEADER_OR_FOLLOWER)"
DIVERGES = "if epoch < last_fetched_epoch or end_offset < fetch_offset:"

EXHIBITS = (
    Exhibit(
        "1211",
        "KIP-101",
        "a follower cuts to its own high watermark, is elected, and acknowledged records are gone everywhere",
        (
            Change(Partition, "make_follower", RESIGN, f"self.truncate_to(self.high_watermark, 0); {RESIGN}"),
            Change(Replica, "is_diverging", DIVERGES, "if False:"),
        ),
        story=stories.MARK_ONE_FETCH_LATE,
        searched="cut_to_high_watermark",
    ),
    Exhibit(
        "1647",
        "1ed9cf6d036",
        "the checkpoint of high watermarks is lost: after a restart a replica begins at 0",
        (
            Change(
                LogManager,
                "high_watermark_of",
                "return max(log.log_start_offset, min(written, log.log_end_offset))",
                "return log.log_start_offset",
            ),
        ),
    ),
    Exhibit(
        "725",
        "c7bab99b77b",
        "a consumer whose offset lies between high watermark and log end is answered with an error",
        (
            Change(
                FetchWait,
                "_look",
                "if diverging is None and (offset > log.log_end_offset",
                "if diverging is None and (offset > partition.high_watermark",
            ),
        ),
        story=stories.BETWEEN_MARK_AND_END,
    ),
    Exhibit(
        "2143",
        "87eccb9a3be",
        "a follower ahead of its new leader throws its whole log away instead of cutting it",
        (
            Change(
                FollowedPartition,
                "log_end_found",
                "partition.truncate_to(offset, now_ms)",
                "partition.restart_at(0, now_ms)",
            ),
        ),
    ),
    Exhibit(
        "6361",
        "9679c44d2b5",
        "two failovers in a row: the leader does not know the follower's epoch, and logs stay different",
        (Change(Replica, "is_diverging", DIVERGES, "if fetch_offset > log.log_end_offset:"),),
        searched="shorter_is_a_prefix",
    ),
    Exhibit(
        "7104",
        "f4d231ae455",
        "a follower moves its log start to where the leader's is, beyond its own records",
        (
            Change(
                Replica,
                "append_as_follower",
                " and leader_log_start <= log.log_end_offset",
                "",
            ),
        ),
    ),
    Exhibit(
        "7128",
        "70c51633f2f",
        "a follower joins the ISR at the high watermark, below the start of the leader's epoch",
        (
            Change(
                Partition,
                "is_in_sync",
                "and follower.log_end_offset >= self.leader_epoch_start_offset",
                "",
            ),
        ),
        searched="joins_below_the_epoch",
    ),
    Exhibit(
        "7152",
        "9a7f29c1ede",
        "a follower that has everything leaves the ISR because it was silent",
        (
            Change(
                Partition,
                "shrink_if_lagging",
                "and follower.log_end_offset != leader_end",
                "",
            ),
        ),
    ),
    Exhibit(
        "7164",
        "69283b4038a",
        "a follower whose leader stays in a new epoch begins nothing anew",
        (
            Change(
                ReplicaManager,
                "_commit_one",
                "if leadership.leader >= 0:",
                "if leadership.leader not in (-1, previous):",
            ),
        ),
    ),
    Exhibit(
        "7395",
        "ed3bd79633a",
        "fetches without fencing: a reader of an older epoch is served and heard",
        (
            Change(
                FetchWait,
                "_look",
                "if current_epoch != partition.leader_epoch and current_epoch >= 0:",
                "if False:",
            ),
        ),
        searched="no_epoch_in_fetch",
    ),
    Exhibit(
        "7415",
        "f2dd6aa2698",
        "a leader that wrote nothing in its epoch does not know it when a follower asks",
        (
            Change(
                Partition,
                "make_leader",
                "self.log.assign_epoch(leadership.leader_epoch, self.log.log_end_offset)",
                "pass",
            ),
        ),
    ),
    Exhibit(
        "9196",
        "7eafea0d575",
        "consumers see records above the high watermark",
        (
            Change(
                FetchWait,
                "_look",
                "high_watermark = upper_bound = partition.high_watermark",
                "high_watermark = upper_bound = log.log_end_offset",
            ),
        ),
    ),
    Exhibit(
        "9198",
        "58d57cf192a",
        "requests parked at a replica that is stopped wait for their timeout",
        (
            Change(
                Partition,
                "stop",
                "self._resign(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if deleted else ",
                "self.is_leader = bool(0 and ",
            ),
        ),
    ),
    Exhibit(
        "10554",
        "7ecc3a579a4",
        "a follower does not cut where the answer to its fetch says that the logs part",
        (
            Change(
                FollowerFetcher,
                "_partition_fetched",
                "if diverging is not None:",
                "if diverging is None and error:",
            ),
        ),
    ),
    Exhibit(
        "10706",
        "24e234a5e37",
        "an epoch without records is never cut off: the follower asks for ever",
        (Change(cutting, "truncate_to", "if epochs.truncate_from_end(offset):", "if False:"),),
    ),
    Exhibit(
        "12153",
        "b65a36344a0",
        "a follower whose end is beyond the leader's is told out of range instead of where the logs part",
        (
            Change(
                FetchWait,
                "_look",
                "if diverging is None:\n                raise",
                "if True:\n                raise",
            ),
        ),
    ),
    Exhibit(
        "13091",
        "26ee78f3923",
        "the ISR has shrunk, and what waited for the laggard alone is not committed",
        (
            Change(
                Partition,
                "_commit_isr",
                "self._advance_high_watermark(now_ms)",
                "pass",
            ),
            Change(
                Partition,
                "shrink_if_lagging",
                "self._advance_high_watermark(now_ms)",
                "pass",
            ),
        ),
    ),
    Exhibit(
        "13141",
        "fe0fe686e92",
        "a fetch that is answered with a divergence moves the follower's position all the same",
        (
            Change(
                FetchWait,
                "_look",
                "elif diverging is None and wanted.has_moved:",
                "elif wanted.has_moved:",
            ),
        ),
        searched="counted_before_cut",
    ),
    Exhibit(
        "13207",
        "fa2995214ba",
        "an answer that comes after the leadership changed is applied all the same",
        (
            Change(
                FollowerFetcher,
                "_partition_fetched",
                "if partition.leader_epoch != followed.leader_epoch or partition.is_leader:",
                "if False:",
            ),
            Change(FollowerFetcher, "remove", "self.partitions.pop(", "self.partitions.get("),
            Change(FollowerFetcher, "remove", "self._by_id.pop(", "self._by_id.get("),
        ),
    ),
    Exhibit(
        "14704",
        "bd32d98bd7c",
        "a follower raises its high watermark before it cuts",
        (
            Change(
                FollowerFetcher,
                "_partition_fetched",
                "followed.truncate(self.leader, *diverging, now_ms, self._tell)",
                "followed.is_prefix = True; self._take_heard_mark(followed, now_ms); "
                "followed.truncate(self.leader, *diverging, now_ms, self._tell)",
            ),
        ),
    ),
    Exhibit(
        "15221",
        "d46781d4db3",
        "a fetch sent before the follower was restarted moves its position",
        (
            Change(
                Partition,
                "follower_fetched",
                "if broker_epoch < follower.broker_epoch and broker_epoch != UNKNOWN_BROKER_EPOCH:",
                "if False:",
            ),
        ),
    ),
    Exhibit(
        "15583",
        "edc7e10a745",
        "the high watermark moves while too few are in sync",
        (
            Change(
                Partition,
                "_advance_high_watermark",
                "self.is_under_min_isr or ",
                "",
            ),
        ),
    ),
    Exhibit(
        "8836",
        "57de67db22e",
        "a leader counts on a smaller ISR before the controller has stored it",
        (Change(PendingShrinkIsr, "maximal_isr", "return self.isr", "return self.proposed_isr"),),
        searched="shrink_before_the_answer",
    ),
    Exhibit(
        "8836 (2)",
        "57de67db22e",
        "the high watermark does not wait for a replica the controller was asked to add",
        (Change(PendingExpandIsr, "maximal_isr", "return self.isr + self.joining", "return self.isr"),),
        searched="mark_over_committed_isr",
    ),
    Exhibit(
        "1483",
        "d9e5080dfce",
        "split brain: an old leader is told to follow, and leads on",
        (Change(Partition, "make_follower", RESIGN, "pass"),),
    ),
    Exhibit(
        "12686",
        "aefe0e4d8cb",
        "the answer to a proposal of an older epoch is taken for the present one's",
        (
            Change(Partition, "isr_answered", "or proposal.leader_epoch != self.leader_epoch", ""),
            Change(Partition, "isr_answered", "or proposal.partition_epoch != self.partition_epoch", ""),
            Change(Partition, "_commit_isr", "or leadership.leader_epoch != self.leader_epoch", ""),
            Change(
                Partition, "_commit_isr", "if leadership.partition_epoch < self.partition_epoch:", "if False:"
            ),
        ),
    ),
    Exhibit(
        "12751",
        "66a3a43f13a",
        "an ISR change that turns out to be what is stored stays under way for ever",
        (
            Change(
                Partition,
                "_commit_isr",
                "if leadership.partition_epoch < self.partition_epoch:",
                "if leadership.isr == self.state.isr:",
            ),
        ),
    ),
    Exhibit(
        "15021",
        "53184b75548",
        "the leader proposes a follower without saying which life of it was in sync",
        (
            Change(
                Partition,
                "proposal",
                "{**self._proposed_epochs, self.broker: own_broker_epoch}",
                "{self.broker: own_broker_epoch}",
            ),
        ),
    ),
    Exhibit(
        "10371",
        "e7f81a6579a",
        "an error of a leader that has not heard of the reassignment yet ends the follower's fetching",
        (
            Change(
                FollowerFetcher,
                "_partition_fetched",
                "will hear from the controller.\n        self._delay(followed, now_ms)",
                "will hear from the controller.\n        self.remove(topic_partition)",
            ),
        ),
    ),
    Exhibit(
        "12996",
        "4f133d5d5c0",
        "a follower that asks below the leader's log start is not told so",
        (
            Change(
                FetchWait,
                "_look",
                "if offset > upper_bound or offset < log.log_start_offset:",
                "if offset > upper_bound:",
            ),
        ),
    ),
    Exhibit(
        "3003",
        "216c75bbc56",
        "a consumer's fetch that waits is not answered when there is something to read",
        (
            Change(
                Partition,
                "_advance_high_watermark",
                "for reader in self.consumer_readers:",
                "for reader in ():",
            ),
        ),
    ),
    Exhibit(
        "3978",
        "e6724b8db64",
        "a replica takes its high watermark from the checkpoint, whatever became of its log",
        (
            Change(
                LogManager,
                "high_watermark_of",
                "return max(log.log_start_offset, min(written, log.log_end_offset))",
                "return written",
            ),
            Change(
                Replica,
                "__init__",
                "self.high_watermark = max(min(high_watermark, log.log_end_offset), log.log_start_offset)",
                "self.high_watermark = high_watermark",
            ),
        ),
    ),
    Exhibit(
        "7747",
        "ba290e2ea15",
        "a consumer is not told that the log it has read was cut",
        (
            Change(
                FetchWait,
                "_look",
                "if diverging is None and (offset > log.log_end_offset or offset < log.log_start_offset):",
                "diverging = None\n        if offset > log.log_end_offset or offset < log.log_start_offset:",
            ),
        ),
    ),
    Exhibit(
        "3159",
        "b23447db22a",
        "a consumer's fetch with nothing to read is answered at once, again and again",
        (Change(FetchWait, "gather", "at_once = is_final or", "at_once = True or"),),
    ),
    Exhibit(
        "3123",
        "2d154420c54",
        "a follower whose end is out of its leader's range stops its broker",
        (
            Change(
                FollowerFetcher,
                "_partition_fetched",
                "followed.state = LOCATING_END",
                "raise AssertionError(error)",
            ),
        ),
    ),
    Exhibit(
        "9839",
        "bd17085ec10",
        "a broker refuses requests that name a newer epoch of it than it has heard of",
        (Change(Broker, "why_stale", "and broker_epoch < self", "and broker_epoch != self"),),
    ),
)
