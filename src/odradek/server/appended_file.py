"""A file for people that only grows: journal, state-change log. Losing a line of it must never stop a broker."""

from odradek.log.files import Directory, File
from odradek.model.errors import OdradekError
from odradek.server.log_limits import LimitedLog

# Beyond this the file is put aside as `.1` and a new one begun.
LARGEST_FILE_BYTES = 256 * 1024 * 1024


class AppendedFile:
    def __init__(
        self, directory: Directory, name: str, log: LimitedLog, *, largest_bytes: int = LARGEST_FILE_BYTES
    ) -> None:
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

    def append(self, data: bytes, *, goes_on: bool = False) -> None:
        """Not flushed. What cannot be written is said, not too often, and left out. `goes_on`: in the middle of a
        line, which is not to be torn apart by a new file."""
        if self._is_closed:
            return
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
            self._log.warning(f"file {self._name}", f"{self._name} cannot be written: {error}")


def _is_torn(file: File) -> bool:
    """Whoever wrote it last, an earlier process or a disk that filled up, ended in the middle of a line."""
    return file.size_bytes > 0 and file.read_at(file.size_bytes - 1, 1) != b"\n"
