"""How many seeds it takes to catch each exhibit, from three starting points; written down as it becomes known.

A file of lines `name|from 0|from 10000|from 20000|how it failed`: the count, or `>60` where 60 were not enough. Of
several lines of one exhibit the last counts, so whoever is stopped goes on where the file ends.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.mutants.museum.catch import by_seeds
from tests.mutants.mutant import Mutant

STARTING_POINTS = (0, 10_000, 20_000)
# Everything is tried with few seeds first.
FIRST, FACTOR = 8, 3


class Count(NamedTuple):
    """Of seeds tried; the last of them is the one that failed, or none did."""

    tried: int
    is_caught: bool

    def __str__(self) -> str:
        return str(self.tried) if self.is_caught else f">{self.tried}"


class Counted(NamedTuple):
    """From each starting point."""

    counts: tuple[Count, ...]
    how: str = ""

    @property
    def median(self) -> int | None:
        """None if it was not found from most starting points."""
        middle = sorted(self.counts, key=lambda c: (not c.is_caught, c.tried))[len(self.counts) // 2]
        return middle.tried if middle.is_caught else None

    @property
    def median_in_words(self) -> str:
        tried = min((c.tried for c in self.counts if not c.is_caught), default=0)
        return str(self.median or f"not within {tried}")


NOTHING = Counted((Count(0, False),) * len(STARTING_POINTS))


def read(lines: Iterable[str]) -> dict[str, Counted]:
    found: dict[str, Counted] = {}
    for line in lines:
        name, *cells, how = line.rstrip("\n").split("|")
        found[name] = Counted(
            tuple(Count(int(cell.lstrip(">")), not cell.startswith(">")) for cell in cells), how
        )
    return found


def count_all(exhibits: Sequence[Mutant], most: int, file: Path | None) -> Mapping[str, Counted]:
    """At most `most` seeds from each starting point, with what stands in the file left as it is."""
    found: dict[str, Counted] = {}
    if file is not None and file.exists():
        found = read(file.read_text(encoding="utf-8").splitlines())
    limit = min(FIRST, most)
    while True:
        for exhibit in exhibits:
            before = found.get(exhibit.name, NOTHING)
            after = _count_on(exhibit, before, limit)
            if after != before:
                found[exhibit.name] = after
                if file is not None:
                    with file.open("a", encoding="utf-8") as lines:
                        lines.write("|".join([exhibit.name, *map(str, after.counts), after.how]) + "\n")
        if limit >= most:
            return found
        limit = min(FACTOR * limit, most)


def _count_on(exhibit: Mutant, before: Counted, limit: int) -> Counted:
    counts, how = [], before.how
    for start, count in zip(STARTING_POINTS, before.counts, strict=True):
        if not count.is_caught and count.tried < limit:
            caught = by_seeds(exhibit, start + count.tried, start + limit)
            count = Count(limit, False) if caught is None else Count(caught[0] - start + 1, True)
            how = how or (caught[1].replace("|", "/") if caught else "")
        counts.append(count)
    return Counted(tuple(counts), how)
