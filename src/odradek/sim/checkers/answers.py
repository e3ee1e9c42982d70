"""Judges what brokers answer about a cluster at rest, each of them: what whoever asks is told is what is so.

While faults act, an answer may be old without being wrong, and clients that read and write find out. At rest there is one answer.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from odradek.model.error_codes import ErrorCode
from odradek.model.ids import BrokerId, TopicPartition
from odradek.sim.checkers.batches import BatchView
from odradek.sim.checkers.history import Anomaly
from odradek.sim.checkers.replicas import PartitionView, ReplicaView


class Shown(NamedTuple):
    """A partition in an answer to Metadata."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    offline: tuple[int, ...] = ()


def shown_as_stored(
    broker: BrokerId,
    live: Sequence[int],
    shown: Mapping[TopicPartition, Shown],
    stored: Mapping[TopicPartition, PartitionView],
    running: Sequence[int],
) -> Iterator[Anomaly]:
    """AnswersAtRest, of Metadata: each broker names all that run, and every partition as the store has it, and no other."""
    if sorted(live) != sorted(running):
        yield _anomaly(f"broker {broker} names brokers {sorted(live)}, and {sorted(running)} run")
    for partition in sorted(shown.keys() | stored.keys()):
        told, state = shown.get(partition), stored.get(partition)
        if told is None or state is None:
            what = "does not know of it" if told is None else "tells of it, and there is none"
            yield _anomaly(f"broker {broker} {what}", partition)
        elif state.stored is not None:
            so = state.stored
            true = Shown(so.leader, so.leader_epoch, tuple(so.isr), tuple(state.assignment))
            if told != true:
                yield _anomaly(f"broker {broker} tells of {told}, the store of {true}", partition)


class Told(NamedTuple):
    """What a broker tells a consumer of the offsets of a partition. Errors are negative, as no offset is."""

    earliest: int
    latest: int
    epoch_ends: Mapping[int, int]  # by the epoch that was asked for


REFUSED = -int(ErrorCode.NOT_LEADER_OR_FOLLOWER)


def offsets_as_held(
    broker: BrokerId, partition: TopicPartition, told: Told, state: PartitionView
) -> Iterator[Anomaly]:
    """AnswersAtRest, of ListOffsets and OffsetForLeaderEpoch: the leader tells where its log begins and ends, and where each epoch
    does; nobody else tells anything."""
    held = next((r for r in state.replicas if r.broker == broker), None)
    if state.stored is None or state.stored.leader != broker:
        said = {told.earliest, told.latest, *told.epoch_ends.values()}
        if said != {REFUSED}:
            yield _anomaly(f"broker {broker} does not lead, and tells {told}", partition)
        return
    if held is None:
        return
    if (told.earliest, told.latest) != (held.log_start_offset, held.high_watermark):
        yield _anomaly(
            f"leader {broker} tells that it begins at {told.earliest} and ends at {told.latest}: it does at "
            f"{held.log_start_offset} and {held.high_watermark}",
            partition,
        )
    if held.keys is None:  # of a compacted log the first records of an epoch may be gone
        for epoch, end in sorted(told.epoch_ends.items()):
            ends = end_of_epoch(epoch, held)
            if end != ends:
                yield _anomaly(
                    f"leader {broker} tells that epoch {epoch} ends at {end}, and it does at {ends}",
                    partition,
                )


def end_of_epoch(epoch: int, held: ReplicaView) -> int:
    """By its batches: where the first one of a later epoch begins (KIP-279)."""
    for batch in held.batches:
        if batch.leader_epoch > epoch and batch.last_offset >= held.log_start_offset:
            return max(batch.base_offset, held.log_start_offset)
    return held.log_end_offset


def epochs_of(batches: Sequence[BatchView]) -> list[int]:
    return sorted({batch.leader_epoch for batch in batches if batch.leader_epoch >= 0})


def _anomaly(what: str, partition: TopicPartition | None = None) -> Anomaly:
    return Anomaly("AnswersAtRest", partition, what)
