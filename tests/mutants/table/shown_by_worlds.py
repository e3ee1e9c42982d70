"""Bugs of coordinators that a small world shows (`tests.mutants.worlds`): who judges it names them."""

from typing import NamedTuple

from tests.mutants.edit import Edit
from tests.mutants.worlds import GROUP, MIXED, SHARERS, TRANSACTIONS, WANTS


class WorldMutant(NamedTuple):
    name: str
    source: str  # a bug of Apache Kafka, or the proposal whose rule is broken
    what: str
    edits: tuple[Edit, ...]
    breaks: str  # the first anomaly
    world: str = TRANSACTIONS
    plan: int = 0  # of the world


SHOWN_BY_WORLDS = (
    WorldMutant(
        "held_back_after_the_throttle",
        "KIP-73",
        "a follower that a throttle holds back does not hear that it was lifted, and stands still for its windows",
        (
            Edit(
                "replication.follower:FollowerFetcher.throttle_changed",
                "followed.delayed_until_ms = now_ms",
                "pass",
            ),
        ),
        "NotHeldBack",
        WANTS,
    ),
    WorldMutant(
        "not_made_beside_an_offline_directory",
        "KIP-112",
        "a log that could not be made for want of a descriptor is not made later where another log directory is offline",
        (
            Edit(
                "broker.replica_manager:ReplicaManager.commit_slice",
                "isinstance(refusal, NoDescriptor) and not self.logs.is_damaged(topic_partition)",
                "isinstance(refusal, NoDescriptor) and not self.logs.offline_directories",
            ),
        ),
        "LogIsMade",
        WANTS,
        1,
    ),
    WorldMutant(
        "an_address_nobody_can_connect_to",
        "KIP-103",
        "an UpdateMetadata that names its broker at a port there is not, or without a host, is believed",
        (
            Edit(
                "broker.handlers.update_metadata:_names",
                "bool(places) and all(host and 0 < port <= LAST_PORT for host, port in places)",
                "True",
            ),
        ),
        "StrangerIsRefused",
        WANTS,
        2,
    ),
    WorldMutant(
        "nobody_is_asked",
        "KAFKA-14402",
        "a batch that comes behind the marker of its transaction opens one that nobody ends",
        (
            Edit(
                "broker.verifications:Verifications.needs_none",
                "not has_open(partition, writer)",
                "False",
            ),
            # Asked again when it is appended.
            Edit("broker.verifications:Verifications.still_holds", "has_open(partition, writer)", "True"),
        ),
        "I12",
        plan=2,  # whose requests arrive late, behind the marker too
    ),
    WorldMutant(
        "a_repeated_marker_is_refused",
        "KAFKA-19999",
        "a marker that is sent again, with no transaction open, is refused, and the transaction is never complete",
        (
            Edit(
                "log.producers:Producers.check_marker",
                "header.producer_epoch < producer.producer_epoch",
                "producer.transaction_first_offset < 0",
            ),
        ),
        "I12",
    ),
    WorldMutant(
        "a_marker_without_its_offsets",
        "KAFKA-17507",
        "a marker is told to be written, and the group's coordinator never makes its offsets visible",
        (Edit("broker.marker_writes:OffsetsMarkerWait.finish", "not self._error", "False"),),
        "I12",
        plan=1,
    ),
    WorldMutant(
        "stable_without_the_open",
        "KIP-98",
        "the last stable offset passes over transactions that are open",
        (
            Edit(
                "log.producers:Producers.last_stable_offset",
                "min(stable, next(iter(self._open.values())))",
                "stable",
            ),
        ),
        "aborted-read",
        TRANSACTIONS,
        1,
    ),
    WorldMutant(
        "offsets_of_an_open_transaction",
        "KIP-98",
        "offsets of a transaction are visible before it is committed",
        (
            Edit(
                "coordinator.offsets:Offsets.apply",
                "producer_id != NO_PRODUCER and value is not None",
                "False",
            ),
        ),
        "number-skipped",
    ),
    WorldMutant(
        "offsets_of_an_aborted_transaction",
        "KIP-98",
        "an abort marker makes offsets visible as a commit does",
        (Edit("coordinator.offsets:Offsets.end_transaction", "is_commit", "True"),),
        "number-skipped",
    ),
    WorldMutant(
        "markers_are_not_loaded",
        "KIP-98",
        "whoever loads a group's partition passes over its markers: offsets stay pending",
        (
            Edit(
                "coordinator.loading:Loaded.batch",
                "self.stored.end_transaction(header.producer_id, is_commit=marker.is_commit)",
                "None",
            ),
        ),
        "I12",
    ),
    WorldMutant(
        "the_last_partitions_alone",
        "KIP-98",
        "partitions that are added take the place of those that were",
        (
            Edit(
                "coordinator.adding:_grown",
                "value.partitions | partitions",
                "partitions",
            ),
        ),
        "I12",
    ),
    WorldMutant(
        "a_commit_of_whoever",
        "KIP-41",
        "a commit is taken of who is no member any more, in a generation that is over",
        (
            Edit(
                "coordinator.committing:_why_not",
                "group.why_not_of_generation(request.member_id, request.group_instance_id, generation)",
                "ErrorCode.NONE",
            ),
            Edit(
                "coordinator.committing:offset_commit",
                "group.state is not GroupState.EMPTY",
                "request.member_id in group.members",
            ),
        ),
        "fenced-commit",
        GROUP,
        2,
    ),
    WorldMutant(
        "a_generation_that_is_not_looked_at",
        "KIP-41",
        "a member's commit is taken whatever generation it is of: what it had read in the one before undoes what others have committed",
        (
            Edit(
                "coordinator.classic_group:ClassicGroup.why_not_of_generation",
                "generation != self.generation",
                "False",
            ),
        ),
        "fenced-commit",
        GROUP,
        2,
    ),
    WorldMutant(
        "a_generation_for_all",
        "KIP-62",
        "the generation stays the same when members come and go",
        (
            Edit(
                "coordinator.rebalance:_begin_generation",
                "group.generation + step if group.generation <= LARGEST_GENERATION - step else 1",
                "max(group.generation, 1)",
            ),
        ),
        "generation-twice",
        GROUP,
        2,
    ),
    WorldMutant(
        "given_before_it_is_let_go",
        "KIP-848",
        "a member is given what another one has not let go of",
        (Edit("coordinator.reconciling:_towards", "one in kept or is_free(topic, one)", "True"),),
        "owned-twice",
        SHARERS,
        0,
    ),
    WorldMutant(
        "an_end_in_its_own_epoch",
        "KIP-890",
        "the end of a transaction gives no next epoch, and the next transaction has the same",
        (
            Edit(
                "coordinator.ending:_decide",
                "min(value.epoch + 1, EPOCH_OF_NOBODY)",
                "value.epoch",
            ),
        ),
        "PartsAreWhole",
        TRANSACTIONS,
        3,
    ),
    WorldMutant(
        "nobody_had_anything",
        "KIP-848",
        "whoever was in a classic group has nothing once it is converted, and another one is given what it still reads",
        (Edit("coordinator.upgrading:_converted", "_once(by_id(draft, assigned), given)", "{}"),),
        "owned-twice",
        MIXED,
        0,
    ),
    WorldMutant(
        "left_behind_by_the_upgrade",
        "KIP-848",
        "the first member of a classic group is none of the group that it is converted to",
        (
            Edit(
                "coordinator.upgrading:_converted",
                "group.members.values()",
                "list(group.members.values())[1:]",
            ),
        ),
        "owned-twice",
        MIXED,
        1,
    ),
    WorldMutant(
        "the_upgrade_begins_anew",
        "KIP-848",
        "the epoch of a group that was classic is 1, whatever its generation was",
        (Edit("coordinator.upgrading:upgrade", "generation = group.generation", "generation = 1"),),
        "group-epoch-fell",
        MIXED,
        1,
    ),
    WorldMutant(
        "the_downgrade_begins_anew",
        "KIP-848",
        "a group that is classic again begins with its first generation",
        (Edit("coordinator.downgrading:_classic", "image.epoch", "0"),),
        "member-epoch-fell",
        MIXED,
        0,
    ),
    WorldMutant(
        "offsets_of_the_classic_group",
        "KIP-848",
        "the tombstone of the classic group, which its conversion writes, takes the offsets with it",
        (
            Edit(
                "coordinator.stored:Stored.replay",
                "_held_by(before)",
                "(_held_by(before), record.value or self.offsets.by_group.pop(record.key.group, None))[0]",
            ),
        ),
        "lost-commit",
        MIXED,
        0,
    ),
    WorldMutant(
        "told_what_is_not_free",
        "KIP-848",
        "SyncGroup tells a classic member of partitions that another one has not let go of",
        (
            Edit(
                "coordinator.classic_members:sync_consumer_group",
                "current.assigned.items()",
                "image.target_of(member_id).items()",
            ),
        ),
        "owned-twice",
        MIXED,
        2,
    ),
    WorldMutant(
        "its_heartbeat_is_not_heard",
        "KIP-848",
        "Heartbeat renews no session in a group that was converted",
        (
            Edit(
                "coordinator.classic_members:heartbeat_in_consumer_group",
                "renew_session(shard, group, member_id, now_ms)",
                "None",
            ),
        ),
        "sent-off",
        MIXED,
        3,
    ),
    WorldMutant(
        "any_epoch_commits",
        "KIP-848",
        "a member commits in an epoch, or a generation, that is over",
        (
            Edit(
                "coordinator.consumer_epochs:why_not_in_epoch",
                "epoch == image.current_of(member_id).epoch",
                "True",
            ),
        ),
        "former-epoch",
        MIXED,
        4,
    ),
    WorldMutant(
        "still_classic_in_the_log",
        "KIP-848",
        "a conversion writes no tombstone of the classic group, which comes back when the converted one has gone",
        (
            Edit(
                "coordinator.upgrading:upgrade",
                "draft.write(GroupRecord(GroupKey(group_id), None))",
                "pass",
            ),
        ),
        "LeftOver",
        MIXED,
        4,
    ),
    WorldMutant(
        "what_nobody_has",
        "KIP-848",
        "a group that is classic again leaves what its members had: a later conversion finds that of those who have gone",
        (Edit("coordinator.downgrading:end_consumer_group", "list(image.current)", "[]"),),
        "LeftOver",
        MIXED,
        4,
    ),
)
