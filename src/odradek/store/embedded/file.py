"""The file of a store as a name in a directory: whether one may be made there, and whether it still is the one that is open.

A file that is removed, moved away or replaced while it is open goes on without a name: SQLite reads and writes it as
before, and with the last process that has it open everything is gone. So its device and inode, and those of the log and
the index beside it, are compared with what the names say now: four times a second, and between each commit and its
acknowledgement.

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


def identity_of(path: str | Path) -> Identity:
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
        message=f"{path} was replaced by another file while this process ran, and what it knows of the cluster is that of the "
        "former one. Restart every broker of this cluster to go on with the new one"
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

    def opened(self) -> None:
        """After it was read for the first time: from then on SQLite's files are there too, and stay."""
        self._expected = [(str(self.path), self.identity)]
        for suffix in BESIDE:
            name = f"{self.path}{suffix}"
            with suppress(FileNotFoundError):  # of one that can only be read
                self._expected.append((name, identity_of(name)))
        self.check()

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

    def _gone(self, name: str, what: str) -> StoreGone:
        gone = StoreGone(
            message=f"{name} {what} while this process had it open, so nothing is written to it any more. {HOW_TO_RESTORE}"
        )
        # The store itself may be put back as it was. Its log cannot: what stood in the open one alone is in the
        # store only when the last process has closed it, and until then two logs would be written.
        gone.is_final = name != str(self.path)
        return gone
