"""Names may have 32,767 letters, and a request thousands of them. The partition of a group or a transactional id is found letter by
letter, and so a user's name is escaped: of many letters only some are looked at in a turn. What can be no topic is not told to the controller."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from odradek.broker import effects as fx
from odradek.broker.config_changes import AT_ONCE
from odradek.broker.coordinator_calls import LETTERS_AT_ONCE
from odradek.broker.handlers import alter_client_quotas
from odradek.model.controller_requests import ElectLeadersAnswer
from odradek.model.entity_names import escape_entity
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from odradek.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    EntityData,
    OpData,
)
from odradek.protocol.messages.describe_groups import DescribeGroupsRequest
from odradek.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.schema import Request
from tests.broker.world import World, told

NAMES = [f"{number}".ljust(30_000, "x") for number in range(6)]
TOPICS = [AddPartitionsToTxnTopic(name="t", partitions=[0])]
TRANSACTIONS = [
    AddPartitionsToTxnTransaction(transactional_id=name, producer_id=number, producer_epoch=0, topics=TOPICS)
    for number, name in enumerate([*NAMES, NAMES[0]])
]


def coordinators(response: Any) -> list[tuple[str, int]]:
    return [(row.key, row.error_code) for row in response.coordinators]


def groups(response: Any) -> list[tuple[str, int]]:
    return [(row.group_id, row.error_code) for row in response.groups]


def transactions(response: Any) -> list[tuple[str, int]]:
    return [
        (row.transactional_id, row.topic_results[0].results_by_partition[0].partition_error_code)
        for row in response.results_by_transaction
    ]


CASES: list[tuple[Request, int, Callable[[Any], list[tuple[str, int]]], list[tuple[str, int]]]] = [
    (FindCoordinatorRequest(coordinator_keys=NAMES), 4, coordinators, [(name, 0) for name in NAMES]),
    (DescribeGroupsRequest(groups=NAMES), 5, groups, [(name, 0) for name in NAMES]),
    (
        AddPartitionsToTxnRequest(transactions=TRANSACTIONS),
        4,
        transactions,
        [(name, ErrorCode.INVALID_PRODUCER_ID_MAPPING) for name in (*NAMES, NAMES[0])],
    ),
]


def test_of_many_long_names_only_some_are_looked_at_in_a_turn(tmp_path: Path) -> None:
    """Five hundred held up the loop for a second."""
    world = World(tmp_path, brokers=(1,), offsets_topic_replication_factor="1")
    world.coordinate_alone(0)
    world.advance(20)
    for request, version, rows_of, rows in CASES:
        pending = world.send(1, request, version)
        slices = 1
        while not pending.is_answered and world[1].broker.go_on(world.now_ms):
            slices += 1
        world.settle()

        assert slices >= len(NAMES) * len(NAMES[0]) // LETTERS_AT_ONCE, type(request).__name__
        assert sorted(rows_of(pending.message)) == sorted(rows)


def quotas(*names: list[str]) -> AlterClientQuotasRequest:
    return AlterClientQuotasRequest(
        entries=[
            AlterClientQuotasRequestEntryData(
                entity=[EntityData(entity_type="user", entity_name=name) for name in of_one],
                ops=[OpData(key="producer_byte_rate", value=1e6)],
            )
            for of_one in names
        ]
    )


def written(asked: fx.StoreRequest) -> list[tuple[str, str]]:
    assert isinstance(asked.question, fx.WriteConfigs)
    return [(one.kind, one.name) for one in asked.question.writes]


def test_of_many_long_names_of_users_only_some_are_escaped_in_a_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight megabytes of them held up the loop for 0.15 s, and for seconds where each letter was to be escaped."""
    world = World(tmp_path, brokers=(1,))
    in_turns: list[int] = [0]

    def escape(name: str) -> str:
        in_turns[-1] += len(name)
        return escape_entity(name)

    monkeypatch.setattr(alter_client_quotas, "escape_entity", escape)
    names = [name.replace("x", "~") for name in NAMES]
    world.send(1, quotas(*[[name] for name in names]), 1)
    in_turns.append(0)
    while world[1].broker.go_on(world.now_ms):
        in_turns.append(0)
    (write,) = told(world, fx.StoreRequest)

    assert written(write) == [("users", escape_entity(name)) for name in names]
    assert max(in_turns) <= LETTERS_AT_ONCE < sum(in_turns)


@pytest.mark.parametrize("count", [AT_ONCE, AT_ONCE + 1, 3 * AT_ONCE + 1])
def test_of_many_short_names_of_users_only_some_are_looked_at_in_a_turn_and_a_thread_tells_them(
    tmp_path: Path, count: int
) -> None:
    world = World(tmp_path, brokers=(1,))
    pending = world.send(1, quotas(*[["."]] * count), 1)
    slices = 1
    while not pending.is_answered and world[1].broker.go_on(world.now_ms):
        slices += 1

    assert slices == max(1, (count - 1) // AT_ONCE)
    assert pending.is_answered is (count <= AT_ONCE)
    world.settle()
    assert [row.error_code for row in pending.message.entries] == [ErrorCode.INVALID_REQUEST] * count


def test_of_a_quota_with_many_users_the_last_counts_and_the_others_are_not_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in Apache. 2,500 names of one quota took 0.27 s."""
    world = World(tmp_path, brokers=(1,))
    escaped: list[str] = []

    def escape(name: str) -> str:
        escaped.append(name)
        return escape_entity(name)

    monkeypatch.setattr(alter_client_quotas, "escape_entity", escape)
    world.send(1, quotas([*NAMES, "ann"]), 1)
    (write,) = told(world, fx.StoreRequest)

    assert escaped == ["ann"] and written(write) == [("users", "ann")]


def test_what_can_be_no_topic_is_not_told_to_the_controller_that_elects(tmp_path: Path) -> None:
    """Eight megabytes of such names took 76 ms, most of it in the controller's journal."""
    world = World(tmp_path, brokers=(1,))
    broker = world[1].broker
    broker.controller_status(True, 1, world.now_ms)
    rows = [TopicPartitions(topic=name, partitions=[0]) for name in ("t", "x" * 249, "x" * 250)]
    world.send(1, ElectLeadersRequest(topic_partitions=rows[2:], timeout_ms=1_000), 2)
    (request,) = told(world, fx.ControllerRequest)
    assert request.ask.partitions == (), "None would be all that there are"
    pending = world.send(1, ElectLeadersRequest(topic_partitions=rows, timeout_ms=1_000), 2)
    (request,) = told(world, fx.ControllerRequest)
    assert request.ask.partitions == (TopicPartition("t", 0), TopicPartition("x" * 249, 0))
    named = dict.fromkeys(request.ask.partitions, (ErrorCode.ELECTION_NOT_NEEDED, ""))
    broker.answered(request.request_id, ElectLeadersAnswer(ErrorCode.NONE, named), world.now_ms)

    assert [
        (row.topic, one.error_code)
        for row in pending.message.replica_election_results
        for one in row.partition_result
    ] == [
        ("t", ErrorCode.ELECTION_NOT_NEEDED),
        ("x" * 249, ErrorCode.ELECTION_NOT_NEEDED),
        ("x" * 250, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
