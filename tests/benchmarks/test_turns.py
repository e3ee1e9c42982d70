"""No long request makes a long turn: what a row costs the turn that takes longest, in calls."""

import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import turns
from odradek.broker.handlers.metadata import MOST_CREATED

# Rows of the smaller run; from a thousand on a request is done in slices or by a thread.
ROWS = 1_100
ROWS_OF = {
    "commit_that_is_refused": 17_000,
    "partitions_fetched": 5_000,
    "partitions_produced_to": 5_000,
    "a_partition_produced_to": 20_000,
    "topics_checked": 1_000,
    "partitions_described": 1_500,
    "retention_of_logs": 1_500,
}
# Calls a row, of Python's functions and of those in C that it calls, as a profiler counts them. A row of 10,000 may take 2 us.
MOST_CALLS = {
    "join_of_a_group": 14,
    "sync_of_its_leader": 32,
    "leave_of_all": 12,
    "describe_of_a_group": 1,
    "groups_described": 1,
    "list_of_groups": 1,
    "commit_of_many": 17,
    "commit_that_is_refused": 6,
    "fetch_of_all": 1,
    "offsets_of_many_groups": 6,
    "commit_in_a_transaction": 20,
    "its_marker": 5,
    "markers_written": 5,
    "partitions_added": 12,
    "end_of_a_transaction": 12,
    "partitions_described": 13,
    "transactions_described": 1,
    "a_transaction_described": 1,
    "coordinators_found": 2,
    "configs_described": 6,
    "configs_altered": 6,
    "groups_deleted": 1,
    "partitions_fetched": 4,
    "partitions_produced_to": 6,
    "topics_made_by_metadata": 21,
    "a_partition_produced_to": 2,
    "topics_checked": 94,
    "elections_refused": 5,
    "quotas_described": 1,
    "credentials_described": 1,
    "settings_of_a_topic_changed": 1,
    "settings_of_a_broker_changed": 2,
    "flushes_of_logs": 0,
    "retention_of_logs": 0,
}


def calls_of_the_longest_turn(path: Path, measure: Any, rows: int, monkeypatch: pytest.MonkeyPatch) -> int:
    count = 0

    def called(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        if event in ("call", "c_call"):
            count += 1

    def clock() -> int:
        """Asked at the beginning of each turn and at its end: what is between turns runs without a profiler."""
        sys.setprofile(None if sys.getprofile() is called else called)
        return count

    with monkeypatch.context() as patched:
        patched.setattr(turns, "clock", clock)
        try:
            world = measure(path, rows)
            assert sys.getprofile() is None
        finally:
            sys.setprofile(None)
    return int(max(world.turns))


@pytest.mark.parametrize("name", [measure.__name__ for measure, _ in turns.CASES.values()])
def test_a_row_costs_a_turn_few_calls(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measure = getattr(turns, name)
    rows = ROWS_OF.get(name, ROWS)
    few, many = (
        calls_of_the_longest_turn(tmp_path / str(count), measure, count, monkeypatch)
        for count in (rows, 2 * rows)
    )

    # What a slice costs besides is a call or two for hundreds of rows.
    assert round((many - few) / rows, 1) <= MOST_CALLS[name]


def test_metadata_makes_a_thousand_topics_at_once_and_the_rest_when_it_is_asked_again(tmp_path: Path) -> None:
    world = turns.topics_made_by_metadata(tmp_path, 1_500)
    broker = world[1].broker
    assert len(broker.being_created) == MOST_CREATED
    names = [turns.MetadataRequestTopic(name=f"new-topic-{number}") for number in range(1_500)]
    world.ask(turns.MetadataRequest(topics=names, allow_auto_topic_creation=True), 12)
    assert len(broker.being_created) == 1_500
