"""What the records say of one group of KIP-848: the image that a record changes, while loading and ever after.

Records come in any order after compaction - what a member has before the member itself - so each kind has a place of its
own, and what is derived (`owners`, who subscribes to what) is counted as they come and go.
"""

from collections.abc import Iterator

from odradek.coordinator.bounded_memory import of_text
from odradek.coordinator.consumer_records import (
    NOTHING,
    Assignment,
    ConsumerRecord,
    Current,
    CurrentRecord,
    EpochRecord,
    GroupEpoch,
    MemberRecord,
    MemberState,
    RegexRecord,
    ResolvedRegex,
    Subscriber,
    TargetEpochRecord,
    TargetRecord,
)
from odradek.coordinator.member_memory import (
    BYTES_OF_A_MEMBER,
    LEAST_OF_A_MEMBER,
    of_assignment,
    of_names,
    of_protocols,
)

NO_EPOCH = GroupEpoch(0, 0)
NEW = Current(0, 0, MemberState.STABLE, NOTHING, NOTHING)  # a member that has been told nothing


class ConsumerImage:
    __slots__ = (
        "assignment_epoch",
        "current",
        "epoch",
        "held_bytes",
        "members",
        "metadata_hash",
        "names",
        "owners",
        "regex_counts",
        "regexes",
        "static_members",
        "targets",
    )

    def __init__(self) -> None:
        self.epoch = 0  # 0: there is no such group
        self.metadata_hash = 0
        self.assignment_epoch = 0
        self.held_bytes = 0  # of memory, about
        self.members: dict[str, Subscriber] = {}
        self.current: dict[str, Current] = {}
        self.targets: dict[str, Assignment] = {}
        self.regexes: dict[str, ResolvedRegex] = {}
        self.static_members: dict[str, str] = {}  # instance id -> member id
        self.owners: dict[
            bytes, dict[int, str]
        ] = {}  # topic id -> partition -> who has it or is to let it go
        self.names: dict[str, int] = {}  # topic that is subscribed to by its name -> by how many
        self.regex_counts: dict[str, int] = {}  # the same of regular expressions

    def copy(self) -> "ConsumerImage":
        """To try records on; values are shared, for none is ever changed."""
        found = ConsumerImage()
        found.epoch = self.epoch
        found.metadata_hash = self.metadata_hash
        found.assignment_epoch = self.assignment_epoch
        found.held_bytes = self.held_bytes
        found.members = dict(self.members)
        found.current = dict(self.current)
        found.targets = dict(self.targets)
        found.regexes = dict(self.regexes)
        found.static_members = dict(self.static_members)
        found.owners = {topic: dict(partitions) for topic, partitions in self.owners.items()}
        found.names = dict(self.names)
        found.regex_counts = dict(self.regex_counts)
        return found

    # --------------------------------------------------------------------------------------------- questions

    @property
    def is_there(self) -> bool:
        return self.epoch > 0

    @property
    def is_bare(self) -> bool:
        """No record says anything about it."""
        return not (
            self.epoch
            or self.assignment_epoch
            or self.members
            or self.current
            or self.targets
            or self.regexes
        )

    def current_of(self, member_id: str) -> Current:
        return self.current.get(member_id, NEW)

    def target_of(self, member_id: str) -> Assignment:
        return self.targets.get(member_id, NOTHING)

    def is_free(self, topic_id: bytes, partition: int) -> bool:
        return partition not in self.owners.get(topic_id, ())

    def subscribed_topics(self) -> set[str]:
        """By name, and by regular expression as far as it is resolved."""
        found = set(self.names)
        for regex in self.regex_counts:
            if regex in self.regexes:
                found.update(self.regexes[regex].topics)
        return found

    def topics_of(self, subscriber: Subscriber) -> set[str]:
        resolved = self.regexes.get(subscriber.regex) if subscriber.regex else None
        return {*subscriber.topics, *(resolved.topics if resolved is not None else ())}

    def classic_members(self) -> Iterator[tuple[str, Subscriber]]:
        return ((name, one) for name, one in self.members.items() if one.classic is not None)

    # ------------------------------------------------------------------------------------------------ records

    def replay(self, record: ConsumerRecord) -> None:
        match record:
            case EpochRecord(_, value):
                self.epoch, self.metadata_hash = value or NO_EPOCH
            case MemberRecord(group_id, member_id, value):
                self._replay_member(group_id, member_id, value)
            case TargetEpochRecord(_, value):
                self.assignment_epoch = value or 0
            case TargetRecord(_, member_id, value):
                self.held_bytes -= of_assignment(self.targets.pop(member_id, NOTHING))
                if value is not None:
                    self.targets[member_id] = value
                    self.held_bytes += of_assignment(value)
            case CurrentRecord(_, member_id, value):
                self._replay_current(member_id, value)
            case RegexRecord(_, regex, value):
                before = self.regexes.pop(regex, None)
                self.held_bytes -= of_names(before.topics) if before is not None else 0
                if value is not None:
                    self.regexes[regex] = value
                    self.held_bytes += of_names(value.topics)
            case _:
                pass  # metadata of partitions, as 3.9 kept it

    def _replay_member(self, group_id: str, member_id: str, value: Subscriber | None) -> None:
        before = self.members.pop(member_id, None)
        name_bytes = of_text(group_id, member_id)
        if before is not None:
            self._count(before, -1)
            self.held_bytes -= size_bytes_of(before) + name_bytes
            if before.instance_id is not None and self.static_members.get(before.instance_id) == member_id:
                del self.static_members[before.instance_id]
        if value is not None:
            self.members[member_id] = value
            self._count(value, 1)
            self.held_bytes += size_bytes_of(value) + name_bytes
            if value.instance_id is not None:
                self.static_members[value.instance_id] = member_id

    def _count(self, subscriber: Subscriber, by: int) -> None:
        for name in subscriber.topics:
            _add(self.names, name, by)
        if subscriber.regex:
            _add(self.regex_counts, subscriber.regex, by)

    def _replay_current(self, member_id: str, value: Current | None) -> None:
        before = self.current.pop(member_id, None)
        if before is not None:
            for assignment in (before.assigned, before.revoking):
                self._release(member_id, assignment)
                self.held_bytes -= of_assignment(assignment)
        if value is not None:
            self.current[member_id] = value
            for assignment in (value.assigned, value.revoking):
                self.held_bytes += of_assignment(assignment)
                for topic, partitions in assignment.items():
                    self.owners.setdefault(topic, {}).update(dict.fromkeys(partitions, member_id))

    def _release(self, member_id: str, assignment: Assignment) -> None:
        for topic, partitions in assignment.items():
            owned = self.owners.get(topic, {})
            for partition in partitions:
                if owned.get(partition) == member_id:
                    del owned[partition]
            if not owned:
                self.owners.pop(topic, None)


def size_bytes_of(subscriber: Subscriber) -> int:
    """Of memory, about, as it counts."""
    one = subscriber
    said = (one.instance_id, one.rack_id, one.client_id, one.regex, one.assignor)
    protocols = one.classic.protocols if one.classic is not None else ()
    names = of_names(filter(None, said)) + of_names(one.topics)
    return max(LEAST_OF_A_MEMBER, BYTES_OF_A_MEMBER + names + of_protocols(protocols))


def _add(counts: dict[str, int], name: str, by: int) -> None:
    counts[name] = counts.get(name, 0) + by
    if not counts[name]:
        del counts[name]
