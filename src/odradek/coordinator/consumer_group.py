"""One group of KIP-848 while its coordinator lives: what is stored of it (`image`), and deadlines, which are lost with us.

Every member has a session. A deadline is looked up when a timer comes, so that a heartbeat moves it without touching the heap.
"""

from collections.abc import Mapping
from enum import Enum

from odradek.coordinator.assignors import Question, elected
from odradek.coordinator.consumer_image import ConsumerImage
from odradek.coordinator.consumer_records import MemberState
from odradek.coordinator.timers import Kind, Timer, Timers
from odradek.coordinator.topic_ids import TopicIds, partitions_by_id

Owner = tuple[Kind, str]  # the second: member id


class ConsumerGroupState(Enum):
    EMPTY = "Empty"
    ASSIGNING = "Assigning"  # its epoch is ahead of its target assignment
    RECONCILING = "Reconciling"  # members are on their way to the target
    STABLE = "Stable"
    DEAD = "Dead"  # its removal is being written


class ConsumerGroup:
    __slots__ = (
        "_armed",
        "_timers",
        "assign_again_ms",
        "deadlines",
        "group_id",
        "image",
        "is_assigning",
        "is_resolving",
        "metadata_seen",
        "removals_in_flight",
        "resolve_again_ms",
        "resolved_at_ms",
        "resolved_version",
    )

    def __init__(self, group_id: str, image: ConsumerImage, timers: Timers) -> None:
        self.group_id = group_id
        self.image = image
        self.deadlines: dict[Owner, int] = {}
        self.metadata_seen = -1  # `TopicIds.changes` at the last look at the topics
        self.is_assigning = False  # a thread computes a target
        self.assign_again_ms = 0  # not before, after one that could not be stored
        self.is_resolving = False
        self.resolve_again_ms = 0  # as `assign_again_ms`
        self.resolved_at_ms = max((one.resolved_at_ms for one in image.regexes.values()), default=0)
        self.resolved_version = -1
        self.removals_in_flight = 0
        self._timers = timers
        self._armed: dict[Owner, int] = {}  # when the earliest timer of a deadline comes

    @property
    def is_dead(self) -> bool:
        return self.removals_in_flight > 0

    @property
    def is_empty(self) -> bool:
        return not self.is_dead and not self.image.members

    @property
    def state(self) -> ConsumerGroupState:
        """Looks at each member, for whoever describes the group; requests ask `is_dead` and `is_empty`."""
        image = self.image
        if self.is_dead:
            return ConsumerGroupState.DEAD
        if not image.members:
            return ConsumerGroupState.EMPTY
        if image.epoch > image.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        for member_id in image.members:
            current = image.current_of(member_id)
            if current.state is not MemberState.STABLE or current.epoch != image.assignment_epoch:
                return ConsumerGroupState.RECONCILING
        return ConsumerGroupState.STABLE

    # ---------------------------------------------------------------------------------------------- deadlines

    def set_deadline(self, kind: Kind, member_id: str, due_ms: int) -> None:
        owner = kind, member_id
        self.deadlines[owner] = due_ms
        armed_ms = self._armed.get(owner)
        if armed_ms is None or due_ms < armed_ms:
            self._armed[owner] = due_ms
            self._timers.arm(due_ms, kind, self.group_id, member_id)

    def drop_deadline(self, kind: Kind, member_id: str) -> None:
        self.deadlines.pop((kind, member_id), None)

    def forget_member(self, member_id: str) -> None:
        for kind in MEMBER_DEADLINES:
            self.drop_deadline(kind, member_id)

    def due_of(self, timer: Timer) -> int | None:
        owner = timer.kind, timer.key
        due_ms = self.deadlines.get(owner)
        if self._armed.get(owner) == timer.due_ms:
            if due_ms is None:
                del self._armed[owner]
            else:
                self._armed[owner] = due_ms
        return due_ms

    def has_fired(self, timer: Timer) -> None:
        """It is in the heap no more, whatever became of its deadline meanwhile."""
        self._armed.pop((timer.kind, timer.key), None)


MEMBER_DEADLINES = (Kind.CONSUMER_SESSION, Kind.REVOCATION, Kind.CLASSIC_JOIN, Kind.CLASSIC_SYNC)


def assignor_of(image: ConsumerImage, known: tuple[str, ...]) -> str:
    return elected((one.assignor for one in image.members.values() if one.assignor in known), known)


def question_of(image: ConsumerImage, topics: Mapping[str, int], ids: TopicIds) -> Question:
    """What an assignor is asked about the group as it is."""
    known: dict[tuple[tuple[str, ...], str], frozenset[bytes]] = {}
    members: dict[str, frozenset[bytes]] = {}
    for member_id, one in image.members.items():
        key = one.topics, one.regex
        found = known.get(key)
        if found is None:
            found = known[key] = frozenset(partitions_by_id(image.topics_of(one), topics, ids))
        members[member_id] = found
    partitions = partitions_by_id(image.subscribed_topics(), topics, ids)
    order = {member_id: one.instance_id or member_id for member_id, one in image.members.items()}
    return Question(members, partitions, dict(image.targets), order)
