"""What shows each exhibit, so that a test needs no search: a story, or the exhaustive search (`Exhibit.searched`).

`python -m odradek.sim.museum` searches anew, and says how many seeds it takes (docs/museum.md).
"""

# exhibit -> the story of tests/scenarios that comes out otherwise. Those with a story of their own are not here.
STORIES: dict[str, str] = {
    "1647": "high_watermark_survives_a_restart",
    "6361": "divergence_f_fork_follower_shorter",
    "7152": "a_follower_at_the_end_does_not_lag",
    "7164": "late_watches",
    "7415": "an_epoch_without_records",
    "7747": "a_consumer_learns_of_the_cut",
    "9196": "too_few_in_sync",
    "9198": "parked_when_the_topic_goes",
    "10371": "follower_hears_first",
    "10554": "an_idle_follower_learns_the_high_watermark",
    "10706": "an_empty_epoch_is_cut_off",
    "13091": "a_new_segment_and_a_power_cut",
    "13207": "zombie_feeds_its_old_follower",
    "15583": "too_few_in_sync",
    "1483": "a_session_ends_and_the_process_lives",
    "15021": "h1_emptied_while_the_proposal_travels",
    "9839": "newer_epoch_than_heard_of",
    "3003": "a_long_poll",
    "3159": "a_long_poll",
    "3123": "records_deleted_while_away",
    "3978": "mark_written_down_and_log_lost",
    "3143": "clean_election_waits",
    "4623": "clean_election_waits",
    "6082": "deposed_while_its_watches_are_late",
    "9539": "late_requests_to_stop",
    "13916": "a_dead_broker_does_not_join",
    "14140": "who_shuts_down_does_not_return",
    "14144": "lost_answer_to_a_proposal",
    "14617": "h1_emptied_while_the_proposal_travels",
    "15665": "a_target_falls_behind",
    "13407": "own_node_without_a_term",
    "9491": "reassignment_twelve_steps",
    "13972": "cancelled_reassignment",
    "6193": "several_reassignments_of_one_topic",
    "6612": "grown_while_it_goes",
    "2721": "lost_answer_to_a_proposal",
    "5473": "the_store_is_away_and_the_session_ends",
    "6879": "session_ends_at_the_controller",
    "13254": "a_target_falls_behind",
    "KIP-380": "late_requests_to_stop",
    "row 146": "late_leadership",
    "5634": "retention_spares_what_is_not_committed",
    "12520": "a_retry_after_a_clean_restart",
    "3968": "a_new_segment_and_a_power_cut",
    "16157": "deleted_while_its_disk_was_away",
    "same epoch": "same_epoch_restart_of_a_leader",
    "idle follower": "an_idle_follower_learns_the_high_watermark",
    "cut off": "a_controller_resigns_while_cut_off",
    "checkpoints": "made_again_and_restarted",
    "seed 360": "nothing_is_made_again_while_it_goes",
    "new registration": "a_follower_registers_anew_while_it_is_out_of_the_isr",
    "store away": "the_store_goes_away_before_the_registration",
    "H1": "h1_emptied_and_the_proposal_is_sent_again",
    "seed 596": "a_leaver_is_not_eligible",
    "seed 475": "an_eligible_replica_returns_without_its_records",
    "seed 343": "nothing_is_committed_without_those_that_leave",
    "seed 633": "the_partition_moves_while_a_flush_is_under_way",
    "seed 116": "told_again_in_a_new_epoch",
    "seed 258": "a_deletion_is_synced_before_it_is_answered",
    "found damaged": "a_bit_turns_in_the_only_copy",
    "seed 1823": "who_is_controller_is_heard_while_the_store_is_away",
    "seed 376": "added_and_taken_away_twice",
    "seed 1696": "sent_off_again_before_it_answered",
    "seed 538": "added_and_taken_away_twice",
    "dead leaver": "a_dead_leaver_returns",
    "seed 327": "late_within_a_term",
    "unclean together": "two_return_without_their_records",
    "seed 993": "the_log_that_says_nothing_is_meant",
    "seed 9029": "a_topic_goes_while_its_flush_is_under_way",
    "walk 1313": "who_is_sent_off_is_not_elected",
    "next controller": "an_eligible_replica_returns_while_nobody_leads",
    "no session": "a_follower_without_a_session_waits",
    "unreadable": "a_registration_that_cannot_be_read",
    "walk 810": "called_back_and_the_controller_dies_at_once",
    "raised": "min_isr_is_raised_while_the_leaders_watches_are_late",
    "last member": "the_last_member_returns_while_nobody_leads",
    "early duplicate": "a_retry_waits_as_the_first_did",
    "ends as marks": "a_replica_is_back_and_hears_of_nobody",
    "behind a snapshot": "the_first_batch_of_a_segment_is_sent_again",
    "unproven prefix": "a_mark_over_a_log_that_is_not_proven",
    "left and heard": "another_partition_of_the_session_says_nothing",
    "old positions": "elected_again_and_heard_of_nothing_between",
}
# exhibit -> why the rest of our code makes the line harmless. These are not counted as shown.
HARMLESS: dict[str, str] = {
    "2143": "only a replica outside the ISR has an end outside its leader's log, and it fetches everything anew "
    "before it may join",
    "7104": "a leader looks at offset and log start at once, and refuses a fetch below its start: the start it "
    "tells never lies above the follower's end",
    "10471": "the mark is only a claim: a log without a producer snapshot at its very end, which a clean stop "
    "writes, is recovered all the same",
    "12153": "a follower that is out of range is cut to its leader's end, and its next fetch names its last epoch: "
    "the divergence is found then, two requests later",
    "12686": "one AlterPartition is in flight, and new leadership leaves nothing pending: an old answer finds "
    "nothing to settle. All states of two brokers are searched without harm (explore)",
    "12751": "a proposal always differs from what is stored under the partition epoch it names, so a success never "
    "repeats what the leader has",
    "12996": "the log itself refuses to be read below its start",
    "14154": "FENCED_LEADER_EPOCH ends nothing with us: the leader keeps its proposal and asks whoever is "
    "controller by then, once a second",
    "14704": "between raising the mark and cutting nobody else runs, and the cut lowers the mark",
    "15221": "a fetch of the former life came over a connection older than those of the present one, and moves nothing "
    "while that one fetches; nor does the controller take a former life into the ISR (KIP-903): 14617 and 15021 show that "
    "guard",
    "16541": "what the file lacks is read from the batches at the next start; an epoch without records ends where "
    "it began",
    "9672": "whoever leaves the assignment leaves the ISR in a write of its own, so a proposal that still names it "
    "has an old partition epoch and is refused for that",
    "9946": "whoever waits looks around after either error, and nobody takes the answer for a deletion: that is "
    "told by what was asked for",
}
