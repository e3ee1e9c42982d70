"""Which functions of the code each test enters: a plugin of pytest (`-p tests.mutants.reached`), and the table it leaves.

Only entries are counted, not lines: that costs a fraction of a run and is enough to leave out the tests that cannot see a
mutation. What a fixture enters that several tests share counts for every test of the module; what importing enters
counts for every test there is.
"""

import json
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

# A folder: each worker leaves one file there. Unset: nothing is counted.
FOLDER = "ODRADEK_REACHED"


class Entered:
    """Collects functions as `path:first line`, the path relative to the package."""

    def __init__(self, package: str) -> None:
        self._package = package
        self._names: dict[CodeType, str | None] = {}
        self.now: set[str] = set()

    def __call__(self, frame: FrameType, event: str, arg: Any) -> None:
        code = frame.f_code
        name = self._names.get(code, "")
        if name == "":
            name = self._names[code] = self._name(code)
        if name is not None:
            self.now.add(name)

    def _name(self, code: CodeType) -> str | None:
        if not code.co_filename.startswith(self._package):
            return None
        return f"{code.co_filename[len(self._package) :].lstrip(os.sep)}:{code.co_firstlineno}"

    def taken(self) -> list[str]:
        """What was entered since the last time, in order; counting begins anew."""
        taken, self.now = self.now, set()
        return sorted(taken)


class Reached:
    """The plugin of one worker."""

    def __init__(self, file: Path, package: str) -> None:
        self._file = file.open("w", encoding="utf-8")
        self._entered = Entered(package)
        self._took_s = 0.0
        sys.settrace(self._entered)
        threading.settrace(self._entered)

    def _keep(self, of: str, took_s: float = 0.0) -> None:
        line = {"of": of, "took_s": round(took_s, 3), "functions": self._entered.taken()}
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()

    def pytest_collection_finish(self) -> None:
        self._keep("")

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any], request: Any) -> Iterator[None]:
        before = self._entered.taken()
        try:
            return (yield)
        finally:
            if fixturedef.scope != "function":
                self._keep(str(request.node.nodeid).split("::")[0])
            self._entered.now.update(before)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._took_s += report.duration
        if report.when == "teardown":
            self._keep(report.nodeid, self._took_s)
            self._took_s = 0.0

    def pytest_unconfigure(self) -> None:
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]
        self._file.close()


def pytest_configure(config: pytest.Config) -> None:
    folder = os.environ.get(FOLDER)
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    is_head_of_workers = worker is None and config.getoption("numprocesses", None)
    if folder and not is_head_of_workers:
        import odradek

        package = str(Path(odradek.__file__).parent)
        config.pluginmanager.register(Reached(Path(folder) / f"{worker or 'alone'}.jsonl", package))
