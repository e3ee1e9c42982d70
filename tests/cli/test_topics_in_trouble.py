"""`topic describe` and `topic delete` on a cluster in trouble: what its leaders do not tell is left out and said."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from odradek.cli import main
from odradek.cli.topic import offset_ranges as offset_ranges_module
from odradek.cli.topic.create import _hint
from odradek.cli.topic.produce import what_is_there
from odradek.client.partitioning import partition_of
from odradek.client.sync import LATEST, SyncClient
from odradek.client.sync_connection import ConnectionLost, DeadlineExceeded
from odradek.client.sync_records import records
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import OdradekError, ProtocolError
from odradek.model.ids import TopicPartition
from odradek.protocol.messages.describe_configs import DescribeConfigsRequest
from odradek.protocol.messages.list_offsets import ListOffsetsRequest
from tests.cli.conftest import Shell
from tests.cli.test_sources import view
from tests.support import each, eventually


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses take no time, so that patience is soon at its end; an answer may take as long as this machine needs."""
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr(offset_ranges_module, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=sleep))
    monkeypatch.setattr(offset_ranges_module, "PAUSE_S", 30.0)
    monkeypatch.setattr(offset_ranges_module.offset_ranges, "__kwdefaults__", {"patience_s": 60.0})


@pytest.fixture
def unsure(hasty: None, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Topics whose leaders have no high watermark to tell, as after an election below min.insync.replicas."""
    topics: set[str] = set()
    original = SyncClient.call

    def call(self: SyncClient, broker: int, request: Any, **options: Any) -> Any:
        answer = original(self, broker, request, **options)
        if isinstance(request, ListOffsetsRequest):
            for asked, told in zip(request.topics, answer.topics, strict=True):
                for wanted, row in zip(asked.partitions, told.partitions, strict=True):
                    if told.name in topics and wanted.timestamp == LATEST:
                        row.error_code, row.offset = ErrorCode.OFFSET_NOT_AVAILABLE, -1
        return answer

    monkeypatch.setattr(SyncClient, "call", call)
    return topics


def test_a_leader_without_a_high_watermark_keeps_nothing_from_being_described(
    shell: Shell, unsure: set[str]
) -> None:
    shell.ok("topic", "create", "sure", "-p", 1)
    shell.ok("topic", "create", "unsure", "--assign", "1,2")
    eventually(
        lambda: all(
            topic["partitions"][0]["high_watermark"] == 0
            for topic in shell.json("topic", "describe", "sure", "unsure")
        ),
        what="both leaders tell their offsets",
    )
    unsure.add("unsure")
    out = shell.ok("topic", "describe")
    assert "sure  id" in out and "unsure  id" in out
    (leader,) = {p["leader"] for p in shell.json("topic", "describe", "unsure")[0]["partitions"]}
    assert f"not known: offsets of unsure-0: broker {leader} says OFFSET_NOT_AVAILABLE\n" in out
    by_topic = {topic["topic"]: topic["partitions"][0] for topic in shell.json("topic", "describe")}
    assert (by_topic["sure"]["log_start_offset"], by_topic["sure"]["high_watermark"]) == (0, 0)
    assert (by_topic["unsure"]["log_start_offset"], by_topic["unsure"]["high_watermark"]) == (0, None)


def test_it_can_be_deleted_all_the_same(shell: Shell, unsure: set[str]) -> None:
    shell.ok("topic", "create", "unwanted")
    unsure.add("unwanted")
    assert shell.json("topic", "delete", "unwanted")["results"][0]["records"] is None
    assert "unknown  deleted" in shell.ok("topic", "delete", "unwanted", "--yes")


def test_a_silent_leader_and_a_setting_that_cannot_be_read_are_said(
    shell: Shell, hasty: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell.ok("topic", "create", "silent", "--assign", "1:1:1")
    original = SyncClient.call

    def call(self: SyncClient, broker: int, request: Any, **options: Any) -> Any:
        if isinstance(request, ListOffsetsRequest):
            raise DeadlineExceeded("broker 1 has not answered in time")
        answer = original(self, broker, request, **options)
        if isinstance(request, DescribeConfigsRequest):
            answer.results[0].error_code = ErrorCode.UNKNOWN_SERVER_ERROR
            answer.results[0].error_message = "its node is damaged"
        return answer

    monkeypatch.setattr(SyncClient, "call", call)
    lines = shell.ok("topic", "describe", "silent").splitlines()
    assert lines[0].endswith("settings unknown")
    assert lines[-2:] == [
        "not known: offsets of silent-0 and 2 more: broker 1 has not answered in time",
        "not known: settings of topic silent: UNKNOWN_SERVER_ERROR, its node is damaged",
    ]
    code, out, err = shell("topic", "describe", "silent", "--json")
    assert code == 0 and json.loads(out)[0]["config"] is None
    assert err == "".join(f"odradek: {line}\n" for line in lines[-2:])


def test_settings_of_all_topics_are_asked_for_at_once(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten thousand topics were ten thousand questions, one behind the other."""
    for name in ("one", "another"):
        shell.ok("topic", "create", f"at-once-{name}", "-p", 1, "-c", f"max.message.bytes={len(name)}000")
    original = SyncClient.call
    asked: list[int] = []
    keys: set[str] = set()

    def call(self: SyncClient, broker: int, request: Any, **options: Any) -> Any:
        if isinstance(request, DescribeConfigsRequest):
            keys.update(str(resource.configuration_keys) for resource in request.resources)
            asked.append(len(request.resources))
        return original(self, broker, request, **options)

    monkeypatch.setattr(SyncClient, "call", call)
    told = {row["topic"]: row["config"] for row in shell.json("topic", "describe")}
    assert asked == [len(told)]
    assert keys == {"None"}, "of every version that is all of them, an empty list only of newer ones"
    assert told["at-once-one"] == {"max.message.bytes": "3000"}
    assert told["at-once-another"] == {"max.message.bytes": "7000"}


def test_a_verb_without_a_standard_output_is_no_mistake_of_ours(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As after `>&-` in a shell."""
    monkeypatch.setattr("sys.stdout", None)
    code = main.main(["topic", "list", "--bootstrap", shell.bootstrap])
    monkeypatch.undo()
    assert (code, capsys.readouterr().err) == (0, "")


@each(
    (
        (ConnectionLost("gone"), "those of partition 1 may be there"),
        (ProtocolError(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND), "those of partition 1 may be there"),
        (ProtocolError(ErrorCode.MESSAGE_TOO_LARGE), "those of partition 1 are not there"),
        (DeadlineExceeded("no leader"), "those of partition 1 are not there"),
    )
)
def test_after_a_batch_that_was_not_acknowledged_it_is_said_what_is_there(
    error: OdradekError, of_its_own: str
) -> None:
    assert what_is_there(error, "orders", 0, 5, [1], 1) == (f"of lines 1 to 5 for orders {of_its_own}")
    assert what_is_there(error, "orders", 7, 9, [0, 1, 2, 3], 1) == (
        f"lines 1 to 7 are in orders; of lines 8 to 9 those of partition 0 are there, {of_its_own}, those of "
        "partitions 2, 3 are not there"
    )


def test_who_produces_to_a_leader_that_is_lost_is_told_what_is_there(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def produce(self: SyncClient, partition: TopicPartition, batch: bytes, **options: Any) -> int:
        if partition.partition == 1:
            raise ConnectionLost("the leader is gone")
        return really_produce(self, partition, batch, **options)

    shell.ok("topic", "create", "lost", "-p", 3)
    really_produce = SyncClient.produce
    monkeypatch.setattr(SyncClient, "produce", produce)
    lines = tmp_path / "lines"
    lines.write_text("".join(f"{number}:x\n" for number in range(30)))
    with open(lines) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        code, _, err = shell("topic", "produce", "lost", "-K", ":")
    assert (code, err) == (
        1,
        "odradek: the leader is gone; of lines 1 to 30 for lost those of partition 0 are there, those of "
        "partition 1 may be there, those of partition 2 are not there\n",
    )


@pytest.mark.parametrize(
    ("acks", "first", "others"),
    [
        ("1", "lines 1 to 2 are in {}", "are there"),
        ("0", "lines 1 to 2 were sent to {}, and nobody says whether they are there", "were sent"),
    ],
)
def test_what_nobody_acknowledges_is_not_said_to_be_there(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, acks: str, first: str, others: str
) -> None:
    def produce(self: SyncClient, partition: TopicPartition, batch: bytes, **options: Any) -> int:
        if partition.partition == 1:
            raise ConnectionLost("the leader is gone")
        return really_produce(self, partition, batch, **options)

    topic = f"acks-{acks}"
    shell.ok("topic", "create", topic, "-p", 2)
    really_produce = SyncClient.produce
    monkeypatch.setattr(SyncClient, "produce", produce)
    monkeypatch.setattr("odradek.cli.topic.produce.BATCH_RECORDS", 2)
    keys = {partition_of(key, 2): key.decode() for key in (b"a", b"b", b"c", b"d")}
    lines = tmp_path / "lines"
    for last, told in (
        (f"{keys[1]}:x", f"of lines 3 to 4 those of partition 0 {others}, those of partition 1 may be there"),
        ("without a key", "nothing behind"),
    ):
        lines.write_text("".join(f"{line}\n" for line in (*[f"{keys[0]}:x"] * 3, last)))
        with open(lines) as stdin:
            monkeypatch.setattr("sys.stdin", stdin)
            code, _, err = shell("topic", "produce", topic, "-K", ":", "--acks", acks)
        assert code == 1 and first.format(topic) in err and told in err


def test_lines_that_went_out_for_want_of_room_are_counted_among_those_that_are_there(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shell.ok("topic", "create", "room", "-p", 1)
    monkeypatch.setattr("odradek.cli.topic.produce.BATCH_BYTES", 10)
    lines = tmp_path / "lines"
    lines.write_text("first:1\nother:2\nwithout a key\n")
    with open(lines) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        code, _, err = shell("topic", "produce", "room", "-K", ":")
    # The second was waiting for a third.
    assert code == 1 and err.endswith("lines 1 to 1 are in room, and nothing behind\n")


def test_a_delimiter_is_written_as_in_a_format(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What `consume --format` writes is read back with the same words, and a backslash alone is one."""
    shell.ok("topic", "create", "delimited", "-p", 1)
    lines = tmp_path / "lines"
    for delimiter, written in ((r"\t", "\t"), (r"\x1f", "\x1f"), ("\\", "\\"), (r"\d", r"\d")):
        lines.write_text(f"k{written}v\n")
        with open(lines) as stdin:
            monkeypatch.setattr("sys.stdin", stdin)
            shell.ok("topic", "produce", "delimited", "-K", delimiter)
    where = TopicPartition("delimited", 0)
    with SyncClient(shell.bootstrap) as client:
        assert [(record.key, record.value) for record in records(client, where, 0, 4)] == [(b"k", b"v")] * 4


def test_a_topic_that_is_offline_is_listed_as_that(start_cluster: Callable[..., Any]) -> None:
    """With one replica in an ISR of one nothing is under-replicated, and nobody can read it."""
    cluster, shell = start_cluster(2)
    shell.ok("topic", "create", "alone", "--assign", "2")
    shell.ok("topic", "create", "pair", "--assign", "1,2")
    cluster.kill(2)
    eventually(
        lambda: (
            [(t["offline"], t["under_replicated"]) for t in shell.json("topic", "list")] == [(1, 0), (0, 1)]
        ),
        what="both are listed as they are",
    )
    assert shell.ok("topic", "list").splitlines()[1].split()[:5] == ["alone", "1", "1", "1", "0"]


def test_a_topic_of_the_brokers_is_not_made_by_hand_so_that_its_records_are_deleted(
    start_cluster: Callable[..., Any],
) -> None:
    """The brokers make it with cleanup.policy=compact. With `delete`, the default of a topic, commits are gone after a week."""
    _, shell = start_cluster(1)
    for name in ("__consumer_offsets", "__transaction_state"):
        create = ("topic", "create", name, "-p", "50", "-r", "1")
        assert shell(*create) == (
            2,
            "",
            f"odradek: {name}: brokers make it when it is needed, with settings that it needs; by hand add -c cleanup.policy=compact\n",
        )
        shell.ok(*create, "-c", "cleanup.policy=compact")


@pytest.mark.parametrize(
    ("lines", "options"),
    [
        (["x" * 499_000, "y" * 900_000], []),
        (["x"] * 5_000, ["-H", f"trace={'0' * 300}"]),
    ],
    ids=["a large line behind small ones", "headers"],
)
def test_records_that_fit_alone_are_not_refused_for_their_neighbours(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, lines: list[str], options: list[str]
) -> None:
    """A batch of more than `max.message.bytes` is refused whole."""
    topic = f"neighbours-{len(lines)}"
    shell.ok("topic", "create", topic, "-p", 1)
    file = tmp_path / "lines"
    file.write_text("".join(f"{line}\n" for line in lines))
    with open(file) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        code, _, err = shell("topic", "produce", topic, *options)
    assert (code, err) == (0, f"{len(lines)} records to 1 partition of {topic}\n")


def test_a_verb_without_a_standard_input_is_no_mistake_of_ours(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after `<&-` in a shell."""
    monkeypatch.setattr("sys.stdin", None)
    assert shell("topic", "produce", "orders") == (
        1,
        "",
        "odradek: standard input is closed, and records, a line each, would be read from there\n",
    )


def test_a_name_that_is_still_being_deleted_is_not_said_to_be_accepted() -> None:
    assert (
        _hint("Topic 't' is marked for deletion", "t") == "; its name is free when it is gone: odradek why t"
    )
    assert _hint("Topic 't' already exists", "t") == "; --if-not-exists accepts it"


@pytest.mark.parametrize(
    ("setting", "is_one_too_large"),
    [("max.message.bytes=2000", False), ("max.message.bytes=2000", True), ("segment.bytes=3000", False)],
)
def test_records_that_fit_alone_are_sent_to_a_topic_that_takes_little_at_once(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, setting: str, is_one_too_large: bool
) -> None:
    """Of a topic with small batches none was taken, and nothing could be done about it. Java's clients send halves, too."""
    topic = f"little-{setting.partition('=')[0]}-{is_one_too_large}"
    shell.ok("topic", "create", topic, "-p", 1, "-c", setting)
    lines = [f"{number} {'x' * 100}" for number in range(1_000)]
    if is_one_too_large:
        lines[700] = "y" * 3000
    file = tmp_path / "lines"
    file.write_text("".join(f"{line}\n" for line in lines))
    with open(file) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        code, _, err = shell("topic", "produce", topic)
    where = TopicPartition(topic, 0)
    with SyncClient(shell.bootstrap) as client:
        found = records(client, where, 0, client.end_offsets([where])[where])
        there = [record.value.decode() for record in found if record.value is not None]
    assert there == lines[: 700 if is_one_too_large else None]
    if is_one_too_large:
        assert code == 1 and "MESSAGE_TOO_LARGE" in err
        assert err.endswith(
            f"of lines 1 to 1000 for {topic} the first 700 of those of partition 0 are there, and the others are not\n"
        )
    else:
        assert (code, err) == (0, f"1000 records to 1 partition of {topic}\n")


def test_a_silent_leader_leaves_the_others_time_to_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one took all of it, and those that are only slow were not known either."""
    now_s = 0.0

    def call(_: object, broker: int, request: ListOffsetsRequest, deadline: float, *__: object) -> Any:
        nonlocal now_s
        timeout_s = deadline - now_s
        needs_s = timeout_s if broker == 1 else 0.2
        now_s += min(needs_s, timeout_s)
        if broker == 1 or needs_s > timeout_s:
            raise ConnectionLost("no answer in time") from TimeoutError()
        rows = [
            SimpleNamespace(partition_index=p.partition_index, error_code=0, offset=broker)
            for p in request.topics[0].partitions
        ]
        return SimpleNamespace(topics=[SimpleNamespace(name="t", partitions=rows)])

    def sleep(seconds: float) -> None:
        nonlocal now_s
        now_s += seconds

    clock = SimpleNamespace(monotonic=lambda: now_s, sleep=sleep)
    monkeypatch.setattr(offset_ranges_module, "time", clock)
    monkeypatch.setattr("odradek.client.sync.time", clock)
    seen = view([1, 2, 3], t=[([1], [1]), ([2], [2]), ([3], [3])])
    monkeypatch.setattr(SyncClient, "_call", call)
    monkeypatch.setattr(SyncClient, "cluster", lambda *_: seen)
    every = [TopicPartition("t", p) for p in range(3)]
    with SyncClient("h:1") as client:
        found = offset_ranges_module.offset_ranges(client, seen, every, patience_s=2.0)
    assert found.ends == {TopicPartition("t", 1): 2, TopicPartition("t", 2): 3}
    assert set(found.problems) == {TopicPartition("t", 0)}
    assert now_s < 2.5
