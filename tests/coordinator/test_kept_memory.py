"""Groups with their offsets, and transactional ids, take a bounded part of a broker's memory, and give back what they took."""

import tracemalloc
from typing import Any

import pytest

from odradek.coordinator import kept_memory
from odradek.coordinator.bounded_memory import SAID_AGAIN_MS, of_text
from odradek.coordinator.kept_memory import (
    BYTES_OF_AN_OFFSET,
    FREE_METADATA,
    LEAST_OF_AN_ID,
    memory_of_groups,
    memory_of_transactions,
    of_group,
    of_transaction,
)
from odradek.coordinator.shard import Shard
from odradek.model.error_codes import ErrorCode
from odradek.protocol.messages.delete_groups import DeleteGroupsRequest
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.coordinator.consumers import beat, join
from tests.coordinator.groups import GROUP, Bench, commit_request, join_request
from tests.coordinator.test_transactions import Bench as TransactionBench

FULL = ErrorCode.COORDINATOR_NOT_AVAILABLE
KB = 1_000


def kept_by(shard: Shard) -> int:
    """Looked at one by one, what is counted as it comes and goes."""
    offsets = shard.stored.offsets
    found = sum(shard.kept_by_append.values())
    found += sum(map(of_group, [*shard.groups, *shard.stored.consumer_groups]))
    tables = [offsets.by_group, *offsets.pending.values()]
    for places in (places for groups in tables for places in groups.values()):
        for stood in places.values():
            found += BYTES_OF_AN_OFFSET + max(of_text(stood.committed.metadata) - FREE_METADATA, 0)
    return found


def commit(bench: Bench, group: str, *places: int, metadata: str = "") -> int:
    rows = [
        OffsetCommitRequestPartition(partition_index=at, committed_offset=5, committed_metadata=metadata)
        for at in places
    ]
    request = OffsetCommitRequest(
        group_id=group, topics=[OffsetCommitRequestTopic(name="t", partitions=rows)]
    )
    (topic,) = bench.call(request, 8).topics
    (error,) = {one.error_code for one in topic.partitions}
    return int(error)


def commit_in_transaction(bench: Bench, group: str, producer_id: int, metadata: str = "") -> int:
    row = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=6, committed_metadata=metadata)
    request = TxnOffsetCommitRequest(
        group_id=group,
        producer_id=producer_id,
        topics=[TxnOffsetCommitRequestTopic(name="t", partitions=[row])],
    )
    answer: Any = bench.call(request, 3)
    return int(answer.topics[0].partitions[0].error_code)


@pytest.fixture(autouse=True)
def _little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_memory, "MOST_BYTES", 20 * KB)
    monkeypatch.setattr(kept_memory, "MOST_BYTES_OF_TRANSACTIONS", 20 * KB)


def test_who_commits_more_than_there_is_room_for_is_to_come_again_and_has_room_when_a_group_went() -> None:
    bench = Bench()
    text = "m" * 4_000
    assert [commit(bench, name, 0, 1, metadata=text) for name in "abc"] == [0, 0, FULL]
    assert "c" not in bench.coordinator.shard.groups, "nothing is left of who was refused"
    assert bench.coordinator.shard.kept_bytes == kept_by(bench.coordinator.shard)

    bench.call(DeleteGroupsRequest(groups_names=["a", "b"]), 2)

    assert bench.coordinator.shard.kept_bytes == kept_by(bench.coordinator.shard) == 0
    assert commit(bench, "c", 0, 1, metadata=text) == 0


def test_commits_to_the_same_partitions_go_on_where_there_is_no_room() -> None:
    bench = Bench()
    assert commit(bench, "a", 0, 1) == 0
    assert commit(bench, "b", 0, 1, 2, 3, metadata="m" * 3_600) == 0
    assert commit(bench, "c", 0) == FULL
    assert commit(bench, "a", 2, metadata="m" * 1_000) == FULL, "a partition that it has not committed"

    assert commit(bench, "a", 0, 1, metadata="m" * FREE_METADATA) == 0
    assert commit(bench, "b", 3, metadata="n" * 3_600) == 0
    assert commit_in_transaction(bench, "a", producer_id=9) == 0


def test_what_a_second_open_transaction_holds_for_a_partition_is_asked_for() -> None:
    bench = Bench()
    assert commit(bench, "a", 0, metadata="m" * 4_000) == 0
    answers = [commit_in_transaction(bench, "a", producer, "m" * 4_000) for producer in (7, 8, 9, 10, 11)]
    assert answers == [0, 0, 0, FULL, FULL]
    bench.kept.most_bytes = bench.kept.size_bytes
    assert commit_in_transaction(bench, "a", 8, "n" * 4_000) == 0, "no more than it holds already"
    assert commit_in_transaction(bench, "a", 8, "n" * 4_090) == FULL
    for producer in (7, 8):
        bench.end_transaction(producer, is_commit=producer == 8)
    assert bench.coordinator.shard.kept_bytes == kept_by(bench.coordinator.shard)
    assert commit_in_transaction(bench, "a", 10, "m" * 4_000) == 0
    assert bench.coordinator.shard.kept_bytes == kept_by(bench.coordinator.shard)


def test_letters_of_four_bytes_make_all_of_a_text_as_wide() -> None:
    bench = Bench()
    assert commit(bench, "a", 0, metadata="m" * 4_000 + "\N{GRINNING FACE}") == 0
    assert bench.coordinator.shard.kept_bytes > 16 * KB
    assert commit(bench, "a", 0, metadata="m" * 20 + "\N{GRINNING FACE}") == 0
    assert bench.coordinator.shard.kept_bytes == kept_by(bench.coordinator.shard) < 2 * KB
    assert commit(bench, "a", 0, metadata="m" * FREE_METADATA) == 0
    assert bench.coordinator.shard.kept_bytes == of_group("a") + BYTES_OF_AN_OFFSET


def test_a_commit_counts_while_it_is_on_its_way_and_no_more_when_it_failed() -> None:
    bench = Bench(held=True)
    first = bench.commit_offset(5, group="a")
    for _ in range(2):
        bench.ask(
            OffsetCommitRequest(
                group_id="b",
                topics=[
                    OffsetCommitRequestTopic(
                        name="t",
                        partitions=[
                            OffsetCommitRequestPartition(
                                partition_index=at, committed_offset=1, committed_metadata="m" * 4_000
                            )
                            for at in range(3)
                        ],
                    )
                ],
            ),
            8,
        )
    assert len(bench.waiting) == 2, "the third was refused"
    while bench.waiting:
        bench.fail()
    assert bench.answers[first]
    assert bench.coordinator.shard.kept_bytes == kept_by(bench.coordinator.shard)


def test_new_groups_of_either_protocol_have_to_wait_where_there_is_no_room() -> None:
    bench = Bench()
    assert commit(bench, "a", 0, 1, 2, 3, metadata="m" * 4_090) == 0

    refused = bench.call(join_request(group="b" * 1_000), 9)
    assert (refused.error_code, refused.member_id) == (FULL, "")
    refused = bench.call(join("m"), 1)
    assert refused.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert set(bench.coordinator.shard.groups) == {"a"} and not bench.coordinator.shard.consumer_groups


def test_what_is_loaded_is_kept_and_counts_for_all_coordinators() -> None:
    kept = memory_of_groups()
    bench = Bench(kept=kept)
    assert commit(bench, "a", 0, 1, 2, 3, metadata="m" * 4_000) == 0
    other = Bench(kept=kept)
    assert commit(other, "b", 0, metadata="m" * 4_000) == FULL

    kept.most_bytes = 10 * KB
    bench.move()
    bench.wait(1)
    shard = bench.coordinator.shard
    assert shard.kept_bytes == kept_by(shard) > 16 * KB
    assert commit(bench, "a", 0, metadata="n" * 4_000) == 0, (
        "more than there is room for, and no more than before"
    )
    assert kept.size_bytes == shard.kept_bytes

    bench.coordinator.tables()
    assert kept.size_bytes == 0
    assert commit(other, "b", 0, metadata="m" * 4_000) == 0


def test_the_operator_is_told_once_a_minute() -> None:
    bench = Bench()
    for name in "abcde":
        commit(bench, name, 0, metadata="m" * 4_096)
    (line,) = bench.lines
    assert "20000 bytes of memory" in line and "1 times" in line and "odradek group delete" in line
    bench.wait(SAID_AGAIN_MS)
    commit(bench, "e", 0, metadata="m" * 4_096)
    assert len(bench.lines) == 2 and "3 times" in bench.lines[1]


def test_a_group_of_the_new_protocol_counts_and_goes() -> None:
    bench = Bench()
    bench.call(join("m"), 1)
    bench.do_asides()
    shard = bench.coordinator.shard
    assert shard.kept_bytes == kept_by(shard) == of_group(GROUP)
    bench.kept.most_bytes = shard.kept_bytes + BYTES_OF_AN_OFFSET
    bench.call(commit_request(5, "m", 1, "t", 0, GROUP), 9)
    assert shard.kept_bytes == kept_by(shard) == bench.kept.most_bytes, "it is no new group"
    bench.call(beat("m", -1), 1)
    bench.call(DeleteGroupsRequest(groups_names=[GROUP]), 2)
    assert shard.kept_bytes == kept_by(shard) == 0


def test_large_installations_have_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    groups = 50_000 * (of_group("g" * 40) + 20 * BYTES_OF_AN_OFFSET)
    assert groups < kept_memory.MOST_BYTES
    assert 20_000 * of_transaction("sink-" + "x" * 40, 50) < kept_memory.MOST_BYTES_OF_TRANSACTIONS


# ------------------------------------------------------------------------------------------------ transactions


def test_an_id_takes_about_what_it_counts_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Traced, without the log and what was answered. With each the bench counts them all."""
    monkeypatch.undo()
    bench = TransactionBench()
    count = 100
    bench.ids = list(range(1_000, 1_001 + count))

    def begin(number: int) -> None:
        assert bench.error(bench.init(f"sink-{number:040}")) == 0
        assert bench.error(bench.add(1_000 + number, 0, 0, 1, 2, 3, name=f"sink-{number:040}")) == 0

    begin(0)  # what is made once
    bench.log.clear()
    bench.answers.clear()
    room = bench.coordinator.room
    least = room.kept_bytes
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for number in range(1, 1 + count):
            begin(number)
        bench.log.clear()
        bench.answers.clear()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    counted = room.kept_bytes - least
    assert counted == count * LEAST_OF_AN_ID, "of four partitions it is never refused"
    assert 0.3 < (after - before) / counted < 1


def test_a_transactional_id_that_there_is_no_room_for_is_to_come_again() -> None:
    bench = TransactionBench()
    bench.ids = list(range(1_000, 1_020))
    errors = [bench.error(bench.init(f"{at}" + "x" * 4_700)) for at in range(6)]
    assert errors == [0, 0, 0, FULL, FULL, FULL]
    assert "transactional.id.expiration.ms" in bench.lines[0] and len(bench.lines) == 1
    assert bench.error(bench.init("0" + "x" * 4_700)) == 0, "one that is there goes on"

    bench.now_ms += bench.settings.id_expiration_ms + bench.settings.remove_expired_interval_ms
    bench.wait(0)
    assert bench.coordinator.room.kept_bytes == 0
    assert bench.error(bench.init("another")) == 0


def test_partitions_of_a_transaction_count_and_few_of_them_are_never_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kept_memory, "BYTES_OF_A_PARTITION", 400)
    monkeypatch.setattr(kept_memory, "MOST_BYTES_OF_TRANSACTIONS", 2 * LEAST_OF_AN_ID)
    bench = TransactionBench()
    bench.ids = [1_000, 1_001]
    for name in ("one", "two"):
        assert bench.error(bench.init(name)) == 0
    assert bench.error(bench.add(1_000, 0, 0, 1, 2, 3, name="one")) == FULL
    assert bench.error(bench.add(1_000, 0, 0, 1, name="one")) == 0
    assert bench.coordinator.room.kept_bytes == 2 * LEAST_OF_AN_ID


def test_what_a_transaction_took_is_free_when_it_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_memory, "BYTES_OF_A_PARTITION", 4_000)
    bench = TransactionBench()
    bench.init("tx")
    assert bench.error(bench.add(1_000, 0, 0, 1, 2)) == 0
    assert bench.coordinator.room.kept_bytes == of_transaction("tx", 3) > 12 * KB
    bench.end()
    bench.written(bench.markers.pop())
    assert bench.coordinator.room.kept_bytes == LEAST_OF_AN_ID


def test_a_next_transaction_that_there_is_no_room_for_does_not_keep_the_one_before_from_ending(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kept_memory, "BYTES_OF_A_PARTITION", 8_000)
    bench = TransactionBench()
    bench.init("tx")
    assert bench.error(bench.add(1_000, 0, 0)) == 0
    bench.end()
    waiting = bench.add(1_000, 0, 0, 1, 2)
    assert waiting not in bench.answers
    bench.written(bench.markers.pop())
    assert bench.error(waiting) == FULL
    assert bench.error(bench.add(1_000, 0, 0, 1)) == 0


def test_an_id_that_failed_to_be_written_takes_nothing() -> None:
    kept = memory_of_transactions()
    bench = TransactionBench(held=True, kept=kept)
    bench.init("x" * 4_000)
    assert kept.size_bytes > 4_000
    bench.fail()
    assert kept.size_bytes == bench.coordinator.room.kept_bytes == 0


def test_ids_that_another_broker_coordinates_take_nothing_here() -> None:
    kept = memory_of_transactions()
    bench = TransactionBench(kept=kept)
    bench.init("x" * 4_000)
    taken = kept.size_bytes
    bench.move()
    assert kept.size_bytes == taken > 4_000
    bench.coordinator.tables()
    assert kept.size_bytes == 0
