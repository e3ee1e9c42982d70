"""An acknowledgement with acks=all, judged at the moment in which it leaves its broker (I15).

A snapshot between two events sees a replica that catches up a millisecond later as one that always had the records. In the
moment of the answer it does not: nothing that was promised may still be under way.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from odradek.model.ids import BrokerId, TopicPartition
from odradek.sim.checkers.history import Anomaly
from odradek.sim.checkers.replicas import PartitionView, ReplicaView, first_difference


class Acknowledgement(NamedTuple):
    """Of one batch to one partition: `next_offset` is the offset behind its last record."""

    broker: BrokerId  # that answers
    topic_partition: TopicPartition
    next_offset: int


def acknowledged(
    answer: Acknowledgement, state: PartitionView, *, is_min_isr_fixed: bool = True
) -> Iterator[Anomaly]:
    """I15: below the high watermark of the leader that answers, and on every member of the ISR, of which there are enough.

    Members are those of the stored ISR, and of the ISR in which the leader believes while its epoch is the stored one: a leader of
    an older epoch need not know who has left. Who was asked to join and is not stored yet is not judged, as in I7. A broker that
    does not run, or has lost its records, is left out of `state`: its copy counts as held. `is_min_isr_fixed` False:
    min.insync.replicas was changed, perhaps since this was committed.
    """
    by_broker = {replica.broker: replica for replica in state.replicas}
    leader, stored = by_broker.get(answer.broker), state.stored
    if leader is None or not leader.is_leader or stored is None:
        return  # it was committed while this broker led; what became of it since is I8's
    end = answer.next_offset
    if leader.high_watermark < end:
        yield _anomaly(answer, f"above its high watermark {leader.high_watermark}")
    members = {*stored.isr, *(leader.isr if leader.leader_epoch == stored.leader_epoch else ())}
    for member in sorted(members & by_broker.keys()):
        replica = by_broker[member]
        if replica.log_end_offset < end:
            yield _anomaly(answer, f"but broker {member}, of the ISR, ends at {replica.log_end_offset}")
        elif (found := first_difference(leader, replica, end)) is not None:
            yield _anomaly(answer, f"but broker {member}, of the ISR, has another batch at offset {found}")
    if is_min_isr_fixed:
        holders = _holders(state, by_broker, end)
        if len(holders) < state.min_insync_replicas:
            yield _anomaly(
                answer, f"but only brokers {holders} may hold them, and {state.min_insync_replicas} must"
            )


def flushed(
    answer: Acknowledgement, state: PartitionView, recovery_points: Mapping[BrokerId, int]
) -> Iterator[Anomaly]:
    """I15, with flush.messages=1: every member of the stored ISR has flushed them (H5). `recovery_points`: of the brokers whose
    processes have lived since the batch was sent first; what a former life flushed, the present one need not know."""
    shown = {replica.broker for replica in state.replicas}
    for member in sorted(shown & set(() if state.stored is None else state.stored.isr)):
        point = recovery_points.get(member)
        if point is not None and point < answer.next_offset:
            yield _anomaly(answer, f"but broker {member}, of the ISR, has flushed up to {point - 1}")


def refused(
    broker: BrokerId, partition: TopicPartition, base_sequence: int, known: Sequence[int]
) -> Iterator[Anomaly]:
    """KnownBatch: a batch that is sent again is not out of order, be it the last of its producer or one of the four before it
    (KIP-98). `known`: the base sequences of the last batches of that producer, in its epoch, in the log of the broker that refuses."""
    if base_sequence in known:
        yield Anomaly(
            "KnownBatch",
            partition,
            f"broker {broker} refuses as out of order the batch of sequence {base_sequence}, and has those of {list(known)}",
        )


def timed_out(
    broker: BrokerId, partition: TopicPartition, timeout_ms: int, passed_ms: float
) -> Iterator[Anomaly]:
    """NotBeforeItsTime: whoever is told that the time of its request is over has waited for so long, by the clock of the broker or by
    that of the world: one of them may have jumped."""
    if passed_ms < timeout_ms:
        yield Anomaly(
            "NotBeforeItsTime",
            partition,
            f"broker {broker} answers REQUEST_TIMED_OUT after {passed_ms:.0f} ms of {timeout_ms}",
        )


def marker_is_committed(
    broker: BrokerId, partition: TopicPartition, producer_id: int, offset: int, high_watermark: int
) -> Iterator[Anomaly]:
    """I15, of markers: whoever is told that one is written may forget the transaction, so it is below the high watermark. `offset`: of
    the latest marker of this producer."""
    if offset >= high_watermark:
        yield Anomaly(
            "I15",
            partition,
            f"broker {broker} tells that the marker of producer {producer_id} at {offset} is written, above its high watermark "
            f"{high_watermark}",
        )


def _holders(state: PartitionView, by_broker: dict[BrokerId, ReplicaView], end: int) -> list[BrokerId]:
    """Who may have a copy: whoever shows one that reaches `end`, and whoever shows none."""
    named = {*state.assignment, *by_broker, *(() if state.stored is None else state.stored.isr)}
    return sorted(b for b in named if b not in by_broker or by_broker[b].log_end_offset >= end)


def _anomaly(answer: Acknowledgement, what: str) -> Anomaly:
    return Anomaly(
        "I15",
        answer.topic_partition,
        f"broker {answer.broker} acknowledges records up to {answer.next_offset - 1}, {what}",
    )
