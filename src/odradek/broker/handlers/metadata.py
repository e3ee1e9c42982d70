"""Metadata (key 3), versions 0-12.

Brokers, topics and leaders as this broker was told them, addresses for the listener the client came over. A topic
that does not exist is made when the request (v4) and `auto.create.topics.enable` both allow it, an internal one as its
own settings say, and answered LEADER_NOT_AVAILABLE until it has leaders. So is every topic asked for by name or id while
the controller has not told this broker which topics there are; who asks for all of them is then told of no broker. A name that no topic may have is INVALID_TOPIC_EXCEPTION.
Very many topics or partitions are told in turns (`large_answers`), each as it is then.

v0 an empty array asks for all topics.
v1 null asks for all, empty for none; rack, controller, internal topics.
v2 cluster id.
v3 throttle time.
v4 the client may forbid automatic creation.
v5 offline replicas (KIP-112).
v6 the response leaves before the client is throttled (KIP-219).
v7 leader epochs (KIP-320).
v8 operations that the client is allowed: all, as nobody is restricted here (KIP-430).
v9 flexible.
v10 topic ids; names may be null in the answer (KIP-516).
v11 without the allowed operations of the cluster (KIP-700).
v12 topics may be asked for by id, which decides where there is a name too.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from odradek.broker.answers import Answer, Reply
from odradek.broker.effects import CreateTopics, LogLine, NewTopic, StoreResult
from odradek.broker.internal_topics import PURPOSES, plan_internal_topic
from odradek.broker.large_answers import LargeAnswer
from odradek.broker.metadata_cache import PartitionMetadata
from odradek.broker.topic_creation import INTERNAL_TOPICS, Names, plan_topic
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError
from odradek.model.ids import NO_TOPIC_ID, TopicId
from odradek.model.topic_names import problem_with
from odradek.protocol.flat.metadata_response import MetadataResponsePartition as PartitionRow
from odradek.protocol.flat.metadata_response import MetadataResponseTopic as TopicRow
from odradek.protocol.flat.metadata_response import encode as encode_response
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

if TYPE_CHECKING:
    from odradek.broker.core import Broker
    from odradek.broker.request import Request

FIRST_BY_ID = 12
FIRST_FLEXIBLE = 9
NEVER = 32_767  # beyond every version
# Null topics, two or three flags, no tags: the request for all topics.
SIZE_OF_ALL_TOPICS = {9: 5, 10: 5, 11: 4, 12: 4}
FIRST_WITH_LISTENER_NOT_FOUND = 6
NOT_ASKED = -2147483648
REMEMBERED_TOPICS = 64  # answers to longer lists of names are not worth keeping
# Partitions, or topics, of an answer that is made in one turn, some 10 ms; and of each slice of one that has more.
MOST_AT_ONCE, OF_A_SLICE = 5_000, 500
# Made by one request, as planning one takes some 10 us of the loop; the client asks again, and more are made then.
MOST_CREATED = 1_000
# And by all of them, that the store has not answered for: a slow store would be asked for millions.
MOST_BEING_CREATED = 10_000
# Bits by number of the operation: READ 3 ... DESCRIBE 8, CLUSTER_ACTION 9, configs 10 and 11, IDEMPOTENT_WRITE 12.
TOPIC_OPERATIONS = sum(1 << operation for operation in (3, 4, 5, 6, 7, 8, 10, 11))
CLUSTER_OPERATIONS = sum(1 << operation for operation in (5, 7, 8, 9, 10, 11, 12))


def handle(broker: "Broker", request: "Request", now_ms: int) -> Answer:
    version = request.api_version
    asked = MetadataRequest.decode(version, _without_padding(version, request.body), budget=request.budget)
    listener = request.connection.listener
    flags = asked.include_topic_authorized_operations, asked.include_cluster_authorized_operations
    names = wanted = None
    if asked.topics or (asked.topics is not None and version):
        # Each once, as Apache does: two thousand rows may name the one topic that has two thousand partitions.
        once = {(topic.name, bytes(topic.topic_id)): topic for topic in asked.topics}
        names, wanted = tuple(once), list(once.values())
    key = "Metadata", version, listener, flags, names
    known = broker.recall(key)
    if known is not None:
        return Reply([known])
    if wanted is None:
        wanted = [MetadataRequestTopic(name=name) for name in sorted(broker.metadata.topics)]
    telling = _Telling(broker, request, asked, key, wanted, now_ms)
    if telling.is_large:
        telling.request = request.kept()
        may_create = names is not None and asked.allow_auto_topic_creation
        return broker.large_answers.ask((key, may_create, broker.metadata.epoch), telling)
    telling.at_once()
    answer = telling.gathered(now_ms)()
    telling.made(answer)
    return Reply([answer])


class _Telling(LargeAnswer):
    """One answer that nobody was given since the metadata changed last."""

    def __init__(
        self,
        broker: "Broker",
        request: "Request",
        asked: MetadataRequest,
        key: tuple[Any, ...],
        wanted: list[MetadataRequestTopic],
        now_ms: int,
    ) -> None:
        self.request = request
        self._broker = broker
        self._asked = asked
        self._key = key
        self._names = key[-1]
        self._wanted = wanted
        self._epoch = broker.metadata.epoch
        self._knows_topics = broker.metadata.knows_topics(now_ms)
        self._makes = asked.allow_auto_topic_creation and broker.settings.auto_create_topics_enable
        self._rows: list[TopicRow] = []
        self._is_whole = False  # every topic is known, so that the answer stands until something changes

    @property
    def is_large(self) -> bool:
        if len(self._wanted) > MOST_AT_ONCE:  # whether there are such topics or not
            return True
        metadata = self._broker.metadata
        known = metadata.topics
        names = [
            metadata.names.get(topic_id, "")
            if (topic_id := TopicId(bytes(topic.topic_id))) != NO_TOPIC_ID
            else topic.name or ""
            for topic in self._wanted
        ]
        return sum([len(known[name]) for name in names if name in known]) > MOST_AT_ONCE

    def row(self, topic: MetadataRequestTopic) -> TopicRow:
        request = self.request
        return _topic(
            self._broker,
            request.api_version,
            request.connection.listener,
            topic,
            self._asked,
            self._knows_topics,
        )

    def at_once(self) -> None:
        self._rows = [self.row(topic) for topic in self._wanted]

    def steps(self) -> Iterator[None]:
        topics = self._broker.metadata.topics
        left = OF_A_SLICE
        for topic in self._wanted:
            if left <= 0:
                yield
                left = OF_A_SLICE
            if self._names is not None or topic.name in topics:  # else deleted since all were asked for
                row = self.row(topic)
                self._rows.append(row)
                left -= 1 + len(row[4])

    def gathered(self, now_ms: int) -> Callable[[], bytes]:
        broker, asked, rows = self._broker, self._asked, self._rows
        missing = [name for error, name, *_ in rows if error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and name]
        self._is_whole = self._knows_topics and not missing
        tells_nothing = self._names is None and not rows and not self._knows_topics
        encode = _encoding(broker, self.request, asked, tells_nothing)
        if missing and self._makes:
            errors = _create(broker, self.request, missing, now_ms)
            return lambda: encode(topics=_with_errors(rows, errors))
        return lambda: encode(topics=rows)

    def made(self, answer: bytes) -> None:
        is_short = self._names is None or len(self._names) <= REMEMBERED_TOPICS
        if self._is_whole and is_short and self._epoch == self._broker.metadata.epoch:
            self._broker.remember(self._key, answer)


def _without_padding(version: int, body: memoryview) -> memoryview:
    """librdkafka writes "all topics" of a flexible version as a four-byte null where one byte belongs, and Apache,
    which ignores what follows a request, reads it as it was meant. So do we, here and only here.
    """
    if version >= FIRST_FLEXIBLE and len(body) == SIZE_OF_ALL_TOPICS[version] + 3 and not any(body[:4]):
        return body[3:]
    return body


def _with_errors(rows: list[TopicRow], errors: Mapping[str, ErrorCode]) -> list[TopicRow]:
    """What `_create` says of topics that there are not. Of those that it did not come to the client asks again."""
    return [
        (errors.get(row[1], ErrorCode.LEADER_NOT_AVAILABLE), *row[1:])
        if row[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and row[1]
        else row
        for row in rows
    ]


def _encoding(
    broker: "Broker", request: "Request", asked: MetadataRequest, tells_nothing: bool
) -> Callable[..., bytes]:
    """But for `topics`. `tells_nothing`: all topics were asked for, and which there are is not known yet. For that there is no error: who
    names no broker is starting, and is asked again."""
    controller = None if tells_nothing else broker.metadata.controller_id
    shown = {} if tells_nothing else broker.metadata.shown_brokers
    return partial(
        encode_response,
        request.api_version,
        brokers=broker.node_endpoints(shown, request.connection.listener),
        cluster_id=broker.cluster_id,
        controller_id=-1 if controller is None else controller,
        cluster_authorized_operations=CLUSTER_OPERATIONS
        if asked.include_cluster_authorized_operations
        else NOT_ASKED,
    )


def _topic(
    broker: "Broker",
    version: int,
    listener: str,
    wanted: MetadataRequestTopic,
    asked: MetadataRequest,
    knows_topics: bool,
) -> TopicRow:
    metadata = broker.metadata
    name = wanted.name
    topic_id = TopicId(bytes(wanted.topic_id))
    if topic_id != NO_TOPIC_ID or name is None:
        if version < FIRST_BY_ID:
            return ErrorCode.INVALID_REQUEST, name or "", topic_id, False, (), NOT_ASKED
        name = metadata.names.get(topic_id)
        if name is None:
            error = ErrorCode.UNKNOWN_TOPIC_ID if knows_topics else ErrorCode.LEADER_NOT_AVAILABLE
            return error, None, topic_id, False, (), NOT_ASKED
    operations = TOPIC_OPERATIONS if asked.include_topic_authorized_operations else NOT_ASKED
    partitions = metadata.topics.get(name)
    if partitions is None:
        # A broker that has just started was told nothing, or of brokers alone, and cannot know which topics there are. A client that hears that
        # its topic does not exist takes it at its word: librdkafka fails what is produced to it from then on.
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if knows_topics else ErrorCode.LEADER_NOT_AVAILABLE
        if problem_with(name) is not None:
            error = ErrorCode.INVALID_TOPIC_EXCEPTION
        return error, name, NO_TOPIC_ID, name in INTERNAL_TOPICS, (), operations
    rows = [
        partition_row(broker, version, listener, index, partition)
        for index, partition in sorted(partitions.items())
    ]
    return ErrorCode.NONE, name, metadata.topic_id(name), name in INTERNAL_TOPICS, rows, operations


def partition_row(
    broker: "Broker", version: int, listener: str, index: int, partition: PartitionMetadata
) -> PartitionRow:
    metadata = broker.metadata
    live = metadata.live_brokers
    error = ErrorCode.NONE
    leader: int = partition.leader
    if metadata.endpoint(leader, listener) is None:
        is_elsewhere = leader in live and version >= FIRST_WITH_LISTENER_NOT_FOUND
        error = ErrorCode.LISTENER_NOT_FOUND if is_elsewhere else ErrorCode.LEADER_NOT_AVAILABLE
        leader = -1
    replicas: Sequence[int]
    isr: Sequence[int]
    replicas, isr = partition.replicas, partition.isr
    if version == 0:
        # Clients of v0 know no offline replicas: only those they can reach are named.
        replicas = [replica for replica in replicas if replica in live]
        isr = [replica for replica in isr if replica in live]
        if not error and len(replicas) < len(partition.replicas):
            error = ErrorCode.REPLICA_NOT_AVAILABLE
    offline = [r for r in partition.replicas if r not in live or r in partition.offline_replicas]
    return error, index, leader, partition.leader_epoch, replicas, isr, offline


def _create(
    broker: "Broker", request: "Request", missing: Iterable[str], now_ms: int
) -> dict[str, ErrorCode]:
    """What the client is told of the first MOST_CREATED that are not under way, or as many as there is room for; of the others, that
    they have no leaders. Written straight to the store, as any broker may; the client asks again until there are leaders."""
    errors: dict[str, ErrorCode] = {}
    new: list[NewTopic] = []
    taken = Names(broker)
    # Never refused here, as in Apache; what a client makes by asking counts for its next CreateTopics (KIP-599).
    quota = broker.mutation_quota(request, strict_since=NEVER, now_ms=now_ms)
    left = min(MOST_CREATED, MOST_BEING_CREATED - len(broker.being_created))
    for name in missing:
        if name in broker.being_created:
            continue
        if left <= 0:
            break
        left -= 1
        try:
            plan = plan_internal_topic if name in INTERNAL_TOPICS else plan_topic
            new.append(plan(broker, name, names=taken))
            broker.being_created.add(name)
            quota.take(len(new[-1].assignment))
            errors[name] = ErrorCode.LEADER_NOT_AVAILABLE
        except ProtocolError as refusal:
            errors[name] = refusal.code
            if refusal.code == ErrorCode.INVALID_REPLICATION_FACTOR:
                purpose = PURPOSES.get(name)
                setting = purpose.setting if purpose else "default.replication.factor"
                broker.effects.append(
                    LogLine(
                        "warning",
                        f"topic {name} cannot be created: {refusal} Start more brokers, or set {setting}.",
                        key=f"uncreated {request.connection.address}",
                    )
                )
    if new:
        names = [topic.topic for topic in new]

        def answered(result: StoreResult, now_ms: int) -> None:
            broker.being_created.difference_update(names)

        broker.ask_store(CreateTopics(tuple(new)), answered)
    return errors
