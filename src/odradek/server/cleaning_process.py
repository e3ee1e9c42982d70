"""The process that compacts for this broker (`cleaning_worker`), as the broker's threads see it: they ask, and wait for its answer.

Of its own it shares neither the interpreter nor the processor with the loop. It is started for the first job, lives as long as there
are more, and ends with the broker. One that dies, or that makes no progress, fails the cleaning that is under way; another one is
started for the next.
"""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import suppress

from odradek.log.cleaned_segment import MadeSegment
from odradek.log.compaction.passes import CleaningJob, MapBuilt
from odradek.log.errors import StorageError
from odradek.log.files import Directory
from odradek.server.cleaning_messages import (
    Answer,
    Begin,
    BuildMap,
    Failed,
    GoOn,
    Request,
    Slice,
    WriteSegment,
    error_of,
    receive,
    send,
)

MODULE = "odradek.server.cleaning_worker"
# A slice takes 0.03 s of a processor, and on a busy machine it has to wait for that.
PROGRESS_S = 300.0
DIES_S = 10.0  # once it is killed; one that waits for a disk may take longer
IDLE_S = 60.0


class CleaningProcess:
    """One thread at a time asks; `kill` may come from another."""

    def __init__(self, slice_bytes: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._slice_bytes = slice_bytes
        self.progress_s = PROGRESS_S
        self._clock = clock
        self._used_at = clock()
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None
        self._is_over = False

    @property
    def pid(self) -> int | None:
        """None while there is none."""
        return None if self._process is None else self._process.pid

    def passes(self, job: CleaningJob, directory: Directory) -> "PassesThere":
        """StorageError: it cannot be started, or the broker stops."""
        if self._process is not None and (self._channel is None or self._process.poll() is not None):
            self.end()  # it died while there was nothing to do, or is to die for long
        if self._process is None:
            self._start()
        if self._is_over:  # asked here, for `kill` may have come while it was started
            self.end()
            raise StorageError("the process that compacts was ended: the broker stops")
        passes = PassesThere(self, directory)
        passes.ask(Begin(job, directory.path, directory.health.path, self._slice_bytes))
        return passes

    def _start(self) -> None:
        try:
            ours, its = socket.socketpair()
        except OSError as error:
            raise _no_process(error) from error
        try:
            with its:
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-m", MODULE, str(os.getpid())],
                    stdin=its.fileno(),
                    stdout=subprocess.DEVNULL,
                    env={**os.environ, "PYTHONPATH": _search_path()},
                )
        except OSError as error:
            ours.close()
            raise _no_process(error) from error
        self._channel = ours

    def ask(self, request: Request) -> Answer:
        """Blocks for as long as a slice takes. StorageError: the process is gone."""
        channel, process = self._channel, self._process
        if channel is None or process is None:
            raise StorageError("the process that compacts was ended")
        self._used_at = self._clock()
        channel.settimeout(self.progress_s)
        try:
            send(channel, request)
            answer = receive(channel)
        except TimeoutError:
            self.end()
            raise StorageError(
                f"the process that compacts ({process.pid}) has made no progress for {self.progress_s:g} s, and was killed"
            ) from None
        except ConnectionError:
            answer = None
        except (OSError, MemoryError) as error:  # half of a message may be on its way
            self.end()
            raise StorageError(
                f"the process that compacts ({process.pid}) cannot be asked ({str(error) or 'no memory'}), and was killed"
            ) from error
        if answer is None:
            with suppress(subprocess.TimeoutExpired):
                process.wait(DIES_S)  # by itself: its exit code tells why
            self.end()
            raise StorageError(
                f"the process that compacts ({process.pid}) has ended, exit code {process.returncode}"
            )
        assert isinstance(answer, Slice | Failed)
        return answer

    def kill(self) -> None:
        """From any thread, and for good: who waits for its answer hears that it has ended. That is told by this end of the socket,
        for a process in the midst of a call to a disk that hangs does not die, and keeps its own end open."""
        self._is_over = True
        process, channel = self._process, self._channel
        if process is not None:
            process.kill()
        if channel is not None:
            with suppress(OSError):  # it was closed
                channel.shutdown(socket.SHUT_RDWR)

    def end(self) -> None:
        """It is gone when this returns, and writes no file. StorageError: it is not, and none is started until then."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        if self._process is not None:
            self._process.kill()
            try:
                self._process.wait(DIES_S)
            except subprocess.TimeoutExpired:
                raise StorageError(
                    f"the process that compacts ({self._process.pid}) was killed and has not ended for {DIES_S:g} s: "
                    "no log is compacted until it has"
                ) from None
            self._process = None

    @property
    def is_idle(self) -> bool:
        """It is there, and has had nothing to do for long."""
        return self._process is not None and self._clock() - self._used_at >= IDLE_S


class PassesThere:
    """Of the cleaning that the process is at."""

    def __init__(self, process: CleaningProcess, directory: Directory) -> None:
        self._process = process
        self._directory = directory

    def build_map(self) -> Generator[int, None, MapBuilt]:
        built = yield from self._walk(BuildMap())
        assert isinstance(built, MapBuilt)
        return built

    def write_segment(self) -> Generator[int, None, MadeSegment]:
        made = yield from self._walk(WriteSegment())
        assert isinstance(made, MadeSegment)
        return made

    def _walk(self, first: Request) -> Generator[int, None, MapBuilt | MadeSegment]:
        found = self.ask(first)
        try:
            while found.outcome is None:
                yield found.bytes_moved
                found = self.ask(GoOn())
            if found.bytes_moved:
                yield found.bytes_moved
        except GeneratorExit:  # abandoned, and it may be at a file
            self._process.end()
            raise
        return found.outcome

    def ask(self, request: Request) -> Slice:
        answer = self._process.ask(request)
        if isinstance(answer, Slice):
            return answer
        error = error_of(answer)
        if answer.is_offline and isinstance(error, StorageError):
            self._directory.health.fail(error)
        raise error


def _no_process(error: OSError) -> StorageError:
    return StorageError(f"the process that compacts cannot be started: {error.strerror}")


def _search_path() -> str:
    """It is to find what this process has found, in the same order."""
    return os.pathsep.join(path or os.getcwd() for path in sys.path)
