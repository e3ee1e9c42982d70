"""Committed offsets: transactions, expiry, deleted topics, and commits that do not fit."""

from collections.abc import Iterator
from typing import Any

import pytest

from odradek.coordinator import fetching
from odradek.coordinator.events import AppendFailed, Committed, TopicsDeleted
from odradek.coordinator.later import Later
from odradek.coordinator.partitioning import utf16_units
from odradek.coordinator.records import CommittedOffset
from odradek.coordinator.settings import MINUTE_MS
from odradek.model.error_codes import ErrorCode
from odradek.protocol.messages.delete_groups import DeleteGroupsRequest
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from odradek.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from odradek.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.coordinator.groups import GROUP, Bench, join_request
from tests.support import each

WEEK_MS = 7 * 24 * 60 * MINUTE_MS


def transactional(bench: Bench, offset: int, producer_id: int = 9) -> None:
    row = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    request = TxnOffsetCommitRequest(
        group_id=GROUP,
        producer_id=producer_id,
        topics=[TxnOffsetCommitRequestTopic(name="t", partitions=[row])],
    )
    bench.ask(request, 3)


def fetched(bench: Bench, *, stable: bool = False) -> Any:
    """(offset, error) of all that is there."""
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=None)], require_stable=stable
    )
    (group,) = bench.call(request, 8).groups
    return [(one.committed_offset, one.error_code) for topic in group.topics for one in topic.partitions]


@pytest.mark.behaviour("O11")
@pytest.mark.parametrize("is_later", [False, True])
def test_of_two_commits_the_later_in_the_log_stands_also_for_who_loads(is_later: bool) -> None:
    bench = Bench()
    if is_later:
        bench.commit_offset(6)
        transactional(bench, 8)
    else:
        transactional(bench, 8)
        bench.commit_offset(6)

    bench.end_transaction(9, is_commit=True)

    assert fetched(bench) == [(8 if is_later else 6, 0)]
    loaded = bench.loaded()
    loaded.end_transaction(9, is_commit=True)
    found = loaded.offsets.of(GROUP, ("t", 0))
    assert isinstance(found, CommittedOffset) and found.offset == (8 if is_later else 6)


@pytest.mark.behaviour("O14")
def test_what_a_transaction_committed_is_there_in_the_turn_of_its_marker() -> None:
    bench = Bench()
    transactional(bench, 8)
    assert fetched(bench, stable=True) == [(-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)]

    bench.end_transaction(9, is_commit=True)

    assert fetched(bench, stable=True) == [(8, 0)]


@pytest.mark.behaviour("O16")
def test_offsets_expire_a_retention_after_the_group_became_empty() -> None:
    bench = Bench()
    (only,) = bench.stable(session_ms=30 * MINUTE_MS)
    bench.commit_offset(5, member=only, generation=bench.group.generation)
    bench.wait(25 * MINUTE_MS)
    bench.leave(only)

    bench.wait(WEEK_MS - 1)
    assert fetched(bench) == [(5, 0)]
    bench.wait(10 * MINUTE_MS)

    assert fetched(bench) == []
    assert bench.state() == "none"
    assert bench.loaded().groups == {}


@pytest.mark.behaviour("O3")
def test_who_may_not_commit_hears_that_and_not_that_its_metadata_is_too_long() -> None:
    """A member that has to join again would give up on 12, which no retry mends."""
    bench = Bench(offset_metadata_max_units=3)
    (only,) = bench.stable()
    rows = [
        OffsetCommitRequestPartition(partition_index=at, committed_offset=5, committed_metadata="long")
        for at in (0, 99)
    ]
    request = OffsetCommitRequest(
        group_id=GROUP,
        generation_id_or_member_epoch=bench.group.generation - 1,
        member_id=only,
        topics=[OffsetCommitRequestTopic(name="t", partitions=rows)],
    )

    (topic,) = bench.call(request, 8).topics

    assert [one.error_code for one in topic.partitions] == [
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]


@pytest.mark.behaviour("O16")
def test_offsets_that_a_live_group_uses_never_expire_and_those_it_left_behind_do() -> None:
    bench = Bench()
    (only,) = bench.stable(session_ms=30 * MINUTE_MS)
    for topic in ("t", "u"):
        bench.commit_offset(5, member=only, generation=bench.group.generation, topic=topic)
    for _ in range(WEEK_MS // (20 * MINUTE_MS) + 1):
        bench.wait(20 * MINUTE_MS)
        assert bench.heartbeat(only) == 0

    offsets = bench.coordinator.shard.offsets
    assert offsets.of(GROUP, ("u", 0)) is None
    assert offsets.of(GROUP, ("t", 0)) is not None


def test_an_offset_that_is_committed_again_does_not_expire_while_that_is_on_its_way() -> None:
    """A tombstone behind it in the log would take it away."""
    bench = Bench(held=True)
    bench.commit_offset(5)
    bench.commit()
    bench.wait(WEEK_MS - 1)
    bench.commit_offset(6)
    bench.wait(30 * MINUTE_MS)

    assert len(bench.waiting) == 1
    bench.commit()
    assert fetched(bench) == [(6, 0)]
    bench.move()
    assert fetched(bench) == [(6, 0)]


@pytest.mark.behaviour("O17")
def test_offsets_of_a_deleted_topic_go_and_those_of_the_next_of_its_name_stay() -> None:
    bench = Bench()
    bench.commit_offset(5)
    bench.commit_offset(6, topic="u")
    bench.wait(1)
    bench.step(TopicsDeleted(frozenset(("t",))))
    bench.now_ms += 1
    bench.commit_offset(7, partition=1)  # before anybody looked for what is to go
    bench.wait(1)

    offsets = bench.coordinator.shard.offsets
    assert offsets.of(GROUP, ("t", 0)) is None
    assert offsets.of(GROUP, ("t", 1)) is not None and offsets.of(GROUP, ("u", 0)) is not None


@pytest.mark.behaviour("O17")
def test_an_offset_of_a_deleted_topic_goes_though_it_was_committed_by_a_clock_that_is_ahead() -> None:
    """Of the coordinator before this one. What is committed here tells by this clock whether it is of the next topic."""
    bench = Bench()
    bench.now_ms += 3_600_000
    bench.commit_offset(5)
    bench.move()
    bench.now_ms -= 3_600_000
    bench.step(TopicsDeleted(frozenset(("t",))))
    bench.now_ms += 1
    bench.commit_offset(7, partition=1)
    bench.wait(1)

    offsets = bench.coordinator.shard.offsets
    assert offsets.of(GROUP, ("t", 0)) is None and offsets.of(GROUP, ("t", 1)) is not None


@pytest.mark.behaviour("O17")
def test_an_offset_of_a_deleted_topic_that_was_on_its_way_goes_when_it_has_come() -> None:
    bench = Bench(held=True)
    bench.commit_offset(5)
    bench.step(TopicsDeleted(frozenset(("t",))))
    bench.wait(1)
    bench.commit()
    bench.wait(1_000)
    bench.commit()

    assert bench.coordinator.shard.offsets.of(GROUP, ("t", 0)) is None
    bench.move()
    assert fetched(bench) == []


def test_a_topic_that_was_made_again_is_not_looked_after_as_one_that_was_deleted() -> None:
    """Else all groups that are just committing to it would be looked at each second."""
    bench = Bench()
    bench.commit_offset(5)
    bench.step(TopicsDeleted(frozenset(("t",))))
    bench.wait(5_000)
    bench.held = True
    bench.commit_offset(6)
    interval_ms = bench.settings.offsets_retention_check_interval_ms
    bench.wait(interval_ms)
    due_ms = bench.coordinator.next_deadline_ms()
    assert due_ms is not None and due_ms - bench.now_ms > interval_ms // 2


@pytest.mark.behaviour("O17")
def test_an_offset_of_a_deleted_topic_that_a_transaction_holds_goes_when_that_has_ended() -> None:
    bench = Bench()
    transactional(bench, 8)
    bench.step(TopicsDeleted(frozenset(("t",))))
    bench.wait(30_000)
    bench.end_transaction(9, is_commit=True)
    bench.wait(1_000)

    assert bench.coordinator.shard.offsets.of(GROUP, ("t", 0)) is None


@pytest.mark.behaviour("O17")
def test_offsets_of_a_deleted_topic_whose_tombstones_failed_go_by_the_next_ones() -> None:
    bench = Bench(held=True)
    bench.commit_offset(5)
    bench.commit_offset(6, topic="u")
    bench.commit()
    bench.commit()
    bench.step(TopicsDeleted(frozenset(("t",))))
    bench.wait(1)
    bench.fail()
    bench.wait(1_000)
    bench.commit()

    offsets = bench.coordinator.shard.offsets
    assert offsets.of(GROUP, ("t", 0)) is None and offsets.of(GROUP, ("u", 0)) is not None
    bench.wait(1_000)
    interval_ms = bench.settings.offsets_retention_check_interval_ms
    assert not bench.waiting and bench.coordinator.next_deadline_ms() > bench.now_ms + interval_ms // 2


@pytest.mark.behaviour("O18")
def test_a_group_that_only_an_open_transaction_knows_is_not_expired() -> None:
    bench = Bench()
    transactional(bench, 8)

    bench.wait(WEEK_MS * 2)
    assert bench.state() == "Empty"
    bench.end_transaction(9, is_commit=True)

    assert fetched(bench) == [(8, 0)]


@pytest.mark.behaviour("G36")
def test_what_a_transaction_holds_goes_with_the_group_that_is_deleted() -> None:
    bench = Bench()
    transactional(bench, 8)

    (row,) = bench.call(DeleteGroupsRequest(groups_names=[GROUP]), 2).results
    bench.end_transaction(9, is_commit=True)

    assert row.error_code == 0
    assert fetched(bench) == []


def test_a_commit_that_is_under_way_is_deleted_with_its_group() -> None:
    bench = Bench(held=True)
    bench.commit_offset(5)
    deletion = bench.ask(DeleteGroupsRequest(groups_names=[GROUP]), 2)
    bench.commit()
    bench.commit()

    assert bench.answers[deletion].results[0].error_code == 0
    assert fetched(bench) == []
    assert not bench.loaded().offsets.by_group


def test_a_commit_that_fits_no_batch_is_refused_before_it_is_written() -> None:
    bench = Bench(max_append_bytes=10_000)
    rows = [OffsetCommitRequestPartition(partition_index=0, committed_offset=1) for _ in range(200)]
    request = OffsetCommitRequest(
        group_id=GROUP, topics=[OffsetCommitRequestTopic(name="t", partitions=rows)]
    )

    answer = bench.call(request, 8)

    codes = {one.error_code for topic in answer.topics for one in topic.partitions}
    assert codes == {ErrorCode.INVALID_COMMIT_OFFSET_SIZE}
    assert bench.log == []


@pytest.mark.parametrize("generation", [-1, 7])
def test_a_commit_of_more_partitions_than_any_batch_takes_is_refused_before_each_is_looked_at(
    generation: int,
) -> None:
    bench = Bench(max_append_bytes=10_000)
    rows = [OffsetCommitRequestPartition(partition_index=at, committed_offset=1) for at in range(200)]
    request = OffsetCommitRequest(
        group_id=GROUP,
        generation_id_or_member_epoch=generation,
        topics=[OffsetCommitRequestTopic(name="nowhere", partitions=rows)],
    )

    (topic,) = bench.call(request, 8).topics

    assert [one.partition_index for one in topic.partitions] == list(range(200))
    told = ErrorCode.INVALID_COMMIT_OFFSET_SIZE if generation < 0 else ErrorCode.ILLEGAL_GENERATION
    assert {one.error_code for one in topic.partitions} == {told}
    assert GROUP not in bench.coordinator.shard.groups


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.REQUEST_TIMED_OUT),
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
def test_a_commit_that_is_undecided_counts_when_it_is_committed_after_all(
    error: ErrorCode, told: ErrorCode
) -> None:
    bench = Bench(held=True)
    call = bench.commit_offset(5)
    append, base_offset = bench.waiting.pop()
    bench.step(AppendFailed(append.append_id, error))
    assert bench.answers[call].topics[0].partitions[0].error_code == told
    assert fetched(bench) == []
    bench.step(Committed(append.append_id, base_offset))

    assert fetched(bench) == [(5, 0)]


def test_a_commit_that_is_undecided_and_then_fails_is_under_way_no_more() -> None:
    bench = Bench(held=True)
    bench.commit_offset(5)
    late = bench.waiting[0]
    bench.step_late()
    offsets = bench.coordinator.shard.offsets
    assert offsets.is_in_flight(GROUP, ("t", 0))
    bench.fail_late(late)
    assert not offsets.is_in_flight(GROUP, ("t", 0))
    assert fetched(bench) == []


def test_in_a_group_without_members_no_generation_is_enough_for_a_commit_in_a_transaction_too() -> None:
    """As for OffsetCommit, and as Apache 3.9.1: of an Empty group nobody is a member, whatever is named."""
    bench = Bench()
    bench.commit_offset(1)
    for named in ({"member_id": "x"}, {"group_instance_id": "x"}):
        assert commit_in_transaction(bench, **named) == 0
        assert commit_in_transaction(bench, generation_id=3, **named) == ErrorCode.UNKNOWN_MEMBER_ID


def test_of_a_group_with_members_nobody_commits_in_a_transaction_by_leaving_the_generation_out() -> None:
    """But for who names nothing at all: such a producer is fenced by its own epoch."""
    bench = Bench()
    (member,) = bench.stable()
    assert commit_in_transaction(bench, member_id="x") == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit_in_transaction(bench, member_id=member) == ErrorCode.ILLEGAL_GENERATION
    assert commit_in_transaction(bench, group_instance_id="x") == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit_in_transaction(bench) == 0


def test_a_group_that_has_moved_is_not_told_to_have_no_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its consumers would begin where they are told to without any. A thread is to make the answer, and its turn comes late."""
    monkeypatch.setattr(fetching, "MOST_OFFSETS", 0)
    bench = Bench()
    bench.commit_offset(7)
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=None)])
    put_off = bench.call(request, 8)
    assert isinstance(put_off, Later)
    bench.move()
    (group,) = put_off.make().groups  # type: ignore[attr-defined]
    assert (group.error_code, group.topics) == (ErrorCode.NOT_COORDINATOR, [])


def test_a_group_that_loses_its_last_offset_stays_for_who_has_an_id_to_join_it() -> None:
    bench = Bench()
    bench.commit_offset(7)
    given = bench.call(join_request(), 9)
    deletion = OffsetDeleteRequest(
        group_id=GROUP,
        topics=[OffsetDeleteRequestTopic(name="t", partitions=[OffsetDeleteRequestPartition()])],
    )
    bench.call(deletion, 0)
    assert fetched(bench) == []
    assert bench.call(join_request(given.member_id), 9).error_code == 0


def test_what_was_committed_here_was_not_loaded_though_what_stands_behind_it_was_told_first() -> None:
    """Of a deleted topic, what was loaded goes whenever it was committed; what was committed since is of the next of its name."""
    bench = Bench(held=True)
    bench.commit_offset(7)
    bench.commit_offset(8, partition=1)
    late = bench.waiting[0]
    bench.step_late()
    bench.commit()
    bench.commit_late(late)
    assert not bench.coordinator.shard.was_loaded(0)


def test_a_retention_beyond_all_time_is_kept_for_all_time() -> None:
    """Versions 2 to 4 name it, and it is a client's number."""
    bench = Bench()
    row = OffsetCommitRequestPartition(partition_index=0, committed_offset=7)
    request = OffsetCommitRequest(
        group_id=GROUP,
        retention_time_ms=2**63 - 1,
        topics=[OffsetCommitRequestTopic(name="t", partitions=[row])],
    )
    assert bench.call(request, 4).topics[0].partitions[0].error_code == 0
    found = bench.loaded().offsets.of(GROUP, ("t", 0))
    assert found is not None and found.expires_at_ms == 2**63 - 1


def test_the_group_without_a_name_takes_old_commits_and_nothing_newer() -> None:
    """As Apache 3.9.1, which has it for clients of version 0 alone."""
    bench = Bench()
    assert commit_in_transaction(bench, group_id="") == ErrorCode.INVALID_GROUP_ID
    topics = [
        OffsetCommitRequestTopic(name="t", partitions=[OffsetCommitRequestPartition(committed_offset=1)])
    ]
    row = bench.call(OffsetCommitRequest(group_id="", topics=topics), 8).topics[0].partitions[0]
    assert row.error_code == 0
    deletion = OffsetDeleteRequest(
        group_id="", topics=[OffsetDeleteRequestTopic(name="t", partitions=[OffsetDeleteRequestPartition()])]
    )
    answer = bench.call(deletion, 0)
    assert (answer.error_code, answer.topics) == (ErrorCode.INVALID_GROUP_ID, [])


def commit_in_transaction(bench: Bench, group_id: str = GROUP, **named: Any) -> int:
    topics = [
        TxnOffsetCommitRequestTopic(
            name="t", partitions=[TxnOffsetCommitRequestPartition(committed_offset=1)]
        )
    ]
    request = TxnOffsetCommitRequest(
        transactional_id="x", group_id=group_id, producer_id=1, producer_epoch=0, topics=topics, **named
    )
    return int(bench.call(request, 4).topics[0].partitions[0].error_code)


class Text(str):
    """A step of Python a letter is too many: the metadata of one request may be a hundred megabytes."""

    __slots__ = ()

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("looked at letter by letter")


@each([("", 0), ("a" * 9, 9), ("\u00e9\uffff", 2), ("a\U0001f600", 3), ("\U0010ffff" * 3, 6)])
def test_metadata_is_measured_in_units_of_utf_16_without_a_look_at_each_letter(text: str, units: int) -> None:
    assert utf16_units(Text(text)) == units
