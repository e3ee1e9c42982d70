"""Judges what a process leaves behind when it ends: on its disk, and with the cluster."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from odradek.model.ids import BrokerId, TopicPartition
from odradek.sim.checkers.history import Anomaly


class Checkpoint(NamedTuple):
    """What a file of a log directory says of a log, and the most that is so."""

    topic_partition: TopicPartition
    broker: BrokerId
    file: str
    offset: int
    most: int


def checkpoints_hold(all_checkpoints: Iterable[Checkpoint]) -> Iterator[Anomaly]:
    """CheckpointHolds: of no log the next start reads more than is so: that it is flushed further than it is (what was torn would be
    taken for damage, or for records), begins later than it does, is committed above the high watermark of its replica, or cleaned beyond
    its end."""
    for one in all_checkpoints:
        if one.offset > one.most:
            yield Anomaly(
                "CheckpointHolds",
                one.topic_partition,
                f"broker {one.broker} ends, and its {one.file} says {one.offset}, where it is {one.most}",
            )


def nothing_is_left(
    broker: BrokerId, left: Sequence[TopicPartition], *, has_asked_once: bool
) -> Iterator[Anomaly]:
    """LeaverAsksAgain: a broker that stops in order and was told that it still leads partitions with other replicas asks again after
    a while. `left`: these, by the last answer; `has_asked_once`: it has stopped in less than that while."""
    if left and has_asked_once:
        named = ", ".join(map(str, left))
        yield Anomaly(
            "LeaverAsksAgain",
            left[0],
            f"broker {broker} has stopped at once, and was told that it still leads {named}",
        )


def stop_is_durable(
    broker: BrokerId, volatile: Iterable[tuple[TopicPartition, Sequence[str]]]
) -> Iterator[Anomaly]:
    """StopIsDurable: where a broker that stops in order says that its logs need no recovery, a power cut changes nothing of them.
    `volatile`: of each log, what one may still change."""
    for topic_partition, names in volatile:
        if names:
            yield Anomaly(
                "StopIsDurable",
                topic_partition,
                f"broker {broker} has stopped in order, and a power cut may still change {', '.join(names)}",
            )
