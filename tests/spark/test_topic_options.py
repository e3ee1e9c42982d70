"""The options of the sink into topics: what is meant is taken, and what cannot be meant is a sentence before Spark starts."""

import os
import tempfile
from pathlib import Path

import pytest

from odradek.model.errors import ConfigurationError
from odradek.spark.topic_options import TopicOptions, parse_topic_options


def parsed(directory: str, *, is_stream: bool = False, **more: str) -> TopicOptions:
    given = {"kafka.bootstrap.servers": "127.0.0.1:9092", "topic": "loud", "directory": directory}
    return parse_topic_options({**given, **more}, is_stream=is_stream)


@pytest.mark.parametrize(
    ("is_stream", "more", "why"),
    [
        (False, {"batchId": "7"}, "batchId is for batch writes with an appId: a stream counts"),
        (True, {"appId": "a", "batchId": "7"}, "batchId is for batch writes with an appId: a stream counts"),
        (False, {"appId": "a"}, "the option batchId is missing: its number"),
        (False, {"appId": "a", "batchId": "-1"}, "batchId='-1': expected a whole number"),
        (False, {"appId": "a", "batchId": "²"}, "batchId='²': expected a whole number"),
        (True, {}, "the option appId is missing: a name for this writer"),
        (False, {"kafka.acks": "1"}, "kafka.acks=1: a transaction needs all of them"),
        (False, {"kafka.compression.type": "brotli"}, "kafka.compression.type=brotli: there are none, gzip,"),
        (False, {"kafka.transaction.timeout.ms": "0"}, "expected a whole number above 0, up to 2147483647"),
        (False, {"kafka.security.protocol": "SSL"}, "only PLAINTEXT listeners are spoken to"),
        (False, {"topics": "loud"}, "there is no option topics; did you mean topic"),
        (False, {"subscribe": "loud"}, "there is no option subscribe"),
        (
            False,
            {"kafka.bootstrap.servers": ""},
            "kafka.bootstrap.servers is missing: the brokers as host:port",
        ),
        (False, {"directory": "s3://bucket/sink"}, "tasks append to files that the driver sends"),
        (True, {"appId": "a", "directory": ""}, "the option directory is missing: where tasks leave"),
        (
            True,
            {"appId": "a", "directory": "", "checkpointLocation": "s3://bucket/c"},
            "the option directory is missing: where tasks leave",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused(
    tmp_path: Path, is_stream: bool, more: dict[str, str], why: str
) -> None:
    with pytest.raises(ConfigurationError, match=why):
        parsed(is_stream=is_stream, **{"directory": str(tmp_path), **more})


def test_what_is_meant_is_taken_in_any_case_of_its_name(tmp_path: Path) -> None:
    given = {"appid": "a", "BATCHID": "7", "kafka.acks": "-1", "kafka.compression.type": "ZSTD"}
    found = parsed(str(tmp_path), **given)

    assert (found.app_id, found.batch_id, found.is_named, found.codec) == ("a", 7, True, "zstd")
    assert found.transactional_id == "odradek:a" and found.timeout_ms is None
    assert parsed(str(tmp_path), **{"kafka.acks": "all", "kafka.transaction.timeout.ms": "5"}).timeout_ms == 5


def test_a_batch_write_without_an_id_is_another_each_time(tmp_path: Path) -> None:
    first, second = parsed(str(tmp_path)), parsed(str(tmp_path))

    assert first.app_id != second.app_id and not first.is_named and first.batch_id == 0


@pytest.mark.parametrize("scheme", ["", "file:"])
def test_a_stream_stages_below_its_checkpoint_unless_another_directory_is_named(
    tmp_path: Path, scheme: str
) -> None:
    more = {"appId": "a", "checkpointLocation": f"{scheme}{tmp_path}"}

    below, named = (parsed(directory, is_stream=True, **more) for directory in ("", "/elsewhere"))

    assert (below.directory, below.checkpoint) == (str(tmp_path / "odradek-sink"), str(tmp_path))
    assert (named.directory, named.checkpoint) == ("/elsewhere", str(tmp_path))


def test_a_batch_write_stages_where_no_other_user_reads_or_it_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    own = tmp_path / f"odradek-sink-{os.getuid()}"

    assert [parsed("").directory for _ in range(2)] == [str(own)] * 2
    assert own.stat().st_mode & 0o777 == 0o700

    own.rmdir()
    own.symlink_to(tmp_path, target_is_directory=True)
    with pytest.raises(ConfigurationError, match="belongs to another process; name another with the option"):
        parsed("")
