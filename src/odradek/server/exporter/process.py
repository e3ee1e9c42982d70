"""What the process takes: processor time, memory, descriptors; names are those of Prometheus's own client libraries. And what runs in it."""

import os
import resource
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice

from odradek import __version__
from odradek.server.exporter.families import ROWS_AT_ONCE, Family, one, pieces, table

FAMILIES = table(
    Family("process_cpu_seconds_total", "counter", "Processor time of the process, in seconds."),
    Family("process_resident_memory_bytes", "gauge", "Memory of the process that is in use, in bytes."),
    Family("process_open_fds", "gauge", "File descriptors that are open."),
    Family("process_max_fds", "gauge", "File descriptors that may be open."),
    Family(
        "odradek_build_info",
        "gauge",
        "1; its labels name this release and its Python.",
        ("version", "python"),
    ),
)
_BUILD_INFO = "".join(
    pieces(FAMILIES["odradek_build_info"], [((__version__, sys.version.partition(" ")[0]), 1)])
)


def collect() -> Iterator[str]:
    yield _BUILD_INFO
    yield one(FAMILIES["process_cpu_seconds_total"], time.process_time())
    yield one(FAMILIES["process_max_fds"], resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    with suppress(FileNotFoundError):  # no Linux: left out
        yield one(FAMILIES["process_resident_memory_bytes"], _resident_bytes())
        count = 0
        with os.scandir("/proc/self/fd") as open_ones:
            while some := len(list(islice(open_ones, ROWS_AT_ONCE))):
                count += some
                yield ""
        yield one(FAMILIES["process_open_fds"], count)


def _resident_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize()
