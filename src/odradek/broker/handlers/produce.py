"""Produce (key 0), versions 3-12; 0-2 are read well enough to be refused.

Appends batches as they are and answers when `acks` says: 0 never (a failure closes the connection), 1 when the leader
has them, -1 when the high watermark is past them. Answers of one partition go out in the order of its offsets.
min.insync.replicas is looked at twice: before the append NOT_ENOUGH_REPLICAS, after it
NOT_ENOUGH_REPLICAS_AFTER_APPEND, when the records stay in the log and may be read later. ApiVersions lists 0-2
because some librdkafka releases compress only then.

v0 magic 0: UNSUPPORTED_VERSION for each partition, as in 1 and 2.
v1 throttle time.
v2 magic 1.
v3 magic 2, transactional id (KIP-98).
v4 KAFKA_STORAGE_ERROR (KIP-112).
v5 log start offset.
v6 the response leaves before the client is throttled (KIP-219).
v7 batches may be zstd (KIP-110); before, UNSUPPORTED_COMPRESSION_TYPE.
v8 names the records that were refused (KIP-467).
v9 flexible.
v10 names the leader where this broker is not it (KIP-951).
v11 TRANSACTION_ABORTABLE (KIP-890).
v12 partitions are added to the transaction by the broker (KIP-890).
"""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from odradek.broker.answers import NO_REPLY, Answer, CloseConnection, NoReply, Park, Reply
from odradek.broker.aside import answer_aside
from odradek.broker.produce_request import ProduceAsked
from odradek.broker.row_limits import LEAST_ROWS
from odradek.broker.topic_creation import INTERNAL_TOPICS
from odradek.broker.unchecked_produces import (
    MOST_AT_ONCE,
    MOST_OPENED_AT_ONCE,
    Check,
    Result,
    Unchecked,
    is_laborious,
)
from odradek.log.validation import checked
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError
from odradek.protocol.api_keys import FIRST_PRODUCE_VERSION
from odradek.protocol.flat.produce_request import ProduceRequest as Asked
from odradek.protocol.flat.produce_request import TopicProduceData
from odradek.protocol.flat.produce_request import decode as decode_request
from odradek.protocol.flat.produce_response import NodeEndpoint
from odradek.protocol.flat.produce_response import PartitionProduceResponse as PartitionAnswer
from odradek.protocol.flat.produce_response import encode as encode_response
from odradek.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from odradek.records.batch import ATTRIBUTES_OFFSET, BATCH_OVERHEAD, CODEC_MASK, MAGIC, MAGIC_OFFSET
from odradek.records.compression import ZSTD
from odradek.records.errors import TakesLong
from odradek.replication.partition import Partition
from odradek.replication.waiting import AckQueue, AckWaiter

if TYPE_CHECKING:
    from odradek.broker.core import Broker
    from odradek.broker.request import Request
    from odradek.broker.verifications import Admission

ALL = -1
FIRST_WITH_ZSTD = 7
FIRST_WITH_MESSAGES = 8
FIRST_WITH_LEADERS = 10
NOT_LEADER = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
EMPTY = memoryview(b"")
# For what a leader does before anybody else is asked, where a client gave it no time.
PATIENCE_MS = 30_000
MAY_WRITE_INTERNAL_TOPICS = "__admin_client"
# Of what Apache does not count as failed, for it says nothing against the broker.
_FORESEEN = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
# Partitions that are not here, of which one request is told at once; rows about more are made in slices, and encoded by a thread.
MOST_REFUSED_AT_ONCE = 1_000
OF_A_STEP = 200
# An answer with more rows is encoded by a thread.
MOST_ENCODED_AT_ONCE = 10_000
_NOT_YET: PartitionAnswer = (0, int(ErrorCode.REQUEST_TIMED_OUT), -1, -1, -1, (), None, None)

TopicAnswers = list[tuple[str, list[PartitionAnswer]]]
# Topic, index, and where its row stands.
Absent = tuple[str, int, list[PartitionAnswer], int]


def handle(broker: "Broker", request: "Request", now_ms: int) -> Answer:
    version = request.api_version
    if version < FIRST_PRODUCE_VERSION:
        return _refuse_old(request)
    asked = decode_request(version, request.body, budget=request.budget)
    transactional_id, acks, _, topics = asked
    if not -1 <= acks <= 1:
        return Reply([_all(version, topics, ErrorCode.INVALID_REQUIRED_ACKS)])
    if transactional_id is not None:
        from odradek.broker import transactional_produce  # only who has transactions pays for it

        return transactional_produce.handle(
            broker,
            request,
            ProduceAsked(*asked),
            append_all,
            now_ms,
        )
    return append_all(broker, request, asked, None, now_ms)


def append_all(
    broker: "Broker", request: "Request", produce: Asked, admission: "Admission | None", now_ms: int
) -> Answer:
    """`admission`: of a request with a transactional id."""
    version = request.api_version
    _, acks, timeout_ms, topics = produce
    hosted = broker.replicas.partitions
    unchecked = broker.unchecked.partitions
    answers: TopicAnswers = []
    wait: ProduceWait | None = None
    done = opened = refused = 0
    # More rows of partitions that are here have no reason: some are named again and again, and each waits for the thread.
    most = max(LEAST_ROWS, len(hosted))
    absent: list[Absent] = []
    for topic, partitions in topics:
        if done > most:
            answers += _rows([(topic, partitions)], ErrorCode.INVALID_REQUEST)
            continue
        if topic in INTERNAL_TOPICS and request.client_id != MAY_WRITE_INTERNAL_TOPICS:
            # A coordinator believes what stands there.
            answers += _rows([(topic, partitions)], ErrorCode.INVALID_TOPIC_EXCEPTION)
            continue
        rows: list[PartitionAnswer] = []
        answers.append((topic, rows))
        for index, records in partitions:
            try:
                partition = hosted.get((topic, index))  # type: ignore[call-overload]
                if partition is None:
                    refused += 1
                    if refused > MOST_REFUSED_AT_ONCE:
                        absent.append((topic, index, rows, len(rows)))
                        rows.append(_NOT_YET)
                        continue
                    raise broker.replicas.why_not_hosted(topic, index)
                if records is None:
                    records = EMPTY
                if version < FIRST_WITH_ZSTD and _is_in_zstd(records):
                    raise ProtocolError(
                        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
                        f"Produce requests with version {version} are not allowed to use ZStandard compression",
                    )
                config = partition.log.config
                done += 1
                if done > most:
                    ((_, others),) = _rows([(topic, partitions[len(rows) :])], ErrorCode.INVALID_REQUEST)
                    rows += others
                    break
                if admission is not None:
                    admission.check(partition, records)
                try:
                    if config.opens_batches or unchecked or done > MOST_AT_ONCE:
                        opened += config.opens_batches
                        if (
                            done > MOST_AT_ONCE
                            or opened > MOST_OPENED_AT_ONCE
                            or partition.topic_partition in unchecked
                            or (config.opens_batches and is_laborious(records, config))
                        ):
                            raise TakesLong("others come first")
                    if admission is None:
                        result = partition.append(records, acks=acks, now_ms=now_ms)
                    else:
                        found = checked(records, config, now_ms=now_ms, is_transactional=True, at_once=True)
                        result = partition.append(
                            found.records, acks=acks, now_ms=now_ms, headers=found.headers
                        )
                        admission.appended(partition, found.headers[0])
                except TakesLong:
                    wait = wait or ProduceWait(broker, request, answers, acks, admission)
                    wait.append_later(partition, records, rows)
                    continue
            except ProtocolError as refusal:
                _count_refusal(partition, refusal)
                rows.append(_refused(broker, version, topic, index, refusal))
                continue
            rows.append(
                (
                    index,
                    0,
                    result.base_offset,
                    result.log_append_time_ms,
                    result.log_start_offset,
                    (),
                    None,
                    None,
                )
            )
            required = result.last_offset + 1
            if acks == ALL:
                if partition.high_watermark < required:
                    wait = wait or ProduceWait(broker, request, answers, acks, admission)
                    wait.expect(partition.commit_waiters, partition, required, rows)
            elif acks and partition.flushes_before_ack and partition.log.recovery_point < required:
                wait = wait or ProduceWait(broker, request, answers, acks, admission)
                wait.expect(partition.flush_waiters, partition, required, rows)
    if absent:
        wait = wait or ProduceWait(broker, request, answers, acks, admission)
        wait.refuse_in_slices(absent)
    if wait is not None and wait.open:
        wait.begin_appending(now_ms)
        # The timeout is of the acknowledgements: a leader's own work has its own.
        patience_ms = timeout_ms if acks == ALL else max(timeout_ms, PATIENCE_MS)
        broker.purgatory.park(wait, deadline_ms=now_ms + max(patience_ms, 0))
        return wait.park
    if absent:
        assert wait is not None
        wait.is_settled = True
        return wait.park
    if acks == 0:
        return _unacknowledged(answers)
    return Reply([_encoded(broker, version, request.connection.listener, answers)])


class ProduceWait(AckWaiter):
    """A Produce whose answer is ready but for what the high watermark decides; or whose records are still checked."""

    __slots__ = (
        "absent",
        "acks",
        "admission",
        "answers",
        "broker",
        "failure",
        "is_settled",
        "listener",
        "open",
        "park",
        "places",
        "unchecked",
        "version",
    )

    def __init__(
        self,
        broker: "Broker",
        request: "Request",
        answers: TopicAnswers,
        acks: int,
        admission: "Admission | None",
    ) -> None:
        super().__init__()
        self.admission = admission
        self.acks = acks
        self.is_settled = False  # but for rows of partitions that are not here
        self.absent: list[Absent] = []
        self.failure: CloseConnection | None = None  # a mistake of ours in a row of these
        self.unchecked = 0
        self.broker = broker
        self.version = request.api_version
        self.listener = request.connection.listener
        self.answers = answers
        self.park = Park()
        self.open = 0
        # Slot -> where the partition's row stands; a slot is settled when its place is None.
        self.places: list[tuple[Partition, list[PartitionAnswer], int] | None] = []

    def expect(
        self, queue: AckQueue, partition: Partition, required_offset: int, rows: list[PartitionAnswer]
    ) -> None:
        """`queue`: of the partition's two, for what is committed or what is flushed."""
        queue.add(required_offset, self, len(self.places))
        self.places.append((partition, rows, len(rows) - 1))
        self.open += 1

    def append_later(self, partition: Partition, records: memoryview, rows: list[PartitionAnswer]) -> None:
        """Its records are copied, for the buffers of a request die with the call."""
        unchecked = self.broker.unchecked
        unchecked.check_room(len(records))
        rows.append(_NOT_YET)
        slot = len(self.places)
        self.places.append((partition, rows, len(rows) - 1))
        self.open += 1
        own = memoryview(bytearray(records))
        is_transactional = self.admission is not None
        unchecked.add(
            Unchecked(partition.topic_partition, own, partition.log.config, self, slot, is_transactional)
        )
        self.unchecked += 1

    def begin_appending(self, now_ms: int) -> None:
        if self.unchecked:
            _check_next(self.broker, now_ms)

    def append(self, slot: int, found: "Result | None", now_ms: int) -> None:
        """The records of this slot were checked; `found` None: nobody foresaw what went wrong."""
        place = self.places[slot]
        if place is None:
            return  # its time was over, and its client has been told so
        partition, rows, at = place
        topic, index = partition.topic_partition
        broker = self.broker
        try:
            if found is None:
                raise ProtocolError(ErrorCode.UNKNOWN_SERVER_ERROR, "the records could not be checked")
            if isinstance(found, ProtocolError):
                raise found
            now = broker.replicas.hosted(topic, index)
            if self.admission is not None:
                self.admission.check(now, found.records)
            result = now.append(found.records, acks=self.acks, now_ms=now_ms, headers=found.headers)
            if self.admission is not None:
                self.admission.appended(now, found.headers[0])
        except ProtocolError as refusal:
            _count_refusal(partition, refusal)
            rows[at] = _refused(broker, self.version, topic, index, refusal)
            self.complete(slot, ErrorCode.NONE)
            return
        self.places[slot] = (now, rows, at)
        offsets = (result.base_offset, result.log_append_time_ms, result.log_start_offset)
        rows[at] = (index, 0, *offsets, (), None, None)
        required = result.last_offset + 1
        if self.acks == ALL and now.high_watermark < required:
            now.commit_waiters.add(required, self, slot)
        elif self.acks == 1 and now.flushes_before_ack and now.log.recovery_point < required:
            now.flush_waiters.add(required, self, slot)
        else:
            self.complete(slot, ErrorCode.NONE)

    def complete(self, slot: int, error: ErrorCode) -> None:
        place = self.places[slot]
        assert place is not None, "a partition settled its part twice"
        self.places[slot] = None
        self.open -= 1
        if error:
            self._put(place, error)
        if not self.open:
            self.broker.purgatory.wake(self)

    def _put(self, place: tuple[Partition, list[PartitionAnswer], int], error: ErrorCode) -> None:
        partition, rows, position = place
        topic, index = partition.topic_partition
        rows[position] = _refused(self.broker, self.version, topic, index, ProtocolError(error))

    def is_over(self, now_ms: int) -> bool:
        return not self.open

    def finish(self, now_ms: int, *, is_late: bool) -> None:
        """Where late, the records stay where they are; whether they will be committed is not known."""
        late = [place for place in self.places if place is not None] if is_late else ()
        self.places = [None] * len(self.places)
        self.open = 0
        for place in late:
            self._put(place, ErrorCode.REQUEST_TIMED_OUT)
            place[0].forget_expired_waiters()
        self.is_settled = True
        if not self.absent:
            self.park.answer(self._answer)

    def refuse_in_slices(self, absent: "list[Absent]") -> None:
        """Whatever becomes of the others, the answer has a row for each of these."""
        self.absent = absent[::-1]
        self.broker.slices.begin(self._refuse_some)

    def _refuse_some(self, now_ms: int) -> bool:
        if self.park.abandoned:
            self.absent = []
            return False
        broker = self.broker
        try:
            for _ in range(min(OF_A_STEP, len(self.absent))):
                topic, index, rows, at = self.absent.pop()
                refusal = broker.replicas.why_not_hosted(topic, index)
                rows[at] = _refused(broker, self.version, topic, index, refusal)
        except (
            Exception
        ) as mistake:  # ours: once the others are settled, whoever waits hears that there is no answer
            self.absent, self.failure = [], CloseConnection.because(mistake)
        if self.absent:
            return True
        if self.is_settled:
            self.park.answer(self._long_answer)
        return False

    def _long_answer(self) -> Answer:
        if self.failure is not None:
            return self.failure
        if self.acks == 0:
            return _unacknowledged(self.answers)
        make = partial(encode_response, self.version, self.answers)
        if self.version >= FIRST_WITH_LEADERS:
            make = partial(make, node_endpoints=_endpoints(self.broker, self.listener, self.answers))
        return answer_aside(self.broker.aside, Park(), make, self.broker.now_ms)

    def _answer(self) -> Answer:
        if self.failure is not None or sum(len(rows) for _, rows in self.answers) > MOST_ENCODED_AT_ONCE:
            return self._long_answer()
        if self.acks == 0:
            return _unacknowledged(self.answers)
        return Reply([_encoded(self.broker, self.version, self.listener, self.answers)])


def _check_next(broker: "Broker", now_ms: int) -> None:
    check: Check | None = None

    def begin() -> Check | None:
        nonlocal check
        check = broker.unchecked.next_check(now_ms)
        return check

    def ended(results: "list[Result] | None", later_ms: int) -> None:
        if check is None:
            return  # taken along by the piece before it
        broker.unchecked.ended(check)
        for at, batch in enumerate(check.batches):
            batch.wait.append(batch.slot, results[at] if results else None, later_ms)
        _check_next(broker, later_ms)

    broker.aside.ask(broker.aside.produces, begin, ended, now_ms)


def _is_in_zstd(records: memoryview) -> bool:
    is_batch = len(records) >= BATCH_OVERHEAD and records[MAGIC_OFFSET] == MAGIC
    return is_batch and records[ATTRIBUTES_OFFSET + 1] & CODEC_MASK == ZSTD


def _refused(
    broker: "Broker", version: int, topic: str, index: int, refusal: ProtocolError
) -> PartitionAnswer:
    leader = None
    if refusal.code == NOT_LEADER:
        broker.metadata.refusals += 1
        if version >= FIRST_WITH_LEADERS:
            leader = broker.replicas.current_leader(topic, index)
    record_index = getattr(refusal, "record_index", None)
    record_errors = () if record_index is None else ((record_index, refusal.message),)
    # Null has a client use its own words for the code; Java's shows an empty message as it is.
    message = refusal.message or None
    return index, int(refusal.code), -1, -1, -1, record_errors, message, leader


def _count_refusal(partition: Partition | None, refusal: ProtocolError) -> None:
    """Nothing is counted of what is not hosted here: of whose topic is it?"""
    if partition is not None:
        partition.traffic.produce_requests += 1
        partition.traffic.failed_produce_requests += refusal.code not in _FORESEEN


def _unacknowledged(answers: TopicAnswers) -> NoReply | CloseConnection:
    """acks=0: the only way to say that something failed is to close, so that the client asks for Metadata."""
    for topic, rows in answers:
        for row in rows:
            if row[1]:
                return CloseConnection(
                    f"produce with acks=0 to {topic}-{row[0]} failed: {ErrorCode(row[1]).name}"
                )
    return NO_REPLY


def _rows(topics: Sequence[TopicProduceData], error: ErrorCode) -> TopicAnswers:
    code = int(error)
    return [
        (topic, [(index, code, -1, -1, -1, (), None, None) for index, _ in partitions])
        for topic, partitions in topics
    ]


def _all(version: int, topics: Sequence[TopicProduceData], error: ErrorCode) -> bytes:
    return encode_response(version, _rows(topics, error))


def _encoded(broker: "Broker", version: int, listener: str, answers: TopicAnswers) -> bytes:
    if version < FIRST_WITH_LEADERS:
        return encode_response(version, answers)
    return encode_response(version, answers, node_endpoints=_endpoints(broker, listener, answers))


def _endpoints(broker: "Broker", listener: str, answers: TopicAnswers) -> "Sequence[NodeEndpoint]":
    """KIP-951: where the leaders named in the rows are found, on the writer's listener."""
    leaders = {row[7][0] for _, rows in answers for row in rows if row[7] is not None}
    return broker.node_endpoints(leaders, listener) if leaders else ()


def _refuse_old(request: "Request") -> Answer:
    """Magic 0 and 1 travel in these. Their answer has no top-level error: every partition gets it."""
    version = request.api_version
    message = ProduceRequest.decode(version, request.body, budget=request.budget)
    if message.acks == 0:
        return CloseConnection(f"produce version {version} with acks=0: batches of magic 2 need version 3")
    return Reply(
        [
            ProduceResponse(
                responses=[
                    TopicProduceResponse(
                        name=topic.name,
                        partition_responses=[
                            PartitionProduceResponse(
                                index=partition.index,
                                error_code=ErrorCode.UNSUPPORTED_VERSION,
                                base_offset=-1,
                            )
                            for partition in topic.partition_data
                        ],
                    )
                    for topic in message.topic_data
                ]
            ).encode(version)
        ]
    )
