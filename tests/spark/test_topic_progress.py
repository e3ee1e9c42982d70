"""What an application has written into topics, found again in the topic of progress."""

from typing import Any

import pytest

from odradek.client.sync_fetch import Fetched
from odradek.model.ids import TopicPartition
from odradek.records.batch import NO_TIMESTAMP, read_header, stamp, stamp_producer
from odradek.records.builder import batch_bytes
from odradek.records.control import build_end_marker
from odradek.spark import topic_progress

TOPIC = "odradek-sinks"


def note(app_id: str, batch_id: int, producer_id: int) -> bytes:
    data = bytearray(topic_progress.record(app_id, {"batchId": batch_id}))
    stamp_producer(data, producer_id=producer_id, producer_epoch=0, base_sequence=0)
    return bytes(data)


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
