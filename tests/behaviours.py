"""The numbered behaviours of docs/behaviours.md, the tests that tick them off, and the mutations that prove it.

    python -m tests.behaviours             which rows have no test, which mutation turns nothing red
    python -m tests.behaviours --page      write docs/behaviours.md without running the mutations again

A test ticks rows off with `@pytest.mark.behaviour(98, 99)`. A mutation is one change of the code that must turn a
test of each of its rows red; it is made on a copy of `src`, never in place.
"""

import ast
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.mutants.edit import site_of
from tests.mutants.mutant import Mutant
from tests.mutants.table import OF_BEHAVIOURS
from tests.mutants.trial import copied, with_change

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "behaviours.md"
DATA = ROOT / "tests" / "golden" / "behaviours.json"
MARKER = "pytest.mark.behaviour"

# Rows whose tests stand in other rooms and carry no marker.
ELSEWHERE = {
    1: (
        "conformance/test_sessions.py::test_a_registration_has_version_1_from_birth_and_a_bounce_has_a_larger_epoch",
        "conformance/test_sessions.py::test_a_closed_session_takes_its_ephemerals_with_it",
    ),
    5: ("conformance/test_chroot.py::test_a_chrooted_session_sees_its_own_tree_only",),
    42: ("broker/test_leader_and_isr.py::test_every_version_of_leader_and_isr_makes_a_leader",),
    79: (
        "server/test_controller_runtime.py::test_a_dead_leader_is_replaced_and_a_silent_broker_delays_no_other",
    ),
    152: ("server/test_controller_runtime.py::test_what_a_broker_did_not_answer_is_sent_again_in_order",),
}


@dataclass(frozen=True)
class Behaviour:
    number: int
    text: str
    source: str


def behaviours() -> dict[int, Behaviour]:
    rows = json.loads(DATA.read_text(encoding="utf-8"))
    return {int(n): Behaviour(int(n), row["text"], row["source"]) for n, row in rows.items()}


@cache
def ticked() -> dict[int, tuple[str, ...]]:
    """Row -> tests that tick it off, as `room/test_file.py::test_name`, read from the markers."""
    found: dict[int, list[str]] = {}
    for path, text in texts_with_a_marker():
        name = path.relative_to(ROOT / "tests").as_posix()
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            for row in rows_of(node):
                if isinstance(
                    row, int
                ):  # those with a letter are the coordinators': tests/coordinator/rows.py
                    found.setdefault(row, []).append(f"{name}::{node.name}")
    for row, tests in ELSEWHERE.items():
        missing = [test for test in tests if not is_there(test)]
        assert not missing, f"row {row}: no such test: {missing}"
        found.setdefault(row, []).extend(tests)
    return {row: tuple(tests) for row, tests in sorted(found.items())}


def texts_with_a_marker() -> Iterator[tuple[Path, str]]:
    """Files of tests in which some row is ticked off. To parse them all takes a second and a half of a processor."""
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        if MARKER in text:
            yield path, text


def is_there(test: str) -> bool:
    file, _, name = test.partition("::")
    text = (ROOT / "tests" / file).read_text(encoding="utf-8")
    return re.search(rf"^(async )?def {name}\(", text, re.MULTILINE) is not None


def rows_of(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[int | str]:
    rows: list[int | str] = []
    for decorator in node.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == MARKER:
            rows += [ast.literal_eval(argument) for argument in decorator.args]
    return rows


def mutants_of(row: int) -> list[Mutant]:
    return [mutant for mutant in OF_BEHAVIOURS if row in mutant.rows]


def page() -> str:
    """docs/behaviours.md as it must be."""
    lines = [
        "<!-- Written by tests/behaviours.py from the markers of the tests and from tests/mutants/table. -->",
        "",
        "# Behaviours",
        "",
        "The behaviours that are demanded of a cluster, numbered, each with its [source](sources.md), the tests that tick it off, and a",
        "mutation of the code that turns one of them red (`python -m tests.behaviours` runs them all).",
        "",
        "| # | behaviour | source | tests | mutation |",
        "|---|---|---|---|---|",
    ]
    tests = ticked()
    for number, behaviour in sorted(behaviours().items()):
        named = "<br>".join(f"`{test}`" for test in tests.get(number, ()))
        proof = mutants_of(number)
        mutation = f"{proof[0].what} (`{proof[0].edits[0].at}`)" if proof else ""
        cells = [str(number), behaviour.text.replace("|", "\\|"), behaviour.source, named, mutation]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def survivors(mutant: Mutant) -> list[int]:
    """Rows of a mutant none of whose tests turned red."""
    with tempfile.TemporaryDirectory() as scratch:
        source = with_change(copied(Path(scratch)), *map(site_of, mutant.edits))
        red = red_tests({test for row in mutant.rows for test in ticked().get(row, ())}, source)
        return [row for row in mutant.rows if not red.intersection(ticked().get(row, ()))]


def red_tests(tests: set[str], source: Path) -> set[str]:
    """Those of `tests` that fail on the code in `source`."""
    environment = {**os.environ, "PYTHONPATH": f"{source}{os.pathsep}{ROOT}", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-rf", "--tb=no", "-p", "no:cacheprovider"]
    paths = [str(ROOT / "tests" / test) for test in sorted(tests)]
    done = subprocess.run(
        [*command, *paths], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode not in (0, 1):  # 2: the changed code cannot even be imported, which proves nothing
        raise AssertionError(f"pytest could not run:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    red = set()
    for line in done.stdout.splitlines():
        found = re.match(r"FAILED tests/(\S+?::\w+)", line)
        if found is not None:
            red |= {test for test in tests if test.startswith(found[1])}
    return red


def main(arguments: list[str]) -> int:
    if "--page" in arguments:
        PAGE.write_text(page(), encoding="utf-8")
        print(f"wrote {PAGE.relative_to(ROOT)}")
        return 0
    untested = [row for row in behaviours() if row not in ticked()]
    unproved = [row for row in behaviours() if not mutants_of(row)]
    print(f"rows without a test: {untested or 'none'}\nrows without a mutation: {unproved or 'none'}")
    failed = 0
    for mutant in OF_BEHAVIOURS:
        alive = survivors(mutant)
        if alive:
            failed += 1
            print(f"SURVIVES for rows {alive}: {mutant.what} ({mutant.edits[0].at})", flush=True)
    print(f"{len(OF_BEHAVIOURS)} mutations, {failed} survive for some row")
    return 1 if failed or untested else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
