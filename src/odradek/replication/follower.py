"""Following one leader broker: what to ask it next, and what its answers mean. Frames in, frames out.

Whoever holds the connection to the leader calls, and waits in between:

    frame = fetcher.next_request(now_ms)      until it gives None; `wake_at_ms` says when to ask again
    fetcher.handle_response(frame, now_ms)    for every answer, in order; then next_request again
    fetcher.connection_lost(now_ms)           whatever was in flight is forgotten, the session with it

A fetch from offset N is the acknowledgement of everything below N, so it is sent in the same turn as the
data were appended. The leader parks it until there is more: one fetch is always in flight.

What state a partition is in, and why: `followed`.

Every request names our leader epoch; an answer counts only if the partition still is in that epoch and its
log still ends where it ended when the request was made. Errors of one partition delay that one only: it is
taken out of the session, so that the leader can park the rest.
"""

from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple, TypeVar

from odradek.log.steps import Steps
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError
from odradek.model.ids import NO_TOPIC_ID, BrokerEpoch, BrokerId, TopicPartition
from odradek.protocol.errors import MalformedMessage
from odradek.protocol.flat.fetch_request import FetchPartition as WantedPartition
from odradek.protocol.flat.fetch_request import encode as encode_fetch
from odradek.protocol.flat.fetch_response import FetchResponse
from odradek.protocol.flat.fetch_response import PartitionData as FetchedPartition
from odradek.protocol.flat.fetch_response import decode as decode_response
from odradek.protocol.headers import decode_response_header, encode_request
from odradek.protocol.messages.fetch import TopicKey
from odradek.records.batch import first_batches
from odradek.replication import follower_questions as questions
from odradek.replication.cuts import CUTS_AT_ONCE, Cut
from odradek.replication.followed import (
    FETCHING,
    FIRST_BACKOFF_MS,
    LATER,
    LOCATING_END,
    FetchLimits,
    FollowedPartition,
)
from odradek.replication.follower_questions import EpochEnd
from odradek.replication.partition import Partition
from odradek.replication.throttle import ReplicationThrottle
from odradek.replication.waiting import Outbox

T = TypeVar("T")
FETCH = 1
# What inter.broker.protocol.version 3.9 speaks: topic ids, or names while a topic has no id.
FETCH_VERSION = 17
FETCH_VERSION_BY_NAME = 12

INT32_MAX = 2**31 - 1
# Of one answer, that are appended in its turn: some 25 ms. An answer that has more is taken as if it ended there.
MOST_BATCHES = 4_000
# What a partition with records counts for beside its batches.
BATCHES_A_ROW = 2
INITIAL_EPOCH = 0  # of a session: a full fetch that opens one

# The session is void, the partitions are not.
SESSION_ERRORS = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)


class _InFlight(NamedTuple):
    api_key: int
    version: int
    number: int
    session: int  # number of our session, to know the answers of one that was given up
    is_full: bool  # a fetch that opens a session
    asked: tuple[FollowedPartition, ...]  # whom it is about; of a fetch: whom it names


class FollowerFetcher:
    """See the module. One per leader broker; the partitions come and go with LeaderAndIsr."""

    def __init__(
        self,
        *,
        broker: BrokerId,
        leader: BrokerId,
        limits: FetchLimits,
        outbox: Outbox,
        broker_epoch: Callable[[], BrokerEpoch],
        throttle: ReplicationThrottle | None = None,
    ) -> None:
        self.broker = broker
        self.leader = leader
        self.limits = limits
        self.partitions: dict[TopicPartition, FollowedPartition] = {}
        self._outbox = outbox
        self._broker_epoch = broker_epoch
        self._throttle = throttle if throttle is not None else ReplicationThrottle()
        self._client_id = f"broker-{broker}-fetcher-0"
        self._sent = 0  # requests so far; the last 31 bits are the correlation id
        self._in_flight: deque[_InFlight] = deque()
        self._fetches_in_flight = 0
        self._by_id: dict[tuple[bytes, int], FollowedPartition] = {}
        # Sessions (KIP-227). `_changed`: to be named in the next fetch; `_forgotten`: to be taken out.
        self._session = 0
        self._session_id = 0
        self._session_epoch = INITIAL_EPOCH
        self._session_version = FETCH_VERSION
        self._session_broker_epoch = broker_epoch()
        self._changed: dict[TopicPartition, FollowedPartition] = {}
        self._forgotten: dict[TopicPartition, FollowedPartition] = {}
        self._waiting: dict[TopicPartition, FollowedPartition] = {}  # delayed, or not in FETCHING
        self._cuts_at_once = 0  # that are left of those of one answer
        self._batches_left = MOST_BATCHES  # of those of one answer
        self._bytes_taken = 0  # in those that are not left
        self._max_bytes = (
            limits.response_max_bytes
        )  # that hold no more than MOST_BATCHES, were they as large as the last ones
        # Something changed that the fetch in flight does not know: send another behind it.
        self._is_urgent = False

    # -------------------------------------------------------------------------------------------- who is followed

    def add(self, partition: Partition) -> None:
        """Follow `partition` in its present leader epoch, from its log end. In the epoch before it was removed, or in this one
        where it was stopped and follows again."""
        topic_partition = partition.topic_partition
        assert topic_partition not in self.partitions
        followed = FollowedPartition(partition)
        self.partitions[topic_partition] = followed
        self._by_id[partition.topic_id, topic_partition.partition] = followed
        former = self._forgotten.get(topic_partition)
        if former is not None and followed.goes_on(former):
            # To the leader it was never away, and what it has told once in this epoch it does not tell again.
            del self._forgotten[topic_partition]
        if followed.state == FETCHING:
            self._changed[topic_partition] = followed
        else:
            self._waiting[topic_partition] = followed
        self._is_urgent = True

    def remove(self, topic_partition: TopicPartition) -> None:
        followed = self.partitions.pop(topic_partition, None)
        if followed is None:
            return
        self._by_id.pop((followed.partition.topic_id, topic_partition.partition), None)
        self._changed.pop(topic_partition, None)
        self._waiting.pop(topic_partition, None)
        if followed.in_session:
            self._leave_session(topic_partition, followed)
            self._is_urgent = True

    def connection_lost(self, now_ms: int) -> None:
        """Nothing in flight will be answered; the leader's end of the session may be gone as well."""
        for flight in self._in_flight:
            if flight.api_key != FETCH:
                for followed in flight.asked:
                    followed.delayed_until_ms = now_ms
        self._in_flight.clear()
        self._fetches_in_flight = 0
        self._new_session(close=0)

    # ------------------------------------------------------------------------------------------------ asking

    def wake_at_ms(self, now_ms: int) -> int | None:
        """When a delayed partition is due; None if none is."""
        is_asking = self._is_asking_for_offsets()
        due = [f.delayed_until_ms for f in self._waiting.values() if f.state == FETCHING or not is_asking]
        return min((at_ms for at_ms in due if at_ms < LATER), default=None)

    def next_request(self, now_ms: int) -> bytes | None:
        """The next frame to send, or None. At most a fetch and one behind it are in flight."""
        if self._waiting:
            self._release_waiting(now_ms)
            frame = self._ask_for_offsets(now_ms)
            if frame is not None:
                return frame
        if self._throttle.covered:
            self._hold_back(now_ms)
        if self._fetches_in_flight:
            # A fetch the leader has parked would keep a new partition waiting for up to wait_max_ms. A
            # second one behind it makes our leaders answer the first at once.
            if not self._is_urgent or self._fetches_in_flight > 1 or self._session_id == 0:
                return None
        elif len(self._waiting) == len(self.partitions):
            return None  # the leader would answer at once, having nothing to wait for
        for followed in self._changed.values():
            if followed.partition.is_flushing:
                return None  # flush.messages=1: a fetch would acknowledge what is not on the disk yet
        return self._fetch()

    def _release_waiting(self, now_ms: int) -> None:
        for topic_partition, followed in list(self._waiting.items()):
            if followed.state == FETCHING and followed.delayed_until_ms <= now_ms:
                del self._waiting[topic_partition]
                self._changed[topic_partition] = followed
                self._is_urgent = True

    def _hold_back(self, now_ms: int) -> None:
        """KIP-73: what is throttled and not in sync is asked for again when the rate allows it. Out of the session,
        or the leader would answer with it while it waits for the others."""
        named = self.partitions if self._session_epoch == INITIAL_EPOCH else self._changed
        for topic_partition, followed in list(named.items()):
            is_behind = (
                followed.leader_high_watermark_seen > followed.partition.log.log_end_offset
                or followed.leader_high_watermark_seen < 0
            )
            if (
                is_behind
                and topic_partition not in self._waiting
                and self._throttle.holds_back(topic_partition, now_ms)
            ):
                followed.delayed_until_ms = self._throttle.free_at_ms(now_ms)
                self._suspend(topic_partition, followed)
                followed.is_held_back = True

    def throttle_changed(self, now_ms: int) -> bool:
        """Its rate, or whom it is about: whoever it holds back is looked at again. Whether it holds back anybody."""
        held_back = [followed for followed in self._waiting.values() if followed.is_held_back]
        for followed in held_back:
            followed.delayed_until_ms = now_ms
        return bool(held_back)

    def _delay(self, followed: FollowedPartition, now_ms: int) -> None:
        """Out of the session, and asked again after a pause that doubles."""
        topic_partition = followed.partition.topic_partition
        followed.delayed_until_ms = now_ms + followed.backoff_ms
        followed.backoff_ms = min(followed.backoff_ms * 2, max(self.limits.backoff_ms, FIRST_BACKOFF_MS))
        self._suspend(topic_partition, followed)

    def suspend(self, topic_partition: TopicPartition, until_ms: int) -> bool:
        """Not fetched until then, or until `resume`. False: its log's end is being found or cut, and it cannot be now."""
        followed = self.partitions[topic_partition]
        if followed.state != FETCHING or followed.delayed_until_ms >= LATER:
            return False
        followed.delayed_until_ms = until_ms
        self._suspend(topic_partition, followed)
        return True

    def resume(self, topic_partition: TopicPartition, now_ms: int) -> None:
        followed = self.partitions.get(topic_partition)
        if followed is not None and followed.state == FETCHING and followed.delayed_until_ms < LATER:
            followed.delayed_until_ms = now_ms

    def _suspend(self, topic_partition: TopicPartition, followed: FollowedPartition) -> None:
        self._changed.pop(topic_partition, None)
        self._waiting[topic_partition] = followed
        followed.is_held_back = False
        if followed.in_session:
            self._leave_session(topic_partition, followed)

    def _leave_session(self, topic_partition: TopicPartition, followed: FollowedPartition) -> None:
        self._forgotten[topic_partition] = followed
        followed.in_session = False

    def _fetch(self) -> bytes:
        broker_epoch = self._broker_epoch()
        if broker_epoch != self._session_broker_epoch:
            # We have registered anew. The leader learns of it for the partitions a fetch names, so name them all:
            # it may not take this life of ours into an ISR on the word of the one before (KIP-903).
            self._session_broker_epoch = broker_epoch
            if self._session_epoch != INITIAL_EPOCH:
                self._new_session(close=self._session_id)
        is_full = self._session_epoch == INITIAL_EPOCH
        if is_full:
            # Version and session go together: the leader's end is by topic id or by name.
            named = all(f.partition.topic_id != NO_TOPIC_ID for f in self.partitions.values())
            self._session_version = FETCH_VERSION if named else FETCH_VERSION_BY_NAME
            # In the order of `partitions`, for the leader begins with the first.
            self._changed = {tp: f for tp, f in self.partitions.items() if tp not in self._waiting}
        elif self._session_version == FETCH_VERSION and any(
            f.partition.topic_id == NO_TOPIC_ID for f in self._changed.values()
        ):
            self._new_session(close=self._session_id)
            return self._fetch()
        limits = self.limits
        version = self._session_version
        by_id = version == FETCH_VERSION
        body = encode_fetch(
            version,
            replica_id=self.broker,
            replica_state=(self.broker, broker_epoch),
            max_wait_ms=limits.wait_max_ms,
            min_bytes=limits.min_bytes,
            max_bytes=min(self._max_bytes, limits.response_max_bytes),
            session_id=self._session_id,
            session_epoch=self._session_epoch,
            topics=self._wanted(by_id),
            forgotten_topics_data=[
                (f.partition.topic_id if by_id else tp.topic, [tp.partition])
                for tp, f in self._forgotten.items()
                if (again := self._changed.get(tp)) is None
                or (by_id and again.partition.topic_id != f.partition.topic_id)
            ],
        )
        asked = tuple(self._changed.values())
        self._changed.clear()
        self._forgotten.clear()
        self._is_urgent = False
        if is_full:
            self._session_id = 0  # the one it closes; the answer names the one it opens
        self._session_epoch = 1 if self._session_epoch == INT32_MAX else self._session_epoch + 1
        self._fetches_in_flight += 1
        return self._send(FETCH, version, body, is_full=is_full, asked=asked)

    def _wanted(self, by_id: bool) -> list[tuple[TopicKey, list[WantedPartition]]]:
        topics: dict[TopicKey, list[WantedPartition]] = {}
        for (topic, index), followed in self._changed.items():
            partition = followed.partition
            log = partition.log
            if not followed.in_session:
                followed.in_session = True
                # Else the leader never heard that it had left, and what is under way is about it still.
                if self._forgotten.get(TopicPartition(topic, index)) is not followed:
                    followed.named_in = self._sent
            followed.named_at = self._sent
            followed.asked_end = log.log_end_offset
            followed.asked_start = log.log_start_offset
            wanted = (
                index,
                followed.leader_epoch,
                followed.asked_end,
                log.latest_epoch,
                followed.asked_start,
                self.limits.partition_max_bytes,
                NO_TOPIC_ID,
            )
            key: TopicKey = partition.topic_id if by_id else topic
            partitions = topics.get(key)
            if partitions is None:
                topics[key] = [wanted]
            else:
                partitions.append(wanted)
        return list(topics.items())

    def _is_asking_for_offsets(self) -> bool:
        return any(flight.api_key != FETCH for flight in self._in_flight)

    def _ask_for_offsets(self, now_ms: int) -> bytes | None:
        """OffsetForLeaderEpoch or ListOffsets for those that cannot be fetched before; one at a time."""
        if self._is_asking_for_offsets():
            return None
        due = [f for f in self._waiting.values() if f.delayed_until_ms <= now_ms]
        for state in questions.STATES:
            asked = tuple(f for f in due if f.state == state)
            if asked:
                for followed in asked:
                    followed.note_asked()
                api_key, version, body = questions.about(asked, state, asks=self.broker)
                return self._send(api_key, version, body, asked=asked)
        return None

    def _send(
        self,
        api_key: int,
        version: int,
        body: bytes,
        *,
        is_full: bool = False,
        asked: tuple[FollowedPartition, ...] = (),
    ) -> bytes:
        number = self._sent
        self._sent += 1
        self._in_flight.append(_InFlight(api_key, version, number, self._session, is_full, asked))
        return encode_request(api_key, version, number & INT32_MAX, self._client_id, body)

    # ---------------------------------------------------------------------------------------------- answers

    def handle_response(self, frame: memoryview, now_ms: int) -> None:
        """Raises MalformedMessage if the peer talks nonsense: drop the connection then."""
        if not self._in_flight:
            raise MalformedMessage("an answer to nothing")
        flight = self._in_flight[0]
        self._cuts_at_once = CUTS_AT_ONCE
        correlation_id, offset = decode_response_header(flight.api_key, flight.version, frame)
        if correlation_id != flight.number & INT32_MAX:
            raise MalformedMessage(
                f"answer to request {correlation_id}, expected {flight.number & INT32_MAX}"
            )
        # What cannot be read is not answered: it stays in flight for `connection_lost`, or whom it is about would
        # wait for an answer for ever.
        if flight.api_key == FETCH:
            fetched = decode_response(flight.version, frame, offset)
            self._in_flight.popleft()
            self._fetches_in_flight -= 1
            self._fetched(fetched, flight, now_ms)
        elif flight.api_key == questions.OFFSET_FOR_LEADER_EPOCH:
            epoch_ends = questions.epoch_ends_answer(frame, offset)
            self._in_flight.popleft()
            self._epoch_ends(epoch_ends, flight, now_ms)
        else:
            log_ends = questions.log_offsets_answer(frame, offset)
            self._in_flight.popleft()
            self._log_ends(log_ends, flight, now_ms)

    def _new_session(self, *, close: int) -> None:
        """The next fetch is a full one; `close` is the session the leader may drop for it."""
        self._session += 1
        self._session_id = close
        self._session_epoch = INITIAL_EPOCH
        self._forgotten.clear()
        for followed in self.partitions.values():
            followed.in_session = False

    def _fetched(self, response: FetchResponse, flight: _InFlight, now_ms: int) -> None:
        if flight.session != self._session:
            return
        if response.error_code != ErrorCode.NONE:
            # FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, FETCH_SESSION_TOPIC_ID_ERROR, ...
            keep = self._session_id if response.error_code != ErrorCode.FETCH_SESSION_ID_NOT_FOUND else 0
            self._new_session(close=keep)
            if response.error_code not in SESSION_ERRORS:
                for topic_partition, followed in self.partitions.items():
                    if topic_partition not in self._waiting:
                        self._delay(followed, now_ms)
            return
        if flight.is_full:
            self._session_id = response.session_id
            if response.session_id == 0:
                # The leader keeps no session for us: every fetch is a full one.
                self._new_session(close=0)
                self._put_behind(response)
        self._batches_left, self._bytes_taken = MOST_BATCHES, 0
        for topic, partitions in response.responses:
            for data in partitions:
                wanted = self._answered(topic, data[0])
                if wanted is not None and wanted.named_in <= flight.number:
                    wanted.answered_in = flight.number
                    try:
                        self._partition_fetched(wanted, data, flight.number, now_ms)
                    except ProtocolError as fault:
                        self._failed(wanted, fault, now_ms)
        taken = MOST_BATCHES - self._batches_left
        if taken:
            self._max_bytes = min(self._bytes_taken * MOST_BATCHES // taken, INT32_MAX)
        for followed in flight.asked:
            # Named and not in the answer: nothing new, no error, and no divergence. Our log is a prefix.
            if (
                followed.leader_high_watermark_seen > followed.partition.high_watermark
                and followed.answered_in != flight.number
                and followed.named_at == flight.number
                and self._still_asked(followed)
                and followed.partition.topic_partition not in self._waiting
            ):
                if self._fetches_in_flight and not followed.is_prefix:
                    # Because of the one behind, the leader may have answered before it looked at all: ask once more.
                    self._changed[followed.partition.topic_partition] = followed
                    continue
                followed.is_prefix = True
                self._take_leader_high_watermark(followed, now_ms)

    def _answered(self, topic: TopicKey, index: int) -> FollowedPartition | None:
        if isinstance(topic, bytes):
            return self._by_id.get((topic, index))
        return self.partitions.get(TopicPartition(topic, index))

    def _put_behind(self, response: FetchResponse) -> None:
        """Those that got records are asked for last the next time: where the first have more than an answer holds, the others
        would get none. In a session the leader sees to that."""
        for topic, partitions in response.responses:
            for data in partitions:
                followed = self._answered(topic, data[0]) if data[7] else None
                if followed is not None:
                    topic_partition = followed.partition.topic_partition
                    self.partitions[topic_partition] = self.partitions.pop(topic_partition)

    def _take_leader_high_watermark(self, followed: FollowedPartition, now_ms: int) -> None:
        partition = followed.partition
        if followed.is_prefix:
            partition.append_as_follower(
                None,
                leader_high_watermark=followed.leader_high_watermark_seen,
                leader_log_start=partition.log.log_start_offset,
                now_ms=now_ms,
            )

    def _partition_fetched(
        self, followed: FollowedPartition, data: FetchedPartition, number: int, now_ms: int
    ) -> None:
        partition = followed.partition
        log = partition.log
        topic_partition = partition.topic_partition
        if partition.leader_epoch != followed.leader_epoch:
            return  # the answer is about another epoch
        _, error, leader_high_watermark, _, leader_log_start, _, _, records, diverging, _, _ = data
        if error == 0 and leader_high_watermark > followed.leader_high_watermark_seen:
            followed.leader_high_watermark_seen = leader_high_watermark
        if (
            # The fetch was sent before one that named another end: its records are those we have by now.
            number < followed.named_at
            or followed.asked_end != log.log_end_offset
            or topic_partition in self._waiting
        ):
            self._take_leader_high_watermark(followed, now_ms)
            return
        if error == 0:
            followed.backoff_ms = FIRST_BACKOFF_MS
            if diverging is not None:
                steps = followed.truncate(self.leader, *diverging, now_ms, self._tell)
                self._cut(followed, steps, self._cut_to_divergence, now_ms)
                return
            followed.is_prefix = True
            received = len(records) if records else 0
            if records:
                self._batches_left = max(self._batches_left - BATCHES_A_ROW, 0)
                size, count = first_batches(records, self._batches_left)
                self._batches_left -= count
                self._bytes_taken += size
                records = records[:size]
            partition.append_as_follower(
                records,
                leader_high_watermark=followed.leader_high_watermark_seen,
                leader_log_start=leader_log_start,
                now_ms=now_ms,
            )
            if received and topic_partition in self._throttle.covered:
                self._throttle.record(received, now_ms)
            is_rest_left = (
                records is not None and len(records) < received
            )  # of which the leader believes that we have it
            if (
                log.log_end_offset != followed.asked_end
                or log.log_start_offset != followed.asked_start
                or is_rest_left
            ):
                self._changed[topic_partition] = followed
                # The leader waits for this acknowledgement, not for the fetch behind.
                self._is_urgent = True
        elif error == ErrorCode.OFFSET_OUT_OF_RANGE:
            followed.state = LOCATING_END
            self._suspend(topic_partition, followed)
        else:
            # Whoever is behind, the leader (UNKNOWN_LEADER_EPOCH, NOT_LEADER_OR_FOLLOWER, an unknown topic)
            # or we (FENCED_LEADER_EPOCH), will hear from the controller.
            self._delay(followed, now_ms)

    def _failed(self, followed: FollowedPartition, fault: ProtocolError, now_ms: int) -> None:
        """Our own log did not take what the leader answered. The others of this leader go on."""
        self._tell("error", f"{followed.partition.topic_partition}: what was fetched cannot be kept: {fault}")
        followed.backoff_ms = self.limits.backoff_ms
        self._delay(followed, now_ms)

    def _still_asked(self, followed: FollowedPartition) -> bool:
        partition = followed.partition
        return (
            self.partitions.get(partition.topic_partition) is followed
            and partition.leader_epoch == followed.leader_epoch
            and partition.log.log_end_offset == followed.asked_end
        )

    def _epoch_ends(self, ends: Mapping[TopicPartition, EpochEnd], flight: _InFlight, now_ms: int) -> None:
        for followed in flight.asked:
            if not self._still_asked(followed):
                continue
            answer = ends.get(followed.partition.topic_partition)
            if answer is None or answer.error:
                self._delay(followed, now_ms)
                continue
            steps = followed.truncate(self.leader, answer.leader_epoch, answer.end_offset, now_ms, self._tell)
            self._cut(followed, steps, self._cut_to_epoch_end, now_ms)

    def _log_ends(
        self, ends: Mapping[TopicPartition, tuple[int, int]], flight: _InFlight, now_ms: int
    ) -> None:
        for followed in flight.asked:
            if not self._still_asked(followed):
                continue
            error, offset = ends.get(followed.partition.topic_partition, (ErrorCode.UNKNOWN_SERVER_ERROR, -1))
            if error:
                self._delay(followed, now_ms)
                continue
            steps = followed.log_end_found(offset, now_ms, self._tell)
            self._cut(followed, steps, partial(self._log_end_found, offset), now_ms)

    def _log_end_found(
        self, leader_offset: int, followed: FollowedPartition, is_settled: bool, now_ms: int
    ) -> None:
        if is_settled:
            followed.ask_again(now_ms)
        else:
            self._refused_inside(followed, leader_offset, now_ms)

    def _refused_inside(self, followed: FollowedPartition, leader_start: int, now_ms: int) -> None:
        """Our end is out of range, and lies in the leader's log: at once it would answer the same, for ever."""
        partition = followed.partition
        if followed.backoff_ms == FIRST_BACKOFF_MS:
            self._tell(
                "warning",
                f"{partition.topic_partition}: leader {self.leader}, whose log begins at {leader_start}, lets nobody read "
                f"from {partition.log.log_end_offset} on whose log ends in epoch {partition.log.latest_epoch}: asked again; "
                "it knows no such epoch if the store was put back to an older state",
            )
        self._delay(followed, now_ms)

    # ---------------------------------------------------------------------------------------------- cutting

    def _cut(
        self,
        followed: FollowedPartition,
        steps: Steps[T],
        ended: Callable[[FollowedPartition, T, int], None],
        now_ms: int,
    ) -> None:
        """Changes the log of `followed` and does with it what `ended` says: now, or later if that takes long."""
        partition = followed.partition
        topic_partition = partition.topic_partition

        def is_wanted() -> bool:
            return (
                self.partitions.get(topic_partition) is followed
                and partition.leader_epoch == followed.leader_epoch
                and not partition.is_leader
            )

        log = partition.log
        cut = Cut(
            topic_partition,
            steps,
            is_wanted=is_wanted,
            has_moved=lambda: partition.log is not log,
            ended=lambda value, now_ms: ended(followed, value, now_ms),
            failed=lambda fault, now_ms: self._failed(followed, fault, now_ms),
            moved=followed.ask_again,
        )
        followed.is_prefix = False
        if self._cuts_at_once:
            self._cuts_at_once -= 1
            cut.go_on(now_ms)
            if cut.is_over:
                return
        followed.delayed_until_ms = LATER
        self._suspend(topic_partition, followed)
        self._outbox.cuts.append(cut)

    def _cut_to_divergence(self, followed: FollowedPartition, value: None, now_ms: int) -> None:
        topic_partition = followed.partition.topic_partition
        if topic_partition in self._waiting:
            followed.ask_again(now_ms)
            return
        self._changed[topic_partition] = followed
        self._is_urgent = True

    def _cut_to_epoch_end(self, followed: FollowedPartition, value: None, now_ms: int) -> None:
        followed.state = FETCHING
        followed.ask_again(now_ms)
        followed.backoff_ms = FIRST_BACKOFF_MS

    def _tell(self, level: str, text: str) -> None:
        self._outbox.messages.append((level, text))
