"""The twelve steps of reassignments as a strip of boxes each: done, open, to come; from a live cluster or a journal."""

from collections.abc import Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Protocol

from odradek.advisor.reassignment_steps import STEPS
from odradek.model.counted import counted
from odradek.pictures import colours
from odradek.pictures.document import page, paragraph, scrolling, table
from odradek.pictures.drawing import Drawing
from odradek.pictures.figures import clock

if TYPE_CHECKING:
    from odradek.advisor.reassignment_steps import Reassigned
    from odradek.model.ids import TopicPartition

WIDTH, LEFT, BOX, GAP = 960, 10, 34, 4
WIDE, WIDER = 60, 68  # a box, and one with a time below it
SENTENCE, LETTERS = 15, 140  # a line of it: how high, and how many letters fit into the width


class Reassigning(Protocol):
    """One reassignment as it stands; `step` 0: it does not run."""

    @property
    def partition(self) -> "TopicPartition": ...
    @property
    def target(self) -> "Sequence[int]": ...
    @property
    def step(self) -> int: ...
    @property
    def is_done(self) -> bool: ...
    @property
    def sentence(self) -> str: ...


def status_page(rows: "Sequence[Reassigning]") -> str:
    """What `reassign status` knows: the open step of each, and what it waits for."""
    picture = scrolling(status_svg(rows), "the steps of each reassignment")
    return page("Reassignments", [picture, *(paragraph(f"{row.partition}: {row.sentence}") for row in rows)])


def status_svg(rows: "Sequence[Reassigning]") -> str:
    drawing = Drawing(WIDTH, "reassignments by step")
    drawing.text(LEFT, 22, counted(len(rows), "reassignment"), 15)
    y = 52
    for row in rows:
        drawing.text(LEFT, y, f"{row.partition} to {','.join(map(str, row.target))}")
        y += 8
        for number, what in enumerate(STEPS, start=1):
            state = "done" if row.is_done or number < row.step else "now" if number == row.step else "to come"
            _box(drawing, number, y, state, what, WIDE)
        y += BOX
        for line in wrap(row.sentence, LETTERS):
            y += SENTENCE
            drawing.text(LEFT, y, line, 11)
        y += 30
    return drawing.svg()


def draw_moved(move: "Reassigned") -> str:
    """What a journal knows: when each step happened."""
    drawing = Drawing(WIDTH, f"{move.topic_partition}: {list(move.origin)} to {list(move.target)}")
    drawing.text(LEFT, 20, drawing.title, 13)
    open_ = next((step.number for step in move.steps if step.at_ms is None), len(move.steps) + 1)
    for step in move.steps:
        # A cancelled reassignment ended in the middle: nothing of it is open.
        is_open = step.number == open_ and move.ended_ms is None
        state = "done" if step.at_ms is not None else "now" if is_open else "to come"
        when = "" if step.at_ms is None else f" at {clock(step.at_ms)} {step.detail}"
        _box(drawing, step.number, 34, state, f"{step.what}{when}", WIDER)
        if step.at_ms is not None:
            after = step.at_ms - move.began_ms
            drawing.text(
                LEFT + (step.number - 1) * (WIDER + GAP) + WIDER / 2,
                34 + BOX + 15,
                f"+{after} ms",
                10,
                text_anchor="middle",
            )
    return drawing.svg()


def _box(drawing: Drawing, number: int, y: float, state: str, what: str, wide: int) -> None:
    x = LEFT + (number - 1) * (wide + GAP)
    ground, ink = colours.STEPS[state]
    drawing.rectangle(x, y, wide, BOX, ground, f"step {number}, {state}: {what}", rx=4)
    drawing.text(x + wide / 2, y + BOX / 2 + 5, number, 13, ink, text_anchor="middle")


def steps_table(move: "Reassigned") -> str:
    """S0's table beside the steps: what stood in the store after each change."""
    steps = table(
        ("step", "what", "time (UTC)", "detail"),
        [(s.number, s.what, "" if s.at_ms is None else clock(s.at_ms), s.detail) for s in move.steps],
    )
    rows = table(
        ("time (UTC)", "replicas", "leader", "epoch", "ISR"),
        [
            (
                clock(m.at_ms),
                list(m.replicas),
                "none" if m.is_offline else m.leader,
                m.leader_epoch,
                list(m.isr),
            )
            for m in move.moments
        ],
    )
    return f"{steps}\n{rows}"
