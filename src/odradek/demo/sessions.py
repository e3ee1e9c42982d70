"""A process with everything it starts: a session of its own, ended whole.

Spark's JVM starts Python workers that leave their process group, but not their session; so that is what is
counted and killed, and a signal to the terminal reaches none of them halfway through their work.
"""

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from odradek.testing.late_signals import late_signals

PATIENCE_S = 10.0


@contextmanager
def session(command: Sequence[str], *, stderr: Path) -> Iterator[subprocess.Popen[str]]:
    """The process, its standard output as a pipe; when the block is left nobody of its session lives."""
    process: subprocess.Popen[str] | None = None
    try:
        with stderr.open("ab") as log, late_signals():
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        yield process
    finally:
        if process is not None:
            end_session(process.pid)
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


def end_session(leader: int) -> None:
    """SIGKILL to all, until none is left: one that was being started may have been missed."""
    end = time.monotonic() + PATIENCE_S
    while members := members_of(leader):
        for pid in members:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > end:
            raise TimeoutError(f"processes {members} do not go away")
        time.sleep(0.01)


def members_of(leader: int) -> list[int]:
    """The living processes of the session; zombies have nothing left to end."""
    members = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            # A process may be called by any bytes.
            stat = (entry / "stat").read_text(encoding="utf-8", errors="replace")
            state, _, _, session_id = stat.rpartition(") ")[2].split()[:4]
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
        if int(session_id) == leader and state not in ("Z", "X"):
            members.append(int(entry.name))
    return sorted(members)
