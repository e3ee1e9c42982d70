"""How far SQLite has copied its log into the store: read from the log's index, which all processes share.

Between two checkpoints nobody writes to the store's file itself, only to its log. So a file that changed while no
checkpoint went on was written to by somebody who is no user of it: `cp COPY STORE` gives it other contents under the same
name and inode.

Layout of the index (https://www.sqlite.org/walformat.html, "The WAL-Index File Format"), in the machine's own byte order: the
format's version at 0, the log's salts at 32, the frames copied at 96 and those that a checkpoint set out to copy at 128.
It sets out before it writes the first page and says what is copied after the last.
"""

from __future__ import annotations

import os
from struct import Struct
from typing import NamedTuple

_INDEX = Struct("=I28xQ56xI28xI")
_FORMAT = 3_007_000

# POSIX drops all locks of a process on a file with the first descriptor of it that is closed, SQLite's too, whoever's
# connection that is. So there is one descriptor for all who look in this process, and it is closed when the file has no name
# any more: SQLite removes it with the last connection of all processes.
_shared: dict[tuple[int, int], tuple[int, int]] = {}  # device and inode: descriptor, and how many look


class Checkpoint(NamedTuple):
    """The same twice: none was begun in between."""

    salts: int  # others, whenever the log begins anew
    copied: int


class WalIndex:
    def __init__(self, name: str) -> None:
        """OSError: it cannot be opened."""
        stat = os.stat(name)
        self._identity = stat.st_dev, stat.st_ino
        for identity in list(_shared):
            _close_if_unused(identity)
        known = _shared.get(self._identity)
        self._fd, lookers = known or (os.open(name, os.O_RDONLY | os.O_CLOEXEC), 0)
        _shared[self._identity] = self._fd, lookers + 1

    def last_checkpoint(self) -> Checkpoint | None:
        """None: one is under way, or was never finished, or this is a format we do not know."""
        data = os.pread(self._fd, _INDEX.size, 0)
        if len(data) < _INDEX.size:
            return None
        form, salts, copied, attempted = _INDEX.unpack(data)
        return Checkpoint(salts, copied) if form == _FORMAT and copied == attempted else None

    def close(self) -> None:
        """After the connection."""
        descriptor, lookers = _shared[self._identity]
        _shared[self._identity] = descriptor, lookers - 1
        _close_if_unused(self._identity)


def _close_if_unused(identity: tuple[int, int]) -> None:
    descriptor, lookers = _shared[identity]
    if not lookers and not os.fstat(descriptor).st_nlink:
        del _shared[identity]
        os.close(descriptor)
