"""Every module of tests that waits for the machine stands in `real_time.txt`, with its reason."""

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "tests" / "real_time.txt"
# What waits on a real clock, a process or a thread; and the fixtures that start such.
WAITS = re.compile(
    r"\beventually\(|\bwait_until\(|\bwait_for\(|\bawait until\(|asyncio\.timeout\b|settimeout\("
    r"|time\.(?:monotonic|perf_counter|process_time)\b|\bperf_counter(?:_ns)?\(\)"
    r"|\bsubprocess\b|mark\.(?:process|spark)\b|\b(?:ProcessCluster|RunningCluster|running_cluster)\b"
    r"|\bdef test_\w+\([^)]*\b(?:shell|shared|start_cluster|zookeeper|spark|tools)\b"
)
# Names of theirs mean something else; or a clock is only named; or the time-outs are those of a simulated loop.
NOT_THESE = frozenset(
    {
        "tests/broker/test_loggers.py",
        "tests/demo/test_collector.py",
        "tests/sim/test_loop_and_network.py",
        "tests/test_real_time.py",
    }
)


def waiting() -> Iterator[str]:
    for file in sorted((ROOT / "tests").rglob("test_*.py")):
        name = file.relative_to(ROOT).as_posix()
        if name not in NOT_THESE and WAITS.search(file.read_text(encoding="utf-8")):
            yield name


def listed() -> dict[str, str]:
    """Module -> reason."""
    found: dict[str, str] = {}
    reason = ""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("  "):
            assert line.strip() not in found, f"{line.strip()} stands there twice"
            found[line.strip()] = reason
        elif line and not line.startswith("#"):
            reason = line
    return found


def test_whatever_waits_for_the_machine_is_listed_with_its_reason() -> None:
    reasons, found = listed(), set(waiting())
    assert sorted(found - set(reasons)) == [], "move the clock, or say in tests/real_time.txt why you cannot"
    assert sorted(set(reasons) - found) == [], (
        "they do not wait any more: take them out of tests/real_time.txt"
    )
    assert all(reasons.values())
