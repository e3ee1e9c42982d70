"""A small blocking client: Spark executors, the command line and tests talk to a cluster through it.

    with SyncClient("localhost:9092") as client:
        client.cluster()                                # brokers, controller, leaders
        client.call(CONTROLLER, CreateTopicsRequest(...))
        client.end_offsets([TopicPartition("flights", 0)])

`call` sends one request to one broker and gives its answer back; it never repeats anything. The methods
above it refresh the metadata and try again while the protocol says that this is safe, until their deadline.
Exact ranges of records are read by `client.sync_fetch`.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Self, TypeVar

from odradek.client.sync_connection import (
    Address,
    ConnectionLost,
    DeadlineExceeded,
    Starting,
    SyncConnection,
    Unreachable,
    left_out,
    parse_addresses,
)
from odradek.client.sync_connection import answered as answered
from odradek.client.sync_connection import code_of as code_of
from odradek.model.counted import numbered
from odradek.model.error_codes import INVALID_METADATA, RETRIABLE, ErrorCode
from odradek.model.errors import OdradekError, ProtocolError
from odradek.model.ids import NO_LEADER, NO_TOPIC_ID, TopicPartition
from odradek.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.schema import Request

# Whom `call` may be asked to ask, besides a broker id.
ANY = -101
CONTROLLER = -102

# Timestamps with a meaning of their own in ListOffsets.
LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3

BOOTSTRAP_TIMEOUT_S = 8.0
REQUEST_TIMEOUT_S = 30.0
# What any broker may be asked takes it some milliseconds, about a second while it waits for news of a leader that may have died, and
# five where it has just started and is told of nobody; others may know more.
# Who has not begun to answer by then may be stopped, and others are asked: so many of them with this patience, and one with all of it.
ANSWER_PATIENCE_S = 2.0
_MOST_IMPATIENT = 2
_UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
_FIRST_PAUSE_S = 0.02
_LONGEST_PAUSE_S = 0.5

# What a leader may answer about a batch that is in its log, or will be.
_APPENDED_PERHAPS = (
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.CORRUPT_MESSAGE,
)

T = TypeVar("T")
Telling = Callable[[Request, int], Any]


class Broker(NamedTuple):
    broker_id: int
    address: Address
    rack: str | None


class PartitionView(NamedTuple):
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...]


class TopicView(NamedTuple):
    topic_id: bytes
    is_internal: bool
    partitions: Mapping[int, PartitionView]


class ClusterView(NamedTuple):
    """What one broker said about the cluster in one Metadata answer."""

    cluster_id: str | None
    controller_id: int
    brokers: Mapping[int, Broker]
    topics: Mapping[str, TopicView]
    errors: Mapping[str, ErrorCode]


class OffsetAndEpoch(NamedTuple):
    offset: int
    leader_epoch: int
    timestamp_ms: int = -1


def may_be_appended(error: OdradekError) -> bool:
    """Whether the batch of a `SyncClient.produce` that ended so may stand in the log."""
    if isinstance(error, ProtocolError):
        return error.code in (*_APPENDED_PERHAPS, ErrorCode.UNKNOWN_SERVER_ERROR)
    return isinstance(error, ConnectionLost)


class SyncClient:
    """Connections by broker, the last metadata, and retries under a deadline. Not for several threads."""

    def __init__(
        self,
        bootstrap: str,
        *,
        client_id: str = "odradek",
        bootstrap_timeout_s: float = BOOTSTRAP_TIMEOUT_S,
        request_timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> None:
        self._addresses = parse_addresses(bootstrap)
        self._client_id = client_id
        self._bootstrap_timeout_s = bootstrap_timeout_s
        self.request_timeout_s = request_timeout_s
        self._brokers: dict[int, Broker] = {}
        self._controller_id = int(NO_LEADER)
        self._topics: dict[str, TopicView] = {}
        self._connections: dict[Address, SyncConnection] = {}
        # Whoever was asked as ANY last, those whose answers have led nowhere, and those that were not reached.
        self._asked: Address | None = None
        self._doubted: set[Address] = set()
        self._silent: set[Address] = set()
        # Who was reached at an address: a broker may have one name in the bootstrap and another one of its own.
        self._peers: dict[Address, Address] = {}
        # Within `waiting_once`: brokers that gave no answer, and why.
        self._given_up: dict[int, str] | None = None

    def another(self, request_timeout_s: float) -> "SyncClient":
        """One for another thread: it knows the same brokers, and which are silent, and has connections of its own."""
        made = SyncClient(
            ",".join(map(str, self._addresses)),
            client_id=self._client_id,
            bootstrap_timeout_s=self._bootstrap_timeout_s,
            request_timeout_s=request_timeout_s,
        )
        made._brokers, made._controller_id = dict(self._brokers), self._controller_id
        made._given_up = None if self._given_up is None else dict(self._given_up)
        return made

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    # One request, one answer ------------------------------------------------------------------------------

    def call(
        self,
        broker: int,
        request: Request,
        *,
        timeout_s: float | None = None,
        max_version: int | None = None,
    ) -> Any:
        """Sends `request` to a broker id, to ANY broker or to the CONTROLLER, once, and returns its answer.

        The newest version both sides know is spoken. Error codes inside the answer are the caller's.
        Raises Unreachable, ConnectionLost, or ProtocolError(UNSUPPORTED_VERSION).
        """
        given_up = self._given_up
        named = self._controller_id if broker == CONTROLLER else broker
        if given_up is not None and named in given_up:
            raise Unreachable(given_up[named])
        try:
            return self._call(broker, request, self.deadline(timeout_s), max_version)
        except (Unreachable, ConnectionLost) as error:
            is_no_answer = isinstance(error, Unreachable) or isinstance(error.__cause__, TimeoutError)
            if given_up is not None and is_no_answer and broker not in (ANY, CONTROLLER):
                given_up[broker] = str(error)
            raise

    @contextmanager
    def waiting_once(self, silent: Mapping[int, str] | None = None) -> Iterator[None]:
        """Within it a broker that `call` did not reach, or that gave no answer in time, is not waited for again: what it is asked
        next is Unreachable at once, for the same reason. So are those that are known to be `silent`, and why.

        For a look at many partitions, each of which a broker in trouble may hold; not for what is repeated until it succeeds.
        """
        before, self._given_up = self._given_up, dict(silent or {})
        try:
            yield
        finally:
            self._given_up = before

    def _call(self, broker: int, request: Request, deadline: float, max_version: int | None) -> Any:
        connection = self.connection_to(broker, deadline)
        version = connection.version_for(type(request), max_version)
        return connection.receive(connection.send(request, version, deadline), deadline)

    def connection_to(self, broker: int, deadline: float) -> SyncConnection:
        """An open connection; the addresses of brokers come from the metadata."""
        if broker == ANY:
            return self._any_connection(deadline)
        if broker == CONTROLLER:
            if not self._may_be_reached(self._controller_id):
                self._look_up(deadline)
            broker = self._controller_id
            if broker not in self._brokers:
                raise Unreachable("the cluster has no controller at the moment")
        elif not self._may_be_reached(broker):
            self._look_up(deadline)
        if broker not in self._brokers:
            known = ", ".join(str(b) for b in sorted(self._brokers)) or "none"
            raise Unreachable(f"broker {broker} is not in the cluster; brokers alive: {known}")
        return self._connection(self._brokers[broker].address, deadline, f"broker {broker}: ")

    def of_any(self, ask: Callable[[SyncConnection, Telling], T], *, timeout_s: float | None = None) -> T:
        """What ANY broker answers. `ask` is given a connection and what sends a request of a version there and returns its answer, again
        with others where there is none: so it may only ask what may be asked twice. Raises as `call`."""
        deadline = self.deadline(timeout_s)
        every = {broker.address for broker in self._brokers.values()}.union(self._addresses)
        others = {self._peers.get(address, address) for address in every}
        for left in range(min(len(others) - 1, _MOST_IMPATIENT), 0, -1):
            connection = self.connection_to(ANY, deadline)
            if connection.awaits_answers:
                return ask(connection, _telling(connection, deadline))  # they would be lost with it
            patience_s = min(ANSWER_PATIENCE_S, (deadline - time.monotonic()) / (left + 1))
            try:
                return ask(connection, _telling(connection, deadline, patience_s))
            except ConnectionLost:
                self._doubt()
        connection = self.connection_to(ANY, deadline)
        return ask(connection, _telling(connection, deadline))

    def _may_be_reached(self, broker: int) -> bool:
        """As far as is known: where nobody answered before, it may be gone, or at another address by now."""
        known = self._brokers.get(broker)
        return known is not None and known.address not in self._silent

    def _look_up(self, deadline: float) -> None:
        """Where brokers are, in the time that is there for what is to be asked of one."""
        self.cluster([], timeout_s=max(0.0, deadline - time.monotonic()))

    def deadline(self, timeout_s: float | None = None) -> float:
        return time.monotonic() + (self.request_timeout_s if timeout_s is None else timeout_s)

    def left_of(self, timeout_s: float | None) -> Callable[[], float | None]:
        """What is left of it whenever that is asked, for each of several questions; None where it is None."""
        if timeout_s is None:
            return lambda: None
        deadline = self.deadline(timeout_s)
        return lambda: max(0.0, deadline - time.monotonic())

    # Metadata ---------------------------------------------------------------------------------------------

    def cluster(self, topics: Iterable[str] | None = None, *, timeout_s: float | None = None) -> ClusterView:
        """Asks now, for all topics or for those named (none is an empty list); never creates a topic.

        Starting: who was asked has not been told of any broker yet, itself included, or of brokers alone; what it says of topics is nothing.
        """
        asked = None if topics is None else [MetadataRequestTopic(name=t) for t in sorted(set(topics))]
        request = MetadataRequest(topics=asked, allow_auto_topic_creation=False)

        def ask(connection: SyncConnection, told: Telling) -> Any:
            return told(request, connection.version_for(MetadataRequest))

        answer = self.of_any(ask, timeout_s=timeout_s)
        if not answer.brokers:
            raise Starting(
                f"{self._asked} is starting: it has not been told of the brokers and topics of its cluster yet"
            )
        brokers = {b.node_id: Broker(b.node_id, Address(b.host, b.port), b.rack) for b in answer.brokers}
        found: dict[str, TopicView] = {}
        errors: dict[str, ErrorCode] = {}
        for topic in answer.topics:
            if topic.error_code != ErrorCode.NONE:
                errors[topic.name] = code_of(topic.error_code)
                self._topics.pop(topic.name, None)
                continue
            partitions = {
                p.partition_index: PartitionView(
                    p.leader_id,
                    p.leader_epoch,
                    tuple(p.replica_nodes),
                    tuple(p.isr_nodes),
                    tuple(p.offline_replicas),
                )
                for p in topic.partitions
            }
            found[topic.name] = TopicView(
                topic.topic_id, topic.is_internal, {index: partitions[index] for index in sorted(partitions)}
            )
        self._brokers = brokers
        self._controller_id = answer.controller_id
        if topics is None:
            self._topics = dict(found)  # of the others nothing is known
        else:
            self._topics.update(found)
        self._forget_addresses()
        return ClusterView(answer.cluster_id, answer.controller_id, brokers, found, errors)

    def topic(
        self, name: str, *, timeout_s: float | None = None, is_known: bool = False, is_new: bool = False
    ) -> TopicView:
        """The topic as it is now; ProtocolError(UNKNOWN_TOPIC_OR_PARTITION) names it when there is none.

        A broker that has just started is given until the deadline. With `is_known` the controller has said that the topic is
        there, so a broker that has not heard of it is waited for too; with `is_new`, which includes this, every leader as well.
        """
        left_s = self.left_of(timeout_s)

        def ask() -> TopicView:
            view = self.cluster([name], timeout_s=left_s())
            topic = view.topics.get(name)
            if topic is None:
                raise answered(view.errors.get(name, _UNKNOWN), f"topic {name}")
            if is_new and any(
                partition.leader not in view.brokers for partition in topic.partitions.values()
            ):
                raise answered(ErrorCode.LEADER_NOT_AVAILABLE, f"topic {name}")
            return topic

        give_up = [ErrorCode.INVALID_TOPIC_EXCEPTION]
        if not (is_known or is_new):
            give_up.append(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return self.retrying(ask, timeout_s=timeout_s, give_up=give_up)

    def leader(self, partition: TopicPartition, *, refresh: bool = False) -> tuple[int, PartitionView]:
        """Who leads the partition; ProtocolError(LEADER_NOT_AVAILABLE) while nobody does."""
        view = self._topics.get(partition.topic)
        if refresh or view is None or partition.partition not in view.partitions:
            answer = self.cluster([partition.topic])
            view = answer.topics.get(partition.topic)
            if view is None:
                raise answered(answer.errors.get(partition.topic, _UNKNOWN), f"topic {partition.topic}")
        found = view.partitions.get(partition.partition)
        if found is None:
            count = len(view.partitions)
            raise ProtocolError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"{partition}: the topic has {numbered(count, 'partition')}",
            )
        if found.leader not in self._brokers:
            # Named in the answer or not: ask again next time.
            self.forget(partition.topic)
            raise ProtocolError(ErrorCode.LEADER_NOT_AVAILABLE, f"{partition} has no leader at the moment")
        return found.leader, found

    def known_topic_id(self, topic: str) -> bytes:
        """The topic id of the last metadata, or zeros."""
        view = self._topics.get(topic)
        return view.topic_id if view is not None else NO_TOPIC_ID

    def forget(self, topic: str) -> None:
        """The next question about this topic's leaders asks the cluster again, and somebody else: whoever has told of them may
        hear of no change any more, as a broker that has lost its controller."""
        self._topics.pop(topic, None)
        self._doubt()

    def _doubt(self) -> None:
        if self._asked is not None:
            self._doubted.add(self._asked)

    def retrying(
        self,
        attempt: Callable[[], T],
        *,
        timeout_s: float | None = None,
        give_up: Sequence[ErrorCode] = (),
        topic: str | None = None,
    ) -> T:
        """Runs `attempt` until it returns, as long as what it raises may pass and the deadline has not come.

        Only for requests that may be sent twice. Without `timeout_s` the time that one request may take, and as much again
        once an answer did not come: to wait for it may have taken all of the first.
        """
        began = time.monotonic()
        deadline = self.deadline(timeout_s)
        may_begin_again = timeout_s is None
        pause = _FIRST_PAUSE_S
        while True:
            try:
                return attempt()
            except (ConnectionLost, Unreachable, ProtocolError) as error:
                may_pass = not isinstance(error, ProtocolError) or (
                    error.code in RETRIABLE and error.code not in give_up
                )
                # With nobody known there is nobody else to ask: bootstrap has had its own time already.
                is_nobody_there = isinstance(error, Unreachable) and not isinstance(error, Starting)
                if not may_pass or (is_nobody_there and not self._brokers):
                    raise
                if may_begin_again and isinstance(error, ConnectionLost):
                    deadline, may_begin_again = self.deadline(), False
                if time.monotonic() + pause > deadline:
                    tried_s = time.monotonic() - began
                    raise DeadlineExceeded(
                        f"given up after {round(tried_s, 1):g} s; the last answer was: {error}"
                    ) from error
                self._doubt()
                if topic is not None:
                    self.forget(topic)
            time.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_S)

    # Offsets ----------------------------------------------------------------------------------------------

    def list_offsets(
        self,
        wanted: Mapping[TopicPartition, int],
        *,
        read_committed: bool = False,
        timeout_s: float | None = None,
    ) -> dict[TopicPartition, OffsetAndEpoch]:
        """For each partition the offset at a timestamp, or at EARLIEST, LATEST, MAX_TIMESTAMP.

        One request per leader; partitions that moved are asked again. Offset -1: no record that late.
        """
        found: dict[TopicPartition, OffsetAndEpoch] = {}

        def ask() -> dict[TopicPartition, OffsetAndEpoch]:
            missing = {p: t for p, t in wanted.items() if p not in found}
            failed: ProtocolError | None = None
            for leader, partitions in self._by_leader(missing).items():
                request = _list_offsets_request(self, partitions, missing, read_committed)
                for topic in self.call(leader, request, timeout_s=timeout_s).topics:
                    for answer in topic.partitions:
                        partition = TopicPartition(topic.name, answer.partition_index)
                        if answer.error_code == ErrorCode.NONE:
                            found[partition] = OffsetAndEpoch(
                                answer.offset, answer.leader_epoch, answer.timestamp
                            )
                        else:
                            failed = self._failure(partition, answer.error_code)
            if failed is not None:
                raise failed
            return _all_of(found, wanted)

        return self._at_leaders(ask, wanted, timeout_s)

    def end_offsets(
        self,
        partitions: Iterable[TopicPartition],
        *,
        read_committed: bool = False,
        timeout_s: float | None = None,
    ) -> dict[TopicPartition, int]:
        """The first offset not yet readable: the high watermark, or with `read_committed` the last stable offset."""
        wanted = dict.fromkeys(partitions, LATEST)
        found = self.list_offsets(wanted, read_committed=read_committed, timeout_s=timeout_s)
        return {p: end.offset for p, end in found.items()}

    def begin_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Log start offsets: the first offset still there."""
        return {p: o.offset for p, o in self.list_offsets(dict.fromkeys(partitions, EARLIEST)).items()}

    def ends_of_epochs(
        self, epochs: Mapping[TopicPartition, int], *, timeout_s: float | None = None
    ) -> dict[TopicPartition, OffsetAndEpoch]:
        """For each partition the largest leader epoch not above the given one, and where it ends (KIP-320).

        An end below what was read of that epoch says that the log was truncated since; -1 that the log knows no
        epoch as new as that. A leader older than the given epoch is not asked: its log may yet be cut.
        """
        found: dict[TopicPartition, OffsetAndEpoch] = {}

        def ask() -> dict[TopicPartition, OffsetAndEpoch]:
            missing = [p for p in sorted(epochs) if p not in found]
            failed: ProtocolError | None = None
            for leader, partitions in self._by_leader(missing).items():
                topics = [
                    OffsetForLeaderTopic(
                        topic=name,
                        partitions=[
                            OffsetForLeaderPartition(
                                partition=p.partition,
                                current_leader_epoch=_not_before(epochs[p], self.leader(p)[1].leader_epoch),
                                leader_epoch=epochs[p],
                            )
                            for p in members
                        ],
                    )
                    for name, members in by_topic(partitions).items()
                ]
                request = OffsetForLeaderEpochRequest(replica_id=-1, topics=topics)
                for topic in self.call(leader, request, timeout_s=timeout_s).topics:
                    for answer in topic.partitions:
                        partition = TopicPartition(topic.topic, answer.partition)
                        if answer.error_code == ErrorCode.NONE:
                            found[partition] = OffsetAndEpoch(answer.end_offset, answer.leader_epoch)
                        else:
                            failed = self._failure(partition, answer.error_code)
            if failed is not None:
                raise failed
            return _all_of(found, epochs)

        return self._at_leaders(ask, epochs, timeout_s)

    # Produce ----------------------------------------------------------------------------------------------

    def produce(
        self,
        partition: TopicPartition,
        batch: bytes | memoryview,
        *,
        acks: int = -1,
        timeout_s: float | None = None,
    ) -> int:
        """Appends one record batch and returns its base offset.

        Tried again only where the answer says that nothing was appended: a batch without a producer id that
        is sent twice stands in the log twice. A lost connection is therefore the caller's to judge.
        """
        timeout_ms = int((self.request_timeout_s if timeout_s is None else timeout_s) * 1000)
        data = PartitionProduceData(index=partition.partition, records=batch)
        request = ProduceRequest(
            acks=acks,
            timeout_ms=timeout_ms,
            topic_data=[TopicProduceData(name=partition.topic, partition_data=[data])],
        )

        def send() -> int:
            leader, _ = self.leader(partition)
            deadline = self.deadline(timeout_s)
            connection = self.connection_to(leader, deadline)
            version = connection.version_for(ProduceRequest, 12)  # 13 names topics by id
            try:
                pending = connection.send(request, version, deadline, silent=acks == 0)
                topics = () if acks == 0 else connection.receive(pending, deadline).responses
            except (ConnectionLost, ProtocolError) as error:  # also where what came back cannot be read
                lost.append(error)
                return -1
            if acks == 0:
                return -1
            for topic in topics:
                for answer in topic.partition_responses:
                    if TopicPartition(topic.name, answer.index) == partition:
                        return appended_at(answer)
            raise left_out(partition)

        def appended_at(answer: Any) -> int:
            if answer.error_code != ErrorCode.NONE:
                raise answered(answer.error_code, str(partition), answer.error_message)
            return int(answer.base_offset)

        lost: list[OdradekError] = []
        offset = self.retrying(send, timeout_s=timeout_s, give_up=_APPENDED_PERHAPS, topic=partition.topic)
        if lost:
            self.forget(partition.topic)
            raise ConnectionLost(
                f"{partition}: whether the batch was appended is not known: {lost[0]}"
            ) from lost[0]
        return offset

    # Helpers ----------------------------------------------------------------------------------------------

    def _at_leaders(
        self, ask: Callable[[], T], partitions: Iterable[TopicPartition], timeout_s: float | None
    ) -> T:
        topics = sorted({p.topic for p in partitions})

        def ask_and_forget() -> T:
            try:
                return ask()
            except (ConnectionLost, Unreachable):
                for topic in topics:
                    self.forget(topic)
                raise

        return self.retrying(ask_and_forget, timeout_s=timeout_s)

    def _by_leader(self, partitions: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
        groups: dict[int, list[TopicPartition]] = {}
        for partition in sorted(partitions):
            leader, _ = self.leader(partition)
            groups.setdefault(leader, []).append(partition)
        return groups

    def _failure(self, partition: TopicPartition, error_code: int) -> ProtocolError:
        code = code_of(error_code)
        # UNKNOWN_LEADER_EPOCH: a request fenced by what its asker has seen went to a leader from before that.
        if code in INVALID_METADATA or code == ErrorCode.UNKNOWN_LEADER_EPOCH:
            self.forget(partition.topic)
        return answered(error_code, str(partition))

    def _connection(self, address: Address, deadline: float, whose: str = "") -> SyncConnection:
        known = self._connections.get(address)
        if known is not None and known.is_open:
            return known
        deadline = min(deadline, time.monotonic() + self._bootstrap_timeout_s)
        try:
            connection = SyncConnection(address, client_id=self._client_id, deadline=deadline)
        except Unreachable as error:
            self._silent.add(address)
            raise type(error)(f"{whose}{error}") from error
        self._silent.discard(address)
        self._connections[address] = connection
        self._peers[address] = connection.peer
        return connection

    def _forget_addresses(self) -> None:
        """Those at which there is no broker any more. A connection that is open is used as long as it is."""
        live = {broker.address for broker in self._brokers.values()} | set(self._addresses)
        gone = self._connections.keys() - live
        for address in [one for one in gone if not self._connections[one].is_open]:
            del self._connections[address]
        self._doubted &= live | self._connections.keys()
        self._silent &= live
        self._peers = {address: peer for address, peer in self._peers.items() if address in live}

    def _any_connection(self, deadline: float) -> SyncConnection:
        """An open connection if there is one, else to a broker of the last metadata, else by bootstrap. To one that is doubted
        again once all are, and to one that was not reached where there is no other."""
        known = [b.address for b in self._brokers.values()]
        every = known + [a for a in self._addresses if a not in known]
        if self._doubted.issuperset(set(every) - self._silent):
            self._doubted.clear()
        for connection in self._connections.values():
            if connection.address not in self._doubted and connection.is_open:
                self._asked = connection.address
                return connection
        candidates = sorted(every, key=lambda a: (a in self._silent, a in self._doubted))
        last = min(deadline, time.monotonic() + self._bootstrap_timeout_s)
        causes: list[Unreachable] = []
        for number, address in enumerate(candidates):
            # A silent host may not use up the time of those after it.
            share = (last - time.monotonic()) / (len(candidates) - number)
            self._asked = address
            try:
                return self._connection(address, time.monotonic() + max(share, 0.0))
            except Unreachable as error:
                causes.append(error)
        starting = any(isinstance(cause, Starting) for cause in causes)
        raise (Starting if starting else Unreachable)("; ".join(map(str, causes)))


def _telling(connection: SyncConnection, deadline: float, patience_s: float | None = None) -> Telling:
    """`patience_s`: within which an answer begins to come; a long one comes slowly from afar."""

    def told(request: Request, version: int) -> Any:
        begins_by = deadline if patience_s is None else min(deadline, time.monotonic() + patience_s)
        return connection.receive(connection.send(request, version, begins_by), deadline, None, begins_by)

    return told


def _all_of(
    found: Mapping[TopicPartition, OffsetAndEpoch], asked: Iterable[TopicPartition]
) -> dict[TopicPartition, OffsetAndEpoch]:
    for partition in asked:
        if partition not in found:
            raise left_out(partition)
    return {partition: found[partition] for partition in sorted(asked)}


def _not_before(epoch: int, metadata_epoch: int) -> int:
    """The leader epoch by which a request is fenced, so that no leader from before `epoch` answers it; -1: unknown."""
    return max(epoch, metadata_epoch) if metadata_epoch >= 0 else -1


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    topics: dict[str, list[TopicPartition]] = {}
    for partition in partitions:
        topics.setdefault(partition.topic, []).append(partition)
    return topics


def _list_offsets_request(
    client: SyncClient,
    partitions: Sequence[TopicPartition],
    timestamps: Mapping[TopicPartition, int],
    read_committed: bool,
) -> ListOffsetsRequest:
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=int(read_committed),
        topics=[
            ListOffsetsTopic(
                name=name,
                partitions=[
                    ListOffsetsPartition(
                        partition_index=p.partition,
                        current_leader_epoch=client.leader(p)[1].leader_epoch,
                        timestamp=timestamps[p],
                    )
                    for p in members
                ],
            )
            for name, members in by_topic(partitions).items()
        ],
    )
