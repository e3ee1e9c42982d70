"""One question to every broker: side by side, and what one does not say keeps back nobody else's answer."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from odradek.client import sync, sync_connection
from odradek.client.sync import SyncClient
from odradek.client.sync_brokers import of_every_broker
from odradek.client.sync_connection import ConnectionLost, DeadlineExceeded
from odradek.client.sync_groups import list_groups
from odradek.client.sync_transactions import list_transactions
from odradek.model.error_codes import ErrorCode
from odradek.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from odradek.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)
from odradek.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from tests.client.support import ScriptedBroker

MEETING_S = 20.0  # a machine may be busy; who is asked alone waits so long, and is red


@pytest.fixture
def brokers() -> Iterator[list[ScriptedBroker]]:
    """1 and 2 answer. 3 takes connections and says nothing, as one that is stopped."""
    with contextlib.ExitStack() as stack:
        answering = [stack.enter_context(ScriptedBroker()) for _ in range(2)]
        stopped = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        ports = [*(broker.port for broker in answering), stopped.getsockname()[1]]
        rows = [MetadataResponseBroker(node_id=n, host="127.0.0.1", port=p) for n, p in enumerate(ports, 1)]
        for broker in answering:
            broker.answer(
                MetadataRequest, lambda *_: MetadataResponse(brokers=rows, controller_id=1, topics=[])
            )
        yield answering


@pytest.fixture
def client(brokers: list[ScriptedBroker]) -> Iterator[SyncClient]:
    with SyncClient(brokers[0].address) as connected:
        yield connected


def groups_of(broker: int) -> ListGroupsResponse:
    return ListGroupsResponse(groups=[ListedGroup(group_id=f"of-{broker}")])


def test_every_broker_is_asked_before_any_has_answered(
    brokers: list[ScriptedBroker], client: SyncClient
) -> None:
    both = threading.Barrier(2)

    def answer(broker: int) -> ListGroupsResponse:
        both.wait(MEETING_S)
        return groups_of(broker)

    for number, broker in enumerate(brokers, 1):
        broker.answer(ListGroupsRequest, lambda *_, number=number: answer(number))
    told = of_every_broker(client, ListGroupsRequest(), brokers=[2, 1], timeout_s=2 * MEETING_S)
    assert [(b, [g.group_id for g in a.groups]) for b, a in told.answers.items()] == [
        (1, ["of-1"]),
        (2, ["of-2"]),
    ]
    assert told.problems == {}


@pytest.mark.parametrize("threads", [0, 1])
@pytest.mark.parametrize("error", [RuntimeError("can't start new thread"), MemoryError()], ids=repr)
def test_for_want_of_threads_brokers_are_asked_one_after_the_other(
    brokers: list[ScriptedBroker],
    client: SyncClient,
    monkeypatch: pytest.MonkeyPatch,
    threads: int,
    error: Exception,
) -> None:
    for number, broker in enumerate(brokers, 1):
        broker.answer(ListGroupsRequest, lambda *_, number=number: groups_of(number))
    left = threads
    start = threading.Thread.start

    def scarce(thread: threading.Thread) -> None:
        nonlocal left
        if thread.name.startswith("broker "):
            if not left:
                raise error
            left -= 1
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", scarce)
    told = of_every_broker(client, ListGroupsRequest(), brokers=[1, 2], timeout_s=MEETING_S)
    assert list(told.answers) == [1, 2] and told.problems == {}


def test_a_silent_broker_is_named_and_the_groups_of_the_others_are_listed(
    brokers: list[ScriptedBroker], client: SyncClient
) -> None:
    for number, broker in enumerate(brokers, 1):
        broker.answer(ListGroupsRequest, lambda *_, number=number: groups_of(number))
    found = list_groups(client, timeout_s=1.0)
    assert {name: broker for name, (broker, _) in found.groups.items()} == {"of-1": 1, "of-2": 2}
    assert list(found.problems) == [3]
    assert "gives no answer within" in found.problems[3]


def test_a_silent_broker_is_named_and_the_transactions_of_the_others_are_listed(
    brokers: list[ScriptedBroker], client: SyncClient
) -> None:
    for number, broker in enumerate(brokers, 1):
        row = TransactionState(transactional_id=f"of-{number}", producer_id=number, transaction_state="Empty")
        answer = ListTransactionsResponse(transaction_states=[row])
        broker.answer(ListTransactionsRequest, lambda *_, answer=answer: answer)
    found, problems = list_transactions(client, timeout_s=1.0)
    assert [(one.coordinator, one.transaction.transactional_id) for one in found] == [
        (1, "of-1"),
        (2, "of-2"),
    ]
    assert list(problems) == [3]


def test_an_error_that_may_pass_is_asked_away_and_another_is_told_at_once(
    brokers: list[ScriptedBroker], client: SyncClient
) -> None:
    codes = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NONE]
    brokers[0].answer(ListGroupsRequest, lambda *_: ListGroupsResponse(error_code=codes.pop(0)))
    refused = ListGroupsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    brokers[1].answer(ListGroupsRequest, lambda *_: refused)
    told = of_every_broker(client, ListGroupsRequest(), brokers=[1, 2])
    assert list(told.answers) == [1] and codes == []
    assert told.problems == {2: "broker 2: CLUSTER_AUTHORIZATION_FAILED"}


def test_what_is_asked_again_has_the_time_that_is_left(
    brokers: list[ScriptedBroker], client: SyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = 1_000.0
    codes = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NONE]
    client.cluster([])

    def slowly(*_: object) -> ListGroupsResponse:
        nonlocal now_s
        now_s += 6.0
        return ListGroupsResponse(error_code=codes.pop(0))

    brokers[0].answer(ListGroupsRequest, slowly)
    clock = SimpleNamespace(monotonic=lambda: now_s, sleep=lambda pause_s: None)
    for module in (sync, sync_connection):
        monkeypatch.setattr(module, "time", clock)
    told = of_every_broker(client, ListGroupsRequest(), brokers=[1], timeout_s=10.0)
    assert told.answers == {}
    assert "no answer in time" in told.problems[1]


@pytest.mark.parametrize(
    ("tried_s", "said"), [(0.000_012, "0 s"), (1.9313, "1.9 s"), (30.0, "30 s"), (1_800.04, "1800 s")]
)
def test_for_how_long_was_tried_is_said_in_a_plain_number(
    client: SyncClient, monkeypatch: pytest.MonkeyPatch, tried_s: float, said: str
) -> None:
    """Of several questions of one time the last may find none of it left."""
    times = iter([100.0, 100.0, 100.0 + tried_s, 100.0 + tried_s])
    monkeypatch.setattr(sync, "time", SimpleNamespace(monotonic=lambda: next(times)))

    def lost() -> None:
        raise ConnectionLost("silent")

    with pytest.raises(DeadlineExceeded, match=f"^given up after {said}; the last answer was: silent$"):
        client.retrying(lost, timeout_s=0.0)
