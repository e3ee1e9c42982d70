"""What a demo came to: everything the report and the page show."""

from dataclasses import dataclass, field

from odradek.demo.elections import Elections
from odradek.demo.proof import Proof
from odradek.demo.timeline import Timeline


@dataclass(frozen=True)
class Group:
    """One cell of the aggregate: how many records, and the sum of a measure over those that have it."""

    row: str
    column: str
    records: int
    measured: int
    total: float


@dataclass(frozen=True)
class Aggregate:
    """`measure` is None where the input has no delays: then records are counted alone."""

    row_name: str
    column_name: str
    measure: str | None
    groups: tuple[Group, ...]

    def by_row(self) -> list[Group]:
        return _folded(self.groups, lambda group: group.row)

    def by_column(self) -> list[Group]:
        return _folded(self.groups, lambda group: group.column)


def _folded(groups: tuple[Group, ...], name_of: object) -> list[Group]:
    folded: dict[str, Group] = {}
    for group in groups:
        name = name_of(group)  # type: ignore[operator]
        so_far = folded.get(name, Group(name, "", 0, 0, 0.0))
        folded[name] = Group(
            name,
            "",
            so_far.records + group.records,
            so_far.measured + group.measured,
            so_far.total + group.total,
        )
    return [folded[name] for name in sorted(folded)]


@dataclass(frozen=True)
class GroupReading:
    """What a group read while the topic was written: records it missed, and reads beyond the first of one."""

    group: str
    members: int
    missing: int
    again: int
    longest_gap_ms: float
    problems: list[str] = field(default_factory=list)


@dataclass
class DemoResult:
    topic: str
    sources: list[str]
    partitions: int
    replication: int
    brokers: int
    records: int = 0
    killed: int = -1
    controller_before: int = -1
    first_leaders: dict[int, int] = field(default_factory=dict)  # partition -> leader before the kill
    start_ms: float = 0.0
    timeline: Timeline = field(default_factory=lambda: Timeline(0.0))
    reading: GroupReading | None = None
    coordinator_before: int = -1
    coordinator_after: int = -1  # the first after the kill
    coordinator_partition: str = ""
    elections: Elections = field(default_factory=lambda: Elections((), ()))
    driver_killed_at: str = ""
    batches: int = 0
    table_s: float = 0.0
    java: str = ""
    aggregate: Aggregate | None = None
    proof: Proof | None = None
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.problems and self.proof is not None and self.proof.holds
