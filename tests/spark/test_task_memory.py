"""A task's memory follows from a slice, not from what a producer's compression makes of a few kilobytes."""

import json
import os
import subprocess
import sys
from typing import Any

import pyarrow as pa
import pytest

from odradek.model.ids import NO_TOPIC_ID
from odradek.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from odradek.protocol.messages.metadata import MetadataResponse
from odradek.protocol.schema import Request
from odradek.records.batch import BATCH_OVERHEAD, iter_batches, read_header
from odradek.records.builder import NewRecord, batch_bytes, build_batch
from odradek.records.compression import CODEC_NUMBERS, compress
from odradek.spark.slices import Limits
from tests.client.support import ScriptedBroker

MOST_BYTES = 150_000_000  # beside what it has imported
CODECS = ("gzip", "snappy", "lz4", "zstd")
LONG = 93_000


class WithoutTopicIds(ScriptedBroker):
    """So that a Fetch says by name which topic it means."""

    def metadata(self) -> MetadataResponse:
        answer = super().metadata()
        for topic in answer.topics:
            topic.topic_id = NO_TOPIC_ID
        return answer


def read_by_a_task(batches: dict[str, bytes], **environment: str) -> list[dict[str, Any]]:
    """What a process says that reads each of the batches, topic by topic, as tasks do."""

    def fetched(request: Request, version: int) -> FetchResponse:
        assert isinstance(request, FetchRequest)
        topic = request.topics[0]
        end = ends[topic.topic]
        data = PartitionData(high_watermark=end, last_stable_offset=end, records=batches[topic.topic])
        return FetchResponse(responses=[FetchableTopicResponse(topic=topic.topic, partitions=[data])])

    ends = {name: max(h.next_offset for _, h in iter_batches(batch)) for name, batch in batches.items()}
    with WithoutTopicIds() as broker:
        broker.partitions.update({name: [1] for name in batches})
        broker.answer(FetchRequest, fetched)
        command = [sys.executable, "-m", "tests.spark.task_memory", broker.address, json.dumps(ends)]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=120, check=False, env=os.environ | environment
        )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def compressed(batch: bytes, codec: str) -> bytes:
    number = CODEC_NUMBERS[codec]
    header = read_header(batch)
    return batch_bytes(
        header._replace(attributes=header.attributes | number), compress(number, batch[BATCH_OVERHEAD:])
    )


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    """The modules, of which some are imported as they are needed: a process that compiles them has up to 12 MB of that."""
    read_by_a_task({"values": build_batch([NewRecord(None, b"x" * LONG)] * 50, codec="gzip")})


def test_bombs_of_every_codec_are_read_whole_in_150_megabytes() -> None:
    """Kilobytes that are 149 MB of values, 300,000 empty records, or as many headers."""
    many = {
        "values": [NewRecord(None, b"x" * LONG)] * 1_600,
        "empty": [NewRecord(None, None)] * 300_000,
        "headers": [NewRecord(None, None, headers=[("h", b"")] * 50)] * 6_000,
    }
    plain = {what: build_batch(records) for what, records in many.items()}
    bombs = {f"{what}-{codec}": compressed(batch, codec) for codec in CODECS for what, batch in plain.items()}

    told = read_by_a_task(bombs)

    assert {line["topic"]: line["rows"] for line in told} == {
        f"{what}-{codec}": len(records) for codec in CODECS for what, records in many.items()
    }
    assert told[-1]["held_bytes"] <= MOST_BYTES, [line["held_bytes"] for line in told]


def test_a_record_is_read_up_to_a_bound_and_refused_beyond_it_by_name() -> None:
    most = Limits().record_bytes
    codecs = ("none", *CODECS)
    large = {
        codec: build_batch(
            [NewRecord(None, b"x" * (most - 100))] * (1 if codec == "none" else 3), codec=codec
        )
        for codec in codecs
    }
    larger = {
        f"larger-{codec}": build_batch([NewRecord(None, b"x"), NewRecord(None, b"x" * most)], codec=codec)
        for codec in codecs
    }

    told = read_by_a_task({**large, **larger})

    assert [line["rows"] for line in told[: len(codecs)]] == [1, 3, 3, 3, 3]
    for line in told[len(codecs) :]:
        assert line["refused"].startswith(
            f"{line['topic']}-0, offsets 0 to 2: the record at offset 1 has {most + 13} bytes; {most} is the most"
        )
        assert "maxRecordBytes" in line["refused"]
    assert told[-1]["held_bytes"] <= MOST_BYTES, [line["held_bytes"] for line in told]


@pytest.mark.skipif(
    int(pa.__version__.split(".")[0]) < 25, reason="the allocator of pyarrow before 25 gives freed pages back"
)
def test_what_a_task_has_freed_it_uses_again() -> None:
    """A new page costs as much as to decode thirty records of 100 bytes.

    What lies free for a second Arrow's allocator gives back all the same (`mi_option_purge_delay`), which a busy machine makes
    of six tasks: here it never does.
    """
    records = [NewRecord(None, b"x" * 100)] * 150
    batches = b"".join(build_batch(records, base_offset=150 * number) for number in range(500))

    *_, fourth, fifth, sixth = read_by_a_task(
        {f"topic-{number}": batches for number in range(6)}, MIMALLOC_PURGE_DELAY="-1"
    )

    assert sixth["rows"] == 75_000
    assert fourth["new_pages"] + fifth["new_pages"] + sixth["new_pages"] < 300
