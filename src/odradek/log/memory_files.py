"""A disk in memory that forgets, tears, fails and lies as disks do, for the simulator and for tests.

Same promises as `OsDirectory` (one conformance suite for both), plus what only a made disk can do on request:

- `restart()`: the process is gone (kill -9), the page cache is not.
- `power_cut(choose)`: of what was not synced, some pages, cuts and names survive, in any combination that a journaling
  file system allows: pages of a file independently of each other, changes of one directory in their order.
- `inject(...)`: an error from an operation: EIO, ENOSPC, EROFS. `fill`: ENOSPC after a short write.
- `crash_at(step)`: the process dies in the middle of the n-th operation that changes anything, half done; or in one that
  `dies_at` chooses.
- `flip_bit(...)`.

`choose(n)` returns a number below n: whoever owns the randomness makes the choices.
"""

import errno
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar, Union

from odradek.log.errors import (
    NO_DESCRIPTOR,
    DirectoryInUse,
    MissingFile,
    NotOpened,
    StorageError,
    is_want,
    named,
    of_a_read,
)
from odradek.log.files import LOCK_NAME, TEMPORARY_SUFFIX, Buffer, Health, Mark

PAGE_BYTES = 4096
UNLIMITED = 1 << 62
Choose = Callable[[int], int]
T = TypeVar("T")


class Crashed(BaseException):
    """The process that held this handle is dead. Not an Exception: nothing may catch it and go on."""


class _Inode:
    """`durable` is what was last synced, which copies share; `dirty` the pages written since, and `cut_to` the least that it was
    cut to."""

    __slots__ = ("cut_to", "data", "dirty", "durable", "mark")

    def __init__(self, data: Buffer = b"", durable: bytes = b"") -> None:
        self.cut_to = UNLIMITED
        self.data = bytearray(data)
        self.durable = durable
        self.dirty: set[int] = set()
        self.mark = Mark.NONE

    def write(self, position: int, data: Buffer) -> None:
        written = self.data
        end = position + len(data)
        if position == len(written):
            written += data
        else:
            if len(written) < end:
                written.extend(bytes(end - len(written)))
            written[position:end] = data
        first = position // PAGE_BYTES
        if position < end <= (first + 1) * PAGE_BYTES:
            self.dirty.add(first)
        else:
            self.dirty.update(range(first, -(-end // PAGE_BYTES)))

    def cut(self, size_bytes: int) -> None:
        del self.data[size_bytes:]
        self.cut_to = min(self.cut_to, size_bytes)
        self.dirty = {page for page in self.dirty if page * PAGE_BYTES < size_bytes}
        if size_bytes % PAGE_BYTES:
            self.dirty.add(size_bytes // PAGE_BYTES)

    def sync(self) -> None:
        self.durable = bytes(self.data)
        self.dirty.clear()
        self.cut_to = UNLIMITED

    def damage(self, at: int, what: bytes) -> None:
        """Other bytes than were written, on the platter too as far as that goes."""
        self.data[at : at + len(what)] = what[: max(len(self.data) - at, 0)]
        durable = bytearray(self.durable)
        durable[at : at + len(what)] = what[: max(len(durable) - at, 0)]
        self.durable = bytes(durable)

    def shorten(self, size_bytes: int) -> None:
        """Its end is lost, on the platter too."""
        del self.data[size_bytes:]
        self.durable = self.durable[:size_bytes]

    def left_by_power_cut(self, choose: Choose) -> bytes:
        """What a power cut leaves of its bytes."""
        if self.is_durable:
            return self.durable
        old, new = self.durable, self.data
        least = min(len(old), self.cut_to)
        if len(new) == least < len(old):
            size = (len(new), len(old))[choose(2)]
        elif self.dirty:
            pages = [
                len(old),
                *([least] if least < len(old) else []),
                *range((least // PAGE_BYTES + 1) * PAGE_BYTES, len(new), PAGE_BYTES),
                len(new),
            ]
            size = pages[choose(len(pages))]
        else:
            size = len(new)
        kept = bytearray(old[:size].ljust(size, b"\0"))
        for page in sorted(self.dirty):
            start, end = page * PAGE_BYTES, min((page + 1) * PAGE_BYTES, size, len(new))
            if start < end and choose(2):
                kept[start:end] = new[start:end]
        return bytes(kept)

    @property
    def is_durable(self) -> bool:
        return not self.dirty and len(self.durable) == len(self.data)

    def after_power_cut(self, choose: Choose) -> None:
        self.mark = Mark.NONE
        self.durable = self.left_by_power_cut(choose)
        self.data = bytearray(self.durable)
        self.dirty.clear()
        self.cut_to = UNLIMITED


class _Change(NamedTuple):
    """Of a directory's names, not synced yet. `link` new to node; `unlink` name; `rename` name to other."""

    kind: str
    name: str
    other: str
    node: Union[_Inode, "_Node", None]


class _Node:
    """A directory."""

    __slots__ = ("durable", "entries", "pending")

    def __init__(self) -> None:
        self.entries: dict[str, _Inode | _Node] = {}
        self.durable: dict[str, _Inode | _Node] = {}
        self.pending: list[_Change] = []

    def change(self, change: _Change) -> None:
        _apply(self.entries, change)
        self.pending.append(change)

    def sync(self) -> None:
        self.durable = dict(self.entries)
        self.pending.clear()

    def left_by_power_cut(self, choose: Choose) -> dict[str, "_Inode | _Node"]:
        """The names that a power cut leaves in it, and what they are of as it was."""
        names = dict(self.durable)
        for change in self.pending[: choose(len(self.pending) + 1)]:
            _apply(names, change)
        return names

    def after_power_cut(self, choose: Choose) -> None:
        self.durable = self.left_by_power_cut(choose)
        self.entries = dict(self.durable)
        self.pending.clear()
        for name in sorted(self.entries):
            self.entries[name].after_power_cut(choose)

    def unmark(self) -> None:
        for node in self.entries.values():
            if isinstance(node, _Node):
                node.unmark()
            else:
                node.mark = Mark.NONE

    def volatile(self, path: str) -> Iterator[str]:
        """What a power cut may still change: files, also those it may bring back, and directories with a name that is not synced."""
        if any(change.kind != "unlink" for change in self.pending):
            yield path
        yield from (f"{path}/{change.name}" for change in self.pending if change.kind == "unlink")
        for name, node in self.entries.items():
            if isinstance(node, _Node):
                yield from node.volatile(f"{path}/{name}")
            elif not node.is_durable:
                yield f"{path}/{name}"

    def size_bytes(self) -> int:
        return sum(
            len(node.data) if isinstance(node, _Inode) else node.size_bytes()
            for node in self.entries.values()
        )


def _apply(entries: dict[str, "_Inode | _Node"], change: _Change) -> None:
    kind, name, other, node = change
    if kind == "link":
        assert node is not None
        entries[name] = node
    elif kind == "unlink":
        entries.pop(name, None)
    else:
        node = entries.pop(name, None)
        if node is not None:
            entries[other] = node


def _no_space(name: str) -> OSError:
    return OSError(errno.ENOSPC, "No space left on device", name)


class _Fault(NamedTuple):
    operation: str
    name: str
    error: int
    after: int
    times: int


class MemoryDisk:
    """One log directory's disk. `trace` names every operation that changed something."""

    def __init__(self, path: str = "/disk") -> None:
        self.path = path
        self.capacity_bytes = UNLIMITED
        self.failures = 0  # errors that were injected and came
        self.reads = 0  # of directories and of files: what each asks of a processor
        self.life = 0
        self.boot = 0
        self.trace: list[str] = []
        self.locked = False
        self._top = _Node()
        self._faults: list[_Fault] = []
        self.dies_at: Callable[[str], bool] | None = None  # asked of each line of `trace`, before it is done
        self._crash_at: int | None = None
        self._crash_choose: Choose = lambda n: n // 2
        self.root = MemoryDirectory(self, path, (), Health(path), 0)

    def restart(self) -> "MemoryDirectory":
        """The process died; another one opens what the page cache holds. Old handles are dead."""
        self.life += 1
        self.locked = False
        self._crash_at = None
        self.root = MemoryDirectory(self, self.path, (), Health(self.path), self.life)
        return self.root

    def unmount(self) -> None:
        """Of a process that is dead: what the kernel remembers of its files is gone, what is in them is not."""
        self._top.unmark()

    def power_cut(self, choose: Choose) -> "MemoryDirectory":
        self.boot += 1
        self._top.after_power_cut(choose)
        return self.restart()

    def wipe(self) -> "MemoryDirectory":
        """Another, empty disk in the place of this one."""
        self._top = _Node()
        return self.restart()

    def swap_contents(self, other: "MemoryDisk") -> None:
        """Somebody puts each into the other's machine."""
        self.unmount()
        other.unmount()
        self._top, other._top = other._top, self._top
        self.restart()
        other.restart()

    def inject(
        self, operation: str, error: int, *, name: str = "", after: int = 0, times: int = 1 << 30
    ) -> None:
        """`operation` (append, read, sync, truncate, replace, rename, remove, make, open, names, or any; short: an append
        of which half is written, and ENOSPC) on names that contain `name` fails `times` times after having worked `after`
        times.
        """
        self._faults.append(_Fault(operation, name, error, after, times))

    def fill(self, bytes_left: int) -> None:
        """Until it is healed only so much more fits on it."""
        self.capacity_bytes = self.used_bytes() + bytes_left

    def heal(self) -> None:
        self._faults.clear()
        self.capacity_bytes = UNLIMITED

    def undisturbed(self) -> "_Undisturbed":
        """Whoever only looks meets no injected error and uses none up."""
        return _Undisturbed(self)

    def crash_at(self, step: int, choose: Choose | None = None) -> None:
        """Counted from now; `choose` says how much of the operation is done."""
        self._crash_at = len(self.trace) + step
        if choose is not None:
            self._crash_choose = choose

    def flip_bit(self, path: str, bit: int) -> None:
        """On the platter: synced and not, alike. `path` is relative to the root."""
        inode = self._find(path)
        inode.damage(bit // 8, bytes([inode.data[bit // 8] ^ 1 << (bit % 8)]))

    def file_at(self, path: str) -> "_Inode | None":
        """What stands under that name now, to be compared with what stood there before."""
        *above, name = path.split("/")
        node: _Inode | _Node | None = self._top
        for part in [*above, name]:
            node = node.entries.get(part) if isinstance(node, _Node) else None
        return node if isinstance(node, _Inode) else None

    def volatile(self, path: str) -> list[str]:
        """See `_Node.volatile`; of the directory there, relative to the root."""
        return list(self._node(tuple(path.split("/"))).volatile(path))

    def contents(self, path: str) -> bytearray:
        """The bytes themselves, to be looked at or changed behind everybody's back."""
        return self._find(path).data

    def _find(self, path: str) -> _Inode:
        *above, name = path.split("/")
        inode = self._node(tuple(above)).entries[name]
        assert isinstance(inode, _Inode)
        return inode

    def _node(self, parts: tuple[str, ...]) -> _Node:
        node = self._directory(parts)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", "/".join(parts))
        return node

    def _directory(self, parts: tuple[str, ...]) -> _Node | None:
        node = self._top
        for part in parts:
            below = node.entries.get(part)
            if not isinstance(below, _Node):
                return None
            node = below
        return node

    def used_bytes(self) -> int:
        return self._top.size_bytes()

    def _room_for(self, size_bytes: int) -> int:
        """How many of so many bytes fit on it."""
        if self.capacity_bytes == UNLIMITED:
            return size_bytes
        return max(0, min(size_bytes, self.capacity_bytes - self.used_bytes()))

    def _check(self, operation: str, name: str, life: int) -> None:
        """Before anything is done: is the caller alive, and does the operation fail by request?"""
        if life != self.life:
            raise Crashed(f"{operation} {name}: this process is dead")
        if not self._faults:
            return
        for at, fault in enumerate(self._faults):
            if fault.operation in (operation, "any") and fault.name in name and fault.times > 0:
                if fault.after > 0:
                    self._faults[at] = fault._replace(after=fault.after - 1)
                else:
                    self._faults[at] = fault._replace(times=fault.times - 1)
                    self.failures += 1
                    raise OSError(fault.error, "injected", name)

    def _is_next_short(self, name: str) -> bool:
        """Half of the next append fits, and no more; asked of those for whom `inject("short", ...)` was called."""
        if not self._faults:
            return False
        try:
            self._check("short", name, self.life)
        except OSError:
            return True
        return False

    def _step(self, operation: str, name: str) -> bool:
        """Counts a change; True if the process dies in the middle of it."""
        step = f"{operation} {name}"
        self.trace.append(step)
        if self.dies_at is not None and self.dies_at(step):
            return True
        return self._crash_at is not None and len(self.trace) > self._crash_at

    def _die(self, what: str) -> Crashed:
        self.restart()
        return Crashed(what)


class _Undisturbed:
    __slots__ = ("_disk", "_faults")

    def __init__(self, disk: MemoryDisk) -> None:
        self._disk = disk

    def __enter__(self) -> None:
        self._faults, self._disk._faults = self._disk._faults, []

    def __exit__(self, *raised: object) -> None:
        self._disk._faults = self._faults


class MemoryFile:
    __slots__ = ("_directory", "_inode", "_life", "cuts", "name", "size_bytes")

    def __init__(self, directory: "MemoryDirectory", name: str, inode: _Inode) -> None:
        self.cuts = 0
        self._directory = directory
        self._inode = inode
        self._life = directory.life
        self.name = name
        self.size_bytes = len(inode.data)

    def append(self, data: Buffer) -> None:
        directory = self._directory
        disk = directory.disk
        directory.health.check()
        if disk._faults or self._life != disk.life or disk.capacity_bytes != UNLIMITED:
            self._may_fail(data)
        if disk._step("append", self.name):
            self._inode.write(self.size_bytes, memoryview(data)[: disk._crash_choose(len(data) + 1)])
            raise disk._die(f"append to {self.name}")
        self._inode.write(self.size_bytes, data)
        self.size_bytes += len(data)

    def _may_fail(self, data: Buffer) -> None:
        """An append to a disk with faults, to one that may be full, or of a process that is dead."""
        directory = self._directory
        disk = directory.disk
        try:
            disk._check("append", self.name, self._life)
            room = len(data) // 2 if disk._is_next_short(self.name) else disk._room_for(len(data))
            if room < len(data):  # a short write, and the rest of it finds no space
                self._inode.write(self.size_bytes, memoryview(data)[:room])
                raise _no_space(self.name)
        except OSError as error:
            raise directory.health.fail(named(error, f"append to {self.name}")) from error

    def read_at(self, position: int, size: int) -> bytes:
        directory = self._directory
        disk = directory.disk
        disk.reads += 1
        if disk._faults or self._life != disk.life:
            try:
                disk._check("read", self.name, self._life)
            except OSError as error:
                raise directory.health.failed(
                    of_a_read(error), f"read of {self.name} at {position}"
                ) from error
        return bytes(self._inode.data[position : position + size])

    def truncate(self, size_bytes: int) -> None:
        directory = self._directory
        directory.health.check()
        try:
            directory.disk._check("truncate", self.name, self._life)
        except OSError as error:
            failure = named(error, f"truncation of {self.name} to {size_bytes}")
            raise directory.health.fail(failure) from error
        dies = directory.disk._step("truncate", self.name)
        data = self._inode.data
        if len(data) > size_bytes:
            self._inode.cut(size_bytes)
        else:
            data.extend(bytes(size_bytes - len(data)))
        if dies:
            raise directory.disk._die(f"truncate {self.name}")
        self.size_bytes = size_bytes
        self.cuts += 1

    def sync(self) -> None:
        directory = self._directory
        directory.health.check()
        try:
            directory.disk._check("sync", self.name, self._life)
        except OSError as error:
            # The pages are marked clean though they never reached the disk: they are lost at the next power cut,
            # and a second fsync would have nothing to do (fsyncgate).
            self._inode.dirty.clear()
            self._inode.mark = Mark.NONE
            raise directory.health.fail(named(error, f"fsync of {self.name}")) from error
        if directory.disk._step("sync", self.name):
            self._inode.mark = Mark.NONE
            raise directory.disk._die(f"fsync of {self.name}")
        self._inode.sync()

    def drop_cached(self) -> None:
        """After a sync the disk has what is here."""

    @property
    def mark(self) -> Mark:
        return self._inode.mark

    def set_mark(self, mark: Mark) -> None:
        if self._life == self._directory.disk.life:
            self._inode.mark = mark

    def fileno(self) -> int:
        return -1


class MemoryLock:
    def __init__(self, disk: MemoryDisk) -> None:
        self._disk = disk
        self._life = disk.life

    def release(self) -> None:
        if self._disk.life == self._life:
            self._disk.locked = False


class MemoryDirectory:
    __slots__ = ("_parts", "disk", "health", "life", "path")

    def __init__(
        self, disk: MemoryDisk, path: str, parts: tuple[str, ...], health: Health, life: int
    ) -> None:
        self.disk = disk
        self.path = path
        self.health = health
        self.life = life
        self._parts = parts

    def names(self) -> list[str]:
        return sorted(self._do("names", ".", lambda node: list(node.entries)))

    def exists(self, name: str) -> bool:
        node = self.disk._directory(self._parts)
        return node is not None and name in node.entries

    def is_directory(self, name: str) -> bool:
        return self.disk._directory((*self._parts, name)) is not None

    def child(self, name: str) -> "MemoryDirectory":
        return MemoryDirectory(self.disk, f"{self.path}/{name}", (*self._parts, name), self.health, self.life)

    def apart(self) -> "MemoryDirectory":
        return MemoryDirectory(self.disk, self.path, self._parts, Health(self.health.path), self.life)

    def make(self, name: str) -> "MemoryDirectory":
        self.health.check()

        def make(node: _Node) -> None:
            if name not in node.entries:
                self._change(node, "make", _Change("link", name, "", _Node()))

        self._do("make", name, make)
        return self.child(name)

    def open(self, name: str, *, create: bool = False, read_only: bool = False) -> MemoryFile:
        if create:
            self.health.check()

        path = f"{self.path}/{name}"
        try:
            node = self._begin("open", path)
            inode = node.entries.get(name)
            if inode is None and create:
                inode = _Inode()
                self._change(node, "create", _Change("link", name, "", inode))
            if not isinstance(inode, _Inode):
                raise FileNotFoundError(errno.ENOENT, "No such file or directory", name)
        except OSError as error:
            raise self._failed("open", path, error) from error
        return MemoryFile(self, path, inode)

    def read(self, name: str) -> bytes | None:
        try:
            inode = self._entry("read", name)
        except MissingFile:
            return None
        return bytes(inode.data) if isinstance(inode, _Inode) else None

    def size(self, name: str) -> int | None:
        inode = self._entry("size", name)
        return len(inode.data) if isinstance(inode, _Inode) else None

    def modified_ms(self, name: str) -> int | None:
        """There is no clock here."""
        return None

    def set_modified_ms(self, name: str, at_ms: int) -> None:
        """See above."""

    def replace(self, name: str, data: Buffer, *, durable: bool = True) -> None:
        self.health.check()

        def replace(node: _Node) -> None:
            inode = _Inode()
            if self.disk._room_for(len(data)) < len(data):
                raise _no_space(name)
            temporary = name + TEMPORARY_SUFFIX
            self._change(node, "create", _Change("link", temporary, "", inode))
            inode.write(0, data)
            if self.disk._step("write", f"{self.path}/{temporary}"):
                raise self.disk._die(f"write of {temporary}")
            if durable:
                self.disk._check("sync", f"{self.path}/{temporary}", self.life)
                if self.disk._step("sync", f"{self.path}/{temporary}"):
                    raise self.disk._die(f"sync of {temporary}")
                inode.sync()
            self._change(node, "rename", _Change("rename", temporary, name, None))

        self._do("replace", name, replace)
        if durable:
            self.sync()

    def rename(self, old: str, new: str) -> bool:
        self.health.check()
        path = f"{self.path}/{old}"
        try:
            node = self._begin("rename", path)
            is_there = old in node.entries
            if is_there:
                self._change(node, "rename", _Change("rename", old, new, None))
        except OSError as error:
            return self._is_missing("rename", path, error)
        return is_there

    def renamed(self, name: str) -> None:
        self.path = f"{self.path.rpartition('/')[0]}/{name}"
        self._parts = (*self._parts[:-1], name)

    def remove(self, name: str) -> bool:
        self.health.check()
        path = f"{self.path}/{name}"
        try:
            node = self._begin("remove", path)
            inner = node.entries.get(name)
            if inner is None:
                return False
            if isinstance(inner, _Node):
                child = self.child(name)
                for below in child.names():
                    child.remove(below)
            self._change(node, "remove", _Change("unlink", name, "", None))
        except OSError as error:
            return self._is_missing("remove", path, error)
        return True

    def sync(self) -> None:
        self.health.check()

        def sync(node: _Node) -> None:
            if self.disk._step("sync", self.path):
                raise self.disk._die(f"sync of {self.path}")
            node.sync()

        self._do("sync", ".", sync)

    def sync_file(self, name: str) -> None:
        self.open(name).sync()

    def space(self) -> tuple[int, int]:
        self.health.check()
        try:
            self.disk._check("statvfs", ".", self.life)
        except OSError as error:
            raise self._failed("statvfs", ".", error) from error
        capacity_bytes = self.disk.capacity_bytes
        return capacity_bytes, capacity_bytes - self.disk.used_bytes()

    def boot_id(self) -> str:
        return f"boot-{self.disk.boot}"

    def lock(self) -> MemoryLock:
        self.disk._check("lock", LOCK_NAME, self.life)
        if self.disk.locked:
            raise DirectoryInUse(
                f"log directory {self.path} is in use by another process (it holds {LOCK_NAME}); "
                "stop that broker, or give this one another log.dirs"
            )
        self.disk.locked = True
        return MemoryLock(self.disk)

    def _change(self, directory: _Node, operation: str, change: _Change) -> None:
        """One change of names; when the process dies in it, it has happened or not."""
        disk = self.disk
        name, other = change.name, change.other
        dies = disk._step(operation, f"{self.path}/{name} -> {other}" if other else f"{self.path}/{name}")
        if not dies or disk._crash_choose(2):
            directory.change(change)
        if dies:
            raise disk._die(f"{operation} {name}")

    def _is_missing(self, operation: str, path: str, error: OSError) -> bool:
        """ENOENT of a rename or of a removal is an answer, no error: False."""
        failure = self._failed(operation, path, error)
        if isinstance(failure, MissingFile):
            return False
        raise failure from error

    def _entry(self, operation: str, name: str) -> "_Inode | _Node | None":
        path = f"{self.path}/{name}"
        try:
            return self._begin(operation, path).entries.get(name)
        except OSError as error:
            raise self._failed(operation, path, error) from error

    def _do(self, operation: str, name: str, work: Callable[[_Node], T]) -> T:
        path = self.path if name == "." else f"{self.path}/{name}"
        try:
            return work(self._begin(operation, path))
        except OSError as error:
            raise self._failed(operation, path, error) from error

    def _begin(self, operation: str, path: str) -> _Node:
        """Nothing is done yet; the operation may fail by request."""
        disk = self.disk
        disk.reads += 1
        if disk._faults or self.life != disk.life:
            disk._check(operation, path, self.life)
        return disk._node(self._parts)

    def _failed(self, operation: str, path: str, error: OSError) -> StorageError:
        """What `OsDirectory` makes of errors, this makes of the same errors."""
        if error.errno in NO_DESCRIPTOR or (operation in ("open", "names", "read") and is_want(error)):
            error = NotOpened(error.errno, error.strerror)
        said = f"{operation} {path}"
        if error.errno == errno.ENOENT and path != self.health.path:
            return named(error, said)
        return self.health.failed(error, said)

    def __repr__(self) -> str:
        return f"MemoryDirectory({self.path!r})"
