"""One copy of a partition, whoever leads it: what it takes from its leader, where it is cut, whom it fences."""

from pathlib import Path

import pytest

from odradek.log.steps import all_at_once
from odradek.model.cluster import ReplicaAssignment
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError
from odradek.model.ids import NO_LEADER
from odradek.replication.purgatory import Purgatory
from odradek.replication.replica import Replica
from odradek.replication.waiting import Outbox, Reader
from tests.replication.partitions import T0, TOPIC_ID, a_batch, a_log, a_transaction, b, leadership

COPIES = ReplicaAssignment((b(1), b(2)))


def replica(path: Path, count: int = 0, *, mark: int = 0) -> Replica:
    """Of broker 2, with `count` records of epoch 4 in batches of one."""
    log = a_log(path)
    for offset in range(count):
        log.append_as_follower(a_batch(b"x", epoch=4, base_offset=offset), now_ms=0)
    return Replica(T0, TOPIC_ID, log, broker=b(2), high_watermark=mark, outbox=Outbox(Purgatory()))


class Reads(Reader):
    def __init__(self, one: Replica) -> None:
        self.is_dirty = False
        self.woken = 0
        one.consumer_readers[self] = None

    def wake(self) -> None:
        self.woken += 1


def append(
    one: Replica, records: memoryview | None = None, *, leader_mark: int = 0, leader_start: int = 0
) -> None:
    one.append_as_follower(
        records, leader_high_watermark=leader_mark, leader_log_start=leader_start, now_ms=0
    )


def test_a_replica_that_nobody_was_told_of_is_hosted_and_has_no_leader(tmp_path: Path) -> None:
    one = replica(tmp_path)

    assert (one.is_hosted, one.is_deleted, one.is_leader, one.leader) == (True, False, False, NO_LEADER)
    assert (one.leader_epoch, one.partition_epoch, one.leader_recovery_state) == (-1, -1, 0)
    assert one.assignment == ReplicaAssignment(())
    assert not one.is_flushing and not one.flushes_before_ack and not one.keeps_tails


def test_who_leads_and_since_when_is_as_the_controller_said(tmp_path: Path) -> None:
    one = replica(tmp_path)

    one._take_epochs(leadership(1, 5, (1, 2), 7, recovery_state=1), COPIES)

    assert (one.leader, one.leader_epoch, one.partition_epoch) == (1, 5, 7)
    assert (one.leader_recovery_state, one.assignment) == (1, COPIES)


def test_a_log_that_moved_is_the_one_that_is_read_on(tmp_path: Path) -> None:
    one, moved = replica(tmp_path / "a", 3), replica(tmp_path / "b", 3).log

    one.take_log(moved)

    assert one.log is moved


def test_a_log_that_moved_and_begins_later_puts_the_high_watermark_forward(tmp_path: Path) -> None:
    """The start of the former one was not on the disk yet when the broker was killed (seed 1597)."""
    one, moved = replica(tmp_path / "a", 3), replica(tmp_path / "b", 3).log
    moved.delete_records_before(2)
    assert one.high_watermark == 0

    one.take_log(moved)

    assert one.high_watermark == 2


@pytest.mark.parametrize(
    ("wanted", "is_flushed", "asked"),
    [(True, False, 1), (True, True, 0), (False, False, 0)],
)
def test_what_is_not_on_the_disk_is_flushed_as_soon_as_acknowledgements_say_that_it_is(
    tmp_path: Path, wanted: bool, is_flushed: bool, asked: int
) -> None:
    one = replica(tmp_path, 3)
    if is_flushed:
        one.log.flush()

    one.set_flushes_before_ack(wanted)
    one.set_flushes_before_ack(wanted)

    assert one.flushes_before_ack is wanted
    assert one._outbox.flushes == [one] * asked and one.is_flushing is bool(asked)


@pytest.mark.parametrize(("leader_start", "start"), [(0, 0), (3, 3), (5, 5), (6, 0)])
def test_what_the_leader_deleted_is_deleted_as_far_as_our_log_goes(
    tmp_path: Path, leader_start: int, start: int
) -> None:
    one = replica(tmp_path, 5)

    append(one, leader_mark=5, leader_start=leader_start)

    assert (one.log.log_start_offset, one.log.log_end_offset) == (start, 5)


def test_readers_are_woken_when_more_is_committed_and_not_when_the_leader_says_the_same_again(
    tmp_path: Path,
) -> None:
    one = replica(tmp_path, 3)
    reads = Reads(one)
    woken = []
    for leader_mark in (2, 2, 1, 9, 9):
        append(one, leader_mark=leader_mark)
        woken.append((one.high_watermark, reads.woken))

    assert woken == [(2, 1), (2, 1), (2, 1), (3, 2), (3, 2)]


def test_a_follower_forgets_a_transaction_once_its_marker_is_committed(tmp_path: Path) -> None:
    """Nobody may ever ask it what is stable: of a hundred a second there were a gigabyte and more in a day."""
    one = replica(tmp_path)

    append(one, a_transaction())
    append(one, a_transaction(2), leader_mark=3)

    assert [ended.last_offset for ended in one.log.producers._ended] == [3]
    append(one, leader_mark=4)
    assert not one.log.producers._ended


@pytest.mark.parametrize(
    ("offset", "mark", "end", "below_the_mark"), [(2, 3, 2, True), (3, 3, 3, False), (5, 3, 5, False)]
)
def test_a_cut_below_the_high_watermark_is_said_and_wakes_whoever_reads(
    tmp_path: Path, offset: int, mark: int, end: int, below_the_mark: bool
) -> None:
    one = replica(tmp_path, 5, mark=mark)
    reads = Reads(one)

    one.truncate_to(offset, 0)

    assert (one.log.log_end_offset, one.high_watermark, reads.woken) == (end, min(offset, mark), 1)
    said = [text for level, text in one._outbox.messages if "below the high watermark 3" in text]
    assert len(said) == below_the_mark


@pytest.mark.parametrize(
    ("offset", "mark", "recovers", "keeps", "is_kept"),
    [
        (3, 0, False, False, False),
        (3, 4, False, False, True),
        (3, 3, False, False, False),
        (3, 0, True, False, True),
        (3, 0, False, True, True),
        (5, 0, True, True, False),
    ],
)
def test_what_is_cut_off_is_kept_where_it_may_have_been_acknowledged(
    tmp_path: Path, offset: int, mark: int, recovers: bool, keeps: bool, is_kept: bool
) -> None:
    one = replica(tmp_path, 5, mark=mark)
    one.leader_recovery_state = int(recovers)
    one.keeps_tails = keeps

    one.truncate_to(offset, 0)

    said = [text for _, text in one._outbox.messages if "offsets 3 to 4 are cut off" in text]
    assert len(said) == is_kept
    assert one.log.directory.is_directory("truncated") is is_kept


def test_whoever_reads_a_log_that_begins_anew_is_told(tmp_path: Path) -> None:
    one = replica(tmp_path, 3)
    reads = Reads(one)

    all_at_once(one.restarting_at(7, 0))

    assert (one.log.log_start_offset, one.log.log_end_offset, one.high_watermark) == (7, 7, 7)
    assert reads.woken == 1


@pytest.mark.parametrize("last_fetched_epoch", [-1, 5])
@pytest.mark.parametrize("count", [0, 3])
def test_where_a_log_leaves_ours_cannot_be_said_without_an_epoch_of_both(
    tmp_path: Path, count: int, last_fetched_epoch: int
) -> None:
    with pytest.raises(ProtocolError, match="no epoch up to") as refusal:
        replica(tmp_path, count).divergence_point(last_fetched_epoch, 0)
    assert refusal.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
