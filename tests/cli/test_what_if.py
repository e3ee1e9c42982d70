"""`what-if`: steps in the order they are written, asked one after another."""

from collections.abc import Callable
from typing import Any

import pytest
from click import UsageError

from odradek.advisor.what_if_steps import (
    CatchUp,
    Configure,
    Elect,
    Kill,
    Reassign,
    ShutDown,
    Start,
    Step,
    ask,
)
from odradek.cli.sources import Source
from odradek.cli.what_if import (
    InOrder,
    as_dict,
    how_they_ended,
    next_controller,
    parse_step,
    show,
    without_replicas,
)
from odradek.model.facts import MetadataLoaded
from odradek.model.ids import BrokerId, TopicPartition
from tests.cli.conftest import Shell
from tests.controller.six import ids
from tests.controller.test_eligible import last_one_standing
from tests.controller.world import three
from tests.support import eventually


@pytest.fixture(scope="module")
def topic(shell: Shell) -> str:
    shell.ok("topic", "create", "asked", "--assign", "1,2:2,3", "-c", "min.insync.replicas=2")
    return "asked"


def test_an_unclean_election_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    world = three("t", [2, 3])
    world.alter("t-0", [2])
    world.context.topic_configs["t"] = {"unclean.leader.election.enable": "true"}
    answers, _ = ask(world.context, [Kill((BrokerId(2),))])
    show(answers, Source("a world", MetadataLoaded((), (), {}), 1, 0), None)
    lost = "acknowledged records may be lost in t-0: led by a replica that was not in sync"
    assert capsys.readouterr().out.splitlines()[-1] == lost
    told = as_dict(answers, False, True)["partitions"]
    assert [p["unclean"] for p in told] == [True]  # type: ignore[attr-defined]


def test_which_of_several_replicas_that_are_behind_leads_is_called_unknown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    world = three("t", [2, 3, 1])
    world.alter("t-0", [2])
    world.context.topic_configs["t"] = {"unclean.leader.election.enable": "true"}
    answers, _ = ask(world.context, [Kill((BrokerId(2),))])
    show(answers, Source("a world", MetadataLoaded((), (), {}), 1, 0), None)
    said = "not known: which replica leads t-0 then; of 3,1 for t-0, the one with the longest log does"
    assert capsys.readouterr().out.splitlines()[-1] == said
    assert as_dict(answers, False, True)["partitions"][0]["may_lead"] == [3, 1]  # type: ignore[index]


def test_how_a_broker_ended_that_is_away_is_called_unknown_where_it_counts() -> None:
    """What was answered took a crash for granted, and did not say so."""
    world = last_one_standing()

    def unknown(*steps: Step) -> list[str]:
        answers, _ = ask(world.context, steps)
        return how_they_ended(world.context, steps, answers)

    two = BrokerId(2)
    (said,) = unknown(Start((two,)))
    assert said == (
        "how broker 2 ended, which only the broker itself can tell; a crash is taken for granted. After a stop in order: "
        "e-0 stays under min ISR, led by 2"
    )
    assert unknown(Start((two,)), Kill((two,)), Start((two,))) == [], "the last step crashed it"
    other = three("t", [2])
    other.kill(2)
    answers, _ = ask(other.context, [Start((two,))])
    assert how_they_ended(other.context, [Start((two,))], answers) == [], "it leads again, however it ended"
    assert unknown(Kill((BrokerId(3),)), Start((BrokerId(3),))) == [], "a step says how it ended"


def test_steps_are_taken_in_the_order_they_are_written(shell: Shell, topic: str) -> None:
    found = shell.json("what-if", "--kill", "2", "--start", "2", "--catch-up", "--kill=3")
    assert [step["question"] for step in found["steps"]] == ["kill 2", "start 2", "catch up", "kill 3"]
    verdicts = [{p["partition"]: p["verdict"] for p in step["partitions"]} for step in found["steps"]]
    assert verdicts[0] == {"asked-0": "falls under min ISR", "asked-1": "falls under min ISR"}
    assert verdicts[3] == {"asked-1": "falls under min ISR"}
    assert found["question"] == "kill 3" and not found["safe"]
    other = shell.json("what-if", "--kill", "3", "--start", "3", "--catch-up")
    assert [step["question"] for step in other["steps"]] == ["kill 3", "start 3", "catch up"]
    assert other["safe"]


def test_a_move_and_a_setting_change_what_comes_after(shell: Shell, topic: str) -> None:
    assert shell("what-if", "--kill", "2")[0] == 1
    code, out, _ = shell("what-if", "--reassign", "asked-0=1,3", "--reassign", "asked-1=4,3", "--kill", "2")
    assert code == 0
    assert out.endswith("at the end: every partition asked about accepts acks=all\n")
    code, out, _ = shell("what-if", "--config", "asked:min.insync.replicas=1", "--kill", "2")
    assert code == 0 and "asked-1" in out and "2 -> 3" in out
    code, out, _ = shell("what-if", "--config", "asked:min.insync.replicas", "--kill", "2")
    assert code == 0 and out.startswith("delete min.insync.replicas of asked")


def test_where_all_that_had_the_records_crashed_they_may_be_lost(shell: Shell) -> None:
    """The longest log leads, of those that may all be too short."""
    shell.ok("topic", "create", "doubt", "--assign", "1,2", "-c", "min.insync.replicas=2")
    lines = shell("what-if", "--kill", "1,2", "--start", "1,2")[1].splitlines()
    (said,) = [line for line in lines if line.startswith("acknowledged records may be lost in ")]
    assert said.endswith(": each replica that had them all may have lost some")
    assert "may be lost" not in shell("what-if", "--shut-down", 1, "--kill", 2, "--start", 1)[1]
    shell.ok("topic", "delete", "doubt", "--yes")


def test_a_start_that_brings_nothing_back_says_so(shell: Shell, topic: str) -> None:
    assert "no partition has a replica on broker 9" in shell("what-if", "--start", 9)[1].splitlines()
    assert "has a replica on" not in shell("what-if", "--start", 9, "--reassign", f"{topic}-0=9")[1]
    assert "has a replica on" not in shell("what-if", "--kill", 2, "--start", 2)[1]
    context = three().context.fork()
    steps = [Start(ids(9)), Kill(ids(9)), Start(ids(9))]
    assert without_replicas(context, context, steps) == [9]
    context.out_of_service = {"u": "/brokers/topics/u: not JSON"}
    assert without_replicas(context, context, steps) == [], "nobody knows where u has its replicas"


def test_a_default_of_the_whole_cluster_is_deleted_where_it_is_set(shell: Shell) -> None:
    shell.ok("topic", "create", "plain", "--assign", "1,2")
    shell.ok("config", "set", "--cluster", "min.insync.replicas=2")

    def minimum(*steps: str) -> int:
        found = shell.json("what-if", *steps, "--kill", "2")
        (plain,) = (p for p in found["partitions"] if p["partition"] == "plain-0")
        return int(plain["min_insync_replicas"])

    eventually(lambda: minimum() == 2, what="the broker that is asked has heard of it")
    assert minimum("--config", "min.insync.replicas") == 1
    shell.ok("config", "delete", "--cluster", "min.insync.replicas")


def test_what_an_earlier_step_broke_is_not_well_because_a_later_one_asks_of_something_else(
    shell: Shell, topic: str
) -> None:
    shell.ok("topic", "create", "calm", "--assign", "3,4")
    steps = ("--kill", "2", "--config", "calm:min.insync.replicas=1")
    code, out, _ = shell("what-if", *steps)
    assert code == 1 and out.endswith("at the end: not safe\n")
    assert not shell.json("what-if", *steps)["safe"]


def test_every_option_is_its_step() -> None:
    where = TopicPartition("a-b", 3)
    assert parse_step("--kill", "2,1") == Kill((1, 2))  # type: ignore[arg-type]
    assert parse_step("--start", "3") == Start((3,))  # type: ignore[arg-type]
    assert parse_step("--shut-down", "3") == ShutDown(3)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"one by one, as in --shut-down 1 --shut-down 2"):
        parse_step("--shut-down", "2,1")
    assert parse_step("--catch-up", "") == CatchUp()
    assert parse_step("--reassign", "a-b-3=2,1") == Reassign({where: (2, 1)})  # type: ignore[dict-item]
    assert parse_step("--config", "t:min.insync.replicas=2") == Configure("t", "min.insync.replicas", "2")
    assert parse_step("--config", "min.insync.replicas") == Configure(None, "min.insync.replicas", None)
    assert parse_step("--elect", "unclean:a-b-3") == Elect(True, (where,))
    assert parse_step("--elect", "preferred") == Elect(False, None)


@pytest.mark.parametrize(
    ("steps", "says"),
    [
        ([Kill((BrokerId(2),))], None),
        ([Kill((BrokerId(1),))], "another one is elected first"),
        ([ShutDown(BrokerId(1))], "another one is elected once it has stopped"),
        ([ShutDown(BrokerId(2)), CatchUp()], None),
        (
            [Kill((BrokerId(2),)), ShutDown(BrokerId(3)), ShutDown(BrokerId(1))],
            "no broker is left to be controller",
        ),
        (
            [ShutDown(BrokerId(1)), Kill((BrokerId(2), BrokerId(3)))],
            "another one is elected once it has stopped",
        ),
        (
            [Start((BrokerId(4),)), Kill((BrokerId(1), BrokerId(2), BrokerId(3)))],
            "another one is elected first",
        ),
        (
            [Kill((BrokerId(1), BrokerId(2), BrokerId(3))), Start((BrokerId(4),))],
            "no broker is left to be controller",
        ),
    ],
)
def test_whoever_is_controller_next_is_told_by_the_step_that_ends_the_present_one(
    steps: list[Step], says: str | None
) -> None:
    assert next_controller(1, [BrokerId(b) for b in (1, 2, 3)], steps) == says


def test_a_controller_that_is_shut_down_is_said(shell: Shell, topic: str) -> None:
    controller = shell.json("cluster", "health")["controller"]
    assert shell.json("what-if", "--shut-down", controller)["controller_dies"]
    out = shell("what-if", "--shut-down", controller)[1]
    assert out.startswith(
        f"broker {controller} is the controller: another one is elected once it has stopped\n"
    )


def test_the_controller_among_the_dead_is_said(shell: Shell, topic: str) -> None:
    controller = shell.json("cluster", "health")["controller"]
    assert shell.json("what-if", "--kill", controller)["controller_dies"]
    out = shell("what-if", "--kill", controller)[1]
    assert out.startswith(f"broker {controller} is the controller: another one is elected first\n")
    everybody = ("--kill", "1,2,3,4")
    out = shell("what-if", *everybody)[1]
    assert out.startswith(f"broker {controller} is the controller: no broker is left to be controller\n")
    out = shell("what-if", "--start", "5", *everybody)[1]
    assert out.startswith(f"broker {controller} is the controller: another one is elected first\n")
    out = shell("what-if", "--kill", "1,2,3,4")[1]
    assert out.startswith(f"broker {controller} is the controller: no broker is left to be controller\n")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ([], 2, "nothing is asked"),
        (["--kill", "9"], 1, "broker 9 is not alive, so it cannot die; brokers alive: 1, 2, 3, 4"),
        (["--kill", "x"], 2, "as in --kill 3"),
        (["--kill", "2", "--kill", "2"], 1, "broker 2 is not alive at that point; brokers alive: 1, 3, 4"),
        (["--start", "2"], 1, "broker 2 is alive already"),
        (["--reassign", "asked-0"], 2, "as in orders-0=1,2,3"),
        (["--reassign", "asked=1"], 2, "expected a partition, as in orders-0"),
        (["--reassign", "asked-0=a"], 2, "separated by commas"),
        (["--reassign", "asked-0=9"], 1, "not alive"),
        (["--config", "min.insync.replica=1"], 2, "did you mean min.insync.replicas?"),
        (["--config", "asked:min.insync.replicas=x"], 2, "asked:min.insync.replicas=x: "),
        (["--reassign", "asked-99999999999=1"], 2, "expected a partition, as in orders-0"),
        (["--reassign", "asked-0=99999999999"], 2, "separated by commas"),
        (["--config", "nope:min.insync.replicas=1"], 1, "there is no topic nope"),
        (["--elect", "clean"], 2, "expected preferred or unclean"),
    ],
)
def test_a_mistake_is_one_sentence(
    shell: Shell, topic: str, arguments: list[str], code: int, words: str
) -> None:
    found, out, err = shell("what-if", *arguments)
    assert (found, out) == (code, "")
    assert words in err and err.count("\n") == 1


def test_a_journal_answers_of_the_past(start_cluster: Callable[..., Any]) -> None:
    cluster, shell = start_cluster(3)
    shell.ok("topic", "create", "t", "--assign", "2,3")
    journal = cluster.cluster.directory
    found = shell.json("what-if", "--kill", "2", "--kill", "3", "--journal", journal, offline=True)
    assert [step["partitions"][0]["verdict"] for step in found["steps"]] == ["new leader", "goes offline"]
    first = shell.json("journal", "show", journal, offline=True)["steps"][0]["at_ms"]
    code, _, err = shell("what-if", "--kill", 2, "--journal", journal, "--at", first - 1, offline=True)
    assert code == 1 and "no broker was controller at" in err
    early = shell.json("what-if", "--kill", "1", "--journal", journal, "--at", first, offline=True)
    assert early["partitions"] == [], "before the topic was made"


def test_options_that_are_no_steps_are_left_to_click() -> None:
    assert issubclass(InOrder, __import__("click").Command)
