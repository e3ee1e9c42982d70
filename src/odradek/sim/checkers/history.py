"""What clients did and saw, as plain values. Written by the workload, read by the checkers."""

from dataclasses import dataclass, field
from typing import Literal

from odradek.model.ids import TopicPartition

Value = bytes
Outcome = Literal["ok", "failed", "unknown"]
# A history calls the second topic of one name `orders~2` (`Topics.named`): no name may have this sign.
AGAIN = "~"
# In the text of a record of a compacted topic, behind its key.
SETS, DELETES = ":", "!"


def key_of(text: Value) -> Value:
    """Of a text without a key (what a producer sends to leave a gap) all of it."""
    return text.partition(DELETES.encode())[0].partition(SETS.encode())[0]


def has_key(text: Value) -> bool:
    return key_of(text) != text


def is_deletion(text: Value) -> bool:
    return DELETES.encode() in text


@dataclass(frozen=True, slots=True)
class Sent:
    """One batch of one producer to one partition.

    `ok`: acknowledged, and `offsets` (one per value) is what the answer said. `failed`: definitely not written.
    `unknown`: nobody can say; it may appear later. `acks` 0 and 1 promise less: see `deliveries`.
    """

    producer: str
    topic_partition: TopicPartition
    values: tuple[Value, ...]
    outcome: Outcome
    offsets: tuple[int, ...] = ()
    acks: int = -1
    is_idempotent: bool = True
    at_ms: int = 0


@dataclass(frozen=True, slots=True)
class Polled:
    """One poll of one consumer that reads by assignment; `records` are (offset, value) as they came.

    `leader_epochs`: of the batch each record stood in, where whoever polled noted them.
    """

    consumer: str
    topic_partition: TopicPartition
    records: tuple[tuple[int, Value], ...]
    at_ms: int = 0
    leader_epochs: tuple[int, ...] = ()


@dataclass(slots=True)
class History:
    """Everything in the order it became known. `is_final`: the last polls reached the end of every partition."""

    events: list[Sent | Polled] = field(default_factory=list)
    is_final: bool = True
    # Sends during which the topic of that name went and another came: nobody can say in which they stand, if in any.
    # They are kept under the topic's plain name, and say only what may stand once more.
    adrift: list[Sent] = field(default_factory=list)
    # Answers to consumers with records that were not committed as the same answer says: name, partition, the offset behind the
    # last record, high watermark.
    uncommitted: list[tuple[str, TopicPartition, int, int]] = field(default_factory=list)

    def sends(self) -> list[Sent]:
        return [e for e in self.events if isinstance(e, Sent)]

    def polls(self) -> list[Polled]:
        return [e for e in self.events if isinstance(e, Polled)]


@dataclass(frozen=True, slots=True)
class Anomaly:
    """`name` is one of Jepsen's words, or an invariant's name; `detail` is a sentence with the values."""

    name: str
    topic_partition: TopicPartition | None
    detail: str

    def __str__(self) -> str:
        where = f"{self.topic_partition}: " if self.topic_partition is not None else ""
        return f"{self.name}: {where}{self.detail}"
