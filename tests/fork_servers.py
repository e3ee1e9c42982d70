"""Processes of tests, forked from one that has imported what they need: a start costs a fraction of a new Python's.

The process of a test has threads, of clients above all, and cannot fork them itself. So it asks `python -m MODULE`, of which each
process of pytest has one: `tests.forked_brokers`, `tests.forked_drivers`. Over a socket goes what the module asks for, beside it
the files of the process and a socket on which its process id and later its exit code come back.
"""

import atexit
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from struct import Struct

# By its name: a test may put another in its place.
from subprocess import Popen
from typing import Any, NamedTuple

from odradek.testing.forked_process import ForkedProcess

_NUMBER = Struct("=i")
_MOST_BYTES = 1 << 17
_MOST_FILES = 4
_PATIENCE_S = 10.0
_ROOT = Path(__file__).parents[1]
# Of what was asked and the files that came with it.
Fork = Callable[[list[Any], list[int]], ForkedProcess]


class Forked:
    """What of subprocess.Popen is needed: `pid`, `poll`, `wait`, `kill`, `send_signal`, `returncode`."""

    def __init__(self, server: "ForkServer", asked: list[Any], files: Sequence[int]) -> None:
        self.returncode: int | None = None
        self._lock = threading.Lock()  # tests kill brokers from threads of their own
        self._told_by, theirs = socket.socketpair()
        with theirs:
            socket.send_fds(server.asked(), [json.dumps(asked).encode()], [*files, theirs.fileno()])
        pid = self._told()
        assert pid is not None, "the server of forks has ended"
        self.pid = pid

    def poll(self) -> int | None:
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            with selectors.DefaultSelector() as selector:
                selector.register(self._told_by, selectors.EVENT_READ)
                if not selector.select(timeout):
                    raise subprocess.TimeoutExpired([f"process {self.pid}"], timeout or 0.0)
            with self._lock:
                if self.returncode is None:
                    code = self._told()
                    self.returncode = -signal.SIGKILL if code is None else code
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _told(self) -> int | None:
        data = self._told_by.recv(_NUMBER.size)
        return int(_NUMBER.unpack(data)[0]) if data else None


class _Server(NamedTuple):
    """Its end of the socket is open here alone, so that it ends with us; so do brokers, which watch a pipe of ours."""

    asked: socket.socket
    process: "Popen[bytes]"


class ForkServer:
    """`python -m MODULE`, begun by the first who asks; another one where it was killed, so that one test alone fails of that."""

    def __init__(self, module: str, environment: Mapping[str, str] | None = None) -> None:
        """`environment` is beside ours."""
        self._module = module
        self._environment = environment or {}
        self._servers: list[_Server] = []
        self._one_at_a_time = threading.Lock()

    def asked(self) -> socket.socket:
        return self._living().asked

    @property
    def process(self) -> "Popen[bytes]":
        return self._living().process

    def _living(self) -> _Server:
        with self._one_at_a_time:
            if not self._servers or self._servers[-1].process.poll() is not None:
                self._servers.append(self._started())
            return self._servers[-1]

    def _started(self) -> _Server:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            command = [sys.executable, "-m", self._module, str(theirs.fileno())]
            environment = {**os.environ, **self._environment}
            process = Popen(
                command, cwd=_ROOT, env=environment, stdin=subprocess.DEVNULL, pass_fds=(theirs.fileno(),)
            )
        atexit.register(_end, ours, process)
        return _Server(ours, process)


def _end(ours: socket.socket, server: "subprocess.Popen[bytes]") -> None:
    """It is waited for, so that what its processes took of the processor counts with ours."""
    ours.close()
    try:
        server.wait(_PATIENCE_S)
    except subprocess.TimeoutExpired:  # whoever was forked from us has our end, and lives
        server.kill()


def _of_python(environment: Mapping[str, str]) -> dict[str, str]:
    """What a Python reads as it begins."""
    return {name: value for name, value in environment.items() if name.startswith("PYTHON")}


_AS_WE_BEGAN = _of_python(os.environ)


def is_as_we_began(environment: Mapping[str, str]) -> bool:
    """Not so for a Python that is to begin otherwise than ours, nor where no descriptor tells that a process has ended, as on
    macOS: these begin by themselves."""
    return _of_python(environment) == _AS_WE_BEGAN and hasattr(os, "pidfd_open")


def serve(asked: socket.socket, fork: Fork) -> None:
    selector = selectors.DefaultSelector()
    selector.register(asked, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            if key.fileobj is not asked:
                process, end = key.data
                selector.unregister(key.fileobj)
                os.close(key.fd)
                with suppress(BrokenPipeError):  # nobody has kept the process to ask for its end
                    end.send(_NUMBER.pack(process.wait()))
                end.close()
                continue
            data, files, _, _ = socket.recv_fds(asked, _MOST_BYTES, _MOST_FILES)
            if not data:
                return
            *of_process, told = files
            process = fork(json.loads(data), of_process)
            for file in of_process:
                os.close(file)
            end = socket.socket(fileno=told)
            end.send(_NUMBER.pack(process.pid))
            selector.register(os.pidfd_open(process.pid), selectors.EVENT_READ, (process, end))


def serve_until_closed(preload: Callable[[], None], fork: Fork) -> None:
    """What `python -m MODULE NUMBER` does, where the number is that of the socket."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for pytest
    preload()
    serve(socket.socket(fileno=int(sys.argv[1])), fork)
