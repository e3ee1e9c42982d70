"""The numbered behaviours of groups (G, K), committed offsets (O), transactions (T) and producers (P), the traces that show them, and the tests.

    python -m tests.coordinator.rows                 write docs/coordinator-behaviours.md
    python -m tests.coordinator.rows --mutations [ROW ...]     which mutation of tests/mutants/table turns nothing of its row red

A trace ticks off the rows it shows, for it is played as a whole; a test does with `@pytest.mark.behaviour("G37")`.
"""

import ast
import json
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.behaviours import red_tests, rows_of, texts_with_a_marker
from tests.mutants.edit import site_of
from tests.mutants.mutant import Mutant
from tests.mutants.table import OF_COORDINATORS
from tests.mutants.trial import copied, with_change

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "coordinator-behaviours.md"
DATA = TESTS / "golden" / "coordinators" / "behaviours.json"


PLAYED = "::test_a_trace_is_answered_as_it_was_recorded"


class Row(NamedTuple):
    text: str
    traces: tuple[str, ...]
    tests: tuple[str, ...]

    @property
    def shown_by(self) -> set[str]:
        """The tests that tick it off, and its traces as tests."""
        players = {trace: "transaction_" if trace.startswith("transactions") else "" for trace in self.traces}
        played = {f"coordinator/test_{kind}traces.py{PLAYED}[{trace}]" for trace, kind in players.items()}
        return {*self.tests, *played}


def rows() -> dict[str, Row]:
    tests = ticked()
    known = json.loads(DATA.read_text(encoding="utf-8"))
    return {
        name: Row(row["text"], tuple(row["traces"]), tuple(tests.get(name, ())))
        for name, row in known.items()
    }


@cache
def ticked() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for path, text in texts_with_a_marker():
        name = path.relative_to(TESTS).as_posix()
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                for row in rows_of(node):
                    if isinstance(row, str):
                        found.setdefault(row, []).append(f"{name}::{node.name}")
    return found


def page() -> str:
    lines = [
        "<!-- Written by tests/coordinator/rows.py from the markers of the tests. -->",
        "",
        "# Behaviours of coordinators",
        "",
        "G: classic groups, K: groups of KIP-848, O: committed offsets, T: transactions, P: producers in the log. A trace is what",
        "Apache Kafka answered, request by request (`tests/golden/coordinators`); `tests/coordinator/test_traces.py` and",
        "`test_transaction_traces.py` play each to our coordinators, and",
        "[differences](differences.md) says where ours answers otherwise. E, P, C, S are the states Empty, PreparingRebalance,",
        "CompletingRebalance and Stable; numbers are error codes of the protocol.",
        "",
        "",
        "A mutation is a change of the code that turns a test or a trace of its row red (`python -m tests.coordinator.rows --mutations`",
        "runs them all).",
        "",
        "| # | behaviour | traces | tests | mutation |",
        "|---|---|---|---|---|",
    ]
    mutants = {row: mutant for mutant in OF_COORDINATORS for row in mutant.rows}
    for name, row in rows().items():
        tests = "<br>".join(f"`{test}`" for test in row.tests)
        mutant = mutants[name]
        mutation = f"{mutant.what} (`{mutant.edits[0].at}`)"
        lines.append(f"| {name} | {row.text} | {', '.join(row.traces)} | {tests} | {mutation} |")
    return "\n".join(lines) + "\n"


def survives(mutant: Mutant, shown_by: set[str]) -> bool:
    """Whether everything that shows its row stays green."""
    with tempfile.TemporaryDirectory() as scratch:
        source = with_change(copied(Path(scratch)), *map(site_of, mutant.edits))
        return not red_tests(shown_by, source)


def try_mutations(mutants: Iterable[Mutant], shown_by: Mapping[str, set[str]], wanted: Sequence[str]) -> int:
    """Those of the rows that are wanted, of all where none is named. 1: one of them survives."""
    survivors = 0
    for mutant in mutants:
        (row,) = map(str, mutant.rows)
        if not wanted or row in wanted:
            is_alive = survives(mutant, shown_by[row])
            survivors += is_alive
            print("SURVIVES" if is_alive else "red     ", mutant.name, mutant.what, sep="  ", flush=True)
    return min(survivors, 1)


if __name__ == "__main__" and "--mutations" in sys.argv:
    shown = {name: row.shown_by for name, row in rows().items()}
    sys.exit(try_mutations(OF_COORDINATORS, shown, sys.argv[2:]))
elif __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE}")
