"""A file for people that only grows: journal, state-change log. Losing a line of it must never stop a broker."""

import time
from collections.abc import Callable

from odradek.log.errors import DiskFault, StorageError
from odradek.log.files import Directory, File, Health, OsDirectory
from odradek.model.errors import OdradekError
from odradek.server.log_limits import LimitedLog

# Beyond this the file is put aside as `.1` and a new one begun.
LARGEST_FILE_BYTES = 256 * 1024 * 1024
# After an error that may pass, as of a full disk.
AGAIN_S = 10.0


class _PassingHealth(Health):
    """Of a directory as far as nobody depends on it: a failure is forgotten after a while, but that of a disk which may be slow
    to fail again, while the broker's loop waits for it."""

    __slots__ = ("_failed_at", "_monotonic")

    def __init__(self, path: str, monotonic: Callable[[], float]) -> None:
        super().__init__(path)
        self._monotonic = monotonic
        self._failed_at = 0.0

    def fail(self, error: StorageError) -> StorageError:
        self._failed_at = self._monotonic()
        return super().fail(error)

    def check(self) -> None:
        may_pass = not isinstance(self.failure, DiskFault)
        if self.failure is not None and may_pass and self._monotonic() - self._failed_at >= AGAIN_S:
            self.failure = None
        super().check()


class AppendedFile:
    def __init__(
        self,
        directory: Directory,
        name: str,
        log: LimitedLog,
        *,
        largest_bytes: int = LARGEST_FILE_BYTES,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        if isinstance(directory, OsDirectory):  # a simulated one may be the logs' own
            directory = OsDirectory(directory.path, _PassingHealth(directory.path, monotonic))
        self._directory = directory
        self._name = name
        self._log = log
        self._largest_bytes = largest_bytes
        self._file: File | None = None
        self._is_closed = False

    def close(self) -> None:
        """Gives the descriptor back, for good: what is appended after it is left out."""
        self._is_closed = True
        self._file = None

    def append(self, data: bytes, *, goes_on: bool = False) -> bool:
        """Not flushed. What cannot be written is said, not too often, and left out: False. `goes_on`: in the middle of a
        line, which is not to be torn apart by a new file."""
        if self._is_closed:
            return False
        try:
            if self._file is None:
                self._file = self._directory.open(self._name, create=True)
                if _is_torn(self._file) and not goes_on:
                    data = b"\n" + data
            if self._file.size_bytes > self._largest_bytes and not goes_on:
                self._directory.rename(self._name, f"{self._name}.1")
                self._file = self._directory.open(self._name, create=True)
            self._file.append(data)
        except OdradekError as error:
            self._file = None  # or a disk that failed could not be unmounted
            path = f"{self._directory.path}/{self._name}"
            again = "" if isinstance(self._directory.health.failure, DiskFault) else ", and is tried again"
            self._log.warning(f"file {self._name}", f"{path} cannot be written{again}: {_why(error)}")
            return False
        return True


def _why(error: OdradekError) -> str:
    """Without what is to be done about a log directory. A function of its own: a frame that is on a trace and keeps the cause
    holds the file open."""
    cause = error.__cause__
    return str(cause.strerror if isinstance(cause, OSError) else error)


def _is_torn(file: File) -> bool:
    """Whoever wrote it last, an earlier process or a disk that filled up, ended in the middle of a line."""
    return file.size_bytes > 0 and file.read_at(file.size_bytes - 1, 1) != b"\n"
