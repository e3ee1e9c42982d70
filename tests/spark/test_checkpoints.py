"""A checkpoint of Spark's own connector tells where a job begins."""

import json
from pathlib import Path
from unittest.mock import Mock

import pytest

from odradek.model.errors import ConfigurationError
from odradek.model.ids import NO_TOPIC_ID, TopicId, topic_id_to_text
from odradek.spark.checkpoints import (
    ends_of_batch,
    may_have_batches,
    ranges_of_batch,
    starting_offsets,
    topic_ids_of_batch,
)

GOLDEN = Path(__file__).parents[1] / "golden" / "connector-checkpoint"
METADATA = (
    '{"batchWatermarkMs":0,"batchTimestampMs":1700000000000,"conf":{"spark.sql.shuffle.partitions":"2"}}'
)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """As Spark writes one: batches 0 to 10 are done, 11 was begun."""
    for batch in range(12):
        offsets = json.dumps({"orders": {"0": batch * 10, "1": batch}, "clicks": {"0": 7}})
        write(tmp_path, batch, offsets)
    for batch in range(11):
        (tmp_path / "commits").mkdir(exist_ok=True)
        (tmp_path / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')
    (tmp_path / "commits" / ".10.crc").write_bytes(b"crc")
    return tmp_path


def write(checkpoint: Path, batch: int, *sources: str, version: str = "v1") -> None:
    (checkpoint / "offsets").mkdir(exist_ok=True)
    (checkpoint / "offsets" / str(batch)).write_text("\n".join([version, METADATA, *sources]))


def test_the_last_batch_that_is_done_counts(checkpoint: Path) -> None:
    assert json.loads(starting_offsets(str(checkpoint), ["orders"])) == {"orders": {"0": 100, "1": 10}}


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_checkpoints_that_sparks_connector_has_written_are_read(version: str) -> None:
    """Spark 4.3 with its connector 4.2.0: batch 2 failed. v2 is what `spark.sql.streaming.offsetLog.formatVersion=2` makes."""
    recorded = str(GOLDEN / version)

    found = json.loads(starting_offsets(recorded, ["clicks", "orders"]))

    assert found == {"clicks": {"0": 4}, "orders": {"0": 12, "1": 5}}
    assert ranges_of_batch(recorded, 2) == [
        {("clicks", 0): (4, 6), ("orders", 0): (12, 18), ("orders", 1): (5, 8)}
    ]


def test_sources_that_have_names_are_told_apart_whatever_their_order(tmp_path: Path) -> None:
    lines = ['b:{"orders":{"0":7}}', 'a:{"orders":{"0":5}}', "c:-", 'd:{"logOffset":3}']
    for batch, sources in ((3, lines[1:]), (4, lines)):
        write(tmp_path, batch, *sources, version="v2")

    assert [one for one in ranges_of_batch(str(tmp_path), 4) if one] == [
        {("orders", 0): (5, 5)},
        {("orders", 0): (0, 7)},
    ]


def test_a_checkpoint_in_a_form_that_is_not_known_is_named(checkpoint: Path) -> None:
    write(checkpoint, 10, '{"orders":{"0":5}}', version="v3")

    with pytest.raises(ConfigurationError, match="offsets/10 is in the form 'v3', and v1 and v2 are known"):
        starting_offsets(str(checkpoint), ["orders"])


def test_sources_of_other_kinds_are_passed_over(checkpoint: Path) -> None:
    write(checkpoint, 10, '{"logOffset":3}', "17", "-", '{"orders":{"0":5}}', '{"clicks":{"0":6}}')

    assert json.loads(starting_offsets(str(checkpoint), ["clicks", "orders"])) == {
        "clicks": {"0": 6},
        "orders": {"0": 5},
    }


@pytest.mark.parametrize(
    "line",
    [
        '{"orders":{"0":"5"}}',
        '{"orders":{"0":5.5}}',
        '{"orders":{"0":true}}',
        '{"orders":{"shard-0":5}}',
        '{"orders":{"0":5},"version":1}',
        '{"orders":{"0":{"sequence":5}}}',
        '{"orders":{"offsets":5}}',
        '{"orders":{"offsets":null}}',
        '[{"orders":{"0":5}}]',
    ],
)
def test_what_only_looks_like_offsets_of_topics_is_of_another_source(checkpoint: Path, line: str) -> None:
    write(checkpoint, 10, line)

    with pytest.raises(ConfigurationError, match="batch 10 has no offsets of topics"):
        starting_offsets(str(checkpoint), ["orders"])
    ends = ends_of_batch(str(checkpoint), 10)
    write(checkpoint, 10, line + " ")
    assert "" != ends != ends_of_batch(str(checkpoint), 10)


def test_a_checkpoint_of_ours_is_read_as_well(checkpoint: Path) -> None:
    write(
        checkpoint,
        10,
        '{"orders": {"epochs": {"0": 4}, "id": "QCg8mRkXQhqbNVvHYBrTEQ", "offsets": {"0": 17}}}',
    )

    assert starting_offsets(str(checkpoint), ["orders"]) == '{"orders": {"0": 17}}'


def test_ids_of_topics_are_those_that_sources_have_noted(checkpoint: Path) -> None:
    ids = {"orders": "QCg8mRkXQhqbNVvHYBrTEQ", "old": topic_id_to_text(TopicId(NO_TOPIC_ID))}
    ours = {topic: {"id": topic_id, "offsets": {"0": 17}} for topic, topic_id in ids.items()}
    write(checkpoint, 10, json.dumps(ours), '{"orders": {"0": 5}, "clicks": {"0": 7}}', '{"logOffset": 3}')

    assert topic_ids_of_batch(str(checkpoint), 10) == {"orders": ids["orders"]}
    assert topic_ids_of_batch(str(checkpoint), 11) == {}
    assert topic_ids_of_batch(str(checkpoint), 12) == {}, "not planned yet, or in no directory that is here"
    assert topic_ids_of_batch("", 10) == {}


def test_ids_of_many_topics_cost_no_look_at_all_of_them_for_each(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def looks(topics: int) -> int:
        entries = {f"topic-{n}": {"id": "QCg8mRkXQhqbNVvHYBrTEQ", "offsets": {"0": n}} for n in range(topics)}
        write(checkpoint, 10, json.dumps(entries))
        with monkeypatch.context() as patch:
            patch.setattr(json, "loads", counting := Mock(wraps=json.loads))
            assert len(topic_ids_of_batch(str(checkpoint), 10)) == topics
        return counting.call_count

    assert looks(50) == looks(1)


def test_what_is_no_such_checkpoint(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    with pytest.raises(ConfigurationError, match="that query reads clicks, orders, not payments"):
        starting_offsets(str(checkpoint), ["orders", "payments"])
    with pytest.raises(ConfigurationError, match="there is no directory `offsets` in it"):
        starting_offsets(str(tmp_path_factory.mktemp("empty")), ["orders"])
    write(checkpoint, 10, '{"orders":{"0":5}}', '{"orders":{"0":6}}')
    with pytest.raises(ConfigurationError, match="several sources of that query read orders"):
        starting_offsets(str(checkpoint), ["orders"])
    write(checkpoint, 10, '{"logOffset":3}')
    with pytest.raises(ConfigurationError, match="batch 10 has no offsets of topics"):
        starting_offsets(str(checkpoint), ["orders"])
    (checkpoint / "offsets" / "10").unlink()
    with pytest.raises(ConfigurationError, match="No such file"):
        starting_offsets(str(checkpoint), ["orders"])
    for file in (checkpoint / "commits").iterdir():
        file.unlink()
    with pytest.raises(ConfigurationError, match="no batch is done"):
        starting_offsets(str(checkpoint), ["orders"])


@pytest.mark.parametrize("scheme", ["", "file:", "file://"])
def test_a_directory_without_a_batch_that_is_done_has_had_none(checkpoint: Path, scheme: str) -> None:
    place = f"{scheme}{checkpoint}"
    assert may_have_batches(place)
    for file in (checkpoint / "commits").iterdir():
        file.unlink()
    assert not may_have_batches(place)


@pytest.mark.parametrize("place", ["", "relative/checkpoint", "hdfs://host/checkpoint", "/not/mounted/here"])
def test_a_checkpoint_that_cannot_be_looked_at_may_have_batches(place: str) -> None:
    """An absolute path without a scheme is a place in whatever file system Spark has for its default."""
    assert may_have_batches(place)
