"""`python -m odradek.sim.scenario [--rewrite] FILES`."""

import difflib
import sys
from pathlib import Path

from odradek.sim.scenario import play


def main(arguments: list[str]) -> int:
    """Plays files; with `--rewrite` the outcomes are written into them, else differences are shown."""
    rewrite = "--rewrite" in arguments
    failed = 0
    for name in arguments:
        if name.startswith("--"):
            continue
        path = Path(name)
        before = path.read_text(encoding="utf-8")
        after = play(before)
        if after == before:
            continue
        if rewrite:
            path.write_text(after, encoding="utf-8")
            sys.stdout.write(f"{name}: rewritten\n")
        else:
            failed += 1
            lines = difflib.unified_diff(before.splitlines(), after.splitlines(), name, "played", lineterm="")
            sys.stdout.write("\n".join(lines) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
