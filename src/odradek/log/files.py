"""The only module that opens files. Everything else sees a `Directory`, on disk or in memory.

Promises, kept by every implementation (one suite holds them to it):
- `File.append` writes all of it or raises; after an error the file has its old length, or the directory is offline.
- A failed write, read or sync takes the whole log directory offline (`Health`): a second fsync would answer "done"
  though the pages are lost (fsync of Linux, 2018), so nothing is tried twice. Only through `apart` it does not, nor does a
  read for which there is no memory.
- `replace` is atomic against a crash of the process; with `durable` also against a power cut: the new file is
  synced, then renamed, then the directory is synced.
- A file may have a `Mark`, in the memory of the kernel alone. Whoever finds it knows that the file was never out of that
  memory since: what was written is there, and of pages that could not be written to the disk the next sync tells. A mark is not there
  during a sync, nor after one that failed: who dies then may have been the only one whom the kernel told.
- What is neither synced nor replaced durably may be lost by a power cut, in any order; but for the names of one directory, which
  change on the disk in the order in which they changed.

An open `File` lives as long as somebody holds it: removing its name leaves readers undisturbed.
"""

import errno
import os
import stat
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from enum import IntEnum
from threading import Lock as ThreadLock
from typing import Protocol, TypeVar

from odradek.log.errors import (
    DirectoryInUse,
    DirectoryOffline,
    MissingFile,
    NotOpened,
    StorageError,
    is_want,
    named,
    of_a_read,
    said_again,
    to_be_kept,
)

Buffer = bytes | bytearray | memoryview
T = TypeVar("T")

# Looked up at each call, so that a test can put a failing disk in their place.
_pwrite = os.pwrite
_pread = os.pread
_ftruncate = os.ftruncate
_fdatasync: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)  # macOS has none
_fsync = os.fsync
_sendfile = os.sendfile
_fadvise: Callable[[int, int, int, int], None] | None = getattr(os, "posix_fadvise", None)  # macOS has none

LOCK_NAME = ".lock"
TEMPORARY_SUFFIX = ".tmp"
BOOT_ID_FILE = "/proc/sys/kernel/random/boot_id"

# fcntl(2) of Linux: a hint "persists until either it is explicitly modified or the underlying filesystem is unmounted".
_GET_HINT, _SET_HINT = 1035, 1036  # F_GET_RW_HINT, F_SET_RW_HINT
_HINT = struct.Struct("=Q")
_marking = ThreadLock()  # held while a mark is changed, of whatever file; never while the disk is asked


class Mark(IntEnum):
    """The values are the kernel's write hints. Nobody has one by default; the first says that there is nothing to say of how long the data
    will live, and the second what is not far from that, of a file to which little is written any more."""

    NONE = 0  # RWH_WRITE_LIFE_NOT_SET
    LAST = 1  # RWH_WRITE_LIFE_NONE
    FOLLOWED = 3  # RWH_WRITE_LIFE_MEDIUM: a segment, and another one was made behind it


class Health:
    """Whether one log directory can still be used; shared by everything in it."""

    __slots__ = ("failure", "on_failure", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self.failure: StorageError | None = None
        self.on_failure: Callable[[StorageError], None] | None = None

    def fail(self, error: StorageError) -> StorageError:
        """Remembers the first failure and tells of it once. Returns one that says the same as `error`, to be raised."""
        if self.failure is None:
            self.failure = to_be_kept(error)
            if self.on_failure is not None:
                self.on_failure(error)
        return said_again(error)

    def failed(self, error: OSError, doing: str) -> StorageError:
        """As `fail`, by the error's own name; but of a want (`NotOpened`), with which the disk has nothing to do, only this is told."""
        failure = named(error, doing)
        return failure if isinstance(error, NotOpened) else self.fail(failure)

    def check(self) -> None:
        if self.failure is not None:
            raise DirectoryOffline(f"log directory {self.path} is offline: {self.failure.message}")


class File(Protocol):
    """One open file. `size_bytes` is known without asking the disk: nobody else writes it."""

    name: str
    size_bytes: int
    cuts: int  # how often it was truncated: bytes read before and after a cut do not belong together

    def append(self, data: Buffer) -> None: ...

    def read_at(self, position: int, size: int) -> bytes:
        """At most `size` bytes, fewer only at the end of the file."""
        ...

    def truncate(self, size_bytes: int) -> None: ...

    def sync(self) -> None:
        """Contents and length are on the disk when this returns. Blocks; may be called from a thread."""
        ...

    def drop_cached(self) -> None:
        """What is read from here on is what the disk has, as far as the kernel lets go of its own copy. After a sync."""
        ...

    @property
    def mark(self) -> Mark: ...

    def set_mark(self, mark: Mark) -> None:
        """Where the kernel or the file system knows no marks there is none afterwards."""
        ...

    def fileno(self) -> int:
        """For sendfile; -1 if there is no descriptor behind this."""
        ...


class Directory(Protocol):
    """A directory, and how to get at what is in it. Names are plain: no slashes."""

    path: str
    health: Health

    def names(self) -> list[str]:
        """Everything in it, sorted."""
        ...

    def exists(self, name: str) -> bool: ...

    def is_directory(self, name: str) -> bool: ...

    def child(self, name: str) -> "Directory":
        """The directory of that name; asks nothing of the disk."""
        ...

    def apart(self) -> "Directory":
        """The same one, for whoever could do without what it looks at: a fault that is met through this is told to nobody else."""
        ...

    def make(self, name: str) -> "Directory":
        """Creates it if it is not there."""
        ...

    def open(self, name: str, *, create: bool = False, read_only: bool = False) -> File:
        """MissingFile if it is not there and `create` is not set. `read_only` needs no right to write."""
        ...

    def read(self, name: str) -> bytes | None:
        """All of a small file; None if there is none."""
        ...

    def size(self, name: str) -> int | None: ...

    def modified_ms(self, name: str) -> int | None:
        """When the file was last written to; None where there is none, or nobody knows when."""
        ...

    def set_modified_ms(self, name: str, at_ms: int) -> None:
        """It holds what another file held since then. Synced with what is in it."""
        ...

    def replace(self, name: str, data: Buffer, *, durable: bool = True) -> None: ...

    def rename(self, old: str, new: str) -> bool:
        """False if there is nothing named `old`."""
        ...

    def renamed(self, name: str) -> None:
        """This directory has another name in the one above by now: whoever holds this goes on under that one."""
        ...

    def remove(self, name: str) -> bool:
        """A file, or a directory with all that is in it. False if there is none."""
        ...

    def sync(self) -> None:
        """Makes names durable: files created, renamed, removed."""
        ...

    def sync_file(self, name: str) -> None: ...

    def space(self) -> tuple[int, int]:
        """Bytes of the disk it lies on: all, and those we may still use."""
        ...

    def boot_id(self) -> str:
        """Of the kernel under which this process runs; empty where nobody says it."""
        ...

    def lock(self) -> "Lock":
        """DirectoryInUse if another process has it."""
        ...


class Lock(Protocol):
    def release(self) -> None: ...


class FileSlice:
    """A stretch of a file, not read yet. The shell reads it when it can be sent, which may be later.

    Meanwhile the log may have been cut and written on: what stands there then belongs to another history. With
    records of one size it even fits, batch by batch, so a follower could not tell: it would end with a mixture
    of two leaders' records. Therefore a slice is void once its file was cut.
    """

    __slots__ = ("cuts", "file", "position", "size_bytes")

    def __init__(self, file: File, position: int, size_bytes: int) -> None:
        self.file = file
        self.cuts = file.cuts
        self.position = position
        self.size_bytes = size_bytes

    def read(self) -> bytes:
        return self.read_piece(0, self.size_bytes)

    def read_piece(self, start: int, size: int) -> bytes:
        """`size` bytes from `start` on, counted from the beginning of the slice. MissingFile: it is void."""
        self._check_cuts()
        data = self.file.read_at(self.position + start, size)
        if len(data) != size:
            raise self._too_short(start, size, len(data))
        return data

    def send_to(self, descriptor: int, start: int, size: int) -> int:
        """As `read_piece`, but from the kernel's page cache straight into a socket: how many bytes it took. 0: it takes
        none now, or this is no way to its bytes; whoever then reads and writes them hears what is the matter."""
        self._check_cuts()
        source = self.file.fileno()
        if source < 0:
            return 0
        try:
            sent = _sendfile(descriptor, source, self.position + start, size)
        except OSError:
            return 0
        if sent == 0:  # the file ends here: somebody else made it shorter
            raise self._too_short(start, size, 0)
        return sent

    def _check_cuts(self) -> None:
        if self.file.cuts != self.cuts:
            raise MissingFile(
                f"{self.file.name}: cut since {self.size_bytes} bytes at {self.position} were wanted"
            )

    def _too_short(self, start: int, size: int, found: int) -> MissingFile:
        return MissingFile(
            f"{self.file.name}: {size} bytes at {self.position + start} wanted, {found} are there"
        )

    def __repr__(self) -> str:
        return f"FileSlice({self.file.name}, {self.position}, {self.size_bytes})"


def _write_rest(fd: int, data: Buffer, written: int, position: int) -> None:
    """A short write is no error (a signal, a nearly full disk): the rest follows. EINTR is retried by Python."""
    view = memoryview(data)
    while written < len(view):
        count = _pwrite(fd, view[written:], position + written)
        if count == 0:
            raise OSError(errno.EIO, f"wrote {written} of {len(view)} bytes and no more")
        written += count


# Held for nothing, each to be let go where a log finds no descriptor left: a storm of connections takes all others.
_spare: list[int] = []


def hold_spare(count: int) -> OSError | None:
    """So many, or as many as there are; those that were let go are taken again. For a process of its own. Why there is none
    beyond those."""
    try:
        while len(_spare) < count:
            _spare.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
        os.close(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        if not is_want(error):
            raise
        return error
    return None


def _open(path: str, flags: int, mode: int = 0o777) -> int:
    return _with_spare(lambda: os.open(path, flags | os.O_CLOEXEC, mode))


def _with_spare(call: Callable[[], T]) -> T:
    while True:
        try:
            return call()
        except OSError as error:
            if not is_want(error):
                raise
            try:
                spare = _spare.pop()
            except IndexError:  # asked and taken at once: another thread may want the last one, too
                raise NotOpened(error.errno, error.strerror) from error
            os.close(spare)


def _set_mark(fd: int, mark: Mark) -> None:
    if sys.platform == "linux":
        import fcntl

        with suppress(OSError):  # EINVAL: an old kernel; EPERM: the file of another user
            fcntl.fcntl(fd, _SET_HINT, _HINT.pack(mark))


def _mark(fd: int) -> Mark:
    if sys.platform == "linux":
        import fcntl

        with suppress(OSError, ValueError):  # ValueError: a hint that is none of ours
            return Mark(_HINT.unpack(fcntl.fcntl(fd, _GET_HINT, bytes(_HINT.size)))[0])
    return Mark.NONE


class OsFile:
    __slots__ = ("_fd", "_health", "_syncs", "_wanted", "cuts", "name", "size_bytes")

    def __init__(self, fd: int, name: str, health: Health, size_bytes: int) -> None:
        self.cuts = 0
        self._fd = fd
        self._health = health
        self._syncs = 0  # that run, or have failed: there is no mark
        self._wanted = Mark.NONE  # behind them
        self.name = name  # with the path, for messages
        self.size_bytes = size_bytes

    def append(self, data: Buffer) -> None:
        if self._health.failure is not None:
            self._health.check()
        try:
            written = _pwrite(self._fd, data, self.size_bytes)
            if written != len(data):
                _write_rest(self._fd, data, written, self.size_bytes)
        except OSError as error:
            raise self._failed_append(error) from error
        self.size_bytes += len(data)

    def _failed_append(self, error: OSError) -> StorageError:
        failure = named(error, f"append to {self.name}")
        try:
            _ftruncate(self._fd, self.size_bytes)  # no half of a batch is left behind
        except OSError as second:
            failure = type(failure)(f"{failure.message}; cutting the half-written rest: {second.strerror}")
        return self._health.fail(failure)

    def read_at(self, position: int, size: int) -> bytes:
        try:
            data = _pread(self._fd, size, position)
            if len(data) < size and data:
                data = self._read_rest(data, position, size)
            return data
        except (OSError, MemoryError) as error:
            raise self._health.failed(of_a_read(error), f"read of {self.name} at {position}") from error

    def _read_rest(self, data: bytes, position: int, size: int) -> bytes:
        parts = [data]
        done = len(data)
        while done < size:
            part = _pread(self._fd, size - done, position + done)
            if not part:
                break
            parts.append(part)
            done += len(part)
        return b"".join(parts)

    def truncate(self, size_bytes: int) -> None:
        self._health.check()
        try:
            _ftruncate(self._fd, size_bytes)
        except OSError as error:
            raise self._health.fail(named(error, f"truncation of {self.name} to {size_bytes}")) from error
        self.size_bytes = size_bytes
        self.cuts += 1

    def sync(self) -> None:
        self._health.check()
        try:
            self.sync_by(_fdatasync)
        except OSError as error:
            raise self._health.fail(named(error, f"fsync of {self.name}")) from error

    def sync_by(self, sync: Callable[[int], None]) -> None:
        """OSError: as the kernel says it, and there is no mark from here on."""
        fd = self._fd
        with _marking:
            if not self._syncs:
                self._wanted = _mark(fd)
                if self._wanted:
                    _set_mark(fd, Mark.NONE)
            self._syncs += 1
        sync(fd)
        with _marking:
            self._syncs -= 1
            # Whoever has the file open as well, another process say, may have given it another one meanwhile.
            if not self._syncs and self._wanted and not _mark(fd):
                _set_mark(fd, self._wanted)

    def drop_cached(self) -> None:
        if _fadvise is not None:
            with suppress(OSError):  # a file system that keeps none
                _fadvise(self._fd, 0, 0, os.POSIX_FADV_DONTNEED)

    @property
    def mark(self) -> Mark:
        return _mark(self._fd)

    def set_mark(self, mark: Mark) -> None:
        with _marking:
            self._wanted = mark
            if not self._syncs:
                _set_mark(self._fd, mark)

    def fileno(self) -> int:
        return self._fd

    def __del__(self) -> None:
        # The last holder is gone: neither the log nor a slice on its way to a socket needs it.
        os.close(self._fd)


class OsLock:
    """Held by an open file description with flock: the kernel releases it when the process dies."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class OsDirectory:
    __slots__ = ("health", "path")

    def __init__(self, path: str, health: Health | None = None) -> None:
        """The root of a log directory has its own health; what is under it shares it."""
        self.path = path
        self.health = Health(path) if health is None else health

    @classmethod
    def create(cls, path: str) -> "OsDirectory":
        """The root, made with its parents if it is not there, and then for its owner alone. One that is there keeps its
        mode: whoever made it may want a group to read it."""
        try:
            os.makedirs(path, mode=0o700, exist_ok=True)
            if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
                code = errno.EROFS if os.statvfs(path).f_flag & os.ST_RDONLY else errno.EACCES
                raise OSError(code, os.strerror(code))
        except OSError as error:
            raise named(
                error, f"log directory {path} must be one that this broker may read and write"
            ) from error
        return cls(path)

    def names(self) -> list[str]:
        try:
            return sorted(_with_spare(lambda: os.listdir(self.path)))
        except OSError as error:
            raise self._failed(error, "list", ".") from error

    def exists(self, name: str) -> bool:
        return os.path.lexists(f"{self.path}/{name}")

    def is_directory(self, name: str) -> bool:
        return os.path.isdir(f"{self.path}/{name}")

    def child(self, name: str) -> "OsDirectory":
        return OsDirectory(f"{self.path}/{name}", self.health)

    def apart(self) -> "OsDirectory":
        return OsDirectory(self.path, Health(self.health.path))

    def make(self, name: str) -> "OsDirectory":
        self.health.check()
        try:
            os.mkdir(f"{self.path}/{name}")
        except FileExistsError:
            pass
        except OSError as error:
            raise self._failed(error, "make directory", name) from error
        return self.child(name)

    def open(self, name: str, *, create: bool = False, read_only: bool = False) -> OsFile:
        path = f"{self.path}/{name}"
        if create:
            self.health.check()
        flags = os.O_RDONLY if read_only else os.O_RDWR
        try:
            fd = _open(path, flags | os.O_CREAT if create else flags, 0o644)
        except OSError as error:
            raise self._failed(error, "open", name) from error
        try:
            size_bytes = os.fstat(fd).st_size
        except OSError as error:
            os.close(fd)
            raise self._failed(error, "open", name) from error
        return OsFile(fd, path, self.health, size_bytes)

    def read(self, name: str) -> bytes | None:
        try:
            fd = _open(f"{self.path}/{name}", os.O_RDONLY)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._failed(error, "read", name) from error
        try:
            parts = []
            while part := os.read(fd, 65536):
                parts.append(part)
                if len(part) < 65536:
                    break
            return parts[0] if len(parts) == 1 else b"".join(parts)
        except (OSError, MemoryError) as error:
            raise self._failed(of_a_read(error), "read", name) from error
        finally:
            os.close(fd)

    def size(self, name: str) -> int | None:
        try:
            return os.stat(f"{self.path}/{name}").st_size
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._failed(error, "look at", name) from error

    def modified_ms(self, name: str) -> int | None:
        try:
            return os.stat(f"{self.path}/{name}").st_mtime_ns // 1_000_000
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._failed(error, "look at", name) from error

    def set_modified_ms(self, name: str, at_ms: int) -> None:
        self.health.check()
        try:
            os.utime(f"{self.path}/{name}", ns=(at_ms * 1_000_000, at_ms * 1_000_000))
        except OSError as error:
            raise self._failed(error, "set the time of", name) from error

    def replace(self, name: str, data: Buffer, *, durable: bool = True) -> None:
        self.health.check()
        path = f"{self.path}/{name}"
        temporary = path + TEMPORARY_SUFFIX
        try:
            fd = _open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
            try:
                _write_rest(fd, data, 0, 0)
                if durable:
                    # In the other order a power cut leaves the new name with none of its contents.
                    _fsync(fd)
            finally:
                os.close(fd)
            os.replace(temporary, path)
        except OSError as error:
            raise self._failed(error, "replace", name) from error
        if durable:
            self.sync()

    def rename(self, old: str, new: str) -> bool:
        self.health.check()
        try:
            os.rename(f"{self.path}/{old}", f"{self.path}/{new}")
        except FileNotFoundError:
            return False
        except OSError as error:
            raise self._failed(error, f"rename to {new}", old) from error
        return True

    def renamed(self, name: str) -> None:
        self.path = f"{self.path.rpartition('/')[0]}/{name}"

    def remove(self, name: str) -> bool:
        self.health.check()
        path = f"{self.path}/{name}"
        try:
            os.unlink(path)
        except FileNotFoundError:
            return False
        except (IsADirectoryError, PermissionError) as error:
            if not os.path.isdir(path):
                raise self._failed(error, "remove", name) from error
            child = self.child(name)
            for inner in child.names():
                child.remove(inner)
            try:
                os.rmdir(path)
            except OSError as second:
                raise self._failed(second, "remove directory", name) from second
        except OSError as error:
            raise self._failed(error, "remove", name) from error
        return True

    def sync(self) -> None:
        self.health.check()
        try:
            fd = _open(self.path, os.O_RDONLY)
            try:
                _fsync(fd)
            finally:
                os.close(fd)
        except OSError as error:
            raise self._failed(error, "fsync", ".") from error

    def sync_file(self, name: str) -> None:
        self.health.check()
        try:
            path = f"{self.path}/{name}"
            OsFile(_open(path, os.O_RDONLY), path, self.health, 0).sync_by(_fsync)
        except OSError as error:
            raise self._failed(error, "fsync", name) from error

    def space(self) -> tuple[int, int]:
        self.health.check()
        try:
            found = os.statvfs(self.path)
        except OSError as error:
            raise self._failed(error, "statvfs", ".") from error
        return found.f_frsize * found.f_blocks, found.f_frsize * found.f_bavail

    def boot_id(self) -> str:
        try:
            with open(BOOT_ID_FILE, encoding="ascii") as file:
                return file.read().strip()
        except (OSError, UnicodeDecodeError):
            return ""

    def lock(self) -> OsLock:
        import fcntl

        try:
            # Whoever may open it, if only to read, may hold it and keep this broker from starting. So nobody else may,
            # also where an older version made the file.
            fd = _open(f"{self.path}/{LOCK_NAME}", os.O_RDWR | os.O_CREAT, 0o600)
            if stat.S_IMODE(os.fstat(fd).st_mode) & 0o077:
                with suppress(PermissionError):  # another user's, and he may hold it anyway
                    os.fchmod(fd, 0o600)
        except OSError as error:  # made by another user, as a rule
            raise named(
                error, f"log directory {self.path}: its {LOCK_NAME} must be a file that this broker may write"
            ) from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(fd)
            # EACCES: held, as SMB says it.
            if not isinstance(error, BlockingIOError | PermissionError):
                raise named(
                    error,
                    f"log directory {self.path} must be on a file system with locks (flock), such as a local disk: {LOCK_NAME}",
                ) from error
            raise DirectoryInUse(
                f"log directory {self.path} is in use by another process (it holds {LOCK_NAME}); "
                "stop that broker, or give this one another log.dirs"
            ) from error
        return OsLock(fd)

    def _failed(self, error: OSError, doing: str, name: str) -> StorageError:
        """A missing file is the caller's to judge, and so is a missing directory of a log, which may have been deleted
        while a thread flushed it; a full descriptor table is not the disk's fault.

        A missing log directory is: somebody took it away, or unmounted it.
        """
        said = f"{doing} {self.path}" + ("" if name == "." else f"/{name}")
        if error.errno == errno.ENOENT and os.path.isdir(self.health.path):
            return named(error, said)
        return self.health.failed(error, said)

    def __repr__(self) -> str:
        return f"OsDirectory({self.path!r})"
