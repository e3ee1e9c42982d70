"""A directory of this process for as long as it lives: made with its first use, removed at its end, by a later process where it was killed.

    TMPDIR/odradek-fork-*/    mode 0700
        lock                  locked (flock) by the process, and by forks of it, until the last of them has ended; names the kernel
        ...

The lock says whether somebody is left, where a process id would not: a container has process ids of its own and may share the
directory. Whoever gets the lock may remove the directory, under the kernel that it was locked under: on a network's file system
another host may get a lock that is held here. Where locks cannot be had it is left alone.

Spark finds out whether its Python is there by `sh -c "command -v PATH"` (`Utils.checkCommandAvailable`), with the path unquoted. With a
TMPDIR of which a shell would make something else it would know no data source in Python, so the directory is in /tmp then.
"""

import atexit
import fcntl
import os
import shlex
import shutil
import socket
import stat
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

PREFIX = "odradek-fork-"
FOR_ALL = Path("/tmp")
_LOCK = "lock"
_BOOT = Path("/proc/sys/kernel/random/boot_id")


@cache
def own_directory() -> Path:
    """Nobody else may enter it. What processes that were killed have left is removed first."""
    sweep()
    while True:
        found = Path(tempfile.mkdtemp(prefix=PREFIX, dir=_place()))
        if _is_locked(found):
            atexit.register(_removed, found, os.getpid())
            return found


def _place() -> str:
    place = tempfile.gettempdir()
    is_one_word = shlex.quote(place) == place
    return place if is_one_word or not os.access(FOR_ALL, os.W_OK | os.X_OK) else str(FOR_ALL)


def sweep() -> None:
    """Removes the directories whose processes have ended. Those of other users are left to them."""
    with suppress(OSError), os.scandir(_place()) as entries:
        for entry in entries:
            if entry.name.startswith(PREFIX):
                with suppress(OSError):  # somebody else was faster, or may do it
                    _remove_if_left(Path(entry.path))


def _is_locked(directory: Path) -> bool:
    """By this process for as long as it lives. False: it was taken for one that was left, between its making and its lock."""
    try:
        lock = os.open(directory / _LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return False
    except OSError:  # no locks here (ENOLCK): nobody else gets this one either
        return True
    if not os.fstat(lock).st_nlink:
        os.close(lock)
        return False
    os.write(lock, _host())
    return True


def _remove_if_left(directory: Path) -> None:
    found = directory.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        return
    # A directory without a lock is being made, or of somebody who makes none.
    lock = os.open(directory / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_there = os.fstat(lock).st_nlink  # else it is removed, and its name may be another's by now
        if is_there and os.read(lock, 256) == _host():
            shutil.rmtree(directory, ignore_errors=True)
    finally:
        os.close(lock)


@cache
def _host() -> bytes:
    """The kernel that runs here since it was started, which containers share; elsewhere than on Linux the name of the host."""
    try:
        return _BOOT.read_bytes()
    except OSError:
        return socket.gethostname().encode()


def _removed(directory: Path, of: int) -> None:
    if os.getpid() == of:  # and not a fork that ends
        shutil.rmtree(directory, ignore_errors=True)
