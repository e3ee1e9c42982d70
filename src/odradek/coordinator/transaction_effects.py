"""What a transaction coordinator is told beside `events`, and what it wants of the world outside."""

from typing import NamedTuple

from odradek.coordinator.effects import Answer
from odradek.coordinator.transaction_records import Partitions, TransactionRecord
from odradek.model.values import dataclass


class TransactionAppend(NamedTuple):
    """One batch for the partition's log; `Committed` or `AppendFailed` with this id follows, in the order of ids."""

    append_id: int
    records: tuple[TransactionRecord, ...]
    producer: None = None


class Markers(NamedTuple):
    """One marker for each of these partitions, at their leaders, until they have it. `MarkersWritten` follows, once for
    all or several times for some. Whoever sends them adds the coordinator epoch."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_commit: bool
    partitions: Partitions


class TransactionEffects(NamedTuple):
    appends: tuple[TransactionAppend, ...]
    answers: tuple[Answer, ...]
    lines: tuple[str, ...]  # for the log: what an operator should know
    markers: tuple[Markers, ...]


@dataclass(frozen=True, slots=True)
class MarkersWritten:
    """These partitions have the marker, or are no more."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: Partitions
