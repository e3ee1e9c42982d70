"""The blocking client: what it says when the world is wrong, and what it tries again."""

import errno
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from odradek.client import sync, sync_connection
from odradek.client.sync import ANY, CONTROLLER, LATEST, SyncClient
from odradek.client.sync_connection import (
    Address,
    ConnectionLost,
    DeadlineExceeded,
    FrameBuffer,
    Starting,
    SyncConnection,
    Unreachable,
    parse_addresses,
)
from odradek.client.sync_groups import coordinators
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ConfigurationError, ProtocolError
from odradek.model.ids import NO_TOPIC_ID, TopicPartition
from odradek.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from odradek.protocol.messages.create_topics import CreateTopicsRequest
from odradek.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from odradek.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from odradek.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from odradek.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
)
from odradek.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from odradek.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from odradek.protocol.schema import Request
from odradek.records.builder import NewRecord, build_batch
from tests.client.support import HANG_UP, TOPIC_ID, ScriptedBroker
from tests.support import each, localhost_is_here

ORDERS = TopicPartition("orders", 0)


@pytest.fixture(autouse=True)
def _scripted_brokers_are_at_localhost(monkeypatch: pytest.MonkeyPatch) -> None:
    localhost_is_here(monkeypatch)


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker() as scripted:
        scripted.partitions["orders"] = [1]
        yield scripted


@pytest.fixture
def client(broker: ScriptedBroker) -> Iterator[SyncClient]:
    with SyncClient(broker.address, request_timeout_s=60) as connected:
        yield connected


class Clock:
    """Stands still but for pauses, so that no deadline passes because this machine was busy."""

    def __init__(self) -> None:
        self.now = 1000.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    seen = SimpleNamespace(monotonic=lambda: clock.now, sleep=clock.sleep)
    for module in (sync, sync_connection):
        monkeypatch.setattr(module, "time", seen)
    return clock


def offsets_answer(code: int, offset: int = 7) -> ListOffsetsResponse:
    partition = ListOffsetsPartitionResponse(
        partition_index=0, error_code=code, offset=offset, leader_epoch=4
    )
    return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="orders", partitions=[partition])])


def produce_answer(code: int) -> ProduceResponse:
    partition = PartitionProduceResponse(index=0, error_code=code, base_offset=42)
    return ProduceResponse(responses=[TopicProduceResponse(name="orders", partition_responses=[partition])])


# Addresses --------------------------------------------------------------------------------------------------


def test_addresses_are_host_and_port_and_ipv6_stands_in_brackets() -> None:
    assert [str(a) for a in parse_addresses("a:1, [::1]:9092,b.c:65535")] == [
        "a:1",
        "[::1]:9092",
        "b.c:65535",
    ]


@pytest.mark.parametrize(
    "text", ["", "localhost", "localhost:", ":9092", "a:1,,b:2", "a:http", "a:-1", "a:²"]
)
def test_an_address_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="expected host:port"):
        parse_addresses(text)


@pytest.mark.parametrize("port", ["0", "65536", "99999"])
def test_a_port_that_cannot_be_is_named(port: str) -> None:
    with pytest.raises(ConfigurationError, match=f"'a:{port}': port {port} is not between 1 and 65535"):
        parse_addresses(f"a:{port}")


# Nobody there -----------------------------------------------------------------------------------------------


def test_a_port_where_nobody_listens_is_named_with_the_cause() -> None:
    with pytest.raises(Unreachable, match=r"no broker answers at 127\.0\.0\.1:1: connection refused"):
        SyncClient("127.0.0.1:1").cluster()


def test_every_address_that_was_tried_is_named() -> None:
    with pytest.raises(Unreachable, match=r"127\.0\.0\.1:1: .*; .*127\.0\.0\.1:2: "):
        SyncClient("127.0.0.1:1,127.0.0.1:2").cluster()


def test_a_name_nobody_knows_is_named() -> None:
    with pytest.raises(Unreachable, match=r"at no-such-host\.invalid:9092: the name no-such-host\.invalid"):
        SyncClient("no-such-host.invalid:9092").cluster()


@each(
    (
        ("a..b", "label empty"),
        ("a" * 300, "label .*too long"),
        ("a\0b", "not known|null|temporary failure"),
    )
)
def test_a_name_that_cannot_be_one_is_told_with_the_reason(name: str, why: str) -> None:
    """A thread ended with a traceback, and the name counted as not resolved in time; a zero byte was a mistake of ours."""
    with (
        SyncClient(f"{name}:9092", bootstrap_timeout_s=60) as client,
        pytest.raises(Unreachable, match=rf"the name .* is not known \(.*({why}).*\)"),
    ):
        client.cluster([])


def test_what_apiversions_answers_is_told_also_by_a_code_from_the_future() -> None:
    with ScriptedBroker() as broker:
        broker.answer(ApiVersionsRequest, lambda request, version: ApiVersionsResponse(error_code=999))
        with (
            SyncClient(broker.address) as client,
            pytest.raises(Unreachable, match="does not speak Kafka: ApiVersions: error code 999"),
        ):
            client.cluster([])


def test_a_resolver_that_hangs_is_given_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    released = threading.Event()
    given_up_by: list[threading.Thread] = []

    def hang(*_: object, **__: object) -> list[object]:
        released.wait()
        given_up_by.append(threading.current_thread())
        return []

    monkeypatch.setattr(sync_connection.socket, "getaddrinfo", hang)
    try:
        with pytest.raises(Unreachable, match=r"slow\.example is not resolved in time"):
            SyncClient("slow.example:9092", bootstrap_timeout_s=0.2).cluster()
        assert given_up_by == [], "it hangs still"
    finally:
        released.set()


def test_a_listener_that_never_answers_is_given_up_on(clock: Clock) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(
            Unreachable,
            match=rf"^127.0.0.1:{port} accepts connections but gives no answer within \S+ s: it hangs, or is stopped",
        ):
            SyncClient(f"127.0.0.1:{port}", bootstrap_timeout_s=0.2).cluster()


def test_a_silent_host_leaves_time_for_the_next_one(
    broker: ScriptedBroker, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[tuple[int, float]] = []
    read_exactly = SyncConnection._read_exactly

    def read(self: SyncConnection, size: int, deadline: float, into: FrameBuffer | None = None) -> memoryview:
        waited.append((self.address.port, deadline - clock.now))
        if self.address.port == broker.port:
            return read_exactly(self, size, deadline, into)
        clock.now = deadline  # all the time it is given
        raise TimeoutError

    monkeypatch.setattr(SyncConnection, "_read_exactly", read)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with SyncClient(f"127.0.0.1:{port},{broker.address}", bootstrap_timeout_s=30.0) as client:
            assert client.cluster().cluster_id == "c"
    assert waited[:2] == [(port, 15.0), (broker.port, 15.0)], "half of the time for each of the two"


class Network(socket.socket):
    """With a host that swallows what is sent to it, and without IPv6."""

    clock: Clock
    waited_s: list[float]

    def __init__(self, family: int = -1, *more: Any, **named: Any) -> None:
        if family == socket.AF_INET6:
            raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")
        super().__init__(family, *more, **named)

    def connect(self, endpoint: Any) -> None:
        if endpoint[0] == "192.0.2.1":
            left = self.gettimeout()
            assert left is not None
            self.waited_s.append(left)
            self.clock.now += left
            raise TimeoutError
        super().connect(endpoint)


def test_every_address_of_a_name_is_tried_in_its_share_of_the_time(
    broker: ScriptedBroker, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = [
        (socket.AF_INET6, socket.SOCK_STREAM, 0, "", ("::1", broker.port, 0, 0)),
        (socket.AF_INET, socket.SOCK_STREAM, 0, "", ("192.0.2.1", broker.port)),
        (socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", broker.port)),
    ]
    monkeypatch.setattr(Network, "clock", clock, raising=False)
    monkeypatch.setattr(Network, "waited_s", [], raising=False)
    monkeypatch.setattr(sync_connection, "_resolve", lambda address, deadline: there)
    monkeypatch.setattr(sync_connection.socket, "socket", Network)
    with SyncClient(f"kafka.example:{broker.port}", bootstrap_timeout_s=30.0) as client:
        assert client.cluster().cluster_id == "c"
    assert Network.waited_s == [15.0]

    del there[2]
    with pytest.raises(Unreachable, match=r"no broker answers at kafka\.example:\d+: no answer in time$"):
        SyncClient(f"kafka.example:{broker.port}").cluster()
    del there[1]
    with pytest.raises(Unreachable, match=r"address family not supported by protocol$"):
        SyncClient(f"kafka.example:{broker.port}").cluster()


def test_a_web_server_is_not_taken_for_a_broker() -> None:
    answer = b"HTTP/1.1 400 Bad Request\r\n\r\n"
    with ScriptedBroker() as web:
        web.answer(ApiVersionsRequest, lambda request, version: answer)
        with pytest.raises(Unreachable, match=r"does not speak Kafka: .* an answer of 1213486160 bytes"):
            SyncClient(web.address).cluster()


def test_who_closes_before_a_byte_of_an_answer_may_be_starting() -> None:
    with ScriptedBroker() as early:
        early.answer(ApiVersionsRequest, lambda request, version: HANG_UP)
        with pytest.raises(Starting, match=rf"{early.address} is starting, as it seems"):
            SyncClient(early.address).cluster()


def test_who_closes_in_the_middle_of_an_answer_is_not_starting() -> None:
    with ScriptedBroker() as other:
        other.answer(ApiVersionsRequest, lambda request, version: b"\x00\x00" + HANG_UP)
        with pytest.raises(Unreachable, match="does not speak Kafka") as raised:
            SyncClient(other.address).cluster()
    assert not isinstance(raised.value, Starting)


def test_a_broker_that_knows_of_no_broker_is_starting(broker: ScriptedBroker, client: SyncClient) -> None:
    """Registered with its store, and not told of the cluster by the controller yet: it would deny every topic."""
    answers = [MetadataResponse(brokers=[], cluster_id="c", controller_id=-1, topics=[])]
    broker.answer(MetadataRequest, lambda request, version: answers.pop() if answers else broker.metadata())
    with pytest.raises(Starting, match=f"{broker.address} is starting: it has not been told of the brokers"):
        client.cluster()
    assert client.cluster().topics


def test_a_topic_of_a_starting_broker_is_asked_for_again(broker: ScriptedBroker, client: SyncClient) -> None:
    answers = [MetadataResponse(brokers=[], cluster_id="c", controller_id=-1, topics=[])]
    broker.answer(MetadataRequest, lambda request, version: answers.pop() if answers else broker.metadata())
    assert client.topic("orders").partitions[0].leader == 1


def test_a_new_topic_is_asked_for_until_whoever_answers_has_heard_of_it(
    broker: ScriptedBroker, client: SyncClient
) -> None:
    known = broker.metadata()
    nothing = MetadataResponse(brokers=known.brokers, cluster_id="c", controller_id=1, topics=[])
    unheard = [nothing]
    broker.answer(MetadataRequest, lambda request, version: unheard.pop() if unheard else known)
    with pytest.raises(ProtocolError, match="topic orders: UNKNOWN_TOPIC_OR_PARTITION"):
        client.topic("orders")
    unheard.append(nothing)
    assert client.topic("orders", is_known=True).partitions[0].leader == 1 and not unheard


def test_a_new_topic_is_asked_for_until_every_partition_has_a_leader(
    broker: ScriptedBroker, client: SyncClient
) -> None:
    unled = broker.metadata()
    unled.topics[0].partitions[0].leader_id = -1
    answers = [unled]
    broker.answer(MetadataRequest, lambda request, version: answers.pop() if answers else broker.metadata())
    assert client.topic("orders").partitions[0].leader == -1
    answers.append(unled)
    assert client.topic("orders", is_new=True).partitions[0].leader == 1 and not answers


def test_an_answer_cut_short_is_a_lost_connection(broker: ScriptedBroker, client: SyncClient) -> None:
    broker.answer(MetadataRequest, lambda request, version: b"\x00\x00\x00\x10\x00\x00" + HANG_UP)

    with pytest.raises(ConnectionLost, match="closed by the other side while waiting for MetadataResponse"):
        client.cluster()


def test_an_answer_to_another_question_ends_the_connection(
    broker: ScriptedBroker, client: SyncClient
) -> None:
    broker.answer(
        MetadataRequest, lambda request, version: b"\x00\x00\x00\x08\x00\x00\x00\x63\x00\x00\x00\x00"
    )

    with pytest.raises(ConnectionLost, match="answer 99 to request 1"):
        client.cluster()


# Versions ---------------------------------------------------------------------------------------------------


def test_a_broker_that_only_knows_the_first_apiversions_is_understood(broker: ScriptedBroker) -> None:
    """KIP-511: it answers version 3 in the form of version 0, with UNSUPPORTED_VERSION."""
    import struct

    served = [
        ApiVersion(api_key=3, min_version=0, max_version=5),
        ApiVersion(api_key=18, min_version=0, max_version=0),
    ]

    def versions(request: Request, version: int) -> ApiVersionsResponse | bytes:
        if version == 0:
            return ApiVersionsResponse(api_keys=served)
        body = b"\x00\x00\x00\x00" + ApiVersionsResponse(error_code=35, api_keys=served[1:]).encode(0)
        return struct.pack(">i", len(body)) + body

    broker.answer(ApiVersionsRequest, versions)

    with SyncClient(broker.address) as client:
        assert client.cluster().controller_id == 1


def test_a_key_the_broker_does_not_serve_is_a_sentence(client: SyncClient) -> None:
    with pytest.raises(ProtocolError, match="does not serve CreateTopics; this client speaks") as caught:
        client.call(ANY, CreateTopicsRequest())
    assert caught.value.code == ErrorCode.UNSUPPORTED_VERSION


def test_a_broker_that_is_not_in_the_cluster_is_a_sentence(client: SyncClient) -> None:
    with pytest.raises(Unreachable, match="broker 9 is not in the cluster; brokers alive: 1"):
        client.call(9, MetadataRequest())


# Trying again -----------------------------------------------------------------------------------------------


def test_a_moved_leader_is_looked_up_and_asked_again(broker: ScriptedBroker, client: SyncClient) -> None:
    codes = [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NONE,
    ]
    broker.answer(ListOffsetsRequest, lambda request, version: offsets_answer(codes.pop(0)))

    assert client.list_offsets({ORDERS: LATEST})[ORDERS].offset == 7
    asked = [type(r) for r in broker.requests if not isinstance(r, ApiVersionsRequest)]
    assert asked == [MetadataRequest, ListOffsetsRequest] * 4


def test_no_leader_from_before_an_epoch_says_where_that_ends(
    broker: ScriptedBroker, client: SyncClient
) -> None:
    """Its log may yet be cut: what a reader has seen of epoch 7 would seem to be lost."""
    of_leader = 4  # and of the metadata

    def metadata(*_: object) -> MetadataResponse:
        answer = broker.metadata()
        for partition in answer.topics[0].partitions:
            partition.leader_epoch = of_leader
        return answer

    def ends(request: OffsetForLeaderEpochRequest, version: int) -> OffsetForLeaderEpochResponse:
        nonlocal of_leader
        (wanted,) = request.topics[0].partitions
        row = EpochEndOffset(partition=0, leader_epoch=of_leader, end_offset=10 * of_leader)
        if wanted.current_leader_epoch > of_leader:
            row = EpochEndOffset(partition=0, error_code=ErrorCode.UNKNOWN_LEADER_EPOCH)
            of_leader = 7
        return OffsetForLeaderEpochResponse(
            topics=[OffsetForLeaderTopicResult(topic="orders", partitions=[row])]
        )

    broker.answer(MetadataRequest, metadata)
    broker.answer(OffsetForLeaderEpochRequest, ends)
    (end,) = client.ends_of_epochs({ORDERS: 7}).values()
    assert (end.leader_epoch, end.offset) == (7, 70)


def test_a_leader_at_whose_address_nobody_answers_is_looked_up_anew(
    broker: ScriptedBroker, client: SyncClient
) -> None:
    ports = [1]  # of its life before

    def metadata(request: Request, version: int) -> MetadataResponse:
        answer = broker.metadata()
        answer.brokers[0].port = ports.pop() if ports else broker.port
        return answer

    broker.answer(MetadataRequest, metadata)
    broker.answer(ListOffsetsRequest, lambda request, version: offsets_answer(0))
    assert client.list_offsets({ORDERS: LATEST}, timeout_s=60.0)[ORDERS].offset == 7


@each(("localhost", "127.0.0.1"))
def test_a_broker_that_hears_of_no_change_any_more_is_not_the_only_one_that_is_asked(host: str) -> None:
    """One that has lost the controller answers, and takes itself for the leader for as long as that lasts. It may be known by
    two names: that of the bootstrap address, and its own."""
    with ScriptedBroker() as cut_off, ScriptedBroker() as other:

        def metadata(leader: int) -> MetadataResponse:
            answer = cut_off.metadata()
            answer.topics[0].partitions[0].leader_id = leader
            answer.brokers.append(MetadataResponseBroker(node_id=2, host="127.0.0.1", port=other.port))
            return answer

        cut_off.partitions["orders"] = [1]
        cut_off.answer(MetadataRequest, lambda *_: metadata(1))
        other.answer(MetadataRequest, lambda *_: metadata(2))
        moved = ErrorCode.NOT_LEADER_OR_FOLLOWER
        cut_off.answer(ListOffsetsRequest, lambda *_: offsets_answer(moved))
        other.answer(ListOffsetsRequest, lambda *_: offsets_answer(0))

        with SyncClient(f"{host}:{cut_off.port}", request_timeout_s=60) as client:
            assert client.list_offsets({ORDERS: LATEST})[ORDERS].offset == 7
            asked = len(cut_off.requests)
            assert client.leader(ORDERS, refresh=True)[0] == 2 and len(cut_off.requests) == asked


def test_a_broker_that_is_stopped_uses_up_no_time_in_which_others_could_be_asked(
    broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connections stand, and nothing comes: whoever was refused NOT_CONTROLLER would wait for it while another is controller."""
    monkeypatch.setattr(sync, "ANSWER_PATIENCE_S", 0.05)
    goes_on = threading.Event()
    with ScriptedBroker() as stopped:
        everybody = broker.metadata()
        everybody.brokers.append(MetadataResponseBroker(node_id=2, host="127.0.0.1", port=stopped.port))

        def silent(request: Request, version: int) -> None:
            assert goes_on.wait(60)

        coordinator = Coordinator(key="g", node_id=1)
        broker.answer(FindCoordinatorRequest, lambda *_: FindCoordinatorResponse(coordinators=[coordinator]))
        stopped.answer(FindCoordinatorRequest, silent)
        broker.answer(MetadataRequest, lambda *_: everybody)
        questions: list[Callable[[SyncClient], object]] = [
            lambda client: client.cluster([]).controller_id,
            lambda client: coordinators(client, ["g"], timeout_s=60)["g"],
        ]
        for question in questions:
            stopped.answer(MetadataRequest, lambda *_: everybody)
            with SyncClient(stopped.address, request_timeout_s=60) as client:
                client.cluster([])
                stopped.answer(MetadataRequest, silent)
                assert question(client) == 1
        goes_on.set()


def test_who_is_asked_while_its_answers_to_others_are_awaited_is_given_the_whole_time(
    broker: ScriptedBroker, client: SyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They come in order, and would be lost with the connection."""
    everybody = broker.metadata()
    everybody.brokers.append(MetadataResponseBroker(node_id=2, host="127.0.0.1", port=1))
    broker.answer(MetadataRequest, lambda *_: everybody)
    client.cluster([])
    deadline = client.deadline()
    connection = client.connection_to(ANY, deadline)
    first = connection.send(MetadataRequest(topics=[]), 12, deadline)
    monkeypatch.setattr(sync, "ANSWER_PATIENCE_S", 0.0)
    assert client.cluster([]).controller_id == 1
    assert connection.receive(first, deadline).controller_id == 1


@each(("{0}", "localhost:{1}", "localhost:{1},127.0.0.1:{1}"))
def test_the_only_broker_is_given_the_whole_time_under_however_many_names(names: str) -> None:
    """That of the bootstrap address and its own were taken for two brokers: it was asked a second time, as if it were another."""
    with (
        ScriptedBroker() as alone,
        pytest.MonkeyPatch.context() as patched,
        SyncClient(names.format(alone.address, alone.port), request_timeout_s=60) as client,
    ):
        client.cluster([])
        patched.setattr(sync, "ANSWER_PATIENCE_S", 0.0)
        before = len(alone.requests)
        client.cluster([])
        assert len(alone.requests) == before + 1


def two_addresses(broker: ScriptedBroker, client: SyncClient) -> None:
    everybody = broker.metadata()
    everybody.brokers.append(MetadataResponseBroker(node_id=2, host="127.0.0.1", port=1))
    broker.answer(MetadataRequest, lambda *_: everybody)
    client.cluster([])


def test_an_answer_that_has_begun_is_waited_for(
    broker: ScriptedBroker, client: SyncClient, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 100,000 partitions it has megabytes: from afar they take longer than it takes to see that a broker is stopped."""
    two_addresses(broker, client)
    read = SyncConnection._read_exactly

    def slowly(self: SyncConnection, size: int, *when: Any) -> memoryview:
        found = read(self, size, *when)
        clock.sleep(2 * sync.ANSWER_PATIENCE_S)
        return found

    monkeypatch.setattr(SyncConnection, "_read_exactly", slowly)
    before = len(broker.requests)
    assert client.cluster([]).controller_id == 1
    assert len(broker.requests) == before + 1


def test_a_broker_that_answers_many_short_questions_is_asked_them_once(
    broker: ScriptedBroker, client: SyncClient, clock: Clock
) -> None:
    """Before Kafka 3.0 each group is asked for by itself."""

    def one(request: FindCoordinatorRequest, version: int) -> FindCoordinatorResponse:
        clock.sleep(sync.ANSWER_PATIENCE_S / 4)
        return FindCoordinatorResponse(node_id=1)

    old = [
        ApiVersion(api_key=MetadataRequest.KEY, min_version=0, max_version=9),
        ApiVersion(api_key=FindCoordinatorRequest.KEY, min_version=0, max_version=3),
    ]
    broker.answer(ApiVersionsRequest, lambda *_: ApiVersionsResponse(api_keys=old))
    broker.answer(FindCoordinatorRequest, one)
    two_addresses(broker, client)
    before = len(broker.requests)
    names = [f"g{number}" for number in range(10)]
    assert coordinators(client, names) == dict.fromkeys(names, 1)
    assert len(broker.requests) == before + 10


def test_a_coordinator_is_looked_for_no_longer_than_was_said(
    broker: ScriptedBroker, client: SyncClient, clock: Clock
) -> None:
    answers = [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NONE]

    def late(request: Request, version: int) -> FindCoordinatorResponse:
        clock.sleep(0.8)
        return FindCoordinatorResponse(
            coordinators=[Coordinator(key="g", node_id=1, error_code=answers.pop(0))]
        )

    broker.answer(FindCoordinatorRequest, late)
    client.cluster([])
    with pytest.raises(DeadlineExceeded, match="no answer in time"):
        coordinators(client, ["g"], timeout_s=1)


def test_who_gave_no_answer_is_waited_for_once_in_one_look(broker: ScriptedBroker) -> None:
    goes_on = threading.Event()
    asked: list[str] = []

    def silent(request: Request, version: int) -> ListGroupsResponse:
        asked.append("silent")
        assert goes_on.wait(60)
        return ListGroupsResponse()

    def resets(request: Request, version: int) -> None:
        asked.append("reset")

    def waited_for(client: SyncClient) -> None:
        client.connection_to(1, client.deadline())
        with pytest.raises(ConnectionLost, match="no answer in time"):
            client.call(1, ListGroupsRequest(), timeout_s=0.05)

    with SyncClient(broker.address, request_timeout_s=60) as client:
        broker.answer(ListGroupsRequest, silent)
        with client.waiting_once():
            waited_for(client)
            with pytest.raises(Unreachable, match="no answer in time while waiting for ListGroups"):
                client.call(1, ListGroupsRequest())
            assert asked == ["silent"]
            with client.waiting_once():  # another look
                waited_for(client)
            for same in (1, CONTROLLER):
                with pytest.raises(Unreachable):
                    client.call(same, ListGroupsRequest())
            with pytest.raises(Unreachable):
                client.another(60).call(1, ListGroupsRequest())
        with client.waiting_once({1: "it hangs"}), pytest.raises(Unreachable, match="it hangs"):
            client.call(1, ListGroupsRequest())
        goes_on.set()
        assert client.call(CONTROLLER, MetadataRequest(topics=[])).controller_id == 1
        assert client.call(1, ListGroupsRequest()).groups == []
        asked.clear()
        broker.answer(ListGroupsRequest, resets)
        with client.waiting_once():
            for _ in range(2):
                with pytest.raises(ConnectionLost, match="closed"):
                    client.call(1, ListGroupsRequest())
        assert asked == ["reset"] * 2


def test_a_host_that_is_silent_is_not_waited_for_each_time_that_another_broker_is_asked(
    broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[int] = []
    original = SyncConnection

    def connect(address: Address, *, client_id: str, deadline: float) -> SyncConnection:
        tried.append(address.port)
        if address.port == 1:
            raise Unreachable("no broker answers there")
        return original(address, client_id=client_id, deadline=deadline)

    def metadata(request: Request, version: int) -> MetadataResponse:
        answer = broker.metadata()
        answer.brokers.append(MetadataResponseBroker(node_id=2, host="127.0.0.1", port=1))
        return answer

    monkeypatch.setattr(sync, "SyncConnection", connect)
    broker.answer(MetadataRequest, metadata)
    with SyncClient(broker.address, request_timeout_s=60) as client:
        for _ in range(5):
            client.leader(ORDERS)
            client.forget("orders")
    assert tried == [broker.port, 1]


def test_a_partition_without_a_leader_is_looked_up_anew_each_time(
    broker: ScriptedBroker, client: SyncClient
) -> None:
    broker.partitions["orders"] = [9]  # dead: Metadata does not name it among the brokers
    with pytest.raises(ProtocolError, match="orders-0 has no leader at the moment"):
        client.leader(ORDERS)
    broker.partitions["orders"] = [1]
    assert client.leader(ORDERS)[0] == 1


def test_a_topic_that_metadata_knows_no_more_is_forgotten(broker: ScriptedBroker, client: SyncClient) -> None:
    """Its id would be that of the topic before, should the name come again."""
    client.leader(ORDERS)
    assert client.known_topic_id("orders") == TOPIC_ID

    def metadata(request: Request, version: int) -> MetadataResponse:
        answer = broker.metadata()
        answer.topics = [
            MetadataResponseTopic(name="orders", error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        ]
        return answer

    broker.answer(MetadataRequest, metadata)
    assert client.cluster(["orders"]).errors == {"orders": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert client.known_topic_id("orders") == NO_TOPIC_ID
    with pytest.raises(ProtocolError, match="topic orders: UNKNOWN_TOPIC_OR_PARTITION"):
        client.leader(ORDERS)


def test_topics_that_are_not_among_all_any_more_are_forgotten(
    broker: ScriptedBroker, client: SyncClient
) -> None:
    """A client may live for months, and ask for all topics now and then."""
    for number in range(5):
        broker.partitions = {f"t-{number}": [1]}
        client.cluster()
    assert list(client._topics) == ["t-4"]
    client.cluster([])
    assert list(client._topics) == ["t-4"], "of topics nothing was asked"


def test_addresses_at_which_there_is_no_broker_any_more_are_forgotten(
    broker: ScriptedBroker, client: SyncClient
) -> None:
    """Brokers may come back at ever new ones."""
    everybody = broker.metadata()
    for _ in range(4):
        with ScriptedBroker() as other, socket.socket() as nobody:
            nobody.bind(("127.0.0.1", 0))
            live = [(2, other.port), (3, nobody.getsockname()[1])]
            rows = [MetadataResponseBroker(node_id=b, host="127.0.0.1", port=port) for b, port in live]
            now = MetadataResponse(brokers=[*everybody.brokers, *rows], cluster_id="c", controller_id=1)
            broker.answer(MetadataRequest, lambda request, version, now=now: now)
            client.cluster([])
            client.call(2, MetadataRequest(topics=[]))
            with pytest.raises(Unreachable):
                client.call(3, MetadataRequest(topics=[]))
            there = client._brokers[2].address
            client._doubted.add(there)
            client._connections[there].close()  # as the end of that broker does
    assert len(client._silent) == 1 and len(client._connections) == 2
    broker.answer(MetadataRequest, lambda request, version: everybody)
    client.cluster([])
    for held in (client._connections, client._doubted, client._silent):
        assert {address.port for address in held} <= {broker.port}


def test_a_broker_that_does_not_answer_is_asked_again_once_others_are_known(client: SyncClient) -> None:
    outcomes: list[object] = [Unreachable("no broker answers at 127.0.0.1:1"), 7]

    def attempt() -> object:
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    with pytest.raises(Unreachable):
        client.retrying(attempt)
    outcomes.insert(0, Unreachable("no broker answers at 127.0.0.1:1"))
    client.cluster()
    assert client.retrying(attempt) == 7


def test_a_connection_that_breaks_is_made_again(broker: ScriptedBroker, client: SyncClient) -> None:
    answers = [None, offsets_answer(0)]
    broker.answer(ListOffsetsRequest, lambda request, version: answers.pop(0))

    assert client.end_offsets([ORDERS]) == {ORDERS: 7}


def test_what_cannot_pass_is_not_tried_again(broker: ScriptedBroker, client: SyncClient) -> None:
    broker.answer(ListOffsetsRequest, lambda request, version: offsets_answer(29))

    with pytest.raises(ProtocolError, match="orders-0: TOPIC_AUTHORIZATION_FAILED"):
        client.end_offsets([ORDERS])
    assert len([r for r in broker.requests if isinstance(r, ListOffsetsRequest)]) == 1


def test_the_deadline_ends_trying_and_tells_the_last_answer(broker: ScriptedBroker, clock: Clock) -> None:
    broker.answer(ListOffsetsRequest, lambda request, version: offsets_answer(5))
    begun = clock.now

    with (
        SyncClient(broker.address, request_timeout_s=30.0) as client,
        pytest.raises(DeadlineExceeded, match="the last answer was: orders-0: LEADER_NOT_AVAILABLE"),
    ):
        client.end_offsets([ORDERS])
    assert begun + 29 < clock.now <= begun + 30, "it went on until then"


def test_a_code_from_the_future_is_told_by_its_number(broker: ScriptedBroker, client: SyncClient) -> None:
    broker.answer(ListOffsetsRequest, lambda request, version: offsets_answer(999))

    with pytest.raises(ProtocolError, match="orders-0: error code 999"):
        client.end_offsets([ORDERS])


def test_a_topic_that_does_not_exist_is_said_at_once(client: SyncClient) -> None:
    with pytest.raises(ProtocolError, match="topic nothing: UNKNOWN_TOPIC_OR_PARTITION"):
        client.topic("nothing")
    with pytest.raises(ProtocolError, match="orders-5: the topic has 1 partition, number 0"):
        client.leader(TopicPartition("orders", 5))


def test_a_batch_is_sent_again_only_where_nothing_was_appended(
    broker: ScriptedBroker, client: SyncClient
) -> None:
    batch = build_batch([NewRecord(b"k", b"v")])
    codes = [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NONE]
    broker.answer(ProduceRequest, lambda request, version: produce_answer(codes.pop(0)))
    assert client.produce(ORDERS, batch) == 42

    codes = [ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND]
    with pytest.raises(ProtocolError, match="NOT_ENOUGH_REPLICAS_AFTER_APPEND"):
        client.produce(ORDERS, batch)


def test_a_batch_whose_answer_was_lost_is_the_callers_to_judge(
    broker: ScriptedBroker, client: SyncClient
) -> None:
    broker.answer(ProduceRequest, lambda request, version: None)

    with pytest.raises(ConnectionLost, match="orders-0: whether the batch was appended is not known"):
        client.produce(ORDERS, build_batch([NewRecord(b"k", b"v")]))
    assert len([r for r in broker.requests if isinstance(r, ProduceRequest)]) == 1


def test_a_batch_that_nobody_answers_leaves_the_next_answer_to_the_next_request(
    broker: ScriptedBroker,
) -> None:
    broker.answer(ProduceRequest, lambda request, version: b"")
    with SyncClient(broker.address, request_timeout_s=60) as client:
        client.cluster()
        assert client.produce(ORDERS, build_batch([NewRecord(b"k", b"v")]), acks=0) == -1
        assert client.cluster().controller_id == 1
    assert len([r for r in broker.requests if isinstance(r, ApiVersionsRequest)]) == 1, "one connection"


def test_without_a_controller_a_request_to_it_is_a_sentence(
    broker: ScriptedBroker, client: SyncClient
) -> None:
    def metadata(request: Request, version: int) -> object:
        answer = broker.metadata()
        answer.controller_id = -1
        return answer

    broker.answer(MetadataRequest, metadata)  # type: ignore[arg-type]

    with pytest.raises(Unreachable, match="no controller at the moment"):
        client.call(CONTROLLER, MetadataRequest())


# Order of answers -------------------------------------------------------------------------------------------


def test_answers_may_be_asked_for_in_any_order(client: SyncClient) -> None:
    deadline = client.deadline()
    connection = client.connection_to(ANY, deadline)
    first = connection.send(MetadataRequest(topics=[]), 12, deadline)
    second = connection.send(MetadataRequest(topics=None), 12, deadline)

    # What came on the way is kept aside: the buffer is the second one's.
    assert connection.receive(second, deadline, FrameBuffer()).controller_id == 1
    assert connection.receive(first, deadline).controller_id == 1


def test_a_broker_at_whose_address_nobody_answers_is_looked_up_anew_also_where_no_leader_is_asked_for(
    broker: ScriptedBroker, client: SyncClient
) -> None:
    """A coordinator, or the controller: it came back at another address."""
    for asked in (1, CONTROLLER):
        ports = [1]  # of its life before

        def metadata(request: Request, version: int, ports: list[int] = ports) -> MetadataResponse:
            answer = broker.metadata()
            answer.brokers[0].port = ports.pop() if ports else broker.port
            return answer

        broker.answer(MetadataRequest, metadata)
        client.cluster([])
        answer = client.retrying(
            lambda asked=asked: client.call(asked, MetadataRequest(topics=[])),  # type: ignore[misc]
            timeout_s=60.0,
        )
        assert answer.controller_id == 1


def test_a_broker_that_was_not_reached_once_and_is_now_is_not_looked_up_for_each_call(
    broker: ScriptedBroker, client: SyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ScriptedBroker() as other:
        refusals = ["nobody there"]

        def connect(address: Address, **options: Any) -> SyncConnection:
            if address.port == other.port and refusals:
                raise Unreachable(refusals.pop())
            return SyncConnection(address, **options)

        def metadata(request: Request, version: int) -> MetadataResponse:
            answer = broker.metadata()
            answer.brokers.append(MetadataResponseBroker(node_id=2, host="127.0.0.1", port=other.port))
            return answer

        broker.answer(MetadataRequest, metadata)
        client.cluster([])
        monkeypatch.setattr(sync, "SyncConnection", connect)
        with pytest.raises(Unreachable):
            client.call(2, MetadataRequest(topics=[]))
        client.call(2, MetadataRequest(topics=[]))
        before = len(broker.requests)
        client.call(2, MetadataRequest(topics=[]))
        assert len(broker.requests) == before


def test_to_look_up_where_a_broker_is_takes_no_more_time_than_the_call_has(
    broker: ScriptedBroker, client: SyncClient, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []
    receive = SyncConnection.receive

    def noted(self: SyncConnection, pending: Any, deadline: float, *into: Any) -> Any:
        waited.append(deadline - clock.now)
        return receive(self, pending, deadline, *into)

    def metadata(request: Request, version: int) -> MetadataResponse:
        answer = broker.metadata()
        answer.brokers.append(MetadataResponseBroker(node_id=2, host="127.0.0.1", port=1))
        answer.controller_id = 2
        return answer

    broker.answer(MetadataRequest, metadata)
    client.cluster([])
    monkeypatch.setattr(SyncConnection, "receive", noted)
    for asked in (2, CONTROLLER, 3):  # known, and nobody answers there; or not known at all
        for _ in range(2):
            with pytest.raises(Unreachable):
                client.call(asked, MetadataRequest(topics=[]), timeout_s=2.0)
    assert waited and max(waited) <= 2.0


def test_a_topic_is_waited_for_no_longer_than_was_said(
    broker: ScriptedBroker, client: SyncClient, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that is stopped, and the only one, used to be given all of what a request may take."""
    waited: list[float] = []
    receive = SyncConnection.receive

    def noted(self: SyncConnection, pending: Any, deadline: float, *into: Any) -> Any:
        waited.append(deadline - clock.now)
        clock.now += 3.0
        return receive(self, pending, deadline + 60, *into)

    monkeypatch.setattr(SyncConnection, "receive", noted)
    broker.partitions = {}
    with pytest.raises(DeadlineExceeded):
        client.topic("orders", timeout_s=10.0, is_known=True)
    assert len(waited) == 4 and max(waited) <= 10.0 and waited[-1] <= 1.0


def test_another_controller_is_looked_up_where_the_last_one_does_not_answer(
    broker: ScriptedBroker, client: SyncClient
) -> None:
    ids = [2]  # it died

    def metadata(request: Request, version: int) -> MetadataResponse:
        answer = broker.metadata()
        answer.brokers.append(MetadataResponseBroker(node_id=2, host="127.0.0.1", port=1))
        answer.controller_id = ids.pop() if ids else 1
        return answer

    broker.answer(MetadataRequest, metadata)
    client.cluster([])
    answer = client.retrying(lambda: client.call(CONTROLLER, MetadataRequest(topics=[])), timeout_s=60.0)
    assert answer.controller_id == 1


def test_whoever_left_the_cluster_and_is_doubted_stays_doubted_as_long_as_it_is_connected(
    broker: ScriptedBroker,
) -> None:
    """The others do not name it any more; it answers, and knows nothing of that."""
    with ScriptedBroker() as left:
        row = MetadataResponseBroker(node_id=2, host="127.0.0.1", port=left.port)
        before = MetadataResponse(brokers=[row, *broker.metadata().brokers], cluster_id="c", controller_id=2)
        left.answer(MetadataRequest, lambda *_: before)
        broker.answer(MetadataRequest, lambda *_: before)
        with SyncClient(f"localhost:{broker.port}", request_timeout_s=60) as client:
            client.cluster([])
            client.call(2, MetadataRequest(topics=[]))
            client._connections[Address("localhost", broker.port)].close()
            broker.answer(MetadataRequest, lambda *_: broker.metadata())

            assert client.cluster([]).controller_id == 2
            client.forget("orders")  # what it said has led nowhere
            asked = len(left.requests)
            for _ in range(3):
                assert client.cluster([]).controller_id == 1
            assert len(left.requests) == asked


def test_those_that_answer_are_asked_by_turns_though_one_is_silent(broker: ScriptedBroker) -> None:
    """What each of them has said has led nowhere: whichever hears of the news first is asked soon."""
    with ScriptedBroker() as other:
        row = MetadataResponseBroker(node_id=2, host="127.0.0.1", port=other.port)
        both = MetadataResponse(brokers=[*broker.metadata().brokers, row], cluster_id="c", controller_id=1)
        for one in (broker, other):
            one.answer(MetadataRequest, lambda *_: both)
        with SyncClient(f"127.0.0.1:1,{broker.address}", request_timeout_s=60) as client:
            asked = []
            for _ in range(6):
                before = len(broker.requests)
                client.cluster([])
                asked.append(len(broker.requests) > before)
                client.forget("orders")
        assert asked == [True, False] * 3


def test_a_batch_that_was_not_sent_yet_is_sent_where_the_answer_about_its_leader_was_lost(
    broker: ScriptedBroker, client: SyncClient
) -> None:
    answers = [None]

    def metadata(request: Request, version: int) -> MetadataResponse | None:
        return answers.pop() if answers else broker.metadata()

    broker.answer(MetadataRequest, metadata)
    broker.answer(ProduceRequest, lambda request, version: produce_answer(0))
    assert client.produce(ORDERS, build_batch([NewRecord(b"k", b"v")])) == 42


def test_a_batch_whose_answer_cannot_be_read_may_be_in_the_log(
    broker: ScriptedBroker, client: SyncClient
) -> None:
    unreadable = struct.pack(
        ">iib", 5, 2, 0
    )  # a header, the third answer of this connection, and nothing behind it
    broker.answer(ProduceRequest, lambda request, version: unreadable)

    with pytest.raises(ConnectionLost, match="orders-0: whether the batch was appended is not known"):
        client.produce(ORDERS, build_batch([NewRecord(b"k", b"v")]))


def test_one_answer_that_never_comes_does_not_take_all_the_time_there_is(
    broker: ScriptedBroker, client: SyncClient, clock: Clock
) -> None:
    """A leader is stopped, or its network is gone: somebody else leads by the time that a request may take."""
    silent = [True]

    def listed(request: Request, version: int) -> ListOffsetsResponse | None:
        if not silent:
            return offsets_answer(0)
        silent.pop()
        clock.now += client.request_timeout_s
        return None

    broker.answer(ListOffsetsRequest, listed)
    assert client.list_offsets({ORDERS: LATEST})[ORDERS].offset == 7

    silent += [True] * 5
    with pytest.raises(DeadlineExceeded):
        client.list_offsets({ORDERS: LATEST})
    assert len(silent) == 3, "there is a second one, and no third"

    with pytest.raises(DeadlineExceeded):
        client.list_offsets({ORDERS: LATEST}, timeout_s=client.request_timeout_s)
    assert len(silent) == 2, "who says how long has no more time than that"


@pytest.mark.parametrize("error", [RuntimeError("can't start new thread"), MemoryError()], ids=repr)
def test_a_name_that_finds_no_thread_is_told_as_a_sentence(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse_thread(thread: threading.Thread) -> None:
        raise error

    monkeypatch.setattr(threading.Thread, "start", refuse_thread)
    with pytest.raises(Unreachable, match=r"no thread to look up localhost by: raise the limit of processes"):
        SyncClient("localhost:1", bootstrap_timeout_s=0.2).cluster()


@pytest.mark.parametrize("want", ["unknown", "a zero byte", "no thread", "hangs", "port"])
def test_a_host_of_a_stranger_is_told_without_its_control_characters(
    monkeypatch: pytest.MonkeyPatch, want: str
) -> None:
    """It stands in the answers of brokers, and its messages on terminals and in logs."""
    host = "b\x1b[2J\n[2026] forged.invalid" + ("\0" if want == "a zero byte" else "")

    def refuse_thread(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    if want == "no thread":
        monkeypatch.setattr(threading.Thread, "start", refuse_thread)
    elif want == "hangs":
        monkeypatch.setattr(threading.Thread, "start", lambda thread: None)
        monkeypatch.setattr(threading.Thread, "join", lambda thread, timeout: None)
    address = sync_connection.Address(host, 70_000 if want == "port" else 9092)
    with pytest.raises(Unreachable) as told:
        sync_connection._connect(address, time.monotonic() + 60)
    assert str(told.value).isprintable() and "b\\x1b[2J\\n[2026] forged.invalid" in str(told.value)
