"""Changes that every test and every seed once let pass. Nobody met them: somebody made them to see whether they would show.

The test that fails under each stands beside it.
"""

from tests.mutants.edit import Edit
from tests.mutants.mutant import Mutant
from tests.mutants.table import own_scenarios

EXHIBITS: tuple[Mutant, ...] = (
    # test_a_duplicate_batch_is_acknowledged_when_the_original_is_committed
    Mutant(
        "early duplicate",
        "a batch that is sent again is acknowledged although the first of it is not committed",
        (
            Edit(
                "broker.handlers.produce:append_all",
                "if acks == ALL: ...",
                "if acks == ALL and (not result.duplicate): ...",
            ),
        ),
        commit="-",
        scenario="a_retry_waits_as_the_first_did",
    ),
    # test_what_is_written_down_is_how_far_a_replica_is_committed_and_not_how_far_its_log_goes
    Mutant(
        "ends as marks",
        "the checkpoint of high watermarks holds log ends",
        (
            Edit(
                "broker.replica_manager:ReplicaManager.checkpoint_high_watermarks",
                "partition.high_watermark",
                "partition.log.log_end_offset",
            ),
            Edit(
                "server.broker_runtime:BrokerRuntime._high_watermarks",
                "partition.high_watermark",
                "partition.log.log_end_offset",
            ),
        ),
        commit="-",
        scenario="a_replica_is_back_and_hears_of_nobody",
    ),
    # test_the_first_batch_behind_a_producer_snapshot_counts_*
    Mutant(
        "behind a snapshot",
        "of what producers did behind a snapshot the first batch is forgotten: a retry of it is written twice",
        (
            Edit(
                "log.recovery:_Opening._replay", "header.base_offset >= start", "header.base_offset > start"
            ),
            Edit(
                "log.recovery:_Opening._scan",
                "header.base_offset >= replay_from",
                "header.base_offset > replay_from",
            ),
            Edit("log.lookups:producers_at", "header.base_offset >= start", "header.base_offset > start"),
        ),
        commit="-",
        scenario="the_first_batch_of_a_segment_is_sent_again",
    ),
    # test_a_mark_that_is_heard_while_the_log_is_not_known_to_be_a_prefix_waits
    Mutant(
        "unproven prefix",
        "a follower raises its high watermark over a log that may differ from its leader's",
        (
            Edit(
                "replication.follower:FollowerFetcher._take_leader_high_watermark",
                "followed.is_prefix",
                "True",
            ),
        ),
        commit="-",
        scenario="a_mark_over_a_log_that_is_not_proven",
    ),
    # test_a_follower_that_left_the_session_is_not_heard_of_by_what_the_session_goes_on_to_fetch
    Mutant(
        "left and heard",
        "a follower that fetches a partition no longer counts as heard of, because it fetches another",
        (Edit("replication.partition:Partition.follower_left", "follower.source = None", "pass"),),
        commit="-",
        scenario="another_partition_of_the_session_says_nothing",
    ),
    # test_where_followers_stood_in_the_epoch_before_commits_nothing
    Mutant(
        "old positions",
        "in a new epoch a leader counts on where its followers stood in the one before",
        (
            Edit(
                "replication.followers:FollowerState.reset",
                "self.log_end_offset = UNKNOWN_OFFSET",
                "self.log_end_offset = getattr(self, 'log_end_offset', UNKNOWN_OFFSET)",
            ),
        ),
        commit="-",
        scenario="elected_again_and_heard_of_nothing_between",
    ),
    # test_a_promise_that_is_kept_a_moment_later_is_named_and_no_snapshot_shows_it
    Mutant(
        "answered at the append",
        "acks=all is answered when the leader has appended",
        (
            Edit(
                "broker.handlers.produce:append_all",
                "partition.high_watermark < required",
                "partition.high_watermark < result.base_offset",
            ),
        ),
        commit="-",
        own_scenario=own_scenarios.PRODUCED_TO_THREE,
    ),
    # test_a_promise_that_is_kept_a_moment_later_is_named_and_no_snapshot_shows_it
    Mutant(
        "one record further",
        "the high watermark is one record above the end of the slowest follower",
        (
            Edit(
                "replication.high_watermark:high_watermark",
                "mark = follower.log_end_offset",
                "mark = follower.log_end_offset + 1",
            ),
        ),
        commit="-",
        own_scenario=own_scenarios.PRODUCED_TO_THREE,
    ),
)
