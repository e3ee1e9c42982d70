"""Bugs of our own that the simulator, a scenario or the exhaustive search found; docs/simulator.md tells of the most instructive.

Where a seed found one, it stands under that seed's number, though what the seed does has shifted since with the code.
"""

from tests.mutants.edit import Edit
from tests.mutants.mutant import Mutant

EXHIBITS: tuple[Mutant, ...] = (
    Mutant(
        "same epoch",
        "a leader that restarts before any controller has seen its death leads on in the same leader epoch",
        (
            Edit(
                "controller.incarnations:_was_restarted",
                "stored.isr_broker_epochs[stored.leader_and_isr.isr.index(member)] != epoch",
                "False",
            ),
            Edit(
                "broker.replica_manager:ReplicaManager._is_of_a_former_life",
                "log.latest_epoch >= leadership.leader_epoch",
                "False",
            ),
        ),
        commit="b7f1e0f",
        scenario="same_epoch_restart_of_a_leader",
    ),
    Mutant(
        "idle follower",
        "a follower of an idle partition that was cut is never told the high watermark again",
        (
            Edit("broker.handlers.fetch:FetchWait._read_partition", "wanted.is_refused = True", "pass"),
            Edit(
                "replication.follower:FollowerFetcher._partition_fetched",
                "error == 0 and leader_high_watermark > followed.leader_high_watermark_seen",
                "error == 0 and diverging is None and (leader_high_watermark > followed.leader_high_watermark_seen)",
            ),
        ),
        commit="b7f1e0f",
        scenario="an_idle_follower_learns_the_high_watermark",
    ),
    Mutant(
        "cut off",
        "a controller resigns while it is cut off, its session outlives that, and /controller is held by nobody",
        (Edit("server.controller_runtime:ControllerRuntime._end_term", "self._vacant.set()", "pass"),),
        commit="b7f1e0f",
        scenario="a_controller_resigns_while_cut_off",
    ),
    Mutant(
        "checkpoints",
        "a topic that is made again is judged by the checkpoints of the deleted one",
        (
            Edit(
                "log.log_manager:LogManager.get_or_create", "directory.forget_former(topic_partition)", "pass"
            ),
        ),
        commit="b7f1e0f",
        scenario="made_again_and_restarted",
    ),
    Mutant(
        "seed 360",
        "who comes back while a topic goes is told who leads it, and makes what it has deleted again",
        (
            Edit(
                "controller.eligible:plan_lost",
                "current is None or topic_partition.topic in plan.context.topics_to_delete",
                "current is None",
            ),
            Edit("controller.plan:Plan.notify_leader_and_isr", "state in DELETED", "False"),
        ),
        commit="be41b02",
        scenario="nothing_is_made_again_while_it_goes",
    ),
    Mutant(
        "new registration",
        "a broker that registers anew is never taken into the ISR of an idle partition",
        (
            Edit(
                "replication.follower:FollowerFetcher._fetch",
                "broker_epoch != self._session_broker_epoch",
                "False",
            ),
            # A leader notes the new life of a follower that keeps its session, so that either alone lets it in.
            Edit(
                "broker.fetch_sessions:FetchSession.registered_anew",
                "self.doubted.update(dict.fromkeys(self.wanted.values()))",
                "pass",
            ),
        ),
        commit="ac5d83d",
        scenario="a_follower_registers_anew_while_it_is_out_of_the_isr",
    ),
    Mutant(
        "store away",
        "the store goes away between a new session and the registration in it, and the broker stops",
        (Edit("server.store_sessions:StoreSessions.live", "api.StoreUnavailable", "ZeroDivisionError"),),
        commit="ac5d83d",
        scenario="the_store_goes_away_before_the_registration",
    ),
    Mutant(
        "H1",
        "a proposal that is sent again names the newest life of a follower that has come back empty",
        (
            Edit(
                "replication.partition:Partition.proposal",
                "self._proposed_epochs",
                "{f.broker: f.broker_epoch for f in self._followers}",
            ),
        ),
        commit="b7f1e0f",
        scenario="h1_emptied_and_the_proposal_is_sent_again",
    ),
    Mutant(
        "seed 596",
        "who leaves because the partition moves away stays eligible, though it deletes its copy",
        (
            Edit("controller.plan:Plan.forget_eligible", "drafted is not None", "False"),
            Edit(
                "controller.plan:Plan.eligible_outside",
                "(tuple([b for b in eligible if b in assigned]), tuple([b for b in known if b in assigned]))",
                "(eligible, known)",
            ),
        ),
        commit="37086b9",
        scenario="a_leaver_is_not_eligible",
    ),
    Mutant(
        "seed 475",
        "an eligible replica returns without its records and is elected by what was stored of its former incarnation",
        (
            Edit(
                "controller.plan:Plan.eligible",
                "self.leadership(topic_partition)",
                "self.context.leadership(topic_partition)",
            ),
        ),
        commit="37086b9",
        scenario="an_eligible_replica_returns_without_its_records",
    ),
    Mutant(
        "seed 343",
        "at the end of a move the new leader commits without those that leave while they are still in the ISR",
        (
            Edit(
                "replication.partition:Partition._advance_high_watermark",
                "self.is_under_min_isr or self.has_unassigned_in_isr",
                "self.is_under_min_isr",
            ),
        ),
        commit="37086b9",
        scenario="nothing_is_committed_without_those_that_leave",
    ),
    Mutant(
        "seed 633",
        "the partition moves while a follower's flush is under way, and nobody wakes the fetcher that waited for it",
        (Edit("broker.replica_manager:ReplicaManager._stop_fetching", "self._wake(leader)", "pass"),),
        commit="37086b9",
        scenario="the_partition_moves_while_a_flush_is_under_way",
    ),
    Mutant(
        "seed 116",
        "a follower that begins a leader epoch drops what was under way, and is not told the high watermark again",
        (
            Edit(
                "broker.fetch_sessions:FetchSession.want",
                "wanted.sent_high_watermark = wanted.sent_log_start = -1",
                "pass",
            ),
        ),
        commit="37086b9",
        scenario="told_again_in_a_new_epoch",
    ),
    Mutant(
        "seed 258",
        "a deletion is answered before it is on the disk, and a power cut brings the log back",
        (Edit("broker.replica_manager:ReplicaManager.sync_stops", "self.logs.sync_deletions()", "{}"),),
        commit="ff0aed2",
        scenario="a_deletion_is_synced_before_it_is_answered",
    ),
    Mutant(
        "seed 1823",
        "who is controller is heard while the store is away, and the former one is asked for ever",
        (
            Edit(
                "server.store_sessions:StoreSessions._session",
                "undelivered.extend(await facts.take())",
                "undelivered = deque(await facts.take())",
            ),
        ),
        commit="ad82716",
        scenario="who_is_controller_is_heard_while_the_store_is_away",
    ),
    Mutant(
        "seed 376",
        "added and taken away twice while its broker cannot be reached, a replica is told so once, and stays",
        (
            Edit(
                "controller.reassignment_start:_plan_wanted_again",
                "broker not in before and state in (STARTED, INELIGIBLE)",
                "False",
            ),
        ),
        commit="570418d",
        scenario="added_and_taken_away_twice",
    ),
    Mutant(
        "seed 1696",
        "the answer to one StopReplica is taken for that to the next, behind which the replica was made anew",
        (Edit("controller.stop_answers:commit_stop_answered", "event.number is None", "True"),),
        commit="570418d",
        scenario="sent_off_again_before_it_answered",
    ),
    Mutant(
        "seed 538",
        "a replica that was told to delete, or has, is told of the new epoch by the next reassignment",
        (Edit("controller.plan:Plan.notify_leader_and_isr", "state in DELETED", "False"),),
        commit="570418d",
        scenario="added_and_taken_away_twice",
    ),
    Mutant(
        "dead leaver",
        "a leaver on a dead broker that the next reassignment finds in the topic node is told nothing when it returns",
        (
            Edit(
                "controller.reassignment_start:_plan_not_pending_any_more",
                "requested[tp].target_replicas",
                "requested[tp].replicas",
            ),
            Edit(
                "controller.reassignment_start:WriteAssignments.commit_done",
                "commit_wanted(context, topic_partition, requested.target_replicas)",
                "commit_wanted(context, topic_partition, requested.replicas)",
            ),
        ),
        commit="1ed6fe7",
        scenario="a_dead_leaver_returns",
    ),
    Mutant(
        "seed 327",
        "a control request is read after newer ones of its term, and obeyed",
        (
            Edit(
                "broker.control_order:ControlOrder.why_late",
                "not is_after(correlation_id, self._last)",
                "False",
            ),
        ),
        commit="f84272c",
        scenario="late_within_a_term",
    ),
    Mutant(
        "who holds more",
        "the last member of the ISR and the eligible one both return perhaps without their records, and the eligible one leads, whatever it holds",
        (Edit("controller.unclean:_select_best", "(*ranked, *contenders)", "contenders[1:]"),),
        commit="439474e",
        scenario="the_eligible_one_lost_power_and_the_leader_was_killed",
    ),
    Mutant(
        "next controller",
        "an eligible replica returns empty while no controller is elected: the next one never knew its former incarnation, and an empty log leads",
        (Edit("controller.incarnations:_lost", "tuple(lost)", "()"),),
        commit="de7b99c",
        scenario="an_eligible_replica_returns_while_nobody_leads",
    ),
    Mutant(
        "last member",
        "the last member of the ISR loses what it had not flushed while no controller is elected, and leads on although an eligible replica has everything",
        (
            Edit(
                "controller.eligible:is_in_doubt",
                "current is None or not all(b in lost or b in current.last_known_elr for b in current.isr)",
                "True",
            ),
        ),
        commit="de7b99c",
        scenario="the_last_member_returns_while_nobody_leads",
    ),
    Mutant(
        "seed 9029",
        "a log is deleted while a thread flushes it: its missing directory is taken for a failed disk",
        (Edit("log.memory_files:MemoryDirectory._failed", "path != self.health.path", "path != self.path"),),
        commit="b265f80",
        scenario="a_topic_goes_while_its_flush_is_under_way",
    ),
    Mutant(
        "walk 1313",
        "a replica that was told to delete, and that the next reassignment still names, is elected uncleanly",
        (
            Edit(
                "controller.plan:Plan.candidates",
                "tuple([b for b in live if self.replica_state(topic_partition, b) not in DELETED])",
                "live",
            ),
        ),
        commit="b265f80",
        scenario="who_is_sent_off_is_not_elected",
    ),
    Mutant(
        "seed 993",
        "of two logs of one name the one whose partition.metadata a power cut took is not meant, though the other is of a topic that is gone",
        (
            Edit(
                "log.duplicate_logs:pick",
                "by_id.get(topic_id) or by_id.get(NO_TOPIC_ID)",
                "by_id.get(topic_id)",
            ),
        ),
        commit="7c12e81",
        scenario="the_log_that_says_nothing_is_meant",
    ),
    Mutant(
        "found damaged",
        "a log found damaged in use is recovered after a kill as if that were a torn tail: cut there, and led again",
        (
            Edit(
                "log.log_directory:LogDirectory.end_is_known",
                "self.recovery_points.set(topic_partition, log_end_offset)",
                "pass",
            ),
        ),
        commit="1ed6fe7",
        scenario="a_bit_turns_in_the_only_copy",
    ),
    Mutant(
        "raised",
        "min.insync.replicas is raised and the leader hears of it late: it commits alone, and an eligible replica that has nothing of it is elected",
        (
            Edit(
                "replication.partition:Partition._measure_min_isr",
                "len(self.state.isr) < self.effective_min_isr or self.has_eligible",
                "len(self.state.isr) < self.effective_min_isr",
            ),
        ),
        commit="4454d01",
        scenario="min_isr_is_raised_while_the_leaders_watches_are_late",
    ),
    Mutant(
        "no session",
        "a follower whose leader has no room for fetch sessions is answered at once, and asks again at once, for ever",
        (Edit("broker.handlers.fetch:FetchWait._read_partition", "session.id == NO_SESSION", "False"),),
        commit="db36155",
        scenario="a_follower_without_a_session_waits",
    ),
    Mutant(
        "unreadable",
        "a broker whose registration cannot be read for a while loses the controller's queue for it, and is never told what waited there",
        (
            Edit(
                "server.outboxes:Outboxes.brokers_are",
                "broker not in wanted and str(broker) in unread",
                "False",
            ),
        ),
        commit="f84272c",
        scenario="a_registration_that_cannot_be_read",
    ),
    Mutant(
        "walk 810",
        "a reassignment is called back when its leader knows the target alone, the controller dies before it has told that, and nobody joins the ISR any more",
        (
            Edit(
                "controller.reassignment_start:DropReplicas.plan",
                "after is not None and current is not None and (after.leader_epoch == current.leader_epoch)",
                "dropped and after is not None and (current is not None) and (after.leader_epoch == current.leader_epoch)",
            ),
        ),
        commit="570418d",
        scenario="called_back_and_the_controller_dies_at_once",
    ),
    Mutant(
        "seed 8",
        "logs are loaded before the broker knows which topics are compacted, and are cut at the first gap that compaction left",
        (
            Edit(
                "server.broker_runtime:BrokerRuntime.start",
                "configured = await self._answered(lambda: self._read_configs(store, topic_configs))",
                "configured = set()",
            ),
            # As logs were that nothing beside them told of their gaps.
            Edit("log.log_state:LogState.note_gaps", "self.directory.open(OFFSET_GAPS, create=True)", "pass"),
            Edit(
                "log.late_loading:open_of",
                "directory.cleaned_to.offsets.get(topic_partition, 0)",
                "0",
            ),
        ),
        commit="0bb9cb6",
        scenario="a_compacted_log_after_everybody_was_killed",
    ),
    Mutant(
        "seed 39",
        "a leader epoch whose first records were compacted away begins at the first batch that is left",
        (Edit("log.recovery:_Opening._learn_epochs", "self.epochs_on_disk or ()", "()"),),
        commit="0bb9cb6",
        scenario="an_epoch_begins_where_compaction_was",
    ),
    Mutant(
        "seed 919",
        "a segment whose file was not found when it was to be let go counts as gone, and the log goes on without it",
        (Edit("log.segment:Segment.mark_deleted", "suffix == LOG_SUFFIX", "False"),),
        commit="9a9b036",
        scenario="a_segment_is_not_found_when_it_is_let_go",
    ),
    Mutant(
        "seed 77",
        "with flush.messages=1 a follower that has not read the configuration of a new topic acknowledges what it has not flushed",
        (
            Edit(
                "broker.topic_configs:TopicConfigs.may_flush_before_ack",
                "topic not in self._at_start",
                "False",
            ),
        ),
        commit="da138e9",
        scenario="a_follower_flushes_before_it_has_read_the_configuration",
    ),
    Mutant(
        "refused and late",
        "the first copy of a proposal is read after its repeat was refused, and takes in a follower that its leader does not count on",
        (
            Edit(
                "broker.proposal_order:ProposalOrder.is_late",
                "last is not None and not is_after(correlation_id, last)",
                "False",
            ),
        ),
        commit="-",
        scenario="a_refused_proposal_arrives_late",
    ),
    Mutant(
        "never told",
        "a controller that takes over, or meets a broker that registers, names all topics and does not say that these are all",
        (
            Edit(
                "controller.requests:requests_of",
                "telling.is_whole and send_metadata and _is_whole(context, metadata)",
                "False",
            ),
        ),
        commit="5ca4f07b",
        scenario="a_deletion_that_a_broker_was_never_told_of",
    ),
    Mutant(
        "seed 905",
        "a high watermark is written down above a cut that a power cut takes back, and consumers of a follower read what was never committed",
        (Edit("log.flushing:FlushState.cut", "self.unsynced_cut = min(self.unsynced_cut, offset)", "pass"),),
        commit="-",
        scenario="a_cut_that_is_not_on_the_disk",
    ),
)
