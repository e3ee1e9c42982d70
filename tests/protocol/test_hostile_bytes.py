"""Bytes of strangers: whatever they are, the answer is a message or MalformedMessage, soon and without much memory.

CVE-2022-34917 is the reason for looking at a count before
believing it.
"""

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.model.error_codes import ErrorCode
from odradek.protocol import reference
from odradek.protocol.errors import MalformedMessage, UnsupportedVersion
from odradek.protocol.flat import fetch_request, produce_request
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.protocol.messages.create_topics import CreateTopicsRequest
from odradek.protocol.messages.describe_groups import DescribeGroupsRequest
from odradek.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from odradek.protocol.messages.fetch import FetchRequest
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.protocol.messages.produce import ProduceRequest
from odradek.protocol.primitives import ELEMENT_BUDGET, OBJECT_COST, uvarint
from odradek.protocol.schema import Message
from tests.protocol.golden import message_versions, vectors
from tests.support import each

FULL = [vector for vector in vectors() if vector.sample == "full"]
HUGE = (0x7FFFFFFF).to_bytes(4, "big")


def both(message: type[Message], version: int, body: bytes) -> str:
    """What the compiled codec says is wrong with `body`, after the reference found it wrong too."""
    with pytest.raises(MalformedMessage):
        reference.decode(message, version, body)
    with pytest.raises(MalformedMessage) as error:
        message.decode(version, body)
    return error.value.message


@each(FULL, lambda vector: vector.name)
def test_a_message_cut_short_anywhere_is_malformed(vector) -> None:
    for size in range(len(vector.body)):
        with pytest.raises(MalformedMessage):
            vector.message.decode(vector.version, vector.body[:size])


@each(FULL, lambda vector: vector.name)
def test_a_byte_too_many_is_malformed(vector) -> None:
    assert "1 bytes left over" in both(vector.message, vector.version, vector.body + b"\0")


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(body=st.binary(max_size=80))
def test_random_bytes_are_a_message_or_malformed(body: bytes) -> None:
    for message, version in message_versions()[::7]:
        try:
            decoded = message.decode(version, body)
        except MalformedMessage:
            continue
        assert isinstance(decoded, message)


@pytest.mark.parametrize("fill", [b"\0", b"\1", b"\2", b"\x7f", b"\xff", b"\0\1", b"\0\0\0\1"])
def test_a_frame_full_of_one_byte_is_malformed_and_costs_little(fill: bytes) -> None:
    """What may come before login: 512 KiB, each byte chosen to look like as many small things as possible."""
    body = fill * (512 * 1024 // len(fill))
    for message, version in message_versions():
        if message.TYPE == "request" and version == message.VERSIONS.last:
            tracemalloc.start()
            with pytest.raises(MalformedMessage):
                message.decode(version, body)
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert peak < 64 << 20, f"{message.__name__}: {peak}"


@pytest.mark.parametrize(
    ("message", "version", "body"),
    [
        (MetadataRequest, 8, HUGE + b"\0\0\0"),
        (MetadataRequest, 12, uvarint(0x7FFFFFFF) + bytes(8)),
        (CreateTopicsRequest, 2, b"\0\0\0\1\0\1t\0\0\0\1\0\1" + HUGE + bytes(40)),
        (FetchRequest, 4, bytes(17) + HUGE),
        (ProduceRequest, 3, b"\xff\xff" + bytes(6) + HUGE),
    ],
    ids=["classic", "compact", "nested", "fetch", "produce"],
)
def test_an_absurd_count_is_refused_before_anything_is_allocated(
    message: type[Message], version: int, body: bytes
) -> None:
    tracemalloc.start()
    said = both(message, version, body)
    if message is FetchRequest:
        with pytest.raises(MalformedMessage):
            fetch_request.decode(version, body)
    if message is ProduceRequest:
        with pytest.raises(MalformedMessage):
            produce_request.decode(version, body)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert "announced" in said
    assert peak < 1 << 20


def test_a_count_is_held_against_the_smallest_size_of_its_elements() -> None:
    # A topic of Metadata 8 takes two bytes at least: 10 of them cannot stand in 19.
    assert "10 elements of at least 2 bytes announced, 19 bytes left" in both(
        MetadataRequest, 8, (10).to_bytes(4, "big") + bytes(19)
    )


def test_more_small_things_than_a_message_may_have_are_refused() -> None:
    count = ELEMENT_BUDGET // OBJECT_COST
    empty_topics = b"\0\0"
    body = (count + 1).to_bytes(4, "big") + empty_topics * (count + 1) + b"\0\0\0"
    assert "more elements" in both(MetadataRequest, 8, body)
    for version, too_many in (
        (3, b"\xff\xff" + bytes(6) + (count + 1).to_bytes(4, "big") + bytes(6 * count + 6)),
        (9, b"\0" + bytes(6) + uvarint(count + 2) + b"\1\1\0" * (count + 1) + b"\0"),
        (9, b"\0" + bytes(6) + b"\2\1" + uvarint(count + 1) + bytes(6 * count) + b"\0\0"),
    ):
        with pytest.raises(MalformedMessage, match="more elements"):
            produce_request.decode(version, too_many)
    for version, too_many in (
        (4, bytes(17) + (count + 1).to_bytes(4, "big") + bytes(6 * count + 6)),
        (4, bytes(20) + b"\1\0\0" + count.to_bytes(4, "big") + bytes(16 * count)),
        (7, bytes(32) + b"\1\0\0" + (4 * count).to_bytes(4, "big") + bytes(16 * count)),
        (12, bytes(25) + uvarint(count + 2) + b"\1\1\0" * (count + 1) + b"\1\1\0"),
        (12, bytes(25) + b"\2\1" + uvarint(count + 1) + bytes(33 * count) + b"\0\1\1\0"),
        (12, bytes(25) + b"\1\2\1" + uvarint(4 * count + 1) + bytes(16 * count) + b"\0\1\0"),
        (12, bytes(25) + b"\1" + uvarint(count + 2) + b"\1\1\0" * (count + 1) + b"\1\0"),
    ):
        with pytest.raises(MalformedMessage, match="more elements"):
            fetch_request.decode(version, too_many)


@pytest.mark.parametrize(
    ("message", "version", "body", "said"),
    [
        (MetadataRequest, 8, b"\0\0\0\1\xff\xfe\0\0\0", "name: negative length -2"),
        (MetadataRequest, 8, b"\0\0\0\1\xff\xff\0\0\0", "name: null"),
        (MetadataRequest, 8, b"\0\0\0\1\0\4abc", "name: 4 bytes announced, 3 left"),
        (MetadataRequest, 8, b"\xff\xff\xff\xfe\0\0\0", "topics: negative length -2"),
        (MetadataRequest, 0, b"\xff\xff\xff\xff", "topics: null"),
        (MetadataRequest, 8, b"\0\0\0\1\0\2\xc3\x28\0\0\0", "not UTF-8"),
        (MetadataRequest, 9, b"\2\3\xed\xa0\0\0\0\0\0", "not UTF-8"),
        (MetadataRequest, 9, b"\2\0\0\0\0\0\0", "name: null"),
        (MetadataRequest, 9, b"\2\x81\x80\x80\x80\x80\x00a\0\0\0\0\0", "varint"),
        (MetadataRequest, 9, b"\2\xff\xff\xff\xff\xff\x7fa\0\0\0\0\0", "varint"),
        (MetadataRequest, 9, b"\1\0\0\0\x7f\1\1", "tagged field: 1 bytes announced, 0 left"),
        (MetadataRequest, 9, b"\1\0\0\0\1\1\x7f", "tagged field: 127 bytes announced, 0 left"),
        (MetadataRequest, 9, b"\1\0\0\0\xff\xff\xff\xff\x0f\0", "tagged fields"),
        (ApiVersionsRequest, 3, uvarint(32769) + b"a" * 32768 + b"\1\0", "clientSoftwareName: 32768 bytes"),
        (DescribeTopicPartitionsRequest, 0, b"\1\0\0\0\0\xfe\0", "cursor: negative length -2"),
    ],
)
def test_nonsense_is_named(message: type[Message], version: int, body: bytes, said: str) -> None:
    found = both(message, version, body)
    assert said in found
    assert found.startswith(f"{message.__name__} version {version}: ")


def test_a_known_tag_must_be_as_long_as_it_says() -> None:
    good = FetchRequest(cluster_id="c").encode(12)
    assert good.endswith(b"\1\0\2\2c")
    assert FetchRequest.decode(12, good).cluster_id == "c"
    for tag in (b"\1\0\3\2c\0", b"\1\0\1\2c", b"\1\0\0\2c"):
        assert "clusterId: its size" in both(FetchRequest, 12, good[:-5] + tag)
        with pytest.raises(MalformedMessage):
            fetch_request.decode(12, good[:-5] + tag)


def test_a_bomb_of_tags_is_refused_in_one_struct_and_over_many() -> None:
    few, many = b"\x7f" + b"\x05\0" * 127, uvarint(128) + b"\x05\0" * 128
    assert MetadataRequest.decode(9, b"\1\0\0\0" + few) == MetadataRequest(allow_auto_topic_creation=False)
    assert "128 tagged fields" in both(MetadataRequest, 9, b"\1\0\0\0" + many)
    topics = ELEMENT_BUDGET // OBJECT_COST // 128 + 1
    assert "more elements" in both(
        MetadataRequest, 9, uvarint(topics + 1) + (b"\1" + few) * topics + bytes(4)
    )
    topics, budget = 32, 31 * 128 * OBJECT_COST  # the flat codecs are told another bound
    produce = b"\0" + bytes(6) + uvarint(topics + 1) + (b"\1\1" + few) * topics + b"\0"
    with pytest.raises(MalformedMessage, match="more elements"):
        produce_request.decode(9, produce, budget=budget)
    produce = b"\0" + bytes(6) + b"\2\1" + uvarint(topics + 1) + (bytes(5) + few) * topics + b"\0\0"
    with pytest.raises(MalformedMessage, match="more elements"):
        produce_request.decode(9, produce, budget=budget)
    fetch = bytes(25) + uvarint(topics + 1) + (b"\1\1" + few) * topics + b"\1\1\0"
    with pytest.raises(MalformedMessage, match="more elements"):
        fetch_request.decode(12, fetch, budget=budget)
    fetch = bytes(25) + b"\2\1" + uvarint(topics + 1) + (bytes(32) + few) * topics + b"\0\1\1\0"
    with pytest.raises(MalformedMessage, match="more elements"):
        fetch_request.decode(12, fetch, budget=budget)
    fetch = bytes(25) + b"\1" + uvarint(topics + 1) + (b"\1\1" + few) * topics + b"\1\0"
    with pytest.raises(MalformedMessage, match="more elements"):
        fetch_request.decode(12, fetch, budget=budget)


@pytest.mark.parametrize(
    ("message", "version", "body", "cost"),
    [
        (MetadataRequest, 8, b"\0\0\0\3" + b"\0\1t" * 3 + bytes(3), 3 * OBJECT_COST),
        (MetadataRequest, 9, b"\1\0\0\0\3\5\0\6\0\7\0", 3 * OBJECT_COST),
        (DescribeGroupsRequest, 5, b"\6" + b"\1" * 5 + b"\0\0", 5 * OBJECT_COST),
    ],
    ids=["objects", "tags", "texts"],
)
def test_as_many_small_things_as_a_message_may_have_are_taken(
    message: type[Message], version: int, body: bytes, cost: int
) -> None:
    expected = reference.decode(message, version, body)
    assert message.decode(version, body, budget=cost) == expected
    with pytest.raises(MalformedMessage, match="more elements"):
        message.decode(version, body, budget=cost - 1)
    for budget in (cost, cost - 1):
        reader = reference.Reader(memoryview(body), version, message.is_flexible(version))
        reader.budget = budget
        if budget == cost:
            assert reader.struct(message) == expected
        else:
            with pytest.raises(MalformedMessage, match="more elements"):
                reader.struct(message)


def test_a_version_without_a_table_says_which_there_are() -> None:
    for version in (-1, 3, 18):
        with pytest.raises(
            UnsupportedVersion, match=r"FetchRequest version -?[0-9]+ is not known; known are 4-17"
        ):
            FetchRequest.decode(version, b"")
        with pytest.raises(UnsupportedVersion) as refused:
            FetchRequest().encode(version)
        assert refused.value.code == ErrorCode.UNSUPPORTED_VERSION


def test_what_we_may_not_write_raises_and_is_not_sent() -> None:
    with pytest.raises(ValueError, match="32768 bytes"):
        ApiVersionsRequest(client_software_name="x" * 32768).encode(3)
    with pytest.raises((AttributeError, TypeError)):
        ApiVersionsRequest(client_software_name=None).encode(3)  # type: ignore[arg-type]
