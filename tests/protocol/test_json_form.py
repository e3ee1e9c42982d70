"""JSON is written by people, so it is read strictly and errors say where and what."""

from typing import Any

import pytest

from odradek.protocol.errors import MalformedMessage
from odradek.protocol.messages.alter_client_quotas import AlterClientQuotasRequest
from odradek.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from odradek.protocol.messages.fetch import FetchRequest
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.protocol.messages.produce import ProduceRequest

METADATA = {"topics": [{"topicId": "A" * 22, "name": "t"}], "allowAutoTopicCreation": True}
METADATA_12 = {**METADATA, "includeTopicAuthorizedOperations": False}


def changed(base: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {**base, **changes}


def test_json_in_and_out() -> None:
    message = MetadataRequest.from_json(12, METADATA_12)
    assert message.topics is not None and message.topics[0].topic_id == bytes(16)
    assert message.to_json(12) == METADATA_12


def test_tagged_fields_may_be_left_out_and_are_at_their_default() -> None:
    shown = FetchRequest().to_json(17)
    assert "clusterId" not in shown and "replicaState" not in shown
    shown = FetchRequest(cluster_id="c").to_json(17)
    assert FetchRequest.from_json(17, shown).cluster_id == "c"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ([], r"MetadataRequest: expected an object, found \[\]"),
        (
            changed(METADATA_12, topic=1),
            "MetadataRequest: no field 'topic' in version 12; known are topics, ",
        ),
        (METADATA, "field 'includeTopicAuthorizedOperations' is missing in version 12"),
        (changed(METADATA_12, topics={}), r"MetadataRequest.topics: expected an array, found \{\}"),
        (changed(METADATA_12, allowAutoTopicCreation=1), "expected true or false, found 1"),
        (changed(METADATA_12, allowAutoTopicCreation=None), "cannot be null in version 12"),
        (
            changed(METADATA_12, topics=[{"topicId": "A" * 22, "name": 5}]),
            r"topics\[0\].name: expected a string",
        ),
        (
            changed(METADATA_12, topics=[{"topicId": "A" * 21, "name": "t"}]),
            r"\[0\].topicId: expected 22 characters",
        ),
        (changed(METADATA_12, topics=[{"topicId": "é" * 22, "name": "t"}]), "not base64|expected 22"),
        (changed(METADATA_12, topics=[{"topicId": "A" * 22, "name": "x" * 32768}]), "32768 bytes"),
        (
            changed(METADATA_12, topics=[{"topicId": "A" * 22, "name": "\ud800"}]),
            "cannot be encoded as UTF-8",
        ),
    ],
)
def test_what_is_wrong_is_named(value: Any, said: str) -> None:
    with pytest.raises(MalformedMessage, match=said):
        MetadataRequest.from_json(12, value)


@pytest.mark.parametrize("acks", [1 << 15, -(1 << 15) - 1, "1", 1.0, True])
def test_an_integer_out_of_range_is_refused(acks: Any) -> None:
    value = {"transactionalId": None, "acks": acks, "timeoutMs": 1, "topicData": []}
    with pytest.raises(
        MalformedMessage, match=r"ProduceRequest.acks: expected an integer of -32768 to 32767"
    ):
        ProduceRequest.from_json(3, value)


def test_records_are_base64() -> None:
    partition = {"index": 0, "records": "YWJj"}
    value = {"acks": 1, "timeoutMs": 1, "topicData": [{"name": "t", "partitionData": [partition]}]}
    message = ProduceRequest.from_json(0, value)
    assert message.topic_data[0].partition_data[0].records == b"abc"
    assert message.to_json(0) == value
    partition["records"] = "a b"
    with pytest.raises(MalformedMessage, match="records: 'a b' is not base64"):
        ProduceRequest.from_json(0, value)


def test_a_number_may_be_whole_where_a_fraction_is_allowed() -> None:
    op = {"key": "k", "value": 3, "remove": False}
    value = {"entries": [{"entity": [], "ops": [op]}], "validateOnly": False}
    assert AlterClientQuotasRequest.from_json(0, value).entries[0].ops[0].value == 3.0
    for text in ("NaN", "Infinity", "-Infinity"):
        op["value"] = text
        assert AlterClientQuotasRequest.from_json(0, value).to_json(0) == value
    for wrong in ("3", 10**400):  # JSON has whole numbers that no double can hold
        op["value"] = wrong
        with pytest.raises(MalformedMessage, match=r"entries\[0\].ops\[0\].value: expected a number"):
            AlterClientQuotasRequest.from_json(0, value)


def test_a_struct_may_be_null_where_the_table_says_so() -> None:
    value = {"topics": [], "responsePartitionLimit": 5, "cursor": None}
    message = DescribeTopicPartitionsRequest.from_json(0, value)
    assert message.cursor is None and message.to_json(0) == value
