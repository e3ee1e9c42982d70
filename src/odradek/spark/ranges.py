"""Offset ranges and how they become tasks: large ones are split, small ones share a task. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import NamedTuple

from odradek.model.ids import NO_TOPIC_ID, TopicPartition

# A task of Spark costs 30 to 40 ms; reading this many records of 100 bytes costs some 300 ms.
SPLIT_ABOVE = 500_000
# The same time where records are large, and less than that: bytes as they are on disk, compressed.
SPLIT_ABOVE_BYTES = 128 << 20
PACK_BELOW_BYTES = 16 << 20


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
    record_bytes: Mapping[TopicPartition, int] = MappingProxyType({}),
) -> list[Task]:
    """Tasks that together read exactly `ranges`.

    No task is larger than `most_per_task`, nor about `SPLIT_ABOVE_BYTES`. `min_tasks` asks for at least so many, each with
    about the same share; without it, small pieces are packed together until they hold `pack_below` records or
    `PACK_BELOW_BYTES`. `record_bytes` is what an offset of a partition takes on average; one that is not in it counts
    by its records alone.
    """
    filled = sorted(r for r in ranges if r.size > 0)
    most = most_per_task or SPLIT_ABOVE

    def load(piece: OffsetRange, records: int, size_bytes: int) -> int:
        """Whole at `records * size_bytes`: so many records, or so many bytes."""
        each = record_bytes.get(piece.topic_partition, 0)
        return max(piece.size * size_bytes, piece.size * each * records)

    full = most * SPLIT_ABOVE_BYTES
    loads = [load(whole, most, SPLIT_ABOVE_BYTES) for whole in filled]
    of_all = sum(loads)
    pieces: list[OffsetRange] = []
    for whole, of_whole in zip(filled, loads, strict=True):
        parts = -(-of_whole // full)
        if min_tasks is not None:
            parts = max(parts, -(-of_whole * min_tasks // of_all))
        pieces.extend(split(whole, parts))
    if min_tasks is not None:
        return [(piece,) for piece in pieces]
    weighed = [(piece, load(piece, pack_below, PACK_BELOW_BYTES)) for piece in pieces]
    return _pack(weighed, pack_below * PACK_BELOW_BYTES, most)


def split(whole: OffsetRange, parts: int) -> list[OffsetRange]:
    """`parts` neighbouring ranges of nearly equal size; never an empty one."""
    parts = max(1, min(parts, whole.size))
    if parts == 1:
        return [whole]
    borders = [whole.start + whole.size * n // parts for n in range(parts + 1)]
    return [whole._replace(start=a, end=b) for a, b in pairwise(borders)]


def _pack(pieces: Sequence[tuple[OffsetRange, int]], until: int, most: int) -> list[Task]:
    """Pieces with their loads, together until these reach `until`; never more than `most` records."""
    tasks: list[Task] = []
    waiting: list[OffsetRange] = []
    waiting_load = waiting_size = 0
    for piece, load in pieces:
        if waiting and (waiting_load >= until or waiting_size + piece.size > most):
            tasks.append(tuple(waiting))
            waiting, waiting_load, waiting_size = [], 0, 0
        if load >= until:
            tasks.append((piece,))
        else:
            waiting.append(piece)
            waiting_load += load
            waiting_size += piece.size
    if waiting:
        tasks.append(tuple(waiting))
    return sorted(tasks)
