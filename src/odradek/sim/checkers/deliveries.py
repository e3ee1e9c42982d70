"""Judges what clients saw, in Jepsen's words.

| name | meaning | invariant |
|---|---|---|
| lost-write | an acknowledged record lies below the highest offset anyone read, and nobody read it | I1 |
| unseen | acknowledged, and not read by the end of the final polls | I1 |
| lost-read | a consumer was given a record, and who reads everything in the end is not | I1 |
| inconsistent-offsets | two values at one offset | I2 |
| G1a | a record was read whose send definitely failed | I3 |
| uncommitted-read | a consumer was given a record at or above the high watermark of the same answer | I3 |
| duplicate | one value at two offsets although its producer is idempotent | I4 |
| nonmonotonic-send, int-nonmonotonic-send | offsets of one producer fall: from send to send, or inside one | I5 |
| poll-skip, nonmonotonic-poll | a consumer passes over records, or goes back, from poll to poll | I6 |
| int-poll-skip, int-nonmonotonic-poll | the same inside one poll | I6 |

Records of other producers between two of mine (int-send-skip) and interleaved sends (G0) are allowed by Kafka.
Only acks=all promises survival: lost-write and unseen ask nothing of acks 0 and 1. Where somebody reads everything once more at the
very end, only what that one was given counts as read: what others were given long ago may be gone. Whatever its acks, a record
that a consumer was given is committed, and stays.

After an unclean election (`lossy`) records may be gone and their offsets taken anew, so there one value is asked of
an offset *and leader epoch*, and one place of a value in what the last reader got.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Set

from odradek.model.ids import TopicPartition
from odradek.sim.checkers.history import (
    AGAIN,
    Anomaly,
    History,
    Polled,
    Sent,
    Value,
    is_deletion,
    key_of,
)

# Consumers whose names begin so read everything once more at the very end.
FINAL = "final-"
# The order of versions at one partition: offset -> every value ever seen there.
Versions = dict[int, set[Value]]


def check(
    history: History,
    *,
    allowed: Iterable[str] = (),
    lossy: Set[TopicPartition] = frozenset(),
    gone: Set[TopicPartition] = frozenset(),
    log_starts: Mapping[TopicPartition, int] | None = None,
    compacted: Set[str] = frozenset(),
) -> list[Anomaly]:
    """All anomalies of `history` but those `allowed`.

    `lossy`: had an unclean election. `gone`: deleted, so nobody could read to the end. `log_starts`: what lies below
    was deleted because somebody asked for it. `compacted`: topics of which only the last record of a key is to be read.
    """
    starts = log_starts or {}
    has_end = history.is_final and any(poll.consumer.startswith(FINAL) for poll in history.polls())
    by_partition: dict[TopicPartition, tuple[list[Sent], list[Polled]]] = defaultdict(lambda: ([], []))
    for event in history.events:
        sends, polls = by_partition[event.topic_partition]
        if isinstance(event, Sent):
            sends.append(event)
        else:
            polls.append(event)
    found: list[Anomaly] = []
    for partition, (sends, polls) in sorted(by_partition.items()):
        plain = TopicPartition(partition.topic.partition(AGAIN)[0], partition.partition)
        attempts = [*sends, *(send for send in history.adrift if send.topic_partition == plain)]
        if partition in lossy:
            found += _inconsistent_in_an_epoch(partition, polls)
            found += _aborted_reads(partition, attempts, polls)
            found += _duplicates(partition, attempts, _versions([], _final(polls)))
            continue
        versions = _versions(sends, polls)
        found += _inconsistent_offsets(partition, versions)
        is_final = history.is_final and partition not in gone
        if plain.topic in compacted:
            if is_final:
                found += _lost_states(partition, sends, attempts, polls, starts.get(partition, 0))
        elif partition not in gone:
            log_start = starts.get(partition, 0)
            in_the_end = _final(polls) if has_end else polls
            found += _losses(partition, sends, in_the_end, is_final=is_final, log_start=log_start)
            if has_end:
                found += _lost_reads(partition, sends, polls, log_start)
        found += _aborted_reads(partition, attempts, polls)
        found += _duplicates(partition, attempts, versions)
        found += _falling_sends(partition, sends)
        found += _skips(partition, polls, {} if plain.topic in compacted else versions)
    found += _uncommitted(history)
    excluded = frozenset(allowed)
    return [anomaly for anomaly in found if anomaly.name not in excluded]


def _final(polls: list[Polled]) -> list[Polled]:
    return [poll for poll in polls if poll.consumer.startswith(FINAL)]


def _uncommitted(history: History) -> Iterator[Anomaly]:
    """Whichever copy it reads from, a consumer gets what is below the high watermark that it is told with it."""
    for consumer, partition, end, high_watermark in history.uncommitted:
        yield Anomaly(
            "uncommitted-read",
            partition,
            f"{consumer} was given records up to {end - 1} and told of the high watermark {high_watermark}",
        )


def _versions(sends: list[Sent], polls: list[Polled]) -> Versions:
    versions: Versions = defaultdict(set)
    for send in sends:
        if send.outcome == "ok" and send.acks == -1:  # the offset of an acks=1 record may be taken over
            for offset, value in zip(send.offsets, send.values, strict=False):
                versions[offset].add(value)
    for poll in polls:
        for offset, value in poll.records:
            versions[offset].add(value)
    return dict(sorted(versions.items()))


def _inconsistent_offsets(partition: TopicPartition, versions: Versions) -> Iterator[Anomaly]:
    for offset, values in versions.items():
        if len(values) > 1:
            yield Anomaly("inconsistent-offsets", partition, f"offset {offset} holds {_show(sorted(values))}")


def _inconsistent_in_an_epoch(partition: TopicPartition, polls: list[Polled]) -> Iterator[Anomaly]:
    seen: dict[tuple[int, int], set[Value]] = defaultdict(set)
    for poll in polls:
        for (offset, value), epoch in zip(poll.records, poll.leader_epochs, strict=True):
            seen[offset, epoch].add(value)
    for (offset, epoch), values in sorted(seen.items()):
        if len(values) > 1:
            yield Anomaly(
                "inconsistent-offsets",
                partition,
                f"offset {offset} of leader epoch {epoch} holds {_show(sorted(values))}",
            )


def _losses(
    partition: TopicPartition, sends: list[Sent], polls: list[Polled], *, is_final: bool, log_start: int
) -> Iterator[Anomaly]:
    read = {value for poll in polls for _, value in poll.records}
    highest = max((offset for poll in polls for offset, _ in poll.records), default=-1)
    for send in sends:
        if send.outcome != "ok" or send.acks != -1:
            continue
        if not _is_placed(send) and is_final and log_start == 0:
            for value in (value for value in send.values if value not in read):
                yield Anomaly(
                    "unseen",
                    partition,
                    f"{_show([value])} of {send.producer} was acknowledged without an offset and not read by the final polls, which "
                    f"ended at {highest}",
                )
        for offset, value in zip(send.offsets, send.values, strict=False):
            if value in read or offset < log_start:
                continue
            if offset <= highest:
                yield Anomaly(
                    "lost-write",
                    partition,
                    f"{_show([value])} of {send.producer} was acknowledged at offset {offset}; "
                    f"offset {highest} was read, it never was",
                )
            elif is_final:
                yield Anomaly(
                    "unseen",
                    partition,
                    f"{_show([value])} of {send.producer} was acknowledged at offset {offset} "
                    f"and not read by the final polls, which ended at {highest}",
                )


def _lost_reads(
    partition: TopicPartition, sends: list[Sent], polls: list[Polled], log_start: int
) -> Iterator[Anomaly]:
    """Of those that were acknowledged with acks=all see `_losses`."""
    missed_elsewhere = {
        value
        for send in sends
        if send.outcome == "ok" and send.acks == -1 and (_is_placed(send) or log_start == 0)
        for value in send.values
    }
    read = {offset for poll in _final(polls) for offset, _ in poll.records}
    for poll in polls:
        for offset, value in poll.records:
            if offset < log_start or offset in read or value in missed_elsewhere:
                continue
            read.add(offset)
            yield Anomaly(
                "lost-read",
                partition,
                f"{poll.consumer} was given {_show([value])} at offset {offset}, and who reads everything in the end is not",
            )


def _lost_states(
    partition: TopicPartition, sends: list[Sent], attempts: list[Sent], polls: list[Polled], log_start: int
) -> Iterator[Anomaly]:
    """Of every key the last acknowledged record, or a later one, is what is read in the end. Not where that deletes it, or
    something later may have: a tombstone goes in time, and a replica that never had it may still have what it deleted."""
    if not any(poll.consumer.startswith(FINAL) for poll in polls):
        return  # a scenario, in which nobody reads to the end
    final: dict[Value, tuple[int, Value]] = {}
    deleted: dict[Value, int] = {}  # the last tombstone anyone has read
    for poll in polls:
        for offset, text in poll.records:
            key = key_of(text)
            if poll.consumer.startswith(FINAL):
                final[key] = max(final.get(key, (-1, b"")), (offset, text))
            if is_deletion(text):
                deleted[key] = max(deleted.get(key, -1), offset)
    last: dict[Value, tuple[int, Value, str]] = {}
    in_doubt: set[Value] = set()  # keys that may have been deleted nobody knows when
    for send in sends:
        for offset, text in zip(send.offsets, send.values, strict=False):
            last[key_of(text)] = max(last.get(key_of(text), (-1, b"", "")), (offset, text, send.producer))
    for send in attempts:
        if send.outcome != "ok" or not send.offsets:
            in_doubt.update(key_of(text) for text in send.values if is_deletion(text))
    for key, (offset, text, producer) in sorted(last.items()):
        found = final.get(key, (-1, b"nothing"))
        if (
            found[0] >= offset
            or offset < log_start
            or is_deletion(text)
            or key in in_doubt
            or deleted.get(key, -1) > offset
        ):
            continue
        yield Anomaly(
            "lost-write",
            partition,
            f"{_show([text])} of {producer} was acknowledged at offset {offset} as the last of its key, and "
            f"{_show([found[1]])} was read in the end, at {found[0]}",
        )


def _aborted_reads(partition: TopicPartition, sends: list[Sent], polls: list[Polled]) -> Iterator[Anomaly]:
    failed = {value: send.producer for send in sends if send.outcome == "failed" for value in send.values}
    for send in sends:
        if send.outcome != "failed":
            for value in send.values:
                failed.pop(value, None)  # sent again, and that one may stand
    for poll in polls:
        for offset, value in poll.records:
            if value in failed:
                yield Anomaly(
                    "G1a",
                    partition,
                    f"{_show([value])} of {failed.pop(value)} had failed, yet was read at {offset}",
                )


def _duplicates(partition: TopicPartition, sends: list[Sent], versions: Versions) -> Iterator[Anomaly]:
    idempotent = {value for send in sends if send.is_idempotent for value in send.values}
    # What an application sends again after it was killed comes from another producer: once for each of them.
    times = Counter(value for send in sends for value in send.values)
    places: dict[Value, list[int]] = defaultdict(list)
    for offset, values in versions.items():
        for value in sorted(values):
            places[value].append(offset)
    for value, offsets in places.items():
        if len(offsets) > times[value] and value in idempotent:
            yield Anomaly("duplicate", partition, f"{_show([value])} stands at offsets {offsets}")


def _falling_sends(partition: TopicPartition, sends: list[Sent]) -> Iterator[Anomaly]:
    last: dict[str, int] = {}
    for send in sends:
        if send.outcome != "ok" or not _is_placed(send):
            continue
        if send.acks != -1:
            last.pop(
                send.producer, None
            )  # what acks=1 wrote may be gone with its leader, and its offset taken anew
        if any(b <= a for a, b in zip(send.offsets, send.offsets[1:], strict=False)):
            yield Anomaly(
                "int-nonmonotonic-send",
                partition,
                f"one send of {send.producer} has offsets {list(send.offsets)}",
            )
        before = last.get(send.producer)
        if before is not None and min(send.offsets) <= before:
            yield Anomaly(
                "nonmonotonic-send",
                partition,
                f"{send.producer} was answered offset {min(send.offsets)} after {before}",
            )
        last[send.producer] = max(send.offsets)


def _skips(partition: TopicPartition, polls: list[Polled], versions: Versions) -> Iterator[Anomaly]:
    known = list(versions)
    position: dict[str, int] = {}
    for poll in polls:
        previous: int | None = position.get(poll.consumer)
        prefix = ""
        for offset, _ in poll.records:
            if previous is not None and offset <= previous:
                yield Anomaly(
                    f"{prefix}nonmonotonic-poll",
                    partition,
                    f"{poll.consumer} read offset {offset} after {previous}",
                )
            elif previous is not None and offset > previous + 1:
                skipped = [o for o in known if previous < o < offset]
                if skipped:
                    yield Anomaly(
                        f"{prefix}poll-skip",
                        partition,
                        f"{poll.consumer} read offset {offset} after {previous}; {skipped} lie between",
                    )
            previous = offset
            prefix = "int-"
        if previous is not None:
            position[poll.consumer] = previous


def _is_placed(send: Sent) -> bool:
    """acks=0 and duplicates that aged out answer no offset."""
    return bool(send.offsets) and send.offsets[0] >= 0


def _show(values: list[Value]) -> str:
    return ", ".join(value.decode("utf-8", "replace") for value in values)
