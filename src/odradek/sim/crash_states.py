"""Every state a crash can leave a disk in, from one run.

`RecordingDisk` notes what stands on the disk, and what of it is synced, before each operation that changes anything.
From each of these moments follow:

- a killed process: all that was written is there;
- a write torn by the kill: the last append ends after any of its bytes (a few are tried);
- a power cut: of what was not synced some pages and some names survive, in each combination a journaling file system
  allows (see `MemoryDisk.power_cut`). All of them where they are few, else as many as wanted, drawn by a seed.

States that look the same are given once.
"""

import random
from collections.abc import Callable, Iterator
from hashlib import blake2b
from typing import Any, NamedTuple

from odradek.log.memory_files import MemoryDisk, _Change, _Inode, _Node

KINDS = ("killed", "torn", "power cut")


class Moment(NamedTuple):
    """Before an operation. `note` is what the script knew then: whatever its checks need."""

    step: int
    operation: str  # the one that has just been done
    top: _Node
    note: Any


class CrashState(NamedTuple):
    moment: Moment
    note: Any
    kind: str  # of `KINDS`
    disk: MemoryDisk
    looks: bytes  # `fingerprint` of what stands on it

    def __str__(self) -> str:
        return f"{self.kind} at step {self.moment.step}, after {self.moment.operation or 'nothing'}"


class RecordingDisk(MemoryDisk):
    def __init__(self, take_note: Callable[[], Any] = lambda: None) -> None:
        super().__init__()
        self.take_note = take_note
        self.moments: list[Moment] = []

    def _step(self, operation: str, name: str) -> bool:
        self.note()
        return super()._step(operation, name)

    def note(self) -> None:
        """Called once more at the end of a script, for the last operation."""
        done = self.trace[-1] if self.trace else ""
        self.moments.append(Moment(len(self.trace), done, copied(self._top), self.take_note()))


def disk_with(top: _Node, disk: MemoryDisk | None = None) -> MemoryDisk:
    """A disk on which this stands, and nobody has opened anything yet."""
    disk = disk or MemoryDisk()
    disk._top = copied(top)
    return disk


def copied(top: _Node) -> _Node:
    """A file may have several names, synced and not: it is one file in the copy as well."""
    known: dict[int, _Inode | _Node] = {}

    def one(node: "_Inode | _Node") -> "_Inode | _Node":
        found = known.get(id(node))
        if found is None:
            if isinstance(node, _Inode):
                found = known[id(node)] = _Inode(node.data, node.durable)
                found.dirty, found.cut_to = set(node.dirty), node.cut_to
            else:
                found = known[id(node)] = _Node()
                found.entries = {name: one(below) for name, below in node.entries.items()}
                found.durable = {name: one(below) for name, below in node.durable.items()}
                found.pending = [
                    _Change(c.kind, c.name, c.other, None if c.node is None else one(c.node))
                    for c in node.pending
                ]
        return found

    made = one(top)
    assert isinstance(made, _Node)
    return made


def without_what_was_lost(top: _Node, choose: Callable[[int], int]) -> _Node:
    """What stands on a copy of the disk after `MemoryDisk.power_cut`. Most of what is not synced is copied by nobody."""
    known: dict[int, _Inode | _Node] = {}

    def one(node: "_Inode | _Node") -> "_Inode | _Node":
        found = known.get(id(node))
        if found is None:
            if isinstance(node, _Inode):
                left = node.left_by_power_cut(choose)
                found = known[id(node)] = _Inode(left, left)
            else:
                found = known[id(node)] = _Node()
                names = node.left_by_power_cut(choose)
                found.durable = {name: one(names[name]) for name in sorted(names)}
                found.entries = dict(found.durable)
        return found

    made = one(top)
    assert isinstance(made, _Node)
    return made


def crash_states(moments: list[Moment], *, cuts_per_moment: int, seed: int) -> Iterator[CrashState]:
    """See the module. At most `cuts_per_moment` different power cuts of each moment."""
    seen: set[tuple[bytes, str]] = set()
    for before, moment in zip([None, *moments], moments, strict=False):
        # A torn write has not been done: what was known before it holds.
        known = {"torn": moment if before is None else before}
        said = {kind: repr((known.get(kind, moment).note, kind == "power cut")) for kind in KINDS}
        for kind, top in _of(before, moment, cuts_per_moment, seed):
            looks = fingerprint(top)
            if (looks, said[kind]) not in seen:
                seen.add((looks, said[kind]))
                disk = MemoryDisk()
                disk._top = top
                yield CrashState(moment, known.get(kind, moment).note, kind, disk, looks)


def _of(before: Moment | None, moment: Moment, cuts: int, seed: int) -> Iterator[tuple[str, _Node]]:
    yield "killed", copied(moment.top)
    if before is not None and moment.operation.startswith("append "):
        yield from _torn(before, moment)
    choices = random.Random(seed * 1_000_003 + moment.step)
    for tried, choose in enumerate(all_choices(), start=1):
        yield "power cut", without_what_was_lost(moment.top, choose)
        if tried == cuts:
            break
    else:
        return
    # There are more than that: the ones drawn lie anywhere among all of them, not at their beginning only.
    for _ in range(cuts):
        yield "power cut", without_what_was_lost(moment.top, choices.randrange)


def _torn(before: Moment, moment: Moment) -> Iterator[tuple[str, _Node]]:
    path = moment.operation.removeprefix("append ").split("/", 2)[2]
    disk = disk_with(moment.top)
    old = disk_with(before.top)
    begin, end = len(old.contents(path)), len(disk.contents(path))
    size = end - begin
    for cut in sorted({1, 8, 12, 17, 60, 61, size // 2, size - 1}):
        if 0 < cut < size:
            disk = disk_with(moment.top)
            del disk.contents(path)[begin + cut :]
            yield "torn", disk._top


def all_choices() -> Iterator[Callable[[int], int]]:
    """`choose` functions, one for each combination of answers; the next may be asked for once the last was used."""
    prefix: list[int] = []
    while True:
        asked: list[tuple[int, int]] = []

        def choose(n: int, *, prefix: list[int] = prefix, asked: list[tuple[int, int]] = asked) -> int:
            # Everything lost comes last: it is the emptiest disk, and the same for many moments.
            answer = prefix[len(asked)] if len(asked) < len(prefix) else n - 1
            asked.append((answer, n))
            return answer

        yield choose
        while asked and asked[-1][0] == 0:
            asked.pop()
        if not asked:
            return
        prefix = [answer for answer, _ in asked[:-1]] + [asked[-1][0] - 1]


def fingerprint(top: _Node, said: bytes = b"") -> bytes:
    """Of what whoever opens the disk finds there: names and bytes. `said`: what else tells two states apart."""
    digest = blake2b(said, digest_size=16)

    def walk(node: _Node, path: str) -> None:
        entries = node.entries
        for name in sorted(entries):
            below = entries[name]
            if isinstance(below, _Inode):
                digest.update(f"{path}/{name} {len(below.data)}\n".encode())
                digest.update(below.data)
            else:
                digest.update(f"{path}/{name}/\n".encode())
                walk(below, f"{path}/{name}")

    walk(top, "")
    return digest.digest()
