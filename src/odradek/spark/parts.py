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
    places = [_place(part) for part in now]
    if sorted(places) == sorted(_place(part) for part in before):
        return True
    return may_have_lost and all(any(_is_within(place, _place(part)) for part in before) for place in places)


def _place(part: Part) -> tuple[str, int, bytes, int, int]:
    return part.topic, part.partition, part.topic_id, part.start, part.end


def _is_within(place: tuple[str, int, bytes, int, int], whole: tuple[str, int, bytes, int, int]) -> bool:
    return place[:3] == whole[:3] and whole[3] <= place[3] and place[4] <= whole[4]


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
