"""Mutants on copies of `src`, each in a process of its own: for changes that only importing shows."""

import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic

from tests.mutants.reach import TestsFail
from tests.mutants.sites import Site, changed

ROOT = Path(__file__).parents[2]
# The room's own tests first: they are the quickest to turn red. What needs processes or Spark is too slow here.
TESTS = {
    "replication": ("replication", "broker"),
    "log": ("log", "broker"),
    "broker": ("broker", "server"),
    "protocol": ("protocol", "broker"),
    "records": ("records", "log", "broker"),
    "coordinator": ("coordinator", "broker"),
    "controller": ("controller", "advisor", "server"),
    "server": ("server",),
    "store": ("store", "conformance"),
    "client": ("client", "server"),
    "advisor": ("advisor", "cli"),
    "cli": ("cli", "testing"),
    "model": ("model", "controller", "cli", "store", "broker"),
    "pictures": ("pictures", "advisor", "demo"),
    "testing": ("testing", "cli"),
    "demo": ("demo",),
    "spark": ("spark",),
}
# With a change, which may have no end: so long, or three times what they took without one, as a busy machine may need.
TESTS_TIMEOUT_S = 600
# One of them: the longest takes half a minute alone, and where much else runs one of a minute was red without a change.
TEST_TIMEOUT_S = 180
GREEN_TIMEOUT_S = 3600
MEMORY_BYTES = 6 << 30


def copied(scratch: Path) -> Path:
    source = scratch / "src"
    shutil.copytree(ROOT / "src", source)  # bytecode comes along: times of files are kept
    return source


def with_change(source: Path, *sites: Site) -> Path:
    for site in sorted(
        sites, key=lambda site: site.start, reverse=True
    ):  # what is behind a change is moved by it
        target = source / "odradek" / site.path
        target.write_text(changed(target.read_text(encoding="utf-8"), site), encoding="utf-8")
    return source


class Copies:
    """Judges by the tests of a room, which are looked at once on a copy without a change: what is red there kills nothing."""

    def __init__(self) -> None:
        self._took_s: dict[str, float] = {}  # rooms that are green without a change

    def red_test(self, site: Site) -> str | None:
        self.demand_green([site])
        room = _room_of(site)
        return _red_test_with(room, site, timeout_s=max(TESTS_TIMEOUT_S, 3 * self._took_s[room]))

    def demand_green(self, sites: Iterable[Site]) -> None:
        """In the rooms of these. Raises TestsFail."""
        for room in sorted({_room_of(site) for site in sites} - self._took_s.keys()):
            begun_s = monotonic()
            if red := _red_test_with(room, timeout_s=GREEN_TIMEOUT_S):
                raise TestsFail(f"{room}, on a copy without a change: {red}")
            self._took_s[room] = monotonic() - begun_s


def _room_of(site: Site) -> str:
    return site.path.split("/")[0]


def _red_test_with(room: str, *sites: Site, timeout_s: float) -> str | None:
    with TemporaryDirectory() as scratch:
        return red_test(with_change(copied(Path(scratch)), *sites), room, timeout_s)


def red_test(source: Path, room: str, timeout_s: float) -> str | None:
    """The first test that fails on the code in `source`; what it says when none of them could be run."""
    options = ["-x", "-q", "-rfE", "--tb=no", "-p", "no:cacheprovider", "-m", "not process and not spark"]
    paths = [str(ROOT / "tests" / folder) for folder in TESTS[room]]
    code, output = _run(
        source, ["-m", "pytest", *options, "--timeout", str(TEST_TIMEOUT_S), *paths], timeout_s
    )
    if code == 0:
        return None
    for line in output.splitlines():
        if line.startswith(("FAILED ", "ERROR ")):
            return line.split(" - ")[0]
    return "no end in time" if code is None else f"pytest ended with {code}"


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
    except KeyboardInterrupt:  # which does not reach a session of its own
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise


def _limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
