"""Who is alive: three things the kernel keeps for each session, in a directory beside the store.

`<id>.beat`  a file the owner holds a lock on (flock). The kernel lets go of it when the process dies, however it
             dies, so *to get the lock is to know the death*. Its eight bytes are the time of the last heartbeat,
             for a paused process (SIGSTOP) keeps its lock. The clock is CLOCK_MONOTONIC, one for the whole host.
`<id>.bell`  a FIFO. The owner holds both ends and waits on it; others ring by writing a byte. Others also hold
             the reading end and wait for the hang-up that the kernel sends when the owner dies: then they look
             at the lock at once. No thread of ours polls.

Heartbeats stand here and not in the database because they must not wait for it: while one process is stopped in
the middle of a write, nobody else can write, and nobody else should be taken for dead because of that.

The kernel's end of a process closes its descriptors one by one: the hang-up may come before the lock is free, by
some microseconds. Who hears the bell hang up and still finds the lock taken looks again shortly after.
"""

from __future__ import annotations

import fcntl
import os
import struct
from contextlib import suppress
from pathlib import Path

from odradek.store.api import StoreUnavailable
from odradek.store.embedded.remedies import remedy_of

_BEAT = struct.Struct("<q")


def directory_of(store: Path) -> Path:
    return store.with_name(f"{store.name}-sessions")


def _beat_path(directory: Path, session_id: int) -> Path:
    return directory / f"{session_id}.beat"


def _bell_path(directory: Path, session_id: int) -> Path:
    return directory / f"{session_id}.bell"


def make_directory(store: Path) -> None:
    directory = directory_of(store)
    try:
        with suppress(FileExistsError):
            directory.mkdir(mode=0o700)
            if os.geteuid() == 0:
                owner = store.stat()
                os.chown(directory, owner.st_uid, owner.st_gid, follow_symlinks=False)
    except OSError as error:
        raise StoreUnavailable(
            message=f"{directory} cannot be made: {error.strerror}. Sessions with the store are kept there. "
            + remedy_of(error, "This user must be able to write its parent")
        ) from error


def _give_to_owner_of(directory: Path, fd: int) -> None:
    """What root makes beside the store of another user is that user's, as SQLite's log is: its brokers look at each session's
    signs of life.
    """
    if os.geteuid() == 0:
        owner = directory.stat()
        os.fchown(fd, owner.st_uid, owner.st_gid)


def remove(directory: Path, session_id: int) -> None:
    """After the session has ended in the store. Where nothing can be removed any more (a disk that turned
    read-only) they stay and are in nobody's way: no id is given out twice.
    """
    with suppress(OSError):
        _remove(directory, session_id)


def _remove(directory: Path, session_id: int) -> None:
    for path in (_beat_path(directory, session_id), _bell_path(directory, session_id)):
        path.unlink(missing_ok=True)


class OwnLife:
    """The signs of life of our own session. To be made inside the transaction that makes the session."""

    def __init__(self, directory: Path, session_id: int, now_ns: int) -> None:
        self.session_id = session_id
        self._directory = directory
        opened: list[int] = []
        try:
            _remove(directory, session_id)  # left by a process that died before its transaction ended
            beat = _beat_path(directory, session_id)
            opened.append(os.open(beat, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            _give_to_owner_of(directory, opened[0])
            fcntl.flock(opened[0], fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.pwrite(opened[0], _BEAT.pack(now_ns), 0)
            bell = _bell_path(directory, session_id)
            os.mkfifo(bell, 0o600)
            opened.append(os.open(bell, os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW))
            _give_to_owner_of(directory, opened[1])
        except OSError as error:
            for fd in opened:
                os.close(fd)
            remove(directory, session_id)
            raise StoreUnavailable(
                message=f"{directory} cannot hold a session: {error.strerror}. "
                + remedy_of(
                    error, "It must be on a local file system with locks and FIFOs, writable by this user"
                )
            ) from error
        self._beat_fd, self.bell_fd = opened
        self.last_beat_ns = now_ns

    def beat(self, now_ns: int) -> None:
        """Raises StoreUnavailable where it cannot be written: then others will take us for dead."""
        try:
            os.pwrite(self._beat_fd, _BEAT.pack(now_ns), 0)
        except OSError as error:
            raise StoreUnavailable(
                message=f"no sign of life can be written in {self._directory}: {error.strerror}. Without it this session ends. "
                + remedy_of(error, "The file system must be writable")
            ) from error
        self.last_beat_ns = now_ns

    def ring(self) -> None:
        """Wake our own worker. A full pipe will wake it anyway; where the kernel has no page for the byte, the next tick does."""
        with suppress(OSError):
            os.write(self.bell_fd, b"o")

    def hush(self) -> None:
        """Take all rings at once."""
        with suppress(BlockingIOError):
            while len(os.read(self.bell_fd, 4096)) == 4096:
                pass

    def end(self) -> None:
        """Let go of the lock: from here on others may take us for dead."""
        os.close(self._beat_fd)
        os.close(self.bell_fd)


class PeerLife:
    """The signs of life of another session."""

    def __init__(self, directory: Path, session_id: int, timeout_ms: int, pid: int) -> None:
        """Raises OSError where they are there and cannot be opened: whether the owner lives is not known then."""
        self.session_id = session_id
        self.timeout_ms = timeout_ms
        self.pid = pid
        self._bell_path = _bell_path(directory, session_id)
        self._beat_fd = self._open(_beat_path(directory, session_id), os.O_RDONLY)
        try:
            self.bell_fd = self._open(self._bell_path, os.O_RDONLY | os.O_NONBLOCK)
        except OSError:
            if self._beat_fd >= 0:
                os.close(self._beat_fd)
            raise

    @staticmethod
    def _open(path: Path, flags: int) -> int:
        try:
            return os.open(path, flags)
        except FileNotFoundError:
            return -1

    def is_dead(self) -> bool:
        """The owner's process is gone: its lock is free. So is one whose file was taken away. While the kernel has no room for a
        lock (ENOLCK) nothing is known."""
        if self._beat_fd < 0:
            return True
        try:
            fcntl.flock(self._beat_fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return False
        fcntl.flock(self._beat_fd, fcntl.LOCK_UN)
        return True

    def is_silent(self, now_ns: int) -> bool:
        """No heartbeat for the whole session timeout, as of a paused process. One that cannot be read tells nothing."""
        try:
            beat = os.pread(self._beat_fd, _BEAT.size, 0)
        except OSError:
            return False
        return len(beat) == _BEAT.size and now_ns - _BEAT.unpack(beat)[0] > self.timeout_ms * 1_000_000

    def ring(self) -> None:
        try:
            fd = os.open(self._bell_path, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            # Nobody is there to hear it, or it may not be touched any more; who lives looks by itself at the
            # next tick. What was committed is committed: this must not undo that.
            return
        try:
            with suppress(OSError):  # it is full, nobody reads it, or the kernel has no page for the byte
                os.write(fd, b"p")
        finally:
            os.close(fd)

    def close(self) -> None:
        for fd in (self._beat_fd, self.bell_fd):
            if fd >= 0:
                os.close(fd)
