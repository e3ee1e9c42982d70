"""Who can see a mutation: tests by the functions they enter, seeds of the simulator by the lines they run."""

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple, Self

from tests.mutants.sites import Site

ROOT = Path(__file__).parents[2]


class TestReach(NamedTuple):
    """`entered`: test -> functions, its module's shared fixtures included."""

    __test__ = False  # what pytest would take for tests

    entered: Mapping[str, frozenset[str]]
    took_s: Mapping[str, float]
    by_importing: frozenset[str]

    @classmethod
    def read(cls, files: Iterable[Path]) -> Self:
        """What the plugin `tests.mutants.reached` left."""
        entered: dict[str, frozenset[str]] = {}
        shared: dict[str, frozenset[str]] = {}
        took: dict[str, float] = {}
        for file in files:
            for text in file.read_text(encoding="utf-8").splitlines():
                line = json.loads(text)
                of, functions = line["of"], frozenset(line["functions"])
                if "::" in of:
                    entered[of], took[of] = functions, line["took_s"]
                else:
                    shared[of] = shared.get(of, frozenset()) | functions
        for test, functions in entered.items():
            entered[test] = functions | shared.get(test.split("::")[0], frozenset())
        return cls(entered, took, shared.get("", frozenset()))

    def is_entered_by_importing(self, function: str) -> bool:
        """Then what it made is kept, and replacing its code comes too late."""
        return function in self.by_importing

    def order(self, function: str, path: str, tests: Sequence[str], budget_s: float) -> list[str]:
        """Those of `tests` that enter `function`, modules whole and the most telling first, as far as `budget_s` goes;
        before them those that are not known yet."""
        unknown = [test for test in tests if test not in self.entered]
        knowing = [test for test in tests if function in self.entered.get(test, ())]
        modules: dict[str, list[str]] = {}
        for test in sorted(knowing, key=lambda test: -self._tells_of(path, test)):
            modules.setdefault(test.split("::")[0], []).append(test)
        chosen, left_s = list(unknown), budget_s
        for test in (test for of_module in modules.values() for test in of_module):
            left_s -= self.took_s[test]
            if left_s > 0:
                chosen.append(test)
        return chosen

    def _tells_of(self, path: str, test: str) -> float:
        """The share of what it enters that is in this file."""
        functions = self.entered[test]
        return sum(1 for each in functions if each.startswith(f"{path}:")) / len(functions)


class TestsFail(Exception):
    """Without any mutation."""

    __test__ = False  # what pytest would take for tests


def learn_tests(folder: Path, tests: Sequence[str], workers: int) -> TestReach:
    """Runs `tests` once, unless `folder` holds what an earlier run left: one that came to its end."""
    if not folder.exists():
        learning = folder.with_name(f"{folder.name}-now")
        shutil.rmtree(learning, ignore_errors=True)
        learning.mkdir(parents=True)
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "tests.mutants.reached",
            "-p",
            "no:cacheprovider",
        ]
        command += ["-n", str(workers), "--dist", "loadfile", "-m", "not process and not spark", *tests]
        # Whoever starts this from a test that a worker runs: the ones of this run are others, and each writes a file of its name.
        others = {name for name in os.environ if name.startswith("PYTEST_XDIST_")}
        environment = {name: value for name, value in os.environ.items() if name not in others}
        environment["ODRADEK_REACHED"] = str(learning)
        if code := subprocess.run(command, cwd=ROOT, env=environment).returncode:
            raise TestsFail(f"the tests end with {code}")
        learning.rename(folder)
    return TestReach.read(sorted(folder.glob("*.jsonl")))


class Lines:
    """A tracer (`sys.settrace`): which of these sites' lines are run."""

    def __init__(self, sites: Iterable[Site], package: Path) -> None:
        self._wanted: dict[str, set[int]] = {}
        for site in sites:
            self._wanted.setdefault(str(package / site.path), set()).add(site.line)
        self._of_code: dict[CodeType, bool] = {}
        self.run: set[tuple[str, int]] = set()

    def __call__(self, frame: FrameType, event: str, arg: Any) -> Any:
        code = frame.f_code
        is_wanted = self._of_code.get(code)
        if is_wanted is None:
            wanted = self._wanted.get(code.co_filename, set())
            is_wanted = any(line in wanted for _, _, line in code.co_lines())
            self._of_code[code] = is_wanted
        return self._line if is_wanted else None

    def _line(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "line":
            self.run.add((frame.f_code.co_filename, frame.f_lineno))
        return self._line


class Seeds(NamedTuple):
    """Of the code as it is: seed -> hash of its trace; site -> the seeds that run its line."""

    hashes: Mapping[int, str]
    reaching: Mapping[str, Sequence[int]]


class SimulatorFails(Exception):
    """Without any mutation."""


def learn_seeds(sites: Sequence[Site], count: int, package: Path) -> Seeds:
    from odradek.sim.plan import draw
    from odradek.sim.run import run

    hashes: dict[int, str] = {}
    reaching: dict[str, list[int]] = {site.name: [] for site in sites}
    lines = Lines(sites, package)
    for seed in range(count):
        lines.run.clear()
        threading.settrace(lines)
        sys.settrace(lines)
        try:
            outcome = run(draw(seed))
        finally:
            sys.settrace(None)
            threading.settrace(None)  # type: ignore[arg-type]
        if outcome.code:
            raise SimulatorFails(f"seed {seed} ends with {outcome.code}: {outcome.reason}")
        hashes[seed] = outcome.trace_hash
        for site in sites:
            if (str(package / site.path), site.line) in lines.run:
                reaching[site.name].append(seed)
    return Seeds(hashes, reaching)
