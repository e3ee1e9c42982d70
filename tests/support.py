"""What several tests need: waiting on a condition with a deadline, and the golden data."""

import ctypes
import gzip
import json
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

GOLDEN = Path(__file__).parent / "golden"
# A JVM that lives for seconds loses them to compiling well and to many threads.
SHORT_LIVED_JAVA = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"}
T = TypeVar("T")
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)  # now: after a fork nothing is to be loaded


def die_with_parent() -> None:
    """As `preexec_fn` of a process: it is killed when we end, however we end."""
    if sys.platform == "linux":
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def eventually(predicate: Callable[[], T], deadline_s: float = 30.0, what: str = "") -> T:
    """The first true value of `predicate`; AssertionError with `what` when the deadline passes first."""
    end = time.monotonic() + deadline_s
    while True:
        value = predicate()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {deadline_s} s: {what or predicate}; last value {value!r}")
        time.sleep(0.005)  # the only wait in the tests: a poll under a deadline


def golden_lines(name: str) -> Iterator[dict[str, Any]]:
    """The JSON lines of a golden file, gzip or plain."""
    path = GOLDEN / name
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)
