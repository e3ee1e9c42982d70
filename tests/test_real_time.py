"""Every module of tests that waits for the machine, itself or by what it imports of the tests, stands in `real_time.txt`, with
its reason."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "tests" / "real_time.txt"
# What waits on a real clock, a process or a thread; and the fixtures that start such.
WAITS = re.compile(
    r"\beventually\(|\bwait_until\(|\bwait_for\(|\bawait until\(|asyncio\.timeout\b|settimeout\("
    r"|time\.(?:monotonic|perf_counter|process_time)\b|\b(?:perf_counter|process_time)(?:_ns)?\(\)"
    r"|\bsubprocess\b|\bin_child\(|mark\.(?:process|spark)\b|\b(?:ProcessCluster|RunningCluster|running_cluster)\b"
    r"|\bdef test_\w+\([^)]*\b(?:shell|shared|start_cluster|zookeeper|spark|tools)\b"
)
# As ruff lays them out. To look for them in the syntax trees of all tests took two seconds.
IMPORTS = re.compile(r"^[ ]*from (tests[\w.]*) import (?:\(([^)]*)\)|([^(\n]*))", re.MULTILINE)
NAMES = re.compile(r"(?<!as )\b[A-Za-z_]\w*\b")
# Names of theirs mean something else; or a clock is only named; or the time-outs are those of a simulated loop; or what they
# import waits elsewhere than in what they take of it.
NOT_THESE = frozenset(
    {
        "tests/benchmarks/test_instructions.py",
        "tests/controller/test_behaviours.py",
        "tests/sim/test_loop_and_network.py",
        "tests/spark/test_versions.py",
        "tests/store/test_zookeeper_plan.py",
        "tests/test_real_time.py",
        "tests/testing/test_rooms_of_tests.py",
    }
)
# What it has for whoever waits is known by its name (`eventually`, `subprocess`).
FOR_ALL = ROOT / "tests" / "support.py"


def found() -> Iterator[str]:
    for file in sorted((ROOT / "tests").rglob("test_*.py")):
        if any(map(waits, (file, *imported(file)))):
            yield file.relative_to(ROOT).as_posix()


@cache
def waits(file: Path) -> bool:
    return WAITS.search(file.read_text(encoding="utf-8")) is not None


def imported(file: Path) -> Iterator[Path]:
    """The modules of tests that this one names."""
    for module, in_brackets, on_a_line in IMPORTS.findall(file.read_text(encoding="utf-8")):
        names = NAMES.findall(in_brackets or on_a_line)
        for name in (module, *(f"{module}.{name}" for name in names)):
            path = ROOT / f"{name.replace('.', '/')}.py"
            if path.exists() and path != FOR_ALL:
                yield path


def listed() -> dict[str, str]:
    """Module -> reason."""
    modules: dict[str, str] = {}
    reason = ""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("  "):
            assert line.strip() not in modules, f"{line.strip()} stands there twice"
            modules[line.strip()] = reason
        elif line and not line.startswith("#"):
            reason = line
    return modules


def test_whatever_waits_for_the_machine_is_listed_with_its_reason() -> None:
    reasons, all_found = listed(), set(found())
    assert sorted(NOT_THESE - all_found) == [], "nothing is found in them any more"
    waiting = all_found - NOT_THESE
    assert sorted(waiting - set(reasons)) == [], (
        "move the clock, or say in tests/real_time.txt why you cannot"
    )
    assert sorted(set(reasons) - waiting) == [], (
        "they do not wait any more: take them out of tests/real_time.txt"
    )
    assert all(reasons.values())
