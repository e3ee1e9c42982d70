"""What one event makes of a group of KIP-848: records, tried on a copy of the group before they are appended.

Whoever asks is answered when the records are committed; until then the group is as it was, and whoever else asks for
it waits (`turns`). Nothing is left of a draft whose append fails.
"""

from odradek.coordinator.asides import Assign, Resolve
from odradek.coordinator.assignors import Question, assign
from odradek.coordinator.consumer_group import ConsumerGroup, assignor_of, question_of
from odradek.coordinator.consumer_image import ConsumerImage, size_bytes_of
from odradek.coordinator.consumer_records import (
    Assignment,
    CurrentRecord,
    EpochRecord,
    GroupEpoch,
    MemberRecord,
    RegexRecord,
    Subscriber,
    TargetEpochRecord,
    TargetRecord,
)
from odradek.coordinator.reconciling import Owned, is_same, next_step
from odradek.coordinator.records import CoordinatorRecord, GroupRecord, OffsetRecord
from odradek.coordinator.settings import REGEX_REFRESH_MS, REGEX_REST_MS
from odradek.coordinator.shard import Shard
from odradek.coordinator.topic_ids import metadata_hash
from odradek.coordinator.topic_patterns import compile_pattern
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError

# Members, subscriptions and partitions of a group whose target is computed in the turn that asks for it, which takes a few
# milliseconds with its records. Above that a thread does, and members go on with the target there is.
MOST_AT_ONCE = 1_000


class NoMemory(ProtocolError):
    """What a member says, beside what it said before, is more than there is room for."""

    def __init__(self) -> None:
        why = "Members of groups take as much memory of this broker as they may."
        super().__init__(ErrorCode.COORDINATOR_NOT_AVAILABLE, why)


class Draft:
    def __init__(self, shard: Shard, group_id: str, now_ms: int) -> None:
        self.shard = shard
        self.group_id = group_id
        self.now_ms = now_ms
        self.group: ConsumerGroup | None = shard.consumer_groups.get(group_id)
        self.image = self.group.image if self.group is not None else ConsumerImage()
        self.records: list[CoordinatorRecord] = []
        self.asides: list[Assign | Resolve] = []
        self._is_copy = self.group is None

    def write(self, record: CoordinatorRecord) -> None:
        self.records.append(record)
        if isinstance(record, GroupRecord | OffsetRecord):
            return
        if not self._is_copy:
            self._is_copy = True
            self.image = self.image.copy()
        self.image.replay(record)

    @property
    def grown_bytes(self) -> int:
        """Of memory that members take: how much more than before."""
        return self.image.held_bytes - (self.group.image.held_bytes if self.group is not None else 0)

    # ------------------------------------------------------------------------------------------ subscriptions

    def subscribe(self, member_id: str, subscriber: Subscriber) -> bool:
        """Whether the epoch has to move on for that. InvalidPattern: its expression is none. NoMemory."""
        image = self.image
        before = image.members.get(member_id)
        regex_before = before.regex if before is not None else ""
        is_new_regex = subscriber.regex != regex_before and bool(subscriber.regex)
        if is_new_regex and subscriber.regex not in image.regex_counts:
            compile_pattern(subscriber.regex)
        if subscriber == before:
            return False
        more_bytes = size_bytes_of(subscriber) - (size_bytes_of(before) if before is not None else 0)
        if before is not None and (subscriber.topics, subscriber.regex) != (before.topics, regex_before):
            more_bytes = max(more_bytes, 1)  # an expression of two letters may name ten thousand partitions
        if not self.shard.has_room(
            more_bytes, self.now_ms, is_new=before is None, group_bytes=image.held_bytes
        ):
            raise NoMemory
        is_resolved = is_new_regex and subscriber.regex in image.regexes
        names_before = before.topics if before is not None else ()
        self.write(MemberRecord(self.group_id, member_id, subscriber))
        self._drop_regex(regex_before)
        return subscriber.topics != names_before or is_resolved

    def _drop_regex(self, regex: str) -> None:
        if regex and regex in self.image.regexes and regex not in self.image.regex_counts:
            self.write(RegexRecord(self.group_id, regex, None))

    def move_epoch(self, *, is_changed: bool) -> None:
        """Where members changed, or what they subscribe to, or the topics themselves."""
        group, image, ids = self.group, self.image, self.shard.ids
        is_changed = is_changed or not image.epoch
        if not is_changed and group is not None and group.metadata_seen == ids.changes:
            return
        found = metadata_hash(image.subscribed_topics(), self.shard.topics, ids)
        if group is not None and not self._is_copy and found == image.metadata_hash:
            group.metadata_seen = ids.changes  # not before what follows from them is committed: it may fail
        if is_changed or found != image.metadata_hash:
            self.write(EpochRecord(self.group_id, GroupEpoch(image.epoch + 1, found)))

    def resolve_expressions(self) -> None:
        """Ask for the topics of the group's regular expressions where some are not known, or may have changed."""
        group, image = self.group, self.image
        if not image.regex_counts or (group is not None and group.is_resolving):
            return
        if group is not None and self.now_ms < group.resolve_again_ms:
            return
        version = self.shard.ids.changes
        if group is not None and group.image.regexes:
            age_ms = self.now_ms - group.resolved_at_ms
            is_known = image.regexes.keys() >= image.regex_counts.keys()
            if 0 <= age_ms < REGEX_REST_MS:
                return
            if is_known and group.resolved_version == version and age_ms < REGEX_REFRESH_MS:
                return
        expressions = tuple(sorted(image.regex_counts))
        names = tuple(name for name in self.shard.topics if self.shard.ids.id_of(name) is not None)
        self.asides.append(Resolve(self.group_id, expressions, names, version))

    # ---------------------------------------------------------------------------------------------- assignment

    def retarget(self) -> None:
        """A target for the present epoch: now, or by a thread where that takes long."""
        image, group = self.image, self.group
        if image.epoch <= image.assignment_epoch or not image.members:
            return
        if group is not None and (group.is_assigning or self.now_ms < group.assign_again_ms):
            return  # it was too large for a turn; to find whether it still is costs one
        question = question_of(image, self.shard.topics, self.shard.ids)
        assignor = assignor_of(image, self.shard.settings.consumer_assignors)
        if question.size <= MOST_AT_ONCE:
            return self._assign_now(assignor, question)
        if not image.assignment_epoch:
            # Nobody may be told epoch 0: the first target is an empty one.
            self.write(TargetEpochRecord(self.group_id, image.epoch))
            self.move_epoch(is_changed=True)
        self.asides.append(Assign(self.group_id, self.image.epoch, assignor, question))
        return None

    def _assign_now(self, assignor: str, question: Question) -> None:
        epoch = self.image.epoch
        for record in changed_targets(self.group_id, self.image, assign(assignor, question)):
            self.write(record)
        self.write(TargetEpochRecord(self.group_id, epoch))

    def reconcile(self, member_id: str, owned: Owned) -> bool:
        """Takes the member a step on. False: it must begin anew."""
        image = self.image
        current = image.current_of(member_id)
        step = next_step(current, image.target_of(member_id), image.assignment_epoch, owned, image.is_free)
        if step is None:
            return False
        if step != current or member_id not in image.current:
            self.write(CurrentRecord(self.group_id, member_id, step))
        return True

    # ------------------------------------------------------------------------------------------------- leaving

    def remove(self, member_ids: list[str]) -> None:
        for member_id in member_ids:
            regex = self.image.members[member_id].regex
            self.write(CurrentRecord(self.group_id, member_id, None))
            self.write(TargetRecord(self.group_id, member_id, None))
            self.write(MemberRecord(self.group_id, member_id, None))
            self._drop_regex(regex)
        self.move_epoch(is_changed=True)


def changed_targets(
    group_id: str, image: ConsumerImage, targets: "dict[str, Assignment]"
) -> list[TargetRecord]:
    """Of members that are still there."""
    found = []
    for member_id, target in targets.items():
        before = image.targets.get(member_id)
        if member_id in image.members and (before is None or not is_same(before, target)):
            found.append(TargetRecord(group_id, member_id, target))
    return found
