"""Where a follower cuts its log: seven ways in which it can diverge, each by name.

A log is written as its batches, (epoch, number of records) each. The exchange is the real one: the follower
names the last epoch of its log, the leader answers, until the plan says that it is complete.
"""

from pathlib import Path

import pytest

from odradek.log.partition_log import PartitionLog
from odradek.replication.truncation import Truncation, plan_truncation
from tests.replication.partitions import a_batch, a_log

Written = list[tuple[int, int]]


def written(path: Path, name: str, batches: Written) -> PartitionLog:
    log = a_log(path / name, name)
    for epoch, count in batches:
        values = [b"%d-%d" % (epoch, log.log_end_offset + n) for n in range(count)]
        log.append_as_follower(a_batch(*values, epoch=epoch, base_offset=log.log_end_offset), now_ms=0)
    return log


def exchange(leader: PartitionLog, follower: PartitionLog, *, high_watermark: int = 0) -> list[int]:
    """Runs the exchange; the ends the follower cut to, in order."""
    cuts: list[int] = []
    for _ in range(20):
        if follower.latest_epoch < 0:
            return cuts
        epoch, end_offset = leader.end_offset_for_epoch(follower.latest_epoch)
        plan = plan_truncation(
            follower, leader_epoch=epoch, leader_end_offset=end_offset, high_watermark=high_watermark
        )
        if plan.offset < follower.log_end_offset:
            follower.truncate_to(plan.offset, 0)
            cuts.append(follower.log_end_offset)
        if plan.is_complete:
            return cuts
    raise AssertionError("the exchange does not end")


def case(path: Path, leader: Written, follower: Written) -> tuple[int, list[int]]:
    leads, follows = written(path, "leader", leader), written(path, "follower", follower)
    cuts = exchange(leads, follows)
    end = follows.log_end_offset
    if end:
        # What is left is a prefix: the leader says of our last epoch that it reaches as far at least.
        epoch, end_offset = leads.end_offset_for_epoch(follows.latest_epoch)
        assert epoch == follows.latest_epoch
        assert end_offset >= end
    return end, cuts


def test_case_a_equal_logs_are_not_cut(tmp_path: Path) -> None:
    assert case(tmp_path, [(0, 3), (1, 2)], [(0, 3), (1, 2)]) == (5, [])


def test_case_b_a_follower_that_is_a_prefix_is_not_cut(tmp_path: Path) -> None:
    assert case(tmp_path, [(0, 3), (1, 2), (2, 4)], [(0, 3), (1, 1)]) == (4, [])


def test_case_c_a_longer_follower_of_the_same_epoch_is_cut_to_the_leaders_end(tmp_path: Path) -> None:
    assert case(tmp_path, [(0, 3), (1, 2)], [(0, 3), (1, 2), (1, 1), (1, 1)]) == (5, [5])


def test_case_d_one_higher_epoch_at_the_end_goes(tmp_path: Path) -> None:
    assert case(tmp_path, [(0, 3), (1, 2), (3, 1)], [(0, 3), (1, 2), (2, 1)]) == (5, [5])


def test_case_e_a_fork_at_an_older_epoch_with_the_longer_follower(tmp_path: Path) -> None:
    assert case(tmp_path, [(0, 3), (2, 2), (4, 1)], [(0, 3), (1, 4), (3, 5)]) == (3, [7, 3])


def test_case_f_a_fork_at_an_older_epoch_with_the_shorter_follower(tmp_path: Path) -> None:
    assert case(tmp_path, [(0, 3), (2, 9), (4, 9)], [(0, 3), (1, 1), (3, 1)]) == (3, [4, 3])


def test_case_g_without_a_common_epoch_everything_goes(tmp_path: Path) -> None:
    assert case(tmp_path, [(1, 4), (3, 4)], [(2, 5)]) == (0, [0])


def test_the_old_rule_would_lose_what_this_one_keeps(tmp_path: Path) -> None:
    """KIP-101: the follower has the record and learns one fetch late that it is committed."""
    leader = written(tmp_path, "leader", [(0, 2), (1, 1)])
    follower = written(tmp_path, "follower", [(0, 2)])
    assert exchange(leader, follower, high_watermark=1) == []
    assert follower.log_end_offset == 2


def test_a_leader_that_knows_no_epochs_leaves_only_the_high_watermark(tmp_path: Path) -> None:
    follower = written(tmp_path, "follower", [(0, 5)])
    plan = plan_truncation(follower, leader_epoch=-1, leader_end_offset=-1, high_watermark=3)
    assert plan == Truncation(3, is_complete=True)


@pytest.mark.parametrize("end", [0, 3, 9])
def test_an_answer_never_makes_the_log_longer(tmp_path: Path, end: int) -> None:
    follower = written(tmp_path, "follower", [(0, 5)])
    assert plan_truncation(follower, leader_epoch=0, leader_end_offset=end, high_watermark=0).offset == min(
        5, end
    )
    without_epoch = plan_truncation(follower, leader_epoch=-1, leader_end_offset=end, high_watermark=0)
    assert without_epoch == Truncation(min(5, end), is_complete=True), "to ask again would say no more"


class NoEpochs:
    """A log written before epochs were kept."""

    log_end_offset = 5
    latest_epoch = -1

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        return -1, -1


@pytest.mark.parametrize("end", [3, 9])
def test_a_log_that_knows_no_epochs_is_cut_to_the_leaders_end_and_asks_no_more(end: int) -> None:
    plan = plan_truncation(NoEpochs(), leader_epoch=2, leader_end_offset=end, high_watermark=0)
    assert plan == Truncation(min(5, end), is_complete=True)
