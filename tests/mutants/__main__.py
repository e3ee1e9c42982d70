"""`python -m tests.mutants`: draws, tries out, goes on where an earlier run stopped, and prints the table."""

import json
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

from tests.mutants.drawing import ROOMS, drawn
from tests.mutants.trial import ROOT, Verdict, copied, run_seeds, try_out


@click.command()
@click.option("--seed", default=1, show_default=True, help="Which mutations are drawn.")
@click.option("--count", default=100, show_default=True, help="How many, over all rooms.")
@click.option("--rooms", default=",".join(ROOMS), show_default=True, help="Of which rooms.")
@click.option("--seeds", default=200, show_default=True, help="Seeds of the simulator for each.")
@click.option("--jobs", type=click.IntRange(min=1), default=2, show_default=True, help="Mutants at a time.")
@click.option(
    "--results",
    type=click.Path(dir_okay=False, path_type=Path),
    default=ROOT / "out" / "mutants.jsonl",
    help="Where verdicts are kept, a line each; what stands there is not tried again.",
)
@click.option("--list", "only_list", is_flag=True, help="Say what would be tried, and stop.")
def mutants(seed: int, count: int, rooms: str, seeds: int, jobs: int, results: Path, only_list: bool) -> None:
    """Mutations drawn by a seed, each against the tests of its room and against the simulator."""
    chosen = rooms.split(",")
    if unknown := sorted(set(chosen) - set(ROOMS)):
        raise click.BadParameter(f"no room {', '.join(unknown)}; there are {', '.join(ROOMS)}")
    sites = drawn(ROOT / "src" / "odradek", seed=seed, count=count, rooms=chosen)
    if only_list:
        for site in sites:
            click.echo(site.name)
        return
    results.parent.mkdir(parents=True, exist_ok=True)
    known = {line["name"]: line for line in _read(results)}
    left = [site for site in sites if site.name not in known]
    if left:
        with TemporaryDirectory() as scratch:
            lines, is_broken = run_seeds(copied(Path(scratch)), seeds)
        if is_broken or any(line["code"] for line in lines):
            raise click.ClickException("the simulator fails without any mutation; mend that first")
        hashes = {line["seed"]: line["hash"] for line in lines}
        with results.open("a", encoding="utf-8") as file, ThreadPoolExecutor(jobs) as pool:
            for verdict in pool.map(lambda site: try_out(site, seeds=seeds, hashes=hashes), left):
                file.write(json.dumps(verdict.as_dict()) + "\n")
                file.flush()
                known[verdict.site.name] = verdict.as_dict()
                click.echo(_line(verdict))
    for row in table([known[site.name] for site in sites]):
        click.echo(row)


def _read(results: Path) -> list[dict[str, Any]]:
    """A line that was cut off by the end of an earlier run is tried again."""
    if not results.exists():
        return []
    lines = results.read_text(encoding="utf-8").split("\n")
    return [json.loads(line) for line in lines[:-1]]


def _line(verdict: Verdict) -> str:
    by_seed = "-" if verdict.seed is None else f"seed {verdict.seed}"
    return f"{verdict.test or 'SURVIVES the tests'} | {by_seed}, {verdict.other_traces} other traces | {verdict.site.name}"


def table(verdicts: Iterable[dict[str, Any]]) -> list[str]:
    """The counts by room, and by name whoever survived the tests."""
    rows = ["room         drawn  by tests  change a trace  by simulator (of these)"]
    by_room: dict[str, list[dict[str, Any]]] = {}
    for verdict in verdicts:
        by_room.setdefault(verdict["site"]["path"].split("/")[0], []).append(verdict)
        by_room.setdefault("all", []).append(verdict)
    for room in [*sorted(by_room.keys() - {"all"}), "all"]:
        of_room = by_room.get(room, [])
        by_tests = sum(1 for v in of_room if v["test"] is not None)
        seen = [v for v in of_room if v["other_traces"] or v["seed"] is not None]
        by_seed = sum(1 for v in seen if v["seed"] is not None)
        rows.append(f"{room:12} {len(of_room):5}  {by_tests:8}  {len(seen):14}  {by_seed:12}")
    rows += [f"survives: {v['name']}" for v in by_room.get("all", []) if v["test"] is None]
    return rows


if __name__ == "__main__":
    mutants()
    sys.exit(0)
