"""Journals as files: what is read first, whose settings count, and what a comparison compares."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from odradek.cli.journal import files
from odradek.cli.journal.diff import Side, compare
from odradek.controller.context import ControllerSettings
from tests.advisor.test_replay import written_down
from tests.cli.test_sources import run
from tests.controller.world import World
from tests.support import each, without_assertions

UNCLEAN = "unclean.leader.election.enable"
LATER_MS = 60_000


def outage(settings: ControllerSettings) -> list[dict[str, Any]]:
    """The lines of a controller: the ISR of t-0 dies with broker 2, and broker 3 has a replica."""
    world = World(settings).brokers(1, 2, 3)
    lines = written_down(world)
    world.elect(1)
    world.create("t", [2, 3])
    world.alter("t-0", [2])
    world.now_ms += LATER_MS
    world.kill(2)
    return [{"controller": 1, "epoch": 1, **line} for line in lines]


def text(lines: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(line) + "\n" for line in lines)


def test_a_journal_that_was_put_aside_is_read_before_the_one_that_goes_on(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    lines = outage(ControllerSettings())
    file = tmp_path / "controller-1.jsonl"
    file.with_name("controller-1.jsonl.1").write_text(text(lines[:3]))
    file.write_text(text(lines[3:]))
    code, out, _ = run(capsys, "journal", "replay", file, "--json")
    found = json.loads(out)
    assert (code, found["steps"], found["notes"]) == (0, len(lines), [])


def test_a_journal_that_is_put_aside_while_it_is_read_is_read_whole(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What stood in it then was in the file that was passed already, and in no other."""
    lines = outage(ControllerSettings())
    file = tmp_path / "controller-1.jsonl"
    aside = file.with_name("controller-1.jsonl.1")
    file.write_text(text(lines[:4]))
    turns: list[Path] = []
    original = Path.open

    def opened(self: Path, *arguments: Any, **options: Any) -> Any:
        if self == file and not turns:
            turns.append(file)
            file.rename(aside)
            with original(file, "w") as fresh:
                fresh.write(text(lines[4:]))
        return original(self, *arguments, **options)

    monkeypatch.setattr(Path, "open", opened)
    code, out, _ = run(capsys, "journal", "replay", file, "--json")
    found = json.loads(out)
    assert (code, found["steps"], found["notes"]) == (0, len(lines), [])


def test_a_journal_that_was_put_aside_counts_where_none_is_read_that_takes_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`why` read a quarter of a gigabyte on the way, behind a file that had just been begun."""
    file = tmp_path / "controller-1.jsonl"
    file.write_text(text(outage(ControllerSettings())))
    monkeypatch.setattr("odradek.client.sync.SyncClient.cluster", lambda *_: None)
    monkeypatch.setattr(files, "local_journals", lambda *_: ([file], []))
    assert files.local_history("127.0.0.1:1") is not None
    with file.with_name("controller-1.jsonl.1").open("wb") as aside:
        aside.truncate(files.LARGEST_READ_UNASKED)  # a hole
    with pytest.raises(files.TooLarge) as refused:
        files.local_history("127.0.0.1:1")
    assert str(refused.value).endswith(
        f"not read unasked; --journal reads them, of {shlex.quote(str(tmp_path))}"
    )


def test_a_journal_is_played_again_with_the_settings_of_its_broker(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """`odradek up` keeps the properties beside the log directory. With --set the first step that differs is what was asked
    for: exit code 0."""
    lines = outage(ControllerSettings(unclean_leader_election_enable=True))
    file = tmp_path / "broker-1" / "data" / "controller-1.jsonl"
    file.parent.mkdir(parents=True)
    file.write_text(text(lines))
    code, out, _ = run(capsys, "journal", "replay", file)
    assert code == 1 and "the first difference is at line " in out
    (tmp_path / "broker-1" / "server.properties").write_text(f"{UNCLEAN}=true\nlog.dirs=data\n")
    code, out, _ = run(capsys, "journal", "replay", file, "--json")
    assert (code, json.loads(out)["partitions"][0]["leader"]) == (0, 3)
    code, out, _ = run(capsys, "journal", "replay", file, "--set", f"{UNCLEAN}=false")
    assert code == 0 and "the first consequence is at line " in out


def test_properties_that_lead_to_a_journal_have_its_settings(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A service's file is not beside its log directory. Without it the defaults are taken, which is said: with another
    min.insync.replicas verdicts are others."""
    lines = outage(ControllerSettings(unclean_leader_election_enable=True))
    file = tmp_path / "data" / "controller-1.jsonl"
    file.parent.mkdir()
    file.write_text(text(lines))
    properties = tmp_path / "etc" / "b.properties"
    properties.parent.mkdir()
    properties.write_text(f"broker.id=1\n{UNCLEAN}=true\nlog.dirs={file.parent}\n")
    code, out, _ = run(capsys, "journal", "replay", properties, "--json")
    assert (code, json.loads(out)["partitions"][0]["leader"]) == (0, 3)
    unknown = []
    for place in (properties, file.parent):
        code, out, _ = run(capsys, "what-if", "--kill", 3, "--journal", place, "--json")
        unknown.append(json.loads(out)["unknown"])
    assert unknown == [
        [],
        ["the settings of the controller: defaults are taken; --journal with its server.properties has them"],
    ]


ELECTED, DIED = 0, -2  # lines of `outage`


def damage(lines: list[dict[str, Any]], number: int, path: str, value: object) -> None:
    """`path` leads to a field of a line; GONE: it is not there."""
    *way, last = path.split(".")
    place: Any = lines[number]
    for step in way:
        place = place[int(step)] if isinstance(place, list) else place[step]
    if value is GONE:
        del place[last]
    else:
        place[last] = value


GONE = object()
DAMAGED = {
    "a change has no name": (-1, "changes.0.name", GONE, "StateChange: it names no name"),
    "its reason is a number": (-1, "changes.0.reason", 5, "expected str, found 5"),
    "an event has lost a field": (DIED, "event.brokers", GONE, "BrokersChanged: "),
    "brokers are a number": (DIED, "event.brokers", 7, "BrokersChanged cannot be understood"),
    "nobody is elected": (ELECTED, "event.broker", GONE, "Elected: "),
    "the states are a list": (ELECTED, "event.snapshot.states", [1], "Elected cannot be understood"),
    "the answers are no records": (-1, "event.answers", [3], "expected Stored, found 3"),
}


@pytest.mark.parametrize("why", DAMAGED)
def test_a_line_that_no_controller_would_write_is_named_by_every_verb(
    why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    number, path, value, words = DAMAGED[why]
    lines = outage(ControllerSettings())
    place = len(lines) + number if number < 0 else number
    file, good = tmp_path / "controller-1.jsonl", tmp_path / "good.jsonl"
    good.write_text(text(lines), encoding="utf-8")
    damage(lines, number, path, value)
    file.write_text(text(lines), encoding="utf-8")
    refused = 0
    for arguments in (
        ("show", file, "--all"),
        ("show", file, "--partition", "t-0"),
        ("replay", file),
        ("diff", file, good),
        ("diff", good, file),
        ("diff", file, "--set", f"{UNCLEAN}=true"),
    ):
        code, _, err = run(capsys, "journal", *arguments)
        assert "mistake of ours" not in err, (arguments, err)
        if err:
            assert code == 1 and f"line {place} of the journal: " in err and words in err, (arguments, err)
            refused += 1
    assert refused, "somebody reads it"


def test_what_fails_with_a_journal_that_is_right_is_our_own_mistake(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "controller-1.jsonl"
    file.write_text(text(outage(ControllerSettings())), encoding="utf-8")

    def fails(*arguments: object) -> str:
        raise KeyError("topic_partition")

    monkeypatch.setattr("odradek.cli.journal.show.change_words", fails)
    code, _, err = run(capsys, "journal", "show", file)
    assert code == 1 and "KeyError: 'topic_partition' (a mistake of ours" in err


def test_what_came_after_the_end_of_a_comparison_is_no_difference(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    lines = outage(ControllerSettings())
    end_ms = lines[-1]["at_ms"] - LATER_MS
    shorter = [line for line in lines if line["at_ms"] <= end_ms]
    for name, kept in (("whole", lines), ("shorter", shorter)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "controller-1.jsonl").write_text(text(kept))
    pair = (tmp_path / "whole", tmp_path / "shorter")
    code, out, _ = run(capsys, "journal", "diff", *pair)
    assert code == 1 and "nothing any more" in out
    for both in (pair, pair[::-1]):
        code, out, _ = run(capsys, "journal", "diff", *both, "--until", end_ms)
        assert code == 0 and out.startswith("No difference: "), out


CHANGE = {
    "kind": "replica",
    "topic_partition": "t-0",
    "replica": 2,
    "name": None,
    "source": "OnlineReplica",
    "to": "OfflineReplica",
    "leader_and_isr": {"leader": 1},
    "at_ms": 1,
    "reason": "broker 2 failed",
}


@each(sorted(CHANGE))
def test_two_changes_are_the_same_when_they_say_the_same_about_the_same(field: str) -> None:
    """When it was, and in whose words, does not count."""
    one = Side("A", [CHANGE], None)
    other = Side("B", [{**CHANGE, field: "another"}], None)
    assert compare(one, other)["same"] == (field in ("at_ms", "reason"))


@pytest.mark.parametrize("how", ["the store answered later", "a clock was behind"])
def test_nothing_differs_up_to_a_time_at_which_nothing_differs(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, how: str
) -> None:
    """What was recorded up to then is what is played again up to then: whole steps, and none behind the first that is later."""
    lines = outage(ControllerSettings())
    number = next(n for n, line in enumerate(lines) if line["event"]["type"] == "WritesAnswered")
    until = lines[number]["at_ms"]
    if how == "the store answered later":
        lines[number]["at_ms"] = until + 5
    else:
        for line in lines[number + 1 :]:
            line["at_ms"] = until
        lines[number + 1]["at_ms"] = until + 5
    file = tmp_path / "controller-1.jsonl"
    file.write_text(text(lines))
    code, out, _ = run(
        capsys, "journal", "diff", file, "--set", f"{UNCLEAN}=false", "--until", until, "--json"
    )
    assert (code, json.loads(out)["first_difference"]) == (0, None)


def test_an_outage_that_had_begun_before_belongs_to_what_is_shown(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    world = World().brokers(1, 2, 3)
    lines = written_down(world)
    world.elect(1)
    world.create("t", [2, 3])
    world.alter("t-0", [2])
    for happens in (world.kill, world.start):
        world.now_ms += LATER_MS
        happens(2)
    kept = [{"controller": 1, "epoch": 1, **line} for line in lines]
    (tmp_path / "controller-1.jsonl").write_text(text(kept))
    died_ms, came_ms = kept[-1]["at_ms"] - LATER_MS, kept[-1]["at_ms"]
    show = ("journal", "show", tmp_path, "--partition", "t-0", "--json")
    for since_ms, dark in ((died_ms + 1, [(died_ms, came_ms)]), (came_ms, [])):
        code, out, _ = run(capsys, *show, "--since", since_ms)
        found = [(o["since_ms"], o["until_ms"]) for o in json.loads(out)["outages"]]
        assert (code, found) == (0, dark), since_ms


@pytest.mark.parametrize(
    ("places", "told"),
    [
        (("1", "2/log"), "--journal reads them, of {}"),
        (("1/a/b", "2"), "--journal reads those of one directory: {1} or {2}"),
    ],
)
def test_where_journals_in_several_directories_are_not_read_what_is_named_can_be_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, places: tuple[str, ...], told: str
) -> None:
    """--journal takes one place: three behind it were refused as arguments too many."""
    found = [tmp_path / place / f"controller-{number}.jsonl" for number, place in enumerate(places, 1)]
    for file in found:
        file.parent.mkdir(parents=True)
        file.write_text("{}\n")
    monkeypatch.setattr("odradek.client.sync.SyncClient.cluster", lambda *_: None)
    monkeypatch.setattr(files, "local_journals", lambda *_: (found, []))
    with pytest.raises(files.TooLarge) as refused:
        files.local_history("127.0.0.1:1", None, 1)
    named = [shlex.quote(str(place)) for place in (tmp_path, *(file.parent for file in found))]
    assert str(refused.value).endswith(f"not read unasked; {told.format(*named)}")
    if " or " not in told:
        assert files.journal_files(tmp_path) == found


@each(
    [
        b"7",
        b"{}",
        b'{"event":5,"epoch":1,"at_ms":0}',
        b'{"event":{},"epoch":1,"at_ms":-1}',
        b'{"event":{},"epoch":1,"at_ms":0,"writes":5}',
    ]
)
def test_what_is_no_line_is_none_without_assertions_too(text: bytes) -> None:
    assert not files.is_a_line(text)
    optimized = without_assertions(files)
    assert not optimized.is_a_line(text) and optimized.is_a_line(b'{"event":{},"epoch":1,"at_ms":0}')
