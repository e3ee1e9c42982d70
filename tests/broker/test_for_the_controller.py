"""Requests for the controller in this process: questions to it, its answers, and envelopes."""

from dataclasses import replace
from typing import Any

import pytest

from odradek.broker import effects as fx
from odradek.broker.answers import Park
from odradek.broker.handlers import envelope
from odradek.broker.request import Request
from odradek.model.controller_requests import (
    AllocateProducerIdsAnswer,
    AllocateProducerIdsAsked,
    AlterPartitionAnswer,
    AlterPartitionAsked,
    AlterPartitionItem,
    AlterPartitionResult,
    ControlledShutdownAnswer,
    ControlledShutdownAsked,
    IsrMember,
)
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import BrokerId
from odradek.protocol.headers import encode_request
from odradek.protocol.messages import allocate_producer_ids as apm
from odradek.protocol.messages import alter_partition as ap
from odradek.protocol.messages import controlled_shutdown as cs
from odradek.protocol.messages import create_partitions as cp
from odradek.protocol.messages import create_topics as ct
from odradek.protocol.messages import delete_topics as dt
from odradek.protocol.messages import envelope as em
from odradek.protocol.messages import update_features as uf
from tests.broker.topics import create, topic
from tests.broker.world import T0, TOPIC_ID, World, told


def test_only_the_controller_changes_topics_and_answers_for_itself(world: World) -> None:
    assert create(world, topic("new"), to=2).message.topics[0].error_code == ErrorCode.NOT_CONTROLLER
    deletion = dt.DeleteTopicsRequest(topics=[dt.DeleteTopicState(name="t")], timeout_ms=1_000)
    assert world.call(2, deletion, 6).responses[0].error_code == ErrorCode.NOT_CONTROLLER
    growth = cp.CreatePartitionsRequest(
        topics=[cp.CreatePartitionsTopic(name="t", count=3, assignments=None)]
    )
    assert world.call(2, growth, 3).results[0].error_code == ErrorCode.NOT_CONTROLLER
    assert world.call(2, ap.AlterPartitionRequest(), 3).error_code == ErrorCode.NOT_CONTROLLER
    assert world.call(2, cs.ControlledShutdownRequest(), 3).error_code == ErrorCode.NOT_CONTROLLER
    assert world.call(2, uf.UpdateFeaturesRequest(), 1).error_code == ErrorCode.NOT_CONTROLLER
    assert world.call(2, apm.AllocateProducerIdsRequest(), 0).error_code == ErrorCode.NOT_CONTROLLER


def test_alter_partition_becomes_a_question_to_the_controller_and_its_answer_the_response(
    world: World,
) -> None:
    member = ap.BrokerState(broker_id=2, broker_epoch=22)
    data = ap.AlterPartitionRequestPartitionData(
        partition_index=0,
        leader_epoch=3,
        new_isr_with_epochs=[member],
        partition_epoch=4,
        leader_recovery_state=0,
    )
    request = ap.AlterPartitionRequest(
        broker_id=2,
        broker_epoch=22,
        topics=[ap.AlterPartitionRequestTopicData(topic_id=TOPIC_ID, partitions=[data])],
    )
    asked = world.send(1, request, 3)
    (effect,) = told(world, fx.ControllerRequest)
    assert effect.ask == AlterPartitionAsked(
        3, 2, 22, (AlterPartitionItem(None, TOPIC_ID, 0, 3, 4, (IsrMember(2, 22),), 0),)
    )
    from tests.replication.partitions import leadership

    alone = replace(leadership(2, 3, (2,), 5), elr=(BrokerId(1),))
    outcome = AlterPartitionResult(T0, TOPIC_ID, 0, ErrorCode.NONE, alone)
    world[1].broker.answered(
        effect.request_id, AlterPartitionAnswer(ErrorCode.NONE, (outcome,)), world.now_ms
    )
    (row,) = asked.message.topics[0].partitions
    assert (row.error_code, row.leader_id, row.leader_epoch, row.isr, row.partition_epoch) == (
        0,
        2,
        3,
        [2],
        5,
    )
    assert row.eligible_leader_replicas == [1]


def test_controlled_shutdown_and_producer_ids_travel_the_same_way(world: World) -> None:
    shutdown = world.send(1, cs.ControlledShutdownRequest(broker_id=2, broker_epoch=22), 3)
    ids = world.send(1, apm.AllocateProducerIdsRequest(broker_id=2, broker_epoch=22), 0)
    first, second = told(world, fx.ControllerRequest)
    assert first.ask == ControlledShutdownAsked(2, 22)
    assert second.ask == AllocateProducerIdsAsked(2, 22)
    broker = world[1].broker
    broker.answered(first.request_id, ControlledShutdownAnswer(ErrorCode.NONE, (T0,)), world.now_ms)
    broker.answered(second.request_id, AllocateProducerIdsAnswer(ErrorCode.NONE, 5_000, 1_000), world.now_ms)
    assert [(r.topic_name, r.partition_index) for r in shutdown.message.remaining_partitions] == [("t", 0)]
    assert (ids.message.producer_id_start, ids.message.producer_id_len) == (5_000, 1_000)


def enveloped(inner: ct.CreateTopicsRequest) -> em.EnvelopeRequest:
    return em.EnvelopeRequest(
        request_data=encode_request(19, 7, 77, "client", inner.encode(7))[4:],
        request_principal=b"\0\0\x05User\x06alice\0\0",
        client_host_address=b"\x7f\0\0\1",
    )


def test_an_envelope_is_opened_and_its_answer_comes_back_inside(world: World) -> None:
    request = enveloped(ct.CreateTopicsRequest(topics=[topic("t")], timeout_ms=100))
    answer = world.call(1, request, 0)
    assert answer.error_code == 0
    assert answer.response_data[:5] == b"\0\0\0\x4d\0"
    row = ct.CreateTopicsResponse.decode(7, bytes(answer.response_data), 5).topics[0]
    assert row.error_code == ErrorCode.TOPIC_ALREADY_EXISTS


def test_an_envelope_whose_request_waits_is_answered_when_that_is(world: World) -> None:
    request = enveloped(ct.CreateTopicsRequest(topics=[topic("new")], timeout_ms=10_000))
    pending = world.send(1, request, 0)
    (effect,) = told(world, fx.StoreRequest)
    world[1].broker.answered(effect.request_id, fx.TopicsWritten({"new": (ErrorCode.NONE, "")}), world.now_ms)
    assert not pending.is_answered, "no broker knows of its leader"

    world.advance(10_010)

    assert pending.message.error_code == 0
    assert pending.message.response_data[:5] == b"\0\0\0\x4d\0"
    row = ct.CreateTopicsResponse.decode(7, bytes(pending.message.response_data), 5).topics[0]
    assert (row.name, row.error_code) == ("new", ErrorCode.REQUEST_TIMED_OUT)


def test_an_envelope_that_is_given_up_gives_up_what_it_waits_for(world: World) -> None:
    request = enveloped(ct.CreateTopicsRequest(topics=[topic("new")], timeout_ms=10_000))
    inner = Park()
    header = Request(58, 0, 1, "broker", memoryview(request.encode(0)), world.connection())
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(world[1].broker, "handle_forwarded", lambda *arguments: inner)
        place = envelope.handle(world[1].broker, header, world.now_ms)
    assert isinstance(place, Park)
    place.abandon()
    assert inner.abandoned


def test_envelopes_are_refused_where_they_cannot_be(world: World) -> None:
    def refused(to: int = 1, **options: Any) -> int:
        fields = {"request_data": b"", "request_principal": None, "client_host_address": b""} | options
        return int(world.call(to, em.EnvelopeRequest(**fields), 0).error_code)

    assert refused(to=2) == ErrorCode.NOT_CONTROLLER
    assert refused() == ErrorCode.INVALID_REQUEST
    alice = b"\x05User\x06alice\0\0"
    latin = b"\0\0\x05User\x02\xe9\0\0"
    for principal in (b"", b"\0", b"\0\0", b"\0\x09junk", b"\0\0" + alice[:8], b"\0\x01" + alice, latin):
        assert refused(request_principal=principal) == ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE
    produce = encode_request(0, 9, 1, None, b"")[4:]
    assert refused(request_data=produce) == ErrorCode.INVALID_REQUEST
