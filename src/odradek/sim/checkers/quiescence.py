"""I12: once everything is healed the cluster becomes quiescent within bounded time. What keeps it from that, by name.

`Quiescence` is a plain value that `observed.quiescence` fills from a world. Nothing here says how long to wait: the run asks again and
again, and what is pending when its patience is over is what it failed for.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from odradek.model.ids import BrokerId, TopicPartition
from odradek.sim.checkers.history import Anomaly
from odradek.sim.checkers.replicas import ClusterView, PartitionView, converged

# A second, from one broker to another. The busiest of fifty seeds had 21, one with a fetch that is answered at once 350.
MOST_EVENTS_OF_A_LINK = 100


class Quiescence(NamedTuple):
    view: ClusterView
    not_running: Sequence[str] = ()  # brokers, and what ended them
    directories_offline: Sequence[str] = ()  # mended by then, and back when their broker is started again
    is_acquainted: bool = True  # every broker knows all others and a controller
    in_doubt: Sequence[tuple[BrokerId, TopicPartition]] = ()  # an ISR counts on records that broker has lost
    unfinished: Sequence[str] = ()  # what clients and administrators still wait for
    stopping: Sequence[str] = ()  # brokers that were asked to stop in order and have not yet
    unknown: Sequence[str] = ()  # what leaders believe of their followers, and is not so
    outlived: Sequence[tuple[BrokerId, TopicPartition]] = ()  # whoever tells of what the store has forgotten


def pending(seen: Quiescence) -> Iterator[Anomaly]:
    """Why it is not done; nothing when everybody runs, every ISR is whole, and every replica knows and has all."""
    for what in seen.unfinished:
        yield _anomaly(f"{what} not finished")
    for what in seen.not_running:
        yield _anomaly(f"{what} does not run")
    for what in seen.directories_offline:
        yield _anomaly(f"{what} is offline")
    if not seen.is_acquainted:
        yield _anomaly("not every broker knows the others and the controller")
    if not seen.view.controllers:
        yield _anomaly("nobody acts as controller")
    for broker, partition in seen.in_doubt:
        yield _anomaly(f"its ISR counts on broker {broker}, which has lost its records", partition)
    for partition, state in sorted(seen.view.partitions.items()):
        if state.stored is None or state.stored.leader < 0:
            yield _anomaly(f"it has no leader: {state.stored}", partition)
            continue
        if set(state.stored.isr) != set(state.assignment):
            yield _anomaly(f"its ISR is {list(state.stored.isr)} of {list(state.assignment)}", partition)
        assigned = [r for r in state.replicas if r.broker in state.assignment]
        missing = sorted(set(state.assignment) - {r.broker for r in assigned})
        if missing:
            yield _anomaly(f"no replica at {missing}", partition)
        ends = {r.broker: (r.log_end_offset, r.high_watermark) for r in assigned}
        if len(set(ends.values())) > 1 or any(end != mark for end, mark in ends.values()):
            yield _anomaly(f"log ends and high watermarks differ: {ends}", partition)
        starts = {r.broker: r.log_start_offset for r in assigned}
        begun = starts.get(state.stored.leader, 0)
        if any(start < begun for start in starts.values()):
            yield _anomaly(f"logs begin before that of leader {state.stored.leader}: {starts}", partition)
    for anomaly in converged(seen.view):
        yield _anomaly(anomaly.detail, anomaly.topic_partition)
    for broker, partition in seen.outlived:
        yield Anomaly("TopicIsGone", partition, f"it is deleted, and broker {broker} tells clients of it")
    for what in seen.unknown:
        yield _anomaly(what)
    for what in seen.stopping:
        yield _anomaly(f"the controlled shutdown of {what} is not finished")


def not_quiescent(events: int, seconds: float, brokers: int) -> Iterator[Anomaly]:
    """A cluster that nobody asks for anything has fetches that wait, and timers. What loops looks quiescent by
    its state, and keeps a core busy."""
    most = MOST_EVENTS_OF_A_LINK * brokers * (brokers - 1) * seconds
    if events > most:
        yield _anomaly(
            f"{events} events in {seconds:g} s in which nothing happened; up to {most:g} are usual"
        )


def unsettled(
    before: Mapping[TopicPartition, PartitionView], after: Mapping[TopicPartition, PartitionView]
) -> Iterator[Anomaly]:
    """Of the time in between, in which nothing happened. A leader may be moved to where it belongs; in one leader epoch
    nobody has a reason to leave an ISR or to join it."""
    for partition, state in sorted(after.items()):
        was, now = before[partition].stored if partition in before else None, state.stored
        if (
            was is not None
            and now is not None
            and now.leader_epoch == was.leader_epoch
            and now.partition_epoch != was.partition_epoch
        ):
            yield _anomaly(
                f"its state was written {now.partition_epoch - was.partition_epoch} times while nothing happened, "
                f"ISR {list(was.isr)} before and {list(now.isr)} after",
                partition,
            )


def _anomaly(detail: str, partition: TopicPartition | None = None) -> Anomaly:
    return Anomaly("I12", partition, detail)
