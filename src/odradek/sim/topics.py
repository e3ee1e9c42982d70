"""The topics of a world as the store has them: which of two topics of one name, and what unclean elections did.

Read by the checkers and the workload's bookkeeping, never by what is tested.
"""

from typing import Any

from odradek.model.cluster import LeaderAndIsr
from odradek.model.facts import TopicAssignment
from odradek.model.ids import BrokerId, TopicId, TopicPartition
from odradek.sim.checkers.history import AGAIN
from odradek.sim.observed.decoded import Decoded
from odradek.store import layout
from odradek.store.fields import Unreadable
from odradek.store.memory import Tree

RECOVERING = 1


class Topics:
    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._decoded = Decoded()
        # name -> what it was when the tree had come so far
        self._assignments: dict[str, tuple[int, TopicAssignment | None]] = {}
        self._to_delete: tuple[int, tuple[str, ...]] = (-1, ())  # as well
        # name -> the ids it has had, in the order they were seen
        self._ids: dict[str, list[TopicId | None]] = {}
        self._unclean: dict[TopicPartition, int] = {}  # how many unclean elections
        self._unclean_epoch: dict[TopicPartition, tuple[TopicId | None, int]] = {}  # of the last one
        self._told: dict[TopicPartition, set[BrokerId]] = {}  # who has been in sync since the last one
        self._recovered: set[TopicPartition] = set()  # the leader of the last one has said that it is over

    # --- names and ids

    def assignment(self, topic: str) -> TopicAssignment | None:
        """None: there is no such topic, or not one that can be read."""
        at, known = self._assignments.get(topic, (-1, None))
        if at != self._tree.zxid:
            known = self._read(topic)
            self._assignments[topic] = self._tree.zxid, known
        return known

    def _read(self, topic: str) -> TopicAssignment | None:
        for path, node in self._tree.walk(layout.topic_path(topic)):
            try:
                return self._decoded.topic(path, node)
            except Unreadable:
                return None
        return None

    def to_delete(self) -> tuple[str, ...]:
        at, known = self._to_delete
        if at != self._tree.zxid:
            prefix = layout.DELETE_TOPICS + "/"
            known = tuple(
                path.removeprefix(prefix)
                for path, _ in self._tree.walk(layout.DELETE_TOPICS)
                if path.startswith(prefix)
            )
            self._to_delete = self._tree.zxid, known
        return known

    def incarnation_of(self, topic: str, topic_id: TopicId | None) -> int:
        """0 for the first topic of that name, and so on."""
        ids = self._ids.setdefault(topic, [])
        if topic_id not in ids:
            ids.append(topic_id)
        return ids.index(topic_id)

    def named(self, partition: TopicPartition, topic_id: TopicId | None) -> TopicPartition:
        """The name under which the history keeps what belongs to this very topic."""
        number = self.incarnation_of(partition.topic, topic_id)
        return _numbered(partition, number)

    def now(self, partition: TopicPartition) -> TopicPartition | None:
        """Its present name. None: it is not there, or is to be deleted.

        A topic is gone from the store only after every replica has deleted what it had. So what is sent while this
        name stays the same goes to this topic or nowhere.
        """
        found = self.assignment(partition.topic)
        if (
            found is None
            or partition.partition not in found.partitions
            or partition.topic in self.to_delete()
        ):
            return None
        return self.named(partition, found.topic_id)

    # --- unclean elections

    def notice_unclean_elections(self) -> None:
        """After every write: a leader from outside the ISR is stored as recovering, if only for a moment."""
        for path, node in self._tree.walk(layout.TOPICS):
            parts = path.split("/")
            if len(parts) != 7 or parts[6] != "state":
                continue
            partition = TopicPartition(parts[3], int(parts[5]))
            try:
                state: Any = self._decoded.state(path, node).leader_and_isr
            except Unreadable:
                continue
            if state.leader_recovery_state != RECOVERING:
                self._recovered.add(partition)
                continue
            found = self.assignment(partition.topic)
            seen = (None if found is None else found.topic_id), state.leader_epoch
            before = self._unclean_epoch.get(partition)
            if before is None or before[0] != seen[0] or partition in self._recovered:
                is_new = True
            else:
                # The epoch rises for other reasons as well; a leader that stays has recovered nothing yet.
                is_new = state.leader not in self._told.get(partition, set())
            self._unclean_epoch[partition] = seen
            self._recovered.discard(partition)
            if is_new:
                self._unclean[partition] = self._unclean.get(partition, 0) + 1
                self._told[partition] = set()
            self._told[partition].update(state.isr)

    @property
    def has_unclean_elections(self) -> bool:
        """There was one: before it, everybody who is assigned counts."""
        return bool(self._told)

    def unclean_elections_of(self, partition: TopicPartition) -> int:
        return self._unclean.get(partition, 0)

    def lossy(self) -> dict[TopicPartition, None]:
        """By the names of the history; every topic of the name, for simplicity's sake."""
        return {
            _numbered(partition, number): None
            for partition in self._unclean
            for number in range(len(self._ids.get(partition.topic, [])) or 1)
        }

    def is_told(self, partition: TopicPartition, broker: BrokerId, stored: LeaderAndIsr | None) -> bool:
        """False: since the last unclean election it was never in sync, and may hold what was given up."""
        told = self._told.get(partition)
        if told is None or stored is None:
            return True
        found = self.assignment(partition.topic)
        if found is not None and self._unclean_epoch[partition][0] != found.topic_id:
            return True  # that was an earlier topic of the name
        told.update(stored.isr)
        return broker in told


def _numbered(partition: TopicPartition, number: int) -> TopicPartition:
    """Of the topics of one name the one with this number; the first keeps the plain name."""
    topic = f"{partition.topic}{AGAIN}{number + 1}" if number else partition.topic
    return TopicPartition(topic, partition.partition)
