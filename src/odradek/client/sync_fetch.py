"""Exact ranges of a partition's records, read from its leader with one Fetch always ahead.

`read_range` yields the raw record batches that cover the offsets [start, end) and stops: no poll beyond the
end, so nothing waits for records that are not asked for. The next Fetch leaves before the current answer is
handed out, so the broker and the network work while the caller decodes.

A range that is not there any more is an error, never a shorter answer: `OffsetsGone` when retention or
DeleteRecords was faster, or the log ends below what was promised; `LogCut` when an unclean election cut the log
below it, however far it has grown again; `TopicRecreated` when the name now means another topic.

With a `rack`, the replica to which the leader sends its readers is read from (KIP-392), until it fails or has nothing: the rest
comes from the leader, who alone can say that something is gone.

Where the leader's files can be read on this host, a range is read from them piece by piece; each is handed out once the leader has
proved it by its last batch (`sync_segments`).
"""

import logging
import time
from collections.abc import Iterator
from struct import Struct
from typing import Any, NamedTuple

from odradek.client.sync import OffsetAndEpoch, PartitionView, SyncClient, answered
from odradek.client.sync_connection import (
    ConnectionLost,
    DeadlineExceeded,
    FrameBuffer,
    PendingAnswer,
    SyncConnection,
    Unreachable,
)
from odradek.client.sync_segments import Doubt, LogPlaces, Piece, SegmentReader
from odradek.model.error_codes import RETRIABLE, ErrorCode
from odradek.model.errors import OdradekError, ProtocolError
from odradek.model.ids import NO_TOPIC_ID, TopicId, TopicPartition, topic_id_to_text
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.records.batch import BATCH_OVERHEAD, LENGTH_OFFSET, LOG_OVERHEAD, iter_batches, read_header

FETCH_MAX_BYTES = 8 << 20
# Of a range that may be read from files: one that is not larger costs a Fetch, as everywhere.
FIRST_FETCH_BYTES = 1 << 20
FETCH_MAX_WAIT_MS = 500
# How long a range may make no progress: an election, a follower that has just taken over.
PATIENCE_S = 30.0
# How long a quota may hold a range up that makes no progress. A quota of nothing would do so for ever, and a batch larger than
# what all of its windows let through as well.
MOST_HELD_UP_S = 600.0
# How long a broker may not have heard yet that a topic was created.
_OLD_METADATA_S = 1.0
_LAST_VERSION_BY_NAME = 12
_FIRST_PAUSE_S = 0.02
_LONGEST_PAUSE_S = 0.5
NO_EPOCH = -1
_LENGTH = Struct(">i")
logger = logging.getLogger(__name__)


class OffsetsGone(OdradekError):
    """Offsets of the range are not in the log: too old, deleted, or cut off by an unclean election."""


class LogCut(OffsetsGone):
    """The log was cut below the range: what stands there now is not what was promised (KIP-320)."""

    def __init__(self, message: str, still_there: int) -> None:
        super().__init__(message)
        self.still_there = still_there  # the offsets below it are in the log as they were


class TopicRecreated(OdradekError):
    """The topic was deleted and created again: its offsets mean other records now."""


class _HeldUp(Exception):
    """The broker says nothing for so long: we are over our quota (KIP-219)."""

    def __init__(self, wait_s: float) -> None:
        super().__init__(wait_s)
        self.wait_s = wait_s


class Fetched(NamedTuple):
    """Whole record batches as they stand in the log; first and last may reach over the range's borders."""

    records: memoryview
    next_offset: int
    aborted: tuple[tuple[int, int], ...]  # (producer id, first offset), read_committed only
    high_watermark: int
    log_start_offset: int
    is_in_place: bool = False  # read from the leader's files


class _Ahead(NamedTuple):
    """A Fetch that was sent and not yet answered."""

    broker: int
    is_leader: bool
    connection: SyncConnection
    pending: PendingAnswer
    deadline: float


def read_range(
    client: SyncClient,
    partition: TopicPartition,
    start: int,
    end: int,
    *,
    topic_id: bytes = NO_TOPIC_ID,
    leader_epoch: int = NO_EPOCH,
    read_committed: bool = False,
    max_bytes: int = FETCH_MAX_BYTES,
    patience_s: float = PATIENCE_S,
    into: FrameBuffer | None = None,
    places: LogPlaces | None = None,
    rack: str = "",
) -> Iterator[Fetched]:
    """Yields what covers [start, end), in order. With a `topic_id` other than zero it must be that topic.

    Read `into` a buffer, the records of one are there until the next one is asked for. With `places` segment files are read in
    place where that can be done.

    `leader_epoch` is that of the leader who said that the log reaches to `end`: under another leader it is asked
    whether it still does, for this log and not for records that took the place of those cut off.

    `rack` is where the reader is, by `broker.rack` of the brokers there; empty: the leader is read from.
    """
    seen = OffsetAndEpoch(end, leader_epoch)
    reader = _RangeReader(
        client, partition, end, topic_id, seen, read_committed, max_bytes, patience_s, into, places, rack
    )
    try:
        yield from reader.read(start)
    finally:
        reader.abandon()


def cut_off(seen: OffsetAndEpoch, found: OffsetAndEpoch, leader_epoch: int) -> str | None:
    """What the log of the leader of `leader_epoch` lacks of the offsets below `seen`; None if it has them all.

    `found` is where that leader says that the epoch of `seen` ends (`SyncClient.ends_of_epochs`).
    """
    if found.offset < 0:
        return f"the log of leader epoch {leader_epoch} knows no such epoch: it is another log, or of an older state"
    if found.offset >= seen.offset:
        return None
    return (
        f"in the log of leader epoch {leader_epoch} that epoch ends at {found.offset}: an unclean election cut off "
        f"{seen.offset - found.offset} offsets, {found.offset} to {seen.offset}"
    )


def whole_batches(records: memoryview | bytes | None) -> tuple[memoryview, int]:
    """The batches that are complete (a Fetch may cut the last one), and the offset after them, or -1."""
    view = memoryview(records or b"")
    size = len(view)
    position = 0
    last = -1
    while position + BATCH_OVERHEAD <= size:
        length = _LENGTH.unpack_from(view, position + LENGTH_OFFSET)[0]
        after = position + LOG_OVERHEAD + length
        if length < BATCH_OVERHEAD - LOG_OVERHEAD or after > size:
            break
        last, position = position, after
    if last < 0:
        return view[:0], -1
    return view[:position], read_header(view, last).next_offset


class _RangeReader:
    def __init__(
        self,
        client: SyncClient,
        partition: TopicPartition,
        end: int,
        topic_id: bytes,
        seen: OffsetAndEpoch,
        read_committed: bool,
        max_bytes: int,
        patience_s: float,
        into: FrameBuffer | None,
        places: LogPlaces | None,
        rack: str,
    ) -> None:
        self._client = client
        self._partition = partition
        self._end = end
        self._topic_id = topic_id
        # The offsets below this were in the log of this leader epoch: those asked for, else those read so far.
        self._seen = seen
        self._is_end_seen = seen.leader_epoch >= 0
        self._checked_epoch = seen.leader_epoch
        self._read_committed = read_committed
        self._max_bytes = max_bytes
        self._patience_s = patience_s
        self._into = into
        self._ahead: _Ahead | None = None
        self._places = places  # None: fetched, or from some doubt on
        self._segments: SegmentReader | None = None
        self._leader = -1  # who answered last
        self._rack = rack
        self._replica = -1  # where the leader sent us, or -1

    def read(self, position: int) -> Iterator[Fetched]:
        deadline = self._client.deadline(self._patience_s)
        pause = _FIRST_PAUSE_S
        held_up_s = 0.0
        has_lost_one = False
        while position < self._end:
            if self._leader >= 0 and (fetched := self._in_place(position)):
                position = self._has_read_to(fetched.next_offset)
                yield fetched
                deadline = self._client.deadline(self._patience_s)
                continue
            try:
                asked = self._ahead or self._ask(position)
                answer = self._answer(asked, self._into)
            except _HeldUp as held_up:
                wait_s = min(held_up.wait_s, MOST_HELD_UP_S - held_up_s)
                time.sleep(wait_s)
                deadline += wait_s
                held_up_s += wait_s
                if held_up_s >= MOST_HELD_UP_S:
                    raise DeadlineExceeded(
                        f"{self._partition}: offsets {position} to {self._end} could not be read: for {MOST_HELD_UP_S:g} s the "
                        f"broker has answered only that this client is over its quota; raise its consumer_byte_rate or "
                        f"request_percentage"
                    ) from held_up
                continue
            except (ConnectionLost, Unreachable, ProtocolError) as error:
                if self._is_back_at_leader(position, str(error)):
                    deadline = self._client.deadline(self._patience_s)
                    continue
                if isinstance(error, ConnectionLost) and not has_lost_one:
                    # To wait for an answer that never came may have taken all of the time: for whoever leads by now there is more.
                    has_lost_one = True
                    deadline = self._client.deadline(self._patience_s)
                self._give_up_or_forget(error, position, is_late=time.monotonic() + pause > deadline)
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_S)
                continue
            if asked.is_leader:
                self._leader = asked.broker
                self._sent_to(answer.preferred_read_replica)
            records, next_offset = whole_batches(answer.records)
            if next_offset < 0 and answer.records:
                # The first batch is always sent whole (KIP-74), so this is none.
                raise self._no_batch(answer.records, position)
            if next_offset <= position:
                if asked.is_leader and self._replica >= 0:
                    continue
                if self._is_back_at_leader(position, "it has nothing more yet"):
                    continue
                readable = answer.last_stable_offset if self._read_committed else answer.high_watermark
                if readable >= self._end:
                    # The log holds nothing from here to the end: compaction has left a hole.
                    return
                if time.monotonic() > deadline:
                    raise OffsetsGone(
                        f"{self._partition}: offsets up to {self._end} were asked for, but for "
                        f"{self._patience_s:g} s the log could be read only up to {readable}: an open "
                        f"transaction, or a log that was cut by an unclean election or a restored disk"
                    )
                continue
            position = self._has_read_to(next_offset)
            pause = _FIRST_PAUSE_S
            held_up_s = 0.0
            has_lost_one = False
            if position < self._end and self._places is None:
                self._ask_ahead(position)
            aborted = tuple((a.producer_id, a.first_offset) for a in answer.aborted_transactions or ())
            yield Fetched(records, next_offset, aborted, answer.high_watermark, answer.log_start_offset)
            # How long the caller takes over what was read is no time in which a broker has not answered.
            deadline = self._client.deadline(self._patience_s)
            if self._ahead is not None:
                self._ahead = self._ahead._replace(deadline=self._client.deadline())

    def abandon(self) -> None:
        """The answer to a Fetch that nobody waits for, megabytes of it, would be kept for ever: hang up."""
        if self._ahead is not None:
            self._ahead.connection.close()
            self._ahead = None
        if self._segments is not None:
            self._segments.close()
            self._segments = None

    def _sent_to(self, replica: int) -> None:
        if replica >= 0 and self._rack:
            self._replica = replica
            self._places = None  # files are those of the leader

    def _is_back_at_leader(self, position: int, why: str) -> bool:
        """For the rest of the range. A follower may lag, may not have heard of an epoch, and may die."""
        if self._replica < 0:
            return False
        logger.debug(
            "%s: from the leader at offset %d on, broker %d: %s",
            self._partition,
            position,
            self._replica,
            why,
        )
        self._replica, self._rack = -1, ""
        return True

    def _has_read_to(self, position: int) -> int:
        if not self._is_end_seen:
            self._seen = OffsetAndEpoch(position, self._checked_epoch)
        return position

    def _in_place(self, position: int) -> Fetched | None:
        """The next piece of the leader's files, proved by it; None, for the rest of the range, where there is any doubt."""
        if self._places is None:
            return None
        try:
            if self._segments is None:
                topic_id = self._client.known_topic_id(self._partition.topic)
                directory = self._places.directory_of(self._leader, self._partition, topic_id)
                self._segments = SegmentReader(directory, position, self._end)
            size = min(self._max_bytes, FETCH_MAX_BYTES)
            memory = memoryview(bytearray(size)) if self._into is None else self._into.take(size)
            return self._proved(position, self._segments.read(self._end, memory))
        except (Doubt, OSError, ConnectionLost, Unreachable, ProtocolError, _HeldUp) as doubt:
            logger.debug("%s: fetched from offset %d on: %s", self._partition, position, doubt)
            self._places = None
            return None

    def _proved(self, position: int, piece: Piece) -> Fetched:
        if piece.has_transactions and self._read_committed:
            raise Doubt("which of its transactions were aborted the leader says of what it sends")
        asked = self._ask(piece.last_offset, max_bytes=1)  # a batch is sent whole
        answer = self._answer(asked, None)
        if asked.broker != self._leader:
            raise Doubt(f"broker {asked.broker} leads now; the files are those of {self._leader}")
        sent, _ = whole_batches(answer.records)
        if bytes(sent[: len(piece.last)]) != bytes(piece.last):
            raise Doubt(f"the leader has another batch at offset {piece.last_offset}")
        if answer.log_start_offset > position:
            raise Doubt(f"the log begins at {answer.log_start_offset} now")
        return Fetched(
            piece.records,
            piece.next_offset,
            (),
            answer.high_watermark,
            answer.log_start_offset,
            is_in_place=True,
        )

    def _answer(self, asked: _Ahead, into: FrameBuffer | None) -> Any:
        self._ahead = None
        answer = asked.connection.receive(asked.pending, asked.deadline, into)
        self._check(answer.error_code)
        for topic in answer.responses:
            for found in topic.partitions:
                if found.partition_index == self._partition.partition:
                    self._check(found.error_code)
                    return found
        if answer.throttle_time_ms > 0:
            raise _HeldUp(answer.throttle_time_ms / 1000)
        raise ConnectionLost(f"{asked.connection.address}: a Fetch answer without {self._partition}")

    def _ask(self, position: int, max_bytes: int = 0) -> _Ahead:
        client, partition = self._client, self._partition
        leader, view = self._leader_of_same_topic()
        topic_id = client.known_topic_id(partition.topic)
        self._check_not_cut(view.leader_epoch)
        deadline = client.deadline()
        is_leader = self._replica < 0
        broker = leader if is_leader else self._replica
        connection = client.connection_to(broker, deadline)
        if self._places is not None and not self._places.may_be_beside(connection):
            self._places = None
        if not max_bytes:
            max_bytes = self._max_bytes if self._places is None else min(self._max_bytes, FIRST_FETCH_BYTES)
        # By id the broker itself refuses a topic that was created again; one without ids is asked by name.
        version = connection.version_for(
            FetchRequest, _LAST_VERSION_BY_NAME if topic_id == NO_TOPIC_ID else None
        )
        wanted = FetchPartition(
            partition=partition.partition,
            current_leader_epoch=view.leader_epoch,
            fetch_offset=position,
            partition_max_bytes=max_bytes,
        )
        request = FetchRequest(
            max_wait_ms=FETCH_MAX_WAIT_MS,
            min_bytes=1,
            max_bytes=max_bytes,
            isolation_level=int(self._read_committed),
            topics=[FetchTopic(topic=partition.topic, topic_id=topic_id, partitions=[wanted])],
            rack_id=self._rack,
        )
        return _Ahead(broker, is_leader, connection, connection.send(request, version, deadline), deadline)

    def _ask_ahead(self, position: int) -> None:
        """If this fails, the next turn asks again and deals with it."""
        try:
            self._ahead = self._ask(position)
        except (ConnectionLost, Unreachable, ProtocolError):
            self._ahead = None

    def _give_up_or_forget(self, error: OdradekError, position: int, *, is_late: bool) -> None:
        if isinstance(error, ProtocolError):
            if error.code == ErrorCode.OFFSET_OUT_OF_RANGE:
                raise self._gone(position) from error
            if error.code not in RETRIABLE:
                raise error
        if is_late:
            raise DeadlineExceeded(
                f"{self._partition}: offsets {position} to {self._end} could not be read within "
                f"{self._patience_s:g} s; the last answer was: {error}"
            ) from error
        self._client.forget(self._partition.topic)

    def _check(self, error_code: int) -> None:
        if error_code != ErrorCode.NONE:
            raise answered(error_code, str(self._partition))

    def _leader_of_same_topic(self) -> tuple[int, PartitionView]:
        """Metadata of another topic id may be the older: of before the topic that is meant was created."""
        client, partition = self._client, self._partition
        leader, view = client.leader(partition)
        deadline = client.deadline(min(_OLD_METADATA_S, self._patience_s))
        while True:
            found = client.known_topic_id(partition.topic)
            if found == self._topic_id or NO_TOPIC_ID in (found, self._topic_id):
                return leader, view
            if time.monotonic() > deadline:
                raise TopicRecreated(
                    f"{partition.topic} was deleted and created again: the offsets belong to topic id "
                    f"{topic_id_to_text(TopicId(self._topic_id))}, the cluster now has "
                    f"{topic_id_to_text(TopicId(found))}"
                )
            time.sleep(_FIRST_PAUSE_S)
            leader, view = client.leader(partition, refresh=True)

    def _no_batch(self, records: memoryview | bytes, position: int) -> ProtocolError:
        try:
            next(iter_batches(records))
        except ProtocolError as error:
            return ProtocolError(error.code, f"{self._partition}, offset {position}: {error}")
        raise AssertionError("one reader of batches takes what the other refuses")

    def _check_not_cut(self, leader_epoch: int) -> None:
        """Before a leader of another epoch is read from (KIP-320). The Fetch is fenced by the same epoch."""
        seen = self._seen
        if leader_epoch == self._checked_epoch or leader_epoch < 0:
            return
        if seen.leader_epoch >= 0:
            if leader_epoch < seen.leader_epoch:
                raise ProtocolError(
                    ErrorCode.UNKNOWN_LEADER_EPOCH,
                    f"{self._partition}: the offsets are of leader epoch {seen.leader_epoch}, but the metadata "
                    f"know of {leader_epoch} only",
                )
            found = self._client.ends_of_epochs({self._partition: seen.leader_epoch})[self._partition]
            if cut := cut_off(seen, found, leader_epoch):
                raise LogCut(
                    f"{self._partition}: the log reached to offset {seen.offset} in leader epoch "
                    f"{seen.leader_epoch}, but {cut}",
                    still_there=max(0, found.offset),
                )
        self._checked_epoch = leader_epoch

    def _gone(self, position: int) -> OffsetsGone:
        first = self._client.begin_offsets([self._partition])[self._partition]
        last = self._client.end_offsets([self._partition])[self._partition]
        return OffsetsGone(
            f"{self._partition}: offsets {position} to {self._end} were asked for, but the log now holds "
            f"{first} to {last}"
        )
