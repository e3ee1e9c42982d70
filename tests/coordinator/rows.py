"""The numbered behaviours of groups (G, K), committed offsets (O), transactions (T) and producers (P), the traces that show them, and the tests.

    python -m tests.coordinator.rows             write docs/coordinator-behaviours.md

A trace ticks off the rows it shows, for it is played as a whole; a test does with `@pytest.mark.behaviour("G37")`.
"""

import ast
import json
from pathlib import Path
from typing import NamedTuple

from tests.behaviours import rows_of

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "coordinator-behaviours.md"
DATA = TESTS / "golden" / "coordinators" / "behaviours.json"


class Row(NamedTuple):
    text: str
    traces: tuple[str, ...]
    tests: tuple[str, ...]


def rows() -> dict[str, Row]:
    tests = ticked()
    known = json.loads(DATA.read_text(encoding="utf-8"))
    return {
        name: Row(row["text"], tuple(row["traces"]), tuple(tests.get(name, ())))
        for name, row in known.items()
    }


def ticked() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        name = path.relative_to(TESTS).as_posix()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
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
        "| # | behaviour | traces | tests |",
        "|---|---|---|---|",
    ]
    for name, row in rows().items():
        tests = "<br>".join(f"`{test}`" for test in row.tests)
        lines.append(f"| {name} | {row.text} | {', '.join(row.traces)} | {tests} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE}")
