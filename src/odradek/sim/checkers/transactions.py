"""Judges what transactional producers were told, against what stands in the logs in the end and what readers of committed
records saw.

| name | meaning |
|---|---|
| aborted-read | a record of a transaction that was aborted was read under read_committed |
| lost-transaction | a transaction was told to be committed, and a record of it is not read in the end |
| torn-transaction | one record of a transaction is read in the end, and another is not |
| doubled-record | a record of a transaction is read at two offsets |
| number-twice, number-skipped | of a transactional id: two attempts at one number count, or none does |
| offset-apart | the position of the group is not that of the last transaction that counts |
| lost-offset | who takes over is told of less than what had been committed before it asked |
| reader-skipped | a reader saw something else than what is read in the end, as far as it came |
| both-markers | one transaction is committed in one partition and aborted in another |
| epoch-twice | two transactions of one producer end in one epoch, where each end gives the next (`transaction.version` 2) |
| fenced-write | a producer wrote behind a later epoch of its id |
| repeat-refused | who has its id for itself asks again for its next epoch, as after a lost answer, and is not told the same |
| hanging-transaction | records that no marker decides, in a cluster at rest |

A transaction of which nobody knows how it ended (`unknown`) has to be one or the other, as a whole.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from odradek.model.ids import TopicPartition
from odradek.sim.checkers.deliveries import FINAL
from odradek.sim.checkers.history import Anomaly, History, Polled, Value

DATA, COMMIT, ABORT = "data", "commit", "abort"
# A control batch without its marker: compaction takes a marker once no batch of its transaction is left, and keeps the batch
# where it is the last of its segment or of its producer (as Apache does, KAFKA-17076). It ends nothing.
EMPTIED = "emptied"
Fate = Literal["committed", "aborted", "unknown"]


@dataclass(slots=True)
class Attempt:
    """One transaction. `aborted` until its commit is asked for, since nobody else does that."""

    transactional_id: str
    number: int
    values: Mapping[TopicPartition, tuple[Value, ...]]
    fate: Fate = "aborted"
    told_s: float = 0.0

    @property
    def records(self) -> list[tuple[TopicPartition, Value]]:
        return [(partition, value) for partition, values in self.values.items() for value in values]

    def __str__(self) -> str:
        first = next((value for _, value in self.records), b"").decode()
        return f"transaction {self.number} of {self.transactional_id} ({first}, {self.fate})"


class Position(NamedTuple):
    """Of the group, as who took over was told; -1: nothing was committed."""

    transactional_id: str
    number: int
    asked_s: float
    is_final: bool = False


class Written(NamedTuple):
    """A batch of a log."""

    topic_partition: TopicPartition
    offset: int
    producer_id: int
    epoch: int
    kind: str
    values: tuple[Value, ...] = ()


class Repeat(NamedTuple):
    """InitProducerId of an epoch that its owner had, again and again, at one coordinator in one term."""

    transactional_id: str
    asked_s: float
    told: tuple[tuple[int, int] | None, ...]  # producer id and epoch; None: refused


@dataclass(slots=True)
class TransactionHistory:
    attempts: list[Attempt] = field(default_factory=list)
    positions: list[Position] = field(default_factory=list)
    reads: History = field(default_factory=History)
    written: list[Written] = field(default_factory=list)  # in the end, in the order of each log
    begun_s: dict[str, float] = field(default_factory=dict)  # the latest transaction of each id
    repeats: list[Repeat] = field(default_factory=list)
    all_bump: bool = False  # every producer is a client of `transaction.version` 2


Seen = dict[tuple[TopicPartition, Value], list[int]]


def check_transactions(history: TransactionHistory) -> Iterator[Anomaly]:
    polls = history.reads.polls()
    final: dict[TopicPartition, list[tuple[int, Value]]] = defaultdict(list)
    for poll in polls:
        if poll.consumer.startswith(FINAL):
            final[poll.topic_partition] += poll.records
    seen: Seen = defaultdict(list)
    for partition, records in final.items():
        for offset, value in records:
            seen[partition, value].append(offset)
    yield from _reads(history.attempts, polls)
    yield from _transactions(history.attempts, seen)
    yield from _numbers(history, seen)
    yield from _readers(polls, final)
    yield from _logs(history.written)
    yield from _repeats(history.repeats)
    if history.all_bump:
        yield from _ends(history.written)


def _repeats(repeats: list[Repeat]) -> Iterator[Anomaly]:
    for one in repeats:
        if len(set(one.told)) > 1:
            text = f"{one.transactional_id} asks for its next epoch at {one.asked_s:.3f} s and again, and is told {one.told}"
            yield Anomaly("repeat-refused", None, text)


def _reads(attempts: list[Attempt], polls: list[Polled]) -> Iterator[Anomaly]:
    aborted = {one: attempt for attempt in attempts if attempt.fate == "aborted" for one in attempt.records}
    for poll in polls:
        for offset, value in poll.records:
            attempt = aborted.get((poll.topic_partition, value))
            if attempt is not None:
                yield Anomaly(
                    "aborted-read",
                    poll.topic_partition,
                    f"{poll.consumer} read {value.decode()} at {offset}, of {attempt}",
                )


def _transactions(attempts: list[Attempt], seen: Seen) -> Iterator[Anomaly]:
    for attempt in attempts:
        there = [one for one in attempt.records if one in seen]
        missing = [one for one in attempt.records if one not in seen]
        if missing and attempt.fate == "committed":
            partition, value = missing[0]
            yield Anomaly(
                "lost-transaction", partition, f"{value.decode()} is not read in the end: {attempt}"
            )
        elif missing and there:
            partition, value = missing[0]
            yield Anomaly(
                "torn-transaction",
                partition,
                f"{value.decode()} is not read in the end, and {there[0][1].decode()} in {there[0][0]} is: {attempt}",
            )
        for partition, value in there:
            if len(seen[partition, value]) > 1:
                offsets = seen[partition, value]
                yield Anomaly("doubled-record", partition, f"{value.decode()} stands at offsets {offsets}")


def _numbers(history: TransactionHistory, seen: Seen) -> Iterator[Anomaly]:
    counting: dict[str, dict[int, list[Attempt]]] = defaultdict(lambda: defaultdict(list))
    for attempt in history.attempts:
        if any(one in seen for one in attempt.records):
            counting[attempt.transactional_id][attempt.number].append(attempt)
    for name, numbers in counting.items():
        for attempts in numbers.values():
            if len(attempts) > 1:
                yield Anomaly("number-twice", None, f"{attempts[0]} counts, and so does {attempts[1]}")
        for number in range(max(numbers) + 1):
            if number not in numbers:
                yield Anomaly("number-skipped", None, f"no transaction {number} of {name} counts")
    for position in history.positions:
        name = position.transactional_id
        before = [
            attempt.number
            for attempt in history.attempts
            if attempt.transactional_id == name
            and attempt.fate == "committed"
            and attempt.told_s < position.asked_s
        ]
        last = max(counting[name], default=-1) if name in counting else -1
        if position.number < max(before, default=-1):
            yield Anomaly(
                "lost-offset",
                None,
                f"the position of {name} is {position.number}, asked at {position.asked_s:.3f} s; {max(before)} had been committed",
            )
        elif (position.number != last) if position.is_final else (position.number > last):
            yield Anomaly(
                "offset-apart",
                None,
                f"the position of {name} is {position.number}, and the last transaction that counts is {last}",
            )


def _readers(
    polls: list[Polled], final: Mapping[TopicPartition, list[tuple[int, Value]]]
) -> Iterator[Anomaly]:
    places = {partition: dict(records) for partition, records in final.items()}
    came: dict[tuple[str, TopicPartition], dict[int, Value]] = defaultdict(dict)
    for poll in polls:
        came[poll.consumer, poll.topic_partition].update(poll.records)
    for (consumer, partition), records in came.items():
        last = max(records, default=-1)
        expected = {offset: value for offset, value in places.get(partition, {}).items() if offset <= last}
        for offset in sorted({*records, *expected}):
            if records.get(offset) != expected.get(offset):
                yield Anomaly(
                    "reader-skipped",
                    partition,
                    f"{consumer} read {_shown(records.get(offset))} at {offset}, "
                    f"where {_shown(expected.get(offset))} is read in the end",
                )
                break


def _shown(value: Value | None) -> str:
    return "nothing" if value is None else value.decode()


def _logs(written: list[Written]) -> Iterator[Anomaly]:
    """Of each partition in the order of its log. A transaction is told apart by what was decided: its attempts' values stand
    in one transaction each, so only the markers behind them are looked at."""
    open_since: dict[tuple[TopicPartition, int], int] = {}
    epochs: dict[tuple[TopicPartition, int], int] = {}
    fates: dict[bytes, tuple[str, TopicPartition]] = {}
    undecided: dict[tuple[TopicPartition, int], list[bytes]] = defaultdict(list)
    for batch in written:
        if batch.producer_id < 0:
            continue
        place = batch.topic_partition, batch.producer_id
        if batch.epoch < epochs.get(place, -1):
            yield Anomaly(
                "fenced-write",
                batch.topic_partition,
                f"producer {batch.producer_id} wrote in epoch {batch.epoch} at {batch.offset}, behind epoch {epochs[place]}",
            )
        epochs[place] = max(batch.epoch, epochs.get(place, -1))
        if batch.kind == EMPTIED:
            continue
        if batch.kind == DATA:
            open_since.setdefault(place, batch.offset)
            undecided[place] += [transaction_of(value) for value in batch.values]
            continue
        open_since.pop(place, None)
        for transaction in dict.fromkeys(undecided.pop(place, [])):
            fate, elsewhere = fates.setdefault(transaction, (batch.kind, batch.topic_partition))
            if fate != batch.kind:
                yield Anomaly(
                    "both-markers",
                    batch.topic_partition,
                    f"{transaction.decode()} has a marker {batch.kind} at {batch.offset}, and {fate} in {elsewhere}",
                )
    for (partition, producer_id), offset in open_since.items():
        yield Anomaly(
            "hanging-transaction",
            partition,
            f"what producer {producer_id} wrote from {offset} on has no marker",
        )


def _ends(written: list[Written]) -> Iterator[Anomaly]:
    """A marker that is sent again ends nothing; two kinds of one epoch, or two that each end something, are two ends."""
    kinds: dict[tuple[int, int], str] = {}
    ended: set[tuple[TopicPartition, int, int]] = set()
    undecided: set[tuple[TopicPartition, int]] = set()
    for batch in written:
        place = batch.topic_partition, batch.producer_id
        if batch.kind == EMPTIED:
            continue
        if batch.kind == DATA:
            undecided.add(place)
            continue
        end = batch.producer_id, batch.epoch
        is_second = place in undecided and (batch.topic_partition, *end) in ended
        if kinds.setdefault(end, batch.kind) != batch.kind or is_second:
            yield Anomaly(
                "epoch-twice",
                batch.topic_partition,
                f"the marker {batch.kind} of producer {batch.producer_id} at {batch.offset} ends another transaction of epoch {batch.epoch}",
            )
        if place in undecided:
            undecided.discard(place)
            ended.add((batch.topic_partition, *end))


def transaction_of(value: Value) -> bytes:
    """`id:number:attempt` of a value."""
    return value.rpartition(b":")[0]
