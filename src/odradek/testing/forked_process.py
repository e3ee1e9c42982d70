"""A process made by fork: it has imported already what its parent has, and starts in milliseconds instead of seconds.

For a parent with one thread, whose whole work is to start such processes (`odradek up`): locks that other threads hold
would stay locked in the child for ever.
"""

import contextlib
import gc
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Collection

# As a shell says it of a program that ended for a reason of its own.
FAILED = 1
LONGEST_PAUSE_S = 0.05
STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def can_fork() -> bool:
    """Elsewhere than on Linux the system's own libraries may not survive a fork without an exec."""
    return sys.platform == "linux" and threading.active_count() == 1


class ForkedProcess:
    """What of subprocess.Popen its users need: `pid`, `poll`, `wait`, `kill`, `send_signal`, `returncode`."""

    def __init__(
        self, run: Callable[[], int], *, name: str, output: int, keep_open: Collection[int] = ()
    ) -> None:
        """`run` gives the exit code. `output`: the descriptor that becomes its standard output and error; of all others
        it has only `keep_open`."""
        self.returncode: int | None = None
        _flush()
        gc.freeze()  # what the collector does not touch stays shared
        # A signal to the child waits until it means there what it means to any process.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)
        try:
            self.pid = os.fork()
            if self.pid == 0:
                _live(run, name, output, keep_open, before)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def poll(self) -> int | None:
        if self.returncode is None:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:
                # The system does not keep how it ended: we were started with SIGCHLD ignored.
                pid, status = self.pid, 0
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, -N after signal N; subprocess.TimeoutExpired."""
        deadline = None if timeout is None else time.monotonic() + timeout
        pause_s = 0.001
        while (code := self.poll()) is None:
            if deadline is not None and time.monotonic() >= deadline:
                raise subprocess.TimeoutExpired([f"process {self.pid}"], timeout or 0.0)
            time.sleep(pause_s)
            pause_s = min(pause_s * 2, LONGEST_PAUSE_S)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _live(
    run: Callable[[], int],
    name: str,
    output: int,
    keep_open: Collection[int],
    signals: Collection[int],
) -> None:
    """The child's whole life. It never returns into its parent's frames, which would clean up what is not its own."""
    code = FAILED
    try:
        os.setpgid(0, 0)  # Ctrl-C is for whoever started it
        for number in STOPPING:
            if signal.getsignal(number) is not signal.SIG_IGN:  # by nohup
                signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, signals)
        _take_over(output, keep_open)
        with contextlib.suppress(OSError), open("/proc/self/comm", "w") as comm:
            comm.write(name)
        code = run()
    except BaseException:
        traceback.print_exc()
    finally:
        _flush()
        os._exit(code)


def _take_over(output: int, keep_open: Collection[int]) -> None:
    """Of the parent's descriptors nothing stays: the write end of another child's pipe would keep that one alive."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        if descriptor not in {0, 1, 2, *keep_open}:
            with contextlib.suppress(OSError):  # that of the list itself is closed by now
                os.close(descriptor)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):  # closed, or there is none
            stream.flush()
