"""Changes that every test and every seed once let pass. Nobody met them: somebody made them to see whether they would show.

The test that fails under each stands beside it; the story is in `shown`.
"""

from odradek.broker.handlers import produce
from odradek.broker.replica_manager import ReplicaManager
from odradek.log import lookups, recovery
from odradek.replication.follower import FollowerFetcher
from odradek.replication.followers import FollowerState
from odradek.replication.partition import Partition
from odradek.server.broker_runtime import BrokerRuntime
from odradek.sim.museum.exhibit import Exhibit
from odradek.sim.museum.mutation import Change

EXHIBITS = (
    Exhibit(  # test_a_duplicate_batch_is_acknowledged_when_the_original_is_committed
        "early duplicate",
        "-",
        "a batch that is sent again is acknowledged although the first of it is not committed",
        (Change(produce, "handle", "if acks == ALL:", "if acks == ALL and not result.duplicate:"),),
    ),
    Exhibit(  # test_what_is_written_down_is_how_far_a_replica_is_committed_and_not_how_far_its_log_goes
        "ends as marks",
        "-",
        "the checkpoint of high watermarks holds log ends",
        (
            Change(
                ReplicaManager,
                "checkpoint_high_watermarks",
                "partition.high_watermark",
                "partition.log.log_end_offset",
            ),
            Change(
                BrokerRuntime, "_high_watermarks", "partition.high_watermark", "partition.log.log_end_offset"
            ),
        ),
    ),
    Exhibit(  # test_the_first_batch_behind_a_producer_snapshot_counts_*
        "behind a snapshot",
        "-",
        "of what producers did behind a snapshot the first batch is forgotten: a retry of it is written twice",
        (
            Change(recovery._Opening, "_replay", "header.base_offset >= start", "header.base_offset > start"),
            Change(
                recovery._Opening,
                "_scan",
                "header.base_offset >= self.replay_from",
                "header.base_offset > self.replay_from",
            ),
            Change(lookups, "producers_at", "header.base_offset >= start", "header.base_offset > start"),
        ),
    ),
    Exhibit(  # test_a_mark_that_is_heard_while_the_log_is_not_known_to_be_a_prefix_waits
        "unproven prefix",
        "-",
        "a follower raises its high watermark over a log that may differ from its leader's",
        (Change(FollowerFetcher, "_take_heard_mark", "followed.is_prefix and ", ""),),
    ),
    Exhibit(  # test_a_follower_that_left_the_session_is_not_heard_of_by_what_the_session_goes_on_to_fetch
        "left and heard",
        "-",
        "a follower that fetches a partition no longer counts as heard of, because it fetches another",
        (Change(Partition, "follower_left", "follower.source = None", "pass"),),
    ),
    Exhibit(  # test_where_followers_stood_in_the_epoch_before_commits_nothing
        "old positions",
        "-",
        "in a new epoch a leader counts on where its followers stood in the one before",
        (
            Change(
                FollowerState,
                "reset",
                "self.log_end_offset = UNKNOWN_OFFSET",
                "self.log_end_offset = getattr(self, 'log_end_offset', UNKNOWN_OFFSET)",
            ),
        ),
    ),
)
