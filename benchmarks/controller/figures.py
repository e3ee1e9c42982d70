"""Samples, their medians, the exponents they grow with, and the tables of docs/controller-scale.md."""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

# (store, work) -> the most it may take at 100,000 partitions, in seconds
GOALS_S = {
    ("embedded", "failover"): 2.0,
    ("zookeeper", "failover"): 5.0,
    ("embedded", "shutdown"): 3.0,
    ("zookeeper", "shutdown"): 3.0,
}
GOAL_ELECTION_US = 30.0
GOAL_AT = 100_000
# Two cores: one is ours, and now and then the store's server has the other.
QUIET_LOAD = 2.5
STORES = ("memory", "embedded", "zookeeper")


@dataclass(frozen=True)
class Sample:
    """One repeat of one work."""

    store: str
    partitions: int
    work: str
    touched: int
    seconds: float
    cpu_seconds: float
    store_seconds: float
    server_cpu_seconds: float
    afterwards_cpu_seconds: float
    counts: dict[str, int]  # empty: known from a table that did not say
    load: float  # of the machine, when it began
    taken: str = ""  # the day


@dataclass
class Cell:
    """All repeats of one work on one store at one size."""

    samples: list[Sample] = field(default_factory=list)

    @property
    def first(self) -> Sample:
        return self.samples[0]

    @property
    def median_s(self) -> float:
        return statistics.median(sample.seconds for sample in self.samples)

    @property
    def microseconds_each(self) -> float:
        return self.median_s / self.first.touched * 1e6

    @property
    def is_disturbed(self) -> bool:
        """Other work ran on the machine: not what the program can do."""
        return min(sample.load for sample in self.samples) > QUIET_LOAD

    def range_text(self) -> str:
        seconds = sorted(sample.seconds for sample in self.samples)
        mark = " \\*" if self.is_disturbed else ""
        if len(seconds) == 1:
            return f"{shown(seconds[0])}{mark}"
        return f"{shown(self.median_s)} ({shown(seconds[0])} - {shown(seconds[-1])}){mark}"


def shown(seconds: float) -> str:
    return f"{seconds:.2f}" if seconds >= 0.995 else f"{seconds:.3f}"


def cells_of(samples: Iterable[Sample]) -> dict[tuple[str, str, int], Cell]:
    """By store, work and size, in the order measured."""
    cells: dict[tuple[str, str, int], Cell] = {}
    for sample in samples:
        cells.setdefault((sample.store, sample.work, sample.partitions), Cell()).samples.append(sample)
    return cells


def exponent(points: Sequence[tuple[float, float]]) -> float | None:
    """The slope of log y over log x: 1 is linear. None where there is nothing to fit."""
    usable = [(math.log(x), math.log(y)) for x, y in points if x > 0 and y > 0]
    if len({x for x, _ in usable}) < 2:
        return None
    return statistics.linear_regression(*zip(*usable, strict=True)).slope


def table(samples: Sequence[Sample], titles: dict[str, str]) -> str:
    """One row a work and store, one column a size; behind them how time and counts grow."""
    cells = cells_of(samples)
    sizes = sorted({size for _, _, size in cells})
    head = " | ".join(f"{size:,}" for size in sizes)
    lines = [
        f"| work | store | {head} | us each | grows: time | grows: counts | wanted at 100,000 |",
        "|---" * (6 + len(sizes)) + "|",
    ]
    for work, title in titles.items():
        for store in _stores_of(cells, work):
            row = [(size, cells.get((store, work, size))) for size in sizes]
            texts = [cell.range_text() if cell is not None else "" for _, cell in row]
            measured = [(size, cell) for size, cell in row if cell is not None]
            time_grows = exponent([(size, cell.median_s) for size, cell in measured])
            each = measured[-1][1].microseconds_each
            lines.append(
                f"| {title} | {store} | {' | '.join(texts)} | {each:.1f} | {_two(time_grows)} | "
                f"{_counts_grow(measured)} | {_wanted(store, work, dict(measured))} |"
            )
    return "\n".join(lines)


def counts_table(samples: Sequence[Sample], titles: dict[str, str]) -> str:
    """What was counted with 100,000 partitions (where not measured: with the most), and the exponent of each count
    over all sizes."""
    cells = cells_of(sample for sample in samples if sample.counts)
    names = list(dict.fromkeys(name for cell in cells.values() for name in cell.first.counts))
    lines = [f"| work | store | at | {' | '.join(names)} |", "|---" * (3 + len(names)) + "|"]
    for work, title in titles.items():
        for store in _stores_of(cells, work):
            measured = {size: cell for (s, w, size), cell in sorted(cells.items()) if (s, w) == (store, work)}
            at = GOAL_AT if GOAL_AT in measured else max(measured)
            counted = measured[at].first.counts
            texts = []
            for name in names:
                grows = exponent([(size, cell.first.counts[name]) for size, cell in measured.items()])
                texts.append(f"{counted[name]:,} ({_two(grows)})" if counted[name] else "0")
            lines.append(f"| {title} | {store} | {at:,} | {' | '.join(texts)} |")
    return "\n".join(lines)


def _stores_of(cells: Iterable[tuple[str, str, int]], work: str) -> list[str]:
    found = {store for store, measured, _ in cells if measured == work}
    return [store for store in STORES if store in found]


def costs_table(samples: Sequence[Sample], titles: dict[str, str]) -> str:
    """Where the time of 100,000 partitions goes: medians, in seconds."""
    cells = cells_of(samples)
    lines = [
        "| work | store | whole | controller's processor time | waiting for the store | ZooKeeper's processor time | "
        "journal and log, afterwards |",
        "|---" * 7 + "|",
    ]
    for work, title in titles.items():
        for store in _stores_of(cells, work):
            cell = cells.get((store, work, GOAL_AT))
            if cell is None:
                continue
            medians = [
                statistics.median(getattr(sample, name) for sample in cell.samples)
                for name in (
                    "seconds",
                    "cpu_seconds",
                    "store_seconds",
                    "server_cpu_seconds",
                    "afterwards_cpu_seconds",
                )
            ]
            lines.append(f"| {title} | {store} | {' | '.join(f'{value:.2f}' for value in medians)} |")
    return "\n".join(lines)


def _counts_grow(measured: Sequence[tuple[int, Cell]]) -> str:
    """The largest exponent of any count: what would show a cost that is more than linear."""
    counted = [(size, cell.first.counts) for size, cell in measured if cell.first.counts]
    exponents = [
        found
        for name in (counted[0][1] if counted else ())
        if (found := exponent([(size, counts[name]) for size, counts in counted])) is not None
    ]
    return _two(max(exponents)) if exponents else ""


def _two(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _wanted(store: str, work: str, measured: dict[int, Cell]) -> str:
    cell = measured.get(GOAL_AT)
    if work == "election" and store == "embedded":
        verdict = "" if cell is None else _verdict(cell.microseconds_each <= GOAL_ELECTION_US)
        return f"<= {GOAL_ELECTION_US:g} us each{verdict}"
    goal = GOALS_S.get((store, work))
    if goal is None:
        return ""
    return f"<= {goal:g} s{'' if cell is None else _verdict(cell.median_s <= goal)}"


def _verdict(is_reached: bool) -> str:
    return ": reached" if is_reached else ": missed"
