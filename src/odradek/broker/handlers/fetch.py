"""Fetch (key 1), versions 4-17.

Waits until `min_bytes` are readable or `max_wait_ms` has passed. A follower's fetch also moves its position, and with
it perhaps the high watermark. A follower whose own high watermark is behind does not wait that long: HIGH_WATERMARK_WAIT_MS, in
which under load the next records carry the news (KIP-392: its consumers wait for it).

What may be read: followers up to the log end, consumers up to the high watermark, with read_committed up to
the last stable offset. Between that and the log end: an empty answer. Outside the log: OFFSET_OUT_OF_RANGE.
A replica that does not lead serves consumers by the same rules, with the high watermark and the log that it has itself.

v4 isolation level, aborted transactions (KIP-98).
v5 log start offset.
v6 KAFKA_STORAGE_ERROR (KIP-112).
v7 sessions: only what changed travels (KIP-227).
v8 the response leaves before the client is throttled (KIP-219).
v9 leader epoch of the reader: smaller FENCED_LEADER_EPOCH, larger UNKNOWN_LEADER_EPOCH (KIP-320).
v10 batches may be zstd (KIP-110); before, topics with `compression.type=zstd` are UNSUPPORTED_COMPRESSION_TYPE.
v11 rack, preferred read replica: consumers may read from followers, and a leader may tell them to (KIP-392, `read_replicas`).
v12 flexible; last fetched epoch, answered by `diverging_epoch` where the logs part (KIP-595).
v13 topic ids: an unknown one is UNKNOWN_TOPIC_ID (KIP-516).
v14 OFFSET_MOVED_TO_TIERED_STORAGE (KIP-405), which nothing gives here.
v15 the follower's broker epoch (KIP-903).
v16 names the leader where this broker is not it (KIP-951).
v17 directory id of the follower (KIP-853): read, not used.
"""

from typing import TYPE_CHECKING, Any

from odradek.broker.answers import Answer, Buffer, Park, Reply
from odradek.broker.fetch_sessions import NO_SESSION, FetchSession, ParkedFetch, WantedPartition
from odradek.broker.read_replicas import preferred_read_replica
from odradek.log.reading import MOST_SEGMENTS_READ
from odradek.log.segment import IndexPending
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError
from odradek.model.ids import BrokerEpoch, BrokerId
from odradek.protocol.flat.fetch_request import FetchRequest
from odradek.protocol.flat.fetch_request import decode as decode_request
from odradek.protocol.flat.fetch_response import NodeEndpoint
from odradek.protocol.flat.fetch_response import PartitionData as FetchedPartition
from odradek.protocol.flat.fetch_response import encode as encode_response
from odradek.protocol.messages.fetch import TopicKey
from odradek.records.compression import ZSTD
from odradek.replication.partition import Partition
from odradek.replication.replica import READ_COMMITTED

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from odradek.broker.client_throttles import ClientLimits
    from odradek.broker.core import Broker
    from odradek.broker.request import ConnectionInfo, Request
    from odradek.protocol.flat.fetch_request import FetchTopic as AskedTopic

# How long the news of a higher high watermark, or log start, may wait for records to travel with.
HIGH_WATERMARK_WAIT_MS = 4
# So many pending partitions are all read again whenever one has changed: it costs less than to reckon.
FEW_PENDING = 16
FINAL_EPOCH = -1
INITIAL_EPOCH = 0
FIRST_WITH_EPOCHS = 9
FIRST_WITH_ZSTD = 10
FIRST_WITH_IDS = 13
FIRST_FROM_FOLLOWERS = 11
FIRST_WITH_LEADERS = 16
NONE = 0
NO_EPOCH = -1
NOT_LEADER = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
# Of what Apache does not count as failed, for it says nothing against the broker.
_FORESEEN = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)
# What is taken in, or looked at, in one turn: some eight milliseconds. More, and `large_fetches` does it in slices.
MOST_AT_ONCE = 2_000
# Fewer bytes than these name no more partitions: a row has 28 and more; before version 9, which adds the leader epoch, 16.
LARGE_BYTES, LARGE_BYTES_BEFORE = 25 * MOST_AT_ONCE, 16 * MOST_AT_ONCE
# As long as consumers wait by default (fetch.max.wait.ms), where there is no memory for more that wait here.
WAIT_OUTSIDE_MS = 500
HAS_NEW_LEADER = (NOT_LEADER, int(ErrorCode.FENCED_LEADER_EPOCH))


def handle(broker: "Broker", request: "Request", now_ms: int) -> Answer:
    version = request.api_version
    body = decode_request(version, request.body, budget=request.budget)
    session = _session(broker, version, body, now_ms)
    if isinstance(session, ErrorCode):
        return Reply(encode_response(version, error_code=session, session_id=NO_SESSION))
    kind: type[FetchWait] = FetchWait
    large_bytes = LARGE_BYTES if version >= FIRST_WITH_EPOCHS else LARGE_BYTES_BEFORE
    if len(request.body) >= large_bytes or len(session.wanted) > MOST_AT_ONCE:
        kind = broker.handlers.large_fetch()
    else:
        take_in(session, body.topics)
        if body.session_epoch not in (INITIAL_EPOCH, FINAL_EPOCH):
            forget(session, body.forgotten_topics_data)
        error = taken_in(broker, session, body, now_ms)
        if error is not None:
            return Reply(encode_response(version, error_code=error, session_id=NO_SESSION))
    session.last_fetch_time_ms = now_ms
    session.connection_id = request.connection.id
    wait = kind(broker, version, body, session, request.connection)
    if session.replica_id >= 0:
        request.connection.is_follower = True
    elif broker.throttles.is_active:
        wait.hold_to(broker.throttles.limits_of(request))
    return wait.begin(now_ms)


def _session(broker: "Broker", version: int, body: FetchRequest, now_ms: int) -> FetchSession | ErrorCode:
    """The session this fetch belongs to; or the error of the whole request."""
    session_id, session_epoch = body.session_id, body.session_epoch
    # v15 says both in a tag, which consumers leave out.
    replica_id, replica_epoch = body.replica_state or (body.replica_id, NO_EPOCH)
    sessions = broker.fetch_sessions
    by_id = version >= FIRST_WITH_IDS
    if session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
        if session_id != NO_SESSION:
            sessions.remove(session_id, now_ms)
        is_follower = replica_id >= 0
        keep = session_epoch == INITIAL_EPOCH and bool(body.topics)
        if keep and not sessions.has_room(for_follower=is_follower, now_ms=now_ms):
            keep = False
        session = FetchSession(
            broker.ids.session_id() if keep else NO_SESSION,
            replica_id=replica_id,
            replica_epoch=BrokerEpoch(replica_epoch),
            by_id=by_id,
            purgatory=broker.purgatory,
            now_ms=now_ms,
        )
        if keep:
            sessions.add(session)
    else:
        found = sessions.get(session_id)
        if found is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if found.epoch != session_epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if found.by_id is not by_id:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        session = found
        while session.parked is not None:
            # The reader asks again before it was answered. The first answer is about the old positions.
            broker.purgatory.cut_short(session.parked, now_ms)
        session.next_epoch()
        session.is_full = False
        if session.replica_epoch != replica_epoch:
            session.registered_anew(BrokerEpoch(replica_epoch))
        sessions.touch(session, now_ms)
        session.fetched_again()
    return session


def take_in(session: FetchSession, topics: "Iterable[AskedTopic]") -> None:
    want = session.want
    for key, partitions in topics:
        for index, current_epoch, fetch_offset, last_epoch, log_start, max_bytes, _ in partitions:
            want(key, index, current_epoch, fetch_offset, last_epoch, log_start, max_bytes)


def forget(session: FetchSession, topics: "Iterable[tuple[TopicKey, Sequence[int]]]") -> None:
    """After `take_in`: what is named in both lists is forgotten, as in Apache."""
    for key, indexes in topics:
        for index in indexes:
            session.forget(key, index)


def taken_in(broker: "Broker", session: FetchSession, body: FetchRequest, now_ms: int) -> ErrorCode | None:
    """All that the fetch names is in its session. The error of the whole request, if that is not kept."""
    session_epoch, sessions = body.session_epoch, broker.fetch_sessions
    if session.id != NO_SESSION and session.counted != len(session.wanted):
        if not broker.row_limits.has_reason(len(session.wanted)):
            # Added by one fetch after the other. Who has a reason asks for all of them again.
            sessions.remove(session.id, now_ms)
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if not sessions.keeps(session, now_ms):
            if session_epoch != INITIAL_EPOCH:
                session.close()
                return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
            session.id = NO_SESSION
    return None


class Gathered:
    """What there is to say now: rows per topic, and whether it must be said at once."""

    __slots__ = ("at_ms", "at_once", "rows", "size_bytes", "throttled_bytes", "topics")

    def __init__(self, at_ms: int, *, at_once: bool) -> None:
        self.at_ms = at_ms
        self.at_once = at_once
        # Of which partition each row is, where they are not all looked at in the turn of the answer.
        self.rows: dict[WantedPartition, FetchedPartition] | None = None
        self.throttled_bytes = 0
        self.topics: dict[TopicKey, list[FetchedPartition]] = {}
        self.size_bytes = 0


class FetchWait(ParkedFetch):
    """One fetch, parked or not. It reads only the partitions that are pending in its session."""

    __slots__ = (
        "body",
        "broker",
        "connection",
        "gathered",
        "has_newer_high_watermark",
        "held_until_ms",
        "is_filled",
        "is_waiting",
        "limits",
        "max_bytes",
        "missing_bytes",
        "park",
        "rack",
        "session",
        "throttle_ms",
        "version",
    )

    def __init__(
        self,
        broker: "Broker",
        version: int,
        body: FetchRequest,
        session: FetchSession,
        connection: "ConnectionInfo",
    ) -> None:
        super().__init__()
        self.broker = broker
        self.version = version
        self.body = body
        self.session = session
        self.park: Park | None = None
        self.is_waiting = False  # parked, and was looked at before
        self.gathered: Gathered | None = None  # what it is over for
        self.missing_bytes = 0  # to be enough, at the last look
        self.has_newer_high_watermark = False  # for a follower: a mark it does not know yet
        self.is_filled = False  # there is no room for the next batch: the others come first next time
        self.held_until_ms = -1  # for a follower: when a throttle lets go of what it wants
        self.throttle_ms = 0  # what its answer says, and its connection keeps to
        self.limits: ClientLimits | None = None  # for a consumer: its quotas, where there are any
        self.connection = connection
        # Of a consumer that is to be sent to a replica there; empty: nobody is, or it did not say.
        self.rack = body.rack_id if broker.selects_replicas_by_rack else ""
        self.max_bytes = body.max_bytes
        self._hold_to_bytes(body.max_bytes if session.replica_id >= 0 else broker.fetch_max_bytes)

    def hold_to(self, limits: "ClientLimits") -> None:
        """It never asks for more at a time than its quota would let through after a rest."""
        self.limits = limits
        self._hold_to_bytes(limits.longest_fetch_bytes)

    def _hold_to_bytes(self, most: int) -> None:
        """Nor does it wait for more than an answer holds, which is one batch in any case."""
        self.max_bytes = min(self.max_bytes, most)
        if self.body.min_bytes > max(self.max_bytes, 1):
            self.body = self.body._replace(min_bytes=max(self.max_bytes, 1))

    def begin(self, now_ms: int) -> Answer:
        answer = self.gather(now_ms)
        if answer is not None:
            try:
                return self.reply(answer)
            finally:
                if self.session.id == NO_SESSION:
                    self.session.close()
        deadline_ms = self.deadline_ms(now_ms)
        try:
            return self.park_until(deadline_ms, now_ms)
        except Exception:  # no memory, say: what nobody waits for does not count
            if self.session.id == NO_SESSION:
                self.broker.fetch_sessions.takes_back(self.session)
            raise

    # -------------------------------------------------------------------------------------------- parking

    def deadline_ms(self, now_ms: int) -> int:
        """Of one that came just now and has been looked at."""
        wait_ms = self.body.max_wait_ms
        session = self.session
        if (
            session.id == NO_SESSION
            and session.replica_id < 0
            and not self.broker.fetch_sessions.lends(session)
        ):
            # Its reader waits instead, which takes no memory here.
            self.throttle_ms = min(wait_ms, WAIT_OUTSIDE_MS)
            return now_ms
        if self.has_newer_high_watermark:
            wait_ms = min(wait_ms, HIGH_WATERMARK_WAIT_MS)
        return now_ms + wait_ms if self.held_until_ms < 0 else min(now_ms + wait_ms, self.held_until_ms)

    def park_until(self, deadline_ms: int, now_ms: int) -> Park:
        session = self.session
        if session.id == NO_SESSION:
            session.watch()
        park = self.park = Park()
        self.is_waiting = True
        session.parked = self
        purgatory = self.broker.purgatory
        while self.connection.parked is not None:
            # A connection that closes knows of one.
            purgatory.cut_short(self.connection.parked, now_ms)
        self.connection.parked = self
        purgatory.park(self, deadline_ms=deadline_ms)
        return park

    def is_over(self, now_ms: int) -> bool:
        if not self._may_be_over():
            return False
        self.gathered = self.gather(now_ms)
        if self.gathered is not None:
            return True
        if self.has_newer_high_watermark:
            self.be_due_by(now_ms + HIGH_WATERMARK_WAIT_MS)
        if self.held_until_ms >= 0:
            self.be_due_by(self.held_until_ms)
        return False

    def be_due_by(self, deadline_ms: int) -> None:
        self.broker.purgatory.reschedule(self, deadline_ms=deadline_ms)

    def _may_be_over(self) -> bool:
        """A consumer that wants many bytes is woken by every append to any of its partitions, and most of them are not
        enough: only what has changed is read then. Never says no where all that is pending would be enough."""
        session = self.session
        if session.replica_id >= 0 or len(session.pending) < FEW_PENDING:
            return True
        for wanted in session.changed:
            found = self._readable_bytes(wanted)
            if found is None:
                return True
            self.missing_bytes -= max(found - wanted.seen_bytes, 0)
            if self.missing_bytes <= 0:
                return True
            wanted.seen_bytes = max(found, wanted.seen_bytes)
            wanted.is_dirty = False
        session.changed.clear()
        return False

    def _readable_bytes(self, wanted: WantedPartition) -> int | None:
        """At most so many would come of it. None: there may be something else to tell."""
        partition = wanted.partition
        if (
            wanted.is_refused
            or partition is None
            or not partition.is_hosted
            or wanted.role != (partition.leader_epoch, partition.is_leader)
        ):
            return None
        is_committed = self.body.isolation_level == READ_COMMITTED
        end = partition.last_stable_offset if is_committed else partition.high_watermark
        try:
            found = partition.log.read(
                wanted.fetch_offset,
                max_bytes=max(wanted.max_bytes, 0),
                upper_bound_offset=end,
                min_one_batch=True,
                most_segments=MOST_SEGMENTS_READ,
            )
        except ProtocolError:
            return None
        return None if found.ends_early else found.size_bytes

    def on_high_watermark(self, now_ms: int) -> None:
        """Do not look now: records that bring the news along may come in a moment."""
        if not self.has_newer_high_watermark:
            self.has_newer_high_watermark = True
            self.be_due_by(now_ms + HIGH_WATERMARK_WAIT_MS)

    def finish(self, now_ms: int, *, is_late: bool) -> None:
        """Late: the deadline, or the connection sent something else. Say what there is."""
        answer = self.gather(now_ms, is_final=True) if is_late else self.gathered
        park = self.park
        assert answer is not None and park is not None
        self.gathered = None
        park.answer(lambda: self._last_words(answer))

    def _last_words(self, answer: Gathered) -> Reply:
        try:
            return self.reply(answer)
        finally:
            self._let_go()

    def leave(self) -> None:
        self.broker.purgatory.leave(self)
        self._let_go()

    def _let_go(self) -> None:
        """Answered, or the connection is gone: a session lives on, a single fetch is over."""
        session = self.session
        if session.parked is self:
            session.parked = None
        if self.connection.parked is self:
            self.connection.parked = None
        if session.id == NO_SESSION:
            self.broker.fetch_sessions.takes_back(session)
            session.close()

    # ------------------------------------------------------------------------------------------ gathering

    def gather(self, now_ms: int, *, is_final: bool = False) -> Gathered | None:
        """What the pending partitions have to say; None if that is not enough to answer yet."""
        session = self.session
        body = self.body
        gathered = Gathered(now_ms, at_once=is_final or body.max_wait_ms <= 0 or not session.wanted)
        session.changed.clear()
        self.is_filled = False
        self.held_until_ms = -1
        self.look_at(tuple(session.pending), gathered, now_ms)
        if self.is_enough(gathered):
            return gathered
        for wanted in session.pending:
            wanted.is_dirty = False  # they stay pending, and say so again when more comes
        return None

    def is_enough(self, gathered: Gathered) -> bool:
        self.missing_bytes = self.body.min_bytes - gathered.size_bytes
        return gathered.at_once or self.is_filled or self.missing_bytes <= 0

    def look_at(self, some: "Sequence[WantedPartition]", gathered: Gathered, now_ms: int) -> None:
        """Of the pending ones."""
        session = self.session
        is_full, rows = session.is_full, gathered.rows
        throttled = self.broker.replicas.leader_throttle.covered if session.replica_id >= 0 else None
        for wanted in some:
            wanted.has_more = False
            try:
                row, size, is_urgent = self._read_partition(wanted, gathered.size_bytes, now_ms)
            except ProtocolError as refusal:
                row, size, is_urgent = self._refused(wanted, refusal.code), 0, True
                wanted.has_more = True
            wanted.has_moved = False
            wanted.seen_bytes = size
            if is_urgent:
                gathered.at_once = True
            elif not size and not is_full and not wanted.has_newer_high_watermark:
                # What found no room, or is held back, is read again by the next fetch.
                if not wanted.has_more:
                    del session.pending[wanted]
                    wanted.is_dirty = False
                continue
            topic = gathered.topics.get(wanted.key)
            if topic is None:
                gathered.topics[wanted.key] = [row]
            else:
                topic.append(row)
            gathered.size_bytes += size
            hosted = wanted.partition
            if size and throttled and hosted is not None and hosted.topic_partition in throttled:
                gathered.throttled_bytes += size
            if rows is not None:
                rows[wanted] = row

    def _read_partition(
        self, wanted: WantedPartition, so_far: int, now_ms: int
    ) -> tuple[FetchedPartition, int, bool]:
        """(row, bytes of records, must it be told at once). Refuses by ProtocolError."""
        partition = wanted.partition
        if partition is None or not partition.is_hosted:
            partition = self._resolve(wanted)
        wanted.is_refused = False
        session = self.session
        offset = wanted.fetch_offset
        current_epoch = wanted.current_leader_epoch
        if current_epoch != partition.leader_epoch and current_epoch >= 0:
            raise ProtocolError(partition.check_epoch(current_epoch))
        log = partition.log
        if self.version < FIRST_WITH_ZSTD and log.config.compression_type == ZSTD:
            raise ProtocolError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
        diverging = None
        # Leadership moved while the fetch was parked: its reader has to refresh its metadata, so answer at once.
        role = partition.leader_epoch, partition.is_leader
        is_urgent = self.is_waiting and wanted.role != role
        wanted.role = role
        if session.replica_id >= 0:
            if not partition.is_leader:
                raise ProtocolError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            upper_bound = log.log_end_offset
            if session.id == NO_SESSION and wanted.sent_high_watermark < 0:
                # Every fetch without a session is a first one. Answered at once like that of a session, it would come
                # back at once, for ever; its answer names everything, whenever that comes.
                wanted.sent_high_watermark, wanted.sent_log_start = (
                    partition.high_watermark,
                    log.log_start_offset,
                )
            if wanted.last_fetched_epoch >= 0:
                diverging = partition.divergence_point(wanted.last_fetched_epoch, offset)
            if offset > upper_bound or offset < log.log_start_offset:
                if diverging is None:
                    raise ProtocolError(ErrorCode.OFFSET_OUT_OF_RANGE)
            elif diverging is None and wanted.has_moved:
                self._note_position(partition, wanted, now_ms)
            stable = high_watermark = partition.high_watermark
            if wanted.sent_high_watermark < 0:
                is_urgent = True  # the first answer of a session, or after an error
            elif high_watermark > wanted.sent_high_watermark or log.log_start_offset > wanted.sent_log_start:
                self.has_newer_high_watermark = True
        else:
            if not partition.is_leader:
                if self.version < FIRST_FROM_FOLLOWERS:
                    raise ProtocolError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            elif self.rack:
                replica = preferred_read_replica(
                    partition,
                    offset,
                    rack=self.rack,
                    listener=self.connection.listener,
                    brokers=self.broker.metadata.brokers,
                )
                if replica is not None:
                    return self._sent_to(replica, wanted, partition), 0, True
            high_watermark = upper_bound = partition.high_watermark
            stable = partition.last_stable_offset
            if self.body.isolation_level == READ_COMMITTED:
                upper_bound = stable
            if wanted.last_fetched_epoch >= 0:
                diverging = partition.divergence_point(wanted.last_fetched_epoch, offset)
            if diverging is None and (offset > log.log_end_offset or offset < log.log_start_offset):
                raise ProtocolError(ErrorCode.OFFSET_OUT_OF_RANGE)
        records: Any = b""
        size = 0
        aborted: list[tuple[int, int]] | None = None
        is_committed = self.body.isolation_level == READ_COMMITTED and session.replica_id < 0
        if is_committed:
            aborted = []
        if diverging is not None:
            is_urgent = wanted.has_more = True
            # Its reader cuts its log and takes nothing else from this answer, the high watermark included: to be
            # told again, or a follower of an idle partition would never learn of it.
            wanted.is_refused = True
            wanted.sent_high_watermark = -1
        elif offset < upper_bound:
            wanted.has_more = True
            room = self.max_bytes - so_far
            is_held_back = session.replica_id >= 0 and self._is_held_back(partition, now_ms)
            if not is_held_back and not self.is_filled and (room > 0 or not so_far):
                try:
                    found = log.read(
                        offset,
                        max_bytes=max(min(wanted.max_bytes, room), 0),
                        upper_bound_offset=upper_bound,
                        min_one_batch=not so_far,
                        most_segments=MOST_SEGMENTS_READ,
                    )
                    is_urgent = (
                        is_urgent or found.ends_early
                    )  # however many bytes are asked for, there will be no more
                    if is_committed and found.size_bytes:
                        # Of what is sent now: up to the last stable offset there may be a hundred thousand of them.
                        told = log.aborted_in(found, offset)
                        aborted = [(entry.producer_id, entry.first_offset) for entry in told]
                    records = found.slices
                    size = found.size_bytes
                    self.is_filled = not size and so_far > 0 and room <= wanted.max_bytes
                except IndexPending:
                    pass  # nothing for now: the partition says when a thread has built the index
        if not size:
            records = b""
        row = (
            wanted.index,
            NONE,
            high_watermark,
            stable,
            log.log_start_offset,
            aborted,
            -1,
            records,
            diverging,
            None,
            None,
        )
        return row, size, is_urgent

    def _sent_to(self, replica: BrokerId, wanted: WantedPartition, partition: Partition) -> FetchedPartition:
        """No records: its reader gets them there. Said at once, and again with every fetch of a session until the reader takes
        the partition out."""
        wanted.has_more = True
        return (
            wanted.index,
            NONE,
            partition.high_watermark,
            partition.last_stable_offset,
            partition.log.log_start_offset,
            None,
            replica,
            b"",
            None,
            None,
            None,
        )

    def _is_held_back(self, partition: Partition, now_ms: int) -> bool:
        """KIP-73: nothing now for a follower that is not in sync. It asks again by itself; we look again as soon as
        the rate allows it."""
        throttle = self.broker.replicas.leader_throttle
        if (
            not throttle.covered
            or self.session.replica_id in partition.isr
            or not throttle.holds_back(partition.topic_partition, now_ms)
        ):
            return False
        free_at_ms = throttle.free_at_ms(now_ms)
        self.held_until_ms = free_at_ms if self.held_until_ms < 0 else min(self.held_until_ms, free_at_ms)
        return True

    def _note_position(self, partition: Partition, wanted: WantedPartition, now_ms: int) -> None:
        session = self.session
        replica = BrokerId(session.replica_id)
        if replica not in partition.followers:
            # It may know of an assignment that we do not know yet.
            raise ProtocolError(
                ErrorCode.UNKNOWN_LEADER_EPOCH
                if wanted.current_leader_epoch >= 0
                else ErrorCode.NOT_LEADER_OR_FOLLOWER
            )
        partition.follower_fetched(
            replica,
            wanted.fetch_offset,
            follower_log_start=wanted.follower_log_start,
            broker_epoch=session.replica_epoch,
            source=session,
            now_ms=now_ms,
        )

    def _resolve(self, wanted: WantedPartition) -> Partition:
        """The partition a reader means, as hosted here now; or why there is none."""
        wanted.unwatch()
        wanted.partition = None
        partition = self.broker.replicas.wanted(wanted.key, wanted.index)
        if self.session.id == NO_SESSION:
            wanted.partition = partition  # watched when the fetch is parked, and most are answered at once
        else:
            wanted.watch(partition)
        return partition

    def _refused(self, wanted: WantedPartition, error: ErrorCode) -> FetchedPartition:
        """Said at once, and again with every fetch until the reader takes the partition out."""
        wanted.is_refused = True
        wanted.sent_high_watermark = -1
        leader = None
        log_start = -1
        partition = wanted.partition
        if error in HAS_NEW_LEADER:
            self.broker.metadata.refusals += 1
            if self.version >= FIRST_WITH_LEADERS:
                leader = self.broker.replicas.current_leader(wanted.key, wanted.index)
        if partition is not None:
            partition.traffic.failed_fetch_requests += error not in _FORESEEN
            if error == ErrorCode.OFFSET_OUT_OF_RANGE:
                log_start = partition.log.log_start_offset
        return (wanted.index, int(error), -1, -1, log_start, None, -1, b"", None, leader, None)

    # ------------------------------------------------------------------------------------------- answering

    def reply(self, gathered: Gathered) -> Reply:
        """Encodes, and notes what the session has been told."""
        session = self.session
        rows = gathered.topics
        buffers: list[Buffer] = encode_response(
            self.version,
            session_id=session.id,
            throttle_time_ms=self.throttle_ms,
            responses=list(rows.items()),
            node_endpoints=self._endpoints(rows) if self.version >= FIRST_WITH_LEADERS else (),
        )
        if self.limits is not None:
            wait_ms = self.broker.throttles.fetched(self.limits, _size_bytes(buffers), gathered.at_ms)
            if wait_ms:
                return self._held_up(wait_ms, gathered.at_ms)
        if gathered.throttled_bytes:
            self.broker.replicas.leader_throttle.record(gathered.throttled_bytes, gathered.at_ms)
        pending = session.pending
        is_follower = session.replica_id >= 0
        looked_at = gathered.rows
        for wanted in tuple(pending) if looked_at is None else looked_at:
            partition = wanted.partition
            if partition is not None:
                traffic = partition.traffic
                traffic.fetch_requests += 1
                if is_follower:
                    traffic.replicated_bytes_out += wanted.seen_bytes
                else:
                    traffic.bytes_out += wanted.seen_bytes
                if wanted.is_refused:
                    pass
                elif looked_at is None:
                    wanted.sent_high_watermark = partition.high_watermark
                    wanted.sent_log_start = partition.log.log_start_offset
                else:
                    wanted.sent_high_watermark, wanted.sent_log_start = (
                        looked_at[wanted][2],
                        looked_at[wanted][4],
                    )
            if looked_at is not None and (
                wanted.is_dirty or (not wanted.has_more and wanted.has_newer_high_watermark)
            ):
                continue  # it has said something since it was looked at
            if not wanted.has_more:
                del pending[wanted]
                wanted.is_dirty = False  # it will say when it has something
            elif wanted.seen_bytes:
                # Looked at again by the next fetch, behind those that got nothing now.
                del pending[wanted]
                pending[wanted] = None
        session.is_full = False
        return Reply(buffers, self.throttle_ms)

    def _held_up(self, wait_ms: int, now_ms: int) -> Reply:
        """KIP-219: an answer without partitions. What there is to say stays to be said; a session that would begin
        with this answer does not, its reader asks for everything again."""
        session = self.session
        session_id = session.id
        if session.is_full:
            session.parked = None  # it is this fetch, which is being answered
            self.broker.fetch_sessions.remove(session_id, now_ms)
            session_id = NO_SESSION
        for wanted in session.pending:
            wanted.is_dirty = False
        return Reply(encode_response(self.version, session_id=session_id, throttle_time_ms=wait_ms), wait_ms)

    def _endpoints(self, rows: dict[TopicKey, list[FetchedPartition]]) -> list[NodeEndpoint]:
        """KIP-951: where the leaders named in the rows are found, on the reader's listener."""
        leaders = {row[9][0] for topic in rows.values() for row in topic if row[9] is not None}
        return self.broker.node_endpoints(leaders, self.connection.listener) if leaders else []


def _size_bytes(buffers: list[Buffer]) -> int:
    """Of the answer as it is counted: with the four bytes that say how long it is."""
    return 4 + sum(
        len(buffer) if isinstance(buffer, (bytes, bytearray, memoryview)) else buffer.size_bytes
        for buffer in buffers
    )
