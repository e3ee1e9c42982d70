"""A test that forks a worker (`multiprocessing` does) gives it a copy of every descriptor of the brokers that run in its
own process. A broker that is killed then would still be connected to, and its directory still be locked, as long as the
worker lives: so the worker's copies are put out of use.
"""

import os
import socket
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Protocol

_DESCRIPTORS = Path("/proc/self/fd")


class Brokers(Protocol):
    """Of one cluster in this process."""

    @property
    def directory(self) -> Path: ...

    @property
    def ports(self) -> Collection[int]: ...


running: set[Brokers] = set()


def _forget() -> None:
    """By the child, which has one thread. Whatever object has the number of a descriptor keeps it, and closes nothing of
    somebody else's when it goes."""
    if not running or not _DESCRIPTORS.is_dir():
        return
    below = tuple(f"{os.path.realpath(brokers.directory)}/" for brokers in running)
    ports = {port for brokers in running for port in brokers.ports}
    nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    try:
        for descriptor in map(int, os.listdir(_DESCRIPTORS)):
            with suppress(OSError):  # that of the list itself is closed by now
                if _is_theirs(descriptor, below, ports):
                    os.dup2(nothing, descriptor, inheritable=False)
    finally:
        os.close(nothing)
    running.clear()


def _is_theirs(descriptor: int, below: tuple[str, ...], ports: Collection[int]) -> bool:
    of = os.readlink(f"{_DESCRIPTORS}/{descriptor}")
    if not of.startswith("socket:"):
        return of.startswith(below)
    with socket.socket(fileno=os.dup(descriptor)) as copy:
        name = copy.getsockname()
    return isinstance(name, tuple) and name[1] in ports


os.register_at_fork(after_in_child=_forget)
