"""Answers with very many rows: made later, by a thread, of what stood when they were asked for."""

from typing import Any

import pytest

from odradek.coordinator import consumer_describing, later
from odradek.coordinator.later import MOST_AT_ONCE, Later, made
from odradek.coordinator.transaction_records import TransactionRecord, encode
from odradek.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from odradek.protocol.messages.describe_groups import DescribeGroupsRequest
from odradek.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from odradek.protocol.messages.list_transactions import ListTransactionsRequest
from tests.coordinator.consumers import beat, join
from tests.coordinator.groups import GROUP, Bench
from tests.coordinator.test_transactions import Bench as TransactionsBench


def test_what_has_few_rows_is_made_at_once() -> None:
    response = ListGroupsResponse()

    assert made(lambda: response, MOST_AT_ONCE) is response
    assert isinstance(made(lambda: response, MOST_AT_ONCE + 1), Later)


@pytest.mark.parametrize(
    ("request_", "version"),
    [
        (DescribeGroupsRequest(groups=[GROUP, "nobody"]), 5),
        (ListGroupsRequest(), 5),
        (ListGroupsRequest(states_filter=["stable"]), 5),
    ],
)
def test_classic_groups_are_described_as_they_stood(
    request_: Any, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench()
    members = bench.stable(2)
    at_once = bench.call(request_, version)
    monkeypatch.setattr(later, "MOST_AT_ONCE", -1)

    answer = bench.call(request_, version)
    bench.leave(*members)

    assert isinstance(answer, Later)
    assert answer.make() == at_once


def test_consumer_groups_are_described_as_they_stood(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    for member in ("a", "b"):
        bench.call(join(member), 1)
    asked = ConsumerGroupDescribeRequest(group_ids=[GROUP, "nobody", ""])
    at_once = bench.call(asked, 1)
    assert len(at_once.groups[0].members) == 2
    for module in (later, consumer_describing):
        monkeypatch.setattr(module, "MOST_AT_ONCE", -1)

    answer = bench.call(asked, 1)
    bench.call(beat("a", -1), 1)

    assert isinstance(answer, Later)
    assert answer.make() == at_once


def test_very_many_transactions_are_listed_as_they_stood() -> None:
    bench = TransactionsBench()
    bench.init()
    value = bench.coordinator.room.stored.by_id["tx"]
    bench.log += [encode(TransactionRecord(f"id-{n}", value), 0) for n in range(MOST_AT_ONCE)]
    bench.move()

    answer = bench.answers[bench.ask(ListTransactionsRequest(state_filters=["Empty"]), 1)]
    bench.add()

    assert isinstance(answer, Later)
    rows = answer.make().transaction_states  # type: ignore[attr-defined]
    assert [one.transactional_id for one in rows] == ["tx", *(f"id-{n}" for n in range(MOST_AT_ONCE))]
