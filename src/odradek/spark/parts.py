"""What was read of one partition, and proved: offsets, count, fingerprint, leader epochs.

A task says it of what it wrote, the commit of a batch keeps it beside the files, `verify` compares it with the
table and the topic.
"""

from collections.abc import Collection, Iterable, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

from odradek.model.errors import OdradekError
from odradek.model.ids import NO_TOPIC_ID, TopicId, TopicPartition, topic_id_from_text, topic_id_to_text
from odradek.spark.fingerprint import EMPTY, Fingerprint


class Overlap(OdradekError):
    """Two pieces claim the same offsets: something was read twice."""


class Part(NamedTuple):
    """The records of one partition with offsets in [start, end), as they were met."""

    topic: str
    partition: int
    start: int
    end: int
    fingerprint: Fingerprint = EMPTY
    # (leader epoch, first offset of it met here), rising; an election inside the range gives two
    epochs: tuple[tuple[int, int], ...] = ()
    topic_id: bytes = NO_TOPIC_ID

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


def merged(parts: Iterable[Part]) -> tuple[Part, ...]:
    """One part per partition. Pieces may leave gaps (nothing was met there), but never overlap."""
    groups: dict[tuple[str, bytes, int], list[Part]] = {}
    for part in parts:
        groups.setdefault((part.topic, part.topic_id, part.partition), []).append(part)
    return tuple(_one(sorted(groups[key], key=lambda p: (p.start, p.end))) for key in sorted(groups))


def _one(pieces: list[Part]) -> Part:
    for before, after in pairwise(pieces):
        if after.start < before.end:
            raise Overlap(
                f"{before.topic_partition}: offsets {after.start} to {min(before.end, after.end)} come twice, "
                f"in [{before.start}, {before.end}) and in [{after.start}, {after.end})"
            )
    total = EMPTY
    epochs: dict[int, int] = {}
    for piece in pieces:
        total += piece.fingerprint
        for epoch, first in piece.epochs:
            epochs.setdefault(epoch, first)
    return pieces[0]._replace(end=pieces[-1].end, fingerprint=total, epochs=tuple(sorted(epochs.items())))


def come_again(now: Iterable[Part], before: Collection[Part], *, may_have_lost: bool) -> bool:
    """Whether a batch that had the parts `before` may have these when it comes again: of the same offsets some may be compacted by now,
    and where it `may_have_lost` records, retention may have taken the first ones."""
    left = list(now)
    if not all(any(_is_left_of(part, whole) for whole in before) for part in left):
        return False
    return may_have_lost or sorted(map(_place, left)) == sorted(map(_place, before))


def _place(part: Part) -> tuple[str, int, bytes, int, int]:
    return part.topic, part.partition, part.topic_id, part.start, part.end


def _is_left_of(part: Part, whole: Part) -> bool:
    """As many records are the same ones, and fewer came in no epoch of their own: an unclean election, or a topic made again where
    topics have no ids, puts others at offsets that were there."""
    is_within = (
        (part.topic_partition, part.topic_id) == (whole.topic_partition, whole.topic_id)
        and whole.start <= part.start
        and part.end <= whole.end
    )
    epochs, of_whole = ({epoch for epoch, _ in one.epochs} for one in (part, whole))
    is_less = part.fingerprint.count < whole.fingerprint.count
    return is_within and epochs <= of_whole and (is_less or part.fingerprint == whole.fingerprint)


def to_json(parts: Iterable[Part]) -> list[dict[str, Any]]:
    return [
        {
            "topic": part.topic,
            "topicId": topic_id_to_text(TopicId(part.topic_id)),
            "partition": part.partition,
            "start": part.start,
            "end": part.end,
            "records": part.fingerprint.count,
            "hash": part.fingerprint.hex,
            "leaderEpochs": [list(epoch) for epoch in part.epochs],
        }
        for part in sorted(parts)
    ]


def from_json(values: Iterable[Mapping[str, Any]]) -> tuple[Part, ...]:
    return tuple(
        Part(
            topic=value["topic"],
            partition=value["partition"],
            start=value["start"],
            end=value["end"],
            fingerprint=Fingerprint.from_hex(value["records"], value["hash"]),
            epochs=tuple((epoch, first) for epoch, first in value["leaderEpochs"]),
            topic_id=topic_id_from_text(value["topicId"]),
        )
        for value in values
    )
