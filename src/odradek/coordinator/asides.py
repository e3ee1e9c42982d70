"""Work of a coordinator that may take long: asked for as a value, done by a thread, and told as an event."""

from collections.abc import Mapping
from typing import NamedTuple

from odradek.coordinator.assignors import Question, Targets, assign
from odradek.coordinator.topic_patterns import InvalidPattern, compile_pattern

# Of one piece of work, so many names are tried on an expression each: a few tens of milliseconds, for others wait for the same thread.
NAMES_AT_ONCE = 8_000
NO_VERSION = -1


class Assigned(NamedTuple):
    """The targets of a group, as of one of its epochs."""

    group_id: str
    epoch: int
    targets: Targets


class Resolved(NamedTuple):
    """The topics that the expressions of a group match, as of one state of the metadata. `rest`: the work that goes on, of which
    this is a piece."""

    group_id: str
    topics: Mapping[str, tuple[str, ...]]
    version: int
    rest: "Resolve | None" = None


class Assign(NamedTuple):
    group_id: str
    epoch: int
    assignor: str
    question: Question

    def nothing(self) -> Assigned:
        return Assigned(self.group_id, 0, {})

    def run(self) -> Assigned:
        return Assigned(self.group_id, self.epoch, assign(self.assignor, self.question))


class Resolve(NamedTuple):
    """`found`: by the pieces before."""

    group_id: str
    expressions: tuple[str, ...]
    names: tuple[str, ...]
    version: int
    found: Mapping[str, tuple[str, ...]] = {}

    def nothing(self) -> Resolved:
        """As of no state of the metadata: the present one is still to be looked at."""
        return Resolved(self.group_id, {}, NO_VERSION)

    def run(self) -> Resolved:
        count = max(NAMES_AT_ONCE // max(len(self.names), 1), 1)
        now, left = self.expressions[:count], self.expressions[count:]
        found = {**self.found, **{one: self._matched(one) for one in now}}
        rest = self._replace(expressions=left, found=found) if left else None
        return Resolved(self.group_id, found, self.version, rest)

    def _matched(self, expression: str) -> tuple[str, ...]:
        try:
            pattern = compile_pattern(expression)
            return tuple(sorted(name for name in self.names if pattern.matches(name)))
        except InvalidPattern:
            return ()  # too dear, or written by a broker that knows more of the syntax


AsideWork = Assign | Resolve
