"""A consumer group as it is seen from outside: what its coordinator describes, and how far it has read."""

from odradek.model.ids import BrokerId, TopicPartition
from odradek.model.values import dataclass

STABLE, EMPTY, DEAD = "Stable", "Empty", "Dead"
CLASSIC, CONSUMER = "classic", "consumer"  # types of groups


@dataclass(frozen=True, slots=True)
class GroupMember:
    """`topics`, `partitions` None: not known; while a group rebalances its coordinator does not show them, and what
    members of another protocol type (`connect`) exchange is theirs alone."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    topics: tuple[str, ...] | None
    partitions: tuple[TopicPartition, ...] | None


@dataclass(frozen=True, slots=True)
class Group:
    """`kind`: classic, or consumer (KIP-848). A group that nobody knows is Dead."""

    name: str
    state: str
    kind: str
    protocol_type: str
    assignor: str
    coordinator: BrokerId
    members: tuple[GroupMember, ...]

    @property
    def is_active(self) -> bool:
        """It has members, or is about to: its offsets are theirs to commit."""
        return self.state not in (EMPTY, DEAD)

    def owners(self) -> dict[TopicPartition, GroupMember]:
        return {where: member for member in self.members for where in member.partitions or ()}


@dataclass(frozen=True, slots=True)
class Position:
    """One partition as a group has read it. None: nothing is committed; or its leader does not say where it begins or
    ends (high watermark)."""

    partition: TopicPartition
    committed: int | None
    start: int | None
    end: int | None
    owner: GroupMember | None = None

    @property
    def lag(self) -> int | None:
        """Records between what was committed and the high watermark; never negative."""
        if self.committed is None or self.end is None:
            return None
        return max(self.end - self.committed, 0)


@dataclass(frozen=True, slots=True)
class Seat:
    """A member as its group's record has it; times in milliseconds."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    partitions: tuple[TopicPartition, ...] | None

    @property
    def person(self) -> str:
        """Who it is to people, whatever id it was given this time."""
        return self.instance_id or f"{self.client_id} at {self.host}"


@dataclass(frozen=True, slots=True)
class Generation:
    """One record of a classic group: what it had come to, and when that was written."""

    at_ms: int
    number: int
    leader: str | None
    seats: tuple[Seat, ...]


@dataclass(frozen=True, slots=True)
class GroupHistory:
    """What the end of the group's partition of `__consumer_offsets` tells: its generations, oldest first, and when each
    partition was committed last. `since_ms`: nothing is known of what was before; None: it was read to its beginning."""

    generations: tuple[Generation, ...]
    committed_at_ms: dict[TopicPartition, int]
    since_ms: int | None
