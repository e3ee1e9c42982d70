"""The tables of docs/museum.md from what is known: `python -m odradek.sim.museum --page COUNTS`.

COUNTS is a file of lines `number|seeds from 0|from 10000|from 20000`, `-` where it was not within the limit.
"""

from collections.abc import Iterator, Mapping, Sequence

from odradek.sim.museum import collection, shown
from odradek.sim.museum.exhibit import Exhibit

Counts = Mapping[str, Sequence[int | None]]


def read_counts(text: str) -> dict[str, tuple[int | None, ...]]:
    found = {}
    for line in text.splitlines():
        number, *seeds = line.split("|")
        found[number] = tuple(None if seed == "-" else int(seed) for seed in seeds)
    return found


def median(seeds: Sequence[int | None]) -> int | None:
    """None where most starting points did not find it."""
    return sorted(seeds, key=lambda n: (n is None, n))[len(seeds) // 2]


def tables(counts: Counts) -> Iterator[str]:
    caught = [e for e in collection.EXHIBITS if e.number not in shown.HARMLESS]
    harmless = [e for e in collection.EXHIBITS if e.number in shown.HARMLESS]
    yield f"{len(collection.EXHIBITS)} exhibits: {len(caught)} are caught, {len(harmless)} do no harm here."
    yield ""
    yield "| KAFKA | mended there by | what users met | changed here | caught by | seeds | median |"
    yield "|---|---|---|---|---|---|---|"
    for exhibit in caught:
        seeds = counts.get(exhibit.number, ())
        each = ", ".join("-" if n is None else str(n) for n in seeds) or "not counted"
        middle = median(seeds) if seeds else None
        cells = [*_first_cells(exhibit), caught_by(exhibit), each, "-" if middle is None else str(middle)]
        yield "| " + " | ".join(cells) + " |"
    yield ""
    yield "## Put back, and harmless"
    yield ""
    yield "| KAFKA | mended there by | what users met | changed here | why nothing comes of it |"
    yield "|---|---|---|---|---|"
    for exhibit in harmless:
        yield "| " + " | ".join([*_first_cells(exhibit), shown.HARMLESS[exhibit.number]]) + " |"


def _first_cells(exhibit: Exhibit) -> list[str]:
    return [exhibit.number, exhibit.commit, exhibit.met, exhibit.what.replace("; ", ", ")]


def caught_by(exhibit: Exhibit) -> str:
    ways = []
    if exhibit.story:
        ways.append("a story of its own")
    if exhibit.number in shown.STORIES:
        ways.append(f"`{shown.STORIES[exhibit.number]}`")
    if exhibit.searched:
        ways.append(f"explore: `{exhibit.searched}`")
    return ", ".join(ways)
