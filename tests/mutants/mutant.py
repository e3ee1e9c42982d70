"""What is known of one chosen mutation, and who sees it."""

from collections.abc import Iterable
from typing import NamedTuple

from odradek.sim.explore.model import Scope
from tests.mutants.edit import Edit


class Search(NamedTuple):
    """The exhaustive search finds it soon in this scope, by this invariant."""

    breaks: str
    scope: Scope


class Mutant(NamedTuple):
    name: str
    what: str  # what the changed code does, or what users met
    edits: tuple[Edit, ...]
    # Of docs/behaviours.md, or of docs/coordinator-behaviours.md: a test of each turns red.
    rows: tuple[int | str, ...] = ()
    commit: str = ""  # that mended it, in Apache Kafka or here
    scenario: str = ""  # of tests/scenarios, that comes out otherwise
    own_scenario: str = ""  # written for this one alone; no file holds it
    searched: str = ""  # the mutant whose search sees this one too
    search: Search | None = None
    harmless: str = ""  # why the rest of the code makes it so


def of_row(row: str, what: str, at: str, old: str, new: str) -> Mutant:
    """The one edit that turns a test or a trace of a row of coordinators or of the cleaner red."""
    return Mutant(f"behaviour {row}", what, (Edit(at, old, new),), rows=(row,))


def places_of(edits: Iterable[Edit]) -> list[str]:
    """`Class.function` or `module.function` of each, for tables."""
    names = []
    for edit in edits:
        module, _, function = edit.at.partition(":")
        names.append(function if "." in function else f"{module.rpartition('.')[2]}.{function}")
    return names
