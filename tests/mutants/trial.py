"""One mutant on a copy of `src`: does a test turn red, does a seed fail, does any seed run another way?"""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests.mutants.sites import Site, changed

ROOT = Path(__file__).parents[2]
# The room's own tests first: they are the quickest to turn red. What needs processes or Spark is too slow here.
TESTS = {
    "replication": ("replication", "broker", "scenarios"),
    "log": ("log", "broker", "scenarios"),
    "broker": ("broker", "server", "scenarios"),
    "protocol": ("protocol", "broker"),
    "records": ("records", "log", "broker"),
}
TESTS_TIMEOUT_S = 600
SEEDS_TIMEOUT_S = 600
MEMORY_BYTES = 6 << 30


class Verdict(NamedTuple):
    """`test`, `seed`: the first that caught it, None: it survived. `other_traces`: seeds that ran another way."""

    site: Site
    test: str | None
    seed: int | None
    seeds_run: int
    other_traces: int

    def as_dict(self) -> dict[str, Any]:
        return {**self._asdict(), "site": self.site._asdict(), "name": self.site.name}


def try_out(site: Site, *, seeds: int, hashes: Mapping[int, int]) -> Verdict:
    """`hashes`: seed -> hash of its trace in the code as it is."""
    with tempfile.TemporaryDirectory() as scratch:
        source = copied(Path(scratch))
        target = source / "odradek" / site.path
        target.write_text(changed(target.read_text(encoding="utf-8"), site), encoding="utf-8")
        test = red_test(source, site.path.split("/")[0])
        lines, is_over = run_seeds(source, seeds)
    failed = [line["seed"] for line in lines if line["code"]]
    if is_over and not failed:
        failed = [len(lines)]  # it never ended, or the process died: the seed after the last that did
    return Verdict(
        site,
        test,
        failed[0] if failed else None,
        len(lines),
        sum(1 for line in lines if line["hash"] != hashes.get(line["seed"])),
    )


def copied(scratch: Path) -> Path:
    source = scratch / "src"
    shutil.copytree(ROOT / "src", source)  # bytecode comes along: times of files are kept
    return source


def red_test(source: Path, room: str) -> str | None:
    """The first test that fails on the code in `source`; what it says when none of them could be run."""
    options = ["-x", "-q", "-rfE", "--tb=no", "-p", "no:cacheprovider", "-m", "not process and not spark"]
    paths = [str(ROOT / "tests" / folder) for folder in TESTS[room]]
    code, output = _run(source, ["-m", "pytest", *options, "--timeout", "60", *paths], TESTS_TIMEOUT_S)
    if code == 0:
        return None
    for line in output.splitlines():
        if line.startswith(("FAILED ", "ERROR ")):
            return line.split(" - ")[0]
    return "no end in time" if code is None else f"pytest ended with {code}"


def run_seeds(source: Path, count: int) -> tuple[list[dict[str, Any]], bool]:
    """What each seed said, and whether the process ended otherwise than by running them."""
    code, output = _run(source, ["-m", "tests.mutants.seeds", str(count)], SEEDS_TIMEOUT_S)
    lines = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    return lines, code is None or (code != 0 and not (lines and lines[-1]["code"]))


def _run(source: Path, arguments: list[str], timeout_s: float) -> tuple[int | None, str]:
    """Exit code (None: ended by us, it took too long) and standard output."""
    environment = {
        **os.environ,
        "PYTHONPATH": f"{source}{os.pathsep}{ROOT}",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
    }
    process = subprocess.Popen(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,  # so that what a test started ends with it
        preexec_fn=_limit_memory,
    )
    try:
        output, _ = process.communicate(timeout=timeout_s)
        return process.returncode, output
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        return None, output


def _limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
