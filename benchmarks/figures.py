"""A measured value, what it cost, and the table of medians they become."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field


@dataclass
class Figure:
    """One repeat of one cell on one peer. `problem` says why there is no value (a lost record, say)."""

    value: float
    cpu_s_per_gb: float | None = None
    rss_mb: float | None = None
    notes: dict[str, float] = field(default_factory=dict)
    problem: str | None = None
    cost: float | None = None  # in the cell's own unit of cost


@dataclass(frozen=True)
class Cell:
    """What is measured. `reach` is the ratio (or, with `limit`, the value of ours) this release aims at."""

    key: str
    measure: str
    title: str
    unit: str
    more_is_better: bool = True
    ratio_reach: float | None = None
    limit: float | None = None  # at most, in the cell's unit
    floor: float | None = None  # at least
    client_limit: str | None = None  # name of the calibration that bounds the client
    cost_unit: str = ""


@dataclass
class Row:
    cell: Cell
    figures: dict[str, list[Figure]] = field(default_factory=dict)
    against: str = "apache"  # the peer whose figures ours are compared with

    def add(self, peer: str, figure: Figure) -> None:
        self.figures.setdefault(peer, []).append(figure)

    def median(self, peer: str) -> float | None:
        runs = self.figures.get(peer, [])
        if not runs or any(run.problem for run in runs):
            return None
        return statistics.median(run.value for run in runs)

    def ratio(self) -> float | None:
        ours, theirs = self.median("odradek"), self.median(self.against)
        if not ours or not theirs:
            return None
        return ours / theirs if self.cell.more_is_better else theirs / ours

    def median_cost(self, peer: str) -> float | None:
        costs = [run.cost for run in self.figures.get(peer, []) if run.cost is not None and not run.problem]
        return statistics.median(costs) if costs else None

    def cost_ratio(self) -> float | None:
        ours, theirs = self.median_cost("odradek"), self.median_cost(self.against)
        return theirs / ours if ours and theirs else None

    def verdict(self, calibration: dict[str, float]) -> str:
        ours, ratio, cell = self.median("odradek"), self.ratio(), self.cell
        if ours is None:
            return "no figure"
        words = []
        if cell.limit is not None:
            words.append("reached" if ours <= cell.limit else f"missed (<= {cell.limit:g} {cell.unit})")
        elif cell.floor is not None:
            words.append("reached" if ours >= cell.floor else f"missed (>= {number(cell.floor)} {cell.unit})")
        elif cell.ratio_reach is not None:
            if ratio is None:
                words.append(f"no peer (>= {cell.ratio_reach:g}x)")
            else:
                words.append("reached" if ratio >= cell.ratio_reach else f"missed (>= {cell.ratio_reach:g}x)")
        if cell.client_limit and ours > 0.9 * calibration.get(cell.client_limit, float("inf")):
            words.append("client-bound")
        return ", ".join(words)


def number(value: float | None) -> str:
    if value is None:
        return "-"
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def _peer_text(row: Row, peer: str, why_not: str | None) -> str:
    runs = row.figures.get(peer)
    if not runs:
        return f"not run{f' ({why_not})' if why_not else ''}"
    problems = sorted({run.problem for run in runs if run.problem})
    if problems:
        return f"no figure: {'; '.join(problems)}"
    values = [run.value for run in runs]
    text = number(statistics.median(values))
    if len(values) > 1:
        text += f" ({number(min(values))} - {number(max(values))})"
    return text


def _cost_text(row: Row, peer: str) -> str:
    runs = [run for run in row.figures.get(peer, []) if not run.problem]
    cost = row.median_cost(peer)
    words = [] if cost is None else [f"{number(cost)} {row.cell.cost_unit}"]
    for name, unit in (("cpu_s_per_gb", "CPU s/GB"), ("rss_mb", "MB RSS")):
        values = [getattr(run, name) for run in runs if getattr(run, name) is not None]
        if values:
            words.append(f"{number(statistics.median(values))} {unit}")
    noted: dict[str, list[float]] = {}
    for run in runs:
        for name, value in run.notes.items():
            noted.setdefault(name, []).append(value)
    words += [f"{name} {number(statistics.median(values))}" for name, values in noted.items()]
    return ", ".join(words)


def table(
    rows: Iterable[Row],
    calibration: dict[str, float],
    peers: Sequence[str],
    why_not: dict[str, str],
    *,
    has_cost_ratio: bool = False,
) -> str:
    """The table in Markdown; it reads well enough on a terminal too."""
    head = ["", "measure", "unit"]
    for peer in peers:
        head += [peer, "its cost"]
    head += ["ratio", *(["by cost"] if has_cost_ratio else []), "verdict"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in rows:
        if not row.figures:
            continue
        ratio = row.ratio()
        cells = [row.cell.measure, row.cell.title, row.cell.unit]
        for peer in peers:
            cells += [_peer_text(row, peer, why_not.get(peer)), _cost_text(row, peer)]
        ratios = [ratio, row.cost_ratio()] if has_cost_ratio else [ratio]
        cells += ["-" if found is None else f"{found:.2f}x" for found in ratios]
        cells.append(row.verdict(calibration))
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)
