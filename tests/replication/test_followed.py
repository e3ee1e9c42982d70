"""One partition as its follower goes about it: what an answer about the leader's log makes of ours, and what is said of it."""

from pathlib import Path

import pytest

from odradek.log.steps import all_at_once
from odradek.model.cluster import ReplicaAssignment
from odradek.replication.followed import (
    FETCHING,
    LATER,
    LOCATING_END,
    LOCATING_START,
    TRUNCATING,
    FollowedPartition,
)
from odradek.replication.partition import Partition
from odradek.replication.purgatory import Purgatory
from odradek.replication.waiting import Outbox
from tests.replication.partitions import LAG_MS, T0, TOPIC_ID, a_batch, a_log, b, leadership

NOW = 1_000


def followed(path: Path, count: int = 5, state: str = FETCHING, epoch: int = 4) -> FollowedPartition:
    """Of a log with `count` records of `epoch`."""
    log = a_log(path)
    for offset in range(count):
        log.append_as_follower(a_batch(b"x", epoch=epoch, base_offset=offset), now_ms=0)
    partition = Partition(
        T0,
        TOPIC_ID,
        log,
        broker=b(2),
        high_watermark=0,
        min_insync_replicas=1,
        replica_lag_time_max_ms=LAG_MS,
        live_brokers={1, 2},
        outbox=Outbox(Purgatory()),
    )
    partition.make_follower(leadership(1, 5, (1, 2)), ReplicaAssignment((b(1), b(2))))
    one = FollowedPartition(partition)
    one.state = state
    return one


class Said(list[tuple[str, str]]):
    def __call__(self, level: str, text: str) -> None:
        self.append((level, text.removeprefix("t-0: ")))


@pytest.mark.parametrize(
    ("leader_end", "end", "said"),
    [(3, 3, [("info", "cut from 5 to 3: leader 1 ends epoch 4 at 3")]), (5, 5, []), (9, 5, [])],
)
def test_what_is_cut_off_is_said_and_nothing_where_nothing_is(
    tmp_path: Path, leader_end: int, end: int, said: list[tuple[str, str]]
) -> None:
    one, heard = followed(tmp_path), Said()

    all_at_once(one.truncate(b(1), 4, leader_end, NOW, heard))

    assert one.partition.log.log_end_offset == end
    assert heard == said


@pytest.mark.parametrize(
    ("state", "offset", "then", "end", "is_settled", "said"),
    [
        (LOCATING_END, 3, FETCHING, 3, True, [("warning", "our log ends at 5, the leader's at 3: cut")]),
        (LOCATING_END, 5, LOCATING_START, 5, True, []),
        (LOCATING_END, 9, LOCATING_START, 5, True, []),
        (LOCATING_START, 4, FETCHING, 5, False, []),
        (LOCATING_START, 5, FETCHING, 5, False, []),
        (
            *(LOCATING_START, 7, FETCHING, 7, True),
            [("warning", "our log ends at 5, the leader's begins at 7: starting again there")],
        ),
    ],
)
def test_an_end_that_is_out_of_range_is_cut_where_the_leader_ends_or_begins_anew_where_it_begins(
    tmp_path: Path,
    state: str,
    offset: int,
    then: str,
    end: int,
    is_settled: bool,
    said: list[tuple[str, str]],
) -> None:
    one, heard = followed(tmp_path, state=state), Said()

    assert all_at_once(one.log_end_found(offset, NOW, heard)) is is_settled

    assert (one.state, one.partition.log.log_end_offset) == (then, end)
    assert heard == said


def test_while_an_answer_about_the_end_of_our_log_is_awaited_nothing_else_is_due(tmp_path: Path) -> None:
    one = followed(tmp_path)

    one.note_asked()

    assert (one.delayed_until_ms, one.asked_end) == (LATER, 5)


@pytest.mark.parametrize(("count", "epoch"), [(0, 4), (5, 4), (5, 0)])
def test_a_log_that_is_empty_or_knows_its_last_epoch_is_fetched_at_once(
    tmp_path: Path, count: int, epoch: int
) -> None:
    assert FollowedPartition(followed(tmp_path, count, epoch=epoch).partition).state == FETCHING


def test_a_log_that_does_not_know_its_last_epoch_is_cut_before_it_is_fetched(tmp_path: Path) -> None:
    partition = followed(tmp_path).partition
    partition.log.epochs.truncate_from_end(0)

    assert FollowedPartition(partition).state == TRUNCATING
