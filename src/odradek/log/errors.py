"""What the disk does to us, by name. All of them reach a client as KAFKA_STORAGE_ERROR."""

import errno

from odradek.model.error_codes import ErrorCode
from odradek.model.errors import OdradekError, ProtocolError
from odradek.model.remedies import LARGER_FILES, MORE_DESCRIPTORS, MORE_MEMORY


class StorageError(ProtocolError):
    """The log directory, or one log in it, cannot be used; the message says which and why."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.KAFKA_STORAGE_ERROR, message)


class DiskFault(StorageError):
    """An input/output error. After one from fsync nothing written since the last success can be trusted."""


class DiskFull(StorageError):
    """No space, or no quota, left."""


class DiskReadOnly(StorageError):
    """The file system refuses writes: mounted read-only, or no permission."""


class NoDescriptor(StorageError):
    """The process, or the machine, has no descriptor left, or no memory for one or for what is read. Nothing has happened, and the
    disk is well."""


class MissingFile(StorageError):
    """A file that must be there is not: somebody else removed it."""


class DirectoryOffline(StorageError):
    """The directory failed before; nothing is tried in it again until the broker starts anew."""


class CorruptLog(StorageError):
    """Bytes that were flushed are not what was written. Never cut silently: a peer has them, or a person decides."""


class DirectoryInUse(OdradekError):
    """Another process holds the log directory."""


class WrongDirectory(OdradekError):
    """The log directory belongs to another broker or another cluster."""


_FULL = (errno.ENOSPC, errno.EDQUOT)
_REFUSED = (errno.EROFS, errno.EACCES, errno.EPERM)
NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE)


class NotOpened(OSError):
    """What `open`, `listdir` and reads say where they have changed nothing and the disk is well. ENOMEM: only where they say it;
    fsync may have lost a page for it."""


def is_want(error: OSError) -> bool:
    """Of an `open` or a `listdir`."""
    return error.errno in NO_DESCRIPTOR or error.errno == errno.ENOMEM


def of_a_read(error: OSError | MemoryError) -> OSError:
    """The kernel finds no page for what is read (the limit of a container, say), or this process no bytes."""
    if isinstance(error, MemoryError):
        return NotOpened(errno.ENOMEM, "Cannot allocate memory")
    return NotOpened(error.errno, error.strerror) if error.errno == errno.ENOMEM else error


def to_be_kept(error: StorageError) -> StorageError:
    """Without the frames in which it came up: as long as it is kept they would keep the files that were open in them."""
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)


def said_again(error: StorageError) -> StorageError:
    """Of one that is kept: raised itself, it would keep the frames of all who ask, and with them what they were asked."""
    again: StorageError = type(error).__new__(type(error), *error.args)
    again.__dict__.update(error.__dict__)
    return again


def named(error: OSError, doing: str) -> StorageError:
    """The error by its own name, with what was being done when it came."""
    text = f"{doing}: {error.strerror or error}"
    if error.errno in _FULL:
        return DiskFull(f"{text}. Make room, then restart this broker: nothing is tried again before")
    if error.errno in _REFUSED:
        return DiskReadOnly(text)
    if error.errno == errno.EFBIG:
        return DiskFault(f"{text}; {LARGER_FILES}")
    if isinstance(error, NotOpened):
        return NoDescriptor(f"{text}; {MORE_MEMORY if error.errno == errno.ENOMEM else MORE_DESCRIPTORS}")
    if error.errno == errno.ENOENT:
        return MissingFile(text)
    return DiskFault(text)
