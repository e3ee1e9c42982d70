"""A plan that was written down runs as it did; a file that cannot be run is refused with what would have worked."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from odradek.sim import command
from odradek.sim.checkers.history import Anomaly
from odradek.sim.command import sim
from odradek.sim.plan import Plan, draw
from odradek.sim.plan_file import MOST_BYTES, VERSION, Unusable, read, write
from odradek.sim.run import CORRECTNESS, OK, Outcome, most_events
from odradek.sim.shrink import shrunk


@pytest.fixture(autouse=True)
def _hashes_are_fixed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the command would begin anew in the place of this process."""
    monkeypatch.setenv("PYTHONHASHSEED", "0")


def called(*arguments: str) -> Result:
    return CliRunner().invoke(sim, list(arguments))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    write(draw(5), tmp_path / "plan.json")
    return tmp_path / "plan.json"


def changed(file: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    found = json.loads(file.read_text())
    change(found)
    file.write_text(json.dumps(found))
    return file


def test_every_plan_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    for seed in range(300):
        write(draw(seed), tmp_path / "plan.json")
        assert read(tmp_path / "plan.json") == draw(seed)


def test_a_plan_in_a_file_is_the_same_run_whatever_its_seed_draws_by_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "plan.json")
    written = called("--seed", "5", "--only", "0,2", "--duration", "3", "--save-plan", path)
    monkeypatch.setattr("odradek.sim.plan.draw", lambda seed: pytest.fail("it was drawn"))
    again = called("--plan", path)

    assert written.exit_code == again.exit_code == OK
    assert f"odradek sim --plan {path} runs it" in written.stderr
    assert again.stdout == written.stdout


def test_what_shrinking_leaves_of_a_file_is_told_by_its_numbers_and_can_be_written_down(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = read(file)

    def run(attempt: Plan, **_: object) -> Outcome:
        outcome = Outcome(attempt.seed)
        if plan.faults[1] in attempt.faults:
            outcome.code, outcome.anomalies = CORRECTNESS, [Anomaly("I8", None, "gone")]
            outcome.injected = list(attempt.faults)
        return outcome

    monkeypatch.setattr(command, "run_plan", run)
    monkeypatch.setattr("odradek.sim.shrink.shrunk", lambda plan, outcome: shrunk(plan, outcome, run))
    monkeypatch.setattr(command, "_changes", lambda plan: [])
    changed(file, lambda found: found["faults"].pop(0))
    plan = read(file)
    smaller = tmp_path / "smaller.json"
    answer = called("--plan", str(file), "--shrink", "--save-plan", str(smaller))

    assert f"left of it: odradek sim --plan {file} --only 1 " in answer.stderr
    assert f"  1: {plan.faults[1]}" in answer.stdout
    assert read(smaller).faults == (plan.faults[1],)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            lambda p: p.update(plan_version=VERSION - 1),
            f"version {VERSION - 1}, and this program reads {VERSION}",
        ),
        (lambda p: p.update(plan_version=VERSION + 1), "run it with the program that wrote it"),
        (lambda p: p.update(plan_version=True), "it is of version True"),
        (lambda p: p.pop("plan_version"), "it is no plan"),
        (lambda p: p.pop("faults"), "the plan lacks 'faults'"),
        (lambda p: p.update(colour="red"), "the plan has 'colour', which nobody knows"),
        (lambda p: p.update(brokers="3"), "'brokers': int is wanted, found '3'"),
        (lambda p: p.update(partitions=True), "'partitions': int is wanted, found True"),
        (lambda p: p.update(partitions=10**9), "'partitions': 1000000000 is not within 1 to 200"),
        (lambda p: p.update(producers=0), "'producers': 0 is not within 1 to 50"),
        (lambda p: p.update(duration_s=1e9), "'duration_s': 1000000000.0 is not within 0.1 to 600"),
        (lambda p: p.update(duration_s=float("nan")), "'duration_s': nan is not within"),
        (lambda p: p.update(brokers=2, replication_factor=3), "2 brokers, 'replication_factor' 3"),
        (lambda p: p.update(codec="brotli"), "'brotli' is none of none, gzip"),
        (lambda p: p.update(mixed_group="sticky"), "'sticky' is none of range, cooperative-sticky"),
        (lambda p: p.update(settings={"log.segment.bytes": 3}), "'settings': an object of strings is wanted"),
        (
            lambda p: p.update(settings={"log.segment.byte": "3"}),
            "'settings', 'states' or 'ledger': log.segment.byte: no such",
        ),
        (lambda p: p.update(states={"cleanup.policy": "burn"}), "'settings', 'states' or 'ledger'"),
        (lambda p: p.update(settings={"log.dirs": "/x"}), "'settings': log.dirs is the world's own"),
        (lambda p: p.update(settings={"ssl.keystore.location": "/x"}), "and not acted on"),
        (
            lambda p: p.update(settings={"offsets.topic.num.partitions": "201"}),
            "'offsets.topic.num.partitions': 201 is not within 1 to 200",
        ),
        (lambda p: p.update(faults={}), "'faults': a list of at most 10000 is wanted"),
        (lambda p: p["faults"].append(p["faults"] * 10), "an object is wanted"),
        (lambda p: p["faults"][0].update(kind="meteorite"), "fault 0: there is no kind 'meteorite' of fault"),
        (lambda p: p["faults"][1].update(target=1.0), "fault 1: target: 1.0 is not below 1"),
        (lambda p: p["faults"][1].update(at_s=-1), "'fault 1: at_s': -1 is not within 0 to 600"),
        (lambda p: p["faults"][1].pop("amount"), "fault 1 lacks 'amount'"),
    ],
)
def test_a_file_that_cannot_be_run_is_refused_before_anything_runs(
    change: Callable[[dict[str, Any]], object], says: str, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "run_plan", lambda plan, **_: pytest.fail("it ran"))
    answer = called("--plan", str(changed(file, change)))

    assert answer.exit_code == 2
    assert says in answer.stderr


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "it is no JSON"),
        ("[" * 100_000, "it is no JSON"),
        ("[1]", "it is no plan"),
        (" " * (MOST_BYTES + 1), "it has more than 4 MiB"),
    ],
)
def test_what_is_no_plan_at_all_is_refused(text: str, says: str, file: Path) -> None:
    file.write_text(text)
    with pytest.raises(Unusable, match=says):
        read(file)


def test_a_file_that_is_not_there_and_two_sources_at_once_are_refused(file: Path) -> None:
    assert "does not exist" in called("--plan", "no-such-file.json").stderr
    assert "one of --seed, --seeds and --plan is wanted" in called("--plan", str(file), "--seed", "1").stderr
    assert "--save-plan goes with --seed" in called("--seeds", "0:2", "--save-plan", "x.json").stderr


def test_a_run_that_somebody_made_larger_does_not_pass_for_one_that_goes_round_in_circles() -> None:
    drawn = draw(5)

    assert all(most_events(draw(seed)) == most_events(drawn) for seed in range(300))
    assert most_events(replace(drawn, duration_s=160.0)) == 10 * most_events(drawn)
    assert most_events(replace(drawn, partitions=30, producers=6)) == 20 * most_events(drawn)
