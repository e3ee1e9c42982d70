"""Fetch by hand is Fetch by the table, in the broker's two directions and the follower's two."""

from typing import Any

import pytest
from hypothesis import given, settings

from odradek.protocol import fast_fetch, fast_fetch_follower
from odradek.protocol.errors import MalformedMessage
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from odradek.protocol.schema import NO_UUID
from tests.protocol.golden import vectors
from tests.protocol.mutations import mutated
from tests.protocol.strategies import messages

VERSIONS = range(4, 18)
FOLLOWER_VERSIONS = range(12, 18)
few = settings(max_examples=40, deadline=None, derandomize=True, database=None)


def key_of(version: int, topic: Any) -> str | bytes:
    key: str | bytes = topic.topic_id if version >= 13 else topic.topic
    return key


def flat_request(version: int, message: FetchRequest) -> fast_fetch.FetchBody:
    state = message.replica_state
    return fast_fetch.FetchBody(
        state.replica_id if version >= 15 else message.replica_id,
        state.replica_epoch,
        message.max_wait_ms,
        message.min_bytes,
        message.max_bytes,
        message.isolation_level,
        message.session_id,
        message.session_epoch,
        [
            (
                key_of(version, topic),
                [
                    (
                        p.partition,
                        p.current_leader_epoch,
                        p.fetch_offset,
                        p.last_fetched_epoch,
                        p.log_start_offset,
                        p.partition_max_bytes,
                        p.replica_directory_id,
                    )
                    for p in topic.partitions
                ],
            )
            for topic in message.topics
        ],
        [(key_of(version, topic), topic.partitions) for topic in message.forgotten_topics_data],
        message.rack_id,
        message.cluster_id,
    )


def pair(first: int, second: int) -> tuple[int, int] | None:
    return None if (first, second) == (-1, -1) else (first, second)


def flat_response(version: int, message: FetchResponse) -> list[Any]:
    return [
        (
            key_of(version, topic),
            [
                (
                    p.partition_index,
                    p.error_code,
                    p.high_watermark,
                    p.last_stable_offset,
                    p.log_start_offset,
                    None
                    if p.aborted_transactions is None
                    else [(a.producer_id, a.first_offset) for a in p.aborted_transactions],
                    p.preferred_read_replica,
                    p.records,
                    pair(p.diverging_epoch.epoch, p.diverging_epoch.end_offset),
                    pair(p.current_leader.leader_id, p.current_leader.leader_epoch),
                    pair(p.snapshot_id.end_offset, p.snapshot_id.epoch),
                )
                for p in topic.partitions
            ],
        )
        for topic in message.responses
    ]


def endpoints(message: FetchResponse) -> list[fast_fetch.NodeEndpoint]:
    return [(n.node_id, n.host, n.port, n.rack) for n in message.node_endpoints]


def encoded_response(version: int, message: FetchResponse) -> list[Any]:
    return fast_fetch.encode_response(
        version,
        flat_response(version, message),
        throttle_time_ms=message.throttle_time_ms,
        error_code=message.error_code,
        session_id=message.session_id,
        node_endpoints=endpoints(message),
    )


def encoded_request(version: int, message: FetchRequest) -> bytes:
    body = flat_request(version, message)
    return fast_fetch_follower.encode_request(
        version,
        replica_id=body.replica_id,
        replica_epoch=body.replica_epoch,
        max_wait_ms=body.max_wait_ms,
        min_bytes=body.min_bytes,
        max_bytes=body.max_bytes,
        session_id=body.session_id,
        session_epoch=body.session_epoch,
        topics=body.topics,
        forgotten=body.forgotten,
        isolation_level=body.isolation_level,
        rack_id=body.rack_id,
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_is_read_as_the_table_reads_it(version: int) -> None:
    @few
    @given(message=messages(FetchRequest, version))
    def check(message: FetchRequest) -> None:
        body = message.encode(version)
        assert fast_fetch.decode_request(version, body) == flat_request(version, message)
        assert fast_fetch.decode_request(version, memoryview(b"head" + body), 4) == flat_request(
            version, message
        )

    check()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_response_is_written_as_the_table_writes_it(version: int) -> None:
    @few
    @given(message=messages(FetchResponse, version))
    def check(message: FetchResponse) -> None:
        assert b"".join(encoded_response(version, message)) == message.encode(version)

    check()


@pytest.mark.parametrize("version", FOLLOWER_VERSIONS)
def test_a_followers_request_is_written_as_the_table_writes_it(version: int) -> None:
    @few
    @given(message=messages(FetchRequest, version))
    def check(message: FetchRequest) -> None:
        message.cluster_id = None  # brokers of a ZooKeeper-style cluster do not name it
        assert encoded_request(version, message) == message.encode(version)

    check()


@pytest.mark.parametrize("version", FOLLOWER_VERSIONS)
def test_a_response_is_read_by_a_follower_as_the_table_reads_it(version: int) -> None:
    @few
    @given(message=messages(FetchResponse, version))
    def check(message: FetchResponse) -> None:
        answer = fast_fetch_follower.decode_response(version, message.encode(version))
        assert answer == (
            message.throttle_time_ms,
            message.error_code,
            message.session_id,
            flat_response(version, message),
            endpoints(message),
        )

    check()


def test_the_golden_vectors_come_out_the_same() -> None:
    seen = 0
    for vector in vectors():
        if vector.key != 1:
            continue
        seen += 1
        version, message = vector.version, vector.message.decode(vector.version, vector.body)
        if isinstance(message, FetchRequest):
            assert fast_fetch.decode_request(version, vector.body) == flat_request(version, message)
        elif isinstance(message, FetchResponse):
            if vector.sample != "unknown-tag":
                assert b"".join(encoded_response(version, message)) == vector.body, vector.name
            if version in FOLLOWER_VERSIONS:
                answer = fast_fetch_follower.decode_response(version, vector.body)
                assert answer.topics == flat_response(version, message)
                assert answer.node_endpoints == endpoints(message)
    assert seen == 142


def outcome(decode: Any, *arguments: Any) -> Any:
    try:
        return decode(*arguments)
    except MalformedMessage:
        return "malformed"


@pytest.mark.parametrize("version", VERSIONS)
def test_both_agree_on_what_is_malformed_in_a_request(version: int) -> None:
    seed = next(v for v in vectors() if v.name == f"FetchRequest-v{version}-full")

    @settings(few, max_examples=150)
    @given(body=mutated(seed.body))
    def check(body: bytes) -> None:
        expected = outcome(FetchRequest.decode, version, body)
        if expected != "malformed":
            expected = flat_request(version, expected)
        assert outcome(fast_fetch.decode_request, version, body) == expected

    check()


@pytest.mark.parametrize("version", FOLLOWER_VERSIONS)
def test_both_agree_on_what_is_malformed_in_a_response(version: int) -> None:
    seed = next(v for v in vectors() if v.name == f"FetchResponse-v{version}-full")

    @settings(few, max_examples=150)
    @given(body=mutated(seed.body))
    def check(body: bytes) -> None:
        expected = outcome(FetchResponse.decode, version, body)
        answer = outcome(fast_fetch_follower.decode_response, version, body)
        if expected == "malformed":
            assert answer == "malformed"
        else:
            topics = [
                (key, [(*p[:8], *(pair(*t) if t else None for t in p[8:])) for p in partitions])
                for key, partitions in answer.topics
            ]
            assert topics == flat_response(version, expected)

    check()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_message_cut_short_anywhere_is_malformed(version: int) -> None:
    request = next(v for v in vectors() if v.name == f"FetchRequest-v{version}-full").body
    for size in range(len(request)):
        with pytest.raises(MalformedMessage):
            fast_fetch.decode_request(version, request[:size])
    response = next(v for v in vectors() if v.name == f"FetchResponse-v{version}-full").body
    if version in FOLLOWER_VERSIONS:
        for size in range(len(response)):
            with pytest.raises(MalformedMessage):
                fast_fetch_follower.decode_response(version, response[:size])


class Slice:
    def __init__(self, content: bytes) -> None:
        self.content = content
        self.size_bytes = len(content)


@pytest.mark.parametrize("version", VERSIONS)
def test_records_are_passed_on_and_not_touched(version: int) -> None:
    key: str | bytes = bytes(range(16)) if version >= 13 else "t"
    first, second, view = Slice(b"a" * 300), Slice(b"b"), memoryview(b"c" * 5)
    rows = [
        (0, 0, 5, 5, 0, None, -1, [first, second], None, None, None),
        (1, 0, 5, 5, 0, [], -1, view, None, None, None),
        (2, 0, 5, 5, 0, None, -1, b"", None, None, None),
        (3, 3, -1, -1, -1, None, -1, None, None, None, None),
    ]
    buffers = fast_fetch.encode_response(version, [(key, rows)])
    assert buffers[1] is first and buffers[2] is second and buffers[4] is view
    body = b"".join(b.content if isinstance(b, Slice) else b for b in buffers)
    partitions = FetchResponse.decode(version, body).responses[0].partitions
    assert [p.records for p in partitions] == [b"a" * 300 + b"b", b"c" * 5, b"", None]


def test_a_follower_gets_slices_of_the_response() -> None:
    rows = [(0, 0, 5, 5, 0, None, -1, b"records", None, None, None)]
    frame = bytearray(b"".join(fast_fetch.encode_response(13, [(bytes(16), rows)])))
    answer = fast_fetch_follower.decode_response(13, memoryview(frame))
    records = answer.topics[0][1][0][7]
    assert records.obj is frame and records == b"records"


def test_a_topic_needs_the_key_of_its_version() -> None:
    with pytest.raises(AssertionError, match="ids"):
        fast_fetch.encode_response(13, [("name", [])])
    with pytest.raises(AssertionError, match="names"):
        fast_fetch.encode_response(12, [(bytes(16), [])])


def test_a_directory_is_sent_only_where_the_version_knows_it() -> None:
    partition = FetchPartition(partition=1, replica_directory_id=b"d" * 16)
    message = FetchRequest(topics=[FetchTopic(topic_id=bytes(16), partitions=[partition])])
    for version in (16, 17):
        assert encoded_request(version, message) == message.encode(version)
    assert fast_fetch.decode_request(16, message.encode(16)).topics[0][1][0][6] == NO_UUID
    assert fast_fetch.decode_request(17, message.encode(17)).topics[0][1][0][6] == b"d" * 16


@pytest.mark.parametrize("size", [0, 1, 126, 127, 128, 16382, 16383, 16384, 2097150, 2097151, 2097152])
def test_records_of_any_size_have_the_length_in_front_that_the_table_writes(size: int) -> None:
    rows = [(0, 0, 5, 5, 0, aborted, -1, bytes(size), None, None, None) for aborted in (None, [], [(1, 2)])]
    for version in (4, 11, 12, 17):
        key: str | bytes = bytes(16) if version >= 13 else "t"
        body = b"".join(fast_fetch.encode_response(version, [(key, rows)]))
        message = FetchResponse.decode(version, body)
        assert [len(p.records or b"") for p in message.responses[0].partitions] == [size] * 3
        assert message.encode(version) == body


def test_a_tag_of_a_newer_version_is_unknown_to_an_older_one_and_skipped() -> None:
    """Tag 1 is the replica state from 15 on, tag 0 of a partition the directory from 17 on."""
    top = FetchRequest().encode(14)[:-1] + b"\1\1\3abc"
    assert fast_fetch.decode_request(14, top) == flat_request(14, FetchRequest())
    assert FetchRequest.decode(14, top) == FetchRequest()
    message = FetchRequest(topics=[FetchTopic(topic_id=bytes(16), partitions=[FetchPartition(partition=1)])])
    # Behind the partition: its tags, its topic's, no forgotten topics, no rack, the request's tags.
    plain = message.encode(16)
    assert plain.endswith(bytes(4) + b"\0\0\1\1\0")
    tagged = plain[:-5] + b"\1\0\3abc" + plain[-4:]
    assert fast_fetch.decode_request(16, tagged) == flat_request(16, message)
    assert FetchRequest.decode(16, tagged) == message
    for version, body in ((15, top), (17, tagged)):
        with pytest.raises(MalformedMessage):
            fast_fetch.decode_request(version, body)


def test_a_default_is_not_written_even_if_it_is_spelled_out() -> None:
    row = (0, 0, 5, 5, 0, None, -1, b"")
    implied = fast_fetch.encode_response(17, [(bytes(16), [(*row, None, None, None)])])
    spelled = fast_fetch.encode_response(17, [(bytes(16), [(*row, (-1, -1), (-1, -1), (-1, -1))])])
    assert b"".join(spelled) == b"".join(implied)


def test_records_longer_than_the_response_are_named() -> None:
    rows = [(0, 0, 5, 5, 0, None, -1, b"abcd", None, None, None)]
    body = b"".join(fast_fetch.encode_response(13, [(bytes(16), rows)]))
    cut = body[: body.index(b"abcd") + 3]
    with pytest.raises(MalformedMessage, match="records: 4 bytes announced, 3 left"):
        fast_fetch_follower.decode_response(13, cut)
