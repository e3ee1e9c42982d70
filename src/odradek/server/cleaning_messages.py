"""What a broker and the process that compacts for it tell each other over a pair of sockets: one request, one answer.

A size of four bytes, and a pickle: both ends are one installation, and nobody else has either socket.
"""

import pickle
import socket
from struct import Struct
from typing import Any, NamedTuple

from odradek.log import errors
from odradek.log.cleaned_segment import MadeSegment
from odradek.log.compaction.passes import CleaningJob, MapBuilt, Uncleanable
from odradek.log.errors import StorageError

_SIZE = Struct(">I")


class Begin(NamedTuple):
    """Another cleaning, of the log in `path`, under the log directory `root`. An answer tells of `slice_bytes` and the rest of a batch."""

    job: CleaningJob
    path: str
    root: str
    slice_bytes: int


class BuildMap(NamedTuple):
    """The first slice of the first pass."""


class WriteSegment(NamedTuple):
    """The first slice of the next group's."""


class GoOn(NamedTuple):
    """The next slice of the walk that was begun."""


Request = Begin | BuildMap | WriteSegment | GoOn


class Slice(NamedTuple):
    """`outcome`: the walk has come to its end."""

    bytes_moved: int  # read and written
    outcome: MapBuilt | MadeSegment | None


class Failed(NamedTuple):
    """The walk ended with an error of the class `kind`; `is_offline`: it takes the whole log directory with it."""

    kind: str
    message: str
    is_offline: bool


Answer = Slice | Failed

# By name, for an error that is pickled is built from its arguments, which are others.
_KINDS: dict[str, type[StorageError] | type[Uncleanable]] = {
    kind.__name__: kind
    for kind in (
        StorageError,
        errors.DiskFault,
        errors.DiskFull,
        errors.DiskReadOnly,
        errors.NoDescriptor,
        errors.MissingFile,
        errors.DirectoryOffline,
        errors.CorruptLog,
        Uncleanable,
    )
}


def failed(error: StorageError | Uncleanable, *, is_offline: bool) -> Failed:
    return Failed(type(error).__name__, str(error), is_offline)


def error_of(told: Failed) -> StorageError | Uncleanable:
    return _KINDS[told.kind](told.message)


def send(channel: socket.socket, message: Request | Answer) -> None:
    data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    channel.sendall(_SIZE.pack(len(data)) + data)


def receive(channel: socket.socket) -> Any:
    """A Request at the one end, an Answer at the other. None: the other one is closed, or its process is gone."""
    head = _exactly(channel, _SIZE.size)
    data = None if head is None else _exactly(channel, *_SIZE.unpack(head))
    return None if data is None else pickle.loads(data)


def _exactly(channel: socket.socket, size: int) -> bytearray | None:
    data = bytearray(size)
    at = 0
    while at < size:
        count = channel.recv_into(memoryview(data)[at:])
        if count == 0:
            return None
        at += count
    return data
