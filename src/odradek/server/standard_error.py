"""The log of a broker whose standard error is a file: it begins a new one before the old one fills the disk.

    broker.log, and broker.log.1 with what was before

Whatever else the process writes to its standard output and error (a trace, a last word of the interpreter) goes with
it, for both descriptors follow.
"""

import contextlib
import logging
import os
import sys
from pathlib import Path

# Twice that is the most that stays on the disk.
LARGEST_FILE_BYTES = 32 * 1024 * 1024


class LimitedFileHandler(logging.StreamHandler):  # type: ignore[type-arg]
    """To standard error, which is `path`, opened to append."""

    def __init__(self, path: Path, *, largest_bytes: int = LARGEST_FILE_BYTES) -> None:
        super().__init__(sys.stderr)
        self._path = path
        self._largest_bytes = largest_bytes

    def emit(self, record: logging.LogRecord) -> None:
        # Losing a line, or a log that is too long, must never stop a broker.
        with contextlib.suppress(OSError):
            if os.fstat(2).st_size > self._largest_bytes:
                self._rotate()
        super().emit(record)

    def _rotate(self) -> None:
        self.flush()
        # Somebody removed it; or it was put aside before, and none could be opened.
        with contextlib.suppress(FileNotFoundError):
            os.replace(self._path, f"{self._path}.1")
        new = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            for descriptor in (1, 2):
                os.dup2(new, descriptor)
        finally:
            os.close(new)
