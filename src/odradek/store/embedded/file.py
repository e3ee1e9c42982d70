"""The file of a store as a name in a directory: whether one may be made there, and whether it still is the one that is open.

A file that is removed, moved away or replaced while it is open goes on without a name: SQLite reads and writes it as
before, and with the last process that has it open everything is gone. So its device and inode, and those of the log and
the index beside it, are compared with what the names say now: four times a second, and between each commit and its
acknowledgement. A file that is overwritten in place is told by its size and time (`wal_index`).

A store is made where none has ever been. What stands beside one (its sessions, SQLite's two files), or a log
directory that names a cluster, says that there was one: then a new one, with an id of its own, would be a second
cluster on the first one's logs.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from odradek.store.api import StoreGone
from odradek.store.embedded.wal_index import Checkpoint, WalIndex

Identity = tuple[int, int]  # device, inode

BESIDE = ("-wal", "-shm")
HOW_TO_RESTORE = (
    "Stop all brokers of this cluster; put the file back, or a copy of it, or make it from an export with "
    "`odradek store import`; then start them. Records in the log directories are not affected"
)

# Why no store may be made at a path, as half a sentence; None: one may.
WhyNot = Callable[[Path], str | None]


def anew(path: Path) -> str | None:
    """For whoever restores one."""
    return None


def hold(path: Path) -> int | None:
    """A descriptor by which the file keeps its inode, whatever becomes of its name. Closed it drops no lock of this process, as that
    of an open file would (see `database`), for it opens nothing. None where there is no such thing, or no file.
    """
    flags = getattr(os, "O_PATH", None)
    if flags is None:
        return None
    try:
        return os.open(path, flags | os.O_CLOEXEC)
    except OSError:
        return None


def identity_of(path: str | Path | int) -> Identity:
    """Raises OSError."""
    stat = os.stat(path)
    return stat.st_dev, stat.st_ino


def had_one(path: Path) -> str | None:
    """What is left beside a store that is gone; None where there never was one, or is one.

    Sessions and SQLite's files are made beside a store that is in place, so a store that another process makes just
    now is seen by the second look.
    """
    found = [
        name
        for name in (f"{path.name}{suffix}" for suffix in ("-sessions", *BESIDE))
        if path.with_name(name).exists()
    ]
    if not found or path.exists():
        return None
    return f"{' and '.join(found)} beside it {'says' if len(found) == 1 else 'say'} that there was one"


def replaced(path: Path) -> StoreGone:
    gone = StoreGone(
        message=f"{path} was replaced by another file, or a copy was restored into it, while this process ran, and what it knows of the cluster is that of the "
        "former one. Restart every broker of this cluster to go on with the new one"
    )
    gone.is_final = True
    return gone


def overwritten(path: Path) -> StoreGone:
    gone = StoreGone(
        message=f"{path} was written to by a program that is no broker while this process had it open (cp, rsync --inplace, touch), "
        f"so what is in it now does not go with its log, and nothing is written to it any more. {HOW_TO_RESTORE}. Remove "
        f"{path.name}{BESIDE[0]} and {path.name}{BESIDE[1]} before the copy is put back: they are of the former contents"
    )
    gone.is_final = True
    return gone


def missing(path: Path, why: str) -> StoreGone:
    return StoreGone(
        message=f"there is no store at {path}, and {why}; a new one would be a new cluster. {HOW_TO_RESTORE}"
    )


class OpenFile:
    """The names of an open store, and what they meant when it was opened."""

    def __init__(self, path: Path) -> None:
        """Before it is opened."""
        self.path = path
        try:
            self.identity = identity_of(path)
        except OSError as error:
            raise missing(path, f"there was one a moment ago ({error.strerror})") from error
        self._expected: list[tuple[str, Identity]] = []
        self._index: WalIndex | None = None
        self._contents: tuple[int, int] | None = (
            None  # size and time of the last write, as of the last checkpoint
        )
        self._checkpoint: Checkpoint | None = None

    def opened(self) -> None:
        """After it was read for the first time: from then on SQLite's files are there too, and stay."""
        self._expected = [(str(self.path), self.identity)]
        for suffix in BESIDE:
            name = f"{self.path}{suffix}"
            with suppress(FileNotFoundError):  # of one that can only be read
                self._expected.append((name, identity_of(name)))
        with suppress(OSError):
            self._index = WalIndex(f"{self.path}-shm")
        self.check()

    def closed(self) -> None:
        """After the connection: see `wal_index`."""
        if self._index is not None:
            self._index.close()
            self._index = None

    def check(self) -> None:
        """Raises StoreGone; then nothing that was written since is known to last."""
        for name, expected in self._expected:
            try:
                found = identity_of(name)
            except (FileNotFoundError, NotADirectoryError):
                raise self._gone(name, "was removed or moved away") from None
            except OSError:
                continue  # its directory cannot be looked at; that says nothing of the file
            if found != expected:
                raise self._gone(name, "was replaced by another file")
        self._check_contents()

    def _check_contents(self) -> None:
        """Written to from outside, as `cp` does, it is the same file by name and inode."""
        if self._index is None:
            return
        try:
            before = self._index.last_checkpoint()
            stat = os.stat(self.path)
            is_at_rest = before is not None and self._index.last_checkpoint() == before
        except OSError:
            return  # gone in this moment, or it cannot be read: the next look says so
        if not is_at_rest:
            return  # its pages are being copied into it
        contents = stat.st_size, stat.st_mtime_ns
        if before == self._checkpoint and contents != self._contents:
            raise overwritten(self.path)
        self._checkpoint, self._contents = before, contents

    def _gone(self, name: str, what: str) -> StoreGone:
        gone = StoreGone(
            message=f"{name} {what} while this process had it open, so nothing is written to it any more. {HOW_TO_RESTORE}"
        )
        # The store itself may be put back as it was. Its log cannot: what stood in the open one alone is in the
        # store only when the last process has closed it, and until then two logs would be written.
        gone.is_final = name != str(self.path)
        return gone
