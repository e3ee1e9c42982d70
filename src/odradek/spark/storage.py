"""The files of a table: below a directory, or in an object store (`odradek.spark.object_store`).

Names are paths from the table on, with `/` between them.
"""

import os
import uuid
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path, PurePath
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from odradek.spark.places import is_in_store


class Storage(Protocol):
    def write(self, name: str, data: bytes) -> None:
        """A file that is made once, and that nobody reads who does not know that it may be there by halves."""

    def replace(self, name: str, data: bytes) -> None:
        """A file that readers see whole: as it was before, or as it is now, and from here on a power cut leaves it so."""

    def settle(self, name: str, data: bytes) -> bytes:
        """What the first of all has given who settle the same name; it is text in UTF-8."""

    def read(self, name: str) -> bytes:
        """FileNotFoundError where there is none."""

    def delete(self, names: Iterable[str]) -> None:
        """Those that are there; of directories that may be empty now, see `tidy`."""

    def sync(self, names: Iterable[str]) -> None:
        """From here on a power cut takes none of those that are there. Of an object store it never does."""

    def sync_all(self) -> None:
        """The same of whatever anybody has written here: not often, as it waits for all that the machine writes."""

    def tidy(self, directory: str) -> None:
        """Takes the directory away if it is empty."""

    def listed(self, directory: str, prefix: str = "") -> list[str]:
        """The files in a directory, and in those within it, whose names from there on begin with `prefix`; sorted."""

    def sink(self, name: str) -> pa.NativeFile:
        """Of a new file. In an object store it is nobody's before it is closed."""

    def parquet(self, name: str) -> pq.ParquetFile:
        """To be closed."""


def storage_of(table: str) -> Storage:
    if is_in_store(table):
        # Of delta-rs, which those who write topics and directories do without.
        from odradek.spark.object_store import ObjectStore

        return ObjectStore(table)
    return Directory(table)


def sync(path: Path) -> None:
    """From here on a power cut takes nothing of the file, or of the names in the directory."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def sync_name(directory: Path) -> None:
    """From here on a power cut does not take the directory's own name, or that of one above it, which may be new as well. Who may
    not list the directory above may not sync it either."""
    for above in directory.absolute().parents:
        try:
            sync(above)
        except PermissionError:
            os.sync()
            return
        if above.is_mount() or not os.access(above.parent, os.W_OK):  # it was there
            return


class Directory:
    def __init__(self, path: str) -> None:
        self._root = Path(path)

    def write(self, name: str, data: bytes) -> None:
        file = self._root / name
        while True:
            file.parent.mkdir(parents=True, exist_ok=True)
            try:
                file.write_bytes(data)
                return
            except FileNotFoundError:  # somebody took the empty directory away in between
                continue

    def replace(self, name: str, data: bytes) -> None:
        file = self._root / name
        is_first = not file.parent.exists()
        file.parent.mkdir(parents=True, exist_ok=True)
        new = file.with_name(f"{file.name}.{uuid.uuid4().hex}")
        try:
            new.write_bytes(data)
            sync(new)
            os.replace(new, file)
        except BaseException:
            new.unlink(missing_ok=True)
            raise
        if is_first:
            self.sync([name])  # and all directories above it
        else:
            sync(file.parent)

    def settle(self, name: str, data: bytes) -> bytes:
        file = self._root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        offered = file.with_name(f"{file.name}-{uuid.uuid4().hex}")
        try:
            offered.write_bytes(data)
            sync(offered)  # a power cut must not leave a name of nothing, which nobody settles again
            with suppress(FileExistsError):  # somebody else was first
                os.link(offered, file)
        finally:
            offered.unlink(missing_ok=True)
        return file.read_bytes()

    def read(self, name: str) -> bytes:
        return (self._root / name).read_bytes()

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            (self._root / name).unlink(missing_ok=True)

    def sync(self, names: Iterable[str]) -> None:
        places: set[Path] = set()
        for name in names:
            with suppress(FileNotFoundError):  # another driver of the batch may have taken it away
                sync(self._root / name)
                places.update(self._root / parent for parent in PurePath(name).parents)
        for place in sorted(places):
            sync(place)

    def sync_all(self) -> None:
        os.sync()

    def tidy(self, directory: str) -> None:
        with suppress(OSError):  # somebody else took it away, or there is something in it again
            (self._root / directory).rmdir()

    def listed(self, directory: str, prefix: str = "") -> list[str]:
        found: list[str] = []
        for entry in (self._root / directory).glob(f"{prefix}*"):
            if entry.is_dir():  # `walk` passes over what vanishes meanwhile
                found += [
                    str(Path(place, name).relative_to(self._root))
                    for place, _, names in os.walk(entry)
                    for name in names
                ]
            else:
                found.append(str(entry.relative_to(self._root)))
        return sorted(found)

    def sink(self, name: str) -> pa.NativeFile:
        path = self._root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return pa.OSFile(str(path), "wb")

    def parquet(self, name: str) -> pq.ParquetFile:
        return pq.ParquetFile(self._root / name)
