"""Names of groups and transactional ids may have 32,767 letters, and a request thousands of them: the partition of each is found
letter by letter, so of many letters only some are looked at in a turn."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from odradek.broker.coordinator_calls import LETTERS_AT_ONCE
from odradek.model.error_codes import ErrorCode
from odradek.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from odradek.protocol.messages.describe_groups import DescribeGroupsRequest
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.schema import Request
from tests.broker.world import World

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
    for request, version, rows_of, told in CASES:
        pending = world.send(1, request, version)
        slices = 1
        while not pending.is_answered and world[1].broker.go_on(world.now_ms):
            slices += 1
        world.settle()

        assert slices >= len(NAMES) * len(NAMES[0]) // LETTERS_AT_ONCE, type(request).__name__
        assert sorted(rows_of(pending.message)) == sorted(told)
