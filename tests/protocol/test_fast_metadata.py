"""Metadata and ApiVersions by hand are those of the tables."""

import pytest
from hypothesis import given, settings

from odradek.model.error_codes import ErrorCode
from odradek.protocol import fast_metadata
from odradek.protocol.api_keys import SERVED
from odradek.protocol.fast_api_versions import ApiVersionsAnswers
from odradek.protocol.messages.api_versions import ApiVersionsResponse
from odradek.protocol.messages.metadata import MetadataResponse, MetadataResponseTopic
from tests.protocol.golden import vectors
from tests.protocol.strategies import messages

VERSIONS = range(13)
few = settings(max_examples=40, deadline=None, derandomize=True, database=None)


def topic_bytes(version: int, topic: MetadataResponseTopic) -> bytes:
    return fast_metadata.encode_topic(
        version,
        name=topic.name,
        topic_id=topic.topic_id,
        error_code=topic.error_code,
        is_internal=topic.is_internal,
        authorized_operations=topic.topic_authorized_operations,
        partitions=[
            (
                p.error_code,
                p.partition_index,
                p.leader_id,
                p.leader_epoch,
                p.replica_nodes,
                p.isr_nodes,
                p.offline_replicas,
            )
            for p in topic.partitions
        ],
    )


def by_hand(version: int, message: MetadataResponse) -> bytes:
    return fast_metadata.encode_response(
        version,
        throttle_time_ms=message.throttle_time_ms,
        brokers=[(b.node_id, b.host, b.port, b.rack) for b in message.brokers],
        cluster_id=message.cluster_id,
        controller_id=message.controller_id,
        authorized_operations=message.cluster_authorized_operations,
        topics=[topic_bytes(version, topic) for topic in message.topics],
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_a_response_is_written_as_the_table_writes_it(version: int) -> None:
    @few
    @given(message=messages(MetadataResponse, version))
    def check(message: MetadataResponse) -> None:
        assert by_hand(version, message) == message.encode(version)

    check()


def test_the_golden_vectors_come_out_the_same() -> None:
    seen = 0
    for vector in vectors():
        if (vector.key, vector.type) != (3, "response") or vector.sample == "unknown-tag":
            continue
        seen += 1
        message = MetadataResponse.decode(vector.version, vector.body)
        assert by_hand(vector.version, message) == vector.body, vector.name
    assert seen == 65


def test_lists_of_more_than_127_replicas_are_written_too() -> None:
    replicas = list(range(200))
    message = MetadataResponse.decode(12, by_hand(12, MetadataResponse()))
    for length in (0, 126, 127, 200):
        topic = fast_metadata.encode_topic(
            12, name="t", topic_id=bytes(16), partitions=[(0, 0, 1, 2, replicas[:length], [1], [])]
        )
        body = fast_metadata.encode_response(12, brokers=[], topics=[topic])
        [decoded] = MetadataResponse.decode(12, body).topics
        assert decoded.partitions[0].replica_nodes == replicas[:length]
    assert message.topics == []


def test_a_topic_is_encoded_once_until_it_is_forgotten() -> None:
    made = []

    def make() -> bytes:
        made.append(1)
        return b"topic %d" % len(made)

    cache = fast_metadata.TopicBytes()
    assert [cache.get(12, "t", make), cache.get(12, "t", make)] == [b"topic 1"] * 2
    assert cache.get(9, "t", make) == b"topic 2"
    assert cache.get(12, "u", make) == b"topic 3"
    cache.forget("t")
    assert cache.get(12, "t", make) == b"topic 4"
    assert cache.get(12, "u", make) == b"topic 3"
    cache.forget_all()
    assert cache.get(12, "u", make) == b"topic 5"


@pytest.mark.parametrize("version", range(5))
def test_api_versions_lists_what_is_served(version: int) -> None:
    answers = ApiVersionsAnswers(SERVED)
    for throttle_time_ms in (0, 7):
        decoded = ApiVersionsResponse.decode(version, answers.encode(version, throttle_time_ms))
        assert decoded.error_code == ErrorCode.NONE
        listed = {entry.api_key: (entry.min_version, entry.max_version) for entry in decoded.api_keys}
        assert listed == SERVED
        assert list(listed) == sorted(listed)
        assert decoded.throttle_time_ms == (throttle_time_ms if version else 0)
    assert answers.encode(version) is answers.encode(version)


@pytest.mark.parametrize("version", [5, 99, -1])
def test_an_unknown_version_of_api_versions_is_told_the_known_ones_in_version_0(version: int) -> None:
    decoded = ApiVersionsResponse.decode(0, ApiVersionsAnswers(SERVED).encode(version))
    assert decoded.error_code == ErrorCode.UNSUPPORTED_VERSION
    [entry] = decoded.api_keys
    assert (entry.api_key, entry.min_version, entry.max_version) == (18, 0, 4)
