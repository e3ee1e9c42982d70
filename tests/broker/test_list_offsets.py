"""ListOffsets and OffsetForLeaderEpoch: offsets by place, time and epoch."""

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from odradek.broker.handlers import list_offsets as list_offsets_handler
from odradek.broker.handlers import offset_for_leader_epoch as epochs_handler
from odradek.model.error_codes import ErrorCode
from odradek.protocol.messages import list_offsets as lm
from odradek.protocol.messages import offset_for_leader_epoch as om
from odradek.records.builder import NewRecord, build_batch
from tests.broker.fetched import T_0, rows
from tests.broker.world import World, batch


def list_offsets(
    world: World,
    timestamp: int,
    *,
    version: int = 9,
    replica_id: int = -1,
    to: int = 1,
    epoch: int = -1,
    isolation: int = 0,
) -> Any:
    request = lm.ListOffsetsRequest(
        replica_id=replica_id,
        isolation_level=isolation,
        topics=[
            lm.ListOffsetsTopic(
                name="t",
                partitions=[
                    lm.ListOffsetsPartition(
                        partition_index=0, timestamp=timestamp, current_leader_epoch=epoch
                    )
                ],
            )
        ],
    )
    return world.call(to, request, version).topics[0].partitions[0]


def test_list_offsets_by_place_and_by_time(world: World) -> None:
    for time in (100, 300, 200):
        world.produce(1, records=build_batch([NewRecord(None, b"x", time)]))
    cases = {
        -1: (3, -1),
        -2: (0, -1),
        -3: (1, 300),
        -4: (0, -1),
        -5: (-1, -1),
        150: (1, 300),
        300: (1, 300),
        301: (-1, -1),
    }
    for timestamp, expected in cases.items():
        row = list_offsets(world, timestamp)
        assert (row.offset, row.timestamp) == expected, timestamp
        assert row.error_code == 0
    assert list_offsets(world, -1).leader_epoch == 0
    assert list_offsets(world, -3, version=6).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_the_largest_timestamp_is_one_of_the_records_that_are_left(world: World) -> None:
    world.produce(1, b"newest")
    world.lead(1)
    for time in (5, 20, 10):
        world.produce(1, records=build_batch([NewRecord(None, b"older", time)]))
    world.advance(10)
    log = world[1].partition().log
    found = []
    for start in range(5):
        log.delete_records_before(start)
        row = list_offsets(world, -3)
        found.append((row.offset, row.timestamp, row.leader_epoch))
    assert found == [(0, 1_000, 0), (2, 20, 1), (2, 20, 1), (3, 10, 1), (-1, -1, -1)]


def test_the_largest_timestamp_that_is_left_is_looked_for_in_slices(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(list_offsets_handler, "AT_ONCE", 1)
    monkeypatch.setattr(list_offsets_handler, "OF_A_SLICE", 1)
    for time in (100, 20, 5, 7, 30, 1):
        world.produce(1, records=build_batch([NewRecord(None, b"x", time), NewRecord(None, b"x", time - 1)]))
    log = world[1].partition().log
    found = []
    for start in (0, 1, 2, 5, 9, 10, 11, 12):
        log.delete_records_before(start)
        row = list_offsets(world, -3)
        found.append((row.offset, row.timestamp))
    assert found == [(0, 100), (1, 99), (8, 30), (8, 30), (9, 29), (10, 1), (11, 0), (-1, -1)]


def test_the_largest_timestamp_that_is_left_is_one_that_a_batch_claims_and_none_of_its_records_has(
    world: World,
) -> None:
    world.produce(1, records=build_batch([NewRecord(None, b"x", 100)]))
    world.produce(1, records=build_batch([NewRecord(None, b"x", 10)] * 2, max_timestamp=50))
    world[1].partition().log.delete_records_before(1)
    row = list_offsets(world, -3)
    assert (row.offset, row.timestamp) == (2, 50)


def test_a_replica_gets_the_log_end_and_a_consumer_the_high_watermark(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.cut |= {(2, 1), (3, 1)}
    world.lead(1, is_new=True)
    world.produce(1, b"a", b"b", acks=1)
    assert list_offsets(world, -1).offset == 0
    assert list_offsets(world, -1, replica_id=2).offset == 2
    assert list_offsets(world, 1_000).offset == -1, "not committed: nobody may read it"
    assert list_offsets(world, -1, to=2).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert list_offsets(world, -1, to=2, replica_id=-2).offset == 0, "anybody may be asked by -2"
    assert list_offsets(world, -1, replica_id=-2).offset == 2, "and tells what it holds"


def test_the_end_of_what_is_committed_can_be_read_from_though_a_transaction_is_open_below_the_start(
    world: World,
) -> None:
    """A consumer with `auto.offset.reset=latest` would be out of range where it was sent, as long as the transaction is open."""
    partition = world[1].partition()
    open_one = batch(b"open", producer_id=9, producer_epoch=0, base_sequence=0, is_transactional=True)
    partition.append(memoryview(bytearray(open_one)), acks=1, now_ms=world.now_ms, from_coordinator=True)
    world.produce(1, b"b")
    partition.delete_records(2)
    end = list_offsets(world, -1, isolation=1).offset
    assert end == 2 == list_offsets(world, -2, isolation=1).offset
    assert rows(world.consume(1, end, isolation_level=1))[T_0].error_code == 0


def test_a_new_leader_whose_mark_lags_does_not_name_an_end_yet(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.lead(1, is_new=True)
    world.produce(1, b"a")
    world.settle()
    world.kill(1)
    world.cut.add((3, 2))
    world.lead(2, isr=(2, 3))
    assert world[2].partition().high_watermark < world[2].partition().leader_epoch_start_offset
    for timestamp in (-1, 5_000):
        assert list_offsets(world, timestamp, to=2).error_code == ErrorCode.OFFSET_NOT_AVAILABLE
        assert list_offsets(world, timestamp, to=2, version=4).error_code == ErrorCode.LEADER_NOT_AVAILABLE
    assert list_offsets(world, -2, to=2).offset == 0
    assert list_offsets(world, -1, to=2, replica_id=3).offset == 1
    world.cut.clear()
    world.settle()
    assert list_offsets(world, -1, to=2).offset == 1


def test_epochs_are_fenced_both_ways_in_list_offsets_and_offset_for_leader_epoch(world: World) -> None:
    world.lead(1, isr=(1,), replicas=(1,))
    for epoch, error in (
        (0, ErrorCode.FENCED_LEADER_EPOCH),
        (1, 0),
        (2, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (-1, 0),
    ):
        assert list_offsets(world, -1, epoch=epoch).error_code == error
        assert end_of_epoch(world, 0, current=epoch).error_code == error


def end_of_epoch(
    world: World, epoch: int, *, current: int = -1, to: int = 1, replica_id: int = -1, version: int = 4
) -> Any:
    request = om.OffsetForLeaderEpochRequest(
        replica_id=replica_id,
        topics=[
            om.OffsetForLeaderTopic(
                topic="t",
                partitions=[
                    om.OffsetForLeaderPartition(partition=0, current_leader_epoch=current, leader_epoch=epoch)
                ],
            )
        ],
    )
    return world.call(to, request, version).topics[0].partitions[0]


def test_the_end_of_an_epoch_is_told_with_the_largest_epoch_not_above_the_asked_one(world: World) -> None:
    world.produce(1, b"a", b"b")
    world.lead(1, isr=(1,), replicas=(1,), epoch=4)
    world.produce(1, b"c")
    for asked, expected in {0: (0, 2), 2: (0, 2), 4: (4, 3), 5: (-1, -1)}.items():
        row = end_of_epoch(world, asked)
        assert (row.leader_epoch, row.end_offset) == expected
    assert end_of_epoch(world, 9, replica_id=-2).end_offset == 3, "what it holds, for an unclean election"


def test_the_start_of_a_log_is_told_with_the_epoch_of_what_stands_there(world: World) -> None:
    """Of a newer one a consumer that asks later where it ends (KIP-320) would take what it reads for cut off."""
    world.produce(1, b"a", b"b")
    world.lead(1, isr=(1,), replicas=(1,), epoch=4)
    world.produce(1, b"c")
    found = []
    for start in (0, 1, 2):
        world[1].partition().log.delete_records_before(start)
        row = list_offsets(world, -2)
        found.append((row.offset, row.leader_epoch))
    assert found == [(0, 0), (1, 0), (2, 4)]


def test_nothing_is_searched_for_a_client_that_is_gone(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(list_offsets_handler, "AT_ONCE", 1)
    monkeypatch.setattr(list_offsets_handler, "OF_A_SLICE", 1)
    for time in (100, 20, 5, 7, 30, 1):
        world.produce(1, records=build_batch([NewRecord(None, b"x", time)]))
    world[1].partition().log.delete_records_before(1)
    parked: list[Any] = []
    monkeypatch.setattr(world, "_take", lambda answer, pending: parked.append(answer))
    wanted = [lm.ListOffsetsPartition(partition_index=0, timestamp=-3)]
    world.send(1, lm.ListOffsetsRequest(topics=[lm.ListOffsetsTopic(name="t", partitions=wanted)]), 9)
    assert world[1].broker.go_on(world.now_ms), "there is more to be looked at"
    parked[0].abandon()
    assert not world[1].broker.go_on(world.now_ms)


def test_before_version_3_whoever_asks_for_the_end_of_an_epoch_is_a_consumer(tmp_path: Path) -> None:
    """Its request has no replica id, and that reads as the one which any replica answers."""
    world = World(tmp_path)
    world.lead(1, is_new=True)
    world.produce(1, b"a")
    assert end_of_epoch(world, 0, version=2).end_offset == 1
    assert end_of_epoch(world, 9, version=2).end_offset == -1
    assert end_of_epoch(world, 0, to=2, version=2).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert end_of_epoch(world, 0, to=2, replica_id=-2, version=3).error_code == ErrorCode.NONE


def test_a_partition_that_is_named_twice_is_refused_twice_and_the_others_are_answered(world: World) -> None:
    world.lead(1, index=1)
    world.produce(1, b"a", index=1)
    asked = [lm.ListOffsetsPartition(partition_index=index, timestamp=-1) for index in (0, 1, 0)]
    request = lm.ListOffsetsRequest(topics=[lm.ListOffsetsTopic(name="t", partitions=asked)])
    rows = world.call(1, request, 9).topics[0].partitions
    refused = ErrorCode.INVALID_REQUEST
    assert [(row.partition_index, row.error_code, row.offset) for row in rows] == [
        (0, refused, -1),
        (1, ErrorCode.NONE, 1),
        (0, refused, -1),
    ]


@pytest.mark.parametrize("handler", [list_offsets_handler, epochs_handler])
def test_offsets_of_many_partitions_are_told_in_several_turns(
    world: World, monkeypatch: pytest.MonkeyPatch, handler: ModuleType
) -> None:
    """Of fifty thousand the loop was kept for a third of a second."""
    indexes = range(5)
    request: Any = om.OffsetForLeaderEpochRequest(
        topics=[
            om.OffsetForLeaderTopic(
                topic="t",
                partitions=[om.OffsetForLeaderPartition(partition=at, leader_epoch=0) for at in indexes],
            )
        ]
    )
    if handler is list_offsets_handler:
        wanted = [lm.ListOffsetsPartition(partition_index=at, timestamp=-1) for at in indexes]
        request = lm.ListOffsetsRequest(topics=[lm.ListOffsetsTopic(name="t", partitions=wanted)])
    at_once = world.send(1, request, 4)
    assert at_once.is_answered
    monkeypatch.setattr(handler, "ROWS_AT_ONCE", 2)
    in_turns = world.send(1, request, 4)
    world[1].broker.take_effects()
    assert world[1].broker.go_on(world.now_ms)
    assert not in_turns.is_answered
    assert not world[1].broker.go_on(world.now_ms)
    assert in_turns.body == at_once.body
