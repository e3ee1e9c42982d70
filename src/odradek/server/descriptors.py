"""File descriptors: as many as the system allows, and the last of them for the logs.

A new descriptor gets the lowest number that is free, so the number of a socket just accepted says how many are taken at
least, whoever holds them: segments, connections, the store. Nobody has to count. Where that is close to the limit, the
connection is refused: a client that is turned away comes back, while a log that can open no file can neither roll nor
be cut.
"""

import asyncio
import errno
import fcntl
import logging
import os
import resource
from contextlib import suppress

from odradek.log.files import hold_spare
from odradek.model.remedies import MORE_DESCRIPTORS, MORE_MEMORY
from odradek.server.log_limits import LimitedLog

logger = logging.getLogger("odradek.server")

NO_MEMORY = (
    f"the kernel has no memory for another file descriptor, so connections are not accepted: {MORE_MEMORY}"
)
NONE_IS_LEFT = f"no file descriptor is left, so connections are not accepted: {MORE_DESCRIPTORS}, or of the whole machine (fs.file-max)"

# The part of the limit that no client gets: a roll or a cut needs four for a moment, a flush one, and a partition that
# is made, or that a fetcher is to follow, one for as long as it is here.
RESERVED_SHARE = 8
LEAST_RESERVED = 16
MOST_RESERVED = 4096
# Those that even a storm of connections leaves, accepted by the hundred before the first of them is refused.
SPARE = 16
SPARE_AGAIN_S = 1.0
# With fewer it serves, and few clients.
LEAST_ADVISED = 1024
# Eight bytes of kernel memory each.
MOST_TABLED = 1 << 16


def take_all() -> None:
    """Raises the soft limit to the hard one, and says where that is low. The soft one is, mostly 1024, for programs that use `select`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(ValueError, OSError):  # macOS refuses what it calls unlimited: then it stays as it is
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if limit() < LEAST_ADVISED:
        logger.warning(
            "only %d file descriptors may be open, and the last %d are kept for the logs, so few connections are accepted; %s, to %d at least",
            limit(),
            reserved(limit()),
            MORE_DESCRIPTORS,
            LEAST_ADVISED,
        )
    _enlarge_table()


def _enlarge_table() -> None:
    """Before there is a second thread. Linux doubles the table of a process at its 64th, 256th, 512th, 1,024th ...
    descriptor, and where threads share it, the `open` or `accept` that finds it full waits until every processor has
    rescheduled (`synchronize_rcu` in the kernel's fs/file.c): 30 to 60 ms of the loop were seen at 250 Hz. It never
    shrinks, and a child that is forked gets one of its own size, so each broker does this by itself."""
    highest = min(limit(), MOST_TABLED) - 1
    end, other_end = os.pipe()
    try:
        with suppress(OSError):  # the limit of the whole system: the table grows when it must
            os.close(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, highest))
    finally:
        os.close(end)
        os.close(other_end)


def keep_spare(loop: asyncio.AbstractEventLoop) -> None:
    """From now on; those that a log needed are replaced as soon as there are others. That there are none is said: a loop that
    cannot accept a connection tries again and again, and says nothing."""
    limited = LimitedLog(logger, loop.time)

    def keep() -> None:
        want = hold_spare(SPARE)
        if want is not None:
            limited.warning("descriptors", NO_MEMORY if want.errno == errno.ENOMEM else NONE_IS_LEFT)
        loop.call_later(SPARE_AGAIN_S, keep)

    keep()


def limit() -> int:
    """Asked each time: an operator may change it while we run (prlimit)."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft if soft != resource.RLIM_INFINITY else 1 << 62


def reserved(limit: int) -> int:
    return max(LEAST_RESERVED, min(limit // RESERVED_SHARE, MOST_RESERVED))


def why_short(descriptor: int, *, is_protected: bool = False) -> str:
    """Of the number that a new connection has: "" while enough are left for the logs. A protected one may have half of
    those."""
    most = limit()
    kept = reserved(most) // (2 if is_protected else 1)
    if descriptor < most - kept:
        return ""
    return (
        f"{descriptor} of {most} file descriptors are taken, and the last {kept} are kept for the logs; "
        f"{MORE_DESCRIPTORS}"
    )
