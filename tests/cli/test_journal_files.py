"""Journals as files: what is read first, whose settings count, and what a comparison compares."""

import json
from pathlib import Path
from typing import Any

import pytest

from odradek.cli.journal.diff import Side, compare
from odradek.controller.context import ControllerSettings
from tests.advisor.test_replay import written_down
from tests.cli.test_sources import run
from tests.controller.world import World
from tests.support import each

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
