"""Which sites are tried: drawn by a seed, so that they can be drawn again; rooms in turn, functions before lines.

Within a room a function is drawn first and a site of it second: else the longest function would get most of them.
"""

import random
from collections.abc import Sequence
from pathlib import Path

from tests.mutants.sites import Site, sites_of

# What a seed draws from if nothing else is asked: the order is part of what it draws.
ROOMS = ("replication", "log", "broker", "protocol", "records", "coordinator")
OTHER_ROOMS = (
    *("controller", "server", "store", "client"),
    *("advisor", "cli", "model", "pictures", "testing", "demo", "spark"),
)
ALL_ROOMS = (*ROOMS, *OTHER_ROOMS)
# Nothing is drawn from:
NOT_DRAWN = (
    "protocol/flat/",  # written by the compiler; a test compares each file with what it writes, which says nothing of a net
    "log/memory_files.py",  # the disk of the simulator and of tests: no broker has it
)


def drawn(source: Path, *, seed: int, count: int, rooms: Sequence[str] = ROOMS) -> list[Site]:
    """`count` different sites below `source` (the folder `odradek`) of these rooms, or of folders in them; the first n of them are those of a smaller count."""
    random_ = random.Random(seed)
    left = {room: _by_function(source, room) for room in rooms}
    chosen: list[Site] = []
    while len(chosen) < count and any(left.values()):
        for room in rooms:
            functions = left[room]
            if not functions or len(chosen) == count:
                continue
            name = random_.choice(sorted(functions))
            site = random_.choice(functions[name])
            functions[name].remove(site)
            if not functions[name]:
                del functions[name]
            chosen.append(site)
    return chosen


def _by_function(source: Path, room: str) -> dict[str, list[Site]]:
    functions: dict[str, list[Site]] = {}
    for path in sorted((source / room).rglob("*.py")):
        name = path.relative_to(source).as_posix()
        if name.startswith(NOT_DRAWN):
            continue
        for site in sites_of(name, path.read_text(encoding="utf-8")):
            functions.setdefault(f"{name}:{site.function}", []).append(site)
    return functions
