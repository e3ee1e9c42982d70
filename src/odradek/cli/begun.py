"""Since when this process runs: from its start on, before Python itself was there, and not from a line of ours."""

import time

# Field 22 of /proc/PID/stat, counted behind the name, which may hold spaces and brackets.
START_TIME_FIELD = 22 - 3


def seconds_since_start() -> float:
    """To a hundredth of a second; where the system does not tell, since this module was imported."""
    started = _started()
    if started is None:
        return time.monotonic() - _IMPORTED
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started


def _started() -> float | None:
    """Seconds after the machine's own start."""
    import os

    try:
        with open("/proc/self/stat", encoding="utf-8", errors="replace") as stat:
            fields = stat.read().rpartition(")")[2].split()
        return int(fields[START_TIME_FIELD]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return None


_IMPORTED = time.monotonic()
