"""`reassign`: a plan, its file, its moves, their steps, and the way back."""

import contextlib
import fcntl
import json
import os
import shlex
import struct
import sys
import termios
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest

from odradek.advisor.move_plan import Move, MovePlan
from odradek.cli import sources
from odradek.cli.elect.replica_ends import ReplicaEnd
from odradek.cli.quantities import RATE, shown_bytes
from odradek.cli.reassign import apply as apply_verb
from odradek.cli.reassign import plan as plan_verb
from odradek.cli.reassign import status as status_verb
from odradek.cli.reassign import throttle as throttle_verb
from odradek.cli.reassign.rows import Row
from odradek.cli.reassign.status import as_dict, progress_line, show
from odradek.client.sync import SyncClient
from odradek.client.sync_connection import ConnectionLost
from odradek.model.cluster import ReplicaAssignment
from odradek.model.errors import OdradekError
from odradek.model.ids import BrokerId, TopicPartition
from odradek.pictures.figures import shown_seconds
from odradek.testing.running_cluster import RunningCluster
from tests.cli.conftest import Shell
from tests.cli.test_sources import view
from tests.support import eventually


def replicas(shell: Shell, topic: str) -> list[list[int]]:
    return [p["replicas"] for p in shell.json("topic", "describe", topic)[0]["partitions"]]


def test_draining_a_broker_from_plan_to_the_end_and_back(shell: Shell, tmp_path: Path) -> None:
    shell.ok("topic", "create", "moves", "--assign", "1,2:2,3:3,4")
    plan, back = tmp_path / "plan.json", tmp_path / "back.json"
    found = shell.json("reassign", "plan", "--drain", 2, "-t", "moves", "--out", plan, "--rollback", back)
    assert {move["partition"]: move["removing"] for move in found["moves"]} == {
        "moves-0": [2],
        "moves-1": [2],
    }
    assert found["copies"] == 2 and found["bytes"] is not None
    assert json.loads(plan.read_text()) == found["plan"]
    assert replicas(shell, "moves") == [[1, 2], [2, 3], [3, 4]], "a plan starts nothing"
    code, out, err = shell("reassign", "apply", plan, "--wait")
    assert code == 0, err
    assert out.startswith("2 of 2 moves started.") and out.endswith("2 of 2 done\n")
    assert all(2 not in row for row in replicas(shell, "moves"))
    assert shell("reassign", "status", plan)[0] == 0
    done = shell.json("reassign", "apply", back, "--wait")
    assert (done["done"], done["refused"]) == (True, {})
    assert replicas(shell, "moves") == [[1, 2], [2, 3], [3, 4]]
    assert shell.ok("reassign", "status") == "No reassignment runs.\n"


def test_a_file_of_apaches_tool_is_taken(shell: Shell, tmp_path: Path) -> None:
    """As ReassignPartitionsCommand --generate prints it, `log_dirs` and all."""
    shell.ok("topic", "create", "theirs", "--assign", "1")
    file = tmp_path / "theirs.json"
    file.write_text(
        '{"version":1,"partitions":[{"topic":"theirs","partition":0,"replicas":[3],"log_dirs":["any"]}]}'
    )
    assert shell("reassign", "apply", file, "--wait")[0] == 0
    assert replicas(shell, "theirs") == [[3]]
    topics = tmp_path / "topics.json"
    topics.write_text('{"topics":[{"topic":"theirs"}],"version":1}')
    found = shell.json("reassign", "plan", "-r", 2, "--topics-file", topics)
    assert [move["partition"] for move in found["moves"]] == ["theirs-0"]


def test_who_names_a_replication_factor_is_told_which_partitions_lose_copies(
    shell: Shell, tmp_path: Path
) -> None:
    """-r 3 was meant for those with fewer, and took one of the four that others had without a word."""
    shell.ok("topic", "create", "mixed", "--assign", "1,2,3,4:1,2,3,4:2,3,4,1")
    file = tmp_path / "mixed.json"
    file.write_text('{"version":1,"partitions":[{"topic":"mixed","partition":1,"replicas":[1,2]}]}')
    shell.ok("reassign", "apply", file, "--wait")
    said = shell.ok("reassign", "plan", "-r", 3, "--topic", "mixed")
    assert (
        "2 partitions lose 2 copies, which are deleted: mixed-0 (4 -> 3), mixed-2 (4 -> 3); to keep them leave them out of the "
        "plan (--topic, or edit its file)\nstart it with: "
    ) in said
    assert shell.json("reassign", "plan", "-r", 3, "--topic", "mixed")["fewer_replicas"] == {
        "mixed-0": {"before": 4, "after": 3},
        "mixed-2": {"before": 4, "after": 3},
    }
    said = shell.ok("reassign", "plan", "-r", 1, "--topic", "mixed")
    assert said.startswith("3 partitions change hands, 0 copies to make: replicas go, no bytes.\n")
    assert "3 partitions lose 7 copies" in said
    said = shell.ok("reassign", "plan", "-r", 4, "--topic", "mixed")
    assert "lose" not in said and "1 partition changes hands, 2 copies to make" in said


def test_a_throttle_is_set_while_it_copies_and_gone_at_the_end(shell: Shell, tmp_path: Path) -> None:
    shell.ok("topic", "create", "slow", "--assign", "1")
    file = tmp_path / "slow.json"
    file.write_text('{"version":1,"partitions":[{"topic":"slow","partition":0,"replicas":[4]}]}')
    assert shell("reassign", "apply", file, "--throttle", "10MB")[0] == 0
    set_ = {s["name"]: s["value"] for s in shell.json("config", "describe", "-t", "slow")["settings"]}
    assert set_ == {
        "leader.replication.throttled.replicas": "0:1",
        "follower.replication.throttled.replicas": "0:4",
    }
    rate = shell.json("config", "get", "follower.replication.throttled.rate", "--broker", 4)
    assert (rate["value"], rate["source"]) == ("10000000", "broker")
    eventually(lambda: shell("reassign", "status", file)[0] == 0, what="the move is done")
    assert "the throttle is removed" in shell("reassign", "status", file, "--remove-throttle")[1]
    assert shell.json("config", "describe", "-t", "slow")["settings"] == []
    names = {s["name"] for s in shell.json("config", "describe", "--broker", 4)["settings"]}
    assert not any("throttled" in name for name in names)


def test_a_move_that_waits_is_shown_drawn_explained_and_cancelled(
    start_cluster: Callable[..., Any], tmp_path: Path
) -> None:
    """The only replica is away, so nobody can copy it: step 4 stays open until somebody cancels."""
    cluster, shell = start_cluster(3)
    controller = shell.json("cluster", "health")["controller"]
    only, target = [b for b in (1, 2, 3) if b != controller]
    shell.ok("topic", "create", "stuck", "--assign", only)
    cluster.kill(only)
    eventually(lambda: shell("why", "stuck-0")[0] == 1, what="the partition is offline")
    file, svg, html = tmp_path / "m.json", tmp_path / "m.svg", tmp_path / "m.html"
    move = {"topic": "stuck", "partition": 0, "replicas": [target]}
    file.write_text(json.dumps({"version": 1, "partitions": [move]}))
    assert shell("reassign", "apply", file)[0] == 0
    # Told by the controller to the others a moment after its answer.
    eventually(
        lambda: [row["step"] for row in shell.json("reassign", "status")] == [4], what="step 4 is open"
    )
    (row,) = shell.json("reassign", "status")
    assert (row["adding"], row["removing"]) == ([target], [only])
    code, out, _ = shell("reassign", "status", file, "--svg", svg, "--html", html)
    assert code == 1 and "4/12" in out and "it has no leader, so it cannot be copied" in out
    for picture in (svg, html):
        words = "".join(ElementTree.parse(picture).getroot().itertext())
        assert "stuck-0" in words and "it cannot be copied" in words
    code, out, _ = shell("why", "stuck-0")
    assert code == 1
    assert out.startswith(f"stuck-0 is offline, no member of its ISR is live (ISR [{only}], live: [])")
    assert f"stuck-0 is on [{target}]: phase growing" in out
    assert shell.ok("reassign", "cancel", "--partition", "stuck-0").startswith("1 of 1 cancelled.")
    eventually(lambda: shell.json("reassign", "status") == [], what="nothing runs any more")
    assert replicas(shell, "stuck") == [[only]]
    code, out, _ = shell("reassign", "cancel", "-p", "stuck-0", "-p", "stuck-0")
    assert code == 1 and out.startswith("0 of 1 cancelled.") and "NO_REASSIGNMENT_IN_PROGRESS" in out


def test_a_throttle_is_not_taken_from_under_a_move_that_runs(
    start_cluster: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two administrators at once: the rate of a broker is for all of its copies, the list of a topic for all of its
    moves. A request that is refused, one that ends, and one that looks leave them while another copy runs."""
    cluster, shell = start_cluster(3)
    controller = shell.json("cluster", "health")["controller"]
    only, target = [b for b in (1, 2, 3) if b != controller]
    shell.ok("topic", "create", "stuck", "--assign", f"{only}:{controller}")
    shell.ok("topic", "create", "quick", "--assign", controller)
    cluster.kill(only)
    eventually(lambda: shell.json("cluster", "health")["missing_brokers"] == [only], what="it is missed")

    def move(topic: str, partition: int, *replicas: int) -> Path:
        file = tmp_path / f"{topic}-{partition}-{replicas}.json"
        entry = {"topic": topic, "partition": partition, "replicas": replicas}
        file.write_text(json.dumps({"version": 1, "partitions": [entry]}))
        return file

    def throttle() -> tuple[dict[str, str], str | None]:
        lists, of_broker = (
            {
                s["name"]: s["value"]
                for s in shell.json("config", "describe", kind, name)["settings"]
                if "throttled" in s["name"]
            }
            for kind, name in (("-t", "stuck"), ("--broker", target))
        )
        return lists, of_broker.get("follower.replication.throttled.rate")

    leaders, followers = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"
    shell.ok("reassign", "apply", move("stuck", 0, target), "--throttle", "1MB")
    assert throttle() == ({leaders: f"0:{only}", followers: f"0:{target}"}, "1000000")

    refused = move("stuck", 1, 9)
    assert shell("reassign", "apply", refused, "--throttle", "9MB")[0] == 1
    assert throttle() == ({leaders: f"0:{only}", followers: f"0:{target}"}, "1000000")

    quick = move("quick", 0, target)
    code, _, err = shell("reassign", "apply", quick, "--throttle", "2MB", "--wait")
    assert (code, err) == (
        0,
        "odradek: reassignments still run: stuck-0; the throttle stays until odradek reassign status "
        "--remove-throttle\n",
    )
    assert throttle() == ({leaders: f"0:{only}", followers: f"0:{target}"}, "2000000")

    shell.ok("reassign", "apply", move("stuck", 1, target), "--throttle", "3MB")
    assert throttle()[0] == {leaders: f"0:{only},1:{controller}", followers: f"0:{target},1:{target}"}
    eventually(lambda: len(shell.json("reassign", "status")) == 1, what="one of the two is done")

    code, _, err = shell("reassign", "status", quick, "--remove-throttle")
    assert (code, err) == (1, "odradek: the throttle stays: reassignments still run: stuck-0\n")
    assert throttle()[1] == "3000000"
    shell.ok("reassign", "apply", move("stuck", 0, controller), "--throttle", "3MB")
    assert f"0:{controller}" in throttle()[0][followers].split(","), "who copies it is another one now"
    back = tmp_path / "back.json"
    further = move("stuck", 0, controller, target)
    shell.ok("reassign", "apply", further, "--throttle", "3MB", "--rollback", back)
    assert throttle()[0] == {leaders: f"0:{only}", followers: f"0:{controller},0:{target}"}, (
        "one of them copies already"
    )
    (origin,) = json.loads(back.read_text())["partitions"]
    assert origin["replicas"] == [only], "not those that are being added as well"

    def refuses(_client: object, wanted: dict[TopicPartition, None]) -> dict[TopicPartition, str]:
        return dict.fromkeys(wanted, "INVALID_REPLICA_ASSIGNMENT: nobody in sync would be left")

    with monkeypatch.context() as patched:
        patched.setattr("odradek.cli.reassign.cancel.alter", refuses)
        assert shell("reassign", "cancel", "--all")[0] == 1
    assert throttle()[1] == "3000000", "it goes on"
    shell.ok("reassign", "cancel", "--all", "--keep-throttle")
    assert throttle()[1] == "3000000"
    shell.ok("reassign", "apply", move("stuck", 0, controller), "--throttle", "3MB")
    shell.ok("reassign", "cancel", "--all")
    assert throttle() == ({}, None)


@pytest.mark.parametrize("how", ["partition", "file", "all"])
def test_a_throttle_that_was_left_over_goes_with_a_cancel_of_what_runs_no_more(
    shell: Shell, tmp_path: Path, how: str
) -> None:
    """As Apache's tool does, which looks at the topics of the file and not at what runs."""
    topic = f"over-{how}"
    shell.ok("topic", "create", topic, "--assign", "1")
    file = tmp_path / "m.json"
    entry = {"topic": topic, "partition": 0, "replicas": [2]}
    file.write_text(json.dumps({"version": 1, "partitions": [entry]}))
    shell.ok("reassign", "apply", file, "--throttle", "1MB")
    eventually(lambda: shell.json("reassign", "status") == [], what="the move is done")

    def throttled() -> set[str]:
        return {
            entry["name"]
            for kind, name in (("-t", topic), ("--broker", 1), ("--broker", 2))
            for entry in shell.json("config", "describe", kind, name)["settings"]
            if "throttled" in entry["name"]
        }

    which = {"partition": ["-p", f"{topic}-0"], "file": [file], "all": ["--all"]}[how]
    assert shell("reassign", "cancel", "--keep-throttle", *which)[0] == (how == "partition")
    assert len(throttled()) == 4
    code, out, err = shell("reassign", "cancel", *which)
    assert (code, err) == (how == "partition", "")
    assert ("NO_REASSIGNMENT_IN_PROGRESS" if how == "partition" else "so none was cancelled") in out
    assert not throttled()
    missing = shell("reassign", "cancel", "-p", "nowhere-0")
    assert missing[0] == 1 and "NO_REASSIGNMENT_IN_PROGRESS" in missing[1] + missing[2], "as Apache says it"


def test_a_throttle_stays_where_nobody_knows_what_has_started(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell.ok("topic", "create", "unknown", "--assign", "1")
    file = tmp_path / "unknown.json"
    file.write_text('{"version":1,"partitions":[{"topic":"unknown","partition":0,"replicas":[2]}]}')

    def lost(_client: object, _targets: object) -> None:
        raise ConnectionLost("127.0.0.1:9092: connection reset by peer while waiting for the answer")

    with monkeypatch.context() as patched:
        patched.setattr("odradek.cli.reassign.apply.alter", lost)
        code, _, err = shell("reassign", "apply", file, "--throttle", "10MB")
    assert code == 1
    assert err.startswith("odradek: the throttle stays until odradek reassign status --remove-throttle\n")
    set_ = {s["name"]: s["value"] for s in shell.json("config", "describe", "-t", "unknown")["settings"]}
    assert set_["follower.replication.throttled.replicas"] == "0:2"
    assert "the throttle is removed" in shell.ok("reassign", "status", "--remove-throttle")
    assert shell.json("config", "describe", "-t", "unknown")["settings"] == []


LOST = "127.0.0.1:9092: connection reset by peer while waiting for the answer"
GO_ON = "\nodradek: the moves go on, and the throttle stays until odradek reassign status --remove-throttle; odradek reassign status "


@pytest.mark.parametrize(
    ("where", "error", "said"),
    [
        ("apply.wait_for", ConnectionLost(LOST), f"{GO_ON}FILE\nodradek: {LOST}\n"),
        ("apply.wait_for", BrokenPipeError(), f"{GO_ON}FILE\n"),
        (
            "throttle.remove_throttle",
            ConnectionLost(LOST),
            f"\nodradek: the throttle stays until odradek reassign status --remove-throttle\nodradek: {LOST}\n",
        ),
    ],
    ids=["a connection is lost", "whoever read us is gone", "the moves are done"],
)
def test_who_can_wait_no_longer_is_told_that_the_throttle_stays(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, error: Exception, said: str
) -> None:
    shell.ok("topic", "create", "unheard", "--assign", "1")
    file = tmp_path / "unheard.json"
    file.write_text('{"version":1,"partitions":[{"topic":"unheard","partition":0,"replicas":[2]}]}')

    def lost(*_: object, **__: object) -> None:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(f"odradek.cli.reassign.{where}", lost)
        code, _, err = shell("reassign", "apply", file, "--throttle", "10MB", "--wait")
    eventually(lambda: shell("reassign", "status", "--remove-throttle")[0] == 0, what="the move is done")
    shell.ok("topic", "delete", "unheard", "--yes")
    assert (code, err) == (1, said.replace("FILE", shlex.quote(str(file))))


def test_a_throttle_that_was_interrupted_is_put_back(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing has started; half of a throttle is on, of which nobody would hear."""
    shell.ok("topic", "create", "interrupted", "--assign", "1")
    file = tmp_path / "interrupted.json"
    file.write_text('{"version":1,"partitions":[{"topic":"interrupted","partition":0,"replicas":[2]}]}')
    calls = 0

    def interrupted(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        answer = alter_configs(*arguments)
        if calls == 1:
            raise KeyboardInterrupt
        return answer

    alter_configs = throttle_verb.alter_configs
    monkeypatch.setattr(throttle_verb, "alter_configs", interrupted)
    assert shell("reassign", "apply", file, "--throttle", "10MB")[0] == 130
    assert calls > 1 and shell.json("config", "describe", "-t", "interrupted")["settings"] == []
    assert replicas(shell, "interrupted") == [[1]]


@pytest.mark.parametrize("wide", [60, 200])
def test_progress_is_one_line_of_a_terminal_however_narrow(
    monkeypatch: pytest.MonkeyPatch, wide: int
) -> None:
    """What wraps is not cleared by the next line, and stays above it."""
    where = TopicPartition("t", 0)
    sentence = (
        "broker 2 copies what it lacks, and is taken into the ISR as soon as it has caught up with its leader"
    )
    looks = [
        Row(where, (1, 2), (2,), (2,), (1,), 1, (1,), 4, sentence),
        Row(where, (2,), (2,), (), (), 2, (2,), 0, "done"),
    ]
    coming = [[(where, 2)], []]
    monkeypatch.setattr("odradek.cli.reassign.apply.status_rows", lambda *_: [looks.pop(0)])
    monkeypatch.setattr("odradek.cli.reassign.directories.still_coming", lambda *_: coming.pop(0))
    monkeypatch.setattr("time.sleep", lambda _: None)
    outside, inside = os.openpty()
    fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", 24, wide, 0, 0))
    client: Any = None
    with open(inside, "w") as terminal, monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", terminal)
        assert apply_verb.wait_for(client, {where: (BrokerId(2),)}, quiet=False) == {}
        apply_verb.wait_for_directories(client, {(where, 2): "/b"}, quiet=False)
    said = b""
    with contextlib.suppress(OSError):  # EIO, when all was read: the other end is closed
        while piece := os.read(outside, 10_000):
            said += piece
    os.close(outside)
    first, *others = said.decode().replace("\r\n", "\n").removeprefix("\r\033[K").split("\r\033[K")
    assert first == f"0 of 1 done; t-0 at step 4 of 12: {sentence}"[:wide]
    assert others == [
        "1 of 1 done\n",
        "1 replica on the way to a log directory",
        "1 of 1 replica in place in the log directories\n",
    ]


def test_a_refused_throttle_is_put_back_to_the_level_it_came_from(shell: Shell, tmp_path: Path) -> None:
    rate = "follower.replication.throttled.rate"
    shell.ok("topic", "create", "level", "--assign", "1")
    shell.ok("config", "set", "--cluster", f"{rate}=7000000")
    file = tmp_path / "level.json"
    file.write_text('{"version":1,"partitions":[{"topic":"level","partition":0,"replicas":[2,2]}]}')
    assert shell("reassign", "apply", file, "--throttle", "10MB")[0] == 1
    found = shell.json("config", "get", rate, "--broker", 1)
    assert (found["value"], found["source"]) == ("7000000", "cluster default")
    shell.ok("config", "delete", "--cluster", rate)


def test_a_move_is_behind_by_its_slowest_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = [ReplicaEnd(1, 100), ReplicaEnd(2, 90), ReplicaEnd(3, 40), ReplicaEnd(4, None, problem="silent")]
    monkeypatch.setattr("odradek.cli.elect.replica_ends.replica_ends", lambda *_: ends)
    node = ReplicaAssignment(tuple(map(BrokerId, (2, 3, 4, 1))), tuple(map(BrokerId, (2, 3, 4))))
    assert status_verb._behind(None, TopicPartition("t", 0), node, 1, (1,)) == 60  # type: ignore[arg-type]


def test_a_silent_broker_is_not_waited_for_with_each_of_its_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each request to it takes half a minute: a hundred moves to it took an hour to look at."""
    now_s = 0.0
    asked: list[TopicPartition] = []

    def silent(_client: object, where: TopicPartition, _replicas: object) -> list[ReplicaEnd]:
        nonlocal now_s
        now_s += 30
        asked.append(where)
        return [ReplicaEnd(1, 100), ReplicaEnd(2, None, problem="no answer within 30 s")]

    moving = ReplicaAssignment(tuple(map(BrokerId, (1, 2))), (BrokerId(2),), (BrokerId(1),))
    running = {TopicPartition("t", number): moving for number in range(100)}
    monkeypatch.setattr(sources, "running_reassignments", lambda *_: running)
    monkeypatch.setattr("odradek.cli.elect.replica_ends.replica_ends", silent)
    monkeypatch.setattr(status_verb, "time", SimpleNamespace(monotonic=lambda: now_s))
    seen = view([1, 2], t=[([1, 2], [])] * 100)
    partitions = {index: one._replace(isr=(1,)) for index, one in seen.topics["t"].partitions.items()}
    seen = seen._replace(topics={"t": seen.topics["t"]._replace(partitions=partitions)})
    monkeypatch.setattr(SyncClient, "cluster", lambda *_: seen)
    with SyncClient("h:1") as client:
        rows = status_verb.status_rows(client, measured=True)
    assert len(rows) == 100 and len(asked) == 1


def test_nobody_waits_for_the_directory_of_a_replica_that_was_refused(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell.ok("topic", "create", "directed", "--assign", "1:1")
    (path,) = {row["directory"] for row in shell.json("log", "dirs", "--broker", 2)}
    file = tmp_path / "directed.json"
    moves = [
        {"topic": "directed", "partition": p, "replicas": replicas, "log_dirs": [path] * len(replicas)}
        for p, replicas in ((0, [2]), (1, [2, 2]))
    ]
    file.write_text(json.dumps({"version": 1, "partitions": moves}))
    awaited: list[object] = []
    monkeypatch.setattr(
        "odradek.cli.reassign.apply.wait_for_directories",
        lambda _client, wanted, *, quiet: awaited.extend(wanted),
    )
    code, out, err = shell("reassign", "apply", file, "--wait")
    assert code == 1 and out.startswith("1 of 2 moves started."), err
    assert awaited == [(TopicPartition("directed", 0), 2)]


def test_a_move_that_somebody_cancels_is_not_called_done(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor one whose topic is deleted meanwhile; and nobody waits for what does not arrive in a directory any more."""
    shell.ok("topic", "create", "cancelled", "--assign", "1:1:1")
    (path,) = {row["directory"] for row in shell.json("log", "dirs", "--broker", 2)}
    file = tmp_path / "cancelled.json"
    moves = [{"topic": "cancelled", "partition": p, "replicas": [2], "log_dirs": [path]} for p in (0, 1, 2)]
    file.write_text(json.dumps({"version": 1, "partitions": moves}))
    on_2 = (2,)
    rows = [
        Row(TopicPartition("cancelled", 0), on_2, on_2, (), (), 2, on_2, 0, "done"),
        Row(TopicPartition("cancelled", 1), (1,), on_2, (), (), 1, (1,), 0, "does not run; it is on [1]"),
        Row(TopicPartition("cancelled", 2), (), on_2, (), (), -1, (), 0, "there is no partition any more"),
    ]
    awaited: list[object] = []
    monkeypatch.setattr("odradek.cli.reassign.apply.SETTLED_S", 0.0)
    monkeypatch.setattr("odradek.cli.reassign.apply.status_rows", lambda *_: rows)
    monkeypatch.setattr(
        "odradek.cli.reassign.apply.wait_for_directories",
        lambda _client, wanted, *, quiet: awaited.extend(wanted),
    )
    code, out, err = shell("reassign", "apply", file, "--wait")
    assert code == 1 and out.endswith("1 of 3 done\n")
    assert err == (
        "odradek: cancelled-1: does not run; it is on [1]\nodradek: cancelled-2: there is no partition any more\n"
    )
    assert awaited == [(TopicPartition("cancelled", 0), 2)]
    found = shell.json("reassign", "apply", file, "--wait")
    assert not found["done"]
    assert found["not_done"] == {
        "cancelled-1": "does not run; it is on [1]",
        "cancelled-2": "there is no partition any more",
    }


def test_what_metadata_tells_a_moment_late_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The controller runs it no more, and the broker that is asked has not heard yet."""
    where, late = TopicPartition("t", 0), [True, True, False]

    def rows(*_: object) -> list[Row]:
        return [Row(where, (1,) if late.pop(0) else (2,), (2,), (), (), 1, (1,), 0, "")]

    monkeypatch.setattr("odradek.cli.reassign.apply.status_rows", rows)
    client: Any = None
    assert apply_verb.wait_for(client, {where: (BrokerId(2),)}, quiet=True) == {}
    assert late == []


def test_a_throttle_goes_with_the_topic_that_was_deleted(shell: Shell, tmp_path: Path) -> None:
    """Its lists went with it; the rates of the brokers are still there."""
    for topic in ("short", "other"):
        shell.ok("topic", "create", topic, "--assign", "1")
    file = tmp_path / "short.json"
    moves = [{"topic": topic, "partition": 0, "replicas": [2]} for topic in ("short", "other")]
    file.write_text(json.dumps({"version": 1, "partitions": moves}))
    shell.ok("reassign", "apply", file, "--throttle", "1MB")
    eventually(lambda: shell.json("reassign", "status") == [], what="the moves are done")
    shell.ok("topic", "delete", "short", "--yes")
    code, out, err = shell("reassign", "status", file, "--remove-throttle")
    assert (code, err) == (1, "") and out.endswith("the throttle is removed\n")
    for kind, name in (("-t", "other"), ("--broker", 1), ("--broker", 2)):
        settings = shell.json("config", "describe", kind, name)["settings"]
        assert not [entry["name"] for entry in settings if "throttled" in entry["name"]]


def test_a_cancel_tells_in_json_what_it_did_not_know_to_run(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It began after those that run were asked for, and before it was cancelled."""
    monkeypatch.setattr("odradek.cli.reassign.cancel.alter", lambda _client, _wanted: {})
    assert shell.json("reassign", "cancel", "-p", "begun-0")["cancelled"] == {"begun-0": None}


def test_a_directory_that_has_failed_is_said_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not after the minute for which brokers that restart are waited for."""
    orders = TopicPartition("orders", 0)
    row: dict[str, Any] = {"broker": 1, "directory": "/b", "error": "KAFKA_STORAGE_ERROR", "replicas": []}
    monkeypatch.setattr("odradek.cli.log_dirs.directories_of", lambda *_: [row])
    monkeypatch.setattr("odradek.cli.controller_calls.time.sleep", lambda _: pytest.fail("it waits"))
    client: Any = None
    with pytest.raises(OdradekError, match="/b of broker 1 is offline"):
        apply_verb.wait_for_directories(client, {(orders, 1): "/b"}, quiet=True)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["plan"], 2, "no goal is given"),
        (["plan", "--drain", "9"], 1, "there is no broker 9"),
        (["plan", "--drain", "x"], 2, "as in --drain 3"),
        (["plan", "-r", "5"], 1, "expected 1 to 4"),
        (["plan", "--rebalance", "-t", "nope"], 1, "there is no topic nope"),
        (["plan", "--drain", "1", "--throttle", "fast"], 2, "as in 500000, 10MB or 1GiB"),
        (["plan", "--drain", "1", "--throttle", "1e400"], 2, "as in 500000, 10MB or 1GiB"),
        (["cancel", "-p", "t-\u00b2"], 2, "expected a partition, as in orders-0"),
        (["cancel", "-p", "t-" + "9" * 5000], 2, "expected a partition, as in orders-0"),
        (["cancel"], 2, "Say one of FILE, --partition orders-0, --all"),
        (["apply", "/does/not/exist"], 1, "No such file"),
    ],
)
def test_a_mistake_is_one_sentence(shell: Shell, arguments: list[str], code: int, words: str) -> None:
    found, out, err = shell("reassign", *arguments)
    assert (found, out) == (code, "")
    assert words in err and err.count("\n") == 1


def test_what_the_controller_refuses_is_said_partition_by_partition(shell: Shell, tmp_path: Path) -> None:
    shell.ok("topic", "create", "half", "--assign", "1:2")
    file = tmp_path / "half.json"
    moves = [{"topic": "half", "partition": p, "replicas": r} for p, r in ((0, [3]), (1, [9]))]
    file.write_text(json.dumps({"version": 1, "partitions": moves}))
    code, out, _ = shell("reassign", "apply", file)
    assert code == 1
    assert out.startswith("1 of 2 moves started.") and "INVALID_REPLICA_ASSIGNMENT" in out
    moves[1]["partition"] = 7
    file.write_text(json.dumps({"version": 1, "partitions": moves}))
    code, _, err = shell("reassign", "apply", file)
    assert (code, err) == (1, "odradek: half has 2 partitions, 0 to 1; there is no 7; nothing was started\n")
    file.write_text(json.dumps({"version": 1, "partitions": [{**moves[0], "topic": "hlaf"}]}))
    code, _, err = shell("reassign", "apply", file)
    assert (code, err) == (
        1,
        "odradek: there is no topic hlaf; odradek topic list shows all of them; nothing was started\n",
    )


def test_the_way_back_is_never_overwritten(shell: Shell, tmp_path: Path) -> None:
    """The second time, the replicas of now are where the first one moved them."""
    shell.ok("topic", "create", "back", "--assign", "1")
    plan, back = tmp_path / "plan.json", tmp_path / "back.json"
    move = {"topic": "back", "partition": 0, "replicas": [2]}
    plan.write_text(json.dumps({"version": 1, "partitions": [move]}))
    alias = tmp_path / "alias.json"
    alias.symlink_to(plan)
    for same in (plan, alias):
        code, _, err = shell("reassign", "apply", plan, "--rollback", same)
        assert (code, err) == (
            1,
            f"odradek: {same} is the plan itself; the way back needs a file of its own\n",
        )
    shell.ok("reassign", "apply", plan, "--rollback", back, "--wait")
    kept = back.read_text()
    code, _, err = shell("reassign", "apply", plan, "--rollback", back)
    assert code == 1 and f"{back} is there already" in err and err.endswith("nothing was started\n")
    assert back.read_text() == kept and json.loads(kept)["partitions"][0]["replicas"] == [1]
    code, _, err = shell("reassign", "plan", "-r", 2, "--out", plan, "--rollback", plan)
    assert code == 2 and "name one file" in err
    shell.ok("reassign", "apply", back, "--wait")
    shell.ok("reassign", "apply", plan, "--rollback", back, "--wait")  # the same way back: nothing is lost


def test_nor_by_another_plan(shell: Shell, tmp_path: Path) -> None:
    """Which may be made when the first one has been applied."""
    shell.ok("topic", "create", "again", "--assign", "1")
    plan, back = tmp_path / "plan.json", tmp_path / "back.json"
    asked = ("reassign", "plan", "-t", "again", "--out", plan, "--rollback", back, "--drain")
    shell.ok(*asked, 1)
    shell.ok(*asked, 1)
    first, way_back = plan.read_text(), back.read_text()
    shell.ok("reassign", "apply", plan, "--wait")
    (now,) = replicas(shell, "again")
    code, out, err = shell(*asked, now[0])
    assert (code, out) == (1, "")
    assert err.startswith(f"odradek: {back} is there already") and err.endswith("nothing was written\n")
    assert (plan.read_text(), back.read_text()) == (first, way_back)


def test_what_is_refused_has_started_nothing(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The way back, the throttle, then the log directories: each comes before what it is to be there for."""
    asked: list[str] = []
    original = SyncClient.call

    def call(self: SyncClient, broker: int, request: Any, **options: Any) -> Any:
        asked.append(type(request).__name__)
        return original(self, broker, request, **options)

    monkeypatch.setattr(SyncClient, "call", call)
    shell.ok("topic", "create", "first", "--assign", "1")
    plan, back = tmp_path / "plan.json", tmp_path / "back.json"
    move = {"topic": "first", "partition": 0, "replicas": [2], "log_dirs": ["/nowhere"]}
    plan.write_text(json.dumps({"version": 1, "partitions": [move]}))
    back.write_text("{}")
    asked.clear()
    code, _, err = shell("reassign", "apply", plan, "--rollback", back)
    assert code == 1 and f"{back} is there already" in err and err.endswith("nothing was started\n")
    assert "AlterReplicaLogDirsRequest" not in asked

    code, _, err = shell("reassign", "apply", plan, "--throttle", "1MB")
    assert (code, err) == (
        1,
        "odradek: first-0 cannot go to /nowhere of broker 2: LOG_DIR_NOT_FOUND; no partition was reassigned, and "
        "odradek log dirs lists those there are\n",
    )
    set_there = shell.json("config", "describe", "--broker", 2)["settings"]
    assert not [s["name"] for s in set_there if "throttled" in s["name"]]

    def silent(client: SyncClient, unknown: list[str]) -> dict[TopicPartition, Any]:
        unknown.append("whether reassignments run: no controller answers")
        return {}

    monkeypatch.setattr(sources, "running_reassignments", silent)
    asked.clear()
    code, _, err = shell("reassign", "apply", plan, "--throttle", "1MB")
    assert (code, err) == (
        1,
        "odradek: whether reassignments run: no controller answers; what runs must be known before a throttle is set; "
        "nothing was started\n",
    )
    back = tmp_path / "unknown.json"
    code, _, err = shell("reassign", "apply", plan, "--rollback", back)
    assert code == 1 and "what runs must be known before the way back is written; nothing was started" in err
    assert (
        not {"AlterReplicaLogDirsRequest", "IncrementalAlterConfigsRequest"} & set(asked)
        and not back.exists()
    )


def test_nothing_to_do_is_said(shell: Shell) -> None:
    assert shell.ok("reassign", "cancel", "--all") == "No reassignment runs, so none was cancelled.\n"
    shell.ok("topic", "create", "even", "--assign", "1:2:3")
    assert shell.ok("reassign", "plan", "--drain", 4, "-t", "even") == "Nothing needs to move.\n"
    shell.ok("topic", "create", "wide", "--assign", "1,2,3,4:1,2,3,4")
    code, out, _ = shell("reassign", "plan", "--drain", 4, "-t", "wide", "-t", "even")
    assert code == 1, "what was wished for is not reached"
    assert out.startswith("No move reaches that: 2 partitions are left out, each with its reason below.\n")
    assert "left out: wide-0: no other live broker can take it from broker 4" in out
    code, out, _ = shell("reassign", "plan", "--drain", 3, "-t", "wide", "-t", "even")
    assert code == 1 and out.startswith(
        "1 partition changes hands, 1 copy to make, 0 B. 2 partitions are left out."
    )


def test_a_plan_names_the_brokers_without_which_its_moves_do_not_end() -> None:
    assert list(plan_verb.waiting({"t-0": [3, 4], "t-1": [3]})) == [
        "2 moves, first that of t-0, do not end before broker 3 serves its replica again: start it, or drain it too",
        "the move of t-0 does not end before broker 4 serves its replica again: start it, or drain it too",
    ]


def test_what_is_left_out_is_not_a_page_of_lines(capsys: pytest.CaptureFixture[str]) -> None:
    left_out = {TopicPartition("t", number): "no other live broker can take it" for number in range(50)}
    plan_verb.show(plan_verb.as_dict(MovePlan((), left_out), {}, None), None, None)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "No move reaches that: 50 partitions are left out, each with its reason below."
    assert lines[1] == "left out: t-0: no other live broker can take it"
    assert lines[21:] == ["and 30 more left out; --json lists all"]


def test_a_plan_takes_as_long_as_the_broker_that_receives_most() -> None:
    def move(partition: int, *after: int) -> Move:
        return Move(TopicPartition("t", partition), (BrokerId(1),), tuple(map(BrokerId, after)))

    plan = MovePlan((move(0, 2), move(1, 2), move(2, 3)))
    sizes = {TopicPartition("t", 0): 1000, TopicPartition("t", 1): 500, TopicPartition("t", 2): 300}
    known = plan_verb.as_dict(plan, sizes, 100)
    assert (known["bytes"], known["seconds"]) == (1800, 15.0)
    assert plan_verb.headline(known, 100).endswith("1.8 kB; about 15 s at 100 B/s for each receiver.")
    del sizes[TopicPartition("t", 2)]
    partly = plan_verb.as_dict(plan, sizes, 100)
    assert (partly["bytes"], partly["bytes_known"], partly["seconds"]) == (None, 1500, None)
    assert plan_verb.headline(partly, 100).endswith("3 copies to make, 1.5 kB and 1 of unknown size.")


def test_the_size_of_what_was_deleted_meanwhile_is_not_known(shell: Shell) -> None:
    shell.ok("topic", "create", "sized", "--assign", "1")
    there, gone, further = (TopicPartition(*where) for where in (("sized", 0), ("deleted", 0), ("sized", 1)))
    moves = tuple(Move(where, (BrokerId(1),), (BrokerId(2),)) for where in (there, gone, further))
    assert plan_verb.sizes_of(shell.bootstrap, MovePlan(moves), []) == {there: 0}


def test_rows_say_what_they_wait_for(capsys: pytest.CaptureFixture[str]) -> None:
    running = Row(TopicPartition("t", 0), (2, 1), (2,), (2,), (1,), 1, (1,), 4, "broker 2: copying", 7)
    lost = Row(TopicPartition("t", 1), (1,), (2,), (), (), 1, (1,), 0, "does not run; it is on [1]")
    show([running, lost])
    out = capsys.readouterr().out
    assert out.startswith("1 running, 0 done, 1 neither.")
    assert progress_line(1, 2, [running]) == "1 of 2 done; t-0 at step 4 of 12: broker 2: copying"
    assert as_dict(running)["records_behind"] == 7 and as_dict(lost)["step"] is None


def test_bytes_and_seconds_read_as_people_write_them() -> None:
    assert [RATE.convert(text, None, None) for text in ("500", "10MB", "1 GiB", "2.5kb/s")] == [
        500, 10_000_000, 2**30, 2500,
    ]  # fmt: skip
    assert [shown_bytes(n) for n in (0, 999, 1500, 12_300_000, 5 * 10**12)] == [
        "0 B", "999 B", "1.5 kB", "12.3 MB", "5.0 TB",
    ]  # fmt: skip
    assert [shown_seconds(s) for s in (0.2, 1, 80, 3700)] == [
        "less than a second",
        "1 s",
        "1 min 20 s",
        "1 h 1 min",
    ]


def test_a_leader_that_does_not_answer_keeps_no_plan_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be why somebody plans. How much it has is not known then, as is said of it."""
    asked: list[int] = []

    def log_sizes(
        _client: object, leader: int, partitions: list[TopicPartition]
    ) -> dict[TopicPartition, int]:
        asked.append(leader)
        if leader == 1:
            raise ConnectionLost("broker 1: no answer in time")
        return dict.fromkeys(partitions, 7)

    seen = view([1, 2, 3], t=[([1], []), ([2], [])])
    monkeypatch.setattr("odradek.client.sync_log_sizes.log_sizes", log_sizes)
    monkeypatch.setattr(SyncClient, "cluster", lambda *_: seen)
    first, second = TopicPartition("t", 0), TopicPartition("t", 1)
    moves = (Move(first, (BrokerId(1),), (BrokerId(3),)), Move(second, (BrokerId(2),), (BrokerId(3),)))
    unknown: list[str] = []
    assert plan_verb.sizes_of("h:1", MovePlan(moves), unknown) == {second: 7}
    assert (asked, unknown) == (
        [1, 2],
        ["how large the logs are that broker 1 leads: broker 1: no answer in time"],
    )


def test_a_throttle_that_one_broker_refuses_stays_nowhere(
    shared: tuple[RunningCluster, Shell], tmp_path: Path
) -> None:
    """Brokers are asked one after the other: those before had taken it, and so had the topic."""
    cluster, shell = shared
    shell.ok("topic", "create", "onlyhalf", "--assign", "1")
    file = tmp_path / "onlyhalf.json"
    file.write_text('{"version":1,"partitions":[{"topic":"onlyhalf","partition":0,"replicas":[2]}]}')
    with cluster.inject("IncrementalAlterConfigs", error="POLICY_VIOLATION", broker=2, times=1):
        code, _, err = shell("reassign", "apply", file, "--throttle", "10MB")
    assert (code, err) == (
        1,
        "odradek: the throttle was refused by broker 2: POLICY_VIOLATION; nothing was started\n",
    )
    assert replicas(shell, "onlyhalf") == [[1]]

    def is_left() -> list[str]:
        """Brokers hear of it a moment later."""
        found = [
            entry
            for place in (("-t", "onlyhalf"), ("--broker", 1))
            for entry in shell.json("config", "describe", *place)["settings"]
        ]
        return [entry["name"] for entry in found if "throttled" in entry["name"]]

    eventually(lambda: not is_left(), what="the throttle is gone")


def test_where_nobody_tells_what_runs_the_throttle_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a controller that does not answer it was taken for none: a copy that runs would be let loose."""

    def silent(_client: object, unknown: list[str]) -> dict[TopicPartition, ReplicaAssignment]:
        unknown.append("whether reassignments run: no controller answers")
        return {}

    monkeypatch.setattr(sources, "running_reassignments", silent)
    with SyncClient("h:1") as client:
        assert throttle_verb.still_running(client) == (
            "whether reassignments run: no controller answers; the running reassignments are not known"
        )
