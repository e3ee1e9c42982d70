"""The tables of docs/museum.md: `python -m odradek.sim.museum --page COUNTS`, a file as `counting` writes it."""

from collections.abc import Iterator, Mapping, Sequence

from odradek.sim.museum import collection, once_unseen, own_bugs, shown
from odradek.sim.museum.counting import Counted
from odradek.sim.museum.exhibit import Exhibit


def tables(counts: Mapping[str, Counted]) -> Iterator[str]:
    caught = [e for e in collection.EXHIBITS if e.number not in shown.HARMLESS]
    harmless = [e for e in collection.EXHIBITS if e.number in shown.HARMLESS]
    own = [e for e in caught if e in own_bugs.EXHIBITS]
    unseen = [e for e in caught if e in once_unseen.EXHIBITS]
    yield (
        f"{len(collection.EXHIBITS)} exhibits, {len(own)} of them bugs of our own and {len(unseen)} that nobody met: "
        f"{len(caught)} are caught, {len(harmless)} do no harm here."
    )
    counted = [counts[e.number] for e in caught if e.number in counts]
    if counted:
        medians = sorted(c.median for c in counted if c.median is not None)
        yield ""
        yield (
            f"Seeds were counted for {len(counted)}. {len(medians)} of them were found by seeds from two of three "
            f"starting points or more"
            + (f", with a median of {medians[len(medians) // 2]} seeds." if medians else ".")
        )
    yield ""
    yield "| KAFKA | mended there by | what users met | changed here | caught by | seeds | median |"
    yield from _rows([e for e in caught if e not in own and e not in unseen], counts)
    yield ""
    yield "## Our own"
    yield ""
    yield "| found as | mended by | what came of it | changed here | caught by | seeds | median |"
    yield from _rows(own, counts)
    yield ""
    yield "## Once unseen"
    yield ""
    yield "| named | mended by | what would come of it | changed here | caught by | seeds | median |"
    yield from _rows(unseen, counts)
    yield ""
    yield "## Put back, and harmless"
    yield ""
    yield "| KAFKA | mended there by | what users met | changed here | why nothing comes of it |"
    yield "|---|---|---|---|---|"
    for exhibit in harmless:
        yield "| " + " | ".join([*_first_cells(exhibit), shown.HARMLESS[exhibit.number]]) + " |"


def _rows(exhibits: Sequence[Exhibit], counts: Mapping[str, Counted]) -> Iterator[str]:
    yield "|---|---|---|---|---|---|---|"
    for exhibit in exhibits:
        counted = counts.get(exhibit.number)
        seeds = "not counted" if counted is None else ", ".join(map(str, counted.counts))
        median = "-" if counted is None else counted.median_in_words
        yield "| " + " | ".join([*_first_cells(exhibit), caught_by(exhibit), seeds, median]) + " |"


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
