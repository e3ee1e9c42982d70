"""Produce: what each version, each kind of acks and each bad batch is answered."""

from pathlib import Path

import pytest

from odradek.broker.answers import CloseConnection, NoReply
from odradek.model.error_codes import ErrorCode
from odradek.protocol.messages import produce as pm
from tests.broker.test_fetch_by_followers import Follower
from tests.broker.world import World, batch
from tests.support import golden_lines


def test_produce_answers_with_offsets_and_the_start_of_the_log(world: World) -> None:
    first = world.produce(1, b"a", b"b", acks=1).message.responses[0].partition_responses[0]
    second = world.produce(1, b"c", acks=-1).message.responses[0].partition_responses[0]
    assert (first.error_code, first.base_offset, first.log_append_time_ms, first.log_start_offset) == (
        0,
        0,
        -1,
        0,
    )
    assert (second.error_code, second.base_offset) == (0, 2)


@pytest.mark.parametrize("version", range(3, 12))
def test_every_version_of_produce_appends(world: World, version: int) -> None:
    assert world.produced(world.produce(1, b"a", version=version)) == (ErrorCode.NONE, 0)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_old_versions_of_produce_are_refused_per_partition(world: World, version: int) -> None:
    request = pm.ProduceRequest(
        acks=1,
        topic_data=[
            pm.TopicProduceData(
                name="t", partition_data=[pm.PartitionProduceData(index=i, records=b"old") for i in (0, 7)]
            )
        ],
    )
    answer = world.call(1, request, version)
    rows = answer.responses[0].partition_responses
    assert [(r.index, r.error_code) for r in rows] == [(0, 35), (7, 35)]
    request.acks = 0
    assert isinstance(world.send(1, request, version).result, CloseConnection)


def test_acks_0_is_not_answered_and_a_failure_closes_the_connection(world: World) -> None:
    assert isinstance(world.produce(1, b"a", acks=0).result, NoReply)
    assert world[1].values() == [b"a"]
    failed = world.produce(1, b"a", acks=0, index=9)
    assert isinstance(failed.result, CloseConnection)
    assert "t-9" in failed.result.reason


@pytest.mark.parametrize("acks", [2, -2, 127])
def test_acks_are_0_1_or_all(world: World, acks: int) -> None:
    assert world.produced(world.produce(1, b"a", acks=acks))[0] == ErrorCode.INVALID_REQUIRED_ACKS


def test_what_is_wrong_with_records_is_said_with_its_code(world: World) -> None:
    damaged = bytearray(batch(b"a"))
    damaged[-1] ^= 1
    old = next(
        bytes.fromhex(line["hex"])
        for line in golden_lines("records.jsonl.gz")
        if line["name"].startswith("v1")
    )
    cases = [
        (ErrorCode.CORRUPT_MESSAGE, bytes(damaged)),
        (ErrorCode.INVALID_RECORD, b""),
        (ErrorCode.MESSAGE_TOO_LARGE, batch(b"x" * 2_000_000)),
        (ErrorCode.INVALID_RECORD, old),
    ]
    for error, records in cases:
        assert world.produced(world.produce(1, records=records))[0] == error
    assert world[1].partition().log.log_end_offset == 0


@pytest.mark.parametrize("rest", [batch(b"b"), b"\0", batch(b"b")[:-1]], ids=["two", "a byte", "a cut one"])
def test_a_request_holds_one_batch_a_partition(world: World, rest: bytes) -> None:
    """As Apache's brokers have it since batches have a header of their own (KIP-98)."""
    answer = world.produce(1, records=batch(b"a") + rest)
    assert world.produced(answer)[0] == ErrorCode.INVALID_RECORD
    assert world.produced(world.produce(1, records=batch(b"a")[:-1]))[0] == ErrorCode.INVALID_RECORD
    assert world[1].partition().log.log_end_offset == 0


@pytest.mark.behaviour("L18")
@pytest.mark.parametrize(("version", "error"), [(6, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE), (7, 0)])
def test_before_version_7_no_batch_is_in_zstd(world: World, version: int, error: int) -> None:
    records = batch(b"a", codec="zstd")
    assert world.produced(world.produce(1, records=records, version=version))[0] == error
    assert world[1].partition().log.log_end_offset == (0 if error else 1)


def test_the_record_that_was_refused_is_named(world: World) -> None:
    world[1].broker.topic_config_changed("t", {"cleanup.policy": "compact"}, world.now_ms)
    row = world.produce(1, b"keyless", version=8).message.responses[0].partition_responses[0]
    assert row.error_code == ErrorCode.INVALID_RECORD
    assert [e.batch_index for e in row.record_errors] == [0]
    assert row.error_message


def test_a_refusal_without_words_of_its_own_has_no_message_so_that_clients_use_theirs(world: World) -> None:
    """Java's client shows an empty message as it is: `NotLeaderOrFollowerException: `, and nothing behind it."""
    for broker, index, error in ((2, 0, 6), (1, 9, 3)):
        row = world.produce(broker, b"a", index=index, version=9).message.responses[0].partition_responses[0]
        assert (row.error_code, row.error_message) == (error, None)


def test_one_bad_partition_does_not_hold_up_the_others(world: World) -> None:
    request = pm.ProduceRequest(
        acks=-1,
        timeout_ms=1_000,
        topic_data=[
            pm.TopicProduceData(
                name="t",
                partition_data=[
                    pm.PartitionProduceData(index=0, records=batch(b"a")),
                    pm.PartitionProduceData(index=5, records=batch(b"b")),
                ],
            ),
            pm.TopicProduceData(
                name="no-such", partition_data=[pm.PartitionProduceData(index=0, records=batch(b"c"))]
            ),
        ],
    )
    answer = world.call(1, request, 9)
    codes = [(t.name, p.index, p.error_code) for t in answer.responses for p in t.partition_responses]
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes == [("t", 0, 0), ("t", 5, unknown), ("no-such", 0, unknown)]


def test_an_idempotent_retry_gets_the_first_answer_again(world: World) -> None:
    data = batch(b"a", producer_id=5, producer_epoch=0, base_sequence=0)
    assert world.produced(world.produce(1, records=data)) == (ErrorCode.NONE, 0)
    assert world.produced(world.produce(1, records=data)) == (ErrorCode.NONE, 0)
    gap = batch(b"a", producer_id=5, producer_epoch=0, base_sequence=7)
    assert world.produced(world.produce(1, records=gap))[0] == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert world[1].values() == [b"a"]


def test_a_duplicate_batch_is_acknowledged_when_the_original_is_committed(tmp_path: Path) -> None:
    """Answered before, it would acknowledge what the next leader may not have."""
    world = World(tmp_path)
    world.cut |= {(2, 1), (3, 1)}
    world.lead(1, is_new=True)
    data = batch(b"a", producer_id=5, producer_epoch=0, base_sequence=0)
    first, again = world.produce(1, records=data), world.produce(1, records=data)
    world.settle()
    assert not first.is_answered and not again.is_answered
    Follower(world, 2).fetch(1)
    assert not again.is_answered
    Follower(world, 3).fetch(1)
    world.settle()
    assert [world.produced(one) for one in (first, again)] == [(ErrorCode.NONE, 0)] * 2


@pytest.mark.behaviour("P5")
def test_a_transactional_batch_without_a_transactional_id_is_refused(world: World) -> None:
    smuggled = batch(b"a", producer_id=5, producer_epoch=0, base_sequence=0, is_transactional=True)
    assert (
        world.produced(world.produce(1, records=smuggled))[0]
        == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    )
    assert world[1].values() == []


def test_a_produce_that_is_not_committed_in_time_is_told_so_and_the_records_stay(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.cut |= {(2, 1), (3, 1)}
    world.lead(1, is_new=True)
    asked = world.produce(1, b"a", timeout_ms=500)
    world.advance(499)
    assert not asked.is_answered
    world.advance(10)
    assert world.produced(asked)[0] == ErrorCode.REQUEST_TIMED_OUT
    assert world[1].values() == [b"a"]
    assert len(world[1].partition().commit_waiters) == 0


def test_of_a_produce_that_was_not_committed_in_time_the_partition_keeps_nothing_that_waits(
    tmp_path: Path,
) -> None:
    """While the mark stands still nothing else would ever take them out of the line."""
    world = World(tmp_path)
    world.cut |= {(2, 1), (3, 1)}
    world.lead(1, is_new=True)
    for value in (b"a", b"b"):
        world.produce(1, value, timeout_ms=500)
    waiters = world[1].partition().commit_waiters
    assert waiters.next_offset == 1
    world.advance(510)
    assert waiters.next_offset > world[1].partition().log.log_end_offset, "nobody waits"
