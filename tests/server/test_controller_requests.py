"""The controller's words on the wire, and the brokers' answers as events: versions and fields as in
tests/golden/controller.
"""

from typing import Any

import pytest

from odradek.controller.broker_requests import (
    AskEndOffsets,
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    StopReplicaPartition,
    StopReplicaRequest,
    UpdateMetadataPartition,
    UpdateMetadataRequest,
)
from odradek.controller.events import (
    EndOffsetsAnswered,
    LeaderAndIsrAnswered,
    StopReplicaAnswered,
    UpdateMetadataAnswered,
)
from odradek.model.cluster import BrokerRegistration, Endpoint
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    Offset,
    TopicId,
    TopicPartition,
)
from odradek.model.values import replace
from odradek.protocol.messages import leader_and_isr as lai
from odradek.protocol.messages import list_offsets as lo
from odradek.protocol.messages import offset_for_leader_epoch as ofle
from odradek.protocol.messages import stop_replica as sr
from odradek.protocol.messages import update_metadata as um
from odradek.server import controller_requests
from odradek.server.controller_requests import RequestEncoder, decode_answer
from odradek.server.end_offset_queries import AskLogEnds, second_question

T_ID, U_ID = TopicId(bytes(range(16))), TopicId(bytes(range(1, 17)))
T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
B1, B2 = BrokerId(1), BrokerId(2)
EPOCH = ControllerEpoch(4)


def registration(broker: int) -> BrokerRegistration:
    endpoints = (
        Endpoint("CLIENT", "SASL_SSL", "outside", 9000 + broker),
        Endpoint("INTERNAL", "PLAINTEXT", f"host{broker}", 9090 + broker),
    )
    return BrokerRegistration(BrokerId(broker), BrokerEpoch(20 + broker), endpoints, rack=f"r{broker}")


def leader_and_isr_of(
    tp: TopicPartition, topic_id: TopicId, *, is_new: bool = False
) -> LeaderAndIsrPartition:
    return LeaderAndIsrPartition(
        topic_partition=tp,
        topic_id=topic_id,
        controller_epoch=EPOCH,
        leader=B1,
        leader_epoch=LeaderEpoch(3),
        isr=(B1,),
        partition_epoch=7,
        replicas=(B1, B2),
        adding_replicas=(B2,),
        removing_replicas=(),
        is_new=is_new,
        leader_recovery_state=1,
    )


LEADER_AND_ISR = LeaderAndIsrRequest(
    broker=B2,
    broker_epoch=BrokerEpoch(22),
    controller_id=B1,
    controller_epoch=EPOCH,
    partitions=(
        leader_and_isr_of(T0, T_ID),
        leader_and_isr_of(U0, U_ID, is_new=True),
        leader_and_isr_of(T1, T_ID),
    ),
    live_leaders=(registration(1),),
)


def test_leader_and_isr() -> None:
    key, version, body = RequestEncoder("INTERNAL").encode(LEADER_AND_ISR)
    sent = lai.LeaderAndIsrRequest.decode(version, body)

    assert (key, version) == (4, 7)
    assert (sent.controller_id, sent.controller_epoch, sent.broker_epoch, sent.type) == (1, 4, 22, 0)
    assert not sent.is_k_raft_controller
    assert [
        (t.topic_name, t.topic_id, [p.partition_index for p in t.partition_states]) for t in sent.topic_states
    ] == [
        ("t", T_ID, [0, 1]),
        ("u", U_ID, [0]),
    ]
    state = sent.topic_states[0].partition_states[0]
    assert (state.leader, state.leader_epoch, state.isr, state.partition_epoch) == (1, 3, [1], 7)
    assert (state.replicas, state.adding_replicas, state.leader_recovery_state) == ([1, 2], [2], 1)
    assert sent.topic_states[1].partition_states[0].is_new
    (leader,) = sent.live_leaders
    assert (leader.broker_id, leader.host_name, leader.port) == (1, "host1", 9091), "where brokers talk"


def test_partitions_that_two_brokers_are_told_of_in_one_event_are_encoded_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    encoded: list[object] = []
    original = controller_requests._leader_and_isr_topics

    def topics(partitions: Any, known: Any) -> Any:
        encoded.append(partitions)
        return original(partitions, known)

    monkeypatch.setattr(controller_requests, "_leader_and_isr_topics", topics)
    to_another = replace(LEADER_AND_ISR, broker=B1, broker_epoch=BrokerEpoch(21))
    sent = RequestEncoder("INTERNAL").encode_all([LEADER_AND_ISR, to_another])
    assert len(encoded) == 1
    alone = [RequestEncoder("INTERNAL").encode(one) for one in (LEADER_AND_ISR, to_another)]
    assert [sent[id(LEADER_AND_ISR)], sent[id(to_another)]] == alone


def test_update_metadata_names_every_listener_and_is_made_once_for_all() -> None:
    partition = UpdateMetadataPartition(
        topic_partition=T0,
        topic_id=T_ID,
        controller_epoch=EPOCH,
        leader=BrokerId(-2),
        leader_epoch=LeaderEpoch(3),
        isr=(B1,),
        partition_epoch=7,
        replicas=(B1, B2),
        offline_replicas=(B2,),
    )
    encoder, partitions = RequestEncoder("INTERNAL"), (partition,)

    encoder.begin()

    def to(broker: BrokerId) -> tuple[int, int, bytes]:
        live = (registration(1), registration(2))
        return encoder.encode(
            UpdateMetadataRequest(broker, BrokerEpoch(20 + broker), B1, EPOCH, partitions, live)
        )

    key, version, body = to(B1)
    made_once = encoder._topics
    assert to(B2)[2] != body
    assert encoder._topics is made_once
    sent = um.UpdateMetadataRequest.decode(version, body)

    assert (key, version, sent.broker_epoch, sent.type) == (6, 8, 21, 0)
    (state,) = sent.topic_states[0].partition_states
    assert (state.leader, state.zk_version, state.offline_replicas) == (-2, 7, [2])
    assert [(b.id, b.rack) for b in sent.live_brokers] == [(1, "r1"), (2, "r2")]
    assert [(e.listener, e.host, e.port, e.security_protocol) for e in sent.live_brokers[0].endpoints] == [
        ("CLIENT", "outside", 9001, 3),
        ("INTERNAL", "host1", 9091, 0),
    ]


def test_an_update_metadata_that_is_made_of_another_is_what_it_would_be_made_alone() -> None:
    partition = UpdateMetadataPartition(T0, T_ID, EPOCH, B1, LeaderEpoch(3), (B1,), 7, (B1, B2), ())
    first, second = (partition,), (partition._replace(leader=B2),)
    live, one = (registration(1), registration(2)), (registration(1),)
    encoder = RequestEncoder("INTERNAL")
    encoder.begin()
    for broker, partitions, brokers, controller, epoch, is_whole in (
        (1, first, live, 1, 5, False),
        (2, first, live, 1, 5, False),
        (3, second, live, 1, 5, False),
        (1, second, one, 1, 5, False),
        (2, second, one, 2, 5, False),
        (2, second, one, 2, 6, False),
        (3, second, one, 2, 6, False),
        (4, second, one, 2, 6, True),
        (5, second, one, 2, 6, True),
        (6, second, one, 2, 6, False),
    ):
        request = UpdateMetadataRequest(
            BrokerId(broker),
            BrokerEpoch(-20 - (broker << 40)),
            BrokerId(controller),
            ControllerEpoch(epoch),
            partitions,
            brokers,
            is_whole,
        )
        key, version, body = encoder.encode(request)
        assert (key, version, body) == RequestEncoder("INTERNAL").encode(request)
        assert um.UpdateMetadataRequest.decode(version, body).type == (um.FULL if is_whole else um.UNKNOWN)


STOP_REPLICA = StopReplicaRequest(
    B2,
    BrokerEpoch(22),
    B1,
    EPOCH,
    (StopReplicaPartition(T0, LeaderEpoch(-2), True), StopReplicaPartition(T1, LeaderEpoch(5), False)),
    number=7,
)


def test_stop_replica() -> None:
    key, version, body = RequestEncoder("INTERNAL").encode(STOP_REPLICA)
    sent = sr.StopReplicaRequest.decode(version, body)

    assert (key, version) == (5, 4)
    assert [
        (p.partition_index, p.leader_epoch, p.delete_partition) for p in sent.topic_states[0].partition_states
    ] == [
        (0, -2, True),
        (1, 5, False),
    ]


ASK = AskEndOffsets(B2, BrokerEpoch(22), ((T0, LeaderEpoch(3)), (U0, LeaderEpoch(1))))


def test_survivors_are_asked_as_by_one_who_may_see_beyond_the_high_watermark() -> None:
    key, version, body = RequestEncoder("INTERNAL").encode(ASK)
    sent = ofle.OffsetForLeaderEpochRequest.decode(version, body)

    assert (key, version, sent.replica_id) == (23, 4, -2)
    assert [
        (t.topic, p.partition, p.leader_epoch, p.current_leader_epoch)
        for t in sent.topics
        for p in t.partitions
    ] == [
        ("t", 0, 3, -1),
        ("u", 0, 1, -1),
    ]


def test_answers_become_events() -> None:
    error = ErrorCode.KAFKA_STORAGE_ERROR
    answer = lai.LeaderAndIsrResponse(
        topics=[
            lai.LeaderAndIsrTopicError(
                topic_id=T_ID,
                partition_errors=[
                    lai.LeaderAndIsrPartitionError(partition_index=0),
                    lai.LeaderAndIsrPartitionError(partition_index=1, error_code=error),
                ],
            ),
            lai.LeaderAndIsrTopicError(
                topic_id=bytes(16), partition_errors=[lai.LeaderAndIsrPartitionError(error_code=error)]
            ),
        ]
    )
    assert decode_answer(LEADER_AND_ISR, memoryview(answer.encode(7))) == LeaderAndIsrAnswered(
        B2, BrokerEpoch(22), ErrorCode.NONE, {T1: error}, told=LEADER_AND_ISR.partitions
    )

    update = UpdateMetadataRequest(B2, BrokerEpoch(22), B1, EPOCH, (), ())
    stale = um.UpdateMetadataResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
    assert decode_answer(update, memoryview(stale.encode(8))) == UpdateMetadataAnswered(
        B2, BrokerEpoch(22), ErrorCode.STALE_BROKER_EPOCH
    )

    stopped = sr.StopReplicaResponse(
        partition_errors=[
            sr.StopReplicaPartitionError(topic_name="t", partition_index=0),
            sr.StopReplicaPartitionError(topic_name="t", partition_index=1, error_code=9999),
        ]
    )
    assert decode_answer(STOP_REPLICA, memoryview(stopped.encode(4))) == StopReplicaAnswered(
        B2,
        BrokerEpoch(22),
        ErrorCode.NONE,
        {T0: ErrorCode.NONE, T1: ErrorCode.UNKNOWN_SERVER_ERROR},
        deleted=frozenset({T0}),
        number=7,
    )

    ends = ofle.OffsetForLeaderEpochResponse(
        topics=[
            ofle.OffsetForLeaderTopicResult(
                topic="t", partitions=[ofle.EpochEndOffset(partition=0, leader_epoch=3, end_offset=99)]
            ),
            ofle.OffsetForLeaderTopicResult(
                topic="u", partitions=[ofle.EpochEndOffset(partition=0, error_code=3, end_offset=5)]
            ),
        ]
    )
    assert decode_answer(ASK, memoryview(ends.encode(4))) == EndOffsetsAnswered(
        B2, {T0: (LeaderEpoch(3), Offset(99))}
    )


def test_a_survivor_that_refuses_to_name_its_epoch_is_asked_where_its_log_ends() -> None:
    """Apache's brokers answer OffsetForLeaderEpoch on leaders only, and ListOffsets to replica -2 on all."""
    refused = ofle.OffsetForLeaderEpochResponse(
        topics=[
            ofle.OffsetForLeaderTopicResult(
                topic="t", partitions=[ofle.EpochEndOffset(partition=0, leader_epoch=3, end_offset=99)]
            ),
            ofle.OffsetForLeaderTopicResult(
                topic="u",
                partitions=[ofle.EpochEndOffset(partition=0, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)],
            ),
        ]
    )
    answered = decode_answer(ASK, memoryview(refused.encode(4)))
    again = second_question(ASK, answered)
    assert again == AskLogEnds(B2, BrokerEpoch(22), (U0,))
    key, version, body = RequestEncoder("INTERNAL").encode(again)
    sent = lo.ListOffsetsRequest.decode(version, body)
    assert (key, version, sent.replica_id) == (2, 9, -2)
    assert [(t.name, p.partition_index, p.timestamp) for t in sent.topics for p in t.partitions] == [
        ("u", 0, -1)
    ]
    ends = lo.ListOffsetsResponse(
        topics=[
            lo.ListOffsetsTopicResponse(
                name="u",
                partitions=[lo.ListOffsetsPartitionResponse(partition_index=0, offset=7, leader_epoch=5)],
            )
        ]
    )
    assert decode_answer(again, memoryview(ends.encode(9))) == EndOffsetsAnswered(
        B2, {U0: (LeaderEpoch(-1), Offset(7))}
    )
    assert second_question(again, decode_answer(again, memoryview(ends.encode(9)))) is None


def test_a_partition_told_to_several_brokers_is_made_once_in_an_event_and_anew_in_the_next() -> None:
    encoder = RequestEncoder("INTERNAL")
    encoder.begin()
    first = encoder.encode(LEADER_AND_ISR)
    assert len(encoder._encoded) == len(LEADER_AND_ISR.partitions)
    assert encoder.encode(LEADER_AND_ISR) == first
    encoder.end()
    assert not encoder._encoded, "an id() may belong to another partition by then"
    assert encoder.encode(LEADER_AND_ISR) == first
    assert not encoder._encoded, "nothing is kept of a request that is sent by itself"


def test_brokers_told_of_the_same_share_what_was_made_and_others_do_not() -> None:
    encoder = RequestEncoder("INTERNAL")
    fewer = replace(LEADER_AND_ISR, broker=B1, partitions=LEADER_AND_ISR.partitions[1:])
    alone = [encoder.encode(request) for request in (LEADER_AND_ISR, fewer)]
    assert not encoder._told and not encoder._encoded, "no event has begun"
    encoder.begin()
    together = [encoder.encode(request) for request in (LEADER_AND_ISR, fewer, LEADER_AND_ISR)]
    assert together == [*alone, alone[0]]
    assert len(encoder._told) == 2
    encoder.end()
    assert not encoder._told, "an id() may belong to other partitions by then"
    encoder.encode(LEADER_AND_ISR)
    assert not encoder._told


def test_partitions_of_a_topic_that_come_apart_are_told_together() -> None:
    # Names that are equal and not the same object: they come from different nodes of the store.
    partitions = tuple(
        leader_and_isr_of(TopicPartition("".join(list(topic)), index), T_ID)
        for topic, index in (("orders", 0), ("users", 0), ("orders", 1))
    )
    _, version, body = RequestEncoder("INTERNAL").encode(replace(LEADER_AND_ISR, partitions=partitions))
    told = lai.LeaderAndIsrRequest.decode(version, body)
    assert [(t.topic_name, [p.partition_index for p in t.partition_states]) for t in told.topic_states] == [
        ("orders", [0, 1]),
        ("users", [0]),
    ]
