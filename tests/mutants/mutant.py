"""What is known of one chosen mutation, and who sees it."""

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

    @property
    def places(self) -> list[str]:
        """`Class.function` or `module.function` of each edit, for tables."""
        names = []
        for edit in self.edits:
            module, _, function = edit.at.partition(":")
            names.append(function if "." in function else f"{module.rpartition('.')[2]}.{function}")
        return names
