"""`why`: plain sentences first, a tree of reasons below, from a live cluster, a store or a journal."""

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from odradek.advisor.what_if import WhatIf, what_if
from odradek.cli import silent_brokers, sources
from odradek.cli import why as why_verb
from odradek.cli.journal import files
from odradek.cli.sources import Source
from odradek.cli.why import answers_for, measure
from odradek.client import sync
from odradek.client.sync import SyncClient
from odradek.client.sync_connection import ConnectionLost
from odradek.controller.context import ControllerContext
from odradek.model.cluster import ReplicaAssignment
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError
from odradek.model.facts import MetadataLoaded, TopicAssignment
from odradek.model.ids import BrokerId, TopicPartition
from odradek.protocol.messages.describe_configs import DescribeConfigsRequest
from odradek.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from tests.cli.conftest import Shell
from tests.cli.test_sources import view
from tests.controller.world import World, registration, state
from tests.support import eventually


def test_what_is_well_is_said_so_in_one_line(shell: Shell) -> None:
    shell.ok("topic", "create", "fine", "--assign", "1,2:2,1")
    eventually(lambda: shell.json("why", "fine")["well"], what="every replica is in sync")
    assert shell.ok("why", "fine") == (
        "fine is well: 2 partitions, each with a leader and every replica in sync.\n"
    )
    assert shell.ok("why", "fine-1").startswith("fine-1 is well: broker 2, epoch 0, ISR ")


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("fin", "there is no topic, partition or group fin; did you mean fine?"),
        ("readerz", "there is no topic, partition or group readerz; did you mean readers?"),
        ("fine-9", "fine has 2 partitions, 0 to 1; there is no 9"),
        ("zzz", "there is no topic, partition or group zzz; topics there are: "),
    ],
)
def test_what_is_not_there_is_said_with_what_is(shell: Shell, target: str, words: str) -> None:
    shell("topic", "create", "fine", "--assign", "1,2:2,1", "--if-not-exists")
    shell("group", "seek", "readers", "--topic", "fine", "--to-earliest", "--yes")
    code, out, err = shell("why", target)
    assert (code, out) == (1, "") and words in err


def test_a_broker_that_is_lost_for_good_is_drained_as_it_is_said(
    start_cluster: Callable[..., Any], tmp_path: Path
) -> None:
    cluster, shell = start_cluster(4)
    victim = next(b for b in (1, 2, 3, 4) if b != shell.json("cluster", "health")["controller"])
    other = next(b for b in (1, 2, 3, 4) if b != victim)
    shell.ok("topic", "create", "lost", "--assign", f"{other},{victim}")
    cluster.kill(victim)
    text = eventually(
        lambda: "lost for good" in (found := shell("why", "lost")[1]) and found, what="it is missed"
    )
    (said,) = set(re.findall(r"odradek (reassign plan --drain \d+)", text))
    plan = tmp_path / "plan.json"
    shell.ok(*said.split(), "--out", plan)
    shell.ok("reassign", "apply", plan, "--wait")
    eventually(lambda: shell("why", "lost")[0] == 0, what="it is well without the lost one")


def test_a_leader_that_is_registered_and_does_not_answer_does_not_lead_well(
    start_cluster: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that has died counts as live, and leads, as long as the store has no room to end its session."""
    monkeypatch.setattr(silent_brokers, "ANSWER_WITHIN_S", 0.5)
    cluster, shell = start_cluster(3)
    victim = next(b for b in (2, 3) if b != cluster.controller)
    shell.ok("topic", "create", "led", "--assign", f"{victim},1:1,{victim}")
    eventually(lambda: shell("why", "led")[0] == 0, what="every replica is in sync")
    with cluster.paused(victim, session_ends_after_s=None):
        code, out, _ = shell("why", "led")
        assert code == 1 and "offline" not in out, "perhaps this client alone cannot reach it"
        assert out.startswith(
            f"1 of 2 partitions of led is not well.\nled-0 has a leader that does not answer (broker {victim}: "
        )
        assert f"Remedy: start broker {victim} if it has ended" in out
        assert "not known: whether" not in out, "it is said once"
        code, out, _ = shell("why", "led-1")
        assert code == 0 and out.startswith("led-1 is well: ")
        assert f"not known: whether broker {victim} lives: " in out


def test_that_clients_are_not_told_who_is_eligible_is_said_where_it_counts(
    start_cluster: Callable[..., Any],
) -> None:
    """One that was in sync when the ISR became too small has all that was acknowledged, and leads as soon as it comes."""
    cluster, shell = start_cluster(3)
    first, second = (b for b in (1, 2, 3) if b != cluster.controller)
    shell.ok("topic", "create", "few", "--assign", f"{first},{second}", "-c", "min.insync.replicas=2")
    shell.ok("topic", "create", "enough", "--assign", f"{second},{first}")
    open_question = (
        "not known: which replicas outside the ISR are eligible to lead few-0 without loss (KIP-966)"
    )
    cluster.stop_in_order(first)
    eventually(
        lambda: "in sync, min.insync.replicas 2" in shell("why", "few")[1], what="the ISR is too small"
    )
    assert open_question not in shell("why", "few")[1], "it has a leader"
    assert open_question not in shell("what-if", "--kill", second)[1], "nobody else is alive"
    assert open_question not in shell("what-if", "--start", first)[1], "it has a leader"
    assert open_question in shell("what-if", "--kill", second, "--start", first)[1]
    assert open_question in shell("what-if", "--kill", second, "--start", second)[1]
    assert open_question not in shell("what-if", "--shut-down", second, "--start", second)[1], "it has all"
    cluster.stop_in_order(second)
    eventually(lambda: "is offline" in shell("why", "few")[1], what="it is offline")
    assert open_question in shell("why", "few")[1]
    code, out, _ = shell("why", "enough")
    assert code == 1 and "KIP-966" not in out, "one was enough, so none is eligible beside it"
    code, out, _ = shell("what-if", "--start", first)
    assert code == 1 and open_question in out
    assert open_question in shell("what-if", "--start", second)[1], (
        "after a crash it does not lead if the first is eligible"
    )
    cluster.start(first)
    eventually(lambda: "is offline" not in shell("why", "few")[1], what="it leads")


def test_a_controller_that_hangs_is_waited_for_once(
    start_cluster: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each question to it took its whole time: reassignments, settings, its journal's place, a sign of life; 20 s together."""
    monkeypatch.setattr(silent_brokers, "ANSWER_WITHIN_S", 0.5)
    cluster, shell = start_cluster(3)
    victim = cluster.controller
    shell.ok("topic", "create", "led", "--assign", f"{victim},{victim % 3 + 1}")
    eventually(lambda: shell("why", "led")[0] == 0, what="every replica is in sync")
    asked: list[str] = []
    really = sync.SyncClient._call

    def call(client: sync.SyncClient, broker: int, request: Any, *args: Any) -> Any:
        if broker in (victim, sync.CONTROLLER):
            asked.append(type(request).__name__)
        return really(client, broker, request, *args)

    monkeypatch.setattr(sync.SyncClient, "_call", call)
    with cluster.paused(victim, session_ends_after_s=None):
        # By another: as a bootstrap the silent one would be waited for, too.
        code, out, _ = Shell(cluster.cluster.address(victim % 3 + 1))("why", "led")
    assert code == 1 and out.startswith(f"led-0 has a leader that does not answer (broker {victim}: ")
    assert "not known: whether reassignments run: no controller answers" in out
    assert asked == ["ApiVersionsRequest"]


@pytest.mark.parametrize("are_all", [False, True])
def test_a_silent_broker_is_no_bootstrap_of_what_is_asked_next(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, are_all: bool
) -> None:
    """Each client began with it, and waited. Where all are silent there may be another way to them."""
    monkeypatch.setattr(sources, "CONTROLLER_PATIENCE_S", 0)
    with SyncClient(shell.bootstrap) as client:
        known = client.cluster([]).brokers
    silent = {broker: "it hangs" for broker in known if are_all or broker == 1}
    monkeypatch.setattr(sources, "silent_brokers", lambda *_: silent)
    source = sources.from_cluster(shell.bootstrap)
    answering = ",".join(str(one.address) for broker, one in known.items() if broker not in silent)
    assert source.silent == silent and source.answering == (shell.bootstrap if are_all else answering)


def test_who_has_no_address_for_this_client_is_not_called_silent() -> None:
    """What the controller remembers has brokers that do not open this client's listener."""
    where = TopicPartition("t", 0)
    context: Any = SimpleNamespace(leadership=lambda _: SimpleNamespace(isr=(1, 2, 3)), brokers={1, 2})
    silent = {1: "it hangs", 3: "it hangs"}  # of those that Metadata names
    assert why_verb.members_that_are_silent(context, [where], silent) == {1: "it hangs"}


def test_a_partition_that_is_not_led_by_its_preferred_replica_is_well_and_could_be_quicker(
    start_cluster: Callable[..., Any],
) -> None:
    cluster, shell = start_cluster(3)
    controller = shell.json("cluster", "health")["controller"]
    victim, other = [b for b in (1, 2, 3) if b != controller]
    shell.ok("topic", "create", "slow", "--assign", f"{victim},{other}")
    cluster.kill(victim)
    text = eventually(
        lambda: (found := shell("why", "slow-0")[1]).startswith("slow-0 is under-replicated") and found,
        what="the dead replica is missed",
    )
    assert f"broker {victim} is not in the ISR (not registered)" in text
    assert (
        f"Remedy: start broker {victim}: it catches up and joins the ISR; if it is lost for good: "
        f"odradek reassign plan --drain {victim}."
    ) in text
    cluster.start(victim)
    found = eventually(
        lambda: (f := shell.json("why", "slow"))["well"] and f, what="the replica caught up", deadline_s=20
    )
    assert (
        f"its preferred replica {victim} does not lead (broker {other} leads)" in found["answers"][0]["hint"]
    )
    out = shell.ok("why", "slow-0")
    assert "may be slower than need be" in out and "-> odradek elect preferred slow-0" in out


def test_s3s_partition_is_explained_by_every_source(start_cluster: Callable[..., Any]) -> None:
    """An only replica whose broker is gone: the live cluster and the journal say the same of it."""
    cluster, shell = start_cluster(3)
    controller = shell.json("cluster", "health")["controller"]
    victim = next(b for b in (1, 2, 3) if b != controller)
    shell.ok("topic", "create", "s3", "--assign", victim)
    cluster.kill(victim)
    sentence = (
        f"s3-0 is offline, no member of its ISR is live (ISR [{victim}], live: []): broker {victim} is not live "
        f"(not registered). Remedy: start broker {victim}: then {victim} leads, ISR [{victim}]."
    )
    eventually(lambda: sentence in shell("why", "s3")[1], what="it is offline")
    live = shell.json("why", "s3-0")
    journal = shell.json("why", "s3-0", "--journal", cluster.cluster.directory, offline=True)
    assert (
        [a["sentence"] for a in live["answers"]] == [a["sentence"] for a in journal["answers"]] == [sentence]
    )
    (tree, *_) = live["answers"][0]["trees"]
    assert tree["condition"] == "s3-0 has a leader" and not tree["holds"]
    lines = shell("why", "s3-0")[1].splitlines()
    assert lines[0] == sentence
    assert lines[-1].strip() == "-> start broker 2: then 2 leads, ISR [2]"


def test_a_deletion_that_waits_names_the_broker_it_waits_for(start_cluster: Callable[..., Any]) -> None:
    cluster, shell = start_cluster(3)
    controller = shell.json("cluster", "health")["controller"]
    victim = next(b for b in (1, 2, 3) if b != controller)
    shell.ok("topic", "create", "gone", "--assign", f"{controller},{victim}")
    cluster.kill(victim)
    eventually(lambda: victim in shell.json("cluster", "health")["missing_brokers"], what="it is missed")
    out = shell.ok("topic", "delete", "gone", "--yes")
    assert out.endswith(f"gone: what broker {victim} has of it goes when that one is back\n")
    journal = cluster.cluster.directory
    text = eventually(
        lambda: (
            "1 of 2 replicas are gone" in (out := shell("why", "gone", "--journal", journal, offline=True)[1])
            and out
        ),
        what="the deletion waits for the victim alone",
    )
    assert f"broker {victim} has deleted gone-0" in text
    assert f"-> start broker {victim}: it is told to delete at once" in text
    text, _, unknown = text.rpartition("not known: ")
    assert unknown.startswith("the settings of the controller: ")
    assert shell("why", "gone")[1] == text, (
        "no client sees the topic any more; its controller's journal tells"
    )
    assert "there is no topic, partition or group none" in shell("why", "none")[2]


def test_what_a_foreign_cluster_does_not_tell_is_said(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster from before KIP-455 that lets nobody read configurations: metadata alone still answers."""
    shell("topic", "create", "fine", "--assign", "1,2:2,1", "--if-not-exists")
    original = SyncClient.call

    def call(self: SyncClient, broker: int, request: Any, **options: Any) -> Any:
        if isinstance(request, ListPartitionReassignmentsRequest):
            raise ProtocolError(ErrorCode.UNSUPPORTED_VERSION, "key 46 is not known")
        if isinstance(request, DescribeConfigsRequest):
            raise ProtocolError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "no")
        return original(self, broker, request, **options)

    monkeypatch.setattr(SyncClient, "call", call)
    out = shell.ok("why", "fine")
    assert (
        "not known: whether reassignments run: ListPartitionReassignments was answered UNSUPPORTED_VERSION"
        in out
    )
    assert (
        "min.insync.replicas is taken as 1: DescribeConfigs was answered CLUSTER_AUTHORIZATION_FAILED" in out
    )
    for verb in (["shutdown-impact", "--broker", "1"], ["roll", "plan"], ["what-if", "--kill", "2"]):
        assert len(shell.json(*verb)["unknown"]) >= 2, verb


def test_a_controller_that_dies_under_the_question_keeps_back_only_what_it_alone_knows(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that nobody reaches: to ask what runs changes nothing."""
    shell.ok("topic", "create", "kept", "--assign", "1,2")
    eventually(lambda: shell.json("why", "kept")["well"], what="every replica is in sync")
    original = SyncClient.call

    def call(self: SyncClient, broker: int, request: Any, **options: Any) -> Any:
        if isinstance(request, ListPartitionReassignmentsRequest):
            raise ConnectionLost("127.0.0.1:9092: connection reset by peer while waiting for the answer")
        return original(self, broker, request, **options)

    monkeypatch.setattr(SyncClient, "call", call)
    code, out, err = shell("why", "kept")
    assert (code, err) == (0, "") and out.startswith("kept-0 is well")
    assert out.endswith(
        "not known: whether reassignments run: 127.0.0.1:9092: connection reset by peer while waiting for the answer\n"
    )


def test_a_topic_of_many_partitions_is_explained_by_as_many_questions_as_there_are_brokers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each is a step of the controller with all partitions of a broker: asked for each of a thousand, a minute and more."""
    asked: list[tuple[BrokerId, ...]] = []

    def counted(context: ControllerContext, *, start: tuple[BrokerId, ...], **how: bool) -> WhatIf:
        asked.append(tuple(start))
        return what_if(context, start=start, **how)

    monkeypatch.setattr("odradek.advisor.explain.what_if", counted)
    dead = tuple(map(BrokerId, (1, 2, 3)))
    partitions = {number: ReplicaAssignment(dead) for number in range(50)}
    states = {TopicPartition("t", number): state(-1, [1, 2, 3]) for number in partitions}
    snapshot = MetadataLoaded((registration(4, 0),), (TopicAssignment("t", None, partitions),), states)
    answers = answers_for(Source("here", snapshot, 4, 0), "t", None, [])
    assert len(answers) == 50 and all("start broker 1: then 1 leads" in one.sentence for one in answers)
    assert len(asked) == 3


def test_a_long_list_of_throttled_replicas_is_not_repeated_for_each_partition(shell: Shell) -> None:
    shell.ok("topic", "create", "throttled", "-p", "100", "-r", "1")
    every = ",".join(f"{number}:1" for number in range(99))
    shell.ok("config", "set", "-t", "throttled", f"leader.replication.throttled.replicas={every}")
    answers = shell.json("why", "throttled")["answers"]
    assert [len(one["hint"]) < 300 for one in answers] == [True] * 100
    assert "is throttled" in answers[98]["hint"] and "is throttled" not in answers[99]["hint"]


def test_a_store_and_a_journal_at_once_is_one_too_many(shell: Shell) -> None:
    code, _, err = shell("why", "x", "--store", "a", "--journal", "b")
    assert (code, err) == (2, "odradek: --store and --journal are two sources; name one\n")
    code, _, err = shell("why", "x", "--at", "2026-01-01")
    assert code == 2 and "--at needs --journal" in err


def test_a_stopped_replica_is_waited_for_once_and_not_with_each_partition(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int] = []

    def call(_: object, broker: int, *__: object) -> Any:
        asked.append(broker)
        raise ConnectionLost(f"broker {broker}: no answer in time") from TimeoutError()

    monkeypatch.setattr(SyncClient, "_call", call)
    monkeypatch.setattr(SyncClient, "cluster", lambda *_: view([1, 2]))
    world = World().brokers(1, 2)
    world.elect(1)
    for topic in ("a", "b", "c"):
        world.create(topic, [1, 2])
    partitions = [TopicPartition(topic, 0) for topic in ("a", "b", "c")]
    assert measure(world.context, partitions, "h:1") == {where: {} for where in partitions}
    assert asked == [1, 2]


def test_that_the_controllers_journal_was_not_read_is_said(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether a topic is out of service stands there alone: behind a journal of 8 MiB it was called well, and no more was said."""
    shell.ok("topic", "create", "large", "-r", "1")
    assert shell.json("why", "large")["unknown"] == []
    monkeypatch.setattr(files.local_history, "__defaults__", (None, 0))
    (note,) = shell.json("why", "large")["unknown"]
    assert note.startswith("what the controller alone knows, as of topics that are out of service: "), note
    (_, place) = note.split("of its journal are not read unasked; --journal reads them, of ")
    assert Path(shlex.split(place)[0]).is_dir()
