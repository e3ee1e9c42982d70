"""ListOffsets (key 2), versions 1-9.

The offset of a timestamp: the first record at or after it, and the time it has; -1 the end (LATEST), -2 the start
(EARLIEST), others as below.

For a consumer the end is the high watermark, with read_committed the last stable offset. While a new leader's high
watermark is below the start of its epoch, the end and timestamps behind it are not known yet: OFFSET_NOT_AVAILABLE,
before v5 LEADER_NOT_AVAILABLE; the start always is. A replica (id >= 0) gets the log end: it truncates to it. Replica
id -2 asks anybody, leader or not.

v1 one offset and its timestamp (KIP-79).
v2 isolation level, throttle time.
v3 the response leaves before the client is throttled (KIP-219).
v4 leader epoch of the reader and of the offset (KIP-320).
v5 OFFSET_NOT_AVAILABLE; LEADER_NOT_AVAILABLE before (KIP-207).
v6 flexible.
v7 -3: the record with the largest timestamp (KIP-734).
v8 -4: the local start (KIP-405).
v9 -5: the end of the tiered log, of which there is none (KIP-1005).
"""

from collections import Counter, deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from odradek.broker.answers import Answer, Park, Reply
from odradek.broker.slices import answer_in_slices
from odradek.log.lookups import Allowance, Candidate, FoundOffset, NewestSearch, TimestampSearch
from odradek.log.segment import IndexPending
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError
from odradek.protocol.flat.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest
from odradek.protocol.flat.list_offsets_request import decode as decode_request
from odradek.protocol.flat.list_offsets_response import ListOffsetsPartitionResponse
from odradek.protocol.flat.list_offsets_response import encode as encode_response
from odradek.records.errors import TakesLong
from odradek.replication.partition import Partition
from odradek.replication.purgatory import Waiter
from odradek.replication.replica import READ_COMMITTED

if TYPE_CHECKING:
    from odradek.broker.core import Broker
    from odradek.broker.request import Request
    from odradek.log.partition_log import PartitionLog

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
FIRST_VERSION = {LATEST: 1, EARLIEST: 1, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9}
NEVER = 1 << 15
# What a request looks at while it is read, and in each slice behind that, in headers of batches: some ten and one milliseconds;
# and how long its search may take.
AT_ONCE, OF_A_SLICE = 6_000, 600
PATIENCE_MS = 30_000
# Of one turn: some three milliseconds.
ROWS_AT_ONCE = 500
CONSUMER = -1
NONE = 0
DEBUGGING = -2
FIRST_WITH_OFFSET_NOT_AVAILABLE = 5


def handle(broker: "Broker", request: "Request", now_ms: int) -> Answer:
    version = request.api_version
    asked = decode_request(version, request.body, budget=request.budget)
    answers = OffsetAnswers(broker, version, asked)
    return answer_in_slices(broker.slices, _rows(answers), lambda: answers.answer(now_ms))


def _rows(answers: "OffsetAnswers") -> Iterator[None]:
    """A step each ROWS_AT_ONCE."""
    topics = answers.asked.topics
    counts = Counter((topic, partition[0]) for topic, partitions in topics for partition in partitions)
    left = ROWS_AT_ONCE
    for topic, partitions in topics:
        rows: list[ListOffsetsPartitionResponse] = []
        answers.topics.append((topic, rows))
        for partition in partitions:
            if not left:
                yield
                left = ROWS_AT_ONCE
            left -= 1
            index = partition[0]
            if counts[topic, index] == 1:
                answers.add(rows, topic, partition)
            else:
                rows.append(_error(index, ErrorCode.INVALID_REQUEST))


class _NotNow(Exception):
    """To go on with this search at once would hold up everybody else. None: it is not even known for which timestamp, or an
    index is built again."""

    def __init__(self, search: TimestampSearch | None) -> None:
        self.search = search


class _Later(NamedTuple):
    """A row whose timestamp is still being searched for; or, without a search, the largest one of its log, or the row is tried again."""

    search: TimestampSearch | None
    topic: str
    wanted: ListOffsetsPartition
    rows: list[ListOffsetsPartitionResponse]
    at: int


class OffsetAnswers(Waiter):
    """The answers to one request. Where a search has to look at many segments or batches, it does so in slices, and a thread
    opens the batches that it finds, one after the other; what may be told of it is decided when that is over.
    """

    __slots__ = (
        "_allowance",
        "_broker",
        "_candidate",
        "_later",
        "asked",
        "park",
        "pending",
        "topics",
        "version",
    )

    def __init__(self, broker: "Broker", version: int, asked: ListOffsetsRequest) -> None:
        super().__init__()
        self._broker = broker
        self.version = version
        self.asked = asked
        self.topics: list[tuple[str, list[ListOffsetsPartitionResponse]]] = []
        self.park = Park()
        self._allowance = Allowance(AT_ONCE)
        self._later: deque[_Later] = deque()
        self._candidate: Candidate | None = None  # which the thread has
        self.pending: IndexPending | None = None  # an index to be waited for

    def add(self, rows: list[ListOffsetsPartitionResponse], topic: str, wanted: ListOffsetsPartition) -> None:
        try:
            rows.append(_partition(self._broker, self, topic, wanted))
        except _NotNow as unfinished:
            self._later.append(_Later(unfinished.search, topic, wanted, rows, len(rows)))
            rows.append(_error(wanted[0], ErrorCode.REQUEST_TIMED_OUT))

    def answer(self, now_ms: int) -> Answer:
        if not self._later:
            return Reply([encode_response(self.version, topics=self.topics)])
        self._broker.purgatory.park(self, deadline_ms=now_ms + PATIENCE_MS)
        self._go_on()
        return self.park

    def find(self, log: "PartitionLog", timestamp: int) -> FoundOffset | None:
        """The first record at or behind the log's start with the timestamp or a later one; _NotNow if that takes long."""
        search = self._waited_for(log)
        return search.found if search is not None else self._search(TimestampSearch(log, timestamp))

    def newest(self, log: "PartitionLog") -> FoundOffset | None:
        """The first record with the largest timestamp of those that are left; _NotNow if that takes long."""
        search = self._waited_for(log)
        if search is None:
            if not log.knows_max_timestamp(self._allowance):
                raise _NotNow(None)
            largest = log.max_timestamp()
            if largest.timestamp < 0:
                return None
            search = NewestSearch(log, largest)
            self._search(search)
        assert isinstance(search, NewestSearch)
        if search.found is None and search.largest.timestamp >= 0:
            # The batch that says so has no such record.
            timestamp, offset = search.largest
            return FoundOffset(timestamp, offset, log.epoch_in_header(offset))
        return search.found

    def _waited_for(self, log: "PartitionLog") -> TimestampSearch | None:
        """The search of the first row, once it is over."""
        search = self._later[0].search if self._later else None
        if search is None or not search.is_over:
            return None
        if search.log is not log:
            raise ProtocolError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return search

    def _search(self, search: TimestampSearch) -> FoundOffset | None:
        allowance = self._allowance
        while not allowance.is_used_up:
            candidate = search.next_candidate(allowance)
            if candidate is None:
                break
            if not candidate.is_quick:
                allowance.left = 0  # to read it was work enough
                break
            allowance.open(candidate.header)
            try:
                found = candidate.run(at_once=True)
            except TakesLong:
                allowance.left = 0
                break
            search.tell(candidate, found)
        if search.is_over:
            return search.found
        raise _NotNow(search)

    def _go_on(self) -> None:
        self._broker.slices.begin(self._slice)

    def _slice(self, now_ms: int) -> bool:
        """Looks on; whether there is more to be looked at before a batch is opened, or the answer is complete."""
        if self.is_done or self.park.abandoned:
            return False
        allowance = self._allowance = Allowance(OF_A_SLICE)
        while self._later and not allowance.is_used_up:
            if self.pending is not None:
                pending, self.pending = self.pending, None
                self._broker.index_rebuilds.wait(pending, self._go_on)
                return False
            search = self._later[0].search
            try:
                if search is not None and not search.is_near(allowance):
                    return True
            except IndexPending as pending:
                self.pending = pending
                continue
            except ProtocolError as error:
                self._end_first(error)
                continue
            if search is None or search.is_over:
                self._end_first()
                continue
            self._broker.aside.ask(self._broker.aside.lookups, self._begin, self._told, now_ms)
            return False
        if not self._later:
            self._broker.purgatory.complete(self, now_ms)
        return bool(self._later)

    def _begin(self) -> Candidate | None:
        """The batch that was found, of the log as it is when the thread is free."""
        if not self.is_done and not self.park.abandoned and self._later[0].search is not None:
            try:
                self._candidate = self._later[0].search.next_candidate(Allowance(OF_A_SLICE))
            except IndexPending as pending:
                self.pending = pending
            except ProtocolError as error:
                self._end_first(error)
        return self._candidate

    def _told(self, result: Any, now_ms: int) -> None:
        candidate, self._candidate = self._candidate, None
        if self.is_done:
            return
        if candidate is not None and self._later[0].search is not None:
            try:
                self._later[0].search.tell(candidate, result)
            except ProtocolError as error:
                self._end_first(error)
        self._go_on()

    def _end_first(self, error: ProtocolError | None = None) -> None:
        """The search of the first row is over, or what it is for can be said now."""
        row = self._later[0]
        self._allowance.left -= 1
        if error is None:
            try:
                row.rows[row.at] = _partition(self._broker, self, row.topic, row.wanted)
            except _NotNow as unfinished:
                self._later[0] = row._replace(search=unfinished.search)
                return
        else:
            row.rows[row.at] = _error(row.wanted[0], error.code)
        self._later.popleft()

    def finish(self, now_ms: int, *, is_late: bool) -> None:
        """What is not found by now is REQUEST_TIMED_OUT."""
        self.park.answer(lambda: Reply([encode_response(self.version, topics=self.topics)]))


def _partition(
    broker: "Broker", answers: OffsetAnswers, topic: str, wanted: ListOffsetsPartition
) -> ListOffsetsPartitionResponse:
    index, current_epoch, timestamp = wanted
    if timestamp < 0 and answers.version < FIRST_VERSION.get(timestamp, NEVER):
        return _error(index, ErrorCode.UNSUPPORTED_VERSION)
    try:
        partition = broker.replicas.hosted(topic, index)
        epoch_error = partition.check_epoch(current_epoch)
        if epoch_error:
            return _error(index, epoch_error)
        if not partition.is_leader and answers.asked.replica_id != DEBUGGING:
            return _error(index, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return _find(partition, answers, index, timestamp)
    except IndexPending as pending:
        answers.pending = pending
        raise _NotNow(None) from None
    except ProtocolError as refusal:
        return _error(index, refusal.code)


def _find(
    partition: Partition, answers: OffsetAnswers, index: int, timestamp: int
) -> ListOffsetsPartitionResponse:
    version, asked = answers.version, answers.asked
    log = partition.log
    is_consumer = asked.replica_id == CONSUMER
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return _found(index, log.log_start_offset, log.epochs.epoch_at(log.log_start_offset))
    if timestamp == LATEST_TIERED:
        return _found(index, -1, -1)
    end = log.log_end_offset
    if is_consumer:
        is_committed = asked.isolation_level == READ_COMMITTED
        end = partition.last_stable_offset if is_committed else partition.high_watermark
    # Below the start of our epoch the mark may still be that of an older leader, and move back to consumers.
    is_unsure = (
        is_consumer and partition.is_leader and partition.leader_epoch_start_offset > partition.high_watermark
    )
    unsure = (
        ErrorCode.OFFSET_NOT_AVAILABLE
        if version >= FIRST_WITH_OFFSET_NOT_AVAILABLE
        else ErrorCode.LEADER_NOT_AVAILABLE
    )
    if timestamp == LATEST:
        if is_unsure:
            return _error(index, unsure)
        return _found(index, end, partition.leader_epoch)
    found = answers.newest(log) if timestamp == MAX_TIMESTAMP else answers.find(log, timestamp)
    if found is None or found.offset >= end:
        # Nothing that may be read. Whether there will be is not known while the mark lags.
        if is_unsure:
            return _error(index, unsure)
        return _found(index, -1, -1)
    return _found(index, found.offset, found.leader_epoch, timestamp=found.timestamp)


def _found(index: int, offset: int, leader_epoch: int, timestamp: int = -1) -> ListOffsetsPartitionResponse:
    return index, NONE, timestamp, offset, leader_epoch


def _error(index: int, error: ErrorCode) -> ListOffsetsPartitionResponse:
    return index, error, -1, -1, -1
