"""Brokers of tests, forked from a process that has imported what they need: a start costs a fraction of a new Python's.

The process of a test has threads, of clients above all, and cannot fork them itself. So it asks `python -m
tests.forked_brokers`, of which each process of pytest has one. Over a socket go the arguments and the environment of a broker,
beside them its output, the pipe it watches, and a socket on which its process id and later its exit code come back.
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
from contextlib import suppress
from pathlib import Path
from struct import Struct

# By its name: a test may put another in its place.
from subprocess import Popen
from typing import Any, NamedTuple

from odradek.testing.forked_process import ForkedProcess
from odradek.testing.process_cluster import BrokerProcess

_NUMBER = Struct("=i")
_MOST_BYTES = 1 << 17
_PATIENCE_S = 10.0
_ROOT = Path(__file__).parents[1]
_one_at_a_time = threading.Lock()
new_python = BrokerProcess._spawned


def launch(broker: BrokerProcess, output: int, pipe: int) -> "subprocess.Popen[bytes] | ForkedBroker":
    """In place of `BrokerProcess._spawned`. A Python that is to begin otherwise than ours begins by itself, and so does every
    one where no descriptor tells that a process has ended, as on macOS."""
    if _of_python() != _AS_WE_BEGAN or not hasattr(os, "pidfd_open"):
        return new_python(broker, output, pipe)
    return ForkedBroker(broker, output, pipe)


class ForkedBroker:
    """What of subprocess.Popen a broker's process needs: `pid`, `poll`, `wait`, `kill`, `send_signal`, `returncode`."""

    def __init__(self, broker: BrokerProcess, output: int, pipe: int) -> None:
        self.returncode: int | None = None
        self._lock = threading.Lock()  # tests kill brokers from threads of their own
        self._told_by, theirs = socket.socketpair()
        asked = [
            f"broker-{broker.broker_id}",
            str(broker.config_file),
            str(broker.log_file),
            dict(os.environ),
        ]
        with theirs:
            socket.send_fds(_forks(), [json.dumps(asked).encode()], [output, pipe, theirs.fileno()])
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


def _started() -> _Server:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        command = [sys.executable, "-m", __name__, str(theirs.fileno())]
        process = Popen(command, cwd=_ROOT, stdin=subprocess.DEVNULL, pass_fds=(theirs.fileno(),))
    atexit.register(_end, ours, process)
    return _Server(ours, process)


_servers: list[_Server] = []


def _forks() -> socket.socket:
    """Of the server; another one where it was killed, so that one test alone fails of that."""
    with _one_at_a_time:
        if not _servers or _servers[-1].process.poll() is not None:
            _servers.append(_started())
        return _servers[-1].asked


def _end(ours: socket.socket, server: "subprocess.Popen[bytes]") -> None:
    """It is waited for, so that what its brokers took of the processor counts with ours."""
    ours.close()
    try:
        server.wait(_PATIENCE_S)
    except subprocess.TimeoutExpired:  # whoever was forked from us has our end, and lives
        server.kill()


def _of_python() -> dict[str, str]:
    """What a Python reads as it begins."""
    return {name: value for name, value in os.environ.items() if name.startswith("PYTHON")}


_AS_WE_BEGAN = _of_python()


def serve(asked: socket.socket) -> None:
    selector = selectors.DefaultSelector()
    selector.register(asked, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            if key.fileobj is not asked:
                process, end = key.data
                selector.unregister(key.fileobj)
                os.close(key.fd)
                with suppress(BrokenPipeError):  # nobody has kept the broker to ask for its end
                    end.send(_NUMBER.pack(process.wait()))
                end.close()
                continue
            data, files, _, _ = socket.recv_fds(asked, _MOST_BYTES, 3)
            if not data:
                return
            process, end = _forked(json.loads(data), files)
            selector.register(os.pidfd_open(process.pid), selectors.EVENT_READ, (process, end))


def _forked(asked: list[Any], files: list[int]) -> tuple[ForkedProcess, socket.socket]:
    from odradek.server.__main__ import main

    name, config_file, log_file, environment = asked
    output, pipe, end = files

    def run() -> int:
        os.environ.clear()
        os.environ.update(environment)
        return main(["--config", config_file, "--stop-when-closed", str(pipe), "--log-file", log_file])

    process = ForkedProcess(run, name=name, output=output, keep_open=(pipe,))
    os.close(output)
    os.close(pipe)
    told = socket.socket(fileno=end)
    told.send(_NUMBER.pack(process.pid))
    return process, told


if __name__ == "__main__":
    from odradek.server.preload import preload

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for pytest
    preload()
    serve(socket.socket(fileno=int(sys.argv[1])))
