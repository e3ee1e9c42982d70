"""JoinGroup: who may be a member, under which id, and whether the others have to join again.

Order of the checks: group id, session timeout, how many protocols, the group's size, its protocols, then the id.
"""

from odradek.coordinator.answers import join_refused, joined, sync_refused
from odradek.coordinator.append_errors import told_of_group
from odradek.coordinator.classic_group import ClassicGroup
from odradek.coordinator.classic_members import join_consumer_group
from odradek.coordinator.events import Asked
from odradek.coordinator.group_states import GroupState
from odradek.coordinator.member import Member, Parked, Protocols, metadata_of
from odradek.coordinator.member_memory import BYTES_OF_A_MEMBER, LEAST_OF_A_MEMBER, of_protocols
from odradek.coordinator.rebalance import park_join, prepare, remove_member, try_complete
from odradek.coordinator.records import GroupKey, GroupRecord, StoredGroup
from odradek.coordinator.settings import (
    MOST_PENDING_BYTES,
    MOST_PENDING_IDS,
    MOST_PROTOCOLS,
    NEW_MEMBER_JOIN_TIMEOUT_MS,
)
from odradek.coordinator.shard import Shard
from odradek.model.error_codes import ErrorCode
from odradek.model.values import dataclass
from odradek.protocol.messages.join_group import JoinGroupRequest

# From here on a dynamic member is given its id first, so that a lost answer leaves no member behind (KIP-394).
FIRST_TO_ASK_FOR_AN_ID = 4
# From here on a leader can be told to leave the assignment as it is (KIP-814).
FIRST_TO_SKIP_ASSIGNMENT = 9
# Of a client's or instance's name inside a member id, which has to fit a string of the wire.
MOST_PREFIX_BYTES = 8_192


@dataclass(frozen=True, slots=True)
class Joining:
    """One JoinGroup, taken apart."""

    asked: Asked
    request: JoinGroupRequest
    protocols: Protocols
    parked: Parked

    def refuse(self, shard: Shard, error: ErrorCode, member_id: str | None = None) -> None:
        name = self.request.member_id if member_id is None else member_id
        shard.answer(self.asked.call, join_refused(self.asked.version, error, name))

    @property
    def new_id(self) -> str:
        prefix = self.request.group_instance_id or self.asked.client.client_id
        return f"{prefix.encode()[:MOST_PREFIX_BYTES].decode(errors='ignore')}-{self.asked.unique}"


def join_group(shard: Shard, asked: Asked, request: JoinGroupRequest, now_ms: int) -> None:
    protocols = tuple((one.name, bytes(one.metadata)) for one in request.protocols)
    request.reason = None  # of whoever waits the request is kept, to be refused
    joining = Joining(asked, request, protocols, Parked(asked.call, asked.version))
    settings = shard.settings
    if not request.group_id:
        return joining.refuse(shard, ErrorCode.INVALID_GROUP_ID)
    if not settings.min_session_timeout_ms <= request.session_timeout_ms <= settings.max_session_timeout_ms:
        return joining.refuse(shard, ErrorCode.INVALID_SESSION_TIMEOUT)
    if len(protocols) > MOST_PROTOCOLS:
        return joining.refuse(shard, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    consumers = shard.consumer_groups.get(request.group_id)
    if consumers is not None:
        return join_consumer_group(shard, consumers, asked, request, now_ms)
    group = shard.groups.get(request.group_id)
    if group is None:
        if request.member_id:
            return joining.refuse(shard, ErrorCode.UNKNOWN_MEMBER_ID)
        group = ClassicGroup(request.group_id, now_ms)  # known to the shard once somebody may join it
    if group.state is GroupState.DEAD:
        return joining.refuse(shard, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    if not _has_room(group, request.member_id, settings.max_size):
        return _turn_away(shard, group, joining, now_ms)
    if not group.supports(request.protocol_type, protocols):
        return joining.refuse(shard, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    has_memory = shard.has_room_to_keep(group.group_id, 0, now_ms) and _has_memory(
        shard, group, joining, now_ms
    )
    if not has_memory:
        return joining.refuse(shard, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    if request.member_id:
        _join_with_id(shard, group, joining, now_ms)
    else:
        _join_without_id(shard, group, joining, now_ms)
    return None


def _has_room(group: ClassicGroup, member_id: str, max_size: int) -> bool:
    """While a group prepares those parked count, not those who have yet to come."""
    if group.state is GroupState.EMPTY:
        return True
    member = group.members.get(member_id)
    if group.state is GroupState.PREPARING:
        if len(group.members) < max_size:
            return True
        return (member is not None and member.join is not None) or group.joined < max_size
    return member is not None or len(group.members) < max_size


def _has_memory(shard: Shard, group: ClassicGroup, joining: Joining, now_ms: int) -> bool:
    """For what it offers, beside what it did before."""
    request = joining.request
    member_id = request.member_id or group.static_members.get(request.group_instance_id or "", "")
    member = group.members.get(member_id)
    if member is None and request.member_id and request.member_id not in group.pending_ids:
        return True  # it is refused for its id, which it is to hear
    brought = of_protocols(joining.protocols)
    if member is None:
        more_bytes = max(LEAST_OF_A_MEMBER, BYTES_OF_A_MEMBER + brought)
        return shard.has_room(more_bytes, now_ms, is_new=True, group_bytes=group.size_bytes)
    after = member.size_bytes - of_protocols(member.protocols) + brought + len(member.assignment)
    return shard.has_room(after - member.held_bytes, now_ms, is_new=False, group_bytes=group.size_bytes)


def _turn_away(shard: Shard, group: ClassicGroup, joining: Joining, now_ms: int) -> None:
    joining.refuse(shard, ErrorCode.GROUP_MAX_SIZE_REACHED, member_id="")
    if joining.request.member_id in group.members:
        remove_member(shard, group, joining.request.member_id, now_ms)
    elif joining.request.member_id in group.pending_ids:
        shard.forget_id(group, joining.request.member_id)
        try_complete(shard, group, now_ms)


def _join_without_id(shard: Shard, group: ClassicGroup, joining: Joining, now_ms: int) -> None:
    request = joining.request
    if request.group_instance_id is not None:
        if request.group_instance_id in group.static_members:
            return return_static(shard, group, joining, now_ms)
    elif joining.asked.version >= FIRST_TO_ASK_FOR_AN_ID:
        return _give_id(shard, group, joining, now_ms)
    _enter(shard, group, joining, joining.new_id, now_ms)
    return None


def _give_id(shard: Shard, group: ClassicGroup, joining: Joining, now_ms: int) -> None:
    """Costs its sender nothing, so what it may cost us has an end."""
    if shard.pending_ids >= MOST_PENDING_IDS or shard.pending_bytes >= MOST_PENDING_BYTES:
        return joining.refuse(shard, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    shard.take_in(group)
    member_id = joining.new_id
    shard.remember_id(group, member_id, now_ms + joining.request.session_timeout_ms)
    joining.refuse(shard, ErrorCode.MEMBER_ID_REQUIRED, member_id)
    return None


def _join_with_id(shard: Shard, group: ClassicGroup, joining: Joining, now_ms: int) -> None:
    request = joining.request
    if request.member_id in group.pending_ids and request.group_instance_id is None:
        shard.forget_id(group, request.member_id)
        return _enter(shard, group, joining, request.member_id, now_ms)
    error = group.why_no_member(request.member_id, request.group_instance_id)
    if error:
        return joining.refuse(shard, error)
    member = group.members[request.member_id]
    is_same = member.protocols == joining.protocols
    is_leader = group.is_leader(member.member_id)
    if is_same and (
        group.state is GroupState.COMPLETING or (group.state is GroupState.STABLE and not is_leader)
    ):
        # Its answer may have been lost. A leader of a stable group that joins again asks for a rebalance.
        shard.renew_session(group, member, now_ms)
        return shard.answer(joining.asked.call, joined(group, member.member_id, with_members=is_leader))
    _rejoin(shard, group, member, joining, now_ms)
    return None


def _enter(shard: Shard, group: ClassicGroup, joining: Joining, member_id: str, now_ms: int) -> None:
    request = joining.request
    shard.take_in(group)
    member = Member(
        member_id=member_id,
        instance_id=request.group_instance_id,
        client=joining.asked.client,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        session_timeout_ms=request.session_timeout_ms,
        protocols=joining.protocols,
    )
    member.is_new = True
    group.add(member, request.protocol_type)
    member.join = joining.parked
    shard.renew_session(group, member, now_ms, NEW_MEMBER_JOIN_TIMEOUT_MS)
    if group.state is GroupState.PREPARING:
        group.somebody_came = True
        try_complete(shard, group, now_ms)
    else:
        prepare(shard, group, now_ms)


def _rejoin(shard: Shard, group: ClassicGroup, member: Member, joining: Joining, now_ms: int) -> None:
    _update(group, member, joining)
    park_join(shard, member, joining.parked)
    if group.state is GroupState.PREPARING:
        try_complete(shard, group, now_ms)
    else:
        prepare(shard, group, now_ms)


def _update(group: ClassicGroup, member: Member, joining: Joining) -> None:
    group.offer(member, joining.protocols)
    member.rebalance_timeout_ms = joining.request.rebalance_timeout_ms
    member.session_timeout_ms = joining.request.session_timeout_ms


# ------------------------------------------------------------------------- a static member that comes back


def return_static(shard: Shard, group: ClassicGroup, joining: Joining, now_ms: int) -> None:
    """A known instance without its id: it was started again, and gets a new one; the old one is fenced.

    In a stable group that chooses the same protocol with its new metadata nobody joins again: the id is stored, and
    only then does it take the old one's place. Until that record is committed the former id is the member.
    """
    instance_id = joining.request.group_instance_id
    assert instance_id is not None, "only a static member comes back without its id"
    old_id = group.static_members[instance_id]
    if (
        group.state is GroupState.STABLE
        and group.elected_protocol({old_id: joining.protocols}) == group.protocol
    ):
        stored = _with_new_id(group, instance_id, joining, now_ms)
        after = StaticReturned(
            group.group_id, group.generation, instance_id, old_id, joining.new_id, joining, stored
        )
        group.returning = stored
        record = GroupRecord(GroupKey(group.group_id), stored)
        shard.append([record], after, brought_bytes=of_protocols(joining.protocols))
        return
    _take_place(shard, group, old_id, joining.new_id, joining)
    _rejoin(shard, group, group.members[joining.new_id], joining, now_ms)


def _take_place(shard: Shard, group: ClassicGroup, old_id: str, new_id: str, joining: Joining) -> None:
    join, sync = group.rename(old_id, new_id)
    if join is not None:
        shard.answer(join.call, join_refused(join.version, ErrorCode.FENCED_INSTANCE_ID, old_id))
    if sync is not None:
        shard.answer(sync.call, sync_refused(ErrorCode.FENCED_INSTANCE_ID))
    member = group.members[new_id]
    member.returned_from = frozenset()
    member.session_timer_at_ms = None  # its timer has the old id
    _update(group, member, joining)


def _with_new_id(group: ClassicGroup, instance_id: str, joining: Joining, now_ms: int) -> StoredGroup:
    """As the group is; and as it will be, where others that came back are on their way: of records the last one counts."""
    stored = group.returning
    if stored is None:
        assignments = {one.member_id: one.assignment for one in group.members.values()}
        stored = group.as_stored(now_ms, assignments)
    request = joining.request
    former = next(one for one in stored.members if one.instance_id == instance_id)
    back = former._replace(
        member_id=joining.new_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        session_timeout_ms=request.session_timeout_ms,
        subscription=metadata_of(joining.protocols, group.protocol),
    )
    members = tuple(back if one is former else one for one in stored.members)
    leader = back.member_id if stored.leader == former.member_id else stored.leader
    return stored._replace(members=members, leader=leader)


@dataclass(frozen=True, slots=True)
class StaticReturned:
    group_id: str
    generation: int
    instance_id: str
    old_id: str
    new_id: str
    joining: Joining
    stored: StoredGroup

    def committed(self, shard: Shard, now_ms: int) -> None:
        group = self._settled(shard)
        member = None if group is None else group.members.get(group.static_members.get(self.instance_id, ""))
        if group is None or member is None or self.old_id not in (member.member_id, *member.returned_from):
            # It left, its session ended, or it joined a generation meanwhile: this life of it is over.
            return self.joining.refuse(shard, ErrorCode.UNKNOWN_MEMBER_ID)
        # Of two that came back while neither was stored the later one stays: the log says so.
        present_id = member.member_id
        if group.state is not GroupState.STABLE or group.generation != self.generation:
            _take_place(shard, group, present_id, self.new_id, self.joining)
            return _rejoin(shard, group, group.members[self.new_id], self.joining, now_ms)
        former_leader, former_ids = group.leader, {*member.returned_from, present_id}
        _take_place(shard, group, present_id, self.new_id, self.joining)
        if group.returning is not None:
            member.returned_from = frozenset(former_ids)
        shard.renew_session(group, member, now_ms)
        can_skip = self.joining.asked.version >= FIRST_TO_SKIP_ASSIGNMENT
        is_leader = group.is_leader(self.new_id)
        response = joined(
            group,
            self.new_id,
            with_members=is_leader and can_skip,
            # Below version 9 it must not think that it leads: it would assign anew, and nobody would be told.
            leader=group.leader if can_skip else former_leader,
            skip_assignment=is_leader and can_skip,
        )
        shard.answer(self.joining.asked.call, response)
        return None

    def failed(self, shard: Shard, error: ErrorCode, now_ms: int) -> None:
        self._settled(shard)
        self.joining.refuse(shard, told_of_group(error))

    def _settled(self, shard: Shard) -> ClassicGroup | None:
        group = shard.groups.get(self.group_id)
        if group is not None and group.returning is self.stored:
            group.returning = None
        return group
