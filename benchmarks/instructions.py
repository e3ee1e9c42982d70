"""What simulated worlds cost in instructions: `python -m benchmarks.instructions [SEED...] [--against CHECKOUT]`.

Times of equal code differ by a third within an hour on a shared host; instructions, counted by valgrind's cachegrind, repeat to a
millionth, whatever else the machine does. They say nothing of caches and branches, so a pair of times belongs beside them. The worlds run in a
process that has run them once already: what only the first one imports and compiles is left out.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
SEEDS = (3, 8, 15)
# As a child of a sweep: nothing is collected, and nothing is let go of one by one.
WORLDS = """
import gc, os, sys
from odradek.sim import run
from odradek.sim.plan import draw
gc.disable()
events = sum(run.run(draw(int(seed)), ends_process=True).events for seed in sys.argv[1:])
print(events, flush=True)
os._exit(0)
"""
_COUNTED = re.compile(r"I\s+refs:\s+([\d,]+)")


class Cost(NamedTuple):
    events: int
    instructions: int

    @property
    def of_an_event(self) -> float:
        return self.instructions / self.events


def missing() -> str | None:
    """Why nothing can be counted here."""
    return None if shutil.which("valgrind") else "valgrind is not there; Debian's package valgrind has it"


def cost(checkout: Path, seeds: tuple[int, ...]) -> Cost:
    """Of the code below `checkout`, in this interpreter, without what only the first world of a process costs."""
    once = _counted(checkout, seeds)
    twice = _counted(checkout, seeds * 2)
    return Cost(twice.events - once.events, twice.instructions - once.instructions)


def _counted(checkout: Path, seeds: tuple[int, ...]) -> Cost:
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src"), "PYTHONHASHSEED": "0"}
    command = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
    command += [sys.executable, "-c", WORLDS, *map(str, seeds)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    found = _COUNTED.search(done.stderr)
    if done.returncode or found is None:
        raise RuntimeError(f"the worlds did not end well:\n{done.stderr[-2000:]}")
    return Cost(int(done.stdout), int(found[1].replace(",", "")))


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.instructions", description=__doc__.splitlines()[0]
    )
    parser.add_argument("seeds", nargs="*", type=int, default=SEEDS)
    parser.add_argument("--against", type=Path, metavar="CHECKOUT", help="another checkout, counted too")
    asked = parser.parse_args(arguments)
    if (why := missing()) is not None:
        print(why)
        return 1
    seeds = tuple(asked.seeds)
    here = cost(ROOT, seeds)
    print(f"{here.instructions:,} instructions, {here.events:,} events: {here.of_an_event:,.0f} an event")
    if asked.against is not None:
        there = cost(asked.against, seeds)
        print(f"{there.instructions:,} in {asked.against}: {here.instructions / there.instructions - 1:+.2%}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
