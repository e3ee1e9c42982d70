"""Fetch as tuples: what is more than equality with the table (test_flat.py)."""

import pytest

from odradek.protocol.errors import MalformedMessage
from odradek.protocol.fields import NO_UUID
from odradek.protocol.flat import fetch_request, fetch_response
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic

VERSIONS = range(4, 18)
FOLLOWER_VERSIONS = range(12, 18)


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
    buffers = fetch_response.encode(version, responses=[(key, rows)])
    assert buffers[1] is first and buffers[2] is second and buffers[4] is view
    body = b"".join(b.content if isinstance(b, Slice) else b for b in buffers)
    partitions = FetchResponse.decode(version, body).responses[0].partitions
    assert [p.records for p in partitions] == [b"a" * 300 + b"b", b"c" * 5, b"", None]


def test_a_follower_gets_slices_of_the_response() -> None:
    rows = [(0, 0, 5, 5, 0, None, -1, b"records", None, None, None)]
    frame = bytearray(b"".join(fetch_response.encode(13, responses=[(bytes(16), rows)])))
    answer = fetch_response.decode(13, memoryview(frame))
    records = answer.responses[0][1][0][7]
    assert records.obj is frame and records == b"records"


def test_a_topic_needs_the_key_of_its_version() -> None:
    with pytest.raises(AssertionError, match="topic_id is bytes"):
        fetch_response.encode(13, responses=[("name", [])])
    with pytest.raises(AssertionError, match="topic is str"):
        fetch_response.encode(12, responses=[(bytes(16), [])])


def test_a_directory_is_sent_only_where_the_version_knows_it() -> None:
    partition = FetchPartition(partition=1, replica_directory_id=b"d" * 16)
    message = FetchRequest(topics=[FetchTopic(topic_id=bytes(16), partitions=[partition])])
    row = (1, -1, 0, -1, -1, 0, b"d" * 16)
    for version in (16, 17):
        body = fetch_request.encode(
            version, max_bytes=0x7FFFFFFF, session_epoch=-1, topics=[(bytes(16), [row])]
        )
        assert body == message.encode(version)
    assert fetch_request.decode(16, message.encode(16)).topics[0][1][0][6] == NO_UUID
    assert fetch_request.decode(17, message.encode(17)).topics[0][1][0][6] == b"d" * 16


@pytest.mark.parametrize("size", [0, 1, 126, 127, 128, 16382, 16383, 16384, 2097150, 2097151, 2097152])
def test_records_of_any_size_have_the_length_in_front_that_the_table_writes(size: int) -> None:
    rows = [(0, 0, 5, 5, 0, aborted, -1, bytes(size), None, None, None) for aborted in (None, [], [(1, 2)])]
    for version in (4, 11, 12, 17):
        key: str | bytes = bytes(16) if version >= 13 else "t"
        body = b"".join(fetch_response.encode(version, responses=[(key, rows)]))
        message = FetchResponse.decode(version, body)
        assert [len(p.records or b"") for p in message.responses[0].partitions] == [size] * 3
        assert message.encode(version) == body


def test_a_tag_of_a_newer_version_is_unknown_to_an_older_one_and_skipped() -> None:
    """Tag 1 is the replica state from 15 on, tag 0 of a partition the directory from 17 on."""
    top = FetchRequest().encode(14)[:-1] + b"\1\1\3abc"
    assert fetch_request.decode(14, top) == fetch_request.decode(14, FetchRequest().encode(14))
    assert FetchRequest.decode(14, top) == FetchRequest()
    message = FetchRequest(topics=[FetchTopic(topic_id=bytes(16), partitions=[FetchPartition(partition=1)])])
    # Behind the partition: its tags, its topic's, no forgotten topics, no rack, the request's tags.
    plain = message.encode(16)
    assert plain.endswith(bytes(4) + b"\0\0\1\1\0")
    tagged = plain[:-5] + b"\1\0\3abc" + plain[-4:]
    assert fetch_request.decode(16, tagged) == fetch_request.decode(16, plain)
    assert FetchRequest.decode(16, tagged) == message
    for version, body in ((15, top), (17, tagged)):
        with pytest.raises(MalformedMessage):
            fetch_request.decode(version, body)


def test_a_default_is_not_written_even_if_it_is_spelled_out() -> None:
    row = (0, 0, 5, 5, 0, None, -1, b"")
    implied = fetch_response.encode(17, responses=[(bytes(16), [(*row, None, None, None)])])
    spelled = fetch_response.encode(17, responses=[(bytes(16), [(*row, (-1, -1), (-1, -1), (-1, -1))])])
    assert b"".join(spelled) == b"".join(implied)


def test_records_longer_than_the_response_are_named() -> None:
    rows = [(0, 0, 5, 5, 0, None, -1, b"abcd", None, None, None)]
    body = b"".join(fetch_response.encode(13, responses=[(bytes(16), rows)]))
    cut = body[: body.index(b"abcd") + 3]
    with pytest.raises(MalformedMessage, match="records: 4 bytes announced, 3 left"):
        fetch_response.decode(13, cut)
