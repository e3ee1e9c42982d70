"""Offset ranges and how they become tasks: large ones are split, small ones share a task. Pure."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from odradek.model.ids import NO_TOPIC_ID, TopicPartition

# A task of Spark costs 30 to 40 ms; reading this many records of 100 bytes costs some 300 ms.
SPLIT_ABOVE = 500_000


class OffsetRange(NamedTuple):
    """The records of one partition with offsets in [start, end)."""

    topic: str
    partition: int
    start: int
    end: int
    topic_id: bytes = NO_TOPIC_ID
    leader_epoch: int = -1  # whose leader said that the log reaches to `end`; -1: not known

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def size(self) -> int:
        return self.end - self.start

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}[{self.start}, {self.end})"


Task = tuple[OffsetRange, ...]


def plan(
    ranges: Iterable[OffsetRange],
    *,
    pack_below: int,
    min_tasks: int | None = None,
    most_per_task: int | None = None,
) -> list[Task]:
    """Tasks that together read exactly `ranges`.

    No task is larger than `most_per_task`. `min_tasks` asks for at least so many, each with about the same
    share; without it, small pieces are packed together until they hold `pack_below` records.
    """
    filled = sorted(r for r in ranges if r.size > 0)
    total = sum(r.size for r in filled)
    most = most_per_task or SPLIT_ABOVE
    pieces: list[OffsetRange] = []
    for whole in filled:
        parts = -(-whole.size // most)
        if min_tasks is not None:
            parts = max(parts, -(-whole.size * min_tasks // total))
        pieces.extend(split(whole, parts))
    if min_tasks is not None:
        return [(piece,) for piece in pieces]
    return _pack(pieces, pack_below, most)


def split(whole: OffsetRange, parts: int) -> list[OffsetRange]:
    """`parts` neighbouring ranges of nearly equal size; never an empty one."""
    parts = max(1, min(parts, whole.size))
    borders = [whole.start + whole.size * n // parts for n in range(parts + 1)]
    return [whole._replace(start=a, end=b) for a, b in pairwise(borders)]


def _pack(pieces: Sequence[OffsetRange], until: int, most: int) -> list[Task]:
    tasks: list[Task] = []
    waiting: list[OffsetRange] = []
    waiting_size = 0
    for piece in pieces:
        if waiting and (waiting_size >= until or waiting_size + piece.size > most):
            tasks.append(tuple(waiting))
            waiting, waiting_size = [], 0
        if piece.size >= until:
            tasks.append((piece,))
        else:
            waiting.append(piece)
            waiting_size += piece.size
    if waiting:
        tasks.append(tuple(waiting))
    return sorted(tasks)
