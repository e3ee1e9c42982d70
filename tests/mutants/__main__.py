"""`python -m tests.mutants`: draws, tries out, goes on where an earlier run stopped, and prints the table.

Ctrl-C ends what runs, keeps the verdicts, and prints the table so far.
"""

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

import click
import pytest

from tests.mutants.drawing import ALL_ROOMS, OTHER_ROOMS, ROOMS, drawn
from tests.mutants.explained import explained
from tests.mutants.judge import Judge, seeds_of
from tests.mutants.patching import PACKAGE, key_of
from tests.mutants.reach import ROOT, Seeds, SimulatorFails, TestsFail, learn_seeds, learn_tests
from tests.mutants.sites import Change, Site
from tests.mutants.trial import Copies

JUDGES = ("tests", "simulator")
# What a mutation of the rooms is shown to. What needs processes or Spark is too slow here.
TESTS = (*(f"tests/{room}" for room in ALL_ROOMS), "tests/conformance", "tests/sim/test_scenarios.py")

Verdicts = dict[str, dict[str, Any]]


@click.command()
@click.option("--seed", default=1, show_default=True, help="Which mutations are drawn.")
@click.option("--count", default=100, show_default=True, help="How many, over all rooms.")
@click.option(
    "--rooms",
    default=",".join(ROOMS),
    show_default=True,
    help=f"Of which rooms; there are also {', '.join(OTHER_ROOMS)}; a folder inside one (log/compaction) is one too.",
)
@click.option(
    "--tests",
    default=",".join(TESTS),
    show_default=True,
    help="What judges as tests, learned once a results file.",
)
@click.option("--only", default="", help="Only those whose name holds this.")
@click.option("--judges", default=",".join(JUDGES), show_default=True, help="Who judges.")
@click.option("--seeds", default=200, show_default=True, help="Seeds of the simulator for each.")
@click.option(
    "--quiet-after",
    default=40,
    show_default=True,
    help="Seeds that run its line as ever, and no more are tried.",
)
@click.option(
    "--budget", default=300.0, show_default=True, help="Seconds of tests for each, as the tests took alone."
)
@click.option("--workers", default=2, show_default=True, help="For the one run that learns what tests enter.")
@click.option(
    "--results",
    type=click.Path(dir_okay=False, path_type=Path),
    default=ROOT / "out" / "mutants.jsonl",
    help="Where verdicts are kept, a line each; what stands there is not tried again.",
)
@click.option("--again", is_flag=True, help="Those that survived the tests are tried again, by the tests.")
@click.option("--list", "only_list", is_flag=True, help="Say what would be tried, and stop.")
def mutants(
    seed: int,
    count: int,
    rooms: str,
    tests: str,
    only: str,
    judges: str,
    seeds: int,
    quiet_after: int,
    budget: float,
    workers: int,
    results: Path,
    again: bool,
    only_list: bool,
) -> None:
    """Mutations drawn by a seed, each against the tests and against the simulator. What the tests enter is learned once and
    kept beside the results (`.reached`); delete it after larger changes."""
    sites = [
        site for site in drawn(PACKAGE, seed=seed, count=count, rooms=_rooms(rooms)) if only in site.name
    ]
    by = _chosen(judges, JUDGES)
    if only_list:
        for site in sites:
            click.echo(site.name)
        return
    results.parent.mkdir(parents=True, exist_ok=True)
    verdicts = read(results)
    is_whole = False
    try:
        with results.open("a", encoding="utf-8") as file:
            keep = Keeper(file, verdicts)
            if "tests" in by:
                survived = {name for name, verdict in verdicts.items() if verdict.get("test", "") is None}
                left = [
                    s
                    for s in sites
                    if "test" not in verdicts.get(s.name, {}) or (again and s.name in survived)
                ]
                _by_tests(left, tests.split(","), results.with_suffix(".reached"), workers, budget, keep)
            if "simulator" in by:
                left = [site for site in sites if "seed" not in verdicts.get(site.name, {})]
                _by_simulator(left, seeds, quiet_after, keep)
        is_whole = True
    except KeyboardInterrupt:
        click.echo("stopped; the table so far:", err=True)
    except (TestsFail, SimulatorFails) as failure:
        raise click.ClickException(f"{failure}; mend that first") from failure
    for row in table(sites, verdicts, explained()):
        click.echo(row)
    sys.exit(0 if is_whole else 1)


def _rooms(names: str) -> list[str]:
    for name in names.split(","):
        if name.split("/")[0] not in ALL_ROOMS or not (PACKAGE / name).is_dir():
            raise click.BadParameter(f"no {name}; there are {', '.join(ALL_ROOMS)} and their folders")
    return names.split(",")


def _chosen(names: str, known: Iterable[str]) -> list[str]:
    chosen = names.split(",")
    if unknown := sorted(set(chosen) - set(known)):
        raise click.BadParameter(f"no {', '.join(unknown)}; there are {', '.join(known)}")
    return chosen


class Keeper:
    """Writes each verdict down at once, and says it."""

    def __init__(self, file: TextIO, verdicts: Verdicts) -> None:
        self._file = file
        self._verdicts = verdicts

    def __call__(self, site: Site, **verdict: Any) -> None:
        self._verdicts.setdefault(site.name, {}).update(verdict)
        self._file.write(json.dumps({"name": site.name, **verdict}) + "\n")
        self._file.flush()
        if "test" in verdict:
            click.echo(f"{verdict['test'] or 'SURVIVES the tests'} | {site.name}", err=True)
        else:
            seen = "-" if verdict["seed"] is None else f"seed {verdict['seed']} ({verdict['code']})"
            told = f"{verdict['reached']} reach it, {verdict['seeds_run']} ran, {verdict['other_traces']} another way"
            click.echo(f"{seen}, {told} | {site.name}", err=True)


def _by_tests(
    sites: list[Site], tests: Sequence[str], folder: Path, workers: int, budget_s: float, keep: Keeper
) -> None:
    if not sites:
        return
    reach = learn_tests(folder, tests, workers)
    copies = Copies()
    copies.demand_green(site for site in sites if reach.is_entered_by_importing(key_of(site)))
    unpatched: list[Site] = []
    judge = Judge(
        sites,
        reach,
        budget_s=budget_s,
        told=lambda site, red, count: keep(site, test=red, tests_run=count),
        unpatched=unpatched.append,
    )
    options = [
        "-q",
        "-s",
        "-p",
        "no:cacheprovider",
        "--timeout",
        "60",
        "--rootdir",
        str(ROOT),
    ]
    code = pytest.main([*options, "-m", "not process and not spark", *tests], plugins=[judge])
    if code == pytest.ExitCode.INTERRUPTED:
        raise KeyboardInterrupt
    if code:
        raise click.ClickException(f"the tests could not be collected: {code!r}")
    for site in unpatched:
        keep(site, test=copies.red_test(site))


def _by_simulator(sites: list[Site], count: int, quiet_after: int, keep: Keeper) -> None:
    if not sites:
        return
    seeds: Seeds = learn_seeds(sites, count, PACKAGE)
    for site in sites:
        reaching = seeds.reaching[site.name]
        verdict = seeds_of(site, reaching, seeds.hashes, quiet_after)
        keep(site, **verdict, reached=len(reaching))


def read(results: Path) -> Verdicts:
    """A line that was cut off by the end of an earlier run is tried again."""
    verdicts: Verdicts = {}
    if results.exists():
        for text in results.read_text(encoding="utf-8").split("\n")[:-1]:
            line = json.loads(text)
            verdicts.setdefault(line.pop("name"), {}).update(line)
    return verdicts


def table(
    sites: Iterable[Site], verdicts: Mapping[str, Mapping[str, Any]], known: Mapping[Change, str]
) -> list[str]:
    """The counts by room, and by name whoever survived the tests."""
    rows = ["room         drawn  by tests  equivalent  change a trace  by simulator (of these)"]
    by_room: dict[str, list[Site]] = {}
    for site in sites:
        by_room.setdefault(site.path.split("/")[0], []).append(site)
        by_room.setdefault("all", []).append(site)
    for room in [*sorted(by_room.keys() - {"all"}), "all"]:
        of_room = by_room.get(room, [])
        found = [verdicts.get(site.name, {}) for site in of_room]
        by_tests = sum(1 for verdict in found if verdict.get("test") is not None)
        same = sum(1 for site in of_room if site.change in known)
        seen = [v for v in found if v.get("other_traces") or v.get("seed") is not None]
        by_seed = sum(1 for verdict in seen if verdict["seed"] is not None)
        rows.append(f"{room:12} {len(of_room):5}  {by_tests:8}  {same:10}  {len(seen):14}  {by_seed:12}")
    for site in by_room.get("all", []):
        if verdicts.get(site.name, {}).get("test", "") is None:
            reason = known.get(site.change)
            rows.append(f"survives: {site.name}" if reason is None else f"equivalent: {site.name}: {reason}")
    return rows


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":  # a trace may not depend on it; sets of strings elsewhere do
        os.execve(
            sys.executable,
            [sys.executable, "-m", "tests.mutants", *sys.argv[1:]],
            {**os.environ, "PYTHONHASHSEED": "0"},
        )
    mutants()
