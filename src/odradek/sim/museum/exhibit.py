"""What is known of one bug."""

from typing import NamedTuple

from odradek.sim.museum.mutation import Change


class Exhibit(NamedTuple):
    number: str  # of Apache's issue, without KAFKA-
    commit: str  # that mended it there
    met: str  # what users met
    changes: tuple[Change, ...]
    story: str = ""  # told for this bug alone; else one of tests/scenarios shows it, or a seed
    searched: str = ""  # name in explore.mutations, if the exhaustive search shows it too

    @property
    def what(self) -> str:
        """The change in one line, for the table."""
        return "; ".join(f"`{c.owner.__name__.rpartition('.')[2]}.{c.function}`" for c in self.changes)
