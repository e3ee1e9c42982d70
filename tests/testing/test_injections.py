"""Faults between a client and a broker: which requests they meet, and what the client hears."""

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from odradek.broker.answers import NO_REPLY, Answer, CloseConnection, NoReply, Park, Reply
from odradek.broker.request import ConnectionInfo, Request
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ConfigurationError
from odradek.protocol import messages
from odradek.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from odradek.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from odradek.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from odradek.protocol.messages.produce import ProduceRequest
from odradek.protocol.schema import Request as Message
from odradek.server.links import client_id_of
from odradek.testing import administration
from odradek.testing.error_answers import answer_with
from odradek.testing.injections import Injection, Injections, Intercepted
from tests.testing.test_error_answers import ERROR, found_in, partitions_of, produce

VERSION = 9
NAME = "NOT_ENOUGH_REPLICAS"


class Shell:
    """A broker that does all it is asked, and a loop whose timers a test lets go off."""

    def __init__(self) -> None:
        self.injections = Injections()
        self.handled: list[Message] = []
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.parks = False
        self.parked: list[Park] = []
        self.answers: dict[int, Any] = {}
        self.now_ms = 7
        self.runtime: Any = None
        self.intercepted = Intercepted(
            self.injections,
            1,
            self.handle,
            self,  # type: ignore[arg-type]
            lambda: self.now_ms,
            lambda: self.runtime,
        )

    def call_later(self, delay_s: float, do: Callable[[], None]) -> None:
        self.timers.append((delay_s, do))

    def handle(self, request: Request, now_ms: int) -> Answer:
        message = messages.request_class(request.api_key).decode(request.api_version, bytes(request.body))
        self.handled.append(message)
        answer = self.answers.get(request.api_key) or answer_with(message, request.api_version, 0)
        if isinstance(message, ProduceRequest) and message.acks == 0:
            return NO_REPLY
        reply = Reply([answer.encode(request.api_version)], throttle_time_ms=5)
        if not self.parks:
            return reply
        self.parked.append(Park())
        return self.parked[-1]

    def inject(self, api: str = "Produce", **options: Any) -> Injection:
        usual = {
            "error": None,
            "close": False,
            "delay_s": 0.0,
            "after": False,
            "broker": None,
            "client_id": None,
            "topic": None,
            "partition": None,
            "skip": 0,
            "times": None,
            "share": 1.0,
            "seed": 0,
        }
        return self.injections.add(Injection(self.injections, api, **{**usual, **options}))

    def ask(self, message: Message, version: int = VERSION, client: str = "c", held: bool = False) -> Answer:
        frame = bytearray(message.encode(version))
        request = Request(
            message.KEY,
            version,
            1,
            client,
            memoryview(frame),
            ConnectionInfo(1, "127.0.0.1:5", "PLAINTEXT"),
        )
        answer = self.intercepted(request.held() if held else request, self.now_ms)
        frame[:] = bytes(len(frame))  # the next one is read into the same memory
        return answer

    def hears(self, message: Message, version: int = VERSION, **how: Any) -> Any:
        answer = self.ask(message, version, **how)
        assert isinstance(answer, Reply), answer
        return said(answer, message, version)


def said(reply: Reply, message: Message, version: int = VERSION) -> Any:
    return messages.response_class(message.KEY).decode(version, b"".join(map(bytes, reply.buffers)))  # type: ignore[arg-type]


ORDERS = {"orders": (0, 1), "audit": (0,)}


def test_an_error_comes_in_place_of_the_answer_and_nothing_is_done() -> None:
    shell = Shell()
    injection = shell.inject(error=NAME)

    answer = shell.hears(produce(ORDERS))

    assert set(found_in(answer.responses).values()) == {ERROR}
    assert shell.handled == []
    assert injection.hits == 1


def test_the_rest_of_a_request_is_done_as_ever() -> None:
    shell = Shell()
    shell.inject(error=NAME, topic="orders", partition=1)

    answer = shell.hears(produce(ORDERS))

    assert [partitions_of(message) for message in shell.handled] == [{("orders", 0), ("audit", 0)}]
    assert found_in(answer.responses) == {("orders", 0): 0, ("orders", 1): ERROR, ("audit", 0): 0}


def test_the_rest_is_done_before_a_connection_is_closed_for_what_is_named() -> None:
    shell = Shell()
    shell.inject(close=True, topic="orders", partition=1)

    assert isinstance(shell.ask(produce(ORDERS)), CloseConnection)

    assert [partitions_of(message) for message in shell.handled] == [{("orders", 0), ("audit", 0)}]
    assert isinstance(shell.ask(produce({"orders": (1,)})), CloseConnection)
    assert len(shell.handled) == 1, "nothing was left of it"
    shell.inject("Fetch", close=True, topic="orders")
    assert isinstance(shell.ask(fetch(), 12), CloseConnection)
    assert len(shell.handled) == 1, "a read waits for records"


def test_the_rest_may_be_answered_later() -> None:
    shell = Shell()
    shell.parks = True
    shell.inject(error=NAME, topic="audit")

    place = shell.ask(produce(ORDERS))
    assert isinstance(place, Park)
    assert place.result is None
    (rest,) = shell.handled
    shell.parked[0].complete(Reply([answer_with(rest, VERSION, 0).encode(VERSION)]))

    assert isinstance(place.result, Reply)
    found = found_in(said(place.result, produce(ORDERS)).responses)
    assert found == {("orders", 0): 0, ("orders", 1): 0, ("audit", 0): ERROR}


def test_a_topic_that_is_not_named_is_not_met() -> None:
    shell = Shell()
    injection = shell.inject(error=NAME, topic="payments")

    shell.hears(produce(ORDERS))

    assert (len(shell.handled), injection.hits) == (1, 0)


def test_with_after_it_is_done_and_the_client_hears_of_a_failure() -> None:
    shell = Shell()
    injection = shell.inject(error=NAME, after=True, topic="orders")

    answer = shell.hears(produce(ORDERS))

    assert [partitions_of(message) for message in shell.handled] == [partitions_of(produce(ORDERS))]
    assert found_in(answer.responses) == {("orders", 0): ERROR, ("orders", 1): ERROR, ("audit", 0): 0}
    assert injection.hits == 1


def test_what_is_only_asked_is_answered_with_the_error_in_its_place() -> None:
    shell = Shell()
    shell.answers[1] = FetchResponse(
        responses=[
            FetchableTopicResponse(
                topic="orders",
                partitions=[PartitionData(partition_index=0), PartitionData(partition_index=1)],
            )
        ]
    )
    injection = shell.inject("Fetch", error="NOT_LEADER_OR_FOLLOWER", topic="orders", partition=1)

    answer = shell.hears(fetch(), 12)

    codes = [partition.error_code for partition in answer.responses[0].partitions]
    assert codes == [0, ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert injection.hits == 1

    shell.answers[1] = FetchResponse()  # of a session in which nothing is new
    shell.hears(fetch(), 12)
    assert injection.hits == 1


def test_a_connection_is_closed_before_or_after_it_is_done() -> None:
    shell = Shell()
    with shell.inject(close=True):
        assert isinstance(shell.ask(produce(ORDERS)), CloseConnection)
    assert shell.handled == []

    shell.parks = True
    shell.inject(close=True, after=True)
    place = shell.ask(produce(ORDERS))
    assert isinstance(place, Park)
    assert (len(shell.handled), place.result) == (1, None)
    shell.parked[0].complete(NoReply())
    assert isinstance(place.result, CloseConnection)


def test_late_is_done_late_and_with_after_answered_late() -> None:
    shell = Shell()
    with shell.inject(delay_s=2.5):
        place = shell.ask(produce(ORDERS))
    assert isinstance(place, Park)
    assert shell.handled == []
    ((delay_s, go_off),) = shell.timers
    go_off()
    assert (delay_s, len(shell.handled)) == (2.5, 1)
    assert isinstance(place.result, Reply)

    with shell.inject(delay_s=1.0, after=True):
        place = shell.ask(produce(ORDERS))
    assert isinstance(place, Park)
    assert (len(shell.handled), place.result) == (2, None)
    shell.timers[1][1]()
    assert isinstance(place.result, Reply)


def test_what_a_connection_asks_while_a_request_of_it_waits_is_done_after_it() -> None:
    shell = Shell()
    with shell.inject(delay_s=2.0, topic="orders", times=2) as late:
        places = [shell.ask(produce({topic: (0,)})) for topic in ("orders", "audit")]
        shell.now_ms += 500
        places += [shell.ask(produce({topic: (0,)})) for topic in ("orders", "payments")]
    assert shell.handled == []
    assert len(shell.timers) == 1

    shell.now_ms += 1500
    shell.timers[0][1]()
    assert [set(partitions_of(message)) for message in shell.handled] == [
        {("orders", 0)},
        {("audit", 0)},
        {("orders", 0)},
        {("payments", 0)},
    ]
    assert all(isinstance(place, Park) and isinstance(place.result, Reply) for place in places)
    assert late.hits == 1, "the second one was removed before anything met it"
    assert isinstance(shell.ask(produce(ORDERS)), Reply)


def test_each_of_several_late_requests_is_late_by_as_much_from_when_it_came() -> None:
    shell = Shell()
    late = shell.inject(delay_s=2.0)
    shell.ask(produce(ORDERS))
    shell.now_ms += 500
    shell.ask(produce(ORDERS))
    shell.ask(produce(ORDERS))

    shell.now_ms += 1500
    shell.timers[0][1]()
    assert (len(shell.handled), len(shell.timers), shell.timers[1][0]) == (1, 2, 0.5)
    shell.now_ms += 500
    shell.timers[1][1]()
    shell.timers[2][1]()

    assert shell.timers[2][0] == 0.0
    assert (len(shell.handled), late.hits) == (3, 3)


def test_what_waits_behind_a_request_that_two_faults_delay_waits_for_both() -> None:
    """Two batches of an idempotent producer, in one write."""
    shell = Shell()
    shell.inject(delay_s=1.0, times=1)
    shell.inject(delay_s=2.0, times=1)
    shell.ask(produce({"orders": (0,)}))
    shell.ask(produce({"audit": (0,)}))

    shell.now_ms += 1000
    shell.timers[0][1]()
    assert shell.handled == []

    shell.now_ms += 1000
    shell.timers[1][1]()
    assert [set(partitions_of(message)) for message in shell.handled] == [{("orders", 0)}, {("audit", 0)}]


def test_a_late_request_is_not_done_by_a_broker_that_has_ended() -> None:
    shell = Shell()
    shell.runtime = SimpleNamespace(parts=None)
    shell.inject(delay_s=1.0)
    shell.ask(produce(ORDERS))

    shell.runtime = SimpleNamespace(parts=None)  # the next one, on the same files
    shell.timers[0][1]()

    assert shell.handled == []


def test_faults_of_one_api_about_several_topics_are_all_met() -> None:
    shell = Shell()
    first = shell.inject(error=NAME, topic="orders")
    second = shell.inject(error="MESSAGE_TOO_LARGE", after=True, topic="audit")
    third = shell.inject(close=True, topic="payments")
    answer = shell.hears(produce(ORDERS))
    large = int(ErrorCode.MESSAGE_TOO_LARGE)
    assert found_in(answer.responses) == {("orders", 0): ERROR, ("orders", 1): ERROR, ("audit", 0): large}
    assert isinstance(shell.ask(produce({"payments": (0,)})), CloseConnection)
    assert (first.hits, second.hits, third.hits) == (1, 1, 1)


def test_of_several_faults_about_the_same_the_first_is_met() -> None:
    shell = Shell()
    first, second = (
        shell.inject("Heartbeat", error=code, after=True, times=1)
        for code in ("REBALANCE_IN_PROGRESS", "UNKNOWN_MEMBER_ID")
    )

    heard = [shell.hears(HeartbeatRequest(group_id="g"), 4).error_code for _ in range(3)]

    assert heard == [ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.UNKNOWN_MEMBER_ID, 0]
    assert (first.hits, second.hits) == (1, 1)


def test_what_has_failed_with_all_others_does_not_fail_once_more_by_itself() -> None:
    shell = Shell()
    every = shell.inject(error=NAME, after=True)
    one = shell.inject(error="MESSAGE_TOO_LARGE", after=True, topic="audit")

    answer = shell.hears(produce(ORDERS))

    assert set(found_in(answer.responses).values()) == {ERROR}
    assert (every.hits, one.hits) == (1, 0)


def test_what_a_late_error_does_not_meet_is_not_late() -> None:
    shell = Shell()
    shell.inject(error=NAME, after=True, delay_s=1.0, topic="payments")
    shell.inject("Heartbeat", error="REBALANCE_IN_PROGRESS", after=True, delay_s=1.0, skip=1)

    assert isinstance(shell.ask(produce(ORDERS)), Reply)
    assert isinstance(shell.ask(HeartbeatRequest(group_id="g"), 4), Reply)
    assert isinstance(shell.ask(HeartbeatRequest(group_id="g"), 4), Park)


def test_an_error_may_be_late_too() -> None:
    shell = Shell()
    shell.inject(error=NAME, delay_s=1.0)

    place = shell.ask(produce(ORDERS))
    assert isinstance(place, Park)
    assert place.result is None
    shell.timers[0][1]()

    assert isinstance(place.result, Reply)
    assert set(found_in(said(place.result, produce(ORDERS)).responses).values()) == {ERROR}


def test_whoever_wants_no_answer_gets_none() -> None:
    shell = Shell()
    shell.inject(error=NAME)
    asked = produce(ORDERS)
    asked.acks = 0

    assert shell.ask(asked) is NO_REPLY
    assert shell.handled == []


def test_some_pass_then_so_many_are_met() -> None:
    shell = Shell()
    injection = shell.inject("Heartbeat", error="REBALANCE_IN_PROGRESS", skip=2, times=2)

    heard = [shell.hears(HeartbeatRequest(group_id="g"), 4).error_code for _ in range(6)]

    met = int(ErrorCode.REBALANCE_IN_PROGRESS)
    assert heard == [0, 0, met, met, 0, 0]
    assert injection.hits == 2


def test_a_share_is_drawn_by_its_seed_and_drawn_again() -> None:
    def heard(seed: int) -> list[int]:
        shell = Shell()
        shell.inject("Heartbeat", error="REBALANCE_IN_PROGRESS", share=0.5, seed=seed)
        return [shell.hears(HeartbeatRequest(group_id="g"), 4).error_code for _ in range(40)]

    assert heard(3) == heard(3)
    assert heard(3) != heard(4)
    assert 5 < heard(3).count(0) < 35


def test_of_a_share_those_count_that_are_met() -> None:
    shell = Shell()
    injection = shell.inject("Heartbeat", error="REBALANCE_IN_PROGRESS", share=0.5, seed=3, times=5)
    heard = [shell.hears(HeartbeatRequest(group_id="g"), 4).error_code for _ in range(60)]
    assert heard.count(int(ErrorCode.REBALANCE_IN_PROGRESS)) == injection.hits == 5
    assert 0 in heard[:5]


def test_only_the_broker_and_the_client_that_are_named() -> None:
    shell = Shell()
    shell.inject(error=NAME, broker=2)
    shell.inject(error=NAME, client_id="billing")

    shell.hears(produce(ORDERS), client="other")
    assert len(shell.handled) == 1
    shell.hears(produce(ORDERS), client="billing")
    assert len(shell.handled) == 1


def test_neither_brokers_nor_the_tests_own_questions_are_met() -> None:
    shell = Shell()
    shell.inject("Fetch", close=True)
    shell.inject(close=True)
    of_old, of_now = fetch(), fetch()
    of_old.replica_id = 2
    of_now.replica_state.replica_id = 2

    assert isinstance(shell.ask(of_old, 12), Reply)
    assert isinstance(shell.ask(of_now, 15), Reply)
    assert isinstance(shell.ask(fetch(), 12), CloseConnection)
    assert isinstance(shell.ask(produce(ORDERS), client=administration.CLIENT_ID), Reply)
    assert isinstance(shell.ask(produce(ORDERS), held=True), Reply), "it was met when it came"


def test_what_is_removed_is_met_no_more_and_others_are() -> None:
    shell = Shell()
    first = shell.inject(error=NAME)
    second = shell.inject("Heartbeat", error="REBALANCE_IN_PROGRESS")

    first.remove()
    first.remove()

    assert set(found_in(shell.hears(produce(ORDERS)).responses).values()) == {0}
    assert isinstance(shell.hears(HeartbeatRequest(group_id="g"), 4), HeartbeatResponse)
    assert (first.hits, second.hits) == (0, 1)


def test_what_is_removed_while_a_request_waits_does_not_meet_it_any_more() -> None:
    shell = Shell()
    shell.inject(delay_s=1.0)
    with shell.inject(error=NAME) as ended:
        shell.ask(produce(ORDERS))

    shell.timers[0][1]()
    assert (len(shell.handled), ended.hits) == (1, 0)


def test_a_request_that_cannot_be_read_is_the_brokers_to_refuse() -> None:
    shell = Shell()
    shell.inject(error=NAME)
    request = Request(0, VERSION, 1, "c", memoryview(b"\xff"), ConnectionInfo(1, "127.0.0.1:5", "PLAINTEXT"))

    with pytest.raises(Exception, match="ProduceRequest version 9"):
        shell.intercepted(request, 7)


@pytest.mark.parametrize(
    ("api", "options", "sentence"),
    [
        ("Produse", {"error": NAME}, "Produse: no such API; did you mean Produce?"),
        ("Produce", {"error": "NOT_ENOUGH_REPLICA"}, "did you mean NOT_ENOUGH_REPLICAS?"),
        ("Produce", {"error": "NONE"}, "NONE: no such error"),
        ("Produce", {}, "say what goes wrong"),
        ("Produce", {"error": NAME, "close": True}, "leave error out"),
        ("Produce", {"delay_s": -1.0}, "seconds from 0 on"),
        ("Produce", {"delay_s": math.nan}, "seconds from 0 on"),
        ("Produce", {"close": True, "skip": -1}, "skip is -1; 0 or more"),
        ("Produce", {"close": True, "topic": "orders", "partition": -1}, "partition is -1; 0 or more"),
        ("Produce", {"close": True, "partition": 1}, "of which topic"),
        ("Produce", {"close": True, "times": 0}, "1 or more"),
        ("JoinGroup", {"error": NAME, "topic": "orders"}, "no request of it names a topic; leave topic out"),
        ("IncrementalAlterConfigs", {"close": True, "topic": "orders"}, "leave topic out"),
        ("FindCoordinator", {"error": NAME, "topic": "orders"}, "its answer has no error of one topic"),
        ("DescribeLogDirs", {"error": NAME, "topic": "orders"}, "its answer has no error of one topic"),
        (
            "ConsumerGroupHeartbeat",
            {"error": NAME, "topic": "orders"},
            "its answer has no error of one topic",
        ),
        ("CreateTopics", {"error": NAME, "topic": "orders", "partition": 0}, "leave partition out"),
        (
            "Metadata",
            {"delay_s": 1.0, "topic": "orders", "partition": 0},
            "names a partition; leave partition out",
        ),
        ("Produce", {"close": True, "share": 0.0}, "above 0"),
        ("AlterReplicaLogDirs", {"error": NAME}, "needs after=True"),
    ],
)
def test_what_cannot_be_meant_is_refused_at_once(api: str, options: dict[str, Any], sentence: str) -> None:
    shell = Shell()

    with pytest.raises(ConfigurationError) as refused:
        shell.inject(api, **options)

    assert sentence in str(refused.value)
    assert shell.injections.all == ()


@pytest.mark.parametrize(
    ("api", "options"),
    [
        ("Fetch", {"error": NAME, "partition": 0}),
        ("Metadata", {"error": NAME, "partition": 0}),
        ("Metadata", {"close": True}),
        ("DeleteTopics", {"error": NAME}),
        ("OffsetFetch", {"close": True, "partition": 0}),
        ("AddPartitionsToTxn", {"error": NAME, "partition": 0}),
        ("AlterPartition", {"error": NAME, "partition": 0}),
        ("ElectLeaders", {"error": NAME, "partition": 0}),
        ("StopReplica", {"error": NAME, "partition": 0}),
        ("DescribeLogDirs", {"delay_s": 1.0, "partition": 0}),
    ],
)
def test_a_topic_may_be_named_wherever_something_is_asked_or_said_of_it(
    api: str, options: dict[str, Any]
) -> None:
    assert Shell().inject(api, topic="orders", **options).topic == "orders"


def test_what_a_group_asks_of_its_topics_is_met_by_topic_and_partition() -> None:
    def asked(topic: str, *partitions: int) -> OffsetFetchRequest:
        wanted = OffsetFetchRequestTopics(name=topic, partition_indexes=list(partitions))
        return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=[wanted])])

    shell = Shell()
    fault = shell.inject("OffsetFetch", close=True, topic="orders", partition=1)

    assert isinstance(shell.ask(asked("audit", 1)), Reply)
    assert isinstance(shell.ask(asked("orders", 0)), Reply)
    assert isinstance(shell.ask(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g")])), Reply)
    assert isinstance(shell.ask(asked("orders", 0, 1)), CloseConnection)
    assert fault.hits == 1


def test_a_broker_that_asks_another_is_not_met() -> None:
    shell = Shell()
    faults = [shell.inject(api, close=True) for api in ("ApiVersions", "AddPartitionsToTxn")]

    for message, version in ((ApiVersionsRequest(), 4), (AddPartitionsToTxnRequest(), 5)):
        for purpose in ("to-controller", "to-broker", "cleaner"):
            assert isinstance(shell.ask(message, version, client=client_id_of(2, purpose)), Reply)
    assert [fault.hits for fault in faults] == [0, 0]

    assert isinstance(shell.ask(ApiVersionsRequest(), 4, client="broker-2"), CloseConnection)


def test_names_are_read_as_people_write_them() -> None:
    assert Shell().inject("offset_commit", error="not_coordinator").api == 8


def fetch() -> FetchRequest:
    topic = FetchTopic(topic="orders", partitions=[FetchPartition(partition=n) for n in (0, 1)])
    return FetchRequest(topics=[topic])
