"""A plugin of pytest that, in place of running the tests it collected, runs them once for each mutation, in forked children.

A child gets the mutation (`tests.mutants.patching`), runs what may see it, most telling first, and ends at the first
red test. Its seeds of the simulator go the same way.
"""

import contextlib
import json
import os
import resource
import select
import signal
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import pytest

from tests.mutants.patching import CannotPatch, key_of, patch
from tests.mutants.reach import TestReach
from tests.mutants.sites import Site

MEMORY_BYTES = 6 << 30
# A child that says nothing for so long hangs: a verdict too. Each test has a time limit of its own.
SILENCE_S = 180.0

Tell = Callable[[Mapping[str, Any]], None]


class Told(NamedTuple):
    lines: list[dict[str, Any]]
    is_whole: bool  # False: it died or hung


def in_child(work: Callable[[Tell], None], silence_s: float = SILENCE_S) -> Told:
    """What `work` tells from a forked process, a line of JSON each."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        _be_a_child(work, writing)
    os.close(writing)
    try:
        with os.fdopen(reading, "rb", buffering=0) as pipe:
            data, is_hanging = _all_of(pipe, silence_s)
    finally:  # also at Ctrl-C, which reaches no child: each is a group of its own
        with contextlib.suppress(ProcessLookupError):  # it, and whatever a test had started
            os.killpg(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    lines = [json.loads(line) for line in data.split(b"\n")[:-1]]
    return Told([line for line in lines if line], not is_hanging and {} in lines and status is not None)


def _all_of(pipe: Any, silence_s: float) -> tuple[bytes, bool]:
    data = b""
    while select.select([pipe], [], [], silence_s)[0]:
        chunk = pipe.read(1 << 16)
        # The empty object is the last line: who was started by a test may hold the pipe open for longer.
        data += chunk
        if not chunk or data.endswith(b"\n{}\n") or data == b"{}\n":
            return data, False
    return data, True


def _be_a_child(work: Callable[[Tell], None], writing: int) -> None:
    try:
        os.setpgid(0, 0)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        nowhere = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1, 2):
            os.dup2(nowhere, standard)

        def tell(line: Mapping[str, Any]) -> None:
            os.write(writing, json.dumps(line).encode() + b"\n")

        work(tell)
        tell({})
    finally:
        os._exit(0)


class Judge:
    """`told(site, first red test or None, how many were run)` is called for each site whose code can be replaced;
    `unpatched` gets the others."""

    def __init__(
        self,
        sites: Sequence[Site],
        reach: TestReach,
        *,
        budget_s: float,
        told: Callable[[Site, str | None, int], None],
        unpatched: Callable[[Site], None],
    ) -> None:
        self._sites = sites
        self._reach = reach
        self._budget_s = budget_s
        self._told = told
        self._unpatched = unpatched

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        for site in self._sites:
            key = key_of(site)
            if self._reach.is_entered_by_importing(key):
                self._unpatched(site)
                continue
            order = self._reach.order(key, site.path, list(items), self._budget_s)
            self._judge(session, site, [items[name] for name in order])
        return True

    def _judge(self, session: pytest.Session, site: Site, items: list[pytest.Item]) -> None:
        heard = in_child(lambda tell: _run(session, site, items, tell))
        if any("unpatched" in line for line in heard.lines):
            self._unpatched(site)
            return
        red = next((line["red"] for line in heard.lines if "red" in line), None)
        begun = [line["begun"] for line in heard.lines if "begun" in line]
        if red is None and not heard.is_whole:
            red = f"{begun[-1] if begun else 'the start'} (died or hung)"
        self._told(site, red, len(begun))


def _run(session: pytest.Session, site: Site, items: list[pytest.Item], tell: Tell) -> None:
    try:
        patch(site)
    except CannotPatch:
        tell({"unpatched": True})
        return
    session.config.pluginmanager.register(_First(tell))
    for index, item in enumerate(items):
        tell({"begun": item.nodeid})
        following = items[index + 1] if index + 1 < len(items) else None
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)


class _First:
    """Ends the child at the first red test."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._tell({"red": report.nodeid})
            self._tell({})
            os._exit(0)


def seeds_of(site: Site, seeds: Sequence[int], hashes: Mapping[int, str], quiet_after: int) -> dict[str, Any]:
    """What the simulator makes of a mutation, in a forked child: the first seed that fails (None: none), how many seeds
    ran, how many of them another way. After `quiet_after` seeds that ran as ever, the others are taken to do so too."""
    from odradek.sim.plan import draw
    from odradek.sim.run import run

    def work(tell: Tell) -> None:
        try:
            patch(site)
        except CannotPatch:
            return
        others = 0
        for count, seed in enumerate(seeds, start=1):
            tell({"begun": seed})
            outcome = run(draw(seed))
            others += outcome.trace_hash != hashes[seed]
            tell({"seed": seed, "code": int(outcome.code), "other": outcome.trace_hash != hashes[seed]})
            if outcome.code or (count >= quiet_after and not others):
                return

    heard = in_child(work)
    done = [line for line in heard.lines if "code" in line]
    failed = next((line["seed"] for line in done if line["code"]), None)
    code = next((line["code"] for line in done if line["code"]), None)
    if failed is None and not heard.is_whole:  # it died, or hangs
        failed, code = next(line["begun"] for line in reversed(heard.lines) if "begun" in line), -1
    return {
        "seed": failed,
        "code": code,
        "seeds_run": len(done),
        "other_traces": sum(1 for line in done if line["other"]),
    }
