"""The tables of docs/museum.md: `python -m tests.mutants.museum --page COUNTS`, a file as `counting` writes it."""

from collections.abc import Iterator, Mapping, Sequence

from tests.mutants.edit import Edit
from tests.mutants.museum.counting import Counted
from tests.mutants.mutant import Mutant, places_of
from tests.mutants.table import EXHIBITS, once_unseen, own
from tests.mutants.table.shown_by_tests import SHOWN_BY_TESTS, TRACE
from tests.mutants.table.shown_by_worlds import SHOWN_BY_WORLDS
from tests.mutants.table.transactions import SEARCHED_TRANSACTIONS


def tables(counts: Mapping[str, Counted]) -> Iterator[str]:
    caught = [e for e in EXHIBITS if not e.harmless]
    harmless = [e for e in EXHIBITS if e.harmless]
    ours = [e for e in caught if e in own.EXHIBITS]
    unseen = [e for e in caught if e in once_unseen.EXHIBITS]
    yield (
        f"{len(EXHIBITS)} exhibits, {len(ours)} of them bugs of our own and {len(unseen)} that nobody met: "
        f"{len(caught)} are caught, {len(harmless)} do no harm here."
    )
    counted = [counts[e.name] for e in caught if e.name in counts]
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
    yield from _rows([e for e in caught if e not in ours and e not in unseen], counts)
    yield ""
    yield "## Our own"
    yield ""
    yield "| found as | mended by | what came of it | changed here | caught by | seeds | median |"
    yield from _rows(ours, counts)
    yield ""
    yield "## Once unseen"
    yield ""
    yield "| named | mended by | what would come of it | changed here | caught by | seeds | median |"
    yield from _rows(unseen, counts)
    yield ""
    yield "## Coordinators"
    yield ""
    yield from of_coordinators()
    yield ""
    yield "## Put back, and harmless"
    yield ""
    yield "| KAFKA | mended there by | what users met | changed here | why nothing comes of it |"
    yield "|---|---|---|---|---|"
    for exhibit in harmless:
        yield "| " + " | ".join([*_first_cells(exhibit), exhibit.harmless]) + " |"


def of_coordinators() -> Iterator[str]:
    """Of coordinators and of the cleaner: by name of the bug of Apache Kafka, of the proposal whose rule is broken, or of ours."""
    yield "| KAFKA, or named | what would come of it | changed here | caught by |"
    yield "|---|---|---|---|"
    for world in SHOWN_BY_WORLDS:
        yield f"| {world.source} | {world.what} | {_places(world.edits)} | a world, `{world.breaks}` |"
    for seen in SHOWN_BY_TESTS:
        module, _, name = seen.shown_by.partition(":")
        file = module.removeprefix("tests.").replace(".", "/") + ".py"
        by = f"trace {name}" if module == TRACE else f"`{file}::{name}`"
        yield f"| {seen.source} | {seen.what} | {_places(seen.edits)} | {by} |"
    for searched in SEARCHED_TRANSACTIONS:
        where = _places(searched.edits)
        yield f"| `{searched.name}` | {searched.what} | {where} | explore, `{searched.breaks}` |"


def _places(edits: Sequence[Edit]) -> str:
    return ", ".join(f"`{place}`" for place in places_of(edits))


def _rows(exhibits: Sequence[Mutant], counts: Mapping[str, Counted]) -> Iterator[str]:
    yield "|---|---|---|---|---|---|---|"
    for exhibit in exhibits:
        counted = counts.get(exhibit.name)
        seeds = "not counted" if counted is None else ", ".join(map(str, counted.counts))
        median = "-" if counted is None else counted.median_in_words
        yield "| " + " | ".join([*_first_cells(exhibit), caught_by(exhibit), seeds, median]) + " |"


def _first_cells(exhibit: Mutant) -> list[str]:
    return [exhibit.name, exhibit.commit, exhibit.what, _places(exhibit.edits)]


def caught_by(exhibit: Mutant) -> str:
    ways = []
    if exhibit.own_scenario:
        ways.append("a scenario of its own")
    if exhibit.scenario:
        ways.append(f"`{exhibit.scenario}`")
    if exhibit.searched:
        ways.append(f"explore: `{exhibit.searched}`")
    return ", ".join(ways)
