"""The records that `topic consume` writes, as (partition, record): up to an end, or without one."""

import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from odradek.cli.output import fail
from odradek.model.counted import first_of

if TYPE_CHECKING:
    from odradek.client.sync import SyncClient
    from odradek.model.ids import TopicPartition
    from odradek.records.reader import Record

POLL_S = 0.05
# With leaders: an election takes less, and meanwhile nothing is read of the other partitions. It doubles while one is away, which
# may only be slow.
PATIENCE_S, LONGEST_PATIENCE_S = 2.0, 10.0
SHOWN = 5  # partitions in a sentence


def up_to(
    client: "SyncClient",
    partitions: "list[TopicPartition]",
    positions: "dict[TopicPartition, int]",
    bounds: "dict[TopicPartition, int]",
    *,
    read_committed: bool,
) -> "Iterator[tuple[int, Record]]":
    """From `positions` to `bounds`. What an open transaction holds back is not waited for: other partitions may have more."""
    from odradek.client.sync_fetch import OffsetsGone
    from odradek.client.sync_records import records

    ends = client.end_offsets(partitions, read_committed=read_committed)
    for where in partitions:
        end = min(ends[where], bounds[where])
        try:
            for record in records(client, where, positions[where], end, read_committed=read_committed):
                yield where.partition, record
        except OffsetsGone as gone:
            fail(f"{gone}; without --exit and an end it reads on at what is there")


class Endless:
    """All there is of one topic from `first` (offsets.py) on, and what comes until somebody has enough. A partition whose leader is away
    is waited for while the others are read; where it begins is asked once its leader answers."""

    def __init__(
        self,
        client: "SyncClient",
        topic: str,
        topic_id: bytes,
        partitions: "list[TopicPartition]",
        first: str,
        *,
        read_committed: bool,
    ) -> None:
        from odradek.cli.topic.following import Following

        self._client = client
        self._topic = topic
        self._partitions = partitions
        self._first = first
        self._read_committed = read_committed
        self._positions: dict[TopicPartition, int] = {}  # of those that could be asked where they begin
        self._following: Following = Following(client, topic, topic_id, self._positions)
        self._away: dict[TopicPartition, str] = {}  # since the last round, and why
        self._patience_s = PATIENCE_S

    def records(self) -> "Iterator[tuple[int, Record] | None]":
        """None: what is there has been read, and nothing more for the moment."""
        from odradek.cli.terminal import is_read

        while True:
            before = dict(self._positions)
            for where, end in self._ends().items():
                for record in self._records_of(where, end):
                    yield where.partition, record
            yield None
            if self._positions == before:
                if not is_read():
                    raise BrokenPipeError  # `| head` has seen enough, and the next record may be hours away
                time.sleep(POLL_S)

    def _ends(self) -> "dict[TopicPartition, int]":
        """Of those that can be read now."""
        from odradek.client.sync_connection import NO_ANSWER

        try:
            ends, problems = self._told()
        except NO_ANSWER as error:  # nobody is there
            self._are_away(dict.fromkeys(self._partitions, str(error)))
            return {}
        try:
            self._begin([where for where in ends if where not in self._positions])
            self._following.reaches(ends)
        except NO_ANSWER as error:
            _say(f"{error}; it is tried again until Ctrl-C")
            return {}
        self._are_away(problems)
        return ends

    def _told(self) -> "tuple[dict[TopicPartition, int], dict[TopicPartition, str]]":
        """Ends, as far as leaders tell them, and why the others do not."""
        from odradek.cli.topic.offset_ranges import known_ends
        from odradek.client.sync_connection import NO_ANSWER

        is_committed, patience_s = self._read_committed, self._patience_s
        if not self._away:
            try:
                return self._client.end_offsets(
                    self._partitions, read_committed=is_committed, timeout_s=patience_s
                ), {}
            except NO_ANSWER:
                pass  # one at least does not answer: which?
        view = self._client.retrying(lambda: self._client.cluster([self._topic]), timeout_s=patience_s)
        if self._topic not in view.topics:
            code = view.errors.get(self._topic)
            why = f"topic {self._topic}: {'not told of' if code is None else code.name}"
            return {}, dict.fromkeys(self._partitions, why)
        return known_ends(
            self._client, view, self._partitions, read_committed=is_committed, patience_s=patience_s
        )

    def _begin(self, partitions: "list[TopicPartition]") -> None:
        from odradek.cli.topic.offsets import nothing_there, resolve

        if not partitions:
            return
        found = resolve(self._client, partitions, self._first, read_committed=self._read_committed)
        if nothing := nothing_there(self._client, partitions, self._first):
            _say(nothing.sentence(self._topic))
            found |= nothing.awaited
        self._positions |= found

    def _records_of(self, where: "TopicPartition", end: int) -> "Iterator[Record]":
        from odradek.client.sync_connection import NO_ANSWER
        from odradek.client.sync_fetch import OffsetsGone
        from odradek.client.sync_records import records

        try:
            try:
                for record in records(
                    self._client, where, self._positions[where], end, read_committed=self._read_committed
                ):
                    self._positions[where] = record.offset + 1
                    yield record
            except OffsetsGone as gone:
                self._following.lost(where, gone)
            else:
                self._positions[where] = max(self._positions[where], end)
        except NO_ANSWER as error:
            self._are_away({**self._away, where: str(error)})

    def _are_away(self, problems: "dict[TopicPartition, str]") -> None:
        """Said once of each, and once that it is back."""
        lost = sorted(problems.keys() - self._away.keys())
        back = sorted(self._away.keys() - problems.keys())
        self._away = problems
        self._patience_s = min(2 * self._patience_s, LONGEST_PATIENCE_S) if problems else PATIENCE_S
        if back:
            _say(f"{first_of(back, SHOWN)}: read again")
        if lost:
            others = "the other partitions are read, and " if len(problems) < len(self._partitions) else ""
            _say(f"{first_of(lost, SHOWN)}: {problems[lost[0]]}; {others}it is tried again until Ctrl-C")


def _say(sentence: str) -> None:
    print(f"odradek: {sentence}", file=sys.stderr, flush=True)
