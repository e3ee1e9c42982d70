"""A classic group becomes one of KIP-848 while it lives: its members go on, by JoinGroup, Heartbeat and SyncGroup."""

from typing import NamedTuple

from odradek.coordinator.classic_group import ClassicGroup
from odradek.coordinator.consumer_protocol import Subscription, read_assignment, read_subscription
from odradek.coordinator.consumer_records import (
    NOTHING,
    Assignment,
    ClassicMember,
    Current,
    CurrentRecord,
    EpochRecord,
    GroupEpoch,
    MemberRecord,
    MemberState,
    Subscriber,
    TargetEpochRecord,
    TargetRecord,
)
from odradek.coordinator.draft import Draft
from odradek.coordinator.effects import RECORD_OVERHEAD_BYTES
from odradek.coordinator.group_states import GroupState
from odradek.coordinator.member import Member
from odradek.coordinator.records import GroupKey, GroupRecord
from odradek.coordinator.subscription import CONSUMER
from odradek.coordinator.topic_ids import metadata_hash
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError

# Members of a group that is converted, which is one append: some 20 us each for the turn that begins it, and for the one that ends it.
MOST_CONVERTED = 2_000


class Converted(NamedTuple):
    subscriber: Subscriber
    assigned: Assignment
    has: Assignment  # and what it has not let go of


def upgrade(draft: Draft, group: ClassicGroup) -> None:
    """The records of it, and of all that its members have. ProtocolError says why it stays classic."""
    members = {} if group.state is GroupState.EMPTY else _converted(draft, group)
    group_id = group.group_id
    draft.write(GroupRecord(GroupKey(group_id), None))
    if not members:
        return
    generation = group.generation
    for member_id, one in members.items():
        draft.write(MemberRecord(group_id, member_id, one.subscriber))
    shard = draft.shard
    found = metadata_hash(draft.image.subscribed_topics(), shard.topics, shard.ids)
    draft.write(EpochRecord(group_id, GroupEpoch(generation, found)))
    for member_id, one in members.items():
        draft.write(TargetRecord(group_id, member_id, one.assigned))
    draft.write(TargetEpochRecord(group_id, generation))
    for member_id, one in members.items():
        has = Current(generation, generation, MemberState.STABLE, one.has, NOTHING)
        draft.write(CurrentRecord(group_id, member_id, has))


def _converted(draft: Draft, group: ClassicGroup) -> dict[str, Converted]:
    settings = draft.shard.settings
    if group.state is GroupState.DEAD:
        raise ProtocolError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"Group {group.group_id} is being deleted.")
    if not settings.migration_policy.upgrades:
        raise _refused(group, "online upgrade is disabled")
    if group.protocol_type != CONSUMER:
        raise _refused(group, "the group does not use the consumer embedded protocol")
    if len(group.members) > settings.consumer_max_size:
        raise _refused(group, "the group exceeds the consumer group maximum size")
    if len(group.members) > MOST_CONVERTED:
        raise _refused(group, f"it has more than {MOST_CONVERTED} members")
    if _least_bytes(group) > settings.max_append_bytes:
        raise _refused(group, "its members do not fit into a batch")
    found: dict[str, Converted] = {}
    claims: dict[str, Assignment] = {}
    given: set[tuple[bytes, int]] = set()
    # What most members of a group say in the same bytes is read once.
    read: dict[bytes, Subscription | None] = {}
    for member in group.members.values():
        said = _said(group, member)
        subscription = read[said] if said in read else read.setdefault(said, read_subscription(said))
        assigned = read_assignment(member.assignment)
        if subscription is None or assigned is None:
            raise _refused(group, "the embedded consumer protocol is malformed")
        # An assignor of clients may have given one partition to two: the first has it.
        assignment = _once(by_id(draft, assigned), given)
        found[member.member_id] = Converted(subscriber_of(member, subscription), assignment, assignment)
        claims[member.member_id] = by_id(draft, subscription.owned)
    # A cooperative assignor (KIP-429) gives nobody what a member has to let go of first. That one may not have heard of its assignment
    # yet, and says what it owns when it joins again; until then it has what it said to own before.
    for member_id, claimed in claims.items():
        one = found[member_id]
        found[member_id] = one._replace(has=_both(one.assigned, _once(claimed, given)))
    return found


def _least_bytes(group: ClassicGroup) -> int:
    """Of the batch of the conversion. A member has three records in it: itself, its target, and what it has."""
    found = 0
    for member in group.members.values():
        names = RECORD_OVERHEAD_BYTES // 2 + len(group.group_id) + len(member.member_id)
        found += 3 * names + sum(len(metadata) for _, metadata in member.protocols)
    return found


def _both(one: Assignment, other: Assignment) -> Assignment:
    return {topic: (*one.get(topic, ()), *other.get(topic, ())) for topic in {**one, **other}}


def _once(assignment: Assignment, given: set[tuple[bytes, int]]) -> Assignment:
    kept: dict[bytes, tuple[int, ...]] = {}
    for topic, partitions in assignment.items():
        mine = tuple(one for one in partitions if (topic, one) not in given)
        given.update((topic, one) for one in mine)
        if mine:
            kept[topic] = mine
    return kept


def _refused(group: ClassicGroup, why: str) -> ProtocolError:
    text = f"Cannot upgrade classic group {group.group_id} to consumer group because {why}."
    return ProtocolError(ErrorCode.GROUP_ID_NOT_FOUND, text)


def _said(group: ClassicGroup, member: Member) -> bytes:
    """The subscription, by the protocol that was chosen; before one is, by the member's first."""
    return member.metadata_of(group.protocol) or (member.protocols[0][1] if member.protocols else b"")


def subscriber_of(member: Member, subscription: Subscription) -> Subscriber:
    return Subscriber(
        member.instance_id,
        subscription.rack or None,
        member.client.client_id,
        member.client.host,
        tuple(sorted(set(subscription.topics))),
        "",
        member.rebalance_timeout_ms,
        None,
        ClassicMember(member.session_timeout_ms, member.protocols),
    )


def by_id(draft: Draft, named: dict[str, tuple[int, ...]]) -> Assignment:
    """Of topics that are there."""
    topics, ids = draft.shard.topics, draft.shard.ids
    found: dict[bytes, tuple[int, ...]] = {}
    for name, partitions in named.items():
        topic_id = ids.id_of(name)
        known = tuple(one for one in dict.fromkeys(partitions) if 0 <= one < topics.get(name, 0))
        if topic_id is not None and known:
            found[topic_id] = known
    return found
