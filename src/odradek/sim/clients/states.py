"""The compacted topic of a world: what its records say, and who reads them.

A record has a text, unique in a run, which the history calls it by: `k3:1-17` sets the key `k3`, `k3!1-18` deletes it. A
tombstone has no value, so its text travels in a header. What has to be true of them: `checkers/last_values.py`, and
`checkers/deliveries.py` for what clients saw.
"""

from odradek.records.builder import NewRecord
from odradek.records.reader import Record
from odradek.sim.checkers.history import DELETES, SETS, Value, is_deletion, key_of
from odradek.sim.clients.consumer import SimConsumer

KEYS = 6
TEXT = "text"


def text_of(producer: int, number: int) -> Value:
    """Of the record with this number of this producer: one of seven deletes its key."""
    sign = DELETES if number % 7 == 3 else SETS
    return f"k{number * 5 % KEYS}{sign}{producer}-{number}".encode()


def record_of(text: Value, timestamp_ms: int) -> NewRecord:
    if is_deletion(text):
        return NewRecord(key_of(text), None, timestamp_ms, [(TEXT, text)])
    return NewRecord(key_of(text), text, timestamp_ms)


def text_in(record: Record) -> Value:
    if record.value is not None:
        return record.value
    return next((value for name, value in record.headers if name == TEXT and value is not None), b"")


class StateConsumer(SimConsumer):
    """Follows the compacted topic: it sees the last record of each key, and not every one before."""

    @staticmethod
    def _text(record: Record) -> Value:
        return text_in(record)
