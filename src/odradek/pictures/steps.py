"""The twelve steps of reassignments as a strip of boxes each: done, open, to come; from a live cluster or a journal."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from odradek.advisor.reassignment_steps import STEPS
from odradek.pictures import colours
from odradek.pictures.document import page, paragraph, table
from odradek.pictures.drawing import Drawing
from odradek.pictures.figures import clock

if TYPE_CHECKING:
    from odradek.advisor.reassignment_steps import Reassigned
    from odradek.model.ids import TopicPartition

WIDTH, LEFT, BOX, GAP, ROW = 960, 190, 34, 4, 62


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
    return page(
        "Reassignments", [status_svg(rows), *(paragraph(f"{row.partition}: {row.sentence}") for row in rows)]
    )


def status_svg(rows: "Sequence[Reassigning]") -> str:
    drawing = Drawing(WIDTH, "reassignments by step")
    drawing.text(10, 22, f"{len(rows)} reassignments", 15)
    for place, row in enumerate(rows):
        y = 44 + place * ROW
        drawing.text(10, y + 16, row.partition)
        drawing.text(10, y + 32, f"to {','.join(map(str, row.target))}", 11)
        for number, what in enumerate(STEPS, start=1):
            state = "done" if row.is_done or number < row.step else "now" if number == row.step else "to come"
            _box(drawing, number, y, state, what)
        drawing.text(LEFT, y + BOX + 16, row.sentence, 11)
    return drawing.svg()


def draw_moved(move: "Reassigned") -> str:
    """What a journal knows: when each step happened."""
    drawing = Drawing(WIDTH, f"{move.topic_partition}: {list(move.origin)} to {list(move.target)}")
    drawing.text(10, 20, drawing.title, 13)
    open_ = next((step.number for step in move.steps if step.at_ms is None), len(move.steps) + 1)
    for step in move.steps:
        # A cancelled reassignment ended in the middle: nothing of it is open.
        is_open = step.number == open_ and move.ended_ms is None
        state = "done" if step.at_ms is not None else "now" if is_open else "to come"
        when = "" if step.at_ms is None else f" at {clock(step.at_ms)} {step.detail}"
        _box(drawing, step.number, 34, state, f"{step.what}{when}", left=10)
        if step.at_ms is not None:
            after = step.at_ms - move.began_ms
            drawing.text(
                10 + (step.number - 1) * (BOX * 2 + GAP) + BOX,
                34 + BOX + 15,
                f"+{after} ms",
                10,
                text_anchor="middle",
            )
    return drawing.svg()


def _box(drawing: Drawing, number: int, y: float, state: str, what: str, left: int = LEFT) -> None:
    wide = BOX * 2 if left != LEFT else BOX + 26
    x = left + (number - 1) * (wide + GAP)
    ground, ink = colours.STEPS[state]
    drawing.rectangle(x, y, wide, BOX, ground, f"step {number}, {state}: {what}", rx=4)
    drawing.text(x + wide / 2, y + BOX / 2 + 5, number, 13, ink, text_anchor="middle")


def steps_table(move: "Reassigned") -> str:
    """S0's table beside the steps: what stood in the store after each change."""
    steps = table(
        ("step", "what", "time (UTC)", ""),
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
