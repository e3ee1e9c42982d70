"""Bugs of Apache Kafka's coordinators and of its cleaner, each put back here, and the one test or recorded trace that shows it."""

from typing import NamedTuple

from tests.mutants.edit import Edit
from tests.mutants.mutant import Mutant
from tests.mutants.table.classic_groups import OF_CLASSIC_GROUPS, OF_OFFSETS
from tests.mutants.table.cleaner import OF_CLEANER
from tests.mutants.table.consumer_groups import OF_CONSUMER_GROUPS
from tests.mutants.table.coordinators import OF_TRANSACTIONS

_JOINING = "coordinator.joining"
_GROUPS = "tests.coordinator.test_groups"
_CONSUMERS = "tests.coordinator.test_consumer_groups"
_COMMITTED = "tests.coordinator.test_offsets"
_TRANSACTIONS = "tests.coordinator.test_transactions"
_REWRITING = "tests.log.compaction.test_rewriting"
TRACE = "trace"  # in place of a module: of tests/golden/coordinators


class SeenByTest(NamedTuple):
    name: str
    source: str
    what: str
    edits: tuple[Edit, ...]
    shown_by: str  # module:function
    arguments: tuple[object, ...] = ()


def _edits_of(row: str) -> tuple[Edit, ...]:
    """The same change turns the row's tests red."""
    table: tuple[Mutant, ...] = (
        *OF_CLASSIC_GROUPS,
        *OF_CONSUMER_GROUPS,
        *OF_OFFSETS,
        *OF_TRANSACTIONS,
        *OF_CLEANER,
    )
    return next(mutant.edits for mutant in table if row in mutant.rows)


SHOWN_BY_TESTS = (
    SeenByTest(
        "a_sync_that_was_superseded",
        "KAFKA-20938",
        "a SyncGroup that another took the place of is never answered",
        (Edit("coordinator.syncing:sync_group", "if member.sync is not None: ...", "if False: ..."),),
        f"{_GROUPS}:test_a_superseded_join_and_a_superseded_sync_are_answered",
    ),
    SeenByTest(
        "who_never_syncs_stays",
        "KAFKA-12890",
        "who joined and never asks for its assignment stays a member",
        _edits_of("G18"),
        f"{TRACE}:classic-3.9/pending-sync-expiry",
    ),
    SeenByTest(
        "a_pending_id_cannot_leave",
        "KAFKA-17115",
        "an id that was given to a consumer that was closed at once holds the group's next join up",
        _edits_of("G25"),
        f"{_GROUPS}:test_an_id_that_nobody_used_may_leave_and_holds_nobody_up_from_then_on",
    ),
    SeenByTest(
        "a_pending_id_never_ends",
        "KAFKA-7909",
        "an id that was given and never used holds up the join of all others for ever",
        (
            Edit(
                "coordinator.shard:Shard.remember_id",
                "self.timers.arm(until_ms, Kind.PENDING_ID, group.group_id, member_id)",
                "pass",
            ),
        ),
        f"{_GROUPS}:test_an_id_that_nobody_uses_holds_a_join_up_no_longer_than_its_session",
    ),
    SeenByTest(
        "changed_before_it_is_written",
        "KAFKA-18263",
        "a static member takes its place before that is written, and the member before it is gone if it cannot be",
        (
            Edit(
                f"{_JOINING}:return_static",
                "group.returning = stored",
                "group.returning = stored\n_take_place(shard, group, old_id, after.new_id, joining)",
            ),
        ),
        f"{_GROUPS}:test_a_static_member_that_came_back_takes_its_place_when_that_is_committed_and_not_before",
    ),
    SeenByTest(
        "the_new_id_is_not_stored",
        "KAFKA-10284",
        "the id of a static member that came back is not stored: the next coordinator fences it",
        (
            Edit(
                f"{_JOINING}:_with_new_id",
                "one is former",
                "False",
            ),
        ),
        f"{_GROUPS}:test_a_static_member_that_came_back_is_known_to_the_next_coordinator",
    ),
    SeenByTest(
        "replaced_while_completing",
        "KAFKA-9801",
        "a static member comes back while its generation has no assignment yet, and nobody joins again",
        (
            Edit(
                f"{_JOINING}:return_static",
                "group.state is GroupState.STABLE",
                "group.state in (GroupState.STABLE, GroupState.COMPLETING)",
            ),
            Edit(
                f"{_JOINING}:StaticReturned.committed",
                "group.state is not GroupState.STABLE or group.generation != self.generation",
                "group.generation != self.generation",
            ),
        ),
        f"{_GROUPS}:test_a_static_member_that_comes_back_before_the_assignment_makes_everybody_join_again",
    ),
    SeenByTest(
        "two_of_one_instance",
        "KAFKA-8500",
        "a static member that came back and the one before it are both members",
        (
            Edit(
                "coordinator.classic_group:ClassicGroup.rename",
                "self.members.pop(old_id)",
                "self.members[old_id]",
            ),
        ),
        f"{_GROUPS}:test_a_static_member_that_came_back_takes_its_place_when_that_is_committed_and_not_before",
    ),
    SeenByTest(
        "a_count_is_believed",
        "seen in 3.9.1 and 4.1.0",
        "a count in a member's opaque metadata that lies is believed; in Apache Kafka every later JoinGroup fails",
        _edits_of("G37"),
        f"{_GROUPS}:test_metadata_that_cannot_be_read_is_an_unknown_subscription_and_ends_no_join",
        (b"\0\1\xff\xff\xff\xff",),
    ),
    SeenByTest(
        "a_generation_twice",
        "seen in 3.9.1",
        "a generation that was handed out and not stored is handed out again by the next coordinator",
        _edits_of("G38"),
        f"{_GROUPS}:test_a_generation_that_was_handed_out_and_not_stored_is_not_used_by_the_next_coordinator",
    ),
    SeenByTest(
        "epoch_0_is_fenced",
        "KAFKA-19233",
        "a member that was fenced comes back with its id and epoch 0, as it must, and is fenced again",
        _edits_of("K10"),
        f"{_CONSUMERS}:test_a_fenced_member_that_comes_back_with_its_id_is_told_all_it_has",
    ),
    SeenByTest(
        "a_full_request_is_told_nothing",
        "KAFKA-16367",
        "who asks for all there is after a lost answer is told nothing, and has no partitions",
        _edits_of("K3"),
        f"{TRACE}:consumer-4.1/join-one",
    ),
    SeenByTest(
        "a_classic_one_keeps_its_instance",
        "KAFKA-17228",
        "a static member of the new protocol cannot take the place of its classic life",
        _edits_of("K32"),
        f"{_CONSUMERS}:test_a_static_member_of_the_new_protocol_replaces_the_classic_one_of_its_instance",
    ),
    SeenByTest(
        "no_downgrade_by_take_over",
        "KAFKA-17317",
        "the last member of the new protocol comes back as a classic one, and the group stays what it was",
        (
            Edit(
                "coordinator.classic_members:_join",
                "may_downgrade(shard, image, draft.image)",
                "False",
            ),
        ),
        f"{_CONSUMERS}:test_the_last_member_of_the_new_protocol_that_comes_back_as_a_classic_one_makes_the_group_classic",
    ),
    SeenByTest(
        "a_group_of_pending_offsets_goes",
        "KAFKA-19163",
        "a group that only an open transaction knows is removed, and what the transaction commits is lost",
        _edits_of("O18"),
        f"{_COMMITTED}:test_a_group_that_only_an_open_transaction_knows_is_not_expired",
    ),
    SeenByTest(
        "pending_for_ever",
        "KAFKA-19164",
        "offsets count as pending when their transaction has ended: they never expire, and who waits for stable ones waits on",
        (
            Edit(
                "coordinator.offsets:Offsets.end_transaction",
                "_let_go(self._pending_places, group, place, producer_id)",
                "pass",
            ),
        ),
        f"{_COMMITTED}:test_what_a_transaction_committed_is_there_in_the_turn_of_its_marker",
    ),
    SeenByTest(
        "raised_in_memory",
        "KAFKA-9666",
        "an epoch is raised in memory though its record could not be written, and raised again by the next attempt",
        _edits_of("T17"),
        f"{_TRANSACTIONS}:test_an_epoch_whose_fencing_failed_is_not_raised_twice",
    ),
    SeenByTest(
        "raised_twice",
        "KAFKA-19367",
        "an abort that fences raises the epoch by two",
        (
            Edit(
                "coordinator.ending:abort_from_here",
                "min(value.epoch + 1, EPOCH_OF_NOBODY)",
                "min(value.epoch + 2, EPOCH_OF_NOBODY)",
            ),
        ),
        f"{_TRANSACTIONS}:test_an_open_transaction_is_aborted_after_its_time_out_and_not_before",
    ),
    SeenByTest(
        "the_epoch_behind_the_last",
        "KAFKA-18660, KAFKA-20090",
        "at version 2 the epoch behind the last is given out, and nothing can follow it",
        _edits_of("T31"),
        f"{_TRANSACTIONS}:test_the_epoch_behind_the_last_is_given_to_nobody",
    ),
    SeenByTest(
        "markers_of_the_one_before",
        "KAFKA-16352",
        "markers are kept by id alone: those of the transaction before stand for those of this one",
        (
            Edit(
                "coordinator.transaction_room:Room.marked",
                "(value.producer_id, value.epoch) != (producer_id, epoch)",
                "False",
            ),
        ),
        f"{_TRANSACTIONS}:test_markers_of_a_transaction_before_end_nothing_of_this_one",
    ),
    SeenByTest(
        "completed_twice",
        "KAFKA-10080",
        "a marker that is told twice completes its transaction twice, and the coordinator gives up",
        (
            Edit(
                "coordinator.transaction_room:Room.marked",
                "value is None or not left or (value.producer_id, value.epoch) != (producer_id, epoch)",
                "value is None or left is None or (value.producer_id, value.epoch) != (producer_id, epoch)",
            ),
        ),
        f"{_TRANSACTIONS}:test_markers_that_are_told_twice_complete_their_transaction_once",
    ),
    SeenByTest(
        "an_offset_on_its_way_expires",
        "KIP-211",
        "an offset that is out of time expires while its next commit is on its way: the tombstone stands behind that",
        (
            Edit(
                "coordinator.expiry:Expiry._is_held",
                "offsets.is_in_flight(group_id, place)",
                "False",
            ),
        ),
        f"{_COMMITTED}:test_an_offset_that_is_committed_again_does_not_expire_while_that_is_on_its_way",
    ),
    SeenByTest(
        "two_owners_by_conversion",
        "KIP-848",
        "what an assignor of clients gave to two members both have once their group is converted",
        (Edit("coordinator.upgrading:_once", "(topic, one) not in given", "True"),),
        f"{_CONSUMERS}:test_a_partition_that_an_assignor_of_clients_gave_to_two_has_one_owner_once_the_group_is_converted",
    ),
    SeenByTest(
        "free_before_it_is_let_go",
        "KIP-429",
        "what a cooperative leader kept back until its owner lets go is another one's once the group is converted",
        (
            Edit(
                "coordinator.upgrading:_converted",
                "_both(one.assigned, _once(claimed, given))",
                "one.assigned",
            ),
        ),
        f"{_CONSUMERS}:test_what_a_cooperative_member_has_still_to_let_go_of_is_given_to_nobody_when_its_group_is_converted",
    ),
    SeenByTest(
        "stable_without_the_one_that_left",
        "KIP-848",
        "the coordinator moves when a group is classic again: its members go on, and what the one that left had is nobody's",
        (Edit("coordinator.downgrading:downgrade", "IN_NO_STATE", "draft.now_ms"),),
        f"{_CONSUMERS}:test_members_of_a_group_that_is_classic_again_join_again_also_at_the_next_coordinator",
    ),
    SeenByTest(
        "unreleased_to_a_classic_one",
        "KIP-345",
        "a static member of the classic protocol is refused its instance by one of the new protocol that died, by an error it does not know",
        (
            Edit(
                "coordinator.classic_members:_join",
                "known is not None and known != member_id",
                "known is not None and known != member_id and image.members[known].classic is not None",
            ),
        ),
        f"{_CONSUMERS}:test_a_static_member_of_the_classic_protocol_replaces_whoever_has_its_instance",
    ),
    SeenByTest(
        "any_first_sequence",
        "KAFKA-14920",
        "a transaction may begin in a log with a sequence other than 0: a batch overtakes the one before it",
        _edits_of("T27"),
        "tests.broker.test_transaction_version_2:test_the_first_sequence_of_a_producer_nobody_knows_is_0",
    ),
    SeenByTest(
        "tombstones_for_ever",
        "KAFKA-8522",
        "a tombstone has no horizon, and lives for ever in a log that is cleaned often",
        _edits_of("L10"),
        f"{_REWRITING}:test_a_tombstone_gets_a_horizon_and_goes_behind_it",
    ),
    SeenByTest(
        "the_end_moves_back",
        "KAFKA-17076",
        "cleaning takes the last batch, and the end of the log moves back",
        _edits_of("L9"),
        f"{_REWRITING}:test_the_end_of_a_log_does_not_move_back",
    ),
    SeenByTest(
        "the_marker_goes_first",
        "KAFKA-13727",
        "an abort marker goes while records of its transaction are there: who reads committed records sees them",
        _edits_of("L13"),
        f"{_REWRITING}:test_a_marker_goes_in_the_third_pass",
    ),
    SeenByTest(
        "gone_before_all_have_passed",
        "seen in 3.9.1",
        "a tombstone goes before every replica has passed it: one that was away shows the deleted key again",
        _edits_of("L11"),
        f"{_REWRITING}:test_a_tombstone_waits_for_every_replica_to_pass_it",
    ),
)
