"""One classic group: its members, their votes, the join in progress. What it says of itself, and no requests.

What its last record says is stored (`stored.py`) and can be taken up again (`adopt`); all else - pending ids, who is parked, the generation being made -
lives in memory, is lost with the coordinator, and is nothing a client was promised.
"""

from collections.abc import Collection, Iterable, Mapping

from odradek.coordinator.bounded_memory import of_text
from odradek.coordinator.group_states import GroupState, check_transition
from odradek.coordinator.member import Member, Parked, Protocols, member_from
from odradek.coordinator.member_memory import LEAST_OF_A_MEMBER, Held, of_protocols
from odradek.coordinator.records import StoredGroup
from odradek.coordinator.subscription import CONSUMER, topics_of_all
from odradek.model.error_codes import ErrorCode

GenerationAndIds = tuple[int, str, str | None]


class ClassicGroup:
    __slots__ = (
        "_gaps",
        "generation",
        "group_id",
        "held",
        "initial_wait_left_ms",
        "is_adopted",
        "join_ends_at_ms",
        "leader",
        "members",
        "offered",
        "pending_ids",
        "protocol",
        "protocol_type",
        "returning",
        "size_bytes",
        "somebody_came",
        "state",
        "state_since_ms",
        "static_members",
        "storing",
        "sync_ends_at_ms",
        "unsynced",
    )

    def __init__(self, group_id: str, now_ms: int) -> None:
        self.group_id = group_id
        self.size_bytes = 0  # memory of its members
        self.held = Held()  # of one that a coordinator has, of all its groups
        self.state = GroupState.EMPTY
        self.state_since_ms = now_ms
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader: str | None = None  # Invariant: a member, or None where there is none
        self.members: dict[str, Member] = {}  # in the order they came
        self.offered: dict[str, int] = {}  # protocol -> how many members offer it
        self.static_members: dict[str, str] = {}  # instance id -> member id, of those members that have one
        self.pending_ids: dict[str, int] = {}  # id given, not joined yet -> when it is forgotten
        # Members that were told of this generation and have not asked for their assignment.
        self.unsynced: set[str] = set()
        self.join_ends_at_ms: int | None = None
        # The first join of an empty group waits for more members; None: this is no such join.
        self.initial_wait_left_ms: int | None = None
        self.somebody_came = False
        self.sync_ends_at_ms: int | None = None
        self.storing: int | None = (
            None  # the append that makes this generation stable; None but while completing
        )
        # What the record of a static member that came back says, while it is on its way; None but while stable.
        self.returning: StoredGroup | None = None
        # Loaded, so members may know a generation that was never stored: the next one skips it.
        self.is_adopted = False
        self._gaps = 0  # members that were removed since `members` was made anew

    # ------------------------------------------------------------------------------------------- what it is

    def move_to(self, state: GroupState, now_ms: int) -> None:
        check_transition(self.group_id, self.state, state)
        self.state = state
        self.state_since_ms = now_ms
        self.storing = self.returning = None

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def _name_bytes(self) -> int:
        """Each may have 32 kB, in a group of one member, and a request that waits has them once more."""
        return of_text(self.group_id, self.protocol_type or "")

    @property
    def joined(self) -> int:
        return sum(1 for member in self.members.values() if member.join is not None)

    @property
    def has_joined_all(self) -> bool:
        if self.pending_ids:
            return False
        for member in self.members.values():  # noqa: SIM110 - asked for each member that leaves, of which there may be thousands
            if member.join is None:
                return False
        return True

    @property
    def subscribed_topics(self) -> frozenset[str] | None:
        """None: not known, so any topic may be subscribed."""
        if self.protocol_type != CONSUMER or self.protocol is None:
            return None if self.members else frozenset()
        return topics_of_all(member.metadata_of(self.protocol) for member in self.members.values())

    def is_leader(self, member_id: str) -> bool:
        return self.leader == member_id

    # -------------------------------------------------------------------------------------------- protocols

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether somebody who offers these can be a member beside all that are there."""
        if self.state == GroupState.EMPTY:
            return bool(protocol_type) and bool(protocols)
        if protocol_type != self.protocol_type:
            return False
        common = self.common_protocols()
        return any(name in common for name, _ in protocols)

    def common_protocols(self, instead: Mapping[str, Protocols] | None = None) -> set[str]:
        """Names every member offers; `instead`: what a member is about to offer, by member id. Of one member all are looked at:
        what the others offer beside those may be very many.
        """
        one = next(iter(self.members.values()), None)
        if one is None:
            return set()
        found = _names((instead or {}).get(one.member_id, one.protocols))
        changes = [
            (_names(self.members[member_id].protocols), _names(protocols))
            for member_id, protocols in (instead or {}).items()
        ]

        def count(name: str) -> int:
            return self.offered.get(name, 0) + sum(
                (name in after) - (name in before) for before, after in changes
            )

        return {name for name in found if count(name) == len(self.members)}

    def offer(self, member: Member, protocols: Protocols) -> None:
        """What a member offers from here on."""
        _count(self.offered, member.protocols, -1)
        _count(self.offered, protocols, 1)
        self._grow(member, of_protocols(protocols) - of_protocols(member.protocols))
        member.protocols = protocols

    def elected_protocol(self, instead: Mapping[str, Protocols] | None = None) -> str | None:
        """Each member votes for the first common protocol of its list; the most votes win, of equals the name
        that comes last."""
        common = self.common_protocols(instead)
        if len(common) == 1:
            return common.pop()
        votes: dict[str, int] = {}
        for member in self.members.values():
            for name, _ in (instead or {}).get(member.member_id, member.protocols):
                if name in common:
                    votes[name] = votes.get(name, 0) + 1
                    break
        return max(votes, key=lambda name: (votes[name], name), default=None)

    # ---------------------------------------------------------------------------------------------- members

    def why_no_member(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """In the order a client is told: the instance, then the id."""
        if instance_id is not None:
            known = self.static_members.get(instance_id)
            if known is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if known != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def why_not_of_generation(self, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        """As `why_no_member`, and then whether the member is in the present generation."""
        error = self.why_no_member(member_id, instance_id)
        if not error and generation != self.generation:
            return ErrorCode.ILLEGAL_GENERATION
        return error

    def add(self, member: Member, protocol_type: str) -> None:
        if not self.members:
            self.protocol_type = protocol_type
        self.members[member.member_id] = member
        member.size_bytes += self._name_bytes
        self._hold(_held_by((member,)))
        _count(self.offered, member.protocols, 1)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id

    def remove(self, member_id: str) -> Member:
        member = self.members.pop(member_id)
        self._hold(-_held_by((member,)))
        _count(self.offered, member.protocols, -1)
        if member.instance_id is not None:
            del self.static_members[member.instance_id]
        self._gaps += 1
        if self._gaps > len(self.members) // 16:
            # A dictionary keeps the places of what went from its front, and looks at each of them again.
            self.members, self._gaps = dict(self.members), 0
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        self.unsynced.discard(member_id)
        return member

    def remove_all(self, gone: Collection[str]) -> list[Member]:
        """As `remove` of each. Of many it looks at those that stay once, not again and again."""
        if len(gone) <= len(self.members) // 16:
            return [self.remove(member_id) for member_id in gone]
        removed = [self.members.pop(member_id) for member_id in gone]
        self._hold(-_held_by(removed))
        self.members, self._gaps = dict(self.members), 0
        if len(self.members) < len(removed):
            self.offered = {}
            for member in self.members.values():
                _count(self.offered, member.protocols, 1)
        else:
            for member in removed:
                _count(self.offered, member.protocols, -1)
        for member in removed:
            if member.instance_id is not None:
                del self.static_members[member.instance_id]
        if self.leader not in self.members:
            self.leader = next(iter(self.members), None)
        self.unsynced.difference_update(gone)
        return removed

    def rename(self, old_id: str, new_id: str) -> tuple[Parked | None, Parked | None]:
        """A static member came back under another id; gives what its former incarnation had parked."""
        member = self.members.pop(old_id)
        parked = member.join, member.sync
        member.join = member.sync = None
        self._grow(member, of_text(new_id) - of_text(old_id))
        member.member_id = new_id
        self.members[new_id] = member
        assert member.instance_id is not None, "only a static member comes back under another id"
        self.static_members[member.instance_id] = new_id
        if self.leader == old_id:
            self.leader = new_id
        if old_id in self.unsynced:
            self.unsynced.remove(old_id)
            self.unsynced.add(new_id)
        return parked

    def assign(self, assignments: Mapping[str, bytes]) -> None:
        """Whoever is left out gets nothing."""
        for member in self.members.values():
            member.assignment = assignments.get(member.member_id, b"")
        self._hold(_held_by(self.members.values()) - self.size_bytes)

    def size_bytes_with(self, assignments: Mapping[str, bytes]) -> int:
        """What `size_bytes` will be when these are assigned."""
        assigned = [len(assignments.get(member_id, b"")) for member_id in self.members]
        return _weigh(self.members.values(), assigned)

    def _grow(self, member: Member, by: int) -> None:
        before = member.held_bytes
        member.size_bytes += by
        self._hold(member.held_bytes - before)

    def _hold(self, more_bytes: int) -> None:
        self.size_bytes += more_bytes
        self.held.size_bytes += more_bytes

    def elect_joined_leader(self) -> bool:
        """The leader stays if it joined; else one that did leads. False: nobody joined."""
        leader = self.members.get(self.leader or "")
        if leader is not None and leader.join is not None:
            return True
        for member in self.members.values():
            if member.join is not None:
                self.leader = member.member_id
                return True
        return False

    # ---------------------------------------------------------------------------------------------- records

    def as_stored(self, now_ms: int, assignments: Mapping[str, bytes]) -> StoredGroup:
        """What a record of this moment says. Members without an assignment get an empty one."""
        members: Iterable[Member] = self.members.values()
        return StoredGroup(
            self.protocol_type or "",
            self.generation,
            self.protocol,
            self.leader,
            now_ms,
            tuple(one.stored(self.protocol, assignments.get(one.member_id, b"")) for one in members),
        )

    def adopt(self, stored: StoredGroup) -> None:
        """Become what a record says: the way into memory for a group that was loaded."""
        self.is_adopted = True
        self.protocol_type = stored.protocol_type
        self.generation = stored.generation
        self.protocol = stored.protocol
        self.members = {one.member_id: member_from(one, stored.protocol) for one in stored.members}
        self.offered = {}
        for member in self.members.values():
            member.size_bytes += self._name_bytes
            _count(self.offered, member.protocols, 1)
        self.static_members = {
            one.instance_id: one.member_id for one in stored.members if one.instance_id is not None
        }
        self._hold(_held_by(self.members.values()) - self.size_bytes)
        self.leader = stored.leader if stored.leader in self.members else next(iter(self.members), None)
        self.state = GroupState.STABLE if self.members else GroupState.EMPTY
        self.state_since_ms = stored.state_since_ms


def _held_by(members: Collection[Member]) -> int:
    return _weigh(members, map(len, [member.assignment for member in members]))


def _weigh(members: Iterable[Member], assigned: Iterable[int]) -> int:
    """As `Member.held_bytes`, without a call for each: they may be ten thousand."""
    sizes = [member.size_bytes + more for member, more in zip(members, assigned, strict=True)]
    return sum([size if size > LEAST_OF_A_MEMBER else LEAST_OF_A_MEMBER for size in sizes])


def _names(protocols: Protocols) -> set[str]:
    """A member may name a protocol twice."""
    return {name for name, _ in protocols}


def _count(offered: dict[str, int], protocols: Protocols, by: int) -> None:
    for name in _names(protocols):
        offered[name] = offered.get(name, 0) + by
        if not offered[name]:
            del offered[name]
