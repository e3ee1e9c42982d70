"""What a partition decides: its roles, when the mark moves, whom it answers when, what it reads. The ISR: test_isr."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from odradek.log.steps import all_at_once
from odradek.model.cluster import ReplicaAssignment
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError
from odradek.replication.partition import Partition
from odradek.replication.waiting import AckQueue, Reader
from tests.log.logs import config
from tests.replication.partitions import (
    LAG_MS,
    Led,
    Waits,
    a_batch,
    a_log,
    a_transaction,
    answer,
    b,
    expanding,
    leadership,
)

# ------------------------------------------------------------------------------------------------------- roles


def test_only_a_leader_appends(tmp_path: Path) -> None:
    led = Led(tmp_path, lead=False)
    with pytest.raises(ProtocolError) as refusal:
        led.append(b"a")
    assert refusal.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    led.lead((1, 2, 3))
    assert led.append(b"a") == 1


def test_the_start_of_an_epoch_is_on_the_disk_before_anything_is_served(tmp_path: Path) -> None:
    led = Led(tmp_path)
    led.append(b"a", b"b")
    led.lead((1, 2, 3))
    checkpoint = (tmp_path / "t-0" / "leader-epoch-checkpoint").read_text().splitlines()
    assert checkpoint == ["0", "2", "0 0", "1 2"]
    assert led.partition.leader_epoch_start_offset == 2


def test_an_older_leadership_never_reaches_a_partition(tmp_path: Path) -> None:
    led = Led(tmp_path)
    with pytest.raises(AssertionError, match="legal: a larger one"):
        led.partition.make_follower(leadership(2, 0, (1, 2, 3)), ReplicaAssignment(led.replicas))
    with pytest.raises(AssertionError, match="legal: a larger one"):
        led.lead((1, 2, 3), epoch=0)


def test_a_leadership_is_known_as_it_was_told(tmp_path: Path) -> None:
    partition = Led(tmp_path, lead=False).partition
    assignment = ReplicaAssignment((b(1), b(2)))
    assert (partition.leader, partition.leader_epoch, partition.partition_epoch) == (-1, -1, -1)
    partition.make_follower(leadership(2, 4, (2,), 9, recovery_state=1), assignment)
    assert (partition.leader, partition.leader_epoch, partition.partition_epoch) == (2, 4, 9)
    assert (partition.leader_recovery_state, partition.assignment) == (1, assignment)


def test_before_it_is_told_who_leads_a_partition_waits_for_nobody(tmp_path: Path) -> None:
    partition = Led(tmp_path, lead=False, min_isr=3).partition
    assert (partition.leader_epoch_start_offset, partition.effective_min_isr, partition.isr) == (-1, 1, ())
    assert not (partition.is_under_min_isr or partition.has_eligible or partition.has_unassigned_in_isr)
    assert (partition.leader_recovery_state, partition.assignment) == (0, ReplicaAssignment(()))


def test_a_log_that_has_moved_is_the_one_in_use_and_holds_the_same(tmp_path: Path) -> None:
    led = Led(tmp_path)
    led.append(b"a")
    moved, short = a_log(tmp_path / "there"), a_log(tmp_path / "elsewhere")
    moved.append_as_follower(a_batch(b"a", epoch=0), now_ms=0)
    led.partition.take_log(moved)
    assert led.partition.log is moved
    with pytest.raises(AssertionError):
        led.partition.take_log(short)


@pytest.mark.parametrize(
    ("end", "is_hosted", "is_deleted"),
    [
        (lambda partition: partition.stop(), True, False),
        (lambda partition: partition.stop(deleted=True), False, True),
        (lambda partition: partition.lose_disk(), False, False),
    ],
    ids=["stopped", "deleted", "its disk lost"],
)
def test_who_holds_a_partition_sees_what_has_become_of_it(
    tmp_path: Path, end: Callable[[Partition], None], *, is_hosted: bool, is_deleted: bool
) -> None:
    partition = Led(tmp_path).partition
    assert (partition.is_hosted, partition.is_deleted, partition.leader) == (True, False, 1)
    end(partition)
    assert (partition.is_hosted, partition.is_deleted, partition.leader) == (is_hosted, is_deleted, -1)


def test_only_a_coordinator_appends_several_batches_at_once(tmp_path: Path) -> None:
    led = Led(tmp_path)
    both = memoryview(bytearray(bytes(a_batch(b"a")) + bytes(a_batch(b"b", base_offset=1))))
    with pytest.raises(ProtocolError) as refusal:
        led.partition.append(both, acks=1, now_ms=led.now_ms)
    assert refusal.value.code == ErrorCode.INVALID_RECORD and led.partition.log.log_end_offset == 0
    led.partition.append(both, acks=1, now_ms=led.now_ms, from_coordinator=True)
    assert led.partition.log.log_end_offset == 2


def test_a_leader_forgets_a_transaction_once_its_marker_is_committed(tmp_path: Path) -> None:
    """Though nobody reads there: offsets of groups are committed in transactions, and read by nobody."""
    led = Led(tmp_path)
    records = a_transaction()
    size = int.from_bytes(records[8:12], "big") + 12
    for one in (records[:size], records[size:]):
        led.partition.append(one, acks=1, now_ms=led.now_ms, from_coordinator=True)
    assert len(led.partition.log.producers._ended) == 1

    for follower in (2, 3):
        led.fetched(follower, 2)

    assert not led.partition.log.producers._ended


def test_a_leader_that_leads_on_in_a_new_epoch_waits_for_every_follower_again(tmp_path: Path) -> None:
    led = Led(tmp_path)
    led.fetched(2, 0)
    led.fetched(3, 0)
    waits = led.append_and_wait(b"a")
    led.lead((1, 2, 3))
    led.partition.shrink_if_lagging(led.now_ms)
    assert led.partition.high_watermark == 0
    assert waits.told == [], "it still leads, so the request still waits"
    led.fetched(2, 1)
    assert led.partition.high_watermark == 0, "of 3 nothing was heard in this epoch"
    led.fetched(3, 1)
    assert waits.told == [ErrorCode.NONE]


def test_where_followers_stood_in_the_epoch_before_commits_nothing(tmp_path: Path) -> None:
    """They may have followed somebody else in between, and have cut what they had."""
    led = Led(tmp_path)
    led.append(b"a")
    led.fetched(2, 1)
    led.lead((1, 2, 3))
    led.fetched(3, 1)
    assert led.partition.high_watermark == 0, "of 2 nothing was heard in this epoch"
    led.fetched(2, 1)
    assert led.partition.high_watermark == 1


def test_becoming_follower_settles_everybody_with_not_leader(tmp_path: Path) -> None:
    led = Led(tmp_path)
    waits = [led.append_and_wait(b"a"), led.append_and_wait(b"b")]
    led.follow(2)
    assert [w.told for w in waits] == [[ErrorCode.NOT_LEADER_OR_FOLLOWER]] * 2
    assert not led.partition.is_leader


def test_stopping_with_deletion_settles_everybody_with_unknown_topic(tmp_path: Path) -> None:
    led = Led(tmp_path)
    waits = led.append_and_wait(b"a")
    led.partition.stop(deleted=True)
    assert waits.told == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


# ------------------------------------------------------------------------------------------- the high watermark


@pytest.mark.behaviour(130)
def test_the_mark_is_the_smallest_end_and_never_goes_back(tmp_path: Path) -> None:
    led = Led(tmp_path)
    led.append(b"a", b"b", b"c")
    led.fetched(2, 3)
    assert led.partition.high_watermark == 0
    led.fetched(3, 2)
    assert led.partition.high_watermark == 2
    led.fetched(3, 1)
    assert led.partition.high_watermark == 2
    led.fetched(3, 3)
    assert led.partition.high_watermark == 3


@pytest.mark.behaviour(133, 134)
def test_requests_are_settled_in_order_by_the_fetch_that_moves_the_mark(tmp_path: Path) -> None:
    led = Led(tmp_path)
    first, second = led.append_and_wait(b"a"), led.append_and_wait(b"b", b"c")
    led.fetched(2, 3)
    led.fetched(3, 1)
    assert (first.told, second.told) == ([ErrorCode.NONE], [])
    led.fetched(3, 2)
    assert second.told == []
    led.fetched(3, 3)
    assert second.told == [ErrorCode.NONE]


def test_a_replica_about_to_join_holds_the_mark_back(tmp_path: Path) -> None:
    """Else, under a steady load, it could never reach a mark that runs ahead of it."""
    led = Led(tmp_path, isr=(1, 2))
    led.append(b"a")
    led.fetched(3, 1)
    answer(led, ErrorCode.INELIGIBLE_REPLICA)
    led.append(b"b")
    led.fetched(2, 2)
    assert led.partition.high_watermark == 1
    led.now_ms += LAG_MS + 1
    led.partition.shrink_if_lagging(led.now_ms)
    assert led.partition.high_watermark == 2, "it did not come"


def test_a_replica_that_was_about_to_join_and_died_holds_the_mark_back_no_more(tmp_path: Path) -> None:
    """At once, and not when members of the ISR are looked at the next time."""
    led = Led(tmp_path, isr=(1, 2))
    led.append(b"a")
    led.fetched(3, 1)
    answer(led, ErrorCode.INELIGIBLE_REPLICA)
    waits = led.append_and_wait(b"b")
    led.fetched(2, 2)
    assert not waits.told
    led.live.discard(3)
    led.partition.live_brokers_changed(led.now_ms)
    assert waits.told == [ErrorCode.NONE]


def test_who_is_live_concerns_the_leader_alone(tmp_path: Path) -> None:
    led = Led(tmp_path, isr=(1, 2))
    led.append(b"a")
    led.fetched(2, 1)
    led.append(b"b")
    led.follow(2, isr=(1, 2))
    led.partition.live_brokers_changed(led.now_ms)
    assert led.partition.high_watermark == 1


def test_where_all_is_committed_and_all_are_in_sync_nothing_is_reckoned_for_who_comes_or_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is asked of every partition in one turn: of ten thousand that a broker led it took 25 ms."""
    led = Led(tmp_path)
    led.append(b"a")
    led.fetched(2, 1)
    led.fetched(3, 1)
    reckoned: list[str] = []
    for name in ("_advance_high_watermark", "_propose_expansion"):
        monkeypatch.setattr(Partition, name, lambda partition, now_ms, name=name: reckoned.append(name))
    led.live.discard(3)
    led.partition.live_brokers_changed(led.now_ms)
    led.partition.shrink_if_lagging(led.now_ms)
    assert reckoned == [] and led.partition.high_watermark == 1


def test_a_duplicate_batch_is_known_by_the_offsets_of_the_original(tmp_path: Path) -> None:
    led = Led(tmp_path)
    options = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0}
    from odradek.records.builder import NewRecord, build_batch

    data = build_batch([NewRecord(None, b"a", 1)], **options)
    first = led.partition.append(memoryview(bytearray(data)), acks=-1, now_ms=led.now_ms)
    again = led.partition.append(memoryview(bytearray(data)), acks=-1, now_ms=led.now_ms)
    assert again.duplicate
    assert (again.base_offset, again.last_offset) == (first.base_offset, first.last_offset)
    assert led.partition.log.log_end_offset == 1


# --------------------------------------------------------------------------------------------- min.insync.replicas


@pytest.mark.behaviour(157)
@pytest.mark.parametrize(
    ("min_isr", "replicas", "effective"),
    [(1, 3, 1), (2, 3, 2), (3, 3, 3), (4, 3, 3), (2, 1, 1), (None, 3, 3)],
)
def test_the_effective_minimum_is_never_more_than_there_are_replicas(
    tmp_path: Path, min_isr: int | None, replicas: int, effective: int
) -> None:
    led = Led(tmp_path, replicas=range(1, replicas + 1), isr=(1,), min_isr=min_isr)
    assert led.partition.effective_min_isr == effective
    assert led.partition.is_under_min_isr is (effective > 1)


@pytest.mark.behaviour(157)
def test_below_the_minimum_the_mark_stands_still_until_the_isr_grows(tmp_path: Path) -> None:
    led = Led(tmp_path, isr=(1,), min_isr=2)
    led.append(b"a")
    assert led.partition.high_watermark == 0
    led.fetched(2, 1)
    assert led.partition.high_watermark == 0, "proposed is not committed: the committed ISR counts"
    led.fetched(2, 1)
    assert led.proposed() == (1, 2)
    answer(led, ErrorCode.NONE, leadership(1, led.partition.leader_epoch, (1, 2), 9))
    assert led.partition.high_watermark == 1


@pytest.mark.behaviour(157)
def test_after_the_append_the_maximal_isr_is_what_is_checked(tmp_path: Path) -> None:
    """Expansion under way: the committed ISR is enough, and so is the answer."""
    led = expanding(tmp_path)
    led.partition.set_min_insync_replicas(2, led.now_ms)
    waits = led.append_and_wait(b"b")
    led.fetched(2, 2)
    assert waits.told == []
    led.fetched(3, 2)
    assert waits.told == [ErrorCode.NONE]


@pytest.mark.behaviour(158)
def test_whoever_waits_hears_at_once_that_the_isr_has_become_too_small(tmp_path: Path) -> None:
    led = Led(tmp_path, min_isr=2)
    waits = led.append_and_wait(b"a")
    led.now_ms += LAG_MS + 1
    led.partition.shrink_if_lagging(led.now_ms)
    assert led.proposed() == (1,)
    assert waits.told == []
    answer(led, ErrorCode.NONE, leadership(1, led.partition.leader_epoch, (1,), 9))
    assert waits.told == [ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND]
    assert led.partition.log.log_end_offset == 1


def test_while_the_controller_calls_a_replica_eligible_nothing_is_committed_whatever_is_configured(
    tmp_path: Path,
) -> None:
    """KIP-966: it may be elected, and min.insync.replicas may be larger than this leader has heard (decisions/0011)."""
    led = Led(tmp_path, isr=(1, 2), replicas=(1, 2), min_isr=1)
    waits = led.append_and_wait(b"a")
    led.now_ms += LAG_MS + 1
    led.partition.shrink_if_lagging(led.now_ms)
    alone = replace(leadership(1, led.partition.leader_epoch, (1,), 9), elr=(b(2),))
    answer(led, ErrorCode.NONE, alone)
    assert waits.told == [ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND]
    assert led.partition.high_watermark == 0
    with pytest.raises(ProtocolError, match="others are eligible to lead"):
        led.append(b"b", acks=-1)
    led.fetched(2, 1)
    answer(led, ErrorCode.NONE, leadership(1, led.partition.leader_epoch, (1, 2), 10))
    assert led.partition.high_watermark == 1, "the ISR is whole, and nobody is eligible outside it"


def test_a_new_leader_commits_nothing_either_while_a_replica_is_eligible(tmp_path: Path) -> None:
    led = Led(tmp_path, isr=(1, 2), replicas=(1, 2), min_isr=1)
    assignment = led.partition.assignment
    led.partition.make_leader(replace(leadership(1, 5, (1,)), elr=(b(2),)), assignment, led.now_ms)
    assert led.partition.is_under_min_isr
    led.partition.make_leader(leadership(1, 6, (1,)), assignment, led.now_ms)
    assert not led.partition.is_under_min_isr


@pytest.mark.parametrize("end", ["stop", "lose_disk"])
def test_who_leads_no_more_refuses_nobody_for_too_few_in_sync(tmp_path: Path, end: str) -> None:
    """Its metric, UnderMinIsr, is of partitions that are led here."""
    led = Led(tmp_path / end, isr=(1,), replicas=(1, 2), min_isr=2)
    assert led.partition.is_under_min_isr
    getattr(led.partition, end)()
    assert not led.partition.is_under_min_isr


@pytest.mark.behaviour(158)
def test_raising_the_minimum_has_the_same_effect(tmp_path: Path) -> None:
    led = Led(tmp_path, isr=(1, 2))
    waits = led.append_and_wait(b"a")
    led.partition.set_min_insync_replicas(3, led.now_ms)
    assert waits.told == [ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND]


def test_lowering_the_minimum_commits_what_waited_for_it(tmp_path: Path) -> None:
    led = Led(tmp_path, isr=(1, 2), min_isr=3)
    led.append(b"a")
    led.fetched(2, 1)
    assert led.partition.high_watermark == 0
    led.partition.set_min_insync_replicas(2, led.now_ms)
    assert led.partition.high_watermark == 1


def test_the_minimum_is_the_leaders_business(tmp_path: Path) -> None:
    led = Led(tmp_path, lead=False)
    led.follow(2, isr=(2,))
    led.partition.append_as_follower(
        a_batch(b"a", epoch=0), leader_high_watermark=0, leader_log_start=0, now_ms=0
    )
    for minimum in (3, 1):
        led.partition.set_min_insync_replicas(minimum, led.now_ms)
        assert (led.partition.is_under_min_isr, led.partition.high_watermark) == (False, 0)


def test_a_batch_sent_again_waits_for_its_own_offset_and_not_for_those_behind_it() -> None:
    """An idempotent producer repeats a batch that stands in the log already, below what others wait for."""
    line = AckQueue()
    first, again, last = Waits(), Waits(), Waits()
    line.add(10, first, 0)
    for offset in (30, 40, 50):
        line.add(offset, last, 0)
    line.add(20, again, 0)
    assert line.next_offset == 10
    line.complete(ErrorCode.NONE, up_to=20)
    assert (first.told, again.told, last.told) == ([ErrorCode.NONE], [ErrorCode.NONE], [])


def test_a_batch_sent_again_costs_the_same_however_many_wait_for_more() -> None:
    """In a line of 10,000 the thousand repetitions that a request may hold took 1.4 s."""
    looks: list[int] = []

    class Compared(int):
        def __lt__(self, other: int) -> bool:
            looks.append(other)
            return int(self) < other

    line, waits = AckQueue(), Waits()
    for offset in range(2000, 4000):
        line.add(offset, waits, 0)
    again = Waits()
    for offset in range(100):
        line.add(Compared(offset), again, 0)
    assert len(looks) < 2000
    line.complete(ErrorCode.NONE, up_to=98)
    assert len(again.told) == 99 and line.next_offset == 99 and len(line) == 2001
    again.is_done = True
    line.forget_expired()
    assert line.next_offset == 2000 and waits.told == []


def test_those_who_wait_for_one_offset_are_answered_in_the_order_of_their_coming() -> None:
    line = AckQueue()
    order: list[str] = []

    class Named(Waits):
        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

        def complete(self, slot: int, error: ErrorCode) -> None:
            order.append(self.name)

    for name in ("first", "second", "third"):
        line.add(10, Named(name), 0)
    line.complete(ErrorCode.NONE)
    assert order == ["first", "second", "third"]


def test_a_request_sent_again_is_answered_behind_one_that_waits_for_the_same_and_before_those_that_wait_for_more() -> (
    None
):
    line, order = AckQueue(), []

    class Numbered(Waits):
        def __init__(self, number: int) -> None:
            super().__init__()
            self.number = number

        def complete(self, slot: int, error: ErrorCode) -> None:
            order.append(self.number)

    for number, offset in enumerate((10, 20, 30, 10, 5, 25)):
        line.add(offset, Numbered(number), 0)
    assert line.next_offset == 5
    line.complete(ErrorCode.NONE)
    assert order == [4, 0, 3, 1, 5, 2] and line.next_offset == 1 << 63


def test_who_was_answered_by_his_deadline_is_waited_for_no_more(tmp_path: Path) -> None:
    partition = Led(tmp_path).partition
    for line in (partition.commit_waiters, partition.flush_waiters):
        gone, waits = Waits(), Waits()
        line.add(1, gone, 0)
        line.add(2, waits, 0)
        gone.is_done = True
        assert (len(line), line.next_offset) == (1, 1)
        partition.forget_expired_waiters()
        assert (len(line), line.next_offset) == (1, 2)
        waits.is_done = True
        partition.forget_expired_waiters()
        assert len(line) == 0


# ---------------------------------------------------------------------------------------- flush before acknowledging


@pytest.mark.parametrize("is_wanted", [False, True])
@pytest.mark.parametrize("is_flushed", [False, True])
def test_whoever_begins_to_flush_before_acknowledging_flushes_what_is_there(
    tmp_path: Path, *, is_wanted: bool, is_flushed: bool
) -> None:
    """A leader by its configuration, and one that begins to lead behind a leader that flushed nothing."""
    led = Led(tmp_path)
    led.append(b"a")
    if is_flushed:
        led.partition.log.flush()
    expected = [led.partition] if is_wanted and not is_flushed else []
    led.partition.set_flushes_before_ack(is_wanted)
    assert led.outbox.flushes == expected
    led.outbox.flushes.clear()
    led.partition.is_flushing = False
    led.lead((1, 2, 3))
    assert led.outbox.flushes == expected


def test_who_waits_for_the_very_end_is_waited_for_though_nobody_wants_it_flushed_any_more(
    tmp_path: Path,
) -> None:
    led = Led(tmp_path, isr=(1,), replicas=(1,))
    led.partition.set_flushes_before_ack(True)
    led.append(b"a")
    plan = led.partition.log.plan_flush()
    led.partition.flush_waiters.add(led.append(b"b"), Waits(), 0)
    led.partition.set_flushes_before_ack(False)
    plan.run()
    led.partition.log.commit_flush(plan)
    led.outbox.flushes.clear()
    led.partition.flushed(led.now_ms)
    assert led.outbox.flushes == [led.partition]


def test_with_flush_messages_1_nothing_counts_before_it_is_on_the_disk(tmp_path: Path) -> None:
    led = Led(tmp_path, isr=(1,), replicas=(1,))
    led.partition.set_flushes_before_ack(True)
    first = led.append_and_wait(b"a")
    second = led.append_and_wait(b"b")
    assert led.partition.high_watermark == 0
    assert led.outbox.flushes == [led.partition], "one flush for both"
    plan = led.partition.log.plan_flush()
    third = led.append_and_wait(b"c")
    plan.run()
    led.partition.log.commit_flush(plan)
    led.outbox.flushes.clear()
    led.partition.flushed(led.now_ms)
    assert [w.told for w in (first, second, third)] == [[ErrorCode.NONE], [ErrorCode.NONE], []]
    assert led.outbox.flushes == [led.partition], "and one more for what came meanwhile"
    assert led.partition.high_watermark == 2


def test_acks_1_waits_for_the_disk_and_for_nobody_else(tmp_path: Path) -> None:
    led = Led(tmp_path)
    led.partition.set_flushes_before_ack(True)
    waits = Waits()
    led.partition.flush_waiters.add(led.append(b"a"), waits, 0)
    led.partition.log.flush()
    led.partition.flushed(led.now_ms)
    assert waits.told == [ErrorCode.NONE]
    assert led.partition.high_watermark == 0


@pytest.mark.parametrize("isr", [(1,), (1, 2)], ids=["committed", "not committed"])
def test_once_nobody_wants_it_flushed_any_more_it_is_flushed_for_those_who_wait_and_then_left_alone(
    tmp_path: Path, isr: tuple[int, ...]
) -> None:
    """Under load there is always something that came after the flush began: it would never end."""
    led = Led(tmp_path, isr=isr, replicas=isr)
    led.partition.set_flushes_before_ack(True)
    first, second = Waits(), Waits()
    led.partition.flush_waiters.add(led.append(b"a"), first, 0)
    plan = led.partition.log.plan_flush()
    led.partition.flush_waiters.add(led.append(b"b"), second, 0)
    led.partition.set_flushes_before_ack(False)
    for waits, is_asked_again in ((first, True), (second, False)):
        plan.run()
        led.partition.log.commit_flush(plan)
        led.outbox.flushes.clear()
        plan = led.partition.log.plan_flush()
        led.append(b"c")
        led.partition.flushed(led.now_ms)
        assert waits.told == [ErrorCode.NONE]
        assert led.outbox.flushes == ([led.partition] if is_asked_again else [])


def test_losing_leadership_settles_those_who_wait_for_the_disk(tmp_path: Path) -> None:
    led = Led(tmp_path)
    led.partition.set_flushes_before_ack(True)
    waits = Waits()
    led.partition.flush_waiters.add(led.append(b"a"), waits, 0)
    led.follow(2)
    assert waits.told == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_nothing_is_committed_while_the_isr_names_one_that_is_not_our_replica(tmp_path: Path) -> None:
    """The end of a reassignment, one write before the ISR is the targets alone. A controller that dies there leaves
    an ISR of which its successor may elect a member that fetches from nobody (seed 343 of the simulator)."""
    led = Led(tmp_path, isr=(1, 2, 3), replicas=(1, 2))
    waits = led.append_and_wait(b"a")
    led.fetched(2, 1)
    assert led.partition.high_watermark == 0
    assert waits.told == []
    led.lead(isr=(1, 2))
    led.fetched(2, 1)
    assert led.partition.high_watermark == 1
    assert waits.told == [ErrorCode.NONE]


# ------------------------------------------------------------------------------------------------ the follower


def test_a_followers_mark_follows_the_leaders_and_never_passes_its_own_end(tmp_path: Path) -> None:
    led = Led(tmp_path, lead=False)
    led.follow(2)
    led.partition.append_as_follower(
        a_batch(b"a", b"b", epoch=0), leader_high_watermark=9, leader_log_start=0, now_ms=0
    )
    assert led.partition.high_watermark == 2
    led.partition.append_as_follower(None, leader_high_watermark=1, leader_log_start=0, now_ms=0)
    assert led.partition.high_watermark == 2, "an older answer takes nothing back"


def test_a_cut_comes_before_the_mark_and_takes_it_along(tmp_path: Path) -> None:
    led = Led(tmp_path, lead=False)
    led.follow(2)
    for n in range(3):
        led.partition.append_as_follower(
            a_batch(b"%d" % n, epoch=0, base_offset=n), leader_high_watermark=3, leader_log_start=0, now_ms=0
        )
    led.partition.truncate_to(1, 0)
    assert led.partition.log.log_end_offset == 1
    assert led.partition.high_watermark == 1
    (level, why), (_, what) = led.outbox.messages[-2:]
    assert level == "warning"
    assert "below the high watermark 3" in why
    assert "offsets 1 to 2 are cut off" in what


@pytest.mark.parametrize(
    ("to", "is_recovering", "keeps_tails", "is_kept"),
    [
        (2, False, False, False),
        (1, False, False, False),
        (2, True, False, True),
        (2, False, True, True),
        (0, False, False, True),
        (3, True, True, False),
    ],
    ids=[
        "not committed",
        "all but what is committed",
        "the leader recovers",
        "unclean leaders are allowed",
        "committed",
        "nothing goes",
    ],
)
def test_what_is_cut_off_is_kept_where_it_may_have_been_acknowledged(
    tmp_path: Path, to: int, *, is_recovering: bool, keeps_tails: bool, is_kept: bool
) -> None:
    led = Led(tmp_path, lead=False)
    told = leadership(2, 5, (2,), recovery_state=int(is_recovering))
    led.partition.make_follower(told, ReplicaAssignment(led.replicas))
    led.partition.keeps_tails = keeps_tails
    for n in range(3):
        led.partition.append_as_follower(
            a_batch(b"x", epoch=5, base_offset=n), leader_high_watermark=1, leader_log_start=0, now_ms=0
        )
    led.partition.truncate_to(to, 0)
    said = [text for _, text in led.outbox.messages]
    assert led.partition.log.log_end_offset == to
    assert [f"offsets {to} to 2 are cut off behind an unclean leader" in text for text in said[-1:]] == [
        True
    ] * is_kept
    assert (tmp_path / "t-0" / "truncated").exists() == is_kept
    assert any("below the high watermark" in text for text in said) == (to == 0)


@pytest.mark.parametrize(
    ("min_isr", "told", "mark"),
    [(1, ErrorCode.NONE, 1), (2, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, 0)],
)
def test_who_waits_is_answered_by_the_next_leadership_of_a_leader_that_is_alone(
    tmp_path: Path, min_isr: int, told: ErrorCode, mark: int
) -> None:
    led = Led(tmp_path, min_isr=min_isr)
    waits = led.append_and_wait(b"a")
    assert waits.told == []
    led.lead(isr=(1,))
    assert (waits.told, led.partition.high_watermark) == ([told], mark)


class Reads(Reader):
    """Notes what it is told."""

    def __init__(self) -> None:
        self.is_dirty = False
        self.told: list[str] = []

    def wake(self) -> None:
        self.told.append("woken")

    def on_high_watermark(self, now_ms: int) -> None:
        self.told.append("mark")


CHANGES: dict[str, Callable[[Led], object]] = {
    "leads on": lambda led: led.lead((1, 2)),
    "leads no more": lambda led: led.follow(2),
    "is stopped": lambda led: led.partition.stop(),
    "loses its disk": lambda led: led.partition.lose_disk(),
    "deletes records": lambda led: led.partition.delete_records(1),
}
AS_A_FOLLOWER: dict[str, tuple[Callable[[Partition], object], bool]] = {
    # Whether readers hear of it.
    "hears of a higher mark": (lambda p: _fetches(p, None, mark=2), True),
    "hears of the same mark": (lambda p: _fetches(p, None, mark=1), False),
    "is cut": (lambda p: p.truncate_to(1, 0), True),
    "begins anew": (lambda p: all_at_once(p.restarting_at(7, 0)), True),
}


def _fetches(partition: Partition, records: memoryview | None, *, mark: int) -> None:
    partition.append_as_follower(records, leader_high_watermark=mark, leader_log_start=0, now_ms=0)


@pytest.mark.parametrize("name", AS_A_FOLLOWER)
def test_who_reads_of_a_follower_is_told_of_its_mark_and_of_its_end(tmp_path: Path, name: str) -> None:
    led = Led(tmp_path, lead=False)
    led.follow(2)
    _fetches(led.partition, a_batch(b"a", b"b", epoch=0), mark=1)
    consumer = Reads()
    led.partition.consumer_readers[consumer] = None
    change, is_told = AS_A_FOLLOWER[name]
    change(led.partition)
    assert consumer.told == ["woken"] * is_told


OF_EACH: dict[str, tuple[Callable[[Led], object], list[str], list[str]]] = {
    # What a follower hears, and what a consumer does.
    "appends": (lambda led: led.append(b"x"), ["woken"], []),
    "commits": (lambda led: led.fetched(2, 2), ["mark"], ["woken"]),
    "hears the same again": (lambda led: led.fetched(2, 1), [], []),
    **{name: (change, ["woken"], ["woken"]) for name, change in CHANGES.items()},
}


@pytest.mark.parametrize("is_dirty", [False, True])
@pytest.mark.parametrize("name", OF_EACH)
def test_who_reads_is_told_of_what_concerns_him_unless_he_is_to_look_anyway(
    tmp_path: Path, name: str, is_dirty: bool
) -> None:
    led = Led(tmp_path, isr=(1, 2), replicas=(1, 2))
    led.append(b"a", b"b")
    led.fetched(2, 1)
    assert led.partition.high_watermark == 1
    follower, consumer = Reads(), Reads()
    follower.is_dirty = consumer.is_dirty = is_dirty
    led.partition.follower_readers[follower] = led.partition.consumer_readers[consumer] = None
    change, to_follower, to_consumer = OF_EACH[name]

    change(led)

    expected = ([], []) if is_dirty else (to_follower, to_consumer)
    assert (follower.told, consumer.told) == expected


def test_records_are_deleted_by_the_leader_up_to_its_high_watermark_and_where_the_topic_is_not_compacted(
    tmp_path: Path,
) -> None:
    led = Led(tmp_path, isr=(1,), replicas=(1,))
    led.append(b"a", b"b")

    def refused(offset: int) -> int:
        with pytest.raises(ProtocolError) as caught:
            led.partition.delete_records(offset)
        return caught.value.code

    assert refused(3) == refused(-2) == ErrorCode.OFFSET_OUT_OF_RANGE
    assert (led.partition.delete_records(0), led.partition.delete_records(1)) == (0, 1)
    assert led.partition.log.log_start_offset == 1
    assert led.partition.delete_records(-1) == led.partition.log.log_start_offset == 2
    led.partition.log.config = config(cleanup_policy="compact")
    assert refused(2) == ErrorCode.POLICY_VIOLATION
    led.follow(2)
    assert refused(2) == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_what_is_not_committed_is_not_deleted_at_anybodys_request(tmp_path: Path) -> None:
    led = Led(tmp_path)
    led.append(b"a", b"b", b"c")
    led.fetched(2, 3)
    led.fetched(3, 1)
    assert led.partition.high_watermark == 1
    with pytest.raises(ProtocolError) as refusal:
        led.partition.delete_records(2)
    assert refusal.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert led.partition.log.log_start_offset == 0
    assert led.partition.delete_records(-1) == led.partition.log.log_start_offset == 1


def test_the_low_watermark_is_the_smallest_start_of_the_replicas_that_live(tmp_path: Path) -> None:
    """Whoever deletes records waits for it, and a broker that is dead does not follow."""
    led = Led(tmp_path)
    led.append(b"a", b"b", b"c")
    for follower in (2, 3):
        led.fetched(follower, 3)
    assert led.partition.delete_records(2) == 2
    assert led.partition.low_watermark == 0
    led.fetched(2, 3, log_start=2)
    assert led.partition.low_watermark == 0
    led.live.discard(3)
    assert led.partition.low_watermark == 2


def test_a_follower_drops_what_the_leader_deleted(tmp_path: Path) -> None:
    led = Led(tmp_path, lead=False)
    led.follow(2)
    led.partition.append_as_follower(
        a_batch(b"a", b"b", epoch=0), leader_high_watermark=2, leader_log_start=1, now_ms=0
    )
    assert led.partition.log.log_start_offset == 1


def test_a_follower_drops_all_it_has_when_the_leader_deleted_up_to_there(tmp_path: Path) -> None:
    led = Led(tmp_path, lead=False)
    led.follow(2)
    led.partition.append_as_follower(
        a_batch(b"a", b"b", epoch=0), leader_high_watermark=2, leader_log_start=2, now_ms=0
    )
    assert led.partition.log.log_start_offset == 2


def test_a_follower_that_ends_below_the_leaders_start_keeps_its_own_until_it_is_cut(tmp_path: Path) -> None:
    """Where it begins anew it asks the leader first: what was fetched is kept, and says no more."""
    led = Led(tmp_path, lead=False)
    led.follow(2)
    led.partition.append_as_follower(
        a_batch(b"a", b"b", epoch=0), leader_high_watermark=2, leader_log_start=3, now_ms=0
    )
    log = led.partition.log
    assert (log.log_start_offset, log.log_end_offset, led.partition.high_watermark) == (0, 2, 2)


@pytest.mark.behaviour(136)
@pytest.mark.parametrize(("checkpoint", "mark"), [(0, 0), (2, 2), (9, 3)])
def test_the_mark_on_start_is_the_checkpoint_entry_but_not_above_the_log(
    tmp_path: Path, checkpoint: int, mark: int
) -> None:
    led = Led(tmp_path)
    led.append(b"a", b"b", b"c")
    led.partition.log.close()
    again = Led(tmp_path / "other", lead=False, high_watermark=checkpoint)
    assert again.partition.high_watermark == 0
    log = again.partition.log
    log.append_as_follower(a_batch(b"a", b"b", b"c", epoch=0), now_ms=0)
    reopened = Partition(
        again.partition.topic_partition,
        again.partition.topic_id,
        log,
        broker=b(1),
        high_watermark=checkpoint,
        min_insync_replicas=1,
        replica_lag_time_max_ms=LAG_MS,
        live_brokers=set(),
        outbox=again.outbox,
    )
    assert reopened.high_watermark == mark


# ----------------------------------------------------------------------------------------------------- readers


def test_a_leader_fences_both_directions(tmp_path: Path) -> None:
    led = Led(tmp_path)
    led.lead((1, 2, 3))
    assert led.partition.leader_epoch == 1
    assert led.partition.check_epoch(0) == ErrorCode.FENCED_LEADER_EPOCH
    assert led.partition.check_epoch(1) == ErrorCode.NONE
    assert led.partition.check_epoch(2) == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert led.partition.check_epoch(-1) == ErrorCode.NONE
    assert led.partition.check_epoch(-2) == ErrorCode.FENCED_LEADER_EPOCH


def test_divergence_is_named_with_the_epoch_where_the_logs_part(tmp_path: Path) -> None:
    led = Led(tmp_path)
    led.append(b"a", b"b")
    led.lead((1, 2, 3), epoch=3)
    led.append(b"c")
    assert led.partition.divergence_point(3, 3) is None
    assert led.partition.divergence_point(3, 4) == (3, 3), "longer in the same epoch"
    assert led.partition.divergence_point(0, 2) is None
    assert led.partition.divergence_point(0, 3) == (0, 2), "longer in an older one"
    assert led.partition.divergence_point(2, 2) == (0, 2), "an epoch the leader never saw"
    with pytest.raises(ProtocolError) as refusal:
        led.partition.divergence_point(4, 3)
    assert refusal.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
