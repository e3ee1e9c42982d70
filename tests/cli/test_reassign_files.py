"""The JSON of reassignments: Apache's in, Apache's out, and what is wrong with a bad one."""

import io
import json
from pathlib import Path

import pytest

from odradek.cli.output import Failed
from odradek.cli.reassign.files import proposal, read_proposal, read_topics, write_proposal
from odradek.model.ids import TopicPartition

TARGETS = {TopicPartition("b", 0): (3, 1), TopicPartition("a", 10): (2,)}
# As ReassignPartitionsCommand of Apache Kafka 3.9.1 prints its proposals.
APACHES = (
    '{"version":1,"partitions":[{"topic":"a","partition":10,"replicas":[2],"log_dirs":["any"]},'
    '{"topic":"b","partition":0,"replicas":[3,1],"log_dirs":["any","any"]}]}'
)


def test_it_is_written_as_apaches_tool_writes_it_and_read_back(tmp_path: Path) -> None:
    assert json.dumps(proposal(TARGETS), separators=(",", ":")) == APACHES
    file = tmp_path / "plan.json"
    write_proposal(file, TARGETS)
    assert read_proposal(file) == TARGETS
    file.write_text(APACHES)
    assert read_proposal(file) == TARGETS
    file.write_text('{"partitions":[{"topic":"a","partition":10,"replicas":[2]}]}')
    assert read_proposal(file) == {TopicPartition("a", 10): (2,)}, "version and log_dirs may be left out"


def test_log_directories_are_read_by_partition_and_broker(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text(entry(replicas=[3, 1], log_dirs=["any", "/b"]))
    directories: dict[tuple[TopicPartition, int], str] = {}
    assert read_proposal(file, directories) == {TopicPartition("a", 0): (3, 1)}
    assert directories == {(TopicPartition("a", 0), 1): "/b"}


def test_a_dash_is_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(APACHES.encode())))
    assert read_proposal(Path("-")) == TARGETS
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"nonsense")))
    with pytest.raises(Failed, match="standard input is not JSON"):
        read_proposal(Path("-"))


def entry(**changes: object) -> str:
    return json.dumps({"partitions": [{"topic": "a", "partition": 0, "replicas": [1], **changes}]})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is not JSON"),
        ('{"partitions":"\xe9"}', "is not JSON"),
        ("[" * 200_000, "is not JSON .nested too deeply.; expected"),
        ("[]", 'expected {"version":1,"partitions":'),
        ('{"partitions":{}}', 'expected {"version":1,"partitions":'),
        ('{"version":2,"partitions":[]}', "has version 2; only version 1 is known"),
        ('{"partitions":[]}', "moves nothing"),
        ('{"partitions":[1]}', r"partitions\[0\]: expected"),
        ('{"partitions":[{"topic":"a"}]}', r"partitions\[0\]: expected"),
        (entry(partition="0"), "a number from 0; found 'a', '0'"),
        (entry(partition=-1), "a number from 0"),
        (entry(partition=True), "a number from 0"),
        (entry(topic=""), "topic must be a name"),
        (entry(replicas=[]), "replicas must be broker ids"),
        (entry(replicas=["1"]), "replicas must be broker ids"),
        (entry(replicas=[1, 2**31]), r"replicas must be broker ids, .* found \[1, 2147483648\]"),
        (entry(partition=2**31), "a number from 0"),
        (entry(log_dirs=["any", "any"]), "as long as replicas"),
        (entry(log_dirs=["data"]), "an absolute path"),
        ('{"partitions":[' + ",".join(['{"topic":"a","partition":0,"replicas":[1]}'] * 2) + "]}", "a-0 stands there twice"),
    ],
)  # fmt: skip
def test_a_bad_file_is_one_sentence_with_the_place(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "plan.json"
    file.write_text(text, encoding="latin-1")
    with pytest.raises(Failed, match=words) as refused:
        read_proposal(file)
    assert str(refused.value).startswith(str(file)) and "\n" not in str(refused.value)


def test_topics_to_move_are_read_as_apaches_tool_takes_them(tmp_path: Path) -> None:
    file = tmp_path / "topics.json"
    file.write_text('{"topics": [{"topic": "foo"}, {"topic": "bar"}], "version":1}')
    assert read_topics(file) == ["foo", "bar"]
    file.write_text('{"topics": ["foo"]}')
    with pytest.raises(Failed, match=r'topics\[0\]: expected {"version":1,"topics":'):
        read_topics(file)
