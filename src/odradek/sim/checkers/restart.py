"""I13: a broker that is killed now comes up with what it had; its index answers as a scan; recovering again changes
nothing.

`LogAnswers` is what one log says of itself. `observed.restart` makes them by recovering copies of a disk with the
production code; here they are only compared.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from odradek.model.ids import BrokerId, TopicPartition
from odradek.sim.checkers.batches import BatchView
from odradek.sim.checkers.history import Anomaly


class KnownProducer(NamedTuple):
    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    transaction_first_offset: int


class LogAnswers(NamedTuple):
    log_start_offset: int = 0
    log_end_offset: int = 0
    batches: tuple[BatchView, ...] = ()
    epochs: tuple[tuple[int, int], ...] = ()  # (leader epoch, start offset)
    # (offset, segment, position) of each batch: as the index finds it, and as walking over the file does
    by_index: tuple[tuple[int, int, int], ...] = ()
    by_scan: tuple[tuple[int, int, int], ...] = ()
    producers: bytes = b""
    refused: str = ""
    known: tuple[KnownProducer, ...] = ()  # what was heard of producers


def restartable(
    broker: BrokerId,
    partition: TopicPartition,
    *,
    running: LogAnswers,
    once: LogAnswers | None,
    twice: LogAnswers | None,
) -> Iterator[Anomaly]:
    """`running`: the log in use; `once`, `twice`: after one and two recoveries of a copy of its disk, None if absent."""

    def anomaly(detail: str) -> Anomaly:
        return Anomaly("I13", partition, f"broker {broker}: {detail}")

    if once is None:
        yield anomaly("its log is not found after a restart")
        return
    if once.refused:
        yield anomaly(f"its log is refused after a restart: {once.refused}")
        return
    if once.log_end_offset != running.log_end_offset:
        yield anomaly(
            f"its log ends at {running.log_end_offset}, and at {once.log_end_offset} after a restart"
        )
    # The checkpoint of log starts is written now and then: what was deleted since may be there again, no more.
    if once.log_start_offset > running.log_start_offset:
        yield anomaly(
            f"its log starts at {running.log_start_offset}, and at {once.log_start_offset} after a restart"
        )
    kept = tuple(b for b in once.batches if b.last_offset >= running.log_start_offset)
    if running.batches != kept:
        yield anomaly(f"its batches differ after a restart from {_first(running.batches, kept)} on")
    before, after = (_with_records(answers, running.log_start_offset) for answers in (running, once))
    if before != after:
        yield anomaly(f"its epochs are {before}, and {after} after a restart")
    mine, theirs = ({p.producer_id: p for p in answers.known} for answers in (running, once))
    for number in sorted(mine.keys() | theirs.keys()):
        last = max(known[number].last_offset for known in (mine, theirs) if number in known)
        # Whose last record is deleted may be forgotten, and may be known from a snapshot that stayed.
        if last >= running.log_start_offset and mine.get(number) != theirs.get(number):
            yield anomaly(
                f"it knows of producer {number} {mine.get(number)}, and {theirs.get(number)} after a restart"
            )
    if once.by_index != once.by_scan:
        yield anomaly(f"the index finds {_first(once.by_index, once.by_scan)}, a scan does not")
    if twice != once:
        changed = "everything" if twice is None else _changed(once, twice)
        yield anomaly(f"a second recovery changes {changed}")


def _with_records(answers: LogAnswers, start: int) -> tuple[tuple[int, int], ...]:
    """Epochs that brought a record which is still there.

    One that begins at the log end is forgotten by a restart, as Kafka does: nobody leads on in the epoch of a former
    life. Of those before the log start the last one's beginning moves with it.
    """
    found = []
    for number, (epoch, offset) in enumerate(answers.epochs):
        ends = answers.epochs[number + 1][1] if number + 1 < len(answers.epochs) else answers.log_end_offset
        if ends > max(offset, start):
            found.append((epoch, max(offset, start)))
    return tuple(found)


def _first(one: tuple[object, ...], other: tuple[object, ...]) -> object:
    """Of `one`, else of what `other` has beyond it."""
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            return mine
    longer = one if len(one) > len(other) else other
    return longer[min(len(one), len(other))]


def _changed(once: LogAnswers, twice: LogAnswers) -> str:
    names = [n for n, a, b in zip(LogAnswers._fields, once, twice, strict=True) if a != b]
    return ", ".join(names)


def epochs_alike(partition: TopicPartition, logs: Mapping[BrokerId, LogAnswers]) -> Iterator[Anomaly]:
    """KnownAlike, of leader epochs: replicas at rest know of each epoch that brought a record where it began. A follower cuts its log
    by that. `logs`: of each broker where its log begins and ends, and its epochs."""
    start = max(answers.log_start_offset for answers in logs.values())
    (first, mine), *others = sorted(
        (broker, _with_records(answers, start)) for broker, answers in logs.items()
    )
    for broker, theirs in others:
        if mine != theirs:
            yield Anomaly(
                "KnownAlike",
                partition,
                f"broker {first} knows the epochs {mine}, and broker {broker} {theirs}",
            )


def known_alike(
    partition: TopicPartition, logs: Mapping[BrokerId, tuple[int, tuple[KnownProducer, ...]]]
) -> Iterator[Anomaly]:
    """KnownAlike: replicas at rest know the same of a producer whose last batch they hold: whichever leads next takes what comes
    behind that, and knows it for a repeat. `logs`: of each broker where its log starts, and whom it knows.

    A producer whose last record was deleted may be forgotten, and may be known from a snapshot that stayed, as after a restart.
    """
    (first, (first_start, first_known)), *others = sorted(logs.items())
    mine = {producer.producer_id: producer for producer in first_known}
    for broker, (start, known) in others:
        theirs = {producer.producer_id: producer for producer in known}
        for number in sorted(mine.keys() | theirs.keys()):
            one, other = mine.get(number), theirs.get(number)
            last = max(producer.last_offset for producer in (one, other) if producer is not None)
            if one != other and last >= max(start, first_start):
                yield Anomaly(
                    "KnownAlike",
                    partition,
                    f"broker {first} knows of producer {number} {one}, and broker {broker} {other}",
                )
