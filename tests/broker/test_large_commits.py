"""A commit of more bytes than any batch takes is refused for each of its partitions, without its metadata being read."""

import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from odradek.broker.answers import CloseConnection, Reply
from odradek.broker.large_commits import without_metadata
from odradek.broker.request import Request
from odradek.broker.row_limits import LEAST_BYTES
from odradek.model.error_codes import ErrorCode
from odradek.protocol.errors import MalformedMessage
from odradek.protocol.messages import offset_commit as oc
from odradek.protocol.messages import txn_offset_commit as tc
from odradek.protocol.primitives import MAX_STRING_BYTES
from tests.broker.test_group_shards import code_of, commit, fetched, ready
from tests.broker.world import World

OF_COMMITS: Any = (
    (oc.OffsetCommitRequest, oc.OffsetCommitRequestTopic, oc.OffsetCommitRequestPartition, range(2, 10)),
    (tc.TxnOffsetCommitRequest, tc.TxnOffsetCommitRequestTopic, tc.TxnOffsetCommitRequestPartition, range(6)),
)
RESPONSES: Any = {8: oc.OffsetCommitResponse, 28: tc.TxnOffsetCommitResponse}
VERSIONS = [(*one[:3], version) for one in OF_COMMITS for version in one[3]]
LONG = "ü" * (MAX_STRING_BYTES // 2)


def filled(commit: Any, topic: Any, partition: Any, metadata: list[str | None]) -> Any:
    """Of two topics, and of one without partitions."""
    rows = [
        partition(partition_index=index, committed_offset=7, committed_metadata=one)
        for index, one in enumerate(metadata)
    ]
    request = commit(
        group_id="g",
        topics=[
            topic(name="t", partitions=rows[:2]),
            topic(name="none"),
            topic(name="ü", partitions=rows[2:]),
        ],
    )
    request.member_id = "someone"
    return request


def given(world: World, request: Any, version: int) -> Any:
    connection = world.connection()
    body = memoryview(bytearray(request.encode(version)))
    answer = world[1].broker.handle(Request(request.KEY, version, 1, "c", body, connection), world.now_ms)
    if not isinstance(answer, Reply):
        return answer
    return RESPONSES[request.KEY].decode(version, b"".join(map(bytes, answer.buffers)))


def codes(response: Any) -> dict[str, list[int]]:
    return {topic.name: [one.error_code for one in topic.partitions] for topic in response.topics}


@pytest.mark.parametrize(("commit", "topic", "partition", "version"), VERSIONS)
def test_all_but_metadata_is_left_of_every_version(
    commit: Any, topic: Any, partition: Any, version: int
) -> None:
    metadata = [LONG, None, "", "x", "y" * 200]
    request = filled(commit, topic, partition, metadata)
    kept, sizes = without_metadata(commit, version, memoryview(request.encode(version)), 100)
    assert sizes == [len((one or "").encode()) for one in metadata]
    assert b"".join(kept) == filled(commit, topic, partition, [None] * 5).encode(version)


@pytest.mark.parametrize(("commit", "topic", "partition", "version"), VERSIONS)
def test_what_ends_too_early_or_has_too_many_rows_is_malformed(
    commit: Any, topic: Any, partition: Any, version: int
) -> None:
    body = memoryview(filled(commit, topic, partition, ["x"] * 6).encode(version))
    with pytest.raises(MalformedMessage, match="more elements than 5"):
        without_metadata(commit, version, body, 5)
    for end in range(len(body)):
        try:
            cut, _ = without_metadata(commit, version, body[:end], 100)
        except MalformedMessage:
            continue
        with pytest.raises(MalformedMessage):
            commit.decode(version, memoryview(b"".join(cut)))


def test_each_partition_hears_why_and_nothing_is_committed(world: World) -> None:
    ready(world)
    for (commits, topic, partition, _), version in ((OF_COMMITS[0], 9), (OF_COMMITS[1], 3)):
        request = filled(commits, topic, partition, [LONG, None, "", "x", LONG, *["y" * 2_000] * 4_500])
        assert len(request.encode(version)) > LEAST_BYTES
        too_long, too_large = ErrorCode.OFFSET_METADATA_TOO_LARGE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE
        found = codes(given(world, request, version))
        assert found["t"] == [too_long, too_large]
        assert found["ü"] == [too_large, too_large, too_long, *[too_large] * 4_500]
    assert fetched(world, 1, "g") == {"g": (0, [])}
    assert code_of(world.call(1, commit(5), 8)) == 0


def test_a_commit_of_as_many_bytes_as_a_batch_may_have_is_read(tmp_path: Path) -> None:
    world = World(tmp_path, message_max_bytes=str(2 * LEAST_BYTES))
    world.lead(1, isr=(1,), replicas=(1,), is_new=True)
    world[1].broker.controller_status(True, 1, world.now_ms)
    ready(world)
    commits, topic, partition, _ = OF_COMMITS[0]
    request = filled(commits, topic, partition, ["y" * 2_000] * 4_500)
    assert LEAST_BYTES < len(request.encode(9)) < 2 * LEAST_BYTES
    asked = world.send(1, request, 9)
    world.settle()
    assert set(codes(asked.message)["ü"]) == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_long_names_are_no_reason(world: World) -> None:
    ready(world)
    for one, version in ((OF_COMMITS[0], 9), (OF_COMMITS[1], 3)):
        names = [one[1](name="x" * 30_000, partitions=[]) for _ in range(400)]
        answer = given(world, one[0](group_id="g", topics=names), version)
        assert isinstance(answer, CloseConnection) and "more than there is a reason for" in answer.reason


def test_metadata_of_a_large_commit_is_not_read(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ninety megabytes of it would take a turn of their own."""
    read: list[int] = []
    decode = oc.OffsetCommitRequest.decode

    def noted(version: int, body: memoryview, **options: Any) -> Any:
        read.append(len(body))
        return decode(version, body, **options)

    monkeypatch.setattr(oc.OffsetCommitRequest, "decode", noted)
    commit, topic, partition, _ = OF_COMMITS[0]
    given(world, filled(commit, topic, partition, [LONG] * 300), 9)
    assert read and max(read) < 10_000


@pytest.mark.parametrize(
    "filling",
    [
        pytest.param(b"\0\0\0\0", id="no topics, and bytes behind them"),
        pytest.param(b"\xff\xff\xff\xff", id="fewer topics than none"),
        pytest.param(b"\0\0\0\1\0\1t\x80\0\0\0", id="fewer partitions than none"),
        pytest.param(b"\x7f\xff\xff\xff", id="more topics than there are bytes"),
        pytest.param(b"\0\0\0\1\0\1t\x7f\xff\xff\xff", id="more partitions than there are bytes"),
    ],
)
def test_what_is_no_metadata_closes_the_connection_without_being_copied(world: World, filling: bytes) -> None:
    ready(world)
    empty = oc.OffsetCommitRequest(group_id="g", topics=[]).encode(2)
    body = memoryview(empty[:-4] + filling + bytes(40 << 20))
    request = Request(8, 2, 1, "c", body, world.connection())
    tracemalloc.start()
    try:
        answer = world[1].broker.handle(request, world.now_ms)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert isinstance(answer, CloseConnection)
    assert most < 8 << 20


@pytest.mark.parametrize(("commit", "topic", "partition", "version"), VERSIONS)
def test_topics_without_partitions_are_rows(commit: Any, topic: Any, partition: Any, version: int) -> None:
    body = memoryview(commit(group_id="g", topics=[topic(name="t")] * 6).encode(version))
    kept, sizes = without_metadata(commit, version, body, 6)
    assert (b"".join(kept), sizes) == (bytes(body), [])
    with pytest.raises(MalformedMessage, match="more elements than 5"):
        without_metadata(commit, version, body, 5)


def test_tagged_fields_are_rows() -> None:
    row = oc.OffsetCommitRequestPartition(partition_index=0, committed_offset=7, committed_metadata="x")
    topic = oc.OffsetCommitRequestTopic(name="t", partitions=[row])
    plain = oc.OffsetCommitRequest(group_id="g", topics=[topic]).encode(9)
    assert plain[-3:] == bytes(3), "no tagged fields of the partition, the topic and the request"
    tags = bytes((4, 100, 0, 101, 0, 102, 0, 103, 0))
    for body in (plain[:-3] + tags + bytes(2), plain[:-2] + tags + bytes(1)):
        _, sizes = without_metadata(oc.OffsetCommitRequest, 9, memoryview(body), 6)
        assert sizes == [1]
        with pytest.raises(MalformedMessage, match="more elements than 5"):
            without_metadata(oc.OffsetCommitRequest, 9, memoryview(body), 5)


def test_metadata_is_too_large_where_no_text_of_as_many_bytes_may_be_accepted(world: World) -> None:
    ready(world)
    most = 3 * world[1].broker.settings.offset_metadata_max_bytes
    sizes = [most // 3 + 1, most, most + 1]
    commit, topic, partition, _ = OF_COMMITS[0]
    request = filled(commit, topic, partition, ["y" * size for size in (*sizes, *[30_000] * 300)])
    found = codes(given(world, request, 9))
    too_long, too_large = ErrorCode.OFFSET_METADATA_TOO_LARGE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE
    assert [*found["t"], *found["ü"]] == [too_large, too_large, *[too_long] * 301]
