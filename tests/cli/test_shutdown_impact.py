"""`shutdown-impact` and `roll plan`: what stopping brokers costs, and an order that costs nothing."""

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from odradek.advisor.roll_plan import roll_plan
from odradek.advisor.shutdown_impact import shutdown_impact as impact_of
from odradek.cli import roll_plan as roll_plan_module
from odradek.cli import sources
from odradek.cli.roll_plan import show as show_roll
from odradek.cli.shutdown_impact import show
from odradek.model.ids import BrokerId, TopicPartition
from odradek.model.values import replace
from tests.cli.conftest import Shell
from tests.controller.world import World, three
from tests.support import eventually, without_assertions


@pytest.fixture(scope="module")
def topics(shell: Shell) -> None:
    shell.ok("topic", "create", "s3", "--assign", "2")
    shell.ok("topic", "create", "pair", "--assign", "2,3", "-c", "min.insync.replicas=2")
    shell.ok("topic", "create", "safe", "--assign", "1,2,4")


@pytest.mark.usefixtures("topics")
def test_the_impact_names_the_outage_and_writes_the_remedy(shell: Shell, tmp_path: Path) -> None:
    remedy = tmp_path / "a remedy.json"
    code, out, _ = shell("shutdown-impact", "--broker", 2, "--out", remedy)
    assert code == 1
    first, *rest = out.splitlines()
    assert first == (
        "Stopping broker 2: 1 partition goes offline, no other live copy is in sync; "
        "1 partition goes under min.insync.replicas, acks=all is refused; another leader for 1."
    )
    assert any(line.split()[:4] == ["s3-0", "goes", "offline", "2"] for line in rest)
    assert rest[-1] == f"the remedy is in {remedy}: odradek reassign apply {shlex.quote(str(remedy))}"
    plan = {p["topic"]: p["replicas"] for p in json.loads(remedy.read_text())["partitions"]}
    assert set(plan) == {"s3", "pair"} and all(2 not in replicas for replicas in plan.values())
    found = shell.json("shutdown-impact", "--broker", 2)
    assert "s3-0" in found["refused_by"]["offline"] and found["refused_by"]["under-min"]


@pytest.mark.usefixtures("topics")
def test_scripts_that_hold_the_former_name_of_the_verb_go_on(shell: Shell) -> None:
    assert shell("shutdown-quote", "--broker", 4) == shell("shutdown-impact", "--broker", 4)
    code, out, _ = shell("--help", offline=True)
    assert code == 0 and "shutdown-impact" in out and "shutdown-quote" not in out


HANGS = "not known: whether broker 4 lives, which is taken for granted: it hangs; odradek what-if --kill 4 says what follows if it does not"


@pytest.mark.usefixtures("topics")
def test_no_promise_counts_on_a_broker_that_gives_no_answer(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is registered, and so in every ISR; where it leads, or too few are in sync without it, it is counted on."""
    shell.ok("topic", "create", "needs", "--assign", "1,4", "-c", "min.insync.replicas=1")
    verbs = (("shutdown-impact", "--broker", 1), ("roll", "plan", "--survive", 0, "--broker", 1))
    verbs += (("what-if", "--kill", 1, "--start", 1, "--catch-up"),)
    for verb in verbs:
        code, out, _ = shell(*verb)
        assert (code, "not known" in out) == (0, False), out
    monkeypatch.setattr(sources, "silent_brokers", lambda *_: {4: "it hangs"})
    for verb, says in zip(
        verbs,
        (
            "not known to be safe: ",
            "if nothing else dies, as long as broker 4 lives.",
            "not known to be safe",
        ),
        strict=True,
    ):
        code, out, _ = shell(*verb)
        assert code == 1 and says in out and HANGS in out.splitlines(), out
        assert HANGS.removeprefix("not known: ") in shell.json(*verb)["unknown"]
    # It is not counted on where it is what stops, restarts or dies itself, or has no replica.
    for verb in (
        ("shutdown-impact", "--broker", 4),
        ("roll", "plan", "--survive", 0, "--broker", 4),
        ("roll", "plan", "--survive", 0, "--broker", 3),
        ("what-if", "--kill", 4, "--start", 4, "--catch-up"),
        ("what-if", "--shut-down", 4, "--start", 4, "--catch-up"),
    ):
        code, out, _ = shell(*verb)
        assert (code, HANGS in out) == (0, False), out
    for verb in (("what-if", "--kill", 4), ("shutdown-impact", "--broker", 3)):
        assert HANGS not in shell(*verb)[1]
    shell.ok("topic", "delete", "needs", "--yes")
    # Broker 2 leads safe-0 without 1, and takes acks=all without 4.
    for verb in (("shutdown-impact", "--broker", 1), ("what-if", "--kill", 1)):
        code, out, _ = shell(*verb)
        assert (code, HANGS in out) == (0, False), out
    shell.ok("config", "set", "--topic", "safe", "min.insync.replicas=2")
    code, out, _ = shell("shutdown-impact", "--broker", 1)
    assert code == 1 and HANGS in out.splitlines(), out
    assert HANGS in shell("roll", "plan", "--broker", 3)[1].splitlines(), "of whom one may die"
    shell.ok("config", "set", "--topic", "safe", "min.insync.replicas=3")
    code, out, _ = shell("what-if", "--kill", 4, "--start", 4, "--catch-up")
    assert (code, HANGS in out) == (0, False), "it is started anew"
    shell.ok("config", "delete", "--topic", "safe", "min.insync.replicas")
    assert HANGS in shell("reassign", "plan", "--drain", 3)[1]
    monkeypatch.setattr(sources, "silent_brokers", lambda *_: {2: "it hangs"})
    assert "it hangs" not in shell("what-if", "--kill", 2)[1], "s3-0 is offline then, and needs it"


@pytest.mark.usefixtures("topics")
def test_a_broker_nobody_needs_is_safe_to_stop(shell: Shell) -> None:
    code, out, _ = shell("shutdown-impact", "--broker", 4)
    assert (code, out) == (0, "Stopping broker 4: safe: nothing goes offline; another leader for 0.\n")


def test_who_may_lose_records_and_who_has_to_catch_up_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    world = three("t", [2, 3])
    world.alter("t-0", [2])
    world.context.topic_configs["t"] = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
    show(impact_of(world.context, [BrokerId(2)]))
    assert capsys.readouterr().out.splitlines() == [
        "Stopping broker 2: 1 partition may lose acknowledged records, led by a replica not in sync; another leader for 1.",
        "PARTITION  BECOMES           LEADER  ISR     MIN ISR  MOVE FIRST TO",
        "t-0        may lose records  2 -> 3  2 -> 3        1  -",
        "t-0 is safe once broker 3 is in sync: odradek why t-0",
    ]


@pytest.mark.usefixtures("topics")
def test_a_roll_that_cannot_be_safe_has_a_counter_example(shell: Shell) -> None:
    code, out, _ = shell("roll", "plan")
    assert code == 1
    assert out.startswith("No order is safe: while ") and "What makes it safe:" in out
    found = shell.json("roll", "plan", "--broker", "2", "--survive", "0")
    assert [e["partition"] for e in found["counter_examples"]] == ["s3-0"]


@pytest.mark.parametrize(
    ("brokers", "survive", "advice"),
    [
        (1, 1, "It is the only broker: its partitions are offline while it restarts."),
        (1, 0, "It is the only broker: its partitions are offline while it restarts."),
        (
            2,
            1,
            "Two brokers cannot do more: accept one death less with --survive 0, or start a third one first.",
        ),
    ],
)
def test_a_roll_is_advised_no_copy_that_no_broker_could_hold(
    start_cluster: Callable[..., Any], brokers: int, survive: int, advice: str
) -> None:
    _, shell = start_cluster(brokers)
    shell.ok("topic", "create", "t", "-p", 1, "-r", brokers)
    out = eventually(
        lambda: (
            (answer := shell("roll", "plan", "--survive", survive))[0] == 1
            and advice in answer[1]
            and answer[1]
        ),
        what=advice,
    )
    assert "replication-factor" not in out and "third replica" not in out


@pytest.mark.parametrize(
    ("survive", "moved"),
    [
        (0, ["frail-0", "frail-too-0", "frail-too-1"]),
        (1, ["frail-0", "frail-too-0", "frail-too-1", "pair-0"]),
    ],
)
def test_the_copies_a_roll_is_advised_are_enough_and_no_others_are_taken(
    start_cluster: Callable[..., Any], tmp_path: Path, survive: int, moved: list[str]
) -> None:
    """The remedy is typed as it is printed: without --topic it would shrink every topic with more replicas, and a second copy is no
    remedy against a restart and a death."""
    _, shell = start_cluster(4)
    for name, assignment in (("frail", "1"), ("frail-too", "2:3"), ("pair", "1,2"), ("whole", "1,2,3,4")):
        shell.ok("topic", "create", name, "--assign", assignment)
    roll = ("roll", "plan", "--survive", str(survive))
    out = eventually(
        lambda: (answer := shell(*roll)[1]).count("frail") > 2 and answer, what="the brokers know them"
    )
    remedy = out.split("(odradek ")[1].split(")")[0].split()
    moves = shell.json(*remedy)
    assert [move["partition"] for move in moves["moves"]] == moved
    plan = tmp_path / "plan.json"
    shell.ok(*remedy, "--out", plan)
    shell.ok("reassign", "apply", plan, "--wait")
    eventually(lambda: shell(*roll)[0] == 0, what="the roll is safe then")


def test_two_brokers_are_advised_the_copy_they_can_hold(start_cluster: Callable[..., Any]) -> None:
    _, shell = start_cluster(2)
    shell.ok("topic", "create", "frail", "--assign", "1")
    advice = (
        "What makes it safe: a second copy first (odradek reassign plan --replication-factor 2 --topic frail), and one death "
        "less with --survive 0, or a third broker."
    )
    eventually(lambda: advice in shell("roll", "plan")[1], what=advice)


@pytest.mark.parametrize(
    ("replicas", "restarted", "has_room"),
    [([1, 2], [1], True), ([1, 2], [1, 2], False), ([1], [1, 2], True), ([1], [1, 2, 3], False)],
)
def test_replicas_are_to_be_moved_only_where_as_many_brokers_are_not_restarted(
    capsys: pytest.CaptureFixture[str], replicas: list[int], restarted: list[int], has_room: bool
) -> None:
    """A partition of two replicas finds no place on the only broker that stays."""
    context = three("t", replicas, replicas).context
    brokers = [BrokerId(number) for number in restarted]
    show_roll(roll_plan(context, brokers), context, None, brokers)
    out = capsys.readouterr().out
    assert "What makes it safe: a third copy first" in out
    assert ("or move them to brokers that are not restarted" in out) is has_room


def test_the_advice_of_a_roll_names_no_more_topics_than_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """Where every topic has two replicas it would be a line of all of them."""
    context = three("t", [1, 2], [1, 2]).context
    found = roll_plan(context, [BrokerId(1)])
    example = found.counter_examples[0]
    examples = tuple(
        replace(example, topic_partition=TopicPartition(f"t{number:02}", 0)) for number in range(12)
    )
    for example in examples:
        context.assignments[example.topic_partition] = context.assignments[TopicPartition("t", 0)]
    show_roll(replace(found, counter_examples=examples), context, None, [BrokerId(1)])
    advice = capsys.readouterr().out.splitlines()[-1]
    assert advice.count("--topic ") == 10 and "--topic t09 and 2 more topics, which --json names)" in advice


def test_a_roll_of_replicas_that_are_behind_waits_for_them(start_cluster: Callable[..., Any]) -> None:
    cluster, shell = start_cluster(3)
    controller = shell.json("cluster", "health")["controller"]
    victim, other = (b for b in (1, 2, 3) if b != controller)
    shell.ok("topic", "create", "t", "--assign", f"{other},{victim}")
    cluster.kill(victim)
    eventually(
        lambda: "odradek why t-0 says what is missing" in shell("roll", "plan")[1],
        what="the replica that is not in sync is the advice",
    )


@pytest.mark.usefixtures("topics")
def test_a_roll_that_is_safe_has_batches_and_a_checked_certificate(shell: Shell) -> None:
    found = shell.json("roll", "plan", "--broker", "1,4")
    assert found["safe"] and found["checked"]
    assert sorted(b for batch in found["batches"] for b in batch) == [1, 4]
    code, out, _ = shell("roll", "plan", "--broker", "1,4", "--survive", "0", "--at-once", "1")
    assert code == 0
    assert "The certificate was checked with the controller's own step" in out
    unchecked = shell("roll", "plan", "--broker", "1,4", "--no-check")[1]
    assert "The certificate was not checked" in unchecked
    assert out.startswith("2 steps; wait for full ISRs between two.") and "if nothing else dies" in out
    assert "not covered" not in out, "no death is to be survived, so none is spoken of"
    assert found["lost_by_one_death_anyway"] == ["s3-0"]
    assert (
        "not covered, one death takes them offline anyway: s3-0" in shell("roll", "plan", "--broker", "1")[1]
    )
    controller = shell.json("cluster", "health")["controller"]
    last = shell("roll", "plan", "--broker", f"4,{controller}", "--at-once", "1", "--survive", "0")[1]
    if controller in (1, 4):
        assert "controller, last" in last


def test_a_broker_that_is_not_there_cannot_be_stopped(shell: Shell) -> None:
    for verb, words in ((["shutdown-impact"], "cannot stop"), (["roll", "plan"], "cannot restart")):
        code, out, err = shell(*verb, "--broker", 7)
        assert (code, out) == (1, "") and words in err and "brokers alive: 1, 2, 3, 4" in err
        assert shell(*verb, "--broker", "seven")[0] == 2


def test_a_certificate_that_does_not_hold_is_not_shown_without_assertions_either(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`python -O` printed it, and that it was checked."""
    world = World().brokers(1, 2, 3)
    world.elect(1)
    world.create("t", [1, 2, 3])
    source = SimpleNamespace(decided=lambda: world.context, unknown=(), controller=1)
    monkeypatch.setattr("odradek.advisor.roll_plan.check", lambda *_: ["t-0 goes offline"])
    optimized = without_assertions(roll_plan_module)
    monkeypatch.setattr(optimized, "open_source", lambda **_: source)
    with pytest.raises(AssertionError, match="the certificate does not hold: t-0 goes offline"):
        optimized.plan.main([], standalone_mode=False)
