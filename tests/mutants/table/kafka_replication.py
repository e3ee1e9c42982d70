"""High watermark, truncation, ISR as the leader sees it."""

from tests.mutants.edit import Edit
from tests.mutants.mutant import Mutant
from tests.mutants.table import own_scenarios

EXHIBITS: tuple[Mutant, ...] = (
    Mutant(
        "1211",
        "a follower cuts to its own high watermark, is elected, and acknowledged records are gone everywhere",
        (
            Edit(
                "replication.partition:Partition.make_follower",
                "self._resign(ErrorCode.NOT_LEADER_OR_FOLLOWER)",
                ("self.truncate_to(self.high_watermark, 0)\nself._resign(ErrorCode.NOT_LEADER_OR_FOLLOWER)"),
            ),
            Edit(
                "replication.replica:Replica.divergence_point",
                "epoch < last_fetched_epoch or end_offset < fetch_offset",
                "False",
            ),
        ),
        commit="KIP-101",
        own_scenario=own_scenarios.MARK_ONE_FETCH_LATE,
        searched="cut_to_high_watermark",
    ),
    Mutant(
        "1647",
        "the checkpoint of high watermarks is lost: after a restart a replica begins at 0",
        (
            Edit(
                "log.log_checkpoints:LogCheckpoints.high_watermark_of",
                "max(log.log_start_offset, min(written, log.log_end_offset))",
                "log.log_start_offset",
            ),
        ),
        commit="1ed9cf6d036",
        scenario="high_watermark_survives_a_restart",
    ),
    Mutant(
        "725",
        "a consumer whose offset lies between high watermark and log end is answered with an error",
        (
            Edit(
                "broker.handlers.fetch:FetchWait._read_partition",
                "offset > log.log_end_offset",
                "offset > partition.high_watermark",
            ),
        ),
        commit="c7bab99b77b",
        own_scenario=own_scenarios.BETWEEN_MARK_AND_END,
    ),
    Mutant(
        "2143",
        "a follower ahead of its new leader throws its whole log away instead of cutting it",
        (
            Edit(
                "replication.followed:FollowedPartition.log_end_found",
                "partition.truncating_to(offset, now_ms)",
                "partition.restarting_at(0, now_ms)",
            ),
        ),
        commit="87eccb9a3be",
        harmless="only a replica outside the ISR has an end outside its leader's log, and it fetches everything anew before it may join",
    ),
    Mutant(
        "6361",
        "two failovers in a row: the leader does not know the follower's epoch, and logs stay different",
        (
            Edit(
                "replication.replica:Replica.divergence_point",
                "epoch < last_fetched_epoch or end_offset < fetch_offset",
                "fetch_offset > log.log_end_offset",
            ),
        ),
        commit="9679c44d2b5",
        scenario="divergence_f_fork_follower_shorter",
        searched="shorter_is_a_prefix",
    ),
    Mutant(
        "7104",
        "a follower moves its log start to where the leader's is, beyond its own records",
        (
            Edit(
                "replication.replica:Replica.append_as_follower",
                "leader_log_start > log.log_start_offset and leader_log_start <= log.log_end_offset",
                "leader_log_start > log.log_start_offset",
            ),
        ),
        commit="f4d231ae455",
        harmless="a leader looks at offset and log start at once, and refuses a fetch below its start: the start it tells never lies above the follower's end",
    ),
    Mutant(
        "7128",
        "a follower joins the ISR at the high watermark, below the start of the leader's epoch",
        (
            Edit(
                "replication.partition:Partition.is_in_sync",
                "follower.log_end_offset >= self.leader_epoch_start_offset",
                "True",
            ),
        ),
        commit="70c51633f2f",
        searched="joins_below_the_epoch",
    ),
    Mutant(
        "7152",
        "a follower that has everything leaves the ISR because it was silent",
        (
            Edit(
                "replication.partition:Partition.shrink_if_lagging",
                "follower.log_end_offset != leader_end",
                "True",
            ),
        ),
        commit="9a7f29c1ede",
        scenario="a_follower_at_the_end_does_not_lag",
    ),
    Mutant(
        "7164",
        "a follower whose leader stays in a new epoch begins nothing anew",
        (
            Edit(
                "broker.replica_manager:ReplicaManager._commit_one",
                "leadership.leader >= 0",
                "leadership.leader not in (-1, previous)",
            ),
        ),
        commit="69283b4038a",
        scenario="late_watches",
    ),
    Mutant(
        "7395",
        "fetches without fencing: a reader of an older epoch is served and heard",
        (
            Edit(
                "broker.handlers.fetch:FetchWait._read_partition",
                "current_epoch != partition.leader_epoch and current_epoch >= 0",
                "False",
            ),
        ),
        commit="ed3bd79633a",
        searched="no_epoch_in_fetch",
    ),
    Mutant(
        "7415",
        "a leader that wrote nothing in its epoch does not know it when a follower asks",
        (
            Edit(
                "replication.partition:Partition.make_leader",
                "self.log.assign_epoch(leadership.leader_epoch, self.log.log_end_offset)",
                "pass",
            ),
        ),
        commit="f2dd6aa2698",
        scenario="an_epoch_without_records",
    ),
    Mutant(
        "9196",
        "consumers see records above the high watermark",
        (
            Edit(
                "broker.handlers.fetch:FetchWait._read_partition",
                "high_watermark = upper_bound = partition.high_watermark",
                "high_watermark = upper_bound = log.log_end_offset",
            ),
        ),
        commit="7eafea0d575",
        scenario="too_few_in_sync",
    ),
    Mutant(
        "9198",
        "requests parked at a replica that is stopped wait for their timeout",
        (
            Edit(
                "replication.partition:Partition.stop",
                "self._resign(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if deleted else ErrorCode.NOT_LEADER_OR_FOLLOWER)",
                "self.is_leader = bool(0 and ErrorCode.NOT_LEADER_OR_FOLLOWER)",
            ),
        ),
        commit="58d57cf192a",
        scenario="parked_when_the_topic_goes",
    ),
    Mutant(
        "10554",
        "a follower does not cut where the answer to its fetch says that the logs part",
        (
            Edit(
                "replication.follower:FollowerFetcher._partition_fetched",
                "diverging is not None",
                "diverging is None and error",
            ),
        ),
        commit="7ecc3a579a4",
        scenario="elected_again_and_heard_of_nothing_between",
    ),
    Mutant(
        "10706",
        "an epoch without records is never cut off: the follower asks for ever",
        (Edit("log.truncation:truncate_to", "epochs.truncate_from_end(offset)", "False"),),
        commit="24e234a5e37",
        scenario="an_empty_epoch_is_cut_off",
    ),
    Mutant(
        "12153",
        "a follower whose end is beyond the leader's is told out of range instead of where the logs part",
        (
            Edit(
                "broker.handlers.fetch:FetchWait._read_partition", "if diverging is None: ...", "if True: ..."
            ),
        ),
        commit="b65a36344a0",
        harmless="a follower that is out of range is cut to its leader's end, and its next fetch names its last epoch: the divergence is found then, two requests later",
    ),
    Mutant(
        "13091",
        "the ISR has shrunk, and what waited for the laggard alone is not committed",
        (
            Edit(
                "replication.partition:Partition._commit_isr", "self._advance_high_watermark(now_ms)", "pass"
            ),
            Edit(
                "replication.partition:Partition.shrink_if_lagging",
                "self._advance_high_watermark(now_ms)",
                "pass",
            ),
        ),
        commit="26ee78f3923",
        scenario="a_new_segment_and_a_power_cut",
    ),
    Mutant(
        "13141",
        "a fetch that is answered with a divergence moves the follower's position all the same",
        (
            Edit(
                "broker.handlers.fetch:FetchWait._read_partition",
                "diverging is None and wanted.has_moved",
                "wanted.has_moved",
            ),
        ),
        commit="fe0fe686e92",
        searched="counted_before_cut",
    ),
    Mutant(
        "13207",
        "an answer that comes after the leadership changed is applied all the same",
        (
            Edit(
                "replication.follower:FollowerFetcher._partition_fetched",
                "partition.leader_epoch != followed.leader_epoch",
                "False",
            ),
            Edit("replication.follower:FollowerFetcher.remove", "self.partitions.pop", "self.partitions.get"),
            Edit("replication.follower:FollowerFetcher.remove", "self._by_id.pop", "self._by_id.get"),
        ),
        commit="fa2995214ba",
        scenario="zombie_feeds_its_old_follower",
    ),
    Mutant(
        "14704",
        "a follower raises its high watermark before it cuts",
        (
            Edit(
                "replication.follower:FollowerFetcher._partition_fetched",
                "steps = followed.truncate(self.leader, *diverging, now_ms, self._tell)",
                (
                    "followed.is_prefix = True\n"
                    "self._take_leader_high_watermark(followed, now_ms)\n"
                    "steps = followed.truncate(self.leader, *diverging, now_ms, self._tell)"
                ),
            ),
        ),
        commit="bd32d98bd7c",
        harmless="between raising the mark and a cut of one turn nobody else runs, and the cut lowers the mark",
    ),
    Mutant(
        "15221",
        "a fetch sent before the follower was restarted moves its position",
        (
            Edit(
                "replication.partition:Partition.follower_fetched",
                "broker_epoch < follower.broker_epoch and broker_epoch != UNKNOWN_BROKER_EPOCH",
                "False",
            ),
        ),
        commit="d46781d4db3",
        harmless="a fetch of the former incarnation came over a connection older than those of the present one, and moves nothing while that one fetches; nor does the controller take a former incarnation into the ISR (KIP-903): 14617 and 15021 show that guard",
    ),
    Mutant(
        "15583",
        "the high watermark moves while too few are in sync",
        (
            Edit(
                "replication.partition:Partition._advance_high_watermark",
                "self.is_under_min_isr or self.has_unassigned_in_isr",
                "self.has_unassigned_in_isr",
            ),
        ),
        commit="edc7e10a745",
        scenario="too_few_in_sync",
    ),
    Mutant(
        "8836",
        "a leader counts on a smaller ISR before the controller has stored it",
        (Edit("replication.isr:PendingShrinkIsr.maximal_isr", "self.isr", "self.proposed_isr"),),
        commit="57de67db22e",
        searched="shrink_before_the_answer",
    ),
    Mutant(
        "8836 (2)",
        "the high watermark does not wait for a replica the controller was asked to add",
        (Edit("replication.isr:PendingExpandIsr.maximal_isr", "self.isr + self.joining", "self.isr"),),
        commit="57de67db22e",
        searched="mark_over_committed_isr",
    ),
    Mutant(
        "1483",
        "split brain: an old leader is told to follow, and leads on",
        (
            Edit(
                "replication.partition:Partition.make_follower",
                "self._resign(ErrorCode.NOT_LEADER_OR_FOLLOWER)",
                "pass",
            ),
        ),
        commit="d9e5080dfce",
        scenario="a_session_ends_and_the_process_lives",
    ),
    Mutant(
        "12686",
        "the answer to a proposal of an older epoch is taken for the present one's",
        (
            Edit(
                "replication.partition:Partition.isr_answered",
                "proposal.leader_epoch != self.leader_epoch",
                "False",
            ),
            Edit(
                "replication.partition:Partition.isr_answered",
                "proposal.partition_epoch != self.partition_epoch",
                "False",
            ),
            Edit(
                "replication.partition:Partition._commit_isr",
                "leadership is None or leadership.leader_epoch != self.leader_epoch",
                "leadership is None",
            ),
            Edit(
                "replication.partition:Partition._commit_isr",
                "leadership.partition_epoch < self.partition_epoch",
                "False",
            ),
        ),
        commit="aefe0e4d8cb",
        harmless="one AlterPartition is in flight, and new leadership leaves nothing pending: an old answer finds nothing to settle. All states of two brokers are searched without harm (explore)",
    ),
    Mutant(
        "12751",
        "an ISR change that turns out to be what is stored stays under way for ever",
        (
            Edit(
                "replication.partition:Partition._commit_isr",
                "leadership.partition_epoch < self.partition_epoch",
                "leadership.isr == self.state.isr",
            ),
        ),
        commit="66a3a43f13a",
        harmless="a proposal always differs from what is stored under the partition epoch it names, so a success never repeats what the leader has",
    ),
    Mutant(
        "15021",
        "the leader proposes a follower without saying which life of it was in sync",
        (
            Edit(
                "replication.partition:Partition.proposal",
                "{**self._proposed_epochs, self.broker: own_broker_epoch}",
                "{self.broker: own_broker_epoch}",
            ),
        ),
        commit="53184b75548",
        scenario="h1_emptied_while_the_proposal_travels",
    ),
    Mutant(
        "10371",
        "an error of a leader that has not heard of the reassignment yet ends the follower's fetching",
        (
            Edit(
                "replication.follower:FollowerFetcher._partition_fetched",
                "self._delay(followed, now_ms)",
                "self.remove(topic_partition)",
            ),
        ),
        commit="e7f81a6579a",
        scenario="follower_hears_first",
    ),
    Mutant(
        "12996",
        "a follower that asks below the leader's log start is not told so",
        (
            Edit(
                "broker.handlers.fetch:FetchWait._read_partition",
                "offset > upper_bound or offset < log.log_start_offset",
                "offset > upper_bound",
            ),
        ),
        commit="4f133d5d5c0",
        harmless="the log itself refuses to be read below its start",
    ),
    Mutant(
        "3003",
        "a consumer's fetch that waits is not answered when there is something to read",
        (Edit("replication.partition:Partition._advance_high_watermark", "self.consumer_readers", "()"),),
        commit="216c75bbc56",
        scenario="a_long_poll",
    ),
    Mutant(
        "3978",
        "a replica takes its high watermark from the checkpoint, whatever became of its log",
        (
            Edit(
                "log.log_checkpoints:LogCheckpoints.high_watermark_of",
                "max(log.log_start_offset, min(written, log.log_end_offset))",
                "written",
            ),
            Edit(
                "replication.replica:Replica.__init__",
                "max(min(high_watermark, log.log_end_offset), log.log_start_offset)",
                "high_watermark",
            ),
            # As it was when nothing lowered what is written down.
            Edit("log.log_directory:LogDirectory.ends_are_known", "written.get(key, 0) > end", "False"),
        ),
        commit="e6724b8db64",
        scenario="mark_written_down_and_log_lost",
    ),
    Mutant(
        "7747",
        "a consumer is not told that the log it has read was cut",
        (
            Edit(
                "broker.handlers.fetch:FetchWait._read_partition",
                (
                    "if diverging is None and (offset > log.log_end_offset or offset < log.log_start_offset):\n"
                    "    raise ProtocolError(ErrorCode.OFFSET_OUT_OF_RANGE)"
                ),
                (
                    "diverging = None\n"
                    "if offset > log.log_end_offset or offset < log.log_start_offset:\n"
                    "    raise ProtocolError(ErrorCode.OFFSET_OUT_OF_RANGE)"
                ),
            ),
        ),
        commit="ba290e2ea15",
        scenario="a_consumer_learns_of_the_cut",
    ),
    Mutant(
        "3159",
        "a consumer's fetch with nothing to read is answered at once, again and again",
        (Edit("broker.handlers.fetch:FetchWait.gather", "is_final", "True"),),
        commit="b23447db22a",
        scenario="a_long_poll",
    ),
    Mutant(
        "3123",
        "a follower whose end is out of its leader's range stops its broker",
        (
            Edit(
                "replication.follower:FollowerFetcher._partition_fetched",
                "followed.state = LOCATING_END",
                "raise AssertionError(error)",
            ),
        ),
        commit="2d154420c54",
        scenario="records_deleted_while_away",
    ),
    Mutant(
        "9839",
        "a broker refuses requests that name a newer epoch of it than it has heard of",
        (
            Edit(
                "broker.core:Broker.broker_epoch_error",
                "broker_epoch < self.broker_epoch",
                "broker_epoch != self.broker_epoch",
            ),
        ),
        commit="bd17085ec10",
        scenario="newer_epoch_than_heard_of",
    ),
)
