"""Produce as tuples: what is more than equality with the table (test_flat.py)."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.protocol.errors import MalformedMessage
from odradek.protocol.flat import produce_request, produce_response
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

VERSIONS = range(3, 12)
few = settings(max_examples=60, deadline=None, derandomize=True, database=None)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_name_as_long_as_a_name_can_be_is_read(version: int) -> None:
    """The brokers' own bound is 249; but who names a topic that cannot be is told so, and keeps the connection."""
    message = ProduceRequest(topic_data=[TopicProduceData(name="t" * 32_767, partition_data=[])])
    assert produce_request.decode(version, message.encode(version)) == (None, 0, 0, [("t" * 32_767, [])])


def test_records_are_slices_of_the_request_not_copies() -> None:
    frame = bytearray(ProduceRequest.decode(9, seed_with_records()).encode(9))
    _, _, _, [(_, [(_, records)])] = produce_request.decode(9, memoryview(frame))
    assert records is not None and records.obj is frame
    records[0] = 0xEE  # stamped in place, as the log does
    assert 0xEE in frame


def seed_with_records() -> bytes:
    return bytes.fromhex("00ffff000003e802") + b"\x02t\x02" + bytes(4) + b"\x05abcd\0\0\0"


def test_what_a_version_cannot_say_is_not_said() -> None:
    """The answer for a newer version, sent to an old client, keeps to the old form."""
    answer = (1, 6, -1, -1, 0, [(0, "bad")], "why", (3, 9))
    for version in VERSIONS:
        body = produce_response.encode(version, [("t", [answer])], 0, [(3, "host", 9092, None)])
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
            produce_request.decode(version, body)
        except MalformedMessage:
            continue
        assert ProduceRequest.decode(version, body).encode(version)


def test_records_longer_than_the_frame_are_named() -> None:
    for version, body in (
        (3, b"\xff\xff" + bytes(6) + b"\0\0\0\1\0\1t\0\0\0\1" + bytes(4) + b"\0\0\0\x05abcd"),
        (9, b"\0" + bytes(6) + b"\2\2t\2" + bytes(4) + b"\x06abcd"),
    ):
        with pytest.raises(MalformedMessage, match="records: 5 bytes announced, 4 left"):
            produce_request.decode(version, body)
