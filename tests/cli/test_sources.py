"""Where the metadata comes from: a store with damaged nodes, a journal at a point in time, an odd cluster."""

import asyncio
import errno
import json
import os
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from odradek.advisor.what_if import what_if
from odradek.advisor.what_if_steps import CatchUp, Kill, ask
from odradek.cli import main, sources, why
from odradek.cli.journal import files as journals
from odradek.cli.observations import lines_between
from odradek.cli.sources import Source, _offline, parse_time
from odradek.client.sync import ANY, Broker, ClusterView, PartitionView, TopicView
from odradek.client.sync_connection import Address, Unreachable
from odradek.controller.context import ControllerContext
from odradek.model.cluster import ReplicaAssignment
from odradek.model.error_codes import ErrorCode
from odradek.model.facts import MetadataLoaded
from odradek.model.ids import BrokerId
from odradek.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from odradek.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from odradek.store.api import ConditionalOps, Create
from odradek.store.embedded import EmbeddedStore
from odradek.store.embedded.database import Database
from tests.advisor.test_replay import written_down
from tests.controller.world import World, three, tp

REGISTRATION = {
    "version": 5,
    "host": "127.0.0.1",
    "port": 9092,
    "jmx_port": -1,
    "timestamp": "1",
    "endpoints": ["PLAINTEXT://127.0.0.1:9092"],
    "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
    "features": {},
}
STATE = {"controller_epoch": 1, "leader": -1, "version": 1, "leader_epoch": 3, "isr": [2]}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Broker 1 lives. `good` was led by 2, which is gone; the node of `bad` was edited by hand."""

    def topic(replicas: list[int]) -> dict[str, Any]:
        ids = {
            "version": 3,
            "topic_id": "AAAAAAAAAAAAAAAAAAAAQg",
            "adding_replicas": {},
            "removing_replicas": {},
        }
        return {**ids, "partitions": {"0": replicas}}

    nodes: dict[str, bytes] = {
        "/brokers": b"",
        "/brokers/ids": b"",
        "/brokers/ids/1": json.dumps(REGISTRATION).encode(),
        "/brokers/topics": b"",
        "/brokers/topics/good": json.dumps(topic([2, 1])).encode(),
        "/brokers/topics/good/partitions": b"",
        "/brokers/topics/good/partitions/0": b"",
        "/brokers/topics/good/partitions/0/state": json.dumps(STATE).encode(),
        "/brokers/topics/bad": b'{"version":3, "partitions": [1,2',
        "/controller_epoch": b"1",
    }

    async def fill() -> None:
        opened = await EmbeddedStore.open(tmp_path / "odradek-store.sqlite", 120_000)
        for path, data in nodes.items():
            await opened.write([ConditionalOps((Create(path, data),))], None)
        await opened.close()

    asyncio.run(fill())
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    try:
        code = main.main([str(argument) for argument in arguments])
    except SystemExit as exit_:
        code = int(exit_.code or 0)
    out, err = capsys.readouterr()
    return code, out, err


def test_a_store_answers_while_no_broker_runs(capsys: pytest.CaptureFixture[str], store: Path) -> None:
    code, out, _ = run(capsys, "why", "good-0", "--store", store)
    assert code == 1
    assert out.startswith("good-0 is offline, no member of its ISR is live (ISR [2], live: [])")
    assert "yes  another replica is live: live replicas [1]" in out
    code, out, _ = run(capsys, "what-if", "--start", 2, "--store", store / "odradek-store.sqlite")
    assert code == 0 and "good-0" in out and "comes online" in out


def test_a_broker_that_was_killed_when_no_other_was_there_to_see_it_is_not_taken_for_alive(
    capsys: pytest.CaptureFixture[str], store: Path, tmp_path: Path
) -> None:
    """The last session of a cluster is ended by whoever opens the store next: until then its nodes are there."""
    killed = tmp_path / "killed"

    async def register() -> None:
        opened = await EmbeddedStore.open(store / "odradek-store.sqlite", 120_000)
        await opened.create("/brokers/ids/2", json.dumps(REGISTRATION).encode(), ephemeral=True)
        controller = {"version": 2, "brokerid": 2, "timestamp": "1", "kraftControllerEpoch": -1}
        await opened.create("/controller", json.dumps(controller).encode(), ephemeral=True)
        running = await asyncio.to_thread(run, capsys, "what-if", "--kill", 2, "--store", store)
        assert "broker 2 is the controller" in running[1], running
        # As the files are when the process has died: nobody holds the lock any more.
        shutil.copytree(store, killed, ignore=shutil.ignore_patterns("*.bell", "killed"))
        await opened.close()

    asyncio.run(register())
    code, _, err = run(capsys, "what-if", "--kill", 2, "--store", killed)
    assert (code, err) == (1, "odradek: broker 2 is not alive, so it cannot die; brokers alive: 1\n")
    code, out, _ = run(capsys, "what-if", "--kill", 1, "--start", 2, "--store", killed)
    assert "the controller" not in out
    shutil.rmtree(killed / "odradek-store.sqlite-sessions")
    code, out, _ = run(capsys, "what-if", "--kill", 2, "--store", killed)
    assert "broker 2 is the controller" in out, "a backup is read as it was then"


def test_the_file_of_a_store_is_opened_once_for_one_question(
    capsys: pytest.CaptureFixture[str], store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sessions that were read of another state than the nodes could be those of somebody who came in between."""
    opened: list[Path] = []

    class Counted(Database):
        def __init__(self, path: Path, **options: Any) -> None:
            opened.append(path)
            super().__init__(path, **options)

    monkeypatch.setattr("odradek.store.embedded.database.Database", Counted)
    assert (store / "odradek-store.sqlite-sessions").is_dir()
    code, out, err = run(capsys, "why", "good", "--store", store)
    assert out.startswith("good-0 is "), (code, err)
    assert opened == [store / "odradek-store.sqlite"]


def test_a_damaged_node_takes_its_topic_out_of_service_and_the_rest_is_answered(
    capsys: pytest.CaptureFixture[str], store: Path
) -> None:
    code, out, err = run(capsys, "why", "bad", "--store", store)
    assert code == 1, err
    assert "topic bad is out of service" in out
    assert (
        "-> repair the node: odradek store set /brokers/topics/bad FILE --yes; the topic returns as soon as it can be read"
        in out
    )
    assert "not known: /brokers/topics/bad cannot be read: " in out


def test_who_was_controller_is_not_known_where_its_node_is_damaged_and_the_rest_is_answered(
    capsys: pytest.CaptureFixture[str], store: Path
) -> None:
    async def damage() -> None:
        opened = await EmbeddedStore.open(store / "odradek-store.sqlite", 120_000)
        await opened.create("/controller", b"{")
        await opened.close()

    asyncio.run(damage())
    code, out, err = run(capsys, "what-if", "--start", 2, "--store", store)
    assert code == 0, err
    assert "good-0" in out and "not known: /controller cannot be read: " in out


def test_no_store_is_one_sentence(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, _, err = run(capsys, "why", "x", "--store", tmp_path)
    assert code == 1 and "there is no odradek-store.sqlite in " in err and err.count("\n") == 1


def test_where_the_metadata_is_in_zookeeper_the_properties_that_name_it_are_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """`up --zookeeper --dir` leaves no file of a store, and there is none to name."""
    for broker, connect in ((1, "zookeeper.connect=127.0.0.1:1"), (2, "zookeeper.connect=127.0.0.1:1")):
        (tmp_path / f"broker-{broker}").mkdir()
        (tmp_path / f"broker-{broker}" / "server.properties").write_text(f"broker.id={broker}\n{connect}\n")
    named = shlex.quote(str(tmp_path / "broker-1" / "server.properties"))
    for verb in (("why", "x"), ("store", "ls")):
        code, _, err = run(capsys, *verb, "--store", tmp_path)
        assert code == 1 and err.endswith(f"; its brokers keep it in ZooKeeper: --store {named}\n")
    (tmp_path / "broker-1" / "server.properties").write_text("broker.id=1\n")
    (tmp_path / "broker-2").rename(tmp_path / "broker-3")
    assert "broker-3" in run(capsys, "store", "ls", "--store", tmp_path)[2]
    for empty in (b"\xff", b"zookeeper.connect=\n"):
        (tmp_path / "broker-3" / "server.properties").write_bytes(empty)
        assert run(capsys, "store", "ls", "--store", tmp_path)[2] == (
            f"odradek: there is no odradek-store.sqlite in {tmp_path}; name the store's file with --store\n"
        )


# --------------------------------------------------------------------------------------------- leavers


@pytest.fixture
def stuck(tmp_path: Path) -> tuple[Path, World]:
    """A journal in which leaver 2 was told to delete its copy and never answered."""
    world = World().brokers(1, 2, 3)
    lines = written_down(world)
    world.elect(1)
    world.create("t", [1, 2])
    world.reassign({"t-0": [1, 3]})
    world.catch_up("t-0", 3)
    file = tmp_path / "controller-1.jsonl"
    file.write_text("".join(json.dumps({"controller": 1, "epoch": 1, **line}) + "\n" for line in lines))
    return file, world


def test_a_leaver_that_does_not_answer_is_named_after_five_minutes(
    capsys: pytest.CaptureFixture[str], stuck: tuple[Path, World]
) -> None:
    """Row 172, as an operator sees it."""
    file, world = stuck
    early = run(capsys, "why", "t-0", "--journal", file, "--at", world.now_ms + 299_000)
    late = run(capsys, "why", "t-0", "--journal", file, "--at", world.now_ms + 301_000)
    assert early[0] == late[0] == 1
    assert "broker 2 has not deleted its copy (no answer for 299 s)" in early[1] and "stuck" not in early[1]
    assert "broker 2 has not deleted its copy (no answer for 301 s: stuck)" in late[1]
    assert "If it cannot answer, stop broker 2" in late[1]
    assert ": stuck" in run(capsys, "why", "t-0", "--journal", file)[1], "asked now, it has waited for years"


def test_a_live_cluster_is_told_by_its_journal_since_when_a_leaver_owes(
    stuck: tuple[Path, World], monkeypatch: pytest.MonkeyPatch
) -> None:
    file, world = stuck
    monkeypatch.setattr(journals, "local_history", lambda *_: journals.read_history(file))
    seen: ControllerContext = world.context.fork()
    seen.removals = {tp("t-0"): {BrokerId(2): 9_999_999}, tp("u-0"): {BrokerId(1): 5}}
    remembered = why.controllers_own("anywhere", [])
    assert remembered is not None
    why.owed_since(seen, remembered)
    assert seen.removals == {tp("t-0"): {2: world.now_ms}, tp("u-0"): {1: 5}}
    monkeypatch.setattr(journals, "local_history", lambda *_: None)
    assert why.controllers_own("anywhere", []) is None
    file.with_suffix(".damaged").write_text("{\n{}\n")
    monkeypatch.setattr(
        journals, "local_history", lambda *_: journals.read_history(file.with_suffix(".damaged"))
    )
    assert why.controllers_own("anywhere", []) is None


def test_a_journal_that_cannot_be_read_or_played_keeps_back_no_answer(
    stuck: tuple[Path, World], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is looked at for every question, also by a user who may not read the broker's directories, and a line of it may be of
    another version."""
    file, _ = stuck

    def forbidden(*_: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(file))

    monkeypatch.setattr(journals, "local_history", forbidden)
    assert why.controllers_own("anywhere", []) is None
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    lines[-1]["event"] = {"type": lines[-1]["event"]["type"]}
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    monkeypatch.setattr(journals, "local_history", lambda *_: journals.read_history(file))
    assert why.controllers_own("anywhere", []) is None


def test_journals_of_several_controllers_are_one_history_by_epoch(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Broker 2 was controller first, then broker 1: the files sort the other way."""
    world = World().brokers(1, 2, 3)
    first = written_down(world)
    world.elect(2)
    world.create("t", [3, 1])
    second_begins = len(first)
    world.now_ms += 1000
    world.elect(1)
    world.now_ms += 1000
    world.kill(3)
    for broker, epoch, lines in ((2, 1, first[:second_begins]), (1, 2, first[second_begins:])):
        directory = tmp_path / f"broker-{broker}" / "data"
        directory.mkdir(parents=True)
        text = "".join(json.dumps({"controller": broker, "epoch": epoch, **line}) + "\n" for line in lines)
        (directory / f"controller-{broker}.jsonl").write_text(text)
    code, out, _ = run(capsys, "journal", "show", tmp_path, "--partition", "t-0", "--json")
    assert code == 0
    assert [m["leader"] for m in json.loads(out)["moments"]] == [3, 1]
    code, out, _ = run(capsys, "journal", "replay", tmp_path, "--json")
    found = json.loads(out)
    assert (code, found["controller"], found["partitions"][0]["leader"]) == (0, 1, 1)
    alone = run(capsys, "journal", "replay", tmp_path / "broker-2", "--json")[1]
    assert json.loads(alone)["partitions"][0]["leader"] == 3


def test_a_step_is_shown_under_its_own_line_when_the_next_controllers_clock_is_behind(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    world = World().brokers(1, 2, 3)
    lines = written_down(world)
    world.elect(2)
    world.create("t", [3, 1])
    world.now_ms += 10_000
    world.kill(3)
    second_begins = len(lines)
    world.now_ms -= 5_000
    world.elect(1)
    world.now_ms += 20_000
    world.kill(2)
    file = tmp_path / "controller-1.jsonl"
    file.write_text(
        "".join(
            json.dumps({"controller": 1, "epoch": 1 + (number >= second_begins), **line}) + "\n"
            for number, line in enumerate(lines)
        )
    )
    whole = json.loads(run(capsys, "journal", "show", file, "--json")[1])["steps"]
    since = lines[second_begins - 1]["at_ms"]
    later = json.loads(run(capsys, "journal", "show", file, "--since", since, "--json")[1])["steps"]
    assert later == [step for step in whole if step["at_ms"] >= since]
    assert [step["line"] for step in whole] == list(range(len(lines)))


def test_a_time_line_since_a_time_begins_with_how_it_stood_then(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """What lasts at that time, an outage or a reassignment, is shown from its beginning."""
    world = World().brokers(1, 2, 3)
    lines = written_down(world)
    world.elect(1)
    world.create("t", [3])
    made_ms = world.now_ms
    world.now_ms += 1000
    world.kill(3)
    died_ms = world.now_ms
    world.now_ms += 1000
    world.create("u", [1])
    world.now_ms += 1000
    world.start(3)
    back_ms = world.now_ms
    world.now_ms += 1000
    world.reassign({"t-0": [2]})
    world.now_ms += 1000
    world.create("v", [1])
    file, svg = tmp_path / "controller-1.jsonl", tmp_path / "line.svg"
    file.write_text("".join(json.dumps({"controller": 1, "epoch": 1, **line}) + "\n" for line in lines))

    def shown(since_ms: int) -> tuple[list[tuple[int, bool]], list[tuple[int, int | None]], int]:
        arguments = ("journal", "show", file, "-p", "t-0", "--since", since_ms, "--svg", svg, "--json")
        code, out, err = run(capsys, *arguments)
        assert code == 0, err
        found = json.loads(out)
        return (
            [(m["at_ms"], m["offline"]) for m in found["moments"]],
            [(o["since_ms"], o["until_ms"]) for o in found["outages"]],
            len(found["reassignments"]),
        )

    moments, outages, moves = shown(0)
    assert moments[:3] == [(made_ms, False), (died_ms, True), (back_ms, False)]
    assert (outages, moves) == ([(died_ms, back_ms)], 1)
    assert shown(made_ms + 500) == (moments, outages, moves)
    assert shown(died_ms + 500) == (moments[1:], outages, moves)
    assert shown(back_ms) == (moments[2:], [], moves)
    assert shown(world.now_ms) == (moments[3:], [], 1), "it moves since before"
    code, _, err = run(capsys, "journal", "show", file, "-p", "w-0", "--since", made_ms + 500)
    assert (code, err) == (1, "odradek: the journal never heard of w-0\n")


@pytest.mark.parametrize("is_labelled", [True, False])
def test_journals_of_two_clusters_are_not_made_one_history(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, is_labelled: bool
) -> None:
    for broker, cluster in ((1, "first"), (2, "second")):
        world = World().brokers(1, 2)
        lines = written_down(world)
        world.elect(broker)
        directory = tmp_path / cluster / "data"
        directory.mkdir(parents=True)
        text = "".join(json.dumps({"controller": broker, "epoch": 1, **line}) + "\n" for line in lines)
        (directory / f"controller-{broker}.jsonl").write_text(text)
        if is_labelled:
            (directory / "meta.properties").write_text(
                f"version=0\nbroker.id={broker}\ncluster.id={cluster}\n"
            )
    code, out, err = run(capsys, "journal", "show", tmp_path)
    assert (code, out) == (1, "")
    if is_labelled:
        assert f"below {tmp_path} are journals of 2 clusters; name the directory of one: " in err
        assert f"{tmp_path}/first/data/controller-1.jsonl of first" in err
    else:
        assert "brokers 1 and 2 were both elected with epoch 1" in err
    assert run(capsys, "journal", "show", tmp_path / "first")[0] == 0


# ----------------------------------------------------------------------------------------------- odd clusters


def view(live: list[int], **topics: list[tuple[list[int], list[int]]]) -> ClusterView:
    """Per partition its replicas, and those of them Metadata calls offline."""
    brokers = {b: Broker(b, Address("h", 1), None) for b in live}
    found = {
        name: TopicView(
            bytes(16),
            False,
            {
                index: PartitionView(replicas[0], 0, tuple(replicas), tuple(replicas), tuple(offline))
                for index, (replicas, offline) in enumerate(partitions)
            },
        )
        for name, partitions in topics.items()
    }
    return ClusterView("c", 1, brokers, found, {})


class Polled:
    """A cluster as a poller sees it; it says what runs only while it has a controller."""

    request_timeout_s = 1.0

    def __init__(self) -> None:
        self.view = view([1, 2, 3], t=[([3, 1, 2], [])])
        self.has_controller = True

    def cluster(self, topics: object = None) -> ClusterView:
        return self.view

    def call(self, broker: int, request: object, **_options: object) -> object:
        if not self.has_controller:
            raise Unreachable("127.0.0.1:9092 does not answer")
        row = OngoingPartitionReassignment(
            partition_index=0, replicas=[3, 1, 2], adding_replicas=[3], removing_replicas=[2]
        )
        topic = OngoingTopicReassignment(name="t", partitions=[row])
        return ListPartitionReassignmentsResponse(topics=[topic])


def test_a_move_is_not_over_because_no_controller_tells_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A poll during a fail-over; what Metadata says of the replicas is all that is known then."""
    monkeypatch.setattr(sources, "CONTROLLER_PATIENCE_S", 0.0)
    polled = Polled()
    nothing = MetadataLoaded(brokers=(), topics=(), states={})

    def poll(before: MetadataLoaded) -> MetadataLoaded:
        return sources.refreshed_source(polled, "here", before).snapshot  # type: ignore[arg-type]

    moving = poll(nothing)
    assert moving.topics[0].partitions[0].adding_replicas == (3,)
    polled.has_controller = False
    assert lines_between(moving, poll(moving), 1, 0) == []
    polled.view = view([1, 2, 3], t=[([3, 1], [])])
    assert poll(moving).topics[0].partitions[0] == ReplicaAssignment((BrokerId(3), BrokerId(1)))
    polled.view = view([1, 2, 3], u=[([3, 1, 2], [])])
    assert [node.topic for node in poll(moving).topics] == ["u"]


def test_a_controller_that_hangs_keeps_no_answer_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Metadata names it for as long as its session lives, and just then one asks what happens when it dies."""
    monkeypatch.setattr(sources, "CONTROLLER_PATIENCE_S", 0.0)
    silent = "127.0.0.1:9092 accepts connections but gives no answer in time"

    class Client(Polled):
        request_timeout_s = 0.0

        def call(self, broker: int, request: object, **_options: object) -> object:
            if not isinstance(request, DescribeConfigsRequest) or broker == 1:
                raise Unreachable(silent)
            entry = DescribeConfigsResourceResult(name="min.insync.replicas", value="2", config_source=5)
            results = [
                DescribeConfigsResult(resource_name=r.resource_name, configs=[entry] if broker == 2 else [])
                for r in request.resources
            ]
            return DescribeConfigsResponse(results=results)

        def of_any(self, ask: Callable[..., object], **_options: object) -> object:
            connection = SimpleNamespace(version_for=lambda _: 4)
            return ask(connection, lambda request, _version: self.call(ANY, request))

    client = Client()
    found = sources.source_of(client, client.view, "here")  # type: ignore[arg-type]
    assert found.settings is not None and found.settings.min_insync_replicas == 2
    assert found.unknown == (
        f"whether reassignments run: no controller answers: {silent}",
        f"the settings of broker 1, which may be others than the next one's: {silent}",
    )


@pytest.mark.parametrize(
    ("code", "is_gone"),
    [
        (ErrorCode.LEADER_NOT_AVAILABLE, False),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, False),
        (ErrorCode.UNKNOWN_SERVER_ERROR, False),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, True),
        (ErrorCode.UNKNOWN_TOPIC_ID, True),
    ],
)
def test_a_topic_that_metadata_answers_with_an_error_is_unknown_and_not_gone(
    code: ErrorCode, is_gone: bool
) -> None:
    polled = Polled()
    polled.view = view([1, 2, 3], t=[([3, 1, 2], [])], u=[([1], [])])
    nothing = MetadataLoaded(brokers=(), topics=(), states={})
    before = sources.refreshed_source(polled, "here", nothing).snapshot  # type: ignore[arg-type]
    polled.view = view([1, 3], u=[([3], [])])._replace(errors={"t": code, "new": code})

    seen = sources.refreshed_source(polled, "here", before)  # type: ignore[arg-type]

    assert [topic.topic for topic in seen.snapshot.topics] == (["u"] if is_gone else ["t", "u"])
    assert set(seen.snapshot.states) == ({tp("u-0")} if is_gone else {tp("t-0"), tp("u-0")})
    told = {
        change["name"] for line in lines_between(before, seen.snapshot, 1, 0) for change in line["changes"]
    }
    assert ("t" in told) == is_gone and {"2", "u-0"} <= told, "the others are told of"
    assert (f"topic t is taken as it was: {code.name}" in seen.unknown) != is_gone


@pytest.mark.parametrize("is_silent", [True, False])
def test_a_broker_all_of_whose_replicas_are_offline_is_gone_if_it_is_named_and_silent(
    monkeypatch: pytest.MonkeyPatch, is_silent: bool
) -> None:
    """One that answers has damaged logs alone: it was said to be gone, and the remedy was to start it."""
    client: Any = object()

    def silent(of: object, brokers: list[int]) -> dict[int, str]:
        assert of is client and list(brokers) == [2], "nobody else need be asked"
        return {2: "it does not answer"} if is_silent else {}

    monkeypatch.setattr(sources, "silent_brokers", silent)
    gone, failed = _offline(client, view([1, 2], t=[([1, 2, 3], [2, 3]), ([2], [2])]))
    assert (gone, failed) == (({2}, {}) if is_silent else (set(), {2: {tp("t-0"), tp("t-1")}}))


def test_a_broker_that_lost_one_directory_lives() -> None:
    nobody: Any = None  # is asked
    gone, failed = _offline(nobody, view([1, 2], t=[([1, 2], [2]), ([2, 1], [])]))
    assert (gone, failed) == (set(), {2: {tp("t-0")}})
    assert _offline(nobody, view([1], t=[([1, 3], [3])])) == (set(), {}), "3 is not even named"


def test_what_would_happen_is_asked_of_the_brokers_as_they_are_with_the_directories_they_have_lost() -> None:
    """No node names a failed directory, so a controller that takes over elects the replica in it, until its broker answers."""
    world = three("t", [2], [1, 3])
    lost = {2: frozenset({tp("t-0")}), 3: frozenset({tp("t-1")})}
    world.alter("t-1", [1])
    _, _, _, snapshot = world.election()
    context = Source("a cluster", snapshot, 1, 0, offline_directories=lost).decided()
    assert what_if(context, kill=[BrokerId(2)]).summary == {"stays offline": 1}
    (caught_up, died), _ = ask(context, [CatchUp(), Kill((BrokerId(1),))])
    assert caught_up.outcomes == () and died.summary == {"goes offline": 1, "stays offline": 1}


def test_times_are_read_as_people_write_them() -> None:
    assert parse_time("1767225600000") == 1_767_225_600_000
    assert parse_time("2026-01-01") == parse_time("2026-01-01T00:00:00+00:00") == 1_767_225_600_000
    assert parse_time("2026-01-01T01:00:00+01:00") == 1_767_225_600_000
    assert parse_time("2004-10-10T04:40:14.021") == 1_097_383_214_021, "no millisecond too early"
