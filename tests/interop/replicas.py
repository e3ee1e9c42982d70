"""The log directories of several brokers, whichever kind wrote them, compared batch by batch."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from odradek.records.batch import BATCH_OVERHEAD, BatchHeader, read_header


class StoredBatch(NamedTuple):
    header: BatchHeader
    bytes: bytes


def batches_of(data: Path, topic: str, partition: int) -> list[StoredBatch]:
    """All batches of one replica, from its segment files in their order."""
    found: list[StoredBatch] = []
    for segment in sorted((data / f"{topic}-{partition}").glob("*.log")):
        found += _batches_in(segment.read_bytes())
    return found


def _batches_in(segment: bytes) -> Iterator[StoredBatch]:
    position = 0
    while position + BATCH_OVERHEAD <= len(segment):
        header = read_header(segment, position)
        end = position + header.size_bytes
        if end > len(segment):
            return
        yield StoredBatch(header, segment[position:end])
        position = end


def end_of(batches: list[StoredBatch]) -> int:
    return batches[-1].header.next_offset if batches else 0


def epochs_of(data: Path, topic: str, partition: int) -> list[tuple[int, int]]:
    """The (epoch, start offset) pairs of `leader-epoch-checkpoint`."""
    lines = (data / f"{topic}-{partition}" / "leader-epoch-checkpoint").read_text().split("\n")[2:]
    return [(int(epoch), int(start)) for epoch, start in (line.split() for line in lines if line)]


def topic_id_of(data: Path, topic: str, partition: int) -> str:
    for line in (data / f"{topic}-{partition}" / "partition.metadata").read_text().splitlines():
        if line.startswith("topic_id:"):
            return line.partition(":")[2].strip()
    raise AssertionError(f"{topic}-{partition} in {data} has no topic id")


def difference(replicas: Mapping[int, Path], topic: str, partition: int, high_watermark: int) -> str | None:
    """The first batch that two replicas do not have in common below the high watermark; None when all agree."""
    of = {broker: batches_of(data, topic, partition) for broker, data in replicas.items()}
    short = {broker: end_of(batches) for broker, batches in of.items() if end_of(batches) < high_watermark}
    if short:
        return f"{topic}-{partition}: high watermark {high_watermark}, but replicas end at {short}"
    (first, wanted), *others = of.items()
    for broker, batches in others:
        for one, other in zip(wanted, batches, strict=False):
            if one.header.base_offset >= high_watermark:
                break
            if one.bytes != other.bytes:
                return f"{topic}-{partition} differs between {first} and {broker}: {one.header} and {other.header}"
    return None
