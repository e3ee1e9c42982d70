"""Plots as SVG text, drawn here: no library, nothing loaded from anywhere, readable in any browser.

Each is drawn for a width: that of a page on a desk, and that of a telephone, where letters of the first would be too
small to read (page.py shows the one that fits). No line runs through a label.
"""

import math
from collections.abc import Iterable, Sequence

from odradek.pictures import markup
from odradek.pictures.colours import broker_colour, diverging, readable_on
from odradek.pictures.figures import number, rounded
from odradek.pictures.scales import Scale, nice_ticks

WIDE, NARROW = 1040, 420
LEFT, RIGHT = 64, 20
# More than the letters of a label are wide, each, whatever the font.
LETTER_PX = 7.4
LABEL_ROW_PX = 18
SWATCH_PX = 14
# A mark's place in the story; its colour is the page's, which knows whether it is light or dark.
MARKS = ("kill", "controller", "leader", "restart", "isr-full")


class Canvas:
    """An SVG under construction. x is in data units; y goes down in pixels."""

    def __init__(self, width: int, height: int, x_low: float, x_high: float, label: str) -> None:
        self.width, self.height = width, height
        self.x = Scale(x_low, max(x_high, x_low + 1e-9), LEFT, width - RIGHT)
        self.label = label
        self.parts: list[str] = []

    @property
    def right(self) -> int:
        return self.width - RIGHT

    @property
    def is_narrow(self) -> bool:
        return self.width < WIDE

    def text(self, x: float, y: float, words: str, *, anchor: str = "middle", **more: object) -> None:
        self.parts.append(markup.text(x, y, words, text_anchor=anchor, **more))

    def line(self, x1: float, y1: float, x2: float, y2: float, style: str) -> None:
        self.parts.append(markup.line(x1, y1, x2, y2, class_=style))

    def rect(self, x: float, y: float, width: float, height: float, tip: str = "", **more: object) -> None:
        self.parts.append(markup.rectangle(x, y, width, height, tip, **more))

    def polygon(self, points: Sequence[str], style: str) -> None:
        self.parts.append(markup.element("polygon", {"points": " ".join(points), "class_": style}))

    def x_axis(self, y: float, unit: str) -> None:
        self.line(LEFT, y, self.right, y, "axis")
        for tick in nice_ticks(self.x.low, self.x.high, 4 if self.is_narrow else 10):
            self.line(self.x(tick), y, self.x(tick), y + 4, "axis")
            self.text(self.x(tick), y + 18, number(tick), class_="tick")
        self.text(self.right, y + 34, unit, anchor="end", class_="tick")

    def svg(self) -> str:
        about = {
            "viewBox": f"0 0 {self.width} {self.height}",
            "role": "img",
            "aria_label": self.label,
            "class_": "narrow" if self.is_narrow else "wide",
            "xmlns": "http://www.w3.org/2000/svg",
        }
        return markup.element("svg", about, "\n" + "\n".join(self.parts) + "\n")


class Mark:
    """A moment to be drawn: a vertical line, and above all lines its words."""

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
    width: int = WIDE,
) -> str:
    """Acknowledgements per second as an area; below it a lane a partition, coloured by who leads.

    A lane is a list of (from, to, leader) stretches in which it had acknowledgements.
    """
    shown = [mark for mark in marks if first_s <= mark.seconds <= last_s]
    top = LABEL_ROW_PX * (len(shown) + 1) + 10
    plot = 190
    lane_height = 13
    bottom = top + plot
    height = bottom + 16 + lane_height * len(lanes) + 48
    canvas = Canvas(width, height, first_s, last_s, label)
    peak = max((value for at, value in samples if first_s <= at <= last_s), default=1.0) or 1.0
    ticks = nice_ticks(0, peak * 1.05, 4)
    scale = plot / max(ticks[-1], peak * 1.05)
    for tick in ticks:
        y = bottom - tick * scale
        canvas.line(LEFT, y, canvas.right, y, "grid")
        canvas.text(LEFT - 8, y + 4, number(tick), anchor="end", class_="tick")
    lanes_end = bottom + 12 + lane_height * len(lanes)
    if gap is not None and gap[1] >= first_s and gap[0] <= last_s:
        left, right = canvas.x(max(gap[0], first_s)), canvas.x(min(gap[1], last_s))
        canvas.rect(left, top, max(right - left, 1.5), lanes_end - top, class_="gap")
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
    canvas.polygon(points, "area")
    for index, (name, stretches) in enumerate(lanes):
        y = bottom + 12 + index * lane_height
        canvas.text(LEFT - 8, y + 10, name, anchor="end", class_="tick")
        for begin, end, leader in stretches:
            if end > first_s and begin < last_s:
                left, right = canvas.x(max(begin, first_s)), canvas.x(min(end, last_s))
                canvas.rect(left, y + 1, right - left, lane_height - 2, fill=broker_colour(leader))
    for row, mark in enumerate(shown):
        _draw_mark(canvas, mark, LABEL_ROW_PX * (row + 1), top, lanes_end)
    canvas.x_axis(lanes_end + 4, "seconds since the collector began")
    canvas.text(LEFT, top - 8, "acknowledged records per second", anchor="start", class_="tick")
    return canvas.svg()


def _draw_mark(canvas: Canvas, mark: Mark, y: float, top: float, bottom: float) -> None:
    """The line begins below the rows of words: what happened within milliseconds has its words one below the other, each
    behind a piece of its own line."""
    x = canvas.x(mark.seconds)
    canvas.line(x, top, x, bottom, f"mark {mark.name}")
    widest = SWATCH_PX + 5 + LETTER_PX * len(mark.words)
    left = max(4.0, min(x, canvas.right - widest))
    canvas.line(left, y - 4, left + SWATCH_PX, y - 4, f"mark {mark.name}")
    begin = left + SWATCH_PX + 5
    # More words than the canvas is wide, as on a telephone, are set closer instead of cut.
    room = canvas.width - begin if widest > canvas.width - left else None
    squeezed = {} if room is None else {"textLength": room, "lengthAdjust": "spacingAndGlyphs"}
    canvas.text(begin, y, mark.words, anchor="start", class_="words", **squeezed)


def _with_nought(values: Iterable[float]) -> tuple[float, float]:
    """The smallest and the largest, and nought between them; from nought to one where there is nothing else."""
    every = (0.0, *values)
    low, high = min(every), max(every)
    return (low, high) if low < high else (0.0, 1.0)


def bars(rows: Sequence[tuple[str, float, str]], label: str, *, width: int = WIDE) -> str:
    """Horizontal bars: (name, value, words). Where there is room the name stands before its bar, else above it."""
    is_narrow = width < WIDE
    row_px, name_px = (40, 18) if is_narrow else (24, 0)
    left, words_px = (4, 0) if is_narrow else (190, 180)
    low, high = _with_nought(value for _, value, _ in rows)
    canvas = Canvas(width, row_px * len(rows) + 30, 0, 1, label)
    right = canvas.right - words_px
    x = Scale(low, high, left, right)

    bottom = 8 + row_px * len(rows)
    ticks = nice_ticks(low, high, 4 if is_narrow else 6)
    for tick in ticks:
        canvas.text(x(tick), bottom + 16, number(tick), class_="tick")
    for index, (name, value, words) in enumerate(rows):
        y = 8 + index * row_px
        for tick in ticks:
            canvas.line(x(tick), y + name_px, x(tick), y + row_px, "grid")
        if is_narrow:
            canvas.text(left, y + 13, name, anchor="start", class_="name")
            canvas.text(canvas.right, y + 13, words, anchor="end", class_="tick")
        else:
            canvas.text(left - 10, y + 16, name, anchor="end", class_="name")
            canvas.text(canvas.right, y + 16, words, anchor="end", class_="tick")
        start, end = sorted((x(0), x(value)))
        canvas.rect(start, y + name_px + 3, max(end - start, 0.8), row_px - name_px - 7, class_="bar", rx=2)
    return canvas.svg()


def columns(rows: Sequence[tuple[str, float, float]], label: str, *, width: int = WIDE) -> str:
    """Columns with a value and a weight: the weight (how many records) is the shade of the column."""
    plot, top = 200, 14
    bottom = top + plot
    canvas = Canvas(width, bottom + 26, 0, max(len(rows), 1), label)
    low, high = _with_nought(value for _, value, _ in rows)
    ticks = nice_ticks(low, high * 1.05, 5)
    y = Scale(low, max(ticks[-1], high * 1.05), bottom, top)

    for tick in ticks:
        canvas.line(LEFT, y(tick), canvas.right, y(tick), "grid")
        canvas.text(LEFT - 8, y(tick) + 4, number(tick), anchor="end", class_="tick")
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
            class_="bar",
            rx=2,
            fill_opacity=f"{shade:.2f}",
        )
        if index % _every(rows[0][0], canvas.x(1) - canvas.x(0)) == 0:
            canvas.text((left + right) / 2, bottom + 18, name, class_="tick")
    return canvas.svg()


def _every(name: str, room_px: float) -> int:
    """Every how many columns there is room for a name of such a length."""
    return max(1, math.ceil(LETTER_PX * (len(name) + 1) / room_px))


def heat(
    row_names: Sequence[str],
    column_names: Sequence[str],
    values: dict[tuple[str, str], float],
    unit: str,
    label: str,
    *,
    width: int = WIDE,
) -> str:
    """A field of cells, blue below zero, orange to red above; a cell without records stays empty."""
    is_narrow = width < WIDE
    left, cell, name_px = (4, 24, 18) if is_narrow else (190, 24, 0)
    row_px = cell + name_px
    canvas = Canvas(width, row_px * len(row_names) + 30, 0, 1, label)
    cell_width = (canvas.right - left) / max(len(column_names), 1)
    known = sorted(values.values())
    # One outlier must not bleach the rest: the scale ends where 95 % of the cells do.
    strongest = max(abs(known[int(len(known) * 0.95)]), 1.0) if known else 1.0
    for row, row_name in enumerate(row_names):
        y = 4 + row * row_px
        if is_narrow:
            canvas.text(left, y + 13, row_name, anchor="start", class_="name")
        else:
            canvas.text(left - 10, y + 16, row_name, anchor="end", class_="name")
        for column, column_name in enumerate(column_names):
            value = values.get((row_name, column_name))
            if value is None:
                continue
            ground = diverging(max(-1.0, min(1.0, value / strongest)))
            words = f"{row_name}, {column_name}: {rounded(value, 1)} {unit}"
            at = left + column * cell_width
            canvas.rect(at + 0.5, y + name_px + 0.5, cell_width - 1, cell - 1, words, fill=ground, rx=2)
            if cell_width > 30:
                ink = f"fill:{readable_on(ground)}"
                middle = at + cell_width / 2
                canvas.text(
                    middle, y + name_px + 16, rounded(value), class_="cell", style=ink, data_on=ground
                )
    bottom = 4 + row_px * len(row_names)
    for column, column_name in enumerate(column_names):
        if column % _every(column_name, cell_width) == 0:
            canvas.text(left + (column + 0.5) * cell_width, bottom + 16, column_name, class_="tick")
    return canvas.svg()


def stretches(slots: Iterable[tuple[float, int]], slot_s: float) -> list[tuple[float, float, int]]:
    """Neighbouring slots of one leader joined: (from, to, leader)."""
    joined: list[tuple[float, float, int]] = []
    for at, leader in slots:
        if joined and joined[-1][2] == leader and at - joined[-1][1] < slot_s * 2.5:
            joined[-1] = (joined[-1][0], at + slot_s, leader)
        else:
            joined.append((at, at + slot_s, leader))
    return joined
