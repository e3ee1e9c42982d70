"""What a person gets: exit codes, the last line, the trace, the time line, the shrunk plan, many seeds."""

import json
import re
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import odradek
from odradek.cli.verbs import VERBS
from odradek.sim import command, sweep
from odradek.sim.checkers.history import Anomaly
from odradek.sim.command import sim
from odradek.sim.plan import (
    ACTIONS,
    BATCH_KINDS,
    CLIENT_KINDS,
    FURTHER_KINDS,
    KINDS,
    RUDE_KINDS,
    Fault,
    Plan,
    classes_of,
    draw,
)
from odradek.sim.profile import SHARES, sampled
from odradek.sim.run import CORRECTNESS, CRASH, LIVENESS, OK, Outcome, describe
from odradek.sim.run import run as run_plan
from odradek.sim.shrink import shrunk
from odradek.sim.trace import Action, Recorder, folded
from tests.support import without_assertions

LAST_LINE = re.compile(
    r"seed \d+: ok, \d+ events, \d+ faults \([a-z, ]+\), \d+ acknowledged batches, \d+\.\d+ logical hours, trace [0-9a-f]{16}"
)


@pytest.fixture(autouse=True)
def _hashes_are_fixed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the command would begin anew in the place of this process."""
    monkeypatch.setenv("PYTHONHASHSEED", "0")


def called(*arguments: str) -> Result:
    return CliRunner().invoke(sim, list(arguments))


def failed(code: int) -> Outcome:
    outcome = Outcome(3, code, "I1: t-0: something is gone")
    outcome.anomalies = [Anomaly("I1", None, "something is gone"), Anomaly("I2", None, "and more")]
    outcome.injected = list(draw(3).faults[1:2])
    outcome.notes = [(float(n), f"change {n}") for n in range(80)]
    return outcome


def test_the_last_line_of_a_run_says_what_it_was() -> None:
    answer = called("--seed", "5")

    assert answer.exit_code == OK
    assert LAST_LINE.fullmatch(answer.stdout.splitlines()[-1])


@pytest.mark.parametrize("code", [CRASH, LIVENESS, CORRECTNESS])
def test_a_failing_seed_ends_with_its_code(code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "run_plan", lambda plan, **_: failed(code))
    monkeypatch.setattr(command, "_changes", lambda plan: ["1.0 BecomeLeader broker=1"])
    answer = called("--seed", "3")

    assert answer.exit_code == code
    assert "first broken: I1: t-0: something is gone" in answer.stdout
    assert "BecomeLeader broker=1" in answer.stdout
    assert answer.stdout.splitlines()[-1].startswith("seed 3: ")


def test_what_is_told_of_a_failure_names_the_faults_by_their_numbers_and_ends_with_fifty_changes() -> None:
    text = describe(failed(CORRECTNESS)).splitlines()

    assert text[0] == "seed 3"
    assert f"  1: {draw(3).faults[1]}" in text
    assert sum("change" in line and "changes" not in line for line in text) == 50
    assert "also: I2" in "\n".join(text)


def test_the_last_line_names_the_classes_of_the_faults_and_nothing_where_there_are_none() -> None:
    outcome = Outcome(3, faults=2)
    outcome.injected = [Fault(1.0, "pause", 0.0, 0.0), Fault(2.0, "late_watches", 0.0, 0.0)]

    assert ", 2 faults (processes, store), " in outcome.line
    assert ", 0 faults, " in Outcome(3).line


def test_every_kind_of_fault_has_its_class() -> None:
    for kind in (*KINDS, *FURTHER_KINDS, *CLIENT_KINDS, *BATCH_KINDS, *RUDE_KINDS, *ACTIONS):
        assert len(classes_of([kind])) == 1, kind


def test_a_kind_that_is_not_drawn_yet_is_drawn_where_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RUDE_KINDS, "late_bytes", ("F10", 0, 0.2, 12.0))
    monkeypatch.setattr(command, "run_plan", lambda plan, **_: Outcome(plan.seed, injected=list(plan.faults)))
    seeds = [str(seed) for seed in range(12)]
    without = [called("--seed", seed, "--json").stdout for seed in seeds]
    asked = [called("--seed", seed, "--json", "--also", "late_bytes").stdout for seed in seeds]
    again = [called("--seed", seed, "--json").stdout for seed in seeds]

    assert not any("late_bytes" in text for text in without)
    assert sum("late_bytes" in text for text in asked) >= 2
    assert without == again
    assert called("--seed", "1", "--also", "pause").exit_code == 2


def test_hashes_tell_runs_apart(tmp_path: Path) -> None:
    one, many, other = tmp_path / "one", tmp_path / "many", tmp_path / "other"
    assert called("--seed", "16", "--hashes", str(one)).exit_code == OK
    assert called("--seeds", "16:18", "--jobs", "1", "--hashes", str(many)).exit_code == OK
    assert called("--seed", "16", "--only", "0", "--hashes", str(other)).exit_code == OK

    assert re.fullmatch(r"16 \d+ [0-9a-f]{16}\n", one.read_text())
    assert many.read_text().startswith(one.read_text() + "17 ")
    assert other.read_text() != one.read_text()


def test_a_run_as_json() -> None:
    answer = called("--seed", "17", "--json")
    told = json.loads(answer.stdout)

    assert (told["seed"], told["code"]) == (17, 0)
    assert told["events"] > 500


def test_one_of_seed_and_seeds_is_wanted() -> None:
    assert called("--twice").exit_code == 2
    assert called("--seed", "1", "--seeds", "0:2").exit_code == 2
    assert called("--seeds", "7").exit_code == 2


def test_the_verb_is_in_the_table() -> None:
    assert VERBS["sim"][0] == "odradek.cli.sim"


# --------------------------------------------------------------------------------------------------- many seeds


def test_many_seeds_twice_in_other_processes_with_other_hashes() -> None:
    answer = called("--seeds", "16:18", "--twice", "--jobs", "1", "--count-faults")
    *table, last = answer.stdout.splitlines()

    assert answer.exit_code == OK, answer.stdout
    assert last.startswith("2 seeds twice (1 to the end), equal traces: 0 failed, ")
    assert any(line.split()[0] in {f.kind for n in range(16, 18) for f in draw(n).faults} for line in table)


def test_two_runs_that_differ_are_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def run_all(
        seeds: list[int], jobs: int, hash_seed: str, *, is_large: bool = False, **options: object
    ) -> list[tuple[Outcome, float, None]]:
        assert is_large == (hash_seed == "1"), "the second time all events are large"
        return [(Outcome(seed, events=9, trace_hash=int(hash_seed) + seed), 0.1, None) for seed in seeds]

    monkeypatch.setattr(sweep, "_run_all", run_all)
    said: list[str] = []
    code = sweep.sweep(range(2), jobs=1, again=2, count_faults=False, say=said.append)

    assert code == CORRECTNESS
    assert sum("two runs differ" in line for line in said) == 2


# ------------------------------------------------------------------------------------------- trace and time line


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []
        self.tags: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [value or "" for name, value in attributes if name in ("src", "href")]

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def test_the_trace_names_actions_and_the_time_line_shows_them(tmp_path: Path) -> None:
    plans = [plan for plan in map(draw, range(40)) if plan.has(frozenset({"kill_leader"}))]
    seed = min(plans, key=lambda plan: plan.duration_s).seed
    trace, html = tmp_path / "run.ndjson", tmp_path / "run.html"
    answer = called("--seed", str(seed), "--trace", str(trace), "--html", str(html))
    assert answer.exit_code == OK, answer.output
    actions = [json.loads(line) for line in trace.read_text(encoding="utf-8").splitlines()]

    assert {"BecomeLeader", "LeaderWrite", "FencedFollowerFetch", "ControllerElectLeader"} <= {
        action["action"] for action in actions
    }
    assert [a["event"] for a in actions] == sorted(a["event"] for a in actions)
    page = _Page()
    page.feed(html.read_text(encoding="utf-8"))
    words = " ".join(page.words)
    assert "script" not in page.tags and page.addresses == [], "one file, and nothing that runs"
    assert "kill_leader" in words and "broker 3" in words and f"seed {seed}" in words
    assert page.tags.count("rect") > 10


@cache
def recorded(seed: int) -> tuple[int, list[Action]]:
    """The hash of its trace, and what the recorder saw."""
    recorders: list[Recorder] = []
    outcome = run_plan(draw(seed), prepare=lambda world, history: recorders.append(Recorder(world, history)))
    return outcome.trace_hash, recorders[0].actions


def test_a_recorded_run_is_the_same_run() -> None:
    trace_hash, actions = recorded(17)

    assert trace_hash == run_plan(draw(17)).trace_hash
    assert len(actions) > 100


def test_every_write_of_a_leader_stands_in_the_trace() -> None:
    end: dict[tuple[int, str], int] = {}
    compared = 0
    for action in recorded(17)[1]:
        if action["action"] in ("LeaderWrite", "FencedFollowerFetch", "FollowerTruncate"):
            key = action["broker"], action["partition"]
            compared += key in end
            assert end.get(key, action["from"]) == action["from"], "no change of a log is passed over"
            end[key] = action["log_end_offset"]
        elif action["action"] in ("BrokerEnds", "ReplicaGone"):
            for key in [k for k in end if k[0] == action["broker"]]:
                del end[key]
    assert compared > 50


# ------------------------------------------------------------------------------------------------------- shrinking


def test_a_plan_is_shrunk_to_the_faults_that_matter_together() -> None:
    faults = tuple(Fault(float(n), "pause", 0.5, 0.5, 1.0) for n in range(17))
    plan = draw(0)
    plan = Plan(**{**{n: getattr(plan, n) for n in plan.__dataclass_fields__}, "faults": faults})
    runs = 0

    def run(attempt: Plan) -> Outcome:
        nonlocal runs
        runs += 1
        at = {fault.at_s for fault in attempt.faults}
        outcome = Outcome(0, CORRECTNESS if {3.0, 11.0} <= at else OK)
        outcome.anomalies = [Anomaly("I8", None, "gone")] if outcome.code else []
        return outcome

    smaller, outcome, kept = shrunk(plan, run(plan), run)

    assert kept == [3, 11]
    assert [fault.at_s for fault in smaller.faults] == [3.0, 11.0]
    assert outcome.code == CORRECTNESS
    assert smaller.producers == 1 and smaller.partitions == 1
    assert runs < 100


def test_another_failure_is_not_taken_for_the_same() -> None:
    faults = tuple(Fault(float(n), "pause", 0.5, 0.5, 1.0) for n in range(4))
    plan = draw(0)
    plan = Plan(**{**{n: getattr(plan, n) for n in plan.__dataclass_fields__}, "faults": faults})

    def run(attempt: Plan) -> Outcome:
        outcome = Outcome(0, CORRECTNESS)
        outcome.anomalies = [Anomaly("I8" if len(attempt.faults) > 2 else "I7", None, "")]
        return outcome

    _, outcome, kept = shrunk(plan, run(plan), run)

    assert len(kept) == 3
    assert outcome.anomalies[0].name == "I8"


# --------------------------------------------------------------------------------------------------------- profile


def test_the_shares_of_a_run_are_sampled() -> None:
    """The kernel's clock ticks every few milliseconds, so one run of this seed is a few dozen samples: too few to be certain of a
    share of an eighth."""
    with sampled() as shares:
        for _ in range(100):
            run_plan(draw(14))
            if sum(shares.samples.values()) >= 300:
                break
    lines = list(shares.lines(1000, 1.0))

    assert lines[0].startswith("1000 events per second")
    assert {"loop", "codec", "log"} <= {line.split()[0] for line in lines[1:]}


def test_a_share_is_of_files_that_there_are_and_of_every_room_of_a_world() -> None:
    root = Path(odradek.__file__).parent
    files = [path.relative_to(root).as_posix() for path in root.rglob("*.py")]
    named = [prefix for _, prefixes in SHARES for prefix in prefixes]

    assert [prefix for prefix in named if not any(file.startswith(prefix) for file in files)] == []
    assert {"sim/checkers", "sim/clients", "sim/faults", "sim/observed"} <= set(named)


# ------------------------------------------------------------------------------------ what cannot be, and what is left


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("--seed x", "'x' is not a valid integer"),
        ("--seeds 5:2", "'5:2' names no seeds"),
        ("--seeds 3:3", "'3:3' names no seeds"),
        ("--seeds 7", "as in --seeds 0:2000"),
        ("--seeds 0:²", "as in --seeds 0:2000"),
        ("--seeds 0:1000000000000", "up to 20000 at once"),
        ("--seeds 5:100000000000000000000", "up to 20000 at once"),
        ("--seed 42 --only 3,x", "'3,x' is no list of numbers"),
        ("--seed 42 --only 999", "faults, numbered from 0"),
        ("--seed 42 --html /no/such/folder/x.html", "there is no folder /no/such/folder"),
        ("--seed 42 --trace /no/such/folder/x", "there is no folder /no/such/folder"),
        ("--seeds 0:2 --jobs 0", "0 is not in the range"),
        ("--seed 1 --partitions 1000000", "1000000 is not in the range"),
        ("--seed 1 --producers 1000000", "1000000 is not in the range"),
        ("--seed 1 --duration 1e9", "is not in the range"),
        ("--seeds 0:2 --jobs 100000", "100000 is not in the range"),
        ("--seeds 0:2 --html x.html", "--html goes with --seed"),
        ("--seeds 0:2 --shrink", "--shrink goes with --seed"),
        ("--seeds 0:2 --json", "--json goes with --seed"),
        ("--seed 1 --count-faults", "--count-faults goes with --seeds"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_runs(
    arguments: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "run_plan", lambda plan, **_: pytest.fail("it ran"))
    answer = called(*arguments.split())

    assert answer.exit_code == 2
    assert says in answer.stderr


def test_what_shrinking_leaves_can_be_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says a command; the numbers are those of the seed's own faults; the last changes are of what is left."""
    ran: list[Plan] = []

    def run(plan: Plan, **_: object) -> Outcome:
        ran.append(plan)
        outcome = Outcome(plan.seed)
        if {draw(5).faults[0], draw(5).faults[1]} <= set(plan.faults):
            outcome.code, outcome.anomalies = CORRECTNESS, [Anomaly("I8", None, "gone")]
            outcome.injected = list(plan.faults)
        return outcome

    monkeypatch.setattr(command, "run_plan", run)
    monkeypatch.setattr("odradek.sim.shrink.shrunk", lambda plan, outcome: shrunk(plan, outcome, run))
    monkeypatch.setattr(command, "_changes", lambda plan: [f"{len(plan.faults)} faults"])
    monkeypatch.setattr("odradek.sim.plan.draw", lambda seed: _with_more_faults(draw(seed)))
    answer = called("--seed", "5", "--shrink")
    (left,) = [line for line in answer.stderr.splitlines() if line.startswith("left of it: ")]
    smallest = ran[-1]
    words = left.removeprefix("left of it: odradek sim ").split()

    assert words[:4] == ["--seed", "5", "--only", "0,1"]
    assert "  2 faults" in answer.stdout
    again = called(*words)
    assert again.exit_code == CORRECTNESS
    assert ran[-1] == smallest


def _with_more_faults(plan: Plan) -> Plan:
    more = tuple(Fault(20.0 + n, "pause", 0.5, 0.5, 1.0) for n in range(4))
    return replace(plan, faults=(*plan.faults[:2], *more), producers=3, partitions=2)


def test_a_smaller_workload_is_run_as_it_was_said() -> None:
    answer = called("--seed", "5", "--only", "none", "--duration", "1", "--partitions", "1", "--json")
    told = json.loads(answer.stdout)

    assert (told["code"], told["faults"]) == (OK, [])
    assert (
        told["logical_hours"] < 0.005
    )  # 0.007 as it is drawn; some of it is the time in which nothing happens


def test_random_hashes_are_not_taken_for_fixed_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "random")
    begun: list[list[str]] = []
    monkeypatch.setattr(command.os, "execv", lambda path, words: begun.append(words))
    called("--seeds", "7")

    assert begun[0][1:] == ["-m", "odradek.sim", "--seeds", "7"]


def test_a_run_begins_anew_where_it_would_assert_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Much of what a checker or the tested code says is an assertion; without them broken runs were called ok."""
    monkeypatch.setenv("PYTHONHASHSEED", "7")
    monkeypatch.setenv("PYTHONOPTIMIZE", "1")
    begun: list[dict[str, str]] = []
    monkeypatch.setattr(command.os, "execv", lambda path, words: begun.append(dict(command.os.environ)))
    monkeypatch.setattr(command, "run_plan", lambda plan, **options: Outcome(plan.seed, OK, "ok"))
    called("--seed", "7")
    assert begun == []
    CliRunner().invoke(without_assertions(command).sim, ["--seed", "7"])
    (environment,) = begun
    assert environment["PYTHONHASHSEED"] == "7" and "PYTHONOPTIMIZE" not in environment


def test_what_goes_on_all_the_time_is_one_line_between_two_changes() -> None:
    def write(event: int, broker: int, start: int) -> dict[str, object]:
        return {
            "at_s": event / 10, "event": event, "action": "LeaderWrite", "broker": broker, "partition": "t-0",
            "leader_epoch": 0, "from": start, "log_end_offset": start + 1,
        }  # fmt: skip

    other = {"at_s": 0.5, "event": 5, "action": "BrokerEnds", "broker": 3}
    found = list(folded([write(1, 1, 0), write(2, 2, 7), write(3, 1, 1), other, write(6, 1, 2)]))

    assert [(a["action"], a["event"]) for a in found] == [
        ("LeaderWrite", 2),
        ("LeaderWrite", 3),
        ("BrokerEnds", 5),
        ("LeaderWrite", 6),
    ]
    assert (found[1]["from"], found[1]["log_end_offset"], found[1]["times"]) == (0, 2, 2)
    assert "times" not in found[0]
