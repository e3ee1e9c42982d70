"""Produce by hand is Produce by the table."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.protocol import fast_produce
from odradek.protocol.errors import MalformedMessage
from odradek.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from tests.protocol.golden import vectors
from tests.protocol.mutations import mutated
from tests.protocol.strategies import messages

VERSIONS = range(3, 12)
few = settings(max_examples=60, deadline=None, derandomize=True, database=None)


def flat_request(message: ProduceRequest) -> fast_produce.ProduceBody:
    topics = [(t.name, [(p.index, p.records) for p in t.partition_data]) for t in message.topic_data]
    return message.transactional_id, message.acks, message.timeout_ms, topics


def flat_response(message: ProduceResponse) -> tuple[list, int, list]:
    topics = [
        (
            topic.name,
            [
                (
                    p.index,
                    p.error_code,
                    p.base_offset,
                    p.log_append_time_ms,
                    p.log_start_offset,
                    [(e.batch_index, e.batch_index_error_message) for e in p.record_errors],
                    p.error_message,
                    (p.current_leader.leader_id, p.current_leader.leader_epoch),
                )
                for p in topic.partition_responses
            ],
        )
        for topic in message.responses
    ]
    endpoints = [(n.node_id, n.host, n.port, n.rack) for n in message.node_endpoints]
    return topics, message.throttle_time_ms, endpoints


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_is_read_as_the_table_reads_it(version: int) -> None:
    @few
    @given(message=messages(ProduceRequest, version))
    def check(message: ProduceRequest) -> None:
        body = message.encode(version)
        assert fast_produce.decode_request(version, body) == flat_request(message)
        assert fast_produce.decode_request(version, b"header" + body, 6) == flat_request(message)

    check()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_response_is_written_as_the_table_writes_it(version: int) -> None:
    @few
    @given(message=messages(ProduceResponse, version))
    def check(message: ProduceResponse) -> None:
        topics, throttle_time_ms, endpoints = flat_response(message)
        body = fast_produce.encode_response(version, topics, throttle_time_ms, endpoints)
        assert body == message.encode(version)

    check()


def test_the_golden_vectors_come_out_the_same() -> None:
    seen = 0
    for vector in vectors():
        if vector.key != 0 or vector.version < 3:
            continue
        message = vector.message.decode(vector.version, vector.body)
        seen += 1
        if vector.type == "request":
            assert fast_produce.decode_request(vector.version, vector.body) == flat_request(message)
        elif vector.sample != "unknown-tag":
            topics, throttle_time_ms, endpoints = flat_response(message)
            body = fast_produce.encode_response(vector.version, topics, throttle_time_ms, endpoints)
            assert body == vector.body, vector.name
    assert seen == 92


@pytest.mark.parametrize("version", VERSIONS)
def test_both_agree_on_what_is_malformed(version: int) -> None:
    seed = next(
        v for v in vectors() if (v.key, v.type, v.version, v.sample) == (0, "request", version, "full")
    )

    @settings(few, max_examples=150)
    @given(body=mutated(seed.body))
    def check(body: bytes) -> None:
        try:
            expected = flat_request(ProduceRequest.decode(version, body))
        except MalformedMessage:
            with pytest.raises(MalformedMessage):
                fast_produce.decode_request(version, body)
        else:
            assert fast_produce.decode_request(version, body) == expected

    check()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_cut_short_anywhere_is_malformed(version: int) -> None:
    seed = next(
        v for v in vectors() if (v.key, v.type, v.version, v.sample) == (0, "request", version, "full")
    )
    for size in range(len(seed.body)):
        with pytest.raises(MalformedMessage):
            fast_produce.decode_request(version, seed.body[:size])


@pytest.mark.parametrize("version", VERSIONS)
def test_a_name_as_long_as_a_name_can_be_is_read(version: int) -> None:
    """The brokers' own bound is 249; but who names a topic that cannot be is told so, and keeps the connection."""
    message = ProduceRequest(topic_data=[TopicProduceData(name="t" * 32_767, partition_data=[])])
    assert fast_produce.decode_request(version, message.encode(version)) == flat_request(message)


def test_records_are_slices_of_the_request_not_copies() -> None:
    frame = bytearray(ProduceRequest.decode(9, seed_with_records()).encode(9))
    _, _, _, [(_, [(_, records)])] = fast_produce.decode_request(9, memoryview(frame))
    assert records is not None and records.obj is frame
    records[0] = 0xEE  # stamped in place, as the log does
    assert 0xEE in frame


def seed_with_records() -> bytes:
    return bytes.fromhex("00ffff000003e802") + b"\x02t\x02" + bytes(4) + b"\x05abcd\0\0\0"


def test_what_a_version_cannot_say_is_not_said() -> None:
    """The answer for a newer version, sent to an old client, keeps to the old form."""
    answer = (1, 6, -1, -1, 0, [(0, "bad")], "why", (3, 9))
    for version in VERSIONS:
        body = fast_produce.encode_response(version, [("t", [answer])], 0, [(3, "host", 9092, None)])
        message = ProduceResponse(
            responses=[
                TopicProduceResponse(
                    name="t",
                    partition_responses=[
                        PartitionProduceResponse(
                            index=1,
                            error_code=6,
                            base_offset=-1,
                            log_start_offset=0,
                            record_errors=[
                                BatchIndexAndErrorMessage(batch_index=0, batch_index_error_message="bad")
                            ],
                            error_message="why",
                            current_leader=LeaderIdAndEpoch(leader_id=3, leader_epoch=9),
                        )
                    ],
                )
            ],
            node_endpoints=[NodeEndpoint(node_id=3, host="host", port=9092)],
        )
        assert body == message.encode(version)


@given(st.binary(max_size=64))
@settings(few, max_examples=300)
def test_nonsense_is_malformed_or_a_request(body: bytes) -> None:
    for version in (3, 9):
        try:
            fast_produce.decode_request(version, body)
        except MalformedMessage:
            continue
        assert ProduceRequest.decode(version, body).encode(version)


def test_records_longer_than_the_frame_are_named() -> None:
    for version, body in (
        (3, b"\xff\xff" + bytes(6) + b"\0\0\0\1\0\1t\0\0\0\1" + bytes(4) + b"\0\0\0\x05abcd"),
        (9, b"\0" + bytes(6) + b"\2\2t\2" + bytes(4) + b"\x06abcd"),
    ):
        with pytest.raises(MalformedMessage, match="records: 5 bytes announced, 4 left"):
            fast_produce.decode_request(version, body)
