"""A group of KIP-848 whose last member of the new protocol goes, while classic ones stay, is classic again."""

from odradek.coordinator.classic_group import ClassicGroup
from odradek.coordinator.consumer_image import ConsumerImage
from odradek.coordinator.consumer_protocol import version_of, write_assignment
from odradek.coordinator.consumer_records import (
    CurrentRecord,
    EpochRecord,
    MemberRecord,
    PartitionMetadataRecord,
    RegexRecord,
    Subscriber,
    TargetEpochRecord,
    TargetRecord,
)
from odradek.coordinator.draft import Draft
from odradek.coordinator.group_states import GroupState
from odradek.coordinator.member import Client, Member
from odradek.coordinator.records import IN_NO_STATE, GroupKey, GroupRecord
from odradek.coordinator.shard import Shard
from odradek.coordinator.subscription import CONSUMER


def may_downgrade(shard: Shard, before: ConsumerImage, after: ConsumerImage) -> bool:
    """Whether the last member of the new protocol has gone, and some are left that make a classic group."""
    had_one = any(one.classic is None for one in before.members.values())
    return (
        had_one
        and bool(after.members)
        and all(one.classic is not None for one in after.members.values())
        and shard.settings.migration_policy.downgrades
        and len(after.members) <= shard.settings.max_size
    )


def downgrade(draft: Draft, leaving: frozenset[str] = frozenset()) -> ClassicGroup:
    """Writes the records of it, and gives the group as it is when they are committed; its members join again then."""
    group = _classic(draft, leaving)
    end_consumer_group(draft)
    assignments = {name: member.assignment for name, member in group.members.items()}
    # Nobody has what the one that went had. Members join again at once; should the coordinator move before they have, its successor
    # has them do so: to it the group would be stable, with partitions that are nobody's.
    stored = group.as_stored(draft.now_ms, assignments)._replace(state_since_ms=IN_NO_STATE)
    draft.write(GroupRecord(GroupKey(draft.group_id), stored))
    return group


def end_consumer_group(draft: Draft) -> None:
    """Tombstones of everything there is."""
    group_id, image = draft.group_id, draft.image
    for member_id in list(image.current):
        draft.write(CurrentRecord(group_id, member_id, None))
    for member_id in list(image.targets):
        draft.write(TargetRecord(group_id, member_id, None))
    draft.write(TargetEpochRecord(group_id, None))
    for member_id in list(image.members):
        draft.write(MemberRecord(group_id, member_id, None))
    for regex in list(image.regexes):
        draft.write(RegexRecord(group_id, regex, None))
    draft.write(PartitionMetadataRecord(group_id))
    draft.write(EpochRecord(group_id, None))


def _classic(draft: Draft, leaving: frozenset[str]) -> ClassicGroup:
    image = draft.image
    group = ClassicGroup(draft.group_id, draft.now_ms)
    group.state = GroupState.STABLE
    group.generation = image.epoch
    for member_id, subscriber in image.members.items():
        if member_id not in leaving:
            group.add(_member(draft, member_id, subscriber), CONSUMER)
    group.protocol = group.elected_protocol()
    return group


def _member(draft: Draft, member_id: str, subscriber: Subscriber) -> Member:
    classic = subscriber.classic
    assert classic is not None, "only classic members stay"
    ids = draft.shard.ids
    named = {ids.name_of(topic): at for topic, at in draft.image.target_of(member_id).items()}
    assignment = {name: at for name, at in named.items() if name is not None}
    return Member(
        member_id=member_id,
        instance_id=subscriber.instance_id,
        client=Client(subscriber.client_id, subscriber.client_host),
        rebalance_timeout_ms=subscriber.rebalance_timeout_ms,
        session_timeout_ms=classic.session_timeout_ms,
        protocols=classic.protocols,
        assignment=write_assignment(assignment, version_of(classic.protocols[0][1])),
    )
