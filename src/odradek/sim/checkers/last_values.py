"""What compaction owes: of every key the last value that was committed, under its own offset, on whoever may be elected.

A tombstone may go, and a replica that never had it may still have what it deleted: of such a key nothing is asked until it
is set again.
"""

from collections.abc import Iterator

from odradek.model.ids import TopicPartition
from odradek.sim.checkers.history import Anomaly, Value
from odradek.sim.checkers.keys import Last
from odradek.sim.checkers.replicas import ClusterView, Eras, PartitionView, ReplicaView


class LastValues:
    """Remembers what was committed: what its ISR holds below the high watermark of a leader whose epoch is the stored one."""

    def __init__(self) -> None:
        self._last: dict[TopicPartition, dict[Value, Last]] = {}
        self._at: dict[TopicPartition, dict[int, tuple[Value, Value | None]]] = {}
        self._eras = Eras()

    def forget(self, partition: TopicPartition) -> None:
        """The topic was deleted, or lost records with our consent (an unclean election)."""
        self._last.pop(partition, None)
        self._at.pop(partition, None)

    def observe(self, view: ClusterView) -> Iterator[Anomaly]:
        for partition, state in sorted(view.partitions.items()):
            if state.stored is None or all(replica.keys is None for replica in state.replicas):
                continue
            if self._eras.is_another(partition, state):
                self.forget(partition)
            for leader in state.replicas:
                if leader.is_leader and leader.is_alive and leader.leader_epoch == state.stored.leader_epoch:
                    # From each member of the ISR: a tombstone may be gone from the leader before anybody looked.
                    for member in state.replicas:
                        if member is leader or member.broker in state.stored.isr:
                            self._learn(partition, member, leader.high_watermark)
            for member in state.replicas:
                yield from self._judge(partition, state, member)

    def _learn(self, partition: TopicPartition, member: ReplicaView, high_watermark: int) -> None:
        if member.keys is None:
            return
        last, at = self._last.setdefault(partition, {}), self._at.setdefault(partition, {})
        for key, (offset, value) in member.keys.last.items():
            known_from = member.keys.decided_at.get(key, offset)
            if known_from < high_watermark and offset > last.get(key, (-1, None))[0]:
                last[key] = offset, value
                at.setdefault(offset, (key, value))

    def _judge(
        self, partition: TopicPartition, state: PartitionView, member: ReplicaView
    ) -> Iterator[Anomaly]:
        stored, keys = state.stored, member.keys
        if stored is None or keys is None:
            return
        if keys.disorder:
            yield Anomaly(
                "TypeOk",
                partition,
                f"broker {member.broker}: the batch at offset {keys.disorder[0]} overlaps the one before",
            )
        if member.broker not in state.electable:
            return
        at = self._at.get(partition, {})
        for key, (offset, value) in self._last.get(partition, {}).items():
            held = keys.last.get(key)
            where, what = (-1, None) if held is None else held
            if at.get(where, (key, what)) != (key, what):
                yield Anomaly(
                    "LastValue",
                    partition,
                    f"broker {member.broker} has {what!r} of key {key!r} at offset {where}, where {at[where]} was committed",
                )
            if value is not None and where < offset and offset >= member.log_start_offset:
                yield Anomaly(
                    "LastValue",
                    partition,
                    f"broker {member.broker} may be elected and has {what!r} of key {key!r} at offset {where}; "
                    f"{value!r} was committed at {offset}",
                )
