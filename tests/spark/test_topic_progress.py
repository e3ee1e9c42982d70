"""What an application has written into topics, found again in the topic of progress."""

import json
from hashlib import blake2b
from typing import Any

import pytest

from odradek.client.sync import SyncClient
from odradek.client.sync_fetch import Fetched
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.protocol.messages.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from odradek.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from odradek.protocol.schema import Request
from odradek.records.batch import NO_TIMESTAMP, read_header, stamp, stamp_producer
from odradek.records.builder import batch_bytes
from odradek.records.control import build_end_marker
from odradek.records.reader import decode_batch
from odradek.spark import topic_progress
from tests.client.support import TOPIC_ID, ScriptedBroker

TOPIC = "odradek-sinks"


def note(app_id: str, batch_id: int, producer_id: int) -> bytes:
    data = bytearray(topic_progress.record(app_id, {"batchId": batch_id}))
    stamp_producer(data, producer_id=producer_id, producer_epoch=0, base_sequence=0)
    return bytes(data)


def test_a_batch_may_have_records_for_twenty_thousand_partitions() -> None:
    """Of each it notes where they begin, how many there are and their hash: `max.message.bytes` is 1,048,588 where nobody says more."""
    parts = [
        ["orders", number, 10**10 + number, 1000, blake2b(b"%d" % number, digest_size=16).hexdigest()]
        for number in range(20_000)
    ]

    data = topic_progress.record("app", {"batchId": 1, "parts": parts})

    assert len(data) <= 1_048_588
    (record,) = decode_batch(data, 0)
    assert json.loads(bytes(record.value or b""))["parts"] == parts


def marker(producer_id: int, *, commit: bool = True, is_emptied: bool = False) -> bytes:
    data = build_end_marker(
        producer_id=producer_id, producer_epoch=0, is_commit=commit, coordinator_epoch=0, timestamp=1
    )
    if not is_emptied:
        return data
    header = read_header(data)
    return bytes(batch_bytes(header._replace(record_count=0, base_timestamp=NO_TIMESTAMP), b""))


class Topic:
    """Plays the client, and the one partition it is asked about."""

    def __init__(self, *batches: bytes) -> None:
        self.records = bytearray()
        for offset, each in enumerate(batches):
            data = bytearray(each)
            stamp(data, 0, offset, 0)
            self.records += data
        self.end = len(batches)

    def begin_offsets(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 0)

    def end_offsets(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, self.end)

    def read(self, client: Any, partition: TopicPartition, start: int, end: int) -> Any:
        yield Fetched(memoryview(bytes(self.records)), self.end, (), self.end, 0)


def last(monkeypatch: pytest.MonkeyPatch, *batches: bytes) -> tuple[Any, int]:
    topic = Topic(*batches)
    monkeypatch.setattr(topic_progress, "read_range", topic.read)
    found, offset = topic_progress.last(topic, TOPIC, "mine")  # type: ignore[arg-type]
    return found and found["batchId"], offset


def test_the_last_committed_note_of_the_application_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    batches = [note("mine", 1, 5), marker(5), note("others", 9, 6), marker(6), note("mine", 2, 5), marker(5)]
    assert last(monkeypatch, *batches) == (2, 4)


def test_a_note_of_an_aborted_batch_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    batches = [note("mine", 1, 5), marker(5), note("mine", 2, 5), marker(5, commit=False), note("mine", 3, 5)]
    assert last(monkeypatch, *batches) == (1, 0)


def test_a_marker_that_compaction_has_emptied_decides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last batch of a segment stays without records: a day after the notes before it were superseded."""
    batches = [marker(6, is_emptied=True), note("mine", 2, 5), marker(5), marker(7, is_emptied=True)]
    assert last(monkeypatch, *batches) == (2, 1)


def test_the_topic_is_made_by_another_controller_where_the_first_one_is_none_any_more() -> None:
    """Else the first batch of a sink would ask the same broker until its time is over."""
    with ScriptedBroker() as before, ScriptedBroker() as after:
        controllers = [1, 1, 2]  # as metadata tells them, one after the other

        def metadata(request: Request, version: int) -> MetadataResponse:
            answer = before.metadata()
            answer.controller_id = controllers.pop(0) if len(controllers) > 1 else 2
            answer.brokers.append(MetadataResponseBroker(node_id=2, host="127.0.0.1", port=after.port))
            return answer

        def made(request: Request, version: int) -> CreateTopicsResponse:
            before.partitions[TOPIC] = [2]
            return CreateTopicsResponse(topics=[CreatableTopicResult(name=TOPIC)])

        refused = CreatableTopicResult(name=TOPIC, error_code=ErrorCode.NOT_CONTROLLER)
        before.answer(MetadataRequest, metadata)
        before.answer(CreateTopicsRequest, lambda *_: CreateTopicsResponse(topics=[refused]))
        after.answer(CreateTopicsRequest, made)
        with SyncClient(before.address, request_timeout_s=60) as client:
            assert topic_progress.ensure(client, TOPIC) == TOPIC_ID
