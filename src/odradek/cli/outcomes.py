"""What verbs that do something say with `--json`: one shape, so that a program that can read one can read all.

    {"ok": true, "results": [{"target": "orders", "done": true, "error": null, ...}]}

`ok` is exit code 0. `done`: it was done now; false with no error: there was nothing to do, or --yes was not given. What
more a verb knows of a target stands beside. A question that cannot be put at all is `{"ok": false, "error",
"exit_code"}` on standard error, of every verb (main.py).
"""

from collections.abc import Sequence
from typing import Any

from odradek.cli.output import print_json


def outcome(target: object, *, done: bool, error: str | None = None, **more: Any) -> dict[str, Any]:
    return {"target": str(target), "done": done, "error": error, **more}


def print_outcomes(results: Sequence[dict[str, Any]], *, exit_code: int) -> None:
    print_json({"ok": exit_code == 0, "results": list(results)})
