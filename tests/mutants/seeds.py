"""Seeds of the simulator for one mutant: `python -m tests.mutants.seeds COUNT`, a line of JSON for each.

Stops after the first seed that fails. A line: seed, exit code, hash of the trace, reason.
"""

import json
import sys

from odradek.sim.plan import draw
from odradek.sim.run import OK, run


def main(count: int) -> int:
    for seed in range(count):
        outcome = run(draw(seed))
        line = {
            "seed": seed,
            "code": outcome.code,
            "hash": outcome.trace_hash,
            "reason": str(outcome.reason)[:200],
        }
        print(json.dumps(line), flush=True)
        if outcome.code != OK:
            return outcome.code
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
