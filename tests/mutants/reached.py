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
from importlib.util import find_spec
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
        # Only while a module was imported, as a decorator is: later tests see what it made, and do not enter it.
        self.by_importing: set[str] = set()

    def __call__(self, frame: FrameType, event: str, arg: Any) -> None:
        code = frame.f_code
        name = self._names.get(code, "")
        if name == "":
            name = self._names[code] = self._name(code)
            if name is not None and self._is_importing(frame):
                self.by_importing.add(name)
        if name is not None:
            self.now.add(name)
            if name in self.by_importing and not self._is_importing(frame):
                self.by_importing.remove(name)

    def _is_importing(self, frame: FrameType | None) -> bool:
        while frame is not None:
            if frame.f_code.co_name == "<module>" and frame.f_code.co_filename.startswith(self._package):
                return True
            frame = frame.f_back
        return False

    def _name(self, code: CodeType) -> str | None:
        if not code.co_filename.startswith(self._package):
            return None
        return f"{code.co_filename[len(self._package) :].lstrip(os.sep)}:{code.co_firstlineno}"

    def taken(self) -> list[str]:
        """What was entered since the last time, in order; counting begins anew."""
        taken, self.now = self.now, set()
        return sorted(taken)


class Reached:
    """The plugin of one worker. `entered` counts already: what a `conftest.py` imports is imported before a plugin is asked."""

    def __init__(self, file: Path, entered: Entered) -> None:
        self._file = file.open("w", encoding="utf-8")
        self._entered = entered
        self._took_s = 0.0

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
        _count(None)
        self._entered.now = self._entered.by_importing
        self._keep("")
        self._file.close()


def _count(entered: Entered | None) -> None:
    sys.settrace(entered)
    threading.settrace(entered)  # type: ignore[arg-type]


def _begun() -> Entered | None:
    spec = find_spec("odradek")  # which imports nothing
    if not os.environ.get(FOLDER) or spec is None or spec.origin is None:
        return None
    entered = Entered(str(Path(spec.origin).parent))
    _count(entered)
    return entered


# From the import of this plugin on: pytest imports `conftest.py` before it configures any plugin, and of what that has
# entered a change would be put in too late and survive.
_ENTERED = _begun()


def pytest_configure(config: pytest.Config) -> None:
    if _ENTERED is None:
        return
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker is None and config.getoption("numprocesses", None):
        _count(None)  # the head of workers
    else:
        file = Path(os.environ[FOLDER]) / f"{worker or 'alone'}.jsonl"
        config.pluginmanager.register(Reached(file, _ENTERED))
