"""`journal`: shown, played again, compared; and what is said when there is none."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from odradek.cli.journal.words import change_words, event_words, move_words, time_of_day
from odradek.controller.events import TellingsLost
from odradek.controller.journal import as_json
from odradek.model.facts import TopicAssignmentsChanged, UnreadableNode
from odradek.model.ids import BrokerEpoch, BrokerId
from odradek.pictures.figures import clock
from odradek.testing.running_cluster import running_cluster
from tests.cli.conftest import Shell
from tests.support import eventually


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Shell, Path, int]]:
    """An only replica dies, returns, and is moved away; (shell, the cluster's directory, the broker it was on)."""
    directory = tmp_path_factory.mktemp("story")
    with running_cluster(brokers=3, directory=directory) as cluster:
        shell = Shell(cluster.bootstrap)
        controller = shell.json("cluster", "health")["controller"]
        victim, target = [b for b in (1, 2, 3) if b != controller]
        shell.ok("topic", "create", "s3", "--assign", victim)
        cluster.kill(victim)
        eventually(lambda: shell("why", "s3")[0] == 1, what="it is offline")
        cluster.start(victim)
        eventually(lambda: shell("why", "s3")[0] == 0, what="it is back", deadline_s=60)
        plan = directory / "plan.json"
        move = {"topic": "s3", "partition": 0, "replicas": [target]}
        plan.write_text(json.dumps({"version": 1, "partitions": [move]}))
        shell.ok("reassign", "apply", plan, "--wait")
        yield shell, directory, victim


def test_what_changed_is_shown_with_its_reason(story: tuple[Shell, Path, int]) -> None:
    shell, directory, victim = story
    out = shell("journal", "show", directory, "--all", offline=True)[1]
    assert f"broker {victim} failed" in out and "reassignment complete" in out
    steps = shell.json("journal", "show", directory, "--topic", "s3", offline=True)["steps"]
    assert steps[0]["event"].startswith("broker ") and "is elected, epoch 1" in steps[0]["event"]
    about = {c["topic_partition"] or c["name"] for step in steps for c in step["changes"]}
    assert about == {"s3-0", "s3"}
    last = shell("journal", "show", directory, "--last", "2", offline=True)[1]
    assert "the last 2 of " in last
    newest = [
        c["reason"]
        for step in shell.json("journal", "show", directory, offline=True)["steps"]
        for c in step["changes"]
    ]
    shown = last.splitlines()[-2:]
    assert all(line.endswith(why) for line, why in zip(shown, newest[-2:], strict=True)), last
    code, _, err = shell("journal", "show", directory, "--since", "2100-01-01", offline=True)
    assert code == 1 and err.startswith("odradek: nothing happened then; the journal goes from ")


def test_a_partitions_time_line_has_its_outage_and_its_move(
    story: tuple[Shell, Path, int], tmp_path: Path
) -> None:
    shell, directory, victim = story
    svg, html = tmp_path / "line.svg", tmp_path / "line.html"
    found = shell.json("journal", "show", directory, "-p", "s3-0", "--svg", svg, "--html", html, offline=True)
    assert [moment["leader"] for moment in found["moments"]][:3] == [victim, -1, victim]
    (outage,) = found["outages"]
    assert outage["until_ms"] > outage["since_ms"] and outage["why"] == f"broker {victim} failed"
    (move,) = found["reassignments"]
    assert move["origin"] == [victim] and all(step["at_ms"] is not None for step in move["steps"])
    drawn = ElementTree.parse(svg).getroot()
    assert drawn.tag.endswith("svg")
    tips = [tip.text for tip in drawn.iter() if tip.tag.endswith("title")]
    assert any(f"broker {victim} failed" in (tip or "") for tip in tips)
    words = "".join(ElementTree.parse(html).getroot().itertext())
    assert "the removing replicas delete their data, and answer" in words and "Offline from " in words
    out = shell("journal", "show", directory, "-p", "s3-0", offline=True)[1]
    assert out.startswith("s3-0: broker ") and "offline from " in out and "reassignment " in out


def test_it_is_found_through_the_running_cluster(story: tuple[Shell, Path, int]) -> None:
    shell, _, _ = story
    code, out, err = shell("journal", "show", "-p", "s3-0")
    assert code == 0, err
    assert out.startswith("s3-0: broker ")


def test_played_again_it_says_the_same(story: tuple[Shell, Path, int]) -> None:
    shell, directory, victim = story
    code, out, _ = shell("journal", "replay", directory, offline=True)
    assert code == 0 and ": the same came out at every one." in out.splitlines()[0]
    whole = shell.json("journal", "replay", directory, offline=True)
    made = next(
        step["at_ms"]
        for step in shell.json("journal", "show", directory, "-t", "s3", offline=True)["steps"]
        if step["changes"]
    )
    then = shell.json("journal", "replay", directory, "--until", made, "--topic", "s3", offline=True)
    assert then["steps"] < whole["steps"]
    assert [p["leader"] for p in then["partitions"]] == [victim]
    code, _, err = shell("journal", "replay", directory, "--until", "1000", offline=True)
    assert code == 1 and err.startswith("odradek: nothing happened up to then")


def test_without_the_event_that_moved_it_the_partition_stays(story: tuple[Shell, Path, int]) -> None:
    shell, directory, victim = story
    steps = shell.json("journal", "show", directory, offline=True)["steps"]
    moved = next(step["line"] for step in steps if step["event"].startswith("reassign ") and step["writes"])
    code, out, _ = shell("journal", "diff", directory, "--drop-event", moved, offline=True)
    assert code == 1
    assert f"its replay without line {moved}" in out and "1 partition with another end" in out
    found = shell.json("journal", "diff", directory, "--drop-event", moved, offline=True)
    (end,) = found["partitions"]
    assert (end["partition"], end["second"]["leader"]) == ("s3-0", victim)
    assert found["first_difference"]["in_first"]["kind"] == "assignment"
    code, out, _ = shell("journal", "replay", directory, "--drop-event", moved, offline=True)
    assert code == 0 and "the first consequence is at line " in out


def test_with_another_setting_or_the_same_journal_nothing_differs_here(
    story: tuple[Shell, Path, int], tmp_path: Path
) -> None:
    shell, directory, _ = story
    args = ("journal", "diff", directory, "--set", "unclean.leader.election.enable=true")
    assert shell(*args, offline=True)[0] == 0, "one replica: there is no unclean choice"
    copy = tmp_path / "copy"
    for file in directory.glob("*/controller-*.jsonl"):
        copy.mkdir(exist_ok=True)
        shutil.copy(file, copy / file.name)
    code, out, _ = shell("journal", "diff", directory, copy, offline=True)
    assert code == 0 and out.startswith("No difference: ")


def test_another_version_of_the_decisions_is_told_as_a_difference(
    story: tuple[Shell, Path, int], tmp_path: Path
) -> None:
    shell, directory, _ = story
    (source,) = [f for f in directory.glob("*/controller-*.jsonl") if f.stat().st_size]
    file = tmp_path / source.name
    text = source.read_text()
    assert '"reassignment complete"' in text
    file.write_text(text.replace('"reassignment complete"', '"decided by somebody else"'))
    code, out, _ = shell("journal", "replay", file, offline=True)
    assert code == 1 and "the first difference is at line " in out and "what differs: changes" in out


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["show"], 2, "which journal?"),
        (["show", "/nowhere"], 1, "there is no /nowhere; name a journal"),
        (["show", "{dir}", "-p", "s3"], 2, "expected a partition, as in orders-0"),
        (["show", "{dir}", "-p", "s9-0"], 1, "the journal never heard of s9-0"),
        (["show", "{dir}", "--svg", "x.svg"], 2, "say which with --partition"),
        (["show", "{dir}", "--until", "soon"], 2, "expected a time as in"),
        (["replay", "{dir}", "--drop-event", "99999"], 1, "there is no line 99999; the journal has "),
        (["replay", "{dir}", "--set", "min.isr=2"], 2, "of a setting the controller reads; "),
        (["diff", "{dir}"], 2, "compare A with what?"),
    ],
)
def test_a_mistake_is_one_sentence(
    story: tuple[Shell, Path, int], arguments: list[str], code: int, words: str
) -> None:
    shell, directory, _ = story
    given = [text.replace("{dir}", str(directory)) for text in arguments]
    found, out, err = shell("journal", *given, offline=True)
    assert (found, out) == (code, "")
    assert words in err and err.count("\n") == 1


def test_the_answers_of_the_store_cannot_be_dropped_alone(story: tuple[Shell, Path, int]) -> None:
    shell, directory, _ = story
    history = [
        json.loads(line)
        for f in directory.glob("*/controller-*.jsonl")
        for line in f.read_text().splitlines()
    ]
    answered = next(n for n, line in enumerate(history) if line["event"]["type"] == "WritesAnswered")
    code, _, err = shell("journal", "replay", directory, "--drop-event", answered, offline=True)
    assert code == 1 and f"line {answered} is the store's answer to line {answered - 1}; drop that one" in err


def test_a_cut_last_line_is_left_out_and_a_broken_one_named(
    story: tuple[Shell, Path, int], tmp_path: Path
) -> None:
    shell, directory, _ = story
    (source,) = [f for f in directory.glob("*/controller-*.jsonl") if f.stat().st_size]
    whole = source.read_bytes()
    cut = tmp_path / "controller-1.jsonl"
    cut.write_bytes(whole[:-20])
    out = shell("journal", "replay", cut, offline=True)[1]
    assert "note: controller-1.jsonl: the last line is cut short and left out" in out
    lines = whole.splitlines(keepends=True)
    cut.write_bytes(
        b"".join([*lines[:3], lines[3][:-20], b"\n", *lines])
    )  # it was started again, and elected again
    code, out, err = shell("journal", "replay", cut, offline=True)
    assert (code, err) == (0, "")
    assert "note: controller-1.jsonl, line 4: cut short where its controller ended, and left out" in out
    line = json.loads(lines[3])
    for damaged in ({}, {**line, "writes": 5}, {**line, "changes": [7]}, {**line, "at_ms": 10**30}):
        cut.write_bytes(b"".join([*lines[:3], json.dumps(damaged).encode(), b"\n", *lines[4:]]))
        for verb in ("show", "replay"):
            code, _, err = shell("journal", verb, cut, offline=True)
            assert code == 1 and err.startswith(f"odradek: {cut}, line 4: not a line of a journal")
    cut.write_bytes(b"".join([lines[0].replace(b'"host":"', b'"host":1,"was":"'), *lines[1:]]))
    code, _, err = shell("journal", "replay", cut, offline=True)
    assert code == 1 and err == "odradek: line 0 of the journal: expected str, found 1\n"
    cut.write_bytes(b"".join(lines[5:]))
    code, _, err = shell("journal", "replay", cut, offline=True)
    assert code == 1 and "no election is recorded" in err


def test_a_cluster_that_is_not_ours_has_no_journal(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    from odradek.cli.config import resources as config_resources

    original = config_resources.describe
    monkeypatch.setattr(
        config_resources,
        "describe",
        lambda *a, **k: [e for e in original(*a, **k) if not e.name.startswith("odradek.")],
    )
    code, _, err = shell("journal", "show")
    assert code == 1 and "broker 1 is none of ours and keeps no journal" in err


def test_events_and_changes_have_words() -> None:
    assert event_words({"type": "BrokersChanged", "brokers": []}) == "brokers are none"
    assert event_words({"type": "LogDirFailed", "brokers": [1]}) == "log dir failed"
    unreadable = UnreadableNode("/brokers/topics/t", "not JSON", "t")
    assert event_words(as_json(TopicAssignmentsChanged((), (unreadable,)))) == "assignment of t written"
    targets = {"t-0": [1, 2], "t-1": None}
    assert event_words({"type": "AlterReassignmentsRequested", "targets": targets}) == (
        "reassign t-0 to 1,2, cancel t-1"
    )
    answered = {"type": "StopReplicaAnswered", "broker": 2, "error": "STALE_CONTROLLER_EPOCH"}
    assert event_words(answered) == "broker 2 answered StopReplica: STALE_CONTROLLER_EPOCH"
    lost = as_json(TellingsLost(BrokerId(2), BrokerEpoch(22)))
    assert event_words(lost) == "broker 2 answers again, after what it was to be told was given up"
    assert change_words({"topic_partition": "t-0", "replica": 2}) == "t-0/2"
    change = {"kind": "partition", "source": "OfflinePartition", "to": "OnlinePartition"}
    assert move_words(change) == "OfflinePartition -> OnlinePartition"
    assert move_words({**change, "kind": "failure"}) == "OfflinePartition -> OnlinePartition failed"
    assert move_words({**change, "kind": "failure", "to": "OfflinePartition"}) == "OfflinePartition stays"
    assert clock(1_767_225_600_123) == "2026-01-01 00:00:00.123"


def test_times_of_one_day_are_shown_without_their_date() -> None:
    midnight_ms = 1_699_920_000_000
    assert clock(midnight_ms) == "2023-11-14 00:00:00.000"
    of_a_day = time_of_day([midnight_ms, midnight_ms + 86_399_999])
    assert of_a_day(midnight_ms + 7) == "00:00:00.007"
    of_two = time_of_day([midnight_ms, midnight_ms - 1])
    assert of_two(midnight_ms - 1) == "2023-11-13 23:59:59.999"
    assert time_of_day([])(midnight_ms) == "00:00:00.000"
