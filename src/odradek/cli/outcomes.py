"""What verbs that do something say with `--json`: one shape, so that a program that can read one can read all.

    {"ok": true, "results": [{"target": "orders", "done": true, "error": null, ...}]}

`ok` is exit code 0. `done`: it was done now; false with no error: there was nothing to do, or --yes was not given. What
more a verb knows of a target stands beside. A question that cannot be put at all is `{"ok": false, "error",
"exit_code"}` on standard error, of every verb (main.py).
"""

from collections.abc import Callable, Sequence
from typing import Any

from odradek.cli.output import fail, print_json, print_table
from odradek.model.printable import named

Outcome = dict[str, Any]


def outcome(target: object, *, done: bool, error: str | None = None, **more: Any) -> Outcome:
    return {"target": str(target), "done": done, "error": error, **more}


def print_outcomes(results: Sequence[Outcome], *, exit_code: int) -> None:
    print_json({"ok": exit_code == 0, "results": list(results)})


def show_deletions(
    report: Sequence[Outcome],
    *,
    yes: bool,
    as_json: bool,
    headings: Sequence[str],
    cells: Callable[[Outcome], Sequence[object]],
) -> int:
    """What a verb that deletes says at its end, and its exit code. `headings` of the table, and the `cells` of a row
    between its target and what became of it.
    """
    failed = [entry for entry in report if entry["error"]]
    exit_code = 1 if failed or (report and not yes) else 0
    if as_json:
        print_outcomes(report, exit_code=exit_code)
    elif len(report) == len(failed) == 1:
        fail(f"{named(report[0]['target'])}: {report[0]['error']}")
    elif not report:
        print("none of them is there, so nothing was deleted")
    else:
        print("Deleted." if yes else "Nothing is deleted yet; --yes deletes, for good:")
        print_table(
            (*headings, ""),
            [
                (
                    named(entry["target"]),
                    *cells(entry),
                    entry["error"] or ("deleted" if entry["done"] else ""),
                )
                for entry in report
            ],
        )
    return exit_code
