"""Plots as SVG text, drawn here: no library, nothing loaded from anywhere, readable in any browser."""

import itertools
import math
from collections.abc import Iterable, Sequence
from html import escape

WIDTH = 1040
LEFT, RIGHT = 64, 20
# Broker 1, 2, 3, ...: told apart also without colour vision (Okabe and Ito).
BROKER_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")
# A mark's place in the story -> its colour.
MARK_COLOURS = {
    "kill": "#c0392b",
    "controller": "#8e44ad",
    "leader": "#0072B2",
    "restart": "#7f8c8d",
    "isr-full": "#1e8449",
}


def broker_colour(broker: int) -> str:
    return BROKER_COLOURS[(broker - 1) % len(BROKER_COLOURS)]


def nice_ticks(low: float, high: float, wanted: int = 6) -> list[float]:
    """Round numbers between low and high."""
    if high <= low:
        return [low]
    raw = (high - low) / max(wanted, 1)
    magnitude = 10 ** math.floor(math.log10(raw))
    step = next(m * magnitude for m in (1, 2, 2.5, 5, 10) if m * magnitude >= raw)
    first = math.ceil(low / step - 1e-9) * step
    count = int((high - first) / step + 1e-9)
    return [round(first + index * step, 10) for index in range(count + 1)]


def number(value: float) -> str:
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:g}"


class Canvas:
    """An SVG under construction. x is in data units; y goes down in pixels."""

    def __init__(self, height: int, x_low: float, x_high: float, label: str) -> None:
        self.height = height
        self.x_low, self.x_high = x_low, max(x_high, x_low + 1e-9)
        self.label = label
        self.parts: list[str] = []

    def x(self, value: float) -> float:
        share = (value - self.x_low) / (self.x_high - self.x_low)
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def add(self, part: str) -> None:
        self.parts.append(part)

    def text(self, x: float, y: float, words: str, *, anchor: str = "middle", style: str = "") -> None:
        more = f' class="{style}"' if style else ""
        self.add(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{escape(words)}</text>')

    def line(self, x1: float, y1: float, x2: float, y2: float, style: str, more: str = "") -> None:
        self.add(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{style}"{more}/>')

    def rect(self, x: float, y: float, width: float, height: float, more: str) -> None:
        self.add(f'<rect x="{x:.2f}" y="{y:.2f}" width="{max(width, 0):.2f}" height="{height:.2f}" {more}/>')

    def x_axis(self, y: float, unit: str) -> None:
        self.line(LEFT, y, WIDTH - RIGHT, y, "axis")
        for tick in nice_ticks(self.x_low, self.x_high, 10):
            self.line(self.x(tick), y, self.x(tick), y + 4, "axis")
            self.text(self.x(tick), y + 17, number(tick), style="tick")
        self.text(WIDTH - RIGHT, y + 32, unit, anchor="end", style="tick")

    def svg(self) -> str:
        body = "\n".join(self.parts)
        return (
            f'<svg viewBox="0 0 {WIDTH} {self.height}" role="img" aria-label="{escape(self.label)}" '
            f'xmlns="http://www.w3.org/2000/svg">\n{body}\n</svg>'
        )


class Mark:
    """A moment to be drawn: a vertical line with words on top."""

    def __init__(self, seconds: float, name: str, words: str) -> None:
        self.seconds, self.name, self.words = seconds, name, words


def acknowledgements(
    samples: Sequence[tuple[float, float]],
    lanes: Sequence[tuple[str, Sequence[tuple[float, float, int]]]],
    marks: Sequence[Mark],
    *,
    first_s: float,
    last_s: float,
    gap: tuple[float, float] | None,
    slot_s: float,
    label: str,
) -> str:
    """Acknowledgements per second as an area; below it a lane a partition, coloured by who leads.

    A lane is a list of (from, to, leader) stretches in which it had acknowledgements.
    """
    shown = [mark for mark in marks if first_s <= mark.seconds <= last_s]
    top = 20 + 16 * len(shown)
    plot = 190
    lane_height = 13
    bottom = top + plot
    height = bottom + 16 + lane_height * len(lanes) + 48
    canvas = Canvas(height, first_s, last_s, label)
    peak = max((value for at, value in samples if first_s <= at <= last_s), default=1.0) or 1.0
    ticks = nice_ticks(0, peak * 1.05, 4)
    scale = plot / max(ticks[-1], peak * 1.05)
    for tick in ticks:
        y = bottom - tick * scale
        canvas.line(LEFT, y, WIDTH - RIGHT, y, "grid")
        canvas.text(LEFT - 8, y + 4, number(tick), anchor="end", style="tick")
    lanes_end = bottom + 12 + lane_height * len(lanes)
    if gap is not None and gap[1] >= first_s and gap[0] <= last_s:
        left, right = canvas.x(max(gap[0], first_s)), canvas.x(min(gap[1], last_s))
        canvas.rect(left, top, max(right - left, 1.5), lanes_end - top, 'class="gap"')
    points: list[str] = []
    for at, value in samples:
        if first_s <= at < last_s:
            y = bottom - value * scale
            if not points:
                points.append(f"{canvas.x(at):.1f},{bottom:.1f}")
            points.append(f"{canvas.x(at):.1f},{y:.1f}")
            points.append(f"{canvas.x(min(at + slot_s, last_s)):.1f},{y:.1f}")
    if points:
        last_x = points[-1].partition(",")[0]
        points.append(f"{last_x},{bottom:.1f}")
    canvas.add(f'<polygon points="{" ".join(points)}" class="area"/>')
    for index, (name, stretches) in enumerate(lanes):
        y = bottom + 12 + index * lane_height
        canvas.text(LEFT - 8, y + 10, name, anchor="end", style="tick")
        for begin, end, leader in stretches:
            if end > first_s and begin < last_s:
                left, right = canvas.x(max(begin, first_s)), canvas.x(min(end, last_s))
                canvas.rect(left, y + 1, right - left, lane_height - 2, f'fill="{broker_colour(leader)}"')
    for index, mark in enumerate(shown):
        x, y = canvas.x(mark.seconds), 14 + 16 * index
        colour = MARK_COLOURS.get(mark.name, "#555")
        canvas.line(x, y + 4, x, lanes_end, "mark", f' stroke="{colour}"')
        to_left = x > WIDTH * 0.62
        canvas.add(
            f'<text x="{x + (-6 if to_left else 6):.1f}" y="{y + 8:.1f}" text-anchor="{"end" if to_left else "start"}" '
            f'class="words" style="fill:{colour}">{escape(mark.words)}</text>'
        )
    canvas.x_axis(lanes_end + 4, "seconds since the collector began")
    canvas.text(LEFT, top - 6, "acknowledged records per second", anchor="start", style="tick")
    return canvas.svg()


def bars(rows: Sequence[tuple[str, float, str]], unit: str, label: str) -> str:
    """Horizontal bars: (name, value, words behind the bar)."""
    height_of_row = 24
    left = 190
    low = min(0.0, min((value for _, value, _ in rows), default=0.0))
    high = max((value for _, value, _ in rows), default=1.0) or 1.0
    height = height_of_row * len(rows) + 44

    def x(value: float) -> float:
        return left + (value - low) / (high - low) * (WIDTH - left - 170)

    canvas = Canvas(height, 0, 1, label)
    bottom = 8 + height_of_row * len(rows)
    for tick in nice_ticks(low, high, 6):
        canvas.line(x(tick), 4, x(tick), bottom, "grid")
        canvas.text(x(tick), bottom + 16, number(tick), style="tick")
    canvas.text(WIDTH - RIGHT, bottom + 16, unit, anchor="end", style="tick")
    for index, (name, value, words) in enumerate(rows):
        y = 8 + index * height_of_row
        canvas.text(left - 10, y + 15, name, anchor="end", style="name")
        start, end = sorted((x(0), x(value)))
        canvas.rect(start, y + 3, max(end - start, 0.8), height_of_row - 7, 'class="bar" rx="2"')
        canvas.text(max(end, x(0)) + 8, y + 15, words, anchor="start", style="tick")
    return canvas.svg()


def columns(rows: Sequence[tuple[str, float, float]], unit: str, label: str) -> str:
    """Columns with a value and a weight: the weight (how many records) is the shade of the column."""
    plot, top = 200, 26
    bottom = top + plot
    canvas = Canvas(bottom + 46, 0, max(len(rows), 1), label)
    low = min(0.0, min((value for _, value, _ in rows), default=0.0))
    high = max((value for _, value, _ in rows), default=1.0) or 1.0
    ticks = nice_ticks(low, high * 1.05, 5)

    def y(value: float) -> float:
        return bottom - (value - low) / (max(ticks[-1], high * 1.05) - low) * plot

    for tick in ticks:
        canvas.line(LEFT, y(tick), WIDTH - RIGHT, y(tick), "grid")
        canvas.text(LEFT - 8, y(tick) + 4, number(tick), anchor="end", style="tick")
    heaviest = max((weight for _, _, weight in rows), default=1.0) or 1.0
    for index, (name, value, weight) in enumerate(rows):
        left, right = canvas.x(index + 0.12), canvas.x(index + 0.88)
        upper, lower = sorted((y(0), y(value)))
        shade = 0.3 + 0.7 * math.sqrt(weight / heaviest)
        canvas.rect(
            left,
            upper,
            right - left,
            max(lower - upper, 0.8),
            f'class="bar" rx="2" fill-opacity="{shade:.2f}"',
        )
        canvas.text((left + right) / 2, bottom + 16, name, style="tick")
    canvas.text(LEFT, top - 10, unit, anchor="start", style="tick")
    return canvas.svg()


def heat(
    row_names: Sequence[str],
    column_names: Sequence[str],
    values: dict[tuple[str, str], float],
    unit: str,
    label: str,
) -> str:
    """A field of cells, blue below zero, orange to red above; a cell without records stays empty."""
    left, cell = 190, 24
    width = (WIDTH - left - RIGHT) / max(len(column_names), 1)
    canvas = Canvas(cell * len(row_names) + 52, 0, 1, label)
    known = sorted(values.values())
    # One outlier must not bleach the rest: the scale ends where 95 % of the cells do.
    strongest = max(abs(known[int(len(known) * 0.95)]), 1.0) if known else 1.0
    for row, row_name in enumerate(row_names):
        y = 4 + row * cell
        canvas.text(left - 10, y + 16, row_name, anchor="end", style="name")
        for column, column_name in enumerate(column_names):
            value = values.get((row_name, column_name))
            if value is None:
                continue
            share = max(-1.0, min(1.0, value / strongest))
            canvas.rect(
                left + column * width + 0.5,
                y + 0.5,
                width - 1,
                cell - 1,
                f'fill="{_diverging(share)}" rx="2"><title>{escape(row_name)}, {escape(column_name)}: '
                f'{value:.1f} {escape(unit)}</title></rect><rect width="0" height="0"',
            )
            if width > 30:
                colour = "#fff" if abs(share) > 0.6 else "#333"
                canvas.add(
                    f'<text x="{left + (column + 0.5) * width:.1f}" y="{y + 16:.1f}" text-anchor="middle" '
                    f'class="cell" style="fill:{colour}">{value:.0f}</text>'
                )
    bottom = 4 + cell * len(row_names)
    for column, column_name in enumerate(column_names):
        canvas.text(left + (column + 0.5) * width, bottom + 16, column_name, style="tick")
    canvas.text(WIDTH - RIGHT, bottom + 34, unit, anchor="end", style="tick")
    return canvas.svg()


def _diverging(share: float) -> str:
    """-1 blue, 0 near white, +1 dark red."""
    stops = ((-1.0, (33, 102, 172)), (0.0, (247, 245, 240)), (0.5, (244, 165, 96)), (1.0, (165, 28, 36)))
    for (low, first), (high, last) in itertools.pairwise(stops):
        if share <= high:
            part = (share - low) / (high - low)
            mixed = (round(a + (b - a) * part) for a, b in zip(first, last, strict=True))
            return "#" + "".join(f"{channel:02x}" for channel in mixed)
    return "#a51c24"


def stretches(slots: Iterable[tuple[float, int]], slot_s: float) -> list[tuple[float, float, int]]:
    """Neighbouring slots of one leader joined: (from, to, leader)."""
    joined: list[tuple[float, float, int]] = []
    for at, leader in slots:
        if joined and joined[-1][2] == leader and at - joined[-1][1] < slot_s * 2.5:
            joined[-1] = (joined[-1][0], at + slot_s, leader)
        else:
            joined.append((at, at + slot_s, leader))
    return joined
