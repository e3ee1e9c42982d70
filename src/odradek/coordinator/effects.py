"""What a coordinator wants of the world outside, as values."""

from typing import NamedTuple

from odradek.coordinator.asides import AsideWork
from odradek.coordinator.later import Later, Make
from odradek.coordinator.records import CoordinatorRecord
from odradek.protocol.schema import Response

# Of a record in a batch beside its strings: length, attributes, deltas, key and value with their versions and counts.
RECORD_OVERHEAD_BYTES = 64


class Producer(NamedTuple):
    producer_id: int
    epoch: int


class Append(NamedTuple):
    """One batch for the partition's log; `Committed` or `AppendFailed` with this id follows, in the order of ids."""

    append_id: int
    records: tuple[CoordinatorRecord, ...]
    producer: Producer | None  # of the transaction these belong to


class Answer(NamedTuple):
    """`response` may still have to be made: by a thread (`Later`), or when it is given (`Make`)."""

    call: int
    response: Response | Later | Make


class Effects(NamedTuple):
    appends: tuple[Append, ...]
    answers: tuple[Answer, ...]
    lines: tuple[str, ...]  # for the log: what an operator should know
    asides: tuple[AsideWork, ...]  # for a thread; what each gives is an event
