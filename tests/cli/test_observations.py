"""A journal of any cluster, kept by looking at it."""

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from odradek.advisor.timeline import outages, timeline
from odradek.cli import main, sources
from odradek.cli.observations import first_line, is_observed, lines_between, snapshot_at
from odradek.model.cluster import ReplicaAssignment
from odradek.model.facts import MetadataLoaded, TopicAssignment
from odradek.model.ids import BrokerId, TopicPartition
from odradek.model.values import replace
from tests.cli.conftest import Shell
from tests.controller.world import registration, state, topic_id_of, tp
from tests.support import eventually


def topic(name: str, *replicas: int, adding: tuple[int, ...] = ()) -> TopicAssignment:
    ids = tuple(BrokerId(b) for b in replicas)
    node = ReplicaAssignment(ids, tuple(BrokerId(b) for b in adding))
    return TopicAssignment(name, topic_id_of(name), {0: node})


def seen(*brokers: int, **leaders: tuple[int, list[int]]) -> MetadataLoaded:
    """Topics of one partition, each with its leader and ISR."""
    return MetadataLoaded(
        brokers=tuple(registration(b, 0) for b in brokers),
        topics=tuple(topic(name, 2, 1) for name in sorted(leaders)),
        states={tp(f"{name}-0"): state(leader, isr) for name, (leader, isr) in sorted(leaders.items())},
    )


LOOKS = [
    seen(1, 2, t=(2, [2, 1])),
    seen(1, 2, t=(2, [2, 1])),
    seen(1, t=(1, [1]), u=(1, [1])),
    seen(t=(-1, [1]), u=(-1, [1])),
    seen(1, t=(1, [1])),
]


def journal(looks: list[MetadataLoaded]) -> list[dict[str, Any]]:
    """Through text, as a file holds it; a second between two looks."""
    lines = [first_line(looks[0], 1, 1000)]
    for number, (before, after) in enumerate(pairwise(looks), start=2):
        lines += lines_between(before, after, 1, number * 1000)
    return [json.loads(json.dumps(line)) for line in lines]


def test_nothing_new_is_no_line_and_every_change_has_one_of_its_kind() -> None:
    lines = journal(LOOKS)
    assert is_observed(lines)
    assert [(line["at_ms"], line["event"]["type"]) for line in lines] == [
        (1000, "Elected"),
        (3000, "BrokersChanged"),
        (3000, "TopicsChanged"),
        (3000, "PartitionStatesLoaded"),
        (4000, "BrokersChanged"),
        (4000, "PartitionStatesLoaded"),
        (5000, "BrokersChanged"),
        (5000, "TopicsChanged"),
        (5000, "PartitionStatesLoaded"),
    ]
    words = [
        change["reason"] for line in lines for change in line["changes"] if change["kind"] == "partition"
    ]
    assert words[0] == "leader 2 -> 1, ISR 2,1 -> 1, seen in Metadata"
    assert words[1] == "leader 1 -> none, ISR 1 -> 1, seen in Metadata"


def test_any_moment_is_given_back_as_it_was_seen() -> None:
    lines = journal(LOOKS)
    assert snapshot_at(lines, 999) is None
    for number, look in enumerate(LOOKS, start=1):
        assert snapshot_at(lines, number * 1000 + 500) == replace(look, topics=tuple(look.topics)), number
    assert snapshot_at(lines, None) == LOOKS[-1]


def test_the_controller_is_that_of_the_moment_whatever_a_clock_did_later(tmp_path: Path) -> None:
    """The machine that recorded was set back: a line behind the moment has an earlier time than it."""
    lines = journal(LOOKS[1:3])
    begin, *changes = lines
    for line, (at_ms, controller) in zip(changes, ((5000, 1), (1500, -1), (1500, -1)), strict=True):
        line |= {"at_ms": at_ms, "controller": controller}
    begin["controller"] = 2
    file = tmp_path / "recorded.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = sources.from_journal(file, "2000")
    assert (found.snapshot, found.controller) == (LOOKS[1], 2)
    assert not found.knows_eligible, "it is made of answers to Metadata"


def test_a_move_is_seen_by_its_assignment() -> None:
    before = seen(1, 2, t=(1, [1]))
    before = replace(before, topics=(topic("t", 1),))
    after = replace(before, topics=(topic("t", 2, 1, adding=(2,)),))
    lines = journal([before, after])
    (change,) = lines[1]["changes"]
    assert (change["source"], change["to"], change["name"]) == ("[1]", "[2,1] adding [2]", "t-0")
    assert snapshot_at(lines, None) == after


def test_one_look_is_one_row_of_the_time_line() -> None:
    moments = timeline(journal(LOOKS), tp("t-0"))
    assert [(m.at_ms, m.leader, m.is_offline) for m in moments] == [
        (1000, 2, False),
        (3000, 1, False),
        (4000, -1, True),
        (5000, 1, False),
    ]
    (outage,) = outages(moments)
    assert (outage.since_ms, outage.until_ms) == (4000, 5000)
    assert timeline(journal(LOOKS), tp("u-0"))[0].leader == 1, "a topic made later is known from then on"


def test_a_topic_that_was_made_again_between_two_looks_is_another_one() -> None:
    """Its partitions may stand as those of the old one did: the id alone tells."""
    before = seen(1, 2, t=(2, [2, 1]), u=(2, [2, 1]))
    old, other = before.topics
    more = {TopicPartition("t", 1): state(2, [2, 1])}
    before = replace(
        before,
        topics=(replace(old, partitions={0: old.partitions[0], 1: old.partitions[0]}), other),
        states={**before.states, **more},
    )
    after = seen(1, 2, t=(2, [2, 1]), u=(2, [2, 1]))
    after = replace(after, topics=(replace(old, topic_id=topic_id_of("t", 1)), other))
    lines = journal([before, after])
    assert [line["event"]["type"] for line in lines] == ["Elected", "TopicsChanged"]
    assert [(change["name"], change["source"], change["to"]) for change in lines[1]["changes"]] == [
        ("t", "there", "gone"),
        ("t", "absent", "1 partitions"),
    ]
    assert snapshot_at(lines, None) == after
    unnamed = replace(before, topics=tuple(replace(topic, topic_id=None) for topic in before.topics))
    assert journal([before, unnamed, before])[1:] == [], "who does not tell ids says nothing of that"


def test_the_first_look_is_one_row_as_well() -> None:
    """Where another look was at the same millisecond."""
    lines = [first_line(LOOKS[0], 1, 1000), *lines_between(LOOKS[0], LOOKS[2], 1, 1000)]
    lines = [json.loads(json.dumps(line)) for line in lines]
    assert [(m.at_ms, m.leader, m.isr, m.live) for m in timeline(lines, tp("t-0"))] == [(1000, 1, (1,), (1,))]


def test_a_cluster_is_recorded_shown_and_asked_about_its_past(
    start_cluster: Callable[..., tuple[Any, Shell]], tmp_path: Path
) -> None:
    cluster, shell = start_cluster(3)
    file = tmp_path / "looks.jsonl"
    controller = shell.json("cluster", "health")["controller"]
    victim = next(b for b in (1, 2, 3) if b != controller)
    shell.ok("topic", "create", "s3", "--assign", victim)
    found = shell.json("journal", "record", file, "--looks", 3, "--every", 0.05)
    assert found == {"file": str(file), "looks": 3, "changes": 0}
    well = json.loads(file.read_text().splitlines()[-1])["at_ms"]
    cluster.kill(victim)
    eventually(lambda: shell("why", "s3")[0] == 1, what="it is offline")
    assert shell.ok("journal", "record", file, "--looks", 1).startswith("0 changes in 1 look in ")
    moments = shell.json("journal", "show", file, "-p", "s3-0", offline=True)["moments"]
    assert [(m["leader"], m["offline"]) for m in moments] == [(victim, False), (-1, True)]
    assert shell("why", "s3-0", "--journal", file, "--at", well, offline=True)[0] == 0
    code, out, _ = shell("why", "s3-0", "--journal", file, offline=True)
    assert code == 1 and f"start broker {victim}: then {victim} leads" in out
    assert "not known: what happened between two polls" in out
    for verb in (["replay", file], ["diff", file, file]):
        code, _, err = shell("journal", *verb, offline=True)
        assert code == 1 and "there is nothing to play again" in err


def test_a_record_goes_on_behind_a_line_that_was_cut_short_and_under_another_controller(
    start_cluster: Callable[..., tuple[Any, Shell]], tmp_path: Path
) -> None:
    """It was killed within a line, and the cluster failed over before it was started again."""
    cluster, shell = start_cluster(3)
    file = tmp_path / "looks.jsonl"
    shell.ok("topic", "create", "t", "--assign", "1,2,3")
    shell.ok("journal", "record", file, "--looks", 1)
    controller = shell.json("cluster", "health")["controller"]
    with file.open("ab") as out:
        out.write(b'{"at_ms":17')
    cluster.kill(controller)
    eventually(
        lambda: shell.json("cluster", "health")["controller"] not in (controller, None, -1),
        what="another broker is controller",
    )
    shell.ok("journal", "record", file, "--looks", 1)
    code, out, err = shell("journal", "show", file, "-p", "t-0", offline=True)
    assert (code, err) == (0, "")
    assert "note: looks.jsonl, line 2: cut short where its controller ended, and left out" in out


def test_recording_goes_on_behind_a_line_that_was_cut_short_and_not_behind_what_is_no_journal(
    start_cluster: Callable[..., tuple[Any, Shell]], tmp_path: Path
) -> None:
    _, shell = start_cluster(1)
    file = tmp_path / "looks.jsonl"
    shell.ok("journal", "record", file, "--looks", 1)
    whole = file.read_bytes()
    file.write_bytes(whole + whole[: len(whole) // 2])  # a full disk, or a kill
    shell.ok("journal", "record", file, "--looks", 1)
    code, out, _ = shell("journal", "show", file, offline=True)
    assert code == 0 and out.startswith("2 steps from "), out

    letter = tmp_path / "letter.txt"
    letter.write_text("not yours\n")
    code, out, err = shell("journal", "record", letter, "--looks", 1)
    assert (code, out) == (1, "") and "name a new file" in err
    assert letter.read_text() == "not yours\n"


@pytest.mark.parametrize("every", ["nan", "inf", "0"])
def test_a_pause_that_is_no_time_is_refused(every: str, tmp_path: Path) -> None:
    code, out, err = Shell("127.0.0.1:1")("journal", "record", tmp_path / "looks.jsonl", "--every", every)
    assert (code, out) == (2, "") and "--every" in err


def test_a_topic_that_is_not_answered_is_said_once_and_recorded_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, note = seen(1, 2, t=(2, [2, 1])), "topic t is taken as it was: LEADER_NOT_AVAILABLE"
    looks = iter([(), (note,), (note,), (), (note,)])
    monkeypatch.setattr(
        sources,
        "refreshed_source",
        lambda _client, where, _before: sources.Source(where, whole, 1, 0, unknown=next(looks)),
    )
    file = tmp_path / "looks.jsonl"
    assert main.main(["journal", "record", str(file), "--looks", "5", "--every", "0.05"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("0 changes in 5 looks in ")
    assert err == f"odradek: 1970-01-01 00:00:00.000 not known: {note}\n" * 2


def test_each_look_is_compared_with_the_one_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = seen(1, 2, t=(2, [2, 1])), seen(1, 2, t=(1, [2, 1]))
    looks = iter([one, other, other])
    monkeypatch.setattr(
        sources,
        "refreshed_source",
        lambda _client, where, _before: sources.Source(where, next(looks), 1, 0),
    )
    file = tmp_path / "looks.jsonl"
    assert main.main(["journal", "record", str(file), "--looks", "3", "--every", "0.05"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("1 change in 3 looks in ")
