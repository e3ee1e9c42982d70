"""DeleteRecords, WriteTxnMarkers, the SASL requests and those about ACLs."""

from pathlib import Path

from odradek.broker.answers import CloseConnection
from odradek.broker.handlers.delete_records import MOST_LABOUR, MOVED_LABOUR
from odradek.broker.marker_writes import WAIT_MS
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.model.topic_names import GROUPS_TOPIC
from odradek.protocol.headers import encode_request
from odradek.protocol.messages import create_acls as ca
from odradek.protocol.messages import delete_acls as da
from odradek.protocol.messages import delete_records as dr
from odradek.protocol.messages import describe_acls as sd
from odradek.protocol.messages import sasl_authenticate as sa
from odradek.protocol.messages import sasl_handshake as sh
from odradek.protocol.messages import write_txn_markers as wm
from tests.broker.world import Pending, World


def test_no_sasl_mechanism_is_enabled(world: World) -> None:
    answer = world.call(1, sh.SaslHandshakeRequest(mechanism="PLAIN"), 1)
    assert (answer.error_code, answer.mechanisms) == (ErrorCode.ILLEGAL_SASL_STATE, [])
    answer = world.call(1, sa.SaslAuthenticateRequest(auth_bytes=b"\0a\0b"), 2)
    assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE


def test_a_sasl_request_that_cannot_be_read_is_no_question_to_answer(world: World) -> None:
    frame = encode_request(sa.SaslAuthenticateRequest.KEY, 0, 1, "test", b"\x00\x00\x00\x09short")
    answer = world.send_frame(1, frame[4:], Pending(sa.SaslAuthenticateResponse, 0), world.connection())
    assert isinstance(answer.result, CloseConnection)
    assert "9 bytes announced, 5 left" in answer.result.reason


def test_acls_are_answered_as_by_a_broker_of_apache_without_an_authorizer(world: World) -> None:
    described = world.call(1, sd.DescribeAclsRequest(resource_type_filter=1, operation=1), 1)
    assert (described.error_code, described.error_message, described.resources) == (
        ErrorCode.SECURITY_DISABLED,
        "No Authorizer is configured on the broker",
        [],
    )
    creation = ca.AclCreation(resource_type=2, resource_name="t", principal="User:ann", host="*", operation=3)
    created = world.call(1, ca.CreateAclsRequest(creations=[creation, creation]), 2)
    refused = (ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    assert [(row.error_code, row.error_message) for row in created.results] == [refused] * 2
    deleted = world.call(1, da.DeleteAclsRequest(filters=[da.DeleteAclsFilter(resource_type_filter=1)]), 3)
    assert [(row.error_code, row.error_message, row.matching_acls) for row in deleted.filter_results] == [
        (*refused, [])
    ]


def test_a_transaction_marker_is_appended_as_a_control_batch_and_waits_for_its_commit(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.cut |= {(2, 1), (3, 1)}
    world.lead(1, is_new=True)
    marker = wm.WritableTxnMarker(
        producer_id=5,
        producer_epoch=0,
        transaction_result=True,
        topics=[wm.WritableTxnMarkerTopic(name="t", partition_indexes=[0, 8])],
        coordinator_epoch=3,
    )
    asked = world.send(1, wm.WriteTxnMarkersRequest(markers=[marker]), 1)
    world.advance(WAIT_MS - 1)
    assert not asked.is_answered
    world.cut.clear()
    world.settle()
    rows = asked.message.markers[0].topics[0].partitions
    assert [(r.partition_index, r.error_code) for r in rows] == [
        (0, 0),
        (8, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    from odradek.records.batch import read_header

    assert read_header(world[1].raw()).is_control


def test_delete_records_moves_the_start_and_answers_when_all_replicas_have_followed(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.lead(1, is_new=True)
    for n in range(5):
        world.produce(1, b"%d" % n)
    world.advance(10)

    def delete(offset: int) -> Pending:
        wanted = dr.DeleteRecordsPartition(partition_index=0, offset=offset)
        request = dr.DeleteRecordsRequest(
            topics=[dr.DeleteRecordsTopic(name="t", partitions=[wanted])], timeout_ms=1_000
        )
        return world.send(1, request, 2)

    def row(pending: Pending) -> tuple[int, int]:
        found = pending.message.topics[0].partitions[0]
        return found.error_code, found.low_watermark

    asked = delete(2)
    world.advance(20)
    assert row(asked) == (0, 2)
    assert world[3].partition().log.log_start_offset == 2
    assert row(delete(6)) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    world.cut.add((3, 1))
    asked = delete(-1)
    world.advance(20)
    assert not asked.is_answered
    world.advance(1_000)
    assert row(asked) == (ErrorCode.REQUEST_TIMED_OUT, 2)
    assert world[1].partition().log.log_start_offset == 5
    world.cut.add((3, 1))
    world.produce(1, b"5", acks=1)
    asked = delete(-1)
    world.lead(2, isr=(1, 2))
    assert row(asked) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1), "at once, not when its time is over"
    world.lead(1)
    world[1].broker.topic_config_changed("t", {"cleanup.policy": "compact"}, world.now_ms)
    assert row(delete(5))[0] == ErrorCode.POLICY_VIOLATION


def deleting_while_one_is_cut_off(tmp_path: Path) -> tuple[World, Pending]:
    """DeleteRecords, for a second, of a leader that a follower cannot fetch from."""
    world = World(tmp_path)
    world.lead(1, is_new=True)
    world.produce(1, b"a")
    world.advance(10)
    world.cut.add((3, 1))
    wanted = dr.DeleteRecordsPartition(partition_index=0, offset=1)
    request = dr.DeleteRecordsRequest(
        topics=[dr.DeleteRecordsTopic(name="t", partitions=[wanted])], timeout_ms=1_000
    )
    asked = world.send(1, request, 2)
    return world, asked


def test_whose_topic_is_deleted_while_it_deletes_records_hears_that_it_is_gone(tmp_path: Path) -> None:
    """And looks for no other leader of it until its own time is over."""
    world, asked = deleting_while_one_is_cut_off(tmp_path)
    world.stop_replica(1, TopicPartition("t", 0), leader_epoch=-2, delete=True)
    world.settle()
    row = asked.message.topics[0].partitions[0]
    assert (row.error_code, row.low_watermark) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)


def test_delete_records_waits_for_no_replica_that_has_left_the_assignment(tmp_path: Path) -> None:
    """The leader stays, in a new epoch, and nobody else was left to bring the answer about (seed 6644)."""
    world, asked = deleting_while_one_is_cut_off(tmp_path)
    world.advance(20)
    assert not asked.is_answered
    world.lead(1, isr=(1,), replicas=(1,))
    row = asked.message.topics[0].partitions[0]
    assert (row.error_code, row.low_watermark) == (ErrorCode.NONE, 1)


def test_delete_records_waits_for_no_replica_that_died_meanwhile(tmp_path: Path) -> None:
    """It is answered when that is told, long before its time is over."""
    world, asked = deleting_while_one_is_cut_off(tmp_path)
    world.advance(20)
    assert not asked.is_answered
    world.kill(3)
    world.advance(10)
    assert not asked.is_answered
    world.notify_metadata()
    world.settle()
    row = asked.message.topics[0].partitions[0]
    assert (row.error_code, row.low_watermark) == (ErrorCode.NONE, 1)


def test_records_of_internal_topics_are_not_deleted_whatever_their_policy(tmp_path: Path) -> None:
    world = World(tmp_path, brokers=(1,))
    world.lead(1, isr=(1,), replicas=(1,), topic=GROUPS_TOPIC, topic_id=bytes([3] * 16), is_new=True)
    world[1].broker.topic_config_changed(GROUPS_TOPIC, {"cleanup.policy": "compact,delete"}, world.now_ms)
    wanted = [dr.DeleteRecordsPartition(partition_index=index, offset=0) for index in (0, 9)]
    request = dr.DeleteRecordsRequest(topics=[dr.DeleteRecordsTopic(name=GROUPS_TOPIC, partitions=wanted)])
    rows = world.call(1, request, 2).topics[0].partitions
    assert {(row.error_code, row.low_watermark) for row in rows} == {(ErrorCode.INVALID_TOPIC_EXCEPTION, -1)}


def test_delete_records_of_many_partitions_takes_several_turns(tmp_path: Path) -> None:
    """Each start that moves is written to a file, and each segment that goes is some that are renamed."""
    many = 3 * MOST_LABOUR // MOVED_LABOUR
    world = World(tmp_path, brokers=(1,))
    for index in range(many):
        world.lead(1, isr=(1,), replicas=(1,), index=index, is_new=True)
        world.produce(1, b"v", index=index)
    world[1].broker.take_effects()
    rows = [dr.DeleteRecordsPartition(partition_index=index, offset=-1) for index in [*range(many), many]]
    request = dr.DeleteRecordsRequest(
        topics=[dr.DeleteRecordsTopic(name="t", partitions=rows)], timeout_ms=1_000
    )
    pending = world.send(1, request, 2)
    moved = [world[1].partition(index=index).log.log_start_offset for index in range(many)]
    assert 0 < sum(moved) < many // 2 and not pending.is_answered

    while world[1].broker.go_on(world.now_ms):
        pass

    told = [(row.error_code, row.low_watermark) for row in pending.message.topics[0].partitions]
    assert told == [(0, 1)] * many + [(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)]
